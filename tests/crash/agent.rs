//! An agent that knows nothing but the files. It continues while the daemon is dead, and records everything that it saw and
//! did.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use super::scene::{Act, Scene, Way};
use crate::common::env::wait_until;

/// How often the agent scans its folder.
const LOOK: Duration = Duration::from_millis(2);
/// A report of this age is finished, so no test has to wait whether more is written to it.
const LONG_AGO: Duration = Duration::from_secs(10);

/// An event that is visible from outside.
#[derive(Clone, Copy, Debug)]
pub enum News {
    /// The agent has seen a command.
    Command,
    /// The agent has submitted a report.
    Report,
    /// The model was asked.
    Request,
}

/// Counts events and wakes the waiting threads.
#[derive(Default)]
pub struct Bell {
    counts: Mutex<[u64; 3]>,
    rang: Condvar,
}

impl Bell {
    pub fn ring(&self, news: News) {
        self.counts.lock().unwrap()[news as usize] += 1;
        self.rang.notify_all();
    }

    pub fn count(&self, news: News) -> u64 {
        self.counts.lock().unwrap()[news as usize]
    }

    /// Waits until there are more than `counted` events; `false` if none comes.
    pub fn wait(&self, news: News, counted: u64, most: Duration) -> bool {
        let counts = self.counts.lock().unwrap();
        let same = |counts: &mut [u64; 3]| counts[news as usize] == counted;
        let (_counts, outcome) = self.rang.wait_timeout_while(counts, most, same).unwrap();
        !outcome.timed_out()
    }
}

/// The speed of the agent.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// As fast as it can.
    Free,
    /// Its last report comes only after so many kills, the earlier ones in proportion.
    Kills(usize),
}

/// Everything that the agent saw and did.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The text of each command, including `end` of sessions.
    pub seen: BTreeMap<String, String>,
    /// Commands that were moved to `processed`.
    pub taken: BTreeSet<String>,
    pub reports: Vec<Brought>,
    /// Reports that were finished while no daemon ran.
    pub while_dead: usize,
    /// Violations of what must always hold.
    pub faults: Vec<String>,
}

/// A finished report.
#[derive(Clone, Debug)]
pub struct Brought {
    pub command: String,
    pub name: String,
    pub text: String,
    pub readable: bool,
}

struct Daemon {
    alive: bool,
    kills: usize,
}

struct Shared {
    volumes: PathBuf,
    scene: Scene,
    pace: Pace,
    bell: Arc<Bell>,
    record: Mutex<Record>,
    /// Locked while the agent writes a report that no daemon may see before it is finished.
    daemon: Mutex<Daemon>,
    jobs: Mutex<Vec<Job>>,
    stopped: Mutex<bool>,
}

struct Job {
    command: String,
    task: u32,
    attempt: u32,
    /// The name of the folder that it works in.
    folder: String,
    act: Act,
    /// A report that is being written in its place, and how much of it is written.
    begun: Option<(File, usize)>,
}

/// The agent; it ends when dropped.
pub struct Agent {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    pub fn start(volumes: &Path, scene: &Scene, pace: Pace, bell: &Arc<Bell>) -> Self {
        let shared = Arc::new(Shared {
            volumes: volumes.to_owned(),
            scene: scene.clone(),
            pace,
            bell: Arc::clone(bell),
            record: Mutex::default(),
            daemon: Mutex::new(Daemon {
                alive: false,
                kills: 0,
            }),
            jobs: Mutex::default(),
            stopped: Mutex::default(),
        });
        let inner = Arc::clone(&shared);
        let work = move || {
            while !*inner.stopped.lock().unwrap() {
                inner.take_commands();
                inner.go_on();
                thread::sleep(LOOK);
            }
        };
        Self {
            shared,
            thread: Some(thread::spawn(work)),
        }
    }

    pub fn record(&self) -> Record {
        self.shared.record().clone()
    }

    pub fn kills(&self) -> usize {
        self.shared.daemon.lock().unwrap().kills
    }

    /// Marks that a daemon is about to start.
    pub fn alive(&self) {
        self.shared.daemon.lock().unwrap().alive = true;
    }

    /// Marks that the daemon is dead, and finishes the reports that wait for that.
    pub fn dead(&self) {
        {
            let mut daemon = self.shared.daemon.lock().unwrap();
            daemon.alive = false;
            daemon.kills += 1;
        }
        wait_until("the agent reports to nobody", || {
            let jobs = self.shared.jobs.lock().unwrap();
            let held = |job: &Job| job.act.way == Way::WhileDead && self.shared.may_report();
            !jobs.iter().any(held)
        });
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        *self.shared.stopped.lock().unwrap() = true;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported already.
            drop(thread.join());
        }
    }
}

impl Shared {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap()
    }

    fn path(&self, folder: &str, command: &str) -> PathBuf {
        self.volumes.join(folder).join(format!("{command}.md"))
    }

    fn take_commands(&self) {
        let Ok(entries) = fs::read_dir(self.volumes.join("commands/pending")) else {
            return;
        };
        let names = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        let mut commands: Vec<String> = names
            .filter_map(|name| Some(name.strip_suffix(".md")?.to_owned()))
            .collect();
        commands.sort_unstable();
        for command in commands {
            // The daemon may have withdrawn it in the meantime.
            if let Ok(text) = fs::read_to_string(self.path("commands/pending", &command)) {
                self.take(&command, &text);
            }
        }
    }

    fn take(&self, command: &str, text: &str) {
        let mut record = self.record();
        if record.taken.contains(command) {
            record
                .faults
                .push(format!("{command} came back after it was taken"));
            return;
        }
        match record.seen.insert(command.to_owned(), text.to_owned()) {
            Some(before) if before != text => record
                .faults
                .push(format!("{command} has another text now")),
            Some(_) => return,
            None => {}
        }
        drop(record);
        self.bell.ring(News::Command);
        if field(text, "command_type") == Some("end") {
            return self.claim(command);
        }
        let number = |name| field(text, name).unwrap().parse().unwrap();
        let (task, attempt) = (number("task"), number("attempt"));
        let folder = Path::new(field(text, "workspace").unwrap());
        let mut act = (self.scene.act)(task, attempt);
        if act.status.is_none() && text.contains("could not be read") {
            act.status = Some("SUCCESS");
        }
        if act.way != Way::Unclaimed {
            self.claim(command);
        }
        let job = Job {
            command: command.to_owned(),
            task,
            attempt,
            folder: folder.file_name().unwrap().display().to_string(),
            act,
            begun: None,
        };
        self.begin(job);
    }

    fn begin(&self, job: Job) {
        let mut jobs = self.jobs.lock().unwrap();
        if (self.scene.locked)(job.task)
            && let Some(other) = jobs.iter().find(|job| (self.scene.locked)(job.task))
        {
            let said = |job: &Job| {
                let (command, task, attempt) = (&job.command, job.task, job.attempt);
                let begun = job.begun.is_some();
                format!("{command} (task {task}, attempt {attempt}, reporting {begun})")
            };
            let fault = format!("{} and {} have one lock", said(&job), said(other));
            self.record().faults.push(fault);
        }
        jobs.push(job);
    }

    fn claim(&self, command: &str) {
        let mut record = self.record();
        fs::rename(
            self.path("commands/pending", command),
            self.path("commands/processed", command),
        )
        .unwrap();
        record.taken.insert(command.to_owned());
    }

    fn may_report(&self) -> bool {
        match self.pace {
            Pace::Free => true,
            Pace::Kills(all) => {
                let brought = self.record().reports.len();
                let kills = self.daemon.lock().unwrap().kills;
                let reports = self.scene.reports * self.scene.folders.len();
                kills * reports >= (brought + 1) * all
            }
        }
    }

    fn go_on(&self) {
        let mut jobs = self.jobs.lock().unwrap();
        // A report that has been begun continues: after seconds of silence in the middle, the daemon would ask for the report
        // again.
        jobs.retain_mut(|job| {
            let goes_on = job.begun.is_some() || self.may_report();
            !(goes_on && self.report(job))
        });
    }

    /// Writes the next part of a report; returns whether it is finished.
    fn report(&self, job: &mut Job) -> bool {
        let name = format!("report-{}.md", job.command);
        let text = job.text();
        let pending = self.volumes.join("reports/pending");
        let way = job.act.way;
        match way {
            Way::InPlace => {
                let new = || (File::create(pending.join(&name)).unwrap(), 0);
                let (file, there) = job.begun.get_or_insert_with(new);
                file.write_all(&text.as_bytes()[*there..=*there]).unwrap();
                *there += 1;
                if *there < text.len() {
                    return false;
                }
                job.begun = None;
            }
            Way::WhileDead if matches!(self.pace, Pace::Kills(_)) => {
                let daemon = self.daemon.lock().unwrap();
                if daemon.alive {
                    return false;
                }
                self.bring(&name, &text, Some(LONG_AGO));
                drop(daemon);
                self.record().while_dead += 1;
            }
            Way::Fresh => self.bring(&name, &text, None),
            _ => self.bring(&name, &text, Some(LONG_AGO)),
        }
        let mut names = vec![name];
        if way == Way::Twice {
            let short = format!("report-{}.md", job.command.trim_start_matches("task-"));
            self.bring(&short, &text, Some(LONG_AGO));
            names.push(short);
        }
        for name in names {
            self.record().reports.push(Brought {
                command: job.command.clone(),
                name,
                text: text.clone(),
                readable: job.act.status.is_some(),
            });
        }
        if way == Way::Unclaimed {
            self.claim(&job.command);
        }
        self.bell.ring(News::Report);
        true
    }

    fn bring(&self, name: &str, text: &str, finished: Option<Duration>) {
        let elsewhere = self.volumes.with_file_name(name);
        fs::write(&elsewhere, text).unwrap();
        if let Some(ago) = finished {
            let file = File::options().append(true).open(&elsewhere).unwrap();
            file.set_modified(SystemTime::now() - ago).unwrap();
        }
        fs::rename(&elsewhere, self.volumes.join("reports/pending").join(name)).unwrap();
    }
}

impl Job {
    fn text(&self) -> String {
        let (task, attempt, folder) = (self.task, self.attempt, &self.folder);
        let Some(status) = self.act.status else {
            return format!("Part {task} is done, I think.\n");
        };
        format!(
            "---\nstatus: {status}\nsession_id: session-{task}\n---\n\n## Core results\n\nPart {task} at attempt {attempt} in {folder}.\n"
        )
    }
}

/// Returns a field of a command's front matter.
pub fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))?;
    Some(line.trim())
}
