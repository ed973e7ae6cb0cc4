//! `tell`, `retry`, `skip`, `done`, `add`: what a person does to single tasks while a plan is carried out.

use anyhow::anyhow;

use super::args::{AddArgs, RetryArgs, SettleArgs, TellArgs};
use super::control::free_of_daemons;
use super::{App, BY, Exit, Failure, Output, Result, can_ask, confirm};
use crate::agents::CodingAgent;
use crate::bounded_read;
use crate::plan::{
    AttemptState, Criteria, Draft, Origin, Plan, PlanId, PlanState, Refusal, Task, TaskId, TaskRef,
    TaskSpec, TaskState, counted,
};
use crate::store::StoreError;
use crate::view::ProgramName;
use crate::volumes::DaemonLock;
use crate::wire::plan_file::nearest;
use crate::wire::text::one_line;

/// The longest name of a task that is made of a person's words.
const NAME: usize = 120;
/// The most that is read of the lock of a command.
const LONGEST: usize = 1024;
const WITHOUT_NOW: &str = "without --now your words go along with the next command of the task";

/// Says something to the agent of a task.
pub async fn tell(args: &TellArgs, app: &App, output: &mut Output) -> Result {
    let (plan, id, words) = (args.meant()).map_err(|error| Failure::usage(anyhow!(error)))?;
    let (words, now) = (words.to_owned(), args.now);
    let plan = app.plan_to_carry_out(plan).await?;
    if now {
        can_be_cut_off(app, &plan, id).await?;
    }
    let change = move |draft: &mut Draft<'_>| {
        let (plan, before) = (draft.plan(), found(draft.plan(), id)?.clone());
        let claimed = (plan.current_attempt(&before)).is_some_and(|it| it.claimed.is_some());
        let works = plan.at_work(&before);
        let new = draft.tell(id, &words, now)?;
        let along = format!("task {id}: your words go along with its next command");
        let (attempt, is) = (before.attempts, format!("task {id}: its agent is stopped"));
        Ok(match (new || now, works) {
            (false, _) => format!("task {id} has these words already"),
            (_, true) if now && claimed => {
                format!("{is}, and goes on in its session with your words")
            }
            (_, true) if now => format!("task {id} gets another command, with your words"),
            (_, true) => format!("{along}; attempt {attempt} began without them"),
            (_, false) => along,
        })
    };
    app.apply(&plan, None, "said", change, output).await
}

/// Has a task tried again.
pub async fn retry(args: &RetryArgs, app: &App, output: &mut Output) -> Result {
    let (id, words) = (args.on.task, trimmed(&args.note));
    let plan = app.plan_to_carry_out(args.on.plan.as_deref()).await?;
    let read = app.read(&plan, move |plan, _| {
        let ended = plan.status() == &PlanState::Abandoned;
        (plan.opens_again(id), ended)
    });
    let (again, ended) = read.await?;
    if !again.is_empty() && !args.yes && !ended {
        let relying = tasks(&again, "rely");
        let what = format!("{relying} on task {id} and would open again");
        if !can_ask() {
            let failure = Failure::new(anyhow!(what), Exit::Waiting);
            return Err(failure.hint("add --yes if they may"));
        }
        if !confirm(&format!("{what}. Go on?")).await? {
            return Err(Failure::failed(anyhow!("nothing was changed")));
        }
    }
    let lock = app.free_if_over(&plan).await?;
    let why = if words.is_empty() {
        "tried again"
    } else {
        &words
    };
    let why = why.to_owned();
    let change = move |draft: &mut Draft<'_>| {
        let before = found(draft.plan(), id)?.clone();
        if draft.plan().opens_again(id) != again {
            return Err(Refusal::Outdated);
        }
        let works = draft.plan().at_work(&before);
        draft.retry_task(id, &words)?;
        let (plan, attempt) = (draft.plan(), before.attempts);
        let task = plan.task(id).unwrap_or(&before);
        let has = |what| if words.is_empty() { "" } else { what };
        Ok(if works {
            let along = has("; your words go along with the next one");
            format!("task {id} is being tried: attempt {attempt}{along}")
        } else if before == *task || attempt == 0 {
            let (waits, along) = (waits(plan, task), has(", and has your words"));
            format!("task {id} has not been tried yet: {waits}{along}")
        } else {
            let also = match again.as_slice() {
                [] => String::new(),
                again => format!("; {} again, too", tasks(again, "open")),
            };
            format!("task {id} is tried again{}{also}", attempts(plan, task))
        })
    };
    app.apply(&plan, lock, &why, change, output).await
}

/// Leaves a task out.
pub async fn skip(args: &SettleArgs, app: &App, output: &mut Output) -> Result {
    app.settle(args, TaskState::Skipped, output).await
}

/// Completes a task because the person says that it is done.
pub async fn done(args: &SettleArgs, app: &App, output: &mut Output) -> Result {
    app.settle(args, TaskState::Completed, output).await
}

/// Adds a task.
pub async fn add(args: &AddArgs, app: &App, output: &mut Output) -> Result {
    let plan = app.plan_to_carry_out(args.plan.as_deref()).await?;
    let known = &app.config.checks;
    if let Some(check) = args.checks.iter().find(|check| !known.contains_key(*check)) {
        let shown = one_line(check, NAME);
        let hint = match nearest(check, known.keys().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("define it in config.toml: [checks] {shown} = {{ run = [\"…\"] }}"),
        };
        return Err(Failure::usage(anyhow!("there is no check `{shown}`")).hint(hint));
    }
    if let Some(role) = &args.assignee {
        app.check_role(&plan, role).await?;
    }
    let task = TaskSpec {
        name: one_line(args.text.lines().next().unwrap_or_default(), NAME),
        description: args.text.clone(),
        criteria: Criteria::plain(args.expected.clone().unwrap_or_default()),
        assignee: args.assignee.clone(),
        dependencies: args.after.iter().copied().map(TaskRef::Number).collect(),
        checks: args.checks.clone(),
        origin: Origin::Person,
        ..TaskSpec::default()
    };
    let lock = app.free_if_over(&plan).await?;
    let before = args.before;
    let change = move |draft: &mut Draft<'_>| {
        let id = draft.add_by_hand(task, before)?;
        let plan = draft.plan();
        let waits = waits(plan, found(plan, id)?);
        let place = before.map_or(String::new(), |before| format!(" before task {before}"));
        Ok(format!("task {id} is added{place}: {waits}"))
    };
    app.apply(&plan, lock, "added", change, output).await
}

impl App {
    async fn settle(&self, args: &SettleArgs, state: TaskState, output: &mut Output) -> Result {
        let (id, words) = (args.on.task, trimmed(&args.note));
        let plan = self.plan_to_carry_out(args.on.plan.as_deref()).await?;
        let done = state == TaskState::Completed;
        let usual = if done { "done" } else { "skipped" };
        let why = if words.is_empty() { usual } else { &words };
        let why = why.to_owned();
        let change = move |draft: &mut Draft<'_>| {
            found(draft.plan(), id)?;
            let stops = stops(draft.plan(), id);
            let new = match done {
                true => draft.complete_by_hand(id, &words)?,
                false => draft.skip_by_hand(id, &words)?,
            };
            let plan = draft.plan();
            if !new {
                return Ok(format!("task {id} is {} already", state.as_str()));
            }
            let aside = plan.head().line.is_some() && plan.attempts_of(id).next().is_some();
            let is = match (done, aside) {
                (false, _) => format!("skipped{stops}"),
                (true, false) => format!("done by hand{stops}"),
                (true, true) => {
                    format!("done by hand{stops}; what agents did in its worktree is not merged")
                }
            };
            Ok(format!("task {id} is {is}{}", frees(plan, id)))
        };
        self.apply(&plan, None, &why, change, output).await
    }

    async fn apply(
        &self,
        plan: &PlanId,
        lock: Option<DaemonLock>,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<String, Refusal> + Send + 'static,
        output: &mut Output,
    ) -> Result {
        let said = self.steer(plan, why, change).await?;
        drop(lock);
        self.report(plan, &said, output).await
    }

    /// Changes a plan for the person; what is refused says what to do instead.
    pub async fn steer<T: Send + 'static>(
        &self,
        plan: &PlanId,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T> {
        let changed = self.store().await?.change(plan, BY, why, change).await;
        changed.map_err(|error| match error {
            StoreError::Refused(refusal) => match way_out(&refusal, plan, &self.program) {
                Some(hint) => Failure::from(refusal).hint(hint),
                None => refusal.into(),
            },
            error => error.into(),
        })
    }

    /// Says what came of a change, and what has to happen before the plan goes on, if anything.
    pub async fn report(&self, plan: &PlanId, said: &str, output: &mut Output) -> Result {
        output.line(said)?;
        let status = self.read(plan, |plan, _| plan.status().clone()).await?;
        let at_work = self.is_carried_out(plan);
        let waits = match status {
            _ if status.settled() => return Ok(()),
            PlanState::Paused(_) => "The plan is paused",
            _ if !at_work => "No daemon works on the plan",
            _ => return Ok(()),
        };
        output.line(&format!("{waits}: {}", self.program.goes_on(plan.as_str())))
    }

    /// Keeps daemons away from a plan that has ended and is to go on: one that is about to end would not notice.
    async fn free_if_over(&self, plan: &PlanId) -> Result<Option<DaemonLock>> {
        match self.read(plan, |plan, _| plan.status().settled()).await? {
            true => free_of_daemons(plan, self),
            false => Ok(None),
        }
    }

    /// Refuses a role that no member of the plan's team has.
    pub async fn check_role(&self, plan: &PlanId, role: &str) -> Result {
        let roles =
            |plan: &Plan, _| -> Vec<String> { plan.head().policy.roles.keys().cloned().collect() };
        let roles = self.read(plan, roles).await?;
        if roles.is_empty() || roles.iter().any(|known| known == role) {
            return Ok(());
        }
        let error = anyhow!("the team has no role `{}`", one_line(role, NAME));
        Err(Failure::usage(error).hint(format!("its roles are {}", roles.join(", "))))
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
        Some(agent) => format!("the agent `{}`", one_line(agent, NAME)),
        None => "the agent at work".to_owned(),
    };
    let error = anyhow!("{who} cannot go on where it is cut off: task `{id}` would begin anew");
    Err(Failure::failed(error).hint(WITHOUT_NOW))
}

fn trimmed(note: &Option<String>) -> String {
    note.as_deref().unwrap_or_default().trim().to_owned()
}

fn found(plan: &Plan, id: TaskId) -> Result<&Task, Refusal> {
    let task = plan.task(id);
    task.ok_or_else(|| Refusal::UnknownTask(id.to_string()))
}

/// Returns `, up to 3 attempts before you are asked` for a task that is tried again.
pub fn attempts(plan: &Plan, task: &Task) -> String {
    match plan.attempts_left(task) {
        0 => ", once the budget allows an attempt".to_owned(),
        left => format!(", up to {} before you are asked", counted(left, "attempt")),
    }
}

/// Returns what a pending task waits for.
fn waits(plan: &Plan, task: &Task) -> String {
    match plan.unmet(task).as_slice() {
        [] if plan.is_ready(task) => match task.dependencies.as_slice() {
            [] => "it waits for no other task".to_owned(),
            _ => "what it comes after is done".to_owned(),
        },
        [] => "its turn has not come".to_owned(),
        unmet => format!("it waits for {}", numbers(unmet)),
    }
}

fn stops(plan: &Plan, id: TaskId) -> &'static str {
    let attempt = plan.task(id).and_then(|task| plan.current_attempt(task));
    let attempt = attempt.filter(|attempt| attempt.state == AttemptState::Open);
    match attempt.map(|attempt| attempt.claimed.is_some()) {
        Some(true) => "; its agent is asked to stop",
        Some(false) => "; its command is taken back",
        None => "",
    }
}

/// Returns which tasks may start because another one is settled.
fn frees(plan: &Plan, id: TaskId) -> String {
    let mut waiting: Vec<&Task> = plan.dependants(id).collect();
    waiting.retain(|task| task.status == TaskState::Pending && plan.unmet(task).is_empty());
    let free: Vec<TaskId> = waiting.iter().map(|task| task.number).collect();
    match free.as_slice() {
        [] => String::new(),
        free => format!("; {} for it no longer", tasks(free, "wait")),
    }
}

/// Returns tasks with what they do: `task 3 relies`, `tasks 3 and 4 rely`.
fn tasks(ids: &[TaskId], verb: &str) -> String {
    let verb = match (ids.len(), verb) {
        (1, "rely") => "relies".to_owned(),
        (1, verb) => format!("{verb}s"),
        (_, verb) => verb.to_owned(),
    };
    format!("{} {verb}", numbers(ids))
}

fn numbers(ids: &[TaskId]) -> String {
    let word = if ids.len() == 1 { "task" } else { "tasks" };
    format!("{word} {}", crate::view::numbers(ids))
}

/// Returns what the person can do instead of what was refused.
fn way_out(refusal: &Refusal, plan: &PlanId, program: &ProgramName) -> Option<String> {
    Some(match refusal {
        Refusal::UnknownTask(_) => format!("`{program} status {plan}` shows the tasks"),
        Refusal::NotEditable { task, status } if status.settled() => {
            format!(
                "`{program} retry {plan} {task}` has it tried again; --note says what is missing"
            )
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
