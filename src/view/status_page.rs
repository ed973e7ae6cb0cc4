//! How far a plan is: a page for a person at a terminal.

use super::plan::Progress;
use super::{
    Mark, Paint, PlanView, ProgramName, QuestionView, StateWord, Style, TaskView, WAY_OUT,
    WAY_TO_A_WORKER, indented, name, numbers, place_of_results, span,
};
use crate::plan::{AttemptState, Language, PlanState, RoleRequest, TaskState, Time, counted};
use crate::view::LastDaemon;
use crate::wire::{
    ONLY_ITS_OWN, joined, meaning, one_line, parse_time, role_phrases, way_to_permit,
};

/// The longest result that stands beside a task.
const RESULT: usize = 120;

impl PlanView {
    /// Returns the plan as a page for a person.
    pub fn page(&self, now: Time, paint: Paint, program: &ProgramName) -> String {
        let head = &self.head;
        let id = paint.text(Style::Dim, &name(head.id.as_str()));
        let title = paint.text(Style::Bold, &name(&head.name));
        let state = self.state_text(paint);
        let mut lines = vec![format!("{id}  {title}  {state}")];
        if head.goal.trim() != head.name.trim() {
            lines.push(format!("Goal: {}", name(&head.goal)));
        }
        lines.push(self.progress.line());
        let at_work = self.at_work(Language::En);
        lines.extend(at_work.map(|lanes| format!("At work: {lanes}")));
        let settled = head.status.settled();
        let branch = self.plan.branch.as_ref().filter(|_| !settled);
        lines.extend(branch.map(|branch| format!("Results: the branch {}", name(branch))));
        lines.extend(self.used.clone());
        if !head.allowed.is_empty() {
            let quoted = head.allowed.iter();
            let quoted = quoted.map(|one| format!("`{}`", one_line(one, 200)));
            lines.push(format!("Allowed to every agent: {}", joined(quoted, ", ")));
        }
        lines.push(String::new());

        let (earlier, later) = self.hidden;
        lines.extend(more(earlier, "earlier"));
        for task in &self.tasks {
            let stopped = self.daemon.is_none();
            lines.push(task.line(&head.status, stopped, now, paint));
            lines.extend(task.waits.iter().map(|wait| wait_text(wait, now)));
        }
        lines.extend(more(later, "more"));

        for question in &self.questions {
            lines.push(String::new());
            let only = self.questions.len() == 1 && !self.others_ask;
            lines.push(question.text(only, paint, program));
        }
        if let Some(outcome) = &head.outcome {
            lines.push(format!("\n{}", indented(outcome, "").trim_end()));
        }
        if settled && head.line.is_some() {
            let place = place_of_results(head, &name(&head.workspace), program);
            lines.push(format!("{place}."));
        }
        if self.no_worker {
            let no_role = format!("{ONLY_ITS_OWN}; {WAY_TO_A_WORKER}");
            let said = "A task without an assignee is for no role";
            lines.push(format!("\n{said}: {no_role}."));
        }
        let daemon = self.daemon.as_ref();
        let elsewhere = daemon.and_then(|daemon| daemon["home"].as_str());
        lines.extend(elsewhere.map(|home| format!("\nA daemon at {} carries it out.", name(home))));
        let home = self.home.as_deref().map(name);
        let goes_on = program.goes_on(&name(head.id.as_str()), home.as_deref());
        if self.plan.state == StateWord::Stopped {
            lines.push(match (self.daemon_elsewhere, head.queued_for()) {
                (true, Some(_)) => {
                    "\nThe daemon here goes on with it when its turn comes.".to_owned()
                }
                (true, None) => format!("\nThe daemon here does not carry it out: {goes_on}."),
                (false, _) => format!("\nNo daemon works here: {goes_on}."),
            });
        }
        if self.no_daemon_begins_it() {
            let ways = format!(
                "`{program} daemon` begins what is queued, `{program} resume {}` this",
                name(head.id.as_str())
            );
            lines.push(format!("\nNo daemon works here: {ways}."));
        }
        if self.plan.state == StateWord::Paused && self.questions.is_empty() {
            lines.push(format!("\nNothing new begins: {goes_on}."));
        }
        lines.extend(self.last_daemon.as_ref().map(|last| last.text(now)));
        lines.join("\n") + "\n"
    }

    /// Returns what is under way on the lanes of each role; `None` for a plan without roles or one that has ended.
    pub(super) fn at_work(&self, language: Language) -> Option<String> {
        let lanes = self.lanes.as_ref().filter(|_| !self.head.status.settled());
        lanes.map(|lanes| lanes.line(language))
    }

    /// Returns whether the plan is queued in this folder, and no daemon works there that would begin it.
    fn no_daemon_begins_it(&self) -> bool {
        let waits = self.plan.state == StateWord::NotStarted && self.head.queued_for().is_some();
        waits && self.daemon.is_none() && !self.daemon_elsewhere && self.home.is_none()
    }

    fn state_text(&self, paint: Paint) -> String {
        let (state, why) = (self.plan.state, self.head.status.why());
        // What the last one said may not be so any more.
        let queued = match self.no_daemon_begins_it() {
            true => Some("for a daemon"),
            false => self.head.queued_for(),
        };
        let queued = queued.map(|what| format!(": waits {}", one_line(what, WAY_OUT)));
        let why = why.map(|why| format!(": {}", name(why)));
        let why = why.or(queued).unwrap_or_default();
        paint.text(state.style(), &format!("{}{why}", state.as_str()))
    }
}

impl LastDaemon {
    fn text(&self, now: Time) -> String {
        let ago = |moment: &str| {
            let ago = parse_time(moment).map(|moment| span(now.since(moment)));
            ago.map_or_else(|| moment.to_owned(), |ago| format!("{ago} ago"))
        };
        match self {
            Self::Ended { ended_at, why } => {
                format!("The last one ended {}: {why}.", ago(ended_at))
            }
            Self::Gone { pid, started_at } => format!(
                "The last one (pid {pid}, begun {}) is gone without a word: killed, or the machine went down.",
                ago(started_at)
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
        let shown = |(state, count): &(&_, &_)| **count > 0 && **state != StateWord::Completed;
        let rest = self.by_state.iter().filter(shown);
        let rest = rest.map(|(state, count)| format!(" · {count} {}", state.as_str()));
        done + &rest.collect::<String>()
    }
}

fn more(count: usize, word: &str) -> Option<String> {
    (count > 0).then(|| format!("      … {count} {word}"))
}

/// Returns that a role at work on a task waits for another one, on a line below the task.
fn wait_text(wait: &RoleRequest, now: Time) -> String {
    let (waits, since) = (role_phrases::waits(wait), span(now.since(wait.since)));
    format!("{:19}{waits} · {since}", "")
}

impl TaskView {
    fn line(&self, plan: &PlanState, stopped: bool, now: Time, paint: Paint) -> String {
        let word = paint.text(self.state.style(), &format!("{:<11}", self.state.as_str()));
        let line = format!("{:>4}  {word}  {}", self.id, name(&self.name));
        let role = self.assignee.as_deref().map(role_phrases::role);
        let no_worker = self.no_worker.then(|| "for no role".to_owned());
        let details = [role, no_worker].into_iter().flatten();
        let details = details.map(|detail| (detail, Style::Plain));
        let details = details.chain(self.detail(plan, stopped, now));
        details.fold(line, |line, (detail, style)| {
            line + &paint.text(Style::Dim, " · ") + &paint.text(style, &detail)
        })
    }

    /// Returns what else there is to say of a task in a few words.
    fn detail(&self, plan: &PlanState, stopped: bool, now: Time) -> Option<(String, Style)> {
        let reason = || (self.result.as_ref()).map(|reason| one_line(reason, RESULT));
        match self.status {
            TaskState::Pending if !self.unmet.is_empty() => {
                Some((format!("after {}", numbers(&self.unmet)), Style::Dim))
            }
            TaskState::Pending => {
                let wait = self.waits_for_lock.as_ref();
                wait.map(|wait| (wait.clone(), Style::Dim))
            }
            // The question itself stands below.
            TaskState::InProgress if self.asked.is_some() => None,
            TaskState::InProgress => Some((self.under_way(plan, stopped, now), Style::Plain)),
            TaskState::Completed if self.by_hand => {
                let mark = Mark::accepted(false);
                Some((format!("{} by hand, {}", mark.glyph, mark.word), mark.style))
            }
            TaskState::Completed => self.proven.map(|proven| {
                let mark = Mark::accepted(proven);
                (mark.text(), mark.style)
            }),
            TaskState::Failed => {
                let reason = reason().unwrap_or_else(|| Mark::FAILED.word.to_owned());
                let text = format!("{} {reason}", Mark::FAILED.glyph);
                Some((text, Mark::FAILED.style))
            }
            TaskState::Skipped => reason().map(|reason| (reason, Style::Plain)),
        }
    }

    fn under_way(&self, plan: &PlanState, stopped: bool, now: Time) -> String {
        let Some(attempt) = &self.attempt else {
            return "started".to_owned();
        };
        let number = attempt.number;
        match (attempt.state, attempt.claimed) {
            (AttemptState::Open, None) => format!("attempt {number} waits for an agent"),
            (AttemptState::Open, Some(since)) => {
                let waits = attempt.model_asked_at.map(|until| {
                    let wait = span(until.since(now));
                    format!(", its model fails and is asked again in {wait}")
                });
                let worked = span(now.since(since));
                if stopped {
                    // No daemon knows whether its agent still works.
                    return format!("attempt {number}, begun {worked} ago");
                }
                format!("attempt {number} for {worked}{}", waits.unwrap_or_default())
            }
            // Its agent may still be at work.
            (AttemptState::Reported, _) => {
                format!("attempt {number} has reported, and awaits its decision")
            }
            _ if *plan != PlanState::Running => format!("attempt {number} is over"),
            _ if let Some(until) = self.not_before => {
                let wait = span(until.since(now));
                format!(
                    "the agent's usage limit ends in {wait}, then attempt {} comes",
                    number + 1
                )
            }
            _ => format!("attempt {number} is over, the next comes"),
        }
    }
}

impl QuestionView {
    /// Returns the question with its answers. The only one is answered without its id.
    pub fn text(&self, only: bool, paint: Paint, program: &ProgramName) -> String {
        let about = match self.task {
            Some(task) => format!("Question about task {task}"),
            None => "Question".to_owned(),
        };
        let choices: Vec<&str> = self.choices.iter().map(|choice| choice.as_str()).collect();
        let id = match only {
            true => String::new(),
            false => format!("{} ", name(&self.id)),
        };
        let width = choices.iter().map(|word| word.len()).max();
        let width = width.unwrap_or_default().max(8);
        let meanings = self.choices.iter().map(|choice| {
            let meaning = meaning(self.about, *choice, self.attempts);
            format!("\n    {:<width$} {meaning}", choice.as_str())
        });
        let about = paint.text(Style::Bold, &about);
        let reason = indented(&self.reason, "  ");
        let permit = way_to_permit(&self.reason, &program.to_string(), Language::En);
        let permit = permit.map_or(String::new(), |way| format!("  {way}\n"));
        let (choices, meanings) = (choices.join("|"), meanings.collect::<String>());
        format!("{about}\n{reason}{permit}  Answer: {program} answer {id}{choices}{meanings}")
    }
}

#[cfg(test)]
mod tests;
