//! What a change did, as a person or a program wants to be told. Recorded with the change; never read back by the core.

use serde::{Deserialize, Serialize};

use super::model::{
    Choice, CommandId, Decision, Kind, QuestionId, ReportStatus, Shelf, Subject, TaskId, WaitEnd,
};

/// One thing that happened to a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The plan exists, at least as a goal.
    Created { goal: String },
    /// Tasks were made for the goal.
    Planned { tasks: usize },
    /// The plan is carried out from now on.
    Started,
    /// A role chose how to plan its task.
    StrategyChosen { strategy: String, reason: String },
    /// The model is asked; the call is counted.
    Asking { subject: Subject, calls: u32 },
    /// A command was made for a task.
    Issued {
        task: TaskId,
        attempt: u32,
        command: CommandId,
        kind: Kind,
        /// Whose task it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
    },
    /// Somebody works on it.
    Claimed {
        task: TaskId,
        command: CommandId,
        /// Whose task it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
    },
    /// A role that works on it has asked another one for something, and waits.
    Requested {
        task: TaskId,
        command: CommandId,
        role: String,
        on: String,
        request: CommandId,
        what: String,
    },
    /// It does not wait for that any more.
    RequestEnded {
        task: TaskId,
        command: CommandId,
        role: String,
        on: String,
        request: CommandId,
        how: WaitEnd,
    },
    /// The model behind its agent fails, and is asked again at this moment (µs since the epoch).
    Waits {
        task: TaskId,
        command: CommandId,
        until: i64,
    },
    /// The report is here.
    Reported {
        task: TaskId,
        command: CommandId,
        status: ReportStatus,
    },
    /// The report cannot be read.
    Rejected {
        task: TaskId,
        command: CommandId,
        reason: String,
    },
    /// A file among the reports is not read, and its name says no command that it is for.
    FileRejected { name: String, reason: String },
    /// A report that counts no more was kept.
    Stale { task: TaskId, command: CommandId },
    /// The checks ran.
    Checked {
        task: TaskId,
        command: CommandId,
        passed: bool,
    },
    /// The result was judged.
    Judged {
        task: TaskId,
        command: CommandId,
        decision: Decision,
        reason: String,
    },
    /// The accepted result is on the branch of the plan's results.
    Merged {
        task: TaskId,
        command: CommandId,
        commit: String,
    },
    /// The attempt ended without a report.
    TimedOut {
        task: TaskId,
        command: CommandId,
        reason: String,
    },
    /// The command was taken back before anybody took it.
    Withdrawn { task: TaskId, command: CommandId },
    /// The agent's usage limit ends at this moment (µs since the epoch).
    Parked { task: TaskId, until: i64 },
    /// A task was added.
    Added { task: TaskId, name: String },
    /// A task was changed.
    Updated { task: TaskId },
    /// A task was taken out.
    Removed { task: TaskId },
    /// A task was started by a tool or a person.
    TaskStarted { task: TaskId },
    /// A task is done.
    Completed { task: TaskId, verified: bool },
    /// A task is left out.
    Skipped { task: TaskId, reason: String },
    /// Who did a task by hand failed, and it may be tried again.
    Stumbled { task: TaskId, reason: String },
    /// A task is given up.
    Failed { task: TaskId, reason: String },
    /// A failed task is to be tried again.
    Reopened { task: TaskId },
    /// A human is asked.
    Asked {
        question: QuestionId,
        task: Option<TaskId>,
        reason: String,
        choices: Vec<Choice>,
    },
    /// A human answered.
    Answered {
        question: QuestionId,
        choice: Choice,
        note: String,
        by: String,
    },
    /// A question needs no answer any more.
    QuestionClosed {
        question: QuestionId,
        reason: String,
    },
    /// The model did not answer usably.
    ModelFailed { subject: Subject, error: String },
    /// The rest of the plan is to change.
    Replanning { reason: String },
    /// The rest of the plan was changed.
    Replanned {
        added: usize,
        updated: usize,
        skipped: usize,
        reason: String,
    },
    /// The goal was held against the evidence.
    Audited { met: bool, reason: String },
    /// Nothing new starts.
    Paused { reason: String },
    /// It goes on.
    Resumed,
    /// Every task is as at the beginning.
    Reset,
    /// It is again as it was after an earlier change.
    Restored { seq: i64 },
    /// It became its owner's current plan.
    TakenUp,
    /// It was put into the history, or deleted.
    PutAway { shelf: Shelf },
    /// The plan has ended.
    Settled { status: String, outcome: String },
}

impl Event {
    /// Returns the task that it happened to, if it happened to one.
    pub fn task(&self) -> Option<TaskId> {
        match self {
            Self::Issued { task, .. }
            | Self::Claimed { task, .. }
            | Self::Requested { task, .. }
            | Self::RequestEnded { task, .. }
            | Self::Waits { task, .. }
            | Self::Reported { task, .. }
            | Self::Rejected { task, .. }
            | Self::Stale { task, .. }
            | Self::Checked { task, .. }
            | Self::Judged { task, .. }
            | Self::Merged { task, .. }
            | Self::TimedOut { task, .. }
            | Self::Withdrawn { task, .. }
            | Self::Parked { task, .. }
            | Self::Added { task, .. }
            | Self::Updated { task }
            | Self::Removed { task }
            | Self::TaskStarted { task }
            | Self::Completed { task, .. }
            | Self::Skipped { task, .. }
            | Self::Stumbled { task, .. }
            | Self::Failed { task, .. }
            | Self::Reopened { task } => Some(*task),
            Self::Asked { task, .. } => *task,
            Self::Created { .. }
            | Self::Planned { .. }
            | Self::Started
            | Self::StrategyChosen { .. }
            | Self::Asking { .. }
            | Self::FileRejected { .. }
            | Self::Answered { .. }
            | Self::QuestionClosed { .. }
            | Self::ModelFailed { .. }
            | Self::Replanning { .. }
            | Self::Replanned { .. }
            | Self::Audited { .. }
            | Self::Paused { .. }
            | Self::Resumed
            | Self::Reset
            | Self::Restored { .. }
            | Self::TakenUp
            | Self::PutAway { .. }
            | Self::Settled { .. } => None,
        }
    }
}
