//! MISSION.md: a plan as a person follows it in the workspace. Its size is bounded however large the plan is. A name or a
//! result always stays text: it cannot become a heading, a fence, markup or a terminal's command.

use std::fmt::Write as _;

use super::plan::QuestionView;
use super::task::{CurrentAttempt, TaskView};
use super::{PlanView, first_numbers};
use crate::plan::{Decision, Plan, PlanState, Task, TaskState, Time, counted};
use crate::wire::role_text;
use crate::wire::text::{clip, one_line, printable_start, time_text};

/// The most bytes of the whole text; the sum of its parts is smaller.
pub const MAX_BYTES: usize = 64 * 1024;

const MAX_GOAL: usize = 1500;
const MAX_SUMMARY: usize = 5000;
const MAX_NAME: usize = 120;
const MAX_TEXT: usize = 400;
/// The most bytes of the list of questions, and of the list of tasks.
const MAX_QUESTIONS: usize = 8 * 1024;
const MAX_TASKS: usize = 22 * 1024;
/// The most tasks that are shown, and how many of them come before the first unsettled one.
const WINDOW: usize = 60;
const BEFORE: usize = 15;

/// Returns the text of MISSION.md at a given time. `program` is what a person types to call this program.
pub fn render(plan: &Plan, now: Time, program: &str) -> String {
    let tasks = window(plan, WINDOW, BEFORE);
    let before = tasks.first().map_or(0, |first| plan.index_of(first));
    let view = PlanView::with(plan, 0, before, &tasks, now);
    let head = &view.head;
    let mut text = format!("# {}\n\n", inline(&head.name, MAX_NAME));
    text.push_str(&block(&head.goal, MAX_GOAL));
    text.push_str(&state(&view, now));
    if !view.questions.is_empty() {
        let questions = view.questions.iter().map(|asked| question(asked, program));
        let more = |hidden| format!("{hidden} more");
        text.push_str(&list("Open questions", questions, MAX_QUESTIONS, 0, more));
    }
    let (earlier, later) = view.hidden;
    let (tasks, more) = (view.tasks.iter().map(task), |hidden| {
        counted(hidden, "more task")
    });
    text.push_str(&list("Tasks", tasks, MAX_TASKS, earlier + later, more));
    if let Some(outcome) = &head.outcome {
        text.push_str("## Summary\n\n");
        text.push_str(&block(outcome, MAX_SUMMARY));
    }
    text
}

fn state(view: &PlanView, now: Time) -> String {
    let progress = &view.progress;
    let mut text = format!(
        "## State\n\n{} · {} of {} settled · {}\n\n\
         {} completed, {} failed, {} skipped, {} in progress, {} ready, {} blocked\n\n",
        status(&view.head.status),
        progress.settled(),
        counted(progress.total, "task"),
        time_text(now),
        progress.completed,
        progress.failed,
        progress.skipped,
        progress.in_progress,
        progress.ready,
        progress.blocked,
    );
    if let Some(lanes) = view.at_work() {
        let lanes = inline(&lanes, MAX_TEXT);
        add(&mut text, format_args!("At work: {lanes}\n\n"));
    }
    if let Some(replan) = &view.head.replan {
        let why = inline(&replan.why, MAX_TEXT);
        let after = replan.task.map(|task| format!(" after task {task}"));
        let changed = format!(
            "The rest of the plan is being changed{}",
            after.unwrap_or_default()
        );
        add(&mut text, format_args!("{changed}: {why}\n\n"));
    }
    text
}

fn status(status: &PlanState) -> String {
    match status {
        PlanState::Paused(why) if !why.is_empty() => format!("paused: {}", inline(why, MAX_TEXT)),
        status => status.as_str().to_owned(),
    }
}

fn question(question: &QuestionView, program: &str) -> String {
    let about = question
        .task
        .map_or(String::new(), |task| format!(" (task {task})"));
    let reason = inline(&question.reason, MAX_TEXT);
    let mut text = format!("- {}{about}: {reason}\n", question.id);
    for choice in &question.choices {
        let command = format!("{program} answer {} {}", question.id, choice.as_str());
        add(&mut text, format_args!("  - `{command}`\n"));
    }
    text
}

/// Returns the tasks to show where at most `size` fit, in the plan's order. These are all tasks of a small plan. Else they are
/// the tasks around the first one in progress or, without one, the first unsettled one, with `before` tasks before it. If all
/// are settled, they are the last tasks.
pub fn window(plan: &Plan, size: usize, before: usize) -> Vec<&Task> {
    let total = plan.counts().total();
    let middle = plan.in_progress().next();
    let first = match middle.or_else(|| plan.unsettled().next()) {
        _ if total <= size => 0,
        Some(middle) => plan.index_of(middle).saturating_sub(before),
        None => total - size,
    };
    plan.tasks().skip(first).take(size).collect()
}

fn task(task: &TaskView) -> String {
    let mark = if task.status.satisfies() { 'x' } else { ' ' };
    let name = inline(&task.name, MAX_NAME);
    let role = task.assignee.as_deref().map(role_text::role);
    let role = role.map_or(String::new(), |role| {
        format!(" ({})", inline(&role, MAX_NAME))
    });
    let (id, standing) = (task.id, standing(task));
    let mut text = format!("- [{mark}] {id} · {name}{role} — {standing}\n");
    for wait in &task.waits {
        let waits = inline(&role_text::waits(wait), MAX_NAME);
        let (since, what) = (time_text(wait.since), inline(&wait.what, MAX_TEXT));
        add(&mut text, format_args!("  {waits} since {since}: {what}\n"));
    }
    if let Some(result) = &task.result {
        let word = match task.status {
            TaskState::Skipped | TaskState::Failed => "Reason",
            _ => "Result",
        };
        let result = inline(result, MAX_TEXT);
        add(&mut text, format_args!("  {word}: {result}\n"));
    }
    if let Some(verdict) = &task.verdict {
        let (reason, word) = (
            inline(&verdict.reason, MAX_TEXT),
            decision(verdict.decision),
        );
        add(&mut text, format_args!("  Last result {word}: {reason}\n"));
    }
    text
}

/// Returns the state of a task, and why it is not further.
fn standing(task: &TaskView) -> String {
    match task.status {
        TaskState::Completed if task.verified == Some(true) => "completed, verified".to_owned(),
        TaskState::Completed if task.by_hand => "completed by hand, unverified".to_owned(),
        TaskState::Completed => "completed, unverified".to_owned(),
        TaskState::Failed => format!("failed after {}", counted(task.attempts, "attempt")),
        TaskState::Skipped => "skipped".to_owned(),
        TaskState::InProgress => {
            let stage = stage(task.attempt.as_ref(), task.attempts);
            format!("in progress, {stage}")
        }
        TaskState::Pending => match task.not_before {
            Some(until) => format!("waits until {}", time_text(until)),
            None if task.state == "ready" => "ready".to_owned(),
            None if task.unmet.is_empty() => "waits for the tasks before it".to_owned(),
            None => format!("waits for {}", first_numbers(&task.unmet)),
        },
    }
}

fn stage(current: Option<&CurrentAttempt>, attempts: u32) -> String {
    let Some(attempt) = current else {
        return format!("attempt {attempts}");
    };
    let stage = match attempt.claimed {
        _ if attempt.reported => "is reported",
        Some(_) => "is being worked on",
        None => "waits for an agent",
    };
    format!("attempt {} {stage}", attempt.number)
}

fn decision(decision: Decision) -> &'static str {
    match decision {
        Decision::Next => "accepted",
        Decision::Retry => "to be tried again",
        Decision::Replan => "calls for another plan",
        Decision::Abort => "speaks for an end",
    }
}

/// Returns a section with the entries that fit, and with the number of the others; `left_out` were not to be shown anyway.
fn list(
    title: &str,
    entries: impl Iterator<Item = String>,
    max: usize,
    left_out: usize,
    more: impl Fn(usize) -> String,
) -> String {
    let (mut list, mut hidden) = (String::new(), left_out);
    for entry in entries {
        if hidden == left_out && list.len() + entry.len() <= max {
            list.push_str(&entry);
        } else {
            hidden += 1;
        }
    }
    if hidden > 0 {
        add(&mut list, format_args!("- … and {}\n", more(hidden)));
    }
    format!("## {title}\n\n{list}\n")
}

/// Returns an untrusted text on one line, without any markup.
fn inline(text: &str, max: usize) -> String {
    let line = escape(&one_line(text, max)).replace("![", "!\\[");
    if line.matches('`').count() % 2 == 1 || line.contains("```") {
        return line.replace('`', "\\`");
    }
    line
}

/// Returns an untrusted text as a quotation; no heading, fence or markup can break out of it.
fn block(text: &str, max: usize) -> String {
    let text = escape(&clip(printable_start(text, max).trim(), max));
    let quoted = (text.lines()).map(|line| format!("> {line}").trim_end().to_owned() + "\n");
    quoted.collect::<String>() + "\n"
}

fn escape(text: &str) -> String {
    text.replace('<', "\\<")
}

fn add(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments)
        .expect("a String takes every text");
}

#[cfg(test)]
mod tests;
