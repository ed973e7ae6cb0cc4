//! `run`, `plan`, `resume`, `worker` and the daemon that `--detach` leaves behind: put the parts together and carry a
//! plan out.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::args::{Abort, CarryOut, Daemon, MakePlan, Program, Resume, Run, Worker};
use super::crew::{self, Crew};
use super::detach;
use super::failure::{Exit, Failure};
use super::foreground::{self, Foreground};
use super::inside;
use super::output::{Output, complain};
use super::plans::settled;
use super::setup::{Prepared, Setup, unusable};
use super::signals::{Ended, unless};
use super::site::{BY, Site};
use super::team::OfWorkflow;
use super::view::clock_time;
use crate::clock::Clock;
use crate::config::Planner;
use crate::daemon::{self, End, Patience};
use crate::plan::{Head, NewTask, Origin, PlanId, PlanStatus, Review, Time};
use crate::tools::new_plan_id;
use crate::volumes::{DaemonInfo, DaemonLock, LastWord, Volumes};
use crate::wire::plan_file;
use crate::wire::text::{one_line, time_text};
use crate::worker::{self, RoleFilter, Told};

/// For so long workers and roles are waited for at the end.
const LET_GO: Duration = Duration::from_secs(5);

/// What is said when a signal comes first.
const NO_PLAN: &str = "no plan was made";

/// Plans a goal and carries the plan out.
pub async fn run(
    args: Run,
    setup: impl Future<Output = Result<Setup, Failure>>,
    mut ended: Ended,
    output: Output,
) -> Result<Exit, Failure> {
    let setup = &unless(&mut ended, NO_PLAN, setup).await?;
    let crew = Crew::choose(&args.carry_out.agent, setup);
    let crew = unless(&mut ended, NO_PLAN, crew).await?;
    let planner = setup.planner(crew.general())?;
    let workspace = setup.workspace(args.workspace.as_deref())?;
    let of_workflow = setup.plan_of_workflow(&OfWorkflow {
        command: "run",
        workflow: args.made_from.workflow.as_deref(),
        params: &args.made_from.params,
        goal: args.goal.as_deref(),
        workspace: args.workspace.as_deref(),
        team: &args.carry_out.team,
    })?;
    let (mut head, tasks) = match (of_workflow, &args.plan, &args.goal) {
        (Some(plan), ..) => plan,
        (None, Some(path), _) => {
            unless(
                &mut ended,
                NO_PLAN,
                setup.read_plan(path, Path::new(&workspace)),
            )
            .await?
        }
        (None, None, Some(goal)) => (Head::new(new_plan_id(), goal, Time::default()), Vec::new()),
        (None, None, None) => return Err(nothing_to_do(&args, setup)),
    };
    if let Some(team) = setup.team.as_ref().filter(|_| crew.roles_only()) {
        let shown = match (&args.plan, &args.made_from.workflow) {
            (Some(plan), _) => plan.display().to_string(),
            (None, Some(workflow)) => format!("{}#{workflow}", team.path.display()),
            (None, None) => String::new(),
        };
        match team.team.nobodys(&tasks) {
            none if none.is_empty() => {}
            problems => return Err(unusable(&shown, &problems)),
        }
    }
    if let (Planner::Rules { why }, true) = (&planner, tasks.is_empty()) {
        return Err(
            Failure::usage(anyhow!("no language model can plan the goal: {why}")).hint(format!(
                "{}, or give a plan file: `run --plan FILE`",
                setup.config.way_to_a_model()
            )),
        );
    }
    if let Some(name) = &args.name {
        head.name.clone_from(name);
    }
    if args.review {
        head.review = Review::Wanted;
    }
    head.workspace = workspace;
    unless(&mut ended, NO_PLAN, setup.check_project(&head.workspace)).await?;
    unless(&mut ended, NO_PLAN, setup.introduce(&planner)).await?;
    let prepared = setup.prepare(planner)?;
    let (lock, site) = unless(&mut ended, NO_PLAN, setup.take()).await?;
    let plan = create(&site, head, tasks).await?;
    let ready = Ready {
        setup,
        prepared,
        site,
        lock,
        crew,
    };
    ready.carry_out(plan, &args.carry_out, ended, output).await
}

/// Tells what there is to be done, where nothing was named.
fn nothing_to_do(args: &Run, setup: &Setup) -> Failure {
    let program = &setup.program;
    let workflows = setup.team.iter().flat_map(|file| file.team.workflow_ids());
    let workflows: Vec<&str> = workflows.collect();
    let again = args.carry_out.team.again();
    let by_goal = format!("`{program} run{again} \"what is to be reached\"`");
    match workflows.split_first() {
        None => Failure::usage(anyhow!("there is neither a goal nor a plan file"))
            .hint(format!("{by_goal}, or `{program} run{again} --plan FILE`")),
        Some((first, rest)) => {
            let others = match rest {
                [] => String::new(),
                rest => format!(" (or {})", rest.join(", ")),
            };
            Failure::usage(anyhow!(
                "there is neither a goal nor a workflow nor a plan file"
            ))
            .hint(format!(
                "`{program} run{again} --workflow {first}`{others}, {by_goal}, or `{program} run{again} --plan FILE`"
            ))
        }
    }
}

/// Makes a plan for a goal, or of a workflow, and shows it.
pub async fn plan(
    args: MakePlan,
    setup: impl Future<Output = Result<Setup, Failure>>,
    mut ended: Ended,
    mut output: Output,
) -> Result<Exit, Failure> {
    let setup = unless(&mut ended, NO_PLAN, setup).await?;
    let planner = setup.planner(None)?;
    let of_workflow = setup.plan_of_workflow(&OfWorkflow {
        command: "plan",
        workflow: args.made_from.workflow.as_deref(),
        params: &args.made_from.params,
        goal: args.goal.as_deref(),
        workspace: args.workspace.as_deref(),
        team: &args.team,
    })?;
    let goal = args.goal.unwrap_or_default();
    let (mut head, tasks) = of_workflow
        .unwrap_or_else(|| (Head::new(new_plan_id(), &goal, Time::default()), Vec::new()));
    let asks = tasks.is_empty();
    if let (Planner::Rules { why }, true) = (&planner, asks) {
        return Err(
            Failure::usage(anyhow!("no language model can plan the goal: {why}"))
                .hint(setup.config.way_to_a_model()),
        );
    }
    if let Some(name) = args.name {
        head.name = name;
    }
    head.workspace = setup.workspace(args.workspace.as_deref())?;
    // Nothing is started, but the call counts against the budget.
    head.policy = setup.config.policy(&planner);
    unless(&mut ended, NO_PLAN, setup.check_project(&head.workspace)).await?;
    if asks {
        unless(&mut ended, NO_PLAN, setup.introduce(&planner)).await?;
    }
    let prepared = setup.prepare(planner)?;
    let (lock, site) = unless(&mut ended, NO_PLAN, setup.take()).await?;
    let plan = create(&site, head, tasks).await?;
    let (program, again) = (&setup.program, args.team.again());
    if asks {
        let settings = prepared
            .settings(&plan, &site, &lock, Patience::Leave)
            .await?;
        let kept = format!("the goal is kept: `{program} resume {plan}{again}` asks again");
        unless(&mut ended, &kept, async {
            let made = daemon::make_plan(&settings, &site.store).await;
            made.map_err(|error| Failure::failed(error).hint(&kept))
        })
        .await?;
    }
    drop(lock);
    if args.json {
        let value = site
            .store
            .read(&plan, |plan, _| plan.rows().collect::<Vec<_>>())
            .await?;
        output.json(&value)?;
    } else {
        output.text(
            &site
                .store
                .read(&plan, |plan, _| plan_file::render(plan))
                .await?,
        )?;
        complain(&format!(
            "\n`{program} resume {plan}{again}` carries it out.\n"
        ));
    }
    Ok(Exit::Done)
}

/// Goes on with an unfinished plan; of one that has ended, finishes what a crash may have left undone.
pub async fn resume(
    mut args: Resume,
    program: &Program,
    setup: impl Future<Output = Result<Setup, Failure>>,
    mut ended: Ended,
    mut output: Output,
) -> Result<Exit, Failure> {
    let goes_on = {
        let plan = args
            .on
            .plan
            .iter()
            .fold(String::new(), |_, plan| format!(" {plan}"));
        let again = args.carry_out.again();
        format!("`{program} resume{plan}{again}` goes on where it was")
    };
    let setup = &unless(&mut ended, &goes_on, setup).await?;
    let crew = Crew::choose(&args.carry_out.agent, setup);
    let crew = unless(&mut ended, &goes_on, crew).await?;
    let planner = setup.planner(crew.general())?;
    unless(&mut ended, &goes_on, setup.introduce(&planner)).await?;
    let prepared = setup.prepare(planner)?;
    // Nothing is made in a folder without plans.
    let find = async {
        let site = Site::open(setup).await?;
        let plan = site.plan_to_carry_out(args.on.plan.as_deref()).await?;
        Ok((site, plan))
    };
    let (site, plan) = unless(&mut ended, &goes_on, find).await?;
    match go_on(&site, &plan).await? {
        GoesOn::Nobody => {}
        GoesOn::Resumed => {
            output.line(&format!("plan {plan} goes on"))?;
            return Ok(Exit::Done);
        }
        GoesOn::Stopped(why) => {
            let hint = format!(
                "`{program} answer more` goes on, or `{program} stop`, raise it in config.toml, and resume"
            );
            let error = anyhow!("plan `{plan}` is paused: {why}");
            return Err(Failure::new(error, Exit::Budget).hint(hint));
        }
    }
    // Of a plan that has ended nothing is left that could go on in the background.
    args.carry_out.detach &= !settled(&site, &plan).await?;
    drop(site);
    let (lock, site) = unless(&mut ended, &goes_on, setup.take()).await?;
    let ready = Ready {
        setup,
        prepared,
        site,
        lock,
        crew,
    };
    ready.carry_out(plan, &args.carry_out, ended, output).await
}

/// Whether a plan goes on with the daemon that carries it out.
enum GoesOn {
    /// No daemon does, or it needs no telling.
    Nobody,
    Resumed,
    /// A limit of its budget keeps it from going on: this one.
    Stopped(String),
}

/// Lets a paused plan go on that a living daemon carries out, unless its budget is used up.
async fn go_on(site: &Site, plan: &PlanId) -> Result<GoesOn, Failure> {
    let here = site
        .volumes
        .running()
        .and_then(|daemon| daemon.plan)
        .as_deref()
        == Some(plan.as_str());
    if !here {
        return Ok(GoesOn::Nobody);
    }
    let resumed = site
        .store
        .change(plan, BY, "resumed", |draft| {
            let PlanStatus::Paused(why) = draft.plan().status().clone() else {
                return Ok(GoesOn::Nobody);
            };
            if draft.plan().stopped_at().is_some() {
                return Ok(GoesOn::Stopped(why));
            }
            draft.resume().map(|()| GoesOn::Resumed)
        })
        .await?;
    Ok(resumed)
}

/// Ends a plan for good. Without a daemon this process does what is left to do: takes commands back, tells agents to stop.
pub async fn abort(
    args: Abort,
    setup: impl Future<Output = Result<Setup, Failure>>,
    mut ended: Ended,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let find = async {
        let setup = setup.await?;
        let site = Site::open(&setup).await?;
        let plan = site.plan_to_carry_out(Some(&args.plan)).await?;
        Ok((setup, site, plan))
    };
    let (setup, site, plan) = unless(&mut ended, "the plan is as it was", find).await?;
    site.store
        .change(&plan, BY, "aborted", |draft| {
            draft.abandon("on the command line")
        })
        .await?;
    // A daemon of this plan does it; one of another plan keeps the folder, and a later `resume` of this one does.
    if site.daemon().is_none() {
        drop(site);
        let prepared = setup.prepare(Planner::Rules {
            why: "only what is left is done".to_owned(),
        })?;
        let (lock, site) = setup.take().await?;
        let settings = prepared
            .settings(&plan, &site, &lock, Patience::Leave)
            .await?;
        daemon::run(settings, site.store.clone(), site.clock, async {
            ended.await;
        })
        .await?;
        drop(lock);
    }
    let program = &setup.program;
    output.line(&format!(
        "plan {plan} has ended for good; agents at work are told to stop, their work stays"
    ))?;
    output.line(&format!(
        "`{program} status {plan}`, `log {plan}` and `diff {plan}` go on showing it"
    ))?;
    Ok(Exit::Done)
}

/// The daemon that `--detach` leaves behind: no terminal, waits for answers.
pub async fn daemon(
    args: Daemon,
    setup: impl Future<Output = Result<Setup, Failure>>,
    mut ended: Ended,
) -> Result<Exit, Failure> {
    detach::leave_terminal();
    let begin = async {
        let setup = setup.await?;
        let (lock, site) = setup.take_over().await?;
        let plan = site.plan_to_carry_out(Some(&args.plan)).await?;
        Ok((setup, lock, site, plan))
    };
    let (setup, lock, site, plan) =
        unless(&mut ended, "the plan goes on with the next daemon", begin).await?;
    let crew = Crew::choose(&args.agent, &setup).await?;
    setup
        .check_team(&plan, &site.store, crew.roles_only())
        .await?;
    let prepared = setup.prepare(setup.planner(crew.general())?)?;
    setup.log(&site.volumes)?;
    let mut settings = prepared
        .settings(&plan, &site, &lock, Patience::Wait)
        .await?;
    crew.furnish(&mut settings)?;
    let roles = Box::pin(inside::ready(&settings, &setup, &site));
    let roles = unless(&mut ended, "the plan goes on with the next daemon", roles).await?;
    daemon::set_torn_aside(&settings, &site.store).await?;
    // From now on whoever started this takes it for at work.
    announce(&lock, &site.volumes, &plan, &site.clock)?;
    let (stop, stopped) = watch::channel(false);
    let workers = crew.man(&mut settings, &setup.config, &stopped);
    let roles = roles.map(|roles| inside::begin(roles, &stopped));
    let mut exit = None;
    let end = daemon::run(settings, site.store.clone(), site.clock, async {
        let signal = ended.await;
        tracing::info!(exit = ?signal, "told to stop");
        exit = Some(signal);
    })
    .await;
    stop.send_replace(true);
    let_go(workers, roles).await;
    leave_word(&lock, &site, &plan, &end);
    Ok(exit_of(&end?, exit))
}

/// Says how a daemon ends that nobody looks on, unless the plan itself does.
fn leave_word(lock: &DaemonLock, site: &Site, plan: &PlanId, end: &anyhow::Result<End>) {
    let why = match end {
        Ok(End::Settled(_)) => return,
        Ok(End::Interrupted) => "it was told to stop".to_owned(),
        Ok(End::Displaced(_)) => "its lock was gone".to_owned(),
        Ok(End::Waits) => "it had to wait for a person".to_owned(),
        Ok(End::Budget) => "the budget is used up".to_owned(),
        Ok(End::NoPlan) => "no plan came of the goal".to_owned(),
        Err(error) => one_line(&format!("{error:#}"), 400),
    };
    let word = LastWord {
        plan: plan.to_string(),
        at: time_text(site.clock.now()),
        why,
    };
    if let Err(error) = lock.leave_word(&word) {
        tracing::warn!(%error, "nobody will know how it ended");
    }
}

/// Takes commands and runs an agent for each.
pub async fn worker(
    args: Worker,
    setup: impl Future<Output = Result<Setup, Failure>>,
    mut ended: Ended,
) -> Result<Exit, Failure> {
    let setup = unless(&mut ended, "no command was taken", setup).await?;
    let setup = setup.quiet()?;
    let choose = crew::alone(&args, &setup);
    let options = unless(&mut ended, "no command was taken", choose).await?;
    let (teller, told) = mpsc::unbounded_channel();
    let options = worker::Options {
        told: Some(teller),
        ..options
    };
    let whose = match &options.role {
        RoleFilter::Only(role) => format!(" of `{role}`"),
        _ => String::new(),
    };
    complain(&format!(
        "taking commands{whose} in `{}`; Ctrl-C ends\n",
        setup.config.root().display()
    ));
    let shown = tokio::spawn(show_work(told));
    let mut exit = Exit::Done;
    let worked = worker::run(options, async { exit = ended.await }).await;
    // It ends with the worker, which held the other end.
    drop(shown.await);
    worked.map_err(Failure::failed)?;
    Ok(exit)
}

/// Tells a person what a worker does, a line for each beginning and each end.
async fn show_work(mut told: mpsc::UnboundedReceiver<Told>) {
    let clock = Clock::start();
    let mut title = String::new();
    while let Some(told) = told.recv().await {
        let (of, what) = match told {
            Told::Begun(begun) => {
                title.clone_from(&begun);
                (begun, "begun".to_owned())
            }
            Told::Waits { said, until } => {
                let time = clock_time(until);
                (
                    title.clone(),
                    format!("{said}; it is asked again at {time}"),
                )
            }
            Told::Reported(status) => {
                let what = match status {
                    Some(status) => format!("reported {}", status.as_str()),
                    None => "reported by the agent".to_owned(),
                };
                (std::mem::take(&mut title), what)
            }
        };
        // A command that only ends a session was not begun.
        if !of.is_empty() {
            let time = clock_time(clock.now());
            complain(&format!("{time} {of}: {what}\n"));
        }
    }
}

async fn create(site: &Site, mut head: Head, tasks: Vec<NewTask>) -> Result<PlanId, Failure> {
    head.origin = if tasks.is_empty() {
        Origin::Model
    } else {
        Origin::Person
    };
    let plan = head.id.clone();
    site.store
        .create(head, BY, "made", move |draft| {
            draft.created();
            if tasks.is_empty() {
                Ok(())
            } else {
                draft.make_tasks(tasks).map(drop)
            }
        })
        .await?;
    Ok(plan)
}

fn announce(
    lock: &DaemonLock,
    volumes: &Volumes,
    plan: &PlanId,
    clock: &Clock,
) -> Result<(), Failure> {
    Ok(lock.announce(&DaemonInfo {
        pid: std::process::id(),
        started_at: time_text(clock.now()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        plan: Some(plan.to_string()),
        root: volumes.root().to_owned(),
    })?)
}

/// Waits until the workers and roles that were started have let go of what they were at. Not for long: a busy store would keep
/// roles waiting, and what they are at is found again after a kill too.
async fn let_go(workers: JoinHandle<()>, roles: Option<JoinHandle<()>>) {
    let all = async {
        // What broke down has said so.
        drop(workers.await);
        if let Some(roles) = roles {
            drop(roles.await);
        }
    };
    if timeout(LET_GO, all).await.is_err() {
        tracing::warn!("a worker or a role is at something that does not end");
    }
}

pub(super) fn exit_of(end: &End, signal: Option<Exit>) -> Exit {
    match end {
        End::Settled(PlanStatus::Completed) => Exit::Done,
        End::Settled(PlanStatus::Abandoned) => Exit::Aborted,
        End::Settled(_) | End::NoPlan => Exit::Failed,
        End::Waits => Exit::Waiting,
        End::Budget => Exit::Budget,
        End::Interrupted => signal.unwrap_or(Exit::Interrupted),
        End::Displaced(_) => Exit::Busy,
    }
}

/// Everything that it takes to carry a plan out.
struct Ready<'a> {
    setup: &'a Setup,
    prepared: Prepared<'a>,
    site: Site,
    lock: DaemonLock,
    crew: Crew,
}

impl Ready<'_> {
    async fn carry_out(
        self,
        plan: PlanId,
        how: &CarryOut,
        mut ended: Ended,
        output: Output,
    ) -> Result<Exit, Failure> {
        let Self {
            setup,
            prepared,
            site,
            lock,
            crew,
        } = self;
        setup.check_project_of(&plan, &site.store).await?;
        setup
            .check_team(&plan, &site.store, crew.roles_only())
            .await?;
        let (workspace, over) = site
            .store
            .read(&plan, |plan, _| {
                (plan.head().workspace.clone(), plan.status().settled())
            })
            .await?;
        if !over {
            setup.usable(Path::new(&workspace))?;
        }
        if let (false, Some(file)) = (over, &setup.team) {
            file.tell_of_external(site.volumes.root(), &setup.program, &how.team);
        }
        if how.detach {
            return detach::detach(&plan, &site.volumes, lock, how, setup, &mut ended, output)
                .await;
        }
        setup.log(&site.volumes)?;
        let asks = foreground::may_ask(how);
        let patience = if asks {
            Patience::Wait
        } else {
            Patience::Leave
        };
        let mut settings = prepared.settings(&plan, &site, &lock, patience).await?;
        crew.furnish(&mut settings)?;
        let roles = Box::pin(inside::ready(&settings, setup, &site));
        let kept = site.goes_on(&plan).await;
        let roles = unless(&mut ended, &kept, roles).await?;
        daemon::set_torn_aside(&settings, &site.store).await?;
        announce(&lock, &site.volumes, &plan, &site.clock)?;
        let surroundings = setup.surroundings(&settings.workspace, settings.team.clone());
        let manned = crew.general().is_some() || setup.team.is_some();
        let foreground =
            Foreground::new(&site, &plan, how, asks, surroundings, manned, output).await?;
        let (stop, stopped) = watch::channel(false);
        let workers = crew.man(&mut settings, &setup.config, &stopped);
        let roles = roles.map(|roles| inside::begin(roles, &stopped));
        let mut ending = stopped.clone();
        let daemon = tokio::spawn(daemon::run(
            settings,
            site.store.clone(),
            site.clock,
            async move {
                drop(ending.wait_for(|stopped| *stopped).await);
            },
        ));
        let (end, signal) = foreground.follow(daemon, &stop, ended).await?;
        stop.send_replace(true);
        let_go(workers, roles).await;
        drop(lock);
        Ok(exit_of(&end, signal))
    }
}
