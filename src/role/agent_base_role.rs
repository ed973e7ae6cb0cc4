//! What every role does with a task, one method for each stage: a role of its own overrides what it does differently.

use crate::llm::BoxFuture;
use crate::plan::Time;

use super::plan_execution::Advance;
use super::role_assignments::AdmittedTask;
use super::{CollaborationStatus, MessageKind, PlanningStrategy, Result, Role, StructuredMessage};
use crate::wire::StepSpec;

/// Which strategy, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenStrategy {
    pub strategy: PlanningStrategy,
    pub reason: String,
}

/// A role of the team. [`Role`] is one that is ready to use; another one holds a [`Role`], returns it from [`role`](Self::role)
/// and [`role_mut`](Self::role_mut), and overrides what it does in a way of its own.
///
/// Every method may be dropped while it is awaited and every process may end: the same message again goes on from what is in
/// the store. A step under way is begun again then; an answer that was paid for, and a request that was sent, are not made
/// twice.
///
/// ```
/// use plan_agent::llm::BoxFuture;
/// use plan_agent::role::{
///     AgentBaseRole, ChosenStrategy, PlanningStrategy, Role, RoleError, StepDoes, StepSpec,
/// };
/// use serde_json::{Map, json};
///
/// /// Greets the person that the task names, without a language model.
/// struct Greeter(Role);
///
/// impl AgentBaseRole for Greeter {
///     fn role(&self) -> &Role {
///         &self.0
///     }
///
///     fn role_mut(&mut self) -> &mut Role {
///         &mut self.0
///     }
///
///     fn determine_planning_strategy<'a>(
///         &'a mut self,
///         _: &'a str,
///     ) -> BoxFuture<'a, Result<ChosenStrategy, RoleError>> {
///         Box::pin(async {
///             Ok(ChosenStrategy {
///                 strategy: PlanningStrategy::FreeForm,
///                 reason: "a greeter always greets".to_owned(),
///             })
///         })
///     }
///
///     fn generate_internal_plan<'a>(
///         &'a mut self,
///         description: &'a str,
///     ) -> BoxFuture<'a, Result<Vec<StepSpec>, RoleError>> {
///         Box::pin(async move {
///             let mut params = Map::new();
///             params.insert("whom".to_owned(), json!(description));
///             Ok(vec![StepSpec {
///                 name: "Greet".to_owned(),
///                 does: StepDoes::ExecuteAction { action: "greet".to_owned(), params },
///             }])
///         })
///     }
/// }
/// ```
pub trait AgentBaseRole: Send {
    /// Returns what it has in common with every role.
    fn role(&self) -> &Role;

    /// As [`AgentBaseRole::role`], to be changed.
    fn role_mut(&mut self) -> &mut Role;

    /// Applies a message: begins a task, continues after an answer, abandons what was cancelled. Returns when the role is idle,
    /// or waits for another one; tasks that waited are begun then. What is not for it, or was not asked for, is logged and
    /// changes nothing.
    ///
    /// # Errors
    /// The store failed, or the framework did not apply the result of a task: the same message again continues.
    fn process_message(&mut self, message: StructuredMessage) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            match message.kind {
                _ if !self.role().is_for(&message) => {}
                MessageKind::TaskAssignment | MessageKind::CollaborationRequest => {
                    match self.role_mut().admit(&message).await? {
                        AdmittedTask::Begin => self.execute_task(message).await?,
                        AdmittedTask::Continue => self.execute_internal_plan().await?,
                        AdmittedTask::Nothing => {}
                    }
                }
                MessageKind::CollaborationResponse => {
                    self.handle_collaboration_response(message).await?;
                }
                MessageKind::Cancel => self.role_mut().cancel(&message).await?,
            }
            self.begin_waiting().await
        })
    }

    /// Begins the tasks that wait, one after the other, while the role is idle.
    ///
    /// # Errors
    /// As [`AgentBaseRole::process_message`].
    fn begin_waiting(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            while let Some(task) = self.role_mut().next_waiting() {
                self.execute_task(task).await?;
            }
            Ok(())
        })
    }

    /// Does a task, or goes on with it where it stopped: chooses a strategy, makes the internal plan, carries it out.
    ///
    /// # Errors
    /// As [`AgentBaseRole::process_message`].
    fn execute_task(&mut self, task: StructuredMessage) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let description = task.description.clone().unwrap_or_default();
            if self.role_mut().begin(task).await? {
                let steps: Result<_> = async {
                    let strategy = match self.role().strategy() {
                        Some(strategy) => strategy,
                        None => {
                            let chosen = self.determine_planning_strategy(&description).await?;
                            self.role_mut().choose(&chosen).await?;
                            chosen.strategy
                        }
                    };
                    match strategy {
                        PlanningStrategy::Simple => self.create_simple_plan(&description),
                        _ => self.generate_internal_plan(&description).await,
                    }
                }
                .await;
                self.role_mut().plan_with(steps).await?;
            }
            self.execute_internal_plan().await
        })
    }

    /// Chooses how to plan a task: the first template whose words are all in it; else simple, if it is one sentence without a
    /// list; else free-form. If the role is set to, its language model is asked whether it is simple.
    ///
    /// # Errors
    /// [`CannotPlan`](super::RoleError::CannotPlan) ends the task with that reason.
    fn determine_planning_strategy<'a>(
        &'a mut self,
        description: &'a str,
    ) -> BoxFuture<'a, Result<ChosenStrategy>> {
        Box::pin(self.role_mut().choose_strategy(description))
    }

    /// Returns the steps of a simple task: its language model does it.
    ///
    /// # Errors
    /// As [`AgentBaseRole::determine_planning_strategy`].
    fn create_simple_plan(&mut self, _: &str) -> Result<Vec<StepSpec>> {
        self.role_mut().simple_steps()
    }

    /// Returns the steps of a task that is not simple: those of its template, or those that its language model makes out of
    /// what the role can do and whom it can ask. Also called when the rest of the steps is to change because another role did
    /// not answer (see [`InternalPlan::replan`](super::InternalPlan::replan)): then these are the steps that are still needed.
    ///
    /// # Errors
    /// As [`AgentBaseRole::determine_planning_strategy`].
    fn generate_internal_plan<'a>(
        &'a mut self,
        description: &'a str,
    ) -> BoxFuture<'a, Result<Vec<StepSpec>>> {
        Box::pin(self.role_mut().make_steps(description))
    }

    /// Carries the internal plan out from where it stands, to its end or to a step that waits for another role.
    ///
    /// # Errors
    /// As [`AgentBaseRole::process_message`].
    fn execute_internal_plan(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            loop {
                match self.role_mut().advance().await? {
                    Advance::Again => {}
                    Advance::Waiting => return Ok(()),
                    Advance::Replan => {
                        let description = self.role().given().0.to_owned();
                        let steps = self.generate_internal_plan(&description).await;
                        self.role_mut().plan_with(steps).await?;
                    }
                    Advance::Ended(status, result) => {
                        let reported = self.update_task_status_in_plan_tool(status, result).await;
                        let left = self.role_mut().leave(reported.is_ok()).await;
                        return reported.and(left);
                    }
                }
            }
        })
    }

    /// Takes up the answer to the request that the role waits for, and goes on. One for a task that it was at before a restart
    /// is kept until that task is given to it again; any other answer changes nothing.
    ///
    /// # Errors
    /// As [`AgentBaseRole::process_message`].
    fn handle_collaboration_response(
        &mut self,
        answer: StructuredMessage,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if self.role_mut().take_answer(answer).await? {
                self.execute_internal_plan().await?;
            }
            Ok(())
        })
    }

    /// Reports the result of the task to the framework.
    ///
    /// # Errors
    /// The framework did not apply it.
    fn update_task_status_in_plan_tool(
        &mut self,
        status: CollaborationStatus,
        result: String,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.role_mut().report(status, result))
    }

    /// Continues if the answer that the role waits for is in the store by now.
    ///
    /// # Errors
    /// As [`AgentBaseRole::process_message`].
    fn look_again(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if self.role().state().waits() {
                self.execute_internal_plan().await?;
            }
            self.begin_waiting().await
        })
    }

    /// Takes up that the other role has not answered in time, if it has not (see `waits_until` of its state): the step fails,
    /// is tried again or the rest is planned anew, as the role is set to.
    ///
    /// # Errors
    /// As [`AgentBaseRole::process_message`].
    fn timed_out(&mut self, now: Time) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if self.role_mut().give_up_waiting(now).await? {
                self.execute_internal_plan().await?;
            }
            self.begin_waiting().await
        })
    }
}
