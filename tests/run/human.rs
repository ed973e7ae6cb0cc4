//! Questions to a person: asked when the plan is stuck, and answered from any place.

use super::*;
use crate::common::env::{Terminal, lives};

/// A shared library that determines chance: it returns nearly always the same bytes.
const CHANCE: &str = r#"
#define _GNU_SOURCE
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t getrandom(void *bytes, size_t length, unsigned flags) {
    static unsigned asked;
    if (__atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED) % 16 == 0) return syscall(SYS_getrandom, bytes, length, flags);
    memset(bytes, 7, length);
    return length;
}
"#;

/// Fails the first three attempts of the first task, and succeeds otherwise.
fn stubborn(command: &Command) -> Act {
    match (command.task(), command.attempt()) {
        (1, 1..=3) => Act::failed("the port is taken"),
        _ => Act::success("done"),
    }
}

#[test]
fn three_failures_ask_human_and_other_tasks_continue() {
    let scene = Scene::by_rules("");
    let agent = scene.agent(stubborn);
    let _daemon = scene.leave("run --plan two.md");
    let (id, text) = scene.await_questions(1).remove(0);
    has(&text, ["3 times in a row", "FAILED"]);
    wait_until("the other task is done", || {
        scene.tasks() == ["in_progress", "completed"]
    });
    let mission = scene.env.path("volumes/workspace/MISSION.md");
    wait_until("the question stands in MISSION.md", || {
        fs::read_to_string(&mission).unwrap().contains(&id)
    });

    scene.works(["answer", &id, "retry", "--note", "use port 8081"]);
    scene.await_status("completed");
    assert_eq!(agent.attempts(), [(1, 1), (1, 2), (1, 3), (2, 1), (1, 4)]);
    let told = agent.command(1, 4);
    has(told.body(), "use port 8081");
    scene.await_end();
    assert_eq!(scene.questions(), []);
    scene.await_name("questions/answered", &format!("question-{id}.md"));
}

#[test]
fn first_answer_wins_and_second_is_refused() {
    let scene = Scene::by_rules("");
    let agent = scene.agent(stubborn);
    let _daemon = scene.leave("run --plan one.md");
    let (id, _) = scene.await_questions(1).remove(0);
    scene.fill_in(&id, "retry", "see: port 8081");
    scene.await_status("completed");
    has(agent.command(1, 4).body(), "see: port 8081");
    let answered = scene.events_named("answered");
    assert_eq!((answered.len(), &answered[0]["by"]), (1, &json!("file")));

    scene.refuses(1, ["answer", &id, "abort"], "retry");
    assert_eq!(scene.status()["plan"]["status"], "completed");
}

#[test]
fn question_is_meant_by_the_number_of_its_task() {
    const TASKS: usize = 12;
    let scene = Scene::by_rules("run.max_parallel = 12\nrun.max_attempts = 1\n");
    scene.write("many.md", &many(TASKS));
    let _agent = scene.agent(|_| Act::failed("no"));
    scene.exits(4, "run --plan many.md --no-input");
    for task in 1..=TASKS {
        let said = scene.works(["answer", &task.to_string(), "skip"]);
        has(said, format!("task {task}: skip"));
        assert_eq!(scene.tasks()[task - 1], "skipped");
    }
    let none = "no question about task 1 is open";
    scene.refuses(2, "answer 1 skip", none);
}

#[test]
fn late_file_answer_gets_notice() {
    let scene = Scene::by_rules("");
    // After the answer the command waits, so that the daemon does too.
    let _agent = scene.agent(|command| match command.attempt() {
        1..=3 => Act::failed("the port is taken"),
        _ => Act::Leave,
    });
    let _daemon = scene.leave("run --plan one.md");
    let (id, text) = scene.await_questions(1).remove(0);
    scene.works(["answer", &id, "retry"]);
    let (question, complaint) = (
        format!("question-{id}.md"),
        format!("question-{id}.problem.md"),
    );
    scene.await_name("questions/answered", &question);

    // An editor had it open, and saves whole files.
    let late = text.lines().map(|line| match line.starts_with("answer:") {
        true => "answer: abort\n".to_owned(),
        false => format!("{line}\n"),
    });
    let saved = scene.path("late.md");
    fs::write(&saved, late.collect::<String>()).unwrap();
    let pending = scene.path("questions/pending");
    fs::rename(saved, pending.join(&question)).unwrap();
    scene.await_name("questions/answered", &complaint);
    let told = fs::read_to_string(scene.path("questions/answered").join(&complaint));
    let told = told.unwrap();
    let part = "answered already: retry (by command line); `abort` in its file";
    has(&told, part);
    wait_until("both files are put away", || {
        scene.names("questions/pending").is_empty()
    });
    assert_eq!(scene.status()["plan"]["status"], "running");
}

#[test]
fn answer_in_a_file_waits_for_its_plan() {
    let scene = Scene::by_rules("");
    let agent = scene.agent(stubborn);
    scene.exits(4, "run --plan one.md --no-input");
    let (id, _) = scene.await_questions(1).remove(0);
    scene.fill_in(&id, "skip", "by file");
    let plan = plan_id(&scene);
    drop(agent);
    // Another plan is carried out from beginning to end in the folder.
    let _other = scene.agent(|_| Act::success("done"));
    scene.works("run --plan two.md --no-input --name other");
    let file = format!("question-{id}.md");
    assert_eq!(
        scene.names("questions/pending"),
        std::slice::from_ref(&file)
    );
    scene.works(["resume", &plan, "--no-input"]);
    let detail: Value = scene.json(["status", &plan, "--json"]);
    assert_eq!(detail["tasks"][0]["result"], "by file");
    scene.await_name("questions/answered", &file);
}

#[test]
fn invalid_answer_gets_problem_file() {
    let scene = Scene::by_rules("");
    let _agent = scene.agent(stubborn);
    let _daemon = scene.leave("run --plan one.md");
    let (id, _) = scene.await_questions(1).remove(0);
    let complaint = format!("question-{id}.problem.md");
    // `accept` is not offered: the report says FAILED. `perhaps` is no answer at all.
    for wrong in ["perhaps", "accept"] {
        scene.fill_in(&id, wrong, "");
        let path = scene.path("questions/pending").join(&complaint);
        wait_until("the complaint is there", || {
            fs::read_to_string(&path)
                .is_ok_and(|text| text.contains(wrong) && text.contains("retry"))
        });
        let text = fs::read_to_string(
            scene
                .path("questions/pending")
                .join(format!("question-{id}.md")),
        );
        // The person's file is left alone.
        assert!(text.unwrap().contains(&format!("answer: {wrong}")));
    }
    assert!(scene.events_named("answered").is_empty());
    scene.fill_in(&id, "skip", "not needed");
    scene.await_status("completed");
    assert_eq!(scene.status()["tasks"][0]["result"], "not needed");
    scene.await_name("questions/answered", &complaint);
}

#[test]
fn no_input_run_exits_4_and_resumes_after_answer() {
    let scene = Scene::by_rules("");
    let agent = scene.agent(stubborn);
    let ran = scene.exits(4, "run --plan two.md --no-input");
    // What can go on goes on first.
    assert_eq!(scene.tasks(), ["in_progress", "completed"]);
    let question = scene.status()["questions"][0].clone();
    let id = question["id"].as_str().unwrap();
    ran.has_stdout(format!("plan-agent answer {id}"));

    scene.exits(4, "resume --no-input");
    assert_eq!(agent.attempts().len(), 4, "nothing is repeated");

    for (word, why) in [
        ("perhaps", "write one of retry, "),
        ("ab", "write the whole word"),
        ("", "no answer"),
    ] {
        scene.refuses(2, ["answer", word], why);
    }
    has(scene.works("answer ?"), "    retry ");
    has(scene.works("answer ret"), "plan-agent resume");
    scene.exits(0, "resume --no-input");
    assert_eq!(agent.attempts().last(), Some(&(1, 4)));
}

#[test]
fn human_can_skip_task_or_abort_plan() {
    for (choice, code, tasks) in [
        ("skip", 0, ["skipped", "completed", "completed"]),
        ("abort", 3, ["pending", "pending", "pending"]),
    ] {
        let scene = Scene::by_rules("");
        let _agent = scene.agent(stubborn);
        assert_eq!(scene.run("run --plan chain.md").code, Some(4));
        scene.works(["answer", choice, "--note", "because"]);
        assert_eq!(scene.tasks()[0], tasks[0], "at once");
        let ran = scene.run("resume");
        if choice == "skip" {
            assert_eq!(ran.code, Some(code), "{ran:?}");
        }
        assert_eq!(scene.tasks(), tasks, "{choice}");
    }
}

#[test]
fn human_can_request_replan() {
    let server = LlmServer::start(|asked| match asked.kind.as_str() {
        "plan" => planned(&[("First", &[]), ("Second", &[1])]),
        "judge" if judged(asked).0 == 1 => verdict("retry", "The port is taken; take another one."),
        "replan" => {
            has(asked.prompt(), "take a socket instead");
            Answer::Json(json!({"reason": "A socket.", "edits": [
                {"action": "add", "task": null, "reason": "", "name": "A socket", "description": "Take a socket.",
                 "constraints": null, "expected_output": "It listens.", "depends_on": []},
                {"action": "skip", "task": 1, "reason": "a socket is better", "name": null, "description": null,
                 "constraints": null, "expected_output": null, "depends_on": null},
            ]}))
        }
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "");
    let agent = scene.agent(stubborn);
    assert_eq!(scene.run("run Listen").code, Some(4));
    scene.works("answer replan --note 'take a socket instead'");
    scene.works("resume");
    assert_eq!(scene.tasks(), ["skipped", "completed", "completed"]);
    assert_eq!(agent.attempts()[..3], [(1, 1), (1, 2), (1, 3)]);
}

#[test]
fn agent_can_ask_human() {
    let scene = Scene::by_rules("run.max_attempts = 1");
    let agent = scene.agent(|command| match command.attempt() {
        1 => Act::Report(
            "---\nstatus: FAILED\nsession_id: s-1\nquestion: Which port shall it be?\n---\n## Core results\n\nNothing yet.\n"
                .to_owned(),
        ),
        _ => Act::success("it listens"),
    });
    scene.exits(4, "run --plan one.md");
    let question = scene.status()["questions"][0].clone();
    assert_eq!(question["reason"], "Which port shall it be?");
    let expected = json!(["reply", "retry", "skip", "abort"]);
    assert_eq!(question["choices"], expected);

    scene.refuses(2, "answer reply", "--note");
    scene.works("answer reply --note 8081");
    scene.exits(0, "resume");
    let told = agent.command(1, 2);
    assert_eq!((told.kind(), told.session()), ("continue", "s-1"));
    has(told.body(), "8081");
}

/// An agent without sessions begins each attempt anew: it gets every word of the person, whole, with what was asked.
#[test]
fn agent_without_sessions_gets_every_answer() {
    let scene = Scene::by_rules("");
    let long = "word ".repeat(2_000);
    let agent = scene.agent(|command| match command.attempt() {
        1 => Act::Report("---\nstatus: FAILED\nrefused:\n- rm -r build\n---\n\nNothing yet.\n".to_owned()),
        attempt @ 2..=6 => Act::Report(format!(
            "---\nstatus: FAILED\nquestion: What is {attempt}?\n---\n## Core results\n\nNothing yet.\n"
        )),
        _ => Act::success("done"),
    });
    scene.exits(4, "run --no-input --plan one.md");
    for attempt in 1..=6 {
        let note = format!("answer {attempt}");
        let choice = if attempt == 1 { "deny" } else { "reply" };
        scene.works(["answer", choice, "--note", &note]);
        if attempt == 6 {
            scene.works(["tell", "1", &format!("{long}and the end")]);
        }
        scene.run("resume --no-input");
    }
    let told = agent.command(1, 7);
    has(told.body(), "A person says: answer 1\n");
    for attempt in 2..=6 {
        let answer = format!("A person says: answer {attempt} (to: What is {attempt}?)");
        has(told.body(), answer);
    }
    has(told.body(), [long.trim(), "and the end"]);
    lacks(told.body(), "left out");
    assert_eq!(scene.tasks()[0], "completed");
}

/// Makes an editor visible that does this with the file `$1`, and starts a plan that waits to be approved and is edited with
/// it.
fn edits(scene: &mut Scene, script: &str) -> (Running, Terminal) {
    scene.env.show_script("my-editor", script);
    scene.env.set("EDITOR", "my-editor");
    let (running, mut terminal) = scene.env.start_on_terminal("run --plan one.md --review");
    terminal.answer("· ? > ", "edit");
    (running, terminal)
}

#[test]
fn plan_can_be_edited_before_approval() {
    let mut scene = Scene::by_rules("");
    let (mut running, mut terminal) = edits(
        &mut scene,
        "sed -i 's/^## 1. .*/## 1. Another/' \"$1\"; touch edited",
    );
    wait_until("it is edited", || {
        scene.env.path("edited").exists() && terminal.shown().contains("· Another")
    });
    let _agent = scene.agent(|_| Act::success("done"));
    terminal.await_below("  1 · Another\n", "? > ");
    terminal.type_keys("y");
    assert_eq!(running.wait().code(), Some(0), "{}", terminal.shown());
    let status = scene.status();
    assert_eq!(
        picked(&status["tasks"][0], "id name"),
        json!([1, "Another"])
    );
}

#[test]
fn signal_or_plan_end_closes_editor() {
    for (by_signal, code) in [(true, 143), (false, 3)] {
        let mut scene = Scene::by_rules("");
        let script = "echo precious >> \"$1\"; echo $$ > editor; while :; do sleep 0.02; done";
        let (mut running, terminal) = edits(&mut scene, script);
        let pid = || fs::read_to_string(scene.env.path("editor")).unwrap_or_default();
        wait_until("the editor works", || pid().ends_with('\n'));
        let editor = pid().trim().to_owned();
        match by_signal {
            true => kill_process(Pid::from_child(&running.child), Signal::TERM).unwrap(),
            false => {
                let plan = plan_id(&scene);
                scene.works(["abort", &plan]);
            }
        }
        assert_eq!(running.wait().code(), Some(code), "{}", terminal.shown());
        assert!(!lives(&editor), "the editor is left on the terminal");
        let said = "what you had written is in `";
        // What was printed last is still on its way through the terminal.
        wait_until("it says where the text is", || {
            terminal
                .shown()
                .split_once(said)
                .is_some_and(|(_, rest)| rest.contains('`'))
        });
        let shown = terminal.shown();
        let kept = shown.split_once(said).map(|(_, rest)| rest);
        let kept = kept
            .and_then(|rest| rest.split('`').next())
            .unwrap_or_else(|| panic!("{shown}"));
        let text = fs::read_to_string(kept).unwrap();
        assert!(text.ends_with("precious\n"), "{text}");
        fs::remove_file(kept).unwrap();
        let expected = if by_signal { "running" } else { "aborted" };
        assert_eq!(scene.status()["plan"]["status"], expected);
    }
}

/// Nearly every drawn id equals the previous one.
#[test]
fn question_ids_are_unique() {
    const DRAWN: &str = "q070707";
    for earlier in ["questions/pending", "questions/answered"] {
        let mut scene = Scene::by_rules("run.max_attempts = 1\nrun.max_parallel = 9");
        if let Err(why) = scene.env.preload("chance", CHANCE) {
            return skip(&why);
        }
        scene.write("many.md", &many(4));
        // The file belongs to a plan that is no longer in the store.
        let name = format!("question-{DRAWN}.md");
        scene.write(&format!("volumes/{earlier}/{name}"), "Of long ago.\n");
        let _agent = scene.agent(|command| match command.attempt() {
            1 => Act::failed("not today"),
            _ => Act::success("done"),
        });
        let _daemon = scene.leave("run --plan many.md");
        let asked = scene.await_events("asked", 4);
        let mut ids: Vec<&str> = asked
            .iter()
            .map(|event| event["question"].as_str().unwrap())
            .collect();
        assert!(!ids.contains(&DRAWN), "{ids:?}");
        let short = |id: &&str| id.len() <= DRAWN.len();
        assert!(ids.iter().all(short), "to be typed: {ids:?}");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 4, "{asked:?}");
        for id in ids {
            scene.works(["answer", id, "retry"]);
        }
        scene.await_status("completed");
        let kept = scene.read(&format!("volumes/questions/answered/{name}"));
        assert_eq!(kept, "Of long ago.\n");
    }
}
