//! The rows a plan consists of, in the words of the core; every dialect maps its own words to these.
//! Plain data: no behaviour beyond reading a value, no clock, no file, no text for a person.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps the text as it is; whoever takes it from outside has checked it.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// Names a plan: eight letters, or whatever a caller of the plan tools chose.
    PlanId
}
text_id! {
    /// Names one command and so one attempt: `task-<uuid v7>`, the stem of its file.
    CommandId
}
text_id! {
    /// Names one question to a human: the stem of `question-<id>.md`.
    QuestionId
}
text_id! {
    /// Names an agent's own conversation; opaque to the plan.
    SessionId
}
text_id! {
    /// Names one question to a language model within its plan, such as `judge-task-…` or `replan-2`.
    AskId
}

/// The number of a task within its plan: counted from 1, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub u32);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A moment in plan time: microseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(pub i64);

impl Time {
    /// Returns the moment `span` later; stays at the last moment there is.
    pub fn plus(self, span: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)),
        )
    }

    /// Returns how long after `earlier` this is; nothing if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// Where a plan or a task came from: decides whether text in it may be executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A person wrote it: a plan file, the command line, an edit.
    Person,
    /// A language model or an agent wrote it.
    #[default]
    Model,
}

impl Origin {
    /// Returns the word used in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Model => "model",
        }
    }
}

/// In which order tasks may be started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Any pending task, whoever uses the plan obeys an order of their own (Plan Tool).
    Free,
    /// A task whose dependencies are all completed or skipped (PlanManager, the daemon).
    #[default]
    Dependencies,
    /// One after the other by position (PlanNotebook).
    Sequential,
}

/// The state of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// Made, or only a goal so far; nobody carries it out.
    #[default]
    Idle,
    /// Being carried out.
    Running,
    /// Nothing new starts; the text says why.
    Paused(String),
    /// Every task completed or skipped, and the goal met.
    Completed,
    /// Every task settled, at least one of them failed.
    Failed,
    /// Ended by a person or by a verdict.
    Abandoned,
}

impl PlanStatus {
    /// Returns the core word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Paused(_) => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
        }
    }

    /// Tells whether the plan has ended.
    pub fn settled(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Abandoned)
    }
}

/// The state of a task. *Ready* and *blocked* are computed: see [`super::Plan::ready`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Not started, or to be started again.
    #[default]
    Pending,
    /// An attempt is under way, or its decision is awaited.
    InProgress,
    /// Accepted.
    Completed,
    /// Given up; does not satisfy a dependency.
    Failed,
    /// Left out with a reason; satisfies a dependency.
    Skipped,
}

impl TaskStatus {
    /// Returns the core word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }

    /// Tells whether nothing more happens to the task by itself.
    pub fn settled(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Skipped)
    }

    /// Tells whether what depends on the task may go on.
    pub fn satisfies(self) -> bool {
        matches!(self, Self::Completed | Self::Skipped)
    }
}

/// How long an agent's session lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionScope {
    /// A fresh session for each task, kept for its retries.
    #[default]
    Task,
    /// One session for the whole plan.
    Plan,
}

/// When the verdict `abort` must be confirmed by a human.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmAbort {
    /// When the report says that the task succeeded, wholly or in part.
    #[default]
    Success,
    /// Always.
    Always,
    /// Never: the verdict is carried out.
    Never,
}

/// Under which rules a plan is carried out. Kept in the plan, so that its history explains itself;
/// the daemon brings it up to date from the configuration when it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// Failed attempts of a task in a row before a human is asked (1 and more).
    pub max_attempts: u32,
    /// Replans before a human is asked.
    pub max_replans: u32,
    /// Tasks under way at once (1 and more).
    pub max_parallel: u32,
    /// Silence of a claimed attempt that ends it.
    pub task_timeout: Duration,
    /// Age of a claimed attempt that ends it.
    pub task_deadline: Duration,
    /// When the verdict `abort` is confirmed by a human.
    pub confirm_abort: ConfirmAbort,
    /// How long an agent's session lasts.
    pub session: SessionScope,
    /// Whether a language model plans, judges and replans; rules decide without one.
    pub model: bool,
    /// Whether the goal is audited by the model before the plan is completed.
    pub audit: bool,
    /// Names of the checks that every task must pass, besides its own.
    pub checks: Vec<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            max_replans: 3,
            max_parallel: 1,
            task_timeout: Duration::from_secs(600),
            task_deadline: Duration::from_secs(7200),
            confirm_abort: ConfirmAbort::default(),
            session: SessionScope::default(),
            model: false,
            audit: true,
            checks: Vec::new(),
        }
    }
}

/// What language models and agents have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Calls of the planner's model, counted before they are made.
    pub llm_calls: u64,
    /// Tokens the planner's model read.
    pub llm_input_tokens: u64,
    /// Tokens the planner's model wrote.
    pub llm_output_tokens: u64,
    /// Tokens that agents reported as read.
    pub agent_input_tokens: u64,
    /// Tokens that agents reported as written.
    pub agent_output_tokens: u64,
    /// Money in US dollars that agents reported.
    pub agent_cost_usd: f64,
}

/// An open wish to change the rest of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replan {
    /// The task whose result led to it.
    pub task: Option<TaskId>,
    /// Why, in the words of the verdict, the audit or the human.
    pub why: String,
}

/// Whether a person looks at the plan before it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Review {
    /// Nobody asked for it.
    #[default]
    NotWanted,
    /// A person must approve before anything starts.
    Wanted,
    /// Approved.
    Approved,
}

/// The one row that stands for the plan itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    pub id: PlanId,
    pub name: String,
    /// What the person wants, in the person's words.
    pub goal: String,
    pub description: String,
    pub expected_outcome: String,
    /// What holds for every task.
    pub constraints: String,
    pub origin: Origin,
    /// The plan that this one details, if any.
    pub parent: Option<PlanId>,
    /// Who carries it out: `daemon`, or the dialect of the tool that made it.
    pub owner: String,
    /// Folder in which agents work; absolute; empty when nobody carries the plan out.
    pub workspace: String,
    pub order: Order,
    pub status: PlanStatus,
    pub policy: Policy,
    pub review: Review,
    pub usage: Usage,
    /// Replans begun so far.
    pub replans: u32,
    /// Replans a human allowed beyond the policy.
    pub extra_replans: u32,
    /// The replan that is open; nothing new starts meanwhile.
    pub replan: Option<Replan>,
    /// What the audit of the goal found, once it has passed.
    pub audited: Option<String>,
    /// The summary, once the plan is settled.
    pub outcome: Option<String>,
    /// Moves with every change of the structure (tasks, dependencies), not of states.
    pub revision: u64,
    /// The number that the next new task gets.
    pub next_task: u32,
    pub created_at: Time,
    pub finished_at: Option<Time>,
}

impl Head {
    /// Makes the head of an idle plan that has only a goal.
    pub fn new(id: PlanId, goal: &str, now: Time) -> Self {
        Self {
            id,
            name: goal
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(80)
                .collect(),
            goal: goal.to_owned(),
            description: String::new(),
            expected_outcome: String::new(),
            constraints: String::new(),
            origin: Origin::Person,
            parent: None,
            owner: super::DAEMON.to_owned(),
            workspace: String::new(),
            order: Order::default(),
            status: PlanStatus::Idle,
            policy: Policy::default(),
            review: Review::default(),
            usage: Usage::default(),
            replans: 0,
            extra_replans: 0,
            replan: None,
            audited: None,
            outcome: None,
            revision: 0,
            next_task: 1,
            created_at: now,
            finished_at: None,
        }
    }
}

/// One task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub number: TaskId,
    /// The caller's own id of the task; the number as text unless the caller chose one.
    pub key: String,
    /// Sorts the tasks; gaps between neighbours leave room for more.
    pub position: i64,
    /// The phase it belongs to, if any.
    pub step: Option<String>,
    pub name: String,
    pub description: String,
    pub constraints: String,
    pub expected_outcome: String,
    pub reasoning: String,
    /// The role that is to do it; anybody if empty.
    pub assignee: Option<String>,
    pub optional: bool,
    pub dependencies: Vec<TaskId>,
    /// Names of its own checks.
    pub checks: Vec<String>,
    pub origin: Origin,
    pub status: TaskStatus,
    /// What came of it, or why it was skipped or failed.
    pub result: Option<String>,
    /// What was checked before it was accepted; `None` until it is.
    pub evidence: Option<Evidence>,
    /// The attempt that counts now.
    pub current: Option<CommandId>,
    /// Attempts made so far.
    pub attempts: u32,
    /// Failed attempts in a row.
    pub failures: u32,
    /// A human's or the judge's words for the next command.
    pub note: Option<String>,
    /// Nothing is started before this moment (an agent's usage limit).
    pub not_before: Option<Time>,
    /// Taken out of the plan; kept for the history.
    pub removed: bool,
    pub created_at: Time,
    pub started_at: Option<Time>,
    pub finished_at: Option<Time>,
}

/// What stands behind an accepted task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Whether at least one check ran and none failed.
    pub verified: bool,
    /// One line each, such as `test: exit 0`.
    pub facts: Vec<String>,
}

/// What a command asks of the agent's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Begin a session.
    New,
    /// Go on in a session.
    Continue,
    /// Only write the report again.
    Repair,
}

/// One command handed out for a task, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    pub id: CommandId,
    pub task: TaskId,
    /// Counts the task's attempts from 1; a repair has its attempt's number.
    pub number: u32,
    pub kind: Kind,
    /// The session that the command names; `None` is `auto`.
    pub session: Option<SessionId>,
    /// The whole command file as published.
    pub text: String,
    pub issued: Time,
    /// When a sign of life was first seen.
    pub claimed: Option<Time>,
    /// From when on its not being claimed is counted; a human who waits on moves it.
    pub waiting_since: Time,
    /// Its command is to be taken back, or the agent told to stop.
    pub recall: bool,
    /// Unreadable reports so far, those of the attempts it repairs included.
    pub rejections: u32,
    /// The last unreadable report, until a readable one comes or it is asked for again.
    pub rejected: Option<Rejection>,
    pub report: Option<Report>,
    /// `None` until the checks that apply have run.
    pub checks: Option<Vec<CheckResult>>,
    pub verdict: Option<Verdict>,
    pub state: AttemptState,
}

/// Where an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// Handed out; a report is awaited.
    Open,
    /// The report is here; checks or a decision are awaited.
    Reported,
    /// Decided on its report.
    Judged,
    /// Silent or too long; a late report may still count.
    TimedOut,
    /// Its report was unreadable and is asked for again by a repair command; a late report may still count.
    Garbled,
    /// Taken back before anybody took it; a late report may still count.
    Withdrawn,
    /// Another attempt's report counted, or the task ended without it.
    Stopped,
}

impl AttemptState {
    /// Tells whether the attempt still waits for something.
    pub fn open(self) -> bool {
        matches!(self, Self::Open | Self::Reported)
    }

    /// Tells whether a report that comes only now may still be taken.
    pub fn revivable(self) -> bool {
        matches!(self, Self::TimedOut | Self::Garbled | Self::Withdrawn)
    }
}

/// A report that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    pub reason: String,
    /// SHA-256 of the file, so that one seen again is not counted again.
    pub hash: String,
    pub at: Time,
}

/// The three words of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ReportStatus {
    Success,
    Failed,
    PartialSuccess,
}

impl ReportStatus {
    /// Returns the word used in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::Failed => "FAILED",
            Self::PartialSuccess => "PARTIAL_SUCCESS",
        }
    }
}

/// What an agent says about an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the file, or of the tool call that stands for one.
    pub name: String,
    pub status: ReportStatus,
    pub session: Option<SessionId>,
    /// What was achieved.
    pub results: String,
    pub pitfalls: String,
    pub next_steps: String,
    /// A question to the human; the attempt is no failure then.
    pub question: Option<String>,
    /// The agent's usage limit ends then; the attempt is no failure then.
    pub blocked_until: Option<Time>,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: f64,
    /// SHA-256 of the bytes, in hexadecimal.
    pub hash: String,
    pub received: Time,
}

impl Report {
    /// Returns what it says as one text: the status, then each section that is not empty.
    pub fn text(&self) -> String {
        let sections = [
            ("Core results", &self.results),
            ("Pitfalls", &self.pitfalls),
            ("Next-step suggestions", &self.next_steps),
        ];
        let said = sections.iter().filter(|(_, section)| !section.is_empty());
        let said = said.map(|(heading, section)| format!("\n## {heading}\n\n{section}\n"));
        let status = format!("status: {}\n", self.status.as_str());
        std::iter::once(status).chain(said).collect()
    }
}

/// How one check ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    pub name: String,
    /// The exit code; `None` when it was killed or could not start.
    pub exit: Option<i32>,
    pub passed: bool,
    /// The end of its output, bounded.
    pub tail: String,
}

/// What follows from a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Accepted; go on.
    Next,
    /// Not accepted; once more.
    Retry,
    /// The rest of the plan must change.
    Replan,
    /// The goal cannot be reached.
    Abort,
}

impl Decision {
    /// Returns the word used in prompts and files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Next => "next",
            Self::Retry => "retry",
            Self::Replan => "replan",
            Self::Abort => "abort",
        }
    }
}

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    Rules,
    Model,
    Person,
}

impl By {
    /// Returns the word shown to a person.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rules => "rules",
            Self::Model => "model",
            Self::Person => "person",
        }
    }
}

/// A decision about an attempt, with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub decision: Decision,
    pub reason: String,
    /// What the next attempt is told.
    pub feedback: String,
    /// What later tasks are told of this one.
    pub result_summary: String,
    pub by: By,
    pub at: Time,
}

/// What a human may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Go ahead with the plan as shown.
    Approve,
    /// Take the result as it is.
    Accept,
    /// Try once more; the note goes along.
    Retry,
    /// Leave the task out.
    Skip,
    /// Change the rest of the plan; the note says how.
    Replan,
    /// Keep waiting.
    Wait,
    /// The note answers the agent's question.
    Reply,
    /// End the plan.
    Abort,
}

impl Choice {
    /// Every choice, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Approve,
        Self::Accept,
        Self::Retry,
        Self::Skip,
        Self::Replan,
        Self::Wait,
        Self::Reply,
        Self::Abort,
    ];

    /// Returns the word that a person types.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Accept => "accept",
            Self::Retry => "retry",
            Self::Skip => "skip",
            Self::Replan => "replan",
            Self::Wait => "wait",
            Self::Reply => "reply",
            Self::Abort => "abort",
        }
    }

    /// Returns the choice with this word, in any case.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|choice| choice.as_str().eq_ignore_ascii_case(word.trim()))
    }
}

/// What a question to a human is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// The plan is to be approved before it starts.
    Review,
    /// A task failed as often as the policy allows.
    Failures,
    /// Nobody takes the command.
    Unclaimed,
    /// The judge wants to end the plan.
    Abort,
    /// The plan was changed as often as the policy allows.
    Replans,
    /// The agent asks.
    Agent,
    /// The language model did not answer usably.
    Model,
    /// Nothing can start any more.
    Stuck,
}

/// A question to a human. It is open until it has an answer or is closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub id: QuestionId,
    pub about: About,
    pub task: Option<TaskId>,
    /// The model question that failed, for [`About::Model`].
    pub ask: Option<AskId>,
    /// What happened and what is asked.
    pub reason: String,
    pub choices: Vec<Choice>,
    pub asked: Time,
    pub answer: Option<Answer>,
    /// Why it needs no answer any more.
    pub closed: Option<String>,
}

impl Question {
    /// Tells whether an answer is still awaited.
    pub fn open(&self) -> bool {
        self.answer.is_none() && self.closed.is_none()
    }
}

/// A human's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub choice: Choice,
    pub note: String,
    /// Where it came from: `terminal`, `command line`, `file`.
    pub by: String,
    pub at: Time,
}

/// An agent's session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    /// The task it was opened for.
    pub task: TaskId,
    pub opened: Time,
    /// The `end` command, once the session is over.
    pub end: Option<EndCommand>,
}

/// The command that tells an agent to forget a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndCommand {
    pub id: CommandId,
    pub text: String,
}

/// What a language model is asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    Plan,
    Judge(CommandId),
    Replan,
    Audit,
    Summary,
}

/// One question to a language model. Its answer is committed in the same change as its effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    pub id: AskId,
    pub subject: Subject,
    pub asked: Time,
    /// Calls begun for it; each is counted before it is made.
    pub calls: u32,
    /// Why it failed for good, until a human wants it asked again.
    pub error: Option<String>,
    /// The answer as it came, once it has taken effect.
    pub answer: Option<String>,
    pub answered: Option<Time>,
    pub input_tokens: u64,
    pub output_tokens: u64,
}

/// Points at a task, from outside the core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskRef {
    /// A task of the plan by its number.
    Number(TaskId),
    /// A task of the plan, or of the same list of new ones, by the caller's key.
    Key(String),
    /// A task of the same list of new ones, counted from 0.
    New(usize),
}

/// A task to be added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewTask {
    /// The caller's own id, unique in the plan; the number as text if left out.
    pub key: Option<String>,
    pub step: Option<String>,
    pub name: String,
    pub description: String,
    pub constraints: String,
    pub expected_outcome: String,
    pub reasoning: String,
    pub assignee: Option<String>,
    pub optional: bool,
    pub dependencies: Vec<TaskRef>,
    pub checks: Vec<String>,
    pub origin: Origin,
    /// Already done when the plan begins.
    pub done: bool,
}

/// What changes in a task that has not been started; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskChanges {
    pub name: Option<String>,
    pub description: Option<String>,
    pub constraints: Option<String>,
    pub expected_outcome: Option<String>,
    pub reasoning: Option<String>,
    pub assignee: Option<Option<String>>,
    pub dependencies: Option<Vec<TaskRef>>,
}

/// One step of a replan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Adds a task; [`TaskRef::New`] counts the added tasks of the same list of edits.
    Add(Box<NewTask>),
    /// Changes a task that has not been started.
    Update(TaskId, Box<TaskChanges>),
    /// Leaves a task out that is not finished, with the reason.
    Skip(TaskId, String),
}
