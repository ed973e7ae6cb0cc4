//! How the program opens its own files in folders where others can write: never through a link, never under a second name, and
//! only plain files. Otherwise another user could make the program write into a file of theirs, or wait for ever.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, statvfs};
use rustix::io::Errno;
use rustix::process::geteuid;

/// What a full disk may still have: programs remove again what they could write only in part.
const LITTLE: u64 = 1024 * 1024;

/// Why a link is not opened.
pub const LINK: &str = "it is a symbolic link, and links are not followed";

/// What a person does about something in the exchange folder that does not belong there, such as a link.
pub const WAY_OUT: &str = "remove it, or name another folder in config.toml: [volumes] root";
/// Why a pipe, a device or a folder is not opened.
pub const NOT_PLAIN: &str = "it is no plain file";

/// Opens a plain file, or creates it if the options say so. The file is not changed before its kind is known, so the options
/// must not truncate it.
///
/// # Errors
/// `InvalidData` with the reason for a link, a file with a second name or no plain file; otherwise the error of the system.
pub fn file(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // Without these flags a pipe would wait for its other end, and a terminal would become the program's controlling terminal.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = options.custom_flags(flags.bits().cast_signed()).open(path);
    let file = opened.map_err(in_words)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(refused(NOT_PLAIN));
    }
    if metadata.nlink() > 1 {
        return Err(refused("it has other hard links"));
    }
    // The file may become the output of a child process, which does not expect this flag.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Opens a file of its own to add to it, or creates it for the person alone.
///
/// # Errors
/// As [`file()`].
pub fn to_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    file(options.append(true).create(true).mode(0o600), path)
}

/// Device and number of a file: they show whether another file has its name now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId(u64, u64);

impl From<&Metadata> for FileId {
    fn from(file: &Metadata) -> Self {
        Self(file.dev(), file.ino())
    }
}

/// The place of a file that is in use, to check whether it is still the one that is there.
#[derive(Clone, Debug)]
pub struct FilePlace {
    path: PathBuf,
    id: FileId,
}

impl FilePlace {
    /// Notes where a file is that was opened there.
    pub fn new(path: PathBuf, file: &Metadata) -> Self {
        let id = file.into();
        Self { path, id }
    }

    /// Notes which file has a path.
    ///
    /// # Errors
    /// None has it, or an error of the system.
    pub fn of(path: PathBuf) -> io::Result<Self> {
        let id = id(&path)?;
        Ok(Self { path, id })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file was removed or replaced. If it cannot be checked, it counts as present.
    pub fn is_lost(&self) -> bool {
        match id(&self.path) {
            Ok(there) => there != self.id,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Returns whether another file is there.
    pub fn is_replaced(&self) -> bool {
        id(&self.path).is_ok_and(|there| there != self.id)
    }
}

/// Returns whether a file belongs to the user of this process.
pub fn is_mine(file: &Metadata) -> bool {
    file.uid() == geteuid().as_raw()
}

/// Returns which file has a name; a link is a file of its own.
///
/// # Errors
/// None has it, or an error of the system.
pub fn id(path: &Path) -> io::Result<FileId> {
    path.symlink_metadata().map(|file| FileId::from(&file))
}

/// Returns whether an open file still has its name.
pub fn is_at(opened: &File, path: &Path) -> bool {
    let opened = opened.metadata().map(|file| FileId::from(&file));
    opened.is_ok_and(|opened| id(path).is_ok_and(|there| there == opened))
}

/// Locks a file, and returns whether it is locked now: another process may hold the lock.
///
/// # Errors
/// The error of the system.
pub fn lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Opens a folder that is not a link.
///
/// # Errors
/// It is something else, or an error of the system.
pub fn folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::DIRECTORY;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

/// Makes a folder, and those that it lies in, that only its owner can enter.
///
/// # Errors
/// The error of the system, with the folder.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let mut private = DirBuilder::new();
    let made = private.recursive(true).mode(0o700).create(path);
    made.map_err(|error| {
        let said = format!("the folder `{}` cannot be made: {error}", path.display());
        io::Error::new(error.kind(), said)
    })
}

/// Returns whether the disk of a path has no space left.
pub fn is_disk_full(path: &Path) -> bool {
    statvfs(path).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < LITTLE)
}

/// Replaces a file in one step, with one that only its owner can read: a crash leaves what was there before, or this.
///
/// # Errors
/// The error of the system.
pub fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut temp = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    temp.write_all(text)?;
    temp.persist(path)?;
    Ok(())
}

/// Removes a file; a missing one is fine.
///
/// # Errors
/// The error of the system.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the reason in words where the system only has a number for it.
fn in_words(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => refused(LINK),
        Some(Errno::NXIO | Errno::ISDIR) => refused(NOT_PLAIN),
        _ => error,
    }
}

/// Returns the error for a path that is not opened, independent of the system.
pub fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn opens_only_plain_files() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let open = |name: &str| {
            let mut options = OpenOptions::new();
            file(options.append(true).create(true).mode(0o600), &path(name))
        };
        let made = open("made").unwrap();
        assert!(!fcntl_getfl(&made).unwrap().contains(OFlags::NONBLOCK));
        for name in ["target", "twice"] {
            fs::write(path(name), "theirs").unwrap();
        }
        symlink("target", path("link")).unwrap();
        symlink("none", path("dangling")).unwrap();
        fs::hard_link(path("twice"), path("second")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), fifo, mode, 0).unwrap();
        for (name, said) in [
            ("link", LINK),
            ("dangling", LINK),
            ("second", "it has other hard links"),
            ("folder", NOT_PLAIN),
            ("socket", NOT_PLAIN),
            ("pipe", NOT_PLAIN),
        ] {
            assert_eq!(open(name).unwrap_err().to_string(), said, "{name}");
        }
        assert!(!path("none").exists());
        let mut reading = OpenOptions::new();
        let pipe = file(reading.read(true), &path("pipe")).unwrap_err();
        assert_eq!(pipe.to_string(), NOT_PLAIN);
        assert!(folder(&path("folder")).is_ok());
        symlink("folder", path("way")).unwrap();
        for name in ["way", "made", "pipe"] {
            assert!(folder(&path(name)).is_err(), "{name}");
        }
    }
}
