//! Indexes over a plan's tasks, which make it unnecessary to read each task: their order, their states, their dependencies,
//! their roles. Only [`super::Plan::put`] writes it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::*;

/// The number of tasks in each state; removed tasks are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub pending: usize,
    pub in_progress: usize,
    pub completed: usize,
    pub failed: usize,
    pub skipped: usize,
}

impl Counts {
    /// Returns the number of all tasks.
    pub fn total(&self) -> usize {
        self.pending + self.in_progress + self.completed + self.failed + self.skipped
    }

    /// Returns how a plan ends whose tasks are all settled; `None` while one is not, or without tasks.
    pub(super) fn outcome(&self) -> Option<PlanState> {
        match self.failed {
            _ if self.total() == 0 || self.settled() < self.total() => None,
            0 => Some(PlanState::Completed),
            _ => Some(PlanState::Failed),
        }
    }

    /// Returns the number of tasks that do not change any more by themselves.
    pub fn settled(&self) -> usize {
        self.completed + self.failed + self.skipped
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TaskIndex {
    pub(super) by_key: HashMap<String, TaskId>,
    pub(super) all: RankedSet,
    /// The tasks of each role; those without an assignee stand under `None`.
    pub(super) of_role: HashMap<Option<String>, RankedSet>,
    pub(super) dependants: HashMap<TaskId, BTreeSet<TaskId>>,
    unmet: HashMap<TaskId, usize>,
}

impl TaskIndex {
    /// Returns how many tasks are in which state.
    pub(super) fn counts(&self) -> Counts {
        Counts {
            pending: self.all.count(PENDING),
            in_progress: self.all.count(IN_PROGRESS),
            completed: self.all.count(COMPLETED),
            failed: self.all.count(FAILED),
            skipped: self.all.count(SKIPPED),
        }
    }

    /// Returns how many pending tasks may start when tasks run one after another: one, if the first unsettled one is pending.
    pub(super) fn next_in_line(&self) -> usize {
        let first = self.all.first(PENDING);
        usize::from(first.is_some() && first == self.all.first(UNSETTLED))
    }

    pub(super) fn may_start(&self, task: &Task, order: TaskOrder) -> bool {
        let place = place(task);
        task.status == TaskState::Pending
            && match order {
                TaskOrder::Dependencies => self.all.kind(&place) == Some(FREE),
                TaskOrder::Sequential => self.all.first(UNSETTLED) == Some(place),
                TaskOrder::Free => true,
            }
    }

    /// Stores the present state of a task; `old` is its previous state, if it had one.
    pub(super) fn update(&mut self, old: Option<&Task>, task: &Task, unmet: usize) {
        match old {
            // What changes most often touches least.
            Some(old) if stays(old, task) => self.sort(task),
            _ => {
                if let Some(old) = old {
                    self.leave(old);
                }
                if !task.removed {
                    self.enter(task, unmet);
                }
            }
        }
    }

    fn enter(&mut self, task: &Task, unmet: usize) {
        self.by_key.insert(task.key.clone(), task.number);
        for dependency in &task.dependencies {
            let dependants = self.dependants.entry(*dependency).or_default();
            dependants.insert(task.number);
        }
        self.unmet.insert(task.number, unmet);
        self.sort(task);
    }

    pub(super) fn leave(&mut self, task: &Task) {
        if task.removed {
            return;
        }
        if self.by_key.get(&task.key) == Some(&task.number) {
            self.by_key.remove(&task.key);
        }
        for dependency in &task.dependencies {
            forget(&mut self.dependants, *dependency, &task.number);
        }
        self.unmet.remove(&task.number);
        self.set(task, None);
    }

    /// Counts one unmet dependency of a task less or more.
    pub(super) fn wait(&mut self, task: &Task, met: bool) {
        let unmet = self.unmet.entry(task.number).or_default();
        *unmet = match met {
            true => unmet.saturating_sub(1),
            false => *unmet + 1,
        };
        self.sort(task);
    }

    fn sort(&mut self, task: &Task) {
        let met = self.unmet.get(&task.number).is_none_or(|unmet| *unmet == 0);
        let kind = match task.status {
            TaskState::Pending if met => FREE,
            TaskState::Pending => BOUND,
            status => kinds(status),
        };
        self.set(task, Some(kind));
    }

    fn set(&mut self, task: &Task, kind: Option<Kinds>) {
        let (place, role) = (place(task), &task.assignee);
        if self.all.kind(&place) == kind {
            return;
        }
        self.all.set(place, kind);
        let tasks = self.of_role.entry(role.clone()).or_default();
        tasks.set(place, kind);
        if tasks.is_empty() {
            self.of_role.remove(role);
        }
    }
}

/// Returns the kinds of the tasks in a state.
pub(super) fn kinds(status: TaskState) -> Kinds {
    match status {
        TaskState::Pending => PENDING,
        TaskState::InProgress => IN_PROGRESS,
        TaskState::Completed => COMPLETED,
        TaskState::Failed => FAILED,
        TaskState::Skipped => SKIPPED,
    }
}

/// Tasks that may start now, in the plan's order. A role costs one step at the beginning and one where it is left out, however
/// many tasks it has.
#[derive(Default)]
pub struct Startable<'a> {
    /// The next task of each role by its place, and the role's tasks after it.
    roles: BTreeMap<Place, (&'a Task, Tasks<'a>)>,
}

impl<'a> Startable<'a> {
    /// Goes through the tasks of roles.
    pub(super) fn of(roles: impl Iterator<Item = Tasks<'a>>) -> Self {
        let mut startable = Self::default();
        roles.for_each(|tasks| startable.add(tasks));
        startable
    }

    fn add(&mut self, mut tasks: Tasks<'a>) {
        if let Some(next) = tasks.next() {
            self.roles.insert(place(next), (next, tasks));
        }
    }

    /// Returns the next task of a role that is not left out. The walk does not return to a role once it was left out.
    pub fn next(&mut self, left_out: impl Fn(Option<&str>) -> bool) -> Option<&'a Task> {
        loop {
            let (_, (task, rest)) = self.roles.pop_first()?;
            if !left_out(task.assignee.as_deref()) {
                self.add(rest);
                return Some(task);
            }
        }
    }
}

/// Returns whether the place, the key, the role and the dependencies of a task are the same.
fn stays(old: &Task, task: &Task) -> bool {
    !old.removed
        && !task.removed
        && old.position == task.position
        && old.key == task.key
        && old.assignee == task.assignee
        && old.dependencies == task.dependencies
}

pub(super) fn place(task: &Task) -> Place {
    (task.position, task.number)
}

/// Removes an item from a set in a map, and the set when it is empty, so that an undone change leaves no trace.
pub(super) fn forget<T: Ord>(map: &mut HashMap<TaskId, BTreeSet<T>>, key: TaskId, item: &T) {
    if let Some(set) = map.get_mut(&key) {
        set.remove(item);
        if set.is_empty() {
            map.remove(&key);
        }
    }
}
