//! How two trees of git differ, file by file, and which links among the changes lead out of the project.

use super::{Git, Result};

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
pub(super) async fn tree_changes(git: &Git, trees: [&str; 2]) -> Result<Vec<TreeChange>> {
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
    pub async fn leads_out(&self, git: &Git) -> Result<bool> {
        let [_, id] = &self.ids;
        if self.modes[1] != LINK {
            return Ok(false);
        }
        let target = git.bytes("cat-file blob", &[id]).await?;
        Ok(leads_out(&self.path, &String::from_utf8_lossy(&target)))
    }
}

/// Returns whether a link may lead out of the project. One that goes up behind a name may, as that may be a link itself.
fn leads_out(path: &str, target: &str) -> bool {
    let parts = target.split('/').filter(|part| !["", "."].contains(part));
    let up = parts.clone().take_while(|part| *part == "..").count();
    target.starts_with('/')
        || up > path.matches('/').count()
        || parts.skip(up).any(|part| part == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_within_the_project_lead_nowhere_else() {
        for (path, target, out) in [
            ("a", "b", false),
            ("a/b", "../c", false),
            ("a/b", "./../c/d", false),
            ("a/b/c", "../../d", false),
            ("a", "/tmp/b", true),
            ("a", "../b", true),
            ("a/b", "../../c", true),
            ("a/b", "c/../d", true),
        ] {
            assert_eq!(leads_out(path, target), out, "{path} -> {target}");
        }
    }
}
