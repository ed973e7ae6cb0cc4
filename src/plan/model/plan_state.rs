//! How far a plan is.

use serde::{Deserialize, Serialize};

/// The state of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// Created, or only a goal so far; no process carries it out.
    #[default]
    Idle,
    /// Being carried out.
    Running,
    /// Nothing new starts; the text says why.
    Paused(String),
    /// Every task completed or skipped, and the goal met.
    Completed,
    /// Every task settled, at least one of them failed.
    Failed,
    /// Ended by a person or by a verdict.
    #[serde(rename = "aborted", alias = "abandoned")]
    Abandoned,
}

impl PlanState {
    /// Returns the word of the core.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Paused(_) => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Abandoned => "aborted",
        }
    }

    /// Returns why a paused plan is paused.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Paused(why) if !why.is_empty() => Some(why),
            _ => None,
        }
    }

    /// Returns whether the plan has ended.
    pub fn settled(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Abandoned)
    }
}
