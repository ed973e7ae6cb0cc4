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

/// The worker pools of the process: for a role, or under `None` for the tasks of all other roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerPools(pub BTreeMap<Option<String>, WorkerPoolState>);

impl WorkerPools {
    /// Returns the state of the workers for the tasks of a role.
    pub fn of(&self, role: Option<&str>) -> WorkerPoolState {
        let own = self.0.get(&role.map(str::to_owned));
        let pool = own.or_else(|| self.0.get(&None));
        pool.copied().unwrap_or_default()
    }

    /// Returns whether no worker is left for any task.
    pub fn none_left(&self) -> bool {
        let mut pools = self.0.values();
        self.0.contains_key(&None) && pools.all(|pool| *pool != WorkerPoolState::Works)
    }
}
