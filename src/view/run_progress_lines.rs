//! The progress of a running plan: the events that a person at the terminal wants to see, with the names of the tasks.

use std::collections::BTreeMap;

use super::event_lines::{happened, numbered};
use super::{Mark, Paint, Style, name, numbers, usage};
use crate::plan::{BudgetLimit, Decision, Event, Plan, Task, TaskId};
use crate::store::Change;
use crate::wire::role_text::role;

/// Tasks of a new plan that are listed.
const LISTED: usize = 30;

/// Returns an event as a line of progress; nothing for those that only programs want to see.
pub fn progress(
    change: &Change,
    event: &Event,
    names: &BTreeMap<TaskId, String>,
) -> Option<(String, Style)> {
    match event {
        Event::Claimed { .. } | Event::Merged { .. } | Event::Started => None,
        Event::Judged { decision, .. } if *decision == Decision::Next => None,
        _ => Some(happened(change, event, |task| called(task, names))),
    }
}

/// Returns how a task is called, with its name where that is known.
pub(super) fn called(task: TaskId, names: &BTreeMap<TaskId, String>) -> String {
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
    let mut lines: Vec<String> = plan.tasks().take(LISTED).map(line).collect();
    let more = plan.counts().total().saturating_sub(LISTED);
    if more > 0 {
        lines.push(format!("           … {more} more"));
    }
    lines
}

/// Returns what came of the tasks of a plan, how long it took, and what it used: one of the last lines of a run. Nothing of a
/// plan without tasks.
pub fn results(plan: &Plan, paint: Paint) -> Option<String> {
    let counts = plan.counts();
    let proven = plan.proven_count();
    let accepted = counts.completed.saturating_sub(proven);
    let settled = counts.completed + counts.failed + counts.skipped;
    let plain = |word: &str, count: usize| (count > 0).then(|| format!("{count} {word}"));
    let usage = &plan.head().usage;
    let (tokens, cost) = usage::whole(usage);
    let took = plan.used(BudgetLimit::WallTime, usage.lived);
    let parts = [
        Mark::Proven.count(proven, paint),
        Mark::Accepted.count(accepted, paint),
        Mark::Failed.count(counts.failed, paint),
        plain("skipped", counts.skipped),
        plain("not done", counts.total().saturating_sub(settled)),
        usage::time(took),
        usage::tokens(tokens, 0),
        usage::money(cost),
    ];
    let said: Vec<String> = parts.into_iter().flatten().collect();
    (counts.total() > 0).then(|| said.join(" · "))
}
