//! Checks of completed tasks that said nothing, as no test ran: they run again when later tasks are done.

use std::collections::BTreeSet;

use super::*;
use crate::plan::proof::{doubt_choice_of_model, evidence};

/// The most tasks whose checks run again; those that were completed last.
const MAX_SILENT: usize = 100;

impl Plan {
    /// Returns the names of the checks of completed tasks that said nothing.
    pub fn silent_checks(&self) -> BTreeSet<&str> {
        let tasks = self.head().silent.tasks.iter();
        let tasks = tasks.filter_map(|task| self.task(*task));
        let attempts = tasks.filter_map(|task| self.current_attempt(task));
        let silent = attempts.flat_map(Attempt::silent_checks);
        silent.map(|check| check.name.as_str()).collect()
    }
}

impl Draft<'_> {
    /// Notes that a task was completed, which lets the silent checks of others run again, and whether its own said nothing: what
    /// ran no test on its result need not run again.
    pub(super) fn note_silent(&mut self, task: TaskId, attempt: &Attempt) {
        let mut silent = self.plan.head().silent.clone();
        let known = |name: &str| attempt.silent_checks().any(|check| check.name == name);
        let news = !self.plan.silent_checks().into_iter().all(known);
        silent.tasks.retain(|other| *other != task);
        silent.later = match silent.is_empty() {
            true => 0,
            false => silent.later + u32::from(news),
        };
        if attempt.silent_checks().next().is_some() {
            silent.tasks.push(task);
            let most = silent.tasks.len().min(MAX_SILENT);
            silent.tasks = silent.tasks.split_off(silent.tasks.len() - most);
        }
        if self.plan.head().silent != silent {
            self.change_head(|head| head.silent = silent);
        }
    }

    /// Records how silent checks ended that ran again after so many later tasks; those that still say nothing are left out. A
    /// completed task whose check fails now is tried again.
    ///
    /// # Errors
    /// A task does not exist.
    pub fn checked_again(&mut self, later: u32, results: &[CheckResult]) -> Result {
        let mut still = Vec::new();
        for id in self.plan.head().silent.tasks.clone() {
            if self.speaks(id, results)? {
                still.push(id);
            }
        }
        self.change_head(|head| {
            head.silent.later = head.silent.later.saturating_sub(later);
            head.silent.tasks = still;
        });
        Ok(())
    }

    /// Puts new results in place of a task's silent ones; returns whether it is still completed with some that say nothing.
    fn speaks(&mut self, id: TaskId, results: &[CheckResult]) -> Result<bool> {
        let mut task = self.task(id)?;
        let attempt = self.plan.current_attempt(&task).cloned();
        let measured = task.evidence.as_ref().filter(|evidence| !evidence.by_hand);
        let counts = task.status == TaskState::Completed && measured.is_some();
        let Some(mut attempt) = attempt.filter(|_| counts) else {
            return Ok(false);
        };
        let mut news = false;
        let mut silent = false;
        let checks = attempt.checks.iter_mut().flatten();
        for check in checks.filter(|check| check.says_nothing()) {
            match results.iter().find(|result| result.name == check.name) {
                Some(result) => {
                    (*check, news) = (result.clone(), true);
                    doubt_choice_of_model(self.plan, &task, check);
                }
                None => silent = true,
            }
        }
        if !news {
            return Ok(silent);
        }
        let says =
            |check: &CheckResult| format!("check `{}` fails ({})", check.name, check.outcome());
        let failed = attempt.failing().next().map(says);
        let results = attempt.checks.as_deref().unwrap_or_default();
        self.log(Event::checked(id, &attempt.id, results));
        task.evidence = Some(evidence(&task, &attempt));
        self.insert_attempt(attempt);
        self.insert(task);
        let Some(failed) = failed else {
            return Ok(silent);
        };
        self.open_again(id, "", "a check of it fails now")?;
        let note = format!(
            "Your result was accepted when no test ran. Now that later tasks are done, {failed}. Mend it."
        );
        self.change_task(id, |task| task.note = Some(note))?;
        Ok(false)
    }
}
