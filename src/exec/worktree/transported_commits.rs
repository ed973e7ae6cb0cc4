//! Commits on their way to another clone of a project: packs of git, which need no branch.

use super::{Git, GitError, Project, Result, TaskWorktree};
use crate::wire::text::one_line;

impl Project {
    /// Returns what a commit has beyond an earlier one.
    ///
    /// # Errors
    /// As [`Git::bytes`](crate::exec::Git::bytes), also where it is too large.
    pub async fn pack(&self, since: &str, commit: &str) -> Result<Vec<u8>> {
        let wanted = format!("{commit}\n^{since}\n").into_bytes();
        let git = self.git.clone().with_input(wanted);
        let pack = "pack-objects --revs --thin --stdout -q";
        git.bytes(pack, &[]).await
    }

    /// Adds what a pack has to the repository. Its content is data of a stranger: git checks it.
    ///
    /// # Errors
    /// As [`Git::bytes`](crate::exec::Git::bytes); what it builds on is not there.
    pub async fn unpack(&self, pack: Vec<u8>) -> Result<()> {
        let git = self.git.clone().with_input(pack);
        let index = "index-pack --stdin --fix-thin --strict";
        git.bytes(index, &[]).await.map(drop)
    }

    /// Gets a commit that is missing here from another repository, by its address. Only objects come, and git checks them: no branch
    /// is made or moved. What the clone has already is not asked for.
    ///
    /// # Errors
    /// As [`Git::bytes`](crate::exec::Git::bytes), also where the other repository does not give it.
    pub async fn require_commit(&self, commit: &str, remote: Option<&String>) -> Result<()> {
        if self.git.has_commit(commit).await? {
            return Ok(());
        }
        let way_out = match remote {
            None => "`git fetch` there may bring it, or an address under [remotes]".to_owned(),
            Some(remote) => {
                let git = self.git.clone().reaching_out();
                let fetch =
                    "-c fetch.fsckObjects=true fetch --quiet --no-tags --no-write-fetch-head --";
                let fetched = git.bytes(fetch, &[remote, commit]).await;
                if self.git.has_commit(commit).await? {
                    return Ok(());
                }
                let why = fetched.err().map(|error| format!(": {error}"));
                format!(
                    "push it to the project's address under [remotes]{}",
                    why.unwrap_or_default()
                )
            }
        };
        Err(GitError::Unclear(format!(
            "the commit `{commit}`, where the plan began, is not in `{}`: {way_out}",
            self.git.folder().display()
        )))
    }

    /// Makes a task's worktree, or the one that exists, be at a commit. What was left there and is in no commit is committed first,
    /// and stays in the log of its branch. Where it is there already, nothing changes.
    ///
    /// # Errors
    /// As [`Project::lay_out`].
    pub async fn bring_to(&self, place: &TaskWorktree, commit: &str) -> Result<()> {
        self.lay_out(place, commit).await?;
        let git = self.task_git(place).await?;
        if git.line("rev-parse HEAD", &[]).await? == commit {
            return Ok(());
        }
        match self.commit_work(place, "what was left").await {
            Ok(_) | Err(GitError::Unclear(_)) => {}
            Err(error) => return Err(error),
        }
        git.bytes("reset --hard --quiet", &[commit]).await.map(drop)
    }

    /// Takes over what was done elsewhere on a task: the commit `to`, which goes on from `from`, where the work began.
    ///
    /// # Errors
    /// It does not go on from there; as [`Project::lay_out`].
    pub async fn take_work(&self, place: &TaskWorktree, (from, to): (&str, &str)) -> Result<()> {
        let git = self.task_git(place).await?;
        let head = git.line("rev-parse HEAD", &[]).await?;
        if head == to {
            return Ok(());
        }
        match head == from {
            true => Self::back_on_branch(&git, place).await?,
            false => self.bring_to(place, from).await?,
        }
        // Only a full name: a short one, or a branch, may lead to something else.
        let named = git.resolve(&format!("{to}^{{commit}}")).await?;
        if named.as_deref() != Some(to) || !git.has(from, to).await? {
            return Err(GitError::Unclear(format!(
                "the commit `{}` does not go on from `{from}`, where the work began",
                one_line(to, 64)
            )));
        }
        git.bytes("reset --hard --quiet", &[to]).await.map(drop)
    }

    /// Returns the git of a task's worktree.
    ///
    /// # Errors
    /// As [`Self::worktree`], or the folder is no worktree any more.
    pub async fn task_git(&self, place: &TaskWorktree) -> Result<Git> {
        let git = self.worktree(&place.folder).await?;
        git.ok_or_else(|| place.no_worktree())
    }
}
