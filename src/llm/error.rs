//! What can go wrong between a question and its answer, and what a person can do about it. No text in this module holds a
//! secret: the code that makes an error has removed the key from the words of the server.

use std::time::Duration;

use thiserror::Error;

use crate::plan::ModelCost;
use crate::wire::one_line;

/// Characters of the own words of a server or an agent that are passed on.
const MAX_MESSAGE: usize = 300;

/// An exchange that brought no usable answer.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{asked} {fault}")]
pub struct LlmError {
    /// The model or the coding agent that was asked, with the address without query if that may be at fault.
    pub asked: String,
    /// What happened.
    pub fault: Fault,
    /// What was used although there was no answer.
    pub spent: ModelCost,
}

/// What an exchange comes to.
pub(super) type Result<T, E = LlmError> = std::result::Result<T, E>;

/// What happened in an exchange; completes a sentence about the model.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Fault {
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    #[error("gave no answer, or no more of it, for {0:?}")]
    TimedOut(Duration),
    #[error("is not available now: status {status}: {message}")]
    Unavailable {
        status: u16,
        message: String,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    #[error("sent only part of its answer: {0}")]
    CutBody(String),
    #[error("answered with something that is not JSON: {0}")]
    NotJson(String),
    #[error("answered with JSON that is no answer: {0}")]
    Unexpected(String),
    #[error("answered with more than {0} bytes")]
    TooLarge(usize),
    #[error("refused the key: status {status}: {message}")]
    Unauthorised { status: u16, message: String },
    /// A coding agent does not always report the status.
    #[error("has too small a context for this question: {}{message}", of_status(*.status))]
    Overflow {
        status: Option<u16>,
        message: String,
    },
    #[error("rejected the request: status {status}: {message}")]
    Rejected { status: u16, message: String },
    #[error("redirects to another place (status {0}), which is not followed")]
    Redirected(u16),
    #[error("was cut off after {tokens} tokens ({max_tokens} allowed)")]
    CutAnswer { max_tokens: u32, tokens: u64 },
    #[error("repeats itself without an end")]
    Endless,
    #[error("refused to answer: {0}")]
    Refused(String),
    /// The reason begins with the question; the text of the answer is what was received.
    #[error("gave no usable answer to {reason}")]
    Unusable { reason: String, text: String },
    /// A coding agent that, with its configuration, answers no question.
    #[error("cannot be asked: {0}")]
    Unfit(String),
    /// A coding agent that did not finish by itself.
    #[error("gave no answer: {0}")]
    Broken(String),
}

impl LlmError {
    /// Returns whether the same request may succeed a little later.
    pub fn retryable(&self) -> bool {
        matches!(
            self.fault,
            Fault::Unreachable(_)
                | Fault::TimedOut(_)
                | Fault::Unavailable { .. }
                | Fault::CutBody(_)
                | Fault::NotJson(_)
                | Fault::Unexpected(_)
                | Fault::Broken(_)
        )
    }

    /// Returns how long the server asks to wait before the next request.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.fault {
            Fault::Unavailable { retry_after, .. } => retry_after,
            _ => None,
        }
    }

    /// Returns how long a model that is away asks to wait; `None` if asking again by itself makes no sense.
    pub fn away(&self) -> Option<Duration> {
        (self.retryable()).then(|| self.retry_after().unwrap_or_default())
    }

    /// Returns what happened, and what the person can do.
    pub fn told(&self) -> String {
        format!("{self}. Hint: {}", self.hint())
    }

    /// Returns what the person can do.
    pub fn hint(&self) -> &'static str {
        match self.fault {
            Fault::Unreachable(_) => {
                "is `[llm] base_url` right, and the server running and reachable from here?"
            }
            Fault::TimedOut(_) => "raise `[llm] timeout` or choose a faster model",
            Fault::Overflow { .. } => {
                "give the server a larger context (llama-server `-c`, ollama `num_ctx`), choose a model that has one, or shorten the goal"
            }
            Fault::Unavailable { status: 429, .. } => {
                "the provider limits how much you may ask: wait, or look at your plan there"
            }
            Fault::Unavailable { .. } | Fault::CutBody(_) => {
                "the server has trouble: try again later"
            }
            Fault::Unusable { .. } | Fault::Endless => "try again, or choose a stronger model",
            Fault::Unfit(_) => {
                "run the agent by hand once: does it answer? `plan-agent doctor` shows what it finds of it"
            }
            Fault::Broken(_) => "run the agent by hand once: does it answer?",
            Fault::NotJson(_) | Fault::Unexpected(_) | Fault::TooLarge(_) => {
                "does `[llm] base_url` point at the API, and does `[llm] provider` name its kind?"
            }
            Fault::Unauthorised { .. } => {
                "check the key in the variable named by `[llm] api_key_env`"
            }
            Fault::Rejected { status: 402, .. } => {
                "the provider wants money: look at your account there"
            }
            Fault::Rejected { status: 404, .. } => "check `[llm] model` and `[llm] base_url`",
            Fault::Rejected { .. } => "check `[llm] model`; the message is the server's own",
            Fault::Redirected(_) => {
                "write the final address into `[llm] base_url`; the key is never sent elsewhere"
            }
            Fault::CutAnswer { .. } => "choose a model with longer answers, or a smaller goal",
            Fault::Refused(_) => "put the goal in other words, or choose another model",
        }
    }
}

fn of_status(status: Option<u16>) -> String {
    status.map_or(String::new(), |status| format!("status {status}: "))
}

/// Returns what a server or an agent said as one short line.
pub(super) fn own_words(text: &str) -> String {
    match one_line(text, MAX_MESSAGE) {
        line if line.is_empty() => "(nothing said)".to_owned(),
        line => line,
    }
}
