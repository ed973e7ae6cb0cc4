//! The loop that carries a plan out. It is level-triggered: it derives from the plan what is due, starts the effects
//! that are missing, and applies their results; a restart, a lost file event and an edit by another process all take
//! the same path. Effects run beside the loop. Each result or report becomes one change of the plan, which also has
//! every decision that follows.

mod apply_input;
mod background_effects;
mod carry_out_decisions;
mod changed_files;
mod effect_work;
mod exchange;
mod hooks;
mod input_routing;
mod internal_plans;
mod notify;
mod plan_demand;
mod plan_run;
mod plans_at_work;
mod proof_runs;
mod recover_exchange_files;
mod report_parsing;
mod role_requests;
mod settings;
mod start_effects;
mod summary_without_model;
mod workspace_facts;
mod worktrees;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use self::background_effects::Effects;
use self::carry_out_decisions::{OutgoingCommand, draw_question_ids};
use self::changed_files::{ChangeWatch, Inspected, QuickInspection};
use self::effect_work::{CheckOutcome, ModelDecision, ModelOutcome, blocking};
use self::hooks::{HookNews, HookState};
use self::input_routing::{AwaitedInputs, FoundInput, RoutingTable, Stranger};
use self::plan_demand::LoopView;
use self::plan_run::{EffectKey, EffectResult, PlanRun};
use self::proof_runs::{ProofRuns, recorded_runs};
use self::report_parsing::{AnswerFile, ParsedReport};
use self::worktrees::{BranchReport, Gathering, WorktreeLayout};
use crate::exec;
use crate::plan::{PlanId, PlanState, Time};
use crate::store::{LeaseState, Result, StoreError};
use crate::volumes::{DaemonInfo, Folder, Volumes};
pub use effect_work::make_plan;
use exchange::{Exchange, ExchangeKey};
pub use internal_plans::tidy as tidy_internal;
use plans_at_work::{PlanEvent, PlansAtWork, open};
pub use plans_at_work::{plan_that_awaits, plans_with_left_agents};
pub use recover_exchange_files::put_files_right;
use recover_exchange_files::take_back_of_ended;
pub use settings::{
    DaemonEnd, DaemonSettings, EndLeftAgent, EndsWhen, FolderSettings, HumanWait, KeptWorkers,
    Models, Notice, PlanAtWork, StartedWorkers, TakeUp,
};

/// The pause between two looks whether another daemon goes on with a plan whose lease it took.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The author of the daemon's changes in the log.
const BY: &str = "daemon";

/// Carries plans out: the one that it begins with, if any, and those that are queued in its folder, if it is told how to
/// take them up. The caller holds the folder's lock. What was under way when an earlier daemon ended or was killed is
/// resumed.
///
/// Returns when `shutdown` resolves, or as the settings of the folder say: with the end of the first plan, or of the last.
/// Of a plan that is settled already it finishes what is left, such as the last files.
///
/// # Errors
/// The first plan cannot be read or started, or its workspace cannot be made.
pub async fn run(
    folder: FolderSettings,
    first: Option<PlanAtWork>,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<DaemonEnd> {
    tokio::pin!(shutdown);
    for lost in folder.store.lost() {
        tracing::error!("{lost}");
    }
    let folder = Arc::new(folder);
    let mut daemon = Daemon {
        exchange: Exchange::new(Arc::clone(&folder)),
        plans: PlansAtWork::new(Arc::clone(&folder)),
        moved: folder.store.moved(),
        look_at: folder.now(),
        folder,
        first: None,
        stored: true,
        announced: None,
    };
    // A shutdown waits for nothing, such as a busy store: what it cuts off is as after a kill.
    let end = tokio::select! {
        biased;
        () = &mut shutdown => Ok(DaemonEnd::Interrupted),
        end = Box::pin(daemon.carry_out(first)) => end,
    };
    let displaced = matches!(end, Ok(DaemonEnd::Displaced(_)));
    let own = daemon.first.clone();
    daemon.plans.close_all(!displaced, own.as_ref());
    daemon.exchange.effects.shut_down().await;
    let end = end?;
    match end {
        DaemonEnd::Interrupted => daemon.plans.closed().await,
        _ => tokio::select! {
            biased;
            () = &mut shutdown => daemon.plans.warn_of_worktrees(),
            () = daemon.plans.closed() => {}
        },
    }
    tracing::info!(?end, "the daemon ends");
    Ok(end)
}

/// Ends the processes that an earlier daemon of the folder left running. Call it with the folder's lock, before anything of
/// this process runs: it would work in the same files at the same time.
pub async fn end_left_behind(volumes: &Volumes) {
    exec::end_left_behind(&volumes.path(Folder::Active)).await;
}

/// A folder, and the plans that are carried out through it.
struct Daemon {
    folder: Arc<FolderSettings>,
    exchange: Exchange,
    plans: PlansAtWork,
    /// The plan with which the daemon ends.
    first: Option<PlanId>,
    moved: watch::Receiver<u64>,
    /// Something may have been written to the store since the plans were read.
    stored: bool,
    /// When the queue is read again at the latest.
    look_at: Time,
    /// The plans that other processes know of.
    announced: Option<Vec<PlanId>>,
}

impl Daemon {
    /// Carries plans out until the daemon has nothing left to do. A dropped future loses nothing that the next daemon does
    /// not find.
    async fn carry_out(&mut self, first: Option<PlanAtWork>) -> anyhow::Result<DaemonEnd> {
        if let Some(first) = first {
            let run = open(first).await?;
            self.first = Some(run.settings.plan.clone());
            self.plans.begin_with(run);
        }
        self.exchange.list_questions()?;
        loop {
            // At every turn, as it only reads a file's metadata: a daemon that has replaced the lock publishes, too.
            let FolderSettings { lock, database, .. } = &*self.folder;
            let replaced = database.as_ref().filter(|file| file.is_replaced());
            if let Some(file) = replaced.or(Some(lock).filter(|lock| lock.is_lost())) {
                return Ok(DaemonEnd::Displaced(file.path().to_owned()));
            }
            self.look_around().await;
            self.announce();
            if let Some(end) = self.turn().await? {
                return Ok(end);
            }
            self.next().await;
        }
    }

    /// Finds out which plans other processes have changed, and which ones they have queued.
    async fn look_around(&mut self) {
        let now = self.folder.now();
        if !self.stored && self.look_at > now {
            return;
        }
        if self.look_at <= now
            && let Err(error) = take_back_of_ended(&self.folder, &self.plans.ids()).await
        {
            let what = "what is left of plans that have ended";
            self.exchange.effects.trouble(what, error);
        }
        self.stored = false;
        self.look_at = now.plus(self.folder.config.timing.scan);
        let looked = match self.plans.note_moved().await {
            Ok(()) => self.plans.take_up().await,
            Err(error) => Err(error),
        };
        let (effects, key) = (&mut self.exchange.effects, ExchangeKey::Queue);
        match looked {
            Ok(()) if effects.fails(&key) => effects.succeeded(&key),
            Ok(()) => {}
            Err(error) => effects.failed(&key, now, &error.to_string()),
        }
    }

    /// Lets other processes know which plans are carried out here.
    fn announce(&mut self) {
        let plans = self.plans.ids();
        if self.announced.as_ref() == Some(&plans) {
            return;
        }
        let info = DaemonInfo {
            plans: Some(plans.iter().map(PlanId::to_string).collect()),
            ..self.folder.info.clone()
        };
        match self.folder.volumes.announce(&info) {
            Ok(()) => self.announced = Some(plans),
            Err(error) => {
                let what = "the note about this daemon";
                self.exchange.effects.trouble(what, error);
            }
        }
    }

    /// Starts everything that is due. Returns how the daemon ends, if it does. A store that fails is tried again: its
    /// disk may be full only for a while.
    async fn turn(&mut self) -> anyhow::Result<Option<DaemonEnd>> {
        for run in self.plans.runs.values_mut() {
            run.advance_clock();
            run.retry_kept().await;
        }
        let scanned = self.scan().await;
        for run in self.plans.runs.values_mut() {
            run.due |= scanned && run.view.awaits_scan();
        }
        self.plans.share_lanes();
        let alone = self.plans.runs.len() == 1;
        let due = (self.plans.runs.iter()).filter(|(_, run)| alone || run.is_due());
        let due: Vec<PlanId> = due.map(|(id, _)| id.clone()).collect();
        for id in due {
            let ended = match self.turn_of(&id).await {
                Ok(end) => end,
                Err(error @ (StoreError::Database(_) | StoreError::Panicked(_))) => {
                    if let Some(run) = self.plans.runs.get_mut(&id) {
                        run.store_failed(error);
                    }
                    None
                }
                Err(error) if self.first.as_ref() == Some(&id) => return Err(error.into()),
                Err(error) => {
                    (self.folder.notice)(&format!("plan {id}: {error}"));
                    Some(DaemonEnd::NoPlan)
                }
            };
            if let Some(end) = ended {
                self.plans.close(&id, &end);
                if self.first.as_ref() == Some(&id) && self.folder.ends_when == EndsWhen::FirstEnds
                {
                    return Ok(Some(end));
                }
                self.stored = true;
            }
        }
        let now = self.folder.now();
        self.take_scan_requests(now);
        // Nothing comes any more for which a report would have to stay where its agent left it.
        let mut runs = self.plans.runs.values();
        let settled = runs.all(|run| run.view.status.settled());
        self.exchange.start(now, &self.plans.routes(), settled);
        let over = self.plans.is_empty() && self.folder.ends_when == EndsWhen::AllEnded;
        Ok((over && !self.stored).then_some(DaemonEnd::Idle))
    }

    /// Starts everything that is due of a plan. Returns how it ends for now, if it does.
    async fn turn_of(&mut self, id: &PlanId) -> Result<Option<DaemonEnd>> {
        let others = self.plans.runs.len() > 1;
        let Some(run) = self.plans.runs.get_mut(id) else {
            return Ok(None);
        };
        run.due = false;
        let holder = self.folder.volumes.holder();
        match run.settings.store.hold_again(&holder).await? {
            LeaseState::Held => {}
            // Nothing of what came meanwhile was applied.
            LeaseState::TakenAgain => run.scan_wanted = true,
            LeaseState::Elsewhere => {
                run.wake_at = self.folder.now().plus(LOOK_AGAIN);
                return Ok(None);
            }
        }
        run.world.scan_began = self.exchange.scan_began;
        let view = match run.decided_view().await {
            // Its next turn takes it again, or lets go of it.
            Err(StoreError::NotHeld(_)) => {
                run.due = true;
                return Ok(None);
            }
            view => view?,
        };
        run.start(&view, &self.exchange.shown);
        let end = end_of(run, &self.exchange, &view, others);
        let settled = matches!(end, Some(DaemonEnd::Settled(_)));
        Ok(end.filter(|_| !(settled && run.report_finish())))
    }

    /// Scans the folders if it is time to, and applies what is new. Returns whether a scan was applied.
    async fn scan(&mut self) -> bool {
        let now = self.folder.now();
        self.take_scan_requests(now);
        if self.exchange.check_watches(now)
            && let Err(error) = self.restore_files().await
        {
            let what = ExchangeKey::Scan;
            self.exchange.effects.trouble(what, format!("{error:#}"));
        }
        let routes = self.plans.routes();
        let Some(found) = self.exchange.scan(now, &routes) else {
            return false;
        };
        let applied = self.apply(found, &routes).await;
        self.exchange.applied(applied);
        true
    }

    fn take_scan_requests(&mut self, now: Time) {
        for run in self.plans.runs.values_mut() {
            if std::mem::take(&mut run.scan_wanted) {
                self.exchange.scan_by(now);
            }
        }
    }

    /// Puts back the files of folders that were removed.
    async fn restore_files(&mut self) -> anyhow::Result<()> {
        for run in self.plans.runs.values_mut() {
            run.find_lost().await?;
        }
        Ok(self.exchange.list_questions()?)
    }

    /// Applies everything that was found to the plans that it is for.
    async fn apply(&mut self, found: FoundInput, routes: &RoutingTable) -> Result<()> {
        let (store, volumes) = (&self.folder.store, &self.folder.volumes);
        let (mut plans, strangers) = routes.route(store, volumes, found).await?;
        for (id, run) in &mut self.plans.runs {
            let found = plans.remove(id);
            run.due |= found.is_some();
            // Also if nothing was found: heartbeats may have gone.
            let follow_up = match run.found(found.unwrap_or_default()).await {
                // As in its turn.
                Err(StoreError::NotHeld(_)) => {
                    run.due = true;
                    self.exchange.find_again();
                    continue;
                }
                follow_up => follow_up?,
            };
            self.exchange.file(follow_up.filings);
            self.exchange.complain(follow_up.complaints);
        }
        if self.exchange.pass_on(strangers).await? {
            // A question to a role goes to a person immediately.
            for run in self.plans.runs.values_mut() {
                (run.maintain_at, run.due) = (self.folder.now(), true);
            }
        }
        Ok(())
    }

    /// Waits until something happens and applies it.
    async fn next(&mut self) {
        let now = self.folder.now();
        let runs = self.plans.runs.values().map(|run| run.wake_at);
        let exchange = self.exchange.wakes_at(now);
        let wake = runs.chain(exchange).chain([self.look_at]).min();
        let wait = wake.unwrap_or(now).since(now);
        let wait = match self.plans.runs.values().any(|run| run.due) || self.stored {
            true => Duration::ZERO,
            false => wait,
        };
        tokio::select! {
            biased;
            event = self.plans.next_event() => self.happened(event).await,
            (key, result) = self.exchange.effects.next() => self.exchange.apply(&key, result),
            () = self.exchange.wake.notified() => self.exchange.scan_by(self.folder.now()),
            () = self.exchange.stored.notified() => self.stored = true,
            Ok(()) = self.moved.changed() => self.stored = true,
            () = tokio::time::sleep(wait) => {}
        }
        // Results that exist already belong to the same turn.
        for run in self.plans.runs.values_mut() {
            while let Some((key, result)) = run.effects.try_next() {
                run.due = true;
                run.apply(key, result).await;
            }
        }
        while let Some((key, result)) = self.exchange.effects.try_next() {
            self.exchange.apply(&key, result);
        }
    }

    async fn happened(&mut self, event: PlanEvent) {
        match event {
            PlanEvent::Opened(opened) => {
                self.stored = true;
                self.plans.opened(*opened).await;
            }
            PlanEvent::Closed => self.stored = true,
            PlanEvent::Effect(plan, key, result) => {
                if let Some(run) = self.plans.runs.get_mut(&plan) {
                    run.due = true;
                    run.apply(key, result).await;
                }
            }
            PlanEvent::Gone(plan) => {
                if let Some(run) = self.plans.runs.get_mut(&plan) {
                    (run.due, run.scan_wanted) = (true, true);
                }
            }
        }
    }
}

/// Returns how a plan ends for now, if nothing is left to do. What `others` have in the folder delays no plan.
fn end_of(run: &PlanRun, exchange: &Exchange, view: &LoopView, others: bool) -> Option<DaemonEnd> {
    let files = !others && exchange.is_busy();
    if run.is_busy() || files || !view.due.steps.is_empty() {
        return None;
    }
    let (now, started) = (run.world.now, run.world.started);
    let reported = run.mission.0 == view.seq && (others || exchange.filings.is_empty());
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
    let end = match view.stopped {
        true => DaemonEnd::Budget,
        false => DaemonEnd::Waits,
    };
    (leaves && stuck && shown && scanned && reported).then_some(end)
}
