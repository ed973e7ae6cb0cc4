//! The language model of a role. Every question is counted before it is asked, and its answer is kept before anybody acts on
//! it: after a crash it is read again, not asked again.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::sleep;

use crate::llm::questions::role::{self as questions, RoleContext};
use crate::llm::{Model, PromptError, Prompts, TypedQuestion};
use crate::plan::{AskId, ModelCost, ModelQuestionKind, PlanId, Refusal, TaskId};
use crate::store::StoreError;

use super::internal_plan::PlanKeeper;
use super::messages::RoleId;

/// The pauses after which an answer is tried to be kept again, doubled each time: about half a minute in all.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(16);

/// A language model with its prompts.
#[derive(Clone, Debug)]
pub struct RoleModel {
    pub model: Model,
    pub prompts: Arc<Prompts>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum RoleModelError {
    #[error("{0}")]
    NoAnswer(String),
    #[error(transparent)]
    Prompt(#[from] PromptError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A question that is put for one internal plan.
pub(super) struct PlanQuestion<'a> {
    pub(super) mind: &'a RoleModel,
    pub(super) keeper: &'a PlanKeeper,
    pub(super) plan: &'a PlanId,
    /// The plan whose budget holds, if there is one.
    pub(super) top: Option<&'a PlanId>,
}

impl PlanQuestion<'_> {
    /// Puts the `nth` question of its kind, counted from 0, or reads the answer that was given to it before.
    pub(super) async fn put<A>(
        &self,
        subject: ModelQuestionKind,
        nth: usize,
        question: &TypedQuestion<A>,
    ) -> Result<A, RoleModelError> {
        let (store, plan) = (self.keeper.store(), self.plan);
        let about = subject.clone();
        let known = store.read(plan, move |plan, _| {
            let answered =
                |ask: &&crate::plan::ModelQuestion| ask.subject == about && ask.error.is_none();
            let mut asks: Vec<_> = plan.asks().filter(answered).cloned().collect();
            asks.sort_by(|a, b| (a.asked, &a.id).cmp(&(b.asked, &b.id)));
            asks.into_iter().nth(nth).and_then(|ask| ask.answer)
        });
        if let Some(known) = known.await?
            && let Ok(value) = question.read(&known)
        {
            return Ok(value);
        }
        let model = match self.top {
            Some(top) => self.mind.model.at_most(self.allowed(top).await?),
            None => self.mind.model.clone(),
        };
        let ask = self.begin(subject).await?;
        let (spent, said) = match model.ask(question).await {
            Ok(answered) => (answered.spent, Ok((answered.value, answered.text))),
            Err(error) => {
                let text = format!("{error}. Hint: {}", error.hint());
                (error.spent, Err(text))
            }
        };
        let (value, text, lost) = match said {
            Ok((value, text)) => (Some(value), text, String::new()),
            Err(error) => (None, String::new(), error),
        };
        let said = match value.is_some() {
            true => Ok(text),
            false => Err(lost.clone()),
        };
        self.keep(&ask, spent, said).await?;
        if let Some(top) = self.top {
            self.count(top, spent).await;
        }
        value.ok_or(RoleModelError::NoAnswer(lost))
    }

    /// Counts the first call of a question on the plan whose budget holds, and returns how many are allowed with it.
    async fn allowed(&self, top: &PlanId) -> Result<u32, RoleModelError> {
        let (store, by) = (self.keeper.store(), self.keeper.by());
        let begun = store.change(top, by, "a role asks a model", |draft| {
            draft.begin_call_of_role()?;
            Ok(draft.plan().calls_left().saturating_add(1))
        });
        match begun.await {
            Err(StoreError::Refused(refusal @ Refusal::UsedUp(_))) => {
                Err(RoleModelError::NoAnswer(refusal.to_string()))
            }
            begun => Ok(begun?),
        }
    }

    /// Counts what a question took on the plan whose budget holds.
    async fn count(&self, top: &PlanId, spent: ModelCost) {
        let (store, by) = (self.keeper.store(), self.keeper.by());
        let counted = insist(|| {
            store.change(top, by, "what a role asked a model", move |draft| {
                draft.count_call_of_role(spent);
                Ok(())
            })
        });
        if let Err(error) = counted.await {
            tracing::warn!(plan = %top, %error, "what a question took is not counted");
        }
    }

    /// Keeps what a question came to.
    async fn keep(
        &self,
        ask: &AskId,
        spent: ModelCost,
        said: Result<String, String>,
    ) -> Result<(), StoreError> {
        let kept = insist(|| {
            let (ask, said) = (ask.clone(), said.clone());
            let why = "what the model said";
            self.keeper.change(self.plan, why, move |draft| {
                draft.count_ask(&ask, spent)?;
                match &said {
                    Ok(text) => draft.answered_ask(&ask, text),
                    Err(lost) => draft.lost_ask(&ask, lost),
                }
            })
        });
        kept.await.map(drop)
    }

    async fn begin(&self, subject: ModelQuestionKind) -> Result<AskId, StoreError> {
        let by = self.keeper.by();
        let begun = self
            .keeper
            .store()
            .change(self.plan, by, "a model is asked", {
                move |draft| draft.begin_ask(&subject)
            });
        begun.await
    }
}

/// Makes a change again after faults of the store that pass: what was paid for is not lost by them.
async fn insist<T, F: Future<Output = Result<T, StoreError>>>(
    change: impl Fn() -> F,
) -> Result<T, StoreError> {
    let mut pause = FIRST_PAUSE;
    loop {
        match change().await {
            Err(StoreError::Database(error)) if pause <= LAST_PAUSE => {
                tracing::warn!(error, "what a model said is kept later");
                sleep(pause).await;
                pause *= 2;
            }
            done => return done,
        }
    }
}

/// What an action or a tool knows of the step that it is called for.
pub struct StepContext<'a> {
    /// The role that calls it.
    pub role: &'a RoleId,
    /// What the role is told of itself.
    pub prompt: &'a str,
    /// The task that the step is for.
    pub description: &'a str,
    /// What is good to know for the task.
    pub context: &'a str,
    pub(super) asking: Option<PlanQuestion<'a>>,
    pub(super) plan: &'a PlanId,
    pub(super) step: TaskId,
    pub(super) asked: AtomicUsize,
    /// Why the store did not keep an answer, or could not be read.
    pub(super) fault: OnceLock<StoreError>,
}

impl fmt::Debug for StepContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Situation")
            .field("role", &self.role)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl StepContext<'_> {
    /// Has the role's language model do what is wanted; the whole task if that is empty. The same call of the same step gets
    /// the answer that it got before a crash.
    ///
    /// # Errors
    /// The role has no model, or the model gave no usable answer.
    pub async fn ask(&self, wanted: &str) -> Result<String, String> {
        let Some(asking) = &self.asking else {
            return Err(NO_MODEL.to_owned());
        };
        let context = RoleContext {
            role: self.role.as_str(),
            prompt: self.prompt,
            description: self.description,
            context: self.context,
            question: wanted,
            ..RoleContext::default()
        };
        let question = questions::ask(&asking.mind.prompts, &context);
        let question = question.map_err(|error| error.to_string())?;
        let nth = self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = asking
            .put(ModelQuestionKind::Step(self.step), nth, &question)
            .await;
        answer.map_err(|error| {
            let reason = error.to_string();
            match error {
                // What the plan refuses is its answer.
                RoleModelError::Store(StoreError::Refused(_)) => {}
                RoleModelError::Store(fault) => drop(self.fault.set(fault)),
                RoleModelError::NoAnswer(_) | RoleModelError::Prompt(_) => {}
            }
            reason
        })
    }
}

pub(super) const NO_MODEL: &str = "the role has no language model";
