//! Maintains internal plans, which roles in the process make for their tasks: a plan whose result no task awaits any more ends, and its
//! requests to other roles are withdrawn; the open requests of the others are maintained (`role_requests`); and waits whose requests
//! have ended are removed from the plan.

use std::collections::BTreeSet;

use crate::plan::{
    ArchiveState, Attempt, AttemptState, CommandId, DAEMON, Draft, Plan, PlanHead, PlanId, ROLE,
    Time,
};
use crate::role::{WaitChain, end_waits};
use crate::store::{ListedPlan, Store, StoreError};
use crate::volumes::{Volumes, Withdrawal};

use super::carry_out_steps::Decider;
use super::plan_run::{EffectKey, EffectResult, PlanRun};
use super::{BY, role_requests};

impl PlanRun {
    /// Maintains internal plans, if it is time to.
    pub(super) fn maintain_internal_plans(&mut self) {
        if self.settings.team.is_none() {
            return;
        }
        let under_way = self.effects.under_way();
        if self.maintain_at <= self.world.now && !under_way.contains(&EffectKey::MaintainInternal) {
            self.maintain_at = self.world.now.plus(self.settings.timing.inside);
            let ((settings, store), decider, clock) =
                (self.handles(), self.decider.clone(), self.clock);
            self.spawn(EffectKey::MaintainInternal, async move {
                let (volumes, plan) = (&settings.volumes, &settings.plan);
                maintain(&store, volumes, plan, Some(&decider), clock.now()).await?;
                Ok(EffectResult::Maintained)
            });
        }
        self.wake_by(self.maintain_at);
    }

    /// Notes that these roles are at work: their other tasks wait for them, not for a missing worker.
    pub(super) fn note_at_work(&mut self, roles: &BTreeSet<String>) {
        if self.settings.team.is_some() {
            let now = self.world.now;
            let held = roles.iter().map(|role| (role.clone(), now));
            self.world.held.extend(held);
        }
    }
}

/// Ends the internal plans of a daemon's plans whose results no task awaits, withdraws their open requests, and archives them; then
/// ends the waits in a plan whose requests have ended. Each step is committed before the next, and may be repeated after a crash.
/// A step that fails holds up no other plan: the next call tries again.
pub async fn tidy(store: &Store, volumes: &Volumes, plan: &PlanId, now: Time) {
    if let Err(error) = maintain(store, volumes, plan, None, now).await {
        tracing::warn!(error = format!("{error:#}"), "internal plans stay behind");
    }
}

/// Maintains internal plans; their open requests only with a decider, which writes the commands for them.
async fn maintain(
    store: &Store,
    volumes: &Volumes,
    plan: &PlanId,
    decider: Option<&Decider>,
    now: Time,
) -> anyhow::Result<()> {
    // A plan that failed is left for the next call.
    let mut failed = BTreeSet::new();
    loop {
        let mut ended = false;
        for ListedPlan { head, .. } in store.in_use(ROLE).await? {
            if failed.contains(&head.id) {
                continue;
            }
            match maintain_plan(store, volumes, decider, now, &head).await {
                Ok(is_over) => ended |= is_over,
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(plan = %head.id, error, "an internal plan stays behind");
                    failed.insert(head.id);
                }
            }
        }
        // With a plan those end that it had requested something of.
        if !ended {
            break;
        }
    }
    // A role that goes on does it itself, and sooner.
    Ok(end_waits(store, BY, plan).await?)
}

/// Returns whether it ended a plan.
async fn maintain_plan(
    store: &Store,
    volumes: &Volumes,
    decider: Option<&Decider>,
    now: Time,
    head: &PlanHead,
) -> anyhow::Result<bool> {
    // Plans of roles in other programs are ended there.
    let chain = WaitChain::of(store, Some(&head.id)).await?;
    if chain.owner != DAEMON {
        return Ok(false);
    }
    let settled = head.status.settled();
    if is_awaited(store, head).await? {
        if let Some(decider) = decider.filter(|_| !settled) {
            role_requests::maintain(store, decider, &head.id, &chain, now).await?;
        }
        return Ok(false);
    }
    if !settled {
        abandon(store, &head.id).await?;
    }
    withdraw_requests(store, volumes, &head.id).await?;
    let archive = |draft: &mut Draft<'_>| match draft.plan().head().archive_state {
        ArchiveState::Current => draft.archive(ArchiveState::History),
        // Its role was faster.
        ArchiveState::History | ArchiveState::Deleted => Ok(()),
    };
    store.change(&head.id, BY, "put away", archive).await?;
    Ok(true)
}

/// Returns whether a task awaits the result of an internal plan: its key ends with the command or request that it is made for.
async fn is_awaited(store: &Store, head: &PlanHead) -> Result<bool, StoreError> {
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

/// Returns the roles that work on a task of a plan, or on a request of another role.
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

async fn withdraw_requests(store: &Store, volumes: &Volumes, plan: &PlanId) -> anyhow::Result<()> {
    let recalls = store.read(plan, |plan, _| -> Vec<CommandId> {
        plan.recalls().map(|attempt| attempt.id.clone()).collect()
    });
    for command in recalls.await? {
        let (files, id) = (volumes.clone(), command.clone());
        let done = super::effect_work::blocking(move || files.recall(&id)).await?;
        let note = move |draft: &mut Draft<'_>| match done {
            Withdrawal::Withdrawn => draft.withdrawn(&command),
            Withdrawal::Taken => draft.recalled(&command),
        };
        let why = "a request was taken back";
        store.change(plan, BY, why, note).await?;
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
