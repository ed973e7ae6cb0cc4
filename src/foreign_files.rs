//! How files are read that any process may have put there: the functions follow no link, never wait for the other end of a
//! pipe, and read only plain files up to a limit. Reading blocks: it belongs on a thread for blocking work.

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::own_files;

/// The most bytes of a git file that contains a path.
const LINK: u64 = 8 * 1024;

/// Opens a file for reading, whatever kind it is; the caller checks the metadata of the opened file before it reads.
///
/// # Errors
/// It is a link, or an error of the file system.
pub fn open_unblocked(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

/// Opens a plain file for reading.
///
/// # Errors
/// It is anything else, or an error of the file system.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let (file, metadata) = open_unblocked(path)?;
    match metadata.is_file() {
        true => Ok(file),
        false => Err(own_files::refused("it is not a regular file")),
    }
}

/// Returns the beginning of a plain file: at most `most` bytes.
///
/// # Errors
/// As [`open_plain`].
pub fn read_beginning(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_plain(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the path that a file of git contains after some word.
///
/// # Errors
/// As [`open_plain`]; it contains no path.
pub fn git_link(file: &Path, before: &str) -> io::Result<PathBuf> {
    let bytes = read_beginning(file, LINK)?;
    let line = bytes.split(|byte| *byte == b'\n').next();
    let path = line.and_then(|line| line.strip_prefix(before.as_bytes()));
    let path = path.map(<[u8]>::trim_ascii).filter(|path| !path.is_empty());
    let path =
        path.ok_or_else(|| own_files::refused(&format!("`{}` names no folder", file.display())))?;
    let folder = file.parent().unwrap_or(Path::new("."));
    Ok(folder.join(OsStr::from_bytes(path)))
}

/// Replaces a file in one step, unless it is a plain file with exactly this text: a process that does the same in the meantime
/// writes the same.
///
/// # Errors
/// An error of the file system.
pub fn keep_as(path: &Path, text: &[u8]) -> io::Result<()> {
    if read_beginning(path, text.len() as u64 + 1).is_ok_and(|there| there == text) {
        return Ok(());
    }
    own_files::replace(path, text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn reads_beginning_of_plain_files_only() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::write(path("plain"), "12345").unwrap();
        symlink("plain", path("link")).unwrap();
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        for (most, text) in [(9, "12345"), (3, "123"), (0, "")] {
            assert_eq!(
                read_beginning(&path("plain"), most).unwrap(),
                text.as_bytes()
            );
        }
        for name in ["link", "pipe", ".", "none"] {
            assert!(read_beginning(&path(name), 9).is_err(), "{name}");
        }
    }

    #[test]
    fn file_is_rewritten_only_when_changed() {
        let root = tempfile::tempdir().unwrap();
        let (path, other) = (root.path().join("file"), root.path().join("other"));
        fs::write(&other, "other").unwrap();
        symlink(&other, &path).unwrap();
        for _ in 0..2 {
            keep_as(&path, b"text").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"text");
        }
        assert_eq!(fs::read(other).unwrap(), b"other");
        keep_as(&path, b"tex").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"tex");
    }
}
