//! What a hostile file costs the daemon that finds it: a living daemon for each, in whose folder the file is put again and
//! again as the report that is waited for. Its memory is the growth of what is resident at most, its time that from the
//! rename to the answer, which holds a commit to the disk, and what its threads used of a processor.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::disk::{self, Arrivals};
use crate::files::{KINDS, Make, laborious, texts};
use crate::latency::program;
use crate::row;
use crate::table::{Times, ms, print};

/// How often each file is put there.
const RUNS: usize = 7;
/// How often a plain unreadable report comes before: first uses of code and memory are not the file's.
const WARM: usize = 3;
/// Files of the flood.
const FLOOD: usize = 20_000;

const MOST_TIME: Duration = Duration::from_millis(50);
const MOST_MEMORY: f64 = 16.0;

/// A report that cannot be read, and nothing else is wrong with it.
const PLAIN: &[u8] = b"It is done.\n";
/// A report that counts, and after which the task is tried again.
const COUNTS: &[u8] = b"---\nstatus: PARTIAL_SUCCESS\n---\n\n## Core results\n\nHalf of it.\n";

/// What one kind of file took.
struct Cost {
    /// From the rename to the answer.
    wall: Times,
    /// What the daemon's threads used of a processor.
    processor: Times,
    /// Growth of the resident memory at most, in MiB.
    memory: f64,
}

enum File<'a> {
    /// To be filed with a reason, which is the answer.
    Refused(&'a [u8]),
    /// As [`File::Refused`], and no plain file.
    Kind(Make),
    /// To count; the next command is the answer.
    Counts(&'a [u8]),
}

pub fn run() {
    let (texts, laborious) = (texts(), laborious());
    let mut files = vec![("plain unreadable report, to compare", File::Refused(PLAIN))];
    files.extend(
        texts
            .iter()
            .map(|(name, text)| (*name, File::Refused(text))),
    );
    files.extend(KINDS.map(|(name, make)| (name, File::Kind(make))));
    files.push(("plain report, to compare", File::Counts(COUNTS)));
    files.extend(
        laborious
            .iter()
            .map(|(name, text)| (*name, File::Counts(text))),
    );
    let mut rows = vec![row![
        "",
        "answer, p50",
        "worst",
        "processor, p50",
        "worst",
        "memory",
        "at most 50 ms, 16 MiB"
    ]];
    for (name, file) in &files {
        let Some(cost) = measure(file) else {
            rows.push(row![name, "skipped: it cannot be made here"]);
            continue;
        };
        rows.push(row![
            name,
            ms(cost.wall.p50()),
            ms(cost.wall.percentile(100)),
            ms(cost.processor.p50()),
            ms(cost.processor.percentile(100)),
            format!("{:.1} MiB", cost.memory),
            verdict(&cost)
        ]);
    }
    print(
        "hostile: one file as the report that is waited for, until it is answered",
        &rows,
    );
    flood();
}

/// Judges the time by the processor: the answer waits for the disk as well, and by design for files that may not be
/// finished.
fn verdict(cost: &Cost) -> &'static str {
    let quick = cost.processor.percentile(100) <= MOST_TIME;
    match (quick, cost.memory <= MOST_MEMORY) {
        (true, true) => "met",
        (false, true) => "time MISSED",
        (true, false) => "memory MISSED",
        (false, false) => "both MISSED",
    }
}

fn measure(file: &File<'_>) -> Option<Cost> {
    let mut daemon = Daemon::start(WARM + RUNS);
    let mut cost = Vec::new();
    for number in 0..WARM + RUNS {
        let warm = match file {
            File::Counts(_) => File::Counts(COUNTS),
            File::Refused(_) | File::Kind(_) => File::Refused(PLAIN),
        };
        if number < WARM {
            daemon.answer(number, &warm)?;
        } else {
            cost.push(daemon.answer(number, file)?);
        }
    }
    Some(Cost {
        wall: Times::new(cost.iter().map(|(wall, ..)| *wall).collect()),
        processor: Times::new(cost.iter().map(|(_, processor, _)| *processor).collect()),
        memory: cost.iter().map(|(.., memory)| *memory).fold(0.0, f64::max),
    })
}

fn flood() {
    let daemon = Daemon::start(1);
    let aside = daemon.path("aside");
    fs::create_dir(&aside).unwrap();
    for number in 0..FLOOD {
        fs::write(aside.join(format!("report-task-flood-{number}.md")), PLAIN).unwrap();
    }
    let before = daemon.reset_peak();
    let begun = Instant::now();
    for number in 0..FLOOD {
        let name = format!("report-task-flood-{number}.md");
        fs::rename(
            aside.join(&name),
            daemon.path("reports/pending").join(&name),
        )
        .unwrap();
    }
    let there = begun.elapsed();
    let pending = daemon.path("reports/pending");
    while fs::read_dir(&pending).unwrap().count() > 1 {
        thread::sleep(Duration::from_millis(20));
    }
    let filed = begun.elapsed();
    let each = filed / u32::try_from(FLOOD).unwrap();
    print(
        "hostile: 20,000 files at once, each filed with a reason",
        &[
            row!["all of them are there after", ms(there)],
            row!["all of them are filed after", ms(filed)],
            row!["one file", ms(each)],
            row!["memory", format!("{:.1} MiB", daemon.peak() - before)],
        ],
    );
}

/// A daemon with many tasks at once, all of whose commands have been issued.
struct Daemon {
    folder: TempDir,
    child: Child,
    commands: Vec<String>,
    issued: Arrivals,
    rejected: Arrivals,
    secret: PathBuf,
}

impl Daemon {
    fn start(tasks: usize) -> Self {
        let folder = disk::folder();
        let path = folder.path();
        let tasks_text: String = (1..=tasks)
            .map(|n| format!("\n## Task {n}\n\nDo it.\n"))
            .collect();
        fs::write(
            path.join("plan.md"),
            format!("---\nname: Bench\ngoal: Survive\n---\n{tasks_text}"),
        )
        .unwrap();
        fs::write(path.join("config.toml"), "run.max_parallel = 100\n").unwrap();
        let secret = path.join("secret");
        fs::write(&secret, "secret").unwrap();
        let [mut issued, rejected] = ["commands/pending", "reports/rejected"].map(|name| {
            let folder = path.join("volumes").join(name);
            fs::create_dir_all(&folder).unwrap();
            Arrivals::of(&folder)
        });
        let child = program(path, &["run", "--plan", "plan.md", "--no-input"])
            .spawn()
            .unwrap();
        let mut commands: Vec<String> = (0..tasks)
            .map(|_| issued.next().expect("a command is missing"))
            .collect();
        commands.sort();
        Self {
            folder,
            child,
            commands,
            issued,
            rejected,
            secret,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("volumes").join(name)
    }

    /// Puts a file there as the report of one command, and returns what it took until the daemon has answered; `None` if it
    /// cannot be made.
    fn answer(&mut self, number: usize, file: &File<'_>) -> Option<(Duration, Duration, f64)> {
        let name = format!("report-{}", self.commands[number]);
        let aside = self.path("reports/.tmp").join(&name);
        match file {
            File::Refused(text) | File::Counts(text) => fs::write(&aside, text).unwrap(),
            File::Kind(make) => make(&aside, &self.secret).ok()?,
        }
        let resident = self.reset_peak();
        let used = self.processor();
        let begun = Instant::now();
        fs::rename(&aside, self.path("reports/pending").join(&name)).unwrap();
        match file {
            File::Counts(_) => drop(self.issued.next().expect("no next command came")),
            // The reason comes first.
            _ => while self.rejected.next().expect("it is not filed") != name {},
        }
        let wall = begun.elapsed();
        // MISSION.md and the like follow within a quarter of a second.
        thread::sleep(Duration::from_millis(300));
        let processor = self.processor() - used;
        Some((wall, processor, self.peak() - resident))
    }

    /// Forgets the peak of the resident memory, and returns what is resident now, in MiB.
    fn reset_peak(&self) -> f64 {
        fs::write(self.process().join("clear_refs"), "5").unwrap();
        self.peak()
    }

    fn peak(&self) -> f64 {
        let status = fs::read_to_string(self.process().join("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes: f64 = line
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap();
        kilobytes / 1024.0
    }

    /// Returns what the threads of the daemon have used of a processor.
    fn processor(&self) -> Duration {
        let threads = fs::read_dir(self.process().join("task")).unwrap();
        let used = |thread: PathBuf| -> Option<u64> {
            // A thread may end meanwhile.
            let text = fs::read_to_string(thread.join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse().ok()
        };
        let sum = threads.filter_map(|thread| used(thread.ok()?.path())).sum();
        Duration::from_nanos(sum)
    }

    fn process(&self) -> PathBuf {
        Path::new("/proc").join(self.child.id().to_string())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
