//! Plans and subtasks as in the notebook's document, and how they are read from the core.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Deserializer;

use super::*;

/// The word for the state of a plan or a subtask: not begun; begun, as at most one subtask is; finished with an outcome; given
/// up or left out.
// Documented variants would make the schema longer than a list of words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubTaskState {
    #[default]
    Todo,
    InProgress,
    Done,
    Abandoned,
}

impl SubTaskState {
    /// Returns whether this state is final.
    pub fn settled(self) -> bool {
        matches!(self, Self::Done | Self::Abandoned)
    }

    /// Returns the word for a state of the core.
    pub(super) fn of_task(status: TaskState) -> Self {
        match status {
            TaskState::Pending => Self::Todo,
            TaskState::InProgress => Self::InProgress,
            TaskState::Completed => Self::Done,
            TaskState::Failed | TaskState::Skipped => Self::Abandoned,
        }
    }

    /// Returns the core's state for the word.
    pub(super) fn task_status(self) -> TaskState {
        match self {
            Self::Todo => TaskState::Pending,
            Self::InProgress => TaskState::InProgress,
            Self::Done => TaskState::Completed,
            Self::Abandoned => TaskState::Skipped,
        }
    }

    /// Returns the word for the state of a plan. The notebook's own plan is open until it is finished, even if its subtasks are
    /// settled and other dialects see it ended.
    pub(super) fn of_plan(head: &PlanHead) -> Self {
        match head.status {
            PlanState::Idle => Self::Todo,
            _ if open(head) => Self::InProgress,
            _ => Self::of_status(&head.status),
        }
    }

    /// Returns the word for the core's state of a plan.
    pub(super) fn of_status(status: &PlanState) -> Self {
        match status {
            PlanState::Idle => Self::Todo,
            PlanState::Running | PlanState::Paused(_) => Self::InProgress,
            PlanState::Completed => Self::Done,
            PlanState::Failed | PlanState::Abandoned => Self::Abandoned,
        }
    }

    /// Returns a plan's state for the word.
    pub(super) fn plan_status(self) -> PlanState {
        match self {
            Self::Todo => PlanState::Idle,
            Self::InProgress => PlanState::Running,
            Self::Done => PlanState::Completed,
            Self::Abandoned => PlanState::Abandoned,
        }
    }
}

impl fmt::Display for SubTaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&word(self))
    }
}

/// How a plan ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanEnd {
    Done,
    Abandoned,
}

impl PlanEnd {
    /// Returns the state of a plan that ended so.
    pub fn state(self) -> SubTaskState {
        match self {
            Self::Done => SubTaskState::Done,
            Self::Abandoned => SubTaskState::Abandoned,
        }
    }
}

/// One step of a plan. Moments are local time, `YYYY-MM-DD HH:MM:SS.mmm`.
///
/// ```
/// use plan_agent::tools::notebook::{SubTaskState, SubTask};
///
/// let mut subtask = SubTask::new("Read", "Read the report", "A list of its claims");
/// assert_eq!(subtask.to_oneline_markdown(), "- [] Read");
/// subtask.finish("three claims");
/// assert_eq!(subtask.state, SubTaskState::Done);
/// assert_eq!(subtask.to_oneline_markdown(), "- [x] Read");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
// What tools take: a state that is loaded may say more.
#[schemars(description = "A subtask as it is given to a tool.")]
#[schemars(deny_unknown_fields)]
pub struct SubTask {
    /// At most ten words.
    pub name: String,
    /// Specific and measurable.
    pub description: String,
    pub expected_outcome: String,
    pub outcome: Option<String>,
    #[serde(default)]
    pub state: SubTaskState,
    /// Local time.
    #[serde(default = "now_text", deserialize_with = "or_now")]
    #[schemars(with = "Option<String>", extend("default" = null))]
    pub created_at: String,
    pub finished_at: Option<String>,
}

impl SubTask {
    /// Makes a subtask that is to be done.
    pub fn new(name: &str, description: &str, expected_outcome: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            expected_outcome: expected_outcome.to_owned(),
            created_at: now_text(),
            ..Self::default()
        }
    }

    /// Returns the subtask as a tool gets it: if it is done already, it was finished now at the latest.
    pub(super) fn given(mut self) -> Self {
        if self.state == SubTaskState::Done {
            self.finished_at = self.finished_at.or_else(|| Some(now_text()));
        }
        self
    }

    /// Returns the subtask's texts.
    pub(super) fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let (about, wanted) = (&mut self.description, &mut self.expected_outcome);
        let texts = [&mut self.name, about, wanted].into_iter();
        texts.chain(&mut self.outcome)
    }

    /// Marks the subtask as done, now.
    pub fn finish(&mut self, outcome: &str) {
        self.state = SubTaskState::Done;
        self.outcome = Some(outcome.to_owned());
        self.finished_at = Some(now_text());
    }

    pub(super) fn of(task: &Task) -> Self {
        Self {
            name: task.name.clone(),
            description: task.description.clone(),
            expected_outcome: task.criteria.text(),
            outcome: task.result.clone(),
            state: SubTaskState::of_task(task.status),
            created_at: time_text(task.created_at),
            finished_at: task.finished_at.map(time_text),
        }
    }
}

/// A plan: its subtasks in their order. Moments are local time, `YYYY-MM-DD HH:MM:SS.mmm`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotebookPlan {
    pub id: String,
    pub name: String,
    pub description: String,
    pub expected_outcome: String,
    pub subtasks: Vec<SubTask>,
    #[serde(default = "now_text")]
    pub created_at: String,
    #[serde(default)]
    pub state: SubTaskState,
    pub finished_at: Option<String>,
    pub outcome: Option<String>,
}

impl NotebookPlan {
    /// Makes a plan with a new id.
    pub fn new(name: &str, description: &str, expected: &str, subtasks: Vec<SubTask>) -> Self {
        Self {
            id: new_plan_id().to_string(),
            name: name.to_owned(),
            description: description.to_owned(),
            expected_outcome: expected.to_owned(),
            subtasks,
            created_at: now_text(),
            ..Self::default()
        }
    }

    /// Returns the plan's texts, and those of its subtasks.
    pub(super) fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let (about, wanted) = (&mut self.description, &mut self.expected_outcome);
        let texts = [&mut self.name, about, wanted].into_iter();
        let subtasks = self.subtasks.iter_mut().flat_map(SubTask::texts);
        texts.chain(&mut self.outcome).chain(subtasks)
    }

    /// Ends the plan, now.
    pub fn finish(&mut self, state: PlanEnd, outcome: &str) {
        self.state = state.state();
        self.outcome = Some(outcome.to_owned());
        self.finished_at = Some(now_text());
    }

    pub(super) fn of(plan: &Plan) -> Self {
        let mut notebook = Self::without_subtasks(plan.head());
        notebook.subtasks = plan.tasks().map(SubTask::of).collect();
        notebook
    }

    /// Returns a plan without its subtasks.
    pub(super) fn without_subtasks(head: &PlanHead) -> Self {
        let open = open(head);
        Self {
            id: head.key().to_owned(),
            name: head.name.clone(),
            description: head.description.clone(),
            expected_outcome: head.expected_outcome.clone(),
            subtasks: Vec::new(),
            created_at: time_text(head.created_at),
            state: SubTaskState::of_plan(head),
            finished_at: head.finished_at.filter(|_| !open).map(time_text),
            outcome: head.outcome.clone().filter(|_| !open),
        }
    }
}

/// Returns whether a plan is one of the notebook's that is neither finished nor archived.
fn open(head: &PlanHead) -> bool {
    head.owner == Dialect::Notebook.as_str()
        && head.archive_state == ArchiveState::Current
        && head.status != PlanState::Abandoned
        && !finished(head)
}

/// Returns a moment in local time.
pub(super) fn time_text(time: Time) -> String {
    let moment = Timestamp::from_microsecond(time.0).unwrap_or_default();
    let local = moment.to_zoned(TimeZone::system());
    local.strftime("%Y-%m-%d %H:%M:%S.%3f").to_string()
}

/// Returns the moment of a text in local time.
pub(super) fn parse_time(text: &str) -> Option<Time> {
    let civil = DateTime::strptime("%Y-%m-%d %H:%M:%S%.f", text.trim()).ok()?;
    let zoned = civil.to_zoned(TimeZone::system()).ok()?;
    Some(Time(zoned.timestamp().as_microsecond()))
}

fn or_now<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(from)?.unwrap_or_else(now_text))
}

pub(super) fn now_text() -> String {
    time_text(Time(Timestamp::now().as_microsecond()))
}
