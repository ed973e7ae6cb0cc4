//! The streams of both APIs, as their services send them.

use serde_json::{Value, json};

use super::llm::{Asked, is_messages};

/// The type of a stream.
pub const EVENTS: &str = "text/event-stream; charset=utf-8";

/// Cuts an answer into the events of a stream, as the service of its API does.
pub fn events(asked: &Asked, whole: &str) -> Vec<String> {
    let mut whole: Value = serde_json::from_str(whole).unwrap();
    let mut events = vec![": a comment\n\n".to_owned()];
    if !is_messages(asked) {
        let mut add = |choices: Value, usage: &Value| {
            let chunk = json!({"id": "chatcmpl-1", "choices": choices, "usage": usage});
            events.push(format!("data: {chunk}\n\n"));
        };
        let (message, end) = (
            &whole["choices"][0]["message"],
            &whole["choices"][0]["finish_reason"],
        );
        let mut part = |delta: Value, end: &Value| {
            add(
                json!([{"index": 0, "delta": delta, "finish_reason": end}]),
                &Value::Null,
            );
        };
        part(json!({"role": "assistant", "content": ""}), &Value::Null);
        for field in ["content", "refusal"] {
            for piece in pieces(message[field].as_str().unwrap_or_default()) {
                part(json!({field: piece}), &Value::Null);
            }
        }
        part(json!({}), end);
        add(json!([]), &whole["usage"]);
        events.push("data: [DONE]\n\n".to_owned());
        return events;
    }
    let (content, end, usage) = (
        whole["content"].take(),
        whole["stop_reason"].take(),
        whole["usage"].take(),
    );
    let mut add = |event: Value| {
        let kind = event["type"].as_str().unwrap();
        // A line may end so, too.
        events.push(format!("event: {kind}\r\ndata: {event}\r\n\r\n"));
    };
    whole["content"] = json!([]);
    whole["usage"] = usage.clone();
    whole["usage"]["output_tokens"] = json!(1);
    add(json!({"type": "message_start", "message": whole}));
    for (index, block) in content.as_array().unwrap().iter().enumerate() {
        let (kind, field) = match block["type"].as_str().unwrap() {
            "tool_use" => ("input_json_delta", "partial_json"),
            "thinking" => ("thinking_delta", "thinking"),
            _ => ("text_delta", "text"),
        };
        let said = block.get(field).and_then(Value::as_str).map(str::to_owned);
        let said = said.unwrap_or_else(|| block["input"].to_string());
        let mut start = block.clone();
        for (key, empty) in [
            ("text", json!("")),
            ("thinking", json!("")),
            ("input", json!({})),
        ] {
            if start.get(key).is_some() {
                start[key] = empty;
            }
        }
        add(json!({"type": "content_block_start", "index": index, "content_block": start}));
        add(json!({"type": "ping"}));
        for piece in pieces(&said) {
            add(
                json!({"type": "content_block_delta", "index": index, "delta": {"type": kind, field: piece}}),
            );
        }
        add(json!({"type": "content_block_stop", "index": index}));
    }
    let output = json!({"output_tokens": usage["output_tokens"]});
    add(
        json!({"type": "message_delta", "delta": {"stop_reason": end, "stop_sequence": null}, "usage": output}),
    );
    add(json!({"type": "message_stop"}));
    events
}

/// Cuts a text into a few pieces.
fn pieces(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let size = (letters.len() / 3).max(1);
    letters
        .chunks(size)
        .map(|piece| piece.iter().collect())
        .collect()
}
