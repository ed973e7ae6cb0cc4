//! Every SQL statement, and the connection they run on. TEXT and BIGINT columns only, so that SQLite and PostgreSQL run
//! the same text. No plan logic: rows go in and out as JSON.

use std::path::Path;
use std::str::FromStr;
use std::sync::Once;

use sqlx::any::AnyConnectOptions;
use sqlx::{AnyConnection, AssertSqlSafe, ConnectOptions, Connection, Row as _};

use crate::plan::{CommandId, Delta, PlanId, Row};

/// The version of the tables that this program writes. A database with a higher one is refused.
const FORMAT: i64 = 1;

/// One list of statements a version, each leading from the version before.
const MIGRATIONS: [&[&str]; FORMAT as usize] = [&[
    "CREATE TABLE plans (id TEXT PRIMARY KEY, seq BIGINT NOT NULL, created_at BIGINT NOT NULL)",
    "CREATE TABLE plan_rows (plan TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL, \
     PRIMARY KEY (plan, kind, id))",
    "CREATE TABLE log (plan TEXT NOT NULL, seq BIGINT NOT NULL, change_id TEXT NOT NULL, at BIGINT NOT NULL, \
     author TEXT NOT NULL, why TEXT NOT NULL, delta TEXT NOT NULL, PRIMARY KEY (plan, seq))",
]];

/// SQLite takes its one write lock at once, so that no transaction fails half-way because another was faster.
const BEGIN: &str = "BEGIN IMMEDIATE";
const SEQ: &str = "SELECT seq FROM plans WHERE id = $1";
const BEGIN_AND_SEQ: &str = "BEGIN IMMEDIATE; SELECT seq FROM plans WHERE id = $1";

/// Rows in one statement at most. The statement cache holds every count up to it.
const ROWS_A_STATEMENT: usize = 16;

/// What SQLite and PostgreSQL say when there is no such table; SQLite has no code of its own for it.
const NO_TABLE: [&str; 2] = ["1", "42P01"];

/// What SQLite says when another connection holds the lock.
const BUSY: &str = "5";

type Result<T> = std::result::Result<T, sqlx::Error>;

/// A row to be written: plan, kind, id, body.
pub(super) type RowRecord = (String, &'static str, String, String);

/// A log entry to be written or as read.
#[derive(Clone, Debug)]
pub(super) struct LogRecord {
    pub plan: String,
    pub seq: i64,
    pub change_id: String,
    pub at: i64,
    pub author: String,
    pub why: String,
    pub delta: String,
}

/// Which database a URL means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sqlite,
    Postgres,
}

/// The one connection of a process.
pub(super) struct Connected {
    connection: AnyConnection,
    kind: Kind,
}

/// Why the tables cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error("it was written by a newer version (format {0}, this one knows {FORMAT})")]
    Newer(i64),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Returns the URL of an SQLite file, made if it does not exist.
pub(super) fn file_url(path: &Path) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    let path: String = path.to_string_lossy().bytes().map(escape).collect();
    format!("sqlite://{path}?mode=rwc")
}

/// Statements that belong together, with a `?` in the place of each value.
#[derive(Default)]
pub(super) struct Script<'a> {
    statements: Vec<String>,
    values: Vec<Value<'a>>,
}

#[derive(Clone, Copy)]
enum Value<'a> {
    Text(&'a str),
    Number(i64),
}

impl<'a> Script<'a> {
    fn add(&mut self, statement: String, values: impl IntoIterator<Item = Value<'a>>) {
        self.statements.push(statement);
        self.values.extend(values);
    }

    pub(super) fn set_seq(&mut self, plan: &'a PlanId, seq: i64) {
        self.add(
            "UPDATE plans SET seq = ? WHERE id = ?".to_owned(),
            [Value::Number(seq), Value::Text(plan.as_str())],
        );
    }

    /// Writes rows in place of those with the same key. No key may occur twice.
    pub(super) fn write_rows(&mut self, rows: &[&'a RowRecord]) {
        for rows in rows.chunks(ROWS_A_STATEMENT) {
            let text = format!(
                "INSERT INTO plan_rows (plan, kind, id, body) VALUES {} ON CONFLICT (plan, kind, id) \
                 DO UPDATE SET body = excluded.body",
                places(rows.len(), 4)
            );
            let values = rows.iter().flat_map(|(plan, kind, id, body)| {
                [plan.as_str(), kind, id, body].map(Value::Text)
            });
            self.add(text, values);
        }
    }

    pub(super) fn write_log(&mut self, entries: &'a [LogRecord]) {
        for entries in entries.chunks(ROWS_A_STATEMENT) {
            let text = format!(
                "INSERT INTO log (plan, seq, change_id, at, author, why, delta) VALUES {}",
                places(entries.len(), 7)
            );
            let values = entries.iter().flat_map(|entry| {
                [
                    Value::Text(&entry.plan),
                    Value::Number(entry.seq),
                    Value::Text(&entry.change_id),
                    Value::Number(entry.at),
                    Value::Text(&entry.author),
                    Value::Text(&entry.why),
                    Value::Text(&entry.delta),
                ]
            });
            self.add(text, values);
        }
    }
}

impl Connected {
    /// Connects, sets the connection up and brings the tables to this program's format.
    pub(super) async fn open(url: &str) -> std::result::Result<Self, OpenError> {
        static DRIVERS: Once = Once::new();
        DRIVERS.call_once(sqlx::any::install_default_drivers);
        let kind = if url.starts_with("sqlite") {
            Kind::Sqlite
        } else {
            Kind::Postgres
        };
        let options = AnyConnectOptions::from_str(url)?.disable_statement_logging();
        let connection = AnyConnection::connect_with(&options).await?;
        let mut connected = Self { connection, kind };
        // What a newer version wrote is not even switched to another journal.
        let known = connected.known_format().await?;
        if kind == Kind::Sqlite {
            connected.set_up_sqlite().await?;
        }
        if known < FORMAT
            && let Err(error) = connected.migrate().await
        {
            // Another process that did the same was faster, or it cannot be done.
            connected.roll_back().await;
            if connected.known_format().await? < FORMAT {
                return Err(error.into());
            }
        }
        Ok(connected)
    }

    async fn set_up_sqlite(&mut self) -> Result<()> {
        // The switch to WAL takes a lock that `busy_timeout` does not wait for: another process may do the same now.
        let mut tries = 0;
        while let Err(error) = self.run("PRAGMA journal_mode=WAL").await {
            tries += 1;
            if tries > 50 || code(&error) != BUSY {
                return Err(error);
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        for pragma in ["PRAGMA synchronous=FULL", "PRAGMA busy_timeout=10000"] {
            self.run(pragma).await?;
        }
        Ok(())
    }

    async fn migrate(&mut self) -> Result<()> {
        self.begin().await?;
        self.run("CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BIGINT NOT NULL)")
            .await?;
        let known = self.format().await?;
        for statements in MIGRATIONS.iter().skip(usize::try_from(known).unwrap_or(0)) {
            for statement in *statements {
                self.run(statement).await?;
            }
        }
        sqlx::query("INSERT INTO meta (name, value) VALUES ('format', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value")
            .bind(FORMAT)
            .execute(&mut self.connection)
            .await?;
        self.run("COMMIT").await
    }

    /// Returns the format of the tables, 0 if there are none; fails if a newer version wrote them.
    async fn known_format(&mut self) -> std::result::Result<i64, OpenError> {
        let known = match self.format().await {
            Err(error) if NO_TABLE.contains(&code(&error).as_str()) => 0,
            known => known?,
        };
        if known > FORMAT {
            return Err(OpenError::Newer(known));
        }
        Ok(known)
    }

    async fn format(&mut self) -> Result<i64> {
        let row = sqlx::query("SELECT value FROM meta WHERE name = 'format'")
            .fetch_optional(&mut self.connection)
            .await?;
        row.map_or(Ok(0), |row| row.try_get(0))
    }

    async fn run(&mut self, statement: &'static str) -> Result<()> {
        sqlx::query(statement)
            .execute(&mut self.connection)
            .await
            .map(drop)
    }

    async fn begin(&mut self) -> Result<()> {
        self.run(match self.kind {
            Kind::Sqlite => BEGIN,
            Kind::Postgres => "BEGIN",
        })
        .await
    }

    /// Begins a transaction and returns a plan's seq, as [`Connected::lock_plan`] does.
    pub(super) async fn begin_on(&mut self, plan: &PlanId) -> Result<Option<i64>> {
        match self.kind {
            Kind::Sqlite => {
                // `fetch_optional` would only look at what the first of the two statements returns.
                let rows = sqlx::query(BEGIN_AND_SEQ)
                    .bind(plan.as_str())
                    .fetch_all(&mut self.connection)
                    .await?;
                rows.first().map(|row| row.try_get(0)).transpose()
            }
            Kind::Postgres => {
                self.begin().await?;
                self.lock_plan(plan).await
            }
        }
    }

    /// Writes and ends the transaction. After an error it may still be open, and nobody knows whether it took effect:
    /// [`Connected::has_change`] tells.
    pub(super) async fn commit(&mut self, mut writes: Script<'_>) -> Result<()> {
        writes.add("COMMIT".to_owned(), []);
        self.send(&writes).await
    }

    /// Sends statements: to the embedded database, which runs on a thread of its own, all at once, because each way there
    /// and back costs more than most statements.
    async fn send(&mut self, script: &Script<'_>) -> Result<()> {
        match self.kind {
            Kind::Sqlite => {
                let text = script.statements.join("; ");
                self.send_one(text, &script.values).await
            }
            Kind::Postgres => {
                let mut values = script.values.as_slice();
                for statement in &script.statements {
                    let (text, count) = numbered(statement);
                    let (own, rest) = values.split_at(count);
                    self.send_one(text, own).await?;
                    values = rest;
                }
                Ok(())
            }
        }
    }

    async fn send_one(&mut self, text: String, values: &[Value<'_>]) -> Result<()> {
        let mut query = sqlx::query(AssertSqlSafe(text));
        for value in values {
            query = match value {
                Value::Text(text) => query.bind(*text),
                Value::Number(number) => query.bind(*number),
            };
        }
        query.execute(&mut self.connection).await.map(drop)
    }

    /// Tells whether the database is a server, to which a connection can break.
    pub(super) fn remote(&self) -> bool {
        self.kind == Kind::Postgres
    }

    /// Ends the transaction without effect. A failure is of no use to anybody: the database does the same by itself when the
    /// connection ends.
    pub(super) async fn roll_back(&mut self) {
        if let Err(error) = self.run("ROLLBACK").await {
            tracing::debug!(%error, "nothing to roll back");
        }
    }

    /// Returns the plan's seq and keeps other writers away from the plan until the transaction ends.
    pub(super) async fn lock_plan(&mut self, plan: &PlanId) -> Result<Option<i64>> {
        match self.kind {
            // BEGIN IMMEDIATE has the only write lock there is.
            Kind::Sqlite => self.seq(plan).await,
            Kind::Postgres => {
                let row = sqlx::query("UPDATE plans SET seq = seq WHERE id = $1 RETURNING seq")
                    .bind(plan.as_str())
                    .fetch_optional(&mut self.connection)
                    .await?;
                row.map(|row| row.try_get(0)).transpose()
            }
        }
    }

    pub(super) async fn seq(&mut self, plan: &PlanId) -> Result<Option<i64>> {
        let row = sqlx::query(SEQ)
            .bind(plan.as_str())
            .fetch_optional(&mut self.connection)
            .await?;
        row.map(|row| row.try_get(0)).transpose()
    }

    /// Makes room for a plan; `false` if the id is taken.
    pub(super) async fn add_plan(&mut self, plan: &PlanId, created_at: i64) -> Result<bool> {
        let done = sqlx::query("INSERT INTO plans (id, seq, created_at) VALUES ($1, 0, $2) ON CONFLICT (id) DO NOTHING")
            .bind(plan.as_str())
            .bind(created_at)
            .execute(&mut self.connection)
            .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Takes the room back that [`Connected::add_plan`] made in the same transaction.
    pub(super) async fn take_plan(&mut self, plan: &PlanId) -> Result<()> {
        sqlx::query("DELETE FROM plans WHERE id = $1 AND seq = 0")
            .bind(plan.as_str())
            .execute(&mut self.connection)
            .await
            .map(drop)
    }

    /// Returns the ids of all plans with their seqs and heads, newest plan first.
    pub(super) async fn heads(&mut self) -> Result<Vec<(String, i64, String)>> {
        let rows = sqlx::query(
            "SELECT plans.id, plans.seq, plan_rows.body FROM plans JOIN plan_rows ON plan_rows.plan = plans.id \
             WHERE plan_rows.kind = 'head' ORDER BY plans.created_at DESC, plans.id DESC",
        )
        .fetch_all(&mut self.connection)
        .await?;
        rows.iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)))
            .collect()
    }

    /// Returns the plan with an attempt of this id: one look into the primary key a plan.
    pub(super) async fn plan_of(&mut self, command: &CommandId) -> Result<Option<PlanId>> {
        let row = sqlx::query(
            "SELECT plans.id FROM plans JOIN plan_rows ON plan_rows.plan = plans.id \
             AND plan_rows.kind = 'attempt' AND plan_rows.id = $1",
        )
        .bind(command.as_str())
        .fetch_optional(&mut self.connection)
        .await?;
        row.map(|row| row.try_get::<String, _>(0).map(PlanId::new))
            .transpose()
    }

    /// Returns the bodies of the plan's rows.
    pub(super) async fn rows(&mut self, plan: &PlanId) -> Result<Vec<String>> {
        let rows = sqlx::query("SELECT body FROM plan_rows WHERE plan = $1")
            .bind(plan.as_str())
            .fetch_all(&mut self.connection)
            .await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }

    /// Returns the log of a plan after a seq, at most `limit` entries.
    pub(super) async fn log_after(
        &mut self,
        plan: &PlanId,
        seq: i64,
        limit: i64,
    ) -> Result<Vec<LogRecord>> {
        let rows = sqlx::query(
            "SELECT plan, seq, change_id, at, author, why, delta FROM log WHERE plan = $1 AND seq > $2 ORDER BY seq LIMIT $3",
        )
        .bind(plan.as_str())
        .bind(seq)
        .bind(limit)
        .fetch_all(&mut self.connection)
        .await?;
        let read = |row: &sqlx::any::AnyRow| {
            Ok(LogRecord {
                plan: row.try_get(0)?,
                seq: row.try_get(1)?,
                change_id: row.try_get(2)?,
                at: row.try_get(3)?,
                author: row.try_get(4)?,
                why: row.try_get(5)?,
                delta: row.try_get(6)?,
            })
        };
        rows.iter().map(read).collect()
    }

    /// Tells whether a change is in the log: the answer to a connection that broke while it was committed.
    pub(super) async fn has_change(
        &mut self,
        plan: &str,
        seq: i64,
        change_id: &str,
    ) -> Result<bool> {
        let row = sqlx::query("SELECT 1 FROM log WHERE plan = $1 AND seq = $2 AND change_id = $3")
            .bind(plan)
            .bind(seq)
            .bind(change_id)
            .fetch_optional(&mut self.connection)
            .await?;
        Ok(row.is_some())
    }
}

/// The delta of a log entry as it is stored.
#[derive(serde::Serialize, serde::Deserialize)]
struct StoredDelta {
    rows: Vec<Row>,
    events: Vec<crate::plan::Event>,
}

pub(super) fn encode_delta(delta: Delta) -> std::result::Result<String, serde_json::Error> {
    serde_json::to_string(&StoredDelta {
        rows: delta.rows,
        events: delta.events,
    })
}

pub(super) fn decode_delta(text: &str) -> std::result::Result<Delta, serde_json::Error> {
    let stored: StoredDelta = serde_json::from_str(text)?;
    Ok(Delta {
        rows: stored.rows,
        events: stored.events,
    })
}

/// Returns the database's own code of an error; empty if it is not the database's.
fn code(error: &sqlx::Error) -> String {
    let code = error.as_database_error().and_then(|error| error.code());
    code.map(std::borrow::Cow::into_owned).unwrap_or_default()
}

/// Returns a statement with its values numbered, and how many there are.
fn numbered(statement: &str) -> (String, usize) {
    let mut text = String::new();
    let mut count = 0;
    for part in statement.split_inclusive('?') {
        match part.strip_suffix('?') {
            Some(part) => {
                count += 1;
                text.push_str(part);
                text.push('$');
                text.push_str(&count.to_string());
            }
            None => text.push_str(part),
        }
    }
    (text, count)
}

fn places(rows: usize, columns: usize) -> String {
    let row = format!("({})", vec!["?"; columns].join(", "));
    vec![row; rows].join(", ")
}
