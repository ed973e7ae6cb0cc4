//! Worktrees of a project: each task works on a branch and in a folder of its own; results are merged aside, where checks
//! run on them, and never in a folder of the person's. Every act may be repeated after a kill: it looks first at what is
//! there. What holds work that is merged nowhere is never deleted.

mod left;
mod project;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::git::{Git, GitError};
use crate::wire::text::clip;
use left::{marks_in, nested, own_repositories};

pub use project::{ProjectError, project_head};

/// A large project takes its time to be laid out.
const DEADLINE: Duration = Duration::from_secs(600);

/// The folder in which an agent may leave its report; no part of the work.
pub const AGENT_FOLDER: &str = ".plan-agent";

/// Written beside a worktree's own git data once its files are laid out: before that nobody has worked in it.
const READY: &str = "plan-agent-ready";
/// Stands beside it while a result is committed.
const KEEPING: &str = "plan-agent-keeping";

/// Conflicting files that are named.
const NAMED: usize = 20;

/// Characters of the conflicts that are shown.
const SHOWN: usize = 1_500;

/// A project and the folder in which its worktrees are.
#[derive(Clone, Debug)]
pub struct Project {
    git: Git,
    root: PathBuf,
    folder: PathBuf,
    lock: PathBuf,
}

/// A task's folder and its branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub folder: PathBuf,
    pub branch: String,
}

/// What a task has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Everything is in this commit.
    Commit(String),
    /// It cannot be told what the result is; the text is for the agent.
    Unclear(String),
}

/// What comes of merging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    Commit(String),
    /// Both sides changed the same: the files in a few words, and where in them.
    Conflict {
        files: String,
        text: String,
    },
}

/// What became of a branch that was to be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It is where it was to be.
    There,
    /// It is where it was expected, with commits that the new place does not have.
    Ahead(String),
    /// Somebody else has moved it, or away if there is no commit.
    Elsewhere(Option<String>),
    /// It is checked out in this folder, whose files would no longer fit.
    CheckedOut(String),
}

impl Project {
    /// Names a project and the folder for its worktrees. Commands that change anything wait for each other, by a lock beside
    /// that folder.
    pub fn new(root: &Path, folder: &Path) -> Self {
        let lock = folder.with_file_name(".git-runs");
        Self {
            git: Git::at(root).within(DEADLINE).one_at_a_time(&lock),
            root: root.to_owned(),
            folder: folder.to_owned(),
            lock,
        }
    }

    fn at(&self, folder: &Path) -> Git {
        Git::at(folder).within(DEADLINE).one_at_a_time(&self.lock)
    }

    /// Makes the folder for the worktrees.
    ///
    /// # Errors
    /// What the file system says.
    pub fn make_folder(&self) -> io::Result<()> {
        fs::create_dir_all(&self.folder)
    }

    /// Tells whether the person has changes in the project that are in no commit.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn has_changes(&self) -> Result<bool, GitError> {
        let words = ["status", "--porcelain", "--untracked-files=no"];
        Ok(!self.git.bytes(&words).await?.is_empty())
    }

    /// Lays out a task's worktree, beginning from `start`, unless it is there. A folder that is none, or only half of one, is moved
    /// aside: nobody can tell what is in it.
    ///
    /// # Errors
    /// As [`Git::bytes`], or what the file system says.
    pub async fn lay_out(&self, place: &Place, start: &str) -> Result<(), GitError> {
        self.make_folder()?;
        if let Some(ready) = self.ready_mark(&place.folder).await? {
            if ready.exists() {
                return Ok(());
            }
            let status = ["status", "--porcelain"];
            let whole = self.at(&place.folder).run(&status).await?;
            if whole.exit == 0 && whole.out.is_empty() {
                return Ok(fs::write(ready, "")?);
            }
        }
        if place.folder.exists() {
            let aside = free_name(&place.folder);
            tracing::warn!(folder = %place.folder.display(), aside = %aside.display(), "what is no worktree is moved aside");
            fs::rename(&place.folder, aside)?;
        }
        let folder = place.folder.to_string_lossy();
        let there = format!("refs/heads/{}", place.branch);
        // Twice, as a git that was killed on the way leaves it locked.
        let add = ["worktree", "add", "--force", "--force", "--quiet"];
        let words = match self.git.resolve(&there).await? {
            Some(_) => [&add[..], &[&*folder, &*place.branch]].concat(),
            None => [
                &add[..],
                &["--no-track", "-b", &place.branch, &folder, start],
            ]
            .concat(),
        };
        self.git.bytes(&words).await?;
        if let Some(ready) = self.ready_mark(&place.folder).await? {
            fs::write(ready, "")?;
        }
        Ok(())
    }

    /// Returns the file that says that a worktree is laid out; `None` if the folder is no worktree of the project.
    async fn ready_mark(&self, folder: &Path) -> Result<Option<PathBuf>, GitError> {
        if !folder.join(".git").is_file() {
            return Ok(None);
        }
        let git = self.at(folder);
        let own = git.run(&["rev-parse", "--absolute-git-dir"]).await?;
        if own.exit != 0 || git.resolve("HEAD").await?.is_none() {
            return Ok(None);
        }
        let own = String::from_utf8_lossy(&own.out);
        Ok(Some(Path::new(own.trim()).join(READY)))
    }

    /// Merges a commit into a task's worktree, for its agent to resolve what conflicts; nothing if it is merged, or being
    /// merged.
    ///
    /// # Errors
    /// As [`Git::run`]. That it cannot be merged now, as an agent still works there, is only logged.
    pub async fn begin_merge(&self, place: &Place, commit: &str) -> Result<(), GitError> {
        let git = self.at(&place.folder);
        if git.resolve("MERGE_HEAD").await?.is_some() || self.has(&git, commit, "HEAD").await? {
            return Ok(());
        }
        let words = ["merge", "--no-commit", "--no-ff", "--quiet", commit];
        let said = git.run(&words).await?;
        if said.exit > 1 {
            tracing::warn!(folder = %place.folder.display(), said = said.err, "the accepted results are not merged in");
        }
        Ok(())
    }

    /// Tells whether a file in a task's worktree is as it was in a commit, and nobody has written it anew since it was laid out.
    ///
    /// # Errors
    /// As [`Git::holds`].
    pub async fn untouched(&self, place: &Place, base: &str, path: &str) -> Result<bool, GitError> {
        let git = self.at(&place.folder);
        let Some(was) = git.resolve(&format!("{base}:{path}")).await? else {
            return Ok(false);
        };
        let file = format!(":(top,literal){path}");
        let words = ["diff", "--quiet", "--no-ext-diff", base, "--", &file];
        // Who may execute it is none of its content.
        if !git.holds(&words).await? && git.line(&["hash-object", "--", path]).await? != was {
            return Ok(false);
        }
        // What was written again with the same content counts as written.
        let ready = self.ready_mark(&place.folder).await?;
        let laid_out = ready.and_then(|ready| ready.metadata().ok()?.modified().ok());
        let written = fs::metadata(place.folder.join(path))?.modified()?;
        Ok(laid_out.is_none_or(|laid_out| written <= laid_out))
    }

    /// Commits what an agent left in a task's worktree onto the task's branch.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn keep(&self, place: &Place, message: &str) -> Result<Kept, GitError> {
        let git = self.at(&place.folder);
        let Some(ready) = self.ready_mark(&place.folder).await? else {
            return Ok(Kept::Unclear(format!(
                "`{}` is no git worktree any more.",
                place.folder.display()
            )));
        };
        let keeping = ready.with_file_name(KEEPING);
        let lock = git.line(&["rev-parse", "--git-path", "index.lock"]).await?;
        let lock = place.folder.join(lock);
        if keeping.exists() {
            // Of a daemon that was ended while it did this; the commands wait until its last one is over.
            drop(fs::remove_file(&lock));
        } else if lock.exists() {
            return Ok(Kept::Unclear(format!(
                "A git command is unfinished: `{}` exists. End it, or remove that file.",
                lock.display()
            )));
        }
        fs::write(&keeping, "")?;
        let kept = self.commit_all(&git, place, message).await?;
        fs::remove_file(&keeping)?;
        Ok(kept)
    }

    async fn commit_all(&self, git: &Git, place: &Place, message: &str) -> Result<Kept, GitError> {
        if let Some(unclear) = self.back_on_branch(git, place).await? {
            return Ok(Kept::Unclear(unclear));
        }
        let words = ["diff", "--name-only", "--diff-filter=U", "-z"];
        let unmerged = names(&git.bytes(&words).await?);
        if let Some(unclear) = marks_in(&place.folder, unmerged).await? {
            return Ok(Kept::Unclear(unclear));
        }
        let but = git.excluding(&[AGENT_FOLDER]).await?;
        let empty = git.add_all(&but).await?;
        let nested = nested(git).await?;
        if !nested.is_empty() {
            // What stays in the index would hide the files from the next look.
            let mut words = vec!["rm", "--cached", "--force", "--quiet", "--"];
            let literal: Vec<_> = nested
                .iter()
                .map(|n| format!(":(top,literal){n}"))
                .collect();
            words.extend(literal.iter().map(String::as_str));
            git.bytes(&words).await?;
        }
        let own = [nested, empty].concat();
        if !own.is_empty() {
            return Ok(Kept::Unclear(format!(
                "A git repository of its own lies within the work: {}.\nIts files are in no commit of the project. Remove its `.git` if they belong to the result, else the whole folder.",
                list(&own)
            )));
        }
        let merging = git.resolve("MERGE_HEAD").await?.is_some();
        if merging || !git.holds(&["diff", "--cached", "--quiet"]).await? {
            let words = ["commit", "--quiet", "--no-verify", "--allow-empty"];
            git.bytes(&[&words[..], &["--cleanup=verbatim", "-m", message]].concat())
                .await?;
        }
        git.line(&["rev-parse", "HEAD"]).await.map(Kept::Commit)
    }

    /// Tells what is unclear of a commit in which somebody has merged something by themselves: files with the marks of a
    /// conflict that came since it left `tip`. What merged nothing may have such lines, as a test of a merge tool does.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn left_marks(
        &self,
        place: &Place,
        tip: &str,
        head: &str,
    ) -> Result<Option<String>, GitError> {
        let git = self.at(&place.folder);
        let span = format!("{tip}..{head}");
        let merges = ["rev-list", "--merges", "--max-count=1", &span];
        if git.bytes(&merges).await?.is_empty() {
            return Ok(None);
        }
        let span = format!("{tip}...{head}");
        let words = ["diff", "--name-only", "--no-renames", "-z", &span, "--"];
        let changed = names(&git.bytes(&words).await?);
        Ok(marks_in(&place.folder, changed).await?)
    }

    /// Sees to it that the worktree is on the task's branch. An agent may have gone on on a branch of its own: as long as that
    /// has everything, the task's branch follows, and the other one stays. Returns what is unclear otherwise.
    async fn back_on_branch(&self, git: &Git, place: &Place) -> Result<Option<String>, GitError> {
        let branch = format!("refs/heads/{}", place.branch);
        let on = git.run(&["symbolic-ref", "--quiet", "HEAD"]).await?;
        let on = String::from_utf8_lossy(&on.out).trim().to_owned();
        let head = git.line(&["rev-parse", "HEAD"]).await?;
        let own = git.resolve(&branch).await?;
        if on == branch && own.is_some() {
            return Ok(None);
        }
        let held = match &own {
            Some(own) => self.has(git, own, &head).await?,
            None => true,
        };
        if !held {
            let place = &place.branch;
            return Ok(Some(format!(
                "The worktree is not on the branch of this task. Bring the work onto it: `git switch {place}`."
            )));
        }
        let old = own.unwrap_or_default();
        git.bytes(&["update-ref", "--no-deref", &branch, &head, &old])
            .await?;
        git.bytes(&["symbolic-ref", "HEAD", &branch]).await?;
        Ok(None)
    }

    /// Tells whether a commit is in the history of another.
    async fn has(&self, git: &Git, commit: &str, history: &str) -> Result<bool, GitError> {
        let words = ["merge-base", "--is-ancestor", commit, history];
        git.holds(&words).await
    }

    /// Makes the commit of two histories together; nothing is checked out and no branch moves. What has nothing new is the
    /// first one.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn merge(&self, onto: &str, head: &str, message: &str) -> Result<Merged, GitError> {
        if self.has(&self.git, head, onto).await? {
            return Ok(Merged::Commit(onto.to_owned()));
        }
        let words = [
            "merge-tree",
            "--write-tree",
            "--no-messages",
            "--name-only",
            "-z",
            onto,
            head,
        ];
        let said = self.git.run(&words).await?;
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
            _ => {
                self.git.bytes(&words).await?;
            }
        }
        let words = ["commit-tree", &tree, "-p", onto, "-p", head, "-m", message];
        self.git.line(&words).await.map(Merged::Commit)
    }

    /// As [`Self::merge`], but what has everything of the other is taken as it is.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn join(&self, onto: &str, head: &str, message: &str) -> Result<Merged, GitError> {
        if self.has(&self.git, onto, head).await? {
            return Ok(Merged::Commit(head.to_owned()));
        }
        self.merge(onto, head, message).await
    }

    /// Shows the conflicting places of the files in a tree that was merged aside.
    async fn conflicts(&self, tree: &str, names: &[String]) -> Result<String, GitError> {
        let mut shown = String::new();
        for name in names {
            if shown.len() >= SHOWN {
                break;
            }
            let file = self
                .git
                .run(&["cat-file", "blob", &format!("{tree}:{name}")])
                .await?;
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

    /// Lays out a commit in the folder where results are checked, which belongs to nobody else, and returns the folder. What git
    /// ignores stays there from one result to the next.
    ///
    /// # Errors
    /// As [`Git::bytes`], or what the file system says.
    pub async fn check_out(&self, commit: &str) -> Result<PathBuf, GitError> {
        let folder = self.folder.join("merge");
        let git = self.at(&folder);
        if let Some(ready) = self.ready_mark(&folder).await? {
            let own = ready.with_file_name("index.lock");
            // Nobody but a check works here, and none runs now.
            drop(fs::remove_file(own));
            let words = ["checkout", "--detach", "--force", "--quiet", commit];
            let clean = ["clean", "-ffdq"];
            if git.run(&words).await?.exit == 0 && git.run(&clean).await?.exit == 0 {
                return Ok(folder);
            }
        }
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        self.make_folder()?;
        let path = folder.to_string_lossy();
        let words = [
            "worktree", "add", "--force", "--force", "--detach", "--quiet", &path, commit,
        ];
        self.git.bytes(&words).await?;
        Ok(folder)
    }

    /// Moves a branch to a commit, if it is where it is expected and that loses nothing. `expected` is `None` for one that is
    /// still to be made.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn move_branch(
        &self,
        branch: &str,
        to: &str,
        expected: Option<&str>,
    ) -> Result<Moved, GitError> {
        let name = format!("refs/heads/{branch}");
        let found = self.git.resolve(&name).await?;
        if found.as_deref() == Some(to) {
            return Ok(Moved::There);
        }
        if found.as_deref() != expected {
            return Ok(Moved::Elsewhere(found));
        }
        if let Some(found) = &found
            && !self.has(&self.git, found, to).await?
        {
            return Ok(Moved::Ahead(found.clone()));
        }
        let list = self
            .git
            .bytes(&["worktree", "list", "--porcelain", "-z"])
            .await?;
        let mut folder = String::new();
        for line in names(&list) {
            if let Some(path) = line.strip_prefix("worktree ") {
                path.clone_into(&mut folder);
            } else if line.strip_prefix("branch ") == Some(name.as_str()) {
                return Ok(Moved::CheckedOut(folder));
            }
        }
        let old = found.unwrap_or_default();
        let words = ["update-ref", "--no-deref", "-m", "plan-agent: accepted"];
        let words = [&words[..], &[&name, to, &old]].concat();
        match self.git.bytes(&words).await {
            Ok(_) => Ok(Moved::There),
            Err(error) => match self.git.resolve(&name).await? {
                found if found.as_deref() == Some(to) => Ok(Moved::There),
                found if found.as_deref() == expected => Err(error),
                found => Ok(Moved::Elsewhere(found)),
            },
        }
    }

    /// Removes a worktree whose every file is in a commit that `tip` has, and its branch with it. Whatever else is in there keeps
    /// both. Returns whether they are gone.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn put_away(&self, place: &Place, tip: &str) -> Result<bool, GitError> {
        let branch = format!("refs/heads/{}", place.branch);
        let Some(head) = self.git.resolve(&branch).await? else {
            return Ok(!place.folder.exists());
        };
        if !self.has(&self.git, &head, tip).await? {
            return Ok(false);
        }
        if place.folder.exists() {
            if self.ready_mark(&place.folder).await?.is_none() {
                return Ok(false);
            }
            let git = self.at(&place.folder);
            let words = ["status", "--porcelain", "--ignored", "-z"];
            let own = format!("!! {AGENT_FOLDER}/");
            let status = names(&git.bytes(&words).await?);
            let at = git.resolve("HEAD").await?;
            if !own_repositories(&git).await?.is_empty() {
                return Ok(false);
            }
            if at.as_ref() != Some(&head) || status.iter().any(|line| *line != own) {
                return Ok(false);
            }
            let folder = place.folder.to_string_lossy();
            let words = ["worktree", "remove", "--force", &folder];
            self.git.bytes(&words).await?;
        }
        self.git
            .bytes(&["update-ref", "--no-deref", "-d", &branch, &head])
            .await?;
        Ok(true)
    }

    /// Removes the folder in which results were checked.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub async fn put_checks_away(&self) -> Result<(), GitError> {
        let folder = self.folder.join("merge");
        if folder.exists() {
            let folder = folder.to_string_lossy();
            self.git
                .run(&["worktree", "remove", "--force", "--force", &folder])
                .await?;
        }
        Ok(())
    }

    /// Returns the commit that a branch is at; `None` if there is no such branch.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub async fn at_branch(&self, branch: &str) -> Result<Option<String>, GitError> {
        self.git.resolve(&format!("refs/heads/{branch}")).await
    }

    /// Returns the root of the project.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// What a task has changed so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub from: String,
    pub to: String,
    /// Repositories within, of which nothing is in there, as they have no commit.
    pub left_out: Vec<String>,
}

/// Returns what a task has changed so far: from where its branch left `tip` to the files as they are in its folder.
///
/// # Errors
/// As [`Git::bytes`].
pub async fn span_of(place: &Path, tip: &str) -> Result<Span, GitError> {
    let git = Git::at(place);
    let from = git.line(&["merge-base", tip, "HEAD"]).await?;
    let (to, left_out) = git.snapshot(&[AGENT_FOLDER]).await?;
    Ok(Span { from, to, left_out })
}

/// How much of a difference is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Every line.
    Lines,
    /// The files, with figures.
    Files,
    /// The figures alone, on one line.
    Figures,
}

/// Returns the difference of two trees as git writes it.
///
/// # Errors
/// As [`Git::bytes`].
pub async fn difference(
    folder: &Path,
    from: &str,
    to: &str,
    extent: Extent,
) -> Result<Vec<u8>, GitError> {
    let kind = match extent {
        Extent::Lines => "--patch",
        Extent::Files => "--stat",
        Extent::Figures => "--shortstat",
    };
    let words = [
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        kind,
        from,
        to,
        "--",
    ];
    Git::at(folder).bytes(&words).await
}

/// Returns names that each end with a zero byte; one that is not UTF-8 is made readable.
fn names(bytes: &[u8]) -> Vec<String> {
    bytes
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

fn list(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).map(|name| format!("`{name}`"));
    let more = names.len().saturating_sub(NAMED);
    let rest = (more > 0).then(|| format!("{more} more"));
    shown.chain(rest).collect::<Vec<_>>().join(", ")
}

/// Returns a name beside a folder that nothing has.
fn free_name(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let aside = |number: u32| folder.with_file_name(format!("{name}.aside-{number}"));
    (1..)
        .map(aside)
        .find(|path| !path.exists())
        .unwrap_or_else(|| aside(0))
}

#[cfg(test)]
mod tests;
