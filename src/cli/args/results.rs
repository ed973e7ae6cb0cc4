//! What is done with the results of plans whose tasks had worktrees.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
The branch that is checked out in the project moves forward, or gets a merge commit. No file with changes of yours is touched: \
where one would be, nothing is done.")]
pub struct MergeArgs {
    /// The plan, by its key or the beginning of its id [default: the newest with results that wait to be taken over, else the only unfinished one of a daemon, else its newest that has begun]
    pub plan: Option<String>,

    /// The branch that is checked out, where the plan began on another one
    #[arg(long, value_name = "BRANCH")]
    pub into: Option<String>,

    /// Make one commit of all results, with the goal as its subject
    #[arg(long)]
    pub squash: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Only of plans that have ended. Nothing that is not merged is removed, unless it is named.")]
pub struct PruneArgs {
    /// Remove this branch and its worktree, although it is not merged
    #[arg(long, value_name = "NAME")]
    pub unmerged: Vec<String>,
}
