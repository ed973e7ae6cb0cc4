//! What the prompt templates may use: plain data per template, made from a plan, and a sample of each. Every text of a
//! person, a model or an agent comes in through [`quote`], so a template cannot let one run wild. The size depends on
//! the task at hand, never on the plan: a window of neighbours and counts stand for the rest.

mod members;

use serde::Serialize;

use self::members::{MemberView, WorkflowView};
use super::quote::{clip, one_line, quote};
use crate::plan::{Attempt, CheckResult, Plan, ReportStatus, Seen, Task, TaskId};
use crate::wire::team::Team;

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
/// Characters of the facts about the workspace, and of what a role is given.
const FACTS: usize = 12_000;
/// Characters of what a step asks, with the results that it quotes.
const QUESTION: usize = 40_000;
/// Things that a step may use and that are shown.
const OFFERS: usize = 100;

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
    roles: Vec<MemberView>,
    workflows: Vec<WorkflowView>,
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
            roles: MemberView::all(context.team),
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
    roles: Vec<MemberView>,
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
        let rest = || editable(plan).filter(|task| Some(task.number) != cause);
        let pending = rest()
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
            pending_more: rest().count() - pending.len(),
            pending,
            roles: MemberView::all(team),
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
    roles: Vec<MemberView>,
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
            roles: MemberView::all(team),
        }
    }
}

/// What a role knows of a task that it was given.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoleContext<'a> {
    /// The name of the role.
    pub role: &'a str,
    /// What the role is told of itself.
    pub prompt: &'a str,
    /// What is to be done.
    pub description: &'a str,
    pub context: &'a str,
    /// What a step may use.
    pub offers: &'a [Offer],
    /// The steps so far.
    pub done: &'a [DoneStep],
    /// Why the rest of the steps is to change; empty if it is planned for the first time.
    pub why: &'a str,
    /// What a step wants of the model, besides the task; empty if it is the task itself.
    pub question: &'a str,
    /// Steps that an answer may have.
    pub max_steps: usize,
}

/// Something that a step may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub name: String,
    pub kind: OfferKind,
    pub description: String,
    /// The JSON schema of its parameters.
    pub params: String,
}

/// What an offer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferKind {
    Action,
    Tool,
    Role,
}

impl OfferKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Action => "action",
            Self::Tool => "tool",
            Self::Role => "role",
        }
    }
}

/// A step that is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoneStep {
    pub name: String,
    pub status: &'static str,
    pub result: String,
}

#[derive(Serialize)]
pub(super) struct RoleView {
    role: String,
    prompt: String,
    task: String,
    context: String,
    offers: Vec<OfferView>,
    done: Vec<DoneView>,
    why: String,
    question: String,
    next: usize,
    max_steps: usize,
}

#[derive(Serialize)]
struct OfferView {
    name: String,
    kind: &'static str,
    description: String,
    params: String,
}

#[derive(Serialize)]
struct DoneView {
    number: usize,
    name: String,
    status: &'static str,
    result: String,
}

impl RoleView {
    pub(super) fn new(context: &RoleContext<'_>) -> Self {
        let offer = |offer: &Offer| OfferView {
            name: one_line(&offer.name, NAME),
            kind: offer.kind.as_str(),
            description: one_line(&offer.description, LINE),
            params: one_line(&offer.params, TAIL),
        };
        let done = |(number, step): (usize, &DoneStep)| DoneView {
            number,
            name: one_line(&step.name, NAME),
            status: step.status,
            result: quote(&step.result, TAIL),
        };
        Self {
            role: one_line(context.role, NAME),
            prompt: quote(context.prompt, TEXT),
            task: quote(context.description, FACTS),
            context: quote(context.context, FACTS),
            offers: context.offers.iter().take(OFFERS).map(offer).collect(),
            done: (1..).zip(context.done).map(done).collect(),
            why: quote(context.why, SECTION),
            question: quote(context.question, QUESTION),
            next: context.done.len() + 1,
            max_steps: context.max_steps,
        }
    }
}
