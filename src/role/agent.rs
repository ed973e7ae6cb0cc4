//! The role that is ready to use, and what it remembers.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::plan::{
    CommandId, Draft, Issue, Kind, PlanId, Refusal, Report, ReportStatus, Shelf, TaskStatus, Time,
};
use crate::store::{Store, StoreError};
use crate::wire::team::{self, OnTimeout, StepDoes};
use crate::wire::text::{clip_bytes, one_line, printable};

use super::ability::Abilities;
use super::base::{AgentBaseRole, ChosenStrategy};
use super::fill::Known;
use super::framework::{Framework, FrameworkError};
use super::message::{
    CollaborationStatus, MessageKind, RequestId, RoleId, StructuredMessage, TaskUpdate,
};
use super::mind::{Asking, Mind, Situation};
use super::plan::{InternalPlan, Keeper, Pending, PlanningStrategy, Step, StepSpec};

/// Tasks that wait while the role does another one; what comes then is rejected.
pub const MAX_WAITING: usize = 16;

/// Bytes that are kept of what a step said.
const MAX_RESULT: usize = 128 * 1024;

/// A ready list of steps for tasks of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTemplate {
    pub name: String,
    /// Words that are all in the task, in any case.
    pub matches: Vec<String>,
    pub steps: Vec<StepSpec>,
}

impl From<&team::StepTemplate> for StepTemplate {
    fn from(template: &team::StepTemplate) -> Self {
        Self {
            name: template.name.clone(),
            matches: template.matches.clone(),
            steps: template.steps.iter().map(StepSpec::from).collect(),
        }
    }
}

/// What is special about a role.
#[derive(Clone, Debug)]
pub struct RoleSettings {
    pub id: RoleId,
    /// What the role is told of itself.
    pub prompt: String,
    pub templates: Vec<StepTemplate>,
    /// Whether its language model is asked if a task is simple.
    pub classify: bool,
    /// Steps that its language model may make of a task.
    pub max_steps: usize,
    /// How long one action or tool may take.
    pub step_timeout: Duration,
    /// How long it waits for another role.
    pub collaboration_timeout: Duration,
    pub on_timeout: OnTimeout,
}

impl RoleSettings {
    /// Returns the settings of a role with nothing special about it.
    pub fn new(id: RoleId) -> Self {
        Self {
            id,
            prompt: String::new(),
            templates: Vec::new(),
            classify: false,
            max_steps: 50,
            step_timeout: Duration::from_secs(600),
            collaboration_timeout: Duration::from_secs(600),
            on_timeout: OnTimeout::default(),
        }
    }

    /// Takes over what a team file says of a role; `prompt` is what is in the file that it names.
    #[must_use]
    pub fn of_team(mut self, spec: &team::RoleSpec, prompt: &str) -> Self {
        prompt.clone_into(&mut self.prompt);
        self.templates = spec.templates.iter().map(StepTemplate::from).collect();
        self.collaboration_timeout = spec.collaboration_timeout;
        self.on_timeout = spec.on_timeout;
        self
    }
}

/// What a role cannot work with, in a line each: templates that name what is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct RoleFaults(pub Vec<String>);

/// Why a role did not take a message in to its end.
#[derive(Debug, thiserror::Error)]
pub enum RoleError {
    /// The task cannot be planned: it ends with this reason.
    #[error("{0}")]
    CannotPlan(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What came of a task was not taken in.
    #[error(transparent)]
    Framework(#[from] FrameworkError),
}

/// What a role does now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoleStatus {
    #[default]
    Idle,
    Planning,
    ExecutingStep,
    WaitingForCollaboration,
}

impl RoleStatus {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Planning => "planning",
            Self::ExecutingStep => "executing_step",
            Self::WaitingForCollaboration => "waiting_for_collaboration",
        }
    }
}

/// What a role remembers; all of it is in the store too.
#[derive(Clone, Debug, Default)]
pub struct AgentState {
    pub status: RoleStatus,
    /// The message that gave the task it does.
    pub current_task: Option<StructuredMessage>,
    /// As it was when it was last looked at.
    pub internal_plan: Option<InternalPlan>,
    pub current_step_index: Option<usize>,
    pub pending_collaboration_request_id: Option<RequestId>,
    /// When the wait for the answer ends.
    pub waits_until: Option<Time>,
    /// The request that this role has sent itself, so that it is not sent again at every look.
    sent: Option<RequestId>,
    waiting: VecDeque<StructuredMessage>,
}

impl AgentState {
    /// Returns the id of the task in its plan.
    pub fn current_task_id(&self) -> Option<&str> {
        self.current_task.as_ref()?.task_id.as_deref()
    }

    /// Tells whether it waits for another role.
    pub fn waits(&self) -> bool {
        self.status == RoleStatus::WaitingForCollaboration
    }

    /// Tells whether it waits for the answer to this request.
    pub fn is_waiting_for(&self, request: &RequestId) -> bool {
        self.waits() && self.pending_collaboration_request_id.as_ref() == Some(request)
    }

    fn no_longer_waits(&mut self) {
        self.pending_collaboration_request_id = None;
        self.waits_until = None;
    }
}

/// What a message leads to.
#[derive(Debug)]
pub(super) enum Admitted {
    Begin(Box<StructuredMessage>),
    /// It is the task that the role has already.
    GoOn,
    Answer(Box<StructuredMessage>),
    Nothing,
}

/// How far the internal plan came.
#[derive(Debug)]
pub(super) enum Advance {
    Again,
    Waiting,
    Replan,
    Ended(CollaborationStatus, String),
}

/// A role: does one task at a time, and asks others through its [`Framework`].
pub struct Role {
    pub(super) settings: RoleSettings,
    pub(super) keeper: Keeper,
    pub(super) framework: Arc<dyn Framework>,
    pub(super) mind: Option<Mind>,
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
    /// Makes a role that is idle. What it did before it goes on with when the task is given to it again.
    ///
    /// # Errors
    /// Everything that a template names and that is not there.
    pub fn new(
        settings: RoleSettings,
        store: Store,
        framework: Arc<dyn Framework>,
        mind: Option<Mind>,
        actions: Abilities,
        tools: Abilities,
    ) -> Result<Self, RoleFaults> {
        let role = Self {
            keeper: Keeper::new(store, &settings.id),
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
    ) -> Result<Admitted, RoleError> {
        if message.to != self.settings.id {
            tracing::warn!(role = %self.settings.id, to = %message.to, id = %one_line(&message.id, 80), "a message for somebody else");
            return Ok(Admitted::Nothing);
        }
        match message.kind {
            MessageKind::TaskAssignment | MessageKind::CollaborationRequest => {
                self.admit_task(message).await
            }
            MessageKind::CollaborationResponse => Ok(Admitted::Answer(Box::new(message))),
            MessageKind::Cancel => self.cancel(&message).await,
        }
    }

    async fn admit_task(&mut self, message: StructuredMessage) -> Result<Admitted, RoleError> {
        let assignment = message.assignment();
        let same = |other: &StructuredMessage| other.assignment() == assignment;
        match &self.state.current_task {
            None => return Ok(Admitted::Begin(Box::new(message))),
            // What was dropped half-way while it was planned is planned again.
            Some(current) if same(current) => {
                let planned = self.state.internal_plan.as_ref();
                let planned = planned.is_some_and(|plan| !plan.steps.is_empty());
                return Ok(match planned {
                    true => Admitted::GoOn,
                    false => Admitted::Begin(Box::new(message)),
                });
            }
            Some(_) => {}
        }
        if self.state.waiting.iter().any(same) {
            return Ok(Admitted::Nothing);
        }
        if self.state.waiting.len() < MAX_WAITING {
            self.state.waiting.push_back(message);
            return Ok(Admitted::Nothing);
        }
        let reason = format!(
            "role {} is busy, and {MAX_WAITING} tasks wait already",
            self.settings.id
        );
        let update = self.update(&message, CollaborationStatus::Rejected, reason);
        self.framework.update_task_status(update).await?;
        Ok(Admitted::Nothing)
    }

    /// Returns the task that has waited longest, if the role is idle.
    pub(super) fn next_waiting(&mut self) -> Option<StructuredMessage> {
        match self.state.status {
            RoleStatus::Idle => self.state.waiting.pop_front(),
            _ => None,
        }
    }

    /// Gives a task up that nobody wants any more.
    async fn cancel(&mut self, message: &StructuredMessage) -> Result<Admitted, RoleError> {
        let Some(assignment) = message.request_id.clone() else {
            tracing::warn!(role = %self.settings.id, "a message that cancels nothing");
            return Ok(Admitted::Nothing);
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
            return Ok(Admitted::Nothing);
        };
        let ended = self
            .keeper
            .change(&plan.id, "nobody waits for it any more", |draft| {
                if !draft.plan().status().settled() {
                    draft.abandon("nobody waits for it any more")?;
                }
                put_away(draft)
            });
        let plan = ended.await?;
        self.withdraw(&plan).await?;
        if current {
            self.forget();
        }
        Ok(Admitted::Nothing)
    }

    /// Takes a task up, with its internal plan; tells whether that has no steps yet.
    pub(super) async fn begin(&mut self, task: StructuredMessage) -> Result<bool, RoleError> {
        self.state.status = RoleStatus::Planning;
        self.state.current_task = Some(task.clone());
        let plan = self.keeper.open(&self.settings.id, &task).await?;
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

    async fn cannot_plan(&mut self, error: RoleError) -> Result<(), RoleError> {
        let RoleError::CannotPlan(reason) = error else {
            return Err(error);
        };
        let reason = printable(&reason);
        self.change("the task cannot be planned", move |draft| {
            draft.abandon(&reason)
        })
        .await
    }

    /// Brings the internal plan one step on.
    pub(super) async fn advance(&mut self) -> Result<Advance, RoleError> {
        let plan = self.keeper.read(&self.plan_id()?).await?;
        self.state.internal_plan = Some(plan.clone());
        self.withdraw(&plan).await?;
        if let Some(status) = plan.ended() {
            return Ok(Advance::Ended(status, plan.outcome));
        }
        if plan.replan.is_some() {
            self.state.status = RoleStatus::Planning;
            self.state.no_longer_waits();
            return Ok(Advance::Replan);
        }
        let Some(index) = plan.current() else {
            let nothing = RoleError::CannotPlan("there is no step to be done".to_owned());
            self.cannot_plan(nothing).await?;
            return Ok(Advance::Again);
        };
        self.state.current_step_index = Some(index);
        let step = &plan.steps[index];
        match &step.request {
            Some(pending) => self.await_answer(step, pending).await,
            None => {
                self.state.status = RoleStatus::ExecutingStep;
                self.state.no_longer_waits();
                self.do_step(&plan, step).await?;
                Ok(Advance::Again)
            }
        }
    }

    /// Does a step that waits for nobody, or makes the request of one that does.
    async fn do_step(&mut self, plan: &InternalPlan, step: &Step) -> Result<(), RoleError> {
        let done = match &step.does {
            StepDoes::ExecuteAction { action, params } => {
                self.started(step).await?;
                self.call(&self.actions, action, params, plan, step).await
            }
            StepDoes::UseTool { tool, params } => {
                self.started(step).await?;
                self.call(&self.tools, tool, params, plan, step).await
            }
            StepDoes::RequestCollaboration { .. } => return self.request(plan, step).await,
        };
        let number = step.number;
        match done {
            Ok(result) => {
                let result = clip_bytes(&printable(&result), MAX_RESULT);
                self.change("a step was done", move |draft| {
                    draft.complete_task(number, &result)
                })
                .await
            }
            Err(reason) => self.fail_step(step, &reason).await,
        }
    }

    async fn started(&mut self, step: &Step) -> Result<(), RoleError> {
        let number = step.number;
        match step.status {
            TaskStatus::Pending => {
                self.change("a step is begun", move |draft| draft.start_task(number))
                    .await
            }
            // It was begun before a crash; nobody knows how far it came.
            _ => Ok(()),
        }
    }

    async fn call(
        &self,
        abilities: &Abilities,
        name: &str,
        params: &Map<String, Value>,
        plan: &InternalPlan,
        step: &Step,
    ) -> Result<String, String> {
        let (description, context) = self.given();
        let known = Known {
            description,
            context,
            steps: &plan.steps,
        };
        let asking = |mind| Asking {
            mind,
            keeper: &self.keeper,
            plan: &plan.id,
        };
        let situation = Situation {
            role: &self.settings.id,
            prompt: &self.settings.prompt,
            description,
            context,
            asking: self.mind.as_ref().map(asking),
            step: step.number,
            asked: AtomicUsize::new(0),
        };
        let params = known.fill_all(params);
        let limit = self.settings.step_timeout;
        abilities.call(name, params, &situation, limit).await
    }

    async fn fail_step(&mut self, step: &Step, reason: &str) -> Result<(), RoleError> {
        let reason = clip_bytes(&printable(reason), MAX_RESULT);
        tracing::warn!(role = %self.settings.id, step = %step.name, reason = %one_line(&reason, 200), "a step failed");
        let number = step.number;
        self.change("a step failed", move |draft| {
            let begun = draft.plan().task(number).map(|task| task.status);
            if begun == Some(TaskStatus::Pending) {
                draft.start_task(number)?;
            }
            draft.fail_task(number, &reason, false).map(|_| ())
        })
        .await
    }

    /// Makes the request of a step: its id and its text are kept before it is sent.
    async fn request(&mut self, plan: &InternalPlan, step: &Step) -> Result<(), RoleError> {
        let id = RequestId::make();
        let prepared = match self.request_message(plan, step, &id) {
            Ok(message) => self.framework.prepare(&message).await,
            Err(reason) => return self.fail_step(step, &reason).await,
        };
        let text = match prepared {
            Ok(text) => text,
            Err(refused) => return self.fail_step(step, &refused.to_string()).await,
        };
        let number = step.number;
        let issue = Issue {
            id: id.command().clone(),
            kind: Kind::New,
            session: None,
            text,
        };
        self.change("another role is asked", move |draft| {
            draft.issue(number, issue)
        })
        .await
    }

    fn request_message(
        &self,
        plan: &InternalPlan,
        step: &Step,
        id: &RequestId,
    ) -> Result<StructuredMessage, String> {
        let StepDoes::RequestCollaboration {
            target,
            description,
            context,
        } = &step.does
        else {
            return Err("the step asks nobody".to_owned());
        };
        let target: RoleId = target.parse().map_err(|error| format!("{error}"))?;
        let (task, given) = self.given();
        let known = Known {
            description: task,
            context: given,
            steps: &plan.steps,
        };
        let kind = MessageKind::CollaborationRequest;
        let mut message = StructuredMessage::new(self.settings.id.as_str(), target, kind);
        id.as_str().clone_into(&mut message.id);
        message.plan_id = Some(plan.id.clone());
        message.task_id = Some(step.number.to_string());
        message.description = Some(known.fill(description));
        message.context = Some(known.fill(context)).filter(|text| !text.is_empty());
        message.request_id = Some(id.clone());
        Ok(message)
    }

    /// Takes up an answer that is in the store, or waits for it. A request that this role has not sent itself is sent: nobody
    /// knows whether it was before a crash.
    async fn await_answer(&mut self, step: &Step, pending: &Pending) -> Result<Advance, RoleError> {
        if let Some((status, text)) = pending.answer.clone() {
            self.state.no_longer_waits();
            self.state.status = RoleStatus::ExecutingStep;
            self.answered(step, status, &text).await?;
            return Ok(Advance::Again);
        }
        if self.state.sent.as_ref() != Some(&pending.id) {
            let plan = self.state.internal_plan.clone();
            let message = plan.as_ref().map_or_else(
                || Err("there is no plan".to_owned()),
                |plan| self.request_message(plan, step, &pending.id),
            );
            let sent = match message {
                Ok(message) => self.framework.send(&message, &pending.text).await,
                Err(reason) => Err(FrameworkError(reason).into()),
            };
            if let Err(refused) = sent {
                let reason = format!("the request could not be sent: {refused}");
                self.fail_step(step, &reason).await?;
                return Ok(Advance::Again);
            }
            self.state.sent = Some(pending.id.clone());
        }
        self.state.status = RoleStatus::WaitingForCollaboration;
        self.state.pending_collaboration_request_id = Some(pending.id.clone());
        let timeout = self.settings.collaboration_timeout;
        self.state.waits_until = Some(pending.since.plus(timeout));
        Ok(Advance::Waiting)
    }

    async fn answered(
        &mut self,
        step: &Step,
        status: CollaborationStatus,
        text: &str,
    ) -> Result<(), RoleError> {
        if status != CollaborationStatus::Completed {
            let target = match &step.does {
                StepDoes::RequestCollaboration { target, .. } => target.as_str(),
                _ => "the other role",
            };
            let reason = format!("{target} answered `{}`: {text}", status.as_str());
            return self.fail_step(step, &reason).await;
        }
        let number = step.number;
        let result = clip_bytes(text, MAX_RESULT);
        self.change("another role has answered", move |draft| {
            draft.complete_task(number, &result)
        })
        .await
    }

    /// Keeps an answer, if the role waits for it, and tells whether it does.
    pub(super) async fn take_answer(
        &mut self,
        answer: StructuredMessage,
    ) -> Result<bool, RoleError> {
        let request = answer.request_id.as_ref();
        let awaited = request.filter(|request| self.state.is_waiting_for(request));
        let Some(request) = awaited else {
            tracing::warn!(
                role = %self.settings.id,
                request = %request.map_or("none", RequestId::as_str),
                "an answer that nobody waits for"
            );
            return Ok(false);
        };
        // Without a word on how it ended it only says that the answer is in the store.
        if let Some(status) = answer.status {
            let command: CommandId = request.command().clone();
            let said = answer.result_data.as_ref().map(text_of).unwrap_or_default();
            let name = one_line(&answer.id, 80);
            self.change("another role has answered", move |draft| {
                let report = Report {
                    hash: name.clone(),
                    name,
                    status: match status {
                        CollaborationStatus::Completed => ReportStatus::Success,
                        _ => ReportStatus::Failed,
                    },
                    session: None,
                    results: clip_bytes(&printable(&said), MAX_RESULT),
                    pitfalls: String::new(),
                    next_steps: String::new(),
                    question: None,
                    blocked_until: None,
                    collaboration: Some(status),
                    input_tokens: 0,
                    output_tokens: 0,
                    cost_usd: 0.0,
                    received: draft.now(),
                };
                draft.report(&command, report).map(|_| ())
            })
            .await?;
        }
        Ok(true)
    }

    /// Ends the wait for another role, if it is over and no answer is there, and tells whether it is.
    pub(super) async fn give_up_waiting(&mut self, now: Time) -> Result<bool, RoleError> {
        let over = self.state.waits_until.is_some_and(|until| until <= now);
        if !self.state.waits() || !over {
            return Ok(false);
        }
        let plan = self.keeper.read(&self.plan_id()?).await?;
        let step = plan.current().map(|index| plan.steps[index].clone());
        let waits = |step: &Step| {
            let pending = step.request.as_ref();
            pending.is_some_and(|pending| pending.answer.is_none())
        };
        // The answer goes first; an end by somebody else is taken up as well.
        let Some(step) = step.filter(waits) else {
            return Ok(true);
        };
        let reason = format!("no answer within {:?}", self.settings.collaboration_timeout);
        tracing::warn!(role = %self.settings.id, step = %step.name, "{reason}");
        let (number, on_timeout) = (step.number, self.settings.on_timeout);
        let can_plan = self.mind.is_some();
        self.change("another role has not answered in time", move |draft| {
            if on_timeout == OnTimeout::Replan && can_plan {
                let changed = draft.part(|draft| draft.change_course(number, &reason));
                match changed {
                    Err(Refusal::Replanning) => {}
                    changed => return changed,
                }
            }
            let again = on_timeout == OnTimeout::Retry;
            draft.fail_task(number, &reason, again).map(|_| ())
        })
        .await?;
        self.state.no_longer_waits();
        self.state.status = RoleStatus::ExecutingStep;
        Ok(true)
    }

    /// Takes back what was asked for and nobody waits for any more.
    async fn withdraw(&mut self, plan: &InternalPlan) -> Result<(), RoleError> {
        for request in &plan.recalls {
            self.framework.withdraw(request).await;
            let command = request.command().clone();
            let why = "a request was taken back";
            let taken_back = self
                .keeper
                .change(&plan.id, why, move |draft| draft.recalled(&command));
            taken_back.await?;
        }
        Ok(())
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
            spent: plan
                .filter(|_| own)
                .map(|plan| plan.spent)
                .unwrap_or_default(),
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

    async fn change(
        &mut self,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<(), Refusal> + Send + 'static,
    ) -> Result<(), RoleError> {
        let plan = self.keeper.change(&self.plan_id()?, why, change).await?;
        self.state.internal_plan = Some(plan);
        Ok(())
    }

    pub(super) fn plan_id(&self) -> Result<PlanId, RoleError> {
        let plan = self.state.internal_plan.as_ref();
        let none = || RoleError::CannotPlan("the role has no task".to_owned());
        plan.map(|plan| plan.id.clone()).ok_or_else(none)
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
    match draft.plan().head().shelf {
        Shelf::Current => draft.put_away(Shelf::History),
        Shelf::History | Shelf::Deleted => Ok(()),
    }
}

/// Returns what an answer says as a text.
fn text_of(data: &Value) -> String {
    match data {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
