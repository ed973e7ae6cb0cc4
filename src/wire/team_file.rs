//! Team files: the roles that do tasks, and the workflows from which plans are made without a model. All problems of a file are
//! reported together, with line and column.

mod name_checks;
pub(crate) mod placeholders;
mod role;
mod workflow;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::plan_file::suggestion;
use super::problem::checked;
use super::{
    Checked, Place, PlanFile, Problem, Problems, YamlFields, YamlNode, nearest, quote, safe_name,
    yaml_tree,
};
use crate::plan::words;

pub use name_checks::{ACTIONS, KnownNames};
pub use role::{PlacedStep, RoleSpec, RoleWorker, StepDoes, StepSpec, StepTemplate};
pub use workflow::{Parameter, ParameterKind, Workflow, plan_of_workflow};

/// The most bytes of a team file.
pub const MAX_BYTES: usize = 256 * 1024;
/// The most roles, workflows, or entries of any other list.
const MAX_ENTRIES: usize = 100;

/// Why a task without an assignee is not done if no agent takes all tasks.
pub const ONLY_ITS_OWN: &str = "every role of the team takes only its own tasks";

/// The content of a team file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Team {
    pub name: String,
    /// The name of its file, which plans record as their source; the code that reads the file sets it.
    pub file: String,
    /// Whether tasks without an assignee have no worker, because no agent takes all tasks; the code that starts the team's
    /// workers sets it.
    pub roles_only: bool,
    /// In the order of the file, each with an id of its own.
    pub roles: Vec<RoleSpec>,
    /// In the order of the file, each with an id of its own.
    pub workflows: Vec<Workflow>,
}

words! {
    /// Where the tasks of a role are done.
    #[derive(Default)]
    pub enum RoleKind {
        /// By a coding agent, a program or a person that exchanges files.
        #[default]
        Files = "files",
        /// Inside the process.
        Agent = "agent",
    }
}

words! {
    /// Where the commands of a role are published.
    #[derive(Default)]
    pub enum RoleFolder {
        /// In the common folder, with the commands of all other roles.
        #[default]
        Common = "common",
        /// In a folder of its own.
        Own = "own",
    }
}

words! {
    /// What follows if another role does not answer in time.
    #[derive(Default)]
    pub enum OnTimeout {
        #[default]
        Fail = "fail",
        Retry = "retry",
        Replan = "replan",
    }
}

/// Reads a team file, YAML or JSON.
///
/// # Errors
/// All problems of the file, with line and column. Problems that depend on what exists outside the file are returned by
/// [`Team::problems`].
pub fn parse(text: &str) -> Checked<Team> {
    let (team, problems) = gather(text);
    checked(team, problems)
}

/// As [`parse`], but returns a team with problems as far as it could be read, so that problems of the rest can be reported
/// together with them.
pub fn gather(text: &str) -> (Team, Vec<Problem>) {
    if text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes, more than {MAX_BYTES}", text.len());
        return (Team::default(), vec![Problem::new(message)]);
    }
    let node = match yaml_tree::read(text) {
        Ok(node) => node,
        Err(problem) => return (Team::default(), vec![problem]),
    };
    let problems = Problems::default();
    (read(&node, &problems), problems.in_order())
}

fn read(node: &YamlNode, problems: &Problems) -> Team {
    let Some(fields) = YamlFields::of(node, "the team", "name roles workflows", problems) else {
        return Team::default();
    };
    let roles = bounded(&fields, "roles");
    if roles.is_empty() && fields.need("roles").is_some() {
        problems.add(node.problem("the team has no roles"));
    }
    let roles = roles.iter().filter_map(|role| role::read(role, problems));
    let workflows = bounded(&fields, "workflows").iter();
    let workflows = workflows.filter_map(|workflow| workflow::read(workflow, problems));
    let team = Team {
        name: fields.string("name"),
        roles: roles.collect(),
        workflows: workflows.collect(),
        ..Team::default()
    };
    let roles = team.roles.iter().map(|role| (&*role.id, role.place));
    refuse_twice(roles, problems);
    let workflows = team.workflows.iter();
    let workflows = workflows.map(|workflow| (&*workflow.id, workflow.structure.place));
    refuse_twice(workflows, problems);
    team.check_names(problems);
    team
}

/// Returns a list if it is not too long.
fn bounded<'a>(fields: &YamlFields<'a>, key: &str) -> &'a [YamlNode] {
    let entries = fields.list(key);
    if let Some(first) = entries.get(MAX_ENTRIES) {
        let message = format!("`{key}` has more than {MAX_ENTRIES} entries");
        fields.problems.add(first.problem(message));
    }
    entries
}

/// Reads the id of a role or a workflow.
fn id(fields: &YamlFields<'_>) -> String {
    let id = fields.word("id").unwrap_or_default();
    if !id.is_empty() && !safe_name(id) {
        let message = format!("{} cannot be an id", quote(id));
        let hint = "an id begins with a letter or a digit, and has only letters, digits, `_` and `-` in it, at most 64";
        fields.refuse_value("id", message, hint);
    }
    id.to_owned()
}

fn refuse_twice<'a>(ids: impl Iterator<Item = (&'a str, Place)>, problems: &Problems) {
    let mut seen: BTreeMap<&str, Place> = BTreeMap::new();
    for (id, place) in ids.filter(|(id, _)| !id.is_empty()) {
        let first = *seen.entry(id).or_insert(place);
        if first != place {
            let (id, line) = (quote(id), first.line);
            problems.add(place.problem(format!("the id {id} is used twice, first on line {line}")));
        }
    }
}

impl Team {
    /// Returns a role by its id.
    pub fn role(&self, id: &str) -> Option<&RoleSpec> {
        self.roles.iter().find(|role| role.id == id)
    }

    /// Returns a workflow by its id.
    pub fn workflow(&self, id: &str) -> Option<&Workflow> {
        self.workflows.iter().find(|workflow| workflow.id == id)
    }

    /// Creates the plan of a workflow; the plan records its source.
    ///
    /// # Errors
    /// As [`Workflow::instantiate`], tasks for roles that the team does not have, and tasks without a worker.
    pub fn plan(&self, workflow: &Workflow, given: &Map<String, Value>) -> Checked<PlanFile> {
        let mut file = workflow.instantiate(given)?;
        checked((), self.assignee_problems(&file.plan))?;
        file.plan.source = Some(format!("{}#{}", self.file, workflow.id));
        Ok(file)
    }

    /// Returns the ids of the roles, in the order of the file.
    pub fn role_ids(&self) -> Vec<&str> {
        self.roles.iter().map(|role| role.id.as_str()).collect()
    }

    /// Returns which role was probably meant, or which exist.
    pub fn role_meant(&self, word: &str) -> String {
        suggestion(word, self.role_ids().into_iter())
    }

    /// Returns which workflow was probably meant, and which exist.
    pub fn workflow_meant(&self, word: &str) -> String {
        let ids = self.workflow_ids();
        let all = ids.join(", ");
        match (nearest(word, ids.iter().copied()), ids.as_slice()) {
            (_, []) => "the team file has no workflows".to_owned(),
            (Some(near), [_]) => format!("did you mean `{near}`?"),
            (None, [only]) => format!("the only workflow is {only}"),
            (Some(near), _) => format!("did you mean `{near}`? The workflows are {all}"),
            (None, _) => format!("the workflows are {all}"),
        }
    }

    /// Returns the ids of the workflows, in the order of the file.
    pub fn workflow_ids(&self) -> Vec<&str> {
        let workflows = self.workflows.iter();
        workflows.map(|workflow| workflow.id.as_str()).collect()
    }
}

#[cfg(test)]
mod tests;
