//! How what came in changes the plan: reports, answers of a person, signs of life, and what a model said.

use super::arrival::{Arrival, Refused, Reply};
use super::desk::{Desk, Outgoing, new_question};
use super::exchange::Filed;
use super::inspect::QuickLook;
use super::steps::{Asked, Said};
use crate::plan::{
    By, CommandId, Draft, Head, Question, QuestionId, Refusal, SessionId, Taken, Verdict, World,
};
use crate::volumes::{Sign, Volumes};
use crate::wire::text::safe_session;

/// What a look changed in the plan.
#[derive(Debug, Default)]
pub(super) struct Effect {
    pub(super) outgoing: Vec<Outgoing>,
    pub(super) filings: Vec<(String, Filed)>,
    pub(super) complaints: Vec<(QuestionId, String)>,
    /// Sessions whose `end` command is in its folder.
    pub(super) ends_published: Vec<SessionId>,
}

/// Takes in what a look found, and decides what follows from it.
pub(super) fn take(
    draft: &mut Draft<'_>,
    reports: Vec<Arrival>,
    replies: Vec<(QuestionId, Reply)>,
    signs: &[(CommandId, Sign)],
    seen: Option<&QuickLook>,
    desk: &Desk,
    world: &World,
) -> Effect {
    let mut effect = Effect::default();
    for (id, sign) in signs {
        let session = sign
            .life
            .session
            .clone()
            .filter(|session| safe_session(session))
            .map(SessionId::new);
        if let Err(refusal) = draft.part(|draft| draft.claim(id, session)) {
            tracing::warn!(%refusal, "a sign of life of an unknown command");
            continue;
        }
        if let Err(refusal) = draft.part(|draft| draft.waits(id, sign.life.blocked_until)) {
            tracing::warn!(%refusal, "an agent waits for nothing that is known");
        }
    }
    for arrival in reports {
        take_report(draft, arrival, seen, desk, &mut effect);
    }
    for (id, reply) in replies {
        take_reply(draft, id, reply, &mut effect);
    }
    effect.outgoing = desk.decide(draft, world);
    effect
}

fn take_report(
    draft: &mut Draft<'_>,
    arrival: Arrival,
    seen: Option<&QuickLook>,
    desk: &Desk,
    effect: &mut Effect,
) {
    let name = arrival.name.clone();
    let Some(command) = arrival.command.clone() else {
        if let Err(Refused {
            reason,
            explanation,
        }) = arrival.content
        {
            draft.reject_file(&name, &reason);
            effect.filings.push((name, Filed::Rejected(explanation)));
        }
        return;
    };
    let filed = match arrival.content {
        Ok(report) => draft
            .part(|draft| {
                let taken = draft.report(&command, report)?;
                if let (Taken::Counts, Some(seen)) = (taken, seen) {
                    seen.record(draft, &command)?;
                }
                Ok(taken)
            })
            .map(Filed::from),
        Err(Refused {
            reason,
            explanation,
        }) => draft
            .part(|draft| {
                let question = new_question(draft.plan(), &desk.volumes);
                draft.reject(&command, &reason, &arrival.hash, question)
            })
            .map(|_| Filed::Rejected(explanation)),
    };
    match filed {
        Ok(filed) => {
            if filed != Filed::Processed {
                tracing::warn!(name, ?filed, "a report that does not count");
            }
            effect.filings.push((name, filed));
        }
        Err(refusal) => tracing::error!(%refusal, name, "a report was refused"),
    }
}

fn take_reply(draft: &mut Draft<'_>, id: QuestionId, reply: Reply, effect: &mut Effect) {
    let complaint = match reply {
        Reply::Answer(choice, note) => draft
            .part(|draft| draft.answer(&id, choice, &note, "file"))
            .err()
            .map(|refusal| refusal.to_string()),
        Reply::Unusable(reason) => Some(reason),
    };
    if let Some(reason) = complaint {
        let choices = draft.plan().question(&id).map(offered).unwrap_or_default();
        effect.complaints.push((
            id,
            format!("The answer was not taken: {reason}.\n\nHint: {choices}\n"),
        ));
    }
}

fn offered(question: &Question) -> String {
    let words: Vec<&str> = question
        .choices
        .iter()
        .map(|choice| choice.as_str())
        .collect();
    format!(
        "write one of these behind `answer:` in the question's file: {}.",
        words.join(", ")
    )
}

/// Takes in what came of a question to the model: what it used, and its effect. An answer that the plan refuses counts as
/// none.
pub(super) fn take_answer(
    draft: &mut Draft<'_>,
    asked: Asked,
    volumes: &Volumes,
) -> Result<(), Refusal> {
    draft.count_ask(&asked.ask, asked.spent)?;
    let question = new_question(draft.plan(), volumes);
    let (said, text) = match asked.said {
        Ok(said) => said,
        Err(error) => return draft.failed_ask(&asked.ask, &error, question),
    };
    draft.answered_ask(&asked.ask, &text)?;
    match draft.part(|draft| take_effect(draft, said, question.clone())) {
        // Decided otherwise meanwhile.
        Ok(()) | Err(Refusal::NotAwaited(_) | Refusal::PlanIs(_)) => Ok(()),
        Err(refusal) => {
            tracing::warn!(%refusal, "the plan refuses what the model answered");
            draft.refused_ask(
                &asked.ask,
                &format!("the plan refuses its answer: {refusal}"),
                question,
            )
        }
    }
}

fn take_effect(draft: &mut Draft<'_>, said: Said, question: QuestionId) -> Result<(), Refusal> {
    match said {
        Said::Plan(plan) => {
            draft.describe(|head: &mut Head| {
                if !plan.name.is_empty() {
                    head.name = plan.name;
                }
                head.description = plan.description;
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
        Said::Judgement(command, judgement) => {
            let verdict = Verdict {
                decision: judgement.decision,
                reason: judgement.reason,
                feedback: judgement.feedback,
                result_summary: judgement.result_summary,
                by: By::Model,
                at: draft.now(),
            };
            draft.judge(&command, &verdict, question)
        }
        Said::Edits(edits) => {
            let reason = draft
                .plan()
                .head()
                .replan
                .as_ref()
                .map(|open| open.why.clone())
                .unwrap_or_default();
            draft.replan(&edits, &reason)
        }
        Said::Audit(audit) => draft.audited(
            &audit.reason,
            (!audit.met).then_some(audit.missing),
            question,
        ),
        Said::Summary(text) => draft.settle(&text),
    }
}
