//! The sections of the configuration file and their keys.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ConfiguredLimit, read_config};
use crate::plan::{ConfirmAbort, JudgePolicy, Language, SessionScope};

/// The language model that plans and judges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct LlmConfig {
    pub provider: ModelProvider,
    /// The address of the service; the provider's own address if left out.
    #[serde(default, deserialize_with = "read_config::base_url")]
    pub base_url: Option<String>,
    /// The model for every question; the provider's default if left out.
    pub model: Option<String>,
    /// The coding agent to ask, where the provider is a coding agent.
    pub agent: Option<String>,
    /// The environment variable that holds the key; the provider's usual one if left out.
    #[serde(default, deserialize_with = "read_config::variable_name")]
    pub api_key_env: Option<String>,
    /// How long a service may be silent within a call, and how long a call of a coding agent may take.
    #[serde(with = "read_config::duration")]
    pub timeout: Duration,
    /// Calls for one question while they fail in a way that may be temporary.
    #[serde(deserialize_with = "read_config::positive")]
    pub tries: u32,
    /// The wait after the first failed call.
    #[serde(with = "read_config::duration")]
    pub retry_delay: Duration,
    /// For planning and replanning.
    pub plan: QuestionConfig,
    /// For judging results.
    #[serde(deserialize_with = "read_config::judge")]
    pub judge: JudgeConfig,
}

impl LlmConfig {
    /// Returns the model for planning and replanning; `None` for the usual one of the service or agent.
    pub fn plan_model(&self) -> Option<&str> {
        self.plan.model.as_deref().or(self.model.as_deref())
    }

    /// Returns the model for judging results; `None` for the usual one of the service or agent.
    pub fn judge_model(&self) -> Option<&str> {
        self.judge.model.as_deref().or(self.model.as_deref())
    }
}

/// Which kind of service answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelProvider {
    /// The first whose key is in the environment, else a coding agent, else none.
    #[default]
    Auto,
    /// The Anthropic Messages API.
    Anthropic,
    /// Any server that speaks Chat Completions.
    OpenAi,
    /// A coding agent of this machine.
    Agent,
    /// No model: a plan file and rules.
    None,
}

/// The settings for one kind of question to the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct QuestionConfig {
    /// The model for this question; `[llm] model` if left out.
    pub model: Option<String>,
}

/// The settings for judging. In the file the word for `when` may stand for all of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgeConfig {
    /// When the model is asked.
    pub when: JudgePolicy,
    /// The model for judging; `[llm] model` if left out.
    pub model: Option<String>,
}

/// The folder in which daemon and agents exchange files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct VolumesConfig {
    pub root: PathBuf,
}

/// The settings for carrying out a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct RunConfig {
    /// The folder in which agents work; `workspace` in the exchange folder if left out.
    pub workspace: Option<PathBuf>,
    pub isolation: Isolation,
    /// The folder for the worktrees of tasks; a folder of the person outside of every project if left out.
    pub worktrees: Option<PathBuf>,
    /// The command that makes a new worktree ready for work.
    pub prepare: Option<CheckConfig>,
    /// The team file, if a team carries plans out.
    pub team: Option<PathBuf>,
    pub session: SessionScope,
    /// An agent that is silent for so long ends its attempt.
    #[serde(with = "read_config::duration")]
    pub task_timeout: Duration,
    /// An attempt ends at this age.
    #[serde(with = "read_config::duration")]
    pub task_deadline: Duration,
    /// Failed attempts of a task in a row before a human is asked.
    #[serde(deserialize_with = "read_config::positive")]
    pub max_attempts: u32,
    /// Replans before a human is asked.
    pub max_replans: u32,
    /// Tasks that may be in progress at the same time; if left out, one, or with a team as many as its roles do together.
    #[serde(default, deserialize_with = "read_config::positive_if_any")]
    pub max_parallel: Option<u32>,
    /// Plans that a daemon carries out at the same time; those that wait for a person do not count.
    #[serde(deserialize_with = "read_config::positive")]
    pub max_plans: u32,
    pub confirm_abort: ConfirmAbort,
    /// Whether the model audits the goal before a plan is completed.
    pub audit: bool,
    /// The checks that every task has to pass.
    #[serde(default)]
    pub checks: Vec<String>,
    /// Further files that judge, as patterns: checks run with those that were there before the work.
    pub protect: Vec<String>,
    /// Files that judge and that agents may change nevertheless, as patterns.
    pub may_change: Vec<String>,
    pub language: LanguageChoice,
}

/// The language of the files that a plan writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LanguageChoice {
    /// That of the goal.
    #[default]
    Auto,
    En,
    Zh,
}

impl LanguageChoice {
    /// Returns the language for a plan with this goal.
    pub fn of(self, goal: &str) -> Language {
        match self {
            Self::Auto => Language::of(goal),
            Self::En => Language::En,
            Self::Zh => Language::Zh,
        }
    }
}

/// What a plan may use before a human is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct BudgetConfig {
    /// Calls of the model that plans and judges.
    pub llm_calls: ConfiguredLimit<u64>,
    /// Tokens that this model reads and writes.
    pub llm_tokens: ConfiguredLimit<u64>,
    /// US dollars, as far as agents and the model report their cost.
    pub cost_usd: ConfiguredLimit<f64>,
    /// Time in which work is in progress.
    pub wall_time: ConfiguredLimit<Duration>,
    /// Attempts at tasks; if left out, it grows with the plan.
    pub attempts: Option<ConfiguredLimit<u64>>,
    /// What all plans may use in a day.
    pub day: DayBudgetConfig,
}

/// What all plans may use from midnight to midnight before a human is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct DayBudgetConfig {
    /// Calls of models that plan and judge.
    pub llm_calls: ConfiguredLimit<u64>,
    /// Tokens that these models read and write.
    pub llm_tokens: ConfiguredLimit<u64>,
    /// US dollars, as far as agents and models report their cost.
    pub cost_usd: ConfiguredLimit<f64>,
}

/// Where agents work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Each task in a git worktree where that is possible, else all in the workspace.
    #[default]
    Auto,
    /// All in the workspace.
    Shared,
    /// Each task works in a git worktree and on a branch of its own; the workspace is the project.
    Worktree,
}

/// A command that must exit with 0 in the workspace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with `run`")]
pub struct CheckConfig {
    /// Under which it is configured.
    #[serde(skip)]
    pub name: String,
    /// Program and arguments; no shell reads them.
    #[serde(rename = "run", deserialize_with = "read_config::argv")]
    pub argv: Vec<String>,
    /// How long it may take.
    #[serde(default = "check_timeout", with = "read_config::duration")]
    pub timeout: Duration,
    /// Environment variables that it gets besides those that every program needs.
    #[serde(default, deserialize_with = "read_config::variable_names")]
    pub env: Vec<String>,
    /// What finds the number of tests in its output, where no known runner prints it.
    #[serde(
        default,
        deserialize_with = "read_config::pattern",
        skip_serializing_if = "Option::is_none"
    )]
    pub count: Option<String>,
    /// It needs no tests to fail: its exit code alone counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain: bool,
    /// When it also runs on the state before a task's work.
    #[serde(default)]
    pub before: BeforeWork,
}

/// When a check runs on the state before a task's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BeforeWork {
    /// Where git keeps that state, aside and beside the agent; else in the workspace before the command goes out, if it was quick
    /// the last time it ran on a result of the plan.
    #[default]
    Auto,
    /// As `Auto`, and before the command goes out however long it takes.
    Always,
    Never,
}

fn check_timeout() -> Duration {
    Duration::from_secs(300)
}

/// The settings of the workers, which run agents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct WorkerConfig {
    /// The agent of plans for which none is named, with what would follow it behind `--`; empty for none.
    pub agent: Vec<String>,
    /// What a coding agent may do without asking.
    pub allow: Vec<String>,
    /// The environment variables that an agent gets; all others are withheld. `@agent` stands for those that the coding agent
    /// itself needs.
    pub env: Vec<String>,
    /// Runs of a coding agent after the first while its model fails in a way that may be temporary.
    pub retries: u32,
    /// The wait before the first of these retries.
    #[serde(with = "read_config::duration")]
    pub retry_delay: Duration,
}

/// The plan as tools for agents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct ToolsConfig {
    /// Subtasks that a plan of the notebook may have.
    pub max_subtasks: ConfiguredLimit<u64>,
}

/// The roles of a team that work inside the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct RolesConfig {
    /// Whether the model decides if a task is simple; rules decide otherwise.
    pub classify: bool,
    /// Steps that the model may make of a task.
    #[serde(deserialize_with = "read_config::positive")]
    pub max_steps: u32,
    /// How long one step of its own may take.
    #[serde(with = "read_config::duration")]
    pub step_timeout: Duration,
    /// How deep requests may be nested.
    #[serde(deserialize_with = "read_config::positive")]
    pub max_depth: u32,
}

/// A server of the Model Context Protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with `command`")]
pub struct McpConfig {
    /// Program and arguments; no shell reads them.
    #[serde(deserialize_with = "read_config::argv")]
    pub command: Vec<String>,
    /// How long it may take to start, and each call of a tool.
    #[serde(default = "mcp_timeout", with = "read_config::duration")]
    pub timeout: Duration,
    /// Environment variables that it gets besides those that every program needs.
    #[serde(default, deserialize_with = "read_config::variable_names")]
    pub env: Vec<String>,
}

fn mcp_timeout() -> Duration {
    Duration::from_secs(60)
}

/// Commands that get what happens as JSON on their standard input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct HooksConfig {
    /// Runs at each question to a person.
    #[serde(default, deserialize_with = "read_config::some_argv")]
    pub on_question: Option<Vec<String>>,
    /// Runs at the end of a plan.
    #[serde(default, deserialize_with = "read_config::some_argv")]
    pub on_finish: Option<Vec<String>>,
    /// Runs at changes.
    #[serde(default, deserialize_with = "read_config::some_argv")]
    pub on_change: Option<Vec<String>>,
    /// How long one call may take.
    #[serde(with = "read_config::duration")]
    pub timeout: Duration,
    /// Variables that they get alongside those that every child process gets.
    #[serde(deserialize_with = "read_config::variable_names")]
    pub env: Vec<String>,
}

/// The prompts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct PromptsConfig {
    /// A file in this folder replaces the built-in prompt of its name.
    pub dir: PathBuf,
}
