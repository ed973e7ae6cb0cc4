//! What connects a lane with the rest: carries its requests to other roles, and what came of its work to whoever gave it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::board::Lane;
use super::house::{House, Member, Place, message_of};
use crate::llm::questions::command_body;
use crate::llm::{BoxFuture, CommandContext, CommandKind, indented};
use crate::plan::{Collaboration, CommandId, Origin, PlanId, Report, ReportStatus, Taken};
use crate::role::{
    Chain, Colleague, Framework, FrameworkError, MessageKind, Refused, RequestId, RoleId,
    StructuredMessage, TaskUpdate,
};
use crate::store::StoreError;
use crate::volumes::{VolumesError, Whereabouts};
use crate::wire::command::{Command, CommandType};
use crate::wire::plan_file::nearest;
use crate::wire::report;
use crate::wire::text::{clip_bytes, one_line};

/// Bytes of a result that are kept: a report has to stay below what is read of one.
const RESULT: usize = 256 * 1024;
/// Characters of the context of a request that its command shows.
const CONTEXT: usize = 20_000;
/// Characters of the first line of a request in the heading of its command.
const HEADING: usize = 80;

/// What a lane is at.
#[derive(Clone, Debug, Default)]
pub(super) struct Hand {
    /// The folder that the task is done in.
    pub workspace: String,
    /// The number of the task in the plan that it belongs to.
    pub task: u32,
    /// The command by which that was handed out.
    pub command: Option<CommandId>,
}

/// The program around a role, as one of its lanes knows it.
#[derive(Debug)]
pub(super) struct Link {
    house: Arc<House>,
    lane: Lane,
    hand: Mutex<Hand>,
}

impl Link {
    pub(super) fn new(house: Arc<House>, lane: Lane) -> Self {
        Self {
            house,
            lane,
            hand: Mutex::default(),
        }
    }

    /// Notes what the lane is at from now on.
    pub(super) fn take_in_hand(&self, hand: Hand) {
        *self.hand() = hand;
    }

    /// Returns the folder in which the work is done.
    pub(super) fn workspace(&self) -> PathBuf {
        match self.hand().workspace.as_str() {
            "" => self.house.workspace.clone(),
            workspace => workspace.into(),
        }
    }

    /// Returns the command by which the task was handed out that the work is for.
    pub(super) fn top_command(&self) -> Option<CommandId> {
        self.hand().command.clone()
    }

    fn hand(&self) -> MutexGuard<'_, Hand> {
        // What is in there is whole at every moment.
        self.hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn member(&self, role: &RoleId) -> Option<&Member> {
        let mut members = self.house.members.iter();
        members.find(|member| member.id == *role)
    }

    async fn look(&self, request: &StructuredMessage) -> Result<String, Refused> {
        let to = &request.to;
        let Some(member) = self.member(to) else {
            let known = self.house.members.iter().map(|member| member.id.as_str());
            let similar = nearest(to.as_str(), known);
            return Err(Refused::UnknownRole {
                role: to.to_string(),
                similar: similar.and_then(|role| role.parse().ok()),
            });
        };
        if *to == self.lane.role {
            return Err(Refused::Itself(to.clone()));
        }
        let chain = Chain::of(&self.house.store, request.plan_id.as_ref()).await;
        let chain = chain.map_err(failed)?;
        if let Some(at) = chain.roles.iter().position(|role| role == to) {
            let back = chain.roles[..=at].iter().rev().cloned();
            return Err(Refused::Circular {
                way: back.chain([to.clone()]).collect(),
            });
        }
        if chain.roles.len() > self.house.max_depth {
            return Err(Refused::TooDeep {
                depth: chain.roles.len(),
                most: self.house.max_depth,
            });
        }
        match member.place {
            Place::Inside { .. } => {
                let text = serde_json::to_string(request).map_err(failed)?;
                self.house.board.keep_place(&self.lane, to)?;
                Ok(text)
            }
            Place::Files => {
                let text = self.command(request, &member.prompt, chain.top.as_ref());
                Ok(text.await?)
            }
        }
    }

    /// Returns the text of the command by which a role behind files is asked.
    async fn command(
        &self,
        request: &StructuredMessage,
        prompt: &str,
        top: Option<&PlanId>,
    ) -> Result<String, FrameworkError> {
        let (goal, constraints) = match top {
            Some(top) => {
                let head = self.house.store.read(top, |plan, _| {
                    (plan.head().goal.clone(), plan.head().constraints.clone())
                });
                head.await.map_err(trouble)?
            }
            None => Default::default(),
        };
        let id = request.assignment();
        let asked = request.description.clone().unwrap_or_default();
        let mut description = asked.clone();
        if let Some(context) = request
            .context
            .as_deref()
            .filter(|text| !text.trim().is_empty())
        {
            description.push_str("\n\nWhat is good to know for it:\n\n");
            description.push_str(&indented(context, CONTEXT));
        }
        let task = self.hand().task;
        let report_path = self
            .house
            .volumes
            .report(id.command())
            .display()
            .to_string();
        let first = asked.lines().find(|line| !line.trim().is_empty());
        let context = CommandContext {
            language: self.house.language,
            number: task,
            name: format!(
                "{} asks: {}",
                request.from,
                one_line(first.unwrap_or_default(), HEADING)
            ),
            goal,
            role: prompt.to_owned(),
            description,
            plan_constraints: constraints,
            branch: String::new(),
            constraints: format!(
                "The role `{}` waits for your answer, which is your report. What you will not do, reject: a line \
                 `collaboration: rejected` in the front matter, and below why.",
                request.from
            ),
            expected_outcome: String::new(),
            produces: Vec::new(),
            dependencies: Vec::new(),
            report_path: report_path.clone(),
            kind: CommandKind::New {
                note: String::new(),
            },
        };
        let body = command_body(&self.house.prompts, &context).map_err(trouble)?;
        let command = Command {
            id: id.command().clone(),
            created_at: Some(self.house.clock.now()),
            session: None,
            kind: CommandType::New,
            plan: top.cloned(),
            // Whoever reports on the task itself through a tool would speak for the one who asks.
            task: None,
            attempt: None,
            assignee: Some(request.to.to_string()),
            origin: Origin::Model,
            workspace: self.workspace().display().to_string(),
            report: report_path,
            request_id: Some(id.to_string()),
            body,
        };
        Ok(command.render())
    }

    async fn deliver(&self, request: &StructuredMessage, text: &str) -> Result<(), FrameworkError> {
        if let Some(message) = message_of(text) {
            if self.house.board.has(&message.to) {
                self.house.board.sends(&self.lane, &message.to);
                self.house.board.put(message);
                return Ok(());
            }
            let gone = format!("role `{}` is not in the process any more", message.to);
            let plan = request.plan_id.clone();
            return self
                .answer(
                    plan.as_ref(),
                    &request.assignment(),
                    Collaboration::Rejected,
                    gone,
                    None,
                )
                .await;
        }
        // At once, so that whoever drops this knows what was done.
        let (volumes, id) = (&self.house.volumes, request.assignment());
        match volumes.whereabouts(id.command()).map_err(trouble)? {
            Whereabouts::Nowhere => volumes.publish(id.command(), text).map_err(trouble),
            // It was sent before.
            _ => Ok(()),
        }
    }

    fn take_back(&self, request: &RequestId) -> Result<(), VolumesError> {
        match self.house.board.cancel(request) {
            true => Ok(()),
            false => self.house.volumes.recall(request.command()).map(drop),
        }
    }

    /// Takes in what came of the work.
    ///
    /// # Errors
    /// The store or the file system failed.
    pub(super) async fn conclude(&self, update: TaskUpdate) -> Result<(), FrameworkError> {
        let result = match update.result.trim() {
            "" => "Nothing was said.".to_owned(),
            result => clip_bytes(result, RESULT),
        };
        match update.kind {
            MessageKind::CollaborationRequest => {
                let (plan, id) = (update.plan_id.clone(), update.assignment.clone());
                self.answer(plan.as_ref(), &id, update.status, result, Some(&update))
                    .await
            }
            _ => self.report(&update, result),
        }
    }

    /// Writes a report, unless one is there: of this role before a crash, or of a person.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn submit(&self, id: &CommandId, text: &str) -> Result<(), VolumesError> {
        match self.house.volumes.reported(id)? {
            true => Ok(()),
            false => self.house.volumes.submit(id, text),
        }
    }

    /// Writes the report on a task.
    fn report(&self, update: &TaskUpdate, result: String) -> Result<(), FrameworkError> {
        let id = update.assignment.command().clone();
        let mut report = report::Report::new(id.clone(), status(update.status));
        report.results = result;
        report.input_tokens = update.spent.input_tokens;
        report.output_tokens = update.spent.output_tokens;
        report.cost_usd = update.spent.cost_usd;
        self.submit(&id, &report::render(&report))
            .map_err(trouble)?;
        tracing::info!(role = %self.lane.role, command = %update.assignment, status = update.status.as_str(), "reported");
        Ok(())
    }

    /// Records the answer to a request where whoever asked waits for it.
    async fn answer(
        &self,
        plan: Option<&PlanId>,
        request: &RequestId,
        status_of: Collaboration,
        result: String,
        update: Option<&TaskUpdate>,
    ) -> Result<(), FrameworkError> {
        let Some(plan) = plan else {
            return Ok(());
        };
        let spent = update.map(|update| update.spent).unwrap_or_default();
        let name = format!("role {}", self.lane.role);
        let report = Report {
            name: name.clone(),
            status: status(status_of),
            session: None,
            results: result,
            pitfalls: String::new(),
            next_steps: String::new(),
            question: None,
            blocked_until: None,
            collaboration: Some(status_of),
            input_tokens: spent.input_tokens,
            output_tokens: spent.output_tokens,
            cost_usd: spent.cost_usd,
            hash: format!("answer to {request}"),
            received: self.house.clock.now(),
        };
        let command: CommandId = request.command().clone();
        let answered =
            self.house
                .store
                .change(plan, &name, "a request was answered", move |draft| {
                    draft.report(&command, report)
                });
        match answered.await {
            Ok(Taken::Counts | Taken::Known) => {
                tracing::info!(role = %self.lane.role, %request, status = status_of.as_str(), "answered");
                Ok(())
            }
            Ok(Taken::Stale | Taken::Other) => Ok(()),
            // Nobody is there any more to take the answer.
            Err(error @ (StoreError::Refused(_) | StoreError::UnknownPlan(_))) => {
                tracing::warn!(%request, %error, "nobody takes an answer");
                Ok(())
            }
            Err(error) => Err(trouble(error)),
        }
    }
}

impl Framework for Link {
    fn colleagues(&self) -> Vec<Colleague> {
        let others = self.house.members.iter();
        others
            .filter(|member| member.id != self.lane.role)
            .map(|member| Colleague {
                id: member.id.clone(),
                description: member.description.clone(),
            })
            .collect()
    }

    fn prepare<'a>(
        &'a self,
        request: &'a StructuredMessage,
    ) -> BoxFuture<'a, Result<String, Refused>> {
        Box::pin(self.look(request))
    }

    fn send<'a>(
        &'a self,
        request: &'a StructuredMessage,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), Refused>> {
        Box::pin(async move { Ok(self.deliver(request, text).await?) })
    }

    fn withdraw<'a>(&'a self, request: &'a RequestId) -> BoxFuture<'a, Result<(), FrameworkError>> {
        let done = self.take_back(request).map_err(trouble);
        Box::pin(std::future::ready(done))
    }

    fn update_task_status<'a>(
        &'a self,
        update: TaskUpdate,
    ) -> BoxFuture<'a, Result<(), FrameworkError>> {
        Box::pin(self.conclude(update))
    }
}

fn status(answer: Collaboration) -> ReportStatus {
    match answer {
        Collaboration::Completed => ReportStatus::Success,
        Collaboration::Error | Collaboration::Rejected => ReportStatus::Failed,
    }
}

fn trouble(error: impl std::error::Error + Send + Sync + 'static) -> FrameworkError {
    FrameworkError(format!("{:#}", anyhow::Error::new(error)))
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Refused {
    Refused::Failed(trouble(error))
}
