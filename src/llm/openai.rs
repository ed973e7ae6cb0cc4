//! Chat Completions, as OpenAI and most local servers speak it: `base_url` ends in `/v1`. Servers differ in what they
//! take: one that complains of the schema or of the name of the token limit is asked the other way from then on.

use std::sync::{Mutex, PoisonError};

use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::{EndpointError, Fault, LlmError};
use super::http::{Answer, End, Endpoint, KeyHeader, Settings};
use super::{BoxFuture, Llm, Reply, Request};

/// A model behind the Chat Completions API.
#[derive(Debug)]
pub struct OpenAi {
    endpoint: Endpoint,
    dialect: Mutex<Dialect>,
}

/// What the server is known to take.
#[derive(Clone, Copy, Debug)]
struct Dialect {
    schema: bool,
    /// Newer models want `max_completion_tokens`, older servers know `max_tokens` only.
    completion_tokens: bool,
}

impl OpenAi {
    /// Sets up the model. `base_url` is the part before `/chat/completions`.
    pub fn new(settings: Settings) -> Result<Self, EndpointError> {
        Ok(Self {
            endpoint: Endpoint::new(
                settings,
                "/chat/completions",
                KeyHeader::Bearer,
                HeaderMap::new(),
            )?,
            dialect: Mutex::new(Dialect {
                schema: true,
                completion_tokens: false,
            }),
        })
    }

    fn body(&self, request: &Request, dialect: Dialect) -> Value {
        let mut body = json!({
            "model": self.endpoint.model(),
            "messages": [
                {"role": "system", "content": request.system},
                {"role": "user", "content": request.prompt},
            ],
        });
        let limit = if dialect.completion_tokens {
            "max_completion_tokens"
        } else {
            "max_tokens"
        };
        body[limit] = request.max_tokens.into();
        if dialect.schema {
            body["response_format"] = json!({
                "type": "json_schema",
                "json_schema": {"name": request.schema_name, "strict": true, "schema": request.schema},
            });
        }
        body
    }

    async fn ask(&self, request: &Request) -> Result<Reply, LlmError> {
        let mut dialect = *self.dialect.lock().unwrap_or_else(PoisonError::into_inner);
        let json = loop {
            match self.endpoint.post(&self.body(request, dialect)).await {
                Ok(json) => break json,
                Err(error) => {
                    dialect = dialect.adapted(&error).ok_or(error)?;
                    *self.dialect.lock().unwrap_or_else(PoisonError::into_inner) = dialect;
                }
            }
        };
        let completion: Completion =
            serde_json::from_value(json).map_err(|e| self.endpoint.unexpected(&e.to_string()))?;
        let answer = completion
            .answer()
            .ok_or_else(|| self.endpoint.unexpected("`choices` is empty"))?;
        self.endpoint.reply(request, answer)
    }
}

impl Llm for OpenAi {
    fn name(&self) -> &str {
        self.endpoint.model()
    }

    fn exchange<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply, LlmError>> {
        Box::pin(self.ask(request))
    }
}

impl Dialect {
    /// Returns what to try instead after this complaint; each thing is given up once, so this ends.
    fn adapted(self, error: &LlmError) -> Option<Self> {
        let Fault::Rejected { message, .. } = &error.fault else {
            return None;
        };
        if !self.completion_tokens && message.contains("max_completion_tokens") {
            return Some(Self {
                completion_tokens: true,
                ..self
            });
        }
        let of_schema = ["response_format", "schema"]
            .iter()
            .any(|word| message.contains(word));
        (self.schema && of_schema).then_some(Self {
            schema: false,
            ..self
        })
    }
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    /// A text, or a list of parts that have one.
    #[serde(default)]
    content: Value,
    #[serde(default)]
    refusal: Option<String>,
}

#[derive(Default, Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
}

impl Completion {
    fn answer(self) -> Option<Answer> {
        let usage = self.usage.unwrap_or_default();
        let choice = self.choices.into_iter().next()?;
        let (text, refused) = match choice.message.refusal.filter(|text| !text.is_empty()) {
            Some(refusal) => (refusal, true),
            None => (plain(&choice.message.content), false),
        };
        let end = match choice.finish_reason.as_deref() {
            Some("content_filter") => End::Refused,
            _ if refused => End::Refused,
            Some("length") => End::Cut,
            _ => End::Whole,
        };
        Some(Answer {
            text,
            end,
            input_tokens: usage.prompt_tokens.unwrap_or(0),
            output_tokens: usage.completion_tokens.unwrap_or(0),
        })
    }
}

fn plain(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part.get("text")?.as_str())
            .collect(),
        _ => String::new(),
    }
}
