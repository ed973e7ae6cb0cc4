//! What the program needs while it does next to nothing.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use plan_agent::plan::Time;
use plan_agent::store::Store;

use crate::disk;
use crate::latency::{Daemon, Running, program};
use crate::table::{Times, against, ms, print};
use crate::{row, sample};

/// How long an idle daemon is watched: several of its regular looks.
const WATCHED: Duration = Duration::from_secs(10);

pub fn run() {
    let folder = disk::folder();
    let version = |_| {
        let begun = Instant::now();
        assert!(
            program(folder.path(), &["--version"])
                .status()
                .unwrap()
                .success()
        );
        begun.elapsed()
    };
    let version = Times::new((0..50).map(version).collect());
    let ready = Times::new((0..5).map(|_| Daemon::start(1_000).ready).collect());
    let (daemon, large) = (Daemon::start(10), Daemon::start(1_000));
    let folders = [disk::folder(), disk::folder()];
    let idle = |at: usize, args| Running(program(folders[at].path(), args).spawn().unwrap());
    let (alone, served) = (idle(0, &["daemon"]), idle(1, &["daemon", "--web"]));
    let before = processor_time(&daemon.running);
    thread::sleep(WATCHED);
    let busy = processor_time(&daemon.running) - before;
    let [ten, large] = [&daemon, &large].map(|daemon| Memory::of(&daemon.running));
    let [alone, served] = [&alone, &served].map(Memory::of);
    let load = cold_load();
    print(
        "footprint",
        &[
            row![
                "--version, p50",
                ms(version.p50()),
                against(version.p50().as_secs_f64() * 1e3, 10.0)
            ],
            row!["daemon without a plan, resident", mib(alone.resident, 18.0)],
            row!["… its own", mib(alone.own, 3.0)],
            row![
                "… more of its own with the page",
                mib(served.own - alone.own, 0.3)
            ],
            row![
                "idle daemon, plan of 10 tasks, resident",
                mib(ten.resident, 18.0)
            ],
            row!["… its own", mib(ten.own, 3.0)],
            row![
                "idle daemon, plan of 1,000 tasks, resident",
                format!("{:.1} MiB", large.resident)
            ],
            row!["… its own", format!("{:.1} MiB", large.own)],
            row![
                "idle daemon, processor",
                format!(
                    "{:.2} %",
                    100.0 * busy.as_secs_f64() / WATCHED.as_secs_f64()
                )
            ],
            row![
                "start to first command, plan file of 1,000 tasks",
                ms(ready.p50())
            ],
            row!["cold load of a plan of 10,000 tasks", ms(load)],
        ],
    );
}

fn cold_load() -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let folder = disk::folder();
        let path = folder.path().join("plans.db");
        let _store = sample::store(&path, 1, 10_000).await;
        let mut times = Vec::new();
        for _ in 0..5 {
            let begun = Instant::now();
            let store = Store::open(&path, || Time(1)).await.unwrap();
            let tasks = store
                .read(&sample::plan(0), |plan, _| plan.counts().total())
                .await
                .unwrap();
            times.push(begun.elapsed());
            assert_eq!(tasks, 10_000);
        }
        Times::new(times).p50()
    })
}

/// The memory of a process in MiB.
struct Memory {
    /// With the pages of the program itself.
    resident: f64,
    /// What no file is behind.
    own: f64,
}

impl Memory {
    fn of(process: &Running) -> Self {
        let status = fs::read_to_string(format!("/proc/{}/status", process.0.id())).unwrap();
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
            kilobytes.parse::<f64>().unwrap() / 1024.0
        };
        Self {
            resident: value("VmRSS:"),
            own: value("RssAnon:"),
        }
    }
}

/// Says whether an aim in MiB is met.
fn mib(value: f64, most: f64) -> String {
    format!("{} MiB", against(value, most))
}

/// Returns what a process has used of the processor, in the kernel's hundredths of a second.
fn processor_time(process: &Running) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.0.id())).unwrap();
    // Behind the name in brackets come the state and ten numbers, then the times in and outside the kernel.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    let ticks = |field: usize| fields[field].parse::<u64>().unwrap();
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}
