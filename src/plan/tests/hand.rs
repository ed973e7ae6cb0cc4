//! What tools may do to a plan, and what they may not.

use super::*;

fn of_person(names: &[&str], owner: &str) -> Plan {
    let mut head = head();
    head.owner = owner.to_owned();
    let mut plan = Plan::new(head);
    apply(&mut plan, |draft| {
        let new = |name: &&str| TaskSpec {
            origin: Origin::Person,
            ..task(name, &[])
        };
        draft.make_tasks(names.iter().map(new).collect())
    });
    plan
}

#[test]
fn edit_by_tool_or_model_changes_task_origin() {
    let words = |text: &str| TaskChanges {
        description: Some(text.to_owned()),
        ..TaskChanges::default()
    };
    let mut plan = of_person(&["a", "b", "c"], crate::plan::DAEMON);
    let origins = |plan: &Plan| plan.tasks().map(|task| task.origin).collect::<Vec<_>>();
    let more = TaskChanges {
        assignee: Some(Some("builder".to_owned())),
        dependencies: Some(vec![TaskRef::Number(TaskId(2))]),
        ..words("")
    };
    apply(&mut plan, |draft| draft.amend_task(TaskId(1), &more));
    assert_eq!(origins(&plan), [Origin::Person; 3]);

    apply(&mut plan, |draft| draft.amend_task(TaskId(1), &words("x")));
    apply(&mut plan, |draft| {
        draft.start(PlanPolicy::default(), "/work")?;
        draft.issue(TaskId(2), issue(5))?;
        draft.report(&command(5), report(ReportStatus::Failed, Time(1)))?;
        decide(draft, 5, Decision::Replan)?;
        let edit = ReplanEdit::Update(TaskId(3), Box::new(words("y")));
        draft.replan(&[edit], "x")
    });
    let wanted = [Origin::Model, Origin::Person, Origin::Model];
    assert_eq!(origins(&plan), wanted);
}

#[test]
fn draft_plan_allows_edits_but_no_start() {
    let mut plan = of_person(&["a", "b"], crate::plan::DAEMON);
    let before = plan.clone();
    type Operation = fn(&mut Draft<'_>) -> Result<(), Refusal>;
    let operations: [Operation; 7] = [
        |draft| draft.start_task(TaskId(1)),
        |draft| draft.complete_task(TaskId(1), ""),
        |draft| draft.fail_task(TaskId(1), "", true).map(drop),
        |draft| draft.reset_task(TaskId(1)),
        |draft| draft.set_result(TaskId(1), Some("x")),
        |draft| draft.reset().map(drop),
        |draft| draft.finish_plan(PlanState::Completed, ""),
    ];
    for operation in operations {
        assert_eq!(change(&mut plan, operation), Err(Refusal::NotStarted));
        assert_eq!(plan, before);
    }
    apply(&mut plan, |draft| {
        draft.skip_task(TaskId(1), "not needed")?;
        draft.add_tasks(vec![task("c", &[])], None)?;
        draft.follow_tasks();
        draft.remove_task(TaskId(2))
    });
    assert_eq!(plan.status(), &PlanState::Idle);
}

#[test]
fn paused_plan_starts_no_task() {
    let mut plan = of_person(&["a", "b"], "tasks");
    apply(&mut plan, |draft| {
        draft.start_task(TaskId(1))?;
        draft.pause("a break")
    });
    let paused = PlanState::Paused("a break".to_owned());
    let started = change(&mut plan, |draft| draft.start_task(TaskId(2)));
    assert_eq!(started, Err(Refusal::PlanIs(paused)));
    apply(&mut plan, |draft| draft.complete_task(TaskId(1), ""));
}

#[test]
fn reset_plan_never_reuses_attempt_numbers() {
    let mut plan = running(&[("a", &[])]);
    attempt(&mut plan, 1, ReportStatus::Failed);
    attempt(&mut plan, 2, ReportStatus::Success);
    let before = plan.clone();
    apply(&mut plan, |draft| {
        draft.settle("done")?;
        draft.reset()?;
        draft.start(PlanPolicy::default(), "/work").map(drop)
    });
    attempt(&mut plan, 3, ReportStatus::Success);
    apply(&mut plan, |draft| draft.restore(&before, 1));
    apply(&mut plan, |draft| {
        draft.settle("done")?;
        draft.reset()?;
        draft.replace_tasks(vec![task("b", &[])])
    });
    let numbers = |plan: &Plan| {
        let made = plan.attempts_of(TaskId(1));
        made.map(|attempt| attempt.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&plan), [1, 2, 3]);
}

#[test]
fn restored_plan_stays_selected_or_archived() {
    let mut plan = of_person(&["a"], "tasks");
    let earlier = plan.clone();
    apply_at(&mut plan, Time(5), |draft| draft.reactivate());
    apply(&mut plan, |draft| {
        draft.add_tasks(vec![task("b", &[])], None)
    });
    apply(&mut plan, |draft| draft.restore(&earlier, 1));
    assert_eq!(plan.head().taken_up, Some(Time(5)));
    for (put_away, restored) in [
        (ArchiveState::History, ArchiveState::History),
        (ArchiveState::Deleted, ArchiveState::Current),
    ] {
        apply(&mut plan, |draft| {
            draft.add_tasks(vec![task("b", &[])], None)?;
            draft.archive(put_away)?;
            draft.restore(&earlier, 1)
        });
        assert_eq!(plan.head().archive_state, restored);
    }
}

#[test]
fn aborted_plan_refuses_changes_until_resumed() {
    let mut plan = of_person(&["a"], "notebook");
    apply(&mut plan, |draft| {
        draft.finish_plan(PlanState::Abandoned, "enough")
    });
    let before = plan.clone();
    let refused = Err(Refusal::PlanIs(PlanState::Abandoned));
    let changes = TaskChanges {
        name: Some("b".to_owned()),
        ..TaskChanges::default()
    };
    type Operation<'a> = &'a dyn Fn(&mut Draft<'_>) -> Result<(), Refusal>;
    let operations: [Operation<'_>; 4] = [
        &|draft| draft.reopen(),
        &|draft| draft.update_task(TaskId(1), &changes),
        &|draft| draft.amend_task(TaskId(1), &changes),
        &|draft| draft.remove_task(TaskId(1)),
    ];
    for operation in operations {
        assert_eq!(change(&mut plan, operation), refused);
        assert_eq!(plan, before);
    }
    apply(&mut plan, |draft| {
        draft.go_on()?;
        draft.update_task(TaskId(1), &changes)
    });
}
