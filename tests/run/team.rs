//! Teams: roles in the process for which a model answers, roles behind files, and their requests to each other.

mod answers;
mod cancel;
mod tools;
mod waits;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::common::agent::report;

/// An architect and a reviewer in the process, a coder behind files, and a workflow from design to review.
pub(super) const TEAM: &str = r#"
name: Three
roles:
- id: architect
  kind: agent
  description: Designs.
  actions: [ask, write_file]
  templates:
  - name: design
    matches: [design]
    steps:
    - {name: Think, action: ask, params: {wanted: "How is it built? {{task.description}}"}}
    - {name: Write it down, action: write_file, params: {path: DESIGN.md, content: "{{steps.1.result}}"}}
- id: coder
  kind: files
  worker: external
  description: Writes code.
- id: reviewer
  kind: agent
  description: Reviews.
  actions: [ask, read_file]
  collaboration_timeout: 4s
  on_timeout: retry
workflows:
- id: feature
  name: "Feature {{feature}}"
  description: Builds it.
  parameters:
    feature: {type: string, description: what is to be built}
  steps:
  - step_id: all
    name: All
    tasks:
    - {task_id: design, name: "Design {{feature}}", assignee: architect, description: "Design {{feature}}.", produces: [DESIGN.md]}
    - {task_id: code, name: "Build {{feature}}", assignee: coder, description: "Build {{feature}}.", dependencies: [design]}
    - {task_id: review, name: "Review {{feature}}", assignee: reviewer, description: "- Read it.\n- Have it mended.", dependencies: [code]}
"#;

/// The answer of the architect's model.
const DESIGN: &str = "A flag in two lines.";

/// The steps that the reviewer's model makes of its task.
fn review_steps() -> Answer {
    let param = |name: &str, value: &str| json!({"name": name, "value": value});
    Answer::Json(json!({"reason": "One after the other.", "steps": [
        {"name": "Read the design", "uses": "read_file", "params": [param("path", "DESIGN.md")]},
        {"name": "Have it mended", "uses": "role:coder", "params": [
            param("description", "Mend the flag."), param("context", "The design: {{steps.1.result}}"),
        ]},
        {"name": "Look again", "uses": "ask", "params": [param("wanted", "Is it right now? {{steps.2.result}}")]},
    ]}))
}

/// Returns whether a command is what another role asks of the coder, who is behind files.
fn is_request(command: &Command) -> bool {
    command.field("request_id").is_some() && command.field("assignee") == Some("coder")
}

/// Returns the command for a task of the plan.
fn task_of(scene: &Scene, task: u32, attempt: u32) -> Command {
    scene.take("a task", |command| {
        !is_request(command) && command.task() == task && command.attempt() == attempt
    })
}

/// Returns the remaining heartbeats, locks and marks.
fn active(scene: &Scene) -> Vec<String> {
    let mut names = scene.names("active");
    names.retain(|name| name != ".tmp");
    names
}

/// Returns the requests that were ever made of other roles.
fn requests(scene: &Scene) -> Vec<String> {
    let folders = ["pending", "processed", "withdrawn"];
    let mut ids: Vec<String> = folders
        .iter()
        .flat_map(|folder| scene.texts(&format!("commands/{folder}"), ".md"))
        .filter_map(|text| {
            let line = text.lines().find(|line| line.starts_with("request_id: "));
            line.map(str::to_owned)
        })
        .collect();
    ids.sort();
    ids
}

#[test]
fn team_workflow_survives_rejection_timeout_and_crash() {
    let server = LlmServer::start(|asked| match asked.kind.as_str() {
        "steps" => review_steps(),
        // The description of the task alone, without its name.
        "ask" if asked.prompt().contains("How is it built? Design a flag.") => {
            Answer::Json(json!({"answer": DESIGN}))
        }
        "ask" => Answer::Json(json!({"answer": "It is right."})),
        // The judge's verdict on a review that failed.
        "judge" if judged(asked) == (3, 1) => verdict("retry", "Ask again."),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Messages, "");
    scene.write("team.yaml", TEAM);
    let daemon = scene.leave("run --team team.yaml --workflow feature --param 'feature=a flag'");

    // The architect works in the process, the coder gets its result.
    let code = task_of(&scene, 2, 1);
    assert_eq!(code.field("assignee"), Some("coder"));
    assert_eq!(scene.read("volumes/workspace/DESIGN.md").trim(), DESIGN);
    scene.succeed(&code, "The flag is there.");

    // The first review fails: the coder rejects the request.
    let first = scene.take("a request", is_request);
    assert_eq!(first.field("assignee"), Some("coder"));
    assert_eq!(first.field("request_id"), Some(first.id.as_str()));
    has(first.body(), "Mend the flag.");
    has(first.body(), format!("    The design: {DESIGN}"));
    let rejected = "---\nstatus: FAILED\ncollaboration: rejected\n---\n\n## Core results\n\nNot without tests.\n";
    scene.submit(&first.id, rejected);

    // The second one asks again; no worker answers, and the request is withdrawn.
    let second = scene.await_command("a request", |command| {
        is_request(command) && command.id != first.id
    });
    let withdrawn = format!("{}.md", second.id);
    scene.await_name("commands/withdrawn", &withdrawn);

    // The third time the daemon is killed while the reviewer waits, and the answer arrives before the daemon is back.
    let third = scene.take("a request", is_request);
    let asked = server.asked().len();
    let status = scene.works("status");
    has(&status, "reviewer waits for coder · ");
    let waits = &scene.status()["waits"][0];
    assert_eq!((&waits["task"], &waits["on"]), (&json!(3), &json!("coder")));
    let why = scene.works("why 3");
    has(
        &why,
        [
            "reviewer waits for coder · ".to_owned(),
            format!(" s: Mend the flag. ({})", third.id),
        ],
    );
    kill(&scene, daemon);
    scene.succeed(&third, "Mended.");
    scene.exits(0, "resume --team team.yaml");

    assert_eq!(scene.tasks(), ["completed", "completed", "completed"]);
    let since: Vec<String> = server.asked()[asked..]
        .iter()
        .map(|asked| asked.kind.clone())
        .collect();
    assert_eq!(since, ["ask", "judge", "audit", "summarise"]);
    // Nothing was asked or done twice: one plan of steps for each review, each step once.
    assert_eq!((server.count("steps"), server.count("ask")), (2, 2));
    assert_eq!(requests(&scene).len(), 3);
    assert_eq!(active(&scene), Vec::<String>::new());
    let issued = scene.events_named("issued");
    assert_eq!(issued.len(), 4, "{issued:?}");
    let reported = scene.events_named("reported");
    let words: Vec<&str> = reported
        .iter()
        .map(|event| event["status"].as_str().unwrap())
        .collect();
    assert_eq!(words, ["SUCCESS", "SUCCESS", "FAILED", "SUCCESS"]);
    // The roles' calls of the model count against the budget of the plan, as the planner's do.
    let shown = scene.works("show --format json");
    let calls = format!("\"llm_calls\": {},", server.asked().len());
    assert!(shown.contains(&calls), "{calls} {shown}");
    has(&shown, "\"agent_input_tokens\": 0");
    let plans = scene.works("plans");
    assert_eq!(plans.lines().count(), 1, "{plans}");
    let all: Vec<Value> = scene.json("plans --all --json");
    let states: Vec<&str> = all
        .iter()
        .filter(|plan| plan["owner"] == "role")
        .map(|plan| plan["archive_state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["history"; 3]);
}

/// Roles in the process of which each asks the next by a template, and one task for the first.
fn row(names: &[&str], then: &str) -> String {
    let mut team = "name: Row\nroles:\n".to_owned();
    for (at, name) in names.iter().enumerate() {
        let next = names.get(at + 1).unwrap_or(&then);
        let role = format!(
            "- id: {name}\n  kind: agent\n  description: Asks.\n  actions: [ask]\n  templates:\n  - name: pass on\n    matches: [pass]\n    steps:\n    - {{name: Ask, ask: {next}, description: Pass it on.}}\n"
        );
        team.push_str(&role);
    }
    team
}

/// Returns a plan with one task for a role.
pub fn one_for(role: &str) -> String {
    format!(
        "---\nname: One\ngoal: Pass it on\n---\n\n## Pass it on\n\n- assignee: {role}\n\nPass it on.\n"
    )
}

/// Carries out a plan with one task whose role fails, and returns the text of its first report.
fn first_failure(team: &str, role: &str, config: &str) -> String {
    let scene = Scene::by_rules(config);
    scene.write("team.yaml", team);
    scene.write("pass.md", &one_for(role));
    scene.exits(4, "run --team team.yaml --plan pass.md --no-input");
    let reports = scene.texts("reports/processed", ".md");
    reports.first().expect("a report").clone()
}

#[test]
fn circular_requests_are_refused() {
    let said = first_failure(&row(&["a", "b", "c"], "a"), "a", "");
    has(&said, "status: FAILED");
    has(&said, "the request would wait for itself: a → b → c → a");
}

#[test]
fn nested_requests_have_bounded_depth() {
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let said = first_failure(&row(&names, "a"), "a", "");
    has(&said, "requests within requests go 5 deep at most");
    let said = first_failure(&row(&names, "a"), "a", "role.max_depth = 2\n");
    has(&said, "requests within requests go 2 deep at most");
    // The step is not repeated for each role on the way.
    assert_eq!(said.matches("Step ").count(), 2, "{said}");
}

#[test]
fn role_that_needs_model_is_refused_without_one() {
    let scene = Scene::by_rules("");
    scene.write("team.yaml", TEAM);
    let ran = scene.exits(
        2,
        "run --team team.yaml --workflow feature --param feature=x",
    );
    ran.has_stderr(["architect", "Hint:"]);
    assert!(!scene.env.path("volumes").exists(), "nothing was begun");
}

#[test]
fn internal_request_survives_crash() {
    let server = LlmServer::start(|asked| match (asked.kind.as_str(), asked.nth) {
        // The process is killed while the model of the second role is working.
        ("ask", 0) => Answer::Hang,
        ("ask", _) => Answer::Json(json!({"answer": "Forty-two."})),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "");
    let team =
        row(&["a"], "b") + "- id: b\n  kind: agent\n  description: Answers.\n  actions: [ask]\n";
    let daemon = passes(&scene, &team, &one_for("a"));
    wait_until("the model is asked", || server.count("ask") == 1);
    kill(&scene, daemon);
    scene.works("resume --team team.yaml");
    assert_eq!(scene.tasks(), ["completed"]);
    // The interrupted call is made again, and no other.
    assert_eq!(server.count("ask"), 2);
    assert_eq!(scene.events_named("issued").len(), 1);
    let reports = scene.texts("reports/processed", ".md");
    has(&reports[0], "Forty-two.");
    assert_eq!(requests(&scene).len(), 1);
}

/// A role behind files whose worker is the test.
pub const CODER: &str = "- {id: coder, kind: files, worker: external, description: Codes.}\n";

/// One role in the process that asks a worker behind files, which takes as long as the test wants.
pub fn asks_coder(more: &str) -> String {
    row(&["a"], "coder").replace("description: Asks.", &format!("description: Asks.\n{more}"))
        + CODER
}

#[test]
fn abort_withdraws_role_requests() {
    let scene = Scene::by_rules("");
    let _daemon = passes(&scene, &asks_coder(""), &one_for("a"));
    let request = scene.await_command("a request", is_request);
    let plan = plan_id(&scene);
    scene.works(["abort", &plan]);
    scene.await_end();
    let expected = [format!("{}.md", request.id)];
    assert_eq!(scene.names("commands/withdrawn"), expected);
    assert_eq!(active(&scene), Vec::<String>::new());
}

#[test]
fn attempt_end_withdraws_role_requests() {
    let scene = Scene::by_rules("run.max_attempts = 1\n");
    let _daemon = passes(&scene, &asks_coder("  timeout: 8s\n"), &one_for("a"));
    let request = scene.take("a request", is_request);
    scene.await_events("timed_out", 1);
    // The worker at work is asked to stop.
    scene.await_name("active", &format!("{}.cancel", request.id));
    let question = scene.await_questions(1).remove(0);
    scene.fill_in(&question.0, "retry", "");
    let again = scene.take("another request", |command| {
        is_request(command) && command.id != request.id
    });
    // The first answer comes too late for every request.
    scene.succeed(&request, "Late.");
    scene.await_name("reports/stale", &format!("report-{}.md", request.id));
    scene.succeed(&again, "In time.");
    scene.await_end();
    assert_eq!(scene.tasks(), ["completed"]);
    let said = scene.texts("reports/processed", ".md").concat();
    has(&said, "In time.");
    lacks(&said, "Late.");
}

#[test]
fn repeated_kills_duplicate_no_request() {
    let killed = Arc::new(AtomicBool::new(false));
    let was_killed = Arc::clone(&killed);
    let server = LlmServer::start(move |asked| match asked.kind.as_str() {
        // Nothing ends before a process was killed.
        "ask" if !was_killed.load(Ordering::SeqCst) => Answer::Hang,
        // Slow, so that a kill can interrupt it.
        "ask" => {
            let answer = json!({"answer": format!("Answer {}.", asked.nth)});
            Answer::Slow(Duration::from_millis(200), Box::new(Answer::Json(answer)))
        }
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Messages, "");
    // a asks b, which uses its model and asks the coder, and uses its model again when the answer arrives.
    let team = row(&["a"], "b")
        + "\
- id: b
  kind: agent
  description: Thinks.
  actions: [ask, write_file]
  templates:
  - name: pass on
    matches: [pass]
    steps:
    - {name: Think, action: ask, params: {wanted: First.}}
    - {name: Note, action: write_file, params: {path: note.txt, content: \"{{steps.1.result}}\"}}
    - {name: Ask, ask: coder, description: \"Do {{steps.1.result}}\"}
    - {name: Think again, action: ask, params: {wanted: \"Then {{steps.3.result}}\"}}
- {id: coder, kind: files, worker: external, description: Codes.}
";
    scene.write("team.yaml", &team);
    scene.write("pass.md", &one_for("a"));
    let coder = scene.agent(|command| match is_request(command) {
        true => Act::success("Done."),
        false => Act::Leave,
    });
    let mut daemon = Some(scene.leave("run --team team.yaml --plan pass.md"));
    let plan = plan_id(&scene);
    // The number of all commits, in any plan.
    let changes = || -> i64 {
        let plans = scene.works("plans --all --json");
        let plans: Vec<Value> = serde_json::from_str(&plans).unwrap();
        plans.iter().map(|plan| plan["seq"].as_i64().unwrap()).sum()
    };
    let over = || scene.status()["plan"]["status"] == "completed";
    let mut kills = 0;
    while let Some(running) = daemon.take() {
        let before = changes();
        wait_until("something is committed", || {
            let hangs = kills == 0 && server.count("ask") > 0;
            over() || hangs || changes() > before
        });
        killed.store(true, Ordering::SeqCst);
        kill(&scene, running);
        if over() {
            break;
        }
        kills += 1;
        daemon = Some(scene.leave(["resume", &plan, "--team", "team.yaml"]));
    }
    assert!(kills >= 1, "{kills}");
    scene.works(["resume", &plan, "--team", "team.yaml"]);
    assert_eq!(requests(&scene).len(), 2);
    let asked = coder.seen().into_iter().filter(is_request).count();
    assert_eq!(asked, 1, "the request lay there once");
    assert_eq!(scene.events_named("issued").len(), 1);
    assert_eq!(scene.events_named("reported").len(), 1);
    // Each wait is logged once, and no role waits any more.
    let told = |name: &str| {
        let events = scene.events_named(name).into_iter();
        let roles = events.map(|event| [event["role"].clone(), event["on"].clone()]);
        roles.collect::<Vec<_>>()
    };
    assert_eq!(told("requested"), [["a", "b"], ["b", "coder"]]);
    assert_eq!(told("request_ended"), [["b", "coder"], ["a", "b"]]);
    let mut ended = scene.events_named("request_ended").into_iter();
    assert!(ended.all(|event| event["how"] == "completed"));
    // An interrupted call may be made again after each kill, a persisted answer is not requested again.
    assert!((2..=2 + kills).contains(&server.count("ask")), "{kills}");
    let reports = scene.texts("reports/processed", ".md");
    assert_eq!(reports.len(), 3, "{reports:?}");
    assert_eq!(active(&scene), Vec::<String>::new());
}

#[test]
fn run_reports_unusable_role_before_start() {
    let scene = Scene::by_rules("mcp.docs.command = ['false']\n");
    let team = row(&["a"], "b") + "- {id: b, kind: files, description: Codes.}\n";
    let team = team.replace("actions: [ask]", "actions: [ask]\n  tools: [docs.search]");
    scene.write("team.yaml", &team);
    scene.write("pass.md", &(one_for("b") + "\n```sh\ntrue\n```\n"));
    let args = "run --team team.yaml --plan pass.md --agent shell";
    for how in ["--no-input", "--detach"] {
        let ran = scene.run(format!("{args} {how}"));
        assert_ne!(ran.code, Some(0), "{ran:?}");
        ran.has_stderr("docs");
        ran.lacks_stdout("in the background");
        assert!(scene.status()["daemon"].is_null());
    }
    for folder in ["pending", "processed", "withdrawn"] {
        let names = scene.names(&format!("commands/{folder}"));
        assert_eq!(names, Vec::<String>::new(), "{folder}");
    }
}

#[test]
fn request_queue_holds_sixteen_and_rejects_rest() {
    let server = LlmServer::start(|asked| match asked.kind.as_str() {
        "ask" => Answer::Hang,
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "run.max_parallel = 18\n");
    let team = row(&["a"], "b").replace(
        "description: Asks.",
        "description: Asks.\n  concurrency: 18",
    ) + "- id: b\n  kind: agent\n  description: Answers.\n  actions: [ask]\n";
    scene.write("team.yaml", &team);
    let tasks = (1..=18).map(|n| format!("\n## Pass it on {n}\n\n- assignee: a\n\nPass it on.\n"));
    let plan = format!(
        "---\nname: Many\ngoal: Pass it on\n---\n{}",
        tasks.collect::<String>()
    );
    scene.write("pass.md", &plan);
    let _daemon = scene.leave("run --team team.yaml --plan pass.md");
    wait_until("one is rejected", || {
        let reports = scene.texts("reports/processed", ".md");
        let rejected = |text: &String| text.contains("role `b` has 16 requests waiting already");
        reports.iter().any(rejected)
    });
    wait_until("the others wait", || {
        let waits = scene.status()["waits"].as_array().map_or(0, Vec::len);
        waits == 16 || waits == 17
    });
}
