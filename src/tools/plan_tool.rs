//! Plan Tool.

use serde_json::Value;

use super::{Answer, Dialect, Tool, Toolbox};

pub(super) const TOOLS: &[Tool] = &[];

pub(super) async fn call(toolbox: &Toolbox, name: &str, _arguments: Value) -> Answer {
    Answer::failure(Value::Null, toolbox.unknown(Dialect::PlanTool, name))
}
