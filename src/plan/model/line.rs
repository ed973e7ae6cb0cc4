//! The line of commits on which the results of a plan are gathered when each task has a worktree and a branch of its own.

use serde::{Deserialize, Serialize};

use super::{PlanId, TaskId};

/// The check that a result goes together with those accepted before it.
pub const MERGE_CHECK: &str = "merge";

/// Where the results of a plan are gathered. The row is the truth, the branch in the project follows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The commit of the project that the plan began from.
    pub base: String,
    /// The commit up to which results are accepted.
    pub tip: String,
    /// Where the branch was put last; `None` until it is there.
    pub shown: Option<String>,
    /// Where somebody else has put it, empty if it is gone: nothing moves it until a human has answered.
    pub elsewhere: Option<String>,
    /// The folder that has the worktrees of the plan; absolute.
    pub folder: String,
}

/// A result that was merged aside and waits to be accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merge {
    /// The commit up to which results were accepted then.
    pub onto: String,
    /// The task's own last commit.
    pub head: String,
    /// Both together; what it is without a change is `onto`.
    pub commit: String,
}

impl Line {
    /// Returns the name of the branch on which a plan's results are gathered.
    pub fn branch(plan: &PlanId) -> String {
        format!("plan-agent/{plan}")
    }

    /// Returns the name of a task's own branch; git has no place for it below that of the plan.
    pub fn task_branch(plan: &PlanId, task: TaskId) -> String {
        format!("plan-agent-task/{plan}/{task}")
    }

    /// Returns the folder of a task's worktree.
    pub fn worktree(&self, task: TaskId) -> String {
        format!("{}/task-{task}", self.folder)
    }

    /// Tells whether the branch is to be moved and may be.
    pub fn behind(&self) -> bool {
        self.elsewhere.is_none() && self.shown.as_ref() != Some(&self.tip)
    }
}
