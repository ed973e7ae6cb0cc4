//! Which role waits for which, in every view of the plan: during the wait, after the answer, and around a crash.

use std::mem::MaybeUninit;

use rustix::fs::inotify;

use super::*;

/// A reviewer in the process that asks a coder behind files for a correction.
const REVIEW: &str = "\
name: Two
roles:
- id: reviewer
  kind: agent
  description: Reviews.
  actions: [ask]
  templates:
  - name: review
    matches: [review]
    steps:
    - {name: Have it mended, ask: coder, description: Mend the flag.}
- {id: coder, kind: files, worker: external, description: Codes.}
";

/// A review, and then a task for the coder.
const PLAN: &str = "---\nname: Two\ngoal: A flag\n---\n\n## Review it\n\n- assignee: reviewer\n\nReview it.\n\n\
    ## Ship it\n\n- assignee: coder\n- after: 1\n\nShip it.\n";

const WAITS: &str = "reviewer waits for coder";

fn begun() -> (Scene, Left) {
    let scene = Scene::by_rules("run.max_parallel = 2\n");
    scene.write("team.yaml", REVIEW);
    scene.write("plan.md", PLAN);
    let daemon = scene.leave("run --team team.yaml --plan plan.md");
    (scene, daemon)
}

fn mission(scene: &Scene) -> String {
    fs::read_to_string(scene.env.path("volumes/workspace/MISSION.md")).unwrap_or_default()
}

/// Returns the lines of the log about waits and reports, as far as they are the same in every run.
fn told(scene: &Scene) -> Vec<String> {
    let log = scene.works("log");
    let line = |line: &str| Some(line[line.find("task 1: ")?..].to_owned());
    let words = ["waits for", "answer", "reported", "wait for"];
    let of_waits = |line: &String| words.iter().any(|word| line.contains(word));
    log.lines().filter_map(line).filter(of_waits).collect()
}

/// Checks that every view says that the reviewer waits for the coder, since when and for what.
fn shown(scene: &Scene, request: &Command) {
    let text = scene.works("status");
    has(&text, format!("{WAITS} · "));
    let at_work = "At work: reviewer 1 of 1 (task 1) · coder asked to help with task 1\n";
    has(&text, at_work);
    let status = scene.status();
    let mut waits = status["waits"].clone();
    let since = waits[0]["since"].take();
    let since = since.as_str().unwrap();
    let wait = json!({
        "task": 1, "role": "reviewer", "on": "coder", "what": "Mend the flag.", "request": request.id,
        "since": null,
    });
    assert_eq!(waits, json!([wait]));
    let lanes = &status["lanes"]["roles"];
    let lane = json!({"role": "coder", "most": 1, "tasks": [], "asked": [1]});
    assert_eq!(lanes[0], lane, "{lanes}");
    let why = scene.works("why 1");
    let line = format!(" s: Mend the flag. ({})\n", request.id);
    has(&why, format!("  {WAITS} · "));
    has(&why, &line);
    let line = format!("\n  {WAITS} since {since}: Mend the flag.\n");
    wait_until("MISSION.md says it", || mission(scene).contains(&line));
    has(mission(scene), at_work);
    assert_eq!(
        told(scene),
        [format!("task 1: {WAITS}: Mend the flag.")],
        "{}",
        scene.works("log")
    );
}

/// Checks that no view reports a wait any more.
fn over(scene: &Scene) {
    // The command was just taken: until the daemon has seen that, it waits for the coder, too.
    wait_until("no view says that somebody waits", || {
        let text = scene.works("status");
        !text.contains("waits for") && text.contains("coder 1 of 1 (task 2)")
    });
    lacks(scene.works("why 1"), "waits for");
    let status = scene.status();
    assert!(status["waits"].is_null(), "{status:#}");
    lacks(status["lanes"].to_string(), "asked");
    wait_until("MISSION.md does not say it any more", || {
        let mission = mission(scene);
        !mission.contains(WAITS) && mission.contains("coder 1 of 1 (task 2)")
    });
    let told = told(scene);
    let expected = [
        format!("task 1: {WAITS}: Mend the flag."),
        "task 1: coder answered reviewer: completed".to_owned(),
        "task 1: reported SUCCESS".to_owned(),
    ];
    assert_eq!(told, expected);
}

#[test]
fn views_show_open_request_until_answer() {
    let (scene, _daemon) = begun();
    let request = scene.take("a request", is_request);
    shown(&scene, &request);
    // The log also says which role works on a task.
    let log = || scene.works("log");
    has(log(), "task 1: dispatched (reviewer)\n");
    wait_until("the log says who works", || {
        log().contains("task 1: reviewer works on it\n")
    });
    let answer = report("SUCCESS", "Mended.");
    scene.submit(&request.id, &answer);
    let ship = task_of(&scene, 2, 1);
    over(&scene);
    scene.succeed(&ship, "Out.");
    scene.await_status("completed");
    let handed: Vec<String> = log()
        .lines()
        .filter_map(|line| Some(line.split_once("dispatched ")?.1.to_owned()))
        .collect();
    assert_eq!(handed, ["(reviewer)", "(coder)"]);
}

#[test]
fn task_of_asked_role_shows_request() {
    let scene = Scene::by_rules("run.max_parallel = 2\n");
    scene.write("team.yaml", REVIEW);
    scene.write("plan.md", &PLAN.replace("- after: 1\n", ""));
    let _daemon = scene.leave("run --team team.yaml --plan plan.md");
    scene.await_command("a request", is_request);
    scene.await_command("a task", |command| command.task() == 2);
    let why = scene.works("why 2");
    let said = "its command waits for `coder` to take it, who is asked to help with task 1\n";
    has(&why, said);
    let status = scene.works("status");
    let at_work =
        "At work: coder 1 of 1 (task 2), asked to help with task 1 · reviewer 1 of 1 (task 1)\n";
    has(&status, at_work);
}

#[test]
fn open_request_stays_visible_after_kill() {
    for answered_meanwhile in [false, true] {
        let (scene, daemon) = begun();
        let request = scene.take("a request", is_request);
        kill(&scene, daemon);
        let answer = || {
            let answer = report("SUCCESS", "Mended.");
            scene.submit(&request.id, &answer);
        };
        if answered_meanwhile {
            // The answer has not been read yet.
            answer();
            has(scene.works("status"), WAITS);
        }
        let plan = plan_id(&scene);
        let _daemon = scene.leave(["resume", &plan, "--team", "team.yaml"]);
        if !answered_meanwhile {
            shown(&scene, &request);
            answer();
        }
        task_of(&scene, 2, 1);
        over(&scene);
    }
}

/// Returns the ends of the requests in the log: which role asked which, and the word for the end.
fn ends(scene: &Scene) -> Vec<String> {
    let ended = scene.events_named("request_ended").into_iter();
    let end = |event: Value| {
        let field = |name: &str| event[name].as_str().unwrap().to_owned();
        format!("{} {} {}", field("role"), field("on"), field("how"))
    };
    ended.map(end).collect()
}

/// Returns which role waits for which now.
fn now(scene: &Scene) -> Vec<(String, String)> {
    let status = scene.status();
    let waits = status["waits"].as_array().cloned().unwrap_or_default();
    let field = |wait: &Value, name: &str| wait[name].as_str().unwrap().to_owned();
    waits
        .iter()
        .map(|wait| (field(wait, "role"), field(wait, "on")))
        .collect()
}

fn chain() -> Vec<(String, String)> {
    let wait = |role: &str, on: &str| (role.to_owned(), on.to_owned());
    vec![wait("a", "b"), wait("b", "coder")]
}

#[test]
fn nested_requests_end_with_own_outcome() {
    let scene = Scene::by_rules("run.max_attempts = 1\n");
    let team = row(&["a", "b"], "coder") + CODER;
    let _daemon = passes(&scene, &team, &one_for("a"));
    let request = scene.take("a request", is_request);
    assert_eq!(now(&scene), chain());
    // A person's or agent's text is passed on unchanged, whatever it resembles.
    let said = "Step 1, Look, failed: tester answered nothing.";
    let rejected =
        format!("---\nstatus: FAILED\ncollaboration: rejected\n---\n\n## Core results\n\n{said}\n");
    scene.submit(&request.id, &rejected);
    scene.await_questions(1);
    let cause = format!("failed: b answered `error`: coder answered `rejected`: {said}");
    wait_until("the cause is told", || {
        let told = scene.texts("reports/processed", ".md");
        told.concat().contains(&cause)
    });
    assert_eq!(now(&scene), []);
    assert_eq!(ends(&scene), ["b coder rejected", "a b error"]);
}

#[test]
fn request_timeout_ends_nested_requests() {
    let scene = Scene::by_rules("");
    let team = row(&["a", "b"], "coder").replacen(
        "description: Asks.",
        "description: Asks.\n  collaboration_timeout: 2s\n  on_timeout: retry",
        1,
    ) + CODER;
    let _daemon = passes(&scene, &team, &one_for("a"));
    let first = scene.await_command("a request", is_request);
    let withdrawn = format!("{}.md", first.id);
    scene.await_name("commands/withdrawn", &withdrawn);
    scene.await_events("request_ended", 2);
    let mut first: Vec<String> = ends(&scene).into_iter().take(2).collect();
    first.sort();
    assert_eq!(first, ["a b timed_out", "b coder taken_back"]);
    // The role asks again, and then the attempt ends and its result is no longer needed: the messages end with it.
    scene.await_events("requested", 3);
    let plan = plan_id(&scene);
    scene.works(["abort", &plan]);
    scene.await_end();
    assert_eq!(now(&scene), []);
    let (asked, ended) = (scene.events_named("requested"), ends(&scene));
    assert_eq!(asked.len(), ended.len(), "{ended:?}");
    lacks(mission(&scene), "waits for");
}

#[test]
fn busy_worker_causes_no_unclaimed_question() {
    let scene = Scene::by_rules("run.max_parallel = 3\nrun.task_timeout = '5s'\n");
    let tester = "- {id: tester, kind: files, worker: external, description: Tests.}\n";
    scene.write("team.yaml", &(REVIEW.to_owned() + tester));
    let plan = PLAN.replace("- after: 1\n", "") + "## Test it\n\n- assignee: tester\n";
    scene.write("plan.md", &plan);
    let _daemon = scene.leave("run --team team.yaml --plan plan.md");
    let request = scene.take("a request", is_request);
    let about = |question: &(String, String)| {
        let mut lines = question.1.lines();
        let task = lines.find_map(|line| line.strip_prefix("task: "));
        task.map(str::to_owned)
    };
    // Both tasks have waited equally long; the coder works on its request.
    let questions = scene.await_questions(1);
    let first = about(&questions[0]).unwrap();
    assert_eq!(first, "3 · Test it", "{questions:?}");
    scene.succeed(&request, "Mended.");
    let questions = scene.await_questions(2);
    let mut of: Vec<_> = questions.iter().filter_map(about).collect();
    of.sort();
    assert_eq!(of, ["2 · Ship it", "3 · Test it"], "{questions:?}");
}

#[test]
fn waiting_role_reads_claimed_commands_once() {
    const TASKS: u32 = 8;
    let scene = Scene::by_rules("run.max_parallel = 12\n");
    let team = REVIEW.replace("worker: external", "worker: external, concurrency: 12");
    scene.write("team.yaml", &team);
    let ship = |number| format!("## Ship {number}\n\n- assignee: coder\n\nShip it.\n\n");
    let tasks: String = (0..TASKS).map(ship).collect();
    let review = "## Review it\n\n- assignee: reviewer\n\nReview it.\n\n";
    scene.write("plan.md", &format!("{review}{tasks}"));
    let _daemon = scene.leave("run --team team.yaml --plan plan.md");
    let request = scene.await_command("a request", is_request);
    let mut locks = Vec::new();
    let mut take = || {
        let is_task = |command: &Command| !is_request(command) && command.task() > 1;
        let command = scene.await_command("a task", is_task);
        let lock = scene.path(format!("active/{}.lock", command.id));
        let lock = File::create(lock).unwrap();
        lock.lock().unwrap();
        locks.push(lock);
        assert!(scene.claim(&command.id));
        scene.await_events("claimed", locks.len() + 1);
        command.id
    };
    let first = format!("{}.md", take());
    let opened = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    let folder = scene.path("commands/processed");
    inotify::add_watch(&opened, &folder, inotify::WatchFlags::OPEN).unwrap();
    for _ in 1..TASKS {
        take();
    }
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut opened = inotify::Reader::new(opened, &mut buffer);
    let names = std::iter::from_fn(|| {
        let event = opened.next().ok()?;
        Some(
            event
                .file_name()
                .map(|name| name.to_str().unwrap().to_owned()),
        )
    });
    let often = names.flatten().filter(|name| *name == first).count();
    assert!(
        often <= 1,
        "read {often} times while {TASKS} commands were taken"
    );
    assert_eq!(scene.pending().len(), 1, "{} waits", request.id);
}

/// The role that is asked does what the words are about.
#[test]
fn words_to_a_task_reach_the_role_that_is_asked() {
    let scene = Scene::by_rules("run.max_parallel = 2\n");
    scene.write("team.yaml", REVIEW);
    let with_a_heading = PLAN.replace("Review it.\n", "Review it.\n\n\\## Steps\n\nLook.\n");
    scene.write("plan.md", &with_a_heading);
    let _daemon = scene.leave("run --team team.yaml --plan plan.md");
    let first = scene.take("the request", is_request);
    lacks(first.body(), "Review it.");
    scene.works(["tell", "1", "Think of tabs."]);
    let report = crate::common::agent::report("FAILED", "The flag is gone.");
    scene.submit(&first.id, &report);
    let again = scene.take("the next request", |command| {
        is_request(command) && command.id != first.id
    });
    let said = ["Mend the flag.", "Think of tabs.", "The flag is gone."];
    has(again.body(), said);
    lacks(again.body(), "Review it.");
    scene.succeed(&again, "Mended.");
    wait_until("the review is done", || scene.tasks()[0] == "completed");
}
