//! The roles of the team that work in this process, put together from the team file and the configuration.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::failure::Failure;
use super::output::complain;
use super::setup::Setup;
use super::site::Site;
use super::team::TeamFile;
use super::tool;
use crate::daemon::{Settings, tidy_internal};
use crate::exec::Check;
use crate::role::{
    ASK, Abilities, Framework, McpServer, McpSettings, Mind, Role, RoleId, RoleSettings, Workplace,
    built_in, plan_tools,
};
use crate::store::Store;
use crate::tools::Toolbox;
use crate::volumes::{Folder, Volumes};
use crate::wire::team::{RoleKind, RoleSpec, StepDoes};
use crate::worker::inside::{Inside, Member, Options, Place, Resident};

/// Refuses a team of which a role in this process can do nothing without a language model, where there is none.
///
/// # Errors
/// Names the role.
pub(super) fn refuse_mindless(team: &TeamFile, hint: &str) -> Result<(), Failure> {
    let mut inside = inside(team);
    let Some(role) = inside.find(|role| needs_model(role)) else {
        return Ok(());
    };
    let path = team.path.display();
    let error = anyhow!(
        "{path}: the role `{}` works in this process and needs a language model",
        role.id
    );
    Err(Failure::usage(error).hint(format!(
        "{hint}, give it templates without the action `{ASK}`, or make it `kind: files`"
    )))
}

/// Puts the roles of the team together that work in this process, and starts the servers whose tools they use. Whatever an
/// earlier process left of them that nobody waits for has ended before.
///
/// # Errors
/// What one of them cannot work with, such as a template that names what is not there, or a server that does not start.
pub(super) async fn ready(
    settings: &Settings,
    setup: &Setup,
    site: &Site,
) -> Result<Option<Inside>, Failure> {
    let (volumes, plan) = (&settings.volumes, &settings.plan);
    tidy_internal(&site.store, volumes, plan, site.clock.now()).await;
    let Some(team) = setup.team.as_ref() else {
        return Ok(None);
    };
    let mind = settings.models.as_ref().map(|models| Mind {
        model: models.plan.clone(),
        prompts: Arc::clone(&settings.prompts),
    });
    let config = &setup.config;
    let servers = servers(team, settings, setup, site).await?;
    let toolbox = Toolbox::new(site.store.clone(), tool::settings(config), "role");
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
        let blueprint = Blueprint {
            settings: RoleSettings {
                classify: config.role.classify,
                max_steps: number(config.role.max_steps),
                step_timeout: config.role.step_timeout,
                ..RoleSettings::new(id.clone()).of_team(role, prompt)
            },
            store: site.store.clone(),
            mind: mind.clone(),
            actions: role.actions.clone(),
            tools,
            checks: settings.checks.clone(),
            volumes: settings.volumes.clone(),
        };
        residents.push(Resident {
            id,
            patience: role.collaboration_timeout,
            make: Arc::new(move |framework, workspace| blueprint.build(framework, workspace)),
        });
    }
    if residents.is_empty() {
        return Ok(None);
    }
    let members = team.team.roles.iter();
    let options = Options {
        store: site.store.clone(),
        volumes: settings.volumes.clone(),
        workspace: settings.workspace.clone(),
        clock: site.clock,
        prompts: Arc::clone(&settings.prompts),
        language: settings.language,
        members: members.filter_map(|role| member(role, settings)).collect(),
        residents,
        max_depth: number(config.role.max_depth),
        silence: config.run.task_timeout,
    };
    let inside = Inside::new(options).map_err(|wrong| faults.extend(wrong));
    let (Ok(inside), []) = (inside, faults.as_slice()) else {
        let path = team.path.display();
        let faults = faults.join("\nerror: ");
        return Err(Failure::usage(anyhow!("{path}: {faults}")));
    };
    Ok(Some(inside))
}

/// Lets roles begin, as long as nothing says stop.
pub(super) fn begin(inside: Inside, stopped: &watch::Receiver<bool>) -> JoinHandle<()> {
    let mut stopped = stopped.clone();
    tokio::spawn(inside.run(async move {
        // The sender going away means the same.
        drop(stopped.wait_for(|stopped| *stopped).await);
    }))
}

/// Waits until the roles that were started have let go of what they were at.
pub(super) async fn end_of(roles: Option<JoinHandle<()>>) {
    if let Some(roles) = roles {
        // What broke down has said so.
        drop(roles.await);
    }
}

/// What a role is made of, each time it is given something to do.
struct Blueprint {
    settings: RoleSettings,
    store: Store,
    mind: Option<Mind>,
    actions: Vec<String>,
    tools: Abilities,
    checks: BTreeMap<String, Check>,
    volumes: Volumes,
}

impl Blueprint {
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

/// Starts the servers whose tools the roles use, and returns all of their tools.
async fn servers(
    team: &TeamFile,
    settings: &Settings,
    setup: &Setup,
    site: &Site,
) -> Result<Abilities, Failure> {
    let line = site
        .store
        .read(&settings.plan, |plan, _| plan.head().line.is_some());
    let worktrees = line.await? || settings.isolate;
    let mut tools = Abilities::default();
    for (name, server) in &setup.config.mcp {
        let of_server = |tool: &String| tool.split_once('.').is_some_and(|(own, _)| own == name);
        if !inside(team).any(|role| role.tools.iter().any(of_server)) {
            continue;
        }
        // The daemon makes it too, but later.
        let workspace = &settings.workspace;
        std::fs::create_dir_all(workspace)
            .with_context(|| format!("failed to make the workspace `{}`", workspace.display()))?;
        let started = McpServer::start(McpSettings {
            name: name.clone(),
            argv: server.command.clone(),
            cwd: workspace.clone(),
            env: server.env.clone(),
            timeout: server.timeout,
        });
        let started = started.await.map_err(|error| {
            Failure::usage(error).hint(format!("mend `{name}` under [mcp] in config.toml"))
        })?;
        if worktrees {
            // Which of its tools touch files is not known.
            complain(&format!(
                "! the MCP server `{name}` works in `{}`, and not in the worktree of the task that a role is at\n",
                workspace.display()
            ));
        }
        tools = tools.and(started);
    }
    Ok(tools)
}

fn number(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Returns the roles of a team that work in this process.
fn inside(team: &TeamFile) -> impl Iterator<Item = &RoleSpec> {
    let roles = team.team.roles.iter();
    roles.filter(|role| role.kind == RoleKind::Agent)
}

fn member(role: &RoleSpec, settings: &Settings) -> Option<Member> {
    let prompt = settings.role_prompts.get(&role.id);
    Some(Member {
        id: role.id.parse().ok()?,
        description: role.description.clone(),
        prompt: prompt.cloned().unwrap_or_default(),
        place: match role.kind {
            RoleKind::Agent => Place::Inside {
                lanes: number(role.concurrency),
            },
            RoleKind::Files => Place::Files,
        },
    })
}

/// Tells whether a role can do nothing without a language model: it has no templates, or they ask one.
fn needs_model(role: &RoleSpec) -> bool {
    let asks =
        |does: &StepDoes| matches!(does, StepDoes::ExecuteAction { action, .. } if action == ASK);
    let mut steps = role.templates.iter().flat_map(|template| &template.steps);
    role.templates.is_empty() || steps.any(|step| asks(&step.does))
}
