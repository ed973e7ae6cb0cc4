//! Plan files that hold `structure_data`, the shape of a team's workflows, as YAML or JSON.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Draft, PlanFile, Word, finish, order};
use crate::plan::{NewTask, Order, Origin};
use crate::wire::Problem;
use crate::wire::node::{self, Fields, Node};
use crate::wire::problem::{Place, Problems};
use crate::wire::text::quote;

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
    let node = node::read(text)?;
    Ok(of_node(&node, "the plan", Others::Ignored, problems))
}

/// What is made of fields that are not known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::wire) enum Others {
    /// But for those that are nearly known ones: they are slips.
    Ignored,
    Refused,
}

const PLAN: [&str; 8] = [
    "name",
    "description",
    "workflow_template_source",
    "goal",
    "expected_outcome",
    "constraints",
    "order",
    "steps",
];

const STEP: [&str; 3] = ["step_id", "name", "tasks"];

const TASK: [&str; 10] = [
    "task_id",
    "name",
    "assignee",
    "description",
    "expected_outcome",
    "constraints",
    "checks",
    "produces",
    "optional",
    "dependencies",
];

/// Reads a structure whose values know their places.
pub(super) fn of_node(
    node: &Node,
    what: &str,
    others: Others,
    problems: &mut Problems,
) -> (PlanFile, Vec<Draft>) {
    let open = |node, what: &str, known: &[&'static str], problems: &mut Problems| match others {
        Others::Ignored => Fields::open(node, what, problems)
            .inspect(|fields| fields.refuse_slips(known, problems)),
        Others::Refused => Fields::of(node, what, known, problems),
    };
    let Some(fields) = open(node, what, &PLAN, problems) else {
        return Default::default();
    };
    let name = fields.need("name", what, problems);
    let mut text = |key| fields.string(key, problems);
    let mut plan = PlanFile {
        name: name.map(|_| text("name")).unwrap_or_default(),
        goal: text("goal"),
        description: text("description"),
        expected_outcome: text("expected_outcome"),
        constraints: text("constraints"),
        source: Some(text("workflow_template_source")).filter(|source| !source.is_empty()),
        ..PlanFile::default()
    };
    fields.need("steps", what, problems);
    let mut drafts = Vec::new();
    for step in fields.list("steps", problems) {
        let Some(step) = open(step, "the step", &STEP, problems) else {
            continue;
        };
        let id = step
            .word("step_id", "the step", problems)
            .unwrap_or_default();
        let name = step.text("name", problems).filter(|name| !name.is_empty());
        step.need("tasks", "the step", problems);
        let tasks = step.list("tasks", problems).iter();
        for task in tasks {
            let fields = open(task, "the task", &TASK, problems);
            drafts.extend(fields.map(|fields| task_of(&fields, id, name.unwrap_or(id), problems)));
        }
    }
    refuse_duplicates(&drafts, problems);
    let order = fields.text("order", problems);
    set_order(&mut plan, order, fields.place("order"), &drafts, problems);
    (plan, drafts)
}

fn task_of(fields: &Fields<'_>, step_id: &str, step: &str, problems: &mut Problems) -> Draft {
    let key = fields
        .word("task_id", "the task", problems)
        .unwrap_or_default();
    let name = fields
        .word("name", "the task", problems)
        .unwrap_or_default();
    let optional = fields.truth("optional", problems).unwrap_or_default();
    let mut words = |key| -> Vec<Word> {
        let texts = fields.texts(key, problems).into_iter();
        texts
            .map(|(node, word)| Word {
                word: word.to_owned(),
                place: node.place,
            })
            .collect()
    };
    let (after, checks, produced) = (words("dependencies"), words("checks"), words("produces"));
    let mut text = |key| fields.string(key, problems);
    Draft {
        task: NewTask {
            key: Some(key.to_owned()),
            step: Some(step.to_owned()),
            step_id: Some(step_id.to_owned()),
            name: name.to_owned(),
            description: text("description"),
            constraints: text("constraints"),
            expected_outcome: text("expected_outcome"),
            assignee: Some(text("assignee")).filter(|role| !role.is_empty()),
            optional,
            origin: Origin::Person,
            ..NewTask::default()
        },
        place: fields.place("task_id"),
        after,
        checks,
        produced,
    }
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
    if let Ok(node) = node::read(text) {
        refuse_slips(&node, problems);
    }
    Ok(convert(structure, text, problems))
}

/// Refuses fields that nearly have the name of a known one, in a structure that was read without their places.
fn refuse_slips(node: &Node, problems: &mut Problems) {
    let told = &mut Problems::default();
    let Some(plan) = Fields::open(node, "the plan", told) else {
        return;
    };
    plan.refuse_slips(&PLAN, problems);
    for step in plan.list("steps", told) {
        let Some(step) = Fields::open(step, "the step", told) else {
            continue;
        };
        step.refuse_slips(&STEP, problems);
        for task in step.list("tasks", told) {
            if let Some(task) = Fields::open(task, "the task", told) {
                task.refuse_slips(&TASK, problems);
            }
        }
    }
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
    let order = structure.order.as_deref();
    set_order(&mut plan, order, Place::default(), &drafts, problems);
    (plan, drafts)
}

fn set_order(
    plan: &mut PlanFile,
    word: Option<&str>,
    place: Place,
    drafts: &[Draft],
    problems: &mut Problems,
) {
    match word.map(order) {
        Some(Ok(order)) => plan.order = Some(order),
        Some(Err(message)) => problems.add(place.problem(message)),
        // Without a word on dependencies it is the steps that say what comes after what.
        None if drafts.iter().all(|draft| draft.after.is_empty()) => {
            plan.order = Some(Order::Sequential);
        }
        None => {}
    }
}

fn draft(step_id: String, step: String, task: StructureTask) -> Draft {
    let place = Place::default();
    let word = |word| Word { word, place };
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
        place,
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
        draft.place.line = line;
        let words = [&mut draft.after, &mut draft.checks, &mut draft.produced];
        for word in words.into_iter().flatten() {
            word.place.line = line;
        }
    }
    drafts
}

fn refuse_duplicates(drafts: &[Draft], problems: &mut Problems) {
    let mut seen = HashSet::new();
    for draft in drafts {
        let key = draft.task.key.as_deref().unwrap_or_default();
        if !seen.insert(key) {
            let message = format!("`task_id` {} is used twice", quote(key));
            problems.add(draft.place.problem(message));
        }
    }
}
