//! How far a plan is: a page for a person, and the JSON that programs rely on.

use std::time::Duration;

use serde::Serialize;

use super::usage::{self, PlanUsage, TaskUsage};
use super::{indented, name, numbers, state};
use crate::cli::args::Program;
use crate::cli::output::{Paint, Style};
use crate::plan::{
    AttemptState, Choice, Lanes, Line, Plan, PlanStatus, Question, Task, TaskId, TaskStatus, Time,
    counted,
};
use crate::role::Wait;
use crate::wire::lanes;
use crate::wire::question::meaning;
use crate::wire::text::time_text;

/// The longest result that stands beside a task.
const RESULT: usize = 120;

/// The state of a plan as `status --json` prints it. The shape is relied upon by others.
#[derive(Debug, Serialize)]
pub struct Status {
    plan: PlanLine,
    progress: Progress,
    tasks: Vec<TaskLine>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    /// Which roles wait for others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits: Vec<WaitLine>,
    questions: Vec<QuestionLine>,
    /// Of a plan with roles that have lanes of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    lanes: Option<LanesLine>,
    usage: PlanUsage,
    daemon: Option<Daemon>,
}

#[derive(Debug, Serialize)]
struct PlanLine {
    id: String,
    name: String,
    goal: String,
    status: &'static str,
    seq: i64,
    /// Where the results are gathered, if each task has a worktree of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
}

#[derive(Debug, Serialize)]
struct Progress {
    total: usize,
    pending: usize,
    ready: usize,
    blocked: usize,
    in_progress: usize,
    completed: usize,
    failed: usize,
    skipped: usize,
}

#[derive(Debug, Serialize)]
struct TaskLine {
    id: u32,
    key: String,
    name: String,
    status: &'static str,
    /// `null` until the task is accepted.
    verified: Option<bool>,
    /// What stands behind it: checks with their outcomes, what changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    evidence: Vec<String>,
    assignee: Option<String>,
    dependencies: Vec<u32>,
    attempts: u32,
    result: Option<String>,
    usage: TaskUsage,
}

#[derive(Debug, Serialize)]
struct QuestionLine {
    id: String,
    task: Option<u32>,
    reason: String,
    choices: Vec<Choice>,
}

#[derive(Debug, Serialize)]
struct WaitLine {
    task: u32,
    role: String,
    on: String,
    request: String,
    since: String,
}

#[derive(Debug, Serialize)]
struct LanesLine {
    most: usize,
    busy: usize,
    roles: Vec<RoleLine>,
    /// Tasks under way of no such role.
    others: Vec<u32>,
}

#[derive(Debug, Serialize)]
struct RoleLine {
    role: String,
    most: usize,
    tasks: Vec<u32>,
}

#[derive(Debug, Serialize)]
struct Daemon {
    pid: u32,
}

/// Returns the state of a plan for programs: at most `limit` tasks, those around the first unsettled one.
pub fn json(plan: &Plan, waits: &[Wait], seq: i64, daemon: Option<u32>, limit: usize) -> Status {
    let head = plan.head();
    let window = Window::of(plan, limit);
    let used = usage::of_tasks(plan);
    let line = |task: &Task| task_line(task, used.get(&task.number).copied().unwrap_or_default());
    Status {
        plan: PlanLine {
            id: head.id.to_string(),
            name: head.name.clone(),
            goal: head.goal.clone(),
            status: head.status.as_str(),
            seq,
            branch: branch(plan),
        },
        progress: progress(plan),
        truncated: window.before + window.after > 0,
        tasks: window.tasks.into_iter().map(line).collect(),
        waits: waits.iter().map(wait_line).collect(),
        questions: plan.open_questions().map(question_line).collect(),
        lanes: lanes_line(plan),
        usage: usage::of_plan(plan),
        daemon: daemon.map(|pid| Daemon { pid }),
    }
}

/// Returns the state of a plan for a person: at most `limit` tasks, those around the first unsettled one.
pub fn text(
    plan: &Plan,
    waits: &[Wait],
    daemon: Option<u32>,
    limit: usize,
    now: Time,
    paint: Paint,
    program: &Program,
) -> String {
    let head = plan.head();
    let mut lines = vec![format!(
        "{}  {}  {}",
        paint.text(Style::Dim, &name(head.id.as_str())),
        paint.text(Style::Bold, &name(&head.name)),
        plan_state(plan, daemon, paint)
    )];
    if head.goal.trim() != head.name.trim() {
        lines.push(format!("Goal: {}", name(&head.goal)));
    }
    lines.push(counts(plan));
    lines.extend(lanes::line(plan).map(|lanes| format!("At work: {lanes}")));
    lines.extend(branch(plan).map(|branch| format!("Results: the branch {}", name(&branch))));
    lines.extend(usage::line(plan));
    lines.push(String::new());

    let window = Window::of(plan, limit);
    lines.extend(more(window.before, "earlier"));
    for task in &window.tasks {
        lines.push(task_text(plan, task, now, paint));
        let own = waits.iter().filter(|wait| wait.task == task.number);
        lines.extend(own.map(|wait| wait_text(wait, now, paint)));
    }
    lines.extend(more(window.after, "more"));

    let questions: Vec<&Question> = plan.open_questions().collect();
    for question in &questions {
        lines.push(String::new());
        lines.push(question_text(
            question,
            questions.len() == 1,
            paint,
            program,
        ));
    }
    if let Some(outcome) = &head.outcome {
        lines.push(format!("\n{}", indented(outcome, "").trim_end()));
    }
    if daemon.is_none() && head.status == PlanStatus::Running {
        lines.push(format!(
            "\nNo daemon works here: {}.",
            program.goes_on(&name(head.id.as_str()))
        ));
    }
    lines.join("\n") + "\n"
}

fn branch(plan: &Plan) -> Option<String> {
    let head = plan.head();
    head.line.as_ref().map(|_| Line::branch(&head.id))
}

/// The tasks that are shown, and how many are not.
struct Window<'a> {
    before: usize,
    tasks: Vec<&'a Task>,
    after: usize,
}

impl<'a> Window<'a> {
    /// Takes the tasks from a little before the first unsettled one.
    fn of(plan: &'a Plan, limit: usize) -> Self {
        let total = plan.counts().total();
        let first_unsettled = plan
            .tasks()
            .position(|task| !task.status.settled())
            .unwrap_or(0);
        let before = first_unsettled
            .saturating_sub(limit / 4)
            .min(total.saturating_sub(limit));
        let tasks: Vec<&Task> = plan.tasks().skip(before).take(limit).collect();
        Self {
            before,
            after: total - before - tasks.len(),
            tasks,
        }
    }
}

fn progress(plan: &Plan) -> Progress {
    let counts = plan.counts();
    let ready = plan.ready_count();
    Progress {
        total: counts.total(),
        pending: counts.pending,
        ready,
        blocked: counts.pending.saturating_sub(ready),
        in_progress: counts.in_progress,
        completed: counts.completed,
        failed: counts.failed,
        skipped: counts.skipped,
    }
}

fn task_line(task: &Task, usage: TaskUsage) -> TaskLine {
    TaskLine {
        id: task.number.0,
        key: task.key.clone(),
        name: task.name.clone(),
        status: task.status.as_str(),
        verified: task.evidence.as_ref().map(|evidence| evidence.verified),
        evidence: match &task.evidence {
            Some(evidence) => evidence.facts.clone(),
            None => Vec::new(),
        },
        assignee: task.assignee.clone(),
        dependencies: task.dependencies.iter().map(|id| id.0).collect(),
        attempts: task.attempts,
        result: task.result.clone(),
        usage,
    }
}

fn lanes_line(plan: &Plan) -> Option<LanesLine> {
    let lanes = Lanes::of(plan);
    let ids = |tasks: &[TaskId]| tasks.iter().map(|id| id.0).collect();
    (!lanes.roles.is_empty()).then(|| LanesLine {
        most: lanes.most,
        busy: lanes.busy(),
        roles: lanes
            .roles
            .iter()
            .map(|(role, lanes)| RoleLine {
                role: role.clone(),
                most: lanes.most,
                tasks: ids(&lanes.busy),
            })
            .collect(),
        others: ids(&lanes.others),
    })
}

fn question_line(question: &Question) -> QuestionLine {
    QuestionLine {
        id: question.id.to_string(),
        task: question.task.map(|id| id.0),
        reason: question.reason.clone(),
        choices: question.choices.clone(),
    }
}

fn plan_state(plan: &Plan, daemon: Option<u32>, paint: Paint) -> String {
    let status = plan.status();
    match status {
        PlanStatus::Running if daemon.is_none() => paint.text(Style::Busy, "stopped"),
        PlanStatus::Paused(why) => paint.text(Style::Busy, &format!("paused: {}", name(why))),
        PlanStatus::Completed => paint.text(Style::Good, status.as_str()),
        PlanStatus::Failed | PlanStatus::Abandoned => paint.text(Style::Bad, status.as_str()),
        PlanStatus::Idle | PlanStatus::Running => paint.text(Style::Busy, status.as_str()),
    }
}

fn counts(plan: &Plan) -> String {
    let progress = progress(plan);
    if progress.total == 0 {
        return "no tasks yet".to_owned();
    }
    let done = format!(
        "{} of {} done",
        progress.completed,
        counted(progress.total, "task")
    );
    let rest = [
        (progress.in_progress, "in progress"),
        (progress.ready, "ready"),
        (progress.blocked, "blocked"),
        (progress.failed, "failed"),
        (progress.skipped, "skipped"),
    ];
    rest.iter()
        .filter(|(count, _)| *count > 0)
        .fold(done, |line, (count, word)| {
            format!("{line} · {count} {word}")
        })
}

fn more(count: usize, word: &str) -> Option<String> {
    (count > 0).then(|| format!("      … {count} {word}"))
}

fn task_text(plan: &Plan, task: &Task, now: Time, paint: Paint) -> String {
    let (word, style) = state(plan, task);
    let word = paint.text(style, &format!("{word:<11}"));
    let line = format!("{:>4}  {word}  {}", task.number, name(&task.name));
    let role = task.assignee.as_deref().map(lanes::role);
    let details = role.into_iter().chain(detail(plan, task, now));
    let details: String = details.map(|detail| format!(" · {detail}")).collect();
    match details.is_empty() {
        true => line,
        false => line + &paint.text(Style::Dim, &details),
    }
}

/// Returns that a role at work on a task waits for another one, on a line below the task.
fn wait_text(wait: &Wait, now: Time, paint: Paint) -> String {
    let (role, on) = (name(wait.role.as_str()), name(&wait.on));
    let since = span(now.since(wait.since));
    let text = format!("{role} waits for {on} · {since}");
    format!("{:19}{}", "", paint.text(Style::Dim, &text))
}

fn wait_line(wait: &Wait) -> WaitLine {
    WaitLine {
        task: wait.task.0,
        role: wait.role.to_string(),
        on: wait.on.clone(),
        request: wait.request.to_string(),
        since: time_text(wait.since),
    }
}

/// Returns what else there is to say of a task in a few words.
fn detail(plan: &Plan, task: &Task, now: Time) -> Option<String> {
    match task.status {
        TaskStatus::Pending => {
            let unmet = plan.unmet(task);
            (!unmet.is_empty()).then(|| format!("after {}", numbers(&unmet)))
        }
        TaskStatus::InProgress => Some(under_way(plan, task, now)),
        TaskStatus::Completed => task.evidence.as_ref().map(|evidence| {
            let word = if evidence.verified {
                "verified"
            } else {
                "unverified"
            };
            word.to_owned()
        }),
        TaskStatus::Failed | TaskStatus::Skipped => task
            .result
            .as_ref()
            .map(|reason| crate::wire::text::one_line(reason, RESULT)),
    }
}

fn under_way(plan: &Plan, task: &Task, now: Time) -> String {
    if plan
        .open_questions()
        .any(|question| question.task == Some(task.number))
    {
        return "waits for your answer".to_owned();
    }
    let Some(attempt) = plan.current_attempt(task) else {
        return "started".to_owned();
    };
    let number = attempt.number;
    match (attempt.state, attempt.claimed) {
        (AttemptState::Open, None) => format!("attempt {number} handed out"),
        (AttemptState::Open, Some(since)) => {
            let waits = attempt.waits_until.filter(|until| *until > now);
            let waits = waits.map(|until| {
                let wait = span(until.since(now));
                format!(", its model fails and is asked again in {wait}")
            });
            format!(
                "attempt {number} for {}{}",
                span(now.since(since)),
                waits.unwrap_or_default()
            )
        }
        (AttemptState::Reported, _) => format!("attempt {number} is being judged"),
        _ if *plan.status() != PlanStatus::Running => format!("attempt {number} is over"),
        _ => format!("attempt {number} is over, the next comes"),
    }
}

/// Returns a span as a person says it, in its largest unit.
fn span(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

fn question_text(question: &Question, only: bool, paint: Paint, program: &Program) -> String {
    let about = match question.task {
        Some(task) => format!("Question about task {task}"),
        None => "Question".to_owned(),
    };
    let choices: Vec<&str> = question
        .choices
        .iter()
        .map(|choice| choice.as_str())
        .collect();
    let id = if only {
        String::new()
    } else {
        format!("{} ", name(question.id.as_str()))
    };
    let meanings = question.choices.iter().map(|choice| {
        let meaning = meaning(question.about, *choice);
        paint.text(
            Style::Dim,
            &format!("\n    {:<8} {meaning}", choice.as_str()),
        )
    });
    format!(
        "{}\n{}  Answer: {program} answer {id}{}{}",
        paint.text(Style::Bold, &about),
        indented(&question.reason, "  "),
        choices.join("|"),
        meanings.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::super::sample::{self, NOW};
    use super::*;

    #[test]
    fn a_person_sees_what_is_done_under_way_and_asked() {
        insta::assert_snapshot!(text(&sample::plan(), &[], Some(7), 50, NOW, Paint::none(), &Program::with(None)), @r#"
        kqzjwmha  Word counter  running
        Goal: Count the words of a file
        1 of 5 tasks done · 2 in progress · 1 ready · 1 blocked
        Used: agents 3 of 200 attempts

           1  completed    Write the counter · unverified
           2  in progress  Serve "it" <over> HTTP; #1 · waits for your answer
           3  blocked      Describe both · after 2
           4  in progress  Test · attempt 1 for 5 min
           5  ready        Publish

        Question about task 2
          failed three times: the port is taken
          Answer: plan-agent answer retry|skip|abort
            retry    try the task once more; the note goes along to the agent
            skip     leave the task out; what waits for it goes on without it
            abort    end the plan for good; agents at work stop, their work stays
        "#);
    }

    #[test]
    fn a_person_sees_who_is_at_work() {
        let page = text(
            &sample::with_roles(),
            &[],
            Some(7),
            50,
            NOW,
            Paint::none(),
            &Program::with(None),
        );
        insta::assert_snapshot!(page, @r#"
        kqzjwmha  Word counter  running
        Goal: Count the words of a file
        1 of 5 tasks done · 2 in progress · 1 ready · 1 blocked
        At work: coder 1 of 1 (task 4) · tester 0 of 2
        Used: agents 3 of 200 attempts

           1  completed    Write the counter · unverified
           2  in progress  Serve "it" <over> HTTP; #1 · waits for your answer
           3  blocked      Describe both · tester · after 2
           4  in progress  Test · coder · attempt 1 for 5 min
           5  ready        Publish · coder

        Question about task 2
          failed three times: the port is taken
          Answer: plan-agent answer retry|skip|abort
            retry    try the task once more; the note goes along to the agent
            skip     leave the task out; what waits for it goes on without it
            abort    end the plan for good; agents at work stop, their work stays
        "#);
        let status = json(&sample::with_roles(), &[], 11, Some(7), 1);
        insta::assert_snapshot!(serde_json::to_string(&status.lanes).unwrap(), @r#"{"most":3,"busy":1,"roles":[{"role":"coder","most":1,"tasks":[4]},{"role":"tester","most":2,"tasks":[]}],"others":[]}"#);
    }

    #[test]
    fn a_small_page_shows_what_goes_on() {
        insta::assert_snapshot!(text(&sample::plan(), &[], None, 2, NOW, Paint::none(), &Program::with(None)), @r#"
        kqzjwmha  Word counter  stopped
        Goal: Count the words of a file
        1 of 5 tasks done · 2 in progress · 1 ready · 1 blocked
        Used: agents 3 of 200 attempts

              … 1 earlier
           2  in progress  Serve "it" <over> HTTP; #1 · waits for your answer
           3  blocked      Describe both · after 2
              … 2 more

        Question about task 2
          failed three times: the port is taken
          Answer: plan-agent answer retry|skip|abort
            retry    try the task once more; the note goes along to the agent
            skip     leave the task out; what waits for it goes on without it
            abort    end the plan for good; agents at work stop, their work stays

        No daemon works here: `plan-agent resume kqzjwmha` goes on, with its --agent if it had one.
        "#);
    }

    #[test]
    fn programs_get_the_agreed_shape() {
        let status = json(&sample::plan(), &[], 11, Some(7), 50);
        insta::assert_snapshot!(serde_json::to_string_pretty(&status).unwrap(), @r#"
        {
          "plan": {
            "id": "kqzjwmha",
            "name": "Word counter",
            "goal": "Count the words of a file",
            "status": "running",
            "seq": 11
          },
          "progress": {
            "total": 5,
            "pending": 2,
            "ready": 1,
            "blocked": 1,
            "in_progress": 2,
            "completed": 1,
            "failed": 0,
            "skipped": 0
          },
          "tasks": [
            {
              "id": 1,
              "key": "1",
              "name": "Write the counter",
              "status": "completed",
              "verified": false,
              "assignee": null,
              "dependencies": [],
              "attempts": 1,
              "result": "counts words",
              "usage": {
                "llm_calls": 0,
                "llm_tokens": 0,
                "agent_tokens": 0,
                "cost_usd": 0.0,
                "seconds": 0.0
              }
            },
            {
              "id": 2,
              "key": "2",
              "name": "Serve \"it\" <over> HTTP; \u001b]0;title\u0007#1",
              "status": "in_progress",
              "verified": null,
              "assignee": null,
              "dependencies": [
                1
              ],
              "attempts": 1,
              "result": null,
              "usage": {
                "llm_calls": 0,
                "llm_tokens": 0,
                "agent_tokens": 0,
                "cost_usd": 0.0,
                "seconds": 0.0
              }
            },
            {
              "id": 3,
              "key": "3",
              "name": "Describe both",
              "status": "pending",
              "verified": null,
              "assignee": null,
              "dependencies": [
                1,
                2
              ],
              "attempts": 0,
              "result": null,
              "usage": {
                "llm_calls": 0,
                "llm_tokens": 0,
                "agent_tokens": 0,
                "cost_usd": 0.0,
                "seconds": 0.0
              }
            },
            {
              "id": 4,
              "key": "4",
              "name": "Test",
              "status": "in_progress",
              "verified": null,
              "assignee": null,
              "dependencies": [
                1
              ],
              "attempts": 1,
              "result": null,
              "usage": {
                "llm_calls": 0,
                "llm_tokens": 0,
                "agent_tokens": 0,
                "cost_usd": 0.0,
                "seconds": 0.0
              }
            },
            {
              "id": 5,
              "key": "5",
              "name": "Publish",
              "status": "pending",
              "verified": null,
              "assignee": null,
              "dependencies": [],
              "attempts": 0,
              "result": null,
              "usage": {
                "llm_calls": 0,
                "llm_tokens": 0,
                "agent_tokens": 0,
                "cost_usd": 0.0,
                "seconds": 0.0
              }
            }
          ],
          "questions": [
            {
              "id": "question-7",
              "task": 2,
              "reason": "failed three times\u001b[2J: the port is taken",
              "choices": [
                "retry",
                "skip",
                "abort"
              ]
            }
          ],
          "usage": {
            "llm_calls": 0,
            "llm_input_tokens": 0,
            "llm_output_tokens": 0,
            "llm_cost_usd": 0.0,
            "agent_input_tokens": 0,
            "agent_output_tokens": 0,
            "agent_cost_usd": 0.0,
            "attempts": 3,
            "wall_seconds": 0.0,
            "budget": {
              "llm_calls": 500,
              "llm_tokens": 5000000,
              "cost_usd": 20.0,
              "attempts": 200,
              "wall_seconds": 43200.0
            }
          },
          "daemon": {
            "pid": 7
          }
        }
        "#);
        let status = serde_json::to_value(json(&sample::plan(), &[], 11, None, 2)).unwrap();
        assert_eq!(status["truncated"], true);
        assert_eq!(status["tasks"].as_array().unwrap().len(), 2);
        assert!(status["daemon"].is_null());
    }

    #[test]
    fn a_window_never_leaves_the_plan() {
        let plan = sample::plan();
        for limit in [0, 1, 4, 5, 6, usize::MAX] {
            let window = Window::of(&plan, limit);
            assert_eq!(window.before + window.tasks.len() + window.after, 5);
            assert_eq!(window.tasks.len(), limit.min(5));
        }
    }

    #[test]
    fn spans_have_one_unit() {
        let said = [0, 119, 120, 7199, 7200].map(|seconds| span(Duration::from_secs(seconds)));
        assert_eq!(said, ["0 s", "119 s", "2 min", "119 min", "2 h"]);
    }
}
