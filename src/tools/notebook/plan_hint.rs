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
        match plan.map(core_of).transpose() {
            Ok(core) => of_core(core.as_ref()),
            Err(error) => format!("{OPEN}The plan cannot be read: {error}{CLOSE}"),
        }
    }
}

/// Returns the index of the subtask in progress, else of the next one that is todo.
fn at_hand(plan: &Plan) -> Option<usize> {
    let at_hand = plan.in_progress().next();
    let at_hand = at_hand.or_else(|| plan.tasks_in(TaskState::Pending).next());
    at_hand.map(|task| plan.index_of(task))
}

/// Returns a plan as Markdown with as many subtasks as fit into `room` bytes; the others are not read.
fn markdown(plan: &Plan, room: usize) -> String {
    let heading = heading(&NotebookPlan::without_subtasks(plan.head()), SHORT);
    let room = room.saturating_sub(heading.len());
    let line = |at: usize| {
        let task = plan.tasks().nth(at)?;
        let state = SubTaskState::of_task(task.status);
        Some(line(state, &clip(&task.name, 80)))
    };
    let window = |room| window(at_hand(plan), plan.counts().total(), room, line);
    let mut text = window(MAX);
    if text.len() > room {
        text = window(room);
    }
    format!("{heading}{text}")
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

/// Returns the hint for a plan of the core, or for the lack of one, in the order of its stages: no plan, one subtask in
/// progress, all settled, none begun, between two.
pub(crate) fn of_core(plan: Option<&Plan>) -> String {
    let Some(plan) = plan else {
        return format!(
            "{OPEN}There is no plan. If what the user wants takes several steps, write them down first with 'create_plan'; something simple is done at once.{CLOSE}"
        );
    };
    let counts = plan.counts();
    let (total, done) = (counts.total(), counts.completed);
    let abandoned = counts.failed + counts.skipped;
    let options = if let Some(task) = plan.in_progress().next() {
        let (at, subtask) = (plan.index_of(task), short(SubTask::of(task)));
        let (details, name) = (fenced(&subtask.to_markdown(true)), subtask.name);
        format!(
            "The subtask at index {at}, named '{name}', is in progress:\n{details}\nWhat you can do:\n- Work on it, and call 'finish_subtask' with subtask_idx={at} and its specific outcome when it is done.\n- If it cannot be done, change the plan with 'revise_current_plan', leave it out with 'update_subtask_state' (state='abandoned'), or ask the user."
        )
    } else if done + abandoned == total {
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
        let next = at_hand(plan).unwrap_or(0);
        let where_it_stands = match done {
            0 => "No subtask has been done yet.".to_owned(),
            done => format!("{done} of {total} subtasks are done, and none is in progress."),
        };
        format!(
            "{where_it_stands} What you can do:\n- Begin the next one: call 'update_subtask_state' with subtask_idx={next} and state='in_progress'.\n- If it cannot be done, change the plan with 'revise_current_plan', or ask the user.\n- If the user wants the plan no more, ask to be sure, and call 'finish_plan' with state='abandoned'."
        )
    };
    let most = MAX - OPEN.len() - CLOSE.len();
    let with_room = |room: usize| {
        let plan = fenced(&markdown(plan, room));
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

/// Returns a plan as Markdown with its description and expected outcome, in at most `max` bytes: the subtasks from the current
/// one on, with their indexes, and some before it.
pub(crate) fn page(plan: &Plan, max: usize) -> String {
    let mut text = heading(&NotebookPlan::without_subtasks(plan.head()), SHORT);
    let detailed = |at: usize| {
        let mut subtask = short(SubTask::of(plan.tasks().nth(at)?));
        subtask.name = format!("{at}. {}", subtask.name);
        subtask.outcome = subtask.outcome.map(|outcome| clip(&outcome, 300));
        Some(subtask.to_markdown(true))
    };
    let room = max.saturating_sub(text.len());
    text += &window(at_hand(plan), plan.counts().total(), room, detailed);
    clip(&text, max)
}

fn short(mut subtask: SubTask) -> SubTask {
    subtask.name = clip(&subtask.name, 100);
    subtask.description = clip(&subtask.description, 700);
    subtask.expected_outcome = clip(&subtask.expected_outcome, 300);
    subtask
}
