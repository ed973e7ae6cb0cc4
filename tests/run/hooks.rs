//! Commands of the person that run at events: they get all of them, and never hold the plan up.

use super::*;

/// Returns a command that appends its input to a file with that name, one line each.
fn heard(name: &str) -> String {
    format!("hooks.on_{name} = ['sh', '-c', 'cat >> {name}.jsonl']\n")
}

/// Returns what a hook received.
fn told(scene: &Scene, name: &str) -> Vec<Value> {
    lines(&fs::read_to_string(scene.env.path(format!("{name}.jsonl"))).unwrap_or_default())
}

fn log(scene: &Scene) -> String {
    scene.read("volumes/logs/hooks.log")
}

#[test]
fn hooks_receive_changes_question_and_end_once() {
    let config = ["question", "finish", "change"].map(heard).concat();
    let scene = Scene::by_rules(&format!("run.max_attempts = 1\n{config}"));
    let _agent = scene.agent(|command| match command.task() {
        2 => Act::failed("the port is taken"),
        _ => Act::success("done"),
    });
    scene.exits(4, "run --plan chain.md");
    let asked = told(&scene, "question");
    assert_eq!(asked.len(), 1, "{asked:?}");
    let question = &asked[0]["question"];
    let expected = json!(["question", "A chain", "running"]);
    assert_eq!(picked(&asked[0], "event plan/name plan/status"), expected);
    let expected = json!(["failures", 2, "Second", ["retry", "skip", "abort"]]);
    assert_eq!(picked(question, "about task task_name choices"), expected);
    let text = fs::read_to_string(question["file"].as_str().unwrap()).unwrap();
    assert!(text.contains(question["id"].as_str().unwrap()), "{text}");
    assert_eq!(told(&scene, "finish"), [] as [Value; 0]);

    scene.works("answer skip");
    scene.exits(0, "resume");
    assert_eq!(told(&scene, "question").len(), 1);
    let finish = told(&scene, "finish");
    assert_eq!(finish.len(), 1);
    let ended = picked(&finish[0], "plan/status plan/skipped");
    assert_eq!(ended, json!(["completed", 1]));
    has(finish[0]["outcome"].as_str().unwrap(), "2 of 3 tasks");

    let changes = told(&scene, "change");
    let mut next = 1;
    for call in &changes {
        let change = &call["change"];
        // The answer came while no daemon ran here.
        assert!(change["from"].as_i64().unwrap() >= next, "{changes:?}");
        next = change["to"].as_i64().unwrap() + 1;
        assert_eq!(change["left_out"], 0);
    }
    let events = |call: &Value| call["change"]["events"].as_array().unwrap().clone();
    let heard: Vec<Value> = changes.iter().flat_map(events).collect();
    let mut all = scene.events();
    all.retain(|event| event["event"] != "answered" && event["event"] != "skipped");
    assert_eq!(heard, all);
}

#[test]
fn slow_hook_blocks_nothing_and_gets_batched_changes() {
    let slow = "hooks.on_change = ['sh', '-c', 'cat >> change.jsonl; while ! test -e go; do sleep 0.01; done']";
    let scene = Scene::by_rules(slow);
    let _agent = scene.agent(|_| Act::success("done"));
    let foreground = scene.start("run --plan chain.md");
    wait_until("the hook runs", || told(&scene, "change").len() == 1);
    scene.await_status("completed");
    // The hook still runs for the first change.
    assert_eq!(told(&scene, "change").len(), 1);
    scene.write("go", "");
    foreground.end().exits(0);
    let told = told(&scene, "change");
    assert_eq!(told.len(), 2, "{told:?}");
    let expected = &told[1]["change"]["from"];
    assert_eq!(told[0]["change"]["to"].as_i64().unwrap() + 1, *expected);
    assert_eq!(told[1]["change"]["to"], scene.status()["plan"]["seq"]);
}

#[test]
fn bad_hook_is_ended_and_logged() {
    for (argv, why) in [
        (
            "['sh', '-c', 'trap \"\" TERM; sleep 1000 & sleep 1000; sleep 1000']",
            "ended after 100ms",
        ),
        ("['sh', '-c', 'echo no mail today; exit 3']", "exit 3"),
        ("['no-such-program']", "cannot start `no-such-program`"),
        ("['yes']", "ended because it printed without end"),
    ] {
        let timeout = match why.contains("100ms") {
            true => "100ms",
            false => "60s",
        };
        let scene = Scene::by_rules(&format!(
            "hooks.on_finish = {argv}\nhooks.timeout = '{timeout}'"
        ));
        let missing = "no `no-such-program` on the PATH: `on_finish` cannot start";
        let doctor = scene.run("doctor").stdout;
        assert_eq!(
            doctor.contains(missing),
            argv.contains("no-such"),
            "{doctor}"
        );
        let _agent = scene.agent(|_| Act::success("done"));
        let ran = scene.exits(0, "run --plan one.md");
        let notice = format!("! the hook `on_finish` failed: {why}");
        assert!(ran.stderr.contains(&notice), "{notice}: {}", ran.stderr);
        let log = log(&scene);
        has(&log, format!("on_finish: {why}"));
        assert!(log.len() < 10_000, "{}", log.len());
        assert_eq!(log.contains("  no mail today"), why == "exit 3", "{log}");
    }
}

#[test]
fn hook_gets_only_listed_variables() {
    let mut scene = Scene::by_rules(
        "hooks.on_finish = ['sh', '-c', 'env > env.txt; pwd >> env.txt']\nhooks.env = ['MAIL_TOKEN']",
    );
    scene.env.set("MAIL_TOKEN", "for-the-hook");
    scene.env.set("OTHER_KEY", "canary");
    let _agent = scene.agent(|_| Act::success("done"));
    assert_eq!(scene.run("run --plan one.md").code, Some(0));
    let env = scene.read("env.txt");
    has(&env, "MAIL_TOKEN=for-the-hook");
    lacks(&env, "canary");
    let folder = scene.env.path("").canonicalize().unwrap();
    assert!(env.trim_end().ends_with(folder.to_str().unwrap()), "{env}");
}

#[test]
fn open_question_hook_repeats_after_kill() {
    let config = format!("run.max_attempts = 1\n{}", heard("question"));
    let scene = Scene::by_rules(&config);
    let _agent = scene.agent(|_| Act::failed("the port is taken"));
    let daemon = scene.leave("run --plan one.md");
    wait_until("the person is told", || told(&scene, "question").len() == 1);
    has(scene.daemon_log(), "a person is asked");
    kill(&scene, daemon);
    assert_eq!(scene.run("resume").code, Some(4));
    let told = told(&scene, "question");
    assert_eq!(told.len(), 2);
    assert_eq!(told[0]["question"], told[1]["question"]);
}

#[test]
fn next_daemon_ends_leftover_hook() {
    let hangs = "run.max_attempts = 1\nhooks.on_question = ['sh', '-c', 'echo $$ >> pids.txt; exec sleep 1000']\nhooks.timeout = '1h'";
    let scene = Scene::by_rules(hangs);
    let _agent = scene.agent(|_| Act::failed("the port is taken"));
    let pids = || -> Vec<i32> {
        let text = std::fs::read_to_string(scene.env.path("pids.txt")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    let lives = |pid: i32| rustix::process::test_kill_process(Pid::from_raw(pid).unwrap()).is_ok();
    let daemon = scene.leave("run --plan one.md");
    wait_until("the hook hangs", || pids().len() == 1);
    kill(&scene, daemon);
    assert!(lives(pids()[0]));
    let _next = scene.leave("resume");
    wait_until("the next hook hangs", || pids().len() == 2);
    wait_until("the first one is gone", || !lives(pids()[0]));
    kill_process(Pid::from_raw(pids()[1]).unwrap(), Signal::KILL).unwrap();
    scene.works("stop");
}
