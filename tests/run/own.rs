//! What is plan-agent's own: whoever can write into its folders does not have it write elsewhere.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use crate::common::agent::report;

const MINE: &str = "mine\n";

/// What lies where a file of plan-agent's own belongs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Instead {
    Link,
    /// A link to what does not exist.
    Dangling,
    /// A hard link.
    Second,
    Pipe,
}

/// Lays something in the place of a file; returns what of the person's must stay as it is.
fn lay(scene: &Scene, place: &Path, instead: Instead) -> PathBuf {
    let target = scene.env.path("precious");
    if instead != Instead::Dangling {
        fs::write(&target, MINE).unwrap();
    }
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    match instead {
        Instead::Link | Instead::Dangling => symlink(&target, place).unwrap(),
        Instead::Second => fs::hard_link(&target, place).unwrap(),
        Instead::Pipe => {
            mknodat(CWD, place, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        }
    }
    target
}

fn assert_untouched(target: &Path, instead: Instead, of: &str) {
    let left = fs::read_to_string(target).ok();
    let expected = (instead != Instead::Dangling).then(|| MINE.to_owned());
    assert_eq!(left, expected, "{of}: {instead:?}");
}

#[test]
fn a_start_writes_through_no_link_and_waits_for_no_pipe() {
    use Instead::{Dangling, Link, Pipe, Second};
    let run = &["run", "--plan", "one.md"][..];
    let detach = &["run", "--plan", "one.md", "--detach"][..];
    for (name, args, kinds) in [
        ("daemon.lock", run, &[Link, Dangling, Second, Pipe][..]),
        ("logs/daemon.log", run, &[Link, Dangling, Second, Pipe]),
        ("logs/daemon.log", detach, &[Link]),
        // Whether a database has a second name is not for us to say.
        ("plan-agent.db", run, &[Link, Dangling, Pipe]),
    ] {
        for instead in kinds.iter().copied() {
            let scene = Scene::by_rules("");
            let place = scene.exchange.path(name);
            let target = lay(&scene, &place, instead);
            let ran = scene.run(args);
            assert_eq!(ran.code, Some(1), "{name}, {instead:?}: {ran:?}");
            assert!(
                ran.stderr.contains(&place.display().to_string()) && ran.stderr.contains("Hint:"),
                "{name}, {instead:?}: {ran:?}"
            );
            assert_untouched(&target, instead, name);
            assert_eq!(scene.exchange.names("commands/pending"), [""; 0]);
        }
    }
}

#[test]
fn a_folder_that_is_a_link_is_not_used() {
    for name in [
        "active",
        "active/.tmp",
        "commands",
        "commands/.tmp",
        "logs",
        "questions/.tmp",
        "reports/pending",
        "roles",
        "trees",
        "worktrees",
    ] {
        let scene = Scene::by_rules("");
        scene.env.write("theirs/note.md", MINE);
        let place = scene.exchange.path(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        symlink(scene.env.path("theirs"), &place).unwrap();
        let ran = scene.run(&["run", "--plan", "one.md", "--no-input"]);
        assert_eq!(ran.code, Some(1), "{name}: {ran:?}");
        let said = format!("`{}`: it is a symbolic link", place.display());
        assert!(
            ran.stderr.contains(&said) && ran.stderr.contains("Hint:"),
            "{name}: {ran:?}"
        );
        assert_eq!(scene.env.read("theirs/note.md"), MINE, "{name}");
        assert_eq!(fs::read_dir(scene.env.path("theirs")).unwrap().count(), 1);
    }
}

#[test]
fn the_workspace_may_be_a_link() {
    let scene = Scene::by_rules("");
    fs::create_dir_all(scene.env.path("project")).unwrap();
    fs::create_dir_all(scene.exchange.path("")).unwrap();
    symlink(scene.env.path("project"), scene.exchange.path("workspace")).unwrap();
    let _agent = scene.agent(|_| Act::success("done"));
    let ran = scene.run(&["run", "--plan", "one.md"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn a_daemon_at_work_writes_through_no_link() {
    let scene = Scene::by_rules(
        "run.checks = ['fine']\nchecks.fine = { run = ['echo', 'checked'] }\nhooks.on_change = ['echo', 'heard']",
    );
    let logs = scene.exchange.path("logs/hooks.log");
    let target = lay(&scene, &logs, Instead::Link);
    let foreground = scene.start(&["run", "--plan", "one.md"]);
    let command = scene.exchange.take("the task", |_| true);
    let check = scene.exchange.path(format!("active/{}.check", command.id));
    symlink(&target, &check).unwrap();
    scene
        .exchange
        .submit(&command.id, &report("SUCCESS", "done"));
    wait_until("the link is seen", DEADLINE, || {
        let err = fs::read_to_string(&foreground.err).unwrap();
        err.contains("it is a symbolic link")
    });
    fs::remove_file(check).unwrap();
    let ran = foreground.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_untouched(&target, Instead::Link, "a check or a hook");
    assert!(scene.daemon_log().contains("hooks.log"));
}

#[test]
fn a_worker_writes_through_no_link() {
    for (kind, instead) in [
        ("logs/ID.out", Instead::Link),
        ("logs/ID.err", Instead::Second),
        ("active/ID.lock", Instead::Link),
        ("active/ID.lock", Instead::Dangling),
    ] {
        let mut scene = Scene::by_rules("");
        let daemon = scene.leave(&["run", "--plan", "one.md"]);
        let command = scene.exchange.await_command("the task", |_| true);
        let place = kind.replace("ID", &command.id);
        let target = lay(&scene, &scene.exchange.path(&place), instead);
        scene.env.set("PLAN_AGENT_LOG", "debug");
        let worker = scene.start(&["worker", "--agent", "command", "--", "echo", "written"]);
        wait_until("the file is seen", DEADLINE, || {
            let err = fs::read_to_string(&worker.err).unwrap();
            err.contains(&place) && err.contains("link")
        });
        assert_untouched(&target, instead, kind);
        drop((worker, daemon));
    }
}

#[test]
fn who_is_to_stop_is_told_so_whatever_lies_in_the_place_of_the_mark() {
    let scene = Scene::by_rules("");
    let foreground = scene.start(&["run", "--plan", "one.md"]);
    let command = scene.exchange.take("the task", |_| true);
    let mark = scene.exchange.path(format!("active/{}.cancel", command.id));
    let target = lay(&scene, &mark, Instead::Dangling);
    scene.works(&["abort", &plan_id(&scene)]);
    assert_eq!(foreground.end().code, Some(3));
    assert!(mark.symlink_metadata().unwrap().is_file());
    assert_untouched(&target, Instead::Dangling, "a mark");
}

fn plan_id(scene: &Scene) -> String {
    scene.status()["plan"]["id"].as_str().unwrap().to_owned()
}
