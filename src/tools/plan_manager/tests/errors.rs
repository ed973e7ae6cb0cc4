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
fn tools_cover_all_documented_functions() {
    let named: BTreeSet<&str> = fitting().into_iter().map(|(name, _)| name).collect();
    let tools: BTreeSet<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    assert_eq!(tools, named);
    assert_eq!(TOOLS.len(), 20);
}

#[tokio::test]
async fn section_4_example_matches() {
    let manager = Manager::with_tasks(&[]).await;
    let answer = manager.call("getTaskById", json!({"task_id": 1})).await;
    let error =
        json!({"code": "TASK_NOT_FOUND", "message": "Task with ID 1 not found", "details": {}});
    assert_eq!(answer.value, json!({"success": false, "error": error}));
}

#[tokio::test]
async fn every_function_rejects_unknown_task() {
    let manager = Manager::with_tasks(&[&[]]).await;
    let of_one = fitting()
        .into_iter()
        .filter(|(_, given)| given.get("task_id").is_some());
    for (name, mut given) in of_one {
        for task in [0, 2, -1, 99_999_999_999_i64] {
            given["task_id"] = json!(task);
            let wanted = format!("TASK_NOT_FOUND: Task with ID {task} not found");
            manager.run(&format!("! {name} {given} => {wanted}")).await;
        }
    }
}

#[tokio::test]
async fn rejects_missing_extra_and_mistyped_arguments() {
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
            let wrong = json!([{"a": 1}, [[1]], "ten", 1.5, true]);
            for wrong in wrong.as_array().unwrap() {
                let mut other = fitting.clone();
                let fits = wrong.is_string() && fitting[field].is_string();
                other[field] = wrong.clone();
                if !fits {
                    cases.push(other);
                }
            }
        }
        for given in cases {
            let calls = format!("! {name} {given} => INVALID_ARGUMENT: …");
            manager.run(&calls).await;
        }
    }
}

#[tokio::test]
async fn error_codes_are_the_seven_documented() {
    let words = [
        ManagerErrorCode::TaskNotFound,
        ManagerErrorCode::InvalidDependency,
        ManagerErrorCode::TaskNotEditable,
        ManagerErrorCode::CircularDependency,
        ManagerErrorCode::InvalidStatus,
        ManagerErrorCode::PlanNotActive,
        ManagerErrorCode::InvalidArgument,
    ];
    let told = "TASK_NOT_FOUND INVALID_DEPENDENCY TASK_NOT_EDITABLE CIRCULAR_DEPENDENCY INVALID_STATUS PLAN_NOT_ACTIVE INVALID_ARGUMENT";
    assert_eq!(words.map(|code| plan::word(&code)).join(" "), told);
}

#[tokio::test]
async fn store_error_uses_error_envelope() {
    let error = PlanManagerError::from(crate::store::StoreError::Closed);
    let told =
        json!({"code": "PLAN_NOT_ACTIVE", "message": "The plan store is closed", "details": {}});
    assert_eq!(error.to_json(), json!({"success": false, "error": told}));
}

#[tokio::test]
async fn input_that_does_not_fit_is_refused() {
    let table = r#"
        == argument_error_names_path: [[]]
        ! addTask {"name": "n", "dependencies": [1, "x"], "reasoning": "r"} => INVALID_ARGUMENT: `dependencies[1]` is "x", not a whole number {"argument":"dependencies[1]"}

        == plan_manager_accepts_evident_forms: [[], []]
        startNextTask null
        failTask {"task_id": "1", "error_message": "no", "should_retry": "true"}
        updateTask {"task_id": 2.0, "updates": "{\"dependencies\": [\"1\"]}"} =~ {"updated_task": {"dependencies": [1]}}
        addTask {"name": "n", "dependencies": "[1, 2]", "reasoning": "", "after_task_id": null}

        == unknown_function_error_suggests_name: [[]]
        ! completetask => INVALID_ARGUMENT: There is no tool `completetask`; is `completeTask` meant?

        == rejects_huge_text_and_drops_control_characters: [[]]
        ! addTask {"name": "$x300000", "dependencies": [], "reasoning": ""} => INVALID_ARGUMENT: …
        ! $x300000 => INVALID_ARGUMENT: …
        addTask {"name": "a\u001b[31mb", "dependencies": [], "reasoning": "\u001b]0;t\u0007r"} =~ {"new_task": {"name": "ab", "reasoning": "r"}}
        "#;
    cases(table).await;
}
