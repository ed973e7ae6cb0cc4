//! `plan-agent web` from outside, by real HTTP on loopback.

mod detached;
mod pairing;
mod reading;
mod security;
mod streams;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::Value;

use crate::common::env::{DEADLINE, Running, TestEnv};

/// A plan that the built-in agent carries out.
const PLAN: &str = "# Count\n\n## 1. First\n\n- produces: a.txt\n\n```sh\necho hello | tee a.txt\n```\n\n\
                    ## 2. Second\n\n- after: 1\n\n```sh\necho more\n```\n";

/// The program while it serves the page.
pub struct Served {
    /// `127.0.0.1:PORT`.
    pub address: String,
    pub token: String,
    pub running: Running,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// In lower case.
    pub head: String,
    pub body: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Starts the program with more arguments, and reads the address that it prints.
pub fn serve(env: &TestEnv, args: &[&str]) -> Served {
    let args = [&["web", "--port", "0"], args].concat();
    let mut running = env.spawn(args, Stdio::piped(), Stdio::piped());
    let mut line = String::new();
    let mut said = BufReader::new(running.child.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    let (address, token) = line.trim().split_once("/#token=").unwrap_or_else(|| {
        let mut why = String::new();
        let mut errors = running.child.stderr.take().unwrap();
        errors.read_to_string(&mut why).unwrap();
        panic!("{line}{why}")
    });
    Served {
        address: address.split_once("://").unwrap().1.to_owned(),
        token: token.to_owned(),
        running,
    }
}

impl Served {
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    /// Sends a request; the given headers replace the usual ones, an empty one is left out.
    pub fn send(&self, first: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let bearer = format!("Bearer {}", self.token);
        let length = body.len().to_string();
        let usual = [
            ("Host", self.address.as_str()),
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Content-Length", length.as_str()),
            ("Connection", "close"),
        ];
        let given = |name: &str| headers.iter().any(|(other, _)| *other == name);
        let usual = usual.iter().filter(|(name, _)| !given(name));
        let all = usual.chain(headers.iter().filter(|(_, value)| !value.is_empty()));
        let head = all.fold(format!("{first} HTTP/1.1\r\n"), |lines, (name, value)| {
            format!("{lines}{name}: {value}\r\n")
        });
        let mut stream = self.connect();
        // The program may answer before it has read everything, and close.
        drop(stream.write_all(format!("{head}\r\n{body}").as_bytes()));
        stream
    }

    pub fn ask(&self, first: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        reply(self.send(first, headers, body))
    }

    /// Returns the JSON of an endpoint.
    pub fn get(&self, path: &str) -> Value {
        let reply = self.ask(&format!("GET /api/v1/{path}"), &[], "");
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        reply.json()
    }

    /// Returns the status of an endpoint with other headers.
    pub fn status(&self, first: &str, headers: &[(&str, &str)]) -> u16 {
        self.ask(first, headers, "").status
    }

    /// Opens a stream of events.
    pub fn stream(&self, path: &str, headers: &[(&str, &str)]) -> Events {
        let stream = self.send(&format!("GET /api/v1/{path}"), headers, "");
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.contains(" 200 "), "{line}");
        Events(lines)
    }
}

/// Reads the whole answer of a connection that is closed after it.
fn reply(mut stream: TcpStream) -> Reply {
    let mut bytes = Vec::new();
    // Bytes of a body that the program does not read reset the connection after the answer.
    drop(stream.read_to_end(&mut bytes));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    Reply {
        status: status.unwrap_or(0),
        head: head.to_lowercase(),
        body: body.to_owned(),
    }
}

/// The events of a stream.
pub struct Events(BufReader<TcpStream>);

/// One event.
#[derive(Debug)]
pub struct Event {
    pub name: String,
    pub id: Option<i64>,
    pub data: Value,
}

impl Events {
    /// Returns the next event; `None` at the end of the stream.
    pub fn next(&mut self) -> Option<Event> {
        let (mut name, mut id, mut data) = (String::new(), None, Value::Null);
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("event", value)) => name = value.to_owned(),
                Some(("id", value)) => id = value.parse().ok(),
                Some(("data", value)) => data = serde_json::from_str(value).unwrap(),
                _ if !name.is_empty() && line.trim().is_empty() => {
                    return Some(Event { name, id, data });
                }
                // Headers, sizes of chunks, comments.
                _ => {}
            }
        }
    }

    /// Returns the next event of a kind.
    pub fn await_event(&mut self, name: &str) -> Event {
        loop {
            let event = self
                .next()
                .unwrap_or_else(|| panic!("the stream ended before {name}"));
            if event.name == name {
                return event;
            }
        }
    }
}

/// Makes a plan and has it carried out; returns its id.
pub fn finished_plan(env: &TestEnv) -> String {
    env.write("plan.md", PLAN);
    env.exits(0, ["run", "--plan", "plan.md", "--agent", "shell"]);
    only_plan(env)
}

/// Returns the id of the newest plan.
pub fn only_plan(env: &TestEnv) -> String {
    let plans: Value = serde_json::from_str(&env.exits(0, ["plans", "--json"]).stdout).unwrap();
    plans[0]["id"].as_str().unwrap().to_owned()
}
