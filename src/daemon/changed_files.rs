//! What changed in the workspace: inspected when a report comes, before anything else happens there. A small folder is
//! inspected while the report is applied, so that it costs no change of its own; everything else beside the loop.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::{DaemonSettings, ParsedReport, PlanRun};
use crate::agents::ran_commands;
use crate::exec::{
    self, FileListing, Filters, Git, GitError, GitSnapshots, Project, examine, remove_folder,
};
use crate::plan::{
    Attempt, ChangedFiles, CommandId, Draft, IntegrationBranch, Plan, RanCommand, Refusal, Report,
    Repository, TaskId, Time,
};
use crate::store::StoreError;

/// Up to this number of files, to list a folder takes less time than to wake another thread for it.
const QUICK: usize = 64;

/// A listing of more files is not kept: it would take more memory than the rest of a daemon.
const KEPT: usize = 2_000;

/// Files that are inspected in all.
const MOST: usize = 50_000;

/// The end of what an agent printed that is read, in bytes.
const MOST_PRINTED: usize = 4 * 1024 * 1024;

/// What agents printed at most if it is read while their reports are applied, in bytes: that takes less time than a flush.
const QUICK_PRINTED: usize = 256 * 1024;

/// The pauses between two looks whether an agent that has reported has ended: the first, and the longest.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LONGEST_LOOK: Duration = Duration::from_millis(250);

/// A worker takes up in this time what it left behind when it was ended, and reports what its agent left.
const TAKEN_UP: Duration = Duration::from_secs(3);

/// An agent that has reported has this time to end, and one that was asked to end this; one that cannot be ended is not waited for.
const ENDS: Duration = Duration::from_secs(300);
const ENDED: Duration = Duration::from_secs(15);

/// Files of the daemon in its own workspace.
const MISSION: [&str; 2] = ["MISSION.md", ".MISSION.md.tmp"];

/// The folder for git of a shared workspace, in that for the worktrees of its plan.
const SHARED_GIT: &str = "shared-git";

/// Which folder is inspected, and what earlier inspections found.
#[derive(Clone)]
pub(super) struct ChangeWatch {
    settings: Arc<DaemonSettings>,
    folder: PathBuf,
    /// The repository when the plan began; one that an agent makes later does not count.
    repository: Option<Repository>,
    /// The project and where its results are gathered, where the inspected folder is a worktree of the repository.
    worktree_of: Option<(PathBuf, IntegrationBranch)>,
    left_out: Vec<PathBuf>,
    /// Where the trees of git are kept.
    aside: PathBuf,
    /// The last listing, if it is complete.
    pub before: Option<Arc<FileListing>>,
    /// Git took too long and is not called any more.
    git_is_slow: bool,
}

/// What an inspection found.
#[derive(Clone, Debug, Default)]
pub(super) struct Inspected {
    pub changes: ChangedFiles,
    pub tree: Option<String>,
    pub ran: Vec<RanCommand>,
    listing: Option<Arc<FileListing>>,
    git_is_slow: bool,
}

/// An inspection that is recorded together with reports.
#[derive(Clone)]
pub(super) struct QuickInspection {
    pub now: Arc<FileListing>,
    before: Option<Arc<FileListing>>,
    /// What agents printed, by the command that was reported.
    printed: BTreeMap<CommandId, Vec<String>>,
    settings: Arc<DaemonSettings>,
}

impl QuickInspection {
    /// Records what changed during an attempt whose report was just applied, and what its agent ran.
    pub fn record(&self, draft: &mut Draft<'_>, command: &CommandId) -> Result<(), Refusal> {
        let attempt = draft.attempt(command)?;
        let since = draft.plan().began(&attempt);
        let wall = self.settings.clock.to_wall(since);
        let changes = self.now.changes(self.before.as_deref(), since, wall);
        if let Some(printed) = self.printed.get(command) {
            let folder = draft.plan().workspace_of(attempt.task);
            draft.ran(command, ran(&self.settings, printed, &folder, &changes))?;
        }
        draft.inspected(command, changes, None)
    }
}

impl ChangeWatch {
    pub fn new(settings: &Arc<DaemonSettings>) -> Self {
        let folder = settings.workspace.clone();
        // In a folder of the person this name is theirs.
        let mission = MISSION.map(|name| settings.mission.join(name));
        let inbox = folder.join(exec::AGENT_FOLDER);
        let exchange = settings.volumes.root().to_owned();
        // The id becomes the name of a folder, and a tool may have chosen it.
        let is_odd = |c: char| !c.is_ascii_alphanumeric();
        let id = settings.plan.as_str().replace(is_odd, "_");
        let name: String = id.chars().take(64).collect();
        Self {
            aside: exchange.join("trees").join(name),
            settings: Arc::clone(settings),
            left_out: mission.into_iter().chain([inbox, exchange]).collect(),
            folder,
            repository: None,
            worktree_of: None,
            before: None,
            git_is_slow: false,
        }
    }

    /// Inspects the worktree of a task instead.
    fn within(self, line: &IntegrationBranch, task: TaskId) -> Self {
        let folder = PathBuf::from(line.worktree(task));
        Self {
            left_out: vec![folder.join(exec::AGENT_FOLDER)],
            aside: self.aside.join(format!("task-{task}")),
            worktree_of: Some((self.folder, line.clone())),
            folder,
            before: None,
            ..self
        }
    }

    /// Returns the folder for git in a shared workspace: outside of it, because tools that walk through the project would follow its
    /// links, and some fail at one that leads nowhere.
    fn shared_git(&self) -> PathBuf {
        self.settings.worktrees.join(SHARED_GIT)
    }

    /// Returns the snapshots of git; `None` where the plan began without a repository, or the worktree is gone.
    pub async fn trees(&self) -> Result<Option<GitSnapshots>, GitError> {
        let Some(repository) = &self.repository else {
            return Ok(None);
        };
        let git = match &self.worktree_of {
            None => Git::open(&self.folder, repository, &self.shared_git()).await?,
            Some((root, line)) => {
                let worktrees = Path::new(&line.folder);
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
    fn quick(&self, now: Time) -> Option<QuickInspection> {
        let before = self.before.as_ref()?;
        if before.files()? > QUICK || self.repository.is_some() {
            return None;
        }
        let listing = FileListing::of(&self.folder, &self.left_out, 2 * QUICK, now)?;
        listing.files()?;
        Some(QuickInspection {
            now: Arc::new(listing),
            before: Some(Arc::clone(before)),
            printed: BTreeMap::new(),
            settings: Arc::clone(&self.settings),
        })
    }

    /// Keeps what an inspection beside the loop found for the next one.
    pub fn remember(&mut self, found: &Inspected) {
        self.git_is_slow |= found.git_is_slow;
        self.before.clone_from(&found.listing);
    }

    fn list(&self, most: usize) -> Option<FileListing> {
        FileListing::of(&self.folder, &self.left_out, most, self.settings.now())
    }

    fn keep(listing: FileListing) -> Option<Arc<FileListing>> {
        let small = listing.files().is_some_and(|files| files <= KEPT);
        small.then(|| Arc::new(listing))
    }

    /// Takes the first snapshot, before anything is dispatched. Returns the tree, where git has one.
    async fn begin(&mut self) -> Option<String> {
        match self.by_git(Time::default(), None).await {
            Ok(Some((tree, _))) => return Some(tree),
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

    /// Inspects what changed since an attempt began with `tree`.
    async fn inspect(self, since: Time, tree: Option<String>) -> Inspected {
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
        // A worktree was made for the attempt: by their times all its files would be changes.
        if self.worktree_of.is_some() {
            return found;
        }
        let list = move || {
            let Some(now) = self.list(MOST) else {
                return (ChangedFiles::default(), None);
            };
            let wall = self.settings.clock.to_wall(since);
            let changes = now.changes(self.before.as_deref(), since, wall);
            (changes, Self::keep(now))
        };
        let listed = tokio::task::spawn_blocking(list).await;
        (found.changes, found.listing) = listed.unwrap_or_default();
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
        let tree = match &self.worktree_of {
            Some((_, line)) => trees.begin_of(&tree, &line.tip).await?,
            None => tree,
        };
        let wall = self.settings.clock.to_wall(since);
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
        for folder in [self.aside.clone(), self.shared_git()] {
            if let Err(error) = remove_folder(folder.clone()).await {
                tracing::warn!(%error, path = %folder.display(), "the trees of git stay behind");
            }
        }
    }
}

impl PlanRun {
    /// Records the state of the workspace before anything is dispatched.
    pub(super) async fn inspect_first(&mut self) -> anyhow::Result<()> {
        let known = self.settings.read(|plan, _| {
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
        self.proofs.change_watch.repository = if worked {
            // A repository that was not recorded may be an agent's.
            recorded.map(|repository| *repository)
        } else {
            let found = examine(&self.settings.workspace, Filters::Off).await;
            found.unwrap_or_else(|error| {
                tracing::warn!(%error, "the workspace is inspected without git");
                None
            })
        };
        let tree = self.proofs.change_watch.begin().await;
        if let Some(repository) = self.proofs.change_watch.repository.clone() {
            let record = move |draft: &mut Draft<'_>| {
                draft.found_repository(&repository);
                if let Some(tree) = tree {
                    draft.record_tree(&tree);
                }
                Ok(())
            };
            let why = "what git knows of the workspace";
            self.settings.change(why, record).await?;
        }
        Ok(())
    }

    /// Inspects a folder that is small and no repository in the moment in which these reports came; `None` if the folder is
    /// another one, or agents printed too much for that moment.
    pub(super) async fn inspect_quickly(
        &self,
        reports: &[ParsedReport],
        now: Time,
    ) -> Result<Option<QuickInspection>, StoreError> {
        let Some(mut quick) = self.proofs.change_watch.quick(now) else {
            return Ok(None);
        };
        let log = |id: &CommandId| self.settings.volumes.log(id, "out");
        let length = |id: &CommandId| exec::read_from(&log(id), 0, 0).0;
        let reported = reports.iter().filter_map(|report| report.command.clone());
        let reported: Vec<CommandId> = reported.collect();
        let held = |id: &CommandId| self.settings.volumes.claim_lock(id).exists();
        if reported.iter().any(held) {
            return Ok(None);
        }
        if reported.iter().all(|id| length(id) == 0) {
            return Ok(Some(quick));
        }
        let commands = self.settings.read(move |plan, _| {
            let with = |id: CommandId| Some((commands_of(plan, plan.attempt(&id)?), id));
            reported.into_iter().filter_map(with).collect::<Vec<_>>()
        });
        let commands = commands.await?;
        let lengths = commands.iter().flat_map(|(ids, _)| ids).map(length);
        if lengths.sum::<u64>() > QUICK_PRINTED as u64 {
            return Ok(None);
        }
        for (ids, reported) in commands {
            let printed = ids.iter().map(|id| exec::tail_of(&log(id), QUICK_PRINTED));
            quick.printed.insert(reported, printed.collect());
        }
        Ok(Some(quick))
    }
}

/// Waits until the agent of a reported attempt has ended, if a worker started it: one that reports by a tool, or by a file of its
/// own, may write on. It is asked to end after [`ENDS`], or after the time for which an agent may be silent if that is shorter.
///
/// # Errors
/// What the file system or the store says.
async fn until_ended(settings: &DaemonSettings, id: &CommandId) -> anyhow::Result<()> {
    let (volumes, began) = (&settings.volumes, Instant::now());
    let (lock, err) = (volumes.claim_lock(id), volumes.log(id, "err"));
    let ends = ENDS.min(settings.config.run.task_timeout);
    let (mut pause, mut asked, mut lived) = (FIRST_LOOK, false, began);
    while lock.exists() && lived.elapsed() < TAKEN_UP {
        if exec::alive(&err) {
            lived = Instant::now();
        }
        if began.elapsed() > ends + ENDED {
            break;
        }
        if began.elapsed() > ends && !asked {
            volumes.cancel(id)?;
            asked = true;
        }
        sleep(pause).await;
        // Soon at first: most agents end with their report.
        pause = (pause * 2).min(LONGEST_LOOK);
    }
    // What it left, or its worker for it, completes what it said by a tool.
    while volumes.is_unread(id)? && lived.elapsed() < TAKEN_UP {
        let id = id.clone();
        let said_by_tool = settings.read(move |plan, _| {
            let report = plan.attempt(&id).and_then(|it| it.report.as_ref());
            report.is_some_and(Report::is_tool_call)
        });
        if !said_by_tool.await? {
            break;
        }
        sleep(LONGEST_LOOK).await;
    }
    Ok(())
}

/// Inspects what changed during a reported attempt until its agent ended, and what that ran.
pub(super) async fn inspect(mut watch: ChangeWatch, id: CommandId) -> anyhow::Result<Inspected> {
    let settings = Arc::clone(&watch.settings);
    until_ended(&settings, &id).await?;
    let known = settings.read(move |plan, _| {
        let (head, attempt) = (plan.head(), plan.attempt(&id)?);
        let worktree = head.line.clone().map(|line| (line, attempt.task));
        let repository = head.repository.clone().map(|repository| *repository);
        let began = plan.began(attempt);
        let ran = (commands_of(plan, attempt), plan.workspace_of(attempt.task));
        Some((began, attempt.tree.clone(), ran, worktree, repository))
    });
    let Some((since, tree, (commands, folder), worktree, repository)) = known.await? else {
        anyhow::bail!("the attempt is not in the plan");
    };
    watch.repository = repository;
    let mut found = match worktree {
        None => watch.inspect(since, tree).await,
        Some((line, task)) => Inspected {
            tree: None,
            listing: None,
            ..watch.within(&line, task).inspect(since, tree).await
        },
    };
    let changes = found.changes.clone();
    let read = move || {
        let printed = |id| exec::tail_of(&settings.volumes.log(id, "out"), MOST_PRINTED);
        let printed: Vec<String> = commands.iter().map(printed).collect();
        ran(&settings, &printed, &folder, &changes)
    };
    found.ran = tokio::task::spawn_blocking(read).await?;
    Ok(found)
}

/// Returns the commands of an attempt: its own, and those that asked for its report again.
fn commands_of(plan: &Plan, attempt: &Attempt) -> Vec<CommandId> {
    let same = plan.attempts_of(attempt.task);
    let same = same.filter(|other| other.number == attempt.number);
    same.map(|other| other.id.clone()).collect()
}

fn ran(
    settings: &DaemonSettings,
    printed: &[String],
    folder: &str,
    changes: &ChangedFiles,
) -> Vec<RanCommand> {
    let checks = settings.config.checks.iter();
    let checks = checks.map(|(name, check)| (name.clone(), check.argv.join(" ")));
    ran_commands(printed, folder, &changes.files, &checks.collect::<Vec<_>>())
}
