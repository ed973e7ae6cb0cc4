//! The tools of control: goals from an agent, their progress and their questions; never what only a person may give.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::common::mcp::{Mcp, said};

fn status(mcp: &mut Mcp) -> Value {
    mcp.call("plan_status", json!({}))["result"].take()
}

#[test]
fn goal_is_stored_as_run_stores_it_and_carried_out() {
    let server = planning(&[("First", &[])]);
    let config = "run.max_attempts = 2\nchecks.test.run = ['true']\nrun.checks = ['test']";
    let scene = Scene::with_model(&server, Shape::Messages, config);
    let mut mcp = Mcp::start(&scene.env, "--dialect control");
    let made = mcp.call("run_goal", json!({"goal": "Do one thing", "name": "Mine"}));
    let plan = made["result"]["plan"].as_str().unwrap().to_owned();
    has(
        made["reason"].as_str().unwrap(),
        "no daemon works here: `plan-agent daemon` carries it out",
    );
    let now = status(&mut mcp);
    let kept = json!([plan, "Mine", "not_started", true]);
    assert_eq!(picked(&now, "plan name state goes_on"), kept);

    let _daemon = scene.start_as("daemon", "daemon");
    let command = scene.take_any();
    let params = json!({"name": "plan_status", "arguments": {"plan": plan}, "_meta": {"progressToken": "p"}});
    let id = mcp.request("tools/call", params).unwrap();
    let progress = mcp.news("notifications/progress");
    let progress = &progress["params"];
    assert_eq!(progress["progressToken"], "p");
    assert_eq!(progress["message"], "running: 0 of 1 tasks completed");
    scene.succeed(&command, "done");
    let mut answer = mcp.answer(id).unwrap();
    let end = said(&mut answer["result"]);
    let ended = json!(["completed", false, 1]);
    assert_eq!(picked(&end["result"], "state goes_on completed"), ended);
    // The checks are those of the configuration, and the log names the client.
    assert_eq!(scene.status()["tasks"][0]["proven"], false);
    let events = scene.events();
    assert_eq!(
        picked(&events[0], "event by why"),
        json!(["created", "test", "run_goal"])
    );
    let ran = scene.works("why 1");
    has(ran, "test");
}

/// Nobody can name an agent there.
#[test]
fn goal_gets_the_configured_agent() {
    let server = planning(&[("First", &[])]);
    let config = "worker.agent = ['command', './agent.sh', '{report}']\n\
                  checks.test.run = ['true']\nrun.checks = ['test']";
    let scene = Scene::with_model(&server, Shape::Messages, config);
    let script = "#!/bin/sh\nprintf -- '---\\nstatus: SUCCESS\\n---\\nDone.\\n' > \"$1\"\n";
    scene.write("agent.sh", script);
    let executable = Permissions::from_mode(0o755);
    fs::set_permissions(scene.env.path("agent.sh"), executable).unwrap();
    let mut mcp = Mcp::start(&scene.env, "--dialect control");
    mcp.call("run_goal", json!({"goal": "Do one thing"}));
    let _daemon = scene.start_as("daemon", "daemon");
    scene.await_states(&["completed"]);
    // What it runs is part of what the person confirms.
    let mut scene = scene;
    scene.env.confirm_nothing();
    scene.write("agent.sh", "#!/bin/sh\ntouch STOLEN\n");
    scene.exits(4, "run --plan one.md --no-input");
    assert!(!scene.env.path("STOLEN").exists());
}

#[test]
fn question_is_answered_but_no_right_is_given() {
    let scene = Scene::by_rules("run.max_attempts = 1\nbudget.attempts = 2");
    let _agent = scene.agent(|_| Act::failed("the port is taken"));
    scene.exits(4, "run --plan two.md --no-input");
    let mut mcp = Mcp::start(&scene.env, "--dialect control");
    let asked = status(&mut mcp)["questions"].take();
    assert_eq!(asked[0]["choices"], json!(["retry", "skip", "abort"]));
    assert_eq!(asked[0]["for_a_person"], json!([]));
    let answer = |question: &Value, choice: &str| json!({"question": question["id"], "choice": choice, "note": "8081"});
    mcp.call("answer_question", answer(&asked[0], "retry"));
    mcp.end();

    scene.exits(6, "resume --no-input");
    let mut mcp = Mcp::start(&scene.env, "--dialect control");
    let asked = status(&mut mcp)["questions"].take();
    let budget = asked.as_array().unwrap().iter();
    let budget = budget
        .clone()
        .find(|asked| asked["for_a_person"] == json!(["more"]));
    let budget = budget.unwrap_or_else(|| panic!("{asked}"));
    for (choice, why) in [
        ("more", "`more` is for a person: `plan-agent answer"),
        ("approve", "`approve` is for a person"),
        ("allow-once", "`allow-once` is for a person"),
        ("allow-always", "`allow-always` is for a person"),
        ("drop-check", "`drop-check` is for a person"),
        ("allow", "must be one of approve, accept, retry"),
        ("wait", "is not offered"),
    ] {
        let (done, refused) = mcp.try_call("answer_question", answer(budget, choice));
        assert!(!done, "{choice}");
        has(refused["reason"].as_str().unwrap(), why);
    }
    assert_eq!(status(&mut mcp)["questions"], asked);
    for (tool, wrong, why) in [
        (
            "answer_question",
            json!({"question": "q0", "choice": "retry"}),
            "question `q0`",
        ),
        (
            "plan_status",
            json!({"plan": "nix"}),
            "there is no plan `nix`",
        ),
        ("run_goal", json!({"goal": " "}), "must not be empty"),
        ("run_goal", json!({"goal": "x", "agent": "shell"}), "agent"),
        ("run_goal", json!({"goal": "x", "checks": []}), "checks"),
        (
            "run_goal",
            json!({"goal": "x"}),
            "no language model can plan the goal",
        ),
        (
            "run_goal",
            json!({"goal": "x".repeat(40_000)}),
            "has 40000 bytes",
        ),
        ("TaskCreate", json!({}), "there is no tool `TaskCreate`"),
    ] {
        let (done, refused) = mcp.try_call(tool, wrong);
        assert!(!done, "{why}");
        has(refused["reason"].as_str().unwrap(), why);
    }
}

#[test]
fn abort_that_needs_consent_is_for_a_person() {
    let server = LlmServer::start(|asked| match asked.kind.as_str() {
        "plan" => planned(&[("First", &[])]),
        "judge" => verdict("abort", "It cannot be done."),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "run.confirm_abort = 'always'");
    let _agent = scene.agent(|_| Act::success("done"));
    scene.exits(4, "run 'Do one thing' --no-input");
    let mut mcp = Mcp::start(&scene.env, "--dialect control");
    let question = status(&mut mcp)["questions"][0].take();
    has(question["for_a_person"].to_string(), "abort");
    let answer = json!({"question": question["id"], "choice": "abort"});
    let (done, refused) = mcp.try_call("answer_question", answer);
    assert!(!done);
    has(
        refused["reason"].as_str().unwrap(),
        "`abort` is for a person",
    );
}

#[test]
fn control_is_served_only_where_a_person_names_it() {
    let scene = Scene::by_rules("");
    for args in ["", "--dialect all"] {
        let mut mcp = Mcp::start(&scene.env, args);
        let listed = mcp.ask("tools/list", json!({})).to_string();
        lacks(&listed, "run_goal");
        let (done, _) = mcp.try_call("run_goal", json!({"goal": "x"}));
        assert!(!done, "{args}");
    }
    scene.exits(1, ["tool", "run_goal", "{\"goal\": \"x\"}"]);
    let tools = scene.works("tools --dialect control");
    for tool in ["run_goal", "plan_status", "answer_question"] {
        has(&tools, tool);
    }
    // What is configured would run.
    let mut scene = Scene::by_rules("hooks.on_finish = ['touch', 'HOOKED']");
    scene.env.confirm_nothing();
    scene.refuses(4, "mcp --dialect control", ["no person has confirmed it"]);
    scene.env.set("PLAN_AGENT_EXCHANGE", "volumes");
    let refused = ["`control` hands goals over, and PLAN_AGENT_EXCHANGE is set"];
    scene.refuses(2, "mcp --dialect control", refused);
    scene.refuses(2, "tool plan_status --dialect control", refused);
}
