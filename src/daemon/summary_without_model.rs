//! The summary of a plan that no model wrote.

use crate::plan::{Observations, Plan, Task, TaskState, counted, unless_empty};
use crate::view::StateWord;
use crate::wire::one_line;

/// Tasks that are listed; the rest is counted.
const LISTED: usize = 20;

/// Returns the summary of a plan whose tasks are all settled.
pub(super) fn by_rules(plan: &Plan, world: &Observations) -> String {
    let counts = plan.counts();
    let only_accepted = |task: &&Task| {
        let evidence = task.evidence.as_ref();
        task.status == TaskState::Completed && evidence.is_none_or(|evidence| !evidence.proven)
    };
    let accepted = plan.tasks().filter(only_accepted).count();
    let (completed, all) = (counts.completed, counted(counts.total(), "task"));
    let mut head = vec![format!("{completed} of {all} completed")];
    for (count, word) in [
        (counts.skipped, "skipped"),
        (counts.failed, "failed"),
        (accepted, "accepted"),
    ] {
        head.extend((count > 0).then(|| format!("{count} {word}")));
    }
    let mut text = head.join(", ") + ".";
    let stopped = plan.no_call(world.active_time());
    if let Some(limit) = stopped.filter(|_| plan.head().policy.model) {
        let used = plan.used_of(limit, world.active_time());
        text = format!("{text} No model was asked to sum it up: {used} of the budget used.");
    }
    let tasks = plan.tasks();
    let others = tasks.filter(|task| task.status != TaskState::Completed);
    let listed = others.take(LISTED).map(|task| {
        let (number, name) = (task.number, one_line(&task.name, 80));
        let result = task.result.as_deref().unwrap_or_default();
        let result = unless_empty(result, |result| format!(": {}", one_line(result, 200)));
        let state = StateWord::of_task(plan, task).as_str();
        format!("\n- {number} {name}: {state}{result}")
    });
    text + &listed.collect::<String>()
}
