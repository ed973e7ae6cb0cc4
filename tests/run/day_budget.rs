//! The budget of a day: it holds over all plans, survives every crash, and ends at midnight.

use super::clock::{DAY, set_clock, with_a_clock_to_set};
use super::many_plans::plan_of;
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
    let mut scene = Scene::with_model(&server, Shape::Chat, "budget.day.llm_calls = 2");
    if let Err(why) = with_a_clock_to_set(&mut scene) {
        return skip(&why);
    }
    let scene = scene.with_folders();
    for folder in ["a", "b"] {
        scene.works(format!("run --queue 'Do it' --workspace {folder}"));
    }
    let first = scene.start_as("first", "daemon");
    scene.await_states(&["paused", "paused"]);
    assert_eq!(server.asked().len(), 2, "a plan for each goal");
    first.kill();

    // A plan that begins when nothing is left, and a daemon that did not see what was spent.
    scene.works("run --queue 'Do it' --workspace c");
    let second = scene.start_as("second", "daemon");
    scene.await_states(&["paused", "paused", "paused"]);
    assert_eq!((server.asked().len(), scene.pending().len()), (2, 0));
    second.kill();

    set_clock(&scene, DAY);
    let third = scene.start_as("third", "daemon");
    let plans = [scene.take_any(), scene.take_any()].map(|command| plan_of(&command).to_owned());
    assert_ne!(plans[0], plans[1]);
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
