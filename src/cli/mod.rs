//! The command line: reads it, does what it asks, prints the result, ends with the right exit code. Each command is a thin
//! layer over the other parts and holds no logic of plans.

mod adopted_plans;
mod agent_choice;
mod answer;
mod answer_words;
mod args;
mod carry_out_plan;
mod clean;
mod completions;
mod confirm;
mod detach;
mod diff;
mod doctor;
mod edit_plan;
mod editor;
mod estimate;
mod failure;
mod hand_over_and_take_up;
mod in_process_roles;
mod init;
mod isolation;
mod line_wrapping;
mod live_area;
mod logging;
mod logs;
mod mcp;
mod model_choice;
mod new_plan;
mod offer_checks;
mod opened_app;
mod outcomes;
mod output;
mod plan_by_name;
mod plan_control;
mod prompt;
mod refuse_secret_arguments;
mod relay;
mod remembered;
mod results;
mod run;
mod run_terminal;
mod service;
mod show_commands;
mod signals;
mod steer;
mod store;
mod suggestions;
mod team_file;
mod tool;
mod trust;
mod web;
mod worker;
mod worker_pools;
mod workers;
mod workspace_choice;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

// The commands take these from here.
use self::args::*;
use self::carry_out_plan::{FoundPlan, Work, displaced, exit_of, stopped};
use self::confirm::{can_ask, confirm};
use self::editor::Editor;
use self::failure::{Exit, Failure, Result, way_out};
use self::in_process_roles::{Servers, start_servers};
use self::line_wrapping::{columns, wrap};
use self::model_choice::{models, on_path};
use self::new_plan::{NewPlan, Wanted};
use self::opened_app::{Access, App, BY, CommandStart};
use self::output::{
    Output, complain, in_foreground, print_on_stderr, shown_from_here, terminal_size,
};
use self::run_terminal::Foreground;
use self::signals::{Ended, LentTerminal, beside, ended, lend_terminal, unless};
use self::team_file::TeamFile;
use self::worker_pools::{TeamWorkers, examine};
use crate::config::Environment;

pub use self::trust::trust_folder;

/// Does what the command line of this process asks for.
pub fn main() -> ExitCode {
    if completions::answer() {
        return ExitCode::SUCCESS;
    }
    // Before anything else: what is in the environment and in memory, such as a key, is for no other process of this user. A
    // program that is started from here begins with the usual rights.
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        complain!(
            "! other processes of yours may read a key in the environment of this one: {error}"
        );
    }
    let (name, line) = match read_line() {
        Ok(read) => read,
        Err(answer) => {
            let answer = suggestions::suggest(answer);
            // An error repeats what was typed; `--help` does not. A reader that has gone makes no difference to the exit code.
            match answer.use_stderr() {
                true => print_on_stderr(&answer.render().to_string()),
                false => drop(answer.print()),
            }
            return ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(Exit::Usage.code()));
        }
    };
    if let Some(folder) = &line.folder
        && let Err(error) = std::env::set_current_dir(folder)
    {
        complain!("error: `{}`: {error}", folder.display());
        return Exit::Usage.into();
    }
    if let Err(error) = std::env::current_dir() {
        complain!(
            "error: the current folder is not there any more: {error}\nHint: change to another one, or name it with -C"
        );
        return Exit::Usage.into();
    }
    match execute(&name, line) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            print_on_stderr(&failure.text());
            failure.exit.into()
        }
    }
}

/// Reads the command line, with the name of its command.
fn read_line() -> Result<(String, CommandLine), clap::Error> {
    let words = CommandLine::command().try_get_matches()?;
    let name = words.subcommand_name().unwrap_or_default().to_owned();
    Ok((name, CommandLine::from_arg_matches(&words)?))
}

/// Threads for what blocks: a terminal, a scan of the folders, some files on their way. A flood of files would otherwise
/// get a thread each, and their stacks take more memory than the files.
const BLOCKING_THREADS: usize = 16;

fn execute(name: &str, line: CommandLine) -> Result<Exit> {
    // One thread is enough: everything waits for files, the store or the network, and what blocks has threads of its own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()?;
    let exit = runtime.block_on(Box::pin(carry_out(name, line)));
    // A thread that reads the terminal, or an act that blocks, must not hold up the end.
    runtime.shutdown_background();
    exit
}

async fn carry_out(name: &str, line: CommandLine) -> Result<Exit> {
    let start = &CommandStart {
        folder: line.folder,
        file: line.config,
        environment: Environment::of_process(),
    };
    trust::refuse_agents(name, &start.environment)?;
    let out = Output::stdout(&start.environment);
    let open = async |access| {
        let app = App::open(start, access).await?;
        app.quiet()?;
        Ok::<_, Failure>(app)
    };
    let (read, control) = (|| open(Access::Read), || open(Access::Control));
    // A command that does not take the signals ends by one without a word.
    let done = match line.command {
        CliCommand::Completions { shell } => completions::print(shell, out),
        CliCommand::Init { top_level } => init::init(top_level, start, out),
        CliCommand::Trust { path } => trust::trust(path, start, out).await,
        CliCommand::Service { act } => service::service(act, start, out).await,
        CliCommand::Store { act } => store::store(&act, &control().await?).await,
        CliCommand::Doctor(args) => return doctor::doctor(&args, start, out).await,
        CliCommand::Run(args) => return Box::pin(run::run(args, start, ended())).await,
        CliCommand::Plan(args) => return Box::pin(run::plan(args, start, ended())).await,
        CliCommand::Resume(args) => return Box::pin(run::resume(args, start, ended())).await,
        CliCommand::Daemon(args) => return Box::pin(run::daemon(args, start, ended())).await,
        CliCommand::Worker(args) => return worker::worker(args, start, ended()).await,
        CliCommand::Relay(args) => return Box::pin(relay::relay(args, start, ended())).await,
        CliCommand::Abort(args) => return plan_control::abort(args, start, ended()).await,
        CliCommand::Tools(args) => tool::list(&args, out),
        CliCommand::Tool(args) => return tool::call(args, start, ended()).await,
        CliCommand::Mcp(args) => return mcp::serve(args, start, ended()).await,
        CliCommand::Web(args) => return Box::pin(web::web(args, start, ended())).await,
        CliCommand::Clean { yes } => clean::clean(yes, &control().await?).await,
        CliCommand::Stop => plan_control::stop(&control().await?).await,
        CliCommand::Edit(args) => return edit_plan::edit(&args, start, ended()).await,
        CliCommand::Tell(args) => steer::tell(&args, &control().await?).await,
        CliCommand::Retry(args) => steer::retry(&args, &control().await?).await,
        CliCommand::Skip(args) => steer::settle(&args, false, &control().await?).await,
        CliCommand::Done(args) => steer::settle(&args, true, &control().await?).await,
        CliCommand::Add(args) => steer::add(&args, &control().await?).await,
        CliCommand::Questions { json } => show_commands::questions(json, &read().await?).await,
        CliCommand::Workers { json } => workers::list(json, &read().await?).await,
        CliCommand::Answer(args) => {
            let app = control().await?;
            Box::pin(answer::answer(&args, app, ended())).await
        }
        CliCommand::Restore(args) => plan_control::restore(&args, &control().await?).await,
        CliCommand::Pause(args) => plan_control::pause(&args, &control().await?).await,
        CliCommand::Plans(args) => show_commands::plans(&args, &read().await?).await,
        CliCommand::Status(args) => show_commands::status(&args, &read().await?).await,
        CliCommand::Show(args) => show_commands::show(&args, &read().await?).await,
        CliCommand::Why(args) => show_commands::why(&args, &read().await?).await,
        CliCommand::Diff(args) => diff::diff(&args, &read().await?).await,
        CliCommand::Merge(args) => results::merge(&args, &control().await?).await,
        CliCommand::Discard(args) => results::discard(&args, &control().await?).await,
        CliCommand::Prune(args) => results::prune(&args, &control().await?).await,
        CliCommand::Logs(args) => logs::logs(&args, &read().await?).await,
        CliCommand::Outcomes(args) => outcomes::outcomes(&args, &read().await?).await,
        CliCommand::Log(args) => show_commands::log(&args, &read().await?).await,
    };
    done.map(|()| Exit::Done)
}
