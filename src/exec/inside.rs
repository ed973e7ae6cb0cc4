//! Files within a folder, reached without following any link: what lies in a workspace was made by strangers, and may be
//! exchanged while it is looked at.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Reads the beginning of a regular file, and returns how long the whole of it is. `path` is one that
/// [`within_workspace`](crate::plan::within_workspace) has let through.
///
/// # Errors
/// It is not there, is or goes through a link, is no regular file, or cannot be read.
pub fn read(folder: &Path, path: &str, most: usize) -> io::Result<(Vec<u8>, u64)> {
    let (place, name) = walk(folder, path, false)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file: File = rustix::fs::openat(&place, name, flags, Mode::empty())
        .map_err(told)?
        .into();
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most.try_into().unwrap_or(u64::MAX))
        .read_to_end(&mut bytes)?;
    Ok((bytes, metadata.len()))
}

/// Writes a file, whole or not at all, in the place of one that is there; folders on the way are made.
///
/// # Errors
/// The way goes through a link, or is no folder; the place is taken by something else than a regular file; or it cannot be
/// written.
pub fn write(folder: &Path, path: &str, bytes: &[u8]) -> io::Result<()> {
    let (place, name) = walk(folder, path, true)?;
    let mut mode = Mode::from_raw_mode(0o666);
    match rustix::fs::statat(&place, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() => {
            mode = Mode::from_raw_mode(stat.st_mode & 0o777);
        }
        Ok(_) => return Err(io::Error::other("something else than a file is there")),
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let temp = format!(".{}.tmp", uuid::Uuid::new_v4());
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

/// Opens the folder that a path leads to, and returns the name that is left.
fn walk<'a>(folder: &Path, path: &'a str, make: bool) -> io::Result<(OwnedFd, &'a str)> {
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
        place = rustix::fs::openat(&place, part, FOLDER, Mode::empty()).map_err(told)?;
    }
    Ok((place, name))
}

/// Says what is wrong where the system has a word for something else.
fn told(error: Errno) -> io::Error {
    match error {
        Errno::LOOP => io::Error::other("it is a link, or goes through one"),
        // A link that is to be a folder is told so.
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
    fn what_is_written_is_read_and_folders_are_made() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a/b/c.txt", b"one").unwrap();
        write(folder.path(), "a/b/c.txt", b"three").unwrap();
        assert_eq!(
            read(folder.path(), "a/b/c.txt", 3).unwrap(),
            (b"thr".to_vec(), 5)
        );
        let names = fs::read_dir(folder.path().join("a/b")).unwrap().count();
        assert_eq!(names, 1, "something is left behind");
    }

    #[test]
    fn a_file_keeps_its_rights() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("run.sh");
        fs::write(&script, "old").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).unwrap();
        write(folder.path(), "run.sh", b"new").unwrap();
        let mode = fs::metadata(&script).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o750);
    }

    #[test]
    fn no_link_is_followed_and_nothing_but_files_is_touched() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret"), "secret").unwrap();
        symlink(outside.path(), folder.path().join("way")).unwrap();
        symlink(outside.path().join("secret"), folder.path().join("file")).unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        for path in ["way/secret", "file", "folder", "none", "none/x"] {
            assert!(read(folder.path(), path, 10).is_err(), "{path}");
        }
        for path in ["way/new", "way/secret", "file", "folder", "file/x"] {
            assert!(write(folder.path(), path, b"x").is_err(), "{path}");
        }
        assert_eq!(
            fs::read_to_string(outside.path().join("secret")).unwrap(),
            "secret"
        );
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }
}
