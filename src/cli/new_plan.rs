//! What a person wants to be planned or carried out: a goal, a plan file or a workflow of the team, held against what there is.

use std::path::Path;

use anyhow::{Context, anyhow};
use rustix::fs::Access;

use super::app::App;
use super::args;
use super::failure::Failure;
use super::signals;
use crate::bounded_read;
use crate::config::{Isolation, Planner};
use crate::exec::{self, project_head};
use crate::plan::{PlanHead, Repository, TaskSpec, Time};
use crate::tools::new_plan_id;
use crate::wire::Problem;
use crate::wire::plan_file::{self, PlanFile, Reference};
use crate::wire::team_file::Team;

/// What a person says of the plan that is to be made.
pub(super) struct Wanted<'a> {
    /// The subcommand, for the line to type.
    pub command: &'a str,
    pub goal: Option<&'a str>,
    pub plan: Option<&'a Path>,
    pub made_from: &'a args::MadeFrom,
    pub name: Option<&'a str>,
    pub workspace: Option<&'a Path>,
    pub team: &'a args::TeamArgs,
}

impl App {
    /// Makes what is wanted, without storing it. There are no tasks if a model is to make them.
    ///
    /// # Errors
    /// What is wrong with what was said, there is nobody to plan a goal, or the workspace cannot be worked in.
    pub(super) async fn new_plan(
        &self,
        wanted: &Wanted<'_>,
        planner: &Planner,
    ) -> Result<(PlanHead, Vec<TaskSpec>), Failure> {
        let workspace = self.workspace(wanted.workspace)?;
        let (mut head, tasks) = match (&wanted.made_from.workflow, wanted.plan, wanted.goal) {
            (Some(workflow), ..) => self.plan_of_workflow(workflow, wanted, &workspace)?,
            (None, Some(path), _) => self.read_plan(path, &workspace).await?,
            (None, None, Some(goal)) => (
                PlanHead::new(new_plan_id(), goal, Time::default()),
                Vec::new(),
            ),
            (None, None, None) => return Err(self.nothing_to_do(wanted.team)),
        };
        if let (Planner::Rules { why }, true) = (planner, tasks.is_empty()) {
            let way = self.config.way_to_a_model();
            let hint = match wanted.command {
                "run" => format!("{way}, or give a plan file: `run --plan FILE`"),
                _ => way.to_owned(),
            };
            let error = anyhow!("no language model can plan the goal: {why}");
            return Err(Failure::usage(error).hint(hint));
        }
        if let Some(name) = wanted.name {
            name.clone_into(&mut head.name);
        }
        if self.config.run.isolation == Isolation::Worktree {
            usable_project(&workspace, None).await?;
        }
        head.workspace = workspace;
        Ok((head, tasks))
    }

    /// Tells what there is to be done, where nothing was named.
    fn nothing_to_do(&self, team: &args::TeamArgs) -> Failure {
        let program = &self.program;
        let workflows = self.team.iter().flat_map(|file| file.team.workflow_ids());
        let workflows: Vec<&str> = workflows.collect();
        let again = team.again();
        let by_goal = format!("`{program} run{again} \"what is to be reached\"`");
        match workflows.split_first() {
            None => Failure::usage(anyhow!("there is neither a goal nor a plan file"))
                .hint(format!("{by_goal}, or `{program} run{again} --plan FILE`")),
            Some((first, rest)) => {
                let others = match rest {
                    [] => String::new(),
                    rest => format!(" (or {})", rest.join(", ")),
                };
                Failure::usage(anyhow!(
                    "there is neither a goal nor a workflow nor a plan file"
                ))
                .hint(format!(
                    "`{program} run{again} --workflow {first}`{others}, {by_goal}, or `{program} run{again} --plan FILE`"
                ))
            }
        }
    }

    /// Reads a plan file that is to be carried out in a workspace.
    async fn read_plan(
        &self,
        path: &Path,
        workspace: &str,
    ) -> Result<(PlanHead, Vec<TaskSpec>), Failure> {
        let shown = path.display().to_string();
        let file = path.to_owned();
        let text = signals::beside(move || {
            bounded_read::read_file(&file, plan_file::MAX_BYTES)
                .with_context(|| format!("failed to read the plan file `{}`", file.display()))
                .map_err(Failure::usage)
        })
        .await?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let file = plan_file::parse(&name, &text)
            .map_err(|problems| Failure::problems(&shown, &problems))?;
        self.begin(file, &shown, workspace)
    }

    /// Makes a plan of what a file says, if it can be carried out in a workspace.
    ///
    /// # Errors
    /// It names checks or roles that are not there, or files outside of the workspace.
    pub(super) fn begin(
        &self,
        file: PlanFile,
        shown: &str,
        workspace: &str,
    ) -> Result<(PlanHead, Vec<TaskSpec>), Failure> {
        let team = self.team.as_ref().map(|file| &file.team);
        let mut problems = self.mismatches(&file, Path::new(workspace), team);
        if let Some(team) = self.team.as_ref().filter(|team| team.roles_only) {
            problems.extend(team.team.without_assignee(&file.plan.tasks));
        }
        if !problems.is_empty() {
            return Err(Failure::problems(shown, &problems));
        }
        let plan = file.plan;
        let mut head = PlanHead::new(new_plan_id(), &plan.goal, Time::default());
        head.name = plan.name;
        head.description = plan.description;
        head.expected_outcome = plan.expected_outcome;
        head.constraints = plan.constraints;
        head.source = plan.source;
        head.order = plan.order.unwrap_or_default();
        Ok((head, plan.tasks))
    }

    /// Returns what is wrong with a plan file that is to be carried out in a workspace, and by a team.
    pub(super) fn mismatches(
        &self,
        file: &PlanFile,
        workspace: &Path,
        team: Option<&Team>,
    ) -> Vec<Problem> {
        let checks = self.config.checks.keys().map(String::as_str);
        let mut problems = file.unknown_checks(&checks);
        let out = |file: &&Reference| exec::leads_out(workspace, &file.word);
        problems.extend(file.produced.iter().filter(out).map(|file| {
            let message = format!("`{}` leads out of the workspace through a link", file.word);
            file.problem(message)
                .with_hint("name a file that is in the workspace itself")
        }));
        problems.extend(
            team.into_iter()
                .flat_map(|team| team.assignee_problems(&file.plan)),
        );
        problems
    }

    /// Returns the folder that agents are to work in: the named one, else the one that is configured. Only the one in the
    /// exchange folder is made when it is missing.
    fn workspace(&self, named: Option<&Path>) -> Result<String, Failure> {
        let path = named.map_or_else(|| self.config.workspace(), Path::to_owned);
        let path = std::path::absolute(&path)
            .with_context(|| format!("failed to find the workspace `{}`", path.display()))?;
        self.usable(&path)?;
        Ok(path.display().to_string())
    }

    /// Looks whether agents can work in a folder.
    ///
    /// # Errors
    /// It is not there, is no folder, or cannot be written to.
    pub(super) fn usable(&self, workspace: &Path) -> Result<(), Failure> {
        let name = workspace.display();
        let refused = |what: String, hint| Err(Failure::usage(anyhow!("{what}")).hint(hint));
        if !workspace.exists() {
            if workspace.starts_with(self.config.root()) {
                return Ok(());
            }
            return refused(
                format!("the workspace `{name}` does not exist"),
                "make the folder, or name another one: --workspace DIR",
            );
        }
        if !workspace.is_dir() {
            return refused(
                format!("the workspace `{name}` is no folder"),
                "name a folder: --workspace DIR",
            );
        }
        let access = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::access(workspace, access).or_else(|error| {
            let error = std::io::Error::from(error);
            refused(
                format!("the workspace `{name}` cannot be written to: {error}"),
                "make it writable, or name another one: --workspace DIR",
            )
        })
    }
}

/// Refuses a workspace in which tasks cannot have worktrees.
///
/// # Errors
/// It is no git project, or git is missing or too old.
pub(super) async fn usable_project(
    workspace: &str,
    known: Option<Repository>,
) -> Result<(), Failure> {
    let head = project_head(Path::new(workspace), known).await;
    head.map(drop)
        .map_err(|error| Failure::hinted(error, |error| error.hint()))
}
