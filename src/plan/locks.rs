//! Locks: what only one task at a time may use, over all plans of a folder, such as `port:8080`. Nothing is stored of who
//! holds one: a task holds its locks while an attempt of it is open, or its agent is still to be stopped.

use std::collections::BTreeMap;

use super::{Attempt, Plan, PlanId, Task, TaskId, TaskState};

/// The most locks of one task.
pub const MAX_LOCKS: usize = 16;

/// The most bytes of the name of a lock.
pub const MAX_LOCK: usize = 100;

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    pub plan: PlanId,
    pub task: TaskId,
}

/// The locks that tasks of other plans hold.
pub type HeldLocks = BTreeMap<String, LockHolder>;

impl Plan {
    /// Returns the locks that the plan's own tasks hold.
    pub fn held_locks(&self) -> BTreeMap<String, TaskId> {
        // Of a plan that has ended, only an agent may still be at work: no daemon takes back what none has claimed.
        let over = self.status().settled();
        let holds = move |attempt: &&Attempt| !over || attempt.claimed.is_some();
        let at_work = self.open_attempts().chain(self.recalls()).filter(holds);
        let tasks = at_work.filter_map(|attempt| self.task(attempt.task));
        let locks =
            tasks.flat_map(|task| task.locks.iter().map(|lock| (lock.clone(), task.number)));
        locks.collect()
    }

    /// Returns the first lock of a task that another task holds, with its holder.
    pub fn lock_waited_for(&self, task: &Task, others: &HeldLocks) -> Option<(String, LockHolder)> {
        let current = self.current_attempt(task);
        let retried = task.status == TaskState::InProgress
            && current.is_none_or(|current| !current.state.open());
        if task.locks.is_empty() || !(retried || self.is_ready(task)) {
            return None;
        }
        let own = self.held_locks();
        task.locks.iter().find_map(|lock| {
            let here = own.get(lock).filter(|holder| **holder != task.number);
            let here = here.map(|holder| LockHolder {
                plan: self.id().clone(),
                task: *holder,
            });
            Some((lock.clone(), here.or_else(|| others.get(lock).cloned())?))
        })
    }
}

/// Returns what is wrong with the locks of a task, if something is.
pub fn lock_problem(locks: &[String]) -> Option<String> {
    if locks.len() > MAX_LOCKS {
        let count = locks.len();
        return Some(format!("a task has at most {MAX_LOCKS} locks, not {count}"));
    }
    let wrong = |lock: &&String| {
        let odd = |c: char| c.is_control() || c == ',';
        lock.trim().is_empty() || lock.len() > MAX_LOCK || lock.contains(odd)
    };
    locks.iter().find(wrong).map(|_| {
        format!("the name of a lock has 1 to {MAX_LOCK} bytes, no comma and no control characters")
    })
}
