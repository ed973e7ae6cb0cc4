//! Making a plan.

use super::*;

#[tokio::test]
async fn create_plan_stores_all_fields() {
    let notebook = notebook().await;
    let calls = r#"
        create_plan {"name": "Report", "description": "Check it", "expected_outcome": "A verdict", "subtasks": [{"name": "Read", "description": "all of it", "expected_outcome": "claims"}, {"name": "Check", "description": "each", "expected_outcome": "true or false"}]} => Plan 'Report' created successfully with 2 subtasks; its ID is '…'.
    "#;
    run(&notebook, calls).await;
    let plan = current(&notebook).await;
    assert!((1..=22).contains(&plan.id.len()));
    let read = &plan.subtasks[0];
    let wanted = SubTask {
        created_at: read.created_at.clone(),
        ..SubTask::new("Read", "all of it", "claims")
    };
    assert_eq!(*read, wanted);
    let wanted = NotebookPlan {
        id: plan.id.clone(),
        created_at: plan.created_at.clone(),
        ..NotebookPlan::new("Report", "Check it", "A verdict", plan.subtasks.clone())
    };
    assert_eq!(plan, wanted);
    let core = notebook.current().await.unwrap();
    let head = notebook.toolbox.head(&core).await.unwrap();
    assert_eq!(head.owner, "notebook");
    assert_eq!(head.order, TaskOrder::Sequential);
    assert_eq!(head.archive_state, ArchiveState::Current);
}

#[tokio::test]
async fn replaced_plan_enters_history_as_abandoned() {
    let notebook = with_plan(&["a", "b"]).await;
    let old = current(&notebook).await.id;
    set(&notebook, 0, SubTaskState::InProgress).await;
    let text = create(&notebook, "Other", &["c"]).await;
    assert!(text.contains("'Other' created successfully"), "{text}");
    let replaced = format!("The plan 'Plan' is replaced; the history keeps it under ID '{old}'.");
    assert!(text.ends_with(&replaced), "{text}");
    assert_eq!(current(&notebook).await.name, "Other");
    let kept = notebook.storage().get_plan(&old).await.unwrap().unwrap();
    assert_eq!(kept.state, SubTaskState::Abandoned);
    has(&kept.outcome.unwrap(), &["interrupted by the plan 'Other'"]);
    assert_eq!(kept.subtasks[0].state, SubTaskState::InProgress);
}

#[tokio::test]
async fn invalid_plan_is_not_created() {
    let notebook = with_plan(&["a"]).await.with_max_subtasks(Some(3));
    let subtask = |name: &str, state: &str| {
        json!({"name": name, "description": "", "expected_outcome": "", "state": state}).to_string()
    };
    let (todo, begun) = (subtask("a", "todo"), subtask("b", "in_progress"));
    let (unnamed, later) = (subtask(" ", "todo"), subtask("a", "later"));
    let cases = format!(
        r#"
        [] => NO_SUBTASKS: …at least one.
        [{begun}, {begun}] => ALREADY_IN_PROGRESS: …index 0 and 1 are both in progress…
        [{todo}, {begun}] => NOT_DONE_YET: …index 0, named 'a', is not done yet.
        [{todo}, {todo}, {todo}, {todo}] => TOO_MANY_SUBTASKS: …at most 3…
        [{unnamed}] => INVALID_ARGUMENT: …subtasks[0].name…
        [{later}] => INVALID_ARGUMENT: …todo, in_progress, done, abandoned…
        [{{"name": "a", "description": "", "expected_outcome": "", "created_at": "soon"}}] => INVALID_ARGUMENT: …subtasks[0].created_at 'soon'…
        [{{"name": "a", "description": ""}}] => INVALID_ARGUMENT: …expected_outcome…
        "a, b" => INVALID_ARGUMENT: …subtasks…"#
    );
    for case in cases.trim_start().lines() {
        let (subtasks, wanted) = case.split_once(" => ").unwrap();
        let wanted = wanted.replacen(": …", ": Invalid …", 1);
        let calls = format!(
            r#"! create_plan {{"name": "P", "description": "", "expected_outcome": "", "subtasks": {subtasks}}} => {wanted}"#
        );
        run(&notebook, &calls).await;
    }
    let calls = r#"
        ! create_plan {"name": " ", "description": "", "expected_outcome": "", "subtasks": [{"name": "a", "description": "", "expected_outcome": ""}]} => INVALID_ARGUMENT: Invalid name…
    "#;
    run(&notebook, calls).await;
}

#[tokio::test]
async fn create_plan_accepts_consistent_states() {
    let notebook = notebook().await;
    let calls = r#"
        create_plan {"name": "P", "description": "", "expected_outcome": "", "subtasks": [{"name": "a", "description": "", "expected_outcome": "", "state": "done", "outcome": "ok", "created_at": "2026-01-31 09:30:00.125", "finished_at": "2026-01-31 10:00:00.000"}, {"name": "b", "description": "", "expected_outcome": "", "state": "abandoned"}, {"name": "c", "description": "", "expected_outcome": "", "state": "in_progress"}]}
    "#;
    run(&notebook, calls).await;
    let plan = current(&notebook).await;
    assert_eq!(states(&notebook).await, "dai");
    assert_eq!(plan.state, SubTaskState::InProgress);
    let done = &plan.subtasks[0];
    assert_eq!(done.created_at, "2026-01-31 09:30:00.125");
    assert_eq!(done.finished_at.as_deref(), Some("2026-01-31 10:00:00.000"));
    assert_eq!(done.outcome.as_deref(), Some("ok"));
}

#[tokio::test]
async fn notebook_dry_run_changes_nothing() {
    let notebook = with_plan(&["a"]).await;
    let before = trace(&notebook).await;
    let calls = r#"
        create_plan {"name": "Next", "description": "", "expected_outcome": "", "dry_run": true, "subtasks": [{"name": "x", "description": "", "expected_outcome": ""}]} => Nothing has changed. The plan 'Next' with 1 subtask can be created. It would replace the plan 'Plan'.
        ! create_plan {"name": "Next", "description": "", "expected_outcome": "", "dry_run": true, "subtasks": []}
    "#;
    run(&notebook, calls).await;
    assert_eq!(trace(&notebook).await, before);
}

#[tokio::test]
async fn subtask_created_as_done_has_finish_time() {
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
