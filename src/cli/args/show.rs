//! Commands that show plans, tasks and what happened to them.

use clap::{Args, ValueEnum};

use super::{OnPlan, OnPlanOrTask, OnTask};

#[derive(Debug, Args)]
pub struct PlansArgs {
    /// Those too that were put into the history or deleted, and what roles make of their tasks
    #[arg(long)]
    pub all: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub on: OnPlan,

    /// Show it again after every change, until the plan ends
    #[arg(long)]
    pub watch: bool,

    /// Show at most N tasks
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,

    /// Print JSON; with --watch one object a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    pub on: OnPlan,

    /// As a plan file (md), as it is stored (json), or as a graph for Graphviz (dot) or Mermaid
    #[arg(
        long,
        value_enum,
        default_value_t = PlanFormat::Md,
        hide_possible_values = true,
        value_name = "md|json|dot|mermaid"
    )]
    pub format: PlanFormat,

    /// As it was after change N; `log` shows the numbers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    pub at: Option<i64>,
}

/// How a plan is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    /// A plan file, which `run --plan` reads
    Md,
    /// Every row as it is stored
    Json,
    /// A graph for Graphviz
    Dot,
    /// A graph for Mermaid
    Mermaid,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without a task it lists the tasks that changed something, with --stat the files of each.\nOf a completed task it is what was accepted, of any other what is there so far. Lines are shown for plans whose tasks have\nworktrees: [run] isolation = \"worktree\".")]
pub struct DiffArgs {
    #[command(flatten)]
    pub on: OnPlanOrTask,

    /// Only list the files, with how many lines changed
    #[arg(long)]
    pub stat: bool,

    /// Show the task as it was after this attempt
    #[arg(long, value_name = "K")]
    pub attempt: Option<u32>,
}

#[derive(Debug, Args)]
pub struct OutcomesArgs {
    /// Count only from this day on, such as 2026-11-01, or for so long back, such as 7d
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct LogArgs {
    #[command(flatten)]
    pub on: OnPlan,

    /// Go on with what happens, until the plan ends
    #[arg(long)]
    pub follow: bool,

    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct LogsArgs {
    #[command(flatten)]
    pub on: OnTask,

    /// Of attempt K instead of the latest
    #[arg(long, value_name = "K")]
    pub attempt: Option<u32>,

    /// Go on with what the agent does, until the attempt ends
    #[arg(long)]
    pub follow: bool,
}
