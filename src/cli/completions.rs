//! `completions`: what a shell needs to complete the command line.

use clap::CommandFactory;
use clap_complete::Shell;

use super::args::CommandLine;
use super::failure::{Exit, Failure};
use super::output::Output;

/// Prints the completions of a shell.
pub fn print(shell: Shell, output: &mut Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        shell,
        &mut CommandLine::command(),
        "plan-agent",
        &mut script,
    );
    output.text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
