//! Agents on another machine: a relay there claims commands from the server of the plans, and hands back the work.

mod left_to_others;
mod travel;

use std::path::Path;

use ::postgres::{Client, NoTls};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::many_machines::Machine;
use super::*;
use crate::common::agent::{report, report_in};
use crate::common::env::times;
use crate::common::git::git;
use crate::common::postgres::{USER, run_sql};

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
    for relay in ["relay --agent relay", "worker --agent relay"] {
        there.scene.refuses(2, relay, "not another relay");
    }
    // In a clone elsewhere they are brought from the server.
    has(there.scene.works(["merge", &plan]), " are in `main`");
    assert_eq!(there.scene.read("project/two.txt"), "one\none\n");
    there
        .scene
        .refuses(1, ["discard", &plan], "belongs to another folder");
}

#[test]
fn relay_that_knows_a_session_is_told_of_its_end() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    let other = here.beside(&url);
    here.scene.works("store migrate");
    let _relay = there.scene.start("relay --agent files");
    let _daemon = here.scene.leave("run --plan one.md --agent relay");
    let command = there.scene.take_task(1);
    let _other = other.scene.start("relay --agent files");
    wait_until("the other relay is there", || {
        let all: Value = here.scene.json("workers --json");
        all["relays"].as_array().unwrap().len() == 2
    });
    there
        .scene
        .submit(&command.id, &report_in("s-1", "SUCCESS", "done"));
    let end = there.scene.take_any();
    assert_eq!((end.kind(), end.session()), ("end", "s-1"));
    assert_ne!(end.field("workspace"), command.field("workspace"));
    let mut server = Client::connect(&url, NoTls).unwrap();
    wait_until("nothing is offered any more", || {
        server
            .query("SELECT id FROM relayed", &[])
            .unwrap()
            .is_empty()
    });
    here.scene.await_status("completed");
    assert!(other.scene.pending().is_empty());
}

#[test]
fn report_goes_back_while_another_worktree_is_made_ready() {
    let Some((here, there, _)) = Machine::two() else {
        return;
    };
    here.scene.configure("run.max_parallel = 2");
    here.scene.write("both.md", &many(2));
    let [begun, go] = ["begun", "go"].map(|file| there.scene.env.path(file).display().to_string());
    let script = format!(
        "case $PWD in *task-2) touch '{begun}'; until test -e '{go}'; do sleep 0.05; done;; esac"
    );
    let prepare = format!("run.prepare.run = ['sh', '-c', \"{script}\"]\n");
    let config = there.scene.read("config.toml") + &prepare;
    there.scene.write("config.toml", &config);
    here.scene.works("store migrate");
    let _relay = there.scene.start("relay --lanes 2");
    let _daemon = here.scene.leave("run --plan both.md --agent relay");
    let first = there.scene.take_task(1);
    wait_until("it prepares", || Path::new(&begun).exists());
    there.does(&first, "one.txt");
    here.scene.await_events("reported", 1);
    File::create(&go).unwrap();
    there.does(&there.scene.take_task(2), "two.txt");
    here.scene.await_status("completed");
}

/// Git runs such a program for each file that is committed.
#[test]
fn program_that_an_agent_of_a_relay_configures_is_not_run() {
    let Some((here, there, _)) = Machine::two() else {
        return;
    };
    here.scene.works("store migrate");
    let _relay = there.scene.start("relay");
    let _daemon = here.scene.leave("run --plan chain.md --agent relay");
    let ran = there.scene.env.path("ran");
    let filter = format!("sh -c 'touch {}; cat'", ran.display());
    for (task, file) in [(1, "one.txt"), (2, "two.txt"), (3, "three.txt")] {
        let command = there.scene.take_task(task);
        let folder = PathBuf::from(command.field("workspace").unwrap());
        git(&folder, ["config", "filter.own.clean", &filter]);
        fs::write(folder.join(".gitattributes"), "* filter=own\n").unwrap();
        there.does(&command, file);
    }
    here.scene.await_status("completed");
    assert!(!ran.exists());
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
    let go = there.scene.env.path("go");
    let waits = format!(
        "echo one > one.txt; until test -e '{}'; do test -e \"$PWD\"; sleep 0.05; done",
        go.display()
    );
    let plan_file = SHELL.replace("echo one > one.txt", &waits);
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
        [
            "its agent is at `elsewhere`",
            "`elsewhere` no longer works on it",
        ],
    );
    // It is done there after all, and that stays known.
    let _relay = there.scene.env.start_under(&starter, "relay --agent shell");
    here.scene.await_events("machine", 3);
    File::create(go).unwrap();
    here.scene.await_status("completed");
    has(
        here.scene.works(["why", &plan, "1"]),
        "its agent was at `elsewhere`",
    );
}

/// Who works by the text of a command reports where the relay looks. A report that a person puts beside the daemon instead ends
/// what the relay has, and the lane goes on.
#[test]
fn command_at_a_relay_names_the_report_there_and_ends_with_one_here() {
    let Some((here, there, _)) = Machine::two() else {
        return;
    };
    here.scene.works("store migrate");
    here.scene.write("two.md", TWO);
    let _relay = there.scene.start("relay");
    let _daemon = here.scene.leave("run --plan two.md --agent relay");
    let first = there.scene.take_task(1);
    let root = |machine: &Machine| machine.scene.env.path("").display().to_string();
    has(&first.text, root(&there));
    lacks(&first.text, root(&here));
    has(&first.text, "on the branch `plan-agent/relay/");
    here.scene.submit(&first.id, &report("SUCCESS", "done"));
    let second = there.scene.take_task(2);
    there.does(&second, "two.txt");
    here.scene.await_status("completed");
}

/// A person ends the plan meanwhile, and no daemon has it that could take the command back.
#[test]
fn relay_takes_no_command_of_a_plan_that_no_daemon_has() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    here.scene.works("store migrate");
    here.scene.write("one.md", &many(1));
    let daemon = here.scene.leave("run --plan one.md --agent relay");
    let plan = plan_id(&here.scene);
    let mut server = Client::connect(&url, NoTls).unwrap();
    let mut offered = || {
        let offered = "SELECT id FROM relayed";
        !server.query(offered, &[]).unwrap().is_empty()
    };
    wait_until("it is offered", &mut offered);
    kill(&here.scene, daemon);
    there.scene.works(["abort", &plan]);
    let mut owner = Client::connect(&url, NoTls).unwrap();
    let gone = "UPDATE plans SET held_until = 1 WHERE id = $1";
    owner.execute(gone, &[&plan]).unwrap();
    let claim = "SELECT id FROM relay_claim('r', '[\"\"]', '[\"app\"]', '[]', '[]')";
    assert!(owner.query(claim, &[]).unwrap().is_empty());
    let mut as_before = owner.transaction().unwrap();
    let held = "UPDATE plans SET held_until = relay_now() + 1000000000";
    as_before.batch_execute(held).unwrap();
    assert_eq!(as_before.query(claim, &[]).unwrap().len(), 1);
    as_before.rollback().unwrap();
    // The next daemon there takes it away.
    let _daemon = here.scene.start_as("next", "daemon");
    wait_until("nothing is offered any more", || !offered());
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
    env.refuses(
        1,
        "plans",
        [
            "permission denied for table",
            "a login of a relay can only relay",
        ],
    );
    for (relay, which) in [
        ("relay --agent files", "without a role"),
        (
            "relay --agent files --role tester",
            "of the role \"tester\"",
        ),
    ] {
        let refusal = format!("the login \"{login}\" may take no commands {which}");
        env.refuses(1, relay, &*refusal);
    }
    let found = env.run("doctor").stdout;
    has(&found, "this login can relay, and nothing else");
    lacks(&found, "GRANT");

    // As if the function were newer than the login.
    run_sql(
        &url,
        "REVOKE EXECUTE ON FUNCTION relay_claim(text, text, text, text, text) FROM plan_relays",
    );
    here.scene.works("store migrate");

    // A plan with one task for whoever, and one for a coder, which waits for the first.
    let plan_file = SHELL.replace("- after: 1\n", "- after: 1\n- assignee: coder\n");
    here.scene.write("shell.md", &plan_file);
    let _daemon = here.scene.leave("run --plan shell.md --agent relay");
    let mut client = Client::connect(&own, NoTls).unwrap();
    let mut claim = |role: &str| {
        let claim = format!(
            "SELECT id, body FROM relay_claim('r', '[\"{role}\"]', '[\"app\"]', '[]', '[]')"
        );
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
            format!("SELECT count(*) FROM relay_pack('r', '{others}', 1, 0, 0)"),
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
    let claim = "SELECT id FROM relay_claim('r', '[\"\"]', '[\"app\"]', '[]', '[]')";
    assert!(client.query(claim, &[]).unwrap().is_empty());
    // With its end its rights end.
    drop(client);
    let drop_login = format!("DROP OWNED BY {login}; DROP ROLE {login}");
    run_sql(&url, &drop_login);
    assert!(Client::connect(&own, NoTls).is_err());
    // Nor do they come back with the name.
    run_sql(&url, &format!("CREATE ROLE {login} LOGIN"));
    here.scene
        .works(["store", "allow", &login, "--role", "tester"]);
    let mut owner = Client::connect(&url, NoTls).unwrap();
    let rights = "SELECT role FROM relay_rights WHERE login = relay_login($1)";
    let rights = owner.query(rights, &[&login]).unwrap();
    let rights = rights.iter().map(|row| row.get(0));
    assert_eq!(rights.collect::<Vec<String>>(), ["tester"]);
    run_sql(&url, &drop_login);
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
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    here.scene.configure("run.max_attempts = 10");
    here.scene.write("shell.md", SHELL);
    let _daemon = here.scene.leave("run --plan shell.md --agent relay");
    let plan = plan_id(&here.scene);
    let before = git(&here.project, "for-each-ref refs/heads/main");
    let mut client = Client::connect(&url, NoTls).unwrap();
    // A commit that is not there, one that does not go on from the beginning, a pack that is none, one that is damaged, and one
    // that has another commit than is said.
    let stray = "commit-tree -m stray 4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    let stray = git(&here.project, stray);
    let begun = git(&there.project, "rev-parse HEAD");
    let parent = format!("commit-tree -m good -p {} HEAD^{{tree}}", begun.trim());
    let good = git(&there.project, parent.as_str());
    let whole = packed(&there.project, good.trim());
    let damaged = &whole[..whole.len() / 2];
    let other = packed(&here.project, stray.trim());
    let nowhere = "0123456789012345678901234567890123456789";
    let cases = [
        (nowhere, "".as_bytes(), "does not go on from"),
        (stray.trim(), b"", "does not go on from"),
        (nowhere, b"no pack", "could not be brought here"),
        (good.trim(), damaged, "could not be brought here"),
        (good.trim(), &other, "does not go on from"),
    ];
    for (number, (commit, pack, said)) in (1..).zip(cases) {
        if number > 1 {
            // It goes on in a session, which another relay does not know.
            wait_until("the next command is offered", || {
                let next = "SELECT id FROM relayed WHERE session = 's-1' AND reported = 0";
                !client.query(next, &[]).unwrap().is_empty()
            });
            let other =
                "SELECT id FROM relay_claim('other', '[\"\"]', '[\"app\"]', '[\"s-2\"]', '[]')";
            assert!(client.query(other, &[]).unwrap().is_empty());
        }
        let (id, claim) = claimed(&mut client);
        if !pack.is_empty() {
            client
                .query(
                    "SELECT relay_put('r', $1, $2, 0, $3)",
                    &[&id, &claim, &BASE64.encode(pack)],
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

/// Returns a commit with all that it stands on, as a pack.
fn packed(project: &Path, commit: &str) -> Vec<u8> {
    let pack = format!("echo {commit} | git pack-objects --revs --stdout -q");
    let packed = std::process::Command::new("sh")
        .args(["-c", &pack])
        .current_dir(project)
        .output()
        .unwrap();
    assert!(packed.status.success(), "{packed:?}");
    packed.stdout
}

/// Claims the command that is offered, as a relay of the owner of the tables.
fn claimed(client: &mut Client) -> (String, i64) {
    let mut found = None;
    wait_until("a command is offered", || {
        let claim =
            "SELECT id, claim FROM relay_claim('r', '[\"\"]', '[\"app\"]', '[\"s-1\"]', '[]')";
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

/// What the server is asked as a relay with a name.
struct AsRelay<'a> {
    client: Client,
    name: &'a str,
}

impl AsRelay<'_> {
    fn number(&mut self, call: &str) -> i64 {
        let call = call.replace("RELAY", self.name);
        self.client.query_one(&call, &[]).unwrap().get(0)
    }

    /// Reports these words on a command under a claim, and returns whether they count.
    fn reports(&mut self, id: &str, claim: i64, words: &str) -> bool {
        let report = BASE64.encode(report("SUCCESS", words));
        self.number(&format!(
            "SELECT relay_report('RELAY', '{id}', {claim}, '{report}', '', '')"
        )) == 1
    }
}

#[test]
fn report_under_a_claim_that_is_not_its_own_never_counts() {
    let Some((here, _, url)) = Machine::two() else {
        return;
    };
    here.scene.write("shell.md", SHELL);
    let _daemon = here.scene.leave("run --plan shell.md --agent relay");
    let plan = plan_id(&here.scene);
    let connect = |url: &str| Client::connect(url, NoTls).unwrap();
    let as_relay = |url: &str, name| AsRelay {
        client: connect(url),
        name,
    };
    let (id, claim) = claimed(&mut connect(&url));
    let (mut first, mut second) = (as_relay(&url, "r"), as_relay(&url, "other"));
    // Another relay, another claim, and the same name by another login.
    assert!(!second.reports(&id, claim, "stolen"));
    for other in [claim - 1, claim + 1, i64::MAX, -1] {
        assert!(!first.reports(&id, other, "stolen"), "{other}");
    }
    let login = format!("thief_{}", std::process::id());
    run_sql(&url, &format!("CREATE ROLE {login} LOGIN"));
    here.scene.works(["store", "allow", &login]);
    let mut thief = as_relay(&url.replace(USER, &login), "r");
    assert!(!thief.reports(&id, claim, "stolen"));
    drop(thief);
    run_sql(&url, &format!("DROP OWNED BY {login}; DROP ROLE {login}"));
    // It is lost, and the other relay has it.
    run_sql(&url, "UPDATE relayed SET held_until = 1");
    let again =
        second.number("SELECT claim FROM relay_claim('RELAY', '[\"\"]', '[\"app\"]', '[]', '[]')");
    assert_eq!(again, claim + 1);
    assert!(!first.reports(&id, claim, "late"));
    assert!(!first.reports(&id, again, "late"));
    for (call, claim) in [
        ("SELECT relay_put('RELAY', 'ID', CLAIM, 0, 'x')", claim),
        (
            "SELECT count(*) FROM relay_packs('RELAY', 'ID', CLAIM)",
            claim,
        ),
        (
            "SELECT count(*) FROM relay_beat('RELAY', '{}', '[{\"id\": \"ID\", \"claim\": CLAIM}]')",
            again,
        ),
        (
            "SELECT count(*) FROM (SELECT relay_release('RELAY', 'ID', CLAIM, '')) AS r WHERE relay_release IS NOT NULL",
            again,
        ),
    ] {
        let call = call.replace("ID", &id).replace("CLAIM", &claim.to_string());
        assert_eq!(first.number(&call), 0, "{call}");
    }
    assert!(second.reports(&id, again, "own"));
    assert!(!second.reports(&id, again, "more"));
    assert!(!first.reports(&id, claim, "late"));
    here.scene.await_events("reported", 1);
    let why = here.scene.works(["why", &plan, "1"]);
    has(&why, "own");
    lacks(&why, ["stolen", "late", "more"]);
}

#[test]
fn relay_of_another_version_is_refused_at_its_start_and_at_work() {
    let Some((here, old, url)) = Machine::two() else {
        return;
    };
    let there = here.beside(&format!("{url}&application_name=old"));
    here.scene.works("store migrate");
    let _relay = there.scene.start("relay");
    let _daemon = here.scene.leave("run --plan one.md --agent relay");
    let command = there.scene.take_task(1);
    let protocol = |version: i64| {
        let function = format!(
            "CREATE OR REPLACE FUNCTION relay_protocol() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT {version}::bigint'"
        );
        run_sql(&url, &function);
    };
    protocol(6);
    let refusal = "its functions for relays are of version 6, and this program knows 5";
    let way_out = "Hint: give the relays and the daemons the same version of plan-agent, then `plan-agent store migrate`";
    old.scene.refuses(1, "relay", [refusal, way_out]);
    // One that is at work says so as well, and keeps what it has.
    let cut =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'old'";
    run_sql(&url, cut);
    wait_until("the relay at work says so", || {
        there.scene.read("stderr.txt").contains(refusal)
    });
    there.does(&command, "one.txt");
    protocol(5);
    here.scene.await_status("completed");
    assert_eq!(here.scene.events_named("reported").len(), 1);
}

/// The words of its report are kept. It takes a while to make so much.
#[test]
fn result_that_is_too_large_fails_the_attempt() {
    if times(true, false) {
        return skip("only in the long form");
    }
    let Some((here, there, _)) = Machine::two() else {
        return;
    };
    here.scene.works("store migrate");
    here.scene.configure("run.max_attempts = 1");
    let large = "head -c 70000000 /dev/urandom > one.txt; echo so large";
    let plan = SHELL.replace("echo one > one.txt", large);
    here.scene.write("shell.md", &plan);
    let _relay = there.scene.start("relay --agent shell");
    let _daemon = here.scene.leave("run --plan shell.md --agent relay");
    let plan = plan_id(&here.scene);
    here.scene.await_events("asked", 1);
    has(
        here.scene.works(["why", &plan, "1"]),
        ["could not be brought here", "more than 64 MiB", "so large"],
    );
}
