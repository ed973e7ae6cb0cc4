//! What proved a completed task has to hold at the end of the plan, too: later tasks may have undone it.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::plan::proof::check_names;

impl Plan {
    /// Returns when the last task was completed, and the checks and files that proved tasks before it, with the numbers of these;
    /// none of those that have been looked at since. What the last task was checked with need not run again.
    pub fn unconfirmed(&self) -> (Time, BTreeMap<String, Vec<TaskId>>) {
        let completed = || self.tasks_in(TaskState::Completed);
        let finished = |task: &&Task| task.finished_at.unwrap_or_default();
        let last = completed().max_by_key(finished);
        let Some(last) = last.filter(|last| finished(last) > self.head().final_checks.after) else {
            return Default::default();
        };
        let last_checked: BTreeSet<&str> = self.passed(last).collect();
        let mut names = BTreeMap::<String, Vec<TaskId>>::new();
        for task in completed().filter(|task| task.evidence.as_ref().is_some_and(is_met_in_part)) {
            let files: Vec<String> = task.criteria.files().map(ToString::to_string).collect();
            let known: BTreeSet<&String> = check_names(self, task).chain(&files).collect();
            let passed = self.passed(task).map(str::to_owned);
            let again =
                passed.filter(|name| known.contains(name) && !last_checked.contains(&**name));
            for name in again {
                names.entry(name).or_default().push(task.number);
            }
        }
        (finished(&last), names)
    }

    /// Returns the names of what passed on the result of a task.
    fn passed(&self, task: &Task) -> impl Iterator<Item = &str> {
        let checks = self
            .current_attempt(task)
            .and_then(|attempt| attempt.checks.as_ref());
        let passed = checks.into_iter().flatten().filter(|check| check.passed);
        passed.map(|check| check.name.as_str())
    }
}

fn is_met_in_part(evidence: &Evidence) -> bool {
    let met = |criterion: &CriterionResult| criterion.state == CriterionState::Met;
    !evidence.by_hand && evidence.criteria.iter().any(met)
}

impl Draft<'_> {
    /// Records how checks ended on the state that all tasks have left, the last of which was completed at a time. A task whose proof
    /// fails now is opened again; the second time, a person is asked about it.
    ///
    /// # Errors
    /// A task does not exist.
    pub fn checked_at_end(&mut self, after: Time, results: &[CheckResult]) -> Result {
        let (last, names) = self.plan.unconfirmed();
        if last != after {
            // A person has changed something meanwhile: they run once more.
            return Ok(());
        }
        let mut failed = BTreeMap::<TaskId, Vec<&CheckResult>>::new();
        for result in results.iter().filter(|result| !result.passed) {
            for task in names.get(&result.name).into_iter().flatten() {
                failed.entry(*task).or_default().push(result);
            }
        }
        self.change_head(|head| head.final_checks.after = after);
        for (id, results) in failed {
            let said = results
                .iter()
                .map(|check| format!("`{}` ({})", check.name, check.outcome()));
            let said = said.collect::<Vec<_>>().join(", ");
            let attempt = self.plan.current_attempt(&self.task(id)?);
            if let Some(mut attempt) = attempt.cloned() {
                for check in attempt.checks.iter_mut().flatten() {
                    let now = results.iter().find(|result| result.name == check.name);
                    now.into_iter().for_each(|now| check.clone_from(now));
                }
                let results = attempt.checks.as_deref().unwrap_or_default();
                self.log(Event::checked(id, &attempt.id, results));
                self.insert_attempt(attempt);
            }
            self.open_again(id, "", "what proved it fails now")?;
            let note = format!(
                "Your result was proven, and a later task has undone it: now this fails: {said}. Mend it, and keep what the \
                 other tasks have made."
            );
            self.change_task(id, |task| task.note = Some(note))?;
            if self.plan.head().final_checks.reopened.contains(&id) {
                let reason = format!(
                    "what proved the task fails at the end of the plan for the second time, as later tasks undo it: {said}"
                );
                self.ask(HumanQuestionKind::Failures, Some(id), &reason)?;
            } else {
                self.change_head(|head| head.final_checks.reopened.push(id));
            }
        }
        Ok(())
    }
}
