//! Operations on the integration branch that collects a plan's results, for plans whose tasks have worktrees.

use std::mem;

use super::*;

impl Draft<'_> {
    /// Decides whether each task gets a worktree, as long as that is open.
    pub fn decide_isolation(&mut self, isolated: bool) {
        if self.plan.head().isolated.is_none() {
            self.change_head(|head| head.isolated = Some(isolated));
        }
    }

    /// Gives each task of the plan a worktree below `folder`, starting from a commit and the branch that is checked out. A
    /// plan that already has worktrees keeps both. Returns whether anything changed.
    ///
    /// # Errors
    /// The plan has ended, or agents have worked on it in a shared workspace.
    pub fn isolate(&mut self, base: &str, began_on: Option<&str>, folder: &str) -> Result<bool> {
        self.not_settled()?;
        let line = match &self.plan.head().line {
            Some(line) if line.folder == folder => return Ok(false),
            Some(line) => line.clone(),
            None if self.plan.attempts().next().is_some() => return Err(Refusal::Shared),
            None => IntegrationBranch {
                base: base.to_owned(),
                began_on: began_on.map(str::to_owned),
                tip: base.to_owned(),
                ..IntegrationBranch::default()
            },
        };
        let folder = folder.to_owned();
        self.change_head(|head| head.line = Some(IntegrationBranch { folder, ..line }));
        Ok(true)
    }

    /// Records the repository of the workspace. Once agents have worked there, the record does not change.
    pub fn found_repository(&mut self, repository: &Repository) {
        let known = self.plan.head().repository.as_deref();
        let worked = self.plan.attempts().next().is_some();
        if known.is_none() || !worked && known != Some(repository) {
            let repository = Some(Box::new(repository.clone()));
            self.change_head(|head| head.repository = repository);
        }
    }

    /// Records that the result of a reported attempt was merged aside.
    ///
    /// # Errors
    /// The attempt awaits no checks, or other results have been accepted since.
    pub fn merged(&mut self, id: &CommandId, merge: PendingMerge) -> Result {
        let tip = self.line()?.tip;
        let mut attempt = self.attempt_if(id, |attempt| {
            let awaited = attempt.state == AttemptState::Reported && attempt.checks.is_none();
            awaited && tip == merge.onto
        })?;
        attempt.merge = Some(merge);
        self.insert_attempt(attempt);
        Ok(())
    }

    /// Decides an attempt that was accepted before other results were, and that has since been merged and checked with them.
    /// Its task is completed, or the attempt has failed if the results conflict.
    /// # Errors
    /// The attempt was not accepted, or is not merged and checked.
    pub fn accept_merged(&mut self, id: &CommandId) -> Result {
        let mut attempt = self.attempt(id)?;
        let accepted = (attempt.verdict.take())
            .filter(|verdict| verdict.decision == Decision::Next)
            .filter(|_| attempt.state == AttemptState::Reported && attempt.checks.is_some());
        let verdict = accepted.ok_or_else(|| Refusal::NotAwaited(id.clone()))?;
        attempt.state = AttemptState::Judged;
        if super::acceptable(&attempt) {
            attempt.verdict = Some(verdict.clone());
            return self.accept(attempt, &verdict);
        }
        let name = attempt.failing().next().map_or("", |check| &check.name);
        let reason = format!("accepted, but with what was accepted meanwhile check `{name}` fails");
        self.fail_attempt(attempt, &reason, &reason, verdict.by)
    }

    /// Sends an accepted attempt back to be merged, because other results have been accepted since.
    pub(super) fn merge_again(&mut self, mut attempt: Attempt, verdict: &Verdict) -> Result {
        attempt.state = AttemptState::Reported;
        attempt.verdict = Some(verdict.clone());
        attempt.checks = None;
        attempt.merge = None;
        self.insert_attempt(attempt);
        Ok(())
    }

    /// Moves the integration branch to the merge of an accepted result.
    pub(super) fn accept_merge(&mut self, attempt: &Attempt, commit: String) {
        let line = self.plan.head().line.as_ref();
        if line.is_some_and(|line| line.tip != commit) {
            self.log(Event::Merged {
                task: attempt.task,
                command: attempt.id.clone(),
                commit: commit.clone(),
            });
        }
        self.move_tip(commit);
    }

    fn move_tip(&mut self, commit: String) {
        self.change_head(|head| {
            if let Some(line) = &mut head.line
                && line.tip != commit
            {
                line.tip = commit;
                // There is something new to take over.
                head.results = None;
            }
        });
    }

    /// Records the commit that the branch now points to.
    ///
    /// # Errors
    /// The plan has no such branch.
    pub fn branch_moved(&mut self, to: &str) -> Result {
        self.change_line(|line| {
            line.shown = Some(to.to_owned());
            (line.elsewhere, line.moved_from) = (None, None);
        })
    }

    /// Records that a person or another program has moved the branch (deleted it, if `found` is empty) or has it checked out,
    /// and asks a human unless the plan has ended.
    ///
    /// # Errors
    /// The plan has no such branch.
    pub fn branch_elsewhere(&mut self, found: &str, reason: &str) -> Result {
        self.change_line(|line| line.elsewhere = Some(found.to_owned()))?;
        match self.plan.status().settled() {
            true => Ok(()),
            false => self.ask(HumanQuestionKind::Branch, None, reason),
        }
    }

    /// Adds commits that others have put onto the branch to the accepted results.
    ///
    /// # Errors
    /// The plan has no such branch, or other results have been accepted since.
    pub fn branch_joined(&mut self, merge: &PendingMerge) -> Result {
        refuse_if(self.line()?.tip != merge.onto, Refusal::Outdated)?;
        self.move_tip(merge.commit.clone());
        self.change_line(|line| line.moved_from = None)
    }

    /// Records what a person did with the results. Where their branch is `gone` with that, a plan that goes on makes it again.
    pub fn results_moved(&mut self, how: ResultsMove, place: &str, gone: bool) {
        let place = place.to_owned();
        self.change_head(|head| {
            if how != ResultsMove::Pruned {
                head.results = Some(how);
            }
            if let Some(line) = head.line.as_mut().filter(|_| gone) {
                line.shown = None;
            }
        });
        self.log(Event::Results { how, place });
    }

    /// Reads the branch again, or continues from the commit to which it was moved.
    pub(super) fn release_branch(&mut self, go_on: bool) -> Result {
        self.change_line(|line| {
            let found = line.elsewhere.take().filter(|found| !found.is_empty());
            if go_on && line.shown != found {
                let was = mem::replace(&mut line.shown, found);
                let was = line.moved_from.take().or(was);
                line.moved_from = was.filter(|_| line.shown.is_some());
            }
        })
    }

    fn change_line(&mut self, change: impl FnOnce(&mut IntegrationBranch)) -> Result {
        let mut line = self.line()?;
        change(&mut line);
        self.change_head(|head| head.line = Some(line));
        Ok(())
    }

    fn line(&self) -> Result<IntegrationBranch> {
        self.plan.head().line.clone().ok_or(Refusal::Shared)
    }
}
