//! Setting the status of a task, whoever asks for it in whichever words: one place that knows which operations of the core
//! lead from a status to another. What a dialect does not allow it refuses before it comes here.

use crate::plan::{Draft, Refusal, TaskId, TaskStatus};

/// Brings a task to a status, with what came of it: a result, a reason, an error; what was recorded before stays if there is
/// none. The plan follows: it ends when every task is settled and goes on when one no longer is. The status it has changes
/// nothing. Of a plan that a daemon carries out, the word for a task in progress is the report of the agent that works on
/// it: the daemon checks and judges it and decides what follows.
///
/// # Errors
/// No such task, it is to start or to be completed and may not start, the plan was abandoned, or a daemon carries it out and
/// does this itself.
pub(super) fn set(
    draft: &mut Draft<'_>,
    id: TaskId,
    to: TaskStatus,
    result: Option<&str>,
) -> Result<(), Refusal> {
    let task = draft.plan().task(id);
    let Some((from, recorded)) = task.map(|task| (task.status, task.result.clone())) else {
        return Err(Refusal::UnknownTask(id.to_string()));
    };
    if from == to {
        return Ok(());
    }
    if draft.carried_out() && from == TaskStatus::InProgress {
        return report(draft, id, to, result.unwrap_or_default());
    }
    draft.reopen()?;
    let stopped = from == TaskStatus::InProgress && to == TaskStatus::Pending;
    let left_out = from == TaskStatus::Failed && to == TaskStatus::Skipped;
    if stopped || from.settled() && !left_out {
        draft.reset_task(id)?;
    }
    let works = to != TaskStatus::Pending && to != TaskStatus::Skipped;
    if works && from != TaskStatus::InProgress {
        draft.start_task(id)?;
    }
    let text = result.unwrap_or_default();
    match to {
        TaskStatus::Pending | TaskStatus::InProgress => {}
        TaskStatus::Completed => draft.complete_task(id, text)?,
        TaskStatus::Failed => drop(draft.fail_task(id, text, false)?),
        TaskStatus::Skipped => skip(draft, id, text)?,
    }
    let wanted = result.or(recorded.as_deref()).unwrap_or_default();
    let now = draft
        .plan()
        .task(id)
        .and_then(|task| task.result.as_deref());
    if now.unwrap_or_default() != wanted {
        draft.set_result(id, Some(wanted))?;
    }
    draft.follow_tasks();
    Ok(())
}

/// Leaves a task out. Of a plan that a daemon carries out only one that waits: what is under way is the agent's, and what
/// follows a failure a person decides.
///
/// # Errors
/// The task is completed or skipped, or such a one of a daemon; the plan has ended.
fn skip(draft: &mut Draft<'_>, id: TaskId, text: &str) -> Result<(), Refusal> {
    match draft.plan().task(id).map(|task| task.status) {
        Some(status) if draft.carried_out() && status != TaskStatus::Pending => {
            Err(Refusal::NotEditable { task: id, status })
        }
        _ => draft.skip_task(id, text),
    }
}

/// Reports on a task that a daemon has handed out. Whether one that is not done is left out is not the agent's to decide.
fn report(draft: &mut Draft<'_>, id: TaskId, to: TaskStatus, text: &str) -> Result<(), Refusal> {
    match to {
        TaskStatus::Completed => draft.complete_task(id, text),
        TaskStatus::Failed | TaskStatus::Skipped => draft.fail_task(id, text, true).map(drop),
        TaskStatus::Pending => draft.reset_task(id),
        TaskStatus::InProgress => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Time;
    use crate::plan::tests::testing::{issue, running};

    #[test]
    fn what_an_agent_of_a_daemon_works_on_is_not_left_out() {
        let mut plan = running(&[("a", &[]), ("b", &[])]);
        let mut draft = Draft::new(&mut plan, Time(1));
        draft.issue(TaskId(1), issue(1)).unwrap();
        let (task, status) = (TaskId(1), TaskStatus::InProgress);
        assert_eq!(
            skip(&mut draft, task, ""),
            Err(Refusal::NotEditable { task, status })
        );
        set(&mut draft, TaskId(2), TaskStatus::Skipped, Some("x")).unwrap();
    }
}
