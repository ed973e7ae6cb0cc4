//! Commands handed out for tasks, what agents report on them, and what is decided.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{CommandId, MERGE_CHECK, Merge, SessionId, TaskId, Time, Wait};

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
    /// Its agent's model fails, and is asked again then.
    #[serde(default)]
    pub waits_until: Option<Time>,
    /// How long a person was asked meanwhile what had to be known for it: nobody's time-out counts that.
    #[serde(default)]
    pub with_person: Duration,
    /// Which roles wait for others so that it gets on, in the order in which they asked; only while it is open.
    #[serde(default)]
    pub waits: Vec<Wait>,
    /// From when on its not being claimed is counted; a human who waits on moves it.
    pub waiting_since: Time,
    /// Its command is to be taken back, or the agent told to stop.
    pub recall: bool,
    /// Unreadable reports so far, those of the attempts it repairs included.
    pub rejections: u32,
    /// The last unreadable report, until a readable one comes or it is asked for again.
    pub rejected: Option<Rejection>,
    pub report: Option<Report>,
    /// What git knew of the workspace when it was handed out, if it is a repository.
    #[serde(default)]
    pub tree: Option<String>,
    /// Tasks that were under way in the same folder meanwhile.
    #[serde(default)]
    pub beside: Vec<TaskId>,
    /// `None` until somebody has looked after the report came.
    #[serde(default)]
    pub changes: Option<Changes>,
    /// `None` until the checks that apply have run.
    pub checks: Option<Vec<CheckResult>>,
    /// What came of it together with the other results, where each task has a worktree of its own.
    #[serde(default)]
    pub merge: Option<Merge>,
    pub verdict: Option<Verdict>,
    pub state: AttemptState,
}

impl Attempt {
    /// Returns who else was at work in the same folder, if anybody was.
    pub fn company(&self) -> Option<String> {
        let numbers: Vec<String> = self.beside.iter().map(ToString::to_string).collect();
        match numbers.as_slice() {
            [] => None,
            [one] => Some(format!("task {one} was at work in the same folder")),
            several => Some(format!(
                "tasks {} were at work in the same folder",
                several.join(", ")
            )),
        }
    }
}

impl Attempt {
    /// Tells whether its result does not go together with those accepted before.
    pub fn clashed(&self) -> bool {
        let mut checks = self.checks.iter().flatten();
        checks.any(|check| check.name == MERGE_CHECK && !check.passed)
    }
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

/// How a collaboration ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Collaboration {
    Completed,
    Error,
    Rejected,
}

impl Collaboration {
    /// Returns the word used in files and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Error => "error",
            Self::Rejected => "rejected",
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
    /// How the collaboration ended that it answers; the rest says so if left out (see [`Self::answer`]).
    #[serde(default)]
    pub collaboration: Option<Collaboration>,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: f64,
    /// SHA-256 of the bytes, in hexadecimal.
    pub hash: String,
    pub received: Time,
}

impl Report {
    /// Returns how the collaboration ended that it answers. Who has done a part, has a question, or may not go on for now, has
    /// not completed it.
    pub fn answer(&self) -> Collaboration {
        self.collaboration.unwrap_or(match self.status {
            _ if self.question.is_some() || self.blocked_until.is_some() => Collaboration::Error,
            ReportStatus::Success => Collaboration::Completed,
            ReportStatus::PartialSuccess | ReportStatus::Failed => Collaboration::Error,
        })
    }

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

/// Files that changed and are named; the rest is counted.
const MAX_CHANGED: usize = 50;

/// What changed in the workspace during an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Changes {
    pub seen: Seen,
    /// Paths from the workspace, as far as they are named.
    pub files: Vec<String>,
    /// How many more there are.
    pub more: usize,
}

/// How it was found out what changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// Not at all: the workspace cannot be read.
    #[default]
    Nothing,
    /// By what git knows, without what it ignores.
    Git,
    /// By listings before and after.
    Listing,
    /// By the times of the files, which do not tell what was removed.
    Times,
    /// As by the times, and only of some of the files: there are too many.
    Part,
}

impl Changes {
    /// Keeps the first of all paths that changed.
    pub fn new(seen: Seen, mut paths: Vec<String>) -> Self {
        let more = paths.len().saturating_sub(MAX_CHANGED);
        paths.truncate(MAX_CHANGED);
        Self {
            seen,
            files: paths,
            more,
        }
    }

    /// Returns how the path of a file is named that is gone.
    pub fn removed(path: &str) -> String {
        format!("{path} (removed)")
    }

    /// Returns what changed in a line, with so many names at most.
    pub fn text(&self, most: usize) -> String {
        if self.files.is_empty() {
            let none = match self.seen {
                Seen::Nothing => "nobody could look which files changed",
                Seen::Git | Seen::Listing => "no file changed",
                Seen::Times => "no file was written; removed ones are not seen",
                Seen::Part => "no file was written among those that were looked at",
            };
            return none.to_owned();
        }
        let (named, others) = self.files.split_at(self.files.len().min(most));
        let more = match others.len() + self.more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("changed: {}{more}", named.join(", "))
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
    /// What was found, in a few words, where it is no command that ran, such as `missing`; else empty.
    #[serde(default)]
    pub finding: String,
}

impl CheckResult {
    /// Returns how it ended, in a few words.
    pub fn outcome(&self) -> String {
        match self.exit {
            _ if !self.finding.is_empty() => self.finding.clone(),
            Some(code) => format!("exit {code}"),
            None => "did not end by itself".to_owned(),
        }
    }
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
    /// Its file was put into its folder; that it is not there any more is nobody's business.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub published: bool,
}
