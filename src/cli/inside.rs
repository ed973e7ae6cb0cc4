//! The roles of the team that work in this process, put together from the team file and the configuration.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::failure::Failure;
use super::setup::Setup;
use super::site::Site;
use super::team::TeamFile;
use crate::daemon::Settings;
use crate::exec::Check;
use crate::role::{
    ASK, Abilities, Ability, Ask, Framework, Mind, ReadFile, Role, RoleSettings, RunCheck,
    WriteFile,
};
use crate::store::Store;
use crate::wire::team::{RoleKind, RoleSpec, StepDoes};
use crate::worker::inside::{Inside, Member, Options, Place, Resident};

/// How deep requests within requests may go.
const MAX_DEPTH: usize = 5;

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

/// Starts the roles of the team that work in this process, as long as nothing says stop.
///
/// # Errors
/// What one of them cannot work with, such as a template that names what is not there; nothing is started then.
pub(super) fn start(
    settings: &Settings,
    setup: &Setup,
    site: &Site,
    stopped: &watch::Receiver<bool>,
) -> Result<Option<JoinHandle<()>>, Failure> {
    let Some(team) = setup.team.as_ref() else {
        return Ok(None);
    };
    let mind = settings.models.as_ref().map(|models| Mind {
        model: models.plan.clone(),
        prompts: Arc::clone(&settings.prompts),
    });
    let resident = |role: &RoleSpec| {
        let id = role.id.parse().ok()?;
        let prompt = team.prompts.get(&role.id).map_or("", String::as_str);
        let blueprint = Blueprint {
            settings: RoleSettings::new(id).of_team(role, prompt),
            store: site.store.clone(),
            mind: mind.clone(),
            actions: role.actions.clone(),
            checks: settings.checks.clone(),
        };
        Some(Resident {
            id: blueprint.settings.id.clone(),
            patience: blueprint.settings.collaboration_timeout,
            make: Arc::new(move |framework, workspace| blueprint.build(framework, workspace)),
        })
    };
    let residents: Vec<Resident> = inside(team).filter_map(resident).collect();
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
        max_depth: MAX_DEPTH,
        silence: setup.config.run.task_timeout,
    };
    let inside = Inside::new(options).map_err(|faults| {
        let path = team.path.display();
        let faults = faults.join("\nerror: ");
        Failure::usage(anyhow!("{path}: {faults}"))
    })?;
    let mut stopped = stopped.clone();
    Ok(Some(tokio::spawn(inside.run(async move {
        // The sender going away means the same.
        drop(stopped.wait_for(|stopped| *stopped).await);
    }))))
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
    checks: BTreeMap<String, Check>,
}

impl Blueprint {
    fn build(&self, framework: Arc<dyn Framework>, workspace: &Path) -> Result<Role, String> {
        let all: [Arc<dyn Ability>; 4] = [
            Arc::new(Ask),
            Arc::new(ReadFile {
                workspace: workspace.to_owned(),
            }),
            Arc::new(WriteFile {
                workspace: workspace.to_owned(),
            }),
            Arc::new(RunCheck {
                workspace: workspace.to_owned(),
                checks: self.checks.clone(),
            }),
        ];
        let named = |ability: &Arc<dyn Ability>| {
            let mut names = self.actions.iter();
            ability.name() == ASK || names.any(|name| name == ability.name())
        };
        let role = Role::new(
            self.settings.clone(),
            self.store.clone(),
            framework,
            self.mind.clone(),
            all.into_iter().filter(named).collect(),
            Abilities::default(),
        );
        role.map_err(|faults| faults.to_string())
    }
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
                lanes: usize::try_from(role.concurrency).unwrap_or(1),
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
