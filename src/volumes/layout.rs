//! Where everything is below the root of the volumes.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::files::{VolumesError, remove_if_there};
use crate::plan::{CommandId, PlanId};

/// A folder of the volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Folder {
    /// Commands that nobody has taken.
    CommandsPending,
    /// Commands that an agent has taken.
    CommandsProcessed,
    /// Commands that the daemon has taken back.
    CommandsWithdrawn,
    /// Reports as they arrive.
    ReportsPending,
    /// Reports that counted.
    ReportsProcessed,
    /// Reports that came too late, twice, or for nothing known.
    ReportsStale,
    /// Reports that could not be read, with the reason beside each.
    ReportsRejected,
    /// Questions to a person.
    QuestionsPending,
    /// Questions that are answered or closed.
    QuestionsAnswered,
    /// Signs of life, cancel marks, and the workers' claims.
    Active,
    /// Output of agents and of a daemon in the background.
    Logs,
    /// The default work folder.
    Workspace,
}

impl Folder {
    /// Every folder.
    pub const ALL: [Self; 12] = [
        Self::CommandsPending,
        Self::CommandsProcessed,
        Self::CommandsWithdrawn,
        Self::ReportsPending,
        Self::ReportsProcessed,
        Self::ReportsStale,
        Self::ReportsRejected,
        Self::QuestionsPending,
        Self::QuestionsAnswered,
        Self::Active,
        Self::Logs,
        Self::Workspace,
    ];

    /// Returns the path below the root.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CommandsPending => "commands/pending",
            Self::CommandsProcessed => "commands/processed",
            Self::CommandsWithdrawn => "commands/withdrawn",
            Self::ReportsPending => "reports/pending",
            Self::ReportsProcessed => "reports/processed",
            Self::ReportsStale => "reports/stale",
            Self::ReportsRejected => "reports/rejected",
            Self::QuestionsPending => "questions/pending",
            Self::QuestionsAnswered => "questions/answered",
            Self::Active => "active",
            Self::Logs => "logs",
            Self::Workspace => "workspace",
        }
    }
}

/// Folders in which files are written before they are renamed into place: beside the place, so on its file system,
/// and out of sight of those who watch it.
const TEMP: [&str; 4] = [
    "commands/.tmp",
    "reports/.tmp",
    "questions/.tmp",
    "active/.tmp",
];

/// The volumes at one root. Cheap to clone; holds no handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volumes {
    root: PathBuf,
}

impl Volumes {
    /// Names the volumes at a root without touching the disk, for those who only look.
    ///
    /// # Errors
    /// When the root is relative and the current folder is gone, or the path is empty.
    pub fn at(root: &Path) -> Result<Self, VolumesError> {
        let root = std::path::absolute(root)
            .map_err(|error| VolumesError::new("find the folder", root, error))?;
        Ok(Self { root })
    }

    /// Makes every folder that is missing and checks that all can be written to.
    ///
    /// # Errors
    /// Names the first folder that cannot be made or written to.
    pub fn open(root: &Path) -> Result<Self, VolumesError> {
        let volumes = Self::at(root)?;
        volumes.make_missing()?;
        for path in volumes.folders() {
            let access = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
            rustix::fs::access(&path, access)
                .map_err(|error| VolumesError::new("write to the folder", &path, error.into()))?;
        }
        Ok(volumes)
    }

    /// Makes the folders that are missing and returns which.
    pub(super) fn make_missing(&self) -> Result<Vec<PathBuf>, VolumesError> {
        let logs = self.path(Folder::Logs);
        let missing: Vec<_> = self.folders().filter(|path| !path.is_dir()).collect();
        for path in &missing {
            // What agents print may hold anything; nobody else needs to read it.
            let mode = if *path == logs { 0o700 } else { 0o777 };
            fs::DirBuilder::new()
                .recursive(true)
                .mode(mode)
                .create(path)
                .map_err(|error| VolumesError::new("make the folder", path, error))?;
        }
        Ok(missing)
    }

    fn folders(&self) -> impl Iterator<Item = PathBuf> {
        Folder::ALL
            .into_iter()
            .map(Folder::as_str)
            .chain(TEMP)
            .map(|folder| self.root.join(folder))
    }

    /// Returns the absolute root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the absolute path of a folder.
    pub fn path(&self, folder: Folder) -> PathBuf {
        self.root.join(folder.as_str())
    }

    /// Returns the path of the embedded database.
    pub fn database(&self) -> PathBuf {
        self.root.join("plan-agent.db")
    }

    /// Returns the path of a command's file in one of the command folders.
    pub fn command(&self, folder: Folder, id: &CommandId) -> PathBuf {
        self.path(folder).join(format!("{id}.md"))
    }

    /// Returns the path where an agent writes the report of a command.
    pub fn report(&self, id: &CommandId) -> PathBuf {
        self.path(Folder::ReportsPending)
            .join(format!("report-{id}.md"))
    }

    /// Returns the path of a command's sign of life.
    pub fn life(&self, id: &CommandId) -> PathBuf {
        self.path(Folder::Active).join(format!("{id}.json"))
    }

    /// Returns the path of the mark that asks an agent to stop working on a command.
    pub fn cancel_mark(&self, id: &CommandId) -> PathBuf {
        self.path(Folder::Active).join(format!("{id}.cancel"))
    }

    /// Returns the path of a log about a command: `out` and `err` hold what its agent printed.
    pub fn log(&self, id: &CommandId, kind: &str) -> PathBuf {
        self.path(Folder::Logs).join(format!("{id}.{kind}"))
    }

    /// Returns the folder that has the worktrees of a plan.
    pub fn worktrees(&self, plan: &PlanId) -> PathBuf {
        self.root.join("worktrees").join(plan.as_str())
    }

    /// Returns the path under which a file for `commands`, `reports`, `questions` or `active` is written before it
    /// gets its name.
    pub(super) fn temp(&self, area: &str, name: &str) -> PathBuf {
        self.root.join(area).join(".tmp").join(name)
    }

    /// Removes what a killed daemon had not finished writing. Only for the one who holds the daemon's lock.
    pub(super) fn sweep(&self) -> io::Result<()> {
        for area in ["commands", "questions"] {
            for entry in fs::read_dir(self.root.join(area).join(".tmp"))? {
                remove_if_there(&entry?.path())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_makes_every_folder_and_may_be_repeated() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().join("deep/volumes");
        let volumes = Volumes::open(&root).unwrap();
        Volumes::open(&root).unwrap();
        for folder in Folder::ALL {
            assert!(volumes.path(folder).is_dir(), "{folder:?}");
        }
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("reports")).unwrap();
        fs::write(root.path().join("reports/pending"), "").unwrap();
        let error = Volumes::open(root.path()).unwrap_err();
        assert!(error.to_string().ends_with("reports/pending`"), "{error}");
    }
}
