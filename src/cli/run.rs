//! `run`, `plan`, `resume`, `abort`, `worker` and the daemon that `--detach` leaves behind: open what is needed, and carry a
//! plan out.

use std::path::PathBuf;

use anyhow::anyhow;
use jiff::tz::TimeZone;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::args::{
    AbortArgs, AgentArgs, CarryOut, DaemonArgs, MakePlan, QueueArgs, ResumeArgs, RunArgs,
    WorkerArgs,
};
use super::carry_out_plan::{Work, exit_of};
use super::new_plan::Wanted;
use super::queued_plans::{self, CarriedOutBy};
use super::worker_pools::{self, TeamWorkers};
use super::{
    Access, App, BY, Exit, Failure, Output, Process, Result, can_ask, complain, confirm, detach,
    remembered, run_terminal, secret_arguments, unless, web,
};
use crate::config::Planner;
use crate::daemon::{self, EndsWhen, HumanWait, PlanAtWork};
use crate::plan::{Draft, Origin, PlanHead, PlanId, ReviewPolicy, RunOptions, TaskSpec};
use crate::plan_time::Clock;
use crate::steering::{self, GoesOn};
use crate::view::clock_time;
use crate::wire::plan_file;
use crate::wire::text::one_line;
use crate::worker::{self, RoleFilter, WorkerEvent};

/// Printed when a signal comes first.
const NO_PLAN: &str = "no plan was made";

/// Plans a goal and carries the plan out.
pub async fn run(args: RunArgs, mut process: Process<'_>) -> Result<Exit> {
    let opened = async {
        secret_arguments::refuse(&args.carry_out.agent.argv)?;
        let CarryOut { agent, team, .. } = &args.carry_out;
        let mut app = App::open(process.start, Access::Run).await?;
        let may_ask = run_terminal::may_ask(&args.carry_out);
        let file = app.goal_file(args.goal.as_deref(), may_ask).await?;
        let wanted = Wanted {
            command: "run",
            goal: args.goal.as_deref().filter(|_| file.is_none()),
            plan: args.plan.as_deref().or(file.as_deref()),
            new: &args.new,
        };
        let (workers, planner) = app.with_workers(&args.carry_out).await?;
        let mut new = app.new_plan(&wanted, &planner).await?;
        let project = PathBuf::from(&new.0.workspace);
        app.offer_checks(&project, may_ask).await?;
        let options = app.options(agent, team, &planner, &RunOptions::default())?;
        new.0.options = remembered::some(options);
        app.introduce(&planner).await?;
        let prepared = app.prepare(&planner)?;
        let by = match args.queue.queue {
            true => CarriedOutBy::Daemon,
            false => app.take_or_hand_over(None).await?,
        };
        if matches!(by, CarriedOutBy::Daemon) {
            app.make_store().await?;
            let entry = app.queue_entry(&planner, &args.queue).await?;
            new.0.queue = Some(Box::new(entry));
        }
        Ok((app, prepared, workers, by, new))
    };
    let (app, prepared, workers, by, (mut head, tasks)) =
        unless(&mut process.ended, NO_PLAN, opened).await?;
    if args.review {
        head.review = ReviewPolicy::Wanted;
    }
    let how = &args.carry_out;
    let placed = app.decide_isolation(&mut head, &workers, how, &mut process.output);
    unless(&mut process.ended, NO_PLAN, placed).await?;
    let head = create(&app, head, tasks).await?;
    let _page = page(how, &process, &app).await?;
    match by {
        CarriedOutBy::This(lock) => {
            let work = Work {
                app,
                prepared,
                workers,
                lock,
            };
            Box::pin(work.in_sight(&head, how, process)).await
        }
        CarriedOutBy::Daemon if args.queue.queue || how.detach => {
            say_queued(&app, &head, how, &mut process.output)?;
            Ok(Exit::Done)
        }
        CarriedOutBy::Daemon => {
            Box::pin(queued_plans::hand_over(
                app,
                (prepared, workers),
                (head, 0),
                how,
                process,
            ))
            .await
        }
    }
}

/// Says who carries a queued plan out, and what to type.
fn say_queued(app: &App, head: &PlanHead, how: &CarryOut, output: &mut Output) -> Result {
    let (plan, program) = (&head.id, &app.program);
    let who = match app.daemon() {
        Some(pid) => format!("the daemon of this folder (pid {pid}) carries it out"),
        None => format!("no daemon works here yet: `{program} daemon` carries it out"),
    };
    output.line(&format!(
        "plan {plan} is queued; {who}\n`{program} plans` shows the queue, `{program} status {plan}` how far it is"
    ))?;
    if how.web {
        output.line(&web::where_served(app))?;
    }
    Ok(())
}

/// Serves the page as long as what is returned lives, if it is wanted of this process.
async fn page(how: &CarryOut, process: &Process<'_>, app: &App) -> Result<Option<JoinSet<()>>> {
    Ok(match how.web && !how.detach {
        true => Some(web::beside(process.start, app.store().await?).await),
        false => None,
    })
}

/// Makes a plan for a goal, or of a workflow, and shows it.
pub async fn plan(args: MakePlan, mut process: Process<'_>) -> Result<Exit> {
    let wanted = Wanted {
        command: "plan",
        goal: args.goal.as_deref(),
        plan: None,
        new: &args.new,
    };
    let opened = async {
        let mut app = App::open(process.start, Access::Run).await?;
        app.goal_file(args.goal.as_deref(), false).await?;
        app.load_sound_team(&args.team).await?;
        app.require_trust(!args.json).await?;
        let planner = app.planner(None)?;
        let (mut head, tasks) = app.new_plan(&wanted, &planner).await?;
        // Nothing is started, but the call counts against the budget.
        head.policy = app.config.policy(&planner);
        let (agent, before) = (AgentArgs::default(), RunOptions::default());
        let options = app.options(&agent, &args.team, &planner, &before)?;
        head.options = remembered::some(options);
        if tasks.is_empty() {
            app.introduce(&planner).await?;
        }
        let prepared = app.prepare(&planner)?;
        let lock = app.take(None).await?;
        Ok((app, prepared, lock, (head, tasks)))
    };
    let (app, prepared, lock, (head, tasks)) = unless(&mut process.ended, NO_PLAN, opened).await?;
    let asks = tasks.is_empty();
    let head = create(&app, head, tasks).await?;
    let (store, plan) = (app.store().await?, &head.id);
    let resume = format!("`{} resume {plan}`", app.program);
    if asks {
        let settings = app.settings(&prepared, &head, HumanWait::Leave);
        let kept = format!("the goal is kept: {resume} asks again");
        unless(&mut process.ended, &kept, async {
            let made = daemon::make_plan(&settings, store).await;
            made.map_err(|error| Failure::failed(error).hint(&kept))
        })
        .await?;
    }
    drop(lock);
    if args.json {
        let rows = store.read(plan, |plan, _| plan.rows().collect::<Vec<_>>());
        process.output.json(&rows.await?)?;
    } else {
        let text = store.read(plan, |plan, _| plan_file::render(plan));
        process.output.text(&text.await?)?;
        complain(&format!("\n{resume} carries it out.\n"));
    }
    Ok(Exit::Done)
}

/// Goes on with an unfinished plan; of one that has ended, finishes what a crash may have left undone.
pub async fn resume(args: ResumeArgs, mut process: Process<'_>) -> Result<Exit> {
    let (named, mut how) = (args.on.plan.as_deref(), args.carry_out);
    let program = process.start.program();
    let goes_on = program.goes_on(named.unwrap_or_default());
    let opened = async {
        secret_arguments::refuse(&how.agent.argv)?;
        let mut app = App::open(process.start, Access::Run).await?;
        // Nothing is made in a folder without plans.
        let plan = app.plan_to_carry_out(named).await?;
        let before = app.recall(&plan, &mut how).await?;
        let (workers, planner) = app.with_workers(&how).await?;
        let prepared = app.prepare(&planner)?;
        Ok((app, workers, planner, prepared, plan, before))
    };
    let (app, workers, planner, prepared, plan, before) =
        unless(&mut process.ended, &goes_on, opened).await?;
    if go_on(&app, &plan).await? {
        process.output.line(&format!("plan {plan} goes on"))?;
        return Ok(Exit::Done);
    }
    let by = app.take_or_hand_over(Some(&plan));
    let by = unless(&mut process.ended, &goes_on, by).await?;
    let mut found = app.found(&plan).await?;
    app.check_found(&found).await?;
    let placed = app.resume_isolation(&mut found, &workers, &how, &mut process.output);
    unless(&mut process.ended, &goes_on, placed).await?;
    if !found.head.status.settled() {
        if let (true, Some(agent)) = (workers.is_empty(), &before.agent) {
            app.give_back(&plan, agent).await?;
        }
        let options = app.options(&how.agent, &how.team, &planner, &before)?;
        let line = app.goes_on_with(&found.head, &options, &workers, &planner);
        match how.json {
            true => complain(&format!("{line}\n")),
            false => process.output.line(&line)?,
        }
        app.introduce(&planner).await?;
        app.remember(&plan, options, &before).await?;
    }
    let _page = page(&how, &process, &app).await?;
    match by {
        CarriedOutBy::This(lock) => {
            // With this process, and not after it.
            if found.head.queue.is_some() {
                app.set_queue(&plan, None).await?;
            }
            let work = Work {
                app,
                prepared,
                workers,
                lock,
            };
            Box::pin(work.in_sight(&found.head, &how, process)).await
        }
        CarriedOutBy::Daemon => {
            let entry = app.queue_entry(&planner, &QueueArgs::default()).await?;
            let since = app.read(&plan, |_, seq| seq).await?;
            app.set_queue(&plan, Some(entry)).await?;
            let head = app.found(&plan).await?.head;
            if how.detach {
                say_queued(&app, &head, &how, &mut process.output)?;
                return Ok(Exit::Done);
            }
            let handed = (prepared, workers);
            Box::pin(queued_plans::hand_over(
                app,
                handed,
                (head, since),
                &how,
                process,
            ))
            .await
        }
    }
}

/// Lets a paused plan go on that a living daemon carries out; `false` if none does, or the plan is not paused.
///
/// # Errors
/// A limit of its budget keeps it from going on.
async fn go_on(app: &App, plan: &PlanId) -> Result<bool> {
    if !app.is_carried_out(plan) {
        return Ok(false);
    }
    let goes_on = app.change(plan, "resumed", steering::go_on).await?;
    let GoesOn::Stopped(why) = goes_on else {
        return Ok(goes_on == GoesOn::Yes);
    };
    let (error, program) = (anyhow!("plan `{plan}` is paused: {why}"), &app.program);
    let stop = format!("`{program} stop`, raise it in config.toml, and resume");
    let hint = format!("`{program} answer more` goes on, or {stop}");
    Err(Failure::new(error, Exit::Budget).hint(hint))
}

/// Ends a plan for good. Without a daemon this process does what is left to do: takes commands back, stops agents.
pub async fn abort(args: AbortArgs, mut process: Process<'_>) -> Result<Exit> {
    let opened = async {
        let mut app = App::open(process.start, Access::Control).await?;
        app.hooks_if_trusted().await;
        let plan = match &args.plan {
            Some(_) => app.plan_to_carry_out(args.plan.as_deref()).await?,
            None => app.plan_to_abort().await?,
        };
        Ok((app, plan))
    };
    let (app, plan) = unless(&mut process.ended, "the plan is as it was", opened).await?;
    let abandon = |draft: &mut Draft<'_>| draft.abandon("on the command line");
    app.change(&plan, "aborted", abandon).await?;
    // A daemon of this plan does it; one of another plan keeps the folder, and a later `resume` of this one does.
    if app.daemon().is_none() {
        let why = "only what is left is done".to_owned();
        let prepared = app.prepare(&Planner::Rules { why })?;
        let lock = app.take(None).await?;
        let head = app.found(&plan).await?.head;
        daemon::end_left_behind(&app.volumes).await;
        let first = PlanAtWork {
            settings: app.settings(&prepared, &head, HumanWait::Leave),
            end_workers: Box::new(|| Box::pin(async {})),
        };
        let folder = app.folder_settings(&lock, EndsWhen::FirstEnds);
        let shutdown = async {
            process.ended.await;
        };
        let store = app.store().await?.clone();
        daemon::run(folder, Some(first), None, store, app.clock, shutdown).await?;
    }
    let (program, kept) = (
        &app.program,
        "agents at work are asked to stop, their work stays",
    );
    let shows =
        format!("`{program} status {plan}`, `log {plan}` and `diff {plan}` go on showing it");
    let said = format!("plan {plan} has ended for good; {kept}\n{shows}");
    process.output.line(&said)?;
    Ok(Exit::Done)
}

impl App {
    /// Returns the only unfinished plan, once the person has agreed: what cannot be undone is done to none unnamed.
    async fn plan_to_abort(&self) -> Result<PlanId> {
        let plan = self.only_unfinished_plan().await?;
        let goal = self.read(&plan, |plan, _| one_line(&plan.head().name, 60));
        let what = format!("plan {plan} · {}", goal.await?);
        if !can_ask() {
            let failure = Failure::usage(anyhow!("which plan is to end for good?"));
            return Err(failure.hint(format!("`{} abort {plan}` ends {what}", self.program)));
        }
        match confirm(&format!("End {what} for good?")).await? {
            true => Ok(plan),
            false => Err(Failure::failed(anyhow!("the plan is as it was"))),
        }
    }
}

/// A daemon: the one that `--detach` leaves behind for a plan, or one for all that is queued.
pub async fn daemon(args: DaemonArgs, process: Process<'_>) -> Result<Exit> {
    match (&args.plan, &args.confirmed) {
        (Some(plan), Some(confirmed)) => daemon_of(plan, confirmed, &args, process).await,
        _ => daemon_of_queue(&args, process).await,
    }
}

/// Carries out what is queued: until every plan has ended, without a terminal, or until it is stopped.
async fn daemon_of_queue(args: &DaemonArgs, mut process: Process<'_>) -> Result<Exit> {
    let rest = args.rest;
    let handed = match rest {
        true => {
            detach::leave_terminal();
            detach::handed_over()?
        }
        false => None,
    };
    let opened = async {
        let app = App::open(process.start, Access::Run).await?;
        let left = match rest {
            true => Vec::new(),
            false => queued_plans::end_other_version(&app).await?,
        };
        let lock = app.take(handed).await?;
        app.log()?;
        for plan in left {
            queued_plans::queue_left(&plan, process.start, &app).await;
        }
        Ok((app, lock))
    };
    let (app, lock) = unless(&mut process.ended, "nothing was begun", opened).await?;
    daemon::end_left_behind(&app.volumes).await;
    let (ends_when, root) = match rest {
        true => (EndsWhen::AllEnded, None),
        false => (EndsWhen::Stopped, Some(app.config.root())),
    };
    if let Some(root) = root {
        complain(&format!(
            "carrying out the plans that are queued in `{}`; Ctrl-C ends\n",
            root.display()
        ));
    }
    let _page = match args.web {
        true => Some(web::beside(process.start, app.store().await?).await),
        false => None,
    };
    let mut exit = None;
    let ended = daemon::run(
        app.folder_settings(&lock, ends_when),
        None,
        Some(queued_plans::take_up(&app).await?),
        app.store().await?.clone(),
        app.clock,
        async { exit = Some(process.ended.await) },
    );
    let end = ended.await?;
    Ok(exit_of(&end, exit))
}

/// The daemon that `--detach` leaves behind: no terminal, waits for answers.
async fn daemon_of(
    plan: &str,
    confirmed: &str,
    args: &DaemonArgs,
    mut process: Process<'_>,
) -> Result<Exit> {
    detach::leave_terminal();
    let kept = "the plan goes on with the next daemon";
    let opened = async {
        let mut app = App::open(process.start, Access::Run).await?;
        let lock = app.take(detach::handed_over()?).await?;
        let plan = app.plan_to_carry_out(Some(plan)).await?;
        let mut how = CarryOut::default();
        app.recall(&plan, &mut how).await?;
        app.load_team(&how.team).await?;
        app.require_same(confirmed).await?;
        let workers = TeamWorkers::choose(&how.agent, &mut app).await?;
        let planner = app.planner(workers.general.as_ref())?;
        let found = app.found(&plan).await?;
        app.check_team(&found)?;
        let work = Work {
            prepared: app.prepare(&planner)?,
            workers,
            lock,
            app,
        };
        Ok((work, found.head))
    };
    let (work, head) = unless(&mut process.ended, kept, opened).await?;
    // Before it says that it works: who started it then finds the address.
    let _page = match args.web {
        true => Some(web::beside(process.start, work.app.store().await?).await),
        false => None,
    };
    work.unseen(&head, kept, process.ended).await
}

/// Takes commands and runs an agent for each.
pub async fn worker(args: WorkerArgs, mut process: Process<'_>) -> Result<Exit> {
    let opened = async {
        let mut app = App::open(process.start, Access::Run).await?;
        app.load_sound_team(&args.team).await?;
        app.require_trust(true).await?;
        app.quiet()?;
        let options = worker_pools::alone(&args, &app).await?;
        Ok((app, options))
    };
    let (app, mut options) = unless(&mut process.ended, "no command was taken", opened).await?;
    let (events, received) = mpsc::unbounded_channel();
    options.events = Some(events);
    let of_role = match &options.role {
        RoleFilter::Only(role) => format!(" of `{role}`"),
        _ => String::new(),
    };
    let root = app.config.root();
    complain(&format!(
        "taking commands{of_role} in `{}`; Ctrl-C ends\n",
        root.display()
    ));
    let shown = tokio::spawn(show_work(received));
    let mut exit = Exit::Done;
    let worked = worker::run(options, async { exit = process.ended.await }).await;
    // It ends with the worker, which held the other end.
    drop(shown.await);
    worked?;
    Ok(exit)
}

/// Prints what a worker does, a line for each beginning and each end.
async fn show_work(mut events: mpsc::UnboundedReceiver<WorkerEvent>) {
    let (clock, zone) = (Clock::start(), TimeZone::system());
    let mut title = String::new();
    while let Some(event) = events.recv().await {
        let ends = matches!(event, WorkerEvent::Reported(_));
        let what = match event {
            WorkerEvent::Begun(begun) => {
                title = begun;
                "begun".to_owned()
            }
            WorkerEvent::Waits { said, until } => {
                format!("{said}; it is asked again at {}", clock_time(until, &zone))
            }
            WorkerEvent::Reported(Some(status)) => format!("reported {}", status.as_str()),
            WorkerEvent::Reported(None) => "reported by the agent".to_owned(),
        };
        // A command that only ends a session was not begun.
        if !title.is_empty() {
            let time = clock_time(clock.now(), &zone);
            complain(&format!("{time} {title}: {what}\n"));
        }
        if ends {
            title.clear();
        }
    }
}

/// Stores a new plan and returns its head.
async fn create(app: &App, mut head: PlanHead, tasks: Vec<TaskSpec>) -> Result<PlanHead> {
    if let Some(options) = &head.options {
        app.confirm_options(&head.id, options);
    }
    head.origin = match tasks.is_empty() {
        true => Origin::Model,
        false => Origin::Person,
    };
    let made = app.store().await?.create(head, BY, "made", move |draft| {
        draft.created();
        if !tasks.is_empty() {
            draft.make_tasks(tasks)?;
        }
        Ok(draft.plan().head().clone())
    });
    Ok(made.await?)
}
