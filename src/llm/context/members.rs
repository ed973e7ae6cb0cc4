//! What templates may use of a team: its roles, and the workflows that may be chosen.

use serde::Serialize;

use super::{LINE, NAME};
use crate::llm::quote::one_line;
use crate::wire::team::{Parameter, Team};

/// A role that tasks may be given to.
#[derive(Serialize)]
pub(in crate::llm) struct MemberView {
    id: String,
    description: String,
}

impl MemberView {
    pub(super) fn all(team: Option<&Team>) -> Vec<Self> {
        let roles = team.into_iter().flat_map(|team| &team.roles);
        roles
            .map(|role| Self {
                id: role.id.clone(),
                description: one_line(&role.description, LINE),
            })
            .collect()
    }
}

/// A workflow that may be chosen instead of making tasks.
#[derive(Serialize)]
pub(in crate::llm) struct WorkflowView {
    id: String,
    description: String,
    parameters: Vec<ParameterView>,
}

#[derive(Serialize)]
struct ParameterView {
    name: String,
    kind: &'static str,
    description: String,
    /// Taken if nothing is said; `None` if something must be.
    default: Option<String>,
    choices: Vec<String>,
}

impl WorkflowView {
    pub(super) fn all(team: Option<&Team>) -> Vec<Self> {
        let parameter = |parameter: &Parameter| ParameterView {
            name: parameter.name.clone(),
            kind: parameter.kind.as_str(),
            description: one_line(&parameter.description, LINE),
            default: (parameter.default.as_deref()).map(|text| one_line(text, LINE)),
            choices: (parameter.choices.iter())
                .map(|choice| one_line(choice, NAME))
                .collect(),
        };
        let workflows = team.into_iter().flat_map(|team| &team.workflows);
        workflows
            .map(|workflow| Self {
                id: workflow.id.clone(),
                description: one_line(&workflow.description, LINE),
                parameters: workflow.parameters.iter().map(parameter).collect(),
            })
            .collect()
    }
}
