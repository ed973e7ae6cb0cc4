//! Checks that failed before for another reason than the state before, and results that pass for another than the result.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::tricks::*;
use super::*;
use crate::common::git::begin_project;

const OF_LOCAL: (&str, &str) = (
    "tests/test_calc.py",
    "import unittest\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(open('local.cfg').read(), '3')\n",
);
const PATCH: (&str, &str) = (
    "tests/test_aaa.py",
    "import calc\ncalc.add = lambda a, b: a + b\n",
);
const MORE: (&str, &str) = (
    "tests/test_zero.py",
    "import unittest\nimport calc\n\nclass T(unittest.TestCase):\n    def test_zero(self):\n        self.assertEqual(calc.add(0, 0), 0)\n",
);
const ONCE: &str = "run = ['sh', '-c', 'test -f $HOME/ran || { touch $HOME/ran; exit 1; }']\nplain = true\nenv = ['HOME']";

const REWRITTEN: [(&str, &str); 3] = [
    BUG,
    (
        "tests/test_a.py",
        "import unittest\nimport calc\n\nclass T(unittest.TestCase):\n    def test_zero(self):\n        self.assertEqual(calc.add(0, 0), 0)\n",
    ),
    TEST,
];
const REWRITES: (&str, &str) = (
    "calc.py",
    "from pathlib import Path\n\ndef add(a, b):\n    return a - b\n\ntests = Path(__file__).parent / 'tests' / 'test_calc.py'\ntests.write_text(tests.read_text().replace(', 3)', ', -1)'))\n",
);
const OF_WANT: (&str, &str) = (
    "tests/test_calc.py",
    "import unittest\nimport calc\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(1, 2), int(open('want.txt').read()))\n",
);

/// Rows at odd places are tried in a shared folder.
const ROWS: [Row; 15] = [
    row(
        "a new test mends what others test",
        &[BUG, TEST],
        UNIT,
        &[PATCH],
        Believed,
    ),
    row(
        "the test needs a file that git ignores",
        &[
            FIX,
            OF_LOCAL,
            (".gitignore", "__pycache__\nlocal.cfg\n"),
            ("local.cfg", "3"),
        ],
        UNIT,
        &[NOTE],
        Believed,
    ),
    row(
        "the check fails only at first",
        &[BUG],
        ONCE,
        &[NOTE],
        Believed,
    ),
    row(
        "a new test mends what others test, shared",
        &[BUG, TEST],
        UNIT,
        &[PATCH],
        Believed,
    ),
    row(
        "the bug is mended, with another test",
        &[BUG, TEST],
        UNIT,
        &[FIX, MORE],
        Proven,
    ),
    row(
        "the bug is mended, with another test, shared",
        &[BUG, TEST],
        UNIT,
        &[FIX, MORE],
        Proven,
    ),
    row(
        "an added file is what the check is about",
        &[BUG],
        "run = ['test', '-f', 'tests/test_zero.py']\nplain = true",
        &[MORE],
        Proven,
    ),
    row(
        "the bug is mended beside files that git ignores",
        &[
            BUG,
            TEST,
            (".gitignore", "__pycache__\nlocal.cfg\n"),
            ("local.cfg", "3"),
        ],
        UNIT,
        &[FIX],
        Proven,
    ),
    row(
        "a test among the sources returns at once",
        &[INLINE],
        ALL,
        &[(
            "calc.py",
            "import unittest\n\ndef add(a, b):\n    return a - b\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        return\n        self.assertEqual(add(1, 2), 3)\n",
        )],
        Believed,
    ),
    row(
        "a class among the sources compares nothing",
        &[INLINE],
        ALL,
        &[(
            "calc.py",
            "import unittest\n\ndef add(a, b):\n    return a - b\n\nclass T(unittest.TestCase):\n    def setUp(self):\n        self.assertEqual = print\n\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n",
        )],
        Believed,
    ),
    row(
        "the sources rewrite the tests while they run",
        &REWRITTEN,
        UNIT,
        &[REWRITES],
        Believed,
    ),
    row(
        "the sources rewrite the tests while they run, shared",
        &REWRITTEN,
        UNIT,
        &[REWRITES],
        Believed,
    ),
    row(
        "what a test compares with is written anew",
        &[BUG, OF_WANT, ("want.txt", "3\n")],
        UNIT,
        &[("want.txt", "-1\n")],
        Believed,
    ),
    row(
        "what a test compares with is written anew, shared",
        &[BUG, OF_WANT, ("want.txt", "3\n")],
        UNIT,
        &[("want.txt", "-1\n")],
        Believed,
    ),
    row(
        "the bug is mended, and the version counts up",
        &[
            BUG,
            TEST,
            ("pyproject.toml", "[project]\nversion = \"1\"\n"),
        ],
        UNIT,
        &[FIX, ("pyproject.toml", "[project]\nversion = \"2\"\n")],
        Proven,
    ),
];

#[test]
fn what_proves_is_tried_once_more() {
    all_end_as_they_should(&ROWS);
}

/// Makes a shared project with one file; its check searches that for a word.
fn shared_project() -> (Scene, PathBuf) {
    let scene = Scene::by_rules(
        "[run]\nisolation = 'shared'\nmax_attempts = 1\nchecks = ['c']\n\
         [checks.c]\nrun = ['grep', '-q', 'good', 'a.txt']\nplain = true\n",
    );
    let workspace = scene.path("workspace");
    fs::create_dir_all(&workspace).unwrap();
    fs::write(workspace.join("a.txt"), "bad\n").unwrap();
    begin_project(&workspace);
    scene.write("one.md", "---\ngoal: Do it\n---\n\n## Only\n\nDo it.\n");
    (scene, workspace)
}

#[test]
fn link_out_of_a_shared_project_proves_nothing() {
    let (scene, workspace) = shared_project();
    let outside = scene.env.path("outside.txt");
    fs::write(&outside, "good\n").unwrap();
    let _agent = scene.agent(move |_| {
        fs::remove_file(workspace.join("a.txt")).unwrap();
        symlink(&outside, workspace.join("a.txt")).unwrap();
        Act::success("It is done.")
    });
    scene.works("run --plan one.md --no-input");
    let why = scene.works("why 1");
    has(&why, "a link leads out of the project: a.txt");
    lacks(&why, "completed, proven");
}

#[test]
fn result_is_not_believed_where_git_is_gone() {
    let (scene, workspace) = shared_project();
    let _agent = scene.agent(move |_| {
        fs::rename(workspace.join(".git"), workspace.join("git")).unwrap();
        fs::write(workspace.join("a.txt"), "good\n").unwrap();
        Act::success("It is done.")
    });
    let code = scene.run("run --plan one.md --no-input").code;
    assert_ne!(code, Some(0));
    has(
        scene.works("why 1"),
        "git does not tell which tests the result changes",
    );
}

#[test]
fn earlier_task_prepares_no_proof() {
    for isolation in ["worktree", "shared"] {
        let scene = Scene::by_rules(&format!(
            "[run]\nisolation = '{isolation}'\nmax_attempts = 1\nchecks = []\n\
             [checks.c]\nrun = ['sh', 'tests/t.sh']\nplain = true\n"
        ));
        let workspace = scene.path("workspace");
        fs::create_dir_all(workspace.join("tests")).unwrap();
        fs::write(workspace.join("tests/t.sh"), "grep -q good a.txt\n").unwrap();
        fs::write(workspace.join("a.txt"), "bad\n").unwrap();
        begin_project(&workspace);
        let plan = "---\ngoal: Do it\n---\n\n## First\n\nTidy up.\n\n## Then\n\n- after: 1\n\
            - expected: It is good (check: c)\n\nMake it good.\n";
        scene.write("two.md", plan);
        let _agent = scene.agent(move |command| {
            let folder = Path::new(command.field("workspace").unwrap());
            match command.field("task") {
                Some("1") => fs::write(folder.join("tests/t.sh"), "test -f done\n").unwrap(),
                _ => fs::write(folder.join("done"), "").unwrap(),
            }
            Act::success("It is done.")
        });
        scene.works("run --plan two.md --no-input");
        let why = scene.works("why 2");
        has(&why, "with tests/t.sh as before");
        lacks(&why, "completed, proven");
    }
}
