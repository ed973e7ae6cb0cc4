//! Messages as lines of JSON on two streams. A line that is no message is answered and skipped, a flood of requests waits in
//! the stream, and answers keep their order.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetExtensions, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::timeout;

use super::MAX_MESSAGE;
use crate::wire::one_line;

/// Requests that are in progress simultaneously; more wait in the stream.
const AT_ONCE: usize = 64;

/// Bytes of the requests in progress and of what has been read of the next one. A single request may use them all.
const BUDGET: usize = MAX_MESSAGE;

/// Bytes of one read: what a pipe holds.
const CHUNK: usize = 64 * 1024;

/// If more bytes than this wait to be written, the server reads no further request: a client that does not read its answers
/// gets no more of them.
const MAX_WAITING: usize = 1024 * 1024;

/// How long the server waits until the client has read the last answers, once the end has come; a client that has not read them
/// by then does not want them.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The codes of JSON-RPC.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;

/// A message to be written, and the channel that reports when it is written.
type Outgoing = (Vec<u8>, oneshot::Sender<io::Result<()>>);

/// The transport over a reader and a writer.
pub(super) struct LineTransport<R> {
    read: BufReader<R>,
    line: Vec<u8>,
    /// The rest of a line that is too long is skipped.
    skipping: bool,
    ended: bool,
    /// The client has sent a request; a message before the first request needs neither an answer nor an action.
    begun: bool,
    out: Option<mpsc::UnboundedSender<Outgoing>>,
    /// Bytes that are queued and not yet written.
    waiting: Arc<watch::Sender<usize>>,
    /// Becomes true when the input has ended.
    over: watch::Sender<bool>,
    places: Arc<Semaphore>,
    budget: Arc<Semaphore>,
    /// The part of the budget that the current line uses.
    taken: Option<OwnedSemaphorePermit>,
}

/// What a request holds until it is answered: its place, and its bytes of the budget.
type Held = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

/// What the next line is.
enum NextLine {
    Whole,
    TooLong,
    End,
}

impl<R: AsyncRead + Unpin + Send> LineTransport<R> {
    /// Returns the transport, and a receiver that becomes true at the end of the input.
    pub(super) fn new(
        read: R,
        write: impl AsyncWrite + Unpin + Send + 'static,
    ) -> (Self, watch::Receiver<bool>) {
        let (out, queue) = mpsc::unbounded_channel();
        let waiting = Arc::new(watch::Sender::new(0));
        tokio::spawn(write_all(write, queue, Arc::clone(&waiting)));
        let (over, ended) = watch::channel(false);
        let lines = Self {
            read: BufReader::with_capacity(CHUNK, read),
            line: Vec::new(),
            skipping: false,
            ended: false,
            begun: false,
            out: Some(out),
            waiting,
            over,
            places: Arc::new(Semaphore::new(AT_ONCE)),
            budget: Arc::new(Semaphore::new(BUDGET)),
            taken: None,
        };
        (lines, ended)
    }

    /// Reads up to the next line end. The part of a line that was read stays when this future is dropped half-way.
    async fn next_line(&mut self) -> io::Result<NextLine> {
        loop {
            let available = self.read.fill_buf().await?;
            if available.is_empty() {
                self.ended = true;
                let rest = !self.line.is_empty() && !self.skipping;
                return Ok(if rest { NextLine::Whole } else { NextLine::End });
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            let skipped = self.skipping;
            let fits = self.line.len() + taken <= MAX_MESSAGE;
            if !skipped && fits {
                // Requests in progress are answered whether or not more is read, so this wait ends; the budget holds a whole
                // line.
                let bytes = u32::try_from(taken).map_err(io::Error::other)?;
                let room = Arc::clone(&self.budget).acquire_many_owned(bytes);
                let room = room.await.map_err(io::Error::other)?;
                match &mut self.taken {
                    Some(taken) => taken.merge(room),
                    None => self.taken = Some(room),
                }
                self.line.extend_from_slice(&available[..taken]);
            }
            self.read.consume(taken);
            self.skipping = end.is_none() && (skipped || !fits);
            if !skipped && !fits {
                (self.line, self.taken) = (Vec::new(), None);
                return Ok(NextLine::TooLong);
            }
            if !skipped && end.is_some() {
                return Ok(NextLine::Whole);
            }
        }
    }

    fn answer(&self, complaint: &Value) {
        drop(self.queue_write(complaint.to_string().into_bytes()));
    }

    fn queue_write(&self, mut bytes: Vec<u8>) -> oneshot::Receiver<io::Result<()>> {
        bytes.push(b'\n');
        let (done, written) = oneshot::channel();
        if let Some(out) = &self.out {
            self.waiting.send_modify(|waiting| *waiting += bytes.len());
            // If the writer has ended, `written` reports it.
            drop(out.send((bytes, done)));
        }
        written
    }

    /// Returns the next message that needs an action; `None` at the end.
    async fn next_message(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let out = self.out.as_ref();
            if self.ended || out.is_none_or(mpsc::UnboundedSender::is_closed) {
                return None;
            }
            // The place comes first: dropping this future must not lose anything that was read from the stream.
            let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
            let mut waiting = self.waiting.subscribe();
            drop(waiting.wait_for(|bytes| *bytes <= MAX_WAITING).await);
            match self.next_line().await {
                Ok(NextLine::Whole) => {}
                Ok(NextLine::TooLong) => {
                    let message =
                        format!("Invalid Request: a message of more than {MAX_MESSAGE} bytes");
                    self.answer(&error(&Value::Null, INVALID_REQUEST, &message));
                    continue;
                }
                Ok(NextLine::End) => return None,
                Err(error) => {
                    tracing::debug!(%error, "the input cannot be read");
                    return None;
                }
            }
            let read = message(&std::mem::take(&mut self.line));
            let held = (place, self.taken.take());
            match read {
                Ok(Some(message)) => {
                    self.begun |= matches!(message, ClientJsonRpcMessage::Request(_));
                    if self.begun {
                        return Some(hold(message, held));
                    }
                }
                Ok(None) => {}
                Err(complaint) => self.answer(&complaint),
            }
        }
    }
}

impl<R: AsyncRead + Unpin + Send + 'static> Transport<RoleServer> for LineTransport<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        // The message is queued before the future is polled, so the order is that of the calls.
        let written = serde_json::to_vec(&item).map(|bytes| self.queue_write(bytes));
        async move {
            match written?.await {
                Ok(result) => result,
                Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let received = self.next_message().await;
        if received.is_none() {
            self.over.send_replace(true);
        }
        received
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        // The writer ends once it has written what is queued.
        if let Some(out) = self.out.take() {
            let (done, written) = oneshot::channel();
            drop(out.send((Vec::new(), done)));
            drop(timeout(LAST_WORDS, written).await);
        }
        Ok(())
    }
}

async fn write_all(
    mut write: impl AsyncWrite + Unpin,
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
    waiting: Arc<watch::Sender<usize>>,
) {
    while let Some((bytes, done)) = queue.recv().await {
        let written = match write.write_all(&bytes).await {
            Ok(()) => write.flush().await,
            failed => failed,
        };
        if written.is_err() {
            // The writer has stopped: senders that wait for room see that the queue is closed.
            queue.close();
            waiting.send_replace(0);
            drop(done.send(written));
            return;
        }
        waiting.send_modify(|waiting| *waiting -= bytes.len());
        drop(done.send(written));
    }
}

/// Lets a request hold its place and its bytes until it is answered. A request that listens for changes is answered only at the
/// end.
fn hold(mut message: ClientJsonRpcMessage, held: Held) -> ClientJsonRpcMessage {
    use ClientRequest::SubscriptionsListenRequest as Listen;
    if let ClientJsonRpcMessage::Request(request) = &mut message
        && !matches!(request.request, Listen(_))
    {
        request.request.extensions_mut().insert(Arc::new(held));
    }
    message
}

/// Returns the answer to a line that is no message.
fn error(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// The fields that can be read of a line that is no message, however deep or large the rest of it is.
#[derive(Default, Deserialize)]
struct KnownOfLine {
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    #[serde(default)]
    method: Value,
}

fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

/// Reads a line as a message; `None` for a line that needs no answer.
fn message(line: &[u8]) -> Result<Option<ClientJsonRpcMessage>, Value> {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let unread = match serde_json::from_slice(line) {
        Ok(message) => return begins(message).map(Some),
        Err(unread) => unread,
    };
    if let Err(wrong) = serde_json::from_slice::<IgnoredAny>(line) {
        let message = format!("Parse error: {wrong}");
        return Err(error(&Value::Null, PARSE_ERROR, &message));
    }
    let known: Option<KnownOfLine> = match line.first() {
        Some(b'{') => serde_json::from_slice(line).ok(),
        _ => None,
    };
    let KnownOfLine { id, method } = known.unwrap_or_default();
    match (id, method.as_str()) {
        (Some(id), Some(_)) if id.is_number() && !id.is_i64() => {
            let message = "Invalid Request: a number as `id` is whole and fits 64 bits";
            Err(error(&id, INVALID_REQUEST, message))
        }
        (Some(id), Some(method)) if id.is_string() || id.is_i64() => {
            let (method, unread) = (one_line(method, 80), one_line(&unread.to_string(), 200));
            let message = format!("Invalid params: they do not fit `{method}`: {unread}");
            Err(error(&id, INVALID_PARAMS, &message))
        }
        // A notification is never answered.
        (None, Some(_)) => Ok(None),
        _ => Err(error(&Value::Null, INVALID_REQUEST, NO_MESSAGE)),
    }
}

const NO_MESSAGE: &str = "Invalid Request: each line is one JSON-RPC message with `method`, and `id` unless it is a notification";

/// Refuses an `initialize` request with wrong parameters, which the library takes for an unknown request.
fn begins(message: ClientJsonRpcMessage) -> Result<ClientJsonRpcMessage, Value> {
    if let ClientJsonRpcMessage::Request(request) = &message
        && let ClientRequest::CustomRequest(custom) = &request.request
        && custom.method == "initialize"
    {
        let id = serde_json::to_value(&request.id).unwrap_or_default();
        let wanted = "Invalid params: `initialize` needs `protocolVersion`, `capabilities` and `clientInfo` with `name` and `version`";
        return Err(error(&id, INVALID_PARAMS, wanted));
    }
    Ok(message)
}
