//! Daemons under outside influence: pause, stop, abort, signals, kills, a second daemon.

use std::io::Write;
use std::thread;
use std::time::Duration;

use plan_agent::plan::{Draft, PlanId};

use super::*;
use crate::common::core::{block_on, open_store};
use crate::common::env::{lives, wait_at_most};

#[test]
fn pause_withdraws_unclaimed_command_until_resume() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan one.md");
    let first = scene.await_any();
    scene.works("pause");
    scene.await_name("commands/withdrawn", &format!("{}.md", first.id));
    scene.await_events("withdrawn", 1);
    assert_eq!(scene.status()["plan"]["status"], "paused");

    has(scene.works("resume"), "goes on");
    let again = scene.take_any();
    assert_ne!(again.id, first.id);
    scene.succeed(&again, "done");
    scene.await_status("completed");
}

#[test]
fn paused_plan_finishes_running_attempt() {
    let scene = Scene::by_rules("");
    let foreground = scene.start("run --plan chain.md --no-input");
    let first = scene.take_any();
    scene.await_events("claimed", 1);
    scene.works("pause");
    scene.succeed(&first, "done");
    foreground.end().exits(4);
    assert_eq!(scene.tasks(), ["completed", "pending", "pending"]);
    let agent = scene.agent(|_| Act::success("done"));
    scene.exits(0, "resume");
    assert_eq!(agent.attempts(), [(2, 1), (3, 1)]);
}

#[test]
fn abort_ends_plan_of_foreground_run() {
    let scene = Scene::by_rules("");
    let foreground = scene.start("run --plan chain.md --json");
    let first = scene.take_any();
    scene.await_events("claimed", 1);
    let plan = plan_id(&scene);
    scene.works(["abort", &plan]);
    let ran = foreground.end().exits(3);
    let last = lines(&ran.stdout).pop().unwrap();
    assert_eq!(picked(&last, "status exit"), json!(["aborted", 3]));
    scene.await_name("active", &format!("{}.cancel", first.id));
    scene.exits(3, "resume");
}

#[test]
fn detached_daemon_answers_commands_and_stops() {
    let scene = Scene::by_rules("");
    let daemon = scene.leave("run --plan chain.md");
    let first = scene.take_any();
    let status = scene.status();
    assert_eq!(status["daemon"]["pid"], daemon.pid.as_raw_pid());
    for args in ["plans", "show", "why 1", "log", "status"] {
        scene.works(args);
    }
    has(scene.works("stop"), "resume");
    let status = scene.status();
    assert_eq!(status["daemon"], Value::Null);
    assert_eq!(status["last_daemon"]["why"], "it was asked to stop");
    assert!(status["last_daemon"]["ended_at"].is_string(), "{status}");
    assert_eq!(status["plan"]["status"], "running");

    scene.succeed(&first, "while nobody looked");
    let agent = scene.agent(|_| Act::success("done"));
    scene.works("resume");
    // The first is not dispatched again.
    assert_eq!(agent.attempts(), [(2, 1), (3, 1)]);
    assert_eq!(scene.status()["tasks"][0]["result"], "while nobody looked");
}

#[test]
fn second_daemon_exits_and_names_first() {
    let scene = Scene::by_rules("");
    let daemon = scene.leave("run --plan one.md");
    let pid = format!("pid {}", daemon.pid.as_raw_pid());
    for args in [&["resume"][..], &["plan", "Do it"]] {
        let second = scene.run(args);
        if args[0] == "plan" {
            // There is no model here for planning.
            assert_eq!(second.code, Some(2), "{second:?}");
            continue;
        }
        assert_eq!(second.code, Some(5), "{second:?}");
        second.has_stderr(["Hint:", &pid]);
    }
    let plans: Value = scene.json("plans --json");
    // The second left no plan behind.
    assert_eq!(plans.as_array().unwrap().len(), 1);
}

#[test]
fn concurrent_starts_keep_every_plan_that_was_accepted() {
    let scene = Scene::by_rules("");
    let args = ["run", "--plan", "one.md", "--detach"];
    let accepted = thread::scope(|threads| {
        let starts: Vec<_> = (0..6).map(|_| threads.spawn(|| scene.run(args))).collect();
        let mut accepted = 0;
        for start in starts {
            let ran = start.join().unwrap();
            match ran.code {
                Some(0) => accepted += 1,
                // The daemon had the folder and did not say yet that it takes plans over.
                code => {
                    assert_eq!(code, Some(5), "{ran:?}");
                    ran.has_stderr(["(pid ", "Hint:"]);
                }
            }
        }
        accepted
    });
    let plans: Value = scene.json("plans --json");
    assert!(accepted > 0);
    assert_eq!(plans.as_array().unwrap().len(), accepted, "{plans}");
    scene.works("stop");
}

/// Ends the plan as `abort` does while its daemon dies: nothing is taken back.
fn aborted(scene: &Scene) {
    let plan = PlanId::new(plan_id(scene));
    block_on(async {
        let store = open_store(&scene.env).await;
        let abandon = |draft: &mut Draft<'_>| draft.abandon("on the command line");
        let aborted = store.change(&plan, "command line", "aborted", abandon);
        aborted.await.unwrap();
    });
}

/// A person ends a plan, and its daemon dies before it can take the commands back.
#[test]
fn next_daemon_takes_back_what_an_ended_plan_left() {
    let scene = Scene::by_rules("");
    let daemon = scene.leave("run --plan chain.md");
    let command = scene.await_any();
    kill(&scene, daemon);
    aborted(&scene);
    assert_eq!(scene.pending().len(), 1);
    let _next = scene.start_as("next", "daemon");
    wait_until("it is taken back", || scene.pending().is_empty());
    let withdrawn = scene.names("commands/withdrawn");
    assert_eq!(withdrawn, [format!("{}.md", command.id)]);
}

/// Who works by hand is asked to stop also where the daemon has other plans.
#[test]
fn abort_beside_a_daemon_of_other_plans_asks_who_works_by_hand() {
    let scene = Scene::by_rules("");
    let daemon = scene.leave("run --plan chain.md");
    let command = scene.take_any();
    scene.await_events("claimed", 1);
    kill(&scene, daemon);
    let next = scene.start_as("next", "daemon");
    wait_until("it runs", || scene.path("daemon.json").exists());
    scene.works(["abort", &plan_id(&scene)]);
    let mark = format!("{}.cancel", command.id);
    assert!(scene.names("active").contains(&mark));
    drop(next);
}

/// Makes a plan at whose first task an agent works whose daemon was killed. Returns the agent's process.
pub fn left_by_a_killed_daemon() -> (Scene, String) {
    let scene = Scene::by_rules("");
    let agent = "echo $$ > part && mv part pid && exec sleep 300";
    scene.write("agent.sh", agent);
    let agent = scene.env.path("agent.sh").display().to_string();
    let daemon = scene.leave(format!("run --plan chain.md --agent command -- sh {agent}"));
    let pid = scene.path("workspace/pid");
    wait_until("the agent works", || pid.exists());
    scene.await_events("claimed", 1);
    kill(&scene, daemon);
    let pid = fs::read_to_string(pid).unwrap();
    assert!(lives(pid.trim()));
    (scene, pid.trim().to_owned())
}

/// What a person is told is done at once, also where no daemon is there to do it.
#[test]
fn agent_ends_with_its_task_without_a_daemon() {
    for change in ["skip 1", "done 1"] {
        let (scene, pid) = left_by_a_killed_daemon();
        has(scene.works(change), "its agent is asked to stop");
        assert!(!lives(&pid), "{change}");
    }
}

/// The agent of a `resume` is slow to say its version: what is paused meanwhile stays paused.
#[test]
fn pause_while_a_daemon_begins_is_kept() {
    let mut scene = Scene::by_rules("");
    let daemon = scene.leave("run --plan chain.md");
    let first = scene.take_task(1);
    kill(&scene, daemon);
    let at = scene.env.path("").display().to_string();
    let wait = format!("touch {at}/asked; until [ -e {at}/go ]; do sleep 0.02; done");
    let claude = format!("{wait}; echo '2.1.330 (Claude Code)'");
    scene.env.show_script("claude", &claude);
    let resumed = scene.start("resume --no-input --agent claude");
    wait_until("it begins", || scene.env.path("asked").exists());
    scene.works("pause");
    scene.write("go", "");
    scene.succeed(&first, "done");
    resumed.end().exits(4);
    assert_eq!(scene.tasks(), ["completed", "pending", "pending"]);
    assert_eq!(scene.status()["plan"]["status"], "paused");
    let _next = scene.leave("resume --agent files");
    scene.take_task(2);
    // Who resumed it is in the log.
    assert_eq!(scene.events_named("resumed")[0]["by"], "command line");
}

/// Nor does the agent work on that its killed worker left.
#[test]
fn next_daemon_ends_the_agent_of_an_ended_plan() {
    let (scene, pid) = left_by_a_killed_daemon();
    aborted(&scene);
    assert!(lives(&pid));
    let _next = scene.start_as("next", "daemon");
    wait_until("the agent has ended", || !lives(&pid));
    let nothing = || scene.names("active").iter().all(|name| name == ".tmp");
    wait_until("nothing is left of it", nothing);
}

#[test]
fn resume_after_kill_repeats_nothing() {
    let scene = Scene::by_rules("");
    let daemon = scene.leave("run --plan chain.md");
    let first = scene.take_any();
    scene.succeed(&first, "done");
    let second = scene.await_command("the second task", |command| command.task() == 2);
    kill(&scene, daemon);

    let agent = scene.agent(|_| Act::success("done"));
    scene.works("resume");
    assert_eq!(agent.attempts(), [(2, 1), (3, 1)]);
    // The same id with the same text.
    assert_eq!(agent.seen()[0].text, second.text);
    assert_eq!(scene.events_named("judged").len(), 3);
}

#[test]
fn status_shows_how_last_daemon_ended() {
    let scene = Scene::by_rules("");
    let _first = scene.leave("run --plan chain.md");
    scene.works("stop");
    let status = scene.works("status");
    has(&status, "The last one ended ");
    has(&status, " s ago: it was asked to stop.");
    let next = scene.leave("resume");
    let status = scene.works("status");
    lacks(&status, "The last one");
    wait_until("it says that it is there", || {
        scene.env.path("volumes/daemon.json").exists()
    });
    assert_eq!(scene.status()["last_daemon"], Value::Null);
    let pid = next.pid.as_raw_pid();
    kill(&scene, next);
    let gone = &scene.status()["last_daemon"];
    assert_eq!(gone["pid"], pid);
    assert!(gone["started_at"].is_string(), "{gone}");
    has(scene.works("status"), "is gone without a word");
}

#[test]
fn ended_plan_misses_no_daemon() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan one.md");
    let command = scene.take_any();
    let (plan, mut note) = (plan_id(&scene), String::new());
    wait_until("the daemon says what it has", || {
        note = fs::read_to_string(scene.env.path("volumes/daemon.json")).unwrap_or_default();
        note.contains(&plan)
    });
    scene.succeed(&command, "done");
    scene.await_status("completed");
    scene.await_end();
    // As a disk that is full leaves it.
    scene.write("volumes/daemon.json", &note);
    assert_eq!(scene.status()["last_daemon"], Value::Null);
}

#[test]
fn leftover_check_ends_before_rerun() {
    // It names itself, also works in a process of its own, and ignores a request to end.
    let check = r#"trap "" TERM; echo $$ >> runs; until [ -e ../../go ]; do sleep 0.05; done"#;
    let scene = Scene::by_rules(&format!(
        "run.checks = ['slow']\nchecks.slow = {{ run = ['sh', '-c', '{check}'] }}"
    ));
    let runs = || -> Vec<String> {
        let text = fs::read_to_string(scene.path("workspace/runs")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    };
    let _agent = scene.agent(|_| Act::success("done"));
    let daemon = scene.leave("run --plan one.md");
    wait_until("the check runs", || runs().len() == 1);
    kill(&scene, daemon);
    assert!(lives(&runs()[0]), "the check survives its daemon");

    let _daemon = scene.leave("resume");
    wait_until("the check runs again", || runs().len() == 2);
    assert!(!lives(&runs()[0]), "two checks at once");
    scene.write("go", "");
    scene.await_status("completed");
    assert_eq!(runs().len(), 2);
    assert_eq!(scene.names("active"), [".tmp"]);
}

#[test]
fn unfiled_stale_report_is_filed_after_kill() {
    let scene = Scene::by_rules("run.task_timeout = '300ms'");
    let daemon = scene.leave("run --plan two.md");
    let first = scene.take_any();
    let second = scene.await_attempt(2);
    scene.succeed(&second, "in time");
    scene.await_events("completed", 1);
    // While a file is in the place of the folder, nothing can be archived there.
    let folder = scene.path("reports/stale");
    wait_until("the folder is away", || {
        fs::remove_dir(&folder).is_ok() && fs::write(&folder, "").is_ok()
    });
    scene.fail(&first, "late");
    scene.await_events("stale", 1);
    kill(&scene, daemon);
    fs::remove_file(folder).unwrap();

    let _daemon = scene.leave("resume");
    let name = format!("report-{}.md", first.id);
    wait_until("the report is filed", || {
        !scene.path("reports/pending").join(&name).exists()
    });
    assert_eq!(scene.names("reports/stale"), [name]);
    assert_eq!(scene.events_named("stale").len(), 1);
}

#[test]
fn unfiled_unreadable_report_counts_once_after_kill() {
    let scene = Scene::by_rules("");
    let daemon = scene.leave("run --plan one.md");
    let first = scene.take_any();
    let folder = scene.path("reports/rejected");
    fs::remove_dir(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    scene.submit(&first.id, "no front matter");
    let repair = scene.take_any();
    kill(&scene, daemon);
    fs::remove_file(folder).unwrap();

    let _daemon = scene.leave("resume");
    let name = format!("report-{}.md", first.id);
    scene.await_name("reports/rejected", &name);
    scene.succeed(&repair, "done");
    scene.await_status("completed");
    assert_eq!(scene.events_named("rejected").len(), 1);
}

#[test]
fn run_names_unread_files_at_end() {
    let scene = Scene::by_rules("");
    let foreground = scene.start("run --plan one.md");
    let only = scene.take_any();
    scene.drop_report("notes.txt", b"not a report");
    scene.succeed(&only, "done");
    let ran = foreground.end().exits(0);
    let expected = "! unread files are left in `[FOLDER]/volumes/reports/pending`: notes.txt\n";
    assert_eq!(scene.env.normal(&ran.stderr), expected);
}

#[test]
fn signals_end_run_resumably() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 143)] {
        let scene = Scene::by_rules("");
        let foreground = scene.start("run --plan chain.md");
        let first = scene.take_any();
        foreground.signal(signal);
        foreground.end().exits(code).has_stdout("plan-agent resume");
        scene.succeed(&first, "done");
        let _agent = scene.agent(|_| Act::success("done"));
        scene.exits(0, "resume");
    }
}

#[test]
fn signal_before_plan_leaves_nothing() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 143)] {
        let scene = Scene::by_rules("");
        let pipe = scene.pipe("pipe.md");
        let foreground = scene.start("run --plan pipe.md");
        // The open returns when the program reads the pipe; the program waits then.
        let _written = File::options().write(true).open(pipe).unwrap();
        foreground.signal(signal);
        let ran = foreground.end().exits(code);
        assert_eq!(ran.stderr, "stopped; no plan was made\n");
        assert!(!scene.env.path("volumes").exists());
    }
}

#[test]
fn signal_before_plan_lookup_shows_resume_hint() {
    let scene = Scene::by_rules("");
    let pipe = scene.pipe("pipe.toml");
    let foreground = scene.start("resume abc --agent shell --config pipe.toml");
    let _written = File::options().write(true).open(pipe).unwrap();
    foreground.signal(Signal::TERM);
    let ran = foreground.end().exits(143);
    insta::assert_snapshot!(ran.stderr, @"stopped; `plan-agent --config pipe.toml resume abc` goes on where it was");
}

#[test]
fn signal_before_daemon_start_keeps_plan() {
    let scene = Scene::by_rules("");
    let pipe = scene.pipe("pipe.toml");
    let open = || File::options().write(true).open(&pipe).unwrap();
    let foreground = scene.start("run --plan one.md --detach --config pipe.toml");
    writeln!(open(), "llm.provider = 'none'").unwrap();
    wait_until("the plan is made", || scene.run("status").code == Some(0));
    // The daemon also reads the configuration, and waits there.
    let _written = open();
    foreground.signal(Signal::TERM);
    let ran = foreground.end().exits(143);
    let hint = "`plan-agent --config pipe.toml resume ";
    ran.has_stderr(hint);
    assert_eq!(scene.status()["daemon"], Value::Null);
    let _agent = scene.agent(|_| Act::success("done"));
    scene.exits(0, "resume");
}

#[test]
fn signal_during_llm_call_loses_nothing() {
    let server = LlmServer::start(|asked| match asked.kind.as_str() {
        "plan" if asked.nth == 0 => Answer::Hang,
        "plan" => planned(&[("First", &[])]),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Messages, "");
    let foreground = scene.start("run 'Do it' --json");
    assert!(server.is_asked());
    foreground.signal(Signal::TERM);
    let ran = foreground.end().exits(143);
    assert_eq!(lines(&ran.stdout).last().unwrap()["exit"], 143);
    assert!(server.client_left());
    let _agent = scene.agent(|_| Act::success("done"));
    scene.exits(0, "resume");
    assert_eq!(scene.status()["plan"]["goal"], "Do it");
}

#[test]
fn exchange_folder_may_be_recreated() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan chain.md");
    let first = scene.take_any();
    for folder in ["reports", "commands", "questions", "active"] {
        // Moved first: the daemon may create it again before the last file in it is gone.
        let gone = scene.env.path(format!("gone-{folder}"));
        fs::rename(scene.path(folder), &gone).unwrap();
        fs::remove_dir_all(gone).unwrap();
    }
    wait_until("the folders are there again", || {
        [
            "reports/pending",
            "commands/pending",
            "commands/processed",
            "active",
        ]
        .iter()
        .all(|folder| scene.path(folder).is_dir())
    });
    scene.succeed(&first, "done all the same");
    // Its command was put back into `commands/pending`, because its claim was lost: a second agent would report on it, too.
    scene.await_events("completed", 1);
    let _agent = scene.agent(|_| Act::success("done"));
    scene.await_status("completed");
    assert_eq!(scene.status()["tasks"][0]["result"], "done all the same");
}

#[test]
fn next_daemon_reissues_lost_command_under_same_id() {
    let scene = Scene::by_rules("");
    let daemon = scene.leave("run --plan one.md");
    let first = scene.await_any();
    kill(&scene, daemon);
    fs::remove_file(
        scene
            .path("commands/pending")
            .join(format!("{}.md", first.id)),
    )
    .unwrap();
    let agent = scene.agent(|_| Act::success("done"));
    scene.works("resume");
    assert_eq!(agent.seen()[0].text, first.text);
}

#[test]
fn two_tasks_run_in_parallel() {
    let scene = Scene::by_rules("run.max_parallel = 2");
    let foreground = scene.start("run --plan two.md");
    wait_until("both commands are there", || scene.pending().len() == 2);
    for command in scene.pending().iter().rev() {
        scene.succeed(command, "done");
    }
    foreground.end().exits(0);
}

#[test]
fn start_waits_for_lock_of_killed_daemon() {
    let scene = Scene::by_rules("");
    drop(scene.leave("run --plan one.md"));
    scene.await_end();
    // The lock file still names the killed daemon.
    let lock = File::open(scene.path("daemon.lock")).unwrap();
    lock.lock().unwrap();
    let _agent = scene.agent(|_| Act::success("done"));
    let mut foreground = scene.start("resume");
    let pid = Pid::from_child(&foreground.running.child);
    wait_until("it tries again and again", || {
        let ended = foreground.running.child.try_wait().unwrap().is_some();
        // Each try ends with a pause.
        ended || pauses(pid, "plan-agent").max(pauses(pid, "tokio-rt-worker")) >= 40
    });
    drop(lock);
    foreground.end().exits(0);
}

/// Returns how often the threads of a process with a name have paused.
fn pauses(pid: Pid, name: &str) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", pid.as_raw_pid()));
    let statuses = tasks.into_iter().flatten().flatten().filter_map(|task| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let field = |name: &str| Some(status.split_once(name)?.1.lines().next()?.trim().to_owned());
        (field("Name:")? == name).then(|| field("\nvoluntary_ctxt_switches:"))?
    });
    let counts = statuses.filter_map(|count| count.parse::<u64>().ok());
    counts.max().unwrap_or(0)
}

#[test]
fn daemon_whose_plans_are_gone_names_the_branch_of_the_results() {
    let scene = Scene::by_rules("");
    let run = scene.start("run --plan chain.md");
    scene.take_any();
    let branch = format!("`git merge plan-agent/{}`", plan_id(&scene));
    fs::remove_dir_all(scene.path("")).unwrap();
    run.end()
        .exits(5)
        .has_stderr(["was removed or replaced", &branch]);
}

#[test]
fn daemon_that_lost_lock_exits() {
    for replaced in [false, true] {
        let scene = Scene::by_rules("");
        let lock = scene.path("daemon.lock");
        let first = scene.start("run --plan chain.md");
        let command = scene.take_any();
        match replaced {
            true => {
                scene.write("other.lock", "");
                fs::rename(scene.env.path("other.lock"), &lock).unwrap();
            }
            false => fs::remove_file(&lock).unwrap(),
        }
        let mut second = scene.env.start("resume");
        let note = || {
            let text = fs::read_to_string(scene.path("daemon.json")).ok()?;
            serde_json::from_str::<Value>(&text).ok()?["pid"].as_u64()
        };
        let noted = Some(u64::from(second.child.id()));
        wait_until("the second has the folder", || note() == noted);
        let ran = first.end().exits(5);
        ran.has_stderr(["daemon.lock` was removed or replaced", "Hint:"]);
        assert_eq!(note(), noted, "its note stays");
        scene.succeed(&command, "done");
        let _agent = scene.agent(|_| Act::success("done"));
        assert_eq!(second.wait().code(), Some(0));
        assert_eq!(scene.events_named("judged").len(), 3);
    }
}

#[test]
fn signal_ends_run_while_store_is_busy() {
    for (args, code) in [
        ("run --plan chain.md", Some(143)),
        ("run --plan chain.md --json", Some(143)),
        ("run --plan chain.md --detach", None),
    ] {
        let scene = Scene::by_rules("");
        let mut foreground = scene.start(args);
        let command = scene.take_any();
        let pid = || scene.status()["daemon"]["pid"].as_i64();
        wait_until("it says that it is there", || pid().is_some());
        let pid = pid().unwrap();
        let busy = rusqlite::Connection::open(scene.path("plan-agent.db")).unwrap();
        busy.execute_batch("BEGIN IMMEDIATE").unwrap();
        scene.succeed(&command, "done");
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        let before = pauses(pid, "store");
        wait_until("the store waits", || pauses(pid, "store") >= before + 100);
        kill_process(pid, Signal::TERM).unwrap();
        // The store itself fails after half a minute.
        wait_at_most(Duration::from_secs(20), "it ends", || {
            !lives(&pid.as_raw_pid().to_string())
        });
        if let Some(code) = code {
            assert_eq!(foreground.running.wait().code(), Some(code));
        }
        busy.execute_batch("ROLLBACK").unwrap();
        drop(foreground);
        let _agent = scene.agent(|_| Act::success("done"));
        scene.exits(0, "resume");
        assert_eq!(scene.events_named("judged").len(), 3);
    }
}

#[test]
fn abort_without_a_name_asks_about_the_only_unfinished_plan() {
    let scene = Scene::by_rules("");
    let first = scene.leave("run --plan one.md");
    kill(&scene, first);
    let second = scene.leave("run --plan two.md");
    kill(&scene, second);
    scene.refuses(2, "abort", ["which plan is meant?", "  One\n", "  Two\n"]);
    scene.works(["abort", &plan_id(&scene)]);
    let left = scene.status()["plan"]["id"].clone();
    let ends = format!("`plan-agent abort {}` ends plan", left.as_str().unwrap());
    scene.refuses(2, "abort", ["which plan is to end for good?", &ends]);
    for (answer, code) in [("n", 1), ("y", 0)] {
        let (mut running, mut terminal) = scene.env.start_on_terminal("abort");
        terminal.answer("for good? [y/N]", answer);
        assert_eq!(running.wait().code(), Some(code));
    }
    scene.refuses(2, "abort", "no plan here is unfinished");
}
