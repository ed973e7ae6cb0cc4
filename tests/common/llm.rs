//! A scripted language model behind real HTTP on 127.0.0.1: it speaks both API shapes, answers as a closure says, in parts
//! where that is asked for, records its requests, and misbehaves on request. It contains no code of the product.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::env::DEADLINE;
use super::http::{Request, Server, send};
use super::llm_events::{EVENTS, events};

/// Events of both APIs that say nothing.
pub const SILENT: [&str; 4] = [
    ": ping\n\nevent: ping\ndata: {\"type\": \"ping\", \"choices\": []}\n\n",
    "data: {\"type\": \"content_block_delta\", \"delta\": {}, \"choices\": [{\"index\": 0, \"delta\": {}}]}\n\n",
    "data: {\"type\": \"content_block_delta\", \"delta\": {\"type\": \"text_delta\", \"text\": \" \\n\"}, \
     \"choices\": [{\"delta\": {\"role\": \"assistant\", \"content\": \" \\n\"}}]}\n\n",
    "data: {\"type\": \"content_block_delta\", \"delta\": {\"type\": \"thinking_delta\", \"thinking\": \"\"}, \
     \"choices\": [{\"delta\": {\"content\": null, \"reasoning_content\": \"\"}}]}\n\n",
];

/// An event of both APIs with a thought.
pub const THINKS: &str = "data: {\"type\": \"content_block_delta\", \"delta\": {\"type\": \"thinking_delta\", \"thinking\": \"hmm, so \"}, \
     \"choices\": [{\"delta\": {\"reasoning_content\": \"hmm, so \"}}]}\n\n";

/// How the server answers one request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The model answers with this object.
    Json(Value),
    /// The model answers with this text.
    Text(String),
    /// Messages: the object as a tool call; Chat Completions: as text.
    ToolCall(Value),
    /// The model answers with this object in one body, also where a stream is asked for.
    Whole(Value),
    /// The model begins to answer in parts; then this happens.
    Begun(Then),
    /// The model's answer ends in the middle because its limit is reached.
    Cut(String),
    /// The model refuses, in these words.
    Refused(String),
    /// A response with this status and body, and perhaps a `Retry-After`.
    Status(u16, Option<String>, String),
    /// A page for people.
    Html,
    /// Status 200 and this body.
    Raw(String),
    /// These events of a stream.
    Events(String),
    /// Fewer bytes than announced.
    CutBody,
    /// Bytes without end.
    Endless,
    /// A redirect to this address.
    Redirect(String),
    /// Nothing, until the client disconnects; the server's `gone` is notified of that.
    Hang,
    /// Headers and half a body, and then nothing.
    HangInBody,
    /// The connection is closed without an answer.
    Close,
    /// Another answer, after this delay.
    Slow(Duration, Box<Answer>),
}

/// What happens after the first half of a stream.
#[derive(Clone, Copy, Debug)]
pub enum Then {
    /// The connection is closed.
    Close,
    /// Nothing, until the client disconnects; the server's `gone` is notified of that.
    Hang,
    /// Only these events, until the client disconnects.
    Repeats(&'static str),
    /// More and more that is none of the answer.
    Floods,
    /// The server reports that it is overloaded.
    Fails,
    /// A line that no stream has.
    Garbage,
    /// The rest of the answer, with pauses of 0.7 s.
    Crawls,
}

impl Answer {
    /// An error with a status, in the shape of most servers.
    pub fn error(status: u16, message: &str) -> Self {
        let body = json!({"error": {"message": message, "type": "some_error", "code": status}});
        Self::Status(status, None, body.to_string())
    }

    /// An error with `Retry-After`.
    pub fn busy(status: u16, retry_after: &str) -> Self {
        Self::Status(
            status,
            Some(retry_after.to_owned()),
            json!({"error": {"message": "slow down"}}).to_string(),
        )
    }
}

/// One request as it was received.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The path with its query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Value,
    /// `plan`, `judge`, `replan`, `audit` or `summarise`, of a role `steps`, `strategy` or `ask`; empty if it is none of these.
    pub kind: String,
    /// How many requests of this kind came before.
    pub nth: usize,
}

impl Asked {
    /// Returns a header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the system part.
    pub fn system(&self) -> &str {
        self.body["system"][0]["text"]
            .as_str()
            .or_else(|| self.body["messages"][0]["content"].as_str())
            .unwrap_or_default()
    }

    /// Returns the question itself.
    pub fn prompt(&self) -> &str {
        let messages = self.body["messages"].as_array();
        messages
            .and_then(|messages| messages.last()?["content"].as_str())
            .unwrap_or_default()
    }

    /// Returns the schema of the answer, if one was sent.
    pub fn schema(&self) -> Option<&Value> {
        self.body
            .pointer("/response_format/json_schema/schema")
            .or_else(|| self.body.pointer("/output_config/format/schema"))
    }
}

type Script = dyn Fn(&Asked) -> Answer + Send + Sync;

struct Shared {
    script: Box<Script>,
    asked: Mutex<Vec<Asked>>,
    /// Notified of each request.
    news: Condvar,
    gone: Mutex<Sender<()>>,
}

/// The server; it ends when dropped.
pub struct LlmServer {
    server: Server,
    shared: Arc<Shared>,
    gone: Mutex<Receiver<()>>,
}

impl LlmServer {
    /// Starts a server that answers each request as the closure says.
    pub fn start(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let (sender, gone) = channel();
        let shared = Arc::new(Shared {
            script: Box::new(script),
            asked: Mutex::new(Vec::new()),
            news: Condvar::new(),
            gone: Mutex::new(sender),
        });
        let inner = Arc::clone(&shared);
        let server = Server::start(move |request, stream| inner.serve(request, stream));
        Self {
            server,
            shared,
            gone: Mutex::new(gone),
        }
    }

    /// Starts a server that answers from a list; the last answer is repeated.
    pub fn replying(answers: Vec<Answer>) -> Self {
        let next = AtomicUsize::new(0);
        Self::start(move |_| {
            let index = next.fetch_add(1, Ordering::SeqCst);
            answers[index.min(answers.len() - 1)].clone()
        })
    }

    /// Returns the server's root: the `base_url` of the Messages API.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Returns the `base_url` of the Chat Completions API.
    pub fn openai_url(&self) -> String {
        format!("{}/v1", self.url())
    }

    /// Returns every request so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// Returns how many requests of a kind came so far.
    pub fn count(&self, kind: &str) -> usize {
        let asked = self.shared.asked.lock().unwrap();
        asked.iter().filter(|asked| asked.kind == kind).count()
    }

    /// Waits until a request has come; false if none comes.
    pub fn is_asked(&self) -> bool {
        let asked = self.shared.asked.lock().unwrap();
        let outcome = self
            .shared
            .news
            .wait_timeout_while(asked, DEADLINE, |asked| asked.is_empty());
        !outcome.unwrap().1.timed_out()
    }

    /// Waits until a client has left an answer that hangs; false if none does.
    pub fn client_left(&self) -> bool {
        let gone = self.gone.lock().unwrap();
        gone.recv_timeout(DEADLINE).is_ok()
    }
}

impl Shared {
    fn serve(&self, request: Request, stream: &mut TcpStream) -> std::io::Result<()> {
        let asked = self.record(request);
        let answer = (self.script)(&asked);
        self.answer(stream, &asked, answer)
    }

    fn record(&self, request: Request) -> Asked {
        let mut asked = Asked {
            path: request.path,
            headers: request.headers,
            body: request.body,
            kind: String::new(),
            nth: 0,
        };
        asked.kind = kind(&asked).to_owned();
        let mut all = self.asked.lock().unwrap();
        asked.nth = all.iter().filter(|other| other.kind == asked.kind).count();
        all.push(asked.clone());
        self.news.notify_all();
        asked
    }

    fn answer(&self, stream: &mut TcpStream, asked: &Asked, answer: Answer) -> std::io::Result<()> {
        let json = "application/json";
        let mut say = |whole: String| match asked.body["stream"] == json!(true) {
            true => send(stream, 200, EVENTS, &events(asked, &whole).concat(), ""),
            false => send(stream, 200, json, &whole, ""),
        };
        match answer {
            Answer::Json(value) => say(reply(asked, &value.to_string(), End::Whole)),
            Answer::Text(text) => say(reply(asked, &text, End::Whole)),
            Answer::ToolCall(value) => say(tool_call(asked, &value)),
            Answer::Cut(text) => say(reply(asked, &text, End::Cut)),
            Answer::Refused(text) => say(reply(asked, &text, End::Refused)),
            Answer::Whole(value) => {
                let whole = reply(asked, &value.to_string(), End::Whole);
                send(stream, 200, json, &whole, "")
            }
            Answer::Begun(then) => self.begin(stream, asked, then),
            Answer::Status(status, retry_after, body) => {
                let header = retry_after.map(|wait| format!("retry-after: {wait}\r\n"));
                send(stream, status, json, &body, &header.unwrap_or_default())
            }
            Answer::Html => send(
                stream,
                200,
                "text/html",
                "<!doctype html><html><body>Welcome</body></html>",
                "",
            ),
            Answer::Raw(body) => send(stream, 200, json, &body, ""),
            Answer::Events(events) => send(stream, 200, EVENTS, &events, ""),
            Answer::Redirect(to) => send(stream, 302, json, "", &format!("location: {to}\r\n")),
            Answer::CutBody => half(stream, &reply(asked, "{}", End::Whole)),
            Answer::Endless => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")?;
                let chunk = [b' '; 65_536];
                // It waits until the client disconnects.
                loop {
                    stream.write_all(&chunk)?;
                }
            }
            Answer::Hang => self.hang(stream),
            Answer::HangInBody => {
                half(stream, &reply(asked, "{}", End::Whole))?;
                self.hang(stream)
            }
            Answer::Close => Ok(()),
            Answer::Slow(wait, answer) => {
                thread::sleep(wait);
                self.answer(stream, asked, *answer)
            }
        }
    }

    /// Sends the first events of a stream, and then what is to happen.
    fn begin(&self, stream: &mut TcpStream, asked: &Asked, then: Then) -> std::io::Result<()> {
        let events = events(asked, &reply(asked, "{\"a\": 1, \"b\": 2}", End::Whole));
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: {EVENTS}\r\nconnection: close\r\n\r\n{}",
            events[..5].concat()
        )?;
        stream.flush()?;
        match then {
            Then::Close => Ok(()),
            Then::Hang => self.hang(stream),
            Then::Repeats(events) => loop {
                stream.write_all(events.as_bytes())?;
                thread::sleep(Duration::from_millis(5));
            },
            Then::Floods => loop {
                stream.write_all(events[0].repeat(1_000).as_bytes())?;
            },
            Then::Fails => {
                let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
                write!(stream, "event: error\ndata: {error}\n\n")
            }
            Then::Crawls => events[5..].iter().try_for_each(|event| {
                thread::sleep(Duration::from_millis(700));
                stream.write_all(event.as_bytes())
            }),
            Then::Garbage => stream.write_all(b"<html>\n\n"),
        }
    }

    fn hang(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        // A waiting client sends nothing more: an end or an error means that it disconnected.
        let outcome = stream.read(&mut [0; 1]);
        let (Ok(()) | Err(_)) = self.gone.lock().unwrap().send(());
        outcome.map(drop)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Whole,
    Cut,
    Refused,
}

pub fn is_messages(asked: &Asked) -> bool {
    asked.path.contains("/messages")
}

fn reply(asked: &Asked, text: &str, end: End) -> String {
    if is_messages(asked) {
        let stop_reason = match end {
            End::Whole => "end_turn",
            End::Cut => "max_tokens",
            End::Refused => "refusal",
        };
        json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": asked.body["model"],
            "content": [{"type": "text", "text": text}],
            "stop_reason": stop_reason,
            "usage": {"input_tokens": 7, "cache_read_input_tokens": 4, "cache_creation_input_tokens": null, "output_tokens": 5},
        })
        .to_string()
    } else {
        let (content, refusal) = match end {
            End::Refused => (Value::Null, json!(text)),
            _ => (json!(text), Value::Null),
        };
        let finish_reason = if end == End::Cut { "length" } else { "stop" };
        json!({
            "id": "chatcmpl-1", "object": "chat.completion", "model": asked.body["model"],
            "choices": [{"index": 0, "message": {"role": "assistant", "content": content, "refusal": refusal}, "finish_reason": finish_reason}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16},
        })
        .to_string()
    }
}

fn tool_call(asked: &Asked, value: &Value) -> String {
    if !is_messages(asked) {
        return reply(asked, &value.to_string(), End::Whole);
    }
    json!({
        "type": "message", "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "x"},
            {"type": "text", "text": "I call the tool."},
            {"type": "tool_use", "id": "t", "name": "answer", "input": value},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 11, "output_tokens": 5},
    })
    .to_string()
}

fn half(stream: &mut TcpStream, body: &str) -> std::io::Result<()> {
    let sent = &body[..body.len() / 2];
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{sent}",
        body.len()
    )?;
    stream.flush()
}

/// Returns the kind of question, by the schema of the answer, or by the form of it that the system part shows.
fn kind(asked: &Asked) -> &'static str {
    match asked.schema() {
        Some(schema) => question_with(|field| schema["properties"].get(field).is_some()),
        None => question(asked.system()),
    }
    .unwrap_or_default()
}

/// Returns the kind of question in a text, by the form of the answer that it shows.
pub fn question(text: &str) -> Option<&'static str> {
    question_with(|field| text.contains(&format!("\"{field}\":")))
}

fn question_with(has: impl Fn(&str) -> bool) -> Option<&'static str> {
    let kinds = [
        ("decision", "judge"),
        ("edits", "replan"),
        ("met", "audit"),
        ("summary", "summarise"),
        ("tasks", "plan"),
        ("steps", "steps"),
        ("simple", "strategy"),
        ("answer", "ask"),
    ];
    let mut kinds = kinds.into_iter();
    kinds.find(|(field, _)| has(field)).map(|(_, kind)| kind)
}
