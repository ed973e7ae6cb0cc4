//! Workflows of a team file: a plan's structure with parameters in its texts.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{bounded, id, placeholders};
use crate::plan::{PlanSpec, words};
use crate::wire::plan_file::{OF_WORKFLOW, from_workflow, suggestion};
use crate::wire::yaml_tree::{Data, YamlFields};
use crate::wire::{
    Checked, PlanFile, Problem, Problems, YamlNode, has_word, is_identifier, joined, one_line,
    printable, quote, yaml_tree,
};

/// The most characters of a parameter's value.
const MAX_VALUE: usize = 8_000;

/// The most bytes of the name of a parameter.
const MAX_NAME: usize = 64;

/// Fields that define the structure of the plan, which must be known before the parameters are.
const FIXED: [&str; 4] = ["step_id", "task_id", "dependencies", "order"];

/// A plan whose parameters have no values yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Workflow {
    /// `[A-Za-z0-9][A-Za-z0-9_-]{0,63}`.
    pub id: String,
    /// The purpose, with the names of its parameters unreplaced.
    pub description: String,
    /// In the order of the file, each with a unique name.
    pub parameters: Vec<Parameter>,
    /// The fields of the plan's structure.
    pub(super) structure: YamlNode,
}

/// A value that is needed before the plan can be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// A letter or `_`, then letters, digits and `_`.
    pub name: String,
    pub kind: ParameterKind,
    pub description: String,
    /// Used if no value is given; it is valid for the parameter.
    pub default: Option<String>,
    /// The only allowed values; empty if any value is allowed.
    pub choices: Vec<String>,
}

words! {
    /// The type of a parameter, in the words of JSON Schema.
    #[derive(Default)]
    pub enum ParameterKind {
        #[default]
        Text = "string",
        Integer = "integer",
        Number = "number",
        Boolean = "boolean",
    }
}

impl ParameterKind {
    /// Returns whether two accepted texts mean the same: 1.5 is 1.50.
    fn same(self, one: &str, other: &str) -> bool {
        let number = |text: &str| text.parse::<f64>().ok();
        let numbers = matches!(self, Self::Integer | Self::Number);
        one == other || (numbers && number(one) == number(other))
    }

    fn accepts(self, text: &str) -> bool {
        match self {
            Self::Text => true,
            Self::Integer => text.parse::<i64>().is_ok(),
            Self::Number => text.parse::<f64>().is_ok_and(f64::is_finite),
            Self::Boolean => matches!(text, "true" | "false"),
        }
    }
}

impl Parameter {
    /// Returns the text of a value that is given for the parameter; numbers and truth values may be given as texts.
    ///
    /// # Errors
    /// Why the value is not valid.
    pub fn accept(&self, value: &Value) -> Result<String, String> {
        let text = match value {
            Value::String(text) => printable(text),
            Value::Number(number) => number.to_string(),
            Value::Bool(truth) => truth.to_string(),
            Value::Null => return Err("has no value".to_owned()),
            Value::Array(_) | Value::Object(_) => {
                return Err("is a list or an object, not one value".to_owned());
            }
        };
        let text = match self.kind {
            ParameterKind::Text => text,
            _ => text.trim().to_owned(),
        };
        if text.chars().nth(MAX_VALUE).is_some() {
            return Err(format!("has more than {MAX_VALUE} characters"));
        }
        if !self.kind.accepts(&text) {
            return Err(match self.kind {
                ParameterKind::Boolean => format!("is {}, not true or false", quote(&text)),
                kind => format!("is {}, not of type {}", quote(&text), kind.as_str()),
            });
        }
        if self.choices.is_empty() {
            return Ok(text);
        }
        let mut choices = self.choices.iter();
        match choices.find(|choice| self.kind.same(choice, &text)) {
            Some(choice) => Ok(choice.clone()),
            None => {
                let choices = joined(self.choices.iter().map(|word| quote(word)), ", ");
                let text = quote(&text);
                Err(format!("is {text}, not one of {choices}"))
            }
        }
    }

    /// Returns the text of a value that may be given, or why there is none.
    fn value(&self, given: Option<&Value>) -> Result<String, String> {
        let value = match (given, &self.default) {
            (Some(value), _) => self.accept(value)?,
            (None, Some(default)) => return Ok(default.clone()),
            (None, None) => return Err("is missing".to_owned()),
        };
        // An empty value is allowed only where the file itself lists it.
        let listed = self.default.is_some() || self.choices.contains(&value);
        match value.trim().is_empty() && !listed {
            true => Err("is empty".to_owned()),
            false => Ok(value),
        }
    }

    /// Returns a sample value for a parameter whose value is not known yet.
    fn sample(&self) -> String {
        let sample = match self.kind {
            ParameterKind::Text => "text",
            ParameterKind::Integer | ParameterKind::Number => "1",
            ParameterKind::Boolean => "true",
        };
        let known = self.default.as_ref().or(self.choices.first());
        known.map_or(sample, String::as_str).to_owned()
    }
}

impl Workflow {
    /// Creates the plan. A value is inserted unchanged in place of its parameter's name; it is never interpreted.
    ///
    /// # Errors
    /// Parameters that are missing, unknown or invalid, else the problems of the resulting plan.
    pub fn instantiate(&self, given: &Map<String, Value>) -> Checked<PlanFile> {
        let problems = Problems::default();
        for name in given.keys() {
            if !self.parameters.iter().any(|known| known.name == *name) {
                let (id, word) = (&self.id, quote(name));
                let message = format!("the workflow `{id}` has no parameter {word}");
                let hint = suggestion(name, names(&self.parameters).into_iter());
                problems.add(Problem::new(message).with_hint(hint));
            }
        }
        let mut values = BTreeMap::new();
        for parameter in &self.parameters {
            let name = &parameter.name;
            match parameter.value(given.get(name)) {
                Ok(value) => drop(values.insert(name.as_str(), value)),
                Err(reason) => {
                    let problem = Problem::new(format!("the parameter `{name}` {reason}"));
                    let about = one_line(&parameter.description, 200);
                    problems.add(match about.is_empty() || about == *name {
                        true => problem,
                        false => problem.with_hint(format!("`{name}`: {about}")),
                    });
                }
            }
        }
        problems.sound(())?;
        self.made_with(&|name| values.get(name).cloned())
    }

    fn made_with(&self, value: &impl Fn(&str) -> Option<String>) -> Checked<PlanFile> {
        let mut structure = self.structure.clone();
        structure.change_texts(&mut |text| placeholders::fill(text, value));
        from_workflow(&structure)
    }

    /// Returns each task, with texts unreplaced.
    pub(super) fn tasks(&self) -> impl Iterator<Item = &YamlNode> {
        let steps = self.structure.list("steps").unwrap_or_default().iter();
        let tasks = steps.flat_map(|step| step.list("tasks").unwrap_or_default());
        tasks.filter(|task| matches!(task.data, Data::Map(_)))
    }
}

/// Creates the plan of a workflow that a caller passes as a value, with its parameters. It needs no `id`.
///
/// # Errors
/// All problems of the workflow, else as [`Workflow::instantiate`].
pub fn plan_of_workflow(
    workflow: &Map<String, Value>,
    given: &Map<String, Value>,
) -> Checked<PlanSpec> {
    let mut workflow = workflow.clone();
    workflow.entry("id").or_insert_with(|| "workflow".into());
    let node = yaml_tree::of_value(&workflow.into());
    let node = node.map_err(|error| vec![Problem::new(format!("the workflow: {error}"))])?;
    let problems = Problems::default();
    let Some(workflow) = read(&node, &problems) else {
        return Err(problems.in_order());
    };
    problems.sound(())?;
    let mut plan = workflow.instantiate(given)?.plan;
    plan.source = plan.source.or(Some(workflow.id));
    Ok(plan)
}

/// Reads a workflow. Problems of its structure are reported as if it were that of a plan file.
pub(super) fn read(node: &YamlNode, problems: &Problems) -> Option<Workflow> {
    let fields = YamlFields::open(node, "the workflow", problems)?;
    let id = id(&fields);
    let parameters = parameters(&fields);
    let mut structure = node.clone();
    if let Data::Map(entries) = &mut structure.data {
        entries.retain(|(key, _)| !key.text().is_some_and(|key| has_word(OF_WORKFLOW, key)));
    }
    structure.place = fields.place("id");
    check_names(&structure, &parameters, problems);
    let description = fields.get("description").and_then(YamlNode::text);
    let workflow = Workflow {
        id,
        description: description.unwrap_or_default().to_owned(),
        parameters,
        structure,
    };
    let sample = |name: &str| {
        let mut parameters = workflow.parameters.iter();
        Some((parameters.find(|known| known.name == name)?).sample())
    };
    if let Err(found) = workflow.made_with(&sample) {
        found.into_iter().for_each(|problem| problems.add(problem));
    }
    Some(workflow)
}

/// Collects names in the texts of a structure that are not parameters, or that stand where none is allowed.
fn check_names(structure: &YamlNode, parameters: &[Parameter], problems: &Problems) {
    let names = names(parameters);
    structure.each_text(&mut |node, text| {
        for name in placeholders::names(text).filter(|name| !names.contains(name)) {
            let message = format!("there is no parameter {}", quote(name));
            let hint = match suggestion(name, names.iter().copied()) {
                near if near.starts_with("did") => near,
                _ => "define it under `parameters` of the workflow, or write `\\{{` for the braces themselves".to_owned(),
            };
            problems.add(node.problem(message).with_hint(hint));
        }
    });
    structure.each("", &mut |key, value| {
        if FIXED.contains(&key) {
            value.each_text(&mut |node, text| {
                if placeholders::has_name(text) {
                    problems.add(node.problem(format!("`{key}` cannot have a parameter in it")));
                }
            });
        }
    });
}

fn names(parameters: &[Parameter]) -> Vec<&str> {
    parameters.iter().map(|known| known.name.as_str()).collect()
}

fn parameters(fields: &YamlFields<'_>) -> Vec<Parameter> {
    let problems = fields.problems;
    let Some(node) = fields.get("parameters") else {
        return Vec::new();
    };
    let Some(fields) = YamlFields::open(node, "`parameters`", problems) else {
        return Vec::new();
    };
    if fields.entries().nth(super::MAX_ENTRIES).is_some() {
        let most = super::MAX_ENTRIES;
        problems.add(node.problem(format!("`parameters` has more than {most} entries")));
    }
    let read = |(key, value)| parameter(key, value, problems);
    fields.entries().filter_map(read).collect()
}

fn parameter(key: &YamlNode, node: &YamlNode, problems: &Problems) -> Option<Parameter> {
    let name = key.text()?;
    if name.len() > MAX_NAME || !is_identifier(name) {
        let problem = key.problem(format!("{} cannot be the name of a parameter", quote(name)));
        problems.add(problem.with_hint(
            "a name begins with a letter or `_`, and has only letters, digits and `_` in it",
        ));
    }
    let mut parameter = Parameter {
        name: name.to_owned(),
        ..Parameter::default()
    };
    if node.data == Data::Null {
        return Some(parameter);
    }
    if let Some(word) = node.text() {
        let kinds = ParameterKind::ALL.map(ParameterKind::as_str);
        let kind = kinds.into_iter().find(|kind| *kind == word);
        let kind = kind.unwrap_or("string");
        let message = format!("the parameter `{name}` is a text, not a map of fields");
        let hint = format!("write `{name}: {{type: {kind}, description: \"…\"}}`");
        problems.add(node.problem(message).with_hint(hint));
        return Some(parameter);
    }
    let known = "type description default choices";
    let fields = YamlFields::of(node, "the parameter", known, problems)?;
    match fields.choice("type", &ParameterKind::ALL, ParameterKind::as_str) {
        Some(kind) => parameter.kind = kind,
        None if fields.get("type").is_some_and(|node| node.text().is_some()) => {
            return Some(parameter);
        }
        None => {}
    }
    parameter.description = fields.string("description");
    let choices = bounded(&fields, "choices");
    let accept = |what: &str, parameter: &Parameter, node: &YamlNode| {
        // Keeps the text in the file: 1.10 is not 1.1.
        let accepted = parameter.accept(&node.text().map_or_else(|| node.value(), Value::from));
        let refused = |reason| problems.add(node.problem(format!("{what} {reason}")));
        accepted.map_err(refused).ok()
    };
    let choice = |node| accept("a choice", &parameter, node);
    parameter.choices = choices.iter().filter_map(choice).collect();
    if let Some(node) = fields.get("default") {
        parameter.default = accept("the default", &parameter, node);
    }
    Some(parameter)
}
