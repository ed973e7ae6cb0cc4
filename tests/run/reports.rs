//! Reports in real life: late, twice, unreadable, or missing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::common::agent::{report, report_in};

#[test]
fn silent_command_times_out_and_is_cancelled() {
    let scene = Scene::by_rules("run.task_timeout = '300ms'");
    let _daemon = scene.leave("run --plan one.md");
    let first = scene.take_any();
    let second = scene.await_attempt(2);
    scene.await_name("active", &format!("{}.cancel", first.id));
    let timed_out = &scene.events_named("timed_out")[0];
    assert_eq!(timed_out["command"], first.id);
    has(timed_out["reason"].as_str().unwrap(), "no heartbeat");
    assert_eq!((second.kind(), second.session()), ("new", "auto"));
    scene.succeed(&second, "done");
    scene.await_status("completed");
}

/// The worker of an agent reports that its time is over, when the daemon knows it already and has made the next command.
#[test]
fn agent_over_its_deadline_fails_once_an_attempt() {
    let scene = Scene::by_rules("run.task_deadline = '700ms'\nrun.max_attempts = 3");
    let run = "run --no-input --plan one.md --agent command -- sh -c";
    let run = run
        .split(' ')
        .chain(["echo begun >> starts; exec sleep 1000"]);
    scene.exits(4, run.collect::<Vec<_>>());
    let status = scene.status();
    assert_eq!(picked(&status["tasks"][0], "attempts"), json!([3]));
    let starts = scene.read("volumes/workspace/starts");
    assert_eq!(starts.lines().count(), 3);
}

#[test]
fn heartbeats_do_not_extend_deadline() {
    let scene = Scene::by_rules("run.task_timeout = '1h'\nrun.task_deadline = '700ms'");
    let _daemon = scene.leave("run --plan one.md");
    let first = scene.take_any();
    let sign = scene.path(format!("active/{}.json", first.id));
    let mut beats = 0;
    wait_until("the deadline has passed", || {
        beats += 1;
        fs::write(
            &sign,
            format!("{{\"pid\": {beats}, \"session_id\": \"s-9\"}}"),
        )
        .unwrap();
        !scene.events_named("timed_out").is_empty()
    });
    has(
        scene.events_named("timed_out")[0]["reason"].to_string(),
        "not finished within",
    );
    let second = scene.await_attempt(2);
    assert_eq!((second.kind(), second.session()), ("continue", "s-9"));
}

#[test]
fn report_closes_unclaimed_command_question() {
    let scene = Scene::by_rules("run.task_timeout = '300ms'");
    let _daemon = scene.leave("run --plan one.md");
    let command = scene.await_any();
    let (id, text) = scene.await_questions(1).remove(0);
    has(
        &text,
        [
            "no worker takes commands",
            "resume --agent NAME",
            "plan-agent worker",
        ],
    );
    let expected = json!(["wait", "skip", "abort"]);
    assert_eq!(scene.status()["questions"][0]["choices"], expected);

    // In place: the command stays where it is.
    scene.succeed(&command, "done");
    scene.await_status("completed");
    assert_eq!(scene.events_named("question_closed")[0]["question"], id);
    assert!(scene.events_named("answered").is_empty());
    assert!(scene.events_named("timed_out").is_empty());
    scene.await_name("questions/answered", &format!("question-{id}.md"));
}

#[test]
fn late_report_counts_before_next_attempt_is_claimed() {
    let scene = Scene::by_rules("run.task_timeout = '300ms'");
    let _daemon = scene.leave("run --plan two.md");
    let first = scene.take_any();
    let second = scene.await_attempt(2);
    scene.succeed(&first, "done, but late");
    scene.await_name("commands/withdrawn", &format!("{}.md", second.id));
    scene.await_events("completed", 1);
    scene.await_name("reports/processed", &format!("report-{}.md", first.id));
    // A report on the withdrawn command is stale.
    scene.succeed(&second, "nobody asked for this");
    scene.await_name("reports/stale", &format!("report-{}.md", second.id));
    assert_eq!(scene.status()["tasks"][0]["result"], "done, but late");
    let judged = scene.events_named("judged");
    assert!(judged.iter().all(|event| event["command"] != second.id));
}

#[test]
fn report_after_verdict_is_stale() {
    let scene = Scene::by_rules("run.task_timeout = '300ms'");
    let _daemon = scene.leave("run --plan two.md");
    let first = scene.take_any();
    let second = scene.await_attempt(2);
    scene.succeed(&second, "in time");
    let other = scene.take_task(2);
    scene.fail(&first, "late");
    scene.await_name("reports/stale", &format!("report-{}.md", first.id));
    scene.succeed(&other, "done");
    scene.await_status("completed");
    assert_eq!(scene.events_named("stale")[0]["command"], first.id);
    assert_eq!(scene.status()["tasks"][0]["result"], "in time");
}

#[test]
fn judge_prompt_contains_stale_report() {
    let filed = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&filed);
    let server = LlmServer::start(move |asked| match asked.kind.as_str() {
        "plan" => planned(&[("First", &[])]),
        "judge" if asked.nth == 0 => {
            wait_until("the late report is filed", || gate.load(Ordering::SeqCst));
            verdict("retry", "Not yet.")
        }
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "run.task_timeout = '300ms'");
    let _daemon = scene.leave("run 'Do it'");
    let first = scene.take_any();
    let second = scene.await_attempt(2);
    scene.succeed(&second, "half of it");
    wait_until("the judge is asked", || server.count("judge") == 1);
    scene.fail(&first, "late but loud");
    scene.await_name("reports/stale", &format!("report-{}.md", first.id));
    filed.store(true, Ordering::SeqCst);
    let third = scene.await_attempt(3);
    scene.succeed(&third, "all of it");
    scene.await_status("completed");
    let asked = server.asked();
    let last = asked.iter().rfind(|asked| asked.kind == "judge").unwrap();
    has(last.prompt(), "late but loud");
}

#[test]
fn duplicate_and_unknown_reports_are_filed() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan two.md");
    let first = scene.take_any();
    scene.succeed(&first, "done");
    let second = scene.take_task(2);
    // Another report under the same name, the first one once more, and one for no command.
    let name = format!("report-{}.md", first.id);
    scene.await_name("reports/processed", &name);
    scene.fail(&first, "no, not at all");
    scene.await_name("reports/stale", &name);
    let expected = [report("FAILED", "no, not at all")];
    assert_eq!(scene.texts("reports/stale", ".md"), expected);
    scene.succeed(&first, "done");
    scene.await_name("reports/processed", &format!("report-{}-2.md", first.id));
    scene.submit("task-unknown", &report("SUCCESS", "of what?"));
    scene.await_name("reports/rejected", "report-task-unknown.md.reason.md");
    assert_eq!(scene.events_named("reported").len(), 1);
    // In upper case, and without `task-`.
    let short = second.id.strip_prefix("task-").unwrap();
    let text = report("success", "done");
    scene.drop_report(&format!("report-{short}.MD"), text.as_bytes());
    scene.await_status("completed");
    let judged = scene.events_named("judged").len();
    assert_eq!(judged, 2, "each task is decided once");
    assert_eq!(scene.status()["tasks"][0]["result"], "done");
}

#[test]
fn report_on_end_command_is_filed_quietly() {
    let scene = Scene::by_rules("");
    let agent = scene.agent(|_| Act::Report(report_in("s-1", "SUCCESS", "done")));
    scene.exits(0, "run --plan one.md");
    drop(agent);
    let folders = ["commands/processed", "commands/pending"];
    let texts = folders
        .into_iter()
        .flat_map(|folder| scene.texts(folder, ".md"));
    let mut ends = texts.filter(|text| text.contains("command_type: end"));
    let end = ends.next().unwrap();
    let id = end
        .lines()
        .find_map(|line| line.strip_prefix("id: "))
        .unwrap();
    scene.submit(id, &report_in("s-1", "SUCCESS", "It is over."));
    // Even if it cannot be read: nothing was to be reported.
    scene.drop_report(
        &format!("report-{}.md", id.strip_prefix("task-").unwrap()),
        b"Bye.",
    );
    let _agent = scene.agent(|_| Act::success("done"));
    let ran = scene.exits(0, "run --plan one.md");
    wait_until("both are filed", || {
        scene.names("reports/pending").is_empty()
    });
    assert!(
        scene.names("reports/rejected").is_empty(),
        "{:?}",
        scene.names("reports/rejected")
    );
    scene.await_name("reports/processed", &format!("report-{id}.md"));
    lacks(ran.stderr + &scene.daemon_log(), id);
}

#[test]
fn report_written_in_place_is_read_once() {
    let scene = Scene::by_rules("");
    let agent = scene.agent(|_| Act::InPlace(report("SUCCESS", "word by word")));
    scene.works("run --plan one.md");
    assert_eq!(agent.attempts(), [(1, 1)]);
    assert_eq!(scene.status()["tasks"][0]["result"], "word by word");
    assert!(scene.events_named("rejected").is_empty());
    // No other agent is to find the command that its agent has left there.
    wait_until("the command is gone", || scene.pending().is_empty());
}

#[test]
fn unreadable_report_is_repaired() {
    let scene = Scene::by_rules("");
    let repairs = |command: &Command| command.body().contains("only write the report once more");
    let agent = scene.agent(move |command| match repairs(command) {
        false => Act::Report("It is all done, believe me.\n\nstatus: SUCCESS\n".to_owned()),
        true => Act::Report(report_in("s-1", "SUCCESS", "done")),
    });
    scene.works("run --plan one.md");
    assert_eq!(agent.attempts(), [(1, 1), (1, 1)], "a repair is no attempt");
    let name = format!("report-{}.md", agent.seen()[0].id);
    let reason = scene.read(&format!("volumes/reports/rejected/{name}.reason.md"));
    has(&reason, ["front matter", "status"]);
    assert!(scene.path("reports/rejected").join(&name).exists());
    let repair = &agent.seen()[1];
    assert!(
        repair.body().contains("Make `one.txt`."),
        "whoever knows no session is told what it was about: {}",
        repair.body()
    );
    assert_eq!(scene.events_named("issued")[1]["kind"], "repair");
}

#[test]
fn persistently_unreadable_report_is_failure() {
    let scene = Scene::by_rules("run.max_attempts = 1");
    let agent = scene.agent(|_| Act::Report("no front matter".to_owned()));
    scene.exits(4, "run --plan one.md");
    assert_eq!(agent.attempts(), [(1, 1), (1, 1), (1, 1)]);
    let part = "none of 3 reports could be read";
    has(scene.status()["questions"][0]["reason"].to_string(), part);
    assert_eq!(scene.names("reports/rejected").len(), 6);
}

#[test]
fn usage_limit_is_a_wait_in_every_view() {
    let scene = Scene::by_rules("");
    let until = "2999-01-01T00:00:00Z";
    let report =
        format!("---\nstatus: FAILED\nblocked_until: {until}\n---\n## Core results\n\nHalf.\n");
    let _agent = scene.agent(move |_| Act::Report(report.clone()));
    let _daemon = scene.leave("run --plan one.md");
    scene.await_events("parked", 1);
    let task = &scene.status()["tasks"][0];
    assert!(task["waits_until"].is_string(), "{task}");
    has(
        scene.works("status"),
        "the agent's usage limit ends in 167 h",
    );
}

#[test]
fn usage_limit_costs_no_attempt() {
    let scene = Scene::by_rules("run.max_attempts = 1");
    let agent = scene.agent(|command| match command.attempt() {
        1 => Act::Report(
            "---\nstatus: FAILED\nsession_id: s-1\nblocked_until: 2020-01-01T00:00:00Z\n---\n## Core results\n\nHalf of it.\n"
                .to_owned(),
        ),
        _ => Act::success("all of it"),
    });
    scene.works("run --plan one.md");
    assert_eq!(agent.command(1, 2).session(), "s-1");
    assert_eq!(scene.events_named("parked").len(), 1);
}

#[test]
fn usage_limit_that_has_ended_again_and_again_is_waited_for() {
    let scene = Scene::by_rules("run.max_attempts = 1\nbudget.attempts = 1\n");
    let limit = "---\nstatus: FAILED\nblocked_until: 2020-01-01T00:00:00Z\n---\n## Core results\n\nHalf of it.\n";
    let agent = scene.agent(move |_| Act::Report(limit.to_owned()));
    let _daemon = scene.leave("run --plan one.md");
    scene.await_events("parked", 2);
    has(scene.works("status"), "the agent's usage limit ends in");
    assert_eq!(agent.attempts(), [(1, 1), (1, 2)]);
    assert_eq!(scene.status()["usage"]["attempts"], 0);
}

/// An agent that works with files may leave its command where it is, and another agent may come.
#[test]
fn command_that_was_answered_or_asked_for_again_is_no_more_in_the_way() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan chain.md");
    let first = scene.await_attempt(1);
    let alone = |command: &str| {
        wait_until("the other commands are gone", || {
            let ids: Vec<String> = scene.pending().into_iter().map(|it| it.id).collect();
            ids == [command]
        });
    };
    let another = |known: &[&Command]| {
        let is_new = |it: &Command| known.iter().all(|known| known.id != it.id);
        scene.await_command("it is asked for again", is_new)
    };
    scene.submit(&first.id, "---\nstatus: done?\n---\n");
    let second = another(&[&first]);
    alone(&second.id);
    // A person mends the file that was rejected, in vain, under the name that it had.
    scene.submit(&first.id, "---\nstatus: well\n---\n");
    let third = another(&[&first, &second]);
    alone(&third.id);
    scene.succeed(&third, "done");
    let next = scene.await_command("task 2", |command| command.task() == 2);
    alone(&next.id);
}

#[test]
fn report_that_was_mended_after_its_repair_was_judged_counts_no_more() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan one.md");
    let first = scene.take_any();
    scene.submit(&first.id, "---\nstatus: done?\n---\n");
    let repair = scene.take_any();
    scene.fail(&repair, "nothing works");
    let second = scene.await_attempt(2);
    scene.succeed(&first, "done");
    scene.await_name("reports/stale", &format!("report-{}.md", first.id));
    scene.succeed(&second, "all of it");
    scene.await_status("completed");
    assert_eq!(scene.events_named("stale").len(), 1);
}

/// Before it is rejected, a file of that name may still be renamed to its final name.
#[test]
fn misnamed_report_is_rejected_and_logged() {
    let scene = Scene::by_rules("");
    let run = scene.start("run --plan one.md");
    let command = scene.take_any();
    let names = [
        "report.md".to_owned(),
        "REPORT.MD".to_owned(),
        "report-..md".to_owned(),
        "my results\u{202e}.md".to_owned(),
    ];
    let id = &command.id;
    let meant = ["{}.md", "{} (1).md", "report-{}.md.txt"].map(|name| name.replace("{}", id));
    for name in names.iter().chain(&meant) {
        scene.drop_report(name, report("SUCCESS", "done").as_bytes());
    }
    for name in &names {
        let reason = format!("{name}.reason.md");
        scene.await_name("reports/rejected", name);
        has(
            scene.read(&format!("volumes/reports/rejected/{reason}")),
            "`report-<command id>.md`",
        );
    }
    for name in &meant {
        scene.await_name("reports/rejected", name);
    }
    assert_eq!(scene.names("reports/pending"), [] as [&str; 0]);
    assert!(scene.events_named("reported").is_empty());
    let log = scene.works("log");
    let right = format!("its name is not `report-{id}.md`");
    assert_eq!(log.matches(&right).count(), 3, "{log}");
    scene.succeed(&command, "done");
    let ran = run.end().exits(0);
    for name in names.map(|name| name.replace('\u{202e}', "")) {
        let told = format!("`{name}` is not read: its name is not `report-<command id>.md`");
        assert!(log.contains(&told), "{told}: {log}");
        assert!(ran.stdout.contains(&told), "{told}: {ran:?}");
    }
}

#[test]
fn report_with_long_name_is_filed_shortened() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan one.md");
    let command = scene.take_any();
    let long = |end: &str, bytes: usize| {
        let name = format!("report-{}", "é".repeat(200));
        let most = name.floor_char_boundary(bytes - end.len());
        name[..most].to_owned() + end
    };
    let dropped = [
        long(".md", 255),
        long("-b.md", 255),
        long(".md", 246),
        long(".md", 245),
        format!("report-{}.md", "x".repeat(245)),
    ];
    for name in &dropped {
        let pending = scene.path("reports/pending");
        fs::write(pending.join(name), name).unwrap();
    }
    wait_until("all of them are filed", || {
        scene.names("reports/pending").is_empty()
    });
    let rejected = scene.names("reports/rejected");
    let (reasons, files): (Vec<&String>, Vec<&String>) = rejected
        .iter()
        .partition(|name| name.ends_with(".reason.md"));
    assert!(rejected.iter().all(|name| name.starts_with("report-")));
    assert!(files.iter().all(|name| name.ends_with(".md")), "{files:?}");
    let read =
        |name: &&String| fs::read_to_string(scene.path("reports/rejected").join(name)).unwrap();
    let mut texts: Vec<String> = files.iter().map(read).collect();
    let mut expected = dropped.to_vec();
    texts.sort();
    expected.sort();
    assert_eq!(texts, expected, "each is there, and whole");
    for name in files {
        assert!(reasons.contains(&&format!("{name}.reason.md")), "{name}");
    }
    scene.succeed(&command, "done");
    scene.await_status("completed");
    lacks(scene.daemon_log(), "trying again");
}
