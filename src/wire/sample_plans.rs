//! Plans for the tests of the texts that are written from them.

use crate::plan::{Origin, Plan, PlanHead, PlanId, PlanState, Row, Task, TaskId, TaskState, Time};

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
    Task {
        number: TaskId(number),
        key: number.to_string(),
        position: i64::from(number) * 1000,
        step: None,
        step_id: None,
        name: name.to_owned(),
        description: String::new(),
        constraints: String::new(),
        expected_outcome: String::new(),
        reasoning: String::new(),
        assignee: None,
        optional: false,
        dependencies: Vec::new(),
        checks: Vec::new(),
        produces: Vec::new(),
        metadata: serde_json::Map::new(),
        origin: Origin::Person,
        status,
        result: None,
        evidence: None,
        current: None,
        attempts: 0,
        failures: 0,
        note: None,
        not_before: None,
        removed: false,
        created_at: NOW,
        started_at: None,
        finished_at: None,
    }
}

pub(crate) fn plan(head: PlanHead, tasks: impl IntoIterator<Item = Task>) -> Plan {
    let mut plan = Plan::new(head);
    for task in tasks {
        drop(plan.put(Row::Task(Box::new(task))));
    }
    plan
}
