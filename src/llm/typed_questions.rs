//! A model as the daemon uses it: typed questions in, validated answers out. It retries failures that may be temporary, asks
//! once more when an answer cannot be used, and counts every call and token, including those that failed.

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use tokio::time::Instant;

use super::{BoxFuture, Fault, LanguageModel, LlmError, ModelReply, Request, Result, quote};
use crate::config::LlmConfig;
use crate::plan::ModelCost;

/// Characters of an unusable answer that the repair question shows again.
const MAX_SHOWN_ANSWER: usize = 6_000;

/// The smallest part to which the texts and lists of a question are cut for a model with a small context: an eighth.
const SMALLEST: u32 = 8;

/// What a question says beside itself after an answer that had no room.
const SHORTER: &str = "\n\nYour last answer was too long and got cut off. Answer again in far fewer words. Give the JSON object only.";

/// What a usable answer says. The model is asked once for what is missing in it, and may insist.
pub(super) struct Usable<A> {
    pub value: A,
    pub complaint: Option<String>,
}

impl<A> From<A> for Usable<A> {
    fn from(value: A) -> Self {
        let complaint = None;
        Self { value, complaint }
    }
}

/// Reads the text of an answer; the error says why it cannot be used.
pub(super) type Read<A> = dyn Fn(&str) -> Result<Usable<A>, String> + Send + Sync;

/// Makes a request whose texts and lists are cut to so small a part; `None` if there is none.
type Smaller = dyn Fn(u32) -> Option<Request> + Send + Sync;

/// A question to a model, with the way to read its answer.
pub struct TypedQuestion<A> {
    /// The request that is sent.
    pub request: Request,
    pub(super) smaller: Box<Smaller>,
    /// Reads an answer; the error is shown to the model.
    pub(super) read: Box<Read<A>>,
}

impl<A> TypedQuestion<A> {
    /// Reads and validates an answer; the error says what is wrong with it.
    pub fn read(&self, text: &str) -> Result<A, String> {
        (self.read)(text).map(|usable| usable.value)
    }
}

/// A usable answer and its cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered<A> {
    pub value: A,
    /// The answer as it was received.
    pub text: String,
    pub spent: ModelCost,
}

/// Keeps what a question has taken while it goes on.
type Keep<'a> = dyn Fn(ModelCost) -> BoxFuture<'a, ()> + Send + Sync + 'a;

/// The longest wait between two exchanges, unless the server asks for a longer one or the first wait is longer.
const MAX_DELAY: Duration = Duration::from_secs(30);
/// No exchange begins later than this after the first one: servers may ask for waits of any length.
const TOTAL: Duration = Duration::from_secs(600);

/// Returns how long to wait after an error, if another try follows: the wait that the server asks for, else the proposed
/// one, as long as the next exchange would begin in time.
fn wait(asked: Option<Duration>, proposed: Option<Duration>, passed: Duration) -> Option<Duration> {
    let wait = asked.unwrap_or(proposed?);
    (proposed.is_some() && passed.saturating_add(wait) <= TOTAL).then_some(wait)
}

/// A language model with the retries that it takes to get an answer.
#[derive(Clone, Debug)]
pub struct Model {
    llm: Arc<dyn LanguageModel>,
    /// The waits between failed exchanges, with a random addition.
    backoff: ExponentialBuilder,
    /// Exchanges for one question.
    most: u32,
}

impl Model {
    /// Wraps a model; the configuration says how often and after which wait a failed exchange is repeated.
    pub fn new(llm: Arc<dyn LanguageModel>, config: &LlmConfig) -> Self {
        let times = usize::try_from(config.tries.saturating_sub(1)).unwrap_or(usize::MAX);
        Self {
            llm,
            backoff: ExponentialBuilder::new()
                .with_min_delay(config.retry_delay)
                .with_max_delay(MAX_DELAY.max(config.retry_delay))
                .with_max_times(times)
                .with_jitter(),
            most: u32::MAX,
        }
    }

    /// Returns the model with a limit: at most so many exchanges for one question, and at least one.
    #[must_use]
    pub fn at_most(&self, exchanges: u32) -> Self {
        let most = exchanges.max(1);
        let model = self.clone();
        Self { most, ..model }
    }

    /// Returns the model without the retries of a failed exchange.
    #[must_use]
    pub fn without_retries(&self) -> Self {
        let backoff = self.backoff.with_max_times(0);
        let model = self.clone();
        Self { backoff, ..model }
    }

    /// Returns the model's name.
    pub fn name(&self) -> &str {
        self.llm.name()
    }

    /// Gets an answer: repeats exchanges as the policy says, and asks once more, with what is wrong, if the answer was truncated,
    /// had no end, cannot be used, or could be better. Dropping the future ends the exchange in progress and leaves nothing behind.
    /// What an exchange took is kept before the next one begins, so that a crash loses one at most; the outcome has the cost of
    /// the rest.
    ///
    /// # Errors
    /// That of the last exchange, permanently or after the retries; or that the model answered twice, and neither answer could be
    /// used.
    pub async fn ask<'a, A>(
        &'a self,
        question: &'a TypedQuestion<A>,
        keep: &'a Keep<'a>,
    ) -> Result<Answered<A>> {
        let mut asking = Asking {
            model: self,
            question,
            keep,
            spent: ModelCost::default(),
            calls: 0,
            divisor: 1,
        };
        let answer = asking.answer().await;
        let spent = asking.spent;
        match answer {
            Ok((value, text)) => Ok(Answered { value, text, spent }),
            Err(error) => Err(LlmError { spent, ..error }),
        }
    }
}

/// A question that is being asked.
struct Asking<'a, A> {
    model: &'a Model,
    question: &'a TypedQuestion<A>,
    keep: &'a Keep<'a>,
    /// What it has taken so far, without what is kept.
    spent: ModelCost,
    /// All exchanges so far.
    calls: u32,
    /// The part to which its texts and lists are cut.
    divisor: u32,
}

impl<A> Asking<'_, A> {
    async fn answer(&mut self) -> Result<(A, String)> {
        let (added, factor, first) = match self.fitting("", 1).await {
            Ok(reply) => match (self.question.read)(&reply.text) {
                Ok(Usable {
                    value,
                    complaint: Some(complaint),
                }) if self.may_go_on() => {
                    let added = repair(&reply.text, &complaint);
                    (added, 1, Some((value, reply.text)))
                }
                Err(reason) if self.may_go_on() => (repair(&reply.text, &reason), 1, None),
                read => return self.usable(read, reply.text),
            },
            Err(error) => match error.fault {
                Fault::CutAnswer { .. } if self.may_go_on() => (SHORTER.to_owned(), 2, None),
                Fault::Endless if self.may_go_on() => (SHORTER.to_owned(), 1, None),
                _ => return Err(error),
            },
        };
        let second = match self.fitting(&added, factor).await {
            Ok(reply) => self.usable((self.question.read)(&reply.text), reply.text),
            Err(error) => Err(error),
        };
        match first {
            Some(first) => second.or(Ok(first)),
            None => second,
        }
    }

    fn may_go_on(&self) -> bool {
        self.calls < self.model.most
    }

    /// Returns an answer that was read, with its text.
    fn usable(&self, read: Result<Usable<A>, String>, text: String) -> Result<(A, String)> {
        match read {
            Ok(Usable { value, .. }) => Ok((value, text)),
            Err(reason) => {
                let reason = format!("`{}`: {reason}", self.question.request.schema_name);
                Err(LlmError {
                    asked: format!("model `{}`", self.model.name()),
                    fault: Fault::Unusable { reason, text },
                    spent: self.spent,
                })
            }
        }
    }

    /// Asks a question, and then smaller forms of it while it does not fit into the context of the model, beginning with the one
    /// that fitted last. A text is added to each, and its answer may have so many times the usual length.
    async fn fitting(&mut self, added: &str, factor: u32) -> Result<ModelReply> {
        let question = self.question;
        let mut form = match self.divisor {
            1 => None,
            divisor => (question.smaller)(divisor),
        };
        loop {
            let mut request = form.as_ref().unwrap_or(&question.request).clone();
            request.prompt += added;
            request.max_tokens = request.max_tokens.saturating_mul(factor);
            let error = match self.exchange(&request).await {
                Err(error) if matches!(error.fault, Fault::Overflow { .. }) => error,
                outcome => return outcome,
            };
            if self.divisor == SMALLEST || !self.may_go_on() {
                return Err(error);
            }
            self.divisor *= 2;
            form = Some((question.smaller)(self.divisor).ok_or(error)?);
            tracing::warn!(
                divisor = self.divisor,
                "asking the model a smaller question"
            );
        }
    }

    /// Makes an exchange, and repeats it after failures as the policy says.
    async fn exchange(&mut self, request: &Request) -> Result<ModelReply> {
        let (begun, mut waits) = (Instant::now(), self.model.backoff.build());
        loop {
            if self.spent.calls > 0 {
                (self.keep)(std::mem::take(&mut self.spent)).await;
            }
            self.calls += 1;
            self.spent.calls += 1;
            let error = match self.model.llm.exchange(request).await {
                Ok(reply) => {
                    self.spent.add(reply.spent);
                    return Ok(reply);
                }
                Err(error) => error,
            };
            self.spent.add(error.spent);
            let again = error.retryable() && self.may_go_on();
            let proposed = waits.next().filter(|_| again);
            let Some(wait) = wait(error.retry_after(), proposed, begun.elapsed()) else {
                return Err(error);
            };
            tracing::warn!(%error, ?wait, "asking the model again");
            tokio::time::sleep(wait).await;
        }
    }
}

/// Returns what a question says beside itself after an answer with a problem.
fn repair(answer: &str, reason: &str) -> String {
    let answer = quote(answer, MAX_SHOWN_ANSWER);
    let reason = quote(reason, MAX_SHOWN_ANSWER);
    format!(
        "\n\n# Your last answer has a problem\n\nIt was:\n<data name=\"your answer\">\n{answer}\n</data>\n\n\
         What is wrong: {reason}\n\nAnswer the question above again, whole and corrected. Give the JSON object only."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_overrides_backoff_within_total() {
        let second = Duration::from_secs;
        for (asked, proposed, elapsed, expected) in [
            (None, Some(second(2)), second(0), Some(second(2))),
            (
                Some(second(60)),
                Some(second(2)),
                second(0),
                Some(second(60)),
            ),
            (Some(second(0)), Some(second(2)), second(0), Some(second(0))),
            (Some(second(60)), Some(second(2)), second(541), None),
            (Some(Duration::MAX), Some(second(2)), second(1), None),
            (None, None, second(0), None),
            (Some(second(1)), None, second(0), None),
        ] {
            assert_eq!(
                wait(asked, proposed, elapsed),
                expected,
                "{asked:?} {proposed:?} {elapsed:?}"
            );
        }
    }
}
