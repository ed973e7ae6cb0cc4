//! One POST to a model's endpoint: where it may go, how long it may be silent, how large the response may be, and the name of
//! each kind of failure. This module owns the key; no text that leaves it contains the key.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use regex_lite::Regex;
use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::Value;
use tokio::time::timeout;

use super::{ApiAnswer, Fault, LlmError, Result, own_words};
use crate::config::{ModelEndpoint, is_loopback};
use crate::plan::ModelCost;
use crate::wire::text::exceeds_context;
use crate::wire::{Problem, joined};

/// The largest response body, in bytes; an answer of 16,000 tokens has about 64 KiB.
const MAX_BODY: usize = 4 << 20;
/// A server that has not accepted the connection by then is not reachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Shorter than the idle limits of servers, which close idle connections without notice.
const IDLE_CONNECTION: Duration = Duration::from_secs(15);
/// The shortest key that is searched for in replies, in characters. Shorter keys are placeholders for a person's own servers
/// (`test`, `none`) and words of ordinary answers; keys of services have 30 characters and more.
const LONG_KEY: usize = 20;
/// The replacement for the key.
const SCRUBBED: &str = "[key]";

/// Installs ring as the process's TLS provider, once; without it no HTTP client can be built.
pub fn install_crypto() {
    static DONE: OnceLock<()> = OnceLock::new();
    DONE.get_or_init(|| {
        // An error only means that another part of the process has installed one already.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
}

/// Returns what builds a client for an address: it follows no redirect, as what is sent is for that host alone.
pub fn client_builder(url: &Url) -> ClientBuilder {
    install_crypto();
    let mut builder = Client::builder()
        .user_agent(concat!("plan-agent/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_CONNECTION);
    if is_loopback(url) {
        // A proxy on the way to this machine itself would only be an obstacle, and would see the prompts.
        builder = builder.no_proxy();
        if url.scheme() == "http" {
            // This connection is never encrypted, and reading the system's certificates takes longer than the start of the
            // program.
            builder = builder.tls_certs_only([]);
        }
    }
    builder
}

/// A model's address with the client for it. What it prints of itself has no key: that is in types that never show it.
#[derive(Debug)]
pub(super) struct Endpoint {
    client: Client,
    url: Url,
    /// Its name and address, as errors say them.
    asked: String,
    /// The model's name at the provider.
    pub(super) model: String,
    key: Option<SecretString>,
    /// The longest silence.
    pub(super) timeout: Duration,
}

impl Endpoint {
    /// Sets up a client for `path` below the base URL. The key goes into a header, after a prefix; `headers` are sent alongside
    /// it. The timeout is the longest silence of the server.
    pub fn new(
        endpoint: &ModelEndpoint,
        model: &str,
        timeout: Duration,
        path: &str,
        (key_header, word): (&'static str, &str),
        headers: &[(&'static str, &'static str)],
    ) -> Result<Self, Problem> {
        let url = endpoint.base_url.with_path(path);
        let shown_url = url.to_string();
        let key = endpoint.key.as_ref().and_then(trimmed);
        let mut sent = HeaderMap::new();
        for (name, value) in headers {
            sent.insert(*name, HeaderValue::from_static(value));
        }
        if let Some(key) = &key {
            let text = SecretString::from(format!("{word}{}", key.expose_secret()));
            let mut value = HeaderValue::from_str(text.expose_secret()).map_err(|_| {
                let problem = "holds characters that no header can carry";
                Problem::new(format!("the key for `{shown_url}` {problem}"))
                    .with_hint("look for blanks or line breaks in the variable that holds the key")
            })?;
            value.set_sensitive(true);
            sent.insert(key_header, value);
        }
        let client = client_builder(&url).default_headers(sent).build();
        let client = client.map_err(|error| {
            let message = format!("cannot set up the HTTP client: {}", chain(&error));
            Problem::new(message).with_hint("check the system's proxy settings")
        })?;
        Ok(Self {
            client,
            url,
            asked: format!("model `{model}` at `{shown_url}`"),
            model: model.to_owned(),
            key,
            timeout,
        })
    }

    /// Makes an error about this endpoint.
    pub fn error(&self, fault: Fault) -> LlmError {
        LlmError {
            asked: self.asked.clone(),
            fault,
            spent: ModelCost::default(),
        }
    }

    /// Sends a body and returns the answer that came back with a success status.
    pub async fn post<A: ApiAnswer>(&self, body: &impl Serialize, max_tokens: u32) -> Result<A> {
        let body = serde_json::to_vec(body).expect("requests have text keys and no fallible parts");
        let request = self.client.post(self.url.clone()).body(body);
        let sent = request.header(CONTENT_TYPE, "application/json").send();
        let response = timeout(self.timeout, sent).await;
        let response = response.map_err(|_| self.timed_out())?;
        let response = response.map_err(|error| self.broken(error, Fault::Unreachable))?;
        let status = response.status();
        let retry_after = retry_after(response.headers(), SystemTime::now());
        if status.is_redirection() {
            return Err(self.error(Fault::Redirected(status.as_u16())));
        }
        let kind = response.headers().get(CONTENT_TYPE);
        let is_stream = |kind: &HeaderValue| kind.as_bytes().starts_with(b"text/event-stream");
        if status.is_success() && kind.is_some_and(is_stream) {
            return self.stream(response, max_tokens).await;
        }
        let bytes = match self.body(response).await {
            // The status says more than the body that is missing.
            Err(_) if !status.is_success() => Vec::new(),
            other => other?,
        };
        if !status.is_success() {
            return Err(self.refusal(status, &bytes, retry_after));
        }
        serde_json::from_value(self.json(&bytes)?).map_err(|error| self.unexpected(&error))
    }

    /// Reads an answer or a part of one. Refuses an error under status 200, as it comes from some gateways and within streams.
    pub fn json(&self, bytes: &[u8]) -> Result<Value> {
        let no_json = |_| self.saying(&String::from_utf8_lossy(bytes), Fault::NotJson);
        let json: Value = serde_json::from_slice(bytes).map_err(no_json)?;
        let Some(error) = json.get("error").filter(|error| !error.is_null()) else {
            return Ok(json);
        };
        let code = error["code"].as_u64().and_then(|code| code.try_into().ok());
        let status = code.and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Err(self.refusal(status, bytes, None))
    }

    pub fn timed_out(&self) -> LlmError {
        self.error(Fault::TimedOut(self.timeout))
    }

    /// Makes an error with words that come from outside.
    pub fn saying(&self, words: &str, fault: impl FnOnce(String) -> Fault) -> LlmError {
        self.error(fault(self.own_words(words)))
    }

    fn broken(&self, error: reqwest::Error, fault: fn(String) -> Fault) -> LlmError {
        self.saying(&chain(&error.without_url()), fault)
    }

    pub fn unexpected(&self, error: &dyn std::error::Error) -> LlmError {
        self.saying(&error.to_string(), Fault::Unexpected)
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            let chunk = timeout(self.timeout, response.chunk()).await;
            let chunk = chunk.map_err(|_| self.timed_out())?;
            let Some(chunk) = chunk.map_err(|error| self.broken(error, Fault::CutBody))? else {
                return Ok(bytes);
            };
            if bytes.len() + chunk.len() > MAX_BODY {
                return Err(self.error(Fault::TooLarge(MAX_BODY)));
            }
            bytes.extend_from_slice(&chunk);
        }
    }

    fn refusal(&self, status: StatusCode, bytes: &[u8], retry_after: Option<Duration>) -> LlmError {
        let json: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let said = error_message(&json);
        let said = said.unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned());
        let message = self.own_words(&said);
        let status = status.as_u16();
        let kinds = ["code", "type"].map(|name| json["error"][name].as_str().unwrap_or_default());
        let words = format!("{message} {}", kinds.join(" "));
        self.error(match status {
            401 | 403 => Fault::Unauthorised { status, message },
            // Beside 413, servers say so with 400, 422, or a fault of their own.
            _ if status == 413 || exceeds_context(&words) => {
                let status = Some(status);
                Fault::Overflow { status, message }
            }
            // 408 request timeout, 409 conflict and 425 too early are temporary, as are overload and server faults.
            408 | 409 | 425 | 429 | 500.. => Fault::Unavailable {
                status,
                message,
                retry_after,
            },
            _ => Fault::Rejected { status, message },
        })
    }

    /// Returns a server's message as one short line without the key. Here even a short key is searched for, because an error
    /// that is harder to read costs less than a key in a log.
    pub fn own_words(&self, text: &str) -> String {
        let hide = |text: &str| match &self.key {
            Some(key) => text.replace(key.expose_secret(), SCRUBBED),
            None => text.to_owned(),
        };
        // Once more: what a line leaves out may have stood in the middle of the key.
        hide(&own_words(&hide(text)))
    }

    /// Returns a model's text without the key, if the key is too long to be anything else.
    pub fn scrub_reply(&self, text: String) -> String {
        match self.key.as_ref().map(ExposeSecret::expose_secret) {
            Some(key) if key.chars().count() >= LONG_KEY => {
                escaped(key).replace_all(&text, SCRUBBED).into_owned()
            }
            _ => text,
        }
    }
}

/// Returns what finds a key, also as JSON may write it: the escapes of an answer are read later.
fn escaped(key: &str) -> Regex {
    let each = key.chars().map(|c| {
        let (plain, code) = (regex_lite::escape(&c.to_string()), u32::from(c));
        format!(r"(?:\\*{plain}|\\+u(?i:{code:04x}))")
    });
    Regex::new(&each.collect::<String>()).expect("an escaped text")
}

fn trimmed(key: &SecretString) -> Option<SecretString> {
    let text = key.expose_secret().trim();
    (!text.is_empty()).then(|| SecretString::from(text))
}

/// Returns how long to wait: a number of seconds, or the time from `now` to a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    // The date refers to the server's own clock, which may differ from ours.
    let theirs = headers.get(DATE).and_then(|date| date.to_str().ok());
    let theirs = theirs.and_then(|date| httpdate::parse_http_date(date).ok());
    Some(at.duration_since(theirs.unwrap_or(now)).unwrap_or_default())
}

/// Finds the message in the shapes in which servers report errors: an object, a bare text, or other names for it.
fn error_message(json: &Value) -> Option<String> {
    let error = json.get("error").unwrap_or(json);
    let named = ["message", "detail", "error"].map(|name| error.get(name));
    let mut texts = named.into_iter().flatten().chain([error]);
    texts.find_map(|value| value.as_str().map(str::to_owned))
}

/// Returns an error with its causes; each shows one level only.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    joined(anyhow::Chain::new(error).map(ToString::to_string), ": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sat, 21 Nov 2026 10:00:00 GMT").unwrap();
        let wait = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers, now)
        };
        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(
            wait("Sat, 21 Nov 2026 10:01:30 GMT"),
            Some(Duration::from_secs(90))
        );
        assert_eq!(
            wait("Sat, 21 Nov 2026 09:00:00 GMT"),
            Some(Duration::ZERO),
            "a date gone by"
        );
        assert_eq!(wait("soon"), None);
        assert_eq!(wait("-1"), None);

        let mut headers = HeaderMap::new();
        let date = |text: &str| HeaderValue::from_str(text).unwrap();
        headers.insert(RETRY_AFTER, date("Fri, 20 Nov 2026 10:00:05 GMT"));
        headers.insert(DATE, date("Fri, 20 Nov 2026 10:00:00 GMT"));
        let by_its_own_clock = retry_after(&headers, now);
        assert_eq!(by_its_own_clock, Some(Duration::from_secs(5)));
    }

    #[test]
    fn finds_error_message_in_every_shape() {
        for text in [
            r#"{"error":{"message":"no","type":"x","code":503}}"#,
            r#"{"error":{"message":"no","code":"bad"}}"#,
            r#"{"type":"error","error":{"type":"x","message":"no"}}"#,
            r#"{"error":"no"}"#,
            r#"{"detail":"no"}"#,
            r#"{"message":"no"}"#,
        ] {
            let json = serde_json::from_str(text).unwrap();
            assert_eq!(error_message(&json).as_deref(), Some("no"), "{text}");
        }
    }
}
