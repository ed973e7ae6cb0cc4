//! What a person does to a plan as a whole, and to its questions.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Result, tasks};
use crate::plan::{
    AnswerChoice, Draft, HumanQuestionKind, Plan, PlanState, QuestionId, Refusal, Task, TaskId,
    Time,
};
use crate::view::StateWord;

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
) -> Result<String> {
    draft.answer(id, choice, note, by)?;
    let plan = draft.plan();
    let question = plan.question(id);
    let task = question.and_then(|question| question.task);
    let again = choice == AnswerChoice::Retry
        && question.is_some_and(|question| question.about != HumanQuestionKind::Model);
    let tried = task.filter(|_| again).and_then(|task| plan.task(task));
    let gives = tried.map_or(String::new(), |task| tasks::attempts(plan, task));
    let about = task.map_or_else(|| format!("plan {}", plan.id()), |id| format!("task {id}"));
    Ok(format!("{about}: {}{gives}", choice.as_str()))
}

/// Lets nothing new start in a plan, and returns what is said of that.
///
/// # Errors
/// As [`Draft::pause`].
pub fn pause(draft: &mut Draft<'_>, reason: &str) -> Result<String> {
    let plan = draft.plan().id().clone();
    if draft.plan().is_stopped_by_day() {
        draft.pause_beyond_day(reason)?;
        return Ok(format!("plan {plan} is paused, also when the day is over"));
    }
    if let PlanState::Paused(why) = draft.plan().status() {
        let until = match draft.plan().stopped_at() {
            Some(_) => format!(": {why}; an answer of `more` lets it go on"),
            None => String::new(),
        };
        return Ok(format!("plan {plan} is paused already{until}"));
    }
    draft.pause(reason)?;
    Ok(format!("plan {plan} is paused: nothing new starts"))
}

/// Lets a paused plan go on, and returns what is said of that.
///
/// # Errors
/// A limit of its budget has stopped it; else as [`Draft::resume`].
pub fn go_on(draft: &mut Draft<'_>) -> Result<String> {
    let plan = draft.plan();
    if let (PlanState::Paused(why), Some(_)) = (plan.status(), plan.stopped_at()) {
        return Err(Refusal::Stopped(why.clone()));
    }
    draft.resume()?;
    Ok(format!("plan {} goes on", draft.plan().id()))
}

/// Returns what would change if a plan were restored to what it was after its change `seq`: its tasks that do not stay as they
/// are, with the words of their states now and then, and of what else is another.
///
/// # Errors
/// As [`Draft::restore`].
pub fn preview_restore(plan: &Plan, earlier: &Plan, seq: i64, now: Time) -> Result<Vec<Value>> {
    let mut restored = plan.clone();
    let mut draft = Draft::new(&mut restored, now);
    draft.restore(earlier, seq)?;
    draft.finish();
    let tasks = plan.tasks().chain(restored.tasks());
    let tasks: BTreeSet<TaskId> = tasks.map(|task| task.number).collect();
    let change = |id| {
        let (before, after) = (plan.task(id), restored.task(id));
        let state = |plan, task: Option<&Task>| Some(StateWord::of_task(plan, task?).as_str());
        let (was, is) = (state(plan, before), state(&restored, after));
        let name = &after.or(before)?.name;
        let edited = before.zip(after).map_or(Vec::new(), edited);
        let change = json!({"task": id, "name": name, "was": was, "is": is, "edited": edited});
        (was != is || !edited.is_empty()).then_some(change)
    };
    Ok(tasks.into_iter().filter_map(change).collect())
}

/// Returns the words for what two states of a task have otherwise.
fn edited((one, other): (&Task, &Task)) -> Vec<&'static str> {
    let same = [
        ("name", one.name == other.name),
        ("description", one.instructions() == other.instructions()),
        ("constraints", one.constraints == other.constraints),
        ("what is expected", one.criteria == other.criteria),
        ("checks", one.checks == other.checks),
        ("files", one.produces == other.produces),
        ("may change", one.may_change == other.may_change),
        ("locks", one.locks == other.locks),
        ("role", one.assignee == other.assignee),
        (
            "what it comes after",
            one.dependencies == other.dependencies,
        ),
    ];
    let others = same.into_iter().filter(|(_, same)| !same);
    others.map(|(word, _)| word).collect()
}
