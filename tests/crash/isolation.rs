//! A kill at any moment while results are merged: each result is on the branch once, and the person's files stay untouched.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use plan_agent::exec::alive;
use plan_agent::plan::{Attempt, MERGE_CHECK, PlanState};

use super::ledger::{Ledger, next_words};
use super::stage::{Chance, Tempo};
use crate::common::agent::{Act, Agent, Exchange};
use crate::common::env::{Running, TestEnv, times, wait_until};
use crate::common::git::Project;

/// Four tasks, the last one after the others; two change the same line.
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
run.worktrees = 'volumes/worktrees'
run.max_parallel = 3
run.max_attempts = 9
run.checks = ['there']
checks.there = { run = ['sh', '-c', 'test -e a.txt'] }
";

#[test]
fn kill_during_merge_leaves_no_partial_merge() {
    let (mut chance, mut tempo) = (Chance::new("PLAN_AGENT_CRASH_SEED"), Tempo::default());
    let mut kills = 0;
    // At least this many kills must come while git works in the project.
    while kills < times(12, 120) {
        let env = TestEnv::new();
        let Some(project) = Project::new(&env) else {
            return;
        };
        kills += carry_out(&env, &project, &mut chance, &mut tempo);
    }
}

/// Carries the plan out among kills, and returns how many of them came while git worked in the project.
fn carry_out(env: &TestEnv, project: &Project, chance: &mut Chance, tempo: &mut Tempo) -> usize {
    env.write("config.toml", CONFIG);
    env.write("plan.md", PLAN);
    let before = project.of_the_person();
    let exchange = Exchange::at(env.path("volumes"));
    let agent = Agent::start(&exchange, |command| {
        let folder = Path::new(command.field("workspace").unwrap());
        let task = command.task();
        wait_until("the first three begin from one commit", || {
            (1..=3).all(|other| folder.with_file_name(format!("task-{other}")).exists())
        });
        if task == 4 {
            // It works on the results of the other tasks.
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
    let mut kills = 0;
    let mut settled = false;
    while !settled {
        let mut life = env.start(next_words(env));
        let busy = await_work(env, &mut life, tempo);
        tempo.sleep(chance.below(2_000));
        // It may have ended already: then there is nothing to kill.
        drop(life.child.kill());
        life.wait();
        kills += usize::from(busy);
        settled = Ledger::of(env).is_some_and(|ledger| ledger.plan.status().settled());
        assert_eq!(project.of_the_person(), before);
    }
    env.exits(0, "resume");
    drop(agent);
    examine(env, project);
    assert_eq!(project.of_the_person(), before);
    kills
}

/// Waits until git runs for the daemon, or until a timeout; returns whether it ran.
fn await_work(env: &TestEnv, life: &mut Running, tempo: &mut Tempo) -> bool {
    let lock = env.path("volumes/worktrees/.git-runs");
    let works = || alive(&lock);
    if tempo.measure(env, life, works) {
        return true;
    }
    let end = Instant::now() + tempo.no_news();
    while Instant::now() < end && !works() {
        std::thread::sleep(Duration::from_millis(1));
    }
    works()
}

/// Checks that each result is on the branch exactly once, and nothing is left over.
fn examine(env: &TestEnv, project: &Project) {
    let plan = Ledger::of(env).unwrap().plan;
    assert_eq!(*plan.status(), PlanState::Completed);
    let branch = format!("plan-agent/{}", plan.id());
    let line = plan.head().line.clone().unwrap();
    let at = project.git(["rev-parse", &branch]);
    assert_eq!(at.trim(), line.tip);
    let span = format!("{}..{branch}", line.base);
    let titles = project.git(["log", "--first-parent", "--format=%s", &span]);
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
        assert_eq!(project.git(["show", &file]), "made\n");
    }
    let text = project.git(["show", &format!("{branch}:a.txt")]);
    assert_eq!(text, "one\nONE AND TWO\nthree\n");
    let clash = |attempt: &&Attempt| {
        let mut checks = attempt.checks.iter().flatten();
        checks.any(|check| check.name == MERGE_CHECK)
    };
    // Two changed the same line.
    assert_eq!(plan.attempts().filter(clash).count(), 1);
    project.sound();
    // All results were accepted, so all worktrees are removed.
    let list = project.git("worktree list --porcelain");
    assert_eq!(list.matches("worktree ").count(), 1, "{list}");
    let left = fs::read_dir(&line.folder).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    // The git configuration for this plan stays, so that a person can read its results.
    assert_eq!(left, ["git"]);
}
