//! A small file system that a test can fill.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::env::skip;

/// A file system of its own in memory; it ends when it is dropped.
pub struct SmallDisk(TempDir);

impl SmallDisk {
    /// Makes one with these options of `mount`; `None` where only root can do that.
    pub fn mount(options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "plan-agent-test"])
            .arg(folder.path())
            .stderr(Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(folder));
        }
        skip("a full disk: only root can mount a small one");
        None
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills it to the last byte.
    pub fn fill(&self) {
        let mut file = File::create(self.filler()).unwrap();
        // Ends when the disk is full.
        io::copy(&mut io::repeat(b'x'), &mut file).unwrap_err();
    }

    /// Gives the room back.
    pub fn make_room(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The rest is an empty folder that the next boot of the machine removes.
        drop(Command::new("umount").arg("-l").arg(self.path()).status());
    }
}
