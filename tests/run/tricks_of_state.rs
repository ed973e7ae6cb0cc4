//! Checks that failed before for another reason than the state before, and results that pass for another than the result.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::tricks::*;
use super::*;
use crate::common::git::git;

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

/// Rows at odd places are tried in a shared folder.
const ROWS: [Row; 8] = [
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
    git(&workspace, "init --quiet --initial-branch main");
    git(&workspace, "add .");
    git(&workspace, "commit --quiet -m begin");
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
