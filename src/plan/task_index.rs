//! Indexes over a plan's tasks, which make it unnecessary to read each task: their order, their states, their dependencies,
//! their roles. Only [`super::Plan::put`] writes it.

use std::collections::{BTreeMap, BTreeSet, HashMap, btree_map};
use std::iter::Peekable;

use super::model::{PlanState, Task, TaskId, TaskOrder, TaskState};
use super::ranked_set::{Place, RankRange, RankedSet};

/// The number of tasks in each state; removed tasks are not counted.
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

/// Which tasks are shown: the states; pending tasks are divided by whether they may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskFilter {
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

impl From<TaskState> for TaskFilter {
    fn from(status: TaskState) -> Self {
        match status {
            TaskState::Pending => Self::Pending,
            TaskState::InProgress => Self::InProgress,
            TaskState::Completed => Self::Completed,
            TaskState::Failed => Self::Failed,
            TaskState::Skipped => Self::Skipped,
        }
    }
}

/// Tasks that are found together, in the plan's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    All,
    /// Tasks that are not skipped.
    Wanted,
    Unsettled,
    Pending,
    /// Pending tasks without unmet dependencies.
    Free,
    /// Pending tasks with some.
    Bound,
    InProgress,
    Completed,
    Failed,
    Skipped,
}

/// What decides to which groups a task belongs: its status, and whether its dependencies are met.
type Standing = (TaskState, bool);

impl Group {
    const EVERY: [Self; 10] = [
        Self::All,
        Self::Wanted,
        Self::Unsettled,
        Self::Pending,
        Self::Free,
        Self::Bound,
        Self::InProgress,
        Self::Completed,
        Self::Failed,
        Self::Skipped,
    ];

    /// Those that are also known of each role.
    const OF_ROLE: [Self; 6] = [
        Self::Pending,
        Self::Free,
        Self::InProgress,
        Self::Completed,
        Self::Failed,
        Self::Skipped,
    ];

    fn has(self, (status, met): Standing) -> bool {
        match self {
            Self::All => true,
            Self::Wanted => status != TaskState::Skipped,
            Self::Unsettled => !status.settled(),
            Self::Free => status == TaskState::Pending && met,
            Self::Bound => status == TaskState::Pending && !met,
            Self::Pending | Self::InProgress | Self::Completed | Self::Failed | Self::Skipped => {
                self == Self::from(status)
            }
        }
    }
}

impl From<TaskState> for Group {
    fn from(status: TaskState) -> Self {
        match status {
            TaskState::Pending => Self::Pending,
            TaskState::InProgress => Self::InProgress,
            TaskState::Completed => Self::Completed,
            TaskState::Failed => Self::Failed,
            TaskState::Skipped => Self::Skipped,
        }
    }
}

/// The tasks of the plan or of a role, by group.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Groups([RankedSet; Group::EVERY.len()]);

impl Groups {
    pub(super) fn of(&self, group: Group) -> &RankedSet {
        &self.0[group as usize]
    }

    /// Takes in how a task stands now and how it stood; `None` where it is not in the plan.
    fn sort(&mut self, kept: &[Group], place: Place, was: Option<Standing>, is: Option<Standing>) {
        for group in kept {
            let places = &mut self.0[*group as usize];
            let has = |standing| group.has(standing);
            match (was.is_some_and(has), is.is_some_and(has)) {
                (false, true) => places.insert(place),
                (true, false) => places.remove(&place),
                _ => {}
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|places| places.len() == 0)
    }
}

/// Groups that are gone through role by role: what may start, by the order of the plan.
const WALKED: [Group; 2] = [Group::Free, Group::Pending];

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TaskIndex {
    pub(super) by_key: HashMap<String, TaskId>,
    pub(super) all: Groups,
    /// Whose the tasks are; those of nobody stand under `None`.
    of_role: HashMap<Option<String>, Groups>,
    /// The first task of each role in the groups that are [`WALKED`].
    firsts: [BTreeMap<Place, Option<String>>; WALKED.len()],
    pub(super) dependants: HashMap<TaskId, BTreeSet<TaskId>>,
    unmet: HashMap<TaskId, usize>,
}

impl TaskIndex {
    /// Returns how many tasks are in which state.
    pub(super) fn counts(&self) -> Counts {
        let count = |group| self.all.of(group).len();
        Counts {
            pending: count(Group::Pending),
            in_progress: count(Group::InProgress),
            completed: count(Group::Completed),
            failed: count(Group::Failed),
            skipped: count(Group::Skipped),
        }
    }

    /// Returns the places of the tasks to show, in the order of the plan.
    pub(super) fn shown(&self, shown: TaskFilter, order: TaskOrder) -> RankRange<'_> {
        let (group, from, to) = match (shown, order) {
            (TaskFilter::Ready, TaskOrder::Dependencies) => (Group::Free, 0, usize::MAX),
            (TaskFilter::Blocked, TaskOrder::Dependencies) => (Group::Bound, 0, usize::MAX),
            (TaskFilter::Ready, TaskOrder::Sequential) => (Group::Pending, 0, self.next_in_line()),
            (TaskFilter::Blocked, TaskOrder::Sequential) => {
                (Group::Pending, self.next_in_line(), usize::MAX)
            }
            (TaskFilter::Blocked, TaskOrder::Free) => (Group::Pending, 0, 0),
            (TaskFilter::Ready, TaskOrder::Free) | (TaskFilter::Pending, _) => {
                (Group::Pending, 0, usize::MAX)
            }
            (TaskFilter::InProgress, _) => (Group::InProgress, 0, usize::MAX),
            (TaskFilter::Completed, _) => (Group::Completed, 0, usize::MAX),
            (TaskFilter::Failed, _) => (Group::Failed, 0, usize::MAX),
            (TaskFilter::Skipped, _) => (Group::Skipped, 0, usize::MAX),
        };
        self.all.of(group).span(from, to)
    }

    /// Returns how many tasks may start when tasks run one after another: one, if the first unsettled one is pending.
    fn next_in_line(&self) -> usize {
        let first = self.all.of(Group::Pending).first();
        usize::from(first.is_some() && first == self.all.of(Group::Unsettled).first())
    }

    /// Returns the tasks of a role that are in a state.
    pub(super) fn of_role(&self, role: &str, status: TaskState) -> RankRange<'_> {
        match self.of_role.get(&Some(role.to_owned())) {
            Some(groups) => groups.of(status.into()).span(0, usize::MAX),
            None => self.nothing(),
        }
    }

    fn nothing(&self) -> RankRange<'_> {
        self.all.of(Group::All).span(0, 0)
    }

    pub(super) fn may_start(&self, task: &Task, order: TaskOrder) -> bool {
        let place = place(task);
        task.status == TaskState::Pending
            && match order {
                TaskOrder::Dependencies => self.all.of(Group::Free).contains(&place),
                TaskOrder::Sequential => self.all.of(Group::Unsettled).first() == Some(place),
                TaskOrder::Free => true,
            }
    }

    /// Stores the present state of a task; `old` is its previous state, if it had one.
    pub(super) fn update(&mut self, old: Option<&Task>, task: &Task, unmet: usize) {
        match old {
            Some(old) if stays(old, task) => {
                let met = self.met(task);
                self.sort(task, Some((old.status, met)), Some((task.status, met)));
            }
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
            self.dependants
                .entry(*dependency)
                .or_default()
                .insert(task.number);
        }
        self.unmet.insert(task.number, unmet);
        self.sort(task, None, Some((task.status, unmet == 0)));
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
        self.sort(task, Some((task.status, self.met(task))), None);
        self.unmet.remove(&task.number);
    }

    /// Counts one unmet dependency of a task less or more.
    pub(super) fn wait(&mut self, task: &Task, met: bool) {
        let was = self.met(task);
        let unmet = self.unmet.entry(task.number).or_default();
        *unmet = if met {
            unmet.saturating_sub(1)
        } else {
            *unmet + 1
        };
        let is = *unmet == 0;
        self.sort(task, Some((task.status, was)), Some((task.status, is)));
    }

    fn met(&self, task: &Task) -> bool {
        self.unmet.get(&task.number).is_none_or(|unmet| *unmet == 0)
    }

    /// Sorts a task that stays where it is: what changes most often touches least.
    fn sort(&mut self, task: &Task, was: Option<Standing>, is: Option<Standing>) {
        if was == is {
            return;
        }
        let place = place(task);
        self.all.sort(&Group::EVERY, place, was, is);
        let role = &task.assignee;
        if !self.of_role.contains_key(role) {
            self.of_role.insert(role.clone(), Groups::default());
        }
        let Some(groups) = self.of_role.get_mut(role) else {
            return;
        };
        let before = WALKED.map(|group| groups.of(group).first());
        groups.sort(&Group::OF_ROLE, place, was, is);
        for ((firsts, group), before) in self.firsts.iter_mut().zip(WALKED).zip(before) {
            let now = groups.of(group).first();
            if now == before {
                continue;
            }
            if let Some(before) = before {
                firsts.remove(&before);
            }
            if let Some(now) = now {
                firsts.insert(now, role.clone());
            }
        }
        if groups.is_empty() {
            self.of_role.remove(role);
        }
    }

    /// Goes through the pending tasks: those without unmet dependencies, or all of them.
    pub(super) fn walk(&self, free: bool) -> Walk<'_> {
        let at = usize::from(!free);
        Walk {
            index: self,
            group: WALKED[at],
            met: BTreeMap::new(),
            ahead: self.firsts[at].iter().peekable(),
        }
    }

    /// Goes through one task, if there is one.
    pub(super) fn walk_to<'a>(&'a self, task: Option<&'a Task>) -> Walk<'a> {
        let alone = |task: &'a Task| (place(task), (task.assignee.as_deref(), self.nothing()));
        Walk {
            index: self,
            group: Group::Pending,
            met: task.map(alone).into_iter().collect(),
            ahead: btree_map::Iter::default().peekable(),
        }
    }
}

/// Walks over tasks in the plan's order and can leave out whole roles: each role that is left out costs one step, however many
/// tasks it has.
pub(super) struct Walk<'a> {
    index: &'a TaskIndex,
    group: Group,
    /// The next task of each visited role, and the role's tasks after it.
    met: BTreeMap<Place, (Option<&'a str>, RankRange<'a>)>,
    /// Roles whose first task was not reached yet, in the order of their first tasks.
    ahead: Peekable<btree_map::Iter<'a, Place, Option<String>>>,
}

impl Walk<'_> {
    /// Returns the next task of a role that is not left out now. The walk does not return to a role once it was left out.
    pub(super) fn next(&mut self, left_out: impl Fn(Option<&str>) -> bool) -> Option<Place> {
        loop {
            let next = self.met.first_key_value().map(|(place, _)| *place);
            let before = |(place, _): &(&Place, _)| next.is_none_or(|next| **place < next);
            if let Some((place, role)) = self.ahead.next_if(before)
                && let Some(groups) = self.index.of_role.get(role)
            {
                let rest = groups.of(self.group).span(1, usize::MAX);
                self.met.insert(*place, (role.as_deref(), rest));
            }
            let (place, (role, mut rest)) = self.met.pop_first()?;
            if left_out(role) {
                continue;
            }
            if let Some(next) = rest.next() {
                self.met.insert(next, (role, rest));
            }
            return Some(place);
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
