//! A workflow in place of tasks in an answer: the plan is made from it, with the values from the model.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{PlanAnswer, Result, TaskNames, bounded, cut, pair, pairs};
use crate::llm::{Schema, one_line};
use crate::plan::{Origin, PlanSpec, TaskSpec};
use crate::wire::{Problem, Team, joined};

/// The longest refusal of an answer, in characters.
const MAX_REFUSAL: usize = 2_000;

/// An answer that may name a workflow.
#[derive(Deserialize)]
pub(super) struct PlanOrWorkflow {
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: String,
    workflow: Option<String>,
    /// A list of `{name, value}`; some models write an object.
    #[serde(default)]
    parameters: Value,
    tasks: Option<Vec<TaskSpec>>,
}

pub(super) fn schema() -> [(&'static str, Schema); 2] {
    let workflow = Schema::OptionalText("id of the workflow that fits the goal, or null");
    [("workflow", workflow), ("parameters", Schema::list(pair()))]
}

impl PlanOrWorkflow {
    /// Makes the plan: a named workflow of the team takes precedence, and the answer must not contain tasks of its own then.
    pub(super) fn planned(self, team: &Team, words: &TaskNames) -> Result<PlanSpec> {
        let tasks = self.tasks.unwrap_or_default();
        let chosen = self.workflow.as_deref().map(str::trim);
        let Some(id) = chosen.filter(|id| !matches!(*id, "" | "null")) else {
            let answer = PlanAnswer {
                name: self.name,
                description: self.description,
                tasks,
            };
            return answer.planned(words);
        };
        let workflow = team.workflow(id).ok_or_else(|| {
            let meant = team.workflow_meant(id);
            format!("there is no workflow `{}`: {meant}", one_line(id, 100))
        })?;
        if !tasks.is_empty() {
            let wrong = "but `tasks` holds tasks: give one or the other";
            return Err(format!("`workflow` is `{id}`, {wrong}"));
        }
        let file = team.plan(workflow, &values(self.parameters)?);
        let mut plan = file.map_err(|problems| problem_text(&problems))?.plan;
        for task in &mut plan.tasks {
            for check in &task.checks {
                words.check(check, &one_line(&task.name, 100))?;
            }
            // The model wrote the texts that come in through the parameters.
            task.origin = Origin::Model;
            task.checked_by_person = true;
        }
        let said = bounded(&self.description, "description", "the plan")?;
        if plan.description.is_empty() {
            plan.description = said;
        }
        plan.order.get_or_insert_default();
        Ok(plan)
    }
}

/// Reads the values of parameters. An empty text counts as no value: some models fill in every parameter.
fn values(answer: Value) -> Result<Map<String, Value>> {
    let pairs = match answer {
        Value::Null => Some(Vec::new()),
        answer => pairs(answer),
    };
    let pairs = pairs.ok_or("`parameters` must be a list of objects with `name` and `value`")?;
    let given = |(_, value): &(String, Value)| !value.is_null() && value.as_str() != Some("");
    Ok(pairs.into_iter().filter(given).collect())
}

fn problem_text(problems: &[Problem]) -> String {
    let texts = problems.iter().map(|problem| match &problem.hint {
        Some(hint) => format!("{} ({hint})", problem.message),
        None => problem.message.clone(),
    });
    cut(&joined(texts, "; "), MAX_REFUSAL)
}
