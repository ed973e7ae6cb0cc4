//! Fields of the events that agents print, and what their words say of a failure.

use reqwest::StatusCode;
use serde_json::Value;

use super::ModelFault;
use crate::plan::{ModelCost, SessionId};
use crate::wire::safe_session;

/// Returns the objects of a stream with one JSON object a line; lines that are none are left out.
pub(super) fn events(out: &str) -> impl DoubleEndedIterator<Item = Value> {
    let lines = out.lines().map(str::trim);
    let objects = lines.filter(|line| line.starts_with('{'));
    objects.filter_map(|line| serde_json::from_str(line).ok())
}

/// Returns whether an event is of a kind.
pub(super) fn is(event: &Value, kind: &str) -> bool {
    text_at(event, "/type") == kind
}

/// Returns the last event of a kind.
pub(super) fn last_event(out: &str, kind: &str) -> Option<Value> {
    events(out).rev().find(|event| is(event, kind))
}

/// Returns a text of an event by its path of names; empty if the event has none there.
pub(super) fn text_at<'a>(event: &'a Value, pointer: &str) -> &'a str {
    let text = event.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// Returns a whole number of an event by its path of names.
pub(super) fn number_at<N: TryFrom<i64>>(event: &Value, pointer: &str) -> Option<N> {
    event.pointer(pointer)?.as_i64()?.try_into().ok()
}

/// Returns an amount of dollars of an event by its path of names.
pub(super) fn dollars_at(event: &Value, pointer: &str) -> Option<f64> {
    event.pointer(pointer).and_then(Value::as_f64)
}

/// Returns the tokens of an event, `input_tokens` and `output_tokens` below a path.
pub(super) fn tokens_at(event: &Value, pointer: &str) -> ModelCost {
    let tokens = |name| number_at(event, &format!("{pointer}/{name}_tokens")).unwrap_or(0);
    ModelCost::new(tokens("input"), tokens("output"), 0.0)
}

/// Returns a session's name if it can be passed to an agent.
pub(super) fn session_named(name: &str) -> Option<SessionId> {
    safe_session(name).then(|| SessionId::new(name))
}

/// Returns whether a name is a UUID in the one form that every agent accepts.
pub(super) fn is_uuid(name: &str) -> bool {
    uuid::Uuid::try_parse(name).is_ok_and(|uuid| uuid.to_string() == name)
}

/// Finds an HTTP status in an agent's words: a number counts if the text calls it a status or if the name of that status
/// follows.
pub(super) fn status_in(said: &str) -> Option<u16> {
    let said = said.to_lowercase();
    let said: Vec<&str> = words_in(&said).collect();
    said.iter().enumerate().find_map(|(at, word)| {
        let status = StatusCode::from_bytes(word.as_bytes()).ok()?;
        let (before, after) = (&said[..at], &said[at + 1..]);
        let called = matches!(
            before,
            [.., "status" | "statuscode" | "code" | "http"] | [.., "api", "error"]
        ) || matches!(after, ["status", ..]);
        let name = status.canonical_reason().unwrap_or("Overloaded");
        let named = after.starts_with(&words_in(&name.to_lowercase()).collect::<Vec<_>>());
        let fails = status.is_client_error() || status.is_server_error();
        (fails && (called || named)).then_some(status.as_u16())
    })
}

fn words_in(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !word.is_empty())
}

/// Returns a fault of the model from words alone, where the agent gives no status.
pub(super) fn fault_by_words(said: &str) -> ModelFault {
    const WORDS_OF: [(u16, &str); 3] = [
        (429, "rate limit|ratelimit|quota|usage limit"),
        (401, "unauthorized|authentication|invalid_api_key|api key"),
        (400, "invalid_request|badrequest|not_found_error"),
    ];
    let lower = said.to_lowercase().replace("disk quota", "disk");
    let mut known = WORDS_OF.into_iter();
    let named = known.find(|(_, words)| words.split('|').any(|word| lower.contains(word)));
    ModelFault::new(status_in(said).or(named.map(|(status, _)| status)), said)
}
