//! Section 3.4, and whose plan it is.

use super::*;

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
async fn without_a_plan_each_function_says_how_to_make_one() {
    let manager = Manager::empty().await;
    for (name, given) in errors::fitting() {
        if name != "createPlan" {
            let wanted = "PLAN_NOT_ACTIVE: There is no plan yet; createPlan makes one";
            manager.run(&format!("! {name} {given} => {wanted}")).await;
        }
    }
}

/// With two tasks of a plan that a daemon carries out.
pub(super) async fn of_a_daemon() -> Manager {
    let toolbox = Toolbox::in_memory().await.unwrap();
    Manager(crate::tools::tests::of_a_daemon(&toolbox, &["One", "Two"]).await)
}

#[tokio::test]
async fn a_daemons_plan_is_never_meant_unless_it_is_named() {
    let store = of_a_daemon().await.0.store().clone();
    let unbound = Toolbox::new(store, crate::tools::ToolSettings::default(), "test");
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
    let delete = |draft: &mut Draft<'_>| draft.archive(ArchiveState::Deleted);
    let deleted = manager.0.store().change(&plan, "", "", delete);
    deleted.await.unwrap();
    let calls = "! startNextTask => PLAN_NOT_ACTIVE: The plan was deleted";
    bound.run(calls).await;
}

#[tokio::test]
async fn a_plan_is_paused_resumed_and_reset() {
    let table = r#"
        == a_paused_plan_starts_nothing_until_it_is_resumed: [[], []]
        startNextTask
        pausePlan => {"message": "Plan paused successfully"}
        completeTask {"task_id": 1, "result": "done"}
        ! startNextTask => PLAN_NOT_ACTIVE: The plan is paused {"plan_status":"paused"}
        resumePlan => {"message": "Plan resumed successfully"}
        startNextTask =~ {"task": {"id": 2}}

        == a_plan_that_was_not_begun_can_be_paused: [[]]
        pausePlan
        ! startNextTask => PLAN_NOT_ACTIVE: …
        resumePlan
        getPlanStatus =~ {"status": "running"}

        == pausing_and_resuming_fit_the_state_of_the_plan: [[]]
        ! resumePlan => PLAN_NOT_ACTIVE: …
        startNextTask
        ! resumePlan => INVALID_STATUS: …
        pausePlan
        ! pausePlan => INVALID_STATUS: …
        completeTask {"task_id": 1, "result": "done"}
        ! pausePlan => PLAN_NOT_ACTIVE: The plan is completed {"plan_status":"completed"}
        ! resumePlan => PLAN_NOT_ACTIVE: The plan is completed {"plan_status":"completed"}

        == an_ended_and_a_paused_plan_can_be_reset: [[]]
        pausePlan
        resetPlan
        startNextTask
        completeTask {"task_id": 1, "result": "done"}
        resetPlan
        getPlanStatus =~ {"status": "idle"}

        == a_plan_that_a_daemon_carries_out_is_not_started_removed_from_paused_or_reset_here: a daemon's
        ! startNextTask => PLAN_NOT_ACTIVE: A daemon carries the plan out… {"plan_status":"running"}
        ! removeTask {"task_id": 1} => PLAN_NOT_ACTIVE: A daemon carries the plan out… {"plan_status":"running"}
        ! pausePlan => PLAN_NOT_ACTIVE: A daemon carries the plan out… {"plan_status":"running"}
        ! resumePlan => PLAN_NOT_ACTIVE: A daemon carries the plan out… {"plan_status":"running"}
        ! resetPlan => PLAN_NOT_ACTIVE: A daemon carries the plan out… {"plan_status":"running"}
        ! createPlan {"goal": "goal", "tasks": []} => PLAN_NOT_ACTIVE: …bound to plan `daemons`…

        == waiting_tasks_of_a_plan_that_a_daemon_carries_out_are_added_updated_and_skipped: a daemon's
        addTask {"name": "Three", "dependencies": [2], "reasoning": ""}
        updateTask {"task_id": 3, "updates": {"name": "Last"}}
        skipTask {"task_id": 1, "reason": "no"}
        getPlanStatus =~ {"status": "running"}
        getTaskList {"status_filter": "skipped"} =~ {"tasks": [{"id": 1}]}
        "#;
    cases(table).await;
}
