//! Commands that are given to relays on other machines, as the daemon sees them: it offers one, looks what became of it, and takes
//! it back. What a relay may do with it stands in `database_drivers/relay_functions.sql`, and is called by [`super::RelayLink`].

use std::collections::HashMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::database_drivers::{Param, Record, Result as Answer};
use super::sql_statements::Tables;
use super::{AboutRelay, PART, Result, Store, StoreError};
use crate::plan::{CommandId, PlanId};

/// A command for any relay that serves its role and has its project.
#[derive(Clone, Debug, Default)]
pub struct OfferedCommand {
    pub id: CommandId,
    pub plan: PlanId,
    /// The project by its id of `[projects]`.
    pub project: String,
    /// Empty if it is for all roles.
    pub role: String,
    /// The session in which it goes on; empty for a new one.
    pub session: String,
    /// The text of the command's file.
    pub text: String,
    /// The commit at which the plan began.
    pub base: String,
    /// The commit at which the work begins: the results that were accepted so far, and what was done of this task.
    pub head: String,
    /// A commit that is to be merged in first, where it conflicts; else empty.
    pub merge: String,
    /// What `head` has beyond the results that are kept of the plan, as a pack of git.
    pub pack: Vec<u8>,
    /// It ends its session: only a relay that knows the session gets it, and nothing is reported on it.
    pub ends: bool,
}

/// What became of an offered command.
#[derive(Clone, Debug)]
pub struct RelayedCommand {
    /// A relay has it now, with the work laid out, and was heard of lately.
    pub held: bool,
    /// What that relay says of the work, as JSON; a stranger's text.
    pub life: String,
    /// Why the last relay gave it back, if it could not work on it; a stranger's text.
    pub refused: String,
    pub report: Option<RelayedReport>,
}

/// What a relay reported. All of it is data of a stranger.
#[derive(Clone, Debug)]
pub struct RelayedReport {
    /// The report's file as it is.
    pub bytes: Vec<u8>,
    /// The commit at which the work began, by the daemon that offered the command.
    pub head: String,
    /// The commit with the work; empty if nothing was to be committed.
    pub commit: String,
    /// Why the relay could not commit the work, if it could not.
    pub refused: String,
    /// What the commit has beyond the one at which the work began.
    pub pack: Vec<u8>,
}

/// A relay that said something of itself.
#[derive(Clone, Debug)]
pub struct KnownRelay {
    pub name: String,
    pub about: AboutRelay,
    /// How long nothing was heard of it, by the clock of the database.
    pub silent: Duration,
    /// The commands that it has.
    pub holds: Vec<CommandId>,
}

impl Store {
    /// Returns the relays that have said something of themselves in the last days, by their names.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn relays(&self) -> Result<Vec<KnownRelay>> {
        match self.shared {
            true => self.ask(Tables::relays).await,
            false => Ok(Vec::new()),
        }
    }

    /// Offers a command to the relays, once: to offer it again changes nothing. `holder` is the daemon that carries the plan out;
    /// a command that ends a session may be offered after that.
    ///
    /// # Errors
    /// Another daemon holds the plan; a failure of the database.
    pub async fn offer(&self, holder: &str, command: OfferedCommand) -> Result<()> {
        let (plan, holder) = (command.plan.clone(), holder.to_owned());
        let offer = move |tables: &mut Tables| tables.offer(&holder, &command);
        match self.ask(|tables| tables.transaction(offer)).await? {
            true => Ok(()),
            false => Err(StoreError::NotHeld(plan)),
        }
    }

    /// Returns what became of an offered command; `None` if there is no such offer.
    ///
    /// # Errors
    /// A failure of the database, or a report that cannot be read.
    pub async fn relayed(&self, id: &CommandId) -> Result<Option<RelayedCommand>> {
        let id = id.clone();
        self.ask(move |tables| tables.relayed(&id)).await
    }

    /// Returns the pack with what the commit at which the work on a command began has beyond the results that are kept.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn offered_pack(&self, id: &CommandId) -> Result<Vec<u8>> {
        let id = id.clone();
        self.ask(move |tables| tables.parts(id.as_str(), 0)).await
    }

    /// Takes an offered command back: a relay that works on it ends the work. What it reported is forgotten. Nothing happens where
    /// another daemon than `holder` has taken the plan over: it may go on with the command.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn take_back(&self, holder: &str, id: &CommandId) -> Result<()> {
        let (id, holder) = (id.clone(), holder.to_owned());
        let take = move |tables: &mut Tables| tables.take_back(&holder, &id);
        self.ask(|tables| tables.transaction(take)).await
    }

    /// Returns the commands that are offered of the plans which the daemons of a folder carried out last.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn offered_by(&self, home: &str) -> Result<Vec<CommandId>> {
        let holders = format!("{home} #");
        self.ask(move |tables| tables.offered_by(&holders)).await
    }

    /// Returns the commands of a plan that are offered, with their roles; an empty one stands for none.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn offered(&self, plan: &PlanId) -> Result<Vec<(CommandId, String)>> {
        let plan = plan.clone();
        self.ask(move |tables| tables.offered(&plan)).await
    }
}

impl Tables {
    /// Within a transaction. Returns whether the holder holds the plan.
    fn offer(&mut self, holder: &str, command: &OfferedCommand) -> Answer<bool> {
        let (now, id) = (self.database.now(), command.id.as_str());
        // The plan's row is locked: whoever takes the lease over waits until this has ended.
        let held = format!(
            "UPDATE plans SET seq = seq WHERE id = $1 AND holder = $2 AND held_until > {now}"
        );
        let (plan, project) = (command.plan.as_str(), &command.project);
        // The plan may have ended with its session, and its lease with it.
        if self.database.execute(&held, &[&plan, &holder])? == 0 && !command.ends {
            return Ok(false);
        }
        let add = format!(
            "INSERT INTO relayed (id, plan, project, role, session, body, base, head, merge, ends, offered) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, {now}) ON CONFLICT (id) DO NOTHING"
        );
        let added = self.database.execute(
            &add,
            &[
                &id,
                &plan,
                project,
                &command.role,
                &command.session,
                &command.text,
                &command.base,
                &command.head,
                &command.merge,
                &i64::from(command.ends),
            ],
        )?;
        if added == 0 {
            return Ok(true);
        }
        for (part, bytes) in (0_i64..).zip(command.pack.chunks(PART)) {
            let add =
                "INSERT INTO relayed_parts (command, claim, part, body) VALUES ($1, 0, $2, $3)";
            self.database
                .execute(add, &[&id, &part, &BASE64.encode(bytes)])?;
        }
        let ring = "SELECT CAST(pg_notify('plan_agent', $1) AS TEXT)";
        self.database.query(ring, &[&id]).map(|_| true)
    }

    fn relayed(&mut self, id: &CommandId) -> Answer<Option<RelayedCommand>> {
        let (now, id) = (self.database.now(), id.as_str());
        let look = format!(
            "SELECT claim, CAST(CAST(held_until > {now} AND life <> '' AS INTEGER) AS BIGINT), life, reported, report, result, refused, head \
             FROM relayed WHERE id = $1"
        );
        let Some(mut row) = self.database.query(&look, &[&id])?.into_iter().next() else {
            return Ok(None);
        };
        let (claim, refused) = (row.number(0)?, row.text(6)?);
        let mut report = None;
        if row.number(3)? == 1 {
            report = Some(RelayedReport {
                bytes: BASE64.decode(row.text(4)?).unwrap_or_default(),
                head: row.text(7)?,
                commit: row.text(5)?,
                refused: refused.clone(),
                pack: self.parts(id, claim)?,
            });
        }
        Ok(Some(RelayedCommand {
            held: row.number(1)? == 1,
            life: row.text(2)?,
            refused,
            report,
        }))
    }

    /// Returns the pack with the work of a claim; 0 stands for the work before the first one.
    fn parts(&mut self, id: &str, claim: i64) -> Answer<Vec<u8>> {
        let mut pack = Vec::new();
        let parts =
            "SELECT body FROM relayed_parts WHERE command = $1 AND claim = $2 ORDER BY part";
        let values: [&dyn Param; 2] = [&id, &claim];
        let rows = (self.database).at_length(|database| database.query(parts, &values));
        for mut part in rows? {
            // A part that cannot be read makes the pack one that git refuses.
            pack.extend(BASE64.decode(part.text(0)?).unwrap_or_default());
        }
        Ok(pack)
    }

    fn relays(&mut self) -> Answer<Vec<KnownRelay>> {
        let now = self.database.now();
        // Those of logins that were dropped are gone.
        let known = format!(
            "SELECT name, about, {now} - seen FROM relays \
             WHERE EXISTS (SELECT 1 FROM pg_roles WHERE rolname = regexp_replace(name, '/[^/]*$', '')) ORDER BY name"
        );
        let held = format!("SELECT relay, id FROM relayed WHERE held_until > {now} ORDER BY id");
        let mut holds: HashMap<String, Vec<CommandId>> = HashMap::new();
        for mut row in self.database.query(&held, &[])? {
            let (relay, id) = (row.text(0)?, CommandId::new(row.text(1)?));
            holds.entry(relay).or_default().push(id);
        }
        let relay = |mut row: Record| {
            let (name, silent) = (row.text(0)?, row.number(2)?);
            Ok(KnownRelay {
                about: serde_json::from_str(&row.text(1)?).unwrap_or_default(),
                silent: Duration::from_micros(u64::try_from(silent).unwrap_or(0)),
                holds: holds.remove(&name).unwrap_or_default(),
                name,
            })
        };
        self.database.rows(&known, &[], relay)
    }

    /// Within a transaction.
    fn take_back(&mut self, holder: &str, id: &CommandId) -> Answer<()> {
        let id = id.as_str();
        let command = "DELETE FROM relayed WHERE id = $1 \
            AND plan IN (SELECT plans.id FROM plans WHERE plans.holder = $2)";
        if self.database.execute(command, &[&id, &holder])? > 0 {
            let parts = "DELETE FROM relayed_parts WHERE command = $1";
            self.database.execute(parts, &[&id])?;
        }
        Ok(())
    }

    /// `holders` is how the names of the daemons begin.
    fn offered_by(&mut self, holders: &str) -> Answer<Vec<CommandId>> {
        let offered = "SELECT relayed.id FROM relayed JOIN plans ON plans.id = relayed.plan \
            WHERE relayed.ends = 0 AND substr(plans.holder, 1, length($1)) = $1 ORDER BY relayed.id";
        let id = |mut row: Record| row.text(0).map(CommandId::new);
        self.database.rows(offered, &[&holders], id)
    }

    fn offered(&mut self, plan: &PlanId) -> Answer<Vec<(CommandId, String)>> {
        let offered = "SELECT id, role FROM relayed WHERE plan = $1 AND ends = 0 ORDER BY id";
        self.database.rows(offered, &[&plan.as_str()], |mut row| {
            Ok((CommandId::new(row.text(0)?), row.text(1)?))
        })
    }
}
