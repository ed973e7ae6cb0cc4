//! Notifications: posted when a plan asks, reaches its budget, or ends. No server holds the plan up.

use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::*;
use crate::common::http::{Request, Server, send};

/// A server of a person's notifications.
struct Notified {
    server: Server,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Notified {
    /// Starts a server that answers each request, with its number, by the closure.
    fn start(
        answer: impl Fn(usize, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::clone(&seen);
        let server = Server::start(move |request, stream| {
            let number = {
                let mut requests = requests.lock().unwrap();
                requests.push(request);
                requests.len()
            };
            answer(number, stream)
        });
        Self { server, seen }
    }

    /// Starts a server that answers with a status.
    fn answering(status: u16) -> Self {
        Self::start(move |_, stream| send(stream, status, "text/plain", "", ""))
    }

    /// Returns the setting, with a secret in the path.
    fn setting(&self, more: &str) -> String {
        format!(
            "run.max_attempts = 1\nnotify.url = '{}/hush-4711'\n{more}\n",
            self.server.url()
        )
    }

    fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    fn bodies(&self) -> Vec<Value> {
        self.seen().into_iter().map(|seen| seen.body).collect()
    }

    fn texts(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.text).collect()
    }
}

/// Does the first task and fails at the second one.
fn chain_agent(scene: &Scene) -> impl Sized {
    scene.agent(|command| match command.task() {
        2 => Act::failed("the port <!channel> is taken"),
        _ => Act::success("done"),
    })
}

#[test]
fn question_and_end_are_posted_as_json() {
    let notified = Notified::answering(200);
    let scene = Scene::by_rules(&notified.setting("notify.link = 'https://host.example'"));
    let _agent = chain_agent(&scene);
    scene.exits(4, "run --plan chain.md");
    let asked = notified.bodies();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let picked_of = picked(&asked[0], "event plan/name question/about question/task");
    assert_eq!(picked_of, json!(["question", "A chain", "failures", 2]));
    let plan = asked[0]["plan"]["id"].as_str().unwrap();
    assert_eq!(asked[0]["link"], format!("https://host.example/#/p/{plan}"));
    scene.works("answer skip");
    scene.exits(0, "resume");
    let all = notified.bodies();
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(
        picked(&all[1], "event plan/status"),
        json!(["finish", "completed"])
    );
    for seen in notified.seen() {
        assert_eq!(seen.path, "/hush-4711");
    }
    // Not even where troubles are written.
    lacks(scene.daemon_log(), "hush");
}

#[test]
fn formats_are_text_and_slack() {
    for (format, kind) in [
        ("text", "text/plain; charset=utf-8"),
        ("slack", "application/json"),
    ] {
        let notified = Notified::answering(200);
        let scene = Scene::by_rules(&notified.setting(&format!("notify.format = '{format}'")));
        let _agent = chain_agent(&scene);
        scene.exits(4, "run --plan chain.md");
        let seen = notified.seen();
        assert_eq!(seen.len(), 1);
        assert!(
            seen[0]
                .headers
                .contains(&("content-type".to_owned(), kind.to_owned()))
        );
        let (text, word) = match format {
            "text" => (seen[0].text.as_str(), "<!channel>"),
            _ => (seen[0].body["text"].as_str().unwrap(), "&lt;!channel&gt;"),
        };
        assert!(text.starts_with("A chain ("), "{text}");
        has(text, "asks you, task 2 Second: ");
        has(text, "\nretry | skip | abort");
        has(text, word);
    }
}

#[test]
fn reached_budget_is_posted() {
    let notified = Notified::answering(200);
    let scene = Scene::by_rules(&notified.setting("budget.attempts = 1\nnotify.format = 'text'"));
    let _agent = scene.agent(|_| Act::success("done"));
    scene.exits(6, "run --plan chain.md");
    let texts = notified.texts();
    assert_eq!(texts.len(), 1, "{texts:?}");
    has(&texts[0], "asks you: budget: 1 of 1 attempt");
    has(&texts[0], "more | abort");
}

#[test]
fn server_that_fails_first_gets_it_later() {
    let notified = Notified::start(|number, stream| match number {
        1 => send(stream, 503, "text/plain", "", ""),
        _ => send(stream, 200, "text/plain", "", ""),
    });
    let scene = Scene::by_rules(&notified.setting(""));
    let _agent = scene.agent(|_| Act::success("done"));
    scene.exits(0, "run --plan one.md");
    let bodies = notified.bodies();
    assert_eq!(bodies.len(), 2, "{bodies:?}");
    assert_eq!(bodies[0]["event"], "finish");
    assert_eq!(bodies[0]["plan"], bodies[1]["plan"]);
}

#[test]
fn refusal_and_redirect_drop_the_notification() {
    let elsewhere = Arc::new(Notified::answering(200));
    let to = elsewhere.server.url();
    for status in [403, 307] {
        let headers = format!("location: {to}/caught\r\n");
        let notified =
            Notified::start(move |_, stream| send(stream, status, "text/plain", "", &headers));
        let scene = Scene::by_rules(&notified.setting(""));
        let _agent = scene.agent(|_| Act::success("done"));
        let ran = scene.exits(0, "run --plan one.md");
        assert_eq!(notified.seen().len(), 1);
        let line = format!("the notification to 127.0.0.1 is dropped: status {status}");
        has(&ran.stderr, format!("! {line}"));
        has(scene.read("volumes/logs/hooks.log"), line);
        lacks(ran.stderr + &scene.daemon_log(), "hush");
    }
    assert_eq!(elsewhere.seen().len(), 0);
}

#[test]
fn hanging_server_holds_no_plan_up() {
    // It accepts and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hush", listener.local_addr().unwrap());
    let scene = Scene::by_rules(&format!("run.max_attempts = 1\nnotify.url = '{url}'\n"));
    let _agent = scene.agent(|_| Act::failed("the port is taken"));
    let daemon = scene.leave("run --plan one.md");
    // The try begins with the question.
    let (stream, _) = listener.accept().unwrap();
    scene.works("answer skip");
    scene.await_status("completed");
    drop(stream);
    drop(listener);
    kill(&scene, daemon);
}

#[test]
fn open_question_is_sent_again_after_kill() {
    let notified = Notified::answering(200);
    let scene = Scene::by_rules(&notified.setting(""));
    let _agent = chain_agent(&scene);
    let daemon = scene.leave("run --plan chain.md");
    wait_until("the person is notified", || notified.seen().len() == 1);
    kill(&scene, daemon);
    scene.exits(4, "resume");
    let bodies = notified.bodies();
    assert_eq!(bodies.len(), 2, "{bodies:?}");
    assert_eq!(bodies[0]["question"], bodies[1]["question"]);
}

#[test]
fn address_needs_confirmation_and_is_not_shown() {
    let notified = Notified::answering(200);
    let mut scene = Scene::by_rules(&notified.setting(""));
    scene.env.confirm_nothing();
    let refused = scene.exits(4, "run --plan one.md");
    has(&refused.stderr, "notify.url = \"http://127.0.0.1/… (");
    lacks(&refused.stderr, "hush");
    let doctor = scene.run("doctor").stdout;
    has(
        &doctor,
        "ok  notify     json to 127.0.0.1 when a plan asks or ends",
    );
    lacks(&doctor, "hush");
    scene.write("config.toml", "notify.url = 'http://host.example/hush'");
    scene.refuses(
        2,
        "run --plan one.md",
        ["`notify.url`: http is for this machine only"],
    );
    lacks(scene.run("run --plan one.md").stderr, "hush");
    assert_eq!(notified.seen().len(), 0);
}
