//! A small plan with a value in every field, with which each template is rendered once when it is loaded: a template that works
//! with it works with every plan. No part of it reaches a model or a file.

use minijinja::value::Value;

use super::command_body::{self, CommandContext, CommandKind};
use super::prompt_context::{
    self, DoneStep, JudgeFacts, Offer, OfferKind, PlanContext, RoleContext,
};
use super::prompts::PromptTemplate;
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

/// Returns the contexts for trying a template: a rich one, and one with nothing optional in it.
pub(super) fn contexts(template: PromptTemplate) -> Vec<Value> {
    let (rich, bare) = (plan(Fill::Rich), plan(Fill::Bare));
    let team = team_file::parse(TEAM).expect("the sample is a team");
    let names = ["test".to_owned()];
    match template {
        PromptTemplate::Plan => {
            let rich = PlanContext {
                goal: "a goal",
                constraints: "a constraint",
                workspace_facts: "README.md".to_owned(),
                check_names: &names,
                team: Some(&team),
            };
            vec![
                prompt_context::plan(&rich),
                prompt_context::plan(&PlanContext::default()),
            ]
        }
        PromptTemplate::Judge => {
            let late = JudgeFacts {
                stale_reports: vec!["an older report".to_owned()],
            };
            let judge = |plan: &Plan, facts| {
                let task = plan.task(TaskId(2))?;
                let attempt = plan.attempts_of(task.number).next_back()?;
                Some(prompt_context::judge(plan, task, attempt, facts))
            };
            let contexts = [judge(&rich, &late), judge(&bare, &JudgeFacts::default())];
            contexts.into_iter().flatten().collect()
        }
        PromptTemplate::Replan => vec![
            prompt_context::replan(&rich, Some(TaskId(2)), "why", "note", &names, Some(&team)),
            prompt_context::replan(&bare, None, "", "", &[], None),
        ],
        PromptTemplate::Audit | PromptTemplate::Summarise => {
            vec![
                prompt_context::whole(&rich, Some(&team)),
                prompt_context::whole(&bare, None),
            ]
        }
        PromptTemplate::Strategy | PromptTemplate::Steps | PromptTemplate::Ask => {
            let offers = [Offer {
                name: "write_file".to_owned(),
                kind: OfferKind::Action,
                description: "writes a file".to_owned(),
                params: "{}".to_owned(),
            }];
            let done = [DoneStep {
                name: "Read".to_owned(),
                status: "completed",
                result: "text".to_owned(),
            }];
            let rich = RoleContext {
                role: "reviewer",
                prompt: "You review.",
                description: "Review it.",
                context: "The code.",
                offers: &offers,
                done: &done,
                why: "no answer",
                question: "Is it good?",
                max_steps: 5,
            };
            vec![
                prompt_context::role(&rich),
                prompt_context::role(&RoleContext::default()),
            ]
        }
        PromptTemplate::Command => {
            let kinds = [
                (&rich, new(Fill::Rich)),
                (&bare, new(Fill::Bare)),
                (&rich, proceed(Fill::Rich)),
                (&bare, proceed(Fill::Bare)),
                (&rich, resume()),
                (&rich, repair()),
            ];
            let mut contexts = Vec::new();
            for (plan, kind) in kinds {
                let task = plan.task(TaskId(2)).expect("the sample has this task");
                for language in [Language::En, Language::Zh] {
                    let path = "reports/pending/report.md";
                    let known = CommandContext::new(plan, task, kind.clone(), language, path);
                    contexts.push(command_body::view(&known));
                }
            }
            contexts
        }
    }
}

fn new(fill: Fill) -> CommandKind {
    CommandKind::New {
        note: fill.text("note"),
    }
}

fn proceed(fill: Fill) -> CommandKind {
    CommandKind::Continue {
        feedback: fill.text("note"),
        note: fill.text("note"),
        failed_checks: fill.list(check),
    }
}

fn resume() -> CommandKind {
    CommandKind::Resume {
        earlier_command: "the command".to_owned(),
        earlier_report: "the report".to_owned(),
        feedback: "feedback".to_owned(),
        note: "note".to_owned(),
        failed_checks: vec![check()],
    }
}

fn repair() -> CommandKind {
    CommandKind::Repair {
        reason: "line 2: no status".to_owned(),
        earlier_command: Some("the command".to_owned()),
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
    PlanHead {
        name: "A plan".to_owned(),
        description: fill.text("a description"),
        expected_outcome: fill.text("an outcome"),
        constraints: fill.text("a constraint"),
        workspace: "workspace".to_owned(),
        status: PlanState::Running,
        audited: (fill == Fill::Rich).then(|| "audited".to_owned()),
        revision: 1,
        next_task: 4,
        ..PlanHead::new(PlanId::new("abcdefgh"), "a goal", Time(0))
    }
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
    Report {
        results: results.to_owned(),
        pitfalls: "a pitfall".to_owned(),
        next_steps: "a next step".to_owned(),
        ..Report::new("report-task-2.md", status, Time(0))
    }
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
