//! Worktrees of a project: each task works on a branch and in a folder of its own. Results are merged outside the person's
//! folders, where checks run on them. Every operation may be repeated after a kill: it first checks what exists. Work that is
//! not merged anywhere is never deleted.

mod integration;
mod project_check;
mod ready_for_work;
mod take_over;
mod transported_commits;
mod unmergeable_content;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::check_folder::CheckFolder;
use super::folder_removal::remove_folder;
use super::git::{Git, GitError, Result, blocking};
use crate::foreign_files::git_link;
use crate::plan::Repository;
use crate::wire::text::joined;
use unmergeable_content::{all_decided, has_no_marks, is_laid_out, nested, own_repositories};

pub use integration::{BranchMove, Merged};
pub use project_check::{ProjectError, project_head};
pub use take_over::TakeOver;

/// Creating the worktree of a large project takes a long time.
const DEADLINE: Duration = Duration::from_secs(600);

/// The folder for an agent's report; it is not part of the work.
pub const AGENT_FOLDER: &str = ".plan-agent";

/// A file in a worktree's own git data, written after its files: before that no agent has worked in the worktree.
const READY: &str = "plan-agent-ready";
/// A file that exists from before the worktree's files are written until it is ready.
const BEGUN: &str = "plan-agent-begun";
/// The folder, beside the worktrees, with the configuration for git.
const OURS: &str = "git";
/// A file in the worktree's own git data that exists while a result is committed.
const KEEPING: &str = "plan-agent-keeping";

/// The folder, beside the worktrees, into which one is moved to be removed: after a kill it is whole or there.
const REMOVED: &str = "removed";

/// The folders for checks beside the worktrees: on merged results, and on the state before a task's work.
pub const MERGED: &str = "merge";
pub const BEFORE: &str = "before";

/// Commits what is in the index, without hooks, with the message as it is.
const COMMIT: &str = "commit --quiet --no-verify --cleanup=verbatim";

/// Files that git gets on one command line.
const AT_ONCE: usize = 500;

/// The most conflicting files that are named.
const NAMED: usize = 20;

/// A project and the folder of its worktrees.
#[derive(Clone, Debug)]
pub struct Project {
    /// Works in the project itself.
    git: Git,
    folder: PathBuf,
    /// The folder in which the repository stores the data of single worktrees.
    worktrees: PathBuf,
}

/// A task's folder and its branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskWorktree {
    pub folder: PathBuf,
    pub branch: String,
}

impl TaskWorktree {
    /// Says that the folder is no worktree of the project.
    pub(super) fn no_worktree(&self) -> GitError {
        GitError::Unclear(format!(
            "`{}` is no git worktree any more: its `.git` is not what it was, or its branch has no commit. The next attempt gets a new one; what is there now is kept beside it, in a folder whose name ends with `.aside-1` or a higher number.",
            self.folder.display()
        ))
    }
}

impl Project {
    /// Opens a project with its repository as recorded when the plan began, and the folder for its worktrees, which is created.
    ///
    /// # Errors
    /// The project has another repository by now, or the folder cannot be created.
    pub async fn open(root: &Path, repository: &Repository, folder: &Path) -> Result<Self> {
        let git = Git::open(root, repository, &folder.join(OURS)).await?;
        Ok(Self {
            git: git.within(DEADLINE),
            folder: folder.to_owned(),
            worktrees: Path::new(&repository.common_dir).join("worktrees"),
        })
    }

    /// Makes commands wait for each other, by a lock beside the folder of the worktrees: every caller that changes anything
    /// uses it.
    #[must_use]
    pub fn one_at_a_time(self) -> Self {
        let lock = self.folder.with_file_name(".git-runs");
        let git = self.git.one_at_a_time(&lock);
        Self { git, ..self }
    }

    /// Returns the paths that the person has changed or added in the project and not committed; a folder of which no file is
    /// known to git ends with `/`.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn uncommitted(&self) -> Result<Vec<String>> {
        let changed = self.git.names("status --porcelain --no-renames -z", &[]);
        // Two letters for what happened and a space come first.
        let path = |line: &String| line.get(3..).map(str::to_owned);
        Ok(changed.await?.iter().filter_map(path).collect())
    }

    /// Returns whether folders of the project stand for commits of other repositories.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn has_submodules(&self) -> Result<bool> {
        let modes = "ls-tree -r -z --format=%(objectmode) HEAD";
        let modes = self.git.names(modes, &[]).await?;
        Ok(modes.iter().any(|mode| mode == "160000"))
    }

    /// Returns whether the repository is a clone with a filter that has not all files of its last commit: git does not fetch them,
    /// as that runs programs which the project's configuration names.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn lacks_files(&self) -> Result<bool> {
        let packs = self.worktrees.with_file_name("objects").join("pack");
        let mut packs = fs::read_dir(packs).into_iter().flatten().flatten();
        // Beside each pack that such a clone has fetched.
        let is_promised =
            |entry: fs::DirEntry| entry.path().extension() == Some("promisor".as_ref());
        if !packs.any(is_promised) {
            return Ok(false);
        }
        let list = "rev-list --objects --no-object-names --missing=print --no-walk HEAD";
        let listed = self.git.bytes(list, &[]).await?;
        Ok(listed
            .split(|byte| *byte == b'\n')
            .any(|line| line.starts_with(b"?")))
    }

    /// Returns the branch that is checked out in the project; `None` if none is.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub async fn branch(&self) -> Result<Option<String>> {
        let command = "symbolic-ref --quiet --short HEAD";
        let said = self.git.run(command, &[]).await?;
        Ok((said.exit == 0).then_some(String::from_utf8_lossy(&said.out).trim().to_owned()))
    }

    /// Creates a task's worktree at `start`, unless it exists. A worktree that a killed daemon left incomplete is written
    /// again. Any other folder of that name is moved aside, because its content is unknown.
    ///
    /// # Errors
    /// As [`Git::bytes`], or the error of the file system.
    pub async fn lay_out(&self, place: &TaskWorktree, start: &str) -> Result<()> {
        if let Some(git) = self.worktree(&place.folder).await? {
            if git.own_path(READY).exists() {
                return Ok(());
            }
            if git.own_path(BEGUN).exists() {
                return self.lay_out_files(&git).await;
            }
            let whole = git.run("status --porcelain", &[]).await?;
            if whole.exit == 0 && whole.out.is_empty() {
                return mark(&git, READY).await;
            }
        }
        if holds_only_its_link(&place.folder) {
            // A git that was killed had not begun to write the files.
            remove_folder(place.folder.clone()).await?;
        }
        if place.folder.exists() {
            let aside = free_name(&place.folder);
            tracing::warn!(folder = %place.folder.display(), aside = %aside.display(), "what is no worktree is moved aside");
            fs::rename(&place.folder, aside)?;
        }
        let (options, commit) = match self.at_branch(&place.branch).await? {
            Some(_) => (&[][..], &*place.branch),
            None => (&["--no-track", "-b", &*place.branch][..], start),
        };
        self.add_worktree(&place.folder, options, commit).await
    }

    /// Adds a worktree at a commit or branch, and writes its files.
    async fn add_worktree(&self, folder: &Path, options: &[&str], commit: &str) -> Result<()> {
        let worktrees = self.worktrees.clone();
        blocking(move || Ok(fs::create_dir_all(worktrees)?)).await?;
        // The option occurs twice because a git that was killed on the way leaves the worktree locked.
        let add = "worktree add --force --force --quiet --no-checkout";
        let path = folder.to_string_lossy();
        let words = [options, &[&*path, commit]].concat();
        self.git.bytes(add, &words).await?;
        let (own, worktrees) = (folder.join(".git"), self.worktrees.clone());
        // Git has written a path through this program's folder into it.
        let name = move || {
            let named = git_link(&own, "gitdir:")?;
            let named = worktrees.join(named.file_name().unwrap_or_default());
            fs::write(own, format!("gitdir: {}\n", named.display()))?;
            Ok(named)
        };
        let git = self.git.in_worktree(folder, &blocking(name).await?);
        self.lay_out_files(&git).await
    }

    /// Writes the files of a worktree in which no agent has worked, and marks it as ready.
    async fn lay_out_files(&self, git: &Git) -> Result<()> {
        mark(git, BEGUN).await?;
        // The lock is from a git that was killed: commands wait until the last one has ended.
        drop(fs::remove_file(git.own_path("index.lock")));
        git.bytes("reset --hard --quiet", &[]).await?;
        self.include(git.folder()).await?;
        mark(git, READY).await?;
        Ok(fs::remove_file(git.own_path(BEGUN))?)
    }

    /// Returns git in a worktree of the project; `None` if the folder is not or no longer a worktree: agents can write to its
    /// `.git` file.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub async fn worktree(&self, folder: &Path) -> Result<Option<Git>> {
        let (place, worktrees) = (folder.to_owned(), self.worktrees.clone());
        let known = blocking(move || Ok(own_git_dir(&place, &worktrees).ok())).await?;
        let Some(git_dir) = known else {
            return Ok(None);
        };
        let git = self.git.in_worktree(folder, &git_dir);
        Ok(git.resolve("HEAD").await?.is_some().then_some(git))
    }

    /// Brings a task's worktree, all of whose commits are in another one, to that one; else as [`Self::begin_merge`].
    ///
    /// # Errors
    /// As [`Git::run`]. If it cannot be brought there, this is only logged.
    pub async fn bring_forward(&self, place: &TaskWorktree, commit: &str) -> Result<()> {
        self.merge_into(place, commit, "merge --ff-only --quiet")
            .await
    }

    /// Merges a commit into a task's worktree, so that its agent can resolve conflicts; does nothing if it is already merged or
    /// being merged, or if the worktree is not on the task's branch.
    ///
    /// # Errors
    /// As [`Git::run`]. If it cannot be merged now because an agent still works there, this is only logged.
    pub async fn begin_merge(&self, place: &TaskWorktree, commit: &str) -> Result<()> {
        let merge = "merge --no-commit --no-ff --quiet";
        self.merge_into(place, commit, merge).await
    }

    async fn merge_into(&self, place: &TaskWorktree, commit: &str, merge: &str) -> Result<()> {
        let Some(git) = self.worktree(&place.folder).await? else {
            return Ok(());
        };
        if git.resolve("MERGE_HEAD").await?.is_some() || git.has(commit, "HEAD").await? {
            return Ok(());
        }
        // Where an agent went to another branch, which may be the person's, the merge would be made there.
        let on = head_ref(&git).await?;
        if on != format!("refs/heads/{}", place.branch) {
            tracing::warn!(folder = %place.folder.display(), on, "nothing is merged into another branch");
            return Ok(());
        }
        let said = git.run(merge, &[commit]).await?;
        if said.exit > 1 {
            tracing::warn!(folder = %place.folder.display(), said = said.err, "the accepted results are not merged in");
        }
        Ok(())
    }

    /// Returns whether a file in a task's worktree has the same content as in a commit and has not been written since the
    /// worktree was created.
    ///
    /// # Errors
    /// As [`Git::holds`].
    pub async fn untouched(&self, place: &TaskWorktree, base: &str, path: &str) -> Result<bool> {
        let Some(git) = self.worktree(&place.folder).await? else {
            return Ok(false);
        };
        let Some(was) = git.resolve(&format!("{base}:{path}")).await? else {
            return Ok(false);
        };
        let words = [base, "--", &literal(path)];
        let same = git.holds("diff --quiet", &words).await?;
        // Its access rights are not part of its content.
        if !same && git.line("hash-object --", &[path]).await? != was {
            return Ok(false);
        }
        // A file that was written again with the same content counts as written.
        let ready = git.own_path(READY).symlink_metadata();
        let laid_out = ready.and_then(|ready| ready.modified()).ok();
        let written = fs::metadata(place.folder.join(path))?.modified()?;
        Ok(laid_out.is_none_or(|laid_out| written <= laid_out))
    }

    /// Commits what an agent left in a task's worktree onto the task's branch. Returns the commit, which contains everything.
    ///
    /// # Errors
    /// As [`Git::bytes`], or it is unclear what the result is.
    pub async fn commit_work(&self, place: &TaskWorktree, message: &str) -> Result<String> {
        let git = self.task_git(place).await?;
        let (keeping, lock) = (git.own_path(KEEPING), git.own_path("index.lock"));
        if keeping.exists() {
            // The lock is from a daemon that was killed in this operation; commands wait until the last one of that daemon has
            // ended.
            drop(fs::remove_file(&lock));
        } else if lock.exists() {
            return Err(GitError::Unclear(format!(
                "A git command is unfinished: `{}` exists. End it, or remove that file.",
                lock.display()
            )));
        }
        mark(&git, KEEPING).await?;
        let kept = Self::commit_all(&git, place, message).await;
        if let Ok(_) | Err(GitError::Unclear(_)) = &kept {
            fs::remove_file(&keeping)?;
        }
        kept
    }

    /// Returns the files that existed where a task's work left `tip`, and that its commits changed or removed. A name that is no
    /// UTF-8 is left out.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn changed_existing(&self, tip: &str, head: &str) -> Result<Vec<String>> {
        let diff = "diff --name-only --no-renames --diff-filter=MDT -z";
        let span = format!("{tip}...{head}");
        let mut changed = self.git.names(diff, &[&span, "--"]).await?;
        changed.retain(|name| !name.contains(char::REPLACEMENT_CHARACTER));
        Ok(changed)
    }

    /// Commits on the task's branch that these files are as they were where it left `tip`, and writes them so. Returns the
    /// commit. After a kill, committing the work again and then this leads to the same files.
    ///
    /// # Errors
    /// As [`Git::bytes`], or the folder is no worktree any more.
    pub async fn put_back(
        &self,
        place: &TaskWorktree,
        tip: &str,
        files: &[String],
        message: &str,
    ) -> Result<String> {
        let gone = || io::Error::other("the folder of the task is no worktree any more");
        let git = self.worktree(&place.folder).await?.ok_or_else(gone)?;
        mark(&git, KEEPING).await?;
        let base = git.line("merge-base", &[tip, "HEAD"]).await?;
        let paths: Vec<String> = files.iter().map(|name| literal(name)).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        // The files come last: until the commit exists, the folder has the whole result.
        for paths in paths.chunks(AT_ONCE) {
            let paths = [&[&*base, "--"], paths].concat();
            git.bytes("reset --quiet", &paths).await?;
        }
        git.bytes(COMMIT, &["-m", message]).await?;
        for paths in paths.chunks(AT_ONCE) {
            git.bytes("checkout --quiet --", paths).await?;
        }
        fs::remove_file(git.own_path(KEEPING))?;
        git.line("rev-parse HEAD", &[]).await
    }

    async fn commit_all(git: &Git, place: &TaskWorktree, message: &str) -> Result<String> {
        Self::back_on_branch(git, place).await?;
        let unmerged = "diff --name-only --diff-filter=U -z";
        let unmerged = git.names(unmerged, &[]).await?;
        has_no_marks(&place.folder, unmerged.clone()).await?;
        all_decided(git, &unmerged).await?;
        git.look_at_all_files().await?;
        let empty = git.add_all(&[AGENT_FOLDER]).await?;
        let nested = nested(git).await?;
        let (nested, empty_links): (Vec<_>, Vec<_>) =
            nested.into_iter().partition(|path| is_laid_out(git, path));
        if !empty_links.is_empty() {
            return Err(GitError::Unclear(format!(
                "Files lie where a submodule belongs that is not here: {}.\nThey are in no commit. Put them elsewhere; or, if it is to be no submodule any more, take it out of the index with `git rm --cached`.",
                list(&empty_links)
            )));
        }
        if !nested.is_empty() {
            // The index would otherwise hide these files from the next scan.
            let paths: Vec<String> = nested.iter().map(|name| literal(name)).collect();
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            git.bytes("rm --cached --force --quiet --", &paths).await?;
        }
        let own = [nested, empty].concat();
        if !own.is_empty() {
            return Err(GitError::Unclear(format!(
                "A git repository of its own lies within the work: {}.\nIts files are in no commit of the project. Remove its `.git` if they belong to the result, else the whole folder.",
                list(&own)
            )));
        }
        let merging = git.resolve("MERGE_HEAD").await?.is_some();
        if merging || !git.holds("diff --cached --quiet", &[]).await? {
            git.bytes(COMMIT, &["--allow-empty", "-m", message]).await?;
        }
        git.line("rev-parse HEAD", &[]).await
    }

    /// Checks a commit for which the agent itself merged something: it is unclear if files have conflict marks that changed since
    /// it left `tip`. Without a merge, files may have such lines, as in a test of a merge tool.
    ///
    /// # Errors
    /// As [`Git::bytes`], or it is unclear.
    pub async fn left_no_marks(&self, place: &TaskWorktree, tip: &str, head: &str) -> Result<()> {
        let (list, span) = ("rev-list --merges --max-count=1", format!("{tip}..{head}"));
        if self.git.bytes(list, &[&span]).await?.is_empty() {
            return Ok(());
        }
        let diff = "diff --name-only --no-renames -z";
        let span = format!("{tip}...{head}");
        let changed = self.git.names(diff, &[&span, "--"]).await?;
        has_no_marks(&place.folder, changed).await
    }

    /// Ensures that the worktree is on the task's branch. An agent may have continued on a branch of its own: if that branch
    /// contains everything, the task's branch is moved to it, and the other branch stays. Else it is unclear.
    async fn back_on_branch(git: &Git, place: &TaskWorktree) -> Result<()> {
        let branch = format!("refs/heads/{}", place.branch);
        let on = head_ref(git).await?;
        let head = git.line("rev-parse HEAD", &[]).await?;
        let own = git.resolve(&branch).await?;
        if on == branch && own.is_some() {
            return Ok(());
        }
        let held = match &own {
            Some(own) => git.has(own, &head).await?,
            None => true,
        };
        if !held {
            let place = &place.branch;
            return Err(GitError::Unclear(format!(
                "The worktree is not on the branch of this task. End what git has begun there, such as a rebase, and bring the work onto the branch: `git switch {place}`."
            )));
        }
        let old = own.unwrap_or_default();
        let update = "update-ref --no-deref";
        git.bytes(update, &[&branch, &head, &old]).await?;
        git.bytes("symbolic-ref HEAD", &[&branch]).await.map(drop)
    }

    /// Checks a commit out in a folder for checks, which is used for nothing else, and returns that folder. Nothing
    /// stays there from one result to the next.
    ///
    /// # Errors
    /// As [`Git::bytes`], or the error of the file system.
    pub async fn check_out(&self, name: &str, commit: &str) -> Result<CheckFolder> {
        let folder = self.folder.join(name);
        if let Some(git) = self.worktree(&folder).await? {
            // Only checks work here, and none runs now.
            drop(fs::remove_file(git.own_path("index.lock")));
            let checkout = "checkout --detach --force --quiet";
            let place = check_folder(git.clone(), self);
            if git.run(checkout, &[commit]).await?.exit == 0 && place.clean().await.is_ok() {
                return Ok(place);
            }
        }
        remove_folder(folder.clone()).await?;
        self.add_worktree(&folder, &["--detach"], commit).await?;
        let gone = || io::Error::other("the folder for checks is no worktree any more");
        Ok(self.check_folder(&folder).await?.ok_or_else(gone)?)
    }

    /// Removes the worktrees whose files are all in commits that `tip` contains, and then their branches, with one git for
    /// those of all. Any other content keeps both.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn remove(&self, places: &[TaskWorktree], tip: &str) -> Result<()> {
        let merged = format!("--merged={tip}");
        let format = "--format=delete %(refname) %(objectname) %(worktreepath)";
        let words = [&*merged, format];
        let merged = self.git.line("for-each-ref refs/heads", &words).await?;
        let mut delete = String::new();
        for place in places {
            let name = format!("delete refs/heads/{} ", place.branch);
            if let Some(line) = merged.lines().find(|line| line.starts_with(&name))
                && self.remove_worktree(place, false).await?
                && let [_, _, commit, at] = *line.splitn(4, ' ').collect::<Vec<_>>()
                // A person may have moved the worktree.
                && (at.is_empty() || !Path::new(at).exists())
            {
                delete.extend([&*name, commit, "\n"]);
            }
        }
        let git = self.git.clone().with_input(delete.into_bytes());
        git.bytes("update-ref --no-deref --stdin", &[]).await?;
        Ok(())
    }

    /// Removes the folders for checks, and what is left of worktrees whose removal was cut off.
    ///
    /// # Errors
    /// As [`Git::run`], or the error of the file system.
    pub async fn remove_checks(&self) -> Result<()> {
        let removed = self.folder.join(REMOVED);
        let cut_off = fs::read_dir(&removed).into_iter().flatten().flatten();
        // Git still knows one that was only moved away, unless it has been made anew.
        let cut_off = cut_off.map(|entry| self.folder.join(entry.file_name()));
        let cut_off = cut_off.filter(|folder| !folder.exists());
        let checks = [MERGED, BEFORE].map(|name| self.folder.join(name));
        let checks = checks.into_iter().filter(|folder| folder.exists());
        for folder in cut_off.chain(checks) {
            let remove = "worktree remove --force --force";
            self.git.run(remove, &[&folder.to_string_lossy()]).await?;
        }
        Ok(remove_folder(removed).await?)
    }

    /// Returns git in the project itself.
    pub fn git(&self) -> &Git {
        &self.git
    }
}

/// Returns the folder with the HEAD and the index of a worktree, if the worktree and the repository still refer to each other.
fn own_git_dir(folder: &Path, worktrees: &Path) -> io::Result<PathBuf> {
    let named = git_link(&folder.join(".git"), "gitdir:")?;
    let known = worktrees.join(named.file_name().unwrap_or_default());
    let back = git_link(&known.join("gitdir"), "")?;
    let real = known.canonicalize()?;
    let mutual = real == known
        && named.canonicalize()? == known
        && back.canonicalize()? == folder.canonicalize()?.join(".git");
    match mutual {
        true => Ok(known),
        false => Err(io::Error::other("it is no worktree of the project")),
    }
}

fn check_folder(git: Git, project: &Project) -> CheckFolder {
    let prepared = git.own_path(ready_for_work::PREPARED);
    CheckFolder::new(git, prepared, Some(project.clone()))
}

/// Returns whether a folder contains nothing except the file that makes it a worktree, or nothing at all.
fn holds_only_its_link(folder: &Path) -> bool {
    let is_link = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| {
            entry.file_name() == ".git" && entry.file_type().is_ok_and(|kind| kind.is_file())
        })
    };
    fs::read_dir(folder).is_ok_and(|mut entries| entries.all(is_link))
}

/// Creates an empty file in the data of a single worktree. It is never written through a link that an agent created there.
async fn mark(git: &Git, name: &str) -> Result<()> {
    let path = git.own_path(name);
    let make = move || match fs::File::create_new(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(()),
    };
    blocking(make).await
}

/// The extent of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffDetail {
    /// Every line.
    Lines,
    /// The files, with figures.
    Files,
    /// The figures alone, on one line.
    Figures,
}

/// Returns the difference of two trees in git's format.
///
/// # Errors
/// As [`Git::bytes`].
pub async fn difference(git: &Git, from: &str, to: &str, extent: DiffDetail) -> Result<Vec<u8>> {
    let kind = match extent {
        DiffDetail::Lines => "diff --patch",
        DiffDetail::Files => "diff --stat",
        DiffDetail::Figures => "diff --shortstat",
    };
    git.bytes(kind, &[from, to, "--"]).await
}

/// Returns the words by which git knows exactly this path.
pub(super) fn literal(path: &str) -> String {
    format!(":(top,literal){path}")
}

fn list(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).map(|name| format!("`{name}`"));
    let more = names.len().saturating_sub(NAMED);
    let rest = (more > 0).then(|| format!("{more} more"));
    joined(shown.chain(rest), ", ")
}

/// Returns an unused name beside a folder.
fn free_name(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let aside = |number: u32| folder.with_file_name(format!("{name}.aside-{number}"));
    let mut free = (1..).map(aside).filter(|path| !path.exists());
    free.next()
        .expect("a folder has fewer files than there are numbers")
}

/// Returns the branch that a worktree is on, in full; empty if it is on none.
async fn head_ref(git: &Git) -> Result<String> {
    let on = git.run("symbolic-ref --quiet HEAD", &[]).await?;
    Ok(String::from_utf8_lossy(&on.out).trim().to_owned())
}

#[cfg(test)]
mod tests;
