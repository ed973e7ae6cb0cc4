//! Making a plan.

use super::*;

#[tokio::test]
async fn a_plan_is_created_with_its_fields() {
    let notebook = notebook().await;
    let (success, text) = call(
        &notebook,
        "create_plan",
        json!({
            "name": "Report", "description": "Check it", "expected_outcome": "A verdict",
            "subtasks": [
                {"name": "Read", "description": "all of it", "expected_outcome": "claims"},
                {"name": "Check", "description": "each", "expected_outcome": "true or false"},
            ],
        }),
    )
    .await;
    assert!(
        success && text.contains("'Report' created successfully"),
        "{text}"
    );
    let plan = current(&notebook).await;
    assert_eq!(
        (
            plan.name.as_str(),
            plan.description.as_str(),
            plan.expected_outcome.as_str()
        ),
        ("Report", "Check it", "A verdict")
    );
    assert_eq!(
        (plan.state, plan.outcome, plan.finished_at),
        (State::Todo, None, None)
    );
    assert!((1..=22).contains(&plan.id.len()));
    let read = &plan.subtasks[0];
    assert_eq!(
        (
            read.name.as_str(),
            read.description.as_str(),
            read.expected_outcome.as_str()
        ),
        ("Read", "all of it", "claims")
    );
    assert_eq!(
        (read.state, &read.outcome, &read.finished_at),
        (State::Todo, &None, &None)
    );
    let core = notebook
        .toolbox
        .only_current(Dialect::Notebook)
        .await
        .unwrap();
    let head = notebook
        .toolbox
        .store()
        .read(&core, |plan, _| plan.head().clone());
    let head = head.await.unwrap();
    assert_eq!(
        (head.owner.as_str(), head.order),
        ("notebook", crate::plan::Order::Sequential)
    );
    assert_eq!(head.shelf, Shelf::Current);
}

#[tokio::test]
async fn a_plan_replaces_the_one_before_it_which_goes_into_the_history_abandoned() {
    let notebook = with_plan(&["a", "b"]).await;
    let old = current(&notebook).await.id;
    notebook
        .update_subtask_state(0, State::InProgress)
        .await
        .unwrap();
    let text = create(&notebook, "Other", &["c"]).await;
    assert!(text.contains("'Other' created successfully"), "{text}");
    assert!(
        text.contains("'Plan' is replaced") && text.contains(&old),
        "{text}"
    );
    assert_eq!(current(&notebook).await.name, "Other");
    let kept = notebook.storage().get_plan(&old).await.unwrap().unwrap();
    assert_eq!(kept.state, State::Abandoned);
    assert!(
        kept.outcome
            .unwrap()
            .contains("interrupted by the plan 'Other'")
    );
    assert_eq!(kept.subtasks[0].state, State::InProgress);
}

#[tokio::test]
async fn a_plan_that_cannot_be_is_not_created_and_replaces_nothing() {
    let notebook = with_plan(&["a"]).await.with_max_subtasks(Some(3));
    let subtask = |name: &str, state: &str| json!({"name": name, "description": "", "expected_outcome": "", "state": state});
    let plan = |subtasks: Value| json!({"name": "P", "description": "", "expected_outcome": "", "subtasks": subtasks});
    let wrong_time =
        json!([{"name": "a", "description": "", "expected_outcome": "", "created_at": "soon"}]);
    let cases = [
        (json!([]), ErrorCode::NoSubtasks, "at least one"),
        (
            json!([subtask("a", "in_progress"), subtask("b", "in_progress")]),
            ErrorCode::AlreadyInProgress,
            "index 0 and 1 are both in progress",
        ),
        (
            json!([subtask("a", "todo"), subtask("b", "in_progress")]),
            ErrorCode::NotDoneYet,
            "index 0, named 'a', is not done yet",
        ),
        (
            json!(["a", "b", "c", "d"].map(|name| subtask(name, "todo"))),
            ErrorCode::TooManySubtasks,
            "at most 3",
        ),
        (
            json!([subtask(" ", "todo")]),
            ErrorCode::InvalidArgument,
            "subtasks[0].name",
        ),
        (
            json!([subtask("a", "later")]),
            ErrorCode::InvalidArgument,
            "todo, in_progress, done, abandoned",
        ),
        (
            wrong_time,
            ErrorCode::InvalidArgument,
            "subtasks[0].created_at 'soon'",
        ),
        (
            json!([{"name": "a", "description": ""}]),
            ErrorCode::InvalidArgument,
            "expected_outcome",
        ),
        (json!("a, b"), ErrorCode::InvalidArgument, "subtasks"),
    ];
    for (subtasks, code, part) in cases {
        let (told, text) = refused(&notebook, "create_plan", plan(subtasks)).await;
        assert!(
            text.starts_with("Invalid ") && text.contains(part),
            "{text}"
        );
        assert_eq!(told, code, "{text}");
    }
    let unnamed = json!({"name": " ", "description": "", "expected_outcome": "", "subtasks": [subtask("a", "todo")]});
    let (_, text) = refused(&notebook, "create_plan", unnamed).await;
    assert!(text.contains("Invalid name"), "{text}");
}

#[tokio::test]
async fn a_plan_may_be_created_with_states_that_fit() {
    let notebook = notebook().await;
    let (success, _) = call(
        &notebook,
        "create_plan",
        json!({
            "name": "P", "description": "", "expected_outcome": "",
            "subtasks": [
                {"name": "a", "description": "", "expected_outcome": "", "state": "done", "outcome": "ok",
                 "created_at": "2026-01-31 09:30:00.125", "finished_at": "2026-01-31 10:00:00.000"},
                {"name": "b", "description": "", "expected_outcome": "", "state": "abandoned"},
                {"name": "c", "description": "", "expected_outcome": "", "state": "in_progress"},
            ],
        }),
    )
    .await;
    assert!(success);
    let plan = current(&notebook).await;
    assert_eq!(states(&notebook).await, "dai");
    assert_eq!(plan.state, State::InProgress);
    let done = &plan.subtasks[0];
    assert_eq!(done.created_at, "2026-01-31 09:30:00.125");
    assert_eq!(done.finished_at.as_deref(), Some("2026-01-31 10:00:00.000"));
    assert_eq!(done.outcome.as_deref(), Some("ok"));
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_and_changes_nothing() {
    let notebook = with_plan(&["a"]).await;
    let before = trace(&notebook).await;
    let mut plan = json!({
        "name": "Next", "description": "", "expected_outcome": "", "dry_run": true,
        "subtasks": [{"name": "x", "description": "", "expected_outcome": ""}],
    });
    let (success, text) = call(&notebook, "create_plan", plan.clone()).await;
    assert!(success && text.contains("Nothing has changed"), "{text}");
    assert!(
        text.contains("1 subtask can be created") && text.contains("would replace the plan 'Plan'")
    );
    plan["subtasks"] = json!([]);
    assert!(!call(&notebook, "create_plan", plan).await.0);
    assert_eq!(trace(&notebook).await, before);
}

#[tokio::test]
async fn a_subtask_that_is_done_from_the_beginning_was_finished_by_then() {
    let notebook = notebook().await;
    let done = json!({"name": "a", "description": "d", "expected_outcome": "e", "state": "done"});
    let open = json!({"name": "b", "description": "d", "expected_outcome": "e"});
    let plan =
        json!({"name": "n", "description": "d", "expected_outcome": "e", "subtasks": [done, open]});
    let (success, text) = call(&notebook, "create_plan", plan).await;
    assert!(success, "{text}");
    let add = json!({"subtask_idx": 1, "action": "add", "subtask": done});
    call(&notebook, "revise_current_plan", add).await;
    let (_, text) = call(&notebook, "view_subtasks", json!({"subtask_idx": [0, 1]})).await;
    assert_eq!(text.matches("Finished At: 20").count(), 2, "{text}");
    let given = "2026-01-31 09:30:00.000";
    let done = json!({"name": "a", "description": "d", "expected_outcome": "e", "state": "done", "finished_at": given});
    let add = json!({"subtask_idx": 3, "action": "add", "subtask": done});
    call(&notebook, "revise_current_plan", add).await;
    let plan = current(&notebook).await;
    assert_eq!(plan.subtasks[3].finished_at.as_deref(), Some(given));
    assert_eq!(plan.subtasks[2].finished_at, None);
}
