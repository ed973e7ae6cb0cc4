//! What the daemon does for what roles in the process ask of roles behind files: where whoever is asked has to know something
//! first, a person is asked by the plan that all is done for, and the answer goes back as `continue`; a report that cannot be read
//! is asked for once more, and after that the answer says so. All of it is derived from the plans, so that it may be done again
//! after a crash; the command that is made is sent by the role that waits for it.

use std::sync::Arc;
use std::time::Duration;

use crate::plan::{
    AnswerChoice, AppliedReport, Attempt, AttemptKind, AttemptState, Collaboration, CommandId,
    DAEMON, Draft, HumanQuestion, HumanQuestionKind, Plan, PlanId, QuestionId, ROLE, Refusal,
    Report, ReportStatus, Time,
};
use crate::role::WaitChain;
use crate::store::{Store, StoreError};
use crate::volumes::Volumes;

use super::BY;
use super::carry_out_steps::{Decider, new_question};
use super::exchange::Filed;
use super::render_before_commit::{CommandTexts, in_two_parts};
use super::report_parsing::{ParsedReport, UnreadableReport};

/// Reports to one request that cannot be read: after so many there is no answer.
const MOST_UNREADABLE: u32 = 2;

/// Gives a report to the plan that its command is of, if that is one which nobody carries out here. Returns where it goes.
pub(super) async fn pass_on(
    store: &Store,
    volumes: &Volumes,
    arrival: ParsedReport,
    owner: Option<PlanId>,
) -> Result<Filed, StoreError> {
    let ParsedReport {
        name,
        hash,
        command,
        content,
    } = arrival;
    let (Some(command), volumes) = (command, volumes.clone()) else {
        let rejected = content.err().map(|refused| refused.explanation);
        return Ok(Filed::Rejected(rejected.unwrap_or_default()));
    };
    match (owner, content) {
        (Some(plan), Ok(report)) => {
            let taken = take_report(store, volumes, &plan, command, report).await?;
            Ok(taken.into())
        }
        (Some(plan), Err(refused)) => {
            let explanation = refused.explanation.clone();
            if store
                .read(&plan, |plan, _| plan.head().owner == ROLE)
                .await?
            {
                let change = move |draft: &mut Draft<'_>| {
                    unreadable(draft, &volumes, &command, &refused, &hash)
                };
                let why = "a report for it cannot be read";
                store.change(&plan, BY, why, change).await?;
            }
            Ok(Filed::Rejected(explanation))
        }
        (None, Err(refused)) => Ok(Filed::Rejected(refused.explanation)),
        (None, Ok(_)) => {
            tracing::warn!(name, "a report for an unknown command");
            Ok(Filed::Rejected(format!(
                "No command `{command}` was ever issued here.\n\nHint: name the report after the command's id.\n"
            )))
        }
    }
}

/// Keeps the report to a request. If it asks something, it is no answer: a person is to be asked, where a daemon carries
/// out what it is for.
async fn take_report(
    store: &Store,
    volumes: Volumes,
    plan: &PlanId,
    request: CommandId,
    report: Report,
) -> Result<AppliedReport, StoreError> {
    let asks = report.question.is_some() && WaitChain::of(store, Some(plan)).await?.owner == DAEMON;
    let change = move |draft: &mut Draft<'_>| {
        let taken = draft.report(&request, report)?;
        if asks && taken == AppliedReport::Counts {
            let question = new_question(draft.plan(), &volumes);
            draft.agent_asks(&request, question)?;
        }
        Ok(taken)
    };
    store.change(plan, BY, "a report came for it", change).await
}

/// Keeps that the report to a request cannot be read. Whoever wrote it may mend it for a while.
fn unreadable(
    draft: &mut Draft<'_>,
    volumes: &Volumes,
    request: &CommandId,
    refused: &UnreadableReport,
    hash: &str,
) -> Result<(), Refusal> {
    let attempt = draft.plan().attempt(request);
    if attempt.is_some_and(|attempt| attempt.rejected.is_some()) {
        return Ok(());
    }
    let question = new_question(draft.plan(), volumes);
    draft
        .reject(request, &refused.reason, hash, question)
        .map(drop)
}

/// Looks after the requests of an internal plan that is waited for.
pub(super) async fn tend(
    store: &Store,
    desk: &Decider,
    plan: &PlanId,
    chain: &WaitChain,
    now: Time,
) -> Result<(), StoreError> {
    let repair = desk.settings.timing.plan.repair;
    let found = store.read(plan, move |plan, _| {
        let asked = plan.open_questions().filter_map(|question| {
            let task = plan.task(question.task?)?;
            let request = plan.current_attempt(task)?.id.clone();
            let who = task.assignee.clone().unwrap_or_default();
            (question.about == HumanQuestionKind::Agent).then(|| (question.clone(), request, who))
        });
        (
            asked.collect::<Vec<_>>(),
            !unread(plan, now, repair).is_empty(),
        )
    });
    let (asked, unread) = found.await?;
    for (question, request, who) in asked {
        put_to_person(store, desk, plan, chain, question, request, &who).await?;
    }
    if unread {
        mend_unreadable(store, desk, plan, now).await?;
    }
    Ok(())
}

/// Puts the question of a role behind files to a person, by the plan that all is done for; if there is an answer, carries that to
/// whoever asked.
async fn put_to_person(
    store: &Store,
    desk: &Decider,
    plan: &PlanId,
    chain: &WaitChain,
    question: HumanQuestion,
    request: CommandId,
    who: &str,
) -> Result<(), StoreError> {
    let (Some(top), Some(command)) = (&chain.top, chain.command.clone()) else {
        return Ok(());
    };
    // Each plan has ids of its own for its questions.
    let put = store.read(top, {
        let request = request.clone();
        move |plan, _| {
            let mut questions = plan.questions();
            let about = |question: &&HumanQuestion| question.request.as_ref() == Some(&request);
            questions.find(about).cloned()
        }
    });
    match put.await? {
        None => {
            let asker = chain.roles.first();
            let asker = asker.map_or(String::new(), |role| format!(" for `{role}`"));
            let reason = format!("the role `{who}` asks, at work{asker}: {}", question.reason);
            let volumes = desk.settings.volumes.clone();
            let ask = move |draft: &mut Draft<'_>| {
                let task = draft.plan().attempt(&command).map(|attempt| attempt.task);
                let task = task.ok_or(Refusal::UnknownCommand(command))?;
                let id = new_question(draft.plan(), &volumes);
                draft.ask_for_request(id, task, &request, &reason)
            };
            match store.change(top, BY, "a role has a question", ask).await {
                // The task has ended meanwhile, and soon the internal plan as well.
                Err(StoreError::Refused(_)) => Ok(()),
                asked => asked,
            }
        }
        Some(put) => match put.answer {
            Some(answer) if answer.choice == AnswerChoice::Reply => {
                let (own, id, note) = (desk.clone(), question.id, answer.note);
                let carry = move |draft: &mut Draft<'_>, texts: &mut CommandTexts| {
                    go_on(draft, &own, texts, &request, &id, [&note, &answer.by])
                };
                let why = "a person has answered";
                match change(store, desk, plan, why, carry).await {
                    // It ended meanwhile.
                    Err(StoreError::Refused(_)) => Ok(()),
                    carried => carried,
                }
            }
            // It is open, or the task ends without it.
            _ => Ok(()),
        },
    }
}

/// Hands a request out again, with a person's answer to what was asked about it.
fn go_on(
    draft: &mut Draft<'_>,
    desk: &Decider,
    texts: &mut CommandTexts,
    request: &CommandId,
    question: &QuestionId,
    [note, by]: [&str; 2],
) -> Result<(), Refusal> {
    let attempt = draft.plan().attempt(request).cloned();
    let attempt = attempt.ok_or_else(|| Refusal::UnknownCommand(request.clone()))?;
    draft.answer(question, AnswerChoice::Reply, note, by)?;
    let said = attempt.report.as_ref();
    let asked = said.and_then(|report| report.question.as_deref());
    let told = match (&attempt.session, said) {
        (Some(_), _) | (_, None) => told(asked, note),
        (None, Some(report)) => format!(
            "You were asked this before, and reported:\n\n{}\n\n{}",
            report.text(),
            told(asked, note)
        ),
    };
    hand_out(draft, desk, texts, &attempt, (AttemptKind::Continue, &told))
}

fn told(asked: Option<&str>, note: &str) -> String {
    let asked = asked.unwrap_or_default().trim();
    format!("You asked:\n\n{asked}\n\nA person answers:\n\n{note}")
}

fn hand_out(
    draft: &mut Draft<'_>,
    desk: &Decider,
    texts: &mut CommandTexts,
    attempt: &Attempt,
    (kind, told): (AttemptKind, &str),
) -> Result<(), Refusal> {
    let issue = desk.ask_again(draft.plan(), attempt, kind, told, draft.now(), texts)?;
    draft.issue(attempt.task, issue)
}

/// Makes a change that writes commands, without publishing them.
async fn change(
    store: &Store,
    desk: &Decider,
    plan: &PlanId,
    why: &str,
    change: impl Fn(&mut Draft<'_>, &mut CommandTexts) -> Result<(), Refusal> + Send + Sync + 'static,
) -> Result<(), StoreError> {
    let change = Arc::new(change);
    loop {
        let (prepare, commit, _) = in_two_parts(&change, &desk.settings.prompts);
        let made = store.change_prepared(plan, BY, why, prepare, commit, |()| {});
        match made.await {
            Err(StoreError::Refused(Refusal::Dropped)) => {}
            made => return made,
        }
    }
}

/// Returns the requests whose report cannot be read and was not mended in time.
fn unread(plan: &Plan, now: Time, repair: Duration) -> Vec<Attempt> {
    let over = |attempt: &&Attempt| {
        let rejected = attempt.rejected.as_ref();
        attempt.state == AttemptState::Open
            && rejected.is_some_and(|rejected| rejected.at.plus(repair) <= now)
    };
    plan.open_attempts().filter(over).cloned().collect()
}

/// Asks once more for reports that cannot be read, and answers the requests for which that was in vain.
async fn mend_unreadable(
    store: &Store,
    desk: &Decider,
    plan: &PlanId,
    now: Time,
) -> Result<(), StoreError> {
    let own = desk.clone();
    let mend = move |draft: &mut Draft<'_>, texts: &mut CommandTexts| {
        for attempt in unread(draft.plan(), now, own.settings.timing.plan.repair) {
            let rejected = attempt.rejected.as_ref();
            let reason = rejected.map_or("", |rejected| &rejected.reason).to_owned();
            if attempt.rejections < MOST_UNREADABLE {
                hand_out(draft, &own, texts, &attempt, (AttemptKind::Repair, &reason))?;
            } else {
                let received = draft.now();
                draft.report(&attempt.id, no_answer(&reason, received))?;
            }
        }
        Ok(())
    };
    let why = "its report cannot be read";
    change(store, desk, plan, why, mend).await
}

fn no_answer(reason: &str, received: Time) -> Report {
    Report {
        results: format!(
            "There is a report, but it cannot be read, and neither can the one that was asked for in its place: {reason}."
        ),
        collaboration: Some(Collaboration::Error),
        hash: "an unreadable report".to_owned(),
        ..Report::new(BY, ReportStatus::Failed, received)
    }
}
