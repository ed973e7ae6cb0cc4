//! What the roles in the process share: their host, and the registry of their lanes.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use parking_lot::Mutex;

use super::lane_registry::LaneRegistry;
use super::request_timeout::last_lives;
use super::{InProcessRole, RoleHost};
use crate::plan::{Attempt, AttemptState, CommandId, DAEMON, ROLE, Time};
use crate::role::{InternalPlan, RoleId, WaitChain};
use crate::store::StoreError;
use crate::volumes::{Folder, Volumes, VolumesError};

/// What the roles in the process share.
pub(super) struct SharedContext {
    pub host: RoleHost,
    pub registry: LaneRegistry,
    /// When an earlier process gave its last heartbeat for a command, once that is recovered.
    lived: OnceLock<BTreeMap<CommandId, Time>>,
    /// The roles to whom the commands are assigned that a worker has. Every lane that waits wants to know at every change of the
    /// store: as the text of a command never changes, it is read once.
    assignees: Mutex<BTreeMap<CommandId, Option<String>>>,
}

impl SharedContext {
    pub(super) fn new(host: RoleHost) -> Self {
        let lanes = |role: &InProcessRole| (role.id.clone(), role.lanes);
        Self {
            registry: LaneRegistry::new(host.residents.iter().map(lanes)),
            host,
            lived: OnceLock::new(),
            assignees: Mutex::default(),
        }
    }

    /// Returns whether a worker of a role behind files has a command.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn is_busy(&self, role: &RoleId) -> Result<bool, VolumesError> {
        let locked = self.host.volumes.locked()?;
        let mut known = self.assignees.lock();
        // The ids are in order.
        known.retain(|id, _| locked.binary_search(id).is_ok());
        if known.len() < locked.len() {
            let everywhere = self.host.volumes.everywhere();
            for id in locked {
                // What cannot be read yet is locked just before it is taken.
                let taken =
                    |volumes: &Volumes| volumes.find_command(Folder::CommandsProcessed, &id);
                if !known.contains_key(&id)
                    && let Some(command) = everywhere.iter().find_map(taken)
                {
                    known.insert(id, command.assignee);
                }
            }
        }
        let mut assignees = known.values();
        Ok(assignees.any(|assignee| assignee.as_deref() == Some(role.as_str())))
    }

    /// Notes in the registry what roles in the process waited for when an earlier process ended, and when that last lived.
    ///
    /// # Errors
    /// A failure of the store.
    pub(super) async fn recover(&self) -> Result<(), StoreError> {
        (self.lived).get_or_init(|| last_lives(&self.host.volumes, &self.host.clock));
        for plan in self.host.store.in_use(ROLE).await? {
            let plan = plan.head;
            // What works in other programs is none of ours.
            if plan.status.settled()
                || WaitChain::of(&self.host.store, Some(&plan.id)).await?.owner != DAEMON
            {
                continue;
            }
            let Some((role, work)) = InternalPlan::parse_key(plan.key()) else {
                continue;
            };
            let asked = self.host.store.read(&plan.id, |plan, _| {
                let asked = plan.awaited_attempts().filter_map(|attempt| {
                    let on = plan.task(attempt.task)?.assignee.as_ref()?;
                    Some((attempt.id.clone(), on.parse().ok()?))
                });
                asked.collect::<Vec<_>>()
            });
            for (id, on) in asked.await? {
                self.registry.waited(&role, work.clone(), id, on);
            }
        }
        Ok(())
    }

    /// Returns when an earlier process gave its last heartbeat for a command.
    pub(super) fn lived(&self, command: &CommandId) -> Option<Time> {
        self.lived.get()?.get(command).copied()
    }

    /// Returns whether the plan wants, or wanted, a command back that was dispatched for a task of it.
    pub(super) async fn recalled(&self, command: &CommandId) -> bool {
        // A command by hand belongs to no plan.
        let Ok(Some(plan)) = self.host.store.plan_of(command).await else {
            return false;
        };
        let id = command.clone();
        // Until its agent is asked to stop the plan says so by a flag; the mark for that reaches the role a moment after the
        // flag is gone.
        let recalled = move |attempt: &Attempt| match attempt.state {
            AttemptState::TimedOut | AttemptState::Stopped => true,
            state => attempt.recall && !state.open(),
        };
        let read = self.host.store.read(&plan, move |plan, _| {
            plan.attempt(&id).is_some_and(recalled)
        });
        read.await.unwrap_or(false)
    }
}
