//! Other reactions to a request than an answer: a question, or a report that cannot be read.

use super::*;
use crate::run::internal::Internal;

#[test]
fn question_of_external_role_reaches_human() {
    let scene = Scene::by_rules("run.max_attempts = 1\n");
    let other = row(&["c"], "coder").replace("name: Row\nroles:\n", "");
    let other = other.replace(
        "description: Asks.",
        "description: Asks.\n  collaboration_timeout: 7s",
    );
    let team = asks_coder("  collaboration_timeout: 4s\n") + &other;
    let both = one_for("a") + "\n## Pass it on too\n\n- assignee: c\n\nPass it on.\n";
    let _daemon = passes(&scene, &team, &both);
    let of_a = |command: &Command| is_request(command) && command.body().contains("a asks");
    let first = scene.take("a request", of_a);
    let asks = "---\nstatus: PARTIAL_SUCCESS\nsession_id: s-1\nquestion: Which of the two?\n---\n\n## Core results\n\nHalf of it.\n";
    scene.submit(&first.id, asks);
    let (question, text) = scene.await_questions(1).remove(0);
    let part = "the role `coder` asks, at work for `a`: Which of the two?";
    has(&text, part);
    has(&text, "task: 1 ·");
    has(&text, "- reply");
    let status = scene.works("status");
    has(&status, ["asks you", "a waits for coder"]);

    // Another role that waits for longer has reached its timeout: the first one still waits for the person.
    scene.await_questions(2);
    let withdrawn = scene.texts("commands/withdrawn", ".md");
    assert_eq!(withdrawn.len(), 1);
    has(&withdrawn[0], "c asks");
    assert_eq!(scene.events_named("reported").len(), 1);

    scene.fill_in(&question, "reply", "The left one.");
    let again = scene.take("the same request", of_a);
    assert_eq!((again.kind(), again.session()), ("continue", "s-1"));
    assert_eq!(again.field("request_id"), Some(first.id.as_str()));
    has(again.body(), ["    The left one.", "Which of the two?"]);
    has(again.body(), format!("report-{}.md", again.id));
    scene.succeed(&again, "The left one is mended.");
    wait_until("the task is done", || scene.tasks()[0] == "completed");
    has(scene.works("why 1"), "The left one is mended.");
    assert_eq!(scene.events_named("issued").len(), 2, "an attempt each");
    let log = scene.works("log");
    let words = [
        "a waits for coder: Pass it on.",
        "a asks coder again",
        "a waits for coder: Pass it on.",
        "coder answered a: completed",
    ];
    let mut rest = log.as_str();
    for words in words {
        let found = rest.split_once(words);
        rest = found.unwrap_or_else(|| panic!("{words}: {log}")).1;
    }
}

/// Its wait for the end of the limit is longer than the other role waits for an answer, and costs no attempt.
#[test]
fn request_goes_on_after_usage_limit() {
    let scene = Scene::by_rules("run.max_attempts = 1\n");
    let _daemon = passes(
        &scene,
        &asks_coder("  collaboration_timeout: 1s\n"),
        &one_for("a"),
    );
    let first = scene.take("a request", is_request);
    let until = jiff::Timestamp::now().as_second() + 4;
    let until = jiff::Timestamp::from_second(until).unwrap();
    let blocked = format!(
        "---\nstatus: FAILED\nsession_id: s-1\nblocked_until: {until}\n---\n\n## Core results\n\nHalf of it.\n"
    );
    scene.submit(&first.id, &blocked);
    scene.await_events("parked", 1);
    let again = scene.take("the same request", is_request);
    assert_eq!((again.kind(), again.session()), ("continue", "s-1"));
    assert_eq!(again.field("request_id"), Some(first.id.as_str()));
    has(again.body(), "go on where the usage limit stopped you");
    scene.succeed(&again, "All of it.");
    scene.await_status("completed");
    has(scene.works("why 1"), "All of it.");
    assert_eq!(scene.events_named("issued").len(), 1);
    has(scene.works("log"), "a asks coder again");
}

/// Without a model no rule knows whether the missing part matters: the task that the request is for is tried again.
#[test]
fn partial_answer_makes_task_partial() {
    let scene = Scene::by_rules("");
    let _daemon = passes(&scene, &asks_coder(""), &one_for("a"));
    let first = scene.take("a request", is_request);
    scene.submit(
        &first.id,
        &crate::common::agent::report("PARTIAL_SUCCESS", "Half of it."),
    );
    let again = scene.take("the next request", |command| {
        is_request(command) && command.id != first.id
    });
    let report = scene.texts("reports/processed", ".md").concat()
        + &scene.texts("reports/pending", ".md").concat();
    has(
        report,
        [
            "status: PARTIAL_SUCCESS",
            "PARTIAL_SUCCESS: only a part is done.",
            "Half of it.",
        ],
    );
    scene.succeed(&again, "All of it.");
    scene.await_status("completed");
    has(scene.works("why 1"), "All of it.");
}

#[test]
fn request_question_survives_daemon_and_takes_answer() {
    let scene = Scene::by_rules("");
    scene.write("team.yaml", &(row(&["a", "b"], "coder") + CODER));
    scene.write("pass.md", &one_for("a"));
    let coder = scene.agent(|command| match is_request(command) {
        false => Act::Leave,
        true if command.body().contains("A person answers:") => Act::success("Mended."),
        true => Act::Report(
            "---\nstatus: FAILED\nquestion: |\n  Which one?\n  ## Constraints\n---\n".to_owned(),
        ),
    });
    let team = ["--team", "team.yaml", "--no-input"];
    let ran = scene.run([&["run", "--plan", "pass.md"], &team[..]].concat());
    assert_eq!(ran.code, Some(4), "nobody is there to answer: {ran:?}");
    assert_eq!(scene.tasks(), ["in_progress"]);
    assert!(!scene.names("active").is_empty(), "it goes on");
    scene.works("answer reply --note 'The right one.'");
    scene.exits(0, [&["resume"], &team[..]].concat());
    assert_eq!(scene.tasks(), ["completed"]);
    assert_eq!(scene.events_named("issued").len(), 1);
    let asked: Vec<Command> = coder.seen().into_iter().filter(is_request).collect();
    assert_eq!(asked.len(), 2);
    // Its session is unknown: the new command contains everything again, and quotes its question.
    assert_eq!(asked[1].kind(), "new");
    // The request stays open.
    assert_eq!(asked[1].field("request_id"), Some(asked[0].id.as_str()));
    for words in [
        "Pass it on.\n\nWhat came of it so far:",
        "    ## Constraints\n",
        "    The right one.",
        "The role `b` waits for your answer",
    ] {
        assert!(
            asked[1].body().contains(words),
            "{words}: {}",
            asked[1].text
        );
    }
    lacks(asked[1].body(), &asked[0].id);
    assert_eq!(active(&scene), Vec::<String>::new());
}

#[test]
fn command_refused_to_asked_role_is_allowed_or_denied() {
    for (choice, said, once, always) in [
        ("allow-once", "A person allows this now", true, false),
        ("allow-always", "A person allows this now", false, true),
        ("deny", "A person does not allow this", false, false),
    ] {
        let scene = Scene::by_rules("");
        scene.write("team.yaml", &asks_coder(""));
        scene.write("pass.md", &one_for("a"));
        let asks = "---\nstatus: FAILED\nquestion: May I?\nrefused: [make deploy]\n---\n";
        let coder = scene.agent(move |command| match is_request(command) {
            false => Act::Leave,
            true if command.body().contains(said) => Act::success("Done."),
            true => Act::Report(asks.to_owned()),
        });
        scene.exits(4, "run --team team.yaml --plan pass.md --no-input");
        has(&scene.questions()[0].1, "    $ make deploy\n");
        scene.works(["answer", choice]);
        scene.exits(0, "resume --team team.yaml --no-input");
        assert_eq!(scene.tasks(), ["completed"], "{choice}");
        let asked: Vec<Command> = coder.seen().into_iter().filter(is_request).collect();
        assert_eq!(asked.len(), 2, "{choice}");
        has(asked[1].body(), "        make deploy\n");
        // What the worker of the request is given: once from the attempt, always from the plan of the task.
        let [attempt, plan] = Internal::of(&scene).allowed(&scene, &asked[1].id);
        assert_eq!(
            [attempt.len(), plan.len()],
            [usize::from(once), usize::from(always)]
        );
    }
}

#[test]
fn request_question_ends_with_task() {
    let scene = Scene::by_rules("");
    let _daemon = passes(&scene, &asks_coder(""), &one_for("a"));
    let first = scene.take("a request", is_request);
    let asks = "---\nstatus: FAILED\nquestion: Which one?\n---\n";
    scene.submit(&first.id, asks);
    let (question, _) = scene.await_questions(1).remove(0);
    scene.fill_in(&question, "skip", "Nobody needs it.");
    scene.await_end();
    assert_eq!(scene.tasks(), ["skipped"]);
    assert_eq!(scene.questions(), []);
    assert_eq!(active(&scene), Vec::<String>::new());
    let all: Vec<Value> = scene.json("plans --all --json");
    let of_role = all.iter().find(|plan| plan["owner"] == "role").unwrap();
    assert_eq!(of_role["archive_state"], "history", "{of_role}");
}

#[test]
fn unreadable_request_report_is_repaired_once() {
    let scene = Scene::by_rules("run.max_attempts = 1\n");
    let _daemon = passes(&scene, &asks_coder(""), &one_for("a"));
    let reports = |words: &str| {
        let all = scene.texts("reports/processed", ".md");
        let of_role = all.iter().filter(|text| text.contains("coder answered"));
        of_role.filter(|text| text.contains(words)).count()
    };
    let unreadable = "---\nstatus: [\n---\n";
    let first = scene.take("a request", is_request);
    scene.submit(&first.id, unreadable);
    let repair = scene.take("a repair", is_request);
    assert_eq!(repair.field("request_id"), Some(first.id.as_str()));
    has(repair.body(), ["could not be read", "Pass it on."]);
    assert_eq!(reports("it cannot be read"), 0);
    scene.submit(&repair.id, unreadable);
    wait_until("the role is told", || reports("it cannot be read") == 1);
    let question = scene.await_questions(1).remove(0);
    scene.fill_in(&question.0, "retry", "");
    let second = scene.take("another request", |command| {
        is_request(command) && command.id != first.id
    });
    scene.submit(&second.id, unreadable);
    let repair = scene.take("a repair", is_request);
    scene.succeed(&repair, "Mended now.");
    scene.await_end();
    assert_eq!(scene.tasks(), ["completed"]);
    let part = "Mended now.";
    has(scene.texts("reports/processed", ".md").concat(), part);
}
