//! Several plans in one daemon: handed over, queued, followed, shared lanes, and what a kill leaves.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::team::TEAM;
use super::*;
use crate::common::env::{lives, times, wait_at_most};
use crate::common::git::Project;
use crate::common::mcp::Mcp;
use crate::crash::stage::Chance;

impl Scene {
    /// Starts the program in the foreground, beside others.
    pub(super) fn start_as(&self, name: &str, args: impl Args) -> Foreground {
        let [out, err] = ["out", "err"].map(|end| self.env.path(format!("{name}.{end}")));
        let [to_out, to_err] = [&out, &err].map(|file| File::create(file).unwrap());
        let running = self.env.spawn(args, to_out, to_err);
        Foreground { running, out, err }
    }

    /// Makes the folders that plans work in.
    pub(super) fn with_folders(self) -> Self {
        for folder in ["a", "b", "c"] {
            fs::create_dir_all(self.env.path(folder)).unwrap();
        }
        self
    }

    /// Returns the name of the plan that a command is of.
    fn name_of(&self, command: &Command) -> String {
        let plans: Value = self.json("plans --json");
        let mut plans = plans.as_array().unwrap().iter();
        let plan = plans.find(|plan| plan["id"] == plan_of(command));
        plan.unwrap()["name"].as_str().unwrap().to_owned()
    }

    fn states(&self) -> Vec<String> {
        let plans: Value = self.json("plans --json");
        let plans = plans.as_array().unwrap().iter();
        plans
            .map(|plan| plan["status"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(super) fn await_states(&self, states: &[&str]) {
        wait_until("the plans are so far", || self.states() == states);
    }

    fn await_daemon(&self) {
        wait_until("a daemon works", || {
            let status = self.json::<Value>("plans --json");
            status.is_array() && self.env.path("volumes/daemon.lock").exists()
        });
    }

    /// Waits until a foreground has printed something on its standard error.
    pub(super) fn await_said(&self, name: &str, said: &str) {
        self.await_text(&format!("{name}.err"), said);
    }

    fn await_text(&self, file: &str, text: &str) {
        wait_until(text, || self.env.read(file).contains(text));
    }
}

impl Foreground {
    pub(super) fn kill(self) {
        self.signal(Signal::KILL);
        self.end();
    }
}

pub(super) fn plan_of(command: &Command) -> &str {
    command.field("plan").unwrap()
}

/// Whichever has the folder first carries out what the others hand over, also before it has said anything.
#[test]
fn runs_in_one_moment_are_all_carried_out() {
    let scene = Scene::by_rules("").with_folders();
    let _agent = scene.agent(|_| Act::success("done"));
    let names = ["first", "second", "third", "fourth"];
    let runs = names.map(|name| scene.start_as(name, "run --plan one.md --agent files"));
    for run in runs {
        run.end().exits(0);
    }
    assert_eq!(scene.states(), ["completed"; 4]);
}

#[test]
fn run_beside_daemon_is_handed_over_and_followed() {
    let scene = Scene::by_rules("").with_folders();
    let host = scene.start_as("host", "run --plan one.md --workspace a");
    let first = scene.take_any();
    let guest = scene.start_as("guest", "run --plan two.md --workspace b");
    let second = scene.take_any();
    assert_ne!(plan_of(&first), plan_of(&second));
    let carried: Value = scene.json("status --json");
    let pid = host.running.child.id();
    assert_eq!(carried["daemon"]["pid"], pid, "{carried}");
    scene.succeed(&second, "done");
    let third = scene.take_any();
    scene.succeed(&third, "done");
    let ended = guest.end().exits(0);
    ended.has_stdout(["dispatched", "completed"]);
    scene.succeed(&first, "done");
    host.end().exits(0).has_stdout("completed");
    assert_eq!(scene.states(), ["completed", "completed"]);
}

#[test]
fn agent_of_another_plan_stays_at_work_when_the_foreground_ends() {
    for interrupted in [false, true] {
        let mut scene = Scene::by_rules("").with_folders();
        let at = scene.env.path("").display().to_string();
        let script = r#"
report=$1; cat > /dev/null
echo begun >> @AT@/begun
until [ -e @AT@/go ]; do sleep 0.02; done
printf -- '---\nstatus: SUCCESS\n---\n\ndone\n' > "$report.tmp"; mv "$report.tmp" "$report""#;
        scene
            .env
            .show_script("my-agent", &script.replace("@AT@", &at));
        let host = scene.start_as("host", "run --plan one.md --workspace a");
        let first = scene.take_any();
        let of_agent = "--agent command -- my-agent {report}";
        let plan = format!("run --plan one.md --workspace b --no-input {of_agent}");
        let guest = scene.start_as("guest", &*plan);
        wait_until("the agent works", || scene.env.path("begun").exists());
        let host = match interrupted {
            true => host.interrupted(),
            false => {
                scene.succeed(&first, "done");
                host.end().exits(0)
            }
        };
        host.has_stderr("other plans go on in the background");
        scene.env.write("go", "");
        guest.end().exits(0);
        assert_eq!(scene.env.read("begun"), "begun\n");
    }
}

#[test]
fn agent_of_a_paused_plan_goes_on_when_the_foreground_ends() {
    let mut scene = Scene::by_rules("").with_folders();
    let at = scene.env.path("").display().to_string();
    let report = "printf -- '---\\nstatus: SUCCESS\\n---\\n\\ndone\\n' > $1.tmp; mv $1.tmp $1";
    let script = format!("{LINGERS}; {report}").replace("@AT@", &at);
    scene.env.show_script("my-agent", &script);
    let host = scene.start_as("host", "run --plan one.md --workspace a");
    let first = scene.take_any();
    let of_agent = "--agent command -- my-agent {report}";
    let plan = format!("run --plan one.md --workspace b --no-input {of_agent}");
    let guest = scene.start_as("guest", &*plan);
    let pid = scene.env.path("pid");
    wait_until("the agent works", || {
        fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n'))
    });
    let paused = plan_id(&scene);
    assert_ne!(paused, plan_of(&first));
    scene.works(["pause", &paused]);
    scene.succeed(&first, "done");
    host.end().exits(0).has_stderr("go on in the background");
    assert!(lives(scene.env.read("pid").trim()));
    scene.env.write("go", "");
    wait_until("its result is judged", || {
        let status: Value = scene.json(["status", &paused, "--json"]);
        status["tasks"][0]["status"] == "completed"
    });
    drop(guest);
}

#[test]
fn plans_in_one_folder_go_one_after_the_other() {
    let scene = Scene::by_rules("");
    let host = scene.start_as("host", "run --plan one.md");
    let first = scene.take_any();
    let guest = scene.start_as("guest", "run --plan one.md");
    scene.await_said("guest", "which works in the same folder");
    let waits = "waits for plan";
    let queued = plan_id(&scene);
    let status = scene.works(["status", &queued]);
    has(status, format!("not started: {waits}"));
    has(scene.works("plans"), format!(" · {waits}"));
    assert_eq!(scene.pending().len(), 0);
    scene.succeed(&first, "done");
    let second = scene.take_any();
    assert_ne!(plan_of(&first), plan_of(&second));
    host.end()
        .exits(0)
        .has_stderr("other plans go on in the background");
    scene.succeed(&second, "done");
    guest.end().exits(0).has_stdout("completed");
    scene.await_end();
}

#[test]
fn guest_of_killed_daemon_carries_its_plan_out_itself() {
    let scene = Scene::by_rules("run.max_plans = 1\n").with_folders();
    let host = scene.start_as("host", "run --plan one.md --workspace a");
    let first = scene.take_any();
    let guest = scene.start_as("guest", "run --plan one.md --workspace b");
    scene.await_said("guest", "is queued: it waits");
    host.kill();
    let second = scene.take_any();
    assert_ne!(plan_of(&first), plan_of(&second));
    scene.succeed(&second, "done");
    guest.end().exits(0).has_stdout("completed");
    assert_eq!(scene.states(), ["completed", "running"]);
}

#[test]
fn guest_begins_nothing_where_a_killed_daemon_left_a_plan_half_done() {
    let scene = Scene::by_rules("");
    let host = scene.start_as("host", "run --plan one.md");
    let first = scene.take_any();
    let guest = scene.start_as("guest", "run --plan one.md");
    scene.await_said("guest", "which works in the same folder");
    host.kill();
    let resume = format!("resume {}", plan_of(&first));
    let half_done = "is half done, and its daemon is gone";
    guest.end().exits(5).has_stderr([half_done, &resume]);
    assert_eq!(scene.pending().len(), 0);
    let again = scene.start_as("again", &*resume);
    scene.succeed(&first, "done");
    let second = scene.take_any();
    scene.succeed(&second, "done");
    again.end().exits(0);
    scene.await_states(&["completed", "completed"]);
    scene.await_end();
}

#[test]
fn guest_of_killed_daemon_goes_on_with_its_begun_plan() {
    let scene = Scene::by_rules("");
    let daemon = scene.start_as("daemon", "daemon");
    scene.await_daemon();
    let guest = scene.start_as("guest", "run --plan two.md");
    let first = scene.take_any();
    scene.await_text("guest.out", "dispatched");
    daemon.kill();
    scene.await_said("guest", "is gone");
    scene.succeed(&first, "done");
    let second = scene.take_any();
    assert_eq!(plan_of(&first), plan_of(&second));
    scene.succeed(&second, "done");
    guest.end().exits(0).has_stdout("completed");
}

/// What a dead daemon has said of a queued plan need not be so any more.
#[test]
fn queued_plan_waits_for_a_daemon_where_none_is() {
    let scene = Scene::by_rules("").with_folders();
    let daemon = scene.start_as("daemon", "daemon");
    scene.await_daemon();
    scene.works("run --queue --plan one.md --workspace a --name first");
    let first = plan_of(&scene.take_any()).to_owned();
    scene.works(format!(
        "run --queue --plan one.md --workspace b --name second --after {first}"
    ));
    let second = plan_id(&scene);
    let status = || scene.works(["status", &second]);
    wait_until("it waits", || {
        status().contains("not started: waits for plan")
    });
    drop(daemon);
    scene.works(["abort", &first]);
    let begins =
        format!("`plan-agent daemon` begins what is queued, `plan-agent resume {second}` this");
    has(status(), ["not started: waits for a daemon", &begins]);
}

#[test]
fn queued_plan_keeps_its_turn_when_it_is_resumed() {
    let scene = Scene::by_rules("").with_folders();
    let _daemon = scene.start_as("daemon", "daemon");
    scene.await_daemon();
    scene.works("run --queue --plan one.md --workspace a --name first");
    let first = scene.take_any();
    let after = format!("--after {} --priority 3", plan_of(&first));
    scene.works(format!(
        "run --queue --plan one.md --workspace b --name second {after}"
    ));
    let second = plan_id(&scene);
    let waits = format!("it waits for plan {} to end", plan_of(&first));
    wait_until("it waits", || {
        scene.works(["why", &second, "1"]).contains(&waits)
    });
    scene.works(["resume", &second, "--detach"]);
    has(scene.works("plans"), "priority 3");
    wait_until("it waits again", || {
        scene.works(["why", &second, "1"]).contains(&waits)
    });
    // Who names no plan means the one that has begun.
    has(scene.works("status"), "first");
    scene.succeed(&first, "done");
    let command = scene.take_any();
    assert_eq!(plan_of(&command), second);
    scene.succeed(&command, "done");
    scene.await_states(&["completed", "completed"]);
}

/// A link to a folder is the same folder.
#[test]
fn plans_that_share_a_folder_by_a_link_go_one_after_the_other() {
    let scene = Scene::by_rules("").with_folders();
    std::os::unix::fs::symlink(scene.env.path("a"), scene.env.path("link")).unwrap();
    let _daemon = scene.start_as("daemon", "daemon");
    scene.await_daemon();
    scene.works("run --queue --plan one.md --workspace link");
    let first = scene.take_any();
    scene.works("run --queue --plan one.md --workspace a");
    wait_until("the second one waits", || {
        scene
            .works("plans")
            .contains("which works in the same folder")
    });
    assert_eq!(scene.pending().len(), 0);
    scene.succeed(&first, "done");
    scene.succeed(&scene.take_any(), "done");
    scene.await_states(&["completed", "completed"]);
}

/// Lanes are shared by what the plans want: a task that is to be tried again wants one as a new one does.
#[test]
fn answered_task_gets_a_lane_beside_a_plan_that_asks() {
    let scene = Scene::by_rules("run.max_parallel = 3\n").with_folders();
    let _daemon = scene.start_as("daemon", "daemon");
    scene.await_daemon();
    let asks = "---\nstatus: FAILED\nquestion: Which port?\n---\n\nNothing yet.\n";
    for folder in ["a", "b"] {
        scene.works(format!("run --queue --plan one.md --workspace {folder}"));
        let command = scene.take_any();
        scene.submit(&command.id, asks);
    }
    let questions = || scene.json::<Value>("questions --json");
    wait_until("both ask", || questions().as_array().unwrap().len() == 2);
    let id = questions()[0]["question"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    scene.works(["answer", &id, "reply", "--note", "8080"]);
    let again = scene.take_any();
    has(again.body(), "8080");
    scene.succeed(&again, "done");
}

#[test]
fn queued_plan_that_was_paused_is_resumed() {
    let scene = Scene::by_rules("").with_folders();
    let _daemon = scene.start_as("daemon", "daemon");
    scene.await_daemon();
    scene.works("run --queue --plan one.md --workspace a");
    let first = scene.take_any();
    let after = format!("--after {}", plan_of(&first));
    scene.works(format!("run --queue --plan one.md --workspace b {after}"));
    let second = plan_id(&scene);
    scene.works(["pause", &second]);
    scene.succeed(&first, "done");
    scene.await_states(&["paused", "completed"]);
    scene.works(["resume", &second, "--detach"]);
    let command = scene.take_any();
    assert_eq!(plan_of(&command), second);
    scene.succeed(&command, "done");
    scene.await_states(&["completed", "completed"]);
}

#[test]
fn what_was_under_way_in_a_paused_plan_is_judged_by_the_next_daemon() {
    let scene = Scene::by_rules("").with_folders();
    let daemon = scene.start_as("daemon", "daemon");
    scene.await_daemon();
    scene.works("run --queue --plan chain.md --workspace a");
    let first = scene.take_any();
    scene.await_events("claimed", 1);
    scene.works(["pause", plan_of(&first)]);
    daemon.kill();
    let _next = scene.start_as("next", "daemon");
    scene.succeed(&first, "done");
    wait_until("it is judged", || scene.tasks()[0] == "completed");
    assert_eq!(scene.states(), ["paused"]);
    assert_eq!(scene.pending().len(), 0);
    scene.works(["resume", plan_of(&first), "--detach"]);
    let second = scene.take_any();
    assert_eq!(plan_of(&second), plan_of(&first));
}

/// Its process id is in `pid`; it ends once there is a file `go`.
const LINGERS: &str =
    "cat > /dev/null; echo $$ > @AT@/pid; until [ -e @AT@/go ]; do sleep 0.02; done";

/// Returns the process of an agent that a killed daemon left at work, and its plan.
fn left_by_killed_daemon(scene: &mut Scene) -> (String, String) {
    let at = scene.env.path("").display().to_string();
    let script = LINGERS.replace("@AT@", &at);
    scene.env.show_script("my-agent", &script);
    let host = scene.start_as(
        "host",
        "run --plan one.md --agent command -- my-agent {report}",
    );
    let pid = scene.env.path("pid");
    wait_until("the agent works", || {
        fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n'))
    });
    host.kill();
    let process = scene.env.read("pid").trim().to_owned();
    (process, plan_id(scene))
}

#[test]
fn nothing_begins_beside_an_agent_that_a_killed_daemon_left() {
    let mut scene = Scene::by_rules("");
    let (process, left) = left_by_killed_daemon(&mut scene);
    let ran = scene.run("run --plan one.md --no-input").exits(5);
    ran.has_stderr([
        &format!("still works in the same folder, on plan {left}, and its daemon is gone"),
        &format!("resume {left}` goes on with it"),
    ]);
    assert_eq!(scene.pending().len(), 0);
    scene.works(["abort", &plan_id(&scene)]);
    scene.works("run --queue --plan one.md --name queued --priority 5");
    // It keeps its turn.
    scene.exits(5, ["resume", &plan_id(&scene), "--no-input"]);
    has(scene.works("plans"), "waits for a daemon, priority 5");
    let daemon = scene.start_as("daemon", "daemon");
    let waits = "waits for an agent to end that a daemon left at work in the same folder";
    wait_until("it waits", || scene.works("plans").contains(waits));
    assert_eq!(scene.pending().len(), 0);
    assert!(lives(&process));
    scene.env.write("go", "");
    let command = scene.take_any();
    assert_eq!(scene.name_of(&command), "queued");
    scene.succeed(&command, "done");
    wait_until("it has ended", || {
        scene.states().contains(&"completed".to_owned())
    });
    daemon.interrupted();
}

#[test]
fn abort_ends_an_agent_that_a_killed_daemon_left() {
    let mut scene = Scene::by_rules("");
    let (process, left) = left_by_killed_daemon(&mut scene);
    assert!(lives(&process));
    scene.works(["abort", &left]);
    wait_until("the agent has ended", || !lives(&process));
    let left = fs::read_dir(scene.path("active")).unwrap().flatten();
    let names = left.map(|entry| entry.file_name().into_string().unwrap());
    let left: Vec<String> = names.filter(|name| name != ".tmp").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn queue_is_carried_out_by_priority_and_order() {
    let scene = Scene::by_rules("");
    let queue = |name: &str, flags: &str| {
        scene.works(format!("run --queue --plan one.md --name {name} {flags}"));
    };
    queue("a", "");
    queue("b", "--priority 5");
    let b = plan_id(&scene);
    queue("c", &format!("--priority 9 --after {b}"));
    assert_eq!(scene.states(), ["idle", "idle", "idle"]);
    has(scene.works("plans"), " · waits for a daemon, priority 5\n");
    let daemon = scene.start_as("daemon", "daemon");
    let names: Vec<String> = (0..3)
        .map(|_| {
            let command = scene.take_any();
            scene.succeed(&command, "done");
            scene.name_of(&command)
        })
        .collect();
    assert_eq!(names, ["b", "c", "a"]);
    scene.await_states(&["completed", "completed", "completed"]);
    assert_eq!(daemon.interrupted().code, Some(130));
}

#[test]
fn killed_daemon_goes_on_with_every_plan() {
    let scene = Scene::by_rules("").with_folders();
    for folder in ["a", "b", "c"] {
        scene.works(format!("run --queue --plan two.md --workspace {folder}"));
    }
    let mut seen = Vec::new();
    for round in 0..4 {
        let daemon = scene.start_as(&format!("daemon-{round}"), "daemon");
        // Those that were taken and reported stay so; the others are the same commands.
        wait_until("each plan has a command", || {
            scene.pending().len() >= 3 - usize::from(round > 0)
        });
        if let Some(command) = scene.pending().into_iter().next() {
            assert!(scene.claim(&command.id));
            scene.succeed(&command, "done");
            seen.push(command.id);
        }
        daemon.kill();
    }
    let agent = scene.agent(|_| Act::success("done"));
    let daemon = scene.start_as("last", "daemon");
    scene.await_states(&["completed"; 3]);
    assert_eq!(agent.seen().len() + seen.len(), 6);
    let again = agent
        .seen()
        .iter()
        .any(|command| seen.contains(&command.id));
    assert!(!again, "{seen:?}");
    drop(agent);
    daemon.interrupted();
}

#[test]
fn lanes_are_shared_between_plans() {
    let scene = Scene::by_rules("run.max_parallel = 2").with_folders();
    scene.write("many.md", &many(8));
    let host = scene.start_as("host", "run --plan many.md --workspace a");
    let large = [scene.take_any(), scene.take_any()];
    scene.works("run --queue --plan one.md --workspace b");
    scene.await_states(&["running", "running"]);
    scene.succeed(&large[0], "done");
    // The lane goes to the plan that has none.
    let small = scene.take_any();
    assert_ne!(plan_of(&small), plan_of(&large[0]));
    // None is meant by no name.
    let hint = ["which plan is meant?", plan_of(&small), plan_of(&large[0])];
    scene.refuses(2, "skip 1", hint);
    scene.refuses(2, "pause", hint);
    scene.succeed(&small, "done");
    let next = scene.take_any();
    assert_eq!(plan_of(&next), plan_of(&large[0]));
    assert_eq!(host.interrupted().code, Some(130));
}

#[test]
fn daemon_takes_up_nothing_that_no_person_confirmed() {
    let mut scene = Scene::by_rules("");
    scene.works("run --queue --plan one.md");
    scene.env.confirm_nothing();
    scene.write(
        "config.toml",
        "llm.provider = 'none'\n[checks.evil]\nrun = ['touch', 'evil']\n",
    );
    let daemon = scene.start_as("daemon", "daemon");
    scene.await_said("daemon", "carrying out");
    wait_until("it says why not", || {
        let plans: Value = scene.json("status --json");
        plans
            .to_string()
            .contains("has changed since it was confirmed")
            || scene
                .daemon_log()
                .contains("has changed since it was confirmed")
    });
    assert_eq!(scene.pending().len(), 0);
    // What a person confirms afterwards counts, without a new start.
    scene.works("trust");
    scene.take_any();
    daemon.interrupted();
}

#[test]
fn stop_ends_the_daemon_of_all_plans() {
    let scene = Scene::by_rules("").with_folders();
    let host = scene.start_as("host", "run --plan one.md --workspace a");
    scene.take_any();
    scene.works("run --queue --plan one.md --workspace b");
    scene.take_any();
    let said = scene.works("stop");
    assert_eq!(said.matches("resume").count(), 2, "{said}");
    host.end().exits(143);
    has(scene.works("stop"), "no daemon works");
}

#[test]
fn daemon_of_another_version_takes_over_what_an_older_one_carried_out() {
    let scene = Scene::by_rules("").with_folders();
    let _host = scene.start_as("host", "run --plan one.md --workspace a");
    let first = scene.take_any();
    scene.works("run --queue --plan one.md --workspace b");
    let second = scene.take_any();
    let note = scene.path("daemon.json");
    let older = fs::read_to_string(&note).unwrap();
    let version = format!("\"{}\"", env!("CARGO_PKG_VERSION"));
    has(&older, &version);
    fs::write(&note, older.replace(&version, "\"0.0.1\"")).unwrap();
    scene.refuses(
        5,
        "run --plan one.md --workspace c",
        "another daemon holds the folder",
    );
    let _daemon = scene.start_as("daemon", "daemon");
    scene.await_said("daemon", "the daemon of version 0.0.1");
    scene.succeed(&first, "done");
    scene.succeed(&second, "done");
    scene.await_states(&["completed", "completed"]);
    for command in [&first, &second] {
        let log = lines(&scene.works(format!("log {} --json", plan_of(command))));
        let dispatched = log.iter().filter(|event| event["event"] == "issued");
        assert_eq!(dispatched.count(), 1, "{log:?}");
    }
}

#[test]
fn plan_queued_by_others_is_not_begun() {
    let mut scene = Scene::by_rules("");
    scene.env.confirm_nothing();
    let daemon = scene.start_as("daemon", "daemon");
    scene.await_daemon();
    // An agent can write the configuration and the database, but not what the person has confirmed.
    scene.write(
        "config.toml",
        "llm.provider = 'none'\nhooks.on_change = ['touch', 'HOOKED']\n",
    );
    let other = tempfile::tempdir().unwrap();
    let args = "run --queue --plan one.md --config config.toml";
    let mut queue = scene.env.command(args);
    queue.env("XDG_STATE_HOME", other.path());
    assert!(queue.output().unwrap().status.success());
    wait_until("the daemon says why", || {
        scene.works("plans").contains("it was not queued by you")
    });
    daemon.interrupted();
    assert!(!scene.env.path("HOOKED").exists());
}

#[test]
fn queued_plan_has_agent_of_its_person() {
    let mut scene = Scene::by_rules("worker.env = ['AGENT_KEY']").with_folders();
    let daemon = scene.start_as("daemon", "daemon");
    scene.await_daemon();
    // From now on: the daemon has neither the program in its PATH nor the key.
    let script = "printf -- '---\\nstatus: SUCCESS\\n---\\nDone.\\n' > \"$1\"";
    scene.env.show_script("agent", script);
    scene.env.set("AGENT_KEY", "the-key-of-the-person");
    let line = "run --plan one.md --workspace a --agent command -- agent {report}";
    let ended = scene.start_as("guest", line).end().exits(0);
    ended
        .has_stderr("! the daemon has another `AGENT_KEY` than you; the daemon has another `PATH`");
    daemon.interrupted();
    has(scene.works("log"), "the daemon differs");
    for file in ["plan-agent.db", "plan-agent.db-wal"] {
        let stored = fs::read(scene.env.path("volumes").join(file)).unwrap_or_default();
        lacks(String::from_utf8_lossy(&stored), "the-key-of-the-person");
    }
}

/// The plans are in folders of the person, where that name may be taken.
#[test]
fn each_plan_has_a_mission_of_its_own() {
    let scene = Scene::by_rules("").with_folders();
    for folder in ["a", "b"] {
        scene.works(format!(
            "run --queue --plan one.md --name plan-{folder} --workspace {folder}"
        ));
    }
    let daemon = scene.start_as("daemon", "daemon");
    let commands = [scene.take_any(), scene.take_any()];
    let shown = || -> BTreeSet<String> {
        let aside = |command| scene.path("missions").join(plan_of(command));
        let places = commands.iter().map(aside).chain([scene.path("")]);
        let texts = places.filter_map(|place| fs::read_to_string(place.join("MISSION.md")).ok());
        let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
        texts.map(first).collect()
    };
    wait_until("each has one", || shown().len() == 2);
    for command in &commands {
        scene.succeed(command, "done");
    }
    scene.await_states(&["completed"; 2]);
    assert_eq!(shown().len(), 2);
    daemon.kill();
}

/// The plan of the older daemon's own terminal is not queued before.
#[test]
fn plans_of_an_older_version_survive_kills_of_the_newer() {
    let (mut chance, folders) = (Chance::new("PLAN_AGENT_CRASH_SEED"), ["a", "b"]);
    for _ in 0..times(4, 60) {
        let scene = Scene::by_rules("").with_folders();
        let [own, queued] = folders;
        let _host = scene.start_as("host", format!("run --plan one.md --workspace {own}"));
        let first = scene.take_any();
        scene.works(format!("run --queue --plan one.md --workspace {queued}"));
        let second = scene.take_any();
        let note = scene.path("daemon.json");
        let older = fs::read_to_string(&note).unwrap();
        let version = format!("\"{}\"", env!("CARGO_PKG_VERSION"));
        fs::write(&note, older.replace(&version, "\"0.0.1\"")).unwrap();
        let newer = scene.start_as("newer", "daemon");
        std::thread::sleep(Duration::from_millis(chance.below(250)));
        newer.kill();
        let _daemon = scene.start_as("daemon", "daemon");
        scene.await_said("daemon", "carrying out");
        scene.succeed(&first, "done");
        scene.succeed(&second, "done");
        scene.await_states(&["completed", "completed"]);
        for command in [&first, &second] {
            let log = lines(&scene.works(format!("log {} --json", plan_of(command))));
            let issued = log.iter().filter(|event| event["event"] == "issued");
            assert_eq!(issued.count(), 1, "{log:?}");
        }
    }
}

/// Each architect writes into the folder of its own plan, and each coder gets the tasks of both.
#[test]
fn two_teams_work_side_by_side() {
    let server = LlmServer::start(|asked| match asked.kind.as_str() {
        "ask" => {
            let names = ["alpha", "beta"].into_iter();
            let mut about = names.filter(|name| asked.prompt().contains(name));
            let answer = about.next().unwrap_or_default();
            assert_eq!(about.next(), None, "{}", asked.prompt());
            Answer::Json(json!({"answer": answer}))
        }
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Messages, "").with_folders();
    scene.write("team.yaml", TEAM);
    for (folder, name) in [("a", "alpha"), ("b", "beta")] {
        let plan = format!(
            "# {name}\n\n## Design {name}\n\n- assignee: architect\n- produces: DESIGN.md\n\nDesign {name}.\n\n\
             ## Build {name}\n\n- assignee: coder\n- after: 1\n\nBuild {name}.\n"
        );
        scene.write("team-plan.md", &plan);
        let folder = format!("--team team.yaml --workspace {folder}");
        scene.works(format!("run --queue --plan team-plan.md {folder}"));
    }
    let daemon = scene.start_as("daemon", "daemon");
    let mut built = [scene.take_task(2), scene.take_task(2)];
    built.sort_by_key(|command| command.field("workspace").map(str::to_owned));
    for (command, name) in built.iter().zip(["alpha", "beta"]) {
        has(&command.text, format!("Build {name}."));
        let folder = Path::new(command.field("workspace").unwrap());
        assert_eq!(fs::read_to_string(folder.join("DESIGN.md")).unwrap(), name);
        scene.succeed(command, "Built.");
    }
    scene.await_states(&["completed", "completed"]);
    daemon.interrupted();
}

/// Two plans of one project, each with worktrees: the end of a task in one plan lets a task of the other begin.
#[test]
fn plans_with_worktrees_wake_each_other() {
    let config = "run.workspace = 'project'\nrun.isolation = 'worktree'\nrun.worktrees = 'volumes/worktrees'\n\
                  run.max_parallel = 4";
    let mut scene = Scene::by_rules(config);
    let Some(project) = Project::new(&scene.env) else {
        return;
    };
    // Nothing is found out soon by looking again.
    scene.env.set("PLAN_AGENT_TIMING", "10");
    let tasks = "## One\n\n- locks: port:8080\n\n## Two\n\n- after: 1\n- locks: port:8080\n";
    scene.write("locks.md", &format!("# Locks\n\n{tasks}"));
    for _ in 0..2 {
        scene.works("run --queue --plan locks.md");
    }
    let daemon = scene.start_as("daemon", "daemon");
    let mut done = Vec::new();
    for number in 0..4 {
        let soon = Duration::from_secs(20);
        wait_at_most(soon, "a command is there", || !scene.pending().is_empty());
        let command = scene.take_any();
        wait_until("both are at work", || {
            scene.states() == ["running"; 2] || number > 0
        });
        assert_eq!(scene.pending().len(), 0, "one has the lock");
        let folder = Path::new(command.field("workspace").unwrap());
        fs::write(folder.join(format!("{number}.txt")), "made\n").unwrap();
        done.push((plan_of(&command).to_owned(), number));
        scene.succeed(&command, "done");
    }
    for (plan, number) in done {
        let file = format!("plan-agent/{plan}:{number}.txt");
        wait_until("its result is on the branch", || {
            let mut git = std::process::Command::new("git");
            let shown = git
                .current_dir(&project.folder)
                .args(["show", &file])
                .output();
            shown.unwrap().stdout == b"made\n"
        });
    }
    daemon.kill();
    project.sound();
}

/// A goal that comes without a terminal: whether its tasks have worktrees is found out before it waits for another plan.
#[test]
fn goals_of_one_project_are_carried_out_side_by_side() {
    let worktrees = "run.workspace = 'project'\nrun.isolation = 'worktree'\nrun.worktrees = 'volumes/worktrees'";
    for (config, isolated) in [(worktrees, true), ("run.isolation = 'auto'", false)] {
        let server = planning(&[("First", &[])]);
        let scene = Scene::with_model(&server, Shape::Messages, config);
        if isolated && Project::new(&scene.env).is_none() {
            return;
        }
        let mut mcp = Mcp::start(&scene.env, "--dialect control");
        for goal in ["Do one thing", "Do another one"] {
            mcp.call("run_goal", json!({ "goal": goal }));
        }
        let daemon = scene.start_as("daemon", "daemon");
        let first = scene.take_any();
        if !isolated {
            let waits = "which works in the same folder";
            wait_until(waits, || scene.works("plans").contains(waits));
            assert_eq!(scene.pending().len(), 0);
            scene.succeed(&first, "done");
        }
        let second = scene.take_any();
        assert_ne!(plan_of(&first), plan_of(&second));
        let folder = |command: &Command| command.field("workspace").unwrap().to_owned();
        assert_eq!(folder(&first) != folder(&second), isolated);
        if isolated {
            scene.succeed(&first, "done");
        }
        scene.succeed(&second, "done");
        scene.await_states(&["completed", "completed"]);
        daemon.interrupted();
    }
}
