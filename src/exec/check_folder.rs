//! A folder aside in which checks run on trees of git, and the trees that are made for that: a result with the files that judge
//! as they were, and the state before with the tests that a result adds.

use std::fs;
use std::path::{Path, PathBuf};

use super::git::{Git, GitError};
use super::judging_files::JudgingFiles;

/// A folder aside. What git ignores stays there from one tree to the next.
#[derive(Clone, Debug)]
pub struct CheckFolder {
    git: Git,
    /// Exists once the person's command has made the folder ready.
    prepared: PathBuf,
}

/// A file of a tree, as git names it; `None` where there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFile {
    pub path: String,
    content: Option<(String, String)>,
}

impl TreeFile {
    /// Returns that there is no such file.
    pub fn removed(&self) -> Self {
        Self {
            path: self.path.clone(),
            content: None,
        }
    }
}

/// What a result changed of the files that judge it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgingChanges {
    /// Files as they were before; a check runs with these.
    pub restored: Vec<TreeFile>,
    /// New files that judge.
    pub added: Vec<TreeFile>,
    /// Files of which a part that may configure tests has changed.
    pub manifests: Vec<String>,
}

impl CheckFolder {
    pub(super) fn new(git: Git, prepared: PathBuf) -> Self {
        Self { git, prepared }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        self.git.folder()
    }

    /// Returns the file that exists once the person's command has made the folder ready.
    pub fn prepared(&self) -> &Path {
        &self.prepared
    }

    /// Writes the files of a tree, and removes all others that git does not ignore.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn lay_out(&self, tree: &str) -> Result<(), GitError> {
        self.git
            .bytes(&["read-tree", "--reset", "-u", tree])
            .await?;
        self.git.bytes(&["clean", "-ffdq"]).await?;
        // Python takes what it has compiled for a source of the same size and second.
        let compiled = [":(glob)**/__pycache__/**", ":(glob)**/*.pyc"];
        let words = [&["clean", "-ffdqx", "--"], &compiled[..]].concat();
        self.git.bytes(&words).await.map(drop)
    }

    /// Returns what changed of the files that judge between two trees.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn judging_changes(
        &self,
        [old, new]: [&str; 2],
        files: &JudgingFiles,
    ) -> Result<JudgingChanges, GitError> {
        let words = [
            "diff-tree",
            "-r",
            "-z",
            "--no-renames",
            "--raw",
            "--no-abbrev",
        ];
        let said = self.git.bytes(&[&words[..], &[old, new]].concat()).await?;
        let mut parts = said.split(|byte| *byte == 0).map(str::from_utf8);
        let mut changes = JudgingChanges::default();
        while let (Some(of), Some(path)) = (parts.next(), parts.next()) {
            // Names of bytes that are no text are in no pattern.
            let (Ok(of), Ok(path)) = (of, path) else {
                continue;
            };
            let of: Vec<&str> = of.trim_start_matches(':').split(' ').collect();
            let [old_mode, new_mode, old_id, new_id, status] = of[..] else {
                continue;
            };
            let file = |content: Option<(&str, &str)>| TreeFile {
                path: path.to_owned(),
                content: content.map(|(mode, id)| (mode.to_owned(), id.to_owned())),
            };
            if files.configures(path) {
                let was = (status != "A").then_some((old_mode, old_id));
                changes.restored.push(file(was));
            } else if !files.judges(path) {
                if status == "M"
                    && files.is_manifest(path)
                    && self.of_tests([old, new], path).await?
                {
                    changes.manifests.push(path.to_owned());
                }
            } else if status == "A" {
                changes.added.push(file(Some((new_mode, new_id))));
            } else {
                changes.restored.push(file(Some((old_mode, old_id))));
            }
        }
        Ok(changes)
    }

    /// Returns whether a place that a file changes names tests.
    async fn of_tests(&self, [old, new]: [&str; 2], path: &str) -> Result<bool, GitError> {
        let path = format!(":(top,literal){path}");
        let words = [
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "-U2",
            old,
            new,
            "--",
            &path,
        ];
        let said = String::from_utf8_lossy(&self.git.bytes(&words).await?).to_lowercase();
        let places = said.lines().skip_while(|line| !line.starts_with("@@"));
        let mut places = places.skip(1);
        Ok(places.any(|line| line.contains("test") || line.contains("jest")))
    }

    /// Returns a tree with some files as they are given.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn with_files(&self, tree: &str, files: &[TreeFile]) -> Result<String, GitError> {
        let aside = tempfile::tempdir()?;
        let git = self.git.clone().with_index(&aside.path().join("index"));
        git.bytes(&["read-tree", tree]).await?;
        let line = |file: &TreeFile| match &file.content {
            Some((mode, id)) => format!("{mode} {id}\t{}\0", file.path),
            None => format!("0 {}\t{}\0", "0".repeat(40), file.path),
        };
        let lines: String = files.iter().map(line).collect();
        let words = ["update-index", "--replace", "-z", "--index-info"];
        git.clone()
            .with_input(lines.into_bytes())
            .bytes(&words)
            .await?;
        git.line(&["write-tree"]).await
    }
}

impl super::GitSnapshots {
    /// Returns a folder for checks on its trees, which is created. It is in no repository.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn check_folder(&self, folder: &Path) -> Result<CheckFolder, GitError> {
        fs::create_dir_all(folder)?;
        let index = folder.with_extension("index");
        drop(fs::remove_file(folder.with_extension("index.lock")));
        let git = self.git().in_folder(folder).with_index(&index);
        Ok(CheckFolder::new(git, folder.with_extension("prepared")))
    }
}
