//! Symbolic links of a result that lead out of the project: what they show is in no commit.

use super::{Project, list, names};
use crate::exec::git::GitError;

impl Project {
    /// Returns the links that are added or changed from one commit to another and that are absolute or lead out of the project,
    /// in a few words; `None` if there are none.
    ///
    /// # Errors
    /// As [`Git::bytes`](crate::exec::Git::bytes).
    pub async fn links_out(&self, from: &str, to: &str) -> Result<Option<String>, GitError> {
        let words = ["diff-tree", "-r", "-z", "--no-renames", "--raw"];
        let words = [&words[..], &["--no-abbrev", from, to]].concat();
        let (said, mut out) = (names(&self.git.bytes(&words).await?), Vec::new());
        for change in said.chunks_exact(2) {
            let [of, path] = change else { continue };
            let of: Vec<&str> = of.split(' ').collect();
            let [_, "120000", _, id, _] = of[..] else {
                continue;
            };
            let target = self.git.bytes(&["cat-file", "blob", id]).await?;
            if leads_out(path, &String::from_utf8_lossy(&target)) {
                out.push(path.clone());
            }
        }
        Ok((!out.is_empty()).then(|| list(&out)))
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
