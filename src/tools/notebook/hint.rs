//! What an agent is told of its plan before each step: where it stands, and what to call next. At most [`MAX`] bytes, however
//! large the plan is: a window around the subtask in hand.

use serde::Serialize;

use super::markdown::{fenced, heading, line};
use super::model::{Plan, State, SubTask, time_text};
use crate::plan::{Plan as CorePlan, Shown};
use crate::wire::text::clip_bytes as clip;

/// Bytes of a hint.
pub(super) const MAX: usize = 4096;

/// Subtasks that are listed before and after the one in hand.
const BEFORE: usize = 3;
const AFTER: usize = 5;

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

/// Makes the hints of a notebook that was given no other way to make them.
///
/// ```
/// use plan_agent::tools::notebook::{DefaultPlanToHint, Plan, SubTask};
///
/// assert!(DefaultPlanToHint.hint(None).contains("create_plan"));
/// let plan = Plan::new("Report", "Write it", "A page", vec![SubTask::new("Read", "", "")]);
/// assert!(DefaultPlanToHint.hint(Some(&plan)).contains("subtask_idx=0"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultPlanToHint;

impl DefaultPlanToHint {
    /// Returns the hint for a plan, or for the lack of one.
    pub fn hint(self, plan: Option<&Plan>) -> String {
        of_outline(plan.map(Outline::of).as_ref())
    }
}

/// What a hint tells of a plan; made without a look at every subtask.
pub(super) struct Outline {
    heading: String,
    total: usize,
    done: usize,
    abandoned: usize,
    in_progress: Option<(usize, SubTask)>,
    /// The first that is to be done.
    next: Option<usize>,
    /// The place of the first line, and the lines.
    window: (usize, Vec<String>),
}

impl Outline {
    pub(super) fn of(plan: &Plan) -> Self {
        let place = |state| plan.subtasks.iter().position(|it| it.state == state);
        let count = |state| plan.subtasks.iter().filter(|it| it.state == state).count();
        let total = plan.subtasks.len();
        let in_progress = place(State::InProgress);
        let next = place(State::Todo);
        let (from, to) = window(in_progress.or(next), total);
        let lines = plan.subtasks[from..to].iter();
        Self {
            heading: short_heading(
                &plan.name,
                &plan.description,
                &plan.expected_outcome,
                plan.state,
                &plan.created_at,
            ),
            total,
            done: count(State::Done),
            abandoned: count(State::Abandoned),
            in_progress: in_progress.map(|at| (at, plan.subtasks[at].clone())),
            next,
            window: (
                from,
                lines.map(|it| short_line(it.state, &it.name)).collect(),
            ),
        }
    }

    pub(super) fn of_core(plan: &CorePlan) -> Self {
        let head = plan.head();
        let counts = plan.counts();
        let in_progress = plan.in_progress().next();
        let in_progress = in_progress.map(|task| (plan.index_of(task), SubTask::of(task)));
        let next = plan.tasks_in(Shown::Pending).next();
        let next = next.map(|task| plan.index_of(task));
        let at = in_progress.as_ref().map(|(at, _)| *at);
        let (from, to) = window(at.or(next), counts.total());
        let lines = (from..to).filter_map(|at| plan.nth(at));
        Self {
            heading: short_heading(
                &head.name,
                &head.description,
                &head.expected_outcome,
                State::of_plan(&head.status),
                &time_text(head.created_at),
            ),
            total: counts.total(),
            done: counts.completed,
            abandoned: counts.failed + counts.skipped,
            in_progress,
            next,
            window: (
                from,
                lines
                    .map(|task| short_line(State::of_task(task.status), &task.name))
                    .collect(),
            ),
        }
    }

    /// Returns the plan as Markdown, without the subtasks that are far from the one in hand.
    fn markdown(&self) -> String {
        let (from, lines) = &self.window;
        let behind = self.total - from - lines.len();
        let mut text = self.heading.clone();
        let mut add = |line: &str| text.extend(["\n", line]);
        if *from > 0 {
            add(&format!("… ({from} before these)"));
        }
        lines.iter().for_each(|line| add(line));
        if behind > 0 {
            add(&format!("… ({behind} after these)"));
        }
        text
    }
}

/// Returns the hint, in the order of its stages: no plan, one in progress, all settled, none begun, between two.
pub(super) fn of_outline(plan: Option<&Outline>) -> String {
    let Some(plan) = plan else {
        return format!(
            "{OPEN}There is no plan. If what the user wants takes several steps, write them down first with 'create_plan'; something simple is done at once.{CLOSE}"
        );
    };
    let options = if let Some((at, subtask)) = &plan.in_progress {
        let details = fenced(&short(subtask).to_markdown(true));
        let name = clip(&subtask.name, 100);
        format!(
            "The subtask at index {at}, named '{name}', is in progress:\n{details}\nWhat you can do:\n- Work on it, and call 'finish_subtask' with subtask_idx={at} and its specific outcome when it is done.\n- If it cannot be done, change the plan with 'revise_current_plan', leave it out with 'update_subtask_state' (state='abandoned'), or ask the user."
        )
    } else if plan.done + plan.abandoned == plan.total {
        let (done, abandoned) = (plan.done, plan.abandoned);
        format!(
            "Nothing is left to do: {done} done, {abandoned} abandoned. What you can do:\n- Call 'finish_plan' with state='done' and the specific outcome of the whole plan (state='abandoned' and the reason if it came to nothing), and sum it up for the user.\n- Add what is missing with 'revise_current_plan'."
        )
    } else {
        let next = plan.next.unwrap_or(0);
        let where_it_stands = if plan.done == 0 {
            "No subtask has been done yet.".to_owned()
        } else {
            format!(
                "{} of {} subtasks are done, and none is in progress.",
                plan.done, plan.total
            )
        };
        format!(
            "{where_it_stands} What you can do:\n- Begin the next one: call 'update_subtask_state' with subtask_idx={next} and state='in_progress'.\n- If it cannot be done, change the plan with 'revise_current_plan', or ask the user.\n- If the user wants the plan no more, ask to be sure, and call 'finish_plan' with state='abandoned'."
        )
    };
    let plan = fenced(&plan.markdown());
    let hint = format!(
        "The current plan:\n{plan}\n{options}\n- What the user asks besides the plan comes first; then go on with the plan."
    );
    // A plan's own text must not seem to end the hint.
    let hint = hint
        .replace(OPEN, "(system-hint)")
        .replace(CLOSE, "(/system-hint)");
    format!(
        "{OPEN}{}{CLOSE}",
        clip(&hint, MAX - OPEN.len() - CLOSE.len())
    )
}

/// Returns the hint for a plan of the core, or for the lack of one.
pub(crate) fn of_core(plan: Option<&CorePlan>) -> String {
    clip(&of_outline(plan.map(Outline::of_core).as_ref()), MAX)
}

/// Returns a plan as Markdown with what is to be done and to come of it, in at most `max` bytes: the subtasks from the one in
/// hand on, with their indexes, and some before it.
pub(crate) fn page(plan: &CorePlan, max: usize) -> String {
    let head = plan.head();
    let mut text = short_heading(
        &head.name,
        &head.description,
        &head.expected_outcome,
        State::of_plan(&head.status),
        &time_text(head.created_at),
    );
    let in_hand = plan.in_progress().next();
    let in_hand = in_hand.or_else(|| plan.tasks_in(Shown::Pending).next());
    let total = plan.counts().total();
    let (from, _) = window(in_hand.map(|task| plan.index_of(task)), total);
    if from > 0 {
        text.extend([format!("\n… ({from} before these)")]);
    }
    let mut shown = from;
    for task in (from..total).map_while(|at| plan.nth(at)) {
        let mut subtask = short(&SubTask::of(task));
        subtask.name = format!("{shown}. {}", subtask.name);
        subtask.outcome = subtask.outcome.map(|outcome| clip(&outcome, 300));
        let markdown = subtask.to_markdown(true);
        // What is said below the list needs some room as well.
        if text.len() + markdown.len() + 60 > max {
            break;
        }
        text.extend(["\n", &markdown]);
        shown += 1;
    }
    if shown < total {
        text.extend([format!("\n… ({} after these)", total - shown)]);
    }
    clip(&text, max)
}

/// Returns the places that are listed around one.
fn window(around: Option<usize>, total: usize) -> (usize, usize) {
    let around = around.unwrap_or_else(|| total.saturating_sub(1));
    let to = (around + AFTER + 1).min(total);
    (around.saturating_sub(BEFORE).min(to), to)
}

fn short_heading(
    name: &str,
    description: &str,
    expected_outcome: &str,
    state: State,
    created_at: &str,
) -> String {
    let description = clip(description, 500);
    let expected_outcome = clip(expected_outcome, 250);
    heading(
        &clip(name, 120),
        &description,
        &expected_outcome,
        state,
        created_at,
    )
}

fn short_line(state: State, name: &str) -> String {
    line(state, &clip(name, 80))
}

fn short(subtask: &SubTask) -> SubTask {
    SubTask {
        name: clip(&subtask.name, 100),
        description: clip(&subtask.description, 700),
        expected_outcome: clip(&subtask.expected_outcome, 300),
        ..subtask.clone()
    }
}
