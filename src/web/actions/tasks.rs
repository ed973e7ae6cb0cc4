//! What a person does to single tasks.

use axum::extract::{Path, State};
use serde::Deserialize;

use super::{Action, Answer, act, daemons_plan, free_if_over, task_of};
use crate::plan::{Draft, TaskId};
use crate::steering;
use crate::web::api_error::{ApiError, ApiResult};
use crate::web::state::WebState;

/// The path of a task.
type OnTask = Path<(String, String)>;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Note {
    pub note: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Again {
    note: String,
    /// The person agrees that tasks that rely on this one open again.
    yes: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Comment {
    path: String,
    line: u32,
    text: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewTask {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    after: Vec<u32>,
}

/// Has a task tried again. What relies on it opens again with it, if the person agrees.
pub(super) async fn retry(
    State(state): State<WebState>,
    Path((plan, task)): OnTask,
    Action { asked, body }: Action<Again>,
) -> Answer {
    let (plan, id) = (daemons_plan(&state, plan).await?, task_of(&task)?);
    let lock = free_if_over(&state, &plan).await?;
    let note = body.note.trim().to_owned();
    let why = or(&note, "tried again");
    let answer = act(&state, &plan, &why, asked, move |draft| {
        let again = draft.plan().opens_again(id);
        if !again.is_empty() && !body.yes {
            let error = ApiError::conflict(steering::opened_again(&again, id));
            return Err(error.hint("add `\"yes\": true` if they may").into());
        }
        Ok(steering::retry(draft, id, &note, &again)?)
    });
    let answer = answer.await;
    drop(lock);
    answer
}

/// Leaves a task out.
pub(super) async fn skip(
    State(state): State<WebState>,
    Path((plan, task)): OnTask,
    Action { asked, body }: Action<Note>,
) -> Answer {
    let (plan, id) = (daemons_plan(&state, plan).await?, task_of(&task)?);
    let note = body.note.trim().to_owned();
    let skip = {
        let note = note.clone();
        move |draft: &mut Draft<'_>| Ok(steering::settle(draft, id, &note, false)?)
    };
    act(&state, &plan, &or(&note, "skipped"), asked, skip).await
}

/// Completes a task because the person says that it is done.
pub(super) async fn done(
    State(state): State<WebState>,
    Path((plan, task)): OnTask,
    Action { asked, body }: Action<Note>,
) -> Answer {
    let (plan, id) = (daemons_plan(&state, plan).await?, task_of(&task)?);
    let note = body.note.trim().to_owned();
    let done = {
        let note = note.clone();
        move |draft: &mut Draft<'_>| Ok(steering::settle(draft, id, &note, true)?)
    };
    act(&state, &plan, &or(&note, "done"), asked, done).await
}

/// Says something to the agent of a task.
pub(super) async fn note(
    State(state): State<WebState>,
    Path((plan, task)): OnTask,
    Action { asked, body }: Action<Note>,
) -> Answer {
    let (plan, id) = (daemons_plan(&state, plan).await?, task_of(&task)?);
    let words = words(&body.note, "note")?;
    let tell = move |draft: &mut Draft<'_>| Ok(steering::tell(draft, id, &words, false)?);
    act(&state, &plan, "said", asked, tell).await
}

/// Says something about a line of a task's diff: a note for the next attempt.
pub(super) async fn comment(
    State(state): State<WebState>,
    Path((plan, task)): OnTask,
    Action { asked, body }: Action<Comment>,
) -> Answer {
    let (plan, id) = (daemons_plan(&state, plan).await?, task_of(&task)?);
    let (path, text) = (words(&body.path, "path")?, words(&body.text, "text")?);
    if path.contains(char::is_control) {
        return Err(ApiError::bad_request("`path` has control characters"));
    }
    let words = format!("{path}:{}: {text}", body.line);
    let tell = move |draft: &mut Draft<'_>| Ok(steering::tell(draft, id, &words, false)?);
    act(&state, &plan, "commented", asked, tell).await
}

/// Adds a task.
pub(super) async fn add(
    State(state): State<WebState>,
    Path(plan): Path<String>,
    Action { asked, body }: Action<NewTask>,
) -> Answer {
    let plan = daemons_plan(&state, plan).await?;
    let name = words(&body.name, "name")?;
    let text = or(body.description.trim(), &name);
    let after: Vec<TaskId> = body.after.into_iter().map(TaskId).collect();
    let task = steering::task_of_words(&name, &text, &after);
    let lock = free_if_over(&state, &plan).await?;
    let add = move |draft: &mut Draft<'_>| Ok(steering::add(draft, task, None)?);
    let answer = act(&state, &plan, "added", asked, add).await;
    drop(lock);
    answer
}

/// Returns the words of a field that needs some.
pub(super) fn words(text: &str, field: &str) -> ApiResult<String> {
    match text.trim() {
        "" => Err(ApiError::bad_request(format!("`{field}` is empty"))),
        words => Ok(words.to_owned()),
    }
}

pub(super) fn or(text: &str, otherwise: &str) -> String {
    let text = if text.is_empty() { otherwise } else { text };
    text.to_owned()
}
