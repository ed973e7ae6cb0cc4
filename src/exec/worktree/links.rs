//! Symbolic links of a result that lead out of the project: what they show is in no commit.

use super::{Project, list};
use crate::exec::git::GitError;
use crate::exec::tree_changes::tree_changes;

impl Project {
    /// Checks the links that are added or changed from one commit to another.
    ///
    /// # Errors
    /// As [`Git::bytes`](crate::exec::Git::bytes), or it is unclear what the result is: a link is absolute or leads out of the
    /// project.
    pub async fn no_links_out(&self, from: &str, to: &str) -> Result<(), GitError> {
        let mut out = Vec::new();
        for change in tree_changes(&self.git, [from, to]).await? {
            if change.leads_out(&self.git).await? {
                out.push(change.path);
            }
        }
        if out.is_empty() {
            return Ok(());
        }
        Err(GitError::Unclear(format!(
            "A link leads out of the project: {}.\nWhat it shows is in no commit. Put the files themselves there, or a relative link within the project.",
            list(&out)
        )))
    }
}

/// Returns whether a link may lead out of the project. One that goes up behind a name may, as that may be a link itself.
pub(in crate::exec) fn leads_out(path: &str, target: &str) -> bool {
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
