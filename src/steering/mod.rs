//! What a person does to a plan, from the command line and from the page: the changes, and what is said of each. They are the
//! same wherever they come from, and so are their refusals.

mod new_goal;
mod plan;
mod plan_text;
mod tasks;

pub use new_goal::GoalSettings;
pub use plan::{answer, go_on, pause, preview_restore};
pub use plan_text::{edit, mismatches, read_edit, summary, unknown_role, way_back, why_edited};
pub use tasks::{add, opened_again, retry, settle, task_of_words, tell};

/// The longest name of a task that is made of a person's words.
pub const NAME: usize = 120;

type Result<T> = std::result::Result<T, crate::plan::Refusal>;
