//! The clone of a project on a relay's machine: brings a claimed command's commits there, lays out a worktree, and packs what was
//! done in it.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{RelayError, Result};
use crate::bounded_read;
use crate::config::Config;
use crate::exec::{
    CarriedFiles, GitError, LandingPlace, Project, TaskWorktree, project_head, why_not_ready,
};
use crate::own_files;
use crate::plan::{PlanId, TaskId};
use crate::store::{ClaimedCommand, MOST_WORK, RelayLink};

/// The most bytes of what is noted of a repository.
const MOST_NOTED: usize = 16 * 1024 * 1024;

/// Where the work on a command is done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WorkFolder {
    pub root: PathBuf,
    /// The folder of all worktrees of the plan.
    pub worktrees: PathBuf,
    pub folder: PathBuf,
    pub branch: String,
    /// The commit at which the work began; empty where only files travel.
    pub head: String,
    /// The files that are wanted back then.
    #[serde(default)]
    pub wanted: Vec<String>,
}

impl WorkFolder {
    fn place(&self) -> TaskWorktree {
        TaskWorktree {
            folder: self.folder.clone(),
            branch: self.branch.clone(),
        }
    }
}

/// Returns the branch of a task: not the daemon's, whose clone may be this one.
pub(super) fn branch(plan: &PlanId, task: TaskId) -> String {
    format!("plan-agent/relay/{plan}/{task}")
}

/// Opens the clone with its repository as it was when the plan's first command came: agents can configure programs there since.
async fn open(root: &Path, worktrees: &Path) -> Result<Project> {
    own_files::make_folder(worktrees).map_err(GitError::from)?;
    let noted = worktrees.join("repository.json");
    let known = bounded_read::read_file(&noted, MOST_NOTED).ok();
    let known = known.and_then(|text| serde_json::from_str(&text).ok());
    let repository = match known {
        Some(known) => known,
        None => {
            let (repository, _) = project_head(root, None).await?;
            let text = serde_json::to_vec(&repository).expect("texts only");
            own_files::replace(&noted, &text).map_err(GitError::from)?;
            repository
        }
    };
    let project = Project::open(root, &repository, worktrees).await?;
    Ok(project.one_at_a_time())
}

impl WorkFolder {
    /// Gets what a command needs into the clone, and lays out its worktree. The next attempt at a task finds there what was left.
    /// `marks` is the folder with the marks of what runs.
    pub async fn lay_out(
        &mut self,
        config: &Config,
        marks: &Path,
        link: &RelayLink,
        command: &ClaimedCommand,
    ) -> Result<()> {
        if self.head.is_empty() {
            // Results are files alone: with those that were made before.
            own_files::make_folder(&self.folder).map_err(failed)?;
            let pack = link.pack(&command.id, command.claim, 0).await?;
            let carried = CarriedFiles::parse(&pack).map_err(failed)?;
            self.wanted.clone_from(&carried.wanted);
            let place = LandingPlace {
                closed: Vec::new(),
                folder: self.folder.clone(),
                replace: true,
            };
            return carried.lay_down(place, |_| true).await.map_err(failed);
        }
        let project = open(&self.root, &self.worktrees).await?;
        let remote = config.remotes.get(&command.project);
        project.require_commit(&command.base, remote).await?;
        for (place, commit) in link.packs(&command.id, command.claim).await? {
            if !project.git().has_commit(&commit).await? {
                let pack = link.pack(&command.id, command.claim, place).await?;
                project.unpack(pack).await?;
            }
        }
        if !project.git().has_commit(&command.head).await? {
            let pack = link.pack(&command.id, command.claim, 0).await?;
            project.unpack(pack).await?;
        }
        project.bring_to(&self.place(), &self.head).await?;
        if !command.merge.is_empty() {
            project.begin_merge(&self.place(), &command.merge).await?;
        }
        if let Some(place) = project.check_folder(&self.folder).await? {
            let mark = (marks, &*format!("{}-prepare", command.id));
            let ran = place.make_ready(config.run.prepare.as_ref(), mark).await;
            if let Some(failed) = ran.map_err(GitError::from)?.filter(|ran| !ran.passed) {
                return Err(RelayError::Other(why_not_ready(&failed)));
            }
        }
        Ok(())
    }
}

/// Commits what was done, and returns the commit with what it has beyond the one at which the work began; where only files travel,
/// these alone.
pub(super) async fn commit(work: &WorkFolder, title: &str) -> Result<(String, Vec<u8>)> {
    let (commit, pack) = if work.head.is_empty() {
        let files = CarriedFiles::read(&work.folder, work.wanted.clone(), Vec::new()).await;
        (String::new(), files.map_err(failed)?)
    } else {
        let project = open(&work.root, &work.worktrees).await?;
        let commit = project.commit_work(&work.place(), title).await?;
        if commit == work.head {
            return Ok((commit, Vec::new()));
        }
        let pack = project.pack(&work.head, &commit).await?;
        (commit, pack)
    };
    match pack.len() <= MOST_WORK {
        true => Ok((commit, pack)),
        false => Err(RelayError::Other(format!(
            "the result has {} MiB, and at most {} can be sent",
            pack.len() / 1024 / 1024,
            MOST_WORK / 1024 / 1024
        ))),
    }
}

fn failed(error: io::Error) -> RelayError {
    match error.kind() {
        // The files are what they are.
        io::ErrorKind::Other => RelayError::Other(error.to_string()),
        _ => GitError::from(error).into(),
    }
}

impl RelayError {
    /// Returns whether it may succeed later as it is.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Store(_) | Self::Volumes(_) | Self::Notes(..) => true,
            Self::Git(error) => error.is_passing(),
            Self::Project(_) | Self::Other(_) => false,
        }
    }
}
