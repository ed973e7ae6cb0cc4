//! Placeholders in double braces, `{{feature}}`. The inserted text is data: it is not searched for placeholders. A backslash
//! before the braces keeps them unchanged.

use crate::wire::plan_file::suggestion;
use crate::wire::problem::Problems;
use crate::wire::text::quote;
use crate::wire::yaml_tree::YamlNode;

/// The names that a step of a template can use, in addition to the results before it.
pub(crate) const OF_A_STEP: [&str; 3] = ["task.name", "task.description", "context"];

/// The longest text in braces that is read as a name.
const MAX_NAME: usize = 100;

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
enum TextPiece<'a> {
    Text(&'a str),
    Name(&'a str),
}

/// Replaces each name with its value.
pub(crate) fn fill(text: &str, value: &impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::with_capacity(text.len());
    each_piece(text, &mut |piece| match piece {
        TextPiece::Text(text) => filled.push_str(text),
        TextPiece::Name(name) => match value(name) {
            Some(value) => filled.push_str(&value),
            None => {
                filled.push_str("{{");
                filled.push_str(name);
                filled.push_str("}}");
            }
        },
    });
    filled
}

/// Calls a function with each name in a text.
pub(crate) fn each_name<'a>(text: &'a str, see: &mut impl FnMut(&'a str)) {
    each_piece(text, &mut |piece| {
        if let TextPiece::Name(name) = piece {
            see(name);
        }
    });
}

/// Returns whether a text contains a name.
pub(super) fn has_name(text: &str) -> bool {
    let mut found = false;
    each_name(text, &mut |_| found = true);
    found
}

/// Collects names in a step of a template that have no value when the step runs.
pub(super) fn check_step(node: &YamlNode, text: &str, number: usize, problems: &mut Problems) {
    each_name(text, &mut |name| {
        if OF_A_STEP.contains(&name) {
            return;
        }
        let step = name
            .strip_prefix("steps.")
            .and_then(|rest| rest.strip_suffix(".result"))
            .and_then(|step| step.parse::<usize>().ok());
        let problem = node.problem(format!("there is no {}", quote(&format!("{{{{{name}}}}}"))));
        problems.add(match step {
            Some(step) if (1..number).contains(&step) => return,
            Some(_) if number == 1 => problem.with_hint("no step comes before this one"),
            Some(_) => problem.with_hint(format!(
                "this is step {number}: it sees the results of steps 1 to {}",
                number - 1
            )),
            None => {
                let mut known = OF_A_STEP.to_vec();
                known.push("steps.1.result");
                problem.with_hint(suggestion(name, &known))
            }
        });
    });
}

fn each_piece<'a>(text: &'a str, see: &mut impl FnMut(TextPiece<'a>)) {
    let (mut begin, mut from) = (0, 0);
    while let Some(found) = text[from..].find("{{") {
        let open = from + found;
        from = open + 2;
        if text[..open].ends_with('\\') {
            see(TextPiece::Text(&text[begin..open - 1]));
            begin = open;
            continue;
        }
        let Some(name) = name(&text[open + 2..]) else {
            continue;
        };
        see(TextPiece::Text(&text[begin..open]));
        see(TextPiece::Name(name.0));
        begin = open + 2 + name.1;
        from = begin;
    }
    see(TextPiece::Text(&text[begin..]));
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
            assert_eq!(fill(text, &value), filled, "{text}");
        }
    }
}
