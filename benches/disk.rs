//! What the disk and the kernel can do at best: the floors that everything else is compared with.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::mem::MaybeUninit;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tempfile::TempDir;

/// Makes a folder on the disk that the program was built on.
pub fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Waits for files that are renamed into a folder.
pub struct Arrivals {
    inotify: OwnedFd,
    buffer: Box<[MaybeUninit<u8>]>,
}

impl Arrivals {
    pub fn of(folder: &Path) -> Self {
        let inotify = inotify::init(CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&inotify, folder, WatchFlags::MOVED_TO).unwrap();
        let buffer = vec![MaybeUninit::uninit(); 4096].into();
        Self { inotify, buffer }
    }

    /// Blocks until the next file is there and returns its name.
    pub fn next(&mut self) -> String {
        let mut reader = inotify::Reader::new(&self.inotify, &mut self.buffer);
        let event = reader.next().unwrap();
        event.file_name().unwrap().to_str().unwrap().to_owned()
    }
}

/// A file that grows by a record and a flush at a time.
pub struct Journal(File);

impl Journal {
    pub fn open(path: &Path) -> Self {
        Self(
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .unwrap(),
        )
    }

    pub fn append(&mut self, record: &[u8]) {
        self.0.write_all(record).unwrap();
        self.0.sync_data().unwrap();
    }
}

/// The least that anything must do between a report and the next command: be woken, read the file, flush one record,
/// rename a file into place. Returns the times that whoever renamed the report saw.
pub fn step_floor(rounds: usize, report: &str) -> Vec<Duration> {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    for name in ["in", "out", "temp"] {
        fs::create_dir(path(name)).unwrap();
    }
    let (mut reports, mut commands) = (Arrivals::of(&path("in")), Arrivals::of(&path("out")));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut journal = Journal::open(&path("journal"));
            for _ in 0..rounds {
                let name = reports.next();
                let text = fs::read(path("in").join(&name)).unwrap();
                journal.append(&text);
                fs::write(path("temp/command"), &text).unwrap();
                fs::rename(path("temp/command"), path("out").join(name)).unwrap();
            }
        });
        let round = |number| {
            fs::write(path("temp/report"), report).unwrap();
            thread::sleep(super::latency::WORK);
            let begun = Instant::now();
            fs::rename(path("temp/report"), path("in").join(format!("{number}"))).unwrap();
            commands.next();
            begun.elapsed()
        };
        (0..rounds).map(round).collect()
    })
}
