//! What a person does in the page: every action over raw HTTP, what the log says then, and what is refused.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use super::*;
use crate::common::env::{first_line, lives, row};

/// A page's server with its address and token; killed when dropped.
struct Page {
    running: Running,
    host: String,
    token: String,
}

impl Page {
    fn open(scene: &Scene, args: &str) -> Self {
        let args = format!("web --port 0 {args}");
        let mut running = scene
            .env
            .spawn(args.as_str(), Stdio::piped(), Stdio::null());
        let line = first_line(running.child.stdout.take().unwrap());
        Self::at(&line, running)
    }

    /// Returns the page at the address that a process has printed.
    fn at(address: &str, running: Running) -> Self {
        let (host, token) = address.trim().split_once("/#token=").unwrap();
        let (host, token) = (host.replace("http://", ""), token.to_owned());
        Self {
            running,
            host,
            token,
        }
    }

    /// Sends an action without reading its answer.
    fn send(&self, path: &str, body: &str, key: &str) -> TcpStream {
        let (host, token) = (&self.host, &self.token);
        let key = match key {
            "" => String::new(),
            key => format!("Idempotency-Key: {key}\r\n"),
        };
        let head = format!(
            "POST /api/v1/{path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\n{key}Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(host).unwrap();
        stream.write_all((head + body).as_bytes()).unwrap();
        stream
    }

    fn post_text(&self, path: &str, body: &str, key: &str) -> (u16, Value) {
        let mut answer = (429, Value::Null);
        // More actions in a second than a person does.
        wait_until("the server takes it", || {
            answer = answer_of(self.send(path, body, key));
            answer.0 != 429
        });
        answer
    }

    fn post(&self, path: &str, body: &Value, key: &str) -> (u16, Value) {
        self.post_text(path, &body.to_string(), key)
    }

    /// Does an action, and returns what is said of it.
    #[track_caller]
    fn does(&self, path: &str, body: &Value) -> String {
        let (status, answer) = self.post(path, body, "");
        assert_eq!(status, 200, "{answer}");
        answer["said"].as_str().unwrap().to_owned()
    }

    /// Checks that an action is refused with a status and words.
    #[track_caller]
    fn refuses(&self, path: &str, body: &Value, status: u16, part: &str) {
        let (given, answer) = self.post(path, body, "");
        assert_eq!(given, status, "{path} {body}: {answer}");
        has(answer["error"].as_str().unwrap(), part);
    }

    /// Ends the server without a warning.
    fn kill(mut self) {
        self.running.child.kill().unwrap();
        self.running.wait();
    }
}

fn answer_of(mut stream: TcpStream) -> (u16, Value) {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

/// Returns the changes by the page, each with its events.
fn by_web(scene: &Scene) -> Vec<(Value, Vec<String>)> {
    let mut changes: Vec<(Value, Vec<String>)> = Vec::new();
    for event in scene.events() {
        let name = event["event"].as_str().unwrap().to_owned();
        match changes.last_mut() {
            _ if event["by"] != "web" => {}
            Some((seq, events)) if *seq == event["seq"] => events.push(name),
            _ => changes.push((event["seq"].clone(), vec![name])),
        }
    }
    changes
}

/// Makes a plan of three tasks that no process carries out, with its id.
fn left_plan() -> (Scene, String) {
    let scene = Scene::by_rules("checks.lint = { run = ['true'] }");
    let daemon = scene.leave("run --plan chain.md");
    scene.await_any();
    scene.await_events("issued", 1);
    kill(&scene, daemon);
    let plan = plan_id(&scene);
    (scene, plan)
}

#[test]
fn each_action_is_one_change_by_web() {
    let (scene, plan) = left_plan();
    let page = Page::open(&scene, "");
    let text = scene.works(["show", &plan]);
    // What an action says, and an event of it.
    for (action, body, said, event) in [
        (
            "tasks/1/note",
            json!({"note": "use port 8081"}),
            "your words go along",
            "told",
        ),
        (
            "tasks/2/comments",
            json!({"path": "src/a.rs", "line": 3, "gone": true, "text": "why?"}),
            "go along",
            "told",
        ),
        (
            "plan",
            json!({"text": text.replace("two.txt", "zwei.txt"), "at": 3}),
            "1 task changed",
            "updated",
        ),
        (
            "tasks",
            json!({"name": "Fourth", "after": [3]}),
            "task 4 is added: it waits for task 3",
            "added",
        ),
        (
            "pause",
            json!({"note": "lunch"}),
            "is paused: nothing new starts",
            "paused",
        ),
        ("resume", json!({}), "goes on", "resumed"),
        (
            "tasks/4/skip",
            json!({"note": "no need"}),
            "task 4 is skipped",
            "skipped",
        ),
        (
            "tasks/1/done",
            json!({}),
            "task 1 is done by hand",
            "completed",
        ),
        (
            "tasks/2/done",
            json!({}),
            "task 2 is done by hand",
            "completed",
        ),
        (
            "tasks/1/retry",
            json!({"note": "with tests", "yes": true}),
            "task 2 opens again",
            "reopened",
        ),
        (
            "restore",
            json!({"at": 3}),
            "is as it was after change 3",
            "restored",
        ),
        (
            "abort",
            json!({"confirm": plan}),
            "has ended for good",
            "settled",
        ),
    ] {
        row((action, &body));
        let before = by_web(&scene).len();
        let path = format!("plans/{plan}/{action}");
        let (code, answer) = page.post(&path, &body, action);
        assert_eq!(code, 200, "{answer}");
        has(answer["said"].as_str().unwrap(), said);
        if ["resume", "restore"].contains(&action) {
            let left = "no daemon carries it out yet: `plan-agent resume";
            has(answer["said"].as_str().unwrap(), left);
        }
        let after = by_web(&scene);
        let (seq, events) = after.last().unwrap();
        assert_eq!((after.len(), seq), (before + 1, &answer["seq"]));
        assert!(events.iter().any(|name| name == event), "{events:?}");

        // Sent again, it is answered as before, although the plan has moved; the key means this action only.
        assert_eq!(page.post(&path, &body, action), (200, answer));
        let mut other = body;
        other["if_seq"] = json!(1);
        assert_eq!(page.post(&path, &other, action).0, 422);
        if action != "plan" && action != "abort" {
            let (code, answer) = page.post(&path, &other, "");
            assert_eq!((code, &answer["seq"]), (409, seq), "{answer}");
        }
        assert_eq!(by_web(&scene).len(), after.len());
    }
    let log = scene.works("log");
    for part in [
        "task 1: told: use port 8081  (web: said)",
        "task 2: told: src/a.rs:3 as it was before: why?  (web: commented)",
        "paused: lunch  (web: paused)",
        "task 4: skipped: no need  (web: skipped)",
        "(web: restored)",
    ] {
        has(&log, part);
    }
}

#[test]
fn refused_actions_change_nothing() {
    let (scene, plan) = left_plan();
    let page = Page::open(&scene, "");
    for task in [1, 2] {
        page.does(&format!("plans/{plan}/tasks/{task}/done"), &json!({}));
    }
    page.does(&format!("plans/{plan}/tasks"), &json!({"name": "Fourth"}));
    let before = scene.events();
    for (action, body, status, part) in [
        ("tasks/9/skip", json!({}), 404, "there is no task `9`"),
        (
            "tasks/first/skip",
            json!({}),
            404,
            "a task is named by its number",
        ),
        ("tasks/1/skip", json!({}), 409, "task `1` is completed"),
        (
            "tasks/1/retry",
            json!({}),
            409,
            "task 2 relies on task 1 and would open again",
        ),
        (
            "tasks/3/note",
            json!({"note": " "}),
            409,
            "there are no words",
        ),
        (
            "tasks/3/comments",
            json!({"path": "a", "line": -1, "text": "x"}),
            400,
            "expected a whole number from 0 to 4294967295",
        ),
        (
            "tasks",
            json!({"name": "x", "after": [9]}),
            409,
            "does not exist",
        ),
        ("resume", json!({}), 409, "the plan is running"),
        ("approve", json!({}), 409, "the plan is running"),
        ("abort", json!({}), 409, "is confirmed with its id"),
        (
            "abort",
            json!({"confirm": "yes"}),
            409,
            "is confirmed with its id",
        ),
        ("restore", json!({"at": 99}), 404, "has no change `99`"),
        (
            "plan",
            json!({"text": "## New\n\nDo it.\n"}),
            422,
            "none of the tasks that stood here is left",
        ),
        (
            "plan",
            json!({"text": "---\nname: A chain\ngoal: Make three files\norder: dependencies\n---\n\n## 3. Third\n\n- checks: lnt\n"}),
            422,
            "there is no check `lnt`",
        ),
        // Who works, what is checked and what is allowed comes from the configuration.
        (
            "tasks",
            json!({"name": "x", "checks": ["lint"]}),
            400,
            "unknown field `checks`",
        ),
        (
            "tasks",
            json!({"name": "x", "assignee": "root"}),
            400,
            "unknown field `assignee`",
        ),
        (
            "resume",
            json!({"agent": "shell"}),
            400,
            "unknown field `agent`",
        ),
        ("pause", json!({"if_seq": "1"}), 400, "the body"),
    ] {
        row((action, &body));
        page.refuses(&format!("plans/{plan}/{action}"), &body, status, part);
    }
    for (path, body, status, part) in [
        (
            "plans/nothing/pause",
            json!({}),
            404,
            "there is no plan `nothing`",
        ),
        (
            "plans/..%2f..%2fetc%2fpasswd/pause",
            json!({}),
            404,
            "there is no plan",
        ),
        ("plans/%1b[31m%00/pause", json!({}), 404, "there is no plan"),
        (
            "questions/nothing/answer",
            json!({"choice": "retry"}),
            404,
            "there is no question `nothing`",
        ),
        (
            "questions/nothing/answer",
            json!({"choice": "perhaps"}),
            400,
            "`choice` is no answer",
        ),
        (
            "plans",
            json!({"goal": "x"}),
            409,
            "no language model can plan the goal",
        ),
        ("plans", json!({"goal": ""}), 409, "there are no words"),
        (
            "plans",
            json!({"goal": "x", "agent": "shell"}),
            400,
            "unknown field `agent`",
        ),
        (
            "plans",
            json!({"goal": "x", "allow": ["Bash"]}),
            400,
            "unknown field `allow`",
        ),
    ] {
        row((path, &body));
        page.refuses(path, &body, status, part);
    }
    let path = format!("plans/{plan}/pause");
    let deep = "[".repeat(30_000);
    for body in [
        "",
        "x",
        "[1]",
        "null",
        "{\"note\": 1}",
        "{\"note\":\"\\ud800\"}",
        &deep,
    ] {
        row(&body[..body.len().min(40)]);
        assert_eq!(page.post_text(&path, body, "").0, 400);
    }
    let long = "x".repeat(129);
    assert_eq!(page.post_text(&path, "{}", &long).0, 400);
    let (status, answer) = page.post(
        &format!("plans/{plan}/restore"),
        &json!({"at": 3, "preview": true}),
        "",
    );
    assert_eq!(status, 200);
    let states = |was, is| json!([was, is]);
    let shown = answer["preview"].as_array().unwrap().iter();
    let shown: Vec<Value> = shown.map(|task| picked(task, "was is")).collect();
    assert_eq!(
        shown,
        [
            states(json!("completed"), json!("ready")),
            states(json!("completed"), json!("waiting")),
            states(json!("ready"), json!("waiting")),
            states(json!("ready"), Value::Null),
        ]
    );
    assert_eq!(scene.events(), before);

    let shows = Page::open(&scene, "--read-only");
    shows.refuses(&path, &json!({}), 403, "this page only shows");
    assert_eq!(scene.events(), before);
}

#[test]
fn page_is_not_for_agents() {
    let mut scene = Scene::by_rules("");
    scene.env.set("PLAN_AGENT_EXCHANGE", "/tmp");
    scene.refuses(2, "web --port 0", "this is the environment of an agent");
}

#[test]
fn plan_deleted_meanwhile_is_not_found() {
    let (scene, plan) = left_plan();
    let page = Page::open(&scene, "");
    page.does(&format!("plans/{plan}/abort"), &json!({"confirm": plan}));
    let named = json!({"plan_id": plan}).to_string();
    scene.works(["tool", "delete_plan", &named]);
    for action in ["pause", "tasks/1/skip", "tasks/1/retry"] {
        page.refuses(
            &format!("plans/{plan}/{action}"),
            &json!({}),
            404,
            "the plan was deleted",
        );
    }
    scene.works([
        "tool",
        "TaskCreate",
        r#"{"subject": "a", "description": "b"}"#,
    ]);
    let plans: Value = scene.json("plans --json");
    let theirs = plans[0]["id"].as_str().unwrap();
    page.refuses(
        &format!("plans/{theirs}/pause"),
        &json!({}),
        409,
        "through the tools of `tasks`",
    );
}

#[test]
fn two_answers_at_once_and_one_is_told() {
    let scene = Scene::by_rules("budget.attempts = 1");
    let agent = scene.agent(|command| match command.attempt() {
        1 => Act::failed("no"),
        _ => Act::success("done"),
    });
    let _daemon = scene.leave("run --plan one.md");
    let (id, _) = scene.await_questions(1).remove(0);
    let plan = plan_id(&scene);
    let pages = [Page::open(&scene, ""), Page::open(&scene, "")];
    pages[0].refuses(
        &format!("plans/{plan}/resume"),
        &json!({}),
        409,
        "is paused",
    );
    // What only a person may grant is granted here.
    let path = format!("questions/{id}/answer");
    let sent = [(&pages[0], "one"), (&pages[1], "other")];
    let sent = sent.map(|(page, key)| page.send(&path, r#"{"choice": "more"}"#, key));
    let mut answers = sent.map(answer_of);
    answers.sort_by_key(|(status, _)| *status);
    assert_eq!([answers[0].0, answers[1].0], [200, 409], "{answers:?}");
    has(answers[0].1["said"].as_str().unwrap(), "plan ");
    let told = answers[1].1["error"].as_str().unwrap();
    has(told, "is answered already: more (by web)");
    pages[1].refuses(
        &path,
        &json!({"choice": "abort"}),
        409,
        "is answered already: more (by web)",
    );
    scene.await_status("completed");
    assert_eq!(agent.attempts(), [(1, 1), (1, 2)]);
    let answered = scene.events_named("answered");
    assert_eq!((answered.len(), &answered[0]["by"]), (1, &json!("web")));
}

#[test]
fn review_is_approved_and_words_reach_agent() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan one.md --review");
    scene.await_questions(1);
    let plan = plan_id(&scene);
    let page = Page::open(&scene, "");
    let hostile =
        "\u{1b}[31mred\u{0}\u{202e}<script>alert(1)</script>\n---\nid: x\n# commands/pending";
    page.does(
        &format!("plans/{plan}/tasks/1/note"),
        &json!({"note": hostile}),
    );
    let comment = json!({"path": "<img src=x>", "line": 7, "text": hostile});
    page.does(&format!("plans/{plan}/tasks/1/comments"), &comment);
    page.does(
        &format!("plans/{plan}/tasks"),
        &json!({"name": hostile, "description": hostile}),
    );
    scene.await_events("asked", 2);
    page.does(&format!("plans/{plan}/approve"), &json!({"note": hostile}));
    let command = scene.await_any();
    assert_eq!((command.task(), command.attempt()), (1, 1));
    has(
        command.body(),
        ["<script>alert(1)</script>", "<img src=x>:7: "],
    );
    for shown in [command.body(), &scene.works("log"), &scene.works("status")] {
        lacks(shown, ["\u{1b}", "\u{0}"]);
    }
    lacks(scene.works("log"), "\u{202e}");
}

#[test]
fn goal_becomes_a_plan_once() {
    let server = LlmServer::start(|_| Answer::error(500, "broken"));
    let scene = Scene::with_model(&server, Shape::Chat, "");
    let mut page = Page::open(&scene, "");
    let goal = json!({"goal": "Write a parser\nand test it", "review": true});
    let (status, made) = page.post("plans", &goal, "first");
    assert_eq!(status, 201, "{made}");
    for _ in 0..2 {
        assert_eq!(page.post("plans", &goal, "first"), (201, made.clone()));
        page.kill();
        page = Page::open(&scene, "");
    }
    assert_eq!(
        page.post("plans", &json!({"goal": "Another"}), "first").0,
        422
    );
    let (_, second) = page.post("plans", &goal, "second");
    assert_ne!(made["plan"], second["plan"]);
    let long = json!({"goal": format!("Write a parser {}", "and test it whole ".repeat(5))});
    let (_, third) = page.post("plans", &long, "");
    assert_ne!(second["plan"], third["plan"]);
    let plans: Value = scene.json("plans --json");
    assert_eq!(plans.as_array().unwrap().len(), 3);
    let cut = "Write a parser and test it whole and test it whole and test it whole and test…";
    assert_eq!(plans[0]["name"], cut);

    let rows: Value = scene.json(["show", made["plan"].as_str().unwrap(), "--format", "json"]);
    let head = &rows["rows"][0]["head"];
    let expected = json!(["Write a parser", "daemon", "model", "wanted", "idle"]);
    assert_eq!(picked(head, "name owner origin review status"), expected);
    has(head["workspace"].as_str().unwrap(), "workspace");
}

#[test]
fn daemon_serves_the_page_and_carries_out_its_goals() {
    let server = planning(&[("First", &[])]);
    let scene = Scene::with_model(&server, Shape::Messages, "");
    let daemon = scene.start_as("daemon", "daemon --web");
    let said = "the page is at ";
    scene.await_said("daemon", said);
    let err = scene.env.read("daemon.err");
    let address = err.lines().find_map(|line| line.strip_prefix(said));
    let page = Page::at(address.unwrap(), daemon.running);
    let (status, made) = page.post("plans", &json!({"goal": "Do one thing"}), "");
    assert_eq!(status, 201, "{made}");
    let command = scene.take_any();
    assert_eq!(command.field("plan"), made["plan"].as_str());
    scene.succeed(&command, "done");
    scene.await_states(&["completed"]);
    let events = scene.events();
    assert_eq!(picked(&events[0], "event by"), json!(["created", "web"]));
}

#[test]
fn aborted_plan_has_no_agent_without_a_daemon() {
    let (scene, pid) = super::control::left_by_a_killed_daemon();
    let plan = plan_id(&scene);
    let page = Page::open(&scene, "");
    let said = page.does(&format!("plans/{plan}/abort"), &json!({"confirm": plan}));
    has(said, "agents at work are asked to stop");
    wait_until("its agent has ended", || !lives(&pid));
}

/// What a full disk does, and what is there after it.
#[test]
fn action_on_full_disk_is_refused_and_can_be_repeated() {
    let (scene, plan) = left_plan();
    let page = Page::open(&scene, "");
    let before = scene.events();
    let database = rusqlite::Connection::open(scene.path("plan-agent.db")).unwrap();
    let full = "CREATE TRIGGER full BEFORE INSERT ON log BEGIN SELECT RAISE(ABORT, 'the disk is full'); END";
    database.execute_batch(full).unwrap();
    let (path, body) = (format!("plans/{plan}/tasks/1/skip"), json!({}));
    let (status, answer) = page.post(&path, &body, "k");
    assert_eq!(status, 503, "{answer}");
    has(answer["error"].as_str().unwrap(), "the disk is full");
    assert_eq!(scene.events(), before);
    database.execute_batch("DROP TRIGGER full").unwrap();
    assert_eq!(page.post(&path, &body, "k").0, 200);
    assert_eq!(by_web(&scene).len(), 1);
}

#[test]
fn killed_server_did_it_once_or_not_at_all() {
    let (scene, plan) = left_plan();
    let path = format!("plans/{plan}/tasks/1/note");
    let rounds = crate::common::env::times(8, 100);
    for round in 0..rounds {
        let (body, key) = (
            json!({"note": format!("round {round}.")}),
            format!("key {round}"),
        );
        let page = Page::open(&scene, "");
        let sent = page.send(&path, &body.to_string(), &key);
        // Sometimes the server is killed after it has done it, and its answer is lost.
        if round % 2 == 0 {
            wait_until("it is done", || by_web(&scene).len() > round);
        }
        page.kill();
        drop(sent);
        assert!(by_web(&scene).len() <= round + 1);

        let page = Page::open(&scene, "");
        let (status, first) = page.post(&path, &body, &key);
        assert_eq!((status, page.post(&path, &body, &key)), (200, (200, first)));
        assert_eq!(by_web(&scene).len(), round + 1);
    }
}
