//! Earlier states of a plan, shown and restored, and the plans that tools have made alongside those of the daemon.

use plan_agent::plan::{ArchiveState, PlanHead, PlanId, TaskChanges, TaskId};
use plan_agent::store::Store;

use super::*;
use crate::common::core::{block_on, new_task, open_store};

/// Uses the store of a scene as a tool would.
fn with_store<T>(scene: &Scene, act: impl AsyncFnOnce(Store) -> T) -> T {
    block_on(async { act(open_store(&scene.env).await).await })
}

/// Makes a plan of the tools of `tasks` with one task, and returns its id.
async fn make(store: &Store, key: &str) -> PlanId {
    let mut head = PlanHead::new(PlanId::new(key), "Release it", plan_agent::plan::Time(0));
    head.owner = "tasks".to_owned();
    let made = store.create(head, "claude", "TaskCreate", |draft| {
        draft.created();
        draft.add_tasks(vec![new_task("Write the notes")], None)?;
        Ok(draft.plan().id().clone())
    });
    made.await.unwrap()
}

async fn delete(store: &Store, id: &PlanId) {
    let delete = store.change(id, "claude", "delete_plan", |draft| {
        draft.archive(ArchiveState::Deleted)
    });
    delete.await.unwrap();
}

#[test]
fn completed_plan_is_restored_and_rerun() {
    let scene = Scene::by_rules("");
    let agent = scene.agent(|_| Act::success("done"));
    assert_eq!(scene.run("run --plan chain.md").code, Some(0));
    assert_eq!(agent.attempts(), [(1, 1), (2, 1), (3, 1)]);
    let events = scene.events();
    let first = events.iter().find(|event| event["event"] == "completed");
    let at = first.unwrap()["seq"].to_string();
    let then = |format: &str| scene.works(["show", "--format", format, "--at", &at]);
    for (format, said) in [
        ("md", "First"),
        ("json", "\"completed\""),
        ("dot", "digraph"),
        ("mermaid", "completed"),
    ] {
        assert!(then(format).contains(said), "{format}: {}", then(format));
    }

    let said = scene.works(["restore", "--at", &at]);
    has(&said, ["resume", &format!("as it was after change {at}")]);
    let status = scene.status();
    assert_eq!(status["plan"]["status"], "paused");
    assert_eq!(scene.tasks(), ["completed", "pending", "pending"]);
    let restored = &scene.events_named("restored")[0];
    assert_eq!(
        (restored["seq"].as_i64(), &restored["by"]),
        (
            Some(events.last().unwrap()["seq"].as_i64().unwrap() + 1),
            &json!("command line")
        )
    );
    let log = scene.works("log");
    let line = format!(
        "restored to what it was after change {at}  (command line: restored to change {at})"
    );
    has(&log, &line);

    // The log loses nothing, and the numbers of the attempts continue.
    assert_eq!(scene.run("resume").code, Some(0));
    assert_eq!(agent.attempts(), [(1, 1), (2, 1), (3, 1), (2, 2), (3, 2)]);
    assert_eq!(scene.tasks(), ["completed"; 3]);
    assert_eq!(scene.events()[..events.len()], events);
}

#[test]
fn restore_refuses_plan_of_running_daemon() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan one.md");
    let first = scene.take_any();
    scene.await_events("claimed", 1);
    let before = scene.events();
    let ran = scene.exits(5, "restore --at 1");
    ran.has_stderr(["carries out plan", "Hint: `plan-agent stop`"]);
    assert_eq!(scene.events(), before);

    // The task that was in progress is done again: the agent is asked to stop, and its late report has no effect.
    scene.works("stop");
    let at = before.last().unwrap()["seq"].to_string();
    scene.works(["restore", "--at", &at]);
    assert_eq!(scene.tasks(), ["pending"]);
    let _daemon = scene.leave("resume");
    scene.await_name("active", &format!("{}.cancel", first.id));
    let second = scene.take_any();
    assert_ne!(second.id, first.id);
    scene.succeed(&first, "late");
    scene.await_events("stale", 1);
    scene.succeed(&second, "done");
    scene.await_status("completed");
    assert_eq!(scene.events_named("completed").len(), 1);
}

#[test]
fn restore_names_unknown_change() {
    let scene = Scene::by_rules("");
    let id = with_store(&scene, async |store| make(&store, "release").await);
    let ran = scene.exits(2, ["restore", id.as_str(), "--at", "7"]);
    ran.has_stderr("plan `release` has no change `7`");
    let part = "the plan is as it was after change 1";
    scene.refuses(1, ["restore", id.as_str(), "--at", "1"], part);
}

#[test]
fn tool_plans_are_listed_but_not_default() {
    let scene = Scene::by_rules("");
    let agent = scene.agent(|_| Act::success("done"));
    assert_eq!(scene.run("run --plan one.md").code, Some(0));
    drop(agent);
    let own = plan_id(&scene);
    let second = with_store(&scene, async |store| {
        let first = make(&store, "release").await;
        delete(&store, &first).await;
        let second = make(&store, "release").await;
        let old = make(&store, "old one").await;
        let away = store.change(&old, "claude", "finish_plan", |draft| {
            draft.archive(ArchiveState::History)
        });
        away.await.unwrap();
        let changed = store.change(&second, "claude", "TaskUpdate 1", |draft| {
            draft.update_task(
                TaskId(1),
                &TaskChanges {
                    name: Some("Write them".to_owned()),
                    ..TaskChanges::default()
                },
            )?;
            draft.start_task(TaskId(1))
        });
        changed.await.unwrap();
        second
    });
    assert_eq!(second.as_str(), "release~2");

    let shown = |args: &[&str]| scene.env.normal(&scene.works(args));
    let plans = shown(&["plans"]).replace(&own, "OWN");
    insta::assert_snapshot!(plans, @r"
    release  running          0 of 1    now  Release it  (tasks)
    OWN  completed        1 of 1    now  One · ~ 1 accepted
    ");
    let plans = shown(&["plans", "--all"]).replace(&own, "OWN");
    insta::assert_snapshot!(plans, @r"
    old one  not started      0 of 1    now  Release it  (tasks, in the history)
    release  running          0 of 1    now  Release it  (tasks)
    release  not started      0 of 1    now  Release it  (tasks, deleted)
    OWN  completed        1 of 1    now  One · ~ 1 accepted
    ");
    let all: Value = scene.json("plans --all --json");
    let known = all.as_array().unwrap().iter();
    let known = known.map(|plan| picked(plan, "key owner archive_state"));
    let known: Vec<Value> = known.collect();
    assert_eq!(
        json!(known),
        json!([
            ["old one", "tasks", "history"],
            ["release", "tasks", "current"],
            ["release", "tasks", "deleted"],
            [own.as_str(), "daemon", "current"],
        ])
    );

    // The newest plan of all is not the newest one of the daemon.
    assert_eq!(scene.status()["plan"]["id"], own.as_str());
    let log = shown(&["log", "release"]);
    insta::assert_snapshot!(log, @r"
        1  [TIME]  goal: Release it  (claude: TaskCreate)
        1  [TIME]  task 1: added: Write the notes
        2  [TIME]  task 1: changed  (claude: TaskUpdate 1)
        2  [TIME]  task 1: started
        2  [TIME]  started
    ");
    let ran = scene.exits(2, "resume release");
    insta::assert_snapshot!(ran.seen(&scene.env), @r"
    error: plan `release~2` is carried out by those who use it through the tools of `tasks`
    Hint: `plan-agent show release~2 > FILE` and `plan-agent run --plan FILE` make a plan of your own of it
    exit 2
    ");

    // A person restores the state before a tool's change. This pauses nothing: its callers continue by themselves.
    lacks(scene.works("restore release --at 1"), "resume");
    let plan = scene.works("show release --format json");
    has(&plan, "Write the notes");
    lacks(&plan, ["Write them", "in_progress"]);
}

#[test]
fn restored_tool_plan_stays_current_or_archived() {
    let scene = Scene::by_rules("");
    let tool = |name: &str, arguments: &str| scene.works(["tool", name, arguments]);
    let create = |goal: &str| {
        let task = json!({"name": "Task", "dependencies": [], "reasoning": "r"});
        tool(
            "createPlan",
            &json!({"goal": goal, "tasks": [task]}).to_string(),
        );
        let plans: Value = scene.json("plans --json");
        plans[0]["id"].as_str().unwrap().to_owned()
    };
    let old = create("Old");
    tool("skipTask", r#"{"task_id": 1, "reason": "x"}"#);
    let new = create("New");
    assert_ne!(old, new);
    let current = || {
        tool("skipTask", r#"{"task_id": 1, "reason": "x"}"#);
        let shown = scene.works("plans --json");
        let plans: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(plans.as_array().unwrap().len(), 1, "{plans}");
        (plans[0]["id"] == new.as_str(), plans[0]["status"].clone())
    };
    assert_eq!(current(), (true, json!("completed")));
    scene.works(["restore", &new, "--at", "1"]);
    assert_eq!(current(), (true, json!("completed")));
    scene.works(["restore", &old, "--at", "1"]);
    scene.works(["restore", &new, "--at", "1"]);
    assert_eq!(current(), (true, json!("completed")));
}

#[test]
fn deleted_plan_is_restored_if_key_is_free() {
    let scene = Scene::by_rules("");
    with_store(&scene, async |store| {
        let first = make(&store, "release").await;
        delete(&store, &first).await;
    });
    scene.works("restore release --at 1");
    with_store(&scene, async |store| {
        let first = store.find("release").await.unwrap().unwrap();
        assert_eq!(first.as_str(), "release");
        delete(&store, &first).await;
        let second = make(&store, "release").await;
        let earlier = store.at(&first, 1).await.unwrap();
        let restored = store.change(&first, "test", "restored", move |draft| {
            draft.restore(&earlier, 1)
        });
        let error = restored.await.unwrap_err().to_string();
        assert_eq!(error, "the plan id `release` is taken");
        assert_eq!(store.find("release").await.unwrap(), Some(second));
    });
}
