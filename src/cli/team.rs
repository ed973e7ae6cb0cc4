//! The team file: read with the prompts of its roles, held against what there is, and made into plans by its workflows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use serde_json::{Map, Value};

use super::args::Run;
use super::failure::Failure;
use super::setup::{Setup, unusable};
use crate::agents;
use crate::config::Config;
use crate::plan::{Head, NewTask, PlanId};
use crate::role::ACTIONS;
use crate::store::Store;
use crate::tools::Dialect;
use crate::wire::Problem;
use crate::wire::team::{self, Known, ParameterKind, RoleKind, Team, Workflow};
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
}

/// What is wrong with a team file.
pub(super) enum Unfit {
    /// It cannot be read.
    Unreadable(anyhow::Error),
    /// All that is wrong in it.
    Problems(Vec<Problem>),
}

/// What helps somebody who has no team file.
pub(super) const HOW_ONE_LOOKS: &str = "examples/team.yaml shows how one looks";

impl TeamFile {
    /// Returns where the team file is: the named one, else that of the configuration.
    pub fn find(named: Option<&Path>, config: &Config) -> Option<PathBuf> {
        named.map(Path::to_owned).or_else(|| config.team())
    }

    /// Reads the team file with all that it names; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read, or whatever is wrong with it.
    pub fn load(named: Option<&Path>, config: &Config) -> Result<Option<Self>, Failure> {
        let Some(path) = Self::find(named, config) else {
            return Ok(None);
        };
        let shown = path.display().to_string();
        let file = Self::read(path, config).map_err(|unfit| match unfit {
            Unfit::Unreadable(error) => Failure::usage(error).hint(HOW_ONE_LOOKS),
            Unfit::Problems(problems) => unusable(&shown, &problems),
        })?;
        Ok(Some(file))
    }

    /// Reads a team file with all that it names.
    ///
    /// # Errors
    /// It cannot be read, or whatever is wrong with it.
    pub fn read(path: PathBuf, config: &Config) -> Result<Self, Unfit> {
        let text = read(&path, team::MAX_BYTES)
            .with_context(|| format!("failed to read the team file `{}`", path.display()))
            .map_err(Unfit::Unreadable)?;
        let mut team = team::parse(&text).map_err(Unfit::Problems)?;
        let name = path.file_name().unwrap_or_default();
        team.file = name.to_string_lossy().into_owned();
        let folder = path.parent().unwrap_or(Path::new(""));
        let (prompts, mut problems) = prompts(&team, folder);
        problems.extend(misfits(&team, config));
        problems.sort_by_key(|problem| (problem.line, problem.column));
        if !problems.is_empty() {
            return Err(Unfit::Problems(problems));
        }
        Ok(Self {
            path,
            team,
            prompts,
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

    /// Refuses a role behind files for which nobody works, unless an agent is named for all.
    ///
    /// # Errors
    /// The roles without an agent.
    pub fn staffed(&self, by_agent: bool) -> Result<(), Failure> {
        match self.team.without_worker() {
            problems if problems.is_empty() || by_agent => Ok(()),
            problems => Err(unusable(&self.path.display().to_string(), &problems)),
        }
    }

    /// Makes the plan of a workflow.
    ///
    /// # Errors
    /// There is no such workflow, or its parameters do not fit; the line to type is told.
    fn plan(&self, id: &str, args: &Run, setup: &Setup) -> Result<(Head, Vec<NewTask>), Failure> {
        let shown = self.path.display();
        let Some(workflow) = self.team.workflow(id) else {
            let id = one_line(id, 60);
            return Err(
                Failure::usage(anyhow!("there is no workflow `{id}` in `{shown}`"))
                    .hint(self.team.workflow_meant(&id)),
            );
        };
        let mut given = Map::new();
        for (name, value) in &args.params {
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
        if let Some(goal) = &args.goal {
            file.goal.clone_from(goal);
        }
        let workspace = setup.workspace(args.workspace.as_deref())?;
        setup.begin(
            file,
            &format!("{shown}#{}", workflow.id),
            Path::new(&workspace),
        )
    }
}

impl Setup {
    /// Makes the plan of the workflow that a person names; `None` if none is named.
    ///
    /// # Errors
    /// There is no team, or as [`TeamFile::plan`].
    pub(super) fn plan_of_workflow(
        &self,
        args: &Run,
    ) -> Result<Option<(Head, Vec<NewTask>)>, Failure> {
        match (&args.workflow, &self.team) {
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

    /// Refuses what cannot go on with this team: roles without an agent, and open tasks of roles that it does not have. Without a
    /// team, a plan that has been carried out with one and has open tasks of its roles.
    ///
    /// # Errors
    /// All of these.
    pub(super) async fn check_team(
        &self,
        plan: &PlanId,
        store: &Store,
        by_agent: bool,
    ) -> Result<(), Failure> {
        let Some(file) = &self.team else {
            return self.check_teamless(plan, store).await;
        };
        let team = file.team.clone();
        let strangers = store
            .read(plan, move |plan, _| {
                let open = plan.unsettled().filter_map(|task| {
                    let role = task.assignee.as_deref()?;
                    let what = format!(
                        "task {} is for `{}`, a role that the team does not have",
                        task.number,
                        one_line(role, 60)
                    );
                    let problem = Problem::new(what).with_hint(team.role_meant(role));
                    team.role(role).is_none().then_some(problem)
                });
                match plan.status().settled() {
                    true => Vec::new(),
                    false => open.collect(),
                }
            })
            .await?;
        match strangers {
            none if none.is_empty() => file.staffed(by_agent),
            problems => Err(unusable(&file.path.display().to_string(), &problems)),
        }
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
    args: &Run,
    workflow: &Workflow,
    given: &Map<String, Value>,
) -> String {
    let mut line = format!(
        "{} run{} --workflow {}",
        setup.program,
        args.carry_out.team.again(),
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
        match read(&folder.join(path), MAX_PROMPT) {
            Ok(text) => {
                prompts.insert(role.id.clone(), text);
            }
            Err(error) => {
                let message = format!(
                    "the prompt `{}` of the role `{}` cannot be read: {error:#}",
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

/// Reads a text that is not too long.
fn read(path: &Path, most: usize) -> anyhow::Result<String> {
    let mut text = String::new();
    let more = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)?.take(more).read_to_string(&mut text)?;
    if text.len() > most {
        return Err(anyhow!("it has more than {most} bytes"));
    }
    Ok(text)
}
