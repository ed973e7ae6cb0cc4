//! A worker killed with -9: its agents continue, and no task gets a second one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use plan_agent::plan::{AttemptState, PlanState};

use super::OWN;
use super::ledger::{Ledger, next_words};
use super::stage::{Chance, states};
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

#[test]
fn next_worker_finishes_work_of_three_plans() {
    tasks_of_three_plans_are_begun_once(Victim::Worker);
}

#[test]
fn next_daemon_goes_on_with_agents_of_three_plans() {
    tasks_of_three_plans_are_begun_once(Victim::Both);
}

fn no_task_is_begun_twice(victim: Victim, hand: Hand) {
    let env = folder(&["volumes/workspace"]);
    let daemon = (victim == Victim::Worker).then(|| {
        let daemon = env.start("run --plan plan.md");
        wait_until("the daemon has a plan", || Ledger::of(&env).is_some());
        daemon
    });
    let begin = || begin(&env, victim, hand);
    kill_often(times(20, 200), begin);
    let mut last = begin();
    let status = match daemon {
        Some(mut daemon) => daemon.wait(),
        None => last.wait(),
    };
    assert_eq!(status.code(), Some(0));
    drop(last);
    begun_once(&env, &["volumes/workspace"]);
}

fn tasks_of_three_plans_are_begun_once(victim: Victim) {
    let env = folder(&OWN);
    let hand = Hand::Command.words();
    let agent = if victim == Victim::Both { hand } else { "" };
    for folder in OWN {
        env.exits(
            0,
            format!("run --queue --plan plan.md --workspace {folder} {agent}"),
        );
    }
    let daemon = (victim == Victim::Worker).then(|| env.start("daemon"));
    let begin = || match victim {
        Victim::Worker => env.start(format!("worker {hand}")),
        Victim::Both => env.start("daemon"),
    };
    kill_often(times(15, 150), begin);
    let last = begin();
    wait_until("every plan has ended", || states(&env) == ["completed"; 3]);
    drop((daemon, last));
    begun_once(&env, &OWN);
}

/// Kills a process, and starts it again, so many times.
fn kill_often(kills: usize, begin: impl Fn() -> Running) {
    let mut chance = Chance::new("PLAN_AGENT_CRASH_SEED");
    for _ in 0..kills {
        let mut life = begin();
        std::thread::sleep(Duration::from_micros(chance.below(200_000)));
        // It may have ended already: then there is nothing to kill.
        life.child.kill().unwrap();
        life.wait();
    }
}

/// Checks that the tasks of the plan of each folder had one agent each.
fn begun_once(env: &TestEnv, folders: &[&str]) {
    let ledgers = Ledger::all(env);
    assert_eq!(ledgers.len(), folders.len());
    for ledger in ledgers {
        let plan = ledger.plan;
        assert_eq!(*plan.status(), PlanState::Completed);
        let attempts: Vec<_> = plan.attempts().collect();
        assert_eq!(attempts.len(), TASKS);
        for attempt in attempts {
            assert_eq!(attempt.state, AttemptState::Judged);
            assert_eq!(attempt.report.as_ref().unwrap().results, "Made by hand.");
        }
    }
    for folder in folders {
        begun_once_in(&env.path(folder));
    }
}

fn begun_once_in(folder: &Path) {
    // No task has two agents simultaneously.
    assert!(!folder.join("overlap").exists());
    let begun: BTreeMap<String, usize> = fs::read_dir(folder)
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

/// Makes a folder with the agent in each workspace.
fn folder(workspaces: &[&str]) -> TestEnv {
    let mut env = TestEnv::new();
    env.show_script("claude", CODING);
    env.write("config.toml", "[llm]\nprovider = \"none\"\n");
    let tasks = (1..=TASKS).map(|number| format!("- [ ] Part {number}\n"));
    let tasks: Vec<String> = tasks.collect();
    env.write("plan.md", &format!("# Parts\n\n{}", tasks.concat()));
    for workspace in workspaces {
        env.write(&format!("{workspace}/agent.sh"), AGENT);
    }
    env
}

fn begin(env: &TestEnv, victim: Victim, hand: Hand) -> Running {
    let words = match victim {
        Victim::Worker => "worker",
        Victim::Both => next_words(env),
    };
    env.start(format!("{words} {}", hand.words()))
}
