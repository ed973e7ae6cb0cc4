//! Files of this program that a power cut left empty or incomplete. They are renamed into place without a flush, which would
//! take as long as everything else between a report and the next command; the store has the text of each. A torn file is moved
//! aside and so becomes missing: the code that restores missing files also restores this one.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::{Folder, Result, Volumes, file_name, move_aside_as, open_regular, read_capped, unless};
use crate::plan::{CommandId, QuestionId};

impl Volumes {
    /// Moves a command aside that a power cut tore; `text` is the text with which it was published. A claimed command does not
    /// move if a worker holds it, if its agent is alive, or if a report exists. Returns whether a command was moved.
    ///
    /// A command that is claimed meanwhile is never moved: it is not searched for in its new folder.
    ///
    /// # Errors
    /// The error of the file system; the command has then not moved.
    pub fn set_torn_command_aside(&self, id: &CommandId, text: &str) -> Result<bool> {
        file_name(id.as_str())?;
        let name = format!("{id}.torn.md");
        for volumes in self.everywhere() {
            let aside = volumes.path(Folder::CommandsWithdrawn).join(&name);
            let taken = volumes.command(Folder::CommandsProcessed, id);
            if is_torn(&taken, text) {
                let Some(_lock) = self.lock_unheld(id) else {
                    return Ok(false);
                };
                return Ok(!self.reported(id)? && set_aside(&taken, &aside)?);
            }
            let pending = volumes.command(Folder::CommandsPending, id);
            if is_torn(&pending, text) {
                return set_aside(&pending, &aside);
            }
        }
        Ok(false)
    }

    /// Moves an open question aside that a power cut tore; `text` is the text with which it was written. Returns whether a
    /// question was moved.
    ///
    /// # Errors
    /// As [`Volumes::set_torn_command_aside`].
    pub fn set_torn_question_aside(&self, id: &QuestionId, text: &str) -> Result<bool> {
        file_name(id.as_str())?;
        let question = self.question(id);
        let name = format!("question-{id}.torn.md");
        let aside = self.path(Folder::QuestionsAnswered).join(name);
        Ok(is_torn(&question, text) && set_aside(&question, &aside)?)
    }

    /// Locks the claim of a command on which no agent works; `None` if one may be working. Locks nothing if no worker ever
    /// claimed the command.
    fn lock_unheld(&self, id: &CommandId) -> Option<Option<File>> {
        let lock = match open_regular(&self.claim_lock(id)) {
            Ok((file, _)) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(_) => return None,
        };
        if lock.as_ref().is_some_and(|file| file.try_lock().is_err()) {
            return None;
        }
        // An agent without a worker has no lock. If another process has its pid by now, nothing is repaired.
        let agent = self.read_life(id).pid;
        let agent = agent.and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let lives = agent.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH));
        (!lives).then_some(lock)
    }
}

/// Returns whether a file that was written with this text lost a part of it as in a power cut: it is empty, or has the
/// beginning of the text, followed by zeros at most. Any other content is a person's edit; a file that cannot be read also
/// counts as one.
fn is_torn(path: &Path, text: &str) -> bool {
    part(path, text).is_some_and(|part| part != text.as_bytes())
}

/// Returns whether a file that was written with this text is complete or torn.
pub(super) fn is_part(path: &Path, text: &str) -> bool {
    part(path, text).is_some()
}

fn part(path: &Path, text: &str) -> Option<Vec<u8>> {
    let there = read_capped(path, text.len() as u64).ok()?;
    let zeros = there.iter().rev().take_while(|byte| **byte == 0).count();
    (text.as_bytes().starts_with(&there[..there.len() - zeros])).then_some(there)
}

/// Moves a torn file aside; false if it no longer exists because a worker claimed it.
fn set_aside(torn: &Path, aside: &Path) -> Result<bool> {
    let moved = unless(io::ErrorKind::NotFound, move_aside_as(torn, aside))?;
    if let Some(to) = &moved {
        let (from, to) = (torn.display(), to.display());
        tracing::warn!(%from, %to, "torn by a power cut, and put back from the plan");
    }
    Ok(moved.is_some())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn torn_file_is_prefix_and_zeros() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        for (there, torn) in [
            ("", true),
            ("\0", true),
            ("\0\0\0\0", true),
            ("a", true),
            ("abc", true),
            ("ab\0\0", true),
            ("abcd", false),
            ("abcd\0", false),
            ("\0\0\0\0\0", false),
            ("\0bcd", false),
            ("a\0cd", false),
            ("b", false),
            ("abx", false),
            ("abcde", false),
        ] {
            fs::write(&path, there).unwrap();
            assert_eq!(is_torn(&path, "abcd"), torn, "{there:?}");
        }
        let link = root.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        for none in [root.path(), &link, &root.path().join("nothing")] {
            assert!(!is_torn(none, "abcd"), "{}", none.display());
        }
    }

    #[test]
    fn torn_command_is_claimed_or_moved_once() {
        let (_root, volumes) = Volumes::temporary();
        for round in 0..200 {
            let id = CommandId::new(format!("task-{round}"));
            volumes.publish(&id, "te").unwrap();
            let claimed = std::thread::scope(|scope| {
                let claim = scope.spawn(|| volumes.claim(&id).is_ok());
                let moved = volumes.set_torn_command_aside(&id, "text").unwrap();
                let claimed = claim.join().unwrap();
                assert!(claimed || moved, "round {round}");
                claimed.then_some(moved)
            });
            if let Some(moved) = claimed {
                // Taken before the search for it or after, and no process holds it.
                let taken = volumes.command(Folder::CommandsProcessed, &id);
                assert_eq!(taken.exists(), !moved, "round {round}");
            }
            assert!(!volumes.command(Folder::CommandsPending, &id).exists());
        }
    }
}
