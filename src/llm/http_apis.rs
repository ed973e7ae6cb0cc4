//! The two APIs for models over HTTP: how each expects a question, and where the answer stands. Servers with the same API
//! differ in what they accept. The first request has the form that most of them accept; if a server rejects a part, the request
//! is repeated without it, and that part is left out from then on.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::{EndpointError, Fault, LlmError, own_words};
use super::http::Endpoint;
use super::{BoxFuture, LanguageModel, ModelReply, Request, Schema};
use crate::config::{Api, ModelEndpoint};

/// Steady, for judging; at zero a small model may repeat itself without end, and would do so again at the next request.
const TEMPERATURE: f64 = 0.2;

/// A model behind one of the APIs.
#[derive(Debug)]
pub struct HttpModel {
    api: Api,
    endpoint: Endpoint,
    dialect: Mutex<ApiFeatures>,
}

/// What a server is believed to accept.
#[derive(Clone, Copy, Debug)]
struct ApiFeatures {
    /// The schema of the answer.
    schema: bool,
    /// A temperature, where the API has one; reasoning models accept none.
    temperature: bool,
    /// `max_completion_tokens`, which newer models require, instead of `max_tokens`, which older servers know.
    completion_tokens: bool,
}

impl HttpModel {
    /// Sets up the model; one exchange with it may take the timeout as a whole. The endpoint's `base_url` is the part before
    /// `/v1/messages`, with or without `/v1`, or before `/chat/completions`.
    ///
    /// # Errors
    /// The address or the key cannot be used.
    pub fn new(
        endpoint: &ModelEndpoint,
        model: &str,
        timeout: Duration,
    ) -> Result<Self, EndpointError> {
        let (path, key, headers): (_, _, &[_]) = match endpoint.api {
            Api::Anthropic => {
                let version = ("anthropic-version", "2023-06-01");
                ("/v1/messages", ("x-api-key", ""), &[version])
            }
            Api::OpenAi => ("/chat/completions", ("authorization", "Bearer "), &[]),
        };
        Ok(Self {
            api: endpoint.api,
            endpoint: Endpoint::new(endpoint, model, timeout, path, key, headers)?,
            dialect: Mutex::new(ApiFeatures {
                schema: true,
                temperature: true,
                completion_tokens: false,
            }),
        })
    }

    async fn ask(&self, request: &Request) -> Result<ModelReply, LlmError> {
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
        let answer = match self.api {
            Api::Anthropic => read::<MessagesAnswer>(json).map(MessagesAnswer::reply),
            Api::OpenAi => read::<Completion>(json).and_then(Completion::reply),
        };
        answer
            .map_err(|reason| Fault::Unexpected {
                reason: self.endpoint.own_words(&reason),
            })
            .and_then(|answer| self.reply(request, answer))
            .map_err(|fault| self.endpoint.error(fault))
    }

    fn body<'a>(&self, request: &'a Request, dialect: ApiFeatures) -> Body<'a> {
        let Request {
            system,
            prompt,
            max_tokens,
            ..
        } = request;
        let model = &self.endpoint.model;
        let schema = dialect.schema.then_some(&request.schema);
        match self.api {
            Api::Anthropic => Body {
                rest: json!({
                    "model": model,
                    "max_tokens": max_tokens,
                    // Marks the end of the part that stays the same from call to call.
                    "system": [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}],
                    "messages": [{"role": "user", "content": prompt}],
                }),
                form: schema.map(|schema| Form::OutputConfig {
                    format: ResponseFormat {
                        kind: "json_schema",
                        schema,
                    },
                }),
            },
            Api::OpenAi => {
                let limit = match dialect.completion_tokens {
                    true => "max_completion_tokens",
                    false => "max_tokens",
                };
                let mut rest = json!({
                    "model": model,
                    "messages": [{"role": "system", "content": system}, {"role": "user", "content": prompt}],
                    limit: max_tokens,
                });
                if dialect.temperature {
                    rest["temperature"] = json!(TEMPERATURE);
                }
                Body {
                    rest,
                    form: schema.map(|schema| Form::ResponseFormat {
                        kind: "json_schema",
                        json_schema: NamedSchema {
                            name: &request.schema_name,
                            strict: true,
                            schema,
                        },
                    }),
                }
            }
        }
    }

    /// Returns the reply, or the fault of an incomplete answer.
    fn reply(
        &self,
        request: &Request,
        (mut reply, end): (ModelReply, StopReason),
    ) -> Result<ModelReply, Fault> {
        reply.text = self.endpoint.scrub_reply(reply.text);
        let (input_tokens, output_tokens) = (reply.input_tokens, reply.output_tokens);
        match end {
            StopReason::Cut => Err(Fault::CutAnswer {
                max_tokens: request.max_tokens,
                input_tokens,
                output_tokens,
            }),
            StopReason::Refused => Err(Fault::Refused {
                reason: own_words(&reply.text),
                input_tokens,
                output_tokens,
            }),
            StopReason::Whole if reply.text.trim().is_empty() => Err(Fault::Unexpected {
                reason: "it holds no text".to_owned(),
            }),
            StopReason::Whole => Ok(reply),
        }
    }
}

impl LanguageModel for HttpModel {
    fn name(&self) -> &str {
        &self.endpoint.model
    }

    fn exchange<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<ModelReply, LlmError>> {
        Box::pin(self.ask(request))
    }
}

impl ApiFeatures {
    /// Returns what to try instead after this error; each part is left out only once, so this ends.
    fn adapted(mut self, error: &LlmError) -> Option<Self> {
        let Fault::Rejected { message, .. } = &error.fault else {
            return None;
        };
        let names = |words: &[&str]| words.iter().any(|word| message.contains(word));
        let of_schema = [
            "response_format",
            "output_config",
            "output_format",
            "schema",
        ];
        if !self.completion_tokens && names(&["max_completion_tokens"]) {
            self.completion_tokens = true;
        } else if self.temperature && names(&["temperature"]) {
            self.temperature = false;
        } else if self.schema && names(&of_schema) {
            self.schema = false;
        } else {
            return None;
        }
        Some(self)
    }
}

/// A request: the schema is separate, because its properties keep their order only if it serialises itself.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(flatten)]
    rest: Value,
    #[serde(flatten)]
    form: Option<Form<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Form<'a> {
    OutputConfig {
        format: ResponseFormat<'a>,
    },
    ResponseFormat {
        #[serde(rename = "type")]
        kind: &'static str,
        json_schema: NamedSchema<'a>,
    },
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: &'a Schema,
}

#[derive(Serialize)]
struct NamedSchema<'a> {
    name: &'a str,
    strict: bool,
    schema: &'a Schema,
}

/// Why the model stopped.
enum StopReason {
    Whole,
    Cut,
    Refused,
}

/// The answer of Messages.
#[derive(Deserialize)]
struct MessagesAnswer {
    content: Vec<ContentBlock>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: TokenUsage,
}

/// Blocks of other types (thinking, and future ones) have neither field.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ContentBlock {
    text: Option<String>,
    input: Option<Value>,
}

/// The answer of Chat Completions.
#[derive(Deserialize)]
struct Completion {
    choices: Vec<CompletionChoice>,
    #[serde(default)]
    usage: Option<TokenUsage>,
}

#[derive(Deserialize)]
struct CompletionChoice {
    message: CompletionMessage,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct CompletionMessage {
    /// A text, or a list of parts that have one.
    #[serde(default)]
    content: Value,
    #[serde(default)]
    refusal: Option<String>,
}

/// Tokens, under the names of both APIs.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenUsage {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

impl MessagesAnswer {
    /// Returns the tool call, if a server makes one, else the text.
    fn reply(self) -> (ModelReply, StopReason) {
        let text = match self.content.iter().find_map(|block| block.input.as_ref()) {
            Some(input) => input.to_string(),
            None => self
                .content
                .into_iter()
                .filter_map(|block| block.text)
                .collect(),
        };
        let end = match self.stop_reason.as_deref() {
            Some("max_tokens" | "model_context_window_exceeded") => StopReason::Cut,
            Some("refusal") => StopReason::Refused,
            _ => StopReason::Whole,
        };
        let usage = self.usage;
        let cached = [
            usage.cache_creation_input_tokens,
            usage.cache_read_input_tokens,
        ];
        let input = cached.into_iter().chain([usage.input_tokens]).flatten();
        let reply = ModelReply {
            text,
            input_tokens: input.fold(0, u64::saturating_add),
            output_tokens: usage.output_tokens.unwrap_or(0),
            cost_usd: 0.0,
        };
        (reply, end)
    }
}

impl Completion {
    fn reply(self) -> Result<(ModelReply, StopReason), String> {
        let choice = self.choices.into_iter().next();
        let CompletionChoice {
            message,
            finish_reason,
        } = choice.ok_or("`choices` is empty")?;
        let refusal = message.refusal.filter(|text| !text.is_empty());
        let end = match finish_reason.as_deref() {
            Some("content_filter") => StopReason::Refused,
            _ if refusal.is_some() => StopReason::Refused,
            Some("length") => StopReason::Cut,
            _ => StopReason::Whole,
        };
        let usage = self.usage.unwrap_or_default();
        let reply = ModelReply {
            text: refusal.unwrap_or_else(|| plain(message.content)),
            input_tokens: usage.prompt_tokens.unwrap_or(0),
            output_tokens: usage.completion_tokens.unwrap_or(0),
            cost_usd: 0.0,
        };
        Ok((reply, end))
    }
}

fn plain(content: Value) -> String {
    match content {
        Value::String(text) => text,
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect()
        }
        _ => String::new(),
    }
}

fn read<T: DeserializeOwned>(json: Value) -> Result<T, String> {
    serde_json::from_value(json).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn request_keeps_schema_order() {
        let request = Request {
            system: String::new(),
            prompt: String::new(),
            schema_name: "x".to_owned(),
            schema: Schema::Object(vec![
                ("reason", Schema::Boolean),
                ("decision", Schema::Boolean),
            ]),
            max_tokens: 1,
        };
        for api in [Api::Anthropic, Api::OpenAi] {
            let endpoint = ModelEndpoint {
                api,
                base_url: "http://127.0.0.1:1".to_owned(),
                url_variable: None,
                key: None,
                key_variable: String::new(),
            };
            let model = HttpModel::new(&endpoint, "m", Duration::from_secs(1)).unwrap();
            let dialect = *model.dialect.lock().unwrap();
            let body = serde_json::to_string(&model.body(&request, dialect)).unwrap();
            assert!(body.find("reason") < body.find("decision"), "{body}");
        }
    }
}
