//! The connections: how many there are, who keeps a place, and how long a client may be silent. A visitor without the token has a
//! place among others without one, so that however many they are, they keep no client out.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use hyper::Request;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OnceCell, OwnedSemaphorePermit, Semaphore};
use tower_http::timeout::TimeoutBody;

use super::{Gate, MAX_BODY, Pass, assets};
use crate::serve::{MAX_MESSAGE, PATH};

/// Simultaneous connections of clients that have shown the token; more wait. Agents on one machine are few, and so are the pages
/// of a person.
const CONNECTIONS: usize = 64;

/// Simultaneous connections that have not shown the token; they have places of their own. A client that has the token shows it
/// immediately: the server closes the oldest other connection when a new one needs its place.
const STRANGERS: usize = 32;

/// No connection younger than this is closed to make room: many clients that connect simultaneously need time to show the
/// token.
const GRACE: Duration = Duration::from_millis(100);

/// Bytes of all messages to the tools that are being read and answered; a single message may use them all.
const BUDGET: usize = MAX_MESSAGE;

/// How long a client may be silent while it sends its request.
const SILENCE: Duration = Duration::from_secs(10);

/// The most bytes of a request's headers.
const HEADERS: usize = 16 * 1024;

/// The wait after a connection could not be accepted, for example while no file can be opened.
const PAUSE: Duration = Duration::from_millis(100);

/// What a browser is asked to keep to, in every answer. Nothing is loaded, framed or sent but from and to this server.
const GUARDS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", ""),
];

/// Everything that a connection needs.
struct Server {
    gate: Gate,
    router: TowerToHyperService<Router>,
    known: Semaphore,
    strangers: Arc<Semaphore>,
    /// Notified when a new connection finds no place among the strangers.
    crowded: Notify,
    budget: Semaphore,
}

/// Serves what passes the gate, at a listener on this machine, until `ended` resolves.
pub async fn serve<T>(
    listener: TcpListener,
    gate: Gate,
    router: Router,
    ended: impl Future<Output = T>,
) -> T {
    let server = Arc::new(Server {
        gate,
        router: TowerToHyperService::new(router),
        known: Semaphore::new(CONNECTIONS),
        strangers: Arc::new(Semaphore::new(STRANGERS)),
        crowded: Notify::new(),
        budget: Semaphore::new(BUDGET),
    });
    tokio::select! {
        end = ended => end,
        never = accept_connections(listener, server) => match never {},
    }
}

async fn accept_connections(listener: TcpListener, server: Arc<Server>) -> Infallible {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let place = server.place_of_a_stranger().await;
                tokio::spawn(converse(stream, Arc::clone(&server), place));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be taken");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, server: Arc<Server>, place: Option<OwnedSemaphorePermit>) {
    // An event is small, and the next one must not wait until the browser has confirmed it.
    drop(stream.set_nodelay(true));
    // The connection's place among the known clients once it has shown the token, and the notification of that moment.
    let (known, shown) = &(OnceCell::new(), Notify::new());
    let server = &server;
    let answer = service_fn(|request: Request<Incoming>| async move {
        let response = match server.gate.check(&request) {
            Err(refusal) => refusal.into_response(),
            Ok(Pass::Asset) => assets::answer(&request),
            Ok(Pass::Code) => server.answer(request).await,
            Ok(Pass::Known) => {
                shown.notify_one();
                let place = known.get_or_try_init(|| server.known.acquire()).await;
                place.expect("the places are never closed");
                server.answer(request).await
            }
        };
        Ok::<_, Infallible>(guarded(response))
    });
    let mut conversation = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(SILENCE)
            .max_buf_size(HEADERS)
            .serve_connection(TokioIo::new(stream), answer)
    );
    let in_the_way = async {
        tokio::time::sleep(GRACE).await;
        server.crowded.notified().await;
    };
    let end = tokio::select! {
        // In this order: a connection that has shown the token by now keeps its place.
        biased;
        end = &mut conversation => end,
        () = shown.notified() => {
            drop(place);
            tokio::select! {
                end = conversation => end,
                () = server.gate.token_is_replaced() => return,
            }
        }
        () = in_the_way => return,
    };
    if let Err(error) = end {
        tracing::debug!(%error, "a connection broke");
    }
}

impl Server {
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

    async fn answer(&self, request: Request<Incoming>) -> Response {
        // The room is acquired before the server reads any of the body. A message without a length may be as large as the whole
        // budget; an ordinary call never waits for a large one.
        let most = request.body().size_hint().upper();
        let most = most.map_or(BUDGET as u64, |most| most.min(BUDGET as u64));
        let large = request.uri().path() == PATH && most > MAX_BODY as u64;
        let bytes = u32::try_from(if large { most } else { 0 }).expect("the budget fits");
        let _room = self.budget.acquire_many(bytes).await;
        // The room that it takes is needed by other clients, too.
        let request = request.map(|body| Body::new(TimeoutBody::new(SILENCE, body)));
        match self.router.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// Adds what every answer says to a browser. Data is never kept.
fn guarded(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in GUARDS {
        let name = HeaderName::from_static(name);
        headers.insert(name, HeaderValue::from_static(value));
    }
    let kept = headers.entry(CACHE_CONTROL);
    kept.or_insert(HeaderValue::from_static("no-store"));
    response
}
