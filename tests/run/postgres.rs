//! Plans that a PostgreSQL server keeps: a server of the tests' own, see [`crate::common::postgres`].

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command as Program;

use super::*;
use crate::common::postgres::{Cluster, as_owner, empty_store, free_port, own_cluster, run_sql};

const URL: &str = "PLAN_AGENT_STORE_URL";

/// Writes its environment into the workspace.
const CURIOUS: &str = "---\nname: Curious\ngoal: Look around\n---\n\n## Only\n\n```sh\nenv > env.txt; ps -eo args > ps.txt; echo seen\n```\n";

/// Makes a scene whose plans are in a database.
fn on_server(url: &str, config: &str) -> Scene {
    let mut scene = Scene::by_rules(config);
    scene.env.set(URL, url);
    scene
}

/// Makes a scene on an empty database of the shared server.
fn scene() -> Option<Scene> {
    empty_store().map(|url| on_server(&url, ""))
}

/// Returns every file below a folder, with its text.
fn texts_below(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(texts_below(&entry.path())),
            false => {
                let bytes = fs::read(entry.path()).unwrap_or_default();
                found.push((entry.path(), String::from_utf8_lossy(&bytes).into_owned()));
            }
        }
    }
    found
}

/// Checks that the log of the newest plan has no hole, and one judgement of each command.
fn log_is_whole(scene: &Scene) {
    let events = scene.events();
    let mut seqs: Vec<i64> = events
        .iter()
        .map(|it| it["seq"].as_i64().unwrap())
        .collect();
    seqs.dedup();
    let expected: Vec<i64> = (1..=*seqs.last().unwrap()).collect();
    assert_eq!(seqs, expected);
    let judged = scene.events_named("judged");
    let mut commands: Vec<String> = judged.iter().map(|it| it["command"].to_string()).collect();
    let all = commands.len();
    commands.sort();
    commands.dedup();
    assert_eq!(commands.len(), all, "{judged:?}");
}

#[test]
fn plan_is_carried_out_on_a_server_and_its_password_is_nowhere() {
    let Some(url) = empty_store() else { return };
    let scene = on_server(&url.replacen("planner@", "planner:canary@", 1), "");
    scene.write("curious.md", CURIOUS);
    let ran = scene.exits(0, "run --plan curious.md --agent shell");
    let mut said = vec![ran.stdout, ran.stderr];
    for args in [
        "status",
        "plans",
        "log",
        "show",
        "doctor",
        "doctor --json",
        "log --json",
        "store migrate",
    ] {
        let ran = scene.run(args);
        said.extend([ran.stdout, ran.stderr]);
    }
    has(&said[2], "completed");
    assert!(!scene.path("plan-agent.db").exists());
    has(scene.read("volumes/workspace/env.txt"), "PATH=");
    for (path, text) in texts_below(&scene.env.path("")) {
        assert!(!text.contains("canary"), "{}", path.display());
    }
    assert!(!said.iter().any(|text| text.contains("canary")), "{said:?}");
    log_is_whole(&scene);
    // A process that is not told where the plans are begins no others here.
    let mut lost = scene;
    lost.env.set(URL, "");
    let parts = [
        "the plans of this folder are in postgres://planner@127.0.0.1:",
        "Hint:",
    ];
    lost.refuses(2, "status", parts);
    lost.refuses(2, "run --plan one.md", parts);
}

#[test]
fn question_is_answered_from_another_process() {
    let Some(scene) = scene() else { return };
    let _daemon = scene.leave("run --plan one.md");
    for number in 1..=3 {
        let command = scene.await_attempt(number);
        scene.claim(&command.id);
        scene.fail(&command, "it does not work");
    }
    scene.await_questions(1);
    has(scene.works("questions"), "it does not work");
    scene.works("answer retry --note more");
    let command = scene.await_attempt(4);
    scene.claim(&command.id);
    scene.succeed(&command, "done");
    scene.await_status("completed");
    log_is_whole(&scene);
}

#[test]
fn killed_daemon_loses_nothing_and_does_nothing_twice() {
    let Some(scene) = scene() else { return };
    let daemon = scene.leave("run --plan chain.md");
    let first = scene.take_any();
    scene.await_events("claimed", 1);
    kill(&scene, daemon);
    scene.succeed(&first, "done");
    let agent = scene.agent(|_| Act::success("done"));
    scene.exits(0, "resume");
    assert_eq!(agent.attempts(), [(2, 1), (3, 1)]);
    assert_eq!(scene.events_named("judged").len(), 3);
    log_is_whole(&scene);
}

#[test]
fn daemon_waits_for_a_server_that_is_gone() {
    let Some(mut cluster) = own_cluster(&[], "UTF8", &[]) else {
        return;
    };
    let scene = on_server(&cluster.schema(), "");
    let _daemon = scene.leave("run --plan chain.md");
    for number in 1..=3 {
        let command = scene.take_task(number);
        scene.await_events("claimed", usize::try_from(number).unwrap());
        cluster.stop();
        scene.succeed(&command, "done");
        let tells = |_: &Cluster| scene.daemon_log().matches("store").count() > 0;
        wait_until("the daemon has seen it", || tells(&cluster));
        scene.run("status").exits(1).has_stderr([
            "failed to open the plan store `postgres://planner@127.0.0.1:",
            "Hint:",
        ]);
        cluster.start();
        scene.await_events("judged", usize::try_from(number).unwrap());
    }
    scene.await_status("completed");
    log_is_whole(&scene);
}

#[test]
fn foreground_waits_for_a_server_that_is_gone() {
    let Some(mut cluster) = own_cluster(&[], "UTF8", &[]) else {
        return;
    };
    let scene = on_server(&cluster.schema(), "").with_folders();
    let host = scene.start_as("host", "run --plan one.md --workspace a");
    let first = scene.take_any();
    let guest = scene.start_as("guest", "run --plan one.md --workspace b");
    let second = scene.take_any();
    wait_until("the guest follows its plan", || {
        scene.env.read("guest.out").contains("dispatched")
    });
    cluster.stop();
    scene.await_said("host", "the plan store");
    cluster.start();
    for command in [first, second] {
        scene.succeed(&command, "done");
    }
    guest.end().exits(0).has_stdout("completed");
    host.end().exits(0).has_stdout("completed");
}

#[test]
fn configured_server_counts_once_it_is_confirmed() {
    let Some(url) = empty_store() else { return };
    let mut scene = Scene::by_rules(&format!("store.url = '{url}'"));
    scene.env.confirm_nothing();
    let parts = [
        "`store.url` leads to postgres://planner@127.0.0.1:",
        "trust",
    ];
    for args in ["status", "plans", "resume", "store migrate"] {
        scene.refuses(4, args, parts);
    }
    scene.works("trust");
    scene.write("curious.md", CURIOUS);
    scene.works("run --plan curious.md --agent shell --no-input");
}

#[test]
fn server_that_cannot_keep_plans_is_refused_with_a_way_out() {
    let Some(url) = empty_store() else { return };
    let (whole, _) = url.split_once('?').unwrap();
    let server = whole.strip_suffix("/postgres").unwrap();
    let name = |what: &str| format!("{what}_{}", uuid::Uuid::new_v4().simple());
    let (latin, closed, standby) = (name("latin"), name("closed"), name("standby"));
    run_sql(whole, &format!("CREATE ROLE {closed} LOGIN"));
    for statement in [
        format!(
            "CREATE DATABASE {latin} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        ),
        format!("CREATE DATABASE {standby}"),
        format!("ALTER DATABASE {standby} SET default_transaction_read_only = on"),
        format!("CREATE DATABASE {closed}"),
        format!("REVOKE ALL ON DATABASE {closed} FROM PUBLIC"),
    ] {
        run_sql(whole, &statement);
    }
    let newer = empty_store().unwrap();
    on_server(&newer, "").works("store migrate");
    run_sql(&newer, "UPDATE meta SET value = 99 WHERE name = 'format'");
    let older = empty_store().unwrap();
    on_server(&older, "").works("store migrate");
    run_sql(&older, "UPDATE meta SET value = 4 WHERE name = 'format'");
    let stranger = whole.replace("planner@", &format!("{closed}@"));
    for (url, part) in [
        (format!("{server}/{latin}"), "has the encoding LATIN1"),
        (format!("{server}/{standby}"), "takes no changes"),
        (format!("{server}/no_such"), "does not exist"),
        (
            stranger.replace("/postgres", &format!("/{closed}")),
            "permission denied",
        ),
        (stranger, "permission denied for schema public"),
        (newer, "newer version (format 99"),
        (older, "older version (format 4"),
        (
            "postgres://planner@127.0.0.1:1/d".to_owned(),
            "Connection refused",
        ),
    ] {
        let scene = on_server(&url, "");
        scene.refuses(1, "run --plan one.md --agent files", [part, "Hint:"]);
        let doctor = scene.exits(1, "doctor").stdout;
        let bad = |line: &&str| line.starts_with("!!  database");
        let bad = doctor.lines().filter(bad).count();
        assert_eq!(bad, 1, "{part}: {doctor}");
    }
    for url in [
        "postgres://u:canary@db.example/d?sslmode=prefer",
        "postgres://u:c@nary/canary?canary",
        "postgres://u:first@canary@127.0.0.1/d",
    ] {
        for args in ["status", "doctor"] {
            let ran = on_server(url, "").exits(2, args);
            lacks(ran.stdout + &ran.stderr, "canary");
        }
    }
    on_server("postgres://u:a@b@127.0.0.1/d", "").refuses(2, "plans", "write %40");
}

#[test]
fn hints_of_a_server_work_when_typed() {
    let Some(url) = empty_store() else { return };
    let scene = on_server(&url, "");
    scene.refuses(1, "status", "there are no plans in `postgres://planner@");
    scene.works("store migrate");
    scene.refuses(
        1,
        "store allow nobodyhere",
        [
            "error: the server has no login",
            "`CREATE ROLE nobodyhere LOGIN",
        ],
    );
    let plain = on_server(&format!("{url}&sslmode=require"), "");
    plain.refuses(1, "plans", ["does not support TLS", "ssl = on"]);
    scene.exits(0, "run --queue --plan one.md");
    let (_, schema) = url.rsplit_once("%3D").unwrap();
    run_sql(
        &url,
        &format!("DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}"),
    );
    scene.refuses(
        1,
        "plans",
        ["has no plans any more", "remove that file to begin anew"],
    );
    fs::remove_file(scene.path("plan-agent.server")).unwrap();
    has(scene.works("store migrate"), "the tables are made");
}

#[test]
fn doctor_says_what_the_server_is() {
    let Some(scene) = scene() else { return };
    let before = scene.run("doctor").stdout;
    has(
        &before,
        ["is PostgreSQL ", "has no tables yet", "round trip"],
    );
    has(scene.works("store migrate"), "the tables are made");
    has(scene.works("store migrate"), "nothing to do");
    let after = scene.run("doctor").stdout;
    has(
        &after,
        [
            "not encrypted",
            "its tables are in the schema test_",
            "its clock is 0.0 s",
        ],
    );
}

#[test]
fn plans_are_copied_both_ways_whole_or_not_at_all() {
    let Some(url) = empty_store() else { return };
    let file = Scene::by_rules("");
    file.write("curious.md", CURIOUS);
    file.exits(0, "run --plan curious.md --agent shell");
    file.works("run --plan curious.md --agent shell");
    let known = ["log --json", "show", "plans --json"].map(|args| file.works(args));
    let database = file.path("plan-agent.db").display().to_string();
    let copied = file.works(["store", "copy", "--from", &database, "--to", &url]);
    has(&copied, "copied and compared: 2 plans");
    let server = on_server(&url, "");
    let same = |scene: &Scene| ["log --json", "show", "plans --json"].map(|args| scene.works(args));
    assert_eq!(same(&server)[..2], known[..2]);
    let again = ["store", "copy", "--from", &database, "--to", &url];
    file.refuses(1, again, ["there are plans in it already", "Hint:"]);
    let back = file.env.path("back.db").display().to_string();
    has(
        server.works(["store", "copy", "--from", &url, "--to", &back]),
        "2 plans",
    );
    let third = Scene::by_rules("");
    fs::create_dir_all(third.path("")).unwrap();
    fs::copy(&back, third.path("plan-agent.db")).unwrap();
    assert_eq!(same(&third)[..2], known[..2]);
    let secret = url.replacen("planner@", "planner:canary@", 1);
    let ran = file.exits(2, ["store", "copy", "--from", &secret, "--to", "x.db"]);
    assert!(!ran.stderr.contains("canary"));
}

#[test]
fn queued_plans_go_on_after_a_copy() {
    let Some(url) = empty_store() else { return };
    let mut scene = Scene::by_rules("");
    let file = scene.path("plan-agent.db").display().to_string();
    let carried = |scene: &Scene, states: &[&str]| {
        let daemon = scene.start_as("daemon", "daemon");
        let command = scene.take_any();
        scene.succeed(&command, "done");
        scene.await_states(states);
        daemon.interrupted();
    };
    scene.works("run --queue --plan one.md");
    scene.works(["store", "copy", "--from", &file, "--to", &url]);
    scene.env.set(URL, &url);
    carried(&scene, &["completed"]);
    // And the other way round.
    scene.works("run --queue --plan one.md");
    fs::remove_file(&file).unwrap();
    scene.works(["store", "copy", "--from", &url, "--to", &file]);
    scene.env.set(URL, "");
    fs::remove_file(scene.path("plan-agent.store")).unwrap();
    carried(&scene, &["completed", "completed"]);
}

#[test]
fn killed_copy_leaves_the_target_empty_or_whole() {
    let file = Scene::by_rules("");
    file.write("many.md", &many(200));
    let daemon = file.leave("run --plan many.md");
    file.await_any();
    kill(&file, daemon);
    let database = file.path("plan-agent.db").display().to_string();
    for wait in 0..6 {
        let Some(url) = empty_store() else { return };
        let args = ["store", "copy", "--from", &database, "--to", &url];
        let mut copying = file.env.command(args).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(40 * wait));
        copying.kill().unwrap();
        copying.wait().unwrap();
        let plans: Vec<Value> = on_server(&url, "").json("plans --json");
        let ran = file.run(args);
        match ran.code {
            Some(0) => assert!(plans.is_empty(), "{plans:?}"),
            _ => ran.has_stderr("there are plans in it already"),
        }
        let server = on_server(&url, "");
        assert_eq!(server.works("log --json"), file.works("log --json"));
    }
}

#[test]
fn transaction_pooler_is_refused() {
    let Some(cluster) = own_cluster(&[], "UTF8", &[]) else {
        return;
    };
    let port = free_port();
    let settings = format!(
        "[databases]\npostgres = user=planner host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
         unix_socket_dir =\nauth_type = any\npool_mode = transaction\nignore_startup_parameters = options\n",
        cluster.port()
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pooler.ini");
    fs::write(&file, settings).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut pooler = as_owner(Program::new("pgbouncer")).unwrap();
    let Ok(child) = pooler.arg("-q").arg(&file).spawn() else {
        return skip("there is no `pgbouncer`");
    };
    let _pooler = Running { child };
    wait_until("the pooler listens", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let scene = on_server(&format!("postgres://planner@127.0.0.1:{port}/postgres"), "");
    let parts = [
        "as a transaction pooler does",
        "Hint: name the server itself",
    ];
    scene.refuses(1, "store migrate", parts);
    has(scene.exits(1, "doctor").stdout, parts);
}

#[test]
fn encrypted_connection_checks_certificate_and_name() {
    let folder = tempfile::tempdir().unwrap();
    let [key, certificate] = ["server.key", "server.crt"].map(|name| folder.path().join(name));
    let made = Program::new("openssl")
        .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost".split(' '))
        .args("-addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE".split(' '))
        .args(["-keyout".as_ref(), key.as_os_str(), "-out".as_ref(), certificate.as_os_str()])
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        return skip("there is no `openssl`");
    }
    let settings = [
        "ssl=on",
        "ssl_cert_file=../server.crt",
        "ssl_key_file=../server.key",
    ];
    let Some(cluster) = own_cluster(&settings, "UTF8", &[key, certificate.clone()]) else {
        return;
    };
    let port = cluster.port();
    let root = certificate.display();
    let url =
        |host: &str, options: &str| format!("postgres://planner@{host}:{port}/postgres?{options}");
    let trusted = format!("sslmode=verify-full&sslrootcert={root}");
    let scene = on_server(&url("localhost", &trusted), "");
    has(scene.run("doctor").stdout, "; encrypted");
    scene.works("store migrate");
    for (host, options) in [
        ("localhost", "sslmode=verify-full"),
        ("localhost", "sslmode=require"),
        ("127.0.0.1", &*trusted),
    ] {
        let scene = on_server(&url(host, options), "");
        scene.refuses(
            1,
            "store migrate",
            ["certificate", "Hint: name the", "?sslrootcert=FILE"],
        );
    }
}

/// Makes the tables as the version before left them, with leases that last for an hour.
fn make_older(url: &str) {
    for statement in [
        "ALTER TABLE relayed DROP COLUMN ends",
        "UPDATE meta SET value = 7 WHERE name = 'format'",
        "UPDATE plans SET held_until = held_until + 3600000000",
    ] {
        run_sql(url, statement);
    }
}

#[test]
fn tables_are_migrated_when_no_daemon_is_at_work() {
    let Some(url) = empty_store() else { return };
    let scene = on_server(&url, "");
    let daemon = scene.start("run --plan one.md --agent files");
    let first = scene.take_task(1);
    make_older(&url);
    let in_use = ["carries out the plan ", "Hint: stop the daemons"];
    scene.refuses(1, "store migrate", in_use);
    // It writes nothing any more, as a daemon of an older version does after a migration.
    scene.succeed(&first, "done");
    wait_until("the daemon says why", || {
        fs::read_to_string(&daemon.err)
            .unwrap()
            .contains("older version (format 7")
    });
    daemon.interrupted().exits(130);
    has(scene.works("store migrate"), "brought from format 7 to 8");
    scene.works("resume --no-input");
    assert_eq!(scene.events_named("judged").len(), 1);
}
