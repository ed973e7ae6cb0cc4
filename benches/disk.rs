//! What the disk and the kernel can do at best: the floors that everything else is compared with.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::mem::MaybeUninit;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tempfile::TempDir;

/// Longer than anything here takes; a wait that long has failed.
const PATIENCE: Timespec = Timespec {
    tv_sec: 30,
    tv_nsec: 0,
};

/// Makes a folder on the disk that the program was built on, as `init --top-level` does: it lies within a git project.
pub fn folder() -> TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let marker = folder.path().join(".plan-agent/layout");
    fs::create_dir(marker.parent().unwrap()).unwrap();
    fs::write(marker, "top-level\n").unwrap();
    folder
}

/// Waits for files that are renamed into a folder.
pub struct Arrivals {
    inotify: OwnedFd,
    buffer: Box<[MaybeUninit<u8>]>,
    heard: VecDeque<String>,
}

impl Arrivals {
    pub fn of(folder: &Path) -> Self {
        let inotify = inotify::init(CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&inotify, folder, WatchFlags::MOVED_TO).unwrap();
        Self {
            inotify,
            buffer: vec![MaybeUninit::uninit(); 4096].into(),
            heard: VecDeque::new(),
        }
    }

    /// Blocks until the next file is there and returns its name; `None` if it does not come.
    pub fn next(&mut self) -> Option<String> {
        if self.heard.is_empty() {
            let mut watched = [PollFd::new(&self.inotify, PollFlags::IN)];
            if poll(&mut watched, Some(&PATIENCE)).unwrap() == 0 {
                return None;
            }
            let mut reader = inotify::Reader::new(&self.inotify, &mut self.buffer);
            loop {
                let event = reader.next().unwrap();
                // Without a name the folder is gone.
                let name = event.file_name()?.to_str().unwrap();
                self.heard.push_back(name.to_owned());
                if reader.is_buffer_empty() {
                    break;
                }
            }
        }
        self.heard.pop_front()
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

/// How the floor makes its record durable.
#[derive(Clone, Copy)]
pub enum Flush {
    /// A bare file: append, fdatasync.
    Append,
    /// A table of one column in SQLite: one row, `synchronous=FULL`, as the store has it.
    Sqlite,
}

/// A table that grows by a row and a commit at a time.
struct Table(rusqlite::Connection);

impl Table {
    fn open(path: &Path) -> Self {
        let connection = rusqlite::Connection::open(path).unwrap();
        connection
            .execute_batch(
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE journal (record TEXT NOT NULL)",
            )
            .unwrap();
        Self(connection)
    }

    fn append(&mut self, record: &str) {
        self.0
            .prepare_cached("INSERT INTO journal (record) VALUES ($1)")
            .unwrap()
            .execute([record])
            .unwrap();
    }
}

/// The least that anything must do between a report and the next command: be woken, read the file, flush one record,
/// rename a file into place.
pub struct Floor {
    folder: TempDir,
    commands: Arrivals,
}

impl Floor {
    pub fn start(flush: Flush) -> Self {
        let folder = folder();
        let path = folder.path().to_owned();
        for name in ["in", "out", "temp"] {
            fs::create_dir(path.join(name)).unwrap();
        }
        let mut reports = Arrivals::of(&path.join("in"));
        let commands = Arrivals::of(&path.join("out"));
        // Ends with the process.
        thread::spawn(move || {
            let mut journal = Journal::open(&path.join("journal"));
            let mut table = Table::open(&path.join("journal.db"));
            while let Some(name) = reports.next() {
                let text = fs::read_to_string(path.join("in").join(&name)).unwrap();
                match flush {
                    Flush::Append => journal.append(text.as_bytes()),
                    Flush::Sqlite => table.append(&text),
                }
                fs::write(path.join("temp/command"), &text).unwrap();
                fs::rename(path.join("temp/command"), path.join("out").join(name)).unwrap();
            }
        });
        Self { folder, commands }
    }

    /// Reports once and returns how long the answer took.
    pub fn step(&mut self, report: &str, number: usize) -> Duration {
        let path = |name: &str| self.folder.path().join(name);
        fs::write(path("temp/report"), report).unwrap();
        thread::sleep(super::latency::WORK);
        let begun = Instant::now();
        fs::rename(path("temp/report"), path("in").join(number.to_string())).unwrap();
        self.commands.next().unwrap();
        begun.elapsed()
    }
}
