//! What connects a lane with the rest: carries its requests to other roles, and the result of its work to where the work came from.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Lane, RoleHost, SharedContext};
use crate::llm::questions::command_body;
use crate::llm::{BoxFuture, CommandContext, indented};
use crate::plan::{Collaboration, PlanId, ReportStatus};
use crate::role::{
    Framework, FrameworkError, MessageKind, OtherRole, RequestId, RequestRefused, RoleId,
    StructuredMessage, TaskUpdate, WaitChain,
};
use crate::volumes::{CommandPlace, VolumesError};
use crate::wire::{CommandFile, clip_bytes, one_line, printable, report_file};
use crate::worker::worker_loop::chain;

/// Bytes of a result that are kept: a report has to stay below what is read of one.
const RESULT: usize = 256 * 1024;
/// Characters of the context of a request that its command shows.
const CONTEXT: usize = 20_000;
/// Characters of the first line of a request in the heading of its command.
const HEADING: usize = 80;

/// The program around a role, as a lane knows it while it is at one thing.
pub(super) struct RoleLink {
    shared: Arc<SharedContext>,
    lane: Lane,
    /// The folder in which the work is done.
    pub(super) workspace: PathBuf,
}

impl RoleLink {
    /// Connects a lane for work in a folder; an empty name stands for the folder where nothing names another.
    pub(super) fn new(shared: Arc<SharedContext>, lane: Lane, workspace: &str) -> Self {
        let workspace = match workspace {
            "" => shared.host.workspace.clone(),
            workspace => workspace.into(),
        };
        Self {
            shared,
            lane,
            workspace,
        }
    }

    fn has_member(&self, role: &RoleId) -> bool {
        let mut members = self.host().members.iter();
        members.any(|member| member.id == *role)
    }

    fn host(&self) -> &RoleHost {
        &self.shared.host
    }

    /// Returns the text of the command that a request is.
    fn command(&self, request: &StructuredMessage, top: Option<&PlanId>, body: String) -> String {
        let id = request.assignment();
        let command = CommandFile {
            id: id.clone(),
            created_at: Some(self.host().clock.now()),
            plan: top.cloned(),
            assignee: Some(request.to.to_string()),
            workspace: self.workspace.display().to_string(),
            report: self.report_path(&id),
            request_id: Some(id.to_string()),
            body,
            // Without the task: a report on it through a tool would be one for the role that asks.
            ..CommandFile::default()
        };
        command.render()
    }

    fn report_path(&self, request: &RequestId) -> String {
        self.host().volumes.report(request).display().to_string()
    }

    /// Returns what a role behind files is asked, in words.
    async fn body(
        &self,
        request: &StructuredMessage,
        chain: &WaitChain,
    ) -> Result<String, FrameworkError> {
        let asked = printable(request.description.as_deref().unwrap_or_default());
        let (goal, constraints, number, language) = match (&chain.top, chain.command.clone()) {
            (Some(top), Some(command)) => {
                let known = self.host().store.read(top, move |plan, _| {
                    let number = plan.attempt(&command).map_or(0, |attempt| attempt.task.0);
                    let (goal, constraints) = (plan.head().goal.clone(), &plan.head().constraints);
                    (goal, constraints.clone(), number, plan.head().language())
                });
                known.await.map_err(trouble)?
            }
            _ => {
                let language = self.host().config.run.language.of(&asked);
                (String::new(), String::new(), 0, language)
            }
        };
        let mut description = asked.clone();
        let known = request.context.as_deref();
        if let Some(context) = known.filter(|text| !text.trim().is_empty()) {
            let known = language.pick("What is good to know for it:", "相关背景：");
            description.push_str(&["\n\n", known, "\n\n"].concat());
            description.push_str(&indented(context, CONTEXT));
        }
        let first = asked.lines().find(|line| !line.trim().is_empty());
        let asked = one_line(first.unwrap_or_default(), HEADING);
        let asks = language.pick("asks:", "请求：");
        let prompt = self.host().role_prompts.get(request.to.as_str());
        let context = CommandContext {
            language,
            number,
            name: format!("{} {asks} {asked}", request.from),
            goal,
            role: prompt.cloned().unwrap_or_default(),
            description,
            plan_constraints: constraints,
            constraints: language.pick(
                format!(
                    "The role `{}` waits for your answer, which is your report. What you will not do, reject: a line \
                     `collaboration: rejected` in the front matter, and below why.",
                    request.from
                ),
                format!(
                    "角色 `{}` 正在等待你的答复，你的报告就是答复。不愿做的事请拒绝：在 front matter 中写一行 \
                     `collaboration: rejected`，并在下文说明原因。",
                    request.from
                ),
            ),
            report_path: self.report_path(&request.assignment()),
            ..CommandContext::default()
        };
        command_body(&self.host().prompts, &context).map_err(trouble)
    }

    fn unknown(&self, role: &RoleId) -> RequestRefused {
        let known = self.host().members.iter().map(|member| member.id.as_str());
        RequestRefused::unknown(role.as_str(), known)
    }

    /// Takes in what came of the work.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) async fn conclude(&self, update: &TaskUpdate) -> Result<(), VolumesError> {
        // The mark that says so may come later than this; a report would count as a late one.
        match self.shared.recalled(&update.task.assignment()).await {
            true => Ok(()),
            false => self.report(update),
        }
    }

    fn report(&self, update: &TaskUpdate) -> Result<(), VolumesError> {
        let id = update.task.assignment();
        // Of this role before a crash, or of a person.
        if self.host().volumes.reported(&id)? {
            return Ok(());
        }
        let status = match update.status {
            Collaboration::Completed if update.partial => ReportStatus::PartialSuccess,
            Collaboration::Completed => ReportStatus::Success,
            Collaboration::Error | Collaboration::Rejected => ReportStatus::Failed,
        };
        let mut file = report_file::ReportFile::new(id.clone(), status);
        let report = &mut file.report;
        if update.task.kind == MessageKind::CollaborationRequest {
            file.request_id = Some(id.to_string());
            report.collaboration = Some(update.status);
        }
        report.results = match update.result.trim() {
            "" => "Nothing was said.".to_owned(),
            result => clip_bytes(result, RESULT),
        };
        report.input_tokens = update.spent.input_tokens;
        report.output_tokens = update.spent.output_tokens;
        report.cost_usd = update.spent.cost_usd;
        let text = report_file::render(&file);
        self.host().volumes.submit(&id, &text)?;
        tracing::info!(role = %self.lane.role, command = %id, status = update.status.as_str(), "reported");
        Ok(())
    }
}

impl Framework for RoleLink {
    fn other_roles(&self) -> Vec<OtherRole> {
        let members = self.host().members.iter();
        let others = members.filter(|member| member.id != self.lane.role);
        others.cloned().collect()
    }

    fn prepare<'a>(
        &'a self,
        request: &'a StructuredMessage,
    ) -> BoxFuture<'a, Result<String, RequestRefused>> {
        Box::pin(async move {
            let to = &request.to;
            if !self.has_member(to) {
                return Err(self.unknown(to));
            }
            if *to == self.lane.role {
                return Err(RequestRefused::Itself(to.clone()));
            }
            let chain = WaitChain::of(&self.host().store, request.plan_id.as_ref()).await;
            let chain = chain.map_err(failed)?;
            if let Some(at) = chain.roles.iter().position(|role| role == to) {
                let back = chain.roles[..=at].iter().rev().cloned();
                let way = back.chain([to.clone()]).collect();
                return Err(RequestRefused::Circular { way });
            }
            let most = usize::try_from(self.host().config.role.max_depth).unwrap_or(usize::MAX);
            let depth = chain.roles.len();
            if depth > most {
                return Err(RequestRefused::TooDeep { depth, most });
            }
            let top = chain.top.as_ref();
            let body = if self.shared.registry.has(to) {
                self.shared.registry.keep_place(&self.lane, to)?;
                serde_json::to_string(request).map_err(failed)?
            } else {
                self.body(request, &chain).await?
            };
            Ok(self.command(request, top, body))
        })
    }

    fn send<'a>(
        &'a self,
        request: &'a StructuredMessage,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), RequestRefused>> {
        Box::pin(async move {
            // It was here when the request was made, by an earlier process.
            let has_message = |command: CommandFile| message_of(&command).is_some();
            if !self.has_member(&request.to) && CommandFile::parse(text).is_ok_and(has_message) {
                return Err(self.unknown(&request.to));
            }
            let (volumes, id) = (&self.host().volumes, request.assignment());
            self.shared.registry.sends(&self.lane, &id, &request.to);
            // It may have been sent before.
            if volumes.whereabouts(&id).map_err(failed)? == CommandPlace::Nowhere {
                volumes.publish(&id, text).map_err(failed)?;
            }
            self.shared.registry.wake();
            Ok(())
        })
    }

    fn withdraw<'a>(&'a self, request: &'a RequestId) -> BoxFuture<'a, Result<(), FrameworkError>> {
        let done = self.host().volumes.recall(request);
        Box::pin(std::future::ready(done.map(drop).map_err(trouble)))
    }

    fn update_task_status(&self, update: TaskUpdate) -> BoxFuture<'_, Result<(), FrameworkError>> {
        Box::pin(async move { self.conclude(&update).await.map_err(trouble) })
    }
}

/// Returns the message that a command has for a role in the process; `None` for what is written for agents.
pub(super) fn message_of(command: &CommandFile) -> Option<StructuredMessage> {
    let message: StructuredMessage = serde_json::from_str(&command.body).ok()?;
    let same = message.assignment() == command.id;
    (same && message.kind == MessageKind::CollaborationRequest).then_some(message)
}

fn trouble(error: impl std::error::Error + Send + Sync + 'static) -> FrameworkError {
    FrameworkError(chain(error))
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> RequestRefused {
    RequestRefused::Failed(trouble(error))
}
