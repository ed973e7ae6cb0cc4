//! Questions at the terminal of a run: one line to answer on, whatever is printed meanwhile; a plan that is reviewed.

use super::*;

/// Two tasks that both ask at once.
fn two_questions() -> (Scene, Agent) {
    let scene = Scene::by_rules("run.max_attempts = 1");
    let agent = scene.agent(|_| Act::failed("the port is taken"));
    (scene, agent)
}

#[test]
fn typed_answer_survives_other_lines() {
    let (scene, _agent) = two_questions();
    let (mut running, mut terminal) = scene.env.start_on_terminal("run --plan two.md");
    terminal.await_shown("(1 more question waits)? ");
    let questions = scene.status()["questions"].as_array().unwrap().clone();
    let shown = terminal.shown();
    let first = if shown.contains("task 1 · Left (1 more") {
        1
    } else {
        2
    };
    let behind = questions.iter().find(|one| one["task"] != first).unwrap();

    terminal.type_keys("sk");
    terminal.await_shown("? > sk");
    scene.works(["answer", behind["id"].as_str().unwrap(), "skip"]);
    wait_until("the typed text stands below what came meanwhile", || {
        let shown = terminal.shown();
        let last = shown.rsplit("(1 more question waits)").next().unwrap();
        last.contains("? > sk") && last.contains("skip")
    });
    terminal.type_keys("i\u{7f}ip not needed\n");
    running.wait();
    let task = &scene.status()["tasks"][first - 1];
    assert_eq!(
        picked(task, "status result"),
        json!(["skipped", "not needed"]),
        "{}",
        terminal.shown()
    );
}

#[test]
fn question_explains_itself_and_wrong_answers() {
    let (scene, _agent) = two_questions();
    let (mut running, mut terminal) = scene.env.start_on_terminal("run --plan one.md");
    for (keys, shown) in [
        ("", "task 1 · Only? retry · skip · abort · ? > "),
        (
            "?\n",
            "    retry        try once more, 1 attempt; the note goes along",
        ),
        ("\n", "? > \n"),
        (
            "perhaps\n",
            "that is no answer here: write one of retry, skip, abort, or `?`",
        ),
        (
            "ab\n",
            "`abort` ends the plan for good: write the whole word",
        ),
    ] {
        terminal.type_keys(keys);
        terminal.await_shown(shown);
    }
    assert_eq!(scene.events_named("answered").len(), 0);
    terminal.type_keys("abort enough\n");
    assert_eq!(running.wait().code(), Some(3), "{}", terminal.shown());
}

#[test]
fn retry_says_how_many_attempts_it_gives() {
    let scene = Scene::by_rules("run.max_attempts = 2");
    let _agent = scene.agent(|_| Act::failed("the port is taken"));
    scene.exits(4, "run --plan one.md --no-input");
    let said = "try again, up to 2 attempts";
    has(scene.works("status"), said);
    has(&scene.exchange.questions()[0].1, said);
}

#[test]
fn review_shows_plan_and_takes_single_keys() {
    let scene = Scene::by_rules("");
    scene.write(
        "plan.md",
        "---\nname: Two\ngoal: Two files\n---\n\n## Left\n\n- produces: left.txt\n- assignee: coder\n\nMake the left file, with a text \
         that is longer than one line of a terminal has columns.\n\n## Right\n\n- after: 1\n\nMake the right one.\n",
    );
    let (mut running, mut terminal) = scene.env.start_on_terminal("run --plan plan.md --review");
    terminal.await_shown("? > ");
    has(
        terminal.shown(),
        [
            "  1 · Left\n      Make the left file, with a text that is longer than one line of a terminal\n      has columns.\n      by: coder\n",
            "      makes: left.txt\n",
            "  2 · Right\n      Make the right one.\n      after: 1\n",
            "plan? y approve · e edit · n abort · ? > ",
        ],
    );
    terminal.type_keys("\n");
    terminal.await_shown("? > \n");
    terminal.type_keys("?");
    terminal.await_shown("change the plan in your editor first");
    // Not at once: only Enter sends it.
    terminal.type_keys("n");
    terminal.await_shown("? > abort ");
    terminal.type_keys("\u{15}");
    assert_eq!(scene.events_named("answered").len(), 0);
    terminal.type_keys("n");
    wait_until("the word is in the line once more", || {
        terminal.shown().matches("? > abort ").count() >= 2
    });
    terminal.type_keys("not now\n");
    assert_eq!(running.wait().code(), Some(3), "{}", terminal.shown());
    let answered = &scene.events_named("answered")[0];
    assert_eq!(picked(answered, "choice note"), json!(["abort", "not now"]));
}

#[test]
fn plan_with_errors_is_edited_again() {
    let mut scene = Scene::by_rules("");
    scene.env.show_script(
        "my-editor",
        "if [ -e again ]; then cp \"$1\" seen; sed -i '/after: 9/d; s/1. Only/1. Mended/' \"$1\"\n\
         else touch again; sed -i 's/^## .*/&\\n\\n- after: 9/' \"$1\"; fi",
    );
    scene.env.set("EDITOR", "my-editor");
    let (mut running, mut terminal) = scene.env.start_on_terminal("run --plan one.md --review");
    terminal.await_shown("? > ");
    terminal.type_keys("e");
    terminal.await_below("  1 · Mended\n", "? > ");
    let seen = fs::read_to_string(scene.env.path("seen")).unwrap();
    begins(&seen, "#! ");
    has(&seen, ["there is no task `9`", "\n\n- after: 9\n"]);
    assert_eq!(scene.status()["tasks"][0]["id"], 1);

    let _agent = scene.agent(|_| Act::success("done"));
    terminal.type_keys("y");
    assert_eq!(running.wait().code(), Some(0), "{}", terminal.shown());
}

#[test]
fn plan_that_comes_back_as_it_was_stays() {
    let mut scene = Scene::by_rules("");
    scene.env.set("EDITOR", "true");
    let (mut running, mut terminal) = scene.env.start_on_terminal("run --plan one.md --review");
    terminal.await_shown("? > ");
    terminal.type_keys("e");
    terminal.await_shown("the plan stays as it was");
    assert_eq!(scene.status()["tasks"][0]["id"], 1);
    kill_process(Pid::from_child(&running.child), Signal::TERM).unwrap();
    assert_eq!(running.wait().code(), Some(143), "{}", terminal.shown());
}

/// A file can be written by agents: it approves nothing, raises no budget, and confirms no end.
#[test]
fn files_of_questions_give_no_rights() {
    for (config, args, word, then) in [
        ("", "run --plan one.md --review --no-input", "approve", 0),
        (
            "budget.attempts = 1",
            "run --plan two.md --no-input",
            "more",
            0,
        ),
    ] {
        let scene = Scene::by_rules(config);
        let _agent = scene.agent(|_| Act::success("done"));
        let code = if word == "more" { 6 } else { 4 };
        scene.exits(code, args);
        let (id, text) = scene.exchange.questions().remove(0);
        has(
            &text,
            [
                &format!("- `{word}` (not in this file): "),
                "what gives a right is only taken from you",
                &format!("plan-agent answer {id} {word}"),
            ],
        );
        lacks(&text, format!("\n- {word}\n"));
        scene.fill_in(&id, word, "");
        scene.exits(code, "resume --no-input");
        let problem = scene.read(&format!(
            "volumes/questions/pending/question-{id}.problem.md"
        ));
        has(
            &problem,
            [
                &format!("`{word}` is not taken from a file"),
                &format!("Hint: `plan-agent answer {id} {word}`"),
            ],
        );
        assert_eq!(scene.events_named("answered").len(), 0);
        scene.works(["answer", &id, word]);
        scene.exits(then, "resume --no-input");
    }
}
