//! How two trees of git differ, file by file.

use super::git::{Git, GitError};
use super::worktree::leads_out;

/// The mode of a symbolic link.
const LINK: &str = "120000";

/// A file that two trees have differently, as git says it. One that was moved is two.
pub(super) struct TreeChange {
    pub path: String,
    /// The path as it is: it may be no text.
    pub bytes: Vec<u8>,
    pub modes: [String; 2],
    pub ids: [String; 2],
    /// A letter for what happened to it.
    pub status: String,
}

/// Returns the files that two trees have differently.
///
/// # Errors
/// As [`Git::bytes`].
pub(super) async fn tree_changes(git: &Git, trees: [&str; 2]) -> Result<Vec<TreeChange>, GitError> {
    let diff = "diff-tree -r -z --no-renames --raw --no-abbrev";
    let said = git.bytes(diff, &trees).await?;
    let mut parts = said.split(|byte| *byte == 0);
    let mut changes = Vec::new();
    while let (Some(of), Some(path)) = (parts.next(), parts.next()) {
        let of = String::from_utf8_lossy(of);
        let of: Vec<&str> = of.trim_start_matches(':').split(' ').collect();
        if let [old_mode, new_mode, old_id, new_id, status] = of[..] {
            changes.push(TreeChange {
                path: String::from_utf8_lossy(path).into_owned(),
                bytes: path.to_owned(),
                modes: [old_mode, new_mode].map(str::to_owned),
                ids: [old_id, new_id].map(str::to_owned),
                status: status.to_owned(),
            });
        }
    }
    Ok(changes)
}

impl TreeChange {
    /// Returns whether it is a link now that may lead out of the project.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn leads_out(&self, git: &Git) -> Result<bool, GitError> {
        let [_, id] = &self.ids;
        if self.modes[1] != LINK {
            return Ok(false);
        }
        let target = git.bytes("cat-file blob", &[id]).await?;
        Ok(leads_out(&self.path, &String::from_utf8_lossy(&target)))
    }
}
