//! The tools of the plan dialects, as roles use them: `plan.` before the name of the tool.

use std::sync::Arc;

use serde_json::Value;

use crate::tools::{Dialect, Tool, Toolbox};

use super::{Abilities, Ability};

/// What the result of a step says of a tool whose answer a crash has lost.
pub(super) const LOST_ANSWER: &str =
    "was carried out before a restart, and its answer is not known any more";

/// Returns every tool of every plan dialect on a toolbox: `plan.get_plan`, `plan.TaskCreate` and so on. The history of a plan
/// names the toolbox's caller.
pub fn plan_tools(toolbox: &Toolbox) -> Abilities {
    let of = |dialect: Dialect| dialect.tools().iter().map(move |tool| (dialect, tool));
    let ability = |(dialect, tool): (Dialect, &'static Tool)| {
        let (name, toolbox) = (format!("plan.{}", tool.name), toolbox.clone());
        let does = Ability::new(
            &name,
            tool.description,
            tool.schema(),
            move |params, step| {
                let toolbox = toolbox.for_step(step.key());
                Box::pin(async move {
                    let made = toolbox.made_by_step().await;
                    if let Some(seq) = made.map_err(|error| error.to_string())? {
                        let name = tool.name;
                        return Ok(format!(
                            "`{name}` {LOST_ANSWER}: it is change {seq} of the plan"
                        ));
                    }
                    let answer = toolbox.call(dialect, tool.name, params).await;
                    // The prose of a notebook is its result.
                    let text = match answer.value.get("result") {
                        Some(Value::String(text)) if answer.success => text.clone(),
                        _ => answer.value.to_string(),
                    };
                    if answer.success { Ok(text) } else { Err(text) }
                })
            },
        );
        Arc::new(does)
    };
    Dialect::ALL.into_iter().flat_map(of).map(ability).collect()
}
