//! `pause`, `restore`, `stop`, `abort`: what a person does to a plan and to the daemon that carries it out.

use std::time::Duration;

use anyhow::{Context, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use super::{
    AbortArgs, Access, App, CommandStart, Ended, Exit, Failure, OnPlan, RestoreArgs, Result,
    can_ask, complain, confirm, show_commands, unless,
};
use crate::config::Planner;
use crate::daemon::{self, EndsWhen, FolderSettings, HumanWait, PlanAtWork};
use crate::plan::{DAEMON, Draft, PlanId};
use crate::steering;
use crate::volumes::{CommandPlace, DaemonInfo, DaemonLock, LockError};
use crate::wire::one_line;
use crate::worker;

/// How long a daemon may take to end: it promises one second, a busy machine may need more.
const END_WITHIN: Duration = Duration::from_secs(15);
/// How often the lock of an ending daemon is tried.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// Lets nothing new start in a plan.
pub async fn pause(args: &OnPlan, app: &App) -> Result {
    let plan = app.plan_to_change(args.plan.as_deref()).await?;
    let pause = |draft: &mut Draft<'_>| steering::pause(draft, "on the command line");
    app.say(&app.change(&plan, "paused", pause).await?)?;
    let home = app.elsewhere(&plan).await?.map(|(home, _)| home);
    app.say(&app.program.goes_on(plan.as_str(), home.as_deref()))
}

/// Makes a plan what it was after an earlier change.
pub async fn restore(args: &RestoreArgs, app: &App) -> Result {
    let plan = app.plan(args.on.plan.as_deref()).await?;
    let at = args.at;
    let earlier = show_commands::as_it_was(app, &plan, at).await?;
    let lock = free_of_daemons(&plan, app).await?;
    let why = format!("restored to change {at}");
    let restored = app.change(&plan, &why, move |draft| {
        draft.restore(&earlier, at)?;
        Ok(draft.plan().head().owner.clone())
    });
    let owner = restored.await?;
    drop(lock);
    let said = format!("plan {plan} is as it was after change {at}");
    match owner == DAEMON {
        true => app.report(&plan, &said).await,
        false => app.say(&said),
    }
}

/// Keeps every daemon from a plan that none carries out. One of another folder is no matter of the lock here.
pub async fn free_of_daemons(plan: &PlanId, app: &App) -> Result<Option<DaemonLock>> {
    if app.elsewhere(plan).await?.is_some() {
        return Ok(None);
    }
    let has_ended = app.read(plan, |plan, _| plan.status().settled()).await?;
    app.volumes
        .free_of_daemons(plan, has_ended)
        .map_err(|error| {
            let busy = matches!(error, LockError::CarriedOut { .. });
            Failure::new(error, Exit::Busy).hint_if(busy, format!("`{} stop` ends it", app.program))
        })
}

/// Ends the daemon and waits until it has gone. Its plan can be resumed.
pub async fn stop(app: &App) -> Result {
    let volumes = &app.volumes;
    let root = one_line(&volumes.root().display().to_string(), usize::MAX);
    let Some(daemon) = volumes.running() else {
        return app.say(&format!("no daemon works in `{root}`"));
    };
    end(&daemon, app).await?;
    app.say(&format!("the daemon (pid {}) has ended", daemon.pid))?;
    let plans = daemon.plans.unwrap_or_default();
    let goes_on = |plan: &String| app.say(&app.program.goes_on(plan, None));
    plans.iter().try_for_each(goes_on)
}

/// Ends a daemon and waits until it has gone.
///
/// # Errors
/// It does not end in time.
pub async fn end(daemon: &DaemonInfo, app: &App) -> Result {
    let pid = i32::try_from(daemon.pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| anyhow!("`{}` is no process id", daemon.pid))?;
    app.warn_of_suspended_daemon();
    // The lock says that the process still lives, so that no stranger with its id is meant.
    kill_process(pid, Signal::TERM)
        .with_context(|| format!("cannot end the daemon (pid {})", daemon.pid))?;
    let deadline = Instant::now() + END_WITHIN;
    while app.daemon() == Some(daemon.pid) {
        if Instant::now() > deadline {
            let (pid, within) = (daemon.pid, END_WITHIN.as_secs());
            let error = anyhow!("the daemon (pid {pid}) has not ended within {within} s");
            let hint = format!("`kill -9 {pid}` ends it; nothing is lost by that");
            return Err(Failure::failed(error).hint(hint));
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
    Ok(())
}

/// Ends a plan for good. Without a daemon this process does what is left to do: takes commands back, stops agents.
pub async fn abort(args: AbortArgs, start: &CommandStart, mut ended: Ended) -> Result<Exit> {
    let opened = async {
        let mut app = App::open(start, Access::Control).await?;
        app.hooks_if_trusted().await;
        let plan = match &args.plan {
            Some(_) => app.plan_to_carry_out(args.plan.as_deref()).await?,
            None => app.plan_to_abort().await?,
        };
        Ok((app, plan))
    };
    let (app, plan) = unless(&mut ended, "the plan is as it was", opened).await?;
    let abandon = |draft: &mut Draft<'_>| draft.abandon("on the command line");
    if let Err(failure) = app.change(&plan, "aborted", abandon).await {
        // It has ended already, but perhaps not all that worked for it.
        let over = app.found(&plan).await?.head.status.settled();
        if !over || end_left_agents(&app, &plan).await? == 0 {
            return Err(failure);
        }
        app.say(&format!(
            "plan {plan} had ended; what still worked for it has, too"
        ))?;
        return Ok(Exit::Done);
    }
    let left = end_here(&app, &plan, ended).await?;
    let usual = "agents at work are asked to stop";
    let left = left.as_deref().unwrap_or(usual);
    app.say(&format!(
        "plan {plan} has ended for good; {left}, their work stays\n\
         `{} status {plan}`, `log {plan}` and `diff {plan}` go on showing it",
        app.program
    ))?;
    Ok(Exit::Done)
}

/// Does what is left to do of a plan that was aborted, where no daemon works that does it. Returns who does it for a plan of another
/// folder.
///
/// # Errors
/// As [`daemon::run`], or the folder cannot be used.
pub async fn end_here(app: &App, plan: &PlanId, ended: Ended) -> Result<Option<String>> {
    if let Some((home, at_work)) = app.elsewhere(plan).await? {
        return Ok(Some(match at_work {
            true => format!("its daemon at {home} asks agents at work to stop"),
            false => {
                format!("it belongs to {home}, where the next daemon asks agents at work to stop")
            }
        }));
    }
    // A daemon of this plan does it. One of other plans does it, too, but for those who work by hand: nothing shows it that they do.
    if app.daemon().is_some() && !app.is_carried_out(plan) {
        let locked = app.volumes.locked()?;
        for id in app.read(plan, |plan, _| plan.recalled_commands()).await? {
            let taken = app.volumes.whereabouts(&id)? == CommandPlace::Processed;
            if taken && !locked.contains(&id) {
                app.volumes.recall(&id)?;
                let why = "the plan has ended";
                app.change(plan, why, move |draft| draft.recalled(&id))
                    .await?;
            }
        }
    } else if app.daemon().is_none() {
        let why = "only what is left is done".to_owned();
        let prepared = app.prepare(&Planner::Rules { why })?;
        let lock = app.take(None).await?;
        let head = app.found(plan).await?.head;
        daemon::end_left_behind(&app.volumes).await;
        let store = app.carry_out(plan).await?;
        let first = PlanAtWork {
            settings: app.settings(&prepared, &head, HumanWait::Leave, store),
            end_workers: Box::new(|| Box::pin(async {})),
            end_roles: Box::new(|| Box::pin(async {})),
        };
        let folder = FolderSettings {
            take_up: None,
            ..app.folder_settings(&lock, EndsWhen::FirstEnds).await?
        };
        let shutdown = async { _ = ended.await };
        daemon::run(folder, Some(first), shutdown).await?;
    }
    end_left_agents(app, plan).await?;
    Ok(None)
}

/// Ends the agents that a killed daemon left at work on a plan, which no worker asks to stop. Returns how many.
async fn end_left_agents(app: &App, plan: &PlanId) -> Result<usize> {
    let (store, mut left) = (app.store().await?, Vec::new());
    for id in app.volumes.locked()? {
        if daemon::plan_that_awaits(store, &id).await?.as_ref() == Some(plan) {
            left.push(id);
        }
    }
    let (ended, failed) = worker::end_left_agents(&app.volumes, &left).await;
    for error in failed {
        complain!("! {error}");
    }
    Ok(ended)
}

impl App {
    /// Returns the only unfinished plan, once the person has agreed: what cannot be undone is done to none unnamed.
    async fn plan_to_abort(&self) -> Result<PlanId> {
        let plan = self.only_unfinished_plan().await?;
        let goal = self.read(&plan, |plan, _| one_line(&plan.head().name, 60));
        let home = self.elsewhere(&plan).await?;
        let of = home.map_or(String::new(), |(home, _)| format!(" of {home}"));
        let what = format!("plan {plan}{of} · {}", goal.await?);
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
