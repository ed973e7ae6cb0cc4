//! Maintains the requests of roles in the process to roles behind files. If such a role asks a question first, the
//! plan that all is done for asks a person, and the answer goes back as a `continue` command. Where its usage limit stops it, it
//! goes on after that. An unreadable report is requested once more; after that the request is answered with its failure. All of
//! it is derived from the plans, so that it may be repeated after a crash; the role that waits for the request publishes the
//! command.

use std::sync::Arc;
use std::time::Duration;

use crate::plan::{
    AnswerChoice, AppliedReport, Attempt, AttemptKind, Collaboration, CommandId, DAEMON, Draft,
    HumanAnswer, HumanQuestion, HumanQuestionKind, Plan, PlanId, QuestionId, ROLE, Refusal, Report,
    ReportStatus, Time,
};
use crate::role::WaitChain;
use crate::store::{Result, StoreError};
use crate::volumes::{Folder, ReportDisposition, Volumes};
use crate::wire::CommandType;

use super::{BY, DaemonSettings, FolderSettings, ParsedReport, blocking, draw_question_ids};

/// Unreadable reports to one request, after which it has failed.
const MOST_UNREADABLE: u32 = 2;

/// Reports to one request that a usage limit stopped the agent, after which it has failed.
const MOST_LIMITS: usize = 5;

/// Applies a report to the plan of its command, which is not carried out here. Returns where the report goes. A report that
/// asks a question, or names the end of a usage limit, is no answer to a request, where a daemon carries out the plan that the request
/// is for: a person is asked, or it goes on later.
pub(super) async fn pass_on(
    folder: &FolderSettings,
    arrival: ParsedReport,
    owner: Option<PlanId>,
) -> Result<ReportDisposition> {
    let FolderSettings { store, volumes, .. } = folder;
    let (name, hash, content) = (arrival.name, arrival.hash, arrival.content);
    let refused = content.as_ref().err();
    let explanation = refused.map(|refused| refused.explanation.clone());
    let rejected = ReportDisposition::Rejected(explanation.unwrap_or_default());
    let Some(command) = arrival.command else {
        return Ok(rejected);
    };
    let Some(plan) = owner else {
        return Ok(match ends_session(volumes, &command).await {
            true => ReportDisposition::Processed,
            false => rejected,
        });
    };
    let (why, goes_on) = match &content {
        Err(_) => ("a report for it cannot be read", false),
        Ok(report) => {
            let wants = report.question.is_some() || report.blocked_until.is_some();
            let goes_on = wants && WaitChain::of(store, Some(&plan)).await?.owner == DAEMON;
            ("a report came for it", goes_on)
        }
    };
    let (here, volumes) = (store.clone(), volumes.clone());
    let apply = move |draft: &mut Draft<'_>| {
        let head = draft.plan().head();
        // Another folder has taken the plan over: nothing is written to it any more.
        let (is_here, of_role) = (here.require_home(head).is_ok(), head.owner == ROLE);
        let known = draft.plan().attempt(&command);
        // The time within which its author may repair it has begun.
        let known = known.is_some_and(|attempt| attempt.rejected.is_some());
        draw_question_ids(draft, &volumes);
        match content {
            Ok(_) if !is_here => return Ok(ReportDisposition::Stale),
            Ok(report) => {
                let asks = report.question.is_some();
                let applied = draft.report(&command, report)?;
                let goes_on = goes_on && applied == AppliedReport::Counts;
                if goes_on && asks {
                    draft.agent_asks(&command)?;
                } else if goes_on && limits(draft.plan(), &command) <= MOST_LIMITS {
                    draft.park(&command)?;
                }
                return Ok(applied.into());
            }
            Err(refused) if is_here && !of_role => draft.reject_file(&name, &refused.reason),
            Err(refused) if is_here && !known => {
                draft.reject(&command, &refused.reason, &hash)?;
            }
            Err(_) => {}
        }
        Ok(rejected)
    };
    store.change(&plan, BY, why, apply).await
}

/// Returns whether a command of no attempt ended a session: it asks for no report, and one that comes all the same is no fault.
pub(super) async fn ends_session(volumes: &Volumes, command: &CommandId) -> bool {
    let (volumes, command) = (volumes.clone(), command.clone());
    let read = blocking(move || {
        let places = volumes.everywhere();
        let mut commands = places.iter().flat_map(|place| {
            let folders = [Folder::CommandsProcessed, Folder::CommandsPending];
            folders.map(|folder| place.find_command(folder, &command))
        });
        Ok(commands.any(|found| found.is_some_and(|found| found.kind == CommandType::End)))
    });
    read.await.unwrap_or(false)
}

/// Fails only where the store does: the task, or the internal plan, may have ended meanwhile.
pub(super) fn unless_ended(done: Result<()>) -> Result<()> {
    match done {
        Err(StoreError::Refused(_)) => Ok(()),
        done => done,
    }
}

/// The requests of an internal plan that is awaited.
pub(super) struct RoleRequests<'a> {
    pub settings: &'a Arc<DaemonSettings>,
    pub plan: &'a PlanId,
    pub chain: &'a WaitChain,
}

impl RoleRequests<'_> {
    pub async fn maintain(&self, now: Time) -> Result<()> {
        let repair = self.settings.config.timing.plan.repair;
        let found = self.settings.store.read(self.plan, move |plan, _| {
            let asked = plan.open_questions().filter_map(|question| {
                let task = plan.task(question.task?)?;
                let request = plan.current_attempt(task)?.id.clone();
                let role = task.assignee.clone().unwrap_or_default();
                let of_agent = question.about == HumanQuestionKind::Agent;
                of_agent.then(|| (question.clone(), request, role))
            });
            let limited = plan.tasks().filter_map(|task| {
                let request = plan.current_attempt(task)?.id.clone();
                Some((request, task.not_before?))
            });
            let unread = !unread(plan, now, repair).is_empty();
            let limited: Vec<(CommandId, Time)> = limited.collect();
            (asked.collect::<Vec<_>>(), limited, unread)
        });
        let (asked, limited, unread) = found.await?;
        for (request, until) in limited {
            unless_ended(self.await_limit(request, until, now).await)?;
        }
        for (question, request, role) in asked {
            unless_ended(self.ask_person(question, request, &role).await)?;
        }
        if unread {
            self.repair_unreadable(now).await?;
        }
        Ok(())
    }

    /// Puts the question of a role behind files about a request to a person, in the plan that all is done for; an
    /// answer goes to that role.
    async fn ask_person(
        &self,
        question: HumanQuestion,
        request: CommandId,
        role: &str,
    ) -> Result<()> {
        let (Some(top), Some(command)) = (&self.chain.top, self.chain.command.clone()) else {
            return Ok(());
        };
        // Each plan has its own ids of questions: the request links the two.
        let wanted = request.clone();
        let asked = self.settings.store.read(top, move |plan, _| {
            let mut questions = plan.questions();
            let asked = questions.find(|question| question.request.as_ref() == Some(&wanted));
            asked.cloned()
        });
        let Some(asked) = asked.await? else {
            let asker = self.chain.roles.first();
            let asker = asker.map_or(String::new(), |role| format!(" for `{role}`"));
            let asked = &question.reason;
            let reason = format!("the role `{role}` asks, at work{asker}: {asked}");
            let volumes = self.settings.volumes.clone();
            let ask = move |draft: &mut Draft<'_>| {
                let task = draft.attempt(&command)?.task;
                draw_question_ids(draft, &volumes);
                draft.ask_for_request(task, &request, &reason, question)
            };
            let why = "a role has a question";
            return self.settings.store.change(top, BY, why, ask).await;
        };
        // Without a reply it is open, or the task ends without one.
        let answer = asked.answer;
        use AnswerChoice::{AllowAlways, AllowOnce, Deny, Reply};
        let goes_on = |choice| matches!(choice, Reply | AllowOnce | AllowAlways | Deny);
        let Some(answer) = answer.filter(|answer| goes_on(answer.choice)) else {
            return Ok(());
        };
        let settings = Arc::clone(self.settings);
        let id = question.id;
        let go_on = move |draft: &mut Draft<'_>| settings.tell(draft, &request, &id, &answer);
        let why = "a person has answered";
        let store = &self.settings.store;
        store.change_ahead(self.plan, BY, why, go_on, |()| {}).await
    }

    /// Shows in the plan that all is done for what a request waits for, and goes on with it after the limit.
    async fn await_limit(&self, request: CommandId, until: Time, now: Time) -> Result<()> {
        let (store, settings) = (&self.settings.store, Arc::clone(self.settings));
        if now < until {
            let Some(top) = &self.chain.top else {
                return Ok(());
            };
            let limited = move |draft: &mut Draft<'_>| {
                draft.limit_wait(&request, until);
                Ok(())
            };
            let why = "a role has reached its usage limit";
            return store.change(top, BY, why, limited).await;
        }
        let go_on = move |draft: &mut Draft<'_>| {
            let attempt = draft.attempt(&request)?;
            let note = draft.task(attempt.task)?.note.unwrap_or_default();
            settings.go_on(draft, &attempt, note)
        };
        let why = "a usage limit has ended";
        store.change_ahead(self.plan, BY, why, go_on, |()| {}).await
    }

    /// Requests unreadable reports once more, and ends the requests whose second report is unreadable, too.
    async fn repair_unreadable(&self, now: Time) -> Result<()> {
        let settings = Arc::clone(self.settings);
        let repair = move |draft: &mut Draft<'_>| {
            for attempt in unread(draft.plan(), now, settings.config.timing.plan.repair) {
                let rejected = attempt.rejected.as_ref();
                let reason = rejected.map_or("", |rejected| &rejected.reason).to_owned();
                if attempt.rejections < MOST_UNREADABLE {
                    settings.issue_again(draft, &attempt, AttemptKind::Repair, &reason)?;
                } else {
                    draft.report(&attempt.id, no_answer(&reason, draft.now()))?;
                }
            }
            Ok(())
        };
        let why = "its report cannot be read";
        let store = &self.settings.store;
        store
            .change_ahead(self.plan, BY, why, repair, |()| {})
            .await
    }
}

impl DaemonSettings {
    /// Issues a command for a request with a person's answer.
    fn tell(
        &self,
        draft: &mut Draft<'_>,
        request: &CommandId,
        question: &QuestionId,
        answer: &HumanAnswer,
    ) -> Result<(), Refusal> {
        let attempt = draft.attempt(request)?;
        draft.answer(question, answer.choice, &answer.note, &answer.by)?;
        let note = match answer.choice {
            AnswerChoice::Reply => answer.note.clone(),
            _ => draft.task(attempt.task)?.note.unwrap_or_default(),
        };
        let report = attempt.report.as_ref();
        let asked = report.and_then(|report| report.question.as_deref());
        let asked = asked.unwrap_or_default().trim();
        let answer = format!("You asked:\n\n{asked}\n\nA person answers:\n\n{note}");
        self.go_on(draft, &attempt, answer)
    }

    /// Issues a command for a request with words to its last report.
    fn go_on(
        &self,
        draft: &mut Draft<'_>,
        attempt: &Attempt,
        words: String,
    ) -> Result<(), Refusal> {
        let message = match (&attempt.session, &attempt.report) {
            (Some(_), _) | (_, None) => words,
            (None, Some(report)) => {
                let said = report.text();
                format!("You were asked this before, and reported:\n\n{said}\n\n{words}")
            }
        };
        self.issue_again(draft, attempt, AttemptKind::Continue, &message)
    }
}

/// Counts the reports to a request that name the end of a usage limit.
fn limits(plan: &Plan, request: &CommandId) -> usize {
    let limited = |attempt: &&Attempt| {
        let report = attempt.report.as_ref();
        report.is_some_and(|report| report.blocked_until.is_some())
    };
    let task = plan.attempt(request).map(|attempt| attempt.task);
    let attempts = task.into_iter().flat_map(|task| plan.attempts_of(task));
    attempts.filter(limited).count()
}

/// Returns the requests whose unreadable report was not repaired in time.
fn unread(plan: &Plan, now: Time, repair: Duration) -> Vec<Attempt> {
    let over = |attempt: &&Attempt| {
        let rejected = attempt.rejected.as_ref();
        rejected.is_some_and(|rejected| rejected.at.plus(repair) <= now)
    };
    plan.awaited_attempts().filter(over).cloned().collect()
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
