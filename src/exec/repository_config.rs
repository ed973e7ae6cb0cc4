//! The repository of a folder, found without git, and the person's configuration for it. Both are read once, before any agent
//! works there, and stored with the plan.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Git, GitError, Result, blocking};
use crate::foreign_files::{git_link, read_beginning};
use crate::plan::Repository;
use crate::wire::has_word;

/// The most bytes of the settings that are stored with a plan.
pub(super) const MOST: usize = 16 * 1024;

/// A git command that takes longer for a few files counts as hanging.
const DEADLINE: Duration = Duration::from_secs(10);

/// Disables all attributes of files in the repository: drivers that they name are not searched for, and file contents are not
/// converted.
const NEUTRAL: &str = "* !filter !merge !diff !text !eol !ident !working-tree-encoding !crlf\n";

/// Settings that describe the repository and its file system, and the files that are ignored there.
const OF_THE_PLACE: &str = "core.excludesfile core.filemode core.ignorecase core.precomposeunicode core.symlinks \
                            extensions.objectformat extensions.refstorage";

/// Settings for how files are written into worktrees and read from there, and how they are merged.
const OF_THE_WORK: &str = "core.attributesfile core.autocrlf core.bigfilethreshold core.eol core.logallrefupdates \
                           core.safecrlf core.sharedrepository diff.algorithm diff.renamelimit diff.renames \
                           lfs.fetchexclude lfs.fetchinclude merge.conflictstyle merge.directoryrenames \
                           merge.renamelimit merge.renames";

/// The keys of a filter: its programs, and whether it is required.
const OF_A_FILTER: [&str; 4] = ["clean", "process", "required", "smudge"];

/// How the filters that the person configured are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filters {
    /// They are off: files are read unchanged.
    Off,
    /// They are used when files are written into worktrees and committed from there, as the person's own git does it.
    Kept,
}

/// The place of a folder's repository, without links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RepositoryPlace {
    pub git_dir: PathBuf,
    pub common_dir: PathBuf,
}

impl fmt::Display for RepositoryPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.git_dir.display())?;
        if self.common_dir != self.git_dir {
            write!(f, " of `{}`", self.common_dir.display())?;
        }
        Ok(())
    }
}

/// Finds the repository of a folder itself; a repository that only contains the folder does not count. Blocks.
///
/// # Errors
/// An entry exists but leads to no repository.
pub(super) fn locate(folder: &Path) -> io::Result<Option<RepositoryPlace>> {
    let path = folder.join(".git");
    let Ok(metadata) = path.symlink_metadata() else {
        return Ok(None);
    };
    // The link of a linked worktree or a submodule.
    let git_dir = match metadata.is_file() {
        true => git_link(&path, "gitdir:")?,
        false => path,
    }
    .canonicalize()?;
    let common_dir = match git_dir.join("commondir") {
        path if path.symlink_metadata().is_ok() => git_link(&path, "")?.canonicalize()?,
        _ => git_dir.clone(),
    };
    Ok(Some(RepositoryPlace {
        git_dir,
        common_dir,
    }))
}

/// Returns the repository of a folder itself, with the person's configuration for it; `None` if the folder has none.
///
/// # Errors
/// An entry exists but leads to no repository, git cannot read its configuration, or a filter in it runs a file of the folder.
pub async fn examine(folder: &Path, filters: Filters) -> Result<Option<Repository>> {
    let place = folder.to_owned();
    let Some(found) = blocking(move || Ok(locate(&place)?)).await? else {
        return Ok(None);
    };
    let configured = configured(folder, &found.git_dir, &[]).await?;
    let path = |path: &Path| {
        let path = path.to_str().map(str::to_owned);
        path.ok_or_else(|| io::Error::other("the path of the repository is not UTF-8"))
    };
    let mut repository = Repository {
        git_dir: path(&found.git_dir)?,
        common_dir: path(&found.common_dir)?,
        settings: kept_settings(&configured, filters),
        attributes: NEUTRAL.to_owned(),
    };
    if filters == Filters::Kept {
        let own = found.common_dir.join("info/attributes");
        let own = read_beginning(&own, MOST as u64 + 1).unwrap_or_default();
        repository.attributes = String::from_utf8_lossy(&own).into_owned();
        let storage = last(&configured, "lfs.storage").unwrap_or("lfs");
        let storage = path(&found.common_dir.join(storage))?;
        // Git LFS would search for its files in this program's folder.
        let storage = ("lfs.storage".to_owned(), storage);
        repository.settings.push(storage);
        for (name, value) in &repository.settings {
            if is_program(name)
                && let Some(file) = named_within([folder, &found.common_dir], value)
            {
                let name = name.clone();
                return Err(GitError::Filter { name, file });
            }
        }
    }
    let settings = repository.settings.iter();
    let texts = settings.map(|(name, value)| name.len() + value.len());
    if texts.sum::<usize>() + repository.attributes.len() > MOST {
        return Err(GitError::Configuration(folder.to_owned()));
    }
    Ok(Some(repository))
}

/// Returns the programs of filters that are configured in a repository and not for the machine or the person. Every process
/// that could write to the repository, such as agents of an earlier plan, could have configured them.
///
/// # Errors
/// Git cannot read its configuration.
pub async fn own_filters(folder: &Path, repository: &Repository) -> Result<Vec<(String, String)>> {
    let mut own = configured(folder, Path::new(&repository.git_dir), &["--local"]).await?;
    own.retain(|setting| is_program(&setting.0) && repository.settings.contains(setting));
    Ok(own)
}

/// Returns whether a setting names a program of a filter.
pub(super) fn is_program(name: &str) -> bool {
    name.starts_with("filter.") && !name.ends_with(".required")
}

/// Returns the settings that the person's git uses in a repository: of the machine, of the person and of the repository, unless
/// an option says otherwise. Reading them runs no program.
pub(super) async fn configured(
    folder: &Path,
    git_dir: &Path,
    options: &[&str],
) -> Result<Vec<(String, String)>> {
    let git = Git::configured(folder, git_dir).within(DEADLINE);
    let listed = git.names("config --list --includes -z", options).await?;
    // A name without a value means yes.
    let pair = |setting: String| match setting.split_once('\n') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (setting, "true".to_owned()),
    };
    Ok(listed.into_iter().map(pair).collect())
}

/// Returns the settings to store, each with its value in effect.
fn kept_settings(configured: &[(String, String)], filters: Filters) -> Vec<(String, String)> {
    let is_kept = |name: &str| {
        let of_a_filter = || {
            let (_, key) = name.strip_prefix("filter.")?.rsplit_once('.')?;
            Some(OF_A_FILTER.contains(&key))
        };
        has_word(OF_THE_PLACE, name)
            || filters == Filters::Kept
                && (has_word(OF_THE_WORK, name) || of_a_filter().unwrap_or(false))
    };
    let mut kept: Vec<(String, String)> = Vec::new();
    for (name, value) in configured.iter().filter(|(name, _)| is_kept(name)) {
        kept.retain(|(other, _)| other != name);
        kept.push((name.clone(), value.clone()));
    }
    if kept.iter().any(|(name, _)| name.starts_with("extensions.")) {
        // Git accepts none of them in a repository of the first format.
        kept.push(("core.repositoryformatversion".to_owned(), "1".to_owned()));
    }
    kept
}

/// Returns the value of a setting in effect: the last one.
pub(super) fn last<'a>(configured: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut named = configured.iter().rev();
    (named.find(|(other, _)| other == name)).map(|(_, value)| value.as_str())
}

/// Returns a file inside one of some folders that a shell command names, if such a file can be recognised.
fn named_within(folders: [&Path; 2], command: &str) -> Option<PathBuf> {
    let real = folders.map(|folder| folder.canonicalize().ok());
    let words = command.split(|c: char| c.is_whitespace() || "'\"`;|&<>=(){}$".contains(c));
    // Other words are programs found by PATH, or their first arguments.
    let mut paths = words.filter(|word| word.contains(['/', '.']));
    paths.find_map(|word| {
        let path = folders[0].join(word).canonicalize().ok()?;
        let within = real.iter().flatten().any(|folder| path.starts_with(folder));
        (within && path.is_file()).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn finds_repository_of_worktrees() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        let folder = |name: &str| {
            fs::create_dir_all(real.join(name)).unwrap();
            real.join(name)
        };
        let (main, side) = (folder("main/.git"), folder("main/.git/worktrees/side"));
        fs::write(side.join("commondir"), "../..\n").unwrap();
        fs::write(
            folder("side").join(".git"),
            "gitdir: ../main/.git/worktrees/side\n",
        )
        .unwrap();
        fs::write(folder("lost").join(".git"), "gitdir: ../nowhere\n").unwrap();
        fs::write(folder("empty").join(".git"), "\n").unwrap();
        let found = |name: &str| locate(&folder(name)).map_err(drop);
        let at = |git_dir: &PathBuf| RepositoryPlace {
            git_dir: git_dir.clone(),
            common_dir: main.clone(),
        };
        assert_eq!(found("main"), Ok(Some(at(&main))));
        assert_eq!(found("side"), Ok(Some(at(&side))));
        assert_eq!(found("main/sub"), Ok(None));
        assert_eq!((found("lost"), found("empty")), (Err(()), Err(())));
    }

    #[test]
    fn detects_commands_that_name_project_files() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("project");
        fs::create_dir_all(folder.join("sub")).unwrap();
        for name in ["sub/clean.sh", "strip.py", "clean", "../outside.sh"] {
            fs::write(folder.join(name), "").unwrap();
        }
        let absolute = folder.join("strip.py").display().to_string();
        for (command, named) in [
            ("git-lfs clean -- %f", false),
            ("python3 -m strip", false),
            ("sed 's/a.b/c/'", false),
            ("../outside.sh", false),
            ("./sub/clean.sh", true),
            ("sh -c 'sub/clean.sh %f'", true),
            ("python3 strip.py", true),
            (&absolute, true),
        ] {
            let found = named_within([&folder, root.path().join("none").as_path()], command);
            assert_eq!(found.is_some(), named, "{command}: {found:?}");
        }
    }
}
