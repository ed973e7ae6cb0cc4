//! Operations for callers who carry a plan out themselves, without commands: tools, and the people behind them. A plan that a
//! daemon carries out refuses them.

use super::{Draft, Refusal};
use crate::plan::DAEMON;
use crate::plan::event::Event;
use crate::plan::model::{PlanStatus, Shelf, Task, TaskId, TaskStatus};

impl Draft<'_> {
    /// Takes a task in hand; an idle plan runs from then on.
    ///
    /// # Errors
    /// The task is not ready in the plan's order, the plan has ended, or a daemon carries it out.
    pub fn start_task(&mut self, id: TaskId) -> Result<(), Refusal> {
        self.by_hand()?;
        let mut task = self.task(id)?;
        if task.status != TaskStatus::Pending {
            return Err(Refusal::NotEditable {
                task: id,
                status: task.status,
            });
        }
        if !self.plan.is_ready(&task) {
            return Err(Refusal::NotReady {
                task: id,
                waits_for: self.plan.unmet(&task),
            });
        }
        task.status = TaskStatus::InProgress;
        task.started_at = task.started_at.or(Some(self.now));
        task.attempts += 1;
        self.tell(Event::TaskStarted { task: id });
        self.put_task(task);
        if self.plan.status() == &PlanStatus::Idle {
            self.tell(Event::Started);
            self.change_head(|head| head.status = PlanStatus::Running);
        }
        Ok(())
    }

    /// Completes a task.
    ///
    /// # Errors
    /// The task is not in progress, the plan has ended, or a daemon carries it out.
    pub fn complete_task(&mut self, id: TaskId, result: &str) -> Result<(), Refusal> {
        self.by_hand()?;
        let mut task = self.under_way(id)?;
        task.status = TaskStatus::Completed;
        task.result = Some(result.to_owned());
        task.failures = 0;
        task.finished_at = Some(self.now);
        self.tell(Event::Completed {
            task: id,
            verified: false,
        });
        self.put_task(task);
        Ok(())
    }

    /// Records a failure of a task: pending again, or failed when it may not be retried or has failed as often as the policy
    /// allows. Returns whether it will be retried.
    ///
    /// # Errors
    /// The task is not in progress, the plan has ended, or a daemon carries it out.
    pub fn fail_task(&mut self, id: TaskId, error: &str, retry: bool) -> Result<bool, Refusal> {
        self.by_hand()?;
        let mut task = self.under_way(id)?;
        task.failures += 1;
        let again = retry && task.failures < self.plan.head().policy.max_attempts;
        task.status = if again {
            TaskStatus::Pending
        } else {
            TaskStatus::Failed
        };
        task.result = Some(error.to_owned());
        if !again {
            task.finished_at = Some(self.now);
            self.tell(Event::Failed {
                task: id,
                reason: error.to_owned(),
            });
        }
        self.put_task(task);
        Ok(again)
    }

    /// Makes a task pending as if it had never been started, whatever came of it.
    ///
    /// # Errors
    /// No such task, the plan has ended, or a daemon carries it out.
    pub fn reset_task(&mut self, id: TaskId) -> Result<(), Refusal> {
        self.by_hand()?;
        let mut task = self.task(id)?;
        begin_anew(&mut task);
        self.tell(Event::Reopened { task: id });
        self.put_task(task);
        Ok(())
    }

    /// Makes a plan idle again of which no task has been begun or settled, and tells whether it was not.
    ///
    /// # Errors
    /// The plan has ended, or a daemon carries it out.
    pub fn rest(&mut self) -> Result<bool, Refusal> {
        self.by_hand()?;
        let counts = self.plan.counts();
        let begun = counts.in_progress > 0 || counts.settled() > 0;
        if begun || self.plan.status() == &PlanStatus::Idle {
            return Ok(false);
        }
        self.change_head(|head| head.status = PlanStatus::Idle);
        Ok(true)
    }

    /// Records what came of a task, whatever its state is.
    ///
    /// # Errors
    /// No such task, the plan has ended, or a daemon carries it out.
    pub fn set_result(&mut self, id: TaskId, result: Option<&str>) -> Result<(), Refusal> {
        self.by_hand()?;
        let mut task = self.task(id)?;
        task.result = result.map(str::to_owned);
        self.put_task(task);
        Ok(())
    }

    /// Makes every task pending again and the plan idle. Returns how many tasks there are.
    ///
    /// # Errors
    /// A daemon carries the plan out.
    pub fn reset(&mut self) -> Result<usize, Refusal> {
        let head = self.plan.head();
        if head.owner == DAEMON && !head.status.settled() && head.status != PlanStatus::Idle {
            return Err(Refusal::PlanIs(head.status.clone()));
        }
        let tasks: Vec<Task> = self.plan.tasks().cloned().collect();
        let total = tasks.len();
        for mut task in tasks {
            self.stop_attempt(&task);
            begin_anew(&mut task);
            self.put_task(task);
        }
        self.close_questions("the plan was reset", |_| true);
        self.tell(Event::Reset);
        self.change_head(|head| {
            head.status = PlanStatus::Idle;
            head.replan = None;
            head.audited = None;
            head.outcome = None;
            head.finished_at = None;
        });
        Ok(total)
    }

    /// Lets a plan that is completed or failed go on; any other is left as it is.
    ///
    /// # Errors
    /// A daemon carried the plan out.
    pub fn reopen(&mut self) -> Result<(), Refusal> {
        let head = self.plan.head();
        if !head.status.settled() {
            return Ok(());
        }
        if head.owner == DAEMON {
            return Err(Refusal::PlanIs(head.status.clone()));
        }
        self.tell(Event::Resumed);
        self.change_head(|head| {
            head.status = PlanStatus::Running;
            head.outcome = None;
            head.finished_at = None;
        });
        Ok(())
    }

    /// Ends a plan whose tasks are all settled: completed, or failed if one of them is. Any other is left as it is, also one
    /// that a daemon carries out.
    pub fn follow_tasks(&mut self) {
        let counts = self.plan.counts();
        let settled = counts.total() > 0 && counts.settled() == counts.total();
        if settled && self.by_hand().is_ok() {
            let status = if counts.failed > 0 {
                PlanStatus::Failed
            } else {
                PlanStatus::Completed
            };
            self.end(status, "");
        }
    }

    /// Ends a plan by its caller's word: completed or abandoned, whatever its tasks are.
    ///
    /// # Errors
    /// The plan has ended, or a daemon carries it out.
    pub fn finish_plan(&mut self, completed: bool, outcome: &str) -> Result<(), Refusal> {
        self.by_hand()?;
        let status = if completed {
            PlanStatus::Completed
        } else {
            PlanStatus::Abandoned
        };
        self.end(status, outcome);
        Ok(())
    }

    /// Makes the plan its owner's current one.
    ///
    /// # Errors
    /// A daemon carries the plan out, or it was deleted.
    pub fn take_up(&mut self) -> Result<(), Refusal> {
        self.movable()?;
        let now = self.now;
        self.tell(Event::TakenUp);
        self.change_head(|head| {
            head.shelf = Shelf::Current;
            head.taken_up = Some(now);
        });
        Ok(())
    }

    /// Puts the plan into the history, or deletes it for whoever looks for it by its key; its log remains.
    ///
    /// # Errors
    /// A daemon carries the plan out, or it was deleted.
    pub fn put_away(&mut self, shelf: Shelf) -> Result<(), Refusal> {
        self.movable()?;
        self.tell(Event::PutAway { shelf });
        self.change_head(|head| {
            head.shelf = shelf;
            head.kept = head.kept || shelf == Shelf::History;
        });
        Ok(())
    }

    fn movable(&self) -> Result<(), Refusal> {
        let head = self.plan.head();
        if head.owner == DAEMON && !head.status.settled() {
            return Err(Refusal::PlanIs(head.status.clone()));
        }
        if head.shelf == Shelf::Deleted {
            return Err(Refusal::Deleted);
        }
        Ok(())
    }

    /// Refuses what a daemon does itself, and any change of a plan that has ended.
    pub(super) fn by_hand(&self) -> Result<(), Refusal> {
        self.not_settled()?;
        let head = self.plan.head();
        if head.owner == DAEMON && head.status != PlanStatus::Idle {
            return Err(Refusal::PlanIs(head.status.clone()));
        }
        Ok(())
    }

    fn under_way(&self, id: TaskId) -> Result<Task, Refusal> {
        let task = self.task(id)?;
        if task.status != TaskStatus::InProgress {
            return Err(Refusal::NotEditable {
                task: id,
                status: task.status,
            });
        }
        Ok(task)
    }
}

fn begin_anew(task: &mut Task) {
    task.status = TaskStatus::Pending;
    task.result = None;
    task.evidence = None;
    task.current = None;
    task.attempts = 0;
    task.failures = 0;
    task.note = None;
    task.not_before = None;
    task.started_at = None;
    task.finished_at = None;
}
