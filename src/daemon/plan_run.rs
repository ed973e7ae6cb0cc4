//! One plan that is carried out: a report or result becomes a change, which also has every decision that follows; the
//! effects that are due are started. It knows no other plan of the process.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use super::apply_input::{FollowUp, apply_found, apply_result};
use super::notify::{NotifyState, TryFailed};
use super::settings::EndWorkers;
use super::{
    BY, BranchReport, ChangeWatch, CheckOutcome, DaemonSettings, Effects, FoundInput, HookNews,
    HookState, HumanWait, Inspected, LoopView, ModelOutcome, OutgoingCommand, PlanAtWork,
    ProofRuns, StartedWorkers, draw_question_ids, effect_work, internal_plans, proof_runs,
    recorded_runs, worktrees,
};
use crate::plan::{
    CheckBefore, CheckResult, CommandId, Draft, DueEffect, DueStep, Observations, Plan, QuestionId,
    SessionId, TaskId, Time, WorkerPoolState, WorkerPools,
};
use crate::plan_time::LATE;
use crate::store::{Result, StoreError};
use crate::volumes::{Unpublished, Volumes, Withdrawal, WorkerSigns};

/// A store that failed is tried again after this.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// MISSION.md is written at most this often; it follows every change within a second.
const MISSION_INTERVAL: Duration = Duration::from_millis(250);

/// The key of an effect of a plan; an effect under way is not started again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EffectKey {
    Publish(CommandId),
    Due(DueEffect),
    Mission,
    /// By its key of the configuration.
    Hook(&'static str),
    Notify,
    MaintainInternal,
}

impl fmt::Display for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Publish(_) => "publishing a command",
            Self::Due(DueEffect::Withdraw(_)) => "taking a command back",
            Self::Due(DueEffect::Inspect(_)) => "looking what changed",
            Self::Due(DueEffect::Check(_)) => "running checks",
            Self::Due(DueEffect::CheckBefore(_)) => "running checks on the state before",
            Self::Due(DueEffect::CheckAgain | DueEffect::CheckAtEnd) => "running checks again",
            Self::Due(DueEffect::MoveBranch) => "the branch of the results",
            Self::Due(DueEffect::Ask(_)) => "asking the model",
            Self::Mission => "MISSION.md",
            Self::Hook(key) => key,
            Self::Notify => "notifying a person",
            Self::MaintainInternal => "looking after what roles do",
        })
    }
}

/// The result of an effect of a plan.
#[derive(Debug)]
pub(super) enum EffectResult {
    Published(CommandId),
    /// The worktree for the command could not be made ready, for this reason.
    Unprepared(CommandId, String),
    Withdrawn(CommandId, Withdrawal),
    Inspected(CommandId, Box<Inspected>),
    Checked(CommandId, CheckOutcome),
    CheckedBefore(TaskId, Vec<CheckBefore>),
    /// The results of silent checks, after so many later tasks.
    CheckedAgain(u32, Vec<CheckResult>),
    /// The results of what proved tasks on the state that all have left, the last of which was completed then.
    CheckedAtEnd(Time, Vec<CheckResult>),
    Branch(BranchReport),
    /// `None` if the budget allowed no call after all.
    Asked(Option<Box<ModelOutcome>>),
    MissionWritten(i64),
    HookCalled(HookNews),
    Notified(HookNews, Result<(), TryFailed>),
    Maintained,
}

/// The result of a change, and the commands that follow from it.
struct Made<T> {
    result: T,
    outgoing: Vec<OutgoingCommand>,
    /// Sessions whose `end` command is in its folder.
    ends: Vec<SessionId>,
}

impl<T> Made<T> {
    /// Publishes the commands that are written by now.
    fn publish(&mut self, written: &Receiver<(CommandId, Unpublished)>, volumes: &Volumes) {
        let mut written: BTreeMap<_, _> = written.try_iter().collect();
        self.outgoing.retain(|command| {
            let file = written.remove(&command.id);
            let published = file.map(|file| volumes.publish_prepared(file, &command.text));
            let published = matches!(published, Some(Ok(())));
            self.ends.extend(command.ends.clone().filter(|_| published));
            !published
        });
    }
}

pub(super) struct PlanRun {
    pub settings: Arc<DaemonSettings>,
    pub world: Observations,
    /// Heartbeats as they were last read.
    signs: WorkerSigns,
    pub effects: Effects<EffectKey, EffectResult>,
    /// Commands that are committed and not published yet.
    pub outgoing: BTreeMap<CommandId, OutgoingCommand>,
    pub hook_state: HookState,
    pub notify_state: NotifyState,
    pub proofs: ProofRuns,
    /// When the plan was first read as settled: one more scan begins after that, for what came meanwhile.
    pub settled_at: Option<Time>,
    /// Something happened to it since its last turn.
    pub due: bool,
    /// The plan when it was last read.
    pub view: Arc<LoopView>,
    /// When a command of it was last sent.
    pub began_task_at: Time,
    /// Ends its workers.
    pub end_workers: EndWorkers,
    pub end_roles: EndWorkers,
    pub started_workers: StartedWorkers,
    /// When internal plans are maintained next.
    pub maintain_at: Time,
    /// Open questions whose answer goes into an internal plan.
    of_requests: BTreeSet<QuestionId>,
    /// The change that MISSION.md shows, and when it may be written next.
    pub mission: (i64, Time),
    /// Results whose change could not be committed, and when they are tried again.
    kept: Vec<(EffectKey, Arc<EffectResult>)>,
    kept_until: Time,
    /// A scan comes before anything else.
    pub scan_wanted: bool,
    /// When something becomes due by itself next.
    pub wake_at: Time,
}

impl PlanRun {
    /// Starts a plan, unless it has ended.
    ///
    /// # Errors
    /// The plan cannot be read or started, or the workspace cannot be made.
    pub async fn begin(at_work: PlanAtWork) -> anyhow::Result<Self> {
        let settings = Arc::new(at_work.settings);
        if !worktrees::begin(&settings).await? {
            effect_work::make_workspace(&settings.workspace)?;
        }
        let policy = settings.policy.clone();
        let workspace = settings.workspace.display().to_string();
        // The hooks get all changes of a plan that has just been made.
        let before = settings.read(|_, seq| seq).await?;
        let before = if before == 1 { 0 } else { before };
        let now = settings.now();
        let start = move |draft: &mut Draft<'_>| {
            if draft.plan().status().settled() {
                return Ok(false);
            }
            if draft.plan().head().queue.is_some() {
                draft.change_head(|head| {
                    if let Some(entry) = &mut head.queue {
                        (entry.begun, entry.waits) = (Some(now), None);
                    }
                });
            }
            // Taken up for what was under way when a person paused it, or paused meanwhile: nothing new begins.
            if draft.plan().stays_paused() {
                return Ok(true);
            }
            draft.start(policy, &workspace)
        };
        settings.change("the daemon starts", start).await?;
        let earlier = settings.read(|plan, _| recorded_runs(plan)).await?;
        tracing::info!(plan = %settings.plan, workspace = %settings.workspace.display(), "the daemon starts");
        let waits = settings.config.timing.plan;
        Ok(Self {
            world: Observations {
                waits,
                now,
                started: now,
                ..Observations::default()
            },
            effects: Effects::new(Arc::clone(&settings.notice), settings.store.clone()),
            proofs: ProofRuns {
                change_watch: ChangeWatch::new(&settings),
                earlier: Arc::new(earlier.into()),
                settings: Arc::clone(&settings),
            },
            hook_state: HookState {
                change: before,
                ..HookState::default()
            },
            due: true,
            view: Arc::default(),
            began_task_at: now,
            end_workers: at_work.end_workers,
            end_roles: at_work.end_roles,
            notify_state: NotifyState::default(),
            started_workers: settings.started_workers.clone(),
            settings,
            signs: WorkerSigns::new(),
            outgoing: BTreeMap::new(),
            settled_at: None,
            maintain_at: now,
            of_requests: BTreeSet::new(),
            mission: (-1, now),
            kept: Vec::new(),
            kept_until: now,
            scan_wanted: false,
            wake_at: now,
        })
    }

    /// Starts an effect unless it is under way or has just failed.
    pub fn spawn(
        &mut self,
        key: EffectKey,
        effect: impl Future<Output = anyhow::Result<EffectResult>> + Send + 'static,
    ) {
        self.effects.start(key, self.world.now, effect);
    }

    /// Limits the lanes, as other plans need some; is turned once more if that makes a difference.
    pub fn set_lanes(&mut self, left: Option<usize>) {
        let before = std::mem::replace(&mut self.world.lanes, left);
        let usable = |left: Option<usize>| left.unwrap_or(usize::MAX);
        self.due |= usable(left) > usable(before) && self.view.wants > self.view.busy;
    }

    /// Returns whether it is time for its next turn.
    pub fn is_due(&self) -> bool {
        self.due || self.wake_at <= self.settings.now()
    }

    /// Reads the clock. If that is far later than planned, the process was stopped or the machine suspended, and
    /// perhaps its agents with it: the time since the last reading counts as no agent's silence, and a scan comes
    /// before any decision by time.
    pub fn advance_clock(&mut self) {
        let (before, now) = (self.world.now, self.settings.now());
        self.world.now = now;
        if now.since(before.max(self.wake_at)) > LATE {
            let span = now.since(before);
            tracing::warn!(?span, "stood still: this time counts for no time-out");
            self.world.stood_still(span);
            self.scan_wanted = true;
        } else if self.view.works() && before > self.world.started {
            // The time before its first turn is that of the daemon, which opened it.
            self.world.lived += now.since(before);
        }
    }

    /// Returns what was observed outside the plan.
    fn world(&self) -> Observations {
        let asking = self.effects.under_way().iter().filter_map(|key| match key {
            EffectKey::Due(DueEffect::Ask(subject)) => Some(subject.clone()),
            _ => None,
        });
        Observations {
            asking: asking.collect(),
            pools: self.pools(),
            ..self.world.clone()
        }
    }

    /// Returns how the workers are that this process started.
    fn pools(&self) -> WorkerPools {
        let StartedWorkers { unfit, gone, .. } = &self.started_workers;
        let gone = gone.borrow();
        let pools = unfit.iter().map(|(role, unfit)| {
            let pool = match gone.get(role) {
                Some(at) => WorkerPoolState::Gone(*at),
                None if *unfit.borrow() => WorkerPoolState::Unfit,
                None => WorkerPoolState::Works,
            };
            (role.clone(), pool)
        });
        WorkerPools(pools.collect())
    }

    /// Returns the plan as it is committed now.
    pub async fn view(&mut self) -> Result<Arc<LoopView>> {
        let world = self.observe().await?;
        let read = move |plan: &Plan, seq| LoopView::of(plan, seq, &world);
        let view = Arc::new(self.settings.read(read).await?);
        self.view = Arc::clone(&view);
        self.world.ends_published.clone_from(&view.ends_published);
        self.note_at_work(&view.at_work);
        Ok(view)
    }

    /// Observes what other plans do, and returns all that was observed. The other plans of this daemon decide before or after
    /// this one, never at the same time; a plan that no daemon carries out now may have agents at work, too.
    async fn observe(&mut self) -> Result<Observations> {
        let DaemonSettings {
            store,
            plan,
            policy,
            ..
        } = &*self.settings;
        self.world.held_locks = store.locks_beside(plan).await?;
        self.world.day = match policy.day.is_none() {
            true => None,
            false => store.budget_day(self.world.now).await?,
        };
        Ok(self.world())
    }

    /// Returns the plan after every decision that is due has been carried out.
    pub async fn decided_view(&mut self) -> Result<Arc<LoopView>> {
        let view = self.view().await?;
        if !view.due.steps.iter().any(DueStep::is_decision) {
            return Ok(view);
        }
        // Not by a later clock than the one by which it was found due.
        self.change("decided what was due", |_| ()).await?;
        self.view().await
    }

    /// Returns whether something is under way or yet to be done. Checks on the state before begin again with the next daemon.
    pub fn is_busy(&self) -> bool {
        let mut under_way = self.effects.under_way().iter();
        under_way.any(|key| !matches!(key, EffectKey::Due(DueEffect::CheckBefore(_))))
            || !self.outgoing.is_empty()
            || !self.kept.is_empty()
    }

    /// Returns since when no worker is left, or none for what is left to do.
    pub fn left_alone_at(&self, view: &LoopView) -> Option<Time> {
        let StartedWorkers { unfit, gone, .. } = &self.started_workers;
        let gone = gone.borrow();
        let all_gone =
            unfit.contains_key(&None) && unfit.keys().all(|role| gone.contains_key(role));
        let unasked =
            view.awaited.questions.is_empty() || self.settings.human_wait == HumanWait::Leave;
        let held = view.due.held && view.due.nothing() && unasked;
        let last = gone.values().max().copied();
        last.filter(|_| all_gone || held)
    }

    /// Starts everything that is missing.
    pub fn start(&mut self, view: &LoopView, shown: &BTreeSet<QuestionId>) {
        self.wake_at = self.world.now.plus(self.settings.config.timing.scan);
        self.publish(view);
        for step in &view.due.steps {
            if let DueStep::Effect(effect) = step {
                self.start_due(effect, view);
            }
        }
        self.write_mission(view);
        self.call_hooks(view, shown);
        if !view.status.settled() {
            if !self.of_requests.is_subset(&view.of_requests) {
                // A question was answered.
                self.maintain_at = self.world.now;
            }
            self.of_requests.clone_from(&view.of_requests);
            self.maintain_internal_plans();
        } else if self.settled_at.is_none() {
            self.settled_at = Some(self.world.now);
            self.scan_wanted = true;
        }
        self.scan_wanted |= view.due.rescan;
        let ready = self.effects.next_ready(self.world.now);
        let due = [view.due.look_again, view.due.next_day, ready];
        for at in due.into_iter().flatten() {
            self.wake_by(at);
        }
    }

    pub fn wake_by(&mut self, at: Time) {
        if at > self.world.now {
            self.wake_at = self.wake_at.min(at);
        }
    }

    /// Reports that the store failed, and waits before it is tried again.
    pub fn store_failed(&mut self, error: StoreError) {
        let reason = match error {
            StoreError::Database(reason) => reason,
            error => error.to_string(),
        };
        self.effects.trouble("the store", reason);
        self.wake_at = self.world.now.plus(STORE_PAUSE);
    }

    /// Tries again to commit what could not be committed.
    pub async fn retry_kept(&mut self) {
        if self.kept_until <= self.world.now {
            for (key, input) in std::mem::take(&mut self.kept) {
                self.apply_result(key, input).await;
            }
        } else if !self.kept.is_empty() {
            self.wake_by(self.kept_until);
        }
    }

    /// Applies the result of an effect.
    pub async fn apply(&mut self, key: EffectKey, result: anyhow::Result<EffectResult>) {
        match result {
            Ok(input) => self.apply_result(key, Arc::new(input)).await,
            Err(error) => {
                let (now, error) = (self.settings.now(), format!("{error:#}"));
                self.effects.failed(&key, now, &error);
            }
        }
    }

    async fn apply_result(&mut self, key: EffectKey, input: Arc<EffectResult>) {
        if let Err(error) = self.commit(&input).await {
            // The result may have cost money: it is kept, and its effect stays under way, until it is committed.
            self.kept_until = self.settings.now().plus(STORE_PAUSE);
            self.effects.trouble("the store", error);
            self.kept.push((key, input));
            return;
        }
        match &*input {
            // Withdrawn from workers that have ended, and another one has claimed it: a scan finds its heartbeat.
            EffectResult::Withdrawn(_, Withdrawal::Taken)
                if !self.started_workers.gone.borrow().is_empty() =>
            {
                self.scan_wanted = true;
                self.effects.hold_back(&key, self.settings.now());
            }
            _ => self.effects.succeeded(&key),
        }
        match &*input {
            EffectResult::Published(id) => {
                let command = self.outgoing.remove(id);
                let ends = command.and_then(|command| command.ends);
                self.world.ends_published.extend(ends);
            }
            EffectResult::Unprepared(id, _) => drop(self.outgoing.remove(id)),
            EffectResult::Inspected(_, found) => self.proofs.change_watch.remember(found),
            EffectResult::Branch(BranchReport::Elsewhere { reason, .. }) => {
                (self.settings.notice)(reason);
            }
            EffectResult::HookCalled(news) => self.hook_state.note(news.clone()),
            EffectResult::Notified(news, sent) => self.note_notified(news, sent),
            EffectResult::MissionWritten(seq) => {
                self.mission = (*seq, self.settings.now().plus(MISSION_INTERVAL));
            }
            _ => {}
        }
    }

    /// Commits a result, if it changes the plan and is still awaited. A refusal is no failure: the result is out of
    /// date then, and the plan says what is due instead.
    async fn commit(&mut self, input: &Arc<EffectResult>) -> Result<()> {
        let why = match &**input {
            EffectResult::Unprepared(..) => "a worktree is not ready for work",
            EffectResult::Withdrawn(..) => "a command was taken back",
            EffectResult::Inspected(..) => "the workspace was looked at",
            EffectResult::Checked(..) => "checks ran",
            EffectResult::CheckedBefore(..) => "checks ran on the state before",
            EffectResult::CheckedAgain(..) | EffectResult::CheckedAtEnd(..) => "checks ran again",
            EffectResult::Branch(_) => "looked at the branch of the results",
            EffectResult::Asked(Some(_)) => "the model answered",
            _ => return Ok(()),
        };
        let input = Arc::clone(input);
        let commit = move |draft: &mut Draft<'_>| {
            if let Err(refusal) = draft.part(|draft| apply_result(draft, &input)) {
                tracing::warn!(%refusal, why, "what came back is out of date");
            }
        };
        self.advance_clock();
        self.change(why, commit).await
    }

    /// Makes a change of the plan together with the decisions that follow from it: one change, one flush. `change`
    /// may be called twice. The commands that follow are published when this returns, as far as they can be.
    async fn change<T: Send + 'static>(
        &mut self,
        why: &str,
        change: impl Fn(&mut Draft<'_>) -> T + Send + 'static,
    ) -> Result<T> {
        let world = self.observe().await?;
        let settings = Arc::clone(&self.settings);
        let DaemonSettings { store, plan, .. } = &*self.settings;
        let volumes = self.settings.volumes.clone();
        // The commands are written while the change is flushed. After the flush only a rename is left, which the
        // store's thread does: no other thread has to wake for it.
        let (decided, mut to_write) = tokio::sync::mpsc::unbounded_channel();
        let (write, written) = mpsc::channel();
        let change = move |draft: &mut Draft<'_>| {
            draw_question_ids(draft, &settings.volumes);
            let (result, ends) = (change(draft), Vec::new());
            let outgoing = settings.decide(draft, &world);
            drop(decided.send(outgoing.clone()));
            Ok(Made {
                result,
                outgoing,
                ends,
            })
        };
        let (to, held) = (volumes.clone(), store.clone());
        let publish = move |made: &mut Made<T>| {
            if held.holds() {
                made.publish(&written, &to);
            }
        };
        let commit = store.change_ahead(plan, BY, why, change, publish);
        let files = async {
            while let Some(outgoing) = to_write.recv().await {
                // A command that needs a worktree or checks first is published below, and so is one that is written too late.
                let ready = outgoing.iter().filter(|command| command.is_ready());
                for command in ready.filter(|_| store.holds()) {
                    if let Ok(file) = volumes.prepare(&command.id, &command.text) {
                        drop(write.send((command.id.clone(), file)));
                    }
                }
            }
        };
        let made = tokio::join!(commit, files).0?;
        self.world.ends_published.extend(made.ends);
        self.send(made.outgoing);
        Ok(made.result)
    }

    /// Applies what was found for the plan as one change, if anything is new.
    pub async fn found(&mut self, mut found: FoundInput) -> Result<FollowUp> {
        let now = self.settings.now();
        let signs = std::mem::take(&mut found.signs);
        found.signs = self.new_signs(&signs, now);
        if found.reports.is_empty() && found.replies.is_empty() && found.signs.is_empty() {
            return Ok(FollowUp::default());
        }
        let quick = match found.reports.iter().any(|arrival| arrival.content.is_ok()) {
            true => self.inspect_quickly(&found.reports, now).await?,
            false => None,
        };
        let inspected = quick.clone();
        let apply = move |draft: &mut Draft<'_>| apply_found(draft, &found, inspected.as_ref());
        self.advance_clock();
        let follow_up = self.change("took in what agents wrote", apply).await?;
        self.signs = signs;
        if let Some(quick) = quick {
            self.proofs.change_watch.before = Some(quick.now);
        }
        Ok(follow_up)
    }

    /// Ends its effects and its workers. Removes what a `settled` plan no longer needs; of another one MISSION.md stays as
    /// it is now, unless another daemon writes it. Returns the workers of a plan that is still held, if these are to be kept.
    pub async fn close(
        mut self,
        settled: bool,
        own_folder: bool,
        keep: bool,
    ) -> Option<EndWorkers> {
        self.effects.shut_down().await;
        // What another daemon carries out now is its own to clean up and to describe.
        let held = self.settings.store.holds();
        match held {
            true if settled => self.clean_up().await,
            true if own_folder => self.leave_mission().await,
            _ => {}
        }
        (self.end_roles)().await;
        let kept = match keep && held && !settled {
            true => Some(self.end_workers),
            false => {
                (self.end_workers)().await;
                None
            }
        };
        self.settings.store.release().await;
        kept
    }

    async fn clean_up(&mut self) {
        let settings = &self.settings;
        effect_work::warn_of_unread_files(settings);
        self.proofs.change_watch.clear().await;
        proof_runs::clear(settings).await;
        let (store, now) = (&settings.store, settings.now());
        internal_plans::tidy(store, &settings.volumes, &settings.plan, now).await;
        if let Err(error) = worktrees::clean_up(settings).await {
            tracing::warn!(error = format!("{error:#}"), "worktrees stay behind");
        }
    }

    /// Observes the heartbeats, and returns those that are new.
    fn new_signs(&mut self, signs: &WorkerSigns, now: Time) -> WorkerSigns {
        let mut new = WorkerSigns::new();
        for (id, sign) in signs {
            if self.signs.get(id) == Some(sign) {
                continue;
            }
            match &sign.life.model_fails {
                Some(error) => drop(self.world.faults.insert(id.clone(), error.clone())),
                None => {
                    self.world.signs.insert(id.clone(), now);
                    self.world.faults.remove(id);
                }
            }
            let mut sign = sign.clone();
            // The agent reads the wall clock.
            let until = sign.life.blocked_until;
            sign.life.blocked_until = until.map(|at| self.settings.clock.of_wall(at));
            new.insert(id.clone(), sign);
        }
        self.world.signs.retain(|id, _| signs.contains_key(id));
        self.world.faults.retain(|id, _| signs.contains_key(id));
        new
    }
}
