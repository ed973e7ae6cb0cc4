//! The state of the worker pools that this process has started.

use std::collections::BTreeMap;

use super::Time;

/// The state of the workers for some tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerPoolState {
    /// They take commands, or other workers may.
    #[default]
    Works,
    /// Their agent is misconfigured: they exit.
    Unfit,
    /// They exited for that reason, at this time.
    Gone(Time),
}

/// All worker pools of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerPools {
    /// The workers of roles that have their own.
    pub roles: BTreeMap<String, WorkerPoolState>,
    /// The workers that take all other tasks, if this process has some.
    pub others: Option<WorkerPoolState>,
}

impl WorkerPools {
    /// Returns the state of the workers for the tasks of a role.
    pub fn of(&self, role: Option<&str>) -> WorkerPoolState {
        let own = role.and_then(|role| self.roles.get(role));
        own.copied().or(self.others).unwrap_or_default()
    }

    /// Returns whether no worker is left for any task.
    pub fn none_left(&self) -> bool {
        let lost = |pool: WorkerPoolState| pool != WorkerPoolState::Works;
        self.others.is_some_and(lost) && self.roles.values().all(|pool| lost(*pool))
    }
}
