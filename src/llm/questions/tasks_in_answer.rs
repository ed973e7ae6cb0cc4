//! New tasks in an answer: their schema, and the checks before they are applied.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{MAX_NAME, MAX_REASON, Result, Wrongs, all, bounded, cut, name};
use crate::llm::{Schema, one_line};
use crate::plan::{
    Criteria, Criterion, Origin, Proof, TaskRef, TaskSpec, cycle_among, within_workspace,
};
use crate::wire::{Team, joined};

/// The most tasks, or edits, of one answer.
const MAX_TASKS: usize = 50;

/// The word of an answer for a criterion that no check proves.
const NO_CHECK: &str = "none";

/// The most criteria of a task of an answer.
const MAX_CRITERIA: usize = 20;

/// The most files that one task of an answer may name.
const MAX_FILES: usize = 20;

/// The names that a task may use.
pub(super) struct TaskNames {
    checks: Vec<String>,
    roles: Vec<String>,
}

impl TaskNames {
    pub(super) fn new(checks: &[String], team: Option<&Team>) -> Self {
        let roles = team.into_iter().flat_map(Team::role_ids);
        Self {
            checks: checks.to_vec(),
            roles: roles.map(str::to_owned).collect(),
        }
    }

    /// Refuses a check that does not exist.
    pub(super) fn check(&self, check: &str, place: &str) -> Result<()> {
        if self.checks.iter().any(|known| known == check) {
            return Ok(());
        }
        let check = one_line(check, MAX_NAME);
        Err(format!("{place}: there is no check `{check}`"))
    }

    pub(super) fn task_schema(&self) -> Schema {
        const PATH: &str = "path of a file, from the workspace";
        let mut properties = vec![
            ("name", Schema::Text("a few words, beginning with a verb")),
            ("reasoning", Schema::Text("why it is needed, one sentence")),
            ("description", Schema::Text("all that the agent must know")),
            ("constraints", Schema::Text("what not to do; may be empty")),
            ("expected_output", Schema::list(self.criterion_schema())),
            ("produces", Schema::list(Schema::Text(PATH))),
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

    /// A criterion of an answer, with what proves it.
    pub(super) fn criterion_schema(&self) -> Schema {
        let mut properties = vec![
            ("look_at", Schema::Text("a file, or a command to run")),
            (
                "shows",
                Schema::Text("what is in it then, or what it prints"),
            ),
        ];
        if !self.checks.is_empty() {
            let none = std::iter::once(NO_CHECK.to_owned());
            let words = self.checks.iter().cloned().chain(none);
            properties.push(("check", Schema::one_of(words)));
        }
        Schema::Object(properties)
    }

    /// Checks the criteria of a task.
    pub(super) fn criteria(&self, answer: &Criteria, place: &str) -> Result<Criteria> {
        if answer.list().len() > MAX_CRITERIA {
            let most = format!("at most {MAX_CRITERIA}");
            return Err(format!("{place}: `expected_output` is too long: {most}"));
        }
        let criterion = |criterion: &Criterion| {
            // The property of a file is for a person to choose.
            let check = match &criterion.proof {
                Some(Proof::Check(check)) => Some(check.trim()),
                Some(Proof::File(_)) | None => None,
            };
            let check = check.filter(|check| !check.is_empty() && !says_none(check));
            if let Some(check) = check {
                self.check(check, place)?;
            }
            let text = bounded(&criterion.text, "expected_output", place)?;
            let proof = check.map(|check| Proof::Check(check.to_owned()));
            Ok(Criterion { text, proof })
        };
        all(answer.list().iter().map(criterion)).map(Criteria::new)
    }

    /// Checks the tasks of an answer, and makes its numbers references from one to another.
    pub(super) fn tasks(&self, answers: Vec<TaskSpec>) -> Result<Vec<TaskSpec>> {
        at_most(answers.len(), "tasks")?;
        let total = answers.len();
        let linked = |first| {
            let each = (1..).zip(&answers);
            all(each.map(|(own, task)| dependencies(&task.dependencies, own, first, total)))
        };
        let mut named = answers.iter().flat_map(|task| &task.dependencies);
        // A model that counts from 0 is understood if all of its numbers fit so.
        let from_zero = named.any(|on| matches!(on, TaskRef::Key(word) if word.trim() == "0"));
        let linked = linked(1).or_else(|wrong| match from_zero {
            true => linked(0).map_err(|_| wrong),
            false => Err(wrong),
        });
        let mut wrongs = Wrongs::default();
        let linked = wrongs.take(linked).unwrap_or_default();
        let tasks = (1..).zip(answers).map(|(number, answer): (usize, _)| {
            let task = self.task(answer, &format!("task {number}"));
            wrongs.take(task).unwrap_or_default()
        });
        let mut tasks: Vec<TaskSpec> = tasks.collect();
        for (task, dependencies) in tasks.iter_mut().zip(linked) {
            task.dependencies = dependencies;
        }
        if let Some(cycle) = cycle_among(&tasks) {
            let way = joined(cycle.iter().map(|index| (index + 1).to_string()), " → ");
            let wrong = format!("the tasks depend on each other in a circle: {way}");
            wrongs.take::<()>(Err(wrong));
        }
        wrongs.sound(tasks)
    }

    /// Checks one task of an answer, except for its dependencies.
    pub(super) fn task(&self, answer: TaskSpec, place: &str) -> Result<TaskSpec> {
        let mut wrongs = Wrongs::default();
        let description = match bounded(&answer.description, "description", place) {
            Ok(text) if text.is_empty() => Err(format!("{place}: `description` is empty")),
            read => read,
        };
        let criteria = match self.criteria(&answer.criteria, place) {
            Ok(criteria) if criteria.is_empty() => {
                let way = "say what can be verified then";
                Err(format!("{place}: `expected_output` is empty: {way}"))
            }
            read => read,
        };
        let checks = answer.checks.iter().map(|check| self.check(check, place));
        wrongs.take(all(checks));
        let constraints = bounded(&answer.constraints, "constraints", place);
        let assignee = self.new_assignee(answer.assignee, place);
        let task = TaskSpec {
            assignee: wrongs.take(assignee).flatten(),
            name: wrongs.take(name(&answer.name, place)).unwrap_or_default(),
            description: wrongs.take(description).unwrap_or_default(),
            constraints: wrongs.take(constraints).unwrap_or_default(),
            criteria: wrongs.take(criteria).unwrap_or_default(),
            reasoning: cut(&answer.reasoning, MAX_REASON),
            produces: (wrongs.take(produced(&answer.produces, place))).unwrap_or_default(),
            origin: Origin::Model,
            ..answer
        };
        wrongs.sound(task)
    }

    /// Reads the role of a task.
    pub(super) fn assignee(&self, answer: Option<String>, place: &str) -> Result<Option<String>> {
        let role = answer.map(|role| role.trim().to_owned());
        match role.filter(|role| !role.is_empty()) {
            Some(word) if !self.roles.contains(&word) => {
                let word = one_line(&word, MAX_NAME);
                Err(format!("{place}: there is no role `{word}`"))
            }
            role => Ok(role),
        }
    }

    /// Reads the role of a new task. In a team every task needs a role.
    fn new_assignee(&self, answer: Option<String>, place: &str) -> Result<Option<String>> {
        match (self.assignee(answer, place)?, &self.roles[..]) {
            (None, [only]) => Ok(Some(only.clone())),
            (None, [_, ..]) => {
                let roles = one_line(&self.roles.join(", "), 400);
                let wrong = format!("`assignee` is missing: it is one of {roles}");
                Err(format!("{place}: {wrong}"))
            }
            (role, _) => Ok(role),
        }
    }
}

/// Returns whether a word of an answer stands for no check.
pub(super) fn says_none(word: &str) -> bool {
    word.eq_ignore_ascii_case(NO_CHECK)
}

/// Refuses an answer with too many tasks or edits.
pub(super) fn at_most(count: usize, what: &str) -> Result<()> {
    match count {
        ..=MAX_TASKS => Ok(()),
        _ => Err(format!("{count} {what} are too many: at most {MAX_TASKS}")),
    }
}

/// Reads the files that a task produces.
pub(super) fn produced(paths: &[String], place: &str) -> Result<Vec<String>> {
    if paths.len() > MAX_FILES {
        return Err(format!(
            "{place}: `produces` names more than {MAX_FILES} files: give those that matter"
        ));
    }
    let within = |path: &String| {
        let odd = path.contains(['<', '>', '|', '"', '`', '\\', '…']) || path.contains("://");
        let plain = match odd {
            true => Err("is not the plain path of a file, as in `src/main.py`"),
            false => within_workspace(path),
        };
        plain.map_err(|reason| {
            let path = one_line(path, MAX_NAME);
            format!("{place}: `produces`: `{path}` {reason}")
        })
    };
    paths.iter().map(within).collect()
}

/// Turns numbers counted from `first` into references, each once; `own` is the number of the task itself, counted from 1.
fn dependencies(words: &[TaskRef], own: usize, first: usize, total: usize) -> Result<Vec<TaskRef>> {
    let index = |reference: &TaskRef| {
        let word = match reference {
            TaskRef::Key(word) => word.as_str(),
            TaskRef::Number(_) | TaskRef::New(_) => "",
        };
        match word.trim().parse() {
            Ok(number) if number + 1 == own + first => Err(format!(
                "task {own} depends on itself: leave {number} out of its `depends_on`"
            )),
            Ok(number) if (first..first + total).contains(&number) => Ok(number - first),
            _ => {
                let word = match word.parse::<f64>() {
                    Ok(_) => word.to_owned(),
                    Err(_) => Value::from(word).to_string(),
                };
                let word = one_line(&word, MAX_NAME);
                let known = format!("the tasks are numbered from 1 to {total}");
                Err(format!("task {own} depends on `{word}`, but {known}"))
            }
        }
    };
    let found = BTreeSet::from_iter(all(words.iter().map(index))?);
    Ok(found.into_iter().map(TaskRef::New).collect())
}
