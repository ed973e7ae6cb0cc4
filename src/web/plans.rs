//! The endpoints that show plans: the list, a plan now or earlier, its tasks, its log, and what is asked.

use axum::Json;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, ApiError, ApiResult, MOST, Web, clip_texts, fit, prefix, size, take_rows};
use crate::plan::{
    ArchiveState, DAEMON, HeldLocks, HumanQuestion, Plan, PlanHead, PlanId, PlanState, Refusal,
    Row, TaskId, Time,
};
use crate::store::{Change, ListedPlan, StoreError};
use crate::view::{self, ListedView, PlanView, ProgramName};
use crate::wire::{PlanToEdit, meaning, time_text};

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

impl<S: Send + Sync> FromRequestParts<S> for Wanted {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> ApiResult<Self> {
        let query = Query::from_request_parts(parts, state).await;
        let query = query.map_err(|error| ApiError::bad_request(error.body_text()));
        query.map(|Query(wanted)| wanted)
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

/// Lists the plans, the newest first, and says who carries them out. A page goes on behind a moment: what was made since, or is
/// gone, moves none of them.
pub async fn list(State(state): Web, wanted: Wanted) -> Answer {
    let daemon = state.volumes.running();
    let plans = state.store.tallied(PlanHead::is_listed).await?;
    let elsewhere = state.store.held_elsewhere().await?;
    let before = wanted.after.filter(|after| *after > 0).map(Time);
    let begin = plans
        .partition_point(|plan| before.is_some_and(|before| plan.plan.head.created_at >= before));
    let limit = wanted.limit.unwrap_or(MOST_ROWS).clamp(1, MOST_ROWS);
    let rows = plans[begin..].iter().take(limit).map(|plan| {
        let id = &plan.plan.head.id;
        let carried_out = elsewhere.contains_key(id)
            || (daemon.as_ref()).is_some_and(|daemon| daemon.carries_out(id));
        let mut row = json!(ListedView::of(plan, carried_out));
        clip_texts(&mut row, IN_LIST);
        row
    });
    let (rows, _) = take_rows(rows);
    let end = begin + rows.len();
    let next = (end < plans.len()).then(|| plans[end - 1].plan.head.created_at.0);
    let daemon = daemon.map(|daemon| {
        json!({"pid": daemon.pid, "started_at": daemon.started_at, "version": daemon.version})
    });
    Ok(Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "started": *state.started,
        "read_only": state.read_only,
        "daemon": daemon,
        "plans": rows,
        "total": plans.len(),
        "open": plans.iter().filter(|plan| !plan.plan.head.status.settled()).count(),
        "more": next.is_some(),
        "next": next,
    })))
}

/// Shows a plan, as it is or as it was after a change.
pub async fn show(State(state): Web, Path(id): Path<PlanId>, wanted: Wanted) -> Answer {
    let now = state.clock.now();
    let before = match wanted.at {
        Some(at) => Some((state.plan_at(&id, at).await?, at)),
        None => None,
    };
    let mut limit = wanted.limit.unwrap_or(50).min(MOST_ROWS);
    loop {
        let (mut view, seq) = match &before {
            Some((plan, at)) => (PlanView::of(plan, *at, limit, now, &HeldLocks::new()), *at),
            None => {
                let others = state.store.locks_beside(&id).await?;
                let view = move |plan: &Plan, seq| match plan.head().archive_state {
                    ArchiveState::Deleted => Err(Refusal::Deleted),
                    _ => Ok((PlanView::of(plan, seq, limit, now, &others), seq)),
                };
                let view = state.store.read(&id, view).await?;
                view.map_err(StoreError::from)?
            }
        };
        let head = view.head.clone();
        let daemon = state.volumes.daemon_of(&id);
        let elsewhere = state.store.held_elsewhere().await?;
        let elsewhere = elsewhere.get(&id).map(String::as_str);
        view.carried_out_by(daemon.map(|daemon| daemon.pid), elsewhere);
        let home = state.store.elsewhere(&head).map(str::to_owned);
        view.left_by(home, state.volumes.last_word(), state.volumes.vanished());
        let mut view = json!(view);
        view["seq"] = seq.into();
        let waits = head.queue.is_some() && head.status == PlanState::Idle;
        view["queued"] = (waits && state.volumes.running().is_some()).into();
        view["place"] = place(&head, &state.program).into();
        view["outcome"] = head.outcome.into();
        if size(&view) <= MOST || limit == 0 {
            return Ok(Json(fit(view)));
        }
        limit /= 2;
    }
}

/// Says where agents work or, of a plan that has ended, where their work is; `None` where that is not decided.
fn place(head: &PlanHead, program: &ProgramName) -> Option<String> {
    let folder = &head.workspace;
    let place = match (&head.line, head.status.settled()) {
        _ if folder.is_empty() || head.isolation_is_open() => return None,
        (_, true) => view::place_of_results(head, folder, program),
        (Some(line), _) if line.folder.is_empty() => return None,
        (Some(line), _) => view::place_of_agents(head, &line.folder, program),
        (None, _) if head.is_isolated() => return None,
        (None, _) => view::place_of_agents(head, folder, program),
    };
    Some(format!("{place}."))
}

/// Returns the plan file of a plan, for an editor.
pub async fn plan_text(State(state): Web, Path(id): Path<PlanId>) -> Answer {
    let render = |plan: &Plan, seq| (PlanToEdit::new(plan, None).text, seq);
    let (text, seq) = state.store.read(&id, render).await?;
    if prefix(&text).len() < text.len() {
        let error = "the plan is too long for the page";
        let error = ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, error);
        let edit = format!("`{} edit {id}`", state.program);
        return Err(error.hint(format!("{edit} opens it in your editor")));
    }
    Ok(Json(json!({"text": text, "seq": seq})))
}

/// Lists the tasks of a plan after one of them.
pub async fn tasks(State(state): Web, Path(id): Path<PlanId>, wanted: Wanted) -> Answer {
    let now = state.clock.now();
    let limit = wanted.limit.unwrap_or(PAGE).clamp(1, MOST_ROWS);
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
pub async fn task(State(state): Web, Path((id, task)): Path<(PlanId, String)>) -> Answer {
    let task = task_id(&task)?;
    let (now, program) = (state.clock.now(), state.program.clone());
    let others = state.store.locks_beside(&id).await?;
    let read = move |plan: &Plan, seq| (view::task_detail(plan, task, now, &program, &others), seq);
    let (detail, seq) = state.store.read(&id, read).await?;
    let mut detail = detail.ok_or_else(|| no_task(&id, task))?;
    detail["seq"] = seq.into();
    let elsewhere = state.store.held_elsewhere().await?;
    let carried_out = state.volumes.daemon_of(&id).is_some() || elsewhere.contains_key(&id);
    detail["daemon"] = carried_out.into();
    Ok(Json(fit(detail)))
}

/// Lists what happened to a plan after a change, the earliest first.
pub async fn log(State(state): Web, Path(id): Path<PlanId>, wanted: Wanted) -> Answer {
    let last = state.store.read(&id, |_, seq| seq).await?;
    let limit = wanted.limit.unwrap_or(CHANGES).clamp(1, CHANGES);
    let changes = state.store.since(&id, wanted.after.unwrap_or(0), limit);
    let changes = changes.await?;
    let (rows, _) = take_rows(changes.iter().map(change));
    let next = rows.last().map(|row| row["seq"].clone());
    let next = next.filter(|next| next.as_i64() < Some(last));
    Ok(Json(json!({"changes": rows, "next": next})))
}

/// Returns a change in words, with the tasks that it touched. Where the events of the daemon say what it did, nothing more is
/// said of why: their own words have the reasons.
pub fn change(change: &Change) -> Value {
    let mut events = view::events(change);
    let more = events.len().saturating_sub(LINES);
    events.truncate(LINES);
    events.extend((more > 0).then(|| format!("… {more} more")));
    let why = match change.by == DAEMON && !events.is_empty() {
        true => "",
        false => &change.why,
    };
    json!({
        "seq": change.seq,
        "at": time_text(change.at),
        "by": change.by,
        "why": why,
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
pub async fn questions(State(state): Web) -> Answer {
    let mut rows = Vec::new();
    for ListedPlan { head, .. } in state.store.plans().await? {
        if head.is_listed() && head.may_ask() {
            let read = |plan: &Plan, seq| -> Vec<Value> {
                let open = plan.open_questions();
                open.map(|open| question(plan, seq, open)).collect()
            };
            rows.extend(state.store.read(&head.id, read).await?);
        }
    }
    rows.sort_by_cached_key(|row| row["asked_at"].as_str().unwrap_or_default().to_owned());
    let (rows, all) = take_rows(rows);
    Ok(Json(json!({"questions": rows, "more": !all})))
}

fn question(plan: &Plan, seq: i64, open: &HumanQuestion) -> Value {
    let task = open.task.and_then(|task| plan.task(task));
    let choices = open.choices.iter().map(|choice| {
        json!({"word": choice.as_str(), "meaning": meaning(open.about, *choice, open.attempts)})
    });
    json!({
        "plan": plan.id(),
        "plan_name": plan.head().name,
        "id": open.id,
        "task": open.task,
        "task_name": task.map(|task| task.name.as_str()),
        "asked_at": time_text(open.asked),
        "text": open.reason,
        "output": view::failing_output(plan, open),
        "choices": choices.collect::<Vec<_>>(),
        "note_allowed": true,
        "seq": seq,
    })
}
