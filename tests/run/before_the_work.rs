//! Checks before the work where git does not keep that state, and checks that run again as no test ran.

use std::path::Path;

use super::*;
use crate::common::git::begin_project;

/// A check that fails until there is a note.
const CHECK: &str = "run.checks = ['c']\n[checks.c]\nrun = ['sh', '-c', 'test -f note.txt && echo 1 passed in 0.1s || { echo 1 failed in 0.1s; exit 1; }']\n";

/// Returns what a field of each task says.
fn of_tasks(scene: &Scene, field: &str) -> Vec<Value> {
    let shown: Value = scene.json("show --format json");
    let rows = shown["rows"].as_array().unwrap().iter();
    rows.filter_map(|row| row.get("task"))
        .map(|task| task[field].clone())
        .collect()
}

#[test]
fn check_runs_before_command_where_git_keeps_no_state() {
    let not_known = json!({"unknown": "it did not run, as it was not known to be quick"});
    for (before, first, second, proven) in [
        ("always", json!("red"), json!("green"), true),
        ("auto", not_known, json!("green"), false),
        (
            "never",
            json!({"unknown": "it is configured not to run then"}),
            json!({"unknown": "it is configured not to run then"}),
            false,
        ),
    ] {
        let scene = Scene::by_rules(&format!("{CHECK}before = '{before}'\n"));
        let note = scene.path("workspace/note.txt");
        let _agent = scene.agent(move |_| {
            fs::write(&note, "made\n").unwrap();
            Act::success("It is done.")
        });
        scene.works("run --plan two.md --no-input");
        let found = of_tasks(&scene, "before");
        assert_eq!(found[0][0]["outcome"], first, "{before}");
        assert_eq!(found[1][0]["outcome"], second, "{before}");
        let ends = of_tasks(&scene, "evidence");
        assert_eq!(ends[0]["proven"], proven, "{before}");
        assert_eq!(ends[1]["proven"], false, "{before}");
    }
}

#[test]
fn command_waits_for_check_and_the_loop_does_not() {
    let check = "touch ../../begun; until [ -e ../../go ]; do sleep 0.02; done; exit 1";
    let scene = Scene::by_rules(&format!(
        "run.max_attempts = 1\nrun.task_timeout = '200ms'\n\
         checks.c = {{ run = ['sh', '-c', '{check}'], before = 'always', plain = true }}\n"
    ));
    scene.write(
        "plan.md",
        "# P\n\n## Free\n\nDo it.\n\n## Bound\n\n- checks: c\n- after: 1\n\nDo it.\n",
    );
    let _daemon = scene.leave("run --plan plan.md");
    let first = scene.take_task(1);
    scene.succeed(&first, "done");
    wait_until("the check runs", || scene.env.path("begun").exists());
    // Another command of the person is carried out meanwhile, and no worker is missed.
    scene.works(["tell", "2", "Be quick."]);
    assert!(scene.pending().is_empty());
    assert_eq!(scene.questions(), []);
    scene.write("go", "");
    let second = scene.take_task(2);
    assert_eq!(of_tasks(&scene, "before")[1][0]["outcome"], "red");
    assert_eq!(second.attempt(), 1);
}

#[test]
fn check_does_not_run_where_another_task_is_at_work() {
    let scene = Scene::by_rules(&format!("run.max_parallel = 2\n{CHECK}before = 'always'\n"));
    let note = scene.path("workspace/note.txt");
    let _agent = scene.agent(move |_| {
        fs::write(&note, "made\n").unwrap();
        Act::success("It is done.")
    });
    scene.works("run --plan two.md --no-input");
    let found = of_tasks(&scene, "before");
    let why = |task: usize| {
        found[task][0]["outcome"]["unknown"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(why(0), "at work in the same folder: task 2");
    assert!(
        of_tasks(&scene, "evidence")
            .iter()
            .all(|end| end["proven"] == false)
    );
}

#[test]
fn result_that_changes_its_judge_is_not_proven_without_git() {
    let scene = Scene::by_rules(
        "[run]\nchecks = ['c']\n[checks.c]\nrun = ['sh', 'tests/run.sh']\nplain = true\nbefore = 'always'\n",
    );
    scene.write("volumes/workspace/tests/run.sh", "exit 1\n");
    let test = scene.path("workspace/tests/run.sh");
    let _agent = scene.agent(move |_| {
        fs::write(&test, "exit 0\n").unwrap();
        Act::success("It is done.")
    });
    scene.works("run --plan one.md --no-input");
    assert_eq!(of_tasks(&scene, "before")[0][0]["outcome"], "red");
    assert_eq!(of_tasks(&scene, "evidence")[0]["proven"], false);
    has(scene.works("why 1"), "the result changes tests/run.sh");
}

/// The second task brings the test of the first one.
const TEST_LATER: &str = "---\nname: P\ngoal: G\n---\n\n## Make\n\n- checks: c\n\nMake it.\n\n## Test\n\n- after: 1\n\nTest it.\n";

#[test]
fn check_without_tests_runs_again_when_later_tasks_are_done() {
    // Returns whether the work is as its later test wants it.
    for (isolation, good) in [
        ("shared", true),
        ("shared", false),
        ("worktree", true),
        ("worktree", false),
        ("", true),
        ("", false),
    ] {
        let check = "[ -e tests/t ] || { echo Ran 0 tests in 0s; exit 0; }; echo Ran 1 test in 0s; sh tests/t";
        let config = format!(
            "checks.c.run = ['sh', '-c', '{check}']\n[run]\nworkspace = 'project'\n\
             worktrees = 'volumes/worktrees'\nisolation = '{}'\n",
            if isolation.is_empty() {
                "shared"
            } else {
                isolation
            }
        );
        let scene = Scene::by_rules(&config);
        scene.write("plan.md", TEST_LATER);
        scene.write("project/a.txt", "a\n");
        if !isolation.is_empty() {
            let project = scene.env.path("project");
            begin_project(&project);
        }
        let agent = scene.agent(move |command| {
            let folder = Path::new(command.field("workspace").unwrap());
            match (command.task(), command.attempt()) {
                (1, 1) if !good => fs::write(folder.join("made"), "bad\n").unwrap(),
                (1, _) => fs::write(folder.join("made"), "good\n").unwrap(),
                _ => {
                    fs::create_dir_all(folder.join("tests")).unwrap();
                    fs::write(folder.join("tests/t"), "grep -q good made\n").unwrap();
                }
            }
            Act::success("It is done.")
        });
        scene.works("run --plan plan.md --no-input");
        let checks = of_tasks(&scene, "evidence")[0]["facts"].to_string();
        let attempts = agent.attempts();
        let row = format!("{isolation} {good}: {attempts:?} {checks}");
        if good {
            assert_eq!(attempts, [(1, 1), (2, 1)], "{row}");
            has(
                scene.works("why 1"),
                "no test ran on its own result, and 1 test once later tasks were done",
            );
        } else {
            assert_eq!(attempts, [(1, 1), (2, 1), (1, 2)], "{row}");
            has(
                agent.command(1, 2).body(),
                ["check `c` fails (exit 1)", "accepted when no test ran"],
            );
            has(
                scene.works("outcomes --since 1d"),
                "1 opened again after they were done",
            );
        }
        assert!(
            scene.tasks().iter().all(|state| state == "completed"),
            "{row}"
        );
    }
}

#[test]
fn check_that_never_finds_tests_runs_once_for_each_result() {
    let check = "echo x >> ../../runs; echo Ran 0 tests in 0s";
    let scene = Scene::by_rules(&format!(
        "run.checks = ['c']\nchecks.c = {{ run = ['sh', '-c', '{check}'], before = 'never' }}\n"
    ));
    let _agent = scene.agent(|_| Act::success("It is done."));
    scene.works("run --plan chain.md --no-input");
    assert_eq!(scene.read("runs"), "x\n".repeat(3));
}
