//! Copies every plan with its whole log from one database to another: in one transaction of the target, in which all of it
//! is counted and hashed on both sides before it counts.

use sha2::{Digest as _, Sha256};

use super::database_drivers::{Database, DatabaseError, DatabasePlace, Param, Record, Result};
use super::sql_statements::Tables;

/// Rows that are read, or written, at once.
const AT_ONCE: usize = 50;

/// How the rows of a table are read without holding all of them.
#[derive(Clone, Copy)]
enum Pages {
    Whole,
    OfPlan,
    OfPlanBySeq,
    ByHash,
}

/// What is copied: the tables with their columns, those of the page first.
const TABLES: [(&str, &str, Pages); 5] = [
    (
        "plans",
        "id, key, seq, created_at, owner, shelf, kept, taken_up, queued, folded, tally, tallied",
        Pages::Whole,
    ),
    ("plan_rows", "plan, kind, id, body", Pages::OfPlan),
    (
        "log",
        "plan, seq, change_id, at, author, why, delta",
        Pages::OfPlanBySeq,
    ),
    ("texts", "hash, text", Pages::ByHash),
    (
        "spent",
        "quarter, llm_calls, llm_tokens, micro_usd",
        Pages::Whole,
    ),
];

/// Rows of a table, and the sum of their hashes, which does not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    rows: u64,
    hashes: u128,
}

impl Counted {
    fn add(&mut self, row: &Record) {
        let hash = Sha256::digest(format!("{row:?}"));
        let half: [u8; 16] = std::array::from_fn(|at| hash[at]);
        self.rows += 1;
        self.hashes = self.hashes.wrapping_add(u128::from_be_bytes(half));
    }
}

/// Copies everything, and returns the rows of each table.
pub(super) fn copy(from: &DatabasePlace, to: &DatabasePlace) -> Result<Vec<(&'static str, u64)>> {
    let mut from = Tables::open(from)?.database;
    let mut to = Tables::open(to)?.database;
    from.begin_snapshot()?;
    to.begin()?;
    to.lock_schema()?;
    for (table, ..) in TABLES {
        if first(&mut to, &format!("SELECT COUNT(*) FROM {table}"))? > 0 {
            let what = "there are plans in it already: nothing is copied".to_owned();
            return Err(DatabaseError::Unfit(
                what,
                "name an empty database, or a file that is not there",
            ));
        }
    }
    let mut copied = Vec::new();
    for (table, columns, pages) in TABLES {
        let (mut read, mut waiting) = (Counted::default(), Vec::new());
        each_row(&mut from, table, columns, pages, |row| {
            read.add(&row);
            waiting.push(row);
            match waiting.len() < AT_ONCE {
                true => Ok(()),
                false => insert(&mut to, table, columns, &std::mem::take(&mut waiting)),
            }
        })?;
        insert(&mut to, table, columns, &waiting)?;
        let mut written = Counted::default();
        each_row(&mut to, table, columns, pages, |row| {
            written.add(&row);
            Ok(())
        })?;
        if read != written {
            let what =
                format!("what was written to `{table}` is not what was read: nothing is copied");
            return Err(DatabaseError::Unfit(
                what,
                "is the target in use, or its disk faulty?",
            ));
        }
        copied.push((table, read.rows));
    }
    to.execute("COMMIT", &[])?;
    Ok(copied)
}

fn first(database: &mut Database, statement: &str) -> Result<i64> {
    let rows = database.query(statement, &[])?;
    rows.first().map_or(Ok(0), |row| row.number(0))
}

/// Reads the rows of a table, some at a time.
fn each_row(
    database: &mut Database,
    table: &str,
    columns: &str,
    pages: Pages,
    mut each: impl FnMut(Record) -> Result<()>,
) -> Result<()> {
    // A deleted plan has no key, and no key is empty.
    let columns = columns.replace(" key,", " COALESCE(key, ''),");
    let select = format!("SELECT {columns} FROM {table}");
    let mut plans = Vec::new();
    if matches!(pages, Pages::OfPlan | Pages::OfPlanBySeq) {
        for mut plan in database.query("SELECT id FROM plans", &[])? {
            plans.push(plan.text(0)?);
        }
    }
    let most = i64::try_from(AT_ONCE).unwrap_or(i64::MAX);
    match pages {
        Pages::Whole => database.query(&select, &[])?.into_iter().try_for_each(each),
        Pages::OfPlan => plans.iter().try_for_each(|plan| {
            let rows = database.query(&format!("{select} WHERE plan = $1"), &[plan])?;
            rows.into_iter().try_for_each(&mut each)
        }),
        Pages::OfPlanBySeq => plans.iter().try_for_each(|plan| {
            let page = format!("{select} WHERE plan = $1 AND seq > $2 ORDER BY seq LIMIT $3");
            let mut last = i64::MIN;
            loop {
                let rows = database.query(&page, &[plan, &last, &most])?;
                let Some(end) = rows.last() else {
                    return Ok(());
                };
                last = end.number(1)?;
                rows.into_iter().try_for_each(&mut each)?;
            }
        }),
        Pages::ByHash => {
            let page = format!("{select} WHERE hash > $1 ORDER BY hash LIMIT $2");
            let mut last = String::new();
            loop {
                let rows = database.query(&page, &[&last, &most])?;
                let Some(end) = rows.last() else {
                    return Ok(());
                };
                last = end.text_at(0)?.to_owned();
                rows.into_iter().try_for_each(&mut each)?;
            }
        }
    }
}

fn insert(database: &mut Database, table: &str, columns: &str, rows: &[Record]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = columns.split(", ").collect();
    let place = |(at, name): (usize, &&str), row: usize| {
        let number = row * names.len() + at + 1;
        match *name {
            "key" => format!("NULLIF(${number}, '')"),
            _ => format!("${number}"),
        }
    };
    let places = (0..rows.len()).map(|row| {
        let places = names.iter().enumerate().map(|one| place(one, row));
        format!("({})", places.collect::<Vec<_>>().join(", "))
    });
    let places = places.collect::<Vec<_>>().join(", ");
    let statement = format!("INSERT INTO {table} ({columns}) VALUES {places}");
    let values: Vec<&dyn Param> = rows.iter().flat_map(Record::values).collect();
    database.execute(&statement, &values).map(drop)
}
