//! Conversion of files: text ⇄ types. Pure: no file, clock, network or async task. All input is untrusted: it is bounded, never
//! guessed, and never makes a parser panic.

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
