//! Plan files that hold `structure_data`, the shape of a team's workflows, as YAML or JSON.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Draft, PlanFile, Word, finish, order};
use crate::plan::{NewTask, Order, Origin};
use crate::wire::problem::Problems;
use crate::wire::text::quote;
use crate::wire::{Problem, front};

/// A plan with its steps, as `structure_data`. Files may say more in it than tools, and have fields of others beside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, description = "")]
pub struct Structure {
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// Such as SOP_v9.
    #[serde(default)]
    pub workflow_template_source: Option<String>,
    #[serde(default)]
    #[schemars(skip)]
    pub goal: String,
    #[serde(default)]
    #[schemars(skip)]
    pub expected_outcome: String,
    #[serde(default)]
    #[schemars(skip)]
    pub constraints: String,
    #[serde(default)]
    #[schemars(skip)]
    pub order: Option<String>,
    pub steps: Vec<StructureStep>,
}

/// A phase of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, description = "")]
pub struct StructureStep {
    pub step_id: String,
    #[serde(default)]
    pub name: String,
    pub tasks: Vec<StructureTask>,
}

/// A task of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, description = "")]
pub struct StructureTask {
    pub task_id: String,
    pub name: String,
    /// The role.
    #[serde(default)]
    pub assignee: Option<String>,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    #[schemars(skip)]
    pub expected_outcome: String,
    #[serde(default)]
    #[schemars(skip)]
    pub constraints: String,
    #[serde(default)]
    #[schemars(skip)]
    pub checks: Vec<String>,
    #[serde(default)]
    #[schemars(skip)]
    pub produces: Vec<String>,
    #[serde(default)]
    pub optional: bool,
    /// Other task_ids.
    #[serde(default)]
    pub dependencies: Vec<String>,
}

/// Reads a structure that was handed over as such.
///
/// # Errors
/// All problems of it, without lines.
pub fn from_structure(structure: Structure) -> Result<PlanFile, Vec<Problem>> {
    let mut problems = Problems::default();
    let (plan, drafts) = convert(structure, "", &mut problems);
    if drafts.is_empty() {
        return Err(vec![Problem::new("the plan has no tasks")]);
    }
    finish(plan, drafts, problems, "")
}

pub(super) fn read_yaml(
    text: &str,
    problems: &mut Problems,
) -> Result<(PlanFile, Vec<Draft>), Problem> {
    Ok(convert(front::document(text)?, text, problems))
}

pub(super) fn read_json(
    text: &str,
    problems: &mut Problems,
) -> Result<(PlanFile, Vec<Draft>), Problem> {
    let structure = serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|error| {
        let text = error.to_string();
        let message = text.split(" at line ").next().unwrap_or(&text);
        Problem::at(error.line(), error.column(), message)
    })?;
    Ok(convert(structure, text, problems))
}

fn convert(structure: Structure, text: &str, problems: &mut Problems) -> (PlanFile, Vec<Draft>) {
    let mut plan = PlanFile {
        name: structure.name,
        goal: structure.goal,
        description: structure.description,
        expected_outcome: structure.expected_outcome,
        constraints: structure.constraints,
        source: structure.workflow_template_source,
        ..PlanFile::default()
    };
    let steps = structure.steps.into_iter().flat_map(|step| {
        let name = if step.name.is_empty() {
            step.step_id.clone()
        } else {
            step.name
        };
        let id = step.step_id;
        let tasks = step.tasks.into_iter();
        tasks.map(move |task| draft(id.clone(), name.clone(), task))
    });
    let drafts: Vec<Draft> = steps.collect();
    let drafts = with_lines(drafts, text);
    refuse_duplicates(&drafts, problems);
    match structure.order.as_deref().map(order) {
        Some(Ok(order)) => plan.order = Some(order),
        Some(Err(message)) => problems.add(Problem::new(message)),
        // Without a word on dependencies it is the steps that say what comes after what.
        None if drafts.iter().all(|draft| draft.after.is_empty()) => {
            plan.order = Some(Order::Sequential);
        }
        None => {}
    }
    (plan, drafts)
}

fn draft(step_id: String, step: String, task: StructureTask) -> Draft {
    let word = |word| Word {
        word,
        line: None,
        column: None,
    };
    Draft {
        task: NewTask {
            key: Some(task.task_id),
            step: Some(step),
            step_id: Some(step_id),
            name: task.name,
            description: task.description,
            constraints: task.constraints,
            expected_outcome: task.expected_outcome,
            assignee: task.assignee.filter(|role| !role.is_empty()),
            optional: task.optional,
            origin: Origin::Person,
            ..NewTask::default()
        },
        line: None,
        after: task.dependencies.into_iter().map(word).collect(),
        checks: task.checks.into_iter().map(word).collect(),
        produced: task.produces.into_iter().map(word).collect(),
    }
}

/// Gives each task the line of its `task_id`, which the typed parsers do not tell, if there are as many of them as tasks.
fn with_lines(mut drafts: Vec<Draft>, text: &str) -> Vec<Draft> {
    let lines: Vec<usize> = (1..)
        .zip(text.lines())
        .flat_map(|(number, line)| line.match_indices("task_id").map(move |_| number))
        .collect();
    if lines.len() != drafts.len() {
        return drafts;
    }
    for (draft, line) in drafts.iter_mut().zip(lines) {
        draft.line = Some(line);
        let words = [&mut draft.after, &mut draft.checks, &mut draft.produced];
        for word in words.into_iter().flatten() {
            word.line = Some(line);
        }
    }
    drafts
}

fn refuse_duplicates(drafts: &[Draft], problems: &mut Problems) {
    let mut seen = HashSet::new();
    for draft in drafts {
        let key = draft.task.key.as_deref().unwrap_or_default();
        if !seen.insert(key) {
            problems.add(Problem {
                line: draft.line,
                ..Problem::new(format!("`task_id` {} is used twice", quote(key)))
            });
        }
    }
}
