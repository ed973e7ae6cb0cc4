//! Marks by which a later process finds a process that survived a kill. A mark is a file that serves as the standard error of
//! the process: it stays locked as long as any process of its tree is alive. Its name ends with the process group.
//!
//! Files can be forged, so their content is only a hint. The kernel records which processes this program started, before they
//! begin, and no other process can change that record: such a process inherits the open file through which the lock was taken,
//! and the process that took the lock is gone. Only such a process is ended.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::Pid;

use super::{ChildOutput, alive, stop_group};
use crate::plan::words;
use crate::processes::{self, Process};

/// The time between TERM and KILL for a process that was left behind: its result is not needed, and the start waits for its
/// end.
const LEFT_GRACE: Duration = Duration::from_millis(500);

words! {
    /// What a process with a mark was started for: the word between the name of the process and its group.
    pub enum MarkKind {
        Check = "check",
        /// An agent that is asked a question; its standard output is kept in a separate file.
        Question = "question",
        Hook = "hook",
        /// A check in a step of a role: the roles are not the daemon, and start when it does.
        Step = "step",
        /// A server with tools for roles: it is started before the roles start. Its answers to them are not in the file.
        Server = "server",
    }
}

/// A process's mark; its file is removed on drop.
#[derive(Debug)]
pub struct ProcessMark(PathBuf);

impl ProcessMark {
    /// Creates a mark, with the files for the output of its process. `None` if an earlier process of that name still runs.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn new(at: &Path, kind: MarkKind, name: &str) -> io::Result<Option<(Self, ChildOutput)>> {
        let path = at.join(format!("{name}.{}", kind.as_str()));
        let output = match kind {
            MarkKind::Question | MarkKind::Server => ChildOutput::locked_by(&path)?,
            MarkKind::Check | MarkKind::Hook | MarkKind::Step => ChildOutput::at(&path)?,
        };
        Ok(output.map(|output| (Self(path), output)))
    }

    /// Adds the process group to the file's name: the child could change the content, and a second file could be missing.
    pub fn name_group(&mut self, group: u32) {
        let mut name = self.0.clone().into_os_string();
        name.push(format!(".{group}"));
        let signed = PathBuf::from(name);
        match std::fs::rename(&self.0, &signed) {
            Ok(()) => self.0 = signed,
            Err(error) => tracing::warn!(%error, "a process is not found after a kill"),
        }
    }
}

impl Drop for ProcessMark {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(%error, path = %self.0.display(), "a mark stays behind");
        }
    }
}

/// Ends every process that still runs and has a mark in a folder. The caller must be the only process that starts such processes. A process that a check put into its own group is not ended, just as at the end of every check.
pub async fn end_left_behind(marks: &Path) {
    // A missing folder has no marks.
    let entries = std::fs::read_dir(marks).into_iter().flatten().flatten();
    let left: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    for path in left {
        let Some(signed) = signature(&path) else {
            continue;
        };
        if alive(&path) {
            let Some(group) = left_behind(&path, signed) else {
                tracing::warn!(path = %path.display(), "the process that has this file locked was not started here, and is not ended");
                continue;
            };
            tracing::info!(?group, path = %path.display(), "ends a process that was left behind");
            stop_group(group, LEFT_GRACE).await;
        }
        drop(ProcessMark(path));
    }
}

/// Returns the process group that a mark names, or that it names none yet; `None` if the file is not a mark.
fn signature(mark: &Path) -> Option<Option<u32>> {
    let name = mark.file_name()?.to_str()?;
    let mut kinds = MarkKind::ALL.into_iter();
    let (_, group) = kinds.find_map(|kind| name.rsplit_once(&format!(".{}", kind.as_str())))?;
    if group.is_empty() {
        return Some(None);
    }
    let group: i32 = group.strip_prefix('.')?.parse().ok()?;
    (group > 1).then_some(Some(group.cast_unsigned()))
}

/// Returns the process group that a process which is gone started with a file as its locked output. This is the named group, or
/// else a group whose leader holds the lock, because its starter may have been killed before it could name the group. `None` if
/// the lock belongs to another process.
pub fn left_behind(output: &Path, named: Option<u32>) -> Option<Pid> {
    let file = output.symlink_metadata().ok()?;
    let holder = |fits: &dyn Fn(&Process) -> bool| {
        let mut fitting = processes::all().filter(fits);
        fitting.find(|process| inherited(process, &file))
    };
    let in_named = named.and_then(|named| holder(&|process| process.group == named));
    let found = in_named.or_else(|| holder(&|process| process.group == process.pid))?;
    Pid::from_raw(found.group.cast_signed())
}

/// Returns whether a process holds the lock on a file through a handle inherited from a process that is gone.
fn inherited(process: &Process, file: &Metadata) -> bool {
    let of_process = PathBuf::from(format!("/proc/{}", process.pid));
    // Processes of other users cannot be read, and this program did not start them.
    let opened = fs::read_dir(of_process.join("fd")).into_iter().flatten();
    opened.flatten().any(|opened| {
        let is_file = fs::metadata(opened.path())
            .is_ok_and(|open| (open.dev(), open.ino()) == (file.dev(), file.ino()));
        is_file
            && fs::read_to_string(of_process.join("fdinfo").join(opened.file_name()))
                .is_ok_and(|info| handed_down(&info, process))
    })
}

/// Returns whether an open file, as the kernel shows it, was opened in the way of this program's outputs, and the lock was
/// taken through it by a process that is gone or by this one. A process that locked a file by itself, and whose file was moved
/// here, is still alive or opened the file in another way. A process that was started by a live process belongs to that one.
fn handed_down(info: &str, holder: &Process) -> bool {
    let ours = OFlags::RDWR | OFlags::APPEND;
    let opened_so = |flags: &str| {
        let flags = u32::from_str_radix(flags.trim(), 8).map(OFlags::from_bits_retain);
        flags.is_ok_and(|flags| flags & (OFlags::RWMODE | OFlags::APPEND) == ours)
    };
    let taker_is_gone = |lock: &str| {
        // For example `1: FLOCK  ADVISORY  WRITE 4711 fe:00:10011233 0 EOF`.
        let mut words = lock.split_whitespace().skip(1);
        let by = (words.next() == Some("FLOCK")).then(|| words.nth(2));
        let by = by.flatten().and_then(|pid| pid.parse::<u32>().ok());
        by.is_some_and(|pid| {
            // A process that began after the holder is another one with the same pid.
            let same = |taker: Process| !taker.ended && taker.began <= holder.began;
            pid == std::process::id() || !processes::of(pid).is_some_and(same)
        })
    };
    let mut flags = info.lines().filter_map(|line| line.strip_prefix("flags:"));
    let mut locks = info.lines().filter_map(|line| line.strip_prefix("lock:"));
    flags.any(opened_so) && locks.any(taker_is_gone)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use crate::exec::{ChildSpec, ProcessGroup, environment, run};

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn parses_group_from_mark_names_only() {
        let group = |name| Some(signature(Path::new(name))?.unwrap_or(0));
        assert_eq!(group("active/task-1.check.4711"), Some(4711));
        assert_eq!(group("active/task-1.check"), Some(0));
        assert_eq!(group("active/1-2.question.4711"), Some(4711));
        assert_eq!(group("task-1.step.4711"), Some(4711));
        let others = "task-1.check. task-1.check.x task-1.check.1 task-1.check.-5 task-1.checks \
            task-1.question.1 task-1.json 4711";
        for name in others.split(' ') {
            assert_eq!(group(name), None, "{name}");
        }
    }

    #[test]
    fn only_inherited_locks_count() {
        let holder = processes::of(std::process::id()).unwrap();
        // The parent of the tests is there, and was before them.
        for (flags, kind, taker, counts) in [
            ("0102002", "FLOCK", u32::MAX, true),
            ("0102002", "FLOCK", std::process::id(), true),
            ("0102002", "FLOCK", holder.parent, false),
            ("0102002", "POSIX", u32::MAX, false),
            ("0100002", "FLOCK", u32::MAX, false),
            ("0102001", "FLOCK", u32::MAX, false),
        ] {
            let lock = format!("lock:\t1: {kind}  ADVISORY  WRITE {taker} fe:00:10011233 0 EOF\n");
            let info = format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t27\nino:\t10011233\n{lock}");
            assert_eq!(handed_down(&info, &holder), counts, "{info}");
        }
        assert!(!handed_down("flags:\t0102002\n", &holder));
    }

    #[tokio::test]
    async fn leftover_check_is_found_by_mark() {
        for signed in [true, false] {
            let marks = tempfile::tempdir().unwrap();
            let (mut mark, output) = ProcessMark::new(marks.path(), MarkKind::Check, "a")
                .unwrap()
                .unwrap();
            let spec = ChildSpec {
                argv: ["sleep", "1000"].map(str::to_owned).to_vec(),
                cwd: std::env::temp_dir(),
                env: environment(&[]),
                stdin: None,
                deadline: LONG,
            };
            let (started, group) = tokio::sync::oneshot::channel();
            let child = tokio::spawn(async move {
                let begun = |group: &mut ProcessGroup| {
                    if signed {
                        mark.name_group(group.id());
                    }
                    // As if the daemon had been killed.
                    std::mem::forget(mark);
                    started.send(()).unwrap();
                };
                run(&spec, &output, begun, pending()).await
            });
            group.await.unwrap();
            end_left_behind(marks.path()).await;
            let outcome = child.await.unwrap().unwrap();
            assert!(outcome.signal.is_some(), "signed: {signed}");
            assert_eq!(std::fs::read_dir(marks.path()).unwrap().count(), 0);
        }
    }
}
