//! The arguments of a tool call: untrusted data. This module is forgiving in form (a number as a string, an object as a JSON
//! string) and strict in meaning: it refuses what the schema of a tool does not allow, with the place and what to do.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::plan::unless_empty;
use crate::wire::{field_path, in_plain_words, joined, one_line, printable};

/// The longest text that an argument may hold, in bytes.
const MAX_TEXT: usize = 256 * 1024;

/// The longest list that an argument may hold.
const MAX_ITEMS: usize = 200_000;

/// The longest part of a wrong value that an error shows, in characters.
const SHOWN: usize = 60;

/// Why arguments do not fit a tool: the place within them, the problem, and what fits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", at(.path))]
pub struct ArgumentError {
    /// A place such as `tasks[2].dependencies`; empty for the arguments as a whole.
    pub path: String,
    pub problem: String,
}

fn at(path: &str) -> String {
    unless_empty(path, |path| format!("`{path}` "))
}

impl ArgumentError {
    pub(super) fn new(path: &str, problem: impl Into<String>) -> Self {
        let (path, problem) = (path.to_owned(), in_plain_words(&problem.into()));
        Self { path, problem }
    }

    /// Refuses a text that is too long.
    pub(super) fn unless_short(path: &str, text: &str, most: usize) -> Result<(), Self> {
        match text.len() {
            bytes if bytes > most => Err(Self::new(
                path,
                format!("has {bytes} bytes; at most {most} fit"),
            )),
            _ => Ok(()),
        }
    }
}

/// Returns the JSON schema of a tool's arguments, without the parts that a caller does not need. A tool takes no other fields.
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let settings = settings.with_transform(RecursiveTransform(simplify_schema));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    let fields = schema.ensure_object();
    fields.entry("properties").or_insert(Map::new().into());
    fields.insert("additionalProperties".to_owned(), false.into());
    schema.to_value()
}

/// Removes the parts of a schema that only cost its reader tokens.
fn simplify_schema(schema: &mut Schema) {
    if schema.get("type").is_some() || schema.get("enum").is_some() {
        schema.remove("title");
        schema.remove("format");
        if schema.get("default").is_some_and(Value::is_null) {
            schema.remove("default");
        }
    }
}

/// Reads arguments as the type of their schema; their texts stay as they are.
///
/// # Errors
/// The first thing that does not fit, with its place.
pub fn read<T: DeserializeOwned + JsonSchema>(arguments: Value) -> Result<T, ArgumentError> {
    read_fitted(fitted(&schema_of::<T>(), arguments)?)
}

/// Reads arguments that are [`fitted`].
///
/// # Errors
/// A number that is too large for its field.
pub(super) fn read_fitted<T: DeserializeOwned>(arguments: Value) -> Result<T, ArgumentError> {
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let path = error.path().to_string();
        let problem = error.into_inner();
        match path.as_str() {
            "." => ArgumentError::new("", problem.to_string()),
            path => ArgumentError::new(path, format!("does not fit: {problem}")),
        }
    })
}

/// Returns arguments in the form that a schema asks for; their texts stay as they are.
///
/// # Errors
/// The first thing that does not fit, with its place.
pub fn fitted(schema: &Value, arguments: impl Into<Value>) -> Result<Value, ArgumentError> {
    match arguments.into() {
        Value::Null => fit(schema, Map::new().into(), ""),
        given => fit(schema, given, ""),
    }
}

/// Returns arguments without what a terminal would obey, in every text and name.
pub(super) fn printable_texts(arguments: Value) -> Value {
    let field = |(name, value): (String, _)| (printable(&name), printable_texts(value));
    match arguments {
        Value::String(text) => printable(&text).into(),
        Value::Array(list) => list.into_iter().map(printable_texts).collect(),
        Value::Object(map) => map.into_iter().map(field).collect(),
        other => other,
    }
}

/// Returns the value in the form that the schema asks for.
fn fit(schema: &Value, value: Value, path: &str) -> Result<Value, ArgumentError> {
    let kinds = kinds(schema);
    if value.is_null() && nullable(schema) {
        return Ok(value);
    }
    let value = match convert(&kinds, value) {
        Value::Object(map) if allows(&kinds, "object") => object(schema, map, path)?,
        Value::Array(list) if allows(&kinds, "array") => array(schema, list, path)?,
        Value::String(text) if allows(&kinds, "string") => {
            ArgumentError::unless_short(path, &text, MAX_TEXT)?;
            text.into()
        }
        Value::Number(number) if fits_number(&kinds, &number) => number.into(),
        Value::Bool(flag) if allows(&kinds, "boolean") => flag.into(),
        other => return Err(mismatch(schema, &other, path)),
    };
    let minimum = schema.get("minimum").and_then(Value::as_f64);
    let too_small = |least| value.as_f64().is_some_and(|number| number < least);
    let words = schema.get("enum").and_then(Value::as_array);
    if minimum.is_some_and(too_small) || words.is_some_and(|words| !words.contains(&value)) {
        return Err(mismatch(schema, &value, path));
    }
    Ok(value)
}

fn nullable(schema: &Value) -> bool {
    allows(&kinds(schema), "null")
}

fn object(schema: &Value, map: Map<String, Value>, path: &str) -> Result<Value, ArgumentError> {
    let (any, none) = (Value::Bool(true), Map::new());
    let properties = schema.get("properties").and_then(Value::as_object);
    let closed = properties.is_some() && schema["additionalProperties"] == false;
    let required = properties.and(schema.get("required"));
    let required = required.and_then(Value::as_array);
    let properties = properties.unwrap_or(&none);
    let required = || required.into_iter().flatten().filter_map(Value::as_str);
    let mut fitted = Map::new();
    for (name, value) in map {
        let place = field_path(path, &name);
        match properties.get(&name) {
            // Many callers send null for an argument that they leave out.
            Some(schema)
                if value.is_null() && !nullable(schema) && required().all(|it| it != name) => {}
            Some(schema) => drop(fitted.insert(name, fit(schema, value, &place)?)),
            None if closed => {
                let known = match joined(properties.keys().map(String::as_str), ", ") {
                    none if none.is_empty() => "it takes no fields".to_owned(),
                    known => format!("known are {known}"),
                };
                let place = field_path(path, &one_line(&name, SHOWN));
                return Err(ArgumentError::new(&place, format!("is no field; {known}")));
            }
            None => drop(fitted.insert(name, fit(&any, value, &place)?)),
        }
    }
    if let Some(name) = required().find(|name| !fitted.contains_key(*name)) {
        let wanted = properties.get(name).map(wanted).unwrap_or_default();
        let problem = format!("is missing; it is {wanted}");
        return Err(ArgumentError::new(&field_path(path, name), problem));
    }
    Ok(Value::Object(fitted))
}

fn array(schema: &Value, list: Vec<Value>, path: &str) -> Result<Value, ArgumentError> {
    if list.len() > MAX_ITEMS {
        let problem = format!("has {} items; at most {MAX_ITEMS} fit", list.len());
        return Err(ArgumentError::new(path, problem));
    }
    let any = Value::Bool(true);
    let items = schema.get("items").unwrap_or(&any);
    let fitted = (list.into_iter().enumerate())
        .map(|(place, value)| fit(items, value, &format!("{path}[{place}]")));
    fitted.collect()
}

/// Converts a value whose meaning is evident into the form that the schema allows.
fn convert(kinds: &[&str], value: Value) -> Value {
    match &value {
        Value::Number(number)
            if kinds.contains(&"integer") && !kinds.contains(&"number") && !number.is_i64() =>
        {
            let fits = |n: &f64| n.fract() == 0.0 && n.abs() < 9e15;
            let whole = number.as_f64().filter(fits);
            // Exact in a double.
            whole.map_or(value, |whole| Value::from(whole as i64))
        }
        Value::String(text) if !allows(kinds, "string") => {
            match serde_json::from_str::<Value>(text.trim()) {
                Ok(Value::String(_)) | Err(_) => value,
                Ok(other) => convert(kinds, other),
            }
        }
        _ => value,
    }
}

/// Returns the types that a schema allows; none if it allows any.
fn kinds(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn allows(kinds: &[&str], kind: &str) -> bool {
    kinds.is_empty() || kinds.contains(&kind)
}

fn fits_number(kinds: &[&str], number: &serde_json::Number) -> bool {
    allows(kinds, "number") || (kinds.contains(&"integer") && (number.is_i64() || number.is_u64()))
}

fn mismatch(schema: &Value, value: &Value, path: &str) -> ArgumentError {
    let shown = one_line(&value.to_string(), SHOWN);
    let verb = match path {
        "" => "the arguments are",
        _ => "is",
    };
    let broken = broken(schema, value).map(|error| format!(", which is no JSON ({error})"));
    let broken = broken.unwrap_or_default();
    let wanted = wanted(schema);
    ArgumentError::new(path, format!("{verb} {shown}{broken}, not {wanted}"))
}

/// Returns the error of a text that should have been the JSON of an object or a list.
fn broken(schema: &Value, value: &Value) -> Option<serde_json::Error> {
    let kinds = kinds(schema);
    let text = value.as_str()?.trim_start();
    let meant = (text.starts_with('{') && kinds.contains(&"object"))
        || (text.starts_with('[') && kinds.contains(&"array"));
    serde_json::from_str::<Value>(text).err().filter(|_| meant)
}

/// Returns what a schema asks for, in words.
fn wanted(schema: &Value) -> String {
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let words = words.iter().filter_map(Value::as_str);
        return format!("one of {}", joined(words, ", "));
    }
    let kinds = kinds(schema).into_iter().filter(|kind| *kind != "null");
    let named = kinds.map(|kind| match kind {
        "integer" => match schema.get("minimum").and_then(Value::as_i64) {
            Some(least) => format!("a whole number from {least}"),
            None => "a whole number".to_owned(),
        },
        "number" => "a number".to_owned(),
        "string" => "a text".to_owned(),
        "boolean" => "true or false".to_owned(),
        "array" => match schema.get("items") {
            Some(items) if items.get("type").is_some() => {
                format!("a list, each {}", wanted(items))
            }
            _ => "a list".to_owned(),
        },
        _ => "an object".to_owned(),
    });
    match joined(named, " or ") {
        named if named.is_empty() => "any value".to_owned(),
        named => named,
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Word {
        Todo,
        Done,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Given {
        /// Which one.
        number: u32,
        name: String,
        word: Option<Word>,
        after: Option<Vec<u32>>,
        inner: Option<Inner>,
        retry: Option<bool>,
        #[serde(default)]
        left: bool,
        metadata: Option<Map<String, Value>>,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        name: String,
    }

    fn problem(arguments: Value) -> String {
        read::<Given>(arguments).unwrap_err().to_string()
    }

    #[test]
    fn what_is_evident_is_taken() {
        let given = printable_texts(json!({
            "number": "7", "name": "a\u{1b}[31mb", "word": "done", "after": "[1, \"2\", 3.0]",
            "inner": "{\"name\": \"i\"}", "retry": "true", "left": null, "metadata": {"a\u{7}": [1, {"b": "\u{1b}[0mc"}]},
        }));
        let given: Given = read(given).unwrap();
        assert_eq!(
            given,
            Given {
                number: 7,
                name: "ab".to_owned(),
                word: Some(Word::Done),
                after: Some(vec![1, 2, 3]),
                inner: Some(Inner {
                    name: "i".to_owned()
                }),
                retry: Some(true),
                left: false,
                metadata: json!({"a": [1, {"b": "c"}]}).as_object().cloned(),
            }
        );
    }

    #[test]
    fn invalid_argument_error_names_field() {
        insta::assert_snapshot!(
            [
                json!([1]),
                json!("text"),
                json!(null),
                json!({"number": 1}),
                json!({"number": 1, "name": 2}),
                json!({"number": -1, "name": "n"}),
                json!({"number": 1.5, "name": "n"}),
                json!({"number": "one", "name": "n"}),
                json!({"number": 99_999_999_999_i64, "name": "n"}),
                json!({"number": 1, "name": null}),
                json!({"number": 1, "name": "n", "word": "later"}),
                json!({"number": 1, "name": "n", "after": [1, "x"]}),
                json!({"number": 1, "name": "n", "inner": {"nam": 1}}),
                json!({"number": 1, "name": "n", "inner": {}}),
                json!({"number": 1, "name": "n", "extra": 1}),
                json!({"number": 1, "name": "x".repeat(MAX_TEXT + 1)}),
            ]
            .map(problem)
            .join("\n"),
            @r#"
        the arguments are [1], not an object
        the arguments are "text", not an object
        `number` is missing; it is a whole number from 0
        `name` is missing; it is a text
        `name` is 2, not a text
        `number` is -1, not a whole number from 0
        `number` is 1.5, not a whole number from 0
        `number` is "one", not a whole number from 0
        `number` does not fit: invalid value: integer `99999999999`, expected a whole number from 0 to 4294967295
        `name` is null, not a text
        `word` is "later", not one of todo, done
        `after[1]` is "x", not a whole number from 0
        `inner.nam` is no field; known are name
        `inner.name` is missing; it is a text
        `extra` is no field; known are after, inner, left, metadata, name, number, retry, word
        `name` has 262145 bytes; at most 262144 fit
        "#
        );
    }

    #[test]
    fn schema_is_short() {
        insta::assert_snapshot!(schema_of::<Given>().to_string(), @r#"{"additionalProperties":false,"properties":{"after":{"items":{"minimum":0,"type":"integer"},"type":["array","null"]},"inner":{"additionalProperties":false,"properties":{"name":{"type":"string"}},"required":["name"],"type":["object","null"]},"left":{"default":false,"type":"boolean"},"metadata":{"additionalProperties":true,"type":["object","null"]},"name":{"type":"string"},"number":{"description":"Which one.","minimum":0,"type":"integer"},"retry":{"type":["boolean","null"]},"word":{"enum":["todo","done",null],"type":["string","null"]}},"required":["number","name"],"type":"object"}"#);
    }
}
