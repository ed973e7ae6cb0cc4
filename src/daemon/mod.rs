//! The loop that carries a plan out. Level-triggered: it asks the plan what is due, starts what is missing, and takes in
//! what comes back; a restart, a lost file event and an edit by somebody else all take the same path. What is done outside
//! runs beside the loop and comes back as an `Input`; each input becomes one change of the plan, in which everything that
//! follows from it by itself is decided as well.

mod acts;
mod arrival;
mod desk;
mod facts;
mod hooks;
mod input;
mod inspect;
mod internal;
mod isolation;
mod mend;
mod pace;
mod requests;
mod settings;
mod steps;
mod summary;
mod take;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::{Notify, watch};
use tokio::task::{Id, JoinSet};

use crate::clock::Clock;
use crate::plan::{CommandId, PlanStatus, QuestionId, Step, Subject, Time, World};
use crate::store::{Store, StoreError};
use crate::volumes::{MOST_REPORTS, Scanner, Sign, UNSEEN, Watch};
use desk::{Desk, Outgoing};
use hooks::{Hook, Told};
use input::Input;
use inspect::Lookout;
pub use internal::tidy as tidy_internal;
pub use mend::set_torn_aside;
use pace::Pace;
pub use settings::{End, Hands, Models, Patience, Settings};
use view::View;

/// Who changes the plan, as its log says.
const BY: &str = "daemon";

/// As long as `reports/pending` had no more files than this, a look takes less time than to wake another thread for it …
const QUICK_LOOK: usize = 64;

/// … and takes in no more reports than this: hostile ones must not hold up the loop.
const QUICK_REPORTS: usize = 8;

/// A file that is still being written is looked at again after this.
const SOON: Duration = Duration::from_millis(150);

/// A store that failed is tried again after this.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// MISSION.md is written at most that often; it follows every change within a second.
const MISSION_PACE: Duration = Duration::from_millis(250);

/// What was written before the daemon began, or somebody left, is finished by then: nobody was heard to write it.
const FINISHED: Duration = UNSEEN.saturating_add(Duration::from_secs(1));

/// Names what is under way, so that nothing is started twice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    Scan,
    Publish(CommandId),
    Withdraw(CommandId),
    Inspect(CommandId),
    Check(CommandId),
    Branch,
    Ask(Subject),
    ShowQuestion(QuestionId),
    FileQuestion(QuestionId),
    File(String),
    Mission,
    Hook(Hook),
    Inside,
}

/// Carries a plan out until it is settled, nothing can go on, or `shutdown` resolves; of a plan that is settled already it
/// finishes what is left, such as the last files. Whoever calls this holds the folder's
/// lock. Whatever was under way when an earlier daemon ended is taken up again.
///
/// # Errors
/// The plan cannot be read or started, or the workspace cannot be made.
pub async fn run(
    settings: Settings,
    store: Store,
    clock: Clock,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<End> {
    tokio::pin!(shutdown);
    // Whoever wants this to end waits for nothing, such as a store that is busy: what is cut off is as after a kill.
    let mut daemon = tokio::select! {
        biased;
        () = &mut shutdown => return Ok(End::Interrupted),
        begun = Box::pin(begin(settings, store, clock)) => begun?,
    };
    let end = tokio::select! {
        biased;
        () = &mut shutdown => Ok(End::Interrupted),
        end = Box::pin(daemon.carry_out()) => end,
    };
    daemon.running.shutdown().await;
    let end = end?;
    if let End::Settled(_) = end {
        tokio::select! {
            biased;
            () = &mut shutdown => {}
            () = daemon.tidy() => {}
        }
    }
    tracing::info!(?end, "the daemon ends");
    Ok(end)
}

/// Starts the plan, after what an earlier daemon left running has ended.
async fn begin(settings: Settings, store: Store, clock: Clock) -> anyhow::Result<Daemon> {
    steps::end_checks_left_behind(&settings).await;
    if !isolation::begin(&settings, &store).await? {
        steps::make_workspace(&settings.workspace)?;
    }
    let (policy, workspace) = (
        settings.policy.clone(),
        settings.workspace.display().to_string(),
    );
    // Of a plan that has just been made, everything is told.
    let before = store.read(&settings.plan, |_, seq| seq).await?;
    let before = if before == 1 { 0 } else { before };
    let change = move |draft: &mut crate::plan::Draft<'_>| match draft.plan().status().settled() {
        true => Ok(false),
        false => draft.start(policy, &workspace),
    };
    store
        .change(&settings.plan, BY, "the daemon starts", change)
        .await?;
    tracing::info!(plan = %settings.plan, workspace = %settings.workspace.display(), "the daemon starts");
    let mut daemon = Daemon::new(settings, store, clock);
    daemon.told = Told::since(before);
    Ok(daemon)
}

/// Only makes a plan for a goal, without carrying it out. Whoever calls this holds the folder's lock.
///
/// # Errors
/// The model gave no usable plan; the goal is kept.
pub async fn make_plan(settings: &Settings, store: &Store) -> anyhow::Result<()> {
    let Some(models) = &settings.models else {
        anyhow::bail!("no language model is configured");
    };
    steps::make_workspace(&settings.workspace)?;
    let asked = steps::ask(settings, models, store, Subject::Plan).await?;
    let asked = asked.context("the budget allows no call")?;
    let failed = asked.said.as_ref().err().cloned();
    let volumes = settings.volumes.clone();
    store
        .change(&settings.plan, BY, "the model answered", move |draft| {
            take::take_answer(draft, asked, &volumes)
        })
        .await?;
    let tasks = store
        .read(&settings.plan, |plan, _| plan.counts().total())
        .await?;
    match failed {
        Some(error) => anyhow::bail!(error),
        None if tasks == 0 => anyhow::bail!("the plan that the model made was refused"),
        None => Ok(()),
    }
}

struct Daemon {
    settings: Arc<Settings>,
    store: Store,
    clock: Clock,
    desk: Desk,
    world: World,
    /// Something was under way when the plan was last looked at.
    works: bool,
    /// Signs of life as they were last seen.
    signs: BTreeMap<CommandId, Sign>,
    running: JoinSet<anyhow::Result<Input>>,
    keys: HashMap<Id, Key>,
    under_way: BTreeSet<Key>,
    pace: Pace,
    /// Commands that are committed and not yet in their folder.
    outgoing: BTreeMap<CommandId, Outgoing>,
    /// Reports that are to leave `reports/pending`, and when.
    filings: BTreeMap<String, (Time, Filed)>,
    /// Questions whose file is in `questions/pending`.
    shown: BTreeSet<QuestionId>,
    told: Told,
    lookout: Lookout,
    scanner: Option<Scanner>,
    /// When the look began that last listed the folder of reports; `None` if something of that listing was left out.
    listed_at: Option<Time>,
    /// The last look found a file that may not be finished.
    waiting: bool,
    /// When the plan was first seen settled: one more look begins after that, for what came meanwhile.
    settled_at: Option<Time>,
    /// What a look has to look for, as the plan last said.
    awaited: Vec<CommandId>,
    asked: Vec<QuestionId>,
    watch: Watch,
    /// Something happened in the folders.
    wake: Arc<Notify>,
    /// Some process wrote to the store.
    stored: Arc<Notify>,
    moved: watch::Receiver<u64>,
    hands: Hands,
    /// When it was seen that those have ended who were started for a role, or for all else.
    gone_at: BTreeMap<Option<String>, Time>,
    /// When the folders are looked at next at the latest.
    look_at: Time,
    /// When internal plans are looked after next.
    inside_at: Time,
    /// Open questions of which the answer goes back into an internal plan.
    of_requests: BTreeSet<QuestionId>,
    /// When the watches are examined next; a report that waits is not held up by it each time.
    check_at: Time,
    /// The change that MISSION.md shows, and when it may be written next.
    mission: (i64, Time),
    /// Inputs whose change could not be committed; tried again at that moment.
    kept: Vec<(Key, Input)>,
    kept_until: Time,
    /// When something happens by itself next.
    wake_at: Time,
}

/// Makes a scanner that has seen nothing yet.
fn scanner(settings: &Settings, watch: &Watch) -> Scanner {
    Scanner::new(&settings.volumes, watch.hints(), settings.timing.scan)
}

/// Where a report goes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Filed {
    Processed,
    Stale,
    /// With the explanation that is laid beside it.
    Rejected(String),
}

impl Daemon {
    fn new(settings: Settings, store: Store, clock: Clock) -> Self {
        let wake = Arc::new(Notify::new());
        let stored = Arc::new(Notify::new());
        let watch = Watch::start(&settings.volumes, Arc::clone(&wake), Arc::clone(&stored));
        let scanner = scanner(&settings, &watch);
        let lookout = Lookout::new(&settings, clock);
        let desk = Desk {
            prompts: Arc::clone(&settings.prompts),
            language: settings.language,
            roles: Arc::clone(&settings.role_prompts),
            volumes: settings.volumes.clone(),
            repair: settings.timing.plan.repair,
        };
        let (now, waits) = (clock.now(), settings.timing.plan);
        let moved = store.moved();
        let hands = settings.hands.clone();
        Self {
            settings: Arc::new(settings),
            store,
            clock,
            desk,
            world: World {
                waits,
                now,
                started: now,
                ..World::default()
            },
            works: false,
            signs: BTreeMap::new(),
            running: JoinSet::new(),
            keys: HashMap::new(),
            under_way: BTreeSet::new(),
            pace: Pace::default(),
            outgoing: BTreeMap::new(),
            filings: BTreeMap::new(),
            shown: BTreeSet::new(),
            told: Told::since(0),
            lookout,
            scanner: Some(scanner),
            listed_at: None,
            waiting: false,
            settled_at: None,
            awaited: Vec::new(),
            asked: Vec::new(),
            watch,
            wake,
            stored,
            moved,
            hands,
            gone_at: BTreeMap::new(),
            look_at: now,
            inside_at: now,
            of_requests: BTreeSet::new(),
            check_at: now,
            mission: (-1, now),
            kept: Vec::new(),
            kept_until: now,
            wake_at: now,
        }
    }

    /// Carries the plan out until nothing is left to do here. Whoever drops this loses nothing that is not found again.
    async fn carry_out(&mut self) -> anyhow::Result<End> {
        self.look_first().await?;
        self.take_up().await?;
        // To take up a large plan takes its time; nothing stood still.
        self.wake_at = self.clock.now();
        loop {
            // At every turn, as that is one look at a file: whoever has taken its place publishes too.
            let lock = &self.settings.lock;
            if lock.is_lost() {
                return Ok(End::Displaced(lock.path().to_owned()));
            }
            if let Some(end) = self.turn().await? {
                return Ok(end);
            }
            self.next().await;
        }
    }

    /// Puts away what a plan that is settled leaves behind.
    async fn tidy(&mut self) {
        steps::tell_unread(&self.settings);
        self.lookout.clear().await;
        let Settings { volumes, plan, .. } = &*self.settings;
        internal::tidy(&self.store, volumes, plan, self.clock.now()).await;
        if let Err(error) = isolation::tidy(&self.settings, &self.store).await {
            tracing::warn!(error = format!("{error:#}"), "worktrees stay behind");
        }
    }

    /// Brings everything that is due under way. Returns how the daemon ends, if it does. A store that fails is tried again: its
    /// disk may be full only for a while.
    async fn turn(&mut self) -> anyhow::Result<Option<End>> {
        self.tell_time();
        self.count_hands();
        self.retry_kept().await;
        match self.decided_view().await {
            Ok(view) => {
                self.start(&view);
                let end = self.end(&view);
                let settled = matches!(end, Some(End::Settled(_)));
                Ok(end.filter(|_| !(settled && self.tell_finish())))
            }
            Err(error @ (StoreError::Database(_) | StoreError::Panicked(_))) => {
                let reason = match error {
                    StoreError::Database(reason) => reason,
                    panicked => panicked.to_string(),
                };
                self.trouble("the store", &reason);
                self.wake_at = self.world.now.plus(STORE_PAUSE);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Looks who is left to take commands.
    fn count_hands(&mut self) {
        for role in self.hands.gone.borrow_and_update().iter() {
            if !self.gone_at.contains_key(role) {
                self.gone_at.insert(role.clone(), self.world.now);
                self.look_at = self.world.now;
            }
        }
    }

    /// Looks into the folders if it is time to, and returns the plan after every decision that is due has been carried out.
    async fn decided_view(&mut self) -> Result<View, StoreError> {
        if self.world.scan_began.is_none() {
            // The first look has to know what to look for.
            self.view().await?;
        }
        self.look().await;
        let view = self.view().await?;
        if !view.due.steps.iter().any(Step::is_decision) {
            return Ok(view);
        }
        let (desk, world) = (self.desk.clone(), self.world());
        let change = move |draft: &mut crate::plan::Draft<'_>| Ok(desk.decide(draft, &world));
        let plan = &self.settings.plan;
        let outgoing = self
            .store
            .change(plan, BY, "decided what was due", change)
            .await?;
        self.send(outgoing);
        self.view().await
    }

    async fn view(&mut self) -> Result<View, StoreError> {
        let world = self.world();
        let view = self
            .store
            .read(&self.settings.plan, move |plan, seq| {
                View::of(plan, seq, &world)
            })
            .await?;
        self.awaited.clone_from(&view.awaited);
        self.asked.clone_from(&view.questions);
        self.works = view.works();
        self.world.ends_published.clone_from(&view.ends_published);
        self.see_at_work(&view.at_work);
        Ok(view)
    }

    /// Starts everything that is missing.
    fn start(&mut self, view: &View) {
        self.wake_at = self.world.now.plus(self.settings.timing.scan);
        self.publish();
        for step in &view.due.steps {
            match step {
                Step::Withdraw(id) => self.withdraw(id, view.recalls.contains(id)),
                Step::Inspect(id) => self.inspect(id),
                Step::Check(id) => self.check(id, view.gathering.is_some()),
                Step::MoveBranch => self.move_branch(view),
                Step::Ask(subject) => self.ask(subject),
                _ => {}
            }
        }
        self.show_questions(view);
        self.file_reports(view.status.settled());
        self.write_mission(view);
        self.call_hooks(view);
        if !view.status.settled() {
            if !self.of_requests.is_subset(&view.of_requests) {
                // One was answered.
                self.inside_at = self.world.now;
            }
            self.of_requests.clone_from(&view.of_requests);
            self.look_inside();
        }
        let newly_settled = view.status.settled() && self.settled_at.is_none();
        if newly_settled {
            self.settled_at = Some(self.world.now);
        }
        if view.due.rescan || newly_settled {
            self.look_at = self.world.now;
        }
        let may_look = self.scanner.is_some() && self.pace.ready(&Key::Scan, self.world.now);
        if may_look && self.look_at <= self.world.now {
            self.wake_at = self.world.now;
        }
        if let Some(at) = view.due.look_again {
            self.wake_by(at);
        }
        self.wake_by(self.look_at);
        if let Some(at) = self.pace.next(self.world.now) {
            self.wake_by(at);
        }
    }

    fn wake_by(&mut self, at: Time) {
        if at > self.world.now {
            self.wake_at = self.wake_at.min(at);
        }
    }

    /// Looks into the folders if it is time to.
    async fn look(&mut self) {
        if self.look_at > self.world.now || !self.pace.ready(&Key::Scan, self.world.now) {
            return;
        }
        let Some(mut scanner) = self.scanner.take() else {
            return;
        };
        self.look_at = self.world.now.plus(self.settings.timing.scan);
        if self.check_at <= self.world.now {
            self.check_at = self.look_at;
            if self.watch.check() {
                self.mend().await;
            }
        }
        let (awaited, questions, began) =
            (self.awaited.clone(), self.asked.clone(), self.world.now);
        let quick = scanner.last_listed() <= QUICK_LOOK;
        let clock = self.clock;
        let most = if quick { QUICK_REPORTS } else { MOST_REPORTS };
        let look = move || {
            let found = scanner
                .scan(&awaited, &questions, most)
                .map(|mut scan| input::Look {
                    reports: arrival::reports(&mut scan, began, &clock),
                    replies: arrival::replies(&mut scan),
                    signs: scan.signs,
                    questions: scan.lying,
                    waiting: scan.waiting,
                    more: scan.more,
                    listed: scan.listed,
                    began,
                });
            (scanner, found)
        };
        if quick {
            let (scanner, found) = look();
            self.looked(scanner, found.map(Box::new)).await;
        } else {
            self.spawn_blocking(Key::Scan, move || {
                let (scanner, found) = look();
                Ok(Input::Looked(Box::new(scanner), found.map(Box::new)))
            });
        }
    }

    /// Starts an act unless it is under way or has just failed.
    fn spawn(
        &mut self,
        key: Key,
        act: impl Future<Output = anyhow::Result<Input>> + Send + 'static,
    ) {
        if self.may_start(&key) {
            let id = self.running.spawn(act).id();
            self.keys.insert(id, key);
        }
    }

    /// As [`Self::spawn`], for an act that blocks; it begins at once, even while the loop is busy.
    fn spawn_blocking(
        &mut self,
        key: Key,
        act: impl FnOnce() -> anyhow::Result<Input> + Send + 'static,
    ) {
        if self.may_start(&key) {
            let id = self.running.spawn_blocking(act).id();
            self.keys.insert(id, key);
        }
    }

    fn may_start(&mut self, key: &Key) -> bool {
        self.pace.ready(key, self.world.now) && self.under_way.insert(key.clone())
    }

    /// Waits until something happens and takes it in.
    async fn next(&mut self) {
        let nap = self.wake_at.since(self.clock.now());
        tokio::select! {
            biased;
            Some(done) = self.running.join_next_with_id() => {
                self.take_in(done).await;
                // What else is done already belongs to the same moment.
                while let Some(done) = self.running.try_join_next_with_id() {
                    self.take_in(done).await;
                }
            }
            () = self.wake.notified() => self.look_at = self.clock.now(),
            () = self.stored.notified() => {}
            Ok(()) = self.moved.changed() => {}
            Ok(()) = self.hands.gone.changed() => {}
            () = tokio::time::sleep(nap) => {}
        }
    }

    fn trouble(&mut self, what: &str, error: &str) {
        tracing::error!(what, error);
        if self.pace.new_trouble(what, error) {
            (self.settings.notice)(&format!("{what}: {error}; trying again"));
        }
    }

    /// Returns how the daemon ends, if nothing is left to do.
    fn end(&self, view: &View) -> Option<End> {
        let busy = self.under_way.iter().any(|key| *key != Key::Scan)
            || !view.due.steps.is_empty()
            || !self.outgoing.is_empty()
            || !self.kept.is_empty();
        let told = self.mission.0 == view.seq && self.filings.is_empty();
        if busy {
            return None;
        }
        let looked = self.world.scan_began.is_some();
        if view.status.settled() {
            let looked = self.world.scan_began >= self.settled_at;
            return (told && looked && !self.unfinished())
                .then(|| End::Settled(view.status.clone()));
        }
        if view.status == PlanStatus::Idle {
            return Some(End::NoPlan);
        }
        let paused = matches!(view.status, PlanStatus::Paused(_));
        let stuck = view.due.look_again.is_none()
            && !view.due.rescan
            && (paused || !view.questions.is_empty());
        let shown = view.questions.iter().all(|id| self.shown.contains(id));
        // An answer may have been saved a moment before the start.
        let heard = !self.waiting || self.world.now >= self.world.started.plus(FINISHED);
        // Nobody is left to do anything, or to do what is left.
        let all_gone = self.hands.unfit.contains_key(&None)
            && self
                .hands
                .unfit
                .keys()
                .all(|role| self.gone_at.contains_key(role));
        let unasked = view.questions.is_empty() || self.settings.patience == Patience::Leave;
        let held = view.due.held && view.due.nothing() && unasked;
        if let Some(gone) = self
            .gone_at
            .values()
            .max()
            .copied()
            .filter(|_| all_gone || held)
        {
            let looked = self.world.scan_began >= Some(gone);
            let heard = !self.waiting || self.world.now >= gone.plus(FINISHED);
            return (shown && looked && heard && told).then_some(End::Waits);
        }
        (self.settings.patience == Patience::Leave && stuck && shown && looked && heard && told)
            .then_some(if view.stopped {
                End::Budget
            } else {
                End::Waits
            })
    }

    /// Tells whether a report lies there that counted for an earlier daemon and has not been read again, or that came late:
    /// whether it is finished shows only after a while. What an agent still writes long after the end holds nothing up.
    fn unfinished(&self) -> bool {
        let end = self.settled_at.unwrap_or(self.world.now);
        self.waiting && self.world.now < end.plus(FINISHED)
    }
}
