//! The language model of a role. Every question is counted before it is asked, and its answer is persisted before the role acts on
//! it: after a crash it is read again, not asked again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use tokio::time::sleep;

use crate::llm::questions::role_steps::{self as questions, RoleContext};
use crate::llm::{BoxFuture, Model, Prompts, TypedQuestion};
use crate::plan::{
    AskId, Draft, ModelAway, ModelCost, ModelQuestion, ModelQuestionKind, Plan, PlanId, Refusal,
    TaskId,
};
use crate::store::{Result, StoreError};

use super::{PlanKeeper, RoleError};

/// The pauses after which an answer is tried to be kept again, doubled each time: about half a minute in all.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const PAUSES: usize = 8;
/// The most characters of what a step wants of the model: `prompts/ask.md` shows as many.
const WANTED: usize = 40_000;

/// A language model with its prompts.
#[derive(Clone, Debug)]
pub struct RoleModel {
    pub model: Model,
    pub prompts: Arc<Prompts>,
    /// A model that is away is asked again after this, and then after longer waits, as the daemon does it.
    pub away: Duration,
}

/// A question that is put for one internal plan.
#[derive(Debug)]
pub(super) struct PlanQuestion<'a> {
    pub(super) model: &'a RoleModel,
    pub(super) keeper: &'a PlanKeeper,
    pub(super) plan: &'a PlanId,
    /// The plan whose budget holds, if there is one.
    pub(super) top: Option<&'a PlanId>,
}

impl PlanQuestion<'_> {
    /// Puts the `nth` question of its kind, counted from 0, or reads the answer that was given to it before. A model that is
    /// away is asked again until it answers.
    ///
    /// # Errors
    /// The store failed, or [`RoleError::CannotPlan`] with the reason for which there is no answer.
    pub(super) async fn put<A>(
        &self,
        subject: ModelQuestionKind,
        nth: usize,
        question: &TypedQuestion<A>,
    ) -> Result<A, RoleError> {
        if let Some(known) = self.known(subject.clone(), nth).await?
            && let Ok(value) = question.read(&known)
        {
            return Ok(value);
        }
        let mut model = self.model.model.clone();
        let mut said = String::new();
        loop {
            if let Some(top) = self.top {
                model = model.at_most(self.allowed(top).await?);
            }
            let ask = self.begin(subject.clone()).await?;
            let taken = |spent| Box::pin(self.taken(&ask, spent)) as BoxFuture<'_, _>;
            let error = match model.ask(question, &taken).await {
                Ok(answered) => {
                    let (spent, text) = (answered.spent, answered.text);
                    let keep =
                        move |draft: &mut Draft<'_>, ask: &AskId| draft.answered_ask(ask, &text);
                    self.keep(&ask, spent, keep).await?;
                    self.count(spent, None).await;
                    return Ok(answered.value);
                }
                Err(error) => error,
            };
            let lost = error.told();
            let why = lost.clone();
            let Some(wait) = error.away() else {
                let keep = move |draft: &mut Draft<'_>, ask: &AskId| draft.lost_ask(ask, &why);
                self.keep(&ask, error.spent, keep).await?;
                self.count(error.spent, None).await;
                return Err(RoleError::CannotPlan(lost));
            };
            let keep = move |draft: &mut Draft<'_>, ask: &AskId| draft.away_ask(ask, &why, wait);
            let away = self.keep(&ask, error.spent, keep).await?;
            // That it is still away is no news.
            let news = (said != lost).then(|| (subject.clone(), lost.clone()));
            self.count(error.spent, news).await;
            said = lost;
            model = model.without_retries();
            sleep(away.map_or(wait, |away| away.until_next(self.model.away))).await;
        }
    }

    /// Returns the answer that was given to a question before.
    async fn known(&self, subject: ModelQuestionKind, nth: usize) -> Result<Option<String>> {
        let known = self.keeper.store.read(self.plan, move |plan, _| {
            let answered = |ask: &&ModelQuestion| {
                ask.subject == subject && (ask.error.is_none() || ask.answer.is_some())
            };
            let mut asks: Vec<_> = plan.asks().filter(answered).collect();
            asks.sort_by_key(|ask| (ask.asked, &ask.id));
            asks.get(nth).and_then(|ask| ask.answer.clone())
        });
        known.await
    }

    /// Counts the first call of a question on the plan whose budget holds, and returns how many are allowed with it.
    async fn allowed(&self, top: &PlanId) -> Result<u32, RoleError> {
        let PlanKeeper { store, by, .. } = self.keeper;
        let begun = store.begin_call(top, [by, "a role asks a model"], |draft, left_of_day| {
            draft.begin_call_of_role()?;
            Ok((draft.plan().calls_left().min(left_of_day)).saturating_add(1))
        });
        match begun.await {
            Err(StoreError::Refused(refusal @ Refusal::UsedUp(_))) => {
                Err(RoleError::CannotPlan(refusal.to_string()))
            }
            begun => Ok(begun?),
        }
    }

    /// Counts what a question took on the plan whose budget holds, and logs there why it got no answer.
    async fn count(&self, spent: ModelCost, failed: Option<(ModelQuestionKind, String)>) {
        let Some(top) = self.top else {
            return;
        };
        let PlanKeeper { store, by, .. } = self.keeper;
        let counted = retry(|| {
            let failed = failed.clone();
            store.change(top, by, "what a role asked a model", move |draft| {
                draft.count_call_of_role(spent);
                if let Some((subject, error)) = failed {
                    let error = format!("it is away and is asked again until it answers: {error}");
                    draft.log_model_failure(subject, &error);
                }
                Ok(())
            })
        });
        if let Err(error) = counted.await {
            tracing::warn!(plan = %top, %error, "what a question took is not counted");
        }
    }

    /// Counts what a question has taken while it goes on, with the call that follows.
    async fn taken(&self, ask: &AskId, spent: ModelCost) {
        let calls = spent.calls + 1;
        let spent = ModelCost { calls, ..spent };
        if let Err(error) = self.keep(ask, spent, |_, _| Ok(())).await {
            tracing::warn!(%error, "what a question has taken is not counted");
        }
        self.count(spent, None).await;
    }

    /// Keeps what a question came to. Returns how often the model was away.
    async fn keep(
        &self,
        ask: &AskId,
        spent: ModelCost,
        outcome: impl Fn(&mut Draft<'_>, &AskId) -> Result<(), Refusal> + Clone + Send + 'static,
    ) -> Result<Option<ModelAway>> {
        let kept = retry(|| {
            let (ask, outcome) = (ask.clone(), outcome.clone());
            let why = "what the model said";
            self.keeper.change(self.plan, why, move |draft| {
                draft.count_ask(&ask, spent)?;
                outcome(draft, &ask)
            })
        });
        kept.await?;
        let id = ask.clone();
        let away = move |plan: &Plan, _| plan.ask(&id).and_then(|ask| ask.away);
        self.keeper.store.read(self.plan, away).await
    }

    async fn begin(&self, subject: ModelQuestionKind) -> Result<AskId> {
        let PlanKeeper { store, by, .. } = self.keeper;
        let begin = move |draft: &mut Draft<'_>| draft.begin_ask(&subject);
        store.change(self.plan, by, "a model is asked", begin).await
    }
}

/// Retries a change after faults of the store that pass: what was paid for is not lost by them.
async fn retry<T, F: Future<Output = Result<T>>>(change: impl Fn() -> F) -> Result<T> {
    let pauses = ExponentialBuilder::new().with_min_delay(FIRST_PAUSE);
    (change.retry(pauses.with_max_times(PAUSES)))
        .when(|error| matches!(error, StoreError::Database(_)))
        .notify(|error, _| tracing::warn!(%error, "what a model said is kept later"))
        .await
}

/// What an action or a tool knows of the step that it is called for.
#[derive(Debug)]
pub struct StepContext<'a> {
    /// The role that calls it, and the task that the step is for.
    pub task: RoleContext<'a>,
    pub(super) asking: Option<PlanQuestion<'a>>,
    pub(super) plan: &'a PlanId,
    pub(super) step: TaskId,
    pub(super) asked: AtomicUsize,
    /// What failed around the role: this says nothing about the step.
    pub(super) fault: OnceLock<RoleError>,
}

impl StepContext<'_> {
    /// Returns what names the step, and no other one, also after a crash.
    pub(super) fn key(&self) -> String {
        format!("{}/{}", self.plan, self.step)
    }

    /// Has the role's language model do what is wanted; the whole task if that is empty. The same call of the same step gets
    /// the answer that it got before a crash.
    ///
    /// # Errors
    /// The role has no model, what is wanted is too long, or the model gave no usable answer.
    pub async fn ask(&self, wanted: &str) -> Result<String, String> {
        let Some(asking) = &self.asking else {
            return Err(NO_MODEL.to_owned());
        };
        let characters = wanted.chars().count();
        if characters > WANTED {
            return Err(format!(
                "what is wanted has {characters} characters, and the model is shown at most {WANTED}"
            ));
        }
        let mut context = self.task;
        context.question = wanted;
        let question = questions::ask(&context).render(&asking.model.prompts);
        let question = question.map_err(|error| error.to_string())?;
        let nth = self.asked.fetch_add(1, Ordering::Relaxed);
        let kind = ModelQuestionKind::Step(self.step);
        asking.put(kind, nth, &question).await.map_err(|error| {
            let reason = error.to_string();
            match error {
                // A refusal of the plan is an answer.
                RoleError::Store(StoreError::Refused(_)) => {}
                RoleError::Store(fault) => drop(self.fails_by(fault.into())),
                RoleError::CannotPlan(_) | RoleError::Framework(_) => {}
            }
            reason
        })
    }

    /// Notes what failed around the role, and returns it as a text.
    pub(super) fn fails_by(&self, error: RoleError) -> String {
        let text = error.to_string();
        drop(self.fault.set(error));
        text
    }
}

pub(super) const NO_MODEL: &str = "the role has no language model";
