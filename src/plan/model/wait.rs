//! Who waits for whom while a task is done.

use serde::{Deserialize, Serialize};

use super::{Collaboration, CommandId, Time};

/// A role that waits for what it has asked of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    pub role: String,
    /// The role that is asked.
    pub on: String,
    pub request: CommandId,
    /// What it is asked for, on one line.
    pub what: String,
    pub since: Time,
}

/// How such a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitEnd {
    Completed,
    Error,
    Rejected,
    /// No answer came in time.
    TimedOut,
    /// It goes on as another command: with what a person said, or for a report that can be read.
    AskedAgain,
    /// Nobody wants the answer any more.
    TakenBack,
}

impl From<Collaboration> for WaitEnd {
    fn from(answer: Collaboration) -> Self {
        match answer {
            Collaboration::Completed => Self::Completed,
            Collaboration::Error => Self::Error,
            Collaboration::Rejected => Self::Rejected,
        }
    }
}
