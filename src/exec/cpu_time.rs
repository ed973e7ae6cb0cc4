//! How much processor time a process and all its descendants have used: a process that computes is alive, even if it prints
//! nothing for long.

use std::collections::HashMap;
use std::time::Duration;

use crate::processes::{self, Process, TICKS};

/// Returns the processor time of a process group and of all descendants of its members, including those that have ended and
/// were waited for. Zero where the system does not report it.
pub fn effort(group: u32) -> Duration {
    if group == 0 {
        // Processes of the kernel itself have no other group.
        return Duration::ZERO;
    }
    let by_pid = |process: Process| (process.pid, process);
    let processes: HashMap<u32, Process> = processes::all().map(by_pid).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

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
        for child in processes::all().filter(|process| process.parent == busy.id()) {
            let pid = rustix::process::Pid::from_raw(child.pid.cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        for child in [&mut busy, &mut idle] {
            child.kill().ok();
            child.wait().unwrap();
        }
    }
}
