//! What a person does to a plan as a whole, and to its questions.

use std::collections::BTreeSet;

use serde::Serialize;

use super::tasks;
use crate::plan::{
    AnswerChoice, Draft, HumanQuestionKind, Plan, PlanState, QuestionId, Refusal, Task, TaskId,
    Time,
};
use crate::view::StateWord;

/// What came of letting a plan go on.
#[derive(Debug, PartialEq, Eq)]
pub enum GoesOn {
    Yes,
    /// It is not paused.
    NotPaused,
    /// A limit of its budget keeps it paused; why it is.
    Stopped(String),
}

/// Answers a question, and returns what is said of that.
///
/// # Errors
/// As [`Draft::answer`].
pub fn answer(
    draft: &mut Draft<'_>,
    id: &QuestionId,
    choice: AnswerChoice,
    note: &str,
    by: &str,
) -> Result<String, Refusal> {
    draft.answer(id, choice, note, by)?;
    let plan = draft.plan();
    let question = plan.question(id);
    let again = |about| choice == AnswerChoice::Retry && about != HumanQuestionKind::Model;
    let task = question.and_then(|question| question.task);
    let gives = question.filter(|question| again(question.about));
    let gives = gives.and(task).and_then(|task| plan.task(task));
    let gives = gives.map_or(String::new(), |task| tasks::attempts(plan, task));
    let about = task.map_or_else(|| format!("plan {}", plan.id()), |id| format!("task {id}"));
    Ok(format!("{about}: {}{gives}", choice.as_str()))
}

/// Lets nothing new start in a plan. Returns whether it was paused already.
///
/// # Errors
/// As [`Draft::pause`].
pub fn pause(draft: &mut Draft<'_>, reason: &str) -> Result<bool, Refusal> {
    let paused = matches!(draft.plan().status(), PlanState::Paused(_));
    if !paused {
        draft.pause(reason)?;
    }
    Ok(paused)
}

/// Lets a paused plan go on, unless a limit of its budget has stopped it.
///
/// # Errors
/// As [`Draft::resume`].
pub fn go_on(draft: &mut Draft<'_>) -> Result<GoesOn, Refusal> {
    let PlanState::Paused(why) = draft.plan().status().clone() else {
        return Ok(GoesOn::NotPaused);
    };
    match draft.plan().stopped_at() {
        Some(_) => Ok(GoesOn::Stopped(why)),
        None => draft.resume().map(|()| GoesOn::Yes),
    }
}

/// What a restore would do to a task.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct RestoredTask {
    pub task: TaskId,
    pub name: String,
    /// Its state now; `None` if it comes back.
    pub was: Option<&'static str>,
    /// Its state then; `None` if it is removed.
    pub is: Option<&'static str>,
}

/// Returns what would change if a plan were restored to what it was after its change `seq`: its tasks that do not stay as they
/// are.
///
/// # Errors
/// As [`Draft::restore`].
pub fn preview_restore(
    plan: &Plan,
    earlier: &Plan,
    seq: i64,
    now: Time,
) -> Result<Vec<RestoredTask>, Refusal> {
    let mut restored = plan.clone();
    let mut draft = Draft::new(&mut restored, now);
    draft.restore(earlier, seq)?;
    draft.finish();
    let tasks: BTreeSet<TaskId> = [plan, &restored]
        .into_iter()
        .flat_map(|plan| plan.tasks().map(|task| task.number))
        .collect();
    let change = |id| {
        let (before, after) = (plan.task(id), restored.task(id));
        let state = |plan, task: Option<&Task>| task.map(|task| StateWord::of_task(plan, task));
        let name = after.or(before).map(|task| task.name.clone());
        (before != after).then(|| RestoredTask {
            task: id,
            name: name.unwrap_or_default(),
            was: state(plan, before).map(StateWord::as_str),
            is: state(&restored, after).map(StateWord::as_str),
        })
    };
    Ok(tasks.into_iter().filter_map(change).collect())
}
