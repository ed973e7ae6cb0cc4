//! Operations that decide an attempt: the verdict and its effect, and ends that are no failure.

use std::time::Duration;

use super::*;
use crate::plan::proof::{criteria, evidence};

/// The longest pause that an agent may ask for.
const LONGEST_PARK: Duration = Duration::from_secs(7 * 24 * 3600);

/// The shortest wait where the limit has stopped the task before and its end has come: twice as long each time, up to an hour. A
/// clock may be wrong, or the end given too early.
const SHORTEST_PARK: Duration = Duration::from_secs(60);
const LONGEST_DOUBLED: Duration = Duration::from_secs(3600);

/// So many limits in a row are put to a person: the end of them may be a bill to be paid.
const MOST_PARKS: usize = 8;

/// The most characters of a report's text that a task's result keeps.
const RESULT_CHARS: usize = 2000;

impl Draft<'_> {
    /// Decides a reported attempt. Words of a person that came while its agent worked reach it: a result that would be accepted
    /// is kept, and another attempt goes on from it with them. That is no failure.
    ///
    /// # Errors
    /// The attempt awaits no verdict; `next` without success or with a failing check.
    pub fn judge(&mut self, id: &CommandId, verdict: &Verdict) -> Result {
        let (mut attempt, report) = self.set_aside(id)?;
        let next = verdict.decision == Decision::Next;
        refuse_if(next && !acceptable(&attempt), Refusal::NotAcceptable)?;
        let number = attempt.task;
        let mut task = self.task(number)?;
        let goes_on = next && task.told.is_some();
        let said_more = goes_on.then(|| said_more(verdict));
        let verdict = said_more.as_ref().unwrap_or(verdict);
        self.log(Event::Judged {
            task: number,
            command: id.clone(),
            decision: verdict.decision,
            reason: verdict.reason.clone(),
        });
        attempt.verdict = Some(verdict.clone());
        if goes_on {
            task.note = Some(verdict.feedback.clone());
            self.insert_attempt(attempt);
            self.insert(task);
            return Ok(());
        }
        if let Some(sides) = both_sides(&task, &attempt, verdict) {
            self.insert_attempt(attempt);
            // What a person who says `retry` gives the agent.
            task.note = Some(verdict.feedback.clone()).filter(|feedback| !feedback.is_empty());
            self.insert(task);
            return self.ask(HumanQuestionKind::Unsure, Some(number), &sides);
        }
        match verdict.decision {
            Decision::Next => self.accept(attempt, verdict),
            Decision::Retry => {
                let feedback = or(&verdict.feedback, &verdict.reason);
                self.fail_attempt(attempt, &verdict.reason, feedback, verdict.by)
            }
            Decision::Replan => {
                self.insert_attempt(attempt);
                let why = match verdict.feedback.trim() {
                    "" => verdict.reason.clone(),
                    learned => format!("{}\nLearned: {learned}", verdict.reason),
                };
                self.want_replan(number, &why)
            }
            Decision::Abort => {
                self.insert_attempt(attempt);
                let confirm = match self.plan.head().policy.confirm_abort {
                    ConfirmAbort::Always => true,
                    ConfirmAbort::Never => false,
                    ConfirmAbort::Success => report.status != ReportStatus::Failed,
                };
                if !confirm {
                    return self.abandon(&verdict.reason);
                }
                let reason = format!("the judge wants to end the plan: {}", verdict.reason);
                self.ask(HumanQuestionKind::Abort, Some(number), &reason)
            }
        }
    }

    /// Completes the task of an attempt. Where results are merged, the attempt is merged again first if other results were
    /// accepted since.
    pub(super) fn accept(&mut self, attempt: Attempt, verdict: &Verdict) -> Result {
        if let Some(line) = &self.plan.head().line {
            match attempt.merge.clone() {
                Some(merge) if merge.onto == line.tip => self.accept_merge(&attempt, merge.commit),
                _ => return self.merge_again(attempt, verdict),
            }
        }
        let task = self.task(attempt.task)?;
        let results = attempt.report.as_ref().map_or("", |report| &report.results);
        let summary = or(&verdict.result_summary, results);
        let evidence = evidence(&task, &attempt);
        // An answer to a question about a completed task would work on it again.
        self.close_questions("the task was completed", |q| q.task == Some(task.number));
        let result = summary.chars().take(RESULT_CHARS).collect();
        self.complete(task, result, Some(evidence));
        self.note_silent(attempt.task, &attempt);
        self.insert_attempt(attempt);
        Ok(())
    }

    /// Completes a task.
    pub(super) fn complete(&mut self, task: Task, result: String, evidence: Option<Evidence>) {
        self.log(Event::Completed {
            task: task.number,
            proven: evidence.as_ref().is_some_and(|evidence| evidence.proven),
        });
        self.insert(Task {
            status: TaskState::Completed,
            result: Some(result),
            evidence,
            failures: 0,
            not_before: None,
            finished_at: Some(self.now),
            ..task
        });
    }

    /// Accepts the current attempt of a task because a person says so.
    pub(super) fn accept_as_is(&mut self, task: TaskId, note: &str) -> Result {
        let current = self.task(task)?.current;
        let current = current.ok_or_else(|| Refusal::UnknownTask(task.to_string()))?;
        let mut attempt = self.attempt(&current)?;
        refuse_if(!acceptable(&attempt), Refusal::NotAcceptable)?;
        let verdict = Verdict {
            decision: Decision::Next,
            reason: or(note, "accepted by a person").to_owned(),
            by: DecidedBy::Person,
            at: self.now,
            ..Verdict::default()
        };
        attempt.state = AttemptState::Judged;
        attempt.verdict = Some(verdict.clone());
        self.accept(attempt, &verdict)
    }

    /// Stores an ended attempt as failed. After too many failures in a row it asks a human, or skips the task if it is
    /// optional.
    pub(super) fn fail_attempt(
        &mut self,
        mut attempt: Attempt,
        reason: &str,
        feedback: &str,
        by: DecidedBy,
    ) -> Result {
        let mut task = self.task(attempt.task)?;
        let number = task.number;
        attempt.verdict.get_or_insert_with(|| Verdict {
            decision: Decision::Retry,
            reason: reason.to_owned(),
            feedback: feedback.to_owned(),
            by,
            at: self.now,
            ..Verdict::default()
        });
        // Each time something else was accepted, so that this comes to an end.
        let line = self.plan.head().line.as_ref();
        if !line.is_some_and(|line| attempt.was_overtaken(line)) {
            task.failures += 1;
        }
        self.insert_attempt(attempt);
        task.note = Some(feedback.to_owned());
        let (failures, optional) = (task.failures, task.optional);
        self.insert(task);
        if failures < self.plan.head().policy.max_attempts {
            return Ok(());
        }
        let failed = match failures {
            1 => "failed once".to_owned(),
            _ => format!("failed {failures} times in a row"),
        };
        let cause = reason.trim_end_matches('.');
        if optional {
            return self.skip_task(number, &format!("{cause}; optional, and it {failed}"));
        }
        let reason = format!("{cause}; the task {failed}");
        self.ask(HumanQuestionKind::Failures, Some(number), &reason)
    }

    /// Ends a reported attempt that is no failure: the agent asks a human something first.
    ///
    /// # Errors
    /// The attempt awaits no verdict or asks nothing.
    pub fn agent_asks(&mut self, id: &CommandId) -> Result {
        let (attempt, report) = self.set_aside(id)?;
        let asks = report.question.as_ref();
        let asks = asks.ok_or_else(|| Refusal::NotAwaited(id.clone()))?;
        let task = attempt.task;
        self.insert_attempt(attempt);
        self.ask_for_agent(task, &report, asks)
    }

    /// Ends a reported attempt that is no failure: the agent's usage limit stops it until a time that it names.
    ///
    /// # Errors
    /// The attempt awaits no verdict or names no time.
    pub fn park(&mut self, id: &CommandId) -> Result {
        let (attempt, report) = self.set_aside(id)?;
        let until = report.blocked_until;
        let until = until.ok_or_else(|| Refusal::NotAwaited(id.clone()))?;
        let earlier = self.plan.attempts_of(attempt.task).rev();
        let earlier = earlier.skip_while(|other| other.id != *id).skip(1);
        let in_a_row = earlier.take_while(|other| other.is_parked()).count();
        let shortest = match u32::try_from(in_a_row).unwrap_or(u32::MAX) {
            0 => Duration::ZERO,
            times => SHORTEST_PARK.saturating_mul(2_u32.saturating_pow(times - 1)),
        };
        let shortest = shortest.min(LONGEST_DOUBLED);
        let until = until.clamp(self.now.plus(shortest), self.now.plus(LONGEST_PARK));
        let mut task = self.task(attempt.task)?;
        task.not_before = Some(until);
        task.note = Some("go on where the usage limit stopped you".to_owned());
        self.log(Event::Parked {
            task: task.number,
            until: until.0,
        });
        let number = task.number;
        self.insert_attempt(attempt);
        self.insert(task);
        let times = in_a_row + 1;
        if !times.is_multiple_of(MOST_PARKS) {
            return Ok(());
        }
        let reason = format!("a usage limit stopped its agent {times} times in a row");
        self.ask(HumanQuestionKind::Failures, Some(number), &reason)
    }

    /// Lets tasks go on that wait for the end of a usage limit, which is that of an agent that works on the plan no more.
    ///
    /// # Errors
    /// A task does not exist.
    pub fn end_waits_of_agent(&mut self) -> Result {
        let waiting = self.plan.to_be_retried();
        let waiting = waiting.filter(|task| task.not_before.is_some());
        let waiting: Vec<TaskId> = waiting.map(|task| task.number).collect();
        (waiting.into_iter()).try_for_each(|id| self.change_task(id, |task| task.not_before = None))
    }

    /// Returns a reported attempt as a decided one, with its report. The model need not judge it any more.
    fn set_aside(&mut self, id: &CommandId) -> Result<(Attempt, Report)> {
        let mut attempt = self.attempt_if(id, |attempt| attempt.state == AttemptState::Reported)?;
        let report = attempt.report.clone();
        let report = report.ok_or_else(|| Refusal::NotAwaited(id.clone()))?;
        attempt.state = AttemptState::Judged;
        self.drop_judge_ask(&attempt);
        Ok((attempt, report))
    }
}

/// Returns the verdict on a result that would be accepted, where a person said more while the agent worked.
fn said_more(verdict: &Verdict) -> Verdict {
    Verdict {
        decision: Decision::Retry,
        reason: format!(
            "a person said more while its agent worked; else it would be accepted: {}",
            verdict.reason
        ),
        feedback: "What you have done stays. A person has said more:".to_owned(),
        by: DecidedBy::Rules,
        ..verdict.clone()
    }
}

/// Returns what speaks for a result and what against it, a line each, if a person has to decide: it may be accepted, nothing of
/// it is proven, and the judge is not sure. That a part is missing, which the agent says too, has one side.
fn both_sides(task: &Task, attempt: &Attempt, verdict: &Verdict) -> Option<String> {
    let measured = criteria(task, attempt);
    let proven = measured.iter().any(|end| end.state == CriterionState::Met);
    if !verdict.unsure || verdict.decision == Decision::Abort || proven || !acceptable(attempt) {
        return None;
    }
    let said = |met: bool| {
        let mut said = verdict.criteria.iter();
        let said = said.find(|one| (one.met == CriterionState::Met) == met)?;
        Some(said.pointer.as_str()).filter(|pointer| !pointer.is_empty())
    };
    let (reason, accepts) = (verdict.reason.as_str(), verdict.decision == Decision::Next);
    let report = attempt.report.as_ref();
    if !accepts && report.is_some_and(|report| report.status == ReportStatus::PartialSuccess) {
        return None;
    }
    let nothing = measured.first().map_or("", |end| &end.why);
    let (yes, no) = match accepts {
        true => (reason, said(false).unwrap_or(nothing)),
        false => (said(true).unwrap_or("the agent says so"), reason),
    };
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (yes, no) = (line(yes), line(no));
    let sides = format!("the judge is not sure; for it: {yes}\nagainst it: {no}");
    Some(sides)
}

/// Returns whether a report may be accepted: it claims full or partial success, and no check failed.
pub fn acceptable(attempt: &Attempt) -> bool {
    let report = attempt.report.as_ref();
    let claimed = report.is_some_and(|report| report.status != ReportStatus::Failed);
    claimed && attempt.failing().next().is_none()
}
