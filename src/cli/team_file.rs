//! The team file: read with the prompts of its roles, held against what there is, and made into plans by its workflows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use serde_json::{Map, Value};

use super::{App, Failure, FoundPlan, NewPlan, Result, Wanted, complain};
use crate::agents;
use crate::bounded_read;
use crate::config::Config;
use crate::plan::{TaskId, and_more};
use crate::role::ACTIONS;
use crate::tools::Dialect;
use crate::trust::{Parts, content_hash};
use crate::wire::team_file::{KnownNames, ParameterKind};
use crate::wire::{
    ONLY_ITS_OWN, Problem, RoleFolder, RoleKind, RoleWorker, Team, Workflow, joined, one_line,
    quoted, team_file,
};

/// Bytes of a role's prompt.
const MAX_PROMPT: usize = 64 * 1024;

/// A team with what its file names.
#[derive(Clone, Debug)]
pub struct TeamFile {
    /// As a person wrote it.
    pub path: PathBuf,
    pub team: Team,
    /// The prompts of the roles that have one, by the ids of the roles.
    pub prompts: BTreeMap<String, String>,
    /// What a person has to confirm of it: all of it.
    pub parts: Parts,
    /// Everything that is wrong in the file; the team is what is right of it.
    pub problems: Vec<Problem>,
    /// No worker takes what is assigned to no role, as far as it is known who works.
    pub roles_only: bool,
}

/// What helps a person who has no team file.
const HOW_ONE_LOOKS: &str = "examples/team.yaml shows how one looks";

impl TeamFile {
    /// Returns where the team file is: the named one, else that of the configuration.
    pub fn find(named: Option<&Path>, config: &Config) -> Option<PathBuf> {
        named.map(Path::to_owned).or_else(|| config.team())
    }

    /// Reads the team file with all that it names. What is wrong in it is among its problems.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn load(path: PathBuf, config: &Config) -> Result<Self> {
        let text = bounded_read::read_file(&path, team_file::MAX_BYTES)
            .with_context(|| format!("failed to read the team file `{}`", path.display()))
            .map_err(|error| Failure::usage(error).hint(HOW_ONE_LOOKS))?;
        let (mut team, mut problems) = team_file::gather(&text);
        let name = path.file_name().unwrap_or_default();
        team.file = name.to_string_lossy().into_owned();
        let (prompts, unread) = prompts(&team, path.parent().unwrap_or(Path::new("")));
        problems.extend(unread);
        problems.extend(mismatches(&team, config));
        Ok(Self {
            parts: parts(&team, &text, &prompts),
            path,
            team,
            prompts,
            problems,
            roles_only: false,
        })
    }

    /// Refuses a team with which something is wrong.
    ///
    /// # Errors
    /// All of these problems, in the order of the file.
    pub fn refuse(&self, mut problems: Vec<Problem>) -> Result {
        problems.sort_by_key(|problem| problem.place);
        if problems.is_empty() {
            return Ok(());
        }
        let failure = Failure::problems(&self.path.display().to_string(), &problems);
        Err(failure.hint_if(self.team.roles.is_empty(), HOW_ONE_LOOKS))
    }

    /// Returns the prompts of the roles behind files: those inside the process read theirs themselves.
    pub fn prompts_behind_files(&self) -> BTreeMap<String, String> {
        let mut prompts = self.prompts.clone();
        let kind = |id: &str| self.team.role(id).map(|role| role.kind);
        prompts.retain(|id, _| kind(id) == Some(RoleKind::Files));
        prompts
    }
}

impl App {
    /// Prints of each role that works in another process where its commands are, and how a worker for it is started.
    pub fn print_external_roles(&self) {
        let roles = self.team.iter().flat_map(|file| &file.team.roles);
        for role in roles.filter(|role| role.worker == Some(RoleWorker::External)) {
            let (id, program, team) = (&role.id, &self.program, self.team_args.again());
            let folder = match role.folder {
                RoleFolder::Common => "commands/pending".to_owned(),
                RoleFolder::Own => format!("roles/{id}/commands/pending"),
            };
            let folder = self.volumes.root().join(folder);
            let folder = folder.display();
            let worker = format!("{program} worker --role {id}{team}");
            complain!(
                "the role `{id}` is external, its commands are in `{folder}`: `{worker} --agent claude`, or another agent, takes them"
            );
        }
    }

    /// Makes the plan of the workflow that a person names.
    ///
    /// # Errors
    /// There is no team or no such workflow, or its parameters do not fit; the hint is the line to type.
    pub fn plan_of_workflow(
        &self,
        id: &str,
        wanted: &Wanted<'_>,
        workspace: &str,
    ) -> Result<NewPlan> {
        let short = one_line(id, 60);
        let file = self.team.as_ref().ok_or_else(|| {
            let error = anyhow!("there is no team to find the workflow `{short}` in");
            Failure::usage(error).hint("name the team: --team FILE, or in config.toml: [run] team")
        })?;
        let (shown, team) = (file.path.display(), &file.team);
        let workflow = team.workflow(id).ok_or_else(|| {
            Failure::usage(anyhow!("there is no workflow `{short}` in `{shown}`"))
                .hint(team.workflow_meant(&short))
        })?;
        let line = |given: &_| self.line_to_type(wanted, workflow, given);
        let mut given = Map::new();
        for (name, value) in &wanted.new.params {
            if given.insert(name.clone(), value.as_str().into()).is_some() {
                let name = one_line(name, 60);
                let error = anyhow!("the parameter `{name}` is given twice");
                return Err(Failure::usage(error).hint(line(&given)));
            }
        }
        let mut made = team.plan(workflow, &given).map_err(|problems| {
            Failure::problems(&shown.to_string(), &problems).hint(line(&given))
        })?;
        if let Some(goal) = wanted.goal {
            goal.clone_into(&mut made.plan.goal);
        }
        self.begin(made, &format!("{shown}#{}", workflow.id), workspace)
    }

    /// Refuses open tasks of roles that the team does not have; without a team, a plan that has been carried out with one and has
    /// open tasks of its roles. Says which tasks no worker will take.
    ///
    /// # Errors
    /// All of these.
    pub fn check_team(&self, found: &FoundPlan) -> Result {
        let Some(file) = &self.team else {
            return self.check_teamless(found);
        };
        let team = &file.team;
        let stranger = |(task, role): &(TaskId, Option<String>)| {
            let role = role.as_deref().filter(|role| team.role(role).is_none())?;
            let shown = one_line(role, 60);
            let what = format!("task {task} is for `{shown}`, a role that the team does not have");
            Some(Problem::new(what).with_hint(team.role_meant(role)))
        };
        file.refuse(found.open.iter().filter_map(stranger).collect())?;
        let mut unassigned = found.open.iter().filter(|(_, role)| role.is_none());
        if let (true, Some((first, _))) = (file.roles_only, unassigned.next()) {
            let more = and_more(unassigned.count());
            let hint = team.assignee_hint();
            complain!("! task {first}{more} without an assignee: {ONLY_ITS_OWN}; {hint}");
        }
        Ok(())
    }

    fn check_teamless(&self, found: &FoundPlan) -> Result {
        let head = &found.head;
        let (id, policy, source) = (&head.id, &head.policy, &head.source);
        let mut roles = found.open.iter().filter_map(|(_, role)| role.as_deref());
        let Some(role) = roles.find(|role| policy.roles.contains_key(*role)) else {
            return Ok(());
        };
        let team = source.as_deref().and_then(|source| source.split_once('#'));
        let team = team.map_or("FILE".to_owned(), |(file, _)| quoted(file));
        let role = one_line(role, 60);
        let error = anyhow!("the plan has open tasks of a team, such as of its role `{role}`");
        Err(Failure::usage(error).hint(format!("`{} resume {id} --team {team}`", self.program)))
    }

    /// Returns the line that would do it, with what was given and with what is missing.
    fn line_to_type(
        &self,
        wanted: &Wanted<'_>,
        workflow: &Workflow,
        given: &Map<String, Value>,
    ) -> String {
        let (program, command, team) = (&self.program, wanted.command, self.team_args.again());
        let mut line = format!("{program} {command}{team} --workflow {}", workflow.id);
        for parameter in &workflow.parameters {
            let sample = match (parameter.choices.first(), parameter.kind) {
                (Some(choice), _) => choice,
                (None, ParameterKind::Text) => "TEXT",
                (None, ParameterKind::Integer | ParameterKind::Number) => "1",
                (None, ParameterKind::Boolean) => "true",
            };
            let optional = parameter.default.is_some();
            let empty = |value: &Value| value.as_str().is_some_and(|text| text.trim().is_empty());
            let value = match given.get(&parameter.name) {
                None if optional => continue,
                Some(value) if optional || !empty(value) => parameter.accept(value).ok(),
                _ => None,
            };
            let value = value.unwrap_or_else(|| sample.to_owned());
            let pair = one_line(&format!("{}={value}", parameter.name), 200);
            line = format!("{line} --param {}", quoted(&pair));
        }
        format!("`{line}`")
    }
}

/// Returns what in a team file names something that is not there.
fn mismatches(team: &Team, config: &Config) -> Vec<Problem> {
    let checks: Vec<&str> = config.checks.keys().map(String::as_str).collect();
    let tools = Dialect::ALL.into_iter().flat_map(Dialect::tools);
    let tools = tools.map(|tool| format!("plan.{}", tool.name));
    let servers = config.mcp.keys().map(|server| format!("{server}.*"));
    let tools: Vec<String> = tools.chain(servers).collect();
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    team.problems(&KnownNames {
        checks: &checks,
        agents: &agents::names(),
        actions: &ACTIONS,
        tools: &tools,
    })
}

/// Returns the agents of the roles, and what stands for the text of the file and for those of the prompts.
fn parts(team: &Team, text: &str, prompts: &BTreeMap<String, String>) -> Parts {
    let agents = team.roles.iter().filter_map(|role| match &role.worker {
        Some(RoleWorker::Agent { name, argv }) => {
            let words = std::iter::once(name).chain(argv).map(|word| quoted(word));
            let words = joined(words, " ");
            Some((format!("the agent of `{}`", role.id), words))
        }
        _ => None,
    });
    let prompts = team.roles.iter().filter_map(|role| {
        let path = role.prompt.as_ref()?.display();
        let prompt = content_hash(prompts.get(&role.id)?);
        Some((format!("the prompt of `{}`, `{path}`", role.id), prompt))
    });
    let whole = ("the text of the file".to_owned(), content_hash(text));
    agents.chain(prompts).chain([whole]).collect()
}

/// Reads the prompts of the roles, by their ids; those that cannot be read are problems.
fn prompts(team: &Team, folder: &Path) -> (BTreeMap<String, String>, Vec<Problem>) {
    let (mut prompts, mut problems) = (BTreeMap::new(), Vec::new());
    for role in &team.roles {
        let Some(path) = &role.prompt else {
            continue;
        };
        match bounded_read::read_file(&folder.join(path), MAX_PROMPT) {
            Ok(text) => prompts.extend([(role.id.clone(), text)]),
            Err(error) => {
                let (path, id) = (one_line(&path.to_string_lossy(), 200), &role.id);
                let what =
                    format!("the prompt `{path}` of the role `{id}` cannot be read: {error}");
                let way = "write it, relative to the folder of the team file, or take `prompt` out";
                problems.push(role.place.problem(what).with_hint(way));
            }
        }
    }
    (prompts, problems)
}
