//! The connection to a PostgreSQL server. Outside of a transaction a connection that was lost is made anew: what runs there
//! only reads, or begins a transaction.

use std::collections::HashMap;
use std::error::Error as _;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::server_address::{SILENCE, ServerAddress};
use super::{Column, DatabaseError, Param, Record, Result};
use crate::store::LOOK;

/// The oldest version of PostgreSQL, as its number.
const LEAST: i64 = 140_000;

const DIRECT: &str =
    "name the server itself, or a pooler that keeps a connection for a whole session";

/// What every connection needs: a process that stands still must not keep others waiting for the rows that it locked, and
/// what is committed is on the disk.
const SETTINGS: &str = "SET idle_in_transaction_session_timeout = '15s'; SET lock_timeout = '15s'; \
    SET default_transaction_isolation = 'read committed'; \
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// What relays may do.
const FUNCTIONS: &str = include_str!("relay_functions.sql");

/// A function has the search path with which it was made. Without this a caller's own temporary tables would go before.
const PINNED: &str =
    "SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true)";

const POOLED: &str =
    "the server gives each transaction another connection, as a transaction pooler does";

type Answer<T> = std::result::Result<T, tokio_postgres::Error>;

/// How long the end of a connection may take.
const END: Duration = Duration::from_secs(1);

/// A connection with the runtime that drives it, for threads that may block. What only acknowledges, such as a tunnel whose other
/// end is gone, would keep one for ever: each answer has a time.
struct Link {
    runtime: Runtime,
    client: Option<Client>,
    driven: JoinHandle<()>,
    limit: Duration,
}

/// One connection.
pub(in crate::store) struct Server {
    address: Arc<ServerAddress>,
    read_only: bool,
    link: Link,
    statements: HashMap<String, Statement>,
    /// A transaction is open.
    begun: bool,
}

impl Link {
    /// Connects to a server. `heard` is told of each notification.
    fn open(address: &ServerAddress, heard: Arc<Notify>) -> Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build();
        let runtime =
            runtime.map_err(|error| DatabaseError::Unfit(error.to_string(), "try again"))?;
        let open = async {
            Answer::Ok(match &address.tls {
                Some(tls) => {
                    let tls = MakeRustlsConnect::new(tls.clone());
                    let (client, connection) = address.config.connect(tls).await?;
                    (client, tokio::spawn(drive(connection, heard)))
                }
                None => {
                    let (client, connection) = address.config.connect(NoTls).await?;
                    (client, tokio::spawn(drive(connection, heard)))
                }
            })
        };
        let opened = runtime.block_on(async { timeout(SILENCE, open).await });
        let (client, driven) = opened.map_err(|_| DatabaseError::Silent)??;
        Ok(Self {
            runtime,
            client: Some(client),
            driven,
            limit: SILENCE,
        })
    }

    /// Asks the server something.
    fn ask<T>(&self, ask: impl AsyncFnOnce(&Client) -> Answer<T>) -> Result<T> {
        let client = self.client.as_ref().ok_or(DatabaseError::Silent)?;
        let asked = async { timeout(self.limit, ask(client)).await };
        let answer = self.runtime.block_on(asked);
        Ok(answer.map_err(|_| DatabaseError::Silent)??)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Without its client a connection says goodbye.
        self.client = None;
        let ended = async { timeout(END, &mut self.driven).await };
        if self.runtime.block_on(ended).is_err() {
            tracing::debug!("a server does not hear that a connection ends");
        }
    }
}

/// Drives a connection to its end.
async fn drive<S, T>(mut connection: Connection<S, T>, heard: Arc<Notify>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(_) = message {
            heard.notify_one();
        }
    }
}

impl Server {
    /// Connects to a server that can keep plans.
    pub(super) fn connect(address: &Arc<ServerAddress>, read_only: bool) -> Result<Self> {
        let link = Link::open(address, Arc::default())?;
        let facts = "SELECT current_setting('server_version_num')::bigint, current_setting('server_version'), \
             current_setting('server_encoding'), \
             current_setting('transaction_read_only') = 'on' OR pg_is_in_recovery()";
        let facts = link.ask(async |client| client.query_typed(facts, &[]).await)?;
        let facts = facts.first().ok_or(DatabaseError::Column(0))?;
        let (number, encoding): (i64, String) = (facts.try_get(0)?, facts.try_get(2)?);
        if number < LEAST {
            let version: String = facts.try_get(1)?;
            let what = format!("the server is PostgreSQL {version}, and 14 or newer is needed");
            return Err(DatabaseError::Unfit(what, "name a newer server"));
        }
        if encoding != "UTF8" {
            let what = format!("the database has the encoding {encoding}, and UTF8 is needed");
            let way =
                "make another database: CREATE DATABASE plans ENCODING 'UTF8' TEMPLATE template0";
            return Err(DatabaseError::Unfit(what, way));
        }
        if !read_only && facts.try_get(3)? {
            let what = "the server takes no changes: it is a standby, or read-only".to_owned();
            let way =
                "name the primary server, or several hosts with `target_session_attrs=read-write`";
            return Err(DatabaseError::Unfit(what, way));
        }
        link.ask(async |client| client.batch_execute(SETTINGS).await)?;
        match read_only {
            true => {
                let only = "SET default_transaction_read_only = on";
                link.ask(async |client| client.batch_execute(only).await)?;
            }
            false => refuse_pooler(address, &link)?,
        }
        require_same(address, &link)?;
        Ok(Self {
            address: Arc::clone(address),
            read_only,
            link,
            statements: HashMap::new(),
            begun: false,
        })
    }

    pub(super) fn execute(&mut self, statement: &str, values: &[&dyn Param]) -> Result<u64> {
        let values = parameters(values);
        let execute =
            async |client: &Client, statement: &Statement| client.execute(statement, &values).await;
        let done = self.run(statement, &execute);
        match statement {
            "COMMIT" | "ROLLBACK" => self.begun = false,
            begin if begin.starts_with("BEGIN") => self.begun = done.is_ok(),
            _ => {}
        }
        done
    }

    pub(super) fn query(&mut self, statement: &str, values: &[&dyn Param]) -> Result<Vec<Record>> {
        let values = parameters(values);
        let query =
            async |client: &Client, statement: &Statement| client.query(statement, &values).await;
        let rows = self.run(statement, &query)?;
        rows.iter().map(record).collect()
    }

    /// Makes the functions of relays anew, in the schema of the tables.
    pub(super) fn make_functions(&mut self) -> Result<()> {
        let make = async |client: &Client| {
            client.batch_execute(PINNED).await?;
            client.batch_execute(FUNCTIONS).await
        };
        self.link.ask(make)
    }

    /// Notes which database this is, where its tables have just been made.
    pub(super) fn note_identity(&self) -> Result<()> {
        require_same(&self.address, &self.link)
    }

    /// Sets how long the server may take for each answer, and returns how long it could before.
    pub(super) fn limit(&mut self, limit: Duration) -> Duration {
        std::mem::replace(&mut self.link.limit, limit)
    }

    /// Runs a statement, again on a new connection if the one before was lost outside of a transaction.
    fn run<T>(
        &mut self,
        text: &str,
        run: &impl AsyncFn(&Client, &Statement) -> Answer<T>,
    ) -> Result<T> {
        match self.run_once(text, run) {
            Err(error) if error.is_lost() && !self.begun => {
                let limit = self.link.limit;
                *self = Self::connect(&self.address, self.read_only)?;
                self.link.limit = limit;
                self.run_once(text, run)
            }
            done => done,
        }
    }

    fn run_once<T>(
        &mut self,
        text: &str,
        run: &impl AsyncFn(&Client, &Statement) -> Answer<T>,
    ) -> Result<T> {
        let statement = match self.statements.get(text) {
            Some(statement) => statement.clone(),
            None => {
                let statement = self.link.ask(async |client| client.prepare(text).await)?;
                self.statements.insert(text.to_owned(), statement.clone());
                statement
            }
        };
        let done = self.link.ask(async |client| run(client, &statement).await);
        done.inspect_err(|_| {
            // The tables may have changed since it was prepared.
            self.statements.remove(text);
        })
    }
}

/// Refuses another database than the one that answered before: plans that it does not have are not gone.
fn require_same(address: &ServerAddress, link: &Link) -> Result<()> {
    let asked = link.ask(async |client| client.query_typed("SELECT store_identity()", &[]).await);
    let identity: Option<i64> = match asked {
        // It has no tables yet.
        Err(DatabaseError::Postgres(error))
            if error.code() == Some(&SqlState::UNDEFINED_FUNCTION) =>
        {
            None
        }
        rows => rows?.first().map_or(Ok(None), |row| row.try_get(0))?,
    };
    if address.is_same(identity) {
        return Ok(());
    }
    let (what, way) = match identity {
        Some(_) => (
            "another database answers than before",
            "let the address lead to the earlier one",
        ),
        None => (
            "the database has no plans any more, or shows none to this login",
            "put a backup back, or remove that file to begin anew; a login that is only to relay is let in by \
             `plan-agent store allow LOGIN`, where the daemon is",
        ),
    };
    let note = address.note.display();
    let what = format!("{what}; without `{note}` it counts as a new one");
    Err(DatabaseError::Unfit(what, way))
}

/// Refuses a pooler that gives two connections one process at once, or one connection another process for each transaction.
fn refuse_pooler(address: &ServerAddress, link: &Link) -> Result<()> {
    let pid = |link: &Link| -> Result<i32> {
        let own = "SELECT pg_backend_pid()";
        let rows = link.ask(async |client| client.query_typed(own, &[]).await)?;
        Ok(rows.first().map_or(Ok(0), |row| row.try_get(0))?)
    };
    let before = pid(link)?;
    let other = Link::open(address, Arc::default())?;
    other.ask(async |client| client.batch_execute("BEGIN").await)?;
    let beside = pid(&other)?;
    match pid(link)? == before && before != beside {
        true => Ok(()),
        false => Err(DatabaseError::Unfit(POOLED.to_owned(), DIRECT)),
    }
}

/// Returns whether the connection is gone, or is about to.
pub(super) fn is_lost(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else {
        return true;
    };
    let gone = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    error.is_closed() || gone.contains(code) || code.code().starts_with("08")
}

pub(super) fn is_no_table(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::UNDEFINED_TABLE)
}

/// Returns what a person can do.
pub(super) fn way_out(error: &tokio_postgres::Error) -> Option<&'static str> {
    const PASSWORD: &str =
        "the password belongs into ~/.pgpass: a line `host:port:database:user:password`";
    let Some(code) = error.code() else {
        return Some(match said(error) {
            text if text.contains("password missing") => PASSWORD,
            text if text.contains("does not support TLS") => {
                "let the server encrypt: ssl = on; in a network that only you can read, add ?sslmode=disable"
            }
            text if text.contains("CaUsedAsEndEntity") => {
                "the server's certificate is that of an authority: make one for the server, with basicConstraints CA:FALSE"
            }
            text if text.contains("certificate") => {
                "name the certificate of the server's authority with ?sslrootcert=FILE; the server's own has to be for the name in the address, and for today"
            }
            _ => "is the server running, and reached from here? `plan-agent doctor` looks",
        });
    };
    match code.code() {
        "28P01" => Some(PASSWORD),
        "28000" => Some(
            "`createuser NAME` makes a login; pg_hba.conf says which ones are let in from where",
        ),
        "3D000" => Some("make the database first: `createdb NAME`"),
        "42501" if said(error).contains("relay_allow") => {
            Some("type it as the owner of the tables, who has run `plan-agent store migrate`")
        }
        "42501" if said(error).contains("relay_") => {
            Some("where the daemon is, `plan-agent store allow LOGIN` lets a login relay")
        }
        "42501" if said(error).contains(" meta") => Some(
            "a login of a relay can only relay; every other one needs SELECT, INSERT, UPDATE, DELETE ON the tables",
        ),
        "42501" => Some(
            "the user needs a schema of its own: CREATE SCHEMA plans AUTHORIZATION user; or rights in this one: \
             GRANT CREATE, USAGE ON SCHEMA public TO user",
        ),
        "26000" | "42P05" => Some(DIRECT),
        "42883" => Some(
            "where the daemon is, `plan-agent store migrate` makes what relays need, and `store allow` lets this login use it",
        ),
        "53300" if said(error).contains("for role") => {
            Some("let this login make more connections: ALTER ROLE … CONNECTION LIMIT")
        }
        "53300" => Some("let the server take more connections: max_connections"),
        _ => None,
    }
}

/// Returns the message of a server, or what failed before it could say anything.
pub(super) fn said(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return match said.code().code() {
            // A statement that was prepared a moment ago is not known.
            "26000" | "42P05" => format!("{}: {POOLED}", said.message()),
            _ => said.message().to_owned(),
        };
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = inner.source();
    }
    text
}

fn parameters<'a>(values: &[&'a dyn Param]) -> Vec<&'a (dyn ToSql + Sync)> {
    let parameter = |value: &&'a dyn Param| *value as &(dyn ToSql + Sync);
    values.iter().map(parameter).collect()
}

fn record(row: &Row) -> Result<Record> {
    let field = |(index, column): (usize, &tokio_postgres::Column)| match *column.type_() {
        Type::INT8 => Ok(Column::Number(row.try_get(index)?)),
        Type::TEXT => Ok(Column::Text(row.try_get(index)?)),
        _ => Err(DatabaseError::Column(index)),
    };
    let fields = row.columns().iter().enumerate().map(field);
    Ok(Record(fields.collect::<Result<_>>()?))
}

/// Moves a counter when the server says that there is something new, and else every few seconds, until nobody reads it. What is
/// wrong with the server is said by those who use it.
pub(in crate::store) fn listen(address: &ServerAddress, bell: &watch::Sender<u64>) {
    let ring = || bell.send_modify(|count| *count = count.wrapping_add(1));
    let attend = || -> Result<()> {
        let heard = Arc::new(Notify::new());
        let link = Link::open(address, Arc::clone(&heard))?;
        link.ask(async |client| client.batch_execute("LISTEN plan_agent").await)?;
        while !bell.is_closed() && !link.driven.is_finished() {
            ring();
            let word = async { timeout(LOOK, heard.notified()).await };
            // No word in time is none.
            link.runtime.block_on(word).ok();
        }
        Ok(())
    };
    while !bell.is_closed() {
        if let Err(error) = attend() {
            tracing::debug!(%error, "no word from the server");
            ring();
        }
        std::thread::sleep(LOOK);
    }
}
