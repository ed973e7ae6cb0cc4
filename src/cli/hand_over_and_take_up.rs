//! Plans that the daemon of a folder carries out: handed over to it, followed here, and taken up by it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use tokio::sync::watch;
use tokio::time::sleep;

use super::remembered::Marks;
use super::{
    Access, App, CarryOut, CommandStart, Ended, Exit, Failure, Foreground, Result, TeamWorkers,
    Work, complain, exit_of, plan_control, run_terminal, signals, stopped,
};
use crate::config::Planner;
use crate::daemon::{self, DaemonEnd, HumanWait, PlanAtWork, TakeUp};
use crate::plan::{HumanQuestion, Plan, PlanHead, PlanId, PlanState, QueueEntry};
use crate::store::StoreError;
use crate::volumes::{DaemonInfo, DaemonLock};
use crate::wire::{one_line, sha256};

/// An offer that no daemon has seen for so long is carried out by the process that made it, if the folder is free.
const OFFER: Duration = Duration::from_secs(2);

/// Who makes the changes of a plan that a daemon begins, for the log.
const QUEUE: &str = "queue";

/// So long a daemon may have the folder before it says its plans: it reads its configuration and the project.
const STARTS: Duration = Duration::from_secs(10);

/// How often a plan is read that another process carries out. Its changes wake nothing here.
const READ_EVERY: Duration = Duration::from_millis(100);

impl App {
    /// Takes the folder; `None` if a daemon has it that takes plans over: a new one, or this one.
    ///
    /// # Errors
    /// The daemon is of another version or carries the plan out already, or the folder cannot be used.
    pub async fn take_or_hand_over(&self, plan: Option<&PlanId>) -> Result<Option<DaemonLock>> {
        let begun = Instant::now();
        let (busy, daemon) = loop {
            let busy = match self.take(None).await {
                Ok(lock) => return Ok(Some(lock)),
                Err(failure) if failure.exit != Exit::Busy => return Err(failure),
                Err(failure) => failure,
            };
            // One that begins has said nothing yet, and one that has just ended says nothing any more.
            match self.volumes.running() {
                Some(daemon) if daemon.plans.is_some() => break (busy, daemon),
                _ if begun.elapsed() < STARTS => sleep(READ_EVERY).await,
                Some(daemon) => break (busy, daemon),
                None => return Err(busy),
            }
        };
        if let Some(plan) = plan.filter(|plan| self.is_carried_out(plan)) {
            let pid = daemon.pid;
            let error =
                anyhow!("the daemon of this folder (pid {pid}) carries plan {plan} out already");
            let hint = format!("`{} status --watch {plan}` shows it", self.program);
            return Err(Failure::new(error, Exit::Busy).hint(hint));
        }
        if !takes_over(&daemon) {
            return Err(busy);
        }
        self.make_store().await?;
        Ok(None)
    }

    /// Returns how a plan is queued from here. What it is carried out with counts as confirmed by the person from now on.
    pub fn queue_entry(&self, workers: &TeamWorkers) -> QueueEntry {
        let file = self.config.file();
        let file = file.and_then(|file| std::path::absolute(file).ok());
        let entry = QueueEntry {
            at: self.clock.now(),
            config: file.map(|file| file.to_string_lossy().into_owned()),
            confirmed: self.fingerprint(),
            model: self.model_line(&workers.planner),
            path: self.environment.get("PATH").map(str::to_owned),
            ..QueueEntry::default()
        };
        if let Err(error) = self.confirm_queued(&entry, &self.marks(workers)) {
            complain!("! no daemon begins the plan: what you confirm cannot be kept: {error}");
        }
        entry
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
            draft.change_head(|head| head.queue = entry.map(Box::new));
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
    let mut left = Vec::new();
    for plan in daemon.plans.iter().flatten().map(PlanId::new) {
        if queue_left(&plan, start, app).await {
            left.push(plan);
        }
    }
    if let Err(failure) = plan_control::end(&daemon, app).await {
        // They stay with the terminal that began them.
        for plan in left {
            app.set_queue(&plan, None).await?;
        }
        return Err(failure);
    }
    let version = one_line(&daemon.version, 20);
    complain!(
        "the daemon of version {version} (pid {}) has ended; its plans go on here",
        daemon.pid
    );
    Ok(())
}

/// Queues a plan that another daemon carried out for its own terminal, with what the plan began with, and returns whether it did.
/// One that cannot go on here is named, with the reason.
async fn queue_left(plan: &PlanId, start: &CommandStart, app: &App) -> bool {
    let queue = async {
        let mut own = App::open(start, Access::Run).await?;
        own.use_store(app.store().await?.clone());
        let head = own.found(plan).await?.head;
        if head.status.settled() || head.queue.is_some() {
            return Ok(false);
        }
        let mut how = CarryOut::default();
        own.recall(plan, &mut how).await?;
        let workers = own.with_workers(&how).await?;
        own.set_queue(plan, Some(own.queue_entry(&workers))).await?;
        Ok::<_, Failure>(true)
    };
    Box::pin(queue).await.unwrap_or_else(|failure| {
        let why = failure.text();
        complain!("! plan {plan} does not go on here: {why}");
        false
    })
}

impl Work {
    /// Waits until a daemon carries a queued plan out, and shows here what happens after a change. If none does, this process
    /// carries it out itself.
    ///
    /// # Errors
    /// The daemon is gone and has left a plan half done in the same folder; else as [`Work::in_sight`].
    pub async fn hand_over(
        self,
        (head, mut since): (PlanHead, i64),
        mut ended: Ended,
    ) -> Result<Exit> {
        let (app, plan) = (&self.app, &head.id);
        let (offered, mut said) = (Instant::now(), None);
        let mut carried_out = Vec::new();
        app.warn_of_suspended_daemon();
        loop {
            let daemon = app.volumes.running();
            let gone = daemon.is_none();
            carried_out = daemon
                .and_then(|daemon| daemon.plans)
                .unwrap_or(carried_out);
            let now = tokio::select! {
                biased;
                exit = &mut ended => return Ok(stays_queued(exit, plan, app)),
                now = head_of(plan, app) => now?,
            };
            let entry = now.queue.as_deref().cloned().unwrap_or_default();
            let begun = entry.begun > head.queue.as_ref().and_then(|was| was.begun);
            if now.status.settled() || begun && !gone {
                if let Some(differs) = &entry.differs {
                    complain!("! {}", one_line(differs, 600));
                }
                match self.follow((&now, since), ended).await? {
                    Ok(exit) => return Ok(exit),
                    Err(seen) => since = seen,
                }
                complain!("! the daemon that carried plan {plan} out is gone");
                ended = signals::ended();
                continue;
            }
            let unseen = entry.waits.is_none() && offered.elapsed() >= OFFER;
            if (unseen || gone)
                && let Ok(lock) = app.take(None).await
            {
                app.refuse_beside_left_agent(&now).await?;
                app.refuse_half_done(&now, &carried_out).await?;
                // Nothing takes it up between this and its begin: that needs the lock.
                app.set_queue(plan, None).await?;
                let found = app.found(plan).await?;
                return Box::pin(self.in_sight(lock, &found.head, ended)).await;
            }
            if entry.waits != said
                && let Some(waits) = &entry.waits
            {
                let waits = one_line(waits, 400);
                complain!("plan {plan} is queued: it waits {waits}");
                said.clone_from(&entry.waits);
            }
            tokio::select! {
                exit = &mut ended => return Ok(stays_queued(exit, plan, app)),
                () = sleep(READ_EVERY) => {}
            }
        }
    }

    /// Shows a plan that another process carries out, until it ends. If that process is gone without a word, it returns up to which
    /// change all was shown.
    async fn follow(
        &self,
        (head, since): (&PlanHead, i64),
        ended: Ended,
    ) -> Result<Result<Exit, i64>> {
        let app = &self.app;
        let mut foreground = Foreground::new(self, &head.id, head.policy.clone()).await?;
        foreground.seq = since;
        let (stop, stopping) = watch::channel(false);
        let (store, volumes) = (app.store().await?.clone(), app.volumes.clone());
        let (plan, asks) = (head.id.clone(), run_terminal::may_ask(&self.how));
        let is_gone = Arc::new(AtomicBool::new(false));
        let gone = Arc::clone(&is_gone);
        let seen = tokio::spawn(async move {
            let stopped = stopped(&stopping);
            tokio::pin!(stopped);
            loop {
                // Before the plan is read: a daemon that is gone has said how the plan ended.
                let alone = volumes.running().is_none();
                match store.read(&plan, move |plan, _| end_of(plan, asks)).await {
                    Ok(Some(end)) => return Ok(end),
                    Ok(None) | Err(StoreError::Database(_)) => {}
                    Err(error) => return Err(error.into()),
                }
                if alone {
                    if volumes.vanished().is_some() {
                        gone.store(true, Ordering::Relaxed);
                        bail!("the daemon is gone");
                    }
                    // One that ends by itself removes its note, and this process ends with it; or another one has begun.
                    if volumes.running().is_none() {
                        return Ok(DaemonEnd::Interrupted);
                    }
                }
                tokio::select! {
                    () = &mut stopped => return Ok(DaemonEnd::Interrupted),
                    () = sleep(READ_EVERY) => {}
                }
            }
        });
        match foreground.follow(seen, &stop, ended).await {
            Err(_) if is_gone.load(Ordering::Relaxed) => Ok(Err(foreground.seq)),
            Err(failure) => Err(failure),
            Ok((end, signal)) => Ok(Ok(exit_of(&end, signal))),
        }
    }
}

impl App {
    /// Refuses to begin a plan where another one is half done that a daemon carried out which is gone: its agents may still work.
    async fn refuse_half_done(&self, head: &PlanHead, carried_out: &[String]) -> Result {
        for id in carried_out {
            let id = PlanId::new(id);
            let other = self.read(&id, |plan, _| {
                let half_done = plan.open_attempts().next().is_some();
                half_done.then(|| plan.head().clone())
            });
            // One that was removed meanwhile is not in the way.
            let Ok(Some(other)) = other.await else {
                continue;
            };
            if head.is_kept_by_head(&other) && other.id != head.id && !other.status.settled() {
                let (plan, program) = (&head.id, &self.program);
                let error = anyhow!(
                    "plan {plan} has not begun: plan {id}, which works in the same folder, is half done, and its daemon is gone"
                );
                let hint = format!(
                    "`{program} resume {id}` goes on with it, and then with {plan}; `{program} resume {plan}` begins at once"
                );
                return Err(Failure::new(error, Exit::Busy).hint(hint));
            }
        }
        Ok(())
    }

    /// Refuses to begin a plan in a folder where an agent still works for a plan that no daemon carries out.
    ///
    /// # Errors
    /// Names that plan; or the store fails.
    pub async fn refuse_beside_left_agent(&self, head: &PlanHead) -> Result {
        if head.status.settled() {
            return Ok(());
        }
        let own = std::slice::from_ref(&head.id);
        let left = daemon::plans_with_left_agents(self.store().await?, &self.volumes, own).await?;
        let Some(other) = left.iter().find(|other| head.is_kept_by_head(other)) else {
            return Ok(());
        };
        let (plan, program, id) = (&head.id, &self.program, &other.id);
        let error = anyhow!(
            "plan {plan} has not begun: an agent still works in the same folder, on plan {id}, and its daemon is gone"
        );
        let goes_on = match other.status.settled() {
            true => String::new(),
            false => format!("`{program} resume {id}` goes on with it, "),
        };
        let hint =
            format!("{goes_on}`{program} abort {id}` ends it; then `{program} resume {plan}`");
        Err(Failure::new(error, Exit::Busy).hint(hint))
    }
}

/// Reads a plan as soon as the store answers.
async fn head_of(plan: &PlanId, app: &App) -> Result<PlanHead> {
    loop {
        match app.read(plan, |plan, _| plan.head().clone()).await {
            Err(failure) if failure.of_store => sleep(READ_EVERY).await,
            head => return head,
        }
    }
}

fn stays_queued(exit: Exit, plan: &PlanId, app: &App) -> Exit {
    let program = &app.program;
    complain!("plan {plan} stays queued; `{program} abort {plan}` ends it");
    exit
}

/// Returns how a plan has ended for a person who follows it; where nothing is asked, also if it waits for an answer.
fn end_of(plan: &Plan, asks: bool) -> Option<DaemonEnd> {
    match plan.status() {
        status if status.settled() => Some(DaemonEnd::Settled(status.clone())),
        _ if asks => None,
        PlanState::Paused(_) if plan.stopped_at().is_some() => Some(DaemonEnd::Budget),
        PlanState::Paused(_) => Some(DaemonEnd::Waits),
        _ => {
            // A model that is away is asked again beside its question.
            let away = |question: &HumanQuestion| {
                let ask = question.ask.as_ref().and_then(|id| plan.ask(id));
                ask.is_some_and(|ask| ask.away.is_some())
            };
            let asked = plan.open_questions().any(|question| !away(question));
            (asked && plan.open_attempts().next().is_none()).then_some(DaemonEnd::Waits)
        }
    }
}

/// Returns what makes a queued plan ready in this process, whose store is open.
pub fn take_up(app: &App) -> Arc<TakeUp> {
    let daemon = Arc::new(app.clone());
    Arc::new(move |head, in_use| {
        let daemon = Arc::clone(&daemon);
        Box::pin(async move {
            let ready = Box::pin(daemon.ready(&head, in_use)).await;
            ready.map_err(|failure| {
                let text = failure.text();
                anyhow!(text.strip_prefix("error: ").unwrap_or(&text).to_owned())
            })
        })
    })
}

impl App {
    /// Opens the configuration that the person named with the plan, decides where its agents work, and starts the workers for it:
    /// where its folder is `in_use`, only if its tasks have worktrees.
    ///
    /// # Errors
    /// It is not as it was confirmed, or something cannot be started.
    async fn ready(&self, head: &PlanHead, in_use: bool) -> Result<Option<PlanAtWork>> {
        let adopted = self.adopt_orphan(head).await?;
        let head = adopted.as_ref().unwrap_or(head);
        let entry = head.queue.as_deref().cloned().unwrap_or_default();
        let file = entry.config.as_ref().map(PathBuf::from);
        let app = self.open_for(file, entry.path.as_deref()).await?;
        if app.volumes.root() != self.volumes.root() {
            let other = app.volumes.root().display();
            return Err(anyhow!("its configuration leads to `{other}`").into());
        }
        // Nobody is asked here, and nothing printed: who queued it may be far away.
        let how = CarryOut {
            json: true,
            ..CarryOut::default()
        };
        let marks = app.require_queued(&head.id, &entry)?;
        let work = app
            .recalled(&head.id, (&entry.confirmed, true), how)
            .await?;
        let app = &work.app;
        let mut found = app.found(&head.id).await?;
        app.check_found(&found).await?;
        Box::pin(work.resume_isolation(&mut found)).await?;
        if in_use && !found.head.is_isolated() {
            return Ok(None);
        }
        work.note_differences(&head.id, &entry, &marks).await?;
        work.start(&found.head, HumanWait::Wait).await.map(Some)
    }

    /// Opens the configuration in a file, else that of the daemon.
    async fn open_for(&self, file: Option<PathBuf>, path: Option<&str>) -> Result<Self> {
        let start = CommandStart {
            folder: None,
            file: file.or_else(|| self.config.file().map(Path::to_owned)),
            environment: self.environment.clone().with_path(path),
        };
        let mut app = Self::open(&start, Access::Run).await?;
        (app.clock, app.by) = (self.clock, QUEUE);
        if start.file.as_deref() == self.config.file() {
            // A hint that names the file would confirm it, whatever is in it by then.
            app.program.clone_from(&self.program);
        }
        app.use_store(self.store().await?.clone());
        Ok(app)
    }

    /// Makes a plan of another folder one of this folder's; `None` if it is already.
    async fn adopt_orphan(&self, head: &PlanHead) -> Result<Option<PlanHead>> {
        // In a file of the folder every plan is its own, also one that a copy brought from a server.
        let own = self.volumes.home();
        if head.home.as_ref().is_none_or(|home| *home == own) || !self.store().await?.is_shared() {
            return Ok(None);
        }
        let mut app = self.open_for(None, None).await?;
        Box::pin(app.adopt(head, None)).await?;
        let head = app.read(&head.id, |plan, _| plan.head().clone()).await?;
        Ok(Some(head))
    }

    fn marks(&self, workers: &TeamWorkers) -> Marks {
        let mut names: Vec<&str> = self.config.worker.env.iter().map(String::as_str).collect();
        if let Some(agent) = &workers.general {
            names.extend(agent.env().split_whitespace());
        }
        names.retain(|name| name.contains("KEY") || name.contains("TOKEN"));
        if let Planner::Model { endpoint, .. } = &workers.planner {
            names.push(&endpoint.key_variable);
        }
        let mark = |name: &str| {
            let hash = sha256(format!("{name}={}", self.environment.get(name)?));
            Some((name.to_owned(), hash[..8].to_owned()))
        };
        names.into_iter().filter_map(mark).collect()
    }
}

impl Work {
    /// Notes at a queued plan what this daemon has otherwise than the person who queued it: the model, keys, or the `PATH` by which
    /// checks and hooks are found.
    async fn note_differences(&self, plan: &PlanId, entry: &QueueEntry, marks: &Marks) -> Result {
        let (app, workers) = (&self.app, &self.workers);
        let (model, own) = (app.model_line(&workers.planner), app.marks(workers));
        let mut differs = Vec::new();
        if model != entry.model {
            let model = match model.as_str() {
                "" => "no model plans and judges there: rules do",
                model => model,
            };
            differs.push(format!("the daemon has another model: {model}"));
        }
        let names: BTreeSet<&String> = own.keys().chain(marks.keys()).collect();
        let names = names.into_iter();
        let other = names.filter(|name| own.get(*name) != marks.get(*name));
        differs.extend(other.map(|name| format!("the daemon has another `{name}` than you")));
        // That of this process: the environment here has the person's already.
        if entry.path.as_deref() != std::env::var("PATH").ok().as_deref() {
            let found = "checks and hooks are found by it";
            differs.push(format!("the daemon has another `PATH` than you: {found}"));
        }
        if differs.is_empty() {
            return Ok(());
        }
        app.change(plan, "the daemon differs", move |draft| {
            draft.change_head(|head| {
                if let Some(entry) = &mut head.queue {
                    entry.differs = Some(differs.join("; "));
                }
            });
            Ok(())
        })
        .await
    }
}
