//! The two APIs for models over HTTP: how each expects a question, and where the answer stands. Servers with the same API
//! differ in what they accept. The first request has the form that most of them accept; if a server rejects a part, the request
//! is repeated without it, and that part is left out from then on.

use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::{EndpointError, Fault, LlmError, own_words};
use super::http::{Endpoint, Settings};
use super::{BoxFuture, Llm, Reply, Request, Schema};
use crate::config::Api;

/// Steady, for judging; at zero a small model may repeat itself without end, and would do so again at the next request.
const TEMPERATURE: f64 = 0.2;

/// A model behind one of the APIs.
#[derive(Debug)]
pub struct HttpModel {
    api: Api,
    endpoint: Endpoint,
    dialect: Mutex<Dialect>,
}

/// What a server is believed to accept.
#[derive(Clone, Copy, Debug)]
struct Dialect {
    /// The schema of the answer.
    schema: bool,
    /// A temperature, where the API has one; reasoning models accept none.
    temperature: bool,
    /// `max_completion_tokens`, which newer models require, instead of `max_tokens`, which older servers know.
    completion_tokens: bool,
}

impl HttpModel {
    /// Sets up the model. `base_url` is the part before `/v1/messages`, with or without `/v1`, or before `/chat/completions`.
    ///
    /// # Errors
    /// The address or the key cannot be used.
    pub fn new(api: Api, settings: Settings) -> Result<Self, EndpointError> {
        let endpoint = match api {
            Api::Anthropic => {
                let version = [("anthropic-version", "2023-06-01")];
                Endpoint::new(settings, "/v1/messages", ("x-api-key", ""), &version)
            }
            Api::OpenAi => {
                let key = ("authorization", "Bearer ");
                Endpoint::new(settings, "/chat/completions", key, &[])
            }
        };
        Ok(Self {
            api,
            endpoint: endpoint?,
            dialect: Mutex::new(Dialect {
                schema: true,
                temperature: true,
                completion_tokens: false,
            }),
        })
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
        let answer = match self.api {
            Api::Anthropic => read::<Message>(json).map(Message::answer),
            Api::OpenAi => read::<Completion>(json).and_then(Completion::answer),
        };
        answer
            .map_err(|reason| Fault::Unexpected {
                reason: self.endpoint.own_words(&reason),
            })
            .and_then(|answer| self.reply(request, answer))
            .map_err(|fault| self.endpoint.error(fault))
    }

    fn body<'a>(&self, request: &'a Request, dialect: Dialect) -> Body<'a> {
        let Request {
            system,
            prompt,
            max_tokens,
            ..
        } = request;
        let model = self.endpoint.model();
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
                    format: Format {
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
                        json_schema: Named {
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
    fn reply(&self, request: &Request, answer: Answer) -> Result<Reply, Fault> {
        let Answer {
            text,
            end,
            input_tokens,
            output_tokens,
        } = answer;
        let text = self.endpoint.scrub_reply(text);
        match end {
            End::Cut => Err(Fault::CutAnswer {
                max_tokens: request.max_tokens,
                input_tokens,
                output_tokens,
            }),
            End::Refused => Err(Fault::Refused {
                reason: own_words(&text),
                input_tokens,
                output_tokens,
            }),
            End::Whole if text.trim().is_empty() => Err(Fault::Unexpected {
                reason: "it holds no text".to_owned(),
            }),
            End::Whole => Ok(Reply {
                text,
                input_tokens,
                output_tokens,
                cost_usd: 0.0,
            }),
        }
    }
}

impl Llm for HttpModel {
    fn name(&self) -> &str {
        self.endpoint.model()
    }

    fn exchange<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply, LlmError>> {
        Box::pin(self.ask(request))
    }
}

impl Dialect {
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
        format: Format<'a>,
    },
    ResponseFormat {
        #[serde(rename = "type")]
        kind: &'static str,
        json_schema: Named<'a>,
    },
}

#[derive(Serialize)]
struct Format<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: &'a Schema,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    strict: bool,
    schema: &'a Schema,
}

/// The answer of either API, in common words.
struct Answer {
    text: String,
    end: End,
    input_tokens: u64,
    output_tokens: u64,
}

/// Why the model stopped.
enum End {
    Whole,
    Cut,
    Refused,
}

/// The answer of Messages.
#[derive(Deserialize)]
struct Message {
    content: Vec<Block>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Usage,
}

/// Blocks of other types (thinking, and future ones) have neither field.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Block {
    text: Option<String>,
    input: Option<Value>,
}

/// The answer of Chat Completions.
#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    message: Said,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Said {
    /// A text, or a list of parts that have one.
    #[serde(default)]
    content: Value,
    #[serde(default)]
    refusal: Option<String>,
}

/// Tokens, under the names of both APIs.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Usage {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

impl Message {
    /// Returns the tool call, if a server makes one, else the text.
    fn answer(self) -> Answer {
        let text = match self.content.iter().find_map(|block| block.input.as_ref()) {
            Some(input) => input.to_string(),
            None => self
                .content
                .into_iter()
                .filter_map(|block| block.text)
                .collect(),
        };
        let end = match self.stop_reason.as_deref() {
            Some("max_tokens" | "model_context_window_exceeded") => End::Cut,
            Some("refusal") => End::Refused,
            _ => End::Whole,
        };
        let usage = self.usage;
        let cached = [
            usage.cache_creation_input_tokens,
            usage.cache_read_input_tokens,
        ];
        let input = cached.into_iter().chain([usage.input_tokens]).flatten();
        Answer {
            text,
            end,
            input_tokens: input.fold(0, u64::saturating_add),
            output_tokens: usage.output_tokens.unwrap_or(0),
        }
    }
}

impl Completion {
    fn answer(self) -> Result<Answer, String> {
        let choice = self.choices.into_iter().next();
        let Choice {
            message,
            finish_reason,
        } = choice.ok_or("`choices` is empty")?;
        let refusal = message.refusal.filter(|text| !text.is_empty());
        let end = match finish_reason.as_deref() {
            Some("content_filter") => End::Refused,
            _ if refusal.is_some() => End::Refused,
            Some("length") => End::Cut,
            _ => End::Whole,
        };
        let usage = self.usage.unwrap_or_default();
        Ok(Answer {
            text: refusal.unwrap_or_else(|| plain(message.content)),
            end,
            input_tokens: usage.prompt_tokens.unwrap_or(0),
            output_tokens: usage.completion_tokens.unwrap_or(0),
        })
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
    fn the_schema_is_sent_in_its_own_order() {
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
            let settings = Settings {
                base_url: "http://127.0.0.1:1".to_owned(),
                model: "m".to_owned(),
                key: None,
                timeout: Duration::from_secs(1),
            };
            let model = HttpModel::new(api, settings).unwrap();
            let dialect = *model.dialect.lock().unwrap();
            let body = serde_json::to_string(&model.body(&request, dialect)).unwrap();
            assert!(body.find("reason") < body.find("decision"), "{body}");
        }
    }
}
