//! How reports, answers of a person, heartbeats and the results of effects change the plan.

use super::{
    AnswerFile, BranchReport, EffectResult, FoundInput, ModelDecision, ModelOutcome, ParsedReport,
    QuickInspection,
};
use crate::plan::{
    AnswerChoice, AppliedReport, Draft, HumanQuestion, IN_FILE, ModelQuestion, PlanHead, PlanState,
    QuestionId, Refusal, Verdict,
};
use crate::volumes::{ReportDisposition, Withdrawal, machine};
use crate::wire::question_file::in_file;

/// What is to be done in the folders after the change.
#[derive(Debug, Default)]
pub(super) struct FollowUp {
    pub(super) filings: Vec<(String, ReportDisposition)>,
    /// What is wrong with answers.
    pub(super) complaints: Vec<(QuestionId, String)>,
}

/// Applies what was found for a plan, of the heartbeats only new ones.
pub(super) fn apply_found(
    draft: &mut Draft<'_>,
    found: &FoundInput,
    inspected: Option<&QuickInspection>,
) -> FollowUp {
    for (id, sign) in &found.signs {
        let task = draft.plan().attempt(id).map(|attempt| attempt.task);
        let role = task.and_then(|task| draft.plan().role_of(task));
        // What a relay has says where it is.
        let waits_for_relay = sign.life.machine.is_none() && draft.plan().behind_relays(role);
        // Of a paused plan, what is not claimed is taken back.
        let running = *draft.plan().status() == PlanState::Running;
        let claimed = draft.part(|draft| match waits_for_relay {
            true if running && sign.beat.is_some() => {
                draft.given_back(id)?;
                let refused = sign.life.refused.as_deref();
                refused.map_or(Ok(()), |why| draft.refused_by_relay(id, why))?;
                Ok(false)
            }
            true => Ok(false),
            false => draft.claim(id, sign.life.session.clone()),
        });
        if let Err(refusal) = claimed {
            tracing::warn!(%refusal, "a heartbeat of an unknown command");
            continue;
        }
        // It is removed when the report is there, which this scan may not have found: that says nothing.
        if sign.beat.is_none() {
            continue;
        }
        let elsewhere = sign.life.machine.as_deref();
        let machine = (elsewhere.filter(|it| Some(*it) != machine())).map(str::to_owned);
        let noted = draft.part(|draft| {
            draft.works_at(id, sign.life.agent.as_deref(), machine)?;
            draft.waits(id, sign.life.blocked_until)
        });
        if let Err(refusal) = noted {
            tracing::warn!(%refusal, "an agent waits for nothing that is known");
        }
    }
    let mut follow_up = FollowUp::default();
    for report in &found.reports {
        let filed = apply_report(draft, report, inspected);
        let filing = filed.map(|filed| (report.name.clone(), filed));
        follow_up.filings.extend(filing);
    }
    for (id, reply) in &found.replies {
        let complaint = apply_answer(draft, id, reply).map(|complaint| (id.clone(), complaint));
        follow_up.complaints.extend(complaint);
    }
    follow_up
}

/// Returns where the report goes, if the plan does not refuse it.
fn apply_report(
    draft: &mut Draft<'_>,
    arrival: &ParsedReport,
    inspected: Option<&QuickInspection>,
) -> Option<ReportDisposition> {
    let name = &arrival.name;
    let filed = match (&arrival.command, arrival.content.clone()) {
        (None, Ok(_)) => return None,
        (None, Err(refused)) => {
            draft.reject_file(name, &refused.reason);
            Ok(ReportDisposition::Rejected(refused.explanation))
        }
        (Some(command), Ok(report)) => draft.part(|draft| {
            let applied = draft.report(command, report)?;
            if let (AppliedReport::Counts, Some(inspected)) = (applied, inspected) {
                inspected.record(draft, command)?;
            }
            Ok(applied.into())
        }),
        (Some(command), Err(refused)) => draft.part(|draft| {
            let known = draft.plan().attempt(command);
            let known = known.and_then(|attempt| attempt.rejected.as_ref());
            let known = known.is_some_and(|rejected| rejected.hash == arrival.hash);
            if !draft.reject(command, &refused.reason, &arrival.hash)? && !known {
                draft.reject_file(name, &refused.reason);
            }
            Ok(ReportDisposition::Rejected(refused.explanation))
        }),
    };
    filed
        .inspect_err(|refusal| tracing::error!(%refusal, name, "a report was refused"))
        .ok()
}

/// Returns the message to a person whose answer was refused.
fn apply_answer(draft: &mut Draft<'_>, id: &QuestionId, reply: &AnswerFile) -> Option<String> {
    let reason = match reply {
        Ok((choice, note)) => {
            let answered = draft.part(|draft| draft.answer(id, *choice, note, IN_FILE));
            match answered.err()? {
                refusal @ Refusal::InFile(_) => {
                    let word = choice.as_str();
                    return Some(format!(
                        "The answer was not taken: {refusal}.\n\nHint: `plan-agent answer {id} {word}` gives it, or the terminal of the run.\n"
                    ));
                }
                refusal => refusal.to_string(),
            }
        }
        Err(reason) => reason.clone(),
    };
    let choices = draft.plan().question(id).map(offered).unwrap_or_default();
    Some(format!(
        "The answer was not taken: {reason}.\n\nHint: {choices}\n"
    ))
}

fn offered(question: &HumanQuestion) -> String {
    let words = in_file(question).map(AnswerChoice::as_str);
    let words = words.collect::<Vec<_>>().join(", ");
    format!("write one of these behind `answer:` in the question's file: {words}.")
}

/// Applies the result of an effect.
pub(super) fn apply_result(draft: &mut Draft<'_>, input: &EffectResult) -> Result<(), Refusal> {
    match input {
        EffectResult::Unprepared(id, why) => draft.unprepared(id, why),
        EffectResult::Withdrawn(id, done) => {
            let attempt = draft.plan().attempt(id);
            let recall = attempt.is_some_and(|attempt| attempt.recall);
            match done {
                Withdrawal::Withdrawn => draft.withdrawn(id),
                Withdrawal::Taken if recall => draft.recalled(id),
                // A command whose file is gone was claimed.
                Withdrawal::Taken => draft.claim(id, None).map(drop),
            }
        }
        EffectResult::Inspected(id, found) => {
            draft.ran(id, found.ran.clone())?;
            draft.inspected(id, found.changes.clone(), found.tree.as_deref())
        }
        EffectResult::Checked(id, checked) => {
            if let Some(merge) = checked.merge.clone() {
                draft.merged(id, merge)?;
            }
            draft.checked(id, checked.results.clone())
        }
        EffectResult::CheckedBefore(task, before) => draft.checked_before(*task, before.clone()),
        EffectResult::CheckedAgain(later, results) => draft.checked_again(*later, results),
        EffectResult::CheckedAtEnd(after, results) => draft.checked_at_end(*after, results),
        EffectResult::Branch(BranchReport::There(commit)) => draft.branch_moved(commit),
        EffectResult::Branch(BranchReport::Joined(merge)) => draft.branch_joined(merge),
        EffectResult::Branch(BranchReport::Elsewhere { found, reason }) => {
            draft.branch_elsewhere(found, reason)
        }
        EffectResult::Asked(Some(asked)) => apply_model_answer(draft, ModelOutcome::clone(asked)),
        _ => Ok(()),
    }
}

/// Applies the outcome of a question to the model: what the call cost, and the answer. An answer that the plan
/// refuses counts as none.
pub(super) fn apply_model_answer(
    draft: &mut Draft<'_>,
    asked: ModelOutcome,
) -> Result<(), Refusal> {
    draft.count_ask(&asked.ask, asked.spent)?;
    let settled = |ask: &ModelQuestion| ask.answered.is_some();
    if draft.plan().ask(&asked.ask).is_some_and(settled) {
        return Ok(());
    }
    let (said, text) = match asked.said {
        Ok(said) => said,
        Err(error) => return draft.failed_ask(&asked.ask, &error.told(), error.away()),
    };
    draft.answered_ask(&asked.ask, &text)?;
    match draft.part(|draft| apply_model_decision(draft, said)) {
        // Another decision was made meanwhile.
        Ok(()) | Err(Refusal::NotAwaited(_) | Refusal::PlanIs(_)) => Ok(()),
        Err(refusal) => {
            tracing::warn!(%refusal, "the plan refuses what the model answered");
            let reason = format!("the plan refuses its answer: {refusal}");
            draft.refused_ask(&asked.ask, &reason)
        }
    }
}

fn apply_model_decision(draft: &mut Draft<'_>, said: ModelDecision) -> Result<(), Refusal> {
    match said {
        ModelDecision::Plan(plan) => {
            draft.change_head(|head: &mut PlanHead| {
                if !plan.name.is_empty() {
                    head.name = plan.name;
                }
                head.description = plan.description;
                head.problems = plan.problems;
                if let Some(order) = plan.order {
                    head.order = order;
                    head.source = plan.source;
                    head.expected_outcome = plan.expected_outcome;
                }
                if head.constraints.is_empty() {
                    head.constraints = plan.constraints;
                }
            });
            draft.make_tasks(plan.tasks).map(drop)
        }
        ModelDecision::Judgement(command, verdict) => {
            let verdict = Verdict {
                at: draft.now(),
                ..verdict
            };
            draft.judge(&command, &verdict)
        }
        ModelDecision::Edits(edits) => {
            let open = draft.plan().head().replan.as_ref();
            let reason = open.map(|open| open.why.clone()).unwrap_or_default();
            draft.replan(&edits, &reason)
        }
        ModelDecision::Audit(audit) => {
            draft.audited(&audit.reason, (!audit.met).then_some(audit.missing))
        }
        ModelDecision::Summary(text) => draft.settle(&text),
    }
}
