//! What an agent reads about its plan before each step: the progress, and what to call next. At most [`MAX`] bytes, however
//! large the plan is: the hint lists as many subtasks as fit around the current one.

use std::collections::VecDeque;

use super::*;

/// Bytes of a hint.
pub(super) const MAX: usize = 4096;

/// Subtasks before the current one that are listed in preference to any after it.
const BEFORE: usize = 3;

/// Bytes reserved for the note about the subtasks that are not listed.
const UNLISTED: usize = 80;

/// Bytes of a plan's name, description and expected outcome in its heading.
const SHORT: [usize; 3] = [120, 500, 250];

const OPEN: &str = "<system-hint>";
const CLOSE: &str = "</system-hint>";

/// A hint as a message to the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Msg {
    pub name: String,
    pub role: String,
    pub content: String,
}

impl Msg {
    pub(super) fn user(content: &str) -> Self {
        Self {
            name: "user".to_owned(),
            role: "user".to_owned(),
            content: clip(content, MAX),
        }
    }
}

/// Makes the hints of a notebook to which the program gave no other hints.
///
/// ```
/// use plan_agent::tools::notebook::{DefaultPlanToHint, NotebookPlan, SubTask};
///
/// assert!(DefaultPlanToHint.hint(None).contains("create_plan"));
/// let plan = NotebookPlan::new("Report", "Write it", "A page", vec![SubTask::new("Read", "", "")]);
/// assert!(DefaultPlanToHint.hint(Some(&plan)).contains("subtask_idx=0"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultPlanToHint;

impl DefaultPlanToHint {
    /// Returns the hint for a plan, or for the lack of one.
    pub fn hint(self, plan: Option<&NotebookPlan>) -> String {
        of_outline(plan.map(Outline::of).as_ref())
    }
}

/// The part of a plan that a hint needs; made without reading every subtask.
struct Outline<'a> {
    heading: String,
    total: usize,
    done: usize,
    abandoned: usize,
    in_progress: Option<(usize, SubTask)>,
    /// The index of the first subtask that is todo.
    next: Option<usize>,
    /// Returns the line of the subtask at an index.
    line: Box<dyn Fn(usize) -> Option<String> + 'a>,
}

impl<'a> Outline<'a> {
    fn of(plan: &'a NotebookPlan) -> Self {
        let place = |state| plan.subtasks.iter().position(|it| it.state == state);
        let count = |state| plan.subtasks.iter().filter(|it| it.state == state).count();
        let in_progress = place(SubTaskState::InProgress);
        Self {
            heading: heading(plan, SHORT),
            total: plan.subtasks.len(),
            done: count(SubTaskState::Done),
            abandoned: count(SubTaskState::Abandoned),
            in_progress: in_progress.map(|at| (at, plan.subtasks[at].clone())),
            next: place(SubTaskState::Todo),
            line: Box::new(|at| {
                let subtask = plan.subtasks.get(at)?;
                Some(short_line(subtask.state, &subtask.name))
            }),
        }
    }

    fn of_core(plan: &'a Plan) -> Self {
        let counts = plan.counts();
        let in_progress = plan.in_progress().next();
        let next = plan.tasks_in(TaskState::Pending).next();
        Self {
            heading: heading(&NotebookPlan::without_subtasks(plan.head()), SHORT),
            total: counts.total(),
            done: counts.completed,
            abandoned: counts.failed + counts.skipped,
            in_progress: in_progress.map(|task| (plan.index_of(task), SubTask::of(task))),
            next: next.map(|task| plan.index_of(task)),
            line: Box::new(|at| {
                let task = plan.nth(at)?;
                Some(short_line(SubTaskState::of_task(task.status), &task.name))
            }),
        }
    }

    /// Returns the plan as Markdown with as many subtasks as fit into `room` bytes.
    fn markdown(&self, room: usize) -> String {
        let at = self.in_progress.as_ref().map(|(at, _)| *at);
        let room = room.saturating_sub(self.heading.len());
        let window = |room| window(at.or(self.next), self.total, room, &self.line);
        let mut text = window(MAX);
        if text.len() > room {
            text = window(room);
        }
        format!("{}{text}", self.heading)
    }
}

/// Returns as many texts of consecutive subtasks as fit into `room` bytes, each on a line of its own: the current one (or the
/// last), a few before it, those after it, the others before it; with the number of those before and after them.
fn window(
    at: Option<usize>,
    total: usize,
    room: usize,
    text: impl Fn(usize) -> Option<String>,
) -> String {
    let at = at.unwrap_or_else(|| total.saturating_sub(1));
    let mut room = room.saturating_sub(UNLISTED);
    let mut fitting = |at: usize| {
        let text = text(at)?;
        room = room.checked_sub(text.len() + 1)?;
        Some(text)
    };
    let mut texts: VecDeque<String> = fitting(at).into_iter().collect();
    let mut from = at;
    if !texts.is_empty() {
        let few = at.saturating_sub(BEFORE);
        for text in (few..at).rev().map_while(&mut fitting) {
            texts.push_front(text);
        }
        from = at + 1 - texts.len();
        texts.extend((at + 1..total).map_while(&mut fitting));
        let earlier = if from == few { 0..few } else { 0..0 };
        for text in earlier.rev().map_while(&mut fitting) {
            texts.push_front(text);
            from -= 1;
        }
    }
    let before = (from > 0).then(|| format!("\n… ({from} before these)"));
    let behind = total.saturating_sub(from + texts.len());
    let after = (behind > 0).then(|| format!("\n… ({behind} after these)"));
    let lines = texts.iter().map(|line| format!("\n{line}"));
    before.into_iter().chain(lines).chain(after).collect()
}

/// Returns the hint, in the order of its stages: no plan, one subtask in progress, all settled, none begun, between two.
fn of_outline(plan: Option<&Outline<'_>>) -> String {
    let Some(plan) = plan else {
        return format!(
            "{OPEN}There is no plan. If what the user wants takes several steps, write them down first with 'create_plan'; something simple is done at once.{CLOSE}"
        );
    };
    let options = if let Some((at, subtask)) = &plan.in_progress {
        let details = fenced(&short(subtask.clone()).to_markdown(true));
        let name = clip(&subtask.name, 100);
        format!(
            "The subtask at index {at}, named '{name}', is in progress:\n{details}\nWhat you can do:\n- Work on it, and call 'finish_subtask' with subtask_idx={at} and its specific outcome when it is done.\n- If it cannot be done, change the plan with 'revise_current_plan', leave it out with 'update_subtask_state' (state='abandoned'), or ask the user."
        )
    } else if plan.done + plan.abandoned == plan.total {
        let (done, abandoned) = (plan.done, plan.abandoned);
        let end = match done {
            0 => "state='abandoned' and the reason",
            _ => {
                "state='done' and the specific outcome of the whole plan (state='abandoned' and the reason if it came to nothing)"
            }
        };
        format!(
            "Nothing is left to do: {done} done, {abandoned} abandoned. What you can do:\n- Call 'finish_plan' with {end}, and sum it up for the user.\n- Add what is missing with 'revise_current_plan'."
        )
    } else {
        let next = plan.next.unwrap_or(0);
        let where_it_stands = match (plan.done, plan.total) {
            (0, _) => "No subtask has been done yet.".to_owned(),
            (done, total) => {
                format!("{done} of {total} subtasks are done, and none is in progress.")
            }
        };
        format!(
            "{where_it_stands} What you can do:\n- Begin the next one: call 'update_subtask_state' with subtask_idx={next} and state='in_progress'.\n- If it cannot be done, change the plan with 'revise_current_plan', or ask the user.\n- If the user wants the plan no more, ask to be sure, and call 'finish_plan' with state='abandoned'."
        )
    };
    let most = MAX - OPEN.len() - CLOSE.len();
    let with_room = |room: usize| {
        let plan = fenced(&plan.markdown(room));
        format!(
            "The current plan:\n{plan}\n{options}\n- What the user asks besides the plan comes first; then go on with the plan."
        )
    };
    // The fence around the plan is as long as the plan's text requires.
    let mut room = most;
    let mut hint = with_room(room);
    while hint.len() > most && room > 0 {
        room = room.saturating_sub(hint.len() - most);
        hint = with_room(room);
    }
    // A plan's own text must not seem to end the hint.
    let hint = hint.replace(OPEN, "(system-hint)");
    let hint = hint.replace(CLOSE, "(/system-hint)");
    format!("{OPEN}{}{CLOSE}", clip(&hint, most))
}

/// Returns the hint for a plan of the core, or for the lack of one.
pub(crate) fn of_core(plan: Option<&Plan>) -> String {
    of_outline(plan.map(Outline::of_core).as_ref())
}

/// Returns a plan as Markdown with its description and expected outcome, in at most `max` bytes: the subtasks from the current
/// one on, with their indexes, and some before it.
pub(crate) fn page(plan: &Plan, max: usize) -> String {
    let mut text = heading(&NotebookPlan::without_subtasks(plan.head()), SHORT);
    let in_hand = plan.in_progress().next();
    let in_hand = in_hand.or_else(|| plan.tasks_in(TaskState::Pending).next());
    let at = in_hand.map(|task| plan.index_of(task));
    let total = plan.counts().total();
    let detailed = |at: usize| {
        let mut subtask = short(SubTask::of(plan.nth(at)?));
        subtask.name = format!("{at}. {}", subtask.name);
        subtask.outcome = subtask.outcome.map(|outcome| clip(&outcome, 300));
        Some(subtask.to_markdown(true))
    };
    let room = max.saturating_sub(text.len());
    text += &window(at, total, room, detailed);
    clip(&text, max)
}

fn short_line(state: SubTaskState, name: &str) -> String {
    line(state, &clip(name, 80))
}

fn short(mut subtask: SubTask) -> SubTask {
    subtask.name = clip(&subtask.name, 100);
    subtask.description = clip(&subtask.description, 700);
    subtask.expected_outcome = clip(&subtask.expected_outcome, 300);
    subtask
}
