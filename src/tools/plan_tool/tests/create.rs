//! Plans made from a structure.

use super::*;

#[tokio::test]
async fn created_plan_has_all_tasks_ready() {
    let toolbox = made().await;
    assert_eq!(plan_status(&toolbox).await, "running");
    let test = json!({"plan_id": "r1", "task_id": "测试"});
    let wanted = json!({"result": {
        "task_id": "测试", "name": "Test", "assignee": "qa", "description": "Try it", "status": "ready",
        "result_summary": null, "step_id": "s1", "dependencies": ["code"],
    }});
    assert_eq!(done(&toolbox, "get_task", test).await, wanted);
    // No order is imposed.
    let ready = ids(&toolbox, "get_ready_tasks", json!({"plan_id": "r1"})).await;
    assert_eq!(ready, ["code", "测试", "news"]);
}

#[tokio::test]
async fn plan_structure_returns_steps_and_states() {
    let toolbox = made().await;
    update(&toolbox, "code", "completed", Some("done")).await;
    let mut answer = done(&toolbox, "get_plan_structure", json!({"plan_id": "r1"})).await;
    let time = answer["result"]["creation_time"].take();
    assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
    let wanted = json!({"result": {
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
    }});
    assert_eq!(answer, wanted);
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
    let first = |name: &str, value: Value| {
        with(&|s: &mut Value| s["steps"][0]["tasks"][0][name] = value.clone())
    };
    let without = |name: &str| {
        with(&|s: &mut Value| {
            let task = s["steps"][0]["tasks"][0].as_object_mut().unwrap();
            task.remove(name).unwrap();
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
        with(&|s| s["stepps"] = json!([])),
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
        without("assignee"),
        without("description"),
        first("assignee", json!(null)),
        first("check", json!(["lint"])),
        first("checks", json!("lint")),
        first("produces", json!(["/etc/passwd"])),
        with(&|s| s["order"] = json!("upwards")),
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
    `structure` is no field; known are dry_run, parameters, plan_id, structure_data
    the plan has no tasks
    the plan has no tasks
    `structure_data.name` is missing; it is a text
    `stepps` is no field (did you mean `steps`?)
    `structure_data.steps[1].step_id` is 2, not a text
    `task_id` `news` is used twice; there is no task `code` (name the `task_id` of another task)
    there is no task `code` (name the `task_id` of another task)
    a task needs a name
    `structure_data.steps[0].tasks[0].optional` is "perhaps", not true or false
    `steps[0].tasks[0].depends_on` is no field (did you mean `dependencies`?)
    tasks wait for each other: code → 测试 → code (take one of these dependencies out)
    task `code` waits for itself
    there is no task `new` (did you mean `news`?); there is no task `tests` (name the `task_id` of another task)
    `structure_data.steps[0].tasks[0].description` has 300000 bytes; at most 262144 fit
    `structure_data.steps[0].tasks[0].task_id` is missing; it is a text
    `structure_data.steps[0].tasks[0].name` is missing; it is a text
    `structure_data.steps[0].tasks[0].assignee` is missing; it is a text
    `structure_data.steps[0].tasks[0].description` is missing; it is a text
    `structure_data.steps[0].tasks[0].assignee` is null, not a text
    `steps[0].tasks[0].check` is no field (did you mean `checks`?)
    structure_data: invalid type: string "lint", expected a sequence
    `/etc/passwd` is not relative to the workspace
    `order` is `upwards`, not dependencies, sequential or free
    "#);
}

#[tokio::test]
async fn plan_tool_dry_run_creates_nothing() {
    let toolbox = toolbox().await;
    let mut arguments = json!({"plan_id": "r1", "structure_data": release(), "dry_run": true});
    let wanted = json!({"result": true, "plan_id": "r1", "reason": "dry_run: nothing was made"});
    let checked = done(&toolbox, "create_plan_from_structure", arguments.clone()).await;
    assert_eq!(checked, wanted);
    assert!(toolbox.store().plans().await.unwrap().is_empty());
    arguments["structure_data"]["steps"][0]["tasks"][0]["dependencies"] = json!(["nobody"]);
    declined(&toolbox, "create_plan_from_structure", arguments).await;
}

#[tokio::test]
async fn generates_plan_id_and_defaults_to_latest_plan() {
    let toolbox = made().await;
    let other = json!({"structure_data": {"name": "n", "steps": [
        {"step_id": "s", "name": "", "tasks": [{"task_id": "t", "name": "T", "assignee": "", "description": ""}]},
    ]}});
    let answer = done(&toolbox, "create_plan_from_structure", other).await;
    let id = answer["plan_id"].as_str().unwrap();
    assert_eq!(id.len(), 8);
    assert_eq!(ids(&toolbox, "get_ready_tasks", json!({})).await, ["t"]);
    let bound = toolbox.clone().with_plan(PlanId::new("r1"));
    assert_eq!(ids(&bound, "get_ready_tasks", json!({})).await.len(), 3);
    let wanted = ["t"];
    let ready = ids(&bound, "get_ready_tasks", json!({"plan_id": id})).await;
    assert_eq!(ready, wanted);
    let more = json!({"structure_data": release()});
    declined(&bound, "create_plan_from_structure", more).await;
}

#[tokio::test]
async fn steps_without_tasks_stay() {
    let toolbox = toolbox().await;
    let task = |id: &str| json!({"task_id": id, "name": id, "assignee": "", "description": ""});
    let step =
        |id: &str, tasks: Value| json!({"step_id": id, "name": id.to_uppercase(), "tasks": tasks});
    let steps = json!([
        step("a", json!([])),
        step("b", json!([task("t1"), task("t2")])),
        step("c", json!([])),
        step("d", json!([])),
        step("e", json!([task("t3")])),
        step("f", json!([])),
    ]);
    let given = json!({"plan_id": "p", "structure_data": {"name": "P", "steps": steps}});
    done(&toolbox, "create_plan_from_structure", given).await;
    let shown = async |page: Value| {
        let answer = done(&toolbox, "get_plan_structure", page).await;
        let steps = answer["result"]["steps"].as_array().unwrap().iter();
        let steps = steps.map(|step| {
            let name = step["name"].as_str().unwrap();
            format!("{name}{}", step["tasks"].as_array().unwrap().len())
        });
        let left = answer
            .get("left")
            .map_or(String::new(), |left| format!(" and {left}"));
        steps.collect::<Vec<_>>().join(" ") + &left
    };
    for (page, wanted) in [
        (json!({}), "A0 B2 C0 D0 E1 F0"),
        (json!({"limit": 2}), "A0 B1 and 5"),
        (json!({"offset": 2, "limit": 2}), "B1 C0 and 3"),
        (json!({"offset": 4}), "D0 E1 F0"),
        (json!({"offset": 7}), ""),
    ] {
        assert_eq!(shown(page).await, wanted);
    }
    let wanted = ["t1", "t2", "t3"];
    assert_eq!(ids(&toolbox, "get_ready_tasks", json!({})).await, wanted);
}

#[tokio::test]
async fn unknown_fields_are_ignored_with_a_note() {
    let toolbox = toolbox().await;
    let mut structure = release();
    structure["stages"] = json!([[[]]]);
    structure["steps"][0]["colour"] = json!("red");
    structure["steps"][0]["tasks"][1]["重要"] = json!(1);
    structure["steps"][0]["tasks"][0]["checks"] = json!(["lint"]);
    structure["goal"] = json!("Ship");
    let given = json!({"plan_id": "r", "structure_data": structure});
    let answer = done(&toolbox, "create_plan_from_structure", given).await;
    let note = "ignored, unknown: stages, steps[0].colour, steps[0].tasks[1].重要";
    assert_eq!(answer["reason"], note);
    let plan = PlanId::new("r");
    let read = toolbox.store().read(&plan, |plan, _| {
        let checks = plan.tasks().next().unwrap().checks.clone();
        (plan.head().goal.clone(), checks)
    });
    let wanted = ("Ship".to_owned(), vec!["lint".to_owned()]);
    assert_eq!(read.await.unwrap(), wanted);
}

/// As a program passes it that has read `team.yaml`.
#[tokio::test]
async fn workflow_of_team_file_becomes_plan() {
    let workflow = json!({
        "id": "feature", "name": "Feature: {{feature}}", "description": "Builds {{feature}}.",
        "parameters": {
            "feature": {"type": "string", "description": "what is to be built"},
            "files": {"type": "integer", "default": 1},
        },
        "steps": [
            {"step_id": "build", "name": "Build {{feature}}", "tasks": [
                {"task_id": "code", "name": "Code {{feature}}", "assignee": "coder",
                 "description": "Make {{files}} file.", "checks": ["there"], "produces": ["a.txt"]},
            ]},
            {"step_id": "later", "name": "Later", "tasks": []},
        ],
    });
    let toolbox = toolbox().await;
    let make = |parameters: Value| json!({"plan_id": "f", "structure_data": workflow, "parameters": parameters});
    for (parameters, reason) in [
        (
            json!(null),
            "the parameter `feature` is missing (`feature`: what is to be built)",
        ),
        (
            json!({"feature": "x", "file": 2}),
            "has no parameter `file` (did you mean `files`?)",
        ),
        (
            json!({"feature": "x", "files": "two"}),
            "the parameter `files` is `two`, not of type integer",
        ),
    ] {
        let (_, why) = declined(&toolbox, "create_plan_from_structure", make(parameters)).await;
        assert!(why.contains(reason), "{why}");
    }
    let given = make(json!({"feature": "a \"flag\": {{files}}", "files": 2}));
    let answer = done(&toolbox, "create_plan_from_structure", given).await;
    assert_eq!(answer, json!({"result": true, "plan_id": "f"}));
    let plan = done(&toolbox, "get_plan_structure", json!({})).await["result"].take();
    assert_eq!(plan["name"], "Feature: a \"flag\": {{files}}");
    assert_eq!(plan["workflow_template_source"], "feature");
    assert_eq!(plan["steps"][0]["name"], "Build a \"flag\": {{files}}");
    assert_eq!(plan["steps"][0]["tasks"][0]["description"], "Make 2 file.");
    let wanted = json!({"step_id": "later", "name": "Later", "tasks": []});
    assert_eq!(plan["steps"][1], wanted);
    // What it names wrongly is told; nesting without end as well.
    let mut wrong = make(json!({"feature": "x"}));
    wrong["structure_data"]["name"] = json!("{{featur}}");
    let (_, why) = declined(&toolbox, "create_plan_from_structure", wrong.clone()).await;
    assert!(why.contains("there is no parameter `featur`"), "{why}");
    wrong["structure_data"]["parameters"] = (0..200).fold(json!(1), |inner, _| json!([inner]));
    declined(&toolbox, "create_plan_from_structure", wrong).await;
}
