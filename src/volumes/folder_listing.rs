//! The names in a folder that is listed repeatedly.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Dir, Mode, OFlags};

/// A folder that is listed repeatedly. It stays open: opening it is an event that wakes the processes that watch it.
#[derive(Debug, Default)]
pub(super) struct FolderListing(Option<Dir>);

impl FolderListing {
    /// Returns the names that are text, with their inodes; empty if the folder does not exist.
    pub(super) fn names(&mut self, path: &Path) -> io::Result<Vec<(String, u64)>> {
        let Some(folder) = self.open(path)? else {
            return Ok(Vec::new());
        };
        folder.rewind();
        let mut names = Vec::new();
        for entry in folder {
            let entry = entry?;
            // A name that is not text cannot be that of a report.
            if let Ok(name) = entry.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                names.push((name.to_owned(), entry.ino()));
            }
        }
        Ok(names)
    }

    /// Returns the folder that exists now, which may be another one than before.
    fn open(&mut self, path: &Path) -> io::Result<Option<&mut Dir>> {
        let now = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.0 = None;
                return Ok(None);
            }
            now => now?,
        };
        let same = |folder: &Dir| {
            folder
                .stat()
                .is_ok_and(|then| (then.st_dev, then.st_ino) == (now.dev(), now.ino()))
        };
        if !self.0.as_ref().is_some_and(same) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            self.0 = Some(Dir::new(rustix::fs::open(path, flags, Mode::empty())?)?);
        }
        Ok(self.0.as_mut())
    }
}
