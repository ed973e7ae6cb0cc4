//! The roles of the team that work in this process, put together from the team file and the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};

use super::{App, Failure, Result, TeamFile, complain};
use crate::agents::Agent;
use crate::config::{Config, Planner};
use crate::daemon::{DaemonSettings, tidy_internal};
use crate::plan::CommandId;
use crate::role::{
    ASK, Abilities, Framework, McpServer, OtherRole, REQUEST_COLLABORATION, Role, RoleId,
    RoleModel, RoleSettings, StepChecker, Workplace, built_in, plan_tools,
};
use crate::tools::Toolbox;
use crate::volumes::Folder;
use crate::wire::{Problem, RoleKind, RoleSpec, StepDoes, one_line};
use crate::worker::in_process::{InProcessRole, InProcessRoles, RoleHost};

/// The servers whose tools roles use, as far as they run.
#[derive(Debug, Default)]
pub struct Servers {
    tools: Abilities,
    /// The names of those that have listed their tools.
    known: BTreeSet<String>,
}

/// Returns the roles of the team in this process that could do nothing, because there is no language model and they need one.
/// `general` is the agent for all, which may be the model.
pub fn without_model(file: &TeamFile, general: Option<&Agent>, app: &App) -> Vec<Problem> {
    let Ok(Planner::Rules { .. }) = app.planner(general) else {
        return Vec::new();
    };
    let problem = |role: &RoleSpec| {
        let (id, way) = (&role.id, app.config.way_to_a_model());
        let message = format!("the role `{id}` works in this process and needs a language model");
        role.place.problem(message).with_hint(format!(
            "{way}, give it templates without the action `{ASK}`, or make it `kind: files`"
        ))
    };
    // A role without a name has another problem.
    let roles = inside(file).filter(|role| !role.id.is_empty() && needs_model(role));
    roles.map(problem).collect()
}

/// Returns what of the tools and templates of the roles in this process cannot be used: tools that a server does not have,
/// parameters that do not fit. What the file alone shows is among the problems of the file.
pub async fn unusable_steps(file: &TeamFile, servers: &Servers) -> Vec<Problem> {
    // The tools are not called.
    let Ok(toolbox) = Toolbox::in_memory().await else {
        return Vec::new();
    };
    let tools = plan_tools(&toolbox).and(servers.tools.clone());
    let mut problems = Vec::new();
    for role in inside(file) {
        let Ok(id) = role.id.parse::<RoleId>() else {
            continue;
        };
        let mut named = role.tools.clone();
        named.retain(|tool| server_of(tool).is_some_and(|name| servers.known.contains(name)));
        for unknown in tools.only(&named).err().unwrap_or_default() {
            let problem = format!("the role `{id}`: the tool {unknown}");
            problems.push(role.place.problem(problem));
        }
        let checker = StepChecker {
            own: id.clone(),
            actions: built_in(&Workplace::default(), BTreeMap::new()),
            tools: tools.clone(),
            other_roles: members(file),
        };
        // What a step names and does not exist is among the problems of the file.
        let exists = |does: &StepDoes| match does {
            StepDoes::ExecuteAction { action, .. } => {
                action == REQUEST_COLLABORATION || checker.actions.get(action).is_some()
            }
            StepDoes::UseTool { tool, .. } => tools.get(tool).is_some(),
            StepDoes::RequestCollaboration { target, .. } => {
                *target != role.id && file.team.role(target).is_some()
            }
        };
        for step in role.steps() {
            if exists(&step.spec.does)
                && let Err(wrong) = checker.check(step.spec, step.number)
            {
                let (name, place) = (one_line(&step.template.name, 60), step.number);
                let of = format!("the role `{id}`, template `{name}`");
                problems.push(step.place.problem(format!("{of}, step {place}: {wrong}")));
            }
        }
    }
    problems
}

/// Puts the roles of the team together that work in this process, and starts the servers whose tools they use. What an earlier
/// process left of them, and no plan waits for, has ended before. Servers do not work in `worktrees`, of which this warns.
///
/// # Errors
/// What one of them cannot work with, such as a template that names what is not there, or a server that does not start.
pub async fn ready(
    settings: &DaemonSettings,
    app: &App,
    worktrees: bool,
) -> Result<Option<InProcessRoles>> {
    let (config, volumes, store) = (&app.config, &settings.volumes, &settings.store);
    tidy_internal(store, volumes, &settings.plan, app.clock.now()).await;
    let Some(team) = &app.team else {
        return Ok(None);
    };
    let servers = servers_at_work(team, settings, config, worktrees).await?;
    let model = settings.models.as_ref().map(|models| RoleModel {
        model: models.plan.clone(),
        prompts: Arc::clone(&settings.prompts),
        away: settings.config.timing.plan.away,
    });
    let toolbox = Toolbox::new(store.clone(), config, "role").with_plan(settings.plan.clone());
    let mut residents = Vec::new();
    for role in inside(team) {
        let Ok(id) = role.id.parse::<RoleId>() else {
            continue;
        };
        let toolbox = toolbox.clone().with_caller(&format!("role {id}"));
        let prompt = team.prompts.get(&role.id).map_or("", String::as_str);
        let own = RoleSettings {
            config: config.role.clone(),
            ..RoleSettings::new(id.clone()).of_team(role, prompt)
        };
        // A role may always ask its language model.
        let actions = [role.actions.as_slice(), &[ASK.to_owned()]].concat();
        let (store, model, volumes) = (store.clone(), model.clone(), volumes.clone());
        let checks = settings.config.checks.clone();
        let (servers, named) = (servers.clone(), role.tools.clone());
        // A role is made each time it is given something to do.
        let make = move |framework: Arc<dyn Framework>, command: &CommandId, workspace: &Path| {
            // It reports on no other task than its own.
            let toolbox = toolbox.clone().for_command(Some(command.clone()));
            let tools = plan_tools(&toolbox).and(servers.clone()).only(&named);
            let tools =
                tools.map_err(|unknown| format!("role `{}`: {}", own.id, unknown.join("; ")))?;
            let workplace = Workplace {
                closed: vec![volumes.root().to_owned()],
                marks: Some(volumes.path(Folder::Active)),
                ..Workplace::of(workspace)
            };
            let actions = built_in(&workplace, checks.clone()).only(&actions);
            let actions = actions.map_err(|unknown| unknown.join("; "))?;
            let (own, store, model) = (own.clone(), store.clone(), model.clone());
            let role = Role::new(own, store, framework, model, actions, tools);
            role.map_err(|faults| faults.to_string())
        };
        residents.push(InProcessRole {
            id,
            lanes: usize::try_from(role.concurrency).unwrap_or(usize::MAX),
            timeout: role.collaboration_timeout,
            make: Arc::new(make),
        });
    }
    if residents.is_empty() {
        return Ok(None);
    }
    let host = RoleHost {
        plan: settings.plan.clone(),
        config: Arc::new(config.clone()),
        store: store.clone(),
        volumes: volumes.clone(),
        workspace: settings.workspace.clone(),
        clock: app.clock,
        prompts: Arc::clone(&settings.prompts),
        members: members(team),
        role_prompts: Arc::clone(&settings.role_prompts),
        residents,
    };
    let inside = InProcessRoles::new(host).map_err(|faults| {
        let (path, faults) = (team.path.display(), faults.join("\nerror: "));
        Failure::usage(anyhow!("{path}: {faults}"))
    });
    inside.map(Some)
}

/// Starts the servers whose tools the roles use, and returns their tools. Those that an earlier process left have ended before.
async fn servers_at_work(
    team: &TeamFile,
    settings: &DaemonSettings,
    config: &Config,
    worktrees: bool,
) -> Result<Abilities> {
    let (workspace, marks) = (&settings.workspace, settings.volumes.path(Folder::Active));
    // The daemon also makes it, but later.
    std::fs::create_dir_all(workspace)
        .with_context(|| format!("failed to make the workspace `{}`", workspace.display()))?;
    let (servers, mut problems) = start_servers(team, workspace, Some(&marks), config).await;
    problems.extend(unusable_steps(team, &servers).await);
    team.refuse(problems)?;
    // Which of their tools touch files is not known.
    for name in servers.known.iter().filter(|_| worktrees) {
        complain!(
            "! the MCP server `{name}` works in `{}`, and not in the worktree of the task that a role is at",
            workspace.display()
        );
    }
    Ok(servers.tools)
}

/// Starts the servers whose tools the roles use, and returns them with why the others cannot be used. With a folder for marks,
/// the process that comes after a kill ends them.
pub async fn start_servers(
    team: &TeamFile,
    workspace: &Path,
    marks: Option<&Path>,
    config: &Config,
) -> (Servers, Vec<Problem>) {
    let (mut servers, mut problems) = (Servers::default(), Vec::new());
    for (name, server) in &config.mcp {
        let of_server = |tool: &String| server_of(tool) == Some(name);
        let Some(role) = inside(team).find(|role| role.tools.iter().any(of_server)) else {
            continue;
        };
        match McpServer::start(name, server, workspace, marks).await {
            Ok(tools) => {
                servers.known.insert(name.clone());
                servers.tools = std::mem::take(&mut servers.tools).and(tools);
            }
            Err(error) => {
                let hint = format!("mend `{name}` under [mcp] in config.toml");
                let failure = Failure::usage(error).hint(hint);
                problems.push(failure.problem(|said| role.place.problem(said)));
            }
        }
    }
    (servers, problems)
}

/// Returns the roles of a team, as they know each other.
fn members(team: &TeamFile) -> Vec<OtherRole> {
    let member = |role: &RoleSpec| {
        Some(OtherRole {
            id: role.id.parse().ok()?,
            description: role.description.clone(),
        })
    };
    team.team.roles.iter().filter_map(member).collect()
}

fn server_of(tool: &str) -> Option<&str> {
    tool.split_once('.').map(|(server, _)| server)
}

/// Returns the roles of a team that work in this process.
fn inside(team: &TeamFile) -> impl Iterator<Item = &RoleSpec> {
    let roles = team.team.roles.iter();
    roles.filter(|role| role.kind == RoleKind::Agent)
}

/// Returns whether a role can do nothing without a language model: it has no templates, or they ask one.
fn needs_model(role: &RoleSpec) -> bool {
    let asks =
        |does: &StepDoes| matches!(does, StepDoes::ExecuteAction { action, .. } if action == ASK);
    let mut steps = role.templates.iter().flat_map(|template| &template.steps);
    role.templates.is_empty() || steps.any(|step| asks(&step.does))
}
