//! Gemini's `generateContent` and `streamGenerateContent`.

use serde_json::{Value, json};

use super::{Doing, Event, READ, Spoken, Turn, WRITTEN, text};

pub(super) fn turns(body: &Value) -> Vec<Turn> {
    let contents = body["contents"].as_array().into_iter().flatten();
    contents
        .map(|content| {
            let mut parts = content["parts"].as_array().into_iter().flatten();
            if content["role"] == "model" {
                Turn::Model
            } else if let Some(result) = parts.find_map(|part| part.get("functionResponse")) {
                Turn::Tool(result["response"].to_string())
            } else {
                Turn::Person(text(&content["parts"]))
            }
        })
        .collect()
}

pub(super) fn spoken(doing: &Doing) -> Spoken {
    let mut parts = Vec::new();
    if !doing.text.is_empty() {
        parts.push(json!({"text": doing.text}));
    }
    if let Some((name, input)) = &doing.call {
        parts.push(json!({"functionCall": {"name": name, "args": input}}));
    }
    let plain = json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": READ, "candidatesTokenCount": WRITTEN, "totalTokenCount": READ + WRITTEN},
        "modelVersion": doing.model,
    });
    Spoken {
        events: vec![Event::new(None, &plain)],
        plain,
    }
}
