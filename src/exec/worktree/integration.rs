//! How accepted results come together: histories are merged without a work tree, and a branch is moved only when no commit is
//! lost by that.

use std::path::Path;

use super::{Project, list};
use crate::exec::git::{Result, names};
use crate::wire::text::clip;

/// The most characters of conflicts that are shown.
const SHOWN: usize = 1_500;

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    Commit(String),
    /// Both sides changed the same places: the files in a few words, and the places in them.
    Conflict {
        files: String,
        text: String,
    },
}

/// The result of moving a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchMove {
    /// It points to the desired commit.
    There,
    /// It is where it was expected, but has commits that the new place does not contain.
    Ahead(String),
    /// A person or another program has moved it, or deleted it if no commit is given.
    Elsewhere(Option<String>),
    /// It is checked out in this folder, whose files would no longer match.
    CheckedOut(String),
}

impl Project {
    /// Creates the merge commit of two histories; nothing is checked out and no branch moves. If the second one adds nothing,
    /// the result is the first one.
    ///
    /// # Errors
    /// As [`Git::bytes`](crate::exec::Git::bytes).
    pub async fn merge(&self, onto: &str, head: &str, message: &str) -> Result<Merged> {
        if self.git.has(head, onto).await? {
            return Ok(Merged::Commit(onto.to_owned()));
        }
        let merge = "merge-tree --write-tree --no-messages --name-only -z";
        let said = self.git.run(merge, &[onto, head]).await?;
        let mut names = names(&said.out).into_iter();
        let tree = names.next().unwrap_or_default();
        match said.exit {
            0 => {}
            1 => {
                let names: Vec<String> = names.collect();
                let shown = self.conflicts(&tree, &names).await?;
                let files = list(&names);
                let text = format!(
                    "Changed here and, differently, by what was accepted meanwhile: {files}\n{shown}"
                );
                return Ok(Merged::Conflict { files, text });
            }
            _ => drop(self.git.bytes(merge, &[onto, head]).await?),
        }
        let commit = self.commit_tree(&tree, &[onto, head], message).await;
        commit.map(Merged::Commit)
    }

    /// As [`Self::merge`], but if the second one contains the first, the result is the second one.
    ///
    /// # Errors
    /// As [`Git::bytes`](crate::exec::Git::bytes).
    pub async fn join(&self, onto: &str, head: &str, message: &str) -> Result<Merged> {
        if self.git.has(onto, head).await? {
            return Ok(Merged::Commit(head.to_owned()));
        }
        self.merge(onto, head, message).await
    }

    /// As [`Self::merge`], of what was changed since `base`, a commit that `head` contains: the files of `onto` count as made from
    /// it, whatever its history says.
    ///
    /// # Errors
    /// As [`Git::bytes`](crate::exec::Git::bytes).
    pub async fn merge_since(
        &self,
        base: &str,
        onto: &str,
        head: &str,
        message: &str,
    ) -> Result<Merged> {
        if self.git.has(head, onto).await? {
            return Ok(Merged::Commit(onto.to_owned()));
        }
        let made_from_base = self.commit_tree(onto, &[base], message).await?;
        match self.merge(&made_from_base, head, message).await? {
            Merged::Commit(merged) => {
                let commit = self.commit_tree(&merged, &[onto, head], message).await;
                commit.map(Merged::Commit)
            }
            conflict => Ok(conflict),
        }
    }

    /// Creates a commit with the files of another one, and returns it.
    pub(super) async fn commit_tree(
        &self,
        files_of: &str,
        parents: &[&str],
        message: &str,
    ) -> Result<String> {
        let tree = format!("{files_of}^{{tree}}");
        let mut words = vec![&*tree, "-m", message];
        words.extend(parents.iter().flat_map(|parent| ["-p", *parent]));
        self.git.line("commit-tree", &words).await
    }

    /// Returns the conflicting places of the files in a tree that was merged aside.
    async fn conflicts(&self, tree: &str, names: &[String]) -> Result<String> {
        let mut shown = String::new();
        for name in names {
            if shown.len() >= SHOWN {
                break;
            }
            let name_there = format!("{tree}:{name}");
            let file = self.git.run("cat-file blob", &[&name_there]).await?;
            let text = String::from_utf8_lossy(&file.out);
            let mut inside = false;
            let lines = text.lines().filter(|line| {
                inside |= line.starts_with("<<<<<<< ");
                let show = inside;
                inside &= !line.starts_with(">>>>>>> ");
                show
            });
            let places: Vec<&str> = lines.collect();
            if !places.is_empty() {
                shown = format!("{shown}\n{name}:\n{}\n", places.join("\n"));
            }
        }
        Ok(clip(&shown, SHOWN))
    }

    /// Moves a branch to a commit, if it is where it is expected and no commit is lost. `expected` is `None` for a branch that
    /// does not exist yet.
    ///
    /// # Errors
    /// As [`Git::bytes`](crate::exec::Git::bytes).
    pub async fn move_branch(
        &self,
        branch: &str,
        to: &str,
        expected: Option<&str>,
    ) -> Result<BranchMove> {
        let name = format!("refs/heads/{branch}");
        let found = self.git.resolve(&name).await?;
        if found.as_deref() == Some(to) {
            return Ok(BranchMove::There);
        }
        if found.as_deref() != expected {
            return Ok(BranchMove::Elsewhere(found));
        }
        if let Some(found) = &found
            && !self.git.has(found, to).await?
        {
            return Ok(BranchMove::Ahead(found.clone()));
        }
        if let Some(folder) = self.checked_out(branch).await? {
            return Ok(BranchMove::CheckedOut(folder));
        }
        let old = found.unwrap_or_default();
        let words = ["-m", "plan-agent: accepted", &*name, to, &old];
        match self.git.bytes("update-ref --no-deref", &words).await {
            Ok(_) => Ok(BranchMove::There),
            Err(error) => match self.git.resolve(&name).await? {
                found if found.as_deref() == Some(to) => Ok(BranchMove::There),
                found if found.as_deref() == expected => Err(error),
                found => Ok(BranchMove::Elsewhere(found)),
            },
        }
    }

    /// Returns the folder in which a branch is checked out, if it is. A worktree whose folder was deleted does not count.
    ///
    /// # Errors
    /// As [`Git::bytes`](crate::exec::Git::bytes).
    pub async fn checked_out(&self, branch: &str) -> Result<Option<String>> {
        let list = self.git.names("worktree list --porcelain -z", &[]).await?;
        let (name, mut folder) = (format!("branch refs/heads/{branch}"), String::new());
        for (at, line) in list.into_iter().enumerate() {
            if at == 0 {
                // The first entry is the repository's own work tree; git shows this program's folder for it.
                folder = self.main_worktree();
            } else if let Some(path) = line.strip_prefix("worktree ") {
                path.clone_into(&mut folder);
            } else if line == name && Path::new(&folder).exists() {
                return Ok(Some(folder));
            }
        }
        Ok(None)
    }

    /// Returns the commit of a branch; `None` if the branch does not exist.
    ///
    /// # Errors
    /// As [`Git::run`](crate::exec::Git::run).
    pub async fn at_branch(&self, branch: &str) -> Result<Option<String>> {
        self.git.resolve(&format!("refs/heads/{branch}")).await
    }

    /// Returns the folder of the repository's first work tree.
    fn main_worktree(&self) -> String {
        let common = self.worktrees.parent().unwrap_or(self.git.folder());
        match common.file_name() {
            Some(name) if name == ".git" => common.parent().unwrap_or(common),
            _ => common,
        }
        .display()
        .to_string()
    }
}
