//! PlanManager's functions as tools: their names, what they are given, and the envelope around what they return.

use std::future::Future;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{GraphFormat, PlanManager, PlanManagerError, PlannedTask, Result, Status, Updates};
use crate::tools::{Answer, Dialect, Page, Tool, ToolError, Toolbox, args};

pub(in crate::tools) const TOOLS: &[Tool] = &[
    Tool::change::<CreatePlan>(
        "createPlan",
        "Make a plan the current one, replacing the one before.",
    ),
    Tool::look::<Paged>("getPlan", "Goal, state and tasks."),
    Tool::look::<Nothing>("getCurrentTask", "The task in progress, or null."),
    Tool::change::<Nothing>("startNextTask", "Start the first executable task."),
    Tool::change::<CompleteTask>("completeTask", "Complete the task in progress."),
    Tool::change::<FailTask>("failTask", "Record a failure of the task in progress."),
    Tool::change::<AddTask>("addTask", "Add a task."),
    Tool::change::<UpdateTask>("updateTask", "Change a task that is not started."),
    Tool::change::<SkipTask>(
        "skipTask",
        "Leave a task out; those that wait for it may go on.",
    ),
    Tool::change::<OneTask>(
        "removeTask",
        "Take out a task that is not started and no other needs.",
    ),
    Tool::look::<GetTaskList>("getTaskList", "Tasks in their order."),
    Tool::look::<Nothing>("getPlanStatus", "Progress in numbers."),
    Tool::look::<GetTaskById>(
        "getTaskById",
        "All of one task; limit and offset are of its dependencies.",
    ),
    Tool::look::<Paged>(
        "getExecutableTaskList",
        "Pending tasks whose dependencies are met.",
    ),
    Tool::change::<Nothing>("pausePlan", "Let nothing new start."),
    Tool::change::<Nothing>("resumePlan", "Go on after a pause."),
    Tool::change::<Nothing>("resetPlan", "Make every task pending again."),
    Tool::look::<GetDependencyGraph>("getDependencyGraph", "The plan as a graph."),
    Tool::look::<Nothing>("getPlanPrompt", "The plan as a short text."),
    Tool::look::<Nothing>("getParallelTasks", "Which tasks may be done side by side."),
];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreatePlan {
    goal: String,
    tasks: Vec<PlannedTask>,
    /// Only check.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Paged {
    limit: Option<usize>,
    offset: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneTask {
    task_id: i64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetTaskById {
    task_id: i64,
    limit: Option<usize>,
    offset: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CompleteTask {
    task_id: i64,
    result: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FailTask {
    task_id: i64,
    error_message: String,
    #[serde(default = "yes")]
    should_retry: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AddTask {
    name: String,
    dependencies: Vec<i64>,
    reasoning: String,
    after_task_id: Option<i64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateTask {
    task_id: i64,
    updates: Updates,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SkipTask {
    task_id: i64,
    reason: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetTaskList {
    status_filter: Option<Status>,
    limit: Option<usize>,
    offset: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetDependencyGraph {
    #[serde(default)]
    format: GraphFormat,
    limit: Option<usize>,
    offset: Option<usize>,
}

fn yes() -> bool {
    true
}

/// Calls a function by its name and answers in the envelope.
pub(in crate::tools) async fn call(toolbox: &Toolbox, name: &str, given: Value) -> Answer {
    let manager = &PlanManager::new(toolbox.clone());
    match name {
        "createPlan" => {
            with(given, async |a: CreatePlan| {
                manager.create_plan(&a.goal, &a.tasks, a.dry_run).await
            })
            .await
        }
        "getPlan" => {
            with(given, async |a: Paged| {
                manager.get_plan(page(a.limit, a.offset)).await
            })
            .await
        }
        "getCurrentTask" => with(given, async |_: Nothing| manager.get_current_task().await).await,
        "startNextTask" => with(given, async |_: Nothing| manager.start_next_task().await).await,
        "completeTask" => {
            with(given, async |a: CompleteTask| {
                manager.complete_task(a.task_id, &a.result).await
            })
            .await
        }
        "failTask" => {
            with(given, async |a: FailTask| {
                manager
                    .fail_task(a.task_id, &a.error_message, a.should_retry)
                    .await
            })
            .await
        }
        "addTask" => {
            with(given, async |a: AddTask| {
                let added =
                    manager.add_task(&a.name, &a.dependencies, &a.reasoning, a.after_task_id);
                added.await
            })
            .await
        }
        "updateTask" => {
            with(given, async |a: UpdateTask| {
                manager.update_task(a.task_id, a.updates).await
            })
            .await
        }
        "skipTask" => {
            with(given, async |a: SkipTask| {
                manager.skip_task(a.task_id, &a.reason).await
            })
            .await
        }
        "removeTask" => {
            with(given, async |a: OneTask| {
                manager.remove_task(a.task_id).await
            })
            .await
        }
        "getTaskList" => {
            with(given, async |a: GetTaskList| {
                let page = page(a.limit, a.offset);
                manager.get_task_list(a.status_filter, page).await
            })
            .await
        }
        "getPlanStatus" => with(given, async |_: Nothing| manager.get_plan_status().await).await,
        "getTaskById" => {
            with(given, async |a: GetTaskById| {
                let page = page(a.limit, a.offset);
                manager.get_task_by_id(a.task_id, page).await
            })
            .await
        }
        "getExecutableTaskList" => {
            with(given, async |a: Paged| {
                manager
                    .get_executable_task_list(page(a.limit, a.offset))
                    .await
            })
            .await
        }
        "pausePlan" => with(given, async |_: Nothing| manager.pause_plan().await).await,
        "resumePlan" => with(given, async |_: Nothing| manager.resume_plan().await).await,
        "resetPlan" => with(given, async |_: Nothing| manager.reset_plan().await).await,
        "getDependencyGraph" => {
            with(given, async |a: GetDependencyGraph| {
                let page = page(a.limit, a.offset);
                manager.get_dependency_graph(a.format, page).await
            })
            .await
        }
        "getPlanPrompt" => with(given, async |_: Nothing| manager.get_plan_prompt().await).await,
        "getParallelTasks" => {
            with(given, async |_: Nothing| manager.get_parallel_tasks().await).await
        }
        _ => envelope::<()>(Err(toolbox.unknown(Dialect::PlanManager, name).into())),
    }
}

fn page(limit: Option<usize>, offset: Option<usize>) -> Page {
    Page { limit, offset }
}

async fn with<A, T, F>(given: Value, run: impl FnOnce(A) -> F) -> Answer
where
    A: DeserializeOwned + JsonSchema + 'static,
    T: Serialize,
    F: Future<Output = Result<T>>,
{
    match args::read::<A>(given) {
        Ok(given) => envelope(run(given).await),
        Err(error) => envelope::<()>(Err(ToolError::from(error).into())),
    }
}

fn envelope<T: Serialize>(result: Result<T>) -> Answer {
    match result {
        Ok(data) => Answer {
            success: true,
            value: json!({ "success": true, "data": data }),
        },
        Err(error) => Answer {
            success: false,
            value: PlanManagerError::to_json(&error),
        },
    }
}
