//! What changed in a folder: found with git, whose data is kept outside the person's repository, or, without a repository, with
//! scans and the times of the files.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::produced_files::written_at;
use super::task_diff::begin;
use super::tree_changes::tree_changes;
use super::{Git, Result, TreeChange, blocking, changed_at};
use crate::plan::{ChangeDetection, ChangedFiles, Time};
use crate::wire::{has_word, one_line};

/// Folders whose content is not part of the work.
pub const NOT_OF_THE_WORK: &str = ".git .plan-agent node_modules .venv __pycache__";

/// A folder with this file in it contains only what can be generated again.
const CACHE: &str = "CACHEDIR.TAG";

/// The most levels of folders that are scanned.
const DEPTH: usize = 32;

/// A shorter file cannot lose most of its content unseen; so many losses are named.
const LEAST_LINES: usize = 10;
const MOST_LOSSES: usize = 5;

/// The most characters of a path.
const PATH: usize = 300;

/// A git command that takes longer is not awaited: the times of the files show nearly as much.
const DEADLINE: Duration = Duration::from_secs(20);

/// The files of a folder at one time, without folders that are not part of the work.
#[derive(Debug)]
pub struct FileListing {
    /// When the scan began, in plan time.
    pub at: Time,
    files: BTreeMap<String, FileTimes>,
    /// No file was left out because of a limit or because it could not be read.
    complete: bool,
}

/// When a file may have been written and changed.
#[derive(Clone, Copy, Debug)]
struct FileTimes {
    /// Differs when the file was written: inode, length and time. Its access rights do not count.
    content: (u64, u64, i64, i64),
    /// The latest time of its last write.
    written: Time,
    /// The latest time of any change.
    changed: Time,
}

impl FileTimes {
    fn of(metadata: &Metadata) -> Self {
        let (seconds, rest) = (metadata.mtime(), metadata.mtime_nsec());
        Self {
            content: (metadata.ino(), metadata.len(), seconds, rest),
            written: written_at(metadata),
            changed: changed_at(metadata),
        }
    }
}

impl FileListing {
    /// Scans a folder, up to a number of entries, without the paths in `left_out`; follows no link. `None` if the folder itself
    /// cannot be read.
    pub fn of(folder: &Path, left_out: &[PathBuf], most: usize, at: Time) -> Option<Self> {
        let mut listing = Self {
            at,
            files: BTreeMap::new(),
            complete: true,
        };
        let mut left = most;
        let mut folders = vec![(folder.to_owned(), String::new(), 0)];
        while let Some((folder, prefix, depth)) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(_) if depth == 0 => return None,
                Err(_) => {
                    listing.complete = false;
                    continue;
                }
            };
            let mut entries = entries.flatten();
            let names: Vec<_> = entries.by_ref().take(left).collect();
            left -= names.len();
            listing.complete &= entries.next().is_none();
            if names.iter().any(|entry| entry.file_name() == CACHE) {
                continue;
            }
            for entry in names {
                let (path, name) = (entry.path(), entry.file_name());
                let name = name.to_string_lossy();
                if has_word(NOT_OF_THE_WORK, &name) || left_out.contains(&path) {
                    continue;
                }
                let shown = one_line(&format!("{prefix}{name}"), PATH);
                // A file that is gone by now was removed; the next scan reports that.
                let Ok(metadata) = entry.metadata() else {
                    continue;
                };
                if !metadata.is_dir() {
                    listing.files.insert(shown, FileTimes::of(&metadata));
                } else if depth < DEPTH {
                    folders.push((path, format!("{shown}/"), depth + 1));
                } else {
                    listing.complete = false;
                }
            }
        }
        Some(listing)
    }

    /// Returns the number of files; `None` if some were left out.
    pub fn files(&self) -> Option<usize> {
        self.complete.then_some(self.files.len())
    }

    /// Returns what changed since a time, given both in plan time and by the wall clock. An earlier scan distinguishes a file
    /// that was written just before that time from one that was written just after; it also shows removed files.
    pub fn changes(&self, before: Option<&Self>, since: Time, wall: Time) -> ChangedFiles {
        let before = before.filter(|before| before.complete);
        let began = before.filter(|before| before.at <= since);
        let is_news = |path: &str, stamp: &FileTimes| match began {
            Some(began) => {
                let known = began.files.get(path);
                stamp.changed >= wall && known.is_none_or(|known| known.content != stamp.content)
            }
            None => stamp.written >= wall,
        };
        let written = self.files.iter();
        let written = written.filter(|(path, stamp)| is_news(path, stamp));
        let written = written.map(|(path, _)| path.clone());
        let known = before.filter(|_| self.complete).into_iter();
        let known = known.flat_map(|before| before.files.keys());
        let removed = known.filter(|path| !self.files.contains_key(*path));
        let removed = removed.map(|path| ChangedFiles::removed(path));
        let seen = match began {
            _ if !self.complete => ChangeDetection::Part,
            Some(_) => ChangeDetection::Listing,
            None => ChangeDetection::Times,
        };
        ChangedFiles::new(seen, written.chain(removed).collect())
    }
}

/// Git snapshots of a folder. Their index and objects are kept outside the person's repository, whose own do not change.
#[derive(Clone, Debug)]
pub struct GitSnapshots {
    pub(super) git: Git,
    index: PathBuf,
    left_out: Vec<String>,
}

impl GitSnapshots {
    /// Uses a work tree, a folder for the snapshots' data, which is created, and the paths within the work tree that are left
    /// out.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn of(git: Git, aside: &Path, left_out: &[PathBuf]) -> io::Result<Self> {
        let (objects, index) = (aside.join("objects"), aside.join("index"));
        fs::create_dir_all(&objects)?;
        let git = git.within(DEADLINE).one_at_a_time(&aside.join("lock"));
        let within = left_out.iter();
        let within = within.filter_map(|path| path.strip_prefix(git.folder()).ok()?.to_str());
        Ok(Self {
            left_out: within.map(str::to_owned).collect(),
            git: git.with_index(&index).with_objects(&objects),
            index,
        })
    }

    /// Returns the commit with which work began, or where the work tree's branch left it: it is one of the accepted results up to
    /// `tip`, and could not be merged in.
    ///
    /// # Errors
    /// The error of git.
    pub async fn begin_of(&self, commit: &str, tip: &str) -> Result<String> {
        let git = &self.git;
        let merging = git.resolve("MERGE_HEAD").await?;
        if merging.as_deref() == Some(commit)
            || git.has(commit, "HEAD").await?
            || !git.has(commit, tip).await?
        {
            return Ok(commit.to_owned());
        }
        begin(git, commit, "HEAD").await
    }

    /// Takes a snapshot of all files that git does not ignore, and returns its id.
    ///
    /// # Errors
    /// The error of git, such as that it takes too long.
    pub async fn record(&self) -> Result<String> {
        if !self.index.exists() {
            self.git.begin_index().await;
        }
        match self.add().await {
            Err(error) if !error.late() => {
                tracing::debug!(%error, "an empty index is begun");
                // An index that was left half-written would block every later snapshot.
                for path in [&self.index, &self.index.with_extension("lock")] {
                    if let Err(error) = fs::remove_file(path) {
                        tracing::debug!(%error, path = %path.display(), "nothing to remove");
                    }
                }
                self.add().await
            }
            added => added,
        }
    }

    async fn add(&self) -> Result<String> {
        let left_out: Vec<&str> = self.left_out.iter().map(String::as_str).collect();
        self.git.add_all(&left_out).await?;
        self.git.line("write-tree", &[]).await
    }

    /// Returns the differences between two snapshots, without files that have not been written since a time of the wall clock.
    ///
    /// # Errors
    /// One of the snapshots no longer exists, or the error of git.
    pub async fn changes(&self, old: &str, new: &str, since: Time) -> Result<ChangedFiles> {
        let changed = tree_changes(&self.git, [old, new]).await?;
        let folder = self.git.folder().to_owned();
        let losses = self.losses(old, new).await?;
        let look = move || {
            let mut paths = Vec::new();
            for TreeChange { path, status, .. } in changed {
                let shown = one_line(&path, PATH);
                match folder.join(&path).symlink_metadata() {
                    _ if status == "D" => paths.push(ChangedFiles::removed(&shown)),
                    Ok(metadata) if changed_at(&metadata) < since => {}
                    _ => paths.push(shown + losses.get(&path).map_or("", String::as_str)),
                }
            }
            // These are named even where many changed.
            paths.sort_by_key(|path| !path.ends_with(" lines)"));
            Ok(ChangedFiles::new(ChangeDetection::Git, paths))
        };
        blocking(look).await
    }

    /// Returns which files of the old snapshot lost most of their lines, with words for that.
    async fn losses(&self, old: &str, new: &str) -> Result<BTreeMap<String, String>> {
        let diff = "diff-tree -r -z --no-renames --numstat";
        let said = self.git.line(diff, &[old, new]).await?;
        let mut losses = BTreeMap::new();
        for entry in said.split('\0') {
            let mut parts = entry.splitn(3, '\t');
            let mut count = || parts.next()?.parse::<usize>().ok();
            let lost = count().and_then(|added| count()?.checked_sub(added));
            if let (Some(lost), Some(path)) = (lost, parts.next())
                && lost * 10 > LEAST_LINES * 6
                && losses.len() < MOST_LOSSES
            {
                let blob = format!("{old}:{path}");
                let before = self.git.bytes("cat-file blob", &[&blob]).await?;
                let before = String::from_utf8_lossy(&before).lines().count();
                if before >= LEAST_LINES && lost * 10 > before * 6 {
                    let words = format!(" (lost {lost} of its {before} lines)");
                    losses.insert(path.to_owned(), words);
                }
            }
        }
        Ok(losses)
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;
    use crate::exec::git::person;

    const AT: Time = Time(1);

    fn listing(folder: &Path) -> FileListing {
        FileListing::of(folder, &[folder.join("left")], 100, AT).unwrap()
    }

    fn now() -> Time {
        crate::plan_time::Clock::start().now()
    }

    #[test]
    fn listing_finds_written_and_removed_files() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        };
        let names = "kept gone sub/changed left/x node_modules/x c/x c/CACHEDIR.TAG";
        names.split(' ').for_each(write);
        let before = listing(root.path());
        assert_eq!(before.files(), Some(3));
        fs::remove_file(root.path().join("gone")).unwrap();
        fs::write(root.path().join("sub/changed"), "longer than before").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(root.path().join("kept"), mode).unwrap();
        write("new");
        write("left/y");
        let after = listing(root.path());
        let changes = after.changes(Some(&before), AT, Time(0));
        assert_eq!(changes.files, ["new", "sub/changed", "gone (removed)"]);
        assert_eq!(changes.seen, ChangeDetection::Listing);
        let by_times = after.changes(None, AT, Time(0));
        assert_eq!(by_times.files, ["kept", "new", "sub/changed"]);
        assert_eq!(by_times.seen, ChangeDetection::Times);
        let kept = root.path().join("kept");
        let since = written_at(&kept.metadata().unwrap()).plus(Duration::from_millis(1));
        while changed_at(&kept.metadata().unwrap()) < since {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            fs::set_permissions(&kept, mode).unwrap();
        }
        let by_times = listing(root.path()).changes(None, AT, since);
        let kept = by_times.files.iter().any(|file| file == "kept");
        assert!(!kept, "who may read it is no change");
        let later = now().plus(Duration::from_secs(3600));
        assert!(after.changes(None, AT, later).files.is_empty());
        let part = FileListing::of(root.path(), &[], 2, AT).unwrap();
        assert_eq!(part.files(), None);
        let changes = part.changes(Some(&before), AT, later);
        assert_eq!(changes.seen, ChangeDetection::Part);
        assert!(FileListing::of(&root.path().join("kept"), &[], 2, AT).is_none());
    }

    #[tokio::test]
    async fn git_snapshot_finds_changes_without_touching_repository() {
        let root = tempfile::tempdir().unwrap();
        let (folder, aside) = (root.path().join("w"), root.path().join("aside"));
        fs::create_dir(&folder).unwrap();
        if person::git(&folder, &["init", "--quiet"]).is_none() {
            return;
        }
        for (name, text) in [
            (".gitignore", "ignored\nMISSION.md\n"),
            ("kept", "1"),
            ("gone", "2"),
            ("changed", "3"),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
        person::git(&folder, &["add", "kept"]);
        let state = || {
            let objects = fs::read_dir(folder.join(".git/objects")).unwrap().count();
            (fs::read(folder.join(".git/index")).unwrap(), objects)
        };
        let was = state();
        let left_out = [folder.join("MISSION.md")];
        let git = person::opened(&folder).await;
        let trees = GitSnapshots::of(git, &aside, &left_out).unwrap();
        let old = trees.record().await.unwrap();
        fs::remove_file(folder.join("gone")).unwrap();
        for name in ["changed", "ignored", "MISSION.md", "näher \n.txt"] {
            fs::write(folder.join(name), "now").unwrap();
        }
        // What a git that was killed leaves behind.
        fs::write(aside.join("index.lock"), "").unwrap();
        let new = trees.record().await.unwrap();
        let changes = trees.changes(&old, &new, Time(0)).await.unwrap();
        assert_eq!(changes.files, ["changed", "gone (removed)", "näher .txt"]);
        assert_eq!(changes.seen, ChangeDetection::Git);
        let later = now().plus(Duration::from_secs(3600));
        let changes = trees.changes(&old, &new, later).await.unwrap();
        assert_eq!(changes.files, ["gone (removed)"]);
        assert_eq!(state(), was, "the repository is as it was");
        let missing = "4b825dc642cb6eb9a060e54bf8d69288fbee4905";
        assert!(trees.changes(missing, &new, Time(0)).await.is_err());
        // An index that is none, and one that cannot be read to its end.
        let index = folder.join(".git/index");
        for damaged in [false, true] {
            fs::remove_file(aside.join("index")).unwrap();
            fs::remove_file(&index).unwrap();
            match damaged {
                true => fs::write(&index, "DIRC, but no index").unwrap(),
                false => mknodat(CWD, &index, FileType::Fifo, Mode::RUSR, 0).unwrap(),
            }
            assert_eq!(trees.record().await.unwrap(), new, "damaged: {damaged}");
        }
    }
}
