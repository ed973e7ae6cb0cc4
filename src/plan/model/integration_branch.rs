//! The integration branch, where the results of a plan are merged when each task has a worktree and a branch of its own.

use serde::{Deserialize, Serialize};

use super::{PlanId, TaskId};

/// The check that a result can be merged with those accepted before it.
pub const MERGE_CHECK: &str = "merge";

/// Begins its finding where both changed the same places.
pub const CONFLICT: &str = "conflict in ";

/// Where the results of a plan are merged. The row is the truth; the branch in the project follows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntegrationBranch {
    /// The commit of the project where the plan began.
    pub base: String,
    /// The branch that was checked out then; `None` if none was.
    pub began_on: Option<String>,
    /// The commit that contains all accepted results.
    pub tip: String,
    /// The commit to which the branch was moved last; `None` until it exists.
    pub shown: Option<String>,
    /// The commit to which a person or another program has moved it, empty if it was deleted: it is not moved until a human has
    /// answered.
    pub elsewhere: Option<String>,
    /// The commit at which it was before a human let it go on from elsewhere, until what was changed there is part of the results.
    #[serde(default)]
    pub moved_from: Option<String>,
    /// The folder of the plan's worktrees; absolute.
    pub folder: String,
}

/// A result that was merged aside and waits to be accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingMerge {
    /// The commit that contained all accepted results then.
    pub onto: String,
    /// The task's own last commit.
    pub head: String,
    /// The merge of both; without changes it is `onto`.
    pub commit: String,
    /// Which changes were put back because the task does not name their files, and where the whole result is; else empty.
    #[serde(default)]
    pub put_back: String,
}

/// What a person did with the results of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultsMove {
    /// They are in a branch of the person.
    TakenOver,
    /// They are kept under a name that is no branch.
    Discarded,
    /// Worktrees and branches that were no longer needed are gone.
    Pruned,
}

impl IntegrationBranch {
    /// Returns the name of a plan's integration branch.
    pub fn branch(plan: &PlanId) -> String {
        format!("plan-agent/{plan}")
    }

    /// Returns the name of a task's own branch; git does not allow a name below that of the plan's branch.
    pub fn task_branch(plan: &PlanId, task: TaskId) -> String {
        format!("plan-agent-task/{plan}/{task}")
    }

    /// Returns the folder of a task's worktree.
    pub fn worktree(&self, task: TaskId) -> String {
        format!("{}/task-{task}", self.folder)
    }

    /// Returns whether the branch must be moved and may be.
    pub fn behind(&self) -> bool {
        self.elsewhere.is_none() && self.shown.as_ref() != Some(&self.tip)
    }
}
