//! What a person began or queued a plan with, so that it goes on the same way under any daemon of its folder.

use serde::{Deserialize, Serialize};

use super::{PlanId, Time};
use crate::plan::is_default;

/// What a person queued a plan with. It stays with the plan, so that the next daemon of the folder goes on with it after a
/// kill.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueEntry {
    /// Since when; the oldest of equal priority begins first.
    pub at: Time,
    /// Higher ones begin first.
    #[serde(skip_serializing_if = "is_default")]
    pub priority: i32,
    /// The plan that has to end before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<PlanId>,
    /// The configuration file that the person named; absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// What the person had confirmed of the configuration: a daemon carries the plan out with that only.
    pub confirmed: String,
    /// What plans and judges, in words without keys.
    pub model: String,
    /// The person's `PATH`: agents are found by it, whatever that of the daemon is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Why a daemon does not carry it out yet; `None` until one has seen it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// What the daemon plans and judges with, or which of its keys and paths differ, if something does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub differs: Option<String>,
    /// When a daemon began to carry it out last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun: Option<Time>,
}
