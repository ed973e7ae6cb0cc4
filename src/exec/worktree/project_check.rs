//! Which folders are projects whose tasks can have worktrees.

use std::fs;
use std::path::{Path, PathBuf};

use crate::exec::git::{Git, GitError, LEAST, git_version, is_distrusted};
use crate::exec::repository_config::{Filters, configured, examine, last, locate};
use crate::plan::Repository;

/// Why a folder is no project whose tasks can have worktrees.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    #[error("there is no folder `{}`", .0.display())]
    NoFolder(PathBuf),
    #[error("`{}` is no git project", .0.display())]
    NoProject(PathBuf),
    #[error("`{}` is a git repository without files", .0.display())]
    Bare(PathBuf),
    #[error("`{}` is a folder within the git project `{}`", .folder.display(), .root.display())]
    Within { folder: PathBuf, root: PathBuf },
    #[error("the git project `{}` has no commit", .0.display())]
    NoCommit(PathBuf),
    #[error("a branch of the git project `{}` is called `{}`, so that none can be called `{}/…`", .0.display(), .1, .1)]
    Taken(PathBuf, &'static str),
    #[error("the path {0:?} has a line break, so that git does not find the worktrees: rename it")]
    LineBreak(PathBuf),
    #[error("git does not use the project `{}`: it belongs to another user and is no `safe.directory`", .0.display())]
    Distrusted(PathBuf),
    #[error("there is no git on this machine")]
    NoGit,
    #[error("git {}.{} is too old", .0.0, .0.1)]
    TooOld((u32, u32)),
    #[error(transparent)]
    Git(#[from] GitError),
}

impl ProjectError {
    /// Returns a hint how to solve it.
    pub fn hint(&self) -> String {
        match self {
            Self::Git(GitError::Filter { .. }) => {
                "give it a program outside the project, or set [run] isolation = \"shared\"".to_owned()
            }
            Self::Git(GitError::Changed { .. }) => {
                "a project that was moved goes back to its place while a plan of it is open".to_owned()
            }
            Self::Git(_) => "mend that, or set [run] isolation = \"shared\"".to_owned(),
            Self::NoFolder(_) | Self::NoProject(_) | Self::Bare(_) | Self::LineBreak(_) => {
                "worktrees need a git project: name its folder with `--workspace`, or set [run] isolation = \"shared\"".to_owned()
            }
            Self::Within { root, .. } => {
                format!("name the whole project: `--workspace {}`", root.display())
            },
            Self::NoCommit(_) => "make the first one: `git add --all && git commit`".to_owned(),
            Self::Distrusted(root) => format!(
                "`git config --global --add safe.directory {}` says that you trust what it names",
                root.display()
            ),
            Self::Taken(_, name) => format!("give that branch another name: `git branch -m {name} …`"),
            Self::NoGit | Self::TooOld(_) => format!(
                "install git {}.{} or newer, or set [run] isolation = \"shared\"",
                LEAST.0, LEAST.1
            ),
        }
    }
}

/// Checks whether a folder is a project whose tasks can have worktrees. Returns its repository with the person's configuration
/// for it, and its present commit. If a plan has begun, `known` is its recorded repository, which is not examined again.
///
/// # Errors
/// Why it is not such a project.
pub async fn project_head(
    root: &Path,
    known: Option<Repository>,
) -> Result<(Repository, String), ProjectError> {
    if !root.is_dir() {
        return Err(ProjectError::NoFolder(root.to_owned()));
    }
    if root.as_os_str().as_encoded_bytes().contains(&b'\n') {
        return Err(ProjectError::LineBreak(root.to_owned()));
    }
    match git_version(root).await {
        Err(error) if error.missing() => return Err(ProjectError::NoGit),
        Ok(Some(version)) if version < LEAST => return Err(ProjectError::TooOld(version)),
        _ => {}
    }
    let repository = match known {
        Some(known) => known,
        None => repository_of(root).await?,
    };
    let aside = tempfile::tempdir().map_err(GitError::from)?;
    let git = Git::open(root, &repository, aside.path()).await?;
    if git.run("rev-parse --git-dir", &[]).await?.exit != 0 {
        return Err(ProjectError::NoProject(root.to_owned()));
    }
    for name in ["plan-agent", "plan-agent-task"] {
        if git.resolve(&format!("refs/heads/{name}")).await?.is_some() {
            return Err(ProjectError::Taken(root.to_owned(), name));
        }
    }
    let head = git.resolve("HEAD^{commit}").await?;
    let head = head.ok_or_else(|| ProjectError::NoCommit(root.to_owned()))?;
    Ok((repository, head))
}

/// Returns the repository of a folder, if that is its work tree.
async fn repository_of(root: &Path) -> Result<Repository, ProjectError> {
    if is_distrusted(root).await? {
        return Err(ProjectError::Distrusted(root.to_owned()));
    }
    let repository = examine(root, Filters::Kept).await?;
    let repository = repository.ok_or_else(|| without_its_own(root))?;
    let git_dir = Path::new(&repository.git_dir);
    let configured = configured(root, git_dir, &[]).await?;
    if repository.git_dir == repository.common_dir && last(&configured, "core.bare") == Some("true")
    {
        return Err(ProjectError::Bare(root.to_owned()));
    }
    if let Some(top) = last(&configured, "core.worktree") {
        let top = fs::canonicalize(git_dir.join(top)).map_err(GitError::from)?;
        if fs::canonicalize(root).ok().as_ref() != Some(&top) {
            let (folder, root) = (root.to_owned(), top);
            return Err(ProjectError::Within { folder, root });
        }
    }
    Ok(repository)
}

/// Returns the error for a folder without a repository of its own.
fn without_its_own(folder: &Path) -> ProjectError {
    if folder.join("HEAD").is_file() && folder.join("objects").is_dir() {
        return ProjectError::Bare(folder.to_owned());
    }
    let mut around = folder.ancestors().skip(1);
    let is_top = |folder: &&Path| {
        let found = locate(folder).ok().flatten();
        found.is_some_and(|place| place.git_dir.join("HEAD").exists())
    };
    match around.find(is_top) {
        Some(root) => ProjectError::Within {
            folder: folder.to_owned(),
            root: root.to_owned(),
        },
        None => ProjectError::NoProject(folder.to_owned()),
    }
}
