//! What proved completed tasks runs once more on the state that all tasks have left.

use super::{ProofRuns, outcome};
use crate::plan::{Before, CheckResult, Plan, Time};

impl ProofRuns {
    /// Runs the checks that [`Plan::unconfirmed`] names; returns when the last task was completed, and the results that say
    /// something. What fails for want of a tool or a port, or only at times, says nothing against the results.
    pub async fn at_end(&self) -> anyhow::Result<(Time, Vec<CheckResult>)> {
        let runs = self.clone();
        let read = move |plan: &Plan, _| {
            let (after, names) = plan.unconfirmed();
            let tip = plan.head().line.as_ref().map(|line| line.tip.clone());
            let subject = names.values().next();
            let subject = subject.and_then(|task| runs.subject(plan, *task));
            (after, tip, names, subject)
        };
        let (after, tip, names, subject) = self.settings.read(read).await?;
        let Some(mut subject) = subject else {
            return Ok((after, Vec::new()));
        };
        let _alone = self.earlier.lock().await;
        subject.names = names.into_keys().collect();
        let replaced = subject.replaced().await?;
        let place = match tip {
            Some(tip) => match subject.lay_out(&tip).await {
                Ok(place) => place.folder().to_owned(),
                Err(why) => {
                    let failed = |name: &String| CheckResult::failed(name, &why);
                    return Ok((after, subject.names.iter().map(failed).collect()));
                }
            },
            None => subject.workspace.clone(),
        };
        let mut results = Vec::new();
        for check in subject.configured() {
            if replaced.iter().any(|result| result.name == check.name) {
                continue;
            }
            let mut run = subject.run(check, &place).await?;
            if !run.passed {
                run = subject.run(check, &place).await?;
            }
            if !matches!(outcome(check, &run).outcome, Before::Unknown(_)) {
                results.push(run);
            }
        }
        Ok((after, results))
    }
}
