//! Suspended time is not silence: a suspended machine, a stopped process, a wall clock that is set.

use std::time::{Duration, Instant};

use super::*;
use crate::common::agent::report;

/// A shared library that moves the wall clock by as many seconds as a file says.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void) {
    char text[32];
    const char *name = getenv("CLOCK_SHIFT");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) return 0;
    text[length] = 0;
    return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += shift();
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *place) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (place) *place = exact.tv_sec;
    return exact.tv_sec;
}
"#;

pub(super) const DAY: i64 = 24 * 60 * 60;

/// An agent that records that it began, and writes its report when the test lets it; with a higher number for each command.
const TOLD: &str = "n=1; while [ -e begun-$n ]; do n=$((n+1)); done; : > begun-$n; \
    until [ -e go-$n ]; do sleep 0.05; done; \
    printf -- '---\\nstatus: SUCCESS\\n---\\n\\n## Core results\\n\\ndone\\n' > \"$1\"";

const AGENT: [&str; 8] = [
    "--agent", "command", "--", "sh", "-c", TOLD, "sh", "{report}",
];

impl Scene {
    fn await_begun(&self, number: u32) {
        self.exchange
            .await_name("workspace", &format!("begun-{number}"));
    }

    fn tell_to_go_on(&self, number: u32) {
        fs::write(self.exchange.path(format!("workspace/go-{number}")), "").unwrap();
    }

    /// Asserts that each task was done once, and no attempt was abandoned.
    fn all_at_the_first_attempt(&self, tasks: usize) {
        assert!(self.events_named("timed_out").is_empty());
        assert_eq!(self.events_named("issued").len(), tasks);
        assert!(self.events_named("asked").is_empty());
    }

    /// Makes the daemon scan the folders, and waits until it has.
    fn await_a_look(&self, name: &str) {
        let name = format!("report-task-{name}.md");
        self.exchange
            .drop_report(&name, report("SUCCESS", "of what?").as_bytes());
        self.exchange.await_name("reports/rejected", &name);
    }
}

/// Waits until a timeout would have come.
pub(super) fn await_more_than(span: Duration) {
    let began = Instant::now();
    wait_until("the time has passed", || began.elapsed() > span);
}

/// Both limits pass while every process stands still.
const SHORT: &str = "run.task_timeout = '6s'\nrun.task_deadline = '7s'";
const LONGER: Duration = Duration::from_secs(8);

#[test]
fn suspended_daemon_with_worker_times_out_no_attempt() {
    let scene = Scene::by_rules(SHORT);
    let daemon = scene.leave([&["run", "--plan", "one.md"], &AGENT[..]].concat());
    scene.await_begun(1);
    scene.await_events("claimed", 1);
    daemon.freeze();
    await_more_than(LONGER);
    // The agent, which has a process of its own, ends while neither daemon nor worker runs.
    scene.tell_to_go_on(1);
    daemon.wake();
    scene.await_status("completed");
    scene.all_at_the_first_attempt(1);
    has(scene.daemon_log(), "stood still");
}

#[test]
fn suspended_daemon_and_worker_continue_attempt() {
    let scene = Scene::by_rules(SHORT);
    let daemon = scene.leave("run --plan one.md");
    let worker = scene.env.start([&["worker"], &AGENT[..]].concat());
    let pid = Pid::from_child(&worker.child);
    scene.await_begun(1);
    scene.await_events("claimed", 1);
    freeze(pid);
    daemon.freeze();
    await_more_than(LONGER);
    daemon.wake();
    // Only the daemon scans: the worker sends no heartbeat yet.
    scene.await_a_look("nobody");
    kill_process(pid, Signal::CONT).unwrap();
    scene.tell_to_go_on(1);
    scene.await_status("completed");
    scene.all_at_the_first_attempt(1);
}

#[test]
fn report_during_suspension_counts() {
    let scene = Scene::by_rules("run.task_timeout = '2s'\nrun.task_deadline = '3s'");
    let daemon = scene.leave("run --plan one.md");
    let command = scene.take_any();
    daemon.freeze();
    await_more_than(Duration::from_secs(4));
    scene.succeed(&command, "done");
    daemon.wake();
    scene.await_status("completed");
    scene.all_at_the_first_attempt(1);
}

#[test]
fn silent_agent_times_out_after_daemon_wakes() {
    let scene = Scene::by_rules("run.task_timeout = '2s'");
    let daemon = scene.leave("run --plan one.md");
    let first = scene.take_any();
    daemon.freeze();
    await_more_than(Duration::from_secs(4));
    daemon.wake();
    scene.await_attempt(2);
    assert_eq!(scene.events_named("timed_out")[0]["command"], first.id);
}

/// However long the daemon has been at work.
#[test]
fn unclaimed_timeout_counts_from_issue() {
    let scene = Scene::by_rules("run.task_timeout = '4s'");
    let _daemon = scene.leave("run --plan chain.md");
    let first = scene.take_any();
    let sign = scene.path(format!("active/{}.json", first.id));
    let (began, mut beats) = (Instant::now(), 0);
    wait_until("the daemon is older than a time-out", || {
        beats += 1;
        fs::write(&sign, format!("{{\"pid\": {beats}}}")).unwrap();
        began.elapsed() > Duration::from_secs(6)
    });
    scene.succeed(&first, "done");
    for number in 2..=3 {
        let next = scene.take("the next task", |command| command.task() == number);
        scene.succeed(&next, "done");
    }
    scene.await_status("completed");
    scene.all_at_the_first_attempt(3);
}

#[test]
fn check_ended_during_suspension_counts() {
    let scene = Scene::by_rules(
        "run.checks = ['slow']\nchecks.slow = { run = ['sh', '-c', ': > checking; until [ -e go ]; do sleep 0.05; done'], timeout = '3s' }",
    );
    let _agent = scene.agent(|_| Act::success("done"));
    let daemon = scene.leave("run --plan one.md");
    scene.await_name("workspace", "checking");
    daemon.freeze();
    await_more_than(Duration::from_secs(4));
    fs::write(scene.path("workspace/go"), "").unwrap();
    daemon.wake();
    scene.await_status("completed");
    scene.all_at_the_first_attempt(1);
}

/// Gives the processes of a scene a wall clock that can be set. The error says why that is not possible here.
pub(super) fn with_a_clock_to_set(scene: &mut Scene) -> Result<(), String> {
    scene.env.preload("shim", SHIM)?;
    let shift = scene.env.path("shift");
    scene.env.set("CLOCK_SHIFT", shift.to_str().unwrap());
    Ok(())
}

/// Sets the wall clock.
pub(super) fn set_clock(scene: &Scene, seconds_off: i64) {
    scene.write("shift.new", &seconds_off.to_string());
    fs::rename(scene.env.path("shift.new"), scene.env.path("shift")).unwrap();
}

/// Returns how far a moment is in the future, in seconds.
fn ahead(moment: &str) -> i64 {
    let moment: jiff::Timestamp = moment.parse().unwrap();
    moment.as_second() - jiff::Timestamp::now().as_second()
}

fn near(seconds: i64, expected: i64) -> bool {
    (seconds - expected).abs() < 60 * 60
}

#[test]
fn wall_clock_jump_times_out_no_attempt() {
    let mut scene = Scene::by_rules("run.task_timeout = '30m'\nrun.task_deadline = '1h'");
    if let Err(why) = with_a_clock_to_set(&mut scene) {
        return skip(&why);
    }
    let _daemon = scene.leave([&["run", "--plan", "chain.md"], &AGENT[..]].concat());
    for (number, shift) in [(1, DAY), (2, -DAY), (3, 0)] {
        scene.await_begun(number);
        set_clock(&scene, shift);
        scene.await_a_look(&format!("nobody-{number}"));
        // The shim works: a process that starts now has the other time, and prints nothing unusual.
        let status = scene.works("status");
        let under_way = status.lines().find(|line| line.contains("attempt 1 for"));
        assert!(
            under_way.is_some_and(|line| !line.contains("for -")),
            "{status}"
        );
        scene.works("why 1");
        scene.works("pause");
        scene.works("resume");
        let paused = scene.events_named("paused");
        let at = paused.last().unwrap()["at"].as_str().unwrap();
        assert!(near(ahead(at), shift), "{at}");
        scene.tell_to_go_on(number);
    }
    scene.await_status("completed");
    scene.await_end();
    scene.all_at_the_first_attempt(3);

    let log = scene.daemon_log();
    let times: Vec<&str> = log
        .lines()
        .filter_map(|line| line.split_once("  ").map(|(time, _)| time))
        .collect();
    assert!(times.len() > 3 && times.is_sorted(), "{log}");
    let events = scene.events();
    let own = events.iter().filter(|event| event["by"] == "daemon");
    let times: Vec<&str> = own.map(|event| event["at"].as_str().unwrap()).collect();
    assert!(times.len() > 3 && times.is_sorted(), "{times:?}");
    assert!(times.iter().all(|at| near(ahead(at), 0)), "{times:?}");
    let issued = scene.events_named("issued");
    let ids: Vec<&str> = issued
        .iter()
        .map(|event| event["command"].as_str().unwrap())
        .collect();
    assert!(
        ids.is_sorted(),
        "the order of names is that of issue: {ids:?}"
    );
}

#[test]
fn usage_limit_ends_on_time_after_clock_jump() {
    for shift in [DAY, -DAY] {
        let mut scene = Scene::by_rules("");
        if let Err(why) = with_a_clock_to_set(&mut scene) {
            return skip(&why);
        }
        let _daemon = scene.leave("run --plan one.md");
        let first = scene.take_any();
        set_clock(&scene, shift);
        let moment = jiff::Timestamp::now().as_second() + shift + 2;
        let until = jiff::Timestamp::from_second(moment).unwrap();
        let blocked = format!(
            "---\nstatus: FAILED\nblocked_until: {until}\n---\n\n## Core results\n\nHalf of it.\n"
        );
        scene.submit(&first.id, &blocked);
        let parked = scene.await_events("parked", 1).remove(0);
        let second = scene.await_attempt(2);
        let until = jiff::Timestamp::from_microsecond(parked["until"].as_i64().unwrap());
        let until = until.unwrap().to_string();
        assert!(near(ahead(&until), 0), "{until}");
        scene.succeed(&second, "all of it");
        scene.await_status("completed");
    }
}
