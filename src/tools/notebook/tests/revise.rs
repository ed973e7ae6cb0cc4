//! Changing the subtasks of a plan.

use super::*;

fn revise(at: i64, action: &str, name: &str) -> Value {
    let subtask = json!({"name": name, "description": "new", "expected_outcome": "new outcome"});
    json!({"subtask_idx": at, "action": action, "subtask": subtask})
}

#[tokio::test]
async fn adding_inserts_before_the_index_and_at_the_end() {
    let notebook = with_plan(&["a", "b"]).await;
    for (at, name, after) in [
        (0, "x", "x a b"),
        (2, "y", "x a y b"),
        (4, "z", "x a y b z"),
        (0, "w", "w x a y b z"),
    ] {
        let (success, text) = call(&notebook, "revise_current_plan", revise(at, "add", name)).await;
        assert!(success && text.contains("added successfully"), "{text}");
        assert!(
            text.contains(&format!("index {at}")) && text.contains(name),
            "{text}"
        );
        assert_eq!(names(&notebook).await.join(" "), after);
    }
    let (code, text) = refused(&notebook, "revise_current_plan", revise(7, "add", "v")).await;
    assert_eq!(code, ErrorCode::InvalidIndex);
    assert!(
        text.starts_with("Error: Invalid subtask_idx '7' for action 'add'"),
        "{text}"
    );
    assert!(text.contains("Must be between 0 and 6"), "{text}");
}

#[tokio::test]
async fn no_more_subtasks_are_added_than_are_allowed() {
    let notebook = with_plan(&["a", "b"]).await.with_max_subtasks(Some(2));
    let (code, text) = refused(&notebook, "revise_current_plan", revise(2, "add", "c")).await;
    assert_eq!(code, ErrorCode::TooManySubtasks);
    assert!(text.contains("at most 2"), "{text}");
    let settings = Settings {
        max_subtasks: Some(1),
        ..Settings::default()
    };
    let store = notebook.toolbox.store().clone();
    let bounded = PlanNotebook::new(Toolbox::new(store, settings, "test"));
    let many = bounded
        .create_plan("P", "", "", subtasks(&["a", "b"]))
        .await;
    assert_eq!(many.unwrap_err().code(), ErrorCode::TooManySubtasks);
    let free = bounded.with_max_subtasks(None);
    create(&free, "P", &["a", "b"]).await;
}

#[tokio::test]
async fn what_is_added_in_progress_has_its_turn() {
    let notebook = with_plan(&["a", "b"]).await;
    let mut given = revise(2, "add", "c");
    given["subtask"]["state"] = json!("in_progress");
    let (code, _) = refused(&notebook, "revise_current_plan", given.clone()).await;
    assert_eq!(code, ErrorCode::NotDoneYet);
    given["subtask_idx"] = json!(0);
    assert!(
        call(&notebook, "revise_current_plan", given.clone())
            .await
            .0
    );
    assert_eq!(states(&notebook).await, "itt");
    assert_eq!(current(&notebook).await.state, State::InProgress);
    let (code, _) = refused(&notebook, "revise_current_plan", given).await;
    assert_eq!(code, ErrorCode::AlreadyInProgress);
}

#[tokio::test]
async fn revising_changes_the_texts_and_no_state() {
    let notebook = with_plan(&["a", "b", "c"]).await;
    finish(&notebook, 1).await;
    for at in [1, 2] {
        let (success, text) =
            call(&notebook, "revise_current_plan", revise(at, "revise", "n")).await;
        assert!(success && text.contains("revised successfully"), "{text}");
        let subtask = &current(&notebook).await.subtasks[usize::try_from(at).unwrap()];
        assert_eq!(
            (subtask.name.as_str(), subtask.description.as_str()),
            ("n", "new")
        );
        assert_eq!(subtask.expected_outcome, "new outcome");
    }
    assert_eq!(states(&notebook).await, "dit");
    let (code, text) = refused(&notebook, "revise_current_plan", revise(0, "revise", "n")).await;
    assert_eq!(code, ErrorCode::Settled);
    assert!(text.contains("'done': set it to 'todo'"), "{text}");
    let mut given = revise(2, "revise", "n");
    given["subtask"]["state"] = json!("done");
    let (code, text) = refused(&notebook, "revise_current_plan", given).await;
    assert_eq!(code, ErrorCode::InvalidState);
    assert!(text.contains("'finish_subtask'"), "{text}");
    let (code, text) = refused(&notebook, "revise_current_plan", revise(3, "revise", "n")).await;
    assert_eq!(code, ErrorCode::InvalidIndex);
    assert!(
        text.contains("for action 'revise'. Must be between 0 and 2"),
        "{text}"
    );
}

#[tokio::test]
async fn deleting_takes_a_subtask_out_whatever_its_state_but_not_the_only_one() {
    let notebook = with_plan(&["a", "b", "c", "d"]).await;
    finish(&notebook, 1).await;
    let delete = |at: i64| json!({"subtask_idx": at, "action": "delete"});
    let (success, text) = call(&notebook, "revise_current_plan", delete(3)).await;
    assert!(
        success && text.contains("named 'd', is deleted successfully"),
        "{text}"
    );
    assert!(call(&notebook, "revise_current_plan", delete(1)).await.0);
    assert!(call(&notebook, "revise_current_plan", delete(0)).await.0);
    assert_eq!(names(&notebook).await, ["c"]);
    assert_eq!(current(&notebook).await.state, State::Todo);
    let (code, text) = refused(&notebook, "revise_current_plan", delete(0)).await;
    assert_eq!(code, ErrorCode::NoSubtasks);
    assert!(text.contains("the only one"), "{text}");
}

#[tokio::test]
async fn errors_of_a_revision_begin_with_error_and_name_what_is_allowed() {
    let notebook = with_plan(&["a"]).await;
    for (given, code, part) in [
        (
            revise(0, "insert", "x"),
            ErrorCode::InvalidAction,
            "one of add, revise, delete",
        ),
        (
            json!({"subtask_idx": 0, "action": "add"}),
            ErrorCode::MissingSubtask,
            "The subtask is missing; the action 'add' needs it",
        ),
        (
            json!({"subtask_idx": 0, "action": "revise", "subtask": null}),
            ErrorCode::MissingSubtask,
            "action 'revise'",
        ),
        (
            json!({"subtask_idx": 0, "action": "add", "subtask": "walk"}),
            ErrorCode::InvalidArgument,
            "not an object",
        ),
        (
            json!({"action": "add"}),
            ErrorCode::InvalidIndex,
            "`subtask_idx` is missing",
        ),
        (
            revise(0, "add", ""),
            ErrorCode::InvalidArgument,
            "needs a name",
        ),
    ] {
        let (told, text) = refused(&notebook, "revise_current_plan", given).await;
        assert!(text.starts_with("Error: "), "{text}");
        assert!(text.contains(part), "{text}");
        assert_eq!(told, code, "{text}");
    }
}
