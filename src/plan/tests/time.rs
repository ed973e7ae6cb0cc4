//! Silence, age and clocks: when an attempt is given up, and when a command has waited too long.

use super::*;

/// A plan with one task, which a worker has claimed.
fn claimed_at(now: Time) -> Plan {
    let mut plan = running(&[("a", &[])]);
    apply_at(&mut plan, now, |draft| {
        draft.issue(TaskId(1), issue(1))?;
        draft.claim(&command(1), None)
    });
    plan
}

fn minute(n: u64) -> Time {
    Time(0).plus(Duration::from_secs(60 * n))
}

#[test]
fn timeout_counts_from_last_heartbeat_and_needs_scan() {
    let plan = claimed_at(Time(0));
    let mut world = seen_at(minute(9));
    assert_eq!(due(&plan, &world).look_again, Some(minute(10)));
    world.now = minute(11);
    // A time-out needs a look that began after it was due.
    assert!(due(&plan, &world).rescan);
    world.scan_began = Some(minute(10));
    let steps = due(&plan, &world).steps;
    assert!(matches!(steps[..], [DueStep::TimeOut(..)]));
    world.signs.insert(command(1), minute(5));
    assert_eq!(due(&plan, &world).look_again, Some(minute(15)));
    world.started = minute(8);
    // A daemon that was down blames nobody.
    assert_eq!(due(&plan, &world).look_again, Some(minute(18)));
    // Nor does the deadline go on while no daemon works: the plan was stopped over night.
    world.started = minute(600);
    world.now = minute(715);
    world.signs.insert(command(1), minute(715));
    let deadline = minute(600).plus(plan.deadline_of(TaskId(1)));
    assert_eq!(due(&plan, &world).look_again, Some(deadline));
}

#[test]
fn new_command_does_not_time_out_at_daemon_start() {
    let mut plan = running(&[("a", &[])]);
    let later = minute(20).plus(Duration::from_millis(4));
    apply_at(&mut plan, later, |draft| draft.issue(TaskId(1), issue(1)));
    // The change begins a little before the moment that it records.
    let world = scanned_at(minute(20));
    assert_eq!(due(&plan, &world).steps, []);
    // By the clock of an earlier process it was issued far ahead: what counts is the start.
    let steps = due(&plan, &scanned_at(minute(10))).steps;
    assert!(matches!(steps[..], [DueStep::AskHuman(..)]));
}

#[test]
fn unreadable_report_is_asked_for_although_an_earlier_clock_was_ahead() {
    let mut plan = claimed_at(minute(60));
    apply_at(&mut plan, minute(60), |draft| {
        asking(draft, 1).reject(&command(1), "no status", "1")
    });
    let mut world = scanned_at(minute(2));
    world.started = minute(0);
    assert_eq!(due(&plan, &world).steps, [DueStep::Repair(command(1))]);
}

#[test]
fn suspended_time_counts_for_no_timeout() {
    let plan = claimed_at(Time(0));
    let mut world = scanned_at(minute(300));
    world.stood_still(Duration::from_secs(60 * 296));
    assert_eq!(due(&plan, &world).look_again, Some(minute(306)));
    world.signs.insert(command(1), minute(3));
    assert_eq!(due(&plan, &world).look_again, Some(minute(309)));
    // Heard after it woke: the silence begins anew, and the age of two hours is due before it is over.
    world.signs.insert(command(1), minute(410));
    assert_eq!(due(&plan, &world).look_again, Some(minute(416)));
    world.now = minute(500);
    for _ in 0..100 {
        world.stood_still(Duration::from_secs(1));
    }
    assert_eq!(world.still.len(), 64, "it is not remembered for ever");
    let still: Duration = world.still.iter().map(|(_, span)| *span).sum();
    assert_eq!(still, Duration::from_secs(60 * 296 + 100));
}

#[test]
fn unclaimed_command_asks_human_until_claimed() {
    let mut plan = running(&[("a", &[])]);
    apply_at(&mut plan, Time(0), |draft| draft.issue(TaskId(1), issue(1)));
    let late = Time(0).plus(Duration::from_secs(601));
    let steps = due(&plan, &scanned_at(late)).steps;
    let [DueStep::AskHuman(about, task, reason)] = &steps[..] else {
        panic!("{steps:?}");
    };
    apply_at(&mut plan, late, |draft| {
        asking(draft, 1).ask(*about, *task, reason)
    });
    assert_eq!(task_of(&plan, 1).failures, 0);
    apply_at(&mut plan, late, |draft| draft.claim(&command(1), None));
    assert_eq!(plan.open_questions().count(), 0);
}

#[test]
fn wrong_start_clock_delays_no_timeout() {
    let year = Time(0).plus(Duration::from_secs(365 * 24 * 3600));
    let plan = claimed_at(year);
    let mut world = seen_at(Time(5));
    world.started = Time(5);
    let silent = Time(5).plus(Duration::from_secs(600));
    assert_eq!(due(&plan, &world).look_again, Some(silent));
}

/// Returns what the agent of a request asks, in the plan of that work.
fn of_agent() -> HumanQuestion {
    use AnswerChoice::{Abort, Reply, Retry, Skip};
    HumanQuestion {
        choices: vec![Reply, Retry, Skip, Abort],
        ..HumanQuestion::default()
    }
}

#[test]
fn open_question_pauses_timeout_and_deadline() {
    let mut plan = claimed_at(Time(0));
    let request = CommandId::new("task-asked");
    let ask = |draft: &mut Draft<'_>| {
        asking(draft, 1).ask_for_request(TaskId(1), &request, "which?", of_agent())
    };
    apply_at(&mut plan, minute(1), ask);
    let mut world = scanned_at(minute(1000));
    assert!(due(&plan, &world).nothing(), "only a person can go on");
    let asked = plan.question(&question(1)).unwrap();
    // What would try the task again is not offered while it goes on.
    let choices = [AnswerChoice::Reply, AnswerChoice::Skip, AnswerChoice::Abort];
    assert_eq!(asked.choices, choices);
    apply_at(&mut plan, minute(1001), |draft| {
        draft.answer(&question(1), AnswerChoice::Reply, "that one", "file")
    });
    let attempt = attempt_of(&plan, 1);
    assert_eq!(attempt.with_person, Duration::from_secs(60 * 1000));
    assert_eq!(task_of(&plan, 1).note, None);
    world.signs.insert(command(1), minute(1001));
    world.now = minute(1002);
    // The rest of its time is what it was.
    let deadline = minute(1000).plus(plan.deadline_of(TaskId(1)));
    world.signs.insert(command(1), deadline);
    assert_eq!(due(&plan, &world).look_again, Some(deadline));
}

#[test]
fn request_question_closes_with_its_attempt() {
    let request = CommandId::new("task-asked");
    let asked = |ends: &dyn Fn(&mut Draft<'_>) -> Result<(), Refusal>| {
        let mut plan = running(&[("a", &[])]);
        let ask = |draft: &mut Draft<'_>| {
            asking(draft, 1).ask_for_request(TaskId(1), &request, "which?", of_agent())
        };
        assert!(change(&mut plan, ask).is_err(), "nobody is at work on it");
        apply(&mut plan, |draft| draft.issue(TaskId(1), issue(1)));
        apply(&mut plan, ask);
        apply(&mut plan, ends);
        assert_eq!(plan.open_questions().count(), 0);
    };
    asked(&|draft| asking(draft, 2).time_out(&command(1), "too long"));
    asked(&|draft| draft.skip_task(TaskId(1), "not needed"));
    asked(&|draft| draft.abandon("enough"));
    asked(&|draft| {
        let done = report(ReportStatus::Success, Time(1));
        draft.report(&command(1), done).map(drop)
    });
}

#[test]
fn failure_after_a_time_out_stops_no_successor() {
    let mut plan = claimed_at(Time(0));
    apply(&mut plan, |draft| draft.time_out(&command(1), "over"));
    apply(&mut plan, |draft| draft.issue(TaskId(1), issue(2)));
    let late = Report {
        session: Some(SessionId::new("s-1")),
        ..report(ReportStatus::Failed, minute(9))
    };
    let applied = change(&mut plan, |draft| draft.report(&command(1), late));
    assert_eq!(applied, Ok(AppliedReport::Stale));
    let state = |n| plan.attempt(&command(n)).unwrap().state;
    assert_eq!(
        [state(1), state(2)],
        [AttemptState::TimedOut, AttemptState::Open]
    );
    assert!(plan.session(&SessionId::new("s-1")).is_some());
}

/// A tool says the same as a report in a file: after a time-out it still counts, as long as nothing else was decided.
#[test]
fn success_by_a_tool_after_a_time_out_counts_for_its_attempt() {
    let mut plan = claimed_at(Time(0));
    apply(&mut plan, |draft| draft.time_out(&command(1), "over"));
    apply(&mut plan, |draft| draft.issue(TaskId(1), issue(2)));
    apply(&mut plan, |draft| {
        let draft = draft.made_by_agent(Some(command(1)));
        draft.complete_task(TaskId(1), "late")
    });
    let state = |plan: &Plan, n| plan.attempt(&command(n)).unwrap().state;
    let states = [state(&plan, 1), state(&plan, 2)];
    assert_eq!(states, [AttemptState::Reported, AttemptState::Stopped]);
    // Once it is decided, nothing is said of it any more.
    apply(&mut plan, |draft| decide(draft, 1, Decision::Retry));
    apply(&mut plan, |draft| draft.issue(TaskId(1), issue(3)));
    let said = change(&mut plan, |draft| {
        let draft = draft.made_by_agent(Some(command(1)));
        draft.complete_task(TaskId(1), "late")
    });
    assert_eq!(said, Err(Refusal::NotAwaited(command(1))));
    assert_eq!(state(&plan, 3), AttemptState::Open);
}
