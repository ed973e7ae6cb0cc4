//! `tell`, `retry`, `skip`, `done`, `add`: what a person does to single tasks while a plan is carried out.

use anyhow::anyhow;

use super::plan_control::free_of_daemons;
use super::{
    AddArgs, App, BY, Exit, Failure, Result, RetryArgs, SettleArgs, TellArgs, can_ask, complain,
    confirm,
};
use crate::agents::CodingAgent;
use crate::bounded_read;
use crate::plan::{AttemptState, Draft, Plan, PlanId, PlanState, Proof, Refusal, TaskId, TaskSpec};
use crate::steering::{self, NAME};
use crate::store::StoreError;
use crate::view::ProgramName;
use crate::volumes::DaemonLock;
use crate::wire::{check_meant, criterion_text, joined, one_line};
use crate::worker;

/// The most that is read of the lock of a command.
const LONGEST: usize = 1024;
/// The agent of a worker that gives its commands to relays.
const RELAY: &str = "relay";
const WITHOUT_NOW: &str = "without --now your words go along with the next command of the task";

/// Says something to the agent of a task.
pub async fn tell(args: &TellArgs, app: &App) -> Result {
    let (plan, id, words) = (args.meant()).map_err(|error| Failure::usage(anyhow!(error)))?;
    let (words, now) = (words.to_owned(), args.now);
    let plan = app.plan_to_change(plan).await?;
    if now {
        can_be_cut_off(app, &plan, id).await?;
    }
    let change = move |draft: &mut Draft<'_>| steering::tell(draft, id, &words, now);
    app.apply(&plan, None, "said", change).await
}

/// Has a task tried again.
pub async fn retry(args: &RetryArgs, app: &App) -> Result {
    let (id, words) = (args.on.task, trimmed(&args.note));
    let plan = app.plan_to_change(args.on.plan.as_deref()).await?;
    let read = app.read(&plan, move |plan, _| {
        (plan.opens_again(id), plan.status() == &PlanState::Abandoned)
    });
    let (again, ended) = read.await?;
    if !again.is_empty() && !args.yes && !ended {
        let what = steering::opened_again(&again, id);
        if !can_ask() {
            return Err(Failure::new(anyhow!(what), Exit::Waiting).hint("add --yes if they may"));
        }
        if !confirm(&format!("{what}. Go on?")).await? {
            return Err(Failure::failed(anyhow!("nothing was changed")));
        }
    }
    let lock = app.free_if_over(&plan).await?;
    let why = match words.as_str() {
        "" => "tried again".to_owned(),
        words => words.to_owned(),
    };
    let change = move |draft: &mut Draft<'_>| steering::retry(draft, id, &words, &again);
    app.apply(&plan, lock, &why, change).await
}

/// Completes a task because the person says that it is `done`, or leaves it out.
pub async fn settle(args: &SettleArgs, done: bool, app: &App) -> Result {
    let (id, words) = (args.on.task, trimmed(&args.note));
    let plan = app.plan_to_change(args.on.plan.as_deref()).await?;
    let usual = if done { "done" } else { "skipped" };
    let why = if words.is_empty() { usual } else { &words };
    let why = why.to_owned();
    let change = move |draft: &mut Draft<'_>| steering::settle(draft, id, &words, done);
    app.apply(&plan, None, &why, change).await
}

/// Adds a task.
pub async fn add(args: &AddArgs, app: &App) -> Result {
    let plan = app.plan_to_change(args.plan.as_deref()).await?;
    let known = &app.config.checks;
    let criteria = criterion_text::read(args.expected.as_deref().unwrap_or_default());
    let criteria = criteria.map_err(|problems| {
        let why = joined(problems.into_iter().map(|problem| problem.message), "; ");
        Failure::usage(anyhow!("`--expected`: {why}"))
    })?;
    let bound = criteria.list().iter().filter_map(|one| match &one.proof {
        Some(Proof::Check(name)) => Some(name),
        Some(Proof::File(_)) | None => None,
    });
    let mut checks = args.checks.iter().chain(bound);
    if let Some(check) = checks.find(|check| !known.contains_key(*check)) {
        let shown = one_line(check, NAME);
        let hint = check_meant(check, known.keys().map(String::as_str));
        return Err(Failure::usage(anyhow!("there is no check `{shown}`")).hint(hint));
    }
    let role = args.assignee.clone();
    let unknown = move |plan: &Plan, _| steering::unknown_role(plan.head(), role.as_deref());
    if let Some(problem) = app.read(&plan, unknown).await? {
        return Err(Failure::of(problem));
    }
    let name = args.text.lines().next().unwrap_or_default();
    let task = TaskSpec {
        criteria,
        assignee: args.assignee.clone(),
        checks: args.checks.clone(),
        ..steering::task_of_words(name, &args.text, &args.after)
    };
    let lock = app.free_if_over(&plan).await?;
    let before = args.before;
    let change = move |draft: &mut Draft<'_>| steering::add(draft, task, before);
    app.apply(&plan, lock, "added", change).await
}

impl App {
    async fn apply(
        &self,
        plan: &PlanId,
        lock: Option<DaemonLock>,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<String, Refusal> + Send + 'static,
    ) -> Result {
        let changed = self.store().await?.change(plan, BY, why, change).await;
        let said = changed.map_err(|error| match error {
            StoreError::Refused(refusal) => self.refused(refusal, plan),
            error => error.into(),
        })?;
        if !self.is_carried_out(plan) && self.elsewhere(plan).await?.is_none() {
            let recalled = self.read(plan, |plan, _| plan.recalled_commands()).await?;
            if let Err(error) = worker::take_back(&self.volumes, &recalled).await {
                complain!("! {error}");
            }
        }
        drop(lock);
        self.warn_of_suspended_daemon();
        self.report(plan, &said).await
    }

    /// Returns that a change is refused, and what to do instead.
    pub fn refused(&self, refusal: Refusal, plan: &PlanId) -> Failure {
        match way_out(&refusal, plan, &self.program) {
            Some(hint) => Failure::from(refusal).hint(hint),
            None => refusal.into(),
        }
    }

    /// Says what came of a change, and what has to happen before the plan goes on, if anything.
    pub async fn report(&self, plan: &PlanId, said: &str) -> Result {
        self.say(said)?;
        let read = |plan: &Plan, _| {
            let stopped = plan.stopped_at().is_some();
            (plan.status().clone(), plan.head().queue.is_some(), stopped)
        };
        let (status, queued, stopped) = self.read(plan, read).await?;
        let (home, held) = self.elsewhere(plan).await?.unzip();
        let home = home.as_deref();
        let waits = match status {
            _ if status.settled() => return Ok(()),
            PlanState::Paused(why) if stopped => {
                let more = format!("`{} answer more` allows more", self.program);
                return self.say(&format!("The plan is paused: {why}; {more}"));
            }
            PlanState::Paused(_) => "The plan is paused",
            _ if self.is_carried_out(plan) => return Ok(()),
            _ if held == Some(true) => {
                let home = home.unwrap_or_default();
                return self.say(&format!("A daemon at {home} carries it out"));
            }
            _ if queued && home.is_none() && self.daemon().is_some() => {
                return self.say("The daemon here takes it up");
            }
            _ if queued && home.is_some() => {
                "A daemon of its folder takes it up, if one works there"
            }
            _ => "No daemon works on the plan",
        };
        let goes_on = self.program.goes_on(plan.as_str(), home);
        self.say(&format!("{waits}: {goes_on}"))
    }

    /// Keeps daemons away from a plan that has ended and is to go on: one that is about to end would not notice.
    async fn free_if_over(&self, plan: &PlanId) -> Result<Option<DaemonLock>> {
        match self.read(plan, |plan, _| plan.status().settled()).await? {
            true => free_of_daemons(plan, self).await,
            false => Ok(None),
        }
    }
}

/// Refuses to cut an agent off that could not go on afterwards: only coding agents have sessions that survive it.
async fn can_be_cut_off(app: &App, plan: &PlanId, id: TaskId) -> Result {
    let claimed = app.read(plan, move |plan, _| {
        let attempt = plan.current_attempt(plan.task(id)?)?;
        let at_work = attempt.state == AttemptState::Open && attempt.claimed.is_some();
        at_work.then(|| attempt.id.clone())
    });
    let Some(command) = claimed.await? else {
        return Ok(());
    };
    let locks = app.volumes.everywhere();
    let mut locks = locks.iter().map(|volumes| volumes.claim_lock(&command));
    let signed = locks.find_map(|lock| bounded_read::read_file(&lock, LONGEST).ok());
    let agent = signed.as_deref().and_then(|signed| signed.lines().next());
    let who = match agent {
        Some(agent) if CodingAgent::named(agent).is_some() => return Ok(()),
        // Its folder is on another machine: whether the session is known is known of the plan.
        Some(RELAY) => return Ok(()),
        None if app.elsewhere(plan).await?.is_some() => return Ok(()),
        Some(agent) => format!("the agent `{}`", one_line(agent, NAME)),
        None => "the agent at work".to_owned(),
    };
    let error = anyhow!("{who} cannot go on where it is cut off: task `{id}` would begin anew");
    Err(Failure::failed(error).hint(WITHOUT_NOW))
}

fn trimmed(note: &Option<String>) -> String {
    note.as_deref().unwrap_or_default().trim().to_owned()
}

/// Returns what the person can do instead of what was refused.
fn way_out(refusal: &Refusal, plan: &PlanId, program: &ProgramName) -> Option<String> {
    Some(match refusal {
        Refusal::UnknownTask(_) => format!("`{program} status {plan}` shows the tasks"),
        Refusal::NotEditable { task, status } if status.settled() => {
            let retry = format!("`{program} retry {plan} {task}` has it tried again");
            format!("{retry}; --note says what is missing")
        }
        Refusal::NotEditable { task, .. } => {
            format!("`{program} tell {plan} {task} \"…\"` goes along with its next command")
        }
        Refusal::NobodyWorks(_) | Refusal::NoSession(_) => WITHOUT_NOW.to_owned(),
        Refusal::Unplanned => format!("`{program} status {plan}` shows when it has"),
        Refusal::Replanning | Refusal::Outdated => {
            format!("`{program} status {plan}` shows how it is now; then try again")
        }
        Refusal::PlanIs(PlanState::Abandoned) => {
            format!("`{program} restore {plan} --at N` goes back to before its end")
        }
        Refusal::PlanIs(state) if state.settled() => {
            format!("`{program} retry {plan} N` or `{program} add {plan} \"…\"` opens it again")
        }
        _ => return None,
    })
}
