//! Relays that cannot reach the server for long, while their agents work on.

use std::time::SystemTime;

use super::*;

/// Makes a plan whose tasks wait for nothing, and each make a file.
fn at_once(tasks: usize) -> String {
    let task = |task| format!("\n## Part {task}\n\n- produces: {task}.txt\n\nMake it.\n");
    let tasks: String = (1..=tasks).map(task).collect();
    format!("---\nname: Parts\ngoal: Make the parts\n---\n{tasks}")
}

/// As if so much had happened on the server since relays were heard of.
fn hours_pass(url: &str) {
    let hours = 8 * 60 * 60 * 1_000_000_i64;
    run_sql(
        url,
        &format!(
            "UPDATE relayed SET held_until = held_until - {hours}, offered = offered - {hours}; \
             UPDATE relays SET seen = seen - {hours}"
        ),
    );
}

/// Checks that each of these commands counts once, and no other one.
fn reported_once(field: &Field, plan: &str, commands: &[Command]) {
    let events = field.events(plan);
    let reported = events.iter().filter(|event| event["event"] == "reported");
    let mut reported: Vec<&str> = reported
        .map(|event| event["command"].as_str().unwrap())
        .collect();
    let mut own: Vec<&str> = commands.iter().map(|command| &*command.id).collect();
    reported.sort_unstable();
    own.sort_unstable();
    assert_eq!(reported, own);
}

/// All of them come at once when the server is back, also where the relay was killed meanwhile.
#[test]
fn reports_of_a_relay_that_was_offline_count_once() {
    let (relays, each) = times((1, 3), (4, 50));
    let Some(mut field) = by_hand(relays) else {
        return;
    };
    for post in field.posts() {
        let config = post.machine.scene.read("config.toml");
        let config = config.replace("max_parallel = 4", "max_parallel = 200");
        post.machine.scene.write("config.toml", &config);
        post.words = post.words.replace("--lanes 4", &format!("--lanes {each}"));
    }
    field.daemons[0].kill();
    field.daemons[0].start();
    for fault in [Fault::Silent(None), Fault::Reset] {
        let plan = field.queue_plan(&at_once(relays * each));
        field.keep();
        let commands: Vec<Vec<Command>> = field.relays.iter().map(|it| it.take(each)).collect();
        for relay in &field.relays {
            relay.proxy.fail(fault);
        }
        for (relay, commands) in field.relays.iter_mut().zip(&commands) {
            wait_until("it is cut off", || relay.proxy.met() > 0);
            for command in commands {
                relay.does(command, &command.task().to_string());
            }
            let met = relay.proxy.met();
            if fault != Fault::Reset {
                relay.kill();
                relay.start();
            }
            wait_until("it has tried", || relay.proxy.met() > met + 2);
            if fault != Fault::Reset {
                relay.kill();
            }
        }
        hours_pass(&field.url);
        field.relays.iter().for_each(|relay| relay.proxy.heal());
        wait_at_most(times(1, 5) * DEADLINE, "the plan is completed", || {
            field.keep();
            // A relay that has handed all of its own back takes what another one still has, and may.
            for relay in &field.relays {
                for command in relay.machine.scene.pending() {
                    if relay.machine.scene.claim(&command.id) {
                        relay.does(&command, &command.task().to_string());
                    }
                }
            }
            field.status(&plan)["plan"]["status"] == "completed"
        });
        field.check(&plan, relays * each);
        reported_once(&field, &plan, &commands.concat());
    }
}

/// Says in the notes of a relay, which is not running, that its agents were asked to stop, as it does itself when the server was out
/// of reach for 50 seconds.
fn has_given_up(relay: &Post) {
    let notes = relay.machine.scene.read("volumes/relay.json");
    let given_up = notes.replace("\"given_up\":false", "\"given_up\":true");
    assert_ne!(notes, given_up);
    relay.machine.scene.write("volumes/relay.json", &given_up);
}

/// Two relays are cut off. The agent of one obeys, and the command comes back to the relay; that of the other one has done the work
/// meanwhile, and it counts.
#[test]
fn relay_that_is_cut_off_stops_its_agent() {
    let faults = [Fault::Reset, Fault::Silent(None)];
    for &turned in &[false, true][..times(1, 2)] {
        let Some(mut field) = by_hand(2) else { return };
        for relay in &mut field.relays {
            relay.words = BY_HAND.replace("--lanes 4", "--lanes 1");
        }
        let plan = field.queue(2);
        field.keep();
        let [obeys, late] = [0, 1].map(|at: usize| field.relays[at].take(1).remove(0));
        for (at, relay) in field.relays.iter_mut().enumerate() {
            relay.proxy.fail(faults[(at + usize::from(turned)) % 2]);
        }
        let cut_off: fn(&mut Field, [&Command; 2]) = times(as_if_cut_off, await_stop);
        cut_off(&mut field, [&obeys, &late]);
        field.relays[1].does(&late, &late.task().to_string());
        let report = format!("reports/pending/report-{}.md", late.id);
        let report = field.relays[1].machine.scene.path(report);
        // A relay that is started now takes it for whole at its first look.
        let old = SystemTime::now() - Duration::from_secs(10);
        let written = File::options().write(true).open(report).unwrap();
        written.set_modified(old).unwrap();
        // As long as it is open it is being written.
        drop(written);
        for relay in &mut field.relays {
            relay.proxy.heal();
        }
        field.keep();
        // Else what is let go below could be that of the late one.
        field.await_reported(&plan);
        let again = field.relays[0].take(1).remove(0);
        assert_eq!(again.id, obeys.id);
        let claim = "SELECT claim FROM relayed WHERE id = $1";
        let claim: i64 = history::rows(&field.url, claim, &[&again.id])[0].get(0);
        assert_eq!(claim, 2, "it was given back, and claimed anew");
        field.relays[0].does(&again, &again.task().to_string());
        field.await_completed(&plan);
        field.check(&plan, 2);
        reported_once(&field, &plan, &[obeys, late]);
    }
}

/// The relays note it, without the wait.
fn as_if_cut_off(field: &mut Field, _: [&Command; 2]) {
    for relay in &mut field.relays {
        relay.kill();
        has_given_up(relay);
    }
}

/// Waits until both agents are asked to stop.
fn await_stop(field: &mut Field, commands: [&Command; 2]) {
    wait_until("both agents are asked to stop", || {
        let mut both = field.relays.iter().zip(commands);
        both.all(|(relay, command)| {
            let mark = format!("active/{}.cancel", command.id);
            relay.machine.scene.path(mark).exists()
        })
    });
}

/// Has another relay take the command of one that stands still, and returns it there.
fn taken_by_another(field: &mut Field, standing: &Command) -> Command {
    field.relays[1].start();
    // Again and again: the first one's last sign of life may be on its way still.
    wait_until("another relay has it", || {
        run_sql(
            &field.url,
            "UPDATE relayed SET held_until = 1 WHERE claim = 1",
        );
        !field.relays[1].machine.scene.pending().is_empty()
    });
    let [command] = &field.relays[1].take(1)[..] else {
        panic!("one command");
    };
    assert_eq!(command.id, standing.id);
    command.clone()
}

#[test]
fn late_report_of_a_relay_whose_claim_another_one_has_never_counts() {
    // The late one comes before the good one, or after it; and the relay wakes, or is killed and started again.
    let all = [(true, false), (false, true), (false, false), (true, true)];
    for &(late_first, killed) in &all[..times(2, 4)] {
        let Some(mut field) = by_hand(2) else { return };
        let plan = field.queue(1);
        field.relays[0].start();
        let command = field.relays[0].take(1).remove(0);
        let pid = Pid::from_child(&field.relays[0].running.as_ref().unwrap().child);
        freeze(pid);
        let again = taken_by_another(&mut field, &command);
        field.relays[0].does(&command, "late");
        if !late_first {
            field.relays[1].does(&again, "1");
            field.await_reported(&plan);
        }
        match killed {
            true => {
                field.relays[0].kill();
                field.relays[0].start();
            }
            false => kill_process(pid, Signal::CONT).unwrap(),
        }
        let scene = &field.relays[0].machine.scene;
        wait_until("the late one is filed", || {
            scene.names("reports/stale").len() == 1
        });
        if late_first {
            field.relays[1].does(&again, "1");
        }
        field.await_completed(&plan);
        field.check(&plan, 1);
        lacks(field.person.works(format!("log {plan}")), "late");
    }
}

#[test]
fn relay_whose_report_came_too_late_may_do_the_work_again() {
    let Some(mut field) = by_hand(2) else { return };
    let plan = field.queue(1);
    field.relays[0].start();
    let command = field.relays[0].take(1).remove(0);
    let pid = Pid::from_child(&field.relays[0].running.as_ref().unwrap().child);
    freeze(pid);
    taken_by_another(&mut field, &command);
    field.relays[0].does(&command, "late");
    kill_process(pid, Signal::CONT).unwrap();
    let scene = &field.relays[0].machine.scene;
    wait_until("the late one is filed", || {
        scene.names("reports/stale").len() == 1
    });
    let agent = scene.env.path("agent.sh").display().to_string();
    // The other relay is lost with it, and here an agent is at work now.
    field.relays.truncate(1);
    field.relays[0].kill();
    field.relays[0].words = RELAY.replace("agent.sh", &agent);
    run_sql(&field.url, "UPDATE relayed SET held_until = 1");
    field.await_completed(&plan);
    field.check(&plan, 1);
    let events = field.events(&plan);
    let reported = events.iter().find(|event| event["event"] == "reported");
    assert_eq!(reported.unwrap()["command"], command.id);
}

/// It still has the files of commands that were reported while another daemon had the plan.
#[test]
fn daemon_that_comes_back_offers_nothing_that_was_reported() {
    let Some(mut field) = Field::new(2, 1) else {
        return;
    };
    field.relays[0].words = BY_HAND.to_owned();
    field.relays[0].start();
    field.daemons[0].start();
    let plan = field.queue_plan(&at_once(2));
    let commands = field.relays[0].take(2);
    take_over(&mut field, &plan);
    field.relays[0].does(&commands[0], &commands[0].task().to_string());
    wait_until("its result counts", || {
        let tasks = &field.status(&plan)["tasks"];
        let mut tasks = tasks.as_array().unwrap().iter();
        tasks.any(|task| task["status"] == "completed")
    });
    take_over(&mut field, &plan);
    field.relays[0].does(&commands[1], &commands[1].task().to_string());
    field.await_completed(&plan);
    let said = field.relays[0].said();
    let took = said.lines().filter(|line| line.contains("took"));
    assert_eq!(took.count(), 2, "{said}");
    field.check(&plan, 2);
}
