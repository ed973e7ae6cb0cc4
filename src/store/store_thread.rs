//! The thread that owns the connection and the plans in memory. Only this thread blocks on a disk or a server.

mod database_file_check;
mod plan_lookup;
mod row_updates;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

use super::database_drivers::{DatabaseError, DatabasePlace};
use super::lease::Lease;
use super::lost_change_detection::{Lost, Notes};
use super::sql_statements::{LogRecord, Lookup, Tables};
use super::stored_delta;
use super::text_store::{Texts, pack};
use super::{Change, OnlyWhile, Result, StoreError};
use crate::plan::{
    ArchiveState, DAEMON, Delta, Draft, Plan, PlanHead, PlanId, Refusal, Row, RowKey, Spent, Time,
};
use database_file_check::DatabaseFile;
use plan_lookup::write_lookup;

/// The most changes that are committed with one flush, so that no change waits long for the others.
const BATCH: usize = 64;

/// Plans in memory; a daemon has one and a small one for each task that a role works on, a server has a few.
const CACHED: usize = 128;

const NOW: Timestamps = {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    Timestamps {
        last_access: now,
        last_modification: now,
    }
};

/// Bytes committed before rows are written and the journal is moved: when no job waits, and when jobs always wait.
/// The file of the journal is then overwritten instead of growing, which is faster, and a start after a crash has
/// less to read.
const FOLD_IDLE: usize = 128 * 1024;
const FOLD_BUSY: usize = 4 * 1024 * 1024;

/// How long a server may be gone before it stays open whether a change was made, and when it is asked again.
const SETTLED: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(200);

/// A quarter of an hour in microseconds: each day begins with one, in every zone of our time.
const QUARTER: i64 = 15 * 60 * 1_000_000;

type Answer<T> = oneshot::Sender<Result<T>>;

type Run = Box<dyn FnMut(&mut Draft<'_>) -> Result<(), Refusal> + Send>;

/// A requested change.
pub(super) struct ChangeJob {
    pub plan: PlanId,
    /// The head of the plan to create first.
    pub head: Option<Box<PlanHead>>,
    pub only_while: Option<OnlyWhile>,
    pub lease: Option<Arc<Lease>>,
    pub by: String,
    pub why: String,
    pub run: Run,
    /// `run` may be called twice: first before the transaction begins, and within it if the plan has moved since.
    pub ahead: bool,
    pub done: AfterCommit,
}

/// What follows a change.
pub(super) struct AfterCommit {
    /// Runs as soon as the change is committed.
    pub then: Box<dyn FnOnce() + Send>,
    pub answer: Answer<()>,
}

impl AfterCommit {
    /// Runs what follows, and returns the channel that still needs the answer.
    fn follow(self) -> Answer<()> {
        if let Err(error) = guarded(self.then) {
            tracing::error!(%error, "what follows a change was not done");
        }
        self.answer
    }

    fn fail(self, error: StoreError) {
        drop(self.answer.send(Err(error)));
    }
}

/// A job for the owner.
pub(super) enum StoreJob {
    Change(ChangeJob),
    /// A job that changes nothing.
    Read(Read),
}

type Read = Box<dyn FnOnce(&mut Owner) + Send>;

struct CachedPlan {
    plan: Plan,
    seq: i64,
    /// It has a change that is not committed yet: only that change may go on from here.
    ahead: bool,
}

/// What a closure did to the plan in memory, yet to be committed.
struct Ran {
    /// The change after which it was made.
    after: i64,
    at: Time,
    lookups: [Lookup; 2],
    /// What the change added to what the planner's model and agents used.
    spent: Spent,
    delta: Delta,
}

pub(super) struct Owner {
    place: DatabasePlace,
    file: Option<DatabaseFile>,
    /// What was committed, in a file of its own.
    notes: Option<Notes>,
    /// What the database had lost when it was opened, until something is committed.
    pub(super) lost: Vec<Lost>,
    /// `None` after the connection to a server was lost.
    tables: Option<Tables>,
    now: Box<dyn Fn() -> Time + Send>,
    plans: HashMap<PlanId, CachedPlan>,
    announce: watch::Sender<u64>,
    /// Bytes committed since rows were last written, and bytes of the log from which a plan was read.
    unfolded: usize,
    /// What [`Tables::changes`] was when it was last looked at.
    changes: i64,
    /// A change was committed since then: a process that only reads does not write.
    changed: bool,
}

/// The plans that a transaction has locked.
#[derive(Default)]
struct Locked {
    /// Those that are brought up to date in memory.
    plans: HashSet<PlanId>,
    /// Those of which a lease was found to hold, with its epoch.
    leased: HashSet<(PlanId, i64)>,
}

/// The rows and log entries that a batch of changes will write.
#[derive(Default)]
struct BatchWrites {
    /// Packed bodies.
    rows: BTreeMap<(PlanId, RowKey), String>,
    texts: Texts,
    log: Vec<LogRecord>,
    /// The last change of each plan, and its numbers.
    seqs: BTreeMap<PlanId, (i64, String)>,
    /// What was used in quarters of an hour.
    spent: Vec<(i64, Spent)>,
    /// Bytes of the log's deltas.
    size: usize,
}

impl Owner {
    pub(super) fn open(
        place: DatabasePlace,
        now: Box<dyn Fn() -> Time + Send>,
        announce: watch::Sender<u64>,
    ) -> Result<Self, DatabaseError> {
        let notes = place.path().map(Notes::of);
        // Read before the tables: a commit of another process in between would look like a loss.
        let noted = notes.as_ref().map(Notes::read).unwrap_or_default();
        let mut tables = Tables::open(&place)?;
        Ok(Self {
            lost: lost(&mut tables, noted),
            tables: Some(tables),
            file: DatabaseFile::of(&place),
            notes,
            place,
            now,
            plans: HashMap::new(),
            announce,
            unfolded: 0,
            changes: 0,
            changed: false,
        })
    }

    pub(super) fn now(&self) -> Time {
        (self.now)()
    }

    /// Serves jobs until the last handle is dropped.
    pub(super) fn run(mut self, mut jobs: mpsc::Receiver<StoreJob>) {
        while let Some(first) = jobs.blocking_recv() {
            let mut changes = Vec::new();
            let mut reads = Vec::new();
            let mut next = Some(first);
            while let Some(job) = next {
                match job {
                    StoreJob::Change(change) => changes.push(change),
                    StoreJob::Read(read) => reads.push(read),
                }
                let room = changes.len() < BATCH;
                next = room.then(|| jobs.try_recv().ok()).flatten();
            }
            let mut changes = self.run_ahead(changes).into_iter();
            while changes.len() > 0 {
                self.commit(&mut changes);
            }
            for read in reads {
                read(&mut self);
            }
            // Never within a batch, whose plans are locked.
            if self.plans.len() > CACHED {
                self.forget();
            }
            let idle = jobs.is_empty();
            if self.changed && self.unfolded > if idle { FOLD_IDLE } else { FOLD_BUSY } {
                self.write_rows();
            }
        }
    }

    /// Runs the closures that may run twice, while no transaction is open: the time that they take keeps no other
    /// process waiting. A second change of a plan has to wait for the first one.
    fn run_ahead(&mut self, jobs: Vec<ChangeJob>) -> Vec<(ChangeJob, Option<Ran>)> {
        let mut plans = HashSet::new();
        let mut changes = Vec::new();
        for mut job in jobs {
            let first = plans.insert(job.plan.clone());
            // A plan that cannot be read here is read again, and its error reported, within the transaction.
            if !job.ahead || !first || self.fresh(&job.plan).is_err() {
                changes.push((job, None));
                continue;
            }
            match self.run_closure(&mut job, false) {
                Ok(ran) => changes.push((job, Some(ran))),
                Err(error) => job.done.fail(error),
            }
        }
        changes
    }

    /// Runs the closures and commits their changes with one flush. After a change that leaves no plan in memory the
    /// next call makes the rest: that plan has to be read anew, and the earlier changes are not in the tables yet.
    fn commit(&mut self, jobs: &mut impl Iterator<Item = (ChangeJob, Option<Ran>)>) {
        if let Err(error) = self.begin().map_err(reason) {
            for (job, _) in jobs {
                job.done.fail(StoreError::Database(error.clone()));
            }
            return;
        }
        let mut locked = Locked::default();
        let mut writes = BatchWrites::default();
        let mut waiting = Vec::new();
        let mut failed = None;
        for (mut job, ahead) in jobs {
            if failed.is_some() {
                waiting.push(job.done);
                continue;
            }
            match self.make_change(&mut job, ahead, &mut writes, &mut locked) {
                Ok(()) => waiting.push(job.done),
                // The database may have ended the transaction by itself: no later write may assume that it is still
                // open.
                Err(StoreError::Database(error)) => {
                    waiting.push(job.done);
                    failed = Some(error);
                }
                Err(error) => {
                    job.done.fail(error);
                    if !self.plans.contains_key(&job.plan) {
                        break;
                    }
                }
            }
        }
        let result = match failed {
            None => self.write(&writes),
            Some(error) => {
                self.abandon();
                Err(error)
            }
        };
        match result {
            Ok(()) => {
                let changed = !writes.log.is_empty();
                let answers: Vec<_> = waiting.into_iter().map(AfterCommit::follow).collect();
                if changed {
                    self.touch();
                    self.note(&writes.seqs);
                }
                for answer in answers {
                    drop(answer.send(Ok(())));
                }
                // The announcement comes last: callers that wait for the answer continue before listeners. A caller
                // that reads again at every change and changes nothing must not wake itself.
                if changed {
                    self.announce.send_modify(|count| *count += 1);
                }
            }
            Err(error) => {
                for plan in &locked.plans {
                    self.plans.remove(plan);
                }
                for done in waiting {
                    done.fail(StoreError::Database(error.clone()));
                }
            }
        }
    }

    /// Notifies all other processes of a change, by the time of the file that they watch. This happens before the
    /// change is answered: the caller may end immediately afterwards.
    fn touch(&self) {
        if let DatabasePlace::File(file) = &self.place
            && let Err(error) = utimensat(CWD, file, &NOW, AtFlags::empty())
        {
            tracing::debug!(%error, "other processes are not told of a change");
        }
    }

    /// Notes what was committed, also before the change is answered. The loss was reported: from now on the notes say
    /// how far the plans go without it.
    fn note(&mut self, seqs: &BTreeMap<PlanId, (i64, String)>) {
        if let Some(notes) = &self.notes {
            let lost = self.lost.iter().map(|lost| (&lost.plan, lost.last));
            notes.add(lost.chain(seqs.iter().map(|(plan, (seq, _))| (plan, *seq))));
            self.lost.clear();
        }
    }

    fn begin(&mut self) -> Result<()> {
        if let Some(tables) = &mut self.tables {
            match tables.database.begin() {
                // The server was restarted: try once more on a new connection.
                Err(error) if error.is_lost() => self.tables = None,
                begun => return Ok(begun?),
            }
        }
        Ok(self.tables()?.database.begin()?)
    }

    fn abandon(&mut self) {
        if let Some(tables) = &mut self.tables {
            tables.roll_back();
        }
    }

    /// Drops every plan from memory: each is read anew when a job needs it.
    pub(super) fn forget(&mut self) {
        self.plans.clear();
    }

    pub(super) fn tables(&mut self) -> Result<&mut Tables> {
        let tables = match self.tables.take() {
            Some(tables) => tables,
            None => Tables::open(&self.place)?,
        };
        let tables = self.tables.insert(tables);
        if let Some(file) = &mut self.file {
            file.check_length(tables)?;
        }
        Ok(tables)
    }

    /// Makes a change in the transaction. An error leaves its plan as it was, or not in memory.
    fn make_change(
        &mut self,
        job: &mut ChangeJob,
        ahead: Option<Ran>,
        writes: &mut BatchWrites,
        locked: &mut Locked,
    ) -> Result<()> {
        let new = job.head.is_some();
        let made = self.ready(job, ahead, locked).and_then(|ahead| {
            let ran = ahead.map_or_else(|| self.run_closure(job, new), Ok)?;
            self.add_change(job, &ran, writes)
        });
        let created = new && job.head.is_none();
        if created && made.is_err() {
            self.plans.remove(&job.plan);
            self.tables()?.remove_plan(&job.plan)?;
        }
        made
    }

    /// Brings the plan of a change into memory, as it is in the transaction. Returns what ran ahead, if that was
    /// after the same change.
    fn ready(
        &mut self,
        job: &mut ChangeJob,
        ahead: Option<Ran>,
        locked: &mut Locked,
    ) -> Result<Option<Ran>> {
        if let Some(wanted) = &job.only_while {
            self.is_so(wanted)?;
        }
        let mut held = None;
        let leased = job.lease.as_ref().map(|it| (it.plan.clone(), it.epoch()));
        if let Some(lease) = leased.filter(|lease| !locked.leased.contains(lease)) {
            held = self.tables()?.lock_leased(&lease.0, lease.1)?;
            if held.is_none() {
                job.lease.iter().for_each(|lost| lost.lose(lease.1));
                return Err(StoreError::NotHeld(lease.0));
            }
            locked.leased.insert(lease.clone());
            held = held.filter(|_| lease.0 == job.plan);
        }
        if let Some(head) = &job.head {
            job.plan = self.make(PlanHead::clone(head), (self.now)(), &mut locked.plans)?;
            job.head = None;
        } else if locked.plans.insert(job.plan.clone()) {
            let seq = match held {
                None => self.tables()?.lock_plan(&job.plan)?,
                held => held,
            };
            let is_ahead = |cached: &CachedPlan| cached.ahead && Some(cached.seq) == seq;
            if ahead.is_some() && self.plans.get(&job.plan).is_some_and(is_ahead) {
                return Ok(ahead);
            }
            self.catch_up_to(&job.plan, seq)?;
        }
        Ok(None)
    }

    /// Runs the closure of a change on the plan in memory. If it panics, that plan is dropped: it can neither be
    /// trusted nor be undone.
    fn run_closure(&mut self, job: &mut ChangeJob, new: bool) -> Result<Ran> {
        let at = (self.now)();
        let Some(cached) = self.plans.get_mut(&job.plan) else {
            return Err(StoreError::UnknownPlan(job.plan.clone()));
        };
        let before = cached.plan.head();
        let deleted = !new && before.archive_state == ArchiveState::Deleted;
        let (before, usage) = (Lookup::of(before), before.usage);
        let mut draft = Draft::new(&mut cached.plan, at).after(cached.seq);
        let ran = match guarded(|| (job.run)(&mut draft)) {
            Ok(ran) => ran,
            Err(panicked) => {
                self.plans.remove(&job.plan);
                return Err(panicked);
            }
        };
        let is_deleted = draft.plan().head().archive_state == ArchiveState::Deleted;
        let ran = ran.and_then(|()| match deleted && is_deleted && draft.has_changed() {
            true => Err(Refusal::Deleted),
            false => Ok(()),
        });
        if let Err(refusal) = ran {
            draft.undo();
            return Err(refusal.into());
        }
        let mut delta = draft.finish();
        cached.ahead = true;
        let head = cached.plan.head();
        if new && !delta.rows.iter().any(|row| matches!(row, Row::Head(_))) {
            delta.rows.insert(0, Row::Head(Box::new(head.clone())));
        }
        Ok(Ran {
            after: cached.seq,
            at,
            lookups: [before, Lookup::of(head)],
            // What a role uses is part of what the agent of its plan reports.
            spent: match head.owner == DAEMON {
                true => head.usage.since(&usage),
                false => Spent::default(),
            },
            delta,
        })
    }

    /// Adds what a closure did to what is written at the end of the transaction.
    fn add_change(&mut self, job: &ChangeJob, ran: &Ran, writes: &mut BatchWrites) -> Result<()> {
        let [before, lookup] = &ran.lookups;
        if lookup != before {
            write_lookup(self.tables()?, &job.plan, before, lookup)
                .inspect_err(|_| drop(self.plans.remove(&job.plan)))?;
        }
        let mut tally = String::new();
        let empty = ran.delta.rows.is_empty() && ran.delta.events.is_empty();
        if let Some(cached) = self.plans.get_mut(&job.plan) {
            cached.ahead = false;
            cached.seq += i64::from(!empty);
            tally = tally_text(&cached.plan);
        }
        if empty {
            return Ok(());
        }
        // Rows of half a change may be among the others then: nothing of the batch is written.
        let added = writes.add(job, ran, tally);
        added.map_err(|error| StoreError::Database(error.to_string()))
    }

    /// Returns the plan in memory, brought to the committed state.
    fn fresh(&mut self, id: &PlanId) -> Result<&mut CachedPlan> {
        let seq = self.tables()?.seq(id)?;
        self.catch_up_to(id, seq)?;
        let cached = self.plans.get_mut(id);
        cached.ok_or_else(|| StoreError::UnknownPlan(id.clone()))
    }

    fn cache(&mut self, id: &PlanId, plan: Plan, seq: i64) {
        let ahead = false;
        self.plans
            .insert(id.clone(), CachedPlan { plan, seq, ahead });
    }

    fn catch_up_to(&mut self, id: &PlanId, seq: Option<i64>) -> Result<()> {
        let Some(seq) = seq else {
            self.plans.remove(id);
            return Err(StoreError::UnknownPlan(id.clone()));
        };
        let committed = self.plans.get(id).filter(|cached| !cached.ahead);
        match committed.map(|cached| cached.seq) {
            Some(known) if known == seq => Ok(()),
            Some(known) if known < seq => self.catch_up(id, known, seq),
            _ => self.load(id, seq),
        }
    }

    /// Applies the changes of another process: the log has the new rows.
    fn catch_up(&mut self, id: &PlanId, known: i64, seq: i64) -> Result<()> {
        let changes = self.since(id, known, seq - known)?;
        let Some(cached) = self.plans.get_mut(id) else {
            return Err(StoreError::UnknownPlan(id.clone()));
        };
        for row in changes.into_iter().flat_map(|change| change.delta.rows) {
            drop(cached.plan.put(row));
        }
        cached.seq = seq;
        Ok(())
    }

    fn load(&mut self, id: &PlanId, seq: i64) -> Result<()> {
        let (rows, last, bytes) = row_updates::read(self.tables()?, id)?;
        let plan = Plan::from_rows(rows);
        let plan = plan.ok_or_else(|| StoreError::damaged(id, "it has no head"))?;
        self.cache(id, plan, last.map_or(seq, |last| last.max(seq)));
        self.unfolded += bytes;
        Ok(())
    }

    /// Writes what the changes did and ends the transaction, without effect if there is nothing to write. An error
    /// says why this failed.
    fn write(&mut self, writes: &BatchWrites) -> Result<(), String> {
        let Some(last) = writes.log.last() else {
            self.abandon();
            return Ok(());
        };
        let tables = match self.checked_tables() {
            Ok(tables) => tables,
            Err(error) => {
                self.abandon();
                if let Ok(tables) = self.tables() {
                    // Only this process can still read a journal that was removed: what it has goes into the file.
                    tables.database.checkpoint();
                }
                return Err(reason(error));
            }
        };
        let error = match writes.write(tables) {
            Ok(size) => {
                self.unfolded += size;
                self.changed = true;
                return Ok(());
            }
            Err(error) => error,
        };
        tables.roll_back();
        // A connection that broke at COMMIT leaves open whether the commit took effect: the log shows it.
        if tables.database.remote() {
            self.tables = None;
        }
        match self.is_committed(last) {
            Ok(true) => Ok(()),
            Err(unknown) if self.place.is_shared() => {
                let what = "it is not known whether a change was made";
                Err(format!("{what}: {}", reason(unknown)))
            }
            _ => Err(reason(error)),
        }
    }

    /// Returns whether a change is in the log. A server that is gone has half a minute to come back: no answer would be true.
    fn is_committed(&mut self, last: &LogRecord) -> Result<bool> {
        let began = Instant::now();
        loop {
            let found = self.tables().and_then(|tables| {
                Ok(tables.has_settled(&last.plan, last.seq, &last.change_id)?)
            });
            match found {
                Err(_) if self.place.is_shared() && began.elapsed() < SETTLED => {
                    self.tables = None;
                    std::thread::sleep(AGAIN);
                }
                found => return found,
            }
        }
    }

    /// Announces what other processes have changed. A server that is gone is looked at again.
    pub(super) fn look_for_changes(&mut self) {
        match self.tables().and_then(|tables| Ok(tables.changes()?)) {
            Ok(changes) if changes != self.changes => {
                self.changes = changes;
                self.announce.send_modify(|count| *count += 1);
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "the store was not looked at"),
        }
    }

    /// Returns the tables if what is written to them stays where others look for it.
    fn checked_tables(&mut self) -> Result<&mut Tables> {
        self.tables()?;
        if let Some(file) = &mut self.file {
            file.check_place()?;
        }
        self.tables.as_mut().ok_or(StoreError::Closed)
    }

    pub(super) fn read<T>(
        &mut self,
        plan: &PlanId,
        read: impl FnOnce(&Plan, i64) -> T,
    ) -> Result<T> {
        let cached = self.fresh(plan)?;
        Ok(read(&cached.plan, cached.seq))
    }

    pub(super) fn since(&mut self, plan: &PlanId, seq: i64, limit: i64) -> Result<Vec<Change>> {
        let tables = self.tables()?;
        let mut records = tables.log_after(plan, seq, limit)?;
        let deltas = row_updates::deltas(tables, plan, &mut records)?;
        let changes = records.into_iter().zip(deltas);
        let changes = changes.map(|(record, delta)| Change {
            seq: record.seq,
            at: Time(record.at),
            by: record.author,
            why: record.why,
            delta,
        });
        Ok(changes.collect())
    }
}

/// Returns the numbers of a plan as they are stored; nothing if they cannot be written, so that they are counted again.
pub(super) fn tally_text(plan: &Plan) -> String {
    serde_json::to_string(&plan.tally()).unwrap_or_default()
}

/// Returns what was committed and is not in the tables any more.
fn lost(tables: &mut Tables, noted: Vec<(PlanId, i64)>) -> Vec<Lost> {
    let lost = noted.into_iter().filter_map(|(plan, committed)| {
        // A plan that cannot be read is reported when it is read.
        let last = tables.seq(&plan).ok()?.unwrap_or(0);
        (last < committed).then_some(Lost {
            plan,
            last,
            committed,
        })
    });
    lost.collect()
}

/// Runs code of a caller. If it panics, that caller gets the error, and the store goes on serving the others.
pub(super) fn guarded<T>(code: impl FnOnce() -> T) -> Result<T> {
    // The code may have left something half done: the caller that gets the error discards it.
    catch_unwind(AssertUnwindSafe(code)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        StoreError::Panicked(text.unwrap_or_else(|| "without a word".to_owned()))
    })
}

/// Returns the cause, without the words with which every failure begins.
fn reason(error: StoreError) -> String {
    match error {
        StoreError::Database(reason) => reason,
        other => other.to_string(),
    }
}

impl BatchWrites {
    fn add(&mut self, job: &ChangeJob, ran: &Ran, tally: String) -> Result<(), serde_json::Error> {
        let (plan, seq) = (&job.plan, ran.after + 1);
        let mut rows = Vec::new();
        for row in &ran.delta.rows {
            let body = pack(&serde_json::to_string(row)?, &mut self.texts);
            rows.push(body.clone());
            self.rows.insert((plan.clone(), row.key()), body);
        }
        let events = pack(&serde_json::to_string(&ran.delta.events)?, &mut self.texts);
        let delta = stored_delta::join(&rows, &events);
        self.size += delta.len();
        self.log.push(LogRecord {
            plan: plan.to_string(),
            seq,
            change_id: Uuid::now_v7().to_string(),
            at: ran.at.0,
            author: job.by.clone(),
            why: job.why.clone(),
            delta,
        });
        self.seqs.insert(plan.clone(), (seq, tally));
        if ran.spent != Spent::default() {
            let quarter = ran.at.0 - ran.at.0.rem_euclid(QUARTER);
            self.spent.push((quarter, ran.spent));
        }
        Ok(())
    }

    /// Returns how many bytes of the log are new.
    fn write(&self, tables: &mut Tables) -> Result<usize> {
        let new = tables.write_texts(&self.texts)?;
        self.write_rows(tables)?;
        for (plan, (seq, tally)) in &self.seqs {
            tables.set_seq(plan, *seq, tally)?;
        }
        for (quarter, spent) in &self.spent {
            tables.add_spent(*quarter, spent)?;
        }
        for entry in &self.log {
            tables.write_log(entry)?;
        }
        tables.commit()?;
        Ok(self.size + new)
    }
}

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error.to_string())
    }
}
