//! The plan core: the model, the state with its indexes, every operation, and what is due. Pure: time, ids and
//! text come in as arguments; there is no clock, file, network, task or log in here.

pub mod model;
mod state;

pub use model::*;
pub use state::{Counts, Plan, Row, RowKey};
