use super::*;

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
    use TestRun::{Failed, Passed, Unknown};
    for (line, exit, output, ended) in [
        ("cargo test", Some(0), "", Some(Passed)),
        (
            "cargo test",
            Some(101),
            "error: could not compile",
            Some(Failed),
        ),
        (
            "cargo test 2>&1",
            Some(101),
            "test result: FAILED. 1 passed; 1 failed",
            Some(Failed),
        ),
        // The exit code is that of another command.
        (
            "cargo test | tail -3",
            Some(0),
            "test result: FAILED. 1 passed; 1 failed",
            Some(Failed),
        ),
        ("cargo test | grep FAILED", Some(1), "", Some(Unknown)),
        (
            "cargo test; echo $?",
            Some(0),
            "test result: ok. 4 passed; 0 failed",
            Some(Passed),
        ),
        ("cargo test || true", Some(0), "2 failed", Some(Failed)),
        ("pytest &", Some(0), "", Some(Unknown)),
        (
            "cd x && pytest",
            Some(1),
            "2 failed, 3 passed in 0.1s",
            Some(Failed),
        ),
        ("pytest", None, "1 error in 0.2s", Some(Failed)),
        ("pytest", None, "===== 3 passed in 0.1s =====", Some(Passed)),
        (
            "python -m unittest",
            None,
            "FAILED (failures=1)",
            Some(Failed),
        ),
        (
            "go test ./...",
            None,
            "--- FAIL: TestAdd (0.00s)",
            Some(Failed),
        ),
        ("go test ./...", None, "ok  \tx/calc\t0.01s", Some(Passed)),
        (
            "npm test",
            None,
            "Tests:       1 failed, 3 passed, 4 total",
            Some(Failed),
        ),
        ("npx vitest", None, " Tests  4 passed (4)", Some(Passed)),
        (
            "gradle test",
            None,
            "5 tests completed, 1 failed",
            Some(Failed),
        ),
        // No tests ran.
        ("pytest", Some(5), "no tests ran in 0.01s", None),
        ("pytest", Some(127), "pytest: command not found", None),
        (
            "npm test",
            Some(1),
            "npm error Missing script: \"test\"",
            None,
        ),
        ("ls", Some(1), "1 failed", None),
        // A configured check.
        ("./ci.sh --fast", Some(3), "", Some(Failed)),
        ("./other.sh", Some(3), "", None),
    ] {
        let checks = [("ci".to_owned(), "./ci.sh --fast".to_owned())];
        assert_eq!(
            test_run(line, exit, output, &checks),
            ended,
            "{line}: {output}"
        );
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
