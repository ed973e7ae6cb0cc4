//! Why git did not do what was asked.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::MOST;
use crate::exec::{ExecError, repository_config};

/// Why git did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git cannot be run in `{}`", .folder.display())]
    Start { folder: PathBuf, source: ExecError },
    #[error("a file that git needs or fills cannot be read or written")]
    Files(#[from] io::Error),
    #[error("another git that was started here still runs: `{}`", .0.display())]
    Busy(PathBuf),
    #[error("`git {words}` took longer than {deadline:?}")]
    Late { words: String, deadline: Duration },
    #[error("the repository of `{}` is not what it was when the plan began: {was}, and now {is}; put it back, and the work goes on", .folder.display())]
    Changed {
        folder: PathBuf,
        was: String,
        is: String,
    },
    #[error("the setting `{name}` of git runs `{}`, which agents can change", .file.display())]
    Filter { name: String, file: PathBuf },
    #[error("the git configuration of `{}` cannot be kept: its filters have more than {} KiB", .0.display(), repository_config::MOST / 1024)]
    Configuration(PathBuf),
    #[error("`git {words}` says more than {} MiB", MOST / 1024 / 1024)]
    TooMuch { words: String },
    #[error("`git {words}` failed ({end}): {said} (in `{}`)", .folder.display())]
    Failed {
        words: String,
        folder: PathBuf,
        end: String,
        said: String,
    },
    /// Git failed, perhaps without a word: its words go to a file that may be on the same disk.
    #[error("`git {words}` failed: there is no space left on the disk of `{}`", .folder.display())]
    Full { words: String, folder: PathBuf },
    /// The result of a task cannot be determined; the text is for its agent.
    #[error("{0}")]
    Unclear(String),
}

/// The result of an operation with git.
pub type Result<T, E = GitError> = std::result::Result<T, E>;

impl GitError {
    /// Returns whether git took too long.
    pub fn late(&self) -> bool {
        matches!(self, Self::Late { .. } | Self::Busy(_))
    }

    /// Returns whether git ran and refused, because of what it found in the folder.
    pub fn refused(&self) -> bool {
        matches!(self, Self::Failed { end, .. } if end.starts_with("exit "))
    }

    /// Returns whether it is not the repository that is in the way, but the disk, the machine or the time.
    pub fn is_passing(&self) -> bool {
        self.late()
            || matches!(
                self,
                Self::Start { .. } | Self::Files(_) | Self::Full { .. }
            )
    }

    /// Returns whether git is not installed.
    pub fn missing(&self) -> bool {
        matches!(self, Self::Start { source: ExecError::Start { source, .. }, .. }
            if source.kind() == io::ErrorKind::NotFound)
    }
}
