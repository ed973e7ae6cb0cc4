//! The progress of a running plan: the events that a person at the terminal wants to see, with the names of the tasks. How a task
//! failed is said in full once, and not again when that repeats.

use std::collections::BTreeMap;

use super::event_lines::{happened, numbered};
use super::{Mark, Paint, Style, name, numbers, usage};
use crate::plan::{AttemptTrouble, BudgetLimit, Decision, Event, Plan, Task, TaskId};
use crate::store::Change;
use crate::wire::{joined, role};

/// Tasks of a new plan that are listed.
const LISTED: usize = 30;

/// Returns how a task is called, with its name where that is known.
fn called(task: TaskId, names: &BTreeMap<TaskId, String>) -> String {
    match names.get(&task) {
        Some(name) => format!("{task} · {name}"),
        None => numbered(task),
    }
}

/// Returns the tasks of a plan that has just been made, a line each.
pub fn tasks(plan: &Plan) -> Vec<String> {
    let line = |task: &Task| {
        let after = match task.dependencies.as_slice() {
            [] => String::new(),
            some => format!("  (after {})", numbers(some)),
        };
        let of = task.assignee.as_deref();
        let of = of.map_or(String::new(), |of| format!(" ({})", role(of)));
        let (number, name) = (task.number, name(&task.name));
        format!("           {number} · {name}{of}{after}")
    };
    let more = plan.counts().total().saturating_sub(LISTED);
    let more = (more > 0).then(|| format!("           … {more} more"));
    plan.tasks().take(LISTED).map(line).chain(more).collect()
}

/// Returns what came of the tasks of a plan, how long it took, and what it used: one of the last lines of a run. Nothing of a
/// plan without tasks.
pub fn results(plan: &Plan, paint: Paint) -> Option<String> {
    let counts = plan.counts();
    let proven = plan.proven_count();
    let settled = counts.completed + counts.failed + counts.skipped;
    let plain = |word: &str, count: usize| (count > 0).then(|| format!("{count} {word}"));
    let usage = &plan.head().usage;
    let (tokens, cost) = usage::whole(usage);
    let parts = [
        Mark::PROVEN.count(proven, paint),
        Mark::ACCEPTED.count(counts.completed.saturating_sub(proven), paint),
        Mark::FAILED.count(counts.failed, paint),
        plain("skipped", counts.skipped),
        plain("not done", counts.total().saturating_sub(settled)),
        usage::time(plan.used(BudgetLimit::WallTime, usage.lived)),
        usage::tokens(tokens, 0),
        usage::money(cost),
    ];
    (counts.total() > 0).then(|| joined(parts.into_iter().flatten(), " · "))
}

/// The last failure of each task, how often it came in a row, and how often the task failed in all.
#[derive(Debug, Default)]
pub struct RepeatedFailures(BTreeMap<TaskId, (String, u32, u32)>);

impl RepeatedFailures {
    /// Returns an event as a line of progress, shorter where it only repeats how the task failed before; nothing for those that only
    /// programs want to see.
    pub fn progress(
        &mut self,
        change: &Change,
        event: &Event,
        names: &BTreeMap<TaskId, String>,
    ) -> Option<(String, Style)> {
        let again = self.fold(event);
        match event {
            Event::Claimed { .. } | Event::Merged { .. } | Event::Started => return None,
            Event::Judged { decision, .. } if *decision == Decision::Next => return None,
            _ => {}
        }
        Some(match (again, event.task()) {
            (Some(again), Some(task)) => (format!("{}: {again}", called(task, names)), Style::Bad),
            _ => happened(change, event, |task| called(task, names)),
        })
    }

    /// Records an event. Returns what to say instead if it only repeats how the task failed before.
    fn fold(&mut self, event: &Event) -> Option<String> {
        let task = event.task()?;
        let Some(reason) = failure(event) else {
            if matches!(event, Event::Completed { .. } | Event::Reopened { .. }) {
                self.0.remove(&task);
            }
            return None;
        };
        // Times and ports differ where the cause is the same.
        let cause = reason.replace(|c: char| c.is_ascii_digit(), "0");
        let (last, times, all) = self.0.entry(task).or_default();
        *all += 1;
        if *last != cause {
            (*last, *times) = (cause, 1);
            return None;
        }
        *times += 1;
        Some(match all == times {
            true => format!("failed again in the same way ({times} times)"),
            false => format!("failed again in the same way ({times} times; {all} failures in all)"),
        })
    }
}

/// Returns why an attempt failed.
fn failure(event: &Event) -> Option<&str> {
    match event {
        Event::Judged {
            decision: Decision::Retry,
            reason,
            ..
        }
        | Event::TimedOut(AttemptTrouble { reason, .. })
        | Event::Stumbled { reason, .. } => Some(reason),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::CommandId;

    #[test]
    fn repeated_failure_is_folded() {
        let mut failures = RepeatedFailures::default();
        let mut fold = |task: u32, reason: &str| {
            failures.fold(&Event::Judged {
                task: TaskId(task),
                command: CommandId::new("task-1a"),
                decision: Decision::Retry,
                reason: reason.into(),
            })
        };
        assert_eq!(fold(1, "no port 8081"), None);
        assert_eq!(fold(2, "no port 8081"), None);
        let again = |times: u32| Some(format!("failed again in the same way ({times} times)"));
        assert_eq!(fold(1, "no port 8082"), again(2));
        assert_eq!(fold(1, "no port 8083"), again(3));
        assert_eq!(fold(1, "no disk"), None);
        assert_eq!(fold(1, "no port 8081"), None);
        let third = "failed again in the same way (2 times; 6 failures in all)".to_owned();
        assert_eq!(fold(1, "no port 8082"), Some(third));
    }
}
