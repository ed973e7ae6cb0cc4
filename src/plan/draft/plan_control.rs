//! Operations on the plan as a whole: running, pausing, ending, replanning.

use std::collections::BTreeSet;

use super::*;

impl Draft<'_> {
    /// Reports the new plan in its first change, the one that created it.
    pub fn created(&mut self) {
        let (goal, now) = (self.plan.head().goal.clone(), self.now);
        self.change_head(|head| {
            head.created_at = now;
            if let Some(entry) = &mut head.queue {
                entry.at = now;
            }
        });
        self.log(Event::Created { goal });
    }

    /// Records which strategy a role chose to plan its task, and the reason.
    pub fn choose_strategy(&mut self, strategy: &str, reason: &str) {
        let source = Some(strategy.to_owned());
        let (strategy, reason) = (strategy.to_owned(), reason.to_owned());
        self.log(Event::StrategyChosen { strategy, reason });
        self.change_head(|head| head.source = source);
    }

    /// Starts the plan under a policy and in a workspace; a running plan only gets the new policy and workspace. Returns
    /// whether anything changed.
    ///
    /// # Errors
    /// The plan has ended.
    pub fn start(&mut self, policy: PlanPolicy, workspace: &str) -> Result<bool> {
        self.not_settled()?;
        let head = self.plan.head();
        let same = head.policy == policy && head.workspace == workspace;
        let stuck = head.replan.is_some() && !policy.model;
        if head.status == PlanState::Running && same && !stuck {
            return Ok(false);
        }
        if head.status != PlanState::Running {
            self.log(Event::Started);
        }
        self.change_head(|head| {
            head.status = PlanState::Running;
            head.policy = policy;
            workspace.clone_into(&mut head.workspace);
        });
        self.close_budget_questions();
        if stuck {
            self.drop_replan();
        }
        Ok(true)
    }

    /// Pauses the plan: nothing new starts. What is under way goes on.
    ///
    /// # Errors
    /// The plan has ended.
    pub fn pause(&mut self, reason: &str) -> Result {
        self.not_settled()?;
        let reason = reason.to_owned();
        self.change_head(|head| head.status = PlanState::Paused(reason.clone()));
        self.log(Event::Paused { reason });
        Ok(())
    }

    /// Resumes a paused plan.
    ///
    /// # Errors
    /// The plan is not paused.
    pub fn resume(&mut self) -> Result {
        let paused = matches!(self.plan.status(), PlanState::Paused(_));
        refuse_if(!paused, self.plan_is())?;
        self.log(Event::Resumed);
        self.change_head(|head| head.status = PlanState::Running);
        self.close_budget_questions();
        Ok(())
    }

    /// Ends the plan without reaching its goal. Open attempts are stopped, their tasks pending for good, open questions closed.
    ///
    /// # Errors
    /// The plan has ended.
    pub fn abandon(&mut self, reason: &str) -> Result {
        self.not_settled()?;
        let running: Vec<Task> = self.plan.in_progress().cloned().collect();
        for task in running {
            self.stop_attempt(&task);
            let status = TaskState::Pending;
            self.insert(Task { status, ..task });
        }
        self.end(PlanState::Abandoned, &format!("Ended early: {reason}"));
        Ok(())
    }

    /// Ends a plan whose tasks are all settled: completed, or failed if a task has failed.
    ///
    /// # Errors
    /// A task is not settled, there is none, or the plan has ended.
    pub fn settle(&mut self, outcome: &str) -> Result {
        self.not_settled()?;
        let status = self.plan.counts().outcome();
        self.end(status.ok_or_else(|| self.plan_is())?, outcome);
        Ok(())
    }

    pub(super) fn end(&mut self, status: PlanState, outcome: &str) {
        let now = self.now;
        self.close_questions("the plan has ended", |_| true);
        self.log(Event::Settled {
            status: status.as_str().to_owned(),
            outcome: outcome.to_owned(),
        });
        self.change_head(|head| {
            head.status = status;
            head.outcome = Some(outcome.to_owned());
            head.finished_at = Some(now);
            head.replan = None;
        });
    }

    /// Skips a task, whatever it waits for. A running attempt is stopped.
    ///
    /// # Errors
    /// The task is completed or skipped, or the plan has ended.
    pub fn skip_task(&mut self, id: TaskId, reason: &str) -> Result {
        self.not_settled()?;
        let mut task = self.task(id)?;
        refuse_if(task.status.satisfies(), Refusal::not_editable(&task))?;
        self.stop_attempt(&task);
        self.close_questions("the task was skipped", |question| question.task == Some(id));
        task.status = TaskState::Skipped;
        let reason = reason.to_owned();
        task.result = Some(reason.clone());
        task.finished_at = Some(self.now);
        self.log(Event::Skipped { task: id, reason });
        self.insert(task);
        Ok(())
    }

    /// Opens a replan, or asks a human when the policy allows no more replans.
    pub(super) fn want_replan(&mut self, id: TaskId, why: &str) -> Result {
        let head = self.plan.head();
        if head.replans >= head.policy.max_replans + head.extra_replans {
            let reason = format!("{}; now: {why}", changed(head.replans));
            return self.ask(HumanQuestionKind::Replans, Some(id), &reason);
        }
        let (task, why) = (Some(id), why.to_owned());
        self.set_pending(id, "")?;
        self.change_task(id, |task| task.note = Some(why.clone()))?;
        self.open_replan(ReplanRequest { task, why });
        Ok(())
    }

    /// Lets the plan stay as it is where a model was to change it. The task that led to that is tried again.
    pub(super) fn drop_replan(&mut self) {
        if self.plan.head().replan.is_some() {
            self.change_head(|head| head.replan = None);
            self.drop_ask(&ModelQuestionKind::Replan, "the plan stays as it is");
        }
    }

    /// Opens a replan; a replan that is already open also gets the new reason.
    pub(super) fn open_replan(&mut self, replan: ReplanRequest) {
        let reason = replan.why.clone();
        self.log(Event::Replanning { reason });
        self.change_head(|head| match &mut head.replan {
            Some(open) => {
                open.why.push('\n');
                open.why.push_str(&replan.why);
                open.task = open.task.or(replan.task);
            }
            None => {
                head.replans += 1;
                head.replan = Some(Box::new(replan));
            }
        });
    }

    /// Records what the audit of the goal found. If the goal is not met, the missing tasks are added, or a human is asked when
    /// the plan was changed as often as the policy allows.
    ///
    /// # Errors
    /// A task is not settled, or as [`Draft::add_tasks`].
    pub fn audited(&mut self, reason: &str, missing: Option<Vec<TaskSpec>>) -> Result {
        // A person has added or opened tasks since the model was asked.
        refuse_if(self.plan.unsettled().next().is_some(), self.plan_is())?;
        let (met, why) = (missing.is_none(), reason.to_owned());
        self.log(Event::Audited { met, reason: why });
        let Some(missing) = missing.filter(|tasks| !tasks.is_empty()) else {
            self.change_head(|head| head.audited = Some(reason.to_owned()));
            return Ok(());
        };
        let head = self.plan.head();
        if head.replans >= head.policy.max_replans + head.extra_replans {
            let changed = changed(head.replans);
            let reason = format!("the goal is not met, and {changed}: {reason}");
            return self.ask(HumanQuestionKind::Replans, None, &reason);
        }
        self.change_head(|head| head.replans += 1);
        self.add_tasks(missing, None)?;
        Ok(())
    }

    /// Ends an agent's session by a command that makes the agent forget it.
    pub fn end_session(&mut self, id: &SessionId, command: EndCommand) {
        if let Some(session) = self.plan.session(id).cloned()
            && session.end.is_none()
        {
            let end = Some(command);
            self.insert(AgentSession { end, ..session });
        }
    }

    /// Records that the commands which end these sessions were published.
    pub fn ends_published(&mut self, sessions: &BTreeSet<SessionId>) {
        for id in sessions {
            if self.plan.ends_unpublished(id)
                && let Some(mut session) = self.plan.session(id).cloned()
            {
                session.end.iter_mut().for_each(|end| end.published = true);
                self.insert(session);
            }
        }
    }
}

/// Returns the reason why the plan is not changed again without a human.
fn changed(times: u32) -> String {
    match times {
        0 => "the plan is not to be changed without asking".to_owned(),
        1 => "the plan was changed once already".to_owned(),
        times => format!("the plan was changed {times} times already"),
    }
}
