//! What proved a task has to hold when all tasks are done, too.

use std::path::Path;

use super::*;
use crate::common::git::begin_project;

const PLAN: &str = "---\nname: P\ngoal: G\n---\n\n## First\n\n- expected:\n  - It is there (check: a)\n\n\
    Make it.\n\n## Second\n\n- after: 1\n- expected:\n  - It is there, too (check: b)\n\nMake that.\n";

/// Makes a scene with a project in which the plan is to be carried out, without git if there is no word for the isolation.
fn scene(isolation: &str, checks: &str) -> Scene {
    let word = if isolation.is_empty() {
        "shared"
    } else {
        isolation
    };
    let scene = Scene::by_rules(&format!(
        "{checks}[run]\nworkspace = 'project'\nworktrees = 'volumes/worktrees'\nisolation = '{word}'\n"
    ));
    scene.write("plan.md", PLAN);
    scene.write("project/README.md", "a\n");
    if !isolation.is_empty() {
        let project = scene.env.path("project");
        begin_project(&project);
    }
    scene
}

fn check(name: &str, line: &str) -> String {
    format!("checks.{name} = {{ run = ['sh', '-c', '{line}'], plain = true, before = 'always' }}\n")
}

#[test]
fn task_that_a_later_one_undoes_is_opened_again() {
    for isolation in ["worktree", "shared", ""] {
        let checks = check("a", "test -e a") + &check("b", "test -e b");
        let scene = scene(isolation, &checks);
        let agent = scene.agent(|command| {
            let folder = Path::new(command.field("workspace").unwrap());
            let write = |name: &str| fs::write(folder.join(name), "1\n2\n").unwrap();
            match (command.task(), command.attempt()) {
                (1, _) => ["a", "long.txt"].map(write).into_iter().collect(),
                _ => {
                    write("b");
                    fs::remove_file(folder.join("a")).unwrap();
                    fs::write(folder.join("long.txt"), "1\n").unwrap();
                }
            }
            Act::success("It is done.")
        });
        scene.works("run --plan plan.md --no-input");
        assert_eq!(agent.attempts(), [(1, 1), (2, 1), (1, 2)], "{isolation}");
        has(
            agent.command(1, 2).body(),
            [
                "now that all tasks are done, this fails: `a` (exit 1)",
                "keep what the other tasks have made",
            ],
        );
        let status = scene.status();
        for task in 0..2 {
            assert_eq!(
                status["tasks"][task]["proven"], true,
                "{isolation}: {status}"
            );
        }
        has(
            scene.works("log"),
            ["task 1: check `a` fails", "task 1: opened again"],
        );
    }
}

#[test]
fn tasks_that_undo_each_other_are_put_to_a_person() {
    let checks = check("a", "test -e long.txt -a ! -e b") + &check("b", "test -e b");
    let scene = scene("worktree", &checks);
    let agent = scene.agent(|command| {
        let folder = Path::new(command.field("workspace").unwrap());
        if command.task() == 1 {
            fs::write(folder.join("long.txt"), "1\n2\n").unwrap();
            fs::remove_file(folder.join("b")).ok();
        } else {
            fs::write(folder.join("b"), "1\n").unwrap();
        }
        Act::success("It is done.")
    });
    let ran = scene.exits(4, "run --plan plan.md --no-input");
    has(
        &ran.stdout,
        "fails at the end of the plan for the second time",
    );
    assert_eq!(agent.attempts(), [(1, 1), (2, 1), (1, 2), (2, 2)]);
    scene.works("answer skip");
    scene.works("resume --no-input");
    assert_eq!(scene.tasks(), ["skipped", "completed"]);
}

/// A check that ran on the last result, which holds all others, is not repeated.
#[test]
fn check_of_every_task_does_not_run_again_at_the_end() {
    let checks = check("a", "echo x >> ../runs; test -e b");
    let checks = checks.replace("before = 'always'", "before = 'never'");
    let scene = scene("", &checks);
    scene.configure("checks = ['a']");
    scene.write(
        "plan.md",
        "# P\n\n## First\n\nMake it.\n\n## Second\n\nMake that.\n",
    );
    scene.write("project/b", "");
    let _agent = scene.agent(|_| Act::success("It is done."));
    scene.works("run --plan plan.md --no-input");
    assert_eq!(scene.read("runs"), "x\n".repeat(2));
}
