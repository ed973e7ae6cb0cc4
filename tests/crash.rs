//! A kill at any moment costs nothing. The real program is killed again and again while an outside agent, which knows only the
//! files, keeps working, and a scripted model answers over HTTP; in the end everything is as in a run without kills.

mod agent;
mod before;
mod disk;
mod handing_over;
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

use ledger::{Ledger, Watch, audit};
use scene::Scene;
use stage::{Chance, Life, Stage, Tempo, announced};
use trace::{CALLS, Fault};

use crate::common::env::{TestEnv, has, skip, times, wait_until};

/// The folders of three plans that are carried out side by side.
const OWN: [&str; 3] = ["a", "b", "c"];
/// The folder of three plans that are carried out one after the other.
const SHARED: [&str; 3] = ["", "", ""];

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
    kills_lose_nothing(&scene::long(), times(100, 1_000));
}

#[test]
fn kills_of_three_plans_lose_nothing() {
    let scene = times(scene::short(), scene::long());
    kills_lose_nothing(&scene.within(&OWN), times(10, 100));
}

#[test]
fn kills_of_three_plans_in_one_folder_lose_nothing() {
    kills_lose_nothing(&scene::short().within(&SHARED), times(8, 100));
}

/// Carries the plans out among so many kills: the agent holds its reports back until then.
fn kills_lose_nothing(scene: &Scene, kills: usize) {
    let calm = calm(scene);
    let (mut chance, mut tempo) = (Chance::new("PLAN_AGENT_CRASH_SEED"), Tempo::default());
    let stage = Stage::new(scene, agent::Pace::Kills(kills));
    let mut watch = Watch::default();
    let mut settled = false;
    while !settled {
        let mut life = stage.begin_any(&mut chance);
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
    let left = finish(&stage, &mut watch);
    let while_dead = scene.while_dead * scene.folders.len();
    assert_eq!(stage.agent.record().while_dead, while_dead);
    assert_same(&calm, &left);
}

#[test]
fn terminated_daemon_exits_and_resumes() {
    let calm = calm(&scene::short());
    let (mut chance, mut tempo) = (Chance::new("PLAN_AGENT_CRASH_SEED"), Tempo::default());
    let stage = Stage::new(&scene::short(), agent::Pace::Kills(times(30, 300)));
    let mut watch = Watch::default();
    let mut life = stage.begin_any(&mut chance);
    tempo.measure(&stage.env, &mut life.running, || false);
    let mut settled = end_one(&stage, life, &mut watch);
    while !settled {
        let mut life = stage.begin_any(&mut chance);
        pass(moment(&mut chance), &stage, &mut life, &mut tempo);
        settled = end_one(&stage, life, &mut watch);
    }
    let left = finish(&stage, &mut watch);
    assert_same(&calm, &left);
}

/// Lets daemons carry the plans out to their end, checks what is left, and returns it.
fn finish(stage: &Stage, watch: &mut Watch) -> Vec<Left> {
    let numbers = 1..=stage.scene.folders.len();
    for number in numbers.clone().skip(1) {
        if !stage.has(number) {
            stage.env.exits(0, stage.scene.words(number));
        }
    }
    if stage.scene.folders.len() > 1 {
        numbers.clone().for_each(|number| carry_out(stage, number));
    }
    let left = numbers.map(|number| {
        // MISSION.md at the usual place is of the last one.
        carry_out(stage, number);
        left(stage, number)
    });
    let left = left.collect();
    watch.look(stage);
    audit(stage);
    left
}

/// Carries a plan out to its end, and those that are queued.
fn carry_out(stage: &Stage, number: usize) {
    let status = stage.begin(&stage.next_words(number)).end();
    assert!(status.success(), "{status}\n{}", stage.said());
    let folder = stage.env.path("");
    wait_until("the last daemon ends", || {
        stage::at_work(&folder).is_empty()
    });
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
        // The winner has said by then which plan it carries out, or not yet.
        let busy = ["another daemon holds the folder", "out already"];
        assert!(busy.iter().any(|busy| said.contains(busy)), "{said}");
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
        env.write("plan.md", &scene::short().plan(1));
        env.run("run --plan plan.md --queue");
        race(&env);
        race(&env);
        assert_eq!(Ledger::of(&env).unwrap().plan.attempts().count(), 1);
    }
}

#[test]
fn resume_completes_unfinished_plan_end() {
    let stage = Stage::new(&scene::long(), agent::Pace::Free);
    carry_out(&stage, 1);
    audit(&stage);
    let before = [left(&stage, 1)];
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
    audit(&stage);
    assert_same(&before, &[left(&stage, 1)]);
}

/// Carries the short scene out with a fault, and the rest of it without. Returns which call met the fault, counted over all
/// threads; `None` if there were fewer calls.
fn survive(calm: &[Left], fault: Fault) -> Option<usize> {
    let stage = Stage::new(&scene::short(), agent::Pace::Free);
    let mut watch = Watch::default();
    let status = stage.begin_with(&stage.next_words(1), fault).end();
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
        let status = stage.begin(&stage.next_words(1)).end();
        assert!(status.success(), "{fault:?}: {status}\n{}", stage.said());
        watch.look(&stage);
    }
    audit(&stage);
    assert_same(calm, &[left(&stage, 1)]);
    met
}

const KILL: &str = "signal=KILL";
const FAULTS: [&str; 3] = [KILL, "error=ENOSPC", "error=EIO"];

/// Tokio wakes its threads by `write`, which cannot fail; a really full disk stands for that fault.
fn fails(call: &str, what: &str) -> bool {
    what == KILL || call != "write"
}

#[test]
fn survives_sampled_syscall_faults() {
    if !trace::possible() {
        return skip("strace cannot trace here");
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

/// The call that looks for the workspace fails as if it were not there yet.
#[test]
fn workspace_that_a_starting_worker_makes_meanwhile_is_used() {
    if !trace::possible() {
        return skip("strace cannot trace here");
    }
    let env = TestEnv::new();
    env.write("plan.md", "# Parts\n\n- [ ] Make the part\n");
    let workspace = env.path("volumes/workspace");
    fs::create_dir_all(&workspace).unwrap();
    let of = workspace.to_str().unwrap();
    let absent = "inject=?access,faccessat:error=ENOENT:when=1";
    let strace = ["strace", "-f", "-qq", "-o", "calls", "-P", of, "-e", absent];
    env.run_under(&strace, "run --queue --plan plan.md")
        .exits(0);
    has(env.read("calls"), "(INJECTED)");
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

fn calm(scene: &Scene) -> Vec<Left> {
    let stage = Stage::new(scene, agent::Pace::Free);
    finish(&stage, &mut Watch::default())
}

/// Returns what is left of the plan that was carried out last.
fn left(stage: &Stage, number: usize) -> Left {
    let ledgers = Ledger::all(&stage.env);
    let ledger = &ledgers[number - 1];
    let plan = ledger.plan.id();
    let status = stage.env.run(format!("status {plan} --json"));
    assert_eq!(status.code, Some(0), "{}", status.stderr);
    let mut status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    for volatile in ["/plan/id", "/plan/seq", "/usage"] {
        *status.pointer_mut(volatile).unwrap() = serde_json::Value::Null;
    }
    for task in status["tasks"].as_array_mut().unwrap() {
        task["usage"].take();
        task["evidence"].take();
    }
    let mission = match stage.scene.folders[number - 1] {
        "" => "volumes/workspace/MISSION.md",
        _ => "volumes/MISSION.md",
    };
    Left {
        plan: ledger.outline(),
        status: format!("{status:#}"),
        mission: stage.env.normal(&stage.env.read(mission)),
    }
}

fn assert_same(calm: &[Left], left: &[Left]) {
    assert_eq!(calm.len(), left.len());
    for (calm, left) in calm.iter().zip(left) {
        assert_eq!(calm.plan, left.plan, "calm, and killed");
        assert_eq!(calm.status, left.status, "calm, and killed");
        assert_eq!(calm.mission, left.mission, "calm, and killed");
    }
}
