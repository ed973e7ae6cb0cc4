//! Finds the object in a model's answer: plain JSON, JSON in a fence or amid prose, else YAML. Small slips of weak models with
//! one possible meaning are mended: tags of the prompt among the texts, and raw line breaks in strings. Every text is bounded
//! before a parser sees it, and parsed directly into its type, so that no answer can take much time or memory.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::own_words;
use crate::wire::front_matter;

/// The largest answer that is parsed, in bytes; the largest sensible plan has a fifth of that.
const MAX_ANSWER: usize = 256 << 10;
/// The largest YAML text, in bytes; its parser is quadratic in the nesting.
const MAX_YAML: usize = 64 << 10;
/// The most places at which an object may begin amid prose.
const MAX_STARTS: usize = 16;

/// The complaint about a draft beside the answer: which of them counts is not guessed.
const SEVERAL: &str = "the answer holds JSON objects that differ: give one object only";

/// The longest tag of a prompt, in bytes.
const MAX_TAG: usize = 100;

/// Reads the object that an answer holds. The error says what is wrong in words that the model can act on.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    if text.len() > MAX_ANSWER {
        return Err(format!("the answer has more than {MAX_ANSWER} bytes"));
    }
    let text = without_tags(text);
    let text = text.trim_start_matches('\u{feff}').trim();
    // What is thought counts only where nothing follows it.
    let thought = text.strip_prefix("<think>");
    if let Some((_, rest)) = thought.and_then(|text| text.rsplit_once("</think>"))
        && rest.contains('{')
    {
        return parse(rest);
    }
    let (mut complaint, mut found) = (None, None::<(T, Value)>);
    // Where JSON may be: the whole text, the fences, then the objects amid prose.
    for candidate in [vec![text], fences(text), objects(text)].concat() {
        let json = with_escaped_breaks(candidate);
        match serde_json::from_str(&json) {
            Ok(value) if candidate.len() == text.len() => return Ok(value),
            Ok(value) => {
                let json = serde_json::from_str(&json).unwrap_or_default();
                if found.is_some_and(|(_, first)| first != json) {
                    return Err(SEVERAL.to_owned());
                }
                found = Some((value, json));
            }
            // JSON of the wrong shape gives a better error than text that is no JSON; the outermost object comes first.
            Err(error) if error.is_data() => {
                complaint.get_or_insert_with(|| error.to_string());
            }
            Err(error) if candidate.starts_with('{') => {
                complaint.get_or_insert_with(|| format!("not valid JSON: {error}"));
            }
            Err(_) => {}
        }
    }
    if let Some((value, _)) = found {
        return Ok(value);
    }
    for candidate in fences(text).into_iter().chain([text]) {
        if let Ok(value) = front_matter::foreign(candidate, MAX_YAML) {
            return Ok(value);
        }
    }
    // A model may refuse in plain words.
    let said = || {
        format!(
            "the answer holds no JSON object, but says: {}",
            own_words(text)
        )
    };
    Err(complaint.unwrap_or_else(said))
}

/// Leaves out the tags of the prompt that a model has copied, `<data name="goal">` and the `</data>` that belongs to it: the
/// quotes in them would end a string. Tags with other attributes are a text's own.
fn without_tags(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("<data") {
        let length = copied_tag(&rest[at..]);
        out.push_str(&rest[..at]);
        out.push_str(&rest[at..at + length.map_or("<data".len(), |_| 0)]);
        rest = &rest[at + length.unwrap_or("<data".len())..];
    }
    out.push_str(rest);
    match out.contains("<data") {
        true => out,
        false => out.replace("</data>", ""),
    }
}

/// Returns the length of a copied tag at the start of a text.
fn copied_tag(text: &str) -> Option<usize> {
    let tag = &text[..=text.find('>').filter(|end| *end < MAX_TAG)?];
    let name = tag["<data".len()..].trim_start().strip_prefix("name=")?;
    (!name.contains(['=', '<', '\n'])).then_some(tag.len())
}

/// Escapes the line breaks and tabs that stand in strings as they are.
fn with_escaped_breaks(json: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::new(), false, false);
    for c in json.chars() {
        let was_escaped = std::mem::take(&mut escaped);
        match c {
            '"' if !was_escaped => in_string = !in_string,
            '\\' => escaped = in_string && !was_escaped,
            _ => {}
        }
        match c {
            '\n' if in_string => out.push_str("\\n"),
            '\r' if in_string => out.push_str("\\r"),
            '\t' if in_string => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out
}

/// Returns the contents of the fenced blocks, an unclosed last one included.
fn fences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut open: Option<usize> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let next = at + line.len();
        if line.trim_start().starts_with("```") {
            match open.take() {
                Some(start) => found.push(text[start..at].trim()),
                None => open = Some(next),
            }
        }
        at = next;
    }
    found.extend(open.map(|start| text[start..].trim()));
    found
}

/// Returns the outermost balanced `{…}` spans; brackets in strings do not count.
fn objects(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut from = 0;
    for _ in 0..MAX_STARTS {
        let Some(start) = text[from..].find('{').map(|offset| from + offset) else {
            break;
        };
        match balanced(&text[start..]) {
            Some(length) => {
                found.push(&text[start..start + length]);
                from = start + length;
            }
            None => from = start + 1,
        }
    }
    found
}

fn balanced(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => depth += 1,
            b'}' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct ExtractedAnswer {
        decision: String,
        steps: Vec<u32>,
    }

    fn read(text: &str) -> Result<ExtractedAnswer, String> {
        parse(text)
    }

    #[test]
    fn finds_json_in_any_wrapping() {
        let json = r#"{"decision": "a } b \" {", "steps": [1, 2]}"#;
        let wanted = ExtractedAnswer {
            decision: "a } b \" {".to_owned(),
            steps: vec![1, 2],
        };
        for text in [
            json.to_owned(),
            format!("\u{feff}  {json}\n"),
            format!("```json\n{json}\n```"),
            format!("```\n{json}\n"),
            format!("Sure! Here is {{my}} answer:\n\n```json\n{json}\n```\nAnything else?"),
            format!("I think {json} is right."),
            format!("<think>{{x}} {{\"a\":1}}</think>\n{json}"),
        ] {
            assert_eq!(read(&text).as_ref(), Ok(&wanted), "{text}");
        }
    }

    #[test]
    fn one_of_several_answers_is_not_guessed() {
        let [next, again] = ["next", "retry"].map(|decision| {
            let json = format!("{{\"decision\": \"{decision}\", \"steps\": []}}");
            (json.replace(' ', "\n"), json)
        });
        let fenced = |json: &str| format!("```json\n{json}\n```\n");
        for text in [
            format!("Draft: {}\nBut wait. Final answer: {}", next.1, again.1),
            format!("{}But wait.\n{}", fenced(&next.1), fenced(&again.1)),
            format!("{}\n{}", next.1, again.1),
            format!("{} I mean:\n{}", next.1, fenced(&again.1)),
        ] {
            assert_eq!(read(&text).unwrap_err(), SEVERAL, "{text}");
        }
        for text in [
            format!("Answer: {}\nOnce more: {}", again.1, again.0),
            format!("<think>{}, no, {{</think>\n{}", next.1, again.1),
            format!("<think>{}</think> That is all.", again.1),
            // What is no answer is not one of them.
            format!("Not {{\"decision\": \"next\"}}, but {}", again.1),
        ] {
            let decision = read(&text).unwrap().decision;
            assert!(decision.starts_with("retry"), "{text}");
        }
    }

    #[test]
    fn mends_slips_with_one_meaning() {
        let decision = |json: &str| read(json).map(|answer| answer.decision);
        for (text, wanted) in [
            ("{\"decision\": \"a\n\tb\r\", \"steps\":\n[1]}", "a\n\tb\r"),
            (
                "{\"decision\": \"a \\\"\nb\\\\\", \"steps\": [1]}",
                "a \"\nb\\",
            ),
            (
                r#"{"decision": "<data name="goal">a</data>", "steps": [1]}"#,
                "a",
            ),
            (
                r#"{"decision": "<data name=\"your answer\">a", "steps": [1]}"#,
                "a",
            ),
            (r#"{"decision": "a </data>", "steps": [1]}"#, "a "),
            // These are texts of the answer itself.
            (
                r#"{"decision": "<data value='1'>a</data>", "steps": [1]}"#,
                "<data value='1'>a</data>",
            ),
            (
                r#"{"decision": "<data name='a' xml:space='preserve'></data>", "steps": [1]}"#,
                "<data name='a' xml:space='preserve'></data>",
            ),
            (r#"{"decision": "a <datax", "steps": [1]}"#, "a <datax"),
        ] {
            assert_eq!(decision(text).as_deref(), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn reads_yaml_answers() {
        let wanted = ExtractedAnswer {
            decision: "next".to_owned(),
            steps: vec![1, 2],
        };
        for text in [
            "decision: next\nsteps: [1, 2]",
            "```yaml\ndecision: next\nsteps:\n  - 1\n  - 2\n```",
        ] {
            assert_eq!(read(text).as_ref(), Ok(&wanted), "{text}");
        }
    }

    #[test]
    fn extract_error_names_problem() {
        let complaint = |text: &str| read(text).unwrap_err();
        insta::assert_snapshot!(complaint(r#"{"decision": "next"}"#), @"missing field `steps` at line 1 column 20");
        insta::assert_snapshot!(complaint(r#"{"decision": "next", "steps": ["#), @"not valid JSON: EOF while parsing a list at line 1 column 31");
        insta::assert_snapshot!(complaint("I cannot do that."), @"the answer holds no JSON object, but says: I cannot do that.");
        insta::assert_snapshot!(complaint(""), @"the answer holds no JSON object, but says: (nothing said)");
        let long = complaint(&format!("No.\n\u{1b}[2J{}", "no ".repeat(1_000)));
        assert!(
            long.contains("says: No. ") && long.chars().count() < 400,
            "{long}"
        );
        assert!(!long.contains(char::is_control), "{long}");
        insta::assert_snapshot!(complaint(r#"{"decision":"a","decision":"b","steps":[]}"#), @"duplicate field `decision` at line 1 column 26");
    }

    #[test]
    fn rejects_hostile_answers() {
        let item = "[".repeat(100_000);
        for text in [
            item.clone(),
            format!("decision: {item}"),
            format!(r#"{{"decision": {item}"#),
            "{".repeat(200_000),
            format!("decision: a\nsteps: &a [{}]\nb: [*a, *a]", "1,".repeat(100)),
            "decision: !!python/object x\nsteps: []".to_owned(),
            format!("decision:\n {}x", "- ".repeat(30_000)),
            "x".repeat(MAX_ANSWER + 1),
            "decision: a\n<<: b\nsteps: []".to_owned(),
        ] {
            read(&text).unwrap_err();
        }
    }
}
