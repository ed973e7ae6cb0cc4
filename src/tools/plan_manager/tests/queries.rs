//! Sections 2, 3.3 and 8: what a plan looks like.

use super::*;
use crate::wire::text::parse_time;

/// A plan with a task in each state: completed, in progress, pending, blocked, failed, skipped.
async fn of_every_state() -> Manager {
    let manager = Manager::with_tasks(&[&[], &[], &[], &[2], &[], &[]]).await;
    manager.start().await;
    manager.complete(1).await;
    manager
        .ok("skipTask", json!({"task_id": 6, "reason": "no"}))
        .await;
    for task in [2, 3] {
        manager
            .ok(
                "updateTask",
                json!({"task_id": task, "updates": {"dependencies": [5]}}),
            )
            .await;
    }
    manager.start().await;
    for task in [2, 3] {
        manager
            .ok(
                "updateTask",
                json!({"task_id": task, "updates": {"dependencies": []}}),
            )
            .await;
    }
    let given = json!({"task_id": 5, "error_message": "no", "should_retry": false});
    manager.ok("failTask", given).await;
    manager.start().await;
    manager
}

#[tokio::test]
async fn the_document_of_section_2_1_is_what_get_plan_returns() {
    let manager = Manager::with_keyboards().await;
    manager.start().await;
    let mut plan = manager.ok("getPlan", json!({})).await;
    for time in ["created_at", "updated_at"] {
        let text = plan["meta"][time].take();
        assert!(parse_time(text.as_str().unwrap()).is_some());
    }
    let mut tasks = keyboards()["tasks"].clone();
    for (place, status) in ["in_progress", "blocked", "blocked", "blocked"]
        .into_iter()
        .enumerate()
    {
        tasks[place]["id"] = json!(place + 1);
        tasks[place]["status"] = json!(status);
        tasks[place]["result"] = Value::Null;
    }
    assert_eq!(
        plan,
        json!({
            "meta": {"goal": keyboards()["goal"], "created_at": null, "updated_at": null},
            "state": {"current_task_id": 1, "status": "running"},
            "tasks": tasks,
        })
    );
}

#[tokio::test]
async fn updated_at_moves_with_each_change() {
    let manager = Manager::with_tasks(&[&[]]).await;
    let times = async || {
        let meta = manager.ok("getPlan", json!({})).await["meta"].clone();
        let time = |name: &str| parse_time(meta[name].as_str().unwrap()).unwrap();
        (time("created_at"), time("updated_at"))
    };
    let (created, made) = times().await;
    assert_eq!(created, made);
    manager.start().await;
    let (same, started) = times().await;
    assert!(same == created && started > made);
    manager.complete(1).await;
    assert!(times().await.1 > started);
}

#[tokio::test]
async fn the_six_states_of_a_task_have_their_words() {
    let manager = of_every_state().await;
    let list = manager.ok("getTaskList", json!({})).await;
    let words: Vec<&str> = list["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["status"].as_str().unwrap())
        .collect();
    assert_eq!(
        words,
        [
            "completed",
            "in_progress",
            "pending",
            "blocked",
            "failed",
            "skipped"
        ]
    );
}

#[tokio::test]
async fn the_list_is_filtered_by_each_state() {
    let manager = of_every_state().await;
    for (task, status) in (1..).zip([
        "completed",
        "in_progress",
        "pending",
        "blocked",
        "failed",
        "skipped",
    ]) {
        let list = manager
            .ok("getTaskList", json!({"status_filter": status}))
            .await;
        assert_eq!(
            (&list["total"], &list["filtered"]),
            (&json!(6), &json!(1)),
            "{status}"
        );
        assert_eq!(
            (&list["tasks"][0]["id"], &list["tasks"][0]["status"]),
            (&json!(task), &json!(status))
        );
    }
    let list = manager.ok("getTaskList", json!({})).await;
    assert_eq!((&list["total"], &list["filtered"]), (&json!(6), &json!(6)));
    let (code, message, details) = manager
        .refused("getTaskList", json!({"status_filter": "done"}))
        .await;
    assert_eq!(code, "INVALID_ARGUMENT");
    assert_eq!(
        message,
        "`status_filter` is \"done\", not one of pending, in_progress, completed, failed, skipped, blocked"
    );
    assert_eq!(details, json!({"argument": "status_filter"}));
}

#[tokio::test]
async fn pending_leaves_out_what_is_blocked() {
    let manager = Manager::with_tasks(&[&[], &[1], &[]]).await;
    assert_eq!(manager.ids(json!("pending")).await, [1, 3]);
    assert_eq!(manager.ids(json!("blocked")).await, [2]);
    manager.start().await;
    manager.complete(1).await;
    assert_eq!(manager.ids(json!("pending")).await, [2, 3]);
}

#[tokio::test]
async fn a_task_has_the_fields_of_the_document_and_no_others() {
    let manager = of_every_state().await;
    let list = manager.ok("getTaskList", json!({})).await;
    for task in list["tasks"].as_array().unwrap() {
        let fields: Vec<&String> = task.as_object().unwrap().keys().collect();
        assert_eq!(
            fields,
            [
                "dependencies",
                "id",
                "name",
                "reasoning",
                "result",
                "status"
            ]
        );
    }
}

#[tokio::test]
async fn the_example_of_the_plan_status_comes_out_as_it_stands() {
    let manager = Manager::with_tasks(&[&[], &[], &[], &[], &[]]).await;
    for task in [1, 2] {
        manager.start().await;
        manager.complete(task).await;
    }
    manager.start().await;
    assert_eq!(
        manager.status().await,
        json!({"status": "running", "progress": 0.4, "current_task_id": 3, "total_tasks": 5, "completed_tasks": 2,
               "failed_tasks": 0, "pending_tasks": 3, "in_progress_tasks": 1, "skipped_tasks": 0})
    );
}

#[tokio::test]
async fn progress_counts_what_was_skipped_and_is_0_without_tasks() {
    let manager = of_every_state().await;
    let status = manager.status().await;
    assert_eq!(status["progress"].as_f64().unwrap(), 2.0 / 6.0);
    let counts = ["completed", "failed", "pending", "in_progress", "skipped"]
        .map(|word| status[format!("{word}_tasks")].clone());
    assert_eq!(json!(counts), json!([1, 1, 3, 1, 1]));
    manager
        .ok("createPlan", json!({"goal": "goal", "tasks": []}))
        .await;
    assert_eq!(manager.status().await["progress"], 0.0);
}

#[tokio::test]
async fn the_five_states_of_a_plan_have_their_words() {
    let manager = Manager::with_tasks(&[&[]]).await;
    let status = async || manager.status().await["status"].clone();
    assert_eq!(status().await, "idle");
    manager.start().await;
    assert_eq!(status().await, "running");
    manager.ok("pausePlan", json!({})).await;
    assert_eq!(status().await, "paused");
    manager.complete(1).await;
    assert_eq!(status().await, "completed");
    manager.ok("resetPlan", json!({})).await;
    manager.start().await;
    let given = json!({"task_id": 1, "error_message": "no", "should_retry": false});
    manager.ok("failTask", given).await;
    assert_eq!(status().await, "failed");
}

#[tokio::test]
async fn an_abandoned_plan_is_shown_as_failed() {
    let manager = Manager::with_tasks(&[&[]]).await;
    let plan = manager.0.store().plans().await.unwrap()[0].head.id.clone();
    manager
        .0
        .change(&plan, "", |draft| draft.abandon("no"))
        .await
        .unwrap();
    assert_eq!(manager.status().await["status"], "failed");
    let (_, message, _) = manager.refused("startNextTask", json!({})).await;
    assert_eq!(message, "The plan is failed");
}

#[tokio::test]
async fn a_task_is_found_by_its_id() {
    let manager = Manager::with_keyboards().await;
    assert_eq!(
        manager.ok("getTaskById", json!({"task_id": 2})).await,
        json!({"task": {"id": 2, "name": "Search for mechanical keyboard", "status": "blocked", "dependencies": [1],
                        "reasoning": "Can only search after homepage is loaded", "result": null}})
    );
}

#[tokio::test]
async fn executable_are_pending_tasks_whose_dependencies_are_met() {
    let manager = Manager::with_tasks(&[&[], &[1], &[], &[2, 3]]).await;
    let executable = async || {
        let list = manager.ok("getExecutableTaskList", json!({})).await;
        let tasks = list["executable_tasks"].as_array().unwrap().clone();
        assert_eq!(list["count"], tasks.len());
        tasks
            .iter()
            .map(|task| task["id"].as_i64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(executable().await, [1, 3]);
    manager.start().await;
    assert_eq!(executable().await, [3]);
    manager.complete(1).await;
    assert_eq!(executable().await, [2, 3]);
    manager
        .ok("skipTask", json!({"task_id": 2, "reason": "no"}))
        .await;
    manager
        .ok("skipTask", json!({"task_id": 3, "reason": "no"}))
        .await;
    assert_eq!(executable().await, [4]);
}

#[tokio::test]
async fn the_plan_is_drawn_as_a_graph_in_both_languages() {
    let manager = Manager::with_tasks(&[&[], &[1]]).await;
    let drawn = manager.ok("getDependencyGraph", json!({})).await;
    assert_eq!(drawn["format"], "mermaid");
    let graph = drawn["graph"].as_str().unwrap();
    assert!(
        graph.starts_with("graph LR\n  t1[\"1 · Task 1<br/>ready\"]:::pending\n"),
        "{graph}"
    );
    assert!(graph.contains("  t1 --> t2\n"), "{graph}");
    let drawn = manager
        .ok("getDependencyGraph", json!({"format": "dot"}))
        .await;
    assert!(drawn["graph"].as_str().unwrap().contains("  t1 -> t2;\n"));
    assert_eq!(
        manager
            .code("getDependencyGraph", json!({"format": "png"}))
            .await,
        "INVALID_ARGUMENT"
    );
}

#[tokio::test]
async fn the_plan_is_written_as_a_prompt() {
    let manager = of_every_state().await;
    let prompt = manager.ok("getPlanPrompt", json!({})).await;
    insta::assert_snapshot!(prompt["prompt"].as_str().unwrap(), @r#"
    Goal: goal
    Plan: running, 3 of 6 tasks settled (1 completed, 1 skipped, 1 failed)
    In progress: 2
    Executable now: 3
    Tasks:
    1. [completed] Task 1: done
    2. [in_progress] Task 2
    3. [executable] Task 3
    4. [blocked] Task 4 (waits for 2)
    5. [failed] Task 5: no
    6. [skipped] Task 6: no
    "#);
}

#[tokio::test]
async fn tasks_that_may_be_done_side_by_side_are_found() {
    let manager = Manager::with_tasks(&[&[], &[], &[1], &[1, 2], &[4], &[3, 5]]).await;
    manager.start().await;
    assert_eq!(
        manager.ok("getParallelTasks", json!({})).await,
        json!({"parallel_tasks": [1, 2], "groups": [[1, 2], [3, 4], [5], [6]]})
    );
    let given = json!({"task_id": 1, "error_message": "no", "should_retry": false});
    manager.ok("failTask", given).await;
    assert_eq!(
        manager.ok("getParallelTasks", json!({})).await,
        json!({"parallel_tasks": [2], "groups": [[2]], "left": 4})
    );
}
