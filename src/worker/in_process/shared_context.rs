//! What the roles in the process share: where plans and files are, who there is besides them, and the board.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::RoleOptions;
use super::lane_registry::LaneRegistry;
use super::request_timeout::last_lives;
use crate::config::Timing;
use crate::llm::Prompts;
use crate::plan::{Attempt, AttemptState, CommandId, DAEMON, ROLE, Time};
use crate::plan_time::Clock;
use crate::role::{RoleId, WaitChain};
use crate::store::{Store, StoreError};
use crate::volumes::{Folder, Volumes, VolumesError};
use crate::wire::command_file::{CommandFile, Language};

/// One role of the team, as the others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub id: RoleId,
    /// What it is good for.
    pub description: String,
    /// What it is told of itself, where it is behind files; else empty.
    pub prompt: String,
    pub place: RoleWorkspace,
}

/// Where a role does its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleWorkspace {
    /// In this process, so many things at a time.
    Inside { lanes: usize },
    /// Behind files: it is asked by a command.
    Files,
}

/// What the roles in the process share.
#[derive(Debug)]
pub(super) struct SharedContext {
    pub store: Store,
    pub volumes: Volumes,
    /// The folder in which agents work, where nothing names another.
    pub workspace: PathBuf,
    pub clock: Clock,
    pub prompts: Arc<Prompts>,
    pub language: Language,
    pub members: Vec<Member>,
    /// How deep requests within requests may go.
    pub max_depth: usize,
    pub timing: Timing,
    pub registry: LaneRegistry,
    /// When an earlier process gave its last heartbeat for a command.
    lived: Mutex<BTreeMap<CommandId, Time>>,
    /// The roles to whom the commands are assigned that a worker has. Every lane that waits wants to know at every change of the
    /// store: as the text of a command never changes, it is read once.
    assignees: Mutex<BTreeMap<CommandId, Option<String>>>,
}

impl SharedContext {
    pub(super) fn new(options: RoleOptions) -> Self {
        let inside = options
            .members
            .iter()
            .filter_map(|member| match member.place {
                RoleWorkspace::Inside { lanes } => Some((member.id.clone(), lanes)),
                RoleWorkspace::Files => None,
            });
        Self {
            registry: LaneRegistry::new(inside),
            store: options.store,
            volumes: options.volumes,
            workspace: options.workspace,
            clock: options.clock,
            prompts: options.prompts,
            language: options.language,
            members: options.members,
            max_depth: options.max_depth,
            timing: options.timing,
            lived: Mutex::default(),
            assignees: Mutex::default(),
        }
    }

    /// Returns whether a worker of a role behind files has a command.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn is_busy(&self, role: &RoleId) -> Result<bool, VolumesError> {
        let locked = self.volumes.locked()?;
        let mut known = self
            .assignees
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // The ids are in order.
        known.retain(|id, _| locked.binary_search(id).is_ok());
        if known.len() < locked.len() {
            let everywhere = self.volumes.everywhere();
            for id in locked {
                // What cannot be read yet is locked just before it is taken.
                let mut texts = everywhere.iter().filter_map(|volumes| {
                    volumes.read_command(Folder::CommandsProcessed, &id).ok()
                });
                if !known.contains_key(&id)
                    && let Some(command) =
                        texts.next().and_then(|text| CommandFile::parse(&text).ok())
                {
                    known.insert(id, command.assignee);
                }
            }
        }
        Ok(known
            .values()
            .any(|assignee| assignee.as_deref() == Some(role.as_str())))
    }

    /// Returns the lanes of a role that works here.
    pub(super) fn lanes(&self, role: &RoleId) -> usize {
        let mut members = self.members.iter().filter(|member| member.id == *role);
        members
            .find_map(|member| match member.place {
                RoleWorkspace::Inside { lanes } => Some(lanes),
                RoleWorkspace::Files => None,
            })
            .unwrap_or(0)
    }

    /// Notes on the board what roles in the process waited for when an earlier process ended, and when that last lived.
    ///
    /// # Errors
    /// A failure of the store.
    pub(super) async fn recover(&self) -> Result<(), StoreError> {
        *self.lived() = last_lives(&self.volumes, &self.clock);
        for plan in self.store.in_use(ROLE).await? {
            let plan = plan.head;
            // What works in other programs is none of ours.
            if plan.status.settled()
                || WaitChain::of(&self.store, Some(&plan.id)).await?.owner != DAEMON
            {
                continue;
            }
            let mut parts = plan.key().splitn(3, ':').skip(1);
            let role = parts.next().and_then(|role| role.parse::<RoleId>().ok());
            let (Some(role), Some(work)) = (role, parts.next().map(CommandId::new)) else {
                continue;
            };
            let asked = self.store.read(&plan.id, |plan, _| {
                let open = plan
                    .open_attempts()
                    .filter(|attempt| attempt.state == AttemptState::Open);
                let asked = open.filter_map(|attempt| {
                    let on = plan.task(attempt.task)?.assignee.as_ref()?;
                    Some((attempt.id.clone(), on.parse().ok()?))
                });
                asked.collect::<Vec<_>>()
            });
            for (id, on) in asked.await? {
                self.registry
                    .waited(&role, work.clone().into(), id.into(), on);
            }
        }
        Ok(())
    }

    /// Returns when an earlier process gave its last heartbeat for a command.
    pub(super) fn lived_last(&self, command: &CommandId) -> Option<Time> {
        self.lived().get(command).copied()
    }

    fn lived(&self) -> MutexGuard<'_, BTreeMap<CommandId, Time>> {
        self.lived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the plan wants a command back that was dispatched for a task of it.
    pub(super) async fn recalled(&self, command: &CommandId) -> bool {
        // A command by hand belongs to no plan.
        let Ok(Some(plan)) = self.store.plan_of(command).await else {
            return false;
        };
        let id = command.clone();
        let recalled = move |attempt: &Attempt| attempt.recall && !attempt.state.open();
        let read = self.store.read(&plan, move |plan, _| {
            plan.attempt(&id).is_some_and(recalled)
        });
        read.await.unwrap_or(false)
    }
}
