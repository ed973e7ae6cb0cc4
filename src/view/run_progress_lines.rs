//! The progress of a running plan: the events that a person at the terminal wants to see, with the names of the tasks.

use std::collections::BTreeMap;

use super::event_lines::{happened, numbered};
use super::{Style, name, numbers};
use crate::plan::{Decision, Event, Plan, Task, TaskId};
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
        Event::Claimed { .. } | Event::Merged { .. } | Event::Started => return None,
        Event::Judged { decision, .. } if *decision == Decision::Next => return None,
        _ => {}
    }
    let called = |task| match names.get(&task) {
        Some(name) => format!("{task} · {name}"),
        None => numbered(task),
    };
    Some(happened(change, event, called))
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
