//! Changing the subtasks of a plan.

use super::*;

fn revise(at: i64, action: &str, name: &str) -> Value {
    let subtask = json!({"name": name, "description": "new", "expected_outcome": "new outcome"});
    json!({"subtask_idx": at, "action": action, "subtask": subtask})
}

#[tokio::test]
async fn add_inserts_before_index_or_at_end() {
    let notebook = with_plan(&["a", "b"]).await;
    for (at, name, after) in [
        (0, "x", "x a b"),
        (2, "y", "x a y b"),
        (4, "z", "x a y b z"),
        (0, "w", "w x a y b z"),
    ] {
        let given = revise(at, "add", name);
        let text = format!("…'{name}', is added successfully at index {at}…");
        run(&notebook, &format!("revise_current_plan {given} => {text}")).await;
        assert_eq!(names(&notebook).await.join(" "), after);
    }
    let given = revise(7, "add", "v");
    let text =
        "INVALID_INDEX: Error: Invalid subtask_idx '7' for action 'add'…Must be between 0 and 6.";
    let calls = format!("! revise_current_plan {given} => {text}");
    run(&notebook, &calls).await;
}

#[tokio::test]
async fn add_respects_subtask_limit() {
    let notebook = with_plan(&["a", "b"]).await.with_max_subtasks(Some(2));
    let given = revise(2, "add", "c");
    let calls = format!("! revise_current_plan {given} => TOO_MANY_SUBTASKS: …at most 2…");
    run(&notebook, &calls).await;
    let mut config = Config::default();
    config.tools.max_subtasks = ConfiguredLimit(Some(1));
    let store = notebook.toolbox.store().clone();
    let bounded = PlanNotebook::new(Toolbox::new(store, &config, "test"));
    let many = bounded.create_plan("P", "", "", subtasks(&["a", "b"]));
    fails(many.await, TooManySubtasks, "at most 1");
    let free = bounded.with_max_subtasks(None);
    create(&free, "P", &["a", "b"]).await;
}

#[tokio::test]
async fn subtask_added_in_progress_respects_order() {
    let notebook = with_plan(&["a", "b"]).await;
    let mut early = revise(2, "add", "c");
    early["subtask"]["state"] = json!("in_progress");
    let mut first = early.clone();
    first["subtask_idx"] = json!(0);
    let calls = format!(
        "! revise_current_plan {early} => NOT_DONE_YET: …
        revise_current_plan {first}
        ! revise_current_plan {first} => ALREADY_IN_PROGRESS: …"
    );
    run(&notebook, &calls).await;
    assert_eq!(states(&notebook).await, "itt");
    assert_eq!(current(&notebook).await.state, SubTaskState::InProgress);
}

#[tokio::test]
async fn revise_changes_texts_but_no_state() {
    let notebook = with_plan(&["a", "b", "c"]).await;
    finish(&notebook, 1).await;
    for at in [1, 2] {
        let given = revise(at, "revise", "n");
        let calls = format!("revise_current_plan {given} => …revised successfully.");
        run(&notebook, &calls).await;
        let mut subtasks = current(&notebook).await.subtasks;
        let subtask = subtasks.remove(usize::try_from(at).unwrap());
        let texts = [subtask.name, subtask.description, subtask.expected_outcome];
        assert_eq!(texts, ["n", "new", "new outcome"]);
    }
    assert_eq!(states(&notebook).await, "dit");
    let settled = revise(0, "revise", "n");
    let mut done = revise(2, "revise", "n");
    done["subtask"]["state"] = json!("done");
    let beyond = revise(3, "revise", "n");
    let calls = format!(
        "! revise_current_plan {settled} => SETTLED: …'done': set it to 'todo'…
        ! revise_current_plan {done} => INVALID_STATE: …'finish_subtask'…
        ! revise_current_plan {beyond} => INVALID_INDEX: …for action 'revise'. Must be between 0 and 2."
    );
    run(&notebook, &calls).await;
}

#[tokio::test]
async fn delete_removes_any_subtask_but_last() {
    let notebook = with_plan(&["a", "b", "c", "d"]).await;
    finish(&notebook, 1).await;
    let calls = r#"
        revise_current_plan {"subtask_idx": 3, "action": "delete"} => …named 'd', is deleted successfully.
        revise_current_plan {"subtask_idx": 1, "action": "delete"}
        revise_current_plan {"subtask_idx": 0, "action": "delete"}
        ! revise_current_plan {"subtask_idx": 0, "action": "delete"} => NO_SUBTASKS: …the only one…
    "#;
    run(&notebook, calls).await;
    assert_eq!(names(&notebook).await, ["c"]);
    assert_eq!(current(&notebook).await.state, SubTaskState::Todo);
}

#[tokio::test]
async fn revise_errors_name_allowed_values() {
    let calls = r#"
        ! revise_current_plan {"subtask_idx": 0, "action": "insert", "subtask": {"name": "x", "description": "", "expected_outcome": ""}} => INVALID_ACTION: Error: …one of add, revise, delete…
        ! revise_current_plan {"subtask_idx": 0, "action": "add"} => MISSING_SUBTASK: Error: The subtask is missing; the action 'add' needs it.
        ! revise_current_plan {"subtask_idx": 0, "action": "revise", "subtask": null} => MISSING_SUBTASK: Error: …action 'revise'…
        ! revise_current_plan {"subtask_idx": 0, "action": "add", "subtask": "walk"} => INVALID_ARGUMENT: Error: …not an object…
        ! revise_current_plan {"action": "add"} => INVALID_INDEX: Error: …`subtask_idx` is missing…
        ! revise_current_plan {"subtask_idx": 0, "action": "add", "subtask": {"name": "", "description": "", "expected_outcome": ""}} => INVALID_ARGUMENT: Error: …needs a name…
    "#;
    run(&with_plan(&["a"]).await, calls).await;
}
