//! The agent, the team, the model and the rights with which a plan goes on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The agent, the team, the model and the rights of a plan, as the person named them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOptions {
    /// The agent that does the tasks; `None` if another worker takes the commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The program or the flags of the agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Whether the agent `shell` may run tasks that a model wrote.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_shell: bool,
    /// The team file; absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// Keys of the configuration, with the values that the environment gave them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// Returns an agent with the model that its arguments name, as in `claude (opus)`.
pub fn agent_label(name: &str, arguments: &[String]) -> String {
    let mut all = arguments.iter().map(String::as_str);
    let joined = all.clone().find_map(|one| one.strip_prefix("--model="));
    let after = all.find(|one| ["--model", "-m"].contains(one));
    match after.and_then(|_| all.next()).or(joined) {
        Some(model) => format!("{name} ({model})"),
        None => name.to_owned(),
    }
}
