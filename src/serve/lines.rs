//! Messages as lines of JSON on two streams. What is no message is answered and skipped, a flood waits outside, and what
//! goes out keeps its order.

use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetExtensions, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::mcp::MAX_MESSAGE;

/// Requests that are worked on at once; more wait in the stream.
const AT_ONCE: usize = 64;

/// The codes of JSON-RPC.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;

/// A message on its way out, and whom to tell that it is written.
type Outgoing = (Vec<u8>, oneshot::Sender<io::Result<()>>);

/// The transport over a reader and a writer.
pub(super) struct Lines<R> {
    read: BufReader<R>,
    line: Vec<u8>,
    /// The rest of a line that is too long is skipped.
    skipping: bool,
    ended: bool,
    /// The client has asked for something; what comes before that is nothing to answer or to act on.
    begun: bool,
    out: Option<mpsc::UnboundedSender<Outgoing>>,
    places: Arc<Semaphore>,
}

/// What the next line is.
enum Line {
    Whole,
    TooLong,
    End,
}

impl<R: AsyncRead + Unpin + Send> Lines<R> {
    pub(super) fn new(read: R, write: impl AsyncWrite + Unpin + Send + 'static) -> Self {
        let (out, queue) = mpsc::unbounded_channel();
        tokio::spawn(write_all(write, queue));
        Self {
            read: BufReader::new(read),
            line: Vec::new(),
            skipping: false,
            ended: false,
            begun: false,
            out: Some(out),
            places: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Reads up to the next line end. What was read of a line stays when this is dropped half-way.
    async fn next_line(&mut self) -> io::Result<Line> {
        loop {
            let available = self.read.fill_buf().await?;
            if available.is_empty() {
                self.ended = true;
                let rest = !self.line.is_empty() && !self.skipping;
                return Ok(if rest { Line::Whole } else { Line::End });
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            let skipped = self.skipping;
            let fits = self.line.len() + taken <= MAX_MESSAGE;
            if !skipped && fits {
                self.line.extend_from_slice(&available[..taken]);
            }
            self.read.consume(taken);
            self.skipping = end.is_none() && (skipped || !fits);
            if !skipped && !fits {
                self.line.clear();
                return Ok(Line::TooLong);
            }
            if !skipped && end.is_some() {
                return Ok(Line::Whole);
            }
        }
    }

    fn answer(&self, complaint: &Complaint) {
        let Complaint { id, code, message } = complaint;
        let answer =
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
        drop(self.hand_out(answer.to_string().into_bytes()));
    }

    fn hand_out(&self, mut bytes: Vec<u8>) -> oneshot::Receiver<io::Result<()>> {
        bytes.push(b'\n');
        let (done, written) = oneshot::channel();
        if let Some(out) = &self.out {
            // If the writer has gone, `written` tells.
            drop(out.send((bytes, done)));
        }
        written
    }
}

impl<R: AsyncRead + Unpin + Send + 'static> Transport<RoleServer> for Lines<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        // Handed out before the future is polled: the order is that of the calls.
        let written = serde_json::to_vec(&item).map(|bytes| self.hand_out(bytes));
        async move {
            match written?.await {
                Ok(result) => result,
                Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.ended
                || self
                    .out
                    .as_ref()
                    .is_none_or(mpsc::UnboundedSender::is_closed)
            {
                return None;
            }
            // The place first: nothing is taken out of the stream that could be lost when this is dropped.
            let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
            match self.next_line().await {
                Ok(Line::Whole) => {}
                Ok(Line::TooLong) => {
                    let message =
                        format!("Invalid Request: a message of more than {MAX_MESSAGE} bytes");
                    self.answer(&Complaint::new(Value::Null, INVALID_REQUEST, message));
                    continue;
                }
                Ok(Line::End) => return None,
                Err(error) => {
                    tracing::debug!(%error, "the input cannot be read");
                    return None;
                }
            }
            let read = message(&self.line);
            self.line.clear();
            match read {
                Ok(Some(message)) => {
                    self.begun |= matches!(message, ClientJsonRpcMessage::Request(_));
                    if self.begun {
                        return Some(hold(message, place));
                    }
                }
                Ok(None) => {}
                Err(complaint) => self.answer(&complaint),
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        // The writer ends once it has written what is queued.
        if let Some(out) = self.out.take() {
            let (done, written) = oneshot::channel();
            drop(out.send((Vec::new(), done)));
            drop(written.await);
        }
        Ok(())
    }
}

async fn write_all(
    mut write: impl AsyncWrite + Unpin,
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
) {
    while let Some((bytes, done)) = queue.recv().await {
        let written = match write.write_all(&bytes).await {
            Ok(()) => write.flush().await,
            failed => failed,
        };
        let failed = written.is_err();
        drop(done.send(written));
        if failed {
            return;
        }
    }
}

/// Lets a request hold its place until it is answered. One that listens for news is answered at the end only.
fn hold(mut message: ClientJsonRpcMessage, place: OwnedSemaphorePermit) -> ClientJsonRpcMessage {
    if let ClientJsonRpcMessage::Request(request) = &mut message
        && !matches!(
            request.request,
            ClientRequest::SubscriptionsListenRequest(_)
        )
    {
        request.request.extensions_mut().insert(Arc::new(place));
    }
    message
}

/// What is answered to what is no message.
#[derive(Debug, PartialEq)]
struct Complaint {
    id: Value,
    code: i32,
    message: String,
}

impl Complaint {
    fn new(id: Value, code: i32, message: impl Into<String>) -> Self {
        Self {
            id,
            code,
            message: message.into(),
        }
    }
}

/// Reads a line as a message; `None` for what wants no answer.
fn message(line: &[u8]) -> Result<Option<ClientJsonRpcMessage>, Complaint> {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let error = match serde_json::from_slice(line) {
        Ok(message) => return Ok(Some(message)),
        Err(error) => error,
    };
    let value: Value = serde_json::from_slice(line).map_err(|error| {
        Complaint::new(Value::Null, PARSE_ERROR, format!("Parse error: {error}"))
    })?;
    let id = value.get("id").filter(|id| id.is_string() || id.is_i64());
    let method = value.get("method").and_then(Value::as_str);
    match (id, method) {
        (Some(id), Some(method)) => Err(Complaint::new(
            id.clone(),
            INVALID_PARAMS,
            format!(
                "Invalid params: they do not fit `{}`: {error}",
                crate::wire::text::one_line(method, 80)
            ),
        )),
        // A notification is never answered.
        (None, Some(_)) if value.get("id").is_none() => Ok(None),
        _ => Err(Complaint::new(
            Value::Null,
            INVALID_REQUEST,
            "Invalid Request: each line is one JSON-RPC message with `method`, and `id` unless it is a notification",
        )),
    }
}
