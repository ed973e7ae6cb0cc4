//! Ten lanes of four roles whose agents are fast, slow, failing or silent, in the daemon's process and in others, and kills of
//! all of them: each task is decided once, never before its dependencies, and every lane has work.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use plan_agent::plan::{Decision, Event, PlanState, TaskId, TaskState};

use super::ledger::{Ledger, next_words};
use super::stage::Chance;
use crate::common::env::{DEADLINE, Running, TestEnv, times, wait_at_most};

/// Returns the number of tasks of the plan, and of kills.
fn size() -> (u32, usize) {
    times((100, 20), (200, 100))
}

/// The roles with their lanes, and roughly how many of a hundred tasks each has; only a few tasks are for silent ones.
const ROLES: [(&str, usize, u64); 4] = [
    ("fast", 4, 50),
    ("slow", 3, 25),
    ("failing", 2, 25),
    ("silent", 1, 0),
];

/// Records how many agents of its role are at work, acts as its role does, and submits its report itself. Until all lanes of
/// its role were at work simultaneously, it waits a second for the others: how long each of them takes to start depends on the
/// machine.
const AGENT: &str = r#"
who=$1 report=$3
name=$(basename "$report" .md)
attempt=$(sed -n 's/^attempt: //p' "$2")
echo "$name" >> begun
mkdir "$name.busy" || echo "$name" >> overlap
echo $$ > "$who.$$.pid"
read -r lanes < "$who.lanes"
for _ in 1 2 3 4 5 6 7 8 9 10; do
    together=0
    for file in "$who".*.pid; do
        read -r pid < "$file" || continue
        if grep -qs agent.sh "/proc/$pid/cmdline"; then together=$((together + 1)); else rm -f "$file"; fi
    done
    echo $together >> "$who.together"
    if [ $together -ge $lanes ]; then touch "$who.all"; fi
    if [ -e "$who.all" ]; then break; fi
    echo waits for the others
    sleep 0.1
done
status=SUCCESS
case $who.$attempt in
    fast.*) sleep 0.2 ;;
    slow.*) for _ in 1 2 3 4; do echo still at it; sleep 0.1; done ;;
    failing.1) sleep 0.2; status=FAILED ;;
    silent.1) sleep 1000 ;;
esac
printf -- '---\nstatus: %s\n---\n\n## Core results\n\nBy %s.\n' $status $who > "$name.part"
rm "$who.$$.pid"
mv "$name.part" "$report"
"#;

const CONFIG: &str = "\
[llm]
provider = \"none\"
[run]
max_parallel = 10
max_attempts = 50
task_timeout = \"2s\"
[budget]
attempts = \"none\"
";

fn argv(who: &str) -> [&str; 5] {
    ["sh", "agent.sh", who, "{prompt_file}", "{report}"]
}

fn team() -> String {
    let role = |(id, lanes, _): &(&str, usize, u64)| {
        let worker = match *id {
            "slow" => "external".to_owned(),
            id => format!("{{agent: command, argv: {:?}}}", argv(id)),
        };
        format!("- {{id: {id}, kind: files, concurrency: {lanes}, worker: {worker}}}\n")
    };
    let roles: String = ROLES.iter().map(role).collect();
    format!("name: Four kinds\nroles:\n{roles}")
}

/// Makes a plan; no task depends on a silent one, so that there is always other work.
fn plan(chance: &mut Chance) -> String {
    let mut text = "# Parts\n\n".to_owned();
    let mut silent = BTreeSet::new();
    for number in 1..=size().0 {
        let mut pick = chance.below(100);
        let role = ROLES.iter().find(|(_, _, share)| {
            let found = pick < *share;
            pick = pick.saturating_sub(*share);
            found
        });
        let (role, ..) = match number % 60 {
            20 => &ROLES[3],
            _ => role.unwrap(),
        };
        let mut after = BTreeSet::new();
        // The first tasks have no dependencies, so that there is work for every lane.
        let most = if number <= 40 { 1 } else { 3 };
        for _ in 0..chance.below(most) {
            let other = number.saturating_sub(1 + u32::try_from(chance.below(30)).unwrap());
            if other > 0 && !silent.contains(&other) {
                after.insert(other.to_string());
            }
        }
        if *role == "silent" {
            silent.insert(number);
        }
        let after = match after.len() {
            0 => String::new(),
            _ => {
                let after: Vec<String> = after.into_iter().collect();
                format!("- after: {}\n", after.join(", "))
            }
        };
        write!(
            text,
            "## Part {number}\n\n- assignee: {role}\n{after}\nMake it.\n\n"
        )
        .unwrap();
    }
    text
}

/// The daemon, and the workers with their own processes.
struct Players<'a> {
    env: &'a TestEnv,
    daemon: Running,
    workers: Vec<Running>,
}

impl<'a> Players<'a> {
    fn start(env: &'a TestEnv) -> Self {
        let workers = (0..3).map(|_| Self::worker(env)).collect();
        Self {
            env,
            daemon: Self::daemon(env),
            workers,
        }
    }

    fn daemon(env: &TestEnv) -> Running {
        let words = next_words(env);
        env.start(format!("{words} --team team.yaml --no-input"))
    }

    fn worker(env: &TestEnv) -> Running {
        let words = ["worker", "--role", "slow", "--agent", "command", "--"];
        env.start([&words[..], &argv("slow")].concat())
    }

    /// Kills one of them, and starts another in its place.
    fn kill(&mut self, chance: &mut Chance) {
        let victim = usize::try_from(chance.below(8)).unwrap();
        let life = self.workers.get_mut(victim).unwrap_or(&mut self.daemon);
        // It may have ended already: then there is nothing to kill.
        life.child.kill().unwrap();
        life.wait();
        match self.workers.get_mut(victim) {
            Some(worker) => *worker = Self::worker(self.env),
            None => self.daemon = Self::daemon(self.env),
        }
    }
}

#[test]
fn ten_lanes_with_kills_decide_each_task_once() {
    let env = &TestEnv::new();
    let mut chance = Chance::new("PLAN_AGENT_CRASH_SEED");
    env.write("config.toml", CONFIG);
    env.write("team.yaml", &team());
    env.write("plan.md", &plan(&mut chance));
    env.write("volumes/workspace/agent.sh", AGENT);
    for (who, lanes, _) in ROLES {
        let name = format!("volumes/workspace/{who}.lanes");
        env.write(&name, &format!("{lanes}\n"));
    }
    let mut players = Players::start(env);
    for _ in 0..size().1 {
        std::thread::sleep(Duration::from_micros(chance.below(500_000)));
        players.kill(&mut chance);
    }
    wait_at_most(2 * DEADLINE, "the plan is completed", || {
        match players.daemon.child.try_wait().unwrap() {
            Some(status) if status.code() == Some(0) => true,
            // No worker took a command for a while: that is for a person, or for the next worker.
            Some(status) => {
                assert_eq!(status.code(), Some(4));
                players.daemon = Players::daemon(env);
                false
            }
            None => false,
        }
    });
    drop(players);
    let ledger = Ledger::of(env).unwrap();
    assert_eq!(*ledger.plan.status(), PlanState::Completed);
    decided_once_and_in_order(&ledger);
    let workspace = |name: &str| env.path("volumes/workspace").join(name);
    assert!(!workspace("overlap").exists(), "two agents on one command");
    for (who, lanes, _) in ROLES {
        let counts = fs::read_to_string(workspace(&format!("{who}.together"))).unwrap();
        let most = counts.lines().map(|line| line.parse().unwrap()).max();
        assert_eq!(most, Some(lanes), "at work at once: {who}");
    }
}

fn decided_once_and_in_order(ledger: &Ledger) {
    let plan = &ledger.plan;
    let mut once = BTreeSet::new();
    let mut completed = BTreeSet::new();
    let mut timed_out = 0;
    let mut judged: BTreeMap<TaskId, Vec<Decision>> = BTreeMap::new();
    for event in ledger.log.iter().flat_map(|change| &change.delta.events) {
        let words = match event {
            Event::Issued { task, attempt, .. } => {
                let task = plan.task(*task).unwrap();
                let early = task.dependencies.iter().find(|id| !completed.contains(*id));
                assert_eq!(early, None, "task {} did not wait", task.number);
                format!("attempt {attempt} of task {} is issued", task.number)
            }
            Event::Reported { command, .. } => format!("{command} is reported"),
            Event::Judged {
                task,
                command,
                decision,
                ..
            } => {
                judged.entry(*task).or_default().push(*decision);
                format!("{command} is judged")
            }
            Event::Completed { task, .. } => {
                completed.insert(*task);
                format!("task {task} is completed")
            }
            Event::TimedOut(trouble) => {
                timed_out += 1;
                format!("{} is timed out", trouble.command)
            }
            _ => continue,
        };
        assert!(once.insert(words.clone()), "{words} twice");
    }
    assert_eq!(completed.len(), size().0 as usize);
    for task in plan.tasks() {
        let role = task.assignee.as_deref().unwrap();
        assert_eq!(task.status, TaskState::Completed);
        assert_eq!(task.result.as_deref(), Some(&*format!("By {role}.")));
        let verdicts = &judged[&task.number];
        assert_eq!(
            verdicts.last(),
            Some(&Decision::Next),
            "task {}",
            task.number
        );
        assert!(role != "failing" || verdicts.len() >= 2, "{verdicts:?}");
    }
    let silent = |role: &str| role == "silent";
    let silent = plan
        .tasks()
        .filter(|task| task.assignee.as_deref().is_some_and(silent));
    assert!(timed_out >= silent.count(), "{timed_out} time-outs");
}
