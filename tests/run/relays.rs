//! Agents on another machine: a relay there claims commands from the server of the plans, and hands back the work.

use std::process::Stdio;

use ::postgres::{Client, NoTls};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::many_machines::Machine;
use super::*;
use crate::common::git::git;
use crate::common::postgres::{USER, empty_store, run_sql};

/// Two tasks, one after the other; the second one needs what the first one made.
const SHELL: &str = "\
---
name: Two files
goal: Two files
---

## First

- produces: one.txt

```sh
echo one > one.txt
```

## Second

- after: 1
- produces: two.txt

```sh
cat one.txt one.txt > two.txt
```
";

#[test]
fn relay_does_the_work_in_its_own_clone() {
    let Some((here, there, _)) = Machine::two() else {
        return;
    };
    // What makes a worktree ready there is configured there.
    let config = there.scene.read("config.toml");
    let prepare = "run.prepare.run = ['sh', '-c', 'echo ready > built']\n";
    there
        .scene
        .write("config.toml", &format!("{config}\n{prepare}"));
    let plan = SHELL.replace("echo one >", "test -e built && echo one >");
    here.scene.write("shell.md", &plan);
    here.scene.works("store migrate");
    let _relay = there.scene.start("relay --agent shell");
    here.scene
        .works("run --plan shell.md --agent relay --no-input");
    let plan = plan_id(&here.scene);
    assert_eq!(
        here.results(&plan),
        ".gitignore\na.txt\nb.txt\none.txt\ntwo.txt\n"
    );
    assert_eq!(
        git(
            &here.project,
            format!("show plan-agent/{plan}:two.txt").as_str()
        ),
        "one\none\n"
    );
    there
        .scene
        .refuses(2, "relay --agent relay", "not to another relay");
    // In a clone elsewhere they are brought from the server.
    has(
        there.scene.works(["merge", &plan]),
        "the results are in `main`",
    );
    assert_eq!(there.scene.read("project/two.txt"), "one\none\n");
    there
        .scene
        .refuses(1, ["discard", &plan], "belongs to another folder");
}

/// Another machine, by its name.
const ELSEWHERE: [&str; 5] = [
    "unshare",
    "--uts",
    "sh",
    "-c",
    "hostname elsewhere; exec \"$@\"",
];

#[test]
fn machine_of_an_agent_is_said() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    let other = ELSEWHERE.map(str::to_owned);
    if std::process::Command::new("unshare")
        .args(["--uts", "true"])
        .status()
        .is_ok_and(|it| !it.success())
    {
        return skip("no machine can be made up: `unshare --uts` fails");
    }
    here.scene.works("store migrate");
    let plan_file = SHELL.replace(
        "echo one > one.txt",
        "echo one > one.txt; until test -e go; do sleep 0.05; done",
    );
    here.scene.write("shell.md", &plan_file);
    let _daemon = here.scene.leave("run --plan shell.md --agent relay");
    let starter: Vec<&str> = other.iter().map(String::as_str).chain(["relay"]).collect();
    let relay = there.scene.env.start_under(&starter, "relay --agent shell");
    let plan = plan_id(&here.scene);
    here.scene.await_events("machine", 1);
    has(
        here.scene.works("workers"),
        [
            "1 · First: relay at elsewhere",
            "shell takes commands",
            "has task-",
        ],
    );
    has(
        here.scene.works(["why", &plan, "1"]),
        "its agent is at `elsewhere`",
    );
    drop(relay);
    // As if a minute were over.
    run_sql(&url, "UPDATE relayed SET held_until = 1");
    here.scene.await_events("machine", 2);
    has(
        here.scene.works("log"),
        ["its agent is at `elsewhere`", "`elsewhere` is lost"],
    );
}

#[test]
fn login_of_a_relay_can_do_nothing_else() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    here.scene.works("store migrate");
    let login = format!("relay_{}", std::process::id());
    run_sql(&url, &format!("CREATE ROLE {login} LOGIN"));
    let own = url.replace(USER, &login);
    assert_ne!(own, url);
    let mut env = there.scene.env;
    env.set("PLAN_AGENT_STORE_URL", &own);
    // It may do nothing before a person says so.
    env.refuses(
        1,
        "relay --agent shell",
        [
            "function relay_protocol() does not exist",
            "`store allow` lets this login use it",
        ],
    );
    here.scene.refuses(
        1,
        "store allow nobody",
        "the server has no login \"nobody\"",
    );
    here.scene
        .works(["store", "allow", &login, "--role", "coder"]);
    env.refuses(1, "plans", "permission denied for table");

    // A plan with one task for whoever, and one for a coder, which waits for the first.
    let plan_file = SHELL.replace("- after: 1\n", "- after: 1\n- assignee: coder\n");
    here.scene.write("shell.md", &plan_file);
    let _daemon = here.scene.leave("run --plan shell.md --agent relay");
    let mut client = Client::connect(&own, NoTls).unwrap();
    let mut claim = |role: &str| {
        let claim =
            format!("SELECT id, body FROM relay_claim('r', '[\"{role}\"]', '[\"app\"]', '[]')");
        let rows = client.query(&claim, &[]).unwrap();
        let found = rows.first().map(|row| (row.get(0), row.get(1)));
        found.map(|(id, body): (String, String)| (id, body))
    };
    wait_until("the command is offered", || {
        let mut owner = Client::connect(&url, NoTls).unwrap();
        !owner
            .query("SELECT id FROM relayed", &[])
            .unwrap()
            .is_empty()
    });
    // Not its role, whatever it says.
    assert_eq!(claim(""), None);
    assert_eq!(claim("coder"), None);
    let others = there_is_a_command(&url);
    for statement in [
        "SELECT * FROM plans",
        "SELECT * FROM log",
        "SELECT body FROM relayed",
        "UPDATE relayed SET claim = 7",
        "SELECT relay_allow(current_user, '')",
        "SELECT relay_holds('r', 'x', 1)",
        "CREATE TABLE mine (id TEXT)",
        "TRUNCATE relayed",
    ] {
        let refused = client.batch_execute(statement).unwrap_err();
        let said = refused.as_db_error().unwrap().message().to_owned();
        assert!(said.contains("permission denied"), "{statement}: {said}");
    }
    // What another relay has, or nobody has, is neither read nor reported on.
    for (call, nothing) in [
        (
            format!("SELECT count(*) FROM relay_packs('r', '{others}', 1)"),
            0,
        ),
        (
            format!("SELECT count(*) FROM relay_pack('r', '{others}', 1, 0)"),
            0,
        ),
        (format!("SELECT relay_put('r', '{others}', 1, 0, 'x')"), 0),
        (
            format!("SELECT relay_report('r', '{others}', 1, 'x', '', '')"),
            0,
        ),
        (
            format!(
                "SELECT count(*) FROM relay_beat('r', '{{}}', '[{{\"id\": \"{others}\", \"claim\": 0}}]')"
            ),
            0,
        ),
    ] {
        let found: i64 = client.query_one(&call, &[]).unwrap().get(0);
        assert_eq!(found, nothing, "{call}");
    }
    // A function cannot be led to tables of the caller's own.
    client
        .batch_execute("CREATE TEMP TABLE relay_rights (login TEXT, role TEXT); INSERT INTO relay_rights VALUES (current_user, '')")
        .unwrap();
    let claim = "SELECT id FROM relay_claim('r', '[\"\"]', '[\"app\"]', '[]')";
    assert!(client.query(claim, &[]).unwrap().is_empty());
    // With its end its rights end.
    drop(client);
    run_sql(&url, &format!("DROP OWNED BY {login}; DROP ROLE {login}"));
    assert!(Client::connect(&own, NoTls).is_err());
}

/// Returns the command that is offered.
fn there_is_a_command(url: &str) -> String {
    let mut client = Client::connect(url, NoTls).unwrap();
    client
        .query_one("SELECT id FROM relayed", &[])
        .unwrap()
        .get(0)
}

#[test]
fn work_that_is_not_what_it_says_fails_the_attempt() {
    let Some((here, _, url)) = Machine::two() else {
        return;
    };
    here.scene.write("shell.md", SHELL);
    let _daemon = here.scene.leave("run --plan shell.md --agent relay");
    let plan = plan_id(&here.scene);
    let before = git(&here.project, "for-each-ref refs/heads/main");
    let mut client = Client::connect(&url, NoTls).unwrap();
    // A commit that is not there, one that does not go on from the beginning, a pack that is none.
    let stray = "git commit-tree -m stray 4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    let stray = git(&here.project, stray.strip_prefix("git ").unwrap());
    let cases = [
        (
            "0123456789012345678901234567890123456789",
            "",
            "does not go on from",
        ),
        (stray.trim(), "", "does not go on from"),
        (
            "0123456789012345678901234567890123456789",
            "bm8gcGFjaw==",
            "could not be brought here",
        ),
    ];
    for (number, (commit, pack, said)) in (1..).zip(cases) {
        if number > 1 {
            // It goes on in a session, which another relay does not know.
            wait_until("the next command is offered", || {
                let next = "SELECT id FROM relayed WHERE session = 's-1' AND reported = 0";
                !client.query(next, &[]).unwrap().is_empty()
            });
            let other = "SELECT id FROM relay_claim('other', '[\"\"]', '[\"app\"]', '[\"s-2\"]')";
            assert!(client.query(other, &[]).unwrap().is_empty());
        }
        let (id, claim) = claimed(&mut client);
        if !pack.is_empty() {
            client
                .query(
                    "SELECT relay_put('r', $1, $2, 0, $3)",
                    &[&id, &claim, &pack],
                )
                .unwrap();
        }
        let report = BASE64.encode(
            "---\nstatus: SUCCESS\nsession_id: s-1\n---\n\n## Core results\n\nAll is done.\n",
        );
        let report = client
            .query_one(
                "SELECT relay_report('r', $1, $2, $3, $4, '')",
                &[&id, &claim, &report, &commit],
            )
            .unwrap();
        assert_eq!(report.get::<_, i64>(0), 1);
        here.scene.await_events("reported", number);
        let why = here.scene.works(["why", &plan, "1"]);
        has(&why, [said, "All is done."]);
    }
    assert_eq!(git(&here.project, "for-each-ref refs/heads/main"), before);
}

/// Claims the command that is offered, as a relay of the owner of the tables.
fn claimed(client: &mut Client) -> (String, i64) {
    let mut found = None;
    wait_until("a command is offered", || {
        let claim = "SELECT id, claim FROM relay_claim('r', '[\"\"]', '[\"app\"]', '[\"s-1\"]')";
        let rows = client.query(claim, &[]).unwrap();
        found = rows.first().map(|row| (row.get(0), row.get(1)));
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn command_that_was_given_up_is_worked_on_again() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    let (runs, go) = (here.scene.env.path("runs"), here.scene.env.path("go"));
    let waits = format!(
        "echo run >> '{}'; until test -e '{}'; do sleep 0.05; done; echo one > one.txt",
        runs.display(),
        go.display()
    );
    let plan = SHELL.replace("echo one > one.txt", &waits);
    here.scene.write("shell.md", &plan);
    here.scene.works("store migrate");
    let _relay = there.scene.start("relay --agent shell");
    let _daemon = here.scene.leave("run --plan shell.md --agent relay");
    let begun = |times: usize| {
        wait_until("the agent begins", || {
            fs::read_to_string(&runs).is_ok_and(|text| text.lines().count() == times)
        });
    };
    begun(1);
    // Another relay had it meanwhile, and is gone.
    run_sql(
        &url,
        "UPDATE relayed SET claim = claim + 1, relay = 'other', held_until = 1",
    );
    begun(2);
    fs::write(go, "").unwrap();
    here.scene.await_status("completed");
}

#[test]
fn relay_goes_on_when_another_daemon_takes_the_plan_over() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    let agents = here.beside(&url);
    let config = there.scene.read("config.toml");
    there.scene.write(
        "config.toml",
        &format!("{config}\nworker.agent = ['relay']\n"),
    );
    here.scene.works("store migrate");
    let _relay = agents.scene.start("relay");
    let daemon = here.scene.leave("run --plan chain.md --agent relay");
    let plan = plan_id(&here.scene);
    // The next attempt goes on with what is in no result, and only in the clone of its daemon.
    let first = agents.scene.take_task(1);
    let folder = PathBuf::from(first.field("workspace").unwrap());
    fs::write(folder.join("begun.txt"), "begun\n").unwrap();
    agents.scene.fail(&first, "half of it");
    let again = agents.scene.take_task(1);
    assert_eq!(again.attempt(), 2);
    here.scene.await_events("claimed", 2);
    kill(&here.scene, daemon);
    run_sql(&url, "UPDATE plans SET held_until = 1");
    let _other = there.scene.start("daemon");
    there.scene.await_events("adopted", 1);
    agents.does(&again, "one.txt");
    for (task, file) in [(2, "two.txt"), (3, "three.txt")] {
        agents.does(&agents.scene.take_task(task), file);
    }
    there.scene.await_status("completed");
    let results = ["begun.txt", "one.txt", "two.txt", "three.txt"];
    has(there.results(&plan), results);
    assert_eq!(there.scene.events_named("issued").len(), 4);
}

impl Machine {
    /// Makes one whose project is a folder without git.
    fn without_git(url: &str) -> Self {
        let config = "run.workspace = 'project'\nrun.max_attempts = 1\nprojects.app = 'project'\n";
        let mut scene = Scene::by_rules(config);
        scene.env.set("PLAN_AGENT_STORE_URL", url);
        let project = scene.env.path("project");
        fs::create_dir(&project).unwrap();
        Self { scene, project }
    }
}

#[test]
fn produced_files_travel_where_there_is_no_git() {
    let Some(url) = empty_store() else { return };
    let [here, there] = [(); 2].map(|()| Machine::without_git(&url));
    here.scene.works("store migrate");
    let _relay = there.scene.start("relay --agent shell");
    let plan = SHELL.replace("echo one >", "echo more > more.txt; echo one >");
    here.scene.write("shell.md", &plan);
    here.scene
        .works("run --plan shell.md --agent relay --no-input");
    assert_eq!(here.scene.read("project/two.txt"), "one\none\n");
    // Only what the task names.
    assert!(!here.project.join("more.txt").exists());
    assert_eq!(fs::read_dir(&there.project).unwrap().count(), 0);

    // What cannot travel fails the attempt, with the reason.
    let large = "truncate -s 17M one.txt";
    let link = "ln -sf /etc/passwd one.txt";
    for (makes, why) in [(large, "more than 16 MiB"), (link, "link")] {
        here.scene
            .write("shell.md", &SHELL.replace("echo one > one.txt", makes));
        here.scene
            .run("run --plan shell.md --agent relay --no-input");
        let plan = plan_id(&here.scene);
        has(here.scene.works(["why", &plan, "1"]), ["`one.txt`", why]);
    }
}

#[test]
fn plan_without_git_goes_on_elsewhere_with_the_files_of_its_tasks() {
    let Some(url) = empty_store() else { return };
    let [here, there, agents] = [(); 3].map(|()| Machine::without_git(&url));
    let config = there.scene.read("config.toml");
    there.scene.write(
        "config.toml",
        &format!("{config}\nworker.agent = ['relay']\n"),
    );
    here.scene.works("store migrate");
    let _relay = agents.scene.start("relay");
    let plan_file = SHELL.replace("\n- after: 1\n- produces: two.txt\n", "\n- after: 1\n");
    here.scene.write("plan.md", &plan_file);
    let daemon = here.scene.leave("run --plan plan.md --agent relay");
    let first = agents.scene.take_task(1);
    agents.does(&first, "one.txt");
    let second = agents.scene.take_task(2);
    has(
        here.scene.works("plans"),
        "elsewhere it goes on only with the files that tasks produce",
    );
    kill(&here.scene, daemon);
    run_sql(&url, "UPDATE plans SET held_until = 1");
    let other = there.scene.start("daemon");
    there.scene.await_events("adopted", 1);
    assert_eq!(there.scene.read("project/one.txt"), "one.txt");
    // The relay works on.
    agents.scene.succeed(&second, "done");
    there.scene.await_status("completed");
    drop(other);
    assert_eq!(there.scene.events_named("issued").len(), 2);
}

#[test]
fn missing_commits_are_fetched_from_a_named_remote() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    let agents = here.beside(&url);
    fs::write(here.project.join("late.txt"), "late\n").unwrap();
    git(&here.project, "add late.txt");
    git(&here.project, "commit -q -m late");
    // Not by a command that the address names.
    let (mark, remote) = (here.scene.env.path("ran"), here.project.display());
    let ran = format!("remotes.app = 'ext::sh -c touch% {}'", mark.display());
    let good = format!("remotes.app = '{remote}'\nworker.agent = ['relay']");
    let plain = agents.scene.read("config.toml");
    here.scene.works("store migrate");
    let daemon = here.scene.leave("run --plan chain.md --agent relay");
    let plan = plan_id(&here.scene);
    for (number, remotes) in [&*ran, ""].into_iter().enumerate() {
        let config = format!("{plain}\n{remotes}\n");
        agents.scene.write("config.toml", &config);
        let said = agents.scene.env.path(format!("said{number}"));
        let output = File::create(&said).unwrap();
        let relay = agents.scene.env.spawn("relay", Stdio::null(), output);
        wait_until("the project cannot be used", || {
            let said = fs::read_to_string(&said).unwrap();
            said.contains("project `app` cannot be used")
        });
        drop(relay);
        // It may have been killed before it gave the command back.
        run_sql(&url, "UPDATE relayed SET held_until = 0");
    }
    assert!(!mark.exists());
    for machine in [&agents, &there] {
        machine
            .scene
            .write("config.toml", &format!("{plain}\n{good}\n"));
    }
    let _relay = agents.scene.start("relay --agent files");
    let first = agents.scene.take_task(1);
    let folder = PathBuf::from(first.field("workspace").unwrap());
    assert_eq!(
        fs::read_to_string(folder.join("late.txt")).unwrap(),
        "late\n"
    );
    agents.does(&first, "one.txt");
    let second = agents.scene.take_task(2);
    kill(&here.scene, daemon);
    run_sql(&url, "UPDATE plans SET held_until = 1");
    let _other = there.scene.start("daemon");
    there.scene.await_events("adopted", 1);
    agents.does(&second, "two.txt");
    agents.does(&agents.scene.take_task(3), "three.txt");
    there.scene.await_status("completed");
    has(there.results(&plan), ["late.txt", "one.txt", "two.txt"]);
}

#[test]
fn command_that_no_relay_takes_is_asked_about() {
    let Some((here, there, _)) = Machine::two() else {
        return;
    };
    let config = here.scene.read("config.toml");
    here.scene.write(
        "config.toml",
        &format!("{config}\nrun.task_timeout = '1s'\n"),
    );
    let _daemon = here.scene.leave("run --plan one.md --agent relay");
    let why = "no worker takes commands";
    wait_until("it asks", || here.scene.works("questions").contains(why));
    assert!(here.scene.events_named("claimed").is_empty());
    let _relay = there.scene.start("relay");
    there.does(&there.scene.take_task(1), "one.txt");
    here.scene.await_status("completed");
    assert_eq!(here.scene.events_named("claimed").len(), 1);
}
