//! Which agent is to run: found, asked for its version, told what it may do. What is wrong with it is said here, once, before
//! there is anything that could fail.

use std::ffi::OsString;
use std::future::pending;
use std::time::Duration;

use anyhow::anyhow;

use super::args::{Agent as AgentArgs, AgentKind};
use super::doctor::on_path;
use super::failure::Failure;
use super::output::complain;
use super::setup::Setup;
use crate::agents::{Agent, Allow, Coder, Coding, Login, Unfit};
use crate::config::Environment;
use crate::exec::{self, Output, Spec, Stdin};
use crate::wire::text::one_line;

/// A program that takes longer to say its version works all the same, as far as is known.
const VERSION_TIME: Duration = Duration::from_secs(20);

impl AgentArgs {
    /// Returns the agent that is meant, if one is. Its program is looked for here and now: a path starts from the current
    /// folder, not from the one that the agent will work in.
    ///
    /// # Errors
    /// There is no such program, it is too old, or it cannot keep to what it is allowed.
    pub(super) async fn choose(&self, setup: &Setup) -> Result<Option<Agent>, Failure> {
        let Some(kind) = self.agent else {
            return Ok(None);
        };
        let environment = &setup.environment;
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
            return Ok(Some(agent));
        }
        let allow = Allow::parse(&setup.config.worker.allow).map_err(|error| {
            let hint = error.hint();
            Failure::usage(error).hint(hint)
        })?;
        let agent = agent.allowing(allow).map_err(unfit)?;
        if let Agent::Coding(coder) = &agent {
            examine(coder, setup).await?;
        }
        Ok(Some(agent))
    }
}

fn unfit(unfit: Unfit) -> Failure {
    let way_out = unfit.way_out.clone();
    Failure::usage(unfit).hint(way_out)
}

/// Finds out whether an agent can work here, and warns if it may not reach a model.
async fn examine(coder: &Coder, setup: &Setup) -> Result<(), Failure> {
    let program = coder.kind.program();
    let environment = &setup.environment;
    let name = program.name;
    if on_path(name, environment).is_none() {
        let others: Vec<&str> = Coding::ALL
            .into_iter()
            .map(Coding::name)
            .filter(|other| on_path(other, environment).is_some())
            .collect();
        let others = match others.as_slice() {
            [] => String::new(),
            others => format!("; installed: {}", others.join(", ")),
        };
        return Err(
            Failure::usage(anyhow!("the agent `{name}` is not installed"))
                .hint(format!("`{}`{others}", program.install)),
        );
    }
    let named: Vec<String> = setup
        .config
        .worker
        .env
        .iter()
        .cloned()
        .chain(program.env.iter().map(ToString::to_string))
        .collect();
    let env = exec::environment(&named);
    let variable = |wanted: &str| {
        env.iter()
            .find(|(name, _)| name == wanted)
            .and_then(|(_, value)| value.to_str())
            .filter(|value| !value.is_empty())
            .map(str::to_owned)
    };
    let root = rustix::process::geteuid().is_root();
    coder
        .kind
        .fits(&coder.allow, root, &variable)
        .map_err(unfit)?;
    let printed = version_of(name, env.clone()).await.map_err(|why| {
        Failure::usage(anyhow!("`{name} --version` fails: {why}"))
            .hint(format!("mend its installation: `{}`", program.install))
    })?;
    let version = printed
        .as_deref()
        .and_then(|printed| coder.kind.version(printed));
    if let Some(version) = version.filter(|version| *version < program.least) {
        return Err(Failure::usage(anyhow!(
            "the agent `{name}` {version} is too old: {} is needed",
            program.least
        ))
        .hint(format!("`{}`", program.install)));
    }
    if let Login::NotSeen(what) = coder.kind.login(&variable) {
        complain(&format!("! {name} may not be logged in: {what}\n"));
    }
    Ok(())
}

/// Asks a program for its version; `None` if it does not say it in time.
async fn version_of(name: &str, env: Vec<(OsString, OsString)>) -> Result<Option<String>, String> {
    let spec = Spec {
        argv: vec![name.to_owned(), "--version".to_owned()],
        cwd: std::env::temp_dir(),
        env,
        stdin: Stdin::Nothing,
        deadline: VERSION_TIME,
    };
    let output = Output::nameless().map_err(|error| error.to_string())?;
    let ended = exec::run(&spec, &output, |_| {}, pending()).await;
    let ended = ended.map_err(|error| format!("{:#}", anyhow!(error)))?;
    let printed = output.out_since(0, 4096);
    if ended.timed_out {
        Ok(None)
    } else if ended.success() {
        Ok(Some(printed))
    } else {
        Err(one_line(&printed, 300))
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
