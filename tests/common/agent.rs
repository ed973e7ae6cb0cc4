//! An agent from outside: knows the exchange folder and nothing of the product. It claims commands by a rename, writes reports
//! under another name and renames them, and behaves or misbehaves as a closure says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::env::wait_until;

/// How often the agent scans for commands.
const LOOK: Duration = Duration::from_millis(5);

/// The exchange folder as a worker sees it.
#[derive(Clone, Debug)]
pub struct Exchange {
    root: PathBuf,
}

/// A command as an agent reads it: lines of `key: value` between two `---` lines, then the text.
#[derive(Clone, Debug)]
pub struct Command {
    pub id: String,
    /// The whole file.
    pub text: String,
}

/// What the agent does with a command.
#[derive(Clone, Debug)]
pub enum Act {
    /// Claims it and reports this.
    Report(String),
    /// Leaves it where it is and reports this, written in place, a byte at a time.
    InPlace(String),
    /// Leaves it to other workers.
    Leave,
}

/// The agent; it ends when dropped.
pub struct Agent {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<Command>>>,
    worker: Option<JoinHandle<()>>,
}

/// Returns a report with a status and its core results.
pub fn report(status: &str, results: &str) -> String {
    format!("---\nstatus: {status}\n---\n\n## Core results\n\n{results}\n")
}

/// Returns a report that names its session.
pub fn report_in(session: &str, status: &str, results: &str) -> String {
    format!("---\nstatus: {status}\nsession_id: {session}\n---\n\n## Core results\n\n{results}\n")
}

impl Act {
    /// Reports success.
    pub fn success(results: &str) -> Self {
        Self::Report(report("SUCCESS", results))
    }

    /// Reports failure.
    pub fn failed(results: &str) -> Self {
        Self::Report(report("FAILED", results))
    }
}

impl Command {
    /// Reads a command's file.
    pub fn read(path: &Path) -> Option<Self> {
        Some(Self {
            id: path.file_stem()?.to_str()?.to_owned(),
            text: fs::read_to_string(path).ok()?,
        })
    }

    /// Returns a field of the front matter.
    pub fn field(&self, key: &str) -> Option<&str> {
        self.text
            .lines()
            .skip(1)
            .take_while(|line| *line != "---")
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
    }

    /// Returns the text below the front matter.
    pub fn body(&self) -> &str {
        self.text
            .splitn(3, "---\n")
            .nth(2)
            .expect("a command has front matter")
    }

    /// Returns `new`, `continue` or `end`.
    pub fn kind(&self) -> &str {
        self.field("command_type").expect("a command has a type")
    }

    /// Returns the session that the command names.
    pub fn session(&self) -> &str {
        self.field("session_id").expect("a command has a session")
    }

    /// Returns the number of the task; 0 if it is for none.
    pub fn task(&self) -> u32 {
        self.field("task")
            .map_or(0, |number| number.parse().unwrap())
    }

    /// Returns the number of the attempt; 0 if it is none.
    pub fn attempt(&self) -> u32 {
        self.field("attempt")
            .map_or(0, |number| number.parse().unwrap())
    }
}

impl Exchange {
    /// Opens an exchange folder.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns a path in the folder.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the names in one of its folders, in order; a missing folder counts as empty.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name != ".gitkeep")
            .collect();
        names.sort();
        names
    }

    /// Reads every file of a folder with this ending.
    pub fn texts(&self, folder: &str, ending: &str) -> Vec<String> {
        self.names(folder)
            .iter()
            .filter(|name| name.ends_with(ending))
            .filter_map(|name| fs::read_to_string(self.path(folder).join(name)).ok())
            .collect()
    }

    /// Returns the commands that no worker has claimed.
    pub fn pending(&self) -> Vec<Command> {
        self.names("commands/pending")
            .iter()
            .filter_map(|name| Command::read(&self.path("commands/pending").join(name)))
            .collect()
    }

    /// Waits for a command that fits, and leaves it where it is.
    pub fn await_command(&self, what: &str, fits: impl Fn(&Command) -> bool) -> Command {
        let mut found = None;
        wait_until(what, || {
            found = self.pending().into_iter().find(&fits);
            found.is_some()
        });
        found.expect("it was waited for")
    }

    /// Waits for a command that fits, and claims it.
    pub fn take(&self, what: &str, fits: impl Fn(&Command) -> bool) -> Command {
        let command = self.await_command(what, fits);
        assert!(self.claim(&command.id), "{what}: somebody was faster");
        command
    }

    /// Waits for any command, and leaves it where it is.
    pub fn await_any(&self) -> Command {
        self.await_command("a command", |_| true)
    }

    /// Waits for the command of an attempt, and leaves it where it is.
    pub fn await_attempt(&self, number: u32) -> Command {
        self.await_command(&format!("attempt {number}"), |command| {
            command.attempt() == number
        })
    }

    /// Waits for any command, and takes it.
    pub fn take_any(&self) -> Command {
        self.take("a command", |_| true)
    }

    /// Waits for the command of a task, and takes it.
    pub fn take_task(&self, number: u32) -> Command {
        self.take(&format!("task {number}"), |command| {
            command.task() == number
        })
    }

    /// Claims a command; false if it is gone.
    pub fn claim(&self, id: &str) -> bool {
        let name = format!("{id}.md");
        fs::rename(
            self.path("commands/pending").join(&name),
            self.path("commands/processed").join(&name),
        )
        .is_ok()
    }

    /// Puts a report where the daemon expects it, in one step.
    pub fn submit(&self, id: &str, text: &str) {
        self.drop_report(&format!("report-{id}.md"), text.as_bytes());
    }

    /// Reports success on a command.
    pub fn succeed(&self, command: &Command, results: &str) {
        self.submit(&command.id, &report("SUCCESS", results));
    }

    /// Reports failure on a command.
    pub fn fail(&self, command: &Command, results: &str) {
        self.submit(&command.id, &report("FAILED", results));
    }

    /// Puts a file among the reports, in one step.
    pub fn drop_report(&self, name: &str, bytes: &[u8]) {
        let aside = self.path(format!("reports/.tmp/{name}"));
        fs::create_dir_all(aside.parent().unwrap()).unwrap();
        fs::write(&aside, bytes).unwrap();
        fs::rename(aside, self.path("reports/pending").join(name)).unwrap();
    }

    /// Waits until a folder has a file with that name.
    pub fn await_name(&self, folder: &str, name: &str) {
        wait_until(&format!("{folder}/{name} is there"), || {
            self.path(folder).join(name).exists()
        });
    }

    /// Waits until so many questions are open, and returns their texts with their ids.
    pub fn await_questions(&self, count: usize) -> Vec<(String, String)> {
        let mut found = Vec::new();
        wait_until(&format!("{count} questions are open"), || {
            found = self.questions();
            found.len() == count
        });
        found
    }

    /// Returns the open questions: id and text.
    pub fn questions(&self) -> Vec<(String, String)> {
        self.names("questions/pending")
            .iter()
            .filter_map(|name| {
                let id = name.strip_prefix("question-")?.strip_suffix(".md")?;
                let text = fs::read_to_string(self.path("questions/pending").join(name)).ok()?;
                (!id.contains('.')).then(|| (id.to_owned(), text))
            })
            .collect()
    }

    /// Fills in the file of a question, as a person with an editor does.
    pub fn fill_in(&self, id: &str, answer: &str, note: &str) {
        let path = self.path(format!("questions/pending/question-{id}.md"));
        let text = fs::read_to_string(&path).unwrap();
        let filled: Vec<String> = text
            .lines()
            .map(|line| match line.split(':').next() {
                Some("answer") => format!("answer: {answer}"),
                Some("note") => format!("note: {note}"),
                _ => line.to_owned(),
            })
            .collect();
        fs::write(path, filled.join("\n")).unwrap();
    }
}

impl Agent {
    /// Starts an agent that treats each command as the closure says; commands that end a session it only claims.
    pub fn start(exchange: &Exchange, script: impl Fn(&Command) -> Act + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let work = Work {
            exchange: exchange.clone(),
            script: Box::new(script),
            stop: Arc::clone(&stop),
            seen: Arc::clone(&seen),
        };
        Self {
            stop,
            seen,
            worker: Some(thread::spawn(move || work.go_on())),
        }
    }

    /// Returns the commands that the agent has seen, in that order.
    pub fn seen(&self) -> Vec<Command> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns which tasks and attempts the agent has seen.
    pub fn attempts(&self) -> Vec<(u32, u32)> {
        self.seen()
            .iter()
            .filter(|command| command.kind() != "end")
            .map(|command| (command.task(), command.attempt()))
            .collect()
    }

    /// Returns the command of an attempt that the agent has seen.
    pub fn command(&self, task: u32, attempt: u32) -> Command {
        self.seen()
            .into_iter()
            .find(|command| command.task() == task && command.attempt() == attempt)
            .unwrap_or_else(|| panic!("no command for attempt {attempt} of task {task}"))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(worker) = self.worker.take()
            && worker.join().is_err()
            && !thread::panicking()
        {
            panic!("the scripted agent broke down");
        }
    }
}

struct Work {
    exchange: Exchange,
    script: Box<dyn Fn(&Command) -> Act + Send>,
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<Command>>>,
}

impl Work {
    fn go_on(&self) {
        let mut done = BTreeSet::new();
        while !self.stop.load(Ordering::SeqCst) {
            for command in self.exchange.pending() {
                if done.insert(command.id.clone()) {
                    self.work_on(&command);
                }
            }
            thread::sleep(LOOK);
        }
    }

    fn work_on(&self, command: &Command) {
        self.seen.lock().unwrap().push(command.clone());
        if command.kind() == "end" {
            self.exchange.claim(&command.id);
            return;
        }
        let act = (self.script)(command);
        match act {
            // If the command is gone, the agent leaves it alone: the daemon withdrew it.
            Act::Report(text) if self.exchange.claim(&command.id) => {
                self.exchange.submit(&command.id, &text);
            }
            Act::Report(_) | Act::Leave => {}
            Act::InPlace(text) => self.write_slowly(&command.id, &text),
        }
    }

    fn write_slowly(&self, id: &str, text: &str) {
        use std::io::Write;
        let path = self
            .exchange
            .path(format!("reports/pending/report-{id}.md"));
        let mut file = fs::File::create(path).unwrap();
        for byte in text.as_bytes() {
            file.write_all(&[*byte]).unwrap();
            thread::sleep(Duration::from_millis(10));
        }
    }
}
