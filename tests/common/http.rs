//! A small HTTP server on 127.0.0.1 for the scripted models: one thread for each connection, one request for each connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;

/// The largest body that is read; an agent's whole conversation stays far below.
const MAX_BODY: usize = 32 << 20;

/// One request as it was received.
#[derive(Clone, Debug)]
pub struct Request {
    /// The path with its query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Null if it was no JSON.
    pub body: Value,
    pub text: String,
}

/// A server that answers until it is dropped.
pub struct Server {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
}

impl Server {
    /// Starts a server that gives each request to the closure, with the connection for the answer.
    pub fn start(
        answer: impl Fn(Request, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stopped = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&stopped);
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let answer = Arc::clone(&answer);
                thread::spawn(move || {
                    if let Ok(Some(request)) = read(&stream) {
                        // If a client disconnects in the middle, the server does not care.
                        drop(answer(request, &mut stream));
                    }
                });
            }
        });
        Self { address, stopped }
    }

    /// Returns the server's root.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // This wakes the listener, which then sees that it has to end.
        drop(TcpStream::connect(self.address));
    }
}

/// Sends a whole answer; each of the `headers` ends in a line break.
pub fn send(
    stream: &mut TcpStream,
    status: u16,
    kind: &str,
    body: &str,
    headers: &str,
) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {status} Scripted\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n{headers}connection: close\r\n\r\n{body}",
        body.len()
    )?;
    stream.flush()
}

fn read(stream: &TcpStream) -> std::io::Result<Option<Request>> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let Some(path) = line.split(' ').nth(1).map(str::to_owned) else {
        return Ok(None);
    };
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let value = |name: &str| headers.iter().find(|(other, _)| other == name);
    let body = if value("transfer-encoding").is_some() {
        chunks(&mut reader)?
    } else {
        let length = value("content-length").and_then(|(_, value)| value.parse().ok());
        exactly(&mut reader, length.unwrap_or(0))?
    };
    Ok(Some(Request {
        path,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        text: String::from_utf8_lossy(&body).into_owned(),
        headers,
    }))
}

fn chunks(reader: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
        if length == 0 {
            return Ok(body);
        }
        body.extend(exactly(reader, length)?);
        reader.read_line(&mut line)?;
    }
}

fn exactly(reader: &mut impl Read, length: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; length.min(MAX_BODY)];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}
