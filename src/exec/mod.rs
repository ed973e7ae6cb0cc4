//! Child processes: started without a shell in a process group of their own, with named variables only, and ended as a group.
//! Their output goes to files that outlive the process that started them. Also the checks of results: commands, and files that
//! must exist.

mod changes;
mod checks;
mod effort;
mod git;
mod group;
pub mod inside;
mod mark;
mod output;
mod produced;
mod repository;
mod worktree;

pub use crate::config::CheckConfig;
pub use changes::{FileListing, GitSnapshots};
pub use checks::{check, check_marked, check_of_step};
pub use effort::effort;
pub use git::{Git, GitError};
pub use group::{
    ChildExit, ChildSpec, ExecError, GRACE, OF_THE_AGENT, Piped, PipedGroup, Stdin, environment,
    environment_of_agent, piped, run, stop_group,
};
pub use mark::{
    ProcessMark, end_left_behind, end_servers_left_behind, end_steps_left_behind, left_behind,
};
pub use output::{ChildOutput, alive, tail_of};
pub use produced::{UNTOUCHED, changed_at, leads_out, produced};
pub use repository::{Filters, examine, own_filters};
pub use worktree::{
    AGENT_FOLDER, BranchMove, CommitRange, CommittedWork, DiffDetail, Merged, Project,
    ProjectError, TaskWorktree, difference, project_head, remove_folder, span_of,
};
