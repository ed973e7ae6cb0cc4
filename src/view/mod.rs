//! What is shown of a plan: types whose JSON is what programs get ([`PlanView`], [`EventView`], [`hook_input::HookCall`]), and the same in
//! words for the terminal, MISSION.md and the log. Pure: takes a plan, returns values and text. Whatever came from a file, a model
//! or an agent loses what a terminal would obey.

pub mod hook_input;
pub mod mission;

mod at_work;
mod colours;
mod estimate;
mod event;
mod event_lines;
mod lanes;
mod outcomes;
mod place_of_work;
mod plan;
mod program_name;
mod review;
mod run_progress_lines;
mod state_word;
mod status_page;
mod task;
mod task_detail;
mod usage;
mod why;

#[cfg(test)]
pub(crate) mod tests;

pub use at_work::{AgentSays, AtWork, Screen, WorkRow};
pub use colours::{Mark, Paint, Style};
pub use estimate::PastTasks;
pub use event::EventView;
pub use event_lines::{events, lines};
pub use outcomes::{Outcomes, agent_of, works_on};
pub use place_of_work::{place_of_agents, place_of_results};
pub use plan::{LastDaemon, ListedView, PlanView, QuestionView};
pub use program_name::ProgramName;
pub use review::review;
pub use run_progress_lines::{RepeatedFailures, results, tasks};
pub use state_word::StateWord;
pub use task_detail::{task_detail, task_rows};
pub use why::{failing_output, why};

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use self::task::{CurrentAttempt, TaskView, wait_view};
use crate::plan::{ArchiveState, DAEMON, ModelQuestion, PlanHead, TaskId, Time, unless_empty};
use crate::store::TalliedPlan;
use crate::wire::{joined, one_line, printable};

/// The longest name of a task or a plan that is shown on a line with other things.
const NAME: usize = 100;

/// How a task without a worker gets one while the plan is carried out.
const WAY_TO_A_WORKER: &str = "stop and resume with --agent, or start a worker without --role";

impl ListedView<'_> {
    /// Returns the plan as a line for a person.
    pub fn line(&self, now: Time, paint: Paint) -> String {
        let TalliedPlan { plan, tally } = self.plan;
        let head = &plan.head;
        let (archived, key) = match head.archive_state {
            ArchiveState::Current => (None, head.key()),
            ArchiveState::History => (Some("in the history"), head.key()),
            // A key may be used again: the id is what names a deleted plan.
            ArchiveState::Deleted => (Some("deleted"), head.id.as_str()),
        };
        let owner = Some(head.owner.as_str()).filter(|owner| *owner != DAEMON);
        let known = joined(owner.into_iter().chain(archived).map(name), ", ");
        let known = unless_empty(&known, |known| {
            paint.text(Style::Dim, &format!("  ({known})"))
        });
        let (key, plan_name) = (name(key), name(&head.name));
        let state = paint.text(self.state.style(), &format!("{:<11}", self.state.as_str()));
        let done = match tally.tasks {
            0 => "no tasks".to_owned(),
            tasks => format!("{} of {tasks}", tally.completed),
        };
        let age = age(now.since(head.created_at));
        let asks = paint.text(Style::Bold, StateWord::AsksYou.as_str());
        let waits = |what| {
            let priority = head.queue.as_ref().map_or(0, |queue| queue.priority);
            let priority = match priority {
                0 => String::new(),
                priority => format!(", priority {priority}"),
            };
            format!("waits {}{priority}", one_line(what, WAY_OUT))
        };
        let details = [
            (tally.questions > 0 && !head.status.settled()).then_some(asks),
            head.status.why().map(|why| format!("waits: {}", name(why))),
            head.queued_for().map(waits),
            goes_on_elsewhere(head).map(str::to_owned),
            Mark::PROVEN.count(tally.proven, paint),
            Mark::ACCEPTED.count(self.accepted(), paint),
            Mark::FAILED.count(tally.failed, paint),
            usage::money(self.cost_usd()),
        ];
        let details = details.into_iter().flatten();
        let details: String = details.map(|detail| format!(" · {detail}")).collect();
        format!("{key}  {state}  {done:>10}  {age:>5}  {plan_name}{known}{details}")
    }
}

/// Says what a daemon on another machine can go on with, where that is not everything.
fn goes_on_elsewhere(head: &PlanHead) -> Option<&'static str> {
    let shared = head.isolated == Some(false) && head.line.is_none();
    match head.tree {
        _ if head.home.is_none() || !shared || head.status.settled() => None,
        None => Some("elsewhere it goes on only with the files that tasks produce"),
        Some(_) => Some("elsewhere it does not go on"),
    }
}

/// Returns an age in its largest unit, days included.
fn age(age: Duration) -> String {
    match age.as_secs() {
        0..60 => "now".to_owned(),
        60..172_800 => span(age),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// Returns the time of day as a person's clock shows it, with its zone.
pub fn clock_time(time: Time, zone: &TimeZone) -> String {
    at(time, zone, "%H:%M:%S %Z")
}

/// Returns since when a model that is away was asked in vain, and when it is asked again; the wait after the first failure
/// is given. `None` if it is not away.
pub fn away(ask: &ModelQuestion, first: Duration, zone: &TimeZone) -> Option<String> {
    let away = ask.away.filter(|_| ask.answered.is_none())?;
    let since = clock_time(ask.asked, zone);
    let next = clock_time(away.at.plus(away.until_next(first)), zone);
    Some(format!("the model is away since {since}; next try {next}"))
}

/// Returns a moment as a person's clock shows it, with its zone.
fn moment(time: Time, zone: &TimeZone) -> String {
    at(time, zone, "%Y-%m-%d %H:%M:%S %Z")
}

fn at(time: Time, zone: &TimeZone, format: &str) -> String {
    let time = Timestamp::from_microsecond(time.0).unwrap_or_default();
    time.to_zoned(zone.clone()).strftime(format).to_string()
}

/// Returns a span as a person says it, in its largest unit; of a few hours, with the minutes.
pub fn span(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..36_000 if seconds % 3600 >= 60 => {
            format!("{} h {} min", seconds / 3600, seconds % 3600 / 60)
        }
        seconds => format!("{} h", seconds / 3600),
    }
}

/// Returns tasks as `task 3`, or as `tasks 3 and 4`.
pub(crate) fn numbered_tasks(tasks: &[TaskId]) -> String {
    let noun = if tasks.len() == 1 { "task" } else { "tasks" };
    format!("{noun} {}", numbers(tasks))
}

/// Returns task numbers as `1, 2 and 3`.
fn numbers(tasks: &[TaskId]) -> String {
    match tasks {
        [] => "none".to_owned(),
        [one] => one.to_string(),
        [first @ .., last] => {
            let first = joined(first.iter().map(ToString::to_string), ", ");
            format!("{first} and {last}")
        }
    }
}

/// The most numbers of tasks on a line with other things.
const NUMBERS: usize = 8;

/// Returns the first task numbers as `1, 2, 3`, and whether there are more.
fn first_numbers(tasks: &[TaskId]) -> String {
    let first = tasks.iter().take(NUMBERS).map(ToString::to_string);
    let more = (tasks.len() > NUMBERS).then(|| "…".to_owned());
    joined(first.chain(more), ", ")
}

/// Returns a text of several lines with every line moved in.
fn indented(text: &str, by: &str) -> String {
    let text = printable(text.trim());
    text.lines().map(|line| format!("{by}{line}\n")).collect()
}

/// The most characters of why a plan or a command waits: the way out stands at its end.
const WAY_OUT: usize = 600;

fn name(text: &str) -> String {
    one_line(text, NAME)
}
