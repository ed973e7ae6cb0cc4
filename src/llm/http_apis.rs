//! The two APIs for models over HTTP, and how each expects a question. Servers with the same API differ in what they accept.
//! The first request has the form that most of them accept; if a server rejects a part, the request is repeated without it, and
//! that part is left out from then on.

use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};

use super::api_answers::{Completion, MessagesAnswer, StopReason};
use super::{
    ApiAnswer, BoxFuture, Endpoint, Fault, LanguageModel, LlmError, ModelReply, Request, Result,
    Schema, own_words,
};
use crate::config::{Api, ModelEndpoint};
use crate::wire::Problem;

/// Steady, for judging; at zero a small model may repeat itself without end, and would do so again at the next request.
const TEMPERATURE: f64 = 0.2;

/// A model behind one of the APIs.
#[derive(Debug)]
pub struct HttpModel {
    api: Api,
    endpoint: Endpoint,
    /// The [`PARTS`] of requests that its server has rejected.
    without: Mutex<Vec<&'static str>>,
}

/// Parts of a request that some servers reject, and the words by which they do: the first part that they name is left out.
const PARTS: [(&str, &str); 5] = [
    // Newer models require `max_completion_tokens` in its place, which older servers do not know.
    ("max_tokens", "max_completion_tokens"),
    ("stream_options", "stream_options include_usage"),
    // Reasoning models accept none.
    ("temperature", "temperature"),
    (
        "schema",
        "response_format output_config output_format schema",
    ),
    // Some accounts and models get no answer in parts.
    ("stream", "stream"),
];

impl HttpModel {
    /// Sets up the model; the timeout is the longest silence within an exchange. The endpoint's `base_url` is the part before
    /// `/v1/messages`, with or without `/v1`, or before `/chat/completions`.
    ///
    /// # Errors
    /// The address or the key cannot be used.
    pub fn new(endpoint: &ModelEndpoint, model: &str, timeout: Duration) -> Result<Self, Problem> {
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
            without: Mutex::default(),
        })
    }

    async fn ask(&self, request: &Request) -> Result<ModelReply> {
        let mut refused = 0;
        let answered = match self.api {
            Api::Anthropic => {
                let answer = self.post::<MessagesAnswer>(request, &mut refused).await;
                answer.map(MessagesAnswer::reply)
            }
            Api::OpenAi => {
                let answer = self.post::<Completion>(request, &mut refused).await;
                answer.map(Completion::reply)
            }
        };
        let (mut reply, end) = answered.map_err(|mut error| {
            error.spent.calls += refused;
            error
        })?;
        reply.spent.calls += refused;
        reply.text = self.endpoint.scrub_reply(reply.text);
        let spent = reply.spent;
        let fault = match end {
            StopReason::Whole if !reply.text.trim().is_empty() => return Ok(reply),
            StopReason::Whole => Fault::Unexpected("it holds no text".to_owned()),
            StopReason::Cut => Fault::CutAnswer {
                max_tokens: request.max_tokens,
                tokens: spent.output_tokens,
            },
            StopReason::Refused => Fault::Refused(own_words(&reply.text)),
        };
        let error = self.endpoint.error(fault);
        Err(LlmError { spent, ..error })
    }

    /// Posts a request, without the parts that the server refuses; each call that it refused is counted.
    async fn post<A: ApiAnswer>(&self, request: &Request, refused: &mut u32) -> Result<A> {
        let mut without = self.without.lock().clone();
        loop {
            let body = self.body(request, &without);
            match self.endpoint.post(&body, request.max_tokens).await {
                Err(error) => {
                    without.push(rejected_part(&error, &without).ok_or(error)?);
                    *refused += 1;
                }
                answer => return answer,
            }
            self.without.lock().clone_from(&without);
        }
    }

    fn body<'a>(&self, request: &'a Request, without: &[&str]) -> Body<'a> {
        let (system, prompt, max_tokens) = (&request.system, &request.prompt, request.max_tokens);
        let model = &self.endpoint.model;
        let with = |part| !without.contains(&part);
        let schema = with("schema").then_some(&request.schema);
        match self.api {
            Api::Anthropic => Body {
                rest: json!({
                    "model": model,
                    "max_tokens": max_tokens,
                    // Marks the end of the part that stays the same from call to call.
                    "system": [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}],
                    "messages": [{"role": "user", "content": prompt}],
                    "stream": with("stream"),
                }),
                form: schema.map(|schema| {
                    let kind = "json_schema";
                    let format = ResponseFormat { kind, schema };
                    Form::OutputConfig { format }
                }),
            },
            Api::OpenAi => {
                let limit = match with("max_tokens") {
                    true => "max_tokens",
                    // Newer models know it by this name.
                    false => "max_completion_tokens",
                };
                let mut rest = json!({
                    "model": model,
                    "messages": [{"role": "system", "content": system}, {"role": "user", "content": prompt}],
                    limit: max_tokens,
                    "stream": with("stream"),
                });
                if with("stream") && with("stream_options") {
                    rest["stream_options"] = json!({"include_usage": true});
                }
                if with("temperature") {
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
}

impl LanguageModel for HttpModel {
    fn name(&self) -> &str {
        &self.endpoint.model
    }

    fn exchange<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<ModelReply>> {
        Box::pin(self.ask(request))
    }
}

/// Returns the part to leave out after an error; each is left out only once, so this ends.
fn rejected_part(error: &LlmError, without: &[&str]) -> Option<&'static str> {
    let Fault::Rejected { message, .. } = &error.fault else {
        return None;
    };
    let names = |words: &str| words.split(' ').any(|word| message.contains(word));
    let mut left = PARTS.iter().filter(|(part, _)| !without.contains(part));
    left.find(|(_, words)| names(words)).map(|(part, _)| *part)
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::ServiceUrl;

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
                base_url: ServiceUrl::parse("http://127.0.0.1:1").unwrap(),
                url_variable: None,
                key: None,
                key_variable: String::new(),
            };
            let model = HttpModel::new(&endpoint, "m", Duration::from_secs(1)).unwrap();
            let body = serde_json::to_string(&model.body(&request, &[])).unwrap();
            assert!(body.find("reason") < body.find("decision"), "{body}");
        }
    }
}
