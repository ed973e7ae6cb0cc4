//! The task that owns the connection and the plans in memory.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

use super::sql::{Connected, LogRecord, OpenError, RowRecord, Script, decode_delta, encode_delta};
use super::{Change, Listed, StoreError};
use crate::plan::{CommandId, Draft, Head, Plan, PlanId, Refusal, Row, RowKey, Time};

/// Changes committed with one flush at most, so that none waits long for the others.
const BATCH: usize = 64;

/// Plans kept in memory; a daemon has one, a server a few.
const CACHED: usize = 16;

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

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

type Run = Box<dyn FnOnce(&mut Draft<'_>) -> Result<(), Refusal> + Send>;

/// A change handed in.
pub(super) struct ChangeJob {
    pub plan: PlanId,
    /// The plan is made first.
    pub head: Option<Box<Head>>,
    pub by: String,
    pub why: String,
    pub run: Run,
    pub done: Answer<()>,
}

type Read = Box<dyn FnOnce(Result<(&Plan, i64), StoreError>) + Send>;

/// What the owner does for others.
pub(super) enum Job {
    Change(ChangeJob),
    Read {
        plan: PlanId,
        run: Read,
    },
    Since {
        plan: PlanId,
        seq: i64,
        limit: i64,
        done: Answer<Vec<Change>>,
    },
    Plans {
        done: Answer<Vec<Listed>>,
    },
    PlanOf {
        command: CommandId,
        done: Answer<Option<PlanId>>,
    },
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Job")
    }
}

struct Cached {
    plan: Plan,
    seq: i64,
}

pub(super) struct Owner {
    url: String,
    /// The file of an embedded store.
    file: Option<PathBuf>,
    connected: Option<Connected>,
    now: Box<dyn Fn() -> Time + Send>,
    plans: HashMap<PlanId, Cached>,
    announce: watch::Sender<u64>,
}

/// The plans that nobody else can change until the transaction ends.
struct Locked {
    /// The plan that the transaction began with, with its seq, until it is brought up to date.
    first: Option<(PlanId, Option<i64>)>,
    plans: HashSet<PlanId>,
}

/// What a batch of changes is going to write.
#[derive(Default)]
struct Writes {
    rows: BTreeMap<(PlanId, RowKey), RowRecord>,
    log: Vec<LogRecord>,
    seqs: BTreeMap<PlanId, i64>,
}

impl Owner {
    pub(super) async fn open(
        url: &str,
        file: Option<PathBuf>,
        now: Box<dyn Fn() -> Time + Send>,
        announce: watch::Sender<u64>,
    ) -> Result<Self, OpenError> {
        let connected = Some(Connected::open(url).await?);
        Ok(Self {
            url: url.to_owned(),
            file,
            connected,
            now,
            plans: HashMap::new(),
            announce,
        })
    }

    /// Serves until the last handle is gone.
    pub(super) async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        while let Some(first) = jobs.recv().await {
            let mut changes = Vec::new();
            let mut others = Vec::new();
            let mut next = Some(first);
            while let Some(job) = next {
                match job {
                    Job::Change(change) => changes.push(change),
                    other => others.push(other),
                }
                next = if changes.len() < BATCH {
                    jobs.try_recv().ok()
                } else {
                    None
                };
            }
            if !changes.is_empty() {
                self.commit(changes).await;
            }
            for job in others {
                self.answer(job).await;
            }
        }
    }

    async fn answer(&mut self, job: Job) {
        match job {
            Job::Change(change) => self.commit(vec![change]).await,
            Job::Read { plan, run } => match self.fresh(&plan).await {
                Ok(()) => run(self.cached(&plan).map(|cached| (&cached.plan, cached.seq))),
                Err(error) => run(Err(error)),
            },
            Job::Since {
                plan,
                seq,
                limit,
                done,
            } => drop(done.send(self.since(&plan, seq, limit).await)),
            Job::Plans { done } => drop(done.send(self.list().await)),
            Job::PlanOf { command, done } => drop(done.send(self.plan_of(&command).await)),
        }
    }

    /// Runs the closures and commits what they did with one flush.
    async fn commit(&mut self, jobs: Vec<ChangeJob>) {
        let Some(first) = jobs.first().map(|job| job.plan.clone()) else {
            return;
        };
        let mut locked = match self.begin(&first).await {
            Ok(seq) => Locked {
                first: Some((first, seq)),
                plans: HashSet::new(),
            },
            Err(error) => {
                for job in jobs {
                    drop(job.done.send(Err(StoreError::Database(error.to_string()))));
                }
                return;
            }
        };
        let mut writes = Writes::default();
        let mut waiting = Vec::new();
        for job in jobs {
            let done = match self.run_change(job, &mut writes, &mut locked).await {
                (done, Ok(())) => done,
                (done, Err(error)) => {
                    drop(done.send(Err(error)));
                    continue;
                }
            };
            waiting.push(done);
        }
        let result = if writes.log.is_empty() {
            self.nothing_to_write().await
        } else {
            self.write(&writes).await
        };
        match result {
            Ok(()) => {
                // Whoever looks again at every change and changes nothing must not wake itself.
                if !writes.log.is_empty() {
                    self.tell();
                }
                for done in waiting {
                    drop(done.send(Ok(())));
                }
            }
            Err(error) => {
                for plan in writes.seqs.keys() {
                    self.plans.remove(plan);
                }
                for done in waiting {
                    drop(done.send(Err(StoreError::Database(error.to_string()))));
                }
            }
        }
    }

    /// Tells this process and, through the time of the file, every other one that watches it.
    fn tell(&self) {
        self.announce.send_modify(|count| *count += 1);
        if let Some(file) = &self.file
            && let Err(error) = utimensat(CWD, file, &NOW, AtFlags::empty())
        {
            tracing::debug!(%error, "other processes are not told of a change");
        }
    }

    /// Begins a transaction and returns the seq of the first plan that it is about.
    async fn begin(&mut self, plan: &PlanId) -> Result<Option<i64>, sqlx::Error> {
        if let Some(connected) = &mut self.connected {
            match connected.begin_on(plan).await {
                // A server that was restarted: once more on a new connection.
                Err(sqlx::Error::Io(_)) => self.connected = None,
                Err(error) => {
                    // It may have begun all the same.
                    connected.roll_back().await;
                    return Err(error);
                }
                begun => return begun,
            }
        }
        self.connection().await?.begin_on(plan).await
    }

    async fn connection(&mut self) -> Result<&mut Connected, sqlx::Error> {
        if self.connected.is_none() {
            let connected = Connected::open(&self.url)
                .await
                .map_err(|error| match error {
                    OpenError::Database(error) => error,
                    newer @ OpenError::Newer(_) => {
                        sqlx::Error::Configuration(newer.to_string().into())
                    }
                })?;
            self.connected = Some(connected);
        }
        self.connected.as_mut().ok_or(sqlx::Error::WorkerCrashed)
    }

    async fn nothing_to_write(&mut self) -> Result<(), sqlx::Error> {
        self.connection().await?.roll_back().await;
        Ok(())
    }

    async fn run_change(
        &mut self,
        job: ChangeJob,
        writes: &mut Writes,
        locked: &mut Locked,
    ) -> (Answer<()>, Result<(), StoreError>) {
        let ChangeJob {
            plan: id,
            head,
            by,
            why,
            run,
            done,
        } = job;
        let now = (self.now)();
        let new = head.is_some();
        let ready = match head {
            Some(head) => self.make(*head, now, locked).await,
            None if locked.plans.contains(&id) => Ok(()),
            None => self.lock(&id, locked).await,
        };
        if let Err(error) = ready {
            return (done, Err(error));
        }
        let Some(cached) = self.plans.get_mut(&id) else {
            return (done, Err(StoreError::UnknownPlan(id)));
        };
        let mut draft = Draft::new(&mut cached.plan, now);
        if let Err(refusal) = run(&mut draft) {
            draft.undo();
            let unmade = if new { self.unmake(&id).await } else { Ok(()) };
            return (done, unmade.and(Err(refusal.into())));
        }
        let mut delta = draft.finish();
        if new && !delta.rows.iter().any(|row| matches!(row, Row::Head(_))) {
            let head = cached.plan.head().clone();
            delta.rows.insert(0, Row::Head(Box::new(head)));
        }
        if delta.rows.is_empty() {
            return (done, Ok(()));
        }
        cached.seq += 1;
        let seq = cached.seq;
        let result = writes.add(&id, seq, now, by, why, delta);
        (
            done,
            result.map_err(|error| StoreError::Damaged {
                plan: id,
                reason: error.to_string(),
            }),
        )
    }

    async fn make(&mut self, head: Head, now: Time, locked: &mut Locked) -> Result<(), StoreError> {
        let id = head.id.clone();
        let free = self.connection().await?.add_plan(&id, now.0).await?;
        if !free {
            return Err(StoreError::PlanTaken(id));
        }
        self.plans.insert(
            id.clone(),
            Cached {
                plan: Plan::new(head),
                seq: 0,
            },
        );
        locked.plans.insert(id);
        Ok(())
    }

    async fn unmake(&mut self, id: &PlanId) -> Result<(), StoreError> {
        self.plans.remove(id);
        Ok(self.connection().await?.take_plan(id).await?)
    }

    async fn lock(&mut self, id: &PlanId, locked: &mut Locked) -> Result<(), StoreError> {
        let seq = match locked.first.take_if(|(first, _)| first == id) {
            Some((_, seq)) => seq,
            None => self.connection().await?.lock_plan(id).await?,
        };
        self.bring_up_to(id, seq).await?;
        locked.plans.insert(id.clone());
        Ok(())
    }

    /// Brings the plan in memory to what is committed.
    async fn fresh(&mut self, id: &PlanId) -> Result<(), StoreError> {
        let seq = self.connection().await?.seq(id).await?;
        self.bring_up_to(id, seq).await
    }

    async fn bring_up_to(&mut self, id: &PlanId, seq: Option<i64>) -> Result<(), StoreError> {
        let Some(seq) = seq else {
            self.plans.remove(id);
            return Err(StoreError::UnknownPlan(id.clone()));
        };
        match self.plans.get(id).map(|cached| cached.seq) {
            Some(known) if known == seq => Ok(()),
            Some(known) if known < seq => self.catch_up(id, known, seq).await,
            _ => self.load(id, seq).await,
        }
    }

    /// Takes in what another process has changed: the log has the rows as they became.
    async fn catch_up(&mut self, id: &PlanId, known: i64, seq: i64) -> Result<(), StoreError> {
        let changes = self.since(id, known, seq - known).await?;
        let Some(cached) = self.plans.get_mut(id) else {
            return Err(StoreError::UnknownPlan(id.clone()));
        };
        for row in changes.into_iter().flat_map(|change| change.delta.rows) {
            drop(cached.plan.put(row));
        }
        cached.seq = seq;
        Ok(())
    }

    async fn load(&mut self, id: &PlanId, seq: i64) -> Result<(), StoreError> {
        let damaged = |reason: String| StoreError::Damaged {
            plan: id.clone(),
            reason,
        };
        let bodies = self.connection().await?.rows(id).await?;
        let rows: Vec<Row> = bodies
            .iter()
            .map(|body| serde_json::from_str(body))
            .collect::<Result<_, _>>()
            .map_err(|error| damaged(error.to_string()))?;
        let plan = Plan::from_rows(rows).ok_or_else(|| damaged("it has no head".to_owned()))?;
        if self.plans.len() >= CACHED {
            self.plans.clear();
        }
        self.plans.insert(id.clone(), Cached { plan, seq });
        Ok(())
    }

    fn cached(&self, id: &PlanId) -> Result<&Cached, StoreError> {
        self.plans
            .get(id)
            .ok_or_else(|| StoreError::UnknownPlan(id.clone()))
    }

    async fn write(&mut self, writes: &Writes) -> Result<(), sqlx::Error> {
        let connected = self.connection().await?;
        let Err(error) = connected.commit(writes.script()).await else {
            return Ok(());
        };
        connected.roll_back().await;
        // A connection that broke at COMMIT leaves open whether it took effect: the log knows.
        if connected.remote() {
            self.connected = None;
        }
        let Some(last) = writes.log.last() else {
            return Err(error);
        };
        match self
            .connection()
            .await?
            .has_change(&last.plan, last.seq, &last.change_id)
            .await
        {
            Ok(true) => Ok(()),
            _ => Err(error),
        }
    }

    async fn since(
        &mut self,
        plan: &PlanId,
        seq: i64,
        limit: i64,
    ) -> Result<Vec<Change>, StoreError> {
        let records = self.connection().await?.log_after(plan, seq, limit).await?;
        let read = |record: LogRecord| {
            let delta = decode_delta(&record.delta).map_err(|error| StoreError::Damaged {
                plan: plan.clone(),
                reason: format!("log entry {}: {error}", record.seq),
            })?;
            Ok(Change {
                seq: record.seq,
                at: Time(record.at),
                by: record.author,
                why: record.why,
                delta,
            })
        };
        records.into_iter().map(read).collect()
    }

    async fn plan_of(&mut self, command: &CommandId) -> Result<Option<PlanId>, StoreError> {
        Ok(self.connection().await?.plan_of(command).await?)
    }

    async fn list(&mut self) -> Result<Vec<Listed>, StoreError> {
        let heads = self.connection().await?.heads().await?;
        let read = |(id, seq, body): (String, i64, String)| {
            let damaged = |reason: String| StoreError::Damaged {
                plan: PlanId::new(id),
                reason,
            };
            match serde_json::from_str(&body) {
                Ok(Row::Head(head)) => Ok(Listed { seq, head: *head }),
                Ok(_) => Err(damaged("its head is another row".to_owned())),
                Err(error) => Err(damaged(error.to_string())),
            }
        };
        heads.into_iter().map(read).collect()
    }
}

impl Writes {
    fn add(
        &mut self,
        plan: &PlanId,
        seq: i64,
        now: Time,
        by: String,
        why: String,
        delta: crate::plan::Delta,
    ) -> Result<(), serde_json::Error> {
        for row in &delta.rows {
            let key = row.key();
            let (kind, id) = key.parts();
            let record = (plan.to_string(), kind, id, serde_json::to_string(row)?);
            self.rows.insert((plan.clone(), key), record);
        }
        self.log.push(LogRecord {
            plan: plan.to_string(),
            seq,
            change_id: Uuid::now_v7().to_string(),
            at: now.0,
            author: by,
            why,
            delta: encode_delta(delta)?,
        });
        self.seqs.insert(plan.clone(), seq);
        Ok(())
    }

    fn script(&self) -> Script<'_> {
        let mut script = Script::default();
        for (plan, seq) in &self.seqs {
            script.set_seq(plan, *seq);
        }
        script.write_rows(&self.rows.values().collect::<Vec<_>>());
        script.write_log(&self.log);
        script
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error.to_string())
    }
}
