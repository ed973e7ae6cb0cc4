//! From a report that is renamed into place to the next command in its folder, with the real program and an agent that
//! knows nothing but the files; and the floor of the same disk, in turns.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::disk::{self, Arrivals, Floor, Flush};
use crate::table::{Times, against, ms, print, ratio};
use crate::{row, sample};

/// How long an agent takes for a task: long enough for the daemon to be at rest again.
pub const WORK: Duration = Duration::from_millis(25);

/// Steps of each kind, in turns: the load of the machine falls on all alike.
const STEPS: usize = 150;

pub fn run() {
    let report = sample::report();
    let mut append = Floor::start(Flush::Append);
    let mut commit = Floor::start(Flush::Sqlite);
    let mut small = Daemon::start(STEPS + 1);
    let mut large = Daemon::start(4_000);
    let mut loud = Daemon::start(STEPS + 1);
    let stream = stream();
    let mut times = [const { Vec::new() }; 5];
    for number in 0..STEPS {
        times[0].push(append.step(&report, number));
        times[1].push(commit.step(&report, number));
        times[2].push(small.step(&report, ""));
        times[3].push(large.step(&report, ""));
        times[4].push(loud.step(&report, &stream));
    }
    let times = times.map(Times::new);
    let floors = [times[0].p50(), times[1].p50()];
    let mut rows = vec![row!["", "p50", "p99", "p50 / append", "p50 / commit"]];
    for (name, times) in [
        "floor: wake, read, append + fdatasync, rename",
        "floor: wake, read, SQLite commit of one row, rename",
        "plan-agent, a plan of 151 tasks",
        "plan-agent, a plan of 4,000 tasks",
        &format!(
            "plan-agent, 151 tasks, the agent prints {} kB",
            stream.len() / 1_000
        ),
    ]
    .into_iter()
    .zip(&times)
    {
        let ratios = floors.map(|floor| ratio(times.p50(), floor));
        rows.push(row![
            name,
            ms(times.p50()),
            ms(times.p99()),
            format!("{:.2}", ratios[0]),
            format!("{:.2}", ratios[1]),
        ]);
    }
    print(
        "latency: report renamed into place → next command in commands/pending",
        &rows,
    );
    let result = against(ratio(times[2].p50(), floors[0]), 2.0);
    print(
        "latency: plan-agent / floor with append + fdatasync",
        &[row![result]],
    );
}

/// What an agent prints that runs some commands.
fn stream() -> String {
    let line = |number: usize| {
        let output = "one more line of the output\n".repeat(20);
        let item = serde_json::json!({
            "id": format!("item_{number}"),
            "type": "command_execution",
            "command": "bash -lc 'cargo test'",
            "aggregated_output": output,
            "exit_code": 0,
            "status": "completed",
        });
        let begun = serde_json::json!({"type": "item.started", "item": item});
        let ended = serde_json::json!({"type": "item.completed", "item": item});
        format!("{begun}\n{ended}\n")
    };
    (0..30).map(line).collect()
}

/// The program while it carries a plan out.
pub struct Daemon {
    pub folder: TempDir,
    pub running: Running,
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
            running: Running(child),
            commands,
            command,
            ready,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("volumes").join(name)
    }

    /// Takes the command that waits, works, prints, reports, and returns how long the next one took to come.
    fn step(&mut self, report: &str, printed: &str) -> Duration {
        let [made, place] = self.take(report, printed);
        thread::sleep(WORK);
        let begun = Instant::now();
        fs::rename(made, place).unwrap();
        self.next_command().duration_since(begun)
    }

    /// Takes the command that waits, prints, and writes the report. Returns where that lies, and where it is to be renamed to.
    pub fn take(&self, report: &str, printed: &str) -> [PathBuf; 2] {
        let pending = self.path("commands/pending").join(&self.command);
        fs::rename(pending, self.path("commands/processed").join(&self.command)).unwrap();
        let made = self.path("report.tmp");
        fs::write(&made, report).unwrap();
        if !printed.is_empty() {
            let log = format!("{}.out", self.command.trim_end_matches(".md"));
            fs::write(self.path("logs").join(log), printed).unwrap();
        }
        let place = format!("report-{}", self.command);
        [made, self.path("reports/pending").join(place)]
    }

    /// Waits for the next command, and returns when it came.
    pub fn next_command(&mut self) -> Instant {
        // Commands that only end a session come in between.
        loop {
            self.command = self.commands.next().expect("no next command came");
            let came = Instant::now();
            let text =
                fs::read_to_string(self.path("commands/pending").join(&self.command)).unwrap();
            if !text.contains("command_type: end") {
                return came;
            }
        }
    }
}

/// The program while it runs; killed when dropped.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
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
