//! The command line: reads it, does what it asks, prints the result, ends with the right exit code. Each command is a thin
//! layer over the other parts and holds no logic of plans.

pub mod args;
pub mod failure;
pub mod logging;
pub mod output;
pub mod view;

mod completions;
mod control;
mod detach;
mod doctor;
mod foreground;
mod init;
mod log;
mod plans;
mod run;
mod signals;
mod site;

use std::process::ExitCode;

use clap::Parser;

use self::args::{Command, CommandLine};
use self::failure::{Exit, Failure};
use self::output::{Output, complain};
use self::run::Setup;
use self::site::Site;
use crate::config::{Config, Environment};

/// Does what the command line of this process asks for.
pub fn main() -> ExitCode {
    let line = match CommandLine::try_parse() {
        Ok(line) => line,
        Err(answer) => {
            // `--help` is an answer too. Whether anybody reads it makes no difference to the exit code.
            drop(answer.print());
            return ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(Exit::Usage.code()));
        }
    };
    match execute(line) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if let Some(text) = failure.text() {
                complain(&text);
            }
            failure.exit().into()
        }
    }
}

fn execute(line: CommandLine) -> Result<Exit, Failure> {
    let environment = Environment::of_process();
    let mut output = Output::stdout(&environment);
    let file = line.config.as_deref();
    let config = || Config::load(file, &environment);
    match line.command {
        Command::Completions { shell } => completions::print(shell, &mut output),
        Command::Init => init::init(file, &environment, &mut output),
        Command::Doctor(args) => doctor::examine(&args, config(), &environment, &mut output),
        command => {
            let config = config()?;
            let setup = Setup {
                config: &config,
                environment: &environment,
            };
            let runtime = runtime()?;
            let exit = runtime.block_on(Box::pin(async {
                match command {
                    Command::Run(args) => run::run(args, &setup, output).await,
                    Command::Plan(args) => run::plan(args, &setup, output).await,
                    Command::Resume(args) => run::resume(args, &setup, output).await,
                    Command::Daemon(args) => run::daemon(args, &setup).await,
                    Command::Worker(args) => run::worker(args, &setup).await,
                    command => {
                        logging::start(None, &environment)?;
                        on_plans(command, &config, &mut output).await
                    }
                }
            }));
            // A thread that reads the terminal, or an act that blocks, must not hold up the end.
            runtime.shutdown_background();
            exit
        }
    }
}

/// One thread is enough: everything waits for files, the store or the network, and what blocks has threads of its own.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::failed)
}

async fn on_plans(command: Command, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    match command {
        Command::Stop => return control::stop(config, output).await,
        Command::Plans(args) => return plans::plans(&args, config, output).await,
        _ => {}
    }
    let site = Site::open(config).await?;
    match command {
        Command::Status(args) => plans::status(&args, &site, output).await,
        Command::Show(args) => plans::show(&args, &site, output).await,
        Command::Why(args) => plans::why(&args, &site, output).await,
        Command::Log(args) => log::log(&args, &site, output).await,
        Command::Answer(args) => control::answer(&args, &site, output).await,
        Command::Pause(args) => control::pause(&args, &site, output).await,
        Command::Abort(args) => control::abort(&args, &site, output).await,
        _ => Err(Failure::failed(anyhow::anyhow!("not wired yet"))),
    }
}
