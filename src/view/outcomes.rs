//! What came of the tasks of all plans, counted from their logs, and what the next tasks may therefore need.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use serde::Serialize;

use super::usage::{money, of_tasks, time};
use super::{Mark, Paint};
use crate::plan::{Decision, Event, Plan, QuestionId, Task, TaskId, TaskState, Time, counted};
use crate::store::Change;
use crate::wire::{joined, one_line};

/// An answer within this time was given without much thought.
const AT_ONCE: Duration = Duration::from_secs(5);

/// With fewer tasks than this, the next ones are guessed.
const FEW: usize = 5;

/// What one task takes as long as little is known: seconds from and to.
const GUESS: (f64, f64) = (60.0, 600.0);

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
                Event::Completed { task, proven } => completed.extend([(*task, *proven)]),
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
                Event::Skipped { task, .. } => skipped.extend([task]),
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
            let agent = self.agents.entry(agent_of(plan)).or_default();
            let used = used.get(task).copied().unwrap_or_default();
            agent.tasks += 1;
            agent.attempts += plan.task(*task).map_or(0, |task| u64::from(task.attempts));
            agent.seconds += used.seconds;
            agent.cost_usd += used.cost_usd;
        }
    }

    /// Returns it in words, a line each.
    pub fn text(&self, paint: Paint) -> String {
        let done = self.proven + self.accepted;
        if done + self.failed + self.skipped == 0 {
            return "no task has ended yet\n".to_owned();
        }
        let marked = |mark: Mark, count| mark.counted(count, paint);
        let mut lines = vec![format!(
            "{} of {}: {} · {} · {} · {} skipped",
            counted(done, "task"),
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
    let Some(agent) = options.and_then(|options| options.agent.as_deref()) else {
        return "other workers".to_owned();
    };
    let arguments = options.map_or(&[][..], |options| &options.args);
    let mut arguments = arguments.iter().map(String::as_str);
    let mut all = arguments.clone();
    let model = all.find_map(|one| one.strip_prefix("--model="));
    let after = arguments.find(|one| ["--model", "-m"].contains(one));
    let model = after.and_then(|_| arguments.next()).or(model);
    let model = model.map_or(String::new(), |model| format!(" ({model})"));
    one_line(&format!("{agent}{model}"), NAME)
}

/// What completed tasks took, of which the next ones are expected.
#[derive(Clone, Debug, Default)]
pub struct PastTasks {
    seconds: Vec<f64>,
    dollars: Vec<f64>,
}

impl PastTasks {
    /// Adds the tasks that an agent (see [`agent_of`]) completed before a time.
    pub fn add(&mut self, plan: &Plan, agent: &str, before: Time) {
        if agent_of(plan) != agent {
            return;
        }
        let used = of_tasks(plan);
        let early = |task: &&Task| task.finished_at.is_some_and(|at| at < before);
        let done = |task: &&Task| task.status == TaskState::Completed && early(task);
        let done = plan.tasks().filter(done);
        for used in done.filter_map(|task| used.get(&task.number)) {
            self.seconds.push(used.seconds);
            self.dollars.push(used.cost_usd);
        }
    }

    /// Returns what the tasks of a plan may take, in words: a range from the middle half of the past tasks. While they are few,
    /// the time alone is guessed if that is wanted. `None` if there is nothing to say.
    pub fn expected(&self, plan: &Plan, lanes: u32, guess: bool) -> Option<String> {
        let counts = plan.counts();
        let count = counts.total() - counts.skipped;
        let lanes = usize::try_from(lanes).unwrap_or(1);
        let known = self.seconds.len() >= FEW;
        let (seconds, source) = match known {
            true => {
                let source = format!("from the {} tasks done here", self.seconds.len());
                (middle_half(&self.seconds), source)
            }
            false if guess => (GUESS, "a guess: few tasks were done here yet".to_owned()),
            false => return None,
        };
        let said = range(seconds, count.div_ceil(lanes.max(1)) as f64, time);
        let cost = known.then(|| range(middle_half(&self.dollars), count as f64, money));
        let said: Vec<String> = [said, cost.flatten()].into_iter().flatten().collect();
        (count > 0 && !said.is_empty()).then(|| format!("expected: {} ({source})", said.join(", ")))
    }
}

/// Returns the first and the third quartile.
fn middle_half(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |quarter: usize| sorted.get((sorted.len() - 1) * quarter / 4);
    let at = |quarter| at(quarter).copied().unwrap_or_default();
    (at(1), at(3))
}

/// Says a range of so many times two values, or the one value that both ends show.
fn range(
    (low, high): (f64, f64),
    times: f64,
    say: impl Fn(f64) -> Option<String>,
) -> Option<String> {
    let high = say(high * times)?;
    match say(low * times) {
        Some(low) if low != high => Some(format!("{low} to {high}")),
        Some(_) => Some(high),
        None => Some(format!("up to {high}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample_plan;
    use super::*;

    #[test]
    fn expects_the_middle_half_of_what_was_done() {
        let plan = sample_plan::plan();
        let mut past = PastTasks::default();
        assert_eq!(past.expected(&plan, 3, false), None);
        insta::assert_snapshot!(past.expected(&plan, 3, true).unwrap(), @"expected: 2 min to 20 min (a guess: few tasks were done here yet)");
        past.seconds = vec![5.0, 60.0, 60.0, 120.0, 9000.0];
        past.dollars = vec![0.0, 0.1, 0.2, 0.3, 70.0];
        insta::assert_snapshot!(past.expected(&plan, 3, true).unwrap(), @"expected: 2 min to 4 min, $0.50 to $1.50 (from the 5 tasks done here)");
        past.seconds = vec![0.01; 5];
        past.dollars = vec![0.0; 5];
        assert_eq!(past.expected(&plan, 3, true), None);
    }
}
