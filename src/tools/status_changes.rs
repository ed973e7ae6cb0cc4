//! Sets the status of a task, for every dialect: the one place that knows which operations of the core lead from one status to
//! another. A dialect refuses what its document does not allow before it calls this module.

use crate::plan::{Draft, Refusal, TaskId, TaskState};

/// Brings a task to a status, with its result, a reason or an error; without one the recorded text stays. The plan follows: it
/// ends when every task is settled and goes on when one no longer is. Setting the present status changes nothing. In a plan
/// that a daemon carries out, a new status for a task in progress is the report of the agent that works on it: the daemon
/// checks and judges it and decides what follows.
///
/// # Errors
/// The task does not exist, it is to start or to be completed and may not start, the plan was abandoned, or a daemon carries it
/// out and does this itself.
pub(super) fn set(
    draft: &mut Draft<'_>,
    id: TaskId,
    to: TaskState,
    result: Option<&str>,
) -> Result<(), Refusal> {
    let task = draft.plan().task(id);
    let Some((from, recorded)) = task.map(|task| (task.status, task.result.clone())) else {
        return Err(Refusal::UnknownTask(id.to_string()));
    };
    if from == to {
        return Ok(());
    }
    if draft.carried_out() && from == TaskState::InProgress {
        return report(draft, id, to, result.unwrap_or_default());
    }
    draft.reopen()?;
    let stopped = from == TaskState::InProgress && to == TaskState::Pending;
    let left_out = from == TaskState::Failed && to == TaskState::Skipped;
    if stopped || from.settled() && !left_out {
        draft.reset_task(id)?;
    }
    if to != TaskState::Pending && to != TaskState::Skipped && from != TaskState::InProgress {
        draft.start_task(id)?;
    }
    let text = result.unwrap_or_default();
    match to {
        TaskState::Pending | TaskState::InProgress => {}
        TaskState::Completed => draft.complete_task(id, text)?,
        TaskState::Failed => drop(draft.fail_task(id, text, false)?),
        TaskState::Skipped => skip(draft, id, text)?,
    }
    let wanted = result.map(str::to_owned).or(recorded);
    let now = draft.plan().task(id).and_then(|task| task.result.clone());
    let made_up = now.is_some() && wanted.is_none();
    if made_up || now.unwrap_or_default() != wanted.as_deref().unwrap_or_default() {
        draft.set_result(id, wanted.as_deref())?;
    }
    draft.follow_tasks();
    Ok(())
}

/// Skips a task. In a plan that a daemon carries out only a waiting task can be skipped: a task in progress belongs to its
/// agent, and a person decides what follows a failure.
///
/// # Errors
/// The task is completed or skipped, or it is not waiting and a daemon carries the plan out; the plan has ended.
fn skip(draft: &mut Draft<'_>, id: TaskId, text: &str) -> Result<(), Refusal> {
    match draft.plan().task(id).map(|task| task.status) {
        Some(status) if draft.carried_out() && status != TaskState::Pending => {
            Err(Refusal::NotEditable { task: id, status })
        }
        _ => draft.skip_task(id, text),
    }
}

/// Reports on a task that a daemon has dispatched. The agent does not decide whether an unfinished task is skipped.
fn report(draft: &mut Draft<'_>, id: TaskId, to: TaskState, text: &str) -> Result<(), Refusal> {
    match to {
        TaskState::Completed => draft.complete_task(id, text),
        TaskState::Failed | TaskState::Skipped => draft.fail_task(id, text, true).map(drop),
        TaskState::Pending => draft.reset_task(id),
        TaskState::InProgress => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Time;
    use crate::plan::tests::testing::{issue, running};

    #[test]
    fn daemon_task_in_progress_cannot_be_skipped() {
        let mut plan = running(&[("a", &[]), ("b", &[])]);
        let mut draft = Draft::new(&mut plan, Time(1));
        draft.issue(TaskId(1), issue(1)).unwrap();
        let (task, status) = (TaskId(1), TaskState::InProgress);
        let wanted = Err(Refusal::NotEditable { task, status });
        assert_eq!(skip(&mut draft, task, ""), wanted);
        set(&mut draft, TaskId(2), TaskState::Skipped, Some("x")).unwrap();
    }
}
