//! The action by which a role asks another one. The document calls it as
//! `RequestCollaboration.run(target_name, subtask_description, context)`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::llm::BoxFuture;
use crate::plan::{AttemptKind, Draft, NewCommand, PlanId, TaskId};
use crate::store::Store;
use crate::tools::arguments;
use crate::wire::team_file::{StepDoes, StepSpec};

use super::abilities::Ability;
use super::framework::{Framework, RequestRefused};
use super::internal_plan::PlanKeeper;
use super::messages::{MessageKind, RequestId, RoleId, StructuredMessage};
use super::role_model::StepContext;

/// The name by which steps use the action.
pub const REQUEST_COLLABORATION: &str = "RequestCollaboration";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Request {
    target_name: String,
    subtask_description: String,
    #[serde(default)]
    context: String,
}

/// Asks another role on behalf of a step: the request is persisted under a new id, and the step waits for its answer. Every role
/// has it, unless its program registers another action of this name.
pub struct RequestCollaboration {
    role: RoleId,
    keeper: PlanKeeper,
    framework: Arc<dyn Framework>,
    schema: Value,
}

impl RequestCollaboration {
    /// Makes the action of a role.
    pub fn new(role: RoleId, store: Store, framework: Arc<dyn Framework>) -> Self {
        Self {
            keeper: PlanKeeper::new(store, role.clone()),
            role,
            framework,
            schema: arguments::schema_of::<Request>(),
        }
    }

    /// Makes the request of a step, and returns `{"status": "pending", "request_id": …}`.
    ///
    /// # Errors
    /// Why the request is refused; the step fails then.
    pub async fn run(
        &self,
        target_name: &str,
        subtask_description: &str,
        context: &str,
        situation: &StepContext<'_>,
    ) -> Result<Value, String> {
        let (id, step) = (RequestId::make(), (situation.plan, situation.step));
        let said = [subtask_description, context].map(str::to_owned);
        let message = message(&self.role, target_name, &id, step, said)?;
        let text = match self.framework.prepare(&message).await {
            Ok(text) => text,
            // Nothing is known against the request: it may be made later.
            Err(RequestRefused::Failed(error)) => return Err(situation.fails_by(error.into())),
            Err(refused) => return Err(refused.to_string()),
        };
        let (step, command) = (situation.step, id.command().clone());
        let issue = move |draft: &mut Draft<'_>| {
            let issue = NewCommand {
                id: command,
                kind: AttemptKind::New,
                session: None,
                text,
            };
            draft.issue(step, issue)
        };
        let issued = self
            .keeper
            .change(situation.plan, "another role is asked", issue);
        issued
            .await
            .map_err(|error| situation.fails_by(error.into()))?;
        Ok(json!({ "status": "pending", "request_id": id }))
    }
}

impl Ability for RequestCollaboration {
    fn name(&self) -> &str {
        REQUEST_COLLABORATION
    }

    fn description(&self) -> &str {
        "asks another role, and waits for its answer"
    }

    fn schema(&self) -> &Value {
        &self.schema
    }

    fn limits_itself(&self) -> bool {
        true
    }

    fn call<'a>(
        &'a self,
        params: Value,
        situation: &'a StepContext<'a>,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            // A text with results of earlier steps is longer than a caller's may be.
            let read: Request =
                serde_json::from_value(params).map_err(|wrong| wrong.to_string())?;
            let (target, description) = (&read.target_name, &read.subtask_description);
            let made = self
                .run(target, description, &read.context, situation)
                .await?;
            Ok(made.to_string())
        })
    }
}

/// Returns the message of a step's request.
///
/// # Errors
/// The target names no role.
pub(super) fn message(
    from: &RoleId,
    target: &str,
    id: &RequestId,
    (plan, step): (&PlanId, TaskId),
    [description, context]: [String; 2],
) -> Result<StructuredMessage, String> {
    let target: RoleId = target.parse().map_err(|error| format!("{error}"))?;
    let kind = MessageKind::CollaborationRequest;
    let mut message = StructuredMessage::new(from.as_str(), target, kind);
    id.as_str().clone_into(&mut message.id);
    message.plan_id = Some(plan.clone());
    message.task_id = Some(step.to_string());
    message.description = Some(description);
    message.context = Some(context).filter(|text| !text.is_empty());
    message.request_id = Some(id.clone());
    Ok(message)
}

/// Returns the parameters of the action for a request.
pub(super) fn params(target: &str, [description, context]: &[String; 2]) -> Value {
    json!({ "target_name": target, "subtask_description": description, "context": context })
}

/// Returns a step that names the action as the request that it is: only that form is stored.
///
/// # Errors
/// Its parameters do not fit.
pub(super) fn as_request(step: &StepSpec) -> Result<StepSpec, String> {
    let does = match &step.does {
        StepDoes::ExecuteAction { action, params } if action == REQUEST_COLLABORATION => {
            let read = arguments::read::<Request>(Value::Object(params.clone()));
            let read = read.map_err(|wrong| format!("`{REQUEST_COLLABORATION}`: {wrong}"))?;
            StepDoes::RequestCollaboration {
                target: read.target_name,
                description: read.subtask_description,
                context: read.context,
            }
        }
        does => does.clone(),
    };
    let name = step.name.clone();
    Ok(StepSpec { name, does })
}
