//! What a change did, for people and programs. Events are recorded with the change; the core never reads them.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;

/// The attempt that something went wrong with, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptTrouble {
    pub task: TaskId,
    pub command: CommandId,
    pub reason: String,
}

/// One thing that happened to a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The plan exists, at least as a goal.
    Created { goal: String },
    /// Tasks were made for the goal.
    Planned {
        tasks: usize,
        /// What is wrong with them, as far as that was found.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        problems: Vec<String>,
    },
    /// The plan runs from now on.
    Started,
    /// A role chose how to plan its task.
    StrategyChosen { strategy: String, reason: String },
    /// The model is asked; the call is counted.
    Asking {
        subject: ModelQuestionKind,
        calls: u32,
    },
    /// A command was made for a task.
    Issued {
        task: TaskId,
        attempt: u32,
        command: CommandId,
        kind: AttemptKind,
        /// Whose task it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
    },
    /// A worker has claimed it.
    Claimed {
        task: TaskId,
        command: CommandId,
        /// Whose task it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
    },
    /// A role that works on the task has sent another role a request, and waits for the answer.
    Requested {
        task: TaskId,
        command: CommandId,
        role: String,
        on: String,
        request: CommandId,
        what: String,
    },
    /// The role no longer waits for that request.
    RequestEnded {
        task: TaskId,
        command: CommandId,
        role: String,
        on: String,
        request: CommandId,
        how: RoleRequestEnd,
    },
    /// The model behind its agent fails; the agent retries it at this time (µs since the epoch).
    Waits {
        task: TaskId,
        command: CommandId,
        until: i64,
    },
    /// Its agent is on another machine than the daemon, or on none any more.
    Machine {
        task: TaskId,
        command: CommandId,
        machine: Option<String>,
        was: Option<String>,
    },
    /// A relay could not lay its work out, and left it to others.
    RelayRefused(AttemptTrouble),
    /// The report has arrived.
    Reported {
        task: TaskId,
        command: CommandId,
        status: ReportStatus,
    },
    /// The report cannot be read.
    Rejected(AttemptTrouble),
    /// A file among the reports is ignored because its name contains no known command.
    FileRejected { name: String, reason: String },
    /// A report that no longer counts was kept.
    Stale { task: TaskId, command: CommandId },
    /// The checks ran.
    Checked {
        task: TaskId,
        command: CommandId,
        passed: bool,
        /// The first check that fails.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failing: Option<String>,
        /// The checks that ran, if all pass.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        passing: Vec<String>,
    },
    /// The result was judged.
    Judged {
        task: TaskId,
        command: CommandId,
        decision: Decision,
        reason: String,
    },
    /// The accepted result is on the integration branch.
    Merged {
        task: TaskId,
        command: CommandId,
        commit: String,
    },
    /// A person did this with the results of the plan; `place` is where they are, or what is gone.
    Results { how: ResultsMove, place: String },
    /// The attempt ended without a report.
    TimedOut(AttemptTrouble),
    /// The worktree for the attempt could not be made ready.
    Unprepared(AttemptTrouble),
    /// The command was withdrawn before a worker claimed it, or given back after its worker died.
    Withdrawn { task: TaskId, command: CommandId },
    /// The agent's usage limit ends at this time (µs since the epoch).
    Parked { task: TaskId, until: i64 },
    /// A task was added.
    Added { task: TaskId, name: String },
    /// A task was changed.
    Updated { task: TaskId },
    /// A task was removed.
    Removed { task: TaskId },
    /// A task was started by a tool or a person.
    TaskStarted { task: TaskId },
    /// A task is done.
    Completed {
        task: TaskId,
        #[serde(default)]
        proven: bool,
    },
    /// A task was skipped.
    Skipped { task: TaskId, reason: String },
    /// The work on a task that is done by hand failed; it may be tried again.
    Stumbled { task: TaskId, reason: String },
    /// A task has failed.
    Failed { task: TaskId, reason: String },
    /// A task is to be tried again.
    Reopened { task: TaskId },
    /// A person said something that goes along with the next command of a task.
    Told { task: TaskId, words: String },
    /// A question was asked to a human.
    Asked {
        question: QuestionId,
        task: Option<TaskId>,
        reason: String,
        choices: Vec<AnswerChoice>,
    },
    /// A human answered.
    Answered {
        question: QuestionId,
        choice: AnswerChoice,
        note: String,
        by: String,
    },
    /// A question no longer needs an answer.
    QuestionClosed {
        question: QuestionId,
        reason: String,
    },
    /// The model gave no usable answer.
    ModelFailed {
        subject: ModelQuestionKind,
        error: String,
    },
    /// The rest of the plan must change.
    Replanning { reason: String },
    /// The rest of the plan was changed.
    Replanned {
        added: usize,
        updated: usize,
        skipped: usize,
        reason: String,
    },
    /// The goal was compared with the evidence.
    Audited { met: bool, reason: String },
    /// Nothing new starts.
    Paused { reason: String },
    /// The plan goes on.
    Resumed,
    /// Every task was reset to its initial state.
    Reset,
    /// The plan was restored to its state after an earlier change.
    Restored { seq: i64 },
    /// A daemon of another folder goes on with the plan: that of its own is gone.
    Adopted { from: String, by: String },
    /// A daemon of another folder tried to, and cannot.
    NotAdopted { by: String, reason: String },
    /// It became its owner's current plan.
    TakenUp,
    /// It was archived or deleted.
    PutAway {
        #[serde(rename = "shelf")]
        archive_state: ArchiveState,
    },
    /// The plan has ended.
    Settled { status: String, outcome: String },
}

impl Event {
    /// Says how the checks of an attempt ended.
    pub(super) fn checked(task: TaskId, command: &CommandId, results: &[CheckResult]) -> Self {
        let failing = results.iter().find(|result| !result.passed);
        let names = results.iter().filter(|_| failing.is_none());
        Self::Checked {
            task,
            command: command.clone(),
            passed: failing.is_none(),
            failing: failing.map(|check| check.name.clone()),
            passing: names.map(|check| check.name.clone()).collect(),
        }
    }

    /// Returns the task that the event is about, if it is about one.
    pub fn task(&self) -> Option<TaskId> {
        TaskId::deserialize(&json!(self)["task"]).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_trouble_of_attempt_lies_beside_its_name() {
        for event in ["relay_refused", "rejected", "timed_out", "unprepared"] {
            let stored =
                format!(r#"{{"event":"{event}","task":7,"command":"c-7-1","reason":"why"}}"#);
            let read: Event = serde_json::from_str(&stored).unwrap();
            assert_eq!(read.task(), Some(TaskId(7)));
            assert_eq!(serde_json::to_string(&read).unwrap(), stored);
        }
    }
}
