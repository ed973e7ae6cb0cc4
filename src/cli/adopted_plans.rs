//! Plans of other folders: a daemon that has their project goes on with them when theirs is gone, or a person takes them over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use super::{App, CarryOut, Exit, Failure, Result, can_ask, complain, confirm, run_terminal};
use crate::config::{Home, Planner, StoreConfig};
use crate::exec::{CarriedFiles, LandingPlace, Project, project_head};
use crate::plan::{CommandId, Draft, IntegrationBranch, NewHome, PlanHead, PlanId, TaskState};
use crate::store::{Store, StoreError, StorePlace};
use crate::wire::one_line;

impl App {
    /// Refuses a plan that a copy of its project has brought along: what is done with it here would happen to the original.
    ///
    /// # Errors
    /// The folder of the plan has a home of its own, and the plan is there, too; or that home cannot be looked into.
    pub async fn refuse_copied(&self, head: &PlanHead) -> Result {
        let real = |home: &Home| home.folder().canonicalize().ok();
        let mut above = Path::new(&head.workspace).ancestors();
        let original = above.find_map(Home::marked_in);
        let other = |home: &Home| !self.place.is_shared() && real(home) != real(self.config.home());
        let Some(original) = original.filter(other) else {
            return Ok(());
        };
        let file = original.folder().join("volumes/plan-agent.db");
        let place = StorePlace::configured(&StoreConfig { url: None }, file, &self.environment)?;
        if !place.exists()? {
            return Ok(());
        }
        let store = place.open_to_read(self.clock.teller()).await?;
        match store.read(&head.id, |_, _| ()).await {
            Err(StoreError::UnknownPlan(_)) => return Ok(()),
            known => known?,
        }
        let (plan, there) = (&head.id, one_line(&head.workspace, 400));
        let error = anyhow!("this folder is a copy: plan `{plan}` belongs to `{there}`");
        Err(Failure::usage(error).hint(format!("type it in `{there}`")))
    }

    /// Makes a plan of another folder one of this folder, if its person wants it: it says `here`, or agrees on the terminal.
    ///
    /// # Errors
    /// It stays where it is: no person wants it here, it has ended, or as [`App::adopt`].
    pub async fn take_over(&mut self, plan: &PlanId, here: bool, how: &CarryOut) -> Result {
        let head = self.found(plan).await?.head;
        if let Some(workspace) = self.moved_workspace(&head) {
            return self.follow_project(&head, workspace, here, how).await;
        }
        let Some((home, held)) = self.elsewhere(plan).await? else {
            return Ok(());
        };
        let may_ask = !held && run_terminal::may_ask(how) && can_ask();
        let question = format!("Plan {plan} belongs to {home}, and no daemon has it. Go on here?");
        if head.status.settled() {
            let error = anyhow!("plan `{plan}` has ended, and belongs to {home}");
            return Err(Failure::failed(error).hint("`retry` or `add` lets it go on there"));
        }
        if !(here || may_ask && confirm(&question).await?) {
            self.store().await?.require_home(&head)?;
        }
        self.adopt(&head, Some(how)).await?.release().await;
        Ok(())
    }

    /// Returns the workspace of an open plan as it is now, if its project was moved, and its exchange folder with it.
    fn moved_workspace(&self, head: &PlanHead) -> Option<String> {
        let before = Path::new(&head.workspace);
        if self.place.is_shared() || head.status.settled() {
            return None;
        }
        let root = Path::new(head.made_in.as_ref()?);
        let outer = self.config.home().outer();
        // Empty folders may be there again: the daemon that ended with the move looked for its own.
        let database = self.volumes.database();
        let is_there = root.join(database.file_name()?).exists();
        let below = self.config.root();
        let below = below.strip_prefix(outer).ok()?;
        let outer_before = root.ancestors().nth(below.components().count())?;
        let moved = root.ends_with(below) && !is_there;
        let now = outer.join(before.strip_prefix(outer_before).ok()?);
        let now: PathBuf = now.components().collect();
        (moved && now.is_dir()).then(|| now.display().to_string())
    }

    /// Lets a plan go on where its project is now, if its person wants it: says `here`, or agrees on the terminal.
    async fn follow_project(
        &self,
        head: &PlanHead,
        workspace: String,
        here: bool,
        how: &CarryOut,
    ) -> Result {
        let (plan, program) = (&head.id, &self.program);
        let [from, to] = [&head.workspace, &workspace].map(|folder| one_line(folder, 400));
        let moved = format!("the project of plan {plan} was moved: `{from}` is `{to}` now");
        let question = format!("{moved}.\nGo on there, and begin anew what was under way?");
        if !(here || run_terminal::may_ask(how) && can_ask() && confirm(&question).await?) {
            let hint = format!(
                "`{program} resume {plan} --here` goes on there, and begins anew what was under way"
            );
            return Err(Failure::new(anyhow!(moved), Exit::Waiting).hint(hint));
        }
        let to = NewHome {
            home: self.volumes.home(),
            workspace,
            queue: None,
            goes_on: BTreeSet::new(),
            shown: head.line.as_ref().and_then(|line| line.shown.clone()),
            moved: true,
        };
        let why = "its project was moved";
        self.change(plan, why, move |draft| draft.adopt(to)).await
    }

    /// Makes a plan of another folder one of this folder, and returns a handle with its lease. It is carried out with what is
    /// configured and confirmed here: by its person, who says `how`, else from the queue.
    ///
    /// # Errors
    /// Another daemon has it, its project or its results cannot be had here, or nothing can carry it out.
    pub async fn adopt(&mut self, head: &PlanHead, how: Option<&CarryOut>) -> Result<Store> {
        let project = head.project.as_deref();
        let workspace = project.and_then(|id| self.config.project(id));
        let missing = || match project {
            Some(id) => format!("its project is not among [projects]: {id} = \"/its/folder\""),
            None => "it was begun in none of [projects] there".to_owned(),
        };
        let workspace = workspace.with_context(missing)?;
        let head = &PlanHead {
            workspace: workspace.display().to_string(),
            ..head.clone()
        };
        let (store, holder) = (self.store().await?, self.volumes.holder());
        // A plan that was given back waits for its person.
        let orphans = store.orphans().await?;
        let waits = orphans.iter().all(|orphan| orphan.head.id != head.id);
        let leased = store.lease(&head.id, &holder).await?;
        let adopted = self.adopt_leased(head, &leased, (&workspace, how)).await;
        match adopted {
            Ok(()) => {
                let from = one_line(head.home.as_deref().unwrap_or_default(), 400);
                complain!("plan {} is taken over from {from}", head.id);
            }
            Err(_) if waits => leased.release().await,
            Err(_) => leased.release_to_others().await,
        }
        adopted.map(|()| leased)
    }

    async fn adopt_leased(
        &mut self,
        head: &PlanHead,
        leased: &Store,
        (workspace, how): (&Path, Option<&CarryOut>),
    ) -> Result {
        let mut shown = None;
        match &head.line {
            Some(line) => {
                let (id, folder) = (&head.id, self.worktrees(head));
                let remote = head.project.as_ref();
                let remote = remote.and_then(|id| self.config.remotes.get(id));
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
        let workers = (self.with_workers(how.unwrap_or(&CarryOut::default()))).await?;
        if let Planner::Rules { why } = &workers.planner
            && head.policy.model
            && how.is_none()
        {
            return Err(anyhow!("a model plans and judges it, and there is none: {why}").into());
        }
        let offered = leased.offered(&head.id).await?;
        let (goes_on, others): (Vec<_>, Vec<_>) = offered
            .into_iter()
            .partition(|(_, role)| workers.behind_relays(role));
        let to = NewHome {
            home: self.volumes.home(),
            workspace: workspace.display().to_string(),
            queue: how.is_none().then(|| self.queue_entry(&workers)),
            goes_on: goes_on.into_iter().map(|(id, _)| id).collect(),
            shown,
            moved: false,
        };
        let adopt = move |draft: &mut Draft<'_>| draft.adopt(to);
        let why = match how {
            Some(_) => "its person goes on here",
            None => "its daemon is gone",
        };
        leased.change(&head.id, self.by, why, adopt).await?;
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
    if !project.git().has_commit(&line.tip).await? {
        project.require_commit(&line.base, remote).await?;
        for (_, pack) in store.kept_work(plan).await? {
            project.unpack(pack).await?;
        }
    }
    match project.git().has_commit(&line.tip).await? {
        true => Ok(project),
        false => Err(anyhow!(
            "not all results up to the commit `{}` are on the server: one was too large",
            line.tip
        )
        .into()),
    }
}
