//! How much of the processor a process and all that descend from it have used: what is computing is alive, even if it prints
//! nothing for long.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// What one process has used, in the ticks of the kernel, and who started it.
struct Process {
    parent: u32,
    group: u32,
    ticks: u64,
}

/// Ticks of the kernel in a second: this is 100 wherever Linux shows them to processes.
const TICKS: u64 = 100;

/// Returns the time that a process group and all descendants of its members have used, those that have ended and were
/// waited for included. Nothing where the system does not tell it.
pub fn effort(group: u32) -> Duration {
    if group == 0 {
        // Those of the kernel itself have no other group.
        return Duration::ZERO;
    }
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes: HashMap<u32, Process> = entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((pid, process(&stat)?))
        })
        .collect();
    let ours = |pid: &u32| {
        let mut pid = *pid;
        // As deep as any tree of processes; a chain that was read while it changed may have no end.
        for _ in 0..256 {
            match processes.get(&pid) {
                Some(process) if process.group == group => return true,
                Some(process) => pid = process.parent,
                None => return false,
            }
        }
        false
    };
    let ticks: u64 = processes
        .iter()
        .filter(|(pid, _)| ours(pid))
        .map(|(_, process)| process.ticks)
        .sum();
    Duration::from_millis(ticks * 1000 / TICKS)
}

/// Reads a line of `/proc/PID/stat`. The name of the program stands in brackets and may hold anything.
fn process(stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Process {
        parent: number(1)?.try_into().ok()?,
        group: number(2)?.try_into().ok()?,
        ticks: [11, 12, 13, 14].into_iter().filter_map(number).sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_program_is_called() {
        let stat = "42 (a) b) S 7 40 40 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 5 6 7";
        let process = process(stat).unwrap();
        assert_eq!((process.parent, process.group, process.ticks), (7, 40, 100));
        assert!(super::process("42 (a").is_none());
    }

    #[test]
    fn what_the_kernel_does_is_nobodys_effort() {
        assert_eq!(effort(0), Duration::ZERO);
    }

    #[test]
    fn who_computes_is_seen_and_who_sleeps_is_not() {
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
        let entries = fs::read_dir("/proc").unwrap().flatten();
        for entry in entries {
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            if process(&stat).is_some_and(|process| process.parent == busy.id()) {
                let pid = entry.file_name().to_str().unwrap().parse().unwrap();
                let pid = rustix::process::Pid::from_raw(pid).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            }
        }
        for child in [&mut busy, &mut idle] {
            child.kill().ok();
            child.wait().unwrap();
        }
    }
}
