//! Section 3.2: adding, changing, skipping and removing tasks; making the plan.

use super::*;

#[tokio::test]
async fn rejects_unknown_dependencies() {
    let manager = Manager::with_tasks(&[&[]]).await;
    for unknown in [0, 2, 9, -1, 99_999_999_999_i64] {
        let calls = format!(
            r#"
            ! addTask {{"name": "n", "dependencies": [1, {unknown}], "reasoning": ""}} => INVALID_DEPENDENCY: … {{"dependency":{unknown}}}
            ! updateTask {{"task_id": 1, "updates": {{"dependencies": [{unknown}]}}}} => INVALID_DEPENDENCY: …
            "#
        );
        manager.run(&calls).await;
    }
}

#[tokio::test]
async fn update_task_changes_single_fields() {
    let manager = Manager::with_tasks(&[&[], &[1]]).await;
    let mut task = manager.task(2).await;
    for (field, value) in [
        ("name", json!("New")),
        ("reasoning", json!("why")),
        ("dependencies", json!([])),
    ] {
        let given = json!({"task_id": 2, "updates": {field: value}});
        let updated = manager.ok("updateTask", given).await;
        task[field] = value;
        if field == "dependencies" {
            task["status"] = json!("pending");
        }
        let message = "Task updated successfully";
        assert_eq!(updated, json!({"updated_task": task, "message": message}));
        assert_eq!(manager.task(2).await, task);
    }
}

#[tokio::test]
async fn create_plan_is_one_change() {
    let manager = Manager::empty().await;
    let created = manager.ok("createPlan", keyboards()).await;
    let wanted = json!({
        "plan_id": created["plan_id"], "replaced_plan_id": null, "total_tasks": 4, "executable_tasks": 1,
        "message": "Plan created successfully",
    });
    assert_eq!(created, wanted);
    assert_eq!(rows(&manager.0).await[0].0, 1);
    assert_eq!(manager.status().await["status"], "idle");
}

#[tokio::test]
async fn create_plan_archives_old_plan() {
    let manager = Manager::with_keyboards().await;
    let old = manager.plan().await;
    let given = json!({"goal": "Another", "tasks": [{"name": "One"}]});
    let created = manager.ok("createPlan", given).await;
    assert_eq!(created["replaced_plan_id"], old.as_str());
    assert_eq!(manager.status().await["total_tasks"], 1);
    let kept = manager.0.store().archived("plan-manager", 0, 10).await;
    let (kept, total) = kept.unwrap();
    assert_eq!((total, &kept[0].head.id), (1, &old));
}

#[tokio::test]
async fn plan_manager_dry_run_creates_nothing() {
    let manager = Manager::with_tasks(&[&[]]).await;
    let before = rows(&manager.0).await;
    let mut given = keyboards();
    given["dry_run"] = json!(true);
    let checked = manager.ok("createPlan", given.clone()).await;
    let wanted = json!({
        "plan_id": null, "replaced_plan_id": manager.plan().await, "total_tasks": 4, "executable_tasks": 1,
        "message": "The plan is valid; nothing was created",
    });
    assert_eq!(checked, wanted);
    assert_eq!(rows(&manager.0).await, before);
    given["tasks"][0]["dependencies"] = json!([4]);
    let wanted = r#"CIRCULAR_DEPENDENCY: … {"cycle":[1,4,3,2,1]}"#;
    manager
        .run(&format!("! createPlan {given} => {wanted}"))
        .await;
}

#[tokio::test]
async fn tasks_are_added_changed_skipped_and_removed() {
    let table = r#"
        == add_task_returns_new_task: [[]]
        addTask {"name": "Close popup", "dependencies": [1], "reasoning": "because"} => {"new_task": {"id": 2, "name": "Close popup", "status": "blocked", "dependencies": [1], "reasoning": "because", "result": null}, "message": "Task added successfully"}

        == add_task_appends_or_inserts_after: [[], []]
        addTask {"name": "At the end", "dependencies": [], "reasoning": ""}
        addTask {"name": "Behind", "dependencies": [], "reasoning": "", "after_task_id": 1} =~ {"new_task": {"id": 4}}
        addTask {"name": "Behind", "dependencies": [], "reasoning": "", "after_task_id": 1} =~ {"new_task": {"id": 5}}
        getTaskList {} =~ {"tasks": [{"id": 1}, {"id": 5}, {"id": 4}, {"id": 2}, {"id": 3}]}

        == add_task_after_unknown_task_fails: [[]]
        ! addTask {"name": "n", "dependencies": [], "reasoning": "", "after_task_id": 7} => TASK_NOT_FOUND: Task with ID 7 not found

        == removed_task_id_is_not_reused: [[], []]
        removeTask {"task_id": 2}
        ! addTask {"name": "n", "dependencies": [2], "reasoning": ""} => INVALID_DEPENDENCY: …
        addTask {"name": "n", "dependencies": [], "reasoning": ""} =~ {"new_task": {"id": 3}}

        == add_task_reopens_ended_plan: [[]]
        startNextTask
        completeTask {"task_id": 1, "result": "done"}
        addTask {"name": "One more", "dependencies": [1], "reasoning": ""}
        getPlanStatus =~ {"status": "running", "progress": 0.5}
        startNextTask =~ {"task": {"id": 2}}

        == empty_update_is_rejected: [[]]
        ! updateTask {"task_id": 1, "updates": {}} => INVALID_ARGUMENT: …
        ! updateTask {"task_id": 1, "updates": {"name": null}} => INVALID_ARGUMENT: …
        ! updateTask {"task_id": 1, "updates": {"name": " "}} => INVALID_ARGUMENT: …
        ! updateTask {"task_id": 1, "updates": {"status": "completed"}} => INVALID_ARGUMENT: …
        ! updateTask {"task_id": 1, "updates": {"result": "x"}} => INVALID_ARGUMENT: …

        == only_waiting_task_is_updated_or_removed: [[], [], [], []]
        startNextTask
        completeTask {"task_id": 1, "result": "done"}
        startNextTask
        failTask {"task_id": 2, "error_message": "no", "should_retry": false}
        skipTask {"task_id": 3, "reason": "no"}
        startNextTask
        ! updateTask {"task_id": 1, "updates": {"name": "n"}} => TASK_NOT_EDITABLE: Task 1 is completed {"status":"completed","task_id":1}
        ! removeTask {"task_id": 1} => TASK_NOT_EDITABLE: Task 1 is completed {"status":"completed","task_id":1}
        ! updateTask {"task_id": 2, "updates": {"name": "n"}} => TASK_NOT_EDITABLE: Task 2 is failed {"status":"failed","task_id":2}
        ! removeTask {"task_id": 2} => TASK_NOT_EDITABLE: Task 2 is failed {"status":"failed","task_id":2}
        ! updateTask {"task_id": 3, "updates": {"name": "n"}} => TASK_NOT_EDITABLE: Task 3 is skipped {"status":"skipped","task_id":3}
        ! removeTask {"task_id": 3} => TASK_NOT_EDITABLE: Task 3 is skipped {"status":"skipped","task_id":3}
        ! updateTask {"task_id": 4, "updates": {"name": "n"}} => TASK_NOT_EDITABLE: Task 4 is in_progress {"status":"in_progress","task_id":4}
        ! removeTask {"task_id": 4} => TASK_NOT_EDITABLE: Task 4 is in_progress {"status":"in_progress","task_id":4}

        == blocked_task_can_be_edited_skipped_and_removed: [[], [1], [1]]
        updateTask {"task_id": 2, "updates": {"name": "n"}}
        skipTask {"task_id": 2, "reason": "no"}
        removeTask {"task_id": 3}

        == update_error_shows_dependency_cycle: [[], [1]]
        ! updateTask {"task_id": 1, "updates": {"dependencies": [2]}} => CIRCULAR_DEPENDENCY: The dependencies form a cycle: 1 → 2 → 1 {"cycle":[1,2,1]}
        ! updateTask {"task_id": 1, "updates": {"dependencies": [1]}} => CIRCULAR_DEPENDENCY: … {"cycle":[1,1]}

        == skipped_task_keeps_reason_and_unblocks_others: [[], [1]]
        skipTask {"task_id": 1, "reason": "reason"} => {"task_id": 1, "message": "Task skipped: reason"}
        getTaskById {"task_id": 1} =~ {"task": {"status": "skipped", "result": "reason"}}
        getTaskById {"task_id": 2} =~ {"task": {"status": "pending"}}

        == running_or_failed_task_can_be_skipped: [[], []]
        startNextTask
        skipTask {"task_id": 1, "reason": "no"}
        startNextTask
        failTask {"task_id": 2, "error_message": "no", "should_retry": false}
        getPlanStatus =~ {"status": "failed"}
        skipTask {"task_id": 2, "reason": "not needed"}
        getPlanStatus =~ {"status": "completed"}

        == completed_or_skipped_task_cannot_be_skipped: [[], []]
        startNextTask
        completeTask {"task_id": 1, "result": "done"}
        skipTask {"task_id": 2, "reason": "no"}
        ! skipTask {"task_id": 1, "reason": "no"} => TASK_NOT_EDITABLE: … {"status":"completed","task_id":1}
        ! skipTask {"task_id": 2, "reason": "no"} => TASK_NOT_EDITABLE: … {"status":"skipped","task_id":2}
        getPlanStatus =~ {"status": "completed"}

        == remove_task_deletes_task: [[], []]
        removeTask {"task_id": 1} => {"task_id": 1, "message": "Task removed successfully"}
        ! getTaskById {"task_id": 1} => TASK_NOT_FOUND: …
        getPlanStatus =~ {"total_tasks": 1}

        == task_with_dependants_cannot_be_removed: [[], [1], [1]]
        ! removeTask {"task_id": 1} => INVALID_DEPENDENCY: Task `1` is needed by `2`, `3` {"dependants":[2,3],"task_id":1}

        == removing_last_open_task_completes_plan: [[], [1]]
        startNextTask
        completeTask {"task_id": 1, "result": "done"}
        removeTask {"task_id": 2}
        getPlanStatus =~ {"status": "completed"}

        == create_plan_rejects_inconsistent_plan: [[]]
        ! createPlan {"goal": "g", "tasks": [{"name": "a"}, {"name": "b", "dependencies": [0]}]} => INVALID_DEPENDENCY: … {"dependency":0}
        ! createPlan {"goal": "g", "tasks": [{"name": "a"}, {"name": "b", "dependencies": [-1]}]} => INVALID_DEPENDENCY: … {"dependency":-1}
        ! createPlan {"goal": "g", "tasks": [{"name": "a"}, {"name": "b", "dependencies": [3]}]} => INVALID_DEPENDENCY: … {"dependency":3}
        ! createPlan {"goal": "g", "tasks": [{"name": "a"}, {"name": "b", "dependencies": [99999999999]}]} => INVALID_DEPENDENCY: … {"dependency":99999999999}
        ! createPlan {"goal": "g", "tasks": [{"name": "a", "dependencies": [2]}, {"name": "b", "dependencies": [1]}]} => CIRCULAR_DEPENDENCY: … {"cycle":[1,2,1]}
        ! createPlan {"goal": "g", "tasks": [{"name": " "}]} => INVALID_ARGUMENT: …
        ! createPlan {"goal": "g", "tasks": [{"reasoning": "no name"}]} => INVALID_ARGUMENT: …
        ! createPlan {"goal": "g", "tasks": [{"name": "n", "id": 1}]} => INVALID_ARGUMENT: …
        ! createPlan {"goal": "g", "tasks": "no list"} => INVALID_ARGUMENT: …
        ! createPlan {"goal": " ", "tasks": []} => INVALID_ARGUMENT: …

        == dependency_error_names_new_task_or_task_id: [[], []]
        ! addTask {"name": "Last", "dependencies": [77], "reasoning": "r"} => INVALID_DEPENDENCY: The new task `Last` depends on `77`, which does not exist {"dependency":77}
        ! updateTask {"task_id": 2, "updates": {"dependencies": [77]}} => INVALID_DEPENDENCY: Task `2` depends on `77`, which does not exist {"dependency":77}
        "#;
    cases(table).await;
}
