//! What proved completed tasks runs once more on the state that all tasks have left.

use super::{ProofRuns, Subject};
use crate::daemon::effect_work::produced;
use crate::plan::{CheckResult, Plan, TaskId, Time};

impl ProofRuns {
    /// Runs the checks that [`Plan::unconfirmed`] names, and looks at the files; returns when the last task was completed, and the
    /// results.
    pub async fn at_end(&self) -> anyhow::Result<(Time, Vec<CheckResult>)> {
        let runs = self.clone();
        let read = move |plan: &Plan, _| {
            let (after, names) = plan.unconfirmed();
            let tip = plan.head().line.as_ref().map(|line| line.tip.clone());
            let of_task = |task: &TaskId| runs.subject(plan, *task);
            let with_subject = |(name, tasks): (String, Vec<TaskId>)| {
                Some((name, tasks.first().and_then(of_task)?))
            };
            let checks: Vec<(String, Subject)> =
                names.into_iter().filter_map(with_subject).collect();
            (after, tip, checks)
        };
        let (after, tip, checks) = self.settings.read(read).await?;
        let Some((_, subject)) = checks.first() else {
            return Ok((after, Vec::new()));
        };
        let _alone = self.earlier.lock().await;
        let place = match tip {
            Some(tip) => match subject.lay_out(&tip, &tip).await {
                Ok(place) => place.folder().to_owned(),
                Err(why) => {
                    tracing::warn!(why, "what proved tasks is not looked at again");
                    return Ok((after, Vec::new()));
                }
            },
            None => subject.workspace.clone(),
        };
        let mut results = Vec::new();
        for (name, subject) in &checks {
            let Some(check) = self.settings.config.checks.get(name) else {
                let mut found = produced(&subject.task, &place, Time::default()).await?;
                found.retain(|result| result.name == *name);
                results.extend(found);
                continue;
            };
            let mut run = subject.run(check, &place).await?;
            if !run.passed {
                // What fails only at times says nothing against the results.
                run = subject.run(check, &place).await?;
            }
            results.push(run);
        }
        Ok((after, results))
    }
}
