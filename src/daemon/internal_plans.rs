//! What the daemon does for internal plans, which are what roles in the process make of their tasks: where nobody waits any more
//! for what comes of one, it ends, and what it had asked of others is taken back; what they still ask for is looked after
//! (`requests`); and what the plan says of who waits for whom is brought up to date.

use std::collections::BTreeSet;

use crate::plan::{
    ArchiveState, Attempt, AttemptState, CommandId, DAEMON, Draft, Plan, PlanHead, PlanId, ROLE,
    Time,
};
use crate::role::{WaitChain, end_waits};
use crate::store::{Store, StoreError};
use crate::volumes::{Volumes, Withdrawal};

use super::carry_out_steps::Decider;
use super::plan_run::{EffectKey, EffectResult, PlanRun};
use super::{BY, role_requests};

impl PlanRun {
    /// Looks after internal plans, if it is time to.
    pub(super) fn tend_internal_plans(&mut self) {
        if self.settings.team.is_none() {
            return;
        }
        if self.tend_at <= self.world.now
            && !self.effects.under_way().contains(&EffectKey::TendInternal)
        {
            self.tend_at = self.world.now.plus(self.settings.timing.inside);
            let ((settings, store), decider, clock) =
                (self.handles(), self.decider.clone(), self.clock);
            self.spawn(EffectKey::TendInternal, async move {
                let (volumes, plan) = (&settings.volumes, &settings.plan);
                tend(&store, volumes, plan, Some(&decider), clock.now()).await?;
                Ok(EffectResult::Tended)
            });
        }
        self.wake_by(self.tend_at);
    }

    /// Notes that these roles have something in hand: others of their tasks wait for no role's fault meanwhile.
    pub(super) fn see_at_work(&mut self, roles: &BTreeSet<String>) {
        if self.settings.team.is_some() {
            let now = self.world.now;
            let held = roles.iter().map(|role| (role.clone(), now));
            self.world.held.extend(held);
        }
    }
}

/// Ends the internal plans of a daemon's plans that nobody waits for, takes back what those that have ended still asked for, and
/// puts them away; then the waits in a plan end whose requests have. Each step is committed before the next, and may be done
/// again after a crash. What cannot be done now holds nothing up: the next call finds it.
pub async fn tidy(store: &Store, volumes: &Volumes, plan: &PlanId, now: Time) {
    if let Err(error) = tend(store, volumes, plan, None, now).await {
        tracing::warn!(error = format!("{error:#}"), "internal plans stay behind");
    }
}

/// Looks after internal plans; after what they ask of others only with a desk, where that is written.
async fn tend(
    store: &Store,
    volumes: &Volumes,
    plan: &PlanId,
    decider: Option<&Decider>,
    now: Time,
) -> anyhow::Result<()> {
    // One that cannot be tended to now is met again by the next call.
    let mut failed = BTreeSet::new();
    // With whoever asks, those end who were asked.
    while tend_once(store, volumes, decider, now, &mut failed).await? {}
    // A role that goes on does it itself, and sooner.
    Ok(end_waits(store, BY, plan).await?)
}

/// Returns whether another plan may have become one that nobody waits for.
async fn tend_once(
    store: &Store,
    volumes: &Volumes,
    decider: Option<&Decider>,
    now: Time,
    failed: &mut BTreeSet<PlanId>,
) -> anyhow::Result<bool> {
    let mut any = false;
    for listed in store.in_use(ROLE).await? {
        let head = listed.head;
        if failed.contains(&head.id) {
            continue;
        }
        match tend_to(store, volumes, decider, now, &head).await {
            Ok(ended) => any |= ended,
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(plan = %head.id, error, "an internal plan stays behind");
                failed.insert(head.id);
            }
        }
    }
    Ok(any)
}

/// Returns whether it ended a plan.
async fn tend_to(
    store: &Store,
    volumes: &Volumes,
    decider: Option<&Decider>,
    now: Time,
    head: &PlanHead,
) -> anyhow::Result<bool> {
    // Those that work in other programs know themselves whom they work for.
    let chain = WaitChain::of(store, Some(&head.id)).await?;
    if chain.owner != DAEMON {
        return Ok(false);
    }
    if wanted(store, head).await? {
        if let Some(decider) = decider.filter(|_| !head.status.settled()) {
            role_requests::tend(store, decider, &head.id, &chain, now).await?;
        }
        return Ok(false);
    }
    if !head.status.settled() {
        abandon(store, &head.id).await?;
    }
    take_back(store, volumes, &head.id).await?;
    let away = |draft: &mut Draft<'_>| match draft.plan().head().archive_state {
        ArchiveState::Current => draft.archive(ArchiveState::History),
        // Its role was faster.
        ArchiveState::History | ArchiveState::Deleted => Ok(()),
    };
    store.change(&head.id, BY, "put away", away).await?;
    Ok(true)
}

/// Returns whether somebody waits for what comes of an internal plan: its key ends with the command or the request that it
/// is made for.
async fn wanted(store: &Store, head: &PlanHead) -> Result<bool, StoreError> {
    let (Some(parent), Some((_, assignment))) = (&head.parent, head.key().rsplit_once(':')) else {
        return Ok(true);
    };
    let command = CommandId::new(assignment);
    let waits = store.read(parent, move |plan, _| {
        let open = |attempt: &Attempt| attempt.state == AttemptState::Open;
        !plan.status().settled() && plan.attempt(&command).is_some_and(open)
    });
    waits.await
}

/// Returns the roles that have a task of a plan in hand, or were asked something by another role.
pub(super) fn at_work(plan: &Plan) -> BTreeSet<String> {
    let open = plan.open_attempts();
    let begun = open
        .filter(|attempt| attempt.state == AttemptState::Open && attempt.claimed.is_some())
        .filter_map(|attempt| plan.task(attempt.task)?.assignee.clone());
    begun
        .chain(plan.waits().map(|(_, wait)| wait.on.clone()))
        .collect()
}

async fn abandon(store: &Store, plan: &PlanId) -> Result<(), StoreError> {
    let why = "no role waits for it any more";
    let abandon = move |draft: &mut Draft<'_>| draft.abandon(why);
    match store.change(plan, BY, why, abandon).await {
        // Its role was faster.
        Err(StoreError::Refused(_)) => Ok(()),
        abandoned => abandoned,
    }
}

async fn take_back(store: &Store, volumes: &Volumes, plan: &PlanId) -> anyhow::Result<()> {
    let asked = store.read(plan, |plan, _| {
        let recalls = plan.recalls().map(|attempt| attempt.id.clone());
        recalls.collect::<Vec<_>>()
    });
    for command in asked.await? {
        let (files, id) = (volumes.clone(), command.clone());
        let done = super::effect_work::blocking(move || files.recall(&id)).await?;
        let note = move |draft: &mut Draft<'_>| match done {
            Withdrawal::Withdrawn => draft.withdrawn(&command),
            Withdrawal::Taken => draft.recalled(&command),
        };
        store
            .change(plan, BY, "a request was taken back", note)
            .await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlanState;

    async fn made(store: &Store, id: &str, owner: &str, parent: Option<&str>) -> PlanId {
        let plan = PlanId::new(id);
        let mut head = PlanHead::new(plan.clone(), "", Time::default());
        owner.clone_into(&mut head.owner);
        head.parent = parent.map(PlanId::new);
        if owner == ROLE {
            head.key = Some(format!("role:a:task-{id}"));
        }
        let created = store.create(head, "test", "made", |draft| {
            draft.created();
            draft
                .start(crate::plan::PlanPolicy::default(), "")
                .map(drop)
        });
        created.await.unwrap();
        plan
    }

    #[tokio::test]
    async fn aborts_only_children_of_daemon_plans() {
        let store = Store::in_memory(Time::default).await.unwrap();
        let root = tempfile::tempdir().unwrap();
        let volumes = Volumes::open(root.path()).unwrap();
        made(&store, "top", DAEMON, None).await;
        made(&store, "other", "somebody", None).await;
        let ours = [
            made(&store, "child", ROLE, Some("top")).await,
            made(&store, "grandchild", ROLE, Some("child")).await,
        ];
        let theirs = [
            made(&store, "library", ROLE, None).await,
            made(&store, "lost", ROLE, Some("nowhere")).await,
            made(&store, "tool", ROLE, Some("other")).await,
        ];
        let top = PlanId::new("top");
        tidy(&store, &volumes, &top, Time::default()).await;
        let state = async |id: &PlanId| {
            let read = store.read(id, |plan, _| {
                (plan.status().clone(), plan.head().archive_state)
            });
            read.await.unwrap()
        };
        for id in &ours {
            assert_eq!(
                state(id).await,
                (PlanState::Abandoned, ArchiveState::History)
            );
        }
        for id in &theirs {
            assert_eq!(state(id).await, (PlanState::Running, ArchiveState::Current));
        }
    }
}
