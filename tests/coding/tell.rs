//! A person's words reach an agent at work at once, where it can be cut off.

use super::*;

#[test]
fn agent_goes_on_in_its_session_with_words() {
    let scene = Scene::with(
        "say; if [ $run = 1 ]; then while :; do sleep 0.02; done; fi
        report SUCCESS done; result done",
    );
    let mut running = scene
        .env
        .start("run --plan plan.md --agent claude --no-input");
    wait_until("the agent works", || {
        let log = || scene.env.run("log --json").stdout;
        scene.runs() > 0 && log().contains(r#""event":"claimed""#)
    });
    let mut said = String::new();
    wait_until("its session is known", || {
        let told = scene.env.run("tell 1 --now 'use port 8081'");
        said = told.stdout;
        told.code == Some(0)
    });
    has(
        said,
        "its agent is stopped, and goes on in its session with your words",
    );
    assert_eq!(running.wait().code(), Some(0));
    let (begin, first) = scene.session(1);
    let (resume, second) = scene.session(2);
    assert_eq!(
        (begin.as_str(), resume.as_str()),
        ("--session-id", "--resume")
    );
    assert_eq!(first, second);
    has(scene.note(2, "prompt"), "A person says: use port 8081");
}

#[test]
fn agent_without_session_is_not_cut_off() {
    let scene = Scene::with("");
    scene.env.write(
        "wait.md",
        "## Wait\n\n```sh\ntouch begun; while [ ! -e go ]; do sleep 0.02; done\n```\n",
    );
    let mut running = scene
        .env
        .start("run --plan wait.md --agent shell --no-input");
    let folder = scene.env.path("volumes/workspace");
    wait_until("it works", || {
        folder.join("begun").exists() && {
            let log = scene.env.run("log --json").stdout;
            log.contains(r#""event":"claimed""#)
        }
    });
    let said = [
        "the agent `shell` cannot go on where it is cut off",
        "without --now",
    ];
    scene.env.refuses(1, ["tell", "1", "hurry", "--now"], said);
    fs::write(folder.join("go"), "").unwrap();
    assert_eq!(running.wait().code(), Some(0));
}
