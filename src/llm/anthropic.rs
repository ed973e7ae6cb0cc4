//! The Messages API: `base_url` + `/v1/messages`. The answer's schema goes along as `output_config.format`; an answer is
//! taken from a tool call, where a server makes one, else from the text.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::dialect::{Adapting, Dialect};
use super::error::{EndpointError, LlmError};
use super::http::{Answer, End, Endpoint, KeyHeader, Settings};
use super::{BoxFuture, Llm, Reply, Request, Schema};

/// A model behind the Messages API.
#[derive(Debug)]
pub struct Anthropic {
    server: Adapting,
}

impl Anthropic {
    /// Sets up the model. `base_url` is the part before `/v1/messages`, with or without `/v1`.
    pub fn new(settings: Settings) -> Result<Self, EndpointError> {
        let headers = HeaderMap::from_iter([(
            HeaderName::from_static("anthropic-version"),
            HeaderValue::from_static("2023-06-01"),
        )]);
        let key = KeyHeader::Plain(HeaderName::from_static("x-api-key"));
        let endpoint = Endpoint::new(settings, "/v1/messages", key, headers)?;
        Ok(Self {
            server: Adapting::new(endpoint),
        })
    }

    fn body<'a>(&'a self, request: &'a Request, dialect: Dialect) -> Body<'a> {
        Body {
            model: self.server.endpoint.model(),
            max_tokens: request.max_tokens,
            system: [SystemBlock {
                kind: "text",
                text: &request.system,
                cache_control: Typed { kind: "ephemeral" },
            }],
            messages: [UserMessage {
                role: "user",
                content: &request.prompt,
            }],
            output_config: dialect.schema.then_some(OutputConfig {
                format: Format {
                    kind: "json_schema",
                    schema: &request.schema,
                },
            }),
        }
    }

    async fn ask(&self, request: &Request) -> Result<Reply, LlmError> {
        let endpoint = &self.server.endpoint;
        let json = self
            .server
            .post(|dialect| self.body(request, dialect))
            .await?;
        let message: Message =
            serde_json::from_value(json).map_err(|e| endpoint.unexpected(&e.to_string()))?;
        endpoint.reply(request, message.answer())
    }
}

impl Llm for Anthropic {
    fn name(&self) -> &str {
        self.server.endpoint.model()
    }

    fn exchange<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply, LlmError>> {
        Box::pin(self.ask(request))
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    system: [SystemBlock<'a>; 1],
    messages: [UserMessage<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
}

#[derive(Serialize)]
struct SystemBlock<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
    /// Marks the end of what stays the same from call to call.
    cache_control: Typed,
}

#[derive(Serialize)]
struct Typed {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
struct UserMessage<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    format: Format<'a>,
}

#[derive(Serialize)]
struct Format<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: &'a Schema,
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
