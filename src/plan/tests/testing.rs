//! Sample plans and what happens to them, for tests.

use crate::plan::{
    AttemptKind, CommandId, Draft, NewCommand, Plan, PlanHead, PlanId, PlanPolicy, Report,
    ReportStatus, SessionId, TaskRef, TaskSpec, Time,
};

/// Returns the head of a plan of which nothing is known but the goal.
pub(crate) fn head() -> PlanHead {
    PlanHead::new(PlanId::new("testplan"), "reach it", Time(0))
}

/// Returns a plan that runs, with tasks that wait for those of the lists, by their places from 0.
pub(crate) fn running(names: &[(&str, &[usize])]) -> Plan {
    let tasks = names.iter().map(|(name, after)| task(name, after));
    started(tasks, PlanPolicy::default())
}

/// Returns a plan that runs under a policy.
pub(crate) fn started(tasks: impl IntoIterator<Item = TaskSpec>, policy: PlanPolicy) -> Plan {
    let mut plan = Plan::new(head());
    let mut draft = Draft::new(&mut plan, Time(0));
    draft.make_tasks(tasks.into_iter().collect()).unwrap();
    draft.start(policy, "/work").unwrap();
    draft.finish();
    plan
}

/// Returns a task that waits for others of the same list.
pub(crate) fn task(name: &str, after: &[usize]) -> TaskSpec {
    TaskSpec {
        name: name.to_owned(),
        dependencies: after.iter().map(|index| TaskRef::New(*index)).collect(),
        ..TaskSpec::default()
    }
}

/// Returns the id of the n-th command.
pub(crate) fn command(n: u32) -> CommandId {
    CommandId::new(format!("task-{n:04}"))
}

/// Returns the n-th command, to be dispatched.
pub(crate) fn issue(n: u32) -> NewCommand {
    NewCommand {
        id: command(n),
        kind: AttemptKind::New,
        session: None,
        text: format!("text {n}"),
    }
}

/// Returns what an agent says.
pub(crate) fn report(status: ReportStatus, at: Time) -> Report {
    Report {
        session: Some(SessionId::new("s")),
        results: "did it".to_owned(),
        input_tokens: 1,
        output_tokens: 1,
        hash: format!("{status:?}"),
        ..Report::new("report.md", status, at)
    }
}

/// Returns the rows of a table: a line each, with ` | ` between its cells, which the last one may have, too. `-` stands for
/// nothing, `\n` and `\t` for what they are in a text; `// ` begins a comment.
pub(crate) fn rows<const N: usize>(table: &str) -> impl Iterator<Item = [String; N]> {
    let lines = table.lines().map(str::trim_start);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("// "));
    lines.map(|line| {
        let cells = line.splitn(N, " | ").map(|cell| match cell {
            "-" => String::new(),
            cell => cell.replace("\\n", "\n").replace("\\t", "\t"),
        });
        let cells: Vec<String> = cells.collect();
        cells.try_into().unwrap_or_else(|_| panic!("{line}"))
    })
}
