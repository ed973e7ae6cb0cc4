//! Operations for callers who carry a plan out themselves, without commands: tools, and the people behind them. They are
//! refused for a plan that a daemon carries out, except the statement that a task is done or has failed. That statement counts
//! as the report of the agent at work on the task; it is checked and judged like any report.

use super::*;

impl Draft<'_> {
    /// Starts a task; an idle plan runs from then on.
    ///
    /// # Errors
    /// The task is not ready in the plan's order, the plan is paused or has ended, or it is a daemon's.
    pub fn start_task(&mut self, id: TaskId) -> Result {
        self.by_hand()?;
        let paused = matches!(self.plan.status(), PlanState::Paused(_));
        refuse_if(paused, self.plan_is())?;
        let mut task = self.editable(id)?;
        self.check_ready(&task)?;
        task.status = TaskState::InProgress;
        task.started_at = task.started_at.or(Some(self.now));
        task.attempts += 1;
        self.log(Event::TaskStarted { task: id });
        self.insert(task);
        if self.plan.status() == &PlanState::Idle {
            self.log(Event::Started);
            self.change_head(|head| head.status = PlanState::Running);
        }
        Ok(())
    }

    /// Completes a task. If a daemon carries the plan out, this reports success.
    ///
    /// # Errors
    /// The task is not in progress, its attempt has another report already, the plan has ended, or it is said by an agent that
    /// works on another task or did an earlier attempt.
    pub fn complete_task(&mut self, id: TaskId, result: &str) -> Result {
        if self.carried_out() {
            return self.report_by_hand(id, ReportStatus::Success, result);
        }
        self.by_hand()?;
        let task = self.task_in(id, TaskState::InProgress)?;
        self.close_attempt(&task);
        self.complete(task, result.to_owned(), None);
        Ok(())
    }

    /// Records a failure of a task. The task is pending again, or it has failed when it may not be retried or has failed as
    /// often as the policy allows. Returns whether it will be retried. If a daemon carries the plan out, this reports the
    /// failure, and the daemon decides what follows.
    ///
    /// # Errors
    /// The task is not in progress, its attempt has another report already, or the plan has ended.
    pub fn fail_task(&mut self, id: TaskId, error: &str, retry: bool) -> Result<bool> {
        if self.carried_out() {
            self.report_by_hand(id, ReportStatus::Failed, error)?;
            return Ok(retry);
        }
        self.by_hand()?;
        let mut task = self.task_in(id, TaskState::InProgress)?;
        self.close_attempt(&task);
        task.failures += 1;
        task.result = Some(error.to_owned());
        let reason = error.to_owned();
        let again = retry && task.failures < self.plan.head().policy.max_attempts;
        if again {
            task.status = TaskState::Pending;
            self.log(Event::Stumbled { task: id, reason });
        } else {
            task.status = TaskState::Failed;
            task.finished_at = Some(self.now);
            self.log(Event::Failed { task: id, reason });
        }
        self.insert(task);
        Ok(again)
    }

    /// Ends the attempt of a task that is settled by hand: the request of a role to another one.
    fn close_attempt(&mut self, task: &Task) {
        self.close_questions("the step is over", |q| q.task == Some(task.number));
        match self.plan.current_attempt(task) {
            Some(attempt) if attempt.state == AttemptState::Reported => {
                let state = AttemptState::Judged;
                let attempt = attempt.clone();
                self.insert_attempt(Attempt { state, ..attempt });
            }
            _ => self.stop_attempt(task),
        }
    }

    /// Skips a task whose answer no role needs any more, and opens a replan of what comes after it. No human is asked.
    ///
    /// # Errors
    /// The task is completed or skipped, the plan has ended or may not be changed again, or it is a daemon's.
    pub fn change_course(&mut self, id: TaskId, why: &str) -> Result {
        self.by_hand()?;
        let head = self.plan.head();
        let no_more = head.replans >= head.policy.max_replans || head.replan.is_some();
        refuse_if(no_more, Refusal::Replanning)?;
        self.skip_task(id, why)?;
        let (task, why) = (Some(id), why.to_owned());
        self.open_replan(ReplanRequest { task, why });
        Ok(())
    }

    /// Makes a task pending as if it had never been started, whatever its result was.
    ///
    /// # Errors
    /// No such task, the plan has ended, or it is a daemon's.
    pub fn reset_task(&mut self, id: TaskId) -> Result {
        self.by_hand()?;
        let task = self.begin_anew(self.task(id)?);
        self.log(Event::Reopened { task: id });
        self.insert(task);
        Ok(())
    }

    /// Makes a plan idle again if none of its tasks has been begun or settled. Returns whether the plan changed.
    ///
    /// # Errors
    /// The plan has ended, or it is a daemon's.
    pub fn rest(&mut self) -> Result<bool> {
        self.by_hand()?;
        let counts = self.plan.counts();
        let begun = counts.in_progress > 0 || counts.settled() > 0;
        if begun || self.plan.status() == &PlanState::Idle {
            return Ok(false);
        }
        self.change_head(|head| head.status = PlanState::Idle);
        Ok(true)
    }

    /// Records the result of a task, whatever its state is.
    ///
    /// # Errors
    /// No such task, the plan has ended, or it is a daemon's.
    pub fn set_result(&mut self, id: TaskId, result: Option<&str>) -> Result {
        self.by_hand()?;
        self.change_task(id, |task| task.result = result.map(str::to_owned))
    }

    /// Makes every task pending again and the plan idle. Returns how many tasks there are.
    ///
    /// # Errors
    /// The plan is a daemon's and has not ended.
    pub fn reset(&mut self) -> Result<usize> {
        if !self.plan.status().settled() {
            self.by_hand()?;
        }
        let tasks: Vec<Task> = self.plan.tasks().cloned().collect();
        let total = tasks.len();
        for task in tasks {
            self.stop_attempt(&task);
            self.insert(self.begin_anew(task));
        }
        self.close_questions("the plan was reset", |_| true);
        self.log(Event::Reset);
        self.change_head(|head| {
            head.status = PlanState::Idle;
            head.replan = None;
            head.audited = None;
            head.outcome = None;
            head.finished_at = None;
        });
        Ok(total)
    }

    /// Resumes a plan that is completed or failed; a plan that has not ended does not change.
    ///
    /// # Errors
    /// The plan was abandoned, or a daemon carried it out.
    pub fn reopen(&mut self) -> Result {
        self.not_abandoned()?;
        self.go_on()
    }

    /// Resumes a plan that has ended, also one that was abandoned when it was archived.
    ///
    /// # Errors
    /// A daemon carried the plan out.
    pub fn go_on(&mut self) -> Result {
        let head = self.plan.head();
        if !head.status.settled() {
            return Ok(());
        }
        refuse_if(head.owner == DAEMON, self.plan_is())?;
        self.run_again();
        Ok(())
    }

    /// Has a plan run that had ended.
    pub(super) fn run_again(&mut self) {
        self.log(Event::Resumed);
        self.change_head(|head| {
            head.status = PlanState::Running;
            head.outcome = None;
            head.finished_at = None;
        });
    }

    /// Ends a plan whose tasks are all settled: completed, or failed if one of them has failed. It has failed, too, if all that
    /// is left waits for tasks that have failed. Any other plan does not change, nor does a plan that a daemon carries out.
    pub fn follow_tasks(&mut self) {
        if let Some(outcome) = self.plan.outcome()
            && self.by_hand().is_ok()
        {
            self.end(outcome, "");
        }
    }

    /// Ends a plan as its caller says: completed or abandoned, whatever the states of its tasks are. A plan that has already
    /// ended by the states of its tasks gets this state and this outcome instead.
    ///
    /// # Errors
    /// The plan is a daemon's.
    pub fn finish_plan(&mut self, status: PlanState, outcome: &str) -> Result {
        if self.plan.head().owner == DAEMON {
            self.by_hand()?;
        }
        self.end(status, outcome);
        Ok(())
    }

    /// Makes the plan its owner's current one.
    ///
    /// # Errors
    /// A daemon carries the plan out, or it was deleted.
    pub fn reactivate(&mut self) -> Result {
        self.movable()?;
        let now = self.now;
        self.log(Event::TakenUp);
        self.change_head(|head| {
            head.archive_state = ArchiveState::Current;
            head.taken_up = Some(now);
        });
        Ok(())
    }

    /// Archives the plan, or deletes it for callers that find it by its key; its log remains.
    ///
    /// # Errors
    /// A daemon carries the plan out, or it was deleted; a plan with results that are not taken over is not deleted.
    pub fn archive(&mut self, archive_state: ArchiveState) -> Result {
        self.movable()?;
        let deletes = archive_state == ArchiveState::Deleted;
        refuse_if(
            deletes && self.plan.head().has_results(),
            Refusal::HasResults,
        )?;
        self.log(Event::PutAway { archive_state });
        self.change_head(|head| {
            head.archive_state = archive_state;
            if archive_state == ArchiveState::History {
                head.put_away = Some(Box::new(ArchivedEntry::of(head)));
            }
        });
        Ok(())
    }

    fn movable(&self) -> Result {
        let head = self.plan.head();
        let goes_on = head.owner == DAEMON && !head.status.settled();
        refuse_if(goes_on, self.plan_is())?;
        refuse_if(
            head.archive_state == ArchiveState::Deleted,
            Refusal::Deleted,
        )
    }

    /// Returns whether a daemon carries the plan out: then a statement about a task in progress is a report.
    pub fn carried_out(&self) -> bool {
        let head = self.plan.head();
        head.owner == DAEMON && !head.status.settled() && head.status != PlanState::Idle
    }

    /// Applies a caller's statement about a task in progress as the report of its current attempt. The agent may go on until it
    /// ends by itself; the file that it leaves completes what it said here. Repeating the same statement changes nothing.
    fn report_by_hand(&mut self, id: TaskId, status: ReportStatus, text: &str) -> Result {
        let task = self.task_in(id, TaskState::InProgress)?;
        let attempt = match &self.agent {
            Some(own) => {
                // A command that is not of this plan is one of another plan, or a role's request to another one.
                let attempt = self.plan.attempt(own).filter(|own| own.task == id);
                let attempt = attempt.ok_or(Refusal::AnothersTask(id))?;
                // As with a report in a file: after a time-out it may still count, once its attempt is decided it does not.
                let counts = self.still_counts(attempt, &task);
                let repeats = attempt.state == AttemptState::Reported;
                refuse_if(!counts && !repeats, Refusal::NotAwaited(own.clone()))?;
                attempt
            }
            None => {
                let attempt = self.plan.current_attempt(&task);
                attempt.ok_or_else(|| Refusal::not_editable(&task))?
            }
        };
        let attempt = attempt.clone();
        let said = |known: &Report| {
            known.status == status && (known.results == text || !known.is_tool_call())
        };
        if attempt.state == AttemptState::Reported && attempt.report.as_ref().is_some_and(said) {
            return Ok(());
        }
        let author = match self.agent {
            Some(_) => ReportAuthor::Agent,
            None => ReportAuthor::Person,
        };
        let report = Report::tool_call(author, status, text, self.now);
        if attempt.report.is_some() || self.report(&attempt.id, report)? != AppliedReport::Counts {
            return Err(Refusal::NotAwaited(attempt.id));
        }
        // No worker shall begin a task that is already done.
        if attempt.claimed.is_none() {
            self.change_attempt(&attempt.id, |attempt| attempt.recall = true)?;
        }
        Ok(())
    }

    /// Refuses what only a daemon does, changes of a daemon's plan that no person has started yet, and any change of a plan
    /// that has ended.
    pub(super) fn by_hand(&self) -> Result {
        self.not_settled()?;
        refuse_if(self.carried_out(), self.plan_is())?;
        refuse_if(self.plan.head().owner == DAEMON, Refusal::NotStarted)
    }

    fn begin_anew(&self, task: Task) -> Task {
        Task {
            attempts: self.last_attempt(task.number),
            status: TaskState::Pending,
            result: None,
            evidence: None,
            current: None,
            failures: 0,
            note: None,
            told: None,
            not_before: None,
            started_at: None,
            finished_at: None,
            ..task
        }
    }

    /// Returns the number of a task's last attempt, or 0. The number is not used again, whatever state the task goes back to.
    pub(super) fn last_attempt(&self, id: TaskId) -> u32 {
        let made = self.plan.attempts_of(id);
        made.map(|attempt| attempt.number).max().unwrap_or(0)
    }
}
