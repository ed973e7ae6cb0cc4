//! The program that a role works in.

use super::messages::meant;
use super::{RequestId, RoleId, StructuredMessage, TaskUpdate};
use crate::llm::BoxFuture;
use crate::wire::{joined, nearest, one_line};

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
