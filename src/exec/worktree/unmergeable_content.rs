//! What an agent leaves in a worktree that is not a result: nested repositories, files with conflict marks, and links that
//! lead out of the project, as what they show is in no commit.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::{AGENT_FOLDER, Project, list};
use crate::exec::git::{Git, GitError, Result, blocking, names};
use crate::exec::tree_changes::tree_changes;
use crate::foreign_files::read_beginning;

/// The most bytes of a file that are searched for conflict marks.
const MARKED: u64 = 64 * 1024 * 1024;

impl Project {
    /// Checks the links that are added or changed from one commit to another.
    ///
    /// # Errors
    /// As [`Git::bytes`], or it is unclear what the result is: a link is absolute or leads out of the project.
    pub async fn no_links_out(&self, from: &str, to: &str) -> Result<()> {
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

/// Returns the paths in the index that stand for commits of other repositories, and whose folders have files: these are in no
/// commit of the project.
pub(super) async fn own_repositories(git: &Git) -> Result<Vec<String>> {
    let format = "--format=%(objectmode) %(path)";
    let listed = git.names("ls-files -z", &[format]).await?;
    let own = |line: &String| {
        let path = line.strip_prefix("160000 ")?;
        let mut files = git.folder().join(path).read_dir().ok()?;
        files.next().map(|_| path.to_owned())
    };
    Ok(listed.iter().filter_map(own).collect())
}

/// As [`own_repositories`], without the submodules of the project that are laid out.
pub(super) async fn nested(git: &Git) -> Result<Vec<String>> {
    let mut own = own_repositories(git).await?;
    if !own.is_empty() {
        let get = r"config -z --blob :.gitmodules --get-regexp ^submodule\..*\.path$";
        let known = names(&git.run(get, &[]).await?.out);
        let is_known = |path: &String| {
            let mut paths = known.iter().filter_map(|line| line.split_once('\n'));
            paths.any(|(_, known)| known == path)
        };
        own.retain(|path| !(is_known(path) && is_laid_out(git, path)));
    }
    Ok(own)
}

/// Returns whether a folder is the top of a repository.
pub(super) fn is_laid_out(git: &Git, path: &str) -> bool {
    let inside = git.folder().join(path).join(".git");
    inside.symlink_metadata().is_ok()
}

/// Checks that no file has conflict marks.
///
/// # Errors
/// It is unclear what the result is: a file has some.
pub(super) async fn has_no_marks(folder: &Path, names: Vec<String>) -> Result<()> {
    let folder = folder.to_owned();
    let look = move || {
        let marked = |name: &String| has_marks(&folder.join(name)).unwrap_or(false);
        Ok(names.into_iter().filter(marked).collect::<Vec<_>>())
    };
    let marked = blocking(look).await?;
    if marked.is_empty() {
        return Ok(());
    }
    Err(GitError::Unclear(format!(
        "These files still have the marks of a conflict: {}.\nDecide what belongs there, keep what both sides want, and remove the lines with `<<<<<<<`, `=======` and `>>>>>>>`.",
        list(&marked)
    )))
}

/// Checks that each of these conflicts of an unfinished merge was decided: a file that is as the merge left it was not. Without
/// marks, as in binary files, only git knows that one is to stay as it is.
///
/// # Errors
/// As [`Git::bytes`], or it is unclear what the result is: a conflict is undecided.
pub(super) async fn all_decided(git: &Git, conflicts: &[String]) -> Result<()> {
    let theirs = git.resolve("MERGE_HEAD").await?;
    let Some(theirs) = theirs.filter(|_| !conflicts.is_empty()) else {
        return Ok(());
    };
    let merge = "merge-tree --write-tree --no-messages --name-only -z";
    let left = names(&git.run(merge, &["HEAD", &theirs]).await?.out);
    let Some(left) = left.into_iter().next() else {
        return Ok(());
    };
    let (now, _) = git.snapshot(&[AGENT_FOLDER]).await?;
    let entries = async |tree: &str| git.names("ls-tree -r -z", &[tree]).await;
    let now: BTreeSet<String> = entries(&now).await?.into_iter().collect();
    let mut undecided = entries(&left).await?;
    undecided.retain(|entry| now.contains(entry));
    let name = |entry: &String| entry.split_once('\t').map(|(_, name)| name.to_owned());
    let mut undecided: Vec<String> = undecided.iter().filter_map(name).collect();
    undecided.retain(|name| conflicts.contains(name));
    if undecided.is_empty() {
        return Ok(());
    }
    Err(GitError::Unclear(format!(
        "These files are still in conflict: {}.\nBoth sides changed them, and they are as the merge left them. Write what belongs there, or remove them; `git add` says that one is to stay as it is.",
        list(&undecided)
    )))
}

/// Returns whether a file has a line with which git begins a conflict, and one with which it ends one: seven signs, or more where
/// the project wants that. Only plain files are read.
fn has_marks(path: &Path) -> io::Result<bool> {
    let bytes = read_beginning(path, MARKED)?;
    let has = |sign: u8| {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        lines.any(|line| {
            let signs = line.iter().take_while(|byte| **byte == sign).count();
            signs >= 7 && line.get(signs) == Some(&b' ')
        })
    };
    Ok(has(b'<') && has(b'>'))
}
