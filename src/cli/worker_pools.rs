//! Who takes commands in this process: the agent of `--agent` for all, and those of the roles of a team, each with lanes of its
//! own. Every agent is chosen and examined before anything starts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::anyhow;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::agent_choice::Chosen;
use super::app::App;
use super::args::{AgentArgs, AgentKind, WorkerArgs};
use super::failure::Failure;
use super::in_process_roles::{self, Servers};
use super::output::complain;
use super::plan_process;
use super::team_file::TeamFile;
use crate::agents::Agent;
use crate::config::Config;
use crate::daemon::{DaemonSettings, StartedWorkers};
use crate::plan::RoleRules;
use crate::volumes::VolumesError;
use crate::wire::Problem;
use crate::wire::team_file::{RoleFolder, RoleKind, RoleSpec, RoleWorker};
use crate::wire::text::{one_line, quoted};
use crate::worker::{self, RoleFilter, WorkerHealth};

/// Everybody who is to take commands here.
#[derive(Clone, Debug, Default)]
pub(super) struct TeamWorkers {
    /// The agent of `--agent`.
    general: Option<Agent>,
    pools: Vec<Workers>,
    rules: BTreeMap<String, RoleRules>,
    /// Roles whose commands are published in folders of their own.
    own: Vec<String>,
    /// Tasks under way at once.
    most: u32,
}

/// Workers that run one agent side by side.
#[derive(Clone, Debug)]
struct Workers {
    /// Whose commands they take; `None` if they take what no role has somebody for.
    role: Option<String>,
    takes: RoleFilter,
    agent: Agent,
    lanes: u32,
    deadline: Duration,
}

impl TeamWorkers {
    /// Chooses the agent that is named, and those of the roles of the team, which is told whether they are all there are.
    ///
    /// # Errors
    /// Everything for which the team cannot work here, at once; else that the agent is not there, or cannot work as it is set up.
    pub async fn choose(args: &AgentArgs, app: &mut App) -> Result<Self, Failure> {
        let mut doubts = BTreeSet::new();
        let general = args.choose(app).await.map(|chosen| {
            let chosen = chosen?;
            doubts.extend(chosen.doubt);
            Some(chosen.agent)
        });
        let mut agents = BTreeMap::new();
        if let Some(file) = &app.team {
            let mut found = examine(file, &general, args, app, &Servers::default()).await;
            if args.agent.is_none() {
                found.problems.extend(file.team.without_worker());
            }
            if let Err(refused) = file.refuse(found.problems) {
                return Err(match general {
                    Ok(_) => refused,
                    Err(missing) => missing.and(refused),
                });
            }
            agents = found.agents;
            doubts.extend(found.doubts);
        }
        let general = general?;
        for doubt in doubts {
            complain(&format!("! {doubt}\n"));
        }
        let roles = || app.team.iter().flat_map(|file| &file.team.roles);
        let together = roles()
            .map(|role| role.concurrency)
            .reduce(u32::saturating_add);
        let most = app.config.max_parallel(together);
        let mut workers = Self {
            general: general.clone(),
            most,
            ..Self::default()
        };
        let mut others = BTreeSet::new();
        for role in roles() {
            let rules = RoleRules {
                concurrency: role.concurrency,
                task_deadline: role.timeout,
            };
            workers.rules.insert(role.id.clone(), rules);
            let own = role.folder == RoleFolder::Own;
            if own {
                workers.own.push(role.id.clone());
            }
            if role.kind == RoleKind::Agent || role.worker.is_some() || own {
                others.insert(role.id.clone());
            }
            if let Some(agent) = agents.remove(&role.id) {
                workers.pools.push(Workers {
                    role: Some(role.id.clone()),
                    takes: RoleFilter::Only(role.id.clone()),
                    agent,
                    // More than the plan has are never at work.
                    lanes: role.concurrency.min(most),
                    deadline: role.timeout.unwrap_or(app.config.run.task_deadline),
                });
            }
        }
        workers.pools.extend(general.map(|agent| Workers {
            role: None,
            takes: match others.is_empty() {
                true => RoleFilter::All,
                false => RoleFilter::Except(others),
            },
            agent,
            lanes: most,
            deadline: app.config.run.task_deadline,
        }));
        let roles_only = workers.roles_only();
        if let Some(file) = &mut app.team {
            file.roles_only = roles_only;
        }
        Ok(workers)
    }

    /// Returns the agent that was named for all.
    pub fn general(&self) -> Option<&Agent> {
        self.general.as_ref()
    }

    /// Returns whether there are roles, and nobody for tasks that are assigned to none.
    fn roles_only(&self) -> bool {
        self.general.is_none() && !self.rules.is_empty()
    }

    /// Tells a daemon of the rules of the roles, and makes the folders of those that have one of their own.
    ///
    /// # Errors
    /// The folder of a role cannot be made.
    pub fn configure(&self, daemon: &mut DaemonSettings) -> Result<(), VolumesError> {
        daemon.volumes = daemon.volumes.with_own(&self.own)?;
        daemon.policy.roles.clone_from(&self.rules);
        daemon.policy.max_parallel = self.most;
        daemon.policy.roles_only = self.roles_only();
        Ok(())
    }

    /// Starts the workers for a daemon that is furnished, and tells it of them. What one worker cannot do, the others
    /// of the same role cannot either: they end together, it is said once, and the daemon learns it.
    pub fn start_workers(
        &self,
        daemon: &mut DaemonSettings,
        config: &Config,
        stopped: &watch::Receiver<bool>,
    ) -> JoinHandle<()> {
        let (tell, gone) = watch::channel(BTreeSet::new());
        let mut unfit = BTreeMap::new();
        let mut ends = JoinSet::new();
        for workers in &self.pools {
            let fitness = WorkerHealth::default();
            unfit.insert(workers.role.clone(), fitness.watch());
            let lanes = workers.start(config, &fitness, stopped);
            let (tell, role) = (tell.clone(), workers.role.clone());
            ends.spawn(async move {
                for lane in lanes {
                    // One that broke down has said so.
                    drop(lane.await);
                }
                if *fitness.watch().borrow() {
                    tell.send_if_modified(|gone| gone.insert(role));
                }
            });
        }
        daemon.started_workers = StartedWorkers { unfit, gone };
        tokio::spawn(async move { while ends.join_next().await.is_some() {} })
    }
}

impl Workers {
    fn start(
        &self,
        config: &Config,
        health: &WorkerHealth,
        stopped: &watch::Receiver<bool>,
    ) -> Vec<JoinHandle<()>> {
        let told = Arc::new(AtomicBool::new(false));
        let options = worker::WorkerOptions {
            config: Arc::new(config.clone()),
            agent: self.agent.clone(),
            role: self.takes.clone(),
            deadline: self.deadline,
            health: health.clone(),
            events: None,
        };
        let lane = |_| {
            let options = options.clone();
            let shutdown = plan_process::stopped(stopped);
            let (told, role) = (Arc::clone(&told), self.role.clone());
            tokio::spawn(async move {
                if let Err(error) = worker::run(options, shutdown).await
                    && !told.swap(true, Ordering::Relaxed)
                {
                    let error = one_line(&format!("{:#}", anyhow!(error)), 400);
                    tracing::error!(error, role, "the worker ended");
                    let of_role = role.map_or(String::new(), |role| format!(" of `{role}`"));
                    complain(&format!("! no more tasks{of_role} are taken: {error}\n"));
                }
            })
        };
        (0..self.lanes).map(lane).collect()
    }
}

/// What was found out about a team before anything is started.
#[derive(Debug, Default)]
pub(super) struct Examined {
    /// The agents of the roles that have one, by the ids of the roles.
    pub agents: BTreeMap<String, Agent>,
    /// Everything for which the team cannot work here.
    pub problems: Vec<Problem>,
    /// What may keep agents from doing anything.
    doubts: BTreeSet<String>,
}

/// Finds the agents of the roles, and everything for which a team cannot work here: what is wrong in its file, agents that are
/// not there, roles inside the process that could do nothing. `general` is the agent for all, or why it cannot work, of which
/// nothing is said again; tools of servers are looked at as far as these run.
pub(super) async fn examine(
    file: &TeamFile,
    general: &Result<Option<Agent>, Failure>,
    args: &AgentArgs,
    app: &App,
    servers: &Servers,
) -> Examined {
    // The model is missing only because the agent is that would be asked.
    let missing = general.is_err() && args.agent.is_some_and(|agent| app.would_plan(agent));
    let general = general.as_ref().ok().and_then(Option::as_ref);
    let mut examined = Examined {
        problems: file.problems.clone(),
        ..Examined::default()
    };
    for role in &file.team.roles {
        // What the file alone shows was said.
        if let Some(RoleWorker::Agent { name, argv }) = &role.worker {
            let kind = AgentKind::named(name);
            let empty = argv.iter().all(|word| word.trim().is_empty());
            if kind.is_none() || (kind == Some(AgentKind::Command) && empty) {
                continue;
            }
        }
        match worker_of(role, general, args, app).await {
            Ok(Some(chosen)) => {
                examined.agents.insert(role.id.clone(), chosen.agent);
                examined.doubts.extend(chosen.doubt);
            }
            Ok(None) => {}
            Err(failure) => {
                let problem = failure.problem(|said| role.problem(said));
                examined.problems.push(problem);
            }
        }
    }
    let problems = &mut examined.problems;
    if !missing {
        problems.extend(in_process_roles::mindless(file, general, app));
    }
    problems.extend(in_process_roles::unusable_steps(file, servers).await);
    examined
}

/// Chooses the agent of a role; `None` if those of others, or somebody elsewhere, do its tasks.
async fn worker_of(
    role: &RoleSpec,
    general: Option<&Agent>,
    args: &AgentArgs,
    app: &App,
) -> Result<Option<Chosen>, Failure> {
    match (role.kind, &role.worker) {
        (RoleKind::Agent, _) | (RoleKind::Files, Some(RoleWorker::External)) => Ok(None),
        // Whoever works for all does not look into the folder of a role.
        (RoleKind::Files, None) => {
            let general = general.filter(|_| role.folder == RoleFolder::Own);
            Ok(general.cloned().map(|agent| Chosen { agent, doubt: None }))
        }
        (RoleKind::Files, Some(RoleWorker::Agent { name, argv })) => {
            named(role, name, argv, args, app).await.map(Some)
        }
    }
}

/// Chooses the agent that the team names for a role, as if it were named on the command line.
async fn named(
    role: &RoleSpec,
    name: &str,
    argv: &[String],
    args: &AgentArgs,
    app: &App,
) -> Result<Chosen, Failure> {
    let about = format!("the role `{}`", role.id);
    let unknown = || {
        Failure::usage(anyhow!("{about} has the unknown agent `{name}`"))
            .hint(format!("it may be {}", crate::agents::names().join(", ")))
    };
    let named = AgentArgs {
        agent: Some(AgentKind::named(name).ok_or_else(unknown)?),
        allow_shell: args.allow_shell,
        argv: argv.to_vec(),
    };
    let chosen = named.choose(app).await;
    chosen
        .map_err(|failure| failure.about(&about))?
        .ok_or_else(unknown)
}

/// Returns what the worker of a process of its own needs to know. It may be for a role, whose agent is that of the team unless
/// another is named.
///
/// # Errors
/// No agent is named, it is not there or cannot work as it is set up, or the team has no such role behind files.
pub(super) async fn alone(args: &WorkerArgs, app: &App) -> Result<worker::WorkerOptions, Failure> {
    let file = app.team.as_ref();
    let role = match (&args.role, file) {
        (Some(id), Some(file)) => {
            let role = file.team.role(id).ok_or_else(|| {
                let path = file.path.display();
                Failure::usage(anyhow!("there is no role `{id}` in `{path}`"))
                    .hint(file.team.role_meant(id))
            })?;
            if role.kind == RoleKind::Agent {
                let error = anyhow!("the role `{id}` works inside the daemon and takes no files");
                return Err(
                    Failure::usage(error).hint("`worker --role` is for roles of the kind `files`")
                );
            }
            Some(role)
        }
        _ => None,
    };
    let chosen = match (args.agent.choose(app).await?, role) {
        (None, Some(role)) => worker_of(role, None, &args.agent, app).await?,
        (chosen, _) => chosen,
    };
    let Chosen { agent, doubt } = chosen.ok_or_else(|| {
        let (program, role) = (&app.program, args.role.as_deref());
        let role = role.map_or(String::new(), |role| format!(" --role {}", quoted(role)));
        let of_team = match (role.is_empty(), file) {
            (false, None) => ", or --team FILE for the one that the team names",
            _ => "",
        };
        Failure::usage(anyhow!("which agent is to work?")).hint(format!(
            "`{program} worker{role} --agent claude`, or another of its agents{of_team}"
        ))
    })?;
    if let Some(doubt) = doubt {
        complain(&format!("! {doubt}\n"));
    }
    let takes = args.role.clone().map_or(RoleFilter::All, RoleFilter::Only);
    let deadline = role.and_then(|role| role.timeout);
    Ok(worker::WorkerOptions {
        config: Arc::new(app.config.clone()),
        agent,
        role: takes,
        deadline: deadline.unwrap_or(app.config.run.task_deadline),
        health: WorkerHealth::default(),
        events: None,
    })
}
