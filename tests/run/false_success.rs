//! Agents that report SUCCESS without having succeeded.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;

/// An agent that does something instead of its task.
struct Liar {
    what: &'static str,
    /// The task's attributes.
    asked: &'static str,
    does: fn(&Path),
    report: Option<&'static str>,
}

const CONFIG: &str = "\
run.max_attempts = 1
[checks]
fine = { run = ['true'] }
fails = { run = ['sh', '-c', 'echo 1 of 9 tests failed; exit 1'] }
hangs = { run = ['sleep', '1000'], timeout = '200ms' }
missing = { run = ['no-such-program'] }
killed = { run = ['sh', '-c', 'kill -9 $$'] }
content = { run = ['grep', '-q', 'done', 'content.txt'] }
outside = { run = ['test', '-e', 'here.txt'] }
";

fn nothing(_: &Path) {}

fn write(workspace: &Path, name: &str, text: &str) {
    let path = workspace.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn liar(what: &'static str, asked: &'static str, does: fn(&Path)) -> Liar {
    Liar {
        what,
        asked,
        does,
        report: None,
    }
}

fn liars() -> Vec<Liar> {
    vec![
        liar("the check fails", "- checks: fails", nothing),
        liar("one of two checks fails", "- checks: fine, fails", nothing),
        liar("the check hangs", "- checks: hangs", nothing),
        liar("the check cannot be run", "- checks: missing", nothing),
        liar("the check is killed", "- checks: killed", nothing),
        liar(
            "the file has not what it should",
            "- produces: content.txt\n- checks: content",
            |w| {
                write(w, "content.txt", "TODO\n");
            },
        ),
        liar("the file is missing", "- produces: missing.txt", nothing),
        liar(
            "one of two files is missing",
            "- produces: a.txt, b.txt",
            |w| write(w, "a.txt", "a"),
        ),
        liar("the file is empty", "- produces: empty.txt", |w| {
            write(w, "empty.txt", "");
        }),
        liar("the file is blank", "- produces: blank.txt", |w| {
            write(w, "blank.txt", "\n \n");
        }),
        liar("a folder has its name", "- produces: folder.txt", |w| {
            write(w, "folder.txt/x", "x");
        }),
        liar("a link leads out to a file", "- produces: link.txt", |w| {
            symlink("/etc/passwd", w.join("link.txt")).unwrap();
        }),
        liar("its folder leads out", "- produces: out/there.txt", |w| {
            symlink("../..", w.join("out")).unwrap();
            write(w, "../../there.txt", "x");
        }),
        liar("a link leads nowhere", "- produces: dangling.txt", |w| {
            symlink("nowhere.txt", w.join("dangling.txt")).unwrap();
        }),
        liar("a pipe has its name", "- produces: pipe.txt", |w| {
            let mode = Mode::RUSR | Mode::WUSR;
            mknodat(CWD, w.join("pipe.txt"), FileType::Fifo, mode, 0).unwrap();
        }),
        liar(
            "the file is beside the workspace",
            "- produces: beside.txt",
            |w| {
                write(w, "../beside.txt", "x");
            },
        ),
        liar(
            "a check finds nothing in the workspace",
            "- checks: outside",
            |w| {
                write(w, "../here.txt", "x");
            },
        ),
        liar(
            "the file is in another folder",
            "- produces: src/deep.txt",
            |w| write(w, "deep.txt", "x"),
        ),
        liar(
            "the file was there before and is untouched",
            "- produces: old.txt",
            nothing,
        ),
        liar("the file is removed again", "- produces: gone.txt", |w| {
            write(w, "gone.txt", "x");
            fs::remove_file(w.join("gone.txt")).unwrap();
        }),
        Liar {
            report: Some(
                "---\nstatus: SUCCESS\n---\n\n## Core results\n\nWritten.\n\n## Pitfalls\n\nPermission to use Write was refused.\n",
            ),
            ..liar("permission was refused", "- produces: refused.txt", nothing)
        },
        Liar {
            report: Some(""),
            ..liar("the report is empty", "- checks: fine", nothing)
        },
        Liar {
            report: Some("SUCCESS: all 9 tests pass, exit code 0.\n"),
            ..liar("it is only said", "- checks: fine", nothing)
        },
    ]
}

/// Makes a plan with a task for each liar, one that is done as requested, and one without a check.
fn plan(liars: &[Liar]) -> String {
    let head = "---\nname: Lies\ngoal: Believe nobody\n---\n";
    let asked = liars.iter().map(|liar| (liar.what, liar.asked));
    let honest = [
        (
            "honest",
            "- produces: honest.txt\n- checks: fine\n- expected: It says so (file: honest.txt, contains: done)",
        ),
        ("unchecked", "- optional: false"),
    ];
    let tasks = asked.chain(honest);
    let task = |(what, asked)| format!("\n## {what}\n\n{asked}\n\nDo it.\n");
    std::iter::once(head.to_owned())
        .chain(tasks.map(task))
        .collect()
}

fn start(scene: &Scene) -> Agent {
    scene.write("volumes/workspace/old.txt", "from before\n");
    scene.write("lies.md", &plan(&liars()));
    let workspace = scene.env.path("volumes/workspace");
    // The time of the last write is known only in ticks of the file system's clock.
    let old = workspace.join("old.txt");
    wait_until("the file is old", || {
        let changed = fs::metadata(&old).unwrap().modified().unwrap();
        changed
            .elapsed()
            .is_ok_and(|age| age > std::time::Duration::from_millis(50))
    });
    scene.agent(move |command| {
        let at = command.task() as usize - 1;
        let liars = liars();
        let Some(liar) = liars.get(at) else {
            if at == liars.len() {
                write(&workspace, "honest.txt", "done\n");
            }
            return Act::success("it is done");
        };
        if command.attempt() == 1 && command.kind() == "new" {
            (liar.does)(&workspace);
        }
        match liar.report {
            Some(report) => Act::Report(report.to_owned()),
            None => Act::success("everything is done, every check passes"),
        }
    })
}

fn nobody_is_believed(scene: &Scene) {
    let status = scene.status();
    let tasks = status["tasks"].as_array().unwrap();
    let liars = liars();
    assert_eq!(tasks.len(), liars.len() + 2);
    assert!(liars.len() >= 20);
    for (task, liar) in tasks.iter().zip(&liars) {
        assert_eq!(task["status"], "in_progress", "{}: {task}", liar.what);
        assert_eq!(task["proven"], Value::Null, "{}", liar.what);
    }
    let [honest, unchecked] = &tasks[liars.len()..] else {
        panic!("{tasks:?}");
    };
    for (task, proven) in [(honest, true), (unchecked, false)] {
        let expected = json!(["completed", proven]);
        assert_eq!(picked(task, "status proven"), expected);
    }
}

#[test]
fn rules_reject_false_success() {
    let scene = Scene::by_rules(CONFIG);
    let _agent = start(&scene);
    scene.exits(4, "run --plan lies.md --no-input");
    nobody_is_believed(&scene);
    let last = liars().len() + 2;
    let part = "not proven: no check is bound to it";
    has(scene.works(["why", &last.to_string()]), part);
    let mission = scene.read("volumes/workspace/MISSION.md");
    has(&mission, "honest — completed, proven");
    has(&mission, "unchecked — completed, accepted");
    let page = scene.works("status --limit 100");
    has(&page, ["honest · ✓ proven", "unchecked · ~ accepted"]);
}

/// The model says `next` to everything.
#[test]
fn false_success_is_rejected_despite_model() {
    let server = LlmServer::start(all_well);
    let scene = Scene::with_model(&server, Shape::Chat, CONFIG);
    let _agent = start(&scene);
    scene.exits(4, "run --plan lies.md --no-input");
    nobody_is_believed(&scene);
}
