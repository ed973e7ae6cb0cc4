//! Relays and agents whose wall clock is not the one of the others.

use super::super::clock::{await_more_than, set_clock, with_a_clock_to_set};
use super::*;

const HOUR: i64 = 60 * 60;

/// Notes what its clock says, and works until the test lets it end. The relay keeps the shim's variables to itself.
const LASTING: &str = r#"
here=${0%/*}
task=${PWD##*/task-}
export LD_PRELOAD="$here/shim.so" CLOCK_SHIFT="$here/shift"
date +%s > "$here/clock.part" && mv "$here/clock.part" "$here/clock"
until [ -e "$here/go" ]; do echo .; sleep 0.2; done
echo "$task" > "$task.txt"
printf -- '---\nstatus: SUCCESS\n---\n\n## Core results\n\nPart %s.\n' "$task" > "$1.part"
mv "$1.part" "$1"
"#;

/// Makes a daemon that ends an attempt after so much silence, and two relays with one lane each whose clocks are an hour off, one
/// in each direction; or says why that cannot be made here.
fn an_hour_off(silence: Duration) -> Option<Field> {
    let mut field = Field::new(1, 2)?;
    for post in field.posts() {
        let config = post.machine.scene.read("config.toml");
        let config = format!("{config}\nrun.task_timeout = '{silence:?}'\n");
        post.machine.scene.write("config.toml", &config);
    }
    for (relay, off) in field.relays.iter_mut().zip([HOUR, -HOUR]) {
        let scene = &mut relay.machine.scene;
        if let Err(why) = with_a_clock_to_set(scene) {
            skip(&why);
            return None;
        }
        set_clock(scene, off);
        scene.write("agent.sh", LASTING);
        relay.words = relay.words.replace("--lanes 2", "--lanes 1");
    }
    Some(field)
}

/// Work that lasts is left alone, an agent that is silent is not, and the log keeps its order.
#[test]
fn clock_of_a_relay_and_its_agents_may_be_an_hour_off() {
    let silence = Duration::from_secs(4);
    let Some(mut field) = an_hour_off(silence) else {
        return;
    };
    let plan = field.queue(2);
    field.keep();
    for (relay, off) in field.relays.iter().zip([HOUR, -HOUR]) {
        let clock = relay.machine.scene.env.path("clock");
        wait_until("an agent is at work", || clock.exists());
        let clock: i64 = fs::read_to_string(clock).unwrap().trim().parse().unwrap();
        let ahead = clock - jiff::Timestamp::now().as_second();
        assert!((ahead - off).abs() < HOUR / 2, "{ahead} s ahead");
    }
    wait_until("both relays have said how it goes", || {
        let said = "SELECT count(*) FROM relayed WHERE life LIKE '%last_output_at%'";
        history::rows(&field.url, said, &[])[0].get::<_, i64>(0) == 2
    });
    await_more_than(silence + silence / 2);
    let workers = field.daemons[0].machine.scene.works("workers");
    lacks(workers, ["for -", "in -"]);
    for relay in &field.relays {
        relay.machine.scene.write("go", "");
    }
    field.await_completed(&plan);
    field.check(&plan, 2);
    let events = field.events(&plan);
    let named = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    assert_eq!((named("claimed"), named("timed_out")), (2, 0), "{events:?}");
    in_order(&events);

    let plan = field.queue(1);
    for relay in &mut field.relays {
        relay.words = BY_HAND.replace("--lanes 4", "--lanes 1");
        relay.kill();
        relay.start();
    }
    let mut has_it = None;
    wait_until("a relay has it", || {
        let has = |relay: &Post| !relay.machine.scene.pending().is_empty();
        has_it = field.relays.iter().position(has);
        has_it.is_some()
    });
    let (silent, other) = (has_it.unwrap(), 1 - has_it.unwrap());
    field.relays[silent].take(1);
    // It says at once what it sees, and the other one is to have what comes next.
    field.relays[silent].kill();
    field.relays[silent].start();
    wait_until("the attempt times out", || {
        let is = |event: &Value| event["event"] == "timed_out";
        field.events(&plan).iter().any(is)
    });
    let again = field.relays[other].take(1).remove(0);
    assert_eq!(again.attempt(), 2);
    field.relays[other].does(&again, "1");
    field.await_completed(&plan);
    field.check(&plan, 1);
    in_order(&field.events(&plan));
}

/// Checks that events are in the order of their times, and that these are those of the daemon's clock.
fn in_order(events: &[Value]) {
    let times: Vec<jiff::Timestamp> = events
        .iter()
        .map(|event| event["at"].as_str().unwrap().parse().unwrap())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    let now = jiff::Timestamp::now().as_second();
    let near = |at: &jiff::Timestamp| (at.as_second() - now).abs() < HOUR / 2;
    assert!(times.iter().all(near), "{times:?}");
}
