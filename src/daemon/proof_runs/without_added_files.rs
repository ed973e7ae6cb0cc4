//! What would prove a result is tried once more, where it may have passed for another reason than the result.

use super::{Compared, Subject, named};
use crate::config::CheckConfig;
use crate::exec::{CheckFolder, GitError, TreeFile};
use crate::plan::{CheckResult, unless_empty};

impl Subject {
    /// Adds what earlier tasks of the plan changed of the files that judge: they may have prepared them for this one.
    pub(super) async fn look_back(&self, compared: &mut Compared) -> Result<(), GitError> {
        if let Some(began) = &self.began {
            let (trees, judging) = ([&**began, &compared.before], self.judging());
            let (earlier, _) = compared.place.judges_changed(trees, &judging).await?;
            compared.changes.keep(earlier);
        }
        Ok(())
    }

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
            let as_was = absent.is_empty() && changes.kept.is_empty();
            if was_aside && as_was {
                continue;
            }
            let absent: Vec<_> = absent.iter().map(|file| file.removed()).collect();
            let without = format!("without {}, which the agent wrote", named(&absent));
            let how = match (was_aside, absent.is_empty()) {
                (true, true) => String::new(),
                (true, false) => without,
                (false, true) => "with only what git keeps".to_owned(),
                (false, false) => format!("with only what git keeps, and {without}"),
            };
            self.doubt_by(own, &absent, &how, results).await?;
        }
        Ok(())
    }

    /// Runs checks in a folder aside on the result with all files that judge as they were, also those that checks see as agents left
    /// them, and without some. `how` says more of what is different there. Those that fail so get a doubt.
    pub(super) async fn doubt_by(
        &self,
        own: &Compared,
        absent: &[TreeFile],
        how: &str,
        results: Vec<&mut CheckResult>,
    ) -> anyhow::Result<()> {
        if results.is_empty() {
            return Ok(());
        }
        let kept = own.changes.kept.as_slice();
        let files = [own.changes.restored.as_slice(), kept, absent].concat();
        let tree = own.place.with_files(&own.delivered, &files).await?;
        own.place.lay_out(&tree).await?;
        // Where it fails, the checks say so.
        self.prepare(&own.place).await?;
        let as_before = match kept {
            [] => String::new(),
            files => format!("with {} as before", named(files)),
        };
        let parts = [how, &as_before].into_iter();
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        let how = parts.join(", and ");
        for result in results {
            let Some(check) = self.runs.settings.config.checks.get(&result.name) else {
                continue;
            };
            let mut run = self.run(check, own.place.folder()).await?;
            if !run.passed {
                result.doubt = format!("it fails {how}");
                continue;
            }
            if let Some(why) = self.rewrites(&own.place).await? {
                result.doubt = why;
                continue;
            }
            self.anew(&own.place, &tree, [&mut run]).await?;
            result.doubt = match run.passed {
                true => run.doubt,
                false => format!("it {}", run.finding),
            };
        }
        Ok(())
    }

    /// Runs checks that pass once more, with everything made anew, where agents may have left what `make` takes for up to date:
    /// those in which tests fail so have failed if something that they left was made otherwise and they fail with that, too; others
    /// that fail get a doubt.
    pub(super) async fn anew(
        &self,
        place: &CheckFolder,
        tree: &str,
        results: impl IntoIterator<Item = &mut CheckResult>,
    ) -> anyhow::Result<()> {
        let Some(since) = self.began.as_ref().or(self.tree.as_ref()) else {
            return Ok(());
        };
        // The first state may be gone, as that of a shared folder is once the plan has ended.
        let left = place.possible_products(since, tree).await;
        let left = left.unwrap_or_default();
        if left.is_empty() {
            return Ok(());
        }
        for result in results.into_iter().filter(|result| result.passed) {
            let Some(check) = self.runs.settings.config.checks.get(&result.name) else {
                continue;
            };
            let anew = ["env", "MAKEFLAGS=B"].map(str::to_owned).into_iter();
            let anew = CheckConfig {
                argv: anew.chain(check.argv.iter().cloned()).collect(),
                ..check.clone()
            };
            let mut run = self.run(&anew, place.folder()).await?;
            if !run.passed {
                // What fails only at times says nothing against the result.
                run = self.run(&anew, place.folder()).await?;
            }
            if run.passed {
                continue;
            }
            // Where nothing else comes of what they left, the project itself cannot be made anew.
            let made = place.rewritten(|path| left.contains(path)).await?;
            let remade = run.doubt.is_empty() && !made.is_empty();
            if remade {
                // It may be only the making that fails, as of a folder that is there.
                run = self.run(check, place.folder()).await?;
            }
            if remade && !run.passed && run.doubt.is_empty() {
                let finding = format!("fails where `make` makes {made} anew");
                *result = CheckResult { finding, ..run };
            } else if result.doubt.is_empty() {
                let why = unless_empty(&run.doubt, |why| format!(": {why}"));
                result.doubt = format!("it fails with everything made anew{why}");
            }
        }
        Ok(())
    }
}
