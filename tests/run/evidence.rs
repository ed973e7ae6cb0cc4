//! What has to be there before a result is accepted, and what is told of it.

use std::os::unix::fs::symlink;

use super::*;

/// A plan of one task that produces files.
fn producing(files: &str) -> String {
    ONE.replace(
        "Make `one.txt`.",
        &format!("- produces: {files}\n\nMake them."),
    )
}

#[test]
fn a_file_that_is_not_there_is_told_to_the_retry() {
    let scene = Scene::by_rules("");
    scene
        .env
        .write("one.md", &producing("one.txt, src/two.txt"));
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
    let ran = scene.run(&["run", "--plan", "one.md"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(agent.attempts(), [(1, 1), (1, 2), (1, 3)]);
    let first = agent.command(1, 1);
    assert!(
        first.body().contains("- `one.txt`\n- `src/two.txt`\n"),
        "{}",
        first.body()
    );
    for (attempt, told) in [
        (2, "The check `file src/two.txt` failed (missing)."),
        (3, "The check `file src/two.txt` failed (empty)."),
    ] {
        let body = agent.command(1, attempt).body().to_owned();
        assert!(body.contains(told), "{body}");
        assert!(!body.contains("`file one.txt`"), "{body}");
    }
    assert_eq!(scene.status()["tasks"][0]["verified"], true);
    let why = scene.works(&["why", "1"]);
    assert!(why.contains("file src/two.txt: 4 bytes"), "{why}");
}

#[test]
fn a_file_that_leads_out_of_the_workspace_is_refused_when_the_plan_is_made() {
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
        scene.env.write("one.md", &producing(files));
        let ran = scene.run(&["run", "--plan", "one.md"]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
    }
    assert!(
        !scene.env.path("volumes/plan-agent.db").exists(),
        "nothing was begun"
    );
}
