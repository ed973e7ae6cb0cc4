//! Checks where git does not keep the state before: they run in the workspace before the command goes out.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Subject, files_before, outcome, unknown};
use crate::config::BeforeWork;
use crate::plan::{Before, ChangeDetection, CheckBefore, CheckResult, Plan};

/// A command waits for checks that took at most this long the last time.
const QUICK: Duration = Duration::from_secs(5);

impl Subject {
    /// Returns why nothing shows that the result is judged by the files that judged before, where git does not keep those.
    pub(super) fn may_judge_itself(&self) -> Option<String> {
        // What the agent may change proves nothing, either.
        let (changed, files) = (&self.changed, self.judging().without_permits());
        let judges = |path: &&str| {
            let runs = files.runs(path) || files.runs_in_place(path);
            runs || files.judges(path) || files.configures(path) || files.is_manifest(path)
        };
        let what = match changed.paths().find(judges) {
            Some(path) => format!("the result changes {path}"),
            None if changed.more > 0 || changed.seen != ChangeDetection::Listing => {
                "not all that changed is known".to_owned()
            }
            None => return None,
        };
        Some(format!("{what}, and git does not keep what judged before"))
    }

    /// Runs the checks of the task in the workspace, unless an agent may be at work there.
    pub(super) async fn in_workspace(&self, held: bool) -> anyhow::Result<Vec<CheckBefore>> {
        let _alone = self.runs.earlier.lock().await;
        let mut why = match held && !self.begun {
            true => self.at_work().await?,
            false => Some("the work had begun".to_owned()),
        };
        let mut outcomes = Vec::new();
        for check in self.checks() {
            let slow = || is_slow(check.before, self.took.get(&check.name));
            outcomes.push(match why.clone().or_else(slow) {
                Some(why) => unknown(&check.name, &why),
                None => outcome(check, &self.run(check, &self.workspace).await?),
            });
        }
        outcomes.extend(files_before(&self.task, Ok(&self.workspace)).await?);
        // Another task may have begun meanwhile.
        why = why.or(self.at_work().await?);
        if let Some(why) = why {
            for before in &mut outcomes {
                before.outcome = Before::Unknown(why.clone());
            }
        }
        Ok(outcomes)
    }

    /// Returns which other tasks are at work in the workspace.
    async fn at_work(&self) -> anyhow::Result<Option<String>> {
        let task = self.task.number;
        let read = move |plan: &Plan, _| {
            let others = plan.open_attempts().filter(|other| other.task != task);
            let others: Vec<String> = others.map(|other| other.task.to_string()).collect();
            (!others.is_empty())
                .then(|| format!("at work in the same folder: task {}", others.join(", ")))
        };
        Ok(self.runs.settings.read(read).await?)
    }
}

/// Returns why a check does not run before the command goes out, by how long it took the last time.
fn is_slow(before: BeforeWork, took: Option<&Duration>) -> Option<String> {
    match took {
        _ if before == BeforeWork::Always => None,
        Some(took) if *took <= QUICK => None,
        Some(took) => {
            let took = took.as_secs();
            Some(format!("it did not run, as it took {took} s the last time"))
        }
        None => Some("it did not run, as it was not known to be quick".to_owned()),
    }
}

/// Returns how long the checks of a plan ran the last time on a result.
pub(super) fn last_times(plan: &Plan) -> BTreeMap<String, Duration> {
    // The ids of commands begin with their times.
    let attempts = plan.attempts();
    let checks = attempts.flat_map(|attempt| attempt.checks.iter().flatten());
    let took = |check: &CheckResult| {
        let took = Duration::from_millis(check.took_ms?);
        Some((check.name.clone(), took))
    };
    checks.filter_map(took).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_waits_for_quick_checks_only() {
        let waits = |before, seconds: Option<u64>| {
            is_slow(before, seconds.map(Duration::from_secs).as_ref()).is_none()
        };
        for (before, seconds, expected) in [
            (BeforeWork::Auto, Some(5), true),
            (BeforeWork::Auto, Some(6), false),
            (BeforeWork::Auto, None, false),
            (BeforeWork::Always, Some(600), true),
            (BeforeWork::Always, None, true),
        ] {
            assert_eq!(waits(before, seconds), expected, "{before:?} {seconds:?}");
        }
    }
}
