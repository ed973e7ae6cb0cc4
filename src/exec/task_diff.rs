//! What a task changed: lines where each task has a worktree of its own, else the names of the files.

use std::path::{Path, PathBuf};

use super::{
    AGENT_FOLDER, DiffDetail, Filters, Git, GitError, Project, TaskWorktree, difference, examine,
};
use crate::plan::{Attempt, IntegrationBranch, Plan, PlanHead, PlanId, Task, TaskId};

/// Names that are no branches, below which discarded results are kept.
pub const DISCARDED: &str = "refs/plan-agent/discarded";

/// Where the change of a task is found.
#[derive(Debug)]
pub enum DiffSource {
    /// Between two commits of the project.
    Accepted(String, String),
    /// Between the commit where the work left the first one, and its own last commit.
    Work(String, String),
    /// In the task's worktree, or when that is gone on its branch, or when it is discarded under the name `aside`.
    Open {
        place: TaskWorktree,
        aside: String,
        tip: String,
    },
    /// Only the names of the files, a line for each attempt: agents share the workspace.
    Shared(Vec<String>),
}

/// Returns the project of a plan whose tasks have worktrees.
pub async fn diff_project(head: PlanHead) -> anyhow::Result<Option<Project>> {
    let (root, Some(line)) = (PathBuf::from(head.workspace), head.line) else {
        return Ok(None);
    };
    let repository = match head.repository {
        Some(repository) => *repository,
        None => match examine(&root, Filters::Off).await? {
            Some(repository) => repository,
            None => return Ok(None),
        },
    };
    let project = Project::open(&root, &repository, Path::new(&line.folder));
    Ok(Some(project.await?))
}

/// Returns a change, and the repositories within it that are left out; `None` if no agent has begun it, or only names are known.
pub async fn diff_of(
    project: Option<&Project>,
    source: DiffSource,
    detail: DiffDetail,
) -> anyhow::Result<Option<(Vec<u8>, Vec<String>)>> {
    let Some(project) = project else {
        return Ok(None);
    };
    let git = project.git();
    let mut left_out = Vec::new();
    let (from, to) = match source {
        DiffSource::Shared(_) => return Ok(None),
        DiffSource::Accepted(from, to) => (from, to),
        DiffSource::Work(tip, head) => (begin(git, &tip, &head).await?, head),
        DiffSource::Open { place, aside, tip } => match project.worktree(&place.folder).await? {
            Some(worktree) => {
                let from = begin(&worktree, &tip, "HEAD").await?;
                let (to, nested) = worktree.snapshot(&[AGENT_FOLDER]).await?;
                left_out = nested;
                (from, to)
            }
            None if place.folder.exists() => return Err(place.no_worktree().into()),
            None => {
                let at = match project.at_branch(&place.branch).await? {
                    None => git.resolve(&aside).await?,
                    at => at,
                };
                let Some(head) = at else {
                    return Ok(None);
                };
                (begin(git, &tip, &head).await?, head)
            }
        },
    };
    Ok(Some((difference(git, &from, &to, detail).await?, left_out)))
}

/// Returns the commit where work left the history of `tip`.
pub(super) async fn begin(git: &Git, tip: &str, head: &str) -> Result<String, GitError> {
    match git.line("merge-base", &[tip, head]).await {
        Err(GitError::Failed { folder, end, .. }) if end == "exit 1" => {
            Err(GitError::Unclear(format!(
                "the work shares no commit with the plan: `{head}` in `{}`",
                folder.display()
            )))
        }
        found => found,
    }
}

/// Finds the change of a task; where only names are known, those of the attempts that are `shown`.
pub fn find_diff(plan: &Plan, task: &Task, shown: impl Fn(&Attempt) -> bool) -> DiffSource {
    let Some(line) = &plan.head().line else {
        let attempts = plan.attempts_of(task.number);
        let attempts = attempts.filter(|attempt| shown(attempt));
        return DiffSource::Shared(attempts.filter_map(names).collect());
    };
    match plan.accepted_merge(task) {
        Some(merge) => DiffSource::Accepted(merge.onto.clone(), merge.commit.clone()),
        None => DiffSource::Open {
            place: worktree_of(plan.id(), line, task.number),
            aside: format!("{DISCARDED}/{}/{}", plan.id(), task.number),
            tip: line.tip.clone(),
        },
    }
}

/// Finds the change of a task as it is, or as it was after one of its attempts; `None` if there is no such attempt.
pub fn find_diff_after(plan: &Plan, task: &Task, number: Option<u32>) -> Option<DiffSource> {
    let Some(number) = number else {
        return Some(find_diff(plan, task, |_| true));
    };
    let mut attempts = plan.attempts_of(task.number).rev();
    let attempt = attempts.find(|attempt| attempt.number == number)?;
    Some(match (&plan.head().line, &attempt.merge) {
        (Some(_), Some(merge)) => DiffSource::Work(merge.onto.clone(), merge.head.clone()),
        _ => DiffSource::Shared(names(attempt).into_iter().collect()),
    })
}

/// Returns which files changed during an attempt, if this was measured.
fn names(attempt: &Attempt) -> Option<String> {
    let changes = attempt.changes.as_ref()?.text(usize::MAX);
    let company = attempt.company().map(|company| format!(" ({company})"));
    let (number, company) = (attempt.number, company.unwrap_or_default());
    Some(format!("attempt {number}  {changes}{company}"))
}

/// Returns where the work on a task of a plan is, or was.
pub fn worktree_of(plan: &PlanId, line: &IntegrationBranch, task: TaskId) -> TaskWorktree {
    let branch = IntegrationBranch::task_branch(plan, task);
    let folder = line.worktree(task).into();
    TaskWorktree { folder, branch }
}
