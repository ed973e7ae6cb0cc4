//! Team files: the roles that do tasks, and the workflows from which plans are made without a model. All problems of a
//! file are told at once, with line and column.

pub(crate) mod fill;
mod misfits;
mod role;
mod workflow;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Problem;
use super::node::{self, Fields, Node};
use super::plan_file::{PlanFile, nearest, suggestion};
use super::problem::{Place, Problems};
use super::text::{quote, safe_name};

pub use misfits::Known;
pub use workflow::{Parameter, ParameterKind, Workflow};

/// Bytes of a team file that are read at most.
pub const MAX_BYTES: usize = 256 * 1024;
/// Roles, workflows, and whatever else is listed, of each at most.
const MAX_ENTRIES: usize = 100;

/// Why a task without an assignee is not done where there is no agent for all.
pub const ONLY_ITS_OWN: &str = "every role of the team takes only its own tasks";

/// What a team file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Team {
    pub name: String,
    /// The name of its file, for plans to tell what they were made from; whoever reads the file sets it.
    pub file: String,
    /// Whether tasks without an assignee are for nobody, as there is no agent for all; whoever mans the team sets it.
    pub roles_only: bool,
    /// In the order of the file, each with an id of its own.
    pub roles: Vec<RoleSpec>,
    /// In the order of the file, each with an id of its own.
    pub workflows: Vec<Workflow>,
}

/// Somebody who does tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleSpec {
    /// `[A-Za-z0-9][A-Za-z0-9_-]{0,63}`; tasks name it as their assignee.
    pub id: String,
    pub kind: RoleKind,
    pub description: String,
    pub folder: RoleFolder,
    /// Who takes the commands of a role of kind `files`; `None` if it is whoever `--agent` names.
    pub worker: Option<RoleWorker>,
    /// A file with words for the role, relative to the team file.
    pub prompt: Option<PathBuf>,
    /// The actions that it may carry out besides `ask`, which every role inside the process has.
    pub actions: Vec<String>,
    /// The tools that it may use: `plan.<tool>`, or `<server>.<tool>`.
    pub tools: Vec<String>,
    pub templates: Vec<StepTemplate>,
    /// Tasks that it does side by side; at least one.
    pub concurrency: u32,
    /// How long a task may take; `None` leaves it to the plan.
    pub timeout: Option<Duration>,
    /// How long it waits for another role.
    pub collaboration_timeout: Duration,
    pub on_timeout: OnTimeout,
    /// Whether its kind is one that there is; nothing follows from it otherwise.
    kind_known: bool,
    place: Place,
}

/// Where the tasks of a role are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoleKind {
    /// By a coding agent, a program or a person behind the files.
    #[default]
    Files,
    /// Inside the process.
    Agent,
}

/// Where the commands of a role are put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoleFolder {
    /// With those of all others.
    #[default]
    Common,
    /// In a folder of its own.
    Own,
}

/// Who takes the commands of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleWorker {
    /// An agent by its name, as `--agent` knows it, and what would follow `--`.
    Agent { name: String, argv: Vec<String> },
    /// Somebody who is started elsewhere.
    External,
}

/// What is done when another role does not answer in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnTimeout {
    #[default]
    Fail,
    Retry,
    Replan,
}

/// A ready list of steps for tasks of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTemplate {
    pub name: String,
    /// Words that are all in the name or the description of the task, in any case; at least one.
    pub matches: Vec<String>,
    pub steps: Vec<StepSpec>,
}

/// One of these steps.
#[derive(Clone, Debug, PartialEq)]
pub struct StepSpec {
    pub name: String,
    pub does: StepDoes,
    place: Place,
}

/// What a step does. Texts in `params`, `description` and `context` may name `{{task.name}}`, `{{task.description}}`,
/// `{{context}}` and the result of an earlier step, `{{steps.1.result}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepDoes {
    /// Carries out one of the role's own actions.
    ExecuteAction {
        action: String,
        #[serde(default)]
        params: Map<String, Value>,
    },
    /// Uses one of its tools.
    UseTool {
        tool: String,
        #[serde(default)]
        params: Map<String, Value>,
    },
    /// Asks another role, and waits for the answer.
    RequestCollaboration {
        target: String,
        description: String,
        #[serde(default)]
        context: String,
    },
}

/// Reads a team file, YAML or JSON.
///
/// # Errors
/// All problems of the file, with line and column. What depends on the world outside is told by [`Team::misfits`].
pub fn parse(text: &str) -> Result<Team, Vec<Problem>> {
    match gather(text) {
        (team, none) if none.is_empty() => Ok(team),
        (_, problems) => Err(problems),
    }
}

/// As [`parse`], but returns a team with problems as far as it goes, so that what is wrong with the rest of it can be told with
/// them.
pub fn gather(text: &str) -> (Team, Vec<Problem>) {
    if text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes, more than {MAX_BYTES}", text.len());
        return (Team::default(), vec![Problem::new(message)]);
    }
    let node = match node::read(text) {
        Ok(node) => node,
        Err(problem) => return (Team::default(), vec![problem]),
    };
    let mut problems = Problems::default();
    let team = read(&node, &mut problems);
    (team, problems.in_order())
}

fn read(node: &Node, problems: &mut Problems) -> Team {
    let known = ["name", "roles", "workflows"];
    let Some(fields) = Fields::of(node, "the team", &known, problems) else {
        return Team::default();
    };
    let name = fields.string("name", problems);
    let roles = bounded(&fields, "roles", problems);
    if roles.is_empty() && fields.need("roles", "the team", problems).is_some() {
        problems.add(node.problem("the team has no roles"));
    }
    let roles = roles.iter().filter_map(|role| role::read(role, problems));
    let roles: Vec<RoleSpec> = roles.collect();
    refuse_twice(
        roles.iter().map(|role| (role.id.as_str(), role.place)),
        problems,
    );
    let workflows = bounded(&fields, "workflows", problems).iter();
    let workflows = workflows.filter_map(|workflow| workflow::read(workflow, problems));
    let workflows: Vec<Workflow> = workflows.collect();
    let ids = workflows.iter();
    let ids = ids.map(|workflow| (workflow.id.as_str(), workflow.structure.place));
    refuse_twice(ids, problems);
    let team = Team {
        name,
        file: String::new(),
        roles_only: false,
        roles,
        workflows,
    };
    team.check_names(problems);
    team
}

/// Returns a list that is not too long.
fn bounded<'a>(fields: &Fields<'a>, key: &str, problems: &mut Problems) -> &'a [Node] {
    let entries = fields.list(key, problems);
    if let Some(first) = entries.get(MAX_ENTRIES) {
        problems.add(first.problem(format!("`{key}` has more than {MAX_ENTRIES} entries")));
    }
    entries
}

/// Reads the id of a role or a workflow.
fn id(fields: &Fields<'_>, what: &str, problems: &mut Problems) -> Option<String> {
    let id = fields.word("id", what, problems)?;
    if !safe_name(id) {
        let message = format!("{} cannot be an id", quote(id));
        let problem = fields.place("id").problem(message);
        problems.add(problem.with_hint(
            "an id begins with a letter or a digit, and has only letters, digits, `_` and `-` in it, at most 64",
        ));
    }
    Some(id.to_owned())
}

fn refuse_twice<'a>(ids: impl Iterator<Item = (&'a str, Place)>, problems: &mut Problems) {
    let mut seen: BTreeMap<&str, Place> = BTreeMap::new();
    for (id, place) in ids.filter(|(id, _)| !id.is_empty()) {
        if let Some(first) = seen.get(id) {
            let line = first.line;
            let message = format!("the id {} is used twice, first on line {line}", quote(id));
            problems.add(place.problem(message));
        } else {
            seen.insert(id, place);
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

    /// Makes the plan of a workflow; it tells what it was made from.
    ///
    /// # Errors
    /// As [`Workflow::instantiate`], tasks for roles that the team does not have, and tasks for nobody.
    pub fn plan(
        &self,
        workflow: &Workflow,
        given: &Map<String, Value>,
    ) -> Result<PlanFile, Vec<Problem>> {
        let mut plan = workflow.instantiate(given)?;
        match self.misfits_of_plan(&plan) {
            none if none.is_empty() => {}
            problems => return Err(problems),
        }
        plan.source = Some(format!("{}#{}", self.file, workflow.id));
        Ok(plan)
    }

    /// Says which role was probably meant, or which there are.
    pub fn role_meant(&self, word: &str) -> String {
        let ids: Vec<&str> = self.roles.iter().map(|role| role.id.as_str()).collect();
        suggestion(word, &ids)
    }

    /// Says which workflow was probably meant, and which there are.
    pub fn workflow_meant(&self, word: &str) -> String {
        let all: Vec<&str> = self.workflow_ids();
        match (nearest(word, all.iter().copied()), all.as_slice()) {
            (_, []) => "the team file has no workflows".to_owned(),
            (Some(near), [_]) => format!("did you mean `{near}`?"),
            (None, [only]) => format!("the only workflow is {only}"),
            (Some(near), _) => {
                format!(
                    "did you mean `{near}`? The workflows are {}",
                    all.join(", ")
                )
            }
            (None, _) => format!("the workflows are {}", all.join(", ")),
        }
    }

    /// Returns the ids of the workflows, in the order of the file.
    pub fn workflow_ids(&self) -> Vec<&str> {
        let ids = self.workflows.iter();
        ids.map(|workflow| workflow.id.as_str()).collect()
    }
}

#[cfg(test)]
mod tests;
