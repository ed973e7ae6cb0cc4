//! Plans that the daemon of a folder carries out: handed over to it, followed here, and taken up by it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use tokio::sync::watch;
use tokio::time::sleep;

use super::args::{CarryOut, QueueArgs};
use super::carry_out_plan::{Work, exit_of, stopped};
use super::run_terminal::{self, Foreground};
use super::worker_pools::TeamWorkers;
use super::{Access, App, CommandStart, Exit, Failure, Output, Process, Result, complain, control};
use crate::config::{Environment, Planner};
use crate::daemon::{DaemonEnd, HumanWait, PlanAtWork, TakeUp};
use crate::plan::{Plan, PlanHead, PlanId, PlanState, QueueEntry};
use crate::plan_time::Clock;
use crate::store::Store;
use crate::volumes::{DaemonInfo, DaemonLock};
use crate::wire::text::one_line;

/// An offer that no daemon has seen for so long is carried out by the process that made it, if the folder is free.
const OFFER: Duration = Duration::from_secs(2);

/// How often a plan is read that another process carries out. Its changes wake nothing here.
const READ_EVERY: Duration = Duration::from_millis(100);

/// Who carries a new plan out.
pub enum CarriedOutBy {
    /// This process has the folder.
    This(DaemonLock),
    /// A daemon that has the folder, or the next one.
    Daemon,
}

impl App {
    /// Takes the folder, or finds the daemon that has it and takes plans over: a new one, or this one.
    ///
    /// # Errors
    /// The daemon is of another version or carries the plan out already, or the folder cannot be used.
    pub async fn take_or_hand_over(&self, plan: Option<&PlanId>) -> Result<CarriedOutBy> {
        let busy = match self.take(None).await {
            Ok(lock) => return Ok(CarriedOutBy::This(lock)),
            Err(failure) => failure,
        };
        match self.volumes.running() {
            Some(daemon)
                if takes_over(&daemon) && !plan.is_some_and(|plan| daemon.carries_out(plan)) =>
            {
                self.make_store().await?;
                Ok(CarriedOutBy::Daemon)
            }
            _ => Err(busy),
        }
    }

    /// Returns how a plan is queued from here.
    ///
    /// # Errors
    /// The plan that it is to come after is not there.
    pub async fn queue_entry(&self, planner: &Planner, args: &QueueArgs) -> Result<QueueEntry> {
        let after = match &args.after {
            Some(name) => Some(self.plan_to_carry_out(Some(name)).await?),
            None => None,
        };
        let file = self
            .config
            .file()
            .and_then(|file| std::path::absolute(file).ok());
        Ok(QueueEntry {
            at: self.clock.now(),
            priority: args.priority,
            after,
            config: file.map(|file| file.to_string_lossy().into_owned()),
            confirmed: self.fingerprint(),
            model: self.planner_line(planner),
            ..QueueEntry::default()
        })
    }

    /// Stores how a plan is queued; `None` for a plan that a process carries out by itself.
    ///
    /// # Errors
    /// It cannot be stored.
    pub async fn set_queue(&self, plan: &PlanId, entry: Option<QueueEntry>) -> Result {
        let why = match entry {
            Some(_) => "queued",
            None => "carried out where it was begun",
        };
        self.change(plan, why, |draft| {
            draft.describe(|head| head.queue = entry.map(Box::new));
            Ok(())
        })
        .await
    }
}

/// Returns whether a daemon carries out what is queued by this program.
fn takes_over(daemon: &DaemonInfo) -> bool {
    // It says its plans when it works.
    daemon.plans.is_some() && daemon.version == env!("CARGO_PKG_VERSION")
}

/// Ends the daemon of another version that has the folder. Its plans are queued first, so that none is lost if this process is
/// killed: no result is lost by its end, and what agents do meanwhile is found afterwards.
///
/// # Errors
/// It does not end.
pub async fn end_other_version(app: &App, start: &CommandStart) -> Result {
    let other = |daemon: &DaemonInfo| daemon.version != env!("CARGO_PKG_VERSION");
    let Some(daemon) = app.volumes.running().filter(other) else {
        return Ok(());
    };
    for plan in daemon.plans.iter().flatten() {
        queue_left(&PlanId::new(plan), start, app).await;
    }
    control::end(&daemon, app).await?;
    let version = one_line(&daemon.version, 20);
    complain(&format!(
        "the daemon of version {version} (pid {}) has ended; its plans go on here\n",
        daemon.pid
    ));
    Ok(())
}

/// Queues a plan that another daemon carried out for its own terminal, with what the plan began with. One that cannot go on here is
/// named, with the reason.
async fn queue_left(plan: &PlanId, start: &CommandStart, app: &App) {
    let queue = async {
        let mut own = App::open(start, Access::Run).await?;
        own.use_store(app.store().await?.clone());
        let head = own.found(plan).await?.head;
        if head.status.settled() || head.queue.is_some() {
            return Ok(());
        }
        let mut how = CarryOut::default();
        own.recall(plan, &mut how).await?;
        let (_, planner) = own.with_workers(&how).await?;
        let entry = own.queue_entry(&planner, &QueueArgs::default()).await?;
        own.set_queue(plan, Some(entry)).await
    };
    if let Err(failure) = Box::pin(queue).await {
        let why = failure.text().unwrap_or_default();
        complain(&format!("! plan {plan} does not go on here: {why}\n"));
    }
}

/// Waits until a daemon carries a queued plan out, and shows here what happens after a change. If none does, this process carries it out itself.
///
/// # Errors
/// As [`Work::in_sight`].
pub async fn hand_over(
    app: App,
    (prepared, workers): (super::carry_out_plan::PreparedRun, TeamWorkers),
    (head, since): (PlanHead, i64),
    how: &CarryOut,
    mut process: Process<'_>,
) -> Result<Exit> {
    let (plan, offered, mut said) = (head.id.clone(), Instant::now(), None);
    loop {
        let now = app.read(&plan, |plan, _| plan.head().clone()).await?;
        let entry = now.queue.as_deref().cloned().unwrap_or_default();
        if now.status.settled() || entry.begun > head.queue.as_ref().and_then(|was| was.begun) {
            if let Some(differs) = &entry.differs {
                complain(&format!("! {}\n", one_line(differs, 600)));
            }
            return follow(&app, (&now, since), how, process).await;
        }
        let unseen = entry.waits.is_none() && offered.elapsed() >= OFFER;
        if (unseen || app.daemon().is_none())
            && let Ok(lock) = app.take(None).await
        {
            // Nothing takes it up between this and its begin: whoever does so needs the lock.
            app.set_queue(&plan, None).await?;
            let found = app.found(&plan).await?;
            let work = Work {
                app,
                prepared,
                workers,
                lock,
            };
            return Box::pin(work.in_sight(&found.head, how, process)).await;
        }
        if entry.waits != said
            && let Some(waits) = &entry.waits
        {
            complain(&format!(
                "plan {plan} is queued: it waits {}\n",
                one_line(waits, 400)
            ));
            said.clone_from(&entry.waits);
        }
        tokio::select! {
            exit = &mut process.ended => {
                complain(&format!("plan {plan} stays queued; `{} abort {plan}` ends it\n", app.program));
                return Ok(exit);
            }
            () = sleep(READ_EVERY) => {}
        }
    }
}

/// Shows a plan that another process carries out, until it ends or that process does.
async fn follow(
    app: &App,
    (head, since): (&PlanHead, i64),
    how: &CarryOut,
    process: Process<'_>,
) -> Result<Exit> {
    let of = (&head.id, head.policy.clone());
    let foreground = Foreground::new(app, of, how, true, process.output).await?;
    let foreground = foreground.since(since);
    let (stop, stopping) = watch::channel(false);
    let (store, plan, asks) = (
        app.store().await?.clone(),
        head.id.clone(),
        run_terminal::may_ask(how),
    );
    let volumes = app.volumes.clone();
    let seen = tokio::spawn(async move {
        let stopped = stopped(&stopping);
        tokio::pin!(stopped);
        loop {
            if let Some(end) = store.read(&plan, move |plan, _| end_of(plan, asks)).await? {
                return Ok(end);
            }
            if volumes.running().is_none() {
                return Ok(DaemonEnd::Interrupted);
            }
            tokio::select! {
                () = &mut stopped => return Ok(DaemonEnd::Interrupted),
                () = sleep(READ_EVERY) => {}
            }
        }
    });
    let (end, signal) = foreground.follow(seen, &stop, process.ended).await?;
    Ok(exit_of(&end, signal))
}

/// Returns how a plan has ended for a person who follows it; where nothing is asked, also if it waits for an answer.
fn end_of(plan: &Plan, asks: bool) -> Option<DaemonEnd> {
    match plan.status() {
        status if status.settled() => Some(DaemonEnd::Settled(status.clone())),
        _ if asks => None,
        PlanState::Paused(_) if plan.stopped_at().is_some() => Some(DaemonEnd::Budget),
        PlanState::Paused(_) => Some(DaemonEnd::Waits),
        _ => {
            let asked = plan.open_questions().next().is_some();
            (asked && plan.open_attempts().next().is_none()).then_some(DaemonEnd::Waits)
        }
    }
}

/// Returns what makes a queued plan ready in this process.
///
/// # Errors
/// The store cannot be opened.
pub async fn take_up(app: &App) -> Result<Arc<TakeUp>> {
    let (store, clock) = (app.store().await?.clone(), app.clock);
    let (file, environment) = (
        app.config.file().map(Path::to_owned),
        app.environment.clone(),
    );
    let root = app.volumes.root().to_owned();
    Ok(Arc::new(move |head| {
        let taken = TakenUp {
            store: store.clone(),
            clock,
            file: file.clone(),
            environment: environment.clone(),
            root: root.clone(),
        };
        Box::pin(async move {
            let ready = Box::pin(taken.ready(&head)).await;
            ready.map_err(|failure| anyhow!(failure.text().unwrap_or_default()))
        })
    }))
}

/// What a queued plan is made ready with.
struct TakenUp {
    store: Store,
    clock: Clock,
    file: Option<PathBuf>,
    environment: Environment,
    root: PathBuf,
}

impl TakenUp {
    /// Opens the configuration that the person named with the plan, and starts the workers for it.
    ///
    /// # Errors
    /// It is not as it was confirmed, or something cannot be started.
    async fn ready(self, head: &PlanHead) -> Result<PlanAtWork> {
        let entry = head.queue.as_deref().cloned().unwrap_or_default();
        let start = CommandStart {
            folder: None,
            file: entry.config.map(PathBuf::from).or(self.file),
            environment: self.environment,
        };
        let mut app = App::open(&start, Access::Run).await?;
        if app.volumes.root() != self.root {
            let other = app.volumes.root().display();
            return Err(Failure::failed(anyhow!(
                "its configuration leads to `{other}`"
            )));
        }
        app.clock = self.clock;
        app.use_store(self.store);
        // Nobody is asked here, and nothing printed: who queued it may be far away.
        let mut how = CarryOut {
            json: true,
            ..CarryOut::default()
        };
        app.recall(&head.id, &mut how).await?;
        app.load_team(&how.team).await?;
        app.require_same(&entry.confirmed).await?;
        let workers = TeamWorkers::choose(&how.agent, &mut app).await?;
        let planner = app.planner(workers.general.as_ref())?;
        let mut found = app.found(&head.id).await?;
        app.check_found(&found).await?;
        let mut output = Output::stdout(&app.environment);
        let placed = app.resume_isolation(&mut found, &workers, &how, &mut output);
        Box::pin(placed).await?;
        let own = app.planner_line(&planner);
        if own != entry.model {
            app.note_difference(&head.id, &own).await?;
        }
        let prepared = app.prepare(&planner)?;
        app.at_work(&prepared, &workers, &found.head, HumanWait::Wait)
            .await
    }
}

impl App {
    /// Notes at a queued plan that the daemon has another model than the person who queued it.
    async fn note_difference(&self, plan: &PlanId, own: &str) -> Result {
        let own = match own.trim() {
            "" => "no model plans and judges there: rules do".to_owned(),
            own => own.to_owned(),
        };
        self.change(plan, "the daemon has another model", move |draft| {
            draft.describe(|head| {
                if let Some(entry) = &mut head.queue {
                    entry.differs = Some(format!("the daemon has another model: {own}"));
                }
            });
            Ok(())
        })
        .await
    }
}
