//! Anthropic Messages.

use serde_json::{Value, json};

use super::{Doing, Event, READ, Spoken, Turn, WRITTEN, text};

pub(super) fn turns(body: &Value) -> Vec<Turn> {
    let messages = body["messages"].as_array().into_iter().flatten();
    messages
        .map(|message| {
            let content = &message["content"];
            let result = content.as_array().into_iter().flatten();
            let mut results = result.filter(|part| part["type"] == "tool_result");
            if message["role"] == "assistant" {
                Turn::Model
            } else if let Some(result) = results.next() {
                Turn::Tool(text(&result["content"]))
            } else {
                Turn::Person(text(content))
            }
        })
        .collect()
}

pub(super) fn spoken(doing: &Doing) -> Spoken {
    let mut blocks = Vec::new();
    if !doing.text.is_empty() {
        blocks.push(json!({"type": "text", "text": doing.text}));
    }
    if let Some((name, input)) = &doing.call {
        blocks.push(json!({"type": "tool_use", "id": id(), "name": name, "input": input}));
    }
    let stop = if doing.call.is_some() {
        "tool_use"
    } else {
        "end_turn"
    };
    let message = |content: &Value, stop: Value| {
        json!({
            "id": "msg_scripted", "type": "message", "role": "assistant", "model": doing.model, "content": content,
            "stop_reason": stop, "stop_sequence": null,
            "usage": {"input_tokens": READ, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": WRITTEN},
        })
    };
    let named = |name: &'static str, mut data: Value| {
        data["type"] = name.into();
        Event::new(Some(name), &data)
    };
    let mut events = vec![named(
        "message_start",
        json!({"message": message(&json!([]), Value::Null)}),
    )];
    for (index, block) in blocks.iter().enumerate() {
        let mut start = block.clone();
        let delta = if block["type"] == "text" {
            start["text"] = "".into();
            json!({"type": "text_delta", "text": block["text"]})
        } else {
            start["input"] = json!({});
            json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})
        };
        events.extend([
            named(
                "content_block_start",
                json!({"index": index, "content_block": start}),
            ),
            named(
                "content_block_delta",
                json!({"index": index, "delta": delta}),
            ),
            named("content_block_stop", json!({"index": index})),
        ]);
    }
    events.extend([
        named(
            "message_delta",
            json!({"delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": WRITTEN}}),
        ),
        named("message_stop", json!({})),
    ]);
    Spoken {
        plain: message(&json!(blocks), stop.into()),
        events,
    }
}

/// Two calls of one conversation must not have the same id.
fn id() -> String {
    format!("toolu_{}", uuid::Uuid::new_v4().simple())
}
