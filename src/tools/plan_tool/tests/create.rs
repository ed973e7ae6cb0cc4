//! Plans made from a structure.

use super::*;

#[tokio::test]
async fn created_plan_has_all_tasks_ready() {
    let toolbox = made().await;
    assert_eq!(plan_status(&toolbox).await, "running");
    assert_eq!(
        done(
            &toolbox,
            "get_task",
            json!({"plan_id": "r1", "task_id": "测试"})
        )
        .await,
        json!({"result": {
            "task_id": "测试", "name": "Test", "assignee": "qa", "description": "Try it", "status": "ready",
            "result_summary": null, "step_id": "s1", "dependencies": ["code"],
        }})
    );
    let ready = json!({"plan_id": "r1"});
    assert_eq!(
        ids(&toolbox, "get_ready_tasks", ready).await,
        ["code", "测试", "news"],
        "no order is imposed"
    );
}

#[tokio::test]
async fn plan_structure_returns_steps_and_states() {
    let toolbox = made().await;
    update(&toolbox, "code", "completed", Some("done")).await;
    let mut answer = done(&toolbox, "get_plan_structure", json!({"plan_id": "r1"})).await;
    let time = answer["result"]["creation_time"].take();
    assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
    assert_eq!(
        answer,
        json!({"result": {
            "plan_id": "r1", "name": "Release", "description": "Ship it",
            "workflow_template_source": "SOP_v9.0", "status": "running",
            "creation_time": null, "completion_time": null,
            "steps": [
                {"step_id": "s1", "name": "Build", "tasks": [
                    {"task_id": "code", "name": "Code", "assignee": "dev", "description": "Write it",
                     "status": "completed", "result_summary": "done"},
                    {"task_id": "测试", "name": "Test", "assignee": "qa", "description": "Try it",
                     "status": "ready", "result_summary": null, "dependencies": ["code"]},
                ]},
                {"step_id": "s2", "name": "Ship", "tasks": [
                    {"task_id": "news", "name": "News", "assignee": "dev", "description": "",
                     "status": "ready", "result_summary": null, "optional": true},
                ]},
            ],
        }})
    );
    let second = json!({"plan_id": "r1", "limit": 1, "offset": 1});
    let page = done(&toolbox, "get_plan_structure", second).await;
    assert_eq!(page["left"], 1);
    assert_eq!(page["result"]["steps"][0]["tasks"][0]["task_id"], "测试");
}

#[tokio::test]
async fn rejects_taken_plan_id_and_bad_structure() {
    let toolbox = made().await;
    let with = |change: &dyn Fn(&mut Value)| {
        let mut structure = release();
        change(&mut structure);
        json!({"plan_id": "r2", "structure_data": structure})
    };
    let first = |name: &'static str, value: Value| {
        with(&move |s: &mut Value| s["steps"][0]["tasks"][0][name] = value.clone())
    };
    let without = |name: &'static str| {
        with(&move |s: &mut Value| {
            drop(
                s["steps"][0]["tasks"][0]
                    .as_object_mut()
                    .unwrap()
                    .remove(name),
            );
        })
    };
    let cases = [
        json!({"plan_id": "r1", "structure_data": release()}),
        json!({"plan_id": "a/b", "structure_data": release()}),
        json!({"plan_id": "", "structure_data": release()}),
        json!({"plan_id": "x".repeat(129), "structure_data": release()}),
        json!({"plan_id": 7, "structure_data": release()}),
        json!({"plan_id": "r2"}),
        json!({"plan_id": "r2", "structure_data": "no JSON"}),
        json!({"plan_id": "r2", "structure_data": []}),
        json!({"plan_id": "r2", "structure": release()}),
        with(&|s| s["steps"] = json!([])),
        with(&|s| s["steps"] = json!([{"step_id": "s", "name": "n", "tasks": []}])),
        with(&|s| drop(s.as_object_mut().unwrap().remove("name"))),
        with(&|s| s["stages"] = json!([])),
        with(&|s| s["steps"][1]["step_id"] = json!(2)),
        first("task_id", json!("news")),
        first("task_id", json!("测试/1")),
        first("name", json!("")),
        first("optional", json!("perhaps")),
        first("depends_on", json!(["news"])),
        first("dependencies", json!(["测试"])),
        first("dependencies", json!(["code"])),
        first("dependencies", json!(["new", "tests"])),
        first("description", json!("x".repeat(300_000))),
        without("task_id"),
        without("name"),
    ];
    let before = state(&toolbox).await;
    let mut reasons = Vec::new();
    for arguments in cases {
        let (result, reason) = declined(&toolbox, "create_plan_from_structure", arguments).await;
        assert_eq!(result, false);
        reasons.push(reason);
    }
    assert_eq!(toolbox.store().plans().await.unwrap().len(), 1);
    assert_eq!(state(&toolbox).await, before);
    insta::assert_snapshot!(reasons.join("\n"), @r#"
    the plan id `r1` is taken
    a key has 1 to 128 printable characters without `/` and `\`, not `a/b`
    a key has 1 to 128 printable characters without `/` and `\`, not ``
    a key has 1 to 128 printable characters without `/` and `\`, not `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`
    `plan_id` is 7, not a text
    `structure_data` is missing; it is an object
    `structure_data` is "no JSON", not an object
    `structure_data` is [], not an object
    `structure` is no field; known are dry_run, plan_id, structure_data
    the plan has no tasks
    the plan has no tasks
    `structure_data.name` is missing; it is a text
    `structure_data.stages` is no field; known are description, name, steps, workflow_template_source
    `structure_data.steps[1].step_id` is 2, not a text
    `task_id` `news` is used twice; there is no task `code` (name the `task_id` of another task)
    there is no task `code` (name the `task_id` of another task)
    a task needs a name
    `structure_data.steps[0].tasks[0].optional` is "perhaps", not true or false
    `structure_data.steps[0].tasks[0].depends_on` is no field; known are assignee, dependencies, description, name, optional, task_id
    tasks wait for each other: code → 测试 → code (take one of these dependencies out)
    task `code` waits for itself
    there is no task `new` (did you mean `news`?); there is no task `tests` (name the `task_id` of another task)
    `structure_data.steps[0].tasks[0].description` has 300000 bytes; at most 262144 fit
    `structure_data.steps[0].tasks[0].task_id` is missing; it is a text
    `structure_data.steps[0].tasks[0].name` is missing; it is a text
    "#);
}

#[tokio::test]
async fn plan_tool_dry_run_creates_nothing() {
    let toolbox = toolbox().await;
    let mut arguments = json!({"plan_id": "r1", "structure_data": release(), "dry_run": true});
    assert_eq!(
        done(&toolbox, "create_plan_from_structure", arguments.clone()).await,
        json!({"result": true, "plan_id": "r1", "reason": "dry_run: nothing was made"})
    );
    assert!(toolbox.store().plans().await.unwrap().is_empty());
    arguments["structure_data"]["steps"][0]["tasks"][0]["dependencies"] = json!(["nobody"]);
    declined(&toolbox, "create_plan_from_structure", arguments).await;
}

#[tokio::test]
async fn generates_plan_id_and_defaults_to_latest_plan() {
    let toolbox = made().await;
    let other = json!({"structure_data": {"name": "n", "steps": [
        {"step_id": "s", "name": "", "tasks": [{"task_id": "t", "name": "T"}]},
        {"step_id": "later", "name": "", "tasks": []},
    ]}});
    let answer = done(&toolbox, "create_plan_from_structure", other).await;
    let id = answer["plan_id"].as_str().unwrap();
    assert_eq!(id.len(), 8);
    assert_eq!(answer["reason"], "left out, without tasks: later");
    assert_eq!(ids(&toolbox, "get_ready_tasks", json!({})).await, ["t"]);
    let bound = toolbox.clone().with_plan(PlanId::new("r1"));
    assert_eq!(ids(&bound, "get_ready_tasks", json!({})).await.len(), 3);
    assert_eq!(
        ids(&bound, "get_ready_tasks", json!({"plan_id": id})).await,
        ["t"]
    );
    let more = json!({"structure_data": release()});
    declined(&bound, "create_plan_from_structure", more).await;
}
