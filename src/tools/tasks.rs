//! The task list that coding agents know: `TaskCreate`, `TaskGet`, `TaskList`, `TaskUpdate`. A task's id is its number as text.
//!
//! `deleted` is the core's *skipped*: the task is no longer listed and nothing waits for it any more, but its history stays and
//! it can be restored. So it works in a daemon's plan too, for waiting tasks; there it cannot be restored.

mod model;
mod task_changes;
#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::{
    ArgumentError, ChangeSubject, Dialect, Functions, Page, PagePart, Result, Tool, ToolAnswer,
    ToolError, Toolbox,
};
use crate::plan::{Draft, Origin, Plan, PlanHead, PlanId, Refusal, Task, TaskId, TaskState, Time};
use crate::store::StoreError;
use crate::wire::text::one_line;

use model::{
    CreateTaskArguments, GetArguments, Id, ListFilter, TaskCreate, TaskUpdateArguments, TaskWord,
};

pub(super) static TOOLS: LazyLock<[Tool; 4]> = LazyLock::new(|| {
    [
        TaskTools::changes(
            "TaskCreate",
            "Creates a task, or several with `tasks` in one step. Returns the ids.",
        )
        .calls(async |tasks, given| tasks.create(given).await),
        TaskTools::reads(
            "TaskGet",
            "Returns a task in full; limit and offset are of blocks and blockedBy.",
        )
        .calls(async |tasks, given| tasks.get(given).await.map(ToolAnswer::result)),
        TaskTools::reads(
            "TaskList",
            "Lists the tasks that are not deleted; blockedBy has what a task still waits for.",
        )
        .calls(async |tasks, filter| tasks.list(filter).await),
        TaskTools::changes(
            "TaskUpdate",
            "Updates a task. Set in_progress before you begin and completed when it is done.",
        )
        .calls(async |tasks, update| tasks.update(update).await.map(ToolAnswer::result)),
    ]
});

impl Functions for TaskTools {
    type Error = ToolError;

    fn on(toolbox: Toolbox) -> Self {
        Self(toolbox)
    }
}

/// The name in `metadata` of the text that a terminal shows while the task is in progress.
const ACTIVE_FORM: &str = "activeForm";

/// The most bytes of that text: it is one line.
const MAX_ACTIVE_FORM: usize = 4096;

/// The most ids of other tasks that are shown for a task in a list, and for a task in full.
const IDS_IN_LIST: usize = 10;
const IDS_IN_FULL: usize = 100;

/// Characters of a subject in a list.
const SUBJECT: usize = 200;

/// The functions of the task list: of the plan to which the toolbox is bound, else of the latest list.
pub(super) struct TaskTools(Toolbox);

impl TaskTools {
    /// Creates tasks that may wait for each other, all of them or none, and the task list if none exists. A dry run returns what
    /// would be made; nothing changes.
    async fn create(&self, given: CreateTaskArguments) -> Result<ToolAnswer> {
        let dry_run = given.dry_run.unwrap_or(false);
        let (tasks, several) = given.tasks()?;
        for (place, task) in tasks.iter().enumerate() {
            let list = (tasks.len() > 1).then(|| format!("tasks[{place}]."));
            short(&list.unwrap_or_default(), task.active_form.as_deref())?;
        }
        let made = self.add(tasks, dry_run).await?;
        let page = Page::default();
        let answer = match several {
            true => page.shown(made.len(), made.iter(), |task| task).into(),
            false => ToolAnswer::result(made.first()),
        };
        let note = match dry_run {
            true => "dry_run: nothing was made",
            false => "",
        };
        Ok(answer.with(0, note))
    }

    async fn add(&self, tasks: Vec<TaskCreate>, dry_run: bool) -> Result<Vec<Value>> {
        let toolbox = self.0.dry_run(dry_run);
        let tasks = Arc::new(tasks);
        let mut number = 1;
        loop {
            let subject = match toolbox.current_if_any(Dialect::Tasks).await? {
                Some(plan) => ChangeSubject::Plan(plan),
                // All callers use the same key, so that of two simultaneous callers one finds it in use.
                None => ChangeSubject::New(Dialect::Tasks, Box::new(list_head(number))),
            };
            let tasks = Arc::clone(&tasks);
            let add = move |draft: &mut Draft<'_>| Ok(task_changes::add_all(draft, &tasks)?);
            match toolbox.change(subject, "TaskCreate", add).await {
                Err(ToolError::Store(StoreError::PlanTaken(_))) => number += 1,
                made => return made,
            }
        }
    }

    /// Returns a task in full, with a page of the tasks that wait for it and of its dependencies.
    async fn get(&self, given: GetArguments) -> Result<Value> {
        let plan = self.plan_with(&given.task_id).await?;
        let (id, page) = (given.task_id, given.page);
        let read = move |plan: &Plan| find(plan, &id).map(|task| detail(plan, task, page));
        Ok(self.0.read(&plan, read).await??)
    }

    /// Returns the tasks of the list, the deleted ones only on request, and the number of those after these.
    async fn list(&self, filter: ListFilter) -> Result<PagePart<Value>> {
        let Some(plan) = self.0.current_if_any(Dialect::Tasks).await? else {
            return Ok(Page::default().shown(0, std::iter::empty(), |task| task));
        };
        let read = move |plan: &Plan| {
            let page = Page::new(filter.limit, filter.offset);
            let tasks = match filter.status {
                Some(word) => plan.tasks_in(word.0),
                None => plan.tasks_wanted(),
            };
            page.shown(tasks.len(), tasks, |task| line(plan, task))
        };
        self.0.read(&plan, read).await
    }

    /// Updates a task: everything that the call asks for, or nothing.
    async fn update(&self, update: TaskUpdateArguments) -> Result<Value> {
        if update.result.is_some() && update.status.is_none() {
            return Err(ArgumentError::new("result", "goes with a `status`").into());
        }
        short("", update.active_form.as_deref())?;
        let plan = self.plan_with(&update.task_id).await?;
        let change = move |draft: &mut Draft<'_>| Ok(task_changes::apply(draft, &update)?);
        self.0.change(&plan, "TaskUpdate", change).await
    }

    /// Returns the task list that has a task, if any has.
    async fn plan_with(&self, id: &Id) -> Result<PlanId> {
        let plan = self.0.current_if_any(Dialect::Tasks).await?;
        plan.ok_or_else(|| unknown(id).into())
    }
}

/// Returns the head of a new task list: `tasks`, or `tasks-2` and so on if another dialect's plan has that key.
fn list_head(number: u32) -> PlanHead {
    let key = match number {
        1 => "tasks".to_owned(),
        number => format!("tasks-{number}"),
    };
    let mut head = PlanHead::new(PlanId::new(key), "", Time::default());
    head.name = "Tasks".to_owned();
    head.origin = Origin::Model;
    head
}

/// Returns the task with an id.
fn find<'a>(plan: &'a Plan, id: &Id) -> Result<&'a Task, Refusal> {
    let task = id.number().and_then(|number| plan.task(TaskId(number)));
    task.ok_or_else(|| unknown(id))
}

/// Refuses an `activeForm` that is too long; the core would report it as metadata.
fn short(list: &str, active_form: Option<&str>) -> Result<(), ArgumentError> {
    let path = format!("{list}{ACTIVE_FORM}");
    let text = active_form.unwrap_or_default();
    ArgumentError::unless_short(&path, text, MAX_ACTIVE_FORM)
}

fn unknown(id: &Id) -> Refusal {
    Refusal::UnknownTask(one_line(id.as_str(), 60))
}

/// Returns an answer without the fields that have no value.
fn stated(mut answer: Value) -> Value {
    if let Some(fields) = answer.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    answer
}

/// Returns how many ids follow after those that are shown, if some do.
fn left(part: &PagePart<String>) -> Option<usize> {
    Some(part.left).filter(|left| *left > 0)
}

fn line(plan: &Plan, task: &Task) -> Value {
    // The tasks for which it still waits.
    let unmet = match task.status {
        TaskState::Pending => plan.unmet(task),
        _ => Vec::new(),
    };
    let blocked_by = Page::default().cut(IDS_IN_LIST, &unmet, TaskId::to_string);
    stated(json!({
        "id": task.number.to_string(),
        "subject": one_line(&task.name, SUBJECT),
        "status": TaskWord(task.status),
        "owner": task.assignee.as_ref().map(|owner| one_line(owner, SUBJECT)),
        "blockedBy": blocked_by.items,
        "blockedByLeft": left(&blocked_by),
    }))
}

fn detail(plan: &Plan, task: &Task, page: Page) -> Value {
    let dependants = plan.dependants(task.number).map(|task| task.number);
    let dependants: Vec<TaskId> = dependants.collect();
    let blocks = page.cut(IDS_IN_FULL, &dependants, TaskId::to_string);
    let blocked_by = page.cut(IDS_IN_FULL, &task.dependencies, TaskId::to_string);
    let mut metadata = task.metadata.clone();
    let active_form = metadata.remove(ACTIVE_FORM).filter(Value::is_string);
    stated(json!({
        "id": task.number.to_string(),
        "subject": task.name,
        "description": task.description,
        "status": TaskWord(task.status),
        "activeForm": active_form,
        "owner": task.assignee,
        "blocks": blocks.items,
        "blocksLeft": left(&blocks),
        "blockedBy": blocked_by.items,
        "blockedByLeft": left(&blocked_by),
        "metadata": Some(metadata).filter(|metadata| !metadata.is_empty()),
        "result": task.result.as_ref().filter(|result| !result.is_empty()),
    }))
}
