//! Roles: agents of the team that work inside the process. A role is given a task, chooses how to plan it, breaks it into
//! steps, does them with its actions and tools, asks other roles where it needs them, and says what came of it. Here is
//! what every role has in common; it knows neither the daemon nor files: whatever it needs from outside is [`Framework`].

mod ability;
mod actions;
mod agent;
mod base;
mod fill;
mod framework;
mod mcp;
mod message;
mod mind;
mod plan;
mod state;
mod strategy;
mod tools;
mod waits;
mod work;

pub use ability::{Abilities, Ability, ability};
pub use actions::{ACTIONS, Workplace, built_in};
pub use agent::{MAX_WAITING, Role};
pub use base::{AgentBaseRole, ChosenStrategy};
pub use framework::{Framework, FrameworkError, OtherRole, RequestRefused};
pub use mcp::{McpError, McpServer, McpSettings};
pub use message::{
    BadRoleId, CollaborationStatus, MessageKind, RequestId, RoleId, StructuredMessage, TaskUpdate,
};
pub use mind::{RoleModel, StepContext};
pub use plan::{
    InternalPlan, InternalStep, PendingAnswer, PlanningStrategy, StepSpec, asks_person,
};
pub use state::{AgentState, RoleError, RoleFaults, RoleSettings, RoleStatus, StepTemplate};
pub use strategy::{ASK, check_step};
pub use tools::plan_tools;
pub use waits::{WaitChain, end_waits, with_person};

pub use crate::wire::team::{OnTimeout, StepDoes};
