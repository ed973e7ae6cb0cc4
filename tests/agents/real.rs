//! Real agents against a vendor on loopback.

use super::*;
use crate::common::vendor::{READ, WRITTEN};

/// Answers questions, and makes the file for an agent that works.
fn both(file: &Path) -> impl Fn(&Heard) -> Say + Send + Sync + 'static {
    let file = file.to_owned();
    move |heard| {
        let asked = heard.turns.iter().rev().find_map(|turn| match turn {
            Turn::Person(text) => question(text),
            _ => None,
        });
        match asked {
            Some(kind) => Say::Text(answer(kind).to_string()),
            None => heard.make_once(&file, "hello"),
        }
    }
}

fn asks(agent: &str) {
    let mut scene = Scene::new(&format!("llm.provider = 'agent'\nllm.agent = '{agent}'"));
    let vendor = Vendor::start(both(&scene.made()));
    if !scene.install(agent, &vendor) {
        return;
    }
    let ran = scene.exits(0, "plan 'Make a greeting'");
    ran.has_stdout("Write the greeting");
    let heard = vendor.heard();
    assert!(heard.iter().any(|heard| heard.was_told("Make a greeting")));
}

#[test]
fn claude_with_refused_key_is_not_retried() {
    let mut scene = Scene::new("llm.provider = 'agent'\nllm.agent = 'claude'");
    let vendor = Vendor::start(|_| Say::Fault(401));
    if !scene.install("claude", &vendor) {
        return;
    }
    let ran = scene.exits(1, "plan 'Make a greeting'");
    ran.has_stderr("refuses the key (status 401)");
    ran.lacks_stderr("sk-canary");
}

#[test]
fn installed_agents_plan() {
    for agent in ["claude", "codex", "gemini", "opencode"] {
        row(agent);
        asks(agent);
    }
}

/// Has one agent do everything: plan, work, judge, audit, summarise.
fn reaches_a_goal(agent: &str) {
    let mut scene = Scene::new("llm.provider = 'agent'");
    let vendor = Vendor::start(both(&scene.made()));
    if !scene.install(agent, &vendor) {
        return;
    }
    let ran = scene.exits(
        0,
        ["run", "Make a greeting", "--agent", agent, "--no-input"],
    );
    ran.has_stdout("The greeting is written, says the agent.");
    assert_eq!(scene.read("volumes/workspace/hello.txt").trim(), "hello");
    let usage = &scene.status()["usage"];
    assert!(
        usage["llm_input_tokens"].as_u64() >= Some(4 * READ),
        "{usage}"
    );
}

#[test]
fn one_agent_alone_completes_goal() {
    for agent in ["claude", "codex"] {
        row(agent);
        reaches_a_goal(agent);
    }
}

#[test]
fn claude_permission_denial_asks_human() {
    let mut scene = Scene::new("llm.provider = 'none'");
    scene.write("plan.md", PLAN);
    let vendor = Vendor::start(|heard| match heard.turns.last() {
        Some(Turn::Tool(_)) => Say::Text("I could not run it.".into()),
        _ => Say::Call(
            "Bash",
            json!({"command": "curl example.com", "description": "looks"}),
        ),
    });
    if !scene.install("claude", &vendor) {
        return;
    }
    scene.exits(4, "run --plan plan.md --agent claude --no-input");
    let reports = scene.reports();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!(
        reports[0].field("status"),
        Some("PARTIAL_SUCCESS"),
        "{reports:?}"
    );
    has(&reports[0].text, "curl example.com");
}

#[test]
fn refused_key_fails_task_and_names_key() {
    for agent in ["claude", "codex"] {
        let mut scene = Scene::new("llm.provider = 'none'\nrun.max_attempts = 1");
        scene.write("plan.md", PLAN);
        let vendor = Vendor::start(|_| Say::Fault(401));
        if !scene.install(agent, &vendor) {
            continue;
        }
        scene.exits(
            4,
            ["run", "--plan", "plan.md", "--agent", agent, "--no-input"],
        );
        let reports = scene.reports();
        assert_eq!(reports.len(), 1, "{agent}: {reports:?}");
        assert_eq!(reports[0].field("status"), Some("FAILED"), "{reports:?}");
        has(&reports[0].text, "key");
        lacks(&reports[0].text, "sk-canary");
    }
}

/// One task, whose first result is not sufficient.
pub(super) const PLAN: &str = "---\nname: A greeting\ngoal: Greet twice\n---\n\n## Greet\n\nMake `hello.txt` and say BANANA.\n";

/// Rules, with a check that only a second attempt passes.
const TWICE: &str = "llm.provider = 'none'\n[run]\nchecks = ['twice']\n[checks]\ntwice = { run = ['test', '-s', 'again.txt'] }\n";

/// Has an agent do a task and fail a check, so that it does the task again; `None` if the agent is not installed.
fn sent_back(mut scene: Scene, agent: &str) -> Option<(Scene, Vendor)> {
    scene.write("plan.md", PLAN);
    let (first, second) = (scene.made(), scene.path("volumes/workspace/again.txt"));
    let vendor = Vendor::start(move |heard| {
        let file = if heard.was_told("`twice`") {
            &second
        } else {
            &first
        };
        heard.make_once(file, "hello")
    });
    if !scene.install(agent, &vendor) {
        return None;
    }
    let ran = scene.run(["run", "--plan", "plan.md", "--agent", agent, "--no-input"]);
    let reports = scene.reports();
    assert_eq!(ran.code, Some(0), "{ran:?}\n{reports:?}");
    assert_eq!(reports.len(), 2, "{reports:?}");
    Some((scene, vendor))
}

/// Has an agent do a task, fail a check, and continue in its session.
fn works(agent: &str) {
    let Some((scene, vendor)) = sent_back(Scene::new(TWICE), agent) else {
        return;
    };
    let reports = scene.reports();
    assert_eq!(scene.read("volumes/workspace/hello.txt").trim(), "hello");
    for report in &reports {
        // It is the last message of the agent.
        assert_eq!(report.field("status"), Some("SUCCESS"), "{report:?}");
        let tokens = |name: &str| {
            report
                .field(name)
                .and_then(|number| number.parse::<u64>().ok())
        };
        assert!(tokens("input_tokens") >= Some(READ), "{report:?}");
        assert!(tokens("output_tokens") >= Some(WRITTEN), "{report:?}");
        assert!(
            report.text.contains("hello.txt") || report.text.contains("again.txt"),
            "{report:?}"
        );
    }
    assert!(reports[0].field("session_id").is_some(), "{reports:?}");
    let expected = reports[1].field("session_id");
    assert_eq!(reports[0].field("session_id"), expected);
    // The second attempt is requested in the conversation of the first.
    let heard = vendor.heard();
    let mut again = heard.iter();
    let again = again.find(|heard| heard.was_told("`twice`")).unwrap();
    assert!(again.was_told("BANANA"), "{:?}", again.turns);
    assert!(again.turns.contains(&Turn::Model), "{:?}", again.turns);
}

#[test]
fn installed_agents_work_and_continue_sessions() {
    for agent in ["claude", "codex", "gemini", "opencode", "aider"] {
        row(agent);
        works(agent);
    }
}

/// Has an agent do a task, fail a check after which its sessions are gone, and begin a new session.
fn works_after_a_loss(agent: &str, sessions: &str) {
    let scene = Scene::new("");
    let sessions = scene.path("home").join(sessions);
    let lose = format!("rm -rf '{}'; test -s again.txt", sessions.display());
    let config = TWICE.replace(
        "'test', '-s', 'again.txt'",
        &format!("'sh', '-c', \"{lose}\""),
    );
    scene.write("config.toml", &config);
    let Some((scene, vendor)) = sent_back(scene, agent) else {
        return;
    };
    let reports = scene.reports();
    has(&reports[1].text, "was lost");
    let session = |at: usize| reports[at].field("session_id");
    assert!(session(0).is_some(), "{reports:?}");
    assert_ne!(session(0), session(1));
    // The new session gets the contents of the lost one.
    let heard = vendor.heard();
    let again = heard.iter().find(|heard| heard.was_told("`twice`"));
    assert!(again.unwrap().was_told("the earlier one is lost"));
}

#[test]
fn installed_agents_restart_after_lost_session() {
    for (agent, sessions) in [
        ("claude", ".claude/projects"),
        ("codex", ".codex/sessions"),
        ("gemini", ".gemini/tmp"),
        ("opencode", ".local/share/opencode"),
    ] {
        row(agent);
        works_after_a_loss(agent, sessions);
    }
}
