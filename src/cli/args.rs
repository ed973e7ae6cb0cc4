//! The command line: every subcommand with its flags, and the text of `--help`. Nothing is decided here.

mod carry_out_flags;
mod steering;
mod value_parsers;
mod web;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::plan::TaskId;
use crate::tools::Dialect;
use value_parsers::{dialects, local_address, not_empty, param, task_number};

pub use carry_out_flags::{AgentArgs, CarryOut, FILES, TeamArgs};
pub use steering::{AddArgs, RetryArgs, SettleArgs, TellArgs};
pub use web::WebArgs;

/// The heading of what names the agent.
const AGENT: &str = "Agent";

/// The heading of what names the team and what it does.
const TEAM: &str = "Team";

/// The place of what every command takes: below its own flags.
const LAST: usize = 100;

/// The dialects of the tools, the word for all of plans, and the one that controls a daemon.
const DIALECTS: &str = "plan-tool|plan-manager|notebook|tasks|all|control";
const ALL_DIALECTS: &str = "all";

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

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plan-agent run --plan examples/quickstart.md --agent shell
  plan-agent run \"Add a health endpoint\" --review --agent claude
  plan-agent run \"Translate the docs\" --detach
  plan-agent run --team examples/team.yaml --workflow feature --param feature=\"a health endpoint\"

Without --agent, whoever works with the folder takes the commands: `plan-agent worker`, another program, a person.")]
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

    /// Take over a plan of another folder, if no daemon has it
    #[arg(long)]
    pub here: bool,

    #[command(flatten)]
    pub carry_out: CarryOut,
}

/// Names a plan.
#[derive(Debug, Args)]
pub struct OnPlan {
    /// The plan, by its key or the beginning of its id [default: the only unfinished one of a daemon, else its newest]
    pub plan: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The branch that is checked out in the project moves forward, or gets a merge commit. No file with changes of yours is touched: \
where one would be, nothing is done.")]
pub struct MergeArgs {
    #[command(flatten)]
    pub on: OnPlan,

    /// The branch that is checked out, where the plan began on another one
    #[arg(long, value_name = "BRANCH")]
    pub into: Option<String>,

    /// Make one commit of all results, with the goal as its subject
    #[arg(long)]
    pub squash: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Only of plans that have ended. Nothing that is not merged is removed, unless it is named.")]
pub struct PruneArgs {
    /// Remove this branch and its worktree, although it is not merged
    #[arg(long, value_name = "NAME")]
    pub unmerged: Vec<String>,
}

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

/// Names a task.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub struct OnTask {
    /// The plan, by its key or the beginning of its id [default: the only unfinished one of a daemon, else its newest]
    pub plan: Option<String>,

    /// The number of the task
    #[arg(value_name = "N", value_parser = task_number)]
    pub task: TaskId,
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

/// Names a plan or one of its tasks.
#[derive(Debug, Args)]
pub struct OnPlanOrTask {
    /// The plan, by its key or the beginning of its id [default: the only unfinished one of a daemon, else its newest]
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

#[derive(Debug, Args)]
#[command(
    allow_missing_positional = true,
    after_help = "Example:\n  plan-agent answer retry --note \"the port is 8081\""
)]
pub struct AnswerArgs {
    /// The question, by the beginning or end of its id [default: the only open one]
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
Commands that nobody has taken are taken back, agents at work are asked to stop. Files, branches and worktrees stay as they \
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

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plan-agent worker --agent claude
  plan-agent worker --agent codex --role reviewer
  plan-agent worker --agent command -- my-agent {prompt_file}")]
#[command(mut_arg("agent", without_relay))]
pub struct WorkerArgs {
    /// Take only what is assigned to this role; of a team, with the role's agent unless another is named
    #[arg(long, value_name = "ROLE", value_parser = not_empty)]
    pub role: Option<String>,

    #[command(flatten)]
    pub agent: AgentArgs,

    #[command(flatten)]
    pub team: TeamArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plan-agent relay --agent claude
  plan-agent relay --role coder --role tester --agent codex --lanes 2

The daemon elsewhere is started with `--agent relay`, or has roles with `worker: relay`. Both use the same [store] url, and name
the project by one id under [projects]. Without --agent, whoever works with the folder here takes the commands.")]
#[command(mut_arg("agent", without_relay))]
pub struct RelayArgs {
    /// Take what is assigned to this role, as often as named; without it, what has no role
    #[arg(long, value_name = "ROLE", value_parser = not_empty)]
    pub role: Vec<String>,

    /// The most commands at once
    #[arg(long, value_name = "N", default_value = "1", value_parser = lanes)]
    pub lanes: usize,

    #[command(flatten)]
    pub agent: AgentArgs,
}

/// Another relay cannot do the commands.
fn without_relay(agent: clap::Arg) -> clap::Arg {
    agent.value_name("claude|codex|gemini|opencode|aider|command|shell|files")
}

fn lanes(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=64).contains(number));
    number.ok_or_else(|| "it is a number from 1 to 64".to_owned())
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

/// Dialects of the tools: one, or all. They are one word, and clap takes several words for an argument that is called a `Vec`.
pub type Dialects = Vec<Dialect>;

#[derive(Debug, Args)]
pub struct ToolsArgs {
    /// Only the tools of this dialect
    #[arg(long, value_parser = dialects, value_name = DIALECTS, default_value = "all", hide_default_value = true)]
    pub dialect: Dialects,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plan-agent tool TaskCreate '{\"subject\": \"Write the parser\"}'
  plan-agent tool create_plan_from_structure - < plan.json

Prints the answer as one line of JSON. Exits with 0 if the tool did it, with 1 if not.")]
pub struct ToolArgs {
    /// The tool; `tools` lists them
    pub name: String,

    /// Its arguments as a JSON object; `-` reads them from standard input
    #[arg(value_name = "JSON", default_value = "{}", hide_default_value = true)]
    pub arguments: String,

    /// The dialect that the tool is of
    #[arg(long, value_parser = dialects, value_name = DIALECTS, default_value = "all", hide_default_value = true)]
    pub dialect: Dialects,

    /// The plan, by its key or the beginning of its id [default: the dialect's latest]
    #[arg(long)]
    pub plan: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  claude mcp add plan -- plan-agent mcp
  plan-agent mcp --dialect notebook --plan abcdefgh
  plan-agent mcp --http 127.0.0.1:8765

Over HTTP a client sends the token that is in volumes/mcp.token: `Authorization: Bearer TOKEN`.")]
pub struct McpArgs {
    /// The tools that are served
    #[arg(long, value_parser = dialects, value_name = DIALECTS, default_value = "tasks")]
    pub dialect: Dialects,

    /// The plan, by its key or the beginning of its id [default: the dialect's latest]
    #[arg(long)]
    pub plan: Option<String>,

    /// Serve over HTTP at this address of this machine instead of standard input and output; port 0 takes any
    #[arg(long, value_name = "127.0.0.1:PORT", value_parser = local_address)]
    pub http: Option<SocketAddr>,
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
    fn accepts_every_dialect_name() {
        let all = Dialect::ALL.map(Dialect::as_str).join("|");
        assert_eq!(DIALECTS, format!("{all}|{ALL_DIALECTS}|control"));
        assert_eq!(dialects("control"), Ok(vec![Dialect::Control]));
        assert_eq!(dialects("all"), Ok(Dialect::ALL.to_vec()));
        assert_eq!(dialects("tasks"), Ok(vec![Dialect::Tasks]));
        assert!(dialects("task").is_err());
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
