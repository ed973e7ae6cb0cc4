//! Commands that make plans and carry them out.

use std::path::PathBuf;

use clap::Args;

use super::value_parsers::{not_empty, param};
use super::{CarryOut, OnPlan, TEAM, TeamArgs};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plan-agent run --plan examples/quickstart.md --agent shell
  plan-agent run \"Add a health endpoint\" --review --agent claude
  plan-agent run \"Translate the docs\" --detach
  plan-agent run --team examples/team.yaml --workflow feature --param feature=\"a health endpoint\"

Without --agent, the commands wait for `plan-agent worker`, another program, or a person.")]
pub struct RunArgs {
    /// What is to be reached, in your words
    #[arg(value_parser = not_empty)]
    pub goal: Option<String>,

    /// Carry out this plan file instead of asking a model for a plan
    #[arg(long, value_name = "FILE", conflicts_with_all = ["goal", "workflow"])]
    pub plan: Option<PathBuf>,

    #[command(flatten)]
    pub new: NewPlanArgs,

    /// Show the plan and ask before anything starts
    #[arg(long)]
    pub review: bool,

    #[command(flatten)]
    pub queue: QueueArgs,

    #[command(flatten)]
    pub carry_out: CarryOut,
}

/// What `daemon` carries out: what is queued, until it is stopped, unless `run` leaves it behind for more.
#[derive(Debug, Args)]
pub struct DaemonArgs {
    /// The plan to carry out first
    #[arg(hide = true, requires = "confirmed")]
    pub plan: Option<String>,

    /// What stands for the settings that the process which starts it made sure of
    #[arg(long, hide = true)]
    pub confirmed: Option<String>,

    /// Serve the page meanwhile, as `web` does
    #[arg(long)]
    pub web: bool,

    /// Without a terminal, until every queued plan has ended
    #[arg(long, hide = true, conflicts_with = "plan")]
    pub rest: bool,
}

/// Whether and when a daemon of the folder carries a new plan out.
#[derive(Debug, Default, Args)]
pub struct QueueArgs {
    /// Leave the plan to the daemon of this folder, and return
    #[arg(long, conflicts_with_all = ["detach", "json", "quiet", "web"])]
    pub queue: bool,

    /// Begin when this plan has ended
    #[arg(long, value_name = "PLAN", requires = "queue")]
    pub after: Option<String>,

    /// Begin before queued plans of a lower number
    #[arg(
        long,
        value_name = "NUMBER",
        requires = "queue",
        allow_negative_numbers = true
    )]
    pub priority: Option<i32>,
}

/// What a new plan is called, where its tasks are done, and the workflow that it is made from without asking a model.
#[derive(Debug, Args)]
pub struct NewPlanArgs {
    /// What to call the plan
    #[arg(long)]
    pub name: Option<String>,

    /// The folder that agents work in
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,

    /// Make the plan from this workflow of the team, without asking a model; the goal may then be left out
    #[arg(long, help_heading = TEAM)]
    pub workflow: Option<String>,

    /// A parameter of the workflow; once for each
    #[arg(
        long = "param",
        value_name = "NAME=VALUE",
        requires = "workflow",
        value_parser = param,
        help_heading = TEAM
    )]
    pub params: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub struct MakePlan {
    /// What is to be reached, in your words
    #[arg(value_parser = not_empty, required_unless_present = "workflow")]
    pub goal: Option<String>,

    #[command(flatten)]
    pub new: NewPlanArgs,

    #[command(flatten)]
    pub team: TeamArgs,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
It goes on with the agent, the team, the model and the rights that it was begun with, and says so; flags name others.")]
pub struct ResumeArgs {
    #[command(flatten)]
    pub on: OnPlan,

    /// Take over a plan of another folder without a daemon, or of a moved project
    #[arg(long)]
    pub here: bool,

    #[command(flatten)]
    pub carry_out: CarryOut,
}
