//! Events are only a wake-up, the scan of the folder is the truth: changes without an event are found nevertheless, and the log
//! says that events are impaired.

use super::*;

/// The file in which the kernel says how many unread events it keeps.
const QUEUE: &str = "/proc/sys/fs/inotify/max_queued_events";

/// Carries a plan out where the kernel grants at most `most` of a resource that events need.
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
    scene.env.run_under(&starter, &args).exits(0);
    let log = scene.daemon_log();
    let told = log.matches("not every folder can be watched").count();
    let watchers = if agent.is_empty() { 1 } else { 2 };
    assert_eq!(told, watchers, "once for each who watches: {log}");
}

#[test]
fn plan_runs_without_enough_inotify() {
    for (kind, most) in [
        ("max_inotify_instances", 0),
        ("max_inotify_watches", 0),
        ("max_inotify_watches", 3),
    ] {
        scarce(kind, most, &[]);
    }
}

#[test]
fn worker_finds_commands_without_inotify() {
    let script = "printf -- '---\nstatus: SUCCESS\n---\n\n## Core results\n\ndone\n' > \"$1\"";
    let agent = [
        "--agent", "command", "--", "sh", "-c", script, "sh", "{report}",
    ];
    scarce("max_inotify_instances", 0, &agent);
}

#[test]
fn report_is_found_after_event_overflow() {
    let Some(most) = fs::read_to_string(QUEUE)
        .ok()
        .and_then(|text| text.trim().parse::<usize>().ok())
    else {
        return skip(&format!("no `{QUEUE}`"));
    };
    let scene = Scene::by_rules("");
    let daemon = scene.leave("run --plan one.md");
    let command = scene.take_any();
    daemon.freeze();
    // Each rename is at least two events; the renames of one thread are sequential, so none is left out.
    let noise = scene.path("reports/pending/noise");
    let other = scene.path("reports/pending/other");
    fs::write(&noise, "").unwrap();
    for _ in 0..=most / 4 {
        fs::rename(&noise, &other).unwrap();
        fs::rename(&other, &noise).unwrap();
    }
    fs::remove_file(&noise).unwrap();
    scene.succeed(&command, "done");
    daemon.wake();
    scene.await_status("completed");
    assert_eq!(scene.status()["tasks"][0]["result"], "done");
    assert!(scene.events_named("timed_out").is_empty());
    has(scene.daemon_log(), "events were lost");
}

#[test]
fn removed_folder_and_commands_are_restored() {
    let scene = Scene::by_rules("run.max_parallel = 2");
    let _daemon = scene.leave("run --plan two.md");
    let left = scene.take_task(1);
    let right = scene.await_command("the other task", |command| command.task() == 2);
    for folder in ["reports", "commands/pending"] {
        fs::remove_dir_all(scene.path(folder)).unwrap();
    }
    let again = scene.take_task(2);
    assert_eq!((&again.id, &again.text), (&right.id, &right.text));
    wait_until("the folder for reports is there", || {
        scene.path("reports/pending").is_dir() && scene.path("reports/.tmp").is_dir()
    });
    for command in [left, right] {
        scene.succeed(&command, "done");
    }
    scene.await_status("completed");
    let log = scene.daemon_log();
    for folder in ["reports/pending", "commands/pending"] {
        let told = |line: &str| line.contains("made again") && line.contains(folder);
        assert!(log.lines().any(told), "{folder}: {log}");
    }
}

#[test]
fn removed_question_is_written_again() {
    let scene = Scene::by_rules("run.max_attempts = 1");
    let _daemon = scene.leave("run --plan one.md");
    let command = scene.take_any();
    scene.fail(&command, "not today");
    let asked = scene.await_questions(1);
    fs::remove_dir_all(scene.path("questions")).unwrap();
    assert_eq!(scene.await_questions(1), asked);
    scene.fill_in(&asked[0].0, "skip", "not needed");
    scene.await_status("completed");
}

#[test]
fn folder_recreated_by_others_is_scanned() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan chain.md");
    let folder = scene.path("reports/pending");
    for task in 1..=3 {
        let command = scene.take("the next task", |command| command.task() == task);
        let aside = scene.path(format!("aside-{task}"));
        fs::rename(&folder, &aside).unwrap();
        // The daemon may have created it before.
        drop(fs::create_dir(&folder));
        scene.succeed(&command, "done");
    }
    scene.await_status("completed");
    has(scene.daemon_log(), "watched again");
}
