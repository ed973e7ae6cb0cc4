//! Which agent is to run: found, asked for its version, given what it may do. What is wrong with it is said here, once, before
//! there is anything that could fail.

use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;

use super::{AgentArgs, App, FILES, Failure, Result, on_path};
use crate::agents::{Agent, CodingAgent, Login, Permissions, ProgramVersion};
use crate::config::{Config, Environment};
use crate::exec::{self, ChildOutput, ChildSpec};
use crate::wire::one_line;

/// Some of the programs take seconds to start on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the output that are read.
const MAX_OUTPUT: usize = 4096;

impl AgentArgs {
    /// Returns the agent that is named on the command line, else the configured one, whose path starts from the configuration.
    pub fn or_configured(&self, config: &Config) -> Self {
        let ([name, argv @ ..], None) = (&*config.worker.agent, &self.agent) else {
            return self.clone();
        };
        let mut argv = argv.to_vec();
        if let ("command", Some(program)) = (name.as_str(), argv.first_mut())
            && program.contains('/')
        {
            let path = config.folder().join(&*program);
            *program = path.to_string_lossy().into_owned();
        }
        Self {
            agent: Some(name.clone()),
            argv,
            ..self.clone()
        }
    }

    /// Returns the agent that is named, if one is. Its program is looked for here and now: a path starts from the current
    /// folder, not from the one that the agent will work in.
    ///
    /// # Errors
    /// There is no such program, it is too old, or it cannot keep to what it is allowed.
    pub async fn choose(&self, app: &App) -> Result<Option<Agent>> {
        let Some(name) = self.agent.as_ref().filter(|name| *name != FILES) else {
            return Ok(None);
        };
        let mut argv = self.argv.clone();
        if let ("command", Some(program)) = (name.as_str(), argv.first_mut()) {
            *program = find_program(program, &app.environment).ok_or_else(|| {
                Failure::usage(anyhow!("there is no program `{program}`"))
                    .hint("give its path, or install it where the PATH leads")
            })?;
        }
        let mut agent = Agent::new(name, argv).map_err(|error| {
            Failure::usage(error)
                .hint("`--agent shell`, or `--agent command -- PROGRAM {prompt_file}`")
        })?;
        if self.allow_shell {
            agent = agent.allow_shell();
        }
        let Some(kind) = agent.kind() else {
            return Ok(Some(agent));
        };
        let allow = Permissions::parse(&app.config.worker.allow)?;
        let agent = agent.allowing(allow.clone())?;
        usable(kind, &app.environment).await?;
        let root = rustix::process::geteuid().is_root();
        (kind.fits)(&allow, root, &app.passed(kind))?;
        Ok(Some(agent))
    }
}

impl App {
    /// Returns what may keep an agent from its work, as far as this can be seen without running it.
    pub fn doubt(&self, agent: &Agent) -> Option<String> {
        if let Agent::Command(line) = agent {
            let (word, meant) = line.misspelt()?;
            let word = one_line(word, 40);
            return Some(format!(
                "`{word}` stands for nothing: did you mean `{meant}`?"
            ));
        }
        let kind = agent.kind()?;
        match self.login(kind) {
            Login::NotSeen(what) => Some(format!("{} may not be logged in: {what}", kind.name)),
            Login::Found(_) | Login::Unknown => None,
        }
    }
}

/// Returns where a program is: a name is looked for on the PATH and stays as it is.
fn find_program(program: &str, environment: &Environment) -> Option<String> {
    if !program.contains('/') {
        return on_path(program, environment).map(|_| program.to_owned());
    }
    let path = std::path::absolute(program).ok()?;
    path.is_file().then(|| path.to_str().map(str::to_owned))?
}

/// The program of a coding agent that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub path: PathBuf,
    /// Its version, or what it printed instead of one.
    pub version: Result<ProgramVersion, String>,
}

/// Runs an agent's program with `--version`; `None` if it is not installed.
pub async fn probe(agent: &'static CodingAgent, environment: &Environment) -> Option<Probe> {
    let path = on_path(agent.name, environment)?;
    let version = |text: String| ProgramVersion::find(&text).ok_or_else(|| one_line(&text, 200));
    let version = version_text(&path).await.and_then(version);
    Some(Probe { path, version })
}

/// Makes sure that an agent can be started.
///
/// # Errors
/// Says what is in the way.
pub async fn usable(agent: &'static CodingAgent, environment: &Environment) -> Result {
    let (name, install, least) = (agent.name, agent.install, agent.least);
    let Some(Probe { path, version }) = probe(agent, environment).await else {
        let other = "or choose another one: `plan-agent doctor` shows which there are";
        let error = anyhow!("the coding agent `{name}` is not installed");
        return Err(Failure::usage(error).hint(format!("`{install}`, {other}")));
    };
    let (wrong, hint) = match version {
        Ok(version) if version >= least => return Ok(()),
        Ok(version) => {
            let old = format!("too old: it is {version}, and {least} is needed");
            let old = format!("the coding agent `{name}` is {old}");
            (old, format!("`{install}`"))
        }
        Err(said) => {
            let path = path.display();
            let hint = format!("does `{name}` run by hand? `{install}` installs it anew");
            (format!("`{path} --version` tells no version: {said}"), hint)
        }
    };
    Err(Failure::usage(anyhow!(wrong)).hint(hint))
}

async fn version_text(path: &Path) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| one_line(&error.to_string(), 200);
    let output = ChildOutput::nameless_apart().map_err(|error| failed(&error))?;
    // Neither looks for updates nor changes itself.
    let no_updates = ["DISABLE_AUTOUPDATER", "OPENCODE_DISABLE_AUTOUPDATE"];
    let set = no_updates.map(|name| (name.to_owned(), "1".to_owned()));
    let spec = ChildSpec {
        argv: vec![path.to_string_lossy().into_owned(), "--version".into()],
        cwd: std::env::temp_dir(),
        env: exec::environment_of_agent(&[], "", set.to_vec()),
        stdin: None,
        deadline: TIMEOUT,
    };
    let outcome = exec::run(&spec, &output, |_| {}, pending()).await;
    let outcome = outcome.map_err(|error| failed(&format!("{:#}", anyhow::Error::new(error))))?;
    if outcome.timed_out {
        return Err(format!("it did not answer within {TIMEOUT:?}"));
    }
    let printed = output.out_since(0, MAX_OUTPUT);
    if !printed.trim().is_empty() {
        return Ok(printed);
    }
    match output.err_since(0, MAX_OUTPUT).trim() {
        "" => Err("it said nothing".into()),
        err => Err(one_line(err, 200)),
    }
}
