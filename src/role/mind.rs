//! The language model of a role. Every question is counted before it is asked, and its answer is kept before anybody acts on
//! it: after a crash it is read again, not asked again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::llm::questions::role::{self as questions, RoleContext};
use crate::llm::{Model, PromptError, Prompts, Question};
use crate::plan::{AskId, PlanId, Subject, TaskId};
use crate::store::StoreError;

use super::message::RoleId;
use super::plan::Keeper;

/// A language model with its prompts.
#[derive(Clone, Debug)]
pub struct Mind {
    pub model: Model,
    pub prompts: Arc<Prompts>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum MindError {
    #[error("{0}")]
    NoAnswer(String),
    #[error(transparent)]
    Prompt(#[from] PromptError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A question that is put for one internal plan.
pub(super) struct Asking<'a> {
    pub(super) mind: &'a Mind,
    pub(super) keeper: &'a Keeper,
    pub(super) plan: &'a PlanId,
}

impl Asking<'_> {
    /// Puts the `nth` question of its kind, counted from 0, or reads the answer that was given to it before.
    pub(super) async fn put<A>(
        &self,
        subject: Subject,
        nth: usize,
        question: &Question<A>,
    ) -> Result<A, MindError> {
        let (store, plan) = (self.keeper.store(), self.plan);
        let about = subject.clone();
        let known = store.read(plan, move |plan, _| {
            let answered = |ask: &&crate::plan::Ask| ask.subject == about && ask.error.is_none();
            let mut asks: Vec<_> = plan.asks().filter(answered).cloned().collect();
            asks.sort_by(|a, b| (a.asked, &a.id).cmp(&(b.asked, &b.id)));
            asks.into_iter().nth(nth).and_then(|ask| ask.answer)
        });
        if let Some(known) = known.await?
            && let Ok(value) = question.read(&known)
        {
            return Ok(value);
        }
        let ask = self.begin(subject).await?;
        let (spent, said) = match self.mind.model.ask(question).await {
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
        let (given, why) = (value.is_some(), "what the model said");
        let error = lost.clone();
        self.keeper
            .change(plan, why, move |draft| {
                draft.count_ask(&ask, spent)?;
                if given {
                    draft.answered_ask(&ask, &text)
                } else {
                    draft.lost_ask(&ask, &error)
                }
            })
            .await?;
        value.ok_or(MindError::NoAnswer(lost))
    }

    async fn begin(&self, subject: Subject) -> Result<AskId, StoreError> {
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

/// What an action or a tool knows of the step that it is called for.
pub struct Situation<'a> {
    /// The role that calls it.
    pub role: &'a RoleId,
    /// What the role is told of itself.
    pub prompt: &'a str,
    /// The task that the step is for.
    pub description: &'a str,
    /// What is good to know for the task.
    pub context: &'a str,
    pub(super) asking: Option<Asking<'a>>,
    pub(super) step: TaskId,
    pub(super) asked: AtomicUsize,
}

impl fmt::Debug for Situation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Situation")
            .field("role", &self.role)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl Situation<'_> {
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
        let answer = asking.put(Subject::Step(self.step), nth, &question).await;
        answer.map_err(|error| error.to_string())
    }
}

pub(super) const NO_MODEL: &str = "the role has no language model";
