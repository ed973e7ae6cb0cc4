//! The Plan Tool against a store in memory.

use serde_json::{Value, json};

use super::*;
use crate::plan::TaskState as CoreStatus;

mod create;

const STATUSES: [TaskStatus; 5] = [
    TaskStatus::Ready,
    TaskStatus::Inprogress,
    TaskStatus::Completed,
    TaskStatus::Error,
    TaskStatus::Skipped,
];

async fn toolbox() -> Toolbox {
    Toolbox::in_memory().await.unwrap()
}

async fn ask(toolbox: &Toolbox, name: &str, arguments: Value) -> ToolAnswer {
    toolbox.call(Dialect::PlanTool, name, arguments).await
}

/// Calls a tool that is to succeed.
async fn done(toolbox: &Toolbox, name: &str, arguments: Value) -> Value {
    let answer = ask(toolbox, name, arguments).await;
    assert!(answer.success, "{name}: {}", answer.value);
    answer.value
}

/// Calls a tool that is to decline, and returns what it answers instead and why.
async fn declined(toolbox: &Toolbox, name: &str, arguments: Value) -> (Value, String) {
    let mut answer = ask(toolbox, name, arguments).await;
    assert!(!answer.success, "{name}: {}", answer.value);
    let reason = answer.value["reason"].as_str().unwrap().to_owned();
    (answer.value["result"].take(), reason)
}

fn release() -> Value {
    json!({
        "name": "Release", "description": "Ship it", "workflow_template_source": "SOP_v9.0",
        "steps": [
            {"step_id": "s1", "name": "Build", "tasks": [
                {"task_id": "code", "name": "Code", "assignee": "dev", "description": "Write it"},
                {"task_id": "测试", "name": "Test", "assignee": "qa", "description": "Try it", "dependencies": ["code"]},
            ]},
            {"step_id": "s2", "name": "Ship", "tasks": [
                {"task_id": "news", "name": "News", "assignee": "dev", "description": "", "optional": true},
            ]},
        ],
    })
}

async fn made() -> Toolbox {
    let toolbox = toolbox().await;
    let arguments = json!({"plan_id": "r1", "structure_data": release()});
    let answer = done(&toolbox, "create_plan_from_structure", arguments).await;
    assert_eq!(answer, json!({"result": true, "plan_id": "r1"}));
    toolbox
}

async fn update(toolbox: &Toolbox, task: &str, status: &str, summary: Option<&str>) -> bool {
    let mut arguments = json!({"plan_id": "r1", "task_id": task, "status": status});
    if let Some(summary) = summary {
        arguments["result_summary"] = summary.into();
    }
    let answer = ask(toolbox, "update_task_status", arguments).await;
    assert_eq!(answer.success, answer.value["result"] == true);
    answer.success
}

async fn task(toolbox: &Toolbox, task: &str) -> (String, Value) {
    let arguments = json!({"plan_id": "r1", "task_id": task});
    let mut task = done(toolbox, "get_task", arguments).await["result"].take();
    let status = task["status"].as_str().unwrap().to_owned();
    (status, task["result_summary"].take())
}

async fn plan_status(toolbox: &Toolbox) -> Value {
    done(toolbox, "get_plan_status", json!({"plan_id": "r1"})).await["result"].take()
}

async fn ids(toolbox: &Toolbox, name: &str, arguments: Value) -> Vec<String> {
    let tasks = done(toolbox, name, arguments).await["result"].take();
    let tasks = tasks.as_array().unwrap().iter();
    tasks
        .map(|task| task["task_id"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns everything of the plan, to be compared.
async fn state(toolbox: &Toolbox) -> (i64, Vec<crate::plan::Row>) {
    let read = |plan: &Plan, seq| (seq, plan.rows().collect::<Vec<_>>());
    let plan = PlanId::new("r1");
    toolbox.store().read(&plan, read).await.unwrap()
}

#[tokio::test]
async fn status_transitions_follow_table() {
    for from in STATUSES {
        for to in STATUSES {
            let toolbox = made().await;
            if from != TaskStatus::Ready {
                assert!(update(&toolbox, "code", &word(&from), Some("first")).await);
            }
            let before = state(&toolbox).await;
            let allowed = match from {
                TaskStatus::Ready | TaskStatus::Inprogress => true,
                TaskStatus::Error => to != TaskStatus::Completed,
                TaskStatus::Completed | TaskStatus::Skipped => from == to,
            };
            let updated = update(&toolbox, "code", &word(&to), Some("second")).await;
            assert_eq!(updated, allowed, "{from:?} to {to:?}");
            let (status, summary) = task(&toolbox, "code").await;
            if !allowed || from == to {
                assert_eq!(state(&toolbox).await, before, "{from:?} to {to:?}");
                assert_eq!(status, word(&from));
            } else {
                assert_eq!((status, summary), (word(&to), json!("second")));
            }
        }
    }
}

#[tokio::test]
async fn tasks_go_from_status_to_status() {
    let table = r#"
        == omitted_summary_is_kept: a release
        get_task {"task_id": "code"} =~ {"status": "ready", "result_summary": null}
        update_task_status {"task_id": "code", "status": "inprogress", "result_summary": "begun"}
        get_task {"task_id": "code"} =~ {"status": "inprogress", "result_summary": "begun"}
        update_task_status {"task_id": "code", "status": "error"}
        get_task {"task_id": "code"} =~ {"status": "error", "result_summary": "begun"}
        update_task_status {"task_id": "code", "status": "ready"}
        get_task {"task_id": "code"} =~ {"status": "ready", "result_summary": "begun"}
        update_task_status {"task_id": "code", "status": "error", "result_summary": "no disk"}
        get_task {"task_id": "code"} =~ {"status": "error", "result_summary": "no disk"}
        update_task_status {"task_id": "code", "status": "inprogress"}
        get_task {"task_id": "code"} =~ {"status": "inprogress", "result_summary": "no disk"}
        update_task_status {"task_id": "code", "status": "completed"}
        get_task {"task_id": "code"} =~ {"status": "completed", "result_summary": "no disk"}
        update_task_status {"task_id": "code", "status": "completed", "result_summary": "another"}
        get_task {"task_id": "code"} =~ {"status": "completed", "result_summary": "no disk"}

        == required_task_needs_skip_reason: a release
        ! update_task_status {"task_id": "code", "status": "skipped"}
        ! update_task_status {"task_id": "code", "status": "skipped", "result_summary": " "}
        update_task_status {"task_id": "code", "status": "skipped", "result_summary": "not needed"}
        update_task_status {"task_id": "news", "status": "skipped"}
        ! update_task_status {"task_id": "测试", "status": "skipped"} => task `测试` is not optional: say in result_summary why it is skipped

        == plan_status_follows_tasks: a release
        update_task_status {"task_id": "code", "status": "error"}
        get_plan_status => "running"
        update_task_status {"task_id": "测试", "status": "completed"}
        get_plan_status => "running"
        update_task_status {"task_id": "news", "status": "skipped"}
        get_plan_status => "error"
        update_task_status {"task_id": "code", "status": "inprogress"}
        get_plan_status => "running"
        update_task_status {"task_id": "code", "status": "error"}
        get_plan_status => "error"
        update_task_status {"task_id": "code", "status": "ready"}
        get_plan_status => "running"
        update_task_status {"task_id": "code", "status": "completed"}
        get_plan_status => "completed"
        get_plan_structure =~ {"completion_time": "…Z"}

        == finds_tasks_by_role_and_status: a release
        get_tasks_for_role {"plan_id": "r1", "role_id": "dev"} =~ [{"task_id": "code"}, {"task_id": "news"}]
        update_task_status {"plan_id": "r1", "task_id": "code", "status": "inprogress"}
        get_tasks_for_role {"plan_id": "r1", "role_id": "dev"} =~ [{"task_id": "news"}]
        get_tasks_for_role {"plan_id": "r1", "role_id": "dev", "status": "inprogress"} =~ [{"task_id": "code"}]
        get_tasks_for_role {"plan_id": "r1", "role_id": "qa", "status": "ready"} =~ [{"task_id": "测试"}]
        get_tasks_for_role {"plan_id": "r1", "role_id": "nobody"} => []

        == daemon_plan_needs_explicit_name: a daemon's
        ! get_plan_status => there is no plan yet
        get_plan_status {"plan_id": "daemons"} => "running"
        update_task_status {"plan_id": "daemons", "task_id": "2", "status": "skipped", "result_summary": "not needed"}
        ! update_task_status {"plan_id": "daemons", "task_id": "1", "status": "inprogress"}
        ! update_task_status {"plan_id": "daemons", "task_id": "1", "status": "completed"}
        ! update_task_status {"plan_id": "daemons", "task_id": "1", "status": "error"}
        ! delete_plan {"plan_id": "daemons"} => the plan is running

        == plan_tool_declines_bad_input: a release
        update_task_status {"task_id": "code", "status": "completed"}
        ! get_tasks => there is no tool `get_tasks`; is `get_task` meant?
        ! TaskList => there is no tool `TaskList` here; the dialect `tasks` has it
        ! get_task => `task_id` is missing; it is a text
        ! get_task {"task_id": "nobody"} => there is no task `nobody`
        ! get_task {"task_id": 1} => `task_id` is 1, not a text
        ! get_task {"task_id": "code", "plan": "r1"} => `plan` is no field; known are limit, offset, plan_id, task_id
        ! update_task_status {"task_id": "code"} => `status` is missing; it is one of ready, inprogress, completed, error, skipped
        ! update_task_status {"task_id": "code", "status": "in_progress"} => `status` is "in_progress", not one of ready, inprogress, completed, error, skipped
        ! update_task_status {"task_id": "code", "status": "ready"} => task `code` is completed, which is final; it cannot become ready
        ! update_task_status {"task_id": "nobody", "status": "ready"} => there is no task `nobody`
        ! update_task_status {"task_id": "测试", "status": "completed", "result_summary": "$x300000"} => `result_summary` has 300000 bytes; at most 262144 fit
        ! get_ready_tasks {"limit": -1} => `limit` is -1, not a whole number from 0
        ! get_ready_tasks {"offset": "many"} => `offset` is "many", not a whole number from 0
        ! get_tasks_for_role => `role_id` is missing; it is a text
        ! get_tasks_for_role {"role_id": "dev", "status": "todo"} => `status` is "todo", not one of ready, inprogress, completed, error, skipped
        ! get_plan_status {"plan_id": {"id": 1}} => `plan_id` is {"id":1}, not a text
        ! get_plan_structure [1] => the arguments are [1], not an object
        ! delete_plan {"plan_id": "$x1000"} => there is no plan `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`
    "#;
    let given = async |given: &str| match given {
        "a release" => made().await,
        _ => {
            let toolbox = toolbox().await;
            crate::tools::tests::of_a_daemon(&toolbox, &["Code", "Code"]).await;
            toolbox
        }
    };
    crate::tools::tests::cases(Dialect::PlanTool, given, table).await;
}

#[tokio::test]
async fn deleted_plan_frees_its_id() {
    let toolbox = made().await;
    update(&toolbox, "code", "completed", None).await;
    let deleted = done(&toolbox, "delete_plan", json!({"plan_id": "r1"})).await;
    assert_eq!(deleted, json!({"result": true}));
    let unknown = "there is no plan `r1`";
    let r1 = |more: Value| {
        let mut arguments = json!({"plan_id": "r1"});
        (arguments.as_object_mut().unwrap()).extend(more.as_object().cloned().unwrap());
        arguments
    };
    let update = json!({"task_id": "code", "status": "ready"});
    for (name, more, otherwise) in [
        ("get_task", json!({"task_id": "code"}), json!(null)),
        ("update_task_status", update, json!(false)),
        ("get_ready_tasks", json!({}), json!([])),
        ("get_tasks_for_role", json!({"role_id": "dev"}), json!([])),
        ("get_plan_status", json!({}), json!(null)),
        ("get_plan_structure", json!({}), json!(null)),
        ("delete_plan", json!({}), json!(false)),
    ] {
        let answer = declined(&toolbox, name, r1(more)).await;
        assert_eq!(answer, (otherwise, unknown.to_owned()), "{name}");
    }
    let nothing = declined(&toolbox, "get_plan_status", json!({})).await;
    assert_eq!(nothing, (Value::Null, "there is no plan yet".to_owned()));
    // What happened to it is still known.
    let plan = PlanId::new("r1");
    let log = toolbox.store().since(&plan, 0, 10).await.unwrap();
    let why: Vec<&str> = log.iter().map(|change| change.why.as_str()).collect();
    let [made, updated] = ["create_plan_from_structure", "update_task_status code"];
    assert_eq!(why, [made, updated, "delete_plan"]);
    let again = json!({"plan_id": "r1", "structure_data": release()});
    done(&toolbox, "create_plan_from_structure", again).await;
    assert_eq!(task(&toolbox, "code").await.0, "ready");
    let structure = done(&toolbox, "get_plan_structure", json!({})).await;
    assert_eq!(structure["result"]["plan_id"], "r1");
}

#[tokio::test]
async fn plan_tool_answers_are_bounded() {
    let toolbox = toolbox().await;
    let long = "文".repeat(2000);
    let step = |n: usize| {
        // As many long texts would make the whole test slow: the first hundred show it.
        let (step, name, text) = match n {
            0..100 => (format!("{n}{long}"), long.as_str(), long.as_str()),
            _ => ("rest".to_owned(), "Rest", "d"),
        };
        json!({"step_id": step, "name": name, "tasks": [
            {"task_id": n.to_string(), "name": format!("Task {n}"), "assignee": "dev", "description": text},
        ]})
    };
    let steps: Vec<Value> = (0..10_000).map(step).collect();
    let structure = json!({"name": long, "description": long, "workflow_template_source": long, "steps": steps});
    let arguments = json!({"plan_id": "r1", "structure_data": structure});
    done(&toolbox, "create_plan_from_structure", arguments).await;
    for (name, arguments) in [
        ("get_ready_tasks", json!({})),
        ("get_tasks_for_role", json!({"role_id": "dev"})),
        ("get_plan_structure", json!({})),
        ("get_plan_structure", json!({"offset": 5000})),
    ] {
        let answer = done(&toolbox, name, arguments).await;
        let size = answer.to_string().len();
        assert!(size < 16_000, "{name}: {size}");
        assert!(answer["left"].as_u64().unwrap() > 4900);
    }
    let rest = json!({"limit": 3, "offset": 9_998});
    let wanted = ["9998", "9999"];
    assert_eq!(ids(&toolbox, "get_ready_tasks", rest).await, wanted);
    let full = done(&toolbox, "get_task", json!({"task_id": "0"})).await;
    assert_eq!(full["result"]["description"], long);
}

#[tokio::test]
async fn plan_tool_pages_dependencies() {
    let toolbox = toolbox().await;
    let key = |n: usize| format!("{n:03}{}", "文".repeat(120));
    let keys: Vec<String> = (0..200).map(key).collect();
    let task = |key: &String| json!({"task_id": key, "name": "Task", "assignee": "dev", "description": ""});
    let mut tasks: Vec<Value> = keys.iter().map(task).collect();
    let last = json!({"task_id": "last", "name": "L", "assignee": "", "description": "", "dependencies": keys});
    tasks.push(last);
    let steps = json!([{"step_id": "s", "name": "S", "tasks": tasks}]);
    let arguments = json!({"structure_data": {"name": "P", "steps": steps}});
    done(&toolbox, "create_plan_from_structure", arguments).await;
    let mut seen = Vec::new();
    while seen.len() < keys.len() {
        let page = json!({"task_id": "last", "offset": seen.len()});
        let answer = done(&toolbox, "get_task", page).await;
        assert!(answer.to_string().len() < 16_000);
        let shown = answer["result"]["dependencies"].as_array().unwrap();
        seen.extend(shown.iter().map(|key| key.as_str().unwrap().to_owned()));
        let left = answer["result"]["dependencies_left"].as_u64().unwrap_or(0);
        assert_eq!(u64::try_from(keys.len() - seen.len()).unwrap(), left);
    }
    assert_eq!(seen, keys);
}

#[tokio::test]
async fn library_returns_documented_values() {
    let plans = PlanTool::new(toolbox().await);
    let structure: Structure = serde_json::from_value(release()).unwrap();
    let create = |structure: Structure| plans.create_plan_from_structure("r1", structure);
    assert!(create(structure.clone()).await.unwrap());
    assert!(!create(structure.clone()).await.unwrap());
    let reason = plans.check_structure("r1", structure.clone()).await;
    assert_eq!(reason.unwrap_err(), "the plan id `r1` is taken");
    plans.check_structure("r2", structure).await.unwrap();
    let task = plans.get_task(Some("r1"), "code").await.unwrap().unwrap();
    let wanted = ("Code", TaskStatus::Ready);
    assert_eq!((task.name.as_str(), task.status), wanted);
    assert_eq!(plans.get_task(Some("r1"), "nobody").await.unwrap(), None);
    assert_eq!(plans.get_task(Some("r2"), "code").await.unwrap(), None);
    let update = |task, status| plans.update_task_status(Some("r1"), task, status, None);
    assert!(update("code", TaskStatus::Completed).await.unwrap());
    assert!(!update("code", TaskStatus::Ready).await.unwrap());
    assert!(!update("nobody", TaskStatus::Ready).await.unwrap());
    assert_eq!(plans.get_ready_tasks(None).await.unwrap().len(), 2);
    assert_eq!(plans.get_ready_tasks(Some("r2")).await.unwrap(), []);
    let of_role = plans.get_tasks_for_role(Some("r1"), "dev", TaskStatus::Completed);
    assert_eq!(of_role.await.unwrap()[0].task_id, "code");
    let status = plans.get_plan_status(Some("r1")).await.unwrap();
    assert_eq!(status, Some(PlanStatus::Running));
    assert_eq!(plans.get_plan_status(Some("r2")).await.unwrap(), None);
    let structure = plans.get_plan_structure(Some("r1"), Page::default());
    let structure = structure.await.unwrap();
    assert_eq!(structure.unwrap().0.steps.len(), 2);
    let other = plans.get_plan_structure(Some("r2"), Page::default());
    assert_eq!(other.await.unwrap(), None);
    assert!(plans.delete_plan(Some("r1")).await.unwrap());
    assert!(!plans.delete_plan(Some("r1")).await.unwrap());
}

#[tokio::test]
async fn concurrent_callers_lose_no_update() {
    let toolbox = toolbox().await;
    let tasks: Vec<Value> = (0..64)
        .map(|n| json!({"task_id": n.to_string(), "name": "T", "assignee": "", "description": ""}))
        .collect();
    let structure = json!({"name": "n", "steps": [{"step_id": "s", "name": "", "tasks": tasks}]});
    let arguments = json!({"plan_id": "r1", "structure_data": structure});
    done(&toolbox, "create_plan_from_structure", arguments).await;
    let callers = (0..8).map(|caller| {
        let toolbox = toolbox.clone();
        tokio::spawn(async move {
            for task in (caller..64).step_by(8) {
                assert!(update(&toolbox, &task.to_string(), "inprogress", None).await);
                assert!(update(&toolbox, &task.to_string(), "completed", None).await);
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    assert_eq!(plan_status(&toolbox).await, "completed");
    assert_eq!(state(&toolbox).await.0, 1 + 128);
}

#[tokio::test]
async fn plans_persist_across_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plans.db");
    let before = PlanTool::new(Toolbox::open(&file, "one").await.unwrap());
    let structure: Structure = serde_json::from_value(release()).unwrap();
    let made = before.create_plan_from_structure("r1", structure);
    assert!(made.await.unwrap());
    let done = before.update_task_status(Some("r1"), "code", TaskStatus::Completed, Some("done"));
    assert!(done.await.unwrap());
    drop(before);
    let after = PlanTool::new(Toolbox::open(&file, "two").await.unwrap());
    let task = after.get_task(None, "code").await.unwrap().unwrap();
    assert_eq!(task.status, TaskStatus::Completed);
    assert_eq!(task.result_summary.as_deref(), Some("done"));
}

#[test]
fn plan_tool_states_map_to_core() {
    for status in STATUSES {
        assert_eq!(TaskStatus::from(CoreStatus::from(status)), status);
    }
    let plan = |status| json!(PlanStatus::from(&status));
    use crate::plan::PlanState as Core;
    for status in [Core::Idle, Core::Running, Core::Paused(String::new())] {
        assert_eq!(plan(status), "running");
    }
    assert_eq!(plan(Core::Completed), "completed");
    assert_eq!(plan(Core::Failed), "error");
    assert_eq!(plan(Core::Abandoned), "error");
}
