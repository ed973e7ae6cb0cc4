//! Agents on another machine: a relay there claims commands from the server of the plans, and hands back the work.

use super::many_machines::Machine;
use super::*;
use crate::common::git::git;
use crate::common::postgres::run_sql;

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
    here.scene.write("shell.md", SHELL);
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
