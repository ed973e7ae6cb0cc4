//! PlanManager's functions as tools: their names, their arguments, and the envelope around their results.

use std::sync::LazyLock;

use super::*;
use crate::tools::{Functions, Nothing, Tool, ToolAnswer};

pub(in crate::tools) static TOOLS: LazyLock<[Tool; 20]> = LazyLock::new(|| {
    [
        PlanManager::changes(
            "createPlan",
            "Make a plan the current one, replacing the one before.",
        )
        .calls(async |plan, a: CreatePlan| {
            let made = plan.create_plan(&a.goal, &a.tasks, a.dry_run);
            made.await.map(data)
        }),
        PlanManager::reads("getPlan", "Goal, state and tasks.")
            .calls(async |plan, page| plan.get_plan(page).await.map(data)),
        PlanManager::reads("getCurrentTask", "The task in progress, or null.").calls(
            async |plan, _: Nothing| {
                let mut answer = data(plan.get_current_task().await?);
                // The document leaves it out: a task in progress has no result yet.
                if let Some(task) = answer.value["data"].as_object_mut() {
                    task.remove("result");
                }
                Ok(answer)
            },
        ),
        PlanManager::changes("startNextTask", "Start the first executable task.")
            .calls(async |plan, _: Nothing| plan.start_next_task().await.map(data)),
        PlanManager::changes("completeTask", "Complete the task in progress.").calls(
            async |plan, a: CompleteTask| plan.complete_task(a.task_id, &a.result).await.map(data),
        ),
        PlanManager::changes("failTask", "Record a failure of the task in progress.").calls(
            async |plan, a: FailTask| {
                let failed = plan.fail_task(a.task_id, &a.error_message, a.should_retry);
                failed.await.map(data)
            },
        ),
        PlanManager::changes("addTask", "Add a task.").calls(async |plan, a: AddTask| {
            let added = plan.add_task(&a.name, &a.dependencies, &a.reasoning, a.after_task_id);
            added.await.map(data)
        }),
        PlanManager::changes("updateTask", "Change a task that is not started.").calls(
            async |plan, a: UpdateTask| plan.update_task(a.task_id, a.updates).await.map(data),
        ),
        PlanManager::changes(
            "skipTask",
            "Leave a task out; those that wait for it may go on.",
        )
        .calls(async |plan, a: SkipTask| plan.skip_task(a.task_id, &a.reason).await.map(data)),
        PlanManager::changes(
            "removeTask",
            "Take out a task that is not started and no other needs.",
        )
        .calls(async |plan, a: OneTask| plan.remove_task(a.task_id).await.map(data)),
        PlanManager::reads("getTaskList", "Tasks in their order.").calls(
            async |plan, a: GetTaskList| {
                plan.get_task_list(a.status_filter, a.page).await.map(data)
            },
        ),
        PlanManager::reads("getPlanStatus", "Progress in numbers.")
            .calls(async |plan, _: Nothing| plan.get_plan_status().await.map(data)),
        PlanManager::reads(
            "getTaskById",
            "All of one task; limit and offset are of its dependencies.",
        )
        .calls(async |plan, a: GetTaskById| plan.get_task_by_id(a.task_id, a.page).await.map(data)),
        PlanManager::reads(
            "getExecutableTaskList",
            "Pending tasks whose dependencies are met.",
        )
        .calls(async |plan, page| plan.get_executable_task_list(page).await.map(data)),
        PlanManager::changes("pausePlan", "Let nothing new start.")
            .calls(async |plan, _: Nothing| plan.pause_plan().await.map(data)),
        PlanManager::changes("resumePlan", "Go on after a pause.")
            .calls(async |plan, _: Nothing| plan.resume_plan().await.map(data)),
        PlanManager::changes("resetPlan", "Make every task pending again.")
            .calls(async |plan, _: Nothing| plan.reset_plan().await.map(data)),
        PlanManager::reads("getDependencyGraph", "The plan as a graph.").calls(
            async |plan, a: GetDependencyGraph| {
                plan.get_dependency_graph(a.format, a.page).await.map(data)
            },
        ),
        PlanManager::reads("getPlanPrompt", "The plan as a short text.")
            .calls(async |plan, _: Nothing| plan.get_plan_prompt().await.map(data)),
        PlanManager::reads("getParallelTasks", "Which tasks may be done side by side.")
            .calls(async |plan, _: Nothing| plan.get_parallel_tasks().await.map(data)),
    ]
});

impl Functions for PlanManager {
    type Error = PlanManagerError;

    fn on(toolbox: Toolbox) -> Self {
        Self::new(toolbox)
    }

    fn refuse(_: &str, error: PlanManagerError) -> ToolAnswer {
        let (success, value) = (false, error.to_json());
        ToolAnswer { success, value }
    }
}

/// Puts the result of a function into the envelope.
fn data(data: impl Serialize) -> ToolAnswer {
    let (success, value) = (true, json!({ "success": true, "data": data }));
    ToolAnswer { success, value }
}

#[derive(Deserialize, JsonSchema)]
struct CreatePlan {
    goal: String,
    tasks: Vec<PlannedTask>,
    /// Only check.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize, JsonSchema)]
struct OneTask {
    task_id: i64,
}

#[derive(Deserialize, JsonSchema)]
struct GetTaskById {
    task_id: i64,
    #[serde(flatten)]
    page: Page,
}

#[derive(Deserialize, JsonSchema)]
struct CompleteTask {
    task_id: i64,
    result: String,
}

#[derive(Deserialize, JsonSchema)]
struct FailTask {
    task_id: i64,
    error_message: String,
    #[serde(default = "yes")]
    should_retry: bool,
}

#[derive(Deserialize, JsonSchema)]
struct AddTask {
    name: String,
    dependencies: Vec<i64>,
    reasoning: String,
    after_task_id: Option<i64>,
}

#[derive(Deserialize, JsonSchema)]
struct UpdateTask {
    task_id: i64,
    updates: Updates,
}

#[derive(Deserialize, JsonSchema)]
struct SkipTask {
    task_id: i64,
    reason: String,
}

#[derive(Deserialize, JsonSchema)]
struct GetTaskList {
    status_filter: Option<ManagerTaskStatus>,
    #[serde(flatten)]
    page: Page,
}

#[derive(Deserialize, JsonSchema)]
struct GetDependencyGraph {
    #[serde(default)]
    format: GraphFormat,
    #[serde(flatten)]
    page: Page,
}

fn yes() -> bool {
    true
}
