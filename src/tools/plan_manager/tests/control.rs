//! Section 3.4, and whose plan it is.

use super::*;

#[tokio::test]
async fn reset_plan_forgets_all_progress() {
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
async fn error_without_plan_names_create_plan() {
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
async fn daemon_plan_is_never_the_default() {
    let store = of_a_daemon().await.0.store().clone();
    let unbound = Toolbox::new(store, &crate::config::Config::default(), "test");
    Manager(unbound)
        .run("! getPlanStatus => PLAN_NOT_ACTIVE: …")
        .await;
}

#[tokio::test]
async fn bound_plan_precedes_current_plan() {
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
async fn plan_manager_refuses_deleted_plan() {
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
        == plan_manager_pause_stops_starts_until_resume: [[], []]
        startNextTask
        pausePlan => {"message": "Plan paused successfully"}
        completeTask {"task_id": 1, "result": "done"}
        ! startNextTask => PLAN_NOT_ACTIVE: The plan is paused {"plan_status":"paused"}
        resumePlan => {"message": "Plan resumed successfully"}
        startNextTask =~ {"task": {"id": 2}}

        == idle_plan_can_be_paused: [[]]
        pausePlan
        ! startNextTask => PLAN_NOT_ACTIVE: …
        resumePlan
        getPlanStatus =~ {"status": "running"}

        == pause_and_resume_require_matching_status: [[]]
        ! resumePlan => PLAN_NOT_ACTIVE: …
        startNextTask
        ! resumePlan => INVALID_STATUS: …
        pausePlan
        ! pausePlan => INVALID_STATUS: …
        completeTask {"task_id": 1, "result": "done"}
        ! pausePlan => PLAN_NOT_ACTIVE: The plan is completed {"plan_status":"completed"}
        ! resumePlan => PLAN_NOT_ACTIVE: The plan is completed {"plan_status":"completed"}

        == ended_or_paused_plan_can_be_reset: [[]]
        pausePlan
        resetPlan
        startNextTask
        completeTask {"task_id": 1, "result": "done"}
        resetPlan
        getPlanStatus =~ {"status": "idle"}

        == plan_manager_does_not_control_daemon_plan: a daemon's
        ! startNextTask => PLAN_NOT_ACTIVE: A daemon carries the plan out… {"plan_status":"running"}
        ! removeTask {"task_id": 1} => PLAN_NOT_ACTIVE: A daemon carries the plan out… {"plan_status":"running"}
        ! pausePlan => PLAN_NOT_ACTIVE: A daemon carries the plan out… {"plan_status":"running"}
        ! resumePlan => PLAN_NOT_ACTIVE: A daemon carries the plan out… {"plan_status":"running"}
        ! resetPlan => PLAN_NOT_ACTIVE: A daemon carries the plan out… {"plan_status":"running"}
        ! createPlan {"goal": "goal", "tasks": []} => PLAN_NOT_ACTIVE: …bound to plan `daemons`…

        == plan_manager_edits_waiting_tasks_of_daemon_plan: a daemon's
        addTask {"name": "Three", "dependencies": [2], "reasoning": ""}
        updateTask {"task_id": 3, "updates": {"name": "Last"}}
        skipTask {"task_id": 1, "reason": "no"}
        getPlanStatus =~ {"status": "running"}
        getTaskList {"status_filter": "skipped"} =~ {"tasks": [{"id": 1}]}
        "#;
    cases(table).await;
}
