//! Section 3.4, and whose plan it is.

use super::*;

#[tokio::test]
async fn a_paused_plan_starts_nothing_until_it_is_resumed() {
    let manager = Manager::with_tasks(&[&[], &[]]).await;
    manager.start().await;
    let paused = manager.ok("pausePlan", json!({})).await;
    assert_eq!(paused, json!({"message": "Plan paused successfully"}));
    manager.complete(1).await;
    let (code, message, details) = manager.refused("startNextTask", json!({})).await;
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("PLAN_NOT_ACTIVE", "The plan is paused")
    );
    assert_eq!(details, json!({"plan_status": "paused"}));
    let resumed = manager.ok("resumePlan", json!({})).await;
    assert_eq!(resumed, json!({"message": "Plan resumed successfully"}));
    assert_eq!(manager.start().await["task"]["id"], 2);
}

#[tokio::test]
async fn a_plan_that_was_not_begun_can_be_paused() {
    let manager = Manager::with_tasks(&[&[]]).await;
    manager.ok("pausePlan", json!({})).await;
    assert_eq!(
        manager.code("startNextTask", json!({})).await,
        "PLAN_NOT_ACTIVE"
    );
    manager.ok("resumePlan", json!({})).await;
    assert_eq!(manager.status().await["status"], "running");
}

#[tokio::test]
async fn pausing_and_resuming_fit_the_state_of_the_plan() {
    let manager = Manager::with_tasks(&[&[]]).await;
    assert_eq!(
        manager.code("resumePlan", json!({})).await,
        "PLAN_NOT_ACTIVE"
    );
    manager.start().await;
    assert_eq!(
        manager.code("resumePlan", json!({})).await,
        "INVALID_STATUS"
    );
    manager.ok("pausePlan", json!({})).await;
    assert_eq!(manager.code("pausePlan", json!({})).await, "INVALID_STATUS");
    manager.complete(1).await;
    for name in ["pausePlan", "resumePlan"] {
        let (code, message, _) = manager.refused(name, json!({})).await;
        assert_eq!(
            (code.as_str(), message.as_str()),
            ("PLAN_NOT_ACTIVE", "The plan is completed")
        );
    }
}

#[tokio::test]
async fn a_reset_plan_is_as_if_nothing_had_been_started() {
    let manager = Manager::with_tasks(&[&[], &[1], &[], &[], &[]]).await;
    let fresh = manager.ok("getTaskList", json!({})).await;
    manager.start().await;
    manager.complete(1).await;
    manager
        .ok("skipTask", json!({"task_id": 3, "reason": "no"}))
        .await;
    for _ in 0..2 {
        manager.start().await;
        manager
            .ok("failTask", json!({"task_id": 2, "error_message": "no"}))
            .await;
    }
    manager.start().await;
    let reset = manager.ok("resetPlan", json!({})).await;
    assert_eq!(
        reset,
        json!({"message": "Plan reset successfully", "reset_tasks": 5})
    );
    assert_eq!(manager.ok("getTaskList", json!({})).await, fresh);
    let status = manager.status().await;
    assert_eq!(
        (&status["status"], &status["current_task_id"]),
        (&json!("idle"), &Value::Null)
    );
    let found = manager.ok("getTaskById", json!({"task_id": 2})).await;
    assert_eq!(
        (found.get("retry_count"), found.get("last_error")),
        (None, None)
    );
    assert_eq!(manager.start().await["task"]["id"], 1);
}

#[tokio::test]
async fn an_ended_and_a_paused_plan_can_be_reset() {
    let manager = Manager::with_tasks(&[&[]]).await;
    manager.ok("pausePlan", json!({})).await;
    manager.ok("resetPlan", json!({})).await;
    manager.start().await;
    manager.complete(1).await;
    manager.ok("resetPlan", json!({})).await;
    assert_eq!(manager.status().await["status"], "idle");
}

#[tokio::test]
async fn without_a_plan_each_function_says_how_to_make_one() {
    let manager = Manager::empty().await;
    for (name, given) in errors::fitting() {
        if name == "createPlan" {
            continue;
        }
        let (code, message, details) = manager.refused(name, given).await;
        assert_eq!(code, "PLAN_NOT_ACTIVE", "{name}");
        assert_eq!(message, "There is no plan yet; createPlan makes one");
        assert_eq!(details, json!({}));
    }
}

/// Makes a plan as a daemon has it, with two tasks, and binds the functions to it.
async fn of_a_daemon() -> Manager {
    let toolbox = Toolbox::in_memory().await.unwrap();
    let head = Head::new(plan::PlanId::new("daemons"), "goal", Time(0));
    let task = |name: &str| NewTask {
        name: name.to_owned(),
        ..NewTask::default()
    };
    let tasks = vec![task("One"), task("Two")];
    let make = |draft: &mut Draft<'_>| {
        draft.make_tasks(tasks)?;
        draft.start(plan::Policy::default(), "/w")
    };
    toolbox
        .store()
        .create(head, DAEMON, "made", make)
        .await
        .unwrap();
    Manager(toolbox.with_plan(plan::PlanId::new("daemons")))
}

#[tokio::test]
async fn a_plan_that_a_daemon_carries_out_is_not_started_removed_from_paused_or_reset_here() {
    let manager = of_a_daemon().await;
    for (name, given) in [
        ("startNextTask", json!({})),
        ("removeTask", json!({"task_id": 1})),
        ("pausePlan", json!({})),
        ("resumePlan", json!({})),
        ("resetPlan", json!({})),
    ] {
        let (code, message, details) = manager.refused(name, given).await;
        assert_eq!(code, "PLAN_NOT_ACTIVE", "{name}");
        assert!(
            message.starts_with("A daemon carries the plan out"),
            "{message}"
        );
        assert_eq!(details, json!({"plan_status": "running"}));
    }
    let (code, message, _) = manager
        .refused("createPlan", json!({"goal": "goal", "tasks": []}))
        .await;
    assert_eq!(code, "PLAN_NOT_ACTIVE");
    assert!(message.contains("bound to plan `daemons`"), "{message}");
}

#[tokio::test]
async fn waiting_tasks_of_a_plan_that_a_daemon_carries_out_are_added_updated_and_skipped() {
    let manager = of_a_daemon().await;
    manager
        .ok(
            "addTask",
            json!({"name": "Three", "dependencies": [2], "reasoning": ""}),
        )
        .await;
    manager
        .ok(
            "updateTask",
            json!({"task_id": 3, "updates": {"name": "Last"}}),
        )
        .await;
    manager
        .ok("skipTask", json!({"task_id": 1, "reason": "no"}))
        .await;
    assert_eq!(manager.status().await["status"], "running");
    assert_eq!(manager.ids(json!("skipped")).await, [1]);
}

#[tokio::test]
async fn a_daemons_plan_is_never_meant_unless_it_is_named() {
    let manager = of_a_daemon().await;
    let unbound = Manager(Toolbox::new(
        manager.0.store().clone(),
        crate::tools::Settings::default(),
        "test",
    ));
    assert_eq!(
        unbound.code("getPlanStatus", json!({})).await,
        "PLAN_NOT_ACTIVE"
    );
}

#[tokio::test]
async fn a_bound_plan_is_meant_also_when_another_is_current() {
    let manager = Manager::with_tasks(&[&[]]).await;
    let old = manager.0.store().plans().await.unwrap()[0].head.id.clone();
    let bound = Manager(manager.0.clone().with_plan(old));
    manager.ok("createPlan", keyboards()).await;
    assert_eq!(bound.status().await["total_tasks"], 1);
    assert_eq!(bound.start().await["task"]["name"], "Task 1");
    assert_eq!(manager.status().await["total_tasks"], 4);
}

#[tokio::test]
async fn a_deleted_plan_is_not_changed() {
    let manager = Manager::with_tasks(&[&[]]).await;
    let plan = manager.0.store().plans().await.unwrap()[0].head.id.clone();
    let bound = Manager(manager.0.clone().with_plan(plan.clone()));
    manager
        .0
        .change(&plan, "", |draft| draft.put_away(Shelf::Deleted))
        .await
        .unwrap();
    let (code, message, _) = bound.refused("startNextTask", json!({})).await;
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("PLAN_NOT_ACTIVE", "The plan was deleted")
    );
}
