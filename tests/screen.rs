//! What a person sees on a terminal while a plan is carried out, as a terminal shows it; and what is not drawn elsewhere.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::common::env::{Running, Terminal, TestEnv, has, lacks, skip, wait_until};

/// A coding agent that says what it does, waits for a file named `go`, and reports. Of the second task it uses no tool.
const CLAUDE: &str = r#"[ "$1" = --version ] && { echo "2.1.330 (Claude Code)"; exit; }
prompt=$(cat)
say() { printf '%s\n' "{\"type\":\"assistant\",\"session_id\":\"s\",\"message\":{\"id\":\"$1\",\"usage\":{\"input_tokens\":12000,\"output_tokens\":300},\"content\":[$2]}}"; }
echo '{"type":"system","subtype":"init","session_id":"s"}'
say m1 '{"type":"text","text":"First I look around.\nThen I write."}'
case $prompt in
*"Read every"*)
    say m1 "{\"type\":\"tool_use\",\"name\":\"Edit\",\"input\":{\"file_path\":\"$PWD/src/formats/\\u001b[2Jancient.rs\"}}"
    echo '{"type":"user","session_id":"s","message":{"content":[{"type":"tool_result","content":"one\ntwo\nthree\nfour\nfive\nsix"}]}}'
    say m2 '{"type":"tool_use","name":"Bash","input":{"command":"cargo test --workspace -- formats"}}' ;;
esac
until [ -e "$GO" ]; do sleep 0.02; done
echo done >> "made-$$"
printf '%s\n' '{"type":"result","is_error":false,"permission_denials":[],"session_id":"s","total_cost_usd":0.12,"usage":{"input_tokens":24000,"output_tokens":600},"result":"---\nstatus: SUCCESS\n---\n\n## Core results\n\nMade."}'
"#;

const PLAN: &str = "\
---
name: Formats
goal: The new program reads what the old one could
---

## Read every format that the old program could read

Do it.

## 书写说明文档

Do it.

## Ship it

- after: 1

Do it.
";

/// Fails in every attempt, in the same way.
const FAILING: &str = "\
---
name: Ports
goal: Serve
---

## Serve

```sh
echo cannot bind port 8081 >&2; exit 1
```

## Write

```sh
echo made > made.txt
```

- check: test -s made.txt
";

fn env(columns: u16) -> TestEnv {
    let mut env = TestEnv::new();
    let config = "llm.provider = 'none'\nrun.max_parallel = 2\nworker.env = ['PATH', 'GO']\n";
    env.write("config.toml", config);
    env.write("plan.md", PLAN);
    env.write("failing.md", FAILING);
    env.show_script("claude", CLAUDE);
    env.set("TERM", "xterm");
    let go = env.path("go");
    env.set("GO", go.to_str().unwrap());
    env.widen(columns);
    env
}

/// Returns what stands on a terminal of that width, with everything replaced that differs from run to run.
fn screen(terminal: &Terminal, columns: u16) -> String {
    let mut parser = vt100::Parser::new(24, columns, 0);
    parser.process(terminal.shown().replace('\n', "\r\n").as_bytes());
    parser.screen().contents()
}

/// Replaces moments, spans and what turns.
fn steady(text: &str, env: &TestEnv) -> String {
    let spun = |c: char| {
        if "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏".contains(c) {
            '*'
        } else {
            c
        }
    };
    let text: String = env.normal(text).chars().map(spun).collect();
    let word = |word: &str| {
        let digits = word.chars().all(|c| c.is_ascii_digit() || c == ':');
        match (digits && word.contains(':'), word.len()) {
            (true, 8) => "hh:mm:ss".to_owned(),
            (true, _) => "m:ss".to_owned(),
            _ => word.to_owned(),
        }
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(|text| line(text) + "\n").collect()
}

fn of_plan(text: &str) -> String {
    let from = text
        .find("goal: ")
        .map_or(0, |at| text[..at].rfind('\n').map_or(0, |at| at + 1));
    text[from..].to_owned()
}

fn start(env: &TestEnv, args: &str) -> (Running, Terminal) {
    env.start_on_terminal(args)
}

fn run_plan(env: &TestEnv) -> (Running, Terminal) {
    start(env, "run --plan plan.md --agent claude")
}

#[test]
fn live_area_shows_what_agents_do() {
    let shown = |columns: u16| {
        let env = env(columns);
        let (mut running, terminal) = run_plan(&env);
        let mut seen = String::new();
        wait_until("both agents are at work", || {
            seen = screen(&terminal, columns);
            seen.contains("cargo test") && seen.contains("Then I write")
        });
        let working = steady(&of_plan(&seen), &env);
        env.write("go", "");
        assert_eq!(running.wait().code(), Some(0), "{}", terminal.shown());
        wait_until("the last line is there", || {
            terminal.shown().contains("MISSION.md")
        });
        let ended = steady(&of_plan(&screen(&terminal, columns)), &env);
        // What an agent writes is never obeyed.
        lacks(&terminal.shown(), "\u{1b}[2J");
        assert_eq!(terminal.shown().matches('\u{7}').count(), 1, "one bell");
        (working, ended)
    };
    let (working, ended) = shown(60);
    insta::assert_snapshot!(working, @"");
    insta::assert_snapshot!(ended, @"");
    let (working, _) = shown(100);
    insta::assert_snapshot!(working, @"");
    let (working, ended) = shown(160);
    insta::assert_snapshot!(working, @"");
    insta::assert_snapshot!(ended, @"");
}

#[test]
fn live_area_is_off_where_it_cannot_be_drawn_or_is_not_wanted() {
    let args = "run --plan plan.md --agent claude";
    let cases = [
        ("dumb", args.to_owned()),
        ("xterm", format!("{args} --quiet")),
        ("xterm", format!("{args} --json")),
    ];
    for (term, args) in cases {
        let mut env = env(100);
        env.set("TERM", term);
        env.write("go", "");
        let (mut running, terminal) = start(&env, &args);
        assert_eq!(running.wait().code(), Some(0), "{}", terminal.shown());
        lacks(&terminal.shown(), ["\u{1b}[J", "tasks done ·"]);
    }
    let env = env(100);
    env.write("go", "");
    let piped = env.run(args);
    assert_eq!(piped.code, Some(0), "{piped:?}");
    lacks(&piped.stdout, ["\u{1b}", "\u{7}", "tasks done ·"]);
}

#[test]
fn question_stands_alone_below_what_stays() {
    let env = env(100);
    let (mut running, mut terminal) = start(&env, "run --plan failing.md --agent shell");
    let mut seen = String::new();
    wait_until("it asks", || {
        seen = screen(&terminal, 100);
        seen.trim_end().ends_with('>')
    });
    insta::assert_snapshot!(steady(&of_plan(&seen), &env), @"");
    let asked = terminal.shown();
    has(
        &asked,
        "\u{1b}]9;plan-agent: asks about task 1 · Serve\u{1b}\\\u{7}",
    );
    terminal.answer("> ", "skip not today");
    assert_eq!(running.wait().code(), Some(0), "{}", terminal.shown());
    wait_until("the last line is there", || {
        terminal.shown().contains("MISSION.md")
    });
    assert_eq!(
        terminal.shown().matches('\u{7}').count(),
        2,
        "it asks, and it ends"
    );
}

#[test]
fn quiet_run_prints_questions_failures_and_last_lines() {
    let env = env(100);
    let ran = env.run("run --plan failing.md --agent shell --quiet");
    insta::assert_snapshot!(steady(&ran.stdout, &env), @"");
}

/// Runs the plan of the coding agent to its end.
fn done() -> TestEnv {
    let env = env(100);
    env.write("go", "");
    let ran = env.run("run --plan plan.md --agent claude");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    env
}

#[test]
fn logs_prints_output_of_agent_readably() {
    let env = done();
    let printed = |args: &str| {
        let ran = env.run(args);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stdout
            .lines()
            .filter(|line| !line.starts_with("from `"))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    insta::assert_snapshot!(printed("logs 1"), @"");
    assert_eq!(printed("logs 1 --attempt 1 --follow"), printed("logs 1"));
    env.run("logs 1 --attempt 7").has_stderr("no attempt `7`");
    env.run("logs 9").has_stderr("no task `9`");
}

#[test]
fn logs_follow_agent_until_its_attempt_ends() {
    let env = env(100);
    let (mut running, terminal) = run_plan(&env);
    wait_until("it works", || terminal.shown().contains("Then I write"));
    let (mut following, log) = start(&env, "logs 2 --follow");
    wait_until("what it said is printed", || {
        log.shown()
            .contains("First I look around.\nThen I write.\n")
    });
    assert!(following.child.try_wait().unwrap().is_none());
    env.write("go", "");
    assert_eq!(following.wait().code(), Some(0));
    assert_eq!(running.wait().code(), Some(0));
}

#[test]
fn logs_prints_plain_output_as_it_is() {
    let env = env(100);
    env.run("run --plan failing.md --agent shell --no-input");
    let shown = env.run("logs 1").stdout;
    has(
        &shown,
        ["1 · Serve · attempt 3\n", "! cannot bind port 8081\n"],
    );
    has(&env.run("logs 2").stdout, "(no output)");
}

#[test]
fn watched_ages_move_on_while_nothing_changes() {
    let env = env(100);
    let (mut running, terminal) = run_plan(&env);
    wait_until("it works", || terminal.shown().contains("Then I write"));
    let (mut watching, page) = start(&env, "status --watch");
    wait_until("two ages are shown", || {
        let shown = page.shown();
        let ages: std::collections::BTreeSet<&str> = shown
            .split("attempt 1 for ")
            .skip(1)
            .filter_map(|rest| rest.split(" s").next())
            .collect();
        ages.len() > 1
    });
    env.write("go", "");
    assert_eq!(running.wait().code(), Some(0));
    assert_eq!(watching.wait().code(), Some(0));
    insta::assert_snapshot!(steady(&screen(&page, 100), &env), @"");
}

/// Runs a hook of the examples with a stand-in for the program that it calls, which records its arguments and its input.
fn notify(script: &str, stand_in: &str, call: &serde_json::Value) -> Option<String> {
    let has_jq = Command::new("jq")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if !has_jq.is_ok_and(|status| status.success()) {
        skip("no `jq`");
        return None;
    }
    let mut env = TestEnv::new();
    let record = format!(
        "printf '[%s]\\n' \"$@\" > {0}; [ {stand_in} = curl ] && cat - /dev/fd/3 >> {0}; exit 0",
        env.path("got").display()
    );
    env.show_script(stand_in, &record);
    env.write("call.json", &(call.to_string() + "\n"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/notify");
    let ran = Command::new("sh")
        .arg(folder.join(script))
        .current_dir(env.path(""))
        .env("PATH", env.variable("PATH"))
        .env("NTFY_URL", "https://ntfy.example/secret-topic")
        .env("SLACK_WEBHOOK_URL", "https://slack.example/secret")
        .stdin(fs::File::open(env.path("call.json")).unwrap())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{script}: {ran:?}");
    assert!(!env.path("pwned").exists(), "{script} ran what it was told");
    Some(env.read("got"))
}

#[test]
fn ready_hooks_send_notice_and_run_nothing() {
    let hostile = "`touch pwned` $(touch pwned) <!channel> & \"'\\\n\u{1b}[31m";
    let plan = json!({"name": hostile, "status": "running", "tasks": 3, "completed": 1});
    let question = json!({"task": 2, "task_name": "Serve", "reason": hostile});
    let call = json!({"event": "question", "plan": plan, "question": question});
    let said = "`touch pwned` $(touch pwned)";
    if let Some(got) = notify("desktop.sh", "notify-send", &call) {
        has(
            &got,
            [
                "plan-agent asks",
                said,
                "[task 2 · Serve: ",
                "&lt;!channel&gt;",
            ],
        );
        lacks(&got, "\u{1b}");
    }
    for (script, url) in [
        ("ntfy.sh", "url = \"https://ntfy.example/\""),
        ("slack.sh", "url = \"https://slack.example/secret\""),
    ] {
        let Some(got) = notify(script, "curl", &call) else {
            return;
        };
        has(&got, ["plan-agent asks", said, url]);
        let arguments: String = got.lines().filter(|line| line.starts_with('[')).collect();
        lacks(&arguments, ["secret", "touch"]);
        lacks(&got, "\u{1b}");
    }
    let finish = json!({"event": "finish", "plan": {"name": "A try", "status": "completed", "tasks": 2, "completed": 2}});
    if let Some(got) = notify("slack.sh", "curl", &finish) {
        has(&got, "A try is completed\\n2 of 2 tasks completed");
    }
}
