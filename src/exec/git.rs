//! The one place that runs git: without a shell, with a deadline, in a process group of its own, and with nothing of the
//! caller's git environment. No hook, signature, pager, prompt or work in the background of the person's takes part.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::group::{ExecError, Spec, Stdin, environment, run};
use super::output::Output;
use crate::wire::text::{clip, printable};

/// The least version of git that can merge without a work tree (`merge-tree --write-tree`).
pub const LEAST: (u32, u32) = (2, 38);

/// A command that takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// The most that git may say: more than a diff that anybody reads.
const MOST: u64 = 64 * 1024 * 1024;

/// Characters of what git said that an error repeats.
const SAID: usize = 500;

/// How often it is looked whether another git has ended; there is no event for it.
const LOOK: Duration = Duration::from_millis(10);

/// What every command is told beside the person's own configuration.
const SETTINGS: [&str; 9] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "user.name=plan-agent",
    "user.email=plan-agent@localhost",
    "color.ui=never",
];

/// What every command gets into its environment.
const VARIABLES: [(&str, &str); 4] = [
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_EDITOR", "true"),
];

/// Git in a folder.
#[derive(Clone, Debug)]
pub struct Git {
    folder: PathBuf,
    deadline: Duration,
    index: Option<PathBuf>,
    lock: Option<PathBuf>,
    /// Where new objects go, and where the others are.
    objects: Option<[PathBuf; 2]>,
}

/// What a command said, and its exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub exit: i32,
    pub out: Vec<u8>,
    /// The end of its standard error, printable.
    pub err: String,
}

/// Why git did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git cannot be run in `{}`", .folder.display())]
    Start { folder: PathBuf, source: ExecError },
    #[error("failed to keep what git says")]
    Output(#[from] io::Error),
    #[error("another git that was started here still runs: `{}`", .0.display())]
    Busy(PathBuf),
    #[error("`git {words}` took longer than {deadline:?}")]
    Late { words: String, deadline: Duration },
    #[error("`git {words}` says more than {} MiB", MOST / 1024 / 1024)]
    TooMuch { words: String },
    #[error("`git {words}` in `{}` failed ({end}): {said}", .folder.display())]
    Failed {
        words: String,
        folder: PathBuf,
        end: String,
        said: String,
    },
}

impl Git {
    /// Names a folder in a repository.
    pub fn at(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            deadline: DEADLINE,
            index: None,
            lock: None,
            objects: None,
        }
    }

    /// Lets each command run that long.
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

    /// Puts new objects into a folder instead of the repository's own, which is only read.
    #[must_use]
    pub fn with_objects(mut self, new: &Path, known: &Path) -> Self {
        self.objects = Some([new.to_owned(), known.to_owned()]);
        self
    }

    /// Lets each command wait until no other one runs that was started with the same lock, even by a process that was killed
    /// since: the lock lives as long as the child.
    #[must_use]
    pub fn one_at_a_time(mut self, lock: &Path) -> Self {
        self.lock = Some(lock.to_owned());
        self
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs a command and returns what it said, whatever its exit code.
    ///
    /// # Errors
    /// It cannot be started, is ended by a signal, takes too long or says too much.
    pub async fn run(&self, words: &[&str]) -> Result<Said, GitError> {
        let output = self.output().await?;
        let [out, err] = output.lengths();
        let outcome = run(&self.spec(words), &output, |_| {}, std::future::pending())
            .await
            .map_err(|source| GitError::Start {
                folder: self.folder.clone(),
                source,
            })?;
        let named = || command_name(words);
        if outcome.timed_out {
            return Err(GitError::Late {
                words: named(),
                deadline: self.deadline,
            });
        }
        let said = printable(output.err_since(err, SAID * 4).trim());
        let Some(exit) = outcome.exit else {
            let end = format!("signal {}", outcome.signal.unwrap_or_default());
            return Err(self.failed(words, end, &said));
        };
        if output.lengths()[0] - out > MOST {
            return Err(GitError::TooMuch { words: named() });
        }
        Ok(Said {
            exit,
            out: output.whole_out_since(out)?,
            err: said,
        })
    }

    /// Runs a command that has to end well and returns what it printed.
    ///
    /// # Errors
    /// As [`Self::run`], or its exit code is not 0.
    pub async fn bytes(&self, words: &[&str]) -> Result<Vec<u8>, GitError> {
        let said = self.run(words).await?;
        match said.exit {
            0 => Ok(said.out),
            exit => Err(self.failed(words, format!("exit {exit}"), &said.err)),
        }
    }

    /// As [`Self::bytes`], for a command that prints one line: without the break at its end.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub async fn line(&self, words: &[&str]) -> Result<String, GitError> {
        let text = String::from_utf8_lossy(&self.bytes(words).await?).into_owned();
        Ok(text.trim_end_matches('\n').to_owned())
    }

    /// Runs a command that answers yes by exit code 0 and no by 1.
    ///
    /// # Errors
    /// As [`Self::run`], or any other exit code.
    pub async fn holds(&self, words: &[&str]) -> Result<bool, GitError> {
        let said = self.run(words).await?;
        match said.exit {
            0 => Ok(true),
            1 => Ok(false),
            exit => Err(self.failed(words, format!("exit {exit}"), &said.err)),
        }
    }

    /// Returns what a name stands for, if it names anything.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn resolve(&self, name: &str) -> Result<Option<String>, GitError> {
        let said = self
            .run(&["rev-parse", "--verify", "--quiet", "--end-of-options", name])
            .await?;
        let text = String::from_utf8_lossy(&said.out);
        let text = text.trim();
        Ok((said.exit == 0 && !text.is_empty()).then(|| text.to_owned()))
    }

    /// Writes the folder's files as they are, what git ignores and the names in `left_out` excepted, as a tree and returns its
    /// id, and the paths of what else it could not take, as `add_all` does. The person's index stays as it is.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub async fn snapshot(&self, left_out: &[&str]) -> Result<(String, Vec<String>), GitError> {
        let aside = tempfile::tempdir()?;
        let index = aside.path().join("index");
        let own = self.line(&["rev-parse", "--git-path", "index"]).await?;
        // What it knows of the files saves reading them all; without it they are read.
        if let Err(error) = fs::copy(self.folder.join(own), &index) {
            tracing::debug!(%error, "a snapshot begins with an empty index");
        }
        let git = self.clone().with_index(&index);
        let excluded = self.excluding(left_out).await?;
        let empty = git.add_all(&excluded).await?;
        Ok((git.line(&["write-tree"]).await?, empty))
    }

    /// Takes every file into the index, those excepted that git ignores or that `but` keeps out. A repository within that has no
    /// commit cannot be taken: the paths of such are returned.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub(super) async fn add_all(&self, but: &[String]) -> Result<Vec<String>, GitError> {
        let mut words = vec!["add", "--all", "--", "."];
        words.extend(but.iter().map(String::as_str));
        let said = self.run(&words).await?;
        if said.exit == 0 {
            return Ok(Vec::new());
        }
        let empty = self.without_commit().await?;
        if empty.is_empty() {
            return Err(self.failed(&words, format!("exit {}", said.exit), &said.err));
        }
        let kept_out: Vec<String> = empty.iter().map(|name| exclude(name)).collect();
        words.extend(kept_out.iter().map(String::as_str));
        self.bytes(&words).await?;
        Ok(empty)
    }

    /// Finds the repositories within that are not in the index and have no commit.
    async fn without_commit(&self) -> Result<Vec<String>, GitError> {
        let words = ["ls-files", "--others", "--exclude-standard", "-z"];
        let listed = self.bytes(&words).await?;
        let listed = String::from_utf8_lossy(&listed);
        let mut empty = Vec::new();
        // Of files there are the names, of a repository its folder.
        for name in listed.split('\0').filter_map(|name| name.strip_suffix('/')) {
            let inner = Self::at(&self.folder.join(name)).within(self.deadline);
            if inner.resolve("HEAD").await?.is_none() {
                empty.push(name.to_owned());
            }
        }
        Ok(empty)
    }

    /// Returns what keeps `add` from taking some paths of the work tree. Those that git ignores anyway are not named: it takes
    /// that for a mistake.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub(super) async fn excluding(&self, names: &[&str]) -> Result<Vec<String>, GitError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let said = self.run(&[&["check-ignore", "--"], names].concat()).await?;
        let ignored = String::from_utf8_lossy(&said.out);
        let ignored: Vec<&str> = ignored.lines().collect();
        let named = names.iter().filter(|name| !ignored.contains(*name));
        Ok(named.map(|name| exclude(name)).collect())
    }

    async fn output(&self) -> Result<Output, GitError> {
        let Some(lock) = &self.lock else {
            return Ok(Output::nameless_apart()?);
        };
        let mut left = self.deadline;
        loop {
            if let Some(output) = Output::locked_by(lock)? {
                return Ok(output);
            }
            if left.is_zero() {
                return Err(GitError::Busy(lock.clone()));
            }
            left = left.saturating_sub(LOOK);
            tokio::time::sleep(LOOK).await;
        }
    }

    fn spec(&self, words: &[&str]) -> Spec {
        let mut argv = vec!["git".to_owned(), "--no-pager".to_owned()];
        for setting in SETTINGS {
            argv.extend(["-c".to_owned(), setting.to_owned()]);
        }
        argv.extend(words.iter().map(ToString::to_string));
        let mut env = environment(&[]);
        env.extend(VARIABLES.map(|(name, value)| (OsString::from(name), OsString::from(value))));
        if let Some(index) = &self.index {
            env.push(("GIT_INDEX_FILE".into(), index.into()));
        }
        if let Some([new, known]) = &self.objects {
            env.push(("GIT_OBJECT_DIRECTORY".into(), new.into()));
            let name = "GIT_ALTERNATE_OBJECT_DIRECTORIES";
            env.push((name.into(), quoted_path(known)));
        }
        Spec {
            argv,
            cwd: self.folder.clone(),
            env,
            stdin: Stdin::Nothing,
            deadline: self.deadline,
        }
    }

    fn failed(&self, words: &[&str], end: String, said: &str) -> GitError {
        GitError::Failed {
            words: command_name(words),
            folder: self.folder.clone(),
            end,
            said: clip(said.trim(), SAID),
        }
    }
}

impl GitError {
    /// Tells whether git took too long.
    pub fn late(&self) -> bool {
        matches!(self, Self::Late { .. } | Self::Busy(_))
    }

    /// Tells whether git ran and would not do what it was asked to, as what it found in the folder does not allow it.
    pub fn refused(&self) -> bool {
        matches!(self, Self::Failed { end, .. } if end.starts_with("exit "))
    }

    /// Tells whether there is no git to be run.
    pub fn missing(&self) -> bool {
        let Self::Start { source, .. } = self else {
            return false;
        };
        matches!(source, ExecError::Start { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Returns the version of the git that is found; `None` if it says none that can be read.
///
/// # Errors
/// As [`Git::run`].
pub async fn git_version() -> Result<Option<(u32, u32)>, GitError> {
    let said = Git::at(&std::env::temp_dir()).line(&["--version"]).await?;
    Ok(version(&said))
}

fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.strip_prefix("git version ")?.split('.');
    let major = numbers.next()?.parse().ok()?;
    Some((major, numbers.next()?.parse().ok()?))
}

fn exclude(name: &str) -> String {
    format!(":(exclude,top,literal){name}")
}

/// Returns a path as it stands in a list of paths with colons.
fn quoted_path(path: &Path) -> OsString {
    match path.to_str() {
        Some(text) if text.contains([':', '"', '\\']) => {
            let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
            format!("\"{escaped}\"").into()
        }
        _ => path.into(),
    }
}

/// Returns what a command is called in a message: the words up to the first that only it knows.
fn command_name(words: &[&str]) -> String {
    let known = words
        .iter()
        .take_while(|word| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'));
    known.take(3).copied().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn repository() -> Option<(tempfile::TempDir, Git)> {
        let root = tempfile::tempdir().unwrap();
        let git = Git::at(root.path());
        match git.run(&["init", "--quiet"]).await {
            Err(error) if error.missing() => None,
            said => {
                assert_eq!(said.unwrap().exit, 0);
                Some((root, git))
            }
        }
    }

    #[tokio::test]
    async fn what_git_says_comes_back_apart_from_its_complaints() {
        let Some((_root, git)) = repository().await else {
            return;
        };
        assert_eq!(git.resolve("HEAD").await.unwrap(), None);
        let said = git.run(&["rev-parse", "no-such-name"]).await.unwrap();
        assert_eq!(said.exit, 128);
        assert_eq!(said.out, b"no-such-name\n");
        assert!(said.err.starts_with("fatal: "), "{said:?}");
        let error = git.line(&["rev-parse", "no-such-name"]).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("`git rev-parse no-such-name` in `"),
            "{text}"
        );
        assert!(text.contains("failed (exit 128): fatal: "), "{text}");
    }

    #[tokio::test]
    async fn a_snapshot_has_every_file_and_leaves_the_index_alone() {
        let Some((root, git)) = repository().await else {
            return;
        };
        for (name, text) in [
            (".gitignore", "ignored\nleft out\n"),
            ("kept", "1"),
            ("ignored", "2"),
            ("MISSION.md", "3"),
        ] {
            fs::write(root.path().join(name), text).unwrap();
        }
        git.bytes(&["add", "kept"]).await.unwrap();
        fs::write(root.path().join("kept"), "changed").unwrap();
        let index = fs::read(root.path().join(".git/index")).unwrap();
        // One that has no commit cannot be taken, wherever it lies.
        for folder in ["begun", "sub/begun too"] {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            let begun = Git::at(&folder);
            begun.bytes(&["init", "--quiet"]).await.unwrap();
            fs::write(folder.join("file"), "4").unwrap();
        }
        let left_out = ["MISSION.md", "left out"];
        let (tree, empty) = git.snapshot(&left_out).await.unwrap();
        assert_eq!(empty, ["begun", "sub/begun too"]);
        let names = git.line(&["ls-tree", "--name-only", &tree]).await.unwrap();
        assert_eq!(names, ".gitignore\nkept");
        let kept = git.line(&["show", &format!("{tree}:kept")]).await.unwrap();
        assert_eq!(kept, "changed");
        assert_eq!(fs::read(root.path().join(".git/index")).unwrap(), index);
    }

    #[tokio::test]
    async fn with_a_lock_one_command_waits_for_the_other() {
        let Some((root, git)) = repository().await else {
            return;
        };
        let lock = root.path().join("lock");
        let git = git.one_at_a_time(&lock);
        let held = Output::locked_by(&lock).unwrap().unwrap();
        let impatient = git.clone().within(Duration::ZERO);
        let busy = impatient.run(&["--version"]).await.unwrap_err();
        assert!(matches!(busy, GitError::Busy(_)), "{busy}");
        drop(held);
        assert_eq!(git.run(&["--version"]).await.unwrap().exit, 0);
    }

    #[test]
    fn versions_are_read_as_they_are_written() {
        assert_eq!(version("git version 2.47.3"), Some((2, 47)));
        assert_eq!(version("git version 2.39.5 (Apple Git-154)"), Some((2, 39)));
        assert_eq!(version("git version 2.51.GIT"), Some((2, 51)));
        assert_eq!(version("hub version 2"), None);
    }
}
