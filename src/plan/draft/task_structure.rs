//! Operations on the structure: tasks, their order and their dependencies.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};

use super::*;

/// Room between neighbours: twenty tasks fit one after the other into the same gap before other tasks are moved apart.
const GAP: i64 = 1 << 20;

/// The least number of tasks that are moved apart in one go.
const SPREAD: usize = 32;

impl Draft<'_> {
    /// Adds tasks after `after`, or at the end, and returns their numbers in the order of the list.
    ///
    /// # Errors
    /// An unknown dependency, a cycle, a key that is taken or badly formed, no name, a file that cannot be in the workspace.
    pub fn add_tasks(
        &mut self,
        tasks: Vec<TaskSpec>,
        after: Option<TaskId>,
    ) -> Result<Vec<TaskId>> {
        let after = match after {
            Some(after) => Some(self.task(after)?),
            None => self.plan.tasks().next_back().cloned(),
        };
        self.add_behind(after, tasks)
    }

    /// Adds tasks before another one, and returns their numbers in the order of the list.
    ///
    /// # Errors
    /// No such task; else as [`Draft::add_tasks`].
    pub fn add_tasks_before(
        &mut self,
        tasks: Vec<TaskSpec>,
        before: TaskId,
    ) -> Result<Vec<TaskId>> {
        let before = self.task(before)?;
        let after = self.plan.tasks_around(&before).0.next().cloned();
        self.add_behind(after, tasks)
    }

    /// Adds tasks behind another one, or in front of all tasks.
    fn add_behind(&mut self, after: Option<Task>, tasks: Vec<TaskSpec>) -> Result<Vec<TaskId>> {
        self.not_settled()?;
        let first = self.plan.head().next_task;
        let numbers: Vec<TaskId> = (first..).take(tasks.len()).map(TaskId).collect();
        let key = |(task, number): (&TaskSpec, &TaskId)| {
            task.key.clone().unwrap_or_else(|| number.to_string())
        };
        let keys: Vec<String> = tasks.iter().zip(&numbers).map(key).collect();
        let names = self.names(&keys, &numbers)?;
        let own_role = self.role_of_agent();
        let positions = self.room(after, tasks.len());
        let mut added = Vec::with_capacity(tasks.len());
        let places = numbers.iter().zip(positions).zip(keys);
        for (mut task, ((number, position), key)) in tasks.into_iter().zip(places) {
            task.assignee = task.assignee.or_else(|| own_role.clone());
            let name = task.name.trim().to_owned();
            refuse_if(name.is_empty(), Refusal::NoName)?;
            let called = || {
                let shown = task.key.as_ref().unwrap_or(&name);
                let shown: String = shown.lines().flat_map(str::chars).take(60).collect();
                format!("the new task `{shown}`")
            };
            let dependencies = self.resolve(called, &task.dependencies, &names, &numbers)?;
            let mut metadata = Map::new();
            merge(&mut metadata, &task.metadata)?;
            added.push(Task {
                key,
                position,
                name,
                dependencies,
                produces: produced(&task.produces)?,
                metadata,
                ..Task::new(*number, task, self.now)
            });
        }
        let new = |id: TaskId| added.get(usize::try_from(id.0.checked_sub(first)?).ok()?);
        let next = |id| new(id).map_or(Vec::new(), |task: &Task| task.dependencies.clone());
        if let Some(cycle) = find_cycle(numbers.iter().copied(), next) {
            return Err(Refusal::Cycle(cycle));
        }
        for task in added {
            let (number, name) = (task.number, task.name.clone());
            self.log(Event::Added { task: number, name });
            self.insert(task);
        }
        let count = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        let by_agent = self.agent.is_some() && self.carried_out();
        self.change_head(|head| {
            head.next_task = head.next_task.saturating_add(count);
            head.added_by_agents += usize::from(by_agent) * numbers.len();
            head.revision += 1;
        });
        Ok(numbers)
    }

    /// Returns the role of the agent that makes the change, where every role takes only its own tasks: what it adds for no role would
    /// have no worker.
    fn role_of_agent(&self) -> Option<String> {
        let attempt = self.plan.attempt(self.agent.as_ref()?)?;
        let role = self.plan.role_of(attempt.task)?;
        (self.plan.head().policy.roles_only).then(|| role.to_owned())
    }

    /// Gives a plan with only a goal its first tasks.
    ///
    /// # Errors
    /// No tasks, or as [`Draft::add_tasks`].
    pub fn make_tasks(&mut self, tasks: Vec<TaskSpec>) -> Result<Vec<TaskId>> {
        refuse_if(tasks.is_empty(), Refusal::NoTasks)?;
        let events = self.events.len();
        let numbers = self.add_tasks(tasks, None)?;
        self.events.truncate(events);
        let (tasks, problems) = (numbers.len(), self.plan.head().problems.clone());
        self.log(Event::Planned { tasks, problems });
        Ok(numbers)
    }

    /// Replaces all tasks with new ones, as long as no task has been started.
    ///
    /// # Errors
    /// A task that was started, or as [`Draft::make_tasks`].
    pub fn replace_tasks(&mut self, tasks: Vec<TaskSpec>) -> Result<Vec<TaskId>> {
        let old: Vec<Task> = self.plan.tasks().cloned().collect();
        if let Some(task) = old.iter().find(|task| task.started_at.is_some()) {
            return Err(Refusal::not_editable(task));
        }
        for mut task in old {
            task.removed = true;
            self.insert(task);
        }
        self.make_tasks(tasks)
    }

    /// Changes a task that is pending and has no attempt under way.
    ///
    /// # Errors
    /// A task that is running or settled, an unknown dependency, a cycle, no name; the plan was abandoned.
    pub fn update_task(&mut self, id: TaskId, changes: &TaskChanges) -> Result {
        self.apply_changes(self.editable(id)?, changes, &[])
    }

    /// Changes a task as far as its state allows: its assignee and its metadata always, its texts also while the plan's user
    /// works on it, everything while it is pending.
    ///
    /// # Errors
    /// The texts of a task that is settled or that an agent of a daemon works on, the dependencies of one that is not pending;
    /// else as [`Draft::update_task`].
    pub fn amend_task(&mut self, id: TaskId, changes: &TaskChanges) -> Result {
        let task = self.task(id)?;
        let words = task.status == TaskState::InProgress && self.by_hand().is_ok();
        let fixed = changes.dependencies.is_some() || (changes.of_words() && !words);
        let begun = task.status != TaskState::Pending;
        refuse_if(fixed && begun, Refusal::not_editable(&task))?;
        self.apply_changes(task, changes, &[])
    }

    pub(super) fn apply_changes(
        &mut self,
        mut task: Task,
        changes: &TaskChanges,
        new: &[TaskId],
    ) -> Result {
        let id = task.number;
        self.not_abandoned()?;
        let mut reworded = false;
        if let Some(name) = changes.name.as_deref().map(str::trim) {
            refuse_if(name.is_empty(), Refusal::NoName)?;
            reworded = name != task.name;
            name.clone_into(&mut task.name);
        }
        let texts = [
            (&mut task.description, &changes.description),
            (&mut task.constraints, &changes.constraints),
            (&mut task.reasoning, &changes.reasoning),
        ];
        for (text, change) in texts {
            if let Some(change) = change {
                reworded = reworded || change != text;
                text.clone_from(change);
            }
        }
        if let Some(words) = &changes.criteria {
            let criteria = match task.is_soft() {
                true => Some(words.clone()),
                false => task.criteria.reworded(words),
            };
            let criteria = criteria.ok_or(Refusal::FewerCriteria(id))?;
            reworded = reworded || criteria != task.criteria;
            task.checks = crate::plan::model::all_checks(&task.checks, &criteria);
            task.criteria = criteria;
        }
        if task.is_soft() {
            if let Some(checks) = &changes.checks {
                task.checks = crate::plan::model::all_checks(checks, &task.criteria);
            }
            if let Some(paths) = &changes.produces {
                task.produces = produced(paths)?;
            }
            let chosen = changes.checks.is_some() || changes.produces.is_some();
            task.reviewed &= !chosen && changes.criteria.is_none();
        }
        if reworded {
            task.checked_by_person |= task.origin == Origin::Person;
            // Only tools and models change texts here: the person's task that they change is no longer the person's.
            task.origin = Origin::Model;
        }
        if let Some(assignee) = &changes.assignee {
            task.assignee.clone_from(assignee);
        }
        if let Some(dependencies) = &changes.dependencies {
            let called = || format!("task `{}`", task.key);
            task.dependencies = self.resolve(called, dependencies, &BTreeMap::new(), new)?;
            let next = |node: TaskId| {
                let other = self.plan.task(node);
                let task = if node == id { Some(&task) } else { other };
                task.map_or(Vec::new(), |task| task.dependencies.clone())
            };
            // If the task cannot be reached, no cycle exists; the search visits everything that comes before the task.
            let reached =
                task.dependencies.contains(&id) || self.plan.dependants(id).next().is_some();
            if reached && let Some(cycle) = find_cycle([id], next) {
                return Err(Refusal::Cycle(cycle));
            }
        }
        merge(&mut task.metadata, &changes.metadata)?;
        let moved = changes.of_words() || changes.dependencies.is_some();
        self.log(Event::Updated { task: id });
        self.insert(task);
        if moved || changes.assignee.is_some() {
            self.change_head(|head| head.revision += 1);
        }
        Ok(())
    }

    /// Removes a pending task on which no other task depends.
    ///
    /// # Errors
    /// A task that is running or settled, or that others depend on; the plan was abandoned, or a daemon carries it out: then a
    /// task is skipped, which stays to be seen.
    pub fn remove_task(&mut self, id: TaskId) -> Result {
        self.not_abandoned()?;
        refuse_if(self.carried_out(), self.plan_is())?;
        let mut task = self.removable(id)?;
        task.removed = true;
        self.insert(task);
        self.log(Event::Removed { task: id });
        self.change_head(|head| head.revision += 1);
        Ok(())
    }

    /// Returns a pending task on which no other one depends.
    ///
    /// # Errors
    /// It is running or settled, or others depend on it.
    pub fn removable(&self, id: TaskId) -> Result<Task> {
        let task = self.editable(id)?;
        let dependants: Vec<TaskId> = self.plan.dependants(id).map(|task| task.number).collect();
        let needed = !dependants.is_empty();
        refuse_if(
            needed,
            Refusal::HasDependants {
                task: id,
                dependants,
            },
        )?;
        Ok(task)
    }

    /// Carries out the edits of a replan: all of them or none. The task that led to the replan is skipped unless the edits
    /// change it. What waited for a task that is skipped waits for the tasks that are added, unless the edits say for what. What
    /// runs or is finished does not change, and tasks that were added meanwhile stay.
    ///
    /// # Errors
    /// No replan is open, or an edit is refused.
    pub fn replan(&mut self, edits: &[ReplanEdit], reason: &str) -> Result {
        let open = self.plan.head().replan.clone().ok_or(Refusal::NoTasks)?;
        let new = edits.iter().filter_map(|edit| match edit {
            ReplanEdit::Add(task) => Some((**task).clone()),
            _ => None,
        });
        let new: Vec<TaskSpec> = new.collect();
        let events = self.events.len();
        let added = self.add_tasks(new, open.task.filter(|id| self.plan.task(*id).is_some()))?;
        let (mut updated, mut skipped) = (0, Vec::new());
        for edit in edits {
            match edit {
                ReplanEdit::Add(_) => {}
                ReplanEdit::Update(id, changes) => {
                    self.apply_changes(self.editable(*id)?, changes, &added)?;
                    updated += 1;
                }
                ReplanEdit::Skip(id, reason) => {
                    self.editable(*id)?;
                    let reason = match reason.trim() {
                        "" => REPLACED,
                        _ => reason,
                    };
                    self.skip_task(*id, &format!("{REPLACED}: {reason}"))?;
                    skipped.push(*id);
                }
            }
        }
        let keeps = |id, edit: &ReplanEdit| matches!(edit, ReplanEdit::Update(changed, _) if *changed == id);
        if let Some(cause) = open.task
            && !edits.iter().any(|edit| keeps(cause, edit))
            && self.editable(cause).is_ok()
        {
            self.skip_task(cause, &format!("{REPLACED}: {}", open.why))?;
            skipped.push(cause);
        }
        let moved = |id, edit: &ReplanEdit| matches!(edit, ReplanEdit::Update(changed, to) if *changed == id && to.dependencies.is_some());
        let waiting = skipped.iter().flat_map(|id| self.plan.dependants(*id));
        let waiting: BTreeSet<TaskId> = waiting.map(|task| task.number).collect();
        for id in waiting {
            if !added.contains(&id) && !edits.iter().any(|edit| moved(id, edit)) {
                self.wait_for_all(id, &added)?;
            }
        }
        self.events.truncate(events);
        self.log(Event::Replanned {
            added: added.len(),
            updated,
            skipped: skipped.len(),
            reason: reason.to_owned(),
        });
        self.change_head(|head| head.replan = None);
        Ok(())
    }

    /// Lets a task that has not begun wait for others as well, but for those that wait for it.
    fn wait_for_all(&mut self, id: TaskId, others: &[TaskId]) -> Result {
        let Ok(mut task) = self.editable(id) else {
            return Ok(());
        };
        for other in others {
            let dependencies = |node: TaskId| match node == id {
                true => vec![*other],
                false => {
                    (self.plan.task(node)).map_or(Vec::new(), |task| task.dependencies.clone())
                }
            };
            if find_cycle([id], dependencies).is_none() && !task.dependencies.contains(other) {
                task.dependencies.push(*other);
            }
        }
        self.insert(task);
        Ok(())
    }

    /// Returns the task if its text and place may change: it is pending, and no attempt of it is under way.
    pub(super) fn editable(&self, id: TaskId) -> Result<Task> {
        self.task_in(id, TaskState::Pending)
    }

    /// Checks whether each new key may be used, and maps the keys to the numbers of their tasks.
    fn names(&self, keys: &[String], numbers: &[TaskId]) -> Result<BTreeMap<String, TaskId>> {
        let mut names = BTreeMap::new();
        for (key, number) in keys.iter().zip(numbers) {
            refuse_if(!valid_key(key), Refusal::BadKey(key.clone()))?;
            let twice = names.insert(key.clone(), *number).is_some();
            let taken = twice || self.plan.task_by_key(key).is_some();
            refuse_if(taken, Refusal::KeyTaken(key.clone()))?;
        }
        Ok(names)
    }

    fn resolve(
        &self,
        called: impl Fn() -> String,
        references: &[TaskRef],
        names: &BTreeMap<String, TaskId>,
        new: &[TaskId],
    ) -> Result<Vec<TaskId>> {
        let number = |task: Option<&Task>| task.map(|task| task.number);
        let mut dependencies = Vec::new();
        let mut seen = HashSet::new();
        for reference in references {
            let (found, shown) = match reference {
                TaskRef::Number(id) => (number(self.plan.task(*id)), id.to_string()),
                TaskRef::New(index) => (new.get(*index).copied(), (index + 1).to_string()),
                TaskRef::Key(key) => match names.get(key) {
                    Some(new) => (Some(*new), key.clone()),
                    None => (number(self.plan.task_by_key(key)), key.clone()),
                },
            };
            let found = found.ok_or_else(|| Refusal::UnknownDependency {
                task: called(),
                dependency: shown,
            })?;
            if seen.insert(found) {
                dependencies.push(found);
            }
        }
        Ok(dependencies)
    }

    /// Returns positions for `count` tasks behind a task, or in front of all tasks. Moves other tasks apart when no room is
    /// left.
    fn room(&mut self, after: Option<Task>, count: usize) -> impl Iterator<Item = i64> + use<> {
        let wanted = i64::try_from(count).unwrap_or(i64::MAX / GAP);
        let next = match &after {
            Some(task) => self.plan.tasks_around(task).1.next(),
            None => self.plan.tasks().next(),
        };
        let next = next.map(|task| task.position);
        let (start, step) = match (after, next) {
            (None, None) => (0, GAP),
            (Some(task), None) => (task.position, GAP),
            (None, Some(first)) => (first - (wanted + 1) * GAP, GAP),
            (Some(task), Some(next)) => match (next - task.position) / (wanted + 1) {
                0 => (task.position, self.spread(&task, wanted)),
                step => (task.position, step),
            },
        };
        (1..).map(move |n| start + n * step)
    }

    /// Moves the tasks after a task apart, so that there is room for `wanted` more in between. It moves as few tasks as
    /// possible, but leaves more room the more tasks it moves: repeated inserts at one place seldom move many tasks. Returns
    /// the distance between neighbours then.
    fn spread(&mut self, task: &Task, wanted: i64) -> i64 {
        let mut window = SPREAD;
        loop {
            let behind = self.plan.tasks_around(task).1;
            let mut moved: Vec<Task> = behind.take(window + 1).cloned().collect();
            let end = (moved.len() > window).then(|| moved.pop()).flatten();
            let end = end.map(|next| next.position);
            let count = i64::try_from(moved.len()).unwrap_or(i64::MAX / GAP);
            let wide = end.map_or(GAP, |end| (end - task.position) / (count + wanted + 1));
            if end.is_some() && wide < count {
                window = window.saturating_mul(4);
                continue;
            }
            for (place, mut next) in (wanted + 1..).zip(moved) {
                next.position = task.position + place * wide;
                self.insert(next);
            }
            return wide;
        }
    }
}

/// Merges changes into the metadata of a task.
fn merge(metadata: &mut Map<String, Value>, changes: &Map<String, Value>) -> Result {
    for (name, value) in changes {
        if value.is_null() {
            metadata.remove(name);
        } else {
            metadata.insert(name.clone(), value.clone());
        }
    }
    let bytes = serde_json::to_string(metadata).map_or(usize::MAX, |text| text.len());
    let too_many = !changes.is_empty() && bytes > MAX_METADATA;
    refuse_if(too_many, Refusal::TooMuchMetadata(bytes))
}

/// Returns the files that a task produces, without duplicates.
pub(super) fn produced(paths: &[String]) -> Result<Vec<String>> {
    refuse_if(paths.len() > MAX_PRODUCED, Refusal::TooManyFiles)?;
    let mut kept = Vec::with_capacity(paths.len());
    for path in paths {
        let path = within_workspace(path).map_err(|why| Refusal::BadPath(path.clone(), why))?;
        if !kept.contains(&path) {
            kept.push(path);
        }
    }
    Ok(kept)
}

/// Returns whether callers of tools may use this key as their own id of a plan or a task.
pub fn valid_key(key: &str) -> bool {
    let length = key.chars().count();
    let odd = |c: char| c.is_control() || c == '/' || c == '\\';
    (1..=128).contains(&length) && !key.contains(odd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::testing::{head, task};
    use crate::plan::{Plan, Row, Time};

    #[test]
    fn repeated_inserts_move_few_tasks() {
        for always_behind_the_first in [true, false] {
            let mut plan = Plan::new(head());
            let mut draft = Draft::new(&mut plan, Time(1));
            for number in 0..1000 {
                let new = task(&number.to_string(), &[]);
                draft.add_tasks(vec![new], None).unwrap();
            }
            drop(draft.finish());
            let mut behind = TaskId(1);
            let mut expected: Vec<TaskId> = plan.tasks().map(|task| task.number).collect();
            let (mut written, mut most) = (0, 0);
            for number in 0..2000 {
                let mut draft = Draft::new(&mut plan, Time(2));
                let new = task(&number.to_string(), &[]);
                let added = draft.add_tasks(vec![new], Some(behind)).unwrap()[0];
                let rows = draft.finish().rows;
                let tasks = rows
                    .iter()
                    .filter(|row| matches!(row, Row::Task(_)))
                    .count();
                written += tasks;
                most = most.max(tasks);
                let place = expected.iter().position(|id| *id == behind).unwrap();
                expected.insert(place + 1, added);
                if !always_behind_the_first {
                    behind = added;
                }
            }
            let order: Vec<TaskId> = plan.tasks().map(|task| task.number).collect();
            assert_eq!(order, expected);
            assert!(written < 20 * 2000, "{written} rows in all, {most} at once");
        }
    }
}
