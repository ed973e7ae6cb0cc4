//! Files within a folder, reached without following any link: the content of a workspace is untrusted, and may be exchanged
//! while it is read.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::wire::clip_bytes;

/// This lock is held while a file is written.
static WRITING: Mutex<()> = Mutex::new(());

/// The most bytes of a file's name that its temporary name contains.
const MAX_NAME: usize = 200;

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Reads the beginning of a regular file, and returns the length of the whole file. `path` has been accepted by
/// [`within_workspace`](crate::plan::within_workspace). The folders in `closed` are not entered, by whatever way.
///
/// # Errors
/// It does not exist, is or goes through a link, is no regular file, or cannot be read; or the way goes through a closed
/// folder.
pub fn read(
    folder: &Path,
    path: &str,
    most: usize,
    closed: &[PathBuf],
) -> io::Result<(Vec<u8>, u64)> {
    let (place, name) = walk(folder, path, closed, false)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&place, name, flags, Mode::empty()).map_err(describe)?;
    let file = File::from(file);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most.try_into().unwrap_or(u64::MAX))
        .read_to_end(&mut bytes)?;
    Ok((bytes, metadata.len()))
}

/// Writes a file, as a whole or not at all, and replaces an existing one. Folders on the way are created; those in `closed` are
/// not entered.
///
/// # Errors
/// The way goes through a link or a closed folder, or is no folder; the place has something that is not a regular file; or it
/// cannot be written.
pub fn write(folder: &Path, path: &str, bytes: &[u8], closed: &[PathBuf]) -> io::Result<()> {
    let (place, name) = walk(folder, path, closed, true)?;
    let mut mode = Mode::from_raw_mode(0o666);
    match rustix::fs::statat(&place, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() => {
            mode = Mode::from_raw_mode(stat.st_mode & 0o777);
        }
        Ok(_) => return Err(io::Error::other("something else than a file is there")),
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let temp = temp_of(name);
    // One write at a time: all writers of this file use the same temporary name.
    let _alone = WRITING.lock();
    // Removes what a killed process left unfinished.
    match rustix::fs::unlinkat(&place, &temp, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file: File = rustix::fs::openat(&place, &temp, flags, mode)?.into();
    let written = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| Ok(rustix::fs::renameat(&place, &temp, &place, name)?));
    written.inspect_err(|_| {
        rustix::fs::unlinkat(&place, &temp, AtFlags::empty()).ok();
    })
}

/// Returns the temporary name of a file. It is derived from the file's own name, so that the next write finds and removes what
/// a kill left behind.
fn temp_of(name: &str) -> String {
    format!(".{}.plan-agent.tmp", clip_bytes(name, MAX_NAME))
}

/// Opens the folder that a path leads to, and returns the name of the file in it.
fn walk<'a>(
    folder: &Path,
    path: &'a str,
    closed: &[PathBuf],
    make: bool,
) -> io::Result<(OwnedFd, &'a str)> {
    // A folder that does not exist cannot be entered.
    let closed = closed.iter().filter_map(|folder| folder.metadata().ok());
    let closed: Vec<_> = closed.map(|folder| (folder.dev(), folder.ino())).collect();
    // The folder itself is a person's choice and may be a link.
    let flags = FOLDER.difference(OFlags::NOFOLLOW);
    let mut place = rustix::fs::openat(CWD, folder, flags, Mode::empty())?;
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    for part in folders.split('/').filter(|part| !part.is_empty()) {
        if make {
            match rustix::fs::mkdirat(&place, part, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        place = rustix::fs::openat(&place, part, FOLDER, Mode::empty()).map_err(describe)?;
        let stat = rustix::fs::fstat(&place)?;
        if closed.contains(&(stat.st_dev, stat.st_ino)) {
            return Err(io::Error::other("what is there is plan-agent's own"));
        }
    }
    Ok((place, name))
}

/// Returns the error with a clear text where the system's own text is misleading.
fn describe(error: Errno) -> io::Error {
    match error {
        Errno::LOOP => io::Error::other("it is a link, or goes through one"),
        // The system reports a link in the place of a folder this way.
        Errno::NOTDIR => io::Error::other("the way there is no folder, or a link"),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn write_creates_folders_and_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a/b/c.txt", b"one", &[]).unwrap();
        write(folder.path(), "a/b/c.txt", b"three", &[]).unwrap();
        let cut = read(folder.path(), "a/b/c.txt", 3, &[]).unwrap();
        assert_eq!(cut, (b"thr".to_vec(), 5));
        let names = fs::read_dir(folder.path().join("a/b")).unwrap().count();
        assert_eq!(names, 1, "something is left behind");
    }

    #[test]
    fn rewrite_removes_temp_file_of_killed_write() {
        let folder = tempfile::tempdir().unwrap();
        let long = "é".repeat(125);
        for name in ["a.txt", &long] {
            fs::write(folder.path().join(temp_of(name)), "ha").unwrap();
            write(folder.path(), name, b"half", &[]).unwrap();
            assert_eq!(fs::read(folder.path().join(name)).unwrap(), b"half");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn concurrent_writes_leave_one_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let texts = ["a", "b", "c", "d"].map(|text| text.repeat(100_000));
        std::thread::scope(|scope| {
            for text in &texts {
                scope.spawn(|| {
                    for _ in 0..5 {
                        write(folder.path(), "x", text.as_bytes(), &[]).unwrap();
                    }
                });
            }
        });
        let last = fs::read_to_string(folder.path().join("x")).unwrap();
        assert!(texts.contains(&last));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn rewrite_keeps_file_mode() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("run.sh");
        fs::write(&script, "old").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).unwrap();
        write(folder.path(), "run.sh", b"new", &[]).unwrap();
        let mode = fs::metadata(&script).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o750);
    }

    #[test]
    fn closed_folder_is_not_accessible() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("a/own");
        fs::create_dir_all(own.join("b")).unwrap();
        fs::write(own.join("b/x"), "x").unwrap();
        let link = folder.path().join("link");
        symlink(&own, &link).unwrap();
        // Whatever it is called by.
        for closed in [own.clone(), link, folder.path().join("a/../a/own")] {
            let closed = [folder.path().join("none"), closed];
            for path in ["a/own/x", "a/own/b/x", "a//own/b/x"] {
                assert!(write(folder.path(), path, b"y", &closed).is_err(), "{path}");
                assert!(read(folder.path(), path, 10, &closed).is_err(), "{path}");
            }
            assert!(write(folder.path(), "a/ownx/x", b"y", &closed).is_ok());
            // Who works in a part of it works there.
            assert!(write(&own, "b/x", b"x", &closed).is_ok());
        }
        assert_eq!(fs::read_dir(&own).unwrap().count(), 1);
    }

    #[test]
    fn follows_no_links_and_touches_only_files() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret"), "secret").unwrap();
        symlink(outside.path(), folder.path().join("way")).unwrap();
        symlink(outside.path().join("secret"), folder.path().join("file")).unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        for path in ["way/secret", "file", "folder", "none", "none/x"] {
            assert!(read(folder.path(), path, 10, &[]).is_err(), "{path}");
        }
        for path in ["way/new", "way/secret", "file", "folder", "file/x"] {
            assert!(write(folder.path(), path, b"x", &[]).is_err(), "{path}");
        }
        let text = fs::read_to_string(outside.path().join("secret")).unwrap();
        assert_eq!(text, "secret");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }
}
