//! A daemon that is killed, and what a person sees and does then.

use super::*;

/// Claude Code, which works until it is ended.
const BUSY: &str = r#"[ "$1" = --version ] && { echo "2.1.330 (Claude Code)"; exit; }
echo $$ > "@HERE@/busy"; while :; do sleep 0.02; done
"#;

/// The command goes back at once, and no agent works on it beside the person who takes it.
#[test]
fn agent_files_gets_what_a_dead_worker_had() {
    for killed in [true, false] {
        let mut scene = Scene::by_rules("");
        let here = scene.env.path("").display().to_string();
        (scene.env).show_script("claude", &BUSY.replace("@HERE@", &here));
        let daemon = scene.leave("run --plan one.md --agent claude");
        scene.await_events("claimed", 1);
        let busy = || fs::read_to_string(scene.env.path("busy")).unwrap_or_default();
        wait_until("its agent works", || busy().ends_with('\n'));
        match killed {
            true => kill(&scene, daemon),
            false => drop(scene.works("stop")),
        }
        let _daemon = scene.leave("resume --agent files");
        let command = scene.take_any();
        assert!(!lives(busy().trim()), "two agents work at once");
        scene.succeed(&command, "Made by a person.");
        scene.await_end();
        assert_eq!(scene.tasks(), ["completed"]);
        assert!(scene.events_named("timed_out").is_empty());
        assert_eq!(scene.events_named("issued").len(), 1);
    }
}

/// A killed daemon cannot correct MISSION.md; the next one does so at once. Views ask for the lock.
#[test]
fn mission_and_status_are_true_after_a_kill() {
    let scene = Scene::by_rules("");
    let daemon = scene.leave("run --plan two.md --agent files");
    let mission = || scene.read("volumes/workspace/MISSION.md");
    let left = scene.take_task(1);
    scene.await_events("claimed", 1);
    wait_until("MISSION.md knows", || mission().contains("1 in progress"));
    kill(&scene, daemon);
    for view in ["status", "plans"] {
        let seen = scene.works(view);
        has(&seen, "stopped");
        lacks(&seen, "running");
    }
    scene.succeed(&left, "Made.");
    let _daemon = scene.leave("resume --agent files");
    wait_until("MISSION.md is true", || {
        let text = mission();
        text.contains("running") && text.contains("1 completed")
    });
    has(scene.works("status"), "running");
    scene.works("stop");
    has(mission(), ["stopped", "1 completed"]);
}
