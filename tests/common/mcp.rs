//! A client of the Model Context Protocol: it exchanges lines of JSON with the real program.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};

use super::env::{Args, DEADLINE, Running, TestEnv};

/// Returns a tool's answer: the JSON of its text, or the prose of the notebook as a result with its metadata.
pub fn said(result: &mut Value) -> Value {
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    match serde_json::from_str(text) {
        Ok(value) => value,
        Err(_) => {
            json!({"result": text, "metadata": result["_meta"]["plan-agent/metadata"].take()})
        }
    }
}

/// The program as a client sees it; killed when dropped.
pub struct Mcp {
    pub running: Running,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    next: u64,
    /// Messages that came before an awaited answer.
    news: VecDeque<Value>,
}

impl Mcp {
    /// Starts `plan-agent mcp` with more arguments, and initializes as clients do.
    pub fn start(env: &TestEnv, args: impl Args) -> Self {
        let mut mcp = Self::begin(env, args);
        let begun = mcp.initialize("test", "2025-06-18");
        assert_eq!(begun["serverInfo"]["name"], "plan-agent", "{begun}");
        mcp
    }

    /// Starts the program and sends nothing yet.
    pub fn begin(env: &TestEnv, args: impl Args) -> Self {
        let mut child = env
            .command([&["mcp"], &args.words()[..]].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            let lines = output.lines().map_while(Result::ok);
            // The receiver is gone when the test is over.
            lines.for_each(|line| drop(send.send(line)));
        });
        Self {
            running: Running { child },
            input,
            lines,
            next: 1,
            news: VecDeque::new(),
        }
    }

    /// Sends the client's name and version; returns the program's description of itself.
    pub fn initialize(&mut self, name: &str, version: &str) -> Value {
        let begun = self.ask(
            "initialize",
            json!({
                "protocolVersion": version,
                "capabilities": {},
                "clientInfo": {"name": name, "version": "1"},
            }),
        );
        self.notify("notifications/initialized");
        begun
    }

    /// Writes a line unchanged; returns whether the program still reads.
    pub fn write(&mut self, line: &str) -> bool {
        let input = self.input.as_mut().expect("the input is open");
        writeln!(input, "{line}").is_ok() && input.flush().is_ok()
    }

    pub fn notify(&mut self, method: &str) {
        self.write(&json!({"jsonrpc": "2.0", "method": method}).to_string());
    }

    /// Sends a request without waiting for the answer; returns its id, `None` if the program has ended.
    pub fn request(&mut self, method: &str, params: Value) -> Option<u64> {
        let id = self.next;
        self.next += 1;
        let mut line = json!({"jsonrpc": "2.0", "id": id, "method": method});
        line["params"] = params;
        self.write(&line.to_string()).then_some(id)
    }

    /// Reads the next message of any kind; `None` once the program has ended. Every line has to be a message.
    pub fn message(&mut self) -> Option<Value> {
        let line = match self.lines.recv_timeout(DEADLINE) {
            Ok(line) => line,
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("waited in vain for a message"),
        };
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| {
            panic!("on standard output there is something else: {error}: {line}")
        });
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        Some(message)
    }

    /// Waits for the answer to a request; `None` if the program ends before.
    pub fn answer(&mut self, id: u64) -> Option<Value> {
        loop {
            let message = self.message()?;
            if message["id"] == id {
                return Some(message);
            }
            self.news.push_back(message);
        }
    }

    /// Sends a request and returns the result.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).expect("it reads");
        let mut answer = self.answer(id).expect("it answers");
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// Sends a request that must be refused, and returns the error.
    pub fn refused(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).expect("it reads");
        let mut answer = self.answer(id).expect("it answers");
        assert!(answer.get("result").is_none(), "{method}: {answer}");
        answer["error"].take()
    }

    /// Calls a tool; returns whether it succeeded, and its answer.
    pub fn try_call(&mut self, tool: &str, arguments: Value) -> (bool, Value) {
        let mut params = json!({"name": tool});
        params["arguments"] = arguments;
        let mut result = self.ask("tools/call", params);
        let failed = result["isError"].as_bool().unwrap_or(false);
        (!failed, said(&mut result))
    }

    /// Calls a tool that must succeed.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let (success, answer) = self.try_call(tool, arguments);
        assert!(success, "{tool}: {answer}");
        answer
    }

    /// Waits for a notification with this method.
    pub fn news(&mut self, method: &str) -> Value {
        loop {
            let at = self.news.iter().position(|news| news["method"] == method);
            if let Some(news) = at.and_then(|at| self.news.remove(at)) {
                return news;
            }
            let message = self.message().expect("the program has ended");
            self.news.push_back(message);
        }
    }

    /// Forgets the notifications received so far.
    pub fn forget(&mut self) {
        self.news.clear();
    }

    /// Closes the input and waits for the end; returns the messages that came in the meantime.
    pub fn end(mut self) -> (ExitStatus, Vec<Value>) {
        drop(self.input.take());
        let rest = std::iter::from_fn(|| self.message()).collect();
        (self.running.wait(), rest)
    }
}
