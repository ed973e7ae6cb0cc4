//! What a person meets first: the quickstart, a goal that is a file, a budget that is too small, who plans.

use super::*;
use crate::common::env::Terminal;

/// Waits for a text: what a program has written may come after its end.
fn await_shown(terminal: &Terminal, text: &str) {
    wait_until(text, || terminal.shown().contains(text));
}

#[test]
fn quickstart_ends_proven_and_names_the_page() {
    let scene = Scene::by_rules("");
    let plan = include_str!("../../examples/quickstart.md");
    scene.write("examples/quickstart.md", plan);
    let said = scene.works("run --plan examples/quickstart.md --agent shell");
    let tasks = scene.status()["tasks"].clone();
    let tasks = tasks.as_array().unwrap();
    assert_eq!(tasks.len(), 5);
    assert!(tasks.iter().all(|task| task["proven"] == true), "{said}");
    let (_, last) = said.split_once("5 of 5 tasks completed.").unwrap();
    let page = "examples/prime-spiral/page/index.html";
    has(last, format!("`{page}`").as_str());
    assert!(scene.env.path(page).exists());
}

#[test]
fn goal_that_is_a_file_is_asked_about() {
    let scene = Scene::by_rules("");
    for command in ["run one.md", "run one.md --no-input", "plan one.md"] {
        scene.refuses(
            2,
            command,
            [
                "`one.md` is the name of a file",
                "`plan-agent run --plan one.md`",
            ],
        );
    }
    assert!(!scene.env.path("volumes/plan-agent.db").exists());
    let agent = scene.agent(|_| Act::success("It is there."));
    let (mut run, mut terminal) = scene.env.start_on_terminal("run one.md");
    terminal.answer("Carry it out as a plan file? [y/N]", "y");
    assert_eq!(run.wait().code(), Some(0));
    assert_eq!(agent.attempts(), [(1, 1)]);
    // Without a model, a goal of this name cannot be planned.
    let (mut run, mut terminal) = scene.env.start_on_terminal("run one.md");
    terminal.answer("[y/N]", "");
    assert_eq!(run.wait().code(), Some(2));
    await_shown(&terminal, "no language model can plan the goal");
}

#[test]
fn budget_that_cannot_last_is_said_before_the_first_task() {
    let list: String = (1..=201).map(|n| format!("{n}. Task {n}\n")).collect();
    let too_small = "! the plan needs 201 attempts or more, and [budget] allows 200:";
    for (config, said) in [("", false), ("[budget]\nattempts = 200\n", true)] {
        let scene = Scene::by_rules(config);
        scene.write("list.md", &list);
        let ran = scene.exits(0, "run --plan list.md --detach");
        assert_eq!(ran.stderr.contains(too_small), said, "{}", ran.stderr);
        scene.await_events("issued", 1);
        let budget = if said { "200" } else { "1005" };
        has(scene.works("status"), format!(" of {budget} attempts"));
        scene.works("stop");
    }
}

#[test]
fn budget_of_a_plan_that_a_model_made_is_looked_at() {
    let server = planning(&[("First", &[]), ("Second", &[1])]);
    let scene = Scene::with_model(&server, Shape::Chat, "[budget]\nattempts = 1\n");
    let _agent = scene.agent(|_| Act::success("It is there."));
    let ran = scene.exits(6, "run 'Do it' --no-input");
    ran.has_stderr("! the plan needs 2 attempts or more, and [budget] allows 1:");
}

#[test]
fn model_and_address_are_said_before_the_first_call() {
    let mut scene = Scene::new("");
    let server = planning(&[("First", &[])]);
    let _agent = scene.agent(|_| Act::success("It is there."));
    scene.env.set("OPENAI_API_KEY", "key");
    scene.env.set("OPENAI_BASE_URL", &server.openai_url());
    let ran = scene.exits(0, "run 'Do it'");
    let url = server.openai_url();
    let said = "gpt-5 (its default) plans and judges: openai at ";
    begins(
        &ran.stderr,
        format!("{said}{url} (OPENAI_BASE_URL), as OPENAI_API_KEY is set\n"),
    );
    scene.env.set("PLAN_AGENT_LLM_JUDGE_MODEL", "small");
    let ran = scene.exits(0, "run 'Do it again'");
    begins(
        &ran.stderr,
        "gpt-5 (its default) plans, small judges: openai",
    );
}

#[test]
fn checks_of_a_project_are_offered_once() {
    let project = |scene: &Scene| {
        scene.write("project/Makefile", "test:\n\t@touch ran; echo 3 passed\n");
        scene.agent(|_| Act::success("It is there."))
    };
    let run = "run --plan one.md --workspace project";

    // Without a person nothing runs.
    let scene = Scene::by_rules("");
    let _agent = project(&scene);
    let before = scene.read("config.toml");
    let ran = scene.exits(0, run);
    ran.has_stderr("the plan itself says what proves it; this project has `make test`");
    assert!(!scene.env.path("project/ran").exists());
    assert_eq!(scene.read("config.toml"), before);

    let (mut running, mut terminal) = scene.env.start_on_terminal(run);
    // A slip is neither yes nor no.
    terminal.answer("[y/N]", "yess");
    terminal.answer("type `y` for yes, or `n` for no", "y");
    assert_eq!(running.wait().code(), Some(0));
    await_shown(&terminal, "This project has `make test`.");
    await_shown(&terminal, "`make test` is a check from now on");
    has(scene.works("why 1"), "check make: exit 0");
    let config = scene.read("config.toml");
    begins(&config, &before);
    has(
        &config,
        ["checks = [\"make\"]", "make = { run = [\"make\", \"test\"]"],
    );
    let (mut running, terminal) = scene.env.start_on_terminal(run);
    assert_eq!(running.wait().code(), Some(0));
    lacks(terminal.shown(), "This project has");

    // A no is kept, too, and its price is said.
    let scene = Scene::by_rules("");
    let _agent = project(&scene);
    let (mut running, mut terminal) = scene.env.start_on_terminal(run);
    terminal.answer("[y/N]", "n");
    assert_eq!(running.wait().code(), Some(0));
    await_shown(&terminal, "no check is set: a result is only believed");
    await_shown(&terminal, "is kept in `config.toml`");
    has(scene.read("config.toml"), "checks = []");
}

#[test]
fn check_that_fails_now_is_taken() {
    for (said, shown) in [
        (
            "2 passed, 1 failed in 0.1s",
            "from now on: 3 tests ran, 1 fails now",
        ),
        ("2 passed", "2 tests ran, and it fails now (exit 2)"),
    ] {
        let scene = Scene::by_rules("");
        let recipe = format!("test:\n\t@echo {said}; test -e fixed\n");
        scene.write("project/Makefile", &recipe);
        let fixed = scene.env.path("project/fixed");
        let _agent = scene.agent(move |_| {
            fs::write(&fixed, "").unwrap();
            Act::success("It is there.")
        });
        let run = "run --plan one.md --workspace project";
        let (mut running, mut terminal) = scene.env.start_on_terminal(run);
        terminal.answer("[y/N]", "y");
        assert_eq!(running.wait().code(), Some(0));
        await_shown(&terminal, shown);
        has(scene.works("why 1"), "check make: exit 0");
        has(scene.read("config.toml"), "checks = [\"make\"]");
    }
}

#[test]
fn declined_checks_and_those_without_a_test_are_not_taken() {
    for (answer, recipe, shown) in [
        ("n", "touch ran", "kept in"),
        (
            "y",
            "touch ran",
            "no check: its output shows no test that ran",
        ),
        ("y", "touch ran; exit 3", "no check: exit 2"),
    ] {
        let scene = Scene::by_rules("");
        scene.write("project/Makefile", &format!("test:\n\t@{recipe}\n"));
        let _agent = scene.agent(|_| Act::success("It is there."));
        let run = "run --plan one.md --workspace project";
        let (mut running, mut terminal) = scene.env.start_on_terminal(run);
        terminal.answer("[y/N]", answer);
        assert_eq!(running.wait().code(), Some(0));
        await_shown(&terminal, shown);
        assert_eq!(scene.env.path("project/ran").exists(), answer == "y");
        has(scene.read("config.toml"), "[run]\nchecks = []");
        let (mut running, terminal) = scene.env.start_on_terminal(run);
        assert_eq!(running.wait().code(), Some(0));
        await_shown(&terminal, "no check is set: a result is only believed");
        lacks(terminal.shown(), "This project has");
    }
}

#[test]
fn checks_are_offered_after_init_and_where_a_section_is_there_already() {
    for (config, checks) in [
        (None, "\n[run]\nchecks = [\"make\"]\n"),
        (
            Some("[run]\nmax_attempts = 2\n[checks]\n"),
            "[run]\nchecks = [\"make\"]\nmax_attempts = 2\n[checks]\nmake = {",
        ),
    ] {
        let scene = Scene::by_rules("");
        scene.write("project/Makefile", "test:\n\t@echo 3 passed\n");
        fs::remove_file(scene.env.path("config.toml")).unwrap();
        match config {
            Some(config) => scene.write("config.toml", config),
            None => drop(scene.works("init")),
        }
        let _agent = scene.agent(|_| Act::success("It is there."));
        let run = "run --plan one.md --workspace project";
        let (mut running, mut terminal) = scene.env.start_on_terminal(run);
        terminal.answer("This project has `make test`", "y");
        assert_eq!(running.wait().code(), Some(0), "{}", terminal.shown());
        has(scene.works("why 1"), "check make: exit 0");
        has(scene.read("config.toml"), checks);
    }
}
