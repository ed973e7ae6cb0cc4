//! Who takes commands in this process: the agent of `--agent` for all, and those of the roles of a team, each with lanes of its
//! own. Every agent is chosen and examined before anything starts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{
    AgentArgs, App, Failure, Result, Servers, TeamFile, WorkerArgs, complain, in_process_roles,
    stopped,
};
use crate::agents::{self, Agent};
use crate::config::Planner;
use crate::daemon::{DaemonSettings, StartedWorkers};
use crate::plan::{RoleRules, TaskSpec};
use crate::volumes::VolumesError;
use crate::wire::{Problem, RoleFolder, RoleKind, RoleSpec, RoleWorker, one_line, quoted};
use crate::worker::{self, RelayedPlans, RoleFilter, WorkerError, WorkerHealth, WorkerOptions};

/// All workers of a process that carries a plan out.
#[derive(Debug)]
pub struct TeamWorkers {
    /// The agent of `--agent`.
    pub general: Option<Agent>,
    /// Who plans and judges their work.
    pub planner: Planner,
    /// What the workers need to know that run one agent side by side.
    pools: Vec<WorkerOptions>,
    /// The most tasks under way.
    most: u32,
}

impl TeamWorkers {
    /// Chooses the agent that is named, and those of the roles of the team; notes at the team whether these are all there are.
    ///
    /// # Errors
    /// Everything for which the team cannot work here, at once; else that the agent is not there, or cannot work as it is set up; or
    /// who is to plan cannot be asked.
    pub async fn choose(args: &AgentArgs, app: &mut App) -> Result<Self> {
        let args = &args.or_configured(&app.config);
        let general = args.choose(app).await;
        let mut of_roles = BTreeMap::new();
        if let Some(file) = &app.team {
            let servers = Servers::default();
            let (agents, mut problems) = examine(file, &general, args, app, &servers).await;
            if matches!(general, Ok(None)) {
                problems.extend(file.team.without_worker());
            }
            if let Err(refused) = file.refuse(problems) {
                return Err(match general {
                    Ok(_) => refused,
                    Err(missing) => missing.and(refused),
                });
            }
            of_roles = agents;
        }
        let general = general?;
        let agents = general.iter().chain(of_roles.values());
        let doubts: BTreeSet<String> = agents.filter_map(|agent| app.doubt(agent)).collect();
        for doubt in doubts {
            complain!("! {doubt}");
        }
        if let Some(file) = &mut app.team {
            file.roles_only = general.is_none() && !file.team.roles.is_empty();
        }
        let roles = || app.team.iter().flat_map(|file| &file.team.roles);
        let together = roles().map(|role| role.concurrency);
        let most = (app.config).max_parallel(together.reduce(u32::saturating_add));
        let of_role = |role: &RoleSpec| {
            let (agent, id) = (of_roles.remove(&role.id)?, role.id.clone());
            Some(WorkerOptions {
                // The plan never has more under way.
                lanes: role.concurrency.min(most) as usize,
                ..options(agent, RoleFilter::Only(id), role.timeout, app)
            })
        };
        let mut pools: Vec<WorkerOptions> = roles().filter_map(of_role).collect();
        let has_worker = |role: &&RoleSpec| {
            role.kind == RoleKind::Agent || role.worker.is_some() || role.folder == RoleFolder::Own
        };
        let others = roles().filter(has_worker);
        let others: BTreeSet<String> = others.map(|role| role.id.clone()).collect();
        let takes = match others.is_empty() {
            true => RoleFilter::All,
            false => RoleFilter::Except(others),
        };
        pools.extend(general.clone().map(|agent| WorkerOptions {
            lanes: most as usize,
            ..options(agent, takes, None, app)
        }));
        Ok(Self {
            planner: app.planner(general.as_ref())?,
            general,
            pools,
            most,
        })
    }

    /// Returns whether this process runs no agent: every command is for others.
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// Returns whether agents on other machines do some of the work.
    pub fn use_relays(&self) -> bool {
        self.pools.iter().any(is_relay)
    }

    /// Returns whether agents on other machines do the work of a role; an empty one stands for none.
    pub fn behind_relays(&self, role: &str) -> bool {
        let of = |role: Option<&str>| self.pools.iter().find(|pool| role_of(pool) == role);
        of(Some(role)).or_else(|| of(None)).is_some_and(is_relay)
    }

    /// Returns the tasks that would fail at once: those without a script for a shell.
    pub fn tasks_without_script(&self, tasks: &[TaskSpec]) -> Vec<Problem> {
        let shells = || (self.pools.iter()).filter(|pool| matches!(pool.agent, Agent::Shell(_)));
        let of_shell = |task: &TaskSpec| {
            let assignee = task.assignee.as_deref();
            shells().any(|pool| pool.role.takes(assignee))
        };
        let numbered = (1..).zip(tasks).filter(|(_, task)| of_shell(task));
        let wrong = numbered.filter_map(|(number, task)| {
            let mut problem = agents::script_problem(&task.description)?;
            problem.message = format!("task {number}: {}", problem.message);
            Some(problem)
        });
        wrong.collect()
    }

    /// Gives a daemon the rules of the roles, and makes the folders of those that have one of their own.
    ///
    /// # Errors
    /// The folder of a role cannot be made.
    pub fn configure(&self, daemon: &mut DaemonSettings) -> Result<(), VolumesError> {
        let roles = || daemon.team.iter().flat_map(|team| &team.roles);
        let own = roles().filter(|role| role.folder == RoleFolder::Own);
        let own: Vec<String> = own.map(|role| role.id.clone()).collect();
        let rules = |role: &RoleSpec| RoleRules {
            concurrency: role.concurrency,
            task_deadline: role.timeout,
            relayed: self.behind_relays(&role.id),
        };
        daemon.policy.roles = roles().map(|role| (role.id.clone(), rules(role))).collect();
        daemon.policy.relayed = self.behind_relays("");
        daemon.policy.max_parallel = self.most;
        daemon.policy.roles_only = daemon.team.as_ref().is_some_and(|team| team.roles_only);
        daemon.volumes = daemon.volumes.with_own(&own)?;
        Ok(())
    }

    /// Starts the workers for a daemon that is configured, and gives it their health. What one worker cannot do, the others
    /// of the same role cannot either: they end together, it is said once, and the daemon learns it. Returns them as tasks.
    pub fn start_workers(
        &self,
        daemon: &mut DaemonSettings,
        stop: &watch::Receiver<bool>,
    ) -> JoinSet<()> {
        let (report, gone) = watch::channel(BTreeMap::new());
        let mut unfit = BTreeMap::new();
        let mut ends = JoinSet::new();
        for pool in &self.pools {
            let (lost, role) = (pool.health.watch(), role_of(pool).map(str::to_owned));
            unfit.insert(role.clone(), lost.clone());
            // Workers of another plan may run another agent.
            let options = WorkerOptions {
                plan: Some(daemon.plan.clone()),
                ..pool.clone()
            };
            let (work, report) = (worker::run(options, stopped(stop)), report.clone());
            let clock = daemon.clock;
            ends.spawn(async move {
                if let Err(error) = work.await {
                    tell_end(error, role.as_deref());
                }
                if *lost.borrow() {
                    report.send_modify(|gone| gone.extend([(role, clock.now())]));
                }
            });
        }
        daemon.started_workers = StartedWorkers { unfit, gone };
        ends
    }
}

/// Returns the role whose commands workers take; `None` if they take what no role has a worker for.
fn role_of(pool: &WorkerOptions) -> Option<&str> {
    match &pool.role {
        RoleFilter::Only(role) => Some(role),
        RoleFilter::All | RoleFilter::Except(_) => None,
    }
}

fn is_relay(pool: &WorkerOptions) -> bool {
    matches!(pool.agent, Agent::Relay)
}

/// Says why the workers of a role ended by themselves.
fn tell_end(error: WorkerError, role: Option<&str>) {
    let error = one_line(&format!("{:#}", anyhow!(error)), 400);
    tracing::error!(error, role, "the worker ended");
    let of_role = role.map_or(String::new(), |role| format!(" of `{role}`"));
    complain!("! no more tasks{of_role} are taken: {error}");
}

/// Finds the agents of the roles, by the ids of these, and everything for which a team cannot work here: what is wrong in its
/// file, agents that are not there, roles inside the process that could do nothing. `general` is the agent for all, or why it
/// cannot work, which is not repeated; the tools of servers are checked as far as these run.
pub async fn examine(
    file: &TeamFile,
    general: &Result<Option<Agent>>,
    args: &AgentArgs,
    app: &App,
    servers: &Servers,
) -> (BTreeMap<String, Agent>, Vec<Problem>) {
    let asked = |agent: &String| app.would_plan(agent);
    // The model is missing only because the agent is that would be asked.
    let explained = general.is_err() && args.agent.as_ref().is_some_and(asked);
    let general = general.as_ref().ok().and_then(Option::as_ref);
    let (mut found, mut problems) = (BTreeMap::new(), file.problems.clone());
    for role in &file.team.roles {
        // What the file alone shows is among its problems.
        if let Some(RoleWorker::Agent { name, argv }) = &role.worker {
            let empty = argv.iter().all(|word| word.trim().is_empty());
            if !agents::names().contains(&name.as_str()) || (name == "command" && empty) {
                continue;
            }
        }
        match agent_of(role, general, args, app).await {
            Ok(agent) => found.extend(agent.map(|agent| (role.id.clone(), agent))),
            Err(failure) => problems.push(failure.problem(|said| role.place.problem(said))),
        }
    }
    if !explained {
        problems.extend(in_process_roles::without_model(file, general, app));
    }
    problems.extend(in_process_roles::unusable_steps(file, servers).await);
    (found, problems)
}

/// Chooses the agent of a role, as if it were named on the command line; `None` if other workers do its tasks.
async fn agent_of(
    role: &RoleSpec,
    general: Option<&Agent>,
    args: &AgentArgs,
    app: &App,
) -> Result<Option<Agent>> {
    match (role.kind, &role.worker) {
        (RoleKind::Agent, _) | (RoleKind::Files, Some(RoleWorker::External)) => Ok(None),
        // The worker for all does not read the folder of a role.
        (RoleKind::Files, None) => Ok(general.filter(|_| role.folder == RoleFolder::Own).cloned()),
        (RoleKind::Files, Some(RoleWorker::Agent { name, argv })) => {
            let named = AgentArgs {
                agent: Some(name.clone()),
                allow_shell: args.allow_shell,
                argv: argv.clone(),
            };
            let chosen = named.choose(app).await;
            chosen.map_err(|failure| failure.about(&format!("the role `{}`", role.id)))
        }
    }
}

/// Returns what the worker of a process of its own needs to know. It may be for a role, whose agent is that of the team unless
/// another is named.
///
/// # Errors
/// No agent is named, it is not there or cannot work as it is set up, or the team has no such role behind files.
pub async fn alone(args: &WorkerArgs, app: &App) -> Result<WorkerOptions> {
    let role = match (&args.role, &app.team) {
        (Some(id), Some(file)) => Some(role_behind_files(id, file)?),
        _ => None,
    };
    let agent = match (args.agent.choose(app).await?, role) {
        (None, Some(role)) => agent_of(role, None, &args.agent, app).await?,
        (chosen, _) => chosen,
    };
    super::relay::refuse_relay(agent.as_ref())?;
    let agent = agent.ok_or_else(|| {
        let (program, role) = (&app.program, args.role.as_deref());
        let role = role.map_or(String::new(), |role| format!(" --role {}", quoted(role)));
        let of_team = match (role.is_empty(), &app.team) {
            (false, None) => ", or --team FILE for the one that the team names",
            _ => "",
        };
        let worker = format!("`{program} worker{role} --agent claude`");
        let hint = format!("{worker}, or another of its agents{of_team}");
        Failure::usage(anyhow!("which agent is to work?")).hint(hint)
    })?;
    if let Some(doubt) = app.doubt(&agent) {
        complain!("! {doubt}");
    }
    let takes = args.role.clone().map_or(RoleFilter::All, RoleFilter::Only);
    let timeout = role.and_then(|role| role.timeout);
    Ok(options(agent, takes, timeout, app))
}

/// Returns what a worker of a relay needs to know: the relay takes only what is its own, so its workers take all.
pub fn of_relay(agent: Agent, lanes: usize, app: &App) -> WorkerOptions {
    WorkerOptions {
        lanes,
        ..options(agent, RoleFilter::All, None, app)
    }
}

fn role_behind_files<'a>(id: &str, file: &'a TeamFile) -> Result<&'a RoleSpec> {
    match file.team.role(id) {
        Some(role) if role.kind == RoleKind::Files => Ok(role),
        Some(_) => {
            let error = anyhow!("the role `{id}` works inside the daemon and takes no files");
            Err(Failure::usage(error).hint("`worker --role` is for roles of the kind `files`"))
        }
        None => {
            let error = anyhow!("there is no role `{id}` in `{}`", file.path.display());
            Err(Failure::usage(error).hint(file.team.role_meant(id)))
        }
    }
}

/// Returns what a worker that takes some commands needs to know; `timeout` is that of the role, if it has one.
fn options(agent: Agent, role: RoleFilter, timeout: Option<Duration>, app: &App) -> WorkerOptions {
    WorkerOptions {
        config: Arc::new(app.config.clone()),
        agent,
        role,
        plan: None,
        lanes: 1,
        deadline: timeout.unwrap_or(app.config.run.task_deadline),
        path: app.environment.get("PATH").map(str::to_owned),
        store: app.place.clone(),
        relayed: RelayedPlans::default(),
        health: WorkerHealth::default(),
        events: None,
    }
}
