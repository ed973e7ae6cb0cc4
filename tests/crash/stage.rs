//! The stage of a scene: a folder, the scripted model, the agent, and one daemon after the other.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};

use super::agent::{Agent, Bell, News, Pace};
use super::ledger::Ledger;
use super::scene::Scene;
use super::trace::kill_traced;
use crate::common::env::{Running, TestEnv, wait_until};
use crate::common::llm::{Answer, LlmServer};

/// A folder in which the plans of a scene are carried out.
pub struct Stage {
    pub scene: Scene,
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
        let lanes = 1 + scene.folders.len();
        env.write(
            "config.toml",
            &format!("[llm]\nprovider = \"openai\"\nbase_url = \"{url}\"\nmodel = \"scripted\"\n\n[run]\nmax_parallel = {lanes}\n"),
        );
        env.set("OPENAI_API_KEY", "scripted");
        for (index, folder) in scene.folders.iter().enumerate() {
            let number = index + 1;
            env.write(&format!("plan-{number}.md"), &scene.plan(number));
            std::fs::create_dir_all(env.path(folder)).unwrap();
        }
        let agent = Agent::start(&env.path("volumes"), scene, pace, &bell);
        Self {
            scene: scene.clone(),
            agent,
            bell,
            asked,
            _llm: llm,
            env,
        }
    }

    /// Returns whether there is a plan of this number.
    pub fn has(&self, number: usize) -> bool {
        let ledgers = Ledger::all(&self.env);
        ledgers.iter().any(|ledger| ledger.number() == number)
    }

    /// Returns the command line that a person would type next for a plan.
    pub fn next_words(&self, number: usize) -> String {
        let ledgers = Ledger::all(&self.env);
        match ledgers.iter().find(|ledger| ledger.number() == number) {
            Some(ledger) => format!("resume {}", ledger.plan.id()),
            None => self.scene.words(number),
        }
    }

    /// Starts a daemon for the first plan, or for one of several as chance has it, and queues those that are not there yet.
    pub fn begin_any(&self, chance: &mut Chance) -> Life {
        let ledgers = Ledger::all(&self.env);
        let all = 1..=self.scene.folders.len();
        let there = |number| ledgers.iter().any(|ledger| ledger.number() == number);
        let open = ledgers.iter().filter(|ledger| !ledger.is_over());
        let mut words: Vec<String> = open
            .map(|ledger| format!("resume {}", ledger.plan.id()))
            .collect();
        if all.clone().count() > 1 {
            words.push("daemon".to_owned());
        }
        let first = match there(1) {
            true => words.swap_remove(chance.below(words.len() as u64) as usize),
            false => self.scene.words(1),
        };
        let mut life = self.begin(&first);
        let missing = all.skip(1).filter(|number| !there(*number));
        life.beside = missing
            .map(|number| self.env.start(self.scene.words(number)))
            .collect();
        life
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
            beside: Vec::new(),
            folder: self.env.path(""),
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

/// A daemon from its start to its end, with the one that it leaves behind for the plans of others.
pub struct Life {
    pub running: Running,
    /// What queues plans meanwhile.
    beside: Vec<Running>,
    folder: PathBuf,
}

impl Life {
    /// Returns whether it has ended by itself.
    pub fn over(&mut self) -> bool {
        self.running.child.try_wait().unwrap().is_some()
    }

    /// Kills it, and all others in its folder; returns its exit status if it ended before.
    pub fn kill(mut self) -> Option<ExitStatus> {
        let status = self.kill_alone();
        self.beside.clear();
        kill_all(&self.folder);
        status
    }

    /// Kills it with the signal that it cannot catch; returns its exit status if it ended before.
    pub fn kill_alone(&mut self) -> Option<ExitStatus> {
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

/// Returns the states of all plans, as a person reads them.
pub fn states(env: &TestEnv) -> Vec<String> {
    let plans = env.run("plans --json").stdout;
    let plans: Vec<serde_json::Value> = serde_json::from_str(&plans).unwrap_or_default();
    let states = plans.iter().filter_map(|plan| plan["status"].as_str());
    states.map(str::to_owned).collect()
}

/// Kills every process that works in a folder.
pub fn kill_all(folder: &Path) {
    wait_until("nobody is there", || {
        let there = at_work(folder);
        for pid in &there {
            // It may have ended by itself.
            kill_process(*pid, Signal::KILL).ok();
        }
        there.is_empty()
    });
}

/// Returns the processes that work in a folder.
pub fn at_work(folder: &Path) -> Vec<Pid> {
    let folder = folder.canonicalize().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let there = processes.filter(|one| {
        let works_in = std::fs::read_link(one.path().join("cwd"));
        works_in.is_ok_and(|works_in| works_in == folder)
    });
    let pids = there.filter_map(|one| Pid::from_raw(one.file_name().to_str()?.parse().ok()?));
    pids.collect()
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
