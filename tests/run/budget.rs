//! Budgets: nothing begins beyond them, nothing is lost at them, and a person decides how the plan continues.

use super::*;

/// Returns a report of success with its cost.
fn dear(dollars: u32) -> Act {
    Act::Report(format!(
        "---\nstatus: SUCCESS\nusage: {{input_tokens: 900, output_tokens: 100, cost_usd: {dollars}}}\n---\n\n## Core results\n\ndone\n"
    ))
}

/// Returns the one open question, which must be about the budget.
fn asked(scene: &Scene) -> (String, String) {
    let status = scene.status();
    assert_eq!(status["plan"]["status"], "paused");
    let questions = status["questions"].as_array().unwrap();
    assert_eq!(questions.len(), 1, "{questions:?}");
    assert_eq!(questions[0]["choices"], json!(["more", "abort"]));
    let text = |key: &str| questions[0][key].as_str().unwrap().to_owned();
    (text("id"), text("reason"))
}

#[test]
fn used_attempts_pause_plan_until_raised() {
    let scene = Scene::by_rules("budget.attempts = 2");
    let agent = scene.agent(|_| Act::success("done"));
    let ran = scene.exits(6, "run --plan chain.md");
    assert_eq!(scene.tasks(), ["completed", "completed", "pending"]);
    let (id, reason) = asked(&scene);
    begins(&reason, "budget: 2 of 2 attempts used");
    ran.has_stdout([&reason, &format!("plan-agent answer {id} more|abort")]);
    has(
        scene.read(&format!("volumes/questions/pending/question-{id}.md")),
        "budget: 2 of 2",
    );

    let still = scene.exits(6, "resume --json");
    assert_eq!(lines(&still.stdout).pop().unwrap()["exit"], 6);
    assert_eq!(asked(&scene).0, id, "it is the same question");
    assert_eq!(agent.attempts().len(), 2);

    has(scene.works("pause"), "an answer of `more` lets it go on");
    let told = scene.works(["tell", "3", "be quick"]);
    has(&told, "answer more` allows more");
    lacks(&told, "resume");
    scene.works("answer more");
    scene.exits(0, "resume");
    assert_eq!(agent.attempts(), [(1, 1), (2, 1), (3, 1)]);
    let usage = &scene.status()["usage"];
    assert_eq!(picked(usage, "attempts budget/attempts"), json!([3, 4]));
}

#[test]
fn budget_question_allows_abort() {
    let scene = Scene::by_rules("budget.attempts = 1");
    let agent = scene.agent(|_| Act::success("done"));
    assert_eq!(scene.run("run --plan chain.md").code, Some(6));
    let (id, _) = asked(&scene);
    scene.fill_in(&id, "abort", "enough");
    scene.exits(3, "resume");
    assert_eq!(agent.attempts().len(), 1);
    assert_eq!(scene.status()["plan"]["status"], "aborted");
}

#[test]
fn abort_as_answer_without_daemon_ends_the_plan_at_once() {
    let scene =
        Scene::by_rules("budget.attempts = 1\nhooks.on_finish = ['sh', '-c', 'cat > finished']");
    let _agent = scene.agent(|_| Act::success("done"));
    assert_eq!(scene.run("run --plan chain.md").code, Some(6));
    let (id, _) = asked(&scene);
    let said = scene.works("answer abort");
    lacks(&said, "No daemon works here");
    assert_eq!(scene.status()["plan"]["status"], "aborted");
    scene.await_name("questions/answered", &format!("question-{id}.md"));
    has(scene.read("finished"), "aborted");
    lacks(scene.read("volumes/workspace/MISSION.md"), &id);
}

#[test]
fn answer_names_its_question_where_other_plans_ask_too() {
    let scene = Scene::by_rules("budget.attempts = 1");
    let _agent = scene.agent(|_| Act::success("done"));
    assert_eq!(scene.run("run --plan chain.md").code, Some(6));
    has(scene.works("status"), "answer more|abort");
    assert_eq!(scene.run("run --plan chain.md").code, Some(6));
    let (id, _) = asked(&scene);
    has(scene.works("status"), format!("answer {id} more|abort"));
}

#[test]
fn raised_budget_needs_no_answer() {
    let scene = Scene::by_rules("budget.attempts = 1");
    let _agent = scene.agent(|_| Act::success("done"));
    assert_eq!(scene.run("run --plan chain.md").code, Some(6));
    let (id, _) = asked(&scene);
    scene.write(
        "config.toml",
        "llm.provider = 'none'\nbudget.attempts = 'none'",
    );
    scene.works("resume");
    let closed = scene.events_named("question_closed");
    assert_eq!((closed.len(), &closed[0]["question"]), (1, &json!(id)));
    assert_eq!(scene.questions(), []);
    let usage = &scene.status()["usage"];
    assert_eq!(picked(usage, "attempts budget/attempts"), json!([3, null]));
}

#[test]
fn attempt_in_progress_ends_after_budget_limit() {
    let scene = Scene::by_rules("budget.attempts = 1\nrun.max_parallel = 2");
    let foreground = scene.start("run --plan two.md");
    let command = scene.take_any();
    scene.await_status("paused");
    scene.submit(
        &command.id,
        &crate::common::agent::report("SUCCESS", "done"),
    );
    foreground.end().exits(6);
    assert_eq!(scene.tasks(), ["completed", "pending"]);
    assert_eq!(scene.events_named("issued").len(), 1);
}

#[test]
fn llm_calls_count_in_advance_and_skip_summary() {
    for shape in SHAPES {
        let server = planning(&[("First", &[]), ("Second", &[1])]);
        let scene = Scene::with_model(&server, shape, "budget.llm_calls = 2");
        let agent = scene.agent(|_| Act::success("done"));
        scene.exits(6, "run 'Do it'");
        assert_eq!(server.asked().len(), 2, "the plan and a verdict");
        assert_eq!(agent.attempts(), [(1, 1)], "nobody could judge another");
        let (_, reason) = asked(&scene);
        assert!(reason.starts_with("budget: 2 of 2 calls used"), "{reason}");

        scene.works("answer more");
        let ran = scene.exits(0, "resume");
        assert_eq!(server.asked().len(), 4, "a verdict and the audit");
        ran.has_stdout("No model was asked to sum it up: 4 of 4 calls of the budget used.");
    }
}

#[test]
fn retried_llm_calls_count() {
    let server = LlmServer::start(|_| Answer::error(503, "try later"));
    let config = "budget.llm_calls = 3\nllm.tries = 9\nllm.retry_delay = '1ms'";
    let mut scene = Scene::with_model(&server, Shape::Chat, config);
    scene.env.set("PLAN_AGENT_TIMING", "0.01");
    scene.exits(6, "run 'Do it'");
    assert_eq!(server.asked().len(), 3);
    scene.exits(6, "resume");
    let questions = open_questions(&scene);
    let begins = |words: &str| {
        let reason = |question: &Value| question["reason"].as_str().unwrap().starts_with(words);
        questions.iter().any(reason)
    };
    assert!(begins("budget: 3 of 3 calls used") && begins("the model is away (plan)"));
    assert_eq!(server.asked().len(), 3);

    scene.exits(1, "plan 'Do something else'");
    assert_eq!(server.asked().len(), 6, "each plan has its own budget");
}

#[test]
fn report_waits_when_budget_forbids_judge() {
    let server = planning(&[("Only", &[])]);
    let scene = Scene::with_model(&server, Shape::Messages, "");
    let agent = scene.agent(|_| dear(30));
    scene.exits(6, "run 'Do it'");
    assert!(asked(&scene).1.starts_with("budget: $30 of $20 used"));
    let expected = (0, vec!["in_progress".to_owned()]);
    assert_eq!((server.count("judge"), scene.tasks()), expected);
    let status = scene.works("status");
    has(
        &status,
        "Used: model 1 of 500 calls, 16 of 5M tokens · agents 1 of 200 attempts, 1k tokens · $30 of $20",
    );

    scene.works("answer more");
    scene.exits(0, "resume");
    assert_eq!((server.count("judge"), agent.attempts().len()), (1, 1));
    let why = scene.works("why 1");
    let part = "used: agent 1k tokens · judge 1 call, 16 tokens · $30";
    has(&why, part);
}

#[test]
fn llm_tokens_are_limited() {
    let server = planning(&[("First", &[]), ("Second", &[1])]);
    let scene = Scene::with_model(&server, Shape::Chat, "budget.llm_tokens = 20");
    let agent = scene.agent(|_| Act::success("done"));
    assert_eq!(scene.run("run 'Do it'").code, Some(6));
    assert!(asked(&scene).1.starts_with("budget: 32 of 20 tokens used"));
    assert_eq!(agent.attempts(), [(1, 1)]);
}

#[test]
fn wall_time_stops_while_only_human_is_awaited() {
    let scene = Scene::by_rules("budget.wall_time = '1ms'");
    let agent = scene.agent(|_| Act::success("done"));
    let daemon = scene.leave("run --plan chain.md");
    let (id, text) = scene.await_questions(1).remove(0);
    has(&text, "of 1 ms used");
    assert_eq!(agent.attempts(), [(1, 1)]);
    let used = || scene.status()["usage"]["wall_seconds"].as_f64().unwrap();
    let before = used();
    scene.refuses(6, "resume", "answer more");
    scene.works(["answer", &id, "more"]);
    // Another millisecond: enough for one more task.
    scene.await_events("asked", 2);
    let (id, _) = asked(&scene);
    assert_eq!(agent.attempts(), [(1, 1), (2, 1)]);
    assert!(used() > before);
    scene.works(["answer", &id, "more"]);
    scene.await_status("completed");
    scene.await_end();
    drop(daemon);
}

/// The answer that had to be asked for again was paid, whatever becomes of the next one.
#[test]
fn tokens_of_an_answer_count_where_its_repair_is_cut_off() {
    let server = LlmServer::start(|asked| match (asked.kind.as_str(), asked.nth) {
        ("plan", _) => planned(&[("Only", &[])]),
        ("judge", 0) => Answer::Text("I had rather not".to_owned()),
        ("judge", 1 | 2) => Answer::Hang,
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Messages, "");
    let _agent = scene.agent(|_| Act::success("done"));
    let daemon = scene.leave("run 'Do it'");
    let used = || {
        let usage = &scene.status()["usage"];
        ["llm_calls", "llm_input_tokens", "llm_output_tokens"].map(|name| usage[name].as_u64())
    };
    wait_until("the judge is asked again", || server.count("judge") == 2);
    kill(&scene, daemon);
    assert_eq!(used(), [Some(3), Some(22), Some(10)]);
    let daemon = scene.leave("resume");
    wait_until("the judge is asked anew", || server.count("judge") == 3);
    scene.works("stop");
    drop(daemon);
    assert_eq!(used(), [Some(4), Some(22), Some(10)]);
    scene.exits(0, "resume");
    let calls = u64::try_from(server.asked().len()).unwrap();
    assert_eq!(used()[0], Some(calls));
}

#[test]
fn killed_llm_call_still_counts() {
    let server = LlmServer::start(|asked| match asked.kind.as_str() {
        "plan" => planned(&[("Only", &[])]),
        _ => Answer::Hang,
    });
    let scene = Scene::with_model(&server, Shape::Messages, "budget.llm_calls = 2");
    let agent = scene.agent(|_| Act::success("done"));
    let daemon = scene.leave("run 'Do it'");
    wait_until("the judge is asked", || server.count("judge") == 1);
    // The last call is waited for.
    assert_eq!(scene.status()["plan"]["status"], "running");
    kill(&scene, daemon);
    for _ in 0..3 {
        scene.exits(6, "resume");
    }
    assert_eq!((server.asked().len(), agent.attempts().len()), (2, 1));
    let expected = Some("budget: 2 of 2 calls");
    assert_eq!(asked(&scene).1.split(" used").next(), expected);
}
