//! Commands that a relay cannot work on, gives back, or loses.

use super::*;

#[test]
fn command_that_cannot_be_laid_out_is_not_claimed() {
    let Some((here, there, _)) = Machine::two() else {
        return;
    };
    here.scene.works("store migrate");
    let away = there.scene.env.path("away");
    fs::rename(&there.project, &away).unwrap();
    let missing = "there is no folder `";
    has(there.scene.env.run("doctor").stdout, missing);
    let relay = there.scene.start_as("relay", "relay --agent files");
    there
        .scene
        .await_said("relay", "note: project `app`: there is no folder `");
    let daemon = here.scene.leave("run --plan one.md --agent relay");
    let plan = plan_id(&here.scene);
    here.scene.await_events("relay_refused", 1);
    let why = here.scene.works(["why", &plan, "1"]);
    has(&why, ["waits for an agent", "cannot work on it", missing]);
    has(here.scene.works("log"), ["cannot work on it", missing]);
    relay.interrupted();
    // The next one takes it and gives it back again, which says nothing new.
    let relay = there.scene.start_as("relay", "relay --agent files");
    there
        .scene
        .await_said("relay", "of project `app` cannot be worked on here");
    kill(&here.scene, daemon);
    here.scene.configure("run.task_timeout = '1s'");
    let _daemon = here.scene.leave(["resume", &plan]);
    let (_, question) = here.scene.await_questions(1).remove(0);
    let reasons = ["no worker takes commands", "cannot work on it", missing];
    has(&question, reasons);
    has(&question, "`plan-agent relay`");
    for none in ["claimed", "withdrawn", "machine"] {
        assert_eq!(here.scene.events_named(none).len(), 0, "{none}");
    }
    assert_eq!(here.scene.events_named("relay_refused").len(), 1);
    relay.interrupted();
    fs::rename(away, &there.project).unwrap();
    let _relay = there.scene.start("relay --agent files");
    there.does(&there.scene.take_task(1), "one.txt");
    here.scene.await_status("completed");
    assert!(open_questions(&here.scene).is_empty());
    lacks(here.scene.works(["why", &plan, "1"]), missing);
}

#[test]
fn relay_that_ends_gives_back_what_its_agent_had() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    let go = here.scene.env.path("go");
    let waits = format!(
        "until test -e '{}'; do test -e \"$PWD\"; sleep 0.05; done; echo one > one.txt",
        go.display()
    );
    let plan = SHELL.replace("echo one > one.txt", &waits);
    here.scene.write("shell.md", &plan);
    here.scene.works("store migrate");
    let relay = there.scene.start("relay --agent shell");
    let _daemon = here.scene.leave("run --plan shell.md --agent relay");
    here.scene.await_events("claimed", 1);
    relay.interrupted().has_stderr("given back: 1 · First");
    let mut server = Client::connect(&url, NoTls).unwrap();
    let left = "SELECT held_until FROM relayed";
    assert_eq!(server.query_one(left, &[]).unwrap().get::<_, i64>(0), 0);
    here.scene.await_events("withdrawn", 1);
    lacks(here.scene.works("workers"), "takes commands");
    // Also the same one may have it again.
    let _relay = there.scene.start("relay --agent shell");
    here.scene.await_events("claimed", 2);
    File::create(go).unwrap();
    here.scene.await_status("completed");
    assert_eq!(here.scene.events_named("issued").len(), 2);
}

/// It is removed when the report is there, and a scan may see that before the report.
#[test]
fn heartbeat_that_is_missing_gives_nothing_back() {
    let Some((here, there, _)) = Machine::two() else {
        return;
    };
    here.scene.configure("run.task_timeout = '5s'");
    here.scene.works("store migrate");
    let _relay = there.scene.start("relay");
    let _daemon = here.scene.leave("run --plan one.md --agent relay");
    let command = there.scene.take_task(1);
    here.scene.await_events("claimed", 1);
    let heartbeat = here
        .scene
        .env
        .path(format!("volumes/active/{}.json", command.id));
    fs::remove_file(&heartbeat).unwrap();
    wait_until("it is written again", || heartbeat.exists());
    there.does(&command, "one.txt");
    here.scene.await_status("completed");
    assert_eq!(here.scene.events_named("withdrawn").len(), 0);
    assert_eq!(here.scene.events_named("claimed").len(), 1);
}

#[test]
fn machine_that_lost_a_command_is_named_when_another_has_it_at_once() {
    let Some((here, _, url)) = Machine::two() else {
        return;
    };
    here.scene.write("shell.md", SHELL);
    let _daemon = here.scene.leave("run --plan shell.md --agent relay");
    let mut client = Client::connect(&url, NoTls).unwrap();
    let (id, claim) = claimed(&mut client);
    let mut works_at = |machine: &str| {
        let life = json!({"alive": true, "heartbeat": {"machine": machine}}).to_string();
        let held = json!([{"id": id, "claim": claim, "life": life}]).to_string();
        let about = json!({"machine": machine, "agent": "shell"}).to_string();
        let beat = "SELECT relay_beat('r', $1, $2)";
        client.query(beat, &[&about, &held]).unwrap();
    };
    works_at("attic");
    here.scene.await_events("machine", 1);
    // The heartbeat in the folder is the daemon's own.
    run_sql(&url, "UPDATE relays SET seen = seen - 56000000");
    run_sql(
        &url,
        "INSERT INTO relays VALUES ('nobody-there/old', '{}', relay_now())",
    );
    let workers = here.scene.works("workers");
    has(&workers, "1 · First: relay at attic");
    assert_eq!(workers.matches("heard of 5").count(), 2, "{workers}");
    lacks(&workers, "nobody-there");
    works_at("cellar");
    here.scene.await_events("machine", 2);
    has(
        here.scene.works("log"),
        "its agent is at `cellar`; `attic` no longer works on it",
    );
}

/// Another one gets the task as a whole: words that go on in a session say nothing without it.
#[test]
fn command_comes_whole_to_a_relay_that_does_not_know_its_session() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    let other = here.beside(&url);
    here.scene.works("store migrate");
    let relay = there.scene.start("relay");
    let _daemon = here.scene.leave("run --plan one.md --agent relay");
    let first = there.scene.take_task(1);
    let failed = report_in("s-1", "FAILED", "Half of it.");
    there.scene.submit(&first.id, &failed);
    wait_until("it is offered again", || {
        there.scene.pending().iter().any(|it| it.attempt() == 2)
    });
    relay.interrupted();
    run_sql(&url, "UPDATE relayed SET offered = 1, held_until = 1");
    let _other = other.scene.start("relay");
    let whole = other.scene.take_task(1);
    assert_eq!((whole.kind(), whole.session()), ("continue", "s-1"));
    has(whole.body(), ["Make `one.txt`.", "Half of it."]);
    // Nor does it know what a report was to be about.
    other.scene.submit(
        &whole.id,
        "---\nstatus: DONE_I_THINK\nsession_id: s-1\n---\n",
    );
    wait_until("another one gets it", || {
        run_sql(&url, "UPDATE relayed SET offered = 1");
        !other.scene.pending().is_empty()
    });
    let repair = other.scene.take_task(1);
    has(repair.body(), ["could not be read", "Make `one.txt`."]);
    other.does(&repair, "one.txt");
    here.scene.await_status("completed");
}

/// It would end each command at once, and be free first for the next one.
#[test]
fn relay_at_its_usage_limit_leaves_commands_to_others() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    let other = here.beside(&url);
    here.scene.configure("run.max_parallel = 2");
    here.scene.write("both.md", &many(2));
    here.scene.works("store migrate");
    let _relay = there.scene.start("relay");
    let _daemon = here.scene.leave("run --plan both.md --agent relay");
    let limited = there.scene.take_any();
    let limit =
        "---\nstatus: FAILED\nblocked_until: 2999-01-01T00:00:00Z\n---\n## Core results\n\nHalf.\n";
    there.scene.submit(&limited.id, limit);
    here.scene.await_events("parked", 1);
    wait_until("the relay says so", || {
        let workers = here.scene.works("workers");
        workers.contains("at its usage limit until 2999-")
    });
    // The daemon knows why its command waits.
    here.scene.await_events("waits", 1);
    let _other = other.scene.start("relay");
    other.does(&other.scene.take_any(), "other.txt");
    here.scene.await_events("completed", 1);
    assert!(there.scene.pending().is_empty());
}
