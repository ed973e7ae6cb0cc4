//! The edits of a replan: their schema, and the checks before they are applied. An answer may change pending tasks, and may
//! name tasks that exist or that it adds itself.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::answer_fields::{MAX_NAME, MAX_REASON, cut, name, optional, way_round};
use super::new_tasks::{MAX_TASKS, assignee, new_assignee, role_ids};
use crate::llm::Schema;
use crate::llm::prompt_context::editable;
use crate::llm::quoting::one_line;
use crate::plan::{NewTask, Origin, Plan, ReplanEdit, TaskChanges, TaskId, TaskRef, find_cycle};
use crate::wire::team_file::Team;

#[derive(Deserialize)]
pub(super) struct ReplanAnswer {
    pub(super) edits: Vec<EditAnswer>,
}

/// One edit; which fields count depends on the action, empty ones change nothing.
#[derive(Deserialize)]
pub(super) struct EditAnswer {
    action: String,
    #[serde(default)]
    task: Option<u32>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    expected_output: Option<String>,
    #[serde(default)]
    constraints: Option<String>,
    #[serde(default)]
    depends_on: Option<Vec<Value>>,
    #[serde(default)]
    assignee: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

pub(super) fn edit_schema(team: Option<&Team>) -> Schema {
    let mut properties = vec![
        ("action", Schema::one_of(["add", "update", "skip"])),
        ("task", Schema::OptionalInteger),
        ("reason", Schema::Text("why, one sentence")),
        ("name", Schema::OptionalText("null: as it is")),
        ("description", Schema::OptionalText("null: as it is")),
        ("constraints", Schema::OptionalText("null: as they are")),
        ("expected_output", Schema::OptionalText("null: as it is")),
        (
            "depends_on",
            Schema::OptionalList(Box::new(Schema::Text("`3` or `n1`"))),
        ),
    ];
    if team.is_some() {
        properties.push(("assignee", Schema::OptionalText("a role; null: as it is")));
    }
    Schema::Object(properties)
}

/// The tasks and names that a replan may use.
pub(super) struct ReplanScope {
    editable: BTreeSet<u32>,
    cause: Option<u32>,
    /// Every task with its dependencies.
    graph: BTreeMap<u64, Vec<u64>>,
    /// The roles that may get a task.
    roles: Vec<String>,
}

impl ReplanScope {
    pub(super) fn new(plan: &Plan, cause: Option<TaskId>, team: Option<&Team>) -> Self {
        Self {
            roles: role_ids(team),
            editable: editable(plan).map(|task| task.number.0).collect(),
            cause: cause.map(|id| id.0),
            graph: plan
                .tasks()
                .map(|task| {
                    let on = task.dependencies.iter().map(|id| u64::from(id.0));
                    (u64::from(task.number.0), on.collect())
                })
                .collect(),
        }
    }

    pub(super) fn edits(&self, answers: Vec<EditAnswer>) -> Result<Vec<ReplanEdit>, String> {
        if answers.is_empty() {
            return Err("`edits` is empty: give at least one".to_owned());
        }
        if answers.len() > MAX_TASKS {
            return Err(format!(
                "{} edits are too many: at most {MAX_TASKS}",
                answers.len()
            ));
        }
        let added = answers.iter().filter(|answer| answer.is("add")).count();
        let mut seen = BTreeSet::new();
        let mut adds = 0;
        let mut edits = Vec::with_capacity(answers.len());
        for (index, answer) in answers.into_iter().enumerate() {
            let place = format!("edit {}", index + 1);
            edits.push(if answer.is("add") {
                adds += 1;
                self.add(answer, &place, self.references(added, Some(adds - 1)))?
            } else {
                let number = self.target(&answer, &place)?;
                if !seen.insert(number) {
                    return Err(format!("{place}: task {number} has an edit already"));
                }
                if answer.is("skip") {
                    skip(answer, number)?
                } else {
                    self.update(answer, number, &place, self.references(added, None))?
                }
            });
        }
        self.refuse_cycle(&edits)?;
        Ok(edits)
    }

    fn target(&self, answer: &EditAnswer, place: &str) -> Result<u32, String> {
        let skips = answer.is("skip");
        if !skips && !answer.is("update") {
            return Err(format!("{place}: `action` must be add, update or skip"));
        }
        let number = answer
            .task
            .ok_or_else(|| format!("{place}: `task` is missing"))?;
        if self.editable.contains(&number) || (skips && self.cause == Some(number)) {
            Ok(number)
        } else if self.graph.contains_key(&u64::from(number)) {
            Err(format!(
                "{place}: task {number} is finished or running and cannot be changed; add a task instead"
            ))
        } else {
            Err(format!("{place}: there is no task {number}"))
        }
    }

    /// Returns the function that reads one dependency: `"3"`, `3` or `"n1"`.
    fn references(
        &self,
        added: usize,
        own: Option<usize>,
    ) -> impl Fn(&Value) -> Result<TaskRef, String> {
        move |value| {
            let word = match value {
                Value::String(word) => word.trim().trim_start_matches('#').to_ascii_lowercase(),
                other => other.to_string(),
            };
            let unknown = || format!("there is no task `{}`", one_line(&word, MAX_NAME));
            if let Some(number) = word.strip_prefix('n') {
                let index = number.parse::<usize>().map_err(|_| unknown())?;
                return match index.checked_sub(1).filter(|index| *index < added) {
                    Some(index) if Some(index) == own => {
                        Err(format!("`{word}` is the task itself"))
                    }
                    Some(index) => Ok(TaskRef::New(index)),
                    None => Err(unknown()),
                };
            }
            match word.parse::<u32>() {
                Ok(number) if self.graph.contains_key(&u64::from(number)) => {
                    Ok(TaskRef::Number(TaskId(number)))
                }
                _ => Err(unknown()),
            }
        }
    }

    /// Refuses a circle in what comes of the edits. In it an added task has a number that no task of a plan has.
    fn refuse_cycle(&self, edits: &[ReplanEdit]) -> Result<(), String> {
        let first = u64::from(u32::MAX) + 1;
        let added = |index: usize| first + index as u64;
        let node = |reference: &TaskRef| match reference {
            TaskRef::Number(id) => Some(u64::from(id.0)),
            TaskRef::New(index) => Some(added(*index)),
            TaskRef::Key(_) => None,
        };
        let mut graph = self.graph.clone();
        let mut adds = 0;
        for edit in edits {
            let (own, on) = match edit {
                ReplanEdit::Add(task) => {
                    adds += 1;
                    (added(adds - 1), Some(&task.dependencies))
                }
                ReplanEdit::Update(id, changes) => (u64::from(id.0), changes.dependencies.as_ref()),
                ReplanEdit::Skip(..) => continue,
            };
            if let Some(on) = on {
                graph.insert(own, on.iter().filter_map(node).collect());
            }
        }
        let next = |node: u64| graph.get(&node).cloned().unwrap_or_default();
        let word = |node: &u64| match node.checked_sub(first) {
            Some(index) => format!("n{}", index + 1),
            None => node.to_string(),
        };
        match find_cycle(graph.keys().copied(), next) {
            None => Ok(()),
            Some(cycle) => Err(format!(
                "the tasks would depend on each other in a circle: {}",
                way_round(cycle.iter().map(word))
            )),
        }
    }

    fn add(
        &self,
        answer: EditAnswer,
        place: &str,
        reference: impl Fn(&Value) -> Result<TaskRef, String>,
    ) -> Result<ReplanEdit, String> {
        let description = optional(answer.description, "description", place)?;
        if description.is_empty() {
            return Err(format!("{place}: a task to be added needs a `description`"));
        }
        Ok(ReplanEdit::Add(Box::new(NewTask {
            assignee: new_assignee(answer.assignee, &self.roles, place)?,
            name: name(&answer.name.unwrap_or_default(), place)?,
            description,
            constraints: optional(answer.constraints, "constraints", place)?,
            expected_outcome: optional(answer.expected_output, "expected_output", place)?,
            reasoning: cut(&answer.reason.unwrap_or_default(), MAX_REASON),
            dependencies: all(&answer.depends_on.unwrap_or_default(), place, reference)?,
            origin: Origin::Model,
            ..NewTask::default()
        })))
    }

    fn update(
        &self,
        answer: EditAnswer,
        number: u32,
        place: &str,
        reference: impl Fn(&Value) -> Result<TaskRef, String>,
    ) -> Result<ReplanEdit, String> {
        let id = TaskId(number);
        let text = |text, field| Ok::<_, String>(changed(optional(text, field, place)?));
        let dependencies = answer.depends_on.map(|on| all(&on, place, reference));
        let dependencies = dependencies.transpose()?;
        if (dependencies.iter().flatten()).any(|other| *other == TaskRef::Number(id)) {
            return Err(format!("{place}: task {number} would depend on itself"));
        }
        let changes = TaskChanges {
            name: changed(one_line(&answer.name.unwrap_or_default(), MAX_NAME)),
            description: text(answer.description, "description")?,
            constraints: text(answer.constraints, "constraints")?,
            expected_outcome: text(answer.expected_output, "expected_output")?,
            dependencies,
            assignee: assignee(answer.assignee, &self.roles, place)?.map(Some),
            ..TaskChanges::default()
        };
        if changes == TaskChanges::default() {
            return Err(format!("{place}: it changes nothing in task {number}"));
        }
        Ok(ReplanEdit::Update(id, Box::new(changes)))
    }
}

impl EditAnswer {
    fn is(&self, action: &str) -> bool {
        self.action.trim().eq_ignore_ascii_case(action)
    }
}

fn skip(answer: EditAnswer, number: u32) -> Result<ReplanEdit, String> {
    match cut(&answer.reason.unwrap_or_default(), MAX_REASON) {
        reason if reason.is_empty() => Err(format!("skipping task {number} needs a `reason`")),
        reason => Ok(ReplanEdit::Skip(TaskId(number), reason)),
    }
}

fn all(
    values: &[Value],
    place: &str,
    reference: impl Fn(&Value) -> Result<TaskRef, String>,
) -> Result<Vec<TaskRef>, String> {
    let mut found = Vec::new();
    for value in values {
        let task = reference(value).map_err(|error| format!("{place}: {error}"))?;
        if !found.contains(&task) {
            found.push(task);
        }
    }
    Ok(found)
}

/// Returns a changed text. An empty text stands for "unchanged": models that must fill every field write it so.
fn changed(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
