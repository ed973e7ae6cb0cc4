//! What a shell offers while a command line is typed: commands and flags, and the plans, tasks and questions that exist. Reading
//! them makes nothing, takes no longer than a person waits for a key, and says nothing where it fails.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Command, CommandFactory};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};

use super::args::CommandLine;
use super::plan_by_name::pick_plan;
use super::{Access, App, CommandStart, Failure, Output};
use crate::config::Environment;
use crate::plan::{ArchiveState, DAEMON, Plan, PlanId, ROLE};
use crate::store::{ListedPlan, Store};
use crate::view::StateWord;
use crate::wire::text::one_line;

/// The variable by which a shell's script asks what there is.
const ASKED: &str = "_PLAN_AGENT_COMPLETE";

/// A person at a key does not wait longer.
const WITHIN: Duration = Duration::from_millis(800);

/// The most that is offered, and the longest name beside it.
const MOST: usize = 100;
const NAME: usize = 60;

/// What a word of the command line names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Plan,
    Task,
    Question,
    Choice,
}

/// A word with what it names.
type Offer = (String, String);

/// Answers the script of a shell; returns whether one asked.
pub fn answer() -> bool {
    let here = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(command).var(ASKED);
    // An error would be printed into the line that is typed.
    asked
        .try_complete(std::env::args_os(), here.as_deref())
        .unwrap_or(true)
}

/// Prints the script of a shell.
///
/// # Errors
///
/// That of the output.
pub fn print(shell: clap_complete::Shell, output: &mut Output) -> Result<(), Failure> {
    let (shells, shell) = (Shells::builtins(), shell.to_string());
    let mut script = Vec::new();
    if let Some(shell) = shells.completer(&shell) {
        let name = "plan-agent";
        let written = shell.write_registration(ASKED, name, name, name, &mut script);
        written.map_err(Failure::failed)?;
    }
    output.bytes(&script)
}

/// Returns the command line with what completes its words.
fn command() -> Command {
    let mut command = CommandLine::command();
    let names = command
        .get_subcommands()
        .map(|one| one.get_name().to_owned());
    for name in names.collect::<Vec<_>>() {
        command = command.mut_subcommand(name, |one| {
            let has_task = one.get_arguments().any(|arg| arg.get_id() == "task");
            one.mut_args(|arg| completed(arg, has_task))
        });
    }
    command
}

fn completed(arg: Arg, has_task: bool) -> Arg {
    let is_file = arg
        .get_value_names()
        .is_some_and(|names| names.iter().any(|name| *name == "FILE"));
    let named: &'static [Named] = match arg.get_id().as_str() {
        // The number of a task may stand where a plan may be named.
        "plan" if has_task => &[Named::Task, Named::Plan],
        "plan" if !is_file => &[Named::Plan],
        "task" => &[Named::Task],
        "question" => &[Named::Choice, Named::Question],
        "choice" => &[Named::Choice],
        _ => return arg,
    };
    arg.add(ArgValueCompleter::new(move |typed: &OsStr| {
        candidates(named, typed)
    }))
}

fn candidates(named: &[Named], typed: &OsStr) -> Vec<CompletionCandidate> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return Vec::new();
    };
    let found = runtime.block_on(async { tokio::time::timeout(WITHIN, offers(named)).await });
    runtime.shutdown_background();
    let typed = typed.to_string_lossy();
    let offers = found.ok().flatten().unwrap_or_default().into_iter();
    let fits = offers
        .filter(|(word, _)| word.starts_with(&*typed))
        .take(MOST);
    fits.map(|(word, help)| CompletionCandidate::new(word).help(Some(help.into())))
        .collect()
}

/// Reads what there is; nothing where there are no plans, or they cannot be read.
async fn offers(named: &[Named]) -> Option<Vec<Offer>> {
    // The script passes the words that were typed behind `--`.
    let words = std::env::args().skip_while(|word| word != "--").skip(2);
    let words: Vec<String> = words.collect();
    let config = words.iter().position(|word| word == "--config");
    let start = CommandStart {
        file: config.and_then(|at| words.get(at + 1)).map(PathBuf::from),
        environment: Environment::of_process(),
    };
    let app = App::open(&start, Access::Read).await.ok()?;
    let clock = app.clock;
    let store = Store::open_to_read(&app.volumes.database(), move || clock.now())
        .await
        .ok()?;
    let mut plans = store.plans().await.ok()?;
    plans.retain(|ListedPlan { head, .. }| {
        head.archive_state == ArchiveState::Current && head.owner != ROLE
    });
    let meant = |word: &String| pick_plan(&plans, Some(word), &app.program, |_| false).ok();
    let meant = words.iter().skip(1).find_map(meant);
    let meant = meant
        .or_else(|| pick_plan(&plans, None, &app.program, |_| false).ok())?
        .id;
    let mut offers = Vec::new();
    for named in named {
        match named {
            Named::Plan => offers.extend(plans.iter().map(|plan| plan_offer(plan, &app))),
            Named::Task => offers.extend(store.read(&meant, |plan, _| tasks(plan)).await.ok()?),
            Named::Question | Named::Choice => {
                let asked = open_questions(*named, &plans, &store).await;
                offers.extend(asked);
            }
        }
    }
    let mut seen = BTreeSet::new();
    offers.retain(|(word, _): &Offer| seen.insert(word.clone()));
    Some(offers)
}

fn plan_offer(ListedPlan { head, .. }: &ListedPlan, app: &App) -> Offer {
    let state = StateWord::of_plan(head, app.carries_out(head));
    let help = format!("{}: {}", state.as_str(), one_line(&head.name, NAME));
    (one_line(head.key(), NAME), help)
}

fn tasks(plan: &Plan) -> Vec<Offer> {
    // From where the work is on: those before it are seldom meant.
    let first = plan
        .unsettled()
        .next()
        .map_or(0, |task| plan.index_of(task));
    let (before, after) = (plan.tasks().take(first), plan.tasks().skip(first));
    let tasks = after.chain(before).map(|task| {
        let state = StateWord::of_task(plan, task).as_str();
        let help = format!("{state}: {}", one_line(&task.name, NAME));
        (task.number.to_string(), help)
    });
    tasks.collect()
}

async fn open_questions(named: Named, plans: &[ListedPlan], store: &Store) -> Vec<Offer> {
    let mut offers = Vec::new();
    let asks = |plan: &&ListedPlan| plan.head.owner == DAEMON && !plan.head.status.settled();
    for ListedPlan { head, .. } in plans.iter().filter(asks) {
        let id: &PlanId = &head.id;
        let asked = store.read(id, move |plan, _| {
            let asked = plan.open_questions().flat_map(|question| {
                let reason = one_line(&question.reason, NAME);
                match named {
                    Named::Question => vec![(question.id.to_string(), reason)],
                    _ => (question.choices.iter())
                        .map(|choice| (choice.as_str().to_owned(), reason.clone()))
                        .collect(),
                }
            });
            asked.collect::<Vec<Offer>>()
        });
        offers.extend(asked.await.unwrap_or_default());
    }
    offers
}
