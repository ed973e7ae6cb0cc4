//! The arguments and the results of PlanManager's functions, in the fields and words of its document.

use super::*;

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ManagerTaskStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
    Skipped,
    Blocked,
}

impl ManagerTaskStatus {
    /// Returns the word for the state of a task in its plan.
    pub(super) fn of(plan: &Plan, task: &plan::Task) -> Self {
        match task.status {
            TaskState::Pending if !plan.is_ready(task) => Self::Blocked,
            TaskState::Pending => Self::Pending,
            TaskState::InProgress => Self::InProgress,
            TaskState::Completed => Self::Completed,
            TaskState::Failed => Self::Failed,
            TaskState::Skipped => Self::Skipped,
        }
    }

    /// Returns the tasks that the word stands for.
    pub(super) fn tasks(self, plan: &Plan) -> plan::Tasks<'_> {
        match self {
            Self::Pending => plan.ready(),
            Self::InProgress => plan.in_progress(),
            Self::Completed => plan.tasks_in(TaskState::Completed),
            Self::Failed => plan.tasks_in(TaskState::Failed),
            Self::Skipped => plan.tasks_in(TaskState::Skipped),
            Self::Blocked => plan.blocked(),
        }
    }
}

/// Returns the word for the state of a plan.
pub(super) fn plan_word(status: &PlanState) -> &'static str {
    match status {
        PlanState::Abandoned => PlanState::Failed.as_str(),
        status => status.as_str(),
    }
}

/// How much of a task is shown: characters of its name and of each other text, and dependencies.
pub(super) type Room = [usize; 3];
/// In a list of tasks.
pub(super) const LIST: Room = [200, 400, 40];
/// As a single task alongside other data.
pub(super) const ONE: Room = [1000, 2000, 400];
/// As the subject of the question.
pub(super) const WHOLE: Room = [usize::MAX, usize::MAX, 400];

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ManagerTask {
    pub id: i64,
    pub name: String,
    pub status: ManagerTaskStatus,
    pub dependencies: Vec<i64>,
    /// Dependencies after these.
    #[serde(skip_serializing_if = "is_default")]
    pub dependencies_left: usize,
    pub reasoning: String,
    /// The result of a settled task: its result, its last error, or why it was skipped.
    pub result: Option<String>,
}

impl ManagerTask {
    /// Returns a task, with a page of its dependencies.
    pub(super) fn of(plan: &Plan, task: &plan::Task, room: Room, page: Page) -> Self {
        let [name, text, dependencies] = room;
        let dependencies = page.cut(dependencies, &task.dependencies, |task| id(*task));
        let result = task.result.as_ref().filter(|_| task.status.settled());
        Self {
            id: id(task.number),
            name: clip(&task.name, name),
            status: ManagerTaskStatus::of(plan, task),
            dependencies: dependencies.items,
            dependencies_left: dependencies.left,
            reasoning: clip(&task.reasoning, text),
            result: result.map(|result| clip(result, text)),
        }
    }
}

/// A task to be made with the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedTask {
    pub name: String,
    /// Numbers in this list, from 1.
    #[serde(default)]
    pub dependencies: Vec<i64>,
    #[serde(default)]
    pub reasoning: String,
}

/// What changes in a task; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Updates {
    pub name: Option<String>,
    pub dependencies: Option<Vec<i64>>,
    pub reasoning: Option<String>,
}

// The arguments of functions: a doc comment would be a part of a tool's schema.

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct CreatePlan {
    pub goal: String,
    pub tasks: Vec<PlannedTask>,
    /// Only check.
    #[serde(default)]
    pub dry_run: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct CompleteTask {
    pub task_id: i64,
    pub result: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct FailTask {
    pub task_id: i64,
    pub error_message: String,
    #[serde(default = "yes")]
    pub should_retry: bool,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct AddTask {
    pub name: String,
    pub dependencies: Vec<i64>,
    pub reasoning: String,
    pub after_task_id: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct UpdateTask {
    pub task_id: i64,
    pub updates: Updates,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct SkipTask {
    pub task_id: i64,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct GetTaskList {
    pub status_filter: Option<ManagerTaskStatus>,
    #[serde(flatten)]
    pub page: Page,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct GetTaskById {
    pub task_id: i64,
    #[serde(flatten)]
    pub page: Page,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct GetDependencyGraph {
    #[serde(default)]
    pub format: GraphFormat,
    #[serde(flatten)]
    pub page: Page,
}

/// What `createPlan` returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanCreated {
    /// `None` after a dry run.
    pub plan_id: Option<String>,
    /// The plan that was current before and is archived now, or would be.
    pub replaced_plan_id: Option<String>,
    pub total_tasks: usize,
    pub executable_tasks: usize,
    pub message: String,
}

/// The whole plan, or a page of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanDocument {
    pub meta: Meta,
    pub state: ManagerPlanState,
    pub tasks: Vec<ManagerTask>,
    /// Tasks after these.
    #[serde(skip_serializing_if = "is_default")]
    pub left: usize,
}

/// The purpose of a plan, and its times. Times are RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Meta {
    pub goal: String,
    pub created_at: String,
    pub updated_at: String,
}

/// The progress of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ManagerPlanState {
    pub current_task_id: Option<i64>,
    pub status: &'static str,
}

impl ManagerPlanState {
    pub(super) fn of(plan: &Plan) -> Self {
        Self {
            current_task_id: plan.in_progress().next().map(|task| id(task.number)),
            status: plan_word(plan.status()),
        }
    }
}

/// What `startNextTask` returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskStarted {
    pub task: ManagerTask,
    pub message: String,
}

/// What `completeTask`, `skipTask` and `removeTask` return.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskDone {
    pub task_id: i64,
    pub message: String,
}

/// What `failTask` returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskFailed {
    pub task_id: i64,
    pub will_retry: bool,
    /// Failures in a row.
    pub retry_count: u32,
    pub message: String,
}

/// What `addTask` returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskAdded {
    pub new_task: ManagerTask,
    pub message: String,
}

/// What `updateTask` returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ManagerTaskUpdated {
    pub updated_task: ManagerTask,
    pub message: String,
}

/// What `getTaskList` returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskList {
    pub tasks: Vec<ManagerTask>,
    /// Tasks of the plan.
    pub total: usize,
    /// Tasks that pass the filter, shown or not.
    pub filtered: usize,
    /// Tasks after these.
    #[serde(skip_serializing_if = "is_default")]
    pub left: usize,
}

/// What `getPlanStatus` returns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanProgress {
    pub status: &'static str,
    /// The share of completed and skipped tasks, from 0 to 1.
    pub progress: f64,
    pub current_task_id: Option<i64>,
    pub total_tasks: usize,
    pub completed_tasks: usize,
    pub failed_tasks: usize,
    /// Tasks that are not settled.
    pub pending_tasks: usize,
    pub in_progress_tasks: usize,
    pub skipped_tasks: usize,
}

/// What `getTaskById` returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskFound {
    pub task: ManagerTask,
    /// Failures in a row, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<u32>,
    /// The last failure of a task that will be retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// What `getExecutableTaskList` returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExecutableTasks {
    pub executable_tasks: Vec<ManagerTask>,
    /// All of them, shown or not.
    pub count: usize,
    /// Tasks after these.
    #[serde(skip_serializing_if = "is_default")]
    pub left: usize,
}

/// What `pausePlan` and `resumePlan` return.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanSwitched {
    pub message: String,
}

/// What `resetPlan` returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanReset {
    pub message: String,
    pub reset_tasks: usize,
}

/// Returns task numbers as JSON shows them.
pub(super) fn ids<'a>(tasks: impl Iterator<Item = &'a plan::Task>, most: usize) -> Vec<i64> {
    tasks.take(most).map(|task| id(task.number)).collect()
}

pub(super) fn id(task: TaskId) -> i64 {
    task.0.into()
}
