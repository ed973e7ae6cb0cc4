//! A role whose work is cancelled, and a kill before its request is withdrawn.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use super::*;

/// Returns the unclaimed, the claimed and the withdrawn commands.
fn places(scene: &Scene) -> [Vec<String>; 3] {
    ["pending", "processed", "withdrawn"].map(|folder| {
        let mut names = scene.names(&format!("commands/{folder}"));
        names.retain(|name| name.ends_with(".md"));
        names
    })
}

/// Returns the states of the internal plans, and whether they still need work.
fn internal(scene: &Scene) -> Vec<(String, String)> {
    let all: Vec<Value> = scene.json("plans --all --json");
    let word = |plan: &Value, name: &str| plan[name].as_str().unwrap().to_owned();
    all.iter()
        .filter(|plan| plan["owner"] == "role")
        .map(|plan| (word(plan, "status"), word(plan, "archive_state")))
        .collect()
}

fn given_up(archive_state: &str) -> Vec<(String, String)> {
    vec![("aborted".to_owned(), archive_state.to_owned())]
}

#[test]
fn kill_after_plan_end_leaves_no_request() {
    let scene = Scene::by_rules("");
    let daemon = passes(&scene, &asks_coder(""), &one_for("a"));
    let request = scene.await_command("a request", is_request);
    let name = format!("{}.md", request.id);
    let plan = plan_id(&scene);
    // The role does not learn of it any more.
    daemon.freeze();
    scene.works(["abort", &plan]);
    kill(&scene, daemon);
    let [pending, _, withdrawn] = places(&scene);
    assert_eq!(pending, [name.as_str()]);
    assert!(withdrawn.is_empty(), "{withdrawn:?}");

    scene.run(["resume", &plan, "--team", "team.yaml"]);
    let [pending, processed, withdrawn] = places(&scene);
    assert!(pending.is_empty(), "{pending:?}");
    assert!(!processed.contains(&name), "{processed:?}");
    assert_eq!(withdrawn, [name]);
    assert_eq!(internal(&scene), given_up("history"));
    assert_eq!(scene.events_named("request_ended")[0]["how"], "taken_back");
}

/// Replaces the folder for withdrawn commands by one of another file system: no file can be moved there. `None` if there is no
/// other file system.
fn no_way_there(scene: &Scene) -> Option<tempfile::TempDir> {
    let folder = scene.path("commands/withdrawn");
    let device = |path: &Path| fs::metadata(path).ok().map(|data| data.dev());
    let other = tempfile::tempdir_in("/dev/shm").ok();
    let other = other.filter(|other| device(other.path()) != device(&folder));
    let Some(other) = other else {
        skip("there is no other file system to write to");
        return None;
    };
    fs::remove_dir_all(&folder).unwrap();
    symlink(other.path(), &folder).unwrap();
    Some(other)
}

#[test]
fn kill_before_withdrawal_leaves_no_request() {
    let scene = Scene::by_rules("run.max_attempts = 1\n");
    let daemon = passes(&scene, &asks_coder("  timeout: 8s\n"), &one_for("a"));
    let request = scene.await_command("a request", is_request);
    let name = format!("{}.md", request.id);
    let Some(_elsewhere) = no_way_there(&scene) else {
        return;
    };
    scene.await_events("timed_out", 1);
    wait_until("the role has given its plan up", || {
        internal(&scene) == given_up("current")
    });
    kill(&scene, daemon);
    assert_eq!(places(&scene)[0], [name.as_str()], "it could not be moved");
    fs::remove_file(scene.path("commands/withdrawn")).unwrap();

    let plan = plan_id(&scene);
    let _daemon = scene.leave(["resume", &plan, "--team", "team.yaml"]);
    scene.await_name("commands/withdrawn", &name);
    wait_until("it is looked after no more", || {
        internal(&scene) == given_up("history")
    });
    // A worker that comes now finds another request.
    let coder = scene.agent(|command| match is_request(command) {
        true => Act::success("Done."),
        false => Act::Leave,
    });
    let question = scene.await_questions(1).remove(0);
    has(&question.1, "not finished within 8 s");
    scene.fill_in(&question.0, "retry", "");
    scene.await_status("completed");
    let seen = coder.seen().into_iter().filter(is_request);
    let seen: Vec<String> = seen.map(|command| command.id).collect();
    // A cancelled task is not reported on either.
    assert_eq!(scene.events_named("reported").len(), 1);
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_ne!(seen[0], request.id);
    assert_eq!(places(&scene)[2], [name]);
    let reports = scene.names("reports/processed");
    assert!(
        !reports.iter().any(|name| name.contains(&request.id)),
        "{reports:?}"
    );
}
