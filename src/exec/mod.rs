//! Child processes: started without a shell in a process group of their own, with named variables only, ended as a
//! group, their output in files that outlive whoever started them.

mod checks;
mod git;
mod group;
mod output;

pub use checks::{Check, check, check_marked, end_left_behind};
pub use git::{Git, GitError, LEAST as LEAST_GIT, Said, git_version};
pub use effort::effort;
pub use group::{ExecError, GRACE, Outcome, Spec, Stdin, environment, run, stop_group};
pub use output::{Output, alive, tail_of};
