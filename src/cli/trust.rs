//! Trust: what runs programs or widens rights counts only in the version that a person named on the command line or confirmed.
//! Everything is read once, held against the records of the person, and used as it was read.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

use super::{
    App, CommandStart, Exit, Failure, Output, Result, TeamFile, beside, can_ask, complain, confirm,
    shown_from_here,
};
use crate::config::{Config, Environment, FILE_NAME};
use crate::foreign_files;
use crate::llm::PromptFiles;
use crate::trust::{ConfirmedRecords, Parts, content_hash, is_hash};
use crate::view::ProgramName;
use crate::volumes::EXCHANGE;
use crate::wire::{has_word, joined, one_line};

/// Characters that are shown of a setting, and settings of a file.
const MOST_SHOWN: usize = 2_000;
const MOST_LINES: usize = 100;
/// Bytes of a program in the project that count.
const MOST_PROGRAM: u64 = 64 * 1024 * 1024;
/// What is confirmed with a folder that only a configuration is in.
const BY_HAND: &str = "config.toml in it, which plan-agent did not write";

/// A file or a folder that agents, or a stranger, could have written.
struct Subject {
    path: PathBuf,
    does: &'static str,
    /// What counts of it, as it was read.
    parts: Parts,
    /// What was confirmed of it, or why that is not known.
    before: io::Result<Option<Parts>>,
    /// The person named it for this run.
    named: bool,
}

/// The commands that do not control, answer, take over or configure: agents may use them.
const FOR_AGENTS: &str =
    "plans status show why diff log logs outcomes tools tool mcp doctor completions";

/// Refuses, in the environment that agents get, what only a person may do.
///
/// # Errors
/// The command of this name is no [`FOR_AGENTS`].
pub fn refuse_agents(command: &str, environment: &Environment) -> Result {
    if environment.get(EXCHANGE).is_none() || has_word(FOR_AGENTS, command) {
        return Ok(());
    }
    let error = anyhow!(
        "`{command}` is for a person, and {EXCHANGE} is set: this is the environment of an agent"
    );
    Err(Failure::usage(error).hint("`status`, `show`, `why`, `log` and `tool` work here"))
}

/// Shows what a configuration runs and allows, and confirms it; a person at a terminal is asked first.
pub async fn trust(path: Option<PathBuf>, start: &CommandStart, output: Output) -> Result {
    let (named, environment) = (start.file.clone(), start.environment.clone());
    let app = beside(move || {
        let config = match path.as_deref() {
            Some(folder) if folder.is_dir() => {
                Config::in_folder(&std::path::absolute(folder)?, &environment)
            }
            file => Config::load(file.or(named.as_deref()), &environment),
        };
        App::to_confirm(config?, environment)
    });
    let app = app.await?;
    let open = app.unconfirmed(false);
    if open.is_empty() {
        return output.line("nothing here waits to be confirmed");
    }
    output.prose(&format!("{}\n", listed(&open)))?;
    if can_ask() && !confirm("Confirm it?").await? {
        return Err(Failure::new(anyhow!("nothing is confirmed"), Exit::Waiting));
    }
    let kept = app.keep(&open);
    kept.context("failed to keep what was confirmed")?;
    output.line("confirmed")
}

/// Confirms, for the person, what the configuration in a folder runs and allows as it is now, without asking.
///
/// # Errors
/// The text of what is wrong with it, or why this cannot be kept.
pub fn trust_folder(folder: &Path, environment: &Environment) -> Result<(), String> {
    let keep = || {
        let app = App::to_confirm(Config::in_folder(folder, environment)?, environment.clone())?;
        Ok(app.keep(&app.unconfirmed(false))?)
    };
    keep().map_err(|failure: Failure| failure.text())
}

impl App {
    /// Makes sure that a person named or confirmed everything that would run programs or widen rights, as it was read; asks where
    /// it may. From now on the prompts are those of the configuration.
    ///
    /// # Errors
    /// It is not confirmed, or a prompt cannot be read.
    pub async fn require_trust(&mut self, may_ask: bool) -> Result {
        let by_hand = self.config.home().is_by_hand();
        by_hand.map_err(|error| self.no_home(&error))?;
        self.read_prompts().await?;
        let open = self.unconfirmed(self.named);
        let (named, open): (Vec<_>, Vec<_>) = open.into_iter().partition(|subject| subject.named);
        // What is named counts without a record, too.
        self.keep(&named).ok();
        if open.is_empty() {
            return Ok(());
        }
        if !may_ask || !can_ask() {
            // A team that the plan remembers is in no configuration.
            let team = self.team.as_ref().filter(|_| self.team_args.recalled);
            let is_open = |path: &&PathBuf| open.iter().any(|subject| subject.path == **path);
            let way = match team.map(|team| &team.path).filter(is_open) {
                Some(path) => format!("resume --team {}` names it", shown_from_here(path)),
                None if open.iter().all(|subject| subject.before.is_ok()) => {
                    "trust` confirms it".to_owned()
                }
                None => "--config FILE` names it for one run".to_owned(),
            };
            let hint = format!("if you want that, `{} {way}", self.program);
            return Err(Failure::new(anyhow!(listed(&open)), Exit::Waiting).hint(hint));
        }
        complain!("{}", listed(&open));
        if !confirm("Go on with that?").await? {
            return Err(Failure::new(anyhow!("nothing was started"), Exit::Waiting));
        }
        if let Err(error) = self.keep(&open) {
            let again = "! you are asked again next time: this cannot be kept";
            complain!("{again}: {error}");
        }
        Ok(())
    }

    /// As [`App::require_trust`] in a process that another one started; `handed` is the fingerprint of what that one made sure of.
    /// What a person has confirmed since then counts, too, if it `may_be_newer`.
    ///
    /// # Errors
    /// It has changed meanwhile.
    pub async fn require_same(&mut self, handed: &str, may_be_newer: bool) -> Result {
        self.read_prompts().await?;
        if self.fingerprint() == handed || may_be_newer && self.unconfirmed(false).is_empty() {
            return Ok(());
        }
        let error = anyhow!("the configuration has changed since it was confirmed");
        let hint = format!("if you want that, `{} trust` confirms it", self.program);
        Err(Failure::new(error, Exit::Waiting).hint_if(may_be_newer, hint))
    }

    /// Returns what stands for everything here that has to be confirmed.
    pub fn fingerprint(&self) -> String {
        let parts = self.subjects(true).into_iter().map(|subject| subject.parts);
        content_hash(format!("{:?}", parts.collect::<Vec<_>>()))
    }

    /// Leaves out the hooks, and says so, unless they are trusted: what is left to do needs none.
    pub async fn hooks_if_trusted(&mut self) {
        if self.require_trust(false).await.is_ok() {
            return;
        }
        self.prompts = PromptFiles::default();
        let Config { hooks, notify, .. } = Config::default();
        let some = hooks != self.config.hooks || notify != self.config.notify;
        (self.config.hooks, self.config.notify) = (hooks, notify);
        if some {
            complain!("! hooks are left out: the configuration is not what was confirmed");
        }
    }

    /// Returns whether [`App::require_trust`] would ask, for a command that runs nothing then.
    pub fn is_unconfirmed(&self) -> bool {
        let open = self.unconfirmed(self.named);
        open.iter().any(|subject| !subject.named)
    }

    /// Returns whether a setting is the person's word: it is not of the file, or it is as it was confirmed.
    pub fn is_confirmed(&self, key: &str) -> bool {
        let Some(now) = self.config.sensitive().get(key) else {
            return true;
        };
        let confirmed = self.confirmed(&self.file_to_confirm());
        self.environment.overrides(key)
            || confirmed.is_ok_and(|parts| parts.is_some_and(|parts| parts.get(key) == Some(now)))
    }

    /// Returns the configuration file, also where there is none.
    fn file_to_confirm(&self) -> PathBuf {
        let file = self.config.file().and_then(Path::file_name);
        (self.config.folder()).join(file.unwrap_or(FILE_NAME.as_ref()))
    }

    /// Returns whether a person has confirmed that a folder with a configuration written by hand becomes plan-agent's.
    pub fn may_take_over(&self) -> bool {
        matches!(self.confirmed(self.config.home().folder()), Ok(Some(_)))
    }

    /// Forgets what was confirmed here, for files that are removed.
    ///
    /// # Errors
    /// A record cannot be removed.
    pub fn forget_confirmed(&self) -> io::Result<()> {
        let records = self.records()?;
        let subjects = self.subjects(false).into_iter().map(|subject| subject.path);
        let mut paths = subjects.chain([self.config.home().folder().to_owned()]);
        paths.try_for_each(|path| records.remove(&path))
    }

    async fn read_prompts(&mut self) -> Result {
        let dir = self.config.prompts_dir();
        self.prompts = beside(move || Ok(PromptFiles::read(&dir)?)).await?;
        Ok(())
    }

    /// Reads everything that the configuration names.
    fn to_confirm(config: Config, environment: Environment) -> Result<Self> {
        let mut app = Self::of(config, environment, ProgramName::with(None, None))?;
        if let Some(path) = TeamFile::find(None, &app.config) {
            app.team = Some(TeamFile::load(path, &app.config)?);
        }
        app.prompts = PromptFiles::read(&app.config.prompts_dir())?;
        Ok(app)
    }

    /// Returns the records of what the person has confirmed here.
    ///
    /// # Errors
    /// There is no place for them.
    pub fn records(&self) -> io::Result<ConfirmedRecords> {
        let workspace = self.config.workspace();
        ConfirmedRecords::outside_of(&[self.config.folder(), &workspace], &self.environment)
    }

    /// Returns what was confirmed of a file.
    ///
    /// # Errors
    /// It is not known.
    pub fn confirmed(&self, path: &Path) -> io::Result<Option<Parts>> {
        self.records()?.get(path)
    }

    fn keep(&self, confirmed: &[Subject]) -> io::Result<()> {
        let mut confirmed = confirmed.iter();
        confirmed.try_for_each(|subject| self.records()?.put(&subject.path, &subject.parts))
    }

    /// Keeps that a person has confirmed what there is now, such as what was written for them.
    ///
    /// # Errors
    /// It cannot be kept.
    pub fn confirm_as_it_is(&self) -> io::Result<()> {
        self.keep(&self.unconfirmed(false))
    }

    /// Returns what is not as a person confirmed it. If the configuration is `named`, so is everything that it names.
    fn unconfirmed(&self, named: bool) -> Vec<Subject> {
        let mut subjects = self.subjects(named);
        if self.config.home().is_by_hand().unwrap_or_default() {
            let path = self.config.home().folder().to_owned();
            subjects.push(Subject {
                before: self.confirmed(&path),
                path,
                does: "becomes the folder of plan-agent",
                parts: Parts::from([(BY_HAND.to_owned(), content_hash(""))]),
                named: false,
            });
        }
        subjects.retain(|subject| match &subject.before {
            Ok(Some(before)) => *before != subject.parts,
            Ok(None) | Err(_) => !subject.parts.is_empty(),
        });
        subjects
    }

    /// Returns the configuration, the prompts and the team, as they were read.
    fn subjects(&self, named: bool) -> Vec<Subject> {
        let config = &self.config;
        let subject = |path: PathBuf, does, parts, key: Option<&str>| Subject {
            before: self.confirmed(&path),
            named: named || key.is_some_and(|key| self.environment.overrides(key)),
            path,
            does,
            parts,
        };
        let file = self.file_to_confirm();
        let mut settings = config.sensitive().clone();
        settings.extend(self.programs());
        let prompts = self.prompts.replaced();
        let prompts = prompts.map(|(name, text)| (name, content_hash(text)));
        let (dir, prompts) = (config.prompts_dir(), prompts.collect());
        let told = "replaces what models and agents are told";
        let mut subjects = vec![
            subject(file, "runs programs or widens rights", settings, None),
            subject(dir, told, prompts, Some("prompts.dir")),
        ];
        if let Some(team) = &self.team {
            let (path, parts) = (team.path.clone(), team.parts.clone());
            let team = subject(path, "says who works, and how", parts, Some("run.team"));
            let args = &self.team_args;
            let named = team.named || args.file.is_some() && !args.recalled;
            subjects.push(Subject { named, ..team });
        }
        subjects
    }

    /// Returns the programs of the project that hooks and servers name, since agents could change what these run. What a check
    /// runs is the project itself, which agents are to change.
    fn programs(&self) -> Parts {
        let (config, workspace) = (&self.config, self.config.workspace());
        let hooks = &config.hooks;
        let hooks = [&hooks.on_question, &hooks.on_finish, &hooks.on_change];
        let hooks = hooks.into_iter().flatten();
        let servers = config.mcp.values().map(|server| &server.command);
        let agent = [&config.worker.agent].into_iter();
        let named = (hooks.chain(agent).map(|argv| (argv, config.folder())))
            .chain(servers.map(|argv| (argv, &*workspace)));
        let words = named.flat_map(|(argv, folder)| argv.iter().map(move |word| (word, folder)));
        let hashed = words.filter_map(|(word, folder)| {
            let real = folder.join(word).canonicalize().ok()?;
            let within = |folder: &Path| folder.canonicalize().is_ok_and(|it| real.starts_with(it));
            if !within(config.folder()) && !within(&workspace) {
                return None;
            }
            let mode = real.metadata().ok()?.permissions().mode();
            let content = foreign_files::read_beginning(&real, MOST_PROGRAM).ok()?;
            // Other files that are named may be what the program writes.
            let program = mode & 0o111 != 0 || content.starts_with(b"#!");
            program.then(|| (format!("the file `{word}`"), content_hash(content)))
        });
        hashed.collect()
    }
}

fn listed(open: &[Subject]) -> String {
    let paragraph = |subject: &Subject| {
        let (path, does) = (shown_from_here(&subject.path), subject.does);
        let (state, before) = match &subject.before {
            Ok(None) => ("no person has confirmed it".to_owned(), None),
            Ok(before) => ("it is not what was confirmed".to_owned(), before.as_ref()),
            Err(error) => (format!("what was confirmed is not known ({error})"), None),
        };
        let mut lines = changes(before, &subject.parts);
        let more = lines.len().saturating_sub(MOST_LINES);
        lines.truncate(MOST_LINES);
        lines.extend((more > 0).then(|| format!("  … and {more} more: look into it")));
        format!("`{path}` {does}, and {state}:\n{}", lines.join("\n"))
    };
    joined(open.iter().map(paragraph), "\n")
}

/// Returns the parts that there are, or those that have changed, a line each.
fn changes(before: Option<&Parts>, now: &Parts) -> Vec<String> {
    let (none, new) = (Parts::new(), before.map_or(" ", |_| "+"));
    let before = before.unwrap_or(&none);
    let line = |mark: &str, key: &str, value: &String| {
        let text = match is_hash(value) {
            true => key.to_owned(),
            false => format!("{key} = {value}"),
        };
        format!("  {mark} {}", one_line(&text, MOST_SHOWN))
    };
    let keys: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let lines = keys.into_iter().flat_map(|key| {
        let of = |mark, value: Option<&String>| value.map(|value| line(mark, key, value));
        match (before.get(key), now.get(key)) {
            (was, is) if was == is => [None, None],
            // Both would look alike.
            (Some(_), Some(is)) if is_hash(is) => [None, of("~", Some(is))],
            (was, is) => [of("-", was), of(new, is)],
        }
    });
    lines.flatten().collect()
}
