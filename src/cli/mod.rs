//! The command line: reads it, does what it asks, prints the result, ends with the right exit code. Each command is a thin
//! layer over the other parts and holds no logic of plans.

pub mod args;
pub mod failure;
pub mod logging;
pub mod output;
pub mod view;

mod agent;
mod completions;
mod control;
mod crew;
mod detach;
mod diff;
mod doctor;
mod editor;
mod foreground;
mod init;
mod inside;
mod log;
mod mcp;
mod planner;
mod plans;
mod probe;
mod run;
mod setup;
mod signals;
mod site;
mod team;
mod tool;
mod wrap;

use std::process::ExitCode;

use clap::Parser;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use self::args::{Command, CommandLine, Program, Team};
use self::failure::{Exit, Failure};
use self::output::{Output, complain};
use self::setup::Setup;
use self::signals::ended;
use crate::config::{Config, Environment};

/// Does what the command line of this process asks for.
pub fn main() -> ExitCode {
    // Before anything else: what is in the environment and in memory, such as a key, is for no other process of this user. What
    // is started from here is not touched by it: a program begins with the usual rights.
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        complain(&format!(
            "! other processes of yours may read a key in the environment of this one: {error}\n"
        ));
    }
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

/// Threads for what blocks: a terminal, a look at the folders, some files on their way. A flood of files would otherwise
/// get a thread each, and their stacks take more memory than the files.
const BLOCKING_THREADS: usize = 16;

fn execute(line: CommandLine) -> Result<Exit, Failure> {
    let environment = Environment::of_process();
    let output = Output::stdout(&environment);
    // One thread is enough: everything waits for files, the store or the network, and what blocks has threads of its own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(Failure::failed)?;
    let exit = runtime.block_on(Box::pin(carry_out(line, environment, output)));
    // A thread that reads the terminal, or an act that blocks, must not hold up the end.
    runtime.shutdown_background();
    exit
}

async fn carry_out(
    line: CommandLine,
    environment: Environment,
    mut output: Output,
) -> Result<Exit, Failure> {
    let file = line.config.as_deref();
    let config = || Config::load(file, &environment);
    let setup = || Setup::load(line.config.clone(), environment.clone());
    let near = || Setup::near(line.config.clone(), environment.clone(), true);
    // What an agent starts for itself must not stop the daemon around it.
    let within = || Setup::near(line.config.clone(), environment.clone(), false);
    let with = |team: &Team| {
        let file = team.file.clone();
        let setup = setup();
        Box::pin(async move { setup.await?.with_team(file).await })
    };
    // Whoever carries a plan out needs more than the file.
    let to_man = |team: &Team| {
        let file = team.file.clone();
        let setup = setup();
        Box::pin(async move { setup.await?.with_team_to_man(file).await })
    };
    let program = Program::with(file);
    let out = &mut output;
    match line.command {
        Command::Completions { shell } => completions::print(shell, out),
        Command::Init => init::init(file, &program, &environment, out),
        Command::Doctor(args) => doctor::doctor(&args, config(), &environment, &program, out).await,
        Command::Run(args) => {
            let setup = to_man(&args.carry_out.team);
            run::run(args, setup, ended(), output).await
        }
        Command::Plan(args) => {
            let setup = with(&args.team);
            run::plan(args, setup, ended(), output).await
        }
        Command::Resume(args) => {
            let setup = to_man(&args.carry_out.team);
            run::resume(args, &program, setup, ended(), output).await
        }
        Command::Daemon(args) => {
            let setup = to_man(&args.team);
            run::daemon(args, setup, ended()).await
        }
        Command::Worker(args) => {
            let setup = with(&args.team);
            run::worker(args, setup, ended()).await
        }
        Command::Abort(args) => run::abort(args, within(), ended(), out).await,
        Command::Tools(args) => tool::list(&args, out),
        Command::Tool(args) => tool::call(args, near(), ended(), out).await,
        Command::Mcp(args) => mcp::serve(args, near(), ended()).await,
        Command::Stop => control::stop(&within().await?.quiet()?, out).await,
        Command::Plans(args) => plans::plans(&args, &near().await?.quiet()?, out).await,
        Command::Status(args) => plans::status(&args, &near().await?.site().await?, out).await,
        Command::Show(args) => plans::show(&args, &near().await?.site().await?, out).await,
        Command::Why(args) => plans::why(&args, &near().await?.site().await?, out).await,
        Command::Diff(args) => diff::diff(&args, &near().await?.site().await?, out).await,
        Command::Log(args) => log::log(&args, &near().await?.site().await?, out).await,
        Command::Answer(args) => control::answer(&args, &within().await?.site().await?, out).await,
        Command::Restore(args) => {
            control::restore(&args, &within().await?.site().await?, out).await
        }
        Command::Pause(args) => control::pause(&args, &within().await?.site().await?, out).await,
    }
}
