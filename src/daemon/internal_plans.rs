//! Maintains internal plans, which roles in the process make for their tasks: a plan whose result no task awaits any
//! more ends, and its requests to other roles are withdrawn; the open requests of the others are maintained
//! (`role_requests`); and waits whose requests have ended are removed from the plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::plan::{
    Attempt, AttemptState, CommandId, DAEMON, Draft, Plan, PlanHead, PlanId, ROLE, Time,
};
use crate::role::{WaitChain, archive, end_waits};
use crate::store::{ListedPlan, Result, Store};
use crate::volumes::{Volumes, Withdrawal};

use super::role_requests::{RoleRequests, unless_ended};
use super::{BY, DaemonSettings, EffectKey, EffectResult, PlanRun, blocking};

impl PlanRun {
    /// Maintains internal plans, if it is time to.
    pub(super) fn maintain_internal_plans(&mut self) {
        if self.settings.team.is_none() {
            return;
        }
        let under_way = self.effects.under_way();
        if self.maintain_at <= self.world.now && !under_way.contains(&EffectKey::MaintainInternal) {
            self.maintain_at = self.world.now.plus(self.settings.config.timing.inside);
            let settings = Arc::clone(&self.settings);
            self.spawn(EffectKey::MaintainInternal, async move {
                let maintenance = Maintenance {
                    store: &settings.store,
                    volumes: &settings.volumes,
                    settings: Some(&settings),
                    now: settings.now(),
                };
                maintenance.run(&settings.plan).await?;
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

/// Ends the internal plans of a daemon's plans whose results no task awaits, withdraws their open requests, and
/// archives them; then ends the waits in a plan whose requests have ended. Each step is committed before the next,
/// and may be repeated after a crash. A step that fails holds up no other plan: the next call tries again.
pub async fn tidy(store: &Store, volumes: &Volumes, plan: &PlanId, now: Time) {
    let maintenance = Maintenance {
        store,
        volumes,
        settings: None,
        now,
    };
    if let Err(error) = maintenance.run(plan).await {
        tracing::warn!(error = format!("{error:#}"), "internal plans stay behind");
    }
}

/// What the maintenance of internal plans needs.
struct Maintenance<'a> {
    store: &'a Store,
    volumes: &'a Volumes,
    /// Writes the commands for open requests; without it these are left alone.
    settings: Option<&'a Arc<DaemonSettings>>,
    now: Time,
}

impl Maintenance<'_> {
    async fn run(&self, top: &PlanId) -> anyhow::Result<()> {
        // A plan that failed is left for the next call.
        let mut failed = BTreeSet::new();
        loop {
            let mut ended = false;
            for ListedPlan { head, .. } in self.store.in_use(ROLE).await? {
                if failed.contains(&head.id) {
                    continue;
                }
                match self.maintain(&head).await {
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
        Ok(end_waits(self.store, BY, top).await?)
    }

    /// Returns whether it ended the plan.
    async fn maintain(&self, head: &PlanHead) -> anyhow::Result<bool> {
        // Plans of roles in other programs are ended there.
        let chain = WaitChain::of(self.store, Some(&head.id)).await?;
        if chain.owner != DAEMON {
            return Ok(false);
        }
        let settled = head.status.settled();
        if is_awaited(self.store, head).await? {
            // The requests for another daemon's plan are answered by that one.
            let is_own = |own: &&Arc<DaemonSettings>| chain.top.as_ref() == Some(&own.plan);
            if let Some(settings) = self.settings.filter(is_own).filter(|_| !settled) {
                let requests = RoleRequests {
                    settings,
                    plan: &head.id,
                    chain: &chain,
                };
                requests.maintain(self.now).await?;
            }
            return Ok(false);
        }
        if !settled {
            self.abandon(&head.id).await?;
        }
        self.withdraw_requests(&head.id).await?;
        self.store.change(&head.id, BY, "put away", archive).await?;
        Ok(true)
    }

    async fn abandon(&self, plan: &PlanId) -> Result<()> {
        let why = "no role waits for it any more";
        let abandon = move |draft: &mut Draft<'_>| draft.abandon(why);
        // Its role may have been faster.
        unless_ended(self.store.change(plan, BY, why, abandon).await)
    }

    async fn withdraw_requests(&self, plan: &PlanId) -> anyhow::Result<()> {
        let recalls = self.store.read(plan, |plan, _| -> Vec<CommandId> {
            plan.recalls().map(|attempt| attempt.id.clone()).collect()
        });
        for command in recalls.await? {
            let (volumes, id) = (self.volumes.clone(), command.clone());
            let done = blocking(move || volumes.recall(&id)).await?;
            let record = move |draft: &mut Draft<'_>| match done {
                Withdrawal::Withdrawn => draft.withdrawn(&command),
                Withdrawal::Taken => draft.recalled(&command),
            };
            let why = "a request was taken back";
            self.store.change(plan, BY, why, record).await?;
        }
        Ok(())
    }
}

/// Returns whether a task awaits the result of an internal plan: its key ends with the command or request that it is
/// made for.
async fn is_awaited(store: &Store, head: &PlanHead) -> Result<bool> {
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
    let claimed = plan.awaited_attempts();
    let claimed = claimed.filter(|attempt| attempt.claimed.is_some());
    let begun = claimed.filter_map(|attempt| plan.task(attempt.task)?.assignee.clone());
    let asked = plan.waits().map(|(_, wait)| wait.on.clone());
    begun.chain(asked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{ArchiveState, PlanState};

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
        let (_root, volumes) = Volumes::temporary();
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
