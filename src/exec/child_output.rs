//! Files for a child's output. The lock on the file of its standard error shows whether any process of its tree still runs: all
//! of them inherit the same open file, and the kernel releases the lock with the last of them, whatever happens to the process
//! that took it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use tokio::time::sleep;

use crate::own_files;

/// How often the lengths of a child's output are read.
const LENGTH_LOOK: Duration = Duration::from_millis(200);
/// How long a child that prints without end gets to stop.
const FLOODED_GRACE: Duration = Duration::from_secs(1);

/// The two files of a child's output; writes append to them.
#[derive(Debug)]
pub struct ChildOutput {
    pub(super) out: File,
    pub(super) err: File,
}

impl ChildOutput {
    /// Opens the files, creates them if they are missing, and locks the file of the standard error. `None` if that lock is
    /// held: a process that was started with the file still runs.
    ///
    /// # Errors
    /// The error of the file system for one of the two files.
    pub fn open(out: &Path, err: &Path) -> io::Result<Option<Self>> {
        let named = |path: &Path, error: io::Error| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            io::Error::new(error.kind(), format!("`{name}`: {error}"))
        };
        let open = |path| open(path).map_err(|error| named(path, error));
        let (out, err) = (open(out)?, open(err)?);
        Ok(own_files::lock(&err)?.then_some(Self { out, err }))
    }

    /// Opens one file for both outputs and locks it. `None` if the lock is held, as for [`Self::open`].
    ///
    /// # Errors
    /// The error of the file system.
    pub fn at(path: &Path) -> io::Result<Option<Self>> {
        let out = open(path)?;
        let err = out.try_clone()?;
        Ok(own_files::lock(&out)?.then_some(Self { out, err }))
    }

    /// Opens the files for reading only, while another process writes them.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn watch(out: &Path, err: &Path) -> io::Result<Self> {
        let (out, err) = (open_to_read(out)?, open_to_read(err)?);
        Ok(Self { out, err })
    }

    /// Creates one unnamed file for both outputs.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn nameless() -> io::Result<Self> {
        let out = tempfile::tempfile()?;
        rustix::fs::fcntl_setfl(&out, rustix::fs::OFlags::APPEND)?;
        let err = out.try_clone()?;
        Ok(Self { out, err })
    }

    /// Creates two unnamed files, one for each output.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn nameless_apart() -> io::Result<Self> {
        let (out, err) = (Self::nameless()?.out, Self::nameless()?.err);
        Ok(Self { out, err })
    }

    /// Creates an unnamed file for the standard output, and empties and locks a file for the standard error. `None` if that
    /// lock is held, as for [`Self::open`].
    ///
    /// # Errors
    /// The error of the file system.
    pub fn locked_by(path: &Path) -> io::Result<Option<Self>> {
        let Some(locked) = Self::at(path)? else {
            return Ok(None);
        };
        locked.err.set_len(0)?;
        let (out, err) = (Self::nameless()?.out, locked.err);
        Ok(Some(Self { out, err }))
    }

    /// Returns the lengths of the two files, to find later what was added.
    pub fn lengths(&self) -> [u64; 2] {
        [&self.out, &self.err].map(|file| file.metadata().map_or(0, |metadata| metadata.len()))
    }

    /// Waits until the process prints more than this, and returns how long it gets to stop then.
    pub async fn flooded(&self, most: u64) -> Duration {
        while self.lengths().iter().sum::<u64>() <= most {
            sleep(LENGTH_LOOK).await;
        }
        FLOODED_GRACE
    }

    /// Returns the end of what was added to the standard output after this length.
    pub fn out_since(&self, length: u64, cap: usize) -> String {
        tail(&self.out, length, cap)
    }

    /// Returns everything that was added to the standard output after this length.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn whole_out_since(&self, length: u64) -> io::Result<Vec<u8>> {
        let end = self.out.metadata()?.len();
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(length)).unwrap_or(0)];
        self.out.read_exact_at(&mut bytes, length)?;
        Ok(bytes)
    }

    /// Returns the end of what was added to the standard error after this length.
    pub fn err_since(&self, length: u64, cap: usize) -> String {
        tail(&self.err, length, cap)
    }

    /// Returns the beginning of what was added to the standard output after this length.
    pub fn head_since(&self, length: u64, cap: usize) -> String {
        let end = self.lengths()[0].min(length.saturating_add(cap as u64));
        String::from_utf8_lossy(&read(&self.out, length, end)).into_owned()
    }

    /// Cuts off what was added beyond a number of bytes after these lengths. Call it only when no process writes any more.
    pub fn cut(&self, lengths: [u64; 2], cap: u64) {
        for (file, from) in [&self.out, &self.err].into_iter().zip(lengths) {
            let most = from.saturating_add(cap);
            if let Err(error) = shorten(file, most, most) {
                tracing::warn!(%error, "what an agent printed takes more than it may");
            }
        }
    }

    /// Empties the file of the standard error if it is larger than a limit; writers continue at its end.
    pub fn forget_err(&self, most: u64) {
        if let Err(error) = shorten(&self.err, most, 0) {
            tracing::warn!(%error, "what a program complains of takes more than it may");
        }
    }

    /// Returns when a file was last written, by the file system's clock.
    pub fn last_written(&self) -> Option<SystemTime> {
        let written = |file: &File| file.metadata().and_then(|data| data.modified()).ok();
        written(&self.out).max(written(&self.err))
    }
}

/// Cuts a file that is longer than a limit.
fn shorten(file: &File, most: u64, to: u64) -> io::Result<()> {
    match file.metadata() {
        Ok(data) if data.len() > most => file.set_len(to),
        _ => Ok(()),
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    own_files::file(&mut options, path)
}

fn open_to_read(path: &Path) -> io::Result<File> {
    own_files::file(OpenOptions::new().read(true), path)
}

/// Returns whether a process still runs that was started with this file as its standard error.
pub fn alive(err: &Path) -> bool {
    open_to_read(err)
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Returns the end of a file; empty if the file does not exist.
pub fn tail_of(path: &Path, cap: usize) -> String {
    let file = open_to_read(path);
    file.map(|file| tail(&file, 0, cap)).unwrap_or_default()
}

/// Returns the length of a file and its bytes from a place on, at most `cap`; nothing if the file does not exist.
pub fn read_from(path: &Path, start: u64, cap: usize) -> (u64, Vec<u8>) {
    let Ok(file) = open_to_read(path) else {
        return (0, Vec::new());
    };
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let end = length.min(start.saturating_add(cap as u64));
    (length, read(&file, start, end))
}

/// Returns the last `cap` bytes of a file after its first `from` bytes, as text. Bytes that are not UTF-8 are replaced, and a
/// line that was cut at its beginning is left out.
fn tail(file: &File, from: u64, cap: usize) -> String {
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let start = from.max(length.saturating_sub(cap as u64));
    let bytes = read(file, start, length);
    let mut kept = bytes.as_slice();
    if start > from
        && let Some(end) = kept.iter().position(|byte| *byte == b'\n')
    {
        kept = &kept[end + 1..];
    }
    String::from_utf8_lossy(kept).into_owned()
}

/// Returns the bytes of a file between two places, as far as they exist.
fn read(file: &File, start: u64, end: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(end.saturating_sub(start)).unwrap_or(0)];
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], start + read as u64) {
            Ok(0) | Err(_) => break,
            Ok(count) => read += count,
        }
    }
    bytes.truncate(read);
    bytes
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};
    use std::{fs, thread};

    use super::*;

    #[test]
    fn tail_is_bounded_and_starts_at_line() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("out");
        fs::write(&path, "first\nsecond\nthird\n").unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!(tail(&file, 0, 1000), "first\nsecond\nthird\n");
        assert_eq!(tail(&file, 0, 9), "third\n");
        assert_eq!(tail(&file, 6, 1000), "second\nthird\n");
        assert_eq!(tail(&file, 100, 1000), "");
        assert_eq!(tail(&file, 0, 3), "");
    }

    #[test]
    fn output_lock_is_exclusive() {
        let root = tempfile::tempdir().unwrap();
        let (out, err) = (root.path().join("out"), root.path().join("err"));
        assert!(!alive(&err));
        let output = ChildOutput::open(&out, &err).unwrap();
        assert!(output.is_some() && alive(&err));
        assert!(ChildOutput::open(&out, &err).unwrap().is_none());
        drop(output);
        // A child that another test is forking has the file until it executes its program.
        let limit = Instant::now() + Duration::from_secs(30);
        while alive(&err) {
            assert!(Instant::now() < limit, "the lock is released");
            thread::yield_now();
        }
    }
}
