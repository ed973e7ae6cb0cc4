//! The notebook as one JSON value, in AgentScope's shape, in both directions.

use serde_json::{Map, json};

use super::*;
use crate::plan::valid_key;

impl PlanNotebook {
    /// Returns the current plan and the history: `{"storage": {"plans": {id: plan}}, "current_plan": plan or null}`.
    ///
    /// # Errors
    /// The storage or the store fails.
    pub async fn state_dict(&self) -> Result<Value> {
        let plans = self.storage().get_plans().await?.into_iter();
        let plans: Map<_, _> = plans.map(|plan| (plan.id.clone(), json!(plan))).collect();
        let current = self.current_plan().await?;
        Ok(json!({ "storage": { "plans": plans }, "current_plan": current }))
    }

    /// Sets the current plan and the history to the contents of a [`PlanNotebook::state_dict`], this one's or AgentScope's. Ids
    /// are kept. Plans of the history that the value does not name stay; a present plan that it does not name is abandoned and
    /// moved to the history.
    ///
    /// # Errors
    /// The value does not have that shape: then nothing has changed, and the error names the place. The storage or the store
    /// fails: the plans before the failure are in the history, and loading again continues.
    pub async fn load_state_dict(&self, state: &Value) -> Result<()> {
        self.toolbox.unbound()?;
        object(Some(state), "the state")?;
        let mut kept = Vec::new();
        for (id, plan) in object(state.pointer("/storage/plans"), "storage.plans")? {
            let path = format!("storage.plans[{}]", one_line(id, 60));
            let plan = read(plan, &path)?;
            if plan.id != *id {
                return Err(mismatch(&path, "has another `id` in it"));
            }
            kept.push(plan);
        }
        let current = match state.get("current_plan") {
            None => return Err(mismatch("current_plan", "is missing")),
            Some(Value::Null) => None,
            Some(plan) => Some(read(plan, "current_plan")?),
        };
        // The order in which they were archived, as far as the values show it.
        kept.sort_by(|one, other| one.finished_at.cmp(&other.finished_at));
        let archive = self.archive();
        for plan in kept {
            match &self.toolbox.notebook.storage {
                Some(storage) => storage.add_plan(plan, true).await?,
                None => {
                    let found = archive.find(&plan.id).await?;
                    Box::pin(archive.archive_plan("load_state_dict", plan, found)).await?;
                }
            }
        }
        let present = self.current_head().await?;
        if let Some(present) = present
            && current.as_ref().is_none_or(|plan| present.key() != plan.id)
        {
            let reason = "interrupted by a state without a plan";
            let leave = move |draft: &mut Draft<'_>| {
                abandon(draft, reason)?;
                Ok(draft.archive(ArchiveState::History)?)
            };
            self.end("load_state_dict", &present.id, leave).await?;
        }
        match current {
            Some(plan) => Box::pin(self.load_current(plan)).await,
            None => Ok(()),
        }
    }

    /// Makes a plan the current one exactly as given.
    async fn load_current(&self, plan: NotebookPlan) -> Result<()> {
        let found = self.archive().find(&plan.id).await?;
        let head = found.as_ref().map(|found| found.head.clone());
        let (exists, head) = (head.is_some(), head.unwrap_or_else(|| head_of(&plan)));
        let load = move |draft: &mut Draft<'_>| {
            if let Some(found) = &found {
                found.is_unchanged(draft)?;
            }
            rewrite(draft, &plan)?;
            // A plan that has not been begun stays so, whatever its subtasks are: it is loaded as given.
            if draft.plan().status() == &PlanState::Running {
                draft.follow_tasks();
            }
            Ok(())
        };
        let (dialect, why) = (Dialect::Notebook, "load_state_dict");
        match self.toolbox.replace(dialect, head, exists, why, load).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.overtaken(error).await),
        }
    }
}

fn object<'a>(value: Option<&'a Value>, path: &str) -> Result<&'a Map<String, Value>> {
    let value = value.ok_or_else(|| mismatch(path, "is missing"))?;
    let object = value.as_object();
    object.ok_or_else(|| mismatch(path, "is no object"))
}

/// Reads a plan from untrusted JSON.
fn read(value: &Value, path: &str) -> Result<NotebookPlan> {
    let mut plan = NotebookPlan::deserialize(value).map_err(|error| {
        let error = one_line(&error.to_string(), 200);
        mismatch(path, &format!("is no plan: {error}"))
    })?;
    if !valid_key(&plan.id) {
        let problem = "has an `id` that is not 1 to 128 printable characters without `/` and `\\`";
        return Err(mismatch(path, problem));
    }
    if plan.name.trim().is_empty() {
        return Err(mismatch(path, "has no name"));
    }
    for text in plan.texts() {
        *text = printable(text);
    }
    let fits = prepare(&plan.subtasks, "subtasks").and_then(|_| past_of(&plan));
    fits.map_err(|error| mismatch(path, &format!("does not fit: {error}")))?;
    Ok(plan)
}

fn mismatch(path: &str, problem: &str) -> NotebookError {
    InvalidArgument.error(format!("Invalid state: `{path}` {problem}."))
}
