//! What proved a completed task has to hold at the end of the plan, too: later tasks may have undone it.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::plan::proof::{check_names, proves};

impl Plan {
    /// Returns when the last task was completed, and the checks that proved tasks before it, each with the last of its tasks; none
    /// that have run since. What the last task was checked with need not run again. Files are left out: a later task may move them.
    pub fn unconfirmed(&self) -> (Time, BTreeMap<String, TaskId>) {
        let counts = self.counts();
        if self.status().settled() || counts.settled() < counts.total() {
            return Default::default();
        }
        let mut completed: Vec<&Task> = self.tasks_in(TaskState::Completed).collect();
        completed.sort_by_key(|task| task.finished_at);
        let last = completed.last().copied();
        let finished = last.and_then(|last| last.finished_at).unwrap_or_default();
        let mut names = BTreeMap::new();
        if finished <= self.head().final_checks.after {
            return (finished, names);
        }
        for task in &completed {
            let evidence = task.evidence.as_ref();
            let measured = evidence.is_some_and(|evidence| !evidence.by_hand);
            let attempt = self.current_attempt(task).filter(|_| measured);
            let known: BTreeSet<&String> = check_names(self, task).collect();
            if let Some(attempt) = attempt {
                let proof = attempt.checks.iter().flatten().filter(|check| {
                    let passed = check.passed && known.contains(&check.name);
                    passed && proves(task, attempt, check).is_ok()
                });
                names.extend(proof.map(|check| (check.name.clone(), task.number)));
            }
        }
        let attempt = last.and_then(|last| self.current_attempt(last));
        let checks = attempt.and_then(|attempt| attempt.checks.as_ref());
        for check in checks.into_iter().flatten().filter(|check| check.passed) {
            names.remove(&check.name);
        }
        (finished, names)
    }
}

impl Draft<'_> {
    /// Records how checks ended on the state that all tasks have left, the last of which was completed at a time. Of the tasks that a
    /// failing check proved, the last one is opened again: its next result is checked with it, and holds for the others. The second
    /// time, a person is asked about it.
    ///
    /// # Errors
    /// A task does not exist.
    pub fn checked_at_end(&mut self, after: Time, results: &[CheckResult]) -> Result {
        let (last, names) = self.plan.unconfirmed();
        if last != after || names.is_empty() {
            // The plan has ended, or something was changed meanwhile: what is still to be checked runs once more.
            return Ok(());
        }
        self.change_head(|head| head.final_checks.after = after);
        for result in results.iter().filter(|result| !result.passed) {
            if let Some(task) = names.get(&result.name) {
                self.fails_at_end(*task, result)?;
            }
        }
        Ok(())
    }

    fn fails_at_end(&mut self, id: TaskId, result: &CheckResult) -> Result {
        let task = self.task(id)?;
        if let Some(mut attempt) = self.plan.current_attempt(&task).cloned() {
            let checks = attempt.checks.iter_mut().flatten();
            for check in checks.filter(|check| check.name == result.name) {
                check.clone_from(result);
            }
            let results = attempt.checks.as_deref().unwrap_or_default();
            self.log(Event::checked(id, &attempt.id, results));
            self.insert_attempt(attempt);
        }
        // Two checks of it may fail.
        if task.status == TaskState::Completed {
            self.open_again(id, "", "what proved it fails now")?;
        }
        let said = format!("`{}` ({})", result.name, result.outcome());
        let note = format!(
            "Your result was proven, and now that all tasks are done, this fails: {said}. Mend it, and keep what the other tasks \
             have made."
        );
        self.change_task(id, |task| task.note = Some(note))?;
        let reopened = &self.plan.head().final_checks.reopened;
        if reopened.contains(&id) && task.status == TaskState::Completed {
            let reason = format!(
                "what proved the task fails at the end of the plan for the second time, as later tasks undo it: {said}"
            );
            return self.ask(HumanQuestionKind::Failures, Some(id), &reason);
        }
        self.change_head(|head| head.final_checks.reopened.push(id));
        Ok(())
    }
}
