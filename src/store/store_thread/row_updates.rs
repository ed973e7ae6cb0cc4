//! The rows of a plan follow its log. A small change writes only its log entry, which contains the new rows; the
//! store writes them to their table together with later ones, between the changes and in a transaction of its own. So
//! a change dirties a third of the pages, and a row that changes again and again is written once. A reader combines
//! the rows with the later log entries: a crash in between costs nothing.

use std::collections::BTreeMap;

use super::{BatchWrites, Owner};
use crate::plan::{Delta, PlanId, Row, RowKey};
use crate::store::sql_statements::{LogRecord, Tables};
use crate::store::stored_delta::stored_rows;
use crate::store::text_store::is_name;
use crate::store::{Result, StoreError};

/// A batch of more bytes writes its rows itself: reading them from the log again would cost more.
const LARGE: usize = 64 * 1024;

/// Plans whose rows are written in one step, so that no job waits long for a folder with many plans.
const AT_ONCE: i64 = 32;

impl Owner {
    /// Writes the rows that are only in the log, and lets the database make later changes faster. A failure here has
    /// no effect on any plan; the store tries again after further changes.
    pub(super) fn write_rows(&mut self) {
        let tables = self.tables();
        let behind = tables.and_then(|tables| Ok(tables.unfolded(AT_ONCE)?));
        for plan in behind.unwrap_or_default() {
            if let Err(error) = self.fold(&plan) {
                self.abandon();
                tracing::debug!(%plan, %error, "rows stay in the log alone");
            }
        }
        if let Ok(tables) = self.tables() {
            tables.database.checkpoint();
        }
        self.unfolded = 0;
        self.changed = false;
    }

    fn fold(&mut self, plan: &PlanId) -> Result<()> {
        self.begin()?;
        let tables = self.tables()?;
        tables.lock_plan(plan)?;
        fold(tables, plan)?;
        Ok(tables.commit()?)
    }
}

impl BatchWrites {
    /// Writes the rows that have to be in the table immediately.
    pub(super) fn write_rows(&self, tables: &mut Tables) -> Result<()> {
        let all = self.size > LARGE;
        if all {
            for (plan, (seq, _)) in &self.seqs {
                fold(tables, plan)?;
                tables.set_folded(plan, *seq)?;
            }
        }
        for ((plan, key), body) in &self.rows {
            // The list of plans reads the head rows from the table, so they are written immediately.
            if all || *key == (RowKey::Head {}) {
                tables.write_row(plan, key, body)?;
            }
        }
        Ok(())
    }
}

/// Writes the rows of a plan that are only in the log, within the transaction.
fn fold(tables: &mut Tables, plan: &PlanId) -> Result<()> {
    let after = tables.folded(plan)?;
    let entries = tables.log_after(plan, after, i64::MAX)?;
    let Some(last) = entries.last() else {
        return Ok(());
    };
    let mut rows = BTreeMap::new();
    for entry in &entries {
        for row in stored_rows(&entry.delta).map_err(|error| damaged(plan, entry.seq, &error))? {
            rows.insert(key(tables, plan, entry.seq, row)?, row);
        }
    }
    for (key, body) in rows {
        tables.write_row(plan, &key, body)?;
    }
    Ok(tables.set_folded(plan, last.seq)?)
}

/// Returns the key of a row that may be packed.
fn key(tables: &mut Tables, plan: &PlanId, seq: i64, row: &str) -> Result<RowKey> {
    let key: RowKey = serde_json::from_str(row).map_err(|error| damaged(plan, seq, &error))?;
    if !is_name(&key.parts().1) {
        return Ok(key);
    }
    // A long id is stored as a text, too.
    let row = unpacked(tables, plan, &[row.to_owned()])?.concat();
    serde_json::from_str(&row).map_err(|error| damaged(plan, seq, &error))
}

fn damaged(plan: &PlanId, seq: i64, error: &serde_json::Error) -> StoreError {
    StoreError::damaged(plan, format!("log entry {seq}: {error}"))
}

/// Returns packed JSON of a plan as it was before it was packed.
fn unpacked(tables: &mut Tables, plan: &PlanId, packed: &[String]) -> Result<Vec<String>> {
    let json: Result<_, _> = tables.unpack(packed)?.into_iter().collect();
    json.map_err(|error| StoreError::damaged(plan, error))
}

/// Returns the deltas of the entries of a plan's log.
pub(super) fn deltas(
    tables: &mut Tables,
    plan: &PlanId,
    entries: &mut [LogRecord],
) -> Result<Vec<Delta>> {
    let taken = |entry: &mut LogRecord| std::mem::take(&mut entry.delta);
    let packed: Vec<_> = entries.iter_mut().map(taken).collect();
    let deltas = unpacked(tables, plan, &packed)?.into_iter().zip(entries);
    let read = |(delta, entry): (String, &mut LogRecord)| {
        serde_json::from_str(&delta).map_err(|error| damaged(plan, entry.seq, &error))
    };
    deltas.map(read).collect()
}

/// Returns the rows of a plan from their table and then from the log, oldest first; with the last change in the log,
/// and its size in bytes.
pub(super) fn read(tables: &mut Tables, plan: &PlanId) -> Result<(Vec<Row>, Option<i64>, usize)> {
    let mut after = tables.folded(plan)?;
    let bodies = loop {
        let bodies = tables.rows(plan)?;
        // Another process may have written rows in the meantime: older ones must not come after them.
        let folded = tables.folded(plan)?;
        if folded == after {
            break bodies;
        }
        after = folded;
    };
    let mut entries = tables.log_after(plan, after, i64::MAX)?;
    let bytes = entries.iter().map(|entry| entry.delta.len()).sum();
    let bodies = unpacked(tables, plan, &bodies)?;
    let rows = bodies.iter().map(|body| serde_json::from_str(body));
    let rows: Result<Vec<Row>, _> = rows.collect();
    let mut rows = rows.map_err(|error| StoreError::damaged(plan, error))?;
    let deltas = deltas(tables, plan, &mut entries)?;
    rows.extend(deltas.into_iter().flat_map(|delta| delta.rows));
    Ok((rows, entries.last().map(|entry| entry.seq), bytes))
}
