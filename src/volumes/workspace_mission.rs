//! MISSION.md: it is never visible half-written. Where its folder is a git project of its own, it is excluded from the history.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Result, read_capped, read_text, replace};
use crate::foreign_files::git_link;
use crate::own_files;

const NAME: &str = "MISSION.md";
/// The temporary name of MISSION.md before it is renamed.
const TEMP: &str = ".MISSION.md.tmp";
/// The folder for reports of agents that may not write elsewhere.
const AGENT_FOLDER: &str = ".plan-agent/";
/// The git files that are read here have only a few lines.
const GIT_CAP: u64 = 1024 * 1024;
/// The most bytes that are read of MISSION.md.
const MISSION_CAP: u64 = 1024 * 1024;

/// Writes MISSION.md in one step. Where its folder is the top of a git work tree, its name is added to `.git/info/exclude` first,
/// once; further down the name may mean a file of the project.
///
/// # Errors
/// When it cannot be written. A failure to write git's file is only logged.
pub fn write_mission(folder: &Path, text: &str) -> Result<()> {
    if folder.join(".git").exists()
        && let Some(git) = git_folder(folder)
        && let Err(error) = exclude(&git, &[NAME, TEMP])
    {
        tracing::warn!(%error, git = %git.display(), "MISSION.md is not kept out of git");
    }
    let path = folder.join(NAME);
    replace(&folder.join(TEMP), &path, text.as_bytes(), 0o666)
}

/// Returns whether MISSION.md says some words.
pub fn mission_says(folder: &Path, words: &str) -> bool {
    read_text(&folder.join(NAME), MISSION_CAP).is_ok_and(|text| text.contains(words))
}

/// Excludes the folder for agents' reports from the git history of a project and of all its worktrees.
///
/// # Errors
/// When git's exclude file cannot be read or written.
pub fn keep_out_of_git(project: &Path) -> io::Result<()> {
    git_folder(project).map_or(Ok(()), |git| exclude(&git, &[AGENT_FOLDER]))
}

/// Returns the folder that all work trees of the workspace's repository share, if the workspace is in a repository.
fn git_folder(workspace: &Path) -> Option<PathBuf> {
    let mut places = workspace.ancestors().map(|folder| folder.join(".git"));
    let found = places.find(|git| git.exists())?;
    if found.is_dir() {
        return Some(found);
    }
    // The link of a linked work tree or a submodule: `gitdir: <path>`.
    let git = git_link(&found, "gitdir:").ok()?;
    Some(git_link(&git.join("commondir"), "").unwrap_or(git))
}

fn exclude(git: &Path, names: &[&str]) -> io::Result<()> {
    let path = git.join("info/exclude");
    let there = match read_capped(&path, GIT_CAP) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        there => there?,
    };
    let there = String::from_utf8_lossy(&there);
    let known = |name: &str| there.lines().any(|line| line.trim() == name);
    let names = names.iter().filter(|name| !known(name));
    let mut missing: String = names.map(|name| format!("{name}\n")).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !there.is_empty() && !there.ends_with('\n') {
        missing.insert(0, '\n');
    }
    fs::create_dir_all(git.join("info"))?;
    let mut options = OpenOptions::new();
    own_files::file(options.append(true).create(true), &path)?.write_all(missing.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mission_is_replaced_whole_and_excluded_once() {
        let root = tempfile::tempdir().unwrap();
        let workspace = root.path().join("tree");
        let below = workspace.join("below");
        fs::create_dir_all(&below).unwrap();
        fs::create_dir_all(root.path().join("tree/.git/info")).unwrap();
        let exclude = root.path().join("tree/.git/info/exclude");
        fs::write(&exclude, "# a comment\ntarget").unwrap();
        write_mission(&below, "of another").unwrap();
        assert!(!fs::read_to_string(&exclude).unwrap().contains(NAME));
        for text in ["one", "two"] {
            write_mission(&workspace, text).unwrap();
            assert_eq!(fs::read_to_string(workspace.join(NAME)).unwrap(), text);
        }
        let text = fs::read_to_string(&exclude).unwrap();
        assert_eq!(text, "# a comment\ntarget\nMISSION.md\n.MISSION.md.tmp\n");
        assert!(!workspace.join(TEMP).exists());
    }

    #[test]
    fn linked_worktree_uses_shared_exclude_file() {
        let root = tempfile::tempdir().unwrap();
        let linked = root.path().join("main/.git/worktrees/side");
        fs::create_dir_all(&linked).unwrap();
        fs::write(linked.join("commondir"), "../..\n").unwrap();
        let workspace = root.path().join("side");
        fs::create_dir(&workspace).unwrap();
        fs::write(
            workspace.join(".git"),
            format!("gitdir: {}\n", linked.display()),
        )
        .unwrap();
        write_mission(&workspace, "text").unwrap();
        let exclude = root.path().join("main/.git/info/exclude");
        assert!(fs::read_to_string(exclude).unwrap().contains(NAME));
    }

    #[test]
    fn folder_without_git_gets_only_mission() {
        let root = tempfile::tempdir().unwrap();
        write_mission(root.path(), "text").unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
