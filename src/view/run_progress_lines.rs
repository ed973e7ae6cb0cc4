//! The progress of a running plan: the events that a person at the terminal wants to see, with the names of the tasks.

use std::collections::BTreeMap;

use super::event_lines::{happened, numbered};
use super::{Mark, Paint, Style, name, numbers, usage};
use crate::plan::{BudgetLimit, Decision, Event, Plan, Task, TaskId, TaskState};
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
    Some(happened(change, event, |task| called(task, names)))
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

/// Returns what came of the tasks of a plan, how long it took, and what it used: the last line of a run.
pub fn results(plan: &Plan, paint: Paint) -> Option<String> {
    let counts = plan.counts();
    let accepted = |wanted: bool| {
        let of = |task: &&Task| {
            task.evidence
                .as_ref()
                .is_some_and(|evidence| evidence.verified)
                == wanted
        };
        let completed = plan
            .tasks()
            .filter(|task| task.status == TaskState::Completed);
        let mark = Mark::accepted(wanted);
        (completed.filter(of).count(), mark.text(), mark.style())
    };
    let marked = |mark: Mark, count| (count, mark.text(), mark.style());
    let asked = plan.open_questions().count();
    let open = counts.total() - counts.completed - counts.failed - counts.skipped;
    let parts = [
        accepted(true),
        accepted(false),
        marked(Mark::Failed, counts.failed),
        (counts.skipped, "skipped".to_owned(), Style::Plain),
        (open, "not done".to_owned(), Style::Plain),
    ];
    let asks = if asked == 1 { "question" } else { "questions" };
    let asks = (
        asked,
        format!("{} {asks}", Mark::Asks.glyph()),
        Mark::Asks.style(),
    );
    let counted = parts
        .into_iter()
        .chain([asks])
        .filter(|(count, ..)| *count > 0);
    let mut said: Vec<String> = counted
        .map(|(count, word, style)| match word.split_once(' ') {
            Some((glyph, word)) => paint.text(style, &format!("{glyph} {count} {word}")),
            None => paint.text(style, &format!("{count} {word}")),
        })
        .collect();
    if said.is_empty() {
        return None;
    }
    let used = &plan.head().usage;
    let (tokens, cost) = usage::whole(used);
    let took = plan.used(BudgetLimit::WallTime, used.lived);
    said.extend(usage::time(took));
    said.extend(usage::tokens(tokens, 0));
    said.extend(usage::money(cost));
    Some(said.join(" · "))
}
