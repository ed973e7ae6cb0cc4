//! Tasks, and how they are added and changed.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::*;

/// The most bytes that the metadata of a task may have as JSON.
pub const MAX_METADATA: usize = 16 * 1024;

/// How the reason of a skipped task begins that a changed plan does without.
pub const REPLACED: &str = "replaced by replan";

words! {
    /// The state of a task. *Ready* and *blocked* are computed: see [`crate::plan::Plan::ready`].
    #[derive(Default, PartialOrd, Ord, Hash)]
    pub enum TaskState {
        /// Not started, or to be started again.
        #[default]
        Pending = "pending",
        /// An attempt is under way, or its decision is awaited.
        InProgress = "in_progress",
        /// Accepted.
        Completed = "completed",
        /// Failed; does not satisfy a dependency.
        Failed = "failed",
        /// Skipped with a reason; satisfies a dependency.
        Skipped = "skipped",
    }
}

impl TaskState {
    /// Returns whether the task does not change any more by itself.
    pub fn settled(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Skipped)
    }

    /// Returns whether tasks that depend on this one may start.
    pub fn satisfies(self) -> bool {
        matches!(self, Self::Completed | Self::Skipped)
    }
}

/// One task of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub number: TaskId,
    /// The caller's own id of the task; the number as text unless the caller chose one.
    pub key: String,
    /// Sorts the tasks; gaps between neighbours leave room for more.
    pub position: i64,
    /// The name of the phase it belongs to, if any.
    pub step: Option<String>,
    /// The caller's own id of that phase.
    pub step_id: Option<String>,
    pub name: String,
    pub description: String,
    pub constraints: String,
    /// What is expected of it.
    #[serde(alias = "expected_outcome", default)]
    pub criteria: Criteria,
    pub reasoning: String,
    /// The role that does it; any worker if empty.
    pub assignee: Option<String>,
    pub optional: bool,
    pub dependencies: Vec<TaskId>,
    /// The names of its own checks.
    pub checks: Vec<String>,
    /// Files that must exist in the workspace afterwards and not be empty; see [`crate::plan::within_workspace`].
    #[serde(default)]
    pub produces: Vec<String>,
    /// Patterns of files that judge and that its agent may change nevertheless; only a person's plan file has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_change: Vec<String>,
    /// What only one task at a time may use, over all plans of the folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<String>,
    /// The programs of its checks, as they were before its first attempt; `None` before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<Vec<CheckProgram>>,
    /// Data that callers of tools keep with the task; the core does not read it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    pub origin: Origin,
    /// A person chose its checks and files, although a model wrote or changed its words.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checked_by_person: bool,
    /// A person saw its checks and files in a review, and a model has chosen no others since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reviewed: bool,
    pub status: TaskState,
    /// The result of the task, or why it was skipped or failed.
    pub result: Option<String>,
    /// What checks said about the state before its first attempt, as far as they ran there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<CheckBefore>,
    /// The other plan whose results a person merged into the folder since the first attempt: a red check before may be green by those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_beside: Option<PlanId>,
    /// The evidence with which it was accepted; `None` until then.
    pub evidence: Option<Evidence>,
    /// The attempt that counts now.
    pub current: Option<CommandId>,
    /// Attempts made so far.
    pub attempts: u32,
    /// Failed attempts in a row.
    pub failures: u32,
    /// Feedback of the judge for the next command.
    pub note: Option<String>,
    /// A person's words for the next command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
    /// Commands that a person has allowed the agent of the next attempt, word for word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_next: Vec<String>,
    /// The task does not start before this time (an agent's usage limit).
    pub not_before: Option<Time>,
    /// Removed from the plan; kept for the log.
    pub removed: bool,
    pub created_at: Time,
    pub started_at: Option<Time>,
    pub finished_at: Option<Time>,
}

impl Task {
    /// Returns whether a model chose its checks and files: a replan may change them, and an answer may drop them.
    pub fn is_soft(&self) -> bool {
        self.origin == Origin::Model && !self.checked_by_person
    }

    /// Returns what its agent is to do: a task of PlanManager says that as its reason, and has no other text.
    pub fn instructions(&self) -> &str {
        match self.description.trim() {
            "" => &self.reasoning,
            _ => &self.description,
        }
    }

    /// Returns the files that it makes, as far as they are named.
    pub fn made_files(&self) -> impl Iterator<Item = String> {
        let proofs = self.criteria.files().map(|file| file.path.clone());
        self.produces.iter().cloned().chain(proofs)
    }

    /// Adds a person's words for the next command. The same words are not added twice.
    pub(in crate::plan) fn tell(&mut self, words: &str) {
        let words = format!("A person says: {words}");
        match &mut self.told {
            Some(told) if told.ends_with(&words) => {}
            Some(told) => *told = format!("{told}\n\n{words}"),
            None => self.told = Some(words),
        }
    }

    /// Creates the task of a specification as the last one of a plan, without dependencies and metadata: it is pending, or
    /// completed if it was done before the plan began.
    pub fn new(number: TaskId, spec: TaskSpec, now: Time) -> Self {
        let checks = all_checks(&spec.checks, &spec.criteria);
        Self {
            number,
            key: spec.key.unwrap_or_else(|| number.to_string()),
            position: i64::from(number.0),
            step: spec.step,
            step_id: spec.step_id,
            name: spec.name,
            description: spec.description,
            constraints: spec.constraints,
            criteria: spec.criteria,
            reasoning: spec.reasoning,
            assignee: spec.assignee,
            optional: spec.optional,
            checks,
            produces: spec.produces,
            may_change: spec.may_change,
            locks: spec.locks,
            origin: spec.origin,
            checked_by_person: spec.checked_by_person,
            reviewed: false,
            status: match (spec.done, &spec.skipped) {
                (true, _) => TaskState::Completed,
                (false, Some(_)) => TaskState::Skipped,
                (false, None) => TaskState::Pending,
            },
            finished_at: (spec.done || spec.skipped.is_some()).then_some(now),
            result: match spec.done {
                true => Some("done before the plan began".to_owned()),
                false => spec.skipped,
            },
            created_at: now,
            ..Self::default()
        }
    }
}

/// Returns the names of a task's checks, with those that prove its criteria.
pub(in crate::plan) fn all_checks(checks: &[String], criteria: &Criteria) -> Vec<String> {
    let mut names = checks.to_vec();
    for name in criteria.checks() {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// The evidence for an accepted task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Whether every criterion is met; else the result was believed.
    #[serde(default)]
    pub proven: bool,
    /// A person said that the task is done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_hand: bool,
    /// One line for each fact, such as `test: exit 0`.
    pub facts: Vec<String>,
    /// How each criterion ended.
    #[serde(default)]
    pub criteria: Vec<CriterionResult>,
}

/// Refers to a task from outside the core.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskRef {
    /// A task of the plan by its number.
    Number(TaskId),
    /// A task of the plan, or of the same list of new ones, by the caller's key.
    Key(String),
    /// A task of the same list of new ones, counted from 0.
    New(usize),
}

/// A task to be added, whichever way it comes in: from a plan file, a workflow, a tool, a role or a model. A model's answer is
/// read into it by serde, in the words of the prompts; what a model cannot state is skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct TaskSpec {
    /// The caller's own id, unique in the plan; the number as text if left out.
    #[serde(skip)]
    pub key: Option<String>,
    #[serde(skip)]
    pub step: Option<String>,
    #[serde(skip)]
    pub step_id: Option<String>,
    pub name: String,
    pub description: String,
    #[serde(default, deserialize_with = "or_default")]
    pub constraints: String,
    #[serde(rename = "expected_output")]
    pub criteria: Criteria,
    #[serde(default, deserialize_with = "or_default")]
    pub reasoning: String,
    pub assignee: Option<String>,
    #[serde(skip)]
    pub optional: bool,
    /// References in an answer are words: [`TaskRef::Key`].
    #[serde(default, rename = "depends_on", deserialize_with = "as_written")]
    pub dependencies: Vec<TaskRef>,
    #[serde(default, deserialize_with = "or_default")]
    pub checks: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub produces: Vec<String>,
    /// See [`Task::may_change`].
    #[serde(skip)]
    pub may_change: Vec<String>,
    /// See [`Task::locks`].
    #[serde(skip)]
    pub locks: Vec<String>,
    #[serde(skip)]
    pub metadata: Map<String, Value>,
    #[serde(skip)]
    pub origin: Origin,
    /// See [`Task::checked_by_person`].
    #[serde(skip)]
    pub checked_by_person: bool,
    /// Already done when the plan begins.
    #[serde(skip)]
    pub done: bool,
    /// Why it is left out from the start, if it is.
    #[serde(skip)]
    pub skipped: Option<String>,
}

/// A plan to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanSpec {
    pub name: String,
    pub goal: String,
    pub description: String,
    pub expected_outcome: String,
    /// Constraints for every task.
    pub constraints: String,
    /// The template from which it is made, if any.
    pub source: Option<String>,
    /// `None` leaves the order to the program that carries the plan out.
    pub order: Option<TaskOrder>,
    /// In the order of the plan; dependencies are [`TaskRef::New`].
    pub tasks: Vec<TaskSpec>,
    /// In their order, too.
    pub empty_steps: Vec<EmptyStep>,
    /// What is wrong with a model's tasks, a line each, that the model insists on.
    pub problems: Vec<String>,
}

/// Reads a value; null stands for an empty one.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads references as a model writes them: numbers, or texts.
fn as_written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TaskRef>, D::Error> {
    let values: Vec<Value> = or_default(deserializer)?;
    let word = |value| match value {
        Value::String(word) => word,
        other => other.to_string(),
    };
    Ok(values.into_iter().map(word).map(TaskRef::Key).collect())
}

/// Reads a number as a model writes it, perhaps as a text.
pub fn number_as_written<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u32>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let number = match value.as_str().map(str::trim) {
        Some("") => return Ok(None),
        Some(text) => text.parse().map_err(D::Error::custom)?,
        None => return serde_json::from_value(value).map_err(D::Error::custom),
    };
    Ok(Some(number))
}

/// A tool's or a model's changes of a task; `None` leaves a field unchanged. A task whose texts differ afterwards is no longer
/// a person's (see [`Origin`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskChanges {
    pub name: Option<String>,
    pub description: Option<String>,
    pub constraints: Option<String>,
    pub criteria: Option<Criteria>,
    pub reasoning: Option<String>,
    pub assignee: Option<Option<String>>,
    pub dependencies: Option<Vec<TaskRef>>,
    /// What a model chooses anew; without effect where a person chose (see [`Task::is_soft`]).
    pub checks: Option<Vec<String>>,
    pub produces: Option<Vec<String>>,
    /// Replaces the entries with the same name; `null` removes an entry.
    pub metadata: Map<String, Value>,
}

impl TaskChanges {
    /// Returns whether it changes the instructions for an agent.
    pub fn of_words(&self) -> bool {
        let words = [
            &self.name,
            &self.description,
            &self.constraints,
            &self.reasoning,
        ];
        self.criteria.is_some() || words.into_iter().any(Option::is_some)
    }
}

/// One step of a replan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplanEdit {
    /// Adds a task; [`TaskRef::New`] counts the added tasks of the same list of edits.
    Add(Box<TaskSpec>),
    /// Changes a task that has not been started.
    Update(TaskId, Box<TaskChanges>),
    /// Skips a task that is not finished, with the reason.
    Skip(TaskId, String),
}
