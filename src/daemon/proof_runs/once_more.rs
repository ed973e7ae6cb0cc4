//! What would prove a result is tried once more, where it may have passed for another reason than the result.

use super::{Compared, ProofRuns, Subject, named, run_check};
use crate::daemon::worktrees::prepare;
use crate::plan::CheckResult;

impl ProofRuns {
    /// Runs checks that failed before the work, and pass now, on the result as the state before was tried: in a folder aside, with
    /// what git keeps, and without the tests that the result adds, which may change what others test. Those that fail so get a
    /// doubt.
    pub(super) async fn once_more(
        &self,
        subject: &Subject,
        own: &Compared,
        merged: bool,
        results: Vec<&mut CheckResult>,
    ) -> anyhow::Result<()> {
        let (settings, changes) = (&self.settings, &own.changes);
        let (was_aside, added) = (merged || !changes.restored.is_empty(), &changes.added);
        // A plain check may be about the files that are added.
        let (plain, others): (Vec<_>, Vec<_>) = results
            .into_iter()
            .partition(|result| self.is_plain(&result.name));
        for (results, absent) in [(plain, &[][..]), (others, added.as_slice())] {
            if results.is_empty() || was_aside && absent.is_empty() {
                continue;
            }
            let absent: Vec<_> = absent.iter().map(|file| file.removed()).collect();
            let files = [changes.restored.as_slice(), absent.as_slice()].concat();
            let tree = own.place.with_files(&own.delivered, &files).await?;
            own.place.lay_out(&tree).await?;
            // Where it fails, the checks say so.
            prepare(settings, &own.place, &subject.first).await?;
            let without = format!("without {}, which the agent wrote", named(&absent));
            let how = match (was_aside, absent.is_empty()) {
                (true, _) => without,
                (false, true) => "with only what git keeps".to_owned(),
                (false, false) => format!("with only what git keeps, and {without}"),
            };
            for result in results {
                let Some(check) = settings.checks.get(&result.name) else {
                    continue;
                };
                let run = run_check(settings, check, own.place.folder(), &subject.first).await?;
                if !run.passed {
                    result.doubt = format!("it fails {how}");
                }
            }
        }
        Ok(())
    }
}
