//! The tools of the plan dialects, as roles use them: `plan.` before the name of the tool.

use std::sync::Arc;

use serde_json::Value;

use crate::llm::BoxFuture;
use crate::tools::{Dialect, Tool, Toolbox};

use super::ability::{Abilities, Ability};
use super::mind::Situation;

/// Returns every tool of every plan dialect on a toolbox: `plan.get_plan`, `plan.TaskCreate` and so on. The history of a plan
/// names the toolbox's caller.
pub fn plan_tools(toolbox: &Toolbox) -> Abilities {
    let tools = Dialect::ALL
        .into_iter()
        .flat_map(|dialect| dialect.tools().iter().map(move |tool| (dialect, tool)));
    let ability = |(dialect, tool): (Dialect, &'static Tool)| {
        let ability = PlanTool {
            name: format!("plan.{}", tool.name),
            toolbox: toolbox.clone(),
            dialect,
            tool,
            schema: tool.schema(),
        };
        Arc::new(ability) as Arc<dyn Ability>
    };
    tools.map(ability).collect()
}

struct PlanTool {
    name: String,
    toolbox: Toolbox,
    dialect: Dialect,
    tool: &'static Tool,
    schema: Value,
}

impl Ability for PlanTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        self.tool.description
    }

    fn schema(&self) -> &Value {
        &self.schema
    }

    fn call<'a>(
        &'a self,
        params: Value,
        _: &'a Situation<'a>,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let answer = self.toolbox.call(self.dialect, self.tool.name, params);
            let answer = answer.await;
            // The prose of a notebook is its result.
            let text = match answer.value.get("result") {
                Some(Value::String(text)) if answer.success => text.clone(),
                _ => answer.value.to_string(),
            };
            if answer.success { Ok(text) } else { Err(text) }
        })
    }
}
