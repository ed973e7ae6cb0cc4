//! The loop that carries a plan out. It is level-triggered: it derives from the plan what is due, starts the effects
//! that are missing, and applies their results; a restart, a lost file event and an edit by another process all take
//! the same path. Effects run beside the loop. Each result or report becomes one change of the plan, which also has
//! every decision that follows.

mod apply_input;
mod background_effects;
mod carry_out_steps;
mod changed_files;
mod effect_work;
mod exchange;
mod hooks;
mod input_routing;
mod internal_plans;
mod loop_view;
mod notify;
mod plan_run;
mod proof_runs;
mod recovery;
mod report_parsing;
mod role_requests;
mod settings;
mod start_effects;
mod summary_without_model;
mod workspace_facts;
mod worktrees;

use std::future::Future;
use std::sync::Arc;

use crate::exec;
use crate::plan::PlanState;
use crate::plan_time::Clock;
use crate::store::{Store, StoreError};
use crate::volumes::Folder;
pub use effect_work::make_plan;
use exchange::Exchange;
pub use hooks::Hook;
use input_routing::FoundInput;
pub use internal_plans::tidy as tidy_internal;
use loop_view::LoopView;
use plan_run::PlanRun;
pub use recovery::set_torn_aside;
pub use settings::{DaemonEnd, DaemonSettings, HumanWait, Models, StartedWorkers};

/// The author of the daemon's changes in the log.
const BY: &str = "daemon";

/// Carries a plan out until it is settled, nothing can go on, or `shutdown` resolves; of a plan that is settled
/// already it finishes what is left, such as the last files. The caller holds the folder's lock. What was under way
/// when an earlier daemon ended or was killed is resumed.
///
/// # Errors
/// The plan cannot be read or started, or the workspace cannot be made.
pub async fn run(
    settings: DaemonSettings,
    store: Store,
    clock: Clock,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<DaemonEnd> {
    tokio::pin!(shutdown);
    for lost in store.lost() {
        tracing::error!("{lost}");
    }
    // A shutdown waits for nothing, such as a busy store: what it cuts off is as after a kill.
    let mut daemon = tokio::select! {
        biased;
        () = &mut shutdown => return Ok(DaemonEnd::Interrupted),
        begun = Box::pin(Daemon::begin(settings, store, clock)) => begun?,
    };
    let end = tokio::select! {
        biased;
        () = &mut shutdown => Ok(DaemonEnd::Interrupted),
        end = Box::pin(daemon.carry_out()) => end,
    };
    daemon.run.effects.shut_down().await;
    daemon.exchange.effects.shut_down().await;
    let end = end?;
    if !matches!(end, DaemonEnd::Settled(_) | DaemonEnd::Displaced(_)) {
        daemon.run.leave_mission().await;
    }
    if let DaemonEnd::Settled(_) = end {
        tokio::select! {
            biased;
            () = &mut shutdown => {}
            () = daemon.clean_up() => {}
        }
    }
    tracing::info!(?end, "the daemon ends");
    Ok(end)
}

/// A folder, and the plan that is carried out through it.
struct Daemon {
    exchange: Exchange,
    run: PlanRun,
}

impl Daemon {
    /// Starts the plan, after the checks that an earlier daemon left running were ended.
    async fn begin(settings: DaemonSettings, store: Store, clock: Clock) -> anyhow::Result<Self> {
        let settings = Arc::new(settings);
        // Their next run would work in the same files at the same time.
        let marks = settings.volumes.path(Folder::Active);
        exec::end_left_behind(&marks, &exec::MarkKind::OF_DAEMON).await;
        let run = PlanRun::begin(Arc::clone(&settings), store.clone(), clock).await?;
        let exchange = Exchange::new(settings, store, clock);
        Ok(Self { exchange, run })
    }

    /// Carries the plan out until the daemon has nothing left to do. A dropped future loses nothing that the next
    /// daemon does not find.
    async fn carry_out(&mut self) -> anyhow::Result<DaemonEnd> {
        self.run.inspect_first().await?;
        self.run.recover().await?;
        self.exchange.list_questions()?;
        // The recovery of a large plan takes time; the process was not suspended.
        self.run.wake_at = self.run.clock.now();
        loop {
            // At every turn, as it only reads a file's metadata: a daemon that has replaced the lock publishes, too.
            let lock = &self.run.settings.lock;
            if lock.is_lost() {
                return Ok(DaemonEnd::Displaced(lock.path().to_owned()));
            }
            if let Some(end) = self.turn().await? {
                return Ok(end);
            }
            self.next().await;
        }
    }

    /// Starts everything that is due. Returns how the daemon ends, if it does. A store that fails is tried again: its
    /// disk may be full only for a while.
    async fn turn(&mut self) -> anyhow::Result<Option<DaemonEnd>> {
        self.run.advance_clock();
        self.run.note_gone_workers();
        self.run.retry_kept().await;
        match self.decided_view().await {
            Ok(view) => {
                self.start(&view);
                let end = self.end(&view);
                let settled = matches!(end, Some(DaemonEnd::Settled(_)));
                Ok(end.filter(|_| !(settled && self.run.report_finish())))
            }
            Err(error @ (StoreError::Database(_) | StoreError::Panicked(_))) => {
                self.run.store_failed(error);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Applies what has arrived, if a scan is due, and returns the plan after every decision that is due.
    async fn decided_view(&mut self) -> Result<LoopView, StoreError> {
        if self.exchange.scan_began.is_none() {
            // The first scan has to know what is awaited.
            let view = self.run.view().await?;
            let plan = self.run.settings.plan.clone();
            self.exchange.routes.0.insert(plan, view.awaited);
        }
        self.scan().await;
        self.run.world.scan_began = self.exchange.scan_began;
        let view = self.run.decided_view().await?;
        let (plan, awaited) = (self.run.settings.plan.clone(), view.awaited.clone());
        self.exchange.routes.0.insert(plan, awaited);
        Ok(view)
    }

    /// Scans the folders if it is time to, and applies what is new.
    async fn scan(&mut self) {
        let now = self.run.world.now;
        if self.run.take_scan_request() {
            self.exchange.scan_by(now);
        }
        if self.exchange.check_watches(now)
            && let Err(error) = self.restore_files().await
        {
            let what = exchange::ExchangeKey::Scan.to_string();
            self.exchange.effects.trouble(&what, &format!("{error:#}"));
        }
        if let Some(found) = self.exchange.scan(now) {
            let applied = self.apply(found).await;
            self.exchange.applied(applied);
        }
    }

    /// Puts back the files of folders that were removed.
    async fn restore_files(&mut self) -> anyhow::Result<()> {
        self.run.find_lost().await?;
        Ok(self.exchange.list_questions()?)
    }

    /// Applies everything that was found to the plan that it is for.
    async fn apply(&mut self, found: FoundInput) -> Result<(), StoreError> {
        let table = &self.exchange.routes;
        let (mut plans, strangers) = table
            .route(&self.run.store, &self.run.settings.volumes, found)
            .await?;
        let own = plans.remove(&self.run.settings.plan);
        let follow_up = self.run.found(own.unwrap_or_default()).await?;
        self.exchange.file(follow_up.filings);
        self.exchange.complain(follow_up.complaints);
        if self.exchange.pass_on(strangers).await? {
            // A question to a role goes to a person immediately.
            self.run.maintain_at = self.run.clock.now();
        }
        Ok(())
    }

    /// Starts everything that is missing.
    fn start(&mut self, view: &LoopView) {
        self.run.start(view, &self.exchange.shown);
        let now = self.run.world.now;
        if self.run.take_scan_request() {
            self.exchange.scan_by(now);
        }
        self.exchange.start(now, view.status.settled());
        if let Some(at) = self.exchange.wakes_at(now) {
            self.run.wake_at = self.run.wake_at.min(at);
        }
    }

    /// Waits until something happens and applies it.
    async fn next(&mut self) {
        let wait = self.run.wake_at.since(self.run.clock.now());
        tokio::select! {
            biased;
            (key, result) = self.run.effects.next() => self.run.apply(key, result).await,
            (key, result) = self.exchange.effects.next() => self.exchange.apply(&key, result),
            () = self.exchange.wake.notified() => self.exchange.scan_by(self.run.clock.now()),
            () = self.exchange.stored.notified() => {}
            Ok(()) = self.run.moved.changed() => {}
            Ok(()) = self.run.started_workers.gone.changed() => {}
            () = tokio::time::sleep(wait) => {}
        }
        // Results that exist already belong to the same turn.
        while let Some((key, result)) = self.run.effects.try_next() {
            self.run.apply(key, result).await;
        }
        while let Some((key, result)) = self.exchange.effects.try_next() {
            self.exchange.apply(&key, result);
        }
    }

    /// Returns how the daemon ends, if nothing is left to do.
    fn end(&self, view: &LoopView) -> Option<DaemonEnd> {
        let (exchange, run) = (&self.exchange, &self.run);
        if run.is_busy() || exchange.is_busy() || !view.due.steps.is_empty() {
            return None;
        }
        let (now, started) = (run.world.now, run.world.started);
        let reported = run.mission.0 == view.seq && exchange.filings.is_empty();
        if view.status.settled() {
            // A report may exist that an earlier daemon applied and did not file, or that came late. What an agent
            // writes long after the end delays nothing.
            let quiet = exchange.is_quiet(run.settled_at.unwrap_or(now), now);
            return (reported && quiet).then(|| DaemonEnd::Settled(view.status.clone()));
        }
        if run.notify_state.holds_end(now) {
            return None;
        }
        if view.status == PlanState::Idle {
            return Some(DaemonEnd::NoPlan);
        }
        let shown = view.awaited.questions.is_subset(&exchange.shown);
        if let Some(gone) = run.left_alone_at(view) {
            return (shown && reported && exchange.is_quiet(gone, now)).then_some(DaemonEnd::Waits);
        }
        let paused = matches!(view.status, PlanState::Paused(_));
        let stuck = view.due.look_again.is_none()
            && !view.due.rescan
            && (paused || !view.awaited.questions.is_empty());
        // An answer may have been saved a moment before the start.
        let scanned = exchange.scan_began.is_some() && exchange.is_finished(started, now);
        let leaves = run.settings.human_wait == HumanWait::Leave;
        let end = if view.stopped {
            DaemonEnd::Budget
        } else {
            DaemonEnd::Waits
        };
        (leaves && stuck && shown && scanned && reported).then_some(end)
    }

    /// Removes what a settled plan no longer needs.
    async fn clean_up(&mut self) {
        let run = &self.run;
        let (settings, store) = (&run.settings, &run.store);
        effect_work::warn_of_unread_files(settings);
        run.change_watch.clear().await;
        proof_runs::clear(settings).await;
        internal_plans::tidy(store, &settings.volumes, &settings.plan, run.clock.now()).await;
        if let Err(error) = worktrees::clean_up(settings, store).await {
            tracing::warn!(error = format!("{error:#}"), "worktrees stay behind");
        }
    }
}
