//! How answers stay small, and without secrets: long texts are clipped, long lists are cut where the next page begins.

use serde_json::Value;

use crate::wire::{clip, without_keys};

/// The largest answer, in bytes, with some room for what stands around a list.
pub const MOST: usize = 60 * 1024;

/// Clips every text in a value to a number of characters.
pub fn clip_texts(value: &mut Value, most: usize) {
    let clip_one = |value| clip_texts(value, most);
    match value {
        Value::String(text) => {
            // Before it is cut: the rest of a key would not be known as one.
            *text = without_keys(text);
            if text.len() > most {
                *text = clip(text, most);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(clip_one),
        Value::Object(fields) => fields.values_mut().for_each(clip_one),
        _ => {}
    }
}

/// Returns the size of a value as it is sent.
pub fn size(value: &Value) -> usize {
    value.to_string().len()
}

/// Clips the texts of a value until it is small enough; keys that agents told are hidden as `why` does.
pub fn fit(mut value: Value) -> Value {
    clip_texts(&mut value, MOST);
    let mut most = 16_000;
    while size(&value) > MOST && most > 0 {
        clip_texts(&mut value, most);
        most /= 2;
    }
    value
}

/// Takes rows as long as they are small enough together; at least one. Returns whether all were taken.
pub fn take_rows(rows: impl IntoIterator<Item = Value>) -> (Vec<Value>, bool) {
    let (mut taken, mut room) = (Vec::new(), MOST);
    for row in rows {
        let size = size(&row) + 1;
        if size > room && !taken.is_empty() {
            return (taken, false);
        }
        room = room.saturating_sub(size);
        taken.push(fit(row));
    }
    (taken, true)
}

/// Returns as much of the beginning of a text as is small enough, as it is sent.
pub fn prefix(text: &str) -> &str {
    let mut room = MOST;
    for (at, c) in text.char_indices() {
        let size = match c {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            c if c.is_control() => 6,
            c => c.len_utf8(),
        };
        if size > room {
            return &text[..at];
        }
        room -= size;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_are_small() {
        let long = "\"\u{1}ä\n".repeat(100_000);
        assert!(size(&json!(prefix(&long))) <= MOST + 2);
        assert_eq!(prefix("short"), "short");
        assert!(size(&fit(json!({"a": [&long, &long], "b": 1}))) <= MOST);
        let rows = (0..100).map(|_| json!({"name": "x".repeat(10_000)}));
        let (taken, all) = take_rows(rows);
        assert!(!all && size(&json!(taken)) <= MOST + 2);
        let (taken, all) = take_rows([json!(long), json!(1)]);
        assert!(!all && taken.len() == 1 && size(&taken[0]) <= MOST);
    }
}
