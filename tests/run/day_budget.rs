//! The budget of a day: it holds over all plans, survives every crash, and ends at midnight.

use super::clock::{DAY, set_clock, with_a_clock_to_set};
use super::*;

/// Returns the numbers of the open questions, and their reasons.
fn asked(scene: &Scene) -> (Vec<String>, Vec<String>) {
    let all = open_questions(scene);
    let text = |key: &str| -> Vec<String> {
        let texts = all.iter().map(|question| question[key].as_str().unwrap());
        texts.map(str::to_owned).collect()
    };
    (text("id"), text("reason"))
}

#[test]
fn day_budget_stops_all_plans_until_midnight() {
    let server = planning(&[("Only", &[])]);
    let mut scene = Scene::with_model(&server, Shape::Chat, "budget.day.llm_calls = 1");
    if let Err(why) = with_a_clock_to_set(&mut scene) {
        return skip(&why);
    }
    let scene = scene.with_folders();
    scene.works("run --queue 'Do it' --workspace a");
    let first = scene.start_as("first", "daemon");
    scene.await_states(&["paused"]);
    // A plan that begins when nothing is left.
    scene.works("run --queue 'Do it' --workspace b");
    scene.await_states(&["paused", "paused"]);
    first.kill();

    // A daemon that did not see what was spent.
    scene.works("run --queue 'Do it' --workspace c");
    let second = scene.start_as("second", "daemon");
    scene.await_states(&["paused", "paused", "paused"]);
    assert_eq!((server.asked().len(), scene.pending().len()), (1, 0));
    second.kill();

    set_clock(&scene, DAY);
    let third = scene.start_as("third", "daemon");
    wait_until("a plan goes on", || server.asked().len() == 2);
    third.kill();
}

#[test]
fn person_allows_more_of_the_day() {
    let server = planning(&[("Only", &[])]);
    let config = "budget.day.llm_calls = 1";
    let scene = Scene::with_model(&server, Shape::Chat, config).with_folders();
    scene.works("run --queue 'Do it' --workspace a");
    let daemon = scene.start_as("daemon", "daemon");
    scene.await_states(&["paused"]);
    let (ids, reasons) = asked(&scene);
    assert_eq!(ids.len(), 1);
    let reason = &reasons[0];
    assert!(
        reason.starts_with("budget of the day: 1 of 1 call used by all plans; it goes on at "),
        "{reason}"
    );
    has(scene.works("status"), "budget of the day: 1 of 1 call used");
    scene.works(format!("answer {} more", ids[0]));
    let command = scene.take_any();
    assert_eq!(server.asked().len(), 1);
    scene.succeed(&command, "done");
    // The verdict was the call that was allowed.
    scene.await_states(&["paused"]);
    assert_eq!(server.asked().len(), 2);
    daemon.kill();
}
