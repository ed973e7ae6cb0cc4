//! What a person meets first: the quickstart, a goal that is a file, a budget that is too small, who plans.

use super::*;

#[test]
fn quickstart_ends_verified_and_names_the_page() {
    let scene = Scene::by_rules("");
    let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/quickstart.md");
    let said = scene.works(["run", "--plan", plan, "--agent", "shell"]);
    let tasks = scene.status()["tasks"].clone();
    let tasks = tasks.as_array().unwrap();
    assert_eq!(tasks.len(), 5);
    assert!(tasks.iter().all(|task| task["verified"] == true), "{said}");
    let (_, last) = said.split_once("5 of 5 tasks completed.").unwrap();
    has(last, "`volumes/workspace/page/index.html`");
    assert!(scene.env.path("volumes/workspace/page/index.html").exists());
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
    has(terminal.shown(), "no language model can plan the goal");
}

#[test]
fn budget_that_cannot_last_is_said_before_the_first_task() {
    let list: String = (1..=201).map(|n| format!("{n}. Task {n}\n")).collect();
    let too_small = "! the plan has 201 open tasks, and `[budget] attempts` leaves 200 attempts";
    for (config, said) in [("", false), ("[budget]\nattempts = 200\n", true)] {
        let scene = Scene::by_rules(config);
        scene.write("list.md", &list);
        let ran = scene.exits(0, "run --plan list.md --detach");
        assert_eq!(ran.stderr.contains(too_small), said, "{}", ran.stderr);
        scene.await_events("issued", 1);
        let budget = if said { "200" } else { "1005" };
        has(scene.works("status"), &format!(" of {budget} attempts"));
        scene.works("stop");
    }
}

#[test]
fn budget_of_a_plan_that_a_model_made_is_looked_at() {
    let server = planning(&[("First", &[]), ("Second", &[1])]);
    let scene = Scene::with_model(&server, Shape::Chat, "[budget]\nattempts = 1\n");
    let _agent = scene.agent(|_| Act::success("It is there."));
    let ran = scene.exits(6, "run 'Do it' --no-input");
    ran.has_stderr("! the plan has 2 open tasks, and `[budget] attempts` leaves 1 attempt:");
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
