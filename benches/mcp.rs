//! What a client of the tools waits for: the start of the server until it is initialised, and the way of a call there and
//! back, beside that of a `ping`, which asks for nothing, and a bare append and flush.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::disk::{self, Journal};
use crate::latency::program;
use crate::row;
use crate::table::{Times, against, ms, print, ratio};

const STARTS: usize = 30;
const CALLS: usize = 500;

/// Tasks of the plan that the calls are about.
const TASKS: usize = 1_000;

/// As many bytes as a small change appends to the log.
const RECORD: [u8; 2_000] = [b'x'; 2_000];

/// What a durable change may cost against a ping and a flush of the same run.
const AIM: f64 = 2.0;

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
    let mut journal = Journal::open(&folder.path().join("journal"));
    let mut times = [const { Vec::new() }; 4];
    for round in 0..CALLS {
        times[0].push(server.ask("ping", json!({})));
        times[1].push(server.call("TaskGet", json!({"taskId": "500"})));
        // What was flushed before counts: let it be the same for both.
        journal.append(&RECORD);
        let begun = Instant::now();
        journal.append(&RECORD);
        times[2].push(begun.elapsed());
        journal.append(&RECORD);
        let subject = format!("Round {round}");
        let update = json!({"taskId": "500", "subject": subject});
        times[3].push(server.call("TaskUpdate", update));
    }
    let [ping, looks, flush, changes] = times.map(Times::new);
    let line = |what: &str, times: &Times| row![what, ms(times.p50()), ms(times.p99())];
    print(
        &format!("mcp: a plan of {TASKS} tasks"),
        &[
            row!["", "p50", "p99"],
            line("start until initialised", &starts),
            line("ping", &ping),
            line("TaskGet", &looks),
            line("floor: append + fdatasync", &flush),
            line("TaskUpdate, durable", &changes),
        ],
    );
    let least = ping.p50() + flush.p50();
    let result = against(ratio(changes.p50(), least), AIM);
    println!("\n  a durable TaskUpdate is {result} times a ping and a flush");
}
