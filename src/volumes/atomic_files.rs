//! How single files are written, moved and read: as a whole or not at all, and never over another file. Of other writers' files
//! only plain files are opened.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use tempfile::TempPath;

pub(super) use crate::foreign_files::open_unblocked as open_regular;
use crate::own_files::{self, remove_if_there};

/// The most bytes of an archived file's name: with `.reason.md` added, it still fits into the 255 bytes of a file system.
const LONGEST_NAME: usize = 245;
/// A longer extension counts as part of the stem, which can be cut.
const LONGEST_EXTENSION: usize = 32;

/// A failed operation on a file of the volumes.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} `{}`", path.display())]
pub struct VolumesError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl VolumesError {
    pub(crate) fn new(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// Refuses a name that nothing in the folders can have.
    pub(super) fn misnamed(action: &'static str, name: &str, reason: &str) -> Self {
        let source = io::Error::new(io::ErrorKind::InvalidInput, reason);
        Self::new(action, Path::new(name), source)
    }

    /// Returns the kind of the error, such as a full disk.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

/// The result of an operation on files of the volumes.
pub type Result<T, E = VolumesError> = std::result::Result<T, E>;

/// Says of an error what failed, and where.
pub(super) trait Cannot<T> {
    fn cannot(self, action: &'static str, path: &Path) -> Result<T>;
}

impl<T> Cannot<T> for io::Result<T> {
    fn cannot(self, action: &'static str, path: &Path) -> Result<T> {
        self.map_err(|error| VolumesError::new(action, path, error))
    }
}

/// Returns `None` instead of an error of a kind that is fine.
pub(super) fn unless<T>(fine: io::ErrorKind, result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(error) if error.kind() == fine => Ok(None),
        result => result.map(Some),
    }
}

/// Why a file that has several names is not read.
pub(super) const HARD_LINK: &str = "it has other hard links";

/// Returns why a file of this kind is not read, if it is not.
pub(super) fn foreign(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    let reasons = [
        (kind.is_dir(), "it is a directory"),
        (kind.is_symlink(), own_files::LINK),
        (kind.is_fifo(), "it is a named pipe"),
        (kind.is_socket(), "it is a socket"),
        (!kind.is_file(), "it is a device"),
        (metadata.nlink() > 1, HARD_LINK),
    ];
    let mut reasons = reasons.into_iter();
    reasons.find_map(|(is_so, reason)| is_so.then_some(reason))
}

/// Returns why a file of so many bytes is not read.
pub(super) fn too_large(bytes: u64) -> String {
    format!("it has {bytes} bytes; at most 1 MiB is read")
}

/// Opens a plain file for reading; anything else is an error that names what it is.
pub(super) fn open_own(path: &Path) -> io::Result<(File, Metadata)> {
    let (file, metadata) = open_regular(path)?;
    foreign(&metadata).map_or(Ok((file, metadata)), |reason| {
        Err(own_files::refused(reason))
    })
}

/// Reads a plain file of at most `cap` bytes; anything else is an error that names what it is.
pub(super) fn read_capped(path: &Path, cap: u64) -> io::Result<Vec<u8>> {
    let (file, metadata) = open_own(path)?;
    let mut bytes = Vec::new();
    file.take(cap + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > cap {
        let reason = too_large(metadata.len());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(bytes)
}

/// Reads a plain text file of at most `cap` bytes; bytes that are no text are replaced.
pub(super) fn read_text(path: &Path, cap: u64) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&read_capped(path, cap)?).into_owned())
}

/// Creates or replaces a file of this program in one step: the text is written to `temp`, which is on the same file system, and
/// then renamed. A temporary file that a crash left behind is replaced.
pub(super) fn replace(temp: &Path, path: &Path, text: &[u8], mode: u32) -> Result<()> {
    write_temp(temp, text, mode)?;
    fs::rename(temp, path).cannot("write", path)
}

/// Creates a new file in one step, unless one exists: the file of another process is as good.
pub(super) fn create_once(temp: &Path, path: &Path, text: &[u8], mode: u32) -> Result<()> {
    let created = Unpublished::write(temp, path, text, mode).and_then(Unpublished::publish);
    unless(io::ErrorKind::AlreadyExists, created).map(drop)
}

/// A complete file under a temporary name that is not in its place yet. It is removed if it is dropped without being published.
#[derive(Debug)]
pub struct Unpublished {
    temp: TempPath,
    pub(super) path: PathBuf,
}

impl Unpublished {
    pub(super) fn write(temp: &Path, path: &Path, text: &[u8], mode: u32) -> Result<Self> {
        write_temp(temp, text, mode)?;
        Ok(Self {
            temp: TempPath::try_from_path(temp).cannot("write", temp)?,
            path: path.to_owned(),
        })
    }

    pub(super) fn publish(self) -> Result<()> {
        move_new(&self.temp, &self.path).cannot("write", &self.path)?;
        drop(self.temp.keep());
        Ok(())
    }
}

fn write_temp(temp: &Path, text: &[u8], mode: u32) -> Result<()> {
    let create = || {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode).open(temp)
    };
    let created = match create() {
        // A crash left this file behind.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            remove_if_there(temp).and_then(|()| create())
        }
        created => created,
    };
    let written = created.and_then(|mut file| file.write_all(text));
    written.cannot("write", temp)
}

/// Returns whether anything exists at a path.
pub(super) fn exists(path: &Path) -> Result<bool> {
    let found = fs::symlink_metadata(path).cannot("look at", path);
    Ok(unless(io::ErrorKind::NotFound, found)?.is_some())
}

/// Renames a file, but never over another one: fails with `AlreadyExists` instead. Of two callers the second one fails with
/// `NotFound`.
pub(super) fn move_new(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some network file systems and foreign file systems do not support the flag.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        moved => Ok(moved?),
    }
}

/// Moves a file into a folder under its own name, or with `-2`, `-3` … before the extension if that name is taken. Returns its
/// new path.
pub(super) fn move_aside(from: &Path, folder: &Path) -> Result<PathBuf> {
    let name = from.file_name().unwrap_or(OsStr::new("unnamed"));
    move_aside_as(from, &folder.join(name))
}

/// As [`move_aside`], with another name.
pub(super) fn move_aside_as(from: &Path, place: &Path) -> Result<PathBuf> {
    let name = place.file_name().unwrap_or(OsStr::new("unnamed"));
    for count in 1_u32.. {
        let to = place.with_file_name(numbered(name, count));
        match move_new(from, &to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            moved => return moved.map(|()| to).cannot("move", from),
        }
    }
    unreachable!("a folder has fewer files than there are numbers")
}

/// Returns the `count`-th name for archiving a file of this name. The stem is cut where the name would be too long for a file
/// system, including what is added to it.
pub(super) fn numbered(name: &OsStr, count: u32) -> OsString {
    let (stem, extension) = match name.as_bytes().iter().rposition(|byte| *byte == b'.') {
        Some(dot) if dot > 0 && name.len() - dot <= LONGEST_EXTENSION => {
            name.as_bytes().split_at(dot)
        }
        _ => (name.as_bytes(), &b""[..]),
    };
    let number = match count {
        1 => String::new(),
        count => format!("-{count}"),
    };
    let ending = [number.as_bytes(), extension].concat();
    let room = LONGEST_NAME.saturating_sub(ending.len());
    let cut = match std::str::from_utf8(stem) {
        Ok(text) => &stem[..text.floor_char_boundary(room)],
        Err(_) => &stem[..stem.len().min(room)],
    };
    OsString::from_vec([cut, &ending].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn move_aside_never_overwrites() {
        let root = tempfile::tempdir().unwrap();
        let filed = root.path().join("filed");
        fs::create_dir(&filed).unwrap();
        for text in ["one", "two", "three"] {
            let from = root.path().join("report-a.md");
            fs::write(&from, text).unwrap();
            move_aside(&from, &filed).unwrap();
        }
        for (name, text) in [
            ("report-a.md", "one"),
            ("report-a-2.md", "two"),
            ("report-a-3.md", "three"),
        ] {
            assert_eq!(fs::read_to_string(filed.join(name)).unwrap(), text);
        }
    }

    #[test]
    fn long_name_is_cut_before_number_and_extension() {
        let (x, e) = ("x".repeat(300), "é".repeat(200));
        for (name, count, cut) in [
            ("report-a.md".to_owned(), 1, "report-a.md".to_owned()),
            ("report-a.md".to_owned(), 12, "report-a-12.md".to_owned()),
            (".md".to_owned(), 2, ".md-2".to_owned()),
            ("plain".to_owned(), 2, "plain-2".to_owned()),
            (format!("{}.md", &x[..242]), 1, format!("{}.md", &x[..242])),
            (format!("{}.md", &x[..243]), 1, format!("{}.md", &x[..242])),
            (
                format!("{}.md", &x[..242]),
                10,
                format!("{}-10.md", &x[..239]),
            ),
            (format!("r{e}.md"), 1, format!("r{}.md", &e[..240])),
            (format!(".{x}"), 1, format!(".{}", &x[..244])),
            (format!("a.{x}"), 1, format!("a.{}", &x[..243])),
        ] {
            let numbered = numbered(OsStr::new(&name), count);
            assert_eq!(numbered.to_str(), Some(cut.as_str()), "{name} {count}");
        }
    }

    #[test]
    fn create_writes_file_once_and_whole() {
        let root = tempfile::tempdir().unwrap();
        let (temp, path) = (root.path().join("temp"), root.path().join("file"));
        // A crash left half of it behind.
        fs::write(&temp, "hal").unwrap();
        let create = |text| Unpublished::write(&temp, &path, text, 0o644)?.publish();
        create(b"whole").unwrap();
        let again = create(b"other").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
        assert!(!temp.exists());
    }

    #[test]
    fn reads_only_plain_files_of_bounded_size() {
        let root = tempfile::tempdir().unwrap();
        let plain = root.path().join("plain");
        fs::write(&plain, "12345").unwrap();
        assert_eq!(read_capped(&plain, 5).unwrap(), b"12345");
        let too_large = read_capped(&plain, 4).unwrap_err().kind();
        assert_eq!(too_large, io::ErrorKind::FileTooLarge);
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&plain, &link).unwrap();
        assert!(read_capped(&link, 5).is_err());
        fs::hard_link(&plain, root.path().join("second")).unwrap();
        assert!(read_capped(&plain, 5).is_err());
        assert!(read_capped(root.path(), 5).is_err());
    }
}
