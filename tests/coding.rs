//! Coding agents behind the real program: scripts under their names print recorded output of the real ones.

mod aider;
mod allowing;
mod no_success;
mod ran;
mod signs;
mod tell;

use std::fs::{self, File};
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::common::agent::Exchange;
use crate::common::env::{Ran, TestEnv, has, lacks, wait_until};

/// The beginning of every script: prints its version, records how it was called, what it read and its environment, and sets
/// `$session` to its session.
const PRELUDE: &str = r#"
if [ "$1" = --version ]; then echo "2.1.330 (Claude Code)"; exit 0; fi
notes=@NOTES@
run=1; while ! mkdir "$notes/$run" 2>/dev/null; do run=$((run+1)); done
printf '%s\n' "$*" > "$notes/$run/call"
cat > "$notes/$run/prompt"
env > "$notes/$run/env"
session=$(sed 's/.*--\(session-id\|resume\) \([^ ]*\).*/\2/' "$notes/$run/call")
say() { printf '{"type":"assistant","session_id":"%s","message":{"content":[]}}\n' "$session"; }
words() { echo "$run" > made; printf '{"type":"result","is_error":false,"session_id":"%s","permission_denials":[%s],"usage":{"input_tokens":100,"output_tokens":7},"total_cost_usd":0.5,"result":"%s"}\n' "$session" "$2" "$1"; }
result() { words '---\nstatus: SUCCESS\n---\n\n'"$1" "$2"; }
fault() { printf '{"type":"result","is_error":true,"terminal_reason":"api_error","api_error_status":%s,"session_id":"%s","result":"API Error"}\n' "$1" "$session"; exit 1; }
lost() { why="No conversation found with session ID: $session"; echo "$why" >&2; printf '{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":0,"session_id":"%s","permission_denials":[],"errors":["%s"]}\n' "$session" "$why"; exit 1; }
report() { mkdir -p .plan-agent; printf -- '---\nstatus: %s\n---\n\n## Core results\n\n%s\n' "$1" "$2" > "$(sed -n 's/^report: //p' "$notes/$run/prompt")"; }
"#;

struct Scene {
    env: TestEnv,
    exchange: Exchange,
}

impl Deref for Scene {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl DerefMut for Scene {
    fn deref_mut(&mut self) -> &mut TestEnv {
        &mut self.env
    }
}

impl Scene {
    /// A folder in which `claude` is this script.
    fn with(script: &str) -> Self {
        Self::configured(script, "")
    }

    fn configured(script: &str, config: &str) -> Self {
        let mut env = TestEnv::new();
        let notes = env.path("notes");
        fs::create_dir(&notes).unwrap();
        let notes = notes.display().to_string();
        let text = PRELUDE.replace("@NOTES@", &notes) + &script.replace("@NOTES@", &notes);
        env.show_script("claude", &text);
        let config = format!(
            "[llm]\nprovider = \"none\"\n[worker]\nretry_delay = \"10ms\"\nretries = 2\n{config}"
        );
        env.write("config.toml", &config);
        env.write("plan.md", "# Parts\n\n- [ ] Make the part\n");
        env.set("HOME", &env.path("home").display().to_string());
        env.set("ANTHROPIC_API_KEY", "key-of-the-agent");
        let exchange = Exchange::at(env.path("volumes"));
        Self { env, exchange }
    }

    fn run(&self) -> Ran {
        self.env.run("run --plan plan.md --agent claude --no-input")
    }

    /// Starts a daemon and a worker, kills the worker once its agent is known and `ready`, does something in the meantime, and
    /// lets the next worker continue until the daemon ends with this code.
    fn orphaned(&self, agent: &str, code: i32, ready: impl Fn() -> bool, meanwhile: impl FnOnce()) {
        let more = if code == 0 { "" } else { "--no-input" };
        let mut daemon = self.env.start(&*format!("run --plan plan.md {more}"));
        let mut worker = self.env.start(["worker", "--agent", agent]);
        wait_until("the agent works", || {
            let life = self.exchange.texts("active", ".json").concat();
            life.contains(r#""pid":"#) && !life.contains(r#""pid":null"#) && ready()
        });
        worker.child.kill().unwrap();
        worker.wait();
        meanwhile();
        let _next = self.env.start(["worker", "--agent", agent]);
        assert_eq!(daemon.wait().code(), Some(code));
    }

    /// Lets an agent continue that waits for it.
    fn go(&self) {
        self.write("notes/go", "");
    }

    fn note(&self, run: u32, what: &str) -> String {
        self.env.read(&format!("notes/{run}/{what}"))
    }

    fn runs(&self) -> usize {
        fs::read_dir(self.env.path("notes"))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().is_dir())
            .count()
    }

    /// Returns the session that a run was called with, and the option for it.
    fn session(&self, run: u32) -> (String, String) {
        let call = self.note(run, "call");
        let words: Vec<&str> = call.split_whitespace().collect();
        let at = words
            .iter()
            .position(|word| ["--session-id", "--resume"].contains(word))
            .unwrap();
        (words[at].to_owned(), words[at + 1].to_owned())
    }

    fn reports(&self) -> Vec<String> {
        let pending = self.exchange.texts("reports/pending", ".md");
        let processed = self.exchange.texts("reports/processed", ".md");
        [processed, pending].concat()
    }

    fn workspace(&self, name: &str) -> PathBuf {
        self.env.path("volumes/workspace").join(name)
    }
}

#[test]
fn final_message_of_agent_becomes_report() {
    let scene = Scene::configured(
        "say; words 'The part is made.'",
        "[run]\nmax_attempts = 1\n",
    );
    scene.run().exits(4);
    let (how, session) = scene.session(1);
    assert_eq!(how, "--session-id");
    let [report] = scene.reports().try_into().unwrap();
    has(&report, ["status: PARTIAL_SUCCESS", "The part is made."]);
    has(&report, format!("session_id: {session}"));
    has(&report, ["input_tokens: 100", "cost_usd: 0.5"]);
    let prompt = scene.note(1, "prompt");
    has(&prompt, "Make the part");
    lacks(&prompt, "rename");
    assert!(!scene.workspace(".plan-agent").exists());
}

#[test]
fn next_attempt_continues_session_after_workspace_report() {
    let scene = Scene::with(
        "if [ $run = 1 ]; then report FAILED 'half of it'; else report SUCCESS 'all of it'; fi; result done",
    );
    scene.run().exits(0);
    let (how, session) = scene.session(1);
    assert_eq!(how, "--session-id");
    assert_eq!(scene.session(2), ("--resume".to_owned(), session));
    let reports = scene.reports();
    assert_eq!(reports.len(), 2);
    has(&reports[0], "half of it");
    has(&reports[1], "all of it");
    assert!(!scene.workspace(".plan-agent").exists());
}

#[test]
fn permission_denial_asks_human_whatever_the_result() {
    let denied = r#"'{"tool_name":"Bash","tool_input":{"command":"cargo test"}}'"#;
    for (script, status, said) in [
        (
            "report SUCCESS 'all of it'; result done ",
            "PARTIAL_SUCCESS",
            "all of it",
        ),
        (
            "exit_code=1; words half ",
            "FAILED",
            "ended with exit code 1",
        ),
    ] {
        let scene = Scene::with(&format!("{script}{denied}; exit $exit_code"));
        scene.run().exits(4);
        assert_eq!(scene.runs(), 1, "it is not tried again as if it were luck");
        let [report] = scene.reports().try_into().unwrap();
        has(&report, format!("status: {status}"));
        has(&report, ["- `Bash: cargo test`", said]);
        let questions = scene.exchange.questions();
        has(
            &questions[0].1,
            ["was not allowed to run a command", "$ cargo test"],
        );
    }
}

#[test]
fn overloaded_model_is_retried_in_same_session() {
    let scene = Scene::with("[ $run = 1 ] && fault 429; say; result 'made'");
    scene.run().exits(0);
    let (_, session) = scene.session(1);
    assert_eq!(scene.session(2), ("--resume".to_owned(), session));
    has(scene.note(2, "prompt"), "You were interrupted");
    assert_eq!(scene.reports().len(), 1);
}

#[test]
fn unavailable_or_refusing_model_fails_task() {
    for (status, runs, says) in [
        (529, 3, "Model unavailable (529)"),
        (401, 1, "check key and model"),
    ] {
        let scene = Scene::configured(&format!("fault {status}"), "[run]\nmax_attempts = 1\n");
        scene.run().exits(4);
        assert_eq!(scene.runs(), runs);
        let [report] = scene.reports().try_into().unwrap();
        has(&report, ["status: FAILED", says]);
    }
}

#[test]
fn usage_limit_parks_task() {
    let limit = r#"printf '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":4102444800}}\n'"#;
    let scene = Scene::with(&format!("{limit}; fault 429"));
    let running = scene.start("run --plan plan.md --agent claude --no-input");
    wait_until("the task is parked", || {
        let log = scene.env.run("log");
        log.stdout.contains("2100-01-01") || log.stdout.contains("usage limit")
    });
    drop(running);
    assert_eq!(scene.runs(), 1);
    let [report] = scene.reports().try_into().unwrap();
    has(&report, "blocked_until: 2100-01-01T00:00:00Z");
    // A daemon that takes over the plan later waits as well: it says so at its start, and dispatches nothing.
    let resumed = scene.start("resume --agent claude --no-input");
    wait_until("the next daemon waits", || {
        let status = scene.env.run("status --json");
        status
            .stdout
            .replace(' ', "")
            .contains(&format!("\"pid\":{}", resumed.child.id()))
    });
    let why = scene.env.run("why 1");
    why.has_stdout("2100-01-01");
    drop(resumed);
    assert_eq!(scene.runs(), 1);
    assert_eq!(scene.env.run("why 1").stdout, why.stdout);
    // Another agent has limits of its own.
    let done = "printf -- '---\\nstatus: SUCCESS\\n---\\n\\ndone\\n' > {report}";
    let other = [
        "resume",
        "--no-input",
        "--agent",
        "command",
        "--",
        "sh",
        "-c",
        done,
    ];
    scene.exits(0, other);
}

#[test]
fn limit_without_a_time_parks_task() {
    let scene = Scene::with("fault 429");
    let _running = scene.start("run --plan plan.md --agent claude --no-input");
    wait_until("the task is parked", || {
        scene.env.run("log").stdout.contains("usage limit")
    });
    assert_eq!(scene.runs(), 3);
    let [report] = scene.reports().try_into().unwrap();
    has(&report, "blocked_until: ");
    let status: Value = serde_json::from_str(&scene.env.run("status --json").stdout).unwrap();
    assert_eq!(status["usage"]["attempts"], 0, "{status}");
}

#[test]
fn session_that_is_too_long_restarts_with_earlier_work() {
    let scene = Scene::with(
        r#"
case $run in
1) report FAILED 'half of it'; result done ;;
2) printf '{"type":"result","is_error":true,"terminal_reason":"api_error","api_error_status":400,"session_id":"%s","result":"Prompt is too long"}\n' "$session"; exit 1 ;;
*) report SUCCESS 'all of it'; result done ;;
esac"#,
    );
    scene.run().exits(0);
    assert_eq!(scene.session(2).0, "--resume");
    assert_eq!(scene.session(3).0, "--session-id");
    has(scene.note(3, "prompt"), "    half of it");
}

#[test]
fn lost_session_restarts_with_earlier_work() {
    let lost = r#"
case $run in
1) report FAILED 'half of it'; result done ;;
2) lost ;;
*) report SUCCESS 'all of it'; result done ;;
esac"#;
    let scene = Scene::with(lost);
    scene.run().exits(0);
    let (_, first) = scene.session(1);
    assert_eq!(scene.session(2), ("--resume".to_owned(), first.clone()));
    let (how, second) = scene.session(3);
    assert_eq!(how, "--session-id");
    assert_ne!(first, second);
    let prompt = scene.note(3, "prompt");
    has(&prompt, ["the earlier one is lost", "    half of it"]);
    has(&prompt, "    # 1 · Make the part");
    let reports = scene.reports();
    has(&reports[1], format!("The session `{first}` was lost"));
    has(&reports[1], format!("session_id: {second}"));
}

#[test]
fn worker_logs_start_and_result() {
    let scene = Scene::with("result 'made'");
    let log = File::create(scene.path("worker.log")).unwrap();
    let _worker = scene.spawn("worker --agent claude", Stdio::null(), log);
    scene.exits(0, "run --plan plan.md --no-input");
    let mut told = String::new();
    wait_until("the worker has told the end", || {
        told = fs::read_to_string(scene.path("worker.log")).unwrap();
        told.contains("reported")
    });
    let told: Vec<&str> = told
        .lines()
        .skip(1)
        .filter_map(|line| line.get("12:00:00 UTC ".len()..))
        .collect();
    assert_eq!(
        told,
        [
            "1 · Make the part: begun",
            "1 · Make the part: reported SUCCESS"
        ]
    );
}

#[test]
fn result_of_orphaned_agent_is_used() {
    let scene =
        Scene::with("say; until [ -e @NOTES@/go ]; do sleep 0.05; done; result 'made alone'");
    scene.orphaned("claude", 0, || scene.runs() == 1, || scene.go());
    assert_eq!(scene.runs(), 1);
    let [report] = scene.reports().try_into().unwrap();
    has(&report, ["status: SUCCESS", "made alone"]);
    has(&report, "input_tokens: 100");
}

#[test]
fn earlier_session_usage_is_not_recounted_after_kill() {
    let mut scene = Scene::with("exit 1");
    let notes = scene.path("notes").display().to_string();
    let script = r#"
if [ "$1" = --version ]; then echo "codex-cli 0.169.0"; exit 0; fi
cat > @NOTES@/prompt
end() { printf '{"type":"turn.completed","usage":{"input_tokens":%s,"output_tokens":7}}\n' "$1"; }
echo '{"type":"thread.started","thread_id":"01a1ffc0-86c6-7800-b6a8-b71d88dcb33f"}'
report=$(sed -n 's/^report: //p' @NOTES@/prompt)
case "$*" in
*resume*) : > @NOTES@/resumed; until [ -e @NOTES@/go ]; do sleep 0.05; done
  printf -- '---\nstatus: SUCCESS\n---\n\nall of it\n' > "$report"; end 150 ;;
*) printf -- '---\nstatus: FAILED\n---\n\nhalf of it\n' > "$report"; end 100 ;;
esac
"#;
    scene.show_script("codex", &script.replace("@NOTES@", &notes));
    let resumed = scene.path("notes/resumed");
    scene.orphaned("codex", 0, || resumed.exists(), || scene.go());
    let [first, second] = scene.reports().try_into().unwrap();
    has(&first, "input_tokens: 100");
    has(&second, "input_tokens: 50");
}

#[test]
fn killed_agent_continues_its_session() {
    let scene = Scene::with("say; [ $run = 1 ] && sleep 1000; result 'made at last'");
    let kill_agent = || {
        let life = scene.exchange.texts("active", ".json").concat();
        let (_, pid) = life.split_once(r#""pid":"#).unwrap();
        let pid: i32 = pid.split(',').next().unwrap().parse().unwrap();
        let group = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    };
    scene.orphaned("claude", 0, || scene.runs() == 1, kill_agent);
    let (how, session) = scene.session(1);
    assert_eq!(how, "--session-id");
    assert_eq!(scene.session(2), ("--resume".to_owned(), session));
    assert_eq!(scene.runs(), 2);
}

#[test]
fn sessionless_agent_keeps_history_outside_workspace() {
    let mut scene = Scene::with("exit 1");
    let script = r#"
if [ "$1" = --version ]; then echo "aider 0.86.2"; exit 0; fi
history=$(echo "$*" | sed 's/.*--chat-history-file \([^ ]*\).*/\1/')
if [ -e "$history" ]; then echo "$*" >> ../../again; fi
cat >> "$history"
echo "Repo-map: disabled"
echo "I write it."
echo "Tokens: 1.2k sent, 14 received."
if [ -e ../../again ]; then echo made > part; echo "Applied edit to part"; fi
"#;
    scene.show_script("aider", script);
    scene.exits(0, "run --plan plan.md --agent aider --no-input");
    has(scene.read("again"), "--restore-chat-history");
    let reports = scene.reports();
    has(&reports[0], ["status: FAILED", "it changed no file"]);
    has(&reports[1], ["status: SUCCESS", "input_tokens: 1200"]);
    let logs = scene.exchange.names("logs");
    assert!(!logs.iter().any(|name| name.ends_with(".chat")), "{logs:?}");
    // Only MISSION.md and the part.
    assert_eq!(fs::read_dir(scene.workspace("")).unwrap().count(), 2);
}

/// A number in an agent's message about its model is a status only where the message calls it one: everything else may be
/// temporary, and is retried.
#[test]
fn number_in_agent_text_is_no_http_status() {
    for (said, runs) in [
        ("stream disconnected while it ran 412 tests", 2),
        ("unexpected status 412 Precondition Failed", 1),
    ] {
        let mut scene = Scene::configured("exit 1", "[run]\nmax_attempts = 1\n");
        let script = r#"
if [ "$1" = --version ]; then echo "codex-cli 0.150.0"; exit 0; fi
cat > /dev/null
echo run >> ../../runs
echo '{"type":"thread.started","thread_id":"01a1ffc0-86c6-7800-b6a8-b71d88dcb33f"}'
if [ "$(wc -l < ../../runs)" = 1 ]; then
  echo '{"type":"turn.failed","error":{"message":"@SAID@"}}'
  exit 1
fi
echo made > part
echo '{"type":"item.completed","item":{"type":"agent_message","text":"---\\nstatus: SUCCESS\\n---\\n\\nThe part is made."}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'
"#;
        scene.show_script("codex", &script.replace("@SAID@", said));
        let ran = scene.env.run("run --plan plan.md --agent codex --no-input");
        assert_eq!(scene.read("runs").lines().count(), runs, "{said}: {ran:?}");
        let code = if runs == 2 { 0 } else { 4 };
        assert_eq!(ran.code, Some(code), "{said}: {ran:?}");
    }
}

#[test]
fn failed_agent_start_stops_worker_with_one_notice() {
    let scene = Scene::with("echo \"error: unknown option '--verbose'\" >&2; exit 1");
    let ran = scene.run().exits(4);
    assert_eq!(scene.runs(), 1);
    let notice = "! no more tasks are taken: the agent `claude` cannot work as it is set up: error: unknown option";
    assert_eq!(ran.stderr.matches(notice).count(), 1, "{}", ran.stderr);
    let questions = scene.exchange.questions();
    has(&questions[0].1, "unknown option");
}

/// Four tasks that can all be done at the same time.
const APART: &str = "---\nname: Parts\ngoal: Make four parts\n---\n\n## One\n\nMake one.\n\n## Two\n\nMake two.\n\n## Three\n\nMake three.\n\n## Four\n\nMake four.\n";

/// The message of an agent that can do no task at all, and what the person sees then.
const UNFIT: [(&str, &str); 2] = [
    (
        "echo \"error: unknown option '--verbose'\" >&2; exit 1",
        "unknown option",
    ),
    ("fault 401", "The model refuses (401)"),
];

#[test]
fn misconfigured_agent_asks_once_and_gets_no_more_tasks() {
    for ((script, says), lanes) in UNFIT.into_iter().flat_map(|unfit| [(unfit, 1), (unfit, 3)]) {
        let scene = Scene::configured(
            &format!("if [ -e @NOTES@/mended ]; then result made; else {script}; fi"),
            &format!("[run]\nmax_parallel = {lanes}\n"),
        );
        scene.write("plan.md", APART);
        let ran = scene.run().exits(4);
        assert!(scene.runs() <= lanes, "{ran:?}");
        let notices = ran.stderr.matches("! no more tasks are taken").count();
        assert_eq!(notices, 1, "{ran:?}");
        let questions = scene.exchange.questions();
        let [(question, text)] = questions.as_slice() else {
            panic!("{questions:?}");
        };
        has(text, says);
        assert_eq!(scene.reports().len(), 1);
        let log = scene.env.run("log").stdout;
        let handed_out = log.matches("dispatched").count();
        assert!(handed_out <= lanes, "{log}");
        // Once repaired, it continues where it was.
        scene.write("notes/mended", "");
        let question = question.trim_end_matches(".md");
        scene.exits(0, ["answer", question, "reply", "--note", "mended"]);
        scene.exits(0, "resume --agent claude --no-input");
        assert_eq!(scene.reports().len(), 5);
    }
}

#[test]
fn misconfigured_worker_exits_and_leaves_other_commands() {
    let scene = Scene::configured(
        "if [ -e @NOTES@/mended ]; then result made; else fault 401; fi",
        "[run]\nmax_parallel = 3\n",
    );
    scene.write("plan.md", APART);
    let mut daemon = scene.start("run --plan plan.md");
    wait_until("three are dispatched", || {
        scene.exchange.names("commands/pending").len() == 3
    });
    scene.refuses(1, "worker --agent claude", "The model refuses (401)");
    assert_eq!(scene.runs(), 1);
    wait_until("a person is asked", || {
        scene.exchange.questions().len() == 1
    });
    // The tasks that it had not begun wait for another worker, and only the begun task waits for the person.
    wait_until("the rest waits", || {
        scene.exchange.names("commands/pending").len() == 3
    });
    scene.write("notes/mended", "");
    let _worker = scene.start("worker --agent claude");
    scene.exits(0, "answer reply --note mended");
    assert_eq!(daemon.wait().code(), Some(0));
    assert_eq!(scene.reports().len(), 5);
}

#[test]
fn task_text_is_not_expanded_and_environment_not_passed() {
    let mut scene = Scene::with("result 'made'");
    scene.set("PLANTED_SECRET", "canary-of-the-environment");
    let plan = "# Parts\n\n- [ ] Make $(touch x) `touch x` ; touch x\n";
    scene.write("plan.md", plan);
    scene.run().exits(0);
    has(scene.note(1, "prompt"), "$(touch x)");
    let variables = scene.note(1, "env");
    has(&variables, "ANTHROPIC_API_KEY=key-of-the-agent");
    has(&variables, "CLAUDE_CODE_MAX_RETRIES=2");
    lacks(&variables, "PLANTED");
    let mut folders = vec![scene.path("")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            assert_ne!(entry.file_name(), "x");
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                let bytes = fs::read(entry.path()).unwrap();
                let text = String::from_utf8_lossy(&bytes);
                lacks(&text, "canary-of-the-environment");
                let key = text.contains("key-of-the-agent");
                assert!(!key || entry.file_name() == "env", "{:?}", entry.path());
            }
        }
    }
}

#[test]
fn agent_problems_are_reported_once_at_start() {
    let mut scene = Scene::with("result 'made'");
    let seen = |scene: &Scene, name: &str| {
        let words = ["run", "--plan", "plan.md", "--no-input", "--agent", name];
        scene.env.run(words).seen(&scene.env)
    };
    insta::assert_snapshot!(seen(&scene, "clade"), @r"
    error: invalid value 'clade' for '--agent <claude|codex|gemini|opencode|aider|command|relay|shell|files>'
      [possible values: claude, codex, gemini, opencode, aider, command, relay, shell, files]

      tip: a similar value exists: 'claude'

    For more information, try '--help'.
    exit 2
    ");
    insta::assert_snapshot!(seen(&scene, "gemini"), @r"
    error: the coding agent `gemini` is not installed
    Hint: `npm install -g @google/gemini-cli`, or choose another one: `plan-agent doctor` shows which there are
    exit 2
    ");
    scene.show_script("codex", "echo codex-cli 0.2.0");
    insta::assert_snapshot!(seen(&scene, "codex"), @r"
    error: the coding agent `codex` is too old: it is 0.2.0, and 0.44.0 is needed
    Hint: `npm install -g @openai/codex`
    exit 2
    ");
    let allow = |scene: &Scene, words: &str| {
        let config = format!("[worker]\nallow = {words}\n");
        scene.write("config.toml", &config);
    };
    allow(&scene, r#"["edits"]"#);
    insta::assert_snapshot!(seen(&scene, "claude"), @r#"
    error: `worker.allow` has `edits`
    Hint: write "edit", "shell", "shell:cargo test *" or "all"
    exit 2
    "#);
    scene.show_script("aider", "echo aider 0.86.2");
    allow(&scene, r#"["edit", "shell:ls"]"#);
    insta::assert_snapshot!(seen(&scene, "aider"), @r#"
    error: aider runs no commands
    Hint: [worker] allow = ["edit"]
    exit 2
    "#);
    assert_eq!(scene.runs(), 0);
}
