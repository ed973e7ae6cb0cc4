//! The repository of a project as it was when the plan began.

use serde::{Deserialize, Serialize};

/// What is trusted about a repository as long as the plan exists. Agents can write to the repository: its later configuration
/// and attributes are not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// The folder with `HEAD` and the index; absolute, without links.
    pub git_dir: String,
    /// The folder with objects and branches, which linked worktrees share; absolute, without links.
    pub common_dir: String,
    /// The git settings of the repository: names, each with its value.
    pub settings: Vec<(String, String)>,
    /// Attributes of files that take precedence over those in the repository.
    pub attributes: String,
}
