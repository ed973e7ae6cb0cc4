//! Agents that end well and leave no report: what they say makes no success.

use super::*;

/// How each agent prints its last message `@SAYS@`; the version comes first.
const AGENTS: [(&str, &str, &str); 6] = [
    (
        "claude",
        "2.1.330 (Claude Code)",
        r#"{"type":"result","is_error":false,"session_id":"@SESSION@","permission_denials":[],"result":"@SAYS@"}"#,
    ),
    (
        "codex",
        "codex-cli 0.150.0",
        r#"{"type":"thread.started","thread_id":"01a1ffc0-86c6-7800-b6a8-b71d88dcb33f"}
{"type":"item.completed","item":{"type":"agent_message","text":"@SAYS@"}}
{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}"#,
    ),
    (
        "gemini",
        "0.59.0",
        r#"{"type":"init","session_id":"01a1ffc0-86c6-7800-b6a8-b71d88dcb34f","model":"m"}
{"type":"message","role":"assistant","content":"@SAYS@","delta":true}
{"type":"result","status":"success","stats":{}}"#,
    ),
    (
        "opencode",
        "1.18.33",
        r#"{"type":"step_start","sessionID":"ses_e003c359effeAB2Zs4gGNdaqZG","part":{}}
{"type":"text","sessionID":"ses_e003c359effeAB2Zs4gGNdaqZG","part":{"type":"text","text":"@SAYS@"}}
{"type":"step_finish","sessionID":"ses_e003c359effeAB2Zs4gGNdaqZG","part":{"reason":"stop","tokens":{},"cost":0}}"#,
    ),
    (
        "aider",
        "aider 0.86.2",
        "@SAYS@\nTokens: 1.2k sent, 14 received.\nApplied edit to part",
    ),
    ("command", "", "@SAYS@"),
];

/// Carries a plan of one task out with an agent that does and says this; returns the scene and the exit code.
fn carried_out(agent: (&str, &str, &str), does: &str, says: &str) -> (Scene, Option<i32>) {
    let (name, version, output) = agent;
    let output = output.replace("@SAYS@", says);
    let ends = format!("{does}\nsed \"s/@SESSION@/$session/\" <<'X'\n{output}\nX\n");
    // The one of the scene is `claude`.
    let mut scene = Scene::configured(&ends, "[run]\nmax_attempts = 1\n");
    let version = format!("if [ \"$1\" = --version ]; then echo \"{version}\"; exit 0; fi");
    let script = format!("{version}\ncat > /dev/null\n{ends}");
    match name {
        "claude" => {}
        "command" => scene.show_script("my-agent", &script),
        name => scene.show_script(name, &script),
    }
    let mut words = vec!["run", "--plan", "plan.md", "--no-input", "--agent", name];
    if name == "command" {
        words.extend(["--", "my-agent"]);
    }
    let ran = scene.env.run(words);
    (scene, ran.code)
}

#[test]
fn words_and_silence_without_a_change_are_no_success() {
    for agent in AGENTS {
        for (says, status) in [("nothing is done yet", "PARTIAL_SUCCESS"), ("", "FAILED")] {
            let (scene, code) = carried_out(agent, "", says);
            assert_eq!(code, Some(4), "{} says `{says}`", agent.0);
            let shown = scene.env.run("log").stdout;
            lacks(&shown, ["completed", "SUCCESS, no check"]);
            let [report] = scene.reports().try_into().unwrap();
            // aider always prints its account, which are words. Whether it changed something, its worker does not know.
            let status = if agent.0 == "aider" {
                "SUCCESS"
            } else {
                status
            };
            has(&report, format!("status: {status}\n"));
            if !says.is_empty() {
                has(scene.env.run("why 1").stdout, says);
            }
        }
    }
}

#[test]
fn words_beside_a_change_are_success_only_of_an_agent_that_is_asked_for_no_report() {
    for agent in AGENTS {
        let (scene, code) = carried_out(agent, "echo made > part.txt", "the part is made");
        let expected = if agent.0 == "aider" { 0 } else { 4 };
        assert_eq!(code, Some(expected), "{}", agent.0);
        let [report] = scene.reports().try_into().unwrap();
        lacks(&report, "status: FAILED");
        let log = scene.env.run("log").stdout;
        assert_eq!(log.contains("completed"), expected == 0, "{log}");
    }
}
