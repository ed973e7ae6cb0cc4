//! The rows of a plan, in the words of the core; every dialect maps its own words to these. Plain data: it can only be read,
//! and has no clock, no file and no text for a person.

mod attempt;
mod budget;
mod head;
mod ids;
mod line;
mod question;
mod repository;
mod task;
mod wait;

pub use attempt::*;
pub use budget::*;
pub use head::*;
pub use ids::*;
pub use line::*;
pub use question::*;
pub use repository::*;
pub use task::*;
pub use wait::*;
