//! What a person does in the page: each action is one change of a plan, by `web`, with the same refusals as on the command line.
//! An action with an `Idempotency-Key` is done once: the plan keeps the key in the change itself, so no answer of a server that
//! died is needed to know what happened.

use std::collections::HashMap;
use std::path::Path as Folder;

use axum::body::Bytes;
use axum::extract::{FromRequest, Path, Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::routing::{MethodRouter, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::work::blocking;
use super::{Answer, ApiError, ApiResult, Web, WebState, task_id};
use crate::config::Isolation;
use crate::exec::project_head;
use crate::plan::{
    AnswerChoice, ArchiveState, DAEMON, Draft, HumanQuestionKind, MadeChange, Plan, PlanHead,
    PlanId, QuestionId, Refusal, RepeatableChange, ReviewPolicy, TaskId,
};
use crate::steering;
use crate::store::StoreError;
use crate::tools::new_plan_id;
use crate::view::ProgramName;
use crate::volumes::{DaemonInfo, LockError};
use crate::wire::{PlanToEdit, Problem, sha256};
use crate::worker;

/// The name under which changes from the page are recorded.
const BY: &str = "web";
/// Why a plan was paused or ended, where the person says nothing.
const WHERE: &str = "on the page";
/// What a restore is in the log.
const RESTORED: &str = "restored";
const RESUMED: &str = "resumed";
/// What words of a person are in the log: no plan goes on by them that has ended.
const ANSWERED: &str = "answered";
const SAID: &str = "said";
const COMMENTED: &str = "commented";
/// The header with the caller's name for an action, and its longest value.
const KEY: &str = "idempotency-key";
const LONGEST_KEY: usize = 128;

/// What an action says, and the task that it is about, if any; both come from the request.
type Act = fn(&mut Draft<'_>, TaskId, &Body) -> Result<String, Refusal>;

/// What a body may have. All else is refused: who works, what is checked and what is allowed is never taken from one.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Body {
    /// The change that the person has seen: the action is refused if there are others since.
    if_seq: Option<i64>,
    note: String,
    choice: String,
    /// The person agrees that other tasks open again.
    yes: bool,
    /// The id of the plan that is to end for good.
    confirm: String,
    goal: String,
    review: bool,
    /// The change to restore; or the one after which the person saw the text of the plan.
    at: Option<i64>,
    preview: bool,
    text: String,
    path: String,
    line: u32,
    /// The line is one that was taken out: its number is that of before.
    gone: bool,
    /// The agent at work is stopped, and goes on with the words at once.
    now: bool,
    name: String,
    description: String,
    after: Vec<u32>,
    code: String,
}

/// An action as it is asked for.
struct Action {
    asked: RepeatableChange,
    body: Body,
}

impl<S: Send + Sync> FromRequest<S> for Action {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> ApiResult<Self> {
        let mut keys = request.headers().get_all(KEY).iter();
        let (key, more) = (keys.next().map(HeaderValue::as_bytes), keys.next());
        let fits = |key: &[u8]| (1..=LONGEST_KEY).contains(&key.len());
        if more.is_some() || !key.is_none_or(fits) {
            let error =
                format!("an action has one `Idempotency-Key`, of 1 to {LONGEST_KEY} letters");
            return Err(ApiError::bad_request(error));
        }
        let (key, mut content) = (key.map(sha256), request.uri().path().as_bytes().to_vec());
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|error| ApiError::new(error.status(), error.body_text()))?;
        content.extend_from_slice(&bytes);
        let body = serde_json::from_slice::<Map<String, Value>>(&bytes)
            .and_then(|fields| serde_json::from_value::<Body>(fields.into()))
            .map_err(|error| ApiError::bad_request(format!("the body: {error}")))?;
        let asked = RepeatableChange {
            key,
            content: sha256(content),
            if_seq: body.if_seq,
        };
        Ok(Self { asked, body })
    }
}

/// Returns the routes that change something.
pub fn routes() -> Router<WebState> {
    Router::new()
        .route("/pair", post(pair))
        .route("/plans", post(create))
        .route("/questions/{question}/answer", post(answer))
        .route("/plans/{id}/restore", post(restore))
        .route("/plans/{id}/plan", post(edit))
        .route("/plans/{id}/pause", does("paused", pause))
        .route("/plans/{id}/resume", does(RESUMED, resume))
        .route("/plans/{id}/abort", does("aborted", abort))
        .route("/plans/{id}/approve", does(ANSWERED, approve))
        .route("/plans/{id}/tasks", does("added", add))
        .route("/plans/{id}/tasks/{n}/retry", does("tried again", retry))
        .route("/plans/{id}/tasks/{n}/skip", does("skipped", skip))
        .route("/plans/{id}/tasks/{n}/done", does("done", done))
        .route("/plans/{id}/tasks/{n}/note", does(SAID, note))
        .route("/plans/{id}/tasks/{n}/comments", does(COMMENTED, comment))
}

/// Answers an action that needs nothing but the plan; `why` says what it is in the log.
fn does(why: &'static str, act: Act) -> MethodRouter<WebState> {
    let answer = async move |state, Path(named): Path<HashMap<String, String>>, action| {
        let State(state): Web = state;
        let number = named.get("n");
        let task = number.map_or(Ok(TaskId::default()), |n| task_id(n))?;
        let act = move |draft: &mut Draft<'_>, body: &Body| act(draft, task, body);
        change(&state, &PlanId::new(&named["id"]), why, action, act).await
    };
    post(answer)
}

fn pause(draft: &mut Draft<'_>, _: TaskId, body: &Body) -> Result<String, Refusal> {
    steering::pause(draft, or(&body.note, WHERE))
}

fn resume(draft: &mut Draft<'_>, _: TaskId, _: &Body) -> Result<String, Refusal> {
    steering::go_on(draft)
}

/// A daemon takes the commands back; without one, the next that comes to the plan does.
fn abort(draft: &mut Draft<'_>, _: TaskId, body: &Body) -> Result<String, Refusal> {
    if body.confirm != draft.plan().id().as_str() {
        return Err(Refusal::Unconfirmed);
    }
    draft.abandon(or(&body.note, WHERE))?;
    let kept = "agents at work are asked to stop, their work stays";
    Ok(format!("plan {} has ended for good; {kept}", body.confirm))
}

fn approve(draft: &mut Draft<'_>, _: TaskId, body: &Body) -> Result<String, Refusal> {
    let plan = draft.plan();
    let mut open = plan.open_questions();
    let review = open.find(|open| open.about == HumanQuestionKind::Review);
    let review = review.ok_or_else(|| Refusal::PlanIs(plan.status().clone()))?;
    let id = review.id.clone();
    drop(open);
    steering::answer(draft, &id, AnswerChoice::Approve, &body.note, BY)
}

fn add(draft: &mut Draft<'_>, _: TaskId, body: &Body) -> Result<String, Refusal> {
    let after: Vec<TaskId> = body.after.iter().copied().map(TaskId).collect();
    let task = steering::task_of_words(&body.name, or(&body.description, &body.name), &after);
    steering::add(draft, task, None)
}

fn retry(draft: &mut Draft<'_>, id: TaskId, body: &Body) -> Result<String, Refusal> {
    let again = draft.plan().opens_again(id);
    match again.is_empty() || body.yes {
        true => steering::retry(draft, id, body.note.trim(), &again),
        false => Err(Refusal::OpensAgain(steering::opened_again(&again, id))),
    }
}

fn skip(draft: &mut Draft<'_>, id: TaskId, body: &Body) -> Result<String, Refusal> {
    steering::settle(draft, id, body.note.trim(), false)
}

fn done(draft: &mut Draft<'_>, id: TaskId, body: &Body) -> Result<String, Refusal> {
    steering::settle(draft, id, body.note.trim(), true)
}

fn note(draft: &mut Draft<'_>, id: TaskId, body: &Body) -> Result<String, Refusal> {
    steering::tell(draft, id, words(&body.note)?, body.now)
}

/// A comment on a line of a diff is a note for the next attempt.
fn comment(draft: &mut Draft<'_>, id: TaskId, body: &Body) -> Result<String, Refusal> {
    let path = words(&body.path)?.replace(char::is_control, " ");
    let text = words(&body.text)?;
    let was = if body.gone { " as it was before" } else { "" };
    let words = format!("{path}:{}{was}: {text}", body.line);
    steering::tell(draft, id, &words, false)
}

fn words(text: &str) -> Result<&str, Refusal> {
    match text.trim() {
        "" => Err(Refusal::NoWords),
        words => Ok(words),
    }
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    words(text).unwrap_or(otherwise)
}

/// Makes a plan of a goal, with the settings that are configured. The plan of a key has the id that follows from it, so a goal
/// that is sent again finds it.
async fn create(
    State(state): Web,
    Action { asked, body }: Action,
) -> ApiResult<(StatusCode, Json<Value>)> {
    let goal = words(&body.goal).map_err(StoreError::from)?;
    let goals = match &state.goals {
        Err(Problem { message, hint, .. }) => {
            return Err(ApiError::conflict(message).hint(hint.as_deref().unwrap_or_default()));
        }
        Ok(goals) => goals,
    };
    if state.config.run.isolation == Isolation::Worktree {
        let project = project_head(Folder::new(&goals.workspace), None).await;
        project.map_err(|error| ApiError::conflict(&error).hint(error.hint()))?;
    }
    let id = asked.key.as_deref().map_or_else(new_plan_id, id_of);
    let head = PlanHead {
        review: match body.review {
            true => ReviewPolicy::Wanted,
            false => ReviewPolicy::NotWanted,
        },
        ..goals.plan(id.clone(), goal)
    };
    let (first, said) = (asked.clone(), format!("plan {id} is made"));
    let make = move |draft: &mut Draft<'_>| {
        draft.once(first, |draft| {
            draft.created();
            Ok(said)
        })
    };
    let made = match state.store.create(head, BY, "made", make).await {
        Err(StoreError::PlanTaken(_)) => {
            let known = move |draft: &mut Draft<'_>| draft.once(asked, |_| Err(Refusal::KeyUsed));
            state.store.change(&id, BY, "made", known).await
        }
        made => made,
    }?;
    let made = json!({ "plan": id, "seq": made.seq, "said": made.said });
    Ok((StatusCode::CREATED, Json(made)))
}

/// Returns the id of the plan that is made under a key.
fn id_of(key: &str) -> PlanId {
    let hash = sha256(format!("plan {key}"));
    let number = u64::from_str_radix(&hash[..16], 16).unwrap_or_default();
    let letter = |place| (number / 26_u64.pow(place) % 26).to_le_bytes()[0] + b'a';
    let letters = (0..8).map(|place| char::from(letter(place)));
    PlanId::new(letters.collect::<String>())
}

/// Answers a question.
async fn answer(State(state): Web, Path(id): Path<QuestionId>, action: Action) -> Answer {
    let choice = AnswerChoice::parse(&action.body.choice);
    let choice = choice.ok_or_else(|| ApiError::bad_request("`choice` is no answer"))?;
    for listed in state.store.plans().await? {
        let (plan, asked) = (listed.head.id, id.clone());
        let has = move |plan: &Plan, _| plan.question(&asked).is_some();
        // Only a daemon asks. A damaged plan does not hide another one.
        let has = listed.head.owner == DAEMON
            && match state.store.read(&plan, has).await {
                Err(StoreError::Damaged { .. }) => false,
                has => has?,
            };
        if has {
            let act = move |draft: &mut Draft<'_>, body: &Body| {
                steering::answer(draft, &id, choice, &body.note, BY)
            };
            return change(&state, &plan, ANSWERED, action, act).await;
        }
    }
    Err(StoreError::from(Refusal::UnknownQuestion(id)).into())
}

/// Makes a plan what it was after an earlier change; a preview says what would change.
async fn restore(State(state): Web, Path(plan): Path<PlanId>, action: Action) -> Answer {
    let at = action.body.at.unwrap_or_default();
    let earlier = state.plan_at(&plan, at).await?;
    if action.body.preview {
        let now = state.clock.now();
        let preview = move |plan: &Plan, seq| {
            let changes = steering::preview_restore(plan, &earlier, at, now)?;
            Ok::<_, Refusal>(json!({ "seq": seq, "at": at, "preview": changes }))
        };
        let preview = state.store.read(&plan, preview).await?;
        return Ok(Json(preview.map_err(StoreError::from)?));
    }
    let act = move |draft: &mut Draft<'_>, _: &Body| {
        draft.restore(&earlier, at)?;
        let plan = draft.plan().id();
        Ok(format!("plan {plan} is as it was after change {at}"))
    };
    change(&state, &plan, RESTORED, action, act).await
}

/// Makes an edit of a plan's text, as a whole or not at all.
async fn edit(State(state): Web, Path(plan): Path<PlanId>, action: Action) -> Answer {
    let read = |plan: &Plan, seq| (plan.head().clone(), seq);
    let (head, seq) = state.store.read(&plan, read).await?;
    let seen = state.plan_at(&plan, action.body.at.unwrap_or(seq)).await?;
    let checks = state.config.checks.keys().map(String::as_str);
    let fits = |file: &_, workspace: &_| steering::mismatches(file, &checks, workspace);
    let given = PlanToEdit::new(&seen, None);
    let edited = steering::read_edit(&given, &action.body.text, &head, fits);
    let edited = edited.map_err(|problems| {
        let problems = Problem::join(&problems, "\n");
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, problems)
    })?;
    let why = steering::why_edited(&edited);
    let act = move |draft: &mut Draft<'_>, _: &Body| {
        if edited.is_empty() {
            return Ok("nothing was changed".to_owned());
        }
        let said = format!("plan {}: {}", draft.plan().id(), steering::summary(&edited));
        let refused = steering::edit(draft, edited)?.into_iter().next();
        refused.map_or(Ok(said), Err)
    };
    change(&state, &plan, &why, action, act).await
}

/// Gives the token to a device for a code, which changes no plan. What is wrong with a code is not said: it would help who guesses.
async fn pair(State(state): Web, Action { body, .. }: Action) -> Answer {
    let (file, now) = (state.token.clone(), std::time::SystemTime::now());
    let redeem = move || match file.pairing_code().redeem(&body.code, now)? {
        true => file.token().map(Some),
        false => Ok(None),
    };
    match blocking(redeem).await? {
        Ok(Some(token)) => return Ok(Json(json!({ "token": token }))),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "a code was not looked at"),
    }
    let message = "this code is not good: wrong, used, or older than five minutes";
    let hint = format!("`{} web --pair` makes another", state.program);
    Err(ApiError::new(StatusCode::FORBIDDEN, message).hint(hint))
}

/// Says how a person goes on whose action needs a plan without a daemon.
fn carried_out(error: LockError, program: &ProgramName) -> ApiError {
    match error {
        LockError::Volumes(_) => ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error),
        LockError::Held { .. } => ApiError::conflict(error),
        LockError::CarriedOut { .. } => ApiError::conflict(error).hint(format!(
            "`{program} stop` ends it, then press again; if this page ends with it, `{program} web` serves it"
        )),
    }
}

/// Carries an action out as one change of a plan that daemons carry out.
async fn change(
    state: &WebState,
    plan: &PlanId,
    why: &str,
    Action { asked, body }: Action,
    act: impl FnOnce(&mut Draft<'_>, &Body) -> Result<String, Refusal> + Send + 'static,
) -> Answer {
    let head = |plan: &Plan, _| plan.head().clone();
    let head = state.store.read(plan, head).await?;
    if head.owner != DAEMON {
        let by = head.carried_out_by();
        let error = format!("plan `{plan}` is carried out by {by}");
        return Err(ApiError::conflict(error));
    }
    let is_known = |made: &MadeChange| asked.key.as_ref() == Some(&made.key);
    // No answer lets a plan go on that has ended: it comes too late, and the refusal says so.
    let goes_on =
        why == RESTORED || head.status.settled() && ![ANSWERED, SAID, COMMENTED].contains(&why);
    let alone = goes_on && !head.made_changes.iter().any(is_known);
    // A daemon that is about to end would not notice that its plan goes on.
    let lock = match alone {
        true => {
            let (volumes, plan) = (state.volumes.clone(), plan.clone());
            let has_ended = head.status.settled();
            let lock = blocking(move || volumes.free_of_daemons(&plan, has_ended)).await?;
            Some(lock.map_err(|error| carried_out(error, &state.program))?)
        }
        false => None,
    };
    let (volumes, id) = (state.volumes.clone(), plan.clone());
    // While this process has the lock, it looks like a daemon.
    let daemon = blocking(move || volumes.running()).await?;
    let daemon = daemon.filter(|_| lock.is_none());
    // It takes another one up by itself only from the queue.
    let takes = |daemon: &DaemonInfo| daemon.carries_out(&id) || head.queue.is_some();
    let left = (goes_on || why == RESUMED)
        && !(daemon.as_ref().is_some_and(takes) || state.store.is_shared());
    let carried_out = daemon
        .as_ref()
        .is_some_and(|daemon| daemon.carries_out(&id));
    let way = state.program.goes_on(plan.as_str(), None);
    let act = move |draft: &mut Draft<'_>, body: &Body| {
        let said = act(draft, body)?;
        Ok(match left && !draft.plan().status().settled() {
            true => format!("{said}; no daemon carries it out yet: {way}"),
            false => said,
        })
    };
    let change = move |draft: &mut Draft<'_>| match draft.plan().head().archive_state {
        ArchiveState::Deleted => Err(Refusal::Deleted),
        _ => draft.once(asked, |draft| act(draft, &body)),
    };
    let made = state.store.change(plan, BY, why, change).await?;
    if !carried_out && state.store.elsewhere(&head).is_none() {
        let recalled = |plan: &Plan, _| plan.recalled_commands();
        let recalled = state.store.read(plan, recalled).await?;
        let volumes = state.volumes.clone();
        // An agent has seconds to end.
        tokio::spawn(async move {
            if let Err(error) = worker::take_back(&volumes, &recalled).await {
                tracing::warn!(%error, "an agent is not asked to stop");
            }
        });
    }
    drop(lock);
    Ok(Json(json!({ "seq": made.seq, "said": made.said })))
}
