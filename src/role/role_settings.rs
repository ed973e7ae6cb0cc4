//! What is special about a role.

use std::time::Duration;

use super::RoleId;
use crate::config::{Config, RolesConfig};
use crate::wire::{OnTimeout, StepTemplate, team_file};

/// What is special about a role.
#[derive(Clone, Debug)]
pub struct RoleSettings {
    pub id: RoleId,
    /// The instructions of the role.
    pub prompt: String,
    pub templates: Vec<StepTemplate>,
    pub config: RolesConfig,
    /// How long it waits for another role.
    pub collaboration_timeout: Duration,
    pub on_timeout: OnTimeout,
}

impl RoleSettings {
    /// Returns the settings of a role with nothing special about it.
    pub fn new(id: RoleId) -> Self {
        Self {
            id,
            prompt: String::new(),
            templates: Vec::new(),
            config: Config::default().role,
            collaboration_timeout: Duration::from_secs(600),
            on_timeout: OnTimeout::default(),
        }
    }

    /// Takes over what a team file says of a role; `prompt` is what is in the file that it names.
    #[must_use]
    pub fn of_team(mut self, spec: &team_file::RoleSpec, prompt: &str) -> Self {
        prompt.clone_into(&mut self.prompt);
        self.templates.clone_from(&spec.templates);
        self.collaboration_timeout = spec.collaboration_timeout;
        self.on_timeout = spec.on_timeout;
        self
    }
}

/// What a role cannot work with, in a line each: templates that name what is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct RoleFaults(pub Vec<String>);
