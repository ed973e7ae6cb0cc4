//! The role that is ready to use: which messages it takes in, and how it begins and ends a task.

use std::fmt;
use std::sync::Arc;

use crate::plan::{ArchiveState, Draft, ModelCost, PlanId, Refusal};
use crate::store::Store;
use crate::wire::{StepSpec, one_line, printable};

use super::built_in_actions::ask;
use super::internal_plan::put_steps;
use super::role_model::PlanQuestion;
use super::*;

/// Tasks that wait while the role does another one; what comes then is rejected.
pub const MAX_WAITING: usize = 16;

/// What a task that a message gives leads to.
#[derive(Debug)]
pub(super) enum AdmittedTask {
    Begin,
    /// It is the task that the role has already.
    Continue,
    Nothing,
}

/// A role: does one task at a time, and asks others through its [`Framework`].
pub struct Role {
    pub(super) settings: RoleSettings,
    pub(super) keeper: PlanKeeper,
    pub(super) framework: Arc<dyn Framework>,
    pub(super) model: Option<RoleModel>,
    pub(super) actions: Abilities,
    pub(super) tools: Abilities,
    pub(super) state: AgentState,
}

impl fmt::Debug for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Role")
            .field("settings", &self.settings)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl AgentBaseRole for Role {
    fn role(&self) -> &Role {
        self
    }

    fn role_mut(&mut self) -> &mut Role {
        self
    }
}

impl Role {
    /// Makes a role that is idle. It continues what it did before when the task is given to it again. With a language model it
    /// has the action [`ASK`] in any case.
    ///
    /// # Errors
    /// Everything that a template names and that is not there.
    pub fn new(
        settings: RoleSettings,
        store: Store,
        framework: Arc<dyn Framework>,
        model: Option<RoleModel>,
        mut actions: Abilities,
        tools: Abilities,
    ) -> Result<Self, RoleFaults> {
        // A simple task is one step with it.
        if model.is_some() && actions.get(ASK).is_none() {
            actions.add(ask());
        }
        if actions.get(REQUEST_COLLABORATION).is_none() {
            let (id, store, framework) = (settings.id.clone(), store.clone(), framework.clone());
            actions.add(request_collaboration(id, store, framework));
        }
        let role = Self {
            keeper: PlanKeeper::new(store, settings.id.clone()),
            settings,
            framework,
            model,
            actions,
            tools,
            state: AgentState::default(),
        };
        match role.faults() {
            faults if faults.is_empty() => Ok(role),
            faults => Err(RoleFaults(faults)),
        }
    }

    /// Returns its name.
    pub fn id(&self) -> &RoleId {
        &self.settings.id
    }

    /// Returns what it remembers.
    pub fn state(&self) -> &AgentState {
        &self.state
    }

    pub(super) fn strategy(&self) -> Option<PlanningStrategy> {
        self.state.internal_plan.as_ref()?.strategy.clone()
    }

    /// Returns whether a message is for this role.
    pub(super) fn is_for(&self, message: &StructuredMessage) -> bool {
        let own = message.to == self.settings.id;
        if !own {
            tracing::warn!(role = %self.settings.id, to = %message.to, id = %one_line(&message.id, 80), "a message for another role");
        }
        own
    }

    /// Decides what a task leads to: it is begun, waits, or is rejected because too many wait.
    pub(super) async fn admit(&mut self, message: &StructuredMessage) -> Result<AdmittedTask> {
        let assignment = message.assignment();
        let same = |other: &StructuredMessage| other.assignment() == assignment;
        let Some(current) = &self.state.current_task else {
            return Ok(AdmittedTask::Begin);
        };
        if same(current) {
            let plan = self.state.internal_plan.as_ref();
            return Ok(match plan.is_some_and(|plan| !plan.steps.is_empty()) {
                true => AdmittedTask::Continue,
                // The call was dropped while the task was planned: it is planned again.
                false => AdmittedTask::Begin,
            });
        }
        let waiting = &mut self.state.waiting;
        let is_new = !waiting.iter().any(same);
        if is_new && waiting.len() < MAX_WAITING {
            waiting.push_back(message.clone());
        } else if is_new {
            let (id, status) = (&self.settings.id, CollaborationStatus::Rejected);
            let result = format!("role {id} is busy, and {MAX_WAITING} tasks wait already");
            let update = TaskUpdate::new(message, status, result);
            self.framework.update_task_status(update).await?;
        }
        Ok(AdmittedTask::Nothing)
    }

    /// Returns the task that has waited longest, if the role is idle.
    pub(super) fn next_waiting(&mut self) -> Option<StructuredMessage> {
        match self.state.status {
            RoleStatus::Idle => self.state.waiting.pop_front(),
            _ => None,
        }
    }

    /// Abandons a task whose result is not wanted any more.
    pub(super) async fn cancel(&mut self, message: &StructuredMessage) -> Result<()> {
        let Some(assignment) = &message.request_id else {
            tracing::warn!(role = %self.settings.id, "a message that cancels nothing");
            return Ok(());
        };
        let same = |task: &StructuredMessage| task.assignment() == *assignment;
        self.state.waiting.retain(|waiting| !same(waiting));
        if let Some(plan) = self.keeper.find(assignment).await? {
            self.abandon(&plan).await?;
        }
        if self.state.current_task.as_ref().is_some_and(same) {
            self.forget();
        }
        Ok(())
    }

    async fn abandon(&mut self, plan: &InternalPlan) -> Result<()> {
        let why = "no role waits for it any more";
        let end = move |draft: &mut Draft<'_>| match draft.plan().status().settled() {
            true => Ok(()),
            false => draft.abandon(why),
        };
        let ended = self.keeper.change(&plan.id, why, end).await?;
        let top = WaitChain::of(&self.keeper.store, Some(&plan.id)).await?.top;
        let spent = ended.spent_by_others;
        // What other roles took is counted by its report otherwise, which will never come.
        if plan.ended().is_none()
            && spent != ModelCost::default()
            && let Some(top) = &top
        {
            let PlanKeeper { store, by, .. } = &self.keeper;
            let count = move |draft: &mut Draft<'_>| {
                draft.count_agents(spent);
                Ok(())
            };
            let given_up = "what a role had others do is given up";
            store.change(top, by, given_up, count).await?;
        }
        self.withdraw(&ended).await?;
        self.end_waits(top.as_ref()).await?;
        // Last: in the history no process looks for what is to be withdrawn.
        self.keeper.change(&plan.id, why, archive).await?;
        Ok(())
    }

    /// Begins or resumes a task, and returns whether its internal plan has no steps yet.
    pub(super) async fn begin(&mut self, task: StructuredMessage) -> Result<bool> {
        self.state.status = RoleStatus::Planning;
        self.state.current_task = Some(task.clone());
        let plan = self.keeper.open(&task).await?;
        let chain = WaitChain::of(&self.keeper.store, Some(&plan.id)).await?;
        (self.state.top, self.state.command) = (chain.top, chain.command);
        let unplanned = plan.steps.is_empty() && plan.ended().is_none();
        self.state.internal_plan = Some(plan);
        Ok(unplanned)
    }

    /// Keeps the strategy, with the reason in the log.
    pub(super) async fn choose(&mut self, chosen: &ChosenStrategy) -> Result<()> {
        let text = chosen.strategy.text();
        tracing::info!(role = %self.settings.id, strategy = %text, reason = %chosen.reason, "how the task is planned");
        let reason = printable(&chosen.reason);
        self.change("how the task is planned", move |draft| {
            draft.choose_strategy(&text, &reason);
            Ok(())
        })
        .await
    }

    /// Persists the steps, in the place of those that are to change, or ends the task because there are none.
    pub(super) async fn plan_with(&mut self, steps: Result<Vec<StepSpec>>) -> Result<()> {
        let internal = self.state.internal_plan.as_ref();
        let so_far = internal.map_or(&[][..], |plan| &plan.steps);
        let settled = so_far.iter().filter(|step| step.status.settled());
        let steps = match self.sound(steps, 1 + settled.count()) {
            Ok(steps) => steps,
            Err(error) => return self.cannot_plan(error).await,
        };
        let replan = internal.and_then(|plan| plan.replan.clone());
        let why = match replan {
            Some(_) => "the rest of the steps was changed",
            None => "the steps are known",
        };
        self.change(why, move |draft| put_steps(draft, steps, replan))
            .await
    }

    pub(super) async fn cannot_plan(&mut self, error: RoleError) -> Result<()> {
        let RoleError::CannotPlan(reason) = error else {
            return Err(error);
        };
        let reason = printable(&reason);
        let end = move |draft: &mut Draft<'_>| draft.abandon(&reason);
        self.change("the task cannot be planned", end).await
    }

    /// Reports the result of the task to the framework.
    pub(super) async fn report(
        &mut self,
        status: CollaborationStatus,
        result: String,
    ) -> Result<()> {
        let Some(task) = &self.state.current_task else {
            return Ok(());
        };
        let mut update = TaskUpdate::new(task, status, result);
        if let Some(plan) = &self.state.internal_plan {
            update.partial = plan.partial;
            update.spent = match &self.state.top {
                // What its model took is counted there already.
                Some(_) => plan.spent_by_others,
                None => plan.spent,
            };
        }
        Ok(self.framework.update_task_status(update).await?)
    }

    /// Makes the role idle again. A plan whose result was reported is archived.
    pub(super) async fn leave(&mut self, reported: bool) -> Result<()> {
        let plan = self.plan_id()?;
        self.forget();
        if reported {
            let why = "what came of it was taken in";
            self.keeper.change(&plan, why, archive).await?;
        }
        Ok(())
    }

    fn forget(&mut self) {
        let before = std::mem::take(&mut self.state);
        self.state.waiting = before.waiting;
    }

    pub(super) async fn change(
        &mut self,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<(), Refusal> + Send + 'static,
    ) -> Result<()> {
        self.state.internal_plan = Some(self.keeper.change(&self.plan_id()?, why, change).await?);
        Ok(())
    }

    pub(super) fn plan_id(&self) -> Result<PlanId> {
        let plan = self.state.internal_plan.as_ref();
        let none = || RoleError::cannot_plan("the role has no task");
        plan.map(|plan| plan.id.clone()).ok_or_else(none)
    }

    /// Returns how questions to a language model are put for a plan.
    pub(super) fn asking<'a>(&'a self, model: &'a RoleModel, plan: &'a PlanId) -> PlanQuestion<'a> {
        PlanQuestion {
            model,
            keeper: &self.keeper,
            plan,
            top: self.state.top.as_ref(),
        }
    }

    /// Returns the description and the context of the task.
    pub(super) fn given(&self) -> (&str, &str) {
        let task = self.state.current_task.as_ref();
        let description = task.and_then(|task| task.description.as_deref());
        let context = task.and_then(|task| task.context.as_deref());
        (description.unwrap_or_default(), context.unwrap_or_default())
    }
}

/// Puts an internal plan into the history, unless the role or the daemon was faster.
///
/// # Errors
/// What the plan says.
pub fn archive(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    match draft.plan().head().archive_state {
        ArchiveState::Current => draft.archive(ArchiveState::History),
        ArchiveState::History | ArchiveState::Deleted => Ok(()),
    }
}
