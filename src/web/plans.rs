//! The endpoints that show plans: the list, a plan now or earlier, its tasks, its log, and what is asked.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::api_error::{ApiError, ApiResult};
use super::bounded::{MOST, clip_texts, fit, size, take_rows};
use super::state::WebState;
use crate::plan::{ArchiveState, DAEMON, HumanQuestion, Plan, PlanHead, PlanId, ROLE, Row, TaskId};
use crate::store::{Change, ListedPlan};
use crate::view::{self, DaemonView, LastDaemon, ListedView, PlanView};
use crate::wire::question_file::meaning;
use crate::wire::text::time_text;

/// Rows that are read together, and the most that a caller gets of them.
const PAGE: usize = 200;
const MOST_ROWS: usize = 1_000;

/// Changes that are read together: one may have thousands of rows.
const CHANGES: usize = 100;

/// Characters of a text in a list.
const IN_LIST: usize = 400;

/// Lines about one change, and tasks that are named for it.
const LINES: usize = 50;
pub const TASKS_OF_A_CHANGE: usize = 500;

/// Which part of something is wanted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Wanted {
    pub at: Option<i64>,
    pub after: Option<i64>,
    pub limit: Option<usize>,
    pub from: Option<u64>,
    pub attempt: Option<u32>,
    pub kind: Option<String>,
}

/// A query as it was read, or why it cannot be.
pub type WantedQuery = Result<Query<Wanted>, QueryRejection>;

impl From<QueryRejection> for ApiError {
    fn from(rejection: QueryRejection) -> Self {
        Self::bad_request(rejection.body_text())
    }
}

/// Reads the number of a task.
///
/// # Errors
/// It is none.
pub fn task_id(text: &str) -> ApiResult<TaskId> {
    let number = text.parse().ok().filter(|number| *number > 0);
    let number = number.ok_or_else(|| ApiError::not_found("a task is named by its number"))?;
    Ok(TaskId(number))
}

/// Returns that a plan has no such task.
pub fn no_task(plan: &PlanId, task: TaskId) -> ApiError {
    ApiError::not_found(format!("plan `{plan}` has no task `{task}`"))
}

/// Lists the plans, the newest first, and says who carries them out.
pub async fn list(State(state): State<WebState>) -> ApiResult<Json<Value>> {
    let daemon = state.volumes.running();
    let mut rows = Vec::new();
    for plan in state.store.plans().await? {
        let ListedPlan { head, .. } = &plan;
        if !is_listed(head) {
            continue;
        }
        let carried_out = (daemon.as_ref()).is_some_and(|daemon| daemon.carries_out(&head.id));
        let mut row = json!(ListedView::of(&plan, carried_out));
        for (name, value) in state.figures(&plan).await? {
            row[name] = value;
        }
        clip_texts(&mut row, IN_LIST);
        rows.push(row);
    }
    let daemon = daemon.map(|daemon| {
        json!({"pid": daemon.pid, "started_at": daemon.started_at, "version": daemon.version})
    });
    let (rows, all) = take_rows(rows);
    Ok(Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "started": state.started(),
        "read_only": state.read_only,
        "daemon": daemon,
        "plans": rows,
        "more": !all,
    })))
}

/// Returns whether a plan is in the list: it was not put away, and no role made it of its task.
pub fn is_listed(head: &PlanHead) -> bool {
    head.archive_state == ArchiveState::Current && head.owner != ROLE
}

/// Shows a plan, as it is or as it was after a change.
pub async fn show(
    State(state): State<WebState>,
    Path(id): Path<String>,
    wanted: WantedQuery,
) -> ApiResult<Json<Value>> {
    let (id, Query(wanted)) = (PlanId::new(id), wanted?);
    let now = state.clock.now();
    let before = match wanted.at {
        Some(at) => Some((state.plan_at(&id, at).await?, at)),
        None => None,
    };
    let mut limit = wanted.limit.unwrap_or(50).min(MOST_ROWS);
    loop {
        let (mut view, seq) = match &before {
            Some((plan, at)) => (PlanView::of(plan, *at, limit, now), *at),
            None => {
                let view = move |plan: &Plan, seq| (PlanView::of(plan, seq, limit, now), seq);
                state.store.read(&id, view).await?
            }
        };
        let daemon = state.volumes.daemon_of(&id);
        if daemon.is_none() {
            let (word, gone) = (state.volumes.last_word(), state.volumes.vanished());
            view.last_daemon = LastDaemon::of(&id, word, gone);
        }
        view.carried_out_by(daemon.map(|daemon| DaemonView { pid: daemon.pid }));
        let mut view = json!(view);
        view["seq"] = seq.into();
        if size(&view) <= MOST || limit == 0 {
            return Ok(Json(fit(view)));
        }
        limit /= 2;
    }
}

/// Lists the tasks of a plan after one of them.
pub async fn tasks(
    State(state): State<WebState>,
    Path(id): Path<String>,
    wanted: WantedQuery,
) -> ApiResult<Json<Value>> {
    let (id, Query(wanted)) = (PlanId::new(id), wanted?);
    let (now, limit) = (
        state.clock.now(),
        wanted.limit.unwrap_or(PAGE).clamp(1, MOST_ROWS),
    );
    let after = wanted.after.and_then(|after| u32::try_from(after).ok());
    let after = after.filter(|after| *after > 0).map(TaskId);
    let read = move |plan: &Plan, seq| {
        let missing = after.filter(|after| plan.task(*after).is_none());
        (view::task_rows(plan, after, limit + 1, now), seq, missing)
    };
    let (mut rows, seq, missing) = state.store.read(&id, read).await?;
    if let Some(task) = missing {
        return Err(no_task(&id, task));
    }
    let more = rows.len() > limit;
    rows.truncate(limit);
    rows.iter_mut().for_each(|row| clip_texts(row, IN_LIST));
    let (rows, all) = take_rows(rows);
    let next = rows.last().filter(|_| more || !all);
    let next = next.map(|row| row["id"].clone());
    Ok(Json(json!({"tasks": rows, "next": next, "seq": seq})))
}

/// Shows all that is known of a task.
pub async fn task(
    State(state): State<WebState>,
    Path((id, task)): Path<(String, String)>,
) -> ApiResult<Json<Value>> {
    let (id, task) = (PlanId::new(id), task_id(&task)?);
    let (now, program) = (state.clock.now(), state.program.clone());
    let read = move |plan: &Plan, seq| (view::task_detail(plan, task, now, &program), seq);
    let (detail, seq) = state.store.read(&id, read).await?;
    let mut detail = detail.ok_or_else(|| no_task(&id, task))?;
    detail["seq"] = seq.into();
    Ok(Json(fit(detail)))
}

/// Lists what happened to a plan after a change, the earliest first.
pub async fn log(
    State(state): State<WebState>,
    Path(id): Path<String>,
    wanted: WantedQuery,
) -> ApiResult<Json<Value>> {
    let (id, Query(wanted)) = (PlanId::new(id), wanted?);
    let last = state.store.read(&id, |_, seq| seq).await?;
    let limit = wanted.limit.unwrap_or(CHANGES).clamp(1, CHANGES);
    let changes = state.store.since(&id, wanted.after.unwrap_or(0), limit);
    let changes = changes.await?;
    let (rows, _) = take_rows(changes.iter().map(change));
    let next = rows.last().map(|row| row["seq"].clone());
    let next = next.filter(|next| next.as_i64() < Some(last));
    Ok(Json(json!({"changes": rows, "next": next})))
}

/// Returns a change in words, with the tasks that it touched.
pub fn change(change: &Change) -> Value {
    let mut events = view::events(change);
    let more = events.len().saturating_sub(LINES);
    events.truncate(LINES);
    if more > 0 {
        events.push(format!("… {more} more"));
    }
    json!({
        "seq": change.seq,
        "at": time_text(change.at),
        "by": change.by,
        "why": change.why,
        "events": events,
        "tasks": touched(change).collect::<Vec<_>>(),
    })
}

/// Returns the tasks that a change touched, as far as they are named.
fn touched(change: &Change) -> impl Iterator<Item = TaskId> {
    let of_row = |row: &Row| match row {
        Row::Task(task) => Some(task.number),
        Row::Attempt(attempt) => Some(attempt.task),
        Row::Question(question) => question.task,
        _ => None,
    };
    let tasks: std::collections::BTreeSet<TaskId> =
        change.delta.rows.iter().filter_map(of_row).collect();
    tasks.into_iter().take(TASKS_OF_A_CHANGE)
}

/// Lists what waits for an answer in all plans.
pub async fn questions(State(state): State<WebState>) -> ApiResult<Json<Value>> {
    let mut rows = Vec::new();
    for ListedPlan { head, .. } in state.store.plans().await? {
        if is_listed(&head) && asks(&head) {
            let read = |plan: &Plan, seq| {
                let open = plan.open_questions();
                open.map(|open| question(plan, seq, open))
                    .collect::<Vec<_>>()
            };
            rows.extend(state.store.read(&head.id, read).await?);
        }
    }
    rows.sort_by_cached_key(|row| row["asked_at"].as_str().unwrap_or_default().to_owned());
    let (rows, all) = take_rows(rows);
    Ok(Json(json!({"questions": rows, "more": !all})))
}

/// Returns whether a plan may have open questions: only a daemon asks.
pub fn asks(head: &PlanHead) -> bool {
    head.owner == DAEMON && !head.status.settled()
}

fn question(plan: &Plan, seq: i64, open: &HumanQuestion) -> Value {
    let task = open.task.and_then(|task| plan.task(task));
    let choices = open.choices.iter().map(|choice| {
        let meaning = meaning(open.about, *choice, open.attempts);
        json!({"word": choice.as_str(), "meaning": meaning})
    });
    json!({
        "plan": plan.id(),
        "plan_name": plan.head().name,
        "id": open.id,
        "task": open.task,
        "task_name": task.map(|task| task.name.as_str()),
        "asked_at": time_text(open.asked),
        "text": open.reason,
        "choices": choices.collect::<Vec<_>>(),
        "note_allowed": true,
        "seq": seq,
    })
}
