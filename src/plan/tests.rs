//! The core under random operations, and its rules one by one.

mod budget;
mod hand;

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

mod line;

fn head() -> Head {
    Head::new(PlanId::new("testplan"), "reach it", Time(0))
}

fn running(names: &[(&str, &[usize])]) -> Plan {
    let mut plan = Plan::new(head());
    let mut draft = Draft::new(&mut plan, Time(0));
    draft
        .make_tasks(
            names
                .iter()
                .map(|(name, after)| task(name, after))
                .collect(),
        )
        .unwrap();
    draft.start(Policy::default(), "/work").unwrap();
    draft.finish();
    plan
}

fn task(name: &str, after: &[usize]) -> NewTask {
    NewTask {
        name: name.to_owned(),
        dependencies: after.iter().map(|index| TaskRef::New(*index)).collect(),
        ..NewTask::default()
    }
}

fn command(n: u32) -> CommandId {
    CommandId::new(format!("task-{n:04}"))
}

fn issue(n: u32) -> Issue {
    Issue {
        id: command(n),
        kind: Kind::New,
        session: None,
        text: format!("text {n}"),
    }
}

fn report(status: ReportStatus, at: Time) -> Report {
    Report {
        name: "report.md".to_owned(),
        status,
        session: Some(SessionId::new("s")),
        results: "did it".to_owned(),
        pitfalls: String::new(),
        next_steps: String::new(),
        question: None,
        blocked_until: None,
        input_tokens: 1,
        output_tokens: 1,
        cost_usd: 0.0,
        hash: format!("{status:?}"),
        received: at,
    }
}

/// Takes in a report, and that nothing is known of what changed.
fn hear(draft: &mut Draft<'_>, n: u32, report: Report) -> Result<(), Refusal> {
    draft.report(&command(n), report)?;
    draft.inspected(&command(n), Changes::default(), None)
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

fn ready(plan: &Plan) -> Vec<u32> {
    plan.ready().map(|task| task.number.0).collect()
}

fn question(n: u32) -> QuestionId {
    QuestionId::new(format!("q{n}"))
}

/// Issues task 1 as command `n`, reports it and judges by rules.
fn attempt(plan: &mut Plan, n: u32, status: ReportStatus) {
    change(plan, |draft| {
        draft.issue(TaskId(1), issue(n))?;
        draft.report(&command(n), report(status, Time(1)))?;
        let verdict = rules::judge(draft.plan().attempt(&command(n)).unwrap(), Time(1));
        draft.judge(&command(n), &verdict, question(n))
    })
    .unwrap();
}

#[test]
fn a_task_is_ready_when_its_dependencies_are_done_or_skipped() {
    let mut plan = running(&[("a", &[]), ("b", &[]), ("c", &[0, 1])]);
    assert_eq!(ready(&plan), [1, 2]);
    attempt(&mut plan, 1, ReportStatus::Success);
    assert_eq!(ready(&plan), [2]);
    change(&mut plan, |draft| draft.skip_task(TaskId(2), "no use")).unwrap();
    assert_eq!(ready(&plan), [3]);
}

#[test]
fn a_cycle_is_refused_by_name() {
    let mut plan = running(&[("a", &[]), ("b", &[0])]);
    let refusal = change(&mut plan, |draft| {
        let dependencies = Some(vec![TaskRef::Number(TaskId(2))]);
        draft.update_task(
            TaskId(1),
            &TaskChanges {
                dependencies,
                ..TaskChanges::default()
            },
        )
    });
    assert_eq!(
        refusal,
        Err(Refusal::Cycle(vec![TaskId(1), TaskId(2), TaskId(1)]))
    );
    let refusal = change(&mut plan, |draft| {
        draft.add_tasks(vec![task("x", &[1]), task("y", &[0])], None)
    });
    assert_eq!(
        refusal.unwrap_err().to_string(),
        "the dependencies form a cycle: 3 → 4 → 3"
    );
}

#[test]
fn three_failures_in_a_row_ask_a_human_and_the_note_reaches_the_next_attempt() {
    let mut plan = running(&[("a", &[])]);
    for n in 1..=3 {
        assert_eq!(plan.open_questions().count(), 0);
        attempt(&mut plan, n, ReportStatus::Failed);
    }
    let asked = plan.open_questions().next().unwrap().clone();
    assert_eq!(asked.about, About::Failures);
    assert_eq!(asked.choices, [Choice::Retry, Choice::Skip, Choice::Abort]);
    assert_eq!(
        change(&mut plan, |draft| draft.issue(TaskId(1), issue(9))),
        Err(Refusal::Asking(TaskId(1)))
    );

    change(&mut plan, |draft| {
        draft.answer(&asked.id, Choice::Retry, "use the other door", "file")
    })
    .unwrap();
    let note = plan.task(TaskId(1)).unwrap().note.clone().unwrap();
    assert!(note.contains("use the other door"), "{note}");
    let second = change(&mut plan, |draft| {
        draft.answer(&asked.id, Choice::Skip, "", "terminal")
    });
    assert_eq!(
        second.unwrap_err().to_string(),
        "question `q3` is answered already: retry (by file)"
    );
    attempt(&mut plan, 4, ReportStatus::Failed);
    assert_eq!(
        plan.open_questions().count(),
        0,
        "a new row of attempts began"
    );
}

#[test]
fn a_late_report_counts_and_stops_its_successor() {
    let mut plan = running(&[("a", &[])]);
    change(&mut plan, |draft| {
        draft.issue(TaskId(1), issue(1))?;
        draft.claim(&command(1), None)?;
        draft.time_out(&command(1), "silent", question(1))?;
        draft.recalled(&command(1))?;
        draft.issue(TaskId(1), issue(2))
    })
    .unwrap();
    let taken = change(&mut plan, |draft| {
        draft.report(&command(1), report(ReportStatus::Success, Time(2)))
    });
    assert_eq!(taken, Ok(Taken::Counts));
    assert_eq!(plan.task(TaskId(1)).unwrap().failures, 0);
    let successor = plan.attempt(&command(2)).unwrap();
    assert_eq!(
        (successor.state, successor.recall),
        (AttemptState::Stopped, true)
    );
    let stale = change(&mut plan, |draft| {
        draft.report(&command(2), report(ReportStatus::Failed, Time(3)))
    });
    assert_eq!(stale, Ok(Taken::Stale));
    let (before, again) = (
        plan.clone(),
        change(&mut plan, |draft| {
            draft.report(&command(2), report(ReportStatus::Failed, Time(4)))
        }),
    );
    assert_eq!((again, plan == before), (Ok(Taken::Stale), true));
    assert_eq!(
        plan.attempt(&command(1)).unwrap().state,
        AttemptState::Reported
    );
}

#[test]
fn the_same_report_again_changes_nothing() {
    let mut plan = running(&[("a", &[])]);
    attempt(&mut plan, 1, ReportStatus::Success);
    let before = plan.clone();
    let again = change(&mut plan, |draft| {
        draft.report(&command(1), report(ReportStatus::Success, Time(9)))
    });
    let other = change(&mut plan, |draft| {
        draft.report(&command(1), report(ReportStatus::Failed, Time(9)))
    });
    assert_eq!((again, other), (Ok(Taken::Known), Ok(Taken::Other)));
    assert_eq!(plan, before);
}

#[test]
fn success_is_never_thrown_away_by_the_judge_alone() {
    let mut plan = running(&[("a", &[])]);
    let verdict = Verdict {
        decision: Decision::Abort,
        reason: "the report says so".to_owned(),
        feedback: String::new(),
        result_summary: String::new(),
        by: By::Model,
        at: Time(1),
    };
    change(&mut plan, |draft| {
        draft.issue(TaskId(1), issue(1))?;
        draft.report(&command(1), report(ReportStatus::Success, Time(1)))?;
        draft.judge(&command(1), &verdict, question(1))
    })
    .unwrap();
    assert_eq!(plan.status(), &PlanStatus::Running);
    let asked = plan.open_questions().next().unwrap();
    assert_eq!(asked.about, About::Abort);
    assert!(asked.choices.contains(&Choice::Retry));
}

#[test]
fn unreadable_reports_are_asked_for_twice_and_then_count_as_a_failure() {
    let mut plan = running(&[("a", &[])]);
    change(&mut plan, |draft| draft.issue(TaskId(1), issue(1))).unwrap();
    for n in 1..=3 {
        change(&mut plan, |draft| {
            draft.reject(&command(n), "no status", &n.to_string(), question(n))
        })
        .unwrap();
        let task = plan.task(TaskId(1)).unwrap();
        assert_eq!(task.failures, u32::from(n == 3));
        if n < 3 {
            let repair = Issue {
                kind: Kind::Repair,
                ..issue(n + 1)
            };
            change(&mut plan, |draft| draft.issue(TaskId(1), repair)).unwrap();
        }
    }
    assert_eq!(plan.task(TaskId(1)).unwrap().attempts, 1);
}

#[test]
fn silence_is_counted_from_the_last_sign_and_confirmed_by_a_scan() {
    let mut plan = running(&[("a", &[])]);
    change_at(&mut plan, Time(0), |draft| {
        draft.issue(TaskId(1), issue(1))?;
        draft.claim(&command(1), None)
    })
    .unwrap();
    let minute = |n: u64| Time(0).plus(Duration::from_secs(60 * n));
    let mut world = World {
        now: minute(9),
        ..World::default()
    };
    assert_eq!(due(&plan, &world).look_again, Some(minute(10)));
    world.now = minute(11);
    assert!(
        due(&plan, &world).rescan,
        "a time-out needs a look that began after it was due"
    );
    world.scan_began = Some(minute(10));
    assert!(matches!(due(&plan, &world).steps[..], [Step::TimeOut(..)]));
    world.signs.insert(command(1), minute(5));
    assert_eq!(due(&plan, &world).look_again, Some(minute(15)));
    world.started = minute(8);
    assert_eq!(
        due(&plan, &world).look_again,
        Some(minute(18)),
        "a daemon that was down blames nobody"
    );
}

#[test]
fn a_command_issued_within_the_change_has_not_waited_since_the_start() {
    let mut plan = running(&[("a", &[])]);
    let minute = |n: u64| Time(0).plus(Duration::from_secs(60 * n));
    change_at(
        &mut plan,
        minute(20).plus(Duration::from_millis(4)),
        |draft| draft.issue(TaskId(1), issue(1)),
    )
    .unwrap();
    // The change begins a little before the moment that it records.
    let mut world = World {
        now: minute(20),
        scan_began: Some(minute(20)),
        ..World::default()
    };
    assert_eq!(due(&plan, &world).steps, []);
    // By the clock of an earlier process it was issued far ahead: what counts is the start.
    world.now = minute(10);
    world.scan_began = Some(minute(10));
    assert!(matches!(due(&plan, &world).steps[..], [Step::AskHuman(..)]));
}

#[test]
fn what_a_daemon_did_not_live_through_is_nobody_s_silence() {
    let mut plan = running(&[("a", &[])]);
    change_at(&mut plan, Time(0), |draft| {
        draft.issue(TaskId(1), issue(1))?;
        draft.claim(&command(1), None)
    })
    .unwrap();
    let minute = |n: u64| Time(0).plus(Duration::from_secs(60 * n));
    let mut world = World {
        now: minute(300),
        scan_began: Some(minute(300)),
        ..World::default()
    };
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
    assert_eq!(
        world.still.iter().map(|(_, span)| *span).sum::<Duration>(),
        Duration::from_secs(60 * 296 + 100)
    );
}

#[test]
fn a_command_nobody_takes_is_no_failure_but_a_question_that_closes_itself() {
    let mut plan = running(&[("a", &[])]);
    change_at(&mut plan, Time(0), |draft| draft.issue(TaskId(1), issue(1))).unwrap();
    let late = Time(0).plus(Duration::from_secs(601));
    let world = World {
        now: late,
        scan_began: Some(late),
        ..World::default()
    };
    let steps = due(&plan, &world).steps;
    let [Step::AskHuman(about, task, reason)] = &steps[..] else {
        panic!("{steps:?}");
    };
    change_at(&mut plan, late, |draft| {
        draft.ask(question(1), *about, *task, reason)
    })
    .unwrap();
    assert_eq!(plan.task(TaskId(1)).unwrap().failures, 0);
    change_at(&mut plan, late, |draft| draft.claim(&command(1), None)).unwrap();
    assert_eq!(plan.open_questions().count(), 0);
}

#[test]
fn other_ready_tasks_go_on_while_a_human_is_asked() {
    let mut plan = running(&[("a", &[]), ("b", &[])]);
    for n in 1..=3 {
        attempt(&mut plan, n, ReportStatus::Failed);
    }
    assert_eq!(
        due(&plan, &World::default()).steps,
        [Step::Issue(TaskId(2))]
    );
}

#[test]
fn a_result_that_the_model_cannot_judge_takes_no_lane() {
    let mut plan = running(&[("a", &[]), ("b", &[])]);
    change(&mut plan, |draft| {
        let policy = Policy {
            model: true,
            ..Policy::default()
        };
        draft.start(policy, "/work")?;
        draft.issue(TaskId(1), issue(1))?;
        hear(draft, 1, report(ReportStatus::Success, Time(1)))?;
        let ask = draft.begin_ask(&Subject::Judge(command(1)))?;
        draft.failed_ask(&ask, "unreachable", question(1))
    })
    .unwrap();
    assert_eq!(
        due(&plan, &World::default()).steps,
        [Step::Issue(TaskId(2))]
    );
    change(&mut plan, |draft| {
        draft.answer(&question(1), Choice::Retry, "", "test")
    })
    .unwrap();
    assert_eq!(
        due(&plan, &World::default()).steps,
        [Step::Ask(Subject::Judge(command(1)))]
    );
}

#[test]
fn who_works_at_the_same_time_is_noted_on_both_sides() {
    let mut plan = running(&[("a", &[]), ("b", &[]), ("c", &[])]);
    change(&mut plan, |draft| {
        draft.kept_tree("before");
        draft.issue(TaskId(1), issue(1))?;
        draft.issue(TaskId(2), issue(2))?;
        draft.report(&command(1), report(ReportStatus::Success, Time(1)))?;
        let changes = Changes::new(Seen::Git, vec!["a.txt".to_owned()]);
        draft.inspected(&command(1), changes, Some("after"))?;
        let verdict = rules::judge(draft.plan().attempt(&command(1)).unwrap(), draft.now());
        draft.judge(&command(1), &verdict, question(1))?;
        draft.issue(TaskId(3), issue(3))
    })
    .unwrap();
    let attempt = |n| plan.attempt(&command(n)).unwrap();
    let beside = |n| attempt(n).beside.iter().map(|id| id.0).collect::<Vec<_>>();
    assert_eq!(
        [beside(1), beside(2), beside(3)],
        [vec![2], vec![1, 3], vec![2]]
    );
    let tree = |n| attempt(n).tree.as_deref();
    assert_eq!(
        [tree(1), tree(2), tree(3)],
        [Some("before"), Some("before"), Some("after")]
    );
    let evidence = plan.task(TaskId(1)).unwrap().evidence.clone().unwrap();
    assert!(!evidence.verified);
    assert_eq!(
        evidence.facts,
        ["changed: a.txt", "task 2 was at work in the same folder"]
    );
}

#[test]
fn a_clock_that_was_wrong_when_an_attempt_began_delays_no_time_out() {
    let mut plan = running(&[("a", &[])]);
    let year = Time(0).plus(Duration::from_secs(365 * 24 * 3600));
    change_at(&mut plan, year, |draft| {
        draft.issue(TaskId(1), issue(1))?;
        draft.claim(&command(1), None)
    })
    .unwrap();
    let world = World {
        now: Time(5),
        started: Time(5),
        ..World::default()
    };
    assert_eq!(
        due(&plan, &world).look_again,
        Some(Time(5).plus(Duration::from_secs(600)))
    );
}

#[test]
fn what_a_stranger_says_it_used_stays_countable() {
    let mut plan = running(&[("a", &[]), ("b", &[])]);
    let unlimited = Policy {
        budget: Budget::NONE,
        ..Policy::default()
    };
    change(&mut plan, |draft| draft.start(unlimited, "/work")).unwrap();
    for (task, n) in [(1, 1), (2, 2)] {
        change(&mut plan, |draft| {
            draft.issue(TaskId(task), issue(n))?;
            let huge = Report {
                input_tokens: u64::MAX,
                output_tokens: u64::MAX,
                cost_usd: f64::MAX,
                ..report(ReportStatus::Success, Time(1))
            };
            draft.report(&command(n), huge)
        })
        .unwrap();
    }
    let usage = plan.head().usage;
    assert_eq!(usage.agent_input_tokens, u64::MAX);
    assert!(usage.agent_cost_usd.is_finite());
}

#[test]
fn a_plan_that_ends_early_leaves_nothing_in_progress() {
    let mut plan = running(&[("a", &[]), ("b", &[0])]);
    change(&mut plan, |draft| {
        draft.issue(TaskId(1), issue(1))?;
        draft.abandon("enough")
    })
    .unwrap();
    assert_eq!(plan.counts().pending, 2);
    let attempt = plan.attempt(&command(1)).unwrap();
    assert_eq!(
        (attempt.state, attempt.recall),
        (AttemptState::Stopped, true)
    );
    assert_eq!(
        due(&plan, &World::default()).steps,
        [Step::Withdraw(command(1))]
    );
}

#[test]
fn a_replan_edits_what_is_not_finished_or_nothing() {
    let mut plan = running(&[("a", &[]), ("b", &[0]), ("c", &[1])]);
    attempt(&mut plan, 1, ReportStatus::Success);
    let before = plan.clone();
    let edits = |skip: u32| {
        vec![
            Edit::Add(Box::new(NewTask {
                dependencies: vec![TaskRef::Number(TaskId(1))],
                ..task("b2", &[])
            })),
            Edit::Update(
                TaskId(3),
                Box::new(TaskChanges {
                    dependencies: Some(vec![TaskRef::New(0)]),
                    ..TaskChanges::default()
                }),
            ),
            Edit::Skip(TaskId(skip), String::new()),
        ]
    };
    change(&mut plan, |draft| draft.replan(&edits(2), "x")).expect_err("no replan is open");
    assert_eq!(plan, before);
    change(&mut plan, |draft| {
        draft.issue(TaskId(2), issue(5))?;
        draft.report(&command(5), report(ReportStatus::Failed, Time(1)))?;
        let verdict = Verdict {
            decision: Decision::Replan,
            ..rules::judge(draft.plan().attempt(&command(5)).unwrap(), Time(1))
        };
        draft.judge(&command(5), &verdict, question(5))
    })
    .unwrap();
    assert!(
        due(&plan, &World::default())
            .steps
            .contains(&Step::Ask(Subject::Replan))
    );
    let open = plan.clone();
    change(&mut plan, |draft| {
        draft.replan(&edits(1), "finished tasks stay")
    })
    .expect_err("task 1 is finished");
    assert_eq!(plan, open);
    change(&mut plan, |draft| draft.replan(&edits(2), "another way")).unwrap();
    let order: Vec<_> = plan
        .tasks()
        .map(|task| (task.number.0, task.status))
        .collect();
    use TaskStatus::{Completed, Pending, Skipped};
    assert_eq!(
        order,
        [(1, Completed), (2, Skipped), (4, Pending), (3, Pending)]
    );
    assert_eq!(ready(&plan), [4]);
}

#[test]
fn many_tasks_fit_into_one_gap() {
    let mut plan = running(&[("first", &[]), ("last", &[])]);
    for n in 0..200 {
        change(&mut plan, |draft| {
            draft.add_tasks(vec![task(&format!("t{n}"), &[])], Some(TaskId(1)))
        })
        .unwrap();
    }
    let names: Vec<_> = plan.tasks().map(|task| task.name.clone()).collect();
    assert_eq!(
        (names[0].as_str(), names[1].as_str(), names[201].as_str()),
        ("first", "t199", "last")
    );
}

/// One random thing that somebody does to a plan.
#[derive(Clone, Debug)]
enum Op {
    Add(Vec<Vec<u32>>, u32),
    Depend(u32, Vec<u32>),
    Remove(u32),
    Skip(u32),
    Issue(u32),
    Repair(u32),
    Claim(u32),
    Report(u32, ReportStatus),
    Reject(u32),
    Decide(u32, Decision),
    TimeOut(u32),
    Withdrawn(u32),
    Answer(u32, usize),
    Replan(u32),
    FailAsk,
    /// Asks the model what is due, and what it uses and takes.
    Ask(u64, u64),
    Merge(u32),
    Elsewhere,
    Pause,
    Resume,
    Abandon,
    Reset,
    /// Goes back to one of the states so far, and on from there or not.
    Restore(prop::sample::Index, bool),
    Decisions,
}

fn op() -> impl Strategy<Value = Op> {
    let id = || 1..8u32;
    let status = prop_oneof![
        Just(ReportStatus::Success),
        Just(ReportStatus::Failed),
        Just(ReportStatus::PartialSuccess)
    ];
    let decision = prop_oneof![
        Just(Decision::Next),
        Just(Decision::Retry),
        Just(Decision::Replan),
        Just(Decision::Abort)
    ];
    prop_oneof![
        2 => (prop::collection::vec(prop::collection::vec(id(), 0..3), 1..4), id()).prop_map(|(deps, after)| Op::Add(deps, after)),
        2 => (id(), prop::collection::vec(id(), 0..3)).prop_map(|(task, deps)| Op::Depend(task, deps)),
        1 => id().prop_map(Op::Remove),
        1 => id().prop_map(Op::Skip),
        8 => id().prop_map(Op::Issue),
        2 => id().prop_map(Op::Repair),
        4 => id().prop_map(Op::Claim),
        8 => (id(), status).prop_map(|(task, status)| Op::Report(task, status)),
        3 => id().prop_map(Op::Reject),
        8 => (id(), decision).prop_map(|(task, decision)| Op::Decide(task, decision)),
        2 => id().prop_map(Op::TimeOut),
        2 => id().prop_map(Op::Withdrawn),
        6 => (0..4u32, 0..9usize).prop_map(|(question, choice)| Op::Answer(question, choice)),
        2 => id().prop_map(Op::Replan),
        1 => Just(Op::FailAsk),
        4 => (0..3u64, 0..3u64).prop_map(|(tokens, seconds)| Op::Ask(tokens, seconds)),
        4 => id().prop_map(Op::Merge),
        1 => Just(Op::Elsewhere),
        1 => Just(Op::Pause),
        2 => Just(Op::Resume),
        1 => prop::bool::weighted(0.1).prop_map(|end| if end { Op::Abandon } else { Op::Resume }),
        1 => prop::bool::weighted(0.2).prop_map(|reset| if reset { Op::Reset } else { Op::Decisions }),
        1 => any::<(prop::sample::Index, bool)>().prop_map(|(state, resume)| Op::Restore(state, resume)),
        6 => Just(Op::Decisions),
    ]
}

fn role(n: u32) -> Option<String> {
    ["coder", "writer"]
        .get(n as usize % 3)
        .map(|&role| role.to_owned())
}

/// Merges the result of an attempt aside, if it is one of a plan that merges.
fn merge(draft: &mut Draft<'_>, id: &CommandId, n: u32) -> Result<(), Refusal> {
    let Some(line) = &draft.plan().head().line else {
        return Ok(());
    };
    let merge = Merge {
        onto: line.tip.clone(),
        head: format!("head {n}"),
        commit: format!("commit {n}"),
    };
    draft.merged(id, merge)
}

fn apply(draft: &mut Draft<'_>, op: &Op, n: u32) -> Result<(), Refusal> {
    let current = |draft: &Draft<'_>, task: u32| {
        let task = draft
            .plan()
            .task(TaskId(task))
            .ok_or(Refusal::UnknownTask(task.to_string()))?;
        task.current
            .clone()
            .ok_or_else(|| Refusal::UnknownTask(task.key.clone()))
    };
    match op {
        Op::Add(deps, after) => {
            let tasks = deps.iter().enumerate().map(|(index, deps)| NewTask {
                name: format!("task {n}.{index}"),
                dependencies: deps
                    .iter()
                    .map(|dep| {
                        if dep % 2 == 0 {
                            TaskRef::Number(TaskId(*dep))
                        } else {
                            TaskRef::New((*dep / 2) as usize)
                        }
                    })
                    .collect(),
                assignee: role(n + index as u32),
                ..NewTask::default()
            });
            let after = Some(TaskId(*after)).filter(|id| draft.plan().task(*id).is_some());
            draft.add_tasks(tasks.collect(), after).map(drop)
        }
        Op::Depend(task, deps) => {
            let dependencies = Some(
                deps.iter()
                    .map(|dep| TaskRef::Number(TaskId(*dep)))
                    .collect(),
            );
            draft.update_task(
                TaskId(*task),
                &TaskChanges {
                    dependencies,
                    assignee: Some(role(n)),
                    ..TaskChanges::default()
                },
            )
        }
        Op::Remove(task) => draft.remove_task(TaskId(*task)),
        Op::Skip(task) => draft.skip_task(TaskId(*task), "left out"),
        Op::Issue(task) => draft.issue(TaskId(*task), issue(n)),
        Op::Repair(task) => draft.issue(
            TaskId(*task),
            Issue {
                kind: Kind::Repair,
                ..issue(n)
            },
        ),
        Op::Claim(task) => draft.claim(&current(draft, *task)?, None).map(drop),
        Op::Report(task, status) => draft
            .report(&current(draft, *task)?, report(*status, draft.now()))
            .map(drop),
        Op::Reject(task) => draft
            .reject(
                &current(draft, *task)?,
                "no status",
                &n.to_string(),
                question(n),
            )
            .map(drop),
        Op::Decide(task, decision) => {
            let id = current(draft, *task)?;
            let attempt = draft
                .plan()
                .attempt(&id)
                .ok_or(Refusal::UnknownCommand(id.clone()))?;
            let verdict = Verdict {
                decision: *decision,
                ..rules::judge(attempt, draft.now())
            };
            draft.judge(&id, &verdict, question(n))
        }
        Op::TimeOut(task) => draft.time_out(&current(draft, *task)?, "silent", question(n)),
        Op::Withdrawn(task) => draft.withdrawn(&current(draft, *task)?),
        Op::Answer(index, choice) => {
            let open = draft.plan().open_questions().nth(*index as usize).cloned();
            let open = open.ok_or(Refusal::NoNote)?;
            draft.answer(&open.id, Choice::ALL[*choice], "a note", "test")
        }
        Op::Replan(task) => {
            let edits = [
                Edit::Skip(TaskId(*task), "other way".to_owned()),
                Edit::Add(Box::new(super::tests::task("new", &[]))),
            ];
            draft.replan(&edits, "another way")
        }
        Op::FailAsk => {
            let subject = Subject::Replan;
            let id = draft.begin_ask(&subject)?;
            draft.failed_ask(&id, "unreachable", question(n))
        }
        Op::Ask(tokens, seconds) => {
            let world = World {
                now: draft.now(),
                ..World::default()
            };
            let asked = due(draft.plan(), &world).steps;
            let Some(Step::Ask(subject)) = asked.iter().find(|step| matches!(step, Step::Ask(_)))
            else {
                return Err(Refusal::UnknownAsk);
            };
            let id = draft.begin_ask(subject)?;
            draft.count_time(Lived {
                since: draft.now(),
                span: Duration::from_secs(*seconds),
            });
            let spent = Spent {
                calls: 1,
                input_tokens: *tokens,
                ..Spent::default()
            };
            draft.count_ask(&id, spent)?;
            match subject {
                Subject::Audit => {
                    draft.answered_ask(&id, "met")?;
                    draft.audited("met", None, question(n))
                }
                Subject::Summary => {
                    draft.answered_ask(&id, "over")?;
                    draft.settle("over")
                }
                _ => draft.failed_ask(&id, "unreachable", question(n)),
            }
        }
        Op::Merge(task) => {
            let id = current(draft, *task)?;
            merge(draft, &id, n)?;
            draft.checked(&id, vec![])
        }
        Op::Elsewhere => draft.branch_elsewhere(&n.to_string(), "it is elsewhere", question(n)),
        Op::Pause => draft.pause("a break"),
        Op::Resume => draft.resume(),
        Op::Abandon => draft.abandon("enough"),
        Op::Reset => {
            let policy = draft.plan().head().policy.clone();
            draft.reset()?;
            draft.start(policy, "/work").map(drop)
        }
        // Needs more than the plan as it is.
        Op::Restore(..) => Ok(()),
        Op::Decisions => {
            let world = World {
                now: draft.now(),
                ..World::default()
            };
            for step in due(draft.plan(), &world).steps {
                match step {
                    // What was due a moment ago may be the last that the budget allowed.
                    Step::Issue(task) if draft.plan().no_attempt(Lived::default()).is_none() => {
                        draft.issue(task, issue(n * 100 + task.0))?;
                    }
                    Step::AskHuman(about, task, reason) => {
                        draft.ask(question(n * 100), about, task, &reason)?;
                    }
                    Step::JudgeByRules(id) => {
                        let verdict = rules::judge(draft.plan().attempt(&id).unwrap(), draft.now());
                        draft.judge(&id, &verdict, question(n * 100 + 1))?;
                    }
                    Step::Inspect(id) => draft.inspected(&id, Changes::default(), None)?,
                    Step::Withdraw(id) => draft.recalled(&id)?,
                    Step::Check(id) => {
                        merge(draft, &id, n)?;
                        draft.checked(&id, vec![])?;
                    }
                    Step::Accept(id) => draft.accept_merged(&id, question(n * 100 + 2))?,
                    Step::MoveBranch => {
                        let tip = draft.plan().head().line.clone().unwrap().tip;
                        draft.branch_moved(&tip)?;
                    }
                    Step::Settle => draft.settle("over")?,
                    Step::StopAtBudget(limit) => {
                        draft.stop_at_budget(limit, question(n * 100 + 3))?;
                    }
                    _ => {}
                }
            }
            Ok(())
        }
    }
}

/// The indexes tell what a look at every task tells, whatever the order of the plan.
fn check_index(plan: &Plan) -> Result<(), TestCaseError> {
    let mut scan: Vec<&Task> = plan
        .rows()
        .filter_map(|row| match row {
            Row::Task(task) => plan.task(task.number),
            _ => None,
        })
        .collect();
    scan.sort_by_key(|task| (task.position, task.number));
    prop_assert!(plan.tasks().eq(scan.iter().copied()));
    prop_assert_eq!(plan.counts().total(), scan.len());
    for (index, task) in scan.iter().enumerate() {
        prop_assert_eq!(plan.index_of(task), index);
        prop_assert_eq!(plan.nth(index), Some(*task));
        let (before, after) = plan.tasks_around(task);
        prop_assert!(before.eq(scan[..index].iter().rev().copied()));
        prop_assert!(after.eq(scan[index + 1..].iter().copied()));
    }
    prop_assert_eq!(plan.nth(scan.len()), None);

    for order in [Order::Free, Order::Dependencies, Order::Sequential] {
        let mut plan = plan.clone();
        let mut head = plan.head().clone();
        head.order = order;
        plan.put(Row::Head(Box::new(head)));
        let first = scan.iter().find(|task| !task.status.settled());
        let may_start = |task: &Task| match order {
            Order::Free => true,
            Order::Dependencies => plan.unmet(task).is_empty(),
            Order::Sequential => first.is_some_and(|first| first.number == task.number),
        };
        let pending = |task: &Task| task.status == TaskStatus::Pending;
        let found = |shown: Shown| plan.tasks_in(shown).map(|task| task.number);
        let scanned = |which: &dyn Fn(&Task) -> bool| -> Vec<TaskId> {
            let tasks = scan.iter().filter(|task| which(task));
            tasks.map(|task| task.number).collect()
        };
        let ready = scanned(&|task| pending(task) && may_start(task));
        let blocked = scanned(&|task| pending(task) && !may_start(task));
        prop_assert!(
            scan.iter()
                .all(|task| plan.is_ready(task) == ready.contains(&task.number))
        );
        prop_assert_eq!(plan.ready_count(), ready.len());
        prop_assert_eq!(found(Shown::Ready).collect::<Vec<_>>(), ready);
        prop_assert_eq!(found(Shown::Blocked).collect::<Vec<_>>(), blocked);
    }

    for status in STATUSES {
        let found: Vec<&Task> = plan.tasks_in(status.into()).collect();
        let of_status = |task: &&&Task| task.status == status;
        prop_assert_eq!(plan.tasks_in(status.into()).len(), found.len());
        prop_assert!(scan.iter().filter(of_status).copied().eq(found));
        for role in ["", "coder", "writer"] {
            let of_role = |task: &&&Task| task.assignee.as_deref() == Some(role);
            let scanned = scan.iter().filter(of_status).filter(of_role).copied();
            prop_assert!(plan.tasks_of(role, status).eq(scanned));
        }
    }
    let unsettled = scan.iter().filter(|task| !task.status.settled());
    prop_assert!(plan.unsettled().eq(unsettled.copied()));
    Ok(())
}

const STATUSES: [TaskStatus; 5] = [
    TaskStatus::Pending,
    TaskStatus::InProgress,
    TaskStatus::Completed,
    TaskStatus::Failed,
    TaskStatus::Skipped,
];

/// What must hold in every plan that can be reached.
fn check_invariants(plan: &Plan) -> Result<(), TestCaseError> {
    let tasks: BTreeMap<TaskId, &Task> = plan.tasks().map(|task| (task.number, task)).collect();
    let next = |id: TaskId| {
        tasks
            .get(&id)
            .map(|task| task.dependencies.clone())
            .unwrap_or_default()
    };
    prop_assert_eq!(find_cycle(tasks.keys().copied(), next), None);

    let again = Plan::from_rows(plan.rows()).unwrap();
    prop_assert_eq!(&again, plan, "the indexes are those of the rows");
    let mut rows: Vec<Row> = plan.rows().collect();
    rows.reverse();
    let again = Plan::from_rows(rows).unwrap();
    prop_assert_eq!(&again, plan, "in whatever order the rows come");
    check_index(plan)?;

    for task in tasks.values() {
        let open = plan
            .attempts_of(task.number)
            .filter(|attempt| attempt.state.open())
            .count();
        prop_assert!(open <= 1, "task {} has {} open attempts", task.number, open);
        prop_assert!(open == 0 || !task.status.settled());
        let max = plan.head().policy.max_attempts;
        let asked = plan
            .open_questions()
            .any(|question| question.task == Some(task.number));
        let waits = task.failures >= max
            && task.status == TaskStatus::InProgress
            && !plan.status().settled();
        prop_assert!(
            !waits || asked || open > 0,
            "task {} failed {} times and nobody is asked",
            task.number,
            task.failures
        );
    }

    budget::check(plan)?;
    let due = due(plan, &World::default());
    let alive = !due.steps.is_empty() || due.look_again.is_some() || due.rescan;
    let rests = plan.status().settled()
        || matches!(plan.status(), PlanStatus::Idle | PlanStatus::Paused(_));
    prop_assert!(
        rests || alive || plan.open_questions().next().is_some(),
        "nothing is due and nobody is asked"
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_reachable_plan_holds_its_promises(policy in budget::policy(), ops in prop::collection::vec(op(), 1..60), isolated: bool) {
        let mut plan = running(&[("a", &[]), ("b", &[0]), ("c", &[])]);
        change(&mut plan, |draft| draft.start(policy, "/work")).unwrap();
        if isolated {
            change(&mut plan, |draft| draft.isolate("base", "/trees")).unwrap();
        }
        let mut states = vec![plan.clone()];
        for (n, op) in (1..).zip(&ops) {
            let before = plan.clone();
            let done = change_at(&mut plan, Time(i64::from(n)), |draft| match op {
                Op::Restore(state, resume) => go_back(draft, state.get(&states), *resume),
                op => apply(draft, op, n),
            });
            if let (Op::Restore(state, _), Ok(())) = (op, &done) {
                check_restored(&before, state.get(&states), &plan)?;
            }
            states.push(plan.clone());
            if done.is_err() {
                prop_assert_eq!(&plan, &before, "a refused operation changes nothing");
            }
            if plan.attempts_made() > before.attempts_made() && matches!(op, Op::Issue(_) | Op::Decisions) {
                prop_assert_eq!(before.no_repair(Lived::default()), None, "{:?} begins", op);
            }
            if !matches!(op, Op::Reset | Op::Restore(..)) {
                for task in before.tasks().filter(|task| task.status.satisfies()) {
                    prop_assert_eq!(plan.task(task.number).map(|task| task.status), Some(task.status));
                }
                if before.status().settled() {
                    prop_assert_eq!(plan.status(), before.status());
                }
            }
            check_invariants(&plan)?;
            check_line(&before, &plan)?;
        }
    }
}

fn go_back(draft: &mut Draft<'_>, earlier: &Plan, resume: bool) -> Result<(), Refusal> {
    draft.restore(earlier, 1)?;
    match draft.plan().status() {
        PlanStatus::Paused(_) if resume => draft.resume(),
        _ => Ok(()),
    }
}

/// What was is again, what has happened since is not forgotten, and nobody works on anything.
fn check_restored(before: &Plan, then: &Plan, plan: &Plan) -> Result<(), TestCaseError> {
    let said = |task: &Task| {
        let status = match task.status {
            TaskStatus::InProgress => TaskStatus::Pending,
            status => status,
        };
        let mut task = task.clone();
        (task.attempts, task.failures, task.current) = (0, 0, None);
        task.not_before = None;
        Task { status, ..task }
    };
    prop_assert!(plan.tasks().map(said).eq(then.tasks().map(said)));
    prop_assert_eq!(plan.open_attempts().count(), 0);
    prop_assert_eq!(plan.open_questions().count(), 0);
    prop_assert_eq!(plan.open_asks().count(), 0);
    let ever = |plan: &Plan| {
        let attempts = plan.attempts().count();
        (
            attempts,
            plan.questions().count(),
            plan.ask_count(),
            plan.attempts_made(),
        )
    };
    prop_assert_eq!(ever(plan), ever(before));
    let (head, now) = (plan.head(), before.head());
    prop_assert_eq!(head.next_task, now.next_task);
    prop_assert_eq!((head.usage, &head.granted), (now.usage, &now.granted));
    prop_assert!(head.revision > now.revision);
    for task in plan.tasks() {
        let made = plan
            .attempts_of(task.number)
            .map(|attempt| attempt.number)
            .max();
        prop_assert!(made.unwrap_or(0) <= task.attempts, "numbers go on");
    }
    Ok(())
}

/// The line moves only when a task is completed, to where exactly that task's result was merged onto it.
fn check_line(before: &Plan, plan: &Plan) -> Result<(), TestCaseError> {
    let (Some(old), Some(new)) = (&before.head().line, &plan.head().line) else {
        return Ok(());
    };
    let completed = |plan: &Plan| -> Vec<TaskId> {
        plan.tasks()
            .filter(|task| task.status == TaskStatus::Completed)
            .map(|task| task.number)
            .collect()
    };
    let (was, is) = (completed(before), completed(plan));
    let mut tip = old.tip.clone();
    let mut steps = is
        .iter()
        .filter(|task| !was.contains(task))
        .map(|task| {
            let task = plan.task(*task).unwrap();
            let attempt = plan.current_attempt(task).unwrap();
            attempt.merge.clone().unwrap()
        })
        .collect::<Vec<_>>();
    while let Some(next) = steps.iter().position(|merge| merge.onto == tip) {
        tip = steps.remove(next).commit;
    }
    prop_assert!(steps.is_empty(), "accepted, but not on the line: {steps:?}");
    prop_assert_eq!(tip, new.tip.clone());
    Ok(())
}

#[test]
fn a_refusal_names_some_of_many_tasks() {
    let tasks: Vec<TaskId> = (1..=1000).map(TaskId).collect();
    let told = Refusal::Cycle(tasks[..40].to_vec()).to_string();
    assert!(told.ends_with("→ 39 → 40") && !told.contains('…'), "{told}");
    let told = Refusal::Cycle(tasks).to_string();
    assert!(told.contains("→ 20 → … (960 more) → 981 →"), "{told}");
    assert!(told.ends_with("→ 1000") && told.len() < 600, "{told}");
}

#[test]
fn a_failure_that_is_tried_again_is_told() {
    let mut head = Head::new(PlanId::new("aaaaaaaa"), "goal", Time(0));
    "tool".clone_into(&mut head.owner);
    let mut plan = Plan::new(head);
    let mut draft = Draft::new(&mut plan, Time(1));
    let task = NewTask {
        name: "a".to_owned(),
        ..NewTask::default()
    };
    let made = draft.make_tasks(vec![task]).unwrap();
    draft.start_task(made[0]).unwrap();
    assert_eq!(draft.fail_task(made[0], "time-out", true), Ok(true));
    let told = draft.finish().events;
    let (task, reason) = (made[0], "time-out".to_owned());
    assert!(told.contains(&Event::Stumbled { task, reason }), "{told:?}");
}
