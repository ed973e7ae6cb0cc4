//! Which agent is to run: found, asked for its version, given what it may do. What is wrong with it is said here, once, before
//! there is anything that could fail.

use anyhow::anyhow;

use super::agent_probe::usable;
use super::args::{AgentArgs, FILES};
use super::model_choice::on_path;
use super::{App, Failure, Result};
use crate::agents::{Agent, Login, Permissions};
use crate::config::{Config, Environment};

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
            *program = config
                .folder()
                .join(&*program)
                .to_string_lossy()
                .into_owned();
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
    /// Returns what may keep an agent from reaching its model, as far as this can be seen without running it.
    pub fn doubt(&self, agent: &Agent) -> Option<String> {
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
