//! From a plan file or a goal to a finished plan.

use super::*;

use crate::common::agent::report_in;

#[test]
fn shell_agent_runs_plan_file() {
    let scene = Scene::by_rules("");
    scene.write(
        "plan.md",
        "---\nname: Two files\ngoal: Make two files\n---\n\n\
         ## Write\n\n- expected: `a.txt`\n\n```sh\necho hello > a.txt\n```\n\n\
         ## Copy\n\n- after: 1\n\n```sh\ncp a.txt b.txt\n```\n",
    );
    let ran = scene.exits(0, "run --plan plan.md --agent shell --json");
    assert_eq!(scene.read("volumes/workspace/b.txt"), "hello\n");

    let events = lines(&ran.stdout);
    for event in &events {
        for field in ["seq", "at", "plan", "event"] {
            assert!(!event[field].is_null(), "{field} in {event}");
        }
    }
    let last = events.last().unwrap();
    assert_eq!(last["event"], "finished");
    assert_eq!(picked(last, "status exit"), json!(["completed", 0]));
    assert_eq!(names(&events)[..3], ["created", "planned", "started"]);

    let status = scene.status();
    let mut keys = ["plan", "progress", "tasks", "questions", "usage", "daemon"];
    keys.sort_unstable();
    assert!(status.as_object().unwrap().keys().eq(keys), "{status}");
    assert_eq!(status["plan"]["status"], "completed");
    assert_eq!(
        status["progress"],
        json!({"total": 2, "pending": 0, "ready": 0, "blocked": 0, "in_progress": 0, "completed": 2, "failed": 0, "skipped": 0, "by_state": {"completed": 2}})
    );
    assert_eq!(status["daemon"], Value::Null);
    let second = &status["tasks"][1];
    assert_eq!(
        picked(
            second,
            "id key name status proven assignee dependencies attempts"
        ),
        json!([2, "2", "Copy", "completed", false, null, [1], 1])
    );

    let mission = scene.read("volumes/workspace/MISSION.md");
    for part in ["Make two files", "Write", "Copy", "2 of 2 tasks completed"] {
        assert!(mission.contains(part), "{part} in {mission}");
    }
    assert_eq!(scene.names("commands/pending"), [] as [&str; 0]);
    assert_eq!(scene.names("reports/pending"), [] as [&str; 0]);
    assert_eq!(scene.names("reports/processed").len(), 2);
}

#[test]
fn status_of_long_plan_is_truncated_by_limit() {
    let scene = Scene::by_rules("");
    let tasks = (1..=60).map(|number| format!("- [ ] Task {number}\n"));
    let tasks: String = tasks.collect();
    scene.write("long.md", &format!("# Long\n\n{tasks}"));
    let _daemon = scene.leave("run --plan long.md");
    scene.await_any();

    let status = scene.status();
    assert_eq!(status["tasks"].as_array().unwrap().len(), 50);
    assert_eq!(status["truncated"], true);
    let progress = picked(
        &status["progress"],
        "total pending ready blocked in_progress",
    );
    assert_eq!(progress, json!([60, 59, 0, 59, 1]));
    assert!(status["daemon"]["pid"].is_number());
    let all: Value = scene.json("status --json --limit 100");
    assert_eq!(all["tasks"].as_array().unwrap().len(), 60);
    assert_eq!(all.get("truncated"), None);
}

#[test]
fn replan_skips_cause_and_passes_feedback() {
    let server = LlmServer::start(|asked| match asked.kind.as_str() {
        "plan" => planned(&[("Open a socket", &[]), ("Write the client", &[1])]),
        "judge" if judged(asked) == (1, 1) => Answer::Json(json!({
            "criteria": [{"number": 1, "met": "no"}], "reason": "It cannot be done.", "decision": "replan",
            "feedback": "Sockets are forbidden here.", "result_summary": "",
        })),
        "replan" => Answer::Json(json!({"reason": "A file instead.", "edits": [
            {"action": "add", "task": null, "reason": "instead", "name": "Write a file",
             "description": "Write it.", "constraints": null, "expected_output": "a file", "depends_on": []},
            {"action": "update", "task": 2, "reason": "needs it", "name": null,
             "description": null, "constraints": null, "expected_output": null, "depends_on": ["n1"]},
        ]})),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "");
    let agent = scene.agent(|_| Act::success("done"));
    scene.works("run 'Talk to it'");
    assert_eq!(agent.attempts(), [(1, 1), (3, 1), (2, 1)]);
    let cause = scene.status()["tasks"][0].clone();
    assert_eq!(cause["status"], "skipped");
    let why = "replaced by replan: It cannot be done.";
    begins(cause["result"].as_str().unwrap(), why);
    let asked = server.asked();
    let replan = asked.iter().find(|asked| asked.kind == "replan").unwrap();
    let prompt = replan.prompt();
    has(prompt, "Sockets are forbidden here.");
    lacks(prompt, "more after");
}

/// The complete path: planned, retried in its session, replanned by edits, audited, summarised.
#[test]
fn goal_is_planned_judged_replanned_and_audited() {
    for shape in SHAPES {
        let server = LlmServer::start(|asked| match asked.kind.as_str() {
            "plan" => planned(&[
                ("Write the parser", &[]),
                ("Write the tests", &[1]),
                ("Publish it", &[2]),
            ]),
            "judge" => match judged(asked) {
                (1, 1) => verdict("retry", "The parser ignores empty lines; handle them."),
                (2, 1) => verdict("replan", "There is no test framework here."),
                _ => verdict("next", "It is there."),
            },
            "replan" => Answer::Json(json!({"reason": "A framework first.", "edits": [
                {"action": "add", "task": null, "reason": "it is missing", "name": "Install the framework",
                 "description": "Install pytest.", "constraints": null, "expected_output": "pytest runs", "depends_on": ["1"]},
                {"action": "skip", "task": 2, "reason": "replaced by the framework", "name": null,
                 "description": null, "constraints": null, "expected_output": null, "depends_on": null},
                {"action": "update", "task": 3, "reason": "needs it", "name": null,
                 "description": "Publish it with its tests.", "constraints": null, "expected_output": null, "depends_on": ["n1"]},
            ]})),
            "audit" if asked.nth == 0 => {
                goal_open("There is no README.", &[a_task("Write the README", &[])])
            }
            _ => all_well(asked),
        });
        let scene = Scene::with_model(&server, shape, "");
        scene.write(
            "volumes/workspace/README.md",
            "# A parser of canary lines\n",
        );
        let agent = scene.agent(|command| {
            let session = format!("session-{}", command.task());
            Act::Report(report_in(
                &session,
                "SUCCESS",
                &format!("did {}", command.task()),
            ))
        });
        let ran = scene.run("run 'Parse the lines' --json");
        assert_eq!(ran.code, Some(0), "{shape:?}: {ran:?}");

        let path = if shape == Shape::Messages {
            "/v1/messages"
        } else {
            "/v1/chat/completions"
        };
        assert!(server.asked().iter().all(|asked| asked.path == path));
        let plan = &server.asked()[0];
        for fact in ["Parse the lines", "README.md", "A parser of canary lines"] {
            assert!(plan.prompt().contains(fact), "{fact} in {}", plan.prompt());
        }
        let counts =
            ["plan", "judge", "replan", "audit", "summarise"].map(|kind| server.count(kind));
        assert_eq!(counts, [1, 6, 1, 2, 1], "{shape:?}");
        assert_eq!(scene.status()["usage"]["llm_calls"], 11);

        let expected = [(1, 1), (1, 2), (2, 1), (4, 1), (3, 1), (5, 1)];
        assert_eq!(agent.attempts(), expected);
        let retry = agent.command(1, 2);
        assert_eq!((retry.kind(), retry.session()), ("continue", "session-1"));
        has(retry.body(), "The parser ignores empty lines");
        assert!(
            !retry.body().contains("Do this: Write the parser"),
            "only the delta: {}",
            retry.body()
        );
        assert_eq!(agent.command(4, 1).kind(), "new");
        has(agent.command(3, 1).body(), "Publish it with its tests.");

        let status = scene.status();
        let task = |number: usize| &status["tasks"][number - 1];
        assert_eq!(task(2)["status"], "skipped");
        let part = "replaced by the framework";
        has(task(2)["result"].as_str().unwrap(), part);
        assert_eq!(task(1)["result"], "It is there.");
        let mission = scene.read("volumes/workspace/MISSION.md");
        has(&mission, "It went well, says the model.");
        has(&mission, "replaced by the framework");

        let mut ended: Vec<String> = scene
            .texts("commands/pending", ".md")
            .into_iter()
            .chain(scene.texts("commands/processed", ".md"))
            .filter(|text| text.contains("command_type: end"))
            .filter_map(|text| {
                Some(
                    text.split_once("session_id: ")?
                        .1
                        .lines()
                        .next()?
                        .to_owned(),
                )
            })
            .collect();
        ended.sort();
        assert_eq!(
            ended,
            [
                "session-1",
                "session-2",
                "session-3",
                "session-4",
                "session-5"
            ]
        );
    }
}

#[test]
fn retry_without_session_contains_whole_task() {
    let server = LlmServer::start(|asked| match asked.kind.as_str() {
        "plan" => planned(&[("Write the parser", &[])]),
        "judge" if asked.nth == 0 => verdict("retry", "Empty lines are lost."),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "");
    let agent = scene.agent(|_| Act::success("parser.py is there"));
    scene.works("run 'Parse the lines'");
    let retry = agent.command(1, 2);
    assert_eq!((retry.kind(), retry.session()), ("new", "auto"));
    for part in [
        "Do this: Write the parser.",
        "parser.py is there",
        "Empty lines are lost.",
    ] {
        assert!(retry.body().contains(part), "{part} in {}", retry.body());
    }
}

#[test]
fn plan_is_made_shown_and_run_later() {
    let server = planning(&[("First", &[]), ("Second", &[1])]);
    let scene = Scene::with_model(&server, Shape::Messages, "");
    let made = scene.exits(0, "plan 'Do two things'");
    made.has_stderr("--agent NAME` carries it out");
    let shown = made.stdout;
    for part in ["goal: Do two things", "## 1. First", "- after: 1"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert_eq!(scene.status()["plan"]["status"], "idle");
    assert_eq!(scene.names("commands/pending"), [] as [&str; 0]);

    scene.write("shown.md", &shown);
    let _agent = scene.agent(|_| Act::success("done"));
    has(scene.works("resume"), "no --agent: commands wait in ");
    assert_eq!(server.count("plan"), 1, "the answer is not asked for again");
    assert_eq!(scene.tasks(), ["completed", "completed"]);

    let again = scene.run("run --plan shown.md");
    assert_eq!(
        again.code,
        Some(0),
        "what is shown is a plan file: {again:?}"
    );
}

#[test]
fn plan_review_precedes_first_task() {
    let server = planning(&[("First", &[])]);
    let scene = Scene::with_model(&server, Shape::Chat, "");
    let agent = scene.agent(|_| Act::success("done"));
    let _daemon = scene.leave("run 'Do it' --review");
    let (id, text) = scene.await_questions(1).remove(0);
    has(&text, "the plan has 1 task;");
    assert!(agent.seen().is_empty(), "nothing starts before the answer");
    scene.works(["answer", &id, "approve"]);
    scene.await_status("completed");
    assert_eq!(agent.attempts(), [(1, 1)]);
}

#[test]
fn plan_session_covers_all_tasks() {
    let scene = Scene::by_rules("run.session = 'plan'");
    let agent = scene.agent(|_| Act::Report(report_in("the-one", "SUCCESS", "done")));
    scene.works("run --plan chain.md");
    let sessions: Vec<(u32, String, String)> = agent
        .seen()
        .iter()
        .filter(|command| command.kind() != "end")
        .map(|command| {
            (
                command.task(),
                command.kind().to_owned(),
                command.session().to_owned(),
            )
        })
        .collect();
    let going_on = |task| (task, "continue".to_owned(), "the-one".to_owned());
    assert_eq!(
        sessions,
        [
            (1, "new".to_owned(), "auto".to_owned()),
            going_on(2),
            going_on(3)
        ]
    );
    has(agent.command(2, 1).body(), "Make `two.txt`.");
    let ends = scene
        .texts("commands/pending", ".md")
        .into_iter()
        .chain(scene.texts("commands/processed", ".md"))
        .filter(|text| text.contains("command_type: end"));
    assert_eq!(ends.count(), 1);
}

#[test]
fn environment_base_url_receives_environment_key() {
    for shape in SHAPES {
        let server = planning(&[("Only", &[])]);
        let (vendor, url) = match shape {
            Shape::Messages => ("ANTHROPIC", server.url()),
            Shape::Chat => ("OPENAI", server.openai_url()),
        };
        let mut scene = Scene::new("");
        scene.env.set(&format!("{vendor}_API_KEY"), "sk-canary");
        scene.env.set(&format!("{vendor}_BASE_URL"), &url);
        let doctor = scene.works("doctor");
        let told = format!("at {url}, as {vendor}_BASE_URL says ({vendor}_API_KEY is set)");
        has(&doctor, &told);
        let _agent = scene.agent(|_| Act::success("done"));
        scene.works("run 'Do it'");
        assert_eq!(server.count("plan"), 1);
    }
}

#[test]
fn plan_prompt_describes_only_plain_files() {
    for repository in [false, true] {
        let server = planning(&[("First", &[])]);
        let scene = Scene::with_model(&server, Shape::Chat, "");
        scene.write("secret", "do not tell");
        scene.write("volumes/workspace/README.md", &"long ".repeat(400_000));
        scene.pipe("volumes/workspace/AGENTS.md");
        let link = scene.env.path("volumes/workspace/CLAUDE.md");
        std::os::unix::fs::symlink(scene.env.path("secret"), link).unwrap();
        if repository {
            for name in ["HEAD", "config", "index", "commondir"] {
                fs::create_dir_all(scene.env.path("volumes/workspace/.git")).unwrap();
                scene.pipe(&format!("volumes/workspace/.git/{name}"));
            }
        }
        let _agent = scene.agent(|_| Act::success("done"));
        scene.exits(0, "run 'Do it'");
        let asked = server.asked();
        let prompt = asked[0].prompt();
        has(prompt, "README.md begins:\nlong long");
        assert!(prompt.len() < 16_000, "{}", prompt.len());
        lacks(prompt, ["do not tell", "AGENTS.md begins"]);
    }
}
