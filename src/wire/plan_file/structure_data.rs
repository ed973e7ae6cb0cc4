//! Plan files that hold `structure_data`, the shape of a team's workflows, as YAML or JSON.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{PlanDraft, TaskDraft, finish};
use crate::plan::{Criteria, EmptyStep, Origin, PlanSpec, TaskOrder, TaskSpec, lock_problem};
use crate::wire::field_meant;
use crate::wire::problem::checked;
use crate::wire::yaml_tree::YamlFields;
use crate::wire::{
    Checked, Problem, Problems, YamlNode, criterion_text, has_word, one_line, quote, yaml_tree,
};

/// A plan with its steps, as `structure_data`. Tools describe only the main fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "")]
pub struct Structure {
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// Such as SOP_v9.
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
    #[schemars(skip)]
    pub order: Option<String>,
    pub steps: Vec<StructureStep>,
}

/// A phase of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "")]
pub struct StructureStep {
    pub step_id: String,
    #[serde(default)]
    pub name: String,
    pub tasks: Vec<StructureTask>,
}

/// A task of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "", extend("required" = ["task_id", "name", "assignee", "description"]))]
pub struct StructureTask {
    pub task_id: String,
    pub name: String,
    /// The role; empty: any.
    #[schemars(with = "String")]
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub locks: Vec<String>,
    #[serde(default)]
    pub optional: bool,
    /// Other task_ids.
    #[serde(default)]
    pub dependencies: Vec<String>,
}

/// Reads a structure that a caller passes as a value.
///
/// # Errors
/// All problems of it, without lines.
pub fn from_structure(structure: Structure) -> Checked<PlanSpec> {
    let node = serde_json::to_value(structure).and_then(|value| yaml_tree::of_value(&value));
    let node = node.expect("a value of texts, lists and truths is a tree");
    let problems = Problems::default();
    let draft = of_node(&node, THE_PLAN, true, &problems);
    if draft.tasks.is_empty() {
        return Err(vec![Problem::new("the plan has no tasks")]);
    }
    // A caller's words: what proves them is for a person to choose.
    let mut plan = finish(draft, &problems, "").plan;
    problems.sound(())?;
    for task in &mut plan.tasks {
        task.criteria = std::mem::take(&mut task.criteria).unbound();
    }
    Ok(plan)
}

/// The most ignored fields that are named.
const NAMED: usize = 10;

/// Takes the unknown fields out of a structure that a caller passes, and returns their places.
///
/// # Errors
/// Those whose names are close to a known one.
pub fn drop_unknown(structure: &mut Value) -> Checked<Vec<String>> {
    let mut fields = Unknown::default();
    fields.take(structure, &format!("{} {OF_WORKFLOW}", THE_PLAN.1), "");
    for (at, step) in list(structure, "steps") {
        let path = format!("steps[{at}].");
        fields.take(step, STEP, &path);
        for (at, task) in list(step, "tasks") {
            fields.take(task, TASK, &format!("{path}tasks[{at}]."));
        }
    }
    let more = fields.ignored.len().saturating_sub(NAMED);
    fields.ignored.truncate(NAMED);
    (fields.ignored).extend((more > 0).then(|| format!("and {more} more")));
    checked(fields.ignored, fields.slips)
}

fn list<'a>(value: &'a mut Value, name: &str) -> impl Iterator<Item = (usize, &'a mut Value)> {
    let list = value.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().enumerate()
}

#[derive(Default)]
struct Unknown {
    ignored: Vec<String>,
    slips: Vec<Problem>,
}

impl Unknown {
    fn take(&mut self, value: &mut Value, known: &str, path: &str) {
        let Some(fields) = value.as_object_mut() else {
            return;
        };
        fields.retain(|name, _| {
            if has_word(known, name) {
                return true;
            }
            let place = format!("{path}{}", one_line(name, 60));
            let slip = Problem::new(format!("`{place}` is no field"));
            match field_meant(name, known.split(' ')) {
                Some(near) => (self.slips).push(slip.with_hint(format!("did you mean `{near}`?"))),
                None => self.ignored.push(place),
            }
            false
        });
    }
}

/// What a plan is called, and its fields.
pub(super) const THE_PLAN: (&str, &str) = (
    "the plan",
    "workspace name description workflow_template_source goal expected_outcome constraints order steps",
);

/// The same of a workflow, which says nothing of a folder. Its `id` and `parameters` are known to its caller.
pub(super) const THE_WORKFLOW: (&str, &str) = (
    "the workflow",
    "name description workflow_template_source goal expected_outcome constraints order steps",
);

/// Fields that a workflow has in addition to those of a plan's structure.
pub(crate) const OF_WORKFLOW: &str = "id parameters";

const STEP: &str = "step_id name tasks";

const TASK: &str = "task_id name assignee description expected_outcome constraints checks produces locks optional \
                    dependencies";

/// Reads a structure whose values know their places. `may_be_empty` is what a caller of a tool may say, who uses the plan
/// itself: empty words.
pub(super) fn of_node(
    node: &YamlNode,
    (what, known): (&str, &str),
    may_be_empty: bool,
    problems: &Problems,
) -> PlanDraft {
    let open = |node, what, known| YamlFields::of(node, what, known, problems);
    let word = |fields: &YamlFields<'_>, key: &str| {
        let word = match may_be_empty {
            true => fields.text(key),
            false => fields.word(key),
        };
        word.unwrap_or_default().to_owned()
    };
    let Some(fields) = open(node, what, known) else {
        return PlanDraft::default();
    };
    fields.need("name");
    let text = |key| fields.string(key);
    let mut plan = PlanSpec {
        name: text("name"),
        goal: text("goal"),
        description: text("description"),
        expected_outcome: text("expected_outcome"),
        constraints: text("constraints"),
        source: Some(text("workflow_template_source")).filter(|source| !source.is_empty()),
        ..PlanSpec::default()
    };
    fields.need("steps");
    let mut drafts: Vec<TaskDraft> = Vec::new();
    for step in fields.list("steps") {
        let Some(step) = open(step, "the step", STEP) else {
            continue;
        };
        let id = word(&step, "step_id");
        let name = step.text("name").filter(|name| !name.is_empty());
        step.need("tasks");
        let tasks = step.list("tasks");
        if tasks.is_empty() {
            plan.empty_steps.push(EmptyStep {
                step_id: id.clone(),
                name: name.unwrap_or_default().to_owned(),
                after: drafts.len(),
            });
        }
        for fields in tasks.iter().filter_map(|task| open(task, "the task", TASK)) {
            let mut draft = task_of(&fields);
            draft.task.key = Some(word(&fields, "task_id"));
            draft.task.name = word(&fields, "name");
            draft.task.step = Some(name.unwrap_or(&id).to_owned());
            draft.task.step_id = Some(id.clone());
            drafts.push(draft);
        }
    }
    refuse_duplicates(&drafts, problems);
    plan.order = match fields.get("order") {
        // If no task states dependencies, the steps define the order.
        None if drafts.iter().all(|draft| draft.after.is_empty()) => Some(TaskOrder::Sequential),
        _ => fields.order(),
    };
    PlanDraft {
        plan,
        workspace: Some(fields.string("workspace")).filter(|folder| !folder.is_empty()),
        tasks: drafts,
    }
}

/// Reads the fields of a task, except for its names.
fn task_of(fields: &YamlFields<'_>) -> TaskDraft {
    let problems = fields.problems;
    let [after, checks, produced, locks] =
        ["dependencies", "checks", "produces", "locks"].map(|key| fields.texts(key));
    let locks: Vec<String> = locks.into_iter().map(|lock| lock.word).collect();
    if let Some(problem) = lock_problem(&locks) {
        problems.add(fields.place("locks").problem(problem));
    }
    let expected = fields.place("expected_outcome");
    let mut items = Vec::new();
    let criteria = match fields.node.list("expected_outcome") {
        Some(_) => {
            items = fields.texts("expected_outcome");
            criterion_text::read_list(items.iter().map(|item| item.word.as_str()))
        }
        None => criterion_text::read(&fields.string("expected_outcome")),
    };
    let criteria = criteria.unwrap_or_else(|wrong| {
        for one in wrong {
            let place = items.get(one.at).map_or(expected, |item| item.place);
            problems.add(place.problem(one.message));
        }
        Criteria::default()
    });
    let text = |key| fields.string(key);
    let mut draft = TaskDraft {
        task: TaskSpec {
            description: text("description"),
            constraints: text("constraints"),
            assignee: Some(text("assignee")).filter(|role| !role.is_empty()),
            optional: fields.truth("optional").unwrap_or_default(),
            locks,
            origin: Origin::Person,
            ..TaskSpec::default()
        },
        number: None,
        place: fields.place("task_id"),
        after,
        checks,
        produced,
    };
    draft.expect(criteria, expected);
    draft
}

fn refuse_duplicates(drafts: &[TaskDraft], problems: &Problems) {
    let mut seen = HashSet::new();
    for draft in drafts {
        let key = draft.task.key.as_deref().unwrap_or_default();
        if !seen.insert(key) {
            let message = format!("`task_id` {} is used twice", quote(key));
            problems.add(draft.place.problem(message));
        }
    }
}
