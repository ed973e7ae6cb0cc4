//! What commands that carry plans out are made of: the configuration, the prompts, the models, the folder with its lock, and
//! a plan file. Everything that can fail for reasons of the configuration fails here, before anything is made.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use rustix::fs::Access;

use super::args::Program;
use super::failure::{Exit, Failure};
use super::output::complain;
use super::planner::models;
use super::site::Site;
use super::team::TeamFile;
use super::{detach, logging, signals};
use crate::bounded;
use crate::config::{Config, Environment, Isolation, Planner};
use crate::daemon::{Hands, Hook, Hooks, Models, Patience, Settings};
use crate::exec::{self, Check, project_head};
use crate::llm::Prompts;
use crate::plan::{Head, NewTask, PlanId, Repository, Time};
use crate::store::Store;
use crate::tools::new_plan_id;
use crate::volumes::{DaemonLock, EXCHANGE, LockError, Volumes, VolumesError};
use crate::wire::Problem;
use crate::wire::plan_file::{self, PlanFile, Word};
use crate::wire::team::Team;

/// Returns what to do where something in the exchange folder cannot be used for a fault of this kind.
pub(super) fn way_out(fault: io::ErrorKind) -> &'static str {
    match fault {
        // A link, or something else that does not belong there.
        io::ErrorKind::InvalidData => {
            "remove it, or name another folder in config.toml: [volumes] root"
        }
        _ => "make it writable, or name another folder in config.toml: [volumes] root",
    }
}

/// What every command that carries out plans needs.
pub(super) struct Setup {
    pub config: Config,
    pub environment: Environment,
    pub program: Program,
    /// Who does the tasks, for commands that take a team.
    pub team: Option<TeamFile>,
}

impl Setup {
    /// Reads the configuration.
    ///
    /// # Errors
    /// What is wrong with it, or that there is none of that name.
    pub async fn load(file: Option<PathBuf>, environment: Environment) -> Result<Self, Failure> {
        signals::beside(move || {
            let config = Config::load(file.as_deref(), &environment)?;
            Ok(Self {
                config,
                environment,
                program: Program::with(file.as_deref()),
                team: None,
            })
        })
        .await
    }

    /// Reads the configuration of whoever looks at plans or controls them. If none is named, and neither this folder nor the
    /// environment has plans of its own: within an exchange folder (as an agent is in its workspace), that of the project
    /// around it; for tools and views also that of the folder for which a worker started this process.
    ///
    /// # Errors
    /// As [`Setup::load`].
    pub async fn near(
        file: Option<PathBuf>,
        environment: Environment,
        told: bool,
    ) -> Result<Self, Failure> {
        if file.is_some() {
            return Self::load(file, environment).await;
        }
        signals::beside(move || {
            let own = Config::load(None, &environment);
            let root = own.as_ref().map(Config::root).unwrap_or_default();
            let found = (!has_plans(&root) && !environment.overrides("volumes.root"))
                .then(|| exchange_folder(&environment, told))
                .flatten();
            let (config, program) = match found {
                Some(root) => {
                    let config = Config::around(&root, &environment)?;
                    let program = Program::within(config.folder());
                    (config, program)
                }
                None => (own?, Program::with(None)),
            };
            Ok(Self {
                config,
                environment,
                program,
                team: None,
            })
        })
        .await
    }

    /// Reads the team: that of a file, else the one that is configured, if there is one. What is wrong in the file is told with
    /// the rest that is wrong with it, by [`Crew::choose`](super::crew::Crew::choose).
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn with_team_to_man(self, file: Option<PathBuf>) -> Result<Self, Failure> {
        signals::beside(move || {
            let team = TeamFile::load(file.as_deref(), &self.config)?;
            Ok(Self { team, ..self })
        })
        .await
    }

    /// Reads the team: that of a file, else the one that is configured, if there is one.
    ///
    /// # Errors
    /// All that is wrong in its file.
    pub async fn with_team(self, file: Option<PathBuf>) -> Result<Self, Failure> {
        let setup = self.with_team_to_man(file).await?;
        if let Some(file) = &setup.team {
            file.refuse(file.problems.clone())?;
        }
        Ok(setup)
    }

    /// Starts the log of a command that keeps none of its own.
    ///
    /// # Errors
    /// The environment asks for a log that there is not.
    pub fn quiet(self) -> Result<Self, Failure> {
        logging::start(None, &self.environment)?;
        Ok(self)
    }

    /// Opens the plans for a command that keeps no log of its own.
    ///
    /// # Errors
    /// As [`Site::open`].
    pub async fn site(self) -> Result<Site, Failure> {
        Site::open(&self.quiet()?).await
    }

    /// Reads a plan file that is to be carried out in a workspace.
    pub(super) async fn read_plan(
        &self,
        path: &Path,
        workspace: &Path,
    ) -> Result<(Head, Vec<NewTask>), Failure> {
        let shown = path.display();
        let file = path.to_owned();
        let text = signals::beside(move || {
            bounded::read_file(&file, plan_file::MAX_BYTES)
                .with_context(|| format!("failed to read the plan file `{}`", file.display()))
                .map_err(Failure::usage)
        })
        .await?;
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy())
            .unwrap_or_default();
        let file = plan_file::parse(&name, &text)
            .map_err(|problems| unusable(&shown.to_string(), &problems))?;
        self.begin(file, &shown.to_string(), workspace)
    }

    /// Makes a plan of what a file says, if it can be carried out in a workspace.
    ///
    /// # Errors
    /// It names checks or roles that are not there, or files outside of the workspace.
    pub(super) fn begin(
        &self,
        file: PlanFile,
        shown: &str,
        workspace: &Path,
    ) -> Result<(Head, Vec<NewTask>), Failure> {
        let team = self.team.as_ref().map(|file| Arc::new(file.team.clone()));
        let problems = self.surroundings(workspace, team).misfits(&file);
        if !problems.is_empty() {
            return Err(unusable(shown, &problems));
        }
        let mut head = Head::new(new_plan_id(), &file.goal, Time::default());
        head.name = file.name;
        head.description = file.description;
        head.expected_outcome = file.expected_outcome;
        head.constraints = file.constraints;
        head.source = file.source;
        head.order = file.order.unwrap_or_default();
        Ok((head, file.tasks))
    }

    /// Returns what plan files have to fit that are carried out in a workspace, and by a team.
    pub(super) fn surroundings(&self, workspace: &Path, team: Option<Arc<Team>>) -> Surroundings {
        Surroundings {
            team,
            checks: self.config.checks.keys().cloned().collect(),
            workspace: workspace.to_owned(),
        }
    }

    /// Returns the folder that agents are to work in: the named one, else the one that is configured. Only the one in the
    /// exchange folder is made when it is missing.
    ///
    /// # Errors
    /// It is not there, is no folder, or cannot be written to.
    pub(super) fn workspace(&self, named: Option<&Path>) -> Result<String, Failure> {
        let path = named.map_or_else(|| self.config.workspace(), Path::to_owned);
        let path = std::path::absolute(&path)
            .with_context(|| format!("failed to find the workspace `{}`", path.display()))?;
        self.usable(&path)?;
        Ok(path.display().to_string())
    }

    /// Looks whether agents can work in a folder.
    ///
    /// # Errors
    /// As [`Self::workspace`].
    pub(super) fn usable(&self, workspace: &Path) -> Result<(), Failure> {
        let name = workspace.display();
        if !workspace.exists() {
            if workspace.starts_with(self.config.root()) {
                return Ok(());
            }
            return Err(
                Failure::usage(anyhow!("the workspace `{name}` does not exist"))
                    .hint("make the folder, or name another one: --workspace DIR"),
            );
        }
        if !workspace.is_dir() {
            return Err(
                Failure::usage(anyhow!("the workspace `{name}` is no folder"))
                    .hint("name a folder: --workspace DIR"),
            );
        }
        let access = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::access(workspace, access).map_err(|error| {
            let error = std::io::Error::from(error);
            Failure::usage(anyhow!(
                "the workspace `{name}` cannot be written to: {error}"
            ))
            .hint("make it writable, or name another one: --workspace DIR")
        })
    }

    /// Refuses a workspace in which tasks cannot have worktrees, if they are to have some.
    ///
    /// # Errors
    /// It is no git project, or git is missing or too old.
    pub(super) async fn check_project(&self, workspace: &str) -> Result<(), Failure> {
        match self.config.run.isolation {
            Isolation::Shared => Ok(()),
            Isolation::Worktree => usable_project(workspace, None).await,
        }
    }

    /// As [`Self::check_project`], for a plan that is there: what it began with counts.
    ///
    /// # Errors
    /// As [`Self::check_project`].
    pub(super) async fn check_project_of(
        &self,
        plan: &PlanId,
        store: &Store,
    ) -> Result<(), Failure> {
        let isolate = self.config.run.isolation == Isolation::Worktree;
        let (needed, workspace, known) = store
            .read(plan, move |plan, _| {
                let head = plan.head();
                let begins = isolate && plan.attempts().next().is_none();
                let needed = !head.status.settled() && (begins || head.line.is_some());
                let known = head.repository.clone().filter(|_| head.line.is_some());
                (needed, head.workspace.clone(), known)
            })
            .await?;
        match needed {
            true => usable_project(&workspace, known.map(|known| *known)).await,
            false => Ok(()),
        }
    }

    /// Makes everything that can fail for reasons of the configuration.
    pub(super) fn prepare(&self, planner: Planner) -> Result<Prepared<'_>, Failure> {
        let prompts = Prompts::load(Some(&self.config.prompts_dir())).map_err(|error| {
            let hint = error.hint();
            Failure::usage(error).hint(hint)
        })?;
        let models = models(&planner, &self.config)?;
        Ok(Prepared {
            config: &self.config,
            team: self.team.as_ref(),
            planner,
            prompts: Arc::new(prompts),
            models,
        })
    }

    /// Starts the log in the exchange folder.
    pub(super) fn log(&self, volumes: &Volumes) -> Result<(), Failure> {
        let file = volumes
            .path(crate::volumes::Folder::Logs)
            .join("daemon.log");
        logging::start(Some(&file), &self.environment)
    }

    /// Opens the exchange folder and takes it for this process.
    pub(super) async fn take(&self) -> Result<(DaemonLock, Site), Failure> {
        let volumes = self.volumes()?;
        let lock = self.lock(&volumes).await?;
        Ok((lock, Site::at(volumes, &self.program).await?))
    }

    /// As [`Self::take`], for the daemon that `--detach` leaves behind: it goes on with the lock of the process that started it.
    pub(super) async fn take_over(&self) -> Result<(DaemonLock, Site), Failure> {
        let volumes = self.volumes()?;
        let handed = match detach::handed_over()? {
            Some(file) => volumes.take_over(file)?,
            None => None,
        };
        let lock = match handed {
            Some(lock) => lock,
            None => self.lock(&volumes).await?,
        };
        Ok((lock, Site::at(volumes, &self.program).await?))
    }

    /// Opens the exchange folder, and makes what is not there.
    ///
    /// # Errors
    /// It cannot be written to.
    pub(super) fn volumes(&self) -> Result<Volumes, Failure> {
        Volumes::open(&self.config.root()).map_err(unusable_file)
    }

    async fn lock(&self, volumes: &Volumes) -> Result<DaemonLock, Failure> {
        let (volumes, program) = (volumes.clone(), self.program.clone());
        let lock = move || {
            volumes.lock().map_err(|error| match error {
                LockError::Held { .. } => {
                    let hint =
                        format!("`{program} status` shows its plan, `{program} stop` ends it");
                    let error = anyhow!("`{}`: {error}", volumes.root().display());
                    Failure::new(error, Exit::Busy).hint(hint)
                }
                LockError::Volumes(error) => unusable_file(error),
            })
        };
        signals::beside(lock).await
    }
}

pub(super) fn unusable_file(error: VolumesError) -> Failure {
    let hint = way_out(error.kind());
    Failure::failed(error).hint(hint)
}

/// What a plan file has to fit besides itself.
pub(super) struct Surroundings {
    team: Option<Arc<Team>>,
    checks: Vec<String>,
    workspace: PathBuf,
}

impl Surroundings {
    /// Returns what is wrong with a plan file here.
    pub(super) fn misfits(&self, file: &PlanFile) -> Vec<Problem> {
        let mut problems = file.unknown_checks(&self.checks.iter().map(String::as_str));
        let out = |file: &&Word| exec::leads_out(&self.workspace, &file.word);
        problems.extend(file.produced.iter().filter(out).map(|file| {
            let message = format!("`{}` leads out of the workspace through a link", file.word);
            file.problem(message)
                .with_hint("name a file that is in the workspace itself")
        }));
        if let Some(team) = &self.team {
            problems.extend(team.misfits_of_plan(file));
        }
        problems
    }
}

/// The configured parts, before it is known which plan they serve.
pub(super) struct Prepared<'a> {
    config: &'a Config,
    team: Option<&'a TeamFile>,
    planner: Planner,
    prompts: Arc<Prompts>,
    models: Option<Models>,
}

impl Prepared<'_> {
    fn hooks(&self) -> Hooks {
        let hooks = &self.config.hooks;
        let commands = [
            (Hook::Question, &hooks.on_question),
            (Hook::Finish, &hooks.on_finish),
            (Hook::Change, &hooks.on_change),
        ];
        let named = commands
            .into_iter()
            .filter_map(|(hook, argv)| Some((hook, argv.clone()?)));
        Hooks {
            commands: named.collect(),
            timeout: hooks.timeout,
            env: hooks.env.clone(),
            folder: self.config.folder().to_owned(),
        }
    }

    pub(super) async fn settings(
        &self,
        plan: &PlanId,
        site: &Site,
        lock: &DaemonLock,
        patience: Patience,
    ) -> Result<Settings, Failure> {
        let workspace = site
            .store
            .read(plan, |plan, _| plan.head().workspace.clone())
            .await?;
        let check = |(name, check): (&String, &crate::config::Check)| {
            let check = Check {
                name: name.clone(),
                argv: check.run.clone(),
                timeout: check.timeout,
                env: check.env.clone(),
            };
            (name.clone(), check)
        };
        Ok(Settings {
            volumes: site.volumes.clone(),
            lock: lock.place().clone(),
            plan: plan.clone(),
            workspace: PathBuf::from(workspace),
            isolate: self.config.run.isolation == Isolation::Worktree,
            policy: self.config.policy(&self.planner),
            prompts: Arc::clone(&self.prompts),
            language: self.config.run.language,
            models: self.models.clone(),
            checks: self.config.checks.iter().map(check).collect(),
            team: self.team.map(|file| Arc::new(file.team.clone())),
            role_prompts: Arc::new(
                self.team
                    .map(TeamFile::prompts_behind_files)
                    .unwrap_or_default(),
            ),
            timing: self.config.timing,
            patience,
            hands: Hands::none(),
            hooks: self.hooks(),
            program: site.program.to_string(),
            notice: Arc::new(|text| complain(&format!("! {text}\n"))),
        })
    }
}

async fn usable_project(workspace: &str, known: Option<Repository>) -> Result<(), Failure> {
    let head = project_head(Path::new(workspace), known).await;
    head.map(drop).map_err(|error| {
        let hint = error.hint();
        Failure::usage(error).hint(hint)
    })
}

/// Tells every problem of a file, each with its own hint, as a compiler does.
pub(super) fn unusable(file: &str, problems: &[Problem]) -> Failure {
    let told = problems.iter().map(|problem| {
        let hint = problem.hint.iter().map(|hint| format!("\nHint: {hint}"));
        problem.in_file(file) + &hint.collect::<String>()
    });
    Failure::usage(anyhow!(told.collect::<Vec<_>>().join("\nerror: ")))
}

/// Returns the exchange folder that this process runs in, else the one for which it was started if it may be `told`.
fn exchange_folder(environment: &Environment, told: bool) -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let within = here.ancestors().find(|root| has_plans(root));
    let told = environment.get(EXCHANGE).filter(|_| told).map(Path::new);
    let found = within.or(told.filter(|root| root.is_absolute() && has_plans(root)));
    found.map(Path::to_owned)
}

fn has_plans(root: &Path) -> bool {
    Volumes::at(root).is_ok_and(|volumes| volumes.database().exists())
}
