//! What the prompt templates may use: plain data per template, made from a plan, and a sample of each. Every text of a
//! person, a model or an agent comes in through [`quote`], so a template cannot let one run wild. The size depends on
//! the task at hand, never on the plan: a window of neighbours and counts stand for the rest.

use serde::{Deserialize, Serialize};

use crate::plan::{Attempt, CheckResult, Plan, Task, TaskId};

/// Neighbours shown on each side of a task.
const WINDOW: usize = 5;
/// Tasks shown of each kind where the whole plan is at stake.
const DIGEST: usize = 40;
/// Dependencies shown with their results.
const MAX_DEPENDENCIES: usize = 20;
/// Checks, changed files and earlier verdicts shown.
const MAX_CHECKS: usize = 20;
const MAX_CHANGED: usize = 50;
const MAX_EARLIER: usize = 3;
/// Characters of a name, of a line about a task, of a task's own text, and of a section of a report.
const NAME: usize = 160;
const LINE: usize = 400;
const TEXT: usize = 6_000;
const SECTION: usize = 3_000;
const TAIL: usize = 1_500;
/// Characters of the facts about the workspace.
const FACTS: usize = 12_000;

/// Makes a text of others fit to stand in a prompt: at most `limit` characters (head and tail are kept), no control
/// characters, and nothing that could pass for the `<data>` delimiters around it.
pub(super) fn quote(text: &str, limit: usize) -> String {
    let clean = text
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect::<String>();
    defuse(&clip(clean.trim(), limit))
}

/// Makes a text one line of at most `limit` characters.
pub(super) fn one_line(text: &str, limit: usize) -> String {
    quote(
        &text.split_whitespace().collect::<Vec<_>>().join(" "),
        limit,
    )
}

fn clip(text: &str, limit: usize) -> String {
    let length = text.chars().count();
    if length <= limit {
        return text.to_owned();
    }
    let head = text.chars().take(limit * 3 / 4).collect::<String>();
    let tail = text.chars().skip(length - limit / 4).collect::<String>();
    let left_out = length - limit * 3 / 4 - limit / 4;
    format!("{head} […{left_out} characters left out…] {tail}")
}

/// Breaks up what reads as a `<data …>` or `</data>` tag, however it is spaced or cased.
fn defuse(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let word = after
            .trim_start_matches(|c: char| c == '/' || c.is_whitespace())
            .as_bytes();
        let is_tag = word.len() >= 4 && word[..4].eq_ignore_ascii_case(b"data");
        out.push(if is_tag { '‹' } else { '<' });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// What is known before there is a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanContext<'a> {
    /// What the person wants.
    pub goal: &'a str,
    /// What holds for every task.
    pub constraints: &'a str,
    /// File tree, head of the README, state of git: whatever is known of the workspace.
    pub workspace_facts: String,
    /// Names of the configured checks.
    pub check_names: &'a [String],
    /// Roles that a task may be given to; none if anybody does everything.
    pub roles: &'a [String],
}

/// What is known of a result besides the plan's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgeFacts {
    /// Paths that changed in the workspace during the attempt; `None` when nobody looked.
    pub changed_files: Option<Vec<String>>,
    /// Reports for this task that came for other commands and did not count.
    pub stale_reports: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct PlanView {
    goal: String,
    constraints: String,
    workspace: String,
    checks: Vec<String>,
    roles: Vec<String>,
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
            roles: context
                .roles
                .iter()
                .map(|name| one_line(name, NAME))
                .collect(),
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
    earlier: Vec<EarlierView>,
    stale: Vec<String>,
}

#[derive(Serialize)]
struct ReportView {
    status: &'static str,
    results: String,
    pitfalls: String,
    next_steps: String,
}

#[derive(Serialize)]
struct CheckView {
    name: String,
    passed: bool,
    outcome: String,
    tail: String,
}

impl CheckView {
    fn new(check: &CheckResult) -> Self {
        let outcome = match check.exit {
            Some(code) => format!("exit {code}"),
            None => "killed or not started".to_owned(),
        };
        Self {
            name: one_line(&check.name, NAME),
            passed: check.passed,
            outcome,
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
        let changed = facts.changed_files.as_deref().unwrap_or_default();
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
            changed_known: facts.changed_files.is_some(),
            changed_more: changed.len().saturating_sub(MAX_CHANGED),
            earlier,
            stale: facts
                .stale_reports
                .iter()
                .take(MAX_EARLIER)
                .map(|text| quote(text, TAIL))
                .collect(),
        }
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
}

impl ReplanView {
    pub(super) fn new(plan: &Plan, cause: Option<TaskId>, why: &str, note: &str) -> Self {
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
}

impl WholeView {
    /// Shows the tasks that went wrong before those that went well.
    pub(super) fn new(plan: &Plan) -> Self {
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
        }
    }
}

/// In which language the headings of a command are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    #[default]
    En,
    Zh,
}

/// What a command file says below its front matter. The task's own texts go in as they are; everything else is quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandContext {
    pub language: Language,
    /// The task's number and name.
    pub number: u32,
    pub name: String,
    /// What the person wants in the end.
    pub goal: String,
    pub description: String,
    /// What holds for every task of the plan, then for this one.
    pub plan_constraints: String,
    pub constraints: String,
    pub expected_outcome: String,
    /// What came of the tasks that this one depends on.
    pub dependencies: Vec<DependencyResult>,
    /// Where the report belongs: a path that the agent can write to.
    pub report_path: String,
    pub kind: CommandKind,
}

/// What came of a task that another one depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DependencyResult {
    pub number: u32,
    pub name: String,
    /// The core word of its state.
    pub status: &'static str,
    /// In a sentence or two.
    pub result: String,
}

/// Which part of a task's story a command tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// The whole task, to an agent that knows nothing of it. The note is a human's or empty.
    New { note: String },
    /// Only what is new, to the session that made the last attempt.
    Continue {
        feedback: String,
        note: String,
        /// Checks that did not pass.
        failed_checks: Vec<CheckResult>,
    },
    /// The whole task again, to a new session, with what the lost one did.
    Resume {
        earlier_command: String,
        earlier_report: String,
        feedback: String,
        note: String,
        failed_checks: Vec<CheckResult>,
    },
    /// Only the report again, with what is wrong with the last one.
    Repair { reason: String },
}

impl CommandContext {
    /// Takes from the plan what a command for the task says.
    pub fn new(
        plan: &Plan,
        task: &Task,
        kind: CommandKind,
        language: Language,
        report_path: impl Into<String>,
    ) -> Self {
        Self {
            language,
            number: task.number.0,
            name: task.name.clone(),
            goal: plan.head().goal.clone(),
            description: task.description.clone(),
            plan_constraints: plan.head().constraints.clone(),
            constraints: task.constraints.clone(),
            expected_outcome: task.expected_outcome.clone(),
            dependencies: task
                .dependencies
                .iter()
                .filter_map(|id| plan.task(*id))
                .map(|other| DependencyResult {
                    number: other.number.0,
                    name: other.name.clone(),
                    status: other.status.as_str(),
                    result: other.result.clone().unwrap_or_default(),
                })
                .collect(),
            report_path: report_path.into(),
            kind,
        }
    }
}

#[derive(Serialize)]
pub(super) struct CommandView {
    language: Language,
    kind: &'static str,
    number: u32,
    name: String,
    goal: String,
    description: String,
    plan_constraints: String,
    constraints: String,
    expected: String,
    dependencies: Vec<DependencyView>,
    report_path: String,
    feedback: String,
    note: String,
    failed_checks: Vec<CheckView>,
    earlier_command: String,
    earlier_report: String,
    repair: String,
}

#[derive(Serialize)]
struct DependencyView {
    number: u32,
    name: String,
    status: &'static str,
    result: String,
}

impl CommandView {
    pub(super) fn new(context: &CommandContext) -> Self {
        let mut view = Self {
            language: context.language,
            kind: "new",
            number: context.number,
            name: one_line(&context.name, NAME),
            goal: one_line(&context.goal, LINE),
            description: context.description.trim().to_owned(),
            plan_constraints: context.plan_constraints.trim().to_owned(),
            constraints: context.constraints.trim().to_owned(),
            expected: context.expected_outcome.trim().to_owned(),
            dependencies: context
                .dependencies
                .iter()
                .take(MAX_DEPENDENCIES)
                .map(DependencyView::new)
                .collect(),
            report_path: context.report_path.clone(),
            feedback: String::new(),
            note: String::new(),
            failed_checks: Vec::new(),
            earlier_command: String::new(),
            earlier_report: String::new(),
            repair: String::new(),
        };
        view.tell(&context.kind);
        view
    }

    fn tell(&mut self, kind: &CommandKind) {
        let failed = |checks: &[CheckResult]| {
            let view = |check: &CheckResult| CheckView {
                tail: indented(&check.tail, TAIL),
                ..CheckView::new(check)
            };
            checks.iter().take(MAX_CHECKS).map(view).collect()
        };
        match kind {
            CommandKind::New { note } => self.note = indented(note, SECTION),
            CommandKind::Continue {
                feedback,
                note,
                failed_checks,
            } => {
                self.kind = "continue";
                self.feedback = indented(feedback, SECTION);
                self.note = indented(note, SECTION);
                self.failed_checks = failed(failed_checks);
            }
            CommandKind::Resume {
                earlier_command,
                earlier_report,
                feedback,
                note,
                failed_checks,
            } => {
                self.kind = "resume";
                self.earlier_command = indented(earlier_command, TEXT);
                self.earlier_report = indented(earlier_report, TEXT);
                self.feedback = indented(feedback, SECTION);
                self.note = indented(note, SECTION);
                self.failed_checks = failed(failed_checks);
            }
            CommandKind::Repair { reason } => {
                self.kind = "repair";
                self.repair = indented(reason, SECTION);
            }
        }
    }
}

impl DependencyView {
    fn new(dependency: &DependencyResult) -> Self {
        Self {
            number: dependency.number,
            name: unfenced(&one_line(&dependency.name, NAME)),
            status: dependency.status,
            result: unfenced(&one_line(&dependency.result, LINE)),
        }
    }
}

/// Makes a text an indented block of Markdown: no heading and no fence in it counts, so nothing in it is taken for a
/// section of the command, or for a script to run.
fn indented(text: &str, limit: usize) -> String {
    let quoted = unfenced(&quote(text, limit));
    let lines = quoted.lines().map(|line| match line.trim_end() {
        "" => String::new(),
        line => format!("    {line}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn unfenced(text: &str) -> String {
    text.replace("```", "'''").replace("~~~", "'''")
}
