//! The contents of the store while no process has it open, and what must hold for them at every moment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use plan_agent::plan::{
    AskId, AttemptKind, Event, ModelQuestionKind, Plan, PlanId, Row, TaskId, TaskState, Time,
};
use plan_agent::store::{Change, Store};
use sha2::{Digest, Sha256};

use super::agent::{Record, field};
use super::scene::number;
use super::stage::Stage;
use crate::common::core::block_on;
use crate::common::env::{TestEnv, wait_until};

/// A plan of a folder, with its complete log.
pub struct Ledger {
    pub plan: Plan,
    pub log: Vec<Change>,
}

/// Returns the command line that a person would type next.
pub fn next_words(env: &TestEnv) -> &'static str {
    match Ledger::of(env) {
        Some(_) => "resume",
        None => "run --plan plan.md",
    }
}

impl Ledger {
    /// Reads the only plan of a folder; `None` before there is one.
    pub fn of(env: &TestEnv) -> Option<Self> {
        let mut plans = Self::all(env);
        assert!(plans.len() < 2, "one plan was made, not {}", plans.len());
        plans.pop()
    }

    /// Reads a copy of the store, so that the next daemon finds it as the last one left it. The plans are in the order of their
    /// goals.
    pub fn all(env: &TestEnv) -> Vec<Self> {
        let copy = tempfile::tempdir().unwrap();
        for name in ["plan-agent.db", "plan-agent.db-wal"] {
            let path = env.path("volumes").join(name);
            if path.exists() {
                fs::copy(path, copy.path().join(name)).unwrap();
            }
        }
        block_on(async {
            let store = Store::open(&copy.path().join("plan-agent.db"), Time::default)
                .await
                .unwrap();
            let mut plans = Vec::new();
            for listed in store.plans().await.unwrap() {
                let id = listed.head.id;
                plans.push(Self {
                    plan: store.read(&id, |plan, _| plan.clone()).await.unwrap(),
                    log: store.since(&id, 0, usize::MAX).await.unwrap(),
                });
            }
            plans.sort_by_key(Self::number);
            plans
        })
    }

    /// Returns the number of the plan in its scene.
    pub fn number(&self) -> usize {
        number(&self.plan.head().goal)
    }

    pub fn is_over(&self) -> bool {
        self.plan.status().settled()
    }

    /// Lists what must be the same in every run of a scene: structure, states, results, attempts, verdicts.
    pub fn outline(&self) -> String {
        let plan = &self.plan;
        let head = plan.head();
        let state = (&head.status, &head.outcome, &head.replans, &head.audited);
        let mut lines = vec![format!("{state:?}")];
        for task in plan.tasks() {
            let what = (
                task.number,
                &task.name,
                &task.description,
                &task.dependencies,
            );
            // The snapshot of the folder, and the names of other agents at work, may differ.
            let proven = task.evidence.as_ref().map(|evidence| evidence.proven);
            let state = (&task.status, &task.result, proven);
            let counts = (task.attempts, task.failures, &task.note);
            lines.push(format!("{what:?} {state:?} {counts:?}"));
            for attempt in plan.attempts_of(task.number) {
                let what = (attempt.number, &attempt.kind, &attempt.session);
                let state = (&attempt.state, attempt.rejections);
                let report = attempt.report.as_ref();
                let report = report.map(|report| (report.status, &report.results, &report.session));
                let verdict = attempt.verdict.as_ref();
                let verdict = verdict.map(|one| (one.decision, &one.reason, &one.feedback));
                lines.push(format!("  {what:?} {state:?} {report:?} {verdict:?}"));
            }
        }
        for session in plan.sessions() {
            let state = (&session.id, session.task, session.end.is_some());
            lines.push(format!("{state:?}"));
        }
        lines.push(format!("{} questions", plan.questions().count()));
        lines.join("\n")
    }

    /// Returns the text of every command that was ever decided, by its id.
    fn commands(&self) -> BTreeMap<String, String> {
        let attempts = self
            .plan
            .attempts()
            .map(|attempt| (attempt.id.to_string(), attempt.text.clone()));
        let ends = self
            .plan
            .sessions()
            .filter_map(|session| session.end.clone());
        attempts
            .chain(ends.map(|end| (end.id.to_string(), end.text)))
            .collect()
    }

    fn words(&self, subject: &ModelQuestionKind) -> String {
        let about = match subject {
            ModelQuestionKind::Plan => "plan".to_owned(),
            ModelQuestionKind::Replan => "replan".to_owned(),
            ModelQuestionKind::Audit => "audit".to_owned(),
            ModelQuestionKind::Summary => "summary".to_owned(),
            ModelQuestionKind::Strategy => "strategy".to_owned(),
            ModelQuestionKind::Step(task) => format!("step {task}"),
            ModelQuestionKind::Judge(command) => {
                let attempt = self.plan.attempt(command).unwrap();
                format!("judge {}.{}", attempt.task, attempt.number)
            }
        };
        format!("{about} of plan {}", self.number())
    }
}

/// Reads the store each time all daemons are dead, and remembers its state.
#[derive(Default)]
pub struct Watch {
    lives: usize,
    plans: BTreeMap<PlanId, PlanWatch>,
}

/// What was seen of a plan.
#[derive(Default)]
struct PlanWatch {
    /// The last change that was committed in each life.
    lives: Vec<i64>,
    results: BTreeMap<TaskId, (TaskState, Option<String>)>,
}

impl Watch {
    /// Checks what holds after every kill; returns whether all plans have ended.
    pub fn look(&mut self, stage: &Stage) -> bool {
        let record = stage.agent.record();
        assert_eq!(record.faults, [""; 0]);
        let ledgers = Ledger::all(&stage.env);
        let numbers: Vec<usize> = ledgers.iter().map(Ledger::number).collect();
        let mut once = numbers.clone();
        once.dedup();
        assert_eq!(numbers, once, "a plan was made twice");
        for (command, text) in &record.seen {
            let mut plans = ledgers.iter().map(|ledger| ledger.plan.id());
            let known = plans.any(|plan| is_of(text, plan));
            assert!(known, "{command} is of no plan: {text}");
        }
        for ledger in &ledgers {
            let watch = self.plans.entry(ledger.plan.id().clone()).or_default();
            watch.lives.resize(self.lives, 0);
            watch.look(ledger, &record);
            watch.count_questions(ledger, stage);
        }
        self.lives += 1;
        ledgers.len() == stage.scene.folders.len() && ledgers.iter().all(Ledger::is_over)
    }
}

impl PlanWatch {
    fn look(&mut self, ledger: &Ledger, record: &Record) {
        let seqs: Vec<i64> = ledger.log.iter().map(|change| change.seq).collect();
        let last = i64::try_from(seqs.len()).unwrap();
        // No change is missing or twice.
        assert_eq!(seqs, (1..=last).collect::<Vec<_>>());
        // No change that was seen is gone.
        assert!(last >= self.lives.last().copied().unwrap_or(0));
        self.lives.push(last);
        // Everything that was visible outside had been decided before.
        let commands = ledger.commands();
        let seen = record.seen.iter();
        for (command, text) in seen.filter(|(_, text)| is_of(text, ledger.plan.id())) {
            assert_eq!(
                commands.get(command),
                Some(text),
                "{command} as it is decided, and as it was seen"
            );
        }
        for (task, before) in &self.results {
            let task = ledger.plan.task(*task).unwrap();
            assert_eq!(
                *before,
                (task.status, task.result.clone()),
                "task {} was decided",
                task.number
            );
        }
        for task in ledger.plan.tasks().filter(|task| task.status.settled()) {
            self.results
                .insert(task.number, (task.status, task.result.clone()));
        }
        count_decisions(ledger);
    }

    /// Checks that a daemon asks each question at most once, and never one that has its answer; and that the model gets no
    /// question that was not counted before.
    fn count_questions(&self, ledger: &Ledger, stage: &Stage) {
        let mut begun: BTreeMap<String, usize> = BTreeMap::new();
        let mut answered: BTreeSet<AskId> = BTreeSet::new();
        let mut closed: BTreeSet<String> = BTreeSet::new();
        let mut in_this_life = BTreeSet::new();
        let mut lives = self.lives.iter().copied().peekable();
        for change in &ledger.log {
            while lives.peek().is_some_and(|last| *last < change.seq) {
                lives.next();
                in_this_life.clear();
            }
            // One that took over from another in the same life: a daemon, or the `run` that followed it.
            if ["the daemon starts", "carried out where it was begun"].contains(&&*change.why) {
                in_this_life.clear();
            }
            for event in &change.delta.events {
                if let Event::Asking { subject, .. } = event {
                    let words = ledger.words(subject);
                    assert!(
                        !closed.contains(&words),
                        "{words} has its answer and is asked again"
                    );
                    assert!(
                        in_this_life.insert(words.clone()),
                        "{words} is asked twice by one daemon"
                    );
                    *begun.entry(words).or_default() += 1;
                }
            }
            for row in &change.delta.rows {
                if let Row::Ask(ask) = row
                    && ask.answered.is_some()
                    && answered.insert(ask.id.clone())
                {
                    closed.insert(ledger.words(&ask.subject));
                }
            }
        }
        let of_plan = format!(" of plan {}", ledger.number());
        let asked = stage.asked().into_iter();
        for (words, times) in asked.filter(|(words, _)| words.ends_with(&of_plan)) {
            let begun = begun.get(&words).copied().unwrap_or(0);
            assert!(
                times <= begun,
                "{words} was asked {times} times and counted {begun} times"
            );
        }
    }
}

/// Checks that every attempt is issued, reported and judged once, and every task settled once.
fn count_decisions(ledger: &Ledger) {
    let mut once = BTreeSet::new();
    for event in ledger.log.iter().flat_map(|change| &change.delta.events) {
        let words = match event {
            Event::Issued {
                task,
                attempt,
                kind,
                ..
            } if *kind != AttemptKind::Repair => {
                format!("attempt {attempt} of task {task} is issued")
            }
            Event::Issued { command, .. } => format!("{command} is issued"),
            Event::Reported { command, .. } => format!("{command} is reported"),
            Event::Rejected(trouble) => format!("{} is rejected", trouble.command),
            Event::Judged { command, .. } => format!("{command} is judged"),
            Event::Completed { task, .. }
            | Event::Skipped { task, .. }
            | Event::Failed { task, .. } => {
                format!("task {task} is settled")
            }
            Event::Replanned { .. } => "the plan is changed".to_owned(),
            Event::Audited { .. } => "the goal is audited".to_owned(),
            Event::Settled { .. } => "the plan is settled".to_owned(),
            Event::TimedOut(_)
            | Event::Stale { .. }
            | Event::Asked { .. }
            | Event::ModelFailed { .. } => {
                panic!("not in the script: {event:?}")
            }
            _ => continue,
        };
        assert!(once.insert(words.clone()), "{words} twice");
    }
}

/// Checks what holds at the end: nothing is left over, nothing is lost.
pub fn audit(stage: &Stage) {
    let ledgers = Ledger::all(&stage.env);
    assert!(ledgers.iter().all(Ledger::is_over));
    wait_until("the agent takes the last commands", || {
        files(stage, "commands/pending").is_empty()
    });
    let record = stage.agent.record();
    assert_eq!(record.faults, [""; 0]);
    let commands: BTreeMap<_, _> = ledgers.iter().flat_map(Ledger::commands).collect();
    // Every command that was decided was seen.
    assert_eq!(commands, record.seen);
    let files = |folder| files(stage, folder);
    for empty in ["commands/withdrawn", "reports/pending", "questions/pending"] {
        assert_eq!(files(empty), BTreeMap::new(), "{empty}");
    }
    let taken = files("commands/processed");
    let named = commands.into_iter();
    let named = named.map(|(command, text)| (format!("{command}.md"), text));
    assert_eq!(taken, named.collect::<BTreeMap<_, _>>());
    let mut rejected = files("reports/rejected");
    let mut processed = files("reports/processed");
    for report in &record.reports {
        let filed = if report.readable {
            &mut processed
        } else {
            &mut rejected
        };
        assert_eq!(
            filed.remove(&report.name).as_ref(),
            Some(&report.text),
            "{}",
            report.name
        );
        if report.readable {
            let attempt = ledgers
                .iter()
                .flat_map(|ledger| ledger.plan.attempts())
                .find(|attempt| attempt.id.as_str() == report.command)
                .unwrap();
            assert_eq!(
                attempt.report.as_ref().unwrap().hash,
                sha256(&report.text),
                "{}",
                report.name
            );
        } else {
            let reason = rejected
                .remove(&format!("{}.reason.md", report.name))
                .unwrap_or_default();
            assert!(!reason.is_empty(), "no reason beside {}", report.name);
        }
    }
    // The agent brought all of them.
    assert_eq!((processed, rejected), (BTreeMap::new(), BTreeMap::new()));
    assert_eq!(files("reports/stale"), BTreeMap::new());
}

/// Returns whether a command is of a plan.
fn is_of(command: &str, plan: &PlanId) -> bool {
    field(command, "plan") == Some(plan.as_str())
}

fn files(stage: &Stage, folder: &str) -> BTreeMap<String, String> {
    fs::read_dir(stage.env.path("volumes").join(folder))
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read_to_string(entry.path()).unwrap())
        })
        .collect()
}

fn sha256(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
