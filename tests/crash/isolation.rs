//! A kill at any moment while results are merged: each is on the branch once, and nothing of the person's is touched.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plan_agent::plan::{MERGE_CHECK, PlanStatus};

use super::ledger::Ledger;
use super::stage::Chance;
use crate::common::agent::{Act, Agent, Exchange};
use crate::common::env::{DEADLINE, TestEnv, wait_until};
use crate::common::git::Project;

/// Kills at the least.
const KILLS: usize = 40;

/// Four tasks, the last after the others; two change the same line.
const PLAN: &str = "\
---
name: Four
goal: Four files
---

## One

Write.

## Two

Write.

## Three

Write.

## Four

- after: 1, 2, 3

Write.
";

const CONFIG: &str = "\
llm.provider = 'none'
run.workspace = 'project'
run.isolation = 'worktree'
run.max_parallel = 3
run.max_attempts = 9
run.checks = ['there']
checks.there = { run = ['sh', '-c', 'test -e a.txt'] }
";

#[test]
fn a_kill_while_results_are_merged_leaves_nothing_half_merged() {
    let env = TestEnv::new();
    let Some(project) = Project::new(&env) else {
        return;
    };
    env.write("config.toml", CONFIG);
    env.write("plan.md", PLAN);
    let before = project.of_the_person();
    let mut chance = Chance::new("PLAN_AGENT_CRASH_SEED");
    let kills = Arc::new(AtomicUsize::new(0));
    let (seen, exchange) = (Arc::clone(&kills), Exchange::at(env.path("volumes")));
    let handled = AtomicUsize::new(0);
    let agent = Agent::start(&exchange, move |command| {
        let folder = Path::new(command.field("workspace").unwrap());
        let task = command.task();
        wait_until("the first three begin from one commit", DEADLINE, || {
            (1..=3).all(|other| folder.with_file_name(format!("task-{other}")).exists())
        });
        // Each result is merged among some of the kills.
        let enough = handled.fetch_add(1, Ordering::SeqCst) * KILLS / 5;
        wait_until("there were enough kills", DEADLINE, || {
            seen.load(Ordering::SeqCst) >= enough.min(KILLS)
        });
        if task == 4 {
            // It works on what the others have made.
            for other in 1..=3 {
                assert!(folder.join(format!("{other}.txt")).exists());
            }
        }
        let line = match (task, command.attempt()) {
            (1, 1) => "ONE",
            (2, 1) => "TWO",
            (1 | 2, _) => "ONE AND TWO",
            _ => "",
        };
        if !line.is_empty() {
            fs::write(folder.join("a.txt"), format!("one\n{line}\nthree\n")).unwrap();
        }
        fs::write(folder.join(format!("{task}.txt")), "made\n").unwrap();
        Act::success("made")
    });
    let mut settled = false;
    while !settled && kills.load(Ordering::SeqCst) < KILLS {
        let words: &[&str] = match Ledger::of(&env) {
            Some(_) => &["resume"],
            None => &["run", "--plan", "plan.md"],
        };
        let mut life = env.start(words);
        std::thread::sleep(Duration::from_micros(chance.below(350_000)));
        // It may be over already: then there is nothing to kill.
        drop(life.child.kill());
        life.wait();
        kills.fetch_add(1, Ordering::SeqCst);
        settled = Ledger::of(&env).is_some_and(|ledger| ledger.plan.status().settled());
        assert_eq!(project.of_the_person(), before);
    }
    let ran = env.run(&["resume"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let plan = Ledger::of(&env).unwrap().plan;
    assert_eq!(*plan.status(), PlanStatus::Completed);
    let branch = format!("plan-agent/{}", plan.id());
    let line = plan.head().line.clone().unwrap();
    let at = project.git(&["rev-parse", &branch]);
    assert_eq!(at.trim(), line.tip);
    let span = format!("{}..{branch}", line.base);
    let titles = project.git(&["log", "--first-parent", "--format=%s", &span]);
    let mut titles: Vec<&str> = titles.lines().collect();
    titles.sort_unstable();
    let expected = [
        "Task 1: One",
        "Task 2: Two",
        "Task 3: Three",
        "Task 4: Four",
    ];
    assert_eq!(titles, expected);
    for task in 1..=4 {
        let file = format!("{branch}:{task}.txt");
        assert_eq!(project.git(&["show", &file]), "made\n");
    }
    let text = project.git(&["show", &format!("{branch}:a.txt")]);
    assert_eq!(text, "one\nONE AND TWO\nthree\n");
    let clash = |attempt: &&plan_agent::plan::Attempt| {
        let mut checks = attempt.checks.iter().flatten();
        checks.any(|check| check.name == MERGE_CHECK)
    };
    assert!(
        plan.attempts().filter(clash).count() >= 1,
        "two changed the same line"
    );
    assert_eq!(project.of_the_person(), before);
    project.sound();
    // All was accepted, so all is put away.
    let list = project.git(&["worktree", "list", "--porcelain"]);
    assert_eq!(list.matches("worktree ").count(), 1, "{list}");
    drop(agent);
}
