//! Attempts at tasks, each with its command and all that was learned of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::*;

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
    /// Its agent, with its model, as its heartbeat says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The machine of its agent, if it is not the daemon's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Why relays could not lay its work out, each reason once, as long as no agent has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<String>,
    /// The model of its agent fails; the agent retries it at this time.
    pub waits_until: Option<Time>,
    /// How long its requests waited for a person, or for the end of a usage limit; no timeout counts this time.
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

    /// Returns whether a usage limit ended it, which is no failure, and counts as no attempt of the budget.
    pub fn is_parked(&self) -> bool {
        let report = self.report.as_ref();
        let until = report.and_then(|report| report.blocked_until);
        self.state == AttemptState::Judged && self.verdict.is_none() && until.is_some()
    }

    /// Returns whether its result was accepted.
    pub fn is_accepted(&self) -> bool {
        let verdict = self.verdict.as_ref();
        verdict.is_some_and(|verdict| verdict.decision == Decision::Next)
    }

    /// Returns whether its result conflicts with those accepted before.
    pub fn clashed(&self) -> bool {
        self.failing().any(|check| check.name == MERGE_CHECK)
    }

    /// Returns whether its result conflicts with one that was accepted since it began, or that its agent never saw.
    pub fn was_overtaken(&self, line: &IntegrationBranch) -> bool {
        let mut failing = self.failing();
        let conflicts =
            failing.any(|check| check.name == MERGE_CHECK && check.finding.starts_with(CONFLICT));
        conflicts && self.tree.as_ref() != Some(&line.tip)
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
