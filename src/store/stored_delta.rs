//! The JSON of a log entry: the rows as they became, and the events that say why. Each row is packed by itself, so
//! that the table of rows gets the same bytes.

use serde::Deserialize;
use serde_json::{Error, value::RawValue};

use crate::plan::{AskId, CommandId, QuestionId, RowKey, SessionId, TaskId};

/// What is read of a stored delta.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    rows: Vec<&'a RawValue>,
}

/// Returns the delta of a log entry, made of packed rows and packed events.
pub(super) fn join(rows: &[String], events: &str) -> String {
    format!(r#"{{"rows":[{}],"events":{events}}}"#, rows.join(","))
}

/// Returns the packed rows of a stored delta.
pub(super) fn stored_rows(text: &str) -> Result<Vec<&str>, Error> {
    let Parts { rows } = serde_json::from_str(text)?;
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
