//! Kills while a plan goes from one process to another: offered by a `run`, taken, followed, and left to the next daemon. It is
//! carried out once, or waits for the next daemon.

use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

use super::ledger::{Ledger, Watch};
use super::scene::{self, Scene};
use super::stage::{Chance, Life, Stage, Tempo, at_work, kill_all, states};
use super::{Left, SHARED, agent, assert_same, calm, carry_out, finish};
use crate::common::env::{has, row, times, wait_until};

/// How far an offer is when a kill comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The caller has just started.
    Begun,
    /// The plan is queued, and the daemon sleeps.
    Offered,
    /// The daemon has dispatched a command of it.
    Taken,
    /// The caller shows what the daemon does.
    Followed,
}

const PHASES: [Phase; 4] = [Phase::Begun, Phase::Offered, Phase::Taken, Phase::Followed];

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Daemon,
    Caller,
    Both,
}

const VICTIMS: [Victim; 3] = [Victim::Daemon, Victim::Caller, Victim::Both];

#[test]
fn offered_plan_is_carried_out_once() {
    let calm = calm(&scene::short());
    let (mut chance, mut tempo) = (Chance::new("PLAN_AGENT_CRASH_SEED"), Tempo::default());
    for _ in 0..times(1, 10) {
        for phase in PHASES {
            for victim in VICTIMS {
                row((phase, victim));
                offer((phase, victim), &mut chance, &mut tempo, &calm);
            }
        }
    }
}

fn offer((phase, victim): (Phase, Victim), chance: &mut Chance, tempo: &mut Tempo, calm: &[Left]) {
    let stage = Stage::new(&scene::short(), agent::Pace::Free);
    let (env, mut watch) = (&stage.env, Watch::default());
    let mut daemon = stage.begin("daemon");
    tempo.measure(env, &mut daemon.running, || false);
    let sleeps = phase == Phase::Offered;
    if sleeps {
        signal(&daemon, Signal::STOP);
    }
    let mut caller = stage.begin(&stage.scene.words(1));
    match phase {
        Phase::Begun => tempo.sleep(chance.below(1_500)),
        Phase::Offered => wait_until("the plan is queued", || !states(env).is_empty()),
        Phase::Taken => wait_until("a command is there", || {
            stage.bell.count(agent::News::Command) > 0
        }),
        Phase::Followed => wait_until("it is shown", || stage.said().contains("dispatched")),
    }
    tempo.sleep(chance.below(300));
    if victim != Victim::Daemon {
        caller.kill_alone();
    }
    if victim != Victim::Caller {
        daemon.kill_alone();
    } else if sleeps {
        signal(&daemon, Signal::CONT);
    }
    match victim {
        Victim::Both => {}
        Victim::Caller => {
            let settled = || states(env).iter().all(|state| state == "completed");
            wait_until("the daemon carries out what was offered", settled);
        }
        // It goes on by itself, unless the daemon has begun: then the plan stays queued, and it says so.
        Victim::Daemon => match caller.end().code() {
            Some(0) => {}
            Some(130) => has(stage.said(), "resume"),
            code => panic!("{code:?}\n{}", stage.said()),
        },
    }
    kill_all(&env.path(""));
    watch.look(&stage);
    go_on_with_queue(&stage);
    let left = finish(&stage, &mut watch);
    assert_same(calm, &left);
}

fn signal(life: &Life, signal: Signal) {
    kill_process(Pid::from_child(&life.running.child), signal).unwrap();
}

/// Lets the next daemon carry out what is queued, and ends it.
fn go_on_with_queue(stage: &Stage) {
    let ledgers = Ledger::all(&stage.env);
    let mut open = ledgers.iter().filter(|ledger| !ledger.is_over());
    if open.all(|ledger| ledger.plan.head().queue.is_none()) {
        return;
    }
    let daemon = stage.begin("daemon");
    wait_until("every plan has ended", || {
        let states = states(&stage.env);
        states.iter().all(|state| state == "completed")
    });
    daemon.kill();
}

/// Three plans of one folder: the first one's process leaves the others to a daemon in the background.
#[test]
fn plans_left_to_the_next_daemon_survive_kills() {
    let scene = scene::short().within(&SHARED);
    let calm = calm(&scene);
    let (mut chance, mut tempo) = (Chance::new("PLAN_AGENT_CRASH_SEED"), Tempo::default());
    for _ in 0..times(2, 60) {
        leave(&scene, &mut chance, &mut tempo, &calm);
    }
}

fn leave(scene: &Scene, chance: &mut Chance, tempo: &mut Tempo, calm: &[Left]) {
    let stage = Stage::new(scene, agent::Pace::Free);
    let mut watch = Watch::default();
    for number in [2, 3] {
        stage.env.exits(0, scene.words(number));
    }
    let mut host = stage.begin(&scene.words(1));
    tempo.measure(&stage.env, &mut host.running, || false);
    wait_until("the first plan ends", || {
        stage.asked().contains_key("summary of plan 1")
    });
    let folder: PathBuf = stage.env.path("");
    wait_until("the next daemon starts, or it may be long", || {
        host.over() || at_work(&folder).len() > 1 || chance.below(40) == 0
    });
    tempo.sleep(chance.below(1_500));
    let alone = chance.below(2) == 0;
    if let Some(status) = host.kill_alone() {
        assert!(status.success(), "{status}\n{}", stage.said());
        has(stage.said(), "other plans go on in the background (pid ");
    }
    match alone {
        // If there is one, it carries them out and ends.
        true => wait_until("no daemon is left", || at_work(&folder).is_empty()),
        false => kill_all(&folder),
    }
    watch.look(&stage);
    carry_out(&stage, 1);
    watch.look(&stage);
    go_on_with_queue(&stage);
    let left = finish(&stage, &mut watch);
    assert_same(calm, &left);
}
