//! A person's git project, which tests read and change with the real git.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::env::{Args, TestEnv, skip};

/// A project with a commit, and with uncommitted changes of the person.
pub struct Project {
    pub folder: PathBuf,
    hooked: PathBuf,
}

impl Project {
    /// Creates the project in the folder `project`; `None` without git.
    pub fn new(env: &TestEnv) -> Option<Self> {
        if Command::new("git").arg("--version").output().is_err() {
            skip("there is no git");
            return None;
        }
        let project = Self {
            folder: env.path("project"),
            hooked: env.path("hooked"),
        };
        env.write("project/a.txt", "one\ntwo\nthree\n");
        env.write("project/b.txt", "b\n");
        env.write("project/.gitignore", "built\n");
        project.git("init --quiet --initial-branch main");
        // A hook of the person would reveal who runs it.
        for name in [
            "pre-commit",
            "post-commit",
            "post-checkout",
            "post-merge",
            "reference-transaction",
        ] {
            let hook = project.folder.join(".git/hooks").join(name);
            let script = format!(
                "#!/bin/sh\necho {name} >> '{}'\nexit 1\n",
                project.hooked.display()
            );
            fs::write(&hook, script).unwrap();
            fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).unwrap();
        }
        project.git("add .");
        project.git("commit --quiet -m begin");
        env.write("project/b.txt", "b, and in no commit\n");
        env.write("project/staged.txt", "staged\n");
        project.git("add staged.txt");
        env.write("project/untracked.txt", "untracked\n");
        Some(project)
    }

    /// Runs git as the person would, but without the hooks.
    pub fn git(&self, words: impl Args) -> String {
        git(&self.folder, words)
    }

    /// Returns everything that belongs to the person: the files, the index, and the commits of the person's branches.
    pub fn of_the_person(&self) -> String {
        let entries = fs::read_dir(&self.folder).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let file = |path: &PathBuf| {
            let content = path.is_file().then(|| fs::read_to_string(path).unwrap());
            format!("{}: {content:?}\n", path.display())
        };
        let files: String = paths.iter().map(file).collect();
        let index = fs::read(self.folder.join(".git/index")).unwrap();
        let head = fs::read_to_string(self.folder.join(".git/HEAD")).unwrap();
        let text = format!("{files}{index:?}\n{head}");
        text + &self.git("for-each-ref refs/heads/main refs/tags refs/stash")
    }

    /// Checks that nothing is broken or locked, and that no hook ran.
    pub fn sound(&self) {
        self.git("fsck --strict --no-dangling");
        let locks = ["HEAD.lock", "index.lock", "packed-refs.lock"];
        for lock in locks {
            assert!(!self.folder.join(".git").join(lock).exists(), "{lock}");
        }
        let hooked = fs::read_to_string(&self.hooked).unwrap_or_default();
        assert_eq!(hooked, "", "hooks of the person's ran");
    }
}

/// Makes a folder a project, and commits what is in it.
pub fn begin_project(project: &Path) {
    git(project, "init --quiet --initial-branch main");
    git(project, "add .");
    git(project, "commit --quiet -m begin");
}

/// Runs git in a folder as a person would, but without hooks.
pub fn git(folder: &Path, words: impl Args) -> String {
    let ran = Command::new("git")
        .args(["-c", "user.name=person"])
        .args(["-c", "user.email=person@localhost"])
        .args(["-c", "core.hooksPath=/dev/null"])
        .args(words.words())
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(ran.status.success(), "git {:?}: {ran:?}", words.words());
    String::from_utf8(ran.stdout).unwrap()
}
