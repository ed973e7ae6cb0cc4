//! A coding agent answers the questions of planning and judging.

use super::*;

use std::fs;

use crate::common::env::{lives, wait_until};

/// Stands for Claude Code: records its questions and how it was called, and answers with the content of a file for that
/// question.
const FAKE: &str = r#"
here=$(dirname "$0")
[ "$1" = --version ] && { echo "2.1.330 (Claude Code)"; exit; }
prompt=$(cat)
case $prompt in
  *'"decision":'*) kind=judge ;;
  *'"met":'*) kind=audit ;;
  *'"summary":'*) kind=summarise ;;
  *) kind=plan ;;
esac
printf '%s\n' "$prompt" >> "$here/$kind.asked"
{ echo "$*"; pwd; ls -A; env; } >> "$here/called"
if [ -e "$here/$kind.once" ]; then cat "$here/$kind.once"; rm "$here/$kind.once"; exit; fi
cat "$here/$kind"
"#;

impl Scene {
    /// A scene in which a script answers as Claude Code does.
    fn with_fake(config: &str) -> Self {
        let mut scene = Self::new(config);
        scene.write("fake/claude.sh", &format!("#!/bin/sh\n{FAKE}"));
        let program = scene.path("fake/claude.sh");
        fs::set_permissions(
            &program,
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        scene.show_script("claude", &format!("exec {} \"$@\"", program.display()));
        for kind in ["plan", "judge", "audit", "summarise"] {
            scene.says(kind, &answer(kind).to_string());
        }
        scene
    }

    /// Sets the script's answer to a question.
    fn says(&self, name: &str, text: &str) {
        let event = json!({
            "type": "result", "subtype": "success", "is_error": false, "terminal_reason": "completed",
            "session_id": "11111111-1111-4111-8111-111111111111", "result": text, "permission_denials": [],
            "usage": {"input_tokens": 100, "output_tokens": 10},
        });
        self.env
            .write(&format!("fake/{name}"), &format!("{event}\n"));
    }

    fn asked(&self, kind: &str) -> String {
        self.env.read(&format!("fake/{kind}.asked"))
    }

    /// Carries a goal out; the agent that works makes the file.
    fn reach(&self, more: &[&str]) -> Ran {
        let file = self.made();
        let script = format!(
            "printf hello > {}; printf -- '---\\nstatus: SUCCESS\\n---\\nhello.txt\\n' > \"$1\"",
            file.display()
        );
        let mut args = vec!["run", "Make a greeting"];
        args.extend(more);
        args.extend([
            "--agent", "command", "--", "sh", "-c", &script, "sh", "{report}",
        ]);
        self.run(&args)
    }
}

#[test]
fn agent_plans_judges_and_audits() {
    let mut scene = Scene::with_fake("llm.provider = 'agent'");
    scene.set("PLANTED", "canary");
    let ran = scene.reach(&[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.has_stdout("The greeting is written, says the agent.");

    has(scene.asked("plan"), "Make a greeting");
    has(scene.asked("judge"), "Write the greeting");
    let called = scene.read("fake/called");
    lacks(&called, ["canary", "acceptEdits", "--session-id"]);
    let workspace = scene.path("volumes/workspace");
    lacks(&called, format!("{}\n", workspace.display()));
    let usage = &scene.status()["usage"];
    assert_eq!(usage["llm_input_tokens"], 400, "{usage}");
    assert_eq!(usage["llm_output_tokens"], 40, "{usage}");
}

#[test]
fn agent_repeats_unusable_answer_once() {
    let scene = Scene::with_fake("llm.provider = 'agent'");
    scene.says("plan.once", "I would make a file.");
    scene.exits(0, "plan 'Make a greeting'");
    has(scene.asked("plan"), "I would make a file.");
}

#[test]
fn agent_with_login_plans_without_key() {
    let scene = Scene::with_fake("");
    scene.exits(2, "plan 'Make a greeting'");
    scene.write("home/.claude/.credentials.json", "{}");
    let ran = scene.exits(0, "plan 'Make a greeting'");
    ran.has_stderr("the coding agent claude plans and judges");
}

#[test]
fn planning_error_quotes_agent() {
    let mut scene = Scene::with_fake("llm.provider = 'agent'\nllm.tries = 1\nbudget.llm_calls = 1");
    scene.set("PLAN_AGENT_TIMING", "0.01");
    let failed = |event: Value| {
        scene.write("fake/plan", &format!("{event}\n"));
        scene.exits(1, "plan 'Make a greeting'")
    };
    let of_model = |status: u16| {
        json!({
            "type": "result", "is_error": true, "terminal_reason": "api_error", "api_error_status": status,
            "result": format!("API Error: {status} scripted"),
        })
    };
    for (event, told) in [
        (
            of_model(401),
            "error: the coding agent `claude` cannot be asked: its model refuses the key (status 401): API Error: 401 scripted. Hint: run the agent by hand once: does it answer? `plan-agent doctor` shows what it finds of it",
        ),
        (
            of_model(529),
            "! the coding agent `claude` is not available now: status 529: API Error: 529 scripted. Hint: the server has trouble: try again later",
        ),
        (
            json!({"type": "system"}),
            "! the coding agent `claude` gave no answer: it ended with exit code 0 and without a last word. Hint: run the agent by hand once: does it answer?",
        ),
    ] {
        let ran = failed(event);
        ran.has_stderr([
            "the coding agent claude plans and judges: provider = \"agent\"",
            told,
        ]);
    }
}

#[test]
fn overflow_of_agent_gets_smaller_question() {
    let long = "A long line of the report. ".repeat(400);
    for event in [
        json!({"type": "result", "is_error": true, "terminal_reason": "api_error", "api_error_status": 400,
            "result": "Prompt is too long"}),
        json!({"type": "result", "is_error": true, "result": "Prompt is too long"}),
    ] {
        let scene = Scene::with_fake("llm.provider = 'agent'");
        scene.write("fake/judge.once", &format!("{event}\n"));
        scene.write("report.md", &format!("---\nstatus: SUCCESS\n---\n{long}"));
        let file = scene.made();
        let script = format!(
            "printf hello > {}; cp {} $1",
            file.display(),
            scene.path("report.md").display()
        );
        let agent = [
            "--agent", "command", "--", "sh", "-c", &script, "sh", "{report}",
        ];
        let ran = scene.run([&["run", "Make a greeting"][..], &agent].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let asked = scene.asked("judge");
        let questions: Vec<&str> = asked
            .split("Answer this question yourself and now.")
            .collect();
        let sizes: Vec<usize> = questions.iter().map(|question| question.len()).collect();
        assert_eq!(sizes.len(), 3, "{asked}");
        assert!(sizes[1] < sizes[0], "{sizes:?}");
    }
}

#[test]
fn hanging_agent_is_killed_with_children() {
    let mut scene = Scene::new(
        "llm.provider = 'agent'\nllm.timeout = '1s'\nllm.tries = 1\nbudget.llm_calls = 1",
    );
    scene.set("PLAN_AGENT_TIMING", "0.01");
    let pid = scene.path("pid");
    scene.show_script(
        "claude",
        &format!(
            "[ \"$1\" = --version ] && {{ echo 2.1.330; exit; }}\ntrap '' TERM\nsleep 1000 & echo $! > {}\nwait",
            pid.display()
        ),
    );
    scene.refuses(
        1,
        "plan 'Make a greeting'",
        "gave no answer, or no more of it, for 1s",
    );
    assert!(!lives(scene.read("pid").trim()));
}

#[test]
fn next_daemon_ends_leftover_planning_agent() {
    let scene = Scene::with_fake("llm.provider = 'agent'");
    let pid = scene.path("pid");
    let hangs = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo 2.1.330; exit; }}\necho $$ >> {}\nexec sleep 1000\n",
        pid.display()
    );
    let answers = scene.read("fake/claude.sh");
    scene.write("fake/claude.sh", &hangs);
    let mut daemon = scene.start("run 'Make a greeting' --no-input");
    let asked = || fs::read_to_string(&pid).unwrap_or_default();
    wait_until("the agent is asked", || asked().ends_with('\n'));
    daemon.child.kill().unwrap();
    daemon.wait();
    assert!(lives(asked().trim()), "nothing is left behind");

    scene.write("fake/claude.sh", &answers);
    let _next = scene.start("resume --no-input");
    wait_until("it is ended", || !lives(asked().trim()));
    let active = Exchange::at(scene.path("volumes"));
    wait_until("its mark is gone", || {
        let names = active.names("active");
        !names.iter().any(|name| name.contains(".question"))
    });
}

#[test]
fn missing_agent_is_reported_immediately() {
    let scene = Scene::new("llm.provider = 'agent'");
    let ran = scene.exits(2, "run 'Make a greeting'");
    insta::assert_snapshot!(ran.stderr, @r#"
    error: config.toml:1:16: `llm.provider` is "agent", but no coding agent is installed
    Hint: install one (claude, codex, gemini, opencode), or set ANTHROPIC_API_KEY or OPENAI_API_KEY and leave `provider` out
    "#);
}
