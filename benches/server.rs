//! Plans on a PostgreSQL server that the bench starts itself: durable changes, the take-over of plans whose daemon is killed, the
//! way of a report through a relay, and what idle relays cost. The floor is what the same server takes to commit one row.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use plan_agent::config::{Environment, StoreConfig, StoreUrl};
use plan_agent::plan::Time;
use plan_agent::store::{Store, StorePlace};
use postgres::{Client, NoTls};
use tempfile::TempDir;

use crate::cluster::{Cluster, own_cluster};
use crate::disk::{self, Arrivals};
use crate::latency::{Running, WORK, program};
use crate::table::{Times, against, ms, print, ratio};
use crate::{changes, row, sample};

/// The plans whose daemon is killed.
const TAKEN: usize = 20;

/// Reports that go through a relay.
const STEPS: usize = 100;

const RELAYS: usize = 100;

/// How long idle relays are watched.
const WATCHED: Duration = Duration::from_secs(20);

/// Longer than anything here takes.
const DEADLINE: Duration = Duration::from_secs(120);

pub fn run() {
    let settings = ["fsync=on", "max_connections=500"];
    let Some(cluster) = own_cluster(&settings, "UTF8", &[]) else {
        return;
    };
    let floor = floor(&cluster);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let rate = runtime.block_on(changes_a_second(&cluster.schema()));
    let steps = through_relay(&cluster.schema(), true);
    let plain = through_relay(&cluster.schema(), false);
    let taken = take_over(&cluster.schema());
    let idle = idle_relays(&cluster.schema());
    let most = taken.percentile(100).as_secs_f64();
    print(
        "server: plans on PostgreSQL",
        &[
            row!["the server commits one row, p50", ms(floor.p50())],
            row![
                "changes a second of 16 callers in 100 plans of 1,000 tasks",
                format!("{rate:.0} (aim: at least 500)")
            ],
            row![
                "report at a relay → next command there, p50",
                ms(steps.p50())
            ],
            row!["… p99", ms(steps.p99())],
            row![
                "… against the commit of one row",
                against(ratio(steps.p50(), floor.p50()), 3.0)
            ],
            row!["the same without git, p50", ms(plain.p50())],
            row!["… p99", ms(plain.p99())],
            row![
                "… against the commit of one row",
                against(ratio(plain.p50(), floor.p50()), 3.0)
            ],
            row![
                "take-over after the last renewal, p50",
                format!("{:.1} s", taken.p50().as_secs_f64())
            ],
            row![
                format!("… the longest of {TAKEN}"),
                format!("{} s", against(most, 18.0))
            ],
            row![
                format!("{RELAYS} idle relays, of a core of the server"),
                format!("{} %", against(idle, 5.0))
            ],
        ],
    );
}

/// Commits one row again and again.
fn floor(cluster: &Cluster) -> Times {
    let mut client = Client::connect(&cluster.url("postgres", ""), NoTls).unwrap();
    let made =
        "CREATE TABLE floor (id BIGINT PRIMARY KEY, n BIGINT); INSERT INTO floor VALUES (1, 0)";
    client.batch_execute(made).unwrap();
    let update = client.prepare("UPDATE floor SET n = n + 1").unwrap();
    let step = |_| {
        let begun = Instant::now();
        client.execute(&update, &[]).unwrap();
        begun.elapsed()
    };
    Times::new((0..300).map(step).collect())
}

async fn changes_a_second(url: &str) -> f64 {
    const CALLERS: usize = 16;
    const CHANGES: usize = 60;
    let config = StoreConfig {
        url: Some(StoreUrl::try_from(url.to_owned()).unwrap()),
    };
    let place = StorePlace::configured(&config, PathBuf::new(), &Environment::of_process());
    let store: Store = place.unwrap().open(|| Time(1)).await.unwrap();
    sample::fill(&store, 100, 1_000).await;
    let begun = Instant::now();
    let caller = |caller: usize| {
        let store = store.clone();
        tokio::spawn(async move {
            for number in 0..CHANGES {
                let plan = sample::plan((caller * 6 + number) % 100);
                changes::change(store.clone(), plan, 1_000, caller * 100 + number).await;
            }
        })
    };
    let callers: Vec<_> = (0..CALLERS).map(caller).collect();
    for caller in callers {
        caller.await.unwrap();
    }
    (CALLERS * CHANGES) as f64 / begun.elapsed().as_secs_f64()
}

/// A folder with a clone of a project, as on a machine of its own.
struct Machine {
    folder: TempDir,
    /// What a person confirmed is recorded where agents cannot write.
    state: TempDir,
    url: String,
}

impl Machine {
    fn new(url: &str, of: Option<&Path>) -> Self {
        let folder = disk::folder();
        let project = folder.path().join("project");
        let config = "run.workspace = 'project'\nrun.isolation = 'worktree'\nrun.max_plans = 50\nprojects.app = 'project'\n";
        fs::write(folder.path().join("config.toml"), config).unwrap();
        match of {
            Some(other) => git(
                folder.path(),
                &["clone", "-q", &other.display().to_string(), "project"],
            ),
            None => {
                fs::create_dir(&project).unwrap();
                fs::write(project.join("a.txt"), "a\n").unwrap();
                git(&project, &["init", "-q"]);
                git(&project, &["add", "."]);
                git(
                    &project,
                    &[
                        "-c",
                        "user.name=a",
                        "-c",
                        "user.email=a@b",
                        "commit",
                        "-qm",
                        "a",
                    ],
                );
            }
        }
        Self {
            folder,
            state: tempfile::tempdir().unwrap(),
            url: url.to_owned(),
        }
    }

    /// One whose project is a folder without git.
    fn plain(url: &str) -> Self {
        let folder = disk::folder();
        fs::create_dir(folder.path().join("project")).unwrap();
        let config = "run.workspace = 'project'\nprojects.app = 'project'\n";
        fs::write(folder.path().join("config.toml"), config).unwrap();
        Self {
            folder,
            state: tempfile::tempdir().unwrap(),
            url: url.to_owned(),
        }
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn command(&self, words: &str) -> Command {
        let words: Vec<&str> = ["--config", "config.toml"]
            .into_iter()
            .chain(words.split(' '))
            .collect();
        let mut command = program(self.folder.path(), &words);
        command
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.state.path())
            .env("XDG_STATE_HOME", self.state.path())
            .env("PLAN_AGENT_LLM_PROVIDER", "none")
            .env("PLAN_AGENT_STORE_URL", &self.url);
        command
    }

    fn start(&self, words: &str) -> Running {
        Running(self.command(words).spawn().unwrap())
    }

    fn runs(&self, words: &str) {
        assert!(self.command(words).status().unwrap().success(), "{words}");
    }
}

fn git(folder: &Path, words: &[&str]) {
    let mut git = Command::new("git");
    assert!(
        git.args(words)
            .current_dir(folder)
            .status()
            .unwrap()
            .success()
    );
}

/// Returns how long each plan was without a daemon after its last renewal, where that was killed.
fn take_over(url: &str) -> Times {
    let here = Machine::new(url, None);
    let there = Machine::new(url, Some(&here.project()));
    here.runs("store migrate");
    fs::write(here.folder.path().join("plan.md"), sample::plan_file(2)).unwrap();
    for _ in 0..TAKEN {
        here.runs("run --plan plan.md --queue --no-input");
    }
    let first = here.start("daemon");
    let mut client = Client::connect(url, NoTls).unwrap();
    let held = "SELECT count(*) FROM plans WHERE held_until > extract(epoch FROM clock_timestamp()) * 1000000";
    until("the plans are held", || {
        client.query_one(held, &[]).unwrap().get::<_, i64>(0) == TAKEN as i64
    });
    let _second = there.start("daemon");
    thread::sleep(Duration::from_secs(5));
    drop(first);
    let renewed = "SELECT id, epoch, held_until - 15000000 FROM plans";
    let mut left: Vec<(String, i64, i64)> = client
        .query(renewed, &[])
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect();
    let mut times = Vec::new();
    let now =
        "SELECT id, epoch, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM plans";
    until("they are taken over", || {
        for row in client.query(now, &[]).unwrap() {
            let (id, epoch, now): (String, i64, i64) = (row.get(0), row.get(1), row.get(2));
            let taken = |known: &mut (String, i64, i64)| known.0 == id && known.1 < epoch;
            for (_, _, renewed) in left.extract_if(.., taken) {
                times.push(Duration::from_micros((now - renewed).unsigned_abs()));
            }
        }
        left.is_empty()
    });
    Times::new(times)
}

/// Returns how long the next command of a relay takes to come after a report there.
fn through_relay(url: &str, git: bool) -> Times {
    let [here, there] = match git {
        true => {
            let here = Machine::new(url, None);
            let there = Machine::new(url, Some(&here.project()));
            [here, there]
        }
        false => [Machine::plain(url), Machine::plain(url)],
    };
    here.runs("store migrate");
    let pending = there.folder.path().join("volumes/commands/pending");
    fs::create_dir_all(&pending).unwrap();
    let mut commands = Arrivals::of(&pending);
    let _relay = there.start("relay");
    let plan = sample::plan_file(STEPS + 1);
    fs::write(here.folder.path().join("plan.md"), plan).unwrap();
    let _daemon = here.start("run --plan plan.md --agent relay --no-input");
    let report = sample::report();
    let volumes = there.folder.path().join("volumes");
    let mut command = commands.next().expect("no command came to the relay");
    let mut times = Vec::new();
    for _ in 0..STEPS {
        let claimed = volumes.join("commands/processed").join(&command);
        fs::rename(pending.join(&command), claimed).unwrap();
        let made = volumes.join("report.tmp");
        fs::write(&made, &report).unwrap();
        thread::sleep(WORK);
        let begun = Instant::now();
        let place = format!("reports/pending/report-{command}");
        fs::rename(made, volumes.join(place)).unwrap();
        command = commands.next().expect("no next command came");
        times.push(begun.elapsed());
    }
    Times::new(times)
}

/// Returns which part of a core the server needs for idle relays, in percent.
fn idle_relays(url: &str) -> f64 {
    let machines: Vec<Machine> = (0..RELAYS).map(|_| Machine::new(url, None)).collect();
    machines[0].runs("store migrate");
    let _relays: Vec<Running> = machines.iter().map(|one| one.start("relay")).collect();
    let mut client = Client::connect(url, NoTls).unwrap();
    let known = "SELECT count(*) FROM relays";
    until("the relays are known", || {
        client.query_one(known, &[]).unwrap().get::<_, i64>(0) == RELAYS as i64
    });
    let before = server_time();
    thread::sleep(WATCHED);
    let used = server_time() - before;
    100.0 * used / WATCHED.as_secs_f64()
}

/// Returns the seconds of a processor that all processes of servers here have used.
fn server_time() -> f64 {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let stats = processes.filter_map(|one| fs::read_to_string(one.path().join("stat")).ok());
    let used = stats
        .filter(|stat| stat.contains("(postgres)"))
        .map(|stat| {
            let (_, fields) = stat.rsplit_once(')').unwrap();
            let field = |at: usize| {
                fields
                    .split_whitespace()
                    .nth(at)
                    .unwrap()
                    .parse::<f64>()
                    .unwrap()
            };
            (field(11) + field(12)) / 100.0
        });
    used.sum()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < DEADLINE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(50));
    }
}
