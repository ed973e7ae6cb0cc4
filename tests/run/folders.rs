//! Events are only a wake-up, the folder listing is the truth: what happens while nobody hears of it is found all the same,
//! and the log says that hearing is impaired.

use super::*;
use crate::common::agent::report;

/// Where the kernel says how many events it keeps for one who does not read them.
const QUEUE: &str = "/proc/sys/fs/inotify/max_queued_events";

/// Carries a plan out where the kernel gives out no more than so many of a kind of thing that events need.
fn scarce(kind: &str, most: u32, agent: &[&str]) {
    let limit = format!("echo {most} > /proc/sys/user/{kind}");
    // A user namespace of its own has limits of its own; those of the machine stay as they are.
    let tried = std::process::Command::new("unshare")
        .args(["-Ur", "sh", "-c", &limit])
        .output();
    match tried {
        Ok(tried) if tried.status.success() => {}
        Ok(tried) => {
            let why = String::from_utf8_lossy(&tried.stderr);
            return skip(&format!("no user namespace: {}", why.trim()));
        }
        Err(error) => return skip(&format!("no `unshare`: {error}")),
    }
    let scene = Scene::by_rules("");
    let _agent = agent
        .is_empty()
        .then(|| scene.agent(|_| Act::success("done")));
    let script = format!("{limit} && exec \"$@\"");
    let starter = ["unshare", "-Ur", "sh", "-c", &script, "sh"];
    let args = [&["run", "--plan", "one.md"], agent].concat();
    let ran = scene.env.run_under(&starter, &args);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let log = scene.daemon_log();
    let told = log.matches("not every folder can be watched").count();
    let watchers = if agent.is_empty() { 1 } else { 2 };
    assert_eq!(told, watchers, "once for each who watches: {log}");
}

#[test]
fn without_a_way_to_hear_events_a_plan_is_carried_out() {
    scarce("max_inotify_instances", 0, &[]);
}

#[test]
fn without_any_watch_a_plan_is_carried_out() {
    scarce("max_inotify_watches", 0, &[]);
}

#[test]
fn with_watches_for_some_folders_only_a_plan_is_carried_out() {
    scarce("max_inotify_watches", 3, &[]);
}

#[test]
fn without_any_watch_a_worker_finds_its_commands() {
    let script = "printf -- '---\nstatus: SUCCESS\n---\n\n## Core results\n\ndone\n' > \"$1\"";
    let agent = [
        "--agent", "command", "--", "sh", "-c", script, "sh", "{report}",
    ];
    scarce("max_inotify_instances", 0, &agent);
}

#[test]
fn a_report_whose_event_is_lost_in_an_overflow_is_found() {
    let Some(most) = fs::read_to_string(QUEUE)
        .ok()
        .and_then(|text| text.trim().parse::<usize>().ok())
    else {
        return skip(&format!("no `{QUEUE}`"));
    };
    let scene = Scene::by_rules("");
    let daemon = scene.leave(&["run", "--plan", "one.md"]);
    let command = scene.exchange.take("the command", |_| true);
    daemon.freeze();
    // Each rename is two events at least; those of one thread come one after the other, so none is left out.
    let noise = scene.exchange.path("reports/pending/noise");
    let other = scene.exchange.path("reports/pending/other");
    fs::write(&noise, "").unwrap();
    for _ in 0..=most / 4 {
        fs::rename(&noise, &other).unwrap();
        fs::rename(&other, &noise).unwrap();
    }
    fs::remove_file(&noise).unwrap();
    scene
        .exchange
        .submit(&command.id, &report("SUCCESS", "done"));
    daemon.wake();
    scene.await_status("completed");
    assert_eq!(scene.status()["tasks"][0]["result"], "done");
    assert_eq!(scene.events_named("timed_out"), [] as [Value; 0]);
    let log = scene.daemon_log();
    assert!(log.contains("events were lost"), "{log}");
}

#[test]
fn a_folder_that_is_removed_is_made_again_and_what_was_in_it_too() {
    let scene = Scene::by_rules("run.max_parallel = 2");
    let _daemon = scene.leave(&["run", "--plan", "two.md"]);
    let left = scene.exchange.take("a task", |command| command.task() == 1);
    let right = scene
        .exchange
        .await_command("the other task", |command| command.task() == 2);
    for folder in ["reports", "commands/pending"] {
        fs::remove_dir_all(scene.exchange.path(folder)).unwrap();
    }
    let again = scene
        .exchange
        .take("the other task once more", |command| command.task() == 2);
    assert_eq!((&again.id, &again.text), (&right.id, &right.text));
    wait_until("the folder for reports is there", DEADLINE, || {
        scene.exchange.path("reports/pending").is_dir()
            && scene.exchange.path("reports/.tmp").is_dir()
    });
    for command in [left, right] {
        scene
            .exchange
            .submit(&command.id, &report("SUCCESS", "done"));
    }
    scene.await_status("completed");
    let log = scene.daemon_log();
    for folder in ["reports/pending", "commands/pending"] {
        let told = |line: &str| line.contains("made again") && line.contains(folder);
        assert!(log.lines().any(told), "{folder}: {log}");
    }
}

#[test]
fn a_question_that_went_with_its_folder_is_asked_again() {
    let scene = Scene::by_rules("run.max_attempts = 1");
    let _daemon = scene.leave(&["run", "--plan", "one.md"]);
    let command = scene.exchange.take("the command", |_| true);
    scene
        .exchange
        .submit(&command.id, &report("FAILED", "not today"));
    let asked = scene.exchange.await_questions(1);
    fs::remove_dir_all(scene.exchange.path("questions")).unwrap();
    assert_eq!(scene.exchange.await_questions(1), asked);
    scene.exchange.fill_in(&asked[0].0, "skip", "not needed");
    scene.await_status("completed");
}

#[test]
fn a_folder_that_somebody_else_makes_again_is_looked_into() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave(&["run", "--plan", "chain.md"]);
    let folder = scene.exchange.path("reports/pending");
    for task in 1..=3 {
        let command = scene
            .exchange
            .take("the next task", |command| command.task() == task);
        let aside = scene.exchange.path(format!("aside-{task}"));
        fs::rename(&folder, &aside).unwrap();
        // The daemon may have been faster.
        drop(fs::create_dir(&folder));
        scene
            .exchange
            .submit(&command.id, &report("SUCCESS", "done"));
    }
    scene.await_status("completed");
    let log = scene.daemon_log();
    assert!(log.contains("watched again"), "{log}");
}
