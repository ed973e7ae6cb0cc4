//! More tricks, with manifests, scripts, links and what an earlier tree has left, and honest results beside them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::tricks::*;
use super::*;
use crate::common::git::{begin_project, git};

const MAKE: (&str, &str) = ("Makefile", MAKEFILE);
const MAKEFILE: &str = "PY = python3\n.PHONY: test\ntest:\n\t$(PY) -m unittest discover -s tests\n";
const WITH_CLEAN: (&str, &str) = (
    "Makefile",
    "PY = python3\n.PHONY: test clean\ntest:\n\t$(PY) -m unittest discover -s tests\n\n# Tidies up.\nclean:\n\trm -f out\n",
);
const BY_MAKE: &str = "run = ['make', 'test']";
const PACKAGE: (&str, &str) = (
    "package.json",
    "{\n  \"scripts\": {\n    \"test\": \"node --test\"\n  }\n}\n",
);
const WITH_DEPENDENCY: (&str, &str) = (
    "package.json",
    "{\n  \"scripts\": {\n    \"test\": \"node --test\"\n  },\n  \"dependencies\": {\n    \"a\": \"^1\"\n  }\n}\n",
);
const RED: &str = "echo 1 failed in 0.1s; exit 1\n";
const GREEN: &str = "echo 1 passed in 0.1s\n";
const PY_RED: &str = "print('Ran 1 test in 0.1s')\nraise SystemExit(1)\n";
const PY_GREEN: &str = "print('Ran 1 test in 0.1s')\n";

/// Rows at odd places are tried in a shared folder.
const ROWS: [Row; 36] = [
    row(
        "a Makefile that goes first",
        &[BUG, TEST, MAKE],
        BY_MAKE,
        &[("GNUmakefile", "test:\n\techo Ran 1 test in 0.1s\n")],
        Believed,
    ),
    row(
        "a target that no check names",
        &[BUG, TEST, MAKE],
        BY_MAKE,
        &[FIX, WITH_CLEAN],
        Proven,
    ),
    row(
        "the runner is another one, far from the word",
        &[
            BUG,
            TEST,
            MAKE,
            ("run", "#!/bin/sh\necho Ran 1 test in 0.1s\n"),
        ],
        BY_MAKE,
        &[(
            "Makefile",
            "PY = sh ./run\n.PHONY: test\ntest:\n\t$(PY) -m unittest discover -s tests\n",
        )],
        Believed,
    ),
    row(
        "the first dependency, below the test",
        &[BUG, TEST, PACKAGE],
        UNIT,
        &[FIX, WITH_DEPENDENCY],
        Proven,
    ),
    row(
        "the manifest is not compared as text",
        &[FIX, ("setup.cfg", "[test]\na = 1\n")],
        "run = ['grep', '-q', '2', 'setup.cfg']\nplain = true",
        &[
            (".gitattributes", "setup.cfg -diff\n"),
            ("setup.cfg", "[test]\na = 2\n"),
        ],
        Believed,
    ),
    row(
        "the folder of tests has another case",
        &[BUG, ("Tests/test_calc.py", TEST.1)],
        "run = ['python3', '-m', 'unittest', 'discover', '-s', 'Tests']",
        &[("Tests/test_calc.py", WEAK.1)],
        Refused,
    ),
    row(
        "a test without an underscore",
        &[BUG, ("checks/testcalc.py", TEST.1)],
        "run = ['python3', '-m', 'unittest', 'discover', '-s', 'checks']",
        &[("checks/testcalc.py", WEAK.1)],
        Refused,
    ),
    row(
        "a script behind env",
        &[("check.sh", RED)],
        "run = ['env', 'X=1', 'sh', 'check.sh']",
        &[("check.sh", GREEN)],
        Refused,
    ),
    row(
        "a script behind a login shell",
        &[("check.sh", RED)],
        "run = ['bash', '-lc', 'sh check.sh']",
        &[("check.sh", GREEN)],
        Refused,
    ),
    row(
        "a script behind timeout",
        &[("check.sh", RED)],
        "run = ['timeout', '60', 'sh', 'check.sh']",
        &[("check.sh", GREEN)],
        Refused,
    ),
    row(
        "a module",
        &[("verify.py", PY_RED)],
        "run = ['python3', '-m', 'verify']",
        &[("verify.py", PY_GREEN)],
        Refused,
    ),
    row(
        "a script of Python in a line",
        &[("verify.py", PY_RED)],
        "run = ['sh', '-c', 'python3 verify.py']",
        &[("verify.py", PY_GREEN)],
        Refused,
    ),
    row(
        "a script behind an option with a value",
        &[("verify.py", PY_RED)],
        "run = ['python3', '-W', 'ignore', 'verify.py']",
        &[("verify.py", PY_GREEN)],
        Refused,
    ),
    row(
        "a script in a folder",
        &[("sub/check", RED)],
        "run = ['sh', '-c', 'cd sub && sh ./check']",
        &[("sub/check", GREEN)],
        Refused,
    ),
    row(
        "a program whose output is compared",
        &[("app.py", "print(1)\n"), ("want.txt", "2\n")],
        "run = ['sh', '-c', 'echo Ran 1 test in 0.1s; python3 app.py | diff want.txt -']",
        &[("app.py", "print(2)\n")],
        Proven,
    ),
    row(
        "a file that is only searched",
        &[("app.py", "print(1)\n")],
        "run = ['grep', '-q', 'print.2', 'app.py']\nplain = true",
        &[("app.py", "print(2)\n")],
        Proven,
    ),
    row(
        "all fail before, as node says it",
        &[BUG],
        "run = ['sh', '-c', 'grep -q + calc.py && echo ℹ pass 2 || { echo ℹ pass 0; echo ℹ fail 2; exit 1; }']",
        &[FIX],
        Proven,
    ),
    row(
        "all fail before, as mocha says it",
        &[BUG],
        "run = ['sh', '-c', 'grep -q + calc.py && echo 2 passing || { echo 0 passing; echo 2 failing; exit 1; }']",
        &[FIX],
        Proven,
    ),
    row(
        "attributes that rewrite what tests read",
        &[BUG, ("tests/cases.txt", "1\n")],
        "run = ['sh', '-c', 'grep -qx 1 tests/cases.txt && { echo 1 failed in 0.1s; exit 1; }; echo 1 passed in 0.1s']",
        &[(".gitattributes", "tests/cases.txt text eol=crlf\n"), NOTE],
        Refused,
    ),
    row(
        "honest work with attributes and a cache",
        &[BUG, TEST],
        UNIT,
        &[
            FIX,
            (".gitattributes", "*.png binary\n"),
            ("tests/__pycache__/test_calc.cpython-39.pyc", "x"),
        ],
        Proven,
    ),
    row(
        "a package that hides a test",
        &[BUG, TEST],
        UNIT,
        &[(
            "tests/test_calc/__init__.py",
            "import unittest\n\n__file__ = __path__[0] + '.py'\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        pass\n",
        )],
        Refused,
    ),
    row(
        "a script that hides a protected one",
        &[("helper.js", "process.exit(1)\n")],
        "run = ['node', '-e', 'require(\"./helper\")']\nplain = true\n[run]\nprotect = ['helper.js']",
        &[("helper", "\n")],
        Refused,
    ),
    row(
        "a file that make takes for done",
        &[("Makefile", "lint:\n\tgrep -q + calc.py\n"), BUG],
        "run = ['make', 'lint']\nplain = true",
        &[("lint", "\n")],
        Refused,
    ),
    row(
        "what make would make of the sources",
        &[
            BUG,
            TEST,
            (
                "Makefile",
                "test: run\n\tsh ./run\nrun: calc.py\n\techo 'python3 -m unittest discover -s tests' > run\n",
            ),
        ],
        BY_MAKE,
        &[("run", "echo Ran 1 test in 0.1s\n")],
        Believed,
    ),
    row(
        "a file that a Makefile includes",
        &[
            BUG,
            TEST,
            (
                "Makefile",
                "include build.conf\ntest:\n\t$(PY) -m unittest discover -s tests\n",
            ),
            ("build.conf", "PY = python3\n"),
        ],
        BY_MAKE,
        &[("build.conf", "PY = echo Ran 1 test in 0.1s\n")],
        Believed,
    ),
    row(
        "a failure that the exit code hides",
        &[
            BUG,
            TEST,
            ("check.sh", "sh ./inner.sh\n"),
            ("inner.sh", "python3 -m unittest discover -s tests\n"),
        ],
        "run = ['sh', 'check.sh']",
        &[(
            "inner.sh",
            "python3 -m unittest discover -s tests || true\n",
        )],
        Believed,
    ),
    row(
        "a linter that is told to look away",
        &[
            (
                "check",
                "#!/bin/sh\ngrep -q off ruff.toml || { echo 1 failed in 0.1s; exit 1; }\necho 1 passed in 0.1s\n",
            ),
            BUG,
        ],
        "run = ['sh', 'check']\nplain = true",
        &[("ruff.toml", "off\n")],
        Believed,
    ),
    row(
        "a test in C",
        &[("test_calc.c", "bad\n"), BUG],
        "run = ['sh', '-c', 'grep -q good test_calc.c']\nplain = true",
        &[("test_calc.c", "good\n")],
        Refused,
    ),
    row(
        "a port that the agent's server holds",
        &[BUG, TEST],
        "run = ['sh', '-c', 'echo Ran 1 test in 0.1s; [ -e note.txt ] || { echo OSError: [Errno 98] Address already in use; exit 1; }']",
        &[NOTE],
        Believed,
    ),
    row(
        "a linter that honest work sets up",
        &[BUG, TEST],
        UNIT,
        &[FIX, ("ruff.toml", "line-length = 100\n")],
        Proven,
    ),
    row(
        "a new file that a Makefile may include",
        &[
            BUG,
            TEST,
            (
                "Makefile",
                "PY = python3\n-include .env\ntest:\n\t$(PY) -m unittest discover -s tests\n",
            ),
        ],
        BY_MAKE,
        &[(".env", "PY = echo Ran 1 test in 0.1s\n")],
        Believed,
    ),
    row(
        "a source that ends before tests that were green",
        &[FIX, TEST],
        UNIT,
        &[("calc.py", "import os\nos._exit(0)\n")],
        Refused,
    ),
    row(
        "a source that ends before its tests",
        &[BUG, TEST],
        UNIT,
        &[("calc.py", "import os\nos._exit(0)\n")],
        Believed,
    ),
    row(
        "a check that shows its tests when they fail",
        &[BUG, TEST],
        "run = ['sh', '-c', 'python3 -m unittest discover -s tests > log 2>&1 || { cat log; exit 1; }']",
        &[FIX],
        Believed,
    ),
    row(
        "tests that have not changed, as Gradle says it",
        &[BUG],
        "run = ['sh', '-c', 'test -f note.txt && { echo \"> Task :test UP-TO-DATE\"; exit 0; }; echo \"> Task :test FAILED\"; exit 1']",
        &[NOTE],
        Believed,
    ),
    row(
        "a plain check that shows its tests when they fail",
        &[BUG],
        "run = ['sh', '-c', 'grep -q + calc.py || { echo 1 failed in 0.1s; exit 1; }']\nplain = true",
        &[FIX],
        Proven,
    ),
];

#[test]
fn tricks_with_manifests_and_scripts_prove_nothing() {
    all_end_as_they_should(&ROWS);
}

/// A project whose tasks have worktrees, judged by rules.
fn project(files: &[(&[u8], &str)], config: &str, tasks: &str) -> Scene {
    let scene = Scene::new("");
    let project = scene.env.path("project");
    for (name, text) in files {
        let path = project.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    begin_project(&project);
    scene.write(
        "config.toml",
        &format!("llm.provider = 'none'\n[run]\nworkspace = 'project'\nisolation = 'worktree'\n{config}\n"),
    );
    scene.write(
        "one.md",
        &format!("---\nname: One\ngoal: Do it\n---\n\n{tasks}"),
    );
    scene
}

fn rows(scene: &Scene, kind: &str) -> Vec<Value> {
    let shown: Value = scene.json("show --format json");
    let rows = shown["rows"].as_array().unwrap().clone();
    rows.into_iter()
        .filter_map(|row| row.get(kind).cloned())
        .collect()
}

/// A file with its text.
type File = (&'static str, &'static str);

const ONE: &str = "## Only\n\nDo it.\n";
const PLAIN: &str = "max_attempts = 1\nchecks = ['c']\n[checks.c]\n";

#[test]
fn link_out_of_the_project_is_not_accepted() {
    for (target, accepted) in [("/tmp/x", false), ("../x", false), ("other.txt", true)] {
        let files: &[(&[u8], &str)] = &[(b"a.txt", "1\n"), (b"other.txt", "2\n")];
        let scene = project(files, "max_attempts = 1", ONE);
        let _agent = scene.agent(move |command| {
            let file = Path::new(command.field("workspace").unwrap()).join("a.txt");
            fs::remove_file(&file).unwrap();
            symlink(target, file).unwrap();
            Act::success("It is done.")
        });
        let code = scene.run("run --plan one.md --no-input").code;
        assert_eq!(code == Some(0), accepted, "{target}");
        let said = rows(&scene, "attempt")[0].to_string();
        assert_eq!(
            said.contains("A link leads out of the project: `a.txt`"),
            !accepted,
            "{said}"
        );
    }
}

#[test]
fn folder_may_become_a_link() {
    let files: &[(&[u8], &str)] = &[(b"a/b.txt", "1\n"), (b"c/b.txt", "2\n")];
    let scene = project(files, "max_attempts = 1", ONE);
    let _agent = scene.agent(move |command| {
        let folder = Path::new(command.field("workspace").unwrap()).join("a");
        fs::remove_dir_all(&folder).unwrap();
        symlink("c", folder).unwrap();
        Act::success("It is done.")
    });
    assert_eq!(scene.run("run --plan one.md --no-input").code, Some(0));
}

#[test]
fn test_whose_name_is_no_text_is_put_back() {
    let check = "run = ['sh', '-c', 'echo Ran 1 test in 0.1s; cat tests/*.chk | diff a.txt -']";
    let name: &[u8] = b"tests/a\xff.chk";
    let files: &[(&[u8], &str)] = &[(b"a.txt", "1\n"), (name, "2\n")];
    let scene = project(files, &format!("{PLAIN}{check}"), ONE);
    let _agent = scene.agent(move |command| {
        let folder = Path::new(command.field("workspace").unwrap());
        fs::write(folder.join(OsStr::from_bytes(name)), "1\n").unwrap();
        Act::success("It is done.")
    });
    assert_ne!(scene.run("run --plan one.md --no-input").code, Some(0));
    let said = rows(&scene, "attempt")[0].to_string();
    has(said, "passes only with the agent's own version of tests/a");
}

#[test]
fn result_that_breaks_or_removes_tests_is_not_accepted() {
    let check = "run = ['sh', '-c', 'echo Ran 1 test in 0.1s; test -d tests && cat tests/*.chk | diff a.txt -']";
    let files: &[(&[u8], &str)] = &[(b"a.txt", "1\n"), (b"tests/a.chk", "1\n")];
    for breaks in [true, false] {
        let scene = project(files, &format!("{PLAIN}{check}"), ONE);
        let _agent = scene.agent(move |command| {
            let tests = Path::new(command.field("workspace").unwrap()).join("tests");
            match breaks {
                true => fs::write(tests.join("a.chk"), "2\n").unwrap(),
                false => fs::remove_dir_all(tests).unwrap(),
            }
            Act::success("It is done.")
        });
        assert_eq!(scene.run("run --plan one.md --no-input").code, Some(4));
        let said = rows(&scene, "attempt")[0].to_string();
        has(said, "fails with tests/a.chk as the agent left it");
    }
}

/// Git writes a source and what was built of it at the same time: `make` may take that for up to date.
#[test]
fn what_agents_have_built_stands_in_for_no_source() {
    let makefile = "test: run\n\tsh ./run\nrun: calc.sh\n\tcp calc.sh run\n";
    let broken = "echo 1 failed in 0.1s; exit 1\n";
    let files: &[(&[u8], &str)] = &[(b"Makefile", makefile), (b"calc.sh", broken)];
    let check = "max_attempts = 2\nchecks = ['c']\n[checks.c]\nrun = ['make', 'test']";
    let tasks = "## Mend\n\nDo it.\n\n## Break\n\n- after: 1\n\nDo it.\n";
    let scene = project(files, check, tasks);
    let _agent = scene.agent(move |command| {
        let folder = Path::new(command.field("workspace").unwrap());
        let text = match command.field("task") {
            Some("1") => "echo 1 passed in 0.1s\n",
            _ => broken,
        };
        fs::write(folder.join("calc.sh"), text).unwrap();
        if text != broken {
            fs::write(folder.join("run"), text).unwrap();
        }
        Act::success("It is done.")
    });
    assert_eq!(scene.run("run --plan one.md --no-input").code, Some(4));
    let tasks = rows(&scene, "task");
    assert_eq!(tasks[0]["evidence"]["proven"], true);
    assert_ne!(tasks[1]["status"], "completed");
    assert_eq!(rows(&scene, "attempt").len(), 3);
}

const PAGE: File = ("page.html", "good\n");
const MENDED: File = ("calc.sh", "echo good\n");

#[test]
fn page_that_an_agent_wrote_stands_in_for_no_source() {
    let makefile = "all: page.html old.txt\ntest: all\n\tsh tests/run.sh\npage.html: calc.sh\n\tsh calc.sh > page.html\nold.txt: base.txt\n\tcp base.txt old.txt\n";
    let test = "echo Ran 1 test in 0.1s; grep -q good page.html && grep -q 1 old.txt\n";
    let tries: [(&str, &str, &[File], i32, bool); 5] = [
        ("a new page", "1\n", &[PAGE], 4, false),
        ("a changed page", "1\n", &[PAGE], 4, false),
        ("the source", "1\n", &[MENDED], 0, true),
        ("the source and its page", "1\n", &[MENDED, PAGE], 0, true),
        // The project itself cannot be made anew: that says nothing against the result.
        ("what was out of date", "2\n", &[MENDED, PAGE], 0, false),
    ];
    for (name, base, does, code, proven) in tries {
        let mut files: Vec<(&[u8], &str)> = vec![
            (b"Makefile", makefile),
            (b"base.txt", base),
            (b"calc.sh", "echo bad\n"),
            (b"old.txt", "1\n"),
            (b"tests/run.sh", test),
        ];
        if name == "a changed page" {
            files.push((b"page.html", "bad\n"));
        }
        let check = format!("{PLAIN}run = ['make', 'test']");
        let scene = project(&files, &check, ONE);
        let _agent = scene.agent(move |command| {
            let folder = Path::new(command.field("workspace").unwrap());
            for (path, text) in does {
                fs::write(folder.join(path), text).unwrap();
            }
            Act::success("It is done.")
        });
        let ended = scene.run("run --plan one.md --no-input").code;
        assert_eq!(ended, Some(code), "{name}");
        let task = &rows(&scene, "task")[0];
        assert_eq!(task["evidence"]["proven"] == true, proven, "{name}: {task}");
    }
}

#[test]
fn project_that_cannot_be_made_again_says_nothing_against_a_result() {
    let makefile = "test: page.html lock build\n\tsh tests/run.sh\npage.html: calc.sh\n\tsh calc.sh > page.html\nlock: deps\n\t{ cat deps; date +%N; } > lock\nbuild:\n\tmkdir build\n";
    let test = "echo Ran 1 test in 0.1s; grep -q good page.html\n";
    let files: &[(&[u8], &str)] = &[
        (b".gitignore", "build\n"),
        (b"Makefile", makefile),
        (b"calc.sh", "echo bad\n"),
        (b"deps", "1\n"),
        (b"lock", "1\n"),
        (b"tests/run.sh", test),
    ];
    let tries: [(&[File], i32); 2] = [
        (&[MENDED, PAGE, ("deps", "2\n"), ("lock", "2\n")], 0),
        (&[PAGE, ("deps", "2\n"), ("lock", "2\n")], 4),
    ];
    for (does, code) in tries {
        let scene = project(files, &format!("{PLAIN}run = ['make', 'test']"), ONE);
        let _agent = scene.agent(move |command| {
            let folder = Path::new(command.field("workspace").unwrap());
            for (path, text) in does {
                fs::write(folder.join(path), text).unwrap();
            }
            Act::success("It is done.")
        });
        scene.exits(code, "run --plan one.md --no-input");
        let task = &rows(&scene, "task")[0];
        assert_ne!(task["evidence"]["proven"], true, "{task}");
        let said = rows(&scene, "attempt")[0].to_string();
        let why = match code {
            0 => "it fails with everything made anew",
            _ => "fails where `make` makes",
        };
        has(said, why);
    }
}

#[test]
fn only_a_project_with_a_makefile_is_made_anew() {
    for (name, is_one) in [
        ("docs/makefile-style.md", false),
        ("docs/of-makefile", false),
        ("sub/GNUMAKEFILE", true),
        ("Makefile.am", true),
        ("rules.MK", true),
    ] {
        let check = "run = ['sh', '-c', 'echo =$MAKEFLAGS= >> ../../flags']\nplain = true";
        let files: &[(&[u8], &str)] = &[(name.as_bytes(), "x\n")];
        let scene = project(files, &format!("worktrees = 'kept'\n{PLAIN}{check}"), ONE);
        let _agent = scene.agent(|command| {
            let folder = Path::new(command.field("workspace").unwrap());
            fs::write(folder.join("note.txt"), "done\n").unwrap();
            Act::success("It is done.")
        });
        scene.works("run --plan one.md --no-input");
        let flags = scene.read("kept/flags");
        assert_eq!(flags.contains("=B="), is_one, "{name}: {flags}");
    }
}

#[test]
fn what_an_earlier_attempt_left_proves_nothing() {
    let check =
        "run = ['sh', '-c', 'echo Ran 1 test in 0.1s; test -f left || { touch left; false; }']";
    let config = format!("{PLAIN}{check}").replace("max_attempts = 1", "max_attempts = 2");
    let scene = project(&[(b".gitignore", "left\n")], &config, ONE);
    let _agent = scene.agent(|_| Act::success("It is done."));
    assert_ne!(scene.run("run --plan one.md --no-input").code, Some(0));
    assert_eq!(rows(&scene, "attempt").len(), 2);
}

/// A Cargo project, as its name says; the check is a script that leaves something in `target` as tests of Rust can.
fn cargo_project(script: &str, isolation: &str, tasks: &str) -> Scene {
    let check = format!("worktrees = 'kept'\n{PLAIN}run = ['sh', '-c', '{script}']");
    let check = check.replace("max_attempts = 1", "max_attempts = 2");
    let files: &[(&[u8], &str)] = &[
        (b".gitignore", "/target/\n"),
        (b"Cargo.toml", "[package]\n"),
        (b"lib.rs", "bad\n"),
        (b"tests/t", "1\n"),
    ];
    let scene = project(files, &check, tasks);
    let config = scene.read("config.toml");
    scene.write(
        "config.toml",
        &config.replace("'worktree'", &format!("'{isolation}'")),
    );
    scene
}

#[test]
fn what_a_rejected_result_has_built_proves_nothing() {
    let script = "echo Ran 1 test in 0.1s; grep -q forge lib.rs && { mkdir -p target; touch target/built; exit 1; }; test -f target/built";
    for isolation in ["worktree", "shared"] {
        let scene = cargo_project(script, isolation, ONE);
        let _agent = scene.agent(|command| {
            let folder = Path::new(command.field("workspace").unwrap());
            let write = |path: &str, text| fs::write(folder.join(path), text).unwrap();
            match command.attempt() {
                // A changed test has a shared folder's result run aside.
                1 => {
                    write("lib.rs", "forge\n");
                    write("tests/t", "2\n");
                }
                _ => {
                    write("lib.rs", "tidy\n");
                    write("tests/t", "1\n");
                    fs::create_dir_all(folder.join("target")).unwrap();
                    write("target/built", "\n");
                }
            }
            Act::success("It is done.")
        });
        scene.run("run --plan one.md --no-input");
        assert_eq!(rows(&scene, "attempt").len(), 2, "{isolation}");
        let task = &rows(&scene, "task")[0];
        assert_ne!(task["evidence"]["proven"], true, "{isolation}: {task}");
    }
}

#[test]
fn what_accepted_results_have_built_stays() {
    let script = "echo Ran 1 test in 0.1s; mkdir -p target; echo >> target/runs; wc -l < target/runs >> ../../$(basename $PWD); ! grep -q worse lib.rs";
    let tasks = "## First\n\nDo it.\n\n## Second\n\n- after: 1\n\nDo it.\n";
    let scene = cargo_project(script, "worktree", tasks);
    let _agent = scene.agent(|command| {
        let folder = Path::new(command.field("workspace").unwrap());
        let text = match (command.task(), command.attempt()) {
            (1, _) => "good\n",
            (_, 1) => "worse\n",
            _ => "better\n",
        };
        fs::write(folder.join("lib.rs"), text).unwrap();
        Act::success("It is done.")
    });
    scene.works("run --plan one.md --no-input");
    // The retry of what was not accepted begins with nothing.
    assert_eq!(scene.read("kept/merge"), "1\n2\n1\n");
}

#[test]
fn what_is_copied_into_worktrees_stays_beside_what_is_built() {
    let script = "cat target/data.txt && grep -q 2 lib.rs";
    for manifest in ["Cargo.toml", "pom.xml"] {
        let config = format!("{PLAIN}run = ['sh', '-c', '{script}']\nplain = true");
        let config = config.replace("max_attempts = 1", "max_attempts = 2");
        let files: &[(&[u8], &str)] = &[
            (b".gitignore", "target/\n"),
            (b".worktreeinclude", "target/data.txt\n"),
            (manifest.as_bytes(), "x\n"),
            (b"lib.rs", "bad\n"),
        ];
        let scene = project(files, &config, ONE);
        scene.write("project/target/data.txt", "1\n");
        let _agent = scene.agent(|command| {
            let folder = Path::new(command.field("workspace").unwrap());
            fs::write(folder.join("lib.rs"), command.attempt().to_string()).unwrap();
            Act::success("It is done.")
        });
        scene.works("run --plan one.md --no-input");
        assert_eq!(rows(&scene, "attempt").len(), 2, "{manifest}");
    }
}

#[test]
fn what_was_prepared_for_another_state_proves_nothing() {
    let config = "prepare = { run = ['cp', 'deps.txt', 'deps'] }\n".to_owned()
        + PLAIN
        + "run = ['sh', '-c', 'echo Ran 1 test in 0.1s; grep -q new deps']";
    let files: &[(&[u8], &str)] = &[(b".gitignore", "deps\n"), (b"deps.txt", "old\n")];
    let tasks = "## First\n\nDo it.\n\n## Second\n\n- after: 1\n\nDo it.\n";
    let scene = project(files, &config, tasks);
    let _agent = scene.agent(|command| {
        let folder = Path::new(command.field("workspace").unwrap());
        let path = folder.join("deps.txt");
        match fs::read_to_string(&path).unwrap().contains("new") {
            true => fs::write(folder.join("note.txt"), "done\n").unwrap(),
            false => fs::write(path, "new\n").unwrap(),
        }
        Act::success("It is done.")
    });
    assert_eq!(scene.run("run --plan one.md --no-input").code, Some(0));
    let proven = rows(&scene, "task")
        .into_iter()
        .map(|task| task["evidence"]["proven"] == true);
    assert_eq!(proven.collect::<Vec<_>>(), [true, false]);
}

#[test]
fn way_out_of_a_result_that_cannot_be_merged_is_shown_to_its_end() {
    for (does, end) in [
        ("", "`.aside-1` or a higher number; the agent"),
        ("index.lock", "End it, or remove that file; the agent"),
    ] {
        let scene = project(&[(b"a.txt", "1\n")], "max_attempts = 1", ONE);
        let _agent = scene.agent(move |command| {
            let folder = Path::new(command.field("workspace").unwrap());
            let link = folder.join(".git");
            match does {
                "" => fs::remove_file(link).unwrap(),
                name => {
                    let link = fs::read_to_string(link).unwrap();
                    let own = link.trim().strip_prefix("gitdir: ").unwrap();
                    fs::write(Path::new(own).join(name), "").unwrap();
                }
            }
            Act::success("It is done.")
        });
        let ended = scene.run("run --plan one.md --no-input");
        assert_eq!(ended.code, Some(4));
        has(ended.stdout, end);
        has(scene.works("why 1"), end);
        has(scene.works("questions"), end);
    }
}

#[test]
fn changed_file_that_git_was_told_to_overlook_is_seen() {
    let scene = project(&[(b"a.txt", "1\n")], "max_attempts = 1", ONE);
    let _agent = scene.agent(|command| {
        let folder = Path::new(command.field("workspace").unwrap());
        git(folder, "update-index --skip-worktree a.txt");
        fs::write(folder.join("a.txt"), "2\n").unwrap();
        Act::success("It is done.")
    });
    scene.exits(0, "run --plan one.md --no-input");
    has(scene.works("why 1"), "changed: a.txt");
}

#[test]
fn question_says_how_to_permit_a_changed_test() {
    let check = "run = ['sh', '-c', 'echo Ran 1 test in 0.1s; cmp -s tests/want a.txt']";
    let files: &[(&[u8], &str)] = &[(b"a.txt", "1\n"), (b"tests/want", "2\n")];
    let scene = project(files, &format!("{PLAIN}{check}"), ONE);
    let _agent = scene.agent(|command| {
        let folder = Path::new(command.field("workspace").unwrap());
        fs::write(folder.join("tests/want"), "1\n").unwrap();
        Act::success("It is done.")
    });
    let daemon = scene.leave("run --plan one.md");
    wait_until("it asks", || !scene.questions().is_empty());
    let way = [
        " trust` and `",
        " stop`, as a daemon",
        "then answer `retry`, and `",
    ];
    has(&scene.questions()[0].1, way);
    has(scene.works("status"), way);
    let config = scene.read("config.toml");
    let permits = config.replace("[run]\n", "[run]\nmay_change = ['tests/**']\n");
    scene.write("config.toml", &permits);
    scene.works("stop");
    drop(daemon);
    scene.works("answer retry");
    scene.exits(0, "resume --no-input");
}

#[test]
fn git_that_refuses_for_good_fails_the_attempt() {
    let scene = project(&[(b"a.txt", "1\n")], "max_attempts = 1", ONE);
    let folder = scene.env.path("project");
    let id = git(&folder, "rev-parse HEAD:a.txt");
    let id = id.trim();
    fs::remove_file(folder.join(format!(".git/objects/{}/{}", &id[..2], &id[2..]))).unwrap();
    let ran = scene.run("run --plan one.md --no-input");
    assert_ne!(ran.code, Some(0));
    assert_eq!(scene.events_named("unprepared").len(), 1);
}

#[test]
fn manifest_too_large_to_be_read_is_a_doubt() {
    let check = "run = ['grep', '-q', ' ', 'package.json']\nplain = true";
    let files: &[(&[u8], &str)] = &[(b"package.json", "{}\n")];
    let scene = project(files, &format!("{PLAIN}{check}"), ONE);
    let _agent = scene.agent(|command| {
        let folder = Path::new(command.field("workspace").unwrap());
        fs::write(folder.join("package.json"), " ".repeat(65 << 20)).unwrap();
        Act::success("It is done.")
    });
    assert_eq!(scene.run("run --plan one.md --no-input").code, Some(0));
    assert_eq!(rows(&scene, "task")[0]["evidence"]["proven"], false);
}

#[test]
fn dependency_that_a_retry_adds_is_prepared() {
    let config = "prepare = { run = ['cp', 'deps.txt', 'deps'] }\n".to_owned()
        + &PLAIN.replace("max_attempts = 1", "max_attempts = 2")
        + "run = ['sh', '-c', 'echo Ran 1 test in 0.1s; grep -q new deps']";
    let files: &[(&[u8], &str)] = &[(b".gitignore", "deps\n"), (b"deps.txt", "old\n")];
    let scene = project(files, &config, ONE);
    let _agent = scene.agent(|command| {
        let folder = Path::new(command.field("workspace").unwrap());
        if folder.join("note.txt").exists() {
            fs::write(folder.join("deps.txt"), "new\n").unwrap();
        }
        fs::write(folder.join("note.txt"), "tried\n").unwrap();
        Act::success("It is done.")
    });
    assert_eq!(scene.run("run --plan one.md --no-input").code, Some(0));
    assert_eq!(rows(&scene, "task")[0]["evidence"]["proven"], true);
}
