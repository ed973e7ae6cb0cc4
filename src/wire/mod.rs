//! Conversion of files: text ⇄ types. Pure: no file, clock, network or async task. All input is untrusted: it is bounded, never
//! guessed, and never makes a parser panic.

pub mod command_file;
pub mod criterion_text;
pub mod front_matter;
pub mod graph_text;
mod markdown;
pub mod plan_file;
pub mod problem;
pub mod question_file;
pub mod report_file;
pub mod role_text;
pub mod team_file;
#[cfg(test)]
pub(crate) mod tests;
pub mod text;
mod yaml_tree;

pub use problem::Problem;
