//! The plan core: the model, the state with its indexes, every operation, and what is due. Pure: time, ids and text are
//! arguments; the core has no clock, file, network, async task or log.

mod budget;
mod crew;
mod draft;
mod due;
mod event;
mod graph;
mod index;
mod lanes;
pub mod model;
mod places;
mod produced;
pub mod rules;
mod state;
#[cfg(test)]
pub(crate) mod tests;

pub use crew::{WorkerPoolState, WorkerPools};
pub use draft::{AppliedReport, Delta, Draft, NewCommand, PlanPast, Refusal, TaskPast, valid_key};
pub use due::{Due, DueStep, Observations, Timeouts, due};
pub use event::Event;
pub use graph::find_cycle;
pub use index::{Counts, TaskFilter};
pub use lanes::{Lanes, RoleLanes};
pub use model::*;
pub use produced::{MAX_PRODUCED, within_workspace};
pub use state::{Plan, Row, RowKey, Startable, Tasks};

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
