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
        .calls(async |plan, given| plan.create_plan(given).await.map(data)),
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
        PlanManager::changes("completeTask", "Complete the task in progress.")
            .calls(async |plan, given| plan.complete_task(given).await.map(data)),
        PlanManager::changes("failTask", "Record a failure of the task in progress.")
            .calls(async |plan, given| plan.fail_task(given).await.map(data)),
        PlanManager::changes("addTask", "Add a task.")
            .calls(async |plan, given| plan.add_task(given).await.map(data)),
        PlanManager::changes("updateTask", "Change a task that is not started.")
            .calls(async |plan, given| plan.update_task(given).await.map(data)),
        PlanManager::changes(
            "skipTask",
            "Leave a task out; those that wait for it may go on.",
        )
        .calls(async |plan, given| plan.skip_task(given).await.map(data)),
        PlanManager::changes(
            "removeTask",
            "Take out a task that is not started and no other needs.",
        )
        .calls(async |plan, a: OneTask| plan.remove_task(a.task_id).await.map(data)),
        PlanManager::reads("getTaskList", "Tasks in their order.")
            .calls(async |plan, given| plan.get_task_list(given).await.map(data)),
        PlanManager::reads("getPlanStatus", "Progress in numbers.")
            .calls(async |plan, _: Nothing| plan.get_plan_status().await.map(data)),
        PlanManager::reads(
            "getTaskById",
            "All of one task; limit and offset are of its dependencies.",
        )
        .calls(async |plan, given| plan.get_task_by_id(given).await.map(data)),
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
        PlanManager::reads("getDependencyGraph", "The plan as a graph.")
            .calls(async |plan, given| plan.get_dependency_graph(given).await.map(data)),
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
struct OneTask {
    task_id: i64,
}
