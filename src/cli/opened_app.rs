//! `App`: what a command opens, by the access that it needs. The configuration is read first, with the team where one may be
//! named; nothing is made and nothing is locked before all of that is known to be right.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use tokio::sync::OnceCell;

use super::{Exit, Failure, Output, Result, TeamArgs, TeamFile, beside, complain, logging};
use crate::config::{Config, ConfigError, Environment};
use crate::llm::PromptFiles;
use crate::plan::{Draft, Plan, PlanId, Refusal};
use crate::plan_time::Clock;
use crate::store::{ListedPlan, Lost, Store, StorePlace};
use crate::view::ProgramName;
use crate::volumes::{DaemonLock, EXCHANGE, Folder, LockError, Volumes};

/// The name under which changes from the command line are recorded.
pub const BY: &str = "command line";

/// What a command is started with.
pub struct CommandStart {
    /// The folder that was named instead of the current one; it is the current one by now.
    pub folder: Option<PathBuf>,
    /// The configuration file that is named.
    pub file: Option<PathBuf>,
    pub environment: Environment,
}

impl CommandStart {
    /// Returns what a person types to call this program in the same place.
    pub fn program(&self) -> ProgramName {
        ProgramName::with(self.folder.as_deref(), self.file.as_deref())
    }
}

/// What a command is to do, which decides where its plans are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads plans, or is a tool for them. Within an exchange folder (as an agent is in its workspace) they are those of
    /// the project around it, else those of the folder for which a worker started this process.
    Read,
    /// It controls plans. As [`Access::Read`], but what an agent starts for itself must not stop the daemon around it: only
    /// those of the project around.
    Control,
    /// It carries plans out, or does tasks: those of its own configuration.
    Run,
}

/// Everything that a command works with.
#[derive(Clone)]
pub struct App {
    pub config: Config,
    pub environment: Environment,
    /// What a person types to call this program here.
    pub program: ProgramName,
    /// Who does the tasks, for commands that take a team.
    pub team: Option<TeamFile>,
    /// How that team is named.
    pub team_args: TeamArgs,
    /// The person named the configuration on the command line.
    pub named: bool,
    /// The prompts that replace built-in ones: none before a person's trust in them is sure.
    pub prompts: PromptFiles,
    pub volumes: Volumes,
    /// Where the plans are.
    pub place: StorePlace,
    pub clock: Clock,
    /// Who makes its changes, for the log.
    pub by: &'static str,
    pub out: Output,
    store: OnceCell<Store>,
}

impl App {
    /// Reads the configuration: the named one; else, if neither this folder nor the environment has plans of its own, the one
    /// that the access leads to.
    ///
    /// # Errors
    /// What is wrong with it, or that there is none of that name.
    pub async fn open(start: &CommandStart, access: Access) -> Result<Self> {
        let (file, environment) = (start.file.clone(), start.environment.clone());
        let program = start.program();
        let mut app = beside(move || {
            let own = Config::load(file.as_deref(), &environment);
            let around = match &file {
                None if access != Access::Run => exchange_folder(&own, &environment, access),
                _ => None,
            };
            let Some(root) = around else {
                return Self::of(own?, environment, program);
            };
            let config = Config::around(&root, &environment)?;
            let program = ProgramName::with(Some(config.home().outer()), None);
            Self::of(config, environment, program)
        })
        .await?;
        app.named = start.file.is_some();
        Ok(app)
    }

    /// Starts the log of a command that keeps none of its own.
    ///
    /// # Errors
    /// The environment asks for a log that there is not.
    pub fn quiet(&self) -> Result {
        logging::start(None, &self.environment)
    }

    /// Takes a configuration that was read.
    ///
    /// # Errors
    /// It leads to no folder.
    pub fn of(config: Config, environment: Environment, program: ProgramName) -> Result<Self> {
        let volumes = Volumes::at(&config.root())?;
        // Notes and commands name the folder, as text.
        if volumes.root().to_str().is_none() {
            let error = anyhow!("the path `{}` is not UTF-8", volumes.root().display());
            return Err(Failure::usage(error).hint("give the folder another name"));
        }
        let place = StorePlace::configured(&config.store, volumes.database(), &environment);
        Ok(Self {
            place: place.map_err(Failure::usage)?,
            out: Output::stdout(&environment),
            volumes,
            config,
            environment,
            program,
            team: None,
            team_args: TeamArgs::default(),
            named: false,
            prompts: PromptFiles::default(),
            clock: Clock::start(),
            by: BY,
            store: OnceCell::new(),
        })
    }

    /// Reads the team: that of a file, else the one that is configured, if any. What is wrong in the file is refused with the rest
    /// that is wrong with the team, by [`TeamWorkers::choose`](super::worker_pools::TeamWorkers::choose).
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn load_team(&mut self, named: &TeamArgs) -> Result {
        self.team_args = named.clone();
        if let Some(path) = TeamFile::find(named.file.as_deref(), &self.config) {
            let config = self.config.clone();
            self.team = Some(beside(move || TeamFile::load(path, &config)).await?);
        }
        Ok(())
    }

    /// As [`App::load_team`], for commands that start no workers.
    ///
    /// # Errors
    /// All that is wrong in its file.
    pub async fn load_sound_team(&mut self, named: &TeamArgs) -> Result {
        self.load_team(named).await?;
        match &self.team {
            Some(file) => file.refuse(file.problems.clone()),
            None => Ok(()),
        }
    }

    /// Prints a line.
    ///
    /// # Errors
    /// That of the output.
    pub fn say(&self, line: &str) -> Result {
        self.out.line(line)
    }

    /// Opens the plans that are there; makes nothing.
    ///
    /// # Errors
    /// There are none yet, or the store cannot be opened.
    pub async fn store(&self) -> Result<&Store> {
        self.store_if_any().await?.ok_or_else(|| self.no_plans())
    }

    /// As [`App::store`]; `None` if there has never been a plan.
    ///
    /// # Errors
    /// The store cannot be opened, or is gone.
    pub async fn store_if_any(&self) -> Result<Option<&Store>> {
        let place = self.confirmed_place()?;
        match self.store.initialized() || place.exists()? {
            true => self.open_store().await.map(Some),
            false => Ok(None),
        }
    }

    /// Lists the plans; none if there has never been one.
    ///
    /// # Errors
    /// As [`App::store_if_any`].
    pub async fn plans(&self) -> Result<Vec<ListedPlan>> {
        match self.store_if_any().await? {
            Some(store) => Ok(store.plans().await?),
            None => Ok(Vec::new()),
        }
    }

    /// Opens the plans, and makes what is missing of the exchange folder. Where nothing can be written, the plans that are there
    /// can be read.
    ///
    /// # Errors
    /// The folder cannot be written to, or the store cannot be opened.
    pub async fn make_store(&self) -> Result<&Store> {
        self.make_home()?;
        let Err(error) = Volumes::open(self.volumes.root()) else {
            return self.open_own_store().await;
        };
        let denied = [ErrorKind::ReadOnlyFilesystem, ErrorKind::PermissionDenied];
        let place = self.confirmed_place()?;
        if !denied.contains(&error.kind()) || !place.exists()? {
            return Err(Failure::folder(error));
        }
        let open = async || {
            let store = place.open_to_read(self.clock.teller()).await?;
            Ok(store.of_home(&self.volumes.home()))
        };
        self.store.get_or_try_init(open).await
    }

    /// Reads a plan that is there, with the number of its last change.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub async fn read<T: Send + 'static>(
        &self,
        plan: &PlanId,
        read: impl FnOnce(&Plan, i64) -> T + Send + 'static,
    ) -> Result<T> {
        Ok(self.store().await?.read(plan, read).await?)
    }

    /// Changes a plan that is there, for the person at the command line.
    ///
    /// # Errors
    /// The change is refused, or cannot be stored.
    pub async fn change<T: Send + 'static>(
        &self,
        plan: &PlanId,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T> {
        let store = self.store().await?;
        Ok(store.change(plan, self.by, why, change).await?)
    }

    /// Locks the exchange folder for this process, and opens its plans. A daemon that `--detach` left behind goes on with the lock
    /// that was `handed` over to it.
    ///
    /// # Errors
    /// As [`App::make_store`], or another daemon has the folder.
    pub async fn take(&self, handed: Option<File>) -> Result<DaemonLock> {
        let lock = self.lock_folder(handed).await?;
        self.open_own_store().await?;
        Ok(lock)
    }

    /// Works with a store that is open already: one thread of a process owns a database.
    pub fn use_store(&mut self, store: Store) {
        self.store = OnceCell::new_with(Some(store));
    }

    /// Starts the log in the exchange folder.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn log(&self) -> Result {
        logging::start(Some(&self.log_file()), &self.environment)
    }

    /// Returns where the log of the daemon is.
    pub fn log_file(&self) -> PathBuf {
        self.volumes.path(Folder::Logs).join("daemon.log")
    }

    /// Makes the folder that everything lies in, if it is not there yet.
    ///
    /// # Errors
    /// Something else has its name, or it cannot be written.
    pub fn make_home(&self) -> Result {
        let made = self.config.home().clone().make(self.may_take_over());
        made.map_err(|error| self.no_home(&error))
    }

    /// Returns that the folder that everything would lie in cannot be used, and the way out.
    pub fn no_home(&self, error: &std::io::Error) -> Failure {
        let home = self.config.home();
        let error = anyhow!("`{}` cannot be used: {error}", home.folder().display());
        Failure::usage(error).hint(match home.is_by_hand() {
            Ok(true) => format!("`{} trust` shows it, and confirms that it is yours", self.program),
            _ => "give it another name, or name a configuration file that everything is to lie beside: --config FILE".to_owned(),
        })
    }

    pub fn no_plans(&self) -> Failure {
        let program = &self.program;
        let place = match self.place.is_shared() {
            true => self.place.to_string(),
            false => self.config.root().display().to_string(),
        };
        let hint = format!("`{program} run` makes one; `--config FILE` looks elsewhere");
        Failure::failed(anyhow!("there are no plans in `{place}`")).hint(hint)
    }

    /// Opens the store in which this folder's plans are made, and notes a shared one. What only reads may look into others.
    async fn open_own_store(&self) -> Result<&Store> {
        let store = self.open_store().await?;
        if self.place.is_shared() && self.volumes.root().is_dir() {
            let place = self.place.to_string();
            if let Some(other) = self.volumes.noted_store().filter(|noted| *noted != place) {
                complain!("! plans of this folder were in {other}; now they are in {place}");
            }
            self.volumes.note_store(&place)?;
        }
        Ok(store)
    }

    async fn open_store(&self) -> Result<&Store> {
        let open = async || {
            let store = self.confirmed_place()?.open(self.clock.teller()).await?;
            report_lost(store.lost());
            Ok::<_, Failure>(store.of_home(&self.volumes.home()))
        };
        self.store.get_or_try_init(open).await
    }

    /// Returns where the plans are, if they may be looked for there: a file of the project must lead no plan, and no password,
    /// to a place that the person has not confirmed.
    ///
    /// # Errors
    /// It is not confirmed; or the plans of this folder are elsewhere, and this process does not know how to get there.
    pub fn confirmed_place(&self) -> Result<&StorePlace> {
        if self.place.is_shared() {
            return match self.named || self.is_confirmed("store.url") {
                true => Ok(&self.place),
                false => {
                    let error = anyhow!(
                        "`store.url` leads to {}, which no person has confirmed",
                        self.place
                    );
                    let hint = format!("if you want that, `{} trust` confirms it", self.program);
                    Err(Failure::new(error, Exit::Waiting).hint(hint))
                }
            };
        }
        let Some(elsewhere) = self.volumes.noted_store() else {
            return Ok(&self.place);
        };
        let error =
            anyhow!("the plans of this folder are in {elsewhere}, and no `store.url` is set");
        Err(Failure::usage(error).hint(format!(
            "set PLAN_AGENT_STORE_URL, or [store] url in config.toml; to begin anew in a file, remove `{}`",
            self.volumes.store_note().display()
        )))
    }

    /// Makes the exchange folder, and locks it for this process, which may have the lock already.
    ///
    /// # Errors
    /// As [`App::take`].
    pub async fn lock_folder(&self, handed: Option<File>) -> Result<DaemonLock> {
        self.make_home()?;
        Volumes::open(self.volumes.root()).map_err(Failure::folder)?;
        let adopted = handed.map(|file| self.volumes.adopt(file)).transpose()?;
        if let Some(lock) = adopted.flatten() {
            return Ok(lock);
        }
        let (volumes, program) = (self.volumes.clone(), self.program.clone());
        beside(move || match volumes.lock() {
            Ok(lock) => Ok(lock),
            Err(LockError::Volumes(error)) => Err(Failure::folder(error)),
            Err(error) => {
                let error = anyhow!("`{}`: {error}", volumes.root().display());
                let hint = format!("`{program} status` shows its plan, `{program} stop` ends it");
                Err(Failure::new(error, Exit::Busy).hint(hint))
            }
        })
        .await
    }
}

/// Returns the exchange folder that this process runs in, else the one for which it was started if it only reads; none if its
/// own configuration has plans.
fn exchange_folder(
    own: &Result<Config, ConfigError>,
    environment: &Environment,
    access: Access,
) -> Option<PathBuf> {
    let root = own.as_ref().map(Config::root).unwrap_or_default();
    if has_plans(&root) || environment.overrides("volumes.root") {
        return None;
    }
    let here = std::env::current_dir().ok()?;
    let within = here.ancestors().find(|root| has_plans(root));
    let named = environment.get(EXCHANGE).map(Path::new);
    let named = named.filter(|root| access == Access::Read && root.is_absolute());
    let root = within.or(named.filter(|root| has_plans(root)));
    root.map(Path::to_owned)
}

fn has_plans(root: &Path) -> bool {
    let has = |volumes: Volumes| volumes.database().exists() || volumes.store_note().exists();
    Volumes::at(root).is_ok_and(has)
}

/// Says which changes the database has lost.
fn report_lost(lost: &[Lost]) {
    let Some((first, others)) = lost.split_first() else {
        return;
    };
    let others = match others.len() {
        0 => String::new(),
        1 => "; so did another plan".to_owned(),
        others => format!("; so did {others} other plans"),
    };
    complain!(
        "warning: {first}{others}\nHint: put a newer copy of it back if there is one; the next change goes on from what is there"
    );
}
