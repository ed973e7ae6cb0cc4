//! What a plan was begun with, and goes on with.

use super::*;

/// An agent of a person: it fails until there is a file `ready`, and writes down how it is called.
const AGENT: &str = r#"echo "$*" >> "@HERE@/calls"
test -e "@HERE@/ready" || exit 1
printf -- '---\nstatus: SUCCESS\n---\n\n## Core results\n\nMade.\n' > "$1"
"#;

/// Claude Code, as it fails until there is a file `ready`.
const CLAUDE: &str = r#"if [ "$1" = --version ]; then echo "2.1.330 (Claude Code)"; exit 0; fi
echo "$*" >> "@HERE@/calls"
session=$(sed 's/.*--\(session-id\|resume\) \([^ ]*\).*/\2/' <<X
$*
X
)
report=$(sed -n 's/^report: //p')
end() { printf '{"type":"result","is_error":%s,"session_id":"%s","permission_denials":[],"result":"%s"}\n' "$1" "$session" "$2"; }
if ! test -e "@HERE@/ready"; then end true "no"; exit 1; fi
mkdir -p .plan-agent
printf -- '---\nstatus: SUCCESS\n---\n\n## Core results\n\nMade.\n' > "$report"
end false made
"#;

/// Makes a scene in which `claude` and `./agent` are such programs.
fn scene() -> Scene {
    let mut scene = Scene::by_rules("run.max_attempts = 1\nworker.retries = 0\n");
    let here = scene.env.path("").display().to_string();
    let here = here.trim_end_matches('/');
    (scene.env).show_script("claude", &CLAUDE.replace("@HERE@", here));
    (scene.env).show_script("agent", &AGENT.replace("@HERE@", here));
    scene.env.set("HOME", here);
    scene.env.set("ANTHROPIC_API_KEY", "key-of-the-agent");
    scene
}

/// Lets the plan fail once, and then be able to go on.
fn begin(scene: &Scene, flags: &str) {
    scene.exits(4, &*format!("run --plan one.md --no-input {flags}"));
    scene.works("answer retry");
    scene.write("ready", "");
}

#[test]
fn resume_goes_on_with_what_the_plan_was_begun_with() {
    for (flags, said, called) in [
        (
            "--agent command -- agent {report} --fast 'two words'",
            "goes on with command agent {report} --fast 'two words', no model",
            "--fast two words",
        ),
        (
            "--agent claude -- --model opus",
            "goes on with claude --model opus, no model, allow edit",
            "--model opus",
        ),
    ] {
        for detached in [false, true] {
            let scene = scene();
            begin(&scene, flags);
            let resume = match detached {
                true => "resume --detach",
                false => "resume --no-input",
            };
            has(scene.works(resume), said);
            scene.await_end();
            assert_eq!(scene.tasks(), ["completed"], "{flags}");
            let calls = scene.read("calls");
            let calls: Vec<&str> = calls.lines().collect();
            assert_eq!(calls.len(), 2, "{calls:?}");
            has(calls[1], called);
        }
    }
}

#[test]
fn rights_and_model_of_the_environment_are_remembered() {
    let server = LlmServer::start(|asked| match asked.kind.as_str() {
        "judge" if judged(asked) == (1, 1) => verdict("retry", "Nothing is there."),
        _ => all_well(asked),
    });
    let mut scene = scene();
    scene.write("config.toml", "run.max_attempts = 1\nworker.retries = 0\n");
    let begun_with = [
        (
            "PLAN_AGENT_WORKER_ALLOW",
            "[\"edit\", \"shell:make *\"]".to_owned(),
        ),
        ("PLAN_AGENT_LLM_PROVIDER", "openai".to_owned()),
        ("PLAN_AGENT_LLM_BASE_URL", server.openai_url()),
        ("PLAN_AGENT_LLM_MODEL", "scripted".to_owned()),
    ];
    for (name, value) in &begun_with {
        scene.env.set(name, value);
    }
    begin(&scene, "--agent claude");
    for (name, _) in &begun_with {
        scene.env.set(name, "");
    }
    let before = server.asked().len();
    has(
        scene.works("resume --no-input"),
        "goes on with claude, model scripted, allow edit + shell:make *",
    );
    assert!(server.asked().len() > before);
    has(scene.read("calls").lines().last().unwrap(), "Bash(make *)");
}

/// What a result has to pass, and what the plan may use, is not less after a stop.
#[test]
fn checks_and_limits_of_the_environment_are_remembered() {
    let mut scene = scene();
    let config = scene.read("config.toml");
    let check = "checks.guard = { run = ['test', '-e', 'guarded'], plain = true }\n";
    scene.write("config.toml", &format!("{config}{check}"));
    let begun_with = [
        ("PLAN_AGENT_RUN_CHECKS", "[\"guard\"]"),
        ("PLAN_AGENT_BUDGET_ATTEMPTS", "3"),
    ];
    for (name, value) in begun_with {
        scene.env.set(name, value);
    }
    begin(&scene, "--agent command -- agent {report}");
    for (name, _) in begun_with {
        scene.env.set(name, "");
    }
    let ran = scene.exits(4, "resume --no-input");
    ran.has_stdout("no model, budget.attempts = 3, run.checks = [\"guard\"]");
    assert_eq!(scene.tasks(), ["in_progress"], "its check fails");
    has(scene.works("why 1"), "guard");
    let status = scene.status();
    assert_eq!(status["usage"]["budget"]["attempts"], 3, "{status}");
    // The file may have changed since.
    let renamed = check.replace("guard", "watch");
    scene.write("config.toml", &format!("{config}{renamed}"));
    scene.refuses(2, "resume --no-input", "`run.checks` names `guard`");
    scene.write("config.toml", &format!("{config}{check}"));
    // What is said now holds.
    scene.works("answer retry");
    scene.env.set("PLAN_AGENT_RUN_CHECKS", "[]");
    scene.works("resume --no-input");
    assert_eq!(scene.tasks(), ["completed"]);
}

/// Also where the file names the provider, and the environment only the model.
#[test]
fn model_of_the_environment_is_remembered_beside_provider_of_the_file() {
    let server = LlmServer::start(all_well);
    let mut scene = scene();
    let url = server.openai_url();
    scene.write(
        "config.toml",
        &format!("run.max_attempts = 1\nworker.retries = 0\nllm.provider = 'openai'\nllm.base_url = '{url}'\nllm.model = 'usual'\n"),
    );
    scene.env.set("PLAN_AGENT_LLM_MODEL", "large");
    begin(&scene, "--agent claude");
    scene.env.set("PLAN_AGENT_LLM_MODEL", "");
    has(scene.works("resume --no-input"), "model large");
}

#[test]
fn flags_override_and_are_remembered() {
    let scene = scene();
    begin(&scene, "--agent command -- agent {report} --old");
    has(
        scene.works(["resume", "--detach", "--agent", "files"]),
        "goes on with no agent",
    );
    scene.works("stop");
    has(scene.works("resume --detach"), "goes on with no agent");
    scene.works("stop");
    let named = "resume --no-input --agent command -- agent {report} --new";
    has(
        scene.works(named),
        "goes on with command agent {report} --new",
    );
    let calls = scene.read("calls");
    has(calls.lines().last().unwrap(), "--new");
    // A plan that is over has nothing to go on with.
    lacks(scene.works("resume"), "goes on");
}

#[test]
fn what_only_stands_in_the_database_runs_nothing() {
    let mut scene = scene();
    begin(&scene, "--agent command -- agent {report}");
    // As on another machine, or after somebody else has written the database.
    let other = scene.env.path("other").display().to_string();
    scene.env.set("XDG_STATE_HOME", &other);
    let calls = scene.read("calls");
    for resume in ["resume --no-input", "resume --detach"] {
        scene.refuses(
            4,
            resume,
            [
                "was not begun by you in this folder",
                "--agent command -- agent {report}`",
            ],
        );
    }
    assert_eq!(scene.read("calls"), calls);
    scene.works("resume --no-input --agent command -- agent {report}");
    assert_ne!(scene.read("calls"), calls);
}

#[test]
fn agent_arguments_that_look_like_secrets_are_refused() {
    let scene = scene();
    for words in [
        &["--api-key", "X"][..],
        &["--token=hunter2"],
        &["-c", "providers.mine.api_key=0123"],
        &["sk-0123456789abcdef"],
        &["sh", "-c", "MY_TOKEN=hunter2 run"],
    ] {
        for first in [&["run", "--plan", "one.md"][..], &["resume"]] {
            let line = [first, &["--agent", "command", "--", "agent"], words].concat();
            let ran = scene.exits(2, line);
            ran.has_stderr(["looks like a secret", "the environment"]);
            lacks(&ran.stderr, ["hunter2", "0123"]);
        }
    }
    assert!(!scene.env.path("volumes/plan-agent.db").exists());
}

/// What is remembered replaces single keys: the folder of the project, its checks and what a person confirmed stay.
#[test]
fn remembered_keys_leave_the_rest_of_the_configuration() {
    let mut scene = scene();
    scene.write("config.toml", "run.max_attempts = 1\nworker.retries = 0\n");
    scene.env.set("PLAN_AGENT_LLM_PROVIDER", "none");
    begin(&scene, "--agent claude");
    scene.env.set("PLAN_AGENT_LLM_PROVIDER", "");
    scene.env.confirm_nothing();
    let check = "run.checks = ['evil']\nchecks.evil = { run = ['touch', 'evil'] }\n";
    scene.write("config.toml", check);
    scene.refuses(4, "resume --no-input", "checks.evil");
    fs::create_dir(scene.env.path("deep")).unwrap();
    scene.works("trust");
    scene.works("-C deep resume --no-input");
    assert!(!scene.env.path("deep/volumes").exists());
    assert!(scene.env.path("volumes/workspace/evil").exists());
}

/// A worker that died may have left its agent behind: a worker of another agent ends that one, and does the command itself.
#[test]
fn other_agent_takes_over_what_a_dead_worker_left_behind() {
    for killed in [true, false] {
        let mut scene = scene();
        let here = scene.env.path("").display().to_string();
        let busy = "[ \"$1\" = --version ] && { echo codex-cli 0.98.0; exit; }
            echo $$ > @HERE@/busy; while :; do sleep 0.02; done";
        scene.write("ready", "");
        (scene.env).show_script("codex", &busy.replace("@HERE@", &here));
        let daemon = scene.leave("run --plan one.md --agent codex");
        scene.await_events("claimed", 1);
        let busy = || fs::read_to_string(scene.env.path("busy")).unwrap_or_default();
        wait_until("its agent works", || busy().ends_with('\n'));
        match killed {
            true => kill(&scene, daemon),
            false => drop(scene.works("stop")),
        }
        assert_eq!(lives(busy().trim()), killed);
        scene.works("resume --no-input --agent command -- agent {report}");
        assert!(!lives(busy().trim()), "two agents work at once");
        assert_eq!(scene.tasks(), ["completed"]);
        assert!(scene.events_named("timed_out").is_empty());
    }
}
