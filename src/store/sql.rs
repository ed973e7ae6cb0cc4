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
    "CREATE TABLE plan_rows (plan TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, seq BIGINT NOT NULL, \
     body TEXT NOT NULL, PRIMARY KEY (plan, kind, id))",
    "CREATE INDEX plan_rows_by_seq ON plan_rows (plan, seq)",
    "CREATE TABLE log (plan TEXT NOT NULL, seq BIGINT NOT NULL, change_id TEXT NOT NULL, at BIGINT NOT NULL, \
     author TEXT NOT NULL, why TEXT NOT NULL, delta TEXT NOT NULL, PRIMARY KEY (plan, seq))",
]];

/// Rows in one statement at most. The statement cache holds every count up to it.
const ROWS_A_STATEMENT: usize = 16;

type Result<T> = std::result::Result<T, sqlx::Error>;

/// A row to be written: plan, kind, id, seq, body.
pub(super) type RowRecord = (String, &'static str, String, i64, String);

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
        if kind == Kind::Sqlite {
            // The switch to WAL takes a lock that `busy_timeout` does not wait for: another process may do the same now.
            let mut tries = 0;
            while let Err(error) = connected.run("PRAGMA journal_mode=WAL").await {
                tries += 1;
                if tries > 50 {
                    return Err(error.into());
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            for pragma in ["PRAGMA synchronous=FULL", "PRAGMA busy_timeout=10000"] {
                connected.run(pragma).await?;
            }
        }
        connected.migrate().await?;
        Ok(connected)
    }

    async fn migrate(&mut self) -> std::result::Result<(), OpenError> {
        let known = self.format().await.unwrap_or(0);
        if known == FORMAT {
            return Ok(());
        }
        self.begin().await?;
        self.run("CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BIGINT NOT NULL)")
            .await?;
        let known = self.format().await?;
        if known > FORMAT {
            self.roll_back().await;
            return Err(OpenError::Newer(known));
        }
        for statements in MIGRATIONS.iter().skip(usize::try_from(known).unwrap_or(0)) {
            for statement in *statements {
                self.run(statement).await?;
            }
        }
        sqlx::query("INSERT INTO meta (name, value) VALUES ('format', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value")
            .bind(FORMAT)
            .execute(&mut self.connection)
            .await?;
        self.commit().await?;
        Ok(())
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

    pub(super) async fn begin(&mut self) -> Result<()> {
        self.run(match self.kind {
            Kind::Sqlite => "BEGIN IMMEDIATE",
            Kind::Postgres => "BEGIN",
        })
        .await
    }

    pub(super) async fn commit(&mut self) -> Result<()> {
        self.run("COMMIT").await
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
        let row = sqlx::query("SELECT seq FROM plans WHERE id = $1")
            .bind(plan.as_str())
            .fetch_optional(&mut self.connection)
            .await?;
        row.map(|row| row.try_get(0)).transpose()
    }

    pub(super) async fn set_seq(&mut self, plan: &PlanId, seq: i64) -> Result<()> {
        sqlx::query("UPDATE plans SET seq = $2 WHERE id = $1")
            .bind(plan.as_str())
            .bind(seq)
            .execute(&mut self.connection)
            .await
            .map(drop)
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

    /// Returns the heads of all plans with their seqs, newest plan first.
    pub(super) async fn heads(&mut self) -> Result<Vec<(i64, String)>> {
        let rows = sqlx::query(
            "SELECT plans.seq, plan_rows.body FROM plans JOIN plan_rows ON plan_rows.plan = plans.id \
             WHERE plan_rows.kind = 'head' ORDER BY plans.created_at DESC, plans.id DESC",
        )
        .fetch_all(&mut self.connection)
        .await?;
        rows.iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
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

    /// Returns the bodies of the plan's rows that changed after a seq.
    pub(super) async fn rows_after(&mut self, plan: &PlanId, seq: i64) -> Result<Vec<String>> {
        let rows = sqlx::query("SELECT body FROM plan_rows WHERE plan = $1 AND seq > $2")
            .bind(plan.as_str())
            .bind(seq)
            .fetch_all(&mut self.connection)
            .await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }

    /// Writes rows in place of those with the same key. No key may occur twice.
    pub(super) async fn write_rows(&mut self, rows: &[RowRecord]) -> Result<()> {
        for rows in rows.chunks(ROWS_A_STATEMENT) {
            let sql = format!(
                "INSERT INTO plan_rows (plan, kind, id, seq, body) VALUES {} ON CONFLICT (plan, kind, id) \
                 DO UPDATE SET seq = excluded.seq, body = excluded.body",
                placeholders(rows.len(), 5)
            );
            let mut query = sqlx::query(AssertSqlSafe(sql));
            for (plan, kind, id, seq, body) in rows {
                query = query
                    .bind(plan.as_str())
                    .bind(*kind)
                    .bind(id.as_str())
                    .bind(*seq)
                    .bind(body.as_str());
            }
            query.execute(&mut self.connection).await?;
        }
        Ok(())
    }

    pub(super) async fn write_log(&mut self, entries: &[LogRecord]) -> Result<()> {
        for entries in entries.chunks(ROWS_A_STATEMENT) {
            let sql = format!(
                "INSERT INTO log (plan, seq, change_id, at, author, why, delta) VALUES {}",
                placeholders(entries.len(), 7)
            );
            let mut query = sqlx::query(AssertSqlSafe(sql));
            for entry in entries {
                query = query
                    .bind(entry.plan.as_str())
                    .bind(entry.seq)
                    .bind(entry.change_id.as_str())
                    .bind(entry.at)
                    .bind(entry.author.as_str())
                    .bind(entry.why.as_str())
                    .bind(entry.delta.as_str());
            }
            query.execute(&mut self.connection).await?;
        }
        Ok(())
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

fn placeholders(rows: usize, columns: usize) -> String {
    let row = |row: usize| {
        let names: Vec<String> = (1..=columns)
            .map(|column| format!("${}", row * columns + column))
            .collect();
        format!("({})", names.join(", "))
    };
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}
