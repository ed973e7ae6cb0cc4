//! What a new user stumbled over: each test shows one of these as it is to be.

use super::*;
use crate::common::git::Project;

/// Tools that walk through a project follow its links, and some fail at one that leads nowhere.
#[test]
fn shared_project_has_no_link_that_leads_nowhere() {
    let scene = Scene::by_rules("run.workspace = 'project'\nrun.isolation = 'shared'\n");
    if Project::new(&scene.env).is_none() {
        return;
    }
    let within = scene.path("").display().to_string();
    let find = format!("! find -L '{within}' -type l | grep .");
    scene.write(
        "config.toml",
        &format!(
            "{}run.checks = ['links']\nchecks.links = {{ run = ['sh', '-c', \"{find}\"], plain = true }}\n",
            scene.read("config.toml")
        ),
    );
    let _agent = scene.agent(|_| Act::success("done"));
    scene.exits(0, "run --plan one.md --no-input");
    has(scene.works("why 1"), "check links: exit 0");
}

#[test]
fn words_that_came_during_work_get_an_attempt() {
    let scene = Scene::by_rules("run.max_attempts = 1\n");
    let run = scene.start("run --plan one.md");
    let command = scene.take_any();
    scene.works(["tell", "1", "use port 2"]);
    scene.succeed(&command, "done");
    let command = scene.take_any();
    has(
        command.body(),
        "What you have done stays. A person has said more:",
    );
    has(command.body(), "A person says: use port 2");
    scene.succeed(&command, "done");
    run.end().has_stdout("~ 1 accepted");
    has(
        scene.works("why 1"),
        "a person said more while its agent worked; else it would be accepted",
    );
    // What is said afterwards waits for a retry.
    let waits = "task 1 has ended: `retry` gives your words to its agent";
    has(scene.works(["tell", "1", "use port 3"]), waits);
    has(
        scene.works("why 1"),
        "its agent gets this when it is tried again",
    );
    scene.works("retry 1 --yes");
    let run = scene.start("resume");
    let command = scene.take_any();
    has(command.body(), "A person says: use port 3");
    scene.succeed(&command, "done");
    run.end();
}

#[test]
fn words_that_no_command_took_along_are_said() {
    let scene = Scene::by_rules("");
    let run = scene.start("run --plan one.md");
    scene.take_any();
    scene.works(["tell", "1", "use port 2"]);
    scene.works("done 1");
    let ran = run.end();
    ran.has_stdout("! task 1 ended before its agent got this: A person says: use port 2");
    has(
        scene.works("why 1"),
        "its agent gets this when it is tried again: A person says: use port 2",
    );
}

#[test]
fn outcomes_count_how_a_task_ended_at_last() {
    let scene = Scene::by_rules("run.max_attempts = 1\n");
    let _agent = scene.agent(|command| match command.attempt() {
        1 => Act::failed("it is broken"),
        _ => Act::success("done"),
    });
    scene.exits(4, "run --no-input --plan one.md");
    scene.works("skip 1");
    has(scene.works("outcomes"), "1 task of 1 plan: ");
    scene.works("done 1");
    let counted: Value = scene.json("outcomes --json");
    assert_eq!(picked(&counted, "accepted skipped"), json!([1, 0]));
    scene.run("resume --no-input");
    scene.works("retry 1 --yes");
    scene.exits(0, "resume --no-input");
    let counted: Value = scene.json("outcomes --json");
    let counted = picked(&counted, "accepted skipped failed retried");
    assert_eq!(counted, json!([1, 0, 0, 1]));
}

#[test]
fn outcomes_give_no_agent_what_a_person_did() {
    let scene = Scene::by_rules("run.max_attempts = 1\n");
    let _agent = scene.agent(|command| match command.task() {
        1 => Act::failed("it is broken"),
        _ => Act::success("done"),
    });
    scene.exits(4, "run --no-input --plan two.md");
    scene.works("done 1");
    scene.exits(0, "resume --no-input");
    let counted: Value = scene.json("outcomes --json");
    assert_eq!(counted["accepted"], 2);
    let agents: Vec<_> = counted["agents"].as_object().unwrap().values().collect();
    assert_eq!(agents.len(), 1, "{counted}");
    assert_eq!(picked(agents[0], "tasks attempts"), json!([1, 1]));
}

#[test]
fn questions_are_listed_with_their_tasks() {
    let scene = Scene::by_rules("run.max_attempts = 1\nrun.max_parallel = 2\n");
    scene.write(
        "pair.md",
        "## One\n\ndo it\n\n## Two\n\ndo it\n- after: none\n",
    );
    let _agent = scene.agent(|_| Act::failed("it is broken"));
    scene.exits(4, "run --no-input --plan pair.md");
    scene.refuses(
        2,
        "answer retry",
        ["more than one question is open", "task 1: ", "task 2: "],
    );
    let question = scene.status()["questions"][0].clone();
    let id = question["id"].as_str().unwrap();
    scene.works(["answer", id, "skip", "--note", "not now"]);
    let why = scene.works(format!("why {}", question["task"]));
    has(why, ["asked: it is broken", "answered: skip not now"]);
}

#[test]
fn word_that_is_nearly_a_proof_is_refused() {
    let scene = Scene::by_rules("");
    for (criterion, said) in [
        ("(chek: test)", "did you mean `(check: …)`?"),
        ("(contans: x)", "a proof is `(file: PATH, contains: …)`"),
    ] {
        let plan = format!("## One\n\n- expected: it works {criterion}\n");
        scene.write("slip.md", &plan);
        scene.refuses(2, "run --plan slip.md", said);
    }
}
