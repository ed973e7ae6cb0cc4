//! Roles behind files: workers that take only the tasks of their role, in any number.

use std::collections::BTreeMap;

use super::*;

/// Records which worker works on which task and whether another one works on it already, and reports it.
const WORKER: &str = r#"
who=$1 task=$(basename "$2" .md)
mkdir "$task.busy" || echo "$task" >> overlap
echo "$who" >> "$task.by"
rmdir "$task.busy"
printf -- '---\nstatus: SUCCESS\n---\n\n## Core results\n\nDone by %s.\n' "$who" > "$task.part"
mv "$task.part" "$2"
"#;

fn words(role: &str, who: &str) -> String {
    format!("worker {role} --agent command -- sh worker.sh {who} {{report}}")
}

/// Returns which worker did which task, according to each task's result.
fn done_by(scene: &Scene) -> Vec<(u64, String)> {
    let status = scene.status();
    let tasks = status["tasks"].as_array().unwrap();
    let result = |task: &Value| {
        let said = task["result"].as_str().unwrap_or_default().to_owned();
        (task["id"].as_u64().unwrap(), said)
    };
    tasks.iter().map(result).collect()
}

#[test]
fn workers_claim_commands_of_their_roles() {
    let scene = Scene::by_rules("run.max_parallel = 4\n");
    scene.write("volumes/workspace/worker.sh", WORKER);
    scene.write(
        "plan.md",
        "# Parts\n\n## One\n\n- assignee: coder\n\n## Two\n\n- assignee: reviewer\n\n## Three\n\n## Four\n\n- assignee: coder\n",
    );
    let _daemon = scene.leave("run --plan plan.md");
    let coder = scene.env.start(words("--role coder", "coder"));
    let reviewer = scene.env.start(words("--role reviewer", "reviewer"));
    wait_until("three are done", || {
        let done = |task: &(u64, String)| !task.1.is_empty();
        done_by(&scene).iter().filter(|task| done(task)).count() == 3
    });
    // No worker was there for the task that any role may do.
    let anybody = scene.env.start(words("", "anybody"));
    scene.await_status("completed");
    let by: BTreeMap<u64, String> = done_by(&scene).into_iter().collect();
    for (task, who) in [(1, "coder"), (2, "reviewer"), (3, "anybody"), (4, "coder")] {
        assert_eq!(by[&task], format!("Done by {who}."), "task {task}");
    }
    for mut worker in [coder, reviewer, anybody] {
        kill_process(Pid::from_child(&worker.child), Signal::INT).unwrap();
        assert_eq!(worker.wait().code(), Some(130));
    }
}

#[test]
fn several_workers_claim_each_command_once() {
    const TASKS: usize = 24;
    let scene = Scene::by_rules("run.max_parallel = 8\n");
    scene.write("volumes/workspace/worker.sh", WORKER);
    let task = |number| format!("## Part {number}\n\n- assignee: coder\n\n");
    let tasks: String = (1..=TASKS).map(task).collect();
    scene.write("plan.md", &format!("# Parts\n\n{tasks}"));
    let names = ["first", "second", "third"];
    let workers = names.map(|who| scene.env.start(words("--role coder", who)));
    scene.works("run --plan plan.md");
    drop(workers);
    assert!(!scene.path("workspace/overlap").exists());
    let by = scene.texts("workspace", ".by");
    assert_eq!(by.len(), TASKS);
    assert!(by.iter().all(|by| by.lines().count() == 1), "{by:?}");
    assert!(scene.events_named("stale").is_empty());
}
