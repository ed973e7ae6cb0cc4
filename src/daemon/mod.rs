//! The loop that carries a plan out. Level-triggered: it asks the plan what is due, starts what is missing, and takes in
//! what comes back; a restart, a lost file event and an edit by somebody else all take the same path. What is done outside
//! runs beside the loop and comes back as an `Input`; each input becomes one change of the plan, in which everything that
//! follows from it by itself is decided as well.

mod apply_input;
mod background_effects;
mod carry_out_steps;
mod changed_files;
mod effect_work;
mod exchange;
mod hooks;
mod internal_plans;
mod plan_digest;
mod plan_run;
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

use crate::plan::PlanState;
use crate::plan_time::Clock;
use crate::store::{Store, StoreError};
pub use effect_work::make_plan;
use exchange::{Exchange, FoundInput};
pub use hooks::Hook;
pub use internal_plans::tidy as tidy_internal;
use plan_digest::LoopView;
use plan_run::PlanRun;
pub use recovery::set_torn_aside;
pub use settings::{DaemonEnd, DaemonSettings, HumanWait, Models, StartedWorkers};

/// Who changes the plan, as its log says.
const BY: &str = "daemon";

/// Carries a plan out until it is settled, nothing can go on, or `shutdown` resolves; of a plan that is settled already it
/// finishes what is left, such as the last files. Whoever calls this holds the folder's
/// lock. Whatever was under way when an earlier daemon ended is taken up again.
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
    // Whoever wants this to end waits for nothing, such as a store that is busy: what is cut off is as after a kill.
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
    if let DaemonEnd::Settled(_) = end {
        tokio::select! {
            biased;
            () = &mut shutdown => {}
            () = daemon.tidy() => {}
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
    /// Starts the plan, after what an earlier daemon left running has ended.
    async fn begin(settings: DaemonSettings, store: Store, clock: Clock) -> anyhow::Result<Self> {
        let settings = Arc::new(settings);
        effect_work::end_checks_left_behind(&settings).await;
        let run = PlanRun::begin(Arc::clone(&settings), store.clone(), clock).await?;
        let exchange = Exchange::new(settings, store, clock);
        Ok(Self { exchange, run })
    }

    /// Carries the plan out until nothing is left to do here. Whoever drops this loses nothing that is not found again.
    async fn carry_out(&mut self) -> anyhow::Result<DaemonEnd> {
        self.run.look_first().await?;
        self.run.take_up().await?;
        self.exchange.list_questions()?;
        // To take up a large plan takes its time; nothing stood still.
        self.run.wake_at = self.run.clock.now();
        loop {
            // At every turn, as that is one look at a file: whoever has taken its place publishes too.
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

    /// Brings everything that is due under way. Returns how the daemon ends, if it does. A store that fails is tried again: its
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
                Ok(end.filter(|_| !(settled && self.run.call_finish_hook())))
            }
            Err(error @ (StoreError::Database(_) | StoreError::Panicked(_))) => {
                self.run.store_failed(error);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes in what has arrived, if it is time to look, and returns the plan after every decision that is due.
    async fn decided_view(&mut self) -> Result<LoopView, StoreError> {
        if self.exchange.scan_began().is_none() {
            // The first look has to know what to look for.
            let view = self.run.view().await?;
            self.exchange.expect(&self.run.settings.plan, view.awaited);
        }
        self.scan().await;
        self.run.world.scan_began = self.exchange.scan_began();
        let view = self.run.decided_view().await?;
        self.exchange
            .expect(&self.run.settings.plan, view.awaited.clone());
        Ok(view)
    }

    /// Looks into the folders if it is time to, and takes in what is there.
    async fn scan(&mut self) {
        let now = self.run.world.now;
        if self.run.take_scan_request() {
            self.exchange.scan_by(now);
        }
        if self.exchange.check_watches(now) {
            self.mend().await;
        }
        if let Some(found) = self.exchange.scan(now) {
            let taken = self.found(found).await;
            self.exchange.taken_in(taken);
        }
    }

    /// Puts back what was in folders that somebody has removed.
    async fn mend(&mut self) {
        let found = self.run.find_lost().await;
        let listed = found.and_then(|()| Ok(self.exchange.list_questions()?));
        if let Err(error) = listed {
            let what = exchange::ExchangeKey::Scan.to_string();
            self.exchange.effects.trouble(&what, &format!("{error:#}"));
        }
    }

    /// Gives everything that was found to the plan that it is for.
    async fn found(&mut self, found: FoundInput) -> Result<(), StoreError> {
        let (mut plans, strangers) = self.exchange.route(found).await?;
        let own = plans.remove(&self.run.settings.plan);
        let effect = self.run.found(own.unwrap_or_default()).await?;
        self.exchange.file(effect.filings);
        self.exchange.complain(effect.complaints);
        if self.exchange.pass_on(strangers).await? {
            // Whatever a role is asked is put to a person at once.
            self.run.tend_at = self.run.clock.now();
        }
        Ok(())
    }

    /// Starts everything that is missing.
    fn start(&mut self, view: &LoopView) {
        self.run.start(view, self.exchange.shown());
        let now = self.run.world.now;
        if self.run.take_scan_request() {
            self.exchange.scan_by(now);
        }
        self.exchange.start(now, view.status.settled());
        if let Some(at) = self.exchange.wakes_at(now) {
            self.run.wake_at = self.run.wake_at.min(at);
        }
    }

    /// Waits until something happens and takes it in.
    async fn next(&mut self) {
        let nap = self.run.wake_at.since(self.run.clock.now());
        tokio::select! {
            biased;
            (key, done) = self.run.effects.next() => self.run.take_in(key, done).await,
            (key, done) = self.exchange.effects.next() => self.exchange.take_in(&key, done),
            () = self.exchange.wake.notified() => self.exchange.scan_by(self.run.clock.now()),
            () = self.exchange.stored.notified() => {}
            Ok(()) = self.run.moved.changed() => {}
            Ok(()) = self.run.started_workers.gone.changed() => {}
            () = tokio::time::sleep(nap) => {}
        }
        // What else is done already belongs to the same moment.
        while let Some((key, done)) = self.run.effects.try_next() {
            self.run.take_in(key, done).await;
        }
        while let Some((key, done)) = self.exchange.effects.try_next() {
            self.exchange.take_in(&key, done);
        }
    }

    /// Returns how the daemon ends, if nothing is left to do.
    fn end(&self, view: &LoopView) -> Option<DaemonEnd> {
        let (exchange, run) = (&self.exchange, &self.run);
        if run.is_busy() || exchange.is_busy() || !view.due.steps.is_empty() {
            return None;
        }
        let (now, started) = (run.world.now, run.world.started);
        let told = run.mission.0 == view.seq && exchange.is_filed();
        if view.status.settled() {
            // A report may lie there that counted for an earlier daemon and has not been read again, or that came late. What an
            // agent still writes long after the end holds nothing up.
            let quiet = exchange.is_quiet(run.settled_at.unwrap_or(now), now);
            return (told && quiet).then(|| DaemonEnd::Settled(view.status.clone()));
        }
        if view.status == PlanState::Idle {
            return Some(DaemonEnd::NoPlan);
        }
        let shown = view.awaited.questions.is_subset(exchange.shown());
        if let Some(gone) = run.left_alone_at(view) {
            return (shown && told && exchange.is_quiet(gone, now)).then_some(DaemonEnd::Waits);
        }
        let paused = matches!(view.status, PlanState::Paused(_));
        let stuck = view.due.look_again.is_none()
            && !view.due.rescan
            && (paused || !view.awaited.questions.is_empty());
        // An answer may have been saved a moment before the start.
        let looked = exchange.scan_began().is_some() && exchange.is_finished(started, now);
        let leaves = run.settings.human_wait == HumanWait::Leave;
        let end = if view.stopped {
            DaemonEnd::Budget
        } else {
            DaemonEnd::Waits
        };
        (leaves && stuck && shown && looked && told).then_some(end)
    }

    /// Puts away what a plan that is settled leaves behind.
    async fn tidy(&mut self) {
        let PlanRun {
            settings,
            store,
            clock,
            change_watch,
            ..
        } = &self.run;
        effect_work::warn_of_unread_files(settings);
        change_watch.clear().await;
        internal_plans::tidy(store, &settings.volumes, &settings.plan, clock.now()).await;
        if let Err(error) = worktrees::tidy(settings, store).await {
            tracing::warn!(error = format!("{error:#}"), "worktrees stay behind");
        }
    }
}
