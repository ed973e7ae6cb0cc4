//! Chat Completions.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Doing, Event, READ, Spoken, Turn, WRITTEN, text};

pub(super) fn turns(body: &Value) -> Vec<Turn> {
    let messages = body["messages"].as_array().into_iter().flatten();
    messages
        .filter_map(|message| match message["role"].as_str()? {
            "user" => Some(Turn::Person(text(&message["content"]))),
            "assistant" => Some(Turn::Model),
            "tool" => Some(Turn::Tool(text(&message["content"]))),
            _ => None,
        })
        .collect()
}

pub(super) fn spoken(doing: &Doing) -> Spoken {
    let calls: Vec<Value> = doing
        .call
        .iter()
        .map(|(name, input)| {
            json!({
                "index": 0, "id": format!("call_{}", Uuid::new_v4().simple()), "type": "function",
                "function": {"name": name, "arguments": input.to_string()},
            })
        })
        .collect();
    let finish = if calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    let mut message = json!({"role": "assistant", "content": doing.text});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let usage = json!({"prompt_tokens": READ, "completion_tokens": WRITTEN, "total_tokens": READ + WRITTEN});
    let whole = |kind: &str, choices: Value, usage: &Value| {
        json!({
            "id": "chatcmpl-scripted", "object": kind, "created": 0, "model": doing.model, "choices": choices, "usage": usage,
        })
    };
    let chunk = |choices: Value, usage: &Value| {
        Event::new(None, &whole("chat.completion.chunk", choices, usage))
    };
    let events = vec![
        chunk(
            json!([{"index": 0, "delta": message, "finish_reason": null}]),
            &Value::Null,
        ),
        chunk(
            json!([{"index": 0, "delta": {}, "finish_reason": finish}]),
            &Value::Null,
        ),
        chunk(json!([]), &usage),
        Event {
            name: None,
            data: "[DONE]".into(),
        },
    ];
    Spoken {
        plain: whole(
            "chat.completion",
            json!([{"index": 0, "message": message, "finish_reason": finish}]),
            &usage,
        ),
        events,
    }
}
