//! How far a plan is, in a few numbers that the store keeps beside it: a list of plans does not read their tasks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Plan, TaskId};

/// The numbers of a plan, as they were after its last change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tally {
    pub tasks: usize,
    pub in_progress: usize,
    pub completed: usize,
    pub failed: usize,
    pub skipped: usize,
    /// Completed tasks whose results are proven; the others were accepted.
    pub proven: usize,
    /// Questions that await a person's answer.
    pub questions: usize,
    /// The locks that its tasks hold, each with its task.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub held: BTreeMap<String, TaskId>,
}

impl Plan {
    /// Returns the numbers of the plan. The cost depends on what is open, never on the size of the plan.
    pub fn tally(&self) -> Tally {
        let counts = self.counts();
        Tally {
            tasks: counts.total(),
            in_progress: counts.in_progress,
            completed: counts.completed,
            failed: counts.failed,
            skipped: counts.skipped,
            proven: self.proven_count(),
            questions: self.open_questions().count(),
            held: self.held_locks(),
        }
    }
}
