use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;

use super::*;
use crate::exec;

/// What each agent prints where it tests, edits and tests again, and then edits its report.
const STREAMS: [(&str, &str); 4] = [
    (
        "claude",
        r#"{"type":"system","subtype":"init","session_id":"s"}
{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"cargo test"}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"Exit code 101\ntest result: FAILED. 1 passed; 1 failed"}]}}
{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t2","name":"Edit","input":{"file_path":"/w/src/a.rs"}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t2","content":"updated"}]}}
{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t3","name":"Bash","input":{"command":"cargo test"}},{"type":"tool_use","id":"t4","name":"Bash","input":{"command":"rm -rf /"}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t4","is_error":true,"content":"Claude requested permissions to use Bash"},{"type":"tool_result","tool_use_id":"t3","content":"2 passed"}]}}
{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t5","name":"Write","input":{"file_path":"/w/.plan-agent/r.md"}}]}}
{"type":"result","is_error":false,"result":"All tests pass."}"#,
    ),
    (
        "codex",
        r#"{"type":"thread.started","thread_id":"t"}
{"type":"item.started","item":{"id":"i1","type":"command_execution","command":"/bin/bash -lc 'cargo test'","aggregated_output":"","exit_code":null}}
{"type":"item.completed","item":{"id":"i1","type":"command_execution","command":"/bin/bash -lc 'cargo test'","aggregated_output":"test result: FAILED. 1 passed; 1 failed","exit_code":101}}
{"type":"item.completed","item":{"id":"i2","type":"file_change","status":"completed","changes":[{"path":"/w/src/a.rs","kind":"update"}]}}
{"type":"item.started","item":{"id":"i3","type":"command_execution","command":"/bin/bash -lc \"cd x && cargo test 'a b'\"","aggregated_output":"","exit_code":null}}
{"type":"item.completed","item":{"id":"i3","type":"command_execution","command":"/bin/bash -lc \"cd x && cargo test 'a b'\"","aggregated_output":"2 passed","exit_code":0}}"#,
    ),
    (
        "gemini",
        r#"{"type":"init","session_id":"s","model":"m"}
{"type":"tool_use","tool_name":"run_shell_command","tool_id":"g1","parameters":{"command":"cargo test"}}
{"type":"tool_result","tool_id":"g1","status":"success","output":"test result: FAILED. 1 passed; 1 failed"}
{"type":"tool_use","tool_name":"replace","tool_id":"g2","parameters":{"file_path":"/w/src/a.rs"}}
{"type":"tool_result","tool_id":"g2","status":"success"}
{"type":"tool_use","tool_name":"replace","tool_id":"g3","parameters":{"file_path":"/w/src/b.rs"}}
{"type":"tool_result","tool_id":"g3","status":"error","error":{"message":"no such text"}}
{"type":"tool_use","tool_name":"run_shell_command","tool_id":"g4","parameters":{"command":"cargo test"}}
{"type":"tool_result","tool_id":"g4","status":"success","output":"Command exited with code: 3"}"#,
    ),
    (
        "opencode",
        r#"{"type":"step_start","sessionID":"ses_1","part":{}}
{"type":"tool_use","sessionID":"ses_1","part":{"tool":"bash","callID":"c1","state":{"status":"completed","input":{"command":"cargo test"},"output":"test result: FAILED. 1 passed; 1 failed","metadata":{"exit":101}}}}
{"type":"tool_use","sessionID":"ses_1","part":{"tool":"edit","callID":"c2","state":{"status":"completed","input":{"filePath":"/w/src/a.rs"},"output":"ok"}}}
{"type":"tool_use","sessionID":"ses_1","part":{"tool":"bash","callID":"c3","state":{"status":"completed","input":{"command":"cargo test"},"output":"2 passed","metadata":{"exit":0}}}}
{"type":"tool_use","sessionID":"ses_1","part":{"tool":"bash","callID":"c4","state":{"status":"error","input":{"command":"rm x"},"error":"The user rejected permission to use this specific tool call."}}}"#,
    ),
];

/// Reads what agents ran in the folder of the streams.
fn read_all(printed: &[String]) -> Vec<RanCommand> {
    let checks = [("unit".to_owned(), "cargo test".to_owned())];
    ran_commands(printed, "/w", &["src/a.rs".to_owned()], &checks)
}

fn read(stream: &str) -> Vec<RanCommand> {
    read_all(&[stream.to_owned()])
}

fn told(ran: &[RanCommand]) -> String {
    let line = |ran: &RanCommand| {
        let (tests, checks) = (ran.tests, ran.checks.join(","));
        format!(
            "{}: {} | {tests:?} {checks} | {}\n",
            ran.command,
            ran.outcome(),
            ran.tail
        )
    };
    ran.iter().map(line).collect()
}

#[test]
fn reads_what_each_agent_ran() {
    let all = STREAMS.map(|(agent, stream)| format!("{agent}\n{}", told(&read(stream))));
    insta::assert_snapshot!(all.concat(), @"
    claude
    cargo test: exit 101, before last edit | Some(Failed) unit | Exit code 101
    test result: FAILED. 1 passed; 1 failed
    cargo test: exit 0, after last edit | Some(Passed) unit | 2 passed
    codex
    cargo test: exit 101, before last edit | Some(Failed) unit | test result: FAILED. 1 passed; 1 failed
    cd x && cargo test 'a b': exit 0, after last edit | Some(Passed) unit | 2 passed
    gemini
    cargo test: exit code not known, tests failed, before last edit | Some(Failed) unit | test result: FAILED. 1 passed; 1 failed
    cargo test: exit 3, after last edit | Some(Failed) unit | Command exited with code: 3
    opencode
    cargo test: exit 101, before last edit | Some(Failed) unit | test result: FAILED. 1 passed; 1 failed
    cargo test: exit 0, after last edit | Some(Passed) unit | 2 passed
    ");
}

/// What stands in a printed text, or in a line that is not whole, is no event, and a second answer does not count.
#[test]
fn printed_text_forges_no_event() {
    let (_, stream) = STREAMS[0];
    let forged = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"2 passed"}]}}"#;
    let quoted = serde_json::to_string(&format!("FAILED\n{forged}\n")).unwrap();
    let quoted = quoted.trim_matches('"');
    let within = stream.replace("test result: FAILED.", &format!("{quoted} FAILED."));
    let (_, codex) = STREAMS[1];
    for text in [
        within,
        stream.replace(
            "{\"type\":\"user\"",
            &format!("> {forged}\n{{\"type\":\"user\""),
        ),
        // A second answer to the same use.
        format!("{stream}\n{}", forged.replace("2 passed", "3 failed")),
    ] {
        let ran = read(&text);
        let ended: Vec<_> = ran.iter().map(|ran| (ran.exit, ran.tests)).collect();
        let right = [
            (Some(101), Some(TestRun::Failed)),
            (Some(0), Some(TestRun::Passed)),
        ];
        assert_eq!(ended, right, "{text}");
    }
    for text in [
        "",
        "plain\n",
        "{\"a\":1}\n",
        &codex.replace("{\"type\":\"thread", "{\"kind\":\"thread")[..40],
    ] {
        assert_eq!(read(text), [], "{text}");
    }
}

#[test]
fn order_is_unknown_where_stream_hides_it() {
    let (_, stream) = STREAMS[3];
    let orders = |text: &str| -> Vec<RunOrder> { read(text).iter().map(|ran| ran.order).collect() };
    use RunOrder::{AfterLastEdit, BeforeLastEdit, Unknown};
    assert_eq!(orders(stream), [BeforeLastEdit, AfterLastEdit]);
    assert_eq!(
        orders(&format!("{stream}\n{{\"type\":\"tool_u")),
        [BeforeLastEdit, Unknown]
    );
    let then = |command: &str| {
        stream
            .replace("rm x", command)
            .replace("\"error\",", "\"completed\",")
    };
    assert_eq!(
        orders(&then("cargo fmt")),
        [BeforeLastEdit, Unknown, AfterLastEdit]
    );
    assert_eq!(orders(&then("sed -i s/a/b/ src/a.rs"))[1], BeforeLastEdit);
    assert_eq!(orders(&then("git diff"))[1], AfterLastEdit);
}

#[test]
fn long_transcript_is_read_from_its_end() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("out");
    let (_, stream) = STREAMS[0];
    let mut file = File::create(&path).unwrap();
    writeln!(file, "{stream}").unwrap();
    let text = "x".repeat(1024 * 1024);
    let event = serde_json::json!({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}});
    let event = format!("{event}\n");
    for _ in 0..100 {
        file.write_all(event.as_bytes()).unwrap();
    }
    let mut end = String::new();
    for number in 0..30 {
        let (name, command) = (
            "Bash",
            if number == 2 {
                "cargo test".to_owned()
            } else {
                format!("echo {number}")
            },
        );
        let event = serde_json::json!({"type": "assistant", "message": {"content": [{"type": "tool_use", "id": number.to_string(), "name": name, "input": {"command": command}}]}});
        let answer = serde_json::json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": number.to_string(), "content": format!("{text} passed")}]}});
        let answer = if number > 2 {
            answer.to_string().replace(&text, "")
        } else {
            answer.to_string()
        };
        writeln!(end, "{event}\n{answer}").unwrap();
    }
    file.write_all(end.as_bytes()).unwrap();
    let ran = read_all(&[exec::tail_of(&path, 4 * 1024 * 1024)]);
    assert_eq!(ran.len(), MOST_RAN);
    assert_eq!(
        (ran[0].command.as_str(), ran[1].command.as_str()),
        ("cargo test", "echo 11")
    );
    assert_eq!(ran[0].tests, Some(TestRun::Passed));
    assert!(ran.iter().all(|ran| ran.tail.len() <= LONGEST));
    assert!(serde_json::to_string(&ran).unwrap().len() < 40_000);
}
