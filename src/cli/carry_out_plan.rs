//! A plan is carried out: the daemon with its workers and the roles inside, put together, started, and stopped at the end.

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{
    App, CarryOut, Ended, Exit, Failure, Foreground, Result, TeamFile, TeamWorkers, complain,
    detach, hand_over_and_take_up, in_process_roles, models, run_terminal, shown_from_here, unless,
};
use crate::agents::Agent;
use crate::config::Planner;
use crate::daemon::{
    self, DaemonEnd, DaemonSettings, EndLeftAgent, EndsWhen, FolderSettings, HumanWait,
    KeptWorkers, Models, Notice, PlanAtWork, StartedWorkers,
};
use crate::exec::{self, JudgingFiles, project_head};
use crate::llm::Prompts;
use crate::own_files::FilePlace;
use crate::plan::{PlanHead, PlanId, PlanPolicy, PlanState, TaskId};
use crate::store::Store;
use crate::volumes::{DaemonFarewell, DaemonInfo, DaemonLock, Folder};
use crate::wire::{Team, one_line, time_text};
use crate::worker;

/// How long workers and roles may take to end.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// What plans and judges, made before anything else: all of it may fail for reasons of the configuration.
pub struct PreparedRun {
    policy: PlanPolicy,
    prompts: Arc<Prompts>,
    models: Option<Models>,
}

/// A plan as it was found, before anything is started for it.
pub struct FoundPlan {
    pub head: PlanHead,
    /// It has attempts.
    pub begun: bool,
    /// Its open tasks with their roles.
    pub open: Vec<(TaskId, Option<String>)>,
}

/// Everything that is needed to carry a plan out.
pub struct Work {
    pub app: App,
    pub prepared: PreparedRun,
    pub workers: TeamWorkers,
    pub how: CarryOut,
}

impl App {
    /// Chooses what carries a plan out: the team, the workers, and who plans and judges.
    ///
    /// # Errors
    /// What is wrong in the configuration or the team, or an agent cannot work here.
    pub async fn with_workers(&mut self, how: &CarryOut) -> Result<TeamWorkers> {
        self.load_team(&how.team).await?;
        self.require_trust(run_terminal::may_ask(how)).await?;
        TeamWorkers::choose(&how.agent, self).await
    }

    /// Makes everything that can fail for reasons of the configuration.
    ///
    /// # Errors
    /// A prompt is wrong, or what plans and judges cannot be set up.
    pub fn prepare(&self, planner: &Planner) -> Result<PreparedRun> {
        let prompts = Prompts::of(&self.prompts)?;
        Ok(PreparedRun {
            policy: self.config.policy(planner),
            prompts: Arc::new(prompts),
            models: models(planner, &self.config, self.environment.get("PATH"))?,
        })
    }

    /// Puts together what carries a plan out.
    ///
    /// # Errors
    /// As [`App::prepare`].
    pub fn work(self, workers: TeamWorkers, how: CarryOut) -> Result<Work> {
        Ok(Work {
            prepared: self.prepare(&workers.planner)?,
            app: self,
            workers,
            how,
        })
    }

    /// Reads a plan that is to go on.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn found(&self, plan: &PlanId) -> Result<FoundPlan> {
        self.read(plan, |plan, _| {
            let open = plan.unsettled().filter(|_| !plan.status().settled());
            let open = open.map(|task| (task.number, task.assignee.clone()));
            FoundPlan {
                head: plan.head().clone(),
                begun: plan.attempts().next().is_some(),
                open: open.collect(),
            }
        })
        .await
    }

    /// Refuses a plan that cannot go on here: its project, the roles of its tasks, its workspace.
    ///
    /// # Errors
    /// Says what is in the way.
    pub async fn check_found(&self, found: &FoundPlan) -> Result {
        let head = &found.head;
        let over = head.status.settled();
        self.store().await?.require_home(head)?;
        self.refuse_copied(head).await?;
        // What it began with counts.
        if !over && head.line.is_some() {
            let known = head.repository.as_deref().cloned();
            project_head(Path::new(&head.workspace), known).await?;
        }
        self.check_team(found)?;
        match over {
            true => Ok(()),
            false => self.usable(Path::new(&head.workspace), false),
        }
    }

    /// Says if the budget cannot last for a plan.
    ///
    /// # Errors
    /// The plan cannot be read.
    pub async fn warn_of_budget(&self, plan: &PlanId, policy: &PlanPolicy) -> Result {
        let policy = policy.clone();
        let warning = self.read(plan, move |plan, _| plan.too_small_budget(&policy));
        if let Some(warning) = warning.await? {
            complain!("! {warning}");
        }
        Ok(())
    }

    /// Returns what a daemon needs to carry a plan out, under this handle of its store.
    pub fn settings(
        &self,
        prepared: &PreparedRun,
        head: &PlanHead,
        human_wait: HumanWait,
        store: Store,
    ) -> DaemonSettings {
        let (config, team) = (&self.config, self.team.as_ref());
        let prompts = team.map(TeamFile::prompts_behind_files);
        let team = team.map(|file| Team {
            roles_only: file.roles_only,
            ..file.team.clone()
        });
        DaemonSettings {
            volumes: self.volumes.clone(),
            plan: head.id.clone(),
            store,
            clock: self.clock,
            workspace: PathBuf::from(&head.workspace),
            mission: config.mission_folder(Path::new(&head.workspace)),
            worktrees: self.worktrees(head),
            config: Arc::new(config.clone()),
            policy: prepared.policy.clone(),
            prompts: Arc::clone(&prepared.prompts),
            models: prepared.models.clone(),
            judging: Arc::new(JudgingFiles::new(Path::new(&head.workspace), config)),
            team: team.map(Arc::new),
            role_prompts: Arc::new(prompts.unwrap_or_default()),
            human_wait,
            started_workers: StartedWorkers::none(),
            gives_files: false,
            program: self.program.to_string(),
            notice: notice(),
        }
    }

    /// Returns the handle under which this process carries a plan out.
    ///
    /// # Errors
    /// Another daemon does.
    pub async fn carry_out(&self, plan: &PlanId) -> Result<Store> {
        let store = self.store().await?;
        Ok(store.carry_out(plan, &self.volumes.holder()).await?)
    }

    /// Returns what all plans of a daemon in this folder share. It takes up what is queued.
    ///
    /// # Errors
    /// As [`App::store`].
    pub async fn folder_settings(
        &self,
        lock: &DaemonLock,
        ends_when: EndsWhen,
    ) -> Result<FolderSettings> {
        let store = self.store().await?.clone();
        let database = FilePlace::of(self.volumes.database()).ok();
        let volumes = self.volumes.clone();
        let end_left_agent: Arc<EndLeftAgent> = Arc::new(move |id| {
            let volumes = volumes.clone();
            Box::pin(async move {
                let (_, failed) = worker::end_left_agents(&volumes, &[id]).await;
                failed.into_iter().next().map_or(Ok(()), Err)
            })
        });
        Ok(FolderSettings {
            volumes: self.volumes.clone(),
            lock: lock.place.clone(),
            database: database.filter(|_| !self.place.is_shared()),
            info: DaemonInfo {
                pid: std::process::id(),
                started_at: time_text(self.clock.now()),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                plans: None,
                root: self.volumes.root().to_owned(),
            },
            config: Arc::new(self.config.clone()),
            program: self.program.to_string(),
            notice: notice(),
            ends_when,
            kept_workers: None,
            end_left_agent,
            store,
            clock: self.clock,
            take_up: Some(hand_over_and_take_up::take_up(self)),
        })
    }

    /// Chooses what carries a plan out as it was begun, in a process that another one started; `confirmed` is the fingerprint of
    /// what that one made sure of, and whether what was confirmed since counts, too.
    ///
    /// # Errors
    /// As [`App::recall`], [`App::require_same`] and [`App::with_workers`].
    pub async fn recalled(
        mut self,
        plan: &PlanId,
        (confirmed, may_be_newer): (&str, bool),
        mut how: CarryOut,
    ) -> Result<Work> {
        self.recall(plan, &mut how).await?;
        self.load_team(&how.team).await?;
        self.require_same(confirmed, may_be_newer).await?;
        let workers = TeamWorkers::choose(&how.agent, &mut self).await?;
        self.work(workers, how)
    }

    /// Starts the log of a daemon, and ends what an earlier one left.
    ///
    /// # Errors
    /// The log cannot be opened.
    pub async fn begin_daemon(&self) -> Result {
        self.log()?;
        daemon::end_left_behind(&self.volumes).await;
        Ok(())
    }

    /// Records how a daemon without a terminal ends, unless the plan itself shows it.
    pub fn leave_word(&self, lock: &DaemonLock, plan: &PlanId, end: &anyhow::Result<DaemonEnd>) {
        let why = match end {
            Ok(DaemonEnd::Settled(_) | DaemonEnd::Idle) => return,
            Ok(DaemonEnd::Interrupted) => "it was asked to stop".to_owned(),
            Ok(DaemonEnd::Displaced(file)) => displaced(file),
            Ok(DaemonEnd::Waits) => "it had to wait for a person".to_owned(),
            Ok(DaemonEnd::Budget) => "the budget is used up".to_owned(),
            Ok(DaemonEnd::NoPlan) => "no plan came of the goal".to_owned(),
            Err(error) => one_line(&format!("{error:#}"), 400),
        };
        let word = DaemonFarewell {
            plan: plan.to_string(),
            at: time_text(self.clock.now()),
            why,
        };
        if let Err(error) = lock.leave_word(&word) {
            tracing::warn!(%error, "how it ended is not recorded");
        }
    }
}

impl Work {
    /// Makes everything ready for a plan, and starts its workers and the roles of its team.
    ///
    /// # Errors
    /// Something cannot be started.
    pub async fn start(&self, head: &PlanHead, human_wait: HumanWait) -> Result<PlanAtWork> {
        let (app, workers) = (&self.app, &self.workers);
        let store = app.carry_out(&head.id).await?;
        let mut settings = app.settings(&self.prepared, head, human_wait, store);
        workers.configure(&mut settings)?;
        let kind = workers.general.as_ref().and_then(Agent::kind);
        settings.gives_files = kind.is_some_and(|kind| kind.needs_history);
        let roles = in_process_roles::ready(&settings, app, head.is_isolated());
        let roles = Box::pin(roles).await?;
        daemon::put_files_right(&settings).await?;
        let (stop, stopping) = watch::channel(false);
        let tasks = workers.start_workers(&mut settings, &stopping);
        let (stop_roles, stopping) = watch::channel(false);
        let mut role_tasks = JoinSet::new();
        if let Some(roles) = roles {
            let (held, stop) = (settings.store.clone(), stopped(&stopping));
            let roles = roles.run(stopped(&stopping));
            role_tasks.spawn(async move { held.while_held(roles, stop).await });
        }
        Ok(PlanAtWork {
            settings,
            end_workers: Box::new(|| Box::pin(end(stop, tasks))),
            end_roles: Box::new(|| Box::pin(end(stop_roles, role_tasks))),
        })
    }

    /// Carries a plan out and shows it on the terminal, or leaves a daemon behind that does it.
    ///
    /// # Errors
    /// Something cannot be started, or the daemon fails.
    pub async fn in_sight(
        self,
        lock: DaemonLock,
        head: &PlanHead,
        mut ended: Ended,
    ) -> Result<Exit> {
        let (app, how) = (&self.app, &self.how);
        let over = head.status.settled();
        if !over {
            app.print_external_roles();
        }
        app.warn_of_budget(&head.id, &self.prepared.policy).await?;
        // Of a plan that has ended nothing is left that could go on in the background.
        if how.detach && !over {
            return self.detach(&head.id, lock, ended).await;
        }
        let human_wait = match run_terminal::may_ask(how) {
            true => HumanWait::Wait,
            false => HumanWait::Leave,
        };
        let kept = app.program.goes_on(head.id.as_str(), None);
        let begun = async {
            app.begin_daemon().await?;
            self.start(head, human_wait).await
        };
        let at_work = unless(&mut ended, &kept, begun).await?;
        if self.workers.general.is_none() && app.team.is_none() && !how.json && !how.quiet {
            let commands = shown_from_here(&app.volumes.path(Folder::CommandsPending));
            app.say(&format!("no --agent: commands wait in `{commands}`"))?;
        }
        let policy = at_work.settings.policy.clone();
        let mut foreground = Foreground::new(&self, &head.id, policy).await?;
        let (stop, stopping) = watch::channel(false);
        let kept_workers = KeptWorkers::default();
        let mut folder = FolderSettings {
            kept_workers: Some(Arc::clone(&kept_workers)),
            ..app.folder_settings(&lock, EndsWhen::FirstEnds).await?
        };
        if over {
            // What is left of it is done in no time, and begins no other plan.
            folder.take_up = None;
        }
        let daemon = tokio::spawn(daemon::run(folder, Some(at_work), stopped(&stopping)));
        let followed = foreground.follow(daemon, &stop, ended).await;
        let (end, signal) = followed.map_err(|failure| match failure.exit {
            Exit::Done => Failure::failed(anyhow!("nobody reads what is printed")).hint(kept),
            _ => failure,
        })?;
        // `stop` means all plans.
        let stopped = signal == Some(Exit::Terminated);
        let gone_on = match stopped || over || matches!(end, DaemonEnd::Displaced(_)) {
            true => Ok(Vec::new()),
            false => detach::leave_to_daemon(app, lock, &head.id).await,
        };
        let goes_on = gone_on.as_deref().unwrap_or_default();
        let kept = mem::take(&mut *kept_workers.lock());
        let (left, ended): (Vec<_>, Vec<_>) = kept
            .into_iter()
            .partition(|(plan, _)| goes_on.contains(&plan.to_string()));
        for (_, end_workers) in ended {
            end_workers().await;
        }
        if !left.is_empty() {
            // The daemon that goes on takes them over when this process has ended.
            exec::leave_at_work();
        }
        gone_on?;
        Ok(exit_of(&end, signal))
    }
}

/// Stops workers and roles, and waits until they have released what they were at. Not for long: a busy store would keep roles
/// waiting, and what they are at is found again, as after a kill.
async fn end(stop: watch::Sender<bool>, mut tasks: JoinSet<()>) {
    stop.send_replace(true);
    // A panic has printed itself.
    let all = async { while tasks.join_next().await.is_some() {} };
    if timeout(STOP_WITHIN, all).await.is_err() {
        tracing::warn!("a worker or a role is at something that does not end");
        tasks.detach_all();
    }
}

/// Shows a person what is wrong beside the plans.
fn notice() -> Notice {
    Arc::new(|text| complain!("! {text}"))
}

/// Resolves when something says stop, or has gone, which means the same.
pub fn stopped(stop: &watch::Receiver<bool>) -> impl Future<Output = ()> + Send + use<> {
    let mut stop = stop.clone();
    async move { drop(stop.wait_for(|stop| *stop).await) }
}

/// Says which file a daemon lost.
pub fn displaced(file: &Path) -> String {
    let file = shown_from_here(file);
    format!("`{file}` was removed or replaced while it was in use")
}

pub fn exit_of(end: &DaemonEnd, signal: Option<Exit>) -> Exit {
    match end {
        DaemonEnd::Settled(PlanState::Completed) | DaemonEnd::Idle => Exit::Done,
        DaemonEnd::Settled(PlanState::Abandoned) => Exit::Aborted,
        DaemonEnd::Settled(_) | DaemonEnd::NoPlan => Exit::Failed,
        DaemonEnd::Waits => Exit::Waiting,
        DaemonEnd::Budget => Exit::Budget,
        DaemonEnd::Interrupted => signal.unwrap_or(Exit::Interrupted),
        DaemonEnd::Displaced(_) => Exit::Busy,
    }
}
