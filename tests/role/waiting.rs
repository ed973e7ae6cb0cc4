//! Requests to other roles, and their results.

use plan_agent::plan::{AttemptState, TaskState};
use plan_agent::role::{OnTimeout, RoleError, request_collaboration};

use super::*;
use crate::common::core::new_report;

/// A scene in which the role asks the coder between two steps of its own.
async fn scene() -> Scene {
    acting(vec![
        says("a flaw"),
        asks("coder", "mend {{steps.1.result}}"),
        says("done: {{steps.2.result}}"),
    ])
    .await
}

#[tokio::test]
async fn request_is_stored_sent_and_awaited() {
    let scene = scene().await;
    let role = scene.given("Review it").await;
    let request = awaited(&role);
    let state = role.state();
    assert_eq!(
        (state.current_task_id(), state.current_step_index),
        (Some("7"), Some(1))
    );
    assert!(state.is_waiting_for(&request));
    let (sent, text) = scene.office.sent.lock().unwrap()[0].clone();
    let expected = (MessageKind::CollaborationRequest, "reviewer", id("coder"));
    assert_eq!((sent.kind, &*sent.from, sent.to.clone()), expected);
    assert_eq!(sent.request_id.as_ref(), Some(&request));
    assert_eq!(sent.plan_id, Some(scene.plan_id().await));
    assert_eq!(
        (sent.description.as_deref(), sent.context.as_deref()),
        (Some("mend a flaw"), Some("in a hurry"))
    );
    // The sent request is persisted, under the id of the command.
    let plan = scene.plan().await;
    let attempt = plan.attempt(&request).unwrap();
    assert_eq!(
        (&*attempt.text, attempt.state),
        (&*text, AttemptState::Open)
    );
    assert_eq!(
        scene.store.plan_of(&request).await.unwrap(),
        Some(plan.id().clone())
    );
    assert!(role.state().waits_until > Some(attempt.issued));
    assert!(scene.office.updates().is_empty());
}

#[tokio::test]
async fn answer_resumes_plan_at_request() {
    let scene = scene().await;
    let mut role = scene.given("Review it").await;
    let request = awaited(&role);
    gets(&mut role, answer(&request, COMPLETED, "mended")).await;
    let result = scene.success();
    assert!(result.starts_with("done: mended\n"), "{result}");
    assert!(role.state().pending_collaboration_request_id.is_none());
    let plan = scene.plan().await;
    let expected = AttemptState::Judged;
    assert_eq!(plan.attempt(&request).unwrap().state, expected);
    assert!(scene.office.withdrawn().is_empty());
}

#[tokio::test]
async fn answer_completes_plan_ending_in_request() {
    let scene = acting(vec![asks("coder", "mend it")]).await;
    let mut role = scene.given("Review it").await;
    let request = awaited(&role);
    gets(&mut role, answer(&request, COMPLETED, json!({"files": 2}))).await;
    assert_eq!(scene.success(), r#"{"files":2}"#);
}

#[tokio::test]
async fn answer_is_handed_on_whole_or_step_fails() {
    for (text, whole) in [
        (
            "\u{feff}one\r\n\u{1b}[31mtwo\u{200b}\r\nend".to_owned(),
            true,
        ),
        ("x".repeat(128 * 1024 + 1), false),
    ] {
        let scene = acting(vec![asks("coder", "mend it")]).await;
        let mut role = scene.given("Review it").await;
        let request = awaited(&role);
        gets(&mut role, answer(&request, COMPLETED, &*text)).await;
        match whole {
            true => assert_eq!(scene.success(), text),
            false => has(
                scene.failure(),
                "its result has 131073 bytes, and a step passes on at most 131072",
            ),
        }
    }
}

#[tokio::test]
async fn error_or_rejected_answer_fails_step() {
    for (status, word) in [(ERROR, "error"), (REJECTED, "rejected")] {
        let scene = scene().await;
        let mut role = scene.given("Review it").await;
        let request = awaited(&role);
        gets(&mut role, answer(&request, status, "no time")).await;
        let expected = format!("Step 2, Ask coder, failed: coder answered `{word}`: no time");
        assert_eq!(scene.failure(), expected);
        let expected = TaskState::Skipped;
        assert_eq!(scene.plan().await.tasks().nth(2).unwrap().status, expected);
    }
}

#[tokio::test]
async fn report_recorded_by_other_process_is_the_answer() {
    let scene = scene().await;
    let mut role = scene.given("Review it").await;
    let request = awaited(&role);
    role.look_again().await.unwrap();
    assert!(scene.office.updates().is_empty());
    report(&scene, &request, "mended").await;
    role.look_again().await.unwrap();
    assert!(scene.result().1.starts_with("done: mended"));
    // The same by a message that only reports it.
    let scene = super::waiting::scene().await;
    let mut role = scene.given("Review it").await;
    let request = awaited(&role);
    report(&scene, &request, "mended").await;
    let mut look = answer(&request, COMPLETED, "other words");
    look.status = None;
    gets(&mut role, look).await;
    assert!(scene.result().1.starts_with("done: mended"));
    // What the other one used is counted.
    assert_eq!(scene.update().spent.input_tokens, 30);
}

/// Records a report as the daemon does.
pub(super) async fn report(scene: &Scene, request: &RequestId, results: &str) {
    let (command, results) = (request.clone(), results.to_owned());
    let plan = scene.plan_id().await;
    let change = move |draft: &mut plan_agent::plan::Draft<'_>| {
        let report = plan_agent::plan::Report {
            pitfalls: "none".to_owned(),
            input_tokens: 30,
            ..new_report("x", &results, draft.now())
        };
        draft.report(&command, report)
    };
    scene
        .store
        .change(&plan, "daemon", "a report came", change)
        .await
        .unwrap();
}

#[tokio::test]
async fn stale_or_misdirected_answers_change_nothing() {
    let scene = acting(vec![asks("coder", "one"), asks("coder", "two")]).await;
    let mut role = scene.given("Review it").await;
    let first = awaited(&role);
    let stranger = answer(&CommandId::new("task-9"), COMPLETED, "x");
    let mut nameless = answer(&first, COMPLETED, "x");
    nameless.request_id = None;
    for message in [stranger, nameless] {
        gets(&mut role, message).await;
        assert_eq!(awaited(&role), first);
    }
    gets(&mut role, answer(&first, COMPLETED, "1")).await;
    let second = awaited(&role);
    assert_ne!(first, second);
    gets(&mut role, answer(&first, ERROR, "again")).await;
    assert_eq!(awaited(&role), second);
    gets(&mut role, answer(&second, COMPLETED, "2")).await;
    gets(&mut role, answer(&second, COMPLETED, "2")).await;
    assert!(scene.result().1.starts_with("2\n"));
}

#[tokio::test]
async fn refused_request_fails_step_immediately() {
    let refusals = [
        RequestRefused::UnknownRole {
            role: "coder".to_owned(),
            similar: None,
        },
        RequestRefused::Circular {
            way: vec![id("coder"), id("reviewer"), id("coder")],
        },
        RequestRefused::TooDeep { depth: 6, most: 5 },
        RequestRefused::Busy {
            role: id("coder"),
            waiting: 16,
        },
    ];
    for refused in refusals {
        for sending in [false, true] {
            let scene = scene().await.with_top().await;
            let place = if sending {
                &scene.office.refuses_to_send
            } else {
                &scene.office.refuses
            };
            *place.lock().unwrap() = Some(refused.clone());
            let role = scene.given("Review it").await;
            // No role had the time to answer.
            let ends = vec![RoleRequestEnd::TakenBack; usize::from(sending)];
            assert_eq!((scene.waits().await, scene.ends().await), (0, ends));
            let result = scene.failure();
            begins(&result, "Step 2, Ask coder, failed: ");
            has(&result, refused.to_string());
            assert_eq!(role.state().status.as_str(), "idle");
            // A request that may have been sent is withdrawn.
            assert_eq!(scene.office.withdrawn().len(), usize::from(sending));
        }
    }
}

#[tokio::test]
async fn unsent_request_is_sent_later() {
    for (sending, restart) in [(false, false), (false, true), (true, false), (true, true)] {
        let scene = scene().await;
        let place = if sending {
            &scene.office.refuses_to_send
        } else {
            &scene.office.refuses
        };
        let full = FrameworkError("the disk is full".to_owned());
        *place.lock().unwrap() = Some(RequestRefused::Failed(full));
        let mut role = scene.role();
        let error = role.process_message(task("Review it")).await.unwrap_err();
        assert!(matches!(error, RoleError::Framework(_)), "{error}");
        assert!(scene.office.updates().is_empty(), "nothing has failed");
        *place.lock().unwrap() = None;
        if restart {
            role = scene.role();
        }
        gets(&mut role, task("Review it")).await;
        let request = awaited(&role);
        assert_eq!(scene.office.sent().len(), 1);
        gets(&mut role, answer(&request, COMPLETED, "mended")).await;
        assert!(scene.result().1.starts_with("done: mended"));
        assert!(scene.office.withdrawn().is_empty());
    }
}

#[tokio::test]
async fn request_timeout_fails_step() {
    let scene = scene().await;
    let mut role = scene.given("Review it").await;
    let request = awaited(&role);
    let until = role.state().waits_until.unwrap();
    role.timed_out(plan_agent::plan::Time(until.0 - 1))
        .await
        .unwrap();
    assert_eq!(awaited(&role), request);
    role.timed_out(until).await.unwrap();
    let expected = (
        ERROR,
        "Step 2, Ask coder, failed: no answer within 600s".to_owned(),
    );
    assert_eq!(scene.result(), expected);
    assert_eq!(scene.office.withdrawn(), std::slice::from_ref(&request));
    assert_eq!(scene.plan().await.recalls().count(), 0);
    gets(&mut role, answer(&request, COMPLETED, "late")).await;
    assert_eq!(scene.office.updates().len(), 1);
}

#[tokio::test]
async fn stored_answer_precedes_timeout() {
    let scene = scene().await;
    let mut role = scene.given("Review it").await;
    let request = awaited(&role);
    report(&scene, &request, "just in time").await;
    let until = role.state().waits_until.unwrap();
    role.timed_out(until.plus(LONG)).await.unwrap();
    assert!(scene.result().1.starts_with("done: just in time"));
}

#[tokio::test]
async fn request_is_retried_twice_after_timeout() {
    let mut scene = scene().await;
    scene.settings.on_timeout = OnTimeout::Retry;
    let mut role = scene.given("Review it").await;
    let mut requests = vec![awaited(&role)];
    for _ in 0..2 {
        role.timed_out(role.state().waits_until.unwrap())
            .await
            .unwrap();
        requests.push(awaited(&role));
    }
    // The first one answers now: too late.
    gets(&mut role, answer(&requests[0], COMPLETED, "late")).await;
    report(&scene, &requests[1], "late too").await;
    role.look_again().await.unwrap();
    assert_eq!(awaited(&role), requests[2]);
    role.timed_out(role.state().waits_until.unwrap())
        .await
        .unwrap();
    assert_eq!(scene.result().0, ERROR);
    assert_eq!(scene.office.withdrawn(), requests);
    requests.dedup();
    assert_eq!(requests.len(), 3);
    assert_eq!(scene.office.sent().len(), 3);
}

#[tokio::test]
async fn rest_is_replanned_once_after_timeout() {
    let mut scene = scene().await.with_model([planned(json!([
        {"name": "Ask the tester", "uses": "role:tester", "params": {"description": "test {{steps.1.result}}"}},
        {"name": "Say", "uses": "echo", "params": {"text": "tested: {{steps.3.result}}"}},
    ]))]);
    scene.settings.on_timeout = OnTimeout::Replan;
    let mut role = scene.given("Review it").await;
    let first = awaited(&role);
    role.timed_out(role.state().waits_until.unwrap())
        .await
        .unwrap();
    let second = awaited(&role);
    assert_eq!(scene.office.withdrawn(), [first]);
    let expected = Some("test a flaw");
    assert_eq!(scene.office.sent()[1].description.as_deref(), expected);
    let asked = &scene.asked()[0];
    has(&asked.prompt, "no answer within 600s");
    has(&asked.prompt, "The first of them is step 3");
    gets(&mut role, answer(&second, COMPLETED, "fine")).await;
    begins(&scene.result().1, "tested: fine\n");
    assert_eq!(scene.result().0, COMPLETED);
    // The role does not plan around a second timeout.
    let mut again = super::waiting::scene().await.with_model([planned(json!([
        {"name": "Ask the tester", "uses": "role:tester", "params": {"description": "test it"}},
    ]))]);
    again.settings.on_timeout = OnTimeout::Replan;
    let mut role = again.given("Review it").await;
    for _ in 0..2 {
        role.timed_out(role.state().waits_until.unwrap())
            .await
            .unwrap();
    }
    let expected = "Step 3, Ask the tester, failed: no answer within 600s";
    assert_eq!(again.failure(), expected);
}

#[tokio::test]
async fn cancel_abandons_task_and_withdraws_request() {
    let scene = scene().await;
    let mut role = scene.given("Review it").await;
    let request = awaited(&role);
    gets(&mut role, cancel("task-1")).await;
    assert_eq!(scene.office.withdrawn(), std::slice::from_ref(&request));
    assert_eq!(role.state().status.as_str(), "idle");
    assert!(role.state().current_task.is_none() && role.state().waits_until.is_none());
    assert_eq!(scene.plan().await.status().as_str(), "aborted");
    assert!(scene.office.updates().is_empty(), "nobody waits for it");
    gets(&mut role, answer(&request, COMPLETED, "late")).await;
    assert!(scene.office.updates().is_empty());
    // A role that does not know of it also abandons it, after a restart.
    let other = super::waiting::scene().await;
    let request = awaited(&other.given("Review it").await);
    gets(&mut other.role(), cancel("task-1")).await;
    assert_eq!(other.office.withdrawn(), [request]);
}

#[tokio::test]
async fn collaboration_request_is_handled_like_task() {
    let scene = acting(vec![says("fine")]).await;
    let mut role = scene.role();
    let mut message = task("Review it");
    message.kind = MessageKind::CollaborationRequest;
    message.from = "architect".to_owned();
    gets(&mut role, message).await;
    let update = scene.update();
    let expected = (MessageKind::CollaborationRequest, "architect");
    assert_eq!((update.task.kind, &*update.task.from), expected);
    assert_eq!((update.status, &*update.result), (COMPLETED, "fine"));
}

/// Returns an action that notes what it returns.
fn noting(action: Arc<Ability>, notes: &Arc<Mutex<Vec<String>>>) -> Arc<Ability> {
    let (name, description) = (action.name.clone(), action.description.clone());
    let (schema, notes) = (action.schema.clone(), Arc::clone(notes));
    let does = Ability::new(&name, &description, schema, move |params, situation| {
        let (action, notes) = (Arc::clone(&action), Arc::clone(&notes));
        Box::pin(async move {
            let returned = action.call(params, situation).await?;
            notes.lock().unwrap().push(returned.clone());
            Ok(returned)
        })
    });
    Arc::new(does)
}

#[tokio::test]
async fn request_collaboration_action_returns_pending_request() {
    let params = json!({
        "target_name": "coder", "subtask_description": "mend {{steps.1.result}}", "context": "{{context}}",
    });
    let request = action("RequestCollaboration", params);
    let (by_action, by_kind) = (request, asks("coder", "mend {{steps.1.result}}"));
    for step in [by_action, by_kind] {
        let mut scene = acting(vec![says("a flaw"), step, says("done: {{steps.2.result}}")]).await;
        let returned = Arc::new(Mutex::new(Vec::new()));
        let (store, office) = (scene.store.clone(), scene.office.clone());
        let request = request_collaboration(id("reviewer"), store, office);
        scene.actions.add(noting(request, &returned));
        let mut role = scene.given("Review it").await;
        let request = awaited(&role);
        let returned: Vec<Value> = returned
            .lock()
            .unwrap()
            .iter()
            .map(|it| serde_json::from_str(it).unwrap())
            .collect();
        assert_eq!(
            returned,
            [json!({"status": "pending", "request_id": request})]
        );
        let sent = &scene.office.sent()[0];
        assert_eq!(
            (sent.description.as_deref(), sent.context.as_deref()),
            (Some("mend a flaw"), Some("in a hurry"))
        );
        gets(&mut role, answer(&request, COMPLETED, "mended")).await;
        assert!(scene.success().starts_with("done: mended\n"));
    }
    // An action of this name that makes no request fails its step.
    let mut scene = acting(vec![asks("coder", "mend it")]).await;
    let none = ability(
        "RequestCollaboration",
        "",
        json!({"type": "object"}),
        async |_| Ok("busy".to_owned()),
    );
    scene.actions.add(none);
    scene.given("Review it").await;
    has(scene.failure(), "no request was made: busy");
    // Its parameters are checked before anything starts.
    let wrong = acting(vec![action(
        "RequestCollaboration",
        json!({"target": "coder"}),
    )])
    .await;
    has(
        wrong.try_role().unwrap_err().to_string(),
        "`RequestCollaboration`: `target",
    );
    let nobody = action(
        "RequestCollaboration",
        json!({"target_name": "nobody", "subtask_description": "x"}),
    );
    has(
        acting(vec![nobody])
            .await
            .try_role()
            .unwrap_err()
            .to_string(),
        "there is no role `nobody`",
    );
}

#[tokio::test]
async fn partial_answer_is_an_answer() {
    let scene = scene().await;
    let mut role = scene.given("Review it").await;
    let request = awaited(&role);
    let (command, plan) = (request.clone(), scene.plan_id().await);
    let change = move |draft: &mut plan_agent::plan::Draft<'_>| {
        let report = plan_agent::plan::Report {
            results: "half of it".to_owned(),
            pitfalls: "the rest is hard".to_owned(),
            ..plan_agent::plan::Report::new(
                "x",
                plan_agent::plan::ReportStatus::PartialSuccess,
                draft.now(),
            )
        };
        draft.report(&command, report)
    };
    scene
        .store
        .change(&plan, "daemon", "a report came", change)
        .await
        .unwrap();
    role.look_again().await.unwrap();
    let result = scene.success();
    let parts = [
        "done: PARTIAL_SUCCESS: only a part is done.",
        "half of it",
        "the rest is hard",
    ];
    has(result, parts);
    assert!(
        scene.update().partial,
        "what it is for is judged like a report"
    );
}
