//! `plan-agent mcp` on standard input and output.

use plan_agent::plan::{PlanHead, PlanId, TaskId, Time};
use plan_agent::store::Store;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::core::{new_task, open_store};
use crate::common::env::{TestEnv, has};
use crate::common::mcp::Mcp;

/// The dialects, by the names of their options.
const DIALECTS: [&str; 4] = ["plan-tool", "plan-manager", "notebook", "tasks"];

#[test]
fn initialize_supports_all_protocol_versions() {
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let env = TestEnv::new();
        let mut mcp = Mcp::begin(&env, []);
        let begun = mcp.initialize("old", asked);
        assert_eq!(begun["protocolVersion"], answered, "{asked}");
        let info = &begun["serverInfo"];
        assert_eq!(info["name"], "plan-agent");
        assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
        let capabilities = &begun["capabilities"];
        assert_eq!(
            capabilities,
            &json!({"tools": {}, "prompts": {}, "resources": {"subscribe": true}})
        );
        let (status, rest) = mcp.end();
        assert_eq!((status.code(), rest), (Some(0), Vec::new()));
    }
}

#[test]
fn invalid_message_gets_error_and_next_is_read() {
    let env = TestEnv::new();
    let mut mcp = Mcp::start(&env, []);
    let deep = "[".repeat(100_000);
    let null = Value::Null;
    for (line, id, code) in [
        ("oops", &null, -32700),
        ("{\"jsonrpc\": \"2.0\", \"id\": 1", &null, -32700),
        (deep.as_str(), &null, -32700),
        ("[]", &null, -32600),
        ("7", &null, -32600),
        ("{\"id\": 7}", &null, -32600),
        (
            "{\"jsonrpc\": \"2.0\", \"id\": 70, \"method\": \"nix\"}",
            &json!(70),
            -32601,
        ),
        (
            "{\"jsonrpc\": \"2.0\", \"id\": 71, \"method\": \"tools/call\"}",
            &json!(71),
            -32602,
        ),
        (
            "{\"jsonrpc\": \"2.0\", \"id\": \"72\", \"method\": \"tools/call\", \"params\": {\"name\": 7}}",
            &json!("72"),
            -32602,
        ),
    ] {
        assert!(mcp.write(line));
        let answer = mcp.message().expect(line);
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (id, &json!(code)),
            "{answer}"
        );
        let said = answer["error"]["message"].as_str().unwrap();
        assert!(!said.is_empty() && said.len() < 300, "{said}");
    }
    // A message that needs no answer gets none.
    for line in [
        "",
        "{\"jsonrpc\": \"2.0\", \"method\": \"notifications/nix\"}",
        "{\"jsonrpc\": \"2.0\", \"method\": \"notifications/cancelled\", \"params\": 7}",
        "{\"jsonrpc\": \"2.0\", \"id\": 99, \"result\": {}}",
    ] {
        assert!(mcp.write(line));
    }
    assert_eq!(mcp.ask("ping", json!({})), json!({}));
}

#[test]
fn oversized_line_is_skipped() {
    let env = TestEnv::new();
    let mut mcp = Mcp::start(&env, []);
    let line = "x".repeat(65 * 1024 * 1024);
    assert!(mcp.write(&line));
    let answer = mcp.message().unwrap();
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert_eq!(mcp.ask("ping", json!({})), json!({}));
}

#[test]
fn end_of_input_ends_server() {
    let env = TestEnv::new();
    assert_eq!(Mcp::begin(&env, []).end().0.code(), Some(0));
    let mut mcp = Mcp::begin(&env, []);
    mcp.notify("notifications/initialized");
    assert_eq!(mcp.end().0.code(), Some(0));
}

#[test]
fn requests_before_end_of_input_are_answered() {
    let env = TestEnv::new();
    let mut mcp = Mcp::start(&env, []);
    let ids = (0..40).filter_map(|_| mcp.request("tools/list", json!({})));
    let ids: Vec<u64> = ids.collect();
    let (status, rest) = mcp.end();
    assert_eq!(status.code(), Some(0));
    let answered: Vec<u64> = rest.iter().filter_map(|one| one["id"].as_u64()).collect();
    assert_eq!(answered, ids);
}

#[test]
fn sigterm_ends_server() {
    let env = TestEnv::new();
    let mut mcp = Mcp::start(&env, []);
    let pid = Pid::from_child(&mcp.running.child);
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(mcp.running.wait().code(), Some(143));
    assert_eq!(mcp.message(), None);
}

#[test]
fn dialect_tool_lists_are_short() {
    let mut sum = 0;
    for dialect in DIALECTS.iter().chain(&["all"]) {
        let env = TestEnv::new();
        let mut mcp = Mcp::start(&env, ["--dialect", dialect]);
        let listed = mcp.ask("tools/list", json!({}));
        let tools = listed["tools"].as_array().unwrap();
        let told: usize = tools
            .iter()
            .map(|tool| {
                let words = json!([tool["name"], tool["description"], tool["inputSchema"]]);
                words.to_string().len()
            })
            .sum();
        if *dialect == "all" {
            assert_eq!(tools.len(), sum);
        } else {
            assert!(
                !tools.is_empty() && told <= 7 * 1024,
                "{dialect}: {told} bytes"
            );
            sum += tools.len();
        }
        let looks = |tool: &&Value| tool["annotations"]["readOnlyHint"] == true;
        let changes = |tool: &&Value| tool["annotations"]["destructiveHint"] == false;
        let (looks, changes) = (
            tools.iter().filter(looks).count(),
            tools.iter().filter(changes).count(),
        );
        assert!(looks > 0 && changes > 0, "{listed}");
        assert_eq!(looks + changes, tools.len());
    }
}

#[test]
fn notebook_answers_and_hints_are_text() {
    let env = TestEnv::new();
    let mut mcp = Mcp::start(&env, "--dialect notebook");
    let call = json!({"name": "create_plan", "arguments": {
        "name": "Bread", "description": "d", "expected_outcome": "o",
        "subtasks": [{"name": "Knead", "description": "d", "expected_outcome": "o"}],
    }});
    let made = mcp.ask("tools/call", call);
    let said = made["content"][0]["text"].as_str().unwrap();
    has(said, "created successfully");
    // A client may give its model nothing but structured content, if there is any.
    assert_eq!(made.get("structuredContent"), None);
    let data = &made["_meta"]["plan-agent/metadata"];
    assert_eq!(data, &json!({"success": true}));
    let prompt = mcp.ask("prompts/get", json!({"name": "next"}));
    let hint = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(
        hint.starts_with("<system-hint>") && hint.len() <= 4096,
        "{hint}"
    );
    let resource = |mcp: &mut Mcp, uri: &str| {
        let read = mcp.ask("resources/read", json!({"uri": uri}));
        read["contents"][0]["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(resource(&mut mcp, "plan://hint"), hint);
    let plan = resource(&mut mcp, "plan://current");
    let part = "# Bread\n**Description**: d\n**Expected Outcome**: o";
    has(&plan, part);
    has(&plan, ["- [ ] 0. Knead", "Expected Outcome: o"]);
    // A client with all tools also sees a notebook plan in this form.
    let mut all = Mcp::start(&env, "--dialect all");
    assert_eq!(resource(&mut all, "plan://hint"), hint);
    assert_eq!(resource(&mut all, "plan://current"), plan);
}

#[test]
fn hint_with_wide_characters_is_at_most_4_kb() {
    let env = TestEnv::new();
    let mut mcp = Mcp::start(&env, []);
    for _ in 0..4 {
        let task = json!({"subject": "中".repeat(4000), "description": "文".repeat(60_000)});
        mcp.call("TaskCreate", task);
    }
    let read = mcp.ask("resources/read", json!({"uri": "plan://hint"}));
    let hint = read["contents"][0]["text"].as_str().unwrap();
    assert!(
        hint.contains("中中") && hint.len() <= 4096,
        "{}",
        hint.len()
    );
}

#[test]
fn unknown_tool_error_suggests_nearest_name() {
    for dialect in DIALECTS.iter().chain(&["all"]) {
        let env = TestEnv::new();
        let mut mcp = Mcp::start(&env, ["--dialect", dialect]);
        let tools = mcp.ask("tools/list", json!({}));
        let Some(tool) = tools["tools"][0]["name"].as_str() else {
            continue;
        };
        let wrong = format!("{tool}s");
        let (success, answer) = mcp.try_call(&wrong, json!({}));
        let said = answer.to_string();
        assert!(!success && said.contains(&wrong), "{said}");
        let named = [format!("`{tool}`"), format!("'{tool}'")];
        assert!(named.iter().any(|name| said.contains(name)), "{said}");
    }
}

#[test]
fn client_changes_are_stored_under_its_name() {
    let env = TestEnv::new();
    let mut mcp = Mcp::begin(&env, []);
    mcp.initialize("baker\u{1b}[31m", "2025-06-18");
    // Arguments may come as the text of an object.
    mcp.call("TaskCreate", json!("{\"subject\": \"Knead\"}"));
    let ran = env.run("tool TaskList");
    let list: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(list["result"][0]["subject"], "Knead", "{list}");
    let update = r#"{"taskId": 1, "status": "in_progress"}"#;
    assert_eq!(env.run(["tool", "TaskUpdate", update]).code, Some(0));
    let task = mcp.call("TaskGet", json!({"taskId": "1"}));
    assert_eq!(task["result"]["status"], "in_progress", "{task}");
    let plans: Value = serde_json::from_str(&env.run("plans --json").stdout).unwrap();
    let plan = plans[0]["id"].as_str().unwrap();
    let log = env.run(["log", plan, "--json"]).stdout;
    let by: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["by"].take())
        .collect();
    assert_eq!(
        (&by[0], by.last()),
        (&json!("baker"), Some(&json!("command line")))
    );
}

#[test]
fn rejects_unknown_resources_and_prompts() {
    let env = TestEnv::new();
    let mut mcp = Mcp::start(&env, []);
    let error = mcp.refused("resources/read", json!({"uri": "plan://nix"}));
    assert_eq!(error["code"], -32002);
    insta::assert_snapshot!(error["message"].as_str().unwrap(), @"there is no resource `plan://nix`; there are plan://current and plan://hint");
    let error = mcp.refused("prompts/get", json!({"name": "nix"}));
    insta::assert_snapshot!(error["message"].as_str().unwrap(), @"there is no prompt `nix`; there is `next`");
    mcp.refused("resources/subscribe", json!({"uri": "plan://nix"}));
    let uris = mcp.ask("resources/list", json!({}));
    assert_eq!(uris["resources"].as_array().unwrap().len(), 2);
    assert_eq!(
        mcp.ask("prompts/list", json!({}))["prompts"][0]["name"],
        "next"
    );
}

#[test]
fn mcp_refuses_unknown_plan() {
    let env = TestEnv::new();
    let ran = env.run("mcp --plan abc");
    insta::assert_snapshot!(ran.seen(&env), @r"
    error: there are no plans in `[FOLDER]/volumes`
    Hint: `plan-agent run` makes one; `--config FILE` looks elsewhere
    exit 1
    ");
}

/// Makes a plan with a task as another process with the tools does.
async fn another_process_makes_a_plan(env: &TestEnv) -> (Store, PlanId) {
    let store = open_store(env).await;
    let mut head = PlanHead::new(PlanId::new("abcdefgh"), "Bake bread", Time::default());
    head.owner = "tasks".to_owned();
    let plan = head.id.clone();
    let made = store.create(head, "other", "", |draft| {
        draft.created();
        draft.add_tasks(vec![new_task("Knead")], None)
    });
    made.await.unwrap();
    (store, plan)
}

#[tokio::test]
async fn resources_notify_changes_of_other_process() {
    let env = TestEnv::new();
    let mut mcp = Mcp::start(&env, []);
    let read = |mcp: &mut Mcp, uri: &str| {
        let mut read = mcp.ask("resources/read", json!({"uri": uri}));
        let content = &mut read["contents"][0];
        assert_eq!(content["mimeType"], "text/markdown");
        content["text"].take().as_str().unwrap().to_owned()
    };
    assert_eq!(read(&mut mcp, "plan://current"), "There is no plan yet.\n");
    for uri in ["plan://current", "plan://hint"] {
        mcp.ask("resources/subscribe", json!({"uri": uri}));
    }
    let (store, plan) = another_process_makes_a_plan(&env).await;
    let updated = "notifications/resources/updated";
    let mut told = [mcp.news(updated), mcp.news(updated)]
        .map(|news| news["params"]["uri"].as_str().unwrap().to_owned());
    told.sort();
    assert_eq!(told, ["plan://current", "plan://hint"]);
    has(read(&mut mcp, "plan://current"), "- [ ] 1 · Knead — ready");
    insta::assert_snapshot!(read(&mut mcp, "plan://hint"), @r#"
    Plan "Bake bread": 0 of 1 task settled.
    Next; set it in progress when you begin:
    - task 1 · Knead
    "#);
    let prompt = mcp.ask("prompts/get", json!({"name": "next"}));
    let said = &prompt["messages"][0]["content"]["text"];
    assert_eq!(said.as_str().unwrap(), read(&mut mcp, "plan://hint"));
    mcp.ask("resources/unsubscribe", json!({"uri": "plan://hint"}));
    mcp.forget();
    let started = store.change(&plan, "other", "", |draft| draft.start_task(TaskId(1)));
    started.await.unwrap();
    assert_eq!(mcp.news(updated)["params"]["uri"], "plan://current");
    let done = store.change(&plan, "other", "", |draft| {
        draft.complete_task(TaskId(1), "kneaded")
    });
    done.await.unwrap();
    assert_eq!(mcp.news(updated)["params"]["uri"], "plan://current");
    assert_eq!(mcp.end().1, Vec::<Value>::new());
}
