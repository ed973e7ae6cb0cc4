//! The one gate: what every request must have before any other code sees it. A page of another site in the same browser, another
//! user of this machine and a program without the token are kept out here.

use std::time::{Duration, Instant};

use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, Request, StatusCode, Uri};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{ApiError, assets};
use crate::serve::PATH as TOOLS;
use crate::volumes::TokenFile;

/// The largest body of a request to the page's server, in bytes.
pub const MAX_BODY: usize = 64 * 1024;

/// Actions in a second; a person needs few, and a script that runs away is stopped.
const POSTS: u32 = 20;

/// Where a device without the token shows a code, and how often in a second all of them together may.
pub const PAIR: &str = "/api/v1/pair";
const CODES: u32 = 2;

const SECOND: Duration = Duration::from_secs(1);

/// How often an open connection looks whether its token still counts.
const TOKEN_READ: Duration = Duration::from_secs(1);

/// The hash of a token. It is compared in constant time: how long that takes says nothing of the token.
struct Hash([u8; 32]);

impl PartialEq for Hash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

/// A request that may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// It has the token.
    Known,
    /// It asks for a file of the page, which has no data.
    Asset,
    /// It shows a code for the token.
    Code,
}

/// An address under which a proxy or a tunnel shows the page: `https://host[:port]`.
#[derive(Clone, Debug)]
pub struct PublicUrl {
    origin: String,
    host: String,
}

impl PublicUrl {
    /// Reads the address.
    ///
    /// # Errors
    /// It is more than a scheme, a host and a port.
    pub fn parse(text: &str) -> Result<Self, String> {
        let uri = text.parse::<Uri>().ok();
        let uri = uri.filter(|uri| uri.path_and_query().is_none_or(|path| path == "/"));
        let scheme = uri.as_ref().and_then(Uri::scheme_str);
        let scheme = scheme.filter(|scheme| ["http", "https"].contains(scheme));
        let host = uri.as_ref().and_then(Uri::authority);
        let host = host.filter(|host| !host.as_str().contains('@') && !text.contains('#'));
        let (Some(scheme), Some(host)) = (scheme, host) else {
            return Err("must be an address such as https://plans.example.org".to_owned());
        };
        let host = host.as_str().to_ascii_lowercase();
        Ok(Self {
            origin: format!("{scheme}://{host}"),
            host,
        })
    }

    /// Returns the address without anything behind the host.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

/// The rules of a server.
pub struct Gate {
    token: TokenFile,
    hosts: Vec<String>,
    origins: Vec<String>,
    forwarded: bool,
    /// The files of the page are served.
    page: bool,
    read_only: bool,
    posts: Second,
    codes: Second,
    /// Gets the new token after the old one was seen in an address.
    replaced: Box<dyn Fn(&str) + Send + Sync>,
}

/// The beginning of a second, and what came in it.
type Second = Mutex<(Instant, u32)>;

impl Gate {
    /// Returns a gate for the tools alone, at a port of this machine.
    pub fn new(
        token: TokenFile,
        port: u16,
        replaced: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let hosts = ["127.0.0.1", "[::1]", "localhost"].map(|host| format!("{host}:{port}"));
        Self {
            token,
            origins: hosts.iter().map(|host| format!("http://{host}")).collect(),
            hosts: hosts.into(),
            forwarded: false,
            page: false,
            read_only: false,
            posts: Mutex::new((Instant::now(), 0)),
            codes: Mutex::new((Instant::now(), 0)),
            replaced: Box::new(replaced),
        }
    }

    /// Lets in visitors of the page, also those that come by a public address.
    #[must_use]
    pub fn with_page(mut self, read_only: bool, public: Option<PublicUrl>) -> Self {
        self.page = true;
        self.read_only = read_only;
        if let Some(public) = public {
            self.hosts.push(public.host);
            self.origins.push(public.origin);
            self.forwarded = true;
        }
        self
    }

    /// Returns how a request may go on.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check<B>(&self, request: &Request<B>) -> Result<Pass, ApiError> {
        let (headers, uri) = (request.headers(), request.uri());
        self.check_place(request)?;
        let method = request.method();
        if ![Method::GET, Method::HEAD, Method::POST, Method::DELETE].contains(method) {
            return Err(ApiError::wrong_method());
        }
        self.check_query(uri)?;
        if self.page && assets::has(uri.path()) && *method != Method::POST {
            return Ok(Pass::Asset);
        }
        if self.page && uri.path() == PAIR && *method == Method::POST {
            check_body(headers)?;
            return count(&self.codes, CODES).map(|()| Pass::Code);
        }
        let known = self.token_hash();
        if known.is_none() || known != shown(headers).map(hash) {
            let path = self.token.path().display();
            let message = "the token is missing or wrong: send `Authorization: Bearer TOKEN`";
            let error = ApiError::new(StatusCode::UNAUTHORIZED, message);
            return Err(error.hint(format!("the token is in {path}")));
        }
        if *method == Method::POST {
            self.check_post(headers, uri.path())?;
        }
        Ok(Pass::Known)
    }

    /// Checks where the request says that it comes from and goes to.
    fn check_place<B>(&self, request: &Request<B>) -> Result<(), ApiError> {
        let (headers, uri) = (request.headers(), request.uri());
        let named = |host: &str| self.hosts.contains(&host.to_ascii_lowercase());
        let elsewhere = uri.authority().is_some_and(|host| !named(host.as_str()));
        if elsewhere || !only(headers, HOST.as_str()).is_some_and(named) {
            let message = "the address of the request is not one of this server";
            let hint = "open the address that the program printed, or give `--public-url`";
            return Err(ApiError::new(StatusCode::MISDIRECTED_REQUEST, message).hint(hint));
        }
        let forwarded = |name: &str| name == "forwarded" || name.starts_with("x-forwarded");
        if !self.forwarded && headers.keys().any(|name| forwarded(name.as_str())) {
            let error = ApiError::bad_request("the request was forwarded by a proxy");
            return Err(error.hint("`--public-url https://host` allows one"));
        }
        let own = |origin: &str| self.origins.iter().any(|own| own == origin);
        let foreign =
            headers.contains_key(ORIGIN) && !only(headers, ORIGIN.as_str()).is_some_and(own);
        let site = "sec-fetch-site";
        let near = |site: &str| ["same-origin", "none"].contains(&site);
        let far = headers.contains_key(site) && !only(headers, site).is_some_and(near);
        if foreign || far && !is_visit(request) {
            let message = "the request comes from another site";
            return Err(ApiError::new(StatusCode::FORBIDDEN, message));
        }
        Ok(())
    }

    /// Refuses a token in an address, which histories and logs keep: the one that was shown there counts no longer.
    fn check_query(&self, uri: &Uri) -> Result<(), ApiError> {
        let Some(query) = uri.query() else {
            return Ok(());
        };
        let known = self.token_hash();
        let is_token = |word: &str| known == Some(hash(word));
        let pairs = query.split('&');
        let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, pair)));
        let suspect =
            pairs.find(|(name, value)| name.eq_ignore_ascii_case("token") || is_token(value));
        let Some((_, value)) = suspect else {
            return Ok(());
        };
        let mut error = ApiError::bad_request("a token is never part of an address");
        if is_token(value) {
            error = error.hint("the token is replaced: the program printed another address");
            match self.token.renew() {
                Ok(token) => (self.replaced)(&token),
                Err(error) => tracing::warn!(%error, "the token is not replaced"),
            }
        }
        Err(error)
    }

    /// Resolves when the token is another one than now: who came in with it must go.
    pub async fn token_is_replaced(&self) {
        let now = self.token_hash();
        while self.token_hash() == now {
            tokio::time::sleep(TOKEN_READ).await;
        }
    }

    /// Returns the hash of the token as it is now: another process may replace it. `None` if the file is gone or cannot be trusted.
    fn token_hash(&self) -> Option<Hash> {
        self.token.read().ok().as_deref().map(hash)
    }

    fn check_post(&self, headers: &HeaderMap, path: &str) -> Result<(), ApiError> {
        if self.read_only {
            let error = ApiError::new(StatusCode::FORBIDDEN, "this page only shows");
            return Err(error.hint("start `web` without `--read-only`"));
        }
        // The tools have rules of their own for what they read.
        if path == TOOLS {
            return Ok(());
        }
        check_body(headers)?;
        count(&self.posts, POSTS)
    }
}

/// Counts one more in this second, unless there were too many.
fn count(second: &Second, most: u32) -> Result<(), ApiError> {
    let mut second = second.lock();
    if second.0.elapsed() >= SECOND {
        *second = (Instant::now(), 0);
    }
    second.1 += 1;
    if second.1 > most {
        let message = format!("more than {most} actions in a second");
        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, message));
    }
    Ok(())
}

/// Returns the token, once, as a client shows it.
fn shown(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = only(headers, AUTHORIZATION.as_str())?.split_once(' ')?;
    let bearer = scheme.eq_ignore_ascii_case("bearer");
    bearer.then_some(token.trim())
}

fn hash(word: &str) -> Hash {
    Hash(Sha256::digest(word.as_bytes()).into())
}

/// Refuses a body that is not JSON, or too long.
fn check_body(headers: &HeaderMap) -> Result<(), ApiError> {
    let kind = only(headers, CONTENT_TYPE.as_str()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let message = "the body must be `application/json`";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let length = only(headers, CONTENT_LENGTH.as_str()).and_then(|text| text.parse().ok());
    if length.is_some_and(|length: u64| length > MAX_BODY as u64) {
        let message = "the body has more than 64 KiB";
        return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    Ok(())
}

/// Returns whether a person follows a link to the page, such as one in a notification. The page that is shown then has no data,
/// and the other site sees nothing of it.
fn is_visit<B>(request: &Request<B>) -> bool {
    let is = |name, value| only(request.headers(), name) == Some(value);
    *request.method() == Method::GET
        && request.uri().path() == "/"
        && is("sec-fetch-mode", "navigate")
        && is("sec-fetch-dest", "document")
}

/// Returns the only header of a name.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut all = headers.get_all(name).into_iter();
    match (all.next(), all.next()) {
        (Some(one), None) => one.to_str().ok(),
        _ => None,
    }
}
