//! How the texts of an answer are read (trimmed, and either cut or refused when too long), and the words of refusals.

use serde_json::Value;

use super::Result;
use crate::llm::{Schema, one_line};

/// Characters: a longer name is cut, longer texts of a task are refused as runaway answers.
pub(super) const MAX_NAME: usize = 120;
const MAX_TEXT: usize = 8_000;
/// Characters at which a reason is cut.
pub(super) const MAX_REASON: usize = 2_000;

/// What is wrong with an answer, all of it, so that one repair can mend it.
#[derive(Default)]
pub(super) struct Wrongs(Vec<String>);

impl Wrongs {
    /// Returns a value that was read; what is wrong is collected.
    pub(super) fn take<T>(&mut self, read: Result<T>) -> Option<T> {
        read.map_err(|wrong| self.0.push(wrong)).ok()
    }

    /// Returns what was read if nothing is wrong.
    pub(super) fn sound<T>(self, read: T) -> Result<T> {
        match self.0[..] {
            [] => Ok(read),
            _ => Err(cut(&self.0.join("; "), MAX_REASON)),
        }
    }
}

/// Returns all values that were read, or all that is wrong with them.
pub(super) fn all<T>(read: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    let mut wrongs = Wrongs::default();
    let read = read.filter_map(|one| wrongs.take(one)).collect();
    wrongs.sound(read)
}

pub(super) fn name(text: &str, place: &str) -> Result<String> {
    match one_line(text, MAX_NAME) {
        name if name.is_empty() => Err(format!("{place}: `name` is empty")),
        name => Ok(name),
    }
}

pub(super) fn bounded(text: &str, field: &str, place: &str) -> Result<String> {
    let text = text.trim();
    if text.chars().count() > MAX_TEXT {
        let most = format!("more than {MAX_TEXT} characters");
        return Err(format!("{place}: `{field}` has {most}"));
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

/// Describes the `{name, value}` of which a list is asked for.
pub(super) fn pair() -> Schema {
    Schema::Object(vec![
        ("name", Schema::Text("name of the parameter")),
        ("value", Schema::Text("its value")),
    ])
}

/// Reads a list of `{name, value}`, or an object, as some models write it.
pub(super) fn pairs(value: Value) -> Option<Vec<(String, Value)>> {
    let pair = |entry: Value| {
        let name = entry.get("name")?.as_str()?.to_owned();
        Some((name, entry.get("value")?.clone()))
    };
    match value {
        Value::Object(values) => Some(values.into_iter().collect()),
        Value::Array(entries) => entries.into_iter().map(pair).collect(),
        _ => None,
    }
}
