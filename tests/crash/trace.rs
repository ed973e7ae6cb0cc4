//! A daemon whose system calls are counted: one of them is its last, or fails.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::stage::{Life, Stage};

/// System calls that change state outside of the process: those of the store, those of the folders, plain writing.
pub const CALLS: [&str; 9] = [
    "pwrite64",
    "fsync",
    "fdatasync",
    "ftruncate",
    "rename",
    "renameat2",
    "unlink",
    "mkdir",
    "write",
];

/// A fault at a system call.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub call: &'static str,
    /// `signal=KILL` or `error=ENOSPC`, in the syntax of strace.
    pub what: &'static str,
    /// Each thread counts its own calls from 1.
    pub at: u32,
}

/// Returns whether system calls can be traced here.
pub fn possible() -> bool {
    let traced = Command::new("strace")
        .args(["-f", "-qq", "-e", "inject=fsync:error=EIO", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    traced.is_ok_and(|status| status.success())
}

impl Stage {
    /// Starts a daemon with a fault ahead of it.
    pub fn begin_with(&self, words: &str, fault: Fault) -> Life {
        let Fault { call, what, at } = fault;
        let daemon = self.env.command(words);
        let mut traced = Command::new("strace");
        traced
            .args(["-f", "-qq", "-o", "calls"])
            .args(["-e", &format!("trace={call}")])
            .args(["-e", &format!("inject={call}:{what}:when={at}")])
            .arg("-e")
            .arg("signal=none")
            .arg(daemon.get_program())
            .args(daemon.get_args())
            .current_dir(daemon.get_current_dir().unwrap())
            .env_clear()
            .envs(
                daemon
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            );
        self.spawn(traced)
    }

    /// Returns the number of the call that met the fault first, all threads together; `None` if none did.
    pub fn met(&self, ended: ExitStatus) -> Option<usize> {
        let calls = self.env.read("calls");
        let began = calls.lines().filter(|line| !line.contains("resumed>"));
        let began: Vec<&str> = began.collect();
        match ended.signal() {
            // A killed thread makes no further call.
            Some(9) => Some(began.len()),
            _ => began.iter().position(|line| line.contains("(INJECTED)")),
        }
    }
}

/// Kills the processes of a tracer; otherwise they would continue.
pub fn kill_traced(tracer: u32) {
    let children = std::fs::read_to_string(format!("/proc/{tracer}/task/{tracer}/children"));
    let pids = children.unwrap_or_default();
    for pid in pids
        .split_whitespace()
        .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
    {
        // It may have ended by itself.
        kill_process(pid, Signal::KILL).ok();
    }
}
