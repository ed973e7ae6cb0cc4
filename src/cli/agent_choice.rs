//! Which agent is to run: found, asked for its version, told what it may do. What is wrong with it is said here, once, before
//! there is anything that could fail.

use anyhow::anyhow;

use super::agent_probe::usable;
use super::app::App;
use super::args::{AgentArgs, AgentKind};
use super::failure::Failure;
use super::model_choice::{on_path, passed};
use crate::agents::{Agent, AgentRefusal, CodingAgentSetup, Login, Permissions};
use crate::config::Environment;

/// An agent that can be started.
#[derive(Debug)]
pub(super) struct Chosen {
    pub agent: Agent,
    /// What may keep it from doing anything.
    pub doubt: Option<String>,
}

impl AgentArgs {
    /// Returns the agent that is meant, if one is. Its program is looked for here and now: a path starts from the current
    /// folder, not from the one that the agent will work in.
    ///
    /// # Errors
    /// There is no such program, it is too old, or it cannot keep to what it is allowed.
    pub(super) async fn choose(&self, app: &App) -> Result<Option<Chosen>, Failure> {
        let Some(kind) = self.agent else {
            return Ok(None);
        };
        let environment = &app.environment;
        let mut argv = self.argv.clone();
        if let (AgentKind::Command, Some(program)) = (kind, argv.first_mut()) {
            let path = find_program(program, environment).ok_or_else(|| {
                Failure::usage(anyhow!("there is no program `{program}`"))
                    .hint("give its path, or install it where the PATH leads")
            })?;
            *program = path;
        }
        let agent = Agent::new(kind.name(), argv).map_err(|error| {
            Failure::usage(error)
                .hint("`--agent shell`, or `--agent command -- PROGRAM {prompt_file}`")
        })?;
        let agent = if self.allow_shell {
            agent.allow_shell()
        } else {
            agent
        };
        if !matches!(agent, Agent::Coding(_)) {
            return Ok(Some(Chosen { agent, doubt: None }));
        }
        let allow = Permissions::parse(&app.config.worker.allow);
        let allow = allow.map_err(|error| Failure::hinted(error, |error| error.hint()))?;
        let agent = agent.allowing(allow).map_err(unfit)?;
        let doubt = match &agent {
            Agent::Coding(coder) => examine(coder, app).await?,
            Agent::Command(_) | Agent::Shell(_) => None,
        };
        Ok(Some(Chosen { agent, doubt }))
    }
}

fn unfit(refusal: AgentRefusal) -> Failure {
    Failure::hinted(refusal, |refusal| refusal.way_out.clone())
}

/// Finds out whether an agent can work here, and returns why it may not reach a model.
async fn examine(coder: &CodingAgentSetup, app: &App) -> Result<Option<String>, Failure> {
    usable(coder.kind, &app.environment).await?;
    let variable = passed(coder.kind, &app.config, &app.environment);
    let root = rustix::process::geteuid().is_root();
    coder
        .kind
        .fits(&coder.allow, root, &variable)
        .map_err(unfit)?;
    Ok(match coder.kind.login(&variable) {
        Login::NotSeen(what) => {
            let name = coder.kind.name();
            Some(format!("{name} may not be logged in: {what}"))
        }
        Login::Found(_) | Login::Unknown => None,
    })
}

/// Returns where a program is: a name is looked for on the PATH and stays as it is.
pub(super) fn find_program(program: &str, environment: &Environment) -> Option<String> {
    if !program.contains('/') {
        return on_path(program, environment).map(|_| program.to_owned());
    }
    let path = std::path::absolute(program).ok()?;
    path.is_file().then(|| path.to_str().map(str::to_owned))?
}
