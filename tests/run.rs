//! Plans carried out from outside: the real program, a scripted agent that knows only the files, and a scripted model
//! behind real HTTP.

mod asking;
mod away;
mod before_the_work;
mod budget;
mod clock;
mod control;
mod control_tools;
mod crew;
mod criteria;
mod damage;
mod day_budget;
mod evening;
mod evidence;
mod false_success;
mod faults;
mod final_checks;
mod first_minute;
mod first_user;
mod folders;
mod history;
mod hooks;
mod hostile;
mod human;
mod internal;
mod isolation;
mod judge_and_facts;
mod judging;
mod killed;
mod lanes;
mod locks;
mod many_faults;
mod many_machines;
mod many_plans;
mod more_tricks;
mod notify;
mod own;
mod planning;
mod postgres;
mod relays;
mod remember;
mod reports;
mod repository;
mod roles;
mod staff;
mod steer;
mod taking_over;
mod team;
mod tools;
mod torn;
mod tricks;
mod tricks_of_state;
mod trust;
mod web_actions;
mod words;
mod workflow;

use std::fs::{self, File};
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::common::agent::{Act, Agent, Command, Exchange};
use crate::common::env::{
    Args, DEADLINE, Parts, Ran, Running, TestEnv, begins, has, lacks, lives, skip, wait_until,
};
use crate::common::llm::{Answer, Asked, LlmServer, SILENT, Then};

/// Three tasks, one after the other.
const CHAIN: &str = "\
---
name: A chain
goal: Make three files
---

## First

Make `one.txt`.

## Second

- after: 1

Make `two.txt`.

## Third

- after: 2

Make `three.txt`.
";

/// One task and nothing else.
const ONE: &str = "---\nname: One\ngoal: Make a file\n---\n\n## Only\n\nMake `one.txt`.\n";

/// Two tasks that do not wait for each other.
const TWO: &str = "---\nname: Two\ngoal: Make two files\n---\n\n## Left\n\nMake `left.txt`.\n\n## Right\n\nMake `right.txt`.\n";

/// A role that uses the tools of a server by a template.
const WITH_SERVER: &str = r#"
name: Server
roles:
- id: reader
  kind: agent
  tools: [docs.TaskCreate]
  templates:
  - name: note
    matches: [note]
    steps:
    - {name: Note, tool: docs.TaskCreate, params: {subject: "{{task.description}}"}}
- {id: coder, kind: files, worker: external}
"#;

/// The two API shapes of models.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Messages,
    Chat,
}

const SHAPES: [Shape; 2] = [Shape::Messages, Shape::Chat];

/// A folder with a configuration, in which plans are carried out.
struct Scene {
    env: TestEnv,
    exchange: Exchange,
}

/// A foreground run, with the files for its output.
struct Foreground {
    running: Running,
    out: PathBuf,
    err: PathBuf,
}

/// A daemon in the background; killed when dropped.
struct Left {
    pid: Pid,
    /// Means this process only, also when another one has its number by now; `None` if it has ended already.
    handle: Option<OwnedFd>,
}

impl Scene {
    /// Makes a scene without a model; the text is the rest of the configuration.
    fn by_rules(config: &str) -> Self {
        Self::new(&format!("llm.provider = 'none'\n{config}"))
    }

    /// Makes a scene with a model.
    fn with_model(server: &LlmServer, shape: Shape, config: &str) -> Self {
        let scene = Self::new("");
        scene.write_config(server, shape, config);
        scene
    }

    /// Writes the configuration again, with a model.
    fn write_config(&self, server: &LlmServer, shape: Shape, config: &str) {
        let (provider, url) = match shape {
            Shape::Messages => ("anthropic", server.url()),
            Shape::Chat => ("openai", server.openai_url()),
        };
        let model =
            format!("llm.provider = '{provider}'\nllm.base_url = '{url}'\nllm.model = 'scripted'");
        self.env.write("config.toml", &format!("{model}\n{config}"));
    }

    fn new(config: &str) -> Self {
        let env = TestEnv::new();
        env.write("config.toml", config);
        env.write("chain.md", CHAIN);
        env.write("one.md", ONE);
        env.write("two.md", TWO);
        let exchange = Exchange::at(env.path("volumes"));
        Self { env, exchange }
    }

    /// Starts an agent in this folder.
    fn agent(&self, script: impl Fn(&Command) -> Act + Send + 'static) -> Agent {
        Agent::start(&self.exchange, script)
    }

    /// Runs a command, which must succeed, and returns its output.
    fn works(&self, args: impl Args) -> String {
        self.env.run(args).exits(0).stdout
    }

    /// Runs a command, which must succeed, and returns the JSON that it prints.
    fn json<T: DeserializeOwned>(&self, args: impl Args) -> T {
        serde_json::from_str(&self.works(args)).unwrap()
    }

    /// Runs the program to its end.
    fn run(&self, args: impl Args) -> Ran {
        self.env.run(args)
    }

    /// Runs the program to its end, which must have this exit code.
    #[track_caller]
    fn exits(&self, code: i32, args: impl Args) -> Ran {
        self.env.exits(code, args)
    }

    /// Runs the program to its end, which must have this exit code, and these parts on the standard error output.
    #[track_caller]
    fn refuses(&self, code: i32, args: impl Args, parts: impl Parts) {
        self.env.refuses(code, args, parts);
    }

    /// Writes a file, and creates its folders.
    fn write(&self, name: &str, text: &str) {
        self.env.write(name, text);
    }

    /// Reads a file.
    /// Adds to the configuration.
    fn configure(&self, more: &str) {
        let config = self.read("config.toml");
        self.write("config.toml", &format!("{config}\n{more}\n"));
    }

    fn read(&self, name: &str) -> String {
        self.env.read(name)
    }

    /// Makes a named pipe; a process that opens it waits for the other end.
    fn pipe(&self, name: &str) -> PathBuf {
        let path = self.env.path(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        path
    }

    /// Starts the program in the foreground.
    fn start(&self, args: impl Args) -> Foreground {
        let (out, err) = (self.env.path("stdout.txt"), self.env.path("stderr.txt"));
        let files = [&out, &err].map(|file| File::create(file).unwrap());
        let [to_out, to_err] = files;
        let running = self.env.spawn(args, to_out, to_err);
        Foreground { running, out, err }
    }

    /// Starts a daemon in the background.
    fn leave(&self, args: impl Args) -> Left {
        // The arguments after `--` belong to the agent.
        let mut args = args.words();
        args.insert(1, "--detach");
        let said = self.works(&args);
        let pid = said
            .split_once("(pid ")
            .and_then(|(_, rest)| rest.split_once(')')?.0.parse().ok())
            .unwrap_or_else(|| panic!("no pid in {said}"));
        let pid = Pid::from_raw(pid).unwrap();
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok();
        Left { pid, handle }
    }

    /// Returns the newest plan's state.
    fn status(&self) -> Value {
        self.json("status --json")
    }

    /// Returns the log of the daemon and of the worker in its process.
    fn daemon_log(&self) -> String {
        self.env.read("volumes/logs/daemon.log")
    }

    /// Returns the state of each task.
    fn tasks(&self) -> Vec<String> {
        let status = self.status();
        let tasks = status["tasks"].as_array().unwrap();
        tasks
            .iter()
            .map(|task| task["status"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Returns all events of the newest plan.
    fn events(&self) -> Vec<Value> {
        lines(&self.works("log --json"))
    }

    /// Returns the events with one name.
    fn events_named(&self, name: &str) -> Vec<Value> {
        let mut events = self.events();
        events.retain(|event| event["event"] == name);
        events
    }

    /// Waits until an event with that name has happened `count` times.
    fn await_events(&self, name: &str, count: usize) -> Vec<Value> {
        let mut found = Vec::new();
        wait_until(&format!("{count} × {name}"), || {
            found = self.events_named(name);
            found.len() >= count
        });
        found
    }

    /// Waits until the plan is in a state.
    fn await_status(&self, status: &str) {
        wait_until(&format!("the plan is {status}"), || {
            self.status()["plan"]["status"] == status
        });
    }

    /// Waits until no daemon works here.
    fn await_end(&self) {
        wait_until("the daemon ends", || self.status()["daemon"].is_null());
    }
}

/// A scene is also the exchange folder in it.
impl Deref for Scene {
    type Target = Exchange;

    fn deref(&self) -> &Exchange {
        &self.exchange
    }
}

impl Foreground {
    /// Waits for the end.
    fn end(mut self) -> Ran {
        let code = self.running.wait().code();
        Ran {
            stdout: fs::read_to_string(&self.out).unwrap(),
            stderr: fs::read_to_string(&self.err).unwrap(),
            code,
        }
    }

    /// Presses Ctrl-C, and waits for the end.
    fn interrupted(self) -> Ran {
        self.signal(Signal::INT);
        self.end()
    }

    /// Sends it a signal.
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.running.child), signal).unwrap();
    }
}

impl Left {
    /// Stops it until it is woken.
    fn freeze(&self) {
        freeze(self.pid);
    }

    /// Lets it continue.
    fn wake(&self) {
        kill_process(self.pid, Signal::CONT).unwrap();
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        // An error only means that it has ended already.
        if let Some(handle) = &self.handle {
            let (Ok(()) | Err(_)) = pidfd_send_signal(handle, Signal::KILL);
        }
    }
}

/// Returns the open questions of the newest plan; none if there is no plan yet.
fn open_questions(scene: &Scene) -> Vec<Value> {
    let status: Option<Value> = serde_json::from_str(&scene.run("status --json").stdout).ok();
    let questions = status.and_then(|status| status["questions"].as_array().cloned());
    questions.unwrap_or_default()
}

/// Returns the newest plan's id.
fn plan_id(scene: &Scene) -> String {
    let plans: Value = scene.json("plans --json");
    plans[0]["id"].as_str().unwrap().to_owned()
}

/// Starts a daemon for a team and its tasks.
fn passes(scene: &Scene, team: &str, tasks: &str) -> Left {
    scene.write("team.yaml", team);
    scene.write("pass.md", tasks);
    scene.leave("run --team team.yaml --plan pass.md")
}

/// Returns a plan of so many tasks that do not wait for each other.
fn many(count: usize) -> String {
    let task = |number| format!("## Task {number}\n\nDo it.\n\n");
    let tasks: String = (1..=count).map(task).collect();
    format!("---\nname: Many\ngoal: Do it all\n---\n\n{tasks}")
}

/// Starts a daemon that dispatches so many tasks, and returns their commands.
fn handed_out(count: usize) -> (Scene, Left, Vec<Command>) {
    let scene = Scene::by_rules("run.max_parallel = 100");
    scene.write("many.md", &many(count));
    let daemon = scene.leave("run --plan many.md");
    wait_until("every command is there", || scene.pending().len() == count);
    let mut commands = scene.pending();
    commands.sort_by_key(Command::task);
    (scene, daemon, commands)
}

/// Kills a daemon, and waits until the last of its threads has released the folder.
fn kill(scene: &Scene, daemon: Left) {
    let pid = daemon.pid.as_raw_pid().to_string();
    drop(daemon);
    wait_until("the daemon has gone", || !lives(&pid));
    scene.await_end();
}

/// Stops a process and waits until it stands still: the signal alone reaches a thread that runs only a little later.
fn freeze(pid: Pid) {
    kill_process(pid, Signal::STOP).unwrap();
    let tasks = PathBuf::from(format!("/proc/{}/task", pid.as_raw_pid()));
    wait_until("the process stands still", || {
        fs::read_dir(&tasks).unwrap().flatten().all(|task| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ")
                .is_none_or(|(_, state)| state.starts_with('T'))
        })
    });
}

/// Returns the fields of an object at these places, as a list.
fn picked(value: &Value, places: &str) -> Value {
    let places = places.split(' ');
    places
        .map(|place| value.pointer(&format!("/{place}")).cloned())
        .collect()
}

/// Runs each of these, which must be refused as wrong usage, and returns what they say.
fn refusals(scene: &Scene, all: &[&str]) -> String {
    let refusal = |words: &&str| format!("$ {words}\n{}", scene.exits(2, *words).stderr);
    all.iter().map(refusal).collect()
}

/// Reads one JSON value a line.
fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// Returns the names of events.
fn names(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect()
}

/// Returns a model's answer when it plans: a task for each name, with the numbers of its dependencies.
fn planned(tasks: &[(&str, &[u32])]) -> Answer {
    let tasks: Vec<Value> = tasks.iter().map(|(name, on)| a_task(name, on)).collect();
    Answer::Json(json!({"name": "Scripted", "description": "A plan.", "tasks": tasks}))
}

/// Starts a model that plans these tasks, and with which all else goes well.
fn planning(tasks: &'static [(&str, &[u32])]) -> LlmServer {
    LlmServer::start(|asked| match asked.kind.as_str() {
        "plan" => planned(tasks),
        _ => all_well(asked),
    })
}

fn a_task(name: &str, depends_on: &[u32]) -> Value {
    json!({
        "reasoning": "", "name": name, "description": format!("Do this: {name}."), "constraints": "",
        "expected_output": format!("{name} is done."), "depends_on": depends_on,
    })
}

/// Returns a model's answer when it judges a task with one criterion.
fn verdict(decision: &str, words: &str) -> Answer {
    let met = if decision == "next" { "yes" } else { "no" };
    Answer::Json(json!({
        "criteria": [{"number": 1, "pointer": "F1", "met": met}], "reason": words, "can_mend": "yes, because it is small",
        "decision": decision, "confidence": "high", "feedback": words, "result_summary": words,
    }))
}

/// Returns a model's answer when it audits and nothing is missing: all of the goal points to the first criterion shown.
fn goal_met(asked: &Asked) -> Answer {
    let mut words = asked
        .prompt()
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let is_pointer = |word: &&str| {
        let numbers = word
            .split_once('.')
            .map(|(task, one)| [task.parse::<u32>(), one.parse()]);
        numbers.is_some_and(|numbers| numbers.iter().all(Result::is_ok))
    };
    let by: Vec<&str> = words.find(is_pointer).into_iter().collect();
    Answer::Json(json!({
        "parts": [{"part": "all of it", "by": by}], "reason": "Everything is there.", "met": true, "missing": [],
    }))
}

/// Returns a model's answer when it audits and these tasks are missing.
fn goal_open(reason: &str, missing: &[Value]) -> Answer {
    let parts = json!([{"part": "the rest", "by": []}]);
    Answer::Json(json!({"parts": parts, "reason": reason, "met": false, "missing": missing}))
}

/// Returns a model's answer when it summarises.
fn summary() -> Answer {
    Answer::Json(json!({"summary": "It went well, says the model."}))
}

/// Returns a model's answer to everything but the plan when all goes well.
fn all_well(asked: &Asked) -> Answer {
    match asked.kind.as_str() {
        "judge" => verdict("next", "It is there."),
        "audit" => goal_met(asked),
        "summarise" => summary(),
        kind => Answer::error(400, &format!("nobody expects the question `{kind}`")),
    }
}

/// Returns the task and attempt that a judge is asked about.
fn judged(asked: &Asked) -> (u32, u32) {
    let prompt = asked.prompt();
    let number = |before: &str, after: &str| -> Option<u32> {
        let (_, rest) = prompt.rsplit_once(before)?;
        rest.split_once(after)?.0.parse().ok()
    };
    let attempt = number("judge attempt ", " of task ").expect("an attempt");
    let task = number(" of task ", " by the measured facts").expect("a task");
    (task, attempt)
}
