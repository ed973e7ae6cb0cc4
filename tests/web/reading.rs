//! The endpoints that show plans.

use serde_json::{Value, json};

use super::{Served, finished_plan, serve};
use crate::common::env::{TestEnv, has, lacks, lives, wait_until};

fn cli(env: &TestEnv, args: &[&str]) -> Value {
    serde_json::from_str(&env.exits(0, args).stdout).unwrap()
}

/// Returns an object without some fields.
fn without(mut value: Value, fields: &[&str]) -> Value {
    let object = value.as_object_mut().unwrap();
    object.retain(|name, _| !fields.contains(&name.as_str()));
    value
}

#[test]
fn answers_are_those_of_the_command_line() {
    let env = TestEnv::new();
    let plan = finished_plan(&env);
    let served = serve(&env, &[]);
    let list = served.get("plans");
    let row = &list["plans"][0];
    assert_eq!(*row, cli(&env, &["plans", "--json"])[0]);
    assert_eq!(
        (&list["daemon"], &list["read_only"]),
        (&Value::Null, &json!(false))
    );
    let status = cli(&env, &["status", "--json"]);
    let shown = served.get(&format!("plans/{plan}"));
    assert_eq!(shown["seq"], status["plan"]["seq"]);
    assert_eq!(
        shown["outcome"],
        json!("2 of 2 tasks completed, 2 accepted.")
    );
    has(shown["place"].to_string(), "The work is in `");
    let of_page = ["seq", "outcome", "place", "queued"];
    assert_eq!(without(shown, &of_page), status);
    let early = served.get(&format!("plans/{plan}?at=1"));
    assert_eq!(
        (&early["seq"], &early["progress"]["completed"]),
        (&json!(1), &json!(0))
    );
    let why = env.exits(0, ["why", "1"]).stdout;
    let task = served.get(&format!("plans/{plan}/tasks/1"));
    assert_eq!(task["why"].as_str().unwrap(), why);
    assert_eq!(task["history"][0]["report"]["status"], "SUCCESS");
    assert_eq!(task["dependants"][0]["id"], 2);
    let output = served.get(&format!("plans/{plan}/tasks/1/output"));
    assert_eq!(
        without(output, &[]),
        json!({"attempt": 1, "from": 0, "next": 6, "end": true, "text": "hello\n"})
    );
    let diff = served.get(&format!("plans/{plan}/tasks/1/diff"));
    has(diff["diff"].as_str().unwrap(), "a.txt");
    let text = served.get(&format!("plans/{plan}/plan"));
    assert_eq!(
        text["text"].as_str().unwrap(),
        env.exits(0, ["show"]).stdout
    );
    assert_eq!(served.get("questions")["questions"], json!([]));
    assert_eq!(served.get("workers")["workers"], json!([]));
}

/// Follows the pages of a list to its end, and returns a field of every row.
fn all(served: &Served, path: &str, list: &str, field: &str) -> (Vec<Value>, usize) {
    let (mut found, mut pages, mut next) = (Vec::new(), 0, json!(0));
    while !next.is_null() {
        let reply = served.ask(&format!("GET /api/v1/{path}after={next}"), &[], "");
        assert!(
            reply.status == 200 && reply.body.len() <= 64 << 10,
            "{}",
            reply.body.len()
        );
        let page = reply.json();
        let rows = page[list].as_array().unwrap();
        found.extend(rows.iter().map(|row| row[field].clone()));
        next = page["next"].clone();
        pages += 1;
    }
    (found, pages)
}

#[test]
fn long_lists_come_in_small_pages() {
    let env = TestEnv::new();
    let tasks: String = (1..=900)
        .map(|number| {
            format!(
                "## {number}. Task {number} {}\n\n{}\n\n",
                "n".repeat(90),
                "d".repeat(900)
            )
        })
        .collect();
    env.write("plan.md", &format!("# Many\n\n{tasks}"));
    // It waits for a worker that never comes.
    let run = env.start(["run", "--plan", "plan.md"]);
    let served = serve(&env, &[]);
    wait_until("the plan begins", || {
        let list = served.get("plans");
        list["daemon"]["pid"] == run.child.id() && list["plans"][0]["tasks"] == 900
    });
    let plan = super::only_plan(&env);
    let (numbers, pages) = all(&served, &format!("plans/{plan}/tasks?"), "tasks", "id");
    assert_eq!(
        numbers,
        (1..=900).map(|number| json!(number)).collect::<Vec<_>>()
    );
    assert!(pages > 4, "{pages}");
    let (numbers, _) = all(
        &served,
        &format!("plans/{plan}/tasks?limit=400&"),
        "tasks",
        "id",
    );
    assert_eq!(numbers.len(), 900);
    let (seqs, _) = all(
        &served,
        &format!("plans/{plan}/log?limit=1&"),
        "changes",
        "seq",
    );
    assert_eq!(
        seqs.len(),
        usize::try_from(seqs.last().unwrap().as_i64().unwrap()).unwrap()
    );
    for path in ["", "?limit=1000", "/tasks/1", "/plan"] {
        let reply = served.ask(&format!("GET /api/v1/plans/{plan}{path}"), &[], "");
        assert!(reply.body.len() <= 64 << 10, "{path}: {}", reply.body.len());
        assert_eq!(
            reply.status,
            if path == "/plan" { 413 } else { 200 },
            "{path}"
        );
    }
    // Its end changes nothing.
    let pid = served.running.child.id();
    drop(served);
    wait_until("it ends", || !lives(&pid.to_string()));
    env.exits(0, ["status", "--json"]);
    assert!(lives(&run.child.id().to_string()));
}

#[test]
fn plans_come_in_pages() {
    let env = TestEnv::new();
    let ids: Vec<String> = (0..3).map(|_| finished_plan(&env)).collect();
    env.exits(
        0,
        [
            "tool",
            "TaskCreate",
            r#"{"subject": "Dig", "description": "Dig"}"#,
        ],
    );
    let served = serve(&env, &[]);
    let (mut page, mut found) = (served.get("plans?limit=1&after=0"), Vec::new());
    let mut second = 0;
    loop {
        assert_eq!(
            (&page["total"], &page["open"]),
            (&json!(4), &json!(1)),
            "{page}"
        );
        found.push(page["plans"][0]["id"].as_str().unwrap().to_owned());
        let Some(next) = page["next"].as_i64() else {
            break;
        };
        assert_eq!(page["more"], true);
        second = if found.len() == 2 { next } else { second };
        page = served.get(&format!("plans?limit=1&after={next}"));
    }
    assert_eq!(page["more"], false);
    assert_eq!(found.len(), 4);
    assert!(ids.iter().rev().eq(&found[1..]), "{found:?}");
    let rest = served.get(&format!("plans?after={second}"));
    assert_eq!(rest["plans"].as_array().unwrap().len(), 2);
    assert_eq!(served.status("GET /api/v1/plans?after=nix", &[]), 400);
    assert_eq!(served.status("GET /api/v1/plans?limit=x", &[]), 400);
}

/// A report says what it should not: page and command line hide it alike.
#[test]
fn keys_of_services_are_hidden_as_in_why() {
    let env = TestEnv::new();
    let key = "sk-ant-api03-0123456789abcdef";
    let block = format!("echo {key}; echo 'the key {key} is refused' >&2; exit 1");
    env.write(
        "plan.md",
        &format!("# Ask\n\n## 1. Ask\n\n```sh\n{block}\n```\n"),
    );
    env.exits(4, "run --plan plan.md --agent shell --no-input");
    let why = env.exits(0, "why 1").stdout;
    has(&why, "the key [key] is refused");
    let served = serve(&env, &[]);
    let plan = super::only_plan(&env);
    let task = served.get(&format!("plans/{plan}/tasks/1"));
    assert_eq!(task["why"].as_str().unwrap(), why);
    let report = task["history"][0]["report"]["results"].as_str().unwrap();
    has(report, "the key [key] is refused");
    let output = served.get(&format!("plans/{plan}/tasks/1/output"));
    assert_eq!(output["text"], "[key]\n");
    // What the agent was told to do stands there as the person wrote it, in the plan's text alone.
    for path in ["", "/tasks", "/tasks/1/output", "/log"] {
        let reply = served.ask(&format!("GET /api/v1/plans/{plan}{path}"), &[], "");
        lacks(&reply.body, key);
    }
    lacks(served.get("questions").to_string(), key);
}

#[test]
fn what_is_not_there_is_said() {
    let env = TestEnv::new();
    let served = serve(&env, &[]);
    assert_eq!(served.get("plans")["plans"], json!([]), "without any plan");
    let plan = finished_plan(&env);
    for (path, status) in [
        ("plans/nix".to_owned(), 404),
        ("plans/nix/events".to_owned(), 404),
        (format!("plans/{plan}?at=0"), 404),
        (format!("plans/{plan}?at=99999"), 404),
        (format!("plans/{plan}?at=x"), 400),
        (format!("plans/{plan}/tasks?after=77"), 404),
        (format!("plans/{plan}/tasks/3"), 404),
        (format!("plans/{plan}/tasks/x"), 404),
        (format!("plans/{plan}/tasks/3/diff"), 404),
        (format!("plans/{plan}/tasks/1/output?attempt=9"), 404),
        (format!("plans/{plan}/tasks/1/output?kind=../x"), 400),
        ("nix".to_owned(), 404),
    ] {
        let reply = served.ask(&format!("GET /api/v1/{path}"), &[], "");
        assert_eq!(reply.status, status, "{path}: {reply:?}");
        assert!(reply.json()["error"].is_string(), "{path}: {reply:?}");
    }
}

#[test]
fn question_shows_what_the_failing_check_printed() {
    let mut env = TestEnv::new();
    env.set("PLAN_AGENT_LLM_PROVIDER", "none");
    env.write(
        "config.toml",
        "[run]\nchecks = ['port']\n\n[checks.port]\nrun = ['sh', '-c', 'echo 8080 is taken; exit 1']\n",
    );
    env.write(
        "plan.md",
        "---\nname: Serve\ngoal: Serve it\n---\n\n## Serve it\n\n```sh\ntrue\n```\n",
    );
    env.exits(4, "run --plan plan.md --agent shell --no-input");
    let served = serve(&env, &[]);
    let asked = served.get("questions")["questions"][0].take();
    assert_eq!(asked["output"], json!(["8080 is taken"]), "{asked}");
}
