//! What the prompt templates may use: plain data per template, made from a plan, and a sample of each. Every text of a
//! person, a model or an agent comes in through [`quote`], so a template cannot let one run wild. The size depends on
//! the task at hand, never on the plan: a window of neighbours and counts stand for the rest.

use serde::Serialize;

use super::quote::{clip, one_line, quote};
use crate::plan::{Attempt, CheckResult, Plan, ReportStatus, Seen, Task, TaskId};
use crate::wire::team::{Parameter, Team};

/// Neighbours shown on each side of a task.
const WINDOW: usize = 5;
/// Tasks shown of each kind where the whole plan is at stake.
const DIGEST: usize = 40;
/// Dependencies shown with their results.
pub(super) const MAX_DEPENDENCIES: usize = 20;
/// Checks, changed files and earlier verdicts shown.
pub(super) const MAX_CHECKS: usize = 20;
const MAX_CHANGED: usize = 50;
const MAX_EARLIER: usize = 3;
/// Characters of a name, of a line about a task, of a task's own text, and of a section of a report.
pub(super) const NAME: usize = 160;
pub(super) const LINE: usize = 400;
pub(super) const TEXT: usize = 6_000;
pub(super) const SECTION: usize = 3_000;
pub(super) const TAIL: usize = 1_500;
/// Characters of the facts about the workspace.
const FACTS: usize = 12_000;

/// What is known before there is a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanContext<'a> {
    /// What the person wants.
    pub goal: &'a str,
    /// What holds for every task.
    pub constraints: &'a str,
    /// File tree, head of the README, state of git: whatever is known of the workspace.
    pub workspace_facts: String,
    /// Names of the configured checks.
    pub check_names: &'a [String],
    /// Whose roles tasks are given to, and whose workflows may be chosen; `None` if anybody does everything.
    pub team: Option<&'a Team>,
}

/// What is known of a result besides the plan's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgeFacts {
    /// Reports for this task that came for other commands and did not count.
    pub stale_reports: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct PlanView {
    goal: String,
    constraints: String,
    workspace: String,
    checks: Vec<String>,
    roles: Vec<RoleView>,
    workflows: Vec<WorkflowView>,
}

/// A role that tasks may be given to.
#[derive(Serialize)]
struct RoleView {
    id: String,
    description: String,
}

impl RoleView {
    fn all(team: Option<&Team>) -> Vec<Self> {
        let roles = team.into_iter().flat_map(|team| &team.roles);
        roles
            .map(|role| Self {
                id: role.id.clone(),
                description: one_line(&role.description, LINE),
            })
            .collect()
    }
}

/// A workflow that may be chosen instead of making tasks.
#[derive(Serialize)]
struct WorkflowView {
    id: String,
    description: String,
    parameters: Vec<ParameterView>,
}

#[derive(Serialize)]
struct ParameterView {
    name: String,
    kind: &'static str,
    description: String,
    /// Taken if nothing is said; `None` if something must be.
    default: Option<String>,
    choices: Vec<String>,
}

impl WorkflowView {
    fn all(team: Option<&Team>) -> Vec<Self> {
        let parameter = |parameter: &Parameter| ParameterView {
            name: parameter.name.clone(),
            kind: parameter.kind.as_str(),
            description: one_line(&parameter.description, LINE),
            default: (parameter.default.as_deref()).map(|text| one_line(text, LINE)),
            choices: (parameter.choices.iter())
                .map(|choice| one_line(choice, NAME))
                .collect(),
        };
        let workflows = team.into_iter().flat_map(|team| &team.workflows);
        workflows
            .map(|workflow| Self {
                id: workflow.id.clone(),
                description: one_line(&workflow.description, LINE),
                parameters: workflow.parameters.iter().map(parameter).collect(),
            })
            .collect()
    }
}

impl PlanView {
    pub(super) fn new(context: &PlanContext<'_>) -> Self {
        Self {
            goal: quote(context.goal, TEXT),
            constraints: quote(context.constraints, TEXT),
            workspace: quote(&context.workspace_facts, FACTS),
            checks: context
                .check_names
                .iter()
                .map(|name| one_line(name, NAME))
                .collect(),
            roles: RoleView::all(context.team),
            workflows: WorkflowView::all(context.team),
        }
    }
}

/// What a plan is about, and how far it is.
#[derive(Serialize)]
struct HeadView {
    goal: String,
    constraints: String,
    name: String,
    status: &'static str,
    counts: CountsView,
}

#[derive(Serialize)]
struct CountsView {
    total: usize,
    pending: usize,
    in_progress: usize,
    completed: usize,
    failed: usize,
    skipped: usize,
}

impl HeadView {
    fn new(plan: &Plan) -> Self {
        let head = plan.head();
        let counts = plan.counts();
        Self {
            goal: quote(&head.goal, TEXT),
            constraints: quote(&head.constraints, TEXT),
            name: one_line(&head.name, NAME),
            status: head.status.as_str(),
            counts: CountsView {
                total: counts.total(),
                pending: counts.pending,
                in_progress: counts.in_progress,
                completed: counts.completed,
                failed: counts.failed,
                skipped: counts.skipped,
            },
        }
    }
}

/// One task in a line.
#[derive(Serialize)]
struct LineView {
    number: u32,
    name: String,
    status: &'static str,
    dependencies: Vec<u32>,
    result: String,
    evidence: String,
}

impl LineView {
    fn new(task: &Task) -> Self {
        let facts = task.evidence.as_ref().map(|evidence| {
            let word = if evidence.verified {
                "verified"
            } else {
                "unverified"
            };
            format!("{word}; {}", evidence.facts.join("; "))
        });
        Self {
            number: task.number.0,
            name: one_line(&task.name, NAME),
            status: task.status.as_str(),
            dependencies: task
                .dependencies
                .iter()
                .take(MAX_DEPENDENCIES)
                .map(|id| id.0)
                .collect(),
            result: one_line(task.result.as_deref().unwrap_or_default(), LINE),
            evidence: one_line(&facts.unwrap_or_default(), LINE),
        }
    }
}

/// A task with all that its agent is told.
#[derive(Serialize)]
struct TaskView {
    number: u32,
    name: String,
    status: &'static str,
    description: String,
    constraints: String,
    expected: String,
    note: String,
    dependencies: Vec<u32>,
}

impl TaskView {
    fn new(task: &Task) -> Self {
        Self {
            number: task.number.0,
            name: one_line(&task.name, NAME),
            status: task.status.as_str(),
            description: quote(&task.description, TEXT),
            constraints: quote(&task.constraints, TEXT),
            expected: quote(&task.expected_outcome, TEXT),
            note: quote(task.note.as_deref().unwrap_or_default(), SECTION),
            dependencies: task
                .dependencies
                .iter()
                .take(MAX_DEPENDENCIES)
                .map(|id| id.0)
                .collect(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct JudgeView {
    plan: HeadView,
    task: TaskView,
    before: Vec<LineView>,
    after: Vec<LineView>,
    dependencies: Vec<LineView>,
    attempt: u32,
    report: Option<ReportView>,
    checks: Vec<CheckView>,
    changed: Vec<String>,
    changed_known: bool,
    changed_more: usize,
    /// What the changes do not tell; empty if nothing.
    changed_note: String,
    earlier: Vec<EarlierView>,
    stale: Vec<String>,
    /// Why `next` is out of the question; empty if it is not.
    obstacle: String,
}

#[derive(Serialize)]
struct ReportView {
    status: &'static str,
    results: String,
    pitfalls: String,
    next_steps: String,
}

#[derive(Serialize)]
pub(super) struct CheckView {
    pub(super) name: String,
    pub(super) passed: bool,
    pub(super) outcome: String,
    /// It says more than the outcome: a command, or what a merge found.
    pub(super) ran: bool,
    pub(super) tail: String,
}

impl CheckView {
    pub(super) fn new(check: &CheckResult) -> Self {
        Self {
            name: one_line(&check.name, NAME),
            passed: check.passed,
            outcome: one_line(&check.outcome(), LINE),
            ran: check.finding.is_empty() || !check.tail.is_empty(),
            // Only a failure needs to be explained.
            tail: if check.passed {
                String::new()
            } else {
                quote(&check.tail, TAIL)
            },
        }
    }
}

#[derive(Serialize)]
struct EarlierView {
    attempt: u32,
    decision: &'static str,
    reason: String,
    feedback: String,
}

impl JudgeView {
    pub(super) fn new(plan: &Plan, task: &Task, attempt: &Attempt, facts: &JudgeFacts) -> Self {
        let (before, after) = plan.tasks_around(task);
        let mut before = before.take(WINDOW).map(LineView::new).collect::<Vec<_>>();
        before.reverse();
        let looked = attempt.changes.as_ref();
        let looked = looked.filter(|changes| changes.seen != Seen::Nothing);
        let changed = looked.map(|changes| changes.files.as_slice());
        let changed = changed.unwrap_or_default();
        let mut earlier = plan
            .attempts_of(task.number)
            .rev()
            .filter(|other| other.id != attempt.id)
            .filter_map(EarlierView::new)
            .take(MAX_EARLIER)
            .collect::<Vec<_>>();
        earlier.reverse();
        Self {
            plan: HeadView::new(plan),
            task: TaskView::new(task),
            before,
            after: after.take(WINDOW).map(LineView::new).collect(),
            dependencies: dependencies(plan, task),
            attempt: attempt.number,
            report: attempt.report.as_ref().map(|report| ReportView {
                status: report.status.as_str(),
                results: quote(&report.results, SECTION),
                pitfalls: quote(&report.pitfalls, SECTION),
                next_steps: quote(&report.next_steps, SECTION),
            }),
            checks: attempt
                .checks
                .iter()
                .flatten()
                .take(MAX_CHECKS)
                .map(CheckView::new)
                .collect(),
            changed: changed
                .iter()
                .take(MAX_CHANGED)
                .map(|path| one_line(path, NAME))
                .collect(),
            changed_known: looked.is_some(),
            changed_more: looked.map_or(0, |changes| changes.more)
                + changed.len().saturating_sub(MAX_CHANGED),
            changed_note: changed_note(attempt),
            earlier,
            stale: facts
                .stale_reports
                .iter()
                .take(MAX_EARLIER)
                .map(|text| quote(text, TAIL))
                .collect(),
            obstacle: obstacle(attempt).unwrap_or_default(),
        }
    }
}

fn changed_note(attempt: &Attempt) -> String {
    let limits = match attempt.changes.as_ref().map(|changes| changes.seen) {
        Some(Seen::Times) => Some("removed files are not seen".to_owned()),
        Some(Seen::Part) => Some("only some of the files were looked at".to_owned()),
        Some(Seen::Git | Seen::Listing | Seen::Nothing) | None => None,
    };
    let notes: Vec<String> = limits.into_iter().chain(attempt.company()).collect();
    notes.join("; ")
}

/// Returns why `next` is out of the question, if it is.
pub(super) fn obstacle(attempt: &Attempt) -> Option<String> {
    let failed = attempt.checks.iter().flatten().find(|check| !check.passed);
    match (&attempt.report, failed) {
        (None, _) => Some("there is no report".to_owned()),
        (Some(report), _) if report.status == ReportStatus::Failed => {
            Some("the report says FAILED".to_owned())
        }
        (Some(_), Some(check)) => Some(format!(
            "the check `{}` failed ({})",
            one_line(&check.name, NAME),
            one_line(&check.outcome(), LINE)
        )),
        (Some(_), None) => None,
    }
}

impl EarlierView {
    fn new(attempt: &Attempt) -> Option<Self> {
        let verdict = attempt.verdict.as_ref()?;
        Some(Self {
            attempt: attempt.number,
            decision: verdict.decision.as_str(),
            reason: one_line(&verdict.reason, LINE),
            feedback: one_line(&verdict.feedback, LINE),
        })
    }
}

fn dependencies(plan: &Plan, task: &Task) -> Vec<LineView> {
    task.dependencies
        .iter()
        .filter_map(|id| plan.task(*id))
        .take(MAX_DEPENDENCIES)
        .map(LineView::new)
        .collect()
}

#[derive(Serialize)]
pub(super) struct ReplanView {
    plan: HeadView,
    /// The task whose result led to the replan.
    cause: Option<TaskView>,
    why: String,
    note: String,
    settled: Vec<LineView>,
    settled_more: usize,
    running: Vec<LineView>,
    pending: Vec<TaskView>,
    pending_more: usize,
    roles: Vec<RoleView>,
}

impl ReplanView {
    pub(super) fn new(
        plan: &Plan,
        cause: Option<TaskId>,
        why: &str,
        note: &str,
        team: Option<&Team>,
    ) -> Self {
        let counts = plan.counts();
        let mut settled = plan
            .tasks()
            .rev()
            .filter(|task| task.status.settled())
            .take(DIGEST)
            .map(LineView::new)
            .collect::<Vec<_>>();
        settled.reverse();
        let pending = editable(plan)
            .filter(|task| Some(task.number) != cause)
            .take(DIGEST)
            .map(|task| {
                // Forty whole tasks would be a prompt of their own.
                let mut view = TaskView::new(task);
                view.description = clip(&view.description, SECTION / 4);
                view.expected = clip(&view.expected, LINE);
                view
            })
            .collect::<Vec<_>>();
        Self {
            plan: HeadView::new(plan),
            cause: cause.and_then(|id| plan.task(id)).map(TaskView::new),
            why: quote(why, SECTION),
            note: quote(note, SECTION),
            settled_more: counts.settled().saturating_sub(settled.len()),
            settled,
            running: plan
                .in_progress()
                .filter(|task| Some(task.number) != cause)
                .take(DIGEST)
                .map(LineView::new)
                .collect(),
            pending_more: counts.pending.saturating_sub(pending.len()),
            pending,
            roles: RoleView::all(team),
        }
    }
}

/// Returns the tasks that a replan may touch.
pub(super) fn editable(plan: &Plan) -> impl Iterator<Item = &Task> {
    plan.unsettled()
        .filter(|task| task.status == crate::plan::TaskStatus::Pending)
}

#[derive(Serialize)]
pub(super) struct WholeView {
    plan: HeadView,
    tasks: Vec<LineView>,
    tasks_more: usize,
    audited: String,
    roles: Vec<RoleView>,
}

impl WholeView {
    /// Shows the tasks that went wrong before those that went well.
    pub(super) fn new(plan: &Plan, team: Option<&Team>) -> Self {
        let went_well = |task: &&Task| task.status == crate::plan::TaskStatus::Completed;
        let mut tasks = plan
            .tasks()
            .filter(|task| !went_well(task))
            .take(DIGEST)
            .chain(plan.tasks().rev().filter(went_well).take(DIGEST))
            .collect::<Vec<_>>();
        tasks.sort_by_key(|task| (task.position, task.number));
        Self {
            plan: HeadView::new(plan),
            tasks_more: plan.counts().total().saturating_sub(tasks.len()),
            tasks: tasks.into_iter().map(LineView::new).collect(),
            audited: quote(plan.head().audited.as_deref().unwrap_or_default(), SECTION),
            roles: RoleView::all(team),
        }
    }
}
