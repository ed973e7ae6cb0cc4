//! Plans of other folders whose daemon is gone: a daemon that has their project goes on with them.

use std::path::Path;

use anyhow::{Context, anyhow};

use super::args::{CarryOut, QueueArgs};
use super::{App, Result};
use crate::exec::{Project, project_head};
use crate::plan::{Draft, IntegrationBranch, NewHome, PlanHead, PlanId};
use crate::store::Store;

/// Why such a plan changes.
const GONE: &str = "its daemon is gone";

impl App {
    /// Makes a plan of another folder one of this folder's queue. It is carried out with what is configured and confirmed here.
    ///
    /// # Errors
    /// Another daemon has it, its project or its results cannot be had here, or nothing can carry it out.
    pub async fn adopt(&mut self, head: &PlanHead) -> Result {
        let project = head.project.as_deref();
        let workspace = project.and_then(|id| self.config.project(id));
        let workspace = workspace.context("its project is not among [projects]")?;
        let (store, holder) = (self.store().await?, self.volumes.holder());
        let leased = store.lease(&head.id, &holder).await?;
        let from = head.home.clone().unwrap_or_default();
        let mut shown = None;
        match &head.line {
            Some(line) => {
                let (id, tip, folder) = (&head.id, &line.tip, self.worktrees(head));
                let project = fetched(&leased, id, tip, &workspace, &folder).await?;
                // The plan was here before, and went on elsewhere meanwhile: its branch was left behind.
                if let Some(left) = project.at_branch(&IntegrationBranch::branch(id)).await?
                    && project.git().has(&left, tip).await?
                {
                    shown = Some(left);
                }
            }
            None => {
                let begun = leased.read(&head.id, |plan, _| plan.attempts().next().is_some());
                if begun.await? {
                    let why =
                        format!("its agents share a workspace: what they made is only at `{from}`");
                    return Err(anyhow!(why).into());
                }
            }
        }
        let (workers, planner) = self.with_workers(&CarryOut::default()).await?;
        let plain = QueueArgs::default();
        let to = NewHome {
            home: self.volumes.home(),
            workspace: workspace.display().to_string(),
            queue: self.queue_entry((&workers, &planner), &plain).await?,
            shown,
        };
        let adopt = move |draft: &mut Draft<'_>| draft.adopt(to);
        leased.change(&head.id, self.by, GONE, adopt).await?;
        // What was under way begins anew, under other commands.
        Ok(leased.take_back_all(&head.id).await?)
    }
}

/// Gets the commits of the results that were accepted so far into the clone here, which it returns.
///
/// # Errors
/// The results stand on commits that are not in the clone, or git fails.
pub async fn fetched(
    store: &Store,
    plan: &PlanId,
    tip: &str,
    root: &Path,
    folder: &Path,
) -> Result<Project> {
    let (repository, _) = project_head(root, None).await?;
    let project = Project::open(root, &repository, folder).await?;
    let project = project.one_at_a_time();
    if !project.has_commit(tip).await? {
        for pack in store.kept_work(plan).await? {
            project.unpack(pack).await?;
        }
    }
    match project.has_commit(tip).await? {
        true => Ok(project),
        false => Err(anyhow!(
            "the commit `{tip}`, where its results are, is not in `{}`: `git fetch` there may bring what it stands on",
            root.display()
        )
        .into()),
    }
}
