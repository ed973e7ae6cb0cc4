//! A task as programs get it, and as every page says it in words.

use serde::Serialize;
use serde_json::{Value, json};

use super::usage::{TaskUsage, TasksUsage};
use super::{StateWord, name};
use crate::plan::{
    Attempt, AttemptState, CriterionResult, HeldLocks, Plan, RoleRequest, Task, TaskId, TaskState,
    Time, Verdict,
};
use crate::wire::time_text;

/// A task: its JSON is in `status --json`; what is not in it is only for the words.
#[derive(Debug, Serialize)]
pub struct TaskView {
    pub id: TaskId,
    key: String,
    pub name: String,
    pub status: TaskState,
    pub state: StateWord,
    /// `null` until the task is accepted.
    pub proven: Option<bool>,
    /// A person said that it is done.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_hand: bool,
    /// What stands behind it: checks with their outcomes, what changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// How each thing ended that was expected of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<CriterionResult>,
    pub assignee: Option<String>,
    dependencies: Vec<TaskId>,
    pub attempts: u32,
    /// The model behind its agent failed, and is asked again then.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_until: Option<String>,
    /// The lock for which it waits, and who holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for_lock: Option<String>,
    pub result: Option<String>,
    pub usage: TaskUsage,
    /// The dependencies for which it waits.
    #[serde(skip)]
    pub unmet: Vec<TaskId>,
    #[serde(skip)]
    pub not_before: Option<Time>,
    #[serde(skip)]
    pub no_worker: bool,
    /// What a person is asked about it.
    #[serde(skip)]
    pub asked: Option<String>,
    /// The attempt that counts now.
    #[serde(skip)]
    pub attempt: Option<CurrentAttempt>,
    /// What the last judged attempt came to, as long as the task is open.
    #[serde(skip)]
    pub verdict: Option<Verdict>,
    #[serde(skip)]
    pub waits: Vec<RoleRequest>,
}

/// The attempt of a task that counts now.
#[derive(Debug)]
pub struct CurrentAttempt {
    pub number: u32,
    pub state: AttemptState,
    pub claimed: Option<Time>,
    pub reported: bool,
    /// When the model behind its agent is asked again, if it failed.
    pub model_asked_at: Option<Time>,
}

impl TaskView {
    /// Returns the view of a task; `others` are locks that tasks of other plans hold, `used` is what tasks have used.
    pub fn of(plan: &Plan, task: &Task, now: Time, others: &HeldLocks, used: &TasksUsage) -> Self {
        let attempt = plan.current_attempt(task);
        let attempt = attempt.map(|attempt| CurrentAttempt::of(attempt, now));
        let model_asked_at = attempt.as_ref().and_then(|attempt| attempt.model_asked_at);
        let not_before = task.not_before.filter(|until| *until > now);
        let evidence = task.evidence.as_ref();
        let mut asked = plan.open_questions();
        let asked = asked.find(|question| question.task == Some(task.number));
        let mut attempts = plan.attempts_of(task.number).rev();
        let verdict = || attempts.find_map(|attempt| attempt.verdict.clone());
        Self {
            id: task.number,
            key: task.key.clone(),
            name: task.name.clone(),
            status: task.status,
            state: StateWord::of_task(plan, task),
            proven: evidence.map(|evidence| evidence.proven),
            by_hand: evidence.is_some_and(|evidence| evidence.by_hand),
            criteria: evidence.map_or(Vec::new(), |evidence| evidence.criteria.clone()),
            evidence: evidence.map_or(Vec::new(), |evidence| evidence.facts.clone()),
            assignee: task.assignee.clone(),
            dependencies: task.dependencies.clone(),
            attempts: task.attempts,
            waits_until: model_asked_at.or(not_before).map(time_text),
            waits_for_lock: lock_wait(plan, task, others),
            result: task.result.clone(),
            usage: used.get(&task.number).copied().unwrap_or_default(),
            unmet: plan.unmet(task),
            not_before,
            no_worker: plan.has_no_worker(task),
            asked: asked.map(|question| question.reason.clone()),
            verdict: (!task.status.settled()).then(verdict).flatten(),
            waits: plan.waits_of(task).to_vec(),
            attempt,
        }
    }
}

/// Returns for which lock a task waits that could start but for it, and who holds it.
fn lock_wait(plan: &Plan, task: &Task, others: &HeldLocks) -> Option<String> {
    let (lock, holder) = plan.lock_waited_for(task, others)?;
    let of_plan = match holder.plan == *plan.id() {
        true => String::new(),
        false => format!(" of plan {}", name(holder.plan.as_str())),
    };
    let (lock, task) = (name(&lock), holder.task);
    Some(format!("waits for {lock}, held by task {task}{of_plan}"))
}

impl CurrentAttempt {
    fn of(attempt: &Attempt, now: Time) -> Self {
        let open = attempt.state == AttemptState::Open;
        Self {
            number: attempt.number,
            state: attempt.state,
            claimed: attempt.claimed,
            reported: attempt.report.is_some(),
            model_asked_at: attempt.waits_until.filter(|until| open && *until > now),
        }
    }
}

/// Returns a role that waits for another one so that a task gets on, for programs.
pub fn wait_view((task, wait): (TaskId, &RoleRequest)) -> Value {
    json!({
        "task": task,
        "role": wait.role,
        "on": wait.on,
        "request": wait.request,
        "what": wait.what,
        "since": time_text(wait.since),
    })
}
