//! The types of `plan-tool.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::plan::{EmptyStep, Plan, PlanState, Task, TaskId, TaskState, is_default};
use crate::tools::paging::Page;
use crate::wire::{Structure, clip, one_line, time_text};

/// Characters of a text in a list.
const CLIPPED: usize = 300;

/// Characters of the plan's name alongside its tasks.
const NAME: usize = 100;

/// The most dependencies that are shown for a task in a list.
const IDS_IN_LIST: usize = 10;

/// The state of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(description = "")]
pub enum TaskStatus {
    // No docs on the variants: with them the schema would no longer be a plain list.
    #[default]
    Ready,
    Inprogress,
    Completed,
    Error,
    Skipped,
}

impl TaskStatus {
    /// Returns whether a task may go from this status to another. The same status is always allowed: nothing changes.
    pub fn may_become(self, to: Self) -> bool {
        match self {
            Self::Ready | Self::Inprogress => true,
            Self::Error => to != Self::Completed,
            Self::Completed | Self::Skipped => self == to,
        }
    }
}

impl From<TaskState> for TaskStatus {
    fn from(status: TaskState) -> Self {
        match status {
            TaskState::Pending => Self::Ready,
            TaskState::InProgress => Self::Inprogress,
            TaskState::Completed => Self::Completed,
            TaskState::Failed => Self::Error,
            TaskState::Skipped => Self::Skipped,
        }
    }
}

impl From<TaskStatus> for TaskState {
    fn from(status: TaskStatus) -> Self {
        match status {
            TaskStatus::Ready => Self::Pending,
            TaskStatus::Inprogress => Self::InProgress,
            TaskStatus::Completed => Self::Completed,
            TaskStatus::Error => Self::Failed,
            TaskStatus::Skipped => Self::Skipped,
        }
    }
}

/// The state of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlanStatus {
    Running,
    Completed,
    Error,
}

impl From<&PlanState> for PlanStatus {
    fn from(status: &PlanState) -> Self {
        match status {
            PlanState::Idle | PlanState::Running | PlanState::Paused(_) => Self::Running,
            PlanState::Completed => Self::Completed,
            PlanState::Failed | PlanState::Abandoned => Self::Error,
        }
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskInfo {
    pub task_id: String,
    pub name: String,
    /// Empty if every role may do it.
    pub assignee: String,
    pub description: String,
    pub status: TaskStatus,
    pub result_summary: Option<String>,
    /// `None` where the task stands within its step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// A page of the tasks on which it depends according to the structure, which nothing enforces; and the number of those
    /// after the page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub dependencies_left: usize,
}

impl TaskInfo {
    /// Returns tasks in full, with as many of their dependencies as a page may have.
    pub(super) fn full<'a>(plan: &Plan, tasks: impl Iterator<Item = &'a Task>) -> Vec<Self> {
        let full = |task| Self::of(plan, task, Page::new(Some(usize::MAX), None), usize::MAX);
        tasks.map(full).collect()
    }

    /// Returns a task with its texts cut short.
    pub(super) fn short(plan: &Plan, task: &Task) -> Self {
        Self::of(plan, task, Page::new(Some(IDS_IN_LIST), None), CLIPPED)
    }

    /// Returns a task with a page of its dependencies, and so many characters of its texts.
    pub(super) fn of(plan: &Plan, task: &Task, page: Page, most: usize) -> Self {
        let text = |text: &str| clip(text, most);
        let result = task.result.as_deref().filter(|result| !result.is_empty());
        let known = |id: &TaskId| plan.task(*id).map(|task| task.key.clone());
        let key = |id: &TaskId| known(id).unwrap_or_else(|| id.to_string());
        let dependencies = task.dependencies.iter();
        let dependencies = page.shown(dependencies.len(), dependencies, key);
        Self {
            task_id: task.key.clone(),
            name: text(&task.name),
            assignee: text(task.assignee.as_deref().unwrap_or_default()),
            description: text(&task.description),
            status: task.status.into(),
            result_summary: result.map(text),
            step_id: task.step_id.as_deref().map(text),
            optional: task.optional,
            dependencies: dependencies.items,
            dependencies_left: dependencies.left,
        }
    }
}

/// A step of a plan, with its shown tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepInfo {
    pub step_id: String,
    pub name: String,
    pub tasks: Vec<TaskInfo>,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanInstance {
    pub plan_id: String,
    pub name: String,
    pub description: String,
    pub workflow_template_source: String,
    pub status: PlanStatus,
    /// RFC 3339.
    pub creation_time: String,
    pub completion_time: Option<String>,
    pub steps: Vec<StepInfo>,
}

impl PlanInstance {
    /// Returns a plan with what is shown of its structure, joined where it is of one step.
    pub(super) fn of(plan: &Plan, shown: Vec<StepInfo>) -> Self {
        let head = plan.head();
        let mut steps: Vec<StepInfo> = Vec::new();
        for part in shown {
            match steps.last_mut() {
                Some(step) if (&step.step_id, &step.name) == (&part.step_id, &part.name) => {
                    step.tasks.extend(part.tasks);
                }
                _ => steps.push(part),
            }
        }
        Self {
            plan_id: head.key().to_owned(),
            name: one_line(&head.name, NAME),
            description: clip(&head.description, CLIPPED),
            workflow_template_source: one_line(head.source.as_deref().unwrap_or_default(), NAME),
            status: plan.status().into(),
            creation_time: time_text(head.created_at),
            completion_time: head.finished_at.map(time_text),
            steps,
        }
    }
}

/// What stands in a plan's structure: a task, or a step without tasks.
pub(super) type StepEntry<'a> = Result<&'a Task, &'a EmptyStep>;

/// Returns what stands in a plan's structure after the first `offset` entries.
pub(super) fn entries(plan: &Plan, offset: usize) -> impl Iterator<Item = StepEntry<'_>> {
    let total = plan.counts().total();
    let steps = plan.head().empty_steps.iter();
    let before = |(place, step): &(usize, &EmptyStep)| step.after.min(total) + place < offset;
    let passed = steps.clone().enumerate().take_while(before).count();
    let mut steps = steps.skip(passed).peekable();
    let mut at = offset - passed;
    let mut tasks = plan.tasks().skip(at);
    std::iter::from_fn(move || {
        if let Some(step) = steps.next_if(|step| step.after <= at) {
            return Some(Err(step));
        }
        at += 1;
        tasks.next().map(Ok).or_else(|| steps.next().map(Err))
    })
}

impl StepInfo {
    /// Returns the step of an entry, with the task that the entry is.
    pub(super) fn of(plan: &Plan, entry: StepEntry<'_>) -> Self {
        let (step_id, name, tasks) = match entry {
            Ok(task) => {
                let mut info = TaskInfo::short(plan, task);
                let (step_id, name) = (info.step_id.take(), task.step.as_deref());
                (step_id, name.unwrap_or_default(), vec![info])
            }
            Err(step) => (Some(clip(&step.step_id, CLIPPED)), &*step.name, Vec::new()),
        };
        Self {
            step_id: step_id.unwrap_or_default(),
            name: clip(name, CLIPPED),
            tasks,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct CreatePlanArguments {
    /// Made if left out.
    pub plan_id: Option<String>,
    #[schemars(with = "Structure")]
    pub structure_data: Value,
    /// Values for the parameters of a workflow.
    pub parameters: Option<Map<String, Value>>,
    /// Only check.
    pub dry_run: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct TaskArguments {
    pub plan_id: Option<String>,
    pub task_id: String,
    /// Of its dependencies.
    pub limit: Option<usize>,
    pub offset: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct UpdateArguments {
    pub plan_id: Option<String>,
    pub task_id: String,
    pub status: TaskStatus,
    /// What came of it; for skipped the reason.
    pub result_summary: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct PageArguments {
    pub plan_id: Option<String>,
    #[serde(flatten)]
    pub page: Page,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct RoleArguments {
    pub plan_id: Option<String>,
    pub role_id: String,
    /// ready if left out.
    pub status: Option<TaskStatus>,
    #[serde(flatten)]
    pub page: Page,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct PlanArguments {
    pub plan_id: Option<String>,
}
