//! What the coding agents printed, recorded against a model on this machine and shortened, and what is read of it.

mod calls;

use std::path::{Path, PathBuf};

use super::*;
use crate::exec::ChildExit;
use crate::plan::{ModelCost, Time};

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/agents")
}

pub(super) fn sample(name: &str) -> String {
    std::fs::read_to_string(samples().join(format!("{name}.txt"))).unwrap()
}

fn exited(code: i32) -> ChildExit {
    ChildExit {
        exit: Some(code),
        ..ChildExit::default()
    }
}

/// Reads the first run of a session, which printed this and ended like this.
fn read(kind: &'static CodingAgent, out: &str, exit: Option<ChildExit>) -> RunReading {
    kind.read(&RunOutput {
        out,
        err: "",
        exit,
        begins: true,
        now: Time(0),
    })
}

/// Reads `tests/samples/agents/NAME.txt`: how it ended, then what it printed.
fn heard(name: &str) -> RunReading {
    heard_when(name, Some)
}

fn heard_when(name: &str, exit: impl FnOnce(ChildExit) -> Option<ChildExit>) -> RunReading {
    let text = sample(name);
    let (how, text) = text.split_once("\n---- stdout\n").unwrap();
    let (out, err) = text.split_once("\n---- stderr\n").unwrap();
    let (kind, number) = how.split_once(' ').unwrap();
    let number: i32 = number.parse().unwrap();
    let ended = match kind {
        "exit" => exited(number),
        _ => ChildExit {
            signal: Some(number),
            ..ChildExit::default()
        },
    };
    let (agent, _) = name.split_once('-').unwrap();
    CodingAgent::named(agent).unwrap().read(&RunOutput {
        out,
        err,
        exit: exit(ended),
        begins: !name.ends_with("resumed"),
        now: Time(0),
    })
}

/// Tells an outcome in a word and what matters of it.
fn told(outcome: &RunOutcome) -> String {
    match outcome {
        RunOutcome::Done(text) => format!("done: {text}"),
        RunOutcome::Refused {
            what, unfinished, ..
        } => {
            let unfinished = unfinished.iter().map(|why| format!(", unfinished: {why}"));
            format!("refused: {}", what.join("; ")) + &unfinished.collect::<String>()
        }
        RunOutcome::Model(fault) => {
            let status = fault.status.map_or("-".into(), |status| status.to_string());
            format!("model {status} retryable {}", fault.retryable)
        }
        RunOutcome::SessionMissing => "missing".into(),
        RunOutcome::SessionInUse => "in use".into(),
        RunOutcome::Usage(said) => format!("usage: {}", said.lines().next().unwrap_or_default()),
        RunOutcome::NoStart(said) => {
            format!("no start: {}", said.lines().next().unwrap_or_default())
        }
        RunOutcome::Killed(how) => format!("killed: {how}"),
        RunOutcome::Garbled(why) => format!("garbled: {why}"),
    }
}

#[test]
fn reads_outcome_of_recorded_runs() {
    let mut names: Vec<String> = std::fs::read_dir(samples())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".txt").map(str::to_owned))
        .collect();
    names.sort();
    let lines: Vec<String> = names
        .iter()
        .map(|name| format!("{name}: {}", told(&heard(name).outcome)))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    aider-400: model 400 retryable false
    aider-401: model 401 retryable false
    aider-429: model 429 retryable true
    aider-500: model 500 retryable true
    aider-cut: model - retryable true
    aider-done: done: I write it.



    hello.txt

    ```
    hello from the fake model

    ```

    Tokens: 710 sent, 14 received.

    hello.txt
    Applied edit to hello.txt
    aider-killed: killed: was ended by signal 15
    aider-nothing: garbled: it changed no file. It said: fake side answer Tokens: 706 sent, 4 received.
    aider-refused-by-service: model 400 retryable false
    claude-401: model 401 retryable false
    claude-429: model 429 retryable true
    claude-500: model 500 retryable true
    claude-cut: model - retryable true
    claude-done: done: Done: hello.txt written. Prompts seen: 2.
    claude-done-2.1.197: done: Done: hello.txt written. Prompts seen: 2.
    claude-in-use: in use
    claude-int: garbled: it ended with exit code 0 and without a last word
    claude-max-turns: garbled: ["Reached maximum number of turns (1)"]
    claude-missing: missing
    claude-missing-foreign: missing
    claude-no-login: usage: Not logged in · Please run /login
    claude-refused: refused: Write: /w/ws/claude/hello.txt
    claude-refused-killed: refused: Bash: curl example.com, unfinished: was ended by signal 15
    claude-resumed: done: Done: hello.txt written. Prompts seen: 3.
    claude-retried: model 500 retryable true
    claude-term: garbled: it ended with exit code 143 and without a last word
    codex-400: model 400 retryable false
    codex-401: model 401 retryable false
    codex-429: model 429 retryable true
    codex-500: model - retryable true
    codex-cut: model - retryable true
    codex-done: done: Done: hello.txt written. Prompts seen: 2.
    codex-killed: killed: was ended by signal 15
    codex-missing: missing
    codex-no-variable: usage: Missing environment variable: `FAKE_KEY`. (name it in `[worker] env` of config.toml)
    codex-refused: done: Done: hello.txt written. Prompts seen: 2.
    codex-resumed: done: Done: hello.txt written. Prompts seen: 3.
    gemini-400: model 400 retryable false
    gemini-401: model 401 retryable false
    gemini-401-json: model 401 retryable false
    gemini-429: model 429 retryable true
    gemini-500: model 500 retryable true
    gemini-done: done: Done: hello.txt written. Prompts seen: 1.
    gemini-killed: killed: was ended by signal 15
    gemini-missing: missing
    gemini-no-login: usage: Please set an Auth method in your /w/home/.gemini/settings.json or specify one of the following environment variables before running: GEMINI_API_KEY, GOOGLE_GENAI_USE_VERTEXAI, GOOGLE_GENAI_USE_GCA
    gemini-term: garbled: it ended with exit code 0 and without a last word
    gemini-untrusted: usage: Gemini CLI is not running in a trusted directory. To proceed, either use `--skip-trust`, set the `GEMINI_CLI_TRUST_WORKSPACE=true` environment variable, or trust this directory in interactive mode. For more details, see https://geminicli.com/docs/cli/trusted-folders/#headless-and-automated-environments
    opencode-401: model 401 retryable false
    opencode-429: model 429 retryable true
    opencode-500: model 500 retryable true
    opencode-cut: model - retryable true
    opencode-done: done: Done: hello.txt written. Prompts seen: 1.
    opencode-killed: killed: was ended by signal 9
    opencode-missing: missing
    opencode-refused: refused: edit (tmp/research/agent-clis/ws/opencode/hello.txt)
    "#);
}

#[test]
fn reads_sessions_and_usage_of_recorded_runs() {
    let of = |name: &str| {
        let heard = heard(name);
        let session = heard
            .session
            .map_or("-".into(), |session| session.to_string());
        let ModelCost {
            input_tokens,
            output_tokens,
            cost_usd,
            ..
        } = heard.usage;
        format!("{name}: {session} {input_tokens} {output_tokens} {cost_usd:.4}")
    };
    let names = [
        "claude-done",
        "claude-done-2.1.197",
        "claude-resumed",
        "codex-done",
        "codex-resumed",
        "codex-killed",
        "gemini-done",
        "gemini-killed",
        "opencode-done",
        "opencode-killed",
        "aider-done",
    ];
    insta::assert_snapshot!(names.map(of).join("\n"), @r#"
    claude-done: df85155c-6696-473d-9b97-0a5f518a0d0c 24653 41 0.0994
    claude-done-2.1.197: 66666666-6666-4666-8666-666666666666 38109 41 0.1916
    claude-resumed: 11111111-1111-4111-8111-111111111111 24969 41 0.0000
    codex-done: 01a1ffc0-86c6-7800-b6a8-b71d88dcb33f 20212 28 0.0000
    codex-resumed: 01a1ffc0-86c6-7800-b6a8-b71d88dcb33f 40873 56 0.0000
    codex-killed: 01a1ffc0-86c6-7800-b6a8-b71d88dcb33f 0 0 0.0000
    gemini-done: 01a1ffc0-86c6-7800-b6a8-b71d88dcb34f 18557 37 0.0000
    gemini-killed: 01a1ffc0-86c6-7800-b6a8-b71d88dcb34f 0 0 0.0000
    opencode-done: ses_e003c359effeAB2Zs4gGNdaqZG 17181 41 0.0000
    opencode-killed: ses_e003c359effeAB2Zs4gGNdaqZG 0 0 0.0000
    aider-done: - 710 14 0.0000
    "#);
}

#[test]
fn reads_run_without_exit_code() {
    for agent in ["claude", "codex", "gemini", "opencode", "aider"] {
        let done = heard_when(&format!("{agent}-done"), |_| None);
        assert!(matches!(done.outcome, RunOutcome::Done(_)), "{agent}");
        let killed = heard_when(
            &format!(
                "{agent}-{}",
                if agent == "claude" { "term" } else { "killed" }
            ),
            |_| None,
        );
        assert!(matches!(killed.outcome, RunOutcome::Killed(_)), "{agent}");
    }
}

#[test]
fn success_output_with_failed_exit_is_no_success() {
    for agent in ["claude", "codex", "gemini", "opencode", "aider"] {
        for (exit, signal, timed_out) in [
            (Some(1), None, false),
            (None, Some(9), false),
            (None, Some(15), true),
        ] {
            let heard = heard_when(&format!("{agent}-done"), |_| {
                Some(ChildExit {
                    exit,
                    signal,
                    timed_out,
                    ..ChildExit::default()
                })
            });
            assert!(
                matches!(
                    heard.outcome,
                    RunOutcome::Garbled(_) | RunOutcome::Killed(_)
                ),
                "{agent}: {:?}",
                heard.outcome
            );
        }
    }
}

#[test]
fn reads_end_of_usage_limit() {
    let read = |kind: &'static CodingAgent, out: &str| read(kind, out, Some(exited(1))).outcome;
    let until = |outcome: RunOutcome| match outcome {
        RunOutcome::Model(fault) => fault.until,
        other => panic!("{other:?}"),
    };
    let error = r#"{"type":"result","is_error":true,"api_error_status":429,"result":"limit"}"#;
    let event = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1800000000}}"#;
    let both = format!("{event}\n{error}");
    assert_eq!(
        until(read(&claude::AGENT, &both)),
        Some(Time(1_800_000_000_000_000))
    );
    let old = error.replace("limit\"", "Claude AI usage limit reached|1800000000\"");
    assert_eq!(
        until(read(&claude::AGENT, &old)),
        Some(Time(1_800_000_000_000_000))
    );
    assert_eq!(until(read(&claude::AGENT, error)), None);
    let open = |wait: &str| {
        format!(
            r#"{{"type":"error","error":{{"data":{{"message":"m","statusCode":429,"isRetryable":true,"responseHeaders":{{"retry-after":"{wait}"}}}}}}}}"#
        )
    };
    assert_eq!(
        until(read(&opencode::AGENT, &open("3600"))),
        Some(Time(3_600_000_000))
    );
    assert_eq!(until(read(&opencode::AGENT, &open("2"))), None);
}

/// Reads a run of aider that printed this after its greeting, and ended with this exit code if that is known.
fn aider(printed: &str, code: Option<i32>) -> RunReading {
    let printed = format!("Aider v0.86.2\nRepo-map: disabled\n\n{printed}");
    read(&aider::AGENT, &printed, code.map(exited))
}

#[test]
fn aider_outcome_depends_on_text_after_last_answer() {
    let edit = "I write it.\n\nTokens: 710 sent, 14 received.\n\na.txt\nApplied edit to a.txt\n";
    let seen = |printed: &str, code| {
        let told = told(&aider(printed, code).outcome);
        told.split('\n').next().unwrap_or_default().to_owned()
    };
    let after = |more: &str| format!("{edit}{more}");
    let lint = "a.py:1: SyntaxError\nAttempt to fix lint errors? (Y)es/(N)o [Yes]: y\n";
    let denied = "litellm.AuthenticationError: OpenAIException - no\n";
    let stuck = "again\n\nTokens: 9 sent, 9 received.\n# 1 SEARCH/REPLACE block failed to match!\nOnly 3 reflections allowed, stopping.\n";
    let forged = "Applied edit to a.txt\n\nTokens: 710 sent, 14 received.\n";
    let rows = [
        ("edit", edit.to_owned(), Some(0)),
        ("edit, exit unknown", edit.to_owned(), None),
        ("edit, then denied", after(denied), Some(0)),
        ("denied, then edit", format!("{denied}{edit}"), Some(0)),
        ("edit, then stuck", after(stuck), Some(0)),
        ("edit by words", forged.to_owned(), Some(0)),
        ("edit, then lint", after(lint), Some(0)),
        ("edit, then lint, exit unknown", after(lint), None),
        ("no edit, exit unknown", forged.to_owned(), None),
    ]
    .map(|(name, printed, code)| format!("{name}: {}", seen(&printed, code)));
    insta::assert_snapshot!(rows.join("\n"), @r"
    edit: done: I write it.
    edit, exit unknown: done: I write it.
    edit, then denied: model 401 retryable false
    denied, then edit: done: litellm.AuthenticationError: OpenAIException - no
    edit, then stuck: garbled: its edits did not fit: # 1 SEARCH/REPLACE block failed to match!
    edit by words: garbled: it changed no file. It said: Applied edit to a.txt Tokens: 710 sent, 14 received.
    edit, then lint: done: I write it.
    edit, then lint, exit unknown: killed: was ended in the midst of its edits by an earlier worker
    no edit, exit unknown: killed: was ended in the midst of its edits by an earlier worker
    ");
}

#[test]
fn impossible_usage_is_ignored() {
    let forged = "Tokens: 9000000000000M sent, 1 received.\n\nTokens: 4.1k sent, 14 received. Cost: $0.01 message, $0.05 session.\nApplied edit to a\n";
    let usage = aider(forged, Some(0)).usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (4100, 14));
    assert!((usage.cost_usd - 0.05).abs() < 1e-9, "{usage:?}");
    let negative = "Tokens: 9000000000000M sent, 14 received. Cost: $-5 message, $-500 session.\nApplied edit to a\n";
    let usage = aider(negative, Some(0)).usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (0, 14));
    assert!(usage.cost_usd.abs() < 1e-9, "{usage:?}");
    let step = |cost: &str| {
        let event = format!(
            r#"{{"type":"step_finish","part":{{"reason":"stop","cost":{cost},"tokens":{{"input":5}}}}}}"#
        );
        read(&opencode::AGENT, &event, None).usage
    };
    assert!((step("0.5").cost_usd - 0.5).abs() < 1e-9);
    for cost in ["-0.5", "1e300"] {
        let usage = step(cost);
        assert!(usage.cost_usd.abs() < 1e-9, "{usage:?}");
        assert_eq!(usage.input_tokens, 5);
    }
}

/// Reads a run of Claude Code that ended with this event and exit code.
fn claude(event: &str, code: i32) -> RunOutcome {
    read(&claude::AGENT, event, Some(exited(code))).outcome
}

#[test]
fn missing_session_is_not_reported() {
    for name in ["claude-missing", "claude-missing-foreign"] {
        assert_eq!(heard(name).session, None, "{name}");
    }
}

#[test]
fn missing_session_error_counts_only_before_first_turn() {
    let event = |turns| {
        format!(
            r#"{{"type":"result","is_error":true,"num_turns":{turns},"errors":["No conversation found"]}}"#
        )
    };
    assert_eq!(claude(&event(0), 1), RunOutcome::SessionMissing);
    assert!(matches!(claude(&event(3), 1), RunOutcome::Garbled(_)));
}

#[test]
fn result_text_may_mention_login() {
    let event = |error| {
        format!(r#"{{"type":"result","is_error":{error},"result":"Users run /login first."}}"#)
    };
    let text = "Users run /login first.".to_owned();
    assert_eq!(claude(&event(false), 0), RunOutcome::Done(text));
    assert!(matches!(claude(&event(true), 1), RunOutcome::Usage(_)));
}

#[test]
fn detects_usage_limit_in_plain_text() {
    let fault = |said| {
        let event = format!(r#"{{"type":"result","is_error":true,"result":"{said}"}}"#);
        match claude(&event, 1) {
            RunOutcome::Model(fault) => (fault.status, fault.until),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        fault("Claude AI usage limit reached|1800000000"),
        (Some(429), Some(Time(1_800_000_000_000_000)))
    );
    assert_eq!(fault("Usage limit reached."), (Some(429), None));
}

#[test]
fn failed_run_keeps_permission_denials() {
    let denials = r#""permission_denials":[{"tool_name":"Bash","tool_input":{"command":"make"}}]"#;
    let turns = format!(
        r#"{{"type":"result","is_error":true,"num_turns":9,"errors":["too many turns"],{denials}}}"#
    );
    insta::assert_snapshot!(
        told(&claude(&turns, 1)),
        @r#"refused: Bash: make, unfinished: ["too many turns"]"#
    );
    let made = format!(r#"{{"type":"result","is_error":false,"result":"made",{denials}}}"#);
    insta::assert_snapshot!(
        told(&claude(&made, 1)),
        @"refused: Bash: make, unfinished: it says that it is done, but ended with exit code 1"
    );
}

#[test]
fn model_retry_messages_are_not_progress() {
    for (agent, name, first, last, said) in [
        (
            &codex::AGENT,
            "codex-500",
            "Reconnecting... 1/5",
            "Reconnecting... 5/5",
            "high demand",
        ),
        (
            &gemini::AGENT,
            "gemini-500",
            "Attempt 3 failed",
            "Attempt 9 failed",
            "failed with status 500",
        ),
        (
            &aider::AGENT,
            "aider-429",
            "litellm.RateLimitError",
            "Retrying in 32.0",
            "rate limited you",
        ),
        (
            &claude::AGENT,
            "claude-retried",
            "api_retry",
            "\"attempt\":3",
            "500 server_error",
        ),
    ] {
        let text = sample(name);
        let lines: Vec<&str> = text.lines().collect();
        let at = |words: &str| lines.iter().position(|line| line.contains(words)).unwrap();
        let again = lines[at(first)..=at(last)].join("\n");
        let words = agent.only_asks_again(&again);
        assert!(
            words.as_ref().is_some_and(|words| words.contains(said)),
            "{name}: {words:?} of {again}"
        );
        assert_eq!(agent.only_asks_again(&text), None, "{name}");
        assert_eq!(agent.only_asks_again(" \n"), None);
        assert_eq!(opencode::AGENT.only_asks_again(&again), None, "{name}");
        // One that is ended meanwhile is told with that reason.
        let heard = agent.read(&RunOutput {
            out: &again,
            err: &again,
            exit: Some(ChildExit {
                timed_out: true,
                ..ChildExit::default()
            }),
            begins: true,
            now: Time(0),
        });
        let RunOutcome::Killed(how) = heard.outcome else {
            panic!("{name}: {:?}", heard.outcome);
        };
        assert!(
            how.contains("its model only failed") && how.contains(said),
            "{how}"
        );
    }
}

#[test]
fn gemini_error_dump_is_not_progress() {
    // Of the form that was recorded, with other fields in it.
    let dump = "Attempt 2 failed with status 503. Retrying with backoff... GaxiosError: [{\n  config: {\n    url: 'https://x',\n  \
        },\n\tat Gaxios.request (file:///x.js:1:2)\n}]\n";
    assert!(gemini::AGENT.only_asks_again(dump).is_some());
    // A look may come in the middle of one.
    assert!(
        gemini::AGENT
            .only_asks_again("    url: 'https://x',\n}\n")
            .is_some()
    );
    for works in [
        "{\"type\":\"tool_use\"}",
        "Attempt 10 failed: {}. Max attempts reached",
    ] {
        assert_eq!(
            gemini::AGENT.only_asks_again(&format!("{dump}{works}\n")),
            None
        );
    }
}

#[test]
fn finds_http_status_only_where_named() {
    for (said, status) in [
        (
            "unexpected status 401 Unauthorized: x, url: http://y",
            Some(401),
        ),
        (
            "exceeded retry limit, last status: 429 Too Many Requests",
            Some(429),
        ),
        (
            r#"[API Error: {"error":{"code":503,"status":"UNAVAILABLE"}}]"#,
            Some(503),
        ),
        (r#"{\"error\":{\"statusCode\": 500}}"#, Some(500)),
        ("Error code: 404 - {'error': 1}", Some(404)),
        ("status_code=529", Some(529)),
        ("API Error: 529 {}", Some(529)),
        ("HTTP 502 from the gateway", Some(502)),
        ("400 status code (no body)", Some(400)),
        ("it got 503 Service Unavailable", Some(503)),
        ("529 Overloaded", Some(529)),
        ("it ran 412 tests", None),
        ("error: 412 tests failed", None),
        ("stream disconnected after 500 ms", None),
        ("1.429 of 4290 tokens, https://x/404, line 401", None),
        ("status 4290, code 42, http 999, status 200 OK", None),
        ("", None),
    ] {
        assert_eq!(status_in(said), status, "{said}");
    }
}

/// Where an agent tells when a usage limit ends, the task waits until then (claude, opencode). No recorded output of the others
/// names a moment.
#[test]
fn other_agents_report_no_usage_limit_end() {
    for (agent, name) in [
        (&codex::AGENT, "codex-429"),
        (&gemini::AGENT, "gemini-429"),
        (&aider::AGENT, "aider-429"),
    ] {
        assert!(name.starts_with(agent.name));
        let outcome = heard(name).outcome;
        assert!(
            matches!(&outcome, RunOutcome::Model(fault) if fault.retryable && fault.until.is_none()),
            "{name}: {outcome:?}"
        );
    }
}
