//! The task list that coding agents know: `TaskCreate`, `TaskGet`, `TaskList`, `TaskUpdate`. A task's id is its number as text.
//!
//! `deleted` is the core's *skipped*: the task is no longer listed and nothing waits for it any more, but its history stays
//! and it can be taken back. So it works on a plan of a daemon too, for tasks that wait; there it is not taken back.

mod change;
mod model;
#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::Value;

use super::page::MAX_LIMIT;
use super::{Answer, ArgumentError, Dialect, Page, Part, Tool, ToolError, Toolbox, args};
use crate::plan::{
    Draft, Head, Origin, Plan, PlanId, Refusal, Shown, Task, TaskId, TaskStatus, Time,
};
use crate::store::StoreError;
use crate::wire::text::one_line;

use model::{CreateArguments, GetArguments};
pub use model::{
    Id, ListFilter, StatusChange, TaskCreate, TaskCreated, TaskDetail, TaskLine, TaskUpdate,
    TaskUpdated, TaskWord,
};

pub(super) const TOOLS: &[Tool] = &[
    Tool::change::<CreateArguments>(
        "TaskCreate",
        "Creates a task, or several with `tasks` in one step. Returns the ids.",
    ),
    Tool::look::<GetArguments>(
        "TaskGet",
        "Returns a task in full; limit and offset are of blocks and blockedBy.",
    ),
    Tool::look::<ListFilter>(
        "TaskList",
        "Lists the tasks that are not deleted; blockedBy has what a task still waits for.",
    ),
    Tool::change::<TaskUpdate>(
        "TaskUpdate",
        "Updates a task. Set in_progress before you begin and completed when it is done.",
    ),
];

/// The name in `metadata` of what a terminal shows while the task is in progress.
const ACTIVE_FORM: &str = "activeForm";

/// Bytes of that at most: it is one line.
const MAX_ACTIVE_FORM: usize = 4096;

/// Ids of other tasks that are shown of one in a list, and of one in full.
const IDS_IN_LIST: usize = 10;
const IDS_IN_FULL: usize = 100;

/// Characters of a subject in a list.
const SUBJECT: usize = 200;

pub(super) async fn call(toolbox: &Toolbox, name: &str, arguments: Value) -> Answer {
    let tools = TaskTools::new(toolbox.clone());
    let answer = match name {
        "TaskCreate" => tools.answer_create(arguments).await,
        "TaskGet" => tools.answer_get(arguments).await,
        "TaskList" => tools.answer_list(arguments).await,
        "TaskUpdate" => tools.answer_update(arguments).await,
        _ => Err(toolbox.unknown(Dialect::Tasks, name)),
    };
    answer.unwrap_or_else(|error| Answer::failure(Value::Null, error))
}

/// The task list as Rust methods.
///
/// ```
/// use plan_agent::tools::tasks::{TaskCreate, TaskUpdate, TaskWord};
/// use plan_agent::tools::{TaskTools, Toolbox};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), plan_agent::tools::ToolError> {
/// let tasks = TaskTools::new(Toolbox::in_memory().await?);
/// let first = tasks.create(TaskCreate::new("Write it", "in Rust")).await?;
/// let second = TaskCreate { add_blocked_by: Some(vec![first.id.as_str().into()]), ..TaskCreate::new("Test it", "") };
/// let second = tasks.create(second).await?;
/// assert_eq!(tasks.get(&second.id).await?.blocked_by, ["1"]);
///
/// let done = |id: &str| TaskUpdate { status: Some(TaskWord::Completed), ..TaskUpdate::new(id) };
/// assert!(tasks.update(done(&second.id)).await.is_err()); // It waits for the first.
/// tasks.update(done(&first.id)).await?;
/// tasks.update(done(&second.id)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TaskTools {
    toolbox: Toolbox,
}

impl TaskTools {
    /// Makes the tools of the plan that the toolbox is bound to, else of the latest task list.
    pub fn new(toolbox: Toolbox) -> Self {
        Self { toolbox }
    }

    /// Creates a task, and the task list if there is none.
    ///
    /// # Errors
    /// No subject, an unknown id, too much metadata; the plan was abandoned or is being carried out by a daemon that has
    /// ended it.
    pub async fn create(&self, task: TaskCreate) -> Result<TaskCreated, ToolError> {
        let made = self.add(vec![task], Run::Really).await?;
        made.into_iter().next().ok_or(ToolError::NoPlan)
    }

    /// Creates tasks that may wait for each other, all of them or none.
    ///
    /// # Errors
    /// As [`TaskTools::create`]; no tasks, a cycle (in places of the list, from 1).
    pub async fn create_all(&self, tasks: Vec<TaskCreate>) -> Result<Vec<TaskCreated>, ToolError> {
        self.add(tasks, Run::Really).await
    }

    /// Looks what [`TaskTools::create_all`] would make; nothing changes.
    ///
    /// # Errors
    /// As [`TaskTools::create_all`].
    pub async fn check_all(&self, tasks: Vec<TaskCreate>) -> Result<Vec<TaskCreated>, ToolError> {
        self.add(tasks, Run::Dry).await
    }

    /// Returns a task in full, with the first hundred of the tasks that wait for it and of those it waits for.
    ///
    /// # Errors
    /// No such task.
    pub async fn get(&self, id: &str) -> Result<TaskDetail, ToolError> {
        self.get_page(id, Page::default()).await
    }

    /// Returns a task in full, with a page of the tasks that wait for it and of those it waits for.
    ///
    /// # Errors
    /// No such task.
    pub async fn get_page(&self, id: &str, page: Page) -> Result<TaskDetail, ToolError> {
        let id = Id::from(id);
        let plan = match self.toolbox.current(Dialect::Tasks).await {
            Err(ToolError::NoPlan) => return Err(unknown(&id)),
            plan => plan?,
        };
        let read = move |plan: &Plan, _| find(plan, &id).map(|task| detail(plan, task, page));
        Ok(self.toolbox.store().read(&plan, read).await??)
    }

    /// Returns the tasks of the list, the deleted ones only if they are asked for, and how many are left after these.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn list(&self, filter: ListFilter) -> Result<Part<TaskLine>, ToolError> {
        let plan = match self.toolbox.current(Dialect::Tasks).await {
            Err(ToolError::NoPlan) => {
                return Ok(Part {
                    items: Vec::new(),
                    left: 0,
                });
            }
            plan => plan?,
        };
        let read = move |plan: &Plan, _| {
            let page = Page {
                limit: filter.limit,
                offset: filter.offset,
            };
            match filter.status {
                Some(word) => {
                    let tasks = plan.tasks_in(Shown::from(TaskStatus::from(word)));
                    page.shown(tasks.len(), tasks, |task| line(plan, task))
                }
                None => {
                    let tasks = plan.tasks_wanted();
                    page.shown(tasks.len(), tasks, |task| line(plan, task))
                }
            }
        };
        Ok(self.toolbox.store().read(&plan, read).await?)
    }

    /// Updates a task: all that is asked for, or nothing.
    ///
    /// # Errors
    /// An unknown id; a task that is to start and waits for others; a cycle; an edit that the state of the task does not
    /// allow; a daemon carries the plan out and does that itself.
    pub async fn update(&self, update: TaskUpdate) -> Result<TaskUpdated, ToolError> {
        if update.result.is_some() && update.status.is_none() {
            return Err(ArgumentError::new("result", "goes with a `status`").into());
        }
        short("", update.active_form.as_ref())?;
        let plan = match self.toolbox.current(Dialect::Tasks).await {
            Err(ToolError::NoPlan) => return Err(unknown(&update.task_id)),
            plan => plan?,
        };
        let change = move |draft: &mut Draft<'_>| change::apply(draft, &update);
        self.toolbox.change(&plan, "TaskUpdate", change).await
    }

    async fn add(&self, tasks: Vec<TaskCreate>, run: Run) -> Result<Vec<TaskCreated>, ToolError> {
        for (place, task) in tasks.iter().enumerate() {
            let list = if tasks.len() > 1 {
                &format!("tasks[{place}].")
            } else {
                ""
            };
            short(list, task.active_form.as_ref())?;
        }
        let toolbox = &self.toolbox;
        let made = match toolbox.current(Dialect::Tasks).await {
            Err(ToolError::NoPlan) => self.first(tasks, run).await,
            plan => {
                let add = move |draft: &mut Draft<'_>| run.end(change::add_all(draft, &tasks)?);
                toolbox.change_or(&plan?, "TaskCreate", add).await
            }
        };
        match made {
            Err(Ended::Dry(made)) => Ok(made),
            Err(Ended::Error(error)) => Err(error),
            Ok(made) => Ok(made),
        }
    }

    /// Makes the task list with its first tasks, or adds them to the one that somebody else made just now.
    async fn first(&self, tasks: Vec<TaskCreate>, run: Run) -> Result<Vec<TaskCreated>, Ended> {
        let toolbox = &self.toolbox;
        let mut number = 1;
        loop {
            let new = tasks.clone();
            let add = move |draft: &mut Draft<'_>| run.end(change::add_all(draft, &new)?);
            // The same key for everybody, so that of two at once one finds it taken.
            let made = toolbox.create_or(Dialect::Tasks, list_head(number), "TaskCreate", add);
            match made.await {
                Err(Ended::Error(ToolError::Store(StoreError::PlanTaken(_)))) => number += 1,
                made => return made,
            }
            let new = tasks.clone();
            let add = move |draft: &mut Draft<'_>| run.end(change::add_all(draft, &new)?);
            match toolbox.current(Dialect::Tasks).await {
                Err(ToolError::NoPlan) => {}
                plan => return toolbox.change_or(&plan?, "TaskCreate", add).await,
            }
        }
    }

    async fn answer_create(&self, arguments: Value) -> Result<Answer, ToolError> {
        let arguments: CreateArguments = args::read(arguments)?;
        let dry_run = arguments.dry_run.unwrap_or(false);
        let run = if dry_run { Run::Dry } else { Run::Really };
        let (tasks, several) = arguments.tasks()?;
        let made = self.add(tasks, run).await?;
        let made: Vec<Value> = made.iter().map(json).collect();
        let mut answer = if several {
            Answer::part(Page::default().of(made.len(), made.into_iter()))
        } else {
            Answer::result(made.into_iter().next())
        };
        if dry_run {
            answer.value["reason"] = "dry_run: nothing was made".into();
        }
        Ok(answer)
    }

    async fn answer_get(&self, arguments: Value) -> Result<Answer, ToolError> {
        let arguments: GetArguments = args::read(arguments)?;
        let page = Page {
            limit: arguments.limit,
            offset: arguments.offset,
        };
        let id = arguments.task_id.as_str();
        Ok(Answer::result(json(&self.get_page(id, page).await?)))
    }

    async fn answer_list(&self, arguments: Value) -> Result<Answer, ToolError> {
        Ok(Answer::part(self.list(args::read(arguments)?).await?))
    }

    async fn answer_update(&self, arguments: Value) -> Result<Answer, ToolError> {
        Ok(Answer::result(json(
            &self.update(args::read(arguments)?).await?,
        )))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Really,
    Dry,
}

impl Run {
    /// Ends a change that has made this.
    fn end(self, made: Vec<TaskCreated>) -> Result<Vec<TaskCreated>, Ended> {
        match self {
            Self::Really => Ok(made),
            Self::Dry => Err(Ended::Dry(made)),
        }
    }
}

/// Why a change was not kept.
enum Ended {
    /// It was only to be seen what it would make.
    Dry(Vec<TaskCreated>),
    Error(ToolError),
}

impl<E: Into<ToolError>> From<E> for Ended {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// Returns the head of a new task list: `tasks`, or `tasks-2` and so on where that is taken by another dialect's plan.
fn list_head(number: u32) -> Head {
    let key = match number {
        1 => "tasks".to_owned(),
        number => format!("tasks-{number}"),
    };
    Head {
        name: "Tasks".to_owned(),
        origin: Origin::Model,
        ..Head::new(PlanId::new(key), "", Time::default())
    }
}

/// Returns the task that an id names.
fn find<'a>(plan: &'a Plan, id: &Id) -> Result<&'a Task, Refusal> {
    id.number()
        .and_then(|number| plan.task(TaskId(number)))
        .ok_or_else(|| Refusal::UnknownTask(one_line(id.as_str(), 60)))
}

/// Refuses an `activeForm` that is too long, which the core would call metadata.
fn short(list: &str, active_form: Option<&String>) -> Result<(), ArgumentError> {
    match active_form.map(String::len) {
        Some(bytes) if bytes > MAX_ACTIVE_FORM => Err(ArgumentError::new(
            &format!("{list}{ACTIVE_FORM}"),
            format!("has {bytes} bytes; at most {MAX_ACTIVE_FORM} fit"),
        )),
        _ => Ok(()),
    }
}

fn unknown(id: &Id) -> ToolError {
    Refusal::UnknownTask(one_line(id.as_str(), 60)).into()
}

fn line(plan: &Plan, task: &Task) -> TaskLine {
    let unmet = match task.status {
        TaskStatus::Pending => plan.unmet(task),
        _ => Vec::new(),
    };
    TaskLine {
        id: task.number.to_string(),
        subject: one_line(&task.name, SUBJECT),
        status: task.status.into(),
        owner: task.assignee.clone().map(|owner| one_line(&owner, SUBJECT)),
        blocked_by_left: unmet.len().saturating_sub(IDS_IN_LIST),
        blocked_by: ids(unmet.iter(), IDS_IN_LIST),
    }
}

fn detail(plan: &Plan, task: &Task, page: Page) -> TaskDetail {
    let limit = page.limit.unwrap_or(IDS_IN_FULL).min(MAX_LIMIT);
    let offset = page.offset.unwrap_or(0);
    let left = |total: usize| total.saturating_sub(offset.saturating_add(limit));
    let dependants = || plan.dependants(task.number).map(|task| &task.number);
    let waits_for = task.dependencies.iter();
    let mut metadata = task.metadata.clone();
    let active_form = match metadata.remove(ACTIVE_FORM) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    TaskDetail {
        id: task.number.to_string(),
        subject: task.name.clone(),
        description: task.description.clone(),
        status: task.status.into(),
        active_form,
        owner: task.assignee.clone(),
        blocks_left: left(dependants().count()),
        blocks: ids(dependants().skip(offset), limit),
        blocked_by_left: left(waits_for.len()),
        blocked_by: ids(waits_for.skip(offset), limit),
        metadata,
        result: task.result.clone().filter(|result| !result.is_empty()),
    }
}

fn ids<'a>(tasks: impl Iterator<Item = &'a TaskId>, most: usize) -> Vec<String> {
    tasks.take(most).map(ToString::to_string).collect()
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
