//! Plans that were begun elsewhere: the past of their tasks is recorded, not carried out again.

use super::*;

/// The past of an imported task, or of an imported plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past<S> {
    pub status: S,
    /// The result of a task, or the outcome of a plan.
    pub result: Option<String>,
    pub created_at: Option<Time>,
    pub finished_at: Option<Time>,
}

impl Draft<'_> {
    /// Records the past of a task. The order of the plan is not enforced: the past does not change.
    ///
    /// # Errors
    /// The task is not pending, the plan has ended, or a daemon carries it out.
    pub fn record_task(&mut self, id: TaskId, past: Past<TaskState>) -> Result {
        self.by_hand()?;
        let mut task = self.editable(id)?;
        task.status = past.status;
        task.result = past.result;
        task.created_at = past.created_at.unwrap_or(task.created_at);
        if past.status.settled() {
            task.finished_at = past.finished_at;
        }
        if past.status == TaskState::InProgress {
            task.attempts = 1;
            task.started_at = Some(self.now);
        }
        self.insert(task);
        Ok(())
    }

    /// Records the past of the plan, after the pasts of its tasks.
    ///
    /// # Errors
    /// The plan has ended, or a daemon carries it out.
    pub fn record_plan(&mut self, past: Past<PlanState>) -> Result {
        self.by_hand()?;
        match &past.status {
            PlanState::Running => self.log(Event::Started),
            status if status.settled() => self.log(Event::Settled {
                status: status.as_str().to_owned(),
                outcome: past.result.clone().unwrap_or_default(),
            }),
            _ => {}
        }
        self.change_head(|head| {
            head.status = past.status;
            head.outcome = past.result;
            head.created_at = past.created_at.unwrap_or(head.created_at);
            head.finished_at = past.finished_at;
        });
        Ok(())
    }
}
