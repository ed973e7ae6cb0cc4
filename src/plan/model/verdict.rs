//! What follows from a result, and who decided it.

use serde::{Deserialize, Serialize};

use super::*;

/// The verdict on a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Accepted; the plan goes on.
    Next,
    /// Not accepted; the task is tried again.
    #[default]
    Retry,
    /// The rest of the plan must change.
    Replan,
    /// The goal cannot be reached.
    Abort,
}

/// Who decided a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    #[default]
    Rules,
    Model,
    Person,
}

/// A decision about an attempt, with its reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub decision: Decision,
    pub reason: String,
    /// Feedback for the next attempt.
    pub feedback: String,
    /// The summary of this task for later tasks.
    pub result_summary: String,
    pub by: DecidedBy,
    pub at: Time,
    /// What the judge says of the criteria that nothing proves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<BelievedCriterion>,
    /// The judge itself is not sure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsure: bool,
}
