//! The endpoints that show work: what a task changed, what its agent says, and who is at work.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde_json::json;

use super::{Answer, ApiError, ApiResult, Wanted, Web, no_task, prefix, take_rows, task_id};
use crate::exec::{DiffDetail, DiffSource, diff_of, diff_project, find_diff_after, read_from};
use crate::plan::{AttemptState, CommandId, Plan, PlanId, TaskId};
use crate::view::Paint;
use crate::wire::{CommandFile, without_keys};
use crate::worker::readable_output::{closed, readable};
use crate::worker::workers_at_work;

/// Bytes of an agent's output that are read together.
const PIECE: usize = 64 * 1024;

fn no_attempt(task: TaskId) -> ApiError {
    ApiError::not_found(format!("task `{task}` has no such attempt"))
}

/// Shows what a task changed: of a completed one what was accepted, of any other what is there so far; or as it was after an
/// attempt.
pub async fn diff(
    State(state): Web,
    Path((id, task)): Path<(PlanId, String)>,
    wanted: Wanted,
) -> Answer {
    let task = task_id(&task)?;
    let read = move |plan: &Plan, _| {
        let task = plan.task(task);
        let source = task.map(|task| find_diff_after(plan, task, wanted.attempt));
        (plan.head().clone(), source)
    };
    let (head, source) = state.store.read(&id, read).await?;
    let source = source.ok_or_else(|| no_task(&id, task))?;
    let text = match source.ok_or_else(|| no_attempt(task))? {
        DiffSource::Shared(attempts) => attempts.join("\n"),
        source => {
            let _place = state.large().await;
            let difference = async {
                let project = diff_project(head).await?;
                diff_of(project.as_ref(), source, DiffDetail::Lines).await
            };
            let found = difference.await.map_err(|error| {
                ApiError::new(StatusCode::SERVICE_UNAVAILABLE, format!("{error:#}"))
            })?;
            String::from_utf8_lossy(&found.unwrap_or_default().0).into_owned()
        }
    };
    let shown = prefix(&text);
    let cut = shown.len() < text.len();
    Ok(Json(json!({"diff": shown, "cut": cut})))
}

/// An attempt whose output is shown.
struct Shown {
    command: CommandId,
    number: u32,
    folder: String,
    over: bool,
}

/// Shows a piece of what the agent of a task said and did, in words. The newest attempt is meant unless another one is named.
pub async fn output(
    State(state): Web,
    Path((id, task)): Path<(PlanId, String)>,
    wanted: Wanted,
) -> Answer {
    let (task, number) = (task_id(&task)?, wanted.attempt);
    let read = move |plan: &Plan, _| plan.task(task).map(|_| shown(plan, task, number));
    let shown = state.store.read(&id, read).await?;
    let shown = match (shown.ok_or_else(|| no_task(&id, task))?, number) {
        (Some(shown), _) => shown,
        (None, Some(_)) => return Err(no_attempt(task)),
        (None, None) => {
            let nothing = json!({"text": "", "from": 0, "next": 0, "end": false, "attempt": null});
            return Ok(Json(nothing));
        }
    };
    let kind = match wanted.kind.as_deref() {
        None | Some("out") => "out",
        Some("err") => "err",
        Some(_) => return Err(ApiError::bad_request("`kind` is `out` or `err`")),
    };
    let path = state.volumes.log(&shown.command, kind);
    let from = wanted.from.unwrap_or(0);
    let piece = move || read_from(&path, from, PIECE);
    let (length, bytes) = blocking(piece).await?;
    let rest = from.saturating_add(bytes.len() as u64) >= length;
    // A line that is not whole yet comes with the next piece, unless it is the last or too long for one.
    let end = bytes.iter().rposition(|byte| *byte == b'\n');
    let whole = end.map_or(0, |end| end + 1);
    let used = match whole {
        _ if rest && shown.over => bytes.len(),
        0 if bytes.len() == PIECE => PIECE,
        whole => whole,
    };
    let mut open = false;
    let text = String::from_utf8_lossy(&bytes[..used]);
    let line = |line| readable(line, &shown.folder, &mut open, Paint::none());
    let text: String = text.lines().map(line).collect();
    let text = text + closed(&mut open);
    let next = from.saturating_add(used as u64);
    Ok(Json(json!({
        "text": prefix(&without_keys(&text)),
        "from": from,
        "next": next,
        "end": shown.over && next >= length,
        "attempt": shown.number,
    })))
}

fn shown(plan: &Plan, task: TaskId, number: Option<u32>) -> Option<Shown> {
    let mut attempts = plan.attempts_of(task).rev();
    let attempt = attempts.find(|attempt| number.is_none_or(|number| attempt.number == number))?;
    Some(Shown {
        command: attempt.id.clone(),
        number: attempt.number,
        folder: CommandFile::workspace_of(&attempt.text),
        over: attempt.state != AttemptState::Open || plan.status().settled(),
    })
}

/// Lists who is at work in all plans, and the relays.
pub async fn workers(State(state): Web) -> Answer {
    let (found, relays) = workers_at_work::all_at_work(&state.store, &state.volumes).await?;
    let (rows, all) = take_rows(found.iter().map(|worker| json!(worker)));
    let found = json!({"workers": rows, "more": !all, "relays": relays});
    Ok(Json(found))
}

/// Reads files in a thread of its own.
pub async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> T + Send + 'static,
) -> ApiResult<T> {
    let read = tokio::task::spawn_blocking(read).await;
    read.map_err(|error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error))
}
