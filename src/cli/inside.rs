//! The roles of the team that work in this process, put together from the team file and the configuration.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;

use super::failure::Failure;
use super::setup::Prepared;
use super::site::Site;
use super::team::TeamFile;
use crate::exec::Check;
use crate::llm::BoxFuture;
use crate::plan::PlanId;
use crate::role::{
    ASK, Abilities, Ability, Ask, Colleague, Framework, FrameworkError, Mind, ReadFile, Refused,
    RequestId, Role, RoleId, RoleSettings, RunCheck, StructuredMessage, TaskUpdate, WriteFile,
};
use crate::store::Store;
use crate::wire::team::{RoleKind, RoleSpec, StepDoes, Team};
use crate::worker::inside::{Make, Member, Options, Place, Resident};

/// How many requests within requests there may be.
const MAX_DEPTH: usize = 5;

/// The roles that work in this process.
pub(super) struct Inside {
    members: Vec<Member>,
    residents: Vec<Resident>,
}

impl Prepared<'_> {
    /// Puts together the roles of a team that work in this process; `None` if none does.
    ///
    /// # Errors
    /// One of them needs a language model and there is none, or its templates cannot be carried out.
    pub(super) fn inside(
        &self,
        team: Option<&TeamFile>,
        store: &Store,
    ) -> Result<Option<Inside>, Failure> {
        let Some(file) = team else {
            return Ok(None);
        };
        let specs: Vec<&RoleSpec> = inside(&file.team).collect();
        if specs.is_empty() {
            return Ok(None);
        }
        let mind = self.models.as_ref().map(|models| Mind {
            model: models.plan.clone(),
            prompts: Arc::clone(&self.prompts),
        });
        let members: Vec<Member> = file.team.roles.iter().filter_map(member).collect();
        let mut residents = Vec::new();
        let mut faults = Vec::new();
        for spec in specs {
            if mind.is_none() && needs_model(spec) {
                return Err(Failure::usage(anyhow!(
                    "the role `{}` works in this process and needs a language model: {}",
                    spec.id,
                    self.why_no_model()
                ))
                .hint(self.config.way_to_a_model()));
            }
            let prompt = file.prompts.get(&spec.id).map_or("", String::as_str);
            let Some(blueprint) = self.blueprint(spec, prompt, mind.clone(), store) else {
                continue;
            };
            let others = members.iter().filter(|member| member.id != blueprint.settings.id);
            let colleagues = others.map(|member| Colleague {
                id: member.id.clone(),
                description: member.description.clone(),
            });
            let nobody = Arc::new(Nobody(colleagues.collect()));
            if let Err(wrong) = blueprint.build(nobody, Path::new("/")) {
                faults.push(wrong);
            }
            residents.push(Resident {
                id: blueprint.settings.id.clone(),
                patience: blueprint.settings.collaboration_timeout,
                make: Arc::new(move |framework, workspace| blueprint.build(framework, workspace)),
            });
        }
        if !faults.is_empty() {
            let path = file.path.display();
            return Err(Failure::usage(anyhow!("{path}: {}", faults.join("\n"))));
        }
        Ok(Some(Inside { members, residents }))
    }

    fn blueprint(
        &self,
        spec: &RoleSpec,
        prompt: &str,
        mind: Option<Mind>,
        store: &Store,
    ) -> Option<Blueprint> {
        let id: RoleId = spec.id.parse().ok()?;
        Some(Blueprint {
            settings: RoleSettings::new(id).of_team(spec, prompt),
            store: store.clone(),
            mind,
            actions: spec.actions.clone(),
            tools: Abilities::default(),
            checks: self.checks(),
        })
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
}

impl Blueprint {
    fn build(&self, framework: Arc<dyn Framework>, workspace: &Path) -> Result<Role, String> {
        let named = |ability: &Arc<dyn Ability>| {
            let mut names = self.actions.iter();
            names.any(|name| name == ability.name())
        };
        let workspace = workspace.to_owned();
        let all: [Arc<dyn Ability>; 4] = [
            Arc::new(Ask),
            Arc::new(ReadFile {
                workspace: workspace.clone(),
            }),
            Arc::new(WriteFile {
                workspace: workspace.clone(),
            }),
            Arc::new(RunCheck {
                workspace,
                checks: self.checks.clone(),
            }),
        ];
        let role = Role::new(
            self.settings.clone(),
            self.store.clone(),
            framework,
            self.mind.clone(),
            all.into_iter().filter(named).collect(),
            self.tools.clone(),
        );
        role.map_err(|faults| faults.to_string())
    }
}

impl Inside {
    /// Returns what it takes to start them.
    pub(super) fn options(self, prepared: &Prepared<'_>, site: &Site, workspace: &Path) -> Options {
        Options {
            store: site.store.clone(),
            volumes: site.volumes.clone(),
            workspace: workspace.to_owned(),
            clock: site.clock,
            prompts: Arc::clone(&prepared.prompts),
            language: prepared.config.run.language,
            members: self.members,
            residents: self.residents,
            max_depth: MAX_DEPTH,
            silence: prepared.config.run.task_timeout,
        }
    }
}

/// Returns the roles of a team that work in this process.
fn inside(team: &Team) -> impl Iterator<Item = &RoleSpec> {
    team.roles.iter().filter(|role| role.kind == RoleKind::Agent)
}

fn member(spec: &RoleSpec) -> Option<Member> {
    Some(Member {
        id: spec.id.parse().ok()?,
        description: spec.description.clone(),
        place: match spec.kind {
            RoleKind::Agent => Place::Inside {
                lanes: usize::try_from(spec.concurrency).unwrap_or(1),
            },
            RoleKind::Files => Place::Files,
        },
    })
}

/// Tells whether a role can do nothing without a language model: it has no templates, or they ask one.
fn needs_model(spec: &RoleSpec) -> bool {
    let asks = |does: &StepDoes| matches!(does, StepDoes::ExecuteAction { action, .. } if action == ASK);
    let mut steps = spec.templates.iter().flat_map(|template| &template.steps);
    spec.templates.is_empty() || steps.any(|step| asks(&step.does))
}

/// Stands for the program around a role that is only looked at.
struct Nobody(Vec<Colleague>);

impl Framework for Nobody {
    fn colleagues(&self) -> Vec<Colleague> {
        self.0.clone()
    }

    fn prepare<'a>(
        &'a self,
        _: &'a StructuredMessage,
    ) -> BoxFuture<'a, Result<String, Refused>> {
        Box::pin(async { Err(nobody().into()) })
    }

    fn send<'a>(
        &'a self,
        _: &'a StructuredMessage,
        _: &'a str,
    ) -> BoxFuture<'a, Result<(), Refused>> {
        Box::pin(async { Err(nobody().into()) })
    }

    fn withdraw<'a>(&'a self, _: &'a RequestId) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn update_task_status<'a>(
        &'a self,
        _: TaskUpdate,
    ) -> BoxFuture<'a, Result<(), FrameworkError>> {
        Box::pin(async { Err(nobody()) })
    }
}

fn nobody() -> FrameworkError {
    FrameworkError("no plan is carried out".to_owned())
}
