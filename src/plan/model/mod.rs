//! The rows of a plan, in the words of the core; every dialect maps its own words to these. Plain data: it can only be read,
//! and has no clock, no file and no text for a person.

mod attempt;
mod budget;
mod criterion;
mod ids;
mod integration_branch;
mod language;
mod plan_head;
mod questions;
mod queue_entry;
mod ran_command;
mod role_request;
mod task;
mod words;

pub use attempt::*;
pub use budget::*;
pub use criterion::*;
pub use ids::*;
pub use integration_branch::*;
pub use language::*;
pub use plan_head::*;
pub use questions::*;
pub use queue_entry::*;
pub use ran_command::*;
pub use role_request::*;
pub use task::*;
pub(crate) use words::words;
