//! A kill at any moment costs nothing. The real program is killed again and again while an outside agent, which knows only the
//! files, keeps working, and a scripted model answers over HTTP; in the end everything is as in a run without kills.

mod agent;
mod before;
mod disk;
mod isolation;
mod lanes;
mod ledger;
mod scene;
pub mod stage;
mod tools;
mod trace;
mod worker;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use ledger::{Ledger, Watch};
use scene::Scene;
use stage::{Chance, Life, Stage, Tempo, announced};
use trace::{CALLS, Fault};

use crate::common::env::{TestEnv, has, times, wait_until};

/// Returns how many pairs of daemons start simultaneously; each folder has two pairs.
fn races() -> usize {
    times(3, 30)
}

/// When the next kill comes; its spans are thousandths of the time that a daemon takes to start.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// This long after the start.
    After(u64),
    /// This long after the next event of a kind, or after a while without any.
    Near(agent::News, u64),
}

fn moment(chance: &mut Chance) -> Moment {
    match chance.below(10) {
        0..=3 => Moment::After(chance.below(700)),
        4 => Moment::After(chance.below(2_500)),
        5 | 6 => Moment::Near(agent::News::Command, chance.below(100)),
        7 | 8 => Moment::Near(agent::News::Report, chance.below(300)),
        _ => Moment::Near(agent::News::Request, chance.below(200)),
    }
}

fn pass(moment: Moment, stage: &Stage, life: &mut Life, tempo: &mut Tempo) {
    match moment {
        Moment::After(pause) => tempo.sleep(pause),
        Moment::Near(news, pause) => {
            let seen = stage.bell.count(news);
            tempo.measure(&stage.env, &mut life.running, || false);
            if stage.bell.wait(news, seen, tempo.no_news()) && !life.over() {
                tempo.sleep(pause);
            }
        }
    }
}

#[test]
fn hundred_kills_lose_nothing() {
    // The agent holds its reports back until there were so many kills.
    let kills = times(100, 1_000);
    let calm = calm(&scene::long());
    let (mut chance, mut tempo) = (Chance::new("PLAN_AGENT_CRASH_SEED"), Tempo::default());
    let stage = Stage::new(&scene::long(), agent::Pace::Kills(kills));
    let mut watch = Watch::default();
    let mut settled = false;
    while !settled {
        let mut life = stage.begin(stage.next_words());
        pass(moment(&mut chance), &stage, &mut life, &mut tempo);
        if let Some(status) = life.kill() {
            assert!(
                status.success(),
                "ended by itself: {status}\n{}",
                stage.said()
            );
        }
        // Reports that wait for this moment are submitted while no daemon runs.
        stage.agent.dead();
        settled = watch.look(&stage);
    }
    assert!(stage.agent.kills() >= kills, "{}", stage.agent.kills());
    finish(&stage, &mut watch);
    assert_eq!(stage.agent.record().while_dead, scene::WHILE_DEAD);
    assert_same(&calm, &stage);
}

#[test]
fn terminated_daemon_exits_and_resumes() {
    let calm = calm(&scene::short());
    let (mut chance, mut tempo) = (Chance::new("PLAN_AGENT_CRASH_SEED"), Tempo::default());
    let stage = Stage::new(&scene::short(), agent::Pace::Kills(times(30, 300)));
    let mut watch = Watch::default();
    let mut life = stage.begin(stage.next_words());
    tempo.measure(&stage.env, &mut life.running, || false);
    let mut settled = end_one(&stage, life, &mut watch);
    while !settled {
        let mut life = stage.begin(stage.next_words());
        pass(moment(&mut chance), &stage, &mut life, &mut tempo);
        settled = end_one(&stage, life, &mut watch);
    }
    finish(&stage, &mut watch);
    assert_same(&calm, &stage);
}

/// Lets a daemon carry the plan out to its end, and checks what is left.
fn finish(stage: &Stage, watch: &mut Watch) {
    let status = stage.begin(stage.next_words()).end();
    assert!(status.success(), "{status}\n{}", stage.said());
    watch.look(stage);
    watch.audit(stage);
}

/// Asks a daemon to end; returns whether the plan has ended.
fn end_one(stage: &Stage, life: Life, watch: &mut Watch) -> bool {
    let announced = announced(&stage.env, life.running.child.id());
    let status = life.term();
    let said = || stage.said();
    match (status.code(), status.signal()) {
        (Some(143), _) => assert!(
            !stage.env.path("volumes/daemon.json").exists(),
            "{}",
            said()
        ),
        // The signal came after the plan was completed.
        (Some(0), _) => {}
        // The signal came before the daemon had begun anything that it could end in order; a shell reports that as 143 as well.
        (None, Some(15)) if !announced => {}
        _ => panic!("{status}\n{}", said()),
    }
    stage.agent.dead();
    watch.look(stage)
}

#[test]
fn one_of_two_concurrent_resumes_carries_the_plan_out() {
    let race = |env: &TestEnv| {
        let start = || env.spawn("resume", Stdio::null(), Stdio::piped());
        let (mut first, mut second) = (start(), start());
        wait_until("one gives up", || {
            [&mut first, &mut second]
                .iter_mut()
                .any(|one| one.child.try_wait().unwrap().is_some())
        });
        let (loser, mut winner) = match first.child.try_wait().unwrap() {
            Some(_) => (&mut first, second),
            None => (&mut second, first),
        };
        let said = std::io::read_to_string(loser.child.stderr.take().unwrap()).unwrap();
        assert_eq!(loser.wait().code(), Some(5), "{said}");
        has(&said, "another daemon holds the folder");
        wait_until("the winner has dispatched its first task", || {
            let ended = winner.child.try_wait().unwrap();
            assert_eq!(ended, None, "the winner ended as well");
            fs::read_dir(env.path("volumes/commands/pending")).is_ok_and(|files| files.count() == 1)
        });
        winner.child.kill().unwrap();
        winner.wait();
    };
    for _ in 0..races() {
        let env = TestEnv::new();
        env.write("config.toml", "[llm]\nprovider = \"none\"\n");
        env.write("plan.md", &scene::short().plan);
        env.run("run --plan plan.md --queue");
        race(&env);
        race(&env);
        assert_eq!(Ledger::of(&env).unwrap().plan.attempts().count(), 1);
    }
}

#[test]
fn resume_completes_unfinished_plan_end() {
    let stage = Stage::new(&scene::long(), agent::Pace::Free);
    assert!(stage.begin(stage.next_words()).end().success());
    Watch::default().audit(&stage);
    let before = left(&stage);
    let volumes = stage.env.path("volumes");
    // This is the state after a kill immediately after the end of the plan was committed.
    let report = stage.agent.record().reports.pop().unwrap().name;
    fs::rename(
        volumes.join("reports/processed").join(&report),
        volumes.join("reports/pending").join(&report),
    )
    .unwrap();
    fs::remove_file(volumes.join("workspace/MISSION.md")).unwrap();
    let status = stage.begin("resume").end();
    assert!(status.success(), "{status}\n{}", stage.said());
    Watch::default().audit(&stage);
    assert_same(&before, &stage);
}

/// Carries the short scene out with a fault, and the rest of it without. Returns which call met the fault, counted over all
/// threads; `None` if there were fewer calls.
fn survive(calm: &Left, fault: Fault) -> Option<usize> {
    let stage = Stage::new(&scene::short(), agent::Pace::Free);
    let mut watch = Watch::default();
    let status = stage.begin_with(stage.next_words(), fault).end();
    let met = stage.met(status);
    stage.agent.dead();
    watch.look(&stage);
    if !status.success() {
        let clear = status.code() == Some(1) && stage.said().contains("error: ");
        assert!(
            clear || fault.what.starts_with("signal"),
            "{fault:?}: {status}\n{}",
            stage.said()
        );
        let status = stage.begin(stage.next_words()).end();
        assert!(status.success(), "{fault:?}: {status}\n{}", stage.said());
        watch.look(&stage);
    }
    watch.audit(&stage);
    assert_same(calm, &stage);
    met
}

const KILL: &str = "signal=KILL";
const FAULTS: [&str; 3] = [KILL, "error=ENOSPC", "error=EIO"];

/// Tokio wakes its threads by `write`, which cannot fail; a really full disk stands for that fault.
fn fails(call: &str, what: &str) -> bool {
    what == KILL || call != "write"
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that is left out says so")]
fn survives_sampled_syscall_faults() {
    if !trace::possible() {
        return eprintln!("skipped: strace cannot trace here");
    }
    let calm = calm(&scene::short());
    let mut chance = Chance::new("PLAN_AGENT_CRASH_SEED");
    for what in FAULTS {
        for (call, most) in [("pwrite64", 300), ("fsync", 30), ("renameat2", 8)] {
            let at = u32::try_from(chance.below(most)).unwrap() + 1;
            survive(&calm, Fault { call, what, at });
        }
    }
}

#[test]
#[ignore = "takes long: .ci/long"]
fn survives_kill_at_every_syscall() {
    everywhere(KILL);
}

#[test]
#[ignore = "takes long: .ci/long"]
fn survives_full_disk_at_every_syscall() {
    everywhere("error=ENOSPC");
}

#[test]
#[ignore = "takes long: .ci/long"]
fn survives_io_error_at_every_syscall() {
    everywhere("error=EIO");
}

#[expect(clippy::print_stderr, reason = "figures for whoever runs it by hand")]
fn everywhere(what: &'static str) {
    assert!(trace::possible(), "strace cannot trace here");
    let calm = calm(&scene::short());
    let step = std::env::var("PLAN_AGENT_CRASH_STEP").map_or(1, |step| step.parse().unwrap());
    for call in CALLS.into_iter().filter(|call| fails(call, what)) {
        let mut met = BTreeSet::new();
        let mut at = 1;
        while let Some(number) = survive(&calm, Fault { call, what, at }) {
            met.insert(number);
            at += step;
        }
        eprintln!(
            "{what} at {call}: {} runs, {} different calls up to {:?}",
            (at - 1) / step,
            met.len(),
            met.last()
        );
    }
}

/// The result of a run, for a person, for a program, and in the store.
struct Left {
    plan: String,
    status: String,
    mission: String,
}

fn calm(scene: &Scene) -> Left {
    let stage = Stage::new(scene, agent::Pace::Free);
    finish(&stage, &mut Watch::default());
    left(&stage)
}

fn left(stage: &Stage) -> Left {
    let status = stage.env.run("status --json");
    assert_eq!(status.code, Some(0), "{}", status.stderr);
    let mut status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    for volatile in ["/plan/id", "/plan/seq", "/usage"] {
        *status.pointer_mut(volatile).unwrap() = serde_json::Value::Null;
    }
    for task in status["tasks"].as_array_mut().unwrap() {
        task["usage"].take();
        task["evidence"].take();
    }
    Left {
        plan: Ledger::of(&stage.env).unwrap().outline(),
        status: format!("{status:#}"),
        mission: stage
            .env
            .normal(&stage.env.read("volumes/workspace/MISSION.md")),
    }
}

fn assert_same(calm: &Left, stage: &Stage) {
    let left = left(stage);
    assert_eq!(calm.plan, left.plan, "calm, and killed");
    assert_eq!(calm.status, left.status, "calm, and killed");
    assert_eq!(calm.mission, left.mission, "calm, and killed");
}
