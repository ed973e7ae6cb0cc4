//! What a person wants to be planned or carried out: a goal, a plan file or a workflow of the team, held against what there is.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use super::{App, CarryOut, Failure, NewPlanArgs, Result, beside, can_ask, confirm};
use crate::bounded_read;
use crate::config::{Isolation, Planner};
use crate::exec::project_head;
use crate::plan::{PlanHead, TaskSpec, Time, unless_empty};
use crate::steering::{self, GoalSettings};
use crate::tools::new_plan_id;
use crate::wire::{PlanFile, Problem, plan_file, quoted};

/// What a person says of the plan that is to be made.
pub struct Wanted<'a> {
    /// The subcommand, for the line to type.
    pub command: &'a str,
    pub goal: Option<&'a str>,
    pub plan: Option<&'a Path>,
    pub new: &'a NewPlanArgs,
}

/// A plan that is not stored yet, with its tasks; none if a model is to make them.
pub type NewPlan = (PlanHead, Vec<TaskSpec>);

impl App {
    /// Makes what is wanted, without storing it.
    ///
    /// # Errors
    /// What is wrong with what was said, no model can plan a goal, or the workspace cannot be worked in.
    pub async fn new_plan(&mut self, wanted: &Wanted<'_>, planner: &Planner) -> Result<NewPlan> {
        let new = wanted.new;
        let file = match (&new.workflow, wanted.plan) {
            (None, Some(path)) => Some((path, self.read_plan(path).await?)),
            _ => None,
        };
        let named = file.as_ref();
        let named = named.and_then(|(path, file)| Some((*path, file.workspace.as_deref()?)));
        let workspace = self.choose_workspace(new.workspace.as_deref(), named);
        let workspace = workspace.await?;
        let (mut head, tasks) = match (&new.workflow, file, wanted.goal) {
            (Some(workflow), ..) => self.plan_of_workflow(workflow, wanted, &workspace)?,
            (None, Some((path, file)), _) => {
                self.begin(file, &path.display().to_string(), &workspace)?
            }
            (None, None, Some(goal)) => (head_of(goal), Vec::new()),
            (None, None, None) => return Err(self.nothing_to_do()),
        };
        if tasks.is_empty() {
            self.can_plan(planner, wanted.command)?;
        }
        if let Some(name) = &new.name {
            head.name.clone_from(name);
        }
        if self.config.run.isolation == Isolation::Worktree {
            project_head(Path::new(&workspace), None).await?;
        }
        let named = head.goal.trim().is_empty();
        let words = if named { &head.name } else { &head.goal };
        head.language = Some(self.config.run.language.of(words));
        head.workspace = workspace;
        Ok((head, tasks))
    }

    /// Refuses a goal that no model can plan.
    fn can_plan(&self, planner: &Planner, command: &str) -> Result {
        let Planner::Rules { why } = planner else {
            return Ok(());
        };
        let way = self.config.way_to_a_model();
        let hint = match command {
            "run" => format!("{way}, or give a plan file: `run --plan FILE`"),
            _ => way.to_owned(),
        };
        Err(Failure::usage(anyhow!("no language model can plan the goal: {why}")).hint(hint))
    }

    /// Returns what goals that come without a terminal are made plans with, as `run` without flags resolves it.
    ///
    /// # Errors
    /// What is configured is not confirmed, no model can plan a goal, or agents cannot work there.
    pub async fn goal_settings(&mut self) -> Result<GoalSettings> {
        let how = CarryOut {
            no_input: true,
            ..CarryOut::default()
        };
        let workers = self.with_workers(&how).await?;
        self.can_plan(&workers.planner, "web")?;
        let workspace = self.choose_workspace(None, None).await?;
        Ok(GoalSettings {
            project: self.config.project_in(Path::new(&workspace)),
            workspace,
            language: self.config.run.language,
            queue: self.queue_entry(&workers),
        })
    }

    /// Reads a plan file.
    ///
    /// # Errors
    /// It cannot be read; or everything that is wrong in it, with what does not fit what there is here.
    async fn read_plan(&self, path: &Path) -> Result<PlanFile> {
        let file = path.to_owned();
        let text = beside(move || {
            bounded_read::read_file(&file, plan_file::MAX_BYTES)
                .with_context(|| format!("failed to read the plan file `{}`", file.display()))
                .map_err(Failure::usage)
        })
        .await?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (file, mut problems) = plan_file::read(&name, &text);
        if problems.is_empty() {
            return Ok(file);
        }
        problems.extend(self.mismatches(&file, &self.config.workspace()));
        problems.sort_by_key(|problem| problem.place);
        Err(Failure::problems(&path.display().to_string(), &problems))
    }

    /// Returns the plan file that a goal names, if the person says that it is one; unless a person may be asked, it is refused.
    ///
    /// # Errors
    /// The goal names a file, and no person can be asked what is meant.
    pub async fn goal_file(&self, goal: Option<&str>, may_ask: bool) -> Result<Option<PathBuf>> {
        let Some(path) = goal.map(Path::new).filter(|path| path.is_file()) else {
            return Ok(None);
        };
        let name = quoted(&path.to_string_lossy());
        if may_ask && can_ask() {
            let question = format!("`{name}` is a file. Carry it out as a plan file?");
            return Ok(confirm(&question).await?.then(|| path.to_owned()));
        }
        let error = anyhow!("the goal `{name}` is the name of a file");
        Err(Failure::usage(error).hint(format!(
            "`{} run --plan {name}` carries a plan file out; a goal is a sentence",
            self.program
        )))
    }

    /// Returns what could be carried out, where nothing was named.
    fn nothing_to_do(&self) -> Failure {
        let run = format!("{} run{}", self.program, self.team_args.again());
        let otherwise = format!("`{run} \"what is to be reached\"`, or `{run} --plan FILE`");
        let workflows = self.team.iter().flat_map(|file| file.team.workflow_ids());
        let workflows: Vec<&str> = workflows.collect();
        let Some((first, others)) = workflows.split_first() else {
            let error = anyhow!("there is neither a goal nor a plan file");
            return Failure::usage(error).hint(otherwise);
        };
        let others = unless_empty(&others.join(", "), |others| format!(" (or {others})"));
        let error = anyhow!("there is neither a goal nor a workflow nor a plan file");
        Failure::usage(error).hint(format!("`{run} --workflow {first}`{others}, {otherwise}"))
    }

    /// Makes a plan of what a file says, if it can be carried out in a workspace.
    ///
    /// # Errors
    /// It names checks or roles that are not there, or files outside of the workspace.
    pub fn begin(&self, file: PlanFile, shown: &str, workspace: &str) -> Result<NewPlan> {
        let problems = self.mismatches(&file, Path::new(workspace));
        if !problems.is_empty() {
            return Err(Failure::problems(shown, &problems));
        }
        let plan = file.plan;
        let mut head = head_of(&plan.goal);
        head.name = plan.name;
        head.description = plan.description;
        head.expected_outcome = plan.expected_outcome;
        head.constraints = plan.constraints;
        head.source = plan.source;
        head.empty_steps = plan.empty_steps;
        head.order = plan.order.unwrap_or_default();
        Ok((head, plan.tasks))
    }

    /// Returns what is wrong with a plan file that is to be carried out in a workspace, and by the team.
    pub fn mismatches(&self, plan: &PlanFile, workspace: &Path) -> Vec<Problem> {
        let checks = self.config.checks.keys().map(String::as_str);
        let mut problems = steering::mismatches(plan, &checks, workspace);
        if let Some(file) = &self.team {
            problems.extend(file.team.assignee_problems(&plan.plan));
            if file.roles_only {
                problems.extend(file.team.without_assignee(&plan.plan.tasks));
            }
        }
        problems
    }
}

fn head_of(goal: &str) -> PlanHead {
    PlanHead::new(new_plan_id(), goal, Time::default())
}
