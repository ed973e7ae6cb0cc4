//! A disk that is really full, in a mount that only the test sees.

use std::process::{Command, Stdio};

use crate::common::env::{Running, TestEnv, has};

/// Mounts a small disk for the exchange folder, acts as the agent, and fills the disk to the last byte while the daemon should
/// apply a report. Ends with 77 if mounting is not possible.
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
cat /dev/zero > volumes/filler
"$@" pause && exit 2
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
    let status = Running { child }.wait();
    if !env.path("said").exists() {
        return eprintln!("skipped: nothing can be mounted here ({status})");
    }
    let said = env.read("said");
    assert!(status.success(), "{status}\n{said}");
    has(&said, "the plan store failed");
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
