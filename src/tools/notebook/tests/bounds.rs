//! Bad input, and answers that stay small.

use super::*;

/// Returns a notebook with many subtasks with long texts.
async fn large(count: usize) -> PlanNotebook {
    let notebook = notebook().await;
    let long = "漢字".repeat(300);
    let subtask = |at| SubTask::new(&format!("{at} {long}"), &long, &long);
    let made = notebook.create_plan(&long, &long, &long, (0..count).map(subtask).collect());
    made.await.unwrap();
    notebook
}

#[tokio::test]
async fn hint_is_at_most_four_kilobytes() {
    let notebook = large(2000).await;
    for at in [0, 1] {
        for text in [hint(&notebook).await, {
            finish(&notebook, at).await;
            hint(&notebook).await
        }] {
            assert!(text.ends_with("</system-hint>"), "{text}");
            assert!(text.len() <= 4096, "{text}");
            has(&text, &["after these"]);
        }
    }
    let parts = ["finish_subtask", "revise_current_plan", "comes first"];
    has(&hint(&notebook).await, &parts);
}

#[tokio::test]
async fn notebook_answers_stay_below_16_kb() {
    let notebook = large(10_000).await;
    let indices: Vec<i64> = (0..10_000).collect();
    let wrong: Vec<i64> = (10_000..20_000).collect();
    set(&notebook, 0, SubTaskState::InProgress).await;
    let finish = |at: i64| json!({"subtask_idx": at, "subtask_outcome": "x"});
    let begin = json!({"subtask_idx": 5, "state": "in_progress"});
    for (name, arguments) in [
        ("view_subtasks", json!({"subtask_idx": indices})),
        ("view_subtasks", json!({"subtask_idx": wrong})),
        ("finish_subtask", finish(9_999)),
        ("finish_subtask", finish(0)),
        ("finish_plan", json!({"state": "done", "outcome": "x"})),
        ("update_subtask_state", begin),
        ("view_historical_plans", json!({})),
    ] {
        let answer = notebook.call(name, arguments).await;
        let size = answer.value.to_string().len();
        assert!(size < 16_000, "{name}: {size}");
    }
    let answer = notebook.view_subtasks(&indices).await.unwrap();
    assert!(answer.metadata.left > 9_900 && answer.text().contains("did not fit"));
    let one = notebook.view_subtasks(&[9_999]).await.unwrap();
    assert!(one.text().contains(&"漢字".repeat(300)));
}

#[tokio::test]
async fn notebook_schemas_and_descriptions_are_short() {
    let sizes = TOOLS
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.schema().to_string().len());
    let size: usize = sizes.sum();
    assert!(size <= 7000, "{size}");
}

#[tokio::test]
async fn notebook_rejects_bad_arguments() {
    let notebook = with_plan(&["a", "b"]).await;
    let long = "x".repeat(300 * 1024);
    let calls = format!(
        r#"
        ! view_subtasks 7
        ! view_subtasks {{"subtask_idx": {{}}}}
        ! view_subtasks {{"subtask_idx": ["first"]}}
        ! view_subtasks {{"subtask_idx": [0], "more": 1}}
        ! view_subtasks {{}}
        ! update_subtask_state {{"subtask_idx": 0.5, "state": "todo"}}
        ! update_subtask_state {{"subtask_idx": null, "state": "todo"}}
        ! update_subtask_state {{"subtask_idx": 0, "state": ["todo"]}}
        ! finish_subtask {{"subtask_idx": 0}}
        ! finish_subtask {{"subtask_idx": 0, "subtask_outcome": 5}}
        ! finish_subtask {{"subtask_idx": 0, "subtask_outcome": "{long}"}}
        ! create_plan {{"name": "P"}}
        ! create_plan []
        ! revise_current_plan {{"subtask_idx": 0, "action": "add", "subtask": {{"title": "x"}}}}
        ! finish_plan {{"state": "abandoned"}}
        ! view_historical_plans {{"limit": -1}}
        ! recover_historical_plan {{"plan_id": 5}}
        ! no_such_tool {{}}
        "#
    );
    for line in calls.lines() {
        run(&notebook, line).await;
    }
    let end = json!({"subtask_idx": 0, "subtask_outcome": long});
    assert!(call(&notebook, "finish_subtask", end).await.1.len() < 1000);
}

#[tokio::test]
async fn notebook_does_not_control_daemon_plan() {
    let notebook = notebook().await;
    let bound = crate::tools::tests::of_a_daemon(&notebook.toolbox, &["a", "b"]).await;
    // Unnamed, it is never meant.
    assert_eq!(notebook.current_plan().await.unwrap(), None);
    let bound = PlanNotebook::new(bound);
    assert_eq!(current(&bound).await.state, SubTaskState::InProgress);
    let calls = r#"
        ! finish_plan {"state": "abandoned", "outcome": "x"}
        ! update_subtask_state {"subtask_idx": 0, "state": "in_progress"}
        ! create_plan {"name": "P", "description": "", "expected_outcome": "", "subtasks": [{"name": "a", "description": "", "expected_outcome": ""}]}
        ! recover_historical_plan {"plan_id": "x"}
        revise_current_plan {"subtask_idx": 2, "action": "add", "subtask": {"name": "c", "description": "", "expected_outcome": ""}}
        update_subtask_state {"subtask_idx": 1, "state": "abandoned"}
    "#;
    run(&bound, calls).await;
    assert_eq!(states(&bound).await, "tat");
    let calls = r#"revise_current_plan {"subtask_idx": 2, "action": "delete"}"#;
    run(&bound, calls).await;
    // A person sees what was left out.
    assert_eq!(states(&bound).await, "taa");
}

#[tokio::test]
async fn notebook_reads_plan_of_other_dialect() {
    let notebook = notebook().await;
    let (toolbox, other) = (&notebook.toolbox, Dialect::PlanManager);
    let calls = r#"createPlan {"goal": "G", "tasks": [{"name": "one"}, {"name": "two", "dependencies": [1]}]}"#;
    crate::tools::tests::run(toolbox, other, calls).await;
    let plan = toolbox.only_current(other).await.unwrap();
    let bound = PlanNotebook::new(toolbox.clone().with_plan(plan));
    finish(&bound, 2).await;
    assert_eq!(states(&bound).await, "dd");
    let ended = bound.finish_plan(PlanEnd::Done, "x").await.unwrap();
    has(&ended.text(), &["the history of 'plan-manager'"]);
}

#[tokio::test]
async fn huge_index_error_names_range() {
    let notebook = with_plan(&["a", "b"]).await;
    let calls = r#"
        ! update_subtask_state {"subtask_idx": 9223372036854775808, "state": "todo"} => INVALID_INDEX: …Must be between 0 and 1.
        ! view_subtasks {"subtask_idx": [9223372036854775808]} => INVALID_INDEX: …Must be between 0 and 1.
    "#;
    run(&notebook, calls).await;
}

#[tokio::test]
async fn unchanged_plan_calls_no_hook() {
    let notebook = with_plan(&["a"]).await;
    let calls = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&calls);
    notebook.register_plan_change_hook("count", move |_, _| {
        *counted.lock() += 1;
        Ok(())
    });
    for _ in 0..2 {
        set(&notebook, 0, SubTaskState::InProgress).await;
    }
    assert_eq!(*calls.lock(), 1);
}

#[tokio::test]
async fn paused_plan_allows_finishing_but_no_start() {
    let notebook = with_plan(&["a", "b"]).await;
    finish(&notebook, 0).await;
    let plan = notebook.current().await.unwrap();
    amend(&notebook, &plan, |draft| draft.pause("a person")).await;
    assert!(hint(&notebook).await.contains("finish_subtask"));
    notebook.finish_subtask(0, "x").await.unwrap();
    // What is under way goes on, nothing new begins.
    let begun = notebook.update_subtask_state(1, SubTaskState::InProgress);
    fails(begun.await, NotebookErrorCode::Refused, "paused");
    amend(&notebook, &plan, |draft| draft.resume()).await;
    set(&notebook, 1, SubTaskState::InProgress).await;
    notebook.finish_subtask(1, "x").await.unwrap();
    notebook.finish_plan(PlanEnd::Done, "x").await.unwrap();
}
