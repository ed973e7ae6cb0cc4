//! What holds for every tool, and going through a plan.

use super::*;

#[tokio::test]
async fn tools_match_agentscope_order_and_arguments() {
    let tools = notebook().await.list_tools();
    let shape = |tool: &Tool| {
        let schema = tool.schema();
        let properties = schema["properties"].as_object().unwrap().iter();
        let kinds = properties.map(|(name, property)| format!("{name}: {}", property["type"]));
        let kinds: Vec<String> = kinds.collect();
        let required = schema.get("required").cloned().unwrap_or_default();
        format!("{}({}) required {required}", tool.name, kinds.join(", "))
    };
    let shapes: Vec<String> = tools.iter().map(shape).collect();
    insta::assert_snapshot!(shapes.join("\n"), @r#"
    view_subtasks(subtask_idx: "array") required ["subtask_idx"]
    update_subtask_state(state: "string", subtask_idx: "integer") required ["subtask_idx","state"]
    finish_subtask(subtask_idx: "integer", subtask_outcome: "string") required ["subtask_idx","subtask_outcome"]
    create_plan(description: "string", dry_run: "boolean", expected_outcome: "string", name: "string", subtasks: "array") required ["name","description","expected_outcome","subtasks"]
    revise_current_plan(action: "string", subtask: ["object","null"], subtask_idx: "integer") required ["subtask_idx","action"]
    finish_plan(outcome: "string", state: "string") required ["state","outcome"]
    view_historical_plans(limit: ["integer","null"], offset: ["integer","null"]) required null
    recover_historical_plan(plan_id: "string") required ["plan_id"]
    "#);
    let create = tools[3].schema();
    let subtask = &create["properties"]["subtasks"]["items"];
    let required = json!(["name", "description", "expected_outcome"]);
    assert_eq!(subtask["required"], required);
    let known = json!(SubTask::new("", "", ""));
    let (fields, known) = (subtask["properties"].as_object(), known.as_object());
    assert!(fields.unwrap().keys().eq(known.unwrap().keys()));
    for (schema, field, words) in [
        (subtask, "state", "todo in_progress done abandoned"),
        (&tools[1].schema(), "state", "todo in_progress abandoned"),
        (&tools[4].schema(), "action", "add revise delete"),
        (&tools[5].schema(), "state", "done abandoned"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        assert_eq!(schema["properties"][field]["enum"], json!(words));
    }
}

#[tokio::test]
async fn arguments_may_be_text() {
    let notebook = notebook().await;
    let subtask = r#"{"name": "a", "description": "d", "expected_outcome": "o"}"#;
    let texts = |subtasks: Value| json!({"name": "P", "description": "", "expected_outcome": "", "subtasks": subtasks});
    let plan = texts(json!([subtask, subtask]));
    let add = json!({"subtask_idx": "1", "action": "add", "subtask": subtask});
    let whole = texts(json!(format!("[{subtask}]")));
    let calls = format!(
        r#"
        create_plan {plan}
        revise_current_plan {add}
        update_subtask_state {{"subtask_idx": "0", "state": "in_progress"}}
        view_subtasks {{"subtask_idx": ["0", 2]}} => …index 0…index 2…
        create_plan {whole}
        "#
    );
    run(&notebook, &calls).await;
    assert_eq!(states(&notebook).await, "t");
}

#[tokio::test]
async fn restarted_notebook_resumes_subtask_in_progress() {
    let notebook = with_plan(&["a", "b"]).await;
    set(&notebook, 0, SubTaskState::InProgress).await;
    let before = trace(&notebook).await;
    let restarted = PlanNotebook::new(notebook.toolbox.clone());
    let calls = r#"
        update_subtask_state {"subtask_idx": 0, "state": "in_progress"} => …in progress already: go on with it…
    "#;
    run(&restarted, calls).await;
    assert_eq!(trace(&restarted).await, before);
}

#[tokio::test]
async fn reset_subtask_loses_its_outcome() {
    let notebook = with_plan(&["a", "b"]).await;
    finish(&notebook, 1).await;
    set(&notebook, 1, SubTaskState::Abandoned).await;
    assert_eq!(states(&notebook).await, "da");
    let calls =
        r#"update_subtask_state {"subtask_idx": 1, "state": "abandoned"} => …'abandoned' already."#;
    run(&notebook, calls).await;
    set(&notebook, 0, SubTaskState::Todo).await;
    let first = current(&notebook).await.subtasks.remove(0);
    let fields = (first.state, first.outcome, first.finished_at);
    assert_eq!(fields, (SubTaskState::Todo, None, None));
    set(&notebook, 0, SubTaskState::InProgress).await;
    assert_eq!(states(&notebook).await, "ia");
}

#[tokio::test]
async fn abandoned_subtask_keeps_its_outcome_and_gets_none() {
    let notebook = with_plan(&["a", "b"]).await;
    finish(&notebook, 1).await;
    set(&notebook, 0, SubTaskState::Abandoned).await;
    set(&notebook, 1, SubTaskState::Abandoned).await;
    let subtasks = current(&notebook).await.subtasks.into_iter();
    let outcomes: Vec<Option<String>> = subtasks.map(|it| it.outcome).collect();
    assert_eq!(outcomes, [Some("done".to_owned()), None]);
    assert_eq!(states(&notebook).await, "aa");
    let unused = with_plan(&["a"]).await;
    set(&unused, 0, SubTaskState::Abandoned).await;
    assert_eq!(current(&unused).await.subtasks[0].outcome, None);
}

#[tokio::test]
async fn concurrent_begin_has_one_winner() {
    for _ in 0..5 {
        let notebook = with_plan(&["a", "b"]).await;
        let other = PlanNotebook::new(notebook.toolbox.clone());
        let begin = SubTaskState::InProgress;
        let (won, lost) = won_and_lost(tokio::join!(
            notebook.update_subtask_state(0, begin),
            other.update_subtask_state(0, begin)
        ));
        has(&won, &["'in_progress' successfully"]);
        fails(Err::<(), _>(lost), Conflict, "Another caller was first");
        // Whoever calls afterwards goes on with what was begun.
        let later = other.update_subtask_state(0, begin).await.unwrap();
        has(&later.text(), &["in progress already"]);
    }
}

#[tokio::test]
async fn hint_is_a_tool_beside_the_eight() {
    let names = |tools: &[Tool]| tools.iter().map(|tool| tool.name).collect::<Vec<_>>();
    let (listed, all) = (notebook().await.list_tools(), Dialect::Notebook.tools());
    assert_eq!((listed.len(), all.len()), (8, 9));
    assert_eq!(names(all)[..8], names(listed));
    let calls = r#"
        get_current_hint => <system-hint>There is no plan…
        create_plan {"name": "P", "description": "", "expected_outcome": "", "subtasks": [{"name": "a", "description": "", "expected_outcome": ""}]}
        get_current_hint {} => <system-hint>…subtask_idx=0…</system-hint>
        ! get_current_hint {"plan": 1} => INVALID_ARGUMENT: …
    "#;
    let notebook = notebook().await;
    run(&notebook, calls).await;
    let silent = notebook.with_plan_to_hint(|_| None);
    let answer = call(&silent, "get_current_hint", json!({})).await;
    assert_eq!(answer, (true, String::new()));
}

#[tokio::test]
async fn plan_without_started_subtask_is_todo() {
    let notebook = with_plan(&["a", "b"]).await;
    set(&notebook, 0, SubTaskState::InProgress).await;
    let calls = r#"
        update_subtask_state {"subtask_idx": 0, "state": "todo"} => …state of the plan is now 'todo'.
    "#;
    run(&notebook, calls).await;
    assert_eq!(current(&notebook).await.state, SubTaskState::Todo);
}

#[tokio::test]
async fn invalid_state_error_lists_allowed_states() {
    let notebook = with_plan(&["a"]).await;
    let calls = r#"
        ! update_subtask_state {"subtask_idx": 0, "state": "done"} => INVALID_STATE: Invalid state…one of todo, in_progress, abandoned…
        ! update_subtask_state {"subtask_idx": 0, "state": "finished"} => INVALID_STATE: Invalid state…one of todo, in_progress, abandoned…
        ! update_subtask_state {"subtask_idx": 0, "state": ""} => INVALID_STATE: Invalid state…one of todo, in_progress, abandoned…
    "#;
    run(&notebook, calls).await;
    let done = notebook.update_subtask_state(0, SubTaskState::Done).await;
    fails(done, InvalidState, "'done'");
}

#[tokio::test]
async fn index_error_names_range() {
    let notebook = with_plan(&["a", "b", "c"]).await;
    for at in [-1, 3, i64::MAX, i64::MIN] {
        let calls = format!(
            r#"
            ! update_subtask_state {{"subtask_idx": {at}, "state": "todo"}} => INVALID_INDEX: Invalid subtask_idx '{at}'. Must be between 0 and 2.
            ! finish_subtask {{"subtask_idx": {at}, "subtask_outcome": "x"}} => INVALID_INDEX: Invalid subtask_idx '{at}'. Must be between 0 and 2.
            ! revise_current_plan {{"subtask_idx": {at}, "action": "delete"}} => INVALID_INDEX: …Invalid subtask_idx '{at}'…Must be between 0 and 2.
            ! view_subtasks {{"subtask_idx": [{at}]}} => INVALID_INDEX: Invalid subtask_idx '[{at}]'. Must be between 0 and 2.
            "#
        );
        run(&notebook, &calls).await;
    }
}

#[tokio::test]
async fn finish_subtask_starts_next_one() {
    let notebook = with_plan(&["a", "b"]).await;
    set(&notebook, 0, SubTaskState::InProgress).await;
    let calls = r#"
        finish_subtask {"subtask_idx": 0, "subtask_outcome": "42"} => …index 0, named 'a', is marked as done successfully…next subtask at index 1, named 'b'…
    "#;
    run(&notebook, calls).await;
    let first = &current(&notebook).await.subtasks[0];
    assert_eq!(first.outcome.as_deref(), Some("42"));
    assert!(first.finished_at.is_some());
    let calls = r#"
        finish_subtask {"subtask_idx": 1, "subtask_outcome": "x"} => The subtask at index 1, named 'b', is marked as done successfully. Nothing is left to do: call 'finish_plan'.
    "#;
    run(&notebook, calls).await;
    assert_eq!(states(&notebook).await, "dd");
    assert_eq!(current(&notebook).await.state, SubTaskState::InProgress);
}

#[tokio::test]
async fn view_subtasks_shows_details_and_wrong_indices() {
    let notebook = with_plan(&["a", "b", "c"]).await;
    let indices = json!({"subtask_idx": [1, 5, -1]});
    let (success, text) = call(&notebook, "view_subtasks", indices).await;
    let created = &current(&notebook).await.subtasks[1].created_at;
    let wanted = format!(
        "Subtask at index 1:\n```\n- [ ] b\n\t- Created At: {created}\n\t- Description: do b\n\t- Expected Outcome: b done\n\t- State: todo\n```\n\nInvalid subtask_idx '[5, -1]'. Must be between 0 and 2."
    );
    assert_eq!((success, text), (true, wanted));
    let calls = r#"! view_subtasks {"subtask_idx": []} => INVALID_INDEX: …between 0 and 2."#;
    run(&notebook, calls).await;
}

#[tokio::test]
async fn answer_has_text_and_metadata() {
    let notebook = notebook().await;
    let end = json!({"state": "done", "outcome": ""});
    let answer = notebook.call("finish_plan", end).await;
    assert!(!answer.success);
    let metadata = json!({"success": false, "error_code": "NO_PLAN"});
    let text = "There is no plan to finish.";
    assert_eq!(answer.value, json!({"result": text, "metadata": metadata}));
    let answer = notebook.call("view_historical_plans", Value::Null).await;
    assert!(answer.success);
    assert_eq!(answer.value["metadata"], json!({"success": true}));
}

#[tokio::test]
async fn notebook_states_map_to_core_and_back() {
    use SubTaskState::{Abandoned, Done, InProgress, Todo};
    for state in [Todo, InProgress, Done, Abandoned] {
        assert_eq!(SubTaskState::of_task(state.task_status()), state);
        assert_eq!(SubTaskState::of_status(&state.plan_status()), state);
        assert_eq!(json!(state), json!(state.to_string()));
    }
    assert_eq!(SubTaskState::of_task(TaskState::Failed), Abandoned);
}

#[tokio::test]
async fn concurrent_finish_has_one_winner() {
    let notebook = with_plan(&["a", "b"]).await;
    set(&notebook, 0, SubTaskState::InProgress).await;
    let other = PlanNotebook::new(notebook.toolbox.clone());
    let (won, lost) = won_and_lost(tokio::join!(
        notebook.finish_subtask(0, "mine"),
        other.finish_subtask(0, "theirs")
    ));
    has(&won, &["next subtask"]);
    fails(
        Err::<(), _>(lost),
        NotInProgress,
        "is 'done', not in progress",
    );
    assert_eq!(states(&notebook).await, "di");
}

#[tokio::test]
async fn archived_plan_is_not_changed() {
    let notebook = with_plan(&["a"]).await;
    let plan = notebook.current().await.unwrap();
    let bound = PlanNotebook::new(notebook.toolbox.clone().with_plan(plan));
    create(&notebook, "Other", &["b"]).await;
    let calls = r#"
        ! update_subtask_state {"subtask_idx": 0, "state": "in_progress"} => CONFLICT: The plan 'Plan' is no longer the current one…
    "#;
    run(&bound, calls).await;
    let made = bound.create_plan("Third", "", "", subtasks(&["c"])).await;
    fails(made, NotebookErrorCode::Bound, "bound");
}

#[tokio::test]
async fn log_names_tool_and_caller() {
    let toolbox = Toolbox::in_memory().await.unwrap();
    let notebook = PlanNotebook::new(toolbox.with_caller("agent seven"));
    create(&notebook, "P", &["a"]).await;
    finish(&notebook, 1).await;
    let plan = notebook.current().await.unwrap();
    let log = notebook.toolbox.store().since(&plan, 0, 10).await.unwrap();
    let told: Vec<&str> = log.iter().map(|change| change.why.as_str()).collect();
    let tools = ["create_plan", "update_subtask_state", "finish_subtask"];
    assert_eq!(told, tools);
    assert!(log.iter().all(|change| change.by == "agent seven"));
}

#[tokio::test]
async fn settled_plan_stays_open_only_in_notebook() {
    let notebook = with_plan(&["a", "b"]).await;
    let plan = notebook.current().await.unwrap();
    let seen = async || {
        let store = notebook.toolbox.store();
        let status = store.read(&plan, |plan, _| plan.status().clone());
        let (status, here) = (status.await.unwrap(), current(&notebook).await);
        (status, here.state, here.finished_at.is_some())
    };
    finish(&notebook, 2).await;
    let ended = (PlanState::Completed, SubTaskState::InProgress, false);
    assert_eq!(seen().await, ended);
    let update = |state: &str| json!({"subtask_idx": 0, "state": state});
    let (_, text) = call(&notebook, "update_subtask_state", update("todo")).await;
    assert!(!text.contains("state of the plan"), "{text}");
    assert_eq!(seen().await.0, PlanState::Running);
    set(&notebook, 0, SubTaskState::Abandoned).await;
    assert_eq!(seen().await, ended);
    let before = trace(&notebook).await;
    set(&notebook, 0, SubTaskState::Abandoned).await;
    assert_eq!(trace(&notebook).await, before);
    let added = notebook.revise_current_plan(2, Action::Add, subtasks(&["c"]).pop());
    added.await.unwrap();
    assert_eq!(seen().await.0, PlanState::Running);
    let deleted = notebook.revise_current_plan(2, Action::Delete, None);
    deleted.await.unwrap();
    assert_eq!(seen().await, ended);
    let end = notebook.finish_plan(PlanEnd::Abandoned, "in vain");
    end.await.unwrap();
    let kept = notebook.read_plan(&plan).await.unwrap();
    assert_eq!(kept.outcome.as_deref(), Some("in vain"));
    assert!(kept.state == SubTaskState::Abandoned && kept.finished_at.is_some());
}

#[tokio::test]
async fn a_plan_is_gone_through() {
    let table = r#"
        == calls_without_plan_are_rejected: nothing
        ! view_subtasks {"subtask_idx": [0]} => NO_PLAN: …created first with 'create_plan'.
        ! update_subtask_state {"subtask_idx": 0, "state": "todo"} => NO_PLAN: …created first with 'create_plan'.
        ! finish_subtask {"subtask_idx": 0, "subtask_outcome": "x"} => NO_PLAN: …created first with 'create_plan'.
        ! revise_current_plan {"subtask_idx": 0, "action": "delete"} => NO_PLAN: …created first with 'create_plan'.
        ! finish_plan {"state": "done", "outcome": "x"} => NO_PLAN: There is no plan to finish.

        == subtask_starts_only_in_order: a b c
        ! update_subtask_state {"subtask_idx": 2, "state": "in_progress"} => NOT_DONE_YET: …index 0, named 'a', is not done yet…
        update_subtask_state {"subtask_idx": 0, "state": "in_progress"} => …index 0, named 'a'…'in_progress'…state of the plan is now 'in_progress'.
        ! update_subtask_state {"subtask_idx": 1, "state": "in_progress"} => NOT_DONE_YET: …
        @ ipp

        == only_one_subtask_is_in_progress: a b c
        update_subtask_state {"subtask_idx": 0, "state": "in_progress"}
        finish_subtask {"subtask_idx": 0, "subtask_outcome": "done"}
        @ cip
        ! update_subtask_state {"subtask_idx": 0, "state": "in_progress"} => ALREADY_IN_PROGRESS: …index 1, named 'b', is in progress already…

        == subtask_cannot_finish_before_earlier_ones: a b c
        update_subtask_state {"subtask_idx": 0, "state": "in_progress"}
        finish_subtask {"subtask_idx": 0, "subtask_outcome": "done"}
        ! finish_subtask {"subtask_idx": 2, "subtask_outcome": "x"} => NOT_DONE_YET: …index 1, named 'b', is not done yet…

        == only_subtask_in_progress_finishes: a b c
        ! finish_subtask {"subtask_idx": 0, "subtask_outcome": "x"} => NOT_IN_PROGRESS: …'todo', not in progress…
        update_subtask_state {"subtask_idx": 0, "state": "in_progress"}
        finish_subtask {"subtask_idx": 0, "subtask_outcome": "x"}
        ! finish_subtask {"subtask_idx": 0, "subtask_outcome": "x"} => NOT_IN_PROGRESS: …'done', not in progress…

        == finish_subtask_skips_settled_subtasks: a b c
        update_subtask_state {"subtask_idx": 0, "state": "in_progress"}
        update_subtask_state {"subtask_idx": 1, "state": "abandoned"}
        finish_subtask {"subtask_idx": 0, "subtask_outcome": "x"} => …next subtask at index 2, named 'c'…
        @ csi

        == unknown_notebook_tool_error_suggests_name: nothing
        ! finish_subtasks => UNKNOWN_TOOL: …'finish_subtask' meant?

        == reset_subtask_resets_later_subtask_in_progress: a b c
        update_subtask_state {"subtask_idx": 0, "state": "in_progress"}
        finish_subtask {"subtask_idx": 0, "subtask_outcome": "done"}
        @ cip
        update_subtask_state {"subtask_idx": 0, "state": "todo"} => …index 1, named 'b', was in progress and is 'todo' again…
        @ ppp
        update_subtask_state {"subtask_idx": 0, "state": "in_progress"}
        revise_current_plan {"subtask_idx": 0, "action": "add", "subtask": {"name": "n", "description": "", "expected_outcome": ""}} => …index 1, named 'a', was in progress…
        @ pppp
        update_subtask_state {"subtask_idx": 0, "state": "in_progress"}
        finish_subtask {"subtask_idx": 0, "subtask_outcome": "done"}
        finish_subtask {"subtask_idx": 1, "subtask_outcome": "done"}
        finish_subtask {"subtask_idx": 2, "subtask_outcome": "done"}
        finish_subtask {"subtask_idx": 3, "subtask_outcome": "done"}
        @ cccc
        "#;
    cases(table).await;
}
