//! What a client of the tools waits for: the start of the server until it is initialised, and the way of a call there and
//! back, beside that of a `ping`, which asks for nothing.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::disk;
use crate::latency::program;
use crate::row;
use crate::table::{Times, ms, print};

const STARTS: usize = 30;
const CALLS: usize = 500;

/// Tasks of the plan that the calls are about.
const TASKS: usize = 1_000;

struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start(folder: &std::path::Path) -> (Self, Duration) {
        let begun = Instant::now();
        let mut child = program(folder, &["mcp"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut server = Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        server.ask(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}),
        );
        (server, begun.elapsed())
    }

    fn ask(&mut self, method: &str, params: Value) -> Duration {
        let mut line = json!({"jsonrpc": "2.0", "id": 1, "method": method});
        line["params"] = params;
        let line = line.to_string();
        let begun = Instant::now();
        writeln!(self.input, "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        let took = begun.elapsed();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let failed = answer["result"]["isError"] == true;
        assert!(answer.get("result").is_some() && !failed, "{answer}");
        took
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Duration {
        let mut params = json!({"name": tool});
        params["arguments"] = arguments;
        self.ask("tools/call", params)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already, or ends now.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub fn run() {
    let folder = disk::folder();
    let (mut server, _) = Server::start(folder.path());
    let tasks: Vec<Value> = (0..TASKS)
        .map(|task| json!({"subject": format!("Task {task}")}))
        .collect();
    server.call("TaskCreate", json!({ "tasks": tasks }));
    let starts = Times::new(
        (0..STARTS)
            .map(|_| Server::start(folder.path()).1)
            .collect(),
    );
    let ping = Times::new((0..CALLS).map(|_| server.ask("ping", json!({}))).collect());
    let get = |server: &mut Server| server.call("TaskGet", json!({"taskId": "500"}));
    let looks = Times::new((0..CALLS).map(|_| get(&mut server)).collect());
    let update = |server: &mut Server, round: usize| {
        let subject = format!("Round {round}");
        server.call("TaskUpdate", json!({"taskId": "500", "subject": subject}))
    };
    let changes = Times::new((0..CALLS).map(|round| update(&mut server, round)).collect());
    let line = |what: &str, times: &Times| row![what, ms(times.p50()), ms(times.p99())];
    print(
        &format!("mcp: a plan of {TASKS} tasks"),
        &[
            row!["", "p50", "p99"],
            line("start until initialised", &starts),
            line("ping", &ping),
            line("TaskGet", &looks),
            line("TaskUpdate, durable", &changes),
        ],
    );
}
