//! What a relay has at the moment, on its disk: after a kill the next one goes on with it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::own_clone::{self, WorkFolder};
use super::{RelayError, Result};
use crate::bounded_read;
use crate::config::Config;
use crate::own_files;
use crate::plan::{CommandId, IntegrationBranch, SessionId};
use crate::store::{ClaimedCommand, RelayLink};
use crate::volumes::{Folder, Volumes, machine};
use crate::wire::command_file::CommandFile;

/// The most bytes of the file.
const MOST: usize = 64 * 1024 * 1024;

/// The sessions of agents that are remembered: their commands come back here.
const SESSIONS: usize = 1_000;

/// A command that the relay has claimed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HeldCommand {
    pub id: CommandId,
    pub claim: i64,
    /// The text of its file here.
    pub text: String,
    pub work: WorkFolder,
    /// Its agent was asked to stop, because the server was out of reach too long.
    pub given_up: bool,
}

impl HeldCommand {
    /// Makes ready what a claimed command needs; `place` is the folder of the worktrees of its plan, and the clone of its project.
    pub async fn make_ready(
        config: &Config,
        volumes: &Volumes,
        link: &RelayLink,
        command: &ClaimedCommand,
        place: Option<(PathBuf, PathBuf)>,
    ) -> Result<Self> {
        let (worktrees, root) =
            place.ok_or_else(|| RelayError::Other("it is not among [projects]".to_owned()))?;
        let unread = |_| RelayError::Other(format!("command `{}` cannot be read", command.id));
        let mut file = CommandFile::parse(&command.text).map_err(unread)?;
        let task = file.task.unwrap_or_default();
        let marks = volumes.path(Folder::Active);
        let mut work = WorkFolder {
            folder: worktrees.join(format!("task-{}", task.0)),
            root,
            worktrees,
            branch: own_clone::branch(&command.plan, task),
            head: command.head.clone(),
            wanted: Vec::new(),
        };
        work.lay_out(config, &marks, link, command).await?;
        file.id = command.id.clone();
        file.workspace = work.folder.display().to_string();
        let report = volumes.report(&command.id);
        // The text says it, too, and agents go by that.
        if let (Some(there), Some(here)) = (Path::new(&file.report).parent(), report.parent())
            && there.is_absolute()
        {
            let [there, here] = [there, here].map(|folder| format!("{}/", folder.display()));
            file.body = file.body.replace(&there, &here);
        }
        let there = IntegrationBranch::task_branch(&command.plan, task);
        let [there, here] = [&there, &work.branch].map(|branch| format!("`{branch}`"));
        file.body = file.body.replace(&there, &here);
        file.report = report.display().to_string();
        Ok(Self {
            id: command.id.clone(),
            claim: command.claim,
            text: file.render(),
            work,
            given_up: false,
        })
    }
}

/// The file with the commands of a relay, its name, and the sessions that its agents know.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RelayNotes {
    #[serde(skip)]
    path: PathBuf,
    /// No other relay has it.
    pub name: String,
    pub(super) held: Vec<HeldCommand>,
    pub(super) sessions: Vec<SessionId>,
}

impl RelayNotes {
    /// Reads the notes of the relay of a folder; a new one gets a name.
    ///
    /// # Errors
    /// They cannot be read or written.
    pub fn read(volumes: &Volumes) -> std::io::Result<Self> {
        let path = volumes.root().join("relay.json");
        let mut notes: Self = match bounded_read::read_file(&path, MOST) {
            // A loss of power may leave it empty: what it named is taken by others then.
            Ok(text) if text.is_empty() => Self::default(),
            Ok(text) => serde_json::from_str(&text)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Self::default(),
            Err(error) => return Err(error),
        };
        notes.path = path;
        if notes.name.is_empty() {
            let mark = uuid::Uuid::new_v4().simple().to_string();
            let folder = folder_name(volumes.root());
            notes.name = format!("{}:{folder} #{}", machine().unwrap_or("?"), &mark[..8]);
            notes.write()?;
        }
        Ok(notes)
    }

    pub(super) fn get(&self, id: &CommandId) -> Option<&HeldCommand> {
        self.held.iter().find(|held| held.id == *id)
    }

    pub(super) fn add(&mut self, command: HeldCommand) -> Result<()> {
        self.held.retain(|held| held.id != command.id);
        self.held.push(command);
        self.save()
    }

    /// Forgets a command, and remembers the session of its agent.
    pub(super) fn remove(&mut self, id: &CommandId, session: Option<SessionId>) -> Result<()> {
        self.held.retain(|held| held.id != *id);
        if let Some(session) = session {
            self.sessions.retain(|known| *known != session);
            self.sessions.push(session);
            let old = self.sessions.len().saturating_sub(SESSIONS);
            self.sessions.drain(..old);
        }
        self.save()
    }

    fn save(&self) -> Result<()> {
        let failed = |error| RelayError::Notes(self.path.clone(), error);
        self.write().map_err(failed)
    }

    fn write(&self) -> std::io::Result<()> {
        own_files::replace(&self.path, &serde_json::to_vec(self)?)
    }
}

/// Returns the names of the last folders of a path, without a `/`.
fn folder_name(root: &Path) -> String {
    let own = [".plan-agent", "volumes"];
    let names = root.iter().rev().filter_map(|name| name.to_str());
    let name = names.into_iter().find(|name| !own.contains(name));
    name.unwrap_or("relay").replace(['/', '\0'], "-")
}
