//! The streams of events: exact after any pause, whichever process made the changes.

use serde_json::json;

use super::{finished_plan, only_plan, serve};
use crate::common::env::TestEnv;

#[test]
fn stream_has_every_change_once_after_any_pause() {
    let env = TestEnv::new();
    let plan = finished_plan(&env);
    let served = serve(&env, &[]);
    let path = format!("plans/{plan}/events");
    let mut first = served.stream(&format!("{path}?after=0"), &[]);
    let hello = first.next().unwrap();
    let seq = hello.data["seq"].as_i64().unwrap();
    assert_eq!(
        (hello.name.as_str(), &hello.data["version"]),
        ("hello", &json!("0.1.0"))
    );
    for number in 1..=seq {
        let change = first.next().unwrap();
        assert_eq!(
            (change.name.as_str(), change.id),
            ("change", Some(number)),
            "{change:?}"
        );
    }
    // Another process changes it.
    env.exits(0, ["add", "Third"]);
    let added = first.await_event("change");
    assert_eq!(
        (added.id, &added.data["tasks"]),
        (Some(seq + 1), &json!([3])),
        "{added:?}"
    );
    assert_eq!(added.data["by"], "command line");
    drop(first);
    // What happens without a reader is not lost, also over an end of the server.
    env.exits(0, ["skip", "3"]);
    drop(served);
    let served = serve(&env, &[]);
    let last = (seq + 1).to_string();
    let mut again = served.stream(&path, &[("Last-Event-ID", &last)]);
    let began = again.next().unwrap();
    assert_ne!(began.data["started"], hello.data["started"]);
    assert_eq!(again.next().unwrap().id, Some(seq + 2));
    // Without a number it begins now; a number that the log does not have means another log.
    let mut now = served.stream(&path, &[]);
    let mut other = served.stream(&format!("{path}?after=99999"), &[]);
    assert_eq!(
        (now.next().unwrap().name, other.next().unwrap().name),
        ("hello".into(), "hello".into())
    );
    assert_eq!(other.next().unwrap().name, "resync");
    env.exits(0, ["add", "Fourth"]);
    assert_eq!(now.await_event("change").data["tasks"], json!([4]));
    other.await_event("change");
}

#[test]
fn heads_of_all_plans_are_streamed() {
    let env = TestEnv::new();
    let first = finished_plan(&env);
    let served = serve(&env, &[]);
    let mut heads = served.stream("events", &[]);
    assert_eq!(heads.next().unwrap().name, "hello");
    let head = heads.next().unwrap();
    assert_eq!(
        (&head.data["plan"], &head.data["state"]),
        (&json!(first), &json!("completed"))
    );
    env.exits(0, ["run", "--plan", "plan.md", "--agent", "shell"]);
    let second = only_plan(&env);
    loop {
        let head = heads.await_event("head");
        assert_eq!(head.data["plan"], json!(second), "{head:?}");
        if head.data["state"] == "completed" {
            assert_eq!(
                (&head.data["completed"], &head.data["questions"]),
                (&json!(2), &json!(0))
            );
            return;
        }
    }
}

#[test]
fn growing_output_is_said() {
    let env = TestEnv::new();
    let block = "echo begun\nuntil test -e go; do sleep 0.05; done\n";
    env.write(
        "plan.md",
        &format!("# Wait\n\n## 1. Wait\n\n```sh\n{block}```\n"),
    );
    let served = serve(&env, &[]);
    let mut heads = served.stream("events", &[]);
    let mut run = env.start([
        "run",
        "--plan",
        "plan.md",
        "--agent",
        "shell",
        "--workspace",
        ".",
    ]);
    heads.await_event("head");
    let plan = only_plan(&env);
    let mut events = served.stream(&format!("plans/{plan}/events?after=0"), &[]);
    let grown = events.await_event("output");
    assert_eq!(
        grown.data,
        json!({"task": 1, "attempt": 1, "from": 0, "len": 6})
    );
    let output = served.get(&format!("plans/{plan}/tasks/1/output?from=0"));
    assert_eq!(
        (&output["text"], &output["end"]),
        (&json!("begun\n"), &json!(false))
    );
    let workers = served.get("workers");
    let worker = &workers["workers"][0];
    assert_eq!(
        (&worker["task"], &worker["doing"]),
        (&json!(1), &json!("begun")),
        "{workers}"
    );
    assert!(
        worker["since"].is_string() && worker["last_heartbeat"].is_string(),
        "{workers}"
    );
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    crate::common::env::wait_until("a heartbeat says the machine", || {
        served.get("workers")["workers"][0]["machine"] == machine.trim()
    });
    env.write("go", "");
    run.child.wait().unwrap();
}

#[test]
fn streams_have_eight_places() {
    let env = TestEnv::new();
    let served = serve(&env, &[]);
    let mut open: Vec<_> = (0..8).map(|_| served.stream("events", &[])).collect();
    let reply = served.ask("GET /api/v1/events", &[], "");
    assert_eq!(reply.status, 503, "{reply:?}");
    open.pop();
    // The server notices the end of a connection by itself.
    crate::common::env::wait_until("a place is free", || {
        let stream = served.send("GET /api/v1/events", &[], "");
        std::io::BufRead::lines(std::io::BufReader::new(stream))
            .next()
            .unwrap()
            .unwrap()
            .contains(" 200 ")
    });
}
