//! The configuration: its keys with their defaults, and what they mean to the other modules. `read` reads the file and the
//! environment, `planner` chooses the language model. The configuration never holds the key of a model service, only the name
//! of the variable that has it.

mod budget_limit;
mod environment;
mod internal_waits;
mod model_choice;
mod notify;
mod plan_agent_folder;
mod read_config;
mod sections;
mod sensitive;
mod service_url;
mod settings_kept_by_plan;
mod store_url;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::plan::{self, MERGE_CHECK, PlanPolicy, SessionScope};
use crate::wire::{Place, Problem, did_you_mean};

use self::read_config::{FileContent, duration_text, leaves, variable_of, wrong_variable};
pub use budget_limit::ConfiguredLimit;
pub use environment::Environment;
pub use internal_waits::Timing;
pub use model_choice::{Api, Candidates, FoundAgent, ModelEndpoint, Planner};
pub use notify::{NotifyConfig, NotifyFormat, NotifyUrl};
pub use plan_agent_folder::{Home, Layout};
pub use read_config::{ConfigError, absolute, is_loopback};
pub use sections::{
    BeforeWork, BudgetConfig, CheckConfig, HooksConfig, Isolation, JudgeConfig, LanguageChoice,
    LlmConfig, McpConfig, ModelProvider, PromptsConfig, QuestionConfig, RolesConfig, RunConfig,
    ToolsConfig, VolumesConfig, WorkerConfig,
};
pub use sensitive::leads_below;
pub use service_url::ServiceUrl;
pub use store_url::{StoreConfig, StoreUrl};

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
    pub store: StoreConfig,
    pub run: RunConfig,
    pub budget: BudgetConfig,
    /// Named checks that results have to pass.
    #[serde(deserialize_with = "read_config::checks")]
    pub checks: BTreeMap<String, CheckConfig>,
    pub worker: WorkerConfig,
    pub tools: ToolsConfig,
    pub role: RolesConfig,
    /// Servers of the Model Context Protocol whose tools roles may use, by the names that precede those of the tools.
    pub mcp: BTreeMap<String, McpConfig>,
    pub hooks: HooksConfig,
    pub notify: NotifyConfig,
    pub prompts: PromptsConfig,
    /// The clones of projects here, by the ids that daemons on several machines know them by.
    pub projects: BTreeMap<String, PathBuf>,
    /// Where commits that are missing in these clones are fetched from, by the same ids.
    pub remotes: BTreeMap<String, String>,
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
    places: BTreeMap<String, Place>,
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
            Some(file) => Self::read(Some(file), Home::around(&folder), environment),
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
        let mut config = Self::of_home(Home::around(root.parent().unwrap_or(root)), environment)?;
        root.clone_into(&mut config.volumes.root);
        Ok(config)
    }

    fn of_home(home: Home, environment: &Environment) -> Result<Self, ConfigError> {
        let file = home.folder().join(FILE_NAME);
        if file.exists() {
            // As a person would type it.
            let here = read_config::folder_of(None)?;
            let shown = file.strip_prefix(here).unwrap_or(&file);
            return Self::read(Some(shown), home, environment);
        }
        Self::read(None, home, environment)
    }

    fn read(
        file: Option<&Path>,
        home: Home,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        let mut found = match file {
            Some(path) => read_config::parse(&read_config::text_of(path)?),
            None => FileContent::default(),
        };
        let sensitive = found.config.find_sensitive(home.folder());
        read_config::override_by(&mut found, environment);
        let mut problems = found.problems;
        let timing = Timing::of(environment).unwrap_or_else(|problem| {
            problems.push(problem);
            Timing::default()
        });
        let origin = ConfigOrigin {
            file: file.map(Path::to_owned),
            home,
            sensitive,
            places: found.places,
        };
        let config = found.config.complete(origin, timing);
        config.check_names(&found.wrong, &mut problems);
        config.check_isolation(&mut problems);
        ConfigError::refuse(problems, config.file())?;
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

    /// Adds the place of a key in the file to a problem that is about it.
    fn placed(&self, key: &str, problem: Problem) -> Problem {
        let place = self.origin.places.get(key).copied().unwrap_or_default();
        Problem { place, ..problem }
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

    /// Returns the absolute folder of a project.
    pub fn project(&self, id: &str) -> Option<PathBuf> {
        let folder = self.folder().join(self.projects.get(id)?);
        Some(folder.canonicalize().unwrap_or(folder))
    }

    /// Returns the id of the project in a folder, if it has one.
    pub fn project_in(&self, folder: &Path) -> Option<String> {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let mut ids = self.projects.keys();
        ids.find(|id| self.project(id).as_ref() == Some(&folder))
            .cloned()
    }

    /// Returns the absolute path of the team file, if the configuration names one.
    pub fn team(&self) -> Option<PathBuf> {
        self.run.team.as_ref().map(|path| self.folder().join(path))
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
            relayed: false,
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
            day: plan::DayBudget {
                llm_calls: self.budget.day.llm_calls.0,
                llm_tokens: self.budget.day.llm_tokens.0,
                cost_usd: self.budget.day.cost_usd.0,
            },
        }
    }

    /// Refuses settings that do not go with worktrees.
    fn check_isolation(&self, problems: &mut Vec<Problem>) {
        if self.run.isolation != Isolation::Worktree {
            return;
        }
        if self.run.session == SessionScope::Plan {
            let message = "`run.session` is \"plan\", but `run.isolation` is \"worktree\": a session stays in one folder";
            let hint = "set session = \"task\", or isolation = \"shared\"";
            problems.push(self.placed("run.session", Problem::new(message).with_hint(hint)));
        }
        if self.checks.contains_key(MERGE_CHECK) {
            let message = "[checks] defines `merge`, but `run.isolation` is \"worktree\": merging is the check of that name";
            let hint = "give that check another name";
            problems.push(self.placed("checks.merge", Problem::new(message).with_hint(hint)));
        }
    }

    /// Refuses checks that the configuration names but does not define. One whose definition is `wrong` is refused for that.
    fn check_names(&self, wrong: &[String], problems: &mut Vec<Problem>) {
        let defined = |name: &str| {
            let key = format!("checks.{name}");
            self.checks.contains_key(name) || wrong.iter().any(|wrong| key.starts_with(wrong))
        };
        let unknown = self.run.checks.iter().filter(|name| !defined(name));
        for name in unknown.take(read_config::MAX_ERRORS) {
            let message = format!("`run.checks` names `{name}`, which [checks] does not define");
            let define = || format!("define it: [checks] {name} = {{ run = [\"…\"] }}");
            let known = self.checks.keys().map(String::as_str);
            let hint = did_you_mean(name, known).unwrap_or_else(define);
            problems.push(self.placed("run.checks", Problem::new(message).with_hint(hint)));
        }
    }
}

#[cfg(test)]
mod tests;
