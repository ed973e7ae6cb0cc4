//! New tasks in an answer: their schema, and the checks before they are applied.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::answer_fields::{MAX_NAME, MAX_REASON, bounded, cut, name, optional, way_round};
use crate::llm::Schema;
use crate::llm::quoting::one_line;
use crate::plan::{NewTask, Origin, TaskRef, find_cycle, within_workspace};
use crate::wire::team_file::Team;

/// The most tasks, or edits, of one answer.
pub(super) const MAX_TASKS: usize = 50;

/// The most files that one task of an answer may name.
const MAX_FILES: usize = 20;

#[derive(Deserialize)]
pub(super) struct TaskAnswer {
    name: String,
    description: String,
    expected_output: String,
    #[serde(default)]
    constraints: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    assignee: Option<String>,
    /// Numbers, which some models write as text.
    #[serde(default)]
    depends_on: Option<Vec<Value>>,
    #[serde(default)]
    checks: Option<Vec<String>>,
    #[serde(default)]
    produces: Option<Vec<String>>,
}

/// How many tasks an answer must have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskCountLimit {
    None,
    One,
}

/// The names that a task may use.
pub(super) struct TaskNames {
    checks: Vec<String>,
    roles: Vec<String>,
}

impl TaskNames {
    pub(super) fn new(checks: &[String], team: Option<&Team>) -> Self {
        Self {
            checks: checks.to_vec(),
            roles: role_ids(team),
        }
    }

    /// Refuses a check that does not exist.
    pub(super) fn check(&self, check: &str, place: &str) -> Result<(), String> {
        if self.checks.iter().any(|known| known == check) {
            return Ok(());
        }
        let check = one_line(check, MAX_NAME);
        Err(format!("{place}: there is no check `{check}`"))
    }

    pub(super) fn task_schema(&self) -> Schema {
        let mut properties = vec![
            ("name", Schema::Text("a few words, beginning with a verb")),
            ("reasoning", Schema::Text("why it is needed, one sentence")),
            ("description", Schema::Text("all that the agent must know")),
            ("constraints", Schema::Text("what not to do; may be empty")),
            ("expected_output", Schema::Text("what can be verified then")),
            (
                "produces",
                Schema::list(Schema::Text("path of a file, from the workspace")),
            ),
            ("depends_on", Schema::list(Schema::Integer)),
        ];
        if !self.checks.is_empty() {
            properties.push(("checks", Schema::list(Schema::one_of(self.checks.clone()))));
        }
        if !self.roles.is_empty() {
            properties.push(("assignee", Schema::one_of(self.roles.clone())));
        }
        Schema::Object(properties)
    }

    pub(super) fn tasks(
        &self,
        answers: Vec<TaskAnswer>,
        least: TaskCountLimit,
    ) -> Result<Vec<NewTask>, String> {
        if answers.is_empty() && least == TaskCountLimit::One {
            return Err("`tasks` is empty: a plan needs at least one task".to_owned());
        }
        if answers.len() > MAX_TASKS {
            return Err(format!(
                "{} tasks are too many: at most {MAX_TASKS}",
                answers.len()
            ));
        }
        let total = answers.len();
        let mut graph = BTreeMap::new();
        let mut tasks = Vec::with_capacity(total);
        for (index, answer) in answers.into_iter().enumerate() {
            let place = format!("task {}", index + 1);
            let wanted = dependencies(
                answer.depends_on.as_deref().unwrap_or_default(),
                index,
                total,
            )?;
            graph.insert(index, wanted.iter().copied().collect::<Vec<_>>());
            let mut task = self.task(answer, &place)?;
            task.dependencies = wanted.into_iter().map(TaskRef::New).collect();
            tasks.push(task);
        }
        match find_cycle(graph.keys().copied(), |index| graph[&index].clone()) {
            None => Ok(tasks),
            Some(cycle) => Err(format!(
                "the tasks depend on each other in a circle: {}",
                way_round(cycle.iter().map(|index| (index + 1).to_string()))
            )),
        }
    }

    pub(super) fn task(&self, answer: TaskAnswer, place: &str) -> Result<NewTask, String> {
        let description = bounded(&answer.description, "description", place)?;
        if description.is_empty() {
            return Err(format!("{place}: `description` is empty"));
        }
        let checks = answer.checks.unwrap_or_default();
        for check in &checks {
            self.check(check, place)?;
        }
        let assignee = new_assignee(answer.assignee, &self.roles, place)?;
        Ok(NewTask {
            name: name(&answer.name, place)?,
            description,
            constraints: optional(answer.constraints, "constraints", place)?,
            expected_outcome: bounded(&answer.expected_output, "expected_output", place)?,
            reasoning: cut(&answer.reasoning.unwrap_or_default(), MAX_REASON),
            assignee,
            checks,
            produces: produced(&answer.produces.unwrap_or_default(), place)?,
            origin: Origin::Model,
            ..NewTask::default()
        })
    }
}

/// Returns the roles that may get a task.
pub(super) fn role_ids(team: Option<&Team>) -> Vec<String> {
    let roles = team.into_iter().flat_map(|team| &team.roles);
    roles.map(|role| role.id.clone()).collect()
}

/// Reads the role of a task.
pub(super) fn assignee(
    answer: Option<String>,
    roles: &[String],
    place: &str,
) -> Result<Option<String>, String> {
    let role = answer.map(|role| role.trim().to_owned());
    let role = role.filter(|role| !role.is_empty());
    match &role {
        Some(word) if !roles.contains(word) => {
            let word = one_line(word, MAX_NAME);
            Err(format!("{place}: there is no role `{word}`"))
        }
        _ => Ok(role),
    }
}

/// Reads the role of a new task. In a team every task needs a role.
pub(super) fn new_assignee(
    answer: Option<String>,
    roles: &[String],
    place: &str,
) -> Result<Option<String>, String> {
    match (assignee(answer, roles, place)?, roles) {
        (None, [only]) => Ok(Some(only.clone())),
        (None, [_, ..]) => {
            let roles = one_line(&roles.join(", "), 400);
            Err(format!(
                "{place}: `assignee` is missing: it is one of {roles}"
            ))
        }
        (role, _) => Ok(role),
    }
}

/// Reads the files that a task produces.
fn produced(paths: &[String], place: &str) -> Result<Vec<String>, String> {
    if paths.len() > MAX_FILES {
        return Err(format!(
            "{place}: `produces` names more than {MAX_FILES} files: give those that matter"
        ));
    }
    let within = |path: &String| {
        within_workspace(path).map_err(|reason| {
            let path = one_line(path, MAX_NAME);
            format!("{place}: `produces`: `{path}` {reason}")
        })
    };
    paths.iter().map(within).collect()
}

/// Turns numbers counted from 1 into indexes.
fn dependencies(values: &[Value], own: usize, total: usize) -> Result<BTreeSet<usize>, String> {
    let place = own + 1;
    values
        .iter()
        .map(|value| match number(value) {
            Some(number) if number == place => Err(format!(
                "task {place} depends on itself: leave {number} out of its `depends_on`"
            )),
            Some(number) if (1..=total).contains(&number) => Ok(number - 1),
            _ => Err(format!(
                "task {place} depends on `{}`, but the tasks are numbered from 1 to {total}",
                one_line(&value.to_string(), MAX_NAME)
            )),
        })
        .collect()
}

fn number(value: &Value) -> Option<usize> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        other => usize::try_from(other.as_u64()?).ok(),
    }
}
