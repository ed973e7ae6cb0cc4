//! What roles and the framework around them say to each other, and what a role needs from the program that it works in.

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::llm::BoxFuture;
use crate::plan::{CommandId, ModelCost, PlanId};
use crate::wire::{joined, nearest, one_line, safe_name};

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

/// Another role that may be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherRole {
    pub id: RoleId,
    /// What it is good for: shown to a language model that plans.
    pub description: String,
}

/// Why a request is not sent to the role that it names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestRefused {
    #[error("there is no role `{role}`{}", meant(.similar.as_ref()))]
    UnknownRole {
        role: String,
        similar: Option<RoleId>,
    },
    #[error("role `{0}` asks itself")]
    Itself(RoleId),
    /// The roles from the one that is asked to the one that waits for its answer, which is the first again.
    #[error("the request would wait for itself: {}", joined(.way.iter().map(RoleId::as_str), " → "))]
    Circular { way: Vec<RoleId> },
    #[error("requests within requests go {most} deep at most, and this one would be {depth} deep")]
    TooDeep { depth: usize, most: usize },
    #[error("role `{role}` has {waiting} requests waiting already")]
    Busy { role: RoleId, waiting: usize },
    /// Nothing is known against the request, but it could not be checked.
    #[error(transparent)]
    Failed(#[from] FrameworkError),
}

impl RequestRefused {
    /// Refuses a name that none of the known roles has.
    pub fn unknown<'a>(role: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let similar = nearest(role, known).and_then(|known| known.parse().ok());
        let role = one_line(role, 64);
        Self::UnknownRole { role, similar }
    }
}

/// Returns the end of a sentence about an unknown name: which known one was probably meant.
pub(super) fn meant(near: Option<impl Display>) -> String {
    near.map_or_else(String::new, |near| format!("; is `{near}` meant?"))
}

/// Why the program around a role could not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FrameworkError(pub String);

/// The program that a role works in: knows the other roles, carries messages, and applies the results of the work. Each of its
/// functions may be called again with the same argument after a crash, and does then what it did before.
pub trait Framework: Send + Sync {
    /// Returns the other roles that may be asked.
    fn other_roles(&self) -> Vec<OtherRole>;

    /// Returns the text of a request that may be sent: the role persists it before it sends anything. Sends and changes nothing.
    fn prepare<'a>(
        &'a self,
        request: &'a StructuredMessage,
    ) -> BoxFuture<'a, Result<String, RequestRefused>>;

    /// Sends a request that was prepared. The answer comes later, as a message of kind `collaboration_response`.
    fn send<'a>(
        &'a self,
        request: &'a StructuredMessage,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), RequestRefused>>;

    /// Withdraws a request whose answer no role waits for any more. After an error it is called again later.
    fn withdraw<'a>(&'a self, request: &'a RequestId) -> BoxFuture<'a, Result<(), FrameworkError>>;

    /// Applies the result of a task or a request that the role was given.
    fn update_task_status(&self, update: TaskUpdate) -> BoxFuture<'_, Result<(), FrameworkError>>;
}
