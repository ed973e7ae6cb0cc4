//! The server over HTTP on this machine: streamable HTTP without sessions, so that a client does not notice when the server is
//! started again. Whoever knows the token may call; a page in a browser may not, whatever it knows.

use std::convert::Infallible;
use std::error::Error;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Bytes, Frame, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

use super::mcp::{MAX_MESSAGE, Served, Server, Shared};

/// The one path that is served.
pub const PATH: &str = "/mcp";

/// Connections at once of those who have shown the token; more wait. Agents on one machine are few.
const CONNECTIONS: usize = 64;

/// Connections at once that have not shown it, in places of their own. Whoever has it shows it at once: the oldest of the
/// others is closed where another one wants in.
const STRANGERS: usize = 32;

/// Until then nobody is closed to make room: many that come at once are to have the time to show the token.
const GRACE: Duration = Duration::from_millis(100);

/// Bytes of all messages that are read and worked on; a single one may have them all.
const BUDGET: usize = MAX_MESSAGE;

/// A message of this size takes nothing of the budget: an ordinary call never waits for a large one.
const SMALL: usize = 64 * 1024;

/// How long a client may be silent while it says what it wants.
const SILENCE: Duration = Duration::from_secs(10);

/// The wait after a connection could not be taken, such as while no file can be opened.
const PAUSE: Duration = Duration::from_millis(100);

type Body = BoxBody<Bytes, Infallible>;

/// Everything that a request needs.
struct Gate {
    /// Not the token itself: comparing what was hashed tells nothing about it by how long it takes.
    token: [u8; 32],
    service: StreamableHttpService<Server, NeverSessionManager>,
    known: Semaphore,
    strangers: Arc<Semaphore>,
    /// Told when somebody finds no place among the strangers.
    crowded: Notify,
    budget: Semaphore,
}

impl Served {
    /// Serves whoever knows the token at a listener on this machine, until `ended` resolves.
    pub async fn on_http<T>(
        self,
        listener: TcpListener,
        token: &str,
        ended: impl Future<Output = T>,
    ) -> T {
        let shared = Arc::new(Shared::new(self));
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(MAX_MESSAGE)
            .enforce_origin_validation();
        let stop = config.cancellation_token.clone();
        let service = StreamableHttpService::new(
            move || Ok(Server::without_session(Arc::clone(&shared))),
            Arc::new(NeverSessionManager::default()),
            config,
        );
        let token = Sha256::digest(token.as_bytes()).into();
        let gate = Arc::new(Gate {
            token,
            service,
            known: Semaphore::new(CONNECTIONS),
            strangers: Arc::new(Semaphore::new(STRANGERS)),
            crowded: Notify::new(),
            budget: Semaphore::new(BUDGET),
        });
        let end = tokio::select! {
            end = ended => end,
            never = take_connections(listener, gate) => match never {},
        };
        stop.cancel();
        end
    }
}

async fn take_connections(listener: TcpListener, gate: Arc<Gate>) -> Infallible {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let place = gate.place_of_a_stranger().await;
                tokio::spawn(converse(stream, Arc::clone(&gate), place));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be taken");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, gate: Arc<Gate>, place: Option<OwnedSemaphorePermit>) {
    // The place among those who are known, once the token was shown, and that this has come to pass.
    let (known, shown) = &(OnceCell::new(), Notify::new());
    let gate = &gate;
    let answer = service_fn(|request: Request<Incoming>| async move {
        if gate.knows(request.headers()) {
            shown.notify_one();
            let place = known.get_or_try_init(|| gate.known.acquire()).await;
            place.expect("the places are never closed");
            return Ok::<_, Infallible>(gate.answer(request).await);
        }
        Ok(unknown())
    });
    let mut conversation = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(SILENCE)
            .serve_connection(TokioIo::new(stream), answer)
    );
    let in_the_way = async {
        tokio::time::sleep(GRACE).await;
        gate.crowded.notified().await;
    };
    let end = tokio::select! {
        // In this order: who has shown the token by now is not in the way.
        biased;
        end = &mut conversation => end,
        () = shown.notified() => {
            drop(place);
            conversation.await
        }
        () = in_the_way => return,
    };
    if let Err(error) = end {
        tracing::debug!(%error, "a connection broke");
    }
}

impl Gate {
    /// Returns a place among those who have not shown the token, as soon as there is one.
    async fn place_of_a_stranger(&self) -> Option<OwnedSemaphorePermit> {
        let places = Arc::clone(&self.strangers);
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            return Some(place);
        }
        // Those who wait to be in the way are told in the order in which they came.
        self.crowded.notify_one();
        places.acquire_owned().await.ok()
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        if request.uri().path() != PATH {
            return refusal(StatusCode::NOT_FOUND, "the tools are served at `/mcp`\n");
        }
        // Before any of it is read. Of a message that does not say how long it is, as much may come as is read of any.
        let most = request.body().size_hint().upper();
        let most = most.map_or(BUDGET as u64, |most| most.min(BUDGET as u64));
        let bytes = if most > SMALL as u64 { most } else { 0 };
        let bytes = u32::try_from(bytes).expect("the budget fits");
        let _room = self.budget.acquire_many(bytes).await;
        self.service.handle(request.map(Heard::new)).await
    }

    fn knows(&self, headers: &HeaderMap) -> bool {
        let mut given = headers.get_all(AUTHORIZATION).into_iter();
        let (Some(only), None) = (given.next(), given.next()) else {
            return false;
        };
        let Some((scheme, token)) = only.to_str().ok().and_then(|text| text.split_once(' ')) else {
            return false;
        };
        let hashed: [u8; 32] = Sha256::digest(token.trim().as_bytes()).into();
        scheme.eq_ignore_ascii_case("bearer") && hashed == self.token
    }
}

/// A body whose sender is not waited for without end: the room that it takes is that of others, too.
struct Heard {
    body: Incoming,
    silence: Pin<Box<Sleep>>,
}

impl Heard {
    fn new(body: Incoming) -> Self {
        let silence = Box::pin(tokio::time::sleep(SILENCE));
        Self { body, silence }
    }
}

impl hyper::body::Body for Heard {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(frame) => {
                self.silence.as_mut().reset(Instant::now() + SILENCE);
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => {
                ready!(self.silence.as_mut().poll(context));
                Poll::Ready(Some(Err("nothing more came".into())))
            }
        }
    }
}

fn unknown() -> Response<Body> {
    let mut refusal = refusal(
        StatusCode::UNAUTHORIZED,
        "the token is missing or wrong; send `Authorization: Bearer TOKEN` with what is in `mcp.token`\n",
    );
    let challenge = HeaderValue::from_static("Bearer");
    refusal.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    refusal
}

fn refusal(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}
