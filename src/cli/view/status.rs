//! How far a plan is: a page for a person, and the JSON that programs rely on.

use std::time::Duration;

use serde::Serialize;

use super::usage::{self, PlanUsage, TaskUsage};
use super::{TAKEN_BY_NOBODY, indented, name, numbers, state};
use crate::cli::args::Program;
use crate::cli::output::{Paint, Style};
use crate::plan::{
    Attempt, AttemptState, Choice, Lanes, Line, Plan, PlanStatus, Question, Task, TaskId,
    TaskStatus, Time, Wait, counted,
};
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
    /// How the plan's last daemon ended, if nobody was there to see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_daemon: Option<LastDaemon>,
}

/// How a daemon ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum LastDaemon {
    /// It said why.
    Ended { ended_at: String, why: String },
    /// It could say nothing: killed, or the machine went down.
    Gone { pid: u32, started_at: String },
}

impl LastDaemon {
    /// Returns it as a line for a person.
    pub fn text(&self) -> String {
        match self {
            Self::Ended { ended_at, why } => format!("The last one ended at {ended_at}: {why}.\n"),
            Self::Gone { pid, started_at } => format!(
                "The last one (pid {pid}, since {started_at}) is gone without a word: killed, or the machine went down.\n"
            ),
        }
    }
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
    /// The model behind its agent failed, and is asked again then.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_until: Option<String>,
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
    what: String,
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
    /// Tasks for which another role has asked it for something.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    asked: Vec<u32>,
}

#[derive(Debug, Serialize)]
struct Daemon {
    pid: u32,
}

/// Returns the state of a plan for programs: at most `limit` tasks, those around the first unsettled one.
pub fn json(
    plan: &Plan,
    seq: i64,
    daemon: Result<u32, Option<LastDaemon>>,
    limit: usize,
    now: Time,
) -> Status {
    let head = plan.head();
    let window = Window::of(plan, limit);
    let used = usage::of_tasks(plan);
    let line = |task: &Task| {
        let used = used.get(&task.number).copied().unwrap_or_default();
        task_line(plan, task, used, now)
    };
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
        waits: plan.waits().map(wait_line).collect(),
        questions: plan.open_questions().map(question_line).collect(),
        lanes: lanes_line(plan),
        usage: usage::of_plan(plan),
        daemon: daemon.as_ref().ok().map(|pid| Daemon { pid: *pid }),
        last_daemon: daemon.err().flatten(),
    }
}

/// Returns the state of a plan for a person: at most `limit` tasks, those around the first unsettled one.
pub fn text(
    plan: &Plan,
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
        let attempt = plan.current_attempt(task);
        let waits = attempt.into_iter().flat_map(|attempt| &attempt.waits);
        lines.extend(waits.map(|wait| wait_text(wait, now, paint)));
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
    if plan.unsettled().any(|task| plan.is_nobodys(task)) {
        lines.push(format!(
            "\nA task without an assignee is for nobody: {TAKEN_BY_NOBODY}."
        ));
    }
    if daemon.is_none() && head.status == PlanStatus::Running {
        lines.push(format!(
            "\nNo daemon works here: {}.",
            program.goes_on(&name(head.id.as_str()), head.of_team())
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

fn task_line(plan: &Plan, task: &Task, usage: TaskUsage, now: Time) -> TaskLine {
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
        waits_until: plan
            .current_attempt(task)
            .and_then(|attempt| model_is_asked_at(attempt, now))
            .map(time_text),
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
                asked: ids(&lanes.asked),
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
    let nobodys = plan.is_nobodys(task).then(|| "for nobody".to_owned());
    let details = role
        .into_iter()
        .chain(nobodys)
        .chain(detail(plan, task, now));
    let details: String = details.map(|detail| format!(" · {detail}")).collect();
    match details.is_empty() {
        true => line,
        false => line + &paint.text(Style::Dim, &details),
    }
}

/// Returns that a role at work on a task waits for another one, on a line below the task.
fn wait_text(wait: &Wait, now: Time, paint: Paint) -> String {
    let (waits, since) = (lanes::waits(wait), span(now.since(wait.since)));
    let text = format!("{waits} · {since}");
    format!("{:19}{}", "", paint.text(Style::Dim, &text))
}

fn wait_line((task, wait): (TaskId, &Wait)) -> WaitLine {
    WaitLine {
        task: task.0,
        role: wait.role.clone(),
        on: wait.on.clone(),
        request: wait.request.to_string(),
        what: wait.what.clone(),
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
        (AttemptState::Open, None) => format!("attempt {number} handed out, not taken yet"),
        (AttemptState::Open, Some(since)) => {
            let waits = model_is_asked_at(attempt, now).map(|until| {
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

/// Returns when the model behind an agent that works is asked again, if it failed.
fn model_is_asked_at(attempt: &Attempt, now: Time) -> Option<Time> {
    let open = attempt.state == AttemptState::Open;
    attempt.waits_until.filter(|until| open && *until > now)
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
mod tests;
