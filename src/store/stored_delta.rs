//! The JSON of a log entry: the rows as they became, and the events that say why. Each row is packed by itself, so
//! that the table of rows gets the same bytes.

use serde::Deserialize;
use serde_json::{Error, value::RawValue};

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
