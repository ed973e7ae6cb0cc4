//! The stage of a scene: a folder, the scripted model, the agent, and one daemon after the other.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};

use super::agent::{Agent, Bell, News, Pace};
use super::ledger::next_words;
use super::scene::Scene;
use super::trace::kill_traced;
use crate::common::env::{Running, TestEnv, wait_until};
use crate::common::llm::{Answer, LlmServer};

/// A folder in which a plan is carried out.
pub struct Stage {
    pub agent: Agent,
    pub bell: Arc<Bell>,
    asked: Arc<Mutex<BTreeMap<String, usize>>>,
    _llm: LlmServer,
    pub env: TestEnv,
}

impl Stage {
    pub fn new(scene: &Scene, pace: Pace) -> Self {
        let mut env = TestEnv::new();
        let bell = Arc::new(Bell::default());
        let asked: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
        let llm = {
            let (bell, asked, scene) = (Arc::clone(&bell), Arc::clone(&asked), scene.clone());
            LlmServer::start(move |question| {
                let (about, answer) = scene.answer(question);
                *asked.lock().unwrap().entry(about).or_default() += 1;
                bell.ring(News::Request);
                // Some calls take long enough that a kill can hit them.
                let pause = Duration::from_millis(question.nth as u64 % 3 * 3);
                Answer::Slow(pause, Box::new(answer))
            })
        };
        let url = llm.openai_url();
        env.write(
            "config.toml",
            &format!("[llm]\nprovider = \"openai\"\nbase_url = \"{url}\"\nmodel = \"scripted\"\n\n[run]\nmax_parallel = 2\n"),
        );
        env.set("OPENAI_API_KEY", "scripted");
        env.write("plan.md", &scene.plan);
        let agent = Agent::start(&env.path("volumes"), scene, pace, &bell);
        Self {
            agent,
            bell,
            asked,
            _llm: llm,
            env,
        }
    }

    pub fn next_words(&self) -> &'static str {
        next_words(&self.env)
    }

    /// Starts a daemon.
    pub fn begin(&self, words: &str) -> Life {
        self.spawn(self.env.command(words))
    }

    pub fn spawn(&self, mut daemon: Command) -> Life {
        let said = File::options()
            .append(true)
            .create(true)
            .open(self.env.path("said"))
            .unwrap();
        self.agent.alive();
        let child = daemon
            .stdin(Stdio::null())
            .stdout(said.try_clone().unwrap())
            .stderr(said)
            .spawn()
            .unwrap();
        Life {
            running: Running { child },
        }
    }

    /// Returns all output of the daemons.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.env.path("said")).unwrap_or_default()
    }

    /// Returns how often the model was asked each kind of question.
    pub fn asked(&self) -> BTreeMap<String, usize> {
        self.asked.lock().unwrap().clone()
    }
}

/// A daemon from its start to its end.
pub struct Life {
    pub running: Running,
}

impl Life {
    /// Returns whether it has ended by itself.
    pub fn over(&mut self) -> bool {
        self.running.child.try_wait().unwrap().is_some()
    }

    /// Kills it with the signal that it cannot catch; returns its exit status if it ended before.
    pub fn kill(mut self) -> Option<ExitStatus> {
        self.running.child.kill().unwrap();
        let status = self.running.wait();
        (status.signal() != Some(9)).then_some(status)
    }

    /// Asks it to end, and returns its exit status.
    pub fn term(mut self) -> ExitStatus {
        let pid = Pid::from_child(&self.running.child);
        // The process was not waited for yet, so the pid still belongs to it even if it has ended.
        kill_process(pid, Signal::TERM).unwrap();
        self.running.wait()
    }

    /// Waits until it ends by itself.
    pub fn end(mut self) -> ExitStatus {
        self.running.wait()
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if std::thread::panicking() {
            kill_traced(self.running.child.id());
        }
    }
}

/// Returns whether a daemon has announced itself to other commands.
pub fn announced(env: &TestEnv, pid: u32) -> bool {
    let note = std::fs::read(env.path("volumes/daemon.json")).unwrap_or_default();
    let note: serde_json::Value = serde_json::from_slice(&note).unwrap_or_default();
    note["pid"] == pid
}

/// The present speed of this machine. On a busy machine kills after a fixed time would always come before anything was done,
/// and the test would never end.
pub struct Tempo {
    /// The time that the last daemon took until it was announced.
    start: Duration,
}

impl Default for Tempo {
    fn default() -> Self {
        Self {
            start: Duration::from_millis(60),
        }
    }
}

impl Tempo {
    /// Waits until a daemon that has just been started is announced or has ended, or until something else has happened; returns
    /// whether it was that something else.
    pub fn measure(
        &mut self,
        env: &TestEnv,
        running: &mut Running,
        mut sooner: impl FnMut() -> bool,
    ) -> bool {
        let (began, pid) = (Instant::now(), running.child.id());
        let mut came_sooner = false;
        wait_until("the daemon is announced or over", || {
            came_sooner = sooner();
            let over = |running: &mut Running| running.child.try_wait().unwrap().is_some();
            came_sooner || announced(env, pid) || over(running)
        });
        if !came_sooner {
            self.start = began.elapsed();
        }
        came_sooner
    }

    /// Sleeps for thousandths of the time that a start takes.
    pub fn sleep(&self, thousandths: u64) {
        let micros = self.start.as_micros() as u64 * thousandths / 1_000;
        std::thread::sleep(Duration::from_micros(micros));
    }

    /// Returns the longest wait for an event of a daemon that works.
    pub fn no_news(&self) -> Duration {
        self.start * 4
    }
}

/// Repeatable chance: the same seed gives the same choices.
pub struct Chance {
    variable: &'static str,
    seed: u64,
    state: u64,
}

impl Chance {
    /// Takes the seed from an environment variable, or draws a new one.
    pub fn new(variable: &'static str) -> Self {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap();
        let seed = std::env::var(variable)
            .ok()
            .and_then(|seed| seed.parse().ok())
            .unwrap_or_else(|| u64::from(now.subsec_nanos()));
        Self {
            variable,
            seed,
            state: seed,
        }
    }

    /// Returns a number from 0 up to but not including `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

impl Drop for Chance {
    #[expect(clippy::print_stderr, reason = "the seed repeats a failed test")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the same choices again: {}={}", self.variable, self.seed);
        }
    }
}
