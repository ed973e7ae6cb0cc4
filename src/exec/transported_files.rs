//! Files of a workspace on their way to another machine, where no git carries them.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use super::link_free_access;
use crate::plan::within_workspace;

/// The most bytes of one file.
const MOST: usize = 16 * 1024 * 1024;

/// The most bytes of them all as they travel, as of a pack of git.
const MOST_TOGETHER: usize = 64 * 1024 * 1024;

/// Some files, and which are wanted back.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CarriedFiles {
    /// Each with its path in the workspace and its bytes in base64.
    files: Vec<(String, String)>,
    pub wanted: Vec<String>,
}

/// Where carried files are laid down.
#[derive(Clone, Debug)]
pub struct LandingPlace {
    pub folder: PathBuf,
    /// Folders in it that are not entered.
    pub closed: Vec<PathBuf>,
    /// Another file of such a name is replaced.
    pub replace: bool,
}

impl CarriedFiles {
    /// Reads files of a workspace; what is not there is left out.
    ///
    /// # Errors
    /// They are too much for a pack, or one is larger than 16 MiB, out of the workspace, no plain file or behind a link, or cannot be read.
    pub async fn read(root: &Path, paths: Vec<String>, wanted: Vec<String>) -> io::Result<Vec<u8>> {
        let root = root.to_owned();
        let read = move || {
            let too_much = || io::Error::other("the files have more than 64 MiB together");
            let (mut files, mut together) = (Vec::new(), 0);
            for path in paths {
                within(&path)?;
                let bytes = match link_free_access::read(&root, &path, MOST, &[]) {
                    Ok((bytes, length)) if bytes.len() as u64 == length => bytes,
                    Ok(_) => return Err(refused(&path, "it has more than 16 MiB")),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(of(&path, &error)),
                };
                let bytes = BASE64.encode(bytes);
                together += bytes.len();
                if together > MOST_TOGETHER {
                    return Err(too_much());
                }
                files.push((path, bytes));
            }
            let pack = serde_json::to_vec(&Self { files, wanted })?;
            match pack.len() <= MOST_TOGETHER {
                true => Ok(pack),
                false => Err(too_much()),
            }
        };
        tokio::task::spawn_blocking(read).await?
    }

    /// Returns the files of a pack that [`Self::read`] made; data of a stranger.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(pack: &[u8]) -> io::Result<Self> {
        let unread = |error| io::Error::other(format!("the files cannot be read: {error}"));
        serde_json::from_slice(pack).map_err(unread)
    }

    /// Adds files; where one is there already, the later one counts.
    pub fn add(&mut self, later: Self) {
        let paths =
            |files: &[(String, String)], path: &str| files.iter().any(|file| file.0 == path);
        self.files.retain(|(path, _)| !paths(&later.files, path));
        self.files.extend(later.files);
    }

    /// Writes those files whose paths are accepted, each as a whole. What is there already is not touched, so that its time stays.
    ///
    /// # Errors
    /// A path leads elsewhere or is none of these, another file is there that is not replaced, or one cannot be written.
    pub async fn lay_down(
        self,
        place: LandingPlace,
        accepted: impl Fn(&str) -> bool + Send + 'static,
    ) -> io::Result<()> {
        let (folder, closed) = (place.folder, place.closed);
        let write = move || {
            for (path, bytes) in self.files {
                within(&path)?;
                if !accepted(&path) {
                    return Err(refused(&path, "it is none of the files that are produced"));
                }
                let bytes = BASE64.decode(bytes);
                let bytes = bytes.map_err(|error| refused(&path, &error.to_string()))?;
                match link_free_access::read(&folder, &path, bytes.len() + 1, &closed) {
                    Ok((there, _)) if there == bytes => continue,
                    Ok(_) if !place.replace => return Err(refused(&path, "another file is there")),
                    _ => {}
                }
                let written = link_free_access::write(&folder, &path, &bytes, &closed);
                written.map_err(|error| of(&path, &error))?;
            }
            Ok(())
        };
        tokio::task::spawn_blocking(write).await?
    }
}

/// Refuses a path that leads out of a workspace: it may come from another machine.
fn within(path: &str) -> io::Result<()> {
    match within_workspace(path).as_deref() {
        Ok(known) if known == path => Ok(()),
        Ok(_) => Err(refused(path, "it is written otherwise")),
        Err(why) => Err(refused(path, why)),
    }
}

fn refused(path: &str, why: &str) -> io::Error {
    of(path, &io::Error::other(why))
}

/// Says of which file an error is.
fn of(path: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{path}`: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_of_a_stranger_stay_within_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (own, outside) = (folder.path().join("own"), folder.path().join("secret"));
        std::fs::create_dir(&own).unwrap();
        std::fs::write(&outside, "secret").unwrap();
        let place = LandingPlace {
            folder: own.clone(),
            closed: Vec::new(),
            replace: true,
        };
        for path in ["../secret", "/etc/passwd", "./a", ""] {
            let read = CarriedFiles::read(&own, vec![path.to_owned()], Vec::new());
            assert!(read.await.is_err(), "{path}");
            let carried = CarriedFiles {
                files: vec![(path.to_owned(), BASE64.encode("x"))],
                ..CarriedFiles::default()
            };
            let laid = carried.lay_down(place.clone(), |_| true);
            assert!(laid.await.is_err(), "{path}");
        }
        assert_eq!(std::fs::read_to_string(outside).unwrap(), "secret");
        assert!(CarriedFiles::parse(b"no files").is_err());
    }

    #[tokio::test]
    async fn files_are_bounded_each_and_together() {
        let folder = tempfile::tempdir().unwrap();
        let mebibytes = |name: &str, count: u64| {
            let file = std::fs::File::create(folder.path().join(name)).unwrap();
            file.set_len(count * 1024 * 1024).unwrap();
            name.to_owned()
        };
        let read = |paths| CarriedFiles::read(folder.path(), paths, Vec::new());
        let large = mebibytes("large", 17);
        let error = read(vec![large]).await.unwrap_err().to_string();
        assert_eq!(error, "`large`: it has more than 16 MiB");
        // As they travel each three bytes are four.
        let most: Vec<String> = ["a", "b", "c"].map(|name| mebibytes(name, 15)).to_vec();
        read(most.clone()).await.unwrap();
        let more = [&*most, &[mebibytes("d", 4)]].concat();
        let error = read(more).await.unwrap_err().to_string();
        assert_eq!(error, "the files have more than 64 MiB together");
    }

    #[tokio::test]
    async fn another_file_is_replaced_only_if_that_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for (folder, text) in [(&from, "new"), (&to, "old")] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("a.txt"), text).unwrap();
        }
        let paths = vec!["a.txt".to_owned(), "missing.txt".to_owned()];
        let pack = CarriedFiles::read(&from, paths, Vec::new()).await.unwrap();
        for (replace, text) in [(false, "old"), (true, "new"), (false, "new")] {
            let place = LandingPlace {
                folder: to.clone(),
                closed: Vec::new(),
                replace,
            };
            let laid = CarriedFiles::parse(&pack)
                .unwrap()
                .lay_down(place, |_| true);
            assert_eq!(laid.await.is_ok(), text == "new");
            assert_eq!(std::fs::read_to_string(to.join("a.txt")).unwrap(), text);
        }
    }
}
