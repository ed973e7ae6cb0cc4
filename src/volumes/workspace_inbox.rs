//! `.plan-agent` in the workspace: an agent that may write nowhere else leaves its report there. A worker reads the report and
//! moves it to the daemon's folder. The folder is excluded from the workspace's git history and is removed with its last file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{REPORT_CAP, Result, VolumesError, keep_out_of_git, read_capped};
use crate::own_files;
use crate::plan::CommandId;

/// The folder's name.
const FOLDER: &str = ".plan-agent";
/// The name of a report whose name does not contain its command.
const COMMON: &str = "report.md";
/// How often creating the folder is tried when other processes remove it in the same instant.
const TRIES: u32 = 100;
/// The clock of a file system can be this coarse.
const COARSE: Duration = Duration::from_millis(20);

/// The files that the agent of one command leaves in a workspace.
#[derive(Clone, Debug)]
pub struct Inbox {
    folder: PathBuf,
    id: CommandId,
    /// The folder, with a lock that is shared by all workers in it: no process removes it meanwhile. The lock is on the folder
    /// and not on a file in it, so a crash leaves nothing behind.
    held: Option<Arc<File>>,
}

impl Inbox {
    /// Returns the inbox of a command in a workspace, without creating it.
    pub fn of(workspace: &Path, id: &CommandId) -> Self {
        let (folder, id, held) = (workspace.join(FOLDER), id.clone(), None);
        Self { folder, id, held }
    }

    /// Creates the folder, which then exists until it is closed or this process ends. A failure to exclude it from git is only
    /// logged.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn open(&mut self) -> Result<()> {
        if let Some(workspace) = self.folder.parent()
            && let Err(error) = keep_out_of_git(workspace)
        {
            tracing::warn!(%error, "the folder for reports is not kept out of git");
        }
        // The workspace itself is not created: an agent whose workspace does not exist is an error.
        let failed = |error| VolumesError::new("make the folder", &self.folder, error);
        for _ in 0..TRIES {
            match fs::create_dir(&self.folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed(error));
                }
                _ => {}
            }
            let Ok(folder) = own_files::folder(&self.folder) else {
                continue;
            };
            // This waits only for a process that is about to remove the folder. A file system without locks keeps the folder
            // nevertheless.
            drop(folder.lock_shared());
            if own_files::is_at(&folder, &self.folder) {
                self.held = Some(Arc::new(folder));
                return Ok(());
            }
        }
        Err(failed(io::ErrorKind::NotFound.into()))
    }

    /// Returns the path where the command's agent writes its report.
    pub fn report(&self) -> PathBuf {
        self.folder.join(format!("report-{}.md", self.id))
    }

    /// Reads what the command's agent left: the report under its own name, or a report under the common name that was written
    /// since a given time and names the command, because other agents may work in this workspace. A file is not read if it is
    /// larger than any report or is not a plain file.
    pub fn read(&self, since: SystemTime) -> Option<(PathBuf, Vec<u8>)> {
        let own = self.report();
        if let Ok(bytes) = read_capped(&own, REPORT_CAP) {
            return Some((own, bytes));
        }
        let common = self.folder.join(COMMON);
        if fs::symlink_metadata(&common).ok()?.modified().ok()? + COARSE < since {
            return None;
        }
        let bytes = read_capped(&common, REPORT_CAP).ok()?;
        let named = named(&bytes)?;
        let ours = self.id.as_str() == named || self.id.as_str() == format!("task-{named}");
        ours.then_some((common, bytes))
    }

    /// Removes a report that was archived, and the folder if that was its last file. A failure is logged; the report never
    /// counts again because it is older than the next command.
    pub fn remove(&self, report: &Path) {
        if let Err(error) = fs::remove_file(report) {
            tracing::warn!(%error, path = %report.display(), "a report that was filed stays in the workspace");
        }
        self.close();
    }

    /// Removes what the command's agent left here although it reported in another place.
    pub fn discard(&self) {
        // Most agents leave nothing.
        fs::remove_file(self.report()).ok();
        self.close();
    }

    /// Removes the folder if it is empty and no other worker uses it.
    pub fn close(&self) {
        let open = || own_files::folder(&self.folder).ok().map(Arc::new);
        let Some(folder) = self.held.clone().or_else(open) else {
            return;
        };
        if folder.try_lock().is_ok() {
            // This fails if the folder holds the report of an agent that works without a worker.
            fs::remove_dir(&self.folder).ok();
        }
        drop(folder.unlock());
    }
}

/// Returns the command that a report names in its front matter.
fn named(report: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(report);
    let front = text.lines().skip_while(|line| line.trim() != "---").skip(1);
    let mut front = front.take_while(|line| line.trim() != "---");
    let id = front.find_map(|line| line.strip_prefix("id:"))?;
    Some(id.trim().trim_matches(['"', '\'']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inbox_reads_own_or_new_common_report() {
        let root = tempfile::tempdir().unwrap();
        let mut inbox = Inbox::of(root.path(), &CommandId::new("task-1"));
        let start = SystemTime::now();
        inbox.open().unwrap();
        assert!(inbox.read(start).is_none());
        let common = "---\nid: task-1\n---\n";
        fs::write(inbox.folder.join(COMMON), common).unwrap();
        let later = SystemTime::now() + Duration::from_secs(60);
        assert!(inbox.read(later).is_none());
        let (path, bytes) = inbox.read(start).unwrap();
        assert_eq!(bytes, common.as_bytes());
        inbox.remove(&path);
        assert!(!inbox.folder.exists());
        inbox.open().unwrap();
        let other = Inbox::of(root.path(), &CommandId::new("task-2"));
        fs::write(other.report(), "other").unwrap();
        assert!(inbox.read(start).is_none());
        fs::write(inbox.report(), "own").unwrap();
        let (path, bytes) = inbox.read(later).unwrap();
        assert_eq!(bytes, b"own");
        inbox.remove(&path);
        assert!(inbox.folder.exists(), "another one's report is in it");
        other.discard();
        assert!(!inbox.folder.exists());
    }

    #[test]
    fn shared_report_belongs_to_its_command() {
        let root = tempfile::tempdir().unwrap();
        let [one, two] = ["task-1", "task-2"].map(|id| {
            let mut inbox = Inbox::of(root.path(), &CommandId::new(id));
            inbox.open().unwrap();
            inbox
        });
        let since = SystemTime::UNIX_EPOCH;
        let common = one.folder.join(COMMON);
        fs::write(&common, "---\nstatus: SUCCESS\n---\n\nid: task-1\n").unwrap();
        assert!(one.read(since).is_none() && two.read(since).is_none());
        for id in ["task-2", "\"task-2\"", "2"] {
            let text = format!("---\nid: {id}\nstatus: SUCCESS\n---\n");
            fs::write(&common, text).unwrap();
            assert!(one.read(since).is_none() && two.read(since).is_some());
        }
        two.remove(&common);
        assert!(one.folder.exists(), "the other one still works in it");
        one.close();
        assert!(!one.folder.exists());
    }

    #[test]
    fn inbox_stays_writable_while_others_close() {
        let root = tempfile::tempdir().unwrap();
        let work = |lane: u32| {
            for turn in 0..200 {
                let id = CommandId::new(format!("task-{lane}-{turn}"));
                let mut inbox = Inbox::of(root.path(), &id);
                inbox.open().unwrap();
                fs::write(inbox.report(), "mine").unwrap();
                inbox.discard();
            }
        };
        std::thread::scope(|scope| {
            for lane in 0..3 {
                scope.spawn(move || work(lane));
            }
        });
        assert!(!root.path().join(FOLDER).exists());
    }
}
