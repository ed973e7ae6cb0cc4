//! Copies every plan with its whole log from one database to another: in one transaction of the target, in which all of it
//! is counted and hashed on both sides before it counts.

use sha2::{Digest as _, Sha256};

use super::database_drivers::{Database, DatabaseError, DatabasePlace, Param, Record, Result};
use super::sql_statements::Tables;

/// Rows that are read, or written, at once.
const AT_ONCE: usize = 100;

/// What is copied: the tables with their keys and columns.
const TABLES: [(&str, &str, &str); 6] = [
    (
        "plans",
        "id",
        "id, key, seq, created_at, owner, shelf, kept, taken_up, queued, folded, tally, tallied",
    ),
    ("plan_rows", "plan, kind, id", "plan, kind, id, body"),
    (
        "log",
        "plan, seq",
        "plan, seq, change_id, at, author, why, delta",
    ),
    ("texts", "hash", "hash, text"),
    (
        "work",
        "plan, place, part",
        "plan, place, part, commit_id, body",
    ),
    (
        "spent",
        "quarter",
        "quarter, llm_calls, llm_tokens, micro_usd",
    ),
];

/// Rows of a table, and the sum of their hashes: it does not depend on their order, in which databases differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    rows: u64,
    hashes: u128,
}

/// Refuses what is no store, or not one that this version knows.
pub(super) fn check(from: &DatabasePlace) -> Result<()> {
    Tables::open(from)?.check_format().map(drop)
}

/// Copies everything, and returns the rows of each table.
pub(super) fn copy(from: &DatabasePlace, to: &DatabasePlace) -> Result<Vec<(&'static str, u64)>> {
    let refused = |what: &str, way_out| Err(DatabaseError::Unfit(what.to_owned(), way_out));
    let mut from = Tables::open(from)?.database;
    let mut to = Tables::open(to)?.database;
    from.begin_snapshot()?;
    to.begin()?;
    to.lock_schema()?;
    let mut copied = Vec::new();
    for (table, key, columns) in TABLES {
        let any = to.query(&format!("SELECT {key} FROM {table} LIMIT 1"), &[])?;
        if !any.is_empty() {
            let way_out = "name an empty database, or a file that is not there";
            return refused("there are plans in it already: nothing is copied", way_out);
        }
        let read = read(&mut from, table, key, columns, |rows| {
            insert(&mut to, table, columns, rows)
        })?;
        if read != self::read(&mut to, table, key, columns, |_| Ok(()))? {
            let what = "what was written is not what was read: nothing is copied";
            return refused(what, "is the target in use, or its disk faulty?");
        }
        copied.push((table, read.rows));
    }
    to.execute("COMMIT", &[])?;
    Ok(copied)
}

/// Reads and counts the rows of a table, some at a time.
fn read(
    database: &mut Database,
    table: &str,
    key: &str,
    columns: &str,
    mut each: impl FnMut(&[Record]) -> Result<()>,
) -> Result<Counted> {
    // A deleted plan has no key, and no key is empty.
    let columns = columns.replace(" key,", " COALESCE(key, ''),");
    let keys = key.split(", ").count();
    let places: Vec<_> = (1..=keys).map(|place| format!("${place}")).collect();
    let places = places.join(", ");
    let (mut counted, mut last) = (Counted::default(), None::<Record>);
    loop {
        // The columns of the key are the first ones.
        let after: Vec<&dyn Param> = last.iter().flat_map(Record::values).take(keys).collect();
        let behind = match after.is_empty() {
            true => String::new(),
            false => format!("WHERE ({key}) > ({places}) "),
        };
        let page = format!("SELECT {columns} FROM {table} {behind}ORDER BY {key} LIMIT {AT_ONCE}");
        let rows = database.query(&page, &after)?;
        if rows.is_empty() {
            return Ok(counted);
        }
        for row in &rows {
            let hash = Sha256::digest(format!("{row:?}"));
            let half = u128::from_be_bytes(std::array::from_fn(|at| hash[at]));
            counted.hashes = counted.hashes.wrapping_add(half);
        }
        counted.rows += rows.len() as u64;
        each(&rows)?;
        last = rows.into_iter().last();
    }
}

fn insert(database: &mut Database, table: &str, columns: &str, rows: &[Record]) -> Result<()> {
    let mut number = 0;
    let mut place = |name: &str| {
        number += 1;
        match name {
            "key" => format!("NULLIF(${number}, '')"),
            _ => format!("${number}"),
        }
    };
    let mut places = |_| {
        let places: Vec<_> = columns.split(", ").map(&mut place).collect();
        format!("({})", places.join(", "))
    };
    let places = rows.iter().map(&mut places).collect::<Vec<_>>().join(", ");
    let statement = format!("INSERT INTO {table} ({columns}) VALUES {places}");
    let values: Vec<&dyn Param> = rows.iter().flat_map(Record::values).collect();
    database.execute(&statement, &values).map(drop)
}
