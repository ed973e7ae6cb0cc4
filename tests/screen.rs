//! What a person sees on a terminal while a plan is carried out, as a terminal shows it; and what is not drawn elsewhere.

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

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
    printf '%s\n' '{"type":"user","session_id":"s","message":{"content":[{"type":"tool_result","content":"one\ntwo\nthree\nfour\nfive\nsix"}]}}'
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

- checks: made

```sh
echo made > made.txt
```

";

/// The rows of a terminal.
const ROWS: NonZero<u16> = NonZero::new(24).unwrap();

fn env(columns: u16) -> TestEnv {
    with_lanes(columns, 2)
}

fn with_lanes(columns: u16, lanes: u32) -> TestEnv {
    let mut env = TestEnv::new();
    let config = format!(
        "llm.provider = 'none'\nrun.max_parallel = {lanes}\nworker.env = ['PATH', 'GO']\nchecks.made = {{ run = ['test', '-s', 'made.txt'] }}\n"
    );
    env.write("config.toml", &config);
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
    let mut parser = vt100::Parser::new(ROWS, columns.try_into().unwrap(), 0);
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
    let status: Value = serde_json::from_str(&env.run("status --json").stdout).unwrap();
    let plan = status["plan"]["id"].as_str().unwrap();
    let question = status["questions"][0]["id"]
        .as_str()
        .unwrap_or("[QUESTION]");
    let text = text.replace(plan, "[PLAN]").replace(question, "[QUESTION]");
    let word = |word: &str| {
        let digits = word.chars().all(|c| c.is_ascii_digit() || c == ':');
        match (digits && word.contains(':'), word.len()) {
            (true, 8) => "hh:mm:ss".to_owned(),
            (true, 4..) => "m:ss".to_owned(),
            _ => word.to_owned(),
        }
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    // How long it took is no matter here, and left out below one second.
    let took = |part: &&str| {
        let seconds = part.strip_suffix(" s").map(str::parse::<u32>);
        !matches!(seconds, Some(Ok(_)))
    };
    let lines = text.lines().filter(|line| !line.starts_with("Used: "));
    let kept = lines.map(|line| {
        line.split(" · ")
            .filter(took)
            .collect::<Vec<_>>()
            .join(" · ")
    });
    kept.map(|text| line(&text) + "\n").collect()
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
            // The end of a frame: the bar.
            let bar = if columns < 80 { "36k" } else { "36k tokens" };
            seen.contains("cargo test") && seen.trim_end().ends_with(bar)
        });
        let working = steady(&of_plan(&seen), &env);
        env.write("go", "");
        assert_eq!(running.wait().code(), Some(0), "{}", terminal.shown());
        wait_until("the last line is there", || {
            terminal.shown().contains("MISSION.md")
        });
        let ended = steady(&screen(&terminal, columns), &env);
        let last = ended.find("plan [PLAN]").unwrap_or_default();
        let ended = ended[last..].to_owned();
        // What an agent writes is never obeyed.
        lacks(terminal.shown(), "\u{1b}[2J");
        assert_eq!(terminal.shown().matches('\u{7}').count(), 1, "one bell");
        (working, ended)
    };
    let (working, ended) = shown(60);
    insta::assert_snapshot!(working, @r"
    hh:mm:ss UTC goal: The new program reads what the old one
             could
    hh:mm:ss UTC planned 3 tasks
               1 · Read every format that the old program could
               read
               2 · 书写说明文档
               3 · Ship it  (after 1)
               expected: 2 min to 20 min (a guess: few tasks
               were done here yet)
    hh:mm:ss UTC 1 · Read every format that the old program
             could read: dispatched
    hh:mm:ss UTC 2 · 书写说明文档: dispatched
     * 1 · Read every fo…  Bash cargo test --works…  m:ss · 24k
     * 2 · 书写说明文档    Then I write.             m:ss · 12k
     ░░░░░░░░░░ 0 of 3 done · m:ss · 36k
    ");
    insta::assert_snapshot!(ended, @r"
    plan [PLAN]: completed
    3 of 3 tasks completed, 3 accepted.
    ~ 3 accepted · 73k tokens · $0.36
    The work is in `volumes/workspace`, and MISSION.md there
    tells about it.
    ");
    let (working, _) = shown(100);
    insta::assert_snapshot!(working, @r"
    hh:mm:ss UTC goal: The new program reads what the old one could
    hh:mm:ss UTC planned 3 tasks
               1 · Read every format that the old program could read
               2 · 书写说明文档
               3 · Ship it  (after 1)
               expected: 2 min to 20 min (a guess: few tasks were done here yet)
    hh:mm:ss UTC 1 · Read every format that the old program could read: dispatched
    hh:mm:ss UTC 2 · 书写说明文档: dispatched
     * 1 · Read every format that the …  Bash cargo test --workspace -- formats       m:ss · 24k tokens
     * 2 · 书写说明文档                  Then I write.                                m:ss · 12k tokens
     ░░░░░░░░░░░░░░░░ 0 of 3 done · m:ss · 36k tokens
    ");
    let (working, ended) = shown(160);
    insta::assert_snapshot!(working, @r"
    hh:mm:ss UTC goal: The new program reads what the old one could
    hh:mm:ss UTC planned 3 tasks
               1 · Read every format that the old program could read
               2 · 书写说明文档
               3 · Ship it  (after 1)
               expected: 2 min to 20 min (a guess: few tasks were done here yet)
    hh:mm:ss UTC 1 · Read every format that the old program could read: dispatched
    hh:mm:ss UTC 2 · 书写说明文档: dispatched
     * 1 · Read every format that the old program could re…  Bash cargo test --workspace -- formats                                               m:ss · 24k tokens
     * 2 · 书写说明文档                                      Then I write.                                                                        m:ss · 12k tokens
     ░░░░░░░░░░░░░░░░░░░░░░░░░░ 0 of 3 done · m:ss · 36k tokens
    ");
    insta::assert_snapshot!(ended, @r"
    plan [PLAN]: completed
    3 of 3 tasks completed, 3 accepted.
    ~ 3 accepted · 73k tokens · $0.36
    The work is in `volumes/workspace`, and MISSION.md there tells about it.
    ");
}

#[test]
fn typed_keys_do_not_tear_the_live_area() {
    for signal in [None, Some(Signal::INT), Some(Signal::TERM)] {
        let env = env(100);
        let (mut running, mut terminal) = run_plan(&env);
        terminal.await_shown("Then I write");
        wait_until("keys are not shown", || !terminal.echoes());
        terminal.type_unread("typed");
        match signal {
            Some(signal) => kill_process(Pid::from_child(&running.child), signal).unwrap(),
            None => env.write("go", ""),
        }
        running.wait();
        wait_until("keys are shown again", || terminal.echoes());
        lacks(terminal.shown(), "typed");
    }
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
        lacks(terminal.shown(), ["\u{1b}[J", "tasks done ·"]);
        if term == "dumb" {
            // Colours are escape sequences, too.
            lacks(terminal.shown(), "\u{1b}");
        }
    }
    let env = env(100);
    env.write("go", "");
    let piped = env.run(args);
    assert_eq!(piped.code, Some(0), "{piped:?}");
    lacks(&piped.stdout, ["\u{1b}", "\u{7}", "tasks done ·"]);
}

/// In the background of a shell the terminal is the shell's: nothing is drawn or read there, and the plan goes on.
#[test]
fn run_in_the_background_of_a_shell_goes_on() {
    if Command::new("setsid").arg("--version").output().is_err() {
        return skip("there is no `setsid`");
    }
    for put_there in [" &", ""] {
        run_goes_on_in_the_background(put_there);
    }
}

fn run_goes_on_in_the_background(put_there: &str) {
    let mut env = with_lanes(100, 1);
    env.set("PS1", "");
    let waits = "until [ -e \"$GO\" ]; do sleep 0.02; done; exit 1";
    let failing = FAILING.replace("echo cannot bind port 8081 >&2; exit 1", waits);
    assert_ne!(failing, FAILING);
    env.write("failing.md", &failing);
    let (_shell, mut terminal) = env.start_shell_on_terminal();
    let run = format!("\"$1\" run --plan failing.md --agent shell{put_there}\n");
    terminal.type_keys(&run);
    terminal.await_shown("1 · Serve: dispatched");
    if put_there.is_empty() {
        terminal.await_shown("░");
        terminal.type_keys("\u{1a}");
        terminal.await_shown("Stopped");
        for command in ["status", "plans"] {
            env.exits(0, command)
                .has_stderr(["is suspended", "Hint: `bg` or `fg`"]);
        }
        terminal.type_keys("bg\n");
        wait_until("the plan goes on", || {
            !env.run("plans").stderr.contains("is suspended")
        });
    }
    let before = terminal.shown().len();
    env.write("go", "");
    wait_until("it asks", || env.run("questions").stdout.contains("skip"));
    terminal.await_shown("? asks you about task 1");
    // Keys are the shell's, and to read them would stop the plan.
    terminal.type_keys("echo typed-$((40 + 2))\n");
    terminal.await_shown("typed-42");
    lacks(env.exits(0, "status").stderr, "is suspended");
    let beside = terminal.shown()[before..].to_owned();
    lacks(&beside, ["\u{1b}[J", "task 1 · Serve? "]);
    terminal.type_keys("fg\n");
    terminal.await_shown("task 1 · Serve? ");
    // Once more, with the question there: this shell does not set the terminal again itself.
    terminal.type_keys("\u{1a}");
    terminal.await_below("task 1 · Serve? ", "Stopped");
    terminal.type_keys("bg\n");
    wait_until("the plan goes on", || {
        !env.run("plans").stderr.contains("is suspended")
    });
    // It finds itself in the background, and prints what happens.
    env.exits(0, "answer retry");
    terminal.await_below("answered retry", "? asks you about task 1");
    terminal.type_keys("fg\n");
    terminal.await_below("answered retry", "task 1 · Serve? ");
    terminal.type_keys("skip not today\n");
    terminal.await_shown("MISSION.md");
    wait_until("keys are shown again", || terminal.echoes());
}

#[test]
fn question_stands_alone_below_what_stays() {
    let env = with_lanes(100, 1);
    let (mut running, mut terminal) = start(&env, "run --plan failing.md --agent shell");
    let mut seen = String::new();
    wait_until("it asks, and the other task has ended", || {
        seen = screen(&terminal, 100);
        seen.contains("2 · Write: ~ completed, accepted") && seen.trim_end().ends_with('>')
    });
    has(
        &seen,
        "? task 1 · Serve\n  cannot bind port 8081 (Block 1 of 1 ended with exit code 1)",
    );
    assert_eq!(seen.matches("task 1 · Serve? ").count(), 1, "{seen}");
    lacks(&seen, "░");
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

/// A line that is typed stays whole while what is at work changes above it, and changes are printed.
#[test]
fn question_shows_what_is_at_work_beside_it() {
    for (columns, term) in [(60, "xterm"), (100, "xterm"), (160, "xterm"), (100, "dumb")] {
        let mut env = with_lanes(columns, 3);
        env.set("TERM", term);
        let waits = "until [ -e \"$GO\" ]; do sleep 0.02; done; echo made > made.txt";
        let write = FAILING.replace("echo made > made.txt", waits);
        let read = format!(
            "## Read every format that the old program could read\n\n```sh\n{waits}\n```\n"
        );
        env.write("failing.md", &format!("{write}{read}"));
        let (mut running, mut terminal) = start(&env, "run --plan failing.md --agent shell");
        let shows = |terminal: &Terminal, what: &str| {
            wait_until(what, || screen(terminal, columns).contains(what));
        };
        shows(&terminal, "task 1 · Serve? ");
        if term == "dumb" {
            lacks(terminal.shown(), "at work");
        } else {
            shows(
                &terminal,
                "2 tasks at work: 2 · Write, 3 · Read every format",
            );
        }
        terminal.type_keys("skip not to");
        shows(&terminal, "> skip not to");
        env.write("go", "");
        let mut seen = String::new();
        wait_until("both have ended", || {
            seen = screen(&terminal, columns);
            // While lines are printed, the prompt is off the screen.
            let whole = seen.trim_end().ends_with("> skip not to");
            whole && seen.matches(": ~").count() == 2 && !seen.contains("at work")
        });
        assert_eq!(seen.matches("task 1 · Serve? ").count(), 1, "{seen}");
        terminal.type_keys("day\n");
        assert_eq!(running.wait().code(), Some(0), "{}", terminal.shown());
    }
}

#[test]
fn quiet_run_prints_questions_failures_and_last_lines() {
    let env = with_lanes(100, 1);
    let ran = env.run("run --plan failing.md --agent shell --quiet");
    insta::assert_snapshot!(steady(&ran.stdout, &env), @r"
    agents work in `volumes/workspace`
    hh:mm:ss UTC 1 · Serve: retry: cannot bind port 8081 (Block 1 of 1 ended with exit code 1); the agent reports FAILED
    hh:mm:ss UTC 1 · Serve: failed again in the same way (2 times)
    hh:mm:ss UTC 1 · Serve: failed again in the same way (3 times)
    hh:mm:ss UTC ? asks you about task 1: cannot bind port 8081 (Block 1 of 1 ended with exit code 1); the agent reports FAILED; the task failed 3 times in a row

    ~ 1 accepted · 1 not done
    plan [PLAN] waits for you:
      [QUESTION]  task 1: cannot bind port 8081 (Block 1 of 1 ended with exit code 1); the agent reports FAILED; the task failed 3 times in a row
        plan-agent answer [QUESTION] retry|skip|abort
    ");
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
        env.normal(&ran.stdout)
            .lines()
            .filter(|line| !line.starts_with("from `"))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    insta::assert_snapshot!(printed("logs 1"), @r"
    1 · Read every format that the old program could read · attempt 1
    First I look around.
    Then I write.
    → Edit src/formats/ancient.rs
      one
      two
      three
      four
      five
      … 1 more line
    → Bash cargo test --workspace -- formats
    ");
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
    insta::assert_snapshot!(steady(&screen(&page, 100), &env), @r"
    [PLAN]  Formats  completed
    Goal: The new program reads what the old one could
    3 of 3 tasks done

       1  completed    Read every format that the old program could read · ~ accepted
       2  completed    书写说明文档 · ~ accepted
       3  completed    Ship it · ~ accepted

    3 of 3 tasks completed, 3 accepted.
    ");
}

/// Runs a hook of the examples with a stand-in for the program that it calls, which records its arguments and its input.
fn notify(script: &str, stand_in: &str, call: &Value) -> Option<String> {
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
