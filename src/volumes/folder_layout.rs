//! The folders and files below the root of the volumes.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Access;

use super::{Cannot, Result, VolumesError};
use crate::bounded_read;
use crate::own_files::{self, remove_if_there};
use crate::plan::{CommandId, PlanId, words};
use crate::wire::{one_line, safe_name};

/// The variable with the exchange folder that its command came from, for an agent's own tools.
pub const EXCHANGE: &str = "PLAN_AGENT_EXCHANGE";

/// The variable with the id of the command that an agent was started for.
pub const COMMAND: &str = "PLAN_AGENT_COMMAND";

/// Bytes of the note about a store that is elsewhere.
const MOST_NOTED: usize = 1024;

words! {
    /// A folder of the volumes, by its path below the root.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Folder {
        /// Commands that no worker has claimed.
        CommandsPending = "commands/pending",
        /// Commands that a worker has claimed.
        CommandsProcessed = "commands/processed",
        /// Commands that the daemon has withdrawn.
        CommandsWithdrawn = "commands/withdrawn",
        /// Reports as they arrive.
        ReportsPending = "reports/pending",
        /// Reports that counted.
        ReportsProcessed = "reports/processed",
        /// Reports that came too late, twice, or for no known command.
        ReportsStale = "reports/stale",
        /// Reports that could not be read, each with a file that states the reason.
        ReportsRejected = "reports/rejected",
        /// Questions to a person.
        QuestionsPending = "questions/pending",
        /// Questions that are answered or closed.
        QuestionsAnswered = "questions/answered",
        /// Heartbeats, cancel marks, and the workers' claims.
        Active = "active",
        /// Output of agents, and of a daemon in the background.
        Logs = "logs",
        /// The default work folder.
        Workspace = "workspace",
    }
}

impl Folder {
    /// Returns whether a role can have its own folder of this kind.
    fn is_of_commands(self) -> bool {
        self.as_str().starts_with(COMMANDS)
    }
}

/// The parent of the command folders.
const COMMANDS: &str = "commands";

/// Folders in which files are written before they are renamed into place. They are beside that place, so on the same file
/// system, and outside the folders that are watched.
const TEMP: &str = "commands/.tmp reports/.tmp questions/.tmp active/.tmp";

/// The folder below the root for roles with command folders of their own.
const ROLES: &str = "roles";
/// The folders for the worktrees of plans and for git snapshots of workspaces; they are created where they are needed.
const WORKTREES: &str = "worktrees";
const TREES: &str = "trees";

/// The volumes at one root. Cheap to clone; holds no open file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volumes {
    root: PathBuf,
    /// The role whose commands these are, if that role has command folders of its own.
    role: Option<Arc<str>>,
    /// The roles whose commands are published in folders of their own.
    own: Arc<[String]>,
}

impl Volumes {
    /// Returns the volumes at a root without accessing the disk, for callers that only read.
    ///
    /// # Errors
    /// When the root is relative and the current folder is gone, or the path is empty.
    pub fn at(root: &Path) -> Result<Self> {
        Ok(Self {
            root: std::path::absolute(root).cannot("find the folder", root)?,
            role: None,
            own: Arc::new([]),
        })
    }

    /// Returns the same volumes with command folders of their own for these roles, and creates those folders.
    ///
    /// # Errors
    /// A folder cannot be created, or a role's name cannot be the name of a folder.
    pub fn with_own(&self, roles: &[String]) -> Result<Self> {
        if let Some(name) = roles.iter().find(|role| !safe_name(role)) {
            let reason = "it can be no folder's name";
            return Err(VolumesError::misnamed("use the role", name, reason));
        }
        let volumes = Self {
            own: roles.into(),
            ..self.clone()
        };
        volumes.make_missing()?;
        Ok(volumes)
    }

    /// Returns the volumes of a role with command folders of its own; all other folders are common.
    pub fn of_role(&self, role: &str) -> Self {
        Self {
            role: safe_name(role).then(|| role.into()),
            own: Arc::new([]),
            ..self.clone()
        }
    }

    /// Returns the role whose commands these are, if it has folders of its own.
    pub fn role(&self) -> Option<&str> {
        self.role.as_deref()
    }

    /// Returns the volumes of the roles whose commands are published in folders of their own.
    pub(super) fn own(&self) -> impl Iterator<Item = Self> {
        self.own.iter().map(|role| self.of_role(role))
    }

    /// Returns all volumes in which commands may be: these volumes, and those of each role that has folders of its own by now,
    /// whichever process created them. For the volumes of a role it returns only themselves.
    pub fn everywhere(&self) -> Vec<Self> {
        let mut all = vec![self.clone()];
        if self.role.is_none()
            && let Ok(entries) = fs::read_dir(self.root.join(ROLES))
        {
            let names = entries.flatten().map(|entry| entry.file_name());
            let names = names.filter_map(|name| name.into_string().ok());
            let mut roles: Vec<String> = names.filter(|name| safe_name(name)).collect();
            roles.sort_unstable();
            all.extend(roles.iter().map(|role| self.of_role(role)));
        }
        all
    }

    /// Creates every missing folder and checks that all folders are writable.
    ///
    /// # Errors
    /// Names the first folder that cannot be created or is not writable.
    pub fn open(root: &Path) -> Result<Self> {
        let volumes = Self::at(root)?;
        volumes.make_missing()?;
        for path in volumes.folders() {
            let access = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
            let allowed = rustix::fs::access(&path, access).map_err(io::Error::from);
            allowed.cannot("write to the folder", &path)?;
        }
        Ok(volumes)
    }

    /// Creates the missing folders and returns them.
    ///
    /// # Errors
    /// Names the first folder that cannot be created, or that is a link: files written, archived or removed there would be
    /// another owner's.
    pub(super) fn make_missing(&self) -> Result<Vec<PathBuf>> {
        self.refuse_links()?;
        let logs = self.path(Folder::Logs);
        let missing: Vec<_> = self.folders().filter(|path| !path.is_dir()).collect();
        for path in &missing {
            // Agents may print anything; only the owner needs to read it.
            let mode = if *path == logs { 0o700 } else { 0o777 };
            let mut builder = fs::DirBuilder::new();
            let made = builder.recursive(true).mode(mode).create(path);
            made.cannot("make the folder", path)?;
        }
        Ok(missing)
    }

    /// Refuses links, except for the root and the workspace: these are a person's choice.
    fn refuse_links(&self) -> Result<()> {
        let below = |path: &Path| *path != *self.root && path.starts_with(&self.root);
        let others = [WORKTREES, TREES, ROLES].map(|name| self.root.join(name));
        let mut folders: BTreeSet<PathBuf> = others.into();
        for folder in self.folders() {
            let way = folder.ancestors().take_while(|path| below(path));
            folders.extend(way.map(Path::to_owned));
        }
        folders.remove(&self.path(Folder::Workspace));
        match folders.into_iter().find(|path| path.is_symlink()) {
            Some(link) => {
                let error = own_files::refused(own_files::LINK);
                Err(VolumesError::new("use the folder", &link, error))
            }
            None => Ok(()),
        }
    }

    fn folders(&self) -> impl Iterator<Item = PathBuf> {
        let all = Folder::ALL.into_iter().map(Folder::as_str);
        let all = all.chain(TEMP.split(' '));
        let common = all.map(|folder| self.root.join(folder));
        let own = self.own().flat_map(|volumes| {
            let of_role = Folder::ALL.into_iter().filter(|it| it.is_of_commands());
            let folders = of_role.map(|folder| volumes.path(folder));
            let temp = volumes.temp(COMMANDS, "");
            folders.chain([temp]).collect::<Vec<_>>()
        });
        common.chain(own)
    }

    /// Returns the absolute root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the absolute path of a folder.
    pub fn path(&self, folder: Folder) -> PathBuf {
        self.base(folder.is_of_commands()).join(folder.as_str())
    }

    /// Returns the folder that contains the folders of commands, or all others.
    fn base(&self, of_commands: bool) -> PathBuf {
        match &self.role {
            Some(role) if of_commands => self.root.join(ROLES).join(&**role),
            _ => self.root.clone(),
        }
    }

    /// Returns the path of the embedded database.
    pub fn database(&self) -> PathBuf {
        self.root.join("plan-agent.db")
    }

    /// Returns the path of the note about a store that is elsewhere.
    pub fn store_note(&self) -> PathBuf {
        self.root.join("plan-agent.store")
    }

    /// Notes where the store of this folder is, without what leads into it: a process that is not told of it must not begin
    /// another one here.
    ///
    /// # Errors
    /// The note cannot be written.
    pub fn note_store(&self, place: &str) -> io::Result<()> {
        match self.noted_store().as_deref() == Some(place) {
            true => Ok(()),
            false => own_files::replace(&self.store_note(), format!("{place}\n").as_bytes()),
        }
    }

    /// Returns the place that is noted.
    pub fn noted_store(&self) -> Option<String> {
        let text = bounded_read::read_file(&self.store_note(), MOST_NOTED).ok()?;
        Some(one_line(&text, MOST_NOTED))
    }

    /// Returns the path of a command's file in one of the command folders.
    pub fn command(&self, folder: Folder, id: &CommandId) -> PathBuf {
        self.path(folder).join(format!("{id}.md"))
    }

    /// Returns the folder in which a plan has its MISSION.md while another plan has the usual place.
    pub fn mission_aside(&self, plan: &PlanId) -> PathBuf {
        self.root.join("missions").join(plan.as_str())
    }

    /// Returns the path where an agent writes the report of a command.
    pub fn report(&self, id: &CommandId) -> PathBuf {
        self.path(Folder::ReportsPending)
            .join(format!("report-{id}.md"))
    }

    /// Returns the path of a command's heartbeat.
    pub fn life(&self, id: &CommandId) -> PathBuf {
        self.path(Folder::Active).join(format!("{id}.json"))
    }

    /// Returns the path of the file that the worker of a claimed command locks.
    pub fn claim_lock(&self, id: &CommandId) -> PathBuf {
        self.path(Folder::Active).join(format!("{id}.lock"))
    }

    /// Returns the path of the mark that asks an agent to stop working on a command.
    pub fn cancel_mark(&self, id: &CommandId) -> PathBuf {
        self.path(Folder::Active).join(format!("{id}.cancel"))
    }

    /// Returns the path of a log about a command: `out` and `err` contain its agent's output.
    pub fn log(&self, id: &CommandId, kind: &str) -> PathBuf {
        self.path(Folder::Logs).join(format!("{id}.{kind}"))
    }

    /// Returns the folder for the worktrees of a plan.
    pub fn worktrees(&self, plan: &PlanId) -> PathBuf {
        self.root.join(WORKTREES).join(plan.as_str())
    }

    /// Returns the temporary path of a file for `commands`, `reports`, `questions` or `active`, before it is renamed into
    /// place.
    pub(super) fn temp(&self, area: &str, name: &str) -> PathBuf {
        let base = self.base(area == COMMANDS);
        base.join(area).join(".tmp").join(name)
    }

    /// Removes files that a killed daemon left unfinished. Only the holder of the daemon's lock may call this.
    pub(super) fn sweep(&self) -> io::Result<()> {
        let commands = self.own().map(|volumes| volumes.temp(COMMANDS, ""));
        let common = [COMMANDS, "questions"].map(|area| self.temp(area, ""));
        for folder in common.into_iter().chain(commands) {
            for entry in fs::read_dir(folder)? {
                remove_if_there(&entry?.path())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl Volumes {
    /// Makes the folders in a temporary one.
    pub(crate) fn temporary() -> (tempfile::TempDir, Self) {
        let root = tempfile::tempdir().unwrap();
        let volumes = Self::open(root.path()).unwrap();
        (root, volumes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_creates_folders_and_is_idempotent() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().join("deep/volumes");
        let volumes = Volumes::open(&root).unwrap();
        Volumes::open(&root).unwrap();
        for folder in Folder::ALL {
            assert!(volumes.path(folder).is_dir(), "{folder:?}");
        }
    }

    #[test]
    fn open_names_blocking_file() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("reports")).unwrap();
        fs::write(root.path().join("reports/pending"), "").unwrap();
        let error = Volumes::open(root.path()).unwrap_err();
        assert!(error.to_string().ends_with("reports/pending`"), "{error}");
    }
}
