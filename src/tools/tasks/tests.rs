//! The task tools against a store in memory.

use serde_json::{Value, json};

use super::*;
use crate::plan::{Shelf, TaskStatus};

async fn toolbox() -> Toolbox {
    Toolbox::in_memory().await.unwrap()
}

async fn ask(toolbox: &Toolbox, name: &str, arguments: Value) -> Answer {
    toolbox.call(Dialect::Tasks, name, arguments).await
}

/// Calls a tool that is to succeed.
async fn done(toolbox: &Toolbox, name: &str, arguments: Value) -> Value {
    let answer = ask(toolbox, name, arguments).await;
    assert!(answer.success, "{}", answer.value);
    answer.value
}

/// Calls a tool that is to refuse, and returns the reason.
async fn refused(toolbox: &Toolbox, name: &str, arguments: Value) -> String {
    let answer = ask(toolbox, name, arguments).await;
    assert!(!answer.success, "{}", answer.value);
    assert!(answer.value["result"].is_null());
    answer.value["reason"].as_str().unwrap().to_owned()
}

async fn update(toolbox: &Toolbox, arguments: Value) -> Value {
    done(toolbox, "TaskUpdate", arguments).await["result"].take()
}

async fn get(toolbox: &Toolbox, id: u32) -> Value {
    done(toolbox, "TaskGet", json!({ "taskId": id })).await["result"].take()
}

async fn list(toolbox: &Toolbox, arguments: Value) -> Vec<String> {
    let lines = done(toolbox, "TaskList", arguments).await["result"].take();
    let lines = lines.as_array().unwrap();
    lines
        .iter()
        .map(|line| {
            let word = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            format!("{} {}", word("id"), word("status"))
        })
        .collect()
}

/// Makes a list of three, one after the other.
async fn three() -> Toolbox {
    let toolbox = toolbox().await;
    let tasks = json!([
        {"subject": "one"},
        {"subject": "two", "blockedBy": [1]},
        {"subject": "three", "blockedBy": [1, 2]},
    ]);
    done(&toolbox, "TaskCreate", json!({ "tasks": tasks })).await;
    toolbox
}

async fn plan_status(toolbox: &Toolbox) -> String {
    let plan = toolbox.current(Dialect::Tasks).await.unwrap();
    let read = |plan: &Plan, _| plan.status().as_str().to_owned();
    toolbox.store().read(&plan, read).await.unwrap()
}

#[tokio::test]
async fn the_first_task_makes_the_list_and_ids_are_numbers_as_text() {
    let toolbox = toolbox().await;
    assert_eq!(list(&toolbox, json!({})).await, [""; 0]);
    let first = json!({"subject": "Fix it", "description": "d", "activeForm": "Fixing it"});
    assert_eq!(
        done(&toolbox, "TaskCreate", first).await,
        json!({"result": {"id": "1", "subject": "Fix it"}})
    );
    let second = json!({
        "subject": "Test it", "owner": "me", "metadata": {"k": [1]}, "addBlockedBy": ["1"],
    });
    done(&toolbox, "TaskCreate", second).await;
    assert_eq!(
        done(&toolbox, "TaskList", Value::Null).await,
        json!({"result": [
            {"id": "1", "subject": "Fix it", "status": "pending", "blockedBy": []},
            {"id": "2", "subject": "Test it", "status": "pending", "owner": "me", "blockedBy": ["1"]},
        ]})
    );
    assert_eq!(
        get(&toolbox, 1).await,
        json!({
            "id": "1", "subject": "Fix it", "description": "d", "status": "pending",
            "activeForm": "Fixing it", "blocks": ["2"], "blockedBy": [],
        })
    );
    assert_eq!(
        get(&toolbox, 2).await,
        json!({
            "id": "2", "subject": "Test it", "description": "", "status": "pending", "owner": "me",
            "metadata": {"k": [1]}, "blocks": [], "blockedBy": ["1"],
        })
    );
}

#[tokio::test]
async fn several_tasks_are_made_in_one_step() {
    let toolbox = three().await;
    assert_eq!(get(&toolbox, 3).await["blockedBy"], json!(["1", "2"]));
    let more = json!({"tasks": [{"subject": "four", "blockedBy": ["2"], "addBlockedBy": [3]}, {"subject": "five"}]});
    assert_eq!(
        done(&toolbox, "TaskCreate", more).await,
        json!({"result": [{"id": "4", "subject": "four"}, {"id": "5", "subject": "five"}]})
    );
    assert_eq!(get(&toolbox, 4).await["blockedBy"], json!(["3", "5"]));
    let plan = toolbox.current(Dialect::Tasks).await.unwrap();
    assert_eq!(toolbox.store().since(&plan, 0, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn dry_run_says_what_would_be_made_and_makes_nothing() {
    let toolbox = toolbox().await;
    let tasks = json!({"tasks": [{"subject": "one"}, {"subject": "two", "blockedBy": [1]}], "dry_run": true});
    let answer = json!({
        "result": [{"id": "1", "subject": "one"}, {"id": "2", "subject": "two"}],
        "reason": "dry_run: nothing was made",
    });
    assert_eq!(done(&toolbox, "TaskCreate", tasks.clone()).await, answer);
    assert!(toolbox.store().plans().await.unwrap().is_empty());
    done(&toolbox, "TaskCreate", json!({"subject": "a"})).await;
    let there = toolbox.store().plans().await.unwrap();
    let again = done(&toolbox, "TaskCreate", tasks).await;
    assert_eq!(again["result"][1]["id"], "3");
    assert_eq!(toolbox.store().plans().await.unwrap(), there);
}

#[tokio::test]
async fn a_task_goes_from_pending_to_completed() {
    let toolbox = three().await;
    assert_eq!(
        update(
            &toolbox,
            json!({"taskId": "1", "status": "in_progress", "owner": "me"})
        )
        .await,
        json!({
            "taskId": "1", "updatedFields": ["owner", "status"],
            "statusChange": {"from": "pending", "to": "in_progress"},
        })
    );
    assert_eq!(plan_status(&toolbox).await, "running");
    let end = json!({"taskId": 1, "status": "completed", "result": "it works"});
    update(&toolbox, end.clone()).await;
    assert_eq!(get(&toolbox, 1).await["result"], "it works");
    assert_eq!(
        update(&toolbox, end).await,
        json!({"taskId": "1", "updatedFields": []}),
        "the same again changes nothing"
    );
    // Also without a word in between.
    update(&toolbox, json!({"taskId": "#2", "status": "completed"})).await;
    update(&toolbox, json!({"taskId": 3, "status": "completed"})).await;
    assert_eq!(plan_status(&toolbox).await, "completed");
}

#[tokio::test]
async fn a_task_that_waits_cannot_begin_nor_be_completed() {
    let toolbox = three().await;
    for status in ["in_progress", "completed", "failed"] {
        let begin = json!({"taskId": "3", "status": status, "subject": "x"});
        assert_eq!(
            refused(&toolbox, "TaskUpdate", begin).await,
            "task `3` waits for `1`, `2`"
        );
    }
    assert_eq!(get(&toolbox, 3).await["subject"], "three");
}

#[tokio::test]
async fn a_deleted_plan_is_not_changed() {
    let toolbox = three().await;
    let plan = toolbox.current(Dialect::Tasks).await.unwrap();
    let delete = |draft: &mut Draft<'_>| draft.put_away(Shelf::Deleted);
    toolbox.change(&plan, "", delete).await.unwrap();
    let bound = toolbox.with_plan(plan);
    for (tool, arguments) in [
        ("TaskCreate", json!({"subject": "four"})),
        ("TaskUpdate", json!({"taskId": 1, "status": "completed"})),
        ("TaskUpdate", json!({"taskId": 1, "subject": "other"})),
    ] {
        let answer = bound.call(Dialect::Tasks, tool, arguments).await;
        assert!(!answer.success);
        assert_eq!(answer.value["reason"], "the plan was deleted");
    }
}

#[tokio::test]
async fn what_came_of_a_task_is_kept_and_can_be_said_again() {
    let toolbox = three().await;
    let end = json!({"taskId": 1, "status": "completed", "result": "precious"});
    update(&toolbox, end).await;
    update(&toolbox, json!({"taskId": 1, "status": "deleted"})).await;
    update(&toolbox, json!({"taskId": 1, "status": "completed"})).await;
    assert_eq!(get(&toolbox, 1).await["result"], "precious");
    let again = json!({"taskId": 1, "status": "completed", "result": "more"});
    let told = update(&toolbox, again).await;
    assert_eq!(told["updatedFields"], json!(["result"]));
    assert_eq!(get(&toolbox, 1).await["result"], "more");
    // Of a task that was deleted before anything came of it, nothing has come.
    update(&toolbox, json!({"taskId": 2, "status": "deleted"})).await;
    update(&toolbox, json!({"taskId": 2, "status": "completed"})).await;
    assert_ne!(get(&toolbox, 2).await["result"], "deleted");
}

#[tokio::test]
async fn what_is_settled_can_be_taken_back() {
    let toolbox = three().await;
    for id in 1..=3 {
        let end = json!({"taskId": id, "status": "completed", "result": "r"});
        update(&toolbox, end).await;
    }
    let again = json!({"taskId": 2, "status": "in_progress", "description": "anew"});
    assert_eq!(
        update(&toolbox, again).await,
        json!({
            "taskId": "2", "updatedFields": ["description", "status"],
            "statusChange": {"from": "completed", "to": "in_progress"},
        })
    );
    assert_eq!(get(&toolbox, 2).await.get("result"), None);
    assert_eq!(plan_status(&toolbox).await, "running");
    update(&toolbox, json!({"taskId": 2, "status": "pending"})).await;
    update(
        &toolbox,
        json!({"taskId": 2, "status": "failed", "result": "no"}),
    )
    .await;
    assert_eq!(plan_status(&toolbox).await, "failed");
    update(&toolbox, json!({"taskId": 2, "status": "completed"})).await;
    assert_eq!(plan_status(&toolbox).await, "completed");
    // A list that has ended goes on with the next task.
    done(&toolbox, "TaskCreate", json!({"subject": "four"})).await;
    assert_eq!(plan_status(&toolbox).await, "running");
    assert_eq!(get(&toolbox, 4).await["status"], "pending");
}

#[tokio::test]
async fn a_deleted_task_is_not_listed_and_nothing_waits_for_it() {
    let toolbox = three().await;
    update(&toolbox, json!({"taskId": 1, "status": "deleted"})).await;
    assert_eq!(list(&toolbox, json!({})).await, ["2 pending", "3 pending"]);
    assert_eq!(
        list(&toolbox, json!({"status": "deleted"})).await,
        ["1 deleted"]
    );
    assert_eq!(get(&toolbox, 1).await["status"], "deleted");
    assert_eq!(get(&toolbox, 1).await["result"], "deleted");
    update(&toolbox, json!({"taskId": 2, "status": "in_progress"})).await;
    // Also one in progress, and a completed one.
    update(
        &toolbox,
        json!({"taskId": 2, "status": "deleted", "result": "not needed"}),
    )
    .await;
    update(&toolbox, json!({"taskId": 3, "status": "completed"})).await;
    update(&toolbox, json!({"taskId": 3, "status": "deleted"})).await;
    assert_eq!(list(&toolbox, json!({})).await, [""; 0]);
    update(&toolbox, json!({"taskId": 2, "status": "pending"})).await;
    assert_eq!(list(&toolbox, json!({})).await, ["2 pending"]);
}

#[tokio::test]
async fn an_error_names_the_field_and_calls_a_new_task_by_its_name() {
    let toolbox = three().await;
    let long = "x".repeat(20_000);
    let too_long = |field: &str| format!("`{field}` has 20000 bytes; at most 4096 fit");
    let one = json!({"subject": "s", "activeForm": long});
    assert_eq!(
        refused(&toolbox, "TaskCreate", one.clone()).await,
        too_long("activeForm")
    );
    let several = json!({"tasks": [{"subject": "s"}, one]});
    assert_eq!(
        refused(&toolbox, "TaskCreate", several).await,
        too_long("tasks[1].activeForm")
    );
    let update = json!({"taskId": 1, "activeForm": long});
    assert_eq!(
        refused(&toolbox, "TaskUpdate", update).await,
        too_long("activeForm")
    );
    let unknown = json!({"subject": "Bake", "addBlockedBy": [77]});
    assert_eq!(
        refused(&toolbox, "TaskCreate", unknown).await,
        "the new task `Bake` depends on `77`, which does not exist"
    );
    let several = json!({"tasks": [{"subject": "Knead"}, {"subject": "Bake", "blockedBy": [3]}]});
    assert_eq!(
        refused(&toolbox, "TaskCreate", several).await,
        "the new task `Bake` at place 2 depends on `place 3`, which does not exist"
    );
    let update = json!({"taskId": 1, "addBlockedBy": [77]});
    assert_eq!(
        refused(&toolbox, "TaskUpdate", update).await,
        "task `1` depends on `77`, which does not exist"
    );
}

#[tokio::test]
async fn what_a_task_waits_for_and_what_waits_for_it_is_paged_to_the_end() {
    let toolbox = toolbox().await;
    let before: Vec<usize> = (1..=250).collect();
    let mut tasks = vec![json!({"subject": "before"}); 250];
    tasks.push(json!({"subject": "hub", "blockedBy": before}));
    tasks.extend(vec![json!({"subject": "after", "blockedBy": [251]}); 120]);
    done(&toolbox, "TaskCreate", json!({ "tasks": tasks })).await;
    let page = async |given: Value| done(&toolbox, "TaskGet", given).await["result"].take();
    let first = page(json!({"taskId": 251})).await;
    let texts = |range: std::ops::RangeInclusive<usize>| {
        json!(range.map(|id| id.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(
        (&first["blockedBy"], &first["blocks"]),
        (&texts(1..=100), &texts(252..=351))
    );
    assert_eq!(
        (&first["blockedByLeft"], &first["blocksLeft"]),
        (&json!(150), &json!(20))
    );
    let last = page(json!({"taskId": 251, "offset": "100", "limit": 200})).await;
    assert_eq!(
        (&last["blockedBy"], &last["blocks"]),
        (&texts(101..=250), &texts(352..=371))
    );
    assert_eq!(
        (last.get("blockedByLeft"), last.get("blocksLeft")),
        (None, None)
    );
    refused(&toolbox, "TaskGet", json!({"taskId": 251, "limit": -1})).await;
}

#[tokio::test]
async fn a_list_is_filtered_paged_and_bounded() {
    let toolbox = toolbox().await;
    let tasks: Vec<Value> = (0..10_000)
        .map(|n| {
            let before: Vec<usize> = (1..=n).rev().take(if n < 100 { 40 } else { 0 }).collect();
            json!({"subject": format!("任务 {}", "x".repeat(300)), "blockedBy": before})
        })
        .collect();
    let made = done(&toolbox, "TaskCreate", json!({ "tasks": tasks })).await;
    assert!(made.to_string().len() < 16_000);
    let all = done(&toolbox, "TaskList", json!({})).await;
    assert!(all.to_string().len() < 16_000);
    let shown = all["result"].as_array().unwrap();
    assert_eq!(all["left"], 10_000 - shown.len());
    assert_eq!(shown[30]["blockedBy"].as_array().unwrap().len(), 10);
    assert_eq!(shown[30]["blockedByLeft"], 20);
    assert_eq!(
        list(&toolbox, json!({"offset": 9_998, "limit": 5})).await,
        ["9999 pending", "10000 pending"]
    );
    for id in 1..=3 {
        update(&toolbox, json!({"taskId": id, "status": "completed"})).await;
    }
    update(&toolbox, json!({"taskId": 4, "status": "deleted"})).await;
    assert_eq!(
        list(&toolbox, json!({"limit": 2, "offset": 2})).await,
        ["3 completed", "5 pending"]
    );
    let completed = json!({"status": "completed", "limit": "1", "offset": 1});
    let completed = done(&toolbox, "TaskList", completed).await;
    assert_eq!(completed["result"][0]["id"], "2");
    assert_eq!(completed["left"], 1);
}

#[tokio::test]
async fn what_is_said_of_a_task_changes_in_every_state() {
    let toolbox = three().await;
    let labels = json!({
        "taskId": 1, "activeForm": "Doing", "owner": "me", "metadata": {"a": 1, "b": {"c": 2}},
        "subject": " uno ", "description": "d",
    });
    assert_eq!(
        update(&toolbox, labels).await["updatedFields"],
        json!(["subject", "description", "owner", "activeForm", "metadata"])
    );
    assert_eq!(get(&toolbox, 1).await["subject"], "uno");
    update(&toolbox, json!({"taskId": 1, "status": "in_progress"})).await;
    update(
        &toolbox,
        json!({"taskId": 1, "description": "how far it is"}),
    )
    .await;
    update(&toolbox, json!({"taskId": 1, "status": "completed"})).await;
    let labels = json!({"taskId": 1, "owner": "", "metadata": {"a": null, "d": "x"}});
    update(&toolbox, labels).await;
    let task = get(&toolbox, 1).await;
    assert_eq!(task["metadata"], json!({"b": {"c": 2}, "d": "x"}));
    assert_eq!(task.get("owner"), None);
    assert_eq!(task["activeForm"], "Doing");
    assert_eq!(task["description"], "how far it is");
    // What is done is not described anew.
    assert_eq!(
        refused(&toolbox, "TaskUpdate", json!({"taskId": 1, "subject": "x"})).await,
        "task `1` is completed"
    );
}

#[tokio::test]
async fn dependencies_are_added_from_both_ends() {
    let toolbox = toolbox().await;
    for subject in ["one", "two", "three"] {
        done(&toolbox, "TaskCreate", json!({ "subject": subject })).await;
    }
    let edges = json!({"taskId": 2, "addBlocks": [3], "addBlockedBy": ["1", "#1"]});
    assert_eq!(
        update(&toolbox, edges.clone()).await["updatedFields"],
        json!(["blockedBy", "blocks"])
    );
    assert_eq!(update(&toolbox, edges).await["updatedFields"], json!([]));
    let task = get(&toolbox, 2).await;
    assert_eq!(
        (&task["blocks"], &task["blockedBy"]),
        (&json!(["3"]), &json!(["1"]))
    );
    for edges in [
        json!({"taskId": 1, "addBlockedBy": [3]}),
        json!({"taskId": 3, "addBlocks": [1]}),
    ] {
        let reason = refused(&toolbox, "TaskUpdate", edges).await;
        assert_eq!(reason, "the dependencies form a cycle: 1 → 3 → 2 → 1");
    }
    update(&toolbox, json!({"taskId": 1, "status": "in_progress"})).await;
    let late = json!({"taskId": 3, "addBlocks": [1]});
    assert_eq!(
        refused(&toolbox, "TaskUpdate", late).await,
        "task `1` is in_progress"
    );
}

#[tokio::test]
async fn a_bound_plan_of_another_owner_is_used_under_the_same_ids() {
    let toolbox = three().await;
    let id = PlanId::new("mine");
    let head = Head::new(id.clone(), "a goal", Time(0));
    let change = |draft: &mut Draft<'_>| {
        let task = crate::plan::NewTask {
            key: Some("k".to_owned()),
            name: "keyed".to_owned(),
            ..Default::default()
        };
        draft.add_tasks(vec![task], None).map(drop)
    };
    toolbox.store().create(head, "t", "", change).await.unwrap();
    let bound = toolbox.clone().with_plan(id);
    assert_eq!(list(&bound, json!({})).await, ["1 pending"]);
    assert_eq!(get(&bound, 1).await["subject"], "keyed");
    done(&bound, "TaskCreate", json!({"subject": "more"})).await;
    assert_eq!(list(&bound, json!({})).await.len(), 2);
    assert_eq!(list(&toolbox, json!({})).await.len(), 3);
}

#[tokio::test]
async fn two_callers_at_once_make_one_list() {
    let toolbox = toolbox().await;
    // Another dialect's plan has the name that a task list would get.
    let head = Head::new(PlanId::new("tasks"), "", Time(0));
    let made = toolbox.create(Dialect::PlanTool, head, "", |_| Ok(()));
    made.await.unwrap();
    let create = |name: &'static str| {
        let tools = TaskTools::new(toolbox.clone());
        async move { tools.create(TaskCreate::new(name, "")).await.unwrap().id }
    };
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut ids = Vec::new();
    let running: Vec<_> = names.map(|name| tokio::spawn(create(name))).into();
    for task in running {
        ids.push(task.await.unwrap());
    }
    ids.sort();
    assert_eq!(ids, ["1", "2", "3", "4", "5", "6", "7", "8"]);
}

#[tokio::test]
async fn bad_input_is_refused_and_changes_nothing() {
    let toolbox = three().await;
    update(&toolbox, json!({"taskId": 1, "status": "in_progress"})).await;
    let id = toolbox.current(Dialect::Tasks).await.unwrap();
    let state = |toolbox: Toolbox, id: PlanId| async move {
        let read = |plan: &Plan, seq| (seq, plan.rows().collect::<Vec<_>>());
        toolbox.store().read(&id, read).await.unwrap()
    };
    let before = state(toolbox.clone(), id.clone()).await;
    let huge = "x".repeat(300_000);
    let mut reasons = Vec::new();
    for (name, arguments) in [
        ("TaskCreat", json!({})),
        ("createPlan", json!({})),
        ("TaskCreate", json!([])),
        ("TaskCreate", json!({})),
        ("TaskCreate", json!({"subject": ""})),
        ("TaskCreate", json!({"subject": 7})),
        ("TaskCreate", json!({"subject": huge})),
        ("TaskCreate", json!({"subject": "s", "title": "t"})),
        ("TaskCreate", json!({"subject": "s", "metadata": [1]})),
        (
            "TaskCreate",
            json!({"subject": "s", "metadata": {"k": "x".repeat(20_000)}}),
        ),
        ("TaskCreate", json!({"subject": "s", "addBlockedBy": ["9"]})),
        (
            "TaskCreate",
            json!({"subject": "s", "tasks": [{"subject": "t"}]}),
        ),
        ("TaskCreate", json!({"tasks": []})),
        ("TaskCreate", json!({"tasks": [{"description": "d"}]})),
        (
            "TaskCreate",
            json!({"tasks": [{"subject": "a", "blockedBy": [0]}]}),
        ),
        (
            "TaskCreate",
            json!({"tasks": [{"subject": "a", "blockedBy": [-1]}]}),
        ),
        (
            "TaskCreate",
            json!({"tasks": [{"subject": "a", "blockedBy": [7]}]}),
        ),
        (
            "TaskCreate",
            json!({"tasks": [{"subject": "a", "blockedBy": [2]}, {"subject": "b", "blockedBy": [1]}]}),
        ),
        (
            "TaskCreate",
            json!({"tasks": [{"subject": "a", "blockedBy": [1]}], "dry_run": true}),
        ),
        ("TaskGet", json!({})),
        ("TaskGet", json!({"taskId": "-1"})),
        ("TaskGet", json!({"taskId": "99999999999"})),
        ("TaskGet", json!({"taskId": "x".repeat(100)})),
        ("TaskGet", json!({"taskId": {"id": 1}})),
        ("TaskList", json!({"status": "done"})),
        ("TaskList", json!({"limit": -1})),
        ("TaskUpdate", json!({"status": "completed"})),
        ("TaskUpdate", json!({"taskId": 4, "status": "completed"})),
        ("TaskUpdate", json!({"taskId": 1, "status": "done"})),
        ("TaskUpdate", json!({"taskId": 1, "result": "r"})),
        ("TaskUpdate", json!({"taskId": 2, "subject": " "})),
        ("TaskUpdate", json!({"taskId": 2, "addBlockedBy": [2]})),
        ("TaskUpdate", json!({"taskId": 2, "addBlocks": [8]})),
        ("TaskUpdate", json!({"taskId": 1, "addBlockedBy": [2]})),
        (
            "TaskUpdate",
            json!({"taskId": 2, "status": "in_progress", "owner": "me"}),
        ),
    ] {
        let reason = refused(&toolbox, name, arguments).await;
        reasons.push(format!("{name}: {reason}"));
    }
    assert_eq!(state(toolbox.clone(), id).await, before);
    assert_eq!(toolbox.store().plans().await.unwrap().len(), 1);
    insta::assert_snapshot!(reasons.join("\n"), @r#"
    TaskCreat: there is no tool `TaskCreat`; is `TaskCreate` meant?
    createPlan: there is no tool `createPlan` here; the dialect `plan-manager` has it
    TaskCreate: the arguments are [], not an object
    TaskCreate: `subject` is missing; it is a text
    TaskCreate: a task needs a name
    TaskCreate: `subject` is 7, not a text
    TaskCreate: `subject` has 300000 bytes; at most 262144 fit
    TaskCreate: `title` is no field; known are activeForm, addBlockedBy, description, dry_run, metadata, owner, subject, tasks
    TaskCreate: `metadata` is [1], not an object
    TaskCreate: the metadata of a task has at most 16384 bytes, not 20008
    TaskCreate: the new task `s` depends on `9`, which does not exist
    TaskCreate: `tasks` stands alone: what a task is goes into its place in the list
    TaskCreate: a plan needs at least one task
    TaskCreate: `tasks[0].subject` is missing; it is a text
    TaskCreate: the new task `a` depends on `place 0`, which does not exist
    TaskCreate: `tasks[0].blockedBy[0]` is -1, not a whole number from 0
    TaskCreate: the new task `a` depends on `place 7`, which does not exist
    TaskCreate: the dependencies form a cycle: 1 → 2 → 1
    TaskCreate: the dependencies form a cycle: 1 → 1
    TaskGet: `taskId` is missing; it is a text or a whole number
    TaskGet: there is no task `-1`
    TaskGet: there is no task `99999999999`
    TaskGet: there is no task `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`
    TaskGet: `taskId` is {"id":1}, not a text or a whole number
    TaskList: `status` is "done", not one of pending, in_progress, completed, failed, deleted
    TaskList: `limit` is -1, not a whole number from 0
    TaskUpdate: `taskId` is missing; it is a text or a whole number
    TaskUpdate: there is no task `4`
    TaskUpdate: `status` is "done", not one of pending, in_progress, completed, failed, deleted
    TaskUpdate: `result` goes with a `status`
    TaskUpdate: a task needs a name
    TaskUpdate: the dependencies form a cycle: 2 → 2
    TaskUpdate: there is no task `8`
    TaskUpdate: task `1` is in_progress
    TaskUpdate: task `2` waits for `1`
    "#);
}

#[test]
fn words_and_states_map_onto_each_other() {
    for status in [
        TaskStatus::Pending,
        TaskStatus::InProgress,
        TaskStatus::Completed,
        TaskStatus::Failed,
        TaskStatus::Skipped,
    ] {
        assert_eq!(TaskStatus::from(TaskWord::from(status)), status);
    }
}
