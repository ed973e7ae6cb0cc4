//! The dependencies of a plan as a graph for Graphviz and for Mermaid.

use super::{name, state};
use crate::plan::{Plan, TaskStatus};

/// Returns the graph for Graphviz.
pub fn dot(plan: &Plan) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let mut lines = vec![
        format!("digraph \"{}\" {{", quoted(&name(&plan.head().name))),
        "  rankdir=LR;".to_owned(),
        "  node [shape=box, style=\"rounded,filled\", fillcolor=white];".to_owned(),
    ];
    for task in plan.tasks() {
        lines.push(format!(
            "  t{} [label=\"{} · {}\\n{}\", fillcolor=\"{}\"];",
            task.number,
            task.number,
            quoted(&name(&task.name)),
            state(plan, task).0,
            fill(task.status)
        ));
    }
    for (from, to) in edges(plan) {
        lines.push(format!("  t{from} -> t{to};"));
    }
    lines.join("\n") + "\n}\n"
}

/// Returns the graph for Mermaid.
pub fn mermaid(plan: &Plan) -> String {
    let mut lines = vec!["graph LR".to_owned()];
    for task in plan.tasks() {
        lines.push(format!(
            "  t{}[\"{} · {}<br/>{}\"]:::{}",
            task.number,
            task.number,
            entities(&name(&task.name)),
            state(plan, task).0,
            task.status.as_str()
        ));
    }
    for (from, to) in edges(plan) {
        lines.push(format!("  t{from} --> t{to}"));
    }
    for status in [
        TaskStatus::Pending,
        TaskStatus::InProgress,
        TaskStatus::Completed,
        TaskStatus::Failed,
        TaskStatus::Skipped,
    ] {
        lines.push(format!(
            "  classDef {} fill:{},stroke:#555,color:#000",
            status.as_str(),
            fill(status)
        ));
    }
    lines.join("\n") + "\n"
}

/// Returns every dependency, from the task that comes first to the one that waits for it.
fn edges(plan: &Plan) -> impl Iterator<Item = (u32, u32)> {
    plan.tasks().flat_map(|task| {
        task.dependencies
            .iter()
            .map(|dependency| (dependency.0, task.number.0))
    })
}

fn fill(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Pending => "#ffffff",
        TaskStatus::InProgress => "#fff3bf",
        TaskStatus::Completed => "#d3f9d8",
        TaskStatus::Failed => "#ffe3e3",
        TaskStatus::Skipped => "#e9ecef",
    }
}

/// Writes what Mermaid would read as markup by its code point.
fn entities(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '"' | '#' | ';' | '<' | '>' | '&' | '`' => format!("#{};", u32::from(c)),
            c => c.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn names_cannot_leave_their_quotes_in_dot() {
        insta::assert_snapshot!(dot(&sample::plan()), @r##"
        digraph "Word counter" {
          rankdir=LR;
          node [shape=box, style="rounded,filled", fillcolor=white];
          t1 [label="1 · Write the counter\ncompleted", fillcolor="#d3f9d8"];
          t2 [label="2 · Serve \"it\" <over> HTTP; #1\nin progress", fillcolor="#fff3bf"];
          t3 [label="3 · Describe both\nblocked", fillcolor="#ffffff"];
          t4 [label="4 · Test\nin progress", fillcolor="#fff3bf"];
          t5 [label="5 · Publish\nready", fillcolor="#ffffff"];
          t1 -> t2;
          t1 -> t3;
          t2 -> t3;
          t1 -> t4;
        }
        "##);
    }

    #[test]
    fn names_cannot_leave_their_quotes_in_mermaid() {
        insta::assert_snapshot!(mermaid(&sample::plan()), @r#"
        graph LR
          t1["1 · Write the counter<br/>completed"]:::completed
          t2["2 · Serve #34;it#34; #60;over#62; HTTP#59; #35;1<br/>in progress"]:::in_progress
          t3["3 · Describe both<br/>blocked"]:::pending
          t4["4 · Test<br/>in progress"]:::in_progress
          t5["5 · Publish<br/>ready"]:::pending
          t1 --> t2
          t1 --> t3
          t2 --> t3
          t1 --> t4
          classDef pending fill:#ffffff,stroke:#555,color:#000
          classDef in_progress fill:#fff3bf,stroke:#555,color:#000
          classDef completed fill:#d3f9d8,stroke:#555,color:#000
          classDef failed fill:#ffe3e3,stroke:#555,color:#000
          classDef skipped fill:#e9ecef,stroke:#555,color:#000
        "#);
    }
}
