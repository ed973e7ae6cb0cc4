//! The evidence that is required before a result is accepted, and how it is reported.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use crate::common::git::git;

/// A plan of one task that produces files.
fn producing(files: &str) -> String {
    ONE.replace(
        "Make `one.txt`.",
        &format!("- produces: {files}\n\nMake them."),
    )
}

#[test]
fn retry_names_missing_produced_file() {
    let scene = Scene::by_rules("");
    scene.write("one.md", &producing("one.txt, src/two.txt"));
    let workspace = scene.env.path("volumes/workspace");
    let agent = scene.agent(move |command| {
        fs::create_dir_all(workspace.join("src")).unwrap();
        match command.attempt() {
            1 => fs::write(workspace.join("one.txt"), "one\n").unwrap(),
            2 => fs::write(workspace.join("src/two.txt"), "").unwrap(),
            _ => fs::write(workspace.join("src/two.txt"), "two\n").unwrap(),
        }
        Act::success("both are there")
    });
    scene.works("run --plan one.md");
    assert_eq!(agent.attempts(), [(1, 1), (1, 2), (1, 3)]);
    let first = agent.command(1, 1);
    has(first.body(), "- `one.txt`\n- `src/two.txt`\n");
    for (attempt, told) in [
        (2, "The check `file src/two.txt` failed (missing)."),
        (3, "The check `file src/two.txt` failed (empty)."),
    ] {
        let body = agent.command(1, attempt).body().to_owned();
        has(&body, told);
        lacks(&body, "`file one.txt`");
    }
    assert_eq!(scene.status()["tasks"][0]["proven"], false);
    has(scene.works("why 1"), "file src/two.txt: 4 bytes");
}

#[test]
fn plan_rejects_produced_file_outside_workspace() {
    let scene = Scene::by_rules("");
    fs::create_dir_all(scene.env.path("volumes/workspace")).unwrap();
    symlink("..", scene.env.path("volumes/workspace/up")).unwrap();
    for (files, told) in [
        (
            "a.txt, ../b.txt",
            "one.md:8:20: `../b.txt` leads out of the workspace",
        ),
        (
            "up/b.txt",
            "one.md:8:13: `up/b.txt` leads out of the workspace through a link",
        ),
    ] {
        scene.write("one.md", &producing(files));
        scene.refuses(2, "run --plan one.md", told);
    }
    // Nothing was begun.
    assert!(!scene.env.path("volumes/plan-agent.db").exists());
}

/// Returns the recorded changes of the last attempt: how they were found, and what changed.
fn changes(scene: &Scene) -> (String, Vec<String>) {
    let shown: Value = scene.json("show --format json");
    let rows = shown["rows"].as_array().unwrap();
    let attempt = rows.iter().filter_map(|row| row.get("attempt")).next_back();
    let changes = &attempt.unwrap()["changes"];
    let files = changes["files"].as_array().unwrap().iter();
    (
        changes["seen"].as_str().unwrap().to_owned(),
        files
            .map(|file| file.as_str().unwrap().to_owned())
            .collect(),
    )
}

#[test]
fn judge_prompt_lists_changed_files() {
    let server = planning(&[("First", &[]), ("Second", &[1])]);
    let scene = Scene::with_model(&server, Shape::Chat, "");
    let workspace = scene.env.path("volumes/workspace");
    let _agent = scene.agent(move |command| {
        if command.task() == 1 {
            fs::create_dir_all(workspace.join("src")).unwrap();
            fs::write(workspace.join("src/one.txt"), "one").unwrap();
        }
        Act::success("it is there")
    });
    scene.works("run 'Do it'");
    let asked = server.asked();
    let judged: Vec<_> = asked.iter().filter(|asked| asked.kind == "judge").collect();
    for (asked, told) in judged
        .iter()
        .zip(["F1. changed: src/one.txt\n", "F1. no file changed\n"])
    {
        has(asked.prompt(), told);
    }
    assert_eq!(judged.len(), 2);
    has(scene.works("why 1"), "     changed: src/one.txt\n");
    let audited = asked.iter().find(|asked| asked.kind == "audit").unwrap();
    has(audited.prompt(), "changed: src/one.txt");
}

#[test]
fn changes_are_found_in_large_folder() {
    let scene = Scene::by_rules("");
    for number in 0..200 {
        scene.write(&format!("volumes/workspace/many/{number}"), "x");
    }
    let workspace = scene.env.path("volumes/workspace");
    let _agent = scene.agent(move |_| {
        fs::write(workspace.join("many/7"), "changed").unwrap();
        fs::remove_file(workspace.join("many/8")).unwrap();
        Act::success("done")
    });
    scene.works("run --plan one.md");
    let (seen, files) = changes(&scene);
    assert_eq!(seen, "listing");
    assert_eq!(files, ["many/7", "many/8 (removed)"]);
}

/// Makes a folder a repository with a commit; false if there is no git.
fn committed(folder: &Path) -> bool {
    let there = std::process::Command::new("git")
        .arg("--version")
        .output()
        .is_ok();
    if there {
        git(folder, "init --quiet");
        git(folder, "add .");
        git(folder, "commit --quiet -m first");
    } else {
        skip("git is not installed");
    }
    there
}

/// The state of git when the command was dispatched is still known to the next daemon, and the repository stays as it was.
#[test]
fn git_finds_changes_after_kill() {
    let scene = Scene::by_rules("");
    let workspace = scene.env.path("volumes/workspace");
    for (name, text) in [
        (".gitignore", "build\n"),
        ("kept", "1"),
        ("gone", "2"),
        ("src/a", "3"),
    ] {
        scene.write(&format!("volumes/workspace/{name}"), text);
    }
    if !committed(&workspace) {
        return;
    }
    scene.write("volumes/workspace/src/b", "by the person");
    let index = fs::read(workspace.join(".git/index")).unwrap();
    let mut first = scene.start("run --plan one.md");
    let command = scene.take_any();
    fs::remove_file(workspace.join("gone")).unwrap();
    scene.write("volumes/workspace/src/a", "changed");
    scene.write("volumes/workspace/build/out", "ignored");
    first.running.child.kill().unwrap();
    first.running.wait();
    let agent = scene.agent(|_| Act::success(""));
    let resumed = scene.start("resume");
    scene.write("volumes/workspace/new", "x");
    scene.submit(
        &command.id,
        &crate::common::agent::report("SUCCESS", "done"),
    );
    let ended = { resumed }.running.wait();
    assert!(ended.success(), "{ended:?}");
    drop(agent);
    let (seen, files) = changes(&scene);
    assert_eq!(seen, "git");
    assert_eq!(files, ["gone (removed)", "new", "src/a"]);
    assert_eq!(fs::read(workspace.join(".git/index")).unwrap(), index);
    assert_eq!(scene.names("trees"), [""; 0], "nothing stays behind");
}

#[test]
fn broken_repository_is_not_reported_as_unchanged() {
    let scene = Scene::by_rules("");
    let workspace = scene.env.path("volumes/workspace");
    scene.write("volumes/workspace/gone", "1");
    if !committed(&workspace) {
        return;
    }
    let _agent = scene.agent(move |_| {
        fs::remove_file(workspace.join("gone")).unwrap();
        fs::remove_file(workspace.join(".git/HEAD")).unwrap();
        Act::success("done")
    });
    scene.works("run --plan one.md");
    let (seen, files) = changes(&scene);
    assert_eq!((seen.as_str(), files.len()), ("times", 0));
    let why = scene.works("why 1");
    has(&why, "removed ones are not seen");
    lacks(&why, "no file changed");
}

#[test]
fn evidence_names_concurrent_task() {
    let scene = Scene::by_rules("run.max_parallel = 2");
    let run = scene.start("run --plan two.md");
    let left = scene.take_task(1);
    let right = scene.take_task(2);
    for command in [left, right] {
        let report = crate::common::agent::report("SUCCESS", "done");
        scene.submit(&command.id, &report);
    }
    let ended = { run }.running.wait();
    assert!(ended.success(), "{ended:?}");
    for (task, other) in [("1", 2), ("2", 1)] {
        let why = scene.works(["why", task]);
        let told = format!("task {other} was at work in the same folder");
        has(&why, &told);
    }
}

/// The model is asked only in case of doubt: not about SUCCESS with checks that pass.
#[test]
fn clear_success_needs_no_judge_call() {
    let server = LlmServer::start(|asked| match asked.kind.as_str() {
        "plan" => {
            let mut plan = vec![
                a_task("Checked", &[]),
                a_task("Half", &[1]),
                a_task("Unproven", &[2]),
            ];
            plan[0]["checks"] = json!(["fine"]);
            plan[1]["checks"] = json!(["fine"]);
            Answer::Json(json!({"name": "Scripted", "description": "A plan.", "tasks": plan}))
        }
        _ => all_well(asked),
    });
    let config = "llm.judge = 'on_doubt'\n\
        checks.fine = { run = ['grep', '-q', 'done', 'made.txt'], plain = true }";
    let scene = Scene::with_model(&server, Shape::Messages, config);
    scene.write("volumes/workspace/made.txt", "begun\n");
    if !committed(&scene.env.path("volumes/workspace")) {
        return;
    }
    let _agent = scene.agent(|command| match command.task() {
        1 => {
            let folder = Path::new(command.field("workspace").unwrap());
            fs::write(folder.join("made.txt"), "done\n").unwrap();
            Act::success("done")
        }
        2 => Act::Report(crate::common::agent::report("PARTIAL_SUCCESS", "half")),
        _ => Act::success("done"),
    });
    scene.works("run 'Do it'");
    let asked = server.asked();
    let judges = asked.iter().filter(|asked| asked.kind == "judge");
    assert_eq!(judges.map(judged).collect::<Vec<_>>(), [(2, 1), (3, 1)]);
    let why = scene.works("why 1");
    let told = "next by rules: SUCCESS, every check passes: no doubt to ask the model about";
    has(&why, told);
}

/// The checks do not get an agent's key, because they run code that the agent wrote.
#[test]
fn check_gets_only_listed_variables() {
    let config = "worker.env = ['PATH', 'AGENT_KEY']\nrun.checks = ['show']\n\
        [checks.show]\nrun = ['sh', '-c', 'env > seen.txt']\nenv = ['CARGO_HOME']";
    let mut scene = Scene::by_rules(config);
    scene.env.set("AGENT_KEY", "canary");
    scene.env.set("CARGO_HOME", "/cargo");
    let ran = scene.run("run --plan one.md --agent command -- echo done");
    assert_eq!(
        ran.code,
        Some(4),
        "a report is made of what it says: {ran:?}"
    );
    let seen = scene.read("volumes/workspace/seen.txt");
    has(&seen, "CARGO_HOME=/cargo\n");
    lacks(&seen, "canary");
}

#[test]
fn run_rejects_unusable_workspace() {
    let scene = Scene::by_rules("");
    scene.write("file", "");
    for (named, told) in [
        (
            "nowhere",
            "[FOLDER]/nowhere` does not exist\nHint: make the folder",
        ),
        (
            "file",
            "[FOLDER]/file` is no folder\nHint: put a folder there, or name another one",
        ),
    ] {
        let ran = scene.exits(2, ["run", "--plan", "one.md", "--workspace", named]);
        has(ran.seen(&scene.env), told);
        scene.write(
            "config.toml",
            &format!("llm.provider = 'none'\nrun.workspace = '{named}'"),
        );
        let ran = scene.exits(2, "run --plan one.md");
        has(ran.seen(&scene.env), told);
        scene.write("config.toml", "llm.provider = 'none'");
    }
    assert!(!scene.env.path("volumes").exists(), "nothing half-made");
    fs::create_dir(scene.env.path("nowhere")).unwrap();
    let run = scene.start("run --plan one.md --workspace nowhere");
    scene.await_any();
    drop(run);
    fs::remove_dir_all(scene.env.path("nowhere")).unwrap();
    scene.refuses(2, "resume", "nowhere` does not exist");
    scene.works(["abort", scene.status()["plan"]["id"].as_str().unwrap()]);
}

#[test]
fn run_rejects_read_only_workspace() {
    use std::os::unix::fs::PermissionsExt;
    if rustix::process::geteuid().is_root() {
        skip("root may write everywhere");
        return;
    }
    let scene = Scene::by_rules("");
    fs::create_dir(scene.env.path("locked")).unwrap();
    fs::set_permissions(scene.env.path("locked"), fs::Permissions::from_mode(0o555)).unwrap();
    let part = "cannot be written to";
    scene.refuses(2, "run --plan one.md --workspace locked", part);
}
