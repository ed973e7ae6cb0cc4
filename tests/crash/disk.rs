//! A disk that is really full, in a mount that only the test sees.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::env::{Running, TestEnv, has, wait_until};
use crate::web::Served;

/// Mounts a small disk for the exchange folder, acts as the agent, and fills the disk to the last byte while the daemon should
/// apply a report, and the page should pause the plan. Ends with 77 if mounting is not possible.
const SCRIPT: &str = r#"
mount -t tmpfs -o size=1m none volumes || exit 77
"$@" run --plan plan.md > said 2>&1 &
daemon=$!
until_there() { until [ -e $1 ]; do kill -0 $daemon || exit 1; sleep 0.01; done; }
take() {
    until_there "volumes/commands/pending/*.md"
    id=$(basename volumes/commands/pending/*.md .md)
    mv volumes/commands/pending/*.md volumes/commands/processed/
    printf -- '---\nstatus: SUCCESS\n---\n\nIt is there.\n' > volumes/report
}
take
"$@" web --port 0 > address 2> /dev/null &
until grep -q token address; do sleep 0.01; done
"$@" plans --json > plans
cat /dev/zero > volumes/filler
"$@" pause && exit 2
touch full
until [ -e asked ]; do sleep 0.01; done
"$@" plans --json > plans.full
mv volumes/report "volumes/reports/pending/report-$id.md"
until grep -q 'plan store failed' said; do kill -0 $daemon || exit 3; sleep 0.01; done
rm volumes/filler
take
mv volumes/report "volumes/reports/pending/report-$id.md"
wait $daemon || exit 4
cp -R volumes left
"#;

#[test]
#[expect(clippy::print_stderr, reason = "a test that is left out says so")]
fn daemon_waits_out_full_disk() {
    let env = TestEnv::new();
    env.write("config.toml", "[llm]\nprovider = \"none\"\n");
    env.write("plan.md", "# Parts\n\n- [ ] First\n- [ ] Second\n");
    env.write("script", SCRIPT);
    env.write("volumes/.gitkeep", "");
    let daemon = env.command([]);
    let child = Command::new("unshare")
        .args([
            "--map-root-user",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
        ])
        .args(["sh", "script"])
        .arg(daemon.get_program())
        .current_dir(env.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = child else {
        return eprintln!("skipped: there is no `unshare`");
    };
    let mut running = Running { child };
    wait_until("the disk is full, or nothing can be mounted", || {
        env.path("full").exists() || running.child.try_wait().unwrap().is_some()
    });
    if env.path("full").exists() {
        running = refused_by_page(&env, running);
        env.write("asked", "");
    }
    let status = running.wait();
    if !env.path("said").exists() {
        return eprintln!("skipped: nothing can be mounted here ({status})");
    }
    let said = env.read("said");
    assert!(status.success(), "{status}\n{said}");
    has(&said, "the plan store failed");
    assert_eq!(plans(&env, "plans"), plans(&env, "plans.full"));
    env.write(
        "config.toml",
        "[llm]\nprovider = \"none\"\n[volumes]\nroot = \"left\"\n",
    );
    let status = env.run("status --json");
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["plan"]["status"], "completed", "{said}");
    assert_eq!(status["progress"]["completed"], 2, "{said}");
    let part = "2 of 2 tasks settled";
    has(env.read("left/workspace/MISSION.md"), part);
}

/// Asks the page to pause the plan, which it cannot store.
fn refused_by_page(env: &TestEnv, running: Running) -> Running {
    let line = env.read("address");
    let (address, token) = line.trim().split_once("/#token=").unwrap();
    let page = Served {
        address: address.replace("http://", ""),
        token: token.to_owned(),
        running,
    };
    let (plan, _) = &plans(env, "plans")[0];
    let reply = page.ask(&format!("POST /api/v1/plans/{plan}/pause"), &[], "{}");
    assert_eq!(reply.status, 503, "{reply:?}");
    has(reply.body, "disk");
    page.running
}

/// Returns the plans that a file lists, with their states.
fn plans(env: &TestEnv, file: &str) -> Vec<(String, String)> {
    let plans: Vec<Value> = serde_json::from_str(&env.read(file)).unwrap();
    let text = |plan: &Value, key: &str| plan[key].as_str().unwrap().to_owned();
    let plans = plans.iter();
    let plans = plans.map(|plan| (text(plan, "id"), text(plan, "status")));
    plans.collect()
}
