//! Section 3.1, and the examples of sections 5 and 6: a plan is carried out.

use super::*;

#[tokio::test]
async fn log_names_function_and_reason() {
    let manager = Manager::with_tasks(&[&[], &[]]).await;
    let calls = r#"
        startNextTask
        failTask {"task_id": 1, "error_message": "no net"}
        skipTask {"task_id": 2, "reason": "not needed"}
    "#;
    manager.run(calls).await;
    let plan = manager.plan().await;
    let changes = manager.0.store().since(&plan, 0, 10).await.unwrap();
    let why: Vec<&str> = changes.iter().map(|change| change.why.as_str()).collect();
    let named = [
        "createPlan",
        "startNextTask",
        "failTask: no net",
        "skipTask: not needed",
    ];
    assert_eq!(why, named);
    assert!(changes.iter().all(|change| change.by == "library"));
}

#[tokio::test]
async fn a_plan_is_carried_out() {
    let table = r#"
        == section_5_example_runs: keyboards
        startNextTask
        getCurrentTask =~ {"id": 1}
        completeTask {"task_id": 1, "result": "Successfully navigated to homepage"}
        startNextTask =~ {"task": {"name": "Search for mechanical keyboard"}}
        addTask {"name": "Close popup dialog", "dependencies": [1], "reasoning": "Unexpected popup appeared blocking the search", "after_task_id": 1} =~ {"new_task": {"id": 5}}
        addTask {"name": "Add item to cart", "dependencies": [2, 3], "reasoning": "Final step to complete the purchase goal"} =~ {"new_task": {"id": 6}}
        getPlanStatus =~ {"status": "running", "current_task_id": 2}
        getExecutableTaskList =~ {"count": 1, "executable_tasks": [{"name": "Close popup dialog"}]}
        getTaskList {} =~ {"tasks": [{"id": 1}, {"id": 5}, {"id": 2}, {"id": 3}, {"id": 4}, {"id": 6}]}

        == section_6_calls_run_in_sequence: keyboards
        startNextTask
        getCurrentTask =~ {"id": 1}
        completeTask {"task_id": 1, "result": "Successfully loaded JD homepage"}
        addTask {"name": "Handle login verification", "dependencies": [1], "reasoning": "Phone verification popup appeared during login"}
        updateTask {"task_id": 3, "updates": {"dependencies": [1, 5]}}
        getTaskById {"task_id": 3} =~ {"task": {"dependencies": [1, 5]}}
        skipTask {"task_id": 4, "reason": "Price filter not needed"} =~ {"message": "Task skipped: Price filter not needed"}

        == current_task_has_documented_fields: keyboards
        startNextTask
        getCurrentTask => {"id": 1, "name": "Navigate to JD homepage", "status": "in_progress", "dependencies": [], "reasoning": "Need to open the target website first"}

        == current_task_is_null_without_task_in_progress: keyboards
        getCurrentTask => null
        startNextTask
        completeTask {"task_id": 1, "result": "done"}
        getCurrentTask => null
        getPlanStatus =~ {"current_task_id": null}

        == start_next_task_returns_task_and_message: keyboards
        startNextTask
        completeTask {"task_id": 1, "result": "done"}
        startNextTask => {"task": {"id": 2, "name": "Search for mechanical keyboard", "status": "in_progress", "dependencies": [1], "reasoning": "Can only search after homepage is loaded", "result": null}, "message": "Started task 2: Search for mechanical keyboard"}

        == first_executable_task_in_order_starts: [[2], [], []]
        addTask {"name": "First", "dependencies": [], "reasoning": "", "after_task_id": 1}
        startNextTask =~ {"task": {"id": 4}}
        completeTask {"task_id": 4, "result": "done"}
        startNextTask =~ {"task": {"id": 2}}
        completeTask {"task_id": 2, "result": "done"}
        startNextTask =~ {"task": {"id": 1}}

        == one_task_is_in_progress_at_a_time: [[], []]
        startNextTask
        ! startNextTask => INVALID_STATUS: Task 1 is in progress {"current_task_id":1}

        == start_fails_when_all_tasks_are_blocked: [[], [1], [2]]
        startNextTask
        failTask {"task_id": 1, "error_message": "no", "should_retry": false}
        ! startNextTask => INVALID_STATUS: … {"blocked_tasks":[2,3],"failed_tasks":[1],"waits_for":[1]}

        == plan_fails_when_rest_waits_for_failed_task: [[], [1], [2], []]
        startNextTask
        failTask {"task_id": 1, "error_message": "no", "should_retry": false}
        getPlanStatus =~ {"status": "running"}
        startNextTask =~ {"task": {"id": 4}}
        completeTask {"task_id": 4, "result": "done"}
        getPlanStatus =~ {"status": "failed", "failed_tasks": 1, "pending_tasks": 2}
        ! pausePlan => PLAN_NOT_ACTIVE: …
        addTask {"name": "Five", "dependencies": [3], "reasoning": "r"}
        updateTask {"task_id": 2, "updates": {"name": "Two"}}
        getPlanStatus =~ {"status": "failed"}
        addTask {"name": "Six", "dependencies": [], "reasoning": "r"}
        getPlanStatus =~ {"status": "running"}
        removeTask {"task_id": 6}
        getPlanStatus =~ {"status": "failed"}
        updateTask {"task_id": 3, "updates": {"dependencies": []}}
        getPlanStatus =~ {"status": "running"}
        updateTask {"task_id": 3, "updates": {"dependencies": [2]}}
        getPlanStatus =~ {"status": "failed"}
        skipTask {"task_id": 1, "reason": "not needed"}
        getPlanStatus =~ {"status": "running"}
        startNextTask =~ {"task": {"id": 2}}
        failTask {"task_id": 2, "error_message": "no", "should_retry": false}
        getPlanStatus =~ {"status": "failed"}
        resetPlan
        getPlanStatus =~ {"status": "idle"}

        == start_fails_in_empty_plan: []
        ! startNextTask => INVALID_STATUS: The plan has no tasks; addTask adds one

        == start_fails_in_ended_plan: [[]]
        startNextTask
        completeTask {"task_id": 1, "result": "done"}
        ! startNextTask => PLAN_NOT_ACTIVE: The plan is completed {"plan_status":"completed"}

        == completed_task_keeps_result: keyboards
        startNextTask
        completeTask {"task_id": 1, "result": "Open"} => {"task_id": 1, "message": "Task completed successfully"}
        getTaskById {"task_id": 1} =~ {"task": {"status": "completed", "result": "Open"}}

        == only_task_in_progress_completes: [[], [1]]
        ! completeTask {"task_id": 1, "result": "done"} => INVALID_STATUS: Task 1 is pending {"status":"pending","task_id":1}
        ! completeTask {"task_id": 2, "result": "done"} => INVALID_STATUS: Task 2 is blocked {"status":"blocked","task_id":2}
        startNextTask
        completeTask {"task_id": 1, "result": "done"}
        ! completeTask {"task_id": 1, "result": "again"} => INVALID_STATUS: …

        == plan_completes_with_last_task: [[], [1]]
        startNextTask
        completeTask {"task_id": 1, "result": "done"}
        getPlanStatus =~ {"status": "running"}
        startNextTask
        completeTask {"task_id": 2, "result": "done"}
        getPlanStatus =~ {"status": "completed", "progress": 1.0}

        == plan_fails_when_settled_with_failed_task: [[], []]
        startNextTask
        failTask {"task_id": 1, "error_message": "no", "should_retry": false}
        getPlanStatus =~ {"status": "running"}
        startNextTask
        completeTask {"task_id": 2, "result": "done"}
        getPlanStatus =~ {"status": "failed"}

        == failed_task_is_retried_by_default: [[]]
        startNextTask
        failTask {"task_id": 1, "error_message": "time-out"} => {"task_id": 1, "will_retry": true, "retry_count": 1, "message": "Task failed, will retry"}
        getTaskById {"task_id": 1} =~ {"task": {"status": "pending", "result": null}, "retry_count": 1, "last_error": "time-out"}

        == third_failure_is_final: [[], []]
        startNextTask =~ {"task": {"id": 1}}
        failTask {"task_id": 1, "error_message": "error 1"} =~ {"retry_count": 1, "will_retry": true, "message": "Task failed, will retry"}
        startNextTask =~ {"task": {"id": 1}}
        failTask {"task_id": 1, "error_message": "error 2"} =~ {"retry_count": 2, "will_retry": true, "message": "Task failed, will retry"}
        startNextTask =~ {"task": {"id": 1}}
        failTask {"task_id": 1, "error_message": "error 3"} =~ {"retry_count": 3, "will_retry": false, "message": "Task failed, will not retry"}
        getTaskById {"task_id": 1} =~ {"task": {"status": "failed", "result": "error 3"}}
        startNextTask =~ {"task": {"id": 2}}

        == success_resets_failure_count: [[], [1]]
        startNextTask
        failTask {"task_id": 1, "error_message": "once"}
        startNextTask
        completeTask {"task_id": 1, "result": "done"}
        getTaskById {"task_id": 1} =~ {"retry_count": null, "task": {"result": "done"}}

        == should_retry_false_fails_immediately: [[], [1]]
        startNextTask
        failTask {"task_id": 1, "error_message": "gone", "should_retry": false} =~ {"will_retry": false, "retry_count": 1}
        getTaskById {"task_id": 1} =~ {"task": {"status": "failed", "result": "gone"}}
        getTaskById {"task_id": 2} =~ {"task": {"status": "blocked"}}

        == only_task_in_progress_can_fail: [[]]
        ! failTask {"task_id": 1, "error_message": "no"} => INVALID_STATUS: …
        "#;
    cases(table).await;
}
