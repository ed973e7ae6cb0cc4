//! The JSON of a log entry: the rows as they became, and the events that say why. Each row is packed by itself, so
//! that the table of rows gets the same bytes.

use serde::Deserialize;
use serde_json::{Error, value::RawValue};

use super::text_store::{Texts, pack};
use crate::plan::{AskId, CommandId, QuestionId, RowKey, SessionId, TaskId};

/// The parts of a stored delta as they are.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    rows: Vec<&'a RawValue>,
    #[serde(borrow)]
    events: &'a RawValue,
}

/// Returns the delta of a log entry, made of packed rows and packed events.
pub(super) fn join(rows: &[String], events: &str) -> String {
    format!(r#"{{"rows":[{}],"events":{events}}}"#, rows.join(","))
}

/// Packs a delta that was stored as a whole; `None` where it cannot be read.
pub(super) fn pack_delta(text: &str, texts: &mut Texts) -> Option<String> {
    let Parts { rows, events } = serde_json::from_str(text).ok()?;
    let rows: Vec<_> = rows.iter().map(|row| pack(row.get(), texts)).collect();
    Some(join(&rows, &pack(events.get(), texts)))
}

/// Returns the packed rows of a stored delta.
pub(super) fn stored_rows(text: &str) -> Result<Vec<&str>, Error> {
    let Parts { rows, .. } = serde_json::from_str(text)?;
    Ok(rows.into_iter().map(RawValue::get).collect())
}

/// A stored row of which only the key is read: the rest is long.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Keyed {
    Head {},
    Task { number: TaskId },
    Attempt { id: CommandId },
    Question { id: QuestionId },
    Session { id: SessionId },
    Ask { id: AskId },
}

/// Returns the key of a row that may be packed, but for its id.
pub(super) fn stored_key(row: &str) -> Result<RowKey, Error> {
    Ok(match serde_json::from_str(row)? {
        Keyed::Head {} => RowKey::Head,
        Keyed::Task { number } => RowKey::Task(number),
        Keyed::Attempt { id } => RowKey::Attempt(id),
        Keyed::Question { id } => RowKey::Question(id),
        Keyed::Session { id } => RowKey::Session(id),
        Keyed::Ask { id } => RowKey::Ask(id),
    })
}
