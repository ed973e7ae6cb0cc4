//! Plans for the tests of the texts that are written from them.

use crate::plan::{
    Origin, Plan, PlanHead, PlanId, PlanState, Row, Task, TaskId, TaskSpec, TaskState, Time,
};

/// Ten in the morning of 2026-11-21.
pub(crate) const NOW: Time = Time(1_795_255_200_000_000);

pub(crate) fn head() -> PlanHead {
    let id = PlanId::new("abcdefgh");
    PlanHead {
        name: "Word counter".to_owned(),
        workspace: "/w".to_owned(),
        status: PlanState::Running,
        revision: 1,
        ..PlanHead::new(id, "Count the words of a file", NOW)
    }
}

pub(crate) fn task(number: u32, name: &str, status: TaskState) -> Task {
    let spec = TaskSpec {
        name: name.to_owned(),
        origin: Origin::Person,
        ..TaskSpec::default()
    };
    Task {
        position: i64::from(number) * 1000,
        status,
        ..Task::new(TaskId(number), spec, NOW)
    }
}

pub(crate) fn plan(head: PlanHead, tasks: impl IntoIterator<Item = Task>) -> Plan {
    let mut plan = Plan::new(head);
    for task in tasks {
        drop(plan.put(Row::Task(Box::new(task))));
    }
    plan
}
