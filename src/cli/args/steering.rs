//! Commands that steer a plan while it is carried out.

use clap::Args;

use super::value_parsers::{not_empty, task_number};
use crate::plan::TaskId;

#[derive(Debug, Args)]
#[command(
    override_usage = "plan-agent tell [OPTIONS] [PLAN] <N> <TEXT>",
    after_help = "Example:\n  plan-agent tell 3 \"the port is 8081\"\n
With --now the agent at work is stopped, and goes on in its session with your words: a new attempt. Only coding agents can."
)]
pub struct TellArgs {
    /// The number of the task; before it, the plan, by its key or the beginning of its id [default: as for `why`]
    #[arg(value_name = "N")]
    first: String,

    /// Your words
    #[arg(value_name = "TEXT", value_parser = not_empty)]
    second: String,

    #[arg(hide = true, value_parser = not_empty)]
    third: Option<String>,

    /// Do not wait for the next command
    #[arg(long)]
    pub now: bool,
}

impl TellArgs {
    /// Returns the plan, the task and the words that are meant.
    ///
    /// # Errors
    /// Says that the task is no number.
    pub fn meant(&self) -> Result<(Option<&str>, TaskId, &str), String> {
        let (plan, task, words) = match &self.third {
            Some(words) => (Some(self.first.as_str()), &self.second, words),
            None => (None, &self.first, &self.second),
        };
        let task = task_number(task).map_err(|error| format!("`{task}` {error}"))?;
        Ok((plan, task, words))
    }
}

/// Names a task, with words of the person.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub struct OnTask {
    /// The plan, by its key or the beginning of its id [default: the only unfinished one of a daemon, else its newest]
    pub plan: Option<String>,

    /// The number of the task
    #[arg(value_name = "N", value_parser = task_number)]
    pub task: TaskId,

    /// Why, in your words; they are in the log
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub note: String,
}

#[derive(Debug, Args)]
#[command(
    allow_missing_positional = true,
    after_help = "Of a task that is completed or was skipped, what relies on it opens again. A plan that has ended goes on."
)]
pub struct RetryArgs {
    /// The plan, by its key or the beginning of its id [default: the only unfinished one of a daemon, else its newest]
    pub plan: Option<String>,

    /// The number of the task
    #[arg(value_name = "N", value_parser = task_number)]
    pub task: TaskId,

    /// Words that go along to the agent
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub note: String,

    /// Do not ask before other tasks open again
    #[arg(long)]
    pub yes: bool,
}

#[derive(Debug, Args)]
#[command(
    allow_missing_positional = true,
    after_help = "Example:\n  plan-agent add \"Write the changelog\" --after 2,3"
)]
pub struct AddArgs {
    /// The plan, by its key or the beginning of its id [default: the only unfinished one of a daemon, else its newest]
    pub plan: Option<String>,

    /// What is to be done, in your words; the first line is the name of the task
    #[arg(value_parser = not_empty)]
    pub text: String,

    /// The tasks that it waits for
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = task_number)]
    pub after: Vec<TaskId>,

    /// A task that waits for it
    #[arg(long, value_name = "N", value_parser = task_number)]
    pub before: Option<TaskId>,

    /// The role that does it
    #[arg(long, value_name = "ROLE", value_parser = not_empty)]
    pub assignee: Option<String>,

    /// What is there when it is done
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub expected: String,

    /// A check of config.toml that it has to pass; once for each
    #[arg(long = "check", value_name = "NAME")]
    pub checks: Vec<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The editor is that of $VISUAL or $EDITOR, else vi. Tasks keep their numbers; a heading without one is a new task, \
and a task that you take out is skipped. Of tasks that have begun or ended nothing can be changed."
)]
pub struct EditArgs {
    /// The plan, by its key or the beginning of its id [default: the only unfinished one of a daemon, else its newest]
    pub plan: Option<String>,

    /// The number of the task; the whole plan if left out
    #[arg(value_name = "N", value_parser = task_number)]
    pub task: Option<TaskId>,
}

impl EditArgs {
    /// Returns the plan and the task that are meant: one word that is a number is a task.
    pub fn meant(&self) -> (Option<&str>, Option<TaskId>) {
        super::plan_or_task(self.plan.as_deref(), self.task)
    }
}
