//! What a person does to a plan as a whole, to its questions, and the plan of a new goal.

use std::path::Path as Folder;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::tasks::{Note, or, words};
use super::{Action, Answer, BY, act, daemons_plan, done, free_of_daemons, hash, plan_of, undone};
use crate::config::Isolation;
use crate::exec::project_head;
use crate::plan::{
    AnswerChoice, ChangeEnd, DAEMON, Draft, HumanQuestionKind, Origin, Plan, PlanHead, PlanId,
    QuestionId, Refusal, RepeatableChange, ReviewPolicy, Time,
};
use crate::steering::{self, GoesOn};
use crate::store::StoreError;
use crate::tools::new_plan_id;
use crate::web::api_error::{ApiError, ApiResult};
use crate::web::state::WebState;
use crate::wire::plan_file::PlanToEdit;

const WHERE: &str = "on the page";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewGoal {
    goal: String,
    #[serde(default)]
    review: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answered {
    choice: String,
    #[serde(default)]
    note: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Abort {
    /// The id of the plan, typed by the person.
    confirm: String,
    note: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Restore {
    at: i64,
    #[serde(default)]
    preview: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    text: String,
    /// The change after which the person saw the text; without it, the last one.
    at: Option<i64>,
}

/// Makes a plan of a goal, with the settings that are configured. The plan of a key has the id that follows from it, so a goal
/// that is sent again finds it.
pub(super) async fn create(
    State(state): State<WebState>,
    Action { asked, body }: Action<NewGoal>,
) -> ApiResult<(StatusCode, Json<Value>)> {
    let goal = words(&body.goal, "goal")?;
    let id = asked.key.as_deref().map_or_else(new_plan_id, id_of);
    let mut head = new_head(&state, id.clone(), &goal).await?;
    if body.review {
        head.review = ReviewPolicy::Wanted;
    }
    let (first, new) = (asked.clone(), id.clone());
    let make = move |draft: &mut Draft<'_>| {
        draft.once(first, |draft| {
            draft.created();
            queue(draft);
            Ok(format!("plan {new} is made"))
        })
    };
    let end = match state.store.create(head, BY, "made", make).await {
        Err(StoreError::PlanTaken(_)) => made_before(&state, &id, asked).await?,
        made => made.map_err(undone)?,
    };
    let (seq, said) = done(end)?;
    let made = json!({ "plan": id, "seq": seq, "said": said });
    Ok((StatusCode::CREATED, Json(made)))
}

/// Lets a daemon of the folder take a new plan up. Until plans have a place in a queue, `resume` carries it out.
fn queue(_draft: &mut Draft<'_>) {}

/// Returns the head of a goal's plan.
async fn new_head(state: &WebState, id: PlanId, goal: &str) -> ApiResult<PlanHead> {
    let workspace = match &state.goals {
        Ok(workspace) => workspace.clone(),
        Err([error, hint]) => return Err(ApiError::conflict(error).hint(hint)),
    };
    let run = &state.config.run;
    if run.isolation == Isolation::Worktree {
        let project = project_head(Folder::new(&workspace), None).await;
        project.map_err(|error| ApiError::conflict(&error).hint(error.hint()))?;
    }
    Ok(PlanHead {
        origin: Origin::Model,
        language: Some(run.language.of(goal)),
        workspace,
        ..PlanHead::new(id, goal, Time::default())
    })
}

/// Returns what came of the same goal before.
async fn made_before(
    state: &WebState,
    id: &PlanId,
    asked: RepeatableChange,
) -> ApiResult<ChangeEnd> {
    let made = move |draft: &mut Draft<'_>| draft.once(asked, |_| Err(Refusal::Dropped));
    match state.store.change(id, BY, "made", made).await {
        // It knows so many others that this one is forgotten.
        Err(StoreError::Refused(Refusal::Dropped)) => Ok(ChangeEnd::KeyTaken),
        made => Ok(made?),
    }
}

/// Returns the id of the plan that is made under a key.
fn id_of(key: &str) -> PlanId {
    let letters = hash(format!("plan {key}").as_bytes());
    let letters = letters.bytes().zip(letters.bytes().skip(16));
    let letters = letters.map(|(one, two)| {
        let number = u32::from(one) * 31 + u32::from(two);
        char::from(b'a' + u8::try_from(number % 26).unwrap_or_default())
    });
    PlanId::new(letters.take(8).collect::<String>())
}

/// Answers a question.
pub(super) async fn answer(
    State(state): State<WebState>,
    Path(question): Path<String>,
    Action { asked, body }: Action<Answered>,
) -> Answer {
    let id = QuestionId::new(question);
    let choice = AnswerChoice::parse(&body.choice);
    let choice = choice.ok_or_else(|| ApiError::bad_request("`choice` is no answer"))?;
    let plan = plan_that_asked(&state, &id).await?;
    let answer =
        move |draft: &mut Draft<'_>| Ok(steering::answer(draft, &id, choice, &body.note, BY)?);
    act(&state, &plan, "answered", asked, answer).await
}

/// Returns the plan of a question.
async fn plan_that_asked(state: &WebState, id: &QuestionId) -> ApiResult<PlanId> {
    for listed in state.store.plans().await? {
        // Only a daemon asks.
        if listed.head.owner == DAEMON {
            let (plan, id) = (listed.head.id, id.clone());
            let has = move |plan: &Plan, _| plan.question(&id).is_some();
            if state.store.read(&plan, has).await? {
                return daemons_plan(state, plan.to_string()).await;
            }
        }
    }
    Err(ApiError::not_found(Refusal::UnknownQuestion(id.clone())))
}

/// Lets nothing new start in a plan.
pub(super) async fn pause(
    State(state): State<WebState>,
    Path(plan): Path<String>,
    Action { asked, body }: Action<Note>,
) -> Answer {
    let plan = daemons_plan(&state, plan).await?;
    let (id, reason) = (plan.clone(), or(body.note.trim(), WHERE));
    act(&state, &plan, "paused", asked, move |draft| {
        Ok(match steering::pause(draft, &reason)? {
            true => format!("plan {id} is paused already"),
            false => format!("plan {id} is paused; what is under way goes on"),
        })
    })
    .await
}

/// Lets a paused plan go on.
pub(super) async fn resume(
    State(state): State<WebState>,
    Path(plan): Path<String>,
    Action { asked, body }: Action<Note>,
) -> Answer {
    let plan = daemons_plan(&state, plan).await?;
    let (id, why) = (plan.clone(), or(body.note.trim(), "resumed"));
    act(
        &state,
        &plan,
        &why,
        asked,
        move |draft| match steering::go_on(draft)? {
            GoesOn::Yes => Ok(format!("plan {id} goes on")),
            GoesOn::NotPaused => Err(Refusal::PlanIs(draft.plan().status().clone()).into()),
            GoesOn::Stopped(why) => {
                let error = ApiError::conflict(format!("plan `{id}` is paused: {why}"));
                Err(error
                    .hint("the answer `more` to its question goes on")
                    .into())
            }
        },
    )
    .await
}

/// Ends a plan for good. A daemon takes its commands back; without one, the next that comes to the plan does.
pub(super) async fn abort(
    State(state): State<WebState>,
    Path(plan): Path<String>,
    Action { asked, body }: Action<Abort>,
) -> Answer {
    let plan = daemons_plan(&state, plan).await?;
    if body.confirm != plan.as_str() {
        let error = ApiError::bad_request("an end for good is confirmed with the plan's id");
        return Err(error.hint(format!("`\"confirm\": \"{plan}\"`")));
    }
    let (id, reason) = (plan.clone(), or(body.note.trim(), WHERE));
    act(&state, &plan, "aborted", asked, move |draft| {
        draft.abandon(&reason)?;
        let kept = "agents at work are asked to stop, their work stays";
        Ok(format!("plan {id} has ended for good; {kept}"))
    })
    .await
}

/// Approves a plan that is under review.
pub(super) async fn approve(
    State(state): State<WebState>,
    Path(plan): Path<String>,
    Action { asked, body }: Action<Note>,
) -> Answer {
    let plan = daemons_plan(&state, plan).await?;
    act(&state, &plan, "answered", asked, move |draft| {
        let review = {
            let mut open = draft.plan().open_questions();
            let review = open.find(|open| open.about == HumanQuestionKind::Review);
            review.map(|review| review.id.clone())
        };
        let id = review.ok_or_else(|| ApiError::conflict("the plan is not under review"))?;
        Ok(steering::answer(
            draft,
            &id,
            AnswerChoice::Approve,
            &body.note,
            BY,
        )?)
    })
    .await
}

/// Makes a plan what it was after an earlier change; a preview says what would change.
pub(super) async fn restore(
    State(state): State<WebState>,
    Path(plan): Path<String>,
    Action { asked, body }: Action<Restore>,
) -> Answer {
    let plan = plan_of(&state, plan).await?;
    let at = body.at;
    let earlier = as_it_was(&state, &plan, at).await?;
    if body.preview {
        let now = state.clock.now();
        let preview = move |plan: &Plan, seq| {
            let changes = steering::preview_restore(plan, &earlier, at, now)?;
            Ok(json!({ "seq": seq, "at": at, "preview": changes }))
        };
        let preview = state.store.read(&plan, preview).await?;
        return preview
            .map(Json)
            .map_err(|refusal: Refusal| undone(refusal.into()));
    }
    let lock = free_of_daemons(&state, &plan).await?;
    let (id, why) = (plan.clone(), format!("restored to change {at}"));
    let answer = act(&state, &plan, &why, asked, move |draft| {
        draft.restore(&earlier, at)?;
        Ok(format!("plan {id} is as it was after change {at}"))
    });
    let answer = answer.await;
    drop(lock);
    answer
}

/// Returns the text of a plan as a person edits it.
pub(super) async fn text(State(state): State<WebState>, Path(plan): Path<String>) -> Answer {
    let plan = daemons_plan(&state, plan).await?;
    let read = |plan: &Plan, seq| json!({ "text": PlanToEdit::new(plan, None).text, "seq": seq });
    Ok(Json(state.store.read(&plan, read).await?))
}

/// Makes an edit of a plan's text, as a whole or not at all.
pub(super) async fn edit(
    State(state): State<WebState>,
    Path(plan): Path<String>,
    Action { asked, body }: Action<Edit>,
) -> Answer {
    let plan = daemons_plan(&state, plan).await?;
    let seen = match body.at {
        Some(at) => as_it_was(&state, &plan, at).await?,
        None => state.store.read(&plan, |plan, _| plan.clone()).await?,
    };
    let head = state
        .store
        .read(&plan, |plan, _| plan.head().clone())
        .await?;
    if seen.counts().total() == 0 || head.status.settled() {
        let refusal = match seen.counts().total() {
            0 => Refusal::Unplanned,
            _ => Refusal::PlanIs(head.status),
        };
        return Err(ApiError::conflict(refusal));
    }
    let checks = state.config.checks.keys().map(String::as_str);
    let fits = |file: &_, workspace: &_| steering::mismatches(file, &checks, workspace);
    let given = PlanToEdit::new(&seen, None);
    let edited = steering::read_edit(&given, &body.text, &head, fits);
    let edited = edited.map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, problems.join("\n"))
    })?;
    let id = plan.clone();
    act(&state, &plan, "edited", asked, move |draft| {
        if edited.is_empty() {
            return Ok("nothing was changed".to_owned());
        }
        let said = format!("plan {id}: {}", steering::summary(&edited));
        match steering::edit(draft, edited)?.into_iter().next() {
            Some(refusal) => Err(refusal.into()),
            None => Ok(said),
        }
    })
    .await
}

/// Returns a plan as it was after one of its changes.
async fn as_it_was(state: &WebState, plan: &PlanId, at: i64) -> ApiResult<Plan> {
    match state.store.at(plan, at).await {
        Err(StoreError::UnknownPlan(_)) => {
            let error = format!("plan `{plan}` has no change `{at}`");
            Err(ApiError::not_found(error))
        }
        earlier => Ok(earlier?),
    }
}
