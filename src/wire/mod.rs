//! What is written into files and read from them: text ⇄ types. Pure: no file, clock, network or task in here.
//! Whatever is read was written by a stranger: it is bounded, never guessed at, and never makes a reader panic.

pub mod command;
pub mod front;
pub mod graph;
pub mod lanes;
mod markdown;
mod node;
pub mod plan_file;
pub mod problem;
pub mod question;
pub mod report;
#[cfg(test)]
pub(crate) mod sample;
pub mod team;
pub mod text;

pub use problem::Problem;
