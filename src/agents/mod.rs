//! The agents that a worker can run: each knows its command lines and how to read the result of a run. None of them starts a
//! process or writes a file itself.

mod agent_acts;
mod agent_program;
mod aider;
mod claude;
mod codex;
mod coding_agent;
mod command_line;
mod files_named_in_task;
mod gemini;
mod opencode;
mod permissions;
mod prompt;
mod ran_commands;
mod run_outcome;
mod shell_blocks;
mod substitute_report;

use std::path::{Path, PathBuf};

use self::agent_acts::{Deed, complains, does, gets, joined_text, says, uses};
use self::agent_program::{Variables, folder};
use self::coding_agent::{
    dollars_at, events, fault_by_words, is, is_uuid, last_event, number_at, session_named,
    status_in, text_at, tokens_at,
};
use self::run_outcome::plausible;
use crate::exec;
use crate::plan::SessionId;
use crate::volumes::{Folder, Volumes, VolumesError};
use crate::wire::{CommandFile, CommandType, Problem, one_line};

pub use agent_acts::{AgentAct, ToolAnswer, acts};
pub use agent_program::{CodingAgent, Login, ProgramVersion};
pub use coding_agent::{AgentRun, RunOutput, RunSession};
pub use command_line::CommandTemplate;
pub use files_named_in_task::not_named;
pub use permissions::{Commands, Permissions};
pub use prompt::PromptKind;
pub use ran_commands::ran_commands;
pub use run_outcome::{ModelFault, NextRun, RunOutcome, RunReading, used_since};
pub use shell_blocks::{Shell, script_problem};

/// An agent by its kind.
#[derive(Clone, Debug)]
pub enum Agent {
    /// Runs the shell blocks of a task's own description.
    Shell(Shell),
    /// Runs a command line that the person gave.
    Command(CommandTemplate),
    /// Runs a known coding agent.
    Coding(CodingAgentSetup),
    /// Runs nothing: agents on other machines do the work, behind `plan-agent relay`.
    Relay,
}

/// A coding agent with its settings.
#[derive(Clone, Debug)]
pub struct CodingAgentSetup {
    pub kind: &'static CodingAgent,
    pub allow: Permissions,
    /// The agent's own default if `None`.
    pub model: Option<String>,
    /// The person's additions to its command line.
    pub more: Vec<String>,
}

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
    fn of(words: &str) -> Self {
        let argv: Vec<String> = words.split(' ').map(str::to_owned).collect();
        Self {
            name: argv[0].clone(),
            argv,
            ..Self::default()
        }
    }

    fn add(&mut self, words: &[&str]) {
        self.argv.extend(words.iter().map(ToString::to_string));
    }

    /// Adds an option, if it has a value.
    fn option(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(&[name, value]);
        }
    }

    /// Sets a variable for it.
    fn set(&mut self, name: &str, value: &str) {
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

impl Agent {
    /// Returns which coding agent it is, if its output is known.
    pub fn kind(&self) -> Option<&'static CodingAgent> {
        match self {
            Self::Shell(_) | Self::Command(_) | Self::Relay => None,
            Self::Coding(coder) => Some(coder.kind),
        }
    }

    /// Finds an agent by its name; `argv` is what the person gave after `--`.
    ///
    /// # Errors
    /// No agent has this name, or it does not go with the command line.
    pub fn new(name: &str, argv: Vec<String>) -> Result<Self, Problem> {
        let unknown = || {
            let names = names().join(", ");
            Problem::new(format!("unknown agent `{name}`: the agents are {names}"))
        };
        match name {
            "shell" if argv.is_empty() => Ok(Self::Shell(Shell { allow_shell: false })),
            "command" if argv.is_empty() => Err(Problem::new(
                "the agent `command` needs a command line after `--`",
            )),
            "command" => Ok(Self::Command(CommandTemplate(argv))),
            "relay" if argv.is_empty() => Ok(Self::Relay),
            "relay" | "shell" => {
                let message = format!("the agent `{name}` takes no command line");
                Err(Problem::new(message))
            }
            name => Ok(Self::Coding(CodingAgentSetup {
                kind: CodingAgent::named(name).ok_or_else(unknown)?,
                allow: Permissions::default(),
                model: None,
                more: argv,
            })),
        }
    }

    /// Sets what the agent may do; only a coding agent uses it.
    ///
    /// # Errors
    /// The agent has no option for it.
    pub fn allowing(mut self, allow: Permissions) -> Result<Self, Problem> {
        if let Self::Coding(coder) = &mut self {
            coder.allow = allow;
            coder.question(Path::new("/"))?;
        }
        Ok(self)
    }

    /// Also lets the shell run what a model wrote; other agents stay as they are.
    #[must_use]
    pub fn allow_shell(self) -> Self {
        match self {
            Self::Shell(_) => Self::Shell(Shell { allow_shell: true }),
            other => other,
        }
    }

    /// Returns the name under which a person chooses the agent.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Shell(_) => "shell",
            Self::Command(_) => "command",
            Self::Coding(coder) => coder.kind.name,
            Self::Relay => "relay",
        }
    }

    /// Returns the variables that the agent gets although the configuration does not name them, separated by
    /// blanks.
    pub fn env(&self) -> &'static str {
        self.kind().map_or("", |kind| kind.env)
    }
}

impl CodingAgentSetup {
    /// Returns the process of a run in a folder. `history` is for an agent that has no sessions of its own.
    ///
    /// # Errors
    /// The agent has no option for what it is allowed.
    pub fn call(
        &self,
        session: RunSession,
        folder: &Path,
        history: &Path,
    ) -> Result<AgentProcess, Problem> {
        for command in &self.allow.exact {
            self.kind.exact(command).map_err(|why| {
                let command = one_line(command, 200);
                let reason = format!("`{command}` cannot be allowed: {why}");
                Problem::new(reason).with_hint("leave it out, or allow more in `[worker] allow`")
            })?;
        }
        (self.kind.call)(&AgentRun {
            setup: self,
            session,
            folder,
            history,
        })
    }

    /// Returns the process for one question, in a session of its own that may change nothing.
    ///
    /// # Errors
    /// The agent cannot be kept from changing files.
    pub fn question(&self, folder: &Path) -> Result<AgentProcess, Problem> {
        self.call(RunSession::Alone, folder, Path::new("/dev/null"))
    }
}

/// Returns the names of all agents.
pub fn names() -> Vec<&'static str> {
    let coding = CodingAgent::ALL.into_iter().map(|agent| agent.name);
    coding.chain(["command", "relay", "shell"]).collect()
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
    fn commands(&self) -> Result<impl Iterator<Item = CommandFile>, VolumesError> {
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

#[cfg(test)]
mod tests;
