//! Whose commands a worker takes.

use std::collections::BTreeSet;

use crate::volumes::{Folder, Volumes};

/// Which commands a worker takes, by the role that they are assigned to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RoleFilter {
    /// All that lie in the common folder, for every role.
    #[default]
    All,
    /// Those of this role: in the common folder, and in the role's own if it has one.
    Only(String),
    /// All that lie in the common folder but those of these roles.
    Except(BTreeSet<String>),
}

impl RoleFilter {
    /// Returns whether a task is for this worker, by whom it is assigned to.
    pub fn takes(&self, assignee: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::Only(role) => assignee == Some(role),
            Self::Except(roles) => assignee.is_none_or(|role| !roles.contains(role)),
        }
    }

    /// Returns whether a command is one for this worker, by where it lies and whom it is assigned to.
    pub(super) fn takes_from(&self, volumes: &Volumes, assignee: Option<&str>) -> bool {
        match (volumes.role(), self) {
            (None, filter) => filter.takes(assignee),
            // Everything in a role's own folder is for that role.
            (Some(own), Self::Only(role)) => own == role,
            (Some(_), Self::All | Self::Except(_)) => false,
        }
    }

    /// Returns the volumes in which commands for this worker may lie, the common ones first.
    pub(super) fn from(&self, volumes: &Volumes) -> Vec<Volumes> {
        let mut all = vec![volumes.clone()];
        if let Self::Only(role) = self {
            let own = volumes.of_role(role);
            if own.role().is_some() && own.path(Folder::CommandsPending).is_dir() {
                all.push(own);
            }
        }
        all
    }
}
