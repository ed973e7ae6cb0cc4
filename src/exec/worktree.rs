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
use super::repository::link;
use crate::plan::Repository;
use crate::wire::text::clip;
use left::{marks_in, nested, own_repositories};

pub use project::{ProjectError, project_head};

/// A large project takes its time to be laid out.
const DEADLINE: Duration = Duration::from_secs(600);

/// The folder in which an agent may leave its report; no part of the work.
pub const AGENT_FOLDER: &str = ".plan-agent";

/// Written beside a worktree's own git data once its files are laid out: before that nobody has worked in it.
const READY: &str = "plan-agent-ready";
/// Stands there from before its files are laid out until it is ready.
const BEGUN: &str = "plan-agent-begun";
/// The folder, beside the worktrees, from which git takes its configuration.
const OURS: &str = "git";
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
    /// The folder in which the repository keeps what belongs to one worktree alone.
    worktrees: PathBuf,
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
    /// Names a project with its repository as it was when the plan began, and the folder for its worktrees, which is made.
    ///
    /// # Errors
    /// The project has another repository by now, or the folder cannot be made.
    pub async fn open(
        root: &Path,
        repository: &Repository,
        folder: &Path,
    ) -> Result<Self, GitError> {
        let git = Git::open(root, repository, &folder.join(OURS)).await?;
        Ok(Self {
            git: git.within(DEADLINE),
            root: root.to_owned(),
            folder: folder.to_owned(),
            worktrees: Path::new(&repository.common_dir).join("worktrees"),
        })
    }

    /// Lets commands wait for each other, by a lock beside the folder of the worktrees: whoever changes anything does.
    #[must_use]
    pub fn one_at_a_time(self) -> Self {
        let lock = self.folder.with_file_name(".git-runs");
        Self {
            git: self.git.one_at_a_time(&lock),
            ..self
        }
    }

    /// Tells whether the person has changes in the project that are in no commit.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn has_changes(&self) -> Result<bool, GitError> {
        let words = ["status", "--porcelain", "--untracked-files=no"];
        Ok(!self.git.bytes(&words).await?.is_empty())
    }

    /// Lays out a task's worktree, beginning from `start`, unless it is there. What a killed daemon had laid out in part is laid out
    /// again. Any other folder of that name is moved aside: nobody can tell what is in it.
    ///
    /// # Errors
    /// As [`Git::bytes`], or what the file system says.
    pub async fn lay_out(&self, place: &Place, start: &str) -> Result<(), GitError> {
        if let Some(git) = self.worktree(&place.folder).await? {
            if git.own_path(READY).exists() {
                return Ok(());
            }
            if git.own_path(BEGUN).exists() {
                return lay_out_files(&git).await;
            }
            let whole = git.run(&["status", "--porcelain"]).await?;
            if whole.exit == 0 && whole.out.is_empty() {
                return mark(&git, READY).await;
            }
        }
        if holds_only_its_link(&place.folder) {
            // A git that was killed had not begun with the files.
            remove_folder(place.folder.clone()).await?;
        }
        if place.folder.exists() {
            let aside = free_name(&place.folder);
            tracing::warn!(folder = %place.folder.display(), aside = %aside.display(), "what is no worktree is moved aside");
            fs::rename(&place.folder, aside)?;
        }
        let there = format!("refs/heads/{}", place.branch);
        let words = match self.git.resolve(&there).await? {
            Some(_) => vec![&*place.branch],
            None => vec!["--no-track", "-b", &*place.branch, start],
        };
        self.add_worktree(&place.folder, &words).await
    }

    /// Adds a worktree of what some words say, and lays out its files.
    async fn add_worktree(&self, folder: &Path, words: &[&str]) -> Result<(), GitError> {
        let worktrees = self.worktrees.clone();
        blocking(move || fs::create_dir_all(worktrees)).await?;
        // Twice, as a git that was killed on the way leaves it locked.
        let add = [
            "worktree",
            "add",
            "--force",
            "--force",
            "--quiet",
            "--no-checkout",
        ];
        let (words, commit) = match words {
            [options @ .., commit] => (options, *commit),
            [] => (words, "HEAD"),
        };
        let path = folder.to_string_lossy();
        let words = [&add[..], words, &[&*path, commit]].concat();
        self.git.bytes(&words).await?;
        let (own, worktrees) = (folder.join(".git"), self.worktrees.clone());
        // Git has named it by our folder.
        let name = move || {
            let named = link(&own, "gitdir:")?;
            let name = named.file_name().unwrap_or_default();
            let named = worktrees.join(name);
            fs::write(own, format!("gitdir: {}\n", named.display()))?;
            Ok(named)
        };
        let git = self.git.in_worktree(folder, &blocking(name).await?);
        lay_out_files(&git).await
    }

    /// Returns git in a worktree of the project; `None` if the folder is none, or not any more: agents can write to what it says of
    /// itself.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub async fn worktree(&self, folder: &Path) -> Result<Option<Git>, GitError> {
        let (place, worktrees) = (folder.to_owned(), self.worktrees.clone());
        let known = blocking(move || Ok(own_git_dir(&place, &worktrees).ok())).await?;
        let Some(git_dir) = known else {
            return Ok(None);
        };
        let git = self.git.in_worktree(folder, &git_dir);
        Ok(git.resolve("HEAD").await?.is_some().then_some(git))
    }

    /// Merges a commit into a task's worktree, for its agent to resolve what conflicts; nothing if it is merged, or being
    /// merged.
    ///
    /// # Errors
    /// As [`Git::run`]. That it cannot be merged now, as an agent still works there, is only logged.
    pub async fn begin_merge(&self, place: &Place, commit: &str) -> Result<(), GitError> {
        let Some(git) = self.worktree(&place.folder).await? else {
            return Ok(());
        };
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
        let Some(git) = self.worktree(&place.folder).await? else {
            return Ok(false);
        };
        let Some(was) = git.resolve(&format!("{base}:{path}")).await? else {
            return Ok(false);
        };
        let file = format!(":(top,literal){path}");
        let words = ["diff", "--quiet", base, "--", &file];
        // Who may execute it is none of its content.
        if !git.holds(&words).await? && git.line(&["hash-object", "--", path]).await? != was {
            return Ok(false);
        }
        // What was written again with the same content counts as written.
        let ready = git.own_path(READY).symlink_metadata();
        let laid_out = ready.and_then(|ready| ready.modified()).ok();
        let written = fs::metadata(place.folder.join(path))?.modified()?;
        Ok(laid_out.is_none_or(|laid_out| written <= laid_out))
    }

    /// Commits what an agent left in a task's worktree onto the task's branch.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn keep(&self, place: &Place, message: &str) -> Result<Kept, GitError> {
        let Some(git) = self.worktree(&place.folder).await? else {
            return Ok(Kept::Unclear(format!(
                "`{}` is no git worktree any more: its `.git` is not what it was.",
                place.folder.display()
            )));
        };
        let (keeping, lock) = (git.own_path(KEEPING), git.own_path("index.lock"));
        if keeping.exists() {
            // Of a daemon that was ended while it did this; the commands wait until its last one is over.
            drop(fs::remove_file(&lock));
        } else if lock.exists() {
            return Ok(Kept::Unclear(format!(
                "A git command is unfinished: `{}` exists. End it, or remove that file.",
                lock.display()
            )));
        }
        mark(&git, KEEPING).await?;
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
        let empty = git.add_all(&[AGENT_FOLDER]).await?;
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
        let git = &self.git;
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
        if let Some(git) = self.worktree(&folder).await? {
            // Nobody but a check works here, and none runs now.
            drop(fs::remove_file(git.own_path("index.lock")));
            let words = ["checkout", "--detach", "--force", "--quiet", commit];
            let clean = ["clean", "-ffdq"];
            if git.run(&words).await?.exit == 0 && git.run(&clean).await?.exit == 0 {
                return Ok(folder);
            }
        }
        remove_folder(folder.clone()).await?;
        self.add_worktree(&folder, &["--detach", commit]).await?;
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
        for (at, line) in names(&list).into_iter().enumerate() {
            if at == 0 {
                // The first one is that of the repository itself, which git takes our folder for.
                folder = self.main_worktree();
            } else if let Some(path) = line.strip_prefix("worktree ") {
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
            let Some(git) = self.worktree(&place.folder).await? else {
                return Ok(false);
            };
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

    /// Returns where the repository's first work tree is.
    fn main_worktree(&self) -> String {
        let common = self.worktrees.parent().unwrap_or(&self.root);
        match common.file_name() {
            Some(name) if name == ".git" => common.parent().unwrap_or(common),
            _ => common,
        }
        .display()
        .to_string()
    }

    /// Returns git in the project itself.
    pub fn git(&self) -> &Git {
        &self.git
    }
}

/// Returns where a worktree keeps its HEAD and its index, if it and the repository still name each other.
fn own_git_dir(folder: &Path, worktrees: &Path) -> io::Result<PathBuf> {
    let named = link(&folder.join(".git"), "gitdir:")?;
    let known = worktrees.join(named.file_name().unwrap_or_default());
    let back = link(&known.join("gitdir"), "")?;
    let real = known.canonicalize()?;
    let mutual = real == known
        && named.canonicalize()? == known
        && back.canonicalize()? == folder.canonicalize()?.join(".git");
    match mutual {
        true => Ok(known),
        false => Err(io::Error::other("it is no worktree of the project")),
    }
}

/// Writes the files of a worktree in which nobody has worked, and marks it as ready.
async fn lay_out_files(git: &Git) -> Result<(), GitError> {
    mark(git, BEGUN).await?;
    // Of a git that was killed: the commands wait until its last one is over.
    drop(fs::remove_file(git.own_path("index.lock")));
    git.bytes(&["reset", "--hard", "--quiet"]).await?;
    mark(git, READY).await?;
    Ok(fs::remove_file(git.own_path(BEGUN))?)
}

/// Returns whether nothing is in a folder but the file by which git makes it a worktree, or not even that.
fn holds_only_its_link(folder: &Path) -> bool {
    let is_link = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| {
            entry.file_name() == ".git" && entry.file_type().is_ok_and(|kind| kind.is_file())
        })
    };
    fs::read_dir(folder).is_ok_and(|mut entries| entries.all(is_link))
}

/// Leaves an empty file in what belongs to a worktree alone. It is never written through a link that an agent has put there.
async fn mark(git: &Git, name: &str) -> Result<(), GitError> {
    let path = git.own_path(name);
    let make = move || match fs::File::create_new(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    };
    blocking(make).await
}

/// Removes a folder, if it is there, with all that is in it: that may take long, and holds up nobody.
///
/// # Errors
/// What the file system says.
pub async fn remove_folder(folder: PathBuf) -> io::Result<()> {
    let removed = tokio::task::spawn_blocking(|| fs::remove_dir_all(folder)).await?;
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Runs what waits for the disk where that holds up nobody.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, GitError> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(io::Error::from)??)
}

/// What a task has changed so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub from: String,
    pub to: String,
    /// Repositories within, of which nothing is in there, as they have no commit.
    pub left_out: Vec<String>,
}

/// Returns what a task has changed so far: from where its branch left `tip` to the files as they are in its worktree.
///
/// # Errors
/// As [`Git::bytes`].
pub async fn span_of(git: &Git, tip: &str) -> Result<Span, GitError> {
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
    git: &Git,
    from: &str,
    to: &str,
    extent: Extent,
) -> Result<Vec<u8>, GitError> {
    let kind = match extent {
        Extent::Lines => "--patch",
        Extent::Files => "--stat",
        Extent::Figures => "--shortstat",
    };
    git.bytes(&["diff", kind, from, to, "--"]).await
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
