//! PlanManager: a goal as tasks with dependencies, one current plan, and an envelope around every answer. This module contains
//! the rules of its document; [`crate::plan::Draft`] says which changes of a plan are possible at all.

mod error;
mod queries;
mod response_types;
mod tool_table;
mod whole_plan_views;

#[cfg(test)]
mod tests;

pub use error::{ManagerErrorCode, PlanManagerError};
pub use response_types::*;
pub(super) use tool_table::TOOLS;

pub use whole_plan_views::{DependencyGraph, GraphFormat, ParallelTasks, PlanPrompt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::paging::weight;
use super::{Dialect, Page, PagePart, ToolError, Toolbox, new_plan_id, status_changes};
use crate::plan::{
    self, ArchiveState, DAEMON, Draft, Plan, PlanHead, PlanState, Refusal, TaskChanges, TaskId,
    TaskRef, TaskSpec, TaskState, Time, is_default, unless_empty, word,
};
use crate::store::StoreError;
use crate::wire::text::{clip, joined, one_line, time_text};
use ManagerErrorCode::{InvalidStatus, PlanNotActive, TaskNotEditable};
use error::numbers;

type Result<T> = std::result::Result<T, PlanManagerError>;

/// Characters of a name in a message, of a reason in the log, and of a goal alongside the tasks.
const NAME: usize = 200;
const WHY: usize = 200;
const GOAL: usize = 1000;

/// The functions of PlanManager. They work on the plan that was made last by `createPlan`, or on the one that the toolbox is
/// bound to; ids of tasks are the numbers that the plan gave them. An error leaves everything as it was.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use plan_agent::tools::plan_manager::{
///     CompleteTask, CreatePlan, ManagerErrorCode, PlanManager, PlannedTask,
/// };
/// use plan_agent::tools::Toolbox;
///
/// let manager = PlanManager::new(Toolbox::in_memory().await?);
/// let task = |name: &str, dependencies: &[i64]| PlannedTask {
///     name: name.to_owned(),
///     dependencies: dependencies.to_vec(),
///     ..PlannedTask::default()
/// };
/// let tasks = vec![task("Open the shop", &[]), task("Search for a keyboard", &[1])];
/// let goal = "Buy a keyboard".to_owned();
/// manager.create_plan(CreatePlan { goal, tasks, dry_run: false }).await?;
///
/// let started = manager.start_next_task().await?;
/// assert_eq!(started.message, "Started task 1: Open the shop");
/// let result = "The page is open".to_owned();
/// manager.complete_task(CompleteTask { task_id: 1, result }).await?;
/// assert_eq!(manager.get_plan_status().await?.progress, 0.5);
///
/// let error = manager.remove_task(1).await.unwrap_err();
/// assert_eq!(error.code, ManagerErrorCode::TaskNotEditable);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PlanManager {
    toolbox: Toolbox,
}

impl PlanManager {
    /// Makes the functions work through a toolbox.
    pub fn new(toolbox: Toolbox) -> Self {
        Self { toolbox }
    }

    /// Makes a plan the current one, in one step with its tasks; the plan before it is archived. A dry run checks everything
    /// and makes nothing.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` (no goal, a task without a name), `INVALID_DEPENDENCY`, `CIRCULAR_DEPENDENCY`, `PLAN_NOT_ACTIVE`
    /// (the toolbox is bound to a plan).
    pub async fn create_plan(&self, given: CreatePlan) -> Result<PlanCreated> {
        let (goal, dry_run) = (given.goal.trim(), given.dry_run);
        if goal.is_empty() {
            return Err(PlanManagerError::argument("goal", "is empty"));
        }
        let plan_id = new_plan_id();
        let head = PlanHead::new(plan_id.clone(), goal, Time(0));
        let tasks = given.tasks.into_iter().map(new_task);
        let tasks = tasks.collect::<Result<Vec<_>>>()?;
        let make = move |draft: &mut Draft<'_>| {
            if !tasks.is_empty() {
                draft.make_tasks(tasks)?;
            }
            let plan = draft.plan();
            Ok::<_, PlanManagerError>((plan.counts().total(), plan.ready().len()))
        };
        let toolbox = self.toolbox.dry_run(dry_run);
        let made = toolbox.replace(Dialect::PlanManager, head, false, "createPlan", make);
        let ((total_tasks, executable_tasks), replaced) = made.await?;
        let message = match dry_run {
            true => "The plan is valid; nothing was created",
            false => "Plan created successfully",
        };
        Ok(PlanCreated {
            plan_id: (!dry_run).then(|| plan_id.to_string()),
            replaced_plan_id: replaced.map(|plan| plan.to_string()),
            total_tasks,
            executable_tasks,
            message: message.to_owned(),
        })
    }

    /// Starts the first task in the plan's order whose dependencies are met.
    ///
    /// # Errors
    /// `INVALID_STATUS` (one is in progress, or none can start), `PLAN_NOT_ACTIVE` (paused, ended, or a daemon carries the
    /// plan out).
    pub async fn start_next_task(&self) -> Result<TaskStarted> {
        self.change("startNextTask", "", |draft| {
            not_by_daemon(draft)?;
            let plan = draft.plan();
            match plan.status() {
                PlanState::Failed if plan.counts().pending > 0 => {
                    return Err(none_executable(plan));
                }
                PlanState::Idle | PlanState::Running => {}
                ended => return Err(PlanManagerError::plan_is(ended)),
            }
            if let Some(task) = plan.in_progress().next() {
                let message = format!("Task {} is in progress", task.number);
                let details = json!({ "current_task_id": id(task.number) });
                return Err(PlanManagerError::new(InvalidStatus, &message, details));
            }
            let Some(next) = plan.ready().next().map(|task| task.number) else {
                return Err(none_executable(plan));
            };
            draft.start_task(next)?;
            let task = show(draft.plan(), next)?;
            let message = format!("Started task {next}: {}", one_line(&task.name, NAME));
            Ok(TaskStarted { task, message })
        })
        .await
    }

    /// Completes a task in progress. When it was the last one, the plan ends. In a plan that a daemon carries out, this is the
    /// report of the agent at work.
    ///
    /// # Errors
    /// `TASK_NOT_FOUND`, `INVALID_STATUS` (not in progress), `PLAN_NOT_ACTIVE`.
    pub async fn complete_task(&self, given: CompleteTask) -> Result<TaskDone> {
        self.change("completeTask", "", move |draft| {
            let task = under_way(draft.plan(), given.task_id)?;
            status_changes::set(draft, task, TaskState::Completed, Some(&given.result))?;
            Ok(match draft.carried_out() {
                true => done(task, REPORTED),
                false => done(task, "Task completed successfully"),
            })
        })
        .await
    }

    /// Records a failure of a task in progress. The task is pending again if it may be retried and has not failed too often in
    /// a row; otherwise it is failed.
    ///
    /// # Errors
    /// `TASK_NOT_FOUND`, `INVALID_STATUS` (not in progress), `PLAN_NOT_ACTIVE`.
    pub async fn fail_task(&self, given: FailTask) -> Result<TaskFailed> {
        let (task_id, error) = (given.task_id, given.error_message);
        self.change("failTask", &error.clone(), move |draft| {
            let number = under_way(draft.plan(), task_id)?;
            let will_retry = draft.fail_task(number, &error, given.should_retry)?;
            draft.follow_tasks();
            let task = draft.plan().task(number);
            let message = match will_retry {
                _ if draft.carried_out() => REPORTED,
                true => "Task failed, will retry",
                false => "Task failed, will not retry",
            };
            Ok(TaskFailed {
                task_id,
                will_retry,
                retry_count: task.map_or(0, |task| task.failures),
                message: message.to_owned(),
            })
        })
        .await
    }

    /// Adds a task after another one, or at the end. A plan that had ended goes on.
    ///
    /// # Errors
    /// `INVALID_DEPENDENCY`, `TASK_NOT_FOUND` (the task before it), `INVALID_ARGUMENT` (no name), `PLAN_NOT_ACTIVE`.
    pub async fn add_task(&self, given: AddTask) -> Result<TaskAdded> {
        let reasoning = given.reasoning.clone();
        let task = TaskSpec {
            name: given.name,
            reasoning: given.reasoning,
            dependencies: references(&given.dependencies, existing)?,
            ..TaskSpec::default()
        };
        self.change("addTask", &reasoning, move |draft| {
            let number = |id| self::task(draft.plan(), id).map(|after| after.number);
            let after = given.after_task_id.map(number).transpose()?;
            draft.reopen()?;
            let added = draft.add_tasks(vec![task], after)?;
            draft.follow_tasks();
            let number = added.first().copied().ok_or(Refusal::NoTasks)?;
            let new_task = show(draft.plan(), number)?;
            let message = "Task added successfully".to_owned();
            Ok(TaskAdded { new_task, message })
        })
        .await
    }

    /// Changes a task that has not been started.
    ///
    /// # Errors
    /// `TASK_NOT_FOUND`, `TASK_NOT_EDITABLE`, `INVALID_DEPENDENCY`, `CIRCULAR_DEPENDENCY`, `INVALID_ARGUMENT` (nothing to
    /// change, no name), `PLAN_NOT_ACTIVE`.
    pub async fn update_task(&self, given: UpdateTask) -> Result<ManagerTaskUpdated> {
        let updates = given.updates;
        if updates == Updates::default() {
            let problem = "is empty; known are name, dependencies, reasoning";
            return Err(PlanManagerError::argument("updates", problem));
        }
        let dependencies = updates.dependencies.as_deref();
        let dependencies = dependencies.map(|ids| references(ids, existing));
        let changes = TaskChanges {
            name: updates.name,
            reasoning: updates.reasoning,
            dependencies: dependencies.transpose()?,
            ..TaskChanges::default()
        };
        self.change("updateTask", "", move |draft| {
            let task = editable(draft.plan(), given.task_id)?;
            go_on(draft)?;
            draft.update_task(task, &changes)?;
            draft.follow_tasks();
            Ok(ManagerTaskUpdated {
                updated_task: show(draft.plan(), task)?,
                message: "Task updated successfully".to_owned(),
            })
        })
        .await
    }

    /// Skips a task, whether it waits, is in progress or has failed; its dependants may go on.
    ///
    /// # Errors
    /// `TASK_NOT_FOUND`, `TASK_NOT_EDITABLE` (completed or skipped), `PLAN_NOT_ACTIVE`.
    pub async fn skip_task(&self, given: SkipTask) -> Result<TaskDone> {
        let (task_id, reason) = (given.task_id, given.reason);
        self.change("skipTask", &reason.clone(), move |draft| {
            let task = task(draft.plan(), task_id)?;
            let number = task.number;
            if task.status.satisfies() || draft.carried_out() {
                editable(draft.plan(), task_id)?;
            }
            status_changes::set(draft, number, TaskState::Skipped, Some(&reason))?;
            let message = format!("Task skipped: {}", clip(&reason, GOAL));
            Ok(done(number, &message))
        })
        .await
    }

    /// Removes a task that has not been started and on which no other task depends.
    ///
    /// # Errors
    /// `TASK_NOT_FOUND`, `TASK_NOT_EDITABLE`, `INVALID_DEPENDENCY` (others depend on it), `PLAN_NOT_ACTIVE`.
    pub async fn remove_task(&self, task_id: i64) -> Result<TaskDone> {
        self.change("removeTask", "", move |draft| {
            not_by_daemon(draft)?;
            let task = editable(draft.plan(), task_id)?;
            go_on(draft)?;
            draft.remove_task(task)?;
            draft.follow_tasks();
            Ok(done(task, "Task removed successfully"))
        })
        .await
    }

    /// Pauses the plan: no new task starts. A task in progress may still be completed.
    ///
    /// # Errors
    /// `INVALID_STATUS` (paused already), `PLAN_NOT_ACTIVE` (ended, or a daemon carries the plan out).
    pub async fn pause_plan(&self) -> Result<PlanSwitched> {
        self.change("pausePlan", "", |draft| {
            not_by_daemon(draft)?;
            if draft.plan().head().owner == DAEMON {
                return Err(Refusal::NotStarted.into());
            }
            let status = draft.plan().status();
            if let PlanState::Paused(_) = status {
                let (code, error) = (InvalidStatus, PlanManagerError::plan_is(status));
                return Err(PlanManagerError { code, ..error });
            }
            draft.pause("pausePlan")?;
            let message = "Plan paused successfully".to_owned();
            Ok(PlanSwitched { message })
        })
        .await
    }

    /// Resumes a paused plan.
    ///
    /// # Errors
    /// `INVALID_STATUS` (running), `PLAN_NOT_ACTIVE` (not paused, or a daemon carries the plan out).
    pub async fn resume_plan(&self) -> Result<PlanSwitched> {
        self.change("resumePlan", "", |draft| {
            not_by_daemon(draft)?;
            draft.resume()?;
            let message = "Plan resumed successfully".to_owned();
            Ok(PlanSwitched { message })
        })
        .await
    }

    /// Makes every task pending and the plan idle, as if nothing had been started.
    ///
    /// # Errors
    /// `PLAN_NOT_ACTIVE`: there is no plan, or a daemon carries it out.
    pub async fn reset_plan(&self) -> Result<PlanReset> {
        self.change("resetPlan", "", |draft| {
            not_by_daemon(draft)?;
            let head = draft.plan().head();
            if head.owner == DAEMON && head.status.settled() {
                // What a person has ended stays so, and what was proven, too.
                let message = "a daemon carried the plan out: a person has its tasks done again";
                return Err(not_active(draft.plan(), message));
            }
            let reset_tasks = draft.reset()?;
            Ok(PlanReset {
                message: "Plan reset successfully".to_owned(),
                reset_tasks,
            })
        })
        .await
    }

    async fn change<T: Send + 'static>(
        &self,
        tool: &str,
        reason: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let plan = self.toolbox.only_current(Dialect::PlanManager).await?;
        let bound = self.toolbox.plan.is_some();
        let reason = unless_empty(&one_line(reason, WHY), |reason| format!(": {reason}"));
        let why = format!("{tool}{reason}");
        let change = move |draft: &mut Draft<'_>| match draft.plan().head().archive_state {
            ArchiveState::History if !bound => {
                let message = "the plan was just replaced by another one; call again";
                Err(not_active(draft.plan(), message))
            }
            ArchiveState::Deleted => Err(Refusal::Deleted.into()),
            ArchiveState::History | ArchiveState::Current => change(draft),
        };
        self.toolbox.change(&plan, &why, change).await
    }
}

/// Makes a plan go on that failed because all that was left waited for failed tasks: with the change it may wait no longer.
fn go_on(draft: &mut Draft<'_>) -> Result<()> {
    if draft.plan().head().owner != DAEMON {
        draft.reopen()?;
    }
    Ok(())
}

fn new_task(task: PlannedTask) -> Result<TaskSpec> {
    let place = |number: i64| usize::try_from(number).ok()?.checked_sub(1);
    Ok(TaskSpec {
        name: task.name,
        reasoning: task.reasoning,
        dependencies: references(&task.dependencies, |id| place(id).map(TaskRef::New))?,
        ..TaskSpec::default()
    })
}

/// Returns references to the tasks of these numbers.
fn references(ids: &[i64], reference: impl Fn(i64) -> Option<TaskRef>) -> Result<Vec<TaskRef>> {
    let unknown = PlanManagerError::unknown_dependency;
    let reference = |id: &i64| reference(*id).ok_or_else(|| unknown(*id));
    ids.iter().map(reference).collect()
}

/// Returns a reference to a task that the plan may have.
fn existing(task_id: i64) -> Option<TaskRef> {
    let number = u32::try_from(task_id).ok();
    number.map(|number| TaskRef::Number(TaskId(number)))
}

/// Returns a task of the plan.
fn task(plan: &Plan, task_id: i64) -> Result<&plan::Task> {
    let number = u32::try_from(task_id).ok().map(TaskId);
    let task = number.and_then(|number| plan.task(number));
    task.ok_or_else(|| PlanManagerError::not_found(&task_id))
}

/// Returns the number of a task that is in progress.
fn under_way(plan: &Plan, task_id: i64) -> Result<TaskId> {
    task_in(plan, task_id, TaskState::InProgress, InvalidStatus)
}

/// Returns the number of a task that has not been started, whatever the state of its plan.
fn editable(plan: &Plan, task_id: i64) -> Result<TaskId> {
    task_in(plan, task_id, TaskState::Pending, TaskNotEditable)
}

/// Returns the number of a task that has this state; one in another state is the error of this code.
fn task_in(plan: &Plan, task_id: i64, state: TaskState, code: ManagerErrorCode) -> Result<TaskId> {
    let task = task(plan, task_id)?;
    if task.status == state {
        return Ok(task.number);
    }
    let status = ManagerTaskStatus::of(plan, task);
    let message = format!("Task {} is {}", task.number, word(&status));
    let details = json!({ "task_id": id(task.number), "status": status });
    Err(PlanManagerError::new(code, &message, details))
}

fn none_executable(plan: &Plan) -> PlanManagerError {
    const NAMED: usize = 20;
    let blocked = || plan.blocked();
    let waits_for = blocked().next().map(|task| numbers(&plan.unmet(task)));
    let details = json!({
        "blocked_tasks": ids(blocked(), NAMED),
        "failed_tasks": ids(plan.tasks_in(TaskState::Failed), NAMED),
        "waits_for": waits_for,
    });
    let counts = plan.counts();
    let message = match counts.total() {
        0 => "The plan has no tasks; addTask adds one",
        total if total == counts.settled() => "No task is left: each one is settled",
        _ => "No task is executable: each one that is left waits for another",
    };
    PlanManagerError::new(InvalidStatus, message, details)
}

/// The message at the end of a task that a daemon has dispatched.
const REPORTED: &str = "Reported: the daemon checks and judges it, and decides what follows";

fn not_by_daemon(draft: &Draft<'_>) -> Result<()> {
    if draft.carried_out() {
        let message = "a daemon carries the plan out: tasks that have not begun can be added, updated and skipped here, the rest is up to the daemon";
        return Err(not_active(draft.plan(), message));
    }
    Ok(())
}

fn not_active(plan: &Plan, message: &str) -> PlanManagerError {
    let details = json!({ "plan_status": plan_word(plan.status()) });
    PlanManagerError::new(PlanNotActive, message, details)
}

fn show(plan: &Plan, task: TaskId) -> Result<ManagerTask> {
    let unknown = || Refusal::UnknownTask(task.to_string());
    let task = plan.task(task).ok_or_else(unknown)?;
    Ok(ManagerTask::of(plan, task, ONE, Page::default()))
}

fn done(task: TaskId, message: &str) -> TaskDone {
    let (task_id, message) = (id(task), message.to_owned());
    TaskDone { task_id, message }
}
