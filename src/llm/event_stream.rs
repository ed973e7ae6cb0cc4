//! An answer that comes in parts, as server-sent events: what bounds it, and how it ends. A server that sends nothing of the
//! answer for too long is silent, also where it shows that it lives; how long a whole answer takes is not limited.

use std::io;

use futures_util::TryStreamExt;
use http_body_util::{BodyExt, Limited};
use reqwest::{Body, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sse_stream::SseStream;
use tokio::time::{Instant, timeout};

use super::http::chain;
use super::{Endpoint, Fault, LlmError};

/// The largest stream, in bytes: servers wrap each of 32,000 tokens in an event of some hundred bytes.
const MAX_STREAM: usize = 32 << 20;
/// The data of the event that ends a stream of Chat Completions.
const DONE: &str = "[DONE]";

/// An answer of an API: one JSON body, or put together from the events of a stream.
pub(super) trait ApiAnswer: Default + DeserializeOwned {
    /// Adds an event of a stream; returns whether it was part of the answer.
    ///
    /// # Errors
    /// It does not have the form of an event of this API.
    fn add(&mut self, event: Value) -> serde_json::Result<bool>;

    /// Returns whether nothing but the count of the tokens can follow.
    fn is_whole(&self) -> bool;
}

impl Endpoint {
    /// Puts an answer together from the events of a stream.
    pub(super) async fn stream<A: ApiAnswer>(&self, response: Response) -> Result<A, LlmError> {
        let body = Body::from(response).map_err(reqwest::Error::without_url);
        let mut events = SseStream::new(Limited::new(body, MAX_STREAM).map_err(io::Error::other));
        let (mut answer, mut heard) = (A::default(), Instant::now());
        loop {
            let left = self.timeout.saturating_sub(heard.elapsed());
            let event = match timeout(left, events.try_next()).await {
                Ok(Ok(Some(event))) => event.data.unwrap_or_default(),
                // Some servers leave out the end, or close nothing after it.
                _ if answer.is_whole() => return Ok(answer),
                Ok(Ok(None)) => return Err(self.cut("the stream ended before the answer")),
                Ok(Err(sse_stream::Error::Body(error))) => return Err(self.cut(&chain(&*error))),
                Ok(Err(error)) => return Err(self.unexpected(&error)),
                Err(_) => return Err(self.timed_out()),
            };
            match event.trim() {
                "" => {}
                DONE => return Ok(answer),
                data => {
                    let part = answer.add(self.json(data.as_bytes())?);
                    if part.map_err(|error| self.unexpected(&error))? {
                        heard = Instant::now();
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
