//! Output stays small, and every input is answered, whatever it contains.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::thread;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::common::env::{TestEnv, await_standstill, peak_memory};
use crate::common::mcp::Mcp;

/// The most bytes of an answer as it is sent.
const MOST: usize = 16 * 1024;

/// Calls a tool and returns the size of the answer in bytes.
fn size(mcp: &mut Mcp, tool: &str, arguments: &Value) -> usize {
    let params = json!({"name": tool, "arguments": arguments});
    let result = mcp.ask("tools/call", params);
    assert!(result["isError"] != true, "{tool}: {result}");
    let whole = json!({"jsonrpc": "2.0", "id": 1_000_000, "result": result});
    whole.to_string().len()
}

#[test]
fn ten_thousand_tasks_are_paged() {
    let env = TestEnv::new();
    let mut mcp = Mcp::start(&env, "--dialect all");
    let quotes = "\"".repeat(450);
    let name = |number: usize| format!("{number}{}", &quotes[..300]);
    let tasks = |make: &dyn Fn(usize) -> Value| (1..=10_000).map(make).collect::<Vec<_>>();
    let manager = tasks(&|n| json!({"name": name(n), "reasoning": quotes}));
    let listed = tasks(&|n| json!({"subject": name(n), "owner": quotes}));
    let subtasks =
        tasks(&|n| json!({"name": name(n), "description": quotes, "expected_outcome": quotes}));
    let step = tasks(
        &|n| json!({"task_id": n.to_string(), "name": name(n), "assignee": "", "description": quotes}),
    );
    let structure = json!({"name": quotes, "description": quotes, "steps": [
        {"step_id": "1", "name": quotes, "tasks": step},
    ]});
    for (tool, arguments) in [
        ("createPlan", json!({"goal": quotes, "tasks": manager})),
        ("getPlan", json!({})),
        ("getTaskList", json!({})),
        ("getExecutableTaskList", json!({})),
        ("getDependencyGraph", json!({})),
        ("getDependencyGraph", json!({"format": "dot"})),
        ("getPlanPrompt", json!({})),
        ("getPlanStatus", json!({})),
        ("getParallelTasks", json!({})),
        ("TaskCreate", json!({"tasks": listed})),
        ("TaskList", json!({})),
        (
            "create_plan_from_structure",
            json!({"structure_data": structure}),
        ),
        ("get_plan_structure", json!({})),
        ("get_ready_tasks", json!({})),
        (
            "create_plan",
            json!({"name": quotes, "description": quotes, "expected_outcome": quotes, "subtasks": subtasks}),
        ),
        (
            "view_subtasks",
            json!({"subtask_idx": (0..500).collect::<Vec<_>>()}),
        ),
        (
            "finish_plan",
            json!({"state": "abandoned", "outcome": quotes}),
        ),
        ("view_historical_plans", json!({})),
    ] {
        let size = size(&mut mcp, tool, &arguments);
        assert!(size <= MOST, "{tool}: {size} bytes");
    }
}

#[test]
fn invalid_request_error_has_its_id() {
    let env = TestEnv::new();
    let mut mcp = Mcp::begin(&env, []);
    assert!(mcp.write(r#"{"jsonrpc": "2.0", "id": 1, "method": "initialize"}"#));
    let answer = mcp.message().unwrap();
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!(1), &json!(-32602))
    );
    insta::assert_snapshot!(answer["error"]["message"].as_str().unwrap(), @"Invalid params: `initialize` needs `protocolVersion`, `capabilities` and `clientInfo` with `name` and `version`");
    mcp.initialize("test", "2025-06-18");
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let call = |id: &str| {
        format!(
            r#"{{"jsonrpc": "2.0", "id": {id}, "method": "tools/call", "params": {{"name": "TaskCreate", "arguments": {{"subject": {deep}}}}}}}"#
        )
    };
    for id in ["7", "\"seven\"", "9223372036854775808", "1.5"] {
        assert!(mcp.write(&call(id)));
        let answer = mcp.message().unwrap();
        assert_eq!(answer["id"].to_string(), id, "{answer}");
        assert!(
            answer["error"]["message"]
                .as_str()
                .is_some_and(|said| !said.is_empty())
        );
    }
    assert_eq!(mcp.ask("ping", json!({})), json!({}));
}

/// Subscribes to changes as clients of the present protocol do, which have no sessions.
fn listen(mcp: &mut Mcp, id: &str) {
    let client = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "n", "version": "1"},
    });
    let params =
        json!({"_meta": client, "notifications": {"resourceSubscriptions": ["plan://hint"]}});
    let mut line = json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen"});
    line["params"] = params;
    assert!(mcp.write(&line.to_string()));
}

#[test]
fn end_of_input_ends_event_stream() {
    let env = TestEnv::new();
    let mut mcp = Mcp::begin(&env, []);
    listen(&mut mcp, "L");
    let begun = mcp.message().unwrap();
    assert!(begun["method"].is_string(), "{begun}");
    assert_eq!(mcp.end().0.code(), Some(0));
}

#[test]
fn number_of_event_streams_is_bounded() {
    let env = TestEnv::new();
    let mut mcp = Mcp::begin(&env, []);
    for number in 0..=256 {
        listen(&mut mcp, &number.to_string());
    }
    let refused = loop {
        let message = mcp.message().unwrap();
        if message.get("error").is_some() {
            break message;
        }
    };
    let said = refused["error"]["message"].as_str().unwrap();
    assert_eq!(said, "256 streams of news are open; end one first");
}

#[test]
fn mcp_applies_backpressure_to_slow_client() {
    const ASKED: usize = 2000;
    let env = TestEnv::new();
    let mut child = env
        .command("mcp --dialect all")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let begin = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
    }});
    writeln!(input, "{begin}").unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    // The pages of the program itself count, too, and how many there are depends on how it was built.
    let own = peak_memory(child.id());
    let asker = thread::spawn(move || {
        let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        writeln!(input, "{begun}").unwrap();
        for id in 1..=ASKED {
            let ask = json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {"_meta": {"pad": "x".repeat(500)}}});
            writeln!(input, "{ask}").unwrap();
        }
    });
    // Until the server stops reading: then its memory stands still. All answers together would be 40 MB and more.
    await_standstill(child.id());
    assert!(!asker.is_finished(), "everything was read");
    let memory = peak_memory(child.id()) - own;
    assert!(memory < 14_000, "{memory} kB");
    // Once the client reads, every request is answered.
    let mut answers = 0;
    while answers < ASKED {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0);
        answers += usize::from(line.contains("\"id\":"));
    }
    asker.join().unwrap();
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
    assert_eq!((rest, child.wait().unwrap().code()), (Vec::new(), Some(0)));
}

/// Calls wait for the store while more of them arrive: their total size is bounded, and every one is answered.
#[test]
fn large_calls_use_bounded_memory() {
    const CALLS: u64 = 20;
    let env = TestEnv::new();
    let mut mcp = Mcp::start(&env, []);
    mcp.call("TaskCreate", json!({"subject": "First"}));
    let store = Connection::open(env.path("volumes/plan-agent.db")).unwrap();
    store.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let pid = mcp.running.child.id();
    // The messages are made beforehand: writing has to be faster than reading.
    let large = "x".repeat(8 << 20);
    let asker = thread::spawn(move || {
        for id in 0..CALLS {
            let call = json!({"name": "TaskCreate", "arguments": {"subject": id.to_string()}});
            let call =
                json!({"jsonrpc": "2.0", "id": 1000 + id, "method": "tools/call", "params": call});
            let meta = format!("\"params\":{{\"_meta\":{{\"pad\":\"{large}\"}},");
            assert!(mcp.write(&call.to_string().replace("\"params\":{", &meta)));
        }
        mcp
    });
    await_standstill(pid);
    store.execute_batch("COMMIT").unwrap();
    let mut mcp = asker.join().unwrap();
    // On a very busy machine the wait for the store may time out: that is an answer, too.
    for id in 0..CALLS {
        let answer = mcp.answer(1000 + id).unwrap();
        assert!(answer["result"].is_object(), "{answer}");
    }
    let memory = peak_memory(pid);
    assert!(memory < 160_000, "{memory} kB");
}
