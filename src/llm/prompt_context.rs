//! What the prompt templates may use: the plan's own types and a few facts about them, as values of the template engine, and
//! who may be given a task. Texts are in them as they were written: the filters and the formatter of [`super::prompts`]
//! make them fit to be shown. The size depends on the task at hand, never on the plan: a window of neighbours and counts
//! stand for the rest.

use std::collections::BTreeMap;

use minijinja::context;
use minijinja::value::{Serde, Value, merge_maps};
use serde::Serialize;

use super::{LINE, NAME, one_line};
use crate::plan::{
    Attempt, ChangeDetection, CheckResult, CriterionResult, CriterionState, Plan, ReportStatus,
    Task, TaskId, TaskState, proof, word,
};
use crate::wire::{RoleSpec, Team, Workflow, has_word, joined};

/// Neighbours shown on each side of a task.
const WINDOW: usize = 5;
/// Tasks shown of each kind where a prompt is about the whole plan.
const DIGEST: usize = 40;
/// Dependencies shown with their results.
pub(super) const MAX_DEPENDENCIES: usize = 20;
/// Checks, changed files and earlier verdicts shown.
pub(super) const MAX_CHECKS: usize = 20;
const MAX_CHANGED: usize = 50;
const MAX_EARLIER: usize = 3;
/// The most bytes of criteria that are shown, of each text of one, and of the words around them.
const MAX_CRITERIA: usize = 900;
const CRITERION: usize = 400;
const CRITERION_LINE: usize = 30;
/// Commands of the agent that are shown.
const MAX_RAN: usize = 6;
/// Offers shown.
const OFFERS: usize = 100;

/// The lists that a smaller question shortens: those of which the last entries count most, and those of which the first do. The
/// number of what is left out is added to the value of the same name with `_more`, where there is one.
const LAST: &str = "before earlier settled tasks done";
const FIRST: &str = "after dependencies changed stale running pending";

/// The facts that are known before there is a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanContext<'a> {
    /// The person's goal.
    pub goal: &'a str,
    /// The constraints of every task.
    pub constraints: &'a str,
    /// File tree, head of the README, state of git: all known facts about the workspace.
    pub workspace_facts: String,
    /// Names of the configured checks.
    pub check_names: &'a [String],
    /// The team whose roles get tasks, and whose workflows may be chosen; `None` without a team.
    pub team: Option<&'a Team>,
}

/// What a planner knows.
pub(super) fn plan(known: &PlanContext<'_>) -> Value {
    let workflows = known.team.into_iter().flat_map(|team| &team.workflows);
    context! {
        goal => known.goal,
        constraints => known.constraints,
        workspace => &known.workspace_facts,
        checks => Serde(known.check_names),
        roles => roles(known.team),
        workflows => workflows.map(workflow).collect::<Vec<_>>(),
    }
}

/// The roles that tasks may be given to.
fn roles(team: Option<&Team>) -> Vec<Value> {
    let roles = team.into_iter().flat_map(|team| &team.roles);
    let role = |role: &RoleSpec| context! { id => &role.id, description => &role.description };
    roles.map(role).collect()
}

/// A workflow that may be chosen instead of making tasks.
fn workflow(workflow: &Workflow) -> Value {
    context! {
        id => &workflow.id,
        description => &workflow.description,
        parameters => Serde(&workflow.parameters),
    }
}

/// What a plan is about, and its progress.
fn head(plan: &Plan) -> Value {
    let (head, counts) = (plan.head(), plan.counts());
    context! {
        goal => &head.goal,
        constraints => &head.constraints,
        name => &head.name,
        status => head.status.as_str(),
        counts => context! { total => counts.total(), ..Serde(counts) },
    }
}

/// What a judge knows.
pub(super) fn judge(plan: &Plan, task: &Task, attempt: &Attempt, stale: &[String]) -> Value {
    let (before, after) = plan.tasks_around(task);
    let mut before = before.take(WINDOW).collect::<Vec<_>>();
    before.reverse();
    let needed = task.dependencies.iter().filter_map(|id| plan.task(*id));
    let earlier = plan.attempts_of(task.number).rev();
    let earlier = earlier.filter(|other| other.id != attempt.id);
    let mut earlier: Vec<Value> = earlier.filter_map(verdict).take(MAX_EARLIER).collect();
    earlier.reverse();
    let checks = attempt.checks.iter().flatten().take(MAX_CHECKS);
    let stale = stale.iter().take(MAX_EARLIER);
    context! {
        plan => head(plan),
        task => shown(task),
        before => Serde(before),
        after => Serde(after.take(WINDOW).collect::<Vec<_>>()),
        dependencies => needed.take(MAX_DEPENDENCIES).map(shown).collect::<Vec<_>>(),
        attempt => attempt.number,
        report => Serde(&attempt.report),
        checks => checks.map(check).collect::<Vec<_>>(),
        criteria_more => task.criteria.list().len().max(1) - shown_criteria(task, attempt).len(),
        criteria => criteria(task, attempt),
        facts => self::facts(attempt),
        earlier => earlier,
        stale => Serde(stale.collect::<Vec<_>>()),
        obstacle => obstacle(attempt).unwrap_or_default(),
    }
}

/// A task with the words of its criteria.
fn shown(task: &Task) -> Value {
    context! {
        expected_outcome => task.criteria.text(),
        soft => task.is_soft(),
        description => task.instructions(),
        ..Serde(task)
    }
}

/// How each criterion of a task ended, as far as that was measured.
fn criteria(task: &Task, attempt: &Attempt) -> Vec<Value> {
    let ended = |(number, end): (u32, CriterionResult)| {
        context! { number, state => word(&end.state).replace('_', " "), ..Serde(end) }
    };
    let ends = shown_criteria(task, attempt).into_iter();
    ends.map(ended).collect()
}

/// Returns the criteria that a judge is shown, by their numbers: as many as there is room for, before all those that it has to
/// answer.
pub(super) fn shown_criteria(task: &Task, attempt: &Attempt) -> BTreeMap<u32, CriterionResult> {
    let mut ends: Vec<(u32, CriterionResult)> = (1..).zip(proof::criteria(task, attempt)).collect();
    ends.sort_by_key(|(_, end)| end.state != CriterionState::NotProven);
    let mut room = MAX_CRITERIA;
    let shown = ends.into_iter().enumerate().take_while(|(at, (_, end))| {
        let needed = [&end.text, &end.why].map(|text| text.len().min(CRITERION));
        let fits = room.checked_sub(needed.iter().sum::<usize>() + CRITERION_LINE);
        room = fits.unwrap_or(0);
        *at == 0 || fits.is_some()
    });
    shown.map(|(_, shown)| shown).collect()
}

/// The measured facts about a result, a line each: a judge points to them by their places.
pub(super) fn facts(attempt: &Attempt) -> Vec<String> {
    let checks = attempt.checks.iter().flatten().take(MAX_CHECKS);
    let checks = checks.map(|check| {
        let passed = if check.passed { "passed" } else { "FAILED" };
        format!("check `{}` {passed}: {}", check.name, check.outcome())
    });
    let changes = attempt.changes.clone().unwrap_or_default();
    let limit = match changes.seen {
        ChangeDetection::Times => Some("removed files are not seen".to_owned()),
        ChangeDetection::Part => Some("only some of the files were looked at".to_owned()),
        ChangeDetection::Git | ChangeDetection::Listing | ChangeDetection::Nothing => None,
    };
    let limit = limit.filter(|_| !changes.files.is_empty());
    let changes = std::iter::once(changes.text(MAX_CHANGED)).chain(limit);
    let changes = joined(changes.chain(attempt.remarks()), "; ");
    let ran = &attempt.ran[attempt.ran.len().saturating_sub(MAX_RAN)..];
    let ran = ran.iter().map(|one| {
        let printed = match one.tail.trim() {
            tail if one.exit != Some(0) && !tail.is_empty() => format!(". It printed: {tail}"),
            _ => String::new(),
        };
        let (command, outcome) = (one_line(&one.command, NAME), one.outcome());
        format!("ran `{command}`, by its program's word: {outcome}{printed}")
    });
    checks.chain([changes]).chain(ran).collect()
}

/// A task with its criteria; those that were measured when it was accepted may be proven.
fn ended(task: &Task) -> Value {
    let evidence = task.evidence.as_ref();
    let ends = evidence.map_or(&[][..], |evidence| &evidence.criteria);
    let criteria = (0..task.criteria.list().len().max(1)).map(|at| {
        let text = task.criteria.list().get(at).map(|one| &one.text);
        let end = ends.get(at).map(|end| end.state);
        context! { text, proven => end == Some(CriterionState::Met) }
    });
    context! { criteria => criteria.collect::<Vec<_>>(), ..Serde(task) }
}

fn check(check: &CheckResult) -> Value {
    context! { outcome => check.outcome(), ..Serde(check) }
}

/// The verdict on an earlier attempt.
fn verdict(attempt: &Attempt) -> Option<Value> {
    let verdict = attempt.verdict.as_ref()?;
    Some(context! { attempt => attempt.number, ..Serde(verdict) })
}

/// Returns why `next` is impossible, if it is.
pub(super) fn obstacle(attempt: &Attempt) -> Option<String> {
    match (&attempt.report, attempt.failing().next()) {
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

/// What a planner knows who changes a plan. `cause` is the task whose result led to that.
pub(super) fn replan(
    plan: &Plan,
    cause: Option<TaskId>,
    why: &str,
    note: &str,
    checks: &[String],
    team: Option<&Team>,
) -> Value {
    let settled = plan.tasks().rev().filter(|task| task.status.settled());
    let mut settled = settled.take(DIGEST).collect::<Vec<_>>();
    settled.reverse();
    let other = |task: &&Task| Some(task.number) != cause;
    let pending = editable(plan).filter(other).take(DIGEST);
    let pending = pending.collect::<Vec<_>>();
    let running = plan.in_progress().filter(other).take(DIGEST);
    context! {
        plan => head(plan),
        cause => cause.and_then(|id| plan.task(id)).map(shown),
        why,
        note,
        settled_more => plan.counts().settled().saturating_sub(settled.len()),
        settled => Serde(settled),
        running => Serde(running.collect::<Vec<_>>()),
        pending_more => editable(plan).filter(other).count() - pending.len(),
        pending => pending.into_iter().map(shown).collect::<Vec<_>>(),
        checks => Serde(checks),
        roles => roles(team),
    }
}

/// Returns the tasks that a replan may touch.
pub(super) fn editable(plan: &Plan) -> impl Iterator<Item = &Task> {
    plan.unsettled()
        .filter(|task| task.status == TaskState::Pending)
}

/// Returns the values with so small a part of each list, and at least one entry.
pub(super) fn smaller(view: &Value, divisor: usize) -> Value {
    let mut changed = BTreeMap::new();
    for name in LAST.split(' ').chain(FIRST.split(' ')) {
        let attribute = |name: &str| view.get_attr(name).ok();
        let entries = attribute(name).and_then(|list| Some(list.try_iter().ok()?.collect()));
        let entries: Vec<Value> = entries.unwrap_or_default();
        let kept = entries.len().div_ceil(divisor);
        let left_out = entries.len() - kept;
        if left_out == 0 {
            continue;
        }
        let skipped = if has_word(LAST, name) { left_out } else { 0 };
        let entries = entries.into_iter().skip(skipped).take(kept);
        changed.insert(name.to_owned(), entries.collect::<Value>());
        let more = format!("{name}_more");
        if let Some(Ok(before)) = attribute(&more).map(usize::try_from) {
            changed.insert(more, Value::from(before + left_out));
        }
    }
    // The later map counts.
    merge_maps([view.clone(), Value::from(changed)])
}

/// What is known of a plan as a whole: the tasks that went wrong before those that went well.
pub(super) fn whole(plan: &Plan, team: Option<&Team>) -> Value {
    let went_well = |task: &&Task| task.status == TaskState::Completed;
    let well = plan.tasks().rev().filter(went_well).take(DIGEST);
    let wrong = plan.tasks().filter(|task| !went_well(task));
    let mut tasks = wrong.take(DIGEST).chain(well).collect::<Vec<_>>();
    tasks.sort_by_key(|task| (task.position, task.number));
    context! {
        plan => head(plan),
        tasks_more => plan.counts().total().saturating_sub(tasks.len()),
        tasks => tasks.into_iter().map(ended).collect::<Vec<_>>(),
        audited => plan.head().audited.as_deref().unwrap_or_default(),
        roles => roles(team),
    }
}

/// What a role knows of its task.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RoleContext<'a> {
    /// The name of the role.
    pub role: &'a str,
    /// The role's own prompt.
    pub prompt: &'a str,
    /// What is to be done.
    #[serde(rename = "task")]
    pub description: &'a str,
    pub context: &'a str,
    /// What a step may use.
    pub offers: &'a [Offer],
    /// The steps so far.
    pub done: &'a [DoneStep],
    /// Why the remaining steps are to change; empty if they are planned for the first time.
    pub why: &'a str,
    /// What a step asks of the model, in addition to the task; empty if it is the task itself.
    pub question: &'a str,
    /// The most steps that an answer may have.
    pub max_steps: usize,
}

/// Something that a step may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Offer {
    pub name: String,
    pub kind: OfferKind,
    pub description: String,
    /// The JSON schema of its parameters.
    pub params: String,
}

/// The kind of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OfferKind {
    Action,
    Tool,
    Role,
}

/// A step that is settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoneStep {
    pub name: String,
    pub status: &'static str,
    pub result: String,
}

/// What a role's model knows.
pub(super) fn role(known: &RoleContext<'_>) -> Value {
    context! {
        offers => Serde(&known.offers[..known.offers.len().min(OFFERS)]),
        next => known.done.len() + 1,
        ..Serde(known)
    }
}
