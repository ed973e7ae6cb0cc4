//! Who waits for whom: it is said of attempts that somebody is at work on, and of each wait the end is told.

use super::*;

pub(super) fn wait(n: u32) -> RoleRequest {
    RoleRequest {
        role: "reviewer".to_owned(),
        on: ["coder", "writer"][n as usize % 2].to_owned(),
        request: CommandId::new(format!("request-{n}")),
        what: "Mend it".to_owned(),
        since: Time(i64::from(n)),
        limited_until: None,
    }
}

/// What must hold in every plan that can be reached.
pub(super) fn check(plan: &Plan) -> Result<(), TestCaseError> {
    for attempt in plan.attempts().filter(|attempt| !attempt.waits.is_empty()) {
        prop_assert_eq!(attempt.state, AttemptState::Open);
        let task = plan.task(attempt.task).unwrap();
        let current = plan.current_attempt(task).map(|current| &current.id);
        let in_one_place = current == Some(&attempt.id);
        prop_assert!(in_one_place, "{:?} {:?}", current, attempt.id);
    }
    let asked = Lanes::of(plan).roles.into_values();
    prop_assert!(asked.map(|lanes| lanes.asked.len()).sum::<usize>() <= plan.waits().count());
    Ok(())
}

/// Carries a change out and returns how waits ended by it, and how many began.
fn told(
    plan: &mut Plan,
    change: impl FnOnce(&mut Draft<'_>),
) -> (Vec<(String, RoleRequestEnd)>, usize) {
    let mut draft = Draft::new(plan, Time(5));
    change(&mut draft);
    let events = draft.finish().events;
    let begun = |event: &&Event| matches!(event, Event::Requested { .. });
    let begun = events.iter().filter(begun).count();
    let ended = events.into_iter().filter_map(|event| match event {
        Event::RequestEnded { request, how, .. } => Some((request.to_string(), how)),
        _ => None,
    });
    (ended.collect(), begun)
}

#[test]
fn request_begins_and_ends_once() {
    let mut plan = running(&[("a", &[])]);
    apply(&mut plan, |draft| draft.issue(TaskId(1), issue(1)));
    let begin = |draft: &mut Draft<'_>| {
        draft.begin_wait(&command(1), wait(1)).unwrap();
        draft.begin_wait(&command(1), wait(1)).unwrap();
    };
    assert_eq!(told(&mut plan, begin), (vec![], 1));
    let mut draft = Draft::new(&mut plan, Time(6));
    draft.begin_wait(&command(1), wait(1)).unwrap();
    draft.end_wait(&CommandId::new("request-9"), RoleRequestEnd::Error);
    assert!(!draft.has_changed(), "there is nothing to be written");
    draft.finish();
    let end = |draft: &mut Draft<'_>| {
        draft.end_wait(&wait(1).request, RoleRequestEnd::Rejected);
        draft.end_wait(&wait(1).request, RoleRequestEnd::Completed);
    };
    let rejected = vec![("request-1".to_owned(), RoleRequestEnd::Rejected)];
    assert_eq!(told(&mut plan, end), (rejected, 0));
    assert_eq!(plan.waits().count(), 0);
}

#[test]
fn requests_end_with_their_attempt() {
    type End = fn(&mut Draft<'_>);
    let ends: [End; 4] = [
        |draft| drop(draft.report(&command(1), report(ReportStatus::Success, Time(2)))),
        |draft| asking(draft, 1).time_out(&command(1), "silent").unwrap(),
        |draft| draft.withdrawn(&command(1)).unwrap(),
        |draft| draft.abandon("enough").unwrap(),
    ];
    for end in ends {
        let mut plan = running(&[("a", &[])]);
        apply(&mut plan, |draft| draft.issue(TaskId(1), issue(1)));
        apply(&mut plan, |draft| draft.begin_wait(&command(1), wait(1)));
        let taken_back = vec![("request-1".to_owned(), RoleRequestEnd::TakenBack)];
        assert_eq!(told(&mut plan, end), (taken_back, 0));
        let late = change(&mut plan, |draft| draft.begin_wait(&command(1), wait(2)));
        assert_eq!(late, Err(Refusal::NotAwaited(command(1))));
    }
}

#[test]
fn usage_limit_of_asked_role_stops_timeouts() {
    let mut plan = running(&[("a", &[])]);
    let at = |seconds| Time::default().plus(Duration::from_secs(seconds));
    apply(&mut plan, |draft| draft.issue(TaskId(1), issue(1)));
    apply(&mut plan, |draft| draft.claim(&command(1), None).map(drop));
    apply(&mut plan, |draft| draft.begin_wait(&command(1), wait(1)));
    let limit = |draft: &mut Draft<'_>| draft.limit_wait(&wait(1).request, at(90_000));
    assert_eq!(told(&mut plan, limit), (vec![], 0));
    let mut draft = Draft::new(&mut plan, Time(6));
    draft.limit_wait(&wait(1).request, at(90_000));
    draft.limit_wait(&CommandId::new("request-9"), at(1));
    assert!(!draft.has_changed(), "there is nothing to be written");
    draft.finish();
    let meanwhile = due(&plan, &scanned_at(at(80_000)));
    assert_eq!(
        (meanwhile.steps, meanwhile.look_again),
        (vec![], Some(at(90_000)))
    );
    let again = RoleRequestEnd::AskedAgain;
    let mut draft = Draft::new(&mut plan, at(90_000));
    draft.end_wait(&wait(1).request, again);
    draft.finish();
    let rested = attempt_of(&plan, 1).with_person;
    assert_eq!(rested, at(90_000).since(wait(1).since));
}

#[test]
fn reads_stored_attempt_without_requests() {
    let mut plan = running(&[("a", &[])]);
    apply(&mut plan, |draft| draft.issue(TaskId(1), issue(1)));
    let mut stored = serde_json::to_value(attempt_of(&plan, 1)).unwrap();
    stored.as_object_mut().unwrap().remove("waits").unwrap();
    let read: Attempt = serde_json::from_value(stored).unwrap();
    assert_eq!(&read, attempt_of(&plan, 1));
}

#[test]
fn restored_plan_withdraws_open_requests() {
    let mut plan = running(&[("a", &[])]);
    let earlier = Plan::from_rows(plan.rows()).unwrap();
    apply(&mut plan, |draft| draft.issue(TaskId(1), issue(1)));
    apply(&mut plan, |draft| draft.begin_wait(&command(1), wait(1)));
    let mut draft = Draft::new(&mut plan, Time(6));
    draft.restore(&earlier, 1).unwrap();
    let events = draft.finish().events;
    let kinds = events.iter().map(|event| match event {
        Event::RequestEnded { how, .. } => Some(*how),
        Event::Restored { .. } => None,
        other => panic!("{other:?}"),
    });
    let wanted = [Some(RoleRequestEnd::TakenBack), None];
    assert_eq!(Vec::from_iter(kinds), wanted);
}

#[test]
fn claimed_task_is_not_unassigned() {
    let mut plan = running(&[("a", &[])]);
    let mut head = plan.head().clone();
    head.policy.roles_only = true;
    drop(plan.put(Row::Head(Box::new(head))));
    let nobodys = |plan: &Plan| plan.has_no_worker(task_of(plan, 1));
    assert!(nobodys(&plan));
    apply(&mut plan, |draft| draft.issue(TaskId(1), issue(1)));
    assert!(nobodys(&plan), "its command lies there");
    apply(&mut plan, |draft| draft.claim(&command(1), None).map(drop));
    assert!(!nobodys(&plan));
}
