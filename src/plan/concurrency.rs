//! How many tasks may be under way simultaneously, in the plan and for each role that has lanes of its own; and which role
//! waits for which.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{AttemptState, Plan, RoleRequest, RoleRules, SessionScope, Task, TaskId};

/// The lanes of a plan, and the tasks on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// The most tasks that may be under way simultaneously, of all roles together.
    pub most: usize,
    /// Each role with lanes of its own.
    pub roles: BTreeMap<String, RoleLanes>,
    /// Tasks under way that belong to no such role.
    pub others: Vec<TaskId>,
}

/// The lanes of one role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RoleLanes {
    /// The most tasks of the role that may be under way simultaneously; at least one.
    pub most: usize,
    /// Its tasks that are under way, by their numbers.
    #[serde(rename = "tasks")]
    pub busy: Vec<TaskId>,
    /// The tasks for which another role has sent it a request, by their numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<TaskId>,
}

impl Plan {
    /// Returns the waits between roles, each with the task that they work on; the waits of a task are in the order of the
    /// requests.
    pub fn waits(&self) -> impl Iterator<Item = (TaskId, &RoleRequest)> {
        let open = self.open_attempts();
        open.flat_map(|attempt| attempt.waits.iter().map(|wait| (attempt.task, wait)))
    }

    /// Returns the waits between the roles that work on this task, in the order of the requests.
    pub fn waits_of(&self, task: &Task) -> &[RoleRequest] {
        let attempt = self.current_attempt(task);
        attempt.map_or(&[], |attempt| &attempt.waits)
    }

    /// Returns whether agents on other machines do the tasks of a role: its command is claimed when a relay has it.
    pub fn behind_relays(&self, role: Option<&str>) -> bool {
        let policy = &self.head().policy;
        let rules = role.and_then(|role| policy.roles.get(role));
        rules.map_or(policy.relayed, |rules| rules.relayed)
    }

    /// Returns what has agents on other machines take the commands of a role, if they do its tasks.
    pub fn relay_for(&self, role: Option<&str>) -> Option<String> {
        let of_role = role.map_or(String::new(), |role| format!(" --role {role}"));
        let way = format!("`plan-agent relay{of_role}` on a machine with the project takes it");
        self.behind_relays(role).then_some(way)
    }

    /// Returns whether a task has no worker: it is assigned to no role, and every role takes only its own tasks. A worker that
    /// has claimed it nevertheless counts as its worker until the attempt is over.
    pub fn has_no_worker(&self, task: &Task) -> bool {
        let over = self.status().settled() || task.status.settled();
        let taken = self.current_attempt(task).is_some_and(|now| {
            now.state == AttemptState::Reported
                || now.state == AttemptState::Open && now.claimed.is_some()
        });
        task.assignee.is_none() && self.head().policy.roles_only && !over && !taken
    }
}

impl Lanes {
    /// Returns the present lanes of a plan. A result that waits for a human takes no lane from other tasks.
    pub fn of(plan: &Plan) -> Self {
        let policy = &plan.head().policy;
        let most = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let role = |(role, rules): (&String, &RoleRules)| {
            let lanes = RoleLanes {
                most: most(rules.concurrency).max(1),
                ..RoleLanes::default()
            };
            (role.clone(), lanes)
        };
        let mut lanes = Self {
            most: match policy.session {
                SessionScope::Task => most(policy.max_parallel),
                // One conversation cannot be about two tasks simultaneously.
                SessionScope::Plan => 1,
            },
            roles: policy.roles.iter().map(role).collect(),
            others: Vec::new(),
        };
        for attempt in plan.open_attempts() {
            if attempt.state != AttemptState::Reported || !plan.asks_about(attempt.task) {
                lanes.occupy(plan.role_of(attempt.task), attempt.task);
            }
        }
        for (task, wait) in plan.waits() {
            // A request takes no lane: the role that is asked answers it in between.
            if let Some(role) = lanes.roles.get_mut(&wait.on)
                && let Err(at) = role.asked.binary_search(&task)
            {
                role.asked.insert(at, task);
            }
        }
        lanes
    }

    /// Returns how many tasks are under way.
    pub fn busy(&self) -> usize {
        let roles: usize = self.roles.values().map(|role| role.busy.len()).sum();
        roles + self.others.len()
    }

    /// Returns whether no further task may begin.
    pub fn full(&self) -> bool {
        self.busy() >= self.most
    }

    /// Returns whether no further task of a role may begin.
    pub fn full_for(&self, role: Option<&str>) -> bool {
        let lanes = role.and_then(|role| self.roles.get(role));
        self.full() || lanes.is_some_and(|lanes| lanes.busy.len() >= lanes.most)
    }

    /// Occupies a lane with a task of a role.
    pub(super) fn occupy(&mut self, role: Option<&str>, task: TaskId) {
        let busy = match role.and_then(|role| self.roles.get_mut(role)) {
            Some(lanes) => &mut lanes.busy,
            None => &mut self.others,
        };
        busy.insert(busy.partition_point(|other| *other < task), task);
    }
}
