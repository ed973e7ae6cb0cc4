//! Section 4: the envelope, the codes, and input that does not fit.

use std::collections::BTreeSet;

use super::*;

/// Returns each function with arguments that fit a plan of two tasks, the first of them in progress.
pub(super) fn fitting() -> Vec<(&'static str, Value)> {
    vec![
        ("createPlan", json!({"goal": "goal", "tasks": []})),
        ("getPlan", json!({})),
        ("getCurrentTask", json!({})),
        ("startNextTask", json!({})),
        ("completeTask", json!({"task_id": 1, "result": "done"})),
        ("failTask", json!({"task_id": 1, "error_message": "no"})),
        (
            "addTask",
            json!({"name": "n", "dependencies": [], "reasoning": "r"}),
        ),
        (
            "updateTask",
            json!({"task_id": 2, "updates": {"name": "n"}}),
        ),
        ("skipTask", json!({"task_id": 2, "reason": "r"})),
        ("removeTask", json!({"task_id": 2})),
        ("getTaskList", json!({})),
        ("getPlanStatus", json!({})),
        ("getTaskById", json!({"task_id": 1})),
        ("getExecutableTaskList", json!({})),
        ("pausePlan", json!({})),
        ("resumePlan", json!({})),
        ("resetPlan", json!({})),
        ("getDependencyGraph", json!({})),
        ("getPlanPrompt", json!({})),
        ("getParallelTasks", json!({})),
    ]
}

#[test]
fn there_is_a_tool_for_each_function_of_the_document_and_of_section_8() {
    let named: BTreeSet<&str> = fitting().into_iter().map(|(name, _)| name).collect();
    let tools: BTreeSet<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    assert_eq!(tools, named);
    assert_eq!(TOOLS.len(), 20);
}

#[tokio::test]
async fn the_example_of_section_4_comes_out_as_it_stands() {
    let manager = Manager::with_tasks(&[]).await;
    assert_eq!(
        manager
            .call("getTaskById", json!({"task_id": 1}))
            .await
            .value,
        json!({"success": false, "error": {"code": "TASK_NOT_FOUND", "message": "Task with ID 1 not found", "details": {}}})
    );
}

#[tokio::test]
async fn an_unknown_task_is_not_found_by_any_function() {
    let manager = Manager::with_tasks(&[&[]]).await;
    for (name, given) in fitting() {
        if given.get("task_id").is_none() {
            continue;
        }
        for task in [0, 2, -1, 99_999_999_999_i64] {
            let mut given = given.clone();
            given["task_id"] = json!(task);
            let (code, message, details) = manager.refused(name, given).await;
            assert_eq!(code, "TASK_NOT_FOUND", "{name}");
            assert_eq!(message, format!("Task with ID {task} not found"));
            assert_eq!(details, json!({}));
        }
    }
}

#[tokio::test]
async fn what_is_missing_too_much_or_of_a_wrong_type_is_an_invalid_argument() {
    let manager = Manager::with_tasks(&[&[], &[]]).await;
    manager.start().await;
    for (name, fitting) in fitting() {
        let mut cases = vec![json!([1]), json!("text"), json!(7)];
        let mut more = fitting.clone();
        more["extra"] = json!(1);
        cases.push(more);
        for field in fitting.as_object().unwrap().keys() {
            let mut less = fitting.clone();
            less.as_object_mut().unwrap().remove(field);
            cases.push(less);
            for wrong in [
                json!({"a": 1}),
                json!([[1]]),
                json!("ten"),
                json!(1.5),
                json!(true),
            ] {
                let mut other = fitting.clone();
                let fits = wrong.is_string() && fitting[field].is_string();
                other[field] = wrong;
                if !fits {
                    cases.push(other);
                }
            }
        }
        for given in cases {
            let (code, message, _) = manager.refused(name, given.clone()).await;
            assert_eq!(code, "INVALID_ARGUMENT", "{name} {given}: {message}");
        }
    }
}

#[tokio::test]
async fn an_error_of_the_arguments_names_the_place() {
    let manager = Manager::with_tasks(&[&[]]).await;
    let given = json!({"name": "n", "dependencies": [1, "x"], "reasoning": "r"});
    let (_, message, details) = manager.refused("addTask", given).await;
    assert_eq!(message, "`dependencies[1]` is \"x\", not a whole number");
    assert_eq!(details, json!({"argument": "dependencies[1]"}));
}

#[tokio::test]
async fn what_is_evident_is_taken() {
    let manager = Manager::with_tasks(&[&[], &[]]).await;
    manager.ok("startNextTask", Value::Null).await;
    manager
        .ok(
            "failTask",
            json!({"task_id": "1", "error_message": "no", "should_retry": "true"}),
        )
        .await;
    let given = json!({"task_id": 2.0, "updates": "{\"dependencies\": [\"1\"]}"});
    let updated = manager.ok("updateTask", given).await;
    assert_eq!(updated["updated_task"]["dependencies"], json!([1]));
    manager
        .ok(
            "addTask",
            json!({"name": "n", "dependencies": "[1, 2]", "reasoning": "", "after_task_id": null}),
        )
        .await;
}

#[tokio::test]
async fn an_unknown_function_names_the_one_that_is_meant() {
    let manager = Manager::with_tasks(&[&[]]).await;
    let (code, message, _) = manager.refused("completetask", json!({})).await;
    assert_eq!(code, "INVALID_ARGUMENT");
    assert_eq!(
        message,
        "There is no tool `completetask`; is `completeTask` meant?"
    );
}

#[tokio::test]
async fn a_huge_text_is_refused_and_a_terminals_commands_are_left_out() {
    let manager = Manager::with_tasks(&[&[]]).await;
    let huge = "x".repeat(300_000);
    let given = json!({"name": huge, "dependencies": [], "reasoning": ""});
    assert_eq!(manager.code("addTask", given).await, "INVALID_ARGUMENT");
    assert!(manager.code(&huge, json!({})).await == "INVALID_ARGUMENT");
    let given =
        json!({"name": "a\u{1b}[31mb", "dependencies": [], "reasoning": "\u{1b}]0;t\u{7}r"});
    let added = manager.ok("addTask", given).await["new_task"].clone();
    assert_eq!(
        (&added["name"], &added["reasoning"]),
        (&json!("ab"), &json!("r"))
    );
}

#[tokio::test]
async fn every_word_for_an_error_is_one_of_seven() {
    let words = [
        ErrorCode::TaskNotFound,
        ErrorCode::InvalidDependency,
        ErrorCode::TaskNotEditable,
        ErrorCode::CircularDependency,
        ErrorCode::InvalidStatus,
        ErrorCode::PlanNotActive,
        ErrorCode::InvalidArgument,
    ];
    assert_eq!(
        json!(words),
        json!([
            "TASK_NOT_FOUND",
            "INVALID_DEPENDENCY",
            "TASK_NOT_EDITABLE",
            "CIRCULAR_DEPENDENCY",
            "INVALID_STATUS",
            "PLAN_NOT_ACTIVE",
            "INVALID_ARGUMENT"
        ])
    );
}

#[tokio::test]
async fn a_store_that_fails_is_an_error_in_the_envelope() {
    let error = PlanManagerError::from(ToolError::Store(crate::store::StoreError::Closed));
    assert_eq!(
        error.to_json(),
        json!({"success": false, "error": {"code": "PLAN_NOT_ACTIVE", "message": "The plan store is closed", "details": {}}})
    );
}
