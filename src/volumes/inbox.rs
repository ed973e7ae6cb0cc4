//! `.plan-agent` in the workspace: where an agent that may write nowhere else leaves its report. A worker reads it there and
//! files it; the folder is kept out of the workspace's git history and goes away with its last file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::files::{VolumesError, read_capped};
use super::mission::keep_out_of_git;
use super::scan::REPORT_CAP;
use crate::plan::CommandId;

/// The folder's name.
const FOLDER: &str = ".plan-agent";
/// The name of a report that does not say in its name which command it is for.
const COMMON: &str = "report.md";
/// The clock of a file system is that coarse.
const COARSE: Duration = Duration::from_millis(20);

/// The reports that agents leave in one workspace.
#[derive(Clone, Debug)]
pub struct Inbox {
    folder: PathBuf,
}

impl Inbox {
    /// Names the one of a workspace.
    pub fn of(workspace: &Path) -> Self {
        Self {
            folder: workspace.join(FOLDER),
        }
    }

    /// Makes the folder. That git cannot be told about it is only logged.
    ///
    /// # Errors
    /// What the file system says.
    pub fn open(&self) -> Result<(), VolumesError> {
        if let Some(workspace) = self.folder.parent()
            && let Err(error) = keep_out_of_git(workspace)
        {
            tracing::warn!(%error, "the folder for reports is not kept out of git");
        }
        // Not the workspace: an agent that works in a folder which is not there is an error.
        match fs::create_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(VolumesError::new("make the folder", &self.folder, error))
            }
            _ => Ok(()),
        }
    }

    /// Returns the path where the agent of a command writes its report.
    pub fn report(&self, id: &CommandId) -> PathBuf {
        self.folder.join(format!("report-{id}.md"))
    }

    /// Reads what the agent of a command left: the report under its own name, or one under the common name that was written
    /// since a moment; whether that is this command's, its text has to say. Not what is larger than any report, or no plain
    /// file.
    pub fn read(&self, id: &CommandId, since: SystemTime) -> Option<(PathBuf, Vec<u8>)> {
        let own = self.report(id);
        if let Ok(bytes) = read_capped(&own, REPORT_CAP) {
            return Some((own, bytes));
        }
        let common = self.folder.join(COMMON);
        let written = fs::symlink_metadata(&common).ok()?.modified().ok()?;
        if written + COARSE < since {
            return None;
        }
        let bytes = read_capped(&common, REPORT_CAP).ok()?;
        Some((common, bytes))
    }

    /// Removes a report that was filed, and the folder if that was the last. What cannot be removed is logged, and never
    /// counts again: it is older than the next command.
    pub fn remove(&self, report: &Path) {
        if let Err(error) = fs::remove_file(report) {
            tracing::warn!(%error, path = %report.display(), "a report that was filed stays in the workspace");
        }
        self.close();
    }

    /// Removes the folder if it is empty.
    pub fn close(&self) {
        // An agent beside this one may have its report in there.
        fs::remove_dir(&self.folder).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_found_under_its_name_or_if_it_is_new() {
        let root = tempfile::tempdir().unwrap();
        let inbox = Inbox::of(root.path());
        let id = CommandId::new("task-1");
        let start = SystemTime::now();
        inbox.open().unwrap();
        assert!(inbox.read(&id, start).is_none());
        fs::write(inbox.folder.join(COMMON), "common").unwrap();
        let later = SystemTime::now() + Duration::from_secs(60);
        assert!(inbox.read(&id, later).is_none());
        let (path, bytes) = inbox.read(&id, start).unwrap();
        assert_eq!(bytes, b"common");
        inbox.remove(&path);
        assert!(!inbox.folder.exists());
        inbox.open().unwrap();
        fs::write(inbox.report(&CommandId::new("task-2")), "other").unwrap();
        assert!(inbox.read(&id, start).is_none());
        fs::write(inbox.report(&id), "own").unwrap();
        let (path, bytes) = inbox.read(&id, later).unwrap();
        assert_eq!(bytes, b"own");
        inbox.remove(&path);
        assert!(inbox.folder.exists(), "another one's report is in it");
    }
}
