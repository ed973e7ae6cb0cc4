//! The one place that holds plans. One thread owns the connection and the plans in memory; all other code holds a
//! [`Store`] and sends closures to it. One committed change is one transaction, flushed before it is answered;
//! simultaneous changes of several callers are committed together. Several processes may use one database: each
//! brings its plan up to date within the transaction, so no update is lost and no caller has to retry after a
//! conflict.

mod budget_day;
mod copied_plans;
mod database_drivers;
mod lease;
mod lost_change_detection;
mod place;
mod relay_client;
mod relayed_commands;
mod sql_statements;
mod store_thread;
mod stored_delta;
mod text_store;

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};

use crate::own_files;
use crate::plan::{
    CommandId, DAEMON, Delta, Draft, HeldLocks, Plan, PlanHead, PlanId, Refusal, Spent, Tally, Time,
};
use database_drivers::{DatabaseError, DatabasePlace, NOT_OURS, beside};
use lease::Lease;
pub use lease::LeaseState;
pub use lost_change_detection::Lost;
use lost_change_detection::Notes;
pub use place::{StoreFinding, StorePlace};
pub use relay_client::{AboutRelay, ClaimedCommand, HeldBeat, MOST_WORK, RelayLink};
pub use relayed_commands::{KnownRelay, OfferedCommand, RelayedCommand, RelayedReport};
use sql_statements::{ALL, ARCHIVED, IN_USE, QUEUED, Tables};
use store_thread::{Owner, StoreJob, guarded};

/// Closures that may wait for the owner: enough that a caller in normal work never waits to send one.
const QUEUE: usize = 256;

/// Bytes of a pack that are kept in one row.
const PART: usize = 1024 * 1024;
/// How often a database that tells of no changes is looked at.
const LOOK: Duration = Duration::from_secs(3);

/// What to do where plans were and no database is.
pub const PUT_BACK: &str =
    "put a copy of it back; to begin anew without them, remove the files that begin with its name";

/// What the store answers.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// `way_out` says what a person can do about a file that is no plan store, or not one that this version knows.
    #[error("failed to open the plan store `{place}`: {reason}")]
    Open {
        place: String,
        reason: String,
        way_out: Option<&'static str>,
    },
    /// Contains what is wrong.
    #[error("the store that `store.url` names: {0}")]
    Address(String),
    #[error("there is no plan `{0}`")]
    UnknownPlan(PlanId),
    /// Contains the key.
    #[error("the plan id `{0}` is taken")]
    PlanTaken(PlanId),
    /// Contains the plan that is current now.
    #[error("another caller was faster: {}", now_current(.0.as_ref()))]
    Overtaken(Option<PlanId>),
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The daemon that made the change held the lease of this plan, and holds it no more.
    #[error("another daemon carries plan `{0}` out now")]
    NotHeld(PlanId),
    #[error("plan `{plan}` is carried out by another daemon: {holder}")]
    Held { plan: PlanId, holder: String },
    #[error("plan `{plan}` belongs to another folder: {home}")]
    Elsewhere { plan: PlanId, home: String },
    #[error("plan `{plan}` is damaged in the store: {reason}")]
    Damaged { plan: PlanId, reason: String },
    #[error("the plan store failed: {0}")]
    Database(String),
    /// Contains the words of the panic.
    #[error("a fault of the program, which changed no plan: it panicked: {0}")]
    Panicked(String),
    #[error("the plan store is closed")]
    Closed,
}

impl StoreError {
    fn damaged(plan: &PlanId, reason: impl Display) -> Self {
        let (plan, reason) = (plan.clone(), reason.to_string());
        Self::Damaged { plan, reason }
    }

    fn unopened(place: &str, reason: impl Display, way_out: Option<&'static str>) -> Self {
        let (place, reason) = (place.to_owned(), reason.to_string());
        Self::Open {
            place,
            reason,
            way_out,
        }
    }
}

fn now_current(plan: Option<&PlanId>) -> String {
    match plan {
        Some(plan) => format!("the current plan is `{plan}` now"),
        None => "there is no current plan any more".to_owned(),
    }
}

/// One committed change of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The number of the change within the plan, from 1.
    pub seq: i64,
    pub at: Time,
    /// The author of the change: `daemon`, `command line`, a tool's name.
    pub by: String,
    pub why: String,
    pub delta: Delta,
}

/// A plan in the list of plans.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedPlan {
    pub seq: i64,
    pub head: PlanHead,
}

/// A plan in the list of plans, with its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct TalliedPlan {
    pub plan: ListedPlan,
    pub tally: Tally,
}

/// A handle to the store; clones share it.
#[derive(Clone, Debug)]
pub struct Store {
    jobs: mpsc::Sender<StoreJob>,
    moved: watch::Receiver<u64>,
    lost: Arc<[Lost]>,
    only_while: Option<OnlyWhile>,
    /// Daemons of several folders may use the database.
    shared: bool,
    /// The folder for which it makes plans, where the database is shared.
    home: Option<Arc<str>>,
    /// Under which its changes are made.
    lease: Option<Arc<Lease>>,
    /// Locked while a call of the model is counted.
    calls: Arc<tokio::sync::Mutex<()>>,
}

/// A condition that must still hold when a change is made.
#[derive(Clone, Debug)]
struct OnlyWhile {
    owner: String,
    current: Option<PlanId>,
}

impl Store {
    /// Opens the SQLite file at `path`; creates it with mode 0600 if it does not exist. Each commit updates the
    /// file's time, so that a watch on it notifies every process.
    ///
    /// # Errors
    /// The file cannot be made or read, a newer version wrote it, or it is empty and plans were in it.
    pub async fn open(path: &Path, now: impl Fn() -> Time + Send + 'static) -> Result<Self> {
        let shown = path.display().to_string();
        let file = path.metadata().ok().filter(std::fs::Metadata::is_file);
        match file.map(|file| file.len()) {
            // SQLite would treat it as a new database, and remove the journal that goes with the old one.
            Some(0) => had_none(path, "the file is empty")?,
            // SQLite takes a file of one byte for an empty one.
            Some(..100) => {
                let reason = "file is not a database";
                return Err(StoreError::unopened(&shown, reason, Some(NOT_OURS)));
            }
            _ => {}
        }
        make_private(path).map_err(|error| {
            let foreign = error.kind() == std::io::ErrorKind::InvalidData;
            StoreError::unopened(&shown, &error, foreign.then_some(own_files::WAY_OUT))
        })?;
        Self::connect(DatabasePlace::File(path.to_owned()), &shown, now).await
    }

    /// Returns whether there is a database in a file.
    ///
    /// # Errors
    /// There is none, and plans were in it.
    pub fn exists(path: &Path) -> Result<bool> {
        match path.exists() {
            true => Ok(true),
            false => had_none(path, "the file is gone").map(|()| false),
        }
    }

    /// Returns the bytes of the database in a file with its journal; 0 if there is none.
    ///
    /// # Errors
    /// It is empty or gone, and plans were in it.
    pub fn size(path: &Path) -> Result<u64> {
        let size = |path: &Path| path.metadata().map_or(0, |file| file.len());
        if !Self::exists(path)? {
            return Ok(0);
        }
        if size(path) == 0 {
            had_none(path, "the file is empty")?;
        }
        Ok(size(path) + size(&beside(path, "-wal")))
    }

    /// Opens a store in memory, which ends with its last handle.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn in_memory(now: impl Fn() -> Time + Send + 'static) -> Result<Self> {
        Self::connect(DatabasePlace::Memory, ":memory:", now).await
    }

    async fn connect(
        place: DatabasePlace,
        shown: &str,
        now: impl Fn() -> Time + Send + 'static,
    ) -> Result<Self> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (announce, moved) = watch::channel(0);
        let (opened, open) = oneshot::channel();
        let (shared, file) = (place.is_shared(), place.path().map(Path::to_owned));
        let looking = jobs.downgrade();
        let serve = move || match Owner::open(place, Box::new(now), announce) {
            Ok(owner) => {
                drop(opened.send(Ok(owner.lost.clone())));
                owner.run(queue);
            }
            Err(error) => drop(opened.send(Err(error.of_file(file.as_deref())))),
        };
        let thread = std::thread::Builder::new().name("store".to_owned());
        let spawned = thread.spawn(serve);
        spawned.map_err(|error| StoreError::unopened(shown, error, None))?;
        let opened = open.await.map_err(|_| StoreError::Closed)?;
        let lost = opened.map_err(|error| StoreError::unopened(shown, &error, error.way_out()))?;
        if shared {
            tokio::spawn(look_for_changes(looking));
        }
        Ok(Self {
            jobs,
            moved,
            lost: lost.into(),
            only_while: None,
            shared,
            home: None,
            lease: None,
            calls: Arc::default(),
        })
    }

    /// Returns what the database had lost when it was opened: changes that were committed and are not in it. Every
    /// process that opens the database gets this until one of them commits a change.
    pub fn lost(&self) -> &[Lost] {
        &self.lost
    }

    /// Returns a handle for a folder, by its name among those of several machines: plans that it makes are noted to be made there,
    /// and where the database is shared, they belong to it.
    #[must_use]
    pub fn of_home(&self, home: &str) -> Self {
        Self {
            home: Some(home.into()),
            ..self.clone()
        }
    }

    /// Returns a handle whose changes are made only while the current plan of an owner is `current` (`None`: while it
    /// has none): otherwise they fail with [`StoreError::Overtaken`]. The store checks this within the transaction.
    #[must_use]
    pub fn only_while(&self, owner: &str, current: Option<PlanId>) -> Self {
        let owner = owner.to_owned();
        Self {
            only_while: Some(OnlyWhile { owner, current }),
            ..self.clone()
        }
    }

    /// Changes a plan: all of the closure's operations or, if it refuses, none. The change is durable when this
    /// returns.
    ///
    /// # Errors
    /// No such plan, a refusal, a panic of the closure, a failure of the database (nothing has changed then).
    pub async fn change<T: Send + 'static>(
        &self,
        plan: &PlanId,
        by: &str,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T> {
        self.submit(plan, None, [by, why], once(change), false, |_| {})
            .await
    }

    /// As [`Store::change`], but the closure runs before the transaction begins: what it takes time for keeps no
    /// other process waiting. If another process moves the plan in between, the closure runs again within the
    /// transaction, and only what it did then counts. `then` gets the closure's result as soon as that is durable,
    /// before any other thread has to wake up for it. Both run on the thread that serves all callers. `then` does not
    /// run for a change that fails; if `then` panics, the change is made nevertheless.
    ///
    /// # Errors
    /// As [`Store::change`].
    pub async fn change_ahead<T: Send + 'static>(
        &self,
        plan: &PlanId,
        by: &str,
        why: &str,
        change: impl FnMut(&mut Draft<'_>) -> Result<T, Refusal> + Send + 'static,
        then: impl FnOnce(&mut T) + Send + 'static,
    ) -> Result<T> {
        self.submit(plan, None, [by, why], change, true, then).await
    }

    /// Creates a plan and changes it in the same transaction. The plan gets the head's id, unless the head has a key;
    /// if a deleted plan has that id, the new plan gets another id (`ID~2`) and the wanted one as its key. The
    /// closure finds the id in the draft.
    ///
    /// # Errors
    /// The key is in use; else as [`Store::change`].
    pub async fn create<T: Send + 'static>(
        &self,
        head: PlanHead,
        by: &str,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T> {
        let plan = head.id.clone();
        let home = self.home.as_deref().filter(|_| head.owner == DAEMON);
        let folder = home.and_then(|home| home.split_once(':'));
        let head = PlanHead {
            home: home.filter(|_| self.shared).map(str::to_owned),
            made_in: folder.map(|(_, folder)| folder.to_owned()),
            ..head
        };
        self.submit(&plan, Some(head), [by, why], once(change), false, |_| {})
            .await
    }

    async fn submit<T: Send + 'static>(
        &self,
        plan: &PlanId,
        head: Option<PlanHead>,
        [by, why]: [&str; 2],
        mut change: impl FnMut(&mut Draft<'_>) -> Result<T, Refusal> + Send + 'static,
        ahead: bool,
        then: impl FnOnce(&mut T) + Send + 'static,
    ) -> Result<T> {
        let result = Arc::new(Mutex::new(None));
        let (slot, committed) = (Arc::clone(&result), Arc::clone(&result));
        let run = move |draft: &mut Draft<'_>| {
            let value = change(draft)?;
            *slot.lock() = Some(value);
            Ok(())
        };
        let then = move || {
            committed.lock().as_mut().map(then);
        };
        let (done, answer) = oneshot::channel();
        let job = StoreJob::Change(store_thread::ChangeJob {
            plan: plan.clone(),
            head: head.map(Box::new),
            only_while: self.only_while.clone(),
            lease: self.lease.clone(),
            by: by.to_owned(),
            why: why.to_owned(),
            run: Box::new(run),
            ahead,
            done: store_thread::AfterCommit {
                then: Box::new(then),
                answer: done,
            },
        });
        self.jobs.send(job).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)??;
        result.lock().take().ok_or(StoreError::Closed)
    }

    /// Reads a plan in its committed state, with its seq.
    ///
    /// # Errors
    /// No such plan, or a failure of the database.
    pub async fn read<T: Send + 'static>(
        &self,
        plan: &PlanId,
        read: impl FnOnce(&Plan, i64) -> T + Send + 'static,
    ) -> Result<T> {
        let plan = plan.clone();
        self.with(move |owner| owner.read(&plan, read)).await
    }

    /// Returns the changes of a plan after a seq, oldest first, at most `limit`.
    ///
    /// # Errors
    /// A failure of the database, or an entry that cannot be read.
    pub async fn since(&self, plan: &PlanId, seq: i64, limit: usize) -> Result<Vec<Change>> {
        let (plan, limit) = (plan.clone(), number(limit));
        self.with(move |owner| owner.since(&plan, seq, limit)).await
    }

    /// Returns when a change was made, `None` if the plan has no such change. The cost does not depend on the size of
    /// the change.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn changed_at(&self, plan: &PlanId, seq: i64) -> Result<Option<Time>> {
        let plan = plan.clone();
        self.ask(move |tables| Ok(tables.changed_at(&plan, seq)?.map(Time)))
            .await
    }

    /// Returns every plan, newest first.
    ///
    /// # Errors
    /// A failure of the database, or a plan that cannot be read.
    pub async fn plans(&self) -> Result<Vec<ListedPlan>> {
        self.with(|owner| owner.listed(ALL, &[])).await
    }

    /// Returns the wanted plans with their numbers, newest first. The cost does not depend on the sizes of the plans.
    ///
    /// # Errors
    /// As [`Store::plans`].
    pub async fn tallied(
        &self,
        wanted: impl Fn(&PlanHead) -> bool + Send + 'static,
    ) -> Result<Vec<TalliedPlan>> {
        self.with(move |owner| owner.tallied(wanted)).await
    }

    /// Returns the locks that tasks of other plans hold now.
    ///
    /// # Errors
    /// As [`Store::plans`].
    pub async fn locks_beside(&self, plan: &PlanId) -> Result<HeldLocks> {
        let plan = plan.clone();
        self.with(move |owner| owner.locks_beside(&plan)).await
    }

    /// Returns what all plans together have used since a time, which is rounded up to a quarter of an hour.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn spent_since(&self, since: Time) -> Result<Spent> {
        self.ask(move |tables| tables.spent_since(since.0)).await
    }

    /// Returns the plan with a key, unless it was deleted.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn find(&self, key: &str) -> Result<Option<PlanId>> {
        let key = key.to_owned();
        self.ask(move |tables| tables.find(&key)).await
    }

    /// Returns the plans that an owner has in use, at most `limit`: the one that became current last (else created
    /// last) first.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn current(&self, owner: &str, limit: usize) -> Result<Vec<PlanId>> {
        let (owner, limit) = (owner.to_owned(), number(limit));
        self.ask(move |tables| tables.current(&owner, limit)).await
    }

    /// Returns the plans that an owner has in use with their heads, and so their keys and parents, the oldest first.
    ///
    /// # Errors
    /// A failure of the database, or a plan that cannot be read.
    pub async fn in_use(&self, owner: &str) -> Result<Vec<ListedPlan>> {
        let name = owner.to_owned();
        self.with(move |owner| owner.listed(IN_USE, &[&name])).await
    }

    /// Returns the plans that a daemon of the folder is to carry out and that have not ended, the oldest first. Those that a copy
    /// brought to a server are of no folder yet: they are of the one beside which they work.
    ///
    /// # Errors
    /// A failure of the database, or a plan that cannot be read.
    pub async fn queued(&self) -> Result<Vec<ListedPlan>> {
        let queued = self.with(|owner| owner.listed(QUEUED, &[]));
        let mut queued = queued.await?;
        queued.retain(|listed| self.is_own(&listed.head));
        Ok(queued)
    }

    /// Returns whether a plan belongs to this folder; one that was copied here belongs to the folder around its agents.
    pub fn is_own(&self, head: &PlanHead) -> bool {
        let own = self.home.as_deref().filter(|_| self.shared);
        match (own, head.home.as_deref()) {
            (None, _) => true,
            (Some(own), Some(home)) => own == home,
            (Some(own), None) => {
                let folder = own.split_once(':').map_or(own, |(_, folder)| folder);
                let [folder, workspace] = [folder, &head.workspace].map(Path::new);
                folder.starts_with(workspace) || workspace.starts_with(folder)
            }
        }
    }

    /// Returns the plans that have not ended and whose daemon is gone without giving its lease back, the oldest first.
    ///
    /// # Errors
    /// A failure of the database, or a plan that cannot be read.
    pub async fn orphans(&self) -> Result<Vec<ListedPlan>> {
        if !self.shared {
            return Ok(Vec::new());
        }
        let orphans = self.with(|owner| {
            let past = owner.tables()?.with_past_lease();
            owner.listed(&past, &[])
        });
        let mut orphans = orphans.await?;
        orphans.retain(|listed| {
            listed.head.home.as_deref() != self.home.as_deref() && !listed.head.status.settled()
        });
        Ok(orphans)
    }

    /// Keeps a result in the database, from which another machine can go on, by its commit: a pack of git, which needs those kept
    /// before. Without git it is a pack of files, by the command of its attempt. To keep the same again does nothing. It stays when the
    /// plan has ended: the plan may be opened again.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn keep_work(&self, plan: &PlanId, commit: &str, pack: &[u8]) -> Result<()> {
        let (plan, commit) = (plan.clone(), commit.to_owned());
        let parts: Vec<String> = pack.chunks(PART).map(|part| BASE64.encode(part)).collect();
        self.ask(move |tables| tables.keep_work(&plan, &commit, &parts))
            .await
    }

    /// Returns the packs that are kept of a plan with the names of their results, the earliest first.
    ///
    /// # Errors
    /// A failure of the database, or a pack that cannot be read.
    pub async fn kept_work(&self, plan: &PlanId) -> Result<Vec<(String, Vec<u8>)>> {
        let id = plan.clone();
        let parts = self.ask(move |tables| tables.kept_work(&id));
        let mut packs: Vec<(String, Vec<u8>)> = Vec::new();
        for (commit, part) in parts.await? {
            let part = BASE64.decode(part);
            let part = part.map_err(|error| StoreError::damaged(plan, error))?;
            match packs.last_mut() {
                Some((last, pack)) if *last == commit => pack.extend(part),
                _ => packs.push((commit, part)),
            }
        }
        Ok(packs)
    }

    /// Returns whether daemons of several folders may use the database.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Returns the plans that an owner has archived, also those that were recovered later, newest first: at most
    /// `limit` after the first `offset`, and their total number.
    ///
    /// # Errors
    /// A failure of the database, or a plan that cannot be read.
    pub async fn archived(
        &self,
        owner: &str,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<ListedPlan>, usize)> {
        let name = owner.to_owned();
        let (offset, limit) = (number(offset), number(limit));
        self.with(move |owner| {
            let plans = owner.listed(ARCHIVED, &[&name, &limit, &offset])?;
            let total = owner.tables()?.archived(&name)?;
            Ok((plans, usize::try_from(total).unwrap_or(0)))
        })
        .await
    }

    /// Returns the plan that a command belongs to.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn plan_of(&self, command: &CommandId) -> Result<Option<PlanId>> {
        let command = command.clone();
        self.with(move |owner| owner.plan_of(&command)).await
    }

    /// Calls statements on the owner's thread.
    async fn ask<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Tables) -> Result<T, DatabaseError> + Send + 'static,
    ) -> Result<T> {
        self.with(move |owner| Ok(call(owner.tables()?)?)).await
    }

    /// Runs a closure that changes nothing on the owner's thread.
    async fn with<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Owner) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (done, answer) = oneshot::channel();
        let read = move |owner: &mut Owner| {
            let result = guarded(|| read(owner)).flatten();
            if let Err(StoreError::Panicked(_)) = result {
                owner.forget();
            }
            drop(done.send(result));
        };
        let job = StoreJob::Read(Box::new(read));
        self.jobs.send(job).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Returns a plan as it was after the change `seq`, rebuilt from the log.
    ///
    /// # Errors
    /// The plan has no such change; else as [`Store::since`].
    pub async fn at(&self, plan: &PlanId, seq: i64) -> Result<Plan> {
        let mut rows = std::collections::HashMap::new();
        let mut last = 0;
        while last < seq
            && let page = self.since(plan, last, 1000).await?
            && let Some(end) = page.last().map(|change| change.seq)
        {
            for change in page.into_iter().filter(|change| change.seq <= seq) {
                rows.extend(change.delta.rows.into_iter().map(|row| (row.key(), row)));
            }
            last = end;
        }
        let rows = (last >= seq && seq > 0).then(|| rows.into_values());
        rows.and_then(Plan::from_rows)
            .ok_or_else(|| StoreError::UnknownPlan(plan.clone()))
    }

    /// Returns a counter that moves with every change committed by this process; a move only means "read again".
    pub fn moved(&self) -> watch::Receiver<u64> {
        self.moved.clone()
    }
}

/// Finds out every few seconds whether other processes have changed plans where no file tells; until the last handle is
/// dropped.
async fn look_for_changes(jobs: mpsc::WeakSender<StoreJob>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(jobs) = jobs.upgrade() else { return };
        let look = StoreJob::Read(Box::new(Owner::look_for_changes));
        drop(jobs.send(look).await);
    }
}

/// Makes a closure that is called once only one that could be called again.
fn once<T>(
    change: impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal>,
) -> impl FnMut(&mut Draft<'_>) -> Result<T, Refusal> {
    let mut change = Some(change);
    move |draft| change.take().ok_or(Refusal::Dropped)?(draft)
}

/// Returns a number in the database's type.
fn number(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Fails if there were plans in a database that has nothing now.
fn had_none(database: &Path, what: &'static str) -> Result<()> {
    let journal = beside(database, "-wal").metadata();
    let noted = Notes::of(database).read();
    if noted.iter().all(|(_, seq)| *seq == 0) && journal.map_or(0, |file| file.len()) == 0 {
        return Ok(());
    }
    let place = database.display().to_string();
    let reason = format!("plans were in it, and {what}");
    Err(StoreError::unopened(&place, reason, Some(PUT_BACK)))
}

/// Creates the file for its owner only; SQLite gives its `-wal` and `-shm` the same mode. An existing file is not
/// opened: closing it again would release the locks that another store of this process has on it. A link is refused:
/// SQLite would follow it, and write into its target.
fn make_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::OpenOptions::new();
    options.create_new(true).append(true).mode(0o600);
    match options.open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            match path.symlink_metadata()? {
                file if file.is_symlink() => Err(own_files::refused(own_files::LINK)),
                file if file.is_file() => Ok(()),
                _ => Err(own_files::refused(own_files::NOT_PLAIN)),
            }
        }
        made => made.map(drop),
    }
}
