//! How far a plan is: a page for a person at a terminal.

use std::time::Duration;

use super::plan::{Progress, QuestionView};
use super::task::TaskView;
use super::{
    Mark, Paint, PlanView, ProgramName, Style, WAY_TO_A_WORKER, indented, name, numbers, style,
};
use crate::plan::{AttemptState, PlanState, RoleRequest, TaskState, Time, counted};
use crate::view::LastDaemon;
use crate::wire::question_file::meaning;
use crate::wire::role_text;
use crate::wire::team_file::ONLY_ITS_OWN;
use crate::wire::text::one_line;

/// The longest result that stands beside a task.
const RESULT: usize = 120;

impl PlanView {
    /// Returns the plan as a page for a person.
    pub fn page(&self, now: Time, paint: Paint, program: &ProgramName) -> String {
        let head = &self.head;
        let mut lines = vec![format!(
            "{}  {}  {}",
            paint.text(Style::Dim, &name(head.id.as_str())),
            paint.text(Style::Bold, &name(&head.name)),
            self.state(paint)
        )];
        if head.goal.trim() != head.name.trim() {
            lines.push(format!("Goal: {}", name(&head.goal)));
        }
        lines.push(self.progress.line());
        lines.extend(self.at_work().map(|lanes| format!("At work: {lanes}")));
        if let Some(branch) = self.branch() {
            lines.push(format!("Results: the branch {}", name(branch)));
        }
        lines.extend(self.used.clone());
        lines.push(String::new());

        let (earlier, later) = self.hidden;
        lines.extend(more(earlier, "earlier"));
        for task in &self.tasks {
            lines.push(task.line(&head.status, now, paint));
            let waits = task.waits.iter();
            lines.extend(waits.map(|wait| wait_text(wait, now)));
        }
        lines.extend(more(later, "more"));

        for question in &self.questions {
            lines.push(String::new());
            lines.push(question.text(self.questions.len() == 1, paint, program));
        }
        if let Some(outcome) = &head.outcome {
            lines.push(format!("\n{}", indented(outcome, "").trim_end()));
        }
        if self.no_worker {
            let no_role = format!("{ONLY_ITS_OWN}; {WAY_TO_A_WORKER}");
            lines.push(format!(
                "\nA task without an assignee is for no role: {no_role}."
            ));
        }
        if self.daemon.is_none() && head.status == PlanState::Running {
            let goes_on = program.goes_on(&name(head.id.as_str()), head.of_team());
            lines.push(format!("\nNo daemon works here: {goes_on}."));
        }
        lines.extend(self.last_daemon.as_ref().map(LastDaemon::text));
        lines.join("\n") + "\n"
    }

    /// Returns what is under way on the lanes of each role; `None` for a plan without roles or one that has ended.
    pub(super) fn at_work(&self) -> Option<String> {
        let lanes = self.lanes.as_ref();
        let lanes = lanes.filter(|_| !self.head.status.settled());
        lanes.map(super::lanes::LanesView::line)
    }

    fn state(&self, paint: Paint) -> String {
        let status = &self.head.status;
        match status {
            PlanState::Running if self.daemon.is_none() => paint.text(Style::Busy, "stopped"),
            PlanState::Paused(why) => paint.text(Style::Busy, &format!("paused: {}", name(why))),
            PlanState::Completed => paint.text(Style::Good, status.as_str()),
            PlanState::Failed | PlanState::Abandoned => paint.text(Style::Bad, status.as_str()),
            PlanState::Idle | PlanState::Running => paint.text(Style::Busy, status.as_str()),
        }
    }
}

impl LastDaemon {
    fn text(&self) -> String {
        match self {
            Self::Ended { ended_at, why } => format!("The last one ended at {ended_at}: {why}."),
            Self::Gone { pid, started_at } => format!(
                "The last one (pid {pid}, since {started_at}) is gone without a word: killed, or the machine went down."
            ),
        }
    }
}

impl Progress {
    fn line(&self) -> String {
        if self.total == 0 {
            return "no tasks yet".to_owned();
        }
        let done = format!("{} of {} done", self.completed, counted(self.total, "task"));
        let rest = [
            (self.in_progress, "in progress"),
            (self.ready, "ready"),
            (self.blocked, "blocked"),
            (self.failed, "failed"),
            (self.skipped, "skipped"),
        ];
        rest.iter()
            .filter(|(count, _)| *count > 0)
            .fold(done, |line, (count, word)| {
                format!("{line} · {count} {word}")
            })
    }
}

fn more(count: usize, word: &str) -> Option<String> {
    (count > 0).then(|| format!("      … {count} {word}"))
}

/// Returns that a role at work on a task waits for another one, on a line below the task.
fn wait_text(wait: &RoleRequest, now: Time) -> String {
    let (waits, since) = (role_text::waits(wait), span(now.since(wait.since)));
    let text = format!("{waits} · {since}");
    format!("{:19}{text}", "")
}

impl TaskView {
    fn line(&self, plan: &PlanState, now: Time, paint: Paint) -> String {
        let word = paint.text(style(self.state), &format!("{:<11}", self.state));
        let line = format!("{:>4}  {word}  {}", self.id, name(&self.name));
        let role = self.assignee.as_deref().map(role_text::role);
        let no_worker = self.no_worker.then(|| "for no role".to_owned());
        let details = [role, no_worker].into_iter().flatten();
        let details = details.map(|detail| (detail, Style::Plain));
        let details = details.chain(self.detail(plan, now));
        details.fold(line, |line, (detail, style)| {
            line + &paint.text(Style::Dim, " · ") + &paint.text(style, &detail)
        })
    }

    /// Returns what else there is to say of a task in a few words.
    fn detail(&self, plan: &PlanState, now: Time) -> Option<(String, Style)> {
        let reason = || (self.result.as_ref()).map(|reason| one_line(reason, RESULT));
        match self.status {
            TaskState::Pending => (!self.unmet.is_empty())
                .then(|| (format!("after {}", numbers(&self.unmet)), Style::Dim)),
            TaskState::InProgress => {
                let asks = self.asked.is_some().then_some(Mark::Asks.style());
                Some((self.under_way(plan, now), asks.unwrap_or(Style::Plain)))
            }
            TaskState::Completed => self.verified.map(|verified| {
                let mark = Mark::accepted(verified);
                (mark.text(), mark.style())
            }),
            TaskState::Failed => {
                let reason = reason().unwrap_or_else(|| Mark::Failed.word().to_owned());
                let text = format!("{} {reason}", Mark::Failed.glyph());
                Some((text, Mark::Failed.style()))
            }
            TaskState::Skipped => reason().map(|reason| (reason, Style::Plain)),
        }
    }

    fn under_way(&self, plan: &PlanState, now: Time) -> String {
        if self.asked.is_some() {
            return format!("{} waits for your answer", Mark::Asks.glyph());
        }
        let Some(attempt) = &self.attempt else {
            return "started".to_owned();
        };
        let number = attempt.number;
        match (attempt.state, attempt.claimed) {
            (AttemptState::Open, None) => format!("attempt {number} dispatched, not taken yet"),
            (AttemptState::Open, Some(since)) => {
                let waits = attempt.model_asked_at.map(|until| {
                    let wait = span(until.since(now));
                    format!(", its model fails and is asked again in {wait}")
                });
                let worked = span(now.since(since));
                format!("attempt {number} for {worked}{}", waits.unwrap_or_default())
            }
            (AttemptState::Reported, _) => format!("attempt {number} is being judged"),
            _ if *plan != PlanState::Running => format!("attempt {number} is over"),
            _ => format!("attempt {number} is over, the next comes"),
        }
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

impl QuestionView {
    fn text(&self, only: bool, paint: Paint, program: &ProgramName) -> String {
        let about = match self.task {
            Some(task) => format!("Question about task {task}"),
            None => "Question".to_owned(),
        };
        let choices: Vec<&str> = self.choices.iter().map(|choice| choice.as_str()).collect();
        let id = match only {
            true => String::new(),
            false => format!("{} ", name(&self.id)),
        };
        let meanings = self.choices.iter().map(|choice| {
            let meaning = meaning(self.about, *choice);
            format!("\n    {:<8} {meaning}", choice.as_str())
        });
        format!(
            "{}\n{}  Answer: {program} answer {id}{}{}",
            paint.text(Style::Bold, &about),
            indented(&self.reason, "  "),
            choices.join("|"),
            meanings.collect::<String>()
        )
    }
}

#[cfg(test)]
mod tests;
