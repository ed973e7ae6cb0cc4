//! Roles: agents of the team that work inside the process. A role is given a task, chooses how to plan it, breaks it into
//! steps, does them with its actions and tools, asks other roles where it needs them, and says what came of it. Here is
//! what every role has in common; it knows neither the daemon nor files: whatever it needs from outside is [`Framework`].

mod abilities;
mod agent_base_role;
mod built_in_actions;
mod framework;
mod internal_plan;
mod mcp_tools;
mod messages;
mod placeholders;
mod plan_execution;
mod plan_tools;
mod planning_strategy;
mod request_collaboration;
mod role_assignments;
mod role_model;
mod role_settings;
mod role_state;
mod wait_chain;

pub use abilities::{Abilities, Ability, ability};
pub use agent_base_role::{AgentBaseRole, ChosenStrategy};
pub use built_in_actions::{Workplace, built_in};
pub use framework::{Framework, FrameworkError, OtherRole, RequestRefused};
pub use internal_plan::{InternalPlan, InternalStep, PendingAnswer, rests};
pub use mcp_tools::{McpError, McpServer};
pub use messages::{
    BadRoleId, CollaborationStatus, MessageKind, RequestId, RoleId, StructuredMessage, TaskUpdate,
    new_request,
};
pub use plan_tools::plan_tools;
pub use planning_strategy::{ASK, PlanningStrategy, StepChecker};
pub use request_collaboration::{REQUEST_COLLABORATION, request_collaboration};
pub use role_assignments::{MAX_WAITING, Role, archive};
pub use role_model::{RoleModel, StepContext};
pub use role_settings::{RoleFaults, RoleSettings};
pub use role_state::{AgentState, RoleError, RoleStatus};
pub use wait_chain::{WaitChain, end_waits, rested};

pub use crate::wire::team_file::{ACTIONS, OnTimeout, StepDoes, StepSpec, StepTemplate};

use self::internal_plan::PlanKeeper;
use self::messages::meant;
use self::role_state::Result;
