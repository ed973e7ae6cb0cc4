//! Whether an agent that runs does something: by what it prints, or by what its processes compute.

use std::time::Duration;

use tokio::time::Instant;

use crate::agents::CodingAgent;
use crate::exec::ChildOutput;
use crate::plan::Time;
use crate::plan_time::time_of;
use crate::processes::effort;

/// A process that computes that much of the time does something, even if it prints nothing, as aider does while it works.
const LEAST_EFFORT: f64 = 0.05;
/// The most that is read of what an agent has printed since the last check: if its end says nothing new, the rest did not.
const MOST_NEW: usize = 16 * 1024;

/// When an agent was last seen to do something.
pub(super) struct Pulse {
    written: Option<Time>,
    effort: Option<Duration>,
    at: Instant,
    /// What was read of its output.
    read: [u64; 2],
    /// What it said last, if that is only that its model failed and is asked again.
    asks_again: Option<String>,
}

impl Pulse {
    /// Begins to watch; `heard` is when it had printed something last, as far as that was noted, and `read` what is known of it.
    pub fn new(heard: Option<Time>, read: [u64; 2]) -> Self {
        Self {
            written: heard,
            effort: None,
            at: Instant::now(),
            read,
            asks_again: None,
        }
    }

    /// Makes the next check find that it has printed something.
    pub fn quicken(&mut self) {
        self.written = None;
    }

    /// Returns what it says of its model, if that only fails and is asked again.
    pub fn fault(&self) -> Option<&str> {
        self.asks_again.as_deref()
    }

    /// Returns whether the agent has printed anything since the last check, or computed. Not while all that it does is to ask a
    /// model again that fails.
    pub fn beats(&mut self, output: &ChildOutput, pid: u32, of: Option<&CodingAgent>) -> bool {
        let since = self.at.elapsed();
        self.at = Instant::now();
        let written = output.last_written().map(time_of);
        if written != self.written {
            self.written = written;
            self.effort = None;
            let [out, err] = std::mem::replace(&mut self.read, output.lengths());
            let said = output.out_since(out, MOST_NEW) + "\n" + &output.err_since(err, MOST_NEW);
            self.asks_again = of.and_then(|agent| agent.only_asks_again(&said));
            return self.asks_again.is_none();
        }
        if self.asks_again.is_some() {
            return false;
        }
        let effort = effort(pid);
        // The first number says nothing by itself.
        let before = self.effort.replace(effort).unwrap_or(effort);
        let spent = effort.saturating_sub(before);
        !spent.is_zero() && spent >= since.mul_f64(LEAST_EFFORT)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;
    use std::{fs, io};

    use super::*;

    #[test]
    fn earlier_output_is_no_heartbeat() {
        let folder = tempfile::tempdir().unwrap();
        let (out, err) = (folder.path().join("out"), folder.path().join("err"));
        fs::write(&out, "said").unwrap();
        fs::write(&err, "").unwrap();
        let output = ChildOutput::watch(&out, &err).unwrap();
        let pulse = |heard| Pulse::new(heard, [0, 0]);
        // A worker that takes over an agent which only waits does not make it seem alive.
        let heard = output.last_written().map(time_of);
        let pid = std::process::id();
        assert!(!pulse(heard).beats(&output, pid, None));
        assert!(pulse(None).beats(&output, pid, None));
        let later = SystemTime::now() + Duration::from_secs(1);
        fs::File::open(&out).unwrap().set_modified(later).unwrap();
        assert!(pulse(heard).beats(&output, pid, None));
    }

    #[test]
    fn model_retry_output_is_no_heartbeat() {
        let folder = tempfile::tempdir().unwrap();
        let (out, err) = (folder.path().join("out"), folder.path().join("err"));
        let output = ChildOutput::open(&out, &err).unwrap().unwrap();
        let mut pulse = Pulse::new(None, [0, 0]);
        let mut moment = SystemTime::now();
        let mut say = |text: &str| {
            let mut file = fs::OpenOptions::new().append(true).open(&out).unwrap();
            io::Write::write_all(&mut file, text.as_bytes()).unwrap();
            moment += Duration::from_secs(1);
            file.set_modified(moment).unwrap();
        };
        let again = "{\"type\":\"error\",\"message\":\"Reconnecting... 1/5 (overloaded)\"}\n";
        let codex = CodingAgent::named("codex");
        let mut beats = |of| pulse.beats(&output, std::process::id(), of);
        say("{\"type\":\"turn.started\"}\n");
        assert!(beats(codex));
        say(again);
        assert!(!beats(codex));
        // Nor does what it computes meanwhile count.
        assert!(!beats(codex) && !beats(codex));
        say("{\"type\":\"item.completed\"}\n");
        say(again);
        assert!(beats(codex));
        say(again);
        assert!(beats(None), "of other agents every word counts");
    }
}
