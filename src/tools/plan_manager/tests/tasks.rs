//! Section 3.2: adding, changing, skipping and removing tasks; making the plan.

use super::*;

fn new(name: &str, dependencies: &[i64]) -> Value {
    json!({"name": name, "dependencies": dependencies, "reasoning": "because"})
}

#[tokio::test]
async fn an_added_task_is_returned_as_it_is() {
    let manager = Manager::with_tasks(&[&[]]).await;
    assert_eq!(
        manager.ok("addTask", new("Close popup", &[1])).await,
        json!({
            "new_task": {"id": 2, "name": "Close popup", "status": "blocked", "dependencies": [1],
                         "reasoning": "because", "result": null},
            "message": "Task added successfully",
        })
    );
}

#[tokio::test]
async fn a_task_is_added_at_the_end_or_behind_another() {
    let manager = Manager::with_tasks(&[&[], &[]]).await;
    manager.ok("addTask", new("At the end", &[])).await;
    for id in [4, 5] {
        let mut given = new("Behind the first", &[]);
        given["after_task_id"] = json!(1);
        assert_eq!(manager.ok("addTask", given).await["new_task"]["id"], id);
    }
    assert_eq!(manager.ids(Value::Null).await, [1, 5, 4, 2, 3]);
}

#[tokio::test]
async fn a_task_is_added_only_behind_one_that_exists() {
    let manager = Manager::with_tasks(&[&[]]).await;
    let mut given = new("Behind nothing", &[]);
    given["after_task_id"] = json!(7);
    let (code, message, _) = manager.refused("addTask", given).await;
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("TASK_NOT_FOUND", "Task with ID 7 not found")
    );
}

#[tokio::test]
async fn dependencies_exist() {
    let manager = Manager::with_tasks(&[&[]]).await;
    for unknown in [0, 2, 9, -1, 99_999_999_999_i64] {
        let (code, _, details) = manager.refused("addTask", new("n", &[1, unknown])).await;
        assert_eq!(
            (code.as_str(), details),
            ("INVALID_DEPENDENCY", json!({"dependency": unknown}))
        );
        let given = json!({"task_id": 1, "updates": {"dependencies": [unknown]}});
        assert_eq!(
            manager.code("updateTask", given).await,
            "INVALID_DEPENDENCY"
        );
    }
}

#[tokio::test]
async fn a_removed_task_is_no_dependency_and_its_id_is_not_used_again() {
    let manager = Manager::with_tasks(&[&[], &[]]).await;
    manager.ok("removeTask", json!({"task_id": 2})).await;
    assert_eq!(
        manager.code("addTask", new("n", &[2])).await,
        "INVALID_DEPENDENCY"
    );
    assert_eq!(
        manager.ok("addTask", new("n", &[])).await["new_task"]["id"],
        3
    );
}

#[tokio::test]
async fn a_plan_that_has_ended_goes_on_with_a_new_task() {
    let manager = Manager::with_tasks(&[&[]]).await;
    manager.start().await;
    manager.complete(1).await;
    manager.ok("addTask", new("One more", &[1])).await;
    let status = manager.status().await;
    assert_eq!(
        (&status["status"], &status["progress"]),
        (&json!("running"), &json!(0.5))
    );
    assert_eq!(manager.start().await["task"]["id"], 2);
}

#[tokio::test]
async fn each_field_of_a_task_is_updated_alone() {
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
        assert_eq!(
            updated,
            json!({"updated_task": task, "message": "Task updated successfully"})
        );
        assert_eq!(manager.task(2).await, task);
    }
}

#[tokio::test]
async fn an_update_changes_something() {
    let manager = Manager::with_tasks(&[&[]]).await;
    for updates in [json!({}), json!({"name": null})] {
        let given = json!({"task_id": 1, "updates": updates});
        assert_eq!(manager.code("updateTask", given).await, "INVALID_ARGUMENT");
    }
    for updates in [
        json!({"name": " "}),
        json!({"status": "completed"}),
        json!({"result": "x"}),
    ] {
        let given = json!({"task_id": 1, "updates": updates});
        assert_eq!(manager.code("updateTask", given).await, "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn only_a_task_that_waits_is_updated_or_removed() {
    let manager = Manager::with_tasks(&[&[], &[], &[], &[]]).await;
    manager.start().await;
    manager.complete(1).await;
    manager.start().await;
    let given = json!({"task_id": 2, "error_message": "no", "should_retry": false});
    manager.ok("failTask", given).await;
    manager
        .ok("skipTask", json!({"task_id": 3, "reason": "no"}))
        .await;
    manager.start().await;
    for (task, status) in [
        (1, "completed"),
        (2, "failed"),
        (3, "skipped"),
        (4, "in_progress"),
    ] {
        for (name, given) in [
            (
                "updateTask",
                json!({"task_id": task, "updates": {"name": "n"}}),
            ),
            ("removeTask", json!({"task_id": task})),
        ] {
            let (code, message, details) = manager.refused(name, given).await;
            assert_eq!(code, "TASK_NOT_EDITABLE", "{name} {status}");
            assert_eq!(message, format!("Task {task} is {status}"));
            assert_eq!(details, json!({"task_id": task, "status": status}));
        }
    }
}

#[tokio::test]
async fn a_blocked_task_is_updated_skipped_and_removed_like_a_pending_one() {
    let manager = Manager::with_tasks(&[&[], &[1], &[1]]).await;
    manager
        .ok(
            "updateTask",
            json!({"task_id": 2, "updates": {"name": "n"}}),
        )
        .await;
    manager
        .ok("skipTask", json!({"task_id": 2, "reason": "no"}))
        .await;
    manager.ok("removeTask", json!({"task_id": 3})).await;
}

#[tokio::test]
async fn an_update_that_makes_a_circle_is_refused_with_the_way_round() {
    let manager = Manager::with_tasks(&[&[], &[1]]).await;
    let given = json!({"task_id": 1, "updates": {"dependencies": [2]}});
    let (code, message, details) = manager.refused("updateTask", given).await;
    assert_eq!(code, "CIRCULAR_DEPENDENCY");
    assert_eq!(message, "The dependencies form a cycle: 1 → 2 → 1");
    assert_eq!(details, json!({"cycle": [1, 2, 1]}));
    let given = json!({"task_id": 1, "updates": {"dependencies": [1]}});
    assert_eq!(
        manager.refused("updateTask", given).await.2,
        json!({"cycle": [1, 1]})
    );
}

#[tokio::test]
async fn a_skipped_task_tells_why_and_lets_others_go_on() {
    let manager = Manager::with_tasks(&[&[], &[1]]).await;
    let skipped = manager
        .ok("skipTask", json!({"task_id": 1, "reason": "reason"}))
        .await;
    assert_eq!(
        skipped,
        json!({"task_id": 1, "message": "Task skipped: reason"})
    );
    let task = manager.task(1).await;
    assert_eq!(
        (&task["status"], &task["result"]),
        (&json!("skipped"), &json!("reason"))
    );
    assert_eq!(manager.task(2).await["status"], "pending");
}

#[tokio::test]
async fn a_task_in_progress_and_a_failed_one_can_be_skipped() {
    let manager = Manager::with_tasks(&[&[], &[]]).await;
    manager.start().await;
    manager
        .ok("skipTask", json!({"task_id": 1, "reason": "no"}))
        .await;
    manager.start().await;
    let given = json!({"task_id": 2, "error_message": "no", "should_retry": false});
    manager.ok("failTask", given).await;
    assert_eq!(manager.status().await["status"], "failed");
    manager
        .ok("skipTask", json!({"task_id": 2, "reason": "not needed"}))
        .await;
    assert_eq!(manager.status().await["status"], "completed");
}

#[tokio::test]
async fn a_completed_task_is_not_skipped_nor_one_skipped_twice() {
    let manager = Manager::with_tasks(&[&[], &[]]).await;
    manager.start().await;
    manager.complete(1).await;
    manager
        .ok("skipTask", json!({"task_id": 2, "reason": "no"}))
        .await;
    for (task, status) in [(1, "completed"), (2, "skipped")] {
        let given = json!({"task_id": task, "reason": "no"});
        let (code, _, details) = manager.refused("skipTask", given).await;
        assert_eq!(code, "TASK_NOT_EDITABLE");
        assert_eq!(details, json!({"task_id": task, "status": status}));
    }
    assert_eq!(manager.status().await["status"], "completed");
}

#[tokio::test]
async fn a_removed_task_is_gone() {
    let manager = Manager::with_tasks(&[&[], &[]]).await;
    let removed = manager.ok("removeTask", json!({"task_id": 1})).await;
    assert_eq!(
        removed,
        json!({"task_id": 1, "message": "Task removed successfully"})
    );
    assert_eq!(
        manager.code("getTaskById", json!({"task_id": 1})).await,
        "TASK_NOT_FOUND"
    );
    assert_eq!(manager.status().await["total_tasks"], 1);
}

#[tokio::test]
async fn a_task_that_others_depend_on_is_not_removed() {
    let manager = Manager::with_tasks(&[&[], &[1], &[1]]).await;
    let (code, message, details) = manager.refused("removeTask", json!({"task_id": 1})).await;
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("INVALID_DEPENDENCY", "Task `1` is needed by `2`, `3`")
    );
    assert_eq!(details, json!({"task_id": 1, "dependants": [2, 3]}));
}

#[tokio::test]
async fn a_plan_whose_last_open_task_is_removed_is_completed() {
    let manager = Manager::with_tasks(&[&[], &[1]]).await;
    manager.start().await;
    manager.complete(1).await;
    manager.ok("removeTask", json!({"task_id": 2})).await;
    assert_eq!(manager.status().await["status"], "completed");
}

#[tokio::test]
async fn a_plan_is_made_with_its_tasks_in_one_change() {
    let manager = Manager::empty().await;
    let created = manager.ok("createPlan", keyboards()).await;
    assert_eq!(created["message"], "Plan created successfully");
    assert_eq!(
        (&created["total_tasks"], &created["executable_tasks"]),
        (&json!(4), &json!(1))
    );
    assert_eq!(created["replaced_plan_id"], Value::Null);
    assert_eq!(manager.rows().await[0].0, 1);
    assert_eq!(manager.status().await["status"], "idle");
}

#[tokio::test]
async fn a_new_plan_takes_the_place_of_the_old_one_which_stays_in_the_history() {
    let manager = Manager::with_keyboards().await;
    let old = manager.0.store().plans().await.unwrap()[0].head.id.clone();
    let created = manager
        .ok(
            "createPlan",
            json!({"goal": "Another", "tasks": [{"name": "One"}]}),
        )
        .await;
    assert_eq!(created["replaced_plan_id"], old.as_str());
    assert_eq!(manager.status().await["total_tasks"], 1);
    let (kept, total) = manager
        .0
        .store()
        .shelved("plan-manager", 0, 10)
        .await
        .unwrap();
    assert_eq!((total, &kept[0].head.id), (1, &old));
}

#[tokio::test]
async fn a_dry_run_checks_everything_and_makes_nothing() {
    let manager = Manager::with_tasks(&[&[]]).await;
    let before = manager.rows().await;
    let mut given = keyboards();
    given["dry_run"] = json!(true);
    let checked = manager.ok("createPlan", given.clone()).await;
    assert_eq!(
        (&checked["plan_id"], &checked["total_tasks"]),
        (&Value::Null, &json!(4))
    );
    assert_eq!(checked["message"], "The plan is valid; nothing was created");
    assert_eq!(manager.rows().await, before);
    given["tasks"][0]["dependencies"] = json!([4]);
    let (code, _, details) = manager.refused("createPlan", given).await;
    assert_eq!(
        (code.as_str(), details),
        ("CIRCULAR_DEPENDENCY", json!({"cycle": [1, 4, 3, 2, 1]}))
    );
}

#[tokio::test]
async fn a_plan_that_does_not_hold_together_is_not_made() {
    let manager = Manager::with_tasks(&[&[]]).await;
    let plan = |tasks: Value| json!({"goal": "goal", "tasks": tasks});
    let task = |dependencies: &[i64]| json!({"name": "n", "dependencies": dependencies});
    for unknown in [0, -1, 3, 99_999_999_999] {
        let given = plan(json!([task(&[]), task(&[unknown])]));
        let (code, _, details) = manager.refused("createPlan", given).await;
        assert_eq!(
            (code.as_str(), details),
            ("INVALID_DEPENDENCY", json!({"dependency": unknown}))
        );
    }
    let given = plan(json!([task(&[2]), task(&[1])]));
    assert_eq!(
        manager.refused("createPlan", given).await.2,
        json!({"cycle": [1, 2, 1]})
    );
    for tasks in [
        json!([{"name": " "}]),
        json!([{"reasoning": "no name"}]),
        json!([{"name": "n", "id": 1}]),
        json!("no list"),
    ] {
        assert_eq!(
            manager.code("createPlan", plan(tasks)).await,
            "INVALID_ARGUMENT"
        );
    }
    assert_eq!(
        manager
            .code("createPlan", json!({"goal": " ", "tasks": []}))
            .await,
        "INVALID_ARGUMENT"
    );
}

#[tokio::test]
async fn a_new_task_is_called_by_its_name_and_one_that_exists_by_its_number() {
    let manager = Manager::with_tasks(&[&[], &[]]).await;
    let new = json!({"name": "Last", "dependencies": [77], "reasoning": "r"});
    let (code, message, details) = manager.refused("addTask", new).await;
    assert_eq!(code, "INVALID_DEPENDENCY");
    assert_eq!(
        message,
        "The new task `Last` depends on `77`, which does not exist"
    );
    assert_eq!(details, json!({"dependency": 77}));
    let old = json!({"task_id": 2, "updates": {"dependencies": [77]}});
    let (_, message, _) = manager.refused("updateTask", old).await;
    assert_eq!(message, "Task `2` depends on `77`, which does not exist");
}
