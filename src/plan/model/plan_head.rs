//! The plan itself: its state and the rules for carrying it out.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::*;
use crate::plan::{DayGrant, is_default};

/// Characters of a goal's first line that are the name of its plan.
const NAME: usize = 80;

words! {
    /// Where a plan or a task came from: decides whether text in it may be executed.
    #[derive(Default)]
    pub enum Origin {
        /// A person wrote it (in a plan file, on the command line), and its text has not been changed by a tool or a model since.
        Person = "person",
        /// A language model or an agent wrote it.
        #[default]
        Model = "model",
    }
}

/// An open request to change the rest of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplanRequest {
    /// The task whose result led to it.
    pub task: Option<TaskId>,
    /// The reason, in the words of the verdict, the audit or the human.
    pub why: String,
}

/// A file among the reports that was not read, because it belongs to no command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrayFile {
    pub name: String,
    pub reason: String,
    pub at: Time,
}

words! {
    /// The archive state of a plan that is used through tools.
    #[derive(Default, PartialOrd, Ord, Hash)]
    pub enum ArchiveState {
        /// In use: an owner's current plan is the one that was resumed last.
        #[default]
        Current = "current",
        /// Archived; it can be resumed.
        History = "history",
        /// Deleted by a caller: it cannot be found by its key, and only its log remains.
        Deleted = "deleted",
    }
}

/// What the archive lists of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedEntry {
    pub name: String,
    pub description: String,
    pub status: PlanState,
}

impl ArchivedEntry {
    pub(in crate::plan) fn of(head: &PlanHead) -> Self {
        Self {
            name: head.name.clone(),
            description: head.description.clone(),
            status: head.status.clone(),
        }
    }
}

/// A step of a plan's structure that has no tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyStep {
    pub step_id: String,
    pub name: String,
    /// The number of tasks before it.
    pub after: usize,
}

/// Completed tasks with checks that said nothing, as no test ran. They run again when later tasks are done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SilentChecks {
    pub tasks: Vec<TaskId>,
    /// The tasks that were completed since these checks ran last.
    pub later: u32,
}

impl SilentChecks {
    /// Returns whether no check of a completed task said nothing.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}

/// What is known of the checks of completed tasks on the state that all tasks have left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalChecks {
    /// When the last task was completed before they ran.
    pub after: Time,
    /// The tasks that were opened again because a check failed then.
    pub reopened: Vec<TaskId>,
}

/// A change that was made under its caller's key, with its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeChange {
    /// The caller's key, or its hash; the plan and the step of a role.
    pub key: String,
    /// The hash of what was asked.
    pub content: String,
    pub seq: i64,
    /// What was said of it.
    pub said: String,
}

/// The one row that stands for the plan itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanHead {
    pub id: PlanId,
    /// The name by which callers of tools know it, unless that is `id`; unique among the plans that are not deleted.
    pub key: Option<String>,
    pub name: String,
    /// The goal in the person's words.
    pub goal: String,
    pub description: String,
    pub expected_outcome: String,
    /// Constraints for every task.
    pub constraints: String,
    /// The language of its files; `None` in plans of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    pub origin: Origin,
    /// The template from which it was made, if any.
    pub source: Option<String>,
    /// The plan whose task this one details, if any.
    pub parent: Option<PlanId>,
    /// Who carries it out: `daemon`, or the dialect of the tool that made it.
    pub owner: String,
    #[serde(default, rename = "shelf")]
    pub archive_state: ArchiveState,
    /// When a caller last made it the current plan.
    pub taken_up: Option<Time>,
    /// The plan's entry when it was last archived, if ever; the log has the whole plan, at its last `PutAway`.
    pub put_away: Option<Box<ArchivedEntry>>,
    /// The folder in which agents work; absolute; empty when no daemon carries the plan out.
    pub workspace: String,
    /// Whether each task gets a worktree of its own, decided before the plan begins; `None` until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolated: Option<bool>,
    /// The branch that was checked out when it was queued: it begins there, whatever is checked out by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Box<str>>,
    /// The integration branch when each task has a worktree of its own; `None` when all tasks share the workspace.
    pub line: Option<IntegrationBranch>,
    /// What a person did with the results last; `None` since something was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<ResultsMove>,
    /// The repository of the workspace when the plan began; `None` if it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<Box<Repository>>,
    /// What a person carries it out with; `None` for nothing but what the configuration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Box<RunOptions>>,
    /// The folder with whose commands and reports it is carried out, and its machine, where several share the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// The exchange folder that it was made in, or went on in last; absolute. Where it is another one now, its project was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_in: Option<String>,
    /// The id of its project, by which daemons of other folders find their own clone of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Set where any daemon of the folder is to carry it out, until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Box<QueueEntry>>,
    pub order: TaskOrder,
    pub status: PlanState,
    pub policy: PlanPolicy,
    pub review: ReviewPolicy,
    pub usage: Usage,
    /// The steps of its structure that have no tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub empty_steps: Vec<EmptyStep>,
    /// What is wrong with the tasks that a model planned, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// How many tasks agents have added while it was carried out: its budget does not grow with them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub added_by_agents: usize,
    /// What a human allowed beyond the budget.
    #[serde(default)]
    pub granted: Granted,
    /// What it may use of the day's budget since it was stopped there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day_grant: Option<Box<DayGrant>>,
    /// Commands that a person has allowed every agent of the plan, word for word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// Changes that a caller may ask for again, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made_changes: Vec<MadeChange>,
    /// Replans begun so far.
    pub replans: u32,
    /// Replans a human allowed beyond the policy.
    pub extra_replans: u32,
    /// The last git snapshot of the workspace, if it is a repository.
    pub tree: Option<String>,
    /// Completed tasks with checks that ran no test.
    #[serde(default, skip_serializing_if = "SilentChecks::is_empty")]
    pub silent: Box<SilentChecks>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub final_checks: Box<FinalChecks>,
    /// The last file among the reports that belonged to no command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stray_file: Option<Box<StrayFile>>,
    /// The open replan; nothing new starts while it is open.
    pub replan: Option<Box<ReplanRequest>>,
    /// The findings of the goal's audit, once it has passed.
    pub audited: Option<String>,
    /// The summary, once the plan is settled.
    pub outcome: Option<String>,
    /// Increases with every change of the structure (tasks, dependencies), not of states.
    pub revision: u64,
    /// The number of the next new task.
    pub next_task: u32,
    pub created_at: Time,
    pub finished_at: Option<Time>,
}

impl PlanHead {
    /// Returns whether lists show the plan: it was not put away, and no role made it of its task.
    pub fn is_listed(&self) -> bool {
        self.archive_state == ArchiveState::Current && self.owner != crate::plan::ROLE
    }

    /// Returns whether the plan has results that a person has neither taken over nor discarded.
    pub fn has_results(&self) -> bool {
        let line = self.line.as_ref();
        line.is_some_and(|line| line.tip != line.base) && self.results.is_none()
    }

    /// Returns who carries out a plan that is no daemon's, in words.
    pub fn carried_out_by(&self) -> String {
        match (self.owner == crate::plan::ROLE, &self.parent) {
            (true, Some(parent)) => format!("a role, for a task of plan `{parent}`"),
            (true, None) => "a role".to_owned(),
            _ => format!("those who use it through the tools of `{}`", self.owner),
        }
    }

    /// Returns what a queued plan waits for before a daemon begins it, or goes on with it: `for plan … to end`, where one has said so.
    pub fn queued_for(&self) -> Option<&str> {
        use crate::plan::PlanState::{Idle, Running};
        let queue = self.queue.as_deref();
        let queue = queue.filter(|_| matches!(self.status, Idle | Running))?;
        let unseen = self.status == Idle && queue.begun.is_none();
        queue.waits.as_deref().or(unseen.then_some("for a daemon"))
    }

    /// Returns whether the plan may have open questions: only a daemon asks, and only while the plan goes on.
    pub fn may_ask(&self) -> bool {
        self.owner == crate::plan::DAEMON && !self.status.settled()
    }

    /// Returns the name by which callers of tools know the plan.
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(self.id.as_str())
    }

    /// Returns the language of the plan's files: the one that it began with, else that of its goal.
    pub fn language(&self) -> Language {
        self.language.unwrap_or_else(|| Language::of(&self.goal))
    }

    /// Returns whether each task has or gets a worktree of its own.
    pub fn is_isolated(&self) -> bool {
        self.isolated.unwrap_or(self.line.is_some())
    }

    /// Returns whether nobody has decided yet whether tasks have worktrees, which is done before the plan begins.
    pub fn isolation_is_open(&self) -> bool {
        let begun = self.status != crate::plan::PlanState::Idle;
        self.isolated.is_none() && self.line.is_none() && !begun
    }

    /// Returns whether the plan works in a folder, in one that contains it, or in one within it.
    pub fn shares_folder(&self, folder: &Path) -> bool {
        let own = Path::new(&self.workspace);
        folder.starts_with(own) || own.starts_with(folder)
    }

    /// Returns whether a plan at work in a folder keeps this one from beginning: they share it, and not both have worktrees.
    pub fn is_kept_by(&self, folder: &Path, isolated: bool) -> bool {
        // Where it is not decided yet, that is found out before it begins.
        let may_be_isolated = self.is_isolated() || self.isolation_is_open();
        self.shares_folder(folder) && !(isolated && may_be_isolated)
    }

    /// As [`PlanHead::is_kept_by`], for another plan as it stands in its head.
    pub fn is_kept_by_head(&self, other: &Self) -> bool {
        self.is_kept_by(Path::new(&other.workspace), other.is_isolated())
    }

    /// Returns the plan's archive entry, if it has ever been archived.
    pub fn in_history(&self) -> Option<ArchivedEntry> {
        match self.archive_state {
            ArchiveState::History => Some(ArchivedEntry::of(self)),
            ArchiveState::Current | ArchiveState::Deleted => self.put_away.as_deref().cloned(),
        }
    }

    /// Creates the head of an idle plan that has only a goal, whose first line is its name: whole words, if it is long.
    pub fn new(id: PlanId, goal: &str, now: Time) -> Self {
        let first_line = goal.lines().next().unwrap_or_default();
        let mut name: String = first_line.chars().take(NAME).collect();
        if name.len() < first_line.len() {
            let whole_words = name.rfind(' ').unwrap_or(name.len());
            name.truncate(whole_words);
            name.push('…');
        }
        Self {
            id,
            name,
            goal: goal.to_owned(),
            origin: Origin::Person,
            owner: crate::plan::DAEMON.to_owned(),
            next_task: 1,
            created_at: now,
            ..Self::default()
        }
    }
}
