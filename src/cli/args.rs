//! The command line: every subcommand, how plans and tasks are named, and the text of `--help`. The flags of larger commands are in
//! files of their own. Nothing is decided here.

mod carry_out_flags;
mod results;
mod run;
mod show;
mod steering;
mod tools;
mod value_parsers;
mod web;
mod workers;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::plan::TaskId;
use value_parsers::{not_empty, task_number};

pub use carry_out_flags::{AgentArgs, CarryOut, FILES, TeamArgs};
pub use results::{MergeArgs, PruneArgs};
pub use run::{DaemonArgs, MakePlan, NewPlanArgs, ResumeArgs, RunArgs};
pub use show::{
    DiffArgs, LogArgs, LogsArgs, OutcomesArgs, PlanFormat, PlansArgs, ShowArgs, StatusArgs,
};
pub use steering::{AbortArgs, AddArgs, AnswerArgs, RestoreArgs, RetryArgs, SettleArgs, TellArgs};
pub use tools::{McpArgs, ToolArgs, ToolsArgs};
pub use web::WebArgs;
pub use workers::{RelayArgs, WorkerArgs};

/// The heading of what names the team and what it does.
const TEAM: &str = "Team";

/// The place of what every command takes: below its own flags.
const LAST: usize = 100;

const EXIT_CODES: &str = "\
Exit codes:
  0  done                    4  waits for a human
  1  failed                  5  another daemon holds the folder
  2  wrong usage             6  paused by a budget
  3  plan aborted          130  interrupted    143  terminated";

const EXAMPLES: &str = "\
Examples:
  plan-agent run --plan examples/quickstart.md --agent shell
  plan-agent run \"Add a health endpoint\" --agent claude
  plan-agent status --watch
  plan-agent answer retry --note \"the port is 8081\"";

const EDITING: &str = "\
The editor is that of $VISUAL or $EDITOR, else vi. Tasks keep their numbers; a heading without one is a new task, and a \
task that you take out is skipped. Of tasks that have begun or ended nothing can be changed.";

const TRUSTING: &str = "\
What runs programs or widens rights (checks, hooks, servers, rights of agents, prompts, the team) counts only as you confirmed \
it. `run` asks when something is new or has changed; without a terminal it exits with 4, and this confirms it ahead. \
What `--config FILE` or `--team FILE` names is confirmed by that.";

const CLEANING: &str = "\
The files that agents have written in the project stay, and so do the branches of plans. Configuration that was written by \
hand stays where it lies in the folder itself (`init --top-level`), and goes with `.plan-agent` elsewhere.";

/// Plan a goal, hand its tasks to coding agents as files, judge every result
#[derive(Debug, Parser)]
#[command(
    name = "plan-agent",
    // Otherwise help shows the name under which the program was started, whatever that is.
    bin_name = "plan-agent",
    version,
    max_term_width = 100,
    after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}")
)]
pub struct CommandLine {
    /// Begin in this folder instead of the current one
    #[arg(short = 'C', global = true, value_name = "DIR", display_order = LAST)]
    pub folder: Option<PathBuf>,

    /// Read this configuration instead of the project's
    #[arg(long, global = true, value_name = "FILE", display_order = LAST)]
    pub config: Option<PathBuf>,

    #[command(subcommand)]
    pub command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Write config.toml, prompts/ and volumes/; in a git project into .plan-agent/
    Init {
        /// Write them into this folder itself, also in a git project
        #[arg(long)]
        top_level: bool,
    },
    /// Plan a goal and carry the plan out
    Run(RunArgs),
    /// Only plan: show the plan and keep it for `resume`
    Plan(MakePlan),
    /// Go on with an unfinished plan
    Resume(ResumeArgs),
    /// List the plans
    #[command(visible_alias = "ls")]
    Plans(PlansArgs),
    /// Show how far a plan is
    Status(StatusArgs),
    /// Show a plan
    Show(ShowArgs),
    /// Say why a task is as it is, and what it waits for
    Why(OnTask),
    /// Show what a task changed
    Diff(DiffArgs),
    /// Take the results of a plan over into the branch that is checked out
    Merge(MergeArgs),
    /// Put the results of a plan aside
    Discard(OnPlan),
    /// Remove worktrees whose work is committed, and merged branches
    Prune(PruneArgs),
    /// Show what happened to a plan
    Log(LogArgs),
    /// Print what the agent of a task said and did
    Logs(LogsArgs),
    /// Count what came of the tasks of all plans
    Outcomes(OutcomesArgs),
    /// List what you are asked, over all plans
    Questions {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List who is at work on which machine, and the relays
    Workers {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Answer a question
    Answer(AnswerArgs),
    /// Say something to the agent of a task
    Tell(TellArgs),
    /// Have a task tried again
    Retry(RetryArgs),
    /// Leave a task out; what waits for it goes on without it
    Skip(SettleArgs),
    /// Say that a task is done
    Done(SettleArgs),
    /// Add a task to a plan
    Add(AddArgs),
    /// Edit a plan or a task in your editor
    #[command(after_help = EDITING)]
    Edit(OnPlanOrTask),
    /// Start nothing new in a plan; what is under way goes on
    Pause(OnPlan),
    /// End the daemon; `resume` goes on
    Stop,
    /// End a plan for good
    #[command(visible_alias = "cancel")]
    Abort(AbortArgs),
    /// Make a plan what it was after an earlier change
    Restore(RestoreArgs),
    /// Take commands, run an agent for each, write the reports
    Worker(WorkerArgs),
    /// Take commands of daemons on other machines, and hand the work back
    Relay(RelayArgs),
    /// Carry out the plans that are queued in this folder, until it is stopped
    Daemon(DaemonArgs),
    /// List the tools through which agents read and change plans
    Tools(ToolsArgs),
    /// Call a tool
    Tool(ToolArgs),
    /// Serve the tools to an agent by the Model Context Protocol
    Mcp(McpArgs),
    /// Show the plans as a page in your browser, and steer them there
    Web(WebArgs),
    /// Check the configuration, the folders, the model and the programs that are needed
    Doctor(DoctorArgs),
    /// Look after the database that keeps the plans
    Store {
        #[command(subcommand)]
        act: StoreAct,
    },
    /// Start the daemon of this folder at login: a unit of your systemd
    Service {
        /// What to do with the unit
        act: ServiceAct,
    },
    /// Show what the configuration runs and allows, and confirm it
    #[command(after_help = TRUSTING)]
    Trust {
        /// A configuration file, or the folder that it is in [default: the one that `run` would read here]
        #[arg(value_name = "FILE|DIR")]
        path: Option<PathBuf>,
    },
    /// Say what is plan-agent's here, and remove it on yes
    #[command(after_help = CLEANING)]
    Clean {
        /// Remove it without asking
        #[arg(long)]
        yes: bool,
    },
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// What is done with a store.
#[derive(Debug, Subcommand)]
pub enum StoreAct {
    /// Bring the tables to the format of this version
    Migrate,
    /// Copy every plan with its log into a database that has none
    Copy {
        /// A file, or postgres://user@host/database
        #[arg(long, value_name = "PLACE")]
        from: String,
        /// A file, or postgres://user@host/database
        #[arg(long, value_name = "PLACE")]
        to: String,
    },
    /// Let a login of the server take commands, with `relay` and nothing else
    Allow {
        /// The login, which the server has already: CREATE ROLE name LOGIN PASSWORD '…'
        login: String,
        /// The role whose commands it may take, as often as named; without it, those without a role
        #[arg(long, value_name = "ROLE", value_parser = not_empty)]
        role: Vec<String>,
    },
}

/// Names a plan.
#[derive(Debug, Args)]
pub struct OnPlan {
    /// The plan, by its key or the beginning of its id [default: the only unfinished one of a daemon, else its newest that has begun]
    pub plan: Option<String>,
}

/// Names a task.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub struct OnTask {
    /// The plan, by its key or the beginning of its id [default: the only unfinished one of a daemon, else its newest that has begun]
    pub plan: Option<String>,

    /// The number of the task
    #[arg(value_name = "N", value_parser = task_number)]
    pub task: TaskId,
}

/// Names a plan or one of its tasks.
#[derive(Debug, Args)]
pub struct OnPlanOrTask {
    /// The plan, by its key or the beginning of its id [default: the only unfinished one of a daemon, else its newest that has begun]
    plan: Option<String>,

    /// The number of the task; the whole plan if left out
    #[arg(value_name = "N", value_parser = task_number)]
    task: Option<TaskId>,
}

impl OnPlanOrTask {
    /// Returns the plan and the task that are meant: one word that is a number is a task.
    pub fn meant(&self) -> (Option<&str>, Option<TaskId>) {
        let plan = self.plan.as_deref();
        match plan.map(task_number) {
            Some(Ok(number)) if self.task.is_none() => (None, Some(number)),
            _ => (plan, self.task),
        }
    }
}

/// What is done with the unit of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ServiceAct {
    /// Write it, and have systemd start it at login
    Install,
    /// Stop and remove it
    Remove,
    /// Say whether it is there, and active
    Status,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub team: TeamArgs,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(words: &[&str]) -> Result<CliCommand, clap::Error> {
        let words = ["plan-agent"].iter().chain(words);
        CommandLine::try_parse_from(words).map(|line| line.command)
    }

    #[test]
    fn cli_definition_is_valid() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn first_of_two_arguments_is_optional() {
        let Ok(CliCommand::Answer(answer)) = parse(&["answer", "Retry", "--note", "n"]) else {
            panic!("an answer");
        };
        assert_eq!(
            (
                answer.question,
                answer.choice.as_str(),
                answer.note.as_deref()
            ),
            (None, "Retry", Some("n"))
        );
        let Ok(CliCommand::Why(why)) = parse(&["why", "abcd", "3"]) else {
            panic!("a why");
        };
        assert_eq!((why.plan.as_deref(), why.task), (Some("abcd"), TaskId(3)));
    }

    #[test]
    fn accepts_every_agent_name() {
        let names = carry_out_flags::AGENTS.map(|(name, _)| name);
        assert_eq!(
            names.to_vec(),
            [crate::agents::names(), vec![FILES]].concat()
        );
    }

    #[test]
    fn agent_command_follows_double_dash() {
        let Ok(CliCommand::Run(run)) = parse(&[
            "run", "goal", "--agent", "command", "--", "tool", "--flag", "{report}",
        ]) else {
            panic!("a run");
        };
        assert_eq!(run.goal.as_deref(), Some("goal"));
        assert_eq!(run.carry_out.agent.agent.as_deref(), Some("command"));
        assert_eq!(run.carry_out.agent.argv, ["tool", "--flag", "{report}"]);
    }

    #[test]
    fn agent_options_repeat_as_typed() {
        for words in [
            vec![],
            vec!["--agent", "shell"],
            vec!["--agent", "shell", "--allow-shell"],
            vec!["--agent", "command", "--", "my-agent", "{prompt_file}"],
        ] {
            let line = [vec!["resume"], words.clone()].concat();
            let Ok(CliCommand::Resume(resume)) = parse(&line) else {
                panic!("a resume");
            };
            let again = resume.carry_out.agent.again();
            assert_eq!(again.trim_start(), words.join(" "));
        }
    }

    #[test]
    fn run_takes_workflow_parameters_and_repeats_team() {
        let Ok(CliCommand::Run(run)) = parse(&[
            "run",
            "--team",
            "my team.yaml",
            "--workflow",
            "w",
            "--param",
            "a=b=c",
            "--param",
            "d=",
        ]) else {
            panic!("a run");
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(run.new.params, [pair("a", "b=c"), pair("d", "")]);
        assert_eq!(run.carry_out.team.again(), " --team 'my team.yaml'");
    }

    #[test]
    fn rejects_wrong_usage() {
        for words in [
            vec!["run", " "],
            vec!["run", "goal", "--plan", "p.md"],
            vec!["run", "goal", "--", "tool"],
            vec!["run", "goal", "--param", "a=b"],
            vec!["run", "--workflow", "w", "--param", "a"],
            vec!["run", "--workflow", "w", "--plan", "p.md"],
            vec!["why", "0"],
            vec!["show", "--at", "-1"],
            vec!["mcp", "--http", "0.0.0.0:1"],
            vec!["mcp", "--http", "192.168.1.1:1"],
            vec!["mcp", "--http", "[::]:1"],
            vec!["mcp", "--http", "localhost"],
            vec!["restore"],
            vec!["restore", "--at", "0"],
        ] {
            assert_eq!(parse(&words).unwrap_err().exit_code(), 2, "{words:?}");
        }
    }
}
