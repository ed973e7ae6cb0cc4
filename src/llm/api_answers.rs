//! Where the answer stands in what the two APIs send, whole or in parts.

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::{Error, Value, from_value};

use super::{ApiAnswer, ModelReply};
use crate::plan::ModelCost;

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
    #[serde(default)]
    usage: TokenUsage,
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
    usage: Option<TokenUsage>,
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

impl ApiAnswer for MessagesAnswer {
    fn add(&mut self, mut event: Value) -> serde_json::Result<bool> {
        let kind = event["type"].take();
        let mut part = |name: &str| event[name].take();
        match kind.as_str() {
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
                self.stop_reason = from_value(part("delta")["stop_reason"].take())?;
                let usage: TokenUsage = from_value(part("usage"))?;
                self.usage.output_tokens = usage.output_tokens.or(self.usage.output_tokens);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn text(&self) -> &str {
        match self.content.last() {
            Some(block) if block.partial_json.is_empty() => {
                block.text.as_deref().unwrap_or_default()
            }
            Some(block) => &block.partial_json,
            None => "",
        }
    }

    fn is_whole(&self) -> bool {
        self.stop_reason.is_some()
    }
}

impl ApiAnswer for Completion {
    fn add(&mut self, event: Value) -> serde_json::Result<bool> {
        let Self { choices, usage } = from_value(event)?;
        self.usage = usage.or(self.usage.take());
        let Some(part) = choices.into_iter().next() else {
            return Ok(false);
        };
        let Some(so_far) = self.choices.first_mut() else {
            self.choices.push(part);
            return Ok(true);
        };
        so_far.finish_reason = part.finish_reason.or(so_far.finish_reason.take());
        let (message, more) = (&mut so_far.message, part.message);
        let content = plain(message.content.take()) + &plain(more.content);
        message.content = Value::String(content);
        *message.refusal.get_or_insert_default() += &more.refusal.unwrap_or_default();
        Ok(true)
    }

    fn text(&self) -> &str {
        let first = self.choices.first();
        let text = first.and_then(|choice| choice.message.content.as_str());
        text.unwrap_or_default()
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
        let usage = self.usage;
        let cached = usage.cache_creation_input_tokens.unwrap_or(0);
        let cached = cached.saturating_add(usage.cache_read_input_tokens.unwrap_or(0));
        let input = cached.saturating_add(usage.input_tokens.unwrap_or(0));
        let spent = ModelCost::new(input, usage.output_tokens.unwrap_or(0), 0.0);
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
        let usage = self.usage.unwrap_or_default();
        let text = refusal.unwrap_or_else(|| plain(message.content));
        let [input, output] = [usage.prompt_tokens, usage.completion_tokens];
        let spent = ModelCost::new(input.unwrap_or(0), output.unwrap_or(0), 0.0);
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
