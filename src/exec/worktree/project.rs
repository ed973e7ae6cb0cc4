//! Which folders are projects whose tasks can have worktrees.

use std::fs;
use std::path::{Path, PathBuf};

use crate::exec::git::{Git, GitError, LEAST, git_version};

/// Why a folder is no project whose tasks can have worktrees.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    #[error("there is no folder `{}`", .0.display())]
    NoFolder(PathBuf),
    #[error("`{}` is no git project", .0.display())]
    NoProject(PathBuf),
    #[error("`{}` is a git repository without files", .0.display())]
    Bare(PathBuf),
    #[error("`{}` is a folder within the git project `{}`", .folder.display(), .root)]
    Within { folder: PathBuf, root: String },
    #[error("the git project `{}` has no commit", .0.display())]
    NoCommit(PathBuf),
    #[error("a branch of the git project `{}` is called `plan-agent`, so that none can be called `plan-agent/…`", .0.display())]
    Taken(PathBuf),
    #[error("there is no git on this machine")]
    NoGit,
    #[error("git {}.{} is too old", .0.0, .0.1)]
    TooOld((u32, u32)),
    #[error(transparent)]
    Git(#[from] GitError),
}

impl ProjectError {
    /// Returns the way out.
    pub fn hint(&self) -> String {
        match self {
            Self::NoFolder(_) | Self::NoProject(_) | Self::Bare(_) | Self::Git(_) => {
                "worktrees need a git project: name its folder with `--workspace`, or set [run] isolation = \"shared\"".to_owned()
            }
            Self::Within { root, .. } => format!("name the whole project: `--workspace {root}`"),
            Self::NoCommit(_) => "make the first one: `git add --all && git commit`".to_owned(),
            Self::Taken(_) => "give that branch another name: `git branch -m plan-agent …`".to_owned(),
            Self::NoGit | Self::TooOld(_) => format!(
                "install git {}.{} or newer, or set [run] isolation = \"shared\"",
                LEAST.0, LEAST.1
            ),
        }
    }
}

/// Finds out whether a folder is a project whose tasks can have worktrees, and returns the commit that it is at.
///
/// # Errors
/// Why it is not.
pub async fn project_head(root: &Path) -> Result<String, ProjectError> {
    if !root.is_dir() {
        return Err(ProjectError::NoFolder(root.to_owned()));
    }
    match git_version().await {
        Err(error) if error.missing() => return Err(ProjectError::NoGit),
        Ok(Some(version)) if version < LEAST => return Err(ProjectError::TooOld(version)),
        _ => {}
    }
    let git = Git::at(root);
    let inside = git.run(&["rev-parse", "--is-inside-work-tree"]).await?;
    if inside.exit != 0 {
        return Err(ProjectError::NoProject(root.to_owned()));
    }
    if inside.out.trim_ascii() != b"true" {
        return Err(ProjectError::Bare(root.to_owned()));
    }
    let top = git.line(&["rev-parse", "--show-toplevel"]).await?;
    let same = fs::canonicalize(&top).ok() == fs::canonicalize(root).ok();
    if !same {
        return Err(ProjectError::Within {
            folder: root.to_owned(),
            root: top,
        });
    }
    if git.resolve("refs/heads/plan-agent").await?.is_some() {
        return Err(ProjectError::Taken(root.to_owned()));
    }
    let head = git.resolve("HEAD^{commit}").await?;
    head.ok_or_else(|| ProjectError::NoCommit(root.to_owned()))
}
