//! What `doctor` finds out about a server.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::server::{Server, pooled};
use super::server_address::ServerAddress;
use super::{Database, DatabaseError, Result};
use crate::store::place::StoreFinding;
use crate::store::sql_statements::Tables;

/// How far the clocks may be apart: logs of several machines would be out of order.
const APART: Duration = Duration::from_secs(5);

/// Statements by which the round trip is measured.
const TRIPS: usize = 5;

/// Rights on the tables, by how many of them are missing.
const MISSING: &str = "SELECT COUNT(*) FROM unnest(ARRAY['plans', 'plan_rows', 'log', 'texts', 'spent']) AS t, \
    unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p WHERE NOT has_table_privilege(t, p)";

/// Looks at a server: first what it is, then what is measured. What is unfit ends it.
pub(in crate::store) fn examine(address: &Arc<ServerAddress>) -> Vec<StoreFinding> {
    let mut findings = Vec::new();
    if let Err(error) = look(address, &mut findings) {
        findings.push(StoreFinding {
            good: false,
            text: format!("{address}: {error}"),
            hint: error.way_out().map(str::to_owned),
        });
    }
    findings
}

fn look(address: &Arc<ServerAddress>, findings: &mut Vec<StoreFinding>) -> Result<()> {
    let mut server = Server::connect(address, false)?;
    refuse_pooler(address, &mut server)?;
    let version = text(&mut server, "SELECT current_setting('server_version')")?;
    let encrypted = match address.tls {
        Some(_) => "encrypted",
        None => "not encrypted",
    };
    let good = |text: String| StoreFinding {
        good: true,
        text,
        hint: None,
    };
    findings.push(good(format!(
        "{address} is PostgreSQL {version}, UTF8; {encrypted}"
    )));
    let tables = text(
        &mut server,
        "SELECT COALESCE(CAST(to_regclass('meta') AS TEXT), '')",
    )?;
    let schema = text(
        &mut server,
        "SELECT COALESCE(CAST(current_schema() AS TEXT), '')",
    )?;
    let place = match tables.is_empty() {
        true => format!("its schema {schema} has no tables yet"),
        false => format!("its tables are in the schema {schema}"),
    };
    let lacks = match tables.is_empty() {
        true => {
            "SELECT CAST(CASE WHEN has_schema_privilege(current_schema(), 'CREATE') THEN 0 ELSE 1 END AS BIGINT)"
        }
        false => MISSING,
    };
    if schema.is_empty() || number(&mut server, lacks)? != 0 {
        findings.push(StoreFinding {
            good: false,
            text: format!("{place}, and the user lacks rights there"),
            hint: Some("GRANT CREATE, USAGE ON SCHEMA … and SELECT, INSERT, UPDATE, DELETE ON its tables TO the user".to_owned()),
        });
    } else {
        findings.push(good(place));
    }
    let mut trips = Vec::new();
    for _ in 0..TRIPS {
        let began = Instant::now();
        number(&mut server, "SELECT 1::bigint")?;
        trips.push(began.elapsed());
    }
    trips.sort_unstable();
    let trip = trips[TRIPS / 2];
    let theirs = number(
        &mut server,
        "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)",
    )?;
    let ours = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let theirs = Duration::from_micros(u64::try_from(theirs).unwrap_or(0));
    let apart = ours.abs_diff(theirs).saturating_sub(trip);
    let (trip, seconds) = (trip.as_secs_f64() * 1000.0, apart.as_secs_f64());
    let text =
        format!("a round trip takes {trip:.1} ms, and its clock is {seconds:.1} s from this one");
    findings.push(StoreFinding {
        good: apart <= APART,
        hint: (apart > APART).then(|| "set both clocks by the network: NTP".to_owned()),
        text,
    });
    Tables::of(Database::Server(Box::new(server)))
        .check_format()
        .map(drop)
}

/// Refuses a server that gives two connections the same process at once, or one connection another one each time.
fn refuse_pooler(address: &Arc<ServerAddress>, server: &mut Server) -> Result<()> {
    let pid = "SELECT CAST(pg_backend_pid() AS BIGINT)";
    let before = number(server, pid)?;
    let mut other = Server::connect(address, false)?;
    other.execute("BEGIN", &[])?;
    let beside = number(&mut other, pid)?;
    let after = number(server, pid)?;
    match before == after && before != beside {
        true => Ok(()),
        false => Err(pooled()),
    }
}

fn number(server: &mut Server, statement: &str) -> Result<i64> {
    let rows = server.query(statement, &[])?;
    rows.first().ok_or(DatabaseError::Column(0))?.number(0)
}

fn text(server: &mut Server, statement: &str) -> Result<String> {
    let mut rows = server.query(statement, &[])?;
    rows.first_mut().ok_or(DatabaseError::Column(0))?.text(0)
}
