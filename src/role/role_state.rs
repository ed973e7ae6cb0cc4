//! What is special about a role, and what it remembers.

use std::collections::VecDeque;

use crate::plan::{CommandId, PlanId, Time, words};
use crate::store::StoreError;

use super::{FrameworkError, InternalPlan, RequestId, StructuredMessage};

/// What a role comes to.
pub(super) type Result<T, E = RoleError> = std::result::Result<T, E>;

/// Why a role did not take a message in to its end.
#[derive(Debug, thiserror::Error)]
pub enum RoleError {
    /// The task cannot be planned: it ends with this reason.
    #[error("{0}")]
    CannotPlan(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What came of a task was not taken in.
    #[error(transparent)]
    Framework(#[from] FrameworkError),
}

words! {
    /// What a role does now.
    #[derive(Default)]
    pub enum RoleStatus {
        #[default]
        Idle = "idle",
        Planning = "planning",
        ExecutingStep = "executing_step",
        WaitingForCollaboration = "waiting_for_collaboration",
    }
}

/// What a role remembers; all of it is also in the store.
#[derive(Clone, Debug, Default)]
pub struct AgentState {
    pub status: RoleStatus,
    /// The message that gave the task it does.
    pub current_task: Option<StructuredMessage>,
    /// As it was when it was last read.
    pub internal_plan: Option<InternalPlan>,
    pub current_step_index: Option<usize>,
    pub pending_collaboration_request_id: Option<RequestId>,
    /// When the wait for the answer ends.
    pub waits_until: Option<Time>,
    /// The request that this role has sent itself, so that it is not sent again every time.
    pub(super) sent: Option<RequestId>,
    /// The plan for which all of it is done, if it is in the store: its budget holds, and what the model takes is counted there.
    pub(super) top: Option<PlanId>,
    /// The command by which it was dispatched there.
    pub command: Option<CommandId>,
    pub(super) waiting: VecDeque<StructuredMessage>,
}

impl AgentState {
    /// Returns the id of the task in its plan.
    pub fn current_task_id(&self) -> Option<&str> {
        self.current_task.as_ref()?.task_id.as_deref()
    }

    /// Returns whether it waits for another role.
    pub fn waits(&self) -> bool {
        self.status == RoleStatus::WaitingForCollaboration
    }

    /// Returns whether it waits for the answer to this request.
    pub fn is_waiting_for(&self, request: &RequestId) -> bool {
        self.waits() && self.pending_collaboration_request_id.as_ref() == Some(request)
    }

    /// Records that the role waits for no answer any more, and what it does instead.
    pub(super) fn stop_waiting(&mut self, status: RoleStatus) {
        self.status = status;
        self.pending_collaboration_request_id = None;
        self.waits_until = None;
    }
}
