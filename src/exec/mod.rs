//! Child processes: started without a shell in a process group of their own, with named variables only, and ended as a group.
//! Their output goes to files that outlive the process that started them. Also the checks of results: commands, and files that
//! must exist.

mod changed_files;
mod check_folder;
mod check_programs;
mod checks;
mod child_output;
mod folder_removal;
mod git;
mod inline_tests;
mod judging_files;
pub mod link_free_access;
mod manifest_changes;
mod process_group;
mod process_mark;
mod produced_files;
mod repository_config;
mod task_diff;
mod test_summary;
mod transported_files;
mod tree_changes;
mod worktree;

pub use crate::config::CheckConfig;
pub use changed_files::{FileListing, GitSnapshots, NOT_OF_THE_WORK};
pub use check_folder::{CheckFolder, JudgingChanges, TreeFile, why_not_ready};
pub use check_programs::{programs, replaced};
pub use checks::{check, check_marked};
pub use child_output::{ChildOutput, alive, read_from, tail_of};
pub use folder_removal::remove_folder;
pub use git::{Git, GitError};
pub use judging_files::JudgingFiles;
pub use process_group::{
    ChildExit, ChildSpec, ExecError, GRACE, OF_THE_AGENT, ProcessGroup, environment,
    environment_of_agent, leave_at_work, piped, run, stop_group,
};
pub use process_mark::{MarkKind, ProcessMark, end_left_behind, left_behind};
pub use produced_files::{UNTOUCHED, changed_at, leads_out, produced, with_property};
pub use repository_config::{Filters, examine, own_filters};
pub use task_diff::{
    DISCARDED, DiffSource, diff_of, diff_project, find_diff, find_diff_after, worktree_of,
};
pub use test_summary::tests_failed;
pub use transported_files::{CarriedFiles, LandingPlace};
pub use worktree::{
    AGENT_FOLDER, BEFORE, BranchMove, DiffDetail, MERGED, Merged, Project, ProjectError, TakeOver,
    TaskWorktree, difference, project_head,
};

use self::git::{Result, blocking};
use self::tree_changes::TreeChange;
