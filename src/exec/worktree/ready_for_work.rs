//! What makes a worktree ready for work: files that git ignores and the project names in `.worktreeinclude`, by patterns as in
//! `.gitignore`, and the mark that the person's own command has run.

use std::path::Path;

use super::{AGENT_FOLDER, OURS, Project, check_folder};
use crate::exec::check_folder::CheckFolder;
use crate::exec::git::{Result, blocking, names};
use crate::exec::link_free_access;
use crate::foreign_files::{keep_as, read_beginning};

/// A file that exists once the person's command has prepared the worktree.
pub(super) const PREPARED: &str = "plan-agent-prepared";
/// The file with the patterns.
const NAME: &str = ".worktreeinclude";

/// The most bytes of patterns, of one file and of all files, and the most files.
const PATTERNS: u64 = 64 * 1024;
const ONE: usize = 4 * 1024 * 1024;
const ALL: usize = 32 * 1024 * 1024;
const MOST: usize = 500;

impl Project {
    /// Copies the ignored files that the project names into a new worktree. Only regular files within the project are copied,
    /// through no link, over no other file, and a file like `.env` only if a line names exactly it. What is over the limits or
    /// cannot be copied is left out, which is logged.
    ///
    /// # Errors
    /// As [`Git::bytes`](crate::exec::Git::bytes).
    pub(in crate::exec) async fn include(&self, worktree: &Path) -> Result<()> {
        let file = self.git.folder().join(NAME);
        let ours = self.folder.join(OURS).join("include");
        let copy = ours.clone();
        let read = blocking(move || {
            let Ok(patterns) = read_beginning(&file, PATTERNS) else {
                return Ok(None);
            };
            keep_as(&copy, &patterns)?;
            Ok(Some(String::from_utf8_lossy(&patterns).into_owned()))
        });
        let Some(patterns) = read.await? else {
            return Ok(());
        };
        let from = format!("--exclude-from={}", ours.display());
        let list = "ls-files --others --ignored -z";
        let named = self.git.bytes(list, &[&from]).await?;
        let git = self.git.clone().with_input(named);
        let ignored = names(&git.run("check-ignore -z --stdin", &[]).await?.out);
        let (root, worktree) = (self.git.folder().to_owned(), worktree.to_owned());
        blocking(move || {
            let wanted = ignored.iter().filter(|path| is_wanted(path, &patterns));
            let (mut files, mut bytes) = (0, 0);
            for path in wanted {
                if files == MOST {
                    tracing::warn!(MOST, "no more files are copied into a worktree");
                    break;
                }
                files += 1;
                match copy_file(&root, &worktree, path, ALL - bytes) {
                    Ok(length) => bytes += length,
                    Err(error) => tracing::warn!(%path, %error, "is not copied into a worktree"),
                }
            }
            Ok(())
        })
        .await
    }

    /// Returns a worktree as a folder in which checks can run; `None` if it is none any more.
    ///
    /// # Errors
    /// As [`Git::run`](crate::exec::Git::run).
    pub async fn check_folder(&self, folder: &Path) -> Result<Option<CheckFolder>> {
        let git = self.worktree(folder).await?;
        Ok(git.map(|git| check_folder(git, self)))
    }
}

/// Returns whether a file that the patterns match may be copied.
fn is_wanted(path: &str, patterns: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    // A pattern like `*` is not meant for secrets.
    let exact = |line: &str| {
        let line = line.trim().trim_start_matches('/');
        line == path || line == name
    };
    let ours = path.strip_prefix(AGENT_FOLDER);
    let ours = ours.is_some_and(|rest| rest.starts_with('/'));
    !ours && !name.is_empty() && (!name.starts_with(".env") || patterns.lines().any(exact))
}

/// Copies a file, and returns its length.
fn copy_file(root: &Path, worktree: &Path, path: &str, most: usize) -> std::io::Result<usize> {
    if worktree.join(path).symlink_metadata().is_ok() {
        return Ok(0);
    }
    let (bytes, length) = link_free_access::read(root, path, ONE.min(most), &[])?;
    if bytes.len() as u64 != length {
        return Err(std::io::Error::other("it is too large"));
    }
    link_free_access::write(worktree, path, &bytes, &[])?;
    Ok(bytes.len())
}
