//! Placeholders in double braces, `{{feature}}`. The inserted text is data: it is not searched for placeholders. A backslash
//! before the braces keeps them unchanged.

use crate::wire::plan_file::suggestion;
use crate::wire::{Problems, YamlNode, quote};

/// The names that a step of a template can use, in addition to the results before it.
const OF_A_STEP: [&str; 3] = ["task.name", "task.description", "context"];

/// The longest text in braces that is read as a name.
const MAX_NAME: usize = 100;

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
enum TextPiece<'a> {
    Text(&'a str),
    Name(&'a str),
}

/// Replaces each name with its value.
pub(crate) fn fill(text: &str, mut value: impl FnMut(&str) -> Option<String>) -> String {
    let piece = |piece| match piece {
        TextPiece::Text(text) => text.to_owned(),
        TextPiece::Name(name) => value(name).unwrap_or_else(|| in_braces(name)),
    };
    pieces(text).into_iter().map(piece).collect()
}

/// Returns the names in a text.
pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).into_iter().filter_map(|piece| match piece {
        TextPiece::Name(name) => Some(name),
        TextPiece::Text(_) => None,
    })
}

/// Returns whether a text contains a name.
pub(crate) fn has_name(text: &str) -> bool {
    names(text).next().is_some()
}

/// Returns the step whose result a name stands for.
pub(crate) fn step_of(name: &str) -> Option<usize> {
    let number = name.strip_prefix("steps.")?.strip_suffix(".result")?;
    number.parse().ok()
}

/// Returns a name as it stands in a text.
pub(crate) fn in_braces(name: &str) -> String {
    format!("{{{{{name}}}}}")
}

/// Collects names in a step of a template that have no value when the step runs.
pub(super) fn check_step(node: &YamlNode, text: &str, number: usize, problems: &Problems) {
    for name in names(text) {
        if let Some(hint) = missing(name, number) {
            let problem = node.problem(format!("there is no {}", quote(&in_braces(name))));
            problems.add(problem.with_hint(hint));
        }
    }
}

/// Returns what there is instead of a name that has no value when a step runs; `number` counts the steps from 1.
pub(crate) fn missing(name: &str, number: usize) -> Option<String> {
    match step_of(name) {
        Some(step) if (1..number).contains(&step) => None,
        None if OF_A_STEP.contains(&name) => None,
        Some(_) if number == 1 => Some("no step comes before this one".to_owned()),
        Some(_) => Some(format!(
            "this is step {number}: it sees the results of steps 1 to {}",
            number - 1
        )),
        None => Some(suggestion(
            name,
            OF_A_STEP.into_iter().chain(["steps.1.result"]),
        )),
    }
}

fn pieces(text: &str) -> Vec<TextPiece<'_>> {
    let mut pieces = Vec::new();
    let (mut begin, mut from) = (0, 0);
    while let Some(found) = text[from..].find("{{") {
        let open = from + found;
        from = open + 2;
        if text[..open].ends_with('\\') {
            pieces.push(TextPiece::Text(&text[begin..open - 1]));
            begin = open;
            continue;
        }
        let Some(name) = name(&text[open + 2..]) else {
            continue;
        };
        pieces.extend([TextPiece::Text(&text[begin..open]), TextPiece::Name(name.0)]);
        begin = open + 2 + name.1;
        from = begin;
    }
    pieces.push(TextPiece::Text(&text[begin..]));
    pieces
}

/// Reads a name up to the closing braces, and returns how many bytes it occupies with them.
fn name(text: &str) -> Option<(&str, usize)> {
    let near = &text[..text.floor_char_boundary(MAX_NAME)];
    let end = near.find("}}")?;
    let name = near[..end].trim();
    let fits = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    (!name.is_empty() && name.chars().all(fits)).then_some((name, end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_does_not_expand_inserted_text() {
        let value = |name: &str| match name {
            "a" => Some("{{b}} \\{{".to_owned()),
            "b" => Some("B".to_owned()),
            _ => None,
        };
        for (text, filled) in [
            ("", ""),
            ("{{a}}{{ b }}", "{{b}} \\{{B"),
            ("\\{{b}} {{b}}", "{{b}} B"),
            ("{{c}} {{ }} {{b", "{{c}} {{ }} {{b"),
            ("{{{b}}} {b}", "{{{b}}} {b}"),
            ("${{ x y }} {{b}}é", "${{ x y }} Bé"),
        ] {
            assert_eq!(fill(text, value), filled, "{text}");
        }
    }
}
