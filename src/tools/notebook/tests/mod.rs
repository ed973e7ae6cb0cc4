//! Each test is named after the rule that it shows, on a real store in memory.

mod bounds;
mod create;
mod hints;
mod history;
mod revise;
mod rules;
mod state;

use serde_json::{Value, json};

use super::*;
use crate::config::{Config, ConfiguredLimit};
use crate::plan::{ArchiveState, TaskState};
use crate::tools::tests::has;

pub(super) async fn notebook() -> PlanNotebook {
    PlanNotebook::new(Toolbox::in_memory().await.unwrap())
}

/// Returns a notebook with a plan of these subtasks.
pub(super) async fn with_plan(names: &[&str]) -> PlanNotebook {
    let notebook = notebook().await;
    create(&notebook, "Plan", names).await;
    notebook
}

pub(super) fn subtasks(names: &[&str]) -> Vec<SubTask> {
    let subtask = |name: &&str| SubTask::new(name, &format!("do {name}"), &format!("{name} done"));
    names.iter().map(subtask).collect()
}

pub(super) async fn create(notebook: &PlanNotebook, name: &str, names: &[&str]) -> String {
    let made = notebook.create_plan(name, "description", "outcome", subtasks(names));
    made.await.unwrap().text()
}

/// Calls tools in turn as an agent does, and checks what they say.
pub(super) async fn run(notebook: &PlanNotebook, calls: &str) {
    crate::tools::tests::run(&notebook.toolbox, Dialect::Notebook, calls).await;
}

/// Runs cases. Given are the names of subtasks of the current plan, or nothing.
pub(super) async fn cases(cases: &str) {
    let given = async |given: &str| match given {
        "nothing" => notebook().await.toolbox,
        names => {
            let names: Vec<&str> = names.split(' ').collect();
            with_plan(&names).await.toolbox
        }
    };
    crate::tools::tests::cases(Dialect::Notebook, given, cases).await;
}

/// Calls a tool as an agent does; returns whether it succeeded, and the text.
pub(super) async fn call(notebook: &PlanNotebook, name: &str, arguments: Value) -> (bool, String) {
    let ToolAnswer { success, value } = notebook.call(name, arguments).await;
    (success, value["result"].as_str().unwrap().to_owned())
}

/// Returns all that is in the store: every plan with its seq and its rows.
pub(super) async fn trace(notebook: &PlanNotebook) -> Vec<(i64, Vec<crate::plan::Row>)> {
    crate::tools::tests::rows(&notebook.toolbox).await
}

pub(super) async fn current(notebook: &PlanNotebook) -> NotebookPlan {
    notebook.current_plan().await.unwrap().unwrap()
}

/// Returns the states of the subtasks, a letter each: `t`, `i`, `d`, `a`.
pub(super) async fn states(notebook: &PlanNotebook) -> String {
    let plan = current(notebook).await;
    let letter = |subtask: &SubTask| subtask.state.to_string().remove(0);
    plan.subtasks.iter().map(letter).collect()
}

pub(super) async fn names(notebook: &PlanNotebook) -> Vec<String> {
    let subtasks = current(notebook).await.subtasks.into_iter();
    subtasks.map(|subtask| subtask.name).collect()
}

pub(super) async fn hint(notebook: &PlanNotebook) -> String {
    notebook.get_current_hint().await.unwrap().unwrap().content
}

/// Sets the state of a subtask.
pub(super) async fn set(notebook: &PlanNotebook, at: i64, state: SubTaskState) {
    notebook.update_subtask_state(at, state).await.unwrap();
}

/// Abandons the current plan.
pub(super) async fn abandon_plan(notebook: &PlanNotebook) {
    notebook.finish_plan(PlanEnd::Abandoned, "x").await.unwrap();
}

/// Changes a plan of the core, as another caller does.
pub(super) async fn amend(
    notebook: &PlanNotebook,
    plan: &PlanId,
    change: impl FnOnce(&mut Draft<'_>) -> Result<(), Refusal> + Send + 'static,
) {
    let change = |draft: &mut Draft<'_>| Ok::<_, ToolError>(change(draft)?);
    notebook.toolbox.change(plan, "", change).await.unwrap();
}

/// Checks that a function fails with this code, and for this reason.
#[track_caller]
pub(super) fn fails<T: fmt::Debug>(result: Result<T>, code: NotebookErrorCode, reason: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    has(&error.to_string(), &[reason]);
}

/// Returns the answer of the one of two callers that was first, and the error of the other.
#[track_caller]
pub(super) fn won_and_lost(
    results: (Result<ToolResponse>, Result<ToolResponse>),
) -> (String, NotebookError) {
    match results {
        (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won.text(), lost),
        both => panic!("{both:?}"),
    }
}

/// Begins and finishes subtasks from the first on.
pub(super) async fn finish(notebook: &PlanNotebook, count: i64) {
    set(notebook, 0, SubTaskState::InProgress).await;
    for at in 0..count {
        notebook.finish_subtask(at, "done").await.unwrap();
    }
}
