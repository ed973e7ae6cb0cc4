//! Section 7: bounded answers, however large the plan.

use super::*;

/// The largest answer to a call that names no limit, in bytes.
const LARGEST: usize = 16 * 1024;

/// A plan of many tasks with long texts, half of them in a chain.
async fn large(tasks: i64) -> Manager {
    let manager = Manager::empty().await;
    let text = "机械键盘 ".repeat(200);
    let task = |number: i64| {
        let dependencies = Vec::from_iter((number % 2 == 0).then_some(number - 1));
        json!({"name": format!("{number} {text}"), "dependencies": dependencies, "reasoning": text})
    };
    let tasks: Vec<Value> = (1..=tasks).map(task).collect();
    manager
        .ok("createPlan", json!({"goal": text, "tasks": tasks}))
        .await;
    manager
}

#[tokio::test]
async fn answers_without_limit_are_bounded() {
    let manager = large(10_000).await;
    let all: Vec<i64> = (1..=9999).collect();
    let given = json!({"name": "Last", "dependencies": all, "reasoning": "needs all"});
    manager.ok("addTask", given).await;
    manager.start().await;
    // Of the tasks that are asked for by their id, the largest one.
    let last = [("getTaskById", json!({"task_id": 10_001}))];
    for (name, given) in last.into_iter().chain(errors::fitting()) {
        let unsuited = ["createPlan", "resumePlan", "resetPlan", "completeTask"];
        if unsuited.contains(&name) {
            continue;
        }
        let answer = manager.call(name, given).await.value.to_string();
        assert!(answer.len() < LARGEST, "{name}: {} bytes", answer.len());
    }
    let refused = manager.call("removeTask", json!({"task_id": 1})).await;
    let refused = refused.value.to_string();
    assert!(refused.len() < LARGEST, "{} bytes", refused.len());
}

#[tokio::test]
async fn long_lists_are_paged() {
    let manager = Manager::with_tasks(&[&[][..]; 120]).await;
    for (name, list) in [
        ("getPlan", "tasks"),
        ("getTaskList", "tasks"),
        ("getExecutableTaskList", "executable_tasks"),
    ] {
        let first = manager.ok(name, json!({})).await;
        assert_eq!(first[list].as_array().unwrap().len(), 50, "{name}");
        assert_eq!(first["left"], 70);
        let last = manager.ok(name, json!({"limit": 100, "offset": 100})).await;
        let shown = last[list].as_array().unwrap().len();
        assert_eq!((shown, last.get("left")), (20, None));
        assert_eq!(last[list][0]["id"], 101);
        let calls = format!(
            r#"
            ! {name} {{"limit": -1}} => INVALID_ARGUMENT: …
            ! {name} {{"offset": -1}} => INVALID_ARGUMENT: …
            "#
        );
        manager.run(&calls).await;
    }
    let calls =
        r#"getDependencyGraph {"limit": 10, "offset": 115} =~ {"left": 115, "graph": "…t120[…"}"#;
    manager.run(calls).await;
}

#[tokio::test]
async fn get_task_by_id_returns_whole_text() {
    let manager = Manager::empty().await;
    let text = "x".repeat(10_000);
    let task = json!({"name": text, "reasoning": text});
    let given = json!({"goal": "goal", "tasks": [task]});
    manager.ok("createPlan", given).await;
    let list = manager.ok("getTaskList", json!({})).await;
    assert!(list["tasks"][0]["name"].as_str().unwrap().ends_with("x…"));
    let task = manager.task(1).await;
    let wanted = (&json!(text), &json!(text));
    assert_eq!((&task["name"], &task["reasoning"]), wanted);
}

#[tokio::test]
async fn get_task_by_id_returns_all_dependencies() {
    let manager = Manager::with_tasks(&[&[][..]; 100]).await;
    let all: Vec<i64> = (1..=100).collect();
    let given = json!({"name": "Last", "dependencies": all, "reasoning": ""});
    manager.ok("addTask", given).await;
    let list = manager.ok("getTaskList", json!({"offset": 100})).await;
    assert_eq!(list["tasks"][0]["dependencies"], json!(all[..40]));
    assert_eq!(list["tasks"][0]["dependencies_left"], 60);
    let task = manager.task(101).await;
    assert_eq!(task["dependencies"], json!(all));
    assert_eq!(task.get("dependencies_left"), None);
}

#[tokio::test]
async fn plan_manager_pages_dependencies() {
    let manager = Manager::with_tasks(&[&[][..]; 1000]).await;
    let all: Vec<i64> = (1..=1000).collect();
    let given = json!({"name": "Last", "dependencies": all, "reasoning": ""});
    manager.ok("addTask", given).await;
    let page = async |given: Value| manager.ok("getTaskById", given).await["task"].take();
    let first = page(json!({"task_id": 1001})).await;
    assert_eq!(first["dependencies"], json!(all[..400]));
    assert_eq!(first["dependencies_left"], 600);
    let last = page(json!({"task_id": 1001, "limit": 700, "offset": 400})).await;
    assert_eq!(last["dependencies"], json!(all[400..]));
    assert_eq!(last.get("dependencies_left"), None);
}

#[tokio::test]
async fn plan_prompt_of_large_plan_fits_in_4_kb() {
    let manager = large(2_000).await;
    let reason = "机械键盘 ".repeat(100);
    for task in 1..=30 {
        let given = json!({"task_id": task, "reason": reason});
        manager.ok("skipTask", given).await;
    }
    manager.start().await;
    let data = manager.ok("getPlanPrompt", json!({})).await;
    let prompt = data["prompt"].as_str().unwrap();
    assert!(prompt.len() <= 4000, "{} bytes", prompt.len());
    assert!(prompt.contains("In progress: 31\n"), "{prompt}");
    assert!(prompt.contains("Executable now: 33, 35, "), "{prompt}");
    let before = "… 25 before these\n26. [skipped]";
    assert!(prompt.contains(before), "{prompt}");
    assert!(prompt.contains("31. [in_progress]"), "{prompt}");
    assert!(prompt.trim_end().ends_with("after these"), "{prompt}");
}
