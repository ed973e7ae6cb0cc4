//! A worker killed with -9: its agents continue, and no task gets a second one.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use plan_agent::plan::{AttemptState, PlanState};

use super::ledger::{Ledger, next_words};
use super::stage::Chance;
use crate::common::env::{Running, TestEnv, times, wait_until};

const TASKS: usize = 8;

/// Records its beginning, works for a moment, reports whether another agent works at the same time, and submits its report
/// itself.
const AGENT: &str = r#"
name=$(basename "$1")
echo begun >> "$name.begun"
mkdir "$name.busy" || echo two at once >> overlap
sleep 0.06
rmdir "$name.busy"
printf -- '---\nstatus: SUCCESS\n---\n\n## Core results\n\nMade by hand.\n' > "$name.part"
mv "$name.part" "$1"
"#;

/// As [`AGENT`], but under the name of a coding agent: it submits no report, its last message is the result.
const CODING: &str = r#"
[ "$1" = --version ] && { echo "2.1.330 (Claude Code)"; exit; }
name=$(sed -n 's/^id: //p')
echo begun >> "$name.begun"
mkdir "$name.busy" || echo two at once >> overlap
echo '{"type":"system","subtype":"init"}'
sleep 0.06
rmdir "$name.busy"
printf '%s\n' '{"type":"result","is_error":false,"permission_denials":[],"result":"---\nstatus: SUCCESS\n---\n\n## Core results\n\nMade by hand."}'
"#;

/// The kind of agent that works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hand {
    /// A program that submits its report itself.
    Command,
    /// A coding agent whose output is read.
    Coding,
}

impl Hand {
    fn words(self) -> &'static str {
        match self {
            Self::Command => "--agent command -- sh agent.sh {report}",
            Self::Coding => "--agent claude",
        }
    }
}

/// The process that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// The worker, while a daemon in another process continues.
    Worker,
    /// The daemon, with the worker in its process.
    Both,
}

#[test]
fn next_worker_finishes_work_of_killed_worker() {
    no_task_is_begun_twice(Victim::Worker, Hand::Command);
}

#[test]
fn agents_keep_running_after_daemon_kill() {
    no_task_is_begun_twice(Victim::Both, Hand::Command);
}

#[test]
fn next_worker_uses_final_message_of_agent() {
    no_task_is_begun_twice(Victim::Worker, Hand::Coding);
}

#[test]
fn next_daemon_uses_final_message_of_agent() {
    no_task_is_begun_twice(Victim::Both, Hand::Coding);
}

fn no_task_is_begun_twice(victim: Victim, hand: Hand) {
    let env = folder();
    let mut chance = Chance::new("PLAN_AGENT_CRASH_SEED");
    let daemon = (victim == Victim::Worker).then(|| {
        let daemon = env.start("run --plan plan.md");
        wait_until("the daemon has a plan", || Ledger::of(&env).is_some());
        daemon
    });
    for _ in 0..times(20, 200) {
        let mut life = begin(&env, victim, hand);
        std::thread::sleep(Duration::from_micros(chance.below(200_000)));
        // It may have ended already: then there is nothing to kill.
        life.child.kill().unwrap();
        life.wait();
    }
    let mut last = begin(&env, victim, hand);
    let status = match daemon {
        Some(mut daemon) => daemon.wait(),
        None => last.wait(),
    };
    assert_eq!(status.code(), Some(0));
    drop(last);
    let plan = Ledger::of(&env).unwrap().plan;
    assert_eq!(*plan.status(), PlanState::Completed);
    let attempts: Vec<_> = plan.attempts().collect();
    assert_eq!(attempts.len(), TASKS);
    for attempt in attempts {
        assert_eq!(attempt.state, AttemptState::Judged);
        assert_eq!(attempt.report.as_ref().unwrap().results, "Made by hand.");
    }
    // No task has two agents simultaneously.
    assert!(!env.path("volumes/workspace/overlap").exists());
    let begun: BTreeMap<String, usize> = fs::read_dir(env.path("volumes/workspace"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter_map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            let times = fs::read_to_string(entry.path()).unwrap().lines().count();
            Some((name.strip_suffix(".begun")?.to_owned(), times))
        })
        .collect();
    assert_eq!(begun.len(), TASKS);
    assert!(begun.values().all(|times| *times == 1), "{begun:?}");
}

fn folder() -> TestEnv {
    let mut env = TestEnv::new();
    env.show_script("claude", CODING);
    env.write("config.toml", "[llm]\nprovider = \"none\"\n");
    let tasks = (1..=TASKS).map(|number| format!("- [ ] Part {number}\n"));
    let tasks: Vec<String> = tasks.collect();
    env.write("plan.md", &format!("# Parts\n\n{}", tasks.concat()));
    env.write("volumes/workspace/agent.sh", AGENT);
    env
}

fn begin(env: &TestEnv, victim: Victim, hand: Hand) -> Running {
    let words = match victim {
        Victim::Worker => "worker",
        Victim::Both => next_words(env),
    };
    env.start(format!("{words} {}", hand.words()))
}
