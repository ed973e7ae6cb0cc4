//! What a person has confirmed of files that a repository or an agent can write: one small record for each of them, in the
//! person's own state folder, outside of every project.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bounded_read;
use crate::config::Environment;
use crate::own_files;
use crate::wire::sha256;

/// The folder of the records in the state folder.
const FOLDER: &str = "trust";
/// Bytes of a record: a configuration of the largest size, and some for its place and its prompts.
const MAX_BYTES: usize = 2 * 1024 * 1024;
const FORMAT: u32 = 1;
/// How the hash of a content begins; no value of TOML does.
const HASH: &str = "sha256:";

/// What counts of a file, by its parts: each as a text, or as the [`content_hash`] of what it stands for.
pub type Parts = BTreeMap<String, String>;

/// The records of a person.
#[derive(Clone, Debug)]
pub struct ConfirmedRecords {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Record {
    format: u32,
    /// For a person who looks into it.
    path: String,
    parts: Parts,
}

impl ConfirmedRecords {
    /// Returns where the records are, for files in these folders. Nothing is made.
    ///
    /// # Errors
    /// There is no place for them: the person has no home, or it lies in one of the folders, where agents can write.
    pub fn outside_of(folders: &[&Path], environment: &Environment) -> io::Result<Self> {
        let state = environment.state_folder().ok_or_else(|| {
            io::Error::other("neither XDG_STATE_HOME nor HOME names a folder for it")
        })?;
        let inside = |folder: &&Path| real(&state).starts_with(real(folder));
        match folders.iter().copied().find(inside) {
            Some(folder) => Err(io::Error::other(format!(
                "`{}` is in `{}`, where agents may write",
                state.display(),
                folder.display()
            ))),
            None => Ok(Self {
                folder: state.join(FOLDER),
            }),
        }
    }

    /// Returns what was confirmed of a file; `None` if nothing ever was.
    ///
    /// # Errors
    /// The record cannot be read, or others could have written it.
    pub fn get(&self, path: &Path) -> io::Result<Option<Parts>> {
        let file = match own_files::file(OpenOptions::new().read(true), &self.record(path)?) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let metadata = file.metadata()?;
        if !own_files::is_mine(&metadata) || metadata.mode() & 0o022 != 0 {
            return Err(own_files::refused("others can write it"));
        }
        let record: Record = serde_json::from_str(&bounded_read::read(file, MAX_BYTES)?)?;
        match record.format {
            FORMAT => Ok(Some(record.parts)),
            _ => Err(own_files::refused("a newer version has written it")),
        }
    }

    /// Records that a person confirms a file as it is, in one step: a crash leaves the record before, or this one.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn put(&self, path: &Path, parts: &Parts) -> io::Result<()> {
        own_files::make_folder(&self.folder)?;
        let record = Record {
            format: FORMAT,
            path: std::path::absolute(path)?.display().to_string(),
            parts: parts.clone(),
        };
        own_files::replace(&self.record(path)?, &serde_json::to_vec_pretty(&record)?)
    }

    /// Adds to what was confirmed of a file; of several processes, one after the other.
    ///
    /// # Errors
    /// As [`ConfirmedRecords::get`] and [`ConfirmedRecords::put`].
    pub fn add(&self, path: &Path, part: String, value: &str) -> io::Result<()> {
        own_files::make_folder(&self.folder)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = own_files::file(&mut options, &self.folder.join("lock"))?;
        lock.lock()?;
        let mut parts = self.get(path)?.unwrap_or_default();
        match parts.insert(part, value.to_owned()) {
            Some(before) if before == value => Ok(()),
            _ => self.put(path, &parts),
        }
    }

    /// Forgets what was confirmed of a file.
    ///
    /// # Errors
    /// The record cannot be removed.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        own_files::remove_if_there(&self.record(path)?)
    }

    fn record(&self, path: &Path) -> io::Result<PathBuf> {
        // What a file names starts from the folder that it stands in, so a link is another file than the one that it leads to.
        let path = std::path::absolute(path)?;
        let folder = real(path.parent().unwrap_or(&path));
        let path = folder.join(path.file_name().unwrap_or_default());
        let hash = sha256(path.as_os_str().as_bytes());
        Ok(self.folder.join(format!("{hash}.json")))
    }
}

/// Returns what stands for the content of a file in [`Parts`].
pub fn content_hash(content: impl AsRef<[u8]>) -> String {
    format!("{HASH}{}", sha256(content))
}

/// Returns whether a part is the [`content_hash`] of something.
pub fn is_hash(part: &str) -> bool {
    part.starts_with(HASH)
}

/// Returns a path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|folder| {
        let rest = path.strip_prefix(folder).ok()?;
        Some(folder.canonicalize().ok()?.join(rest))
    });
    found.unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn environment(state: &Path) -> Environment {
        let state = state.to_str().unwrap().to_owned();
        [("XDG_STATE_HOME".to_owned(), state)].into_iter().collect()
    }

    fn parts(text: &str) -> Parts {
        Parts::from([("hooks.on_finish".to_owned(), text.to_owned())])
    }

    #[test]
    fn record_is_of_one_path_and_private() {
        let (state, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = |name: &str| project.path().join(name);
        let records = ConfirmedRecords::outside_of(&[project.path()], &environment(state.path()));
        let records = records.unwrap();
        assert_eq!(records.get(&path("config.toml")).unwrap(), None);
        records.put(&path("config.toml"), &parts("a")).unwrap();
        records.put(&path("config.toml"), &parts("b")).unwrap();
        assert_eq!(
            records.get(&path("./config.toml")).unwrap(),
            Some(parts("b"))
        );
        // A link to the folder leads to the same file; a link to the file is another one.
        symlink(project.path(), path("way")).unwrap();
        assert!(records.get(&path("way/config.toml")).unwrap().is_some());
        fs::write(path("config.toml"), "").unwrap();
        symlink("config.toml", path("link.toml")).unwrap();
        assert_eq!(records.get(&path("link.toml")).unwrap(), None);
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let record = records.record(&path("config.toml")).unwrap();
        assert_eq!((mode(&record), mode(&records.folder)), (0o600, 0o700));
    }

    #[test]
    fn record_of_others_is_refused() {
        let (state, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = project.path().join("config.toml");
        let records = ConfirmedRecords::outside_of(&[], &environment(state.path())).unwrap();
        records.put(&path, &parts("a")).unwrap();
        let record = records.record(&path).unwrap();
        let error = || records.get(&path).unwrap_err().to_string();
        fs::set_permissions(&record, Permissions::from_mode(0o666)).unwrap();
        assert_eq!(error(), "others can write it");
        fs::set_permissions(&record, Permissions::from_mode(0o600)).unwrap();
        fs::write(&record, r#"{"format":2,"path":"","parts":{}}"#).unwrap();
        assert_eq!(error(), "a newer version has written it");
        fs::rename(&record, state.path().join("elsewhere")).unwrap();
        symlink(state.path().join("elsewhere"), &record).unwrap();
        assert_eq!(error(), own_files::LINK);
    }

    #[test]
    fn records_need_place_outside() {
        let project = tempfile::tempdir().unwrap();
        let within = project.path().join("home/state");
        for (environment, said) in [
            (Environment::default(), "neither XDG_STATE_HOME nor HOME"),
            (environment(&within), "where agents may write"),
        ] {
            let error = ConfirmedRecords::outside_of(&[project.path()], &environment).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}
