//! What a person does with results: takes them over into the branch that is checked out, puts them aside, removes what is left.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use super::{AGENT_FOLDER, Merged, Project, REMOVED, TaskWorktree, literal, own_repositories};
use crate::exec::folder_removal::with_rights;
use crate::exec::git::{GitError, Result, blocking, names};

/// Names that are no branches, below which the results are kept that were taken over as one commit.
const SQUASHED: &str = "refs/plan-agent/squashed";
/// The same for the commits of the person that contain their changes.
const SQUASHED_INTO: &str = "refs/plan-agent/squashed-into";

/// What came of taking results over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakeOver {
    /// The branch that is checked out is at this commit now.
    Done { from: String, to: String },
    /// It contained them already.
    Already,
    /// These files would change, and the person has changed them; nothing was touched.
    Changed(Vec<String>),
    /// Both sides changed the same places of these files; nothing was touched.
    Conflict(String),
    /// Git gave up on the way, and these files are not as they were.
    Halfway { error: String, files: Vec<String> },
}

impl Project {
    /// Takes a commit over into the branch that is checked out in the project: moves it forward, or merges. Git writes files,
    /// index and branch in one process, which outlives this one: after a kill the project is as before or as after. Where git gives
    /// up on the way, what it has written is put back.
    ///
    /// # Errors
    /// As [`Git::bytes`](crate::exec::Git::bytes), such as that another merge is unfinished.
    pub async fn take_over(&self, commit: &str, message: &str, plan: &str) -> Result<TakeOver> {
        let from = self.git.line("rev-parse HEAD^{commit}", &[]).await?;
        if self.git.has(commit, &from).await? {
            return Ok(TakeOver::Already);
        }
        let joined = self.join_results(&from, commit, message, (plan, None));
        let to = match joined.await? {
            Merged::Commit(to) => to,
            Merged::Conflict { files, .. } => return Ok(TakeOver::Conflict(files)),
        };
        // What was taken over as one commit is here already; elsewhere it would change something.
        if self.tree(&from).await? == self.tree(&to).await? && self.is_taken_over(commit).await? {
            return Ok(TakeOver::Already);
        }
        self.move_to(from, to).await
    }

    /// As [`Self::take_over`], as one commit that does not have the results' own ones behind it. They are kept for
    /// [`Self::is_taken_over`] below a name of that `plan`. Of a history that the person has left, all up to the commit `known` is
    /// taken for known: what they took off stays off.
    ///
    /// # Errors
    /// As [`Self::take_over`].
    pub async fn squash(
        &self,
        commit: &str,
        message: &str,
        plan: &str,
        known: Option<&str>,
    ) -> Result<TakeOver> {
        let from = self.git.line("rev-parse HEAD^{commit}", &[]).await?;
        let joined = self.join_results(&from, commit, message, (plan, known));
        let joined = match joined.await? {
            Merged::Commit(joined) => joined,
            Merged::Conflict { files, .. } => return Ok(TakeOver::Conflict(files)),
        };
        let taken = match self.tree(&from).await? == self.tree(&joined).await? {
            true => TakeOver::Already,
            false => {
                let to = self.commit_tree(&joined, &[&from], message).await?;
                self.move_to(from.clone(), to).await?
            }
        };
        let into = match &taken {
            TakeOver::Done { to, .. } => to,
            TakeOver::Already => &from,
            _ => return Ok(taken),
        };
        // Last: after a kill before it, a further call finds nothing to change, and does only this.
        let kept = [(SQUASHED_INTO, &**into), (SQUASHED, commit)];
        for (names, commit) in kept {
            self.keep_aside(&format!("{names}/{plan}"), commit).await?;
        }
        Ok(taken)
    }

    /// Joins results with a commit of the person. What was taken over of the plan as one commit before counts as known there: else
    /// all that was changed again since would conflict with itself. So does all up to `known`.
    async fn join_results(
        &self,
        from: &str,
        commit: &str,
        message: &str,
        (plan, known): (&str, Option<&str>),
    ) -> Result<Merged> {
        let git = &self.git;
        let squashed = git.resolve(&format!("{SQUASHED}/{plan}")).await?;
        let into = git.resolve(&format!("{SQUASHED_INTO}/{plan}")).await?;
        if let (Some(squashed), Some(into)) = (squashed, into)
            && git.has(&into, from).await?
            && git.has(&squashed, commit).await?
        {
            return self.merge_since(&squashed, from, commit, message).await;
        }
        match known {
            Some(known) => self.merge_since(known, from, commit, message).await,
            None => self.join(from, commit, message).await,
        }
    }

    async fn tree(&self, commit: &str) -> Result<String> {
        let tree = format!("{commit}^{{tree}}");
        self.git.line("rev-parse", &[&tree]).await
    }

    /// Moves the branch that is checked out forward.
    async fn move_to(&self, from: String, to: String) -> Result<TakeOver> {
        let changed = self.in_the_way(&from, &to).await?;
        if !changed.is_empty() {
            return Ok(TakeOver::Changed(changed));
        }
        // What git finds in the way itself, such as a file that has appeared just now, it refuses before it writes anything. A
        // filter that fails, a full disk, or the lock of a branch stop it on the way.
        let merge = "merge --ff-only --no-overwrite-ignore --no-autostash --quiet";
        let Err(error) = self.git.bytes(merge, &[&to]).await else {
            return Ok(TakeOver::Done { from, to });
        };
        let now = self.git.line("rev-parse HEAD", &[]).await?;
        if now != from {
            return Err(error);
        }
        let files = self.put_files_back(&from, &to).await?;
        match files.is_empty() {
            true => Err(error),
            false => Ok(TakeOver::Halfway {
                error: error.to_string(),
                files,
            }),
        }
    }

    /// Makes what a move that failed has written as it was in the first commit, as far as git can, and returns what is not. Only
    /// files that are as in the second commit, or gone, are from it: any other one the person has changed meanwhile.
    async fn put_files_back(&self, from: &str, to: &str) -> Result<Vec<String>> {
        let git = &self.git;
        let diff = "diff --name-only --no-renames -z";
        let of = async |kind: &str| git.names(diff, &[kind, from, to, "--"]).await;
        let (added, gone) = (of("--diff-filter=A").await?, of("--diff-filter=D").await?);
        let mut ours = of("--diff-filter=d").await?;
        let aside = tempfile::tempdir()?;
        let after = git.clone().with_index(&aside.path().join("index"));
        after.bytes("read-tree", &[to]).await?;
        let differs = after.names(diff, &["--diff-filter=d", "--"]).await?;
        ours.retain(|path| !differs.contains(path));
        let there = |path: &String| git.folder().join(path).symlink_metadata().is_ok();
        ours.extend(gone.into_iter().filter(|path| !there(path)));
        for path in &ours {
            let name = literal(path);
            if added.contains(path) {
                let forget = "rm --cached --quiet --force --ignore-unmatch --";
                git.run(forget, &[&name]).await?;
                if there(path) {
                    remove_with_folders(git.folder(), path)?;
                }
            } else {
                let source = format!("--source={from}");
                let words = [&*source, "--staged", "--worktree", "--", &name];
                git.run("restore --quiet", &words).await?;
            }
        }
        let mut left = self.in_the_way(from, to).await?;
        left.retain(|path| ours.contains(path));
        Ok(left)
    }

    /// Returns the files of the person that a move from a commit to another would change.
    async fn in_the_way(&self, from: &str, to: &str) -> Result<Vec<String>> {
        let differs = async |words: &[&str]| {
            let diff = "diff --name-only --no-renames -z";
            let names = self.git.names(diff, &[words, &["--"]].concat()).await?;
            Ok::<BTreeSet<String>, GitError>(names.into_iter().collect())
        };
        let changed = differs(&[from, to]).await?;
        let mut own = differs(&[from]).await?;
        own.extend(differs(&["--cached", from]).await?);
        let added = differs(&["--diff-filter=A", from, to]).await?;
        let (root, known) = (self.git.folder().to_owned(), changed.clone());
        let untracked = blocking(move || {
            let there = |path: &String| {
                let there = first_file(&root, path)?;
                (there == *path || !known.contains(&there)).then_some(there)
            };
            Ok(added.iter().filter_map(there).collect::<Vec<_>>())
        });
        let mut found: BTreeSet<String> = changed.intersection(&own).cloned().collect();
        found.extend(untracked.await?);
        Ok(found.into_iter().collect())
    }

    /// Removes a task's worktree if all its files are in the last commit of its branch, except files that git ignores if they
    /// may go. One that the person has locked stays. Returns whether it is gone.
    ///
    /// # Errors
    /// As [`Git::run`](crate::exec::Git::run), or the error of the file system.
    pub async fn remove_worktree(&self, place: &TaskWorktree, with_ignored: bool) -> Result<bool> {
        if !place.folder.exists() {
            return Ok(true);
        }
        let Some(git) = self.worktree(&place.folder).await? else {
            return Ok(false);
        };
        let ignored: &[&str] = if with_ignored { &[] } else { &["--ignored"] };
        let own = format!("! {AGENT_FOLDER}/");
        let on = format!("# branch.head {}", place.branch);
        git.look_at_all_files().await?;
        let status = "status --porcelain=v2 --branch -z";
        let said = git.run(status, ignored).await?;
        if said.exit != 0 || said.err.contains("could not open directory") {
            return Ok(false);
        }
        let status = names(&said.out);
        let is_kept = !status.contains(&on) || git.own_path("locked").exists();
        let mut files = status.iter().filter(|line| !line.starts_with("# "));
        let is_more = files.any(|line| *line != own);
        if is_kept || is_more || !own_repositories(&git).await?.is_empty() {
            return Ok(false);
        }
        let (folder, git_dir) = (place.folder.clone(), git.own_path(""));
        let removed = self.folder.join(REMOVED);
        // `git worktree remove` would read the data of all other worktrees, too.
        let remove = move || {
            fs::create_dir_all(&removed)?;
            let aside = removed.join(folder.file_name().unwrap_or_default());
            with_rights(&folder, || fs::rename(&folder, &aside))?;
            fs::remove_dir_all(git_dir)?;
            with_rights(&aside, || fs::remove_dir_all(&aside))?;
            // What else is in it was cut off by a kill.
            fs::remove_dir(removed).ok();
            Ok(true)
        };
        blocking(remove).await
    }

    /// Deletes a branch that is at a commit.
    ///
    /// # Errors
    /// As [`Git::bytes`](crate::exec::Git::bytes), or it is elsewhere by now.
    pub async fn delete_branch(&self, branch: &str, at: &str) -> Result<()> {
        let name = format!("refs/heads/{branch}");
        let delete = "update-ref --no-deref -d";
        self.git.bytes(delete, &[&name, at]).await.map(drop)
    }

    /// Returns whether a branch of the person, or one of a server, contains a commit, or it was taken over as one commit. A branch of
    /// a plan is none of these, also where the person has pushed it.
    ///
    /// # Errors
    /// As [`Git::bytes`](crate::exec::Git::bytes).
    pub async fn is_taken_over(&self, commit: &str) -> Result<bool> {
        let contains = format!("--contains={commit}");
        let words = [&*contains, "refs/heads", "refs/remotes", SQUASHED];
        let list = "for-each-ref --format=%(refname)";
        let found = self.git.line(list, &words).await?;
        for name in found.lines() {
            let Some(plan) = name.strip_prefix(SQUASHED) else {
                match is_of_a_plan(name) {
                    true => continue,
                    false => return Ok(true),
                }
            };
            // What was taken over as one commit counts as long as a branch has that one, or it would change nothing.
            let head = self.git.line("rev-parse HEAD", &[]).await?;
            if let Merged::Commit(joined) = self.join(&head, commit, "").await?
                && self.tree(&joined).await? == self.tree(&head).await?
            {
                return Ok(true);
            }
            let into = format!("{SQUASHED_INTO}{plan}");
            let Some(into) = self.git.resolve(&into).await? else {
                return Ok(true);
            };
            let contains = format!("--contains={into}");
            let words = [&*contains, "refs/heads", "refs/remotes"];
            let there = self.git.line(list, &words).await?;
            if there.lines().any(|name| !is_of_a_plan(name)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Keeps a commit under a name that is no branch.
    ///
    /// # Errors
    /// As [`Git::bytes`](crate::exec::Git::bytes).
    pub async fn keep_aside(&self, name: &str, commit: &str) -> Result<()> {
        let update = "update-ref --no-deref";
        self.git.bytes(update, &[name, commit]).await.map(drop)
    }
}

/// Removes a file, and the folders that are empty then.
fn remove_with_folders(root: &Path, path: &str) -> io::Result<()> {
    fs::remove_file(root.join(path))?;
    let mut folders = Path::new(path).ancestors().skip(1);
    while let Some(folder) = folders.next()
        && fs::remove_dir(root.join(folder)).is_ok()
    {}
    Ok(())
}

/// Returns whether a branch, here or on a server, is one that plans make.
fn is_of_a_plan(name: &str) -> bool {
    let on_server = || name.strip_prefix("refs/remotes/")?.split_once('/');
    let own = name.strip_prefix("refs/heads/");
    let own = own.or_else(|| Some(on_server()?.1)).unwrap_or(name);
    own.starts_with("plan-agent/") || own.starts_with("plan-agent-task/")
}

/// Returns the first part of a path that exists and is no folder.
fn first_file(root: &Path, path: &str) -> Option<String> {
    let ends = path.match_indices('/').map(|(at, _)| at);
    for end in ends.chain([path.len()]) {
        if !root.join(&path[..end]).symlink_metadata().ok()?.is_dir() {
            return Some(path[..end].to_owned());
        }
    }
    // Whether a folder holds files of the person, git sees.
    None
}
