//! The fields of answers: their schemas, and how their texts are taken. Schemas stay within what every provider
//! enforces: all properties required, nothing else allowed, no lengths.

use serde_json::{Value, json};

use crate::llm::quote::one_line;

/// Characters: a name is cut there, longer texts of a task are refused as runaway answers.
pub(super) const MAX_NAME: usize = 120;
const MAX_TEXT: usize = 8_000;
/// Characters at which a reason is cut.
pub(super) const MAX_REASON: usize = 2_000;

pub(super) fn object(properties: &[(&str, Value)]) -> Value {
    json!({
        "type": "object",
        "properties": properties.iter().cloned().map(|(name, schema)| (name.to_owned(), schema)).collect::<serde_json::Map<_, _>>(),
        "required": properties.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        "additionalProperties": false,
    })
}

pub(super) fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

pub(super) fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

pub(super) fn one_of<T: serde::Serialize>(words: impl IntoIterator<Item = T>) -> Value {
    json!({"type": "string", "enum": words.into_iter().collect::<Vec<_>>()})
}

pub(super) fn name(text: &str, place: &str) -> Result<String, String> {
    match one_line(text, MAX_NAME) {
        name if name.is_empty() => Err(format!("{place}: `name` is empty")),
        name => Ok(name),
    }
}

pub(super) fn optional(text: Option<String>, field: &str, place: &str) -> Result<String, String> {
    bounded(&text.unwrap_or_default(), field, place)
}

pub(super) fn bounded(text: &str, field: &str, place: &str) -> Result<String, String> {
    let text = text.trim();
    if text.chars().count() > MAX_TEXT {
        return Err(format!(
            "{place}: `{field}` has more than {MAX_TEXT} characters"
        ));
    }
    Ok(text.to_owned())
}

pub(super) fn cut(text: &str, limit: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
