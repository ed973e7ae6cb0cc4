//! The role that is ready to use: which messages it takes in, and how it begins and ends a task.

use std::fmt;
use std::sync::Arc;

use crate::plan::{ArchiveState, Draft, ModelCost, PlanId, Refusal, Time};
use crate::store::Store;
use crate::wire::text::{one_line, printable};

use super::abilities::Abilities;
use super::agent_base_role::{AgentBaseRole, ChosenStrategy};
use super::built_in_actions::ask;
use super::framework::Framework;
use super::internal_plan::{InternalPlan, PlanKeeper, PlanningStrategy};
use super::messages::{
    CollaborationStatus, MessageKind, RequestId, RoleId, StructuredMessage, TaskUpdate,
};
use super::planning_strategy::ASK;
use super::role_model::{PlanQuestion, RoleModel};
use super::role_state::{AgentState, RoleError, RoleFaults, RoleSettings, RoleStatus};
use super::wait_chains::{self, WaitChain};
use crate::wire::team_file::StepSpec;

/// Tasks that wait while the role does another one; what comes then is rejected.
pub const MAX_WAITING: usize = 16;

/// What a message leads to.
#[derive(Debug)]
pub(super) enum AdmittedMessage {
    Begin(Box<StructuredMessage>),
    /// It is the task that the role has already.
    GoOn,
    Answer(Box<StructuredMessage>),
    Nothing,
}

/// A role: does one task at a time, and asks others through its [`Framework`].
pub struct Role {
    pub(super) settings: RoleSettings,
    pub(super) keeper: PlanKeeper,
    pub(super) framework: Arc<dyn Framework>,
    pub(super) mind: Option<RoleModel>,
    pub(super) actions: Abilities,
    pub(super) tools: Abilities,
    pub(super) state: AgentState,
}

impl fmt::Debug for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Role")
            .field("settings", &self.settings)
            .field("actions", &self.actions)
            .field("tools", &self.tools)
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
    /// Makes a role that is idle. What it did before it goes on with when the task is given to it again. With a language model
    /// it has the action [`ASK`] in any case.
    ///
    /// # Errors
    /// Everything that a template names and that is not there.
    pub fn new(
        settings: RoleSettings,
        store: Store,
        framework: Arc<dyn Framework>,
        mind: Option<RoleModel>,
        mut actions: Abilities,
        tools: Abilities,
    ) -> Result<Self, RoleFaults> {
        // A simple task is one step with it.
        if mind.is_some() && actions.get(ASK).is_none() {
            actions.add(ask());
        }
        let role = Self {
            keeper: PlanKeeper::new(store, &settings.id),
            settings,
            framework,
            mind,
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

    /// Returns when the wait for another role is over, if it waits.
    pub fn waits_until(&self) -> Option<Time> {
        self.state.waits_until
    }

    pub(super) fn description(&self) -> String {
        let task = self.state.current_task.as_ref();
        let text = task.and_then(|task| task.description.clone());
        text.unwrap_or_default()
    }

    pub(super) fn strategy(&self) -> Option<PlanningStrategy> {
        self.state.internal_plan.as_ref()?.strategy.clone()
    }

    /// Decides what a message leads to.
    pub(super) async fn admit(
        &mut self,
        message: StructuredMessage,
    ) -> Result<AdmittedMessage, RoleError> {
        if message.to != self.settings.id {
            tracing::warn!(role = %self.settings.id, to = %message.to, id = %one_line(&message.id, 80), "a message for another role");
            return Ok(AdmittedMessage::Nothing);
        }
        match message.kind {
            MessageKind::TaskAssignment | MessageKind::CollaborationRequest => {
                self.admit_task(message).await
            }
            MessageKind::CollaborationResponse => Ok(AdmittedMessage::Answer(Box::new(message))),
            MessageKind::Cancel => self.cancel(&message).await,
        }
    }

    async fn admit_task(
        &mut self,
        message: StructuredMessage,
    ) -> Result<AdmittedMessage, RoleError> {
        let assignment = message.assignment();
        let same = |other: &StructuredMessage| other.assignment() == assignment;
        match &self.state.current_task {
            None => return Ok(AdmittedMessage::Begin(Box::new(message))),
            // What was dropped half-way while it was planned is planned again.
            Some(current) if same(current) => {
                let planned = self.state.internal_plan.as_ref();
                let planned = planned.is_some_and(|plan| !plan.steps.is_empty());
                return Ok(match planned {
                    true => AdmittedMessage::GoOn,
                    false => AdmittedMessage::Begin(Box::new(message)),
                });
            }
            Some(_) => {}
        }
        if self.state.waiting.iter().any(same) {
            return Ok(AdmittedMessage::Nothing);
        }
        if self.state.waiting.len() < MAX_WAITING {
            self.state.waiting.push_back(message);
            return Ok(AdmittedMessage::Nothing);
        }
        let reason = format!(
            "role {} is busy, and {MAX_WAITING} tasks wait already",
            self.settings.id
        );
        let update = self.update(&message, CollaborationStatus::Rejected, reason);
        self.framework.update_task_status(update).await?;
        Ok(AdmittedMessage::Nothing)
    }

    /// Returns the task that has waited longest, if the role is idle.
    pub(super) fn next_waiting(&mut self) -> Option<StructuredMessage> {
        match self.state.status {
            RoleStatus::Idle => self.state.waiting.pop_front(),
            _ => None,
        }
    }

    /// Gives a task up that nobody wants any more.
    async fn cancel(&mut self, message: &StructuredMessage) -> Result<AdmittedMessage, RoleError> {
        let Some(assignment) = message.request_id.clone() else {
            tracing::warn!(role = %self.settings.id, "a message that cancels nothing");
            return Ok(AdmittedMessage::Nothing);
        };
        self.state
            .waiting
            .retain(|waiting| waiting.assignment() != assignment);
        let current = self.state.current_task.as_ref();
        let current = current.is_some_and(|task| task.assignment() == assignment);
        let found = self.keeper.find(&self.settings.id, &assignment).await?;
        let Some(plan) = found else {
            if current {
                self.forget();
            }
            return Ok(AdmittedMessage::Nothing);
        };
        let why = "no role waits for it any more";
        let ended = self.keeper.change(&plan.id, why, move |draft| {
            match draft.plan().status().settled() {
                true => Ok(()),
                false => draft.abandon(why),
            }
        });
        let (was_open, plan) = (plan.ended().is_none(), ended.await?);
        if was_open {
            self.count_others(&plan).await?;
        }
        self.withdraw(&plan).await?;
        let chain = WaitChain::of(self.keeper.store(), Some(&plan.id)).await?;
        self.end_waits(chain.top.as_ref()).await?;
        // Only now: in the history nobody looks for what is to be taken back.
        self.keeper.change(&plan.id, why, put_away).await?;
        if current {
            self.forget();
        }
        Ok(AdmittedMessage::Nothing)
    }

    /// Counts what those took that were asked for something which no report will tell of.
    async fn count_others(&self, plan: &InternalPlan) -> Result<(), RoleError> {
        let (store, spent) = (self.keeper.store(), plan.spent_by_others);
        if spent == ModelCost::default() {
            return Ok(());
        }
        if let Some(top) = WaitChain::of(store, Some(&plan.id)).await?.top {
            let why = "what a role had others do is given up";
            let count = move |draft: &mut Draft<'_>| {
                draft.count_agents_of_role(spent);
                Ok(())
            };
            store.change(&top, self.keeper.by(), why, count).await?;
        }
        Ok(())
    }

    /// Takes a task up, with its internal plan; returns whether that has no steps yet.
    pub(super) async fn begin(&mut self, task: StructuredMessage) -> Result<bool, RoleError> {
        self.state.status = RoleStatus::Planning;
        self.state.current_task = Some(task.clone());
        let plan = self.keeper.open(&self.settings.id, &task).await?;
        let chain = WaitChain::of(self.keeper.store(), Some(&plan.id)).await?;
        (self.state.top, self.state.command) = (chain.top, chain.command);
        let unplanned = plan.steps.is_empty() && plan.ended().is_none();
        self.state.internal_plan = Some(plan);
        Ok(unplanned)
    }

    /// Keeps the strategy, with the reason in the log.
    pub(super) async fn choose(&mut self, chosen: &ChosenStrategy) -> Result<(), RoleError> {
        let text = chosen.strategy.text();
        tracing::info!(role = %self.settings.id, strategy = %text, reason = %chosen.reason, "how the task is planned");
        let reason = printable(&chosen.reason);
        self.change("how the task is planned", move |draft| {
            draft.choose_strategy(&text, &reason);
            Ok(())
        })
        .await
    }

    /// Keeps the steps, or ends the task because there are none.
    pub(super) async fn plan_with(
        &mut self,
        steps: Result<Vec<StepSpec>, RoleError>,
    ) -> Result<(), RoleError> {
        let plan = self.plan_id()?;
        match self.sound(steps, 1) {
            Ok(steps) => {
                let plan = self.keeper.add_steps(&plan, steps).await?;
                self.state.internal_plan = Some(plan);
                Ok(())
            }
            Err(error) => self.cannot_plan(error).await,
        }
    }

    /// Puts other steps in the place of the rest, or ends the task because there are none.
    pub(super) async fn replan_with(
        &mut self,
        steps: Result<Vec<StepSpec>, RoleError>,
    ) -> Result<(), RoleError> {
        let plan = self.plan_id()?;
        let internal = self.state.internal_plan.as_ref();
        let settled = |plan: &InternalPlan| {
            let settled = plan.steps.iter().filter(|step| step.status.settled());
            settled.count()
        };
        match self.sound(steps, 1 + internal.map_or(0, settled)) {
            Ok(steps) => {
                let why = internal.and_then(|plan| plan.replan.clone());
                let why = why.unwrap_or_default();
                let plan = self.keeper.replace_rest(&plan, steps, why).await?;
                self.state.internal_plan = Some(plan);
                Ok(())
            }
            Err(error) => self.cannot_plan(error).await,
        }
    }

    pub(super) async fn cannot_plan(&mut self, error: RoleError) -> Result<(), RoleError> {
        let RoleError::CannotPlan(reason) = error else {
            return Err(error);
        };
        let reason = printable(&reason);
        self.change("the task cannot be planned", move |draft| {
            draft.abandon(&reason)
        })
        .await
    }

    /// Tells the framework what came of the task.
    pub(super) async fn tell(
        &mut self,
        status: CollaborationStatus,
        result: String,
    ) -> Result<(), RoleError> {
        if let Some(task) = self.state.current_task.clone() {
            let update = self.update(&task, status, result);
            self.framework.update_task_status(update).await?;
        }
        Ok(())
    }

    fn update(
        &self,
        task: &StructuredMessage,
        status: CollaborationStatus,
        result: String,
    ) -> TaskUpdate {
        let assignment = task.assignment();
        let current = self.state.current_task.as_ref();
        let plan = self.state.internal_plan.as_ref();
        let own = current.is_some_and(|current| current.assignment() == assignment);
        TaskUpdate {
            role: self.settings.id.clone(),
            assignment,
            kind: task.kind,
            from: task.from.clone(),
            plan_id: task.plan_id.clone(),
            task_id: task.task_id.clone(),
            status,
            result,
            spent: match plan.filter(|_| own) {
                // What its model took is counted there already.
                Some(plan) if self.state.top.is_some() => plan.spent_by_others,
                Some(plan) => plan.spent,
                None => ModelCost::default(),
            },
        }
    }

    /// Is idle again. What the framework was told of is put into the history.
    pub(super) async fn leave(&mut self, told: bool) -> Result<(), RoleError> {
        let plan = self.plan_id()?;
        self.forget();
        if told {
            let why = "what came of it was taken in";
            self.keeper.change(&plan, why, put_away).await?;
        }
        Ok(())
    }

    fn forget(&mut self) {
        let waiting = std::mem::take(&mut self.state.waiting);
        self.state = AgentState {
            waiting,
            ..AgentState::default()
        };
    }

    pub(super) async fn change(
        &mut self,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<(), Refusal> + Send + 'static,
    ) -> Result<(), RoleError> {
        let plan = self.keeper.change(&self.plan_id()?, why, change).await?;
        self.state.internal_plan = Some(plan);
        Ok(())
    }

    /// Notes that the role is about to wait for another one.
    pub(super) async fn begin_wait(&self, request: &StructuredMessage) -> Result<(), RoleError> {
        let (store, by) = (self.keeper.store(), self.keeper.by());
        if let (Some(top), Some(command)) = (&self.state.top, &self.state.command) {
            wait_chains::begin_wait(store, by, top, command, request).await?;
        }
        Ok(())
    }

    /// Notes that the role does not wait for a request, as it could not be sent.
    pub(super) async fn not_sent(&self, request: &RequestId) -> Result<(), RoleError> {
        if let Some(top) = &self.state.top {
            let (store, by) = (self.keeper.store(), self.keeper.by());
            wait_chains::not_sent(store, by, top, request.command()).await?;
        }
        Ok(())
    }

    /// Notes what the role does not wait for any more.
    pub(super) async fn end_waits(&self, top: Option<&PlanId>) -> Result<(), RoleError> {
        if let Some(top) = top {
            wait_chains::end_waits(self.keeper.store(), self.keeper.by(), top).await?;
        }
        Ok(())
    }

    pub(super) fn plan_id(&self) -> Result<PlanId, RoleError> {
        let plan = self.state.internal_plan.as_ref();
        let none = || RoleError::CannotPlan("the role has no task".to_owned());
        plan.map(|plan| plan.id.clone()).ok_or_else(none)
    }

    /// Returns how questions to a language model are put for a plan.
    pub(super) fn asking<'a>(&'a self, mind: &'a RoleModel, plan: &'a PlanId) -> PlanQuestion<'a> {
        PlanQuestion {
            mind,
            keeper: &self.keeper,
            plan,
            top: self.state.top.as_ref(),
        }
    }

    pub(super) fn given(&self) -> (&str, &str) {
        let task = self.state.current_task.as_ref();
        (
            task.and_then(|task| task.description.as_deref())
                .unwrap_or_default(),
            task.and_then(|task| task.context.as_deref())
                .unwrap_or_default(),
        )
    }
}

fn put_away(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    match draft.plan().head().archive_state {
        ArchiveState::Current => draft.archive(ArchiveState::History),
        ArchiveState::History | ArchiveState::Deleted => Ok(()),
    }
}
