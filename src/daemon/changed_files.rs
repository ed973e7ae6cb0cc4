//! What changed in the workspace: looked at when a report comes, before anything else is done there. A small folder is
//! looked at while the report is taken in, so that it costs no change of its own; everything else beside the loop.

use std::path::PathBuf;
use std::sync::Arc;

use super::DaemonSettings;
use super::plan_run::{EffectKey, EffectResult, PlanRun};
use crate::exec::{
    FileListing, Filters, Git, GitError, GitSnapshots, Project, examine, remove_folder,
};
use crate::plan::{
    ChangedFiles, CommandId, Draft, IntegrationBranch, Refusal, Repository, TaskId, Time,
};
use crate::plan_time::Clock;
use crate::store::Store;

/// As long as a folder has no more files than this, a look takes less time than to wake another thread for it.
const QUICK: usize = 64;

/// A listing of more files is not kept: it would take more memory than the rest of a daemon.
const KEPT: usize = 2_000;

/// Files that are looked at in all.
const MOST: usize = 50_000;

/// What the daemon itself writes into the workspace, and what agents write there for their worker.
const OWN: [&str; 3] = ["MISSION.md", ".MISSION.md.tmp", ".plan-agent"];

/// Where it is looked for changes, and what is known from earlier looks.
#[derive(Clone, Debug)]
pub(super) struct ChangeWatch {
    folder: PathBuf,
    /// What was a repository when the plan began; whatever agents make one since is none.
    repository: Option<Repository>,
    /// Where it is looked for the worktree that the folder is of the repository, as the project and the folder of its worktrees.
    worktree_of: Option<[PathBuf; 2]>,
    left_out: Vec<PathBuf>,
    /// Where the trees of git are kept.
    aside: PathBuf,
    clock: Clock,
    /// The last look, if it saw everything.
    before: Option<Arc<FileListing>>,
    /// Git took too long; it is left alone.
    git_is_slow: bool,
}

/// What a look found.
#[derive(Clone, Debug, Default)]
pub(super) struct Inspected {
    pub changes: ChangedFiles,
    pub tree: Option<String>,
    listing: Option<Arc<FileListing>>,
    git_is_slow: bool,
}

/// A look that is taken in together with reports.
#[derive(Clone, Debug)]
pub(super) struct QuickInspection {
    now: Arc<FileListing>,
    before: Option<Arc<FileListing>>,
    clock: Clock,
}

impl QuickInspection {
    /// Records what changed during an attempt whose report was just taken in.
    pub fn record(&self, draft: &mut Draft<'_>, command: &CommandId) -> Result<(), Refusal> {
        let attempt = draft.plan().attempt(command);
        let attempt = attempt.ok_or_else(|| Refusal::UnknownCommand(command.clone()))?;
        let since = draft.plan().began(attempt);
        let wall = self.clock.to_wall(since);
        let changes = self.now.changes(self.before.as_deref(), since, wall);
        draft.inspected(command, changes, None)
    }
}

impl ChangeWatch {
    pub fn new(settings: &DaemonSettings, clock: Clock) -> Self {
        let folder = settings.workspace.clone();
        let own = OWN.map(|name| folder.join(name));
        let exchange = settings.volumes.root().to_owned();
        // Its id becomes a name: whoever made the plan chose it.
        let name: String = settings
            .plan
            .as_str()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .take(64)
            .collect();
        Self {
            aside: exchange.join("trees").join(name),
            left_out: own.into_iter().chain([exchange]).collect(),
            folder,
            repository: None,
            worktree_of: None,
            clock,
            before: None,
            git_is_slow: false,
        }
    }

    /// Looks at the worktree of a task instead.
    fn within(self, line: &IntegrationBranch, task: TaskId) -> Self {
        let folder = PathBuf::from(line.worktree(task));
        Self {
            left_out: OWN.map(|name| folder.join(name)).to_vec(),
            aside: self.aside.join(format!("task-{task}")),
            worktree_of: Some([self.folder, PathBuf::from(&line.folder)]),
            folder,
            before: None,
            ..self
        }
    }

    /// Returns what git knows and keeps of the folder; `None` where there was no repository, or is no worktree any more.
    async fn trees(&self) -> Result<Option<GitSnapshots>, GitError> {
        let Some(repository) = &self.repository else {
            return Ok(None);
        };
        let git = match &self.worktree_of {
            None => Git::open(&self.folder, repository, &self.aside.join("git")).await?,
            Some([root, worktrees]) => {
                let project = Project::open(root, repository, worktrees).await?;
                let Some(git) = project.worktree(&self.folder).await? else {
                    return Ok(None);
                };
                git
            }
        };
        Ok(Some(GitSnapshots::of(git, &self.aside, &self.left_out)?))
    }

    /// Lists a folder that is small and no repository.
    pub fn quick(&self, now: Time) -> Option<QuickInspection> {
        let before = self.before.as_ref()?;
        if before.files()? > QUICK || self.repository.is_some() {
            return None;
        }
        let listing = FileListing::of(&self.folder, &self.left_out, 2 * QUICK, now)?;
        listing.files()?;
        Some(QuickInspection {
            now: Arc::new(listing),
            before: Some(Arc::clone(before)),
            clock: self.clock,
        })
    }

    /// Keeps a look for the next one.
    pub fn remember_quick(&mut self, look: &QuickInspection) {
        self.before = Some(Arc::clone(&look.now));
    }

    /// Keeps what a look beside the loop found for the next one.
    pub fn remember(&mut self, found: &Inspected) {
        self.git_is_slow |= found.git_is_slow;
        self.before.clone_from(&found.listing);
    }

    fn list(&self, most: usize) -> Option<FileListing> {
        FileListing::of(&self.folder, &self.left_out, most, self.clock.now())
    }

    fn keep(listing: FileListing) -> Option<Arc<FileListing>> {
        let small = listing.files().is_some_and(|files| files <= KEPT);
        small.then(|| Arc::new(listing))
    }

    /// Looks before anything is dispatched. Returns what git knows, where there is a repository.
    async fn begin(&mut self) -> Option<String> {
        let kept = async {
            Ok::<_, GitError>(match self.trees().await? {
                Some(trees) => Some(trees.record().await?),
                None => None,
            })
        };
        match kept.await {
            Ok(Some(tree)) => return Some(tree),
            Ok(None) => {}
            Err(error) => {
                self.git_is_slow = error.late();
                tracing::warn!(%error, "what changes is told by the times of the files");
            }
        }
        let change_watch = self.clone();
        let listed = tokio::task::spawn_blocking(move || change_watch.list(KEPT)).await;
        self.before = listed.ok().flatten().and_then(Self::keep);
        None
    }

    /// Looks what changed since an attempt began; `tree` is what git knew then.
    async fn look(self, since: Time, tree: Option<String>) -> Inspected {
        let mut found = Inspected {
            git_is_slow: self.git_is_slow,
            ..Inspected::default()
        };
        if !self.git_is_slow {
            match self.by_git(since, tree).await {
                Ok(None) => {}
                Ok(Some((now, changes))) => {
                    found.tree = Some(now);
                    if let Some(changes) = changes {
                        found.changes = changes;
                        return found;
                    }
                }
                Err(error) => {
                    found.git_is_slow = error.late();
                    tracing::warn!(%error, "what changed is told by the times of the files");
                }
            }
        }
        // A worktree was laid out anew: by their times all its files would be changes.
        if self.worktree_of.is_some() {
            return found;
        }
        let look = move || {
            let Some(now) = self.list(MOST) else {
                return (ChangedFiles::default(), None);
            };
            let wall = self.clock.to_wall(since);
            let changes = now.changes(self.before.as_deref(), since, wall);
            (changes, Self::keep(now))
        };
        let looked = tokio::task::spawn_blocking(look).await;
        (found.changes, found.listing) = looked.unwrap_or_default();
        found
    }

    async fn by_git(
        &self,
        since: Time,
        tree: Option<String>,
    ) -> Result<Option<(String, Option<ChangedFiles>)>, GitError> {
        let Some(trees) = self.trees().await? else {
            return Ok(None);
        };
        let now = trees.record().await?;
        let Some(tree) = tree else {
            return Ok(Some((now, None)));
        };
        let wall = self.clock.to_wall(since);
        match trees.changes(&tree, &now, wall).await {
            Ok(changes) => Ok(Some((now, Some(changes)))),
            Err(error) if error.late() => Err(error),
            Err(error) => {
                tracing::warn!(%error, "what git knew before is not kept any more");
                Ok(Some((now, None)))
            }
        }
    }

    /// Removes what was kept for a plan that has ended.
    pub async fn clear(&self) {
        if let Err(error) = remove_folder(self.aside.clone()).await {
            tracing::warn!(%error, path = %self.aside.display(), "the trees of git stay behind");
        }
    }
}

impl PlanRun {
    /// Looks at the workspace before anything is dispatched.
    pub(super) async fn look_first(&mut self) -> anyhow::Result<()> {
        let known = self.read(|plan, _| {
            let head = plan.head();
            // A worktree of a task is compared with what it began from.
            let needless = head.status.settled() || head.line.is_some();
            let worked = plan.attempts().next().is_some();
            (needless, head.repository.clone(), worked)
        });
        let (needless, recorded, worked) = known.await?;
        if needless {
            return Ok(());
        }
        self.change_watch.repository = if worked {
            // One that was not there before may be an agent's.
            recorded.map(|repository| *repository)
        } else {
            let found = examine(&self.settings.workspace, Filters::Off).await;
            found.unwrap_or_else(|error| {
                tracing::warn!(%error, "the workspace is looked at without git");
                None
            })
        };
        let tree = self.change_watch.begin().await;
        if let Some(repository) = self.change_watch.repository.clone() {
            let keep = move |draft: &mut Draft<'_>| {
                draft.found_repository(&repository);
                if let Some(tree) = tree {
                    draft.record_tree(&tree);
                }
                Ok(())
            };
            let why = "what git knows of the workspace";
            self.record(why, keep).await?;
        }
        Ok(())
    }

    pub(super) fn inspect(&mut self, id: &CommandId) {
        let (change_watch, id) = (self.change_watch.clone(), id.clone());
        let (settings, store) = self.handles();
        self.spawn(EffectKey::Inspect(id.clone()), async move {
            let inspected = inspect(change_watch, &store, &settings.plan, id.clone()).await?;
            Ok(EffectResult::Inspected(id, Box::new(inspected)))
        });
    }
}

async fn inspect(
    change_watch: ChangeWatch,
    store: &Store,
    plan: &crate::plan::PlanId,
    id: CommandId,
) -> anyhow::Result<Inspected> {
    let known = store
        .read(plan, move |plan, _| {
            let attempt = plan.attempt(&id)?;
            let head = plan.head();
            let worktree = head.line.clone().map(|line| (line, attempt.task));
            let repository = head.repository.clone().map(|repository| *repository);
            let began = plan.began(attempt);
            Some((began, attempt.tree.clone(), worktree, repository))
        })
        .await?;
    let Some((since, tree, worktree, repository)) = known else {
        anyhow::bail!("the attempt is not in the plan");
    };
    let change_watch = ChangeWatch {
        repository,
        ..change_watch
    };
    let Some((line, task)) = worktree else {
        return Ok(change_watch.look(since, tree).await);
    };
    let found = change_watch.within(&line, task).look(since, tree).await;
    Ok(Inspected {
        tree: None,
        listing: None,
        ..found
    })
}
