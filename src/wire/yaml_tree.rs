//! YAML as a tree in which every value knows its place, so that all problems of a file are reported together, each with its
//! place.

use std::cell::Cell;
use std::collections::HashMap;
use std::{fmt, iter};

use regex_lite::{Captures, Regex};
use serde::de::{self, Deserialize as _, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{Place, Problem, Problems, front_matter, has_word, joined, known_word, quote};
use crate::plan::TaskOrder;
use crate::wire::field_meant;
use crate::wire::plan_file::{Reference, suggestion};

/// Numbers in longer lines are not shown as they were written.
const LONGEST_LINE: usize = 4096;

/// Where a file begins.
const START: Place = Place { line: 1, column: 1 };

/// A value and its place: a list or a map has the place of its first entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct YamlNode {
    pub place: Place,
    pub data: Data,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Data {
    Null,
    /// A number or a truth value, with its text in the file.
    Plain(Value, String),
    Text(String),
    List(Vec<YamlNode>),
    /// Keys in the order of the file; a key may occur twice.
    Map(Vec<(YamlNode, YamlNode)>),
}

/// Reads a YAML document that a person wrote for this program.
///
/// # Errors
/// Anchors, tags, deep nesting, or invalid YAML.
pub(super) fn read(text: &str) -> Result<YamlNode, Problem> {
    Ok(completed(
        front_matter::document(text)?,
        text.trim_start_matches('\u{feff}'),
    ))
}

fn completed(mut node: YamlNode, text: &str) -> YamlNode {
    node.complete(&text.lines().collect::<Vec<_>>(), START);
    node
}

/// Reads JSON, which is YAML but for characters that are written as two escapes.
///
/// # Errors
/// It is no JSON, with the place.
pub(super) fn read_json(text: &str) -> Result<YamlNode, Problem> {
    let text = text.trim_start_matches('\u{feff}');
    serde_json::from_str::<Value>(text).map_err(|error| {
        let text = error.to_string();
        let message = text.split(" at line ").next().unwrap_or(&text);
        Problem::at(error.line(), error.column(), message)
    })?;
    // An escape is taken whole, so that no pair begins behind a backslash that is itself escaped. The other characters YAML takes
    // for the end of a line, or refuses.
    let other = r"(?i)\\(?:ud[89ab]..\\ud[c-f]..|.)|[\x7f-\x{9f}\x{2028}\x{2029}\x{fffe}\x{ffff}]";
    let other = Regex::new(other).expect("a pattern");
    let text = other.replace_all(text, |found: &Captures<'_>| {
        let (found, chars) = (&found[0], found[0].chars().count());
        match found.chars().next() {
            Some('\\') if chars == 2 => found.to_owned(),
            Some('\\') => serde_json::from_str(&format!("\"{found}\"")).unwrap_or_default(),
            char => format!("\\u{:04x}", char.map_or(0, u32::from)),
        }
    });
    Ok(completed(front_matter::json(&text)?, &text))
}

/// Makes a tree of a value that a caller passes.
///
/// # Errors
/// It is nested too deeply.
pub(super) fn of_value(value: &Value) -> serde_json::Result<YamlNode> {
    YamlNode::deserialize(value)
}

impl YamlNode {
    pub fn problem(&self, message: impl Into<String>) -> Problem {
        self.place.problem(message)
    }

    /// Returns that this is something else than what is expected there.
    fn is_not(&self, what: &str, expected: &str) -> Problem {
        self.problem(format!("{what} is {}, not {expected}", self.kind()))
    }

    /// Returns the text of a text, a number or a truth value.
    pub fn text(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) | Data::Plain(_, text) => Some(text),
            Data::Null | Data::List(_) | Data::Map(_) => None,
        }
    }

    /// Returns the kind of the value, for a message.
    pub fn kind(&self) -> &'static str {
        match self.data {
            Data::Null => "nothing",
            Data::Plain(Value::Bool(_), _) => "a truth value",
            Data::Plain(..) => "a number",
            Data::Text(_) => "a text",
            Data::List(_) => "a list",
            Data::Map(_) => "a map",
        }
    }

    /// Returns the value without its places; of a repeated key the last value counts.
    pub fn value(&self) -> Value {
        match &self.data {
            Data::Null => Value::Null,
            Data::Plain(value, _) => value.clone(),
            Data::Text(text) => Value::String(text.clone()),
            Data::List(entries) => entries.iter().map(Self::value).collect(),
            Data::Map(entries) => {
                let entry = |(key, value): &(Self, Self)| {
                    (key.text().unwrap_or_default().to_owned(), value.value())
                };
                Value::Object(entries.iter().map(entry).collect::<Map<_, _>>())
            }
        }
    }

    /// Returns a field of a map; a field without a value counts as missing.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Data::Map(entries) = &self.data else {
            return None;
        };
        let (_, value) = entries.iter().find(|(name, _)| name.text() == Some(key))?;
        (value.data != Data::Null).then_some(value)
    }

    /// Returns the entries of a field that has a list.
    pub fn list(&self, key: &str) -> Option<&[Self]> {
        match &self.get(key)?.data {
            Data::List(entries) => Some(entries),
            _ => None,
        }
    }

    /// Calls a function with each value in this one and with the key of its field, and with this value itself.
    pub fn each<'a>(&'a self, key: &'a str, see: &mut impl FnMut(&'a str, &'a Self)) {
        see(key, self);
        match &self.data {
            Data::List(entries) => entries.iter().for_each(|entry| entry.each("", see)),
            Data::Map(entries) => (entries.iter())
                .for_each(|(key, value)| value.each(key.text().unwrap_or_default(), see)),
            Data::Null | Data::Plain(..) | Data::Text(_) => {}
        }
    }

    /// Calls a function with each text in the value, except the keys.
    pub fn each_text<'a>(&'a self, see: &mut impl FnMut(&'a Self, &'a str)) {
        self.each("", &mut |_, node| {
            if let Data::Text(text) = &node.data {
                see(node, text);
            }
        });
    }

    /// Replaces each text in the value, except the keys.
    pub fn change_texts(&mut self, change: &mut impl FnMut(&str) -> String) {
        match &mut self.data {
            Data::Text(text) => *text = change(text),
            Data::List(entries) => entries
                .iter_mut()
                .for_each(|entry| entry.change_texts(change)),
            Data::Map(entries) => entries
                .iter_mut()
                .for_each(|(_, value)| value.change_texts(change)),
            Data::Null | Data::Plain(..) => {}
        }
    }

    /// Gives empty values the place of the value that contains them, and gives numbers and truth values their text in the file:
    /// `1.10` is a version where a text is expected.
    fn complete(&mut self, lines: &[&str], within: Place) {
        if self.place == Place::default() {
            self.place = within;
        }
        let place = self.place;
        match &mut self.data {
            Data::Plain(_, text) => {
                let line = lines.get(place.line - 1).copied();
                // To count to a column once for each of many numbers would take too long.
                let line = line
                    .filter(|line| line.len() <= LONGEST_LINE)
                    .unwrap_or_default();
                let of_word = |c: &char| c.is_ascii_alphanumeric() || "+-._".contains(*c);
                let word = line.chars().skip(place.column - 1);
                let word: String = word.take_while(of_word).collect();
                if !word.is_empty() {
                    *text = word;
                }
            }
            Data::List(entries) => {
                for entry in entries {
                    entry.complete(lines, place);
                }
            }
            Data::Map(entries) => {
                for (key, value) in entries {
                    key.complete(lines, place);
                    value.complete(lines, key.place);
                }
            }
            Data::Null | Data::Text(_) => {}
        }
    }
}

/// The fields of a map; problems with them are collected while they are read.
#[derive(Clone, Copy)]
pub(super) struct YamlFields<'a> {
    /// The map itself, with its place.
    pub node: &'a YamlNode,
    entries: &'a [(YamlNode, YamlNode)],
    /// What the map is, for a message.
    what: &'a str,
    pub problems: &'a Problems,
}

impl<'a> YamlFields<'a> {
    /// Opens a map. Unknown fields are problems.
    pub fn of(
        node: &'a YamlNode,
        what: &'a str,
        known: &str,
        problems: &'a Problems,
    ) -> Option<Self> {
        let fields = Self::open(node, what, problems)?;
        fields.refuse(|word| !has_word(known, word), unknown(known));
        Some(fields)
    }

    /// Refuses fields by their names.
    pub fn refuse(&self, wrong: impl Fn(&str) -> bool, say: impl Fn(&YamlNode, &str) -> Problem) {
        for (key, _) in self.entries {
            let word = key.text().unwrap_or_default();
            if wrong(word) {
                self.problems.add(say(key, word));
            }
        }
    }

    /// Opens a map that may have any fields.
    pub fn open(node: &'a YamlNode, what: &'a str, problems: &'a Problems) -> Option<Self> {
        let Data::Map(entries) = &node.data else {
            problems.add(node.is_not(what, "a map of fields"));
            return None;
        };
        let mut places = HashMap::new();
        for (key, _) in entries {
            let Some(word) = key.text() else {
                problems.add(key.problem(format!("a key is {}, not a word", key.kind())));
                continue;
            };
            let first = *places.entry(word).or_insert(key.place);
            if first != key.place {
                let line = first.line;
                let message = format!("{} is written twice, first on line {line}", quote(word));
                problems.add(key.problem(message));
            }
        }
        Some(Self {
            node,
            entries,
            what,
            problems,
        })
    }

    /// Returns each key with its value.
    pub fn entries(&self) -> impl Iterator<Item = (&'a YamlNode, &'a YamlNode)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// Adds a problem of a field, or of the map if it does not have that field.
    pub fn refuse_value(&self, key: &str, message: impl Into<String>, hint: impl Into<String>) {
        let problem = self.place(key).problem(message);
        self.problems.add(problem.with_hint(hint));
    }

    /// Returns a field; a field without a value counts as missing.
    pub fn get(&self, key: &str) -> Option<&'a YamlNode> {
        self.node.get(key)
    }

    /// Returns a required field.
    pub fn need(&self, key: &str) -> Option<&'a YamlNode> {
        let found = self.get(key);
        if found.is_none() {
            let message = format!("{} has no `{key}`", self.what);
            self.problems.add(self.node.problem(message));
        }
        found
    }

    pub fn text(&self, key: &str) -> Option<&'a str> {
        let node = self.get(key)?;
        let text = node.text();
        if text.is_none() {
            self.problems
                .add(node.is_not(&format!("`{key}`"), "a text"));
        }
        text
    }

    /// Returns the text of a field as it is kept; empty if the field is missing.
    pub fn string(&self, key: &str) -> String {
        self.text(key).unwrap_or_default().to_owned()
    }

    /// Returns where a field stands, or else the map.
    pub fn place(&self, key: &str) -> Place {
        self.get(key).unwrap_or(self.node).place
    }

    /// Returns what a field stands for that is one of a few words.
    pub fn choice<T: Copy>(&self, key: &str, all: &[T], word: fn(T) -> &'static str) -> Option<T> {
        let text = self.text(key)?;
        let found = all.iter().copied().find(|one| word(*one) == text);
        if found.is_none() {
            let words = all.iter().map(|one| word(*one));
            let message = format!("`{key}` is {}", quote(text));
            self.refuse_value(key, message, suggestion(text, words));
        }
        found
    }

    /// Returns the text of a required field that must not be empty.
    pub fn word(&self, key: &str) -> Option<&'a str> {
        self.need(key)?;
        let text = self.text(key)?;
        if text.trim().is_empty() {
            let problem = self.place(key).problem(format!("`{key}` is empty"));
            self.problems.add(problem);
            return None;
        }
        Some(text)
    }

    pub fn truth(&self, key: &str) -> Option<bool> {
        let node = self.get(key)?;
        let Data::Plain(Value::Bool(truth), _) = node.data else {
            let found = node.text().map_or_else(|| node.kind().to_owned(), quote);
            let message = format!("`{key}` is {found}, not true or false");
            self.problems.add(node.problem(message));
            return None;
        };
        Some(truth)
    }

    pub fn list(&self, key: &str) -> &'a [YamlNode] {
        let entries = self.node.list(key);
        if let (Some(node), None) = (self.get(key), entries) {
            self.problems
                .add(node.is_not(&format!("`{key}`"), "a list"));
        }
        entries.unwrap_or_default()
    }

    /// Returns a list of texts with their places.
    pub fn texts(&self, key: &str) -> Vec<Reference> {
        let text = |entry| self.entry_text(key, entry);
        self.list(key).iter().filter_map(text).collect()
    }

    fn entry_text(&self, key: &str, entry: &YamlNode) -> Option<Reference> {
        let (word, place) = (entry.text().map(str::to_owned), entry.place);
        if word.is_none() {
            let message = format!("`{key}` has {} in it, not only texts", entry.kind());
            self.problems.add(entry.problem(message));
        }
        word.map(|word| Reference { word, place })
    }

    /// Returns a text, or a list of texts as the lines of a Markdown list.
    pub fn text_or_lines(&self, key: &str) -> String {
        let Some(entries) = self.node.list(key) else {
            return self.string(key);
        };
        let filled = entries.iter().filter(|entry| entry.data != Data::Null);
        let lines = filled.filter_map(|entry| self.entry_text(key, entry));
        joined(lines.map(|line| format!("- {}", line.word)), "\n")
    }

    /// Returns the order of the tasks, if one is stated.
    pub fn order(&self) -> Option<TaskOrder> {
        let word = self.text("order")?.trim().to_lowercase();
        let order = known_word(&word);
        if order.is_none() {
            let word = quote(&word);
            let message = format!("`order` is {word}, not dependencies, sequential or free");
            self.problems.add(self.place("order").problem(message));
        }
        order
    }
}

fn unknown(known: &str) -> impl Fn(&YamlNode, &str) -> Problem {
    |key, word| {
        let problem = key.problem(format!("unknown field {}", quote(word)));
        problem.with_hint(match field_meant(word, known.split(' ')) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => suggestion(word, known.split(' ')),
        })
    }
}

/// The parser reports places only in its errors. Therefore a single value is stored, and the visitor answers with an error,
/// which contains the place.
impl<'de> de::Deserialize<'de> for YamlNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let kept = Cell::new(None);
        let found = deserializer.deserialize_any(YamlScalar(&kept));
        let (place, data) = match (found, kept.take()) {
            (Ok(data), _) => {
                let first = match &data {
                    Data::List(entries) => entries.first(),
                    Data::Map(entries) => entries.first().map(|(key, _)| key),
                    _ => None,
                };
                (first.map_or_else(Place::default, |first| first.place), data)
            }
            (Err(error), Some(data)) => (place(&error.to_string()), data),
            (Err(error), None) => return Err(error),
        };
        Ok(Self { place, data })
    }
}

/// Reads ` at line 3 column 5` at the end of an error; at the beginning of the file the error has no numbers.
fn place(error: &str) -> Place {
    let numbers = || {
        let (_, place) = error.rsplit_once(" at line ")?;
        let (line, column) = place.split_once(" column ")?;
        let (line, column) = (line.parse().ok()?, column.parse().ok()?);
        Some(Place { line, column })
    };
    numbers().unwrap_or_default()
}

/// Stores a single value whose place is not known yet.
struct YamlScalar<'a>(&'a Cell<Option<Data>>);

impl YamlScalar<'_> {
    fn keep<E: de::Error>(self, data: Data) -> Result<Data, E> {
        self.0.set(Some(data));
        Err(E::custom("a value"))
    }
}

impl<'de> Visitor<'de> for YamlScalar<'_> {
    type Value = Data;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, a list or a map, without a tag")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Data, E> {
        self.keep(Data::Null)
    }

    /// An empty document.
    fn visit_none<E: de::Error>(self) -> Result<Data, E> {
        self.keep(Data::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Data, E> {
        self.keep(Data::Plain(value.into(), value.to_string()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Data, E> {
        self.keep(Data::Plain(value.into(), value.to_string()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Data, E> {
        self.keep(Data::Plain(value.into(), value.to_string()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Data, E> {
        let text = value.to_string();
        self.keep(match Number::from_f64(value) {
            Some(number) => Data::Plain(number.into(), text),
            // Not a number, or infinite: only the text is kept.
            None => Data::Text(text),
        })
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Data, E> {
        self.keep(Data::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Data, A::Error> {
        let entries = iter::from_fn(|| access.next_element().transpose());
        entries.collect::<Result<_, _>>().map(Data::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Data, A::Error> {
        let entries = iter::from_fn(|| access.next_entry().transpose());
        entries.collect::<Result<_, _>>().map(Data::Map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut lines = Vec::new();
        fn walk(node: &YamlNode, lines: &mut Vec<String>) {
            match &node.data {
                Data::List(entries) if !entries.is_empty() => {
                    entries.iter().for_each(|entry| walk(entry, lines));
                }
                Data::Map(entries) => entries.iter().for_each(|(key, value)| {
                    walk(key, lines);
                    walk(value, lines);
                }),
                _ => lines.push(
                    format!(
                        "{}:{} {} {}",
                        node.place.line,
                        node.place.column,
                        node.kind(),
                        node.text().unwrap_or_default().replace('\n', "|")
                    )
                    .trim_end()
                    .to_owned(),
                ),
            }
        }
        walk(&read(text).unwrap(), &mut lines);
        lines.join("\n")
    }

    #[test]
    fn yaml_nodes_have_positions() {
        let text = "name: x\nversion: 1.10\nlist:\n- {a: 0x10, ö: \"ü, b\"}\n-   # why\n  - true\n  - ~\ntext: |\n  one\n  two\nnone:\n";
        insta::assert_snapshot!(shown(text), @"
        1:1 a text name
        1:7 a text x
        2:1 a text version
        2:10 a number 1.10
        3:1 a text list
        4:4 a text a
        4:7 a number 0x10
        4:13 a text ö
        4:16 a text ü, b
        6:5 a truth value true
        7:5 nothing
        8:1 a text text
        8:7 a text one|two|
        11:1 a text none
        11:6 nothing
        ");
        assert_eq!(shown("\u{feff}word"), "1:1 a text word");
        assert_eq!(shown(""), "1:1 nothing");
        assert_eq!(shown("\n a:\n - []\n"), "2:2 a text a\n2:2 a list");
    }
}
