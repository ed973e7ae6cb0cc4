//! Roles: agents of the team that work inside the process. A role is given a task, chooses how to plan it, breaks it into
//! steps, does them with its actions and tools, asks other roles where it needs them, and says what came of it. Here is
//! what every role has in common; it knows neither the daemon nor files: whatever it needs from outside is [`Framework`].

mod framework;
mod message;

pub use framework::{Colleague, Framework, FrameworkError, Refused};
pub use message::{
    BadRoleId, CollaborationStatus, MessageKind, RequestId, RoleId, StructuredMessage, TaskUpdate,
};
