//! The budget of a day: it holds over all plans, survives every crash, and ends at midnight.

use std::time::Duration;

use super::clock::{DAY, set_clock, with_a_clock_to_set};
use super::*;
use crate::common::env::row;

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
    let rests = plan_id(&scene);
    let said = scene.works(["pause", &rests]);
    has(said, "is paused, also when the day is over");
    second.kill();

    set_clock(&scene, DAY);
    let third = scene.start_as("third", "daemon");
    wait_until("a plan goes on", || server.asked().len() == 2);
    third.kill();
    has(
        scene.works(["status", &rests]),
        "paused: on the command line",
    );
}

/// Three plans ask in one moment; kills and starts give none of them a further call.
#[test]
fn simultaneous_calls_stay_within_the_day() {
    let server = LlmServer::start(|asked| match asked.kind.as_str() {
        // All plans ask before one has its answer.
        "plan" => Answer::Slow(Duration::from_secs(1), Box::new(planned(&[("Only", &[])]))),
        _ => all_well(asked),
    });
    let config = "budget.day.llm_calls = 2";
    let scene = Scene::with_model(&server, Shape::Chat, config).with_folders();
    for folder in ["a", "b", "c"] {
        scene.works(format!("run --queue 'Do it' --workspace {folder}"));
    }
    for round in 0..4 {
        let daemon = scene.start_as(&format!("daemon-{round}"), "daemon");
        if round == 0 {
            wait_until("two plans ask", || server.count("plan") == 2);
        }
        scene.await_states(&["paused"; 3]);
        daemon.kill();
        assert_eq!(server.asked().len(), 2);
    }
}

/// Who starts it without a terminal learns it from the exit code, as with every budget.
#[test]
fn run_without_terminal_ends_when_the_day_is_used_up() {
    let server = planning(&[("Only", &[])]);
    let config = "budget.day.llm_calls = 1";
    let scene = Scene::with_model(&server, Shape::Chat, config);
    let ran = scene.exits(6, "run 'Do it'");
    ran.has_stdout("budget of the day: 1 of 1 call used by all plans");
    scene.exits(6, "resume");
    assert_eq!(server.asked().len(), 1);
    scene.works("answer more");
    let agent = scene.agent(|_| Act::success("done"));
    // Planned and judged; the day does not pay for a summary.
    scene.exits(6, "resume");
    scene.works("answer more");
    scene.exits(0, "resume");
    assert_eq!(agent.attempts(), [(1, 1)]);
}

#[test]
fn changed_day_budget_needs_confirmation() {
    let mut scene = Scene::by_rules("budget.day.cost_usd = 5");
    scene.env.confirm();
    scene.env.confirm_nothing();
    for changed in ["", "budget.day.cost_usd = 6", "budget.day.llm_calls = 9"] {
        row(changed);
        let config = format!("llm.provider = 'none'\n{changed}");
        scene.write("config.toml", &config);
        let was = "- budget.day.cost_usd = 5.0";
        scene.refuses(
            4,
            "run --queue --plan one.md",
            ["it is not what was confirmed", was],
        );
    }
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
