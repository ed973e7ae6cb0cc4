//! Sessions of agents, which may last over several attempts.

use serde::{Deserialize, Serialize};

use super::*;

/// An agent's session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSession {
    pub id: SessionId,
    /// The task for which it was opened.
    pub task: TaskId,
    pub opened: Time,
    /// The `end` command, once the session is over.
    pub end: Option<EndCommand>,
}

/// The command that makes an agent forget a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndCommand {
    pub id: CommandId,
    pub text: String,
    /// Its file was published in its folder; an agent may have removed it since, which does not matter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub published: bool,
}
