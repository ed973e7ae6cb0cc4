//! A plan as text for a person or a program. Pure: takes a plan, returns text. Whatever came from a file, a model or an
//! agent loses what a terminal would obey.

mod event;
mod progress;
mod status;
mod usage;
mod why;

#[cfg(test)]
pub mod sample;

pub use event::{happened, json as event_json, lines as change_lines, objects as change_json};
pub use progress::{clock_time, progress, tasks};
pub use status::{LastDaemon, json as status_json, text as status_text};
pub use why::why;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::output::{Paint, Style};
use crate::plan::{DAEMON, Head, Plan, Shelf, Task, TaskId, TaskStatus, Time};
use crate::wire::graph;
use crate::wire::text::{one_line, printable};

/// The longest name of a task or a plan that is shown on a line with other things.
const NAME: usize = 100;

/// Why a task without an assignee is not done where only roles are at work, with the way out.
const TAKEN_BY_NOBODY: &str = "every role takes only its own tasks; stop and resume with --agent, or start a worker without --role";

/// Returns a plan in the list of plans.
pub fn plan_line(head: &Head, zone: &TimeZone, paint: Paint) -> String {
    let shelf = match head.shelf {
        Shelf::Current => None,
        Shelf::History => Some("in the history"),
        Shelf::Deleted => Some("deleted"),
    };
    let owner = Some(head.owner.as_str()).filter(|owner| *owner != DAEMON);
    let known: Vec<String> = owner.into_iter().chain(shelf).map(name).collect();
    let known = match known.is_empty() {
        true => String::new(),
        false => paint.text(Style::Dim, &format!("  ({})", known.join(", "))),
    };
    // A key may be used again: the id is what names a deleted plan.
    let key = match head.shelf {
        Shelf::Deleted => head.id.as_str(),
        _ => head.key(),
    };
    format!(
        "{}  {:<9}  {}  {}{known}",
        name(key),
        head.status.as_str(),
        paint.text(Style::Dim, &moment(head.created_at, zone)),
        name(&head.name)
    )
}

/// Returns a moment as a person's clock shows it.
fn moment(time: Time, zone: &TimeZone) -> String {
    Timestamp::from_microsecond(time.0)
        .unwrap_or_default()
        .to_zoned(zone.clone())
        .strftime("%Y-%m-%d %H:%M:%S")
        .to_string()
}

/// Returns a task's state with *ready* and *blocked* told apart, and how to show it.
fn state(plan: &Plan, task: &Task) -> (&'static str, Style) {
    let style = match task.status {
        TaskStatus::Pending if plan.is_ready(task) => Style::Plain,
        TaskStatus::Pending | TaskStatus::Skipped => Style::Dim,
        TaskStatus::InProgress => Style::Busy,
        TaskStatus::Completed => Style::Good,
        TaskStatus::Failed => Style::Bad,
    };
    (graph::state(plan, task), style)
}

/// Returns task numbers as `1, 2 and 3`.
fn numbers(tasks: &[TaskId]) -> String {
    match tasks {
        [] => "none".to_owned(),
        [one] => one.to_string(),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(ToString::to_string).collect();
            format!("{} and {last}", first.join(", "))
        }
    }
}

/// Returns a text of several lines with every line moved in.
fn indented(text: &str, by: &str) -> String {
    printable(text.trim())
        .lines()
        .map(|line| format!("{by}{line}\n"))
        .collect()
}

fn name(text: &str) -> String {
    one_line(text, NAME)
}
