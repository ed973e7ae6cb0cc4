//! `tell`, `retry`, `skip`, `done`, `add`: what a person does to single tasks while a plan is carried out.

use std::io::{BufRead, IsTerminal, Read, stdin};

use anyhow::anyhow;

use super::args::{AddArgs, OnTask, RetryArgs, TellArgs};
use super::control::free_of_daemons;
use super::{App, BY, Exit, Failure, Output};
use crate::agents::CodingAgent;
use crate::bounded_read;
use crate::plan::{
    AttemptState, Draft, Origin, Plan, PlanId, PlanState, Refusal, Task, TaskId, TaskRef, TaskSpec,
    TaskState, counted,
};
use crate::store::StoreError;
use crate::wire::plan_file::nearest;
use crate::wire::text::one_line;

/// The longest name of a task that is made of a person's words.
const NAME: usize = 120;
/// The most that is read of the lock of a command, and of an answer.
const LONGEST: usize = 1024;

/// Says something to the agent of a task.
pub async fn tell(args: &TellArgs, app: &App, output: &mut Output) -> Result<(), Failure> {
    let (plan, id, words) = (args.meant()).map_err(|error| Failure::usage(anyhow!(error)))?;
    let (words, now) = (words.to_owned(), args.now);
    let plan = app.plan_to_carry_out(plan).await?;
    if now {
        can_be_cut_off(app, &plan, id).await?;
    }
    let change = move |draft: &mut Draft<'_>| {
        let before = found(draft.plan(), id)?.clone();
        let claimed = draft.plan().current_attempt(&before);
        let claimed = claimed.is_some_and(|attempt| attempt.claimed.is_some());
        let works = draft.plan().at_work(&before);
        let new = draft.tell(id, &words, now)?;
        Ok(match (new || now, works) {
            (false, _) => format!("task {id} has these words already"),
            (_, true) if now && claimed => format!(
                "task {id}: its agent is stopped, and goes on in its session with your words"
            ),
            (_, true) if now => format!("task {id} gets another command, with your words"),
            (_, true) => format!(
                "task {id}: your words go along with its next command; attempt {} began without them",
                before.attempts
            ),
            (_, false) => format!("task {id}: your words go along with its next command"),
        })
    };
    let said = app.steer(&plan, "said", change).await?;
    app.report(&plan, &said, output).await
}

/// Has a task tried again.
pub async fn retry(args: &RetryArgs, app: &App, output: &mut Output) -> Result<(), Failure> {
    let (id, words) = (args.task, args.note.trim().to_owned());
    let plan = app.plan_to_carry_out(args.plan.as_deref()).await?;
    let read = app.read(&plan, move |plan, _| {
        let ended = plan.status() == &PlanState::Abandoned;
        (plan.opens_again(id), ended)
    });
    let (again, ended) = read.await?;
    if !again.is_empty() && !args.yes && !ended {
        let question = format!(
            "{} on task {id} and would open again",
            tasks(&again, "rely")
        );
        confirm(&question, output)?;
    }
    let lock = app.free_if_over(&plan).await?;
    let why = Some(words.clone()).filter(|words| !words.is_empty());
    let change = move |draft: &mut Draft<'_>| {
        let before = found(draft.plan(), id)?.clone();
        if draft.plan().opens_again(id) != again {
            return Err(Refusal::Outdated);
        }
        let works = draft.plan().at_work(&before);
        draft.retry_task(id, &words)?;
        let (plan, task) = (draft.plan(), draft.plan().task(id));
        let task = task.unwrap_or(&before);
        let along = if words.is_empty() {
            ""
        } else {
            ", and has your words"
        };
        Ok(match task.status {
            _ if works && words.is_empty() => {
                format!("task {id} is being tried: attempt {}", before.attempts)
            }
            _ if works => format!(
                "task {id} is being tried: attempt {}; your words go along with the next one",
                before.attempts
            ),
            _ if before == *task || before.attempts == 0 => {
                format!(
                    "task {id} has not been tried yet: {}{along}",
                    waits(plan, task)
                )
            }
            _ => {
                let also = match again.as_slice() {
                    [] => String::new(),
                    again => format!("; {} again, too", tasks(again, "open")),
                };
                format!("task {id} is tried again{}{also}", attempts(plan, task))
            }
        })
    };
    let why = why.unwrap_or_else(|| "tried again".to_owned());
    let said = app.steer(&plan, &why, change).await?;
    drop(lock);
    app.report(&plan, &said, output).await
}

/// Leaves a task out.
pub async fn skip(args: &OnTask, app: &App, output: &mut Output) -> Result<(), Failure> {
    let change = |draft: &mut Draft<'_>, id: TaskId, words: &str| {
        let stops = stops(draft.plan(), id);
        let new = draft.skip_by_hand(id, words)?;
        Ok(match new {
            true => format!("task {id} is skipped{stops}{}", frees(draft.plan(), id)),
            false => format!("task {id} is skipped already"),
        })
    };
    app.settle_by_hand(args, "skipped", change, output).await
}

/// Completes a task because the person says that it is done.
pub async fn done(args: &OnTask, app: &App, output: &mut Output) -> Result<(), Failure> {
    let change = |draft: &mut Draft<'_>, id: TaskId, words: &str| {
        let stops = stops(draft.plan(), id);
        let new = draft.complete_by_hand(id, words)?;
        let plan = draft.plan();
        let aside = plan.head().line.is_some() && plan.attempts_of(id).next().is_some();
        let aside = match aside {
            true => "; what agents did in its worktree is not merged",
            false => "",
        };
        Ok(match new {
            true => format!(
                "task {id} is done by hand, unverified{stops}{aside}{}",
                frees(plan, id)
            ),
            false => format!("task {id} is completed already"),
        })
    };
    app.settle_by_hand(args, "done", change, output).await
}

/// Adds a task.
pub async fn add(args: &AddArgs, app: &App, output: &mut Output) -> Result<(), Failure> {
    let plan = app.plan_to_carry_out(args.plan.as_deref()).await?;
    let checks = app.config.checks.keys().map(String::as_str);
    for check in &args.checks {
        if !app.config.checks.contains_key(check) {
            let shown = one_line(check, NAME);
            let hint = match nearest(check, checks) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("define it in config.toml: [checks] {shown} = {{ run = [\"…\"] }}"),
            };
            return Err(Failure::usage(anyhow!("there is no check `{shown}`")).hint(hint));
        }
    }
    if let Some(role) = &args.assignee {
        app.check_role(&plan, role).await?;
    }
    let task = TaskSpec {
        name: one_line(args.text.lines().next().unwrap_or_default(), NAME),
        description: args.text.clone(),
        expected_outcome: args.expected.clone(),
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
        let task = found(plan, id)?;
        let place = before.map_or(String::new(), |before| format!(" before task {before}"));
        Ok(format!("task {id} is added{place}: {}", waits(plan, task)))
    };
    let said = app.steer(&plan, "added", change).await?;
    drop(lock);
    app.report(&plan, &said, output).await
}

impl App {
    async fn settle_by_hand(
        &self,
        args: &OnTask,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>, TaskId, &str) -> Result<String, Refusal> + Send + 'static,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let (id, words) = (args.task, args.note.trim().to_owned());
        let plan = self.plan_to_carry_out(args.plan.as_deref()).await?;
        let why = if words.is_empty() { why } else { &words }.to_owned();
        let change = move |draft: &mut Draft<'_>| {
            found(draft.plan(), id)?;
            change(draft, id, &words)
        };
        let said = self.steer(&plan, &why, change).await?;
        self.report(&plan, &said, output).await
    }

    /// Changes a plan for the person; what is refused says what to do instead.
    pub(super) async fn steer<T: Send + 'static>(
        &self,
        plan: &PlanId,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Failure> {
        let changed = self.store().await?.change(plan, BY, why, change).await;
        changed.map_err(|error| match error {
            StoreError::Refused(refusal) => {
                match way_out(&refusal, plan, &self.program.to_string()) {
                    Some(hint) => Failure::from(refusal).hint(hint),
                    None => refusal.into(),
                }
            }
            error => error.into(),
        })
    }

    /// Says what came of a change, and what has to happen before the plan goes on, if anything.
    pub(super) async fn report(
        &self,
        plan: &PlanId,
        said: &str,
        output: &mut Output,
    ) -> Result<(), Failure> {
        output.line(said)?;
        let status = self.read(plan, |plan, _| plan.status().clone()).await?;
        let daemon = self.volumes.running().and_then(|daemon| daemon.plan);
        let at_work = daemon.as_deref() == Some(plan.as_str());
        let waits = match status {
            _ if status.settled() => return Ok(()),
            PlanState::Paused(_) => "The plan is paused",
            _ if !at_work => "No daemon works on the plan",
            _ => return Ok(()),
        };
        output.line(&format!("{waits}: {}", self.program.goes_on(plan.as_str())))
    }

    /// Keeps daemons away from a plan that has ended and is to go on: one that is about to end would not notice.
    async fn free_if_over(
        &self,
        plan: &PlanId,
    ) -> Result<Option<crate::volumes::DaemonLock>, Failure> {
        let over = self.read(plan, |plan, _| plan.status().settled()).await?;
        match over {
            true => free_of_daemons(plan, self),
            false => Ok(None),
        }
    }

    /// Refuses a role that no member of the plan's team has.
    pub(super) async fn check_role(&self, plan: &PlanId, role: &str) -> Result<(), Failure> {
        let roles = self.read(plan, |plan, _| {
            let roles = plan.head().policy.roles.keys();
            roles.cloned().collect::<Vec<String>>()
        });
        let roles = roles.await?;
        if roles.is_empty() || roles.iter().any(|known| known == role) {
            return Ok(());
        }
        let error = anyhow!("the team has no role `{}`", one_line(role, NAME));
        Err(Failure::usage(error).hint(format!("its roles are {}", roles.join(", "))))
    }
}

/// Refuses to cut an agent off that could not go on afterwards: only coding agents have sessions that survive it.
async fn can_be_cut_off(app: &App, plan: &PlanId, id: TaskId) -> Result<(), Failure> {
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
    Err(Failure::failed(error)
        .hint("without --now your words go along with the next command of the task"))
}

/// Asks the person at the terminal.
fn confirm(what: &str, output: &mut Output) -> Result<(), Failure> {
    if !stdin().is_terminal() || !output.is_terminal() {
        return Err(Failure::new(anyhow!("{what}"), Exit::Waiting).hint("add --yes if they may"));
    }
    output.text(&format!("{what}. Go on? [y/N] "))?;
    let mut line = String::new();
    (stdin().lock().take(LONGEST as u64).read_line(&mut line)).map_err(Failure::failed)?;
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::failed(anyhow!("nothing was changed"))),
    }
}

fn found(plan: &Plan, id: TaskId) -> Result<&Task, Refusal> {
    let task = plan.task(id);
    task.ok_or_else(|| Refusal::UnknownTask(id.to_string()))
}

/// Returns `, up to 3 attempts before you are asked` for a task that is tried again.
pub(super) fn attempts(plan: &Plan, task: &Task) -> String {
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
    let waiting = plan
        .dependants(id)
        .filter(|task| task.status == TaskState::Pending && plan.unmet(task).is_empty());
    match waiting
        .map(|task| task.number)
        .collect::<Vec<_>>()
        .as_slice()
    {
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
fn way_out(refusal: &Refusal, plan: &PlanId, program: &str) -> Option<String> {
    let now = "without --now your words go along with the next command of the task";
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
        Refusal::NobodyWorks(_) | Refusal::NoSession(_) => now.to_owned(),
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
