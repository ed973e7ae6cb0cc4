//! The rules of the core one by one, and, in `random`, under random operations.

mod away;
mod budget;
mod hand;
mod judging;
mod lanes;
mod line;
mod locks;
mod random;
mod repeatable;
mod steering;
pub(crate) mod testing;
mod time;
mod waits;

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use testing::*;

/// Takes in a report, and that nothing is known of what changed.
fn hear(draft: &mut Draft<'_>, n: u32, report: Report) -> Result<(), Refusal> {
    draft.report(&command(n), report)?;
    draft.inspected(&command(n), ChangedFiles::default(), None)
}

fn change<T>(
    plan: &mut Plan,
    run: impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    change_at(plan, Time(1), run)
}

fn change_at<T>(
    plan: &mut Plan,
    now: Time,
    run: impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let mut draft = Draft::new(plan, now);
    match run(&mut draft) {
        Ok(value) => {
            draft.finish();
            Ok(value)
        }
        Err(refusal) => {
            draft.undo();
            Err(refusal)
        }
    }
}

/// Carries out a change that is not refused.
fn apply<T>(plan: &mut Plan, run: impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal>) -> T {
    change(plan, run).unwrap()
}

fn apply_at<T>(
    plan: &mut Plan,
    now: Time,
    run: impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal>,
) -> T {
    change_at(plan, now, run).unwrap()
}

/// What is known where nothing was seen but the time.
fn seen_at(now: Time) -> Observations {
    Observations {
        now,
        ..Observations::default()
    }
}

/// The same behind a look into the folders that began just now.
fn scanned_at(now: Time) -> Observations {
    Observations {
        scan_began: Some(now),
        ..seen_at(now)
    }
}

/// Returns what is due where nothing is known from outside.
fn due_now(plan: &Plan) -> Vec<DueStep> {
    due(plan, &Observations::default()).steps
}

/// Returns the tasks that are dispatched now.
fn issued(plan: &Plan, world: &Observations) -> Vec<u32> {
    let issued = |step: DueStep| match step {
        DueStep::Issue(task) => Some(task.0),
        _ => None,
    };
    let steps = due(plan, world).steps.into_iter();
    steps.filter_map(issued).collect()
}

fn issued_now(plan: &Plan) -> Vec<u32> {
    issued(plan, &Observations::default())
}

fn task_of(plan: &Plan, number: u32) -> &Task {
    plan.task(TaskId(number)).unwrap()
}

fn attempt_of(plan: &Plan, n: u32) -> &Attempt {
    plan.attempt(&command(n)).unwrap()
}

/// Returns whether the agent of an attempt is to stop.
fn recalled(plan: &Plan, n: u32) -> bool {
    let attempt = attempt_of(plan, n);
    attempt.state == AttemptState::Stopped && attempt.recall
}

fn ready(plan: &Plan) -> Vec<u32> {
    plan.ready().map(|task| task.number.0).collect()
}

fn question(n: u32) -> QuestionId {
    QuestionId::new(format!("q{n}"))
}

/// Has the draft give its next question this number.
fn asking<'a, 'b>(draft: &'a mut Draft<'b>, n: u32) -> &'a mut Draft<'b> {
    draft.name_questions(move |_| question(n))
}

fn repair(n: u32) -> NewCommand {
    NewCommand {
        kind: AttemptKind::Repair,
        ..issue(n)
    }
}

/// Issues task 1 as command `n`, reports it and judges by rules.
fn attempt(plan: &mut Plan, n: u32, status: ReportStatus) {
    apply(plan, |draft| {
        draft.issue(TaskId(1), issue(n))?;
        draft.report(&command(n), report(status, Time(1)))?;
        judge_by_rules(draft, n)
    });
}

/// Returns what the rules say of a reported attempt.
fn ruled(draft: &Draft<'_>, id: &CommandId) -> Result<Verdict, Refusal> {
    let attempt = draft.attempt(id)?;
    Ok(rule_decisions::judge(&attempt, &[], draft.now()))
}

fn judge_by_rules(draft: &mut Draft<'_>, n: u32) -> Result<(), Refusal> {
    let verdict = ruled(draft, &command(n))?;
    asking(draft, n).judge(&command(n), &verdict)
}

/// Decides a reported attempt as the rules would, but for the decision itself.
fn decide(draft: &mut Draft<'_>, n: u32, decision: Decision) -> Result<(), Refusal> {
    let rules = ruled(draft, &command(n))?;
    asking(draft, n).judge(&command(n), &Verdict { decision, ..rules })
}

/// Has the plan judged by a model, and task 1 reported as command 1.
fn report_to_model(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    let policy = PlanPolicy {
        model: true,
        ..PlanPolicy::default()
    };
    draft.start(policy, "/work")?;
    draft.issue(TaskId(1), issue(1))?;
    hear(draft, 1, report(ReportStatus::Success, Time(1)))
}

/// Merges the result of an attempt aside, if it is one of a plan that merges.
fn merge(draft: &mut Draft<'_>, id: &CommandId, n: u32) -> Result<(), Refusal> {
    let Some(line) = &draft.plan().head().line else {
        return Ok(());
    };
    let (head, commit) = (format!("head {n}"), format!("commit {n}"));
    let merge = merge_of(&line.tip, &head, &commit);
    draft.merged(id, merge)
}

fn merge_of(onto: &str, head: &str, commit: &str) -> PendingMerge {
    PendingMerge {
        onto: onto.to_owned(),
        head: head.to_owned(),
        commit: commit.to_owned(),
        put_back: String::new(),
    }
}

#[test]
fn task_is_ready_when_dependencies_are_done_or_skipped() {
    let mut plan = running(&[("a", &[]), ("b", &[]), ("c", &[0, 1])]);
    assert_eq!(ready(&plan), [1, 2]);
    attempt(&mut plan, 1, ReportStatus::Success);
    assert_eq!(ready(&plan), [2]);
    apply(&mut plan, |draft| draft.skip_task(TaskId(2), "no use"));
    assert_eq!(ready(&plan), [3]);
}

#[test]
fn refusal_names_dependency_cycle() {
    let mut plan = running(&[("a", &[]), ("b", &[0])]);
    let refusal = change(&mut plan, |draft| {
        let dependencies = Some(vec![TaskRef::Number(TaskId(2))]);
        let changes = TaskChanges {
            dependencies,
            ..TaskChanges::default()
        };
        draft.update_task(TaskId(1), &changes)
    });
    let cycle = [1, 2, 1].map(TaskId).to_vec();
    assert_eq!(refusal, Err(Refusal::Cycle(cycle)));
    let refusal = change(&mut plan, |draft| {
        draft.add_tasks(vec![task("x", &[1]), task("y", &[0])], None)
    });
    let told = refusal.unwrap_err().to_string();
    assert_eq!(told, "the dependencies form a cycle: 3 → 4 → 3");
}

#[test]
fn optional_task_is_skipped_after_three_failures() {
    let optional = TaskSpec {
        optional: true,
        ..task("a", &[])
    };
    let mut plan = started([optional, task("b", &[0])], PlanPolicy::default());
    for n in 1..=3 {
        attempt(&mut plan, n, ReportStatus::Failed);
    }
    assert_eq!(plan.open_questions().count(), 0);
    let skipped = task_of(&plan, 1);
    assert_eq!(skipped.status, TaskState::Skipped);
    let reason = skipped.result.clone().unwrap();
    let end = "; optional, and it failed 3 times in a row";
    assert!(reason.ends_with(end), "{reason}");
    assert_eq!(ready(&plan), [2]);
}

#[test]
fn three_failures_ask_human_and_note_reaches_next_attempt() {
    let mut plan = running(&[("a", &[])]);
    for n in 1..=3 {
        assert_eq!(plan.open_questions().count(), 0);
        attempt(&mut plan, n, ReportStatus::Failed);
    }
    let asked = plan.open_questions().next().unwrap().clone();
    assert_eq!(asked.about, HumanQuestionKind::Failures);
    let choices = [AnswerChoice::Retry, AnswerChoice::Skip, AnswerChoice::Abort];
    assert_eq!(asked.choices, choices);
    let issued = change(&mut plan, |draft| draft.issue(TaskId(1), issue(9)));
    assert_eq!(issued, Err(Refusal::Asking(TaskId(1))));

    apply(&mut plan, |draft| {
        draft.answer(&asked.id, AnswerChoice::Retry, "use the other door", "file")
    });
    let note = task_of(&plan, 1).told.clone().unwrap();
    assert!(note.contains("use the other door"), "{note}");
    let second = change(&mut plan, |draft| {
        draft.answer(&asked.id, AnswerChoice::Skip, "", "terminal")
    });
    let told = second.unwrap_err().to_string();
    assert_eq!(told, "question `q3` is answered already: retry (by file)");
    attempt(&mut plan, 4, ReportStatus::Failed);
    let open = plan.open_questions().count();
    assert_eq!(open, 0, "a new row of attempts began");
}

#[test]
fn late_report_counts_and_stops_next_attempt() {
    let mut plan = running(&[("a", &[])]);
    apply(&mut plan, |draft| {
        draft.issue(TaskId(1), issue(1))?;
        draft.claim(&command(1), None)?;
        asking(draft, 1).time_out(&command(1), "silent")?;
        draft.recalled(&command(1))?;
        draft.issue(TaskId(1), issue(2))
    });
    let taken = change(&mut plan, |draft| {
        draft.report(&command(1), report(ReportStatus::Success, Time(2)))
    });
    assert_eq!(taken, Ok(AppliedReport::Counts));
    assert_eq!(task_of(&plan, 1).failures, 0);
    assert!(recalled(&plan, 2));
    let stale = change(&mut plan, |draft| {
        draft.report(&command(2), report(ReportStatus::Failed, Time(3)))
    });
    assert_eq!(stale, Ok(AppliedReport::Stale));
    let before = plan.clone();
    let again = change(&mut plan, |draft| {
        draft.report(&command(2), report(ReportStatus::Failed, Time(4)))
    });
    assert_eq!((again, plan == before), (Ok(AppliedReport::Stale), true));
    assert_eq!(attempt_of(&plan, 1).state, AttemptState::Reported);
}

#[test]
fn repeated_report_changes_nothing() {
    let mut plan = running(&[("a", &[])]);
    attempt(&mut plan, 1, ReportStatus::Success);
    let before = plan.clone();
    let again = change(&mut plan, |draft| {
        draft.report(&command(1), report(ReportStatus::Success, Time(9)))
    });
    let other = change(&mut plan, |draft| {
        draft.report(&command(1), report(ReportStatus::Failed, Time(9)))
    });
    assert_eq!(again, Ok(AppliedReport::Known));
    assert_eq!(other, Ok(AppliedReport::Stale));
    assert_eq!(plan, before);
}

#[test]
fn abort_verdict_on_success_asks_human() {
    let mut plan = running(&[("a", &[])]);
    let verdict = Verdict {
        decision: Decision::Abort,
        reason: "the report says so".to_owned(),
        feedback: String::new(),
        by: DecidedBy::Model,
        at: Time(1),
        ..Verdict::default()
    };
    apply(&mut plan, |draft| {
        draft.issue(TaskId(1), issue(1))?;
        draft.report(&command(1), report(ReportStatus::Success, Time(1)))?;
        asking(draft, 1).judge(&command(1), &verdict)
    });
    assert_eq!(plan.status(), &PlanState::Running);
    let asked = plan.open_questions().next().unwrap();
    assert_eq!(asked.about, HumanQuestionKind::Abort);
    assert!(asked.choices.contains(&AnswerChoice::Retry));
}

#[test]
fn third_unreadable_report_counts_as_failure() {
    let mut plan = running(&[("a", &[])]);
    apply(&mut plan, |draft| draft.issue(TaskId(1), issue(1)));
    for n in 1..=3 {
        apply(&mut plan, |draft| {
            asking(draft, n).reject(&command(n), "no status", &n.to_string())
        });
        let task = task_of(&plan, 1);
        assert_eq!(task.failures, u32::from(n == 3));
        if n < 3 {
            apply(&mut plan, |draft| draft.issue(TaskId(1), repair(n + 1)));
        }
    }
    assert_eq!(task_of(&plan, 1).attempts, 1);
}

#[test]
fn repeated_unreadable_report_is_rejected_once() {
    let mut plan = running(&[("a", &[])]);
    apply(&mut plan, |draft| draft.issue(TaskId(1), issue(1)));
    let again = |plan: &mut Plan| {
        change(plan, |draft| {
            asking(draft, 1).reject(&command(1), "no status", "1")
        })
    };
    assert_eq!(again(&mut plan), Ok(true));
    apply(&mut plan, |draft| draft.issue(TaskId(1), repair(2)));
    let before = plan.clone();
    assert_eq!(again(&mut plan), Ok(false));
    assert_eq!(plan, before);
}

#[test]
fn open_question_does_not_stop_other_tasks() {
    let mut plan = running(&[("a", &[]), ("b", &[])]);
    for n in 1..=3 {
        attempt(&mut plan, n, ReportStatus::Failed);
    }
    assert_eq!(due_now(&plan), [DueStep::Issue(TaskId(2))]);
}

#[test]
fn failed_judge_call_frees_lane() {
    let mut plan = running(&[("a", &[]), ("b", &[])]);
    apply(&mut plan, |draft| {
        report_to_model(draft)?;
        let ask = draft.begin_ask(&ModelQuestionKind::Judge(command(1)))?;
        asking(draft, 1).failed_ask(&ask, "unreachable", None)
    });
    assert_eq!(due_now(&plan), [DueStep::Issue(TaskId(2))]);
    apply(&mut plan, |draft| {
        draft.answer(&question(1), AnswerChoice::Retry, "", "test")
    });
    let ask = DueEffect::Ask(ModelQuestionKind::Judge(command(1)));
    assert_eq!(due_now(&plan), [ask.into()]);
}

#[test]
fn evidence_names_concurrent_task_in_same_folder() {
    let mut plan = running(&[("a", &[]), ("b", &[]), ("c", &[])]);
    apply(&mut plan, |draft| {
        draft.record_tree("before");
        draft.issue(TaskId(1), issue(1))?;
        draft.issue(TaskId(2), issue(2))?;
        draft.report(&command(1), report(ReportStatus::Success, Time(1)))?;
        let changes = ChangedFiles::new(ChangeDetection::Git, vec!["a.txt".to_owned()]);
        draft.inspected(&command(1), changes, Some("after"))?;
        judge_by_rules(draft, 1)?;
        draft.issue(TaskId(3), issue(3))
    });
    let attempt = |n| attempt_of(&plan, n);
    let beside = |n| attempt(n).beside.iter().map(|id| id.0).collect::<Vec<_>>();
    assert_eq!([1, 2, 3].map(beside), [vec![2], vec![1, 3], vec![2]]);
    let tree = |n| attempt(n).tree.as_deref().unwrap();
    assert_eq!([1, 2, 3].map(tree), ["before", "before", "after"]);
    let evidence = task_of(&plan, 1).evidence.clone().unwrap();
    assert!(!evidence.proven);
    let facts = ["changed: a.txt", "task 2 was at work in the same folder"];
    assert_eq!(evidence.facts, facts);
}

#[test]
fn huge_reported_usage_does_not_overflow() {
    let unlimited = PlanPolicy {
        budget: Budget::NONE,
        ..PlanPolicy::default()
    };
    let mut plan = started([task("a", &[]), task("b", &[])], unlimited);
    for (task, n) in [(1, 1), (2, 2)] {
        apply(&mut plan, |draft| {
            draft.issue(TaskId(task), issue(n))?;
            let huge = Report {
                input_tokens: u64::MAX,
                output_tokens: u64::MAX,
                cost_usd: f64::MAX,
                ..report(ReportStatus::Success, Time(1))
            };
            draft.report(&command(n), huge)
        });
    }
    let usage = plan.head().usage;
    assert_eq!(usage.agent_input_tokens, u64::MAX);
    assert!(usage.agent_cost_usd.is_finite());
}

#[test]
fn aborted_plan_stops_its_attempts() {
    let mut plan = running(&[("a", &[]), ("b", &[0])]);
    apply(&mut plan, |draft| {
        draft.issue(TaskId(1), issue(1))?;
        draft.abandon("enough")
    });
    assert_eq!(plan.counts().pending, 2);
    assert!(recalled(&plan, 1));
    assert_eq!(due_now(&plan), [DueEffect::Withdraw(command(1)).into()]);
}

#[test]
fn replan_edits_only_unfinished_tasks_or_fails_whole() {
    let mut plan = running(&[("a", &[]), ("b", &[0]), ("c", &[1])]);
    attempt(&mut plan, 1, ReportStatus::Success);
    let before = plan.clone();
    let other = TaskSpec {
        dependencies: vec![TaskRef::Number(TaskId(1))],
        ..task("b2", &[])
    };
    let behind_it = TaskChanges {
        dependencies: Some(vec![TaskRef::New(0)]),
        ..TaskChanges::default()
    };
    let add = ReplanEdit::Add(Box::new(other));
    let update = ReplanEdit::Update(TaskId(3), Box::new(behind_it));
    let skip = |task: u32| ReplanEdit::Skip(TaskId(task), String::new());
    let edits = |skipped: u32| [add.clone(), update.clone(), skip(skipped)];
    change(&mut plan, |draft| draft.replan(&edits(2), "x")).expect_err("no replan is open");
    assert_eq!(plan, before);
    apply(&mut plan, |draft| {
        draft.issue(TaskId(2), issue(5))?;
        draft.report(&command(5), report(ReportStatus::Failed, Time(1)))?;
        decide(draft, 5, Decision::Replan)
    });
    let ask = DueStep::from(DueEffect::Ask(ModelQuestionKind::Replan));
    assert!(due_now(&plan).contains(&ask));
    let open = plan.clone();
    change(&mut plan, |draft| draft.replan(&edits(1), "x")).expect_err("task 1 is finished");
    assert_eq!(plan, open);
    apply(&mut plan, |draft| draft.replan(&edits(2), "another way"));
    let order = plan.tasks().map(|task| (task.number.0, task.status));
    use TaskState::{Completed, Pending, Skipped};
    let wanted = [(1, Completed), (2, Skipped), (4, Pending), (3, Pending)];
    assert_eq!(Vec::from_iter(order), wanted);
    assert_eq!(ready(&plan), [4]);
}

/// What waited for a task that is replaced waits for what takes its place, but for what waits for itself.
#[test]
fn dependants_of_replaced_task_wait_for_added_ones() {
    let mut plan = running(&[("a", &[]), ("b", &[0]), ("c", &[0]), ("d", &[1])]);
    let behind_d = TaskSpec {
        dependencies: vec![TaskRef::Number(TaskId(4))],
        ..task("f", &[])
    };
    let said = TaskChanges {
        dependencies: Some(Vec::new()),
        ..TaskChanges::default()
    };
    let edits = [
        ReplanEdit::Add(Box::new(task("e", &[]))),
        ReplanEdit::Add(Box::new(behind_d)),
        ReplanEdit::Update(TaskId(3), Box::new(said)),
    ];
    apply(&mut plan, |draft| {
        draft.issue(TaskId(1), issue(1))?;
        draft.report(&command(1), report(ReportStatus::Failed, Time(1)))?;
        decide(draft, 1, Decision::Replan)?;
        draft.replan(&edits, "another way")
    });
    let on = |task: u32| task_of(&plan, task).dependencies.clone();
    assert_eq!(on(2), [TaskId(1), TaskId(5)]);
    assert_eq!((on(3), on(4)), (vec![], vec![TaskId(2)]));
    assert_eq!(ready(&plan), [5, 3]);
}

#[test]
fn replan_skips_its_cause_unless_updated() {
    let keep = TaskChanges {
        description: Some("otherwise".to_owned()),
        ..TaskChanges::default()
    };
    let add = ReplanEdit::Add(Box::new(task("b", &[])));
    let keep = ReplanEdit::Update(TaskId(1), Box::new(keep));
    for (edits, status) in [
        (vec![add.clone()], TaskState::Skipped),
        (vec![add, keep], TaskState::Pending),
    ] {
        let mut plan = running(&[("a", &[])]);
        apply(&mut plan, |draft| {
            draft.issue(TaskId(1), issue(1))?;
            draft.report(&command(1), report(ReportStatus::Failed, Time(1)))?;
            decide(draft, 1, Decision::Replan)?;
            draft.replan(&edits, "another way")
        });
        assert_eq!(task_of(&plan, 1).status, status);
        assert_eq!(task_of(&plan, 2).status, TaskState::Pending);
    }
}

#[test]
fn many_tasks_are_inserted_into_one_gap() {
    let mut plan = running(&[("first", &[]), ("last", &[])]);
    for n in 0..200 {
        apply(&mut plan, |draft| {
            draft.add_tasks(vec![task(&format!("t{n}"), &[])], Some(TaskId(1)))
        });
    }
    let names: Vec<&str> = plan.tasks().map(|task| &*task.name).collect();
    assert_eq!([names[0], names[1], names[201]], ["first", "t199", "last"]);
}

#[test]
fn refusal_shortens_long_cycle() {
    let tasks: Vec<TaskId> = (1..=1000).map(TaskId).collect();
    let told = Refusal::Cycle(tasks[..40].to_vec()).to_string();
    assert!(told.ends_with("→ 39 → 40") && !told.contains('…'), "{told}");
    let told = Refusal::Cycle(tasks).to_string();
    assert!(told.contains("→ 20 → … (960 more) → 981 →"), "{told}");
    assert!(told.ends_with("→ 1000") && told.len() < 600, "{told}");
}

#[test]
fn retried_failure_is_an_event() {
    let mut head = PlanHead::new(PlanId::new("aaaaaaaa"), "goal", Time(0));
    "tool".clone_into(&mut head.owner);
    let mut plan = Plan::new(head);
    let mut draft = Draft::new(&mut plan, Time(1));
    let task = TaskSpec {
        name: "a".to_owned(),
        ..TaskSpec::default()
    };
    let made = draft.make_tasks(vec![task]).unwrap();
    draft.start_task(made[0]).unwrap();
    assert_eq!(draft.fail_task(made[0], "time-out", true), Ok(true));
    let told = draft.finish().events;
    let (task, reason) = (made[0], "time-out".to_owned());
    assert!(told.contains(&Event::Stumbled { task, reason }), "{told:?}");
}
