//! The text that an agent gets when it asks what to do next. It is bounded, whatever the plan contains.

use crate::plan::{Plan, Task, counted};
use crate::wire::{clip, clip_bytes, joined, one_line};

/// The longest hint, in bytes.
const MAX: usize = 4096;

const MAX_NAME: usize = 120;
const MAX_TEXT: usize = 600;

/// The most tasks that a hint names.
const MAX_TASKS: usize = 3;

/// Returns what to do next in a plan, or that no plan exists.
pub(super) fn next(plan: Option<&Plan>) -> String {
    let Some(plan) = plan else {
        return "There is no plan yet. Work of several steps goes better with one: make it first.\n"
            .to_owned();
    };
    let counts = plan.counts();
    let name = one_line(&plan.head().name, MAX_NAME);
    let (settled, tasks) = (counts.settled(), counted(counts.total(), "task"));
    let mut text = format!("Plan \"{name}\": {settled} of {tasks} settled.\n");
    let busy: Vec<&Task> = plan.in_progress().take(MAX_TASKS).collect();
    let ready: Vec<&Task> = plan.ready().take(MAX_TASKS).collect();
    if plan.status().settled() || (counts.total() > 0 && counts.settled() == counts.total()) {
        text.push_str("Nothing is left to do: tell the user what came of it.\n");
    } else if counts.total() == 0 {
        text.push_str("It has no tasks yet: add them.\n");
    } else if !busy.is_empty() {
        text.push_str("In progress; finish it and set its state with what came of it:\n");
        list(&mut text, &busy, counts.in_progress);
    } else if !ready.is_empty() {
        text.push_str("Next; set it in progress when you begin:\n");
        list(&mut text, &ready, plan.ready().len());
    } else {
        text.push_str(&stuck(plan));
    }
    clip_bytes(&text, MAX)
}

fn list(text: &mut String, tasks: &[&Task], of: usize) {
    text.extend(tasks.iter().map(|task| {
        let known = &task.key;
        let name = one_line(&task.name, MAX_NAME);
        let description = clip(task.description.trim(), MAX_TEXT);
        let about = description.lines().map(|line| format!("  {line}\n"));
        format!("- task {known} · {name}\n{}", about.collect::<String>())
    }));
    if of > tasks.len() {
        text.extend([format!("… and {} more\n", of - tasks.len())]);
    }
}

fn stuck(plan: &Plan) -> String {
    let waits = plan.unsettled().next().map(|task| {
        let on = plan.unmet(task).into_iter().take(MAX_TASKS);
        let on = joined(on.map(|id| id.to_string()), ", ");
        format!(" Task {} waits for {on}.", task.number)
    });
    format!(
        "No task can start.{} Try what failed again, skip it, or change the plan.\n",
        waits.unwrap_or_default()
    )
}
