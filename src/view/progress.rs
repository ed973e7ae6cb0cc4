//! The progress of a running plan: the events that a person at the terminal wants to see, with the names of the tasks.

use std::collections::BTreeMap;

use super::event_lines::happened_in;
use super::{Style, name, numbers};
use crate::plan::{Decision, Event, Plan, TaskId};
use crate::store::Change;
use crate::wire::lanes_text;

/// Tasks of a new plan that are listed.
const LISTED: usize = 30;

/// Returns an event as a line of progress; nothing for those that only programs want to see.
pub fn progress(
    change: &Change,
    event: &Event,
    names: &BTreeMap<TaskId, String>,
) -> Option<(String, Style)> {
    let next = matches!(
        event,
        Event::Judged {
            decision: Decision::Next,
            ..
        }
    );
    if next
        || matches!(
            event,
            Event::Claimed { .. } | Event::Merged { .. } | Event::Started
        )
    {
        return None;
    }
    let (text, style) = happened_in(change, event);
    let named = event.task().and_then(|task| {
        let rest = text.strip_prefix(&format!("task {task}: "))?;
        Some(format!("{task} · {}: {rest}", names.get(&task)?))
    });
    Some((named.unwrap_or(text), style))
}

/// Returns the tasks of a plan that has just been made, a line each.
pub fn tasks(plan: &Plan) -> Vec<String> {
    let line = |task: &crate::plan::Task| {
        let after = match task.dependencies.as_slice() {
            [] => String::new(),
            some => format!("  (after {})", numbers(some)),
        };
        let role = task.assignee.as_deref();
        let role = role.map_or(String::new(), |role| {
            format!(" ({})", lanes_text::role(role))
        });
        format!(
            "           {} · {}{role}{after}",
            task.number,
            name(&task.name)
        )
    };
    let mut lines: Vec<String> = plan.tasks().take(LISTED).map(line).collect();
    let more = plan.counts().total().saturating_sub(LISTED);
    if more > 0 {
        lines.push(format!("           … {more} more"));
    }
    lines
}
