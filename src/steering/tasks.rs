//! What a person does to single tasks.

use super::{NAME, Result};
use crate::plan::{
    Attempt, AttemptState, Criteria, Decision, Draft, Origin, Plan, Refusal, Task, TaskId, TaskRef,
    TaskSpec, TaskState, Verdict, counted,
};
use crate::view::numbered_tasks;
use crate::wire::one_line;

/// Adds a person's words to the next command of a task, and returns what is said of that. With `now`, its agent is stopped, and
/// goes on with them.
///
/// # Errors
/// As [`Draft::tell`].
pub fn tell(draft: &mut Draft<'_>, id: TaskId, words: &str, now: bool) -> Result<String> {
    let (plan, before) = (draft.plan(), found(draft.plan(), id)?.clone());
    let claimed = (plan.current_attempt(&before)).is_some_and(|it| it.claimed.is_some());
    let works = plan.at_work(&before);
    let new = draft.tell(id, words, now)?;
    let along = format!("task {id}: your words go along with its next command");
    let (attempt, is) = (before.attempts, format!("task {id}: its agent is stopped"));
    Ok(match (new || now, works) {
        (false, _) => format!("task {id} has these words already"),
        (_, true) if now && claimed => {
            format!("{is}, and goes on in its session with your words")
        }
        (_, true) if now => format!("task {id} gets another command, with your words"),
        (_, true) => format!("{along}; attempt {attempt} began without them and goes on"),
        (_, false) if before.status.settled() => {
            format!("task {id} has ended: `retry` gives your words to its agent")
        }
        (_, false) => along,
    })
}

/// Has a task tried again, and returns what is said of that. `again` are the tasks that the person knows will open again with
/// it.
///
/// # Errors
/// Others would; else as [`Draft::retry_task`].
pub fn retry(draft: &mut Draft<'_>, id: TaskId, words: &str, again: &[TaskId]) -> Result<String> {
    let before = found(draft.plan(), id)?.clone();
    if draft.plan().opens_again(id) != again {
        return Err(Refusal::Outdated);
    }
    let works = draft.plan().at_work(&before);
    draft.retry_task(id, words)?;
    let (plan, attempt) = (draft.plan(), before.attempts);
    let task = plan.task(id).unwrap_or(&before);
    let has = |what| if words.is_empty() { "" } else { what };
    Ok(if works {
        let along = has("; a next attempt gets your words");
        format!("task {id} is being tried: attempt {attempt} goes on{along}")
    } else if before == *task || attempt == 0 {
        let (waits, along) = (waits(plan, task), has(", and has your words"));
        let how = match before.status {
            TaskState::Skipped => "is not left out any more",
            _ if attempt == 0 => "has not been tried yet",
            _ => "is to be tried again already",
        };
        format!("task {id} {how}: {waits}{along}")
    } else {
        let also = match again {
            [] => String::new(),
            again => format!("; {} again, too", tasks(again, "open")),
        };
        format!("task {id} is tried again{}{also}", attempts(plan, task))
    })
}

/// Returns that tasks rely on one that is to be tried again.
pub fn opened_again(again: &[TaskId], id: TaskId) -> String {
    let relying = tasks(again, "rely");
    format!("{relying} on task {id} and would open again")
}

/// Completes a task because a person says that it is `done`, or leaves it out; returns what is said of that.
///
/// # Errors
/// As [`Draft::complete_by_hand`] and [`Draft::skip_by_hand`].
pub fn settle(draft: &mut Draft<'_>, id: TaskId, words: &str, done: bool) -> Result<String> {
    found(draft.plan(), id)?;
    let (stops, asks) = (stops(draft.plan(), id), draft.plan().asks_about(id));
    let (new, state) = match done {
        true => (draft.complete_by_hand(id, words)?, TaskState::Completed),
        false => (draft.skip_by_hand(id, words)?, TaskState::Skipped),
    };
    let plan = draft.plan();
    if !new {
        return Ok(format!("task {id} is {} already", state.as_str()));
    }
    let aside = plan.head().line.is_some() && plan.attempts_of(id).next().is_some();
    // A result about which a person is still asked is not accepted.
    let accepted = |attempt: &Attempt| {
        let next = |verdict: &Verdict| verdict.decision == Decision::Next;
        attempt.state == AttemptState::Judged && attempt.verdict.as_ref().is_some_and(next)
    };
    let accepted = !asks && plan.attempts_of(id).any(accepted);
    let is = match (done, aside) {
        (false, _) if accepted => {
            format!("skipped{stops}; what was accepted of it before stays in the files")
        }
        (false, _) => format!("skipped{stops}"),
        (true, false) => format!("done by hand{stops}"),
        (true, true) => {
            format!("done by hand{stops}; what agents did in its worktree is not merged")
        }
    };
    Ok(format!("task {id} is {is}{}", frees(plan, id)))
}

/// Makes a task of a person's words; it waits for those before it.
pub fn task_of_words(name: &str, text: &str, after: &[TaskId]) -> TaskSpec {
    TaskSpec {
        name: one_line(name, NAME),
        description: text.to_owned(),
        criteria: Criteria::plain(String::new()),
        dependencies: after.iter().copied().map(TaskRef::Number).collect(),
        origin: Origin::Person,
        ..TaskSpec::default()
    }
}

/// Adds a person's task, and returns what is said of that.
///
/// # Errors
/// As [`Draft::add_by_hand`].
pub fn add(draft: &mut Draft<'_>, task: TaskSpec, before: Option<TaskId>) -> Result<String> {
    let id = draft.add_by_hand(task, before)?;
    let plan = draft.plan();
    let waits = waits(plan, found(plan, id)?);
    let place = before.map_or(String::new(), |before| format!(" before task {before}"));
    Ok(format!("task {id} is added{place}: {waits}"))
}

fn found(plan: &Plan, id: TaskId) -> Result<&Task> {
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
        unmet => format!("it waits for {}", numbered_tasks(unmet)),
    }
}

fn stops(plan: &Plan, id: TaskId) -> &'static str {
    let attempt = plan.task(id).and_then(|task| plan.current_attempt(task));
    let attempt = attempt.filter(|attempt| attempt.state.open() && attempt.changes.is_none());
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
    format!("{} {verb}", numbered_tasks(ids))
}
