//! Plans whose tasks have a worktree and a branch of their own: where they begin, how a result gets onto the branch
//! of the plan, and what is left in the end. The integration branch in the plan is the truth, and the project's
//! branch follows it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::DaemonSettings;
use super::proof_runs::check_mark;
use crate::agents::not_named;
use crate::exec::{
    BranchMove, CheckFolder, GitError, MERGED, Merged, Project, TaskWorktree, UNTOUCHED,
    own_filters, project_head, why_not_ready, worktree_of,
};
use crate::own_files;
use crate::plan::{
    Attempt, CONFLICT, CheckResult, CommandId, Draft, IntegrationBranch, MERGE_CHECK, PendingMerge,
    Plan, PlanHead, PlanId, Repository, Task, TaskId,
};
use crate::volumes::keep_out_of_git;
use crate::wire::short_commit;
use crate::wire::text::{one_line, printable};

/// Characters of the finding of a merge.
const FINDING: usize = 500;

/// What git says where it may succeed later.
const PASSING: [&str; 6] = [
    "No space left",
    "unable to write",
    "Disk quota exceeded",
    "Read-only file system",
    "Permission denied",
    "File exists",
];

/// Characters of a task's name in the title of a commit.
const TITLE: usize = 60;

/// Begins the title of the commit that puts changes back.
const PUT_BACK: &str = "put back: ";

/// Characters of the names of files that were put back.
const NAMES: usize = 400;

/// The worktree of a task, to be made before its command is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorktreeLayout {
    gathering: Gathering,
    place: TaskWorktree,
    /// The last result conflicts with the accepted ones, which are to be merged in.
    merge: bool,
    /// The last result was accepted, and others have been since, up to this commit.
    forward: Option<String>,
}

/// Where the results of a plan are gathered, and the project's repository as it was when the plan began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gathering {
    /// The project's folder.
    root: PathBuf,
    repository: Repository,
    pub line: IntegrationBranch,
}

impl Gathering {
    /// Returns where the results of a plan are gathered; `None` where all tasks use the workspace.
    pub fn of(head: &PlanHead) -> Option<Self> {
        Some(Self {
            root: PathBuf::from(&head.workspace),
            repository: head.repository.as_deref()?.clone(),
            line: head.line.clone()?,
        })
    }

    pub async fn project(&self) -> Result<Project, GitError> {
        let folder = Path::new(&self.line.folder);
        let project = Project::open(&self.root, &self.repository, folder).await?;
        Ok(project.one_at_a_time())
    }
}

/// What was found when the branch of the results was to be moved.
#[derive(Clone, Debug)]
pub(super) enum BranchReport {
    /// It is at this commit.
    There(String),
    /// Foreign commits on it were merged with the results.
    Joined(PendingMerge),
    /// It is not where it was put, or cannot be moved; the text is for a person.
    Elsewhere { found: String, reason: String },
}

impl WorktreeLayout {
    /// Returns the worktree of a task; `None` where all tasks use the workspace.
    pub fn of(plan: &Plan, task: TaskId) -> Option<Self> {
        let gathering = Gathering::of(plan.head())?;
        let mut attempts = plan.attempts_of(task).rev();
        let last = attempts.find(|attempt| attempt.report.is_some());
        Some(Self {
            place: worktree_of(plan.id(), &gathering.line, task),
            gathering,
            merge: last.is_some_and(Attempt::clashed),
            forward: (last.filter(|last| last.is_accepted()))
                .and_then(|_| plan.attempts_of(task).next_back()?.tree.clone()),
        })
    }

    /// Makes the worktree and what it needs for a command, unless it exists. Returns why no agent can work there.
    pub async fn prepare(
        &self,
        settings: &DaemonSettings,
        command: &CommandId,
    ) -> Result<Option<String>> {
        let place = match self.make().await {
            Err(error) if refuses_for_good(&error) => {
                return Ok(Some(format!("git cannot make the worktree: {error}")));
            }
            made => made?,
        };
        let Some(place) = place else { return Ok(None) };
        let failed = prepare(settings, &place, command).await?;
        Ok(failed.as_ref().map(why_not_ready))
    }

    async fn make(&self) -> Result<Option<CheckFolder>, GitError> {
        let (project, tip) = (self.gathering.project().await?, &self.gathering.line.tip);
        project.lay_out(&self.place, tip).await?;
        if let Some(commit) = &self.forward {
            project.bring_forward(&self.place, commit).await?;
        }
        if self.merge {
            project.begin_merge(&self.place, tip).await?;
        }
        project.check_folder(&self.place.folder).await
    }
}

/// Returns whether git refuses, and would again: no disk is full, and no other git is at work.
fn refuses_for_good(error: &GitError) -> bool {
    let said = error.to_string();
    error.refused() && !PASSING.iter().any(|passing| said.contains(passing))
}

/// Runs the person's command in a folder, unless it has prepared that one. Returns how it failed; what it said is in the
/// logs of the command.
pub(super) async fn prepare(
    settings: &DaemonSettings,
    place: &CheckFolder,
    command: &CommandId,
) -> Result<Option<CheckResult>> {
    let mark = check_mark(settings, place.folder(), command);
    let prepare = settings.config.run.prepare.as_ref();
    let ran = place.make_ready(prepare, (&mark.0, &mark.1)).await;
    let ran = ran.context("`prepare`")?;
    if let Some(ran) = &ran {
        std::fs::write(settings.volumes.log(command, "prepare"), &ran.tail)?;
    }
    let failed = ran.filter(|ran| !ran.passed);
    let full = failed.is_some() && own_files::is_disk_full(place.folder());
    let folder = place.folder().display();
    ensure!(!full, "`prepare`: no space left on the disk of `{folder}`");
    Ok(failed)
}

/// Gives each task of a plan a worktree, if that was decided; opens the project. Returns whether the tasks have worktrees.
///
/// # Errors
/// The workspace is no project that can have worktrees.
pub(super) async fn begin(settings: &DaemonSettings) -> Result<bool> {
    let known = settings.read(|plan, _| {
        let (head, worked) = (plan.head(), plan.attempts().next().is_some());
        let isolated = head.line.is_some() || head.isolated == Some(true) && !worked;
        let begins = isolated && !head.status.settled();
        let queued_on = head.branch.as_deref().map(str::to_owned);
        (
            begins,
            head.line.clone(),
            head.repository.clone(),
            queued_on,
        )
    });
    let (begins, line, recorded, queued_on) = known.await?;
    if !begins {
        return Ok(line.is_some());
    }
    let recorded = recorded.filter(|_| line.is_some()).map(|known| *known);
    let (repository, mut base) = project_head(&settings.workspace, recorded).await?;
    // A plan keeps its folder, unless that was moved or removed.
    let folder = line.as_ref().map(|line| PathBuf::from(&line.folder));
    let folder = folder.filter(|folder| folder.is_dir());
    let folder = folder.unwrap_or_else(|| settings.worktrees.clone());
    own_files::make_folder(&folder)?;
    let project = Project::open(&settings.workspace, &repository, &folder).await?;
    if let Err(error) = keep_out_of_git(&settings.workspace) {
        tracing::warn!(%error, "the folder of agents is not kept out of git");
    }
    if let Some(IntegrationBranch { tip, .. }) = &line {
        ensure!(
            project.git().has_commit(tip).await?,
            "the results of the plan are gone: the repository has no commit `{}` any more. `git fetch` from where their branch was pushed to brings them back; `abort` ends the plan",
            short_commit(tip)
        );
    } else {
        for (name, program) in own_filters(&settings.workspace, &repository).await? {
            (settings.notice)(&format!(
                "git runs `{}` on files of the worktrees, as the project's own configuration says: `{name}`",
                one_line(&program, FINDING)
            ));
        }
    }
    let (mut began_on, folder) = (project.branch().await?, folder.display().to_string());
    if let Some(branch) = queued_on.filter(|_| line.is_none()) {
        base = project.at_branch(&branch).await?.with_context(|| {
            format!("the branch on which the plan was queued is gone: `git branch {branch} COMMIT` brings it back; `abort` ends the plan")
        })?;
        began_on = Some(branch);
    }
    let change = move |draft: &mut Draft<'_>| {
        draft.found_repository(&repository);
        draft.isolate(&base, began_on.as_deref(), &folder)
    };
    settings.change("each task has a worktree", change).await?;
    Ok(true)
}

/// Commits the work of a task on its branch, and merges that aside with the accepted results. Returns the merge and the folder that
/// has it, or how it failed. `named` has the texts that name the files of the task, if changes of other files are to be put back.
pub(super) async fn merge(
    plan: &PlanId,
    gathering: &Gathering,
    task: &Task,
    attempt: u32,
    named: Option<&str>,
) -> Result<Result<(PendingMerge, CheckFolder), CheckResult>> {
    let (project, line) = (gathering.project().await?, &gathering.line);
    let number = task.number;
    let name = one_line(&task.name, TITLE);
    let left = format!("Task {number}, attempt {attempt}: {name}\n\nPlan {plan}.");
    let message =
        format!("Task {number}: {name}\n\nAccepted after attempt {attempt}; plan {plan}.");
    let place = worktree_of(plan, line, number);
    let named = named.map(|text| (text, task.produces.as_slice()));
    let kept = keep_and_merge(&project, line, &place, [&left, &message], named);
    let (head, put_back, merged) = match kept.await {
        Ok(both) => both,
        Err(GitError::Unclear(unclear)) => {
            let first = unclear.lines().next().unwrap_or_default();
            return Ok(Err(failed(first.trim_end_matches('.'), &unclear)));
        }
        // Git cannot work with the files that the agent left: each retry would fail the same way.
        Err(error) if error.refused() => {
            let text = format!("What is in your folder cannot be committed and merged. {error}");
            return Ok(Err(failed("git cannot work with what was left", &text)));
        }
        Err(error) => return Err(error.into()),
    };
    let commit = match merged {
        Merged::Commit(commit) => commit,
        Merged::Conflict { files, text } => {
            return Ok(Err(failed(
                &format!("{CONFLICT}{files}"),
                &format!(
                    "{text}\nThe accepted results are being merged into your folder: resolve the conflicts in these files, so that both sides' work is kept. If there are none to be seen, begin with `git merge {}`.",
                    line.tip
                ),
            )));
        }
    };
    let folder = match project.check_out(MERGED, &commit).await {
        Err(error) if refuses_for_good(&error) => {
            let text = format!("The merged result cannot be checked out. {error}");
            return Ok(Err(failed("git cannot lay out the merged result", &text)));
        }
        folder => folder?,
    };
    let onto = line.tip.clone();
    let merge = PendingMerge {
        onto,
        head,
        commit,
        put_back,
    };
    Ok(Ok((merge, folder)))
}

/// Commits the work, puts back what is not named, and merges it; returns the commit, what was put back and the outcome of the
/// merge.
async fn keep_and_merge(
    project: &Project,
    line: &IntegrationBranch,
    place: &TaskWorktree,
    [left, message]: [&str; 2],
    named: Option<(&str, &[String])>,
) -> Result<(String, String, Merged), GitError> {
    let mut head = project.commit_work(place, left).await?;
    let mut put_back = String::new();
    if let Some((text, produces)) = named {
        let changed = project.changed_existing(&line.tip, &head).await?;
        let files = not_named(text, produces, &place.folder, changed);
        if !files.is_empty() {
            let shown = one_line(&files.join(", "), NAMES);
            let title = format!("{PUT_BACK}{shown}; the whole result is commit {head}");
            head = project.put_back(place, &line.tip, &files, &title).await?;
        }
        // A daemon that was killed behind the commit has left its title.
        let title = project.git().line("log -1 --format=%s", &[&head]).await?;
        if title.starts_with(PUT_BACK) {
            put_back = one_line(&printable(&title), 2 * NAMES);
        }
    }
    project.left_no_marks(place, &line.tip, &head).await?;
    project.no_links_out(&line.tip, &head).await?;
    let merged = project.merge(&line.tip, &head, message).await?;
    Ok((head, put_back, merged))
}

/// Fails the produced files that are as they were when the plan began: by their times every file of a worktree is new.
pub(super) async fn fail_untouched(
    plan: &PlanId,
    gathering: &Gathering,
    task: &Task,
    results: &mut [CheckResult],
) -> Result<()> {
    let (project, line) = (gathering.project().await?, &gathering.line);
    let place = worktree_of(plan, line, task.number);
    for (path, result) in task.produces.iter().zip(results) {
        if result.passed && project.untouched(&place, &line.base, path).await? {
            result.passed = false;
            UNTOUCHED.clone_into(&mut result.finding);
        }
    }
    Ok(())
}

fn failed(finding: &str, reason: &str) -> CheckResult {
    CheckResult {
        name: MERGE_CHECK.to_owned(),
        exit: Some(1),
        tail: printable(reason),
        finding: one_line(finding, FINDING),
        ..CheckResult::default()
    }
}

/// Keeps a result that may be accepted where a daemon on another machine finds it.
pub(super) async fn keep(
    settings: &DaemonSettings,
    gathering: &Gathering,
    merge: &PendingMerge,
) -> Result<()> {
    let store = &settings.store;
    if !store.is_shared() || merge.commit == merge.onto {
        return Ok(());
    }
    let project = gathering.project().await?;
    let pack = match project.pack(&merge.onto, &merge.commit).await {
        // The result counts all the same; a daemon on another machine finds that it is missing.
        Err(error @ GitError::TooMuch { .. }) => {
            tracing::warn!(%error, "a result is too large to be kept for other machines");
            return Ok(());
        }
        pack => pack?,
    };
    Ok(store
        .keep_work(&settings.plan, &merge.commit, &pack)
        .await?)
}

/// Moves the branch of the results to the accepted commit, unless it was moved from outside.
pub(super) async fn move_branch(
    settings: &DaemonSettings,
    gathering: &Gathering,
    settled: bool,
) -> Result<BranchReport> {
    let line = &gathering.line;
    match try_move(settings, gathering).await {
        // A plan that has ended does not wait until the branch can be moved.
        Err(error) if settled || !settings.workspace.is_dir() => {
            let (branch, tip) = (IntegrationBranch::branch(&settings.plan), &line.tip);
            let way_out = match settled {
                true => format!("`git branch -f {branch} {tip}` moves it"),
                false => "`retry` tries again".to_owned(),
            };
            let found = line.shown.clone().unwrap_or_default();
            let reason =
                format!("the branch `{branch}` cannot be moved to `{tip}`: {error:#}. {way_out}");
            Ok(BranchReport::Elsewhere { found, reason })
        }
        moved => moved,
    }
}

async fn try_move(settings: &DaemonSettings, gathering: &Gathering) -> Result<BranchReport> {
    let (project, line) = (gathering.project().await?, &gathering.line);
    let branch = IntegrationBranch::branch(&settings.plan);
    let shown = line.shown.as_deref();
    let moved = match shown.filter(|_| line.moved_from.is_some()) {
        Some(at) if project.at_branch(&branch).await?.as_deref() == Some(at) => {
            BranchMove::Ahead(at.to_owned())
        }
        _ => project.move_branch(&branch, &line.tip, shown).await?,
    };
    let was = shown.map_or("not there".to_owned(), |at| format!("at `{at}`"));
    let (found, reason) = match moved {
        BranchMove::There => return Ok(BranchReport::There(line.tip.clone())),
        BranchMove::CheckedOut(folder) => {
            let reason = format!(
                "the branch `{branch}` is checked out in `{folder}`, and to move it would leave the files there behind. Switch to another branch there, then answer `retry`"
            );
            (shown.unwrap_or_default().to_owned(), reason)
        }
        BranchMove::Elsewhere(found) => {
            let is = found.as_ref();
            let is = is.map_or("gone".to_owned(), |at| format!("at `{at}`"));
            let reason = format!(
                "somebody else moved the branch `{branch}`, or the plan was put back from a backup: the branch was {was} and is {is}. `retry` looks again, for when it has been put back; `accept` goes on from where it is, with what is on it"
            );
            (found.unwrap_or_default(), reason)
        }
        BranchMove::Ahead(head) => {
            let (plan, onto) = (&settings.plan, line.tip.clone());
            let message = format!("Take in what was put onto {branch}\n\nPlan {plan}.");
            let joined = match &line.moved_from {
                Some(was) => project.merge_since(was, &head, &onto, &message).await,
                None => project.join(&onto, &head, &message).await,
            };
            match joined? {
                Merged::Commit(commit) => {
                    let joined = PendingMerge {
                        onto,
                        head,
                        commit,
                        put_back: String::new(),
                    };
                    keep(settings, gathering, &joined).await?;
                    return Ok(BranchReport::Joined(joined));
                }
                Merged::Conflict { text, .. } => {
                    let reason = format!(
                        "what somebody else put onto the branch `{branch}` does not go together with the results. Merge `{onto}` into it, then answer `accept`.\n{text}"
                    );
                    (head, reason)
                }
            }
        }
    };
    Ok(BranchReport::Elsewhere { found, reason })
}

/// Removes the worktrees whose work was all accepted. What cannot be removed stays.
pub(super) async fn clean_up(settings: &DaemonSettings) -> Result<()> {
    let known = settings.read(|plan, _| {
        let worked = |task: &&Task| plan.attempts_of(task.number).next().is_some();
        let tasks = plan.tasks().filter(worked).map(|task| task.number);
        (Gathering::of(plan.head()), tasks.collect::<Vec<_>>())
    });
    let (Some(gathering), tasks) = known.await? else {
        return Ok(());
    };
    let (project, line) = (gathering.project().await?, &gathering.line);
    project.remove_checks().await?;
    // Compared with the branch, not with the accepted commit: the branch may have stayed behind, and only a worktree
    // has the rest.
    let branch = IntegrationBranch::branch(&settings.plan);
    let Some(shown) = project.at_branch(&branch).await? else {
        return Ok(());
    };
    let place = |task| worktree_of(&settings.plan, line, task);
    let places: Vec<_> = tasks.into_iter().map(place).collect();
    Ok(project.remove(&places, &shown).await?)
}
