//! Servers of one API differ in what they take. What is sent first is what most of them take; a server that complains of
//! a part is asked again without it, and from then on.

use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;

use super::error::{Fault, LlmError};
use super::http::Endpoint;

/// What a server is believed to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    /// The schema of the answer.
    pub(super) schema: bool,
    /// A temperature, where the API's dialects know one; reasoning models take none.
    pub(super) temperature: bool,
    /// `max_completion_tokens`, which newer models want, instead of `max_tokens`, which older servers know.
    pub(super) completion_tokens: bool,
}

/// An endpoint that remembers what its server takes.
#[derive(Debug)]
pub(super) struct Adapting {
    pub(super) endpoint: Endpoint,
    dialect: Mutex<Dialect>,
}

impl Adapting {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            dialect: Mutex::new(Dialect {
                schema: true,
                temperature: true,
                completion_tokens: false,
            }),
        }
    }

    /// Sends the body in the server's dialect and returns the JSON that came back.
    pub(super) async fn post<B: Serialize>(
        &self,
        body: impl Fn(Dialect) -> B,
    ) -> Result<Value, LlmError> {
        let mut dialect = *self.dialect.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match self.endpoint.post(&body(dialect)).await {
                Err(error) => {
                    dialect = dialect.adapted(&error).ok_or(error)?;
                    *self.dialect.lock().unwrap_or_else(PoisonError::into_inner) = dialect;
                }
                outcome => return outcome,
            }
        }
    }
}

impl Dialect {
    /// Returns what to try instead after this complaint; each thing is given up once, so this ends.
    fn adapted(self, error: &LlmError) -> Option<Self> {
        let Fault::Rejected { message, .. } = &error.fault else {
            return None;
        };
        let names = |words: &[&str]| words.iter().any(|word| message.contains(word));
        if !self.completion_tokens && names(&["max_completion_tokens"]) {
            return Some(Self {
                completion_tokens: true,
                ..self
            });
        }
        if self.temperature && names(&["temperature"]) {
            return Some(Self {
                temperature: false,
                ..self
            });
        }
        let of_schema = names(&[
            "response_format",
            "output_config",
            "output_format",
            "schema",
        ]);
        (self.schema && of_schema).then_some(Self {
            schema: false,
            ..self
        })
    }
}
