//! Plan Tool: the plans of a team, made from a structure of steps, each task for a role. It keeps states and drives nothing:
//! the callers know the structure and decide the order of the tasks.

mod model;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::paging::weight;
use super::{
    ArgumentError, Dialect, Functions, Page, PagePart, Result, Tool, ToolAnswer, ToolError,
    Toolbox, new_plan_id, set_status,
};
use crate::plan::{
    ArchiveState, Draft, Origin, Plan, PlanHead, PlanId, PlanSpec, Refusal, Task, TaskFilter,
    TaskOrder, Time, valid_key,
};
use crate::store::StoreError;
use crate::wire::Problem;
use crate::wire::plan_file::{self, OF_WORKFLOW};
use crate::wire::team_file::plan_of_workflow;
use crate::wire::text::{clip, one_line};

pub use crate::wire::plan_file::{Structure, StructureStep, StructureTask};
use model::{
    CreatePlanArguments, PageArguments, PlanArguments, RoleArguments, ShownTask, StepEntry,
    TaskArguments, UpdateArguments,
};
pub use model::{PlanInstance, PlanStatus, StepInfo, TaskInfo, TaskStatus};

pub(super) static TOOLS: LazyLock<[Tool; 8]> = LazyLock::new(|| {
    [
        PlanTool::changes(
            "create_plan_from_structure",
            "Makes a plan; every task is ready. plan_id is the latest plan in all other tools if left out.",
        )
        .calls(async |plans, given: CreatePlanArguments| plans.answer_create(given).await),
        PlanTool::reads("get_task", "Returns a task in full, or null.").calls(
            async |plans, given: TaskArguments| {
                let page = Page::new(given.limit, given.offset);
                let task = plans.task(given.plan_id.as_deref(), &given.task_id, page);
                task.await.map(ToolAnswer::result)
            },
        ),
        PlanTool::changes(
            "update_task_status",
            "Sets a task's status. completed and skipped are final.",
        )
        .calls(async |plans, given: UpdateArguments| {
            let (plan, result) = (given.plan_id.as_deref(), given.result_summary.as_deref());
            let reported = plans.update(plan, &given.task_id, given.status, result);
            let reason = match reported.await? {
                true => "reported: it counts once it has been judged",
                false => "",
            };
            Ok(ToolAnswer::result(true).with(0, reason))
        }),
        PlanTool::reads("get_ready_tasks", "Lists the ready tasks.").calls(
            async |plans, given: PageArguments| {
                let page = Page::new(given.limit, given.offset);
                let read = move |plan: &Plan| short(plan, page, plan.tasks_in(TaskFilter::Pending));
                plans.read(given.plan_id.as_deref(), read).await
            },
        ),
        PlanTool::reads("get_tasks_for_role", "Lists a role's tasks of one status.").calls(
            async |plans, given: RoleArguments| {
                let page = Page::new(given.limit, given.offset);
                let (role, status) = (given.role_id, given.status.unwrap_or_default());
                let read = move |plan: &Plan| short(plan, page, plan.tasks_of(&role, status.into()));
                plans.read(given.plan_id.as_deref(), read).await
            },
        ),
        PlanTool::reads(
            "get_plan_status",
            "Returns running, completed or error, or null.",
        )
        .calls(async |plans, given: PlanArguments| {
            let status = |plan: &Plan| PlanStatus::from(plan.status());
            let status = plans.read(given.plan_id.as_deref(), status);
            status.await.map(ToolAnswer::result)
        }),
        PlanTool::reads(
            "get_plan_structure",
            "Returns the plan with its steps and tasks.",
        )
        .calls(async |plans, given: PageArguments| {
            let page = Page::new(given.limit, given.offset);
            let (plan, left) = plans.structure(given.plan_id.as_deref(), page).await?;
            Ok(ToolAnswer::result(plan).with(left, ""))
        }),
        PlanTool::changes("delete_plan", "Deletes a plan; its history stays.").calls(
            async |plans, given: PlanArguments| {
                plans.delete(given.plan_id.as_deref()).await?;
                Ok(ToolAnswer::result(true))
            },
        ),
    ]
});

impl Functions for PlanTool {
    type Error = ToolError;

    fn on(toolbox: Toolbox) -> Self {
        Self::new(toolbox)
    }

    fn refuse(tool: &str, reason: ToolError) -> ToolAnswer {
        let otherwise = match tool {
            "create_plan_from_structure" | "update_task_status" | "delete_plan" => json!(false),
            "get_ready_tasks" | "get_tasks_for_role" => json!([]),
            _ => Value::Null,
        };
        ToolAnswer::failure(otherwise, reason)
    }
}

/// Characters of a key and of a text in a reason.
const KEY: usize = 60;

/// The most problems of a structure in one answer.
const PROBLEMS: usize = 5;

/// Turns a reason into the document's value for it: `false`, `None` or nothing. Only a failing store is an error.
fn or_default<T: Default>(result: Result<T>) -> Result<T> {
    use StoreError::{PlanTaken, Refused, UnknownPlan};
    match result {
        Err(ToolError::Store(error))
            if !matches!(error, UnknownPlan(_) | PlanTaken(_) | Refused(_)) =>
        {
            Err(error.into())
        }
        Err(reason) => {
            tracing::debug!(%reason, "the plan tool declines");
            Ok(T::default())
        }
        Ok(value) => Ok(value),
    }
}

/// The Plan Tool as Rust methods. The argument for a plan is its id or `None`: the plan to which the toolbox is bound, else the
/// latest. An answer that is `False`, `None` or an empty list in the document is no error here; only a failing store is.
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

    /// Makes a plan with every task ready, in one step. `false` if the id is in use or badly formed, or the structure is not
    /// valid: [`PlanTool::check_structure`] says what is wrong.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn create_plan_from_structure(
        &self,
        plan_id: &str,
        structure_data: Structure,
    ) -> Result<bool> {
        let plan = plan_file::from_structure(structure_data);
        let made = self.create(plan_id, plan, false).await;
        or_default(made.map(|_| true))
    }

    /// Does all checks of [`PlanTool::create_plan_from_structure`], and makes nothing.
    ///
    /// # Errors
    /// Describes the problem; a structure may have several.
    pub async fn check_structure(
        &self,
        plan_id: &str,
        structure_data: Structure,
    ) -> Result<(), String> {
        let plan = plan_file::from_structure(structure_data);
        let made = self.create(plan_id, plan, true).await;
        made.map_err(|reason| reason.to_string())
    }

    /// Returns a task in full.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn get_task<'a>(
        &self,
        plan_id: impl Into<Option<&'a str>>,
        task_id: &str,
    ) -> Result<Option<TaskInfo>> {
        let page = Page::new(Some(usize::MAX), None);
        let task = self.task(plan_id.into(), task_id, page);
        or_default(task.await.map(Some))
    }

    /// Sets the status of a task and, unless it is `None`, its result; then the status of the plan follows. `false` for an
    /// unknown plan or task, and for a transition that is not allowed.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn update_task_status<'a>(
        &self,
        plan_id: impl Into<Option<&'a str>>,
        task_id: &str,
        status: TaskStatus,
        result_summary: Option<&str>,
    ) -> Result<bool> {
        let updated = self.update(plan_id.into(), task_id, status, result_summary);
        or_default(updated.await.map(|_| true))
    }

    /// Returns every ready task.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn get_ready_tasks<'a>(
        &self,
        plan_id: impl Into<Option<&'a str>>,
    ) -> Result<Vec<TaskInfo>> {
        let all = |plan: &Plan| TaskInfo::full(plan, plan.tasks_in(TaskFilter::Pending));
        or_default(self.read(plan_id.into(), all).await)
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
    ) -> Result<Vec<TaskInfo>> {
        let role = role_id.to_owned();
        let all = move |plan: &Plan| TaskInfo::full(plan, plan.tasks_of(&role, status.into()));
        or_default(self.read(plan_id.into(), all).await)
    }

    /// Returns the status of a plan.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn get_plan_status<'a>(
        &self,
        plan_id: impl Into<Option<&'a str>>,
    ) -> Result<Option<PlanStatus>> {
        let status = |plan: &Plan| Some(plan.status().into());
        or_default(self.read(plan_id.into(), status).await)
    }

    /// Returns a plan with its steps and a page of its tasks, texts cut short, and the number of tasks after those.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn get_plan_structure<'a>(
        &self,
        plan_id: impl Into<Option<&'a str>>,
        page: Page,
    ) -> Result<Option<(PlanInstance, usize)>> {
        or_default(self.structure(plan_id.into(), page).await.map(Some))
    }

    /// Deletes a plan: no call finds it any more and its id is free again, but its log stays.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn delete_plan<'a>(&self, plan_id: impl Into<Option<&'a str>>) -> Result<bool> {
        let deleted = self.delete(plan_id.into()).await;
        or_default(deleted.map(|()| true))
    }

    async fn create(
        &self,
        key: &str,
        plan: Result<PlanSpec, Vec<Problem>>,
        dry_run: bool,
    ) -> Result<()> {
        if !valid_key(key) {
            return Err(Refusal::BadKey(one_line(key, KEY)).into());
        }
        let plan = plan.map_err(|problems| several(&problems))?;
        let mut tasks = plan.tasks;
        for task in &mut tasks {
            task.origin = Origin::Model;
        }
        let head = PlanHead {
            name: clip(&plan.name, 1000),
            description: plan.description,
            source: plan.source,
            origin: Origin::Model,
            order: TaskOrder::Free,
            empty_steps: plan.empty_steps,
            ..PlanHead::new(PlanId::new(key), &plan.goal, Time::default())
        };
        let make = move |draft: &mut Draft<'_>| Ok(draft.make_tasks(tasks).map(drop)?);
        let (toolbox, why) = (self.toolbox.dry_run(dry_run), "create_plan_from_structure");
        toolbox.change((Dialect::PlanTool, head), why, make).await
    }

    async fn task(&self, plan: Option<&str>, task: &str, page: Page) -> Result<TaskInfo> {
        let key = task.to_owned();
        let find = move |plan: &Plan| find(plan, &key).map(|task| TaskInfo::page(plan, task, page));
        self.read(plan, find).await?
    }

    /// Sets a status. Returns whether it is only a report to the daemon that carries the plan out, which checks and judges it.
    async fn update(
        &self,
        plan: Option<&str>,
        task: &str,
        to: TaskStatus,
        result: Option<&str>,
    ) -> Result<bool> {
        let plan = self.find(plan).await?;
        let (key, result) = (task.to_owned(), result.map(str::to_owned));
        let update = move |draft: &mut Draft<'_>| {
            if draft.plan().head().archive_state == ArchiveState::Deleted {
                return Err(Refusal::Deleted.into());
            }
            let task = find(draft.plan(), &key)?;
            let (id, from) = (task.number, TaskStatus::from(task.status));
            let name = one_line(&key, KEY);
            if !from.may_become(to) {
                let last = match from {
                    TaskStatus::Completed | TaskStatus::Skipped => ", which is final",
                    _ => "",
                };
                let (from, to) = (from.as_str(), to.as_str());
                return Err(rule(format!(
                    "task `{name}` is {from}{last}; it cannot become {to}"
                )));
            }
            let reason = result.as_deref().unwrap_or_default().trim();
            let explained = !reason.is_empty() || task.optional || from == to;
            if to == TaskStatus::Skipped && !explained {
                return Err(rule(format!(
                    "task `{name}` is not optional: say in result_summary why it is skipped"
                )));
            }
            set_status::set(draft, id, to.into(), result.as_deref())?;
            let now = draft.plan().task(id).map(|task| task.status.into());
            Ok(now != Some(to))
        };
        let why = format!("update_task_status {}", one_line(task, KEY));
        self.toolbox.change(&plan, &why, update).await
    }

    async fn structure(&self, plan: Option<&str>, page: Page) -> Result<(PlanInstance, usize)> {
        let read = move |plan: &Plan| {
            let (total, head) = (
                plan.counts().total(),
                weight(&PlanInstance::of(plan, Vec::new())),
            );
            let empty = &plan.head().empty_steps;
            let part = match empty.is_empty() {
                true => {
                    let show = |task| ShownTask::of(plan, task);
                    page.shown_alongside(head, total, plan.tasks(), show)
                }
                false => {
                    let entries = StepEntry::all(plan);
                    let show = |entry: StepEntry<'_>| entry.shown(plan);
                    page.shown_alongside(head, total + empty.len(), entries.into_iter(), show)
                }
            };
            (PlanInstance::of(plan, part.items), part.left)
        };
        self.read(plan, read).await
    }

    async fn delete(&self, plan: Option<&str>) -> Result<()> {
        let plan = self.find(plan).await?;
        let delete = |draft: &mut Draft<'_>| Ok(draft.archive(ArchiveState::Deleted)?);
        self.toolbox.change(&plan, "delete_plan", delete).await
    }

    /// Returns the plan for a caller's key.
    async fn find(&self, key: Option<&str>) -> Result<PlanId> {
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
    ) -> Result<T> {
        let plan = self.find(plan).await?;
        self.toolbox.read(&plan, read).await
    }

    async fn answer_create(&self, given: CreatePlanArguments) -> Result<ToolAnswer> {
        let key = match given.plan_id {
            Some(key) => key,
            None => {
                self.toolbox.unbound()?;
                new_plan_id().to_string()
            }
        };
        let mut structure = given.structure_data.0;
        let ignored = plan_file::drop_unknown(&mut structure).map_err(|slips| several(&slips))?;
        let plan = plan_of(structure, given.parameters)?;
        let dry_run = given.dry_run.unwrap_or(false);
        self.create(&key, plan, dry_run).await?;
        let mut reasons = Vec::new();
        if dry_run {
            reasons.push("dry_run: nothing was made".to_owned());
        }
        if !ignored.is_empty() {
            reasons.push(format!("ignored, unknown: {}", ignored.join(", ")));
        }
        let mut answer = ToolAnswer::result(true).with(0, &reasons.join("; "));
        answer.value["plan_id"] = key.into();
        Ok(answer)
    }
}

/// Returns the plan of a structure, or of a workflow of a team file with values for its parameters.
fn plan_of(
    structure: Value,
    parameters: Option<Map<String, Value>>,
) -> Result<Result<PlanSpec, Vec<Problem>>> {
    let is_workflow = |fields: &Map<String, Value>| {
        parameters.is_some() || OF_WORKFLOW.iter().any(|name| fields.contains_key(*name))
    };
    match &structure {
        Value::Object(fields) if is_workflow(fields) => {
            Ok(plan_of_workflow(fields, &parameters.unwrap_or_default()))
        }
        _ => match serde_json::from_value::<Structure>(structure) {
            Ok(structure) => Ok(plan_file::from_structure(structure)),
            Err(error) => Err(rule(format!("structure_data: {error}"))),
        },
    }
}

/// Returns the first problems as one error.
fn several(problems: &[Problem]) -> ToolError {
    let first = problems.iter().take(PROBLEMS).map(|problem| {
        let hint = problem.hint.as_ref().map(|hint| format!(" ({hint})"));
        format!("{problem}{}", hint.unwrap_or_default())
    });
    let more = match problems.len().saturating_sub(PROBLEMS) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    rule(first.collect::<Vec<_>>().join("; ") + &more)
}

/// Returns the error of a rule of the document.
fn rule(text: String) -> ToolError {
    ArgumentError::new("", text).into()
}

fn find<'a>(plan: &'a Plan, key: &str) -> Result<&'a Task> {
    plan.task_by_key(key)
        .ok_or_else(|| Refusal::UnknownTask(one_line(key, KEY)).into())
}

fn short<'a>(
    plan: &Plan,
    page: Page,
    tasks: impl ExactSizeIterator<Item = &'a Task>,
) -> PagePart<TaskInfo> {
    page.shown(tasks.len(), tasks, |task| TaskInfo::short(plan, task))
}
