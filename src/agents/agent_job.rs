//! What an agent is to do, the processes that do it, and how they end.

use std::path::PathBuf;

use super::*;

/// The most that a run may print before it is stopped: no useful output is that long, and a disk is finite.
pub const MOST_PRINTED: u64 = 64 * 1024 * 1024;

/// One command, as an agent gets it.
#[derive(Debug)]
pub struct AgentJob<'a> {
    pub volumes: &'a Volumes,
    pub command: &'a CommandFile,
    /// The session that the command names, or a fresh one.
    pub session: SessionId,
    /// The session in which a retry goes on; `None` if the agent keeps none, and gets the whole task again.
    pub kept_session: Option<SessionId>,
    /// Where the work is done.
    pub workspace: PathBuf,
}

/// One process to run; the next one starts only if this one succeeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentProcess {
    /// Its name at the beginning of a sentence of the report.
    pub name: String,
    pub argv: Vec<String>,
    /// Variables that are set for it.
    pub set: Vec<(String, String)>,
    pub stdin: Option<Vec<u8>>,
}

impl AgentProcess {
    /// Begins a command line with words that are separated by blanks, the first of which names it.
    pub(super) fn of(words: &str) -> Self {
        let argv: Vec<String> = words.split(' ').map(str::to_owned).collect();
        Self {
            name: argv[0].clone(),
            argv,
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, words: &[&str]) {
        self.argv.extend(words.iter().map(ToString::to_string));
    }

    /// Adds an option, if it has a value.
    pub(super) fn option(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(&[name, value]);
        }
    }

    /// Sets a variable for it.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.set.push((name.to_owned(), value.to_owned()));
    }
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessEnd {
    pub name: String,
    /// How its process ended, or why it could not be started.
    pub outcome: Result<exec::ChildExit, String>,
    /// The end of its standard output.
    pub out: String,
    /// The end of its standard error.
    pub err: String,
    /// The worker stopped it because it printed more than [`MOST_PRINTED`].
    pub flooded: bool,
}

impl ProcessEnd {
    /// Returns whether the next step may begin.
    pub fn success(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|outcome| outcome.success())
    }
}

impl<'a> AgentJob<'a> {
    /// Makes the job of a command. A command without a session gets one that a second attempt gets again, and a command without
    /// a folder gets that of the volumes.
    pub fn new(volumes: &'a Volumes, command: &'a CommandFile) -> Self {
        let fresh = || {
            let id = command.id.as_str();
            SessionId::new(id.strip_prefix("task-").unwrap_or(id))
        };
        let session = command.session.clone().unwrap_or_else(fresh);
        Self {
            volumes,
            command,
            kept_session: Some(session.clone()),
            session,
            workspace: match command.workspace.as_str() {
                "" => volumes.path(Folder::Workspace),
                folder => PathBuf::from(folder),
            },
        }
    }

    /// Returns the claimed commands of the same task or request up to this one, the newest first; for a command without either,
    /// those of the same session.
    ///
    /// # Errors
    /// The folder cannot be listed. Files that cannot be read are left out.
    pub(super) fn commands(&self) -> Result<impl Iterator<Item = CommandFile>, VolumesError> {
        let (volumes, command) = (self.volumes, self.command);
        let mut ids = volumes.taken()?;
        ids.retain(|id| *id <= command.id);
        Ok(ids.into_iter().rev().filter_map(move |id| {
            let earlier = volumes.find_command(Folder::CommandsProcessed, &id)?;
            let same = if command.task.is_some() {
                earlier.plan == command.plan && earlier.task == command.task
            } else if command.request_id.is_some() {
                earlier.plan == command.plan && earlier.request_id == command.request_id
            } else {
                command.session.is_some() && earlier.session == command.session
            };
            (same && earlier.kind != CommandType::End).then_some(earlier)
        }))
    }

    /// Returns those of them that came before this one.
    pub fn earlier(&self) -> impl Iterator<Item = CommandFile> {
        let commands = self.commands().into_iter().flatten();
        commands.filter(|earlier| earlier.id != self.command.id)
    }
}
