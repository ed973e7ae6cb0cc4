//! The chapter for programs names every field that `--json` prints, and every event.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;

const CHAPTER: &str = include_str!("../../docs/programs.md");

/// Takes the names of all fields within a value; the keys of `agents` and `schema` are not ours.
fn take_names(value: &Value, names: &mut BTreeSet<String>) {
    let Some(fields) = value.as_object() else {
        for value in value.as_array().into_iter().flatten() {
            take_names(value, names);
        }
        return;
    };
    for (name, value) in fields {
        names.insert(name.clone());
        match (name.as_str(), value) {
            ("schema", _) => {}
            ("agents", Value::Object(agents)) => {
                for of_agent in agents.values() {
                    take_names(of_agent, names);
                }
            }
            _ => take_names(value, names),
        }
    }
}

fn assert_named(names: &BTreeSet<String>) {
    let missing = |name: &&String| !CHAPTER.contains(&format!("`{name}`"));
    let missing: Vec<&String> = names.iter().filter(missing).collect();
    assert!(missing.is_empty(), "docs/programs.md lacks {missing:?}");
}

#[test]
fn chapter_names_every_field() {
    let env = with_a_plan("Count words");
    for args in [
        "status --json",
        "plans --json",
        "questions --json",
        "workers --json",
        "outcomes --json",
        "log --json",
        "doctor --json",
        "tools --json",
    ] {
        let printed = env.run(args).stdout;
        let mut names = BTreeSet::new();
        for value in serde_json::Deserializer::from_str(&printed).into_iter() {
            take_names(&value.unwrap(), &mut names);
        }
        assert!(!names.is_empty(), "{args}");
        assert_named(&names);
    }
}

/// A plan does not have every kind of event, so that the words are read where the program has them.
#[test]
fn chapter_names_every_event_and_state() {
    let event = include_str!("../../src/plan/event.rs");
    let state = include_str!("../../src/view/state_word.rs");
    for (source, name) in [(event, "Event"), (state, "StateWord")] {
        let (_, body) = source.split_once(&format!("pub enum {name} {{\n")).unwrap();
        let (body, _) = body.split_once("\n}").unwrap();
        let lines = body.lines().map(str::trim);
        let words = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
        let word = |line: &str| {
            let mut word = String::new();
            for c in line.chars().take_while(char::is_ascii_alphabetic) {
                if c.is_uppercase() && !word.is_empty() {
                    word.push('_');
                }
                word.push(c.to_ascii_lowercase());
            }
            word
        };
        let words: BTreeSet<String> = words.map(word).collect();
        assert!(words.len() > 10, "{words:?}");
        assert_named(&words);
    }
}
