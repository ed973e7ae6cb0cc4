//! The question whether the goal is met: each part of it points to criteria of completed tasks.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{LONG_ANSWER, MAX_NAME, MAX_REASON, TaskNames, Unrendered, cut, unrendered};
use crate::llm::{PromptTemplate, Schema, one_line, prompt_context};
use crate::plan::{Plan, Task, TaskSpec, TaskState};
use crate::wire::Team;

/// The pointer to a task that is not shown, where there are too many.
const NOT_SHOWN: &str = "more";

/// Models have room for so many completed tasks. Where one has not, a person is asked.
const ALWAYS_SHOWN: usize = 5;

/// Whether the goal is met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    pub met: bool,
    pub reason: String,
    /// What is still to be done; empty if and only if the goal is met.
    pub missing: Vec<TaskSpec>,
}

#[derive(Deserialize)]
struct AuditAnswer {
    parts: Vec<GoalPart>,
    #[serde(default)]
    reason: String,
    met: bool,
    #[serde(default)]
    missing: Vec<TaskSpec>,
}

/// A part of the goal, with the criteria that meet it, such as `2.1`; nothing meets it without any.
#[derive(Deserialize)]
struct GoalPart {
    part: String,
    #[serde(default)]
    by: Vec<String>,
}

/// Asks whether the goal is met, and what is missing. New tasks may use the checks and the roles of the team.
pub fn audit(plan: &Plan, check_names: &[String], team: Option<&Team>) -> Unrendered<Audit> {
    let words = TaskNames::new(check_names, team);
    let by = Schema::Text("a criterion that meets it, as 2.1");
    let part = Schema::Object(vec![
        ("part", Schema::Text("a part of the goal")),
        ("by", Schema::list(by)),
    ]);
    let reason = Schema::Text("why the goal is met, or what is open");
    let schema = Schema::Object(vec![
        ("parts", Schema::list(part)),
        ("reason", reason),
        ("met", Schema::Boolean),
        ("missing", Schema::list(words.task_schema())),
    ]);
    // A task in whose plan nothing is stated has one criterion, without words.
    let criteria = |task: &Task| {
        let number = task.number;
        (1..=task.criteria.list().len().max(1)).map(move |one| format!("{number}.{one}"))
    };
    let completed = plan.tasks_in(TaskState::Completed).flat_map(criteria);
    let mut known: BTreeSet<String> = completed.collect();
    if plan.counts().completed > ALWAYS_SHOWN {
        known.insert(NOT_SHOWN.to_owned());
    }
    let read = move |answer: AuditAnswer| {
        if answer.parts.is_empty() {
            return Err("`parts` is empty: give each part of the goal".to_owned());
        }
        let mut pointers = answer.parts.iter().flat_map(|part| &part.by);
        if let Some(word) = pointers.find(|word| !known.contains(word.trim())) {
            let word = one_line(word, MAX_NAME);
            let wrong = format!("no completed task has a criterion `{word}`");
            return Err(format!("`parts`: {wrong}"));
        }
        let open = answer.parts.iter().find(|part| part.by.is_empty());
        if let (true, Some(open)) = (answer.met, open) {
            let part = one_line(&open.part, MAX_NAME);
            return Err(format!("`met` is true, but no criterion meets: {part}"));
        }
        let audit = Audit {
            met: answer.met,
            reason: cut(&answer.reason, MAX_REASON),
            missing: words.tasks(answer.missing)?,
        };
        let wrong = match (audit.met, audit.missing.is_empty()) {
            (true, false) => "`met` is true, but `missing` holds tasks: it must be empty then",
            (false, true) => {
                "`met` is false, but `missing` is empty: give the tasks that are missing"
            }
            _ => return Ok(audit),
        };
        Err(wrong.to_owned())
    };
    let view = prompt_context::whole(plan, team);
    unrendered(PromptTemplate::Audit, view, schema, LONG_ANSWER, read)
}
