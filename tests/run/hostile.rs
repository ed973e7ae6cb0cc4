//! Hostile and broken files among the reports of a running daemon: none of them ends it, holds it up, is a success, or vanishes
//! without a reason next to it.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::*;
use crate::common::agent::report;
use crate::common::hostile::{KINDS, laborious, slips, texts};

#[test]
fn hostile_files_are_filed_without_effect() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan two.md");
    let first = scene.take_any();
    let secret = secret(&scene);

    let mut dropped = Vec::new();
    // Only one file counts for the open command; the others belong to no command and must do no harm either.
    let texts = texts().into_iter().map(|(_, text)| text).chain(slips());
    for (index, text) in texts.enumerate() {
        let name = format!("report-task-hostile-{index}.md");
        scene.drop_report(&name, &text);
        dropped.push(name);
    }
    for (index, path) in ["../../x", ".hidden", "a b", "ä", "-", "%2e%2e"]
        .into_iter()
        .enumerate()
    {
        let text = format!("---\nid: {path}\nstatus: SUCCESS\n---\n\n## Core results\n\ndone\n");
        let name = format!("report-task-path-{index}.md");
        scene.drop_report(&name, text.as_bytes());
        dropped.push(name);
    }
    for name in ["report-..md", "report-...md", "report-task-..%2f..%2fx.md"] {
        let text = report("SUCCESS", "done");
        scene.drop_report(name, text.as_bytes());
        dropped.push(name.to_owned());
    }
    let pending = scene.path("reports/pending");
    for (index, (kind, make)) in KINDS.into_iter().enumerate() {
        let name = format!("report-task-kind-{index}.md");
        if made(kind, make(&pending.join(&name), &secret)) {
            dropped.push(name);
        }
    }

    wait_until("every one of them is filed with a reason", || {
        scene.names("reports/rejected").len() == 2 * dropped.len()
    });
    assert_eq!(scene.names("reports/pending"), [] as [&str; 0]);
    let rejected = scene.names("reports/rejected");
    for name in &dropped {
        for name in [name, &format!("{name}.reason.md")] {
            assert!(rejected.contains(name), "{name}");
        }
    }
    let expected = report("SUCCESS", "a secret");
    assert_eq!(fs::read_to_string(&secret).unwrap(), expected);
    // None of them is a success.
    assert_eq!(scene.tasks(), ["in_progress", "pending"]);
    for text in scene.texts("reports/rejected", ".reason.md") {
        assert!(
            text.chars().all(|c| c == '\n' || !c.is_control()),
            "no escapes: {text:?}"
        );
        lacks(&text, "a secret");
    }
    finish(&scene, &first);
}

#[test]
fn hostile_report_with_valid_name_is_rejected() {
    let texts = texts().into_iter().map(|(_, text)| text).chain(slips());
    let texts: Vec<Vec<u8>> = texts.collect();
    let (scene, _daemon, commands) = handed_out(texts.len() + KINDS.len());
    let secret = secret(&scene);
    for (command, text) in commands.iter().zip(&texts) {
        scene.drop_report(&format!("report-{}.md", command.id), text);
    }
    let mut dropped = texts.len();
    for (command, (kind, make)) in commands[texts.len()..].iter().zip(KINDS) {
        let path = format!("reports/pending/report-{}.md", command.id);
        dropped += usize::from(made(kind, make(&scene.path(path), &secret)));
    }
    scene.await_events("rejected", dropped);
    assert!(scene.events_named("reported").is_empty());
    assert_eq!(scene.status()["progress"]["completed"], 0);
}

#[test]
fn unreadable_heartbeats_do_no_harm() {
    let json = |text: &str| text.as_bytes().to_vec();
    let texts = [
        json(r#"{"session_id": "\ud800"}"#),
        json(r#"{"session_id": "\udfff\ud800", "pid": 1}"#),
        json(r#"{"session_id": "../../x"}"#),
        json(r#"{"session_id": "[2J"}"#),
        json(r#"{"pid": 1e999}"#),
        json(&"[".repeat(16_000)),
        vec![0; 16_000],
        vec![b'"'; 8 << 20],
        vec![0xff; 100],
    ];
    let (scene, _daemon, commands) = handed_out(texts.len() + KINDS.len());
    let secret = secret(&scene);
    let sign = |command: &Command| scene.path(format!("active/{}.json", command.id));
    for (command, text) in commands.iter().zip(&texts) {
        fs::write(sign(command), text).unwrap();
    }
    for (command, (kind, make)) in commands[texts.len()..].iter().zip(KINDS) {
        made(kind, make(&sign(command), &secret));
    }
    // The scan that finds the first report reads the heartbeats of all open commands.
    for command in &commands {
        scene.succeed(command, "done");
    }
    scene.await_status("completed");
    assert_eq!(scene.status()["progress"]["completed"], commands.len());
}

#[test]
fn report_escapes_reach_no_terminal() {
    let scene = Scene::by_rules("");
    let hostile =
        "\u{1b}]52;c;aGk=\u{7} \u{1b}[2J \u{9d}0;x\u{9c} \u{202e}gnp.exe <script>alert(1)</script>";
    let text = format!(
        "---\nstatus: SUCCESS\ntitle: <script>alert(1)</script>\n---\n# {hostile}\n\n## Core results\n\ndone {hostile}\n\n## {hostile}\n\nx\n"
    );
    let _agent = scene.agent(move |_| Act::Report(text.clone()));
    let ran = scene.exits(0, "run --plan one.md");
    let shown = [
        ran.stdout,
        scene.works("status"),
        scene.works("status --json"),
        scene.works("show"),
        scene.works("log"),
        scene.works("why 1"),
        scene.read("volumes/workspace/MISSION.md"),
    ];
    for text in shown {
        let bad = |c: char| {
            (c.is_control() && c != '\n')
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        assert!(!text.contains(bad), "{text:?}");
    }
}

#[test]
fn expensive_reports_are_read() {
    let texts = laborious();
    let (scene, _daemon, commands) = handed_out(texts.len());
    for (command, (_, text)) in commands.iter().zip(&texts) {
        scene.drop_report(&format!("report-{}.md", command.id), text);
    }
    scene.await_events("reported", texts.len());
    assert!(scene.events_named("rejected").is_empty());
}

/// The next one arrives in the moment in which the previous one is moved away.
#[test]
fn successive_same_name_reports_are_all_filed() {
    const REPORTS: usize = 300;
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan two.md");
    let first = scene.take_any();
    let name = "report-task-again.md";
    let place = scene.path("reports/pending").join(name);
    for number in 0..REPORTS {
        scene.drop_report(name, report("SUCCESS", &number.to_string()).as_bytes());
        wait_eagerly("it is filed", || !place.exists());
    }
    assert_eq!(scene.names("reports/rejected").len(), 2 * REPORTS);
    finish(&scene, &first);
}

/// Each text contains its number at its beginning and at its end, and all have the same length.
#[test]
fn rewritten_report_is_read_whole() {
    let (scene, _daemon, commands) = handed_out(24);
    let result = |round: usize| format!("begin {round} {} end {round}", "x".repeat(60));
    for round in 0..4 {
        let text = report("SUCCESS", &result(round));
        let (half, rest) = text.split_at(text.find("xxx").unwrap() + 30);
        let mut files: Vec<File> = commands
            .iter()
            .map(|command| {
                let path = format!("reports/pending/report-{}.md", command.id);
                let mut file = File::create(scene.path(path)).unwrap();
                file.write_all(half.as_bytes()).unwrap();
                file
            })
            .collect();
        // Once this is archived, the daemon has scanned while all of them were halves.
        let witness = format!("report-task-witness-{round}.md");
        scene.drop_report(&witness, b"nothing");
        scene.await_name("reports/rejected", &witness);
        for file in &mut files {
            file.write_all(rest.as_bytes()).unwrap();
        }
    }
    scene.await_status("completed");
    let status = scene.status();
    for task in status["tasks"].as_array().unwrap() {
        let read = task["result"].as_str().unwrap();
        assert!((0..4).any(|round| result(round) == read), "{read}");
    }
    let witnesses = scene.names("reports/rejected").len();
    assert_eq!(witnesses, 8, "nothing but the witnesses and their reasons");
}

/// Reports that exist when they are listed and are gone when they are read, or archived: every file that is not removed is
/// archived.
#[test]
fn vanishing_reports_do_no_harm() {
    let scene = Scene::by_rules("");
    let run = scene.start("run --plan two.md");
    let first = scene.take_any();
    let (stop, rounds) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let storm = {
        let (stop, rounds, exchange) = (Arc::clone(&stop), Arc::clone(&rounds), scene.clone());
        thread::spawn(move || {
            let mut kept = 0;
            while !stop.load(Ordering::SeqCst) {
                let round = rounds.fetch_add(1, Ordering::SeqCst);
                let name = format!("report-task-storm-{round}.md");
                let path = exchange.path("reports/pending").join(&name);
                // Renamed in and written in place, in turns.
                if round % 2 == 0 {
                    exchange.drop_report(&name, report("SUCCESS", "of what?").as_bytes());
                } else {
                    fs::write(&path, report("SUCCESS", "of what?")).unwrap();
                }
                // Each a few moments later than the last, from none at all to a daemon at work in between.
                for _ in 0..round % 32 {
                    thread::yield_now();
                    drop(fs::metadata(&path));
                }
                match fs::remove_file(&path) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => kept += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            kept
        })
    };
    let gone_by = |count: usize| {
        wait_until("the storm goes on", || {
            rounds.load(Ordering::SeqCst) >= count
        });
    };
    gone_by(2_000);
    scene.succeed(&first, "done");
    let second = scene.take_task(2);
    gone_by(rounds.load(Ordering::SeqCst) + 2_000);
    stop.store(true, Ordering::SeqCst);
    let kept = storm.join().unwrap();
    scene.succeed(&second, "done");
    let ran = run.end().exits(0);
    assert_eq!(ran.stderr, "", "nothing of it is a person's business");
    let rejected = scene.names("reports/rejected");
    let reports = rejected.iter().filter(|name| !name.ends_with(".reason.md"));
    assert_eq!(reports.count(), kept, "what was not removed is filed");
    assert_eq!(scene.events_named("reported").len(), 2);
    assert_eq!(scene.tasks(), ["completed", "completed"]);
}

#[test]
fn files_twenty_thousand_reports() {
    const FILES: usize = 20_000;
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan two.md");
    let first = scene.take_any();
    for number in 0..FILES {
        scene.drop_report(&format!("report-task-flood-{number}.md"), b"x");
    }
    // The last report does not wait until all of the others are archived.
    scene.succeed(&first, "done");
    let second = scene.take_task(2);
    wait_until("every one of them is filed", || {
        scene.names("reports/pending").is_empty()
    });
    let rejected = scene.names("reports/rejected");
    assert_eq!(rejected.len(), 2 * FILES, "each has a reason beside it");
    scene.succeed(&second, "done");
    scene.await_status("completed");
    assert_eq!(scene.events_named("reported").len(), 2);
}

/// As [`wait_until`], without a pause in between.
fn wait_eagerly(what: &str, mut condition: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + DEADLINE;
    while !condition() {
        assert!(
            std::time::Instant::now() < end,
            "waited in vain until {what}"
        );
        thread::yield_now();
    }
}

/// A report that would be a success, outside of the exchange folder.
fn secret(scene: &Scene) -> PathBuf {
    let secret = scene.env.path("secret");
    fs::write(&secret, report("SUCCESS", "a secret")).unwrap();
    secret
}

/// Returns whether a hostile file could be made; only a device may need more rights than the test has.
#[expect(
    clippy::print_stderr,
    reason = "what is left out is said where the test prints"
)]
fn made(kind: &str, result: io::Result<()>) -> bool {
    match result {
        Err(error) if kind == "device" => {
            eprintln!("skipped: {kind}: {error}");
            false
        }
        result => {
            result.unwrap_or_else(|error| panic!("{kind}: {error}"));
            true
        }
    }
}

/// Checks that the daemon continues: the open task is reported, and the next one.
fn finish(scene: &Scene, first: &Command) {
    scene.succeed(first, "done");
    let second = scene.take_task(2);
    scene.succeed(&second, "done");
    scene.await_status("completed");
}
