//! The edits of a replan: their schema, and the checks before they are applied. An answer may change pending tasks, and may
//! name tasks that exist or that it adds itself.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;

use super::tasks_in_answer::{produced, says_none};
use super::{MAX_NAME, MAX_REASON, Result, TaskNames, all, at_most, bounded, cut};
use crate::llm::prompt_context::editable;
use crate::llm::{Schema, one_line};
use crate::plan::{
    Criteria, Plan, ReplanEdit, Task, TaskChanges, TaskId, TaskRef, TaskSpec, find_cycle,
    number_as_written,
};
use crate::wire::{Team, joined};

#[derive(Deserialize)]
pub(super) struct ReplanAnswer {
    pub(super) edits: Vec<EditAnswer>,
}

/// One edit; which fields count depends on the action, empty ones change nothing.
#[derive(Deserialize)]
pub(super) struct EditAnswer {
    action: String,
    #[serde(default, deserialize_with = "number_as_written")]
    task: Option<u32>,
    name: Option<String>,
    description: Option<String>,
    #[serde(default)]
    expected_output: Criteria,
    constraints: Option<String>,
    depends_on: Option<Vec<Value>>,
    checks: Option<Vec<String>>,
    produces: Option<Vec<String>>,
    assignee: Option<String>,
    reason: Option<String>,
}

pub(super) fn edit_schema(names: &TaskNames, team: Option<&Team>) -> Schema {
    let list = |items| Schema::OptionalList(Box::new(items));
    let mut properties = vec![
        ("action", Schema::one_of(["add", "update", "skip"])),
        ("task", Schema::OptionalInteger),
        ("reason", Schema::Text("why, one sentence")),
        ("name", Schema::OptionalText("null: as it is")),
        ("description", Schema::OptionalText("null: as it is")),
        ("constraints", Schema::OptionalText("null: as they are")),
        ("expected_output", list(names.criterion_schema())),
        ("produces", list(Schema::Text("path of a file"))),
        ("checks", list(Schema::Text("name of a check"))),
        ("depends_on", list(Schema::Text("`3` or `n1`"))),
    ];
    if team.is_some() {
        properties.push(("assignee", Schema::OptionalText("a role; null: as it is")));
    }
    Schema::Object(properties)
}

/// The tasks and names that a replan may use.
pub(super) struct ReplanScope {
    editable: BTreeSet<TaskId>,
    /// Those of them of which a person chose what is expected and checked.
    of_person: BTreeSet<TaskId>,
    cause: Option<TaskId>,
    /// Every task with its dependencies.
    graph: BTreeMap<TaskRef, Vec<TaskRef>>,
    names: TaskNames,
}

impl ReplanScope {
    pub(super) fn new(plan: &Plan, cause: Option<TaskId>, names: TaskNames) -> Self {
        let of_person = editable(plan).filter(|task| !task.is_soft());
        let waits = |task: &Task| {
            let on = task.dependencies.iter().copied().map(TaskRef::Number);
            (TaskRef::Number(task.number), on.collect())
        };
        Self {
            names,
            of_person: of_person.map(|task| task.number).collect(),
            editable: editable(plan).map(|task| task.number).collect(),
            cause,
            graph: plan.tasks().map(waits).collect(),
        }
    }

    pub(super) fn edits(&self, answers: Vec<EditAnswer>) -> Result<Vec<ReplanEdit>> {
        if answers.is_empty() {
            return Err("`edits` is empty: give at least one".to_owned());
        }
        at_most(answers.len(), "edits")?;
        let added = answers.iter().filter(|answer| answer.is("add")).count();
        let named = answers.iter();
        let mut named = named.flat_map(|answer| answer.depends_on.iter().flatten());
        let from_zero = |word: &str| word.trim().eq_ignore_ascii_case("n0");
        let first = usize::from(!named.any(|value| value.as_str().is_some_and(from_zero)));
        let added = &(first..first + added);
        let mut seen = BTreeSet::new();
        let mut own = 0..;
        let edit = |(number, answer): (usize, EditAnswer)| {
            let place = format!("edit {number}");
            if answer.is("add") {
                return self.add(answer, &place, added, own.next());
            }
            let id = self.target(&answer, &place)?;
            if !seen.insert(id) {
                return Err(format!("{place}: task {id} has an edit already"));
            }
            match answer.is("skip") {
                true => skip(answer, id),
                false => self.update(answer, id, &place, added),
            }
        };
        let edits = all((1..).zip(answers).map(edit))?;
        self.refuse_cycle(&edits)?;
        Ok(edits)
    }

    fn target(&self, answer: &EditAnswer, place: &str) -> Result<TaskId> {
        let skips = answer.is("skip");
        if !skips && !answer.is("update") {
            return Err(format!("{place}: `action` must be add, update or skip"));
        }
        let id = answer.task.map(TaskId);
        let id = id.ok_or_else(|| format!("{place}: `task` is missing"))?;
        if self.editable.contains(&id) || (skips && self.cause == Some(id)) {
            Ok(id)
        } else if self.graph.contains_key(&TaskRef::Number(id)) {
            Err(format!(
                "{place}: task {id} is finished or running and cannot be changed; add a task instead"
            ))
        } else {
            Err(format!("{place}: there is no task {id}"))
        }
    }

    /// Reads dependencies: `"3"`, `3` or `"n1"`. `added` has the numbers after `n`, counted from 0 or 1; `own` is the index of
    /// the task if it is added.
    fn references(
        &self,
        values: &[Value],
        place: &str,
        added: &Range<usize>,
        own: Option<usize>,
    ) -> Result<Vec<TaskRef>> {
        let mut found = Vec::new();
        for value in values {
            let word = match value {
                Value::String(word) => word.trim().trim_start_matches('#').to_ascii_lowercase(),
                other => other.to_string(),
            };
            let reference = match word.strip_prefix('n') {
                Some(number) => {
                    let number = number.parse().ok().filter(|n| added.contains(n));
                    let index = number.map(|number: usize| number - added.start);
                    if index.is_some() && index == own {
                        return Err(format!("{place}: `{word}` is the task itself"));
                    }
                    index.map(TaskRef::New)
                }
                None => {
                    let task = word.parse().ok().map(|id| TaskRef::Number(TaskId(id)));
                    task.filter(|task| self.graph.contains_key(task))
                }
            };
            let Some(reference) = reference else {
                let word = one_line(&word, MAX_NAME);
                return Err(format!("{place}: there is no task `{word}`"));
            };
            if !found.contains(&reference) {
                found.push(reference);
            }
        }
        Ok(found)
    }

    /// Refuses a circle in what comes of the edits.
    fn refuse_cycle(&self, edits: &[ReplanEdit]) -> Result<()> {
        let mut graph = self.graph.clone();
        let mut added = (0..).map(TaskRef::New);
        for edit in edits {
            let (own, on) = match edit {
                ReplanEdit::Add(task) => (added.next(), Some(&task.dependencies)),
                ReplanEdit::Update(id, changes) => {
                    (Some(TaskRef::Number(*id)), changes.dependencies.as_ref())
                }
                ReplanEdit::Skip(..) => continue,
            };
            graph.extend(own.zip(on.cloned()));
        }
        let next = |node| graph.get(node).into_iter().flatten().collect();
        let word = |node: &&TaskRef| match node {
            TaskRef::New(index) => format!("n{}", index + 1),
            TaskRef::Number(id) => id.to_string(),
            TaskRef::Key(key) => key.clone(),
        };
        let Some(cycle) = find_cycle(graph.keys(), next) else {
            return Ok(());
        };
        let way = joined(cycle.iter().map(word), " → ");
        let wrong = "the tasks would depend on each other in a circle";
        Err(format!("{wrong}: {way}"))
    }

    fn add(
        &self,
        answer: EditAnswer,
        place: &str,
        added: &Range<usize>,
        own: Option<usize>,
    ) -> Result<ReplanEdit> {
        let description = answer.description.unwrap_or_default();
        if description.trim().is_empty() {
            return Err(format!("{place}: a task to be added needs a `description`"));
        }
        let spec = TaskSpec {
            name: answer.name.unwrap_or_default(),
            description,
            constraints: answer.constraints.unwrap_or_default(),
            criteria: answer.expected_output,
            reasoning: answer.reason.unwrap_or_default(),
            assignee: answer.assignee,
            checks: answer.checks.unwrap_or_default(),
            produces: answer.produces.unwrap_or_default(),
            ..TaskSpec::default()
        };
        let mut spec = self.names.task(spec, place)?;
        let on = answer.depends_on.unwrap_or_default();
        spec.dependencies = self.references(&on, place, added, own)?;
        Ok(ReplanEdit::Add(Box::new(spec)))
    }

    fn update(
        &self,
        answer: EditAnswer,
        id: TaskId,
        place: &str,
        added: &Range<usize>,
    ) -> Result<ReplanEdit> {
        let text = |text: Option<String>, field| {
            Ok::<_, String>(changed(bounded(&text.unwrap_or_default(), field, place)?))
        };
        let on = answer.depends_on;
        let dependencies = on.map(|on| self.references(&on, place, added, None));
        let dependencies = dependencies.transpose()?;
        if (dependencies.iter().flatten()).any(|other| *other == TaskRef::Number(id)) {
            return Err(format!("{place}: task {id} would depend on itself"));
        }
        let (checks, produces) = (chosen(answer.checks), chosen(answer.produces));
        let chosen = checks.is_some() || produces.is_some() || !answer.expected_output.is_empty();
        if chosen && self.of_person.contains(&id) {
            let why = "a person chose what is expected and checked: give null";
            return Err(format!("{place}: task {id}: {why}"));
        }
        for check in checks.iter().flatten() {
            self.names.check(check, place)?;
        }
        let produces = produces.map(|paths| produced(&paths, place));
        let changes = TaskChanges {
            checks,
            produces: produces.transpose()?,
            name: changed(one_line(&answer.name.unwrap_or_default(), MAX_NAME)),
            description: text(answer.description, "description")?,
            constraints: text(answer.constraints, "constraints")?,
            criteria: Some(self.names.criteria(&answer.expected_output, place)?)
                .filter(|criteria| !criteria.is_empty()),
            dependencies,
            assignee: self.names.assignee(answer.assignee, place)?.map(Some),
            ..TaskChanges::default()
        };
        if changes == TaskChanges::default() {
            return Err(format!("{place}: it changes nothing in task {id}"));
        }
        Ok(ReplanEdit::Update(id, Box::new(changes)))
    }
}

impl EditAnswer {
    fn is(&self, action: &str) -> bool {
        self.action.trim().eq_ignore_ascii_case(action)
    }
}

fn skip(answer: EditAnswer, id: TaskId) -> Result<ReplanEdit> {
    match cut(&answer.reason.unwrap_or_default(), MAX_REASON) {
        reason if reason.is_empty() => Err(format!("skipping task {id} needs a `reason`")),
        reason => Ok(ReplanEdit::Skip(id, reason)),
    }
}

/// Returns a changed text. An empty text stands for "unchanged": models that must fill every field write it so.
fn changed(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Returns a changed list, which is empty after the one word `none`.
fn chosen(list: Option<Vec<String>>) -> Option<Vec<String>> {
    let list = list.filter(|list| !list.is_empty())?;
    Some(list.into_iter().filter(|word| !says_none(word)).collect())
}
