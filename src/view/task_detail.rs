//! Tasks with the history of their attempts, for programs: rows of a list, and all that is known of one.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Paint, ProgramName, StateWord, TaskView, usage, why};
use crate::plan::{Attempt, CheckResult, HeldLocks, Plan, Task, TaskId, Time};
use crate::wire::time_text;

/// The last attempts of a task that are shown; a person may have had it tried again and again.
const ATTEMPTS: usize = 20;

/// Returns at most `limit` tasks after another one (else from the first on), with the times of their attempts.
pub fn task_rows(plan: &Plan, after: Option<TaskId>, limit: usize, now: Time) -> Vec<Value> {
    let after = after.and_then(|after| plan.task(after));
    let from = after.map_or(0, |after| plan.index_of(after) + 1);
    let used = usage::of_tasks(plan);
    let row = |task: &Task| {
        let mut row = json!(TaskView::of(plan, task, now, &HeldLocks::new(), &used));
        let timeline: Vec<Value> = last_attempts(plan, task.number).map(times).collect();
        row["timeline"] = timeline.into();
        row
    };
    plan.tasks().skip(from).take(limit).map(row).collect()
}

/// Returns all that is known of a task; `None` if there is no such task.
pub fn task_detail(
    plan: &Plan,
    id: TaskId,
    now: Time,
    program: &ProgramName,
    others: &HeldLocks,
) -> Option<Value> {
    let task = plan.task(id)?;
    let used = usage::of_tasks(plan);
    let mut row = json!(TaskView::of(plan, task, now, others, &used));
    let dependant = |task: &Task| {
        let state = StateWord::of_task(plan, task);
        json!({"id": task.number, "name": task.name, "state": state})
    };
    let dependants: Vec<Value> = plan.dependants(id).map(dependant).collect();
    let why = why(plan, id, now, Paint::none(), program, others);
    let history: Vec<Value> = last_attempts(plan, id).map(attempt).collect();
    let more = [
        ("description", json!(task.instructions())),
        ("constraints", json!(task.constraints)),
        ("expected", json!(task.criteria)),
        ("checks", json!(task.checks)),
        ("produces", json!(task.produces)),
        ("phase", json!(task.step)),
        ("note", json!(task.note)),
        ("told", json!(task.told)),
        ("dependants", dependants.into()),
        ("history", history.into()),
        ("why", json!(why)),
    ];
    for (name, value) in more {
        row[name] = value;
    }
    Some(row)
}

/// Returns the last attempts of a task, the earliest first.
fn last_attempts(plan: &Plan, id: TaskId) -> impl Iterator<Item = &Attempt> {
    let last: Vec<&Attempt> = plan.attempts_of(id).rev().take(ATTEMPTS).collect();
    last.into_iter().rev()
}

fn times(attempt: &Attempt) -> Value {
    let report = attempt.report.as_ref();
    let verdict = attempt.verdict.as_ref();
    let ended = report.map(|report| report.received);
    let mut at = ended.unwrap_or(attempt.issued);
    let check = |check: &CheckResult| {
        at = at.plus(Duration::from_millis(check.took_ms.unwrap_or_default()));
        json!({"at": time_text(at), "passed": check.passed})
    };
    // One after the other, from the report on.
    let checked: Vec<Value> = attempt.checks.iter().flatten().map(check).collect();
    json!({
        "number": attempt.number,
        "kind": attempt.kind,
        "state": attempt.state,
        "issued": time_text(attempt.issued),
        "claimed": attempt.claimed.map(time_text),
        "ended": ended.or_else(|| verdict.map(|verdict| verdict.at)).map(time_text),
        "decided": verdict.map(|verdict| time_text(verdict.at)),
        "checked": checked,
        "report": report.map(|report| report.status),
    })
}

fn attempt(attempt: &Attempt) -> Value {
    let mut row = times(attempt);
    let report = attempt.report.as_ref().map(|report| {
        json!({
            "status": report.status,
            "results": report.results,
            "pitfalls": report.pitfalls,
            "next_steps": report.next_steps,
            "question": report.question,
            "tokens": report.input_tokens.saturating_add(report.output_tokens),
            "cost_usd": report.cost_usd,
        })
    });
    let verdict = attempt.verdict.as_ref().map(|verdict| {
        json!({
            "decision": verdict.decision,
            "reason": verdict.reason,
            "feedback": verdict.feedback,
            "by": verdict.by,
            "at": time_text(verdict.at),
        })
    });
    let rejected = attempt.rejected.as_ref().map(|it| &it.reason);
    let more = [
        ("command", json!(attempt.id)),
        ("told", json!(attempt.told)),
        ("report", json!(report)),
        ("rejected", json!(rejected)),
        ("checks", json!(attempt.checks)),
        ("changes", json!(attempt.changes)),
        ("kept", json!(attempt.merge.is_some())),
        ("ran", json!(attempt.ran)),
        ("verdict", json!(verdict)),
    ];
    for (name, value) in more {
        row[name] = value;
    }
    row
}
