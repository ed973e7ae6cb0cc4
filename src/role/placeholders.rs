//! What stands in double braces in a step: `{{task.name}}`, `{{task.description}}`, `{{context}}`, and the result of an
//! earlier step, `{{steps.1.result}}`. What is put there is data: it is never read again.

use std::cell::Cell;

use serde_json::{Map, Value};

use crate::wire::team_file::StepDoes;
use crate::wire::team_file::placeholders::{OF_A_STEP, each_name, fill};
use crate::wire::text::{clip_bytes, one_line, quote};

use super::internal_plan::InternalStep;

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

    /// Returns a text with its names replaced, cut where it gets too long; a name that is not there stays as it is.
    pub(super) fn fill(&self, text: &str) -> String {
        let filled = Filled::default();
        let text = filled.text(self, text);
        match filled.cut.get() {
            true => format!(
                "{}\n[cut after {MAX_FILLED} bytes]",
                clip_bytes(&text, MAX_FILLED)
            ),
            false => text,
        }
    }

    /// Returns parameters with the names in their texts replaced.
    ///
    /// # Errors
    /// They get too long: nothing that was cut is given to an action or a tool.
    pub(super) fn fill_all(
        &self,
        params: &Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        let filled = Filled::default();
        let params = filled.map(self, params);
        match filled.cut.get() {
            true => Err(format!(
                "what stands in double braces in its parameters comes to more than {MAX_FILLED} bytes"
            )),
            false => Ok(params),
        }
    }
}

/// How much was put into a step.
#[derive(Default)]
struct Filled {
    bytes: Cell<usize>,
    cut: Cell<bool>,
}

impl Filled {
    fn text(&self, known: &StepValues<'_>, text: &str) -> String {
        fill(text, &|name| {
            let value = known.value(name)?;
            let left = MAX_FILLED - self.bytes.get();
            if value.len() <= left {
                self.bytes.set(self.bytes.get() + value.len());
                return Some(value);
            }
            self.cut.set(true);
            self.bytes.set(MAX_FILLED);
            Some(clip_bytes(&value, left))
        })
    }

    fn map(&self, known: &StepValues<'_>, params: &Map<String, Value>) -> Map<String, Value> {
        let fill = |(name, value): (&String, &Value)| (name.clone(), self.value(known, value));
        params.iter().map(fill).collect()
    }

    fn value(&self, known: &StepValues<'_>, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(known, text)),
            Value::Array(list) => list.iter().map(|item| self.value(known, item)).collect(),
            Value::Object(map) => Value::Object(self.map(known, map)),
            other => other.clone(),
        }
    }
}

/// Returns whether a value has a name in it, so that what it will be is not known yet.
pub(super) fn has_name(value: &Value) -> bool {
    let mut found = false;
    each_text(value, &mut |text| each_name(text, &mut |_| found = true));
    found
}

/// Refuses names that do not exist when a step is done; `place` counts the steps from 1.
pub(super) fn check(does: &StepDoes, place: usize) -> Result<(), String> {
    let mut checked = Ok(());
    let mut see = |name: &str| {
        if checked.is_ok() {
            checked = check_name(name, place);
        }
    };
    match does {
        StepDoes::ExecuteAction { params, .. } | StepDoes::UseTool { params, .. } => {
            for value in params.values() {
                each_text(value, &mut |text| each_name(text, &mut see));
            }
        }
        StepDoes::RequestCollaboration {
            description,
            context,
            ..
        } => {
            each_name(description, &mut see);
            each_name(context, &mut see);
        }
    }
    checked
}

fn check_name(name: &str, place: usize) -> Result<(), String> {
    let known = match step_of(name) {
        Some(number) if (1..place).contains(&number) => return Ok(()),
        None if OF_A_STEP.contains(&name) => return Ok(()),
        Some(_) if place == 1 => "no step comes before".to_owned(),
        Some(_) => format!("step {place} sees the results of steps 1 to {}", place - 1),
        None => format!("known are {} and steps.1.result", OF_A_STEP.join(", ")),
    };
    let shown = quote(&format!("{{{{{name}}}}}"));
    Err(format!("{shown} is not there: {known}"))
}

fn step_of(name: &str) -> Option<usize> {
    let number = name.strip_prefix("steps.")?.strip_suffix(".result")?;
    number.parse().ok()
}

fn each_text(value: &Value, see: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => see(text),
        Value::Array(list) => list.iter().for_each(|item| each_text(item, see)),
        Value::Object(map) => map.values().for_each(|item| each_text(item, see)),
        _ => {}
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
            let filled = known.fill("{{task.name}}|{{task.description}}");
            assert_eq!(filled, format!("{name}|{description}"), "{task:?}");
        }
    }
}
