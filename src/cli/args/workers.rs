//! Commands that do the work: agents here for the commands of a folder, or of daemons elsewhere.

use clap::Args;

use super::value_parsers::not_empty;
use super::{AgentArgs, TeamArgs};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plan-agent worker --agent claude
  plan-agent worker --agent codex --role reviewer
  plan-agent worker --agent command -- my-agent {prompt_file}")]
#[command(mut_arg("agent", without_relay))]
pub struct WorkerArgs {
    /// Take only what is assigned to this role; of a team, with the role's agent unless another is named
    #[arg(long, value_name = "ROLE", value_parser = not_empty)]
    pub role: Option<String>,

    #[command(flatten)]
    pub agent: AgentArgs,

    #[command(flatten)]
    pub team: TeamArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plan-agent relay --agent claude
  plan-agent relay --role coder --role tester --agent codex --lanes 2

The daemon elsewhere is started with `--agent relay`, or has roles with `worker: relay`. Both use the same [store] url, and name
the project by one id under [projects]. Without --agent, the commands wait in the folder here.")]
#[command(mut_arg("agent", without_relay))]
pub struct RelayArgs {
    /// Take what is assigned to this role, as often as named; without it, what has no role
    #[arg(long, value_name = "ROLE", value_parser = not_empty)]
    pub role: Vec<String>,

    /// The most commands at once
    #[arg(long, value_name = "N", default_value = "1", value_parser = lanes)]
    pub lanes: usize,

    #[command(flatten)]
    pub agent: AgentArgs,
}

/// Another relay cannot do the commands.
fn without_relay(agent: clap::Arg) -> clap::Arg {
    agent.value_name("claude|codex|gemini|opencode|aider|command|shell|files")
}

fn lanes(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=64).contains(number));
    number.ok_or_else(|| "it is a number from 1 to 64".to_owned())
}
