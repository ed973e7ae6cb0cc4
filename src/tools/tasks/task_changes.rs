//! The changes that the task tools make to a plan.

use serde_json::Map;

use super::*;
use crate::plan::{TaskChanges, TaskRef, TaskSpec};
use crate::tools::status_changes;

type Result<T> = std::result::Result<T, Refusal>;

/// Adds tasks at the end of the list.
pub(super) fn add_all(draft: &mut Draft<'_>, tasks: &[TaskCreate]) -> Result<Vec<Value>> {
    if tasks.is_empty() {
        return Err(Refusal::NoTasks);
    }
    draft.reopen()?;
    let new = tasks.iter().enumerate().map(|(place, task)| {
        let subject = one_line(&task.subject, 60);
        let named = match tasks.len() {
            1 => format!("the new task `{subject}`"),
            _ => format!("the new task `{subject}` at place {}", place + 1),
        };
        new_task(draft, &named, task, tasks.len())
    });
    let new = new.collect::<Result<Vec<_>>>()?;
    let before = draft.plan().head().next_task - 1;
    let numbers = match draft.add_tasks(new, None) {
        // None of these tasks exists, so their places in the list say more than the numbers that they would have got.
        Err(Refusal::Cycle(way)) => {
            let places = way.into_iter().map(|id| TaskId(id.0 - before));
            return Err(Refusal::Cycle(places.collect()));
        }
        added => added?,
    };
    let made = numbers.iter().zip(tasks).map(|(number, task)| {
        json!({ "id": number.to_string(), "subject": one_line(&task.subject, SUBJECT) })
    });
    Ok(made.collect())
}

fn new_task(draft: &Draft<'_>, named: &str, task: &TaskCreate, places: usize) -> Result<TaskSpec> {
    let mut dependencies = known(draft, named, task.add_blocked_by.as_deref())?;
    for place in task.blocked_by.iter().flatten() {
        let index = place.checked_sub(1).filter(|index| *index < places);
        let index = index.ok_or_else(|| unknown_dependency(named, format!("place {place}")))?;
        dependencies.push(TaskRef::New(index));
    }
    Ok(TaskSpec {
        name: task.subject.clone(),
        description: task.description.clone().unwrap_or_default(),
        assignee: task.owner.clone().filter(|owner| !owner.is_empty()),
        metadata: labels(task.metadata.as_ref(), task.active_form.as_deref()),
        dependencies,
        ..TaskSpec::default()
    })
}

/// Returns references to tasks that exist.
fn known(draft: &Draft<'_>, named: &str, ids: Option<&[Id]>) -> Result<Vec<TaskRef>> {
    let known = |id: &Id| match find(draft.plan(), id) {
        Ok(task) => Ok(TaskRef::Number(task.number)),
        Err(_) => Err(unknown_dependency(named, one_line(id.as_str(), 60))),
    };
    ids.into_iter().flatten().map(known).collect()
}

fn unknown_dependency(named: &str, dependency: String) -> Refusal {
    let task = named.to_owned();
    Refusal::UnknownDependency { task, dependency }
}

fn labels(metadata: Option<&Map<String, Value>>, active_form: Option<&str>) -> Map<String, Value> {
    let mut labels = metadata.cloned().unwrap_or_default();
    if let Some(text) = active_form {
        labels.insert(ACTIVE_FORM.to_owned(), text.into());
    }
    labels
}

/// The result of a task that was deleted before it had one.
const DELETED: &str = "deleted";

/// Carries out an update: all of it or nothing.
pub(super) fn apply(draft: &mut Draft<'_>, update: &TaskUpdateArguments) -> Result<Value> {
    let task = find(draft.plan(), &update.task_id)?.clone();
    let id = task.number;
    let (from, to) = (task.status, update.status.map(|word| word.0));
    let result = match (to, update.result.as_deref()) {
        // The result stays, in case the task is restored to its former state.
        (Some(TaskState::Skipped), None) if task.result.is_none() => Some(DELETED),
        (Some(TaskState::Completed), None) if task.result.as_deref() == Some(DELETED) => Some(""),
        // A task that is to be done again has no result yet.
        (Some(TaskState::Pending | TaskState::InProgress), None) => Some(""),
        (_, result) => result,
    };
    let back = from.settled() || to == Some(TaskState::Pending);
    if let Some(TaskState::Pending | TaskState::InProgress) = to
        && back
    {
        // The task is restored first: a settled task cannot be edited.
        status_changes::set(draft, id, TaskState::Pending, result)?;
    }
    let mut fields = amend(draft, &task, update)?;
    if block(draft, id, update.add_blocks.as_deref())? {
        fields.push("blocks");
    }
    let (mut status_change, mut reported) = (None, false);
    let given = update.result.as_deref();
    if to == Some(from) && given.is_some() && given != task.result.as_deref() {
        draft.reopen()?;
        draft.set_result(id, given)?;
        draft.follow_tasks();
        fields.push("result");
    }
    if let Some(to) = to.filter(|to| *to != from) {
        status_changes::set(draft, id, to, result)?;
        let now = draft.plan().task(id).map_or(from, |task| task.status);
        reported = now != to;
        if now != from {
            fields.push("status");
            status_change = Some(json!({ "from": TaskWord(from), "to": TaskWord(now) }));
        }
    }
    Ok(stated(json!({
        "taskId": id.to_string(),
        "updatedFields": fields,
        "statusChange": status_change,
        // The daemon that carries the plan out checks and judges it first.
        "reported": reported.then_some(true),
    })))
}

/// Changes the texts of the task; returns the names of the fields that differ now.
fn amend(
    draft: &mut Draft<'_>,
    task: &Task,
    update: &TaskUpdateArguments,
) -> Result<Vec<&'static str>> {
    let (name, description) = (update.subject.clone(), update.description.clone());
    let name = name.filter(|new| new.trim() != task.name);
    let description = description.filter(|new| *new != task.description);
    let owner = update.owner.clone();
    let assignee = owner.map(|owner| Some(owner).filter(|owner| !owner.is_empty()));
    let assignee = assignee.filter(|owner| *owner != task.assignee);
    let differs = |(name, value): &(String, Value)| match task.metadata.get(name) {
        Some(old) => old != value,
        None => !value.is_null(),
    };
    let labels = labels(update.metadata.as_ref(), update.active_form.as_deref());
    let metadata: Map<String, Value> = labels.into_iter().filter(differs).collect();
    let named = format!("task `{}`", task.number);
    let mut waits_for = references(task);
    for new in known(draft, &named, update.add_blocked_by.as_deref())? {
        if !waits_for.contains(&new) {
            waits_for.push(new);
        }
    }
    let more = waits_for.len() > task.dependencies.len();
    let fields = [
        ("subject", name.is_some()),
        ("description", description.is_some()),
        ("owner", assignee.is_some()),
        ("activeForm", metadata.contains_key(ACTIVE_FORM)),
        ("metadata", metadata.keys().any(|name| name != ACTIVE_FORM)),
        ("blockedBy", more),
    ];
    let fields = fields.into_iter().filter(|(_, differs)| *differs);
    let fields: Vec<&str> = fields.map(|(name, _)| name).collect();
    let changes = TaskChanges {
        name,
        description,
        assignee,
        metadata,
        dependencies: more.then_some(waits_for),
        ..TaskChanges::default()
    };
    if !fields.is_empty() {
        draft.amend_task(task.number, &changes)?;
    }
    Ok(fields)
}

/// Makes other tasks wait for this one; returns whether this is new for any of them.
fn block(draft: &mut Draft<'_>, id: TaskId, others: Option<&[Id]>) -> Result<bool> {
    let mut changed = false;
    for other in others.into_iter().flatten() {
        let other = find(draft.plan(), other)?;
        if other.dependencies.contains(&id) {
            continue;
        }
        let number = other.number;
        let mut waits_for = references(other);
        waits_for.push(TaskRef::Number(id));
        let changes = TaskChanges {
            dependencies: Some(waits_for),
            ..TaskChanges::default()
        };
        draft.amend_task(number, &changes)?;
        changed = true;
    }
    Ok(changed)
}

fn references(task: &Task) -> Vec<TaskRef> {
    let dependencies = task.dependencies.iter();
    dependencies.map(|id| TaskRef::Number(*id)).collect()
}
