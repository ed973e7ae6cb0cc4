//! The plan core: the model, the state with its indexes, every operation, and what is due. Pure: time, ids and text are
//! arguments; the core has no clock, file, network, async task or log.

mod budget;
mod concurrency;
mod day_budget;
mod dependency_cycles;
mod draft;
mod due_steps;
mod event;
mod locks;
pub mod model;
mod phrases;
mod plan_in_memory;
mod produced_path;
pub mod proof;
mod ranked_set;
pub mod rule_decisions;
mod tally;
mod task_index;
pub mod test_commands;
#[cfg(test)]
pub(crate) mod tests;
mod words_against_facts;
mod worker_pool_state;

pub use concurrency::{Lanes, RoleLanes};
pub use day_budget::{BudgetDay, DayBudget, DayGrant};
pub use dependency_cycles::{cycle_among, find_cycle};
pub use draft::{
    AppliedReport, Delta, Draft, NewCommand, NewHome, Past, Refusal, RepeatableChange, TaskEdit,
    valid_key,
};
pub use due_steps::{
    Due, DueEffect, DueStep, Observations, Timeouts, awaits_before, due, waits_for_checks,
};
pub use event::{AttemptTrouble, Event};
pub use locks::{HeldLocks, LockHolder, lock_problem};
pub use model::*;
pub use phrases::{and_more, counted, unless_empty, word};
pub use plan_in_memory::{Plan, Row, RowKey};
pub use produced_path::{MAX_PRODUCED, within_workspace};
pub use ranked_set::Tasks;
pub use tally::Tally;
pub use task_index::{Counts, Startable};
pub use worker_pool_state::{WorkerPoolState, WorkerPools};

use self::draft::acceptable;
use self::ranked_set::{
    ALL, BOUND, COMPLETED, FAILED, FREE, IN_PROGRESS, Kinds, PENDING, Place, RankedSet, SKIPPED,
    UNSETTLED, WANTED,
};

/// Returns whether a value is the default one, which files and answers may leave out.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The owner of a plan that the daemon carries out.
pub const DAEMON: &str = "daemon";

/// The owner of an internal plan: the steps by which a role in the process does a task or answers a request.
pub const ROLE: &str = "role";
