//! Long values are stored once, however often the rows that have them change. Rows and log entries are JSON; in what
//! is stored of them, a long value is replaced by a string that names its text by its hash. A string that merely
//! looks like such a name is replaced, too, however short: what looks like a name is one.

use std::collections::{BTreeMap, HashMap};

use crate::wire::text::sha256;

/// Bytes of JSON from which on a value is stored as a text: a few times as many as its name has.
const LONG: usize = 256;

/// How the name of a text begins, within its quotes.
const NAME: &str = "\"sha256:";

/// Hexadecimal digits of a hash.
const DIGITS: usize = 64;

/// How deep a row is nested that is never stored as a text as a whole: its kind, and its fields.
const ROW: usize = 2;

/// JSON values by their hashes. A value may name others.
pub(super) type Texts = BTreeMap<String, String>;

/// The text of a value is missing.
#[derive(Debug, thiserror::Error)]
#[error("its text {0} is missing")]
pub(super) struct NoText(String);

/// Returns JSON with names instead of long values, and adds the texts that these are the names of.
pub(super) fn pack(json: &str, texts: &mut Texts) -> String {
    let mut packed = String::new();
    let mut begun = Vec::new();
    let mut rest = json;
    while let Some(at) = rest.find(['"', '{', '[', '}', ']']) {
        packed.push_str(&rest[..at]);
        let length = match rest.as_bytes()[at] {
            b'"' => string_length(&rest[at..]),
            _ => 1,
        };
        let (part, after) = rest[at..].split_at(length);
        let value = packed.len();
        packed.push_str(part);
        let is_text = match part {
            "{" | "[" => {
                begun.push(value);
                None
            }
            "}" | "]" => begun
                .pop()
                .filter(|begin| begun.len() >= ROW && packed.len() - begin > LONG),
            string => (string.len() > LONG || string.starts_with(NAME)).then_some(value),
        };
        if let Some(begin) = is_text {
            let text = packed.split_off(begin);
            let hash = sha256(&text);
            packed = packed + NAME + &hash + "\"";
            texts.insert(hash, text);
        }
        rest = after;
    }
    packed + rest
}

/// Returns how long the string is with which JSON begins.
fn string_length(json: &str) -> usize {
    let mut at = 1;
    while let Some(found) = json.get(at..).and_then(|rest| rest.find(['"', '\\'])) {
        at += found;
        if json.as_bytes()[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    json.len()
}

/// Returns whether a packed string is the name of a text.
pub(super) fn is_name(string: &str) -> bool {
    string.starts_with(&NAME[1..])
}

/// Returns whether a text may have names of others: not a string, which may look like one.
pub(super) fn names_others(text: &str) -> bool {
    !text.starts_with('"')
}

/// Returns where packed JSON has names of texts, and their hashes.
pub(super) fn names(json: &str) -> impl Iterator<Item = (usize, &str)> {
    let found = json.match_indices(NAME).map(|(at, _)| at);
    // Within a string a quote stands behind a backslash.
    let found = found.filter(|at| !json[..*at].ends_with('\\'));
    found.filter_map(|at| Some((at, json[at + NAME.len()..].get(..DIGITS)?)))
}

/// Returns JSON with its long values again.
pub(super) fn unpack(packed: &str, texts: &HashMap<String, String>) -> Result<String, NoText> {
    let (mut json, mut done) = (String::new(), 0);
    for (at, hash) in names(packed) {
        let text = texts.get(hash).ok_or_else(|| NoText(hash.to_owned()))?;
        json += &packed[done..at];
        match names_others(text) {
            true => json += &unpack(text, texts)?,
            false => json += text,
        }
        done = at + NAME.len() + DIGITS + 1;
    }
    Ok(json + packed.get(done..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "[a-z\"\\\\{}\\[\\]:,\u{1}ä]{0,20}",
            "(\\\\|\")?sha256:[a-f0-9]{0,3}",
            Just(format!("sha256:{}", sha256("\"\""))),
            Just("\\".repeat(300)),
            Just("\"".repeat(200)),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 8, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map(text.clone(), inner, 0..8)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_unpacked_is_what_was_packed(value in value()) {
            let json = value.to_string();
            let mut texts = Texts::new();
            let packed = pack(&json, &mut texts);
            let texts = texts.into_iter().collect();
            prop_assert_eq!(unpack(&packed, &texts).unwrap(), json);
            // What is packed is JSON, too.
            prop_assert!(serde_json::from_str::<Value>(&packed).is_ok());
        }

        #[test]
        fn what_is_no_json_comes_back_as_well(text in "[{}\\[\\]\"\\\\a]{0,40}") {
            let mut texts = Texts::new();
            let packed = pack(&text, &mut texts);
            let texts = texts.into_iter().collect();
            prop_assert_eq!(unpack(&packed, &texts).unwrap(), text);
        }
    }

    #[test]
    fn a_long_value_is_one_text_however_often_it_occurs() {
        let long = "long ".repeat(100);
        let files: Vec<String> = (0..100).map(|number| format!("file {number}")).collect();
        let row = |number: u32| json!({"attempt": {"id": number, "text": long, "report": {"results": long}, "files": files}});
        let mut texts = Texts::new();
        let packed: Vec<_> = (0..3)
            .map(|number| pack(&row(number).to_string(), &mut texts))
            .collect();
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(packed.iter().all(|row| row.len() < 300), "{packed:?}");
        assert!(packed[0].starts_with(r#"{"attempt":{"#));
        let missing = unpack(&packed[0], &HashMap::new()).unwrap_err();
        assert!(missing.to_string().contains("is missing"));
    }
}
