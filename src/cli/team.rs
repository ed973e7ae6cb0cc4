//! The team file: read with the prompts of its roles, held against what there is, and made into plans by its workflows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use serde_json::{Map, Value};

use super::args;
use super::failure::Failure;
use super::output::complain;
use super::setup::{Setup, unusable};
use crate::agents;
use crate::bounded;
use crate::config::Config;
use crate::plan::{Head, NewTask, PlanId};
use crate::role::ACTIONS;
use crate::store::Store;
use crate::tools::Dialect;
use crate::wire::Problem;
use crate::wire::team::{
    self, Known, ONLY_ITS_OWN, ParameterKind, RoleFolder, RoleKind, RoleWorker, Team, Workflow,
};
use crate::wire::text::{one_line, quoted};

/// Bytes of a role's prompt.
const MAX_PROMPT: usize = 64 * 1024;

/// A team with what its file names.
#[derive(Clone, Debug)]
pub(super) struct TeamFile {
    /// As a person wrote it.
    pub path: PathBuf,
    pub team: Team,
    /// The prompts of the roles that have one, by the ids of the roles.
    pub prompts: BTreeMap<String, String>,
    /// Everything that is wrong in the file; the team is what is right of it.
    pub problems: Vec<Problem>,
}

/// What helps somebody who has no team file.
pub(super) const HOW_ONE_LOOKS: &str = "examples/team.yaml shows how one looks";

impl TeamFile {
    /// Returns where the team file is: the named one, else that of the configuration.
    pub fn find(named: Option<&Path>, config: &Config) -> Option<PathBuf> {
        named.map(Path::to_owned).or_else(|| config.team())
    }

    /// Reads the team file with all that it names; `None` if there is none. What is wrong in it is among its problems.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn load(named: Option<&Path>, config: &Config) -> Result<Option<Self>, Failure> {
        let Some(path) = Self::find(named, config) else {
            return Ok(None);
        };
        let text = bounded::read_file(&path, team::MAX_BYTES)
            .with_context(|| format!("failed to read the team file `{}`", path.display()))
            .map_err(|error| Failure::usage(error).hint(HOW_ONE_LOOKS))?;
        let (mut team, mut problems) = team::gather(&text);
        let name = path.file_name().unwrap_or_default();
        team.file = name.to_string_lossy().into_owned();
        let folder = path.parent().unwrap_or(Path::new(""));
        let (prompts, unread) = prompts(&team, folder);
        problems.extend(unread);
        problems.extend(misfits(&team, config));
        problems.sort_by_key(|problem| (problem.line, problem.column));
        Ok(Some(Self {
            path,
            team,
            prompts,
            problems,
        }))
    }

    /// Refuses a team with which something is wrong.
    ///
    /// # Errors
    /// All of these problems, in the order of the file.
    pub fn refuse(&self, mut problems: Vec<Problem>) -> Result<(), Failure> {
        problems.sort_by_key(|problem| (problem.line, problem.column));
        if problems.is_empty() {
            return Ok(());
        }
        let failure = unusable(&self.path.display().to_string(), &problems);
        Err(match self.team.roles.is_empty() {
            true => failure.hint(HOW_ONE_LOOKS),
            false => failure,
        })
    }

    /// Returns the prompts of the roles behind files: those inside the process read theirs themselves.
    pub fn prompts_behind_files(&self) -> BTreeMap<String, String> {
        let roles = self.team.roles.iter();
        let behind_files = roles.filter(|role| role.kind == RoleKind::Files);
        behind_files
            .filter_map(|role| Some((role.id.clone(), self.prompts.get(&role.id)?.clone())))
            .collect()
    }

    /// Says of each role that works in another process where its commands are, and how a worker for it is started.
    pub fn tell_of_external(&self, root: &Path, program: &args::Program, team: &args::Team) {
        let roles = self.team.roles.iter();
        for role in roles.filter(|role| role.worker == Some(RoleWorker::External)) {
            let id = &role.id;
            let folder = match role.folder {
                RoleFolder::Common => "commands/pending".to_owned(),
                RoleFolder::Own => format!("roles/{id}/commands/pending"),
            };
            complain(&format!(
                "the role `{id}` is external, its commands are in `{}`: `{program} worker --role {id}{} --agent claude`, or another agent, takes them\n",
                root.join(folder).display(),
                team.again()
            ));
        }
    }

    /// Makes the plan of a workflow.
    ///
    /// # Errors
    /// There is no such workflow, or its parameters do not fit; the line to type is told.
    fn plan(
        &self,
        id: &str,
        args: &OfWorkflow<'_>,
        setup: &Setup,
    ) -> Result<(Head, Vec<NewTask>), Failure> {
        let shown = self.path.display();
        let Some(workflow) = self.team.workflow(id) else {
            let id = one_line(id, 60);
            return Err(
                Failure::usage(anyhow!("there is no workflow `{id}` in `{shown}`"))
                    .hint(self.team.workflow_meant(&id)),
            );
        };
        let mut given = Map::new();
        for (name, value) in args.params {
            if given
                .insert(name.clone(), Value::String(value.clone()))
                .is_some()
            {
                let name = one_line(name, 60);
                return Err(
                    Failure::usage(anyhow!("the parameter `{name}` is given twice"))
                        .hint(line_to_type(setup, args, workflow, &given)),
                );
            }
        }
        let mut file = self.team.plan(workflow, &given).map_err(|problems| {
            let line = line_to_type(setup, args, workflow, &given);
            unusable(&shown.to_string(), &problems).hint(line)
        })?;
        if let Some(goal) = args.goal {
            goal.clone_into(&mut file.goal);
        }
        let workspace = setup.workspace(args.workspace)?;
        setup.begin(
            file,
            &format!("{shown}#{}", workflow.id),
            Path::new(&workspace),
        )
    }
}

/// What a person says of the workflow from which a plan is to be made.
pub(super) struct OfWorkflow<'a> {
    /// The subcommand, for the line to type.
    pub command: &'a str,
    pub workflow: Option<&'a str>,
    pub params: &'a [(String, String)],
    pub goal: Option<&'a str>,
    pub workspace: Option<&'a Path>,
    pub team: &'a args::Team,
}

impl Setup {
    /// Makes the plan of the workflow that a person names; `None` if none is named.
    ///
    /// # Errors
    /// There is no team, or as [`TeamFile::plan`].
    pub(super) fn plan_of_workflow(
        &self,
        args: &OfWorkflow<'_>,
    ) -> Result<Option<(Head, Vec<NewTask>)>, Failure> {
        match (args.workflow, &self.team) {
            (None, _) => Ok(None),
            (Some(id), Some(team)) => team.plan(id, args, self).map(Some),
            (Some(id), None) => {
                let id = one_line(id, 60);
                Err(
                    Failure::usage(anyhow!("there is no team to find the workflow `{id}` in"))
                        .hint("name the team: --team FILE, or in config.toml: [run] team"),
                )
            }
        }
    }

    /// Refuses open tasks of roles that the team does not have; without a team, a plan that has been carried out with one and has
    /// open tasks of its roles. Says which tasks nobody will take.
    ///
    /// # Errors
    /// All of these.
    pub(super) async fn check_team(
        &self,
        plan: &PlanId,
        store: &Store,
        roles_only: bool,
    ) -> Result<(), Failure> {
        let Some(file) = &self.team else {
            return self.check_teamless(plan, store).await;
        };
        let team = file.team.clone();
        let (strangers, nobodys) = store
            .read(plan, move |plan, _| {
                let (mut strangers, mut nobodys) = (Vec::new(), Vec::new());
                for task in plan.unsettled().filter(|_| !plan.status().settled()) {
                    let Some(role) = task.assignee.as_deref() else {
                        nobodys.push(task.number);
                        continue;
                    };
                    if team.role(role).is_none() {
                        let what = format!(
                            "task {} is for `{}`, a role that the team does not have",
                            task.number,
                            one_line(role, 60)
                        );
                        strangers.push(Problem::new(what).with_hint(team.role_meant(role)));
                    }
                }
                (strangers, nobodys)
            })
            .await?;
        file.refuse(strangers)?;
        if roles_only && let Some(first) = nobodys.first() {
            let more = match nobodys.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            complain(&format!(
                "! task {first}{more} without an assignee: {ONLY_ITS_OWN}; {}\n",
                file.team.way_to_somebody()
            ));
        }
        Ok(())
    }

    async fn check_teamless(&self, plan: &PlanId, store: &Store) -> Result<(), Failure> {
        let read = store.read(plan, |plan, _| {
            let roles = &plan.head().policy.roles;
            let mut open = plan.unsettled().filter(|_| !plan.status().settled());
            let waits = open.find_map(|task| {
                let role = task.assignee.as_deref()?;
                roles.contains_key(role).then(|| one_line(role, 60))
            });
            Some((waits?, plan.head().source.clone()))
        });
        let Some((role, source)) = read.await? else {
            return Ok(());
        };
        let team = source.as_deref().and_then(|source| source.split_once('#'));
        let team = team.map_or("FILE".to_owned(), |(file, _)| quoted(file));
        let error = anyhow!("the plan has open tasks of a team, such as of its role `{role}`");
        let hint = format!("`{} resume {plan} --team {team}`", self.program);
        Err(Failure::usage(error).hint(hint))
    }
}

/// Returns the line that would do it, with what was given and with what is missing.
fn line_to_type(
    setup: &Setup,
    args: &OfWorkflow<'_>,
    workflow: &Workflow,
    given: &Map<String, Value>,
) -> String {
    let mut line = format!(
        "{} {}{} --workflow {}",
        setup.program,
        args.command,
        args.team.again(),
        workflow.id
    );
    for parameter in &workflow.parameters {
        let sample = match (&parameter.choices.first(), parameter.kind) {
            (Some(choice), _) => (*choice).clone(),
            (None, ParameterKind::Text) => "TEXT".to_owned(),
            (None, ParameterKind::Integer | ParameterKind::Number) => "1".to_owned(),
            (None, ParameterKind::Boolean) => "true".to_owned(),
        };
        let value = match (given.get(&parameter.name), &parameter.default) {
            (Some(value), None) if value.as_str().is_some_and(|text| text.trim().is_empty()) => {
                sample
            }
            (Some(value), _) => parameter.accept(value).unwrap_or(sample),
            (None, None) => sample,
            (None, Some(_)) => continue,
        };
        let pair = one_line(&format!("{}={value}", parameter.name), 200);
        line = format!("{line} --param {}", quoted(&pair));
    }
    format!("`{line}`")
}

/// Returns what in a team file names something that is not there.
fn misfits(team: &Team, config: &Config) -> Vec<Problem> {
    let checks: Vec<&str> = config.checks.keys().map(String::as_str).collect();
    let tools = Dialect::ALL.into_iter().flat_map(Dialect::tools);
    let tools = tools.map(|tool| format!("plan.{}", tool.name));
    let servers = config.mcp.keys().map(|server| format!("{server}.*"));
    let tools: Vec<String> = tools.chain(servers).collect();
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    team.misfits(&Known {
        checks: &checks,
        agents: &agents::names(),
        actions: &ACTIONS,
        tools: &tools,
    })
}

/// Reads the prompts of the roles, and tells which cannot be read.
fn prompts(team: &Team, folder: &Path) -> (BTreeMap<String, String>, Vec<Problem>) {
    let (mut prompts, mut problems) = (BTreeMap::new(), Vec::new());
    for role in &team.roles {
        let Some(path) = &role.prompt else {
            continue;
        };
        match bounded::read_file(&folder.join(path), MAX_PROMPT) {
            Ok(text) => {
                prompts.insert(role.id.clone(), text);
            }
            Err(error) => {
                let message = format!(
                    "the prompt `{}` of the role `{}` cannot be read: {error}",
                    one_line(&path.to_string_lossy(), 200),
                    role.id
                );
                let hint =
                    "write it, relative to the folder of the team file, or take `prompt` out";
                problems.push(role.problem(message).with_hint(hint));
            }
        }
    }
    (prompts, problems)
}
