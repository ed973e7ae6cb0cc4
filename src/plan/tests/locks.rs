//! Locks: of several tasks that share one, one is under way, in one plan and beside others.

use super::*;
use crate::plan::{HeldLocks, LockHolder, lock_problem};

/// Returns a running plan with lanes for all, whose tasks have these locks.
fn with_locks(locks: &[&[&str]]) -> Plan {
    let tasks = locks.iter().map(|locks| TaskSpec {
        locks: locks.iter().map(|lock| (*lock).to_owned()).collect(),
        ..testing::task("work", &[])
    });
    let policy = PlanPolicy {
        max_parallel: 9,
        ..PlanPolicy::default()
    };
    started(tasks, policy)
}

fn held(lock: &str) -> Observations {
    let (plan, task) = (PlanId::new("otherone"), TaskId(3));
    Observations {
        held_locks: HeldLocks::from([(lock.to_owned(), LockHolder { plan, task })]),
        ..Observations::default()
    }
}

#[test]
fn tasks_that_share_a_lock_run_one_after_another() {
    let mut plan = with_locks(&[&["a"], &["b", "a"], &[], &["b"], &["c"]]);
    let alone = Observations::default();
    assert_eq!(issued(&plan, &alone), [1, 3, 4, 5]);
    apply(&mut plan, |draft| draft.issue(TaskId(1), issue(1)));
    assert_eq!(issued(&plan, &alone), [3, 4, 5]);
    let wait = |task: u32, others: &HeldLocks| {
        let wait = plan.lock_waited_for(plan.task(TaskId(task)).unwrap(), others);
        wait.map(|(lock, holder)| (lock, holder.plan.to_string(), holder.task.0))
    };
    let wanted = ("a".to_owned(), "testplan".to_owned(), 1);
    assert_eq!(wait(2, &HeldLocks::new()), Some(wanted));
    assert_eq!(wait(1, &held("a").held_locks), None, "it is under way");
    let wanted = ("c".to_owned(), "otherone".to_owned(), 3);
    assert_eq!(wait(5, &held("c").held_locks), Some(wanted));
    apply(&mut plan, |draft| {
        draft.withdrawn(&command(1))?;
        draft.skip_task(TaskId(1), "not needed")
    });
    assert_eq!(issued(&plan, &alone), [2, 3, 5], "its lock is free again");
}

#[test]
fn locks_of_other_plans_hold_tasks_without_a_question() {
    let plan = with_locks(&[&["a"]]);
    let seen = due(&plan, &held("a"));
    assert!(seen.steps.is_empty() && seen.locked, "{seen:?}");
    assert_eq!(issued(&plan, &held("b")), [1]);
}

#[test]
fn lanes_beside_other_plans_are_fewer() {
    let plan = with_locks(&[&[], &[], &[]]);
    for (lanes, wanted) in [(None, 3), (Some(2), 2), (Some(9), 3)] {
        let world = Observations {
            lanes,
            ..Observations::default()
        };
        assert_eq!(issued(&plan, &world).len(), wanted, "{lanes:?}");
    }
}

#[test]
fn names_of_locks_are_bounded() {
    let (long, fits) = ("x".repeat(101), "x".repeat(100));
    let right = ["port:8080", "the database", &fits].map(str::to_owned);
    assert_eq!(lock_problem(&right), None);
    for wrong in ["", " ", "a\u{7}", "a,b", &long] {
        let found = lock_problem(&[wrong.to_owned()]);
        assert!(found.is_some(), "{wrong:?}");
    }
    assert_eq!(lock_problem(&vec!["a".to_owned(); 16]), None);
    assert!(lock_problem(&vec!["a".to_owned(); 17]).is_some());
}
