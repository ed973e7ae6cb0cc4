//! The notebook as one JSON value, in AgentScope's shape, both ways.

use serde_json::{Map, Value, json};

use super::PlanNotebook;
use super::answer::{ErrorCode, NotebookError};
use super::bring::{past_of, prepare};
use super::model::Plan;
use super::shelved::StoreStorage;
use super::storage::StorageError;
use crate::tools::ToolError;
use crate::wire::text::{one_line, printable};

impl PlanNotebook {
    /// Returns the current plan and the history: `{"storage": {"plans": {id: plan}}, "current_plan": plan or null}`.
    ///
    /// # Errors
    /// The storage or the store fails.
    pub async fn state_dict(&self) -> Result<Value, NotebookError> {
        let mut plans = Map::new();
        for plan in self.storage().get_plans().await? {
            plans.insert(plan.id.clone(), written(&plan)?);
        }
        let current = match self.current_plan().await? {
            Some(plan) => written(&plan)?,
            None => Value::Null,
        };
        Ok(json!({ "storage": { "plans": plans }, "current_plan": current }))
    }

    /// Makes the current plan and the history what a [`PlanNotebook::state_dict`] says, this one's or AgentScope's. Ids are kept.
    /// Plans of the history that it does not name stay; a present plan that it does not name is abandoned and goes there.
    ///
    /// # Errors
    /// It is not of that shape: nothing has changed then, and the place is told. The storage or the store fails: plans before
    /// the failure are in the history, and loading again goes on.
    pub async fn load_state_dict(&self, state: &Value) -> Result<(), NotebookError> {
        if let Some(bound) = &self.toolbox.plan {
            return Err(ToolError::Bound(bound.clone()).into());
        }
        let fields = state
            .as_object()
            .ok_or_else(|| misfit("the state", "is no object"))?;
        let mut kept = Vec::new();
        let plans = state.pointer("/storage/plans");
        let plans = plans.ok_or_else(|| misfit("storage.plans", "is missing"))?;
        let plans = plans
            .as_object()
            .ok_or_else(|| misfit("storage.plans", "is no object"))?;
        for (id, plan) in plans {
            let path = format!("storage.plans[{}]", one_line(id, 60));
            let plan = read(plan, &path)?;
            if plan.id != *id {
                return Err(misfit(&path, "has another `id` in it"));
            }
            kept.push(plan);
        }
        let current = fields.get("current_plan");
        let current = current.ok_or_else(|| misfit("current_plan", "is missing"))?;
        let current = if current.is_null() {
            None
        } else {
            Some(read(current, "current_plan")?)
        };
        // The order in which they went there, as far as it can be told.
        kept.sort_by(|one, other| {
            let moment = |plan: &Plan| plan.finished_at.clone().unwrap_or_default();
            moment(one).cmp(&moment(other))
        });
        for plan in kept {
            match &self.storage {
                Some(storage) => storage.add_plan(plan, true).await?,
                None => {
                    let storage = StoreStorage(self.toolbox.clone());
                    storage.keep("load_state_dict", plan).await?;
                }
            }
        }
        match current {
            Some(plan) => {
                let present = self.present().await?;
                if present.is_some_and(|present| present.key != plan.id) {
                    self.load_none().await?;
                }
                Box::pin(self.load_current(plan)).await
            }
            None => self.load_none().await,
        }
    }
}

fn written(plan: &Plan) -> Result<Value, NotebookError> {
    let failed = |error: serde_json::Error| StorageError::Serialization(error.to_string());
    Ok(serde_json::to_value(plan).map_err(failed)?)
}

/// Reads a plan that a stranger wrote.
fn read(value: &Value, path: &str) -> Result<Plan, NotebookError> {
    let mut plan: Plan = serde_json::from_value(value.clone()).map_err(|error| {
        misfit(
            path,
            &format!("is no plan: {}", one_line(&error.to_string(), 200)),
        )
    })?;
    let short = plan.id.chars().count() <= 128;
    if plan.id.is_empty()
        || !short
        || plan
            .id
            .contains(|c: char| c.is_control() || "/\\".contains(c))
    {
        let problem = "has an `id` that is not 1 to 128 printable characters without `/` and `\\`";
        return Err(misfit(path, problem));
    }
    if plan.name.trim().is_empty() {
        return Err(misfit(path, "has no name"));
    }
    let clean = |text: &mut String| *text = printable(text);
    for text in [
        &mut plan.name,
        &mut plan.description,
        &mut plan.expected_outcome,
    ] {
        clean(text);
    }
    plan.outcome.as_mut().map(clean);
    for subtask in &mut plan.subtasks {
        for text in [
            &mut subtask.name,
            &mut subtask.description,
            &mut subtask.expected_outcome,
        ] {
            clean(text);
        }
        subtask.outcome.as_mut().map(clean);
    }
    let fits = prepare(&plan.subtasks, "subtasks").and_then(|_| past_of(&plan));
    match fits {
        Ok(_) => Ok(plan),
        Err(error) => Err(misfit(path, &format!("does not fit: {error}"))),
    }
}

fn misfit(path: &str, problem: &str) -> NotebookError {
    let text = format!("Invalid state: `{path}` {problem}.");
    NotebookError::new(ErrorCode::InvalidArgument, text)
}
