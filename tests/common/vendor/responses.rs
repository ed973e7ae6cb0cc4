//! OpenAI Responses.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Doing, Event, READ, Spoken, Turn, WRITTEN, text};

pub(super) fn turns(body: &Value) -> Vec<Turn> {
    let items = body["input"].as_array().into_iter().flatten();
    items
        .filter_map(|item| match item["type"].as_str().unwrap_or("message") {
            "message" if item["role"] == "user" => Some(Turn::Person(text(&item["content"]))),
            "message" if item["role"] == "assistant" => Some(Turn::Model),
            "function_call" => Some(Turn::Model),
            "function_call_output" => Some(Turn::Tool(item["output"].to_string())),
            _ => None,
        })
        .collect()
}

pub(super) fn spoken(doing: &Doing) -> Spoken {
    let id = || Uuid::new_v4().simple().to_string();
    let mut items = Vec::new();
    if !doing.text.is_empty() {
        items.push(json!({
            "type": "message", "id": format!("msg_{}", id()), "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": doing.text, "annotations": []}],
        }));
    }
    if let Some((name, input)) = &doing.call {
        items.push(json!({
            "type": "function_call", "id": format!("fc_{}", id()), "call_id": format!("call_{}", id()),
            "status": "completed", "name": name, "arguments": input.to_string(),
        }));
    }
    let response = json!({
        "id": format!("resp_{}", id()), "object": "response", "created_at": 0, "model": doing.model, "status": "completed",
        "output": items, "error": null,
        "usage": {
            "input_tokens": READ, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": WRITTEN, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": READ + WRITTEN,
        },
    });
    let named = |name: &'static str, mut data: Value| {
        data["type"] = name.into();
        Event::new(Some(name), &data)
    };
    let mut events = vec![named(
        "response.created",
        json!({"response": {"id": response["id"], "status": "in_progress", "output": []}}),
    )];
    for (index, item) in items.iter().enumerate() {
        for name in ["response.output_item.added", "response.output_item.done"] {
            events.push(named(name, json!({"output_index": index, "item": item})));
        }
    }
    events.push(named("response.completed", json!({"response": response})));
    Spoken {
        plain: response,
        events,
    }
}
