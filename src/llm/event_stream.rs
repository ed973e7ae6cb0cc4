//! An answer that comes in parts, as server-sent events: what bounds it, and how it ends. A server that sends no words for too
//! long is silent, also where it shows that it lives; thoughts are words, blanks are none. A whole answer may take as long as its
//! tokens need.

use std::io;
use std::time::Duration;

use futures_util::TryStreamExt;
use http_body_util::{BodyExt, Limited};
use reqwest::{Body, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sse_stream::SseStream;
use tokio::time::{Instant, timeout};

use super::http::chain;
use super::{Endpoint, Fault, LlmError, Result};
use crate::plan::ModelCost;

/// The largest stream, in bytes: servers wrap each of 32,000 tokens in an event of some hundred bytes.
const MAX_STREAM: usize = 32 << 20;
/// How long each token of the longest answer may take.
const SLOWEST: Duration = Duration::from_secs(1);
/// The data of the event that ends a stream of Chat Completions.
const DONE: &str = "[DONE]";

/// A model has lost its way where its answer ends with so many bytes that are the same words again and again, and with them so
/// many times: more often than any answer has entries. Small models do that until their longest answer is full.
const LOST: usize = 4_000;
const TIMES: usize = 60;
/// The most bytes of such words, and those that are compared to find them.
const WORDS: usize = 400;
const BEGIN: usize = 80;
/// The bytes at the end of an answer that are compared, without digits: numbers may differ.
const END: usize = WORDS * (TIMES + 1);
/// So many bytes come before the end of an answer is compared again.
const STEP: usize = 512;

/// An answer of an API: one JSON body, or put together from the events of a stream.
pub(super) trait ApiAnswer: Default + DeserializeOwned {
    /// Adds an event of a stream; returns what it says or thinks.
    ///
    /// # Errors
    /// It does not have the form of an event of this API.
    fn add(&mut self, event: Value) -> serde_json::Result<String>;

    /// Returns whether nothing but the count of the tokens can follow.
    fn is_whole(&self) -> bool;

    /// Returns the tokens that the server has told so far.
    fn spent(&self) -> ModelCost;
}

impl Endpoint {
    /// Puts an answer together from the events of a stream. What it cost counts also where it is no whole answer.
    pub async fn stream<A: ApiAnswer>(&self, response: Response, max_tokens: u32) -> Result<A> {
        let mut answer = A::default();
        match self.parts(response, max_tokens, &mut answer).await {
            Ok(()) => Ok(answer),
            Err(mut error) => {
                error.spent.add(answer.spent());
                Err(error)
            }
        }
    }

    async fn parts(
        &self,
        response: Response,
        max_tokens: u32,
        answer: &mut impl ApiAnswer,
    ) -> Result<()> {
        let body = Body::from(response).map_err(reqwest::Error::without_url);
        let mut events = SseStream::new(Limited::new(body, MAX_STREAM).map_err(io::Error::other));
        let (began, mut heard) = (Instant::now(), Instant::now());
        let longest = self.timeout + SLOWEST * max_tokens;
        // The end of what was said and thought, how many bytes that were, and how many when it was last compared.
        let (mut said, mut bytes, mut looked) = (Vec::new(), 0, 0);
        loop {
            if began.elapsed() > longest && !answer.is_whole() {
                return Err(self.cut("it took longer than a second for each token it may have"));
            }
            let left = self.timeout.saturating_sub(heard.elapsed());
            let event = match timeout(left, events.try_next()).await {
                Ok(Ok(Some(event))) => event.data.unwrap_or_default(),
                // Some servers leave out the end, or close nothing after it.
                _ if answer.is_whole() => return Ok(()),
                Ok(Ok(None)) => return Err(self.cut("the stream ended before the answer")),
                Ok(Err(sse_stream::Error::Body(error))) => return Err(self.cut(&chain(&*error))),
                Ok(Err(error)) => return Err(self.unexpected(&error)),
                Err(_) => return Err(self.timed_out()),
            };
            match event.trim() {
                "" => {}
                DONE => return Ok(()),
                data => {
                    let was_whole = answer.is_whole();
                    let words = self.json(data.as_bytes()).and_then(|event| {
                        let words = answer.add(event);
                        words.map_err(|error| self.unexpected(&error))
                    });
                    let words = match words {
                        // Only its count of tokens can follow.
                        Err(_) if was_whole => return Ok(()),
                        words => words?,
                    };
                    if !words.trim().is_empty() || answer.is_whole() != was_whole {
                        heard = Instant::now();
                    }
                    bytes += words.len();
                    said.extend(words.bytes().filter(|byte| !byte.is_ascii_digit()));
                    if bytes >= looked + STEP {
                        looked = bytes;
                        said.drain(..said.len().saturating_sub(END));
                        if repeats(&said) {
                            // A server counts only what it has ended. Four bytes are about a token.
                            let tokens = u64::try_from(bytes / 4).unwrap_or(u64::MAX);
                            let tokens = tokens.saturating_sub(answer.spent().output_tokens);
                            return Err(LlmError {
                                spent: ModelCost::new(0, tokens, 0.0),
                                ..self.error(Fault::Endless)
                            });
                        }
                    }
                }
            }
        }
    }

    fn cut(&self, reason: &str) -> LlmError {
        if reason.contains("length limit exceeded") {
            return self.error(Fault::TooLarge(MAX_STREAM));
        }
        self.saying(reason, Fault::CutBody)
    }
}

/// Returns whether a text without digits ends with the same words again and again.
fn repeats(text: &[u8]) -> bool {
    let end: Vec<u8> = text.iter().rev().take(END).copied().collect();
    let mut periods = (1..=WORDS).filter(|period| {
        let again = end.get(*period..period + BEGIN);
        again.is_some_and(|again| end.starts_with(again))
    });
    periods.next().is_some_and(|period| {
        let most = LOST.max(TIMES * period);
        let same = end.iter().zip(&end[period..]).take_while(|(a, b)| a == b);
        same.count() >= most
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_that_repeats_itself_is_seen() {
        let numbered =
            (0..90).map(|n| format!("{n}. Add the script to the `.gitignore` file of it.\n"));
        let letter = |n: u8| char::from(b'a' + n % 26);
        let lines =
            (0..250).map(|n| format!("Write `{}{}.rs` and test it.\n", letter(n), letter(n / 26)));
        let task = "{\"name\": \"Test it\", \"description\": \"Write the tests of this part.\"},";
        for (text, expected) in [
            (numbered.collect::<String>(), true),
            ("\n".repeat(9_000), true),
            (lines.collect(), false),
            (task.repeat(50), false),
            ("é".repeat(3_000), true),
        ] {
            let bytes: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_digit()).collect();
            assert_eq!(repeats(&bytes), expected, "{text}");
        }
    }
}
