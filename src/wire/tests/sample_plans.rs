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
        next_task: 8,
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

/// Returns the English words of a Chinese text that are neither quoted nor code.
pub(crate) fn english_words(text: &str) -> Vec<String> {
    let own = |line: &&str| !line.starts_with(['>', '`']) && !line.starts_with("    ");
    let text: Vec<&str> = text.lines().filter(own).collect();
    let mut text = text.join("\n");
    for (open, close) in [('`', '`'), ('“', '”')] {
        while let Some((before, quoted)) = text.split_once(open) {
            let after = quoted.split_once(close).map_or("", |(_, after)| after);
            text = format!("{before} {after}");
        }
    }
    let words = text.split(|c: char| !c.is_ascii_alphabetic());
    let words = words.filter(|word| word.len() > 1);
    // The names of things that have no other name.
    let terms = ["git", "worktree", "front", "matter"];
    let words = words.filter(|word| !terms.contains(word));
    words.map(str::to_owned).collect()
}
