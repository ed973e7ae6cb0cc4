//! aider gets the task in its own form: the files that the task names, and the text of the task alone.

use super::*;
use crate::common::git::git;

const AIDER: &str = r#"
if [ "$1" = --version ]; then echo "aider 0.86.2"; exit 0; fi
run=1; while [ -e "@NOTES@/$run" ]; do run=$((run+1)); done
mkdir "@NOTES@/$run"
echo "$*" > "@NOTES@/$run/call"
cat > "@NOTES@/$run/prompt"
history=$(sed 's/.*--chat-history-file \([^ ]*\).*/\1/' "@NOTES@/$run/call")
echo said > "$history"
echo "Repo-map: disabled"
echo "I write it."
echo "Tokens: 1.2k sent, 14 received."
"#;

fn scene(does: &str, plan: &str) -> Scene {
    let mut scene = Scene::with("exit 1");
    let notes = scene.path("notes").display().to_string();
    scene.show_script(
        "aider",
        &format!("{AIDER}{does}").replace("@NOTES@", &notes),
    );
    scene.write("plan.md", plan);
    for name in ["calc.py", "test_calc.py", "notes.md"] {
        let lines: Vec<String> = (0..27).map(|n| format!("line {n}\n")).collect();
        scene.write(&format!("volumes/workspace/{name}"), &lines.concat());
    }
    scene
}

#[test]
fn aider_gets_files_and_text_of_task() {
    let does = "if [ $run = 2 ]; then echo sum > calc.py; echo 'Applied edit to calc.py'; fi";
    let plan = "# Sums\n\n- [ ] Mend the sum\n\n  Fix `calc.py` so that `test_calc.py` passes, as in notes.md and ../plan.md.\n";
    let scene = scene(does, plan);
    scene.exits(0, "run --plan plan.md --agent aider --no-input");
    for run in [1, 2] {
        let call = scene.note(run, "call");
        let files = "--file calc.py --read test_calc.py --read notes.md";
        has(&call, ["--max-chat-history-tokens 32768", files]);
        lacks(&call, "plan.md");
        let prompt = scene.note(run, "prompt");
        lacks(&prompt, ["How to report", "---\nid:", "front matter"]);
    }
    let first = scene.note(1, "prompt");
    has(
        first,
        [
            "Fix `calc.py` so that",
            "## Constraints",
            "## Expected output",
        ],
    );
    has(scene.note(2, "prompt"), "not accepted");
    has(scene.note(2, "call"), "--restore-chat-history");
}

#[test]
fn file_that_lost_its_content_is_named() {
    let does = "printf 'a\\nb\\n' > calc.py; head -12 notes.md > x; mv x notes.md; sed -i 1,9d test_calc.py; echo 'Applied edit to calc.py'";
    let scene = scene(does, "# Sums\n\n- [ ] Mend calc.py\n");
    let workspace = scene.workspace("");
    git(&workspace, "init -q");
    git(&workspace, "add .");
    git(&workspace, "commit -qm first");
    scene.exits(0, "run --plan plan.md --agent aider --no-input");
    let why = scene.exits(0, "why 1").stdout;
    has(
        &why,
        "changed: calc.py (lost 25 of its 27 lines), notes.md, test_calc.py",
    );
}

/// Makes a git project with a task for calc.py, whose results are gathered, and lets aider do this.
fn gathered(does: &str) -> Scene {
    let scene = scene(does, "# Sums\n\n- [ ] Mend calc.py\n");
    let workspace = scene.workspace("");
    git(&workspace, "init -q");
    git(&workspace, "add .");
    git(&workspace, "commit -qm first");
    let config = scene.read("config.toml");
    scene.write(
        "config.toml",
        &format!("run.isolation = 'worktree'\n{config}"),
    );
    scene
}

const OUTSIDE: &str = "echo sum > calc.py; echo new > new.py; echo mine > notes.md; rm test_calc.py; echo 'Applied edit to calc.py'";

fn put_back(scene: &Scene) {
    let why = scene.exits(0, "why 1").stdout;
    let (_, said) = why
        .split_once("put back: notes.md, test_calc.py; the whole result is commit ")
        .expect(&why);
    let whole = said.split_whitespace().next().unwrap();
    let workspace = scene.workspace("");
    let at = |commit: &str| git(&workspace, format!("ls-tree -r --name-only {commit}"));
    let branch = git(
        &workspace,
        "branch --list --format=%(refname:short) plan-agent/*",
    );
    let branch = branch.trim();
    assert_eq!(at(branch), "calc.py\nnew.py\nnotes.md\ntest_calc.py\n");
    assert_eq!(at(whole), "calc.py\nnew.py\nnotes.md\n");
    assert_eq!(git(&workspace, format!("show {branch}:calc.py")), "sum\n");
    has(
        git(&workspace, format!("show {branch}:notes.md")),
        "line 26",
    );
    assert_eq!(git(&workspace, format!("show {whole}:notes.md")), "mine\n");
}

#[test]
fn changes_outside_named_files_are_put_back() {
    let scene = gathered(OUTSIDE);
    scene.exits(0, "run --plan plan.md --agent aider --no-input");
    put_back(&scene);
}

#[test]
fn nothing_is_put_back_where_task_names_no_file() {
    let scene = gathered(OUTSIDE);
    scene.write("plan.md", "# Sums\n\n- [ ] Mend the sums\n");
    scene.exits(0, "run --plan plan.md --agent aider --no-input");
    lacks(scene.exits(0, "why 1").stdout, "put back");
}
