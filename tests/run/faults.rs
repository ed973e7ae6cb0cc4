//! A model that misbehaves, a key that must not be seen, and input that makes no sense.

use std::path::Path;

use super::*;

/// Returns an error that may be repeated at once, so that no test waits for a back-off.
fn passing(status: u16) -> Answer {
    Answer::busy(status, "0")
}

#[test]
fn faults_that_pass_are_waited_out() {
    for shape in SHAPES {
        let server = LlmServer::start(|asked| match (asked.kind.as_str(), asked.nth) {
            ("plan", 0) => passing(429),
            ("plan", 1) => passing(500),
            ("plan", 2) => passing(503),
            ("plan", _) => planned(&[("First", &[]), ("Second", &[1])]),
            ("judge", 0) => Answer::CutBody,
            ("judge", 2) => Answer::Html,
            _ => all_well(asked),
        });
        let scene = Scene::with_model(&server, shape, "");
        let _agent = scene.agent(|_| Act::success("done"));
        let ran = scene.run(&["run", "Do it"]);
        assert_eq!(ran.code, Some(0), "{shape:?}: {ran:?}");
        let counts = ["plan", "judge", "audit", "summarise"].map(|kind| server.count(kind));
        assert_eq!(
            counts,
            [4, 4, 1, 1],
            "{shape:?}: nothing more than needed is asked"
        );
        assert_eq!(scene.status()["usage"]["llm_calls"], 10);
    }
}

#[test]
fn a_model_that_hangs_is_asked_again() {
    let server = LlmServer::start(|asked| match (asked.kind.as_str(), asked.nth) {
        ("plan", 0) => Answer::Hang,
        ("plan", 1) => Answer::HangInBody,
        ("plan", _) => planned(&[("First", &[])]),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "llm.timeout = '1s'");
    let _agent = scene.agent(|_| Act::success("done"));
    let ran = scene.run(&["run", "Do it"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(server.count("plan") >= 3);
}

/// Answers that cannot be used are asked for once more, with what is wrong with them.
#[test]
fn an_answer_that_cannot_be_used_is_asked_for_once_more() {
    let unusable = || {
        [
            (Answer::Text("Sure, here is your plan!".to_owned()), "JSON"),
            (Answer::Json(json!({"steps": []})), "tasks"),
            (planned(&[]), "`tasks` is empty"),
            (planned(&[("A", &[2]), ("B", &[1])]), "circle"),
            (planned(&[("A", &[7])]), "numbered from 1 to 1"),
            (Answer::Cut("{\"name\": \"half a pl".to_owned()), ""),
        ]
    };
    for (index, (_, complaint)) in unusable().into_iter().enumerate() {
        let server = LlmServer::start(move |asked| match (asked.kind.as_str(), asked.nth) {
            ("plan", 0) => unusable()[index].0.clone(),
            ("plan", _) => planned(&[("First", &[])]),
            _ => all_well(asked),
        });
        let scene = Scene::with_model(&server, SHAPES[index % 2], "");
        let _agent = scene.agent(|_| Act::success("done"));
        let ran = scene.run(&["run", "Do it"]);
        assert_eq!(ran.code, Some(0), "{index}: {ran:?}");
        assert_eq!(server.count("plan"), 2, "{index}");
        let again = &server.asked()[1];
        assert!(
            again.prompt().contains(complaint),
            "{index}: {}",
            again.prompt()
        );
    }
}

#[test]
fn without_a_plan_the_goal_is_kept() {
    for (answer, told) in [
        (Answer::error(401, "who are you"), "401"),
        (planned(&[("A", &[2]), ("B", &[1])]), "circle"),
        (passing(500), "500"),
    ] {
        let server = LlmServer::start(move |asked| match asked.nth {
            // As often as a stubborn client may ask: five tries, or an answer and its repair.
            0..=4 if asked.kind == "plan" => answer.clone(),
            _ => all_well(asked),
        });
        let scene = Scene::with_model(&server, Shape::Messages, "");
        let ran = scene.run(&["run", "Do a thing"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let status = scene.status();
        assert_eq!(status["plan"]["status"], "idle");
        assert_eq!(status["plan"]["goal"], "Do a thing");
        assert!(ran.stderr.contains("plan-agent resume"), "{}", ran.stderr);
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(all.contains(told), "{told} in {all}");
    }
}

#[test]
fn a_goal_without_a_plan_is_taken_up_by_resume() {
    let server = LlmServer::start(|asked| match (asked.kind.as_str(), asked.nth) {
        ("plan", 0) => Answer::error(400, "no such model"),
        ("plan", _) => planned(&[("First", &[])]),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "");
    let planned = scene.run(&["plan", "Do it"]);
    assert_eq!(planned.code, Some(1), "{planned:?}");
    assert!(
        planned.stderr.contains("no such model"),
        "{}",
        planned.stderr
    );
    assert!(
        planned.stderr.contains("plan-agent resume"),
        "{}",
        planned.stderr
    );
    let _agent = scene.agent(|_| Act::success("done"));
    let ran = scene.run(&["resume"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn with_a_plan_a_model_that_fails_is_a_question() {
    let server = LlmServer::start(|asked| match (asked.kind.as_str(), asked.nth) {
        ("plan", _) => planned(&[("First", &[])]),
        ("judge", 0) => Answer::error(401, "the key has expired"),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "");
    let agent = scene.agent(|_| Act::success("done"));
    let ran = scene.run(&["run", "Do it"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    let question = scene.status()["questions"][0].clone();
    assert!(
        question["reason"]
            .to_string()
            .contains("the key has expired"),
        "{question}"
    );
    assert_eq!(
        question["choices"],
        json!(["accept", "retry", "skip", "abort"])
    );
    scene.works(&["answer", "retry"]);
    let ran = scene.run(&["resume"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(agent.attempts(), [(1, 1)], "the work is not done again");
    assert_eq!(["plan", "judge"].map(|kind| server.count(kind)), [1, 2]);
}

#[test]
fn the_key_is_seen_nowhere_but_by_the_model() {
    const CANARY: &str = "sk-canary-4711";
    for shape in SHAPES {
        let server = LlmServer::start(|asked| match (asked.kind.as_str(), asked.nth) {
            ("plan", 0) => {
                // A server that shows everything it got.
                let headers: Vec<String> = asked
                    .headers
                    .iter()
                    .map(|(_, value)| value.clone())
                    .collect();
                Answer::Status(
                    429,
                    Some("0".to_owned()),
                    json!({"error": {"message": headers.join(" ")}}).to_string(),
                )
            }
            ("plan", _) => planned(&[("First", &[])]),
            ("judge", 0) => {
                let key = asked
                    .header("x-api-key")
                    .or(asked.header("authorization"))
                    .unwrap();
                verdict("retry", &format!("Use {key}."))
            }
            ("judge", _) => {
                let headers: Vec<String> = asked
                    .headers
                    .iter()
                    .map(|(_, value)| value.clone())
                    .collect();
                Answer::Status(401, None, headers.join(" "))
            }
            _ => all_well(asked),
        });
        let mut scene = Scene::with_model(&server, shape, "");
        scene.env.set("ANTHROPIC_API_KEY", CANARY);
        scene.env.set("OPENAI_API_KEY", CANARY);
        scene.env.set("PLAN_AGENT_LOG", "trace");
        let script =
            "env > environment.txt; tr '\\0' ' ' < /proc/$PPID/cmdline > parent.txt; echo done";
        let ran = scene.run(&[
            "run", "Do it", "--agent", "command", "--", "sh", "-c", script,
        ]);
        assert_eq!(ran.code, Some(4), "{shape:?}: {ran:?}");
        assert!(
            server.asked().iter().all(|asked| asked
                .headers
                .iter()
                .any(|(_, value)| value.contains(CANARY))),
            "the model is given the key"
        );
        assert!(
            !ran.stdout.contains(CANARY) && !ran.stderr.contains(CANARY),
            "{shape:?}: {ran:?}"
        );
        let environment = scene.env.read("volumes/workspace/environment.txt");
        assert!(environment.contains("PATH="), "{environment}");
        let mut read = 0;
        each_file(&scene.env.path(""), &mut |path, bytes| {
            read += 1;
            let seen = bytes
                .windows(CANARY.len())
                .any(|window| window == CANARY.as_bytes());
            assert!(!seen, "{shape:?}: the key is in {}", path.display());
        });
        assert!(read > 10, "{read} files were looked at");
    }
}

fn each_file(folder: &Path, look: &mut impl FnMut(&Path, &[u8])) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            each_file(&path, look);
        } else {
            look(&path, &fs::read(&path).unwrap());
        }
    }
}

#[test]
fn redirects_are_not_followed() {
    let elsewhere = LlmServer::start(all_well);
    let there = elsewhere.url();
    let server = LlmServer::start(move |_| Answer::Redirect(format!("{there}/v1/messages")));
    let mut scene = Scene::with_model(&server, Shape::Messages, "");
    scene.env.set("ANTHROPIC_API_KEY", "sk-canary");
    let ran = scene.run(&["run", "Do it"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(elsewhere.asked().len(), 0);
}

#[test]
fn a_key_goes_over_plain_http_to_this_machine_only() {
    let mut scene =
        Scene::new("llm.provider = 'openai'\nllm.base_url = 'http://models.example/v1'\n");
    scene.env.set("OPENAI_API_KEY", "sk-canary");
    let ran = scene.run(&["run", "Do it"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("config.toml:2"), "{}", ran.stderr);
    assert!(!scene.env.path("volumes").exists(), "nothing half-made");
}

#[test]
fn bad_input_is_one_clear_error_and_nothing_half_made() {
    let given = |config: &str, plan: &str, args: &[&str]| {
        let scene = Scene::by_rules(config);
        scene.env.write("plan.md", plan);
        let ran = scene.run(args);
        assert!(
            !scene.env.path("volumes").exists(),
            "nothing half-made: {ran:?}"
        );
        ran.seen(&scene.env)
    };
    let file = ["run", "--plan", "plan.md"];
    insta::assert_snapshot!(given("run.max_atempts = 2", ONE, &file), @r#"
    error: config.toml:2:5: unknown key `run.max_atempts`
    Hint: did you mean `run.max_attempts`?
    exit 2
    "#);
    insta::assert_snapshot!(given("run.max_attempts = 'three'", ONE, &file), @r#"
    error: config.toml:2:20: `run.max_attempts`: invalid type: string "three", expected u32
    exit 2
    "#);
    insta::assert_snapshot!(given("", "---\nname: X\n---\n\n## A\n\n- after: 2\n\nDo.\n\n## B\n\n- after: 1\n\nDo.\n", &file), @r#"
    error: plan.md:7:10: tasks wait for each other: 1 → 2 → 1
    exit 2
    "#);
    insta::assert_snapshot!(given("", "---\nname: X\n---\n\n## A\n\n- after: 7\n- checks: nope\n\nDo.\n", &file), @r#"
    error: plan.md:7:10: there is no task `7`
    Hint: there is no other task in the plan
    exit 2
    "#);
    insta::assert_snapshot!(given("", "nothing here\n", &file), @r#"
    error: plan.md:1:1: the plan has no tasks
    Hint: write each task under a heading `## Its name`, or as a line `- [ ] Its name`
    exit 2
    "#);
    insta::assert_snapshot!(given("", "", &["run", "--plan", "no.md"]), @r#"
    error: failed to read the plan file `no.md`: No such file or directory (os error 2)
    exit 2
    "#);
    insta::assert_snapshot!(given("", "", &["run", "Do it"]), @r#"
    error: no language model can plan the goal: provider = "none"
    Hint: set ANTHROPIC_API_KEY or OPENAI_API_KEY, choose `[llm] provider`, or give a plan file: `run --plan FILE`
    exit 2
    "#);
    insta::assert_snapshot!(given("", "---\nname: X\n---\n\n## A\n\n- checks: nope\n\nDo.\n", &file), @r#"
    error: the plan file `plan.md` names a check `nope` that is not configured
    Hint: define it in config.toml: [checks] nope = { run = ["…"] }
    exit 2
    "#);
    insta::assert_snapshot!(given("volumes.root = 'plan.md/volumes'", ONE, &file), @r#"
    error: cannot make the folder `[FOLDER]/plan.md/volumes/commands/pending`: Not a directory (os error 20)
    Hint: make it writable, or name another folder in config.toml: [volumes] root
    exit 1
    "#);
}

#[test]
fn a_broken_prompt_is_an_error_at_the_start() {
    let scene = Scene::by_rules("");
    scene.env.write("prompts/command.md", "fine\n{{ nowhere");
    let ran = scene.run(&["run", "--plan", "one.md"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("prompts/command.md"), "{}", ran.stderr);
    assert!(ran.stderr.contains("command.md:2: "), "{}", ran.stderr);
    assert!(!scene.env.path("volumes").exists(), "nothing half-made");
}

#[test]
fn a_change_of_the_plan_that_does_not_come_is_a_question() {
    let server = LlmServer::start(|asked| match (asked.kind.as_str(), asked.nth) {
        ("plan", _) => planned(&[("First", &[])]),
        ("judge", 0) => verdict("replan", "Another way."),
        // Twice: the answer, and the one that mends it.
        ("replan", 0 | 1) => Answer::Json(json!({"reason": "", "edits": []})),
        ("replan", _) => Answer::Json(json!({"reason": "Say it again.", "edits": [
            {"action": "add", "task": null, "reason": "", "name": "Another way", "description": "Do it otherwise.",
             "constraints": null, "expected_output": "It is done.", "depends_on": []},
            {"action": "skip", "task": 1, "reason": "replaced", "name": null, "description": null,
             "constraints": null, "expected_output": null, "depends_on": null},
        ]})),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Messages, "");
    let agent = scene.agent(|_| Act::success("done"));
    let ran = scene.run(&["run", "Do it"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert_eq!(
        scene.status()["questions"][0]["choices"],
        json!(["retry", "abort"])
    );
    scene.works(&["answer", "retry"]);
    let ran = scene.run(&["resume"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(agent.attempts(), [(1, 1), (2, 1)]);
    assert_eq!(server.count("replan"), 3);
}

#[test]
fn an_audit_that_does_not_come_can_be_done_by_the_person() {
    let server = LlmServer::start(|asked| match asked.kind.as_str() {
        "plan" => planned(&[("First", &[])]),
        "audit" => Answer::error(400, "no"),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "");
    let _agent = scene.agent(|_| Act::success("done"));
    let ran = scene.run(&["run", "Do it"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert_eq!(
        scene.status()["questions"][0]["choices"],
        json!(["approve", "retry", "abort"])
    );
    scene.works(&["answer", "approve", "--note", "I looked at it"]);
    let ran = scene.run(&["resume"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(server.count("audit"), 1);
}
