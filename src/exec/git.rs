//! The one place that runs git: without a shell, with a deadline, in a process group of its own, and without the caller's git
//! environment. A repository is untrusted data: git gets its configuration and its first attributes from a folder of this
//! program. From the repository it gets only what cannot name a program: HEAD, index, branches, objects and the list of ignored
//! files.

mod error;
mod guarded_folder;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::repository_config::{RepositoryPlace, locate};
use super::{ChildOutput, ChildSpec, environment, run};
use crate::foreign_files::open_plain;
use crate::own_files::is_disk_full;
use crate::plan::Repository;
use crate::wire::{clip, joined, printable};

pub use error::{GitError, Result};
use guarded_folder::lay_out;

/// The least version of git with which this is tested. 2.38 was the first that could merge without a work tree.
pub const LEAST: (u32, u32) = (2, 39);

/// A command that takes longer counts as hanging.
const DEADLINE: Duration = Duration::from_secs(60);

/// The most bytes of git's output: more than any diff that a person reads.
const MOST: u64 = 64 * 1024 * 1024;

/// The most characters of git's output that an error repeats.
const SAID: usize = 500;

/// How often to check whether another git has ended; the system sends no event for it.
const LOOK: Duration = Duration::from_millis(10);

/// Settings for every command, whatever the configuration of the repository is.
const SETTINGS: &str = "core.hooksPath=/dev/null core.fsmonitor=false core.quotePath=false gc.auto=0 \
                        maintenance.auto=false commit.gpgSign=false protocol.allow=never user.name=plan-agent \
                        user.email=plan-agent@localhost color.ui=never merge.directoryRenames=true";

/// Environment variables for every command.
const VARIABLES: &str =
    "LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0 GIT_NO_REPLACE_OBJECTS=1 GIT_EDITOR=true";

/// How it speaks to other machines: not by commands that an address names.
const PROTOCOLS: &str = "https:http:ssh:git:file";

/// These variables prevent that git reads the configuration of the machine and of the person, which may include files that
/// agents write.
const NOBODYS: &str = "GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1";

/// Commands that compare files. They get one more option: without it git would run another git in each nested repository, with
/// the configuration there; `.gitmodules` could request that.
const COMPARES: [&str; 2] = ["diff", "status"];
const NOT_WITHIN: &str = "--ignore-submodules=dirty";

/// Git in a folder.
#[derive(Clone, Debug)]
pub struct Git {
    folder: PathBuf,
    place: GitPlace,
    /// The PATH in which programs are searched.
    path: OsString,
    deadline: Duration,
    index: Option<PathBuf>,
    lock: Option<PathBuf>,
    /// The folder for new objects in place of the repository.
    objects: Option<PathBuf>,
    input: Option<Vec<u8>>,
    /// It may speak to other machines.
    reaches_out: bool,
}

/// Where git works, and with which configuration.
#[derive(Clone, Debug)]
enum GitPlace {
    /// In no repository.
    Nowhere,
    /// In a repository with the person's configuration, only to read that configuration.
    Configured(PathBuf),
    /// With the HEAD and the index of a repository, and with this program's folder in place of what its worktrees share.
    Guarded { git_dir: PathBuf, common: PathBuf },
}

/// The output of a command, and its exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitOutput {
    /// The name of the command, for a message.
    name: String,
    pub exit: i32,
    pub out: Vec<u8>,
    /// The end of its standard error, printable.
    pub err: String,
}

impl Git {
    fn new(folder: &Path, place: GitPlace) -> Self {
        Self {
            folder: folder.to_owned(),
            place,
            path: programs_outside(folder),
            deadline: DEADLINE,
            index: None,
            lock: None,
            objects: None,
            input: None,
            reaches_out: false,
        }
    }

    /// Opens the work tree of a repository, with a folder for git's configuration, which is created.
    ///
    /// # Errors
    /// The work tree has another repository by now, or the folder cannot be created.
    pub async fn open(folder: &Path, repository: &Repository, ours: &Path) -> Result<Self> {
        let (git_dir, common) = (PathBuf::from(&repository.git_dir), ours.to_owned());
        let git = Self::new(folder, GitPlace::Guarded { git_dir, common });
        let (folder, repository, ours) = (folder.to_owned(), repository.clone(), ours.to_owned());
        let prepare = move || {
            unchanged(&folder, &repository)?;
            Ok(lay_out(&repository, &ours)?)
        };
        blocking(prepare).await?;
        Ok(git)
    }

    /// Uses a repository as the person configured it. Only the configuration may be read this way: any other command could run
    /// the programs that it names.
    pub(super) fn configured(folder: &Path, git_dir: &Path) -> Self {
        Self::new(folder, GitPlace::Configured(git_dir.to_owned()))
    }

    /// Returns git for a worktree of the same repository; `git_dir` is the folder with its HEAD and index.
    #[must_use]
    pub(super) fn in_worktree(&self, folder: &Path, git_dir: &Path) -> Self {
        let mut git = self.in_folder(folder);
        if let GitPlace::Guarded { git_dir: own, .. } = &mut git.place {
            git_dir.clone_into(own);
        }
        git
    }

    /// Returns git for another folder with files of the same repository.
    #[must_use]
    pub(super) fn in_folder(&self, folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            ..self.clone()
        }
    }

    /// Sets the deadline of each command.
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Uses another file as the index.
    #[must_use]
    pub fn with_index(mut self, index: &Path) -> Self {
        self.index = Some(index.to_owned());
        self
    }

    /// Stores new objects in another folder; the repository's own objects are only read.
    #[must_use]
    pub fn with_objects(mut self, new: &Path) -> Self {
        self.objects = Some(new.to_owned());
        self
    }

    /// Makes each command wait until no other command with the same lock runs, even one whose process was killed since: the
    /// lock lasts as long as the child.
    #[must_use]
    pub fn one_at_a_time(mut self, lock: &Path) -> Self {
        self.lock = Some(lock.to_owned());
        self
    }

    /// Lets each command speak to other machines, as the person would, and beside others: that may take long.
    pub(super) fn reaching_out(mut self) -> Self {
        (self.reaches_out, self.lock) = (true, None);
        self
    }

    /// Sets the standard input of each command.
    pub(super) fn with_input(mut self, input: Vec<u8>) -> Self {
        self.input = Some(input);
        self
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a file that belongs to this work tree alone, such as its index.
    pub(super) fn own_path(&self, name: &str) -> PathBuf {
        match &self.place {
            GitPlace::Nowhere => self.folder.join(name),
            GitPlace::Configured(git_dir) | GitPlace::Guarded { git_dir, .. } => git_dir.join(name),
        }
    }

    /// Runs a command and returns its output, whatever its exit code is. `command` has the words that are the same in every call,
    /// separated by blanks; `arguments` come behind them as they are.
    ///
    /// # Errors
    /// It cannot be started, is ended by a signal, takes too long or prints too much.
    pub async fn run(&self, command: &str, arguments: &[&str]) -> Result<GitOutput> {
        let words = command.split(' ').chain(arguments.iter().copied());
        let words: &[&str] = &words.collect::<Vec<_>>();
        let output = self.output().await?;
        let [out, err] = output.lengths();
        let (spec, folder) = (self.spec(words), self.folder.clone());
        let outcome = run(&spec, &output, |_| {}, std::future::pending()).await;
        let outcome = outcome.map_err(|source| GitError::Start { folder, source })?;
        let name = command_name(words);
        if outcome.timed_out {
            return Err(GitError::Late {
                words: name,
                deadline: self.deadline,
            });
        }
        let said = printable(output.err_since(err, SAID * 4).trim());
        let Some(exit) = outcome.exit else {
            let end = format!("signal {}", outcome.signal.unwrap_or_default());
            return Err(self.failed(name, end, &said));
        };
        if output.lengths()[0] - out > MOST {
            return Err(GitError::TooMuch { words: name });
        }
        Ok(GitOutput {
            name,
            exit,
            out: output.whole_out_since(out)?,
            err: said,
        })
    }

    /// Runs a command that must succeed, and returns its output.
    ///
    /// # Errors
    /// As [`Self::run`], or its exit code is not 0.
    pub async fn bytes(&self, command: &str, arguments: &[&str]) -> Result<Vec<u8>> {
        let said = self.run(command, arguments).await?;
        match said.exit {
            0 => Ok(said.out),
            _ => Err(self.refused(&said)),
        }
    }

    /// As [`Self::bytes`], for a command that prints names which each end with a zero byte; invalid UTF-8 in a name is replaced.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub async fn names(&self, command: &str, arguments: &[&str]) -> Result<Vec<String>> {
        Ok(names(&self.bytes(command, arguments).await?))
    }

    /// As [`Self::bytes`], for a command that prints one line; the line break at its end is removed.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub async fn line(&self, command: &str, arguments: &[&str]) -> Result<String> {
        let text = String::from_utf8_lossy(&self.bytes(command, arguments).await?).into_owned();
        Ok(text.trim_end_matches('\n').to_owned())
    }

    /// Runs a command that answers yes by exit code 0 and no by 1.
    ///
    /// # Errors
    /// As [`Self::run`], or any other exit code.
    pub async fn holds(&self, command: &str, arguments: &[&str]) -> Result<bool> {
        let said = self.run(command, arguments).await?;
        match said.exit {
            0 => Ok(true),
            1 => Ok(false),
            _ => Err(self.refused(&said)),
        }
    }

    /// Returns whether a commit is in the history of another.
    ///
    /// # Errors
    /// As [`Self::holds`].
    pub async fn has(&self, commit: &str, history: &str) -> Result<bool> {
        let is_ancestor = "merge-base --is-ancestor";
        self.holds(is_ancestor, &[commit, history]).await
    }

    /// Returns the object that a name refers to, if it refers to one.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn resolve(&self, name: &str) -> Result<Option<String>> {
        let command = "rev-parse --verify --quiet --end-of-options";
        let said = self.run(command, &[name]).await?;
        let text = String::from_utf8_lossy(&said.out);
        let text = text.trim();
        Ok((said.exit == 0 && !text.is_empty()).then(|| text.to_owned()))
    }

    /// Returns whether the repository has a commit: git collects what no name leads to.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn has_commit(&self, commit: &str) -> Result<bool> {
        let found = self.resolve(&format!("{commit}^{{commit}}")).await?;
        Ok(found.is_some())
    }

    /// Writes the folder's files as a tree, except files that git ignores and the names in `left_out`. Returns the tree's id,
    /// and the paths that could not be added, as `add_all` does. The person's index does not change.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub async fn snapshot(&self, left_out: &[&str]) -> Result<(String, Vec<String>)> {
        let aside = tempfile::tempdir()?;
        let git = self.clone().with_index(&aside.path().join("index"));
        git.begin_index().await;
        let empty = git.add_all(left_out).await?;
        Ok((git.line("write-tree", &[]).await?, empty))
    }

    /// Creates a separate index as a copy of the work tree's own: git then does not have to read all files. Without the copy it
    /// reads them.
    pub(super) async fn begin_index(&self) {
        let Some(index) = self.index.clone() else {
            return;
        };
        let own = self.own_path("index");
        let copy = move || {
            let (mut own, mut index) = (open_plain(&own)?, fs::File::create(index)?);
            io::copy(&mut own, &mut index)?;
            // Git reads each file again that is not older than the index: a newer copy would hide an edit.
            index.set_modified(own.metadata()?.modified()?)
        };
        let copied = tokio::task::spawn_blocking(copy).await;
        if let Err(error) = copied.map_err(io::Error::from).flatten() {
            tracing::debug!(%error, "begins with an empty index");
        }
        if let Err(error) = self.look_at_all_files().await {
            tracing::debug!(%error, "files that git was told to overlook are not seen");
        }
    }

    /// Makes git look at every file of a worktree: an agent may have told it to take some for unchanged, whatever is in them.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub(super) async fn look_at_all_files(&self) -> Result<()> {
        let listed = self.bytes("ls-files -v -z", &[]).await?;
        let entries = listed.split_inclusive(|byte| *byte == 0);
        // A letter for the state and a blank come first: a small letter, or `S`.
        let (mut unchanged, mut left_out) = (Vec::new(), Vec::new());
        for entry in entries.filter(|entry| entry.len() > 3) {
            let (state, name) = (entry[0], &entry[2..]);
            if state.is_ascii_lowercase() {
                unchanged.extend_from_slice(name);
            }
            // What a sparse checkout has left out is as it was.
            let path = self.folder.join(OsStr::from_bytes(&name[..name.len() - 1]));
            if state.eq_ignore_ascii_case(&b'S') && path.symlink_metadata().is_ok() {
                left_out.extend_from_slice(name);
            }
        }
        let marks = [
            ("--no-assume-unchanged", unchanged),
            ("--no-skip-worktree", left_out),
        ];
        for (mark, names) in marks.into_iter().filter(|(_, names)| !names.is_empty()) {
            let update = format!("update-index {mark} -z --stdin");
            let git = self.clone().with_input(names);
            git.bytes(&update, &[]).await?;
        }
        Ok(())
    }

    fn is_beyond_link(&self, name: &[u8]) -> bool {
        let folders = Path::new(OsStr::from_bytes(name)).ancestors().skip(1);
        let mut folders = folders.filter(|folder| !folder.as_os_str().is_empty());
        folders.any(|folder| self.folder.join(folder).is_symlink())
    }

    /// Adds every file to the index, except files that git ignores and those in `left_out` or below it. A nested repository
    /// without a commit cannot be added: the paths of such repositories are returned.
    ///
    /// `git add` would run another git in the nested repositories, with the configuration there.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub(super) async fn add_all(&self, left_out: &[&str]) -> Result<Vec<String>> {
        let list = "ls-files -t --cached --others --exclude-standard -z";
        let listed = self.bytes(list, &[]).await?;
        let is_left_out = |name: &[u8]| {
            let mut left_out = left_out.iter().map(|name| name.as_bytes());
            left_out.any(|out| {
                let rest = name.strip_prefix(out);
                rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
            })
        };
        let (mut known, mut new, mut within) = (Vec::new(), Vec::new(), Vec::new());
        for entry in listed.split(|byte| *byte == 0) {
            // Each entry begins with a letter for its kind.
            let (is_new, name) = (entry.starts_with(b"?"), entry.get(2..).unwrap_or(b""));
            match name.strip_suffix(b"/") {
                _ if name.is_empty() || is_left_out(name) => {}
                // Files are listed by name, a nested repository by its folder.
                Some(name) => within.push(name),
                None if is_new => new.extend([name, b"\0"].concat()),
                None => known.extend([name, b"\0"].concat()),
            }
        }
        // A removed file must come before the files in a new folder of the same name.
        let files = [&known[..], &new].concat();
        let add = "update-index --add --remove --replace -z --ignore-skip-worktree-entries --stdin";
        let added = self.clone().with_input(files).run(add, &[]).await?;
        if added.exit != 0 && added.err.contains("beyond a symbolic link") {
            // Git removes no file of whose path a folder has become a link, unless it has to.
            let known = known.split_inclusive(|byte| *byte == 0);
            let (gone, known): (Vec<&[u8]>, Vec<&[u8]>) =
                known.partition(|name| self.is_beyond_link(name));
            let remove = "update-index --force-remove -z --stdin";
            let git = self.clone();
            git.with_input(gone.concat()).bytes(remove, &[]).await?;
            let files = [known.concat(), new].concat();
            self.clone().with_input(files).bytes(add, &[]).await?;
        } else if added.exit != 0 {
            return Err(self.refused(&added));
        }
        let mut empty = Vec::new();
        for name in within {
            let git = self.clone().with_input(name.to_owned());
            if git.run(add, &[]).await?.exit != 0 {
                empty.push(String::from_utf8_lossy(name).into_owned());
            }
        }
        Ok(empty)
    }

    async fn output(&self) -> Result<ChildOutput> {
        let Some(lock) = &self.lock else {
            return Ok(ChildOutput::nameless_apart()?);
        };
        let mut left = self.deadline;
        loop {
            if let Some(output) = ChildOutput::locked_by(lock)? {
                return Ok(output);
            }
            if left.is_zero() {
                return Err(GitError::Busy(lock.clone()));
            }
            left = left.saturating_sub(LOOK);
            tokio::time::sleep(LOOK).await;
        }
    }

    fn spec(&self, words: &[&str]) -> ChildSpec {
        let mut argv = vec!["git".to_owned(), "--no-pager".to_owned()];
        for setting in SETTINGS.split(' ') {
            argv.extend(["-c".to_owned(), setting.to_owned()]);
        }
        for (at, word) in words.iter().enumerate() {
            argv.push((*word).to_owned());
            argv.extend((at == 0 && COMPARES.contains(word)).then(|| NOT_WITHIN.to_owned()));
        }
        ChildSpec {
            argv,
            cwd: self.folder.clone(),
            env: self.environment(),
            stdin: self.input.clone(),
            deadline: self.deadline,
        }
    }

    /// Returns the whole environment of every git, and of the filters that it starts.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        // By this, git knows whose repositories count as one's own.
        let mut named = vec!["SUDO_UID".to_owned()];
        named.extend(self.reaches_out.then(|| "SSH_AUTH_SOCK".to_owned()));
        let mut env = environment(&named);
        env.push(("PATH".into(), self.path.clone()));
        let mut set = |name: &str, value: &OsStr| env.push((name.into(), value.into()));
        let pairs = |all: &'static str| all.split(' ').filter_map(|pair| pair.split_once('='));
        for (name, value) in pairs(VARIABLES) {
            set(name, value.as_ref());
        }
        if self.reaches_out {
            set("GIT_ALLOW_PROTOCOL", PROTOCOLS.as_ref());
        }
        if let Some(index) = &self.index {
            set("GIT_INDEX_FILE", index.as_ref());
        }
        match &self.place {
            GitPlace::Nowhere => {}
            GitPlace::Configured(git_dir) => set("GIT_DIR", git_dir.as_ref()),
            GitPlace::Guarded { git_dir, common } => {
                set("GIT_DIR", git_dir.as_ref());
                set("GIT_COMMON_DIR", common.as_ref());
                set("GIT_WORK_TREE", self.folder.as_ref());
                for (name, value) in pairs(NOBODYS) {
                    set(name, value.as_ref());
                }
                if let Some(new) = &self.objects {
                    let known = quoted_path(&common.join("objects"));
                    set("GIT_OBJECT_DIRECTORY", new.as_ref());
                    set("GIT_ALTERNATE_OBJECT_DIRECTORIES", &known);
                }
            }
        }
        env
    }

    fn refused(&self, said: &GitOutput) -> GitError {
        self.failed(said.name.clone(), format!("exit {}", said.exit), &said.err)
    }

    fn failed(&self, words: String, end: String, said: &str) -> GitError {
        let (own, lock) = (self.own_path(""), self.lock.as_deref());
        let lock = lock.and_then(Path::parent);
        let mut places = [&*self.folder, &own].into_iter().chain(lock);
        if let Some(full) = places.find(|place| is_disk_full(place)) {
            let folder = full.to_owned();
            return GitError::Full { words, folder };
        }
        GitError::Failed {
            words,
            folder: self.folder.clone(),
            end,
            said: clip(said.trim(), SAID),
        }
    }
}

/// Returns whether git does not use the repository of a folder as it belongs to another user, see its `safe.directory`: the
/// programs that the configuration there names would be theirs.
///
/// # Errors
/// As [`Git::run`].
pub(super) async fn is_distrusted(folder: &Path) -> Result<bool> {
    let git = Git::new(folder, GitPlace::Nowhere);
    let said = git.run("rev-parse --git-dir", &[]).await?;
    Ok(said.exit != 0 && said.err.contains("dubious ownership"))
}

/// Returns the version of the git found for a folder; `None` if its output cannot be parsed.
///
/// # Errors
/// As [`Git::run`].
pub async fn git_version(folder: &Path) -> Result<Option<(u32, u32)>> {
    let git = Git::new(folder, GitPlace::Nowhere);
    Ok(version(&git.line("--version", &[]).await?))
}

fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.strip_prefix("git version ")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Returns the PATH without folders inside `folder`: agents who work there can put a program into them.
fn programs_outside(folder: &Path) -> OsString {
    let real = |folder: &Path| folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let (path, folder) = (std::env::var_os("PATH").unwrap_or_default(), real(folder));
    let outside = |entry: &PathBuf| entry.is_absolute() && !real(entry).starts_with(&folder);
    match std::env::join_paths(std::env::split_paths(&path).filter(outside)) {
        Ok(path) if !path.is_empty() => path,
        // An empty PATH would mean the folder itself.
        _ => "/usr/bin:/bin".into(),
    }
}

/// Refuses a work tree whose repository is no longer the recorded one.
fn unchanged(folder: &Path, repository: &Repository) -> Result<()> {
    let now = locate(folder)?;
    let was = RepositoryPlace {
        git_dir: PathBuf::from(&repository.git_dir),
        common_dir: PathBuf::from(&repository.common_dir),
    };
    if now.as_ref() == Some(&was) {
        return Ok(());
    }
    let (folder, was) = (folder.to_owned(), format!("it was {was}"));
    let is = now.map_or("there is none".to_owned(), |now| format!("it is {now}"));
    Err(GitError::Changed { folder, was, is })
}

/// Returns a path quoted for a list of paths with colons.
fn quoted_path(path: &Path) -> OsString {
    match path.to_str() {
        Some(text) if text.contains([':', '"', '\\']) => {
            let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
            format!("\"{escaped}\"").into()
        }
        _ => path.into(),
    }
}

/// Runs disk operations on a blocking thread.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::from)?
}

/// Returns names that each end with a zero byte.
pub(super) fn names(bytes: &[u8]) -> Vec<String> {
    let names = bytes.split(|byte| *byte == 0);
    let names = names.filter(|name| !name.is_empty());
    let text = |name| String::from_utf8_lossy(name).into_owned();
    names.map(text).collect()
}

/// Returns the name of a command for a message: its words before the first one that is specific to this call.
fn command_name(words: &[&str]) -> String {
    let is_fixed = |word: &&&str| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    joined(words.iter().take_while(is_fixed).take(3).copied(), " ")
}

/// A person's repository, for tests.
#[cfg(test)]
pub(super) mod person {
    use super::*;
    use crate::exec::repository_config::{Filters, examine};

    /// Runs git as a person does, and returns its output; `None` without git.
    pub fn git(folder: &Path, words: &[&str]) -> Option<String> {
        let person = "-c user.name=person -c user.email=person@localhost".split(' ');
        let mut git = std::process::Command::new("git");
        let ran = git.args(person).args(words).current_dir(folder).output();
        match ran {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            ran => {
                let ran = ran.unwrap();
                assert!(ran.status.success(), "git {words:?}: {ran:?}");
                let said = String::from_utf8(ran.stdout).unwrap();
                Some(said.trim_end_matches('\n').to_owned())
            }
        }
    }

    /// Opens an existing repository; this program's folder is created beside it.
    pub async fn opened(folder: &Path) -> Git {
        let repository = examine(folder, Filters::Off).await.unwrap().unwrap();
        let ours = folder.with_extension("ours");
        Git::open(folder, &repository, &ours).await.unwrap()
    }
}

#[cfg(test)]
mod tests;
