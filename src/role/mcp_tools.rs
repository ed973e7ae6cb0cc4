//! Tools of servers of the Model Context Protocol. A server is a child in a process group of its own, spoken with over pipes;
//! what it says is bounded, what it is asked has a deadline, and one that has ended is started again when it is needed.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, PaginatedRequestParams,
};
use rmcp::service::{ClientInitializeError, Peer, RoleClient, RunningService, ServiceError};
use serde_json::Value;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::task::JoinSet;
use tokio::time::sleep;
use uuid::Uuid;

use crate::config::McpConfig;
use crate::exec::{
    ChildOutput, ChildSpec, ExecError, MarkKind, ProcessGroup, ProcessMark, environment, piped,
};
use crate::plan::unless_empty;
use crate::plan_time::TimeAllowance;
use crate::wire::{clip, one_line, printable, quote};

use super::{Abilities, Ability};

/// Bytes of one message.
const MAX_MESSAGE: usize = 4 * 1024 * 1024;

/// Tools that one server may have, pages that they may come on, and bytes of the schema of one of them.
const MAX_TOOLS: usize = 500;
const MAX_PAGES: usize = 20;
const MAX_SCHEMA: usize = 64 * 1024;

/// Characters of a tool's description, and of a tool's name.
const DESCRIPTION: usize = 2_000;
const NAME: usize = 128;

/// Bytes of the end of a server's standard error that a message quotes.
const LAST_WORDS: usize = 2 * 1024;

/// Bytes that a server's standard error may take, and how often this is checked.
const MAX_SAID: u64 = 1024 * 1024;
const LOOK: Duration = Duration::from_secs(5);

/// Why the tools of a server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    #[error("the MCP server `{server}` cannot be started: {source}")]
    Start { server: String, source: ExecError },
    #[error("the MCP server `{server}` {reason}")]
    Failed { server: String, reason: String },
}

/// A server whose tools roles may use; ended when the last of them is dropped.
pub struct McpServer {
    /// Precedes the names of its tools.
    name: String,
    config: McpConfig,
    cwd: PathBuf,
    /// The folder with the mark by which the next process finds and ends the server after a kill.
    marks: Option<PathBuf>,
    connection: tokio::sync::Mutex<Option<Connection>>,
}

struct Connection {
    id: Uuid,
    client: RunningService<RoleClient, ()>,
    child: ServerProcess,
}

/// A server's process: ended when this is dropped, and no longer found then.
struct ServerProcess {
    output: Arc<ChildOutput>,
    /// Whether a message was longer than one may be, so that the connection was ended.
    too_large: Arc<AtomicBool>,
    _bounds: JoinSet<()>,
    _group: ProcessGroup,
    _mark: Option<ProcessMark>,
}

impl ServerProcess {
    /// Returns the end of what it complained of.
    fn last_words(&self) -> String {
        printable(&self.output.err_since(0, LAST_WORDS))
    }
}

impl McpServer {
    /// Starts a server in a folder and returns its tools, `NAME.<tool>` each. What a role must not use is left out by
    /// [`Abilities::only`]. With a folder for marks, the next process finds and ends the server after a kill.
    ///
    /// # Errors
    /// It cannot be started, does not speak the protocol, or does not answer in time.
    pub async fn start(
        name: &str,
        config: &McpConfig,
        cwd: &Path,
        marks: Option<&Path>,
    ) -> Result<Abilities, McpError> {
        let server = Arc::new(Self {
            name: name.to_owned(),
            config: config.clone(),
            cwd: cwd.to_owned(),
            marks: marks.map(Path::to_owned),
            connection: tokio::sync::Mutex::new(None),
        });
        let (peer, id) = server.peer().await?;
        let tools = server.answer(id, Box::pin(list(&peer))).await?.into_iter();
        Ok(tools.filter_map(|tool| server.tool(tool)).collect())
    }

    fn tool(self: &Arc<Self>, tool: rmcp::model::Tool) -> Option<Arc<Ability>> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        let named = (1..=NAME).contains(&tool.name.len()) && tool.name.chars().all(fits);
        let schema = Value::Object((*tool.input_schema).clone());
        if !named || schema.to_string().len() > MAX_SCHEMA {
            tracing::warn!(server = %self.name, tool = %one_line(&tool.name, 80), "a tool that cannot be used");
            return None;
        }
        let name = format!("{}.{}", self.name, tool.name);
        let description = printable(&tool.description.unwrap_or_default());
        let description = clip(&description, DESCRIPTION);
        let (server, remote) = (Arc::clone(self), tool.name.into_owned());
        let mut does = Ability::new(&name, &description, schema, move |params, _| {
            let (server, remote) = (Arc::clone(&server), remote.clone());
            Box::pin(async move {
                let called = server.call(&remote, params).await;
                called.map_err(|error| error.to_string())
            })
        });
        does.limits_itself = true;
        Some(Arc::new(does))
    }

    /// Returns the way to the server, which is started if it does not run.
    async fn peer(&self) -> Result<(Peer<RoleClient>, Uuid), McpError> {
        let mut connection = self.connection.lock().await;
        if let Some(there) = &*connection
            && !there.client.peer().is_transport_closed()
        {
            return Ok((there.client.peer().clone(), there.id));
        }
        *connection = None;
        let made = connection.insert(self.connect().await?);
        Ok((made.client.peer().clone(), made.id))
    }

    async fn connect(&self) -> Result<Connection, McpError> {
        let spec = ChildSpec {
            argv: self.config.command.clone(),
            cwd: self.cwd.clone(),
            env: environment(&self.config.env),
            stdin: None,
            deadline: self.config.timeout,
        };
        let (stdin, read, child) = self.run(&spec).map_err(|source| McpError::Start {
            server: self.name.clone(),
            source,
        })?;
        let too_large = Arc::clone(&child.too_large);
        let read = BoundedReader {
            read,
            line: 0,
            too_large,
        };
        let client = Box::pin(().serve((read, stdin)));
        let begun = self.in_time(async { client.await.map_err(not_begun) });
        let begun = begun.await;
        let client = begun.map_err(|(reason, _)| self.failed(reason, Some(&child)))?;
        let id = Uuid::new_v4();
        Ok(Connection { id, client, child })
    }

    fn run(&self, spec: &ChildSpec) -> Result<(ChildStdin, ChildStdout, ServerProcess), ExecError> {
        let cannot = |source| ExecError::Start {
            program: self.config.command.first().cloned().unwrap_or_default(),
            source,
        };
        let mark = |marks| ProcessMark::new(marks, MarkKind::Server, &self.name);
        let marked = self.marks.as_deref().map(mark).transpose();
        let (mut mark, output) = match marked.map_err(cannot)?.flatten() {
            Some((mark, output)) => (Some(mark), output),
            None => (None, ChildOutput::nameless().map_err(cannot)?),
        };
        let (stdin, stdout, group) = piped(spec, &output)?;
        if let Some(mark) = &mut mark {
            mark.name_group(group.id());
        }
        let output = Arc::new(output);
        let mut bounds = JoinSet::new();
        bounds.spawn(bound(Arc::clone(&output)));
        let served = ServerProcess {
            output,
            too_large: Arc::default(),
            _bounds: bounds,
            _group: group,
            _mark: mark,
        };
        Ok((stdin, stdout, served))
    }

    /// Waits for an answer as long as one may take. The error says why there is none, and whether it is late.
    async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, String>>,
    ) -> Result<T, (String, bool)> {
        let timeout = self.config.timeout;
        let mut allowance = TimeAllowance::new(timeout);
        tokio::select! {
            biased;
            done = work => done.map_err(|error| (one_line(&error, 400), false)),
            () = allowance.used_up() => Err((format!("did not answer within {timeout:?}"), true)),
        }
    }

    /// Waits for the answer to a question that was put over a connection. A server that does not answer is ended, unless
    /// another one runs in its place by now: the next call starts it again instead of waiting as long once more.
    async fn answer<T>(
        &self,
        id: Uuid,
        question: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, McpError> {
        let answer = self.in_time(async { question.await.map_err(not_answered) });
        let (reason, late) = match answer.await {
            Ok(answer) => return Ok(answer),
            Err(failed) => failed,
        };
        let failed = self.failed_now(reason).await;
        let mut connection = self.connection.lock().await;
        if late && connection.as_ref().is_some_and(|there| there.id == id) {
            *connection = None;
        }
        Err(failed)
    }

    /// Makes the error of a failure, with the end of what the server complained of.
    async fn failed_now(&self, reason: String) -> McpError {
        let connection = self.connection.lock().await;
        self.failed(reason, connection.as_ref().map(|there| &there.child))
    }

    fn failed(&self, mut reason: String, child: Option<&ServerProcess>) -> McpError {
        if child.is_some_and(|child| child.too_large.load(Ordering::Relaxed)) {
            reason = format!("gave an answer that is too large: more than {MAX_MESSAGE} bytes");
        }
        let said = child.map(ServerProcess::last_words).unwrap_or_default();
        reason += &unless_empty(&one_line(&said, 400), |said| format!("; it says: {said}"));
        let server = self.name.clone();
        McpError::Failed { server, reason }
    }

    async fn call(&self, tool: &str, params: Value) -> Result<String, McpError> {
        let (peer, id) = self.peer().await?;
        let mut request = CallToolRequestParams::new(tool.to_owned());
        if let Value::Object(params) = params {
            request = request.with_arguments(params);
        }
        let called = Box::pin(peer.call_tool_once(request));
        let CallToolResponse::Complete(result) = self.answer(id, called).await? else {
            let reason = "wants more than an answer to a call".to_owned();
            return Err(self.failed_now(reason).await);
        };
        let text = text_of(&result);
        if result.is_error == Some(true) {
            let reason = format!("refuses {}: {}", quote(tool), clip(&text, DESCRIPTION));
            return Err(self.failed(reason, None));
        }
        Ok(text)
    }
}

/// Returns what a tool said as a text.
fn text_of(result: &CallToolResult) -> String {
    let block = |block: &ContentBlock| match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(_) => "[an image]".to_owned(),
        ContentBlock::Audio(_) => "[a sound]".to_owned(),
        ContentBlock::Resource(_) => "[a resource]".to_owned(),
        ContentBlock::ResourceLink(link) => format!("[{}]", link.uri),
        _ => "[something else]".to_owned(),
    };
    let texts: Vec<String> = result.content.iter().map(block).collect();
    match &result.structured_content {
        Some(value) if texts.is_empty() => value.to_string(),
        _ => texts.join("\n"),
    }
}

async fn list(peer: &Peer<RoleClient>) -> Result<Vec<rmcp::model::Tool>, ServiceError> {
    let mut tools = Vec::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(page)).await?;
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() || tools.len() >= MAX_TOOLS {
            break;
        }
    }
    tools.truncate(MAX_TOOLS);
    Ok(tools)
}

/// Says why a server cannot be spoken with.
fn not_begun(error: ClientInitializeError) -> String {
    use ClientInitializeError::{ConnectionClosed, TransportError};
    match error {
        ConnectionClosed(_) | TransportError { .. } => "ended before it said who it is".to_owned(),
        other => format!("does not speak the protocol: {other}"),
    }
}

/// Says why a server did not answer.
fn not_answered(error: ServiceError) -> String {
    use ServiceError::{TransportClosed, TransportSend};
    match error {
        TransportClosed | TransportSend(_) => "ended before it answered".to_owned(),
        other => format!("gave no answer: {other}"),
    }
}

/// Keeps what a server complains of from filling the disk.
async fn bound(output: Arc<ChildOutput>) {
    loop {
        sleep(LOOK).await;
        output.forget_err(MAX_SAID);
    }
}

/// A reader that fails when a line does not end.
struct BoundedReader<R> {
    read: R,
    line: usize,
    too_large: Arc<AtomicBool>,
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.read).poll_read(context, buffer);
        let new = &buffer.filled()[before..];
        self.line = match new.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => new.len() - end - 1,
            None => self.line + new.len(),
        };
        if self.line > MAX_MESSAGE {
            self.too_large.store(true, Ordering::Relaxed);
            return Poll::Ready(Err(io::Error::other("a message is too long")));
        }
        read
    }
}
