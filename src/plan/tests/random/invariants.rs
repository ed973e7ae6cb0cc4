//! What holds of every plan that can be reached, and of every change.

use std::collections::{BTreeMap, BTreeSet};

use super::super::*;

/// The indexes tell what a look at every task tells, whatever the order of the plan.
fn check_index(plan: &Plan) -> Result<(), TestCaseError> {
    let tasks = plan.rows().filter_map(|row| match row {
        Row::Task(task) => plan.task(task.number),
        _ => None,
    });
    let mut scan: Vec<&Task> = tasks.collect();
    scan.sort_by_key(|task| (task.position, task.number));
    prop_assert!(plan.tasks().eq(scan.iter().copied()));
    prop_assert_eq!(plan.counts().total(), scan.len());
    for (index, task) in scan.iter().enumerate() {
        prop_assert_eq!(plan.index_of(task), index);
        prop_assert_eq!(plan.tasks().nth(index), Some(*task));
        let (before, after) = plan.tasks_around(task);
        prop_assert!(before.eq(scan[..index].iter().rev().copied()));
        prop_assert!(after.eq(scan[index + 1..].iter().copied()));
    }
    prop_assert_eq!(plan.tasks().nth(scan.len()), None);

    for order in [
        TaskOrder::Free,
        TaskOrder::Dependencies,
        TaskOrder::Sequential,
    ] {
        let mut plan = plan.clone();
        let mut head = plan.head().clone();
        head.order = order;
        plan.put(Row::Head(Box::new(head)));
        let first = scan.iter().find(|task| !task.status.settled());
        let may_start = |task: &Task| match order {
            TaskOrder::Free => true,
            TaskOrder::Dependencies => plan.unmet(task).is_empty(),
            TaskOrder::Sequential => first.is_some_and(|first| first.number == task.number),
        };
        let pending = |task: &Task| task.status == TaskState::Pending;
        let scanned = |which: &dyn Fn(&Task) -> bool| -> Vec<TaskId> {
            let tasks = scan.iter().filter(|task| which(task));
            tasks.map(|task| task.number).collect()
        };
        let ready = scanned(&|task| pending(task) && may_start(task));
        let blocked = scanned(&|task| pending(task) && !may_start(task));
        let is_ready = |task: &&Task| plan.is_ready(task) == ready.contains(&task.number);
        prop_assert!(scan.iter().all(is_ready));
        prop_assert_eq!(plan.ready().len(), ready.len());
        lanes::check_walk(&plan)?;
        let numbers = |tasks: Tasks<'_>| tasks.map(|task| task.number).collect::<Vec<_>>();
        prop_assert_eq!(numbers(plan.ready()), ready);
        prop_assert_eq!(numbers(plan.blocked()), blocked);
    }

    for status in TaskState::ALL {
        let found: Vec<&Task> = plan.tasks_in(status).collect();
        let of_status = |task: &&&Task| task.status == status;
        prop_assert_eq!(plan.tasks_in(status).len(), found.len());
        prop_assert!(scan.iter().filter(of_status).copied().eq(found));
        for role in ["", "coder", "writer"] {
            let of_role = |task: &&&Task| task.assignee.as_deref() == Some(role);
            let scanned = scan.iter().filter(of_status).filter(of_role).copied();
            prop_assert!(plan.tasks_of(role, status).eq(scanned));
        }
    }
    let unsettled = scan.iter().filter(|task| !task.status.settled());
    prop_assert!(plan.unsettled().eq(unsettled.copied()));
    let wanted = scan.iter().filter(|task| task.status != TaskState::Skipped);
    prop_assert!(plan.tasks_wanted().eq(wanted.copied()));
    Ok(())
}

/// What must hold in every plan that can be reached.
pub(super) fn check_invariants(plan: &Plan) -> Result<(), TestCaseError> {
    let tasks: BTreeMap<TaskId, &Task> = plan.tasks().map(|task| (task.number, task)).collect();
    let next = |id: TaskId| {
        let task = tasks.get(&id);
        task.map_or(Vec::new(), |task| task.dependencies.clone())
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
        let open = plan.attempts_of(task.number);
        let open = open.filter(|attempt| attempt.state.open()).count();
        prop_assert!(open <= 1, "task {} has {} open attempts", task.number, open);
        prop_assert!(open == 0 || !task.status.settled());
        let max = plan.head().policy.max_attempts;
        let mut questions = plan.open_questions();
        let asked = questions.any(|question| question.task == Some(task.number));
        let runs = task.status == TaskState::InProgress && !plan.status().settled();
        let held = !runs || task.failures < max || asked || open > 0;
        prop_assert!(held, "{:?} and no person is asked", task);
    }

    budget::check(plan)?;
    lanes::check(plan)?;
    waits::check(plan)?;
    lanes::check_held(plan)?;
    let due = due(plan, &Observations::default());
    let alive = !due.steps.is_empty() || due.look_again.is_some() || due.rescan;
    let rests =
        plan.status().settled() || matches!(plan.status(), PlanState::Idle | PlanState::Paused(_));
    let asked = plan.open_questions().next().is_some();
    prop_assert!(rests || alive || asked, "nothing is due");
    Ok(())
}

/// What was is again, what has happened since is not forgotten, and no agent works on anything.
pub(super) fn check_restored(before: &Plan, then: &Plan, plan: &Plan) -> Result<(), TestCaseError> {
    let said = |task: &Task| {
        let status = match task.status {
            TaskState::InProgress => TaskState::Pending,
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
        let (attempts, made) = (plan.attempts().count(), plan.attempts_made());
        (attempts, made, plan.questions().count(), plan.ask_count())
    };
    prop_assert_eq!(ever(plan), ever(before));
    let (head, now) = (plan.head(), before.head());
    prop_assert_eq!(head.next_task, now.next_task);
    prop_assert_eq!((head.usage, &head.granted), (now.usage, &now.granted));
    prop_assert!(head.revision > now.revision);
    for task in plan.tasks() {
        let made = plan.attempts_of(task.number);
        let made = made.map(|attempt| attempt.number).max();
        prop_assert!(made.unwrap_or(0) <= task.attempts, "numbers go on");
    }
    Ok(())
}

/// The line moves only when a task is completed, to where exactly that task's result was merged onto it. A restored plan has
/// tasks completed whose results were accepted before: those are `on_line` already.
pub(super) fn check_line(
    before: &Plan,
    plan: &Plan,
    on_line: &mut BTreeSet<String>,
) -> Result<(), TestCaseError> {
    let (Some(old), Some(new)) = (&before.head().line, &plan.head().line) else {
        return Ok(());
    };
    let completed = |plan: &Plan| -> BTreeSet<TaskId> {
        let tasks = plan.tasks_in(TaskState::Completed);
        tasks.map(|task| task.number).collect()
    };
    let was = completed(before);
    let mut steps = Vec::new();
    for task in completed(plan).difference(&was) {
        let task = plan.task(*task).unwrap();
        let by_hand = (task.evidence.as_ref()).is_some_and(|evidence| evidence.by_hand);
        let merge = plan.accepted_merge(task);
        prop_assert_eq!(merge.is_none(), by_hand, "{:?}", task);
        steps.extend(merge.filter(|merge| !on_line.contains(&merge.commit)));
    }
    let mut tip = old.tip.clone();
    while let Some(next) = steps.iter().position(|merge| merge.onto == tip) {
        tip = steps.remove(next).commit.clone();
        on_line.insert(tip.clone());
    }
    prop_assert!(steps.is_empty(), "accepted, but not on the line: {steps:?}");
    prop_assert_eq!(&tip, &new.tip);
    Ok(())
}
