//! References that cannot be resolved: names within the team file, and names of what exists only outside it.

use serde_json::Value;

use super::{
    ONLY_ITS_OWN, PlacedStep, RoleKind, RoleSpec, RoleWorker, StepDoes, Team, Workflow,
    placeholders,
};
use crate::plan::{PlanSpec, TaskSpec};
use crate::wire::plan_file::{suggestion, unknown_check};
use crate::wire::{Place, Problem, Problems, YamlNode, nearest, one_line, quote};

/// The names of the built-in actions.
pub const ACTIONS: [&str; 4] = ["ask", "read_file", "write_file", CHECKS];

/// The actions that every role inside the process has: its model does the task, and another role is asked.
const ALWAYS: [&str; 2] = ["ask", "RequestCollaboration"];

/// The action that runs a configured check, which its parameter `name` names.
const CHECKS: &str = "run_check";

/// What exists outside the team file.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownNames<'a> {
    /// The names of the configured checks.
    pub checks: &'a [&'a str],
    /// The agents that can be started, by name.
    pub agents: &'a [&'a str],
    /// The actions that are registered.
    pub actions: &'a [&'a str],
    /// The registered tools; `docs.*` stands for all tools of a server, which lists them only once it runs.
    pub tools: &'a [&'a str],
}

impl KnownNames<'_> {
    /// Returns that there is no check of this name, unless a parameter is in it.
    fn no_check(&self, place: Place, name: &str) -> Option<Problem> {
        let known = self.checks.iter().copied();
        let there = self.checks.contains(&name) || placeholders::has_name(name);
        (!there).then(|| unknown_check(place, name, known))
    }

    fn has_tool(&self, name: &str) -> bool {
        let mut tools = self.tools.iter();
        tools.any(|known| match known.strip_suffix('*') {
            Some(server) => name.starts_with(server) && name != server,
            None => *known == name,
        })
    }
}

impl Team {
    /// Collects names that should be in the team file but are not.
    pub(super) fn check_names(&self, problems: &Problems) {
        for role in &self.roles {
            self.check_templates(role, problems);
        }
        for task in self.workflows.iter().flat_map(Workflow::tasks) {
            if let Some(node) = task.get("assignee")
                && let Some(id) = node.text().filter(|id| !id.is_empty())
                && !placeholders::has_name(id)
                && self.role(id).is_none()
            {
                let problem = node.problem(format!("there is no role {}", quote(id)));
                problems.add(problem.with_hint(self.role_meant(id)));
            }
        }
    }

    fn check_templates(&self, role: &RoleSpec, problems: &Problems) {
        for step in role.steps() {
            let listed = |list: &[String], name: &str, what: &str| {
                let problem = format!("the role `{}` has no {what} {}", role.id, quote(name));
                let names: Vec<&str> = list.iter().map(String::as_str).collect();
                let hint = match nearest(name, names.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if what == "action" && !ACTIONS.contains(&name) => {
                        format!("the built-in actions are {}", ACTIONS.join(", "))
                    }
                    None => format!("list it under `{what}s` of the role"),
                };
                (!names.contains(&name)).then(|| step.place.problem(problem).with_hint(hint))
            };
            let found = match &step.spec.does {
                StepDoes::ExecuteAction { action, .. } if ALWAYS.contains(&&**action) => None,
                StepDoes::ExecuteAction { action, .. } => listed(&role.actions, action, "action"),
                StepDoes::UseTool { tool, .. } => listed(&role.tools, tool, "tool"),
                StepDoes::RequestCollaboration { target, .. } if *target == role.id => {
                    let problem = format!("the role {} asks itself", quote(target));
                    Some(step.place.problem(problem))
                }
                StepDoes::RequestCollaboration { target, .. } => {
                    let problem = format!("there is no role {}", quote(target));
                    let problem = step.place.problem(problem);
                    let unknown = self.role(target).is_none();
                    unknown.then(|| problem.with_hint(self.role_meant(target)))
                }
            };
            found.into_iter().for_each(|problem| problems.add(problem));
        }
    }

    /// Returns the names that refer to something that does not exist, as problems.
    pub fn problems(&self, known: &KnownNames<'_>) -> Vec<Problem> {
        let problems = Problems::default();
        for role in &self.roles {
            role_problems(role, known, &problems);
        }
        for task in self.workflows.iter().flat_map(Workflow::tasks) {
            let checks = task.list("checks").unwrap_or_default();
            let unknown = |check: &YamlNode| known.no_check(check.place, check.text()?);
            let unknown = checks.iter().filter_map(unknown);
            unknown.for_each(|problem| problems.add(problem));
        }
        problems.in_order()
    }

    /// Returns the roles of kind `files` that have no worker unless one agent is named for all roles, as problems.
    pub fn without_worker(&self) -> Vec<Problem> {
        let idle = |role: &&RoleSpec| {
            role.kind == RoleKind::Files && role.kind_known && role.worker.is_none()
        };
        let problem = |role: &RoleSpec| {
            role.place.problem(format!("the role `{}` has no agent", role.id)).with_hint(
                "write `worker: claude`, or another agent; `worker: external` if it is started elsewhere; or name one for all: --agent",
            )
        };
        self.roles.iter().filter(idle).map(problem).collect()
    }

    /// Returns the problems with the assignees of a plan: roles that the team does not have and, where every role takes only
    /// its own tasks, tasks without an assignee.
    pub fn assignee_problems(&self, plan: &PlanSpec) -> Vec<Problem> {
        let unknown_role = |task: &TaskSpec| {
            let id = task.assignee.as_deref()?;
            let (name, role) = (quote(&task.name), quote(id));
            let problem = Problem::new(format!(
                "the task {name} is for {role}, a role that the team does not have"
            ));
            (self.role(id).is_none()).then(|| problem.with_hint(self.role_meant(id)))
        };
        let mut problems: Vec<Problem> = plan.tasks.iter().filter_map(unknown_role).collect();
        if self.roles_only {
            problems.extend(self.without_assignee(&plan.tasks));
        }
        problems
    }

    /// Returns the tasks that have no worker where every role takes only its own tasks, as problems: those without an assignee.
    pub fn without_assignee(&self, tasks: &[TaskSpec]) -> Vec<Problem> {
        let open = |task: &&TaskSpec| task.assignee.is_none() && !task.done;
        let unassigned = |task: &TaskSpec| {
            let name = quote(&task.name);
            Problem::new(format!(
                "the task {name} has no assignee, and {ONLY_ITS_OWN}"
            ))
        };
        let mut problems: Vec<Problem> = tasks.iter().filter(open).map(unassigned).collect();
        // All problems have the same hint; only the last one shows it.
        if let Some(last) = problems.last_mut() {
            last.hint = Some(self.assignee_hint());
        }
        problems
    }

    /// Returns how a task without an assignee gets a worker.
    pub fn assignee_hint(&self) -> String {
        let roles = one_line(&self.role_ids().join(", "), 200);
        format!("name a role as its `assignee` ({roles}), or an agent for all: --agent")
    }

    /// Returns the tasks of workflows that have no assignee, with their places.
    pub fn unassigned(&self) -> Vec<Problem> {
        let problems = Problems::default();
        for workflow in &self.workflows {
            for task in workflow.tasks() {
                let named = task.get("assignee").and_then(YamlNode::text);
                if named.is_none_or(|id| id.trim().is_empty()) {
                    let name = task.get("task_id").and_then(YamlNode::text);
                    let message = format!(
                        "the task {} of the workflow `{}` has no assignee: only an agent for all takes it",
                        quote(name.unwrap_or_default()),
                        workflow.id
                    );
                    problems.add(task.problem(message));
                }
            }
        }
        problems.in_order()
    }
}

impl RoleSpec {
    /// Returns the steps of all templates.
    pub fn steps(&self) -> impl Iterator<Item = PlacedStep<'_>> {
        let steps = self.templates.iter().flat_map(|template| {
            let steps = (1..).zip(&template.steps);
            steps.map(move |(number, spec)| (template, number, spec))
        });
        let placed = |((template, number, spec), place): (_, &Place)| PlacedStep {
            template,
            number,
            spec,
            place: *place,
        };
        steps.zip(&self.step_places).map(placed)
    }
}

/// Collects the names in a role that refer to nothing.
fn role_problems(role: &RoleSpec, known: &KnownNames<'_>, problems: &Problems) {
    let unknown = |what: &str, name: &str, words: &[&str]| {
        let (role_id, shown) = (&role.id, quote(name));
        let message = format!("the role `{role_id}` names {what} {shown}, which is not there");
        let problem = role.place.problem(message);
        problems.add(problem.with_hint(suggestion(name, words.iter().copied())));
    };
    if let Some(RoleWorker::Agent { name, .. }) = &role.worker
        && !known.agents.contains(&name.as_str())
    {
        unknown("the worker", name, &[known.agents, &["external"]].concat());
    }
    for action in &role.actions {
        if !known.actions.contains(&action.as_str()) {
            unknown("the action", action, known.actions);
        }
    }
    for tool in &role.tools {
        if !known.has_tool(tool) {
            unknown("the tool", tool, known.tools);
        }
    }
    for step in role.steps() {
        if let StepDoes::ExecuteAction { action, params } = &step.spec.does
            && action == CHECKS
            && let Some(name) = params.get("name").and_then(Value::as_str)
            && let Some(problem) = known.no_check(step.place, name)
        {
            problems.add(problem);
        }
    }
}
