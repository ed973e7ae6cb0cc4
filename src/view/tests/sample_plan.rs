//! A small plan in the midst of its work, for the tests of the views.

use crate::plan::tests::testing::task;
use crate::plan::{
    AttemptKind, CommandId, DecidedBy, Decision, Draft, HumanQuestionKind, NewCommand, Plan,
    PlanHead, PlanId, PlanPolicy, QuestionId, Report, ReportStatus, RoleRequest, RoleRules, Row,
    TaskId, TaskSpec, Time, Verdict,
};

/// The time at which the sample is viewed.
pub const NOW: Time = Time(1_800_000_300_000_000);

/// A plan of five tasks: done, failed and asked about, blocked by that, under way, ready.
pub fn plan() -> Plan {
    let mut plan = Plan::new(head());
    let mut draft = Draft::new(&mut plan, Time(1_800_000_000_000_000));
    draft.add_tasks(tasks(), None).unwrap();
    let policy = PlanPolicy {
        max_parallel: 3,
        ..PlanPolicy::default()
    };
    draft.start(policy, "/w").unwrap();
    dispatch(&mut draft, 1, "task-1a");
    decide(&mut draft, "task-1a", ReportStatus::Success, Decision::Next);
    dispatch(&mut draft, 2, "task-2a");
    decide(&mut draft, "task-2a", ReportStatus::Failed, Decision::Retry);
    let about = HumanQuestionKind::Failures;
    let reason = "failed three times\u{1b}[2J: the port is taken";
    draft.name_questions(|_| QuestionId::new("question-7"));
    draft.ask(about, Some(TaskId(2)), reason).unwrap();
    dispatch(&mut draft, 4, "task-4a");
    draft.claim(&CommandId::new("task-4a"), None).unwrap();
    draft.finish();
    plan
}

/// The same plan with roles: two for a coder with one lane, one of them under way, and one for a tester with two.
pub fn with_roles() -> Plan {
    let mut plan = plan();
    let mut head = plan.head().clone();
    for (role, concurrency) in [("coder", 1), ("tester", 2)] {
        let rules = RoleRules {
            concurrency,
            ..RoleRules::default()
        };
        head.policy.roles.insert(role.to_owned(), rules);
    }
    drop(plan.put(Row::Head(Box::new(head))));
    for (number, role) in [(3, "tester"), (4, "coder"), (5, "coder")] {
        let mut task = plan.task(TaskId(number)).unwrap().clone();
        task.assignee = Some(role.to_owned());
        drop(plan.put(Row::Task(Box::new(task))));
    }
    plan
}

/// The same, where the coder waits for what it has asked of the tester, who has nothing else to do.
pub fn with_a_wait() -> Plan {
    let mut plan = with_roles();
    let mut draft = Draft::new(&mut plan, Time(1_800_000_240_000_000));
    let wait = RoleRequest {
        role: "coder".into(),
        on: "tester".into(),
        request: CommandId::new("task-4b"),
        what: "Does it\u{1b}[2J count?".into(),
        since: draft.now(),
        limited_until: None,
    };
    draft.begin_wait(&CommandId::new("task-4a"), wait).unwrap();
    draft.finish();
    plan
}

fn head() -> PlanHead {
    let made = Time(1_800_000_000_000_000);
    PlanHead {
        name: "Word counter".into(),
        ..PlanHead::new(PlanId::new("kqzjwmha"), "Count the words of a file", made)
    }
}

fn tasks() -> Vec<TaskSpec> {
    vec![
        task("Write the counter", &[]),
        task("Serve \"it\" <over> HTTP; \u{1b}]0;title\u{7}#1", &[0]),
        task("Describe both", &[0, 1]),
        task("Test", &[0]),
        task("Publish", &[]),
    ]
}

fn dispatch(draft: &mut Draft<'_>, task: u32, command: &str) {
    let issue = NewCommand {
        id: CommandId::new(command),
        kind: AttemptKind::New,
        session: None,
        text: String::new(),
    };
    draft.issue(TaskId(task), issue).unwrap();
}

fn decide(draft: &mut Draft<'_>, command: &str, status: ReportStatus, decision: Decision) {
    let id = CommandId::new(command);
    let report = Report {
        results: "wc.py is there\u{202e}".into(),
        hash: command.into(),
        ..Report::new(format!("report-{command}.md"), status, draft.now())
    };
    draft.report(&id, report).unwrap();
    let verdict = Verdict {
        decision,
        reason: format!("the agent reports {}", status.as_str()),
        feedback: String::new(),
        result_summary: "counts words".into(),
        by: DecidedBy::Rules,
        at: draft.now(),
        ..Verdict::default()
    };
    draft.judge(&id, &verdict).unwrap();
}
