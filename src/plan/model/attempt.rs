//! Commands for tasks, the reports on them, and the verdicts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::*;
use crate::plan::and_more;

/// What a command asks of the agent's session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptKind {
    /// Begin a session.
    #[default]
    New,
    /// Continue a session.
    Continue,
    /// Only rewrite the report.
    Repair,
}

/// One command for a task, and its outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    pub id: CommandId,
    pub task: TaskId,
    /// Counts the task's attempts from 1; a repair has its attempt's number.
    pub number: u32,
    pub kind: AttemptKind,
    /// The session that the command names; `None` is `auto`.
    pub session: Option<SessionId>,
    /// The whole command file as published.
    pub text: String,
    pub issued: Time,
    /// The person's words that the command has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
    /// When its first heartbeat was observed.
    pub claimed: Option<Time>,
    /// The machine of its agent, if it is not the daemon's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The model of its agent fails; the agent retries it at this time.
    pub waits_until: Option<Time>,
    /// How long a person was asked questions of its requests; no timeout counts this time.
    #[serde(default)]
    pub with_person: Duration,
    /// Commands that a person has allowed its agent, word for word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// The waits between the roles that work on it, in the order of the requests; only while it is open.
    #[serde(default)]
    pub waits: Vec<RoleRequest>,
    /// The start of the timeout for claiming it; a human who chooses to wait moves it.
    pub waiting_since: Time,
    /// Its command must be withdrawn, or its agent asked to stop.
    pub recall: bool,
    /// Unreadable reports so far, including those of the attempts it repairs.
    pub rejections: u32,
    /// The last unreadable report, until a readable one arrives or a repair is requested.
    pub rejected: Option<Rejection>,
    pub report: Option<Report>,
    /// The git snapshot of the workspace at dispatch, if the workspace is a repository.
    pub tree: Option<String>,
    /// Tasks that were under way in the same folder meanwhile.
    #[serde(default)]
    pub beside: Vec<TaskId>,
    /// The changed files; `None` until the workspace was inspected after the report.
    pub changes: Option<ChangedFiles>,
    /// The last commands that its agent ran, by the word of the agent's program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ran: Vec<RanCommand>,
    /// `None` until the checks that apply have run.
    pub checks: Option<Vec<CheckResult>>,
    /// The merge with the other results, where each task has a worktree of its own.
    pub merge: Option<PendingMerge>,
    pub verdict: Option<Verdict>,
    pub state: AttemptState,
}

impl Attempt {
    /// Creates an attempt that was just issued, in a new session and without a text.
    pub fn new(id: CommandId, task: TaskId, number: u32, issued: Time) -> Self {
        Self {
            id,
            task,
            number,
            issued,
            waiting_since: issued,
            ..Self::default()
        }
    }

    /// Returns the other tasks at work in the same folder, if any.
    pub fn company(&self) -> Option<String> {
        let numbers: Vec<String> = self.beside.iter().map(ToString::to_string).collect();
        let numbers = match numbers.as_slice() {
            [] => return None,
            [one] => format!("task {one} was"),
            several => format!("tasks {} were", several.join(", ")),
        };
        Some(format!("{numbers} at work in the same folder"))
    }

    /// Returns what else is to be known of its changes: the other tasks in the same folder, and what was put back.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        let merge = self.merge.iter().map(|merge| merge.put_back.clone());
        let put_back = merge.filter(|put_back| !put_back.is_empty());
        self.company().into_iter().chain(put_back)
    }

    /// Returns the checks that fail on its result.
    pub fn failing(&self) -> impl Iterator<Item = &CheckResult> {
        self.checks.iter().flatten().filter(|check| !check.passed)
    }

    /// Returns its checks that say nothing.
    pub fn silent_checks(&self) -> impl Iterator<Item = &CheckResult> {
        let checks = self.checks.iter().flatten();
        checks.filter(|check| check.says_nothing())
    }

    /// Returns whether its result conflicts with those accepted before.
    pub fn clashed(&self) -> bool {
        self.failing().any(|check| check.name == MERGE_CHECK)
    }
}

/// The state of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// Dispatched; a report is awaited.
    #[default]
    Open,
    /// The report has arrived; checks or a verdict are awaited.
    Reported,
    /// The verdict on its report was decided.
    Judged,
    /// Silent, or over its deadline; a late report may still count.
    TimedOut,
    /// Its report was unreadable, and a repair command asks for it again; a late report may still count.
    Garbled,
    /// Withdrawn before a worker claimed it; a late report may still count.
    Withdrawn,
    /// Another attempt's report counted, or the task ended without it.
    Stopped,
}

impl AttemptState {
    /// Returns whether the attempt still waits for something.
    pub fn open(self) -> bool {
        matches!(self, Self::Open | Self::Reported)
    }

    /// Returns whether a late report may still count.
    pub fn revivable(self) -> bool {
        matches!(self, Self::TimedOut | Self::Garbled | Self::Withdrawn)
    }
}

/// A report that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    pub reason: String,
    /// SHA-256 of the file: the same file is not counted twice.
    pub hash: String,
    pub at: Time,
}

words! {
    /// The three statuses of a report.
    #[derive(Default)]
    pub enum ReportStatus {
        Success = "SUCCESS",
        #[default]
        Failed = "FAILED",
        PartialSuccess = "PARTIAL_SUCCESS",
    }
}

words! {
    /// How a collaboration ended.
    pub enum Collaboration {
        Completed = "completed",
        Error = "error",
        Rejected = "rejected",
    }
}

/// What an agent says about an attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the file, or of the tool call that stands for one.
    pub name: String,
    pub status: ReportStatus,
    pub session: Option<SessionId>,
    /// What was achieved.
    pub results: String,
    pub pitfalls: String,
    pub next_steps: String,
    /// A question to the human; the attempt is then no failure.
    pub question: Option<String>,
    /// The agent's usage limit ends at this time; the attempt is then no failure.
    pub blocked_until: Option<Time>,
    /// The commands that were refused to the agent, word for word, and that a person may allow it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// Whether the worker wrote it for an agent that ended well and left no report: only words say that something is done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub words_only: bool,
    /// How the collaboration ended that the report answers; if left out, the status decides (see [`Self::answer`]).
    pub collaboration: Option<Collaboration>,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: f64,
    /// SHA-256 of the bytes, in hexadecimal.
    pub hash: String,
    pub received: Time,
}

impl Report {
    /// Creates a report that has only a status.
    pub fn new(name: impl Into<String>, status: ReportStatus, received: Time) -> Self {
        Self {
            name: name.into(),
            status,
            received,
            ..Self::default()
        }
    }

    /// Returns how the collaboration ended that the report answers. A part is an answer, too; a role that has a question, or may
    /// not continue for now, has not completed it.
    pub fn answer(&self) -> Collaboration {
        self.collaboration.unwrap_or(match self.status {
            _ if self.question.is_some() || self.blocked_until.is_some() => Collaboration::Error,
            ReportStatus::Success | ReportStatus::PartialSuccess => Collaboration::Completed,
            ReportStatus::Failed => Collaboration::Error,
        })
    }

    /// Returns what its agent used.
    pub fn cost(&self) -> ModelCost {
        ModelCost::new(self.input_tokens, self.output_tokens, self.cost_usd)
    }

    /// Returns the report as one text: the status, then each section that is not empty, and what the agent asked.
    pub fn text(&self) -> String {
        let none = String::new();
        let asked = self.question.as_ref().unwrap_or(&none);
        let sections = [
            ("Core results", &self.results),
            ("Pitfalls", &self.pitfalls),
            ("Next-step suggestions", &self.next_steps),
            ("Question to the person", asked),
        ];
        let said = sections.iter().filter(|(_, section)| !section.is_empty());
        let said = said.map(|(heading, section)| format!("\n## {heading}\n\n{section}\n"));
        let status = format!("status: {}\n", self.status.as_str());
        std::iter::once(status).chain(said).collect()
    }
}

/// The most changed files that are named; the rest is counted.
const MAX_CHANGED: usize = 50;

/// What stands behind the path of a removed file.
const REMOVED: &str = " (removed)";

/// What changed in the workspace during an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangedFiles {
    pub seen: ChangeDetection,
    /// Paths relative to the workspace, up to the limit.
    pub files: Vec<String>,
    /// The number of further files.
    pub more: usize,
}

/// How the changes were detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeDetection {
    /// Not at all: the workspace cannot be read.
    #[default]
    Nothing,
    /// With git; files that it ignores are left out.
    Git,
    /// With scans before and after.
    Listing,
    /// By the times of the files, which do not show removed files.
    Times,
    /// By the times of some of the files only, because the folder has too many files.
    Part,
}

impl ChangedFiles {
    /// Keeps the first paths of all that changed, up to the limit.
    pub fn new(seen: ChangeDetection, mut files: Vec<String>) -> Self {
        let more = files.len().saturating_sub(MAX_CHANGED);
        files.truncate(MAX_CHANGED);
        Self { seen, files, more }
    }

    /// Returns the text for the path of a removed file.
    pub fn removed(path: &str) -> String {
        format!("{path}{REMOVED}")
    }

    /// Returns the paths, also those of removed files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let files = self.files.iter();
        files.map(|path| path.strip_suffix(REMOVED).unwrap_or(path))
    }

    /// Returns the changes on one line, with at most `most` names.
    pub fn text(&self, most: usize) -> String {
        if self.files.is_empty() {
            let none = match self.seen {
                ChangeDetection::Nothing => "which files changed is not known",
                ChangeDetection::Git | ChangeDetection::Listing => "no file changed",
                ChangeDetection::Times => "no file was written; removed ones are not seen",
                ChangeDetection::Part => "no file was written among those that were looked at",
            };
            return none.to_owned();
        }
        let (named, others) = self.files.split_at(self.files.len().min(most));
        let more = and_more(others.len() + self.more);
        format!("changed: {}{more}", named.join(", "))
    }
}

/// How one check ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    pub name: String,
    /// The exit code; `None` when it was killed or could not start.
    pub exit: Option<i32>,
    pub passed: bool,
    /// The end of its output, bounded.
    pub tail: String,
    /// What the check found, in a few words such as `missing`, where it is not a command; else empty.
    #[serde(default)]
    pub finding: String,
    /// The number of tests that ran, as far as its output shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<u32>,
    /// How many milliseconds the command ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// Why it proves nothing though it passes; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub doubt: String,
    /// Test files that the result adds, by their names: with them alone the check fails on the state before the work.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub new_tests: String,
}

impl CheckResult {
    /// Returns that a check has failed, and what was found.
    pub fn failed(name: &str, finding: &str) -> Self {
        Self {
            name: name.to_owned(),
            finding: finding.to_owned(),
            ..Self::default()
        }
    }

    /// Returns whether it passes without having run any test.
    pub fn says_nothing(&self) -> bool {
        self.passed && self.tests == Some(0)
    }

    /// Returns the outcome in a few words.
    pub fn outcome(&self) -> String {
        match self.exit {
            _ if !self.finding.is_empty() => self.finding.clone(),
            Some(code) => format!("exit {code}"),
            None => "did not end by itself".to_owned(),
        }
    }
}

/// The verdict on a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Accepted; the plan goes on.
    Next,
    /// Not accepted; the task is tried again.
    #[default]
    Retry,
    /// The rest of the plan must change.
    Replan,
    /// The goal cannot be reached.
    Abort,
}

/// Who decided a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    #[default]
    Rules,
    Model,
    Person,
}

/// A decision about an attempt, with its reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub decision: Decision,
    pub reason: String,
    /// Feedback for the next attempt.
    pub feedback: String,
    /// The summary of this task for later tasks.
    pub result_summary: String,
    pub by: DecidedBy,
    pub at: Time,
    /// What the judge says of the criteria that nothing proves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<BelievedCriterion>,
    /// The judge itself is not sure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsure: bool,
}

/// An agent's session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSession {
    pub id: SessionId,
    /// The task for which it was opened.
    pub task: TaskId,
    pub opened: Time,
    /// The `end` command, once the session is over.
    pub end: Option<EndCommand>,
}

/// The command that makes an agent forget a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndCommand {
    pub id: CommandId,
    pub text: String,
    /// Its file was published in its folder; an agent may have removed it since, which does not matter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub published: bool,
}
