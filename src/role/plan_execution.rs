//! Carrying an internal plan out: its steps, its requests to other roles, and what comes of them.

use std::fmt::Display;
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;

use serde_json::Value;

use crate::plan::{AttemptState, Draft, PlanId, Refusal, Report, ReportStatus, TaskState, Time};
use crate::wire::team_file::placeholders::names;
use crate::wire::{OnTimeout, StepDoes, clip_bytes, one_line, printable};

use super::abilities::Params;
use super::placeholders::StepValues;
use super::request_collaboration::Request;
use super::*;

/// The most bytes of what a step passes on. A longer result fails the step: a part of it would pass for the whole.
pub(super) const MAX_RESULT: usize = 128 * 1024;

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
    pub(super) async fn advance(&mut self) -> Result<Advance> {
        let plan = self.keeper.read(&self.plan_id()?).await?;
        self.state.internal_plan = Some(plan.clone());
        self.withdraw(&plan).await?;
        if let Some(status) = plan.ended() {
            return Ok(Advance::Ended(status, plan.outcome));
        }
        if plan.replan.is_some() {
            self.state.stop_waiting(RoleStatus::Planning);
            return Ok(Advance::Replan);
        }
        let Some(index) = plan.current() else {
            let nothing = RoleError::cannot_plan("there is no step to be done");
            self.cannot_plan(nothing).await?;
            return Ok(Advance::Again);
        };
        self.state.current_step_index = Some(index);
        let step = &plan.steps[index];
        match &step.request {
            Some(pending) => self.await_answer(&plan, step, pending).await,
            None => {
                self.state.stop_waiting(RoleStatus::ExecutingStep);
                self.do_step(&plan, step).await?;
                Ok(Advance::Again)
            }
        }
    }

    /// Does a step that waits for no role, or makes the request of one that does.
    async fn do_step(&mut self, plan: &InternalPlan, step: &InternalStep) -> Result<()> {
        let (name, params) = match &step.does {
            StepDoes::ExecuteAction {
                action: name,
                params,
            }
            | StepDoes::UseTool { tool: name, params } => (name, params),
            StepDoes::RequestCollaboration { .. } => return self.request(plan, step).await,
        };
        let number = step.number;
        // A step in another state was begun before a crash, and it is unknown how far it came.
        if step.status == TaskState::Pending {
            let begin = move |draft: &mut Draft<'_>| draft.start_task(number);
            self.change("a step is begun", begin).await?;
        }
        let abilities = match &step.does {
            StepDoes::UseTool { .. } => &self.tools,
            _ => &self.actions,
        };
        let params = match self.values(plan).fill_all(params) {
            Ok(params) => params,
            Err(reason) => return self.fail_step(step, &reason).await,
        };
        let why = "a step was done";
        match self.call(abilities, name, params, plan, step).await? {
            Ok(result) => self.complete_step(step, why, &result).await,
            Err(reason) => self.fail_step(step, &reason).await,
        }
    }

    /// Carries an action or a tool out, and returns its result, or why there is none.
    ///
    /// # Errors
    /// The store failed meanwhile: that says nothing about the step, which is begun again.
    async fn call(
        &self,
        abilities: &Abilities,
        name: &str,
        params: Params,
        plan: &InternalPlan,
        step: &InternalStep,
    ) -> Result<Result<String, String>> {
        let asking = |model| self.asking(model, &plan.id);
        let situation = StepContext {
            task: self.question_context(),
            asking: self.model.as_ref().map(asking),
            plan: &plan.id,
            step: step.number,
            asked: AtomicUsize::new(0),
            fault: OnceLock::new(),
        };
        let limit = self.settings.config.step_timeout;
        let said = abilities.call(name, params, &situation, limit).await;
        situation.fault.into_inner().map_or(Ok(said), Err)
    }

    fn values<'a>(&'a self, plan: &'a InternalPlan) -> StepValues<'a> {
        let (description, context) = self.given();
        StepValues {
            description,
            context,
            steps: &plan.steps,
        }
    }

    async fn complete_step(&mut self, step: &InternalStep, why: &str, result: &str) -> Result<()> {
        if result.len() > MAX_RESULT {
            let reason = format!("its result {}", too_large(result.len()));
            return self.fail_step(step, &reason).await;
        }
        let (number, result) = (step.number, result.to_owned());
        let complete = move |draft: &mut Draft<'_>| draft.complete_task(number, &result);
        self.change(why, complete).await
    }

    async fn fail_step(&mut self, step: &InternalStep, reason: &str) -> Result<()> {
        let reason = clip_bytes(&printable(reason), MAX_RESULT);
        tracing::warn!(role = %self.settings.id, step = %step.name, reason = %one_line(&reason, 200), "a step failed");
        let number = step.number;
        self.change("a step failed", move |draft| {
            if draft.plan().task(number).map(|task| task.status) == Some(TaskState::Pending) {
                draft.start_task(number)?;
            }
            draft.fail_task(number, &reason, false).map(|_| ())
        })
        .await
    }

    /// Makes the request of a step with the action for that: its id and its text are persisted before it is sent.
    async fn request(&mut self, plan: &InternalPlan, step: &InternalStep) -> Result<()> {
        let params = match self.requested(plan, step) {
            Ok(request) => request.params(),
            Err(reason) => return self.fail_step(step, &reason).await,
        };
        let name = REQUEST_COLLABORATION;
        let answer = match self.call(&self.actions, name, params, plan, step).await? {
            Ok(answer) => answer,
            Err(reason) => return self.fail_step(step, &reason).await,
        };
        let plan = self.keeper.read(&self.plan_id()?).await?;
        let mut steps = plan.steps.iter();
        if steps.any(|other| other.number == step.number && other.request.is_some()) {
            self.state.internal_plan = Some(plan);
            return Ok(());
        }
        let reason = format!("no request was made: {}", one_line(&answer, 200));
        self.fail_step(step, &reason).await
    }

    fn requested(&self, plan: &InternalPlan, step: &InternalStep) -> Result<Request, String> {
        let StepDoes::RequestCollaboration {
            target,
            description,
            context,
        } = &step.does
        else {
            return Err("the step asks no role".to_owned());
        };
        let values = self.values(plan);
        let mut filled = values.fill(context)?;
        let said = self.state.current_task.as_ref();
        let said = said.and_then(|task| task.said.as_ref());
        // The whole context has it, too.
        let mut named = names(description).chain(names(context));
        let names_all = named.any(|name| name == "context");
        if let Some(said) = said.filter(|_| !names_all) {
            filled = format!("{filled}\n\n{said}").trim().to_owned();
        }
        Ok(Request {
            target_name: target.clone(),
            subtask_description: values.fill(description)?,
            context: filled,
        })
    }

    /// Applies an answer that is in the store, or waits for it.
    async fn await_answer(
        &mut self,
        plan: &InternalPlan,
        step: &InternalStep,
        pending: &PendingAnswer,
    ) -> Result<Advance> {
        if let Some((status, text)) = &pending.answer {
            self.state.stop_waiting(RoleStatus::ExecutingStep);
            self.end_waits(self.state.top.as_ref()).await?;
            self.answered(step, &pending.id, *status, text).await?;
            return Ok(Advance::Again);
        }
        // A request that this process has not sent is sent: it is unknown whether it was before a crash.
        if self.state.sent.as_ref() != Some(&pending.id)
            && let Err(reason) = self.send(plan, step, pending).await?
        {
            // First: of a step that has failed it would be reported that no answer came in time.
            self.not_sent(&pending.id).await?;
            self.fail_step(step, &reason).await?;
            return Ok(Advance::Again);
        }
        self.state.sent = Some(pending.id.clone());
        self.state.status = RoleStatus::WaitingForCollaboration;
        self.state.pending_collaboration_request_id = Some(pending.id.clone());
        self.state.waits_until = Some(pending.since.plus(self.settings.collaboration_timeout));
        Ok(Advance::Waiting)
    }

    /// Sends the request of a step, or returns why it cannot be sent.
    async fn send(
        &self,
        plan: &InternalPlan,
        step: &InternalStep,
        pending: &PendingAnswer,
    ) -> Result<Result<(), String>> {
        let asked = (&plan.id, step.number);
        let request = self.requested(plan, step);
        let message = request.and_then(|it| it.message(&self.settings.id, &pending.id, asked));
        let message = match message {
            Ok(message) => message,
            Err(reason) => return Ok(Err(reason)),
        };
        // The wait for an earlier request may continue as this one.
        self.end_waits(self.state.top.as_ref()).await?;
        self.begin_wait(&message).await?;
        match self.framework.send(&message, &pending.text).await {
            // It is persisted, and sent by the process that continues.
            Err(RequestRefused::Failed(error)) => Err(error.into()),
            sent => Ok(sent.map_err(|refused| format!("the request could not be sent: {refused}"))),
        }
    }

    async fn answered(
        &mut self,
        step: &InternalStep,
        request: &RequestId,
        status: CollaborationStatus,
        text: &str,
    ) -> Result<()> {
        if status == CollaborationStatus::Completed {
            let why = "another role has answered";
            return self.complete_step(step, why, text).await;
        }
        let target = match &step.does {
            StepDoes::RequestCollaboration { target, .. } => target.as_str(),
            _ => "the other role",
        };
        // Only the cause: it would not be read behind every step on the way there.
        let cause = self.keeper.passed_on(target, request).await?;
        let why = cause.as_deref().unwrap_or(text);
        let reason = format!("{target} answered `{}`: {why}", status.as_str());
        self.fail_step(step, &reason).await
    }

    /// Persists an answer, if the role waits for it, and returns whether it does.
    pub(super) async fn take_answer(&mut self, answer: StructuredMessage) -> Result<bool> {
        let request = answer.request_id.as_ref();
        let awaited = request.is_some_and(|request| self.state.is_waiting_for(request));
        let plan = match request {
            Some(_) if awaited => Some(self.plan_id()?),
            Some(request) => self.asked_before(request).await?,
            None => None,
        };
        let (Some(plan), Some(request)) = (plan, request) else {
            let request = request.map_or("none", RequestId::as_str);
            tracing::warn!(role = %self.settings.id, request, "an answer that no step waits for");
            return Ok(false);
        };
        // Without a word on how it ended it only says that the answer is in the store.
        if let Some(status) = answer.status {
            let command = request.clone();
            let (name, why) = (one_line(&answer.id, 80), "another role has answered");
            let said = answer.result_data.as_ref().map(text_of).unwrap_or_default();
            let kept = self.keeper.change(&plan, why, move |draft| {
                let report = reported(name, status, &said, draft.now());
                draft.report(&command, report).map(|_| ())
            });
            let kept = kept.await?;
            if awaited {
                self.state.internal_plan = Some(kept);
            }
        }
        Ok(awaited)
    }

    /// Returns the internal plan of a task that this role was at before a restart and that is not given to it again yet, if
    /// it waits for this answer there.
    async fn asked_before(&self, request: &RequestId) -> Result<Option<PlanId>> {
        let (store, command) = (&self.keeper.store, request.clone());
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
    pub(super) async fn give_up_waiting(&mut self, now: Time) -> Result<bool> {
        if !self.state.waits() || self.state.waits_until.is_none_or(|until| until > now) {
            return Ok(false);
        }
        let plan = self.keeper.read(&self.plan_id()?).await?;
        let step = plan.current().map(|index| plan.steps[index].clone());
        let waits = |step: &InternalStep| {
            let open = |pending: &PendingAnswer| pending.answer.is_none() && !pending.rests;
            step.request.as_ref().is_some_and(open)
        };
        // The answer goes first; an end by another process is also applied.
        let Some(step) = step.filter(waits) else {
            return Ok(true);
        };
        let reason = format!("no answer within {:?}", self.settings.collaboration_timeout);
        tracing::warn!(role = %self.settings.id, step = %step.name, "{reason}");
        let (number, on_timeout) = (step.number, self.settings.on_timeout);
        let can_plan = self.model.is_some();
        self.change("another role has not answered in time", move |draft| {
            if on_timeout == OnTimeout::Replan && can_plan {
                match draft.part(|draft| draft.change_course(number, &reason)) {
                    Err(Refusal::Replanning) => {}
                    changed => return changed,
                }
            }
            let again = on_timeout == OnTimeout::Retry;
            draft.fail_task(number, &reason, again).map(|_| ())
        })
        .await?;
        self.state.stop_waiting(RoleStatus::ExecutingStep);
        self.end_waits(self.state.top.as_ref()).await?;
        Ok(true)
    }

    /// Withdraws the requests whose answers the plan does not need any more.
    pub(super) async fn withdraw(&mut self, plan: &InternalPlan) -> Result<()> {
        for request in &plan.recalls {
            self.framework.withdraw(request).await?;
            let command = request.clone();
            let why = "a request was taken back";
            let recalled = move |draft: &mut Draft<'_>| draft.recalled(&command);
            self.keeper.change(&plan.id, why, recalled).await?;
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
    let mut report = Report::new(name.clone(), as_report, received);
    report.hash = name;
    said.clone_into(&mut report.results);
    report.collaboration = Some(status);
    report
}

/// Says that a result of so many bytes is not handed on.
pub(super) fn too_large(bytes: impl Display) -> String {
    format!("has {bytes} bytes, and a step passes on at most {MAX_RESULT}")
}

/// Returns what an answer says as a text.
fn text_of(data: &Value) -> String {
    match data {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
