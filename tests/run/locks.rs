//! Locks of tasks: of two that share one, the second begins when the first has ended.

use super::many_plans::plan_of;
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

/// The agent of a killed daemon goes on, also where nobody carries its plan out.
#[test]
fn lock_of_a_plan_without_a_daemon_is_held() {
    let scene = Scene::by_rules("run.max_parallel = 3").with_folders();
    scene.write("locks.md", PLAN);
    let first = scene.start_as("first", "run --plan locks.md --workspace a");
    let held = scene.take_task(1);
    let third = scene.take_task(3);
    first.kill();
    scene.await_end();
    let plan = plan_of(&held);
    let lock = "# One server\n\n## Only\n\n- locks: port:8080\n";
    scene.write("lock.md", lock);
    let second = scene.start_as("second", "run --plan lock.md --workspace b");
    let waits = format!("waits for port:8080, held by task 1 of plan {plan}");
    wait_until("the second plan waits", || {
        scene.works("status").contains(&waits)
    });
    assert_eq!(scene.pending().len(), 0);

    // Beside it, the first one goes on; what ends there wakes the other.
    let resumed = scene.start_as("resumed", format!("resume {plan}"));
    scene.succeed(&third, "done");
    scene.succeed(&held, "done");
    let _agent = scene.agent(|_| Act::success("done"));
    second.end().exits(0);
    resumed.end().exits(0);
}
