//! The arguments of the task tools, under the names that agents know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::plan::TaskState;
use crate::tools::ArgumentError;
use crate::tools::paging::Page;

/// The state of a task, under the word that agents know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "")]
pub(super) struct TaskWord(#[serde(with = "Words")] pub TaskState);

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "TaskState", rename_all = "snake_case")]
#[schemars(description = "")]
enum Words {
    Pending,
    InProgress,
    Completed,
    Failed,
    // It can be restored. No doc comment: with one the schema would no longer be a plain list.
    #[serde(rename = "deleted")]
    Skipped,
}

/// The id of a task: its number, as text or as a number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(from = "Value")]
#[schemars(description = "", extend("type" = ["string", "integer"]))]
pub(super) struct Id(String);

impl Id {
    /// Returns the id as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the number of the task; `#7` is 7.
    pub(super) fn number(&self) -> Option<u32> {
        let text = self.0.trim();
        text.strip_prefix('#').unwrap_or(text).parse().ok()
    }
}

impl From<Value> for Id {
    fn from(id: Value) -> Self {
        Self(id.as_str().map_or_else(|| id.to_string(), str::to_owned))
    }
}

/// A task to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(description = "")]
pub(super) struct TaskCreate {
    pub subject: String,
    pub description: Option<String>,
    pub active_form: Option<String>,
    pub owner: Option<String>,
    pub metadata: Option<Map<String, Value>>,
    /// Places in this list, from 1.
    pub blocked_by: Option<Vec<usize>>,
    /// Ids of tasks that exist.
    pub add_blocked_by: Option<Vec<Id>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct CreateTaskArguments {
    /// Short, imperative: Fix the login.
    subject: Option<String>,
    /// What is to be done.
    description: Option<String>,
    /// Shown while in progress: Fixing the login.
    active_form: Option<String>,
    owner: Option<String>,
    metadata: Option<Map<String, Value>>,
    /// Ids of tasks that must be completed first.
    add_blocked_by: Option<Vec<Id>>,
    /// Several tasks at once, instead of the fields above.
    tasks: Option<Vec<TaskCreate>>,
    /// Only check.
    #[serde(rename = "dry_run")]
    pub dry_run: Option<bool>,
}

impl CreateTaskArguments {
    /// Returns the tasks, and whether they came as a list.
    pub fn tasks(self) -> Result<(Vec<TaskCreate>, bool), ArgumentError> {
        let one = TaskCreate {
            subject: self.subject.clone().unwrap_or_default(),
            description: self.description,
            active_form: self.active_form,
            owner: self.owner,
            metadata: self.metadata,
            blocked_by: None,
            add_blocked_by: self.add_blocked_by,
        };
        match (self.tasks, self.subject) {
            (Some(tasks), _) if one == TaskCreate::default() => Ok((tasks, true)),
            (Some(_), _) => {
                let problem = "stands alone: what a task is goes into its place in the list";
                Err(ArgumentError::new("tasks", problem))
            }
            (None, Some(_)) => Ok((vec![one], false)),
            (None, None) => Err(ArgumentError::new("subject", "is missing; it is a text")),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct GetArguments {
    pub task_id: Id,
    #[serde(flatten)]
    pub page: Page,
}

/// Which tasks are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(description = "")]
pub(super) struct ListFilter {
    pub status: Option<TaskWord>,
    /// 50 if left out.
    pub limit: Option<usize>,
    pub offset: Option<usize>,
}

/// What changes in a task; `None` leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(description = "")]
pub(super) struct TaskUpdateArguments {
    pub task_id: Id,
    pub status: Option<TaskWord>,
    pub subject: Option<String>,
    pub description: Option<String>,
    pub active_form: Option<String>,
    /// Empty: no agent.
    pub owner: Option<String>,
    /// Ids of tasks that wait for this one.
    pub add_blocks: Option<Vec<Id>>,
    /// Ids of tasks that this one waits for.
    pub add_blocked_by: Option<Vec<Id>>,
    /// Merged; null deletes a key.
    pub metadata: Option<Map<String, Value>>,
    /// What came of it, with a status.
    pub result: Option<String>,
}
