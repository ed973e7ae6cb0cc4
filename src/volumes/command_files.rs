//! The file of a command: publishing, finding and withdrawing it.

use std::fs::{self, DirEntry};
use std::io;
use std::path::PathBuf;

use super::folder_layout::Folder::{
    ReportsPending, ReportsProcessed, ReportsRejected, ReportsStale,
};
use super::{
    Cannot, Folder, REPORT_CAP, Result, Unpublished, Volumes, VolumesError, exists, move_aside,
    move_new, read_capped, read_text, replace, unless,
};
use crate::plan::CommandId;
use crate::wire::report_file::command_of;
use crate::wire::{CommandFile, safe_name};

/// Where the file of a command was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandPlace {
    /// No worker has claimed it.
    Pending,
    /// A worker has claimed it.
    Processed,
    /// It was withdrawn.
    Withdrawn,
    /// A report for it has arrived.
    Reported,
    /// It was not found: it was never published, or was removed by hand.
    Nowhere,
}

/// The outcome of withdrawing a command, which can race with a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// It is withdrawn; no agent will see it.
    Withdrawn,
    /// It was not in its folder any more: a worker has claimed it.
    Taken,
}

impl Volumes {
    /// Publishes a command where agents find it, as a whole and in one step. The same text under the same id may be
    /// published again; it does not matter whether the file still exists.
    ///
    /// # Errors
    /// `AlreadyExists` when another text exists under this id, `InvalidInput` when the id cannot be a file name, otherwise the
    /// error of the file system.
    pub fn publish(&self, id: &CommandId, text: &str) -> Result<()> {
        self.publish_prepared(self.prepare(id, text)?, text)
    }

    /// Writes a command to a temporary folder that no worker reads, so that only a rename is left to publish it. The command
    /// goes to its assignee's own folder, if the assignee has one.
    ///
    /// # Errors
    /// As [`Volumes::publish`].
    pub fn prepare(&self, id: &CommandId, text: &str) -> Result<Unpublished> {
        let name = file_name(id.as_str())?;
        // The text only has to be parsed if some roles have folders of their own.
        let roles = self.own().next();
        let assignee = roles.and_then(|_| CommandFile::parse(text).ok()?.assignee);
        let own =
            assignee.and_then(|role| self.own().find(|own| own.role() == Some(role.as_str())));
        let there = own.unwrap_or_else(|| self.clone());
        let path = there.command(Folder::CommandsPending, id);
        let temp = there.temp("commands", &name);
        Unpublished::write(&temp, &path, text.as_bytes(), 0o666)
    }

    /// Publishes a command that was prepared with this text.
    ///
    /// # Errors
    /// As [`Volumes::publish`].
    pub fn publish_prepared(&self, file: Unpublished, text: &str) -> Result<()> {
        let path = file.path.clone();
        match file.publish() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let there = read_capped(&path, text.len() as u64);
                let same = there.is_ok_and(|there| there == text.as_bytes());
                if same { Ok(()) } else { Err(error) }
            }
            published => published,
        }
    }

    /// Finds a command. The folders are checked in the order in which its file moves, so that a file which moves meanwhile is
    /// not missed.
    ///
    /// # Errors
    /// When a folder cannot be read.
    pub fn whereabouts(&self, id: &CommandId) -> Result<CommandPlace> {
        file_name(id.as_str())?;
        let everywhere = self.everywhere();
        for (folder, found) in [
            (Folder::CommandsPending, CommandPlace::Pending),
            (Folder::CommandsProcessed, CommandPlace::Processed),
            (Folder::CommandsWithdrawn, CommandPlace::Withdrawn),
        ] {
            for volumes in &everywhere {
                if exists(&volumes.command(folder, id))? {
                    return Ok(found);
                }
            }
        }
        Ok(match self.reported(id)? {
            true => CommandPlace::Reported,
            false => CommandPlace::Nowhere,
        })
    }

    /// Returns whether a report for a command has arrived, whether or not it has been moved to an archive folder.
    ///
    /// # Errors
    /// When a folder cannot be read.
    pub fn reported(&self, id: &CommandId) -> Result<bool> {
        if self.is_unread(id)? {
            return Ok(true);
        }
        self.is_archived(id, [ReportsProcessed, ReportsStale, ReportsRejected])
    }

    /// Returns whether the report of a command was filed as one that counts.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn is_filed(&self, id: &CommandId) -> Result<bool> {
        self.is_archived(id, [ReportsProcessed])
    }

    /// A report in an archive folder has the name with which it arrived. Only the two names of the protocol are checked, so that the
    /// cost does not grow with the number of archived reports.
    fn is_archived<const N: usize>(&self, id: &CommandId, folders: [Folder; N]) -> Result<bool> {
        for path in self.reports(id, folders) {
            if exists(&path)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives the archived report of a command, if there is one, another name: the command is to be worked on again.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn set_report_aside(&self, id: &CommandId) -> Result<()> {
        for folder in [ReportsProcessed, ReportsStale, ReportsRejected] {
            for path in self.reports(id, [folder]) {
                let moved = move_aside(&path, &self.path(folder));
                unless(io::ErrorKind::NotFound, moved)?;
            }
        }
        Ok(())
    }

    /// Returns whether a report for a command lies among those that have not been moved to an archive folder.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn is_unread(&self, id: &CommandId) -> Result<bool> {
        let pending = self.names(ReportsPending)?;
        let mut arrived = pending.iter().filter_map(|name| command_of(name));
        Ok(arrived.any(|found| found == *id))
    }

    /// Returns where the report of a command may be in some folders: with its id, or with that without `task-`.
    fn reports<const N: usize>(
        &self,
        id: &CommandId,
        folders: [Folder; N],
    ) -> impl Iterator<Item = PathBuf> {
        let short = id.as_str().strip_prefix("task-").unwrap_or(id.as_str());
        folders.into_iter().flat_map(move |folder| {
            let folder = self.path(folder);
            [id.as_str(), short].map(|stem| folder.join(format!("report-{stem}.md")))
        })
    }

    /// Withdraws a command. A single rename decides the race with a worker that claims it.
    ///
    /// # Errors
    /// The error of the file system; the command has then not moved.
    pub fn withdraw(&self, id: &CommandId) -> Result<Withdrawal> {
        file_name(id.as_str())?;
        let everywhere = self.everywhere();
        for volumes in &everywhere {
            let withdrawn = volumes.path(Folder::CommandsWithdrawn);
            let pending = volumes.command(Folder::CommandsPending, id);
            if unless(io::ErrorKind::NotFound, move_aside(&pending, &withdrawn))?.is_some() {
                return Ok(Withdrawal::Withdrawn);
            }
        }
        // A crash may have happened between the rename and its record.
        for volumes in &everywhere {
            if exists(&volumes.command(Folder::CommandsWithdrawn, id))? {
                return Ok(Withdrawal::Withdrawn);
            }
        }
        Ok(Withdrawal::Taken)
    }

    /// Withdraws a command, or, where an agent has claimed it and not reported, asks that agent to stop. May be called again.
    ///
    /// # Errors
    /// The error of the file system; it is then unknown whether the agent was asked to stop.
    pub fn recall(&self, id: &CommandId) -> Result<Withdrawal> {
        loop {
            if self.withdraw(id)? == Withdrawal::Withdrawn {
                return Ok(Withdrawal::Withdrawn);
            }
            match self.whereabouts(id)? {
                // A worker returned it in between.
                CommandPlace::Pending => {}
                CommandPlace::Processed if !self.reported(id)? => {
                    self.cancel(id)?;
                    // A worker may have returned it before the mark existed.
                    if self.whereabouts(id)? != CommandPlace::Pending {
                        return Ok(Withdrawal::Taken);
                    }
                }
                _ => return Ok(Withdrawal::Taken),
            }
        }
    }

    /// Claims a command for an agent. A single rename decides the race with other agents and with the daemon.
    ///
    /// # Errors
    /// `NotFound` when another process was faster, otherwise the error of the file system.
    pub fn claim(&self, id: &CommandId) -> Result<()> {
        let pending = self.command(Folder::CommandsPending, id);
        move_new(&pending, &self.command(Folder::CommandsProcessed, id)).cannot("take", &pending)
    }

    /// Takes a command from the unclaimed ones that was answered: an agent may have left it there. May be called again.
    ///
    /// # Errors
    /// The error of the file system; another agent may then find it.
    pub fn answered(&self, id: &CommandId) -> Result<()> {
        for volumes in self.everywhere() {
            unless(io::ErrorKind::NotFound, volumes.claim(id))?;
        }
        Ok(())
    }

    /// Returns a claimed command to the unclaimed ones.
    ///
    /// # Errors
    /// The error of the file system; the command has then not moved.
    pub fn release(&self, id: &CommandId) -> Result<()> {
        let taken = self.command(Folder::CommandsProcessed, id);
        move_new(&taken, &self.command(Folder::CommandsPending, id)).cannot("give back", &taken)
    }

    /// Asks the agent that works on a command to stop. An existing mark is fine. Anything in its place that is not a plain file
    /// is replaced; otherwise an agent could prevent that it is stopped.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn cancel(&self, id: &CommandId) -> Result<()> {
        file_name(id.as_str())?;
        let path = self.cancel_mark(id);
        if path.symlink_metadata().is_ok_and(|there| there.is_file()) {
            return Ok(());
        }
        let temp = self.temp("active", &format!("{id}.cancel"));
        replace(&temp, &path, b"", 0o666)
    }

    /// Returns the commands that no worker has claimed, in the order of issue.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn waiting(&self) -> Result<Vec<CommandId>> {
        self.ids(Folder::CommandsPending, ".md")
    }

    /// Returns the claimed commands, in the order of issue.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn taken(&self) -> Result<Vec<CommandId>> {
        self.ids(Folder::CommandsProcessed, ".md")
    }

    /// Returns the commands that a worker holds or held when it died, in the order of issue.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn locked(&self) -> Result<Vec<CommandId>> {
        self.ids(Folder::Active, ".lock")
    }

    /// Lists the commands that have a file with this ending in a folder, in the order of issue.
    fn ids(&self, folder: Folder, ending: &str) -> Result<Vec<CommandId>> {
        let names = self.names(folder)?;
        let ids = names.iter().filter_map(|name| name.strip_suffix(ending));
        let mut ids: Vec<_> = ids.filter(|id| safe_name(id)).map(CommandId::new).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Returns the names in a folder.
    pub(super) fn names(&self, folder: Folder) -> Result<Vec<String>> {
        let path = self.path(folder);
        let name = |entry: DirEntry| entry.file_name().to_string_lossy().into_owned();
        let entries = fs::read_dir(&path).cannot("list", &path)?;
        let names: io::Result<_> = entries.map(|entry| entry.map(name)).collect();
        names.cannot("list", &path)
    }

    /// Reads the report on a command as it arrived, in whichever folder it is now. `None` if no readable report exists.
    pub fn read_report(&self, id: &CommandId) -> Option<String> {
        self.reports(id, [ReportsPending, ReportsProcessed, ReportsStale])
            .find_map(|path| read_text(&path, REPORT_CAP).ok())
    }

    /// Reads a command in a given folder; `None` if it is not there, or cannot be read.
    pub fn find_command(&self, folder: Folder, id: &CommandId) -> Option<CommandFile> {
        CommandFile::parse(&self.read_command(folder, id).ok()?).ok()
    }

    /// Reads the text of a command in a given folder.
    ///
    /// # Errors
    /// When it does not exist there, is not a plain file, or is larger than the limit.
    pub fn read_command(&self, folder: Folder, id: &CommandId) -> Result<String> {
        let path = self.command(folder, id);
        read_text(&path, REPORT_CAP).cannot("read", &path)
    }
}

/// Returns the file name for an id, or refuses an id that could lead to another place.
pub(super) fn file_name(id: &str) -> Result<String> {
    if safe_name(id) {
        return Ok(format!("{id}.md"));
    }
    let reason = "an id has at most 64 letters, digits, `-` and `_`";
    Err(VolumesError::misnamed("use the id", id, reason))
}

#[cfg(test)]
mod tests {
    use super::super::{Scanner, WatchHints};
    use super::*;
    use crate::config::Timing;

    fn id() -> CommandId {
        CommandId::new("task-0190a0b0-0000-7000-8000-000000000001")
    }

    #[test]
    fn publish_is_idempotent_and_never_overwrites() {
        let (_root, volumes) = Volumes::temporary();
        volumes.publish(&id(), "text").unwrap();
        volumes.publish(&id(), "text").unwrap();
        let error = volumes.publish(&id(), "other").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        let path = volumes.command(Folder::CommandsPending, &id());
        assert_eq!(fs::read_to_string(path).unwrap(), "text");
    }

    #[test]
    fn rejects_ids_that_leave_the_folder() {
        let (root, volumes) = Volumes::temporary();
        let long = "a".repeat(300);
        for hostile in ["../x", "/etc/x", "a/b", "", ".x", "a\0b", "ä", "x\n", &long] {
            let id = CommandId::new(hostile);
            assert!(volumes.publish(&id, "x").is_err(), "{hostile:?}");
            assert!(volumes.withdraw(&id).is_err(), "{hostile:?}");
            assert!(volumes.cancel(&id).is_err(), "{hostile:?}");
            assert!(volumes.whereabouts(&id).is_err(), "{hostile:?}");
        }
        assert!(!root.path().join("commands/x.md").exists());
        assert!(!root.path().join("x.md").exists());
    }

    #[test]
    fn finds_command_in_every_folder() {
        let (_root, volumes) = Volumes::temporary();
        let found = |expected| assert_eq!(volumes.whereabouts(&id()).unwrap(), expected);
        found(CommandPlace::Nowhere);
        volumes.publish(&id(), "text").unwrap();
        found(CommandPlace::Pending);
        let pending = volumes.command(Folder::CommandsPending, &id());
        let processed = volumes.command(Folder::CommandsProcessed, &id());
        fs::rename(&pending, &processed).unwrap();
        found(CommandPlace::Processed);
        assert_eq!(volumes.withdraw(&id()).unwrap(), Withdrawal::Taken);
        fs::rename(&processed, &pending).unwrap();
        assert_eq!(volumes.withdraw(&id()).unwrap(), Withdrawal::Withdrawn);
        assert_eq!(volumes.withdraw(&id()).unwrap(), Withdrawal::Withdrawn);
        found(CommandPlace::Withdrawn);
        fs::remove_file(volumes.command(Folder::CommandsWithdrawn, &id())).unwrap();
        let short = "report-0190a0b0-0000-7000-8000-000000000001.md";
        for folder in [
            Folder::ReportsPending,
            Folder::ReportsProcessed,
            Folder::ReportsStale,
            Folder::ReportsRejected,
        ] {
            for name in [format!("report-{}.md", id()), short.to_owned()] {
                let path = volumes.path(folder).join(name);
                fs::write(&path, "").unwrap();
                found(CommandPlace::Reported);
                fs::remove_file(&path).unwrap();
            }
        }
        found(CommandPlace::Nowhere);
    }

    #[test]
    fn role_commands_lie_in_role_folders() {
        let (root, common) = Volumes::temporary();
        let volumes = common.with_own(&["reviewer".to_owned()]).unwrap();
        let front = "session_id: auto\ncommand_type: new";
        let text = |assignee| format!("---\nid: {}\n{front}\nassignee: {assignee}\n---\n", id());
        let own = volumes.of_role("reviewer");
        let path = own.command(Folder::CommandsPending, &id());
        assert!(path.starts_with(root.path().join("roles/reviewer")));
        volumes.publish(&id(), &text("reviewer")).unwrap();
        volumes.publish(&id(), &text("reviewer")).unwrap();
        assert!(path.exists());
        // Every reader finds it, also one that knows nothing of the role.
        assert_eq!(common.whereabouts(&id()).unwrap(), CommandPlace::Pending);
        assert_eq!(common.waiting().unwrap(), []);
        assert_eq!(own.waiting().unwrap(), [id()]);
        let mut scanner = Scanner::new(&common, WatchHints::default(), Timing::default().scan);
        own.claim(&id()).unwrap();
        let scan = scanner.scan(&[id()], &[], 1).unwrap();
        assert!(scan.signs[&id()].claimed);
        assert_eq!(common.withdraw(&id()).unwrap(), Withdrawal::Taken);
        own.release(&id()).unwrap();
        assert_eq!(common.withdraw(&id()).unwrap(), Withdrawal::Withdrawn);
        assert_eq!(common.withdraw(&id()).unwrap(), Withdrawal::Withdrawn);
        assert_eq!(common.whereabouts(&id()).unwrap(), CommandPlace::Withdrawn);
        assert!(own.command(Folder::CommandsWithdrawn, &id()).exists());

        let other = CommandId::new("task-2");
        volumes.publish(&other, &text("coder")).unwrap();
        assert_eq!(common.waiting().unwrap(), [other]);
        for hostile in ["../x", "", "a/b"] {
            assert!(common.with_own(&[hostile.to_owned()]).is_err());
            assert_eq!(common.of_role(hostile), common);
        }
    }

    #[test]
    fn recall_withdraws_or_marks_command() {
        let (_root, volumes) = Volumes::temporary();
        let [waits, taken, reported, never] =
            ["task-1", "task-2", "task-3", "task-4"].map(CommandId::new);
        for id in [&waits, &taken, &reported] {
            volumes.publish(id, "text").unwrap();
        }
        volumes.claim(&taken).unwrap();
        volumes.claim(&reported).unwrap();
        volumes.submit(&reported, "text").unwrap();
        let recall = |id| volumes.recall(id).unwrap();
        for _ in 0..2 {
            assert_eq!(recall(&waits), Withdrawal::Withdrawn);
            for id in [&taken, &reported, &never] {
                assert_eq!(recall(id), Withdrawal::Taken);
            }
        }
        assert!(volumes.cancel_mark(&taken).exists());
        assert!(!volumes.cancel_mark(&reported).exists());
        assert!(!volumes.cancel_mark(&never).exists());
    }

    #[test]
    fn failed_cancel_mark_is_retried() {
        let (_root, volumes) = Volumes::temporary();
        let id = CommandId::new("task-1");
        volumes.publish(&id, "text").unwrap();
        volumes.claim(&id).unwrap();
        // Nothing can be written where the mark belongs.
        let mark = volumes.cancel_mark(&id);
        fs::create_dir(&mark).unwrap();
        assert!(volumes.recall(&id).is_err());
        fs::remove_dir(&mark).unwrap();
        assert_eq!(volumes.recall(&id).unwrap(), Withdrawal::Taken);
        assert!(mark.is_file());
    }

    #[test]
    fn withdraw_and_claim_have_one_winner() {
        let (_root, volumes) = Volumes::temporary();
        for round in 0..200 {
            let id = CommandId::new(format!("task-{round}"));
            volumes.publish(&id, "text").unwrap();
            let claimed = std::thread::scope(|scope| {
                let claim = scope.spawn(|| volumes.claim(&id).is_ok());
                let withdrawn = volumes.withdraw(&id).unwrap() == Withdrawal::Withdrawn;
                let claimed = claim.join().unwrap();
                assert_ne!(claimed, withdrawn, "round {round}");
                claimed
            });
            let folder = if claimed {
                Folder::CommandsProcessed
            } else {
                Folder::CommandsWithdrawn
            };
            assert!(volumes.command(folder, &id).exists());
        }
    }
}
