//! Whose commands a worker takes, and whose it leaves alone.

use std::collections::BTreeSet;

use super::*;

fn only(role: &str) -> RoleFilter {
    RoleFilter::Only(role.to_owned())
}

impl Given {
    fn of_role(&self, id: &str, role: &str, script: &str) -> CommandId {
        let front = format!("{}\nassignee: {role}", of_its_own_task(id));
        self.publish(id, &front, script)
    }
}

#[tokio::test]
async fn worker_claims_only_commands_of_its_role() {
    let given = Given::new();
    let anybodys = given.of_person("task-1", "echo anybody >> made");
    let coders = given.of_role("task-2", "coder", "echo coder >> made");
    let reviewers = given.of_role("task-3", "reviewer", "echo reviewer >> made");
    let running = given.start_for(only("reviewer"), shell());
    given.report(&reviewers).await;
    let last = given.of_role("task-4", "reviewer", "echo again >> made");
    given.report(&last).await;
    running.stop().await;
    assert_eq!(given.work_file("made"), "reviewer\nagain\n");
    assert_eq!(given.whereabouts(&coders), CommandPlace::Pending);

    let but = RoleFilter::Except(BTreeSet::from(["coder".to_owned()]));
    let running = given.start_for(but, shell());
    given.report(&anybodys).await;
    let last = given.of_role("task-5", "somebody", "echo somebody >> made");
    given.report(&last).await;
    running.stop().await;
    assert_eq!(given.whereabouts(&coders), CommandPlace::Pending);

    let running = given.start(shell());
    given.report(&coders).await;
    running.stop().await;
    assert_eq!(
        given.work_file("made"),
        "reviewer\nagain\nanybody\nsomebody\ncoder\n"
    );
    given.at_rest().await;
}

#[tokio::test]
async fn role_folder_commands_go_only_to_that_role() {
    let mut given = Given::new();
    given.volumes = given.volumes.with_own(&["reviewer".to_owned()]).unwrap();
    let own = given.of_role("task-2", "reviewer", "echo own >> made");
    let common = given.of_person("task-1", "echo common >> made");
    let path = "roles/reviewer/commands/pending/task-2.md";
    assert!(given.root.path().join(path).exists());
    // One that takes all takes what lies in the common folder.
    let running = given.start(shell());
    given.report(&common).await;
    let end = given.end_of_session("task-3");
    until("the end is not taken", || {
        given.whereabouts(&end) == CommandPlace::Processed
    })
    .await;
    running.stop().await;
    assert_eq!(given.whereabouts(&own), CommandPlace::Pending);

    let running = given.start_for(only("reviewer"), shell());
    let report = given.report(&own).await;
    assert_eq!(report.status, ReportStatus::Success);
    let later = given.of_role("task-4", "reviewer", "echo later >> made");
    given.report(&later).await;
    running.stop().await;
    assert_eq!(given.work_file("made"), "common\nown\nlater\n");
    given.at_rest().await;
}

#[tokio::test]
async fn other_role_does_not_resume_interrupted_command() {
    for own in [true, false] {
        let mut given = Given::new();
        if own {
            given.volumes = given.volumes.with_own(&["coder".to_owned()]).unwrap();
        }
        let script = "echo run >> made; test -e go || sleep 1000";
        let id = given.of_role("task-1", "coder", script);
        let running = given.start_for(only("coder"), shell());
        until("not begun", || given.work_file("made") == "run\n").await;
        running.vanish().await;
        fs::write(given.volumes.path(Folder::Workspace).join("go"), "").unwrap();
        let but = RoleFilter::Except(BTreeSet::from(["coder".to_owned()]));
        for (other, last) in [(only("reviewer"), "task-2"), (but, "task-3")] {
            let running = given.start_for(other.clone(), shell());
            let last = given.of_role(last, "reviewer", "true");
            given.report(&last).await;
            running.stop().await;
            assert!(given.volumes.locked().unwrap().contains(&id), "{other:?}");
            assert!(!given.volumes.reported(&id).unwrap());
        }
        let running = given.start_for(only("coder"), shell());
        given.report(&id).await;
        assert_eq!(given.work_file("made"), "run\nrun\n");
        given.at_rest().await;
        running.stop().await;
    }
}

#[tokio::test]
async fn unsigned_claim_is_resumed_by_its_role() {
    let given = Given::new();
    let id = given.of_role("task-1", "coder", "echo run >> made");
    given.volumes.claim(&id).unwrap();
    fs::write(given.volumes.claim_lock(&id), "").unwrap();
    let running = given.start_for(only("reviewer"), shell());
    let last = given.of_role("task-2", "reviewer", "true");
    given.report(&last).await;
    running.stop().await;
    assert_eq!(given.work_file("made"), "");
    let running = given.start_for(only("coder"), shell());
    given.report(&id).await;
    assert_eq!(given.work_file("made"), "run\n");
    running.stop().await;
    given.at_rest().await;
}
