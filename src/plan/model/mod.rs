//! The rows a plan consists of, in the words of the core; every dialect maps its own words to these.
//! Plain data: no behaviour beyond reading a value, no clock, no file, no text for a person.

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
