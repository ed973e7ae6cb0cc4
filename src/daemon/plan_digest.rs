//! The plan as the loop needs it.

use std::collections::BTreeSet;

use super::exchange::AwaitedCommands;
use super::worktrees::Gathering;
use crate::plan::{
    AttemptState, CommandId, Due, Observations, Plan, PlanState, QuestionId, SessionId, due,
};

/// The plan as the loop needs it: small, whatever the size of the plan.
pub(super) struct LoopView {
    pub(super) seq: i64,
    pub(super) status: PlanState,
    pub(super) due: Due,
    pub(super) awaited: AwaitedCommands,
    /// Attempts whose agents are to be asked to stop. One that has reported may end by itself.
    pub(super) recalls: BTreeSet<CommandId>,
    /// Questions that are open and that roles behind files have, of whom a role in the process asked something.
    pub(super) of_requests: BTreeSet<QuestionId>,
    /// Roles that have something in hand.
    pub(super) at_work: BTreeSet<String>,
    /// A limit of the budget keeps it from going on.
    pub(super) stopped: bool,
    pub(super) gathering: Option<Gathering>,
    /// Sessions whose `end` command was published, which the plan does not know yet.
    pub(super) ends_published: BTreeSet<SessionId>,
}

impl LoopView {
    pub(super) fn of(plan: &Plan, seq: i64, world: &Observations) -> Self {
        let awaited = plan
            .open_attempts()
            .filter(|attempt| attempt.state == AttemptState::Open);
        Self {
            seq,
            status: plan.status().clone(),
            due: due(plan, world),
            awaited: AwaitedCommands {
                commands: awaited.map(|attempt| attempt.id.clone()).collect(),
                questions: plan
                    .open_questions()
                    .map(|question| question.id.clone())
                    .collect(),
            },
            recalls: plan
                .recalls()
                .filter(|attempt| {
                    !matches!(attempt.state, AttemptState::Reported | AttemptState::Judged)
                })
                .map(|attempt| attempt.id.clone())
                .collect(),
            of_requests: plan
                .open_questions()
                .filter(|question| question.request.is_some())
                .map(|question| question.id.clone())
                .collect(),
            at_work: super::internal_plans::at_work(plan),
            stopped: plan.stopped_at().is_some(),
            gathering: Gathering::of(plan.head()),
            ends_published: world
                .ends_published
                .iter()
                .filter(|id| plan.ends_unpublished(id))
                .cloned()
                .collect(),
        }
    }

    /// Returns whether something is under way, or will be by itself: a plan that only waits for a human uses no time.
    pub(super) fn works(&self) -> bool {
        !self.status.settled() && !self.due.nothing()
    }
}
