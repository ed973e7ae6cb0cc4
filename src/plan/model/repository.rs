//! The git repository of the workspace as it was before any agent of the plan worked there.

use serde::{Deserialize, Serialize};

/// What is believed of a repository for as long as the plan lasts. Agents can write to it: what they make of its configuration and
/// its attributes is not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// The folder with `HEAD` and the index; absolute, and free of links.
    pub git_dir: String,
    /// The folder with objects and branches, which linked worktrees share; absolute, and free of links.
    pub common_dir: String,
    /// The settings with which git works there: names, each with its value.
    pub settings: Vec<(String, String)>,
    /// What is said of files before all that the repository says.
    pub attributes: String,
}
