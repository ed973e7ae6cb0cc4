//! The plans that a daemon carries out at once: takes them up from the queue, shares the lanes between them, and says when
//! something happens to one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::{pending, select_all};
use parking_lot::Mutex;
use tokio::task::{Id, JoinError, JoinSet};

use super::settings::EndWorkers;
use super::{
    BY, DaemonEnd, DaemonSettings, EffectKey, EffectResult, FolderSettings, PlanAtWork, PlanRun,
    RoutingTable,
};
use crate::exec;
use crate::plan::{CommandId, Plan, PlanHead, PlanId, PlanState};
use crate::role::WaitChain;
use crate::store::{ListedPlan, Result, Store, StoreError};
use crate::volumes::Volumes;
use crate::wire::one_line;

/// The longest reason that is kept with a plan that waits.
const REASON: usize = 400;

/// A plan that could not be opened is tried again so many looks later: what was wrong, such as its configuration, may be mended.
/// Where plans are shared with other daemons, so is one that could not be carried out: the daemon that had it may be gone.
const LOOKS: u32 = 20;

/// The plans of a daemon.
pub(super) struct PlansAtWork {
    folder: Arc<FolderSettings>,
    pub runs: BTreeMap<PlanId, PlanRun>,
    opening: JoinSet<anyhow::Result<Option<PlanRun>>>,
    /// The plans that are being opened, with the tasks that open them.
    opened_by: BTreeMap<Id, PlanHead>,
    /// Where the plans at work write MISSION.md: the first one has the usual place.
    missions: Arc<Mutex<BTreeSet<PathBuf>>>,
    /// The plans that have ended, while the last of their effects end.
    closing: JoinSet<(PlanId, Option<EndWorkers>)>,
    closes: BTreeSet<PlanId>,
    /// One of the plans that have ended removes its worktrees.
    removes_worktrees: bool,
    /// A queued plan waits for the agent of another one to end, which wakes nothing here.
    awaits_agent: bool,
    left: BTreeMap<PlanId, LeftPlan>,
}

/// A plan that could not go on. A later change is a reason to try again.
struct LeftPlan {
    /// Its last change.
    seq: i64,
    since: Instant,
    /// It did not end, but could not be opened, was lost to another daemon or was not on the server.
    failed: bool,
    /// Why it could not be opened, as its log has it.
    reason: String,
}

/// What came of opening a plan.
pub(super) type Opened = Result<(Id, anyhow::Result<Option<PlanRun>>), JoinError>;

/// Something that happened to a plan.
pub(super) enum PlanEvent {
    Effect(PlanId, EffectKey, anyhow::Result<EffectResult>),
    /// Workers have ended.
    Gone(PlanId),
    Opened(Box<Opened>),
    Closed,
}

impl PlansAtWork {
    pub fn new(folder: Arc<FolderSettings>) -> Self {
        Self {
            folder,
            runs: BTreeMap::new(),
            opening: JoinSet::new(),
            opened_by: BTreeMap::new(),
            missions: Arc::default(),
            closing: JoinSet::new(),
            closes: BTreeSet::new(),
            removes_worktrees: false,
            awaits_agent: false,
            left: BTreeMap::new(),
        }
    }

    /// Adds the plan that the daemon begins with.
    pub fn begin_with(&mut self, run: PlanRun) {
        self.missions.lock().insert(run.settings.mission.clone());
        self.runs.insert(run.settings.plan.clone(), run);
    }

    /// Returns what is awaited for the plans that are carried out.
    pub fn routes(&self) -> RoutingTable {
        let awaited = |(id, run): (&PlanId, &PlanRun)| (id.clone(), Arc::clone(&run.view.awaited));
        RoutingTable(self.runs.iter().map(awaited).collect())
    }

    /// Returns whether no plan is carried out or about to be.
    pub fn is_empty(&self) -> bool {
        let none = self.runs.is_empty() && self.opened_by.is_empty() && self.closes.is_empty();
        none && !self.awaits_agent
    }

    /// Returns the plans that are carried out, or about to be.
    pub fn ids(&self) -> Vec<PlanId> {
        let opening = self.opened_by.values().map(|head| &head.id);
        let all = self.runs.keys().chain(opening).chain(&self.closes);
        all.cloned().collect()
    }

    /// Lets go of a plan that has ended for now, and leaves it alone until it changes.
    pub fn close(&mut self, id: &PlanId, end: &DaemonEnd) {
        self.close_run(id, end, true, false);
    }

    fn close_run(&mut self, id: &PlanId, end: &DaemonEnd, own_folder: bool, keep: bool) {
        if let Some(run) = self.runs.remove(id) {
            self.missions.lock().remove(&run.settings.mission);
            let settled = matches!(end, DaemonEnd::Settled(_));
            let left = LeftPlan {
                seq: run.view.seq,
                since: Instant::now(),
                failed: matches!(end, DaemonEnd::NoPlan) && self.folder.store.is_shared(),
                reason: String::new(),
            };
            self.left.insert(id.clone(), left);
            self.closes.insert(id.clone());
            self.removes_worktrees |= settled && run.view.isolated;
            let id = id.clone();
            self.closing.spawn(async move {
                let kept = run.close(settled, own_folder, keep).await;
                (id, kept)
            });
        }
    }

    /// Lets go of all plans, as the daemon ends. The workers of all but its `own` one may be kept.
    pub fn close_all(&mut self, own_folder: bool, own: Option<&PlanId>) {
        self.opening.abort_all();
        let all: Vec<PlanId> = self.runs.keys().cloned().collect();
        for id in &all {
            let keep = self.folder.kept_workers.is_some() && own_folder && Some(id) != own;
            self.close_run(id, &DaemonEnd::Interrupted, own_folder, keep);
        }
    }

    /// Waits until the effects of all plans that have ended are over, and their workers, unless these are kept.
    pub async fn closed(&mut self) {
        while let Some(closed) = self.closing.join_next().await {
            if let Ok((id, Some(workers))) = closed
                && let Some(kept) = &self.folder.kept_workers
            {
                kept.lock().push((id, workers));
            }
        }
    }

    /// Says what is left if the clean-up after a plan is not waited for.
    pub fn warn_of_worktrees(&self) {
        if self.removes_worktrees {
            let prune = format!("`{} prune`", self.folder.program);
            (self.folder.notice)(&format!("worktrees are left behind: {prune} removes them"));
        }
    }

    /// Begins with every queued plan that may begin, and notes at the others what they wait for.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn take_up(&mut self) -> Result<()> {
        let Some(take_up) = self.folder.take_up.clone() else {
            return Ok(());
        };
        let mut queued = self.folder.store.queued().await?;
        queued.extend(self.orphans().await?);
        queued.retain(|listed| self.is_new(listed));
        queued.sort_by_key(|ListedPlan { head, .. }| {
            let entry = head.queue.as_deref().cloned().unwrap_or_default();
            (Reverse(entry.priority), entry.at)
        });
        let (mut left, mut awaits_agent) = (None, false);
        for listed in queued {
            let mut waits = self.waits(&listed.head).await?;
            if waits.is_none() {
                waits = self.left_agent_beside(&listed.head, &mut left).await?;
                awaits_agent |= waits.is_some();
            }
            if let Some(waits) = waits {
                self.note_wait(&listed.head, waits).await?;
                continue;
            }
            let head = listed.head;
            let in_use = (self.at_work()).any(|(_, folder, _)| head.shares_folder(folder));
            let prepared = take_up(head.clone(), in_use);
            let missions = Arc::clone(&self.missions);
            let opened = self.opening.spawn(async move {
                let Some(mut at_work) = prepared.await? else {
                    return Ok(None);
                };
                let mission = choose_mission(&mut at_work.settings, &missions)?;
                let opened = open(at_work).await;
                if opened.is_err() {
                    missions.lock().remove(&mission);
                }
                opened.map(Some)
            });
            self.opened_by.insert(opened.id(), head);
        }
        self.awaits_agent = awaits_agent;
        Ok(())
    }

    /// Returns the plans of other folders whose daemon is gone and whose project is here, with the folder that it has here.
    async fn orphans(&self) -> Result<Vec<ListedPlan>> {
        let config = &self.folder.config;
        let mut orphans = match config.projects.is_empty() {
            true => Vec::new(),
            false => self.folder.store.orphans().await?,
        };
        orphans.retain_mut(|ListedPlan { head, .. }| {
            let project = head.project.as_deref().and_then(|id| config.project(id));
            let found = project.is_some();
            head.workspace = project.unwrap_or_default().display().to_string();
            found
        });
        Ok(orphans)
    }

    fn is_new(&self, listed: &ListedPlan) -> bool {
        let id = &listed.head.id;
        let at_work = self.runs.contains_key(id)
            || self.closes.contains(id)
            || self.opened_by.values().any(|head| head.id == *id);
        let again = self.folder.config.timing.scan * LOOKS;
        let left = self.left.get(id).is_some_and(|left| {
            let again = left.failed && left.since.elapsed() > again;
            left.seq == listed.seq && !again
        });
        !at_work && !left
    }

    /// Returns the plans at work, or about to be, with their folders, and whether their tasks have worktrees.
    fn at_work(&self) -> impl Iterator<Item = (&PlanId, &Path, bool)> {
        let runs = self.runs.values().map(|run| {
            let (settings, isolated) = (&run.settings, run.view.isolated);
            (&settings.plan, settings.workspace.as_path(), isolated)
        });
        let opening = self.opened_by.values().map(|head| {
            let isolated = head.is_isolated();
            (&head.id, Path::new(&head.workspace), isolated)
        });
        runs.chain(opening)
    }

    /// Returns why a queued plan does not begin now, if it does not.
    async fn waits(&self, head: &PlanHead) -> Result<Option<String>> {
        // What the budget of the day stopped goes on by itself at midnight, where it is at work; what was under way is judged.
        let goes_on = |plan: &Plan, _| plan.asks_for_day() || plan.open_attempts().next().is_some();
        if let PlanState::Paused(why) = &head.status
            && !self.folder.store.read(&head.id, goes_on).await?
        {
            return Ok(Some(format!("paused: {why}")));
        }
        let after = head.queue.as_ref().and_then(|entry| entry.after.as_ref());
        if let Some(after) = after {
            let store = &self.folder.store;
            let open = store.read(after, |plan, _| !plan.status().settled());
            match open.await {
                Ok(true) => return Ok(Some(format!("for plan {after} to end"))),
                Ok(false) | Err(StoreError::UnknownPlan(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let keeps = |other: &(_, &Path, bool)| head.is_kept_by(other.1, other.2);
        if let Some((other, _, isolated)) = self.at_work().find(keeps) {
            let folder = one_line(&head.workspace, 200);
            return Ok(Some(match isolated {
                true => format!(
                    "for plan {other} to end: this one has no worktrees, and works in `{folder}` itself"
                ),
                false => {
                    format!("for plan {other} to end, which works in the same folder `{folder}`")
                }
            }));
        }
        let busy = self.runs.values().filter(|run| !run.view.rests).count();
        let busy = busy + self.opened_by.len();
        let most = usize::try_from(self.folder.config.run.max_plans).unwrap_or(usize::MAX);
        Ok((busy >= most.max(1)).then(|| {
            format!("for one of {busy} other plans to end or to ask (`run.max_plans` is {most})")
        }))
    }

    /// Returns that a plan waits for the agent of another one, where a daemon that is gone left one at work beside it. Which plans
    /// have such agents is found out once.
    async fn left_agent_beside(
        &self,
        head: &PlanHead,
        left: &mut Option<Vec<PlanHead>>,
    ) -> Result<Option<String>> {
        if left.is_none() {
            let FolderSettings { store, volumes, .. } = &*self.folder;
            *left = Some(plans_with_left_agents(store, volumes, &self.ids()).await?);
        }
        let mut left = left.iter().flatten();
        let other = left.find(|other| other.id != head.id && head.is_kept_by_head(other));
        Ok(other.map(|PlanHead { id, .. }| {
            format!(
                "for an agent to end that a daemon left at work in the same folder, on plan {id}"
            )
        }))
    }

    /// Notes at a plan what it waits for, for the person who queued it.
    async fn note_wait(&mut self, head: &PlanHead, waits: String) -> Result<()> {
        if head.queue.as_ref().and_then(|e| e.waits.as_ref()) == Some(&waits) {
            return Ok(());
        }
        // A daemon that has just taken the plan over writes it alone.
        let holder = self.folder.volumes.holder();
        let note = async {
            let leased = self.folder.store.carry_out(&head.id, &holder).await?;
            let noted = leased.change(&head.id, BY, "it waits", move |draft| {
                draft.change_head(|head| {
                    if let Some(entry) = &mut head.queue {
                        entry.waits = Some(waits);
                    }
                });
                Ok(())
            });
            let noted = noted.await;
            leased.release().await;
            noted
        };
        unless_anothers(note.await)
    }

    /// Notes in the log of a plan of another folder why it is not taken over, and returns the last reason that was noted: each is
    /// noted once.
    async fn note_not_adopted(&self, id: &PlanId, reason: String) -> Result<String> {
        let known = self.left.get(id).map(|left| left.reason.clone());
        let known = known.unwrap_or_default();
        let orphans = self.folder.store.orphans().await?;
        // Another daemon has it meanwhile, or it is this one's by now.
        if known == reason || !orphans.iter().any(|listed| listed.head.id == *id) {
            return Ok(known);
        }
        let FolderSettings { store, volumes, .. } = &*self.folder;
        let (by, text) = (volumes.home(), reason.clone());
        let note = async {
            let leased = store.lease(id, &volumes.holder()).await?;
            let noted = leased.change(id, BY, "it is not taken over", move |draft| {
                draft.not_adopted(by, text);
                Ok(())
            });
            let noted = noted.await;
            leased.release_to_others().await;
            noted
        };
        unless_anothers(note.await).map(|()| reason)
    }

    /// Adds a plan that was opened.
    pub async fn opened(&mut self, opened: Opened) {
        let (id, opened) = match opened {
            Ok((id, opened)) => (id, opened),
            Err(error) => (error.id(), Err(error.into())),
        };
        let head = self.opened_by.remove(&id).unwrap_or_default();
        match opened {
            Ok(Some(run)) => {
                tracing::info!(plan = %head.id, "taken up from the queue");
                self.runs.insert(head.id.clone(), run);
            }
            // Now it is known that it shares the folder, so it waits from the next time on.
            Ok(None) => {}
            Err(error) => {
                let reason = format!("{error:#}").replacen("\nHint: ", ". ", 1);
                let reason = one_line(&reason, REASON);
                tracing::error!(plan = %head.id, reason, "a queued plan cannot begin");
                let noted = match self.folder.store.require_home(&head) {
                    Ok(()) => {
                        let waits = format!("until it can begin: {reason}");
                        self.note_wait(&head, waits).await.map(|()| reason)
                    }
                    Err(_) => self.note_not_adopted(&head.id, reason).await,
                };
                // Its own note is no reason to try again.
                if let Ok(reason) = noted
                    && let Ok(seq) = self.folder.store.read(&head.id, |_, seq| seq).await
                {
                    let left = LeftPlan {
                        seq,
                        since: Instant::now(),
                        failed: true,
                        reason,
                    };
                    self.left.insert(head.id, left);
                }
            }
        }
    }

    /// Waits until something happens to a plan; for ever if there is none. A dropped future loses nothing.
    pub async fn next_event(&mut self) -> PlanEvent {
        let events = self.runs.iter_mut().map(|(id, run)| {
            Box::pin(async {
                tokio::select! {
                    biased;
                    (key, result) = run.effects.next() => PlanEvent::Effect(id.clone(), key, result),
                    Ok(()) = run.started_workers.gone.changed() => PlanEvent::Gone(id.clone()),
                }
            })
        });
        let mut events: Vec<_> = events.collect();
        let any = async {
            match events.is_empty() {
                true => pending().await,
                false => select_all(&mut events).await.0,
            }
        };
        tokio::select! {
            biased;
            event = any => event,
            Some(opened) = self.opening.join_next_with_id() => PlanEvent::Opened(Box::new(opened)),
            Some(closed) = self.closing.join_next() => {
                match closed {
                    Ok((id, _)) => drop(self.closes.remove(&id)),
                    // A panic has printed itself.
                    Err(_) => self.closes.clear(),
                }
                PlanEvent::Closed
            }
            else => pending().await,
        }
    }

    /// Marks the plans that were changed since they were read last.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn note_moved(&mut self) -> Result<()> {
        let several = self.runs.len() > 1;
        for run in self.runs.values_mut().filter(|run| !run.due) {
            run.due = !several
                || run.view.due.locked
                || run.settings.read(|_, seq| seq).await? != run.view.seq;
        }
        Ok(())
    }

    /// Shares the lanes between the plans: each gets as many as it wants as long as there are enough, else none gets more
    /// than another one wants; of equal ones the plan that began a task longest ago comes first.
    pub fn share_lanes(&mut self) {
        let several = self.runs.len() > 1;
        let Some(most) = self.folder.config.run.max_parallel.filter(|_| several) else {
            return self.runs.values_mut().for_each(|run| run.set_lanes(None));
        };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut runs: Vec<&mut PlanRun> = self.runs.values_mut().collect();
        runs.sort_by_key(|run| run.began_task_at);
        let wants: Vec<usize> = runs.iter().map(|run| run.view.wants).collect();
        let busy: usize = runs.iter().map(|run| run.view.busy).sum();
        let mut free = most.saturating_sub(busy);
        for (run, share) in runs.into_iter().zip(fair_shares(&wants, most)) {
            // A lane that another plan still has is not given twice.
            let more = share.saturating_sub(run.view.busy).min(free);
            free -= more;
            run.set_lanes(Some(share.min(run.view.busy) + more));
        }
    }
}

/// Returns the plans for which agents still work although no daemon carries them out, but for those that are `at_work`.
///
/// # Errors
/// A failure of the store.
pub async fn plans_with_left_agents(
    store: &Store,
    volumes: &Volumes,
    at_work: &[PlanId],
) -> Result<Vec<PlanHead>> {
    let mut locked = volumes.locked().unwrap_or_else(|error| {
        tracing::warn!(%error, "whether agents were left at work is not known");
        Vec::new()
    });
    locked.retain(|id| exec::alive(&volumes.log(id, "err")));
    let mut left: Vec<PlanHead> = Vec::new();
    for id in locked {
        let plan = plan_that_awaits(store, &id).await?;
        let known = |plan: &PlanId| at_work.contains(plan) || left.iter().any(|it| it.id == *plan);
        let Some(plan) = plan.filter(|plan| !known(plan)) else {
            continue;
        };
        match store.read(&plan, |plan, _| plan.head().clone()).await {
            Ok(head) => left.push(head),
            // Removed meanwhile.
            Err(StoreError::UnknownPlan(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(left)
}

/// Returns the plan for which a command is carried out: that of the task, where a role made a plan of its own for it.
///
/// # Errors
/// A failure of the store.
pub async fn plan_that_awaits(store: &Store, command: &CommandId) -> Result<Option<PlanId>> {
    match store.plan_of(command).await? {
        None => Ok(None),
        Some(plan) => Ok(WaitChain::of(store, Some(&plan)).await?.top),
    }
}

/// Fails only where the store does: a plan that was deleted meanwhile, or is another daemon's, just stays as it is.
fn unless_anothers<T>(noted: Result<T>) -> Result<()> {
    match noted {
        Err(error @ (StoreError::Database(_) | StoreError::Panicked(_))) => Err(error),
        _ => Ok(()),
    }
}

/// Lets a plan write MISSION.md at the usual place, or aside if another plan does so there; returns the place.
fn choose_mission(
    settings: &mut DaemonSettings,
    missions: &Mutex<BTreeSet<PathBuf>>,
) -> std::io::Result<PathBuf> {
    let (usual, aside) = (
        settings.mission.clone(),
        settings.volumes.mission_aside(&settings.plan),
    );
    match missions.lock().insert(usual) {
        // From an earlier time beside others; where there is one, the plan is said to have its mission there.
        true => drop(std::fs::remove_dir_all(aside)),
        false => {
            std::fs::create_dir_all(&aside)?;
            settings.mission = aside;
        }
    }
    Ok(settings.mission.clone())
}

/// Shares lanes: in rounds, one to each that wants another one.
fn fair_shares(wants: &[usize], mut lanes: usize) -> Vec<usize> {
    let mut shares = vec![0; wants.len()];
    while lanes > 0 {
        let hungry = (0..wants.len()).filter(|at| shares[*at] < wants[*at]);
        let hungry: Vec<usize> = hungry.take(lanes).collect();
        if hungry.is_empty() {
            break;
        }
        lanes -= hungry.len();
        hungry.into_iter().for_each(|at| shares[at] += 1);
    }
    shares
}

/// Opens a plan: what an earlier daemon left of it is found before anything new begins.
///
/// # Errors
/// The plan cannot be read or started, or the workspace cannot be made.
pub(super) async fn open(at_work: PlanAtWork) -> anyhow::Result<PlanRun> {
    let mut run = PlanRun::begin(at_work).await?;
    run.inspect_first().await?;
    run.recover().await?;
    // A scan has to know what is awaited for it.
    run.view().await?;
    // The recovery of a large plan takes time; the process was not suspended.
    run.wake_at = run.settings.now();
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::fair_shares;

    #[test]
    fn small_plan_is_not_starved() {
        let rows: [(&[usize], usize, &[usize]); 6] = [
            (&[1000, 3], 4, &[2, 2]),
            (&[1000, 1], 4, &[3, 1]),
            (&[1000, 3], 1, &[1, 0]),
            (&[1, 1], 8, &[1, 1]),
            (&[5, 5, 5], 8, &[3, 3, 2]),
            (&[0, 0], 2, &[0, 0]),
        ];
        for (wants, lanes, shares) in rows {
            assert_eq!(fair_shares(wants, lanes), shares, "{wants:?} of {lanes}");
        }
    }
}
