//! Plans of other folders whose daemon is gone: a daemon that has their project goes on with them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, anyhow};

use super::{App, CarryOut, Result};
use crate::exec::{CarriedFiles, LandingPlace, Project, project_head};
use crate::plan::{CommandId, Draft, IntegrationBranch, NewHome, PlanHead, PlanId, TaskState};
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
        let adopted = self.adopt_leased(head, &leased, &workspace).await;
        if adopted.is_err() {
            leased.release_to_others().await;
        }
        adopted
    }

    async fn adopt_leased(&mut self, head: &PlanHead, leased: &Store, workspace: &Path) -> Result {
        let mut shown = None;
        match &head.line {
            Some(line) => {
                let (id, folder) = (&head.id, self.worktrees(head));
                let remote = head
                    .project
                    .as_ref()
                    .and_then(|id| self.config.remotes.get(id));
                let project = fetched(leased, (id, line), (workspace, remote), &folder).await?;
                // The plan was here before, and went on elsewhere meanwhile: its branch was left behind.
                if let Some(left) = project.at_branch(&IntegrationBranch::branch(id)).await?
                    && project.git().has(&left, &line.tip).await?
                {
                    shown = Some(left);
                }
            }
            None => self.fetched_files(leased, head, workspace).await?,
        }
        let workers = self.with_workers(&CarryOut::default()).await?;
        let offered = leased.offered(&head.id).await?;
        let (goes_on, others): (Vec<_>, Vec<_>) = offered
            .into_iter()
            .partition(|(_, role)| workers.behind_relays(role));
        let to = NewHome {
            home: self.volumes.home(),
            workspace: workspace.display().to_string(),
            queue: self.queue_entry(&workers),
            goes_on: goes_on.into_iter().map(|(id, _)| id).collect(),
            shown,
        };
        let adopt = move |draft: &mut Draft<'_>| draft.adopt(to);
        leased.change(&head.id, self.by, GONE, adopt).await?;
        // What begins anew does so under other commands.
        for (id, _) in others {
            leased.take_back(&self.volumes.holder(), &id).await?;
        }
        Ok(())
    }

    /// Gets the files of the results that were accepted so far into a workspace that no git knows.
    ///
    /// # Errors
    /// A result is more than the files that its task names, or another file is there.
    async fn fetched_files(&self, store: &Store, head: &PlanHead, workspace: &Path) -> Result {
        let results = store.read(&head.id, |plan, _| {
            let begun = plan.attempts().next().is_some();
            let done = plan.tasks().filter(|it| it.status == TaskState::Completed);
            // A person or a rule may have completed one without an agent.
            let made = done.filter_map(|task| {
                let files: Vec<String> = task.made_files().collect();
                Some((task.current.clone()?, (task.number, files)))
            });
            (begun, made.collect::<BTreeMap<CommandId, _>>())
        });
        let (begun, results) = results.await?;
        if head.tree.is_some() && begun {
            let why = "the plan shares the files of a git project";
            return Err(anyhow!("{why}, and {ONLY_THERE}").into());
        }
        let (mut carried, mut found) = (CarriedFiles::default(), BTreeSet::new());
        for (id, pack) in store.kept_work(&head.id).await? {
            if let Some((task, _)) = results.get(&CommandId::new(id)) {
                carried.add(CarriedFiles::parse(&pack)?);
                found.insert(*task);
            }
        }
        if let Some((task, _)) = results.values().find(|(task, _)| !found.contains(task)) {
            let why = format!("task {task} names no files that it produces, or they are too large");
            return Err(anyhow!("{why}, and {ONLY_THERE}").into());
        }
        let place = LandingPlace {
            folder: workspace.to_owned(),
            closed: vec![self.volumes.root().to_owned()],
            replace: false,
        };
        std::fs::create_dir_all(workspace)?;
        let accepted = move |path: &str| {
            let mut files = results.values().flat_map(|(_, files)| files);
            files.any(|file| file == path)
        };
        Ok(carried.lay_down(place, accepted).await?)
    }
}

/// What a task without a worktree made is only where it was made, unless it names the files.
const ONLY_THERE: &str = "what it made is only where it was made";

/// Gets the commits of the results that were accepted so far into the clone here, which it returns.
///
/// # Errors
/// The results stand on commits that cannot be had here, or git fails.
pub async fn fetched(
    store: &Store,
    (plan, line): (&PlanId, &IntegrationBranch),
    (root, remote): (&Path, Option<&String>),
    folder: &Path,
) -> Result<Project> {
    let (repository, _) = project_head(root, None).await?;
    let project = Project::open(root, &repository, folder).await?;
    let project = project.one_at_a_time();
    if !project.has_commit(&line.tip).await? {
        project.require_commit(&line.base, remote).await?;
        for (_, pack) in store.kept_work(plan).await? {
            project.unpack(pack).await?;
        }
    }
    match project.has_commit(&line.tip).await? {
        true => Ok(project),
        false => Err(anyhow!(
            "not all results up to the commit `{}` are on the server: one was too large",
            line.tip
        )
        .into()),
    }
}
