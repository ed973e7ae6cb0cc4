//! The data of processes that the kernel shows under `/proc`. A process that computes is alive, even if it prints nothing for long.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// One process. Its number may later be that of another process; the number and the start together may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    pub group: u32,
    /// The processor time that it has used, in [`TICKS`], including that of its children that have ended and were waited for.
    pub used: u64,
    /// When it began, in [`TICKS`] since the machine was booted.
    pub began: u64,
    /// It has ended, and its parent has not waited for it yet.
    pub ended: bool,
    /// A signal keeps it from running, such as that of Ctrl-Z.
    pub suspended: bool,
}

/// Ticks of the kernel in a second: this is 100 wherever Linux shows them to processes.
pub const TICKS: u64 = 100;

/// Returns every process; none where the system does not list them.
pub fn all() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| of(entry.file_name().to_str()?.parse().ok()?))
}

/// Returns the process of this number; `None` if there is none.
pub fn of(pid: u32) -> Option<Process> {
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns whether no process with this number is running.
pub fn has_ended(pid: u32) -> bool {
    of(pid).is_none_or(|process| process.ended)
}

/// Returns the processor time of a process group and of all descendants of its members, including those that have ended and
/// were waited for. Zero where the system does not report it.
pub fn effort(group: u32) -> Duration {
    if group == 0 {
        // Processes of the kernel itself have no other group.
        return Duration::ZERO;
    }
    let by_pid = |process: Process| (process.pid, process);
    let processes: HashMap<u32, Process> = all().map(by_pid).collect();
    let ours = |pid: &u32| {
        let mut pid = *pid;
        // This is as deep as any process tree; a chain that changed while it was read may have no end.
        for _ in 0..256 {
            match processes.get(&pid) {
                Some(process) if process.group == group => return true,
                Some(process) => pid = process.parent,
                None => return false,
            }
        }
        false
    };
    let used = processes.iter().filter(|(pid, _)| ours(pid));
    let ticks: u64 = used.map(|(_, process)| process.used).sum();
    Duration::from_millis(ticks * 1000 / TICKS)
}

/// Reads a line of `/proc/PID/stat`. The name of the program stands in brackets and may contain any character.
fn parse(pid: u32, stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Process {
        pid,
        parent: number(1)?.try_into().ok()?,
        group: number(2)?.try_into().ok()?,
        used: [11, 12, 13, 14].into_iter().filter_map(number).sum(),
        began: number(19)?,
        ended: matches!(fields.first(), Some(&("Z" | "X"))),
        suspended: matches!(fields.first(), Some(&("T" | "t"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_stat_with_any_program_name() {
        let stat = "42 (a) b) S 7 40 40 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 500 6 7";
        let process = parse(42, stat).unwrap();
        let expected = Process {
            pid: 42,
            parent: 7,
            group: 40,
            used: 100,
            began: 500,
            ended: false,
            suspended: false,
        };
        assert_eq!(process, expected);
        assert!(parse(42, &stat.replace(" S ", " Z ")).unwrap().ended);
        assert!(parse(42, &stat.replace(" S ", " T ")).unwrap().suspended);
        assert!(parse(42, "42 (a").is_none());
    }

    #[test]
    fn running_process_has_not_ended() {
        assert!(!has_ended(std::process::id()));
        assert!(has_ended(u32::MAX));
    }

    #[test]
    fn kernel_cpu_time_is_not_counted() {
        assert_eq!(effort(0), Duration::ZERO);
    }

    #[test]
    fn busy_process_has_cpu_time_and_idle_has_none() {
        use std::os::unix::process::CommandExt;
        let start = |script: &str| {
            std::process::Command::new("sh")
                .args(["-c", script])
                .process_group(0)
                .spawn()
                .unwrap()
        };
        // A process of its own group, too, as a tool that an agent starts.
        let mut busy = start("setsid sh -c 'while :; do :; done' & wait");
        let mut idle = start("exec sleep 1000");
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while effort(busy.id()) < Duration::from_millis(50) {
            assert!(std::time::Instant::now() < end, "nothing is seen");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(effort(idle.id()) < Duration::from_millis(50));
        for child in all().filter(|process| process.parent == busy.id()) {
            let pid = rustix::process::Pid::from_raw(child.pid.cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        for child in [&mut busy, &mut idle] {
            child.kill().ok();
            child.wait().unwrap();
        }
    }
}
