//! The task tools against a store in memory.

use serde_json::{Value, json};

use super::*;
use crate::plan::{ArchiveState, TaskState};

async fn toolbox() -> Toolbox {
    Toolbox::in_memory().await.unwrap()
}

/// Calls tools in turn and checks what they answer.
async fn run(toolbox: &Toolbox, calls: &str) {
    crate::tools::tests::run(toolbox, Dialect::Tasks, calls).await;
}

/// Runs cases. Given are three tasks one after the other, or nothing.
async fn cases(cases: &str) {
    let given = async |given: &str| match given {
        "nothing" => toolbox().await,
        _ => three().await,
    };
    crate::tools::tests::cases(Dialect::Tasks, given, cases).await;
}

/// Calls a tool that is to succeed.
async fn done(toolbox: &Toolbox, name: &str, arguments: Value) -> Value {
    let answer = toolbox.call(Dialect::Tasks, name, arguments).await;
    assert!(answer.success, "{}", answer.value);
    answer.value
}

/// Calls a tool that is to refuse, and returns the reason.
async fn refused(toolbox: &Toolbox, name: &str, arguments: Value) -> String {
    let answer = toolbox.call(Dialect::Tasks, name, arguments).await;
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
    let lines = lines.as_array().unwrap().iter();
    let word = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let line = |line| format!("{} {}", word(line, "id"), word(line, "status"));
    lines.map(line).collect()
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

#[tokio::test]
async fn task_create_makes_several_tasks_in_one_change() {
    let toolbox = three().await;
    let calls = r#"
        TaskGet {"taskId": 3} =~ {"blockedBy": ["1", "2"]}
        TaskCreate {"tasks": [{"subject": "four", "blockedBy": ["2"], "addBlockedBy": [3]}, {"subject": "five"}]} => [{"id": "4", "subject": "four"}, {"id": "5", "subject": "five"}]
        TaskGet {"taskId": 4} =~ {"blockedBy": ["3", "5"]}
    "#;
    run(&toolbox, calls).await;
    let plan = toolbox.current(Dialect::Tasks).await.unwrap();
    assert_eq!(toolbox.store().since(&plan, 0, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn task_create_dry_run_makes_nothing() {
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
async fn task_tools_refuse_deleted_plan() {
    let toolbox = three().await;
    let plan = toolbox.current(Dialect::Tasks).await.unwrap();
    let delete = |draft: &mut Draft<'_>| draft.archive(ArchiveState::Deleted);
    let deleted = toolbox.store().change(&plan, "", "", delete);
    deleted.await.unwrap();
    let calls = r#"
        ! TaskCreate {"subject": "four"} => the plan was deleted
        ! TaskUpdate {"taskId": 1, "status": "completed"} => the plan was deleted
        ! TaskUpdate {"taskId": 1, "subject": "other"} => the plan was deleted
    "#;
    run(&toolbox.with_plan(plan), calls).await;
}

#[tokio::test]
async fn task_get_pages_blockers_and_dependants() {
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
    let wanted = (&texts(1..=100), &texts(252..=351));
    assert_eq!((&first["blockedBy"], &first["blocks"]), wanted);
    let wanted = (&json!(150), &json!(20));
    assert_eq!((&first["blockedByLeft"], &first["blocksLeft"]), wanted);
    let last = page(json!({"taskId": 251, "offset": "100", "limit": 200})).await;
    let wanted = (&texts(101..=250), &texts(352..=371));
    assert_eq!((&last["blockedBy"], &last["blocks"]), wanted);
    let wanted = (None, None);
    assert_eq!((last.get("blockedByLeft"), last.get("blocksLeft")), wanted);
    refused(&toolbox, "TaskGet", json!({"taskId": 251, "limit": -1})).await;
}

#[tokio::test]
async fn task_list_is_filtered_paged_and_bounded() {
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
    let last = list(&toolbox, json!({"offset": 9_998, "limit": 5})).await;
    assert_eq!(last, ["9999 pending", "10000 pending"]);
    for id in 1..=3 {
        update(&toolbox, json!({"taskId": id, "status": "completed"})).await;
    }
    update(&toolbox, json!({"taskId": 4, "status": "deleted"})).await;
    let page = list(&toolbox, json!({"limit": 2, "offset": 2})).await;
    assert_eq!(page, ["3 completed", "5 pending"]);
    let completed = json!({"status": "completed", "limit": "1", "offset": 1});
    let completed = done(&toolbox, "TaskList", completed).await;
    assert_eq!(completed["result"][0]["id"], "2");
    assert_eq!(completed["left"], 1);
}

#[tokio::test]
async fn bound_plan_of_other_owner_keeps_ids() {
    let toolbox = three().await;
    let id = PlanId::new("mine");
    let head = PlanHead::new(id.clone(), "a goal", Time(0));
    let change = |draft: &mut Draft<'_>| {
        let task = crate::plan::TaskSpec {
            key: Some("k".to_owned()),
            ..crate::plan::tests::testing::task("keyed", &[])
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
async fn concurrent_callers_make_one_list() {
    let toolbox = toolbox().await;
    // Another owner's plan has the name that a task list would get.
    let head = PlanHead::new(PlanId::new("tasks"), "", Time(0));
    let made = toolbox.store().create(head, "plan-tool", "", |_| Ok(()));
    made.await.unwrap();
    let create = |name: &'static str| {
        let toolbox = toolbox.clone();
        async move {
            let made = done(&toolbox, "TaskCreate", json!({ "subject": name })).await;
            made["result"]["id"].as_str().unwrap().to_owned()
        }
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

#[test]
fn task_words_map_to_core() {
    for status in TaskState::ALL {
        let word = json!(TaskWord(status));
        let expected = match status {
            TaskState::Skipped => "deleted",
            status => status.as_str(),
        };
        assert_eq!(word, expected);
        assert_eq!(serde_json::from_value(word).ok(), Some(TaskWord(status)));
    }
}

#[tokio::test]
async fn the_task_list_is_kept() {
    let table = r##"
        == first_task_creates_list_with_numeric_ids: nothing
        TaskList => []
        TaskCreate {"subject": "Fix it", "description": "d", "activeForm": "Fixing it"} => {"id": "1", "subject": "Fix it"}
        TaskCreate {"subject": "Test it", "owner": "me", "metadata": {"k": [1]}, "addBlockedBy": ["1"]}
        TaskList null => [{"id": "1", "subject": "Fix it", "status": "pending", "blockedBy": []}, {"id": "2", "subject": "Test it", "status": "pending", "owner": "me", "blockedBy": ["1"]}]
        TaskGet {"taskId": 1} => {"id": "1", "subject": "Fix it", "description": "d", "status": "pending", "activeForm": "Fixing it", "blocks": ["2"], "blockedBy": []}
        TaskGet {"taskId": 2} => {"id": "2", "subject": "Test it", "description": "", "status": "pending", "owner": "me", "metadata": {"k": [1]}, "blocks": [], "blockedBy": ["1"]}

        == task_goes_from_pending_to_completed: three
        TaskUpdate {"taskId": "1", "status": "in_progress", "owner": "me"} => {"taskId": "1", "updatedFields": ["owner", "status"], "statusChange": {"from": "pending", "to": "in_progress"}}
        = running
        // The same again changes nothing; a task may also end without a word in between.
        TaskUpdate {"taskId": 1, "status": "completed", "result": "it works"}
        TaskGet {"taskId": 1} =~ {"result": "it works"}
        TaskUpdate {"taskId": 1, "status": "completed", "result": "it works"} => {"taskId": "1", "updatedFields": []}
        TaskUpdate {"taskId": "#2", "status": "completed"}
        TaskUpdate {"taskId": 3, "status": "completed"}
        = completed

        == waiting_task_cannot_start_or_complete: three
        ! TaskUpdate {"taskId": "3", "status": "in_progress", "subject": "x"} => task `3` waits for `1`, `2`
        ! TaskUpdate {"taskId": "3", "status": "completed", "subject": "x"} => task `3` waits for `1`, `2`
        ! TaskUpdate {"taskId": "3", "status": "failed", "subject": "x"} => task `3` waits for `1`, `2`

        == deleted_task_is_hidden_and_blocks_nothing: three
        // Also one in progress, and a completed one.
        TaskUpdate {"taskId": 1, "status": "deleted"}
        TaskList =~ [{"id": "2", "status": "pending"}, {"id": "3", "status": "pending"}]
        TaskList {"status": "deleted"} =~ [{"id": "1", "status": "deleted"}]
        TaskGet {"taskId": 1} =~ {"status": "deleted", "result": "deleted"}
        TaskUpdate {"taskId": 2, "status": "in_progress"}
        TaskUpdate {"taskId": 2, "status": "deleted", "result": "not needed"}
        TaskUpdate {"taskId": 3, "status": "completed"}
        TaskUpdate {"taskId": 3, "status": "deleted"}
        TaskList => []
        TaskUpdate {"taskId": 2, "status": "pending"}
        TaskList =~ [{"id": "2", "status": "pending"}]

        == task_texts_change_in_every_state: three
        // What is done is not described anew.
        TaskUpdate {"taskId": 1, "activeForm": "Doing", "owner": "me", "metadata": {"a": 1, "b": {"c": 2}}, "subject": " uno ", "description": "d"} =~ {"updatedFields": ["subject", "description", "owner", "activeForm", "metadata"]}
        TaskGet {"taskId": 1} =~ {"subject": "uno"}
        TaskUpdate {"taskId": 1, "status": "in_progress"}
        TaskUpdate {"taskId": 1, "description": "how far it is"}
        TaskUpdate {"taskId": 1, "status": "completed"}
        TaskUpdate {"taskId": 1, "owner": "", "metadata": {"a": null, "d": "x"}}
        TaskGet {"taskId": 1} => {"id": "1", "subject": "uno", "description": "how far it is", "status": "completed", "activeForm": "Doing", "metadata": {"b": {"c": 2}, "d": "x"}, "blocks": ["2", "3"], "blockedBy": []}
        ! TaskUpdate {"taskId": 1, "subject": "x"} => task `1` is completed

        == dependencies_are_added_from_both_sides: nothing
        TaskCreate {"subject": "one"}
        TaskCreate {"subject": "two"}
        TaskCreate {"subject": "three"}
        TaskUpdate {"taskId": 2, "addBlocks": [3], "addBlockedBy": ["1", "#1"]} =~ {"updatedFields": ["blockedBy", "blocks"]}
        TaskUpdate {"taskId": 2, "addBlocks": [3], "addBlockedBy": ["1", "#1"]} =~ {"updatedFields": []}
        TaskGet {"taskId": 2} =~ {"blocks": ["3"], "blockedBy": ["1"]}
        ! TaskUpdate {"taskId": 1, "addBlockedBy": [3]} => the dependencies form a cycle: 1 → 3 → 2 → 1
        ! TaskUpdate {"taskId": 3, "addBlocks": [1]} => the dependencies form a cycle: 1 → 3 → 2 → 1
        TaskUpdate {"taskId": 1, "status": "in_progress"}
        ! TaskUpdate {"taskId": 3, "addBlocks": [1]} => task `1` is in progress

        == task_error_names_field_and_new_task: three
        ! TaskCreate {"subject": "s", "activeForm": "$x20000"} => `activeForm` has 20000 bytes; at most 4096 fit
        ! TaskCreate {"tasks": [{"subject": "s"}, {"subject": "s", "activeForm": "$x20000"}]} => `tasks[1].activeForm` has 20000 bytes; at most 4096 fit
        ! TaskUpdate {"taskId": 1, "activeForm": "$x20000"} => `activeForm` has 20000 bytes; at most 4096 fit
        ! TaskCreate {"subject": "Bake", "addBlockedBy": [77]} => the new task `Bake` depends on `77`, which does not exist
        ! TaskCreate {"tasks": [{"subject": "Knead"}, {"subject": "Bake", "blockedBy": [3]}]} => the new task `Bake` at place 2 depends on `place 3`, which does not exist
        ! TaskUpdate {"taskId": 1, "addBlockedBy": [77]} => task `1` depends on `77`, which does not exist

        == task_tools_reject_bad_input: three
        TaskUpdate {"taskId": 1, "status": "in_progress"}
        ! TaskCreat => there is no tool `TaskCreat`; is `TaskCreate` meant?
        ! createPlan => there is no tool `createPlan` here; the dialect `plan-manager` has it
        ! TaskCreate [] => the arguments are [], not an object
        ! TaskCreate => `subject` is missing; it is a text
        ! TaskCreate {"subject": ""} => a task needs a name
        ! TaskCreate {"subject": 7} => `subject` is 7, not a text
        ! TaskCreate {"subject": "$x300000"} => `subject` has 300000 bytes; at most 262144 fit
        ! TaskCreate {"subject": "s", "title": "t"} => `title` is no field; known are activeForm, addBlockedBy, description, dry_run, metadata, owner, subject, tasks
        ! TaskCreate {"subject": "s", "metadata": [1]} => `metadata` is [1], not an object
        ! TaskCreate {"subject": "s", "metadata": {"k": "$x20000"}} => the metadata of a task has at most 16384 bytes, not 20008
        ! TaskCreate {"subject": "s", "addBlockedBy": ["9"]} => the new task `s` depends on `9`, which does not exist
        ! TaskCreate {"subject": "s", "tasks": [{"subject": "t"}]} => `tasks` stands alone: what a task is goes into its place in the list
        ! TaskCreate {"tasks": []} => a plan needs at least one task
        ! TaskCreate {"tasks": [{"description": "d"}]} => `tasks[0].subject` is missing; it is a text
        ! TaskCreate {"tasks": [{"subject": "a", "blockedBy": [0]}]} => the new task `a` depends on `place 0`, which does not exist
        ! TaskCreate {"tasks": [{"subject": "a", "blockedBy": [-1]}]} => `tasks[0].blockedBy[0]` is -1, not a whole number from 0
        ! TaskCreate {"tasks": [{"subject": "a", "blockedBy": [7]}]} => the new task `a` depends on `place 7`, which does not exist
        ! TaskCreate {"tasks": [{"subject": "a", "blockedBy": [2]}, {"subject": "b", "blockedBy": [1]}]} => the dependencies form a cycle: 1 → 2 → 1
        ! TaskCreate {"tasks": [{"subject": "a", "blockedBy": [1]}], "dry_run": true} => the dependencies form a cycle: 1 → 1
        ! TaskGet => `taskId` is missing; it is a text or a whole number
        ! TaskGet {"taskId": "-1"} => there is no task `-1`
        ! TaskGet {"taskId": "99999999999"} => there is no task `99999999999`
        ! TaskGet {"taskId": "$x100"} => there is no task `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`
        ! TaskGet {"taskId": {"id": 1}} => `taskId` is {"id":1}, not a text or a whole number
        ! TaskList {"status": "done"} => `status` is "done", not one of pending, in_progress, completed, failed, deleted
        ! TaskList {"limit": -1} => `limit` is -1, not a whole number from 0
        ! TaskUpdate {"status": "completed"} => `taskId` is missing; it is a text or a whole number
        ! TaskUpdate {"taskId": 4, "status": "completed"} => there is no task `4`
        ! TaskUpdate {"taskId": 1, "status": "done"} => `status` is "done", not one of pending, in_progress, completed, failed, deleted
        ! TaskUpdate {"taskId": 1, "result": "r"} => `result` goes with a `status`
        ! TaskUpdate {"taskId": 2, "subject": " "} => a task needs a name
        ! TaskUpdate {"taskId": 2, "addBlockedBy": [2]} => the dependencies form a cycle: 2 → 2
        ! TaskUpdate {"taskId": 2, "addBlocks": [8]} => there is no task `8`
        ! TaskUpdate {"taskId": 1, "addBlockedBy": [2]} => task `1` is in progress
        ! TaskUpdate {"taskId": 2, "status": "in_progress", "owner": "me"} => task `2` waits for `1`

        == task_result_is_kept_and_replaceable: three
        TaskUpdate {"taskId": 1, "status": "completed", "result": "precious"}
        TaskUpdate {"taskId": 1, "status": "deleted"}
        TaskUpdate {"taskId": 1, "status": "completed"}
        TaskGet {"taskId": 1} =~ {"result": "precious"}
        TaskUpdate {"taskId": 1, "status": "completed", "result": "more"} =~ {"updatedFields": ["result"]}
        TaskGet {"taskId": 1} =~ {"result": "more"}
        TaskUpdate {"taskId": 2, "status": "deleted"}
        TaskUpdate {"taskId": 2, "status": "completed"}
        // Of a task that was deleted before anything came of it, nothing has come.
        TaskGet {"taskId": 2} =~ {"result": null}

        == settled_task_can_be_reopened: three
        TaskUpdate {"taskId": 1, "status": "completed", "result": "r"}
        TaskUpdate {"taskId": 2, "status": "completed", "result": "r"}
        TaskUpdate {"taskId": 3, "status": "completed", "result": "r"}
        TaskUpdate {"taskId": 2, "status": "in_progress", "description": "anew"} => {"taskId": "2", "updatedFields": ["description", "status"], "statusChange": {"from": "completed", "to": "in_progress"}}
        TaskGet {"taskId": 2} =~ {"result": null}
        // A list that has ended goes on with the next task.
        TaskUpdate {"taskId": 2, "status": "pending"}
        = running
        TaskUpdate {"taskId": 2, "status": "failed", "result": "no"}
        = failed
        TaskUpdate {"taskId": 2, "status": "completed"}
        = completed
        TaskCreate {"subject": "four"}
        = running
        TaskGet {"taskId": 4} =~ {"status": "pending"}
        = running
        "##;
    cases(table).await;
}
