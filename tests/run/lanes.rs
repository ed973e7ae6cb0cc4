//! One lane or ten: the result of a plan is the same.

use super::*;
use crate::common::agent::report;

const TASKS: u32 = 40;

/// Every task but the first few depends on one or two others; some need two attempts, one a repair.
fn plan() -> String {
    let task = |number: u32| {
        let after: Vec<String> = [number / 2, number.saturating_sub(7)]
            .iter()
            .filter(|other| **other > 0 && number > 4)
            .map(u32::to_string)
            .collect();
        let after = match &after[..] {
            [] => String::new(),
            after => format!("- after: {}\n", after.join(", ")),
        };
        let role = ["coder", "tester"][number as usize % 2];
        format!("## Part {number}\n\n- assignee: {role}\n{after}\nMake it.\n\n")
    };
    let tasks: String = (1..=TASKS).map(task).collect();
    format!("# Parts\n\n{tasks}")
}

fn act(command: &Command) -> Act {
    let (task, attempt) = (command.task(), command.attempt());
    let results = format!("Part {task} at attempt {attempt}.");
    match (task % 5, attempt) {
        (0, 1) => Act::failed(&results),
        (1, 1) => Act::Report(report("PARTIAL_SUCCESS", &results)),
        // The daemon asks for it again, which takes a while.
        (2, 1) if task == 7 && !command.text.contains("could not be read") => {
            Act::Report("Done, I think.\n".to_owned())
        }
        _ => Act::success(&results),
    }
}

/// Returns the result of each task.
fn outcome(lanes: u32) -> Vec<Value> {
    let scene = Scene::by_rules(&format!("run.max_parallel = {lanes}\n"));
    scene.write("plan.md", &plan());
    let role =
        |id: &str| format!("- {{id: {id}, kind: files, worker: external, concurrency: {lanes}}}\n");
    let roles = role("coder") + &role("tester");
    scene.write("team.yaml", &format!("name: Team\nroles:\n{roles}"));
    let agent = scene.agent(act);
    let run = "run --plan plan.md --team team.yaml --no-input";
    scene.exits(0, run);
    let mut seen = agent.attempts();
    seen.sort_unstable();
    let mut status = scene.status();
    assert_eq!(status["plan"]["status"], "completed");
    for task in status["tasks"].as_array_mut().unwrap() {
        // The snapshot of the folder, the other agents at work, and the durations may differ.
        task["evidence"].take();
        task["usage"].take();
    }
    let tasks = status["tasks"].take();
    vec![tasks, status["progress"].take(), json!(seen)]
}

#[test]
fn one_and_ten_lanes_give_same_result() {
    let (one, ten) = (outcome(1), outcome(10));
    for (one, ten) in one.iter().zip(&ten) {
        assert_eq!(format!("{one:#}"), format!("{ten:#}"));
    }
    let attempts: u64 = one[0]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["attempts"].as_u64().unwrap())
        .sum();
    // Two of five need two.
    assert_eq!(attempts, u64::from(TASKS + 2 * TASKS / 5));
}

/// Agents that each wait until all of them are at work. However many there may be, one watch of the folders serves them.
#[test]
fn agents_side_by_side_need_one_watch() {
    let scene = Scene::by_rules("run.max_parallel = 200\n");
    scene.write("many.md", &many(12));
    let all = scene.env.path("at-work");
    fs::create_dir_all(&all).unwrap();
    let agent = format!(
        "cd '{}'; touch \"$$\"; while [ $(ls | wc -l) -lt 12 ]; do sleep 0.02; done
printf -- '---\nstatus: SUCCESS\n---\n\n## Core results\n\nAll met.\n' > \"$1\"",
        all.display()
    );
    scene.write("agent.sh", &agent);
    let agent = scene.env.path("agent.sh").display().to_string();
    scene.exits(
        0,
        format!("run --plan many.md --agent command -- sh {agent} {{report}}"),
    );
    lacks(scene.daemon_log(), "watched");
}
