//! `run`, `plan`, `resume`, and `daemon`, which `--detach` leaves behind: open what is needed, and carry a plan out.

use std::path::Path;

use anyhow::anyhow;

use super::web::Said;
use super::{
    Access, App, BY, CarryOut, CommandStart, DaemonArgs, Ended, Exit, Failure, MakePlan, Result,
    ResumeArgs, RunArgs, Wanted, Work, complain, detach, displaced, exit_of, hand_over_and_take_up,
    refuse_secret_arguments, remembered, run_terminal, unless, web,
};
use crate::daemon::{self, DaemonEnd, EndsWhen, HumanWait};
use crate::plan::{
    Origin, PlanHead, PlanId, QueueEntry, Refusal, ReviewPolicy, RunOptions, TaskSpec,
};
use crate::steering;
use crate::store::StoreError;
use crate::wire::plan_file;

/// Printed when a signal comes first.
const NO_PLAN: &str = "no plan was made";

/// Plans a goal and carries the plan out.
pub async fn run(args: RunArgs, start: &CommandStart, mut ended: Ended) -> Result<Exit> {
    let how = args.carry_out;
    let opened = async {
        refuse_secret_arguments::refuse(&how.agent.argv)?;
        let mut app = App::open(start, Access::Run).await?;
        let may_ask = run_terminal::may_ask(&how);
        let file = app.goal_file(args.goal.as_deref(), may_ask).await?;
        let wanted = Wanted {
            command: "run",
            goal: args.goal.as_deref().filter(|_| file.is_none()),
            plan: args.plan.as_deref().or(file.as_deref()),
            new: &args.new,
        };
        let workers = app.with_workers(&how).await?;
        let (mut head, tasks) = app.new_plan(&wanted, &workers.planner).await?;
        let problems = workers.tasks_without_script(&tasks);
        if !problems.is_empty() {
            let file = wanted.plan.map(|path| path.display().to_string());
            let file = file.as_deref().unwrap_or("the workflow");
            return Err(Failure::problems(file, &problems));
        }
        let project = Path::new(&head.workspace);
        app.offer_checks(project, may_ask).await?;
        let options = app.options(&how, &workers.planner, &RunOptions::default())?;
        head.options = remembered::some(options);
        app.introduce(&workers.planner).await?;
        let work = app.work(workers, how)?;
        let app = &work.app;
        let lock = match args.queue.queue {
            true => None,
            false => app.take_or_hand_over(None).await?,
        };
        if lock.is_none() {
            app.make_store().await?;
            let after = match args.queue.after.as_deref() {
                None => None,
                named => Some(app.plan_to_carry_out(named).await?),
            };
            head.queue = Some(Box::new(QueueEntry {
                after,
                priority: args.queue.priority.unwrap_or_default(),
                ..app.queue_entry(&work.workers)
            }));
        }
        if args.review {
            head.review = ReviewPolicy::Wanted;
        }
        Ok((work, lock, head, tasks))
    };
    let (work, lock, mut head, tasks) = unless(&mut ended, NO_PLAN, Box::pin(opened)).await?;
    let (app, how) = (&work.app, &work.how);
    unless(&mut ended, NO_PLAN, work.decide_isolation(&mut head)).await?;
    let head = create(app, head, tasks).await?;
    let _page = web::beside(how.web && !how.detach, Said::ToPerson, start, app).await?;
    match lock {
        Some(lock) => {
            app.refuse_beside_left_agent(&head).await?;
            app.warn_of_stopped_plan(&head.id).await?;
            Box::pin(work.in_sight(lock, &head, ended)).await
        }
        None if args.queue.queue || how.detach => say_queued(&work, &head),
        None => Box::pin(work.hand_over((head, 0), ended)).await,
    }
}

/// Says who carries a queued plan out, and what to type.
fn say_queued(Work { app, how, .. }: &Work, head: &PlanHead) -> Result<Exit> {
    let (plan, program) = (&head.id, &app.program);
    let who = match app.daemon() {
        Some(pid) => format!("the daemon of this folder (pid {pid}) carries it out"),
        None => format!("no daemon works here yet: `{program} daemon` carries it out"),
    };
    app.say(&format!(
        "plan {plan} is queued; {who}\n`{program} plans` shows the queue, `{program} status {plan}` how far it is"
    ))?;
    if how.web {
        app.say(&web::where_served(app))?;
    }
    Ok(Exit::Done)
}

/// Makes a plan for a goal, or of a workflow, and shows it.
pub async fn plan(args: MakePlan, start: &CommandStart, mut ended: Ended) -> Result<Exit> {
    let wanted = Wanted {
        command: "plan",
        goal: args.goal.as_deref(),
        plan: None,
        new: &args.new,
    };
    let how = CarryOut {
        team: args.team,
        ..CarryOut::default()
    };
    let opened = async {
        let mut app = App::open(start, Access::Run).await?;
        app.goal_file(wanted.goal, false).await?;
        app.load_sound_team(&how.team).await?;
        app.require_trust(!args.json).await?;
        let planner = app.planner(None)?;
        let (mut head, tasks) = app.new_plan(&wanted, &planner).await?;
        // Nothing is started, but the call counts against the budget.
        head.policy = app.config.policy(&planner);
        head.options = remembered::some(app.options(&how, &planner, &RunOptions::default())?);
        if tasks.is_empty() {
            app.introduce(&planner).await?;
        }
        let prepared = app.prepare(&planner)?;
        let lock = app.take(None).await?;
        Ok((app, prepared, lock, (head, tasks)))
    };
    let (app, prepared, lock, (head, tasks)) = unless(&mut ended, NO_PLAN, opened).await?;
    let asks = tasks.is_empty();
    let head = create(&app, head, tasks).await?;
    let (store, plan) = (app.store().await?, &head.id);
    let resume = format!("`{} resume {plan}`", app.program);
    if asks {
        let settings = app.settings(&prepared, &head, HumanWait::Leave, store.clone());
        let kept = format!("the goal is kept: {resume} asks again");
        unless(&mut ended, &kept, async {
            let made = daemon::make_plan(&settings).await;
            made.map_err(|error| Failure::failed(error).hint(&kept))
        })
        .await?;
    }
    drop(lock);
    if args.json {
        let rows = store.read(plan, |plan, _| plan.rows().collect::<Vec<_>>());
        app.out.json(&rows.await?)?;
    } else {
        let text = store.read(plan, |plan, _| plan_file::render(plan));
        app.out.text(&text.await?)?;
        let no_agent = app.team.is_none() && app.config.worker.agent.is_empty();
        let resume = match no_agent {
            true => format!("`{} resume {plan} --agent NAME`", app.program),
            false => resume,
        };
        complain!("\n{resume} carries it out.");
    }
    Ok(Exit::Done)
}

/// Goes on with an unfinished plan; of one that has ended, finishes what a crash may have left undone.
pub async fn resume(args: ResumeArgs, start: &CommandStart, mut ended: Ended) -> Result<Exit> {
    let (named, mut how) = (args.on.plan.as_deref(), args.carry_out);
    let goes_on = start.program().goes_on(named.unwrap_or_default(), None);
    let opened = async {
        refuse_secret_arguments::refuse(&how.agent.argv)?;
        let mut app = App::open(start, Access::Run).await?;
        // Nothing is made in a folder without plans.
        let plan = app.plan_to_carry_out(named).await?;
        Box::pin(app.take_over(&plan, args.here, &how)).await?;
        // What a person pauses from now on stays paused.
        let rests = app.read(&plan, |plan, _| plan.stays_paused()).await?;
        let before = app.recall(&plan, &mut how).await?;
        let workers = app.with_workers(&how).await?;
        Ok((app.work(workers, how)?, plan, before, rests))
    };
    let (work, plan, before, rests) = unless(&mut ended, &goes_on, opened).await?;
    let (app, workers, how) = (&work.app, &work.workers, &work.how);
    if app.is_carried_out(&plan)
        && let Some(said) = go_on(app, &plan).await?
    {
        app.say(&said)?;
        return Ok(Exit::Done);
    }
    let lock = unless(&mut ended, &goes_on, app.take_or_hand_over(Some(&plan))).await?;
    let mut found = app.found(&plan).await?;
    app.check_found(&found).await?;
    unless(&mut ended, &goes_on, work.resume_isolation(&mut found)).await?;
    if !found.head.status.settled() {
        if let (true, Some(agent)) = (workers.is_empty(), &before.agent) {
            app.give_back(&plan, agent).await?;
        }
        let options = app.options(how, &workers.planner, &before)?;
        let line = work.goes_on_with(&found.head, &options);
        match how.json {
            true => complain!("{line}"),
            false => app.say(&line)?,
        }
        app.introduce(&workers.planner).await?;
        app.remember(&plan, options, &before).await?;
    }
    let _page = web::beside(how.web && !how.detach, Said::ToPerson, start, app).await?;
    if let Some(lock) = lock {
        app.refuse_beside_left_agent(&found.head).await?;
        if rests {
            go_on(app, &plan).await?;
        }
        // With this process, and not after it.
        if found.head.queue.is_some() {
            app.set_queue(&plan, None).await?;
        }
        return Box::pin(work.in_sight(lock, &found.head, ended)).await;
    }
    let before = found.head.queue.map(|entry| *entry).unwrap_or_default();
    let entry = QueueEntry {
        after: before.after,
        priority: before.priority,
        ..app.queue_entry(workers)
    };
    let since = app.read(&plan, |_, seq| seq).await?;
    if !found.head.status.settled() {
        app.set_queue(&plan, Some(entry)).await?;
        go_on(app, &plan).await?;
    }
    let head = app.found(&plan).await?.head;
    match how.detach && !head.status.settled() {
        true => say_queued(&work, &head),
        false => Box::pin(work.hand_over((head, since), ended)).await,
    }
}

/// Lets a paused plan go on that a daemon carries out or is to; `None` if the plan is not paused.
///
/// # Errors
/// A limit of its budget keeps it from going on.
async fn go_on(app: &App, plan: &PlanId) -> Result<Option<String>> {
    let store = app.store().await?;
    let why = match store.change(plan, BY, "resumed", steering::go_on).await {
        Err(StoreError::Refused(Refusal::Stopped(why))) => why,
        Err(StoreError::Refused(Refusal::PlanIs(_))) => return Ok(None),
        said => return Ok(Some(said?)),
    };
    let (error, program) = (anyhow!("plan `{plan}` is paused: {why}"), &app.program);
    let stop = format!(
        "`{program} stop`, raise it in config.toml (or where you named it: in PLAN_AGENT_BUDGET_…), and resume"
    );
    let hint = format!("`{program} answer more` goes on, or {stop}");
    Err(Failure::new(error, Exit::Budget).hint(hint))
}

/// A daemon: the one that `run` leaves behind without a terminal, for a plan or for those that are queued, until all have ended; or
/// one for all that is queued, until it is stopped.
pub async fn daemon(args: DaemonArgs, start: &CommandStart, mut ended: Ended) -> Result<Exit> {
    let behind = args.rest || args.plan.is_some();
    let (ends_when, said, kept) = match behind {
        true => (EndsWhen::AllEnded, Said::ToLog, "the next daemon goes on"),
        false => (EndsWhen::Stopped, Said::ToPerson, "nothing was begun"),
    };
    let mut handed = None;
    if behind {
        detach::leave_terminal();
        handed = detach::handed_over()?;
    }
    let opened = async {
        let app = App::open(start, Access::Run).await?;
        if !behind {
            hand_over_and_take_up::end_other_version(&app, start).await?;
        }
        let lock = app.take(handed).await?;
        let (Some(plan), Some(confirmed)) = (&args.plan, &args.confirmed) else {
            return Ok((app, lock, None));
        };
        let plan = app.plan_to_carry_out(Some(plan)).await?;
        let work = app
            .clone()
            .recalled(&plan, (confirmed, false), CarryOut::default());
        let work = work.await?;
        let found = work.app.found(&plan).await?;
        work.app.check_team(&found)?;
        Ok((app, lock, Some((work, found.head))))
    };
    let (app, lock, first) = unless(&mut ended, kept, Box::pin(opened)).await?;
    let app = first.as_ref().map_or(&app, |(work, _)| &work.app);
    if !behind {
        complain!(
            "carrying out the plans that are queued in `{}`; Ctrl-C ends",
            app.config.root().display()
        );
    }
    // Before it says that it works: who started it then finds the address.
    let _page = web::beside(args.web, said, start, app).await?;
    let begun = async {
        app.begin_daemon().await?;
        match &first {
            Some((work, head)) => work.start(head, HumanWait::Wait).await.map(Some),
            None => Ok(None),
        }
    };
    let at_work = unless(&mut ended, kept, Box::pin(begun)).await?;
    let mut exit = None;
    let shutdown = async {
        let signal = exit.insert(ended.await);
        tracing::info!(exit = ?signal, "asked to stop");
    };
    let folder = app.folder_settings(&lock, ends_when).await?;
    let end = daemon::run(folder, at_work, shutdown).await;
    if let Some((_, head)) = &first {
        app.leave_word(&lock, &head.id, &end);
    }
    let end = end?;
    if let DaemonEnd::Displaced(file) = &end {
        complain!(
            "error: {}\nHint: `{} daemon` goes on with what is there, once no other daemon has the folder",
            displaced(file),
            app.program
        );
    }
    Ok(exit_of(&end, exit))
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
    head.project = app.config.project_in(Path::new(&head.workspace));
    let made = app.store().await?.create(head, BY, "made", move |draft| {
        draft.created();
        if !tasks.is_empty() {
            draft.make_tasks(tasks)?;
        }
        Ok(draft.plan().head().clone())
    });
    Ok(made.await?)
}
