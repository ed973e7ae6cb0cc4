//! Carrying out the internal plan: what a step does itself.

use plan_agent::plan::TaskState;
use plan_agent::role::RoleStatus;

use super::*;

#[tokio::test]
async fn steps_run_in_order_and_see_earlier_results() {
    let scene = acting(vec![
        says("a{{task.name}}"),
        action("echo", json!({"text": "{{steps.1.result}}b", "times": 2})),
        says("{{steps.2.result}} and \\{{steps.2.result}}"),
    ])
    .await;
    scene.given("Review\n\nall").await;
    let plan = scene.plan().await;
    let results = plan.tasks().map(|task| task.result.clone().unwrap());
    let results: Vec<_> = results.collect();
    assert_eq!(
        results,
        [
            "aReview",
            "aReviewbaReviewb",
            "aReviewbaReviewb and {{steps.2.result}}"
        ]
    );
}

#[tokio::test]
async fn inserted_text_is_not_expanded() {
    let scene = acting(vec![
        says("{{task.description}}"),
        says("{{steps.1.result}}"),
    ])
    .await;
    scene.given("Review {{steps.1.result}} {{context}}").await;
    let result = scene.result().1;
    begins(&result, "Review {{steps.1.result}} {{context}}\n");
}

#[tokio::test]
async fn action_error_fails_task_and_skips_rest() {
    let mut scene = acting(vec![says("one"), action("fails", json!({})), says("three")]).await;
    let schema = json!({"type": "object", "properties": {}});
    scene
        .actions
        .add(ability("fails", "fails", schema, async |_| {
            Err("the disk is full".to_owned())
        }));
    let role = scene.given("Review it").await;
    let expected = (
        ERROR,
        "Step 2, Do fails, failed: the disk is full".to_owned(),
    );
    assert_eq!(scene.result(), expected);
    let plan = scene.plan().await;
    let states: Vec<_> = plan.tasks().map(|task| task.status).collect();
    assert_eq!(
        states,
        [TaskState::Completed, TaskState::Failed, TaskState::Skipped]
    );
    assert_eq!(plan.status().as_str(), "failed");
    assert_eq!(role.state().status.as_str(), "idle");
}

#[tokio::test]
async fn panicking_or_hanging_action_fails_its_step() {
    let schema = || json!({"type": "object", "properties": {}});
    let panics = ability("odd", "panics at once", schema(), move |_| {
        assert!(schema().is_null(), "at once");
        async { Ok(String::new()) }
    });
    let later = ability("odd", "panics later", schema(), async |_| {
        tokio::task::yield_now().await;
        panic!("later")
    });
    let never = ability("odd", "never ends", schema(), async |_| {
        std::future::pending().await
    });
    for (odd, reason) in [
        (panics, "it panicked"),
        (later, "it panicked"),
        (never, "no result after 20ms"),
    ] {
        let mut scene = Scene::new().await;
        scene.actions.add(odd);
        scene.settings.config.step_timeout = Duration::from_millis(20);
        let scene = scene.with_steps(vec![action("odd", json!({}))]);
        scene.given("Review it").await;
        let expected = (ERROR, format!("Step 1, Do odd, failed: {reason}"));
        assert_eq!(scene.result(), expected);
    }
}

#[tokio::test]
async fn step_parameters_are_converted_to_schema() {
    let scene = acting(vec![
        says("3"),
        action("echo", json!({"text": "x", "times": "{{steps.1.result}}"})),
        action("echo", json!({"text": "x", "times": "{{context}}"})),
    ])
    .await;
    scene.given("Review it").await;
    let result = scene.failure();
    let part = "Step 3, Do echo, failed: `times` is \"in a hurry\", not a whole number";
    has(&result, part);
    assert_eq!(
        scene.plan().await.tasks().nth(1).unwrap().result.as_deref(),
        Some("xxx")
    );
}

#[tokio::test]
async fn too_long_result_fails_step() {
    let schema = || json!({"type": "object", "properties": {}});
    let mut scene = acting(vec![action("loud", json!({}))]).await;
    scene
        .actions
        .add(ability("loud", "is loud", schema(), async |_| {
            Ok("\u{1b}[31mred".repeat(100_000))
        }));
    // The template was checked when the role was made.
    scene.given("Review it").await;
    has(
        scene.failure(),
        "its result has 800000 bytes, and a step passes on at most 131072",
    );
}

#[tokio::test]
async fn too_long_inserted_text_fails_step() {
    let often = "{{steps.1.result}}".repeat(50);
    let long = "x".repeat(100 * 1024);
    let schema = || json!({"type": "object", "properties": {}});
    let loud = ability("loud", "says much", schema(), move |_| {
        let long = long.clone();
        async { Ok(long) }
    });
    // A result from only a part of the text would be wrong.
    let mut scene = Scene::new().await;
    scene.actions.add(Arc::clone(&loud));
    let scene = scene.with_steps(vec![action("loud", json!({})), says(&often)]);
    scene.given("Review it").await;
    let result = scene.failure();
    assert!(
        result.starts_with("Step 2, Do echo, failed: what stands in double braces"),
        "{result}"
    );
    // So would be what another role is asked.
    let mut scene = Scene::new().await;
    scene.actions.add(loud);
    let scene = scene.with_steps(vec![action("loud", json!({})), asks("coder", &often)]);
    scene.given("Review it").await;
    has(
        scene.failure(),
        "what stands in double braces comes to more than 245760 bytes",
    );
    assert_eq!(scene.office.sent.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn what_is_wanted_of_a_model_is_whole_or_the_step_fails() {
    let long = "x".repeat(15_000);
    let twice = "{{steps.1.result}}".repeat(3);
    let steps = vec![says(&long), action("ask", json!({ "wanted": twice }))];
    let scene = acting(steps).await.with_model([json!({"answer": "said"})]);
    scene.given("Review it").await;
    has(
        scene.failure(),
        "what is wanted has 45000 characters, and the model is shown at most 40000",
    );
    assert!(scene.asked().is_empty());
}

#[tokio::test]
async fn waiting_role_queues_tasks_up_to_limit() {
    let scene = acting(vec![asks("coder", "mend it")]).await;
    let mut role = scene.given("Review it").await;
    for number in 2..=18 {
        gets(
            &mut role,
            task_named(&format!("task-{number}"), "Review it"),
        )
        .await;
    }
    // A repetition is the same.
    gets(&mut role, task_named("task-2", "Review it")).await;
    let update = scene.update();
    assert_eq!(
        (update.task.assignment().as_str(), update.status),
        ("task-18", REJECTED)
    );
    has(&update.result, "16 tasks wait already");
    gets(&mut role, cancel("task-3")).await;
    for _ in 0..16 {
        let request = awaited(&role);
        gets(&mut role, answer(&request, COMPLETED, "mended")).await;
    }
    assert_eq!(role.state().status.as_str(), "idle");
    let done = scene
        .office
        .updates()
        .into_iter()
        .filter(|update| update.status == COMPLETED);
    let done: Vec<_> = done
        .map(|update| update.task.assignment().to_string())
        .collect();
    let expected = (1..=17).filter(|number| *number != 3);
    let expected: Vec<_> = expected.map(|number| format!("task-{number}")).collect();
    assert_eq!(done, expected);
}

#[tokio::test]
async fn role_state_follows_work() {
    let schema = json!({"type": "object", "properties": {}});
    let begun = Arc::new(Notify::new());
    let tells = Arc::clone(&begun);
    let hangs = ability("hangs", "never ends", schema, move |_| {
        tells.notify_one();
        std::future::pending()
    });
    let mut scene = Scene::new().await;
    scene.actions.add(hangs);
    let scene = scene.with_steps(vec![says("one"), action("hangs", json!({}))]);
    let mut role = scene.role();
    assert_eq!(role.state().status, RoleStatus::Idle);
    tokio::select! {
        _ = role.process_message(task("Review it")) => panic!("it never ends"),
        () = begun.notified() => {}
    }
    let state = role.state();
    assert_eq!(state.status.as_str(), "executing_step");
    assert_eq!(
        (state.current_task_id(), state.current_step_index),
        (Some("7"), Some(1))
    );
    let steps = &state.internal_plan.as_ref().unwrap().steps;
    let states: Vec<_> = steps.iter().map(|step| step.status).collect();
    assert_eq!(states, [TaskState::Completed, TaskState::InProgress]);
    // Work that was dropped half-way is abandoned like any other.
    gets(&mut role, cancel("task-1")).await;
    assert_eq!(role.state().status, RoleStatus::Idle);
    assert!(role.state().current_step_index.is_none());

    let scene = thinking([json!({})]).await;
    let mut role = scene.role();
    let begun = scene.model.as_ref().unwrap().hangs();
    tokio::select! {
        _ = role.process_message(task("Read it. Then write it.")) => panic!("it never ends"),
        () = begun.notified() => {}
    }
    assert_eq!(role.state().status.as_str(), "planning");
}
