//! The built-in actions.

use std::collections::BTreeMap;

use plan_agent::exec::CheckConfig;
use plan_agent::role::{Workplace, built_in};

use super::*;

fn with_files(scene: Scene, workspace: &std::path::Path) -> Scene {
    with_files_at(scene, &Workplace::of(workspace))
}

fn with_files_at(mut scene: Scene, workplace: &Workplace) -> Scene {
    let check = |name: &str, script: &str| {
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        let check = CheckConfig {
            name: name.to_owned(),
            argv,
            timeout: LONG,
            ..CheckConfig::default()
        };
        (name.to_owned(), check)
    };
    let checks = BTreeMap::from([
        check("good", "echo fine"),
        check("bad", "echo broken; exit 3"),
        check("look", "ls own/active"),
    ]);
    scene.actions = scene.actions.and(built_in(workplace, checks));
    scene
}

/// Returns the parameters of an action on a file or a check.
fn params(action: &str, on: &str) -> Value {
    match action {
        "run_check" => json!({"name": on}),
        "write_file" => json!({"path": on, "content": "x"}),
        _ => json!({"path": on}),
    }
}

#[tokio::test]
async fn actions_skip_private_files_and_mark_running_check() {
    let workspace = tempfile::tempdir().unwrap();
    let active = workspace.path().join("own/active");
    std::fs::create_dir_all(&active).unwrap();
    std::fs::write(workspace.path().join("own/secret"), "secret").unwrap();
    let workplace = Workplace {
        closed: vec![workspace.path().join("own")],
        marks: Some(active.clone()),
        ..Workplace::of(workspace.path())
    };
    for (name, path) in [
        ("read_file", "own/secret"),
        ("write_file", "own/active/x"),
        ("write_file", "own/new/x"),
    ] {
        let steps = vec![action(name, params(name, path))];
        let scene = with_files_at(Scene::new().await, &workplace).with_steps(steps);
        scene.given("Review it").await;
        let result = scene.failure();
        has(&result, "is plan-agent's own");
    }
    assert_eq!(
        std::fs::read_dir(workspace.path().join("own"))
            .unwrap()
            .count(),
        2
    );
    let scene = with_files_at(Scene::new().await, &workplace).with_steps(vec![
        says("one"),
        action("run_check", json!({"name": "look"})),
    ]);
    scene.given("Review it").await;
    let mark = format!("look: exit 0\n{}-2.step", scene.plan_id().await);
    let (status, result) = scene.result();
    assert!(status == COMPLETED && result.starts_with(&mark), "{result}");
    assert_eq!(std::fs::read_dir(active).unwrap().count(), 0);
}

#[tokio::test]
async fn actions_read_and_write_workspace_files() {
    let workspace = tempfile::tempdir().unwrap();
    std::fs::write(workspace.path().join("in.txt"), "old").unwrap();
    let scene = with_files(Scene::new().await, workspace.path()).with_steps(vec![
        action("read_file", json!({"path": "in.txt"})),
        action(
            "write_file",
            json!({"path": "out/a.txt", "content": "new after {{steps.1.result}}"}),
        ),
        action("run_check", json!({"name": "good"})),
    ]);
    scene.given("Review it").await;
    let result = scene.success();
    assert!(result.starts_with("good: exit 0\nfine\n"), "{result}");
    let written = std::fs::read_to_string(workspace.path().join("out/a.txt")).unwrap();
    assert_eq!(written, "new after old");
}

#[tokio::test]
async fn actions_reject_paths_outside_workspace() {
    let workspace = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink(outside.path(), workspace.path().join("way")).unwrap();
    std::fs::write(workspace.path().join("binary"), [0xff, 0xfe, 0x00]).unwrap();
    for (name, on, reason) in [
        ("read_file", "../x", "`../x` leads out of the workspace"),
        (
            "read_file",
            "/etc/passwd",
            "is not relative to the workspace",
        ),
        ("read_file", "way/secret", "cannot read `way/secret`"),
        ("read_file", "none", "cannot read `none`"),
        ("read_file", "binary", "`binary` is no text file"),
        ("write_file", "way/new", "cannot write `way/new`"),
        (
            "write_file",
            "MISSION.md",
            "is written by plan-agent itself",
        ),
        ("write_file", "a/.GIT/hooks/x", "is git's own"),
        (
            "write_file",
            ".Plan-Agent/config.toml",
            "is plan-agent's own",
        ),
        ("read_file", "a/.plan-agent/x", "is plan-agent's own"),
        ("run_check", "bad", "bad: exit 3\nbroken"),
        (
            "run_check",
            "godo",
            "there is no check `godo`; is `good` meant?",
        ),
    ] {
        row((name, on));
        let steps = vec![action(name, params(name, on))];
        let scene = with_files(Scene::new().await, workspace.path()).with_steps(steps);
        scene.given("Review it").await;
        has(scene.failure(), reason);
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn file_is_handed_on_whole_or_step_fails() {
    let workspace = tempfile::tempdir().unwrap();
    let most = 128 * 1024;
    let odd = "\u{feff}one\r\ntwo\0 \u{1b}[31mred\u{200b}\r\n\n";
    for text in [odd.to_owned(), "é".repeat(most / 2), String::new()] {
        std::fs::write(workspace.path().join("from"), &text).unwrap();
        let scene = with_files(Scene::new().await, workspace.path()).with_steps(vec![
            action("read_file", json!({"path": "from"})),
            action(
                "write_file",
                json!({"path": "to", "content": "{{steps.1.result}}"}),
            ),
        ]);
        scene.given("Review it").await;
        scene.success();
        let written = std::fs::read_to_string(workspace.path().join("to")).unwrap();
        assert!(written == text, "{}", written.len());
    }
    std::fs::write(workspace.path().join("from"), "x".repeat(most + 1)).unwrap();
    let scene = with_files(Scene::new().await, workspace.path())
        .with_steps(vec![action("read_file", json!({"path": "from"}))]);
    scene.given("Review it").await;
    has(
        scene.failure(),
        "`from` has 131073 bytes, and a step passes on at most 131072",
    );
}
