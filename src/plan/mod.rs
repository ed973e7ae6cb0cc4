//! The plan core: the model, the state with its indexes, every operation, and what is due. Pure: time, ids and text are
//! arguments; the core has no clock, file, network, async task or log.

mod budget;
mod concurrency;
mod dependency_cycles;
mod draft;
mod due_steps;
mod event;
pub mod model;
mod plan_in_memory;
mod produced_files;
mod ranked_set;
pub mod rule_decisions;
mod task_index;
#[cfg(test)]
pub(crate) mod tests;
mod worker_pools;

pub use concurrency::{Lanes, RoleLanes};
pub use dependency_cycles::{cycle_among, find_cycle};
pub use draft::{AppliedReport, Delta, Draft, NewCommand, PlanPast, Refusal, TaskPast, valid_key};
pub use due_steps::{Due, DueStep, Observations, Timeouts, due};
pub use event::Event;
pub use model::*;
pub use plan_in_memory::{Plan, Row, RowKey, Startable, Tasks};
pub use produced_files::{MAX_PRODUCED, within_workspace};
pub use task_index::{Counts, TaskFilter};
pub use worker_pools::{WorkerPoolState, WorkerPools};

/// Returns a number with its noun: `1 task`, `2 tasks`.
pub fn counted(number: usize, word: &str) -> String {
    match number {
        1 => format!("1 {word}"),
        _ => format!("{number} {word}s"),
    }
}

/// The owner of a plan that the daemon carries out.
pub const DAEMON: &str = "daemon";

/// The owner of an internal plan: the steps by which a role in the process does a task or answers a request.
pub const ROLE: &str = "role";
