//! What stands in double braces in a step: `{{task.name}}`, `{{task.description}}`, `{{context}}`, and the result of an
//! earlier step, `{{steps.1.result}}`. What is put there is data: it is never read again.

use serde_json::Value;

use crate::wire::team_file::placeholders;
use crate::wire::team_file::placeholders::{fill, in_braces, missing, names, step_of};
use crate::wire::{StepDoes, one_line, quote};

use super::InternalStep;
use super::abilities::Params;
use super::plan_tools::LOST_ANSWER;

/// Characters of the first line of a task that are its name.
const NAME: usize = 160;

/// Bytes that are put into a step in the place of names: what another role is asked has to stay below what is read of a
/// command, and of a parameter.
const MAX_FILLED: usize = 240 * 1024;

/// What can be put into a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepValues<'a> {
    pub(super) description: &'a str,
    pub(super) context: &'a str,
    pub(super) steps: &'a [InternalStep],
}

impl StepValues<'_> {
    /// Returns the first line that is not empty, which is the name of a task if it is a heading, and what comes after it.
    fn first_line(&self) -> (&str, &str) {
        let text = self.description.trim();
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        (first.trim_end(), rest.trim())
    }

    fn value(&self, name: &str) -> Option<String> {
        match name {
            "task.name" => {
                let (first, _) = self.first_line();
                Some(one_line(first.trim_start_matches(['#', ' ']), NAME))
            }
            "task.description" => Some(match self.first_line() {
                (first, rest) if first.starts_with("# ") && !rest.is_empty() => rest.to_owned(),
                // A task that has only a name is described by it.
                (first, "") => first.trim_start_matches(['#', ' ']).to_owned(),
                _ => self.description.to_owned(),
            }),
            "context" => Some(self.context.to_owned()),
            name => {
                let step = self.steps.get(step_of(name)?.checked_sub(1)?)?;
                Some(step.result.clone().unwrap_or_default())
            }
        }
    }

    /// Returns a text with its names replaced; a name that is not there stays as it is.
    ///
    /// # Errors
    /// It gets too long: nothing that was cut is handed on.
    pub(super) fn fill(&self, text: &str) -> Result<String, String> {
        let mut filler = Filler::new(self);
        let text = filler.text(text);
        filler.fits(text)
    }

    /// Returns parameters with the names in their texts replaced.
    ///
    /// # Errors
    /// As [`Self::fill`].
    pub(super) fn fill_all(&self, params: &Params) -> Result<Params, String> {
        let mut filler = Filler::new(self);
        let params = filler.map(params);
        filler.fits(params)
    }
}

/// Puts values into a step, up to a limit.
struct Filler<'a> {
    values: &'a StepValues<'a>,
    /// Bytes that may still be put in.
    left: usize,
    too_long: bool,
    /// One of them is not known any more.
    lost: bool,
}

impl<'a> Filler<'a> {
    fn new(values: &'a StepValues<'a>) -> Self {
        Self {
            values,
            left: MAX_FILLED,
            too_long: false,
            lost: false,
        }
    }

    fn text(&mut self, text: &str) -> String {
        fill(text, |name| {
            let value = self.values.value(name)?;
            self.lost |= value.contains(LOST_ANSWER);
            match self.left.checked_sub(value.len()) {
                Some(left) => self.left = left,
                None => {
                    self.too_long = true;
                    return Some(String::new());
                }
            }
            Some(value)
        })
    }

    fn fits<T>(&self, filled: T) -> Result<T, String> {
        let reason = "what stands in double braces";
        if self.lost {
            return Err(format!("{reason}: a tool {LOST_ANSWER}"));
        }
        let refused = || format!("{reason} comes to more than {MAX_FILLED} bytes");
        (!self.too_long).then_some(filled).ok_or_else(refused)
    }

    fn map(&mut self, params: &Params) -> Params {
        let fill = |(name, value): (&String, &Value)| (name.clone(), self.value(value));
        params.iter().map(fill).collect()
    }

    fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(list) => list.iter().map(|item| self.value(item)).collect(),
            Value::Object(map) => Value::Object(self.map(map)),
            other => other.clone(),
        }
    }
}

/// Returns whether a value has a name in it, so that what it will be is not known yet.
pub(super) fn has_name(value: &Value) -> bool {
    texts(value).into_iter().any(placeholders::has_name)
}

/// Refuses names that do not exist when a step is done; `place` counts the steps from 1.
pub(super) fn check(does: &StepDoes, place: usize) -> Result<(), String> {
    let texts: Vec<&str> = match does {
        StepDoes::ExecuteAction { params, .. } | StepDoes::UseTool { params, .. } => {
            params.values().flat_map(texts).collect()
        }
        StepDoes::RequestCollaboration {
            description,
            context,
            ..
        } => vec![description.as_str(), context],
    };
    let mut names = texts.into_iter().flat_map(names);
    match names.find_map(|name| Some((name, missing(name, place)?))) {
        Some((name, hint)) => Err(format!("there is no {}: {hint}", quote(&in_braces(name)))),
        None => Ok(()),
    }
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(list) => list.iter().flat_map(texts).collect(),
        Value::Object(map) => map.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_description_follows_its_name() {
        for (task, name, description) in [
            (
                "# Build it\n\nWith tests.\n\n## How\n\nSo.",
                "Build it",
                "With tests.\n\n## How\n\nSo.",
            ),
            ("# Build it", "Build it", "Build it"),
            (
                "\nBuild it\nwith tests.\n",
                "Build it",
                "\nBuild it\nwith tests.\n",
            ),
            ("## How\n\nSo.", "How", "## How\n\nSo."),
            (
                "#1 is broken\nMend it.",
                "1 is broken",
                "#1 is broken\nMend it.",
            ),
            ("", "", ""),
        ] {
            let known = StepValues {
                description: task,
                context: "",
                steps: &[],
            };
            let filled = known.fill("{{task.name}}|{{task.description}}").unwrap();
            assert_eq!(filled, format!("{name}|{description}"), "{task:?}");
        }
    }
}
