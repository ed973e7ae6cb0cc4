//! Restores an earlier state of a plan. This is a change like any other: nothing is removed from the log.

use std::collections::BTreeSet;

use super::*;

impl Draft<'_> {
    /// Makes the plan what it was after its change `seq`: its tasks and its description. Tasks added since are removed, and
    /// their numbers are not used again. Attempts, questions and usage since then stay recorded, because they happened. Nothing
    /// that is under way goes on: attempts are stopped, questions closed. A plan that a daemon was carrying out then is paused,
    /// so that a person decides when agents continue. A task that was under way then is pending, because no agent works on it
    /// any more.
    ///
    /// # Errors
    /// The plan is in this state already, or a person has discarded its results: it would go on from them.
    pub fn restore(&mut self, earlier: &Plan, seq: i64) -> Result {
        self.refuse_discarded()?;
        let (rows, events) = (self.undo.len(), self.events.len());
        let present: Vec<Task> = self.plan.tasks().cloned().collect();
        for task in &present {
            self.stop_attempt(task);
        }
        let reason = format!("the plan was restored to what it was after change {seq}");
        self.close_questions(&reason, |_| true);
        let asks: Vec<ModelQuestion> = self.plan.open_asks().cloned().collect();
        for ask in asks {
            let answered = Some(self.now);
            self.insert(ModelQuestion { answered, ..ask });
        }
        let kept: BTreeSet<TaskId> = earlier.tasks().map(|task| task.number).collect();
        // Removes these tasks first: a later task may have the key of one that comes back.
        let not_kept = |task: &Task| !kept.contains(&task.number);
        for task in present.into_iter().filter(not_kept) {
            let removed = true;
            self.insert(Task { removed, ..task });
        }
        for task in earlier.tasks() {
            let task = self.as_then(task);
            if self.plan.task(task.number) != Some(&task) {
                self.insert(task);
            }
        }
        let head = self.head_as_then(earlier.head(), &reason);
        let revision = head.revision;
        let now = self.plan.head().clone();
        if self.undo.len() == rows && head == (PlanHead { revision, ..now }) {
            return Err(Refusal::AsItWas(seq));
        }
        // Keeps these events: every role's wait was reported when it began, so its end must be reported too.
        let ends = |event: &Event| matches!(event, Event::RequestEnded { .. });
        let logged = self.events.split_off(events).into_iter();
        self.events.extend(logged.filter(ends));
        self.log(Event::Restored { seq });
        self.change_head(|now| *now = head);
        Ok(())
    }

    fn as_then(&self, then: &Task) -> Task {
        let mut task = then.clone();
        // The numbering of attempts continues; it includes attempts that this earlier state does not know.
        task.attempts = task.attempts.max(self.last_attempt(task.number));
        if task.status == TaskState::InProgress && self.plan.head().owner == DAEMON {
            task.status = TaskState::Pending;
            task.current = None;
            task.failures = 0;
            task.not_before = None;
        }
        task
    }

    /// Returns the earlier head with what has happened since: usage and granted amounts, where the results are, and the names
    /// by which the plan is known.
    fn head_as_then(&self, then: &PlanHead, reason: &str) -> PlanHead {
        let now = self.plan.head();
        let status = match &then.status {
            PlanState::Running | PlanState::Paused(_) if now.owner == DAEMON => {
                PlanState::Paused(reason.to_owned())
            }
            status => status.clone(),
        };
        // A deleted plan can be found again. Any other keeps its present archive state, even if another plan has become the
        // current one since.
        let archive_state = match now.archive_state {
            ArchiveState::Deleted => then.archive_state,
            archive_state => archive_state,
        };
        PlanHead {
            key: now.key.clone(),
            owner: now.owner.clone(),
            archive_state,
            taken_up: now.taken_up,
            put_away: now.in_history().map(Box::new),
            workspace: now.workspace.clone(),
            home: now.home.clone(),
            made_in: now.made_in.clone(),
            line: now.line.clone(),
            results: now.results,
            repository: now.repository.clone(),
            policy: now.policy.clone(),
            usage: now.usage,
            granted: now.granted.clone(),
            day_grant: now.day_grant.clone(),
            made_changes: now.made_changes.clone(),
            replans: now.replans,
            extra_replans: now.extra_replans,
            tree: now.tree.clone(),
            revision: now.revision + 1,
            next_task: now.next_task,
            created_at: now.created_at,
            status,
            ..then.clone()
        }
    }
}
