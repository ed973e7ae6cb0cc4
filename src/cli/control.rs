//! `answer`, `pause`, `restore`, `stop`: what a person does to a plan and to the daemon that carries it out.

use std::time::Duration;

use anyhow::{Context, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use super::answer_words::Typed;
use super::{
    AnswerArgs, App, BY, Exit, Failure, OnPlan, RestoreArgs, Result, answer_words, show_commands,
};
use crate::plan::{AnswerChoice, DAEMON, Draft, PlanId};
use crate::steering;
use crate::volumes::{DaemonInfo, DaemonLock, LockError};
use crate::wire::one_line;

/// How long a daemon may take to end: it promises one second, a busy machine may need more.
const END_WITHIN: Duration = Duration::from_secs(15);
/// How often the lock of an ending daemon is tried.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// Answers a question.
pub async fn answer(args: &AnswerArgs, app: &App) -> Result {
    let (plan, question) = app.question(args.question.as_deref()).await?;
    let note = args.note.clone().unwrap_or_default();
    let typed = match AnswerChoice::parse(&args.choice) {
        Some(choice) => Typed::Answer(choice, note),
        None => answer_words::read(&format!("{} {note}", args.choice), &question),
    };
    let no_answer = |why: String| {
        let hint = format!("`{} answer {} '?'` explains each", app.program, question.id);
        Failure::usage(anyhow!(why)).hint(hint)
    };
    let (choice, note) = match typed {
        Typed::Answer(choice, note) => (choice, note),
        Typed::Explain => {
            let note = "`--note TEXT` adds a note";
            return app.say(&answer_words::explanation(&question, note));
        }
        Typed::Edit => {
            let hint = format!("`{} edit {plan}` opens the plan", app.program);
            return Err(Failure::usage(anyhow!("`edit` is no answer")).hint(hint));
        }
        Typed::Wrong(why) => return Err(no_answer(why)),
        Typed::Nothing => return Err(no_answer("that is no answer".to_owned())),
    };
    let id = question.id;
    let answer = move |draft: &mut Draft<'_>| steering::answer(draft, &id, choice, &note, BY);
    app.say(&app.change(&plan, "answered", answer).await?)?;
    match (app.daemon(), app.program.goes_on(plan.as_str())) {
        (Some(_), _) => Ok(()),
        (None, goes_on) => app.say(&format!("No daemon works here: {goes_on}.")),
    }
}

/// Lets nothing new start in a plan.
pub async fn pause(args: &OnPlan, app: &App) -> Result {
    let plan = app.plan_to_carry_out(args.plan.as_deref()).await?;
    let pause = |draft: &mut Draft<'_>| steering::pause(draft, "on the command line");
    app.say(&app.change(&plan, "paused", pause).await?)?;
    app.say(&app.program.goes_on(plan.as_str()))
}

/// Makes a plan what it was after an earlier change.
pub async fn restore(args: &RestoreArgs, app: &App) -> Result {
    let plan = app.plan(args.on.plan.as_deref()).await?;
    let at = args.at;
    let earlier = show_commands::as_it_was(app, &plan, at).await?;
    let lock = free_of_daemons(&plan, app)?;
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

/// Keeps every daemon from a plan that none carries out.
pub fn free_of_daemons(plan: &PlanId, app: &App) -> Result<Option<DaemonLock>> {
    app.volumes.free_of_daemons(plan).map_err(|error| {
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
    let goes_on = |plan: &String| app.say(&app.program.goes_on(plan));
    plans.iter().try_for_each(goes_on)
}

/// Ends a daemon and waits until it has gone.
///
/// # Errors
/// It does not end in time.
pub async fn end(daemon: &DaemonInfo, app: &App) -> Result {
    let pid = i32::try_from(daemon.pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| anyhow!("`{}` is no process id", daemon.pid))?;
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
