//! The server over HTTP on this machine: streamable HTTP without sessions, so that a client does not notice a restart of the
//! server. Every client that knows the token may call; a page in a browser may not, even with the token.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Bytes, Incoming};
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
use tower_http::timeout::TimeoutBody;

use super::mcp_server::{MAX_MESSAGE, ServedTools, Server, SharedState};

/// The one path that is served.
pub const PATH: &str = "/mcp";

/// Simultaneous connections of clients that have shown the token; more wait. Agents on one machine are few.
const CONNECTIONS: usize = 64;

/// Simultaneous connections that have not shown the token; they have places of their own. A client that has the token shows it
/// immediately: the server closes the oldest other connection when a new one needs its place.
const STRANGERS: usize = 32;

/// No connection younger than this is closed to make room: many clients that connect simultaneously need time to show the
/// token.
const GRACE: Duration = Duration::from_millis(100);

/// Bytes of all messages that are being read and answered; a single message may use them all.
const BUDGET: usize = MAX_MESSAGE;

/// A message up to this size uses nothing of the budget: an ordinary call never waits for a large one.
const SMALL: usize = 64 * 1024;

/// How long a client may be silent while it sends its request.
const SILENCE: Duration = Duration::from_secs(10);

/// The wait after a connection could not be accepted, for example while no file can be opened.
const PAUSE: Duration = Duration::from_millis(100);

type Body = BoxBody<Bytes, Infallible>;

/// Everything that a request needs.
struct AccessGate {
    /// The hash, not the token itself: the time that a comparison of hashes takes reveals nothing about the token.
    token: [u8; 32],
    service: StreamableHttpService<Server, NeverSessionManager>,
    known: Semaphore,
    strangers: Arc<Semaphore>,
    /// Notified when a new connection finds no place among the strangers.
    crowded: Notify,
    budget: Semaphore,
}

impl ServedTools {
    /// Serves clients that know the token, at a listener on this machine, until `ended` resolves.
    pub async fn on_http<T>(
        self,
        listener: TcpListener,
        token: &str,
        ended: impl Future<Output = T>,
    ) -> T {
        let shared = Arc::new(SharedState::new(self));
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
        let gate = Arc::new(AccessGate {
            token,
            service,
            known: Semaphore::new(CONNECTIONS),
            strangers: Arc::new(Semaphore::new(STRANGERS)),
            crowded: Notify::new(),
            budget: Semaphore::new(BUDGET),
        });
        let end = tokio::select! {
            end = ended => end,
            never = accept_connections(listener, gate) => match never {},
        };
        stop.cancel();
        end
    }
}

async fn accept_connections(listener: TcpListener, gate: Arc<AccessGate>) -> Infallible {
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

async fn converse(stream: TcpStream, gate: Arc<AccessGate>, place: Option<OwnedSemaphorePermit>) {
    // The connection's place among the known clients once it has shown the token, and the notification of that moment.
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
        // In this order: a connection that has shown the token by now keeps its place.
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

impl AccessGate {
    /// Returns a place among the connections that have not shown the token, as soon as one is free.
    async fn place_of_a_stranger(&self) -> Option<OwnedSemaphorePermit> {
        let places = Arc::clone(&self.strangers);
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            return Some(place);
        }
        // Connections that may be closed are notified in the order in which they arrived.
        self.crowded.notify_one();
        places.acquire_owned().await.ok()
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        if request.uri().path() != PATH {
            return refusal(StatusCode::NOT_FOUND, "the tools are served at `/mcp`\n");
        }
        // The room is acquired before the server reads any of the body. A message without a length may be as large as the whole
        // budget.
        let most = request.body().size_hint().upper();
        let most = most.map_or(BUDGET as u64, |most| most.min(BUDGET as u64));
        let bytes = if most > SMALL as u64 { most } else { 0 };
        let bytes = u32::try_from(bytes).expect("the budget fits");
        let _room = self.budget.acquire_many(bytes).await;
        // The room that it takes is needed by other clients, too.
        let timed = |body| TimeoutBody::new(SILENCE, body);
        self.service.handle(request.map(timed)).await
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
