//! Waits between the roles that work on a task.

use serde::{Deserialize, Serialize};

use super::{CommandId, Time, words};

/// A role that waits for its request to another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleRequest {
    pub role: String,
    /// The role that is asked.
    pub on: String,
    pub request: CommandId,
    /// The request, on one line.
    pub what: String,
    pub since: Time,
    /// The usage limit of the role that is asked: the request goes on then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_until: Option<Time>,
}

/// How such a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoleRequestEnd {
    Completed,
    Error,
    Rejected,
    /// No answer came in time.
    TimedOut,
    /// The request goes on as another command: with a person's answer, or for a readable report.
    AskedAgain,
    /// The role no longer wants the answer.
    TakenBack,
}

impl From<Collaboration> for RoleRequestEnd {
    fn from(answer: Collaboration) -> Self {
        match answer {
            Collaboration::Completed => Self::Completed,
            Collaboration::Error => Self::Error,
            Collaboration::Rejected => Self::Rejected,
        }
    }
}

words! {
    /// How a collaboration ended.
    pub enum Collaboration {
        Completed = "completed",
        Error = "error",
        Rejected = "rejected",
    }
}
