//! Commands that a relay cannot work on, gives back, or loses.

use super::*;

/// It is removed when the report is there, and a scan may see that before the report.
#[test]
fn heartbeat_that_is_missing_gives_nothing_back() {
    let Some((here, there, _)) = Machine::two() else {
        return;
    };
    let config = here.scene.read("config.toml");
    let config = format!("{config}run.task_timeout = '5s'\n");
    here.scene.write("config.toml", &config);
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
    works_at("cellar");
    here.scene.await_events("machine", 2);
    has(
        here.scene.works("log"),
        "its agent is at `cellar`; `attic` no longer works on it",
    );
}
