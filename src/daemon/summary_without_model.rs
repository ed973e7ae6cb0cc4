//! The summary of a plan that no model wrote.

use std::fmt::Write as _;

use crate::plan::{Observations, Plan, TaskState, counted};
use crate::wire::text::one_line;

/// Tasks that are listed; the rest is counted.
const LISTED: usize = 20;

/// Says what became of a plan whose tasks are all settled.
pub(super) fn by_rules(plan: &Plan, world: &Observations) -> String {
    let counts = plan.counts();
    let unverified = plan
        .tasks()
        .filter(|task| task.status == TaskState::Completed)
        .filter(|task| {
            task.evidence
                .as_ref()
                .is_some_and(|evidence| !evidence.verified)
        })
        .count();
    let mut text = format!(
        "{} of {} completed",
        counts.completed,
        counted(counts.total(), "task")
    );
    for (count, word) in [
        (counts.skipped, "skipped"),
        (counts.failed, "failed"),
        (unverified, "unverified"),
    ] {
        if count > 0 {
            write!(text, ", {count} {word}").expect("writing to a string does not fail");
        }
    }
    text.push('.');
    let stopped = plan.no_call(world.active_time());
    if let Some(limit) = stopped.filter(|_| plan.head().policy.model) {
        let used = plan.used_of(limit, world.active_time());
        write!(
            text,
            " No model was asked to sum it up: {used} of the budget used."
        )
        .expect("writing to a string does not fail");
    }
    for task in plan
        .tasks()
        .filter(|task| task.status != TaskState::Completed)
        .take(LISTED)
    {
        let result = match task.result.as_deref().unwrap_or_default() {
            "" => String::new(),
            result => format!(": {}", one_line(result, 200)),
        };
        write!(
            text,
            "\n- {} {}: {}{result}",
            task.number,
            one_line(&task.name, 80),
            task.status.as_str()
        )
        .expect("writing to a string does not fail");
    }
    text
}
