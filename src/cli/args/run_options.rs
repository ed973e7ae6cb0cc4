//! How a plan is carried out, and by whom.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{AGENT, TEAM};
use crate::wire::text::quoted;

/// How a plan is carried out, by `run` and `resume`.
#[derive(Debug, Args)]
pub struct CarryOut {
    #[command(flatten)]
    pub agent: AgentArgs,

    #[command(flatten)]
    pub team: TeamArgs,

    /// Leave a daemon behind and return
    #[arg(long)]
    pub detach: bool,

    /// Never ask here; exit with 4 once nothing else can go on
    #[arg(long)]
    pub no_input: bool,

    /// Print one JSON event a line
    #[arg(long)]
    pub json: bool,
}

impl CarryOut {
    /// Returns the flags that name the same agent and the same team again, as they are typed in a shell.
    pub fn again(&self) -> String {
        self.team.again() + &self.agent.again()
    }
}

/// Who is there to do tasks.
#[derive(Debug, Args)]
pub struct TeamArgs {
    /// The team file.
    #[arg(help = "The team whose roles tasks are given to [default: `team` under [run] in config.toml]", long = "team", value_name = "FILE", display_order = 0, help_heading = TEAM)]
    pub file: Option<PathBuf>,
}

impl TeamArgs {
    /// Returns the flag that names the same team again, as it is typed in a shell; nothing if it is that of the configuration.
    pub fn again(&self) -> String {
        let name = |file: &PathBuf| format!(" --team {}", quoted(&file.to_string_lossy()));
        self.file.as_ref().map(name).unwrap_or_default()
    }
}

/// Which agent runs, for `run`, `resume` and `worker`.
#[derive(Debug, Default, Args)]
pub struct AgentArgs {
    /// Run this agent for every command: a coding agent by its name, `command` the program after `--`, `shell` the `sh`
    /// blocks of the task
    #[arg(
        long,
        hide_possible_values = true,
        value_name = "claude|codex|gemini|opencode|aider|command|shell",
        help_heading = AGENT
    )]
    pub agent: Option<AgentKind>,

    /// Let `--agent shell` run tasks that a model wrote
    #[arg(long, help_heading = AGENT)]
    pub allow_shell: bool,

    /// The program of `--agent command`, with its arguments; {prompt_file}, {session}, {workspace} and {report} are filled
    /// in. For a coding agent: more flags for it, such as `-m MODEL`
    #[arg(last = true, value_name = "PROGRAM", requires = "agent", help_heading = AGENT)]
    pub argv: Vec<String>,
}

impl AgentArgs {
    /// Returns the flags that name the same agent again, as they are typed in a shell; nothing if there is none.
    pub fn again(&self) -> String {
        let Some(kind) = self.agent else {
            return String::new();
        };
        let mut again = format!(" --agent {}", kind.name());
        if self.allow_shell {
            again.push_str(" --allow-shell");
        }
        if !self.argv.is_empty() {
            again.push_str(" --");
        }
        self.argv
            .iter()
            .fold(again, |again, word| again + " " + &quoted(word))
    }
}

/// The agents that are built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AgentKind {
    /// Claude Code
    Claude,
    /// Codex CLI
    Codex,
    /// Gemini CLI
    Gemini,
    /// OpenCode
    #[value(name = "opencode")]
    OpenCode,
    /// aider
    Aider,
    /// Runs the program after `--`
    Command,
    /// Runs the `sh` blocks of the task itself
    Shell,
}

impl AgentKind {
    /// Returns the one with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::value_variants()
            .iter()
            .copied()
            .find(|kind| kind.name() == name)
    }

    /// Returns the name under which a person chooses it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::OpenCode => "opencode",
            Self::Aider => "aider",
            Self::Command => "command",
            Self::Shell => "shell",
        }
    }
}
