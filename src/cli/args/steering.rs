//! Commands that steer a plan: its questions, its tasks, its end.

use clap::Args;

use super::value_parsers::{not_empty, task_number};
use super::{OnPlan, OnTask};
use crate::plan::TaskId;

#[derive(Debug, Args)]
#[command(
    override_usage = "plan-agent tell [OPTIONS] [PLAN] <N> <TEXT>",
    after_help = "Example:\n  plan-agent tell 3 \"the port is 8081\"\n
Words that come while an agent works reach it before its result is accepted.
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

#[derive(Debug, Args)]
pub struct SettleArgs {
    #[command(flatten)]
    pub on: OnTask,

    /// Why, in your words; they are in the log
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Of a task that is completed or was skipped, what relies on it opens again. A plan that has ended goes on.")]
pub struct RetryArgs {
    #[command(flatten)]
    pub on: OnTask,

    /// Words that go along to the agent
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,

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
    /// The plan, by its key or the beginning of its id [default: the only unfinished one of a daemon, else its newest that has begun]
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

    /// What is there when it is done, with its proof in brackets as in a plan file
    #[arg(long, value_name = "TEXT")]
    pub expected: Option<String>,

    /// A check of config.toml that it has to pass; once for each
    #[arg(long = "check", value_name = "NAME")]
    pub checks: Vec<String>,
}

#[derive(Debug, Args)]
#[command(
    allow_missing_positional = true,
    after_help = "Example:\n  plan-agent answer retry --note \"the port is 8081\""
)]
pub struct AnswerArgs {
    /// The question, by the number of its task, or the beginning or end of its id [default: the only
    /// open one]
    pub question: Option<String>,

    /// approve, accept, retry, drop-check, skip, replan, wait, reply, more, allow-once, allow-always, deny or abort, as the
    /// question offers; may be shortened as at its prompt; `?` explains
    pub choice: String,

    /// Words that go along: a correction, a direction, the answer to an agent
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Commands that no agent has taken are taken back, agents at work are asked to stop. Files, branches and worktrees stay as they \
are, and `status`, `log` and `diff` go on showing the plan. `stop` ends only the daemon: `resume` goes on then.")]
pub struct AbortArgs {
    /// The plan, by its key or the beginning of its id [default: the only unfinished one of a daemon, once you agree]
    pub plan: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
What has happened since stays in the log, and the files that agents have written stay as they are. A plan that was being \
carried out comes back paused; what was under way then is to be done again.")]
pub struct RestoreArgs {
    #[command(flatten)]
    pub on: OnPlan,

    /// As it was after change N; `log` shows the numbers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    pub at: i64,
}
