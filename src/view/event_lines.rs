//! What happened to a plan, one line a change: for `log` and for the progress of `run`.

use jiff::tz::TimeZone;

use super::{Paint, Style, moment, name, numbers};
use crate::plan::{
    ArchiveState, AttemptKind, DAEMON, Decision, Event, ModelQuestionKind, ReportStatus,
    RoleRequestEnd, TaskId, Time, counted,
};
use crate::store::Change;
use crate::wire;
use crate::wire::text::{one_line, time_text};

/// The longest reason that stands on a line.
const REASON: usize = 160;

/// Characters of what is wrong with a model: with the way out, which stands at the end.
const FAULT: usize = 600;

/// Characters of a commit's id.
const SHORT_COMMIT: usize = 10;

/// Returns what a change did with its number and its moment, for the log: a line an event. What the daemon did not do by itself
/// says who did it and why, on the first line that is not about who waits for whom, which says it itself.
pub fn lines(change: &Change, zone: &TimeZone, paint: Paint) -> Vec<String> {
    let when = format!("{:>5}  {}", change.seq, moment(change.at, zone));
    let when = paint.text(Style::Dim, &when);
    let line = |text: &str| format!("{when}  {text}");
    let mut lines: Vec<String> = change
        .delta
        .events
        .iter()
        .map(|event| happened_in(change, event))
        .map(|(text, style)| line(&paint.text(style, &text)))
        .collect();
    let says_itself =
        |event: &Event| matches!(event, Event::Requested { .. } | Event::RequestEnded { .. });
    let events = &change.delta.events;
    let said_of = events.iter().position(|event| !says_itself(event));
    if change.by != DAEMON && (said_of.is_some() || events.is_empty()) {
        let said = format!("({}: {})", short(&change.by), short(&change.why));
        let said = paint.text(Style::Dim, &said);
        match said_of.and_then(|at| lines.get_mut(at)) {
            Some(line) => *line = format!("{line}  {said}"),
            None => lines.push(line(&said)),
        }
    }
    lines
}

/// As [`happened`], with what the change has beside it: what is not tried again before a person has answered is no retry.
pub(super) fn happened_in(change: &Change, event: &Event) -> (String, Style) {
    if let Event::Judged {
        task,
        decision: Decision::Retry,
        reason,
        ..
    } = event
    {
        let asked = |other: &Event| matches!(other, Event::Asked { task: Some(asked), .. } if asked == task);
        if change.delta.events.iter().any(asked) {
            let text = format!("task {task}: not accepted: {}", short(reason));
            return (text, Style::Bad);
        }
    }
    happened(event)
}

/// Returns what happened in one line, and how to show it.
fn happened(event: &Event) -> (String, Style) {
    use Style::{Bad, Bold, Busy, Dim, Good, Plain};
    let on = |task: &TaskId, text: String| format!("task {task}: {text}");
    match event {
        Event::Created { goal } if goal.trim().is_empty() => ("created".to_owned(), Bold),
        Event::Created { goal } => (format!("goal: {}", name(goal)), Bold),
        Event::Planned { tasks } => (format!("planned {}", counted(*tasks, "task")), Plain),
        Event::Started => ("started".to_owned(), Plain),
        Event::Asking { subject, calls } => (asking(subject, *calls), Dim),
        Event::Issued {
            task,
            attempt,
            kind,
            role,
            ..
        } => {
            let role = role.as_deref().map(wire::lanes_text::role);
            let role = role.map_or(String::new(), |role| format!(" ({role})"));
            (on(task, issued(*attempt, *kind) + &role), Busy)
        }
        Event::Claimed { task, role, .. } => {
            let role = role.as_deref().map(wire::lanes_text::role);
            let who = role.unwrap_or_else(|| "an agent".to_owned());
            (on(task, format!("{who} works on it")), Busy)
        }
        Event::Requested {
            task,
            role,
            on: asked,
            what,
            ..
        } => {
            let (role, asked) = (wire::lanes_text::role(role), wire::lanes_text::role(asked));
            let text = format!("{role} waits for {asked}: {}", short(what));
            (on(task, text), Busy)
        }
        Event::RequestEnded {
            task,
            role,
            on: asked,
            how,
            ..
        } => {
            let (role, asked) = (wire::lanes_text::role(role), wire::lanes_text::role(asked));
            let (text, style) = match how {
                RoleRequestEnd::Completed => (format!("{asked} answered {role}: completed"), Plain),
                RoleRequestEnd::Error => (format!("{asked} answered {role}: error"), Bad),
                RoleRequestEnd::Rejected => (format!("{asked} answered {role}: rejected"), Bad),
                RoleRequestEnd::TimedOut => {
                    (format!("{asked} did not answer {role}: timed out"), Bad)
                }
                RoleRequestEnd::AskedAgain => (format!("{role} asks {asked} again"), Plain),
                RoleRequestEnd::TakenBack => {
                    (format!("{role} does not wait for {asked} any more"), Dim)
                }
            };
            (on(task, text), style)
        }
        Event::Waits { task, until, .. } => {
            let until = time_text(Time(*until));
            let text = format!("the model behind its agent fails, and is asked again at {until}");
            (on(task, text), Dim)
        }
        Event::Reported { task, status, .. } => (
            on(task, format!("reported {}", status.as_str())),
            match status {
                ReportStatus::Success => Plain,
                ReportStatus::PartialSuccess | ReportStatus::Failed => Bad,
            },
        ),
        Event::Rejected { task, reason, .. } => (
            on(task, format!("report unreadable: {}", short(reason))),
            Bad,
        ),
        Event::FileRejected { name, reason } => {
            let name = one_line(name, REASON);
            (format!("`{name}` is not read: {}", short(reason)), Bad)
        }
        Event::Stale { task, .. } => (
            on(task, "a report came that counts no more".to_owned()),
            Dim,
        ),
        Event::Checked { task, passed, .. } => {
            if *passed {
                (on(task, "checks pass".to_owned()), Plain)
            } else {
                (on(task, "a check fails".to_owned()), Bad)
            }
        }
        Event::Judged {
            task,
            decision,
            reason,
            ..
        } => (
            on(task, format!("{}: {}", decision.as_str(), short(reason))),
            match decision {
                Decision::Next => Plain,
                Decision::Retry | Decision::Replan | Decision::Abort => Bad,
            },
        ),
        Event::Merged { task, commit, .. } => {
            let commit = commit.get(..SHORT_COMMIT).unwrap_or(commit);
            (on(task, format!("merged as {}", short(commit))), Dim)
        }
        Event::TimedOut { task, reason, .. } => {
            (on(task, format!("timed out: {}", short(reason))), Bad)
        }
        Event::Withdrawn { task, .. } => (on(task, "its command was taken back".to_owned()), Dim),
        Event::Parked { task, until } => {
            let until = time_text(Time(*until));
            (
                on(
                    task,
                    format!("waits for the agent's usage limit until {until}"),
                ),
                Dim,
            )
        }
        Event::Added { task, name: title } => (on(task, format!("added: {}", name(title))), Plain),
        Event::Updated { task } => (on(task, "changed".to_owned()), Plain),
        Event::Removed { task } => (on(task, "taken out".to_owned()), Plain),
        Event::TaskStarted { task } => (on(task, "started".to_owned()), Busy),
        Event::Completed { task, verified } => {
            let word = if *verified { "verified" } else { "unverified" };
            (on(task, format!("completed, {word}")), Good)
        }
        Event::Skipped { task, reason } => (on(task, format!("skipped: {}", short(reason))), Dim),
        Event::Stumbled { task, reason } => (
            on(
                task,
                format!("failed, to be tried again: {}", short(reason)),
            ),
            Bad,
        ),
        Event::Failed { task, reason } => (on(task, format!("failed: {}", short(reason))), Bad),
        Event::Reopened { task } => (on(task, "opened again".to_owned()), Plain),
        Event::Asked { task, reason, .. } => {
            let about = task.map_or(String::new(), |task| {
                format!(" about task {}", numbers(&[task]))
            });
            (format!("asks you{about}: {}", short(reason)), Bold)
        }
        Event::Answered {
            choice, note, by, ..
        } => {
            let note = if note.is_empty() {
                String::new()
            } else {
                format!(": {}", short(note))
            };
            (
                format!("answered {} ({}){note}", choice.as_str(), short(by)),
                Bold,
            )
        }
        Event::QuestionClosed { reason, .. } => (
            format!("the question needs no answer any more: {}", short(reason)),
            Dim,
        ),
        Event::ModelFailed { subject, error } => (
            format!(
                "the model failed to {}: {}",
                task_of(subject),
                one_line(error, FAULT)
            ),
            Bad,
        ),
        Event::Replanning { reason } => (
            format!("the rest of the plan is to change: {}", short(reason)),
            Bold,
        ),
        Event::Replanned {
            added,
            updated,
            skipped,
            reason,
        } => (
            format!(
                "plan changed, {added} added, {updated} updated, {skipped} skipped: {}",
                short(reason)
            ),
            Plain,
        ),
        Event::Audited { met, reason } => {
            if *met {
                (format!("the goal is met: {}", short(reason)), Good)
            } else {
                (format!("the goal is not met yet: {}", short(reason)), Bad)
            }
        }
        Event::Paused { reason } => (format!("paused: {}", short(reason)), Bold),
        Event::Resumed => ("goes on".to_owned(), Plain),
        Event::StrategyChosen { strategy, reason } => (
            format!("plans it as {}: {}", short(strategy), short(reason)),
            Plain,
        ),
        Event::Reset => ("every task is as at the beginning".to_owned(), Plain),
        Event::Restored { seq } => (format!("restored to what it was after change {seq}"), Bold),
        Event::TakenUp => ("made the current plan".to_owned(), Plain),
        Event::PutAway {
            archive_state: ArchiveState::Deleted,
        } => ("deleted; its history remains".to_owned(), Plain),
        Event::PutAway { .. } => ("put into the history".to_owned(), Plain),
        Event::Settled { status, .. } => (
            short(status),
            if status == "completed" { Good } else { Bad },
        ),
    }
}

fn asking(subject: &ModelQuestionKind, calls: u32) -> String {
    match calls {
        0 | 1 => format!("asks the model to {}", task_of(subject)),
        again => format!("asks the model to {}, call {again}", task_of(subject)),
    }
}

fn task_of(subject: &ModelQuestionKind) -> &'static str {
    match subject {
        ModelQuestionKind::Plan => "plan",
        ModelQuestionKind::Judge(_) => "judge the result",
        ModelQuestionKind::Replan => "change the plan",
        ModelQuestionKind::Audit => "audit the goal",
        ModelQuestionKind::Summary => "summarise",
        ModelQuestionKind::Strategy => "choose how to plan",
        ModelQuestionKind::Step(_) => "do a step",
    }
}

fn issued(attempt: u32, kind: AttemptKind) -> String {
    match (kind, attempt) {
        (AttemptKind::Repair, _) => "asked for a readable report".to_owned(),
        (_, 1) => "dispatched".to_owned(),
        (_, again) => format!("dispatched, attempt {again}"),
    }
}

fn short(text: &str) -> String {
    one_line(text, REASON)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{AnswerChoice, CommandId, Delta, QuestionId};

    #[test]
    fn change_prints_as_one_line() {
        let task = TaskId(2);
        let command = CommandId::new("task-2a");
        let request = CommandId::new("task-2b");
        let ended = |how| Event::RequestEnded {
            task,
            command: command.clone(),
            role: "reviewer".into(),
            on: "coder".into(),
            request: request.clone(),
            how,
        };
        let events = [
            Event::Created {
                goal: "count\n\u{1b}[2Jwords".into(),
            },
            Event::Planned { tasks: 1 },
            Event::Asking {
                subject: ModelQuestionKind::Judge(command.clone()),
                calls: 2,
            },
            Event::Issued {
                task,
                attempt: 2,
                command: command.clone(),
                kind: AttemptKind::Continue,
                role: None,
            },
            Event::Issued {
                task,
                attempt: 1,
                command: command.clone(),
                kind: AttemptKind::New,
                role: Some("reviewer".into()),
            },
            Event::Claimed {
                task,
                command: command.clone(),
                role: Some("reviewer".into()),
            },
            Event::Requested {
                task,
                command: command.clone(),
                role: "reviewer".into(),
                on: "coder\u{1b}[2J".into(),
                request: request.clone(),
                what: "Mend\nit".into(),
            },
            ended(RoleRequestEnd::Rejected),
            ended(RoleRequestEnd::TimedOut),
            ended(RoleRequestEnd::AskedAgain),
            ended(RoleRequestEnd::TakenBack),
            Event::Judged {
                task,
                command: command.clone(),
                decision: Decision::Retry,
                reason: "two\nlines\u{202e}".into(),
            },
            Event::Asked {
                question: QuestionId::new("question-1"),
                task: Some(task),
                reason: "what now".into(),
                choices: vec![AnswerChoice::Retry],
            },
            Event::Answered {
                question: QuestionId::new("question-1"),
                choice: AnswerChoice::Retry,
                note: "use 8081".into(),
                by: "terminal".into(),
            },
            Event::FileRejected {
                name: "notes\u{202e}.md".into(),
                reason: "its name is not `report-<command id>.md`".into(),
            },
            Event::Parked {
                task,
                until: 1_800_000_000_000_000,
            },
            Event::Settled {
                status: "completed".into(),
                outcome: String::new(),
            },
        ];
        let lines: Vec<String> = events.iter().map(|event| happened(event).0).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        goal: count words
        planned 1 task
        asks the model to judge the result, call 2
        task 2: dispatched, attempt 2
        task 2: dispatched (reviewer)
        task 2: reviewer works on it
        task 2: reviewer waits for coder: Mend it
        task 2: coder answered reviewer: rejected
        task 2: coder did not answer reviewer: timed out
        task 2: reviewer asks coder again
        task 2: reviewer does not wait for coder any more
        task 2: retry: two lines
        asks you about task 2: what now
        answered retry (terminal): use 8081
        `notes.md` is not read: its name is not `report-<command id>.md`
        task 2: waits for the agent's usage limit until 2027-01-15T08:00:00Z
        completed
        ");
    }

    #[test]
    fn author_and_reason_print_on_first_event_line() {
        let ended = Event::RequestEnded {
            task: TaskId(2),
            command: CommandId::new("task-2a"),
            role: "reviewer".into(),
            on: "coder".into(),
            request: CommandId::new("task-2b"),
            how: RoleRequestEnd::TakenBack,
        };
        let settled = Event::Settled {
            status: "abandoned".into(),
            outcome: String::new(),
        };
        let told = |events: &[&Event]| {
            let change = Change {
                seq: 7,
                at: Time::default(),
                by: "command line".into(),
                why: "aborted".into(),
                delta: Delta {
                    rows: Vec::new(),
                    events: events.iter().copied().cloned().collect(),
                },
            };
            let lines = lines(&change, &TimeZone::UTC, Paint::none());
            let text = |line: &String| line.rsplit("00  ").next().unwrap().to_owned();
            lines.iter().map(text).collect::<Vec<_>>()
        };
        let wait = "task 2: reviewer does not wait for coder any more";
        let by = "(command line: aborted)";
        assert_eq!(
            told(&[&ended, &settled, &settled]),
            [wait, &format!("abandoned  {by}"), "abandoned"]
        );
        assert_eq!(told(&[&ended]), [wait]);
        assert_eq!(told(&[]), [by]);
    }
}
