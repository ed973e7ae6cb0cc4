//! Commits on their way to another clone of a project: packs of git, which need no branch.

use super::{Project, Result};

impl Project {
    /// Returns what a commit has beyond an earlier one.
    ///
    /// # Errors
    /// As [`Git::bytes`](crate::exec::Git::bytes), also where it is too large.
    pub async fn pack(&self, since: &str, commit: &str) -> Result<Vec<u8>> {
        let wanted = format!("{commit}\n^{since}\n").into_bytes();
        let git = self.git.clone().with_input(wanted);
        git.bytes("pack-objects --revs --thin --stdout -q", &[])
            .await
    }

    /// Adds what a pack has to the repository. Its content is data of a stranger: git checks it.
    ///
    /// # Errors
    /// As [`Git::bytes`](crate::exec::Git::bytes); what it builds on is not there.
    pub async fn unpack(&self, pack: Vec<u8>) -> Result<()> {
        let git = self.git.clone().with_input(pack);
        git.bytes("index-pack --stdin --fix-thin --strict", &[])
            .await
            .map(drop)
    }

    /// Returns whether the repository has a commit.
    ///
    /// # Errors
    /// As [`Git::resolve`](crate::exec::Git::resolve).
    pub async fn has_commit(&self, commit: &str) -> Result<bool> {
        let found = self.git.resolve(&format!("{commit}^{{commit}}")).await?;
        Ok(found.is_some())
    }
}
