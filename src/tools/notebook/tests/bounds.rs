//! Bad input, and answers that stay small.

use super::*;

/// Returns a notebook with many subtasks with long texts.
async fn large(count: usize) -> PlanNotebook {
    let notebook = notebook().await;
    let long = "漢字".repeat(300);
    let subtasks = (0..count)
        .map(|at| SubTask::new(&format!("{at} {long}"), &long, &long))
        .collect();
    notebook
        .create_plan(&long, &long, &long, subtasks)
        .await
        .unwrap();
    notebook
}

#[tokio::test]
async fn a_hint_never_exceeds_four_kilobytes() {
    let notebook = large(2000).await;
    for at in [0, 1] {
        for text in [hint(&notebook).await, {
            finish(&notebook, at).await;
            hint(&notebook).await
        }] {
            assert!(text.len() <= 4096, "{}", text.len());
            assert!(
                text.ends_with("</system-hint>") && text.contains("after these"),
                "{text}"
            );
        }
    }
    let text = hint(&notebook).await;
    assert!(text.contains("finish_subtask"), "{text}");
    assert!(
        text.contains("revise_current_plan") && text.contains("comes first"),
        "{text}"
    );
}

#[tokio::test]
async fn the_largest_answers_stay_below_sixteen_kilobytes() {
    let notebook = large(10_000).await;
    let indices: Vec<i64> = (0..10_000).collect();
    let wrong: Vec<i64> = (10_000..20_000).collect();
    notebook
        .update_subtask_state(0, State::InProgress)
        .await
        .unwrap();
    for (name, arguments) in [
        ("view_subtasks", json!({"subtask_idx": indices})),
        ("view_subtasks", json!({"subtask_idx": wrong})),
        (
            "finish_subtask",
            json!({"subtask_idx": 9_999, "subtask_outcome": "x"}),
        ),
        (
            "finish_subtask",
            json!({"subtask_idx": 0, "subtask_outcome": "x"}),
        ),
        ("finish_plan", json!({"state": "done", "outcome": "x"})),
        (
            "update_subtask_state",
            json!({"subtask_idx": 5, "state": "in_progress"}),
        ),
        ("view_historical_plans", json!({})),
    ] {
        let answer = notebook
            .toolbox
            .call(Dialect::Notebook, name, arguments)
            .await;
        let size = answer.value.to_string().len();
        assert!(size < 16_000, "{name}: {size}");
    }
    let answer = notebook.view_subtasks(&indices).await.unwrap();
    assert!(answer.metadata.left > 9_900 && answer.text().contains("did not fit"));
    let one = notebook.view_subtasks(&[9_999]).await.unwrap();
    assert!(one.text().contains(&"漢字".repeat(300)));
}

#[tokio::test]
async fn the_schemas_and_descriptions_are_short() {
    let size: usize = TOOLS
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.schema().to_string().len())
        .sum();
    assert!(size <= 7000, "{size}");
}

#[tokio::test]
async fn bad_arguments_are_refused_and_change_nothing() {
    let notebook = with_plan(&["a", "b"]).await;
    let long = "x".repeat(300 * 1024);
    for (name, arguments) in [
        ("view_subtasks", json!(7)),
        ("view_subtasks", json!({"subtask_idx": {}})),
        ("view_subtasks", json!({"subtask_idx": ["first"]})),
        ("view_subtasks", json!({"subtask_idx": [0], "more": 1})),
        ("view_subtasks", json!({})),
        (
            "update_subtask_state",
            json!({"subtask_idx": 0.5, "state": "todo"}),
        ),
        (
            "update_subtask_state",
            json!({"subtask_idx": null, "state": "todo"}),
        ),
        (
            "update_subtask_state",
            json!({"subtask_idx": 0, "state": ["todo"]}),
        ),
        ("finish_subtask", json!({"subtask_idx": 0})),
        (
            "finish_subtask",
            json!({"subtask_idx": 0, "subtask_outcome": 5}),
        ),
        (
            "finish_subtask",
            json!({"subtask_idx": 0, "subtask_outcome": long}),
        ),
        ("create_plan", json!({"name": "P"})),
        ("create_plan", json!([])),
        (
            "revise_current_plan",
            json!({"subtask_idx": 0, "action": "add", "subtask": {"title": "x"}}),
        ),
        ("finish_plan", json!({"state": "abandoned"})),
        ("view_historical_plans", json!({"limit": -1})),
        ("recover_historical_plan", json!({"plan_id": 5})),
        ("no_such_tool", json!({})),
    ] {
        let (_, text) = refused(&notebook, name, arguments).await;
        assert!(text.len() < 1000, "{text}");
    }
}

#[tokio::test]
async fn a_plan_that_a_daemon_carries_out_is_not_taken_from_it() {
    let notebook = notebook().await;
    let head = crate::plan::Head::new(PlanId::new("daemons"), "goal", crate::plan::Time(0));
    let made = notebook
        .toolbox
        .store()
        .create(head, "daemon", "", |draft| {
            let task = |name: &str| crate::plan::NewTask {
                name: name.to_owned(),
                ..crate::plan::NewTask::default()
            };
            draft.make_tasks(vec![task("a"), task("b")])?;
            draft.start(crate::plan::Policy::default(), "/w")
        });
    made.await.unwrap();
    // Unnamed, it is never meant.
    assert_eq!(notebook.current_plan().await.unwrap(), None);
    let bound = PlanNotebook::new(notebook.toolbox.clone().with_plan(PlanId::new("daemons")));
    assert_eq!(current(&bound).await.state, State::InProgress);
    for (name, arguments) in [
        ("finish_plan", json!({"state": "abandoned", "outcome": "x"})),
        (
            "update_subtask_state",
            json!({"subtask_idx": 0, "state": "in_progress"}),
        ),
        (
            "create_plan",
            json!({"name": "P", "description": "", "expected_outcome": "",
            "subtasks": [{"name": "a", "description": "", "expected_outcome": ""}]}),
        ),
        ("recover_historical_plan", json!({"plan_id": "x"})),
    ] {
        refused(&bound, name, arguments).await;
    }
    let add = json!({"subtask_idx": 2, "action": "add",
        "subtask": {"name": "c", "description": "", "expected_outcome": ""}});
    assert!(call(&bound, "revise_current_plan", add).await.0);
    let skip = json!({"subtask_idx": 1, "state": "abandoned"});
    assert!(call(&bound, "update_subtask_state", skip).await.0);
    assert_eq!(states(&bound).await, "tat");
    let delete = json!({"subtask_idx": 2, "action": "delete"});
    assert!(call(&bound, "revise_current_plan", delete).await.0);
}

#[tokio::test]
async fn a_plan_of_another_dialect_can_be_seen_as_a_notebook() {
    let notebook = notebook().await;
    let tasks = json!([
        {"name": "one", "dependencies": [], "reasoning": ""},
        {"name": "two", "dependencies": [1], "reasoning": ""},
    ]);
    let made = notebook.toolbox.call(
        Dialect::PlanManager,
        "createPlan",
        json!({"goal": "G", "tasks": tasks}),
    );
    assert!(made.await.success);
    let plan = notebook
        .toolbox
        .only_current(Dialect::PlanManager)
        .await
        .unwrap();
    let bound = PlanNotebook::new(notebook.toolbox.clone().with_plan(plan));
    finish(&bound, 2).await;
    assert_eq!(states(&bound).await, "dd");
    let ended = bound.finish_plan(End::Done, "x").await.unwrap();
    assert!(
        ended.text().contains("the history of 'plan-manager'"),
        "{}",
        ended.text()
    );
}

#[tokio::test]
async fn an_index_beyond_all_numbers_is_told_what_fits() {
    let notebook = with_plan(&["a", "b"]).await;
    let large = 9_223_372_036_854_775_808_u64;
    for (name, arguments) in [
        (
            "update_subtask_state",
            json!({"subtask_idx": large, "state": "todo"}),
        ),
        ("view_subtasks", json!({"subtask_idx": [large]})),
    ] {
        let (code, text) = refused(&notebook, name, arguments).await;
        assert_eq!(code, ErrorCode::InvalidIndex);
        assert!(text.contains("Must be between 0 and 1"), "{text}");
    }
}

#[tokio::test]
async fn hooks_are_not_called_when_nothing_changes() {
    let notebook = with_plan(&["a"]).await;
    let calls = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&calls);
    notebook.register_plan_change_hook("count", move |_, _| {
        *counted.lock().unwrap() += 1;
        Ok(())
    });
    for _ in 0..2 {
        notebook
            .update_subtask_state(0, State::InProgress)
            .await
            .unwrap();
    }
    assert_eq!(*calls.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_paused_plan_is_gone_on_with_calmly() {
    let notebook = with_plan(&["a", "b"]).await;
    finish(&notebook, 0).await;
    let plan = notebook.current().await.unwrap();
    let pause = |draft: &mut crate::plan::Draft<'_>| draft.pause("a person");
    notebook.toolbox.change(&plan, "", pause).await.unwrap();
    assert!(hint(&notebook).await.contains("finish_subtask"));
    notebook.finish_subtask(0, "x").await.unwrap();
    // What is under way goes on, nothing new begins.
    let refused = notebook.update_subtask_state(1, State::InProgress).await;
    assert!(refused.unwrap_err().to_string().contains("paused"));
    let resume = |draft: &mut crate::plan::Draft<'_>| draft.resume();
    notebook.toolbox.change(&plan, "", resume).await.unwrap();
    notebook
        .update_subtask_state(1, State::InProgress)
        .await
        .unwrap();
    notebook.finish_subtask(1, "x").await.unwrap();
    notebook.finish_plan(End::Done, "x").await.unwrap();
}
