//! The agents that a worker can run: each knows its command lines and how to read the result of a run. None of them starts a
//! process or writes a file itself.

mod agent_acts;
mod agent_job;
mod aider;
mod claude;
mod codex;
mod coding_agent;
mod command_line;
mod event_fields;
mod files_named_in_task;
mod gemini;
mod installed_program;
mod opencode;
mod permissions;
mod prompt;
mod ran_commands;
mod run_outcome;
mod shell_blocks;
mod substitute_report;

use std::path::Path;

use self::agent_acts::{Deed, complains, does, gets, joined_text, says, uses};
use self::event_fields::{
    dollars_at, events, fault_by_words, is, is_uuid, last_event, number_at, session_named,
    status_in, text_at, tokens_at,
};
use self::installed_program::{Variables, folder};
use self::run_outcome::plausible;
use crate::exec;
use crate::plan::{SessionId, agent_label};
use crate::volumes::{Folder, Volumes, VolumesError};
use crate::wire::{CommandFile, CommandType, Problem, one_line};

pub use agent_acts::{AgentAct, ToolAnswer, acts};
pub use agent_job::{AgentJob, AgentProcess, MOST_PRINTED, ProcessEnd};
pub use coding_agent::{AgentRun, CodingAgent, RunOutput, RunSession};
pub use command_line::CommandTemplate;
pub use files_named_in_task::not_named;
pub use installed_program::{Login, ProgramVersion};
pub use permissions::{Commands, Permissions};
pub use prompt::PromptKind;
pub use ran_commands::ran_commands;
pub use run_outcome::{ModelFault, NextRun, RunOutcome, RunReading, used_since};
pub use shell_blocks::{Shell, script_problem};

/// What may fail for a reason that a person can mend.
type Result<T, E = Problem> = std::result::Result<T, E>;

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
    pub fn new(name: &str, argv: Vec<String>) -> Result<Self> {
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
            "relay" | "shell" => Err(Problem::new(format!(
                "the agent `{name}` takes no command line"
            ))),
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
    pub fn allowing(mut self, allow: Permissions) -> Result<Self> {
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

    /// Returns the name of the agent, with the model that the person chose for it.
    pub fn label(&self) -> String {
        match self {
            Self::Coding(coder) => agent_label(self.name(), &coder.more),
            Self::Shell(_) | Self::Command(_) | Self::Relay => self.name().to_owned(),
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
    pub fn call(&self, session: RunSession, folder: &Path, history: &Path) -> Result<AgentProcess> {
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
    pub fn question(&self, folder: &Path) -> Result<AgentProcess> {
        self.call(RunSession::Alone, folder, Path::new("/dev/null"))
    }
}

/// Returns the names of all agents.
pub fn names() -> Vec<&'static str> {
    let coding = CodingAgent::ALL.into_iter().map(|agent| agent.name);
    coding.chain(["command", "relay", "shell"]).collect()
}

#[cfg(test)]
mod tests;
