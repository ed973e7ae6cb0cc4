//! What another process, or a broken disk, does to the database: it is reported, nothing goes on as if there had been no plans,
//! and what is left can be read.

use std::os::unix::fs::PermissionsExt;

use super::*;

const DATABASE: &str = "plan-agent.db";
const JOURNAL: &str = "plan-agent.db-wal";
const INDEX: &str = "plan-agent.db-shm";
const NOTES: &str = "plan-agent.db-committed";

/// The database and its journal as they were.
struct Files([(PathBuf, Vec<u8>); 2]);

impl Files {
    fn of(scene: &Scene) -> Self {
        Self([DATABASE, JOURNAL].map(|name| {
            let path = scene.path(name);
            let bytes = fs::read(&path).unwrap();
            (path, bytes)
        }))
    }

    fn put_back(&self) {
        for (path, bytes) in &self.0 {
            fs::write(path, bytes).unwrap();
        }
    }
}

/// Leaves a plan behind whose second task is at work, and kills its daemon.
fn killed() -> (Scene, Command) {
    killed_when(true)
}

/// As [`killed`]; where the second task was not yet `claimed`, an agent takes its command afterwards, which the database does not
/// know.
fn killed_when(claimed: bool) -> (Scene, Command) {
    let scene = Scene::by_rules("");
    let daemon = scene.leave("run --plan chain.md");
    let first = scene.take_any();
    scene.succeed(&first, "done");
    let second = scene.await_any();
    if claimed {
        assert!(scene.claim(&second.id));
        scene.await_events("claimed", 2);
    }
    let left = Files::of(&scene);
    kill(&scene, daemon);
    // Another process that looked meanwhile may have been the last to close it, and have moved the journal.
    left.put_back();
    drop(fs::remove_file(scene.path(INDEX)));
    assert!(claimed || scene.claim(&second.id));
    (scene, second)
}

/// Changes a byte in the midst of the journal, as a broken disk does.
fn damage_journal(scene: &Scene) {
    let path = scene.path(JOURNAL);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() * 2 / 3;
    bytes[middle] ^= 4;
    fs::write(path, bytes).unwrap();
}

fn last_change(scene: &Scene) -> i64 {
    scene.events().last().unwrap()["seq"].as_i64().unwrap()
}

#[test]
fn changes_lost_with_a_damaged_journal_are_reported_until_the_plan_goes_on() {
    let (scene, _) = killed();
    let left = Files::of(&scene);
    let (plan, committed) = (plan_id(&scene), last_change(&scene));
    // A command that looked may have moved the journal.
    left.put_back();
    drop(fs::remove_file(scene.path(INDEX)));
    damage_journal(&scene);
    let left = last_change(&scene);
    assert!(0 < left && left < committed, "{left} of {committed}");
    let lost = format!(
        "warning: the database lost {} changes of plan `{plan}`: it goes up to {left}, {committed} were committed",
        committed - left
    );
    for args in ["status --json", "plans", "tool TaskList {}"] {
        let ran = scene.run(args);
        assert!(ran.stderr.starts_with(&lost), "{args:?}: {ran:?}");
        ran.has_stderr("Hint: ");
    }
    let _agent = scene.agent(|_| Act::success("done"));
    let ran = scene.exits(0, "resume");
    ran.has_stderr(&lost);
    assert!(scene.daemon_log().contains(&lost["warning: ".len()..]));
    let ran = scene.run("status");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}

/// As a backup does that is restored.
#[test]
fn command_that_was_reported_after_the_database_was_copied_is_done_anew_at_once() {
    for claimed in [true, false] {
        let (scene, second) = killed_when(claimed);
        done_anew_after_restore(&scene, &second);
    }
}

fn done_anew_after_restore(scene: &Scene, second: &Command) {
    let copy = Files::of(scene);
    scene.succeed(second, "done");
    let agent = scene.agent(|_| Act::success("done"));
    scene.exits(0, "resume");
    drop(agent);
    let report = format!("report-{}.md", second.id);
    assert!(scene.names("reports/processed").contains(&report));
    copy.put_back();
    drop(fs::remove_file(scene.path(INDEX)));
    let _daemon = scene.leave("resume");
    let again = scene.take_any();
    assert_ne!(again.id, second.id);
    assert_eq!(again.task(), second.task());
    let task = &scene.status()["tasks"][1];
    assert_eq!(task["failures"].as_u64().unwrap_or_default(), 0, "{task}");
}

#[test]
fn a_plan_that_is_gone_with_the_journal_is_reported() {
    let (scene, _) = killed();
    let (plan, committed) = (plan_id(&scene), last_change(&scene));
    // On a busy machine the daemon, or whoever read the plan last, may have moved it by then; else the file has no tables.
    drop(fs::remove_file(scene.path(JOURNAL)));
    let database = rusqlite::Connection::open(scene.path(DATABASE)).unwrap();
    for table in ["plans", "plan_rows", "log"] {
        let emptied = format!("DELETE FROM {table}");
        drop(database.execute_batch(&emptied));
    }
    drop(database);
    let lost = format!("lost plan `{plan}`: {committed} changes of it had been committed");
    for _ in 0..2 {
        scene.refuses(1, "status", &lost);
    }
    let _agent = scene.agent(|_| Act::success("done"));
    let ran = scene.exits(0, "run --plan one.md");
    ran.has_stderr(&lost);
    assert_eq!(scene.run("status").stderr, "");
}

#[test]
fn notes_that_a_power_cut_tore_or_took_back_are_no_alarm() {
    let (scene, second) = killed();
    let path = scene.path(NOTES);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let whole = fs::read(&path).unwrap();
    let torn = |cut: usize| [&whole[..cut], &vec![0; whole.len() - cut]].concat();
    let cuts = (0..whole.len()).step_by(23);
    let cases = cuts.flat_map(|cut| [whole[..cut].to_vec(), whole[cut..].to_vec(), torn(cut)]);
    for notes in cases {
        fs::write(&path, &notes).unwrap();
        let ran = scene.run("plans");
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{notes:?}");
    }
    // What is added to a torn line is read.
    fs::write(&path, &whole[..whole.len() - 3]).unwrap();
    scene.succeed(&second, "done");
    let _agent = scene.agent(|_| Act::success("done"));
    assert_eq!(scene.run("resume").code, Some(0));
    let committed = last_change(&scene);
    let notes = fs::read_to_string(&path).unwrap();
    assert_eq!(
        notes.lines().last(),
        Some(&*json!([plan_id(&scene), committed]).to_string())
    );
}

#[test]
fn notes_in_whose_place_something_else_is_stop_nobody() {
    let scene = Scene::by_rules("");
    let theirs = scene.env.path("theirs");
    fs::write(&theirs, "theirs").unwrap();
    fs::create_dir(scene.path("")).unwrap();
    std::os::unix::fs::symlink(&theirs, scene.path(NOTES)).unwrap();
    let _agent = scene.agent(|_| Act::success("done"));
    scene.exits(0, "run --plan one.md");
    assert_eq!(fs::read_to_string(theirs).unwrap(), "theirs");
}

#[test]
fn a_daemon_whose_database_is_emptied_says_so_and_waits() {
    let scene = Scene::by_rules("");
    let mut foreground = scene.start("run --plan chain.md");
    let first = scene.take_any();
    scene.await_events("claimed", 1);
    let left = Files::of(&scene);
    let committed = last_change(&scene);
    fs::write(scene.path(DATABASE), "").unwrap();
    scene.succeed(&first, "done");
    let said = || fs::read_to_string(&foreground.err).unwrap();
    wait_until("it says so", || said().contains("was emptied or cut short"));
    assert!(foreground.running.child.try_wait().unwrap().is_none());
    for args in ["status", "plans", "tool TaskList {}", "resume"] {
        let ran = scene.run(args);
        assert_ne!(ran.code, Some(0), "{args:?}: {ran:?}");
        if args != "resume" {
            ran.has_stderr(["plans were in it, and the file is empty", "Hint: "]);
        }
    }
    foreground.signal(Signal::TERM);
    assert_ne!(foreground.running.wait().code(), Some(0));
    // Nothing was written into what is left.
    let Files([(database, _), (journal, bytes)]) = &left;
    assert_eq!(fs::read(database).unwrap(), b"");
    assert!(fs::read(journal).unwrap().starts_with(bytes));
    scene.refuses(1, "resume", "plans were in it, and the file is empty");
    left.put_back();
    assert_eq!(last_change(&scene), committed);
    let _agent = scene.agent(|_| Act::success("done"));
    scene.exits(0, "resume");
    assert_eq!(scene.tasks(), ["completed"; 3]);
}

#[test]
fn a_daemon_whose_journal_is_removed_says_so_and_loses_nothing() {
    let scene = Scene::by_rules("");
    let mut foreground = scene.start("run --plan chain.md");
    let first = scene.take_any();
    scene.await_events("claimed", 1);
    let committed = last_change(&scene);
    fs::remove_file(scene.path(JOURNAL)).unwrap();
    scene.succeed(&first, "done");
    let said = || fs::read_to_string(&foreground.err).unwrap();
    wait_until("it says so", || said().contains("was removed or replaced"));
    foreground.signal(Signal::KILL);
    foreground.running.wait();
    drop(fs::remove_file(scene.path(INDEX)));
    assert_eq!(last_change(&scene), committed);
    let _agent = scene.agent(|_| Act::success("done"));
    scene.exits(0, "resume");
    assert_eq!(scene.tasks(), ["completed"; 3]);
}

/// A backup is put back while a daemon works, and while one has nothing to do: neither goes on with a file that no other process
/// sees, and the next one takes what is there.
#[test]
fn daemon_whose_database_is_replaced_ends() {
    for at_work in [false, true] {
        crate::common::env::row(at_work);
        let scene = Scene::by_rules("");
        let daemon = scene.start_as("daemon", "daemon");
        if at_work {
            scene.works("run --queue --plan chain.md");
            scene.await_any();
        } else {
            wait_until("it runs", || scene.path("daemon.json").exists());
        }
        let backup = Files::of(&scene);
        for (path, _) in &backup.0 {
            fs::remove_file(path).unwrap();
        }
        drop(fs::remove_file(scene.path(INDEX)));
        backup.put_back();
        let ran = daemon.end().exits(5);
        ran.has_stderr(["plan-agent.db` was removed or replaced", "Hint: "]);
        let _agent = scene.agent(|_| Act::success("done"));
        scene.exits(
            0,
            if at_work {
                "resume"
            } else {
                "run --plan chain.md"
            },
        );
        assert_eq!(scene.tasks(), ["completed"; 3]);
    }
}

#[test]
fn an_empty_file_where_plans_were_is_no_new_database() {
    let (scene, _) = killed();
    let doctor = scene.works("doctor");
    let size = doctor.lines().find(|line| line.contains("  database  "));
    assert!(
        size.is_some_and(|size| size.starts_with("ok") && size.ends_with(" MiB")),
        "{doctor}"
    );
    for (empty, what) in [(true, "the file is empty"), (false, "the file is gone")] {
        let path = scene.path(DATABASE);
        match empty {
            true => fs::write(path, "").unwrap(),
            false => fs::remove_file(path).unwrap(),
        }
        for args in ["status", "plans", "log", "resume"] {
            let ran = scene.run(args);
            assert_ne!(ran.code, Some(0), "{args:?}: {ran:?}");
            let expected = format!("plans were in it, and {what}");
            // What a command that goes on with a plan makes first is an empty folder at most.
            assert!(ran.stderr.contains(&expected), "{args:?}: {ran:?}");
            ran.has_stderr("Hint: ");
        }
        let ran = scene.exits(1, "doctor");
        ran.has_stdout("!!  database   failed to open the plan store");
    }
    for name in [JOURNAL, NOTES] {
        fs::remove_file(scene.path(name)).unwrap();
    }
    let ran = scene.run("plans");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}

/// Runs the program where the folder of the exchange cannot be written to by anybody; `None`, and why, where there is no way.
fn run_read_only(scene: &Scene, args: &[&str]) -> Option<Ran> {
    const SCRIPT: &str = "mount --bind volumes volumes && mount -o remount,ro,bind volumes \
        || exit 77\nexec \"$@\"";
    let starter = ["unshare", "-r", "--mount", "sh", "-c", SCRIPT, "sh"];
    if std::process::Command::new("unshare")
        .arg("--version")
        .output()
        .is_err()
    {
        skip("there is no `unshare`");
        return None;
    }
    let ran = scene.env.run_under(&starter, args);
    let mounted = !ran.stderr.starts_with("unshare:") && ran.code != Some(77);
    if !mounted {
        skip(&format!("nothing can be mounted here: {}", ran.stderr));
    }
    mounted.then_some(ran)
}

/// Moves everything from the journal into the database, as who makes a copy for others does.
fn close(scene: &Scene) {
    let database = rusqlite::Connection::open(scene.path(DATABASE)).unwrap();
    let plans = database.query_row("SELECT COUNT(*) FROM plans", [], |row| row.get::<_, i64>(0));
    assert_eq!(plans.unwrap(), 1);
    database.close().unwrap();
    assert!(!scene.path(JOURNAL).exists());
}

#[test]
fn plans_in_a_folder_that_cannot_be_written_to_can_be_read() {
    let scene = Scene::by_rules("");
    let task = json!({"subject": "Count", "description": "Count it"}).to_string();
    scene.works(["tool", "TaskCreate", &task]);
    let reads: [&[&str]; 6] = [
        &["status", "--json"],
        &["show"],
        &["log", "--json"],
        &["why", "1"],
        &["tool", "TaskList", "{}"],
        &["tool", "TaskGet", r#"{"taskId": "1"}"#],
    ];
    let expected = reads.map(|args| scene.works(args));
    for closed in [false, true] {
        if closed {
            close(&scene);
        }
        for (args, expected) in reads.iter().zip(&expected) {
            let Some(ran) = run_read_only(&scene, args) else {
                return;
            };
            assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
            assert_eq!(
                (&ran.stdout, ran.stderr.as_str()),
                (expected, ""),
                "{args:?}"
            );
        }
        let ran = run_read_only(&scene, &["tool", "TaskCreate", &task]).unwrap();
        assert_eq!(ran.code, Some(1), "{ran:?}");
        ran.has_stdout("readonly database");
    }
    assert_eq!(scene.works("log --json"), expected[2]);
}
