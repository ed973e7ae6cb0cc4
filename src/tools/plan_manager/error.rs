//! Errors in the words of PlanManager.

use super::ManagerErrorCode::{
    CircularDependency, InvalidArgument, InvalidDependency, TaskNotFound,
};
use super::*;

/// Characters of a message, and tasks that the details of an error name.
const MESSAGE: usize = 500;
const NAMED: usize = 500;

/// Why a function did not do what it was asked, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ManagerErrorCode {
    TaskNotFound,
    InvalidDependency,
    TaskNotEditable,
    CircularDependency,
    InvalidStatus,
    PlanNotActive,
    InvalidArgument,
}

/// Why a function did not do what it was asked. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct PlanManagerError {
    pub code: ManagerErrorCode,
    pub message: String,
    /// The subject of the error, an object: `task_id`, `status` (of the task), `plan_status`, `current_task_id`, `dependency`
    /// (which does not exist), `cycle` (with its first task again at the end), `dependants`, `waits_for`, `blocked_tasks`,
    /// `failed_tasks`, `argument` (its place). Long lists are cut, empty ones are left out.
    pub details: Value,
}

impl PlanManagerError {
    pub(super) fn new(code: ManagerErrorCode, message: &str, mut details: Value) -> Self {
        if let Value::Object(details) = &mut details {
            details.retain(|_, value| !value.is_null() && *value != json!([]));
        }
        Self {
            code,
            message: sentence(message),
            details,
        }
    }

    pub(super) fn not_found(task: &dyn std::fmt::Display) -> Self {
        let message = format!("Task with ID {task} not found");
        Self::new(TaskNotFound, &message, json!({}))
    }

    pub(super) fn argument(name: &str, problem: &str) -> Self {
        let message = format!("`{name}` {problem}");
        Self::new(InvalidArgument, &message, json!({ "argument": name }))
    }

    pub(super) fn unknown_dependency(dependency: i64) -> Self {
        let message = format!("Dependency {dependency} does not exist");
        let details = json!({ "dependency": dependency });
        Self::new(InvalidDependency, &message, details)
    }

    pub(super) fn plan_is(status: &PlanState) -> Self {
        let code = match status {
            PlanState::Running => InvalidStatus,
            _ => PlanNotActive,
        };
        let word = plan_word(status);
        let details = json!({ "plan_status": word });
        Self::new(code, &format!("the plan is {word}"), details)
    }

    /// Returns the envelope of the error.
    pub fn to_json(&self) -> Value {
        json!({
            "success": false,
            "error": { "code": self.code, "message": self.message, "details": self.details },
        })
    }
}

impl From<Refusal> for PlanManagerError {
    fn from(refusal: Refusal) -> Self {
        let (code, details) = match &refusal {
            Refusal::UnknownTask(task) => return Self::not_found(task),
            Refusal::PlanIs(status) => return Self::plan_is(status),
            Refusal::UnknownDependency { dependency, .. } => {
                let dependency: Option<i64> = dependency.parse().ok();
                (InvalidDependency, json!({ "dependency": dependency }))
            }
            Refusal::Cycle(cycle) => (CircularDependency, json!({ "cycle": numbers(cycle) })),
            Refusal::HasDependants { task, dependants } => {
                let details = json!({ "task_id": id(*task), "dependants": numbers(dependants) });
                (InvalidDependency, details)
            }
            Refusal::NotReady { task, waits_for } => {
                let details = json!({ "task_id": id(*task), "waits_for": numbers(waits_for) });
                (InvalidStatus, details)
            }
            Refusal::NotEditable { task, status } => {
                let details = json!({ "task_id": id(*task), "status": status });
                (TaskNotEditable, details)
            }
            Refusal::Busy(task) | Refusal::Asking(task) => {
                (TaskNotEditable, json!({ "task_id": id(*task) }))
            }
            Refusal::KeyTaken(_)
            | Refusal::BadKey(_)
            | Refusal::NoName
            | Refusal::BadPath { .. }
            | Refusal::TooManyFiles
            | Refusal::FewerCriteria(..)
            | Refusal::TooMuchMetadata(_)
            | Refusal::NoTasks
            | Refusal::NoNote => (InvalidArgument, json!({})),
            Refusal::NotStarted | Refusal::Deleted | Refusal::HasResults | Refusal::UsedUp(_) => {
                (PlanNotActive, json!({}))
            }
            // Refusals that only a daemon, its roles and the people who answer it can get.
            _ => (InvalidStatus, json!({})),
        };
        Self::new(code, &refusal.to_string(), details)
    }
}

impl From<ToolError> for PlanManagerError {
    fn from(error: ToolError) -> Self {
        let message = error.to_string();
        let (code, details) = match error {
            ToolError::Store(StoreError::Refused(refusal)) => return refusal.into(),
            ToolError::Argument(error) => {
                let path = Some(error.path).filter(|path| !path.is_empty());
                (InvalidArgument, json!({ "argument": path }))
            }
            ToolError::UnknownTool { .. } => (InvalidArgument, json!({})),
            ToolError::NoPlan => {
                let message = "there is no plan yet; createPlan makes one";
                return Self::new(PlanNotActive, message, json!({}));
            }
            ToolError::Bound(_) | ToolError::Store(_) => (PlanNotActive, json!({})),
        };
        Self::new(code, &message, details)
    }
}

impl From<StoreError> for PlanManagerError {
    fn from(error: StoreError) -> Self {
        ToolError::from(error).into()
    }
}

/// Returns task numbers for the details of an error; of a longer list the first ones and the last one.
pub(super) fn numbers(tasks: &[TaskId]) -> Vec<i64> {
    let shown = match tasks.split_last() {
        Some((last, rest)) if rest.len() > NAMED => [&rest[..NAMED], &[*last]].concat(),
        _ => tasks.to_vec(),
    };
    shown.into_iter().map(id).collect()
}

/// Returns a message that begins with a capital letter and is not too long.
fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(char::to_uppercase);
    let message: String = first.into_iter().flatten().chain(letters).collect();
    clip(&message, MESSAGE)
}
