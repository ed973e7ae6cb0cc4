//! What a shell offers while a command line is typed: commands and flags, and the plans and tasks that exist. Reading them makes
//! nothing, takes no longer than a person waits for a key, and says nothing where it fails.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Command, CommandFactory};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};

use super::plan_by_name::{keep_own, pick_plan};
use super::{Access, App, CommandLine, CommandStart, Output, Result};
use crate::config::Environment;
use crate::plan::{ArchiveState, Plan, PlanId, ROLE};
use crate::store::ListedPlan;
use crate::view::StateWord;
use crate::wire::one_line;

/// The variable by which a shell's script asks what there is.
const ASKED: &str = "_PLAN_AGENT_COMPLETE";

/// A person at a key does not wait longer.
const WITHIN: Duration = Duration::from_millis(800);

/// The most that is offered, and the longest name of it.
const MOST: usize = 100;
const NAME: usize = 60;

/// Answers the script of a shell; returns whether one asked.
pub fn answer() -> bool {
    let here = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(command).var(ASKED);
    let answered = asked.try_complete(std::env::args_os(), here.as_deref());
    // An error would be printed into the line that is typed.
    answered.unwrap_or(true)
}

/// Prints the script of a shell.
///
/// # Errors
///
/// That of the output.
pub fn print(shell: clap_complete::Shell, output: Output) -> Result {
    let (shells, mut script) = (Shells::builtins(), Vec::new());
    if let Some(shell) = shells.completer(&shell.to_string()) {
        let name = "plan-agent";
        shell.write_registration(ASKED, name, name, name, &mut script)?;
    }
    output.bytes(&script)
}

/// Returns the command line with what completes its words.
fn command() -> Command {
    CommandLine::command().mut_subcommands(|one| {
        let has_task = one.get_arguments().any(|arg| arg.get_id() == "task");
        one.mut_args(|arg| completed(arg, has_task))
    })
}

fn completed(arg: Arg, has_task: bool) -> Arg {
    let is_file = arg.get_value_names().is_some_and(|names| names == ["FILE"]);
    // The number of a task may stand where a plan may be named.
    let (plans, tasks) = match arg.get_id().as_str() {
        "plan" if !is_file => (true, has_task),
        "task" => (false, true),
        _ => return arg,
    };
    let offers = move |typed: &OsStr| {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let offers = async { tokio::time::timeout(WITHIN, offers(plans, tasks)).await };
        let offers = { runtime }.enable_all().build().map(|runtime| {
            let offers = runtime.block_on(offers);
            runtime.shutdown_background();
            offers.ok().flatten().unwrap_or_default()
        });
        let mut fits = offers.unwrap_or_default();
        fits.retain(|(word, _)| word.starts_with(&*typed.to_string_lossy()));
        let offer = |(word, help)| CompletionCandidate::new(word).help(Some(String::into(help)));
        fits.into_iter().take(MOST).map(offer).collect()
    };
    arg.add(ArgValueCompleter::new(offers))
}

/// Reads which plans there are, and the tasks of the one that is meant, each with what it is.
async fn offers(with_plans: bool, with_tasks: bool) -> Option<Vec<(String, String)>> {
    // The script passes the words that were typed behind `--`.
    let words = std::env::args().skip_while(|word| word != "--").skip(2);
    let words: Vec<String> = words.collect();
    let value = |flag| {
        let at = words.iter().position(|word| word == flag)?;
        words.get(at + 1).map(PathBuf::from)
    };
    let folder = value("-C");
    if let Some(folder) = &folder {
        std::env::set_current_dir(folder).ok()?;
    }
    let start = CommandStart {
        folder,
        file: value("--config"),
        environment: Environment::of_process(),
    };
    let app = App::open(&start, Access::Read).await.ok()?;
    let place = app.confirmed_place().ok()?;
    let store = place.open_to_read(app.clock.teller()).await.ok()?;
    let store = store.of_home(&app.volumes.home());
    let mut plans = store.plans().await.ok()?;
    plans.retain(|ListedPlan { head, .. }| {
        head.archive_state == ArchiveState::Current && head.owner != ROLE
    });
    let mut offers = Vec::new();
    if with_tasks {
        let mut own = plans.clone();
        keep_own(&mut own, &store);
        let pick = |plans: &[_], named| pick_plan(plans, named, &app.program, |_| false).ok();
        let named = words
            .iter()
            .skip(1)
            .find_map(|word| pick(&plans, Some(word)));
        let meant = named.or_else(|| pick(&own, None))?.id;
        offers = store.read(&meant, |plan, _| tasks(plan)).await.ok()?;
    }
    let daemon = app.volumes.running();
    let carried_out = |id: &PlanId| daemon.as_ref().is_some_and(|it| it.carries_out(id));
    let plan = |ListedPlan { head, .. }: &ListedPlan| {
        let state = StateWord::of_plan(head, carried_out(&head.id)).as_str();
        let help = format!("{state}: {}", one_line(&head.name, NAME));
        (one_line(head.key(), NAME), help)
    };
    offers.extend(plans.iter().filter(|_| with_plans).map(plan));
    Some(offers)
}

/// Returns the tasks from where the work is on; those before are seldom meant.
fn tasks(plan: &Plan) -> Vec<(String, String)> {
    let first = plan.unsettled().next();
    let first = first.map_or(0, |task| plan.index_of(task));
    let tasks = plan.tasks().skip(first).chain(plan.tasks().take(first));
    let offer = |task| {
        let state = StateWord::of_task(plan, task).as_str();
        let help = format!("{state}: {}", one_line(&task.name, NAME));
        (task.number.to_string(), help)
    };
    tasks.map(offer).collect()
}
