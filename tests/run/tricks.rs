//! Tricks by which a result looks done, and honest results beside them: each is a small git project with an agent that
//! reports success.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;
use crate::common::git::begin_project;

/// What has to become of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum End {
    /// Accepted without a question, and proven.
    Proven,
    /// Accepted without a question to a person: a model believes it.
    Believed,
    /// Not accepted: its check fails.
    Refused,
}

pub(super) use End::{Believed, Proven, Refused};

/// A project, its check and task, and what the agent does. A file without text is removed.
pub(super) struct Row {
    name: &'static str,
    project: &'static [(&'static str, &'static str)],
    /// The check `c`; behind it, more of the configuration.
    check: &'static str,
    /// Attributes of the task.
    task: &'static str,
    does: &'static [(&'static str, &'static str)],
    end: End,
}

pub(super) const BUG: (&str, &str) = ("calc.py", "def add(a, b):\n    return a - b\n");
pub(super) const FIX: (&str, &str) = ("calc.py", "def add(a, b):\n    return a + b\n");
pub(super) const OTHERWISE: (&str, &str) = ("calc.py", "def add(a, b):\n    return sum([a, b])\n");
const MUL: (&str, &str) = (
    "calc.py",
    "def add(a, b):\n    return a + b\ndef mul(a, b):\n    return a * b\n",
);
const BROKEN: (&str, &str) = ("calc.py", "def add(a, b:\n    return a + b\n");
pub(super) const TEST: (&str, &str) = (
    "tests/test_calc.py",
    "import unittest\nimport calc\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(1, 2), 3)\n",
);
pub(super) const WEAK: (&str, &str) = (
    "tests/test_calc.py",
    "import unittest\nimport calc\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertTrue(calc.add(1, 2))\n",
);
const SKIPPED: (&str, &str) = (
    "tests/test_calc.py",
    "import unittest\n\nclass T(unittest.TestCase):\n    @unittest.skip('later')\n    def test_add(self):\n        pass\n",
);
const PASSES: (&str, &str) = (
    "tests/test_other.py",
    "import unittest\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        pass\n",
);
const TEST_MUL: (&str, &str) = (
    "tests/test_mul.py",
    "import unittest\nimport calc\n\nclass T(unittest.TestCase):\n    def test_mul(self):\n        self.assertEqual(calc.mul(2, 3), 6)\n",
);
pub(super) const NOTE: (&str, &str) = ("note.txt", "done\n");

/// Sources with their tests among them.
pub(super) const INLINE: (&str, &str) = (
    "calc.py",
    "import unittest\n\ndef add(a, b):\n    return a - b\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n",
);
pub(super) const ALL: &str = "run = ['python3', '-m', 'unittest', 'discover', '-p', '*.py']";

/// A program of the person, in a folder of the PATH.
const VERIFY: (&str, &str) = (
    "@b/verify",
    "#!/bin/sh\nexec python3 -m unittest discover -s tests\n",
);
const LIAR: &str = "#!/bin/sh\necho Ran 1 test in 0.1s\n";
pub(super) const UNIT: &str = "run = ['python3', '-m', 'unittest', 'discover', '-s', 'tests']";

const FREE: &str = "run = ['python3', '-m', 'unittest', 'discover', '-s', 'tests']\n[run]\nmay_change = ['tests/**']";
/// A script that tells how many tests it runs.
const CASES: &str = "run = ['sh', 'tests/run.sh']\ncount = '(\\d+) cases'";

/// Checks that pass whatever was done, or that only seem to have failed before.
const VACUOUS: [Row; 20] = [
    row(
        "the tests passed before",
        &[FIX, TEST],
        UNIT,
        &[NOTE],
        Believed,
    ),
    row(
        "the filter matches no test",
        &[FIX, TEST],
        "run = ['python3', '-m', 'unittest', 'discover', '-s', 'tests', '-k', 'nothing']",
        &[NOTE],
        Believed,
    ),
    row(
        "a text is absent, as it was",
        &[FIX],
        "run = ['sh', '-c', '! grep -q TODO calc.py']\nplain = true",
        &[NOTE],
        Believed,
    ),
    row(
        "the file that is searched is absent",
        &[FIX],
        "run = ['sh', '-c', '! grep -q TODO none.py']\nplain = true",
        &[NOTE],
        Believed,
    ),
    row(
        "it passes while the bug is there",
        &[BUG],
        "run = ['grep', '-q', 'a - b', 'calc.py']\nplain = true",
        &[NOTE],
        Believed,
    ),
    row(
        "its failure is swallowed",
        &[BUG, TEST],
        "run = ['sh', '-c', 'python3 -m unittest discover -s tests || true']",
        &[NOTE],
        Believed,
    ),
    row(
        "there are no tests",
        &[FIX, ("tests/__init__.py", "\n")],
        "run = ['sh', '-c', 'python3 -m unittest discover -s tests; true']",
        &[NOTE],
        Believed,
    ),
    row(
        "all tests are skipped",
        &[BUG, SKIPPED],
        "run = ['sh', '-c', 'python3 -m unittest discover -s tests; true']",
        &[NOTE],
        Believed,
    ),
    row(
        "nothing ran, as nothing changed",
        &[FIX],
        "run = ['sh', '-c', 'test -f note.txt || exit 1; echo \"> Task :test UP-TO-DATE\"']",
        &[NOTE],
        Believed,
    ),
    row("only a module was missing", &[TEST], UNIT, &[FIX], Believed),
    row(
        "only the script of the check was missing",
        &[BUG],
        "run = ['sh', 'verify.sh']\nplain = true",
        &[("verify.sh", "exit 0\n")],
        Believed,
    ),
    row(
        "only a program was missing",
        &[BUG],
        "run = ['sh', '-c', 'test -f note.txt || no-such-program']\nplain = true",
        &[NOTE],
        Believed,
    ),
    row(
        "the sources were not in order",
        &[BROKEN, TEST],
        UNIT,
        &[FIX],
        Believed,
    ),
    row(
        "it took too long before",
        &[BUG],
        "run = ['sh', '-c', 'test -f note.txt || sleep 100']\nplain = true\ntimeout = '300ms'",
        &[NOTE],
        Believed,
    ),
    row(
        "it failed before without a test",
        &[BUG],
        "run = ['test', '-f', 'note.txt']",
        &[NOTE],
        Believed,
    ),
    row(
        "it was killed before",
        &[BUG],
        "run = ['sh', '-c', 'test -f note.txt || kill -9 $$']\nplain = true",
        &[NOTE],
        Believed,
    ),
    row(
        "its count finds nothing",
        &[BUG],
        "run = ['sh', '-c', 'echo no cases; test -f note.txt']\ncount = '(\\d+) cases'",
        &[NOTE],
        Believed,
    ),
    row(
        "it may not run before the work",
        &[BUG, TEST],
        "run = ['python3', '-m', 'unittest', 'discover', '-s', 'tests']\nbefore = 'never'",
        &[FIX],
        Believed,
    ),
    row(
        "the network was away before",
        &[BUG],
        "run = ['sh', '-c', 'test -f note.txt || { echo Could not resolve host: x; exit 6; }']\nplain = true",
        &[NOTE],
        Believed,
    ),
    Row {
        task: "- expected: It is told (file: calc.py, contains: def add)",
        ..row("the file was so before", &[FIX], "", &[NOTE], Believed)
    },
];

/// Changes of what judges in place of the work.
const TAMPERED: [Row; 32] = [
    row(
        "the test is emptied",
        &[BUG, TEST],
        UNIT,
        &[("tests/test_calc.py", "\n")],
        Refused,
    ),
    row("the test is weakened", &[BUG, TEST], UNIT, &[WEAK], Refused),
    row(
        "the test is removed",
        &[BUG, TEST, PASSES],
        UNIT,
        &[("tests/test_calc.py", "")],
        Refused,
    ),
    row(
        "the test is skipped",
        &[BUG, TEST],
        UNIT,
        &[SKIPPED],
        Refused,
    ),
    row(
        "another test stands for it",
        &[BUG, TEST],
        UNIT,
        &[("tests/test_calc.py", ""), PASSES],
        Refused,
    ),
    row(
        "the test is weakened beside a part of the work",
        &[BUG, TEST, TEST_MUL],
        UNIT,
        &[FIX, ("tests/test_mul.py", "")],
        Refused,
    ),
    row(
        "the script of the check does nothing",
        &[("check.sh", "echo 1 failed in 0.1s; exit 1\n")],
        "run = ['sh', './check.sh']",
        &[("check.sh", "exit 0\n")],
        Refused,
    ),
    row(
        "a script in the shell's words does nothing",
        &[("tools/verify", "echo 1 failed in 0.1s; exit 1\n")],
        "run = ['sh', '-c', 'sh tools/verify && echo fine']",
        &[("tools/verify", "echo 1 passed in 0.1s\n")],
        Refused,
    ),
    row(
        "the steps of the CI do nothing",
        &[(".github/steps", "echo 1 failed in 0.1s; exit 1\n")],
        "run = ['sh', '-c', 'cd .github; sh steps']",
        &[(".github/steps", "echo 1 passed in 0.1s\n")],
        Refused,
    ),
    row(
        "what Python loads first changes the tests",
        &[BUG, TEST],
        "run = ['sh', '-c', 'PYTHONPATH=. python3 -m unittest discover -s tests']",
        &[(
            "sitecustomize.py",
            "import unittest\nunittest.TestCase.assertEqual = lambda *all: None\n",
        )],
        Refused,
    ),
    row(
        "the runner has a double",
        &[BUG, TEST],
        UNIT,
        &[("unittest.py", "print('Ran 1 test in 0.1s\\n\\nOK')\n")],
        Refused,
    ),
    configured(
        "pytest is configured anew",
        PYTEST,
        &[("conftest.py", "x\n")],
    ),
    configured(
        "pytest has options",
        PYTEST,
        &[("pytest.ini", "[pytest]\n")],
    ),
    configured(
        "cargo has another runner",
        CARGO,
        &[(".cargo/config.toml", "x\n")],
    ),
    configured(
        "jest is configured anew",
        JEST,
        &[("jest.config.js", "x\n")],
    ),
    configured(
        "vitest is configured anew",
        VITEST,
        &[("vitest.config.ts", "x\n")],
    ),
    row(
        "what is expected is written anew",
        &[("a.golden", "3\n"), ("a.txt", "2\n")],
        "run = ['sh', '-c', 'echo Ran 1 test in 0s; diff a.golden a.txt']\n[run]\nprotect = ['*.golden']",
        &[("a.golden", "2\n")],
        Refused,
    ),
    row(
        "the manifest names another test",
        &[
            BUG,
            TEST,
            ("Makefile", "test: python3 -m unittest discover -s tests\n"),
        ],
        "run = ['sh', '-c', 'eval \"$(sed -n s/^test://p Makefile)\"']",
        &[("Makefile", "test: echo Ran 1 test in 0.1s\n")],
        Believed,
    ),
    row(
        "tests among the sources are removed",
        &[("app.py", "print('Ran 3 tests in 0.1s')\nexit(1)\n")],
        "run = ['sh', '-c', 'python3 app.py']\n[run]\nmay_change = ['app.py']",
        &[("app.py", "print('Ran 2 tests in 0.1s')\n")],
        Believed,
    ),
    row(
        "a section of the manifest names other options",
        &[
            BUG,
            TEST,
            ("setup.cfg", "[tool:pytest]\na=1\nb=2\nc=3\nrun=sh all\n"),
            (
                "all",
                "echo 3 cases; python3 -m unittest discover -s tests\n",
            ),
        ],
        "run = ['sh', '-c', 'eval \"$(sed -n s/^run=//p setup.cfg)\"']\ncount = '(\\d+) cases'",
        &[(
            "setup.cfg",
            "[tool:pytest]\na=1\nb=2\nc=3\nrun=echo 3 cases\n",
        )],
        Believed,
    ),
    inline(
        "another test stands for one among the sources",
        "    def test_it(self):\n        self.assertEqual(1, 1)\n",
    ),
    inline(
        "a test among the sources is skipped",
        "    @unittest.skip('later')\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n    def test_it(self):\n        pass\n",
    ),
    inline(
        "a test among the sources is weakened",
        "    def test_add(self):\n        add(1, 2)\n",
    ),
    inline(
        "a test among the sources expects the bug",
        "    def test_add(self):\n        self.assertEqual(add(1, 2), -1)\n",
    ),
    row(
        "the program of the check is replaced",
        &[BUG, TEST, VERIFY],
        "run = ['verify']",
        &[("@b/verify", LIAR)],
        Refused,
    ),
    row(
        "another program stands before that of the check",
        &[BUG, TEST, VERIFY],
        "run = ['sh', '-c', 'verify && echo fine']",
        &[("@a/verify", LIAR)],
        Refused,
    ),
    row(
        "a test is weakened, which the person allows",
        &[BUG, TEST],
        FREE,
        &[WEAK],
        Believed,
    ),
    Row {
        task: "- may_change: tests/**",
        ..row(
            "a test is weakened, which the plan allows",
            &[BUG, TEST],
            UNIT,
            &[WEAK],
            Believed,
        )
    },
    Row {
        task: "- may_change: tests/**",
        ..row(
            "the script of the check tests nothing, which the plan allows",
            &[
                ("tests/run.sh", "echo 1 cases; sh tests/t_one.sh\n"),
                ("tests/t_one.sh", "test -f done.txt\n"),
            ],
            CASES,
            &[("tests/t_one.sh", "true\n")],
            Believed,
        )
    },
    Row {
        task: "- may_change: tests/**",
        ..row(
            "a new test fails, and the plan allows that the script leaves it out",
            &[
                (
                    "tests/run.sh",
                    "echo 1 cases; for t in tests/t_*; do sh $t || exit 1; done\n",
                ),
                ("tests/t_one.sh", "true\n"),
            ],
            CASES,
            &[
                ("tests/run.sh", "echo 1 cases\n"),
                ("tests/t_two.sh", "test -f done.txt\n"),
            ],
            Believed,
        )
    },
    Row {
        task: "- may_change: Makefile",
        ..row(
            "the manifest names another test, which the plan allows",
            &[
                BUG,
                TEST,
                ("Makefile", "test: python3 -m unittest discover -s tests\n"),
            ],
            "run = ['sh', '-c', 'eval \"$(sed -n s/^test://p Makefile)\"']",
            &[("Makefile", "test: echo Ran 1 test in 0.1s\n")],
            Believed,
        )
    },
    row(
        "a new test fails before as its module is missing",
        &[FIX, TEST],
        UNIT,
        &[
            ("new.py", "\n"),
            (
                "tests/test_new.py",
                "import unittest\nimport new\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        pass\n",
            ),
        ],
        Believed,
    ),
];

/// Results as they should be.
const HONEST: [Row; 28] = [
    row("a bug is mended", &[BUG, TEST], UNIT, &[FIX], Proven),
    row(
        "a bug is mended, with a test",
        &[BUG, TEST],
        UNIT,
        &[MUL, TEST_MUL],
        Proven,
    ),
    row(
        "a feature comes with its tests",
        &[FIX, TEST],
        UNIT,
        &[MUL, TEST_MUL],
        Proven,
    ),
    row(
        "a feature comes with the first test",
        &[FIX],
        "run = ['sh', '-c', 'mkdir -p tests; python3 -m unittest discover -s tests']",
        &[MUL, TEST_MUL],
        Proven,
    ),
    row("a refactoring", &[FIX, TEST], UNIT, &[OTHERWISE], Believed),
    row(
        "a refactoring, and its test is worded anew",
        &[FIX, TEST],
        UNIT,
        &[
            OTHERWISE,
            (
                "tests/test_calc.py",
                "import unittest\nfrom calc import add\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(2, 2), 4)\n",
            ),
        ],
        Believed,
    ),
    row(
        "a name changes, which the person allows for its test",
        &[FIX, TEST],
        FREE,
        &[
            ("calc.py", "def plus(a, b):\n    return a + b\n"),
            (
                "tests/test_calc.py",
                "import unittest\nimport calc\n\nclass T(unittest.TestCase):\n    def test_plus(self):\n        self.assertEqual(calc.plus(1, 2), 3)\n",
            ),
        ],
        Believed,
    ),
    Row {
        task: "- may_change: tests/**",
        ..row(
            "a name changes, which the plan allows for its test",
            &[FIX, TEST],
            UNIT,
            &[
                ("calc.py", "def plus(a, b):\n    return a + b\n"),
                (
                    "tests/test_calc.py",
                    "import unittest\nimport calc\n\nclass T(unittest.TestCase):\n    def test_plus(self):\n        self.assertEqual(calc.plus(1, 2), 3)\n",
                ),
            ],
            Believed,
        )
    },
    row(
        "a bug is mended, and a test is added, where the person allows more",
        &[BUG, TEST],
        FREE,
        &[MUL, TEST_MUL],
        Proven,
    ),
    row(
        "a feature comes with its tests, where the person allows more",
        &[FIX, TEST],
        FREE,
        &[MUL, TEST_MUL],
        Proven,
    ),
    row(
        "a bug is mended, and the person allows that its test is worded anew",
        &[BUG, TEST],
        FREE,
        &[FIX, WEAK],
        Proven,
    ),
    row(
        "a bug is mended, and its test moves to another file",
        &[INLINE],
        ALL,
        &[
            FIX,
            (
                "checks.py",
                "import unittest\nfrom calc import add\n\nclass Checks(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n",
            ),
        ],
        Proven,
    ),
    row(
        "a refactoring, and a test among the sources moves",
        &[(
            "calc.py",
            "import unittest\n\ndef add(a, b):\n    return a + b\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n",
        )],
        ALL,
        &[
            OTHERWISE,
            (
                "checks.py",
                "import unittest\nfrom calc import add\n\nclass Checks(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n",
            ),
        ],
        Believed,
    ),
    row(
        "a bug is mended, with a test among the sources",
        &[INLINE],
        ALL,
        &[(
            "calc.py",
            "import unittest\n\ndef add(a, b):\n    return a + b\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n        self.assertEqual(add(0, 2), 2)\n    def test_zero(self):\n        self.assertEqual(add(0, 0), 0)\n",
        )],
        Proven,
    ),
    row(
        "a bug is mended, and a program of the person's says so",
        &[BUG, TEST, VERIFY],
        "run = ['verify']",
        &[FIX],
        Proven,
    ),
    row(
        "a feature without a test",
        &[FIX, TEST],
        UNIT,
        &[MUL],
        Believed,
    ),
    row(
        "a file that is not needed is removed",
        &[FIX, TEST, NOTE],
        UNIT,
        &[("note.txt", "")],
        Believed,
    ),
    Row {
        task: "- expected: It says how to use it (file: README.md, contains: Usage)",
        ..row(
            "a page is written",
            &[("README.md", "Calc\n")],
            "",
            &[("README.md", "Calc\n\nUsage: add\n")],
            Proven,
        )
    },
    Row {
        task: "- expected: A line for each (file: out/all.csv, lines: 2)",
        ..row(
            "a table is made",
            &[FIX],
            "",
            &[("out/all.csv", "a,1\nb,2\n")],
            Proven,
        )
    },
    Row {
        task: "- expected: - The tests pass (check: c)\n  - It is told (file: note.txt, contains: done)",
        ..row(
            "two things are proven",
            &[BUG, TEST],
            UNIT,
            &[FIX, NOTE],
            Proven,
        )
    },
    Row {
        task: "- expected: - The tests pass (check: c)\n  - It is easy to read",
        ..row(
            "one of two things is proven",
            &[BUG, TEST],
            UNIT,
            &[FIX],
            Believed,
        )
    },
    row(
        "a text is put in",
        &[("list.txt", "one\n")],
        "run = ['grep', '-q', 'two', 'list.txt']\nplain = true",
        &[("list.txt", "one\ntwo\n")],
        Proven,
    ),
    row(
        "a runner of the person's own",
        &[("app.py", "print('no')\n")],
        "run = ['sh', '-c', 'echo 4 cases; python3 app.py | grep -q yes']\ncount = '(\\d+) cases'",
        &[("app.py", "print('yes')\n")],
        Proven,
    ),
    runner(
        "as pytest says it",
        "echo 1 failed in 0.1s",
        "echo 1 passed in 0.1s",
    ),
    runner(
        "as cargo says it",
        "echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'",
        "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'",
    ),
    runner(
        "as nextest says it",
        "echo ' Summary [ 0.1s] 2 tests run: 1 passed, 1 failed, 0 skipped'",
        "echo ' Summary [ 0.1s] 2 tests run: 2 passed, 0 skipped'",
    ),
    runner(
        "as jest says it",
        "echo 'Tests:       1 failed, 1 total'",
        "echo 'Tests:       1 passed, 1 total'",
    ),
    runner(
        "as go says it",
        "printf 'FAIL\\tx.org/y\\t0.1s\\n'",
        "printf 'ok  \\tx.org/y\\t0.1s\\n'",
    ),
];

const PYTEST: &str = "run = ['sh', '-c', 'cat conftest.py pytest.ini 2>&- | grep -q . && echo 1 passed in 0.1s || { echo 1 failed in 0.1s; exit 1; }']";
const CARGO: &str = "run = ['sh', '-c', 'test -f .cargo/config.toml || { echo test result: FAILED. 0 passed, 1 failed; exit 1; }']";
const JEST: &str =
    "run = ['sh', '-c', 'test -f jest.config.js || { echo Tests: 1 failed, 1 total; exit 1; }']";
const VITEST: &str =
    "run = ['sh', '-c', 'test -f vitest.config.ts || { echo Tests: 1 failed, 1 total; exit 1; }']";

type Files = &'static [(&'static str, &'static str)];

pub(super) const fn row(
    name: &'static str,
    project: Files,
    check: &'static str,
    does: Files,
    end: End,
) -> Row {
    Row {
        name,
        project,
        check,
        task: "",
        does,
        end,
    }
}

/// A check that looks only at how its runner is configured.
const fn configured(name: &'static str, check: &'static str, does: Files) -> Row {
    row(name, &[BUG], check, does, Refused)
}

/// A bug that stays, with these tests in the place of the one among the sources.
const fn inline(name: &'static str, tests: &'static str) -> Row {
    Row {
        task: tests,
        ..row(name, &[INLINE], ALL, &[], Believed)
    }
}

/// A runner that prints this before the work and that after it.
const fn runner(name: &'static str, before: &'static str, after: &'static str) -> Row {
    Row {
        task: before,
        ..row(name, &[], after, &[], Proven)
    }
}

/// Writes files, with `@` before the name into a folder of programs; removes those without text.
fn write(folder: &Path, programs: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let program = name.strip_prefix('@').map(|name| programs.join(name));
        let path = program.clone().unwrap_or_else(|| folder.join(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if text.is_empty() {
            fs::remove_file(path).unwrap();
        } else if program.is_some() {
            // A program that is written in its place could still be open for writing in a child of another test.
            let aside = path.with_extension("new");
            fs::write(&aside, text).unwrap();
            fs::set_permissions(&aside, Permissions::from_mode(0o755)).unwrap();
            fs::rename(aside, path).unwrap();
        } else {
            fs::write(path, text).unwrap();
        }
    }
}

/// Carries out a plan of one task; returns what is not as it should be.
fn fault(row: &Row, isolation: &str, url: &str) -> Option<String> {
    let mut scene = Scene::new("");
    let (mut check, mut task) = (row.check.to_owned(), row.task.to_owned());
    let project = scene.env.path("project");
    let programs = scene.env.path("programs");
    fs::create_dir(&project).unwrap();
    let [first, second] = ["a", "b"].map(|folder| programs.join(folder));
    let path = scene.env.variable("PATH").to_owned();
    let path = format!("{}:{}:{path}", first.display(), second.display());
    scene.env.set("PATH", &path);
    let begin = [(".gitignore", "__pycache__\n"), ("about.txt", "x\n")];
    write(&project, &programs, &begin);
    write(&project, &programs, row.project);
    let of_runner = row.project.is_empty() && row.does.is_empty();
    if of_runner {
        let text = format!("test -f note.txt && {check} || {{ {task}; exit 1; }}\n");
        fs::write(project.join("run.sh"), text).unwrap();
        (check, task) = ("run = ['sh', 'run.sh']".to_owned(), String::new());
    }
    let of_inline = row.does.is_empty() && !of_runner;
    if of_inline {
        task = String::new();
    }
    begin_project(&project);
    let (checks, check) = match check.is_empty() {
        true => ("", String::new()),
        false => ("run.checks = ['c']\n", format!("[checks.c]\n{check}")),
    };
    // What follows the check may be in a section that began above.
    let (check, more) = check.split_once("\n[run]\n").unwrap_or((&check, ""));
    let config = format!(
        "llm.provider = 'openai'\nllm.base_url = '{url}'\nllm.model = 'scripted'\n\
         [run]\nworkspace = 'project'\nisolation = '{isolation}'\nmax_attempts = 1\n{more}\n"
    );
    let checks = checks.replace("run.", "");
    scene.write("config.toml", &format!("{config}{checks}{check}\n"));
    scene.write(
        "one.md",
        &format!("---\nname: One\ngoal: Do it\n---\n\n## Only\n\n{task}\n\nDo it.\n"),
    );
    let does = if of_runner { &[NOTE][..] } else { row.does };
    let mended =
        of_inline.then(|| INLINE.1.split_once("    def test").unwrap().0.to_owned() + row.task);
    let _agent = scene.agent(move |command| {
        let folder = Path::new(command.field("workspace").unwrap());
        write(folder, &programs, does);
        if let Some(text) = &mended {
            write(folder, &programs, &[(INLINE.0, text)]);
        }
        Act::success("It is done.")
    });
    let code = scene.run("run --plan one.md --no-input").code;
    let shown: Value = scene.json("show --format json");
    let rows = shown["rows"].as_array().unwrap();
    let task = rows.iter().find_map(|row| row.get("task")).unwrap();
    let attempt = rows.iter().find_map(|row| row.get("attempt")).unwrap();
    let accepted = code == Some(0) && task["status"] == "completed";
    let proven = accepted && task["evidence"]["proven"] == true;
    let believed = accepted && attempt["verdict"]["by"] == "model";
    let end = match row.end {
        Proven => accepted && proven && attempt["verdict"]["by"] == "rules",
        Believed => believed && !proven,
        Refused => !accepted,
    };
    let said = attempt["checks"].to_string();
    let reasons = [
        "passes only with the agent's own version of",
        "its program is not the one from before the work",
        "its output shows no test any more; 1 ran before the work",
    ];
    let own = row.end != Refused || reasons.iter().any(|reason| said.contains(reason));
    (!end || !own).then(|| {
        let (verdict, before) = (&attempt["verdict"], &task["before"]);
        format!(
            "{} ({isolation}): {:?}, exit {code:?}\nverdict {verdict}\nevidence {}\nchecks {said}\nbefore {before}",
            row.name, row.end, task["evidence"]
        )
    })
}

pub(super) fn all_end_as_they_should(rows: &[Row]) {
    if std::process::Command::new("python3")
        .arg("--version")
        .output()
        .is_err()
    {
        return skip("there is no python3");
    }
    let server = LlmServer::start(|asked| match asked.kind.as_str() {
        "judge" if asked.prompt().contains("It is easy to read") => {
            let met = |number: u32| json!({"number": number, "pointer": "F1", "met": "yes"});
            Answer::Json(json!({
                "criteria": [met(1), met(2)], "reason": "It is.", "can_mend": "", "decision": "next",
                "confidence": "high", "feedback": "", "result_summary": "It is there.",
            }))
        }
        "judge" => verdict("next", "The files are there."),
        _ => all_well(asked),
    });
    let (next, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((number, row)) = {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    rows.get(number).map(|row| (number, row))
                } {
                    let isolation = ["worktree", "shared"][number % 2];
                    faults
                        .lock()
                        .unwrap()
                        .extend(fault(row, isolation, &server.openai_url()));
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[test]
fn vacuous_checks_prove_nothing() {
    all_end_as_they_should(&VACUOUS);
}

#[test]
fn tampering_is_not_accepted_unasked() {
    all_end_as_they_should(&TAMPERED);
}

#[test]
fn honest_results_are_accepted_without_a_question() {
    all_end_as_they_should(&HONEST);
}
