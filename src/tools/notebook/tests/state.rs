//! `state_dict` and `load_state_dict`.

use super::*;

/// What AgentScope 1.0.21 writes for a notebook with one plan in its history and one in hand.
fn agentscope() -> Value {
    json!({
        "storage": {"plans": {"5TDNfkaXCvCQgHX5GoXRZe": {
            "id": "5TDNfkaXCvCQgHX5GoXRZe", "name": "P2", "description": "desc",
            "expected_outcome": "outc",
            "subtasks": [
                {"name": "A", "description": "d A", "expected_outcome": "o A", "outcome": "r0",
                 "state": "done", "created_at": "2026-11-22 07:28:47.522",
                 "finished_at": "2026-11-22 07:28:47.523"},
                {"name": "B", "description": "d B", "expected_outcome": "o B", "outcome": null,
                 "state": "abandoned", "created_at": "2026-11-22 07:28:47.522", "finished_at": null},
            ],
            "created_at": "2026-11-22 07:28:47.522", "state": "done",
            "finished_at": "2026-11-22 07:28:47.523", "outcome": "good",
        }}},
        "current_plan": {
            "id": "b4LWyD8nMgLb9Ke7rPgabN", "name": "P3", "description": "desc",
            "expected_outcome": "outc",
            "subtasks": [
                {"name": "C", "description": "d C", "expected_outcome": "o C", "outcome": null,
                 "state": "in_progress", "created_at": "2026-11-22 07:28:47.600", "finished_at": null},
                {"name": "D", "description": "d D", "expected_outcome": "o D", "outcome": null,
                 "state": "todo", "created_at": "2026-11-22 07:28:47.600", "finished_at": null},
            ],
            "created_at": "2026-11-22 07:28:47.601", "state": "in_progress",
            "finished_at": null, "outcome": null,
        },
    })
}

/// Loads a state, and checks that it is what the notebook writes then.
async fn loads_back(notebook: &PlanNotebook, state: &Value) {
    notebook.load_state_dict(state).await.unwrap();
    assert_eq!(notebook.state_dict().await.unwrap(), *state);
}

#[tokio::test]
async fn agentscope_state_round_trips() {
    let notebook = notebook().await;
    loads_back(&notebook, &agentscope()).await;
    notebook.finish_subtask(0, "x").await.unwrap();
    assert_eq!(states(&notebook).await, "di");
    let recovered = notebook.recover_historical_plan("5TDNfkaXCvCQgHX5GoXRZe");
    recovered.await.unwrap();
    assert_eq!(states(&notebook).await, "da");
}

#[tokio::test]
async fn empty_notebook_has_empty_state() {
    let empty = json!({"storage": {"plans": {}}, "current_plan": null});
    let notebook = notebook().await;
    assert_eq!(notebook.state_dict().await.unwrap(), empty);
    loads_back(&notebook, &empty).await;
}

#[tokio::test]
async fn state_loads_into_another_store() {
    let notebook = with_plan(&["a", "b"]).await;
    abandon_plan(&notebook).await;
    create(&notebook, "Second", &["c", "d", "e"]).await;
    finish(&notebook, 1).await;
    set(&notebook, 1, SubTaskState::Abandoned).await;
    let state = notebook.state_dict().await.unwrap();
    let other = super::notebook().await;
    loads_back(&other, &state).await;
    assert_eq!(states(&other).await, "dat");
}

#[tokio::test]
async fn reloading_state_changes_only_differences() {
    let notebook = notebook().await;
    notebook.load_state_dict(&agentscope()).await.unwrap();
    let rows = trace(&notebook).await.len();
    notebook.finish_subtask(0, "x").await.unwrap();
    notebook.finish_subtask(1, "y").await.unwrap();
    assert_ne!(notebook.state_dict().await.unwrap(), agentscope());
    loads_back(&notebook, &agentscope()).await;
    assert_eq!(trace(&notebook).await.len(), rows);
}

#[tokio::test]
async fn recovered_plan_round_trips_in_state() {
    let notebook = with_plan(&["a", "b"]).await;
    let id = current(&notebook).await.id;
    abandon_plan(&notebook).await;
    notebook.recover_historical_plan(&id).await.unwrap();
    finish(&notebook, 1).await;
    let state = notebook.state_dict().await.unwrap();
    assert_eq!(state["current_plan"]["id"], json!(id));
    assert_eq!(state["storage"]["plans"][&id]["state"], json!("abandoned"));
    let other = super::notebook().await;
    loads_back(&other, &state).await;
    loads_back(&notebook, &state).await;
}

#[tokio::test]
async fn loading_state_archives_other_current_plan() {
    let empty = json!({"storage": {"plans": {}}, "current_plan": null});
    for state in [agentscope(), empty] {
        let notebook = with_plan(&["a"]).await;
        let id = current(&notebook).await.id;
        notebook.load_state_dict(&state).await.unwrap();
        let written = notebook.state_dict().await.unwrap();
        assert_eq!(written["current_plan"], state["current_plan"]);
        let left = &written["storage"]["plans"][&id];
        assert_eq!(left["state"], json!("abandoned"));
    }
}

#[tokio::test]
async fn inconsistent_agentscope_state_loads() {
    let notebook = notebook().await;
    let mut state = agentscope();
    state["current_plan"]["subtasks"][1]["state"] = json!("in_progress");
    loads_back(&notebook, &state).await;
    let finished = notebook.finish_subtask(0, "x").await.unwrap();
    let next = "next subtask at index 1, named 'D', is now in progress";
    has(&finished.text(), &[next]);
    notebook.finish_subtask(1, "y").await.unwrap();
    state["current_plan"]["subtasks"] = json!([]);
    loads_back(&notebook, &state).await;
    assert!(hint(&notebook).await.contains("finish_plan"));
}

#[tokio::test]
async fn malformed_state_error_names_path() {
    let notebook = with_plan(&["a"]).await;
    let before = trace(&notebook).await;
    let table = r#"
          | [] | `the state` is no object
        /storage | {} | `storage.plans` is missing
        /storage/plans | [] | `storage.plans` is no object
        /storage/plans/5TDNfkaXCvCQgHX5GoXRZe/id | "other" | another `id`
        /storage/plans/5TDNfkaXCvCQgHX5GoXRZe/state | "later" | `storage.plans[5TDNfkaXCvCQgHX5GoXRZe]` is no plan
        /current_plan | "P3" | `current_plan` is no plan
        /current_plan/id | "a/b" | has an `id` that is not
        /current_plan/name | "" | has no name
        /current_plan/created_at | "yesterday" | created_at 'yesterday'
        /current_plan/subtasks/1/created_at | "2026-02-30 10:00:00.000" | subtasks[1].created_at '2026-02-30 10:00:00.000'
        /current_plan/subtasks/1/name | "" | subtasks[1].name
        /current_plan/subtasks/0 | {"name": "x"} | missing field `description`"#;
    for line in table.trim_start_matches('\n').lines() {
        let mut cells = line.split(" | ").map(str::trim);
        let mut cell = || cells.next().unwrap();
        let (place, value, reason) = (cell(), cell(), cell());
        let mut state = agentscope();
        *state.pointer_mut(place).unwrap() = serde_json::from_str(value).unwrap();
        let loaded = notebook.load_state_dict(&state).await;
        fails(loaded, InvalidArgument, reason);
        assert_eq!(trace(&notebook).await, before, "{line}");
    }
    let mut state = agentscope();
    state.as_object_mut().unwrap().remove("current_plan");
    let loaded = notebook.load_state_dict(&state).await;
    fails(loaded, InvalidArgument, "`current_plan` is missing");
}

#[tokio::test]
async fn loaded_state_drops_terminal_controls() {
    let notebook = notebook().await;
    let mut state = agentscope();
    state["current_plan"]["name"] = json!("\u{1b}[31mRed");
    state["current_plan"]["subtasks"][0]["description"] = json!("\u{1b}]0;title\u{7}text");
    notebook.load_state_dict(&state).await.unwrap();
    let plan = current(&notebook).await;
    let texts = [&plan.name, &plan.subtasks[0].description];
    assert_eq!(texts, ["Red", "text"]);
}

#[tokio::test]
async fn state_uses_custom_storage() {
    let storage = Arc::new(InMemoryPlanStorage::default());
    let notebook = notebook().await.with_storage(storage.clone());
    notebook.load_state_dict(&agentscope()).await.unwrap();
    assert_eq!(storage.get_plans().await.unwrap().len(), 1);
    assert_eq!(notebook.state_dict().await.unwrap(), agentscope());
}

#[test]
fn notebook_times_are_local_with_milliseconds() {
    let text = "2026-01-31 09:30:00.125";
    let moment = model::parse_time(text).unwrap();
    assert_eq!(model::time_text(moment), text);
    let whole = model::parse_time("2026-01-31 09:30:00");
    assert_eq!(whole, model::parse_time("2026-01-31 09:30:00.000"));
    let wrong = "/soon/2026-01-31/2026-13-01 00:00:00.000/2026-01-31T09:30:00Z x";
    for wrong in wrong.split('/') {
        assert_eq!(model::parse_time(wrong), None, "{wrong:?}");
    }
    assert_eq!(model::now_text().len(), text.len());
}
