//! A small plan with a value in every field, with which each template is rendered once when it is loaded: a template that works
//! with it works with every plan. No part of it reaches a model or a file.

use minijinja::value::Value;

use super::prompt_context::{DoneStep, Offer, OfferKind, PlanContext, RoleContext};
use super::{
    CommandContent, CommandContext, CommandKind, PromptTemplate, command_file_text, prompt_context,
};
use crate::plan::{
    Attempt, AttemptState, ChangeDetection, ChangedFiles, CheckResult, CommandId, Criteria,
    DecidedBy, Decision, Evidence, Language, Plan, PlanHead, PlanId, PlanState, RanCommand, Report,
    ReportStatus, Row, Task, TaskId, TaskSpec, TaskState, Time, Verdict,
};
use crate::wire::team_file;

/// A team with one of everything that a planner can see.
pub(super) const TEAM: &str = "\
roles:
- {id: coder, kind: files, description: Writes code.}
- {id: tester, kind: files}
workflows:
- id: feature
  name: Feature {{what}}
  description: Builds something.
  parameters:
    what: {description: what is built}
    size: {type: integer, default: 1, choices: [1, 2]}
  steps:
  - step_id: a
    tasks: [{task_id: t, name: Build, assignee: coder, description: 'Build {{what}} in size {{size}}.', checks: [test]}]
";

/// Returns the contexts for trying a template: rich ones, and ones with nothing optional in them.
pub(super) fn contexts(template: PromptTemplate) -> Vec<Value> {
    let fills = [Fill::Rich, Fill::Bare].into_iter();
    fills.flat_map(|fill| filled(template, fill)).collect()
}

fn filled(template: PromptTemplate, fill: Fill) -> Vec<Value> {
    let plan = plan(fill);
    let task = plan.task(TaskId(2)).expect("the sample has this task");
    let team = fill.list(|| team_file::parse(TEAM).expect("the sample is a team"));
    let (names, team) = (fill.list(|| "test".to_owned()), team.first());
    let text = |text| if fill == Fill::Rich { text } else { "" };
    vec![match template {
        PromptTemplate::Plan => prompt_context::plan(&PlanContext {
            goal: text("a goal"),
            constraints: text("a constraint"),
            workspace_facts: fill.text("README.md"),
            check_names: &names,
            team,
        }),
        PromptTemplate::Judge => {
            let stale = fill.list(|| "an older report".to_owned());
            let attempt = plan.attempts_of(task.number).next_back();
            let attempt = attempt.expect("the sample has an attempt");
            prompt_context::judge(&plan, task, attempt, &stale)
        }
        PromptTemplate::Replan => {
            let cause = (fill == Fill::Rich).then_some(task.number);
            prompt_context::replan(&plan, cause, text("why"), text("note"), &names, team)
        }
        PromptTemplate::Audit | PromptTemplate::Summarise => prompt_context::whole(&plan, team),
        PromptTemplate::Strategy | PromptTemplate::Steps | PromptTemplate::Ask => {
            let offers = fill.list(|| Offer {
                name: "write_file".to_owned(),
                kind: OfferKind::Action,
                description: "writes a file".to_owned(),
                params: "{}".to_owned(),
            });
            let done = fill.list(|| DoneStep {
                name: "Read".to_owned(),
                status: "completed",
                result: "text".to_owned(),
            });
            prompt_context::role(&RoleContext {
                role: text("reviewer"),
                prompt: text("You review."),
                description: text("Review it."),
                context: text("The code."),
                offers: &offers,
                done: &done,
                why: text("no answer"),
                question: text("Is it good?"),
                max_steps: 5,
            })
        }
        PromptTemplate::Command => {
            let view = |kind, language| {
                let content = content(kind, fill);
                let mut known = CommandContext::new(&plan, task, content, "report.md");
                known.language = language;
                command_file_text::view(&known)
            };
            let both = |kind| [Language::En, Language::Zh].map(|language| view(kind, language));
            return CommandKind::ALL.into_iter().flat_map(both).collect();
        }
    }]
}

fn content(kind: CommandKind, fill: Fill) -> CommandContent {
    CommandContent {
        kind,
        note: fill.text("note"),
        feedback: fill.text("feedback"),
        failed_checks: fill.list(check),
        earlier_command: fill.text("the command"),
        earlier_report: fill.text("the report"),
        repair: fill.text("line 2: no status"),
    }
}

/// How much of the sample is filled in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fill {
    Rich,
    Bare,
}

impl Fill {
    fn text(self, text: &str) -> String {
        self.list(|| text).concat()
    }

    /// Returns a list of one entry, or none.
    fn list<T>(self, entry: impl FnOnce() -> T) -> Vec<T> {
        (self == Self::Rich).then(entry).into_iter().collect()
    }
}

/// Makes a plan of three tasks: the first completed, the second reported for the second time, the third pending.
pub(super) fn plan(fill: Fill) -> Plan {
    let mut rows = vec![
        Row::Head(Box::new(head(fill))),
        Row::Task(Box::new(task(1, TaskState::Completed, fill))),
        Row::Task(Box::new(task(2, TaskState::InProgress, fill))),
        Row::Task(Box::new(task(3, TaskState::Pending, fill))),
        Row::Attempt(Box::new(attempt(2, fill))),
    ];
    rows.extend(fill.list(|| Row::Attempt(Box::new(attempt(1, fill)))));
    Plan::from_rows(rows).expect("the rows begin with a head")
}

/// Makes the head of a plan.
pub(super) fn head(fill: Fill) -> PlanHead {
    let mut head = PlanHead::new(PlanId::new("abcdefgh"), "a goal", Time(0));
    head.name = "A plan".to_owned();
    head.description = fill.text("a description");
    head.expected_outcome = fill.text("an outcome");
    head.constraints = fill.text("a constraint");
    head.workspace = "workspace".to_owned();
    head.status = PlanState::Running;
    head.audited = (fill == Fill::Rich).then(|| "audited".to_owned());
    (head.revision, head.next_task) = (1, 4);
    head
}

/// Makes a task that depends on the one before it.
pub(super) fn task(number: u32, status: TaskState, fill: Fill) -> Task {
    let rich = fill == Fill::Rich;
    let spec = TaskSpec {
        name: format!("Task {number}"),
        description: "what to do".to_owned(),
        constraints: fill.text("a constraint"),
        criteria: Criteria::plain(fill.text("an outcome")),
        reasoning: fill.text("a reason"),
        produces: fill.list(|| format!("task-{number}.txt")),
        ..TaskSpec::default()
    };
    Task {
        dependencies: match number {
            1 => Vec::new(),
            _ => fill.list(|| TaskId(number - 1)),
        },
        status,
        result: (rich && status.settled()).then(|| "a result".to_owned()),
        evidence: (rich && status.settled()).then(|| Evidence {
            proven: true,
            by_hand: false,
            facts: vec!["test: exit 0".to_owned()],
            criteria: Vec::new(),
        }),
        note: rich.then(|| "a note".to_owned()),
        ..Task::new(TaskId(number), spec, Time(0))
    }
}

/// Makes an attempt of the second task; the first one has a verdict.
pub(super) fn attempt(number: u32, fill: Fill) -> Attempt {
    let rich = fill == Fill::Rich;
    let id = CommandId::new(format!("task-{number}"));
    Attempt {
        text: "the command".to_owned(),
        report: rich.then(|| report(ReportStatus::PartialSuccess, "results")),
        beside: fill.list(|| TaskId(3)),
        changes: rich
            .then(|| ChangedFiles::new(ChangeDetection::Times, vec!["src/main.py".to_owned()])),
        ran: fill.list(RanCommand::default),
        checks: rich.then(|| vec![check()]),
        verdict: (number == 1).then(|| Verdict {
            decision: Decision::Retry,
            reason: "a reason".to_owned(),
            feedback: "feedback".to_owned(),
            by: DecidedBy::Model,
            at: Time(0),
            ..Verdict::default()
        }),
        state: match number {
            1 => AttemptState::Judged,
            _ => AttemptState::Reported,
        },
        ..Attempt::new(id, TaskId(2), number, Time(0))
    }
}

/// Makes a report.
pub(super) fn report(status: ReportStatus, results: &str) -> Report {
    let mut report = Report::new("report-task-2.md", status, Time(0));
    report.results = results.to_owned();
    report.pitfalls = "a pitfall".to_owned();
    report.next_steps = "a next step".to_owned();
    report
}

/// Makes a check that failed.
pub(super) fn check() -> CheckResult {
    CheckResult {
        name: "test".to_owned(),
        exit: Some(1),
        passed: false,
        tail: "1 failed".to_owned(),
        ..CheckResult::default()
    }
}
