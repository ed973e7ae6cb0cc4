//! Section 3.4, and whose plan it is.

use super::*;

#[tokio::test]
async fn a_paused_plan_starts_nothing_until_it_is_resumed() {
    let calls = r#"
        startNextTask
        pausePlan => {"message": "Plan paused successfully"}
        completeTask {"task_id": 1, "result": "done"}
        ! startNextTask => PLAN_NOT_ACTIVE: The plan is paused {"plan_status":"paused"}
        resumePlan => {"message": "Plan resumed successfully"}
        startNextTask =~ {"task": {"id": 2}}
    "#;
    Manager::with_tasks(&[&[], &[]]).await.run(calls).await;
}

#[tokio::test]
async fn a_plan_that_was_not_begun_can_be_paused() {
    let calls = r#"
        pausePlan
        ! startNextTask => PLAN_NOT_ACTIVE: …
        resumePlan
        getPlanStatus =~ {"status": "running"}
    "#;
    Manager::with_tasks(&[&[]]).await.run(calls).await;
}

#[tokio::test]
async fn pausing_and_resuming_fit_the_state_of_the_plan() {
    let calls = r#"
        ! resumePlan => PLAN_NOT_ACTIVE: …
        startNextTask
        ! resumePlan => INVALID_STATUS: …
        pausePlan
        ! pausePlan => INVALID_STATUS: …
        completeTask {"task_id": 1, "result": "done"}
        ! pausePlan => PLAN_NOT_ACTIVE: The plan is completed {"plan_status":"completed"}
        ! resumePlan => PLAN_NOT_ACTIVE: The plan is completed {"plan_status":"completed"}
    "#;
    Manager::with_tasks(&[&[]]).await.run(calls).await;
}

#[tokio::test]
async fn a_reset_plan_is_as_if_nothing_had_been_started() {
    let manager = Manager::with_tasks(&[&[], &[1], &[], &[], &[]]).await;
    let fresh = manager.ok("getTaskList", json!({})).await;
    let calls = r#"
        startNextTask
        completeTask {"task_id": 1, "result": "done"}
        skipTask {"task_id": 3, "reason": "no"}
        startNextTask
        failTask {"task_id": 2, "error_message": "no"}
        startNextTask
        failTask {"task_id": 2, "error_message": "no"}
        startNextTask
        resetPlan => {"message": "Plan reset successfully", "reset_tasks": 5}
        getPlanStatus =~ {"status": "idle", "current_task_id": null}
        getTaskById {"task_id": 2} =~ {"retry_count": null, "last_error": null}
    "#;
    manager.run(calls).await;
    assert_eq!(manager.ok("getTaskList", json!({})).await, fresh);
    manager.run(r#"startNextTask =~ {"task": {"id": 1}}"#).await;
}

#[tokio::test]
async fn an_ended_and_a_paused_plan_can_be_reset() {
    let calls = r#"
        pausePlan
        resetPlan
        startNextTask
        completeTask {"task_id": 1, "result": "done"}
        resetPlan
        getPlanStatus =~ {"status": "idle"}
    "#;
    Manager::with_tasks(&[&[]]).await.run(calls).await;
}

#[tokio::test]
async fn without_a_plan_each_function_says_how_to_make_one() {
    let manager = Manager::empty().await;
    for (name, given) in errors::fitting() {
        if name != "createPlan" {
            let wanted = "PLAN_NOT_ACTIVE: There is no plan yet; createPlan makes one";
            manager.run(&format!("! {name} {given} => {wanted}")).await;
        }
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
    let made = toolbox.store().create(head, DAEMON, "made", make);
    made.await.unwrap();
    Manager(toolbox.with_plan(plan::PlanId::new("daemons")))
}

#[tokio::test]
async fn a_plan_that_a_daemon_carries_out_is_not_started_removed_from_paused_or_reset_here() {
    let calls = r#"
        ! startNextTask => PLAN_NOT_ACTIVE: A daemon carries the plan out… {"plan_status":"running"}
        ! removeTask {"task_id": 1} => PLAN_NOT_ACTIVE: A daemon carries the plan out… {"plan_status":"running"}
        ! pausePlan => PLAN_NOT_ACTIVE: A daemon carries the plan out… {"plan_status":"running"}
        ! resumePlan => PLAN_NOT_ACTIVE: A daemon carries the plan out… {"plan_status":"running"}
        ! resetPlan => PLAN_NOT_ACTIVE: A daemon carries the plan out… {"plan_status":"running"}
        ! createPlan {"goal": "goal", "tasks": []} => PLAN_NOT_ACTIVE: …bound to plan `daemons`…
    "#;
    of_a_daemon().await.run(calls).await;
}

#[tokio::test]
async fn waiting_tasks_of_a_plan_that_a_daemon_carries_out_are_added_updated_and_skipped() {
    let manager = of_a_daemon().await;
    let calls = r#"
        addTask {"name": "Three", "dependencies": [2], "reasoning": ""}
        updateTask {"task_id": 3, "updates": {"name": "Last"}}
        skipTask {"task_id": 1, "reason": "no"}
        getPlanStatus =~ {"status": "running"}
    "#;
    manager.run(calls).await;
    assert_eq!(manager.ids(json!("skipped")).await, [1]);
}

#[tokio::test]
async fn a_daemons_plan_is_never_meant_unless_it_is_named() {
    let store = of_a_daemon().await.0.store().clone();
    let unbound = Toolbox::new(store, crate::tools::Settings::default(), "test");
    Manager(unbound)
        .run("! getPlanStatus => PLAN_NOT_ACTIVE: …")
        .await;
}

#[tokio::test]
async fn a_bound_plan_is_meant_also_when_another_is_current() {
    let manager = Manager::with_tasks(&[&[]]).await;
    let bound = Manager(manager.0.clone().with_plan(manager.plan().await));
    manager.ok("createPlan", keyboards()).await;
    let calls = r#"
        getPlanStatus =~ {"total_tasks": 1}
        startNextTask =~ {"task": {"name": "Task 1"}}
    "#;
    bound.run(calls).await;
    assert_eq!(manager.status().await["total_tasks"], 4);
}

#[tokio::test]
async fn a_deleted_plan_is_not_changed() {
    let manager = Manager::with_tasks(&[&[]]).await;
    let plan = manager.plan().await;
    let bound = Manager(manager.0.clone().with_plan(plan.clone()));
    let delete = |draft: &mut Draft<'_>| draft.put_away(Shelf::Deleted);
    let deleted = manager.0.store().change(&plan, "", "", delete);
    deleted.await.unwrap();
    let calls = "! startNextTask => PLAN_NOT_ACTIVE: The plan was deleted";
    bound.run(calls).await;
}
