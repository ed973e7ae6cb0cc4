//! Plan Tool: the plans of a team, made from a structure of steps, each task for a role. It keeps states and drives nothing:
//! the callers know the structure and decide the order of the tasks.

mod model;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::paging::weight;
use super::{
    ArgumentError, ChangeSubject, Dialect, Functions, Page, PagePart, Result, Tool, ToolAnswer,
    ToolError, Toolbox, new_plan_id, status_changes,
};
use crate::plan::{
    ArchiveState, Draft, Origin, Plan, PlanHead, PlanId, PlanSpec, Refusal, Task, TaskOrder,
    TaskState, Time, and_more, unless_empty, valid_key, word,
};
use crate::store::StoreError;
use crate::wire::plan_file::{self, OF_WORKFLOW};
use crate::wire::team_file::plan_of_workflow;
use crate::wire::{Checked, Problem, clip, joined, one_line};

pub use crate::wire::plan_file::{Structure, StructureStep, StructureTask};
use model::{
    CreatePlanArguments, PageArguments, PlanArguments, RoleArguments, TaskArguments,
    UpdateArguments, entries,
};
pub use model::{PlanInstance, PlanStatus, StepInfo, TaskInfo, TaskStatus};

pub(super) static TOOLS: LazyLock<[Tool; 8]> = LazyLock::new(|| {
    [
        PlanTool::changes("create_plan_from_structure", "Makes a plan, also of a workflow of a team file; every task is ready. plan_id is the latest plan in all other tools if left out.").calls(async |plans, given: CreatePlanArguments| plans.answer_create(given).await),
        PlanTool::reads("get_task", "Returns a task in full, or null.").calls(
            async |plans, a: TaskArguments| {
                let page = Page::new(a.limit, a.offset);
                let task = plans.task(a.plan_id.as_deref(), &a.task_id, page);
                task.await.map(ToolAnswer::result)
            },
        ),
        PlanTool::changes("update_task_status", "Sets a task's status. completed and skipped are final.").calls(async |plans, a: UpdateArguments| {
            let (plan, result) = (a.plan_id.as_deref(), a.result_summary.as_deref());
            let reason = match plans.update(plan, &a.task_id, a.status, result).await? {
                true => "reported: it counts once it has been judged",
                false => "",
            };
            Ok(ToolAnswer::result(true).with(0, reason))
        }),
        PlanTool::reads("get_ready_tasks", "Lists the ready tasks.").calls(
            async |plans, a: PageArguments| {
                let read = move |plan: &Plan| short(plan, a.page, plan.tasks_in(TaskState::Pending));
                plans.read(a.plan_id.as_deref(), read).await
            },
        ),
        PlanTool::reads("get_tasks_for_role", "Lists a role's tasks of one status.").calls(
            async |plans, a: RoleArguments| {
                let status = a.status.unwrap_or_default().into();
                let read = move |plan: &Plan| short(plan, a.page, plan.tasks_of(&a.role_id, status));
                plans.read(a.plan_id.as_deref(), read).await
            },
        ),
        PlanTool::reads("get_plan_status", "Returns running, completed or error, or null.").calls(async |plans, a: PlanArguments| {
            let status = |plan: &Plan| ToolAnswer::result(PlanStatus::from(plan.status()));
            plans.read(a.plan_id.as_deref(), status).await
        }),
        PlanTool::reads("get_plan_structure", "Returns the plan with its steps and tasks.").calls(async |plans, a: PageArguments| {
            let (plan, left) = plans.structure(a.plan_id.as_deref(), a.page).await?;
            Ok(ToolAnswer::result(plan).with(left, ""))
        }),
        PlanTool::changes("delete_plan", "Deletes a plan; its history stays.").calls(
            async |plans, a: PlanArguments| {
                plans.delete(a.plan_id.as_deref()).await?;
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
/// let mine = plans.get_tasks_for_role(Some("release"), "dev", TaskStatus::Ready).await?;
/// assert_eq!(mine[0].task_id, "t1");
/// assert!(plans.update_task_status(Some("release"), "t1", TaskStatus::Completed, Some("it builds")).await?);
/// assert_eq!(plans.get_plan_status(Some("release")).await?, Some(PlanStatus::Completed));
/// assert_eq!(plans.get_plan_status(Some("another")).await?, None);
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
    pub async fn check_structure(&self, plan_id: &str, structure: Structure) -> Result<(), String> {
        let plan = plan_file::from_structure(structure);
        let made = self.create(plan_id, plan, true).await;
        made.map_err(|reason| reason.to_string())
    }

    /// Returns a task in full.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn get_task(&self, plan_id: Option<&str>, task_id: &str) -> Result<Option<TaskInfo>> {
        let page = Page::new(Some(usize::MAX), None);
        let task = self.task(plan_id, task_id, page);
        or_default(task.await.map(Some))
    }

    /// Sets the status of a task and, unless it is `None`, its result; then the status of the plan follows. `false` for an
    /// unknown plan or task, and for a transition that is not allowed.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn update_task_status(
        &self,
        plan_id: Option<&str>,
        task_id: &str,
        status: TaskStatus,
        result_summary: Option<&str>,
    ) -> Result<bool> {
        let updated = self.update(plan_id, task_id, status, result_summary);
        or_default(updated.await.map(|_| true))
    }

    /// Returns every ready task.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn get_ready_tasks(&self, plan_id: Option<&str>) -> Result<Vec<TaskInfo>> {
        let all = |plan: &Plan| TaskInfo::full(plan, plan.tasks_in(TaskState::Pending));
        or_default(self.read(plan_id, all).await)
    }

    /// Returns every task of a role that has this status; the document's default is [`TaskStatus::Ready`].
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn get_tasks_for_role(
        &self,
        plan_id: Option<&str>,
        role_id: &str,
        status: TaskStatus,
    ) -> Result<Vec<TaskInfo>> {
        let role = role_id.to_owned();
        let all = move |plan: &Plan| TaskInfo::full(plan, plan.tasks_of(&role, status.into()));
        or_default(self.read(plan_id, all).await)
    }

    /// Returns the status of a plan.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn get_plan_status(&self, plan_id: Option<&str>) -> Result<Option<PlanStatus>> {
        let status = |plan: &Plan| Some(plan.status().into());
        or_default(self.read(plan_id, status).await)
    }

    /// Returns a plan with its steps and a page of its tasks, texts cut short, and the number of tasks after those.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn get_plan_structure(
        &self,
        plan_id: Option<&str>,
        page: Page,
    ) -> Result<Option<(PlanInstance, usize)>> {
        or_default(self.structure(plan_id, page).await.map(Some))
    }

    /// Deletes a plan: no call finds it any more and its id is free again, but its log stays.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn delete_plan(&self, plan_id: Option<&str>) -> Result<bool> {
        let deleted = self.delete(plan_id).await;
        or_default(deleted.map(|()| true))
    }

    async fn create(&self, key: &str, plan: Checked<PlanSpec>, dry_run: bool) -> Result<()> {
        if !valid_key(key) {
            return Err(Refusal::BadKey(one_line(key, KEY)).into());
        }
        let mut plan = plan.map_err(|problems| several(&problems))?;
        (plan.tasks.iter_mut()).for_each(|task| task.origin = Origin::Model);
        let mut head = PlanHead::new(PlanId::new(key), &plan.goal, Time::default());
        head.name = clip(&plan.name, 1000);
        head.description = plan.description;
        head.source = plan.source;
        head.origin = Origin::Model;
        head.order = TaskOrder::Free;
        head.empty_steps = plan.empty_steps;
        let make = move |draft: &mut Draft<'_>| Ok(draft.make_tasks(plan.tasks).map(drop)?);
        let subject = ChangeSubject::New(Dialect::PlanTool, Box::new(head));
        let (toolbox, why) = (self.toolbox.dry_run(dry_run), "create_plan_from_structure");
        toolbox.change(subject, why, make).await
    }

    async fn task(&self, plan: Option<&str>, task: &str, page: Page) -> Result<TaskInfo> {
        let key = task.to_owned();
        let find = move |plan: &Plan| {
            find(plan, &key).map(|task| TaskInfo::of(plan, task, page, usize::MAX))
        };
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
                let (from, to) = (word(&from), word(&to));
                let text = format!("task `{name}` is {from}{last}; it cannot become {to}");
                return Err(rule(text));
            }
            let reason = result.as_deref().unwrap_or_default().trim();
            let explained = !reason.is_empty() || task.optional || from == to;
            if to == TaskStatus::Skipped && !explained {
                return Err(rule(format!(
                    "task `{name}` is not optional: say in result_summary why it is skipped"
                )));
            }
            status_changes::set(draft, id, to.into(), result.as_deref())?;
            let now = draft.plan().task(id).map(|task| task.status.into());
            Ok(now != Some(to))
        };
        let why = format!("update_task_status {}", one_line(task, KEY));
        self.toolbox.change(&plan, &why, update).await
    }

    async fn structure(&self, plan: Option<&str>, page: Page) -> Result<(PlanInstance, usize)> {
        let read = move |plan: &Plan| {
            let offset = page.offset.unwrap_or(0);
            let total = plan.counts().total() + plan.head().empty_steps.len();
            let head = weight(&PlanInstance::of(plan, Vec::new()));
            let show = |entry| StepInfo::of(plan, entry);
            let (rest, entries) = (total.saturating_sub(offset), entries(plan, offset));
            let part = Page::new(page.limit, None).shown_alongside(head, rest, entries, show);
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
        if given.plan_id.is_none() {
            self.toolbox.unbound()?;
        }
        let key = given.plan_id.unwrap_or_else(|| new_plan_id().to_string());
        let mut structure = given.structure_data;
        let ignored = plan_file::drop_unknown(&mut structure).map_err(|slips| several(&slips))?;
        let plan = plan_of(structure, given.parameters)?;
        let dry_run = given.dry_run.unwrap_or(false);
        self.create(&key, plan, dry_run).await?;
        let dry_run = dry_run.then(|| "dry_run: nothing was made".to_owned());
        let names = ignored.join(", ");
        let ignored = (!names.is_empty()).then(|| format!("ignored, unknown: {names}"));
        let reasons = joined(dry_run.into_iter().chain(ignored), "; ");
        let mut answer = ToolAnswer::result(true).with(0, &reasons);
        answer.value["plan_id"] = key.into();
        Ok(answer)
    }
}

/// Returns the plan of a structure, or of a workflow of a team file with values for its parameters.
fn plan_of(structure: Value, parameters: Option<Map<String, Value>>) -> Result<Checked<PlanSpec>> {
    let fields = structure.as_object();
    let has = |name| fields.is_some_and(|fields| fields.contains_key(name));
    if let Some(fields) = fields
        && (parameters.is_some() || OF_WORKFLOW.split(' ').any(has))
    {
        return Ok(plan_of_workflow(fields, &parameters.unwrap_or_default()));
    }
    let structure = serde_json::from_value::<Structure>(structure);
    let structure = structure.map_err(|error| rule(format!("structure_data: {error}")))?;
    Ok(plan_file::from_structure(structure))
}

/// Returns the first problems as one error.
fn several(problems: &[Problem]) -> ToolError {
    let first = problems.iter().take(PROBLEMS).map(|problem| {
        let hint = problem.hint.as_ref().map(|hint| format!(" ({hint})"));
        format!("{problem}{}", hint.unwrap_or_default())
    });
    let more = and_more(problems.len().saturating_sub(PROBLEMS));
    rule(joined(first, "; ") + &unless_empty(&more, |more| format!(";{more}")))
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
