//! Which role waits for which. The internal plans have it; the plan of the task has it also, so that a reader finds it in one
//! place. The role that waits records it there before it sends its request, and ends it when the request is not open any more.
//! A crash in between leaves a wait too many or too few, which the role corrects when it continues; where it never does, the
//! code that cleans up internal plans corrects it.

use std::time::Duration;

use crate::plan::{
    Attempt, AttemptState, CommandId, Draft, HumanQuestion, Plan, PlanId, PlanState, ROLE, Refusal,
    Report, RoleRequest, RoleRequestEnd, Time,
};
use crate::store::{Result, Store, StoreError};
use crate::wire::one_line;

use super::{InternalPlan, RequestId, Role, RoleId, StructuredMessage, rests};

/// More internal plans within each other than there can be.
const MOST: usize = 100;

/// Characters of what a role is asked for.
const WHAT: usize = 120;

/// Who waits for what comes of an internal plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitChain {
    /// The roles from the one whose plan it is to the one that has the task.
    pub roles: Vec<RoleId>,
    /// The plan that the task is in.
    pub top: Option<PlanId>,
    /// Who that plan belongs to.
    pub owner: String,
    /// The command by which it was dispatched.
    pub command: Option<CommandId>,
}

impl WaitChain {
    /// Returns who waits for what comes of an internal plan, from the role whose it is on.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn of(store: &Store, plan: Option<&PlanId>) -> Result<Self> {
        let mut chain = Self::default();
        let mut next = plan.cloned();
        while let Some(plan) = next.take()
            && chain.roles.len() < MOST
        {
            let head = store.read(&plan, |plan, _| {
                let head = plan.head();
                let key = head.key().to_owned();
                (head.owner.clone(), key, head.parent.clone())
            });
            let (owner, key, parent) = match head.await {
                Err(StoreError::UnknownPlan(_)) => break,
                head => head?,
            };
            if owner != ROLE {
                (chain.top, chain.owner) = (Some(plan), owner);
                break;
            }
            let (role, command) = InternalPlan::parse_key(&key).unzip();
            chain.roles.extend(role);
            chain.command = command;
            next = parent;
        }
        Ok(chain)
    }
}

impl Role {
    /// Records in the plan of the task that the role waits for what it is about to ask of another one, so that the task continues
    /// that was dispatched by a command. Nothing is recorded where that plan is not here, or does not wait for the task any more.
    pub(super) async fn begin_wait(&self, request: &StructuredMessage) -> Result<()> {
        let Some(command) = self.state.command.clone() else {
            return Ok(());
        };
        let asked = request.description.as_deref().unwrap_or_default();
        let (role, on) = (request.from.clone(), request.to.to_string());
        let (id, what) = (request.assignment(), one_line(asked, WHAT));
        let begin = move |draft: &mut Draft<'_>| {
            let wait = RoleRequest {
                role,
                on,
                request: id,
                what,
                since: draft.now(),
                limited_until: None,
            };
            draft.begin_wait(&command, wait)
        };
        self.change_waits("a role asks another one", begin).await
    }

    /// Ends the wait for a request that was recorded and could not be sent.
    pub(super) async fn not_sent(&self, request: &RequestId) -> Result<()> {
        let request = request.clone();
        let end = move |draft: &mut Draft<'_>| {
            draft.end_wait(&request, RoleRequestEnd::TakenBack);
            Ok(())
        };
        let why = "the request could not be sent";
        self.change_waits(why, end).await
    }

    async fn change_waits(
        &self,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<(), Refusal> + Send + 'static,
    ) -> Result<()> {
        let Some(top) = &self.state.top else {
            return Ok(());
        };
        let changed = self.keeper.store.change(top, &self.keeper.by, why, change);
        shown(top, changed.await).map(drop)
    }

    /// Ends the recorded waits of a plan whose requests are not open any more.
    pub(super) async fn end_waits(&self, top: Option<&PlanId>) -> Result<()> {
        match top {
            Some(top) => end_waits(&self.keeper.store, &self.keeper.by, top).await,
            None => Ok(()),
        }
    }
}

/// Ends the waits of a plan whose requests are not open any more, each with what came of it, whichever role waits. A plan that
/// is not here has none. What is damaged in the store says nothing of the other waits.
///
/// # Errors
/// A failure of the store.
pub async fn end_waits(store: &Store, by: &str, top: &PlanId) -> Result<()> {
    let requests = store.read(top, |plan, _| {
        let requests = plan.waits().map(|(_, wait)| wait.request.clone());
        requests.collect::<Vec<_>>()
    });
    let requests = shown(top, requests.await)?.unwrap_or_default();
    let mut ended = Vec::new();
    for request in requests {
        if let Some(end) = shown(top, end_of(store, &request).await)?.flatten() {
            ended.push((request, end));
        }
    }
    if ended.is_empty() {
        return Ok(());
    }
    let why = "a role does not wait for another one any more";
    let change = move |draft: &mut Draft<'_>| {
        for (request, end) in &ended {
            draft.end_wait(request, *end);
        }
        Ok(())
    };
    shown(top, store.change(top, by, why, change).await).map(drop)
}

/// Returns what came of a step that only keeps up what is shown of a plan: no work stops because a plan is not here, does not
/// take it or is damaged.
///
/// # Errors
/// A failure of the store itself.
fn shown<T>(top: &PlanId, result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(result) => Ok(Some(result)),
        Err(StoreError::Refused(_) | StoreError::UnknownPlan(_)) => Ok(None),
        Err(error @ StoreError::Damaged { .. }) => {
            tracing::warn!(plan = %top, %error, "a wait is not kept up to date");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns how the wait for a request ended; `None` if it goes on.
async fn end_of(store: &Store, request: &CommandId) -> Result<Option<RoleRequestEnd>> {
    let Some(plan) = store.plan_of(request).await? else {
        return Ok(Some(RoleRequestEnd::TakenBack));
    };
    let request = request.clone();
    let end = move |plan: &Plan, _| {
        let Some(attempt) = plan.attempt(&request) else {
            return Some(RoleRequestEnd::TakenBack);
        };
        match (attempt.state, &attempt.report) {
            (AttemptState::Open, _) if !plan.status().settled() => None,
            _ if rests(plan, attempt) => None,
            _ if is_asked_again(plan, attempt) => Some(RoleRequestEnd::AskedAgain),
            (AttemptState::Reported | AttemptState::Judged, Some(report)) => {
                Some(report.answer().into())
            }
            _ if *plan.status() == PlanState::Abandoned => Some(RoleRequestEnd::TakenBack),
            _ => Some(RoleRequestEnd::TimedOut),
        }
    };
    store.read(&plan, end).await
}

/// Returns whether a request goes on as another command: with a person's answer, after a usage limit, or for a report that can be
/// read.
fn is_asked_again(plan: &Plan, attempt: &Attempt) -> bool {
    let task = plan.task(attempt.task);
    let current = task.and_then(|task| plan.current_attempt(task));
    let asked = |report: &Report| report.question.is_some() || report.blocked_until.is_some();
    let ended =
        attempt.state == AttemptState::Garbled || attempt.report.as_ref().is_some_and(asked);
    ended && current.is_some_and(|current| current.id != attempt.id)
}

/// Returns how long a request to a role rested, or what that role asked further: for a person, or for the end of a usage limit.
///
/// # Errors
/// A failure of the store.
pub async fn rested(
    store: &Store,
    on: &RoleId,
    request: &RequestId,
    now: Time,
) -> Result<Duration> {
    let (mut keys, mut whole) = (vec![InternalPlan::key(on, request)], Duration::ZERO);
    for _ in 0..MOST {
        let Some(key) = keys.pop() else {
            break;
        };
        // A role behind files has no plan.
        let Some(plan) = store.find(&key).await? else {
            continue;
        };
        let read = store.read(&plan, move |plan, _| (rested_in(plan, now), requests(plan)));
        let (span, further) = read.await?;
        whole += span;
        keys.extend(further);
    }
    Ok(whole)
}

fn rested_in(plan: &Plan, now: Time) -> Duration {
    let open = |question: &&HumanQuestion| question.closed.is_none();
    let asked = |question: &HumanQuestion| {
        let end = question.answer.as_ref().map_or(now, |answer| answer.at);
        end.since(question.asked)
    };
    let limited = |attempt: &Attempt| {
        let report = attempt.report.as_ref()?;
        Some(report.blocked_until?.min(now).since(report.received))
    };
    let asked: Duration = plan.questions().filter(open).map(asked).sum();
    plan.attempts().filter_map(limited).sum::<Duration>() + asked
}

fn requests(plan: &Plan) -> Vec<String> {
    let key = |attempt: &Attempt| {
        let on = plan.task(attempt.task)?.assignee.as_ref()?.parse().ok()?;
        Some(InternalPlan::key(&on, &attempt.id))
    };
    plan.attempts().filter_map(key).collect()
}
