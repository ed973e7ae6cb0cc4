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
