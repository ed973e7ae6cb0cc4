//! The action by which a role asks another one. The document calls it as
//! `RequestCollaboration.run(target_name, subtask_description, context)`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::plan::{AttemptKind, Draft, NewCommand, PlanId, TaskId};
use crate::store::Store;
use crate::tools::arguments;
use crate::wire::{StepDoes, StepSpec};

use super::abilities::Params;
use super::built_in_actions::action;
use super::*;

/// The name by which steps use the action.
pub const REQUEST_COLLABORATION: &str = "RequestCollaboration";

/// The parameters of the action.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub target_name: String,
    pub subtask_description: String,
    #[serde(default)]
    pub context: String,
}

impl Request {
    /// Returns the message of a step's request.
    ///
    /// # Errors
    /// The target names no role.
    pub(super) fn message(
        self,
        from: &RoleId,
        id: &RequestId,
        (plan, step): (&PlanId, TaskId),
    ) -> Result<StructuredMessage, String> {
        let target = self.target_name.parse::<RoleId>();
        let target = target.map_err(|error| error.to_string())?;
        let kind = MessageKind::CollaborationRequest;
        Ok(StructuredMessage {
            id: id.to_string(),
            plan_id: Some(plan.clone()),
            task_id: Some(step.to_string()),
            description: Some(self.subtask_description),
            context: Some(self.context).filter(|text| !text.is_empty()),
            request_id: Some(id.clone()),
            ..StructuredMessage::new(from.as_str(), target, kind)
        })
    }

    /// Returns the parameters as a map.
    pub(super) fn params(&self) -> Params {
        match json!(self) {
            Value::Object(params) => params,
            _ => Params::new(),
        }
    }
}

/// Makes the action of a role: it persists the request of a step under a new id, for whose answer the step waits, and returns
/// `{"status": "pending", "request_id": …}`. Every role has it, unless its program registers another one of this name.
pub fn request_collaboration(
    role: RoleId,
    store: Store,
    framework: Arc<dyn Framework>,
) -> Arc<Ability> {
    let asker = Arc::new((PlanKeeper::new(store, role), framework));
    let description = "asks another role, and waits for its answer";
    let name = REQUEST_COLLABORATION;
    action(name, description, true, move |request, situation| {
        let asker = Arc::clone(&asker);
        Box::pin(async move { make(&asker.0, &*asker.1, request, situation).await })
    })
}

async fn make(
    keeper: &PlanKeeper,
    framework: &dyn Framework,
    request: Request,
    situation: &StepContext<'_>,
) -> Result<String, String> {
    let (id, step) = (new_request(), situation.step);
    let message = request.message(&keeper.role, &id, (situation.plan, step))?;
    let text = match framework.prepare(&message).await {
        Ok(text) => text,
        // Nothing is known against the request: it may be made later.
        Err(RequestRefused::Failed(error)) => return Err(situation.fails_by(error.into())),
        Err(refused) => return Err(refused.to_string()),
    };
    let issue = NewCommand {
        id: id.clone(),
        kind: AttemptKind::New,
        session: None,
        text,
    };
    let issue = move |draft: &mut Draft<'_>| draft.issue(step, issue);
    let issued = keeper.change(situation.plan, "another role is asked", issue);
    (issued.await).map_err(|error| situation.fails_by(error.into()))?;
    Ok(json!({ "status": "pending", "request_id": id }).to_string())
}

/// Returns a step that names the action as the request that it is: only that form is stored.
///
/// # Errors
/// Its parameters do not fit.
pub(super) fn as_request(step: &StepSpec) -> Result<StepSpec, String> {
    let params = match &step.does {
        StepDoes::ExecuteAction { action, params } if action == REQUEST_COLLABORATION => params,
        _ => return Ok(step.clone()),
    };
    let read = arguments::read::<Request>(params.clone().into());
    let read = read.map_err(|wrong| format!("`{REQUEST_COLLABORATION}`: {wrong}"))?;
    let does = StepDoes::RequestCollaboration {
        target: read.target_name,
        description: read.subtask_description,
        context: read.context,
    };
    let name = step.name.clone();
    Ok(StepSpec { name, does })
}
