//! `merge`, `discard`, `prune`: what a person does with the results of plans whose tasks had worktrees.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::anyhow;

use super::adopted_plans::fetched;
use super::{
    App, Failure, MergeArgs, OnPlan, PruneArgs, Result, can_ask, complain, confirm, shown_from_here,
};
use crate::exec::{
    DISCARDED, DiffDetail, GitError, Project, TakeOver, TaskWorktree, difference, remove_folder,
    worktree_of,
};
use crate::plan::{DAEMON, Draft, IntegrationBranch, Plan, PlanHead, PlanId, ResultsMove, TaskId};
use crate::store::ListedPlan;
use crate::view::mission;
use crate::volumes::{mission_says, write_mission};
use crate::wire::{joined, one_line, printable, quoted, short_commit};

/// The results of a plan in its project.
struct Results {
    head: PlanHead,
    line: IntegrationBranch,
    /// The tasks that have been begun.
    tasks: Vec<TaskId>,
    /// Tasks with an accepted result that do not count as done now.
    undone: BTreeSet<TaskId>,
    project: Project,
    branch: String,
}

impl Results {
    /// Opens the results of a plan; `None` if its agents worked in the workspace itself. Those of another folder are brought into the
    /// clone here, if that is `wanted`.
    async fn open(app: &App, plan: &PlanId, wanted: bool) -> Result<Option<Self>> {
        let read = app.read(plan, |plan, _| {
            let mut tasks: Vec<TaskId> = plan.tasks().map(|task| task.number).collect();
            tasks.retain(|task| plan.attempts_of(*task).next().is_some());
            (plan.head().clone(), tasks, plan.merged_but_not_done())
        });
        let (mut head, tasks, undone) = read.await?;
        let (Some(line), Some(repository)) = (head.line.clone(), head.repository.clone()) else {
            return Ok(None);
        };
        let (store, known) = (app.store().await?, head.project.as_deref());
        let project = match (store.require_home(&head), known) {
            (Ok(()), _) => {
                app.refuse_copied(&head).await?;
                let (root, folder) = (Path::new(&head.workspace), Path::new(&line.folder));
                let project = Project::open(root, &repository, folder).await;
                let project = project.map_err(|error| {
                    let moved = matches!(error, GitError::Changed { .. });
                    let branch = IntegrationBranch::branch(plan);
                    let way = format!("or type `git merge {branch}` where the project is now");
                    Failure::from(error).hint_if(moved, way)
                })?;
                project.one_at_a_time()
            }
            (Err(elsewhere), known) => {
                let id = known.filter(|_| wanted);
                let root = id.and_then(|id| app.config.project(id));
                let root = match (root, id) {
                    (Some(root), _) => root,
                    (None, None) => return Err(elsewhere.into()),
                    (None, Some(id)) => {
                        let here = "the project's folder here, in config.toml, brings its results";
                        let hint = format!("`{id} = \"…\"` under [projects], {here}");
                        return Err(Failure::usage(elsewhere).hint(hint));
                    }
                };
                head.workspace = root.display().to_string();
                let remote = known.and_then(|id| app.config.remotes.get(id));
                fetched(store, (plan, &line), (&root, remote), &app.worktrees(&head)).await?
            }
        };
        Ok(Some(Self {
            project,
            branch: IntegrationBranch::branch(plan),
            head,
            line,
            tasks,
            undone,
        }))
    }

    async fn of(app: &App, named: Option<&str>, wanted: bool) -> Result<Self> {
        let plan = match named {
            None if wanted => app.plan_to_merge().await?,
            named => app.plan_to_carry_out(named).await?,
        };
        if let Some(results) = Self::open(app, &plan, wanted).await? {
            return Ok(results);
        }
        let read = |plan: &Plan, _| {
            (
                plan.head().workspace.clone(),
                plan.attempts().next().is_some(),
            )
        };
        let (workspace, begun) = app.read(&plan, read).await?;
        if !begun {
            let error = anyhow!("plan `{plan}` has no results: none of its tasks has been begun");
            let hint = format!("`{} status {plan}` shows what it waits for", app.program);
            return Err(Failure::usage(error).hint(hint));
        }
        let place = shown_from_here(Path::new(&workspace));
        let home = app.elsewhere(&plan).await?.map(|(home, _)| home);
        let of = home.map_or(String::new(), |home| format!(" of {home}"));
        let error =
            anyhow!("plan `{plan}` has no branch of results: its agents work in `{place}`{of}");
        Err(Failure::usage(error).hint("what they did is there already"))
    }

    /// Returns the commit with all results; `None` if nothing was accepted that changes the project.
    async fn commit(&self) -> Result<Option<String>> {
        let (tip, git) = (&self.line.tip, self.project.git());
        if !git.has_commit(tip).await? {
            let (plan, short) = (&self.head.id, short_commit(tip));
            let error = anyhow!(
                "the results of plan `{plan}` are gone: the repository has no commit `{short}` any more"
            );
            return Err(Failure::failed(error).hint(
                "`git fetch` from where the branch of the results was pushed to brings them back",
            ));
        }
        let found = match self.project.at_branch(&self.branch).await? {
            None => tip.clone(),
            Some(at) if git.has(&at, tip).await? => tip.clone(),
            Some(at) if git.has(tip, &at).await? => at,
            Some(at) => {
                let (branch, short) = (&self.branch, short_commit(tip));
                let error = anyhow!(
                    "somebody else moved the branch `{branch}` to `{}`: the results are at `{short}`",
                    printable(short_commit(&at))
                );
                return Err(Failure::failed(error).hint(format!(
                    "`git merge` takes over the one that you want; `git branch -f {branch} {tip}` puts the branch back"
                )));
            }
        };
        Ok((found != self.line.base).then_some(found))
    }

    async fn log(&self, app: &App, how: ResultsMove, place: &str) -> Result {
        let place = place.to_owned();
        // What is taken over may have no branch here, as in a clone of another machine.
        let removed = how != ResultsMove::TakenOver;
        let gone = removed && self.project.at_branch(&self.branch).await?.is_none();
        let log = move |draft: &mut Draft<'_>| {
            draft.results_moved(how, &place, gone);
            Ok(())
        };
        app.change(&self.head.id, "asked for", log).await?;
        self.rewrite_mission(app).await;
        Ok(())
    }

    /// Writes MISSION.md anew where it says how the results of this plan are taken over; a daemon writes it by itself.
    async fn rewrite_mission(&self, app: &App) {
        let (plan, folder) = (&self.head.id, app.mission_folder(&self.head));
        let says = mission_says(&folder, &format!("merge {plan}`"));
        if !says || app.carries_out(&self.head) {
            return;
        }
        let (now, program) = (app.clock.now(), app.program.to_string());
        let text = app.read(plan, move |plan, _| {
            mission::render(plan, false, now, &program)
        });
        let written = async { Ok(write_mission(&folder, &text.await?)?) };
        if let Err(failure) = written.await {
            let failure: Failure = failure;
            failure.complain("MISSION.md is not up to date");
        }
    }

    /// Returns all branches of the plan, those of tasks with their worktrees first.
    fn branches(&self) -> impl Iterator<Item = (String, Option<TaskWorktree>)> {
        let of_task = |task: &TaskId| worktree_of(&self.head.id, &self.line, *task);
        let places = self.tasks.iter().map(of_task);
        let of_tasks = places.map(|place| (place.branch.clone(), Some(place)));
        of_tasks.chain([(self.branch.clone(), None)])
    }

    /// Returns whether a worktree or a branch of the plan is there.
    async fn is_there(&self) -> Result<bool> {
        for (branch, place) in self.branches() {
            if place.is_some_and(|place| place.folder.exists())
                || self.project.at_branch(&branch).await?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses a plan that may still be carried out.
    fn ended(&self, app: &App) -> Result {
        if self.head.status.settled() {
            return Ok(());
        }
        let (plan, program) = (&self.head.id, &app.program);
        let error = anyhow!("plan `{plan}` has not ended");
        Err(Failure::usage(error).hint(format!("`{program} abort {plan}` ends it for good")))
    }
}

/// Takes the results of a plan over into the branch that is checked out.
pub async fn merge(args: &MergeArgs, app: &App) -> Result {
    let results = Results::of(app, args.plan.as_deref(), true).await?;
    let (project, plan, branch) = (&results.project, &results.head.id, &results.branch);
    let place = shown_from_here(Path::new(&results.head.workspace));
    if results.head.results == Some(ResultsMove::Discarded) {
        let error = anyhow!("the results of plan `{plan}` are discarded");
        let kept = format!("{DISCARDED}/{plan}/results");
        let hint = match project.git().resolve(&kept).await? {
            Some(_) => format!("`git merge {kept}` takes them over all the same"),
            None => format!("`git for-each-ref {DISCARDED}/{plan}` lists what is kept of the work"),
        };
        return Err(Failure::usage(error).hint(hint));
    }
    let Some(commit) = results.commit().await? else {
        return app.say(&format!(
            "plan {plan}: nothing was accepted that changes `{place}`"
        ));
    };
    let Some(onto) = project.branch().await? else {
        let error = anyhow!("no branch is checked out in `{place}`");
        return Err(Failure::usage(error).hint("`git switch BRANCH` there, then merge"));
    };
    confirm_branch(&results, &onto, args.into.as_deref(), app).await?;
    let (base, git) = (results.line.base.as_str(), project.git());
    // The person has amended or rebased the branch, or taken commits off it.
    let is_left = results.line.began_on.as_ref() == Some(&onto)
        && !git.has(base, "HEAD").await?
        && !git.has("HEAD", base).await?;
    let onto = one_line(&onto, 200);
    let taken = if args.squash || is_left {
        let goal = one_line(&results.head.goal, 72);
        let message = format!("{goal}\n\nThe results of plan {plan}.");
        let known = is_left.then_some(base);
        project
            .squash(&commit, &message, plan.as_str(), known)
            .await
    } else {
        let goal = one_line(&results.head.name, 60);
        let message = format!("Merge {branch}: {goal}\n\nThe results of plan {plan}.");
        project.take_over(&commit, &message, plan.as_str()).await
    };
    match taken.map_err(|error| locked(error, app, plan))? {
        TakeOver::Done { from, to } => {
            let place = format!("`{onto}` at {}", short_commit(&to));
            results.log(app, ResultsMove::TakenOver, &place).await?;
            note_at_neighbours(&results.head, app).await?;
            let figures = difference(project.git(), &from, &to, DiffDetail::Figures).await?;
            let figures = String::from_utf8_lossy(&figures);
            let figures = match figures.trim() {
                "" => "no file is changed",
                figures => figures,
            };
            let at = short_commit(&to);
            let said = format!("the results of plan {plan} are in `{onto}`, at {at}: {figures}");
            app.say(&said)?;
            if is_left && !args.squash {
                complain!(
                    "! the branch does not have the commit any more that the plan began at: what was changed since is there as one commit"
                );
            }
        }
        TakeOver::Already => {
            if results.head.results.is_none() {
                let place = format!("`{onto}`");
                results.log(app, ResultsMove::TakenOver, &place).await?;
            }
            app.say(&format!("`{onto}` contains the results of plan {plan}"))?;
        }
        TakeOver::Changed(files) => {
            let what = match files.len() {
                1 => "an uncommitted file".to_owned(),
                many => format!("{many} uncommitted files"),
            };
            let line = |file: &String| format!("\n  {}", one_line(file, 200));
            let files: String = files.iter().map(line).collect();
            let error = anyhow!("{what} of yours would change, and nothing was touched:{files}");
            let again = app.merge_command(&results.head);
            let hint = format!("commit or move them away, then `{again}`");
            return Err(Failure::failed(error).hint(hint));
        }
        TakeOver::Halfway { error, files } => {
            let files = joined(files.iter().map(|file| quoted(file)), " ");
            let error = anyhow!("{error}\nOf your files these are not as they were: {files}");
            let hint = format!(
                "`git restore --source=HEAD --staged --worktree -- {files}` in `{place}` puts them back"
            );
            return Err(Failure::failed(error).hint(hint));
        }
        TakeOver::Conflict(files) => {
            let error = anyhow!(
                "`{onto}` and the results changed the same places: {}",
                printable(&files)
            );
            // `prune` may have removed the branch.
            let from = match project.at_branch(branch).await? {
                Some(_) => branch.as_str(),
                None => short_commit(&commit),
            };
            let way = match is_left {
                true => format!("git diff --binary {base} {from} | git apply --3way"),
                false => format!("git merge {from}"),
            };
            let hint = format!("nothing was touched; `{way}` in `{place}` lets you resolve it");
            return Err(Failure::failed(error).hint(hint));
        }
    }
    // Commits of the person, or results of tasks that `restore` took out of the plan.
    if commit != results.line.tip {
        complain!(
            "! `{branch}` was ahead of the plan: what it has beyond the plan's results is taken over, too"
        );
    }
    if !results.undone.is_empty() {
        let undone = joined(results.undone.iter().map(TaskId::to_string), ", ");
        complain!(
            "! `{branch}` also has what was accepted of tasks that do not count as done now: {undone}"
        );
    }
    if !results.head.status.settled() {
        complain!("! the plan has not ended: this is what was accepted so far");
    } else if results.is_there().await? && app.elsewhere(&results.head.id).await?.is_none() {
        complain!("Hint: `{} prune` removes what is left of it", app.program);
    }
    Ok(())
}

/// Notes at the plans whose agents work in the project itself that its files have changed: else that would count as their work.
async fn note_at_neighbours(results: &PlanHead, app: &App) -> Result {
    let (store, folder) = (app.store().await?, Path::new(&results.workspace));
    for ListedPlan { head, .. } in app.plans().await? {
        let there = head.shares_folder(folder) && store.require_home(&head).is_ok();
        // A workspace in the exchange folder has no file of the project.
        let there = there && !Path::new(&head.workspace).starts_with(app.config.root());
        if !there || head.is_isolated() || head.status.settled() {
            continue;
        }
        let begun = |plan: &Plan, _| plan.attempts().next().is_some();
        if app.read(&head.id, begun).await? {
            let (plan, merged) = (&head.id, results.id.clone());
            let note = move |draft: &mut Draft<'_>| {
                draft.merged_beside(&merged);
                Ok(())
            };
            let why = "results came into its folder";
            app.change(plan, why, note).await?;
            complain!(
                "! plan {plan} works in this folder: what failed there before proves nothing any more"
            );
        }
    }
    Ok(())
}

/// Makes sure that the person means the branch that is checked out.
async fn confirm_branch(results: &Results, onto: &str, into: Option<&str>, app: &App) -> Result {
    let expected = into.or(results.line.began_on.as_deref());
    let Some(expected) = expected.filter(|expected| *expected != onto) else {
        return Ok(());
    };
    let (project, branch) = (&results.project, &results.branch);
    let is_there = project.at_branch(expected).await?.is_some();
    let elsewhere = project.checked_out(expected).await?;
    let (shown, expected) = (one_line(onto, 200), one_line(expected, 200));
    let differs = match (into, is_there) {
        (Some(_), true) => format!("`{shown}` is checked out, not `{expected}`"),
        (Some(_), false) => format!("there is no branch `{expected}`; `{shown}` is checked out"),
        (None, true) => format!("the plan began on `{expected}`, and `{shown}` is checked out"),
        (None, false) => format!(
            "the plan began on `{expected}`, there is no branch `{expected}` any more, and `{shown}` is checked out"
        ),
    };
    let question = format!("? {differs}: merge into `{shown}`?");
    if into.is_none() && can_ask() && confirm(&question).await? {
        return Ok(());
    }
    let merge = format!("`{} --into {shown}`", app.merge_command(&results.head));
    let hint = match elsewhere {
        _ if !is_there => merge,
        Some(folder) => format!(
            "{merge}, or `git merge {branch}` in `{}`, where `{expected}` is checked out",
            shown_from_here(Path::new(&folder))
        ),
        None => format!("`git switch {expected}` first, or {merge}"),
    };
    Err(Failure::usage(anyhow!(differs)).hint(hint))
}

/// Puts the results of a plan aside: they are under names that are no branches.
pub async fn discard(args: &OnPlan, app: &App) -> Result {
    let results = Results::of(app, args.plan.as_deref(), false).await?;
    let (project, plan) = (&results.project, &results.head.id);
    results.ended(app)?;
    let (tip, base) = (&results.line.tip, &results.line.base);
    let there = project.git().has_commit(tip).await?;
    if there && tip != base && project.is_taken_over(tip).await? {
        let error = anyhow!(
            "the results of plan `{plan}` are taken over already: to discard its branch would not undo that"
        );
        let hint = format!(
            "`git revert` does; `{} prune` removes the branch",
            app.program
        );
        return Err(Failure::usage(error).hint(hint));
    }
    let (aside, git) = (format!("{DISCARDED}/{plan}"), project.git());
    let (mut found, mut stay) = (false, false);
    for (branch, place) in results.branches() {
        let (mut name, mut whole) = ("results", true);
        if let Some(place) = &place {
            whole = keep_work(project, place).await?;
            name = branch.rsplit('/').next().unwrap_or(name);
        }
        stay |= !whole;
        let Some(at) = project.at_branch(&branch).await? else {
            continue;
        };
        found = true;
        // Kept first: a kill between the two loses nothing, and a further call does the rest.
        if !git.has(&at, base).await? {
            project.keep_aside(&format!("{aside}/{name}"), &at).await?;
        }
        if let Some(place) = &place
            && !project.remove_worktree(place, true).await?
        {
            if whole {
                let folder = shown_from_here(&place.folder);
                complain!("! `{folder}` stays: it is locked, or not all of it can be read");
            }
            stay = true;
            continue;
        }
        match project.checked_out(&branch).await? {
            Some(_) => complain!("! the branch `{branch}` stays: it is checked out"),
            None => project.delete_branch(&branch, &at).await?,
        }
    }
    if !found && !stay {
        return app.say(&format!("plan {plan} has no branches"));
    }
    results.log(app, ResultsMove::Discarded, &aside).await?;
    let list = ["--format=%(objectname) %(refname)", &aside];
    let kept = git.line("for-each-ref", &list).await?;
    let kept: Vec<_> = kept.lines().filter_map(|it| it.split_once(' ')).collect();
    let kept_as = format!("they are kept as `{aside}/…`");
    let how = match (kept.is_empty(), stay) {
        (false, false) => kept_as,
        (false, true) => kept_as + ", except what is only in the worktrees that stay",
        (true, true) => "what was done is only in the worktrees that stay".to_owned(),
        (true, false) => "nothing of them was in a commit".to_owned(),
    };
    app.say(&format!("the results of plan {plan} are discarded; {how}"))?;
    if kept.is_empty() {
        return Ok(());
    }
    // The name of the one with everything that is kept, if there is one.
    let commits: Vec<&str> = kept.iter().map(|(at, _)| *at).collect();
    let last = git.line("merge-base --independent", &commits).await?;
    let hint = match kept.iter().rfind(|(at, _)| *at == last) {
        Some((_, name)) => format!("`git branch NAME {name}` brings them back"),
        None => format!("`git for-each-ref {aside}` lists what `git branch NAME REF` brings back"),
    };
    complain!("Hint: {hint}");
    Ok(())
}

/// Commits what lies in a task's worktree on its branch. Returns whether it could be committed.
async fn keep_work(project: &Project, place: &TaskWorktree) -> Result<bool> {
    if !place.folder.exists() {
        return Ok(true);
    }
    let message = "What was left in the worktree";
    match project.commit_work(place, message).await {
        Err(error) if error.refused() || matches!(error, GitError::Unclear(_)) => {
            let why = one_line(&error.to_string(), 400);
            let folder = shown_from_here(&place.folder);
            complain!("! `{folder}` stays as it is: {why}");
            Ok(false)
        }
        kept => Ok(kept.map(|_| true)?),
    }
}

/// Removes worktrees whose work is committed, and branches that are merged, of all plans that have ended.
pub async fn prune(args: &PruneArgs, app: &App) -> Result {
    let (mut removed, mut kept) = (0, 0);
    let mut unmerged = args.unmerged.clone();
    let store = app.store().await?;
    for listed in store.plans().await? {
        let head = listed.head;
        let own = head.owner == DAEMON && store.require_home(&head).is_ok();
        if !own || !head.status.settled() || head.line.is_none() {
            continue;
        }
        let plan = &head.id;
        match prune_plan(app, plan, &mut unmerged).await {
            Ok((gone, stays)) => (removed, kept) = (removed + gone, kept + stays),
            Err(failure) => failure.complain(&format!("what is left of plan `{plan}` stays")),
        }
    }
    if let Some(name) = unmerged.first() {
        let name = one_line(name, 200);
        let error = anyhow!("no plan that has ended has a branch `{name}`");
        let hint = format!("`{} prune` lists those that are not merged", app.program);
        return Err(Failure::usage(error).hint(hint));
    }
    if removed == 0 {
        app.say("nothing to remove")?;
    }
    if kept > 0 {
        let program = &app.program;
        complain!("Hint: `{program} prune --unmerged NAME` removes one of them");
    }
    Ok(())
}

/// Returns the commands that remove what a plan has outside of the exchange folder; none if nothing is there.
///
/// # Errors
/// The project or its repository cannot be read.
pub async fn leftovers(app: &App, head: &PlanHead) -> Result<Vec<String>> {
    let folder = head.line.as_ref().map(|line| Path::new(&line.folder));
    let folder = folder.filter(|folder| folder.exists());
    let Some(results) = Results::open(app, &head.id, false).await? else {
        return Ok(Vec::new());
    };
    let mut branches = Vec::new();
    for (branch, _) in results.branches() {
        if results.project.at_branch(&branch).await?.is_some() {
            branches.push(quoted(&branch));
        }
    }
    let git = format!("git -C {}", quoted(&results.head.workspace));
    let mut commands = Vec::new();
    match folder {
        Some(folder) => {
            commands.push(format!("rm -rf {}", quoted(&folder.display().to_string())));
            commands.push(format!("{git} worktree prune"));
        }
        // To open the results made it.
        None => remove_folder(results.line.folder.into()).await?,
    }
    if !branches.is_empty() {
        commands.push(format!("{git} branch -D {}", branches.join(" ")));
    }
    if head.results == Some(ResultsMove::Discarded) {
        let aside = format!("{DISCARDED}/{}", head.id);
        commands.push(format!(
            "{git} for-each-ref --format='delete %(refname)' {aside} | {git} update-ref --stdin"
        ));
    }
    Ok(commands)
}

/// Returns how many worktrees and branches of a plan were removed, and how many would be if they were named.
async fn prune_plan(
    app: &App,
    plan: &PlanId,
    unmerged: &mut Vec<String>,
) -> Result<(usize, usize)> {
    let Some(results) = Results::open(app, plan, false).await? else {
        return Ok((0, 0));
    };
    let (project, mut gone) = (&results.project, Vec::new());
    let (mut kept, mut stay) = (0, 0);
    project.remove_checks().await?;
    let mut named = |branch: &str| {
        let at = unmerged.iter().position(|name| name == branch);
        at.map(|at| unmerged.remove(at)).is_some()
    };
    let accepted = project.at_branch(&results.branch).await?;
    for (branch, place) in results.branches() {
        let force = named(&branch);
        if let Some(place) = &place {
            if force {
                keep_work(project, place).await?;
            }
            let existed = place.folder.exists();
            if !project.remove_worktree(place, true).await? {
                let folder = shown_from_here(&place.folder);
                let said =
                    format!("kept: `{folder}` has work in no commit, or is locked (`{branch}`)");
                app.say(&said)?;
                if force {
                    stay += 1;
                    let remove = format!("rm -rf {}", quoted(&folder));
                    complain!("Hint: `{remove}` removes it, with all that is in it");
                } else {
                    kept += 1;
                }
                continue;
            }
            gone.extend(existed.then(|| format!("the worktree of `{branch}`")));
        }
        let Some(at) = project.at_branch(&branch).await? else {
            continue;
        };
        let merged = match &accepted {
            Some(accepted) if place.is_some() => project.git().has(&at, accepted).await?,
            _ => false,
        };
        let merged = force || merged || project.is_taken_over(&at).await?;
        if merged && project.checked_out(&branch).await?.is_none() {
            project.delete_branch(&branch, &at).await?;
            gone.push(format!("`{branch}` (was {})", short_commit(&at)));
        } else {
            kept += 1;
            let why = if merged { "checked out" } else { "not merged" };
            app.say(&format!("kept: `{branch}` is {why}"))?;
        }
    }
    for what in &gone {
        app.say(&format!("removed {what}"))?;
    }
    let removed = gone.join(", ");
    if !gone.is_empty() {
        results.log(app, ResultsMove::Pruned, &removed).await?;
    }
    if kept + stay == 0 && project.at_branch(&results.branch).await?.is_none() {
        remove_folder(results.line.folder.into()).await?;
    }
    Ok((gone.len(), kept))
}

/// Names the lock that a git which was killed has left, and the way out.
fn locked(error: GitError, app: &App, plan: &PlanId) -> Failure {
    let said = error.to_string();
    let lock = said.split('\'').find(|word| word.ends_with(".lock"));
    let Some(lock) = lock.map(|lock| one_line(lock, 400)) else {
        return Failure::failed(error);
    };
    Failure::failed(error).hint(format!(
        "another git works there, or one that was killed has left `{lock}`: if none does, remove that file, then `{} merge {plan}`",
        app.program
    ))
}
