//! What the program needs while it does next to nothing.

use std::fs;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use plan_agent::plan::{TaskOrder, Time};
use plan_agent::store::Store;

use crate::disk;
use crate::latency::{Daemon, program};
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
    let before = processor_time(&daemon.running.0);
    thread::sleep(WATCHED);
    let busy = processor_time(&daemon.running.0) - before;
    let (resident, large) = (
        resident(&daemon.running.0),
        self::resident(&large.running.0),
    );
    let load = cold_load();
    print(
        "footprint",
        &[
            row![
                "--version, p50",
                ms(version.p50()),
                against(version.p50().as_secs_f64() * 1e3, 10.0)
            ],
            row![
                "idle daemon, plan of 10 tasks, resident",
                format!("{resident:.1} MiB"),
                against(resident, 15.0)
            ],
            row![
                "idle daemon, plan of 1,000 tasks, resident",
                format!("{large:.1} MiB")
            ],
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
        let store = Store::open(&path, || Time(1)).await.unwrap();
        let head = sample::head(TaskOrder::Dependencies);
        store
            .create(head, sample::BY, "made", sample::make_tasks(10_000))
            .await
            .unwrap();
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

/// Returns the resident memory of a process in MiB.
fn resident(child: &Child) -> f64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kilobytes / 1024.0
}

/// Returns what a process has used of the processor, in the kernel's hundredths of a second.
fn processor_time(child: &Child) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
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
