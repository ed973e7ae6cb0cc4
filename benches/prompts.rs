//! What the judge is sent, in plans of different sizes.

use plan_agent::llm::Prompts;
use plan_agent::llm::questions;
use plan_agent::plan::{
    AttemptKind, Budget, CommandId, DecidedBy, Decision, Draft, NewCommand, Plan, PlanPolicy,
    Refusal, Report, ReportStatus, TaskId, TaskOrder, Time, Verdict,
};

use crate::table::{against, print};
use crate::{row, sample};

pub fn run() {
    let mut rows = vec![row!["tasks", "bytes"]];
    let mut sizes = Vec::new();
    for tasks in [10, 100, 1_000, 10_000] {
        let bytes = judge_prompt(tasks);
        rows.push(row![tasks, bytes]);
        sizes.push(f64::from(u32::try_from(bytes).unwrap()));
    }
    print("prompts: a judge's prompt, half of the plan done", &rows);
    let flat = sizes[3] / sizes[1];
    print(
        "prompts: 10,000 tasks / 100 tasks",
        &[row![against(flat, 1.1)]],
    );
}

/// Returns the bytes of the judge's prompt for the task in the middle of a plan.
fn judge_prompt(tasks: usize) -> usize {
    let mut plan = Plan::new(sample::head(TaskOrder::Sequential));
    let mut draft = Draft::new(&mut plan, Time(1));
    let middle = u32::try_from(tasks / 2).unwrap();
    prepare(&mut draft, tasks, middle).unwrap();
    drop(draft);
    let task = plan.task(TaskId(middle)).unwrap();
    let attempt = plan.current_attempt(task).unwrap();
    let prompts = Prompts::load(None).unwrap();
    let question = questions::judge(&plan, task, attempt, &[])
        .render(&prompts)
        .unwrap();
    question.request.system.len() + question.request.prompt.len()
}

/// Carries a plan out up to the report of a task.
fn prepare(draft: &mut Draft<'_>, tasks: usize, until: u32) -> Result<(), Refusal> {
    sample::make_tasks(tasks)(draft)?;
    let policy = PlanPolicy {
        budget: Budget::NONE,
        ..PlanPolicy::default()
    };
    draft.start(policy, "/workspace")?;
    for number in 1..=until {
        let id = CommandId::new(format!("task-{number}"));
        let text = "Count the words.".to_owned();
        draft.issue(
            TaskId(number),
            NewCommand {
                id: id.clone(),
                kind: AttemptKind::New,
                session: None,
                text,
            },
        )?;
        draft.report(&id, report(number))?;
        if number < until {
            let verdict = Verdict {
                decision: Decision::Next,
                reason: "it is there".to_owned(),
                feedback: String::new(),
                result_summary: format!("Part {number} of the program counts words."),
                by: DecidedBy::Rules,
                at: Time(1),
                ..Verdict::default()
            };
            draft.judge(&id, &verdict)?;
        }
    }
    Ok(())
}

fn report(number: u32) -> Report {
    let name = format!("report-task-{number}.md");
    Report {
        results: sample::report(),
        hash: number.to_string(),
        ..Report::new(name, ReportStatus::Success, Time(1))
    }
}
