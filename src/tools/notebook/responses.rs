//! The answers of the notebook's tools: text for the agent, with the data that a program needs alongside it.

use serde_json::json;

use super::*;

/// What a function of the notebook returns.
pub(super) type Result<T, E = NotebookError> = std::result::Result<T, E>;

/// The answer of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolResponse {
    pub content: Vec<TextBlock>,
    pub metadata: Metadata,
}

/// A piece of text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TextBlock {
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub text: String,
}

/// The data of an answer for a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Metadata {
    pub success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<NotebookErrorCode>,
    /// Hooks that failed after the change, with their errors; the change stands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hook_errors: Vec<String>,
    /// Items of a list that are not in the text.
    #[serde(skip_serializing_if = "is_default")]
    pub left: usize,
}

impl ToolResponse {
    /// Answers with a text, and with the kind of the failure if it is one.
    pub(super) fn new(text: impl Into<String>, error_code: Option<NotebookErrorCode>) -> Self {
        let (kind, text) = ("text", text.into());
        let content = vec![TextBlock { kind, text }];
        let metadata = Metadata {
            success: error_code.is_none(),
            error_code,
            ..Metadata::default()
        };
        Self { content, metadata }
    }

    /// Returns the text.
    pub fn text(&self) -> String {
        self.content.iter().map(|block| &*block.text).collect()
    }
}

impl From<ToolResponse> for ToolAnswer {
    fn from(response: ToolResponse) -> Self {
        let mut value = json!({ "result": response.text(), "metadata": response.metadata });
        if response.metadata.left > 0 {
            value["left"] = response.metadata.left.into();
        }
        let success = response.metadata.success;
        Self { success, value }
    }
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum NotebookErrorCode {
    /// There is no current plan.
    NoPlan,
    /// No subtask has this index.
    InvalidIndex,
    /// Not one of the states that are allowed here.
    InvalidState,
    /// Not one of the actions.
    InvalidAction,
    /// An argument that does not fit the tool.
    InvalidArgument,
    /// The action needs a subtask.
    MissingSubtask,
    /// A plan needs at least one subtask.
    NoSubtasks,
    /// More subtasks than are allowed.
    TooManySubtasks,
    /// An earlier subtask is open.
    NotDoneYet,
    /// Another subtask is in progress.
    AlreadyInProgress,
    /// Only a subtask in progress can be finished.
    NotInProgress,
    /// A settled subtask is not changed.
    Settled,
    /// A plan with open subtasks is not done.
    OpenSubtasks,
    /// The history has no such plan.
    UnknownPlan,
    /// Another caller was faster.
    Conflict,
    /// The plan is carried out by a daemon, or its rules forbid it.
    Refused,
    /// The tools are bound to one plan.
    Bound,
    /// No hook has this name.
    UnknownHook,
    /// No tool has this name.
    UnknownTool,
    /// The storage of the history, or the store, failed.
    ConnectionError,
    TimeoutError,
    SerializationError,
    KeyError,
    StoreError,
}

/// Why the notebook did not do what was asked. The plans are as they were before; a program's own storage that fails half-way
/// may have kept a copy of the plan that was to leave.
#[derive(Debug, thiserror::Error)]
pub enum NotebookError {
    /// A rule of the notebook.
    #[error("{text}")]
    Rule {
        code: NotebookErrorCode,
        text: String,
    },
    /// The storage of the history failed.
    #[error("The history cannot be used: {0}")]
    Storage(#[from] StorageError),
    /// The arguments do not fit, no plan exists, or the store or the core refused.
    #[error("{}", message(.0))]
    Tool(#[from] ToolError),
}

impl NotebookErrorCode {
    /// Returns the error of a rule of the notebook.
    pub(super) fn error(self, text: impl Into<String>) -> NotebookError {
        let (code, text) = (self, text.into());
        NotebookError::Rule { code, text }
    }
}

impl NotebookError {
    /// Returns the kind of the failure.
    pub fn code(&self) -> NotebookErrorCode {
        use NotebookErrorCode as Code;
        match self {
            Self::Rule { code, .. } => *code,
            Self::Storage(StorageError::Connection(_)) => Code::ConnectionError,
            Self::Storage(StorageError::Timeout(_)) => Code::TimeoutError,
            Self::Storage(StorageError::Serialization(_)) => Code::SerializationError,
            Self::Storage(StorageError::Key(_)) => Code::KeyError,
            Self::Tool(ToolError::NoPlan) => Code::NoPlan,
            Self::Tool(ToolError::UnknownTool { .. }) => Code::UnknownTool,
            Self::Tool(ToolError::Bound(_)) => Code::Bound,
            Self::Tool(ToolError::Argument(error)) => match error.path.split('[').next() {
                Some("state") => Code::InvalidState,
                Some("action") => Code::InvalidAction,
                Some("subtask_idx") => Code::InvalidIndex,
                _ => Code::InvalidArgument,
            },
            Self::Tool(ToolError::Store(error)) => match error {
                StoreError::Refused(_) => Code::Refused,
                StoreError::PlanTaken(_) => Code::KeyError,
                StoreError::Overtaken(_) => Code::Conflict,
                _ => Code::StoreError,
            },
        }
    }
}

impl From<Refusal> for NotebookError {
    fn from(refusal: Refusal) -> Self {
        Self::Tool(ToolError::Store(refusal.into()))
    }
}

impl From<StoreError> for NotebookError {
    fn from(error: StoreError) -> Self {
        Self::Tool(error.into())
    }
}

/// Returns the text for an error of the tools, in the words of the notebook.
fn message(error: &ToolError) -> String {
    match error {
        ToolError::NoPlan => {
            "There is no plan yet: one must be created first with 'create_plan'.".to_owned()
        }
        ToolError::Argument(error) => match error.path.split(['[', '.']).next() {
            None | Some("") => format!("Invalid arguments: {error}."),
            Some(field) => format!("Invalid {field}: {error}."),
        },
        ToolError::Store(StoreError::Refused(Refusal::PlanIs(status))) => {
            let status = status.as_str();
            format!("That is not possible while a daemon carries the plan out: it is {status}.")
        }
        ToolError::UnknownTool {
            name,
            similar,
            elsewhere,
        } => {
            let meant = match (elsewhere, similar) {
                (Some(dialect), _) => format!(" The dialect '{dialect}' has it."),
                (None, Some(name)) => format!(" Is '{name}' meant?"),
                (None, None) => String::new(),
            };
            format!("There is no tool '{name}'.{meant}")
        }
        error => format!("That is not possible: {error}."),
    }
}
