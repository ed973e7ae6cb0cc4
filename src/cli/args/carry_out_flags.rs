//! How a plan is carried out, and by which agents.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};

use super::TEAM;
use crate::wire::quoted;

/// The heading of what names the agent.
const AGENT: &str = "Agent";

/// The agents that are built in, with what they are.
pub(super) const AGENTS: [(&str, &str); 9] = [
    ("claude", "Claude Code"),
    ("codex", "Codex CLI"),
    ("gemini", "Gemini CLI"),
    ("opencode", "OpenCode"),
    ("aider", "aider"),
    ("command", "Runs the program after `--`"),
    (
        "relay",
        "Agents on other machines, behind `plan-agent relay`",
    ),
    ("shell", "Runs the `sh` blocks of the task itself"),
    (
        FILES,
        "None: commands wait for another program, or a person",
    ),
];

/// Stands for no agent, where a plan remembers one.
pub const FILES: &str = "files";

/// How a plan is carried out, by `run` and `resume`.
#[derive(Debug, Default, Args)]
pub struct CarryOut {
    #[command(flatten)]
    pub agent: AgentArgs,

    #[command(flatten)]
    pub team: TeamArgs,

    /// Leave a daemon behind and return
    #[arg(long)]
    pub detach: bool,

    /// Serve the page meanwhile, as `web` does
    #[arg(long)]
    pub web: bool,

    /// Never ask here; exit with 4 once nothing else can go on
    #[arg(long)]
    pub no_input: bool,

    /// Print only questions, failures, and the last lines
    #[arg(long, conflicts_with = "json")]
    pub quiet: bool,

    /// Print one JSON event a line
    #[arg(long)]
    pub json: bool,
}

/// The team that does the tasks.
#[derive(Clone, Debug, Default, Args)]
pub struct TeamArgs {
    /// The team file.
    #[arg(help = "The team whose roles tasks are given to [default: `team` under [run] in config.toml]", long = "team", value_name = "FILE", display_order = 0, help_heading = TEAM)]
    pub file: Option<PathBuf>,

    /// The file is not named on this command line but comes from elsewhere, such as the plan.
    #[arg(skip)]
    pub recalled: bool,
}

impl TeamArgs {
    /// Returns the flag that names the same team again, as it is typed in a shell; nothing if it is that of the configuration.
    pub fn again(&self) -> String {
        let file = self.file.as_ref().map(|file| file.to_string_lossy());
        file.map_or(String::new(), |file| typed(["--team", &file]))
    }
}

/// Which agent runs, for `run`, `resume` and `worker`.
#[derive(Clone, Debug, Default, Args)]
pub struct AgentArgs {
    /// Run this agent for every command: a coding agent by its name, `command` the program after `--`, `shell` the `sh`
    /// blocks of the task, `files` none
    #[arg(
        long,
        value_parser = agents(),
        hide_possible_values = true,
        value_name = "claude|codex|gemini|opencode|aider|command|relay|shell|files",
        help_heading = AGENT
    )]
    pub agent: Option<String>,

    /// Let `--agent shell` run tasks that a model wrote
    #[arg(long, help_heading = AGENT)]
    pub allow_shell: bool,

    /// The program of `--agent command`, with its arguments; {prompt_file}, {session}, {workspace} and {report} are filled
    /// in. For a coding agent: more flags for it, such as `-m MODEL`
    #[arg(last = true, value_name = "PROGRAM", requires = "agent", help_heading = AGENT)]
    pub argv: Vec<String>,
}

impl AgentArgs {
    /// Returns the flags that name the same agent again, as they are typed in a shell.
    pub fn again(&self) -> String {
        let agent = self.agent.iter().flat_map(|name| ["--agent", name]);
        let shell = self.allow_shell.then_some("--allow-shell");
        let dashes = (!self.argv.is_empty()).then_some("--");
        let argv = self.argv.iter().map(String::as_str);
        typed(agent.chain(shell).chain(dashes).chain(argv))
    }
}

fn agents() -> PossibleValuesParser {
    PossibleValuesParser::new(AGENTS.map(|(name, about)| PossibleValue::new(name).help(about)))
}

fn typed<'a>(flags: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = |flag| format!(" {}", quoted(flag));
    flags.into_iter().map(quoted).collect()
}
