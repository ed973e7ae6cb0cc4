//! Lanes: over the plan, and of each role; what is dispatched is what a look at every task says.

use std::cell::Cell;

use super::*;

/// What must hold in every plan that can be reached.
pub(super) fn check(plan: &Plan) -> Result<(), TestCaseError> {
    let lanes = Lanes::of(plan);
    for (role, lanes) in &lanes.roles {
        let of_role = |id: &TaskId| plan.task(*id).unwrap().assignee.as_ref() == Some(role);
        prop_assert!(lanes.busy.iter().all(of_role));
    }
    prop_assert_eq!(issued_now(plan), expected(plan));
    Ok(())
}

/// The tasks that may start are gone through as a look at all of them has them, with and without those of a role.
pub(super) fn check_walk(plan: &Plan) -> Result<(), TestCaseError> {
    for left_out in [None, Some("coder"), Some("writer"), Some("nobody")] {
        let mut walk = plan.startable();
        let walked = std::iter::from_fn(|| walk.next(|role| role.is_some() && role == left_out));
        let fits = |task: &&Task| left_out.is_none() || task.assignee.as_deref() != left_out;
        prop_assert!(walked.eq(plan.ready().filter(fits)), "{:?}", left_out);
    }
    Ok(())
}

/// Returns what is to be dispatched now, by a look at every task.
fn expected(plan: &Plan) -> Vec<u32> {
    let head = plan.head();
    let counts = plan.counts();
    let rests = counts.total() == counts.settled()
        || head.replan.is_some()
        || head.review == ReviewPolicy::Wanted
        || *plan.status() != PlanState::Running
        || plan.no_attempt(ActiveTime::default()).is_some();
    if rests {
        return Vec::new();
    }
    let role_of = |task: TaskId| plan.task(task).and_then(|task| task.assignee.clone());
    let asked = |task: TaskId| {
        let reported = |it: &Attempt| it.task == task && it.state == AttemptState::Reported;
        let mut failed = plan.open_asks().filter(|ask| ask.error.is_some());
        let about = failed.any(|ask| {
            matches!(&ask.subject, ModelQuestionKind::Judge(id) if plan.attempt(id).is_some_and(reported))
        });
        about || plan.open_questions().any(|q| q.task == Some(task))
    };
    let waits = |attempt: &&Attempt| attempt.state == AttemptState::Reported && asked(attempt.task);
    let busy = plan.open_attempts().filter(|attempt| !waits(attempt));
    let mut busy: Vec<Option<String>> = busy.map(|attempt| role_of(attempt.task)).collect();
    let idle = |task: &&Task| {
        let current = plan.current_attempt(task);
        task.status == TaskState::InProgress && current.is_none_or(|now| !now.state.open())
    };
    let retries = plan.tasks().filter(idle);
    let mut found = Vec::new();
    for task in retries.chain(plan.tasks().filter(|task| plan.is_ready(task))) {
        let role = task.assignee.as_ref();
        let most = role.and_then(|role| head.policy.roles.get(role));
        let same = busy.iter().filter(|role| **role == task.assignee).count();
        if busy.len() >= head.policy.max_parallel as usize
            || most.is_some_and(|rules| same >= rules.concurrency.max(1) as usize)
            || asked(task.number)
        {
            continue;
        }
        let recalled = plan.recalls().any(|attempt| attempt.task == task.number);
        let parked = task.not_before.is_some_and(|at| at > Time(0));
        if parked && !recalled {
            continue;
        }
        busy.push(task.assignee.clone());
        if !recalled {
            found.push(task.number.0);
        }
    }
    found
}

fn with_roles(tasks: &[(&str, Option<&str>)], max_parallel: u32, roles: &[(&str, u32)]) -> Plan {
    let tasks = tasks.iter().map(|(name, role)| TaskSpec {
        assignee: role.map(str::to_owned),
        ..task(name, &[])
    });
    let roles = roles.iter().map(|(role, concurrency)| {
        let rules = RoleRules {
            concurrency: *concurrency,
            ..RoleRules::default()
        };
        ((*role).to_owned(), rules)
    });
    let policy = PlanPolicy {
        max_parallel,
        roles: roles.collect(),
        ..PlanPolicy::default()
    };
    started(tasks, policy)
}

#[test]
fn full_role_does_not_block_other_roles() {
    let tasks = [
        ("a", Some("coder")),
        ("b", Some("coder")),
        ("c", Some("coder")),
        ("d", Some("reviewer")),
        ("e", None),
        ("f", Some("anybody")),
    ];
    let mut plan = with_roles(&tasks, 10, &[("coder", 2), ("reviewer", 1)]);
    assert_eq!(issued_now(&plan), [1, 2, 4, 5, 6]);
    apply(&mut plan, |draft| {
        draft.issue(TaskId(1), issue(1))?;
        draft.issue(TaskId(2), issue(2))
    });
    assert_eq!(issued_now(&plan), [4, 5, 6]);
    let lanes = Lanes::of(&plan);
    assert_eq!(lanes.roles["coder"].busy, [1, 2].map(TaskId));
    assert!(lanes.full_for(Some("coder")) && !lanes.full_for(Some("reviewer")));
    // Free again as soon as one of its tasks is done.
    apply(&mut plan, |draft| {
        draft.report(&command(1), report(ReportStatus::Success, Time(1)))?;
        judge_by_rules(draft, 1)
    });
    assert_eq!(issued_now(&plan), [3, 4, 5, 6]);
}

#[test]
fn plan_lanes_bound_role_lanes() {
    let tasks = [("a", Some("coder")), ("b", Some("reviewer")), ("c", None)];
    let plan = with_roles(&tasks, 2, &[("coder", 5), ("reviewer", 5)]);
    assert_eq!(issued_now(&plan), [1, 2]);
    let plan = with_roles(&tasks, 5, &[("coder", 0)]);
    assert_eq!(issued_now(&plan), [1, 2, 3]);
}

#[test]
fn full_role_is_checked_once_for_all_its_tasks() {
    let coder = ("a", Some("coder"));
    let mut tasks = vec![coder; 10_000];
    tasks.push(("last", Some("reviewer")));
    let plan = with_roles(&tasks, 10, &[("coder", 1)]);
    let looks = Cell::new(0);
    let mut walk = plan.startable();
    let next = walk.next(|role| {
        looks.set(looks.get() + 1);
        role == Some("coder")
    });
    assert_eq!(next.map(|task| task.number), Some(TaskId(10_001)));
    assert_eq!(looks.get(), 2);
    assert_eq!(issued_now(&plan), [1, 10_001]);
}

#[test]
fn role_sets_attempt_deadline() {
    let mut plan = with_roles(&[("a", Some("coder")), ("b", None)], 2, &[("coder", 1)]);
    let mut policy = plan.head().policy.clone();
    policy.roles.get_mut("coder").unwrap().task_deadline = Some(Duration::from_secs(30));
    apply(&mut plan, |draft| {
        draft.start(policy, "/work")?;
        for n in [1, 2] {
            draft.issue(TaskId(n), issue(n))?;
            draft.claim(&command(n), None)?;
        }
        Ok(())
    });
    let late = Time(1).plus(Duration::from_secs(31));
    let steps = due(&plan, &scanned_at(late)).steps;
    let [DueStep::TimeOut(id, reason)] = &steps[..] else {
        panic!("{steps:?}");
    };
    assert_eq!(*id, command(1));
    assert_eq!(reason, "not finished within 30 s");
}

/// Returns a world in which those of a role are lost.
fn lost(role: &str, pool: WorkerPoolState, scan: i64) -> Observations {
    Observations {
        scan_began: Some(Time(scan)),
        pools: WorkerPools([(Some(role.to_owned()), pool)].into()),
        ..Observations::default()
    }
}

/// Where nothing goes on, somebody is asked, or those who would do it are lost.
pub(super) fn check_held(plan: &Plan) -> Result<(), TestCaseError> {
    for pool in [WorkerPoolState::Unfit, WorkerPoolState::Gone(Time(0))] {
        let due = due(plan, &lost("coder", pool, 0));
        let rests = *plan.status() != PlanState::Running;
        let asked = plan.open_questions().next().is_some();
        prop_assert!(rests || !due.nothing() || due.held || asked);
        let issued = due.steps.iter().filter_map(|step| match step {
            DueStep::Issue(task) => plan.task(*task)?.assignee.clone(),
            _ => None,
        });
        prop_assert!(issued.into_iter().all(|role| role != "coder"));
    }
    Ok(())
}

#[test]
fn lost_role_has_unclaimed_commands_withdrawn() {
    let tasks = [
        ("a", Some("coder")),
        ("b", Some("coder")),
        ("c", Some("coder")),
        ("d", Some("reviewer")),
    ];
    let mut plan = with_roles(&tasks, 2, &[("coder", 2)]);
    apply(&mut plan, |draft| {
        draft.issue(TaskId(1), issue(1))?;
        draft.issue(TaskId(2), issue(2))?;
        draft.claim(&command(1), None).map(drop)
    });
    // As long as they end, what they say counts.
    let unfit = due(&plan, &lost("coder", WorkerPoolState::Unfit, 9));
    assert_eq!(unfit.steps, []);
    // Of one that is worked on, a report may still come.
    let mut gone = lost("coder", WorkerPoolState::Gone(Time(5)), 9);
    gone.signs.insert(command(1), Time(3));
    let withdraw = |n| DueStep::Effect(DueEffect::Withdraw(command(n)));
    assert_eq!(due(&plan, &gone).steps, [withdraw(2)]);
    gone.scan_began = Some(Time(4));
    let early = due(&plan, &gone);
    assert!(early.steps.is_empty() && early.rescan);
    // What went back is claimed in the plan and by nobody in the folders.
    let gone = lost("coder", WorkerPoolState::Gone(Time(5)), 9);
    assert_eq!(due(&plan, &gone).steps, [1, 2].map(withdraw));
    apply(&mut plan, |draft| {
        draft.withdrawn(&command(1))?;
        draft.withdrawn(&command(2))
    });
    let now = due(&plan, &gone);
    assert_eq!(now.steps, [DueStep::Issue(TaskId(4))]);
    assert!(now.held);
}

#[test]
fn unclaimed_timeout_waits_for_busy_role() {
    let mut plan = with_roles(&[("a", Some("coder"))], 2, &[("coder", 1)]);
    apply(&mut plan, |draft| draft.issue(TaskId(1), issue(1)));
    let late = Time(1).plus(Duration::from_secs(601));
    let mut world = scanned_at(late);
    let asks =
        |world: &Observations| matches!(due(&plan, world).steps[..], [DueStep::AskHuman(..)]);
    assert!(asks(&world));
    // Nor while all relays that could take it are at their usage limits.
    let mut limited = plan.clone();
    apply(&mut limited, |draft| {
        draft.waits(&command(1), Some(late.plus(Duration::from_secs(1))))
    });
    assert_eq!(due(&limited, &world).steps, []);
    world.held.insert("reviewer".to_owned(), late);
    assert!(asks(&world));
    // Nobody takes it from when on the role has nothing else in hand.
    let free = Time(1).plus(Duration::from_secs(300));
    world.held.insert("coder".to_owned(), free);
    let due = due(&plan, &world);
    assert_eq!(due.steps, []);
    assert_eq!(due.look_again, Some(free.plus(Duration::from_secs(600))));
}

#[test]
fn unclaimed_command_blocks_only_its_role() {
    let tasks = [
        ("a", Some("ghost")),
        ("b", Some("ghost")),
        ("c", Some("coder")),
        ("d", Some("coder")),
        ("e", None),
    ];
    let mut plan = with_roles(&tasks, 1, &[("ghost", 1), ("coder", 2)]);
    apply(&mut plan, |draft| draft.issue(TaskId(1), issue(1)));
    let mut world = seen_at(Time(1).plus(Duration::from_secs(9)));
    // Whoever is there takes it in a moment.
    let early = due(&plan, &world);
    assert_eq!(early.steps, []);
    let moment = Time(1).plus(Duration::from_secs(10));
    assert_eq!(early.look_again, Some(moment));
    world.now = moment;
    assert_eq!(due(&plan, &world).steps, [DueStep::Issue(TaskId(3))]);
    // One that works on another task of the role is there.
    world.held.insert("ghost".to_owned(), world.now);
    assert_eq!(due(&plan, &world).steps, []);
    world.held.clear();
    apply(&mut plan, |draft| draft.issue(TaskId(3), issue(3)));
    apply(&mut plan, |draft| draft.claim(&command(3), None).map(drop));
    assert_eq!(due(&plan, &world).steps, []);
    // Where one conversation is about all tasks, nothing is taken up besides.
    apply(&mut plan, |draft| {
        let mut policy = draft.plan().head().policy.clone();
        policy.session = SessionScope::Plan;
        draft.start(policy, "/work")
    });
    assert_eq!(due(&plan, &world).steps, []);
}
