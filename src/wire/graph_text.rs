//! The dependencies of a plan as a graph for Graphviz and for Mermaid. Names cannot break out of their quotes.

use std::collections::{BTreeSet, HashMap};

use super::{one_line, role};
use crate::plan::{Plan, Task, TaskId, TaskState};

/// The most characters of a name in a box.
const NAME: usize = 100;

/// Returns the graph of these tasks for Graphviz, with the dependencies between them; `state` returns the word for the state of
/// a task.
pub fn dot(plan: &Plan, tasks: &[&Task], state: impl Fn(&Task) -> &'static str) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let node = |task: &Task| {
        format!(
            "t{} [label=\"{} · {}\\n{}\", fillcolor=\"{}\"];",
            task.number,
            task.number,
            quoted(&one_line(&task.name, NAME)),
            quoted(&below(state(task), task)),
            fill(task.status)
        )
    };
    let open = |number: usize, step: &str| {
        let label = quoted(step);
        format!("subgraph cluster_{number} {{\n    label=\"{label}\";")
    };
    let name = quoted(&one_line(&plan.head().name, NAME));
    let (nodes, edges) = parts(tasks, node, open, "}");
    let edges = edges.map(|(from, to)| format!("  t{from} -> t{to};\n"));
    format!(
        "digraph \"{name}\" {{\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", fillcolor=white];\n{nodes}{}}}\n",
        edges.collect::<String>()
    )
}

/// As [`dot`], for Mermaid.
pub fn mermaid(tasks: &[&Task], state: impl Fn(&Task) -> &'static str) -> String {
    let node = |task: &Task| {
        format!(
            "t{}[\"{} · {}<br/>{}\"]:::{}",
            task.number,
            task.number,
            entities(&one_line(&task.name, NAME)),
            entities(&below(state(task), task)),
            task.status.as_str()
        )
    };
    let open = |number: usize, step: &str| format!("subgraph s{number}[\"{}\"]", entities(step));
    let (nodes, edges) = parts(tasks, node, open, "end");
    let edges = edges.map(|(from, to)| format!("  t{from} --> t{to}\n"));
    let classes = TaskState::ALL.map(|status| {
        let (name, fill) = (status.as_str(), fill(status));
        format!("  classDef {name} fill:{fill},stroke:#555,color:#000\n")
    });
    let edges: String = edges.collect();
    format!("graph LR\n{nodes}{edges}{}", classes.concat())
}

/// Returns the lines of the nodes, each step within its `open` and `close`, and the dependencies between the tasks, from each
/// to the task that waits for it.
fn parts(
    tasks: &[&Task],
    node: impl Fn(&Task) -> String,
    open: impl Fn(usize, &str) -> String,
    close: &str,
) -> (String, impl Iterator<Item = (TaskId, TaskId)>) {
    let mut nodes = Vec::new();
    for (number, (step, tasks)) in (1..).zip(by_step(tasks)) {
        let lines = |indent: &str| {
            let line = |task: &&Task| format!("{indent}{}\n", node(task));
            tasks.iter().map(line).collect::<String>()
        };
        nodes.push(match step {
            None => lines("  "),
            Some(step) => format!("  {}\n{}  {close}\n", open(number, &step), lines("    ")),
        });
    }
    let shown: BTreeSet<TaskId> = tasks.iter().map(|task| task.number).collect();
    let edges = tasks.iter().flat_map(move |task| {
        let dependencies = task.dependencies.iter();
        let shown = dependencies.filter(|dependency| shown.contains(dependency));
        let edges = shown.map(|dependency| (*dependency, task.number));
        edges.collect::<Vec<_>>()
    });
    (nodes.concat(), edges)
}

/// Returns the state of a task in the words of PlanManager; a pending task has a word for whether it may start.
pub fn state(plan: &Plan, task: &Task) -> &'static str {
    match task.status {
        TaskState::Pending if plan.is_ready(task) => "ready",
        TaskState::Pending => "blocked",
        TaskState::InProgress => "in progress",
        settled => settled.as_str(),
    }
}

/// Returns the text below a task's name: its state and its role.
fn below(state: &str, task: &Task) -> String {
    match &task.assignee {
        Some(assignee) => format!("{state} · {}", role(assignee)),
        None => state.to_owned(),
    }
}

/// Returns the tasks grouped by step, each step at the place of its first task; tasks without a step keep their places.
fn by_step<'a>(tasks: &[&'a Task]) -> Vec<(Option<String>, Vec<&'a Task>)> {
    let mut steps: Vec<(Option<String>, Vec<&Task>)> = Vec::new();
    let mut places: HashMap<(Option<&str>, &str), usize> = HashMap::new();
    for task in tasks {
        let named = task.step.as_deref().or(task.step_id.as_deref());
        let Some(name) = named.filter(|name| !name.trim().is_empty()) else {
            match steps.last_mut() {
                Some((None, tasks)) => tasks.push(task),
                _ => steps.push((None, vec![task])),
            }
            continue;
        };
        let place = places.entry((task.step_id.as_deref(), name));
        let place = *place.or_insert(steps.len());
        if place == steps.len() {
            steps.push((Some(one_line(name, NAME)), Vec::new()));
        }
        steps[place].1.push(task);
    }
    steps
}

fn fill(status: TaskState) -> &'static str {
    match status {
        TaskState::Pending => "#ffffff",
        TaskState::InProgress => "#fff3bf",
        TaskState::Completed => "#d3f9d8",
        TaskState::Failed => "#ffe3e3",
        TaskState::Skipped => "#e9ecef",
    }
}

/// Replaces characters that Mermaid would read as markup with their code points.
fn entities(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '#' | ';' | '<' | '>' | '&' | '`' => format!("#{};", u32::from(c)),
        c => c.to_string(),
    });
    escaped.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample_plans;
    use super::*;

    fn plan() -> Plan {
        let counter = sample_plans::task(1, "Write the counter", TaskState::Completed);
        let name = "Serve \"it\" <over> HTTP; \u{1b}]0;title\u{7}#1";
        let mut server = sample_plans::task(2, name, TaskState::InProgress);
        server.dependencies = vec![TaskId(1)];
        let mut describe = sample_plans::task(3, "Describe both", TaskState::Pending);
        describe.dependencies = vec![TaskId(1), TaskId(2)];
        let publish = sample_plans::task(4, "Publish", TaskState::Pending);
        sample_plans::plan(sample_plans::head(), [counter, server, describe, publish])
    }

    fn all(plan: &Plan) -> Vec<&Task> {
        plan.tasks().collect()
    }

    fn word(task: &Task) -> &'static str {
        state(&plan(), task)
    }

    #[test]
    fn escapes_names_in_dot() {
        insta::assert_snapshot!(dot(&plan(), &all(&plan()), word), @r##"
        digraph "Word counter" {
          rankdir=LR;
          node [shape=box, style="rounded,filled", fillcolor=white];
          t1 [label="1 · Write the counter\ncompleted", fillcolor="#d3f9d8"];
          t2 [label="2 · Serve \"it\" <over> HTTP; #1\nin progress", fillcolor="#fff3bf"];
          t3 [label="3 · Describe both\nblocked", fillcolor="#ffffff"];
          t4 [label="4 · Publish\nready", fillcolor="#ffffff"];
          t1 -> t2;
          t1 -> t3;
          t2 -> t3;
        }
        "##);
    }

    #[test]
    fn escapes_names_in_mermaid() {
        insta::assert_snapshot!(mermaid(&all(&plan()), word), @r#"
        graph LR
          t1["1 · Write the counter<br/>completed"]:::completed
          t2["2 · Serve #34;it#34; #60;over#62; HTTP#59; #35;1<br/>in progress"]:::in_progress
          t3["3 · Describe both<br/>blocked"]:::pending
          t4["4 · Publish<br/>ready"]:::pending
          t1 --> t2
          t1 --> t3
          t2 --> t3
          classDef pending fill:#ffffff,stroke:#555,color:#000
          classDef in_progress fill:#fff3bf,stroke:#555,color:#000
          classDef completed fill:#d3f9d8,stroke:#555,color:#000
          classDef failed fill:#ffe3e3,stroke:#555,color:#000
          classDef skipped fill:#e9ecef,stroke:#555,color:#000
        "#);
    }

    #[test]
    fn graph_groups_tasks_by_step_and_names_roles() {
        let task = |number, step: Option<&str>, role: Option<&str>| Task {
            step: step.map(str::to_owned),
            assignee: role.map(str::to_owned),
            ..sample_plans::task(number, "Part", TaskState::Pending)
        };
        let mut build = task(2, Some("Build \"it\"; #1"), Some("coder"));
        build.dependencies = vec![TaskId(1)];
        let tasks = [
            task(1, Some("Design"), Some("architect]\u{1b}[2J\"")),
            build,
            task(3, None, None),
            task(4, Some("Design"), None),
        ];
        let plan = sample_plans::plan(sample_plans::head(), tasks);
        insta::assert_snapshot!(dot(&plan, &all(&plan), |task| state(&plan, task)), @r##"
        digraph "Word counter" {
          rankdir=LR;
          node [shape=box, style="rounded,filled", fillcolor=white];
          subgraph cluster_1 {
            label="Design";
            t1 [label="1 · Part\nready · architect]\"", fillcolor="#ffffff"];
            t4 [label="4 · Part\nready", fillcolor="#ffffff"];
          }
          subgraph cluster_2 {
            label="Build \"it\"; #1";
            t2 [label="2 · Part\nblocked · coder", fillcolor="#ffffff"];
          }
          t3 [label="3 · Part\nready", fillcolor="#ffffff"];
          t1 -> t2;
        }
        "##);
        insta::assert_snapshot!(mermaid(&all(&plan), |task| state(&plan, task)), @r#"
        graph LR
          subgraph s1["Design"]
            t1["1 · Part<br/>ready · architect]#34;"]:::pending
            t4["4 · Part<br/>ready"]:::pending
          end
          subgraph s2["Build #34;it#34;#59; #35;1"]
            t2["2 · Part<br/>blocked · coder"]:::pending
          end
          t3["3 · Part<br/>ready"]:::pending
          t1 --> t2
          classDef pending fill:#ffffff,stroke:#555,color:#000
          classDef in_progress fill:#fff3bf,stroke:#555,color:#000
          classDef completed fill:#d3f9d8,stroke:#555,color:#000
          classDef failed fill:#ffe3e3,stroke:#555,color:#000
          classDef skipped fill:#e9ecef,stroke:#555,color:#000
        "#);
    }

    #[test]
    fn partial_graph_has_no_outside_edges() {
        insta::assert_snapshot!(dot(&plan(), &all(&plan())[1..3], word), @r##"
        digraph "Word counter" {
          rankdir=LR;
          node [shape=box, style="rounded,filled", fillcolor=white];
          t2 [label="2 · Serve \"it\" <over> HTTP; #1\nin progress", fillcolor="#fff3bf"];
          t3 [label="3 · Describe both\nblocked", fillcolor="#ffffff"];
          t2 -> t3;
        }
        "##);
    }
}
