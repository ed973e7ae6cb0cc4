//! Plan Tool: the plans of a team, made from a structure of steps, each task for a role. It keeps states and drives nothing:
//! in which order tasks are done is for its callers, who have the structure before them.

mod model;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::page::weight;
use super::{Answer, Dialect, Page, Part, Tool, ToolError, Toolbox, args, new_plan_id, status};
use crate::plan::{
    self, Draft, Head, Order, Origin, Plan, PlanId, Refusal, Shelf, Task, Time, valid_key,
};
use crate::store::StoreError;
use crate::wire::plan_file;
use crate::wire::text::{clip, one_line};

pub use crate::wire::plan_file::{Structure, StructureStep, StructureTask};
use model::{
    CreateArguments, PageArguments, PlanArguments, RoleArguments, Shown, TaskArguments,
    UpdateArguments,
};
pub use model::{PlanInstance, PlanStatus, StepInfo, TaskInfo, TaskStatus};

pub(super) const TOOLS: &[Tool] = &[
    Tool::change::<CreateArguments>(
        "create_plan_from_structure",
        "Makes a plan; every task is ready. plan_id is the latest plan in all other tools if left out.",
    ),
    Tool::look::<TaskArguments>("get_task", "Returns a task in full, or null."),
    Tool::change::<UpdateArguments>(
        "update_task_status",
        "Sets a task's status. completed and skipped are final.",
    ),
    Tool::look::<PageArguments>("get_ready_tasks", "Lists the ready tasks."),
    Tool::look::<RoleArguments>("get_tasks_for_role", "Lists a role's tasks of one status."),
    Tool::look::<PlanArguments>(
        "get_plan_status",
        "Returns running, completed or error, or null.",
    ),
    Tool::look::<PageArguments>(
        "get_plan_structure",
        "Returns the plan with its steps and tasks.",
    ),
    Tool::change::<PlanArguments>("delete_plan", "Deletes a plan; its history stays."),
];

/// Characters of a key and of a text in a reason.
const KEY: usize = 60;

/// Problems of a structure that are told of at once.
const PROBLEMS: usize = 5;

pub(super) async fn call(toolbox: &Toolbox, name: &str, arguments: Value) -> Answer {
    let tool = PlanTool::new(toolbox.clone());
    let (answer, otherwise) = match name {
        "create_plan_from_structure" => (tool.answer_create(arguments).await, json!(false)),
        "get_task" => (tool.answer_task(arguments).await, Value::Null),
        "update_task_status" => (tool.answer_update(arguments).await, json!(false)),
        "get_ready_tasks" => (tool.answer_ready(arguments).await, json!([])),
        "get_tasks_for_role" => (tool.answer_role(arguments).await, json!([])),
        "get_plan_status" => (tool.answer_status(arguments).await, Value::Null),
        "get_plan_structure" => (tool.answer_structure(arguments).await, Value::Null),
        "delete_plan" => (tool.answer_delete(arguments).await, json!(false)),
        _ => (
            Err(toolbox.unknown(Dialect::PlanTool, name).into()),
            Value::Null,
        ),
    };
    answer.unwrap_or_else(|error| Answer::failure(otherwise, error))
}

/// What became of a status.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Updated {
    Set,
    /// A daemon carries the plan out: it has the word as a report, to be checked and judged.
    Reported,
}

/// Why a call returns `false`, `None` or nothing.
#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error(transparent)]
    Tool(ToolError),
    #[error("{0}")]
    Structure(String),
    #[error("task `{task}` is {}{}; it cannot become {}", .from.as_str(), last(*.from), .to.as_str())]
    Transition {
        task: String,
        from: TaskStatus,
        to: TaskStatus,
    },
    #[error("task `{0}` is not optional: say in result_summary why it is skipped")]
    Unexplained(String),
    /// Nothing was wrong, and nothing was to be made.
    #[error("dry_run: nothing was made")]
    Dry,
}

impl<E: Into<ToolError>> From<E> for Reason {
    fn from(error: E) -> Self {
        Self::Tool(error.into())
    }
}

fn last(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Completed | TaskStatus::Skipped => ", which is final",
        TaskStatus::Ready | TaskStatus::Inprogress | TaskStatus::Error => "",
    }
}

/// Turns a reason into what the document returns for it; only a store that fails is an error.
fn or<T>(result: Result<T, Reason>, otherwise: T) -> Result<T, ToolError> {
    match result {
        Err(Reason::Tool(ToolError::Store(error))) if !expected(&error) => Err(error.into()),
        Err(reason) => {
            tracing::debug!(%reason, "the plan tool declines");
            Ok(otherwise)
        }
        Ok(value) => Ok(value),
    }
}

fn expected(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::UnknownPlan(_) | StoreError::PlanTaken(_) | StoreError::Refused(_)
    )
}

/// The Plan Tool as Rust methods. Where a plan is asked for, its id or `None`: the plan that the toolbox is bound to, else the
/// latest. What the document answers with `False`, `None` or an empty list is no error here; an error is a store that fails.
///
/// ```
/// use plan_agent::tools::plan_tool::{PlanStatus, Structure, TaskStatus};
/// use plan_agent::tools::{PlanTool, Toolbox};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let plans = PlanTool::new(Toolbox::in_memory().await?);
/// let structure: Structure = serde_json::from_str(
///     r#"{"name": "Release", "steps": [{"step_id": "s1", "name": "Build", "tasks": [
///         {"task_id": "t1", "name": "Compile", "assignee": "dev", "description": "cargo build"}
///     ]}]}"#,
/// )?;
/// assert!(plans.create_plan_from_structure("release", structure.clone()).await?);
/// assert!(!plans.create_plan_from_structure("release", structure).await?); // The id is taken.
///
/// let mine = plans.get_tasks_for_role("release", "dev", TaskStatus::Ready).await?;
/// assert_eq!(mine[0].task_id, "t1");
/// assert!(plans.update_task_status("release", "t1", TaskStatus::Completed, Some("it builds")).await?);
/// assert_eq!(plans.get_plan_status("release").await?, Some(PlanStatus::Completed));
/// assert_eq!(plans.get_plan_status("another").await?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PlanTool {
    toolbox: Toolbox,
}

impl PlanTool {
    /// Makes the tool work through a toolbox.
    pub fn new(toolbox: Toolbox) -> Self {
        Self { toolbox }
    }

    /// Makes a plan with every task ready, in one step. `false` if the id is taken or badly formed, or the structure is not
    /// valid: [`PlanTool::check_structure`] says what is wrong.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn create_plan_from_structure(
        &self,
        plan_id: &str,
        structure_data: Structure,
    ) -> Result<bool, ToolError> {
        let made = self.create(plan_id, structure_data, false).await;
        or(made.map(|_| true), false)
    }

    /// Checks all that [`PlanTool::create_plan_from_structure`] would, and makes nothing.
    ///
    /// # Errors
    /// What is wrong, in words; several problems of a structure at once.
    pub async fn check_structure(
        &self,
        plan_id: &str,
        structure_data: Structure,
    ) -> Result<(), String> {
        match self.create(plan_id, structure_data, true).await {
            Ok(()) | Err(Reason::Dry) => Ok(()),
            Err(reason) => Err(reason.to_string()),
        }
    }

    /// Returns a task in full.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn get_task<'a>(
        &self,
        plan_id: impl Into<Option<&'a str>>,
        task_id: &str,
    ) -> Result<Option<TaskInfo>, ToolError> {
        let page = Page {
            limit: Some(usize::MAX),
            offset: None,
        };
        let task = self.task(plan_id.into(), task_id, page);
        or(task.await.map(Some), None)
    }

    /// Sets the status of a task and, unless it is `None`, what came of it; then the status of the plan follows. `false` for
    /// an unknown plan or task, and for a transition that is not allowed.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn update_task_status<'a>(
        &self,
        plan_id: impl Into<Option<&'a str>>,
        task_id: &str,
        status: TaskStatus,
        result_summary: Option<&str>,
    ) -> Result<bool, ToolError> {
        let updated = self.update(plan_id.into(), task_id, status, result_summary);
        or(updated.await.map(|_| true), false)
    }

    /// Returns every ready task.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn get_ready_tasks<'a>(
        &self,
        plan_id: impl Into<Option<&'a str>>,
    ) -> Result<Vec<TaskInfo>, ToolError> {
        let all = |plan: &Plan| {
            let ready = plan.tasks_in(plan::Shown::Pending);
            ready.map(|task| TaskInfo::full(plan, task)).collect()
        };
        or(self.read(plan_id.into(), all).await, Vec::new())
    }

    /// Returns every task of a role that has this status; the document's default is [`TaskStatus::Ready`].
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn get_tasks_for_role<'a>(
        &self,
        plan_id: impl Into<Option<&'a str>>,
        role_id: &str,
        status: TaskStatus,
    ) -> Result<Vec<TaskInfo>, ToolError> {
        let role = role_id.to_owned();
        let all = move |plan: &Plan| {
            let tasks = plan.tasks_of(&role, status.into());
            tasks.map(|task| TaskInfo::full(plan, task)).collect()
        };
        or(self.read(plan_id.into(), all).await, Vec::new())
    }

    /// Returns the status of a plan.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn get_plan_status<'a>(
        &self,
        plan_id: impl Into<Option<&'a str>>,
    ) -> Result<Option<PlanStatus>, ToolError> {
        let status = |plan: &Plan| Some(plan.status().into());
        or(self.read(plan_id.into(), status).await, None)
    }

    /// Returns a plan with its steps and a page of its tasks, texts cut short, and how many tasks are left after those.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn get_plan_structure<'a>(
        &self,
        plan_id: impl Into<Option<&'a str>>,
        page: Page,
    ) -> Result<Option<(PlanInstance, usize)>, ToolError> {
        or(self.structure(plan_id.into(), page).await.map(Some), None)
    }

    /// Deletes a plan: nobody finds it any more and its id is free again, but its history stays.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn delete_plan<'a>(
        &self,
        plan_id: impl Into<Option<&'a str>>,
    ) -> Result<bool, ToolError> {
        let deleted = self.delete(plan_id.into()).await;
        or(deleted.map(|()| true), false)
    }

    async fn create(&self, key: &str, structure: Structure, dry_run: bool) -> Result<(), Reason> {
        if !valid_key(key) {
            return Err(Refusal::BadKey(one_line(key, KEY)).into());
        }
        let file = plan_file::from_structure(structure).map_err(|problems| {
            let told = problems.iter().take(PROBLEMS).map(|problem| {
                let hint = problem.hint.as_ref().map(|hint| format!(" ({hint})"));
                format!("{problem}{}", hint.unwrap_or_default())
            });
            let more = match problems.len().saturating_sub(PROBLEMS) {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            Reason::Structure(told.collect::<Vec<_>>().join("; ") + &more)
        })?;
        let mut tasks = file.tasks;
        for task in &mut tasks {
            task.origin = Origin::Model;
        }
        let head = Head {
            name: clip(&file.name, 1000),
            description: file.description,
            source: file.source,
            origin: Origin::Model,
            order: Order::Free,
            ..Head::new(PlanId::new(key), &file.goal, Time::default())
        };
        let make = move |draft: &mut Draft<'_>| {
            draft.make_tasks(tasks)?;
            if dry_run { Err(Reason::Dry) } else { Ok(()) }
        };
        let why = "create_plan_from_structure";
        let made = self.toolbox.create_or(Dialect::PlanTool, head, why, make);
        made.await
    }

    async fn task(&self, plan: Option<&str>, task: &str, page: Page) -> Result<TaskInfo, Reason> {
        let key = task.to_owned();
        let find = move |plan: &Plan| find(plan, &key).map(|task| TaskInfo::page(plan, task, page));
        Ok(self.read(plan, find).await??)
    }

    async fn update(
        &self,
        plan: Option<&str>,
        task: &str,
        to: TaskStatus,
        result: Option<&str>,
    ) -> Result<Updated, Reason> {
        let plan = self.find(plan).await?;
        let (key, result) = (task.to_owned(), result.map(str::to_owned));
        let update = move |draft: &mut Draft<'_>| {
            if draft.plan().head().shelf == Shelf::Deleted {
                return Err(Refusal::Deleted.into());
            }
            let task = find(draft.plan(), &key)?;
            let (id, from) = (task.number, TaskStatus::from(task.status));
            if !from.may_become(to) {
                let task = one_line(&key, KEY);
                return Err(Reason::Transition { task, from, to });
            }
            let reason = result.as_deref().unwrap_or_default().trim();
            let explained = !reason.is_empty() || task.optional || from == to;
            if to == TaskStatus::Skipped && !explained {
                return Err(Reason::Unexplained(one_line(&key, KEY)));
            }
            status::set(draft, id, to.into(), result.as_deref())?;
            let now = draft.plan().task(id).map(|task| task.status.into());
            Ok(if now == Some(to) {
                Updated::Set
            } else {
                Updated::Reported
            })
        };
        let why = format!("update_task_status {}", one_line(task, KEY));
        self.toolbox.change_or(&plan, &why, update).await
    }

    async fn structure(
        &self,
        plan: Option<&str>,
        page: Page,
    ) -> Result<(PlanInstance, usize), Reason> {
        let read = move |plan: &Plan| {
            let total = plan.counts().total();
            let beside = weight(&PlanInstance::of(plan, Vec::new()));
            let show = |task| Shown::of(plan, task);
            let part = page.shown_beside(beside, total, plan.tasks(), show);
            (PlanInstance::of(plan, part.items), part.left)
        };
        self.read(plan, read).await
    }

    async fn delete(&self, plan: Option<&str>) -> Result<(), Reason> {
        let plan = self.find(plan).await?;
        let delete = |draft: &mut Draft<'_>| draft.put_away(Shelf::Deleted);
        Ok(self.toolbox.change(&plan, "delete_plan", delete).await?)
    }

    /// Returns the plan that a caller means.
    async fn find(&self, key: Option<&str>) -> Result<PlanId, ToolError> {
        let Some(key) = key else {
            return self.toolbox.current(Dialect::PlanTool).await;
        };
        let found = self.toolbox.store().find(key).await?;
        found.ok_or_else(|| StoreError::UnknownPlan(PlanId::new(one_line(key, KEY))).into())
    }

    async fn read<T: Send + 'static>(
        &self,
        plan: Option<&str>,
        read: impl FnOnce(&Plan) -> T + Send + 'static,
    ) -> Result<T, Reason> {
        let plan = self.find(plan).await?;
        let store = self.toolbox.store();
        Ok(store.read(&plan, |plan, _| read(plan)).await?)
    }

    async fn answer_create(&self, arguments: Value) -> Result<Answer, Reason> {
        let arguments: CreateArguments = args::read(arguments)?;
        let key = match arguments.plan_id {
            Some(key) => key,
            // Nobody would find it: calls without an id mean the plan that they are bound to.
            None => match self.toolbox.bound() {
                Some(plan) => return Err(ToolError::Bound(plan.clone()).into()),
                None => new_plan_id().to_string(),
            },
        };
        let empty = arguments.structure_data.steps.iter();
        let empty = empty.filter(|step| step.tasks.is_empty());
        let empty: Vec<String> = empty
            .map(|step| one_line(&step.step_id, KEY))
            .take(10)
            .collect();
        let dry_run = arguments.dry_run.unwrap_or(false);
        let mut reasons = Vec::new();
        match self.create(&key, arguments.structure_data, dry_run).await {
            Ok(()) => {}
            Err(dry @ Reason::Dry) => reasons.push(dry.to_string()),
            Err(reason) => return Err(reason),
        }
        if !empty.is_empty() {
            reasons.push(format!("left out, without tasks: {}", empty.join(", ")));
        }
        let mut answer = Answer::result(true);
        answer.value["plan_id"] = key.into();
        if !reasons.is_empty() {
            answer.value["reason"] = reasons.join("; ").into();
        }
        Ok(answer)
    }

    async fn answer_task(&self, arguments: Value) -> Result<Answer, Reason> {
        let arguments: TaskArguments = args::read(arguments)?;
        let page = Page {
            limit: arguments.limit,
            offset: arguments.offset,
        };
        let task = self.task(arguments.plan_id.as_deref(), &arguments.task_id, page);
        Ok(Answer::result(json!(task.await?)))
    }

    async fn answer_update(&self, arguments: Value) -> Result<Answer, Reason> {
        let arguments: UpdateArguments = args::read(arguments)?;
        let result = arguments.result_summary.as_deref();
        let plan = arguments.plan_id.as_deref();
        let updated = self.update(plan, &arguments.task_id, arguments.status, result);
        let mut answer = Answer::result(true);
        if updated.await? == Updated::Reported {
            answer.value["reason"] = "reported: it counts once it has been judged".into();
        }
        Ok(answer)
    }

    async fn answer_ready(&self, arguments: Value) -> Result<Answer, Reason> {
        let PageArguments {
            plan_id,
            limit,
            offset,
        } = args::read(arguments)?;
        let page = Page { limit, offset };
        let read = move |plan: &Plan| short(plan, page, plan.tasks_in(plan::Shown::Pending));
        Ok(Answer::part(self.read(plan_id.as_deref(), read).await?))
    }

    async fn answer_role(&self, arguments: Value) -> Result<Answer, Reason> {
        let arguments: RoleArguments = args::read(arguments)?;
        let page = Page {
            limit: arguments.limit,
            offset: arguments.offset,
        };
        let status = arguments.status.unwrap_or_default();
        let role = arguments.role_id;
        let read = move |plan: &Plan| short(plan, page, plan.tasks_of(&role, status.into()));
        let tasks = self.read(arguments.plan_id.as_deref(), read);
        Ok(Answer::part(tasks.await?))
    }

    async fn answer_status(&self, arguments: Value) -> Result<Answer, Reason> {
        let arguments: PlanArguments = args::read(arguments)?;
        let status = |plan: &Plan| PlanStatus::from(plan.status());
        let status = self.read(arguments.plan_id.as_deref(), status);
        Ok(Answer::result(json!(status.await?)))
    }

    async fn answer_structure(&self, arguments: Value) -> Result<Answer, Reason> {
        let PageArguments {
            plan_id,
            limit,
            offset,
        } = args::read(arguments)?;
        let page = Page { limit, offset };
        let (plan, left) = self.structure(plan_id.as_deref(), page).await?;
        let mut answer = Answer::result(json!(plan));
        if left > 0 {
            answer.value["left"] = left.into();
        }
        Ok(answer)
    }

    async fn answer_delete(&self, arguments: Value) -> Result<Answer, Reason> {
        let arguments: PlanArguments = args::read(arguments)?;
        self.delete(arguments.plan_id.as_deref()).await?;
        Ok(Answer::result(true))
    }
}

fn find<'a>(plan: &'a Plan, key: &str) -> Result<&'a Task, ToolError> {
    plan.task_by_key(key)
        .ok_or_else(|| Refusal::UnknownTask(one_line(key, KEY)).into())
}

fn short<'a>(
    plan: &Plan,
    page: Page,
    tasks: impl ExactSizeIterator<Item = &'a Task>,
) -> Part<TaskInfo> {
    page.shown(tasks.len(), tasks, |task| TaskInfo::short(plan, task))
}
