//! The drivers: one connection to SQLite or PostgreSQL that runs statements and returns rows, and knows nothing of
//! plans. Both block; the store has a thread of its own for them.

mod server;
mod server_address;
mod server_check;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use server::Server;
pub(super) use server::listen;
pub(super) use server_address::ServerAddress;
pub(super) use server_check::examine;

use super::PUT_BACK;
use crate::own_files::is_disk_full;
use crate::wire::Problem;

/// How often a transaction checks for the end of another process's transaction before it fails: at least half a minute.
const MOST_CHECKS: i32 = 30_000;

/// How long a server may take for what is large.
pub(super) const LENGTH: Duration = Duration::from_secs(600);

const READ: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// Where a database is.
#[derive(Clone, Debug)]
pub(super) enum DatabasePlace {
    /// A file of the embedded database, created if it does not exist.
    File(PathBuf),
    /// An existing file of the embedded database that is only read.
    ReadOnly(PathBuf),
    /// The embedded database without a file: it ends with the connection.
    Memory,
    /// A PostgreSQL server, and whether it is only read.
    Server(Arc<ServerAddress>, bool),
}

/// Why a statement or a connection failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum DatabaseError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("{}", server::said(.0))]
    Postgres(#[from] tokio_postgres::Error),
    #[error("it does not answer")]
    Silent,
    #[error("column {0} has a value of another type")]
    Column(usize),
    #[error("it was written by a newer version (format {0}, this one knows {1})")]
    Newer(i64, i64),
    #[error("it is a database of another program")]
    Foreign,
    /// Contains why, and what a person can do.
    #[error("{0}")]
    Unfit(String, &'static str),
    #[error("its tables are those of an older version (format {0}, this one writes {1})")]
    NotMigrated(i64, i64),
    #[error(
        "it was written by an older version, and cannot be brought from format {0} to {1}: {2}"
    )]
    Older(i64, i64, Box<Self>),
}

/// What to do with a file that is not the plan store.
pub(super) const NOT_OURS: &str = "move it away, or put a copy of the plan store back in its place; or name another folder in \
                                   config.toml: [volumes] root";

pub(super) type Result<T> = std::result::Result<T, DatabaseError>;

/// A value of a statement, in the place of `$1`, `$2` and so on: a text, a number, or none.
pub(super) trait Param: rusqlite::ToSql + tokio_postgres::types::ToSql + Sync {}
impl<T: rusqlite::ToSql + tokio_postgres::types::ToSql + Sync> Param for T {}

/// A row of a result.
#[derive(Debug)]
pub(super) struct Record(Vec<Column>);

#[derive(Debug)]
enum Column {
    Text(String),
    Number(i64),
}

/// One connection.
pub(super) enum Database {
    Sqlite(Connection),
    Server(Box<Server>),
}

impl DatabaseError {
    /// Returns whether the statement names a table that does not exist. SQLite has no code of its own for that.
    pub(super) fn is_no_table(&self) -> bool {
        match self {
            Self::Sqlite(
                rusqlite::Error::SqliteFailure(error, _)
                | rusqlite::Error::SqlInputError { error, .. },
            ) => error.code == ErrorCode::Unknown,
            Self::Postgres(error) => server::is_no_table(error),
            _ => false,
        }
    }

    /// Returns whether the connection is lost and a new one may succeed.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Self::Postgres(error) => server::is_lost(error),
            Self::Silent => true,
            _ => false,
        }
    }

    /// Returns whether SQLite could not open a file, which may be one beside the database.
    pub(super) fn is_unopened(&self) -> bool {
        matches!(self, Self::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen))
    }

    /// Returns what a person can do if it is not the file that does not work, but what it is.
    pub(super) fn way_out(&self) -> Option<&'static str> {
        match self {
            Self::Newer(..) => Some("use the newer version on this machine"),
            Self::Foreign => Some(NOT_OURS),
            Self::Unfit(_, way_out) => Some(way_out),
            Self::Older(_, _, why) => why.way_out(),
            Self::NotMigrated(..) => Some(
                "`plan-agent store migrate` brings them to this one, when every daemon on them has this version",
            ),
            Self::Postgres(error) => server::way_out(error),
            Self::Sqlite(error) => match error.sqlite_error_code() {
                Some(ErrorCode::NotADatabase) => Some(NOT_OURS),
                Some(ErrorCode::DatabaseCorrupt) => Some(PUT_BACK),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the error of a file, which may fail because its disk is full.
    pub(super) fn of_file(self, file: Option<&Path>) -> Self {
        let is_known = self.is_busy() || self.way_out().is_some();
        if !is_known && file.is_some_and(is_disk_full) {
            let why = format!("there is no space left on its disk ({self})");
            return Self::Unfit(why, "free some space there");
        }
        self
    }

    /// Returns the error as a problem, with what a person can do.
    pub(super) fn problem(&self, message: String) -> Problem {
        Problem {
            hint: self.way_out().map(str::to_owned),
            ..Problem::new(message)
        }
    }

    fn is_busy(&self) -> bool {
        matches!(self, Self::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy))
    }
}

impl DatabasePlace {
    /// Returns whether processes on other machines may have it open, which no file tells of a change.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Server(..))
    }

    /// Returns the file, where it is one.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) | Self::ReadOnly(path) => Some(path),
            _ => None,
        }
    }
}

impl Record {
    pub(super) fn text(&mut self, column: usize) -> Result<String> {
        match self.0.get_mut(column) {
            Some(Column::Text(text)) => Ok(std::mem::take(text)),
            _ => Err(DatabaseError::Column(column)),
        }
    }

    /// Returns the fields as the values of a statement.
    pub(super) fn values(&self) -> impl Iterator<Item = &dyn Param> {
        self.0.iter().map(|column| match column {
            Column::Text(text) => text as &dyn Param,
            Column::Number(number) => number,
        })
    }

    pub(super) fn number(&self, column: usize) -> Result<i64> {
        match self.0.get(column) {
            Some(Column::Number(number)) => Ok(*number),
            _ => Err(DatabaseError::Column(column)),
        }
    }
}

impl Database {
    pub(super) fn connect(place: &DatabasePlace) -> Result<Self> {
        Ok(Self::Sqlite(match place {
            // With the default flags SQLite would read a name that begins with `file:` as a URI.
            DatabasePlace::File(path) => {
                let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
                    | OpenFlags::SQLITE_OPEN_CREATE
                    | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                Connection::open_with_flags(path, flags)?
            }
            // A process that has the database open has this file, and then its locks are needed.
            DatabasePlace::ReadOnly(path) if beside(path, "-shm").exists() => {
                Connection::open_with_flags(path, READ)?
            }
            DatabasePlace::ReadOnly(path) => open_alone(path)?,
            DatabasePlace::Memory => Connection::open_in_memory()?,
            DatabasePlace::Server(address, read_only) => {
                let server = Server::connect(address, *read_only)?;
                return Ok(Self::Server(Box::new(server)));
            }
        }))
    }

    /// Returns the connection to the embedded database.
    fn embedded(&mut self) -> Option<&mut Connection> {
        match self {
            Self::Sqlite(connection) => Some(connection),
            Self::Server(_) => None,
        }
    }

    /// Makes the embedded database durable and sets how it waits. The caller checks the format first: a database that
    /// a newer version wrote is not even switched to another journal.
    pub(super) fn set_up(&mut self) -> Result<()> {
        self.embedded().map_or(Ok(()), set_up_embedded)
    }

    /// Sets how long a server may take for each answer, and returns how long it could before.
    pub(super) fn limit(&mut self, limit: Duration) -> Duration {
        match self {
            Self::Sqlite(_) => limit,
            Self::Server(server) => server.limit(limit),
        }
    }

    /// Does something for which a server may take longer than usual.
    pub(super) fn at_length<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let usual = self.limit(LENGTH);
        let done = work(self);
        self.limit(usual);
        done
    }

    /// Returns whether the database is a server, to which a connection can break.
    pub(super) fn remote(&self) -> bool {
        !matches!(self, Self::Sqlite(_))
    }

    /// Returns the expression for the database's own clock, in microseconds since the Unix epoch.
    pub(super) fn now(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
            Self::Server(_) => "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)",
        }
    }

    /// Begins a transaction. SQLite takes its one write lock immediately, so that no transaction fails half-way
    /// because another was faster.
    pub(super) fn begin(&mut self) -> Result<()> {
        self.either("BEGIN IMMEDIATE", "BEGIN")
    }

    fn either(&mut self, embedded: &str, server: &str) -> Result<()> {
        let statement = if self.remote() { server } else { embedded };
        self.execute(statement, &[]).map(drop)
    }

    /// Begins a transaction that reads everything as it is at one moment.
    pub(super) fn begin_snapshot(&mut self) -> Result<()> {
        let whole = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        self.either("BEGIN", whole)
    }

    /// Keeps other processes from changing the tables themselves until the transaction ends.
    pub(super) fn lock_schema(&mut self) -> Result<()> {
        if self.remote() {
            // The number stands for this program.
            let lock = "SELECT CAST(pg_advisory_xact_lock(7526169) AS TEXT)";
            self.query(lock, &[])?;
        }
        Ok(())
    }

    /// Makes the functions through which relays use a server; the embedded database has no relays.
    pub(super) fn make_functions(&mut self) -> Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Server(server) => server.make_functions(),
        }
    }

    /// Notes which database this is, so that another one is refused at the same address.
    pub(super) fn note_identity(&self) -> Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Server(server) => server.note_identity(),
        }
    }

    /// Runs a statement and returns how many rows it changed.
    pub(super) fn execute(&mut self, statement: &str, values: &[&dyn Param]) -> Result<u64> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(statement)?;
                let changed = statement.execute(rusqlite::params_from_iter(values))?;
                Ok(u64::try_from(changed).unwrap_or(u64::MAX))
            }
            Self::Server(server) => server.execute(statement, values),
        }
    }

    /// Runs a query and returns its rows.
    pub(super) fn query(&mut self, statement: &str, values: &[&dyn Param]) -> Result<Vec<Record>> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(statement)?;
                let columns = statement.column_count();
                let mut rows = statement.query(rusqlite::params_from_iter(values))?;
                let mut records = Vec::new();
                while let Some(row) = rows.next()? {
                    let field = |column| match row.get_ref(column)? {
                        ValueRef::Integer(number) => Ok(Column::Number(number)),
                        ValueRef::Text(text) => String::from_utf8(text.to_vec())
                            .map(Column::Text)
                            .map_err(|_| DatabaseError::Column(column)),
                        _ => Err(DatabaseError::Column(column)),
                    };
                    records.push(Record((0..columns).map(field).collect::<Result<_>>()?));
                }
                Ok(records)
            }
            Self::Server(server) => server.query(statement, values),
        }
    }

    /// Reads every row that a query finds.
    pub(super) fn rows<T, C: FromIterator<T>>(
        &mut self,
        statement: &str,
        values: &[&dyn Param],
        read: impl FnMut(Record) -> Result<T>,
    ) -> Result<C> {
        let rows = self.query(statement, values)?;
        rows.into_iter().map(read).collect()
    }

    /// Returns the number that is the first column of the first row.
    pub(super) fn number(&mut self, statement: &str, values: &[&dyn Param]) -> Result<Option<i64>> {
        let rows = self.query(statement, values)?;
        rows.first().map(|row| row.number(0)).transpose()
    }

    /// Returns how long the file of the embedded database has to be at least once its journal is moved there.
    pub(super) fn length(&mut self) -> Result<u64> {
        let pragma = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
        let length = self.number(pragma, &[])?.unwrap_or(0);
        Ok(u64::try_from(length).unwrap_or(0))
    }

    /// Keeps the journal of the embedded database as it is from now on, also at the end of this process: the file
    /// that it would be moved to is damaged.
    pub(super) fn keep_journal(&mut self) {
        let Some(connection) = self.embedded() else {
            return;
        };
        let kept = connection.pragma_update(None, "wal_autocheckpoint", 0);
        let only = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        let kept = kept.and(connection.set_db_config(only, true).map(drop));
        if let Err(error) = kept {
            tracing::debug!(%error, "the journal of the store may be moved");
        }
    }

    /// Moves what is committed from the embedded database's journal to its file, so that the journal is written from
    /// its start again. The store calls this between the changes, so that no change waits for it. The journal is
    /// complete without it, so callers need no error.
    pub(super) fn checkpoint(&mut self) {
        let moved = self.embedded().map_or(Ok(()), |connection| {
            connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
        });
        if let Err(error) = moved {
            tracing::debug!(%error, "the journal of the store stays as it is");
        }
    }
}

/// Opens a file that no process has open, and makes none beside it: SQLite does so even to read.
fn open_alone(path: &Path) -> Result<Connection> {
    let journal = beside(path, "-wal").metadata();
    if journal.map_or(0, |file| file.len()) == 0 {
        let flags = READ | OpenFlags::SQLITE_OPEN_URI;
        return Ok(Connection::open_with_flags(immutable(path), flags)?);
    }
    // It has no shared memory, so the index of the journal is held by this process alone.
    let connection = Connection::open_with_flags_and_vfs(path, READ, "unix-none")?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    Ok(connection)
}

/// Returns the URI of a database that no process changes.
fn immutable(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes().iter();
    let path = bytes.map(|byte| match byte {
        b'/' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(*byte).to_string(),
        byte => format!("%{byte:02x}"),
    });
    format!("file:{}?immutable=1", path.collect::<String>())
}

/// Returns the path of a file that SQLite has beside a database.
pub(super) fn beside(database: &Path, what: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(what);
    path.into()
}

fn set_up_embedded(connection: &mut Connection) -> Result<()> {
    let writable = !connection.is_readonly("main")?;
    // The switch to WAL takes a lock to which the timeout does not apply: another process may switch at the same
    // moment.
    let mut tries = 0;
    while writable && let Err(error) = connection.pragma_update(None, "journal_mode", "WAL") {
        let error = DatabaseError::from(error);
        tries += 1;
        if tries > 50 || !error.is_busy() {
            return Err(error);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Normally `Database::checkpoint` does this between the changes; this setting is for processes that change little
    // and end.
    connection.pragma_update(None, "wal_autocheckpoint", 4000)?;
    connection.busy_handler(Some(wait))?;
    // Without this SQLite prepares a statement again for each other value of a limit.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(())
}

/// Waits a little for the transaction of another process. The database's own wait grows to 100 ms, so that among a
/// dozen busy processes one may be passed over until it fails; here all check about as often, and not in step.
fn wait(checks: i32) -> bool {
    let step = std::process::id().wrapping_add(checks.unsigned_abs()) % 1000;
    std::thread::sleep(Duration::from_micros(1000 + u64::from(step)));
    checks < MOST_CHECKS
}
