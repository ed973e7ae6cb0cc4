//! What `doctor` finds out about a server.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::server::Server;
use super::server_address::ServerAddress;
use super::{Database, DatabaseError, Result};
use crate::store::place::StoreFinding;
use crate::store::sql_statements::Tables;
use crate::wire::Problem;

/// How far the clocks may be apart: logs of several machines would be out of order.
const APART: Duration = Duration::from_secs(5);

/// The version; the schema; the tables; and the rights that the user lacks, in the schema while there are no tables.
const FACTS: &str = "SELECT current_setting('server_version'), COALESCE(CAST(current_schema() AS TEXT), ''), \
    COALESCE(CAST(to_regclass('meta') AS TEXT), ''), CASE WHEN to_regclass('meta') IS NULL \
    THEN CAST(NOT COALESCE(has_schema_privilege(current_schema(), 'CREATE'), false) AS INT)::BIGINT \
    ELSE (SELECT COUNT(*) FROM unnest(ARRAY['plans', 'plan_rows', 'log', 'texts', 'spent', 'work', \
    'relayed', 'relayed_parts', 'relays', 'relay_rights']) AS t, \
    unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p \
    WHERE to_regclass(t) IS NULL OR NOT has_table_privilege(to_regclass(t), p)) END";

/// Whether the user may relay.
const RELAYS: &str = "SELECT CAST(COALESCE(has_function_privilege(to_regprocedure('relay_protocol()'), 'EXECUTE'), false) \
    AS INT)::BIGINT";

const CLOCK: &str = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)";

const GRANT: &str = "a login that is only to relay: `plan-agent store allow LOGIN`, where the daemon is; every other one: \
                     GRANT CREATE, USAGE ON SCHEMA … and SELECT, INSERT, UPDATE, DELETE ON its tables TO the user";

/// Looks at a server: first what it is, then what is measured. What is unfit ends it.
pub(in crate::store) fn examine(address: &Arc<ServerAddress>) -> Vec<StoreFinding> {
    let mut findings = Vec::new();
    if let Err(error) = look(address, &mut findings) {
        findings.push(Err(error.problem(format!("{address}: {error}"))));
    }
    findings
}

fn look(address: &Arc<ServerAddress>, found: &mut Vec<StoreFinding>) -> Result<()> {
    let server = Server::connect(address, false)?;
    let mut database = Database::Server(Box::new(server));
    let mut facts = database.query(FACTS, &[])?;
    let facts = facts.first_mut().ok_or(DatabaseError::Column(0))?;
    let [version, schema, tables] = [facts.text(0)?, facts.text(1)?, facts.text(2)?];
    let encrypted = match address.tls {
        Some(_) => "encrypted",
        None => "not encrypted",
    };
    let server_is = format!("{address} is PostgreSQL {version}, UTF8; {encrypted}");
    found.push(Ok(server_is));
    let place = match tables.is_empty() {
        true => format!("its schema {schema} has no tables yet"),
        false => format!("its tables are in the schema {schema}"),
    };
    let lacks = facts.number(3)? != 0;
    let relays = database.number(RELAYS, &[])?.unwrap_or(0) != 0;
    found.push(match (lacks, relays) {
        (false, _) => Ok(place),
        (true, true) => Ok(format!("{place}; this login can relay, and nothing else")),
        (true, false) => {
            let lacks = format!("{place}, and the user lacks rights there");
            Err(Problem::new(lacks).with_hint(GRANT))
        }
    });
    database.query(CLOCK, &[])?;
    let began = Instant::now();
    let theirs = database.number(CLOCK, &[])?.unwrap_or(0);
    let trip = began.elapsed();
    let ours = SystemTime::now().duration_since(UNIX_EPOCH);
    let ours = ours.unwrap_or_default();
    let theirs = Duration::from_micros(u64::try_from(theirs).unwrap_or(0));
    let apart = ours.abs_diff(theirs).saturating_sub(trip);
    let (trip, seconds) = (trip.as_secs_f64() * 1000.0, apart.as_secs_f64());
    let text =
        format!("a round trip takes {trip:.1} ms, and its clock is {seconds:.1} s from this one");
    found.push(match apart > APART {
        true => Err(Problem::new(text).with_hint("set both clocks by the network: NTP")),
        false => Ok(text),
    });
    // What it lacks would fail once more.
    if lacks {
        return Ok(());
    }
    Tables::of(database).check_format().map(drop)
}
