//! Locks of tasks: of two that share one, the second begins when the first has ended.

use super::*;

const PLAN: &str = "# Two servers\n\n## 1. One\n\n- locks: port:8080\n\n## 2. Two\n\n- locks: port:8080\n\n## 3. Three\n";

#[test]
fn tasks_that_share_a_lock_never_run_simultaneously() {
    let scene = Scene::by_rules("run.max_parallel = 3\n");
    scene.write("locks.md", PLAN);
    let run = scene.start("run --plan locks.md --no-input");
    let first = scene.take_task(1);
    wait_until("the first and the third task are under way", || {
        scene.tasks() == ["in_progress", "pending", "in_progress"]
    });
    let waits = "waits for port:8080, held by task 1";
    has(scene.works("why 2"), format!("it {waits}\n"));
    has(scene.works("status"), format!("Two · {waits}"));

    // After a crash, the lock is where it was: with the attempt that is still open.
    drop(run);
    scene.await_end();
    let resumed = scene.start("resume --no-input");
    let agent = scene.agent(|_| Act::success("done"));
    wait_until("the third task is completed", || {
        scene.tasks() == ["in_progress", "pending", "completed"]
    });
    has(scene.works("why 2"), waits);
    scene.succeed(&first, "done");
    wait_until("all tasks are completed", || {
        scene.tasks() == ["completed"; 3]
    });
    let order: Vec<u32> = agent.attempts().iter().map(|(task, _)| *task).collect();
    assert_eq!(order, [3, 2]);
    drop(resumed);
}
