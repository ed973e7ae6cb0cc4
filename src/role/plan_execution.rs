//! Carrying an internal plan out: its steps, its requests to other roles, and what comes of them.

use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;

use serde_json::{Map, Value};

use crate::plan::{
    AttemptKind, AttemptState, NewCommand, PlanId, Refusal, Report, ReportStatus, TaskState, Time,
};
use crate::wire::team_file::{OnTimeout, StepDoes};
use crate::wire::text::{clip_bytes, one_line, printable};

use super::abilities::Abilities;
use super::framework::RequestRefused;
use super::internal_plan::{InternalPlan, InternalStep, PendingAnswer};
use super::messages::{CollaborationStatus, MessageKind, RequestId, RoleId, StructuredMessage};
use super::placeholders::StepValues;
use super::role_agent::Role;
use super::role_model::StepContext;
use super::role_state::{RoleError, RoleStatus};

/// Bytes that are kept of what a step said.
const MAX_RESULT: usize = 128 * 1024;

/// How far the internal plan came.
#[derive(Debug)]
pub(super) enum Advance {
    Again,
    Waiting,
    Replan,
    Ended(CollaborationStatus, String),
}

impl Role {
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

    /// Does a step that waits for no role, or makes the request of one that does.
    async fn do_step(&mut self, plan: &InternalPlan, step: &InternalStep) -> Result<(), RoleError> {
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
        }?;
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

    async fn started(&mut self, step: &InternalStep) -> Result<(), RoleError> {
        let number = step.number;
        match step.status {
            TaskState::Pending => {
                self.change("a step is begun", move |draft| draft.start_task(number))
                    .await
            }
            // It was begun before a crash; nobody knows how far it came.
            _ => Ok(()),
        }
    }

    /// Carries an action or a tool out, and returns what it says: the result, or why there is none.
    ///
    /// # Errors
    /// The store failed meanwhile: that says nothing about the step, which is begun again.
    async fn call(
        &self,
        abilities: &Abilities,
        name: &str,
        params: &Map<String, Value>,
        plan: &InternalPlan,
        step: &InternalStep,
    ) -> Result<Result<String, String>, RoleError> {
        let (description, context) = self.given();
        let known = StepValues {
            description,
            context,
            steps: &plan.steps,
        };
        let asking = |mind| self.asking(mind, &plan.id);
        let situation = StepContext {
            role: &self.settings.id,
            prompt: &self.settings.prompt,
            description,
            context,
            asking: self.mind.as_ref().map(asking),
            plan: &plan.id,
            step: step.number,
            asked: AtomicUsize::new(0),
            fault: OnceLock::new(),
        };
        let params = match known.fill_all(params) {
            Ok(params) => params,
            Err(reason) => return Ok(Err(reason)),
        };
        let limit = self.settings.step_timeout;
        let said = abilities.call(name, params, &situation, limit).await;
        match situation.fault.into_inner() {
            Some(fault) => Err(fault.into()),
            None => Ok(said),
        }
    }

    async fn fail_step(&mut self, step: &InternalStep, reason: &str) -> Result<(), RoleError> {
        let reason = clip_bytes(&printable(reason), MAX_RESULT);
        tracing::warn!(role = %self.settings.id, step = %step.name, reason = %one_line(&reason, 200), "a step failed");
        let number = step.number;
        self.change("a step failed", move |draft| {
            let begun = draft.plan().task(number).map(|task| task.status);
            if begun == Some(TaskState::Pending) {
                draft.start_task(number)?;
            }
            draft.fail_task(number, &reason, false).map(|_| ())
        })
        .await
    }

    /// Makes the request of a step: its id and its text are kept before it is sent.
    async fn request(&mut self, plan: &InternalPlan, step: &InternalStep) -> Result<(), RoleError> {
        let id = RequestId::make();
        let prepared = match self.request_message(plan, step, &id) {
            Ok(message) => self.framework.prepare(&message).await,
            Err(reason) => return self.fail_step(step, &reason).await,
        };
        let text = match prepared {
            Ok(text) => text,
            // Nothing is known against the request: it may be made later.
            Err(RequestRefused::Failed(error)) => return Err(error.into()),
            Err(refused) => return self.fail_step(step, &refused.to_string()).await,
        };
        let number = step.number;
        let issue = NewCommand {
            id: id.command().clone(),
            kind: AttemptKind::New,
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
        step: &InternalStep,
        id: &RequestId,
    ) -> Result<StructuredMessage, String> {
        let StepDoes::RequestCollaboration {
            target,
            description,
            context,
        } = &step.does
        else {
            return Err("the step asks no role".to_owned());
        };
        let target: RoleId = target.parse().map_err(|error| format!("{error}"))?;
        let (task, given) = self.given();
        let known = StepValues {
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
    async fn await_answer(
        &mut self,
        step: &InternalStep,
        pending: &PendingAnswer,
    ) -> Result<Advance, RoleError> {
        if let Some((status, text)) = pending.answer.clone() {
            self.state.no_longer_waits();
            self.state.status = RoleStatus::ExecutingStep;
            self.end_waits(self.state.top.as_ref()).await?;
            self.answered(step, &pending.id, status, &text).await?;
            return Ok(Advance::Again);
        }
        if self.state.sent.as_ref() != Some(&pending.id) {
            let plan = self.state.internal_plan.clone();
            let message = plan.as_ref().map_or_else(
                || Err("there is no plan".to_owned()),
                |plan| self.request_message(plan, step, &pending.id),
            );
            let sent = match message {
                Ok(message) => {
                    // What it waited for before may go on as this.
                    self.end_waits(self.state.top.as_ref()).await?;
                    self.begin_wait(&message).await?;
                    match self.framework.send(&message, &pending.text).await {
                        // It is kept, and sent by whoever goes on.
                        Err(RequestRefused::Failed(error)) => return Err(error.into()),
                        sent => sent
                            .map_err(|refused| format!("the request could not be sent: {refused}")),
                    }
                }
                Err(reason) => Err(reason),
            };
            if let Err(reason) = sent {
                // First: of a step that has failed it would be told that nobody answered in time.
                self.not_sent(&pending.id).await?;
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
        step: &InternalStep,
        request: &RequestId,
        status: CollaborationStatus,
        text: &str,
    ) -> Result<(), RoleError> {
        if status != CollaborationStatus::Completed {
            let target = match &step.does {
                StepDoes::RequestCollaboration { target, .. } => target.as_str(),
                _ => "the other role",
            };
            // The cause alone: it would not be read behind every step on the way there.
            let cause = self.keeper.passed_on(target, request).await?;
            let why = cause.as_deref().unwrap_or(text);
            let reason = format!("{target} answered `{}`: {why}", status.as_str());
            return self.fail_step(step, &reason).await;
        }
        let number = step.number;
        let result = clip_bytes(text, MAX_RESULT);
        self.change("another role has answered", move |draft| {
            draft.complete_task(number, &result)
        })
        .await
    }

    /// Keeps an answer, if the role waits for it, and returns whether it does.
    pub(super) async fn take_answer(
        &mut self,
        answer: StructuredMessage,
    ) -> Result<bool, RoleError> {
        let request = answer.request_id.as_ref();
        let awaited = request.filter(|request| self.state.is_waiting_for(request));
        let plan = match (awaited, request) {
            (Some(_), _) => Some(self.plan_id()?),
            (None, Some(request)) => self.asked_before(request).await?,
            (None, None) => None,
        };
        let (Some(plan), Some(request)) = (plan, request) else {
            tracing::warn!(
                role = %self.settings.id,
                request = %request.map_or("none", RequestId::as_str),
                "an answer that nobody waits for"
            );
            return Ok(false);
        };
        // Without a word on how it ended it only says that the answer is in the store.
        if let Some(status) = answer.status {
            let command = request.command().clone();
            let (name, why) = (one_line(&answer.id, 80), "another role has answered");
            let said = answer.result_data.as_ref().map(text_of).unwrap_or_default();
            let kept = self.keeper.change(&plan, why, move |draft| {
                let report = reported(name, status, &said, draft.now());
                draft.report(&command, report).map(|_| ())
            });
            let kept = kept.await?;
            if awaited.is_some() {
                self.state.internal_plan = Some(kept);
            }
        }
        Ok(awaited.is_some())
    }

    /// Returns the internal plan of a task that this role was at before a restart and that is not given to it again yet, if
    /// it waits for this answer there.
    async fn asked_before(&self, request: &RequestId) -> Result<Option<PlanId>, RoleError> {
        let (store, command) = (self.keeper.store(), request.command().clone());
        let Some(plan) = store.plan_of(&command).await? else {
            return Ok(None);
        };
        let current = self.state.internal_plan.as_ref();
        if current.is_some_and(|current| current.id == plan) {
            return Ok(None);
        }
        let own = InternalPlan::keys(&self.settings.id);
        let waits = store.read(&plan, move |plan, _| {
            let attempt = plan.attempt(&command);
            let open = attempt.is_some_and(|attempt| attempt.state == AttemptState::Open);
            open && !plan.status().settled() && plan.head().key().starts_with(&own)
        });
        Ok(waits.await?.then_some(plan))
    }

    /// Ends the wait for another role, if it is over and no answer is there, and returns whether it is.
    pub(super) async fn give_up_waiting(&mut self, now: Time) -> Result<bool, RoleError> {
        let over = self.state.waits_until.is_some_and(|until| until <= now);
        if !self.state.waits() || !over {
            return Ok(false);
        }
        let plan = self.keeper.read(&self.plan_id()?).await?;
        let step = plan.current().map(|index| plan.steps[index].clone());
        let waits = |step: &InternalStep| {
            let pending = step.request.as_ref();
            pending.is_some_and(|pending| pending.answer.is_none() && !pending.with_person)
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
        self.end_waits(self.state.top.as_ref()).await?;
        Ok(true)
    }

    /// Takes back what was asked for and nobody waits for any more.
    pub(super) async fn withdraw(&mut self, plan: &InternalPlan) -> Result<(), RoleError> {
        for request in &plan.recalls {
            self.framework.withdraw(request).await?;
            let command = request.command().clone();
            let why = "a request was taken back";
            let taken_back = self
                .keeper
                .change(&plan.id, why, move |draft| draft.recalled(&command));
            taken_back.await?;
        }
        Ok(())
    }
}

/// Turns an answer into the report that is kept of it.
fn reported(name: String, status: CollaborationStatus, said: &str, received: Time) -> Report {
    let as_report = match status {
        CollaborationStatus::Completed => ReportStatus::Success,
        _ => ReportStatus::Failed,
    };
    Report {
        hash: name.clone(),
        results: clip_bytes(&printable(said), MAX_RESULT),
        collaboration: Some(status),
        ..Report::new(name, as_report, received)
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
