use super::*;
use crate::plan::tests::testing::rows;
use crate::plan::word;

#[test]
fn recognises_test_commands() {
    for (line, program) in [
        ("cargo test", Some("cargo")),
        ("RUST_BACKTRACE=1 cargo +nightly nextest run", Some("cargo")),
        (
            "cd sub && timeout 60 cargo test -p x 2>&1 | tail -20",
            Some("cargo"),
        ),
        ("pytest -q", Some("pytest")),
        (".venv/bin/python3.11 -m pytest tests", Some("pytest")),
        ("uv run pytest -k 'a or b'", Some("pytest")),
        ("python -m unittest discover", Some("unittest")),
        ("npm test", Some("npm")),
        ("pnpm run test:unit", Some("npm")),
        ("npx jest src", Some("jest")),
        ("yarn vitest run", Some("vitest")),
        ("go test ./...", Some("go")),
        ("./gradlew :app:test --info", Some("gradle")),
        ("make -C sub check", Some("make")),
        ("cargo build", None),
        ("cargo test --no-run", None),
        ("pytest --version", None),
        ("npm install jest", None),
        ("git commit -m 'x && cargo test'", None),
        ("echo \"run; pytest\"", None),
        ("cat > t.sh <<EOF\ncargo test\nEOF", None),
        ("grep -rn test src", None),
        ("python test.py", None),
        ("", None),
    ] {
        let found = commands(line)
            .iter()
            .find_map(|command| test_program(command));
        assert_eq!(found, program, "{line}");
    }
}

#[test]
fn test_run_ends_by_exit_code_or_summary() {
    // How the tests ended, the exit code, the output, and the line.
    let table = r#"
        passed | 0 | - | cargo test
        failed | 101 | error: could not compile | cargo test
        failed | 101 | test result: FAILED. 1 passed; 1 failed | cargo test 2>&1
        // The exit code is that of another command.
        failed | 0 | test result: FAILED. 1 passed; 1 failed | cargo test | tail -3
        unknown | 1 | - | cargo test | grep FAILED
        passed | 0 | test result: ok. 4 passed; 0 failed | cargo test; echo $?
        failed | 0 | 2 failed | cargo test || true
        unknown | 0 | - | pytest &
        failed | 1 | 2 failed, 3 passed in 0.1s | cd x && pytest
        failed | - | 1 error in 0.2s | pytest
        passed | - | ===== 3 passed in 0.1s ===== | pytest
        failed | - | FAILED (failures=1) | python -m unittest
        failed | - | --- FAIL: TestAdd (0.00s) | go test ./...
        passed | - | ok  \tx/calc\t0.01s | go test ./...
        failed | - | Tests:       1 failed, 3 passed, 4 total | npm test
        passed | - |  Tests  4 passed (4) | npx vitest
        failed | - | 5 tests completed, 1 failed | gradle test
        // No tests ran.
        - | 5 | no tests ran in 0.01s | pytest
        - | 127 | pytest: command not found | pytest
        - | 1 | npm error Missing script: "test" | npm test
        - | 1 | 1 failed | ls
        // A configured check.
        failed | 3 | - | ./ci.sh --fast
        - | 3 | - | ./other.sh"#;
    let checks = [("ci".to_owned(), "./ci.sh --fast".to_owned())];
    for [ended, exit, output, line] in rows(table) {
        let found = test_run(&line, exit.parse().ok(), &output, &checks);
        let found = found.map_or(String::new(), |found| word(&found));
        assert_eq!(found, ended, "{line}: {output}");
    }
}

#[test]
fn same_check_is_same_command_or_program() {
    for (line, check, same) in [
        ("cargo test calc", "cargo test --workspace", true),
        ("cd x && ./ci.sh", "./ci.sh", true),
        ("cargo test", "sh -c cargo test", true),
        ("./ci.sh fast", "./ci.sh", false),
        ("pytest", "cargo test", false),
        ("ls", "", false),
    ] {
        assert_eq!(runs_same(line, check), same, "{line}: {check}");
    }
}

#[test]
fn command_changes_what_its_text_shows() {
    let changed = ["src/calc.py".to_owned(), "notes.md".to_owned()];
    for (line, told) in [
        ("sed -i s/a/b/ src/calc.py", Some(true)),
        ("cd src && cat > calc.py <<'EOF'\nx\nEOF", Some(true)),
        ("echo x >> ./notes.md", Some(true)),
        ("cp /tmp/calc.py src/calc.py", Some(true)),
        ("cp src/calc.py /tmp/other.py", None),
        ("sed -n 1,9p src/calc.py", Some(false)),
        ("cat src/calc.py 2>/dev/null | head -5", Some(false)),
        ("git status && git diff", Some(false)),
        ("cargo test > /tmp/log 2>&1", Some(false)),
        ("cargo fmt", None),
        ("python make.py", None),
        ("git checkout src", None),
    ] {
        assert_eq!(changes(line, &changed), told, "{line}");
    }
}
