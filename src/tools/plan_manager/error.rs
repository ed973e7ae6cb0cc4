//! Errors in the words of PlanManager.

use serde::Serialize;
use serde_json::{Value, json};

use super::shape::{Status, plan_word};
use crate::plan::{PlanStatus, Refusal, TaskId};
use crate::store::StoreError;
use crate::tools::ToolError;
use crate::wire::text::clip;

/// Characters of a message, and tasks that the details of an error name.
const MESSAGE: usize = 500;
const NAMED: usize = 500;

/// Why a function did not do what it was asked, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
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
    pub code: ErrorCode,
    pub message: String,
    pub details: Box<Details>,
}

/// What an error speaks of; long lists are cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Details {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<i64>,
    /// The state that the task is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_task_id: Option<i64>,
    /// The dependency that does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependency: Option<i64>,
    /// The way round, with its first task again at the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cycle: Vec<i64>,
    /// Tasks that depend on the task.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependants: Vec<i64>,
    /// Dependencies of the task that are not met.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked_tasks: Vec<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_tasks: Vec<i64>,
    /// The argument that does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument: Option<String>,
}

impl PlanManagerError {
    pub(super) fn new(code: ErrorCode, message: &str, details: Details) -> Self {
        Self {
            code,
            message: sentence(message),
            details: Box::new(details),
        }
    }

    pub(super) fn not_found(task: &dyn std::fmt::Display) -> Self {
        let message = format!("Task with ID {task} not found");
        Self::new(ErrorCode::TaskNotFound, &message, Details::default())
    }

    pub(super) fn argument(name: &str, problem: &str) -> Self {
        let details = Details {
            argument: Some(name.to_owned()),
            ..Details::default()
        };
        let message = format!("`{name}` {problem}");
        Self::new(ErrorCode::InvalidArgument, &message, details)
    }

    pub(super) fn unknown_dependency(dependency: i64) -> Self {
        let details = Details {
            dependency: Some(dependency),
            ..Details::default()
        };
        let message = format!("Dependency {dependency} does not exist");
        Self::new(ErrorCode::InvalidDependency, &message, details)
    }

    pub(super) fn plan_is(status: &PlanStatus) -> Self {
        let word = plan_word(status);
        let code = match status {
            PlanStatus::Running => ErrorCode::InvalidStatus,
            _ => ErrorCode::PlanNotActive,
        };
        let details = Details {
            plan_status: Some(word),
            ..Details::default()
        };
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
        use ErrorCode::{
            CircularDependency, InvalidArgument, InvalidDependency, InvalidStatus, PlanNotActive,
            TaskNotEditable,
        };
        let message = refusal.to_string();
        let mut details = Details::default();
        let code = match refusal {
            Refusal::UnknownTask(task) => return Self::not_found(&task),
            Refusal::PlanIs(status) => return Self::plan_is(&status),
            Refusal::UnknownDependency { dependency, .. } => {
                details.dependency = dependency.parse().ok();
                InvalidDependency
            }
            Refusal::Cycle(cycle) => {
                details.cycle = numbers(&cycle);
                CircularDependency
            }
            Refusal::HasDependants { task, dependants } => {
                details.task_id = Some(task.0.into());
                details.dependants = numbers(&dependants);
                InvalidDependency
            }
            Refusal::NotReady { task, waits_for } => {
                details.task_id = Some(task.0.into());
                details.waits_for = numbers(&waits_for);
                InvalidStatus
            }
            Refusal::NotEditable { task, status } => {
                details.task_id = Some(task.0.into());
                details.status = Some(Status::of_settled(status));
                TaskNotEditable
            }
            Refusal::Busy(task) | Refusal::Asking(task) => {
                details.task_id = Some(task.0.into());
                TaskNotEditable
            }
            Refusal::KeyTaken(_)
            | Refusal::BadKey(_)
            | Refusal::NoName
            | Refusal::BadPath { .. }
            | Refusal::TooManyFiles
            | Refusal::TooMuchMetadata(_)
            | Refusal::NoTasks
            | Refusal::NoNote => InvalidArgument,
            Refusal::Replanning
            | Refusal::UnknownCommand(_)
            | Refusal::NotAwaited(_)
            | Refusal::NotAcceptable
            | Refusal::UnknownQuestion(_)
            | Refusal::QuestionTaken(_)
            | Refusal::AlreadyAnswered { .. }
            | Refusal::QuestionClosed { .. }
            | Refusal::NotOffered { .. }
            | Refusal::UnknownAsk
            | Refusal::Shared
            | Refusal::Outdated
            | Refusal::AsItWas(_)
            | Refusal::Dropped => InvalidStatus,
            Refusal::NotStarted | Refusal::Deleted | Refusal::UsedUp(_) => PlanNotActive,
        };
        Self::new(code, &message, details)
    }
}

impl From<ToolError> for PlanManagerError {
    fn from(error: ToolError) -> Self {
        let message = error.to_string();
        let (code, message) = match error {
            ToolError::Store(StoreError::Refused(refusal)) => return refusal.into(),
            ToolError::Argument(error) => {
                let details = Details {
                    argument: Some(error.path).filter(|path| !path.is_empty()),
                    ..Details::default()
                };
                return Self::new(ErrorCode::InvalidArgument, &message, details);
            }
            ToolError::UnknownTool { .. } => (ErrorCode::InvalidArgument, message),
            ToolError::NoPlan => (
                ErrorCode::PlanNotActive,
                "there is no plan yet; createPlan makes one".to_owned(),
            ),
            ToolError::Bound(_) | ToolError::Store(_) => (ErrorCode::PlanNotActive, message),
        };
        Self::new(code, &message, Details::default())
    }
}

/// Returns task numbers as the details of an error show them; of a longer list the first ones and the last one.
pub(super) fn numbers(tasks: &[TaskId]) -> Vec<i64> {
    let shown = match tasks.split_last() {
        Some((last, rest)) if rest.len() > NAMED => [&rest[..NAMED], &[*last]].concat(),
        _ => tasks.to_vec(),
    };
    shown.into_iter().map(|task| task.0.into()).collect()
}

/// Returns a message that begins with a capital letter and is not too long.
fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(char::to_uppercase);
    let message: String = first.into_iter().flatten().chain(letters).collect();
    clip(&message, MESSAGE)
}
