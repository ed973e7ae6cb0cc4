//! What roles and the framework around them say to each other, and what a role needs from the program that it works in.

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::plan::{CommandId, ModelCost, PlanId};
use crate::wire::{one_line, safe_name};

pub use crate::plan::Collaboration as CollaborationStatus;

/// Names a role: 1 to 64 letters, digits, `-` and `_`, for it may become part of a file's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct RoleId(String);

/// The text names no role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no role: 1 to 64 letters, digits, `-` and `_`, a letter or digit first")]
pub struct BadRoleId(String);

impl RoleId {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RoleId {
    type Err = BadRoleId;

    fn from_str(text: &str) -> Result<Self, BadRoleId> {
        match safe_name(text) {
            true => Ok(Self(text.to_owned())),
            false => Err(BadRoleId(one_line(text, 64))),
        }
    }
}

impl TryFrom<String> for RoleId {
    type Error = BadRoleId;

    fn try_from(text: String) -> Result<Self, BadRoleId> {
        text.parse()
    }
}

impl Display for RoleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names one thing that a role was asked for: a task of the plan or a request of another role. Where the work is handed
/// out as a file it is the id of that command.
pub type RequestId = CommandId;

/// Returns a new id: `task-<uuid v7>`.
pub fn new_request() -> RequestId {
    RequestId::new(format!("task-{}", Uuid::now_v7()))
}

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// A task of the plan is to be done.
    TaskAssignment,
    /// Another role asks for something.
    CollaborationRequest,
    /// What came of such a request.
    CollaborationResponse,
    /// The result of `request_id` is not wanted any more.
    Cancel,
}

/// A message between roles, or between the framework and a role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StructuredMessage {
    pub id: String,
    /// A role, or whatever name the framework has for itself.
    pub from: String,
    pub to: RoleId,
    pub kind: MessageKind,
    /// The plan that the task is in. In a request, the internal plan of the role that asks: its parents show who waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<PlanId>,
    /// The task in that plan, as the plan's tools name it. In a request, the step that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// What is to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What is good to know for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// What is said to this attempt beside the task, as the context has it, too: the last report, what to do differently, a person's
    /// words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// What is asked for, answered or taken back. An assignment without one goes by the id of its message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// How it ended, in a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<CollaborationStatus>,
    /// What came of it, in a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_data: Option<Value>,
}

impl StructuredMessage {
    /// Makes a message that says nothing yet.
    pub fn new(from: &str, to: RoleId, kind: MessageKind) -> Self {
        Self {
            id: Uuid::now_v7().to_string(),
            from: from.to_owned(),
            to,
            kind,
            plan_id: None,
            task_id: None,
            description: None,
            context: None,
            said: None,
            request_id: None,
            status: None,
            result_data: None,
        }
    }

    /// Returns what the work is known by: the same message that comes again, after a crash, means the same work.
    pub fn assignment(&self) -> RequestId {
        let own = || RequestId::new(&*self.id);
        self.request_id.clone().unwrap_or_else(own)
    }
}

/// The result of a task or a request that a role was given.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskUpdate {
    /// The message that gave it, to the role that did it; its id is what the work is known by.
    pub task: StructuredMessage,
    pub status: CollaborationStatus,
    /// Whether the result is only a part, because another role gave only a part.
    pub partial: bool,
    /// The result, or why there is none.
    pub result: String,
    /// What it took: the questions to language models, of the role and of those that it asked, and the agents. Where its plan is
    /// in the store, the questions are counted there, and this is what agents took.
    pub spent: ModelCost,
}

impl TaskUpdate {
    /// Makes the update for the message that gave the task. It is the same for the same task in another message.
    pub fn new(task: &StructuredMessage, status: CollaborationStatus, result: String) -> Self {
        let id = task.assignment().to_string();
        Self {
            task: StructuredMessage { id, ..task.clone() },
            status,
            partial: false,
            result,
            spent: ModelCost::default(),
        }
    }
}

/// Returns the end of a sentence about an unknown name: which known one was probably meant.
pub(super) fn meant(near: Option<impl Display>) -> String {
    near.map_or_else(String::new, |near| format!("; is `{near}` meant?"))
}
