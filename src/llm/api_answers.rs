//! Where the answer stands in what the two APIs send, whole or in parts.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Error, Value, from_value};

use super::{ApiAnswer, ModelReply};
use crate::plan::ModelCost;

/// The fields of a part of an answer that only name something.
const NAMES: [&str; 5] = ["role", "type", "id", "name", "format"];

/// Why the model stopped.
pub(super) enum StopReason {
    Whole,
    Cut,
    Refused,
}

/// The answer of Messages.
#[derive(Default, Deserialize)]
pub(super) struct MessagesAnswer {
    content: Vec<ContentBlock>,
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "used")]
    usage: ModelCost,
}

/// Blocks of other types (thinking, and future ones) have neither field.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ContentBlock {
    text: Option<String>,
    input: Option<Value>,
    /// The JSON text of the input, in a stream.
    partial_json: String,
}

/// The answer of Chat Completions, or an event of a stream of them.
#[derive(Default, Deserialize)]
pub(super) struct Completion {
    choices: Vec<CompletionChoice>,
    #[serde(default, deserialize_with = "used")]
    usage: ModelCost,
}

#[derive(Default, Deserialize)]
struct CompletionChoice {
    #[serde(alias = "delta")]
    message: CompletionMessage,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct CompletionMessage {
    /// A text, or a list of parts that have one.
    #[serde(default)]
    content: Value,
    refusal: Option<String>,
}

impl ApiAnswer for MessagesAnswer {
    fn spent(&self) -> ModelCost {
        self.usage
    }

    fn add(&mut self, mut event: Value) -> serde_json::Result<String> {
        let words = words(&event["content_block"]) + &words(&event["delta"]);
        let mut part = |name: &str| event.get_mut(name).map(Value::take).unwrap_or_default();
        match part("type").as_str() {
            Some("message_start") => *self = from_value(part("message"))?,
            Some("content_block_start") => self.content.push(from_value(part("content_block"))?),
            Some("content_block_delta") => {
                let delta: ContentBlock = from_value(part("delta"))?;
                let block = self.content.last_mut();
                let block = block.ok_or_else(|| Error::custom("a delta before its block"))?;
                block.partial_json += &delta.partial_json;
                *block.text.get_or_insert_default() += &delta.text.unwrap_or_default();
            }
            Some("message_delta") => {
                self.stop_reason = from_value(part("delta")["stop_reason"].clone())?;
                self.usage = most(self.usage, used(part("usage"))?);
            }
            _ => {}
        }
        Ok(words)
    }

    fn is_whole(&self) -> bool {
        self.stop_reason.is_some()
    }
}

impl ApiAnswer for Completion {
    fn spent(&self) -> ModelCost {
        self.usage
    }

    fn add(&mut self, event: Value) -> serde_json::Result<String> {
        let first = &event["choices"][0];
        let words = words(&first["delta"]) + &words(&first["message"]);
        let Self { choices, usage } = from_value(event)?;
        self.usage = most(self.usage, usage);
        let Some(part) = choices.into_iter().next() else {
            return Ok(words);
        };
        let Some(so_far) = self.choices.first_mut() else {
            self.choices.push(part);
            return Ok(words);
        };
        so_far.finish_reason = part.finish_reason.or(so_far.finish_reason.take());
        let (message, more) = (&mut so_far.message, part.message);
        let content = plain(message.content.take()) + &plain(more.content);
        message.content = Value::String(content);
        *message.refusal.get_or_insert_default() += &more.refusal.unwrap_or_default();
        Ok(words)
    }

    fn is_whole(&self) -> bool {
        let first = self.choices.first();
        first.is_some_and(|choice| choice.finish_reason.is_some())
    }
}

impl MessagesAnswer {
    /// Returns the tool call, if a server makes one, else the text.
    pub(super) fn reply(self) -> (ModelReply, StopReason) {
        let call = |block: &&ContentBlock| block.input.is_some();
        let text = match self.content.iter().find(call) {
            Some(block) if !block.partial_json.is_empty() => block.partial_json.clone(),
            Some(block) => block.input.clone().unwrap_or_default().to_string(),
            None => {
                let blocks = self.content.into_iter();
                blocks.filter_map(|block| block.text).collect()
            }
        };
        let end = match self.stop_reason.as_deref() {
            Some("max_tokens" | "model_context_window_exceeded") => StopReason::Cut,
            Some("refusal") => StopReason::Refused,
            _ => StopReason::Whole,
        };
        let spent = self.usage;
        (ModelReply { text, spent }, end)
    }
}

impl Completion {
    pub(super) fn reply(self) -> (ModelReply, StopReason) {
        let choice = self.choices.into_iter().next().unwrap_or_default();
        let message = choice.message;
        let refusal = message.refusal.filter(|text| !text.is_empty());
        let end = match choice.finish_reason.as_deref() {
            Some("content_filter") => StopReason::Refused,
            _ if refusal.is_some() => StopReason::Refused,
            Some("length") => StopReason::Cut,
            _ => StopReason::Whole,
        };
        let text = refusal.unwrap_or_else(|| plain(message.content));
        let spent = self.usage;
        (ModelReply { text, spent }, end)
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

/// Returns what a part of an answer says or thinks, whatever the server calls it: all of its texts that are no names.
fn words(part: &Value) -> String {
    match part {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(words).collect(),
        Value::Object(fields) => {
            let said = fields
                .iter()
                .filter(|(name, _)| !NAMES.contains(&name.as_str()));
            said.map(|(_, part)| words(part)).collect()
        }
        _ => String::new(),
    }
}

/// Reads what an answer took: tokens under the names of both APIs, and dollars as OpenRouter reports them. What is no number is
/// unknown: a paid answer is not lost for it.
fn used<'de, D: Deserializer<'de>>(usage: D) -> Result<ModelCost, D::Error> {
    let usage = Value::deserialize(usage)?;
    let number = |name: &str| -> Option<f64> {
        let value = &usage[name];
        let number = value
            .as_f64()
            .or_else(|| value.as_str()?.trim().parse().ok());
        number.filter(|number| number.is_finite() && *number >= 0.0)
    };
    // A whole number is written without a point.
    let count = |name| number(name)?.to_string().parse::<u64>().ok();
    let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
    let parts = cached.into_iter().chain(["input_tokens"]).filter_map(count);
    let input = count("prompt_tokens").unwrap_or_else(|| parts.fold(0, u64::saturating_add));
    let output = count("completion_tokens").or_else(|| count("output_tokens"));
    let cost = number("cost").unwrap_or(0.0);
    Ok(ModelCost::new(input, output.unwrap_or(0), cost))
}

/// Returns the later of two states of what an answer took: within a stream it only grows.
fn most(one: ModelCost, other: ModelCost) -> ModelCost {
    ModelCost::new(
        one.input_tokens.max(other.input_tokens),
        one.output_tokens.max(other.output_tokens),
        one.cost_usd.max(other.cost_usd),
    )
}
