//! Sections 2, 3.3 and 8: what a plan looks like.

use super::*;
use crate::wire::text::parse_time;

/// A plan with a task in each state: completed, in progress, pending, blocked, failed, skipped.
pub(super) async fn of_every_state() -> Manager {
    let calls = r#"
        startNextTask
        completeTask {"task_id": 1, "result": "done"}
        skipTask {"task_id": 6, "reason": "no"}
        updateTask {"task_id": 2, "updates": {"dependencies": [5]}}
        updateTask {"task_id": 3, "updates": {"dependencies": [5]}}
        startNextTask
        updateTask {"task_id": 2, "updates": {"dependencies": []}}
        updateTask {"task_id": 3, "updates": {"dependencies": []}}
        failTask {"task_id": 5, "error_message": "no", "should_retry": false}
        startNextTask
    "#;
    let manager = Manager::with_tasks(&[&[], &[], &[], &[2], &[], &[]]).await;
    manager.run(calls).await;
    manager
}

#[tokio::test]
async fn get_plan_returns_section_2_1_document() {
    let manager = Manager::with_keyboards().await;
    manager.start().await;
    let mut plan = manager.ok("getPlan", json!({})).await;
    for time in ["created_at", "updated_at"] {
        let text = plan["meta"][time].take();
        assert!(parse_time(text.as_str().unwrap()).is_some());
    }
    let mut tasks = keyboards()["tasks"].clone();
    let statuses = ["in_progress", "blocked", "blocked", "blocked"];
    for (place, status) in statuses.into_iter().enumerate() {
        tasks[place]["id"] = json!(place + 1);
        tasks[place]["status"] = json!(status);
        tasks[place]["result"] = Value::Null;
    }
    let wanted = json!({
        "meta": {"goal": keyboards()["goal"], "created_at": null, "updated_at": null},
        "state": {"current_task_id": 1, "status": "running"},
        "tasks": tasks,
    });
    assert_eq!(plan, wanted);
}

#[tokio::test]
async fn updated_at_follows_changes() {
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
async fn task_has_only_documented_fields() {
    let manager = of_every_state().await;
    let list = manager.ok("getTaskList", json!({})).await;
    for task in list["tasks"].as_array().unwrap() {
        let fields: Vec<&str> = task.as_object().unwrap().keys().map(|key| &**key).collect();
        let fields = fields.join(" ");
        assert_eq!(fields, "dependencies id name reasoning result status");
    }
}

#[tokio::test]
async fn progress_counts_skipped_and_is_zero_without_tasks() {
    let manager = of_every_state().await;
    let calls = r#"
        getPlanStatus =~ {"completed_tasks": 1, "failed_tasks": 1, "pending_tasks": 3, "in_progress_tasks": 1, "skipped_tasks": 1}
    "#;
    manager.run(calls).await;
    let status = manager.status().await;
    assert_eq!(status["progress"].as_f64().unwrap(), 2.0 / 6.0);
    let calls = r#"
        createPlan {"goal": "goal", "tasks": []}
        getPlanStatus =~ {"progress": 0.0}
    "#;
    manager.run(calls).await;
}

#[tokio::test]
async fn aborted_plan_shows_as_failed() {
    let manager = Manager::with_tasks(&[&[]]).await;
    let (store, plan) = (manager.0.store(), manager.plan().await);
    let abandoned = store.change(&plan, "", "", |draft| draft.abandon("no"));
    abandoned.await.unwrap();
    let calls = r#"
        getPlanStatus =~ {"status": "failed"}
        ! startNextTask => PLAN_NOT_ACTIVE: The plan is failed {"plan_status":"failed"}
    "#;
    manager.run(calls).await;
}

#[tokio::test]
async fn plan_prompt_snapshot() {
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
async fn plans_and_tasks_are_shown() {
    let table = r#"
        == task_states_have_documented_words: every state
        getTaskList =~ {"tasks": [{"status": "completed"}, {"status": "in_progress"}, {"status": "pending"}, {"status": "blocked"}, {"status": "failed"}, {"status": "skipped"}]}

        == task_list_filters_by_state: every state
        getTaskList {"status_filter": "completed"} =~ {"total": 6, "filtered": 1, "tasks": [{"id": 1, "status": "completed"}]}
        getTaskList {"status_filter": "in_progress"} =~ {"total": 6, "filtered": 1, "tasks": [{"id": 2, "status": "in_progress"}]}
        getTaskList {"status_filter": "pending"} =~ {"total": 6, "filtered": 1, "tasks": [{"id": 3, "status": "pending"}]}
        getTaskList {"status_filter": "blocked"} =~ {"total": 6, "filtered": 1, "tasks": [{"id": 4, "status": "blocked"}]}
        getTaskList {"status_filter": "failed"} =~ {"total": 6, "filtered": 1, "tasks": [{"id": 5, "status": "failed"}]}
        getTaskList {"status_filter": "skipped"} =~ {"total": 6, "filtered": 1, "tasks": [{"id": 6, "status": "skipped"}]}
        getTaskList =~ {"total": 6, "filtered": 6}
        ! getTaskList {"status_filter": "done"} => INVALID_ARGUMENT: `status_filter` is "done", not one of pending, in_progress, completed, failed, skipped, blocked {"argument":"status_filter"}

        == pending_filter_excludes_blocked: [[], [1], []]
        getTaskList {"status_filter": "pending"} =~ {"tasks": [{"id": 1}, {"id": 3}]}
        getTaskList {"status_filter": "blocked"} =~ {"tasks": [{"id": 2}]}
        startNextTask
        completeTask {"task_id": 1, "result": "done"}
        getTaskList {"status_filter": "pending"} =~ {"tasks": [{"id": 2}, {"id": 3}]}

        == plan_status_example_matches: [[], [], [], [], []]
        startNextTask
        completeTask {"task_id": 1, "result": "done"}
        startNextTask
        completeTask {"task_id": 2, "result": "done"}
        startNextTask
        getPlanStatus => {"status": "running", "progress": 0.4, "current_task_id": 3, "total_tasks": 5, "completed_tasks": 2, "failed_tasks": 0, "pending_tasks": 3, "in_progress_tasks": 1, "skipped_tasks": 0}

        == plan_states_have_documented_words: [[]]
        getPlanStatus =~ {"status": "idle"}
        startNextTask
        getPlanStatus =~ {"status": "running"}
        pausePlan
        getPlanStatus =~ {"status": "paused"}
        completeTask {"task_id": 1, "result": "done"}
        getPlanStatus =~ {"status": "completed"}
        resetPlan
        startNextTask
        failTask {"task_id": 1, "error_message": "no", "should_retry": false}
        getPlanStatus =~ {"status": "failed"}

        == get_task_by_id_finds_task: keyboards
        getTaskById {"task_id": 2} => {"task": {"id": 2, "name": "Search for mechanical keyboard", "status": "blocked", "dependencies": [1], "reasoning": "Can only search after homepage is loaded", "result": null}}

        == executable_tasks_have_met_dependencies: [[], [1], [], [2, 3]]
        getExecutableTaskList =~ {"count": 2, "executable_tasks": [{"id": 1}, {"id": 3}]}
        startNextTask
        getExecutableTaskList =~ {"count": 1, "executable_tasks": [{"id": 3}]}
        completeTask {"task_id": 1, "result": "done"}
        getExecutableTaskList =~ {"count": 2, "executable_tasks": [{"id": 2}, {"id": 3}]}
        skipTask {"task_id": 2, "reason": "no"}
        skipTask {"task_id": 3, "reason": "no"}
        getExecutableTaskList =~ {"count": 1, "executable_tasks": [{"id": 4}]}

        == dependency_graph_has_both_formats: [[], [1]]
        getDependencyGraph => {"format": "mermaid", "graph": "graph LR\n  t1[\"1 · Task 1<br/>ready\"]:::pending\n…  t1 --> t2\n…"}
        getDependencyGraph {"format": "dot"} => {"format": "dot", "graph": "…  t1 -> t2;\n…"}
        ! getDependencyGraph {"format": "png"} => INVALID_ARGUMENT: …

        == get_parallel_tasks_groups_tasks: [[], [], [1], [1, 2], [4], [3, 5]]
        startNextTask
        getParallelTasks => {"parallel_tasks": [1, 2], "groups": [[1, 2], [3, 4], [5], [6]]}
        failTask {"task_id": 1, "error_message": "no", "should_retry": false}
        getParallelTasks => {"parallel_tasks": [2], "groups": [[2]], "left": 4}
        "#;
    cases(table).await;
}
