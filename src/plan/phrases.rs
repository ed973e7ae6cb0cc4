//! Words for numbers and texts that several modules say alike.

use std::fmt::Display;

use serde::Serialize;
use serde_json::{Value, json};

/// Returns a number with its noun: `1 task`, `2 tasks`.
pub fn counted(number: impl Copy + Display + PartialEq + From<u8>, word: &str) -> String {
    let plural = if number == 1.into() { "" } else { "s" };
    format!("{number} {word}{plural}")
}

/// Returns what stands behind a list of which so many entries are hidden: ` and 3 more`, or nothing.
pub fn and_more(hidden: usize) -> String {
    match hidden {
        0 => String::new(),
        hidden => format!(" and {hidden} more"),
    }
}

/// Returns what is said with a text, or nothing where it is empty.
pub fn unless_empty(text: &str, say: impl FnOnce(&str) -> String) -> String {
    match text {
        "" => String::new(),
        text => say(text),
    }
}

/// Returns the word with which serde writes a value of an enum.
pub fn word(value: &impl Serialize) -> String {
    match json!(value) {
        Value::String(word) => word,
        // The variant has data.
        Value::Object(variant) => variant.keys().map(String::as_str).collect(),
        _ => String::new(),
    }
}
