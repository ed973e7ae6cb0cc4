//! Checks of completed tasks that said nothing, as no test ran: they run again when later tasks are done.

use std::collections::BTreeSet;

use super::{Draft, Refusal};
use crate::plan::event::Event;
use crate::plan::model::{Attempt, CheckResult, TaskId, TaskState};
use crate::plan::plan_in_memory::Plan;
use crate::plan::proof::evidence;

/// The most tasks whose checks run again; those that were completed last.
const MAX_SILENT: usize = 100;

impl Plan {
    /// Returns the names of the checks of completed tasks that said nothing.
    pub fn silent_checks(&self) -> BTreeSet<&str> {
        let tasks = self.head().silent.tasks.iter();
        let tasks = tasks.filter_map(|task| self.task(*task));
        let attempts = tasks.filter_map(|task| self.current_attempt(task));
        let checks = attempts.flat_map(|attempt| attempt.checks.iter().flatten());
        let silent = checks.filter(|check| check.says_nothing());
        silent.map(|check| check.name.as_str()).collect()
    }
}

impl Draft<'_> {
    /// Notes that a task was completed, which lets the silent checks of others run again, and whether its own said nothing: what
    /// ran no test on its result need not run again.
    pub(super) fn note_silent(&mut self, task: TaskId, attempt: &Attempt) {
        let mut silent = self.plan.head().silent.clone();
        let own = || {
            attempt
                .checks
                .iter()
                .flatten()
                .filter(|check| check.says_nothing())
        };
        let known = |name: &str| own().any(|check| check.name == name);
        let news = !self.plan.silent_checks().into_iter().all(known);
        silent.tasks.retain(|other| *other != task);
        silent.later = match silent.is_empty() {
            true => 0,
            false => silent.later + u32::from(news),
        };
        if own().next().is_some() {
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
    pub fn checked_again(&mut self, later: u32, results: &[CheckResult]) -> Result<(), Refusal> {
        let mut silent = self.plan.head().silent.clone();
        silent.later = silent.later.saturating_sub(later);
        let mut still = Vec::new();
        for id in std::mem::take(&mut silent.tasks) {
            if self.speaks(id, results)? {
                still.push(id);
            }
        }
        silent.tasks = still;
        self.change_head(|head| head.silent = silent);
        Ok(())
    }

    /// Puts new results in place of a task's silent ones; returns whether it is still completed with some that say nothing.
    fn speaks(&mut self, id: TaskId, results: &[CheckResult]) -> Result<bool, Refusal> {
        let mut task = self.task(id)?;
        let by_hand = task
            .evidence
            .as_ref()
            .is_none_or(|evidence| evidence.by_hand);
        let attempt = self.plan.current_attempt(&task).cloned();
        let counts = task.status == TaskState::Completed && !by_hand;
        let Some(mut attempt) = attempt.filter(|_| counts) else {
            return Ok(false);
        };
        let mut news = false;
        let mut silent = false;
        for check in attempt
            .checks
            .iter_mut()
            .flatten()
            .filter(|check| check.says_nothing())
        {
            match results.iter().find(|result| result.name == check.name) {
                Some(result) => (*check, news) = (result.clone(), true),
                None => silent = true,
            }
        }
        if !news {
            return Ok(silent);
        }
        let failed = attempt.failing().next();
        let failed =
            failed.map(|check| format!("check `{}` fails ({})", check.name, check.outcome()));
        self.log(Event::Checked {
            task: id,
            command: attempt.id.clone(),
            passed: failed.is_none(),
        });
        task.evidence = Some(evidence(&task, &attempt));
        self.insert_attempt(attempt);
        self.insert(task);
        let Some(failed) = failed else {
            return Ok(silent);
        };
        self.open_again(id, "", "a check of it fails now")?;
        let mut task = self.task(id)?;
        task.note = Some(format!(
            "Your result was accepted when no test ran. Now that later tasks are done, {failed}. Mend it."
        ));
        self.insert(task);
        Ok(false)
    }
}
