//! What a relay does on the server of the plans: a login that may only call the functions of
//! `database_drivers/relay_functions.sql` is enough for it.

use std::sync::mpsc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::database_drivers::{Database, DatabaseError, DatabasePlace, Param, Record};
use super::place::no_relays;
use super::{PART, Result, StoreError, StorePlace};
use crate::plan::{CommandId, PlanId, SessionId};

/// What this version and the functions on the server agree on.
const PROTOCOL: i64 = 5;

/// The most bytes of a result: its parts are kept in rows.
pub const MOST_WORK: usize = 64 * PART;

/// The most parts of a pack that are fetched: of a larger one the rest is missing, and git refuses it.
const MOST_PARTS: i64 = 1_024;

/// The connection of a relay, as the relay with a name. Clones share it; a thread of its own has it, which ends with the last one.
#[derive(Clone)]
pub struct RelayLink {
    place: DatabasePlace,
    shown: String,
    name: String,
    jobs: mpsc::Sender<Job>,
}

/// Works with the connection, which is made when it is first used.
type Job = Box<dyn FnOnce(&mut Option<Database>) + Send>;

/// A command that a relay has claimed.
#[derive(Clone, Debug)]
pub struct ClaimedCommand {
    pub id: CommandId,
    /// Counts the claims of the command from 1.
    pub claim: i64,
    pub plan: PlanId,
    pub project: String,
    pub text: String,
    /// As in [`super::OfferedCommand`].
    pub base: String,
    pub head: String,
    pub merge: String,
}

/// What a relay is, for those who watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AboutRelay {
    pub machine: String,
    pub version: String,
    pub agent: String,
    pub roles: Vec<String>,
    /// A usage limit of its agent lasts until then, in RFC 3339.
    pub limited_until: Option<String>,
    /// It was stopped by its person, and is forgotten.
    pub ended: bool,
}

/// A command that a relay has, and how the work on it goes, as JSON; empty while it lays the work out.
#[derive(Clone, Debug, Serialize)]
pub struct HeldBeat {
    pub id: CommandId,
    pub claim: i64,
    pub life: String,
}

impl StorePlace {
    /// Returns the connection of a relay to the server, which is made when it is first used.
    ///
    /// # Errors
    /// The plans are in a file of one machine, or no thread can be started.
    pub fn relay_link(&self, name: &str) -> Result<RelayLink> {
        let place = self.database(false).ok_or_else(no_relays)?;
        let (jobs, queue) = mpsc::channel::<Job>();
        let serve = move || {
            let mut database = None;
            queue.into_iter().for_each(|job| job(&mut database));
        };
        let thread = std::thread::Builder::new().name("relay link".to_owned());
        let started = thread.spawn(serve);
        started.map_err(|error| StoreError::unopened(&self.to_string(), error, None))?;
        Ok(RelayLink {
            place,
            shown: self.to_string(),
            name: name.to_owned(),
            jobs,
        })
    }
}

impl RelayLink {
    /// Says that the relay lives, and how the work goes. Returns the commands that it still has: others were taken back, or
    /// another relay has them.
    ///
    /// # Errors
    /// The server cannot be reached, knows nothing of relays, or does not let this login in.
    pub async fn beat(&self, about: &AboutRelay, held: &[HeldBeat]) -> Result<Vec<CommandId>> {
        let (about, held) = (json(about), json(held));
        self.call(move |database, name| {
            // The server may be another one since, or migrated: a lost connection is made anew.
            same_protocol(database)?;
            let beat = "SELECT held FROM relay_beat($1, $2, $3) AS held";
            let id = |mut row: Record| Ok(CommandId::new(row.text(0)?));
            database.rows(beat, &[&name, &about, &held], id)
        })
        .await
    }

    /// Takes the oldest command that waits for one of these roles, with one of these projects, and, if it goes on in a session,
    /// with one of these; none of the plans that are passed over.
    ///
    /// # Errors
    /// As [`RelayLink::beat`].
    pub async fn claim(
        &self,
        roles: &[&String],
        projects: &[&String],
        sessions: &[SessionId],
        passed: &[&PlanId],
    ) -> Result<Option<ClaimedCommand>> {
        let (roles, projects) = (json(roles), json(projects));
        let (sessions, passed) = (json(sessions), json(passed));
        self.call(move |database, name| {
            let rows = database.query(
                "SELECT id, claim, plan, project, body, base, head, merge FROM relay_claim($1, $2, $3, $4, $5)",
                &[&name, &roles, &projects, &sessions, &passed],
            )?;
            rows.into_iter().next().map(claimed).transpose()
        })
        .await
    }

    /// Gives a command back on which the relay does not work, with the reason if it cannot. Returns whether the relay had it.
    ///
    /// # Errors
    /// As [`RelayLink::beat`].
    pub async fn release(&self, id: &CommandId, claim: i64, why: String) -> Result<bool> {
        let id = id.to_string();
        self.call(move |database, name| {
            let release = "SELECT COALESCE(relay_release($1, $2, $3, $4), 0)";
            let released = database.number(release, &[&name, &id, &claim, &why])?;
            Ok(released.unwrap_or(0) > 0)
        })
        .await
    }

    /// Lists the packs that are kept of the plan of a claimed command, each with its commit, in the order in which they build on
    /// each other.
    ///
    /// # Errors
    /// As [`RelayLink::beat`].
    pub async fn packs(&self, id: &CommandId, claim: i64) -> Result<Vec<(i64, String)>> {
        let id = id.to_string();
        self.call(move |database, name| {
            let list = "SELECT place, commit_id FROM relay_packs($1, $2, $3)";
            let pack = |mut row: Record| Ok((row.number(0)?, row.text(1)?));
            database.rows(list, &[&name, &id, &claim], pack)
        })
        .await
    }

    /// Returns one of these packs; 0 stands for the work on the task so far. It comes in parts: the relay can say meanwhile that
    /// it lives.
    ///
    /// # Errors
    /// As [`RelayLink::beat`].
    pub async fn pack(&self, id: &CommandId, claim: i64, place: i64) -> Result<Vec<u8>> {
        let mut pack = Vec::new();
        for at in 0..MOST_PARTS {
            let id = id.to_string();
            let part = self.call(move |database, name| {
                let part = "SELECT part FROM relay_pack($1, $2, $3, $4, $5) AS part";
                let values: [&dyn Param; 5] = [&name, &id, &claim, &place, &at];
                let rows = database.at_length(|database| database.query(part, &values))?;
                rows.into_iter()
                    .next()
                    .map(|mut row| row.text(0))
                    .transpose()
            });
            let part = part.await?.unwrap_or_default();
            // What cannot be read makes it a pack that git refuses.
            let part = BASE64.decode(part).unwrap_or_default();
            pack.extend(&part);
            if part.len() < PART {
                break;
            }
        }
        Ok(pack)
    }

    /// Reports on a command, with the commit of the work and what that has beyond `head`; or with the reason why there is none.
    /// A command that ends a session is forgotten with that.
    /// Returns whether this is what counts: false if another relay has the command, or nobody wants it any more. To say it
    /// again changes nothing.
    ///
    /// # Errors
    /// As [`RelayLink::beat`].
    pub async fn report(
        &self,
        id: &CommandId,
        claim: i64,
        report: &[u8],
        work: Result<(String, Vec<u8>), String>,
    ) -> Result<bool> {
        let (id, report) = (id.to_string(), BASE64.encode(report));
        let ((commit, pack), refused) = match work {
            Ok(work) => (work, String::new()),
            Err(refused) => ((String::new(), Vec::new()), refused),
        };
        for (part, bytes) in (0_i64..).zip(pack.chunks(PART)) {
            let (id, body) = (id.clone(), BASE64.encode(bytes));
            self.call(move |database, name| {
                let put = "SELECT relay_put($1, $2, $3, $4, $5)";
                let values: [&dyn Param; 5] = [&name, &id, &claim, &part, &body];
                database.query(put, &values).map(drop)
            })
            .await?;
        }
        self.call(move |database, name| {
            let say = "SELECT relay_report($1, $2, $3, $4, $5, $6)";
            let values: [&dyn Param; 6] = [&name, &id, &claim, &report, &commit, &refused];
            Ok(database.number(say, &values)?.unwrap_or(0) > 0)
        })
        .await
    }

    /// Calls a function of the server, whose first value is the name of the relay.
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Database, &str) -> Result<T, DatabaseError> + Send + 'static,
    ) -> Result<T> {
        let (place, name) = (self.place.clone(), self.name.clone());
        let (done, answer) = oneshot::channel();
        let job = move |kept: &mut Option<Database>| {
            let called = || {
                let database = match kept.take() {
                    Some(database) => database,
                    None => connect(&place)?,
                };
                call(kept.insert(database), &name)
            };
            let answer = called();
            if answer.is_err() {
                // A new connection sees a login that was dropped, or made again.
                *kept = None;
            }
            drop(done.send(answer));
        };
        let failed =
            |error: DatabaseError| StoreError::unopened(&self.shown, &error, error.way_out());
        self.jobs
            .send(Box::new(job))
            .map_err(|_| StoreError::Closed)?;
        answer
            .await
            .map_err(|_| StoreError::Closed)?
            .map_err(failed)
    }
}

fn connect(place: &DatabasePlace) -> Result<Database, DatabaseError> {
    let mut database = Database::connect(place)?;
    same_protocol(&mut database)?;
    Ok(database)
}

fn same_protocol(database: &mut Database) -> Result<(), DatabaseError> {
    let known = database.number("SELECT relay_protocol()", &[])?;
    match known.unwrap_or(0) {
        PROTOCOL => Ok(()),
        other => Err(DatabaseError::Unfit(
            format!(
                "its functions for relays are of version {other}, and this program knows {PROTOCOL}"
            ),
            "give the relays and the daemons the same version of plan-agent, then `plan-agent store migrate`",
        )),
    }
}

fn claimed(mut row: Record) -> Result<ClaimedCommand, DatabaseError> {
    Ok(ClaimedCommand {
        id: CommandId::new(row.text(0)?),
        claim: row.number(1)?,
        plan: PlanId::new(row.text(2)?),
        project: row.text(3)?,
        text: row.text(4)?,
        base: row.text(5)?,
        head: row.text(6)?,
        merge: row.text(7)?,
    })
}

fn json(value: impl Serialize) -> String {
    serde_json::to_string(&value).expect("texts and numbers only")
}
