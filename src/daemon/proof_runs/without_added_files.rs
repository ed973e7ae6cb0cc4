//! What would prove a result is tried once more, where it may have passed for another reason than the result.

use super::{Compared, Subject, named};
use crate::plan::CheckResult;

impl Subject {
    /// Runs checks that failed before the work, and pass now, on the result as the state before was tried: in a folder aside, with
    /// what git keeps, and without the tests that the result adds, which may change what others test. Those that fail so get a
    /// doubt. `was_aside` says that they passed in such a folder.
    pub(super) async fn once_more(
        &self,
        own: &Compared,
        was_aside: bool,
        results: Vec<&mut CheckResult>,
    ) -> anyhow::Result<()> {
        let changes = &own.changes;
        // A plain check may be about the files that are added.
        let (plain, others): (Vec<_>, Vec<_>) = results
            .into_iter()
            .partition(|result| self.runs.is_plain(&result.name));
        for (results, absent) in [(plain, &[][..]), (others, changes.added.as_slice())] {
            if results.is_empty() || was_aside && absent.is_empty() {
                continue;
            }
            let absent: Vec<_> = absent.iter().map(|file| file.removed()).collect();
            let files = [changes.restored.as_slice(), absent.as_slice()].concat();
            let tree = own.place.with_files(&own.delivered, &files).await?;
            own.place.lay_out(&tree).await?;
            // Where it fails, the checks say so.
            self.prepare(&own.place).await?;
            let without = format!("without {}, which the agent wrote", named(&absent));
            let how = match (was_aside, absent.is_empty()) {
                (true, _) => without,
                (false, true) => "with only what git keeps".to_owned(),
                (false, false) => format!("with only what git keeps, and {without}"),
            };
            for result in results {
                let Some(check) = self.runs.settings.config.checks.get(&result.name) else {
                    continue;
                };
                if !self.run(check, own.place.folder()).await?.passed {
                    result.doubt = format!("it fails {how}");
                }
            }
        }
        Ok(())
    }
}
