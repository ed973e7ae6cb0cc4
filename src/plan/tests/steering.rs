//! What a person does to single tasks of a plan that is carried out.

use std::collections::BTreeSet;

use super::*;

/// A chain of three tasks of which the first two are completed and an agent works on the third, and the number of its command.
fn chain() -> Plan {
    let mut plan = running(&[("a", &[]), ("b", &[0]), ("c", &[1])]);
    for n in [1, 2] {
        apply(&mut plan, |draft| draft.issue(TaskId(n), issue(n)));
        accept(&mut plan, n);
    }
    apply(&mut plan, |draft| draft.issue(TaskId(3), issue(3)));
    plan
}

fn accept(plan: &mut Plan, n: u32) {
    apply(plan, |draft| {
        hear(draft, n, report(ReportStatus::Success, Time(1)))?;
        judge_by_rules(draft, n)
    });
}

fn states(plan: &Plan) -> Vec<&'static str> {
    plan.tasks().map(|task| task.status.as_str()).collect()
}

fn told(plan: &Plan, task: u32) -> Option<&str> {
    plan.task(TaskId(task))?.told.as_deref()
}

#[test]
fn report_contains_what_its_agent_asked() {
    let mut report = Report::new("report-1.md", ReportStatus::PartialSuccess, Time(0));
    report.question = Some("Shall I add a shebang?".to_owned());
    let (text, end) = (
        report.text(),
        "## Question to the person\n\nShall I add a shebang?\n",
    );
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn words_wait_for_next_command_and_survive_failure() {
    let mut plan = chain();
    let words = |draft: &mut Draft<'_>| draft.tell(TaskId(3), "use port 1", false);
    assert!(apply(&mut plan, words));
    assert!(!apply(&mut plan, words), "typed twice");
    apply(&mut plan, |draft| {
        asking(draft, 3).time_out(&command(3), "silent")
    });
    assert_eq!(told(&plan, 3), Some("A person says: use port 1"));
    apply(&mut plan, |draft| draft.recalled(&command(3)));
    apply(&mut plan, |draft| draft.issue(TaskId(3), issue(4)));
    assert_eq!(told(&plan, 3), None);
    let carried = plan.attempt(&command(4)).unwrap().told.clone();
    assert_eq!(carried.as_deref(), Some("A person says: use port 1"));
    assert!(!apply(&mut plan, words), "it has them");
    apply(&mut plan, |draft| draft.tell(TaskId(1), "x", false));
    assert_eq!(states(&plan)[0], "completed", "its words wait");
    apply(&mut plan, |draft| draft.retry_task(TaskId(1), ""));
    assert_eq!(told(&plan, 1), Some("A person says: x"));
    apply(&mut plan, |draft| draft.abandon("enough"));
    let ended = change(&mut plan, |draft| draft.tell(TaskId(1), "y", false));
    assert_eq!(ended, Err(Refusal::PlanIs(PlanState::Abandoned)));
}

#[test]
fn words_that_came_during_work_get_an_attempt_before_it_is_accepted() {
    let mut plan = chain();
    apply(&mut plan, |draft| draft.tell(TaskId(3), "in French", false));
    accept(&mut plan, 3);
    let task = plan.task(TaskId(3)).unwrap();
    assert_eq!((task.status, task.failures), (TaskState::InProgress, 0));
    let verdict = plan.attempt(&command(3)).unwrap().verdict.clone();
    assert_eq!(verdict.unwrap().decision, Decision::Retry);
    assert!(due_now(&plan).contains(&DueStep::Issue(TaskId(3))));
    apply(&mut plan, |draft| draft.issue(TaskId(3), issue(4)));
    accept(&mut plan, 4);
    assert_eq!(states(&plan), ["completed"; 3]);
}

#[test]
fn words_at_once_need_session() {
    let mut plan = chain();
    let now = |draft: &mut Draft<'_>| draft.tell(TaskId(3), "use port 1", true);
    apply(&mut plan, |draft| draft.claim(&command(3), None));
    let refused = change(&mut plan, now);
    assert_eq!(refused, Err(Refusal::NoSession(TaskId(3))));
    assert_eq!(told(&plan, 3), None);
    let session = Some(SessionId::new("s-3"));
    apply(&mut plan, |draft| draft.claim(&command(3), session));
    apply(&mut plan, now);
    assert!(recalled(&plan, 3));
    apply(&mut plan, |draft| draft.recalled(&command(3)));
    assert!(due_now(&plan).contains(&DueStep::Issue(TaskId(3))));
    assert_eq!(plan.task(TaskId(3)).unwrap().failures, 0);
    let nobody = change(&mut plan, |draft| draft.tell(TaskId(3), "more", true));
    assert_eq!(nobody, Err(Refusal::NobodyWorks(TaskId(3))));
}

#[test]
fn retry_opens_what_relies_on_task() {
    let mut plan = chain();
    assert_eq!(plan.opens_again(TaskId(1)), [TaskId(2), TaskId(3)]);
    assert_eq!(plan.opens_again(TaskId(3)), []);
    apply(&mut plan, |draft| draft.retry_task(TaskId(1), "with tests"));
    assert_eq!(states(&plan), ["pending"; 3]);
    assert_eq!(told(&plan, 1), Some("A person says: with tests"));
    assert_eq!(plan.open_attempts().count(), 0);
    assert_eq!(plan.attempts_left(plan.task(TaskId(1)).unwrap()), 3);
    // Twice, and while an agent works on it.
    let before = plan.clone();
    apply(&mut plan, |draft| draft.retry_task(TaskId(1), "with tests"));
    apply(&mut plan, |draft| draft.retry_task(TaskId(1), ""));
    assert_eq!(plan, before);
    apply(&mut plan, |draft| draft.issue(TaskId(1), issue(5)));
    let before = plan.clone();
    apply(&mut plan, |draft| draft.retry_task(TaskId(1), ""));
    assert_eq!(plan, before);
}

#[test]
fn completed_plan_opens_again_by_retry_and_add() {
    let mut plan = chain();
    accept(&mut plan, 3);
    apply(&mut plan, |draft| draft.settle("over"));
    let skipped = change(&mut plan, |draft| draft.skip_by_hand(TaskId(3), ""));
    assert_eq!(skipped, Err(Refusal::PlanIs(PlanState::Completed)));
    let over = plan.clone();
    apply(&mut plan, |draft| draft.retry_task(TaskId(3), ""));
    assert_eq!(plan.status(), &PlanState::Running);
    assert_eq!(plan.head().outcome, None);
    assert_eq!(states(&plan), ["completed", "completed", "pending"]);

    let mut plan = over;
    let spec = TaskSpec {
        dependencies: vec![TaskRef::Number(TaskId(2))],
        ..task("d", &[])
    };
    let added = apply(&mut plan, |draft| draft.add_by_hand(spec, None));
    assert_eq!(plan.status(), &PlanState::Running);
    let order: Vec<u32> = plan.tasks().map(|task| task.number.0).collect();
    assert_eq!((added, order), (TaskId(4), vec![1, 2, 4, 3]));
    apply(&mut plan, |draft| draft.abandon("enough"));
    let refused = change(&mut plan, |draft| draft.retry_task(TaskId(4), ""));
    assert_eq!(refused, Err(Refusal::PlanIs(PlanState::Abandoned)));
}

#[test]
fn done_by_hand_withdraws_attempt_and_closes_question() {
    let mut plan = running(&[("a", &[]), ("b", &[0])]);
    apply(&mut plan, |draft| draft.issue(TaskId(1), issue(1)));
    let about = HumanQuestionKind::Unclaimed;
    apply(&mut plan, |draft| {
        asking(draft, 1).ask(about, Some(TaskId(1)), "nobody")
    });
    assert!(apply(&mut plan, |draft| draft.complete_by_hand(TaskId(1), "")));
    assert!(!apply(&mut plan, |draft| draft.complete_by_hand(TaskId(1), "")));
    let task = plan.task(TaskId(1)).unwrap();
    let evidence = task.evidence.clone().unwrap();
    assert_eq!((evidence.proven, evidence.by_hand), (false, true));
    assert_eq!(plan.open_questions().count(), 0);
    let stale = apply(&mut plan, |draft| {
        draft.report(&command(1), report(ReportStatus::Failed, Time(2)))
    });
    assert_eq!(stale, AppliedReport::Stale);
    let withdraw = DueStep::Effect(DueEffect::Withdraw(command(1)));
    assert_eq!(due_now(&plan), [withdraw, DueStep::Issue(TaskId(2))]);
}

#[test]
fn edit_turns_dependencies_around() {
    let mut plan = running(&[("a", &[]), ("b", &[0])]);
    let seen = |id| Box::new(plan.task(TaskId(id)).unwrap().clone());
    let spec = |name: &str, after: &[TaskRef]| {
        Box::new(TaskSpec {
            dependencies: after.to_vec(),
            ..task(name, &[])
        })
    };
    let edits = [
        TaskEdit::Add(spec("new", &[])),
        TaskEdit::Change(seen(1), spec("a", &[TaskRef::Number(TaskId(2))])),
        TaskEdit::Change(seen(2), spec("b", &[TaskRef::New(0)])),
    ];
    apply(&mut plan, |draft| draft.edit_tasks(&edits));
    let order = plan.tasks();
    let order = order.map(|task| (task.number.0, task.dependencies.clone()));
    let wanted = [(3, vec![]), (1, vec![TaskId(2)]), (2, vec![TaskId(3)])];
    assert_eq!(Vec::from_iter(order), wanted);
    let again = change(&mut plan, |draft| draft.edit_tasks(&edits[1..]));
    assert_eq!(again, Err(Refusal::Outdated));
}

#[test]
fn adopted_plan_begins_anew_what_was_under_way() {
    let mut plan = chain();
    apply(&mut plan, |draft| {
        draft.claim(&command(3), Some(SessionId::new("s-3")))
    });
    let to = NewHome {
        home: "there".to_owned(),
        workspace: "/there".to_owned(),
        queue: None,
        goes_on: [command(3)].into(),
        shown: None,
        moved: false,
    };
    apply(&mut plan, |draft| draft.adopt(to.clone()));
    // Its agent is behind a relay.
    assert_eq!(states(&plan), ["completed", "completed", "in_progress"]);
    let session = |attempt: &Attempt| attempt.session.clone();
    let known: Vec<_> = plan.open_attempts().map(session).collect();
    assert_eq!(known, [Some(SessionId::new("s-3"))]);
    let to = NewHome {
        goes_on: BTreeSet::new(),
        ..to
    };
    let mut moved = plan.clone();
    let come_along = NewHome {
        moved: true,
        ..to.clone()
    };
    apply(&mut moved, |draft| draft.adopt(come_along));
    let taken_back: Vec<_> = moved.recalls().map(|attempt| attempt.id.clone()).collect();
    assert_eq!(taken_back, [command(3)]);
    apply(&mut plan, |draft| draft.adopt(to.clone()));
    assert_eq!(states(&plan), ["completed", "completed", "pending"]);
    assert_eq!(plan.open_attempts().count() + plan.recalls().count(), 0);
    assert_eq!(plan.open_sessions().count(), 0);
    assert_eq!(plan.task(TaskId(3)).unwrap().failures, 0);
    let head = plan.head();
    let home = (head.home.as_deref(), &*head.workspace);
    assert_eq!(home, (Some("there"), "/there"));
    assert!(due_now(&plan).contains(&DueStep::Issue(TaskId(3))));
    apply(&mut plan, |draft| draft.abandon("enough"));
    let ended = change(&mut plan, |draft| draft.adopt(to.clone()));
    assert_eq!(ended, Err(Refusal::PlanIs(PlanState::Abandoned)));
}
