//! What came of the tasks of all plans, counted from their logs, and what the next tasks may therefore need.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use serde::Serialize;

use super::usage::{money, of_tasks, time};
use super::{Mark, Paint};
use crate::plan::{
    Attempt, DAEMON, Decision, Event, Plan, QuestionId, TaskId, Time, agent_label, counted,
};
use crate::store::Change;
use crate::wire::{joined, one_line};

/// An answer within this time was given without much thought.
const AT_ONCE: Duration = Duration::from_secs(5);

/// The longest name of an agent.
const NAME: usize = 40;

/// What came of tasks: the JSON of `outcomes --json`.
#[derive(Debug, Default, Serialize)]
pub struct Outcomes {
    plans: usize,
    proven: usize,
    accepted: usize,
    failed: usize,
    skipped: usize,
    /// Tasks that had more than one attempt, or of which a result was not accepted.
    retried: usize,
    /// Tasks for which the plan was changed.
    replanned: usize,
    /// Tasks about which a person was asked.
    asked: usize,
    /// Completed tasks that were opened again.
    reopened: usize,
    answers: usize,
    /// Answers within 5 seconds of the question.
    answers_at_once: usize,
    agents: BTreeMap<String, AgentOutcomes>,
}

/// What the completed tasks of an agent took.
#[derive(Debug, Default, Serialize)]
struct AgentOutcomes {
    tasks: usize,
    attempts: u64,
    seconds: f64,
    cost_usd: f64,
}

impl Outcomes {
    /// Adds what happened to a plan since a time, by its log.
    pub fn add(&mut self, plan: &Plan, changes: &[Change], since: Time) {
        let mut asked_at: HashMap<&QuestionId, Time> = HashMap::new();
        let mut completed: BTreeMap<TaskId, bool> = BTreeMap::new();
        let [mut failed, mut skipped, mut retried] = <[BTreeSet<TaskId>; 3]>::default();
        let [mut replanned, mut asked] = <[BTreeSet<TaskId>; 2]>::default();
        let recent = changes.iter().filter(|change| change.at >= since);
        let events =
            recent.flat_map(|change| change.delta.events.iter().map(|event| (change.at, event)));
        let mut events = events.peekable();
        self.plans += usize::from(events.peek().is_some());
        for (at, event) in events {
            match event {
                Event::Completed { task, proven } => {
                    completed.insert(*task, *proven);
                    skipped.remove(task);
                    failed.remove(task);
                }
                Event::Reopened { task } => {
                    self.reopened += usize::from(completed.remove(task).is_some());
                    // What it ends with now is counted.
                    skipped.remove(task);
                    failed.remove(task);
                }
                Event::Issued { task, attempt, .. } if *attempt > 1 => retried.extend([task]),
                Event::Judged { task, decision, .. } => match decision {
                    Decision::Retry => retried.extend([task]),
                    Decision::Replan => replanned.extend([task]),
                    Decision::Next | Decision::Abort => {}
                },
                Event::Asked { question, task, .. } => {
                    asked_at.insert(question, at);
                    asked.extend(task);
                }
                Event::Answered { question, .. } => {
                    let shown = asked_at.get(question);
                    self.answers += 1;
                    self.answers_at_once +=
                        usize::from(shown.is_some_and(|shown| at.since(*shown) <= AT_ONCE));
                }
                Event::Failed { task, .. } => failed.extend([task]),
                Event::Skipped { task, .. } => {
                    skipped.insert(*task);
                    failed.remove(task);
                }
                _ => {}
            }
        }
        let proven = completed.values().filter(|proven| **proven).count();
        self.proven += proven;
        self.accepted += completed.len() - proven;
        self.failed += failed.len();
        self.skipped += skipped.len();
        self.retried += retried.len();
        self.replanned += replanned.len();
        self.asked += asked.len();
        let used = of_tasks(plan);
        for task in completed.keys() {
            let attempt = plan.task(*task).and_then(|task| plan.current_attempt(task));
            // Else a person did it, or said that it is done.
            if !attempt.map_or(plan.head().owner != DAEMON, Attempt::is_accepted) {
                continue;
            }
            let agent = attempt.map_or_else(|| agent_of(plan), |attempt| works_on(plan, attempt));
            let agent = self.agents.entry(agent).or_default();
            let used = used.get(task).copied().unwrap_or_default();
            agent.tasks += 1;
            agent.attempts += plan.task(*task).map_or(0, |task| u64::from(task.attempts));
            agent.seconds += used.seconds;
            let reports = plan.attempts_of(*task);
            let reports = reports.filter_map(|attempt| attempt.report.as_ref());
            agent.cost_usd += reports.map(|report| report.cost_usd).sum::<f64>();
        }
    }

    /// Returns it in words, a line each.
    pub fn text(&self, paint: Paint) -> String {
        let ended = self.proven + self.accepted + self.failed + self.skipped;
        if ended == 0 {
            return "no task has ended yet\n".to_owned();
        }
        let marked = |mark: Mark, count| mark.counted(count, paint);
        let mut lines = vec![format!(
            "{} of {}: {} · {} · {} · {} skipped",
            counted(ended, "task"),
            counted(self.plans, "plan"),
            marked(Mark::PROVEN, self.proven),
            marked(Mark::ACCEPTED, self.accepted),
            marked(Mark::FAILED, self.failed),
            self.skipped
        )];
        lines.push(format!(
            "{} tried again · {} replanned · {} asked about · {} opened again after they were done",
            self.retried, self.replanned, self.asked, self.reopened
        ));
        if self.answers > 0 {
            let (answers, at_once) = (counted(self.answers, "answer"), self.answers_at_once);
            let within = format!("{at_once} of them within 5 s of the question");
            lines.push(format!("{answers}, {within}"));
        }
        for (name, agent) in &self.agents {
            let each = agent.tasks as f64;
            let parts = [
                Some(counted(agent.tasks, "task")),
                Some(counted(agent.attempts, "attempt")),
                time(agent.seconds / each).map(|time| format!("{time} a task")),
                money(agent.cost_usd / each).map(|cost| format!("{cost} a task")),
            ];
            let parts = joined(parts.into_iter().flatten(), " · ");
            lines.push(format!("{name}: {parts}"));
        }
        lines.join("\n") + "\n"
    }
}

/// Returns the agent of a plan with its model, as far as the person named them.
pub fn agent_of(plan: &Plan) -> String {
    let options = plan.head().options.as_deref();
    let agent = options.and_then(|options| {
        let agent = options.agent.as_deref()?;
        Some(one_line(&agent_label(agent, &options.args), NAME))
    });
    agent.unwrap_or_else(|| "other workers".to_owned())
}

/// Returns who works on an attempt: as its heartbeat says, else the agent of the plan.
pub fn works_on(plan: &Plan, attempt: &Attempt) -> String {
    attempt.agent.clone().unwrap_or_else(|| agent_of(plan))
}
