//! What the loop needs to know of the plan.

use std::collections::BTreeSet;

use super::input_routing::AwaitedInputs;
use super::worktrees::Gathering;
use crate::plan::{
    AttemptState, CommandId, Due, Observations, Plan, PlanState, QuestionId, SessionId, due,
};

/// What the loop needs to know of the plan: small, whatever the size of the plan.
pub(super) struct LoopView {
    pub(super) seq: i64,
    pub(super) status: PlanState,
    pub(super) due: Due,
    pub(super) awaited: AwaitedInputs,
    /// Attempts whose agents are to be asked to stop. An agent that has reported may end by itself.
    pub(super) recalls: BTreeSet<CommandId>,
    /// Open questions of roles behind files, about the request of a role in the process.
    pub(super) of_requests: BTreeSet<QuestionId>,
    /// Roles that work on something.
    pub(super) at_work: BTreeSet<String>,
    /// A limit of the budget stopped the plan.
    pub(super) stopped: bool,
    pub(super) gathering: Option<Gathering>,
    /// Sessions whose `end` command was published, which the plan has not recorded yet.
    pub(super) ends_published: BTreeSet<SessionId>,
}

impl LoopView {
    pub(super) fn of(plan: &Plan, seq: i64, world: &Observations) -> Self {
        let open = plan
            .open_attempts()
            .filter(|attempt| attempt.state == AttemptState::Open);
        let has_reported = |state| matches!(state, AttemptState::Reported | AttemptState::Judged);
        let recalls = plan
            .recalls()
            .filter(|attempt| !has_reported(attempt.state));
        let questions = || plan.open_questions();
        let of_requests = questions().filter(|question| question.request.is_some());
        Self {
            seq,
            status: plan.status().clone(),
            due: due(plan, world),
            awaited: AwaitedInputs {
                commands: open.map(|attempt| attempt.id.clone()).collect(),
                questions: questions().map(|question| question.id.clone()).collect(),
            },
            recalls: recalls.map(|attempt| attempt.id.clone()).collect(),
            of_requests: of_requests.map(|question| question.id.clone()).collect(),
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
