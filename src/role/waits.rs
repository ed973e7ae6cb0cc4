//! Who waits for whom: read from the internal plans, so that it is the same for the roles themselves and for whoever looks on.

use std::time::Duration;

use crate::plan::{CommandId, Plan, PlanId, ROLE, TaskId, Time};
use crate::store::{Store, StoreError};
use crate::wire::team::StepDoes;

use super::message::{RequestId, RoleId};
use super::plan::InternalPlan;

/// More internal plans within each other than there can be.
const MOST: usize = 100;

/// Who waits for what comes of an internal plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The roles from the one whose plan it is to the one that has the task.
    pub roles: Vec<RoleId>,
    /// The plan that the task is in.
    pub top: Option<PlanId>,
    /// Who that plan belongs to.
    pub owner: String,
    /// The command by which it was handed out.
    pub command: Option<CommandId>,
}

impl Chain {
    /// Returns who waits for what comes of an internal plan, from the role whose it is on.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn of(store: &Store, plan: Option<&PlanId>) -> Result<Self, StoreError> {
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
            let mut parts = key.splitn(3, ':').skip(1);
            let role = parts.next().and_then(|role| role.parse().ok());
            chain.roles.extend(role);
            chain.command = parts.next().map(CommandId::new);
            next = parent;
        }
        Ok(chain)
    }
}

/// A role that waits for another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The task of the plan for which it is.
    pub task: TaskId,
    pub role: RoleId,
    /// The role that is asked.
    pub on: String,
    pub request: RequestId,
    pub since: Time,
}

/// Returns which roles wait for others so that tasks of a plan get on, in the order in which they asked.
///
/// # Errors
/// A failure of the store.
pub async fn waits(store: &Store, top: &PlanId) -> Result<Vec<Wait>, StoreError> {
    let mut waits = Vec::new();
    for listed in store.in_use(ROLE).await? {
        let plan = listed.head.id;
        let asked = store.read(&plan, |plan, _| {
            let plan = InternalPlan::of(plan);
            let step = plan.steps.get(plan.current()?)?;
            let pending = step.request.as_ref()?;
            match &step.does {
                StepDoes::RequestCollaboration { target, .. } if pending.answer.is_none() => {
                    Some((target.clone(), pending.id.clone(), pending.since))
                }
                _ => None,
            }
        });
        let Some((on, request, since)) = asked.await? else {
            continue;
        };
        let chain = Chain::of(store, Some(&plan)).await?;
        let (Some(role), Some(command)) = (chain.roles.into_iter().next(), chain.command) else {
            continue;
        };
        if chain.top.as_ref() != Some(top) {
            continue;
        }
        let task = store.read(top, move |plan, _| {
            plan.attempt(&command).map(|attempt| attempt.task)
        });
        waits.extend(task.await?.map(|task| Wait {
            task,
            role,
            on,
            request,
            since,
        }));
    }
    waits.sort_by(|a, b| (a.since, &a.request).cmp(&(b.since, &b.request)));
    Ok(waits)
}

/// Returns how long a person has been asked for what came of a request to a role, here or wherever that role asked further.
///
/// # Errors
/// A failure of the store.
pub async fn with_person(
    store: &Store,
    on: &RoleId,
    request: &RequestId,
    now: Time,
) -> Result<Duration, StoreError> {
    let (mut keys, mut whole) = (vec![InternalPlan::key(on, request)], Duration::ZERO);
    for _ in 0..MOST {
        let Some(key) = keys.pop() else {
            break;
        };
        // A role behind files has no plan.
        let Some(plan) = store.find(&key).await? else {
            continue;
        };
        let read = store.read(&plan, move |plan, _| (asked(plan, now), requests(plan)));
        let (span, further) = read.await?;
        whole += span;
        keys.extend(further);
    }
    Ok(whole)
}

fn asked(plan: &Plan, now: Time) -> Duration {
    let answered = plan
        .questions()
        .filter(|question| question.closed.is_none());
    let span = |question: &crate::plan::Question| {
        let end = question.answer.as_ref().map_or(now, |answer| answer.at);
        end.since(question.asked)
    };
    answered.map(span).sum()
}

fn requests(plan: &Plan) -> Vec<String> {
    let key = |attempt: &crate::plan::Attempt| {
        let on = plan.task(attempt.task)?.assignee.as_ref()?.parse().ok()?;
        Some(InternalPlan::key(&on, &attempt.id.clone().into()))
    };
    plan.attempts().filter_map(key).collect()
}
