//! What a person does in the page: each action is one change of a plan, by `web`, with the same refusals as on the command line.
//! An action with an `Idempotency-Key` is done once: the plan keeps the key in the change itself, so the answer of a server that
//! died is not needed to know what happened.

mod plans;
mod tasks;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::api_error::{ApiError, ApiResult};
use super::state::WebState;
use crate::plan::{
    ArchiveState, ChangeEnd, DAEMON, Draft, PlanId, Refusal, RepeatableChange, TaskId,
};
use crate::store::StoreError;
use crate::volumes::{DaemonLock, LockError, PlanNotFree};
use crate::wire::text::{quote, sha256};

/// The name under which changes from the page are recorded.
const BY: &str = "web";
/// The header with the caller's name for an action.
const KEY: &str = "idempotency-key";
const LONGEST_KEY: usize = 128;
/// Letters that are kept of a hash: enough that no two are the same.
const HASH: usize = 32;

/// Returns the routes that change something.
pub fn routes() -> Router<WebState> {
    Router::new()
        .route("/plans", post(plans::create))
        .route("/questions/{question}/answer", post(plans::answer))
        .route("/plans/{id}/pause", post(plans::pause))
        .route("/plans/{id}/resume", post(plans::resume))
        .route("/plans/{id}/abort", post(plans::abort))
        .route("/plans/{id}/approve", post(plans::approve))
        .route("/plans/{id}/restore", post(plans::restore))
        .route("/plans/{id}/plan", get(plans::text).post(plans::edit))
        .route("/plans/{id}/tasks", post(tasks::add))
        .route("/plans/{id}/tasks/{n}/retry", post(tasks::retry))
        .route("/plans/{id}/tasks/{n}/skip", post(tasks::skip))
        .route("/plans/{id}/tasks/{n}/done", post(tasks::done))
        .route("/plans/{id}/tasks/{n}/note", post(tasks::note))
        .route("/plans/{id}/tasks/{n}/comments", post(tasks::comment))
}

/// What an action answers: the number of its change, and what is said of it.
type Answer = ApiResult<Json<Value>>;

/// An action as it is asked for. Fields that it does not know are refused: who works, what is checked and what is allowed is
/// never taken from a body.
struct Action<T> {
    asked: RepeatableChange,
    body: T,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Action<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> ApiResult<Self> {
        let key = key(request.headers())?;
        let mut content = format!("{}\n", request.uri().path()).into_bytes();
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|error| ApiError::new(error.status(), error.body_text()))?;
        content.extend_from_slice(&bytes);
        let wrong = |error: serde_json::Error| ApiError::bad_request(format!("the body: {error}"));
        let mut fields: Map<String, Value> = serde_json::from_slice(&bytes).map_err(wrong)?;
        let if_seq = fields.remove("if_seq").unwrap_or_default();
        let asked = RepeatableChange {
            key: key.map(|key| hash(key.as_bytes())),
            content: hash(&content),
            if_seq: serde_json::from_value(if_seq).map_err(wrong)?,
        };
        let body = T::deserialize(Value::Object(fields)).map_err(wrong)?;
        Ok(Self { asked, body })
    }
}

/// Why an action is not done.
enum Undone {
    /// The plan refuses it.
    Refused(Refusal),
    /// It was not asked for in the right way.
    Error(ApiError),
}

impl From<Refusal> for Undone {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<ApiError> for Undone {
    fn from(error: ApiError) -> Self {
        Self::Error(error)
    }
}

/// Carries an action out as one change of a plan; `why` says what it is in the log.
async fn act(
    state: &WebState,
    plan: &PlanId,
    why: &str,
    asked: RepeatableChange,
    action: impl FnOnce(&mut Draft<'_>) -> Result<String, Undone> + Send + 'static,
) -> Answer {
    let change = move |draft: &mut Draft<'_>| {
        let mut error = None;
        let made = draft.part(|draft| {
            draft.once(asked, |draft| {
                action(draft).map_err(|undone| match undone {
                    Undone::Refused(refusal) => refusal,
                    Undone::Error(found) => {
                        error = Some(found);
                        Refusal::Dropped
                    }
                })
            })
        });
        match (made, error) {
            (Err(Refusal::Dropped), Some(error)) => Ok(Err(error)),
            (made, _) => made.map(Ok),
        }
    };
    let changed = state.store.change(plan, BY, why, change).await;
    let (seq, said) = done(changed.map_err(undone)??)?;
    Ok(Json(json!({ "seq": seq, "said": said })))
}

/// Returns the number of a change that is made, and what is said of it.
fn done(end: ChangeEnd) -> ApiResult<(i64, String)> {
    match end {
        ChangeEnd::Done { seq, said } => Ok((seq, said)),
        ChangeEnd::KeyTaken => {
            let error = "this `Idempotency-Key` was used for another action";
            Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, error))
        }
        ChangeEnd::Moved(seq) => Err(ApiError::conflict(Refusal::Outdated).seq(seq)),
    }
}

/// Returns why a change was not made.
fn undone(error: StoreError) -> ApiError {
    match error {
        StoreError::Refused(
            refusal @ (Refusal::UnknownTask(_) | Refusal::UnknownQuestion(_) | Refusal::Deleted),
        ) => ApiError::not_found(refusal),
        StoreError::Refused(Refusal::NotEditable { task, status }) if status.settled() => {
            let error = ApiError::conflict(Refusal::NotEditable { task, status });
            error.hint("`retry` has it tried again, with a note that says what is missing")
        }
        error => error.into(),
    }
}

/// Returns the plan of a name, if it is there.
async fn plan_of(state: &WebState, name: String) -> ApiResult<PlanId> {
    owned(state, name).await.map(|(plan, _)| plan)
}

/// Returns the plan of a name, if it is one that a daemon carries out.
async fn daemons_plan(state: &WebState, name: String) -> ApiResult<PlanId> {
    match owned(state, name).await? {
        (plan, owner) if owner == DAEMON => Ok(plan),
        (plan, owner) => {
            let by = format!("those who use it through the tools of `{owner}`");
            Err(ApiError::conflict(format!(
                "plan `{plan}` is carried out by {by}"
            )))
        }
    }
}

async fn owned(state: &WebState, name: String) -> ApiResult<(PlanId, String)> {
    let plan = PlanId::new(name);
    let head = state.store.read(&plan, |plan, _| plan.head().clone()).await;
    let head = head.map_err(|error| match error {
        StoreError::UnknownPlan(_) => {
            ApiError::not_found(format!("there is no plan {}", quote(plan.as_str())))
        }
        error => error.into(),
    })?;
    match head.archive_state {
        ArchiveState::Deleted => Err(ApiError::not_found(Refusal::Deleted)),
        ArchiveState::Current | ArchiveState::History => Ok((plan, head.owner)),
    }
}

/// Returns the number of a task.
fn task_of(name: &str) -> ApiResult<TaskId> {
    let number = name.parse().map(TaskId);
    number.map_err(|_| ApiError::not_found(format!("there is no task {}", quote(name))))
}

/// Keeps daemons from a plan that none carries out.
async fn free_of_daemons(state: &WebState, plan: &PlanId) -> ApiResult<Option<DaemonLock>> {
    let (volumes, plan) = (state.volumes.clone(), plan.clone());
    let free = tokio::task::spawn_blocking(move || volumes.free_of_daemons(&plan)).await;
    let free = free.map_err(|error| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error))?;
    free.map_err(|error| match error {
        PlanNotFree::Lock(LockError::Volumes(error)) => {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error)
        }
        busy => ApiError::conflict(busy).hint(format!("`{} stop` ends it", state.program)),
    })
}

/// Keeps daemons from a plan that has ended and is to go on: one that is about to end would not notice.
async fn free_if_over(state: &WebState, plan: &PlanId) -> ApiResult<Option<DaemonLock>> {
    let over = state.store.read(plan, |plan, _| plan.status().settled());
    match over.await? {
        true => free_of_daemons(state, plan).await,
        false => Ok(None),
    }
}

fn key(headers: &HeaderMap) -> ApiResult<Option<String>> {
    let mut given = headers.get_all(KEY).into_iter();
    let (first, second) = (given.next(), given.next());
    let Some(key) = first else {
        return Ok(None);
    };
    let key = key.to_str().ok().filter(|_| second.is_none());
    let key = key.filter(|key| (1..=LONGEST_KEY).contains(&key.len()));
    let error = format!("an `Idempotency-Key` has 1 to {LONGEST_KEY} printable characters");
    key.map(|key| Some(key.to_owned()))
        .ok_or_else(|| ApiError::bad_request(error))
}

fn hash(content: &[u8]) -> String {
    let mut hash = sha256(content);
    hash.truncate(HASH);
    hash
}
