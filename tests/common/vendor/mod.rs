//! The services of the vendors of coding agents, on 127.0.0.1: real agents work against them. The server understands four APIs,
//! plain and as a stream of events, and gives the answer of a closure in each of them. It contains no code of the product.

mod chat;
mod gemini;
mod messages;
mod responses;

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::http::{Request, Server, send};

/// Tokens of every answer, by which a test recognises them in a report.
pub const READ: u64 = 1_000;
pub const WRITTEN: u64 = 20;

/// The model's answer to one request.
#[derive(Clone, Debug)]
pub enum Say {
    /// This text, and no more.
    Text(String),
    /// Makes a file with the tool that the agent offers for it; an agent without tools reads its edits in the text.
    Make(PathBuf, String),
    /// Calls a tool.
    Call(&'static str, Value),
    /// An error with this status.
    Fault(u16),
}

/// The API of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Api {
    Messages,
    Chat,
    Responses,
    Gemini,
}

/// A part of the conversation that a request repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    Person(String),
    Model,
    /// The result of a tool.
    Tool(String),
}

/// One request as the model gets it.
#[derive(Clone, Debug)]
pub struct Heard {
    api: Api,
    stream: bool,
    body: Value,
    /// The names of the tools that the agent offers.
    pub tools: Vec<String>,
    pub turns: Vec<Turn>,
}

/// An answer in the form of one API.
struct Spoken {
    plain: Value,
    events: Vec<Event>,
}

/// One event of a stream; some APIs name them, and not all of them are JSON.
struct Event {
    name: Option<&'static str>,
    data: String,
}

/// The model's action, in common words.
struct Doing {
    model: String,
    text: String,
    call: Option<(String, Value)>,
}

/// The server; it ends when dropped.
pub struct Vendor {
    server: Server,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Vendor {
    /// Starts a server that answers as the closure says.
    pub fn start(script: impl Fn(&Heard) -> Say + Send + Sync + 'static) -> Self {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&heard);
        let server = Server::start(move |request, stream| {
            let Some(heard) = Heard::new(request) else {
                // Agents also ask for models, features and news; they continue without them.
                return send(stream, 404, "application/json", "{}", "");
            };
            all.lock().unwrap().push(heard.clone());
            heard.answer(script(&heard), stream)
        });
        Self { server, heard }
    }

    /// Starts a server whose model makes a file for each prompt, and then reports that it did.
    pub fn making(file: &Path, text: &str) -> Self {
        let (file, text) = (file.to_owned(), text.to_owned());
        Self::start(move |heard| heard.make_once(&file, &text))
    }

    /// Returns the server's root.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Returns every request for an answer so far.
    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }
}

impl Heard {
    fn new(request: Request) -> Option<Self> {
        let path = request.path.split('?').next()?.trim_end_matches('/');
        let api = if path.ends_with("/messages") {
            Api::Messages
        } else if path.ends_with("/chat/completions") {
            Api::Chat
        } else if path.ends_with("/responses") {
            Api::Responses
        } else if path.ends_with("enerateContent") {
            Api::Gemini
        } else {
            return None;
        };
        let body = request.body;
        Some(Self {
            api,
            stream: body["stream"] == true || path.ends_with(":streamGenerateContent"),
            tools: tools(&body["tools"]),
            turns: match api {
                Api::Messages => messages::turns(&body),
                Api::Chat => chat::turns(&body),
                Api::Responses => responses::turns(&body),
                Api::Gemini => gemini::turns(&body),
            },
            body,
        })
    }

    /// Makes a file if the last message is from a person, and reports that it is made if the last message is from a tool.
    pub fn make_once(&self, file: &Path, text: &str) -> Say {
        match self.turns.last() {
            // The last message of an agent may be its report.
            Some(Turn::Tool(_)) => Say::Text(format!(
                "---\nstatus: SUCCESS\n---\n\nDone: {} is written.",
                file.display()
            )),
            _ => Say::Make(file.to_owned(), text.to_owned()),
        }
    }

    /// Returns whether a person said this in some turn.
    pub fn was_told(&self, words: &str) -> bool {
        self.turns
            .iter()
            .any(|turn| matches!(turn, Turn::Person(text) if text.contains(words)))
    }

    fn answer(&self, say: Say, stream: &mut TcpStream) -> std::io::Result<()> {
        let json = "application/json";
        let (text, call) = match say {
            Say::Fault(status) => {
                return send(stream, status, json, &self.fault(status).to_string(), "");
            }
            Say::Text(text) => (text, None),
            Say::Make(file, text) => self.making(&file, &text),
            Say::Call(tool, input) => (String::new(), Some((tool.to_owned(), input))),
        };
        let doing = Doing {
            model: self.body["model"].as_str().unwrap_or("scripted").to_owned(),
            text,
            call,
        };
        let spoken = match self.api {
            Api::Messages => messages::spoken(&doing),
            Api::Chat => chat::spoken(&doing),
            Api::Responses => responses::spoken(&doing),
            Api::Gemini => gemini::spoken(&doing),
        };
        if !self.stream {
            return send(stream, 200, json, &spoken.plain.to_string(), "");
        }
        let events: String = spoken.events.iter().map(Event::line).collect();
        send(stream, 200, "text/event-stream", &events, "")
    }

    /// Finds out how this agent makes a file.
    fn making(&self, file: &Path, text: &str) -> (String, Option<(String, Value)>) {
        let path = file.display().to_string();
        let line = format!("mkdir -p \"$(dirname '{path}')\" && printf %s '{text}' > '{path}'");
        let ways = [
            ("Write", json!({"file_path": path, "content": text})),
            ("write_file", json!({"file_path": path, "content": text})),
            ("write", json!({"filePath": path, "content": text})),
            ("exec_command", json!({"cmd": line})),
            ("shell_command", json!({"command": line})),
            ("shell", json!({"command": ["sh", "-c", line]})),
        ];
        let offered = |name: &str| self.tools.iter().any(|tool| tool == name);
        match ways.into_iter().find(|(name, _)| offered(name)) {
            Some((name, input)) => ("I write it.".into(), Some((name.into(), input))),
            None => {
                let name = file.file_name().unwrap().to_string_lossy();
                let fence = "```";
                (
                    format!("I write it.\n\n{name}\n{fence}\n{text}\n{fence}\n"),
                    None,
                )
            }
        }
    }

    fn fault(&self, status: u16) -> Value {
        let message = format!("scripted {status}");
        match self.api {
            Api::Messages => json!({"type": "error", "error": {
                "type": match status {
                    401 => "authentication_error",
                    429 => "rate_limit_error",
                    _ => "api_error",
                },
                "message": message,
            }}),
            Api::Gemini => {
                json!({"error": {"code": status, "message": message, "status": match status {
                    401 => "UNAUTHENTICATED",
                    429 => "RESOURCE_EXHAUSTED",
                    _ => "INTERNAL",
                }}})
            }
            Api::Chat | Api::Responses => json!({"error": {
                "message": message, "type": "scripted", "param": null, "code": null,
            }}),
        }
    }
}

impl Event {
    fn new(name: Option<&'static str>, data: &Value) -> Self {
        Self {
            name,
            data: data.to_string(),
        }
    }

    fn line(&self) -> String {
        let name = self.name.map(|name| format!("event: {name}\n"));
        format!("{}data: {}\n\n", name.unwrap_or_default(), self.data)
    }
}

/// Collects the names of tools, wherever an API puts them.
fn tools(offered: &Value) -> Vec<String> {
    let mut names = Vec::new();
    for tool in offered.as_array().into_iter().flatten() {
        if let Some(declared) = tool.get("functionDeclarations").or(tool.get("tools")) {
            names.extend(tools(declared));
        } else if let Some(name) = tool.get("name").or(tool.pointer("/function/name")) {
            names.extend(name.as_str().map(str::to_owned));
        }
    }
    names
}

/// Returns a text, or the texts of a list of parts.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect::<Vec<_>>()
            .join("\n"),
        _ => String::new(),
    }
}
