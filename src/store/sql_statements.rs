//! Every SQL statement. TEXT and BIGINT columns only, so that SQLite and PostgreSQL run the same text. This file has
//! no plan logic: it reads and writes rows as JSON, packed by [`super::text_store`].

use std::collections::{BTreeSet, HashMap};

use super::PUT_BACK;
use super::database_drivers::{
    Database, DatabaseError, DatabasePlace, LENGTH, Param, Record, Result,
};
use super::lease::SPAN;
use super::text_store::{NoText, Texts, names, names_others, pack, unpack};
use crate::plan::{ArchiveState, CommandId, PlanHead, PlanId, RowKey, Spent};

/// The version of the tables that this program writes. A database with a higher one is refused.
const FORMAT: i64 = 8;

/// The oldest version that is brought to this one: those before it were never in use outside of this project.
const OLDEST: i64 = 4;

/// The first version whose tables say which daemon carries a plan out.
const LEASES: i64 = 6;

/// How long a lease is good for, in microseconds.
const LEASE: i64 = SPAN.as_micros() as i64;

/// Texts that one statement asks for, and rows that are packed at once.
const AT_ONCE: usize = 32;

/// The statements that make the tables of the oldest version, and one list for each later one, which leads from the version
/// before.
const MIGRATIONS: [&[&str]; (FORMAT - OLDEST + 1) as usize] = [
    &[
        // With the fields by which plans are looked up, copied from their heads; a deleted plan has no key: plans without one do
        // not conflict. `folded` is the last change whose rows are written; later rows are only in the log.
        "CREATE TABLE plans (id TEXT PRIMARY KEY, seq BIGINT NOT NULL, created_at BIGINT NOT NULL, key TEXT, \
     owner TEXT NOT NULL DEFAULT 'daemon', shelf TEXT NOT NULL DEFAULT 'current', kept BIGINT NOT NULL DEFAULT 0, \
     taken_up BIGINT NOT NULL DEFAULT 0, folded BIGINT NOT NULL DEFAULT 0)",
        "CREATE UNIQUE INDEX plans_key ON plans (key)",
        "CREATE INDEX plans_owner ON plans (owner, shelf, taken_up)",
        "CREATE INDEX plans_kept ON plans (owner, kept, created_at)",
        "CREATE TABLE plan_rows (plan TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL, \
     PRIMARY KEY (plan, kind, id))",
        "CREATE TABLE log (plan TEXT NOT NULL, seq BIGINT NOT NULL, change_id TEXT NOT NULL, at BIGINT NOT NULL, \
     author TEXT NOT NULL, why TEXT NOT NULL, delta TEXT NOT NULL, PRIMARY KEY (plan, seq))",
        // Long values of rows and log entries, by their hashes.
        "CREATE TABLE texts (hash TEXT PRIMARY KEY, text TEXT NOT NULL)",
    ],
    // Plans that a daemon of the folder is to carry out: asked for after every change of another process.
    &[
        "ALTER TABLE plans ADD COLUMN queued BIGINT NOT NULL DEFAULT 0",
        "CREATE INDEX plans_queued ON plans (queued)",
        // The numbers of a plan and the change after which they were so; and what plans used, by quarters of an hour.
        "ALTER TABLE plans ADD COLUMN tally TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE plans ADD COLUMN tallied BIGINT NOT NULL DEFAULT 0",
        "CREATE TABLE spent (quarter BIGINT PRIMARY KEY, llm_calls BIGINT NOT NULL, llm_tokens BIGINT NOT NULL, \
     micro_usd BIGINT NOT NULL)",
    ],
    // Which daemon carries a plan out, where several share the database.
    &[
        "ALTER TABLE plans ADD COLUMN holder TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE plans ADD COLUMN epoch BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE plans ADD COLUMN held_until BIGINT NOT NULL DEFAULT 0",
        // Commits of results, in parts, for daemons on other machines.
        "CREATE TABLE work (plan TEXT NOT NULL, place BIGINT NOT NULL, part BIGINT NOT NULL, commit_id TEXT NOT NULL, \
     body TEXT NOT NULL, PRIMARY KEY (plan, place, part))",
    ],
    // What is given to relays on other machines, in parts where it is large; the relays, and what their logins may do.
    &[
        "CREATE TABLE relayed (id TEXT PRIMARY KEY, plan TEXT NOT NULL, project TEXT NOT NULL, role TEXT NOT NULL, \
     session TEXT NOT NULL, body TEXT NOT NULL, base TEXT NOT NULL, head TEXT NOT NULL, merge TEXT NOT NULL, \
     offered BIGINT NOT NULL, claim BIGINT NOT NULL DEFAULT 0, relay TEXT NOT NULL DEFAULT '', \
     held_until BIGINT NOT NULL DEFAULT 0, life TEXT NOT NULL DEFAULT '', reported BIGINT NOT NULL DEFAULT 0, \
     report TEXT NOT NULL DEFAULT '', result TEXT NOT NULL DEFAULT '', refused TEXT NOT NULL DEFAULT '')",
        "CREATE TABLE relayed_parts (command TEXT NOT NULL, claim BIGINT NOT NULL, part BIGINT NOT NULL, \
     body TEXT NOT NULL, PRIMARY KEY (command, claim, part))",
        "CREATE TABLE relays (name TEXT PRIMARY KEY, about TEXT NOT NULL, seen BIGINT NOT NULL)",
        "CREATE TABLE relay_rights (login TEXT NOT NULL, role TEXT NOT NULL, PRIMARY KEY (login, role))",
    ],
    // Commands that end a session, for the relay that knows it alone.
    &["ALTER TABLE relayed ADD COLUMN ends BIGINT NOT NULL DEFAULT 0"],
];

/// Selects all plans for [`Tables::heads`], newest plan first.
pub(super) const ALL: &str = "ORDER BY plans.created_at DESC, plans.id DESC";

/// The plans that an owner has in use, oldest plan first.
pub(super) const IN_USE: &str =
    "AND plans.owner = $1 AND plans.shelf = 'current' ORDER BY plans.created_at, plans.id";

/// The plans that a daemon of the folder is to carry out, oldest plan first.
pub(super) const QUEUED: &str = "AND plans.queued = 1 ORDER BY plans.created_at, plans.id";

/// Some of the plans that an owner has archived, newest plan first.
pub(super) const ARCHIVED: &str = "AND plans.owner = $1 AND plans.kept = 1 \
    ORDER BY plans.created_at DESC, plans.id DESC LIMIT $2 OFFSET $3";

/// The fields by which a plan is looked up: copied from its head, and written whenever they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lookup {
    /// `None` if the plan was deleted: its key is free again.
    pub key: Option<String>,
    owner: String,
    shelf: &'static str,
    kept: i64,
    taken_up: i64,
    queued: i64,
}

impl Lookup {
    pub(super) fn of(head: &PlanHead) -> Self {
        let there = head.archive_state != ArchiveState::Deleted;
        let history = head.archive_state == ArchiveState::History;
        Self {
            key: there.then(|| head.key().to_owned()),
            owner: head.owner.clone(),
            shelf: head.archive_state.as_str(),
            kept: i64::from(there && (head.put_away.is_some() || history)),
            taken_up: head.taken_up.unwrap_or(head.created_at).0,
            queued: i64::from(there && head.queue.is_some() && !head.status.settled()),
        }
    }

    fn values(&self) -> Vec<&dyn Param> {
        let (key, owner, shelf) = (&self.key, &self.owner, &self.shelf);
        vec![key, owner, shelf, &self.kept, &self.taken_up, &self.queued]
    }
}

/// The id of a plan, its seq and the packed body of its head.
pub(super) type HeadRecord = (String, i64, String);

/// A log entry to be written or as read. Its delta is packed.
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

/// The tables of a store and the one connection of a process to them.
pub(super) struct Tables {
    pub(super) database: Database,
}

impl Tables {
    /// Connects, sets the connection up and brings the tables to this program's format.
    pub(super) fn open(place: &DatabasePlace) -> Result<Self> {
        match Self::connect(place) {
            // SQLite could not make its own files beside the database: it can still be read.
            Err(error)
                if error.is_unopened()
                    && let DatabasePlace::File(path) = place =>
            {
                let alone = Self::connect(&DatabasePlace::ReadOnly(path.clone()));
                alone.map_err(|_| error)
            }
            tables => tables,
        }
    }

    pub(super) fn of(database: Database) -> Self {
        Self { database }
    }

    fn connect(place: &DatabasePlace) -> Result<Self> {
        let mut tables = Self::of(Database::connect(place)?);
        let known = match place.is_shared() {
            true => tables.check_format()?,
            false => tables.known_format()?,
        };
        tables.set_up(known)?;
        Ok(tables)
    }

    /// Returns the format of tables that are not migrated by themselves: other machines may have an older version of this
    /// program, which could not go on then.
    pub(super) fn check_format(&mut self) -> Result<i64> {
        match self.known_format()? {
            known @ (0 | FORMAT) => Ok(known),
            known => Err(DatabaseError::NotMigrated(known, FORMAT)),
        }
    }

    /// Brings the tables of a database to this format, and returns the format before, which is 0 if there were none, and this one.
    pub(super) fn migrate_at(place: &DatabasePlace) -> Result<(i64, i64)> {
        let mut tables = Self::of(Database::connect(place)?);
        tables.database.limit(LENGTH);
        let known = tables.known_format()?;
        tables.set_up(known)?;
        if known == FORMAT {
            // Those of an earlier program may do less.
            tables.transaction(|tables| {
                // Two that replace a function at once would fail.
                tables.database.lock_schema()?;
                tables.database.make_functions()
            })?;
        }
        tables.database.note_identity()?;
        Ok((known, FORMAT))
    }

    /// Sets the connection up, and brings tables of a known format to this one.
    fn set_up(&mut self, known: i64) -> Result<()> {
        self.database.set_up()?;
        if known == FORMAT {
            return Ok(());
        }
        if let Err(error) = self.transaction(Self::migrate) {
            // Another process that did the same was faster, or the migration is impossible.
            return match (self.known_format()?, known) {
                (FORMAT.., _) => Ok(()),
                (_, 0) => Err(error),
                _ => Err(DatabaseError::Older(known, FORMAT, Box::new(error))),
            };
        }
        self.database.note_identity()
    }

    fn migrate(&mut self) -> Result<()> {
        self.database.lock_schema()?;
        let meta = "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BIGINT NOT NULL)";
        self.run(meta, &[])?;
        let known = self.format()?;
        if self.database.remote() && (LEASES..FORMAT).contains(&known) {
            self.require_no_holder()?;
        }
        let done = usize::try_from(known - OLDEST + 1).unwrap_or(0);
        for statements in MIGRATIONS.iter().skip(done) {
            for statement in *statements {
                self.run(statement, &[])?;
            }
        }
        self.database.make_functions()?;
        self.run(
            "INSERT INTO meta (name, value) VALUES ('format', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            &[&FORMAT],
        )
    }

    /// Fails while a daemon carries a plan out, which cannot go on with tables of another version. Later it is refused by
    /// [`Tables::lock_plan`] and [`Tables::take_lease`].
    fn require_no_holder(&mut self) -> Result<()> {
        let held = self.held_plans()?;
        held.first().map_or(Ok(()), |(plan, holder)| {
            let why = format!("{holder} carries out the plan {plan} in it");
            let way_out = "stop the daemons on it (`plan-agent stop`, or Ctrl-C), then type this again; one that was killed counts as \
                           stopped after 15 seconds";
            Err(DatabaseError::Unfit(why, way_out))
        })
    }

    /// Writes the texts that the table does not have yet, and returns how many bytes these have.
    pub(super) fn write_texts(&mut self, texts: &Texts) -> Result<usize> {
        let mut bytes = 0;
        for (hash, text) in texts {
            let added = self.database.execute(
                "INSERT INTO texts (hash, text) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                &[hash, text],
            )?;
            if added > 0 {
                bytes += text.len();
            }
        }
        Ok(bytes)
    }

    /// Returns JSON with its long values again, or the text that is missing.
    pub(super) fn unpack(
        &mut self,
        packed: &[String],
    ) -> Result<Vec<std::result::Result<String, NoText>>> {
        let mut known = HashMap::new();
        let mut wanted = named(packed.iter(), &known);
        // Texts may name others.
        while !wanted.is_empty() {
            let found = self.texts(&wanted)?;
            wanted = named(found.values().filter(|text| names_others(text)), &known);
            known.extend(found);
            wanted.retain(|hash| !known.contains_key(hash));
        }
        Ok(packed.iter().map(|packed| unpack(packed, &known)).collect())
    }

    fn texts(&mut self, hashes: &[String]) -> Result<HashMap<String, String>> {
        let places: Vec<_> = (1..=AT_ONCE).map(|number| format!("${number}")).collect();
        let places = places.join(", ");
        let statement = format!("SELECT hash, text FROM texts WHERE hash IN ({places})");
        let mut found = HashMap::new();
        for hashes in hashes.chunks(AT_ONCE) {
            let values: Vec<_> = (0..AT_ONCE).map(|at| hashes.get(at)).collect();
            let values: Vec<_> = values.iter().map(|hash| hash as &dyn Param).collect();
            for mut row in self.database.query(&statement, &values)? {
                found.insert(row.text(0)?, row.text(1)?);
            }
        }
        Ok(found)
    }

    /// Looks whether every page of the file can be read, and whether this version knows its tables.
    pub(super) fn check_file(&mut self) -> Result<()> {
        self.known_format()?;
        match self.strings("PRAGMA quick_check(1)", &[])?.pop() {
            Some(wrong) if wrong != "ok" => Err(DatabaseError::Unfit(
                format!("it is damaged: {wrong}"),
                PUT_BACK,
            )),
            _ => Ok(()),
        }
    }

    /// Returns the format of the tables, 0 if none exist; fails if a newer version or another program wrote them.
    fn known_format(&mut self) -> Result<i64> {
        // First: another process may make the tables meanwhile. A server may have tables of others.
        let used = !self.database.remote()
            && self.number("SELECT count(*) FROM sqlite_schema", &[])? != Some(0);
        let known = match self.format() {
            Err(error) if error.is_no_table() => 0,
            known => known?,
        };
        match known {
            0 if used => Err(DatabaseError::Foreign),
            0 | OLDEST..=FORMAT => Ok(known),
            ..OLDEST => Err(DatabaseError::Unfit(
                format!("it was written by a version before any release (format {known})"),
                "name another folder in config.toml, [volumes] root, or another database",
            )),
            _ => Err(DatabaseError::Newer(known, FORMAT)),
        }
    }

    fn format(&mut self) -> Result<i64> {
        let format = self.number("SELECT value FROM meta WHERE name = 'format'", &[])?;
        Ok(format.unwrap_or(0))
    }

    fn run(&mut self, statement: &str, values: &[&dyn Param]) -> Result<()> {
        self.database.execute(statement, values).map(drop)
    }

    fn number(&mut self, statement: &str, values: &[&dyn Param]) -> Result<Option<i64>> {
        self.database.number(statement, values)
    }

    /// Returns the text that is the first column of each row.
    fn strings(&mut self, statement: &str, values: &[&dyn Param]) -> Result<Vec<String>> {
        self.database.rows(statement, values, |mut row| row.text(0))
    }

    fn ids(&mut self, statement: &str, values: &[&dyn Param]) -> Result<Vec<PlanId>> {
        let ids = self.strings(statement, values)?;
        Ok(ids.into_iter().map(PlanId::new).collect())
    }

    /// Returns the packed heads of the plans that a condition selects, in its order.
    pub(super) fn heads(&mut self, which: &str, values: &[&dyn Param]) -> Result<Vec<HeadRecord>> {
        // SQLite takes the tables of a CROSS JOIN in this order; of its own accord it reads the rows of all plans for the heads.
        let statement = format!(
            "SELECT plans.id, plans.seq, plan_rows.body FROM plans CROSS JOIN plan_rows \
             WHERE plan_rows.plan = plans.id AND plan_rows.kind = 'head' {which}"
        );
        self.database.rows(&statement, values, |mut row| {
            Ok((row.text(0)?, row.number(1)?, row.text(2)?))
        })
    }

    /// Does some work in a transaction: all of it or, after an error, nothing.
    pub(super) fn transaction<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.database.begin()?;
        let done = work(self).and_then(|done| self.commit().map(|()| done));
        done.inspect_err(|_| self.roll_back())
    }

    /// Commits the transaction. After an error it may still be open, and the caller does not know whether it took
    /// effect: [`Tables::has_change`] shows it.
    pub(super) fn commit(&mut self) -> Result<()> {
        self.run("COMMIT", &[])
    }

    /// Rolls the transaction back. A failure needs no handling: the database does the same by itself when the
    /// connection ends.
    pub(super) fn roll_back(&mut self) {
        if let Err(error) = self.run("ROLLBACK", &[]) {
            tracing::debug!(%error, "nothing to roll back");
        }
    }

    /// Sets the last change of a plan, with its numbers after it.
    pub(super) fn set_seq(&mut self, plan: &PlanId, seq: i64, tally: &str) -> Result<()> {
        let statement = "UPDATE plans SET seq = $1, tallied = $2, tally = $3 WHERE id = $4";
        self.run(statement, &[&seq, &seq, &tally, &plan.as_str()])
    }

    /// Sets the numbers of a plan that has not changed since.
    pub(super) fn set_tally(&mut self, plan: &PlanId, seq: i64, tally: &str) -> Result<()> {
        let statement = "UPDATE plans SET tallied = $1, tally = $2 WHERE id = $3 AND seq = $4";
        self.run(statement, &[&seq, &tally, &plan.as_str(), &seq])
    }

    /// Returns the numbers of each plan, with the change after which they were so.
    pub(super) fn tallies(&mut self) -> Result<HashMap<String, (i64, String)>> {
        let tallies = "SELECT id, tallied, tally FROM plans";
        self.database.rows(tallies, &[], |mut row| {
            Ok((row.text(0)?, (row.number(1)?, row.text(2)?)))
        })
    }

    /// Returns the numbers of the plans of an owner whose tasks hold locks.
    pub(super) fn tallies_with_locks(&mut self, owner: &str) -> Result<Vec<(String, String)>> {
        self.database.rows(
            "SELECT id, tally FROM plans WHERE owner = $1 AND tallied = seq AND tally LIKE '%\"held\"%'",
            &[&owner],
            two_texts,
        )
    }

    /// Adds to what plans used in the quarter of an hour that began at a time.
    pub(super) fn add_spent(&mut self, quarter: i64, spent: &Spent) -> Result<()> {
        let [calls, tokens, cost] = [spent.llm_calls, spent.llm_tokens, spent.micro_usd]
            .map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        self.run(
            "INSERT INTO spent (quarter, llm_calls, llm_tokens, micro_usd) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (quarter) DO UPDATE SET llm_calls = spent.llm_calls + excluded.llm_calls, \
             llm_tokens = spent.llm_tokens + excluded.llm_tokens, micro_usd = spent.micro_usd + excluded.micro_usd",
            &[&quarter, &calls, &tokens, &cost],
        )
    }

    /// Returns what plans used in the quarters that began since a time.
    pub(super) fn spent_since(&mut self, since: i64) -> Result<Spent> {
        let rows = self.database.query(
            "SELECT llm_calls, llm_tokens, micro_usd FROM spent WHERE quarter >= $1",
            &[&since],
        )?;
        let mut sum = Spent::default();
        for row in rows {
            let number = |column| Ok::<_, DatabaseError>(row.number(column)?.max(0).unsigned_abs());
            sum.llm_calls = sum.llm_calls.saturating_add(number(0)?);
            sum.llm_tokens = sum.llm_tokens.saturating_add(number(1)?);
            sum.micro_usd = sum.micro_usd.saturating_add(number(2)?);
        }
        Ok(sum)
    }

    /// Writes a packed row in place of the one with the same key.
    pub(super) fn write_row(&mut self, plan: &PlanId, key: &RowKey, body: &str) -> Result<()> {
        let (kind, id) = key.parts();
        self.run(
            "INSERT INTO plan_rows (plan, kind, id, body) VALUES ($1, $2, $3, $4) ON CONFLICT (plan, kind, id) \
             DO UPDATE SET body = excluded.body",
            &[&plan.as_str(), &kind, &id, &body],
        )
    }

    pub(super) fn write_log(&mut self, entry: &LogRecord) -> Result<()> {
        self.run(
            "INSERT INTO log (plan, seq, change_id, at, author, why, delta) VALUES ($1, $2, $3, $4, $5, $6, $7)",
            &[
                &entry.plan, &entry.seq, &entry.change_id, &entry.at,
                &entry.author, &entry.why, &entry.delta,
            ],
        )
    }

    /// Returns the plan's seq and locks the plan for other writers until the transaction ends. Fails if another version has
    /// migrated the server's tables since they were opened.
    pub(super) fn lock_plan(&mut self, plan: &PlanId) -> Result<Option<i64>> {
        if !self.database.remote() {
            // The transaction already has the only write lock.
            return self.seq(plan);
        }
        self.update_plan("seq = seq WHERE id = $1", "seq", &[&plan.as_str()])
    }

    /// As [`Tables::lock_plan`], if the plan's lease is of this epoch.
    pub(super) fn lock_leased(&mut self, plan: &PlanId, epoch: i64) -> Result<Option<i64>> {
        let leased = "seq = seq WHERE id = $1 AND epoch = $2";
        self.update_plan(leased, "seq", &[&plan.as_str(), &epoch])
    }

    /// Updates a plan if the tables have the format of this program, and returns one of its columns.
    fn update_plan(
        &mut self,
        update: &str,
        column: &str,
        values: &[&dyn Param],
    ) -> Result<Option<i64>> {
        // Within the statement, as another one would be a round trip more for every change.
        let same = format!("(SELECT value FROM meta WHERE name = 'format') = {FORMAT}");
        let statement = format!("UPDATE plans SET {update} AND {same} RETURNING {column}");
        let updated = self.number(&statement, values)?;
        if updated.is_none() {
            self.check_format()?;
        }
        Ok(updated)
    }

    /// Takes a plan's lease, which has ended or is that of the holder `from`, and returns its epoch; else its holder, if there is such
    /// a plan.
    pub(super) fn take_lease(
        &mut self,
        plan: &PlanId,
        holder: &str,
        from: &str,
    ) -> Result<std::result::Result<i64, Option<String>>> {
        let (now, id) = (self.database.now(), plan.as_str());
        let taken = format!(
            "holder = $1, epoch = epoch + 1, held_until = {now} + $2 \
             WHERE id = $3 AND (held_until < {now} OR holder = $4)"
        );
        let values: [&dyn Param; 4] = [&holder, &LEASE, &id, &from];
        if let Some(epoch) = self.update_plan(&taken, "epoch", &values)? {
            return Ok(Ok(epoch));
        }
        let holder = self.strings("SELECT holder FROM plans WHERE id = $1", &[&id])?;
        Ok(Err(holder.into_iter().next()))
    }

    /// Renews a plan's lease. Returns whether it is still of this epoch.
    pub(super) fn renew_lease(&mut self, plan: &PlanId, epoch: i64) -> Result<bool> {
        let now = self.database.now();
        let renewed = format!("held_until = {now} + $1 WHERE id = $2 AND epoch = $3");
        let values: [&dyn Param; 3] = [&LEASE, &plan.as_str(), &epoch];
        let seq = self.update_plan(&renewed, "seq", &values)?;
        Ok(seq.is_some())
    }

    /// Returns the plans whose lease is held, with the holders.
    pub(super) fn held_plans(&mut self) -> Result<Vec<(String, String)>> {
        let now = self.database.now();
        let held = format!("SELECT id, holder FROM plans WHERE held_until > {now}");
        self.database.rows(&held, &[], two_texts)
    }

    /// Ends a plan's lease, if it is still of this epoch. A plan whose last daemon is `gone` has one of the past, and others may take
    /// it over; else it has none.
    pub(super) fn end_lease(&mut self, plan: &PlanId, epoch: i64, gone: bool) -> Result<()> {
        let (none, past) = (0_i64, 1_i64);
        let until = if gone { past } else { none };
        let statement = "UPDATE plans SET held_until = $1 WHERE id = $2 AND epoch = $3";
        self.run(statement, &[&until, &plan.as_str(), &epoch])
    }

    pub(super) fn seq(&mut self, plan: &PlanId) -> Result<Option<i64>> {
        self.number("SELECT seq FROM plans WHERE id = $1", &[&plan.as_str()])
    }

    /// Inserts a plan; `false` if the id or the key is used already.
    pub(super) fn add_plan(
        &mut self,
        plan: &PlanId,
        created_at: i64,
        lookup: &Lookup,
    ) -> Result<bool> {
        let id = plan.as_str();
        let values = [lookup.values(), vec![&id, &created_at]].concat();
        let added = self.database.execute(
            "INSERT INTO plans (key, owner, shelf, kept, taken_up, queued, id, seq, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8) ON CONFLICT DO NOTHING",
            &values,
        )?;
        Ok(added == 1)
    }

    /// Sets the lookup fields of a plan; fails if the key belongs to another plan.
    pub(super) fn set_lookup(&mut self, plan: &PlanId, lookup: &Lookup) -> Result<()> {
        let id = plan.as_str();
        self.run(
            "UPDATE plans SET key = $1, owner = $2, shelf = $3, kept = $4, taken_up = $5, queued = $6 WHERE id = $7",
            &[lookup.values(), vec![&id]].concat(),
        )
    }

    /// Returns the plan with a key.
    pub(super) fn find(&mut self, key: &str) -> Result<Option<PlanId>> {
        let found = self.ids("SELECT id FROM plans WHERE key = $1", &[&key])?;
        Ok(found.into_iter().next())
    }

    /// Returns the plans that an owner has in use, the one that became current last first.
    pub(super) fn current(&mut self, owner: &str, limit: i64) -> Result<Vec<PlanId>> {
        self.ids(
            "SELECT id FROM plans WHERE owner = $1 AND shelf = 'current' \
             ORDER BY taken_up DESC, created_at DESC, id DESC LIMIT $2",
            &[&owner, &limit],
        )
    }

    /// Removes the plan that [`Tables::add_plan`] inserted in the same transaction.
    pub(super) fn remove_plan(&mut self, plan: &PlanId) -> Result<()> {
        let statement = "DELETE FROM plans WHERE id = $1 AND seq = 0";
        self.run(statement, &[&plan.as_str()])
    }

    /// Selects the plans whose lease has ended without being given back, for [`Tables::heads`], oldest plan first.
    pub(super) fn with_past_lease(&self) -> String {
        let past = format!("plans.held_until < {}", self.database.now());
        format!("AND plans.held_until > 0 AND {past} ORDER BY plans.created_at, plans.id")
    }

    /// Keeps the parts of a pack behind those that are kept of the plan, unless those of this commit are.
    pub(super) fn keep_work(
        &mut self,
        plan: &PlanId,
        commit: &str,
        parts: &[String],
    ) -> Result<()> {
        self.transaction(|tables| {
            tables.lock_plan(plan)?;
            let known = "SELECT COUNT(*) FROM work WHERE plan = $1 AND commit_id = $2";
            if tables.number(known, &[&plan.as_str(), &commit])? != Some(0) {
                return Ok(());
            }
            let last = "SELECT COALESCE(MAX(place), 0) FROM work WHERE plan = $1";
            let place = tables.number(last, &[&plan.as_str()])?.unwrap_or(0) + 1;
            for (part, body) in (0_i64..).zip(parts) {
                tables.run(
                    "INSERT INTO work (plan, place, part, commit_id, body) VALUES ($1, $2, $3, $4, $5)",
                    &[&plan.as_str(), &place, &part, &commit, body],
                )?;
            }
            Ok(())
        })
    }

    /// Returns the parts of the packs that are kept of a plan, in their order, each with its commit.
    pub(super) fn kept_work(&mut self, plan: &PlanId) -> Result<Vec<(String, String)>> {
        let kept = "SELECT commit_id, body FROM work WHERE plan = $1 ORDER BY place, part";
        self.database.rows(kept, &[&plan.as_str()], two_texts)
    }

    /// Returns how many plans an owner has archived.
    pub(super) fn archived(&mut self, owner: &str) -> Result<i64> {
        let statement = "SELECT COUNT(*) FROM plans WHERE owner = $1 AND kept = 1";
        Ok(self.number(statement, &[&owner])?.unwrap_or(0))
    }

    /// Returns the plans that may have an attempt with this id: one lookup in the primary key for each plan, and a
    /// search through the rows that are only in the log. It is one statement, so it misses nothing that another
    /// process moves from the log to the table in the meantime.
    pub(super) fn plans_of(&mut self, command: &CommandId) -> Result<Vec<PlanId>> {
        self.ids(
            "SELECT plans.id FROM plans JOIN plan_rows ON plan_rows.plan = plans.id \
             AND plan_rows.kind = 'attempt' AND plan_rows.id = $1 \
             UNION SELECT plans.id FROM plans JOIN log ON log.plan = plans.id AND log.seq > plans.folded \
             WHERE plans.folded < plans.seq AND log.delta LIKE $2 ESCAPE '!'",
            &[&command.as_str(), &like_attempt(command)],
        )
    }

    /// Returns the last change whose rows are written.
    pub(super) fn folded(&mut self, plan: &PlanId) -> Result<i64> {
        let folded = self.number("SELECT folded FROM plans WHERE id = $1", &[&plan.as_str()])?;
        Ok(folded.unwrap_or(0))
    }

    pub(super) fn set_folded(&mut self, plan: &PlanId, seq: i64) -> Result<()> {
        let statement = "UPDATE plans SET folded = $1 WHERE id = $2";
        self.run(statement, &[&seq, &plan.as_str()])
    }

    /// Returns plans whose rows are not all written, those with the most unwritten changes first.
    pub(super) fn unfolded(&mut self, limit: i64) -> Result<Vec<PlanId>> {
        self.ids(
            "SELECT id FROM plans WHERE folded < seq ORDER BY seq - folded DESC, id LIMIT $1",
            &[&limit],
        )
    }

    /// Returns the packed bodies of the plan's rows.
    pub(super) fn rows(&mut self, plan: &PlanId) -> Result<Vec<String>> {
        let rows = "SELECT body FROM plan_rows WHERE plan = $1";
        self.strings(rows, &[&plan.as_str()])
    }

    /// Returns when a change of a plan was made, without its contents.
    pub(super) fn changed_at(&mut self, plan: &PlanId, seq: i64) -> Result<Option<i64>> {
        let at = "SELECT at FROM log WHERE plan = $1 AND seq = $2";
        self.number(at, &[&plan.as_str(), &seq])
    }

    /// Returns the log of a plan after a seq, at most `limit` entries.
    pub(super) fn log_after(
        &mut self,
        plan: &PlanId,
        seq: i64,
        limit: i64,
    ) -> Result<Vec<LogRecord>> {
        let entry = |mut row: Record| {
            Ok(LogRecord {
                plan: row.text(0)?,
                seq: row.number(1)?,
                change_id: row.text(2)?,
                at: row.number(3)?,
                author: row.text(4)?,
                why: row.text(5)?,
                delta: row.text(6)?,
            })
        };
        self.database.rows(
            "SELECT plan, seq, change_id, at, author, why, delta FROM log WHERE plan = $1 AND seq > $2 ORDER BY seq LIMIT $3",
            &[&plan.as_str(), &seq, &limit],
            entry,
        )
    }

    /// Returns a number that is another one after every change of a plan.
    pub(super) fn changes(&mut self) -> Result<i64> {
        let sum = "SELECT CAST(COALESCE(SUM(seq), 0) AS BIGINT) FROM plans";
        Ok(self.number(sum, &[])?.unwrap_or(0))
    }

    /// Returns whether a change is in the log: this settles what a connection that broke during the commit left open. The
    /// server may still be at it: whoever has locked the plan ends first.
    pub(super) fn has_settled(&mut self, plan: &str, seq: i64, change_id: &str) -> Result<bool> {
        let remote = self.database.remote();
        if remote {
            self.database.begin()?;
            self.run("UPDATE plans SET seq = seq WHERE id = $1", &[&plan])?;
        }
        let logged = "SELECT seq FROM log WHERE plan = $1 AND seq = $2 AND change_id = $3";
        let found = self.number(logged, &[&plan, &seq, &change_id]);
        if remote {
            self.roll_back();
        }
        Ok(found?.is_some())
    }
}

fn two_texts(mut row: Record) -> Result<(String, String)> {
    Ok((row.text(0)?, row.text(1)?))
}

/// Returns a pattern for deltas that may contain an attempt with this id.
fn like_attempt(command: &CommandId) -> String {
    let id = serde_json::Value::from(command.as_str()).to_string();
    let id = pack(&id, &mut Texts::new());
    let escaped = id.replace('!', "!!").replace('%', "!%").replace('_', "!_");
    format!("%{escaped}%")
}

/// Returns the hashes that JSON names and that are not known yet, each once.
fn named<'a>(
    packed: impl Iterator<Item = &'a String>,
    known: &HashMap<String, String>,
) -> Vec<String> {
    let hashes = packed.flat_map(|json| names(json)).map(|(_, hash)| hash);
    let hashes: BTreeSet<_> = hashes.filter(|hash| !known.contains_key(*hash)).collect();
    hashes.into_iter().map(str::to_owned).collect()
}
