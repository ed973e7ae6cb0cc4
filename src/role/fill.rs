//! What stands in double braces in a step: `{{task.name}}`, `{{task.description}}`, `{{context}}`, and the result of an
//! earlier step, `{{steps.1.result}}`. What is put there is data: it is never looked at again.

use serde_json::{Map, Value};

use crate::wire::team::StepDoes;
use crate::wire::team::fill::{OF_A_STEP, each_name, fill};
use crate::wire::text::{one_line, quote};

use super::plan::Step;

/// Characters of the first line of a task that are its name.
const NAME: usize = 160;

/// What can be put into a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub(super) description: &'a str,
    pub(super) context: &'a str,
    pub(super) steps: &'a [Step],
}

impl Known<'_> {
    fn value(&self, name: &str) -> Option<String> {
        match name {
            "task.name" => {
                let mut lines = self.description.lines().map(str::trim);
                let line = lines.find(|line| !line.is_empty()).unwrap_or_default();
                Some(one_line(line.trim_start_matches(['#', ' ']), NAME))
            }
            "task.description" => Some(self.description.to_owned()),
            "context" => Some(self.context.to_owned()),
            name => {
                let step = self.steps.get(step_of(name)?.checked_sub(1)?)?;
                Some(step.result.clone().unwrap_or_default())
            }
        }
    }

    /// Returns a text with its names replaced; a name that is not there stays as it is.
    pub(super) fn fill(&self, text: &str) -> String {
        fill(text, &|name| self.value(name))
    }

    /// Returns parameters with the names in their texts replaced.
    pub(super) fn fill_all(&self, params: &Map<String, Value>) -> Map<String, Value> {
        let fill = |(name, value): (&String, &Value)| (name.clone(), self.fill_value(value));
        params.iter().map(fill).collect()
    }

    fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(list) => list.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(map) => Value::Object(self.fill_all(map)),
            other => other.clone(),
        }
    }
}

/// Tells whether a value has a name in it, so that what it will be is not known yet.
pub(super) fn has_name(value: &Value) -> bool {
    let mut found = false;
    each_text(value, &mut |text| each_name(text, &mut |_| found = true));
    found
}

/// Refuses names that are not there when a step is done; `place` counts the steps from 1.
pub(super) fn check(does: &StepDoes, place: usize) -> Result<(), String> {
    let mut wrong = None;
    let mut see = |name: &str| {
        let there = OF_A_STEP.contains(&name)
            || step_of(name).is_some_and(|number| (1..place).contains(&number));
        if !there && wrong.is_none() {
            let shown = quote(&format!("{{{{{name}}}}}"));
            wrong = Some(match step_of(name) {
                Some(_) if place == 1 => format!("{shown} is not there: no step comes before"),
                Some(_) => format!(
                    "{shown} is not there: step {place} sees the results of steps 1 to {}",
                    place - 1
                ),
                None => format!(
                    "{shown} is not there: known are {} and steps.1.result",
                    OF_A_STEP.join(", ")
                ),
            });
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
    wrong.map_or(Ok(()), Err)
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
