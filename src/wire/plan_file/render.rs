//! A plan as a plan file in Markdown, for a person to read, approve or edit.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_yaml::Mapping;

use super::markdown_tasks::needs_escape;
use crate::plan::{Criteria, Plan, ResultsMove, Task, TaskId, TaskState, word};
use crate::wire::markdown::Fences;
use crate::wire::{criterion_text, front_matter, joined, one_line, printable};

/// The numbers of tasks in the text.
type Numbers = HashMap<TaskId, usize>;

/// Returns the plan file of a plan. Reading it again gives the same tasks with the same dependencies. Tasks are numbered in the
/// plan's order, and a completed task is done there, unless a person has discarded what was done. One that was skipped or replaced
/// says so, and stays skipped.
pub fn render(plan: &Plan) -> String {
    let numbers: Numbers = plan.tasks().map(|task| task.number).zip(1..).collect();
    let body = match plan.head().results {
        Some(ResultsMove::Discarded) => {
            let tasks: Vec<Task> = plan.tasks().cloned().map(undone).collect();
            body(tasks.iter(), &numbers)
        }
        _ => body(plan.tasks(), &numbers),
    };
    front_matter::join(&header(plan), &body)
}

fn undone(mut task: Task) -> Task {
    if task.status == TaskState::Completed {
        task.status = TaskState::Pending;
    }
    task
}

/// Returns the sections of tasks, with these numbers.
pub(super) fn body<'a>(tasks: impl Iterator<Item = &'a Task>, numbers: &Numbers) -> String {
    tasks.map(|task| section(task, numbers)).collect()
}

/// Returns the front matter, without the workspace: it was chosen already, and may be no folder of a file that the text is saved
/// to.
pub(super) fn header(plan: &Plan) -> Mapping {
    let head = plan.head();
    let fields = [
        ("name", line(&head.name)),
        ("goal", text(&head.goal)),
        ("description", text(&head.description)),
        ("expected_outcome", text(&head.expected_outcome)),
        ("constraints", text(&head.constraints)),
        ("order", word(&head.order)),
    ];
    let stated =
        |(key, value): &(&str, String)| !value.is_empty() || ["name", "goal"].contains(key);
    let fields = fields.into_iter().filter(stated);
    fields
        .map(|(key, value)| (key.into(), value.into()))
        .collect()
}

fn section(task: &Task, numbers: &Numbers) -> String {
    let (number, name) = (numbers[&task.number], line(&task.name));
    // A closing sequence keeps the `#` at the end of a name such as `C #`.
    let closing = if name.ends_with('#') { " ##" } else { "" };
    let mut text = format!("## {number}. {name}{closing}\n\n");
    let start = text.len();
    for (key, value) in attributes(task, numbers) {
        writeln!(text, "- {key}: {value}").expect("a String takes every text");
    }
    let description = description(task.instructions());
    if text.len() == start && description.starts_with(['-', '*']) {
        // Prevents that a list at the start of the description is read as attributes.
        text.push_str("- optional: false\n");
    }
    if text.len() > start {
        text.push('\n');
    }
    if !description.is_empty() {
        text.push_str(&description);
        text.push_str("\n\n");
    }
    text
}

fn attributes(task: &Task, numbers: &Numbers) -> Vec<(&'static str, String)> {
    let after = task.dependencies.iter().filter_map(|id| numbers.get(id));
    let skipped = match continued(task.result.as_deref().unwrap_or_default()) {
        _ if task.status != TaskState::Skipped => String::new(),
        none if none.is_empty() => "no reason".to_owned(),
        reason => reason,
    };
    let flag = |set: bool| if set { "true" } else { "" }.to_owned();
    let given = |text: &Option<String>| text.clone().unwrap_or_default();
    let all = [
        ("after", joined(after.map(ToString::to_string), ", ")),
        ("assignee", line(&given(&task.assignee))),
        ("step", line(&given(&task.step))),
        ("expected", expected(&task.criteria)),
        ("constraints", continued(&task.constraints)),
        ("checks", line(&own_checks(task).join(", "))),
        ("produces", line(&task.produces.join(", "))),
        ("may_change", line(&task.may_change.join(", "))),
        ("locks", line(&task.locks.join(", "))),
        ("optional", flag(task.optional)),
        ("done", flag(task.status == TaskState::Completed)),
        ("skipped", skipped),
    ];
    let stated = all.into_iter().filter(|(_, value)| !value.is_empty());
    stated.collect()
}

/// Returns the criteria; a list begins on a line of its own.
fn expected(criteria: &Criteria) -> String {
    let text = continued(&criterion_text::write(criteria));
    match criteria.list() {
        [_, _, ..] => format!("\n  {text}"),
        _ => text,
    }
}

/// Returns the checks of a task without those that stand at its criteria.
fn own_checks(task: &Task) -> Vec<&str> {
    let bound = |name: &&str| task.criteria.checks().any(|bound| bound == *name);
    let checks = task.checks.iter().map(String::as_str);
    checks.filter(|name| !bound(name)).collect()
}

fn text(text: &str) -> String {
    printable(text).trim().to_owned()
}

fn line(text: &str) -> String {
    one_line(text, usize::MAX)
}

/// Returns the text with its further lines indented, so that they still belong to their attribute.
fn continued(text: &str) -> String {
    let text = printable(text);
    let lines = text.lines().map(str::trim_end);
    let lines = lines.filter(|line| !line.is_empty());
    joined(lines, "\n  ").trim_start().to_owned()
}

/// Returns the description: lines that would be read as a task or an attribute are escaped, and an open fence is closed.
fn description(text: &str) -> String {
    let mut fences = Fences::default();
    let text = printable(text);
    let text = text.trim_matches('\n').trim_end();
    let line = |line: &str| match !fences.is_code(line) && needs_escape(line) {
        true => format!("\\{line}"),
        false => line.to_owned(),
    };
    let mut lines: Vec<String> = text.lines().map(line).collect();
    lines.extend(fences.closing());
    lines.join("\n")
}
