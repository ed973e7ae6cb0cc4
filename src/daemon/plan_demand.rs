//! What the loop needs to know of the plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{AwaitedInputs, Gathering};
use crate::plan::{
    AttemptState, CommandId, Due, Lanes, Observations, Plan, PlanState, QuestionId, SessionId,
    Startable, Task, due,
};

/// What the loop needs to know of the plan: small, whatever the size of the plan.
#[derive(Default)]
pub(super) struct LoopView {
    /// The change that it was read at.
    pub(super) seq: i64,
    pub(super) status: PlanState,
    pub(super) due: Due,
    /// Lanes that it has.
    pub(super) busy: usize,
    /// Lanes that it would have if there were no other plans.
    pub(super) wants: usize,
    /// It waits for a person, or is paused.
    pub(super) rests: bool,
    /// Nothing is under way, and it waits until a model that is away is asked again.
    model_away: bool,
    /// Each of its tasks has a worktree.
    pub(super) isolated: bool,
    pub(super) awaited: Arc<AwaitedInputs>,
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
        let open = plan.awaited_attempts();
        let has_reported = |state| matches!(state, AttemptState::Reported | AttemptState::Judged);
        let recalls = plan.recalls();
        let recalls = recalls.filter(|attempt| !has_reported(attempt.state));
        let questions = || plan.open_questions();
        let of_requests = questions().filter(|question| question.request.is_some());
        let published = world.ends_published.iter();
        let published = published.filter(|id| plan.ends_unpublished(id));
        let (due, status) = (due(plan, world), plan.status().clone());
        let lanes = Lanes::of(plan);
        let busy = lanes.busy();
        let more = lanes.most.saturating_sub(busy);
        let retries = plan.to_be_retried().filter(|task| {
            let may_begin = task.not_before.is_none_or(|at| at <= world.now);
            may_begin && !plan.asks_about(task.number)
        });
        let mut fresh = match more {
            0 => Startable::default(),
            _ => plan.startable(),
        };
        let next = retries.chain(std::iter::from_fn(|| fresh.next(|_| false)));
        let asks = questions().next().is_some();
        let idle = due.steps.is_empty() && world.asking.is_empty();
        let limited = |task: &Task| task.not_before.is_some_and(|at| at > world.now);
        let model_away = idle
            && plan.awaited_attempts().next().is_none()
            && (plan.open_asks().any(|ask| ask.away.is_some())
                || plan.to_be_retried().any(limited));
        Self {
            seq,
            busy,
            wants: busy + next.take(more).count(),
            rests: matches!(status, PlanState::Paused(_))
                || (asks && busy == 0 && due.steps.is_empty()),
            model_away,
            isolated: plan.head().is_isolated(),
            status,
            due,
            awaited: Arc::new(AwaitedInputs {
                commands: open.map(|attempt| attempt.id.clone()).collect(),
                questions: questions().map(|question| question.id.clone()).collect(),
            }),
            recalls: recalls.map(|attempt| attempt.id.clone()).collect(),
            of_requests: of_requests.map(|question| question.id.clone()).collect(),
            at_work: super::internal_plans::at_work(plan),
            stopped: plan.stopped_at().is_some(),
            gathering: Gathering::of(plan.head()),
            ends_published: published.cloned().collect(),
        }
    }

    /// Returns whether something is under way, or will be by itself: a plan that only waits for a human, for a model that is away,
    /// or for the end of a usage limit, uses no time.
    pub(super) fn works(&self) -> bool {
        !self.status.settled() && !self.due.nothing() && !self.model_away
    }

    /// Returns whether something of it is decided only after the next scan.
    pub(super) fn awaits_scan(&self) -> bool {
        self.due.rescan || self.status.settled() || !self.awaited.questions.is_empty()
    }
}
