//! Every SQL statement. TEXT and BIGINT columns only, so that SQLite and PostgreSQL run the same text. This file has no plan
//! logic: it reads and writes rows as JSON.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::database::{Database, DatabaseError, DatabasePlace, Record, Result, Value};
use super::text_store::{NoText, Texts, names, names_others, pack, unpack};
use crate::plan::{
    ArchiveState, AskId, CommandId, Delta, Event, PlanHead, PlanId, QuestionId, Row, RowKey,
    SessionId, TaskId,
};

/// The version of the tables that this program writes. A database with a higher one is refused.
const FORMAT: i64 = 4;

/// The first format in which long values are texts of their own.
const PACKED: i64 = 4;

/// Texts that one statement asks for, and rows that are packed at once.
const AT_ONCE: usize = 32;

/// One list of statements for each version, each leading from the version before.
const MIGRATIONS: [&[&str]; FORMAT as usize] = [
    &[
        "CREATE TABLE plans (id TEXT PRIMARY KEY, seq BIGINT NOT NULL, created_at BIGINT NOT NULL)",
        "CREATE TABLE plan_rows (plan TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL, \
     PRIMARY KEY (plan, kind, id))",
        "CREATE TABLE log (plan TEXT NOT NULL, seq BIGINT NOT NULL, change_id TEXT NOT NULL, at BIGINT NOT NULL, \
     author TEXT NOT NULL, why TEXT NOT NULL, delta TEXT NOT NULL, PRIMARY KEY (plan, seq))",
    ],
    // The fields by which plans are looked up, copied from their heads. A deleted plan has no key: plans without one do not
    // conflict.
    &[
        "ALTER TABLE plans ADD COLUMN key TEXT",
        "ALTER TABLE plans ADD COLUMN owner TEXT NOT NULL DEFAULT 'daemon'",
        "ALTER TABLE plans ADD COLUMN shelf TEXT NOT NULL DEFAULT 'current'",
        "ALTER TABLE plans ADD COLUMN kept BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE plans ADD COLUMN taken_up BIGINT NOT NULL DEFAULT 0",
        "UPDATE plans SET key = id, taken_up = created_at",
        "CREATE UNIQUE INDEX plans_key ON plans (key)",
        "CREATE INDEX plans_owner ON plans (owner, shelf, taken_up)",
        "CREATE INDEX plans_kept ON plans (owner, kept, created_at)",
    ],
    // The last change whose rows are written; later rows are only in the log. Heads are always up to date.
    &[
        "ALTER TABLE plans ADD COLUMN folded BIGINT NOT NULL DEFAULT 0",
        "UPDATE plans SET folded = seq",
    ],
    // Long values of rows and log entries, by their hashes.
    &["CREATE TABLE texts (hash TEXT PRIMARY KEY, text TEXT NOT NULL)"],
];

/// The fields by which a plan is looked up: copied from its head, and written whenever they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lookup {
    /// `None` if the plan was deleted: its key is free again.
    pub key: Option<String>,
    owner: String,
    archive_state: ArchiveState,
    kept: bool,
    taken_up: i64,
}

impl Lookup {
    pub(super) fn of(head: &PlanHead) -> Self {
        let there = head.archive_state != ArchiveState::Deleted;
        Self {
            key: there.then(|| head.key().to_owned()),
            owner: head.owner.clone(),
            archive_state: head.archive_state,
            kept: there && (head.put_away.is_some() || head.archive_state == ArchiveState::History),
            taken_up: head.taken_up.unwrap_or(head.created_at).0,
        }
    }

    fn values(&self) -> [Value<'_>; 5] {
        [
            self.key.as_deref().map_or(Value::Null, Value::Text),
            Value::Text(&self.owner),
            Value::Text(self.archive_state.as_str()),
            Value::Number(self.kept.into()),
            Value::Number(self.taken_up),
        ]
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
    database: Database,
}

/// Why the tables cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error("it was written by a newer version (format {0}, this one knows {FORMAT})")]
    Newer(i64),
    #[error(
        "it was written by an older version, and cannot be brought from format {0} to {FORMAT}: {1}"
    )]
    Older(i64, DatabaseError),
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl Tables {
    /// Connects, sets the connection up and brings the tables to this program's format.
    pub(super) fn open(place: &DatabasePlace) -> std::result::Result<Self, OpenError> {
        match Self::connect(place) {
            // Beside a file that cannot be written none can be made.
            Err(OpenError::Database(error))
                if error.is_unopened()
                    && let DatabasePlace::File(path) = place =>
            {
                let alone = Self::connect(&DatabasePlace::ReadOnly(path.clone()));
                alone.map_err(|_| OpenError::Database(error))
            }
            tables => tables,
        }
    }

    fn connect(place: &DatabasePlace) -> std::result::Result<Self, OpenError> {
        let mut tables = Self {
            database: Database::connect(place)?,
        };
        let known = tables.known_format()?;
        tables.database.set_up()?;
        if known < FORMAT {
            tables.bring_up_to_date(known)?;
        }
        Ok(tables)
    }

    fn bring_up_to_date(&mut self, known: i64) -> std::result::Result<(), OpenError> {
        if let Err(error) = self.migrate() {
            // Another process that did the same was faster, or the migration is impossible.
            self.roll_back();
            return match (self.known_format()?, known) {
                (FORMAT.., _) => Ok(()),
                (_, 0) => Err(error.into()),
                _ => Err(OpenError::Older(known, error)),
            };
        }
        if (1..PACKED).contains(&known) {
            self.database.shrink();
        }
        Ok(())
    }

    fn migrate(&mut self) -> Result<()> {
        self.database.begin()?;
        self.run("CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BIGINT NOT NULL)")?;
        let known = self.format()?;
        for statements in MIGRATIONS.iter().skip(usize::try_from(known).unwrap_or(0)) {
            for statement in *statements {
                self.run(statement)?;
            }
        }
        if known < PACKED {
            self.pack_rows()?;
            self.pack_log()?;
        }
        self.database.execute(
            "INSERT INTO meta (name, value) VALUES ('format', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            &[Value::Number(FORMAT)],
        )?;
        self.run("COMMIT")
    }

    /// Replaces the long values of all rows by texts.
    fn pack_rows(&mut self) -> Result<()> {
        let mut last = [String::new(), String::new(), String::new()];
        loop {
            let rows = self.database.query(
                "SELECT plan, kind, id, body FROM plan_rows WHERE (plan, kind, id) > ($1, $2, $3) \
                 ORDER BY plan, kind, id LIMIT $4",
                &[
                    Value::Text(&last[0]),
                    Value::Text(&last[1]),
                    Value::Text(&last[2]),
                    Value::Number(AT_ONCE as i64),
                ],
            )?;
            if rows.is_empty() {
                return Ok(());
            }
            let mut texts = Texts::new();
            for mut row in rows {
                last = [row.text(0)?, row.text(1)?, row.text(2)?];
                let packed = pack(&row.text(3)?, &mut texts);
                let [plan, kind, id] = &last;
                self.database.execute(
                    "UPDATE plan_rows SET body = $1 WHERE plan = $2 AND kind = $3 AND id = $4",
                    &[&packed, plan, kind, id].map(|text| Value::Text(text)),
                )?;
            }
            self.write_texts(&texts)?;
        }
    }

    /// Replaces the long values of all log entries by texts.
    fn pack_log(&mut self) -> Result<()> {
        let (mut plan, mut seq) = (String::new(), 0);
        loop {
            let entries = self.database.query(
                "SELECT plan, seq, delta FROM log WHERE (plan, seq) > ($1, $2) ORDER BY plan, seq LIMIT $3",
                &[Value::Text(&plan), Value::Number(seq), Value::Number(AT_ONCE as i64)],
            )?;
            if entries.is_empty() {
                return Ok(());
            }
            let mut texts = Texts::new();
            for mut entry in entries {
                (plan, seq) = (entry.text(0)?, entry.number(1)?);
                // Whoever reads one that is damaged is told so then.
                let Some(packed) = pack_delta(&entry.text(2)?, &mut texts) else {
                    continue;
                };
                self.database.execute(
                    "UPDATE log SET delta = $1 WHERE plan = $2 AND seq = $3",
                    &[Value::Text(&packed), Value::Text(&plan), Value::Number(seq)],
                )?;
            }
            self.write_texts(&texts)?;
        }
    }

    /// Writes the texts that are not there yet, and returns how many bytes these have.
    pub(super) fn write_texts(&mut self, texts: &Texts) -> Result<usize> {
        let mut bytes = 0;
        for (hash, text) in texts {
            let added = self.database.execute(
                "INSERT INTO texts (hash, text) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                &[Value::Text(hash), Value::Text(text)],
            )?;
            if added > 0 {
                bytes += text.len();
            }
        }
        Ok(bytes)
    }

    /// Returns JSON with its long values again, where all of them are there.
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
        let statement = format!(
            "SELECT hash, text FROM texts WHERE hash IN ({})",
            places.join(", ")
        );
        let mut found = HashMap::new();
        for hashes in hashes.chunks(AT_ONCE) {
            let mut values = [Value::Null; AT_ONCE];
            for (value, hash) in values.iter_mut().zip(hashes) {
                *value = Value::Text(hash);
            }
            for mut row in self.database.query(&statement, &values)? {
                found.insert(row.text(0)?, row.text(1)?);
            }
        }
        Ok(found)
    }

    /// Returns the format of the tables, 0 if none exist; fails if a newer version wrote them.
    fn known_format(&mut self) -> std::result::Result<i64, OpenError> {
        let known = match self.format() {
            Err(error) if error.is_no_table() => 0,
            known => known?,
        };
        if known > FORMAT {
            return Err(OpenError::Newer(known));
        }
        Ok(known)
    }

    fn format(&mut self) -> Result<i64> {
        let row = self.one("SELECT value FROM meta WHERE name = 'format'", &[])?;
        row.map_or(Ok(0), |row| row.number(0))
    }

    fn run(&mut self, statement: &str) -> Result<()> {
        self.database.execute(statement, &[]).map(drop)
    }

    fn one(&mut self, statement: &str, values: &[Value<'_>]) -> Result<Option<Record>> {
        Ok(self.database.query(statement, values)?.into_iter().next())
    }

    pub(super) fn begin(&mut self) -> Result<()> {
        self.database.begin()
    }

    /// Commits the transaction. After an error it may still be open, and the caller does not know whether it took effect:
    /// [`Tables::has_change`] shows it.
    pub(super) fn commit(&mut self) -> Result<()> {
        self.run("COMMIT")
    }

    /// Rolls the transaction back. A failure needs no handling: the database does the same by itself when the connection ends.
    pub(super) fn roll_back(&mut self) {
        if let Err(error) = self.run("ROLLBACK") {
            tracing::debug!(%error, "nothing to roll back");
        }
    }

    /// Returns whether the database is a server, to which a connection can break.
    pub(super) fn remote(&self) -> bool {
        self.database.remote()
    }

    /// Returns how many bytes the file of the embedded database has at least.
    pub(super) fn length(&mut self) -> Result<u64> {
        self.database.length()
    }

    /// Leaves the journal of the embedded database as it is from now on.
    pub(super) fn keep_journal(&mut self) {
        self.database.keep_journal();
    }

    /// Lets the database make later changes faster.
    pub(super) fn checkpoint(&mut self) {
        self.database.checkpoint();
    }

    pub(super) fn set_seq(&mut self, plan: &PlanId, seq: i64) -> Result<()> {
        self.database
            .execute(
                "UPDATE plans SET seq = $1 WHERE id = $2",
                &[Value::Number(seq), Value::Text(plan.as_str())],
            )
            .map(drop)
    }

    /// Writes a packed row in place of the one with the same key.
    pub(super) fn write_row(&mut self, plan: &PlanId, key: &RowKey, body: &str) -> Result<()> {
        let (kind, id) = key.parts();
        self.database
            .execute(
                "INSERT INTO plan_rows (plan, kind, id, body) VALUES ($1, $2, $3, $4) ON CONFLICT (plan, kind, id) \
                 DO UPDATE SET body = excluded.body",
                &[plan.as_str(), kind, &id, body].map(Value::Text),
            )
            .map(drop)
    }

    pub(super) fn write_log(&mut self, entry: &LogRecord) -> Result<()> {
        self.database
            .execute(
                "INSERT INTO log (plan, seq, change_id, at, author, why, delta) VALUES ($1, $2, $3, $4, $5, $6, $7)",
                &[
                    Value::Text(&entry.plan),
                    Value::Number(entry.seq),
                    Value::Text(&entry.change_id),
                    Value::Number(entry.at),
                    Value::Text(&entry.author),
                    Value::Text(&entry.why),
                    Value::Text(&entry.delta),
                ],
            )
            .map(drop)
    }

    /// Returns the plan's seq and locks the plan for other writers until the transaction ends.
    pub(super) fn lock_plan(&mut self, plan: &PlanId) -> Result<Option<i64>> {
        if !self.remote() {
            // The transaction already has the only write lock.
            return self.seq(plan);
        }
        let row = self.one(
            "UPDATE plans SET seq = seq WHERE id = $1 RETURNING seq",
            &[Value::Text(plan.as_str())],
        )?;
        row.map(|row| row.number(0)).transpose()
    }

    pub(super) fn seq(&mut self, plan: &PlanId) -> Result<Option<i64>> {
        let row = self.one(
            "SELECT seq FROM plans WHERE id = $1",
            &[Value::Text(plan.as_str())],
        )?;
        row.map(|row| row.number(0)).transpose()
    }

    /// Inserts a plan; `false` if the id or the key is used already.
    pub(super) fn add_plan(
        &mut self,
        plan: &PlanId,
        created_at: i64,
        lookup: &Lookup,
    ) -> Result<bool> {
        let [key, owner, shelf, kept, taken_up] = lookup.values();
        let added = self.database.execute(
            "INSERT INTO plans (id, seq, created_at, key, owner, shelf, kept, taken_up) \
             VALUES ($1, 0, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
            &[
                Value::Text(plan.as_str()),
                Value::Number(created_at),
                key,
                owner,
                shelf,
                kept,
                taken_up,
            ],
        )?;
        Ok(added == 1)
    }

    /// Sets the lookup fields of a plan; fails if the key belongs to another plan.
    pub(super) fn set_lookup(&mut self, plan: &PlanId, lookup: &Lookup) -> Result<()> {
        let [key, owner, shelf, kept, taken_up] = lookup.values();
        self.database
            .execute(
                "UPDATE plans SET key = $1, owner = $2, shelf = $3, kept = $4, taken_up = $5 WHERE id = $6",
                &[key, owner, shelf, kept, taken_up, Value::Text(plan.as_str())],
            )
            .map(drop)
    }

    /// Returns the plan with a key.
    pub(super) fn find(&mut self, key: &str) -> Result<Option<PlanId>> {
        let row = self.one("SELECT id FROM plans WHERE key = $1", &[Value::Text(key)])?;
        row.map(|mut row| row.text(0).map(PlanId::new)).transpose()
    }

    /// Returns the plans that an owner has in use, the one that became current last first.
    pub(super) fn current(&mut self, owner: &str, limit: i64) -> Result<Vec<PlanId>> {
        let rows = self.database.query(
            "SELECT id FROM plans WHERE owner = $1 AND shelf = 'current' \
             ORDER BY taken_up DESC, created_at DESC, id DESC LIMIT $2",
            &[Value::Text(owner), Value::Number(limit)],
        )?;
        rows.into_iter()
            .map(|mut row| row.text(0).map(PlanId::new))
            .collect()
    }

    /// Removes the plan that [`Tables::add_plan`] inserted in the same transaction.
    pub(super) fn remove_plan(&mut self, plan: &PlanId) -> Result<()> {
        self.database
            .execute(
                "DELETE FROM plans WHERE id = $1 AND seq = 0",
                &[Value::Text(plan.as_str())],
            )
            .map(drop)
    }

    /// Returns the ids of all plans with their seqs and packed heads, newest plan first.
    pub(super) fn heads(&mut self) -> Result<Vec<HeadRecord>> {
        let rows = self.database.query(
            "SELECT plans.id, plans.seq, plan_rows.body FROM plans JOIN plan_rows ON plan_rows.plan = plans.id \
             WHERE plan_rows.kind = 'head' ORDER BY plans.created_at DESC, plans.id DESC",
            &[],
        )?;
        rows.into_iter().map(head_record).collect()
    }

    /// Returns the plans that an owner has in use, oldest plan first.
    pub(super) fn heads_in_use(&mut self, owner: &str) -> Result<Vec<HeadRecord>> {
        let rows = self.database.query(
            "SELECT plans.id, plans.seq, plan_rows.body FROM plans JOIN plan_rows ON plan_rows.plan = plans.id \
             WHERE plan_rows.kind = 'head' AND plans.owner = $1 AND plans.shelf = 'current' \
             ORDER BY plans.created_at, plans.id",
            &[Value::Text(owner)],
        )?;
        rows.into_iter().map(head_record).collect()
    }

    /// Returns some of the plans that an owner has archived, newest plan first, and their total number.
    pub(super) fn archived_heads(
        &mut self,
        owner: &str,
        offset: i64,
        limit: i64,
    ) -> Result<(Vec<HeadRecord>, i64)> {
        let rows = self.database.query(
            "SELECT plans.id, plans.seq, plan_rows.body FROM plans JOIN plan_rows ON plan_rows.plan = plans.id \
             WHERE plan_rows.kind = 'head' AND plans.owner = $1 AND plans.kept = 1 \
             ORDER BY plans.created_at DESC, plans.id DESC LIMIT $2 OFFSET $3",
            &[
                Value::Text(owner),
                Value::Number(limit),
                Value::Number(offset),
            ],
        )?;
        let total = self.one(
            "SELECT COUNT(*) FROM plans WHERE owner = $1 AND kept = 1",
            &[Value::Text(owner)],
        )?;
        let total = total.map_or(Ok(0), |row| row.number(0))?;
        let heads = rows.into_iter().map(head_record).collect::<Result<_>>()?;
        Ok((heads, total))
    }

    /// Returns the plans that may have an attempt with this id: one lookup in the primary key for each plan, and a search
    /// through the rows that are only in the log. It is one statement, so it misses nothing that another process moves from the
    /// log to the table in the meantime.
    pub(super) fn plans_of(&mut self, command: &CommandId) -> Result<Vec<PlanId>> {
        let rows = self.database.query(
            "SELECT plans.id FROM plans JOIN plan_rows ON plan_rows.plan = plans.id \
             AND plan_rows.kind = 'attempt' AND plan_rows.id = $1 \
             UNION SELECT plans.id FROM plans JOIN log ON log.plan = plans.id AND log.seq > plans.folded \
             WHERE plans.folded < plans.seq AND log.delta LIKE $2 ESCAPE '!'",
            &[
                Value::Text(command.as_str()),
                Value::Text(&like_attempt(command)),
            ],
        )?;
        rows.into_iter()
            .map(|mut row| row.text(0).map(PlanId::new))
            .collect()
    }

    /// Returns the last change whose rows are written.
    pub(super) fn folded(&mut self, plan: &PlanId) -> Result<i64> {
        let row = self.one(
            "SELECT folded FROM plans WHERE id = $1",
            &[Value::Text(plan.as_str())],
        )?;
        row.map_or(Ok(0), |row| row.number(0))
    }

    pub(super) fn set_folded(&mut self, plan: &PlanId, seq: i64) -> Result<()> {
        self.database
            .execute(
                "UPDATE plans SET folded = $1 WHERE id = $2",
                &[Value::Number(seq), Value::Text(plan.as_str())],
            )
            .map(drop)
    }

    /// Returns plans whose rows are not all written, those with the most unwritten changes first.
    pub(super) fn unfolded(&mut self, limit: i64) -> Result<Vec<PlanId>> {
        let rows = self.database.query(
            "SELECT id FROM plans WHERE folded < seq ORDER BY seq - folded DESC, id LIMIT $1",
            &[Value::Number(limit)],
        )?;
        rows.into_iter()
            .map(|mut row| row.text(0).map(PlanId::new))
            .collect()
    }

    /// Returns the packed bodies of the plan's rows.
    pub(super) fn rows(&mut self, plan: &PlanId) -> Result<Vec<String>> {
        let rows = self.database.query(
            "SELECT body FROM plan_rows WHERE plan = $1",
            &[Value::Text(plan.as_str())],
        )?;
        rows.into_iter().map(|mut row| row.text(0)).collect()
    }

    /// Returns when a change of a plan was made, without its contents.
    pub(super) fn changed_at(&mut self, plan: &PlanId, seq: i64) -> Result<Option<i64>> {
        let row = self.one(
            "SELECT at FROM log WHERE plan = $1 AND seq = $2",
            &[Value::Text(plan.as_str()), Value::Number(seq)],
        )?;
        row.map(|row| row.number(0)).transpose()
    }

    /// Returns the log of a plan after a seq, at most `limit` entries.
    pub(super) fn log_after(
        &mut self,
        plan: &PlanId,
        seq: i64,
        limit: i64,
    ) -> Result<Vec<LogRecord>> {
        let rows = self.database.query(
            "SELECT plan, seq, change_id, at, author, why, delta FROM log WHERE plan = $1 AND seq > $2 ORDER BY seq LIMIT $3",
            &[Value::Text(plan.as_str()), Value::Number(seq), Value::Number(limit)],
        )?;
        let read = |mut row: Record| {
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
        rows.into_iter().map(read).collect()
    }

    /// Returns whether a change is in the log: this settles what a connection that broke during the commit left open.
    pub(super) fn has_change(&mut self, plan: &str, seq: i64, change_id: &str) -> Result<bool> {
        let row = self.one(
            "SELECT seq FROM log WHERE plan = $1 AND seq = $2 AND change_id = $3",
            &[
                Value::Text(plan),
                Value::Number(seq),
                Value::Text(change_id),
            ],
        )?;
        Ok(row.is_some())
    }
}

fn head_record(mut row: Record) -> Result<HeadRecord> {
    Ok((row.text(0)?, row.number(1)?, row.text(2)?))
}

/// Returns a pattern for deltas that may contain an attempt with this id.
fn like_attempt(command: &CommandId) -> String {
    let id = serde_json::Value::from(command.as_str()).to_string();
    let id = pack(&id, &mut Texts::new());
    let escaped = id.chars().flat_map(|c| {
        ['%', '_', '!']
            .contains(&c)
            .then_some('!')
            .into_iter()
            .chain([c])
    });
    format!("%{}%", escaped.collect::<String>())
}

/// The delta of a log entry as it is stored, made of packed rows and events.
#[derive(Default)]
pub(super) struct StoredDelta {
    rows: String,
}

impl StoredDelta {
    pub(super) fn push(&mut self, row: &str) {
        if !self.rows.is_empty() {
            self.rows.push(',');
        }
        self.rows.push_str(row);
    }

    pub(super) fn finish(self, events: &str) -> String {
        format!(r#"{{"rows":[{}],"events":{events}}}"#, self.rows)
    }
}

/// The parts of a stored delta as they are.
#[derive(serde::Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    rows: Vec<&'a RawValue>,
    #[serde(borrow)]
    events: &'a RawValue,
}

/// Packs a delta that was stored as a whole; `None` where it cannot be read.
fn pack_delta(text: &str, texts: &mut Texts) -> Option<String> {
    let Parts { rows, events } = serde_json::from_str(text).ok()?;
    let mut packed = StoredDelta::default();
    for row in rows {
        packed.push(&pack(row.get(), texts));
    }
    Some(packed.finish(&pack(events.get(), texts)))
}

/// Returns the hashes that JSON names and nobody has yet, each once.
fn named<'a>(
    packed: impl Iterator<Item = &'a String>,
    known: &HashMap<String, String>,
) -> Vec<String> {
    let hashes = packed.flat_map(|json| names(json)).map(|(_, hash)| hash);
    let hashes: std::collections::BTreeSet<_> =
        hashes.filter(|hash| !known.contains_key(*hash)).collect();
    hashes.into_iter().map(str::to_owned).collect()
}

pub(super) fn decode_delta(text: &str) -> std::result::Result<Delta, serde_json::Error> {
    #[derive(serde::Deserialize)]
    struct Stored {
        rows: Vec<Row>,
        events: Vec<Event>,
    }
    let Stored { rows, events } = serde_json::from_str(text)?;
    Ok(Delta { rows, events })
}

/// Returns the packed rows of a stored delta.
pub(super) fn stored_rows(text: &str) -> std::result::Result<Vec<&str>, serde_json::Error> {
    let Parts { rows, .. } = serde_json::from_str(text)?;
    Ok(rows.into_iter().map(RawValue::get).collect())
}

/// Returns the key of a row that may be packed, but for its id.
pub(super) fn stored_key(row: &str) -> std::result::Result<RowKey, serde_json::Error> {
    Ok(serde_json::from_str::<Keyed>(row)?.into())
}

/// A stored row of which only the key is read: the rest is long.
#[derive(serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Keyed {
    Head {},
    Task { number: TaskId },
    Attempt { id: CommandId },
    Question { id: QuestionId },
    Session { id: SessionId },
    Ask { id: AskId },
}

impl From<Keyed> for RowKey {
    fn from(row: Keyed) -> Self {
        match row {
            Keyed::Head {} => Self::Head,
            Keyed::Task { number } => Self::Task(number),
            Keyed::Attempt { id } => Self::Attempt(id),
            Keyed::Question { id } => Self::Question(id),
            Keyed::Session { id } => Self::Session(id),
            Keyed::Ask { id } => Self::Ask(id),
        }
    }
}
