//! A power cut: files are put into their place without a flush, so that it may leave them empty, as zeros, or in part. The
//! store has their contents, and the next start restores them, unless another process has written something else.

use super::*;
use crate::common::agent::report;

/// How a file is torn: returns what its text becomes.
type Tear = fn(&str) -> Vec<u8>;

fn half(text: &str) -> &[u8] {
    &text.as_bytes()[..text.len() / 2]
}

fn zeros(count: usize) -> Vec<u8> {
    vec![0; count]
}

const TORN: [(&str, Tear); 6] = [
    ("empty", |_| Vec::new()),
    ("half", |text| half(text).to_vec()),
    ("all but its end", |text| {
        text.as_bytes()[..text.len() - 1].to_vec()
    }),
    ("zeros", |text| zeros(text.len())),
    ("some zeros", |text| zeros(text.len() / 3)),
    ("half, then zeros", |text| {
        [half(text), &zeros(text.len() - text.len() / 2)].concat()
    }),
];

const EDITED: [(&str, Tear); 4] = [
    ("whole", |text| text.as_bytes().to_vec()),
    ("more text", |text| format!("{text}\nAnd more.\n").into()),
    ("less text", |text| text.replacen("Do it", "Do", 1).into()),
    ("more zeros than text", |text| zeros(text.len() + 1)),
];

/// The other facts about a command in `processed` for which it is left alone.
#[derive(Clone, Copy, PartialEq)]
enum Held {
    No,
    ByItsLock,
    ByALivingAgent,
    Reported,
}

struct Case {
    what: String,
    folder: &'static str,
    tear: Tear,
    held: Held,
    /// It is put back whole, among the commands that no worker has claimed.
    mended: bool,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for folder in ["commands/pending", "commands/processed"] {
        for (mended, tears) in [(true, &TORN[..]), (false, &EDITED[..])] {
            cases.extend(tears.iter().map(|(what, tear)| Case {
                what: format!("{folder}: {what}"),
                folder,
                tear: *tear,
                held: Held::No,
                mended,
            }));
        }
    }
    for (what, held) in [
        ("its lock is held", Held::ByItsLock),
        ("its agent lives", Held::ByALivingAgent),
        ("there is a report", Held::Reported),
    ] {
        cases.push(Case {
            what: format!("half, but {what}"),
            folder: "commands/processed",
            tear: |text| half(text).to_vec(),
            held,
            mended: false,
        });
    }
    cases
}

/// Waits until a daemon has scanned the folders after its start.
fn await_a_look(scene: &Scene) {
    scene.submit("task-nobody", &report("SUCCESS", "of what?"));
    scene.await_name("reports/rejected", "report-task-nobody.md");
}

#[test]
fn torn_commands_are_restored_whole() {
    let cases = cases();
    let (scene, daemon, commands) = handed_out(cases.len());
    kill(&scene, daemon);
    let place = |folder: &str, id: &str| scene.path(folder).join(format!("{id}.md"));
    let mut locks = Vec::new();
    for (case, command) in cases.iter().zip(&commands) {
        if case.folder == "commands/processed" {
            assert!(scene.claim(&command.id));
        }
        fs::write(place(case.folder, &command.id), (case.tear)(&command.text)).unwrap();
        let active = |kind| scene.path(format!("active/{}.{kind}", command.id));
        match case.held {
            Held::No => {}
            Held::ByItsLock => {
                let lock = File::create(active("lock")).unwrap();
                lock.lock().unwrap();
                locks.push(lock);
            }
            Held::ByALivingAgent => {
                let sign = json!({"pid": std::process::id()}).to_string();
                fs::write(active("json"), sign).unwrap();
            }
            Held::Reported => scene.succeed(command, "done"),
        }
    }

    let _daemon = scene.leave("resume");
    await_a_look(&scene);
    let mut torn = Vec::new();
    for (case, command) in cases.iter().zip(&commands) {
        let pending = place("commands/pending", &command.id);
        if case.mended {
            wait_until(&format!("{} is whole", case.what), || {
                fs::read_to_string(&pending).is_ok_and(|text| text == command.text)
            });
            let taken = place("commands/processed", &command.id);
            assert!(!taken.exists(), "{}", case.what);
            torn.push((case.tear)(&command.text));
        }
    }
    for (case, command) in cases.iter().zip(&commands).filter(|(case, _)| !case.mended) {
        let there = fs::read(place(case.folder, &command.id)).unwrap();
        assert_eq!(there, (case.tear)(&command.text), "{}", case.what);
        let pending = place("commands/pending", &command.id).exists();
        assert_eq!(pending, case.folder == "commands/pending", "{}", case.what);
    }
    // Torn files are kept like all others.
    let withdrawn = scene.names("commands/withdrawn");
    assert!(withdrawn.iter().all(|name| name.ends_with(".torn.md")));
    let mut kept: Vec<Vec<u8>> = withdrawn
        .iter()
        .map(|name| fs::read(scene.path("commands/withdrawn").join(name)).unwrap())
        .collect();
    kept.sort();
    torn.sort();
    assert_eq!(kept, torn);

    for (case, command) in cases.iter().zip(&commands) {
        if case.held != Held::Reported {
            scene.succeed(command, "done");
        }
    }
    scene.await_status("completed");
    assert_eq!(scene.events_named("issued").len(), cases.len());
    for name in ["timed_out", "withdrawn", "asked"] {
        assert_eq!(scene.events_named(name), [] as [Value; 0], "{name}");
    }
}

/// An agent that keeps its prompt.
const KEEPS: &str = "cat \"$2\" > told; \
    printf -- '---\\nstatus: SUCCESS\\n---\\n\\n## Core results\\n\\ndone\\n' > done; mv done \"$1\"";

/// The workers of the same process do not begin before the recovery.
#[test]
fn daemon_worker_never_claims_torn_command() {
    for (what, folder, left_behind) in [
        ("nobody had it", "commands/pending", false),
        ("a worker had it", "commands/processed", true),
    ] {
        let (scene, daemon, commands) = handed_out(1);
        kill(&scene, daemon);
        let id = &commands[0].id;
        if left_behind {
            assert!(scene.claim(id));
            // A worker that died has left its lock behind, which was not flushed either.
            fs::write(scene.path(format!("active/{id}.lock")), zeros(7)).unwrap();
        }
        let path = scene.path(folder).join(format!("{id}.md"));
        fs::write(path, half(&commands[0].text)).unwrap();
        let ran = scene.run([
            "resume",
            "--agent",
            "command",
            "--",
            "sh",
            "-c",
            KEEPS,
            "sh",
            "{report}",
            "{prompt_file}",
        ]);
        assert_eq!(ran.code, Some(0), "{what}: {ran:?}");
        let told = scene.read("volumes/workspace/told");
        let end = commands[0].body().trim_end();
        let end = &end[end.len() - 80..];
        assert!(told.contains(end), "{what}: {told}");
        assert_eq!(scene.events_named("issued").len(), 1, "{what}");
    }
}

#[test]
fn torn_questions_are_restored_and_answers_kept() {
    let answered = |text: &str| text.replacen("answer:", "answer: perhaps", 1).into_bytes();
    let kept: (&str, Tear) = ("filled in", answered);
    for (what, tear) in TORN.into_iter().chain([kept]) {
        let scene = Scene::by_rules("run.max_attempts = 1");
        let daemon = scene.leave("run --plan one.md");
        let command = scene.take_any();
        scene.fail(&command, "not today");
        let (id, text) = scene.await_questions(1).remove(0);
        kill(&scene, daemon);
        let question = format!("questions/pending/question-{id}.md");
        fs::write(scene.path(&question), tear(&text)).unwrap();
        let _daemon = scene.leave("resume");
        if what == kept.0 {
            let complaint = format!("question-{id}.problem.md");
            scene.await_name("questions/pending", &complaint);
            let there = fs::read(scene.path(&question)).unwrap();
            assert_eq!(there, tear(&text), "{what}");
        } else {
            wait_until(&format!("{what}: it is whole"), || {
                scene.questions() == [(id.clone(), text.clone())]
            });
        }
        scene.fill_in(&id, "skip", "not needed");
        scene.await_status("completed");
    }
}

/// A role's request to a worker behind files is a command like any other.
#[test]
fn torn_role_request_is_restored_whole() {
    let scene = Scene::by_rules("");
    let daemon = passes(&scene, &team::asks_coder(""), &team::one_for("a"));
    let request = scene.await_command("the request", |command| {
        command.field("request_id").is_some()
    });
    kill(&scene, daemon);
    let path = format!("commands/pending/{}.md", request.id);
    fs::write(scene.path(path), half(&request.text)).unwrap();
    let _daemon = scene.leave("resume --team team.yaml");
    let whole = scene.await_command("the whole request", |command| command.text == request.text);
    assert!(scene.claim(&whole.id));
    scene.succeed(&whole, "done");
    scene.await_status("completed");
}

/// Carries out a plan whose agent names a session, and returns the command that ends that session.
fn ended(scene: &Scene) -> Command {
    let text = report_of_a_session();
    let _agent = scene.agent(move |_| Act::Report(text.clone()));
    scene.exits(0, "run --plan one.md");
    let mut ends = scene.texts("commands/processed", ".md");
    ends.extend(scene.texts("commands/pending", ".md"));
    let mut end = ends.into_iter();
    let end = end.find(|text| text.contains("command_type: end")).unwrap();
    let id = end.lines().find_map(|line| line.strip_prefix("id: "));
    Command {
        id: id.unwrap().to_owned(),
        text: end.clone(),
    }
}

fn report_of_a_session() -> String {
    crate::common::agent::report_in("s-1", "SUCCESS", "done")
}

#[test]
fn session_ends_once_despite_cleared_folders() {
    let scene = Scene::by_rules("");
    let end = ended(&scene);
    for folder in ["commands/processed", "commands/pending"] {
        for name in scene.names(folder) {
            fs::remove_file(scene.path(folder).join(name)).unwrap();
        }
    }
    for _ in 0..2 {
        scene.exits(0, "resume");
        assert_eq!(scene.names("commands/pending"), [] as [&str; 0]);
    }

    // A torn command in that folder is restored, though.
    let pending = format!("commands/pending/{}.md", end.id);
    fs::write(scene.path(&pending), half(&end.text)).unwrap();
    scene.exits(0, "resume");
    let there = fs::read_to_string(scene.path(&pending)).unwrap();
    assert_eq!(there, end.text);
}
