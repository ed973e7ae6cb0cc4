//! What holds for every tool, and going through a plan.

use super::*;
use crate::plan::PlanStatus;

#[tokio::test]
async fn the_tools_stand_in_agentscopes_order_with_its_arguments() {
    let tools = notebook().await.list_tools();
    let shape = |tool: &Tool| {
        let schema = tool.schema();
        let properties = schema["properties"].as_object().unwrap();
        let kinds: Vec<String> = properties
            .iter()
            .map(|(name, property)| format!("{name}: {}", property["type"]))
            .collect();
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
    assert_eq!(
        subtask["required"],
        json!(["name", "description", "expected_outcome"])
    );
    let fields: Vec<&String> = subtask["properties"].as_object().unwrap().keys().collect();
    let known = serde_json::to_value(SubTask::new("", "", "")).unwrap();
    assert_eq!(
        fields,
        known.as_object().unwrap().keys().collect::<Vec<_>>()
    );
    let words = json!(["todo", "in_progress", "done", "abandoned"]);
    assert_eq!(subtask["properties"]["state"]["enum"], words);
    assert_eq!(
        tools[1].schema()["properties"]["state"]["enum"],
        json!(["todo", "in_progress", "abandoned"])
    );
    let actions = json!(["add", "revise", "delete"]);
    assert_eq!(tools[4].schema()["properties"]["action"]["enum"], actions);
    let ends = json!(["done", "abandoned"]);
    assert_eq!(tools[5].schema()["properties"]["state"]["enum"], ends);
}

#[tokio::test]
async fn without_a_plan_one_must_be_created_first() {
    let notebook = notebook().await;
    for (name, arguments) in [
        ("view_subtasks", json!({"subtask_idx": [0]})),
        (
            "update_subtask_state",
            json!({"subtask_idx": 0, "state": "todo"}),
        ),
        (
            "finish_subtask",
            json!({"subtask_idx": 0, "subtask_outcome": "x"}),
        ),
        (
            "revise_current_plan",
            json!({"subtask_idx": 0, "action": "delete"}),
        ),
    ] {
        let (code, text) = refused(&notebook, name, arguments).await;
        assert_eq!(code, ErrorCode::NoPlan);
        assert!(text.contains("created first with 'create_plan'"), "{text}");
    }
    let end = json!({"state": "done", "outcome": "x"});
    let (code, text) = refused(&notebook, "finish_plan", end).await;
    assert_eq!(
        (code, text.as_str()),
        (ErrorCode::NoPlan, "There is no plan to finish.")
    );
}

#[tokio::test]
async fn arguments_may_come_as_text() {
    let notebook = notebook().await;
    let subtask = r#"{"name": "a", "description": "d", "expected_outcome": "o"}"#;
    let plan = json!({
        "name": "P", "description": "", "expected_outcome": "", "subtasks": [subtask, subtask],
    });
    assert!(call(&notebook, "create_plan", plan).await.0);
    let add = json!({"subtask_idx": "1", "action": "add", "subtask": subtask});
    assert!(call(&notebook, "revise_current_plan", add).await.0);
    let begin = json!({"subtask_idx": "0", "state": "in_progress"});
    assert!(call(&notebook, "update_subtask_state", begin).await.0);
    let (success, text) = call(&notebook, "view_subtasks", json!({"subtask_idx": ["0", 2]})).await;
    assert!(
        success && text.contains("index 0") && text.contains("index 2"),
        "{text}"
    );
    let whole = json!({
        "name": "P", "description": "", "expected_outcome": "", "subtasks": format!("[{subtask}]"),
    });
    assert!(call(&notebook, "create_plan", whole).await.0);
    assert_eq!(states(&notebook).await, "t");
}

#[tokio::test]
async fn a_subtask_begins_only_in_its_turn_and_the_first_violation_is_told() {
    let notebook = with_plan(&["a", "b", "c"]).await;
    let begin = |at: i64| json!({"subtask_idx": at, "state": "in_progress"});
    let (code, text) = refused(&notebook, "update_subtask_state", begin(2)).await;
    assert_eq!(code, ErrorCode::NotDoneYet);
    assert!(
        text.contains("index 0, named 'a', is not done yet"),
        "{text}"
    );
    let (success, text) = call(&notebook, "update_subtask_state", begin(0)).await;
    assert!(success && text.contains("index 0, named 'a'") && text.contains("'in_progress'"));
    assert!(
        text.contains("state of the plan is now 'in_progress'"),
        "{text}"
    );
    let (code, text) = refused(&notebook, "update_subtask_state", begin(1)).await;
    assert_eq!(code, ErrorCode::NotDoneYet, "{text}");
    assert_eq!(states(&notebook).await, "itt");
}

#[tokio::test]
async fn only_one_subtask_is_in_progress() {
    let notebook = with_plan(&["a", "b", "c"]).await;
    finish(&notebook, 1).await;
    assert_eq!(states(&notebook).await, "dit");
    let again = json!({"subtask_idx": 0, "state": "in_progress"});
    let (code, text) = refused(&notebook, "update_subtask_state", again).await;
    assert_eq!(code, ErrorCode::AlreadyInProgress);
    assert!(
        text.contains("index 1, named 'b', is in progress already"),
        "{text}"
    );
}

#[tokio::test]
async fn a_stale_subtask_in_progress_is_taken_up_again() {
    let notebook = with_plan(&["a", "b"]).await;
    notebook
        .update_subtask_state(0, State::InProgress)
        .await
        .unwrap();
    let before = trace(&notebook).await;
    let restarted = PlanNotebook::new(notebook.toolbox.clone());
    let again = json!({"subtask_idx": 0, "state": "in_progress"});
    let (success, text) = call(&restarted, "update_subtask_state", again).await;
    assert!(
        success && text.contains("in progress already: go on with it"),
        "{text}"
    );
    assert_eq!(trace(&restarted).await, before);
}

#[tokio::test]
async fn a_subtask_may_be_abandoned_or_set_back_which_forgets_its_outcome() {
    let notebook = with_plan(&["a", "b"]).await;
    finish(&notebook, 1).await;
    let set = |at: i64, state: &str| json!({"subtask_idx": at, "state": state});
    assert!(
        call(&notebook, "update_subtask_state", set(1, "abandoned"))
            .await
            .0
    );
    assert_eq!(states(&notebook).await, "da");
    let (success, text) = call(&notebook, "update_subtask_state", set(1, "abandoned")).await;
    assert!(success && text.contains("'abandoned' already"), "{text}");
    assert!(
        call(&notebook, "update_subtask_state", set(0, "todo"))
            .await
            .0
    );
    let first = current(&notebook).await.subtasks.remove(0);
    assert_eq!(
        (first.state, first.outcome, first.finished_at),
        (State::Todo, None, None)
    );
    assert!(
        call(&notebook, "update_subtask_state", set(0, "in_progress"))
            .await
            .0
    );
    assert_eq!(states(&notebook).await, "ia");
}

#[tokio::test]
async fn a_plan_of_which_nothing_is_begun_is_to_be_done_again() {
    let notebook = with_plan(&["a", "b"]).await;
    notebook
        .update_subtask_state(0, State::InProgress)
        .await
        .unwrap();
    let back = json!({"subtask_idx": 0, "state": "todo"});
    let (_, text) = call(&notebook, "update_subtask_state", back).await;
    assert!(text.contains("state of the plan is now 'todo'"), "{text}");
    assert_eq!(current(&notebook).await.state, State::Todo);
}

#[tokio::test]
async fn an_unknown_state_or_one_that_is_not_set_here_is_refused_with_the_allowed_ones() {
    let notebook = with_plan(&["a"]).await;
    for state in ["done", "finished", ""] {
        let given = json!({"subtask_idx": 0, "state": state});
        let (code, text) = refused(&notebook, "update_subtask_state", given).await;
        assert_eq!(code, ErrorCode::InvalidState);
        assert!(text.starts_with("Invalid state"), "{text}");
        assert!(
            text.contains("one of todo, in_progress, abandoned"),
            "{text}"
        );
    }
    let done = notebook.update_subtask_state(0, State::Done).await;
    assert_eq!(done.unwrap_err().code(), ErrorCode::InvalidState);
}

#[tokio::test]
async fn an_index_out_of_range_is_refused_with_the_range() {
    let notebook = with_plan(&["a", "b", "c"]).await;
    for at in [-1, 3, i64::MAX, i64::MIN] {
        for (name, arguments) in [
            (
                "update_subtask_state",
                json!({"subtask_idx": at, "state": "todo"}),
            ),
            (
                "finish_subtask",
                json!({"subtask_idx": at, "subtask_outcome": "x"}),
            ),
            (
                "revise_current_plan",
                json!({"subtask_idx": at, "action": "delete"}),
            ),
            ("view_subtasks", json!({"subtask_idx": [at]})),
        ] {
            let (code, text) = refused(&notebook, name, arguments).await;
            assert_eq!(code, ErrorCode::InvalidIndex);
            assert!(text.contains(&at.to_string()), "{text}");
            assert!(
                text.contains("Invalid subtask_idx") && text.contains("Must be between 0 and 2")
            );
        }
    }
}

#[tokio::test]
async fn a_finished_subtask_has_its_outcome_and_the_next_one_is_begun_and_named() {
    let notebook = with_plan(&["a", "b"]).await;
    notebook
        .update_subtask_state(0, State::InProgress)
        .await
        .unwrap();
    let end = |at: i64, outcome: &str| json!({"subtask_idx": at, "subtask_outcome": outcome});
    let (success, text) = call(&notebook, "finish_subtask", end(0, "42")).await;
    assert!(
        success && text.contains("index 0, named 'a', is marked as done successfully"),
        "{text}"
    );
    assert!(
        text.contains("next subtask at index 1, named 'b'"),
        "{text}"
    );
    let first = &current(&notebook).await.subtasks[0];
    assert_eq!(first.outcome.as_deref(), Some("42"));
    assert!(first.finished_at.is_some());
    let (success, text) = call(&notebook, "finish_subtask", end(1, "x")).await;
    assert!(
        success && !text.contains("next subtask") && text.contains("finish_plan"),
        "{text}"
    );
    assert_eq!(states(&notebook).await, "dd");
    assert_eq!(current(&notebook).await.state, State::InProgress);
}

#[tokio::test]
async fn a_subtask_is_not_finished_before_those_before_it() {
    let notebook = with_plan(&["a", "b", "c"]).await;
    finish(&notebook, 1).await;
    let end = json!({"subtask_idx": 2, "subtask_outcome": "x"});
    let (code, text) = refused(&notebook, "finish_subtask", end).await;
    assert_eq!(code, ErrorCode::NotDoneYet);
    assert!(
        text.contains("index 1, named 'b', is not done yet"),
        "{text}"
    );
}

#[tokio::test]
async fn only_what_is_in_progress_is_finished() {
    let notebook = with_plan(&["a", "b", "c"]).await;
    let end = |at: i64| json!({"subtask_idx": at, "subtask_outcome": "x"});
    let (code, text) = refused(&notebook, "finish_subtask", end(0)).await;
    assert_eq!(code, ErrorCode::NotInProgress);
    assert!(text.contains("'todo', not in progress"), "{text}");
    finish(&notebook, 1).await;
    let (code, text) = refused(&notebook, "finish_subtask", end(0)).await;
    assert_eq!(code, ErrorCode::NotInProgress);
    assert!(text.contains("'done', not in progress"), "{text}");
}

#[tokio::test]
async fn finishing_revives_nothing_that_is_settled() {
    let notebook = with_plan(&["a", "b", "c"]).await;
    notebook
        .update_subtask_state(0, State::InProgress)
        .await
        .unwrap();
    notebook
        .update_subtask_state(1, State::Abandoned)
        .await
        .unwrap();
    let end = json!({"subtask_idx": 0, "subtask_outcome": "x"});
    let (_, text) = call(&notebook, "finish_subtask", end).await;
    assert!(
        text.contains("next subtask at index 2, named 'c'"),
        "{text}"
    );
    assert_eq!(states(&notebook).await, "dai");
}

#[tokio::test]
async fn subtasks_are_viewed_in_detail_and_wrong_indices_told() {
    let notebook = with_plan(&["a", "b", "c"]).await;
    let (success, text) = call(
        &notebook,
        "view_subtasks",
        json!({"subtask_idx": [1, 5, -1]}),
    )
    .await;
    let created = &current(&notebook).await.subtasks[1].created_at;
    assert!(success);
    assert_eq!(
        text,
        format!(
            "Subtask at index 1:\n```\n- [ ] b\n\t- Created At: {created}\n\t- Description: do b\n\t- Expected Outcome: b done\n\t- State: todo\n```\n\nInvalid subtask_idx '[5, -1]'. Must be between 0 and 2."
        )
    );
    let (code, text) = refused(&notebook, "view_subtasks", json!({"subtask_idx": []})).await;
    assert_eq!(code, ErrorCode::InvalidIndex);
    assert!(text.contains("between 0 and 2"), "{text}");
}

#[tokio::test]
async fn an_unknown_tool_is_told_with_the_one_that_is_meant() {
    let notebook = notebook().await;
    let (code, text) = refused(&notebook, "finish_subtasks", json!({})).await;
    assert_eq!(code, ErrorCode::UnknownTool);
    assert!(text.ends_with("'finish_subtask' meant?"), "{text}");
}

#[tokio::test]
async fn an_answer_has_the_text_and_the_metadata() {
    let toolbox = Toolbox::in_memory().await.unwrap();
    let answer = toolbox.call(
        Dialect::Notebook,
        "finish_plan",
        json!({"state": "done", "outcome": ""}),
    );
    let answer = answer.await;
    assert!(!answer.success);
    assert_eq!(
        answer.value,
        json!({
            "result": "There is no plan to finish.",
            "metadata": {"success": false, "error_code": "NO_PLAN"},
        })
    );
    let answer = toolbox
        .call(Dialect::Notebook, "view_historical_plans", Value::Null)
        .await;
    assert!(answer.success);
    assert_eq!(answer.value["metadata"], json!({"success": true}));
}

#[tokio::test]
async fn the_states_of_the_core_have_one_word_each_way() {
    for state in [
        State::Todo,
        State::InProgress,
        State::Done,
        State::Abandoned,
    ] {
        assert_eq!(State::of_task(state.task_status()), state);
        assert_eq!(State::of_status(&state.plan_status()), state);
        assert_eq!(json!(state), json!(state.as_str()));
    }
    assert_eq!(State::of_task(TaskStatus::Failed), State::Abandoned);
}

#[tokio::test]
async fn two_callers_at_once_one_wins_and_the_other_reads_why() {
    let notebook = with_plan(&["a", "b"]).await;
    notebook
        .update_subtask_state(0, State::InProgress)
        .await
        .unwrap();
    let other = PlanNotebook::new(notebook.toolbox.clone());
    let (one, two) = tokio::join!(
        notebook.finish_subtask(0, "mine"),
        other.finish_subtask(0, "theirs")
    );
    let (won, lost) = if one.is_ok() { (one, two) } else { (two, one) };
    assert!(won.unwrap().text().contains("next subtask"));
    let lost = lost.unwrap_err();
    assert_eq!(lost.code(), ErrorCode::NotInProgress);
    assert!(
        lost.to_string().contains("is 'done', not in progress"),
        "{lost}"
    );
    assert_eq!(states(&notebook).await, "di");
}

#[tokio::test]
async fn a_plan_that_was_put_away_meanwhile_is_not_changed() {
    let notebook = with_plan(&["a"]).await;
    let plan = notebook.current().await.unwrap();
    let bound = PlanNotebook::new(notebook.toolbox.clone().with_plan(plan));
    create(&notebook, "Other", &["b"]).await;
    let begin = json!({"subtask_idx": 0, "state": "in_progress"});
    let (code, text) = refused(&bound, "update_subtask_state", begin).await;
    assert_eq!(code, ErrorCode::Conflict);
    assert!(
        text.contains("'Plan' is no longer the current one"),
        "{text}"
    );
    let made = bound.create_plan("Third", "", "", subtasks(&["c"])).await;
    assert_eq!(made.unwrap_err().code(), ErrorCode::Bound);
}

#[tokio::test]
async fn the_log_tells_which_tool_and_who() {
    let toolbox = Toolbox::in_memory()
        .await
        .unwrap()
        .with_caller("agent seven");
    let notebook = PlanNotebook::new(toolbox);
    create(&notebook, "P", &["a"]).await;
    notebook
        .update_subtask_state(0, State::InProgress)
        .await
        .unwrap();
    notebook.finish_subtask(0, "x").await.unwrap();
    let plan = notebook.current().await.unwrap();
    let log = notebook.toolbox.store().since(&plan, 0, 10).await.unwrap();
    let told: Vec<String> = log
        .iter()
        .map(|it| format!("{}: {}", it.by, it.why))
        .collect();
    assert_eq!(
        told,
        [
            "agent seven: create_plan",
            "agent seven: update_subtask_state",
            "agent seven: finish_subtask"
        ]
    );
}

#[tokio::test]
async fn a_plan_whose_subtasks_are_settled_is_open_here_and_ended_for_everybody_else() {
    let notebook = with_plan(&["a", "b"]).await;
    let plan = notebook.current().await.unwrap();
    let seen = async || {
        let store = notebook.toolbox.store();
        let status = store.read(&plan, |plan, _| plan.status().clone());
        let here = current(&notebook).await;
        (
            status.await.unwrap(),
            here.state,
            here.finished_at.is_some(),
        )
    };
    finish(&notebook, 2).await;
    let ended = (PlanStatus::Completed, State::InProgress, false);
    assert_eq!(seen().await, ended);
    let set = |state: &str| json!({"subtask_idx": 0, "state": state});
    let (_, text) = call(&notebook, "update_subtask_state", set("todo")).await;
    assert!(!text.contains("state of the plan"), "{text}");
    assert_eq!(seen().await.0, PlanStatus::Running);
    call(&notebook, "update_subtask_state", set("abandoned")).await;
    assert_eq!(seen().await, ended);
    let before = trace(&notebook).await;
    let (success, _) = call(&notebook, "update_subtask_state", set("abandoned")).await;
    assert!(success && trace(&notebook).await == before);
    let added = notebook.revise_current_plan(2, Action::Add, subtasks(&["c"]).pop());
    added.await.unwrap();
    assert_eq!(seen().await.0, PlanStatus::Running);
    let deleted = notebook.revise_current_plan(2, Action::Delete, None);
    deleted.await.unwrap();
    assert_eq!(seen().await, ended);
    notebook
        .finish_plan(End::Abandoned, "in vain")
        .await
        .unwrap();
    let kept = notebook.read_plan(&plan).await.unwrap();
    assert_eq!(
        (
            kept.state,
            kept.outcome.as_deref(),
            kept.finished_at.is_some()
        ),
        (State::Abandoned, Some("in vain"), true)
    );
}

#[tokio::test]
async fn one_that_is_to_be_done_again_comes_before_the_one_that_was_begun_after_it() {
    let notebook = with_plan(&["a", "b", "c"]).await;
    finish(&notebook, 1).await;
    assert_eq!(states(&notebook).await, "dit");
    let again = json!({"subtask_idx": 0, "state": "todo"});
    let (_, text) = call(&notebook, "update_subtask_state", again).await;
    assert!(
        text.contains("index 1, named 'b', was in progress and is 'todo' again"),
        "{text}"
    );
    assert_eq!(states(&notebook).await, "ttt");
    notebook
        .update_subtask_state(0, State::InProgress)
        .await
        .unwrap();
    let new = json!({"subtask_idx": 0, "action": "add", "subtask":
        {"name": "n", "description": "", "expected_outcome": ""}});
    let (_, text) = call(&notebook, "revise_current_plan", new).await;
    assert!(
        text.contains("index 1, named 'a', was in progress"),
        "{text}"
    );
    assert_eq!(states(&notebook).await, "tttt");
    finish(&notebook, 4).await;
    assert_eq!(states(&notebook).await, "dddd");
}
