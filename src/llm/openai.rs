//! Chat Completions, as OpenAI and most local servers speak it: `base_url` ends in `/v1`.

use reqwest::header::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::dialect::{Adapting, Dialect};
use super::error::{EndpointError, LlmError};
use super::http::{Answer, End, Endpoint, KeyHeader, Settings};
use super::{BoxFuture, Llm, Reply, Request, Schema};

/// Steady, for judging; at zero a small model may repeat itself without end, and would do so again when asked again.
const TEMPERATURE: f32 = 0.2;

/// A model behind the Chat Completions API.
#[derive(Debug)]
pub struct OpenAi {
    server: Adapting,
}

impl OpenAi {
    /// Sets up the model. `base_url` is the part before `/chat/completions`.
    pub fn new(settings: Settings) -> Result<Self, EndpointError> {
        let (key, headers) = (KeyHeader::Bearer, HeaderMap::new());
        let endpoint = Endpoint::new(settings, "/chat/completions", key, headers)?;
        Ok(Self {
            server: Adapting::new(endpoint),
        })
    }

    fn body<'a>(&'a self, request: &'a Request, dialect: Dialect) -> Body<'a> {
        let limit = Some(request.max_tokens);
        Body {
            model: self.server.endpoint.model(),
            messages: [
                Turn {
                    role: "system",
                    content: &request.system,
                },
                Turn {
                    role: "user",
                    content: &request.prompt,
                },
            ],
            temperature: dialect.temperature.then_some(TEMPERATURE),
            max_tokens: limit.filter(|_| !dialect.completion_tokens),
            max_completion_tokens: limit.filter(|_| dialect.completion_tokens),
            response_format: dialect.schema.then_some(ResponseFormat {
                kind: "json_schema",
                json_schema: NamedSchema {
                    name: &request.schema_name,
                    strict: true,
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
        let completion: Completion =
            serde_json::from_value(json).map_err(|e| endpoint.unexpected(&e.to_string()))?;
        let answer = completion
            .answer()
            .ok_or_else(|| endpoint.unexpected("`choices` is empty"))?;
        endpoint.reply(request, answer)
    }
}

impl Llm for OpenAi {
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
    messages: [Turn<'a>; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    json_schema: NamedSchema<'a>,
}

#[derive(Serialize)]
struct NamedSchema<'a> {
    name: &'a str,
    strict: bool,
    schema: &'a Schema,
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
