//! A person steers a plan that is carried out: `tell`, `retry`, `skip`, `done`, `add`, `edit`.

use super::*;
use crate::common::env::Terminal;

/// Starts a daemon for the chain of three tasks, and completes the first ones.
fn chain(completed: u32) -> (Scene, Left) {
    let scene = Scene::by_rules("");
    let daemon = scene.leave("run --plan chain.md");
    for number in 1..=completed {
        let command = scene.take_task(number);
        scene.succeed(&command, "done");
    }
    (scene, daemon)
}

/// Takes the command of a task, and waits until the daemon knows it.
fn take(scene: &Scene, number: u32) -> Command {
    let command = scene.take_task(number);
    wait_until("the daemon knows it", || {
        let claimed = scene.events_named("claimed");
        claimed.iter().any(|event| event["task"] == number)
    });
    command
}

/// Returns what has happened to the newest plan on the command line.
fn changes(scene: &Scene) -> Vec<Value> {
    let mut events = scene.events();
    events.retain(|event| event["by"] == "command line");
    events
}

/// Returns where the text of an edit is kept.
fn kept(stderr: &str) -> String {
    let (_, rest) = stderr.split_once("what you had written is in `").unwrap();
    let path = rest.split('`').next().unwrap();
    let text = fs::read_to_string(path).unwrap();
    fs::remove_file(path).unwrap();
    text
}

#[test]
fn words_go_along_with_next_command() {
    let (scene, _daemon) = chain(0);
    let first = scene.take_task(1);
    let tell = ["tell", "1", "use port 8081"];
    has(
        scene.works(tell),
        "task 1: your words go along with its next command; attempt 1 began without them",
    );
    has(scene.works(tell), "has these words already");
    has(
        scene.works("tell 2 'and this'"),
        "task 2: your words go along",
    );
    scene.fail(&first, "the port is taken");
    let second = scene.await_attempt(2);
    has(
        second.body(),
        ["A person says: use port 8081", "the port is taken"],
    );
    has(
        scene.works("log"),
        "task 1: told: use port 8081  (command line: said)",
    );
    // Nobody has read the command when it is taken back.
    scene.works("pause");
    scene.await_events("withdrawn", 1);
    let said = scene.works("tell 1 'and IPv6'");
    has(said, ["The plan is paused", "resume"]);
    scene.works("resume");
    let third = scene.take("attempt 3", |command| command.attempt() == 3);
    let body = third.body();
    has(
        body,
        ["A person says: use port 8081", "A person says: and IPv6"],
    );
    scene.succeed(&third, "done");
    let other = scene.take_task(2);
    has(other.body(), "A person says: and this");
    lacks(other.body(), "8081");
    has(scene.works("tell 1 more"), "`retry` gives your words");
}

#[test]
fn retry_of_completed_task_opens_what_relies_on_it() {
    let (scene, _daemon) = chain(2);
    let third = take(&scene, 3);
    let before = changes(&scene);
    scene.refuses(4, "retry 1", ["tasks 2 and 3 rely on task 1", "--yes"]);
    let (mut running, mut terminal) = scene.env.start_on_terminal("retry 1");
    terminal.answer("Go on? [y/N] ", "n");
    assert_eq!(running.wait().code(), Some(1), "{}", terminal.shown());
    assert_eq!(changes(&scene), before);

    let said = scene.works("retry 1 --yes --note 'with tests'");
    let expected = "task 1 is tried again, up to 3 attempts before you are asked; tasks 2 and 3 open again, too\n";
    assert_eq!(said, expected);
    let again = scene.take("attempt 2", |command| command.attempt() == 2);
    assert_eq!(again.task(), 1);
    has(again.body(), "A person says: with tests");
    has(scene.works("retry 1"), "task 1 is being tried: attempt 2");
    scene.await_name("active", &format!("{}.cancel", third.id));
    scene.submit(
        &third.id,
        &crate::common::agent::report("SUCCESS", "too late"),
    );
    scene.succeed(&again, "done");
    for number in [2, 3] {
        let command = scene.take("the next", |command| {
            (command.task(), command.attempt()) == (number, 2)
        });
        scene.succeed(&command, "done");
    }
    scene.await_status("completed");
    assert_eq!(scene.events_named("stale").len(), 1);
}

/// Both ways out of a question say how many attempts they give.
#[test]
fn retry_says_how_many_attempts_it_gives() {
    for words in ["retry 1", "answer retry"] {
        let scene = Scene::by_rules("run.max_attempts = 2");
        let agent = scene.agent(|command| match command.attempt() {
            1..=2 => Act::failed("not today"),
            _ => Act::success("done"),
        });
        let _daemon = scene.leave("run --plan one.md");
        scene.await_questions(1);
        let said = scene.works(format!("{words} --note 'port 1'").as_str());
        has(said, "up to 2 attempts before you are asked");
        scene.await_status("completed");
        scene.await_end();
        assert_eq!(scene.questions(), []);
        has(agent.command(1, 3).body(), "port 1");
    }
}

#[test]
fn person_settles_tasks_at_work() {
    let (scene, _daemon) = chain(0);
    let first = scene.take_task(1);
    let said = scene.works("done 1 --note 'I did it'");
    has(
        said,
        ["task 1 is done by hand", "task 2 waits for it no longer"],
    );
    scene.await_name("active", &format!("{}.cancel", first.id));
    scene.await_command("task 2", |command| command.task() == 2);
    has(
        scene.works("skip 2"),
        [
            "task 2 is skipped; its command is taken back",
            "task 3 waits for it no longer",
        ],
    );
    for (again, said) in [
        ("done 1", "is completed already"),
        ("skip 2", "is skipped already"),
    ] {
        let before = changes(&scene);
        has(scene.works(again), said);
        assert_eq!(changes(&scene), before);
    }
    scene.refuses(1, "skip 1", ["task `1` is completed", "retry"]);
    let third = scene.take_task(3);
    scene.succeed(&third, "done");
    scene.await_status("completed");
    let status = scene.status();
    let task = &status["tasks"][0];
    assert_eq!(
        picked(task, "status proven by_hand result"),
        json!(["completed", false, true, "I did it"])
    );
    has(scene.works("status"), "by hand, accepted");
    has(scene.works("why 1"), "a person says that it is done");
    has(scene.works("log"), "(command line: I did it)");
}

#[test]
fn plan_that_has_ended_goes_on_by_retry_or_add() {
    let scene = Scene::by_rules("");
    let _agent = scene.agent(|_| Act::success("done"));
    scene.exits(0, "run --plan one.md");
    scene.refuses(1, "skip 1", "is completed");
    scene.refuses(1, "edit", ["the plan is completed", "add"]);
    for (words, said) in [
        ("retry 1", "task 1 is tried again, up to 3 attempts"),
        (
            "add 'Write the docs' --after 1",
            "task 2 is added: what it comes after is done",
        ),
    ] {
        has(
            scene.works(words),
            [said, "No daemon works on the plan", "resume"],
        );
        scene.exits(0, "resume");
        scene.await_status("completed");
    }
    assert_eq!(scene.tasks(), ["completed", "completed"]);
    let plan = plan_id(&scene);
    scene.works("add More");
    scene.works(["abort", &plan]);
    scene.refuses(1, "retry 1", ["the plan is aborted", "restore"]);
}

#[test]
fn tasks_can_be_added_to_running_plan() {
    let (scene, _daemon) = chain(0);
    let first = scene.take_task(1);
    has(
        scene.works("add 'Check it' --after 1 --expected 'a list' --before 2"),
        "task 4 is added before task 2: it waits for task 1",
    );
    has(
        scene.works(["add", "Describe it\n\nIn one page."]),
        "task 5 is added: it waits for no other task",
    );
    scene.refuses(2, "add x --check tset", ["no check `tset`", "[checks]"]);
    // What proves it stands in brackets, as in a plan file.
    let wrong = ["add", "x", "--expected", "it passes (check: tset)"];
    scene.refuses(2, wrong, "no check `tset`");
    let wrong = ["add", "x", "--expected", "it passes (chek: test)"];
    scene.refuses(2, wrong, "`--expected`: ");
    scene.refuses(1, "add x --after 9", "depends on `9`, which does not exist");
    scene.refuses(1, "add x --before 1", "task `1` is in progress");
    scene.succeed(&first, "done");
    let order = [4, 2, 3, 5].map(|number| {
        let command = scene.take_any();
        scene.succeed(&command, "done");
        (command.task(), number)
    });
    assert!(
        order.iter().all(|(done, expected)| done == expected),
        "{order:?}"
    );
    scene.await_status("completed");
    let tasks = &scene.status()["tasks"];
    let name = |at: usize| tasks[at]["name"].clone();
    assert_eq!(
        [name(1), name(4)],
        [json!("Check it"), json!("Describe it")]
    );
}

/// Makes an editor visible that does this with the file `$1`.
fn editor(scene: &mut Scene, script: &str) {
    scene.env.show_script("my-editor", script);
    scene.env.set("EDITOR", "my-editor");
}

#[test]
fn running_plan_can_be_edited() {
    let (mut scene, _daemon) = chain(1);
    let second = scene.take_task(2);
    editor(
        &mut scene,
        "sed -i -e 's/^goal: .*/goal: Other/' -e 's/^Make `three.txt`.*/Make `drei.txt`./' -e 's/^## 3. Third/## Extra\\n\\n- after: 1\\n\\nMore.\\n\\n## 3. Third/' -e 's/^- after: 2/- after: extra/' \"$1\"",
    );
    let said = scene.works("edit");
    has(said, "1 task changed, 1 task added");
    has(scene.works("log"), "(command line: edited: goal)");
    let shown = scene.works("show");
    has(&shown, ["## 3. Extra", "## 4. Third", "Make `drei.txt`."]);
    scene.succeed(&second, "done");
    for number in [4, 3] {
        let command = scene.take_task(number);
        assert_eq!(command.field("origin"), Some("person"));
        scene.succeed(&command, "done");
    }
    scene.await_status("completed");
}

/// What such a task says to its agent stands in its reason: a person sees it, and can replace it.
#[test]
fn task_that_a_tool_added_is_shown_and_edited_with_what_it_says() {
    let (mut scene, _daemon) = chain(1);
    scene.take_task(2);
    let arguments = r#"{"name": "Fourth", "dependencies": [2], "reasoning": "Touch secret."}"#;
    scene.works(["tool", "addTask", arguments, "--plan", &plan_id(&scene)]);
    has(scene.works("show"), "\n\nTouch secret.\n");
    editor(
        &mut scene,
        "if [ -e looked ]; then sed -i '/^Touch/d' \"$1\"; else touch looked; fi",
    );
    has(scene.works("edit 4"), "nothing was changed");
    has(scene.works("edit 4"), "1 task changed");
    lacks(scene.works("show"), "Touch secret.");
}

#[test]
fn task_left_out_in_editor_is_skipped() {
    let (mut scene, _daemon) = chain(1);
    scene.take_task(2);
    let script = "if grep -q goal: \"$1\"; then sed -i '/^## 3/,$d' \"$1\";
        else printf '## 3. Third\\n\\nOther.\\n' > \"$1\"; fi";
    editor(&mut scene, script);
    has(scene.works("edit 3"), "1 task changed");
    has(scene.works("edit"), "1 task skipped");
    assert_eq!(scene.tasks(), ["completed", "in_progress", "skipped"]);
}

#[test]
fn edit_changes_nothing_unless_it_is_right() {
    // What the editor does, the exit code, what is said, and whether the text is kept.
    let cases = [
        ("true", 0, "nothing was changed", false),
        ("touch \"$1\"; exit 3", 1, "ended with exit status: 3", true),
        (
            "sed -i 's/- after: 2/- after: 9/' \"$1\"",
            2,
            "there is no task `9`",
            true,
        ),
        (
            "sed -i 's/one.txt/eins.txt/; s/two.txt/zwei.txt/' \"$1\"",
            2,
            "task `1` is completed",
            true,
        ),
        (
            "sed -i 's/## 3. Third/## 7. Third/' \"$1\"",
            2,
            "a new task has no number",
            true,
        ),
        (
            "sed -i 's/order: dep.*/order: free/' \"$1\"",
            2,
            "the order of a plan stays",
            true,
        ),
        (
            "echo > \"$1\"",
            2,
            "none of the tasks that stood here is left",
            true,
        ),
        (
            "@PROGRAM@ skip 3 && sed -i 's/three.txt/drei.txt/' \"$1\"",
            2,
            "task `3` is skipped",
            true,
        ),
        (
            "sed -i 's/- after: 2/- checks: tset/' \"$1\"",
            2,
            "there is no check `tset`",
            true,
        ),
    ];
    for (script, code, said, is_kept) in cases {
        let (mut scene, _daemon) = chain(1);
        take(&scene, 2);
        let program = env!("CARGO_BIN_EXE_plan-agent");
        editor(&mut scene, &script.replace("@PROGRAM@", program));
        let before = changes(&scene);
        let ran = scene.exits(code, "edit");
        has(ran.stdout.clone() + &ran.stderr, said);
        if is_kept {
            has(&ran.stderr, "nothing was changed");
            assert!(
                !kept(&ran.stderr).is_empty() || script.starts_with("echo"),
                "{script}"
            );
        }
        if !script.contains("skip 3") {
            assert_eq!(changes(&scene), before, "{script}");
        }
    }
    let (mut scene, _daemon) = chain(0);
    scene.env.set("VISUAL", "no-such-editor");
    scene.refuses(
        1,
        "edit",
        ["failed to start the editor `no-such-editor`", "EDITOR="],
    );
}

/// The second time the editor gets the same text, with what is wrong above it.
#[test]
fn error_reopens_same_text() {
    let (mut scene, _daemon) = chain(1);
    scene.take_task(2);
    let seen = scene.env.path("seen.md");
    let script = "if [ -e @SEEN@ ]; then exit 1; fi
        if head -1 \"$1\" | grep -q '^#!'; then cp \"$1\" @SEEN@; sed -i 's/- after: 9/- after: 1/' \"$1\";
        else sed -i 's/- after: 2/- after: 9/' \"$1\"; fi";
    editor(
        &mut scene,
        &script.replace("@SEEN@", seen.to_str().unwrap()),
    );
    let (mut running, terminal): (Running, Terminal) = scene.env.start_on_terminal("edit");
    assert_eq!(running.wait().code(), Some(0), "{}", terminal.shown());
    wait_until("it is said", || terminal.shown().contains("1 task changed"));
    let text = fs::read_to_string(seen).unwrap();
    let first = text.lines().next().unwrap();
    let line: usize = first
        .split_once("line ")
        .and_then(|(_, rest)| rest.split_once(',')?.0.parse().ok())
        .unwrap_or_else(|| panic!("{text}"));
    has(first, "there is no task `9`");
    assert_eq!(text.lines().nth(line - 1), Some("- after: 9"));
}

#[test]
fn wrong_words_are_refused() {
    let (scene, _daemon) = chain(0);
    let cases = [
        ("tell one x", 2, "`one` must be the number of a task"),
        ("tell 9 x", 2, "there is no task `9`"),
        ("tell 3 x --now", 1, "no agent works on task `3` now"),
        ("retry 9", 2, "there is no task `9`"),
        ("done 9", 2, "there is no task `9`"),
        ("skip 0x 1", 2, "no plan has an id that begins with `0x`"),
        ("edit 9", 2, "has no task `9`"),
    ];
    for (words, code, said) in cases {
        scene.refuses(
            code,
            words,
            [said, if words == "tell one x" { "" } else { "Hint" }],
        );
    }
    let plan = plan_id(&scene);
    has(
        scene.works(["tell", &plan[..4], "3", "x"]),
        "task 3: your words go along",
    );
    has(
        scene.works(["retry", &plan[..4], "3"]),
        "task 3 has not been tried yet: it waits for task 2",
    );
    scene.works(["skip", "3"]);
    has(
        scene.works(["retry", "3"]),
        "task 3 is not left out any more",
    );
}

/// A signal ends the editor, and what was written is kept, also that of an earlier round.
#[test]
fn signal_keeps_text_of_edit() {
    let (mut scene, _daemon) = chain(0);
    let script =
        "if head -1 \"$1\" | grep -q '^#!'; then echo $$ > editor; while :; do sleep 0.02; done; fi
        sed -i 's/- after: 2/- after: 9/' \"$1\"";
    editor(&mut scene, script);
    let (mut running, terminal) = scene.env.start_on_terminal("edit");
    let pid = || fs::read_to_string(scene.env.path("editor")).unwrap_or_default();
    wait_until("the editor works again", || pid().ends_with('\n'));
    kill_process(Pid::from_child(&running.child), Signal::TERM).unwrap();
    assert_eq!(running.wait().code(), Some(143));
    assert!(!lives(pid().trim()), "the editor is left on the terminal");
    wait_until("it is said", || {
        terminal.shown().contains("is in `") && terminal.shown().ends_with("`\n")
    });
    has(kept(&terminal.shown()), "- after: 9");
}
