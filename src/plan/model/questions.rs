//! Questions to a human and to a language model.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{AskId, BudgetLimit, CommandId, QuestionId, TaskId, Time, words};

words! {
    /// The choices of a human.
    pub enum AnswerChoice {
        /// Go ahead with the plan as shown.
        Approve = "approve",
        /// Accept the result as it is.
        Accept = "accept",
        /// Try once more; the note is added.
        Retry = "retry",
        /// The failing checks that a model chose do not count; the result is judged again.
        DropCheck = "drop-check",
        /// Skip the task.
        Skip = "skip",
        /// Change the rest of the plan; the note says how.
        Replan = "replan",
        /// Keep waiting.
        Wait = "wait",
        /// The note answers the agent's question.
        Reply = "reply",
        /// Allow as much again as the budget did.
        More = "more",
        /// The next attempt may run what was refused to this one.
        AllowOnce = "allow-once",
        /// Every agent of the plan may run what was refused.
        AllowAlways = "allow-always",
        /// What was refused stays refused.
        Deny = "deny",
        /// End the plan.
        Abort = "abort",
    }
}

impl AnswerChoice {
    /// Returns the choice for a word, in upper or lower case.
    pub fn parse(word: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|choice| choice.as_str().eq_ignore_ascii_case(word.trim()))
    }
}

/// What a question to a human is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HumanQuestionKind {
    /// The plan must be approved before it starts.
    #[default]
    Review,
    /// A task failed as often as the policy allows.
    Failures,
    /// No worker claims the command.
    Unclaimed,
    /// The judge wants to end the plan.
    Abort,
    /// Nothing of a result is proven, and the judge is not sure.
    Unsure,
    /// The plan was changed as often as the policy allows.
    Replans,
    /// The agent asks.
    Agent,
    /// The language model gave no usable answer.
    Model,
    /// Nothing more can start.
    Stuck,
    /// A person or another program has moved the results' branch, or has it checked out.
    Branch,
    /// A limit of the budget is reached.
    Budget(BudgetLimit),
    /// A limit of the day's budget is reached.
    DayBudget(BudgetLimit),
}

/// A question to a human. It is open until it has an answer or is closed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HumanQuestion {
    pub id: QuestionId,
    pub about: HumanQuestionKind,
    pub task: Option<TaskId>,
    /// The request on which the asking role works: the answer goes back to that role, and the attempt at the task goes on.
    pub request: Option<CommandId>,
    /// The model question that failed, for [`HumanQuestionKind::Model`].
    pub ask: Option<AskId>,
    /// What happened and what is asked.
    pub reason: String,
    pub choices: Vec<AnswerChoice>,
    /// The commands, word for word, that a person may allow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// The most attempts that `retry` gives a task; 0 if it gives none.
    #[serde(default)]
    pub attempts: u32,
    pub asked: Time,
    pub answer: Option<HumanAnswer>,
    /// Why it no longer needs an answer.
    pub closed: Option<String>,
}

impl HumanQuestion {
    /// Returns whether an answer is still awaited.
    pub fn open(&self) -> bool {
        self.answer.is_none() && self.closed.is_none()
    }

    /// Returns whether a choice gives a right or a budget, drops a check, or is a consent that ends the plan. Agents can write
    /// files, so that no file of a question gives any of these.
    pub fn is_grant(&self, choice: AnswerChoice) -> bool {
        use AnswerChoice::{Abort, AllowAlways, AllowOnce, Approve, DropCheck, More};
        match choice {
            Approve | DropCheck | More | AllowOnce | AllowAlways => true,
            Abort => self.about == HumanQuestionKind::Abort,
            _ => false,
        }
    }
}

/// Who answers in the file of a question.
pub const IN_FILE: &str = "file";

/// A human's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HumanAnswer {
    pub choice: AnswerChoice,
    pub note: String,
    /// Where it came from: `terminal`, `command line`, `file`.
    pub by: String,
    pub at: Time,
}

/// What a language model is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelQuestionKind {
    #[default]
    Plan,
    Judge(CommandId),
    Replan,
    Audit,
    Summary,
    /// How a role plans its task.
    Strategy,
    /// A question of a step in a role's own plan.
    Step(TaskId),
}

/// A model that cannot be asked for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelAway {
    /// How often it was away in a row.
    pub times: u32,
    /// When it was last away.
    pub at: Time,
    /// How long it asked to wait from then.
    pub wait: Duration,
}

/// The longest wait before a model that is away is asked again, as a multiple of the first: five minutes.
const LONGEST_AWAY: u32 = 20;

impl ModelAway {
    /// Returns the wait before it is asked again; the first one is given, each further one is twice as long.
    pub fn until_next(&self, first: Duration) -> Duration {
        let doubled = first.saturating_mul(2u32.saturating_pow(self.times.saturating_sub(1)));
        doubled.min(first * LONGEST_AWAY).max(self.wait)
    }
}

/// One question to a language model. Its answer and its effect are committed in the same change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelQuestion {
    pub id: AskId,
    pub subject: ModelQuestionKind,
    pub asked: Time,
    /// Calls begun for it; each is counted before it is made.
    pub calls: u32,
    /// Why it failed; stays set until a human wants the question asked again, or it has its answer.
    pub error: Option<String>,
    /// Set if it failed because the model is away: then it is asked again without a human.
    pub away: Option<ModelAway>,
    /// The answer as it came, once it has taken effect.
    pub answer: Option<String>,
    pub answered: Option<Time>,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// In US dollars, where the model reports its costs.
    #[serde(default)]
    pub cost_usd: f64,
}
