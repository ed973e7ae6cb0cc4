//! The line of commits on which results are gathered.

use super::*;

fn isolated(names: &[(&str, &[usize])]) -> Plan {
    let mut plan = running(names);
    apply(&mut plan, |draft| {
        draft.isolate("base", None, "/trees")?;
        draft.branch_moved("base")
    });
    plan
}

fn verdict(decision: Decision) -> Verdict {
    Verdict {
        decision,
        reason: "so it is".to_owned(),
        feedback: String::new(),
        by: DecidedBy::Model,
        at: Time(1),
        ..Verdict::default()
    }
}

/// Issues a task as the command of its number, takes in its report and merges its result aside.
fn merge_task(draft: &mut Draft<'_>, n: u32) -> Result<(), Refusal> {
    draft.issue(TaskId(n), issue(n))?;
    hear(draft, n, report(ReportStatus::Success, Time(2)))?;
    merge(draft, &command(n), n)?;
    draft.checked(&command(n), vec![])
}

fn tip(plan: &Plan) -> &str {
    &plan.head().line.as_ref().unwrap().tip
}

#[test]
fn results_merge_singly_in_report_order() {
    let mut plan = isolated(&[("a", &[]), ("b", &[])]);
    assert_eq!(plan.workspace_of(TaskId(2)), "/trees/task-2");
    apply(&mut plan, |draft| {
        draft.issue(TaskId(1), issue(1))?;
        draft.issue(TaskId(2), issue(2))?;
        hear(draft, 2, report(ReportStatus::Success, Time(2)))?;
        hear(draft, 1, report(ReportStatus::Success, Time(3)))
    });
    assert_eq!(due_now(&plan), [DueEffect::Check(command(2)).into()]);
    apply(&mut plan, |draft| {
        merge(draft, &command(2), 2)?;
        draft.checked(&command(2), vec![])
    });
    assert_eq!(due_now(&plan), [DueStep::JudgeByRules(command(2))]);
    apply(&mut plan, |draft| {
        asking(draft, 1).judge(&command(2), &verdict(Decision::Next))
    });
    assert_eq!(tip(&plan), "commit 2");
    let next = [
        DueStep::Effect(DueEffect::MoveBranch),
        DueStep::Effect(DueEffect::Check(command(1))),
    ];
    assert!(due_now(&plan).ends_with(&next));
    apply(&mut plan, |draft| draft.branch_moved("commit 2"));
    let stale = merge_of("base", "head", "lost");
    change(&mut plan, |draft| draft.merged(&command(1), stale)).unwrap_err();
    // A result that was refused leaves no trace on the line.
    apply(&mut plan, |draft| {
        merge(draft, &command(1), 1)?;
        draft.checked(&command(1), vec![])?;
        asking(draft, 2).judge(&command(1), &verdict(Decision::Retry))
    });
    assert_eq!(tip(&plan), "commit 2");
}

#[test]
fn checks_run_once_on_state_before_first_attempt() {
    let mut plan = isolated(&[("a", &[]), ("b", &[])]);
    apply(&mut plan, |draft| {
        let mut policy = draft.plan().head().policy.clone();
        policy.checks = vec!["test".to_owned()];
        draft.start(policy, "/work")
    });
    apply(&mut plan, |draft| draft.issue(TaskId(1), issue(1)));
    let check = DueStep::Effect(DueEffect::CheckBefore(TaskId(1)));
    let before = |plan: &Plan| due_now(plan).contains(&check);
    assert!(before(&plan) && !check.is_decision());
    let red = CheckBefore {
        name: "test".to_owned(),
        outcome: Before::Red,
        tests: Some(2),
        command: String::new(),
    };
    apply(&mut plan, |draft| {
        draft.checked_before(TaskId(1), vec![red.clone()])
    });
    assert!(!before(&plan));
    // What an earlier run says later changes nothing.
    let green = CheckBefore {
        outcome: Before::Green,
        ..red.clone()
    };
    apply(&mut plan, |draft| {
        draft.checked_before(TaskId(1), vec![green.clone()])
    });
    assert_eq!(task_of(&plan, 1).before, [red]);
}

#[test]
fn verdict_closes_questions_about_result() {
    for decision in [Decision::Next, Decision::Retry] {
        let mut plan = isolated(&[("a", &[])]);
        apply(&mut plan, |draft| {
            merge_task(draft, 1)?;
            let ask = draft.begin_ask(&ModelQuestionKind::Judge(command(1)))?;
            asking(draft, 1).failed_ask(&ask, "unreachable", None)
        });
        assert_eq!(plan.open_questions().count(), 1);
        apply(&mut plan, |draft| {
            asking(draft, 2).judge(&command(1), &verdict(decision))
        });
        assert_eq!(plan.open_questions().count(), 0, "{decision:?}");
        assert_eq!(plan.open_asks().count(), 0, "{decision:?}");
        // The answer would have sent a completed task back to be merged again.
        change(&mut plan, |draft| {
            draft.answer(&question(1), AnswerChoice::Accept, "", "test")
        })
        .unwrap_err();
    }
}

#[test]
fn late_accepted_result_is_merged_again() {
    let mut plan = isolated(&[("a", &[]), ("b", &[])]);
    let done = |draft: &mut Draft<'_>, task: u32, decision| {
        merge_task(draft, task)?;
        asking(draft, task).judge(&command(task), &verdict(decision))
    };
    apply(&mut plan, |draft| done(draft, 1, Decision::Abort));
    apply(&mut plan, |draft| done(draft, 2, Decision::Next));
    assert_eq!(tip(&plan), "commit 2");
    apply(&mut plan, |draft| {
        draft.branch_moved("commit 2")?;
        draft.answer(&question(1), AnswerChoice::Accept, "", "test")
    });
    let status = |plan: &Plan| task_of(plan, 1).status;
    assert_eq!(status(&plan), TaskState::InProgress);
    let mut other = plan.clone();
    for (plan, passed) in [(&mut plan, true), (&mut other, false)] {
        let steps = due_now(plan);
        assert_eq!(steps, [DueStep::Effect(DueEffect::Check(command(1)))]);
        let result = CheckResult {
            name: "test".to_owned(),
            exit: Some(i32::from(!passed)),
            passed,
            ..CheckResult::default()
        };
        apply(plan, |draft| {
            merge(draft, &command(1), 3)?;
            draft.checked(&command(1), vec![result])
        });
        let steps = due_now(plan);
        assert_eq!(steps, [DueStep::Accept(command(1))]);
        apply(plan, |draft| asking(draft, 9).accept_merged(&command(1)));
    }
    assert_eq!(status(&plan), TaskState::Completed);
    assert_eq!(tip(&plan), "commit 3");
    assert_eq!(status(&other), TaskState::InProgress);
    assert_eq!(tip(&other), "commit 2");
    assert_eq!(due_now(&other), [DueStep::Issue(TaskId(1))]);
}

#[test]
fn moved_branch_waits_for_human_answer() {
    let mut plan = isolated(&[("a", &[])]);
    let elsewhere = |draft: &mut Draft<'_>| asking(draft, 1).branch_elsewhere("theirs", "moved");
    apply(&mut plan, elsewhere);
    let line = |plan: &Plan| plan.head().line.clone().unwrap();
    assert!(!line(&plan).behind());
    let mut other = plan.clone();
    for (plan, choice, shown) in [
        (&mut plan, AnswerChoice::Retry, "base"),
        (&mut other, AnswerChoice::Accept, "theirs"),
    ] {
        apply(plan, |draft| draft.answer(&question(1), choice, "", "test"));
        assert_eq!(line(plan).shown.as_deref(), Some(shown));
    }
    let merge = merge_of("base", "theirs", "both");
    assert!(line(&other).behind());
    apply(&mut other, |draft| draft.branch_joined(&merge));
    assert_eq!(tip(&other), "both");
    change(&mut other, |draft| draft.branch_joined(&merge)).unwrap_err();
}

/// A random sequence of operations once found that a result which had been accepted was lost to a restored plan.
#[test]
fn restored_plan_keeps_accepted_results() {
    let mut plan = isolated(&[("a", &[]), ("b", &[])]);
    let before = plan.clone();
    apply(&mut plan, |draft| {
        merge_task(draft, 1)?;
        asking(draft, 2).judge(&command(1), &verdict(Decision::Next))
    });
    let accepted = plan.clone();
    let commit = |plan: &Plan| {
        let merge = plan.accepted_merge(task_of(plan, 1));
        merge.map(|merge| merge.commit.clone())
    };
    apply(&mut plan, |draft| draft.restore(&before, 1));
    assert_eq!((commit(&plan), tip(&plan)), (None, "commit 1"));
    apply(&mut plan, |draft| draft.resume());
    for mut plan in [plan, accepted.clone()] {
        apply(&mut plan, |draft| {
            draft.retry_task(TaskId(1), "")?;
            draft.complete_by_hand(TaskId(1), "")
        });
        assert_eq!(commit(&plan), None);
        apply(&mut plan, |draft| draft.restore(&accepted, 2));
        assert_eq!(commit(&plan).as_deref(), Some("commit 1"));
        assert_eq!(tip(&plan), "commit 1");
    }
}
