//! The Messages API: `base_url` + `/v1/messages`. The answer's schema goes along as `output_config.format`; a server
//! that does not know it is asked without it, and its answer is found in the text or in a tool call.

use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::{EndpointError, Fault, LlmError};
use super::http::{Answer, End, Endpoint, KeyHeader, Settings};
use super::{BoxFuture, Llm, Reply, Request};

/// A model behind the Messages API.
#[derive(Debug)]
pub struct Anthropic {
    endpoint: Endpoint,
    /// Whether the server takes a schema; learned from its first complaint.
    takes_schema: AtomicBool,
}

impl Anthropic {
    /// Sets up the model. `base_url` is the part before `/v1/messages`, with or without `/v1`.
    pub fn new(settings: Settings) -> Result<Self, EndpointError> {
        let headers = HeaderMap::from_iter([(
            HeaderName::from_static("anthropic-version"),
            HeaderValue::from_static("2023-06-01"),
        )]);
        let key = KeyHeader::Plain(HeaderName::from_static("x-api-key"));
        Ok(Self {
            endpoint: Endpoint::new(settings, "/v1/messages", key, headers)?,
            takes_schema: AtomicBool::new(true),
        })
    }

    fn body(&self, request: &Request, with_schema: bool) -> Value {
        let mut body = json!({
            "model": self.endpoint.model(),
            "max_tokens": request.max_tokens,
            "system": [{
                "type": "text",
                "text": request.system,
                "cache_control": {"type": "ephemeral"},
            }],
            "messages": [{"role": "user", "content": request.prompt}],
        });
        if with_schema {
            body["output_config"] =
                json!({"format": {"type": "json_schema", "schema": request.schema}});
        }
        body
    }

    async fn ask(&self, request: &Request) -> Result<Reply, LlmError> {
        let with_schema = self.takes_schema.load(Ordering::Relaxed);
        let json = match self.endpoint.post(&self.body(request, with_schema)).await {
            Err(error) if with_schema && complains_of_schema(&error) => {
                self.takes_schema.store(false, Ordering::Relaxed);
                self.endpoint.post(&self.body(request, false)).await?
            }
            outcome => outcome?,
        };
        let message: Message =
            serde_json::from_value(json).map_err(|e| self.endpoint.unexpected(&e.to_string()))?;
        self.endpoint.reply(request, message.answer())
    }
}

impl Llm for Anthropic {
    fn name(&self) -> &str {
        self.endpoint.model()
    }

    fn exchange<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply, LlmError>> {
        Box::pin(self.ask(request))
    }
}

fn complains_of_schema(error: &LlmError) -> bool {
    matches!(&error.fault, Fault::Rejected { message, .. }
        if ["output_config", "output_format", "schema"].iter().any(|word| message.contains(word)))
}

#[derive(Deserialize)]
struct Message {
    content: Vec<Block>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Usage,
}

/// Blocks of other types (thinking, and what is yet to be invented) have neither field.
#[derive(Deserialize)]
struct Block {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    input: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Usage {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
}

impl Message {
    fn answer(self) -> Answer {
        let end = match self.stop_reason.as_deref() {
            Some("max_tokens" | "model_context_window_exceeded") => End::Cut,
            Some("refusal") => End::Refused,
            _ => End::Whole,
        };
        let text = match self.content.iter().find_map(|block| block.input.as_ref()) {
            Some(input) => input.to_string(),
            None => self
                .content
                .into_iter()
                .filter_map(|block| block.text)
                .collect(),
        };
        let Usage {
            input_tokens,
            cache_creation_input_tokens,
            cache_read_input_tokens,
            output_tokens,
        } = self.usage;
        Answer {
            text,
            end,
            input_tokens: [
                input_tokens,
                cache_creation_input_tokens,
                cache_read_input_tokens,
            ]
            .into_iter()
            .flatten()
            .fold(0, u64::saturating_add),
            output_tokens: output_tokens.unwrap_or(0),
        }
    }
}
