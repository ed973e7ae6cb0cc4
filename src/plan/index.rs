//! What is known of a plan's tasks without a look at each: their order, who is in which state, who waits for whom, whose
//! they are. Only [`super::Plan::put`] writes it.

use std::collections::{BTreeSet, HashMap};

use super::model::{Order, Task, TaskId, TaskStatus};
use super::places::{Place, Places, Span};
use super::roles::{ByRole, Walk};

/// How many tasks are in which state; removed ones count nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    /// Returns the number of tasks to which nothing more happens by itself.
    pub fn settled(&self) -> usize {
        self.completed + self.failed + self.skipped
    }
}

/// Which tasks are shown: the states, with the pending ones told apart by whether they may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shown {
    /// Pending, and may start now by the order of the plan.
    Ready,
    /// Pending, and may not start yet.
    Blocked,
    /// Ready and blocked.
    Pending,
    InProgress,
    Completed,
    Failed,
    Skipped,
}

impl From<TaskStatus> for Shown {
    fn from(status: TaskStatus) -> Self {
        match status {
            TaskStatus::Pending => Self::Pending,
            TaskStatus::InProgress => Self::InProgress,
            TaskStatus::Completed => Self::Completed,
            TaskStatus::Failed => Self::Failed,
            TaskStatus::Skipped => Self::Skipped,
        }
    }
}

/// The tasks of each state in the plan's order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ByStatus {
    pending: Places,
    in_progress: Places,
    completed: Places,
    failed: Places,
    skipped: Places,
}

impl ByStatus {
    pub(super) fn of(&self, status: TaskStatus) -> &Places {
        match status {
            TaskStatus::Pending => &self.pending,
            TaskStatus::InProgress => &self.in_progress,
            TaskStatus::Completed => &self.completed,
            TaskStatus::Failed => &self.failed,
            TaskStatus::Skipped => &self.skipped,
        }
    }

    fn of_mut(&mut self, status: TaskStatus) -> &mut Places {
        match status {
            TaskStatus::Pending => &mut self.pending,
            TaskStatus::InProgress => &mut self.in_progress,
            TaskStatus::Completed => &mut self.completed,
            TaskStatus::Failed => &mut self.failed,
            TaskStatus::Skipped => &mut self.skipped,
        }
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            pending: self.pending.len(),
            in_progress: self.in_progress.len(),
            completed: self.completed.len(),
            failed: self.failed.len(),
            skipped: self.skipped.len(),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TaskIndex {
    pub(super) by_key: HashMap<String, TaskId>,
    pub(super) order: Places,
    /// Those that are not skipped.
    pub(super) wanted: Places,
    pub(super) by_status: ByStatus,
    pub(super) by_assignee: HashMap<String, ByStatus>,
    pub(super) unsettled: Places,
    /// Pending tasks without unmet dependencies, and those with some.
    free: Places,
    bound: Places,
    /// The same ones by whose they are.
    free_of: ByRole,
    bound_of: ByRole,
    pub(super) dependants: HashMap<TaskId, BTreeSet<TaskId>>,
    unmet: HashMap<TaskId, usize>,
}

impl TaskIndex {
    /// Returns the places of the tasks to be shown, in the order of the plan.
    pub(super) fn shown(&self, shown: Shown, order: Order) -> Span<'_> {
        let pending = &self.by_status.pending;
        let (places, from, to) = match (shown, order) {
            (Shown::Ready, Order::Dependencies) => (&self.free, 0, usize::MAX),
            (Shown::Blocked, Order::Dependencies) => (&self.bound, 0, usize::MAX),
            (Shown::Ready, Order::Sequential) => (pending, 0, self.next_in_line()),
            (Shown::Blocked, Order::Sequential) => (pending, self.next_in_line(), usize::MAX),
            (Shown::Blocked, Order::Free) => (pending, 0, 0),
            (Shown::Ready, Order::Free) | (Shown::Pending, _) => (pending, 0, usize::MAX),
            (Shown::InProgress, _) => (&self.by_status.in_progress, 0, usize::MAX),
            (Shown::Completed, _) => (&self.by_status.completed, 0, usize::MAX),
            (Shown::Failed, _) => (&self.by_status.failed, 0, usize::MAX),
            (Shown::Skipped, _) => (&self.by_status.skipped, 0, usize::MAX),
        };
        places.span(from, to)
    }

    /// Returns how many tasks may start where one follows the other: one, if the first unsettled one is pending.
    fn next_in_line(&self) -> usize {
        let first = self.by_status.pending.first();
        usize::from(first.is_some() && first == self.unsettled.first())
    }

    /// Goes through the pending tasks in the order of the plan, all of them or those without unmet dependencies.
    pub(super) fn walk(&self, all: bool) -> Walk<'_> {
        let bound = all.then_some(&self.bound_of);
        Walk::over([&self.free_of].into_iter().chain(bound))
    }

    pub(super) fn may_start(&self, task: &Task, order: Order) -> bool {
        let place = place(task);
        task.status == TaskStatus::Pending
            && match order {
                Order::Dependencies => self.free.contains(&place),
                Order::Sequential => self.unsettled.first() == Some(place),
                Order::Free => true,
            }
    }

    /// Takes in how a task is now; `old` is how it was, if it was there.
    pub(super) fn put(&mut self, old: Option<&Task>, task: &Task, unmet: usize) {
        match old {
            Some(old) if stays(old, task) => self.turn(old, task),
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
        let place = place(task);
        self.by_key.insert(task.key.clone(), task.number);
        self.order.insert(place);
        self.sort_by_status(task, place);
        for dependency in &task.dependencies {
            self.dependants
                .entry(*dependency)
                .or_default()
                .insert(task.number);
        }
        self.unmet.insert(task.number, unmet);
        self.sort_by_wait(task, unmet);
        if !task.status.settled() {
            self.unsettled.insert(place);
        }
        if task.status != TaskStatus::Skipped {
            self.wanted.insert(place);
        }
    }

    pub(super) fn leave(&mut self, task: &Task) {
        if task.removed {
            return;
        }
        let place = place(task);
        if self.by_key.get(&task.key) == Some(&task.number) {
            self.by_key.remove(&task.key);
        }
        self.order.remove(&place);
        self.take_from_status(task, place);
        for dependency in &task.dependencies {
            forget(&mut self.dependants, *dependency, &task.number);
        }
        self.unsettled.remove(&place);
        self.wanted.remove(&place);
        self.unmet.remove(&task.number);
    }

    /// Takes in another state of a task that stays where it is: what changes most often touches least.
    fn turn(&mut self, old: &Task, task: &Task) {
        if old.status == task.status {
            return;
        }
        let place = place(task);
        self.take_from_status(old, place);
        self.sort_by_status(task, place);
        let unmet = self.unmet.get(&task.number).copied().unwrap_or_default();
        self.sort_by_wait(task, unmet);
        match (old.status.settled(), task.status.settled()) {
            (true, false) => self.unsettled.insert(place),
            (false, true) => self.unsettled.remove(&place),
            _ => {}
        }
        if old.status == TaskStatus::Skipped {
            self.wanted.insert(place);
        } else if task.status == TaskStatus::Skipped {
            self.wanted.remove(&place);
        }
    }

    fn sort_by_status(&mut self, task: &Task, place: Place) {
        self.by_status.of_mut(task.status).insert(place);
        let Some(assignee) = &task.assignee else {
            return;
        };
        if !self.by_assignee.contains_key(assignee) {
            self.by_assignee
                .insert(assignee.clone(), ByStatus::default());
        }
        if let Some(tasks) = self.by_assignee.get_mut(assignee) {
            tasks.of_mut(task.status).insert(place);
        }
    }

    fn take_from_status(&mut self, task: &Task, place: Place) {
        self.by_status.of_mut(task.status).remove(&place);
        if task.status == TaskStatus::Pending {
            self.free.remove(&place);
            self.bound.remove(&place);
            self.free_of.remove(&task.assignee, &place);
            self.bound_of.remove(&task.assignee, &place);
        }
        if let Some(assignee) = &task.assignee
            && let Some(tasks) = self.by_assignee.get_mut(assignee)
        {
            tasks.of_mut(task.status).remove(&place);
            if tasks.counts().total() == 0 {
                self.by_assignee.remove(assignee);
            }
        }
    }

    /// Counts one dependency of a task less or more that is not met.
    pub(super) fn wait(&mut self, task: &Task, met: bool) {
        let unmet = self.unmet.entry(task.number).or_default();
        *unmet = if met {
            unmet.saturating_sub(1)
        } else {
            *unmet + 1
        };
        let unmet = *unmet;
        self.sort_by_wait(task, unmet);
    }

    fn sort_by_wait(&mut self, task: &Task, unmet: usize) {
        let place = place(task);
        if task.status != TaskStatus::Pending || task.removed {
            return;
        }
        let role = &task.assignee;
        if unmet == 0 {
            self.bound.remove(&place);
            self.bound_of.remove(role, &place);
            self.free.insert(place);
            self.free_of.insert(role, place);
        } else {
            self.free.remove(&place);
            self.free_of.remove(role, &place);
            self.bound.insert(place);
            self.bound_of.insert(role, place);
        }
    }
}

/// Tells whether only the state of a task and what is said of it differ.
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
