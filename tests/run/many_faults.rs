//! Several daemons and relays on one PostgreSQL server, while processes are killed, connections fail and the server itself goes:
//! nothing is lost, nothing counts twice, and nobody writes what another one holds. Few faults here, many in `.ci/long`.

mod away;
mod clocks;
mod history;
mod nat;
mod proxy;
mod servers;

use std::fmt::Write as _;
use std::time::Duration;

use super::many_machines::Machine;
use super::*;
use crate::common::env::{row, times, wait_at_most};
use crate::common::git::git;
use crate::common::postgres::{empty_store, own_cluster, run_sql};
use crate::common::random::Random;
use proxy::{Fault, Proxy, Way};

const DAEMON: &str = "daemon";
const RELAY: &str = "relay --lanes 2 --agent command -- sh agent.sh {report}";
/// Without an agent: the test works with its files.
const BY_HAND: &str = "relay --lanes 4";

/// Makes the file of its task, which the name of its worktree tells, and reports. The first task of a plan fails once.
const AGENT: &str = r#"
task=${PWD##*/task-}
sleep 0.1
status=SUCCESS
if [ "$task" = 1 ] && mkdir ../once; then status=FAILED; else echo "$task" > "$task.txt"; fi
printf -- '---\nstatus: %s\n---\n\n## Core results\n\nPart %s.\n' $status "$task" > "$1.part"
mv "$1.part" "$1"
"#;

/// What the configuration of a machine has besides.
const CONFIG: &str = "\
run.workspace = 'project'
run.isolation = 'worktree'
run.worktrees = 'worktrees'
run.max_attempts = 1000
run.max_parallel = 4
run.max_plans = 1
budget.attempts = 1000000
projects.app = 'project'
";

/// A machine whose process is killed and started again.
struct Post {
    machine: Machine,
    words: String,
    proxy: Proxy,
    running: Option<Running>,
}

/// Two daemons and some relays on one server, and a person who looks.
struct Field {
    url: String,
    person: Scene,
    daemons: Vec<Post>,
    relays: Vec<Post>,
    chance: Random,
}

impl Post {
    fn start(&mut self) {
        let env = &self.machine.scene.env;
        let mut said = File::options();
        let said = said
            .append(true)
            .create(true)
            .open(env.path("said"))
            .unwrap();
        self.running = Some(env.spawn(&self.words, said.try_clone().unwrap(), said));
    }

    /// Starts it if it does not run: where it cannot reach the server at its start, it ends.
    fn keep(&mut self) {
        let running = self.running.as_mut();
        if running.is_none_or(|it| it.child.try_wait().unwrap().is_some()) {
            self.start();
        }
    }

    fn kill(&mut self) {
        self.running = None;
    }

    /// Kills the agents here, which work in the worktrees.
    fn kill_agents(&self) {
        let worktrees = self.machine.scene.env.path("worktrees");
        let Ok(worktrees) = worktrees.canonicalize() else {
            return;
        };
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let path = process.path();
            let works_there =
                fs::read_link(path.join("cwd")).is_ok_and(|it| it.starts_with(&worktrees));
            let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
            let pid = process
                .file_name()
                .to_str()
                .and_then(|pid| pid.parse().ok());
            if let Some(pid) = pid.and_then(Pid::from_raw)
                && works_there
                && ["sh\n", "sleep\n"].contains(&&*name)
            {
                // It may have ended by itself.
                kill_process(pid, Signal::KILL).ok();
            }
        }
    }

    fn said(&self) -> String {
        fs::read_to_string(self.machine.scene.env.path("said")).unwrap_or_default()
    }
}

impl Field {
    /// Makes a server's machines, without a process; `None` where there is no git.
    fn on(url: String, daemons: usize, relays: usize) -> Option<Self> {
        let seed = std::env::var("PLAN_AGENT_FAULT_SEED").ok();
        let seed = seed.map_or_else(
            || uuid::Uuid::new_v4().as_u64_pair().0,
            |seed| seed.parse().unwrap(),
        );
        row(format!("PLAN_AGENT_FAULT_SEED={seed}"));
        let first = Machine::first(&url)?;
        let mut person = Scene::by_rules("");
        person.env.set("PLAN_AGENT_STORE_URL", &url);
        person.works("store migrate");
        history::keep(&url);
        let post = |words, name: String| Self::post(&first, &url, words, &name);
        Some(Self {
            daemons: (1..=daemons)
                .map(|it| post(DAEMON, format!("daemon{it}")))
                .collect(),
            relays: (1..=relays)
                .map(|it| post(RELAY, format!("relay{it}")))
                .collect(),
            person,
            url,
            chance: Random::new(seed),
        })
    }

    fn new(daemons: usize, relays: usize) -> Option<Self> {
        Self::on(empty_store()?, daemons, relays)
    }

    fn post(first: &Machine, url: &str, words: &str, name: &str) -> Post {
        let (before, behind) = url.split_once("127.0.0.1:").unwrap();
        let (port, behind) = behind.split_once('/').unwrap();
        let proxy = Proxy::before(port.parse().unwrap());
        let own = format!(
            "{before}127.0.0.1:{}/{behind}&application_name={name}",
            proxy.port
        );
        let machine = first.beside(&own);
        let agent = if words == DAEMON {
            "worker.agent = ['relay']"
        } else {
            ""
        };
        machine.scene.write(
            "config.toml",
            &format!("llm.provider = 'none'\n{CONFIG}{agent}"),
        );
        machine.scene.write("agent.sh", AGENT);
        let agent = machine.scene.env.path("agent.sh").display().to_string();
        Post {
            machine,
            words: words.replace("agent.sh", &agent),
            proxy,
            running: None,
        }
    }

    fn posts(&mut self) -> impl Iterator<Item = &mut Post> {
        self.daemons.iter_mut().chain(&mut self.relays)
    }

    /// Starts every process that does not run.
    fn keep(&mut self) {
        self.posts().for_each(Post::keep);
    }

    /// Queues a plan of so many tasks with the first daemon, and returns its id.
    fn queue(&self, tasks: usize) -> String {
        self.queue_plan(&plan(tasks))
    }

    fn queue_plan(&self, plan: &str) -> String {
        let env = &self.daemons[0].machine.scene.env;
        env.write("plan.md", plan);
        // Not through what may fail at the moment.
        let mut queue = env.command("run --plan plan.md --queue");
        let queued = queue
            .env("PLAN_AGENT_STORE_URL", &self.url)
            .output()
            .unwrap();
        assert!(queued.status.success(), "{queued:?}");
        let plans: Vec<Value> = self.person.json("plans --json");
        plans[0]["id"].as_str().unwrap().to_owned()
    }

    /// Returns which of the daemons holds a plan, or held it until it died: none where it gave the plan back.
    fn holder(&self, plan: &str) -> Option<usize> {
        let held = "SELECT holder FROM plans WHERE id = $1 AND held_until > 0";
        let holder: String = history::rows(&self.url, held, &[&plan]).first()?.get(0);
        let is = |post: &Post| holder.contains(&*post.machine.scene.env.path("").to_string_lossy());
        self.daemons.iter().position(is)
    }

    /// Returns whether a daemon has a plan, or has noted what the plan waits for.
    fn is_seen(&self, plan: &str) -> bool {
        let seen = "SELECT id FROM plans WHERE id = $1 AND holder <> ''";
        !history::rows(&self.url, seen, &[&plan]).is_empty()
    }

    fn status(&self, plan: &str) -> Value {
        self.person.json(format!("status {plan} --json"))
    }

    fn events(&self, plan: &str) -> Vec<Value> {
        lines(&self.person.works(format!("log {plan} --json")))
    }

    /// Waits until a plan is completed. Whoever ended is started again, and what a process that is gone had claimed is let go
    /// at once instead of after a minute: who lives says so every ten seconds.
    #[track_caller]
    fn await_completed(&mut self, plan: &str) {
        let mut status = Value::Null;
        wait_until(&format!("plan {plan} is completed"), || {
            self.keep();
            self.let_go();
            status = self.status(plan);
            status["plan"]["status"] == "completed"
        });
    }

    /// Returns a text that differs when something is new on the server.
    fn news(&self) -> String {
        let all = "SELECT (SELECT count(*) FROM history)::TEXT || ' ' || \
            (SELECT coalesce(sum(10 * claim + reported), 0) FROM relayed)";
        history::rows(&self.url, all, &[])[0].get(0)
    }

    fn let_go(&self) {
        let lost = "UPDATE relayed SET held_until = 1 WHERE reported = 0 AND held_until < relay_now() + 45000000";
        run_sql(&self.url, lost);
    }

    fn await_reported(&self, plan: &str) {
        wait_until("a report counts", || {
            self.person
                .works(format!("log {plan} --json"))
                .contains("\"reported\"")
        });
    }

    /// Checks the history of a completed plan and its results.
    fn check(&self, plan: &str, tasks: usize) -> Vec<String> {
        let held = history::check(&self.url, plan);
        history::check_events(&self.events(plan));
        let last: usize = held
            .last()
            .unwrap()
            .strip_prefix("daemon")
            .unwrap()
            .parse()
            .unwrap();
        let project = &self.daemons[last - 1].machine.project;
        let added = format!(
            "log --first-parent --diff-filter=A --format= --name-only main..plan-agent/{plan}"
        );
        let mut added: Vec<String> = git(project, &added).lines().map(str::to_owned).collect();
        added.sort();
        let mut made: Vec<String> = (1..=tasks).map(|task| format!("{task}.txt")).collect();
        made.sort();
        assert_eq!(added, made, "each task's result once");
        for task in 1..=tasks {
            let made = git(
                project,
                format!("show plan-agent/{plan}:{task}.txt").as_str(),
            );
            assert_eq!(made, format!("{task}\n"));
        }
        held
    }
}

/// A failed test shows who changed the last plan, and what the processes said last.
impl Drop for Field {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let show = |text: &str| {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(30)..].iter().for_each(row);
        };
        show(&self.person.run("log").stdout);
        let plans = "SELECT row_to_json(p)::TEXT FROM plans p ORDER BY id DESC LIMIT 3";
        for plan in history::rows(&self.url, plans, &[]) {
            row(plan.get::<_, String>(0));
        }
        for post in self.posts() {
            show(&post.said());
            show(
                &fs::read_to_string(post.machine.scene.path("logs/daemon.log")).unwrap_or_default(),
            );
        }
    }
}

/// Returns a plan whose tasks each make a file.
fn plan(tasks: usize) -> String {
    let mut text = "---\nname: Parts\ngoal: Make the parts\n---\n".to_owned();
    for task in 1..=tasks {
        write!(text, "\n## Part {task}\n\n- produces: {task}.txt\n").unwrap();
        if task > 3 {
            writeln!(text, "- after: {}", task - 3).unwrap();
        }
        writeln!(text, "\nMake it.").unwrap();
    }
    text
}

/// Plans one after the other, so that there is work at every moment.
struct Work {
    plans: Vec<String>,
    tasks: usize,
}

impl Work {
    fn begin(field: &mut Field, tasks: usize) -> Self {
        field.keep();
        let plans = vec![field.queue(tasks)];
        Self { plans, tasks }
    }

    fn plan(&self) -> &str {
        self.plans.last().unwrap()
    }

    /// Waits until something holds, with everybody at work meanwhile.
    fn until(&mut self, field: &mut Field, what: &str, condition: impl Fn(&Field) -> bool) {
        wait_until(what, || {
            field.keep();
            field.let_go();
            if field.status(self.plan())["plan"]["status"] == "completed" {
                self.plans.push(field.queue(self.tasks));
            }
            condition(field)
        });
    }

    /// Waits until something is new.
    fn goes_on(&mut self, field: &mut Field) {
        let before = field.news();
        self.until(field, "something is new", |field| field.news() != before);
    }

    /// Waits until everything is completed, and checks all of it. Returns who held the plans, one after the other.
    fn end(&self, field: &mut Field) -> Vec<Vec<String>> {
        field.await_completed(self.plan());
        let check = |plan: &String| field.check(plan, self.tasks);
        self.plans.iter().map(check).collect()
    }
}

/// Kills a process or the agents of a relay; with a daemon that holds the plan, now and then another one goes on.
fn kill_any(field: &mut Field, plan: &str) {
    let what = field.chance.below(10);
    let posts = match what {
        0..=3 => &mut field.daemons,
        _ => &mut field.relays,
    };
    let which = field.chance.below(posts.len() as u64) as usize;
    match what {
        3 => take_over(field, plan),
        0..=7 => posts[which].kill(),
        _ => posts[which].kill_agents(),
    }
}

/// Kills the daemon that holds a plan, and waits until the other one has it.
fn take_over(field: &mut Field, plan: &str) {
    let Some(holder) = field.holder(plan) else {
        return;
    };
    field.daemons[holder].kill();
    run_sql(
        &field.url,
        "UPDATE plans SET held_until = 1 WHERE held_until > 0",
    );
    // Not where the first one had given it back, as it noted what the plan waits for: then it stays that one's own.
    wait_until("the other daemon has it", || {
        field.daemons[1 - holder].keep();
        field.holder(plan) != Some(holder) || field.status(plan)["plan"]["status"] == "completed"
    });
}

#[test]
fn kills_of_daemons_relays_and_agents_lose_nothing() {
    let Some(mut field) = Field::new(2, 4) else {
        return;
    };
    let mut work = Work::begin(&mut field, times(6, 12));
    for kill in 0..times(8, 1_000) {
        if kill % 100 == 0 {
            row(kill);
        }
        work.goes_on(&mut field);
        match kill {
            3 => take_over(&mut field, work.plan()),
            _ => kill_any(&mut field, work.plan()),
        }
    }
    let held = work.end(&mut field);
    assert!(held.iter().any(|held| held.len() > 1), "{held:?}");
}

/// Each kind of cut; those of a relay fit its calls.
fn cut(kind: u64, statement: &'static str, chance: &mut Random) -> Fault {
    match kind {
        0 => Fault::Silent(None),
        1 => Fault::Silent(Some(Way::ToServer)),
        2 => Fault::Silent(Some(Way::ToClient)),
        3 => Fault::Late(Duration::from_secs(2)),
        4 => Fault::Reset,
        5 => Fault::Within(statement, chance.below(40) as usize),
        _ => Fault::Within(statement, usize::MAX),
    }
}

#[test]
fn cuts_of_connections_lose_nothing() {
    let Some(mut field) = Field::new(2, 4) else {
        return;
    };
    let mut work = Work::begin(&mut field, 6);
    for number in 0..times(7, 500) {
        if number % 100 == 0 {
            row(number);
        }
        work.goes_on(&mut field);
        let which = number % 2;
        let calls = &[
            "SELECT relay_report",
            "SELECT held FROM relay_beat",
            "SELECT id, claim",
        ];
        let statement = match which {
            0 => "COMMIT",
            _ => *field.chance.of(&calls[..times(1, 3)]),
        };
        let fault = cut(number % 7, statement, &mut field.chance);
        // A silence of a second and more.
        let least = match fault {
            Fault::Silent(_) => 50,
            _ => 1,
        };
        let at = |field: &Field, act: &mut dyn FnMut(&Proxy)| {
            let posts = [&field.daemons, &field.relays][which as usize];
            posts.iter().for_each(|it| act(&it.proxy));
        };
        at(&field, &mut |proxy| proxy.fail(fault));
        work.until(&mut field, &format!("{fault:?} is met"), |field| {
            let mut met = 0;
            at(field, &mut |proxy| met += proxy.met());
            met >= least
        });
        at(&field, &mut Proxy::heal);
    }
    work.end(&mut field);
}

#[test]
fn server_that_is_killed_again_and_again_loses_nothing() {
    let Some(mut cluster) = own_cluster(&[], "UTF8", &[]) else {
        return;
    };
    let Some(mut field) = Field::on(cluster.schema(), 2, 4) else {
        return;
    };
    let mut work = Work::begin(&mut field, 6);
    for _ in 0..times(3, 60) {
        work.goes_on(&mut field);
        cluster.stop();
        field.keep();
        cluster.start();
    }
    work.end(&mut field);
}

#[test]
fn daemon_that_is_cut_off_writes_nothing_more() {
    let Some(mut field) = Field::new(2, 1) else {
        return;
    };
    let mut work = Work::begin(&mut field, 6);
    let plan = work.plan().to_owned();
    work.until(&mut field, "a daemon has it", |field| {
        field.holder(&plan).is_some()
    });
    work.goes_on(&mut field);
    field.daemons[0].proxy.fail(Fault::Silent(None));
    work.until(&mut field, "the other daemon has it", |field| {
        field.holder(&plan) == Some(1)
    });
    field.daemons[0].proxy.heal();
    let held = work.end(&mut field);
    assert_eq!(held[0], ["daemon1", "daemon2"]);
}

/// As where the other end of a tunnel is gone: what is sent is acknowledged, and never answered.
#[test]
fn daemon_that_gets_no_answers_connects_anew() {
    let Some(mut field) = Field::new(1, 1) else {
        return;
    };
    let mut work = Work::begin(&mut field, 6);
    let plan = work.plan().to_owned();
    work.until(&mut field, "a daemon has it", |field| {
        field.holder(&plan).is_some()
    });
    field.daemons[0].proxy.strand();
    let running = field.daemons[0].running.as_ref().unwrap().child.id();
    work.end(&mut field);
    let daemon = field.daemons[0].running.as_ref().unwrap();
    assert_eq!(daemon.child.id(), running, "it was not started again");
}

/// Makes a daemon, and so many relays whose agent is the test.
fn by_hand(relays: usize) -> Option<Field> {
    let mut field = Field::new(1, relays)?;
    field
        .relays
        .iter_mut()
        .for_each(|relay| relay.words = BY_HAND.to_owned());
    field.daemons[0].start();
    Some(field)
}

impl Post {
    /// Takes so many commands.
    fn take(&self, count: usize) -> Vec<Command> {
        let scene = &self.machine.scene;
        // Hundreds of worktrees are made one after the other.
        let most = times(1, 5) * DEADLINE;
        wait_at_most(most, &format!("{count} commands are there"), || {
            scene.pending().len() == count
        });
        let commands = scene.pending();
        assert!(commands.iter().all(|command| scene.claim(&command.id)));
        commands
    }

    /// Does a task, with these words in its file.
    fn does(&self, command: &Command, words: &str) {
        let file = format!("{}.txt", command.task());
        let folder = PathBuf::from(command.field("workspace").unwrap());
        fs::write(folder.join(file), format!("{words}\n")).unwrap();
        self.machine.scene.succeed(command, words);
    }
}
