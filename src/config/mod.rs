//! The configuration: its keys with their defaults, and what they mean to the other modules. `read` reads the file and the
//! environment, `planner` chooses the language model. The configuration never holds the key of a model service, only the name
//! of the variable that has it.

mod budget_limit;
mod environment;
mod home;
mod internal_waits;
mod model_choice;
mod read_config;
mod remembered;
mod sensitive;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::plan::{
    self, ConfirmAbort, JudgePolicy, Language, MERGE_CHECK, PlanPolicy, SessionScope,
};

pub use budget_limit::ConfiguredLimit;
pub use environment::Environment;
pub use home::{Home, Layout};
pub use internal_waits::Timing;
pub use model_choice::{Api, Candidate, Candidates, FoundAgent, ModelEndpoint, Planner};
pub use read_config::{ConfigError, is_loopback};
use read_config::{FileContent, Places};

/// The name of the configuration file in the folder in which the program is started.
pub const FILE_NAME: &str = "config.toml";

/// The commented configuration file with every key at its default: what `init` writes.
pub const TEMPLATE: &str = include_str!("../../config.toml");

/// Attempts that are allowed for each task at least, unless the file sets a limit.
const ATTEMPTS_PER_TASK: u64 = 5;

/// Everything that can be configured. Its defaults are the values in [`TEMPLATE`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct Config {
    pub llm: LlmConfig,
    pub volumes: VolumesConfig,
    pub run: RunConfig,
    pub budget: BudgetConfig,
    /// Named checks that results have to pass.
    pub checks: BTreeMap<String, CheckConfig>,
    pub worker: WorkerConfig,
    pub tools: ToolsConfig,
    pub role: RolesConfig,
    /// Servers of the Model Context Protocol whose tools roles may use, by the names that precede those of the tools.
    pub mcp: BTreeMap<String, McpConfig>,
    pub hooks: HooksConfig,
    pub prompts: PromptsConfig,
    /// How long the program waits on its own account; not a key.
    #[serde(skip)]
    pub timing: Timing,
    /// Where the values come from; not a key.
    #[serde(skip)]
    origin: ConfigOrigin,
}

/// Where a configuration was read from.
#[derive(Clone, Debug, Default, PartialEq)]
struct ConfigOrigin {
    file: Option<PathBuf>,
    home: Home,
    /// What of the file needs a person's confirmation.
    sensitive: BTreeMap<String, String>,
    /// Where the keys stand in the file.
    places: Places,
}

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
    #[serde(
        default = "CheckConfig::default_timeout",
        with = "read_config::duration"
    )]
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
    /// Whether it also runs on the state before a task's work.
    #[serde(default)]
    pub before: BeforeWork,
}

/// When a check runs on the state before a task's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BeforeWork {
    /// Beside the agent, where git has that state.
    #[default]
    Auto,
    Never,
}

impl CheckConfig {
    fn default_timeout() -> Duration {
        Duration::from_secs(300)
    }
}

/// The settings of the workers, which run agents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct WorkerConfig {
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
    #[serde(default = "McpConfig::default_timeout", with = "read_config::duration")]
    pub timeout: Duration,
    /// Environment variables that it gets besides those that every program needs.
    #[serde(default, deserialize_with = "read_config::variable_names")]
    pub env: Vec<String>,
}

impl McpConfig {
    fn default_timeout() -> Duration {
        Duration::from_secs(60)
    }
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
    pub env: Vec<String>,
}

/// The prompts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct PromptsConfig {
    /// A file in this folder replaces the built-in prompt of its name.
    pub dir: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        read_config::DEFAULTS.clone()
    }
}

impl Config {
    /// Reads the configuration: the named file, else `config.toml` in the home of the current folder ([`Home::find`]) if it
    /// exists, else the defaults; then the environment overrides keys.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or everything that is wrong in it.
    pub fn load(file: Option<&Path>, environment: &Environment) -> Result<Self, ConfigError> {
        let folder = read_config::folder_of(file)?;
        match file {
            Some(file) => Self::of_file(file, Home::around(&folder), environment),
            None => Self::of_home(Home::find(&folder), environment),
        }
    }

    /// Reads the configuration as a command in a folder would: see [`Config::load`].
    ///
    /// # Errors
    ///
    /// As [`Config::load`].
    pub fn in_folder(folder: &Path, environment: &Environment) -> Result<Self, ConfigError> {
        Self::of_home(Home::find(folder), environment)
    }

    /// Reads the configuration of the project around an exchange folder: the `config.toml` next to that folder if it exists,
    /// else the defaults; then the environment overrides keys. The exchange folder is always the one that the caller names.
    ///
    /// # Errors
    ///
    /// As [`Config::load`].
    pub fn around(root: &Path, environment: &Environment) -> Result<Self, ConfigError> {
        let home = Home::around(root.parent().unwrap_or(root));
        let mut config = Self::of_home(home, environment)?;
        root.clone_into(&mut config.volumes.root);
        Ok(config)
    }

    fn of_home(home: Home, environment: &Environment) -> Result<Self, ConfigError> {
        let file = home.folder().join(FILE_NAME);
        if file.exists() {
            // As a person would type it.
            let here = read_config::folder_of(None)?;
            let shown = file.strip_prefix(here).unwrap_or(&file);
            return Self::of_file(shown, home, environment);
        }
        Self::read(None, home, "", environment)
    }

    fn of_file(file: &Path, home: Home, environment: &Environment) -> Result<Self, ConfigError> {
        let text = read_config::text_of(file)?;
        Self::read(Some(file.to_owned()), home, &text, environment)
    }

    fn read(
        file: Option<PathBuf>,
        home: Home,
        text: &str,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        let mut found = match &file {
            Some(path) => read_config::parse(text, path),
            None => FileContent::default(),
        };
        let sensitive = found.config.find_sensitive(home.folder());
        read_config::override_by(&mut found, environment);
        let mut errors = found.errors;
        let timing = Timing::of(environment).unwrap_or_else(|error| {
            errors.push(error);
            Timing::default()
        });
        let origin = ConfigOrigin {
            file,
            home,
            sensitive,
            places: found.places,
        };
        let config = found.config.complete(origin, timing);
        config.check_names(&found.wrong, &mut errors);
        config.check_isolation(&mut errors);
        ConfigError::refuse(errors)?;
        Ok(config)
    }

    /// Adds what is no key of the file.
    fn complete(mut self, origin: ConfigOrigin, timing: Timing) -> Self {
        for (name, check) in &mut self.checks {
            check.name.clone_from(name);
        }
        if let Some(prepare) = &mut self.run.prepare {
            prepare.name = "prepare".to_owned();
        }
        (self.timing, self.origin) = (timing, origin);
        self
    }

    /// Adds the place of a key to an error that is about it.
    fn placed(&self, key: &str, error: ConfigError) -> ConfigError {
        error.placed(self.file(), self.origin.places.get(key))
    }

    /// Returns the file that was read, if any.
    pub fn file(&self) -> Option<&Path> {
        self.origin.file.as_deref()
    }

    /// Returns the settings of the file that run programs or widen rights, by their keys, as TOML. What the environment sets is
    /// not among them: that is the person's word.
    pub fn sensitive(&self) -> &BTreeMap<String, String> {
        &self.origin.sensitive
    }

    /// Returns where everything of plan-agent's lies.
    pub fn home(&self) -> &Home {
        &self.origin.home
    }

    /// Takes another layout for a home that is not made yet.
    pub fn set_layout(&mut self, layout: Layout) {
        self.origin.home = Home::new(self.home().outer(), layout);
    }

    /// Returns the absolute folder that relative paths start from.
    pub fn folder(&self) -> &Path {
        self.origin.home.folder()
    }

    /// Returns the absolute exchange folder.
    pub fn root(&self) -> PathBuf {
        self.folder().join(&self.volumes.root)
    }

    /// Returns the absolute folder that agents work in.
    pub fn workspace(&self) -> PathBuf {
        match &self.run.workspace {
            Some(path) => self.folder().join(path),
            None if self.home().layout() == Layout::Project => self.home().outer().to_owned(),
            None => self.root().join("workspace"),
        }
    }

    /// Returns the folder for MISSION.md of a plan whose agents work in `workspace`: that one if it is plan-agent's own, else the
    /// one in which everything of plan-agent's lies, as the name may be taken in a folder of the person.
    pub fn mission_folder(&self, workspace: &Path) -> PathBuf {
        let root = self.root();
        match self.home().layout() {
            _ if workspace.starts_with(&root) => workspace.to_owned(),
            Layout::TopLevel => root,
            Layout::Project | Layout::Apart => self.folder().to_owned(),
        }
    }

    /// Returns the absolute path of the team file, if the configuration names one.
    pub fn team(&self) -> Option<PathBuf> {
        let team = self.run.team.as_ref();
        team.map(|path| self.folder().join(path))
    }

    /// Returns the absolute folder whose files replace the built-in prompts.
    pub fn prompts_dir(&self) -> PathBuf {
        self.folder().join(&self.prompts.dir)
    }

    /// Returns how many tasks may be in progress at the same time, given how many the roles of a team do together.
    pub fn max_parallel(&self, team: Option<u32>) -> u32 {
        // A team with `concurrency: 2` wants two, also where `max_parallel` is not set.
        let most = self.run.max_parallel.or(team);
        most.unwrap_or(PlanPolicy::default().max_parallel)
    }

    /// Returns the rules for carrying out a plan, with or without a language model.
    pub fn policy(&self, planner: &Planner) -> PlanPolicy {
        let (run, attempts) = (&self.run, self.budget.attempts);
        PlanPolicy {
            max_attempts: run.max_attempts,
            max_replans: run.max_replans,
            max_parallel: self.max_parallel(None),
            roles: BTreeMap::new(),
            roles_only: false,
            task_timeout: run.task_timeout,
            task_deadline: run.task_deadline,
            confirm_abort: run.confirm_abort,
            session: run.session,
            model: !matches!(planner, Planner::Rules { .. }),
            judging: self.llm.judge.when,
            audit: run.audit,
            checks: run.checks.clone(),
            budget: plan::Budget {
                llm_calls: self.budget.llm_calls.0,
                llm_tokens: self.budget.llm_tokens.0,
                cost_usd: self.budget.cost_usd.0,
                wall_time: self.budget.wall_time.0,
                attempts: attempts.map_or(plan::Budget::default().attempts, |limit| limit.0),
                attempts_per_task: attempts.map_or(ATTEMPTS_PER_TASK, |_| 0),
            },
        }
    }

    /// Refuses settings that do not go with worktrees.
    fn check_isolation(&self, errors: &mut Vec<ConfigError>) {
        if self.run.isolation != Isolation::Worktree {
            return;
        }
        if self.run.session == SessionScope::Plan {
            let error = ConfigError::unfit(
                "`run.session` is \"plan\", but `run.isolation` is \"worktree\": a session stays in one folder",
                "set session = \"task\", or isolation = \"shared\"",
            );
            errors.push(self.placed("run.session", error));
        }
        if self.checks.contains_key(MERGE_CHECK) {
            let error = ConfigError::unfit(
                "[checks] defines `merge`, but `run.isolation` is \"worktree\": merging is the check of that name",
                "give that check another name",
            );
            errors.push(self.placed("checks.merge", error));
        }
    }

    /// Refuses checks that the configuration names but does not define. One whose definition is `wrong` is refused for that.
    fn check_names(&self, wrong: &[String], errors: &mut Vec<ConfigError>) {
        let defined = |name: &str| {
            let key = format!("checks.{name}");
            self.checks.contains_key(name) || wrong.iter().any(|wrong| key.starts_with(wrong))
        };
        let unknown = self.run.checks.iter().filter(|name| !defined(name));
        for name in unknown.take(read_config::MAX_ERRORS) {
            let message = format!("`run.checks` names `{name}`, which [checks] does not define");
            let define = || format!("define it: [checks] {name} = {{ run = [\"…\"] }}");
            let known = self.checks.keys().map(String::as_str);
            let hint = read_config::meant(name, known).unwrap_or_else(define);
            errors.push(self.placed("run.checks", ConfigError::unfit(message, hint)));
        }
    }
}

#[cfg(test)]
mod tests;
