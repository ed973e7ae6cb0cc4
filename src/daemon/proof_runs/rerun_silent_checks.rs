//! Checks of completed tasks that ran no test run again when later tasks are done.

use super::{ProofRuns, outcome};
use crate::plan::{Before, CheckResult, Plan, counted};

impl ProofRuns {
    /// Runs silent checks of completed tasks on the state after later tasks; returns the number of these, and results that say
    /// something.
    pub async fn again(&self) -> anyhow::Result<(u32, Vec<CheckResult>)> {
        let runs = self.clone();
        let read = move |plan: &Plan, _| {
            let head = plan.head();
            let silent = plan.silent_checks().into_iter();
            let names: Vec<String> = silent.map(str::to_owned).collect();
            let state = head.line.as_ref().map(|line| line.tip.clone());
            let state = state.or_else(|| head.tree.clone());
            let mut tasks = head.silent.tasks.iter();
            let subject = tasks.find_map(|task| runs.subject(plan, *task));
            (head.silent.later, names, state, subject)
        };
        let (later, names, state, subject) = self.settings.read(read).await?;
        let Some(subject) = subject else {
            return Ok((later, Vec::new()));
        };
        let _alone = self.earlier.lock().await;
        let place = match state {
            Some(state) => match subject.lay_out(&state).await {
                Ok(place) => place.folder().to_owned(),
                Err(why) => {
                    tracing::warn!(why, "checks that said nothing do not run again");
                    return Ok((later, Vec::new()));
                }
            },
            None => subject.workspace.clone(),
        };
        let mut results = Vec::new();
        let checks = &self.settings.config.checks;
        for check in names.iter().filter_map(|name| checks.get(name)) {
            let mut run = subject.run(check, &place).await?;
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
