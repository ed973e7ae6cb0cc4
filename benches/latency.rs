//! From a report that is renamed into place to the next command in its folder, with the real program and an agent that
//! knows nothing but the files; and the floor of the same disk, in turns.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::disk::{self, Arrivals, Floor};
use crate::table::{Times, against, ms, print, ratio};
use crate::{row, sample};

/// How long an agent takes for a task: long enough for the daemon to be at rest again.
pub const WORK: Duration = Duration::from_millis(25);

/// Steps of each kind, in turns: the load of the machine falls on all alike.
const STEPS: usize = 200;

pub fn run() {
    let report = sample::report();
    let mut floor = Floor::start();
    let mut small = Daemon::start(STEPS + 1);
    let mut large = Daemon::start(4_000);
    let mut times = [const { Vec::new() }; 3];
    for number in 0..STEPS {
        times[0].push(floor.step(&report, number));
        times[1].push(small.step(&report));
        times[2].push(large.step(&report));
    }
    let [floor, small, large] = times.map(Times::new);
    let mut rows = vec![row!["", "p50", "p99", "p50 / floor"]];
    rows.push(row![
        "floor: wake, read, append + fdatasync, rename",
        ms(floor.p50()),
        ms(floor.p99()),
        "1.00"
    ]);
    for (name, times) in [
        ("a plan of 201 tasks", small),
        ("a plan of 4,000 tasks", large),
    ] {
        let ratio = against(ratio(times.p50(), floor.p50()), 2.0);
        rows.push(row![name, ms(times.p50()), ms(times.p99()), ratio]);
    }
    print(
        "latency: report renamed into place → next command in commands/pending",
        &rows,
    );
}

/// The program while it carries a plan out.
pub struct Daemon {
    pub folder: TempDir,
    pub child: Child,
    commands: Arrivals,
    /// The command that waits to be taken.
    command: String,
    /// From the start of the program to its first command.
    pub ready: Duration,
}

impl Daemon {
    pub fn start(tasks: usize) -> Self {
        let folder = disk::folder();
        fs::write(folder.path().join("plan.md"), sample::plan_file(tasks)).unwrap();
        let pending = folder.path().join("volumes/commands/pending");
        fs::create_dir_all(&pending).unwrap();
        let mut commands = Arrivals::of(&pending);
        let begun = Instant::now();
        let child = program(folder.path(), &["run", "--plan", "plan.md", "--no-input"])
            .spawn()
            .unwrap();
        let command = commands.next().expect("no first command came");
        let ready = begun.elapsed();
        Self {
            folder,
            child,
            commands,
            command,
            ready,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("volumes").join(name)
    }

    /// Takes the command that waits, works, reports, and returns how long the next one took to come.
    fn step(&mut self, report: &str) -> Duration {
        let pending = self.path("commands/pending").join(&self.command);
        fs::rename(pending, self.path("commands/processed").join(&self.command)).unwrap();
        let temp = self.path("report.tmp");
        fs::write(&temp, report).unwrap();
        thread::sleep(WORK);
        let place = self
            .path("reports/pending")
            .join(format!("report-{}", self.command));
        let begun = Instant::now();
        fs::rename(temp, place).unwrap();
        // Commands that only end a session come in between.
        loop {
            self.command = self.commands.next().expect("no next command came");
            let took = begun.elapsed();
            let text =
                fs::read_to_string(self.path("commands/pending").join(&self.command)).unwrap();
            if !text.contains("command_type: end") {
                return took;
            }
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Returns the program, to be run quietly in a folder with nothing in its environment.
pub fn program(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plan-agent"));
    command
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}
