//! Checks of completed tasks that ran no test run again when later tasks are done.

use std::collections::BTreeSet;

use super::{ProofRuns, Subject, outcome, run_check};
use crate::plan::{Before, CheckResult, Plan, counted};

impl ProofRuns {
    /// Runs silent checks of completed tasks on the state after later tasks; returns the number of these, and results that say
    /// something.
    pub async fn again(&self) -> anyhow::Result<(u32, Vec<CheckResult>)> {
        let read = |plan: &Plan, _| {
            let head = plan.head();
            let silent = head.silent.tasks.iter().filter_map(|task| plan.task(*task));
            let attempts = silent.clone().filter_map(|task| plan.current_attempt(task));
            let checks = attempts.flat_map(|attempt| attempt.checks.iter().flatten());
            let checks = checks.filter(|check| check.says_nothing());
            let names: BTreeSet<String> = checks.map(|check| check.name.clone()).collect();
            let state = head.line.as_ref().map(|line| line.tip.clone());
            let state = state.or_else(|| head.tree.clone());
            let subject = silent
                .clone()
                .find_map(|task| Subject::of(plan, task.number));
            (head.silent.later, names, state, subject)
        };
        let (later, names, state, subject) = self.store.read(&self.settings.plan, read).await?;
        let Some(subject) = subject else {
            return Ok((later, Vec::new()));
        };
        let _alone = self.earlier.lock().await;
        let place = match state {
            Some(state) => match self.lay_out(&subject, &state, &state).await {
                Ok(place) => place.folder().to_owned(),
                Err(why) => {
                    tracing::warn!(why, "checks that said nothing do not run again");
                    return Ok((later, Vec::new()));
                }
            },
            None => subject.workspace.clone(),
        };
        let mut results = Vec::new();
        for check in names
            .iter()
            .filter_map(|name| self.settings.checks.get(name))
        {
            let mut run = run_check(&self.settings, check, &place, &subject.first).await?;
            match (outcome(check, &run).outcome, run.tests) {
                (Before::Red, _) => {}
                (Before::Green, Some(tests @ 1..)) => {
                    let tests = counted(tests, "test");
                    run.doubt = format!(
                        "no test ran on its own result, and {tests} once later tasks were done"
                    );
                }
                _ => continue,
            }
            results.push(run);
        }
        Ok((later, results))
    }
}
