//! A kill while checks run on the state before a task, between that and its record, and after it: no check runs without end, a
//! command goes out once, and what is proven is the same as without the kills.

use std::fs;
use std::path::Path;
use std::time::Duration;

use plan_agent::plan::{CheckBefore, CriterionState, PlanState};

use super::ledger::{Ledger, next_words};
use super::stage::{Chance, Tempo};
use crate::common::agent::{Act, Agent, Exchange};
use crate::common::env::{TestEnv, lives, times, wait_until};
use crate::common::git::Project;

/// The second and the third task begin with the same files.
const PLAN: &str = "---\nname: Three\ngoal: A note\n---\n\n## One\n\nWrite.\n\n## Two\n\nLook.\n\n## Three\n\nLook.\n";

/// Where the state before is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kept {
    InTree,
    InCommit,
    Nowhere,
}

#[test]
fn killed_checks_on_state_before_run_again() {
    let (mut chance, mut tempo) = (Chance::new("PLAN_AGENT_CRASH_SEED"), Tempo::default());
    for kept in [Kept::InTree, Kept::InCommit, Kept::Nowhere] {
        let (calm, killed) = (TestEnv::new(), TestEnv::new());
        for env in [&calm, &killed] {
            if !begin(env, kept) {
                return;
            }
        }
        let agent = agent(&calm, kept);
        calm.write("go", "");
        calm.exits(0, "run --plan plan.md --no-input");
        drop(agent);
        let agent = self::agent(&killed, kept);
        kill_often(&killed, &mut chance, &mut tempo);
        // What the second task has recorded counts for the third one, in another process.
        killed.write("go-1", "");
        kill_when_recorded(&killed, 2);
        let known = base_runs(&killed);
        killed.write("go", "");
        killed.exits(0, next_words(&killed));
        assert!(kept != Kept::InTree || base_runs(&killed) == known);
        assert_eq!(agent.attempts(), [(1, 1), (2, 1), (3, 1)], "{kept:?}");
        drop(agent);
        let (of_calm, of_killed) = (outcome(&calm), outcome(&killed));
        assert_eq!(of_calm[0].1[0].0, CriterionState::Met, "{of_calm:?}");
        for (calm, killed) in of_calm.into_iter().zip(of_killed) {
            assert_eq!(calm.0, killed.0, "{kept:?}");
            // Without git, a daemon that begins later does not know which files an agent removed.
            assert!(
                calm.1 == killed.1 || kept == Kept::Nowhere,
                "{kept:?}: {killed:?}"
            );
        }
        let mut pids = runs(&killed).0.into_iter();
        assert!(!pids.any(|pid| lives(&pid)), "a check still runs");
        assert_eq!(
            Exchange::at(killed.path("volumes")).names("active"),
            [".tmp"]
        );
        let line = Ledger::of(&killed).unwrap().plan.head().line.clone();
        let folder = line.map_or(killed.path("volumes/worktrees"), |line| line.folder.into());
        let left = fs::read_dir(folder).into_iter().flatten().flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        assert!(left.is_empty() || left == ["git"], "{kept:?}: {left:?}");
    }
}

fn begin(env: &TestEnv, kept: Kept) -> bool {
    let isolation = match kept {
        Kept::InCommit => "worktree",
        _ => "shared",
    };
    let root = env.path("");
    let root = root.display();
    let check = format!(
        "echo $$ ${{PWD##*/}} >> {root}/runs; while [ -e {root}/hold ]; do sleep 0.02; done; \
         test -f note.txt && echo 1 passed in 0.1s || {{ echo 1 failed in 0.1s; exit 1; }}"
    );
    env.write(
        "config.toml",
        &format!(
            "llm.provider = 'none'\n[run]\nworkspace = 'project'\nisolation = '{isolation}'\n\
             worktrees = 'volumes/worktrees'\nchecks = ['c']\n\
             [checks.c]\nrun = ['sh', '-c', '{check}']\nbefore = 'always'\n"
        ),
    );
    env.write("plan.md", PLAN);
    fs::create_dir_all(env.path("project")).unwrap();
    kept == Kept::Nowhere || Project::new(env).is_some()
}

/// Starts an agent that reports once it may.
fn agent(env: &TestEnv, kept: Kept) -> Agent {
    let [go, go_first] = ["go", "go-1"].map(|name| env.path(name));
    Agent::start(&Exchange::at(env.path("volumes")), move |command| {
        let may = || go.exists() || (command.task() == 1 && go_first.exists());
        wait_until("it may report", may);
        let folder = Path::new(command.field("workspace").unwrap());
        if command.task() == 1 {
            fs::write(folder.join("note.txt"), "made\n").unwrap();
        } else if kept == Kept::InCommit {
            fs::write(folder.join(format!("{}.txt", command.task())), "made\n").unwrap();
        }
        Act::success("It is done.")
    })
}

/// Returns the processes of the checks so far, and their folders.
fn runs(env: &TestEnv) -> (Vec<String>, Vec<String>) {
    let text = fs::read_to_string(env.path("runs")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines
        .map(|(pid, folder)| (pid.to_owned(), folder.to_owned()))
        .unzip()
}

/// Kills daemons while the check of the first task runs, as it ends, and once its outcome is recorded.
fn kill_often(env: &TestEnv, chance: &mut Chance, tempo: &mut Tempo) {
    env.write("hold", "");
    for run in 1..=2 {
        let mut life = env.start(next_words(env));
        wait_until("the check runs", || runs(env).0.len() == run);
        life.child.kill().unwrap();
        life.wait();
        assert!(
            lives(&runs(env).0[run - 1]),
            "the check survives its daemon"
        );
    }
    for _ in 0..times(3, 30) {
        env.write("hold", "");
        let mut life = env.start(next_words(env));
        tempo.measure(env, &mut life, || false);
        fs::remove_file(env.path("hold")).unwrap();
        tempo.sleep(chance.below(1_000));
        life.child.kill().unwrap();
        life.wait();
    }
    kill_when_recorded(env, 1);
    let ran = runs(env).0.len();
    let mut life = env.start(next_words(env));
    tempo.measure(env, &mut life, || false);
    life.child.kill().unwrap();
    life.wait();
    assert_eq!(runs(env).0.len(), ran, "what is recorded runs again");
}

/// Carries the plan on until the outcome of a task is recorded, and kills the daemon then.
fn kill_when_recorded(env: &TestEnv, task: u32) {
    let mut life = env.start(next_words(env));
    wait_until("the outcome is recorded", || {
        std::thread::sleep(Duration::from_millis(20));
        Ledger::of(env).is_some_and(|ledger| !before(&ledger, task).is_empty())
    });
    life.child.kill().unwrap();
    life.wait();
}

/// Returns how many checks ran on a state before a task, in a folder aside.
fn base_runs(env: &TestEnv) -> usize {
    let folders = runs(env).1.into_iter();
    folders.filter(|folder| folder == "before").count()
}

fn before(ledger: &Ledger, task: u32) -> Vec<CheckBefore> {
    let mut tasks = ledger.plan.tasks();
    let task = tasks.find(|one| one.number.0 == task).unwrap();
    let before = task.before.iter().cloned();
    // The command names the folder of the test.
    let before = before.map(|before| CheckBefore {
        command: String::new(),
        ..before
    });
    before.collect()
}

/// What was seen of a task before the work, and how its criteria ended.
type Outcome = (Vec<CheckBefore>, Vec<(CriterionState, String)>);

/// Returns what was found of each task.
fn outcome(env: &TestEnv) -> Vec<Outcome> {
    let ledger = Ledger::of(env).unwrap();
    assert_eq!(*ledger.plan.status(), PlanState::Completed);
    let ends = |number: u32| {
        let mut tasks = ledger.plan.tasks();
        let task = tasks.find(|one| one.number.0 == number).unwrap();
        let evidence = task.evidence.as_ref().unwrap();
        let ends = evidence.criteria.iter();
        (
            before(&ledger, number),
            ends.map(|end| (end.state, end.why.clone()))
                .collect::<Vec<_>>(),
        )
    };
    let found: Vec<_> = (1..=3).map(ends).collect();
    found
}
