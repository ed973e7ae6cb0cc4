//! Going back to an earlier state of a plan. It is a change like any other: nothing is taken out of the history.

use std::collections::BTreeSet;

use super::{Draft, Refusal};
use crate::plan::DAEMON;
use crate::plan::event::Event;
use crate::plan::model::{Ask, Head, PlanStatus, Shelf, Task, TaskId, TaskStatus};
use crate::plan::state::Plan;

impl Draft<'_> {
    /// Makes the plan what it was after its change `seq`: its tasks and what is said of the plan. Tasks made since are
    /// taken out, and their numbers are not used again. What has been tried, asked and used since stays recorded: it has
    /// happened. Nothing that is under way goes on: attempts are stopped, questions closed. A plan that a daemon was
    /// carrying out then is paused, so that a person decides when agents go on with it; a task that was under way then is
    /// pending, for nobody works on it any more.
    ///
    /// # Errors
    /// The plan is in this state already.
    pub fn restore(&mut self, earlier: &Plan, seq: i64) -> Result<(), Refusal> {
        let told = (self.undo.len(), self.events.len());
        let present: Vec<Task> = self.plan.tasks().cloned().collect();
        for task in &present {
            self.stop_attempt(task);
        }
        let reason = format!("the plan was restored to what it was after change {seq}");
        self.close_questions(&reason, |_| true);
        let asks: Vec<Ask> = self.plan.open_asks().cloned().collect();
        for mut ask in asks {
            ask.answered = Some(self.now);
            self.put(ask);
        }

        let kept: BTreeSet<TaskId> = earlier.tasks().map(|task| task.number).collect();
        // Those first: a later task may have the key of one that comes back.
        for mut task in present {
            if !kept.contains(&task.number) {
                task.removed = true;
                self.put(task);
            }
        }
        for task in earlier.tasks() {
            let task = self.as_then(task);
            if self.plan.task(task.number) != Some(&task) {
                self.put(task);
            }
        }
        let head = self.head_as_then(earlier.head(), &reason);
        let same = |head: &Head, other: &Head| {
            Head {
                revision: head.revision,
                ..other.clone()
            } == *head
        };
        if self.undo.len() == told.0 && same(&head, self.plan.head()) {
            return Err(Refusal::AsItWas(seq));
        }
        // That nobody waits any more is told of everybody who did: that they began to was.
        let told: Vec<Event> = self.events.drain(told.1..).collect();
        let ends = |event: &Event| matches!(event, Event::RequestEnded { .. });
        self.events.extend(told.into_iter().filter(ends));
        self.tell(Event::Restored { seq });
        self.change_head(|now| *now = head);
        Ok(())
    }

    fn as_then(&self, then: &Task) -> Task {
        let mut task = then.clone();
        // Attempts are numbered on, also those that this state of the plan does not know.
        task.attempts = task.attempts.max(self.last_attempt(task.number));
        let carried_out = self.plan.head().owner == DAEMON;
        if task.status == TaskStatus::InProgress && carried_out {
            task.status = TaskStatus::Pending;
            task.current = None;
            task.failures = 0;
            task.not_before = None;
        }
        task
    }

    /// Returns the head as it was, with what has happened since: what was used and allowed, where the results are, and by
    /// which names the plan is known.
    fn head_as_then(&self, then: &Head, reason: &str) -> Head {
        let now = self.plan.head();
        let status = match &then.status {
            PlanStatus::Running | PlanStatus::Paused(_) if now.owner == DAEMON => {
                PlanStatus::Paused(reason.to_owned())
            }
            status => status.clone(),
        };
        // What was deleted is found again; else it is put away or in use as it is now, whoever took its place since.
        let shelf = match now.shelf {
            Shelf::Deleted => then.shelf,
            shelf => shelf,
        };
        Head {
            key: now.key.clone(),
            owner: now.owner.clone(),
            shelf,
            taken_up: now.taken_up,
            put_away: now.in_history().map(Box::new),
            workspace: now.workspace.clone(),
            line: now.line.clone(),
            repository: now.repository.clone(),
            policy: now.policy.clone(),
            usage: now.usage,
            granted: now.granted.clone(),
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
