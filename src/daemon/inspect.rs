//! What changed in the workspace: looked at when a report comes, before anything else is done there. A small folder is
//! looked at while the report is taken in, so that it costs no change of its own; everything else beside the loop.

use std::path::PathBuf;
use std::sync::Arc;

use super::{BY, Daemon, Key, Settings};
use crate::clock::Clock;
use crate::exec::{Listing, Trees};
use crate::plan::{Changes, CommandId, Draft, Plan, Refusal, TaskId, Time};
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
pub(super) struct Lookout {
    folder: PathBuf,
    left_out: Vec<PathBuf>,
    /// Where the trees of git are kept.
    aside: PathBuf,
    clock: Clock,
    /// The last look, if it saw everything.
    before: Option<Arc<Listing>>,
    /// Git took too long; it is left alone.
    git_is_slow: bool,
    /// The folder was laid out anew: by their times all its files would be changes.
    laid_out: bool,
}

/// What a look found.
#[derive(Clone, Debug)]
pub(super) struct Inspected {
    pub changes: Changes,
    tree: Option<String>,
    listing: Option<Arc<Listing>>,
    git_is_slow: bool,
}

/// A look that is taken in together with reports.
#[derive(Clone, Debug)]
pub(super) struct QuickLook {
    now: Arc<Listing>,
    before: Option<Arc<Listing>>,
    clock: Clock,
}

impl QuickLook {
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

impl Lookout {
    pub fn new(settings: &Settings, clock: Clock) -> Self {
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
            clock,
            before: None,
            git_is_slow: false,
            laid_out: false,
        }
    }

    /// Looks at the worktree of a task instead.
    fn within(self, task: TaskId, folder: PathBuf) -> Self {
        Self {
            left_out: OWN.map(|name| folder.join(name)).to_vec(),
            aside: self.aside.join(format!("task-{task}")),
            folder,
            before: None,
            laid_out: true,
            ..self
        }
    }

    /// Lists a folder that is small and no repository.
    pub fn quick(&self, now: Time) -> Option<QuickLook> {
        let before = self.before.as_ref()?;
        if before.files()? > QUICK || Trees::are_in(&self.folder) {
            return None;
        }
        let listing = Listing::of(&self.folder, &self.left_out, 2 * QUICK, now)?;
        listing.files()?;
        Some(QuickLook {
            now: Arc::new(listing),
            before: Some(Arc::clone(before)),
            clock: self.clock,
        })
    }

    /// Keeps a look for the next one.
    pub fn remember(&mut self, look: &QuickLook) {
        self.before = Some(Arc::clone(&look.now));
    }

    fn list(&self, most: usize) -> Option<Listing> {
        Listing::of(&self.folder, &self.left_out, most, self.clock.now())
    }

    fn keep(listing: Listing) -> Option<Arc<Listing>> {
        let small = listing.files().is_some_and(|files| files <= KEPT);
        small.then(|| Arc::new(listing))
    }

    /// Looks before anything is handed out. Returns what git knows, where there is a repository.
    async fn begin(&mut self) -> Option<String> {
        if Trees::are_in(&self.folder) {
            let kept = async {
                let trees = Trees::of(&self.folder, &self.aside, &self.left_out).await?;
                trees.keep().await
            };
            match kept.await {
                Ok(tree) => return Some(tree),
                Err(error) => {
                    self.git_is_slow = error.late();
                    tracing::warn!(%error, "what changes is told by the times of the files");
                }
            }
        }
        let lookout = self.clone();
        let listed = tokio::task::spawn_blocking(move || lookout.list(KEPT)).await;
        self.before = listed.ok().flatten().and_then(Self::keep);
        None
    }

    /// Looks what changed since an attempt began; `tree` is what git knew then.
    async fn look(self, since: Time, tree: Option<String>) -> Inspected {
        let mut git_is_slow = self.git_is_slow;
        let mut known = None;
        if !git_is_slow && Trees::are_in(&self.folder) {
            match self.by_git(since, tree).await {
                Ok((now, Some(changes))) => {
                    return Inspected {
                        changes,
                        tree: Some(now),
                        listing: None,
                        git_is_slow,
                    };
                }
                Ok((now, None)) => known = Some(now),
                Err(error) => {
                    git_is_slow = error.late();
                    tracing::warn!(%error, "what changed is told by the times of the files");
                }
            }
        }
        if self.laid_out {
            return Inspected {
                changes: Changes::default(),
                tree: known,
                listing: None,
                git_is_slow,
            };
        }
        let lookout = self.clone();
        let look = move || {
            let Some(now) = lookout.list(MOST) else {
                return (Changes::default(), None);
            };
            let wall = lookout.clock.to_wall(since);
            let changes = now.changes(lookout.before.as_deref(), since, wall);
            (changes, Self::keep(now))
        };
        let (changes, listing) = tokio::task::spawn_blocking(look).await.unwrap_or_default();
        Inspected {
            changes,
            tree: known,
            listing,
            git_is_slow,
        }
    }

    async fn by_git(
        &self,
        since: Time,
        tree: Option<String>,
    ) -> Result<(String, Option<Changes>), crate::exec::GitError> {
        let trees = Trees::of(&self.folder, &self.aside, &self.left_out).await?;
        let now = trees.keep().await?;
        let Some(tree) = tree else {
            return Ok((now, None));
        };
        let wall = self.clock.to_wall(since);
        match trees.changes(&tree, &now, wall).await {
            Ok(changes) => Ok((now, Some(changes))),
            Err(error) if error.late() => Err(error),
            Err(error) => {
                tracing::warn!(%error, "what git knew before is not kept any more");
                Ok((now, None))
            }
        }
    }

    /// Removes what was kept for a plan that has ended.
    pub fn clear(&self) {
        if self.aside.exists()
            && let Err(error) = std::fs::remove_dir_all(&self.aside)
        {
            tracing::warn!(%error, path = %self.aside.display(), "the trees of git stay behind");
        }
    }
}

impl Daemon {
    /// Looks at the workspace before anything is handed out.
    pub(super) async fn look_first(&mut self) -> anyhow::Result<()> {
        let plan = &self.settings.plan;
        // A worktree of a task is compared with what it began from.
        let needless = |plan: &Plan, _| plan.status().settled() || plan.head().line.is_some();
        if self.store.read(plan, needless).await? {
            return Ok(());
        }
        if let Some(tree) = self.lookout.begin().await {
            let keep = move |draft: &mut Draft<'_>| {
                draft.kept_tree(&tree);
                Ok(())
            };
            let why = "what git knows of the workspace";
            self.store.change(plan, BY, why, keep).await?;
        }
        Ok(())
    }

    pub(super) fn inspect(&mut self, id: &CommandId) {
        let (lookout, store, id) = (self.lookout.clone(), self.store.clone(), id.clone());
        let plan = self.settings.plan.clone();
        self.spawn(Key::Inspect(id.clone()), async move {
            let inspected = inspect(lookout, &store, &plan, id.clone()).await?;
            Ok(super::input::Input::Inspected(id, Box::new(inspected)))
        });
    }

    /// Commits what a look beside the loop found.
    pub(super) async fn inspected(
        &mut self,
        id: &CommandId,
        found: &Inspected,
    ) -> Result<(), crate::store::StoreError> {
        let (command, changes, tree) = (id.clone(), found.changes.clone(), found.tree.clone());
        let why = "the workspace was looked at";
        self.commit(why, move |draft| {
            draft.inspected(&command, changes, tree.as_deref())
        })
        .await?;
        self.lookout.git_is_slow |= found.git_is_slow;
        self.lookout.before.clone_from(&found.listing);
        Ok(())
    }
}

async fn inspect(
    lookout: Lookout,
    store: &Store,
    plan: &crate::plan::PlanId,
    id: CommandId,
) -> anyhow::Result<Inspected> {
    let known = store
        .read(plan, move |plan, _| {
            let attempt = plan.attempt(&id)?;
            let worktree = plan.head().line.as_ref();
            let worktree = worktree.map(|line| (attempt.task, line.worktree(attempt.task)));
            Some((plan.began(attempt), attempt.tree.clone(), worktree))
        })
        .await?;
    let Some((since, tree, worktree)) = known else {
        anyhow::bail!("the attempt is not in the plan");
    };
    let Some((task, folder)) = worktree else {
        return Ok(lookout.look(since, tree).await);
    };
    let found = lookout.within(task, folder.into()).look(since, tree).await;
    Ok(Inspected {
        tree: None,
        listing: None,
        ..found
    })
}
