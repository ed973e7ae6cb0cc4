//! The roles of the team that work in this process, put together from the team file and the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};

use super::app::App;
use super::failure::Failure;
use super::output::complain;
use super::team_file::TeamFile;
use super::tool;
use crate::agents::Agent;
use crate::config::{Config, Planner};
use crate::daemon::{DaemonSettings, tidy_internal};
use crate::exec::{CheckConfig, end_servers_left_behind};
use crate::role::{
    ASK, Abilities, Framework, McpServer, McpSettings, OtherRole, Role, RoleId, RoleModel,
    RoleSettings, Workplace, built_in, check_step, plan_tools,
};
use crate::store::Store;
use crate::tools::Toolbox;
use crate::volumes::{Folder, Volumes};
use crate::wire::Problem;
use crate::wire::team_file::{RoleKind, RoleSpec, StepDoes};
use crate::wire::text::one_line;
use crate::worker::in_process::{
    InProcessRole, InProcessRoles, Member, RoleOptions, RoleWorkspace,
};

/// The servers whose tools roles use, as far as they run.
#[derive(Debug, Default)]
pub(super) struct Servers {
    tools: Abilities,
    /// Those that have told which tools they have, by their names.
    known: BTreeSet<String>,
}

/// Returns the roles of the team in this process that could do nothing, because there is no language model and they need one.
/// `general` is the agent for all, which may be the model.
pub(super) fn mindless(file: &TeamFile, general: Option<&Agent>, app: &App) -> Vec<Problem> {
    let Ok(Planner::Rules { .. }) = app.planner(general) else {
        return Vec::new();
    };
    let problem = |role: &RoleSpec| {
        let message = format!(
            "the role `{}` works in this process and needs a language model",
            role.id
        );
        let way = app.config.way_to_a_model();
        role.problem(message).with_hint(format!(
            "{way}, give it templates without the action `{ASK}`, or make it `kind: files`"
        ))
    };
    // Of one without a name something else is said.
    let roles = inside(file).filter(|role| !role.id.is_empty() && needs_model(role));
    roles.map(problem).collect()
}

/// Returns what of the tools and templates of the roles in this process cannot be used: tools that a server does not have,
/// parameters that do not fit. What the file alone shows was said before.
pub(super) async fn unusable_steps(file: &TeamFile, servers: &Servers) -> Vec<Problem> {
    // The tools are only looked at.
    let Ok(toolbox) = Toolbox::in_memory().await else {
        return Vec::new();
    };
    let tools = plan_tools(&toolbox).and(servers.tools.clone());
    let roles = inside(file);
    roles
        .flat_map(|role| unusable_steps_of(role, file, &tools, servers))
        .collect()
}

fn unusable_steps_of(
    role: &RoleSpec,
    file: &TeamFile,
    tools: &Abilities,
    servers: &Servers,
) -> Vec<Problem> {
    let Ok(id) = role.id.parse::<RoleId>() else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    let of_servers = |tool: &&String| {
        let server = tool.split_once('.').map(|(server, _)| server);
        server.is_some_and(|name| servers.known.contains(name))
    };
    let named: Vec<String> = role.tools.iter().filter(of_servers).cloned().collect();
    for unknown in tools.only(&named).err().unwrap_or_default() {
        problems.push(role.problem(format!("the role `{id}`: the tool {unknown}")));
    }
    let actions = built_in(&Workplace::default(), BTreeMap::new());
    let others = file.team.roles.iter();
    let colleagues = others.filter_map(|other| {
        Some(OtherRole {
            id: other.id.parse().ok()?,
            description: String::new(),
        })
    });
    let colleagues: Vec<OtherRole> = colleagues.collect();
    for step in role.steps() {
        let there = match &step.spec.does {
            StepDoes::ExecuteAction { action, .. } => actions.get(action).is_some(),
            StepDoes::UseTool { tool, .. } => tools.get(tool).is_some(),
            StepDoes::RequestCollaboration { target, .. } => {
                *target != role.id && file.team.role(target).is_some()
            }
        };
        if !there {
            continue;
        }
        let place = step.number;
        let checked = check_step(&id, step.spec, place, &actions, tools, &colleagues);
        if let Err(wrong) = checked {
            let template = one_line(&step.template.name, 60);
            problems.push(step.problem(format!(
                "the role `{id}`, template `{template}`, step {place}: {wrong}"
            )));
        }
    }
    problems
}

/// Puts the roles of the team together that work in this process, and starts the servers whose tools they use. Whatever an
/// earlier process left of them that nobody waits for has ended before. Servers do not work in `worktrees`, which is said.
///
/// # Errors
/// What one of them cannot work with, such as a template that names what is not there, or a server that does not start.
pub(super) async fn ready(
    settings: &DaemonSettings,
    app: &App,
    worktrees: bool,
) -> Result<Option<InProcessRoles>, Failure> {
    let (volumes, plan) = (&settings.volumes, &settings.plan);
    let store = app.store().await?;
    tidy_internal(store, volumes, plan, app.clock.now()).await;
    let Some(team) = app.team.as_ref() else {
        return Ok(None);
    };
    let mind = settings.models.as_ref().map(|models| RoleModel {
        model: models.plan.clone(),
        prompts: Arc::clone(&settings.prompts),
    });
    let config = &app.config;
    let marks = settings.volumes.path(Folder::Active);
    end_servers_left_behind(&marks).await;
    // The daemon makes it too, but later.
    let workspace = &settings.workspace;
    std::fs::create_dir_all(workspace)
        .with_context(|| format!("failed to make the workspace `{}`", workspace.display()))?;
    let (servers, mut problems) = start_servers(team, workspace, Some(&marks), config).await;
    problems.extend(unusable_steps(team, &servers).await);
    team.refuse(problems)?;
    if worktrees {
        warn_of_worktrees(&servers, settings);
    }
    let servers = servers.tools;
    let toolbox = Toolbox::new(store.clone(), tool::settings(config), "role");
    let toolbox = toolbox.with_plan(settings.plan.clone());
    let (mut residents, mut faults) = (Vec::new(), Vec::new());
    for role in inside(team) {
        let Ok(id) = role.id.parse::<RoleId>() else {
            continue;
        };
        let toolbox = toolbox.clone().with_caller(&format!("role {id}"));
        let tools = plan_tools(&toolbox).and(servers.clone()).only(&role.tools);
        let tools = tools.unwrap_or_else(|unknown| {
            let unknown = unknown.into_iter();
            faults.extend(unknown.map(|wrong| format!("role `{id}`: the tool {wrong}")));
            Abilities::default()
        });
        let prompt = team.prompts.get(&role.id).map_or("", String::as_str);
        let blueprint = RoleParts {
            settings: RoleSettings {
                classify: config.role.classify,
                max_steps: number(config.role.max_steps),
                step_timeout: config.role.step_timeout,
                ..RoleSettings::new(id.clone()).of_team(role, prompt)
            },
            store: store.clone(),
            mind: mind.clone(),
            actions: role.actions.clone(),
            tools,
            checks: settings.checks.clone(),
            volumes: settings.volumes.clone(),
        };
        residents.push(InProcessRole {
            id,
            timeout: role.collaboration_timeout,
            make: Arc::new(move |framework, workspace| blueprint.build(framework, workspace)),
        });
    }
    if residents.is_empty() {
        return Ok(None);
    }
    let members = team.team.roles.iter();
    let options = RoleOptions {
        store: store.clone(),
        volumes: settings.volumes.clone(),
        workspace: settings.workspace.clone(),
        clock: app.clock,
        prompts: Arc::clone(&settings.prompts),
        language: settings.language,
        members: members.filter_map(|role| member(role, settings)).collect(),
        residents,
        max_depth: number(config.role.max_depth),
        silence: config.run.task_timeout,
        timing: config.timing,
    };
    let inside = InProcessRoles::new(options).map_err(|wrong| faults.extend(wrong));
    let (Ok(inside), []) = (inside, faults.as_slice()) else {
        let path = team.path.display();
        let faults = faults.join("\nerror: ");
        return Err(Failure::usage(anyhow!("{path}: {faults}")));
    };
    Ok(Some(inside))
}

/// What a role is made of, each time it is given something to do.
struct RoleParts {
    settings: RoleSettings,
    store: Store,
    mind: Option<RoleModel>,
    actions: Vec<String>,
    tools: Abilities,
    checks: BTreeMap<String, CheckConfig>,
    volumes: Volumes,
}

impl RoleParts {
    fn build(&self, framework: Arc<dyn Framework>, workspace: &Path) -> Result<Role, String> {
        let workplace = Workplace {
            closed: vec![self.volumes.root().to_owned()],
            marks: Some(self.volumes.path(Folder::Active)),
            ..Workplace::of(workspace)
        };
        // Whoever has a language model may ask it.
        let mut names = self.actions.clone();
        names.push(ASK.to_owned());
        let actions = built_in(&workplace, self.checks.clone()).only(&names);
        let role = Role::new(
            self.settings.clone(),
            self.store.clone(),
            framework,
            self.mind.clone(),
            actions.map_err(|unknown| unknown.join("; "))?,
            self.tools.clone(),
        );
        role.map_err(|faults| faults.to_string())
    }
}

/// Starts the servers whose tools the roles use, and returns them with why the others cannot be used. With a folder for marks,
/// whoever comes after a kill ends them.
pub(super) async fn start_servers(
    team: &TeamFile,
    workspace: &Path,
    marks: Option<&Path>,
    config: &Config,
) -> (Servers, Vec<Problem>) {
    let (mut servers, mut problems) = (Servers::default(), Vec::new());
    for (name, server) in &config.mcp {
        let of_server = |tool: &String| tool.split_once('.').is_some_and(|(own, _)| own == name);
        let Some(role) = inside(team).find(|role| role.tools.iter().any(of_server)) else {
            continue;
        };
        let started = McpServer::start(McpSettings {
            name: name.clone(),
            argv: server.command.clone(),
            cwd: workspace.to_owned(),
            env: server.env.clone(),
            timeout: server.timeout,
            marks: marks.map(Path::to_owned),
        });
        match started.await {
            Ok(tools) => {
                servers.known.insert(name.clone());
                servers.tools = std::mem::take(&mut servers.tools).and(tools);
            }
            Err(error) => {
                let hint = format!("mend `{name}` under [mcp] in config.toml");
                let failure = Failure::usage(error).hint(hint);
                problems.push(failure.problem(|said| role.problem(said)));
            }
        }
    }
    (servers, problems)
}

/// Says which servers do not work where the tasks do: which of their tools touch files is not known.
fn warn_of_worktrees(servers: &Servers, settings: &DaemonSettings) {
    for name in &servers.known {
        complain(&format!(
            "! the MCP server `{name}` works in `{}`, and not in the worktree of the task that a role is at\n",
            settings.workspace.display()
        ));
    }
}

fn number(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Returns the roles of a team that work in this process.
fn inside(team: &TeamFile) -> impl Iterator<Item = &RoleSpec> {
    let roles = team.team.roles.iter();
    roles.filter(|role| role.kind == RoleKind::Agent)
}

fn member(role: &RoleSpec, settings: &DaemonSettings) -> Option<Member> {
    let prompt = settings.role_prompts.get(&role.id);
    Some(Member {
        id: role.id.parse().ok()?,
        description: role.description.clone(),
        prompt: prompt.cloned().unwrap_or_default(),
        place: match role.kind {
            RoleKind::Agent => RoleWorkspace::Inside {
                lanes: number(role.concurrency),
            },
            RoleKind::Files => RoleWorkspace::Files,
        },
    })
}

/// Returns whether a role can do nothing without a language model: it has no templates, or they ask one.
fn needs_model(role: &RoleSpec) -> bool {
    let asks =
        |does: &StepDoes| matches!(does, StepDoes::ExecuteAction { action, .. } if action == ASK);
    let mut steps = role.templates.iter().flat_map(|template| &template.steps);
    role.templates.is_empty() || steps.any(|step| asks(&step.does))
}
