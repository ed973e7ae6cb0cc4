//! What roles spend counts against the budget of the plan for which they work, immediately and whatever their result.

use plan_agent::plan::{Budget, DAEMON, PlanHead, PlanPolicy, Time, Usage};

use super::*;

/// Makes the plan that contains the task, with this many calls of the model.
async fn top(scene: &Scene, calls: u64) {
    let mut head = PlanHead::new(PlanId::new("topplan"), "Goal", Time::default());
    DAEMON.clone_into(&mut head.owner);
    let policy = PlanPolicy {
        budget: Budget {
            llm_calls: Some(calls),
            ..Budget::NONE
        },
        ..PlanPolicy::default()
    };
    let made = scene.store.create(head, "test", "made", move |draft| {
        draft.make_tasks(vec![new_task("Review it")])?;
        draft.start(policy, "").map(|_| ())
    });
    made.await.unwrap();
}

async fn used(scene: &Scene) -> Usage {
    let read = |plan: &Plan, _| plan.head().usage;
    scene
        .store
        .read(&PlanId::new("topplan"), read)
        .await
        .unwrap()
}

#[tokio::test]
async fn role_llm_calls_respect_plan_budget() {
    let ask = |wanted: &str| action("ask", json!({ "wanted": wanted }));
    let scene = acting(vec![ask("one"), ask("two"), ask("three")])
        .await
        .with_model([json!({"answer": "said"})]);
    top(&scene, 2).await;
    let mut role = scene.given("Review it").await;
    let update = scene.update();
    let expected = (
        ERROR,
        "Step 3, Do ask, failed: the budget allows no more: 2 of 2 calls used",
    );
    assert_eq!((update.status, &*update.result), expected);
    assert_eq!(scene.asked().len(), 2);
    let usage = used(&scene).await;
    assert_eq!((usage.llm_calls, usage.llm_input_tokens), (2, 200));
    assert!((usage.llm_cost_usd - 1.0).abs() < 1e-9);
    assert_eq!(update.spent, Default::default(), "nothing counts twice");
    // The same holds for the plan of a task, and for another role's request, however deep.
    let mut inner = task_named("task-2", "Read it. Then write it.");
    inner.kind = MessageKind::CollaborationRequest;
    inner.plan_id = Some(scene.plan_id().await);
    gets(&mut role, inner).await;
    let update = scene.office.updates().pop().unwrap();
    assert_eq!(
        (update.status, &*update.result),
        (
            ERROR,
            "Ended early: the budget allows no more: 2 of 2 calls used"
        )
    );
    assert_eq!(scene.asked().len(), 2);
    assert_eq!(used(&scene).await.llm_calls, 2);
}

#[tokio::test]
async fn usage_of_cancelled_role_is_counted() {
    let scene = acting(vec![
        action("ask", json!({})),
        asks("coder", "mend it"),
        asks("tester", "test it"),
    ])
    .await
    .with_model([json!({"answer": "said"})]);
    top(&scene, 9).await;
    let mut role = scene.given("Review it").await;
    let request = role.state().pending_collaboration_request_id.clone();
    waiting::report(&scene, &request.unwrap(), "mended").await;
    role.look_again().await.unwrap();
    gets(&mut role, cancel("task-1")).await;
    gets(&mut scene.role(), cancel("task-1")).await;
    let usage = used(&scene).await;
    assert_eq!((usage.llm_calls, usage.llm_input_tokens), (1, 100));
    assert_eq!(usage.agent_input_tokens, 30, "once");
    assert!(scene.office.updates().is_empty());
}
