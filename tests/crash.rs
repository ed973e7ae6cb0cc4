//! A kill at any moment costs nothing. The real program is killed again and again while an agent outside of it, which
//! knows nothing but the files, works on, and a scripted model answers over HTTP; in the end everything is as in a run
//! that nobody disturbed.

mod agent;
mod ledger;
mod scene;
mod stage;

use std::fs;
use std::process::ExitStatus;
use std::time::Duration;

use ledger::{Ledger, Watch};
use scene::Scene;
use stage::{Chance, Life, Stage};

/// Kills at the least; the agent holds its reports back until there were enough.
const KILLS: usize = 100;

/// What the driver of the kills waits for.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// So long after the start.
    After(Duration),
    /// So long after the next news of a kind, or after a while without any.
    Near(agent::News, Duration),
}

/// The longest wait for news before a daemon is killed all the same.
const NO_NEWS: Duration = Duration::from_millis(300);

fn moment(chance: &mut Chance) -> Moment {
    let micros = |chance: &mut Chance, most| Duration::from_micros(chance.below(most));
    match chance.below(10) {
        0..=3 => Moment::After(micros(chance, 40_000)),
        4 => Moment::After(micros(chance, 160_000)),
        5 | 6 => Moment::Near(agent::News::Command, micros(chance, 6_000)),
        7 | 8 => Moment::Near(agent::News::Report, micros(chance, 20_000)),
        _ => Moment::Near(agent::News::Request, micros(chance, 12_000)),
    }
}

fn pass(moment: Moment, stage: &Stage, life: &mut Life) {
    match moment {
        Moment::After(pause) => std::thread::sleep(pause),
        Moment::Near(news, pause) => {
            let seen = stage.bell.count(news);
            if stage.bell.wait(news, seen, NO_NEWS) && !life.over() {
                std::thread::sleep(pause);
            }
        }
    }
}

#[test]
fn a_hundred_kills_cost_nothing() {
    let calm = calm(&scene::long());
    let mut chance = Chance::new("PLAN_AGENT_CRASH_SEED");
    let stage = Stage::new(&scene::long(), agent::Pace::Kills(KILLS));
    let mut watch = Watch::default();
    let mut settled = false;
    while !settled {
        let mut life = stage.begin(&stage.next_words());
        pass(moment(&mut chance), &stage, &mut life);
        if let Some(status) = life.kill() {
            assert!(
                status.success(),
                "ended by itself: {status}\n{}",
                stage.said()
            );
        }
        // What is held back for it is reported while nobody looks.
        stage.agent.dead();
        settled = watch.look(&stage);
    }
    assert!(stage.agent.kills() >= KILLS, "{}", stage.agent.kills());
    let status = stage.begin(&stage.next_words()).end();
    assert!(status.success(), "{status}\n{}", stage.said());
    watch.look(&stage);
    watch.audit(&stage);
    assert_eq!(stage.agent.record().while_dead, scene::WHILE_DEAD);
    assert_same(&calm, &stage);
}

#[test]
fn what_a_daemon_owes_at_the_end_is_made_good() {
    let stage = Stage::new(&scene::long(), agent::Pace::Free);
    assert!(stage.begin(&stage.next_words()).end().success());
    let before = left(&stage);
    let volumes = stage.env.path("volumes");
    // As if the last daemon had been killed as soon as the end of the plan was committed.
    let report = stage.agent.record().reports.pop().unwrap().name;
    fs::rename(
        volumes.join("reports/processed").join(&report),
        volumes.join("reports/pending").join(&report),
    )
    .unwrap();
    let record = stage.agent.record();
    let is_end = |(_, text): &(&String, &String)| text.contains("command_type: end");
    let (end, _) = record.seen.iter().rfind(is_end).unwrap();
    fs::remove_file(volumes.join(format!("commands/processed/{end}.md"))).unwrap();
    stage.agent.forget(end);
    fs::remove_file(volumes.join("workspace/MISSION.md")).unwrap();
    let status = stage.begin(&["resume"]).end();
    assert!(status.success(), "{status}\n{}", stage.said());
    Watch::default().audit(&stage);
    assert_same(&before, &stage);
}

/// What a run left, for a person, for a program, and in the store.
struct Left {
    plan: String,
    status: String,
    mission: String,
}

fn calm(scene: &Scene) -> Left {
    let stage = Stage::new(scene, agent::Pace::Free);
    let status: ExitStatus = stage.begin(&stage.next_words()).end();
    assert!(status.success(), "{status}\n{}", stage.said());
    let mut watch = Watch::default();
    watch.look(&stage);
    watch.audit(&stage);
    left(&stage)
}

fn left(stage: &Stage) -> Left {
    let status = stage.env.run(&["status", "--json"]);
    assert_eq!(status.code, Some(0), "{}", status.stderr);
    let mut status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    for volatile in ["/plan/id", "/plan/seq", "/usage"] {
        *status.pointer_mut(volatile).unwrap() = serde_json::Value::Null;
    }
    Left {
        plan: Ledger::of(stage).unwrap().outline(),
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
