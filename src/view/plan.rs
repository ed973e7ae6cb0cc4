//! A plan as programs get it, and as every page says it in words.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::lanes::LanesView;
use super::usage::TasksUsage;
use super::{StateWord, TaskView, usage, wait_view};
use crate::plan::{
    AnswerChoice, HeldLocks, HumanQuestion, HumanQuestionKind, IntegrationBranch, Plan, PlanHead,
    PlanId, PlanState, Task, TaskId, TaskState, Time,
};
use crate::store::TalliedPlan;
use crate::volumes::{DaemonFarewell, DaemonInfo};
use crate::wire::{one_line, time_text};

/// A plan: its JSON is what `status --json` prints, the terminal and MISSION.md print it in words. The shape is relied upon by
/// others; what is not in it is only for the words.
#[derive(Debug, Serialize)]
pub struct PlanView {
    pub(super) plan: HeadView,
    pub(super) progress: Progress,
    pub(super) tasks: Vec<TaskView>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    /// Which roles wait for others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) waits: Vec<Value>,
    pub(super) questions: Vec<QuestionView>,
    /// Whether other plans ask, too: an answer names its question then.
    #[serde(skip)]
    pub others_ask: bool,
    /// Of a plan with roles that have lanes of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lanes: Option<LanesView>,
    usage: Value,
    /// The process that carries the plan out.
    pub(super) daemon: Option<Value>,
    /// A daemon works here, on another plan.
    #[serde(skip)]
    pub daemon_elsewhere: bool,
    /// How the plan's last daemon ended, if that was not seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_daemon: Option<LastDaemon>,
    /// The folder that the plan belongs to, if that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) home: Option<String>,
    #[serde(skip)]
    pub head: PlanHead,
    /// Tasks before and after those that are shown.
    #[serde(skip)]
    pub(super) hidden: (usize, usize),
    /// Whether a task has no worker.
    #[serde(skip)]
    pub(super) no_worker: bool,
    /// What is used of what may be, for a person.
    #[serde(skip)]
    pub(super) used: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct HeadView {
    id: PlanId,
    name: String,
    goal: String,
    status: &'static str,
    pub(super) state: StateWord,
    seq: i64,
    /// Where the results are gathered, if each task has a worktree of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) branch: Option<String>,
    /// Why it does not go on: it is paused, or queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<String>,
}

/// How many tasks there are, by their states.
#[derive(Debug, Serialize)]
pub struct Progress {
    pub total: usize,
    pub pending: usize,
    pub ready: usize,
    pub blocked: usize,
    pub in_progress: usize,
    pub completed: usize,
    pub failed: usize,
    pub skipped: usize,
    /// The same by the words for a person; replaced tasks count as skipped.
    pub(super) by_state: BTreeMap<StateWord, usize>,
}

/// A question that awaits its answer.
#[derive(Debug, Serialize)]
pub struct QuestionView {
    pub id: String,
    pub task: Option<TaskId>,
    pub reason: String,
    pub choices: Vec<AnswerChoice>,
    #[serde(skip)]
    pub about: HumanQuestionKind,
    /// The most attempts that `retry` gives.
    #[serde(skip)]
    pub attempts: u32,
}

/// How a daemon ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum LastDaemon {
    /// It said why.
    Ended { ended_at: String, why: String },
    /// It could say nothing: killed, or the machine went down.
    Gone { pid: u32, started_at: String },
}

/// A plan in the list of all: its JSON is a line of `plans --json`, with its fields in the order of the alphabet.
#[derive(Debug)]
pub struct ListedView<'a> {
    pub(super) plan: &'a TalliedPlan,
    pub(super) state: StateWord,
}

impl PlanView {
    /// Returns whether the plan has an open question.
    pub fn asks(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Returns the view of a plan with at most `limit` tasks, from a little before the first unsettled one; `others` are locks
    /// that tasks of other plans hold.
    pub fn of(plan: &Plan, seq: i64, limit: usize, now: Time, others: &HeldLocks) -> Self {
        let unsettled = plan.unsettled().next();
        let before = unsettled.map_or(0, |task| plan.index_of(task));
        let most = plan.counts().total().saturating_sub(limit);
        let before = before.saturating_sub(limit / 4).min(most);
        let tasks: Vec<&Task> = plan.tasks().skip(before).take(limit).collect();
        let used = usage::of_tasks(plan);
        Self::with(plan, seq, (before, &tasks), now, others, &used)
    }

    /// Returns the view of a plan and of some of its tasks, before which others are; `used` is what tasks have used.
    pub(super) fn with(
        plan: &Plan,
        seq: i64,
        (before, tasks): (usize, &[&Task]),
        now: Time,
        others: &HeldLocks,
        used: &TasksUsage,
    ) -> Self {
        let head = plan.head().clone();
        let progress = Progress::of(plan);
        let roles_only = head.policy.roles_only;
        let after = progress.total - before - tasks.len();
        let view = |task: &&Task| TaskView::of(plan, task, now, others, used);
        Self {
            plan: HeadView {
                id: head.id.clone(),
                name: head.name.clone(),
                goal: head.goal.clone(),
                status: head.status.as_str(),
                state: StateWord::of_plan(&head, false),
                seq,
                branch: (head.line.as_ref())
                    .filter(|_| head.results.is_none())
                    // Nothing was accepted, and nothing will be.
                    .filter(|line| !head.status.settled() || line.tip != line.base)
                    .map(|_| IntegrationBranch::branch(&head.id)),
                waits: (head.status.why().or(head.queued_for())).map(str::to_owned),
            },
            progress,
            tasks: tasks.iter().map(view).collect(),
            truncated: before + after > 0,
            waits: plan.waits().map(wait_view).collect(),
            questions: QuestionView::open_of(plan),
            others_ask: false,
            lanes: LanesView::of(plan),
            usage: usage::of_plan(plan),
            daemon: None,
            daemon_elsewhere: false,
            last_daemon: None,
            home: None,
            head,
            hidden: (before, after),
            no_worker: roles_only && plan.unsettled().any(|task| plan.has_no_worker(task)),
            used: usage::line(plan),
        }
    }

    /// Says which process carries the plan out, or the daemon of which other folder, if one does.
    pub fn carried_out_by(&mut self, pid: Option<u32>, elsewhere: Option<&str>) {
        self.plan.state = StateWord::of_plan(&self.head, pid.is_some() || elsewhere.is_some());
        let elsewhere = elsewhere.map(|home| json!({ "home": home }));
        self.daemon = pid.map(|pid| json!({ "pid": pid })).or(elsewhere);
    }

    /// Says which other folder the plan belongs to, else how its last daemon here ended, if it should go on and none carries it out.
    pub fn left_by(
        &mut self,
        home: Option<String>,
        word: Option<DaemonFarewell>,
        gone: Option<DaemonInfo>,
    ) {
        let over = self.head.status.settled();
        if self.daemon.is_none() && home.is_none() && !over {
            self.last_daemon = LastDaemon::of(&self.head.id, word, gone);
        }
        self.home = home;
    }
}

impl LastDaemon {
    /// Returns when and why the last daemon of a plan ended, if it left word of that or is gone without one.
    fn of(plan: &PlanId, word: Option<DaemonFarewell>, gone: Option<DaemonInfo>) -> Option<Self> {
        let own = |named: &str| named == plan.as_str();
        if let Some(word) = word.filter(|word| own(&word.plan)) {
            return Some(Self::Ended {
                ended_at: one_line(&word.at, 40),
                why: one_line(&word.why, 400),
            });
        }
        let gone = gone.filter(|gone| gone.plans.is_some() && gone.carries_out(plan))?;
        Some(Self::Gone {
            pid: gone.pid,
            started_at: one_line(&gone.started_at, 40),
        })
    }
}

impl Progress {
    fn of(plan: &Plan) -> Self {
        let counts = plan.counts();
        let ready = plan.ready().len();
        Self {
            total: counts.total(),
            pending: counts.pending,
            ready,
            blocked: counts.pending.saturating_sub(ready),
            in_progress: counts.in_progress,
            completed: counts.completed,
            failed: counts.failed,
            skipped: counts.skipped,
            by_state: by_state(plan),
        }
    }

    /// Returns how many tasks a word names.
    pub fn count(&self, state: StateWord) -> usize {
        self.by_state.get(&state).copied().unwrap_or_default()
    }

    /// Returns the number of tasks to which nothing more happens by itself.
    pub fn settled(&self) -> usize {
        self.completed + self.failed + self.skipped
    }
}

/// Counts the tasks by their words. Only tasks in progress or in question are visited: the plan keeps the other numbers.
fn by_state(plan: &Plan) -> BTreeMap<StateWord, usize> {
    let (counts, ready) = (plan.counts(), plan.ready().len());
    let mut by_state = BTreeMap::from([
        (StateWord::Completed, counts.completed),
        (StateWord::Failed, counts.failed),
        (StateWord::Skipped, counts.skipped),
        (StateWord::InProgress, counts.in_progress),
        (StateWord::Ready, ready),
        (StateWord::Waiting, counts.pending.saturating_sub(ready)),
    ]);
    if *plan.status() == PlanState::Abandoned {
        by_state.extend([(StateWord::Ready, 0), (StateWord::Waiting, 0)]);
        by_state.insert(StateWord::Aborted, counts.pending);
    }
    let asked = plan.open_questions().filter_map(|question| question.task);
    let visited = plan.in_progress().map(|task| task.number).chain(asked);
    for task in visited.collect::<BTreeSet<TaskId>>() {
        let Some(task) = plan.task(task) else {
            continue;
        };
        let counted = match task.status {
            TaskState::InProgress => StateWord::InProgress,
            TaskState::Pending if plan.is_ready(task) => StateWord::Ready,
            TaskState::Pending => StateWord::Waiting,
            _ => StateWord::Failed,
        };
        let word = StateWord::of_task(plan, task);
        if [StateWord::AsksYou, StateWord::Checking].contains(&word) {
            let before = by_state.entry(counted).or_default();
            *before = before.saturating_sub(1);
            *by_state.entry(word).or_default() += 1;
        }
    }
    by_state.retain(|_, count| *count > 0);
    by_state
}

impl QuestionView {
    /// Returns the open questions of a plan.
    pub fn open_of(plan: &Plan) -> Vec<Self> {
        let view = |question: &HumanQuestion| Self {
            id: question.id.to_string(),
            task: question.task,
            reason: question.reason.clone(),
            choices: question.choices.clone(),
            about: question.about,
            attempts: question.attempts,
        };
        plan.open_questions().map(view).collect()
    }
}

impl<'a> ListedView<'a> {
    /// Returns the view of a plan in the list. `carried_out` says whether a daemon works on it now.
    pub fn of(plan: &'a TalliedPlan, carried_out: bool) -> Self {
        let state = StateWord::of_plan(&plan.plan.head, carried_out);
        Self { plan, state }
    }

    /// Returns how many completed tasks are not proven.
    pub(super) fn accepted(&self) -> usize {
        let tally = &self.plan.tally;
        tally.completed.saturating_sub(tally.proven)
    }

    pub(super) fn cost_usd(&self) -> f64 {
        usage::whole(&self.plan.plan.head.usage).1
    }
}

impl Serialize for ListedView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TalliedPlan { plan, tally } = self.plan;
        let head = &plan.head;
        let value = json!({
            "accepted": self.accepted(),
            "archive_state": head.archive_state,
            "completed": tally.completed,
            "cost_usd": self.cost_usd(),
            "created_at": time_text(head.created_at),
            "failed": tally.failed,
            "finished_at": head.finished_at.map(time_text),
            "goal": head.goal,
            "id": head.id,
            "in_progress": tally.in_progress,
            "key": head.key(),
            "name": head.name,
            "owner": head.owner,
            "proven": tally.proven,
            "questions": tally.questions,
            "seq": plan.seq,
            "skipped": tally.skipped,
            "state": self.state,
            "status": head.status.as_str(),
            "tasks": tally.tasks,
            "waits": head.status.why().or(head.queued_for()),
        });
        value.serialize(serializer)
    }
}
