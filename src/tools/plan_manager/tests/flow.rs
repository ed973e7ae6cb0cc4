//! Sections 3.1, 5 and 6: from one task to the next.

use super::*;

#[tokio::test]
async fn the_example_of_section_5_runs_as_it_stands() {
    let manager = Manager::with_keyboards().await;
    manager.start().await;
    let current = manager.ok("getCurrentTask", json!({})).await;
    let given = json!({"task_id": current["id"], "result": "Successfully navigated to homepage"});
    manager.ok("completeTask", given).await;
    let next = manager.start().await;
    assert_eq!(next["task"]["name"], "Search for mechanical keyboard");
    let given = json!({"name": "Close popup dialog", "dependencies": [1],
                       "reasoning": "Unexpected popup appeared blocking the search", "after_task_id": 1});
    assert_eq!(manager.ok("addTask", given).await["new_task"]["id"], 5);
    let given = json!({"name": "Add item to cart", "dependencies": [2, 3],
                       "reasoning": "Final step to complete the purchase goal"});
    assert_eq!(manager.ok("addTask", given).await["new_task"]["id"], 6);
    assert_eq!(manager.ids(Value::Null).await, [1, 5, 2, 3, 4, 6]);
    let status = manager.status().await;
    assert_eq!(status["status"], "running");
    assert_eq!(status["current_task_id"], 2);
    let executable = manager.ok("getExecutableTaskList", json!({})).await;
    assert_eq!(executable["count"], 1);
    assert_eq!(
        executable["executable_tasks"][0]["name"],
        "Close popup dialog"
    );
}

#[tokio::test]
async fn the_calls_of_section_6_work_one_after_the_other() {
    let manager = Manager::with_keyboards().await;
    manager.start().await;
    assert_eq!(manager.ok("getCurrentTask", json!({})).await["id"], 1);
    manager
        .ok(
            "completeTask",
            json!({"task_id": 1, "result": "Successfully loaded JD homepage"}),
        )
        .await;
    let given = json!({"name": "Handle login verification", "dependencies": [1],
                       "reasoning": "Phone verification popup appeared during login"});
    manager.ok("addTask", given).await;
    let given = json!({"task_id": 3, "updates": {"dependencies": [1, 5]}});
    manager.ok("updateTask", given).await;
    assert_eq!(manager.task(3).await["dependencies"], json!([1, 5]));
    let reason = "Price filter not needed, items already in range";
    let skipped = manager
        .ok("skipTask", json!({"task_id": 4, "reason": reason}))
        .await;
    assert_eq!(skipped["message"], format!("Task skipped: {reason}"));
}

#[tokio::test]
async fn the_current_task_has_the_fields_of_the_document() {
    let manager = Manager::with_keyboards().await;
    manager.start().await;
    assert_eq!(
        manager.ok("getCurrentTask", json!({})).await,
        json!({"id": 1, "name": "Navigate to JD homepage", "status": "in_progress", "dependencies": [],
               "reasoning": "Need to open the target website first"})
    );
}

#[tokio::test]
async fn the_current_task_is_null_when_none_is_in_progress() {
    let manager = Manager::with_keyboards().await;
    assert_eq!(manager.ok("getCurrentTask", json!({})).await, Value::Null);
    manager.start().await;
    manager.complete(1).await;
    assert_eq!(manager.ok("getCurrentTask", json!({})).await, Value::Null);
    assert_eq!(manager.status().await["current_task_id"], Value::Null);
}

#[tokio::test]
async fn starting_returns_the_task_and_names_it() {
    let manager = Manager::with_keyboards().await;
    manager.start().await;
    manager.complete(1).await;
    assert_eq!(
        manager.start().await,
        json!({
            "task": {"id": 2, "name": "Search for mechanical keyboard", "status": "in_progress", "dependencies": [1],
                     "reasoning": "Can only search after homepage is loaded", "result": null},
            "message": "Started task 2: Search for mechanical keyboard",
        })
    );
}

#[tokio::test]
async fn the_first_executable_task_in_the_plans_order_starts() {
    let manager = Manager::with_tasks(&[&[2], &[], &[]]).await;
    let given = json!({"name": "First", "dependencies": [], "reasoning": "", "after_task_id": 1});
    manager.ok("addTask", given).await;
    assert_eq!(manager.start().await["task"]["id"], 4);
    manager.complete(4).await;
    assert_eq!(manager.start().await["task"]["id"], 2);
    manager.complete(2).await;
    assert_eq!(manager.start().await["task"]["id"], 1);
}

#[tokio::test]
async fn one_task_is_in_progress_at_a_time() {
    let manager = Manager::with_tasks(&[&[], &[]]).await;
    manager.start().await;
    let (code, message, details) = manager.refused("startNextTask", json!({})).await;
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("INVALID_STATUS", "Task 1 is in progress")
    );
    assert_eq!(details, json!({"current_task_id": 1}));
}

#[tokio::test]
async fn nothing_starts_when_every_task_waits() {
    let manager = Manager::with_tasks(&[&[], &[1], &[2]]).await;
    manager.start().await;
    let given = json!({"task_id": 1, "error_message": "no", "should_retry": false});
    manager.ok("failTask", given).await;
    let (code, _, details) = manager.refused("startNextTask", json!({})).await;
    assert_eq!(code, "INVALID_STATUS");
    assert_eq!(
        details,
        json!({"blocked_tasks": [2, 3], "failed_tasks": [1], "waits_for": [1]})
    );
}

#[tokio::test]
async fn nothing_starts_in_a_plan_without_tasks() {
    let manager = Manager::empty().await;
    manager
        .ok("createPlan", json!({"goal": "goal", "tasks": []}))
        .await;
    let (code, message, _) = manager.refused("startNextTask", json!({})).await;
    assert_eq!(code, "INVALID_STATUS");
    assert_eq!(message, "The plan has no tasks; addTask adds one");
}

#[tokio::test]
async fn nothing_starts_in_a_plan_that_has_ended() {
    let manager = Manager::with_tasks(&[&[]]).await;
    manager.start().await;
    manager.complete(1).await;
    let (code, message, details) = manager.refused("startNextTask", json!({})).await;
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("PLAN_NOT_ACTIVE", "The plan is completed")
    );
    assert_eq!(details, json!({"plan_status": "completed"}));
}

#[tokio::test]
async fn a_completed_task_keeps_its_result() {
    let manager = Manager::with_keyboards().await;
    manager.start().await;
    let completed = manager
        .ok("completeTask", json!({"task_id": 1, "result": "Open"}))
        .await;
    assert_eq!(
        completed,
        json!({"task_id": 1, "message": "Task completed successfully"})
    );
    let task = manager.task(1).await;
    assert_eq!(
        (&task["status"], &task["result"]),
        (&json!("completed"), &json!("Open"))
    );
}

#[tokio::test]
async fn only_a_task_in_progress_is_completed() {
    let manager = Manager::with_tasks(&[&[], &[1]]).await;
    for (task, status) in [(1, "pending"), (2, "blocked")] {
        let given = json!({"task_id": task, "result": "done"});
        let (code, message, details) = manager.refused("completeTask", given).await;
        assert_eq!(code, "INVALID_STATUS");
        assert_eq!(message, format!("Task {task} is {status}"));
        assert_eq!(details, json!({"task_id": task, "status": status}));
    }
    manager.start().await;
    manager.complete(1).await;
    let given = json!({"task_id": 1, "result": "again"});
    assert_eq!(manager.code("completeTask", given).await, "INVALID_STATUS");
}

#[tokio::test]
async fn the_plan_is_completed_with_its_last_task() {
    let manager = Manager::with_tasks(&[&[], &[1]]).await;
    manager.start().await;
    manager.complete(1).await;
    assert_eq!(manager.status().await["status"], "running");
    manager.start().await;
    manager.complete(2).await;
    let status = manager.status().await;
    assert_eq!(
        (&status["status"], &status["progress"]),
        (&json!("completed"), &json!(1.0))
    );
}

#[tokio::test]
async fn the_plan_has_failed_when_a_task_of_its_settled_ones_has() {
    let manager = Manager::with_tasks(&[&[], &[]]).await;
    manager.start().await;
    let given = json!({"task_id": 1, "error_message": "no", "should_retry": false});
    manager.ok("failTask", given).await;
    assert_eq!(manager.status().await["status"], "running");
    manager.start().await;
    manager.complete(2).await;
    assert_eq!(manager.status().await["status"], "failed");
}

#[tokio::test]
async fn a_failed_task_is_tried_again_unless_it_is_said_otherwise() {
    let manager = Manager::with_tasks(&[&[]]).await;
    manager.start().await;
    let given = json!({"task_id": 1, "error_message": "time-out"});
    assert_eq!(
        manager.ok("failTask", given).await,
        json!({"task_id": 1, "will_retry": true, "retry_count": 1, "message": "Task failed, will retry"})
    );
    let task = manager.task(1).await;
    assert_eq!(
        (&task["status"], &task["result"]),
        (&json!("pending"), &Value::Null)
    );
    let found = manager.ok("getTaskById", json!({"task_id": 1})).await;
    assert_eq!(
        (&found["retry_count"], &found["last_error"]),
        (&json!(1), &json!("time-out"))
    );
}

#[tokio::test]
async fn the_third_failure_is_the_last() {
    let manager = Manager::with_tasks(&[&[], &[]]).await;
    for count in 1..=3 {
        assert_eq!(manager.start().await["task"]["id"], 1);
        let given = json!({"task_id": 1, "error_message": format!("error {count}")});
        let failed = manager.ok("failTask", given).await;
        assert_eq!(failed["retry_count"], count);
        assert_eq!(failed["will_retry"], count < 3);
        assert_eq!(
            failed["message"],
            if count < 3 {
                "Task failed, will retry"
            } else {
                "Task failed, will not retry"
            }
        );
    }
    let task = manager.task(1).await;
    assert_eq!(
        (&task["status"], &task["result"]),
        (&json!("failed"), &json!("error 3"))
    );
    assert_eq!(manager.start().await["task"]["id"], 2);
}

#[tokio::test]
async fn a_success_ends_the_row_of_failures() {
    let manager = Manager::with_tasks(&[&[], &[1]]).await;
    manager.start().await;
    manager
        .ok("failTask", json!({"task_id": 1, "error_message": "once"}))
        .await;
    manager.start().await;
    manager.complete(1).await;
    let found = manager.ok("getTaskById", json!({"task_id": 1})).await;
    assert_eq!(found.get("retry_count"), None);
    assert_eq!(found["task"]["result"], "done");
}

#[tokio::test]
async fn should_retry_false_fails_at_once() {
    let manager = Manager::with_tasks(&[&[], &[1]]).await;
    manager.start().await;
    let given = json!({"task_id": 1, "error_message": "gone", "should_retry": false});
    let failed = manager.ok("failTask", given).await;
    assert_eq!(
        (&failed["will_retry"], &failed["retry_count"]),
        (&json!(false), &json!(1))
    );
    let task = manager.task(1).await;
    assert_eq!(
        (&task["status"], &task["result"]),
        (&json!("failed"), &json!("gone"))
    );
    assert_eq!(manager.task(2).await["status"], "blocked");
}

#[tokio::test]
async fn only_a_task_in_progress_fails() {
    let manager = Manager::with_tasks(&[&[]]).await;
    let given = json!({"task_id": 1, "error_message": "no"});
    assert_eq!(manager.code("failTask", given).await, "INVALID_STATUS");
}

#[tokio::test]
async fn the_log_names_the_function_and_the_reason() {
    let manager = Manager::with_tasks(&[&[], &[]]).await;
    manager.start().await;
    manager
        .ok("failTask", json!({"task_id": 1, "error_message": "no net"}))
        .await;
    manager
        .ok("skipTask", json!({"task_id": 2, "reason": "not needed"}))
        .await;
    let plan = manager.0.store().plans().await.unwrap()[0].head.id.clone();
    let changes = manager.0.store().since(&plan, 0, 10).await.unwrap();
    let why: Vec<&str> = changes.iter().map(|change| change.why.as_str()).collect();
    assert_eq!(
        why,
        [
            "createPlan",
            "startNextTask",
            "failTask: no net",
            "skipTask: not needed"
        ]
    );
    assert!(changes.iter().all(|change| change.by == "library"));
}
