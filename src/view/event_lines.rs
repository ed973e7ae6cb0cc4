//! What happened to a plan, one line a change: for `log` and for the progress of `run`.

use jiff::tz::TimeZone;

use super::{Mark, Paint, StateWord, Style, WAY_OUT, moment, name, span};
use crate::plan::{
    ArchiveState, AttemptKind, DAEMON, Decision, Event, MERGE_CHECK, ModelQuestionKind,
    ReportStatus, ResultsMove, RoleRequestEnd, Row, TaskId, Time, counted, unless_empty, word,
};
use crate::store::Change;
use crate::wire::{joined, one_line, role, short_commit};

/// The longest reason that stands on a line.
const REASON: usize = 160;

/// Returns what a change did with its number and its moment, for the log: a line an event. What the daemon did not do by itself
/// says who did it and why, on the first line that is not about who waits for whom, which says it itself.
pub fn lines(change: &Change, zone: &TimeZone, paint: Paint) -> Vec<String> {
    let when = format!("{:>5}  {}", change.seq, moment(change.at, zone));
    let when = paint.text(Style::Dim, &when);
    let line = |text: &str| format!("{when}  {text}");
    let events = &change.delta.events;
    let said = |event| {
        let (text, style) = happened(change, event, numbered);
        line(&paint.text(style, &text))
    };
    let mut lines: Vec<String> = events.iter().map(said).collect();
    let says_itself =
        |event: &Event| matches!(event, Event::Requested { .. } | Event::RequestEnded { .. });
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

/// Returns what each event of a change did, in one line.
pub fn events(change: &Change) -> Vec<String> {
    let happened = |event: &Event| happened(change, event, numbered).0;
    change.delta.events.iter().map(happened).collect()
}

/// Returns what happened in one line, and how to show it. `called` names the task it happened to.
pub(super) fn happened(
    change: &Change,
    event: &Event,
    called: impl Fn(TaskId) -> String,
) -> (String, Style) {
    let (text, style) = match event {
        // What is not tried again before a person has answered is no retry.
        Event::Judged {
            task,
            decision: Decision::Retry,
            reason,
            ..
        } if asks_about(change, *task) => (format!("not accepted: {}", short(reason)), Style::Bad),
        event => in_words(event, change.at),
    };
    match event.task().or_else(|| answered_about(change, event)) {
        Some(task) if !matches!(event, Event::Asked { .. }) => {
            (format!("{}: {text}", called(task)), style)
        }
        _ => (text, style),
    }
}

/// Returns the task that an answered question is about.
fn answered_about(change: &Change, event: &Event) -> Option<TaskId> {
    let Event::Answered { question: id, .. } = event else {
        return None;
    };
    change.delta.rows.iter().find_map(|row| match row {
        Row::Question(question) if question.id == *id => question.task,
        _ => None,
    })
}

fn asks_about(change: &Change, task: TaskId) -> bool {
    let asked =
        |event: &Event| matches!(event, Event::Asked { task: Some(asked), .. } if *asked == task);
    change.delta.events.iter().any(asked)
}

/// Returns how a task is called without its name.
pub(super) fn numbered(task: TaskId) -> String {
    format!("task {task}")
}

/// Returns what happened at a moment, without the task it happened to.
fn in_words(event: &Event, at: Time) -> (String, Style) {
    use Style::{Bad, Bold, Busy, Dim, Good, Plain, Unsure};
    let until = |until: &i64| span(Time(*until).since(at));
    match event {
        Event::Created { goal } if goal.trim().is_empty() => ("created".into(), Bold),
        Event::Created { goal } => (format!("goal: {}", name(goal)), Bold),
        Event::Planned { tasks, problems } => {
            let doubtful = match problems.join("; ") {
                doubts if doubts.is_empty() => doubts,
                doubts => format!("; doubtful: {}", short(&doubts)),
            };
            let planned = counted(*tasks, "task");
            (format!("planned {planned}{doubtful}"), Plain)
        }
        Event::Started => ("started".into(), Plain),
        Event::StrategyChosen { strategy, reason } => {
            let (strategy, reason) = (short(strategy), short(reason));
            (format!("plans it as {strategy}: {reason}"), Plain)
        }
        Event::Asking { subject, calls } => {
            let again = match calls {
                0 | 1 => String::new(),
                again => format!(", call {again}"),
            };
            (
                format!("asks the model to {}{again}", task_of(subject)),
                Dim,
            )
        }
        Event::Issued {
            attempt,
            kind,
            role: of,
            ..
        } => {
            let issued = match (kind, attempt) {
                (AttemptKind::Repair, _) => "asked for a readable report".to_owned(),
                (_, 1) => "dispatched".to_owned(),
                (_, again) => format!("dispatched, attempt {again}"),
            };
            let of = of.as_deref();
            let of = of.map_or(String::new(), |of| format!(" ({})", role(of)));
            (issued + &of, Busy)
        }
        Event::Claimed { role: of, .. } => {
            let who = of.as_deref().map_or("an agent".into(), role);
            (format!("{who} works on it"), Busy)
        }
        Event::Requested {
            role: by, on, what, ..
        } => {
            let text = format!("{} waits for {}: {}", role(by), role(on), short(what));
            (text, Busy)
        }
        Event::RequestEnded {
            role: by, on, how, ..
        } => request_ended(&role(by), &role(on), *how),
        Event::Machine { machine, was, .. } => {
            let is = |machine: &String| format!("its agent is at `{}`", short(machine));
            let lost = |was: &String| {
                let was = short(was);
                format!(
                    "`{was}` no longer works on it: it gave it back, or was not heard of for a minute"
                )
            };
            let said = [machine.as_ref().map(is), was.as_ref().map(lost)];
            let style = if was.is_some() { Unsure } else { Busy };
            (joined(said.into_iter().flatten(), "; "), style)
        }
        Event::RelayRefused(trouble) => (one_line(&trouble.reason, WAY_OUT), Unsure),
        Event::Waits { until: at, .. } => {
            let wait = until(at);
            let text = format!("the model behind its agent fails, and is asked again in {wait}");
            (text, Unsure)
        }
        Event::Reported { status, .. } => {
            let style = match status {
                ReportStatus::Success => Plain,
                ReportStatus::PartialSuccess | ReportStatus::Failed => Bad,
            };
            (format!("reported {}", status.as_str()), style)
        }
        Event::Rejected(trouble) => (saying("report unreadable", &trouble.reason), Bad),
        Event::FileRejected { name, reason } => {
            let (name, reason) = (short(name), short(reason));
            (format!("`{name}` is not read: {reason}"), Bad)
        }
        Event::Stale { .. } => ("a report came that counts no more".into(), Dim),
        Event::Checked {
            passed: true,
            passing,
            ..
        } => {
            let names = unless_empty(&passing.join(", "), |names| format!(": {}", short(names)));
            (format!("checks pass{names}"), Plain)
        }
        Event::Checked { failing, .. } => {
            let text = match failing.as_deref() {
                Some(MERGE_CHECK) => "its result cannot be merged".into(),
                Some(check) => format!("check `{}` fails", short(check)),
                None => "a check fails".into(),
            };
            (text, Bad)
        }
        Event::Judged {
            decision, reason, ..
        } => {
            let style = match decision {
                Decision::Next => Plain,
                Decision::Retry | Decision::Replan | Decision::Abort => Bad,
            };
            (saying(&word(decision), reason), style)
        }
        Event::Merged { commit, .. } => {
            let commit = short(short_commit(commit));
            (format!("merged as {commit}"), Dim)
        }
        Event::Results { how, place } => {
            let place = short(place);
            let text = match how {
                ResultsMove::TakenOver => format!("results taken over into {place}"),
                ResultsMove::Discarded => format!("results discarded, kept as {place}"),
                ResultsMove::Pruned => format!("removed {place}"),
            };
            (text, Plain)
        }
        Event::Unprepared(trouble) => (saying("its worktree is not ready", &trouble.reason), Bad),
        Event::TimedOut(trouble) => (saying("timed out", &trouble.reason), Bad),
        Event::Withdrawn { .. } => ("its command was taken back".into(), Dim),
        Event::Parked { until: at, .. } => {
            let text = format!("waits {} for the agent's usage limit", until(at));
            (text, Unsure)
        }
        Event::Added { name: title, .. } => (format!("added: {}", name(title)), Plain),
        Event::Updated { .. } => ("changed".into(), Plain),
        Event::Removed { .. } => ("taken out".into(), Plain),
        Event::TaskStarted { .. } => ("started".into(), Busy),
        Event::Completed { proven, .. } => {
            let mark = Mark::accepted(*proven);
            let text = format!("{} completed, {}", mark.glyph, mark.word);
            (text, mark.style)
        }
        // The reason of a person's command begins with the word itself.
        Event::Skipped { reason, .. } if reason.starts_with("skipped ") => (short(reason), Plain),
        Event::Skipped { reason, .. } => (saying("skipped", reason), Plain),
        Event::Stumbled { reason, .. } => (saying("failed, to be tried again", reason), Bad),
        Event::Failed { reason, .. } => (saying(&Mark::FAILED.text(), reason), Bad),
        Event::Told { words, .. } => (saying("told", words), Plain),
        Event::Reopened { .. } => ("opened again".into(), Plain),
        Event::Asked { task, reason, .. } => {
            let about = task.map_or(String::new(), |task| format!(" about task {task}"));
            let asks = Mark::ASKS.text();
            (format!("{asks}{about}: {}", short(reason)), Bold)
        }
        Event::Answered {
            choice, note, by, ..
        } => {
            let note = unless_empty(note, |note| format!(": {}", short(note)));
            let text = format!("answered {} ({}){note}", choice.as_str(), short(by));
            (text, Bold)
        }
        Event::QuestionClosed { reason, .. } => (
            saying("the question needs no answer any more", reason),
            Plain,
        ),
        Event::ModelFailed { subject, error } => {
            let (what, error) = (task_of(subject), one_line(error, WAY_OUT));
            (format!("the model failed to {what}: {error}"), Bad)
        }
        Event::Replanning { reason } => (saying("the rest of the plan is to change", reason), Bold),
        Event::Replanned {
            added,
            updated,
            skipped,
            reason,
        } => {
            let changed = format!("{added} added, {updated} updated, {skipped} skipped");
            (format!("plan changed, {changed}: {}", short(reason)), Plain)
        }
        Event::Audited { met: true, reason } => (saying("the goal is met", reason), Good),
        Event::Audited { met: false, reason } => (saying("the goal is not met yet", reason), Bad),
        Event::Paused { reason } => (saying("paused", reason), Bold),
        Event::Resumed => ("goes on".into(), Plain),
        Event::Reset => ("every task is as at the beginning".into(), Plain),
        Event::Adopted { from, by } => {
            let (from, by) = (short(from), short(by));
            let text = format!("goes on in {by}; it was in {from}");
            (text, Bold)
        }
        Event::NotAdopted { by, reason } => {
            let what = format!("{} cannot take it over", short(by));
            (saying(&what, reason), Bad)
        }
        Event::Restored { seq } => (format!("restored to what it was after change {seq}"), Bold),
        Event::TakenUp => ("made the current plan".into(), Plain),
        Event::PutAway {
            archive_state: ArchiveState::Deleted,
        } => ("deleted; its history remains".into(), Plain),
        Event::PutAway { .. } => ("put into the history".into(), Plain),
        Event::Settled { status, .. } if status == "completed" => (short(status), Good),
        // The word of earlier versions.
        Event::Settled { status, .. } if status == "abandoned" => {
            (StateWord::Aborted.as_str().into(), Bad)
        }
        Event::Settled { status, .. } => (short(status), Bad),
    }
}

/// Returns how the request of a role to another one ended.
fn request_ended(by: &str, on: &str, how: RoleRequestEnd) -> (String, Style) {
    use RoleRequestEnd::{AskedAgain, Completed, Error, Rejected, TakenBack, TimedOut};
    match how {
        Completed => (format!("{on} answered {by}: completed"), Style::Plain),
        Error => (format!("{on} answered {by}: error"), Style::Bad),
        Rejected => (format!("{on} answered {by}: rejected"), Style::Bad),
        TimedOut => (format!("{on} did not answer {by}: timed out"), Style::Bad),
        AskedAgain => (format!("{by} asks {on} again"), Style::Plain),
        TakenBack => (format!("{by} does not wait for {on} any more"), Style::Dim),
    }
}

pub(super) fn task_of(subject: &ModelQuestionKind) -> &'static str {
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

fn saying(what: &str, reason: &str) -> String {
    format!("{what}: {}", short(reason))
}

fn short(text: &str) -> String {
    one_line(text, REASON)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{AnswerChoice, CommandId, Delta, QuestionId};

    fn change(events: &[&Event]) -> Change {
        Change {
            seq: 7,
            at: Time::default(),
            by: "command line".into(),
            why: "aborted".into(),
            delta: Delta {
                rows: Vec::new(),
                events: events.iter().copied().cloned().collect(),
            },
        }
    }

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
            Event::Planned {
                tasks: 1,
                problems: vec![],
            },
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
                until: 720_000_000,
            },
            Event::Settled {
                status: "completed".into(),
                outcome: String::new(),
            },
        ];
        let change = change(&[]);
        let line = |event: &Event| happened(&change, event, numbered).0;
        let lines: Vec<String> = events.iter().map(line).collect();
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
        ? asks you about task 2: what now
        answered retry (terminal): use 8081
        `notes.md` is not read: its name is not `report-<command id>.md`
        task 2: waits 12 min for the agent's usage limit
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
        let printed = |events: &[&Event]| {
            let lines = lines(&change(events), &TimeZone::UTC, Paint::none());
            let text = |line: &String| line.rsplit("UTC  ").next().unwrap().to_owned();
            lines.iter().map(text).collect::<Vec<_>>()
        };
        let wait = "task 2: reviewer does not wait for coder any more";
        let by = "(command line: aborted)";
        assert_eq!(
            printed(&[&ended, &settled, &settled]),
            [wait, &format!("aborted  {by}"), "aborted"]
        );
        assert_eq!(printed(&[&ended]), [wait]);
        assert_eq!(printed(&[]), [by]);
    }
}
