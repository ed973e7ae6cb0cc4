//! A model that goes away and comes back, and one with a small context.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Two tries without a wait.
const FEW: &str = "llm.tries = 2\nllm.retry_delay = '1ms'\n";

const TEAM: &str = "
name: One
roles:
- id: architect
  kind: agent
  description: Designs.
  actions: [ask]
";

/// Makes a scene whose model closes every connection when it is to judge, while `away` is set. It is asked again soon.
fn scene(shape: Shape, config: &str, away: &Arc<AtomicBool>) -> (LlmServer, Scene) {
    let is_away = Arc::clone(away);
    let server = LlmServer::start(move |asked| match asked.kind.as_str() {
        "judge" if is_away.load(Ordering::SeqCst) => Answer::Close,
        _ => all_well(asked),
    });
    let mut scene = Scene::with_model(&server, shape, &format!("{FEW}{config}"));
    scene.env.set("PLAN_AGENT_TIMING", "0.01");
    (server, scene)
}

/// Waits for the question to a person about the model, and returns its id.
fn asked_about(scene: &Scene) -> String {
    let mut questions = Vec::new();
    wait_until("a person is asked", || {
        questions = open_questions(scene);
        !questions.is_empty()
    });
    let question = &questions[0];
    let reason = question["reason"].as_str().unwrap();
    let what = if scene.tasks().is_empty() {
        "plan"
    } else {
        "judge"
    };
    begins(
        reason,
        format!(
            "the model is away ({what}) and is asked again until it answers: model `scripted` at `http://"
        ),
    );
    question["id"].as_str().unwrap().to_owned()
}

/// Makes a scene whose model closes every connection when it is to plan, while `away` is set.
fn without_planner(shape: Shape, away: &Arc<AtomicBool>) -> (LlmServer, Scene) {
    let is_away = Arc::clone(away);
    let server = LlmServer::start(move |asked| match asked.kind.as_str() {
        "plan" if is_away.load(Ordering::SeqCst) => Answer::Close,
        "plan" => planned(&[("Only", &[])]),
        _ => all_well(asked),
    });
    let mut scene = Scene::with_model(&server, shape, FEW);
    scene.env.set("PLAN_AGENT_TIMING", "0.01");
    (server, scene)
}

#[test]
fn audit_waits_for_model_that_is_away() {
    let away = Arc::new(AtomicBool::new(true));
    let is_away = Arc::clone(&away);
    let server = LlmServer::start(move |asked| match asked.kind.as_str() {
        "audit" if is_away.load(Ordering::SeqCst) => Answer::Close,
        _ => all_well(asked),
    });
    let mut scene = Scene::with_model(&server, Shape::Messages, FEW);
    scene.env.set("PLAN_AGENT_TIMING", "0.01");
    let _agent = scene.agent(|_| Act::success("done"));
    let run = scene.start("run --plan one.md");
    wait_until("it is asked on", || server.count("audit") >= 4);
    away.store(false, Ordering::SeqCst);
    run.end().exits(0);
    assert_eq!(open_questions(&scene).len(), 0);
}

/// What the terminal says each time that the model is still away.
const STILL_AWAY: [&str; 2] = [" the model is away since ", "; next try "];

#[test]
fn first_plan_waits_for_model_that_is_away() {
    for shape in SHAPES {
        let away = Arc::new(AtomicBool::new(true));
        let (server, scene) = without_planner(shape, &away);
        let agent = scene.agent(|_| Act::success("done"));
        let run = scene.start("run 'Do it'");
        let id = asked_about(&scene);
        wait_until("it is asked on", || server.count("plan") >= 4);
        let ran = run.interrupted();
        assert_eq!(ran.code, Some(130), "{ran:?}");
        ran.has_stdout(STILL_AWAY);
        ran.has_stdout([
            "model `scripted` at `http://",
            "resume",
            "goes on where it was",
        ]);

        let before = server.count("plan");
        let run = scene.start("resume");
        wait_until("it is asked on", || server.count("plan") >= before + 2);
        assert_eq!(asked_about(&scene), id, "it is one question");
        away.store(false, Ordering::SeqCst);
        let ran = run.end();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(agent.attempts(), [(1, 1)]);
        has(scene.works("log"), "the model answers again");
        assert!(scene.texts("questions/pending", ".md").is_empty());
    }
}

#[test]
fn first_plan_survives_kill_while_model_is_away() {
    let away = Arc::new(AtomicBool::new(true));
    let (_server, scene) = without_planner(Shape::Chat, &away);
    let _agent = scene.agent(|_| Act::success("done"));
    let daemon = scene.leave("run 'Do it'");
    asked_about(&scene);
    kill(&scene, daemon);
    away.store(false, Ordering::SeqCst);
    scene.works("resume");
    assert_eq!(scene.tasks(), ["completed"]);
}

#[test]
fn plan_waits_for_model_that_is_away() {
    let away = Arc::new(AtomicBool::new(true));
    let (server, scene) = without_planner(Shape::Messages, &away);
    let run = scene.start("plan 'Do it'");
    wait_until("it is asked on", || server.count("plan") >= 4);
    let ran = run.interrupted();
    assert_eq!(ran.code, Some(130), "{ran:?}");
    ran.has_stderr(["the goal is kept", "resume", "model `scripted` at `http://"]);
    ran.has_stderr(STILL_AWAY);
    assert_eq!(
        ran.stderr.matches("cannot be reached").count(),
        1,
        "{ran:?}"
    );

    let run = scene.start("plan 'Do it'");
    let before = server.count("plan");
    wait_until("it is asked on", || server.count("plan") >= before + 4);
    away.store(false, Ordering::SeqCst);
    let ran = run.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.has_stdout("## 1. Only");
    assert!(open_questions(&scene).is_empty());
}

#[test]
fn terminal_says_next_try() {
    let away = Arc::new(AtomicBool::new(true));
    let (_server, scene) = without_planner(Shape::Chat, &away);
    let _agent = scene.agent(|_| Act::success("done"));
    let (mut run, terminal) = scene.env.start_on_terminal("run 'Do it'");
    terminal.await_shown("plan (the model is away since ");
    terminal.await_shown("; next try ");
    away.store(false, Ordering::SeqCst);
    assert_eq!(run.wait().code(), Some(0));
    terminal.await_shown("the model answers again");
}

/// Each try is counted before the next one, of the daemon and of roles.
#[test]
fn tries_before_a_kill_count() {
    for (kind, words) in [
        ("plan", "run 'Do it'"),
        ("ask", "run --team team.yaml --plan one-of-role.md"),
    ] {
        let server = LlmServer::start(|asked| match asked.nth {
            0 | 1 => Answer::error(503, "try later"),
            _ => Answer::Hang,
        });
        let scene = Scene::with_model(
            &server,
            Shape::Chat,
            "llm.tries = 9\nllm.retry_delay = '1ms'",
        );
        scene.write("team.yaml", TEAM);
        scene.write("one-of-role.md", &team::one_for("architect"));
        let daemon = scene.leave(words);
        wait_until("the last try hangs", || server.count(kind) == 3);
        kill(&scene, daemon);
        assert_eq!(scene.status()["usage"]["llm_calls"], 3, "{kind}");
    }
}

#[test]
fn role_asks_model_that_is_away_again() {
    let away = Arc::new(AtomicBool::new(true));
    let is_away = Arc::clone(&away);
    let server = LlmServer::start(move |asked| match asked.kind.as_str() {
        "judge" | "audit" | "summarise" => all_well(asked),
        _ if is_away.load(Ordering::SeqCst) => Answer::Close,
        "ask" => Answer::Json(json!({"answer": "Of wood."})),
        kind => panic!("{kind}"),
    });
    let mut scene = Scene::with_model(&server, Shape::Chat, FEW);
    scene.env.set("PLAN_AGENT_TIMING", "0.01");
    scene.write("team.yaml", TEAM);
    scene.write("one-of-role.md", &team::one_for("architect"));
    let daemon = scene.leave("run --team team.yaml --plan one-of-role.md");
    wait_until("it is asked on", || server.count("ask") >= 4);
    let log = scene.works("log");
    let told = "the model failed to do a step: it is away and is asked again until it answers: model `scripted` at `http://";
    assert_eq!(log.matches(told).count(), 1, "{log}");
    kill(&scene, daemon);

    let before = server.count("ask");
    let run = scene.start("resume");
    wait_until("it is asked on", || server.count("ask") >= before + 2);
    away.store(false, Ordering::SeqCst);
    let ran = run.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(scene.events_named("reported").len(), 1);
    assert_eq!(scene.status()["usage"]["llm_calls"], server.asked().len());
}

#[test]
fn model_that_comes_back_closes_its_question() {
    for shape in SHAPES {
        let away = Arc::new(AtomicBool::new(true));
        let (server, scene) = scene(shape, "", &away);
        let agent = scene.agent(|_| Act::success("done"));
        let run = scene.start("run --plan one.md");
        let id = asked_about(&scene);
        wait_until("it is asked on", || server.count("judge") >= 5);
        assert_eq!(asked_about(&scene), id, "it is one question");

        away.store(false, Ordering::SeqCst);
        let ran = run.end();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(agent.attempts(), [(1, 1)], "the work is not done again");
        // The first tries, and then one call at a time.
        assert!(server.count("judge") >= 6);
        let log = scene.works("log");
        has(&log, "the model answers again");
        // What is repeated every few minutes is no news.
        let times = |words: &str| log.matches(words).count();
        assert_eq!(times("asks the model to judge"), 1, "{log}");
        assert_eq!(times("the model failed to judge"), 1, "{log}");
        assert_eq!(scene.status()["questions"], json!([]));
        assert!(scene.texts("questions/pending", ".md").is_empty());
    }
}

/// Waiting for a model that is away uses no time of the budget.
#[test]
fn time_while_model_is_away_is_not_used() {
    let away = Arc::new(AtomicBool::new(true));
    let (server, scene) = scene(Shape::Chat, "", &away);
    let _agent = scene.agent(|_| Act::success("done"));
    let _daemon = scene.leave("run --plan one.md");
    asked_about(&scene);
    let used = |calls: usize| {
        wait_until("it is asked on", || server.count("judge") >= calls);
        scene.status()["usage"]["wall_seconds"].as_f64().unwrap()
    };
    // The pauses between the tries grow to three seconds.
    let before = used(4);
    assert!(used(8) < before + 3.0);
}

/// The daemon beside which a goal is given asks on, so no person has to answer.
#[test]
fn run_beside_a_daemon_waits_for_a_model_that_is_away() {
    let away = Arc::new(AtomicBool::new(true));
    let (server, scene) = without_planner(Shape::Chat, &away);
    let _agent = scene.agent(|_| Act::success("done"));
    let _daemon = scene.start_as("daemon", "daemon");
    wait_until("it takes plans over", || scene.path("daemon.json").exists());
    let run = scene.start("run 'Do it' --no-input");
    asked_about(&scene);
    wait_until("it is asked on", || server.count("plan") >= 4);
    away.store(false, Ordering::SeqCst);
    run.end().exits(0);
}

/// A queued goal of which the model makes no plan has no terminal: a person is asked, and goes on by the answer.
#[test]
fn queued_goal_without_a_plan_asks() {
    let able = Arc::new(AtomicBool::new(false));
    let is_able = Arc::clone(&able);
    let server = LlmServer::start(move |asked| match asked.kind.as_str() {
        "plan" if !is_able.load(Ordering::SeqCst) => Answer::Text("Not today.".to_owned()),
        "plan" => planned(&[("Only", &[])]),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "");
    let _agent = scene.agent(|_| Act::success("done"));
    let _daemon = scene.start_as("daemon", "daemon");
    wait_until("it takes plans over", || scene.path("daemon.json").exists());
    scene.exits(4, "run 'Do it' --no-input");
    let (_, text) = scene.await_questions(1).remove(0);
    has(&text, "gave no usable answer");
    able.store(true, Ordering::SeqCst);
    scene.works("answer retry");
    scene.await_status("completed");
}

#[test]
fn restart_asks_model_that_is_away_again() {
    let away = Arc::new(AtomicBool::new(true));
    let (server, scene) = scene(Shape::Chat, "", &away);
    let agent = scene.agent(|_| Act::success("done"));
    let daemon = scene.leave("run --plan one.md");
    let id = asked_about(&scene);
    kill(&scene, daemon);
    let before = server.count("judge");
    let daemon = scene.leave("resume");
    wait_until("it is asked on", || server.count("judge") >= before + 2);
    assert_eq!(asked_about(&scene), id);
    away.store(false, Ordering::SeqCst);
    scene.await_end();
    assert_eq!(scene.tasks(), ["completed"]);
    assert_eq!(agent.attempts(), [(1, 1)]);
    drop(daemon);
}

#[test]
fn person_answers_while_model_is_away() {
    for answer in ["accept", "skip"] {
        let away = Arc::new(AtomicBool::new(true));
        let (server, scene) = scene(Shape::Messages, "run.audit = false", &away);
        let _agent = scene.agent(|_| Act::success("done"));
        let run = scene.start("run --plan one.md");
        asked_about(&scene);
        scene.works(["answer", answer]);
        let ran = run.end();
        assert_eq!(ran.code, Some(0), "{answer}: {ran:?}");
        assert!(server.count("judge") >= 2);
    }
}

#[test]
fn calls_to_model_that_is_away_stay_in_budget() {
    let away = Arc::new(AtomicBool::new(true));
    let (server, scene) = scene(Shape::Chat, "budget.llm_calls = 5", &away);
    let _agent = scene.agent(|_| Act::success("done"));
    let ran = scene.run("run --plan one.md");
    assert_eq!(ran.code, Some(6), "{ran:?}");
    assert_eq!(server.count("judge"), 5);
    assert_eq!(scene.status()["usage"]["llm_calls"], 5);
}

#[test]
fn another_fault_of_model_asks_anew() {
    let refuses = Arc::new(AtomicBool::new(false));
    let is_refusing = Arc::clone(&refuses);
    let server = LlmServer::start(move |_| match is_refusing.load(Ordering::SeqCst) {
        true => Answer::error(401, "who are you"),
        false => Answer::error(503, "starting"),
    });
    let mut scene = Scene::with_model(&server, Shape::Chat, FEW);
    scene.env.set("PLAN_AGENT_TIMING", "0.01");
    let _agent = scene.agent(|_| Act::success("done"));
    let run = scene.start("run --plan one.md");
    asked_about(&scene);
    refuses.store(true, Ordering::SeqCst);
    assert_eq!(run.end().code, Some(4), "only a person can go on");
    let status = scene.status();
    let questions = status["questions"].as_array().unwrap();
    assert_eq!(questions.len(), 1);
    let reason = questions[0]["reason"].as_str().unwrap();
    has(
        reason,
        ["the model gave no usable answer (judge)", "who are you"],
    );
}

#[test]
fn small_context_gets_smaller_question() {
    for shape in SHAPES {
        let server = LlmServer::start(|asked| match (asked.kind.as_str(), asked.nth) {
            ("judge", 0 | 1) => {
                let message = "the request exceeds the available context size, try increasing it";
                Answer::error(400, message)
            }
            _ => all_well(asked),
        });
        let scene = Scene::with_model(&server, shape, "");
        let results = "A long line of the report. ".repeat(400);
        let _agent = scene.agent(move |_| Act::success(&results));
        scene.exits(0, "run --plan one.md");
        let asked = server.asked();
        let sizes: Vec<usize> = asked[..3]
            .iter()
            .map(|asked| asked.prompt().len())
            .collect();
        assert!(sizes.is_sorted_by(|more, less| more > less), "{sizes:?}");
        assert!(sizes[2] < sizes[0] * 2 / 3, "{sizes:?}");
    }
}

#[test]
fn too_small_context_is_said() {
    let server = LlmServer::start(|asked| match asked.kind.as_str() {
        "judge" => Answer::error(400, "prompt is too long: 9000 tokens > 4096 maximum"),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Messages, "");
    let _agent = scene.agent(|_| Act::success("done"));
    scene.exits(4, "run --plan one.md");
    assert_eq!(
        server.count("judge"),
        4,
        "whole, a half, a quarter, an eighth"
    );
    let status = scene.status();
    let reason = status["questions"][0]["reason"].as_str().unwrap();
    has(
        reason,
        [
            "has too small a context for this question: status 400: prompt is too long",
            "Hint: give the server a larger context",
        ],
    );
}

#[test]
fn openai_api_base_is_read_or_refused() {
    let server = planning(&[("Only", &[])]);
    let url = server.openai_url();
    let mut scene = Scene::new("");
    scene.env.set("OPENAI_API_KEY", "sk-canary");
    has(
        scene.works("doctor"),
        "openai at https://api.openai.com/v1, the address of its vendor",
    );
    scene.env.set("OPENAI_API_BASE", &url);
    has(
        scene.works("doctor"),
        format!("at {url}, as OPENAI_API_BASE says"),
    );
    let _agent = scene.agent(|_| Act::success("done"));
    scene.works("run 'Do it'");
    assert_eq!(server.count("plan"), 1);

    scene.env.set("OPENAI_BASE_URL", "http://127.0.0.1:1/v1");
    let told = [
        "`OPENAI_API_BASE`: names another address than `OPENAI_BASE_URL`",
        "name the address in `llm.base_url`",
    ];
    scene.refuses(2, "run 'Do it'", told);
    scene.write(
        "config.toml",
        &format!("llm.provider = 'openai'\nllm.base_url = '{url}'"),
    );
    has(
        scene.works("doctor"),
        format!("at {url}, as llm.base_url says"),
    );
}

#[test]
fn small_slips_of_a_plan_are_mended() {
    let text = r#"{"name": "P", "description": "two
lines", "tasks": [
        {"name": "First", "description": "<data name="goal">
Write it.
</data>", "expected_output": "`one.txt` has a line", "produces": ["<data name="workspace">one.txt"], "depends_on": []},
        {"name": "Second", "description": "Then this.", "expected_output": "`two.txt` has a line", "depends_on": [0]}]}"#;
    let server = LlmServer::start(move |asked| match asked.kind.as_str() {
        "plan" => Answer::Text(text.to_owned()),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "");
    scene.works("plan 'Do it'");
    assert_eq!(server.count("plan"), 1, "nothing is asked again");
    let shown = scene.works("show");
    has(
        &shown,
        ["\nWrite it.\n", "- produces: one.txt\n", "- after: 1\n"],
    );
    lacks(&shown, "data");
}
