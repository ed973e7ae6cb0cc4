//! A role that ends at any point, and another one that gets the same task.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use plan_agent::config::Config;
use plan_agent::plan::ArchiveState;
use plan_agent::role::{OnTimeout, plan_tools};
use plan_agent::tools::Toolbox;

use super::*;

/// Drops a future after this many polls, as a kill would end it; returns whether it completed before.
async fn cut<F: Future>(polls: usize, future: F) -> bool {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Carries a scene out with a kill after this many polls of each stage, and lets the next role continue; returns whether there
/// was a kill.
async fn with_kills(polls: usize, scene: &Scene, description: &str) -> bool {
    let mut killed = false;
    let mut role = scene.role();
    if !cut(polls, role.process_message(task(description))).await {
        killed = true;
        role = scene.role();
        gets(&mut role, task(description)).await;
    }
    for _ in 0..5 {
        let Some(request) = role.state().pending_collaboration_request_id.clone() else {
            break;
        };
        // The role also ends in the middle of the wait.
        role = scene.role();
        gets(&mut role, task(description)).await;
        assert_eq!(
            role.state().pending_collaboration_request_id.as_ref(),
            Some(&request)
        );
        let reply = answer(&request, COMPLETED, "mended");
        if !cut(polls, role.process_message(reply.clone())).await {
            killed = true;
            role = scene.role();
            gets(&mut role, task(description)).await;
            // The reply may not have been persisted, and arrives again then.
            gets(&mut role, reply).await;
        }
    }
    assert_eq!(role.state().status.as_str(), "idle");
    killed
}

/// Counts the completed steps, whatever happened to their callers.
fn counting() -> (Arc<Ability>, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let schema = json!({"type": "object", "properties": {}});
    let count_up = ability("count", "counts", schema, move |_| {
        let counted = Arc::clone(&counted);
        async move {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok("counted".to_owned())
        }
    });
    (count_up, count)
}

#[tokio::test]
async fn kill_at_any_point_loses_and_repeats_nothing() {
    let mut stages = 0;
    for polls in 1.. {
        let mut scene = thinking([planned(json!([
            {"name": "Think", "uses": "count", "params": []},
            {"name": "Ask the coder", "uses": "role:coder", "params": {"description": "mend {{steps.1.result}}"}},
            {"name": "Ask the coder", "uses": "role:coder", "params": {"description": "mend it again"}},
            {"name": "Say", "uses": "echo", "params": {"text": "done: {{steps.3.result}}"}},
        ]))]).await;
        let (count_up, count) = counting();
        scene.actions.add(count_up);
        let killed = with_kills(polls, &scene, "Read it. Then write it.").await;
        // A result may be reported again; it is the same then.
        let mut updates = scene.office.updates();
        updates.dedup();
        assert_eq!(updates.len(), 1, "after {polls} polls: {updates:?}");
        assert_eq!(updates[0].status, COMPLETED);
        begins(&updates[0].result, "done: mended");
        // Each request has one id and one text, however often it was sent.
        let mut sent = scene.office.sent.lock().unwrap().clone();
        sent.sort_by(|a, b| a.0.id.cmp(&b.0.id));
        sent.dedup();
        assert_eq!(sent.len(), 2, "after {polls} polls: {sent:?}");
        // The model is asked again only if the role was killed while it asked; a step is repeated only if the role was killed
        // during it.
        let asked = scene.asked().len();
        assert!(asked <= 2, "asked {asked} times after {polls} polls");
        assert!(count.load(Ordering::Relaxed) <= 2);
        let plans = scene.store.plans().await.unwrap();
        assert_eq!(plans.len(), 1, "one internal plan");
        if !killed {
            assert_eq!((asked, count.load(Ordering::Relaxed)), (1, 1));
            break;
        }
        stages += 1;
    }
    assert!(stages > 3, "{stages}");
}

/// What a tool changes in a plan of this program is done once, unlike what an action does elsewhere.
#[tokio::test]
async fn kill_at_any_point_repeats_no_change_by_a_plan_tool() {
    let adds = |subject: &str| uses("plan.TaskCreate", json!({"subject": subject}));
    for polls in 1.. {
        let mut scene = Scene::new().await.with_top().await;
        let top = PlanId::new("topplan");
        let toolbox = Toolbox::new(scene.store.clone(), &Config::default(), "role reviewer");
        scene.tools = plan_tools(&toolbox.with_plan(top.clone()));
        let scene = scene.with_steps(vec![adds("Two"), adds("Three"), says("{{steps.1.result}}")]);
        let killed = with_kills(polls, &scene, "Review it").await;
        let names = |plan: &Plan, _| plan.tasks().map(|task| task.name.clone()).collect();
        let names: Vec<String> = scene.store.read(&top, names).await.unwrap();
        assert_eq!(names, ["One", "Two", "Three"], "after {polls} polls");
        // An answer that was lost is not passed on as if it were one.
        let updates = scene.office.updates();
        let is_known = |update: &TaskUpdate| match update.status {
            COMPLETED => update.result.contains("Two"),
            _ => update.result.contains("its answer is not known any more"),
        };
        assert!(updates.iter().all(is_known), "{updates:?}");
        if !killed {
            assert!(polls > 3);
            break;
        }
    }
}

#[tokio::test]
async fn stored_answer_is_not_requested_again() {
    // The answer is persisted before the step is completed: a role that ends in between reads it.
    for polls in 1.. {
        let scene = thinking([json!({"answer": "first"}), json!({"answer": "second"})]).await;
        let mut role = scene.role();
        let ended = cut(polls, role.process_message(task("Write a poem."))).await;
        let paid = scene
            .store
            .find("role:reviewer:task-1")
            .await
            .unwrap()
            .is_some()
            && scene.plan().await.asks().any(|ask| ask.answered.is_some());
        let asked = scene.asked().len();
        gets(&mut scene.role(), task("Write a poem.")).await;
        if paid {
            assert_eq!(scene.asked().len(), asked, "after {polls} polls");
            assert_eq!(scene.office.updates().last().unwrap().result, "first");
        }
        if ended {
            break;
        }
    }
}

#[tokio::test]
async fn answer_before_repeated_task_is_stored() {
    let scene = acting(vec![asks("coder", "mend it")]).await;
    let request = scene.given("Review it").await.state().clone();
    let request = request.pending_collaboration_request_id.unwrap();
    let mut role = scene.role();
    let reply = answer(&request, COMPLETED, "mended");
    gets(&mut role, reply.clone()).await;
    assert_eq!(role.state().status.as_str(), "idle");
    assert!(scene.office.updates().is_empty());
    gets(&mut role, task("Review it")).await;
    assert_eq!(scene.success(), "mended");
    assert_eq!(scene.office.sent().len(), 1);
    // A repetition changes nothing.
    gets(&mut scene.role(), reply).await;
    assert_eq!(scene.office.updates().len(), 1);
}

#[tokio::test]
async fn answer_for_other_role_is_ignored() {
    let mut scene = acting(vec![asks("coder", "mend it")]).await;
    let request = scene.given("Review it").await.state().clone();
    let request = request.pending_collaboration_request_id.unwrap();
    scene.settings.id = id("review");
    let mut reply = answer(&request, COMPLETED, "mended");
    reply.to = id("review");
    gets(&mut scene.role(), reply).await;
    let plan = scene.plan().await;
    assert!(plan.attempt(&request).unwrap().report.is_none());
}

#[tokio::test]
async fn kill_around_timeout_makes_one_new_request() {
    for polls in 1.. {
        let mut scene = acting(vec![asks("coder", "mend it")]).await;
        scene.settings.on_timeout = OnTimeout::Retry;
        let mut role = scene.given("Review it").await;
        let first = awaited(&role);
        let until = role.state().waits_until.unwrap();
        let ended = cut(polls, role.timed_out(until)).await;
        let mut role = scene.role();
        gets(&mut role, task("Review it")).await;
        let mut second = awaited(&role);
        if second == first {
            // The request had not been abandoned yet.
            role.timed_out(until).await.unwrap();
            second = awaited(&role);
        }
        assert_ne!(second, first);
        assert!(
            scene
                .office
                .withdrawn()
                .iter()
                .all(|request| *request == first)
        );
        assert!(!scene.office.withdrawn().is_empty(), "after {polls} polls");
        gets(&mut role, answer(&second, COMPLETED, "mended")).await;
        assert_eq!(scene.success(), "mended");
        if ended {
            break;
        }
    }
}

#[tokio::test]
async fn kill_around_cancel_abandons_task() {
    for polls in 1.. {
        let scene = acting(vec![asks("coder", "mend it")]).await;
        let mut role = scene.given("Review it").await;
        let ended = cut(polls, role.process_message(cancel("task-1"))).await;
        // In an archived plan open requests would be overlooked.
        let plan = scene.plan().await;
        assert!(
            plan.head().archive_state == ArchiveState::Current || plan.recalls().count() == 0,
            "after {polls} polls"
        );
        gets(&mut scene.role(), cancel("task-1")).await;
        assert_eq!(scene.plan().await.status().as_str(), "aborted");
        assert_eq!(scene.plan().await.recalls().count(), 0);
        assert!(!scene.office.withdrawn().is_empty(), "after {polls} polls");
        if ended {
            break;
        }
    }
}
